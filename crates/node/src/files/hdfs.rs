//! HDFS: one client for each name node, or name service, and configuration.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use datafusion::datasource::object_store::ObjectStoreUrl;
use hdfs_native_object_store::HdfsObjectStoreBuilder;
use object_store::ObjectStore;
use parking_lot::Mutex;

use crate::error::{EngineError, ErrorKind, Result};

/// Returns the `host:port` or the name service of a location in HDFS; `None` for other locations.
pub fn authority(location: &str) -> Option<&str> {
    let rest = location.strip_prefix("hdfs://")?;
    Some(rest.split('/').next().unwrap_or_default())
}

/// Returns the addresses (`host:port`) of name nodes in a configuration.
pub(super) fn name_nodes(configuration: &BTreeMap<String, String>) -> impl Iterator<Item = &str> {
    let own = |key: &str| key.starts_with("dfs.namenode.rpc-address") || key == "fs.defaultFS";
    configuration.iter().filter(move |(key, _)| own(key)).map(|(_, node)| node.trim_start_matches("hdfs://"))
}

fn is_link_local(authority: &str) -> bool {
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    matches!(host.parse::<IpAddr>(), Ok(IpAddr::V4(ip)) if ip.is_link_local())
}

/// A store, and the URL under which DataFusion finds it.
type Named = (ObjectStoreUrl, Arc<dyn ObjectStore>);

/// The HDFS clients of a process.
pub struct Hdfs {
    io: tokio::runtime::Handle,
    open: Mutex<HashMap<(String, BTreeMap<String, String>), Named>>,
}

impl Hdfs {
    /// Makes an empty set of clients, whose requests run on `io`.
    pub fn new(io: tokio::runtime::Handle) -> Hdfs {
        Hdfs { io, open: Mutex::default() }
    }

    /// Returns the store at `authority`, with a URL that is unique within the process. It sends no request yet.
    /// `configuration` are Hadoop's properties, which take precedence over those of the files in HADOOP_CONF_DIR.
    ///
    /// # Errors
    /// `File` if the authority or the configuration is invalid; `Denied` if it contains a link-local address.
    pub fn store(&self, authority: &str, configuration: &BTreeMap<String, String>) -> Result<Named> {
        let failed = |reason: String| EngineError::new(ErrorKind::File, format!("hdfs://{authority}: {reason}"));
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        if host.is_empty() || authority.contains('@') {
            return Err(failed("expected hdfs://host:port/path or hdfs://service/path".into()));
        }
        if let Some(refused) = name_nodes(configuration).chain([authority]).find(|node| is_link_local(node)) {
            let message = format!("hdfs://{refused} is a link-local address, which is refused");
            return Err(EngineError::new(ErrorKind::Denied, message));
        }
        let mut open = self.open.lock();
        let key = (authority.to_string(), configuration.clone());
        if let Some(found) = open.get(&key) {
            return Ok(found.clone());
        }
        let store = HdfsObjectStoreBuilder::new()
            .with_url(format!("hdfs://{authority}"))
            .with_config(configuration.iter().map(|(k, v)| (k.as_str(), v.as_str())))
            .with_io_runtime(self.io.clone())
            .build()
            // The client has one error for all wrong arguments, which only its text distinguishes.
            .map_err(|e| match e.to_string() {
                reason if reason.contains("No NameNode hosts found") => failed(
                    "it names no port, and no name service is called so: write hdfs://host:8020/path, or give \
                     'dfs.nameservices', 'dfs.ha.namenodes...' and 'dfs.namenode.rpc-address...' as properties, or in the \
                     files of HADOOP_CONF_DIR"
                        .into(),
                ),
                reason => failed(reason),
            })?;
        let made: Named = (ObjectStoreUrl::parse(format!("hdfs://store-{}", open.len()))?, Arc::new(store));
        open.insert(key, made.clone());
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_configuration_says_where_a_name_service_is() {
        let hdfs = Hdfs::new(tokio::runtime::Handle::current());
        let at = |node: &str| {
            let pairs = [
                ("dfs.nameservices", "lake"),
                ("dfs.ha.namenodes.lake", "nn1"),
                ("dfs.namenode.rpc-address.lake.nn1", node),
            ];
            let configuration = pairs.map(|(key, value)| (key.to_string(), value.to_string())).into();
            hdfs.store("lake", &configuration).map(|_| ()).map_err(|e| e.kind)
        };
        assert_eq!(at("127.0.0.1:9000"), Ok(()));
        assert_eq!(at("169.254.169.254:80"), Err(ErrorKind::Denied));
        assert!(hdfs.store("169.254.169.254:80", &BTreeMap::new()).is_err());
        let unknown = hdfs.store("nn", &BTreeMap::new()).expect_err("no port").message;
        assert!(unknown.starts_with("hdfs://nn: ") && unknown.contains("hdfs://host:8020/path"), "{unknown}");
    }
}
