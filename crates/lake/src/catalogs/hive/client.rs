//! A client of the Hive metastore: the few calls that reading needs, with time limits, over several addresses.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dipper_node::error::{EngineError, ErrorKind, Result};
use hive_metastore::{
    GetTableRequest, Partition, Table, TableMeta, ThriftHiveMetastoreClient, ThriftHiveMetastoreClientBuilder,
    ThriftHiveMetastoreGetDatabaseException, ThriftHiveMetastoreGetPartitionsByNamesException,
    ThriftHiveMetastoreGetTableException, ThriftHiveMetastoreGetTableReqException,
};
use parking_lot::Mutex;
use volo_thrift::codec::default::DefaultMakeCodec;
use volo_thrift::{ClientError, MaybeException};

use crate::catalogs::properties;

/// Port of metastores whose address does not say one.
const PORT: u16 = 9083;

/// How long a metastore may take to accept a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a call may take unless `hive.metastore.client.socket.timeout` says otherwise.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// One metastore, reachable at one or more addresses that all say the same.
pub(super) struct Client {
    addresses: Vec<Address>,
    /// The address that answered last.
    current: AtomicUsize,
    timeout: Duration,
}

struct Address {
    uri: String,
    host: String,
    port: u16,
    connected: Mutex<Option<ThriftHiveMetastoreClient>>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("uris", &self.uris()).finish_non_exhaustive()
    }
}

/// The answer of a call: what it asks for, that there is no such object, or the metastore's own error.
enum Answer<T> {
    Found(T),
    Missing,
    Failed(String),
}

impl Client {
    /// A client for `hive.metastore.uris`; connects with the first call.
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

    /// Names of all databases.
    pub(super) async fn databases(&self) -> Result<Vec<String>> {
        let found = self
            .call("the databases", |c| async move {
                Ok(match c.get_all_databases().await? {
                    MaybeException::Ok(names) => Answer::Found(names),
                    MaybeException::Exception(e) => Answer::Failed(format!("{e:?}")),
                })
            })
            .await?;
        Ok(found.unwrap_or_default().iter().map(ToString::to_string).collect())
    }

    /// Whether there is a database of this name.
    pub(super) async fn has_database(&self, name: &str) -> Result<bool> {
        let found = self
            .call(&format!("database '{name}'"), |c| async move {
                Ok(match c.get_database(name.to_string().into()).await? {
                    MaybeException::Ok(_) => Answer::Found(()),
                    MaybeException::Exception(ThriftHiveMetastoreGetDatabaseException::O1(_)) => Answer::Missing,
                    MaybeException::Exception(e) => Answer::Failed(format!("{e:?}")),
                })
            })
            .await?;
        Ok(found.is_some())
    }

    /// The tables and views of a database, with their kind.
    pub(super) async fn tables(&self, database: &str) -> Result<Vec<TableMeta>> {
        // The name is a pattern here: `|` and `*` in it would match other databases, too.
        let found = self
            .call(&format!("the tables of '{database}'"), |c| async move {
                let (all, kinds) = ("*".to_string(), Vec::new());
                Ok(match c.get_table_meta(database.to_string().into(), all.into(), kinds).await? {
                    MaybeException::Ok(tables) => Answer::Found(tables),
                    MaybeException::Exception(e) => Answer::Failed(format!("{e:?}")),
                })
            })
            .await?;
        let mut tables = found.unwrap_or_default();
        tables.retain(|t| t.db_name.eq_ignore_ascii_case(database));
        tables.sort_by(|a, b| a.table_name.cmp(&b.table_name));
        Ok(tables)
    }

    /// A table or view; `None` when there is none of this name.
    pub(super) async fn table(&self, database: &str, table: &str) -> Result<Option<Table>> {
        self.call(&format!("table '{database}.{table}'"), |c| async move {
            let request = GetTableRequest {
                db_name: database.to_string().into(),
                tbl_name: table.to_string().into(),
                capabilities: None,
            };
            match c.get_table_req(request).await {
                Ok(MaybeException::Ok(found)) => return Ok(Answer::Found(found.table)),
                Ok(MaybeException::Exception(ThriftHiveMetastoreGetTableReqException::O2(_))) => {
                    return Ok(Answer::Missing);
                }
                Ok(MaybeException::Exception(e)) => return Ok(Answer::Failed(format!("{e:?}"))),
                // Hive 4 knows only this call, Hive before 2.3 only the older one.
                Err(ClientError::Application(e)) if e.to_string().contains("Invalid method name") => {}
                Err(e) => return Err(e),
            }
            Ok(match c.get_table(database.to_string().into(), table.to_string().into()).await? {
                MaybeException::Ok(table) => Answer::Found(table),
                MaybeException::Exception(ThriftHiveMetastoreGetTableException::O2(_)) => Answer::Missing,
                MaybeException::Exception(e) => Answer::Failed(format!("{e:?}")),
            })
        })
        .await
    }

    /// The names of a table's partitions: `dt=2024-01-31/country=CN`.
    pub(super) async fn partition_names(&self, database: &str, table: &str) -> Result<Vec<String>> {
        let found = self
            .call(&format!("the partitions of '{database}.{table}'"), |c| async move {
                Ok(match c.get_partition_names(database.to_string().into(), table.to_string().into(), -1).await? {
                    MaybeException::Ok(names) => Answer::Found(names),
                    MaybeException::Exception(e) => Answer::Failed(format!("{e:?}")),
                })
            })
            .await?;
        Ok(found.unwrap_or_default().iter().map(ToString::to_string).collect())
    }

    /// The partitions of these names. One that was dropped meanwhile is left out.
    pub(super) async fn partitions(&self, database: &str, table: &str, names: &[String]) -> Result<Vec<Partition>> {
        let found = self
            .call(&format!("{} partitions of '{database}.{table}'", names.len()), |c| async move {
                let names = names.iter().map(|n| n.clone().into()).collect();
                let (database, table) = (database.to_string().into(), table.to_string().into());
                Ok(match c.get_partitions_by_names(database, table, names).await? {
                    MaybeException::Ok(partitions) => Answer::Found(partitions),
                    MaybeException::Exception(ThriftHiveMetastoreGetPartitionsByNamesException::O2(_)) => {
                        Answer::Missing
                    }
                    MaybeException::Exception(e) => Answer::Failed(format!("{e:?}")),
                })
            })
            .await?;
        Ok(found.unwrap_or_default())
    }

    /// Asks the address that answered last, then the others, once each; a connection that was open before may have
    /// been closed by the other side, so its address is asked once more over a new one.
    async fn call<T, F>(&self, what: &str, ask: impl Fn(ThriftHiveMetastoreClient) -> F) -> Result<Option<T>>
    where
        F: Future<Output = std::result::Result<Answer<T>, ClientError>>,
    {
        let first = self.current.load(Ordering::Relaxed);
        let mut reasons = Vec::new();
        for i in 0..self.addresses.len() {
            let at = (first + i) % self.addresses.len();
            let address = &self.addresses[at];
            for reuses in [true, false] {
                let before = address.connected.lock().clone().filter(|_| reuses);
                let reused = before.is_some();
                let client = match before {
                    Some(client) => client,
                    None => match address.connect(self.timeout).await {
                        Ok(client) => client,
                        Err(e) if e.kind == ErrorKind::Denied => return Err(e),
                        Err(e) => {
                            reasons.push(format!("{}: {}", address.uri, e.message));
                            break;
                        }
                    },
                };
                let answered = tokio::time::timeout(self.timeout, ask(client)).await;
                let reason = match answered {
                    Ok(Ok(answer)) => {
                        self.current.store(at, Ordering::Relaxed);
                        return match answer {
                            Answer::Found(found) => Ok(Some(found)),
                            Answer::Missing => Ok(None),
                            Answer::Failed(reason) => {
                                Err(failed(what, &format!("the metastore {} says: {reason}", address.uri)))
                            }
                        };
                    }
                    Ok(Err(e)) => e.to_string(),
                    Err(_) => format!("no answer within {} s", self.timeout.as_secs_f64()),
                };
                *address.connected.lock() = None;
                if !reused {
                    reasons.push(format!("{}: {reason}", address.uri));
                    break;
                }
            }
        }
        Err(failed(what, &format!("no metastore answers: {}", reasons.join("; "))))
    }
}

fn failed(what: &str, why: &str) -> EngineError {
    EngineError::new(ErrorKind::Storage, format!("cannot read {what}: {why}"))
}

impl Address {
    async fn connect(&self, timeout: Duration) -> Result<ThriftHiveMetastoreClient> {
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
            // A probe of its own: the client connects lazily and says little about why it could not.
            match tokio::time::timeout(CONNECT_TIMEOUT, tokio::net::TcpStream::connect(ip)).await {
                Ok(Ok(_)) => {
                    let client = ThriftHiveMetastoreClientBuilder::new("hive-metastore")
                        .address(ip)
                        .make_codec(DefaultMakeCodec::buffered())
                        .connect_timeout(Some(CONNECT_TIMEOUT))
                        .rpc_timeout(Some(timeout))
                        .read_write_timeout(Some(timeout))
                        .build();
                    *self.connected.lock() = Some(client.clone());
                    return Ok(client);
                }
                Ok(Err(e)) => reason = e.to_string(),
                Err(_) => reason = format!("no connection within {} s", CONNECT_TIMEOUT.as_secs()),
            }
        }
        Err(unreachable(reason))
    }
}

/// Addresses of the cloud's own services (169.254.169.254 and the like) are nobody's metastore.
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
    Ok(Address { uri: uri.to_string(), host: host.to_string(), port, connected: Mutex::new(None) })
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
