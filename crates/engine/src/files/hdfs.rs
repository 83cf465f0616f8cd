//! HDFS: one client for each name node, or name service, and configuration.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use datafusion::datasource::object_store::ObjectStoreUrl;
use hdfs_native_object_store::HdfsObjectStoreBuilder;
use object_store::ObjectStore;
use parking_lot::Mutex;

use crate::error::{EngineError, ErrorKind, Result};

/// `host:port`, or the name of a name service, of a location in HDFS; `None` for other locations.
pub(crate) fn authority(location: &str) -> Option<&str> {
    let rest = location.strip_prefix("hdfs://")?;
    Some(rest.split('/').next().unwrap_or_default())
}

/// A store, and the name under which DataFusion finds it.
type Named = (ObjectStoreUrl, Arc<dyn ObjectStore>);

/// The clients of a process.
pub(crate) struct Hdfs {
    io: tokio::runtime::Handle,
    open: Mutex<HashMap<(String, BTreeMap<String, String>), Named>>,
}

impl Hdfs {
    /// Requests run on `io`.
    pub(crate) fn new(io: tokio::runtime::Handle) -> Hdfs {
        Hdfs { io, open: Mutex::default() }
    }

    /// The store at `authority`, and a name for it that no other has. Nothing is asked of it yet. `configuration` holds
    /// Hadoop's properties, over those of the files in HADOOP_CONF_DIR.
    ///
    /// # Errors
    /// The authority or the configuration makes no sense, or is a link-local address.
    pub(crate) fn store(&self, authority: &str, configuration: &BTreeMap<String, String>) -> Result<Named> {
        let failed = |reason: String| EngineError::new(ErrorKind::File, format!("hdfs://{authority}: {reason}"));
        let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
        if host.is_empty() || authority.contains('@') {
            return Err(failed("expected hdfs://host:port/path or hdfs://service/path".into()));
        }
        if matches!(host.parse::<IpAddr>(), Ok(IpAddr::V4(ip)) if ip.is_link_local()) {
            let message = format!("hdfs://{authority} is a link-local address, which is refused");
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
            .map_err(|e| failed(e.to_string()))?;
        let made: Named = (ObjectStoreUrl::parse(format!("hdfs://store-{}", open.len()))?, Arc::new(store));
        open.insert(key, made.clone());
        Ok(made)
    }
}
