//! A client of the Hive metastore: the few calls that reading needs, with timeouts, over several addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dipper_node::error::{EngineError, ErrorKind, Result};
use parking_lot::Mutex;
use tokio::net::TcpStream;

use super::api::{GetTableResult, Partition, Table, TableMeta};
use super::thrift::{Arguments, Connection, Ignored, Returned, ThriftError, Wire};
use crate::catalogs::properties;

/// Default port of a metastore.
const PORT: u16 = 9083;

/// Timeout of connecting to a metastore.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of a call, unless `hive.metastore.client.socket.timeout` sets another.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Idle connections to an address that are kept for later calls.
const IDLE_MAX: usize = 8;

/// A client of one metastore, which is reachable at one or more equivalent addresses.
pub(super) struct Client {
    addresses: Vec<Address>,
    /// Index of the address that answered last.
    current: AtomicUsize,
    timeout: Duration,
}

struct Address {
    uri: String,
    host: String,
    port: u16,
    /// Connections that no call is using.
    idle: Mutex<Vec<Connection>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("uris", &self.uris()).finish_non_exhaustive()
    }
}

/// A call of a metastore method.
struct Call<'a> {
    /// Description of the wanted object, for messages.
    what: &'a str,
    method: &'static str,
    arguments: Arguments,
    /// Number of the exception by which the method says that the object does not exist; 0 if it has none.
    missing: i16,
}

/// The answer of a call.
enum Answer<T> {
    Found(T),
    /// The object does not exist.
    Missing,
    /// The metastore has no such method.
    Unknown,
}

impl<T> Answer<T> {
    fn found(self) -> Option<T> {
        match self {
            Answer::Found(found) => Some(found),
            Answer::Missing | Answer::Unknown => None,
        }
    }
}

impl Client {
    /// Makes a client for `hive.metastore.uris`. It connects with the first call.
    pub(super) fn new(properties: &BTreeMap<String, String>) -> Result<Client> {
        let uris = properties::first(properties, &["hive.metastore.uris"]).ok_or_else(|| {
            EngineError::invalid(
                "a Hive catalog needs 'hive.metastore.uris' = 'thrift://host:port', or several with commas between",
            )
        })?;
        let addresses = uris.split(',').map(|uri| address(uri.trim())).collect::<Result<Vec<_>>>()?;
        let sasl = properties.get("hive.metastore.sasl.enabled").is_some_and(|v| v.eq_ignore_ascii_case("true"));
        let kerberos =
            properties::first(properties, &["hive.metastore.authentication.type", "hadoop.security.authentication"])
                .is_some_and(|v| v.eq_ignore_ascii_case("kerberos"));
        if sasl || kerberos {
            return Err(EngineError::unsupported("metastores behind Kerberos are not supported"));
        }
        let timeout = properties::duration(properties, "hive.metastore.client.socket.timeout", CALL_TIMEOUT)?;
        Ok(Client { addresses, current: AtomicUsize::new(0), timeout })
    }

    fn uris(&self) -> String {
        self.addresses.iter().map(|a| a.uri.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// Returns the names of all databases.
    pub(super) async fn databases(&self) -> Result<Vec<String>> {
        let arguments = Arguments::default();
        let call = Call { what: "the databases", method: "get_all_databases", arguments, missing: 0 };
        Ok(self.call(&call).await?.found().unwrap_or_default())
    }

    /// Returns whether there is a database of this name.
    pub(super) async fn has_database(&self, name: &str) -> Result<bool> {
        let what = format!("database '{name}'");
        let call =
            Call { what: &what, method: "get_database", arguments: Arguments::default().text(1, name), missing: 1 };
        Ok(self.call::<Ignored>(&call).await?.found().is_some())
    }

    /// Returns the tables and views of a database with their types, by name.
    pub(super) async fn tables(&self, database: &str) -> Result<Vec<TableMeta>> {
        let what = format!("the tables of '{database}'");
        // The method takes the name as a pattern: `|` and `*` in it would match other databases, too.
        let arguments = Arguments::default().text(1, database).text(2, "*").texts(3, &[]);
        let call = Call { what: &what, method: "get_table_meta", arguments, missing: 0 };
        let mut tables: Vec<TableMeta> = self.call(&call).await?.found().unwrap_or_default();
        tables.retain(|t| t.db_name.as_deref().is_some_and(|name| name.eq_ignore_ascii_case(database)));
        tables.sort_by(|a, b| a.table_name.cmp(&b.table_name));
        Ok(tables)
    }

    /// Returns a table or view; `None` if there is none of this name.
    pub(super) async fn table(&self, database: &str, table: &str) -> Result<Option<Table>> {
        let what = format!("table '{database}.{table}'");
        let named = || Arguments::default().text(1, database).text(2, table);
        let arguments = Arguments::default().nested(1, named());
        let call = Call { what: &what, method: "get_table_req", arguments, missing: 2 };
        match self.call::<GetTableResult>(&call).await? {
            // Hive 4 has only `get_table_req`, Hive before 2.3 only `get_table`.
            Answer::Unknown => {
                let call = Call { what: &what, method: "get_table", arguments: named(), missing: 2 };
                Ok(self.call(&call).await?.found())
            }
            answer => Ok(answer.found().and_then(|found| found.table)),
        }
    }

    /// Returns the names of a table's partitions, for example `dt=2024-01-31/country=CN`.
    pub(super) async fn partition_names(&self, database: &str, table: &str) -> Result<Vec<String>> {
        let what = format!("the partitions of '{database}.{table}'");
        let arguments = Arguments::default().text(1, database).text(2, table).i16(3, -1);
        let call = Call { what: &what, method: "get_partition_names", arguments, missing: 0 };
        Ok(self.call(&call).await?.found().unwrap_or_default())
    }

    /// Returns the partitions of these names. A partition that has been dropped meanwhile is left out.
    pub(super) async fn partitions(&self, database: &str, table: &str, names: &[String]) -> Result<Vec<Partition>> {
        let what = format!("{} partitions of '{database}.{table}'", names.len());
        let arguments = Arguments::default().text(1, database).text(2, table).texts(3, names);
        let call = Call { what: &what, method: "get_partitions_by_names", arguments, missing: 2 };
        Ok(self.call(&call).await?.found().unwrap_or_default())
    }

    /// Asks the address that answered last, then the others, once each. The other side may have closed an idle
    /// connection; so if one fails, the same address is asked again over a new connection.
    ///
    /// # Errors
    /// `Storage` if no address answers or the metastore reports an error; `Denied` if an address is link-local.
    async fn call<T: Wire>(&self, call: &Call<'_>) -> Result<Answer<T>> {
        let first = self.current.load(Ordering::Relaxed);
        let mut reasons = Vec::new();
        for i in 0..self.addresses.len() {
            let at = (first + i) % self.addresses.len();
            let address = &self.addresses[at];
            for reuses in [true, false] {
                let before = if reuses { address.idle.lock().pop() } else { None };
                let reused = before.is_some();
                let mut connection = match before {
                    Some(connection) => connection,
                    None => match address.connect().await {
                        Ok(connection) => connection,
                        Err(e) if e.kind == ErrorKind::Denied => return Err(e),
                        Err(e) => {
                            reasons.push(format!("{}: {}", address.uri, e.message));
                            break;
                        }
                    },
                };
                let asked =
                    tokio::time::timeout(self.timeout, connection.call::<T>(call.method, &call.arguments)).await;
                let answer = match asked {
                    Ok(Ok(Returned::Value(found))) => Ok(Answer::Found(found)),
                    Ok(Ok(Returned::Exception(id, _))) if id == call.missing => Ok(Answer::Missing),
                    Ok(Ok(Returned::Exception(_, reason)) | Err(ThriftError::Application(reason))) => {
                        Err(failed(call.what, &format!("the metastore {} says: {reason}", address.uri)))
                    }
                    Ok(Err(ThriftError::UnknownMethod(_))) => Ok(Answer::Unknown),
                    broken => {
                        // The other idle connections may be as old as this one.
                        address.idle.lock().clear();
                        if !reused {
                            let reason = match broken {
                                Ok(Err(e)) => e.to_string(),
                                _ => format!("no answer within {} s", self.timeout.as_secs_f64()),
                            };
                            reasons.push(format!("{}: {reason}", address.uri));
                            break;
                        }
                        continue;
                    }
                };
                self.current.store(at, Ordering::Relaxed);
                let mut idle = address.idle.lock();
                if idle.len() < IDLE_MAX {
                    idle.push(connection);
                }
                return answer;
            }
        }
        Err(failed(call.what, &format!("no metastore answers: {}", reasons.join("; "))))
    }
}

fn failed(what: &str, why: &str) -> EngineError {
    EngineError::new(ErrorKind::Storage, format!("cannot read {what}: {why}"))
}

impl Address {
    async fn connect(&self) -> Result<Connection> {
        let unreachable = |reason: String| EngineError::new(ErrorKind::Storage, reason);
        let resolved: Vec<SocketAddr> = tokio::net::lookup_host((self.host.as_str(), self.port))
            .await
            .map_err(|e| unreachable(format!("the name cannot be resolved: {e}")))?
            .collect();
        let mut reason = "the name has no address".to_string();
        for ip in resolved {
            if is_link_local(ip.ip()) {
                return Err(EngineError::new(
                    ErrorKind::Denied,
                    format!("metastore {} is at the link-local address {}, which is refused", self.uri, ip.ip()),
                ));
            }
            match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(ip)).await {
                Ok(Ok(stream)) => {
                    // Without it, each call waits for the other side's delayed acknowledgement.
                    stream.set_nodelay(true).map_err(|e| unreachable(e.to_string()))?;
                    return Ok(Connection::new(stream));
                }
                Ok(Err(e)) => reason = e.to_string(),
                Err(_) => reason = format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()),
            }
        }
        Err(unreachable(reason))
    }
}

/// Returns whether an address is link-local. The cloud's own services (169.254.169.254 and others) have these
/// addresses, and no metastore has.
fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_link_local()),
    }
}

fn address(uri: &str) -> Result<Address> {
    let bad = || EngineError::invalid(format!("'hive.metastore.uris': '{uri}' is not of the form thrift://host:port"));
    let rest = uri.strip_prefix("thrift://").ok_or_else(bad)?.trim_end_matches('/');
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !host.ends_with(':') && !port.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
        _ => (rest, PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    if host.is_empty() || host.contains(['/', '@']) {
        return Err(bad());
    }
    Ok(Address { uri: uri.to_string(), host: host.to_string(), port, idle: Mutex::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_bad_ones_named() {
        let read = |uri| address(uri).map(|a| (a.host, a.port)).map_err(|e| e.message);
        assert_eq!(read("thrift://m:9084"), Ok(("m".into(), 9084)));
        assert_eq!(read("thrift://m"), Ok(("m".into(), 9083)));
        assert_eq!(read("thrift://[::1]:1"), Ok(("::1".into(), 1)));
        for bad in ["m:9083", "http://m:9083", "thrift://", "thrift://m:x", "thrift://u@m:1"] {
            assert!(read(bad).unwrap_err().contains(bad));
        }
        assert!(is_link_local("169.254.169.254".parse().unwrap()) && is_link_local("fe80::1".parse().unwrap()));
        assert!(!is_link_local("127.0.0.1".parse().unwrap()));
    }
}
