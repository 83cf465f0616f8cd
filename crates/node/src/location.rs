//! The location of a database, and the cache for remote data.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use dipper_cache::{CacheOptions, DataCache};
use dipper_store::local::LocalStore;
use dipper_store::nodes::Nodes;
use dipper_store::probed::ProbedStore;
use object_store::ObjectStore;

use crate::error::{EngineError, ErrorKind, Result};
use crate::files::stores::{StoreProperties, Stores, is_remote};

/// The location of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataLocation {
    /// A local directory; it is created if it does not exist.
    Local(PathBuf),
    /// A prefix of an object store, as a URL.
    Remote(String),
}

/// Splits a URL that has one slash too few, which would be a directory of that name.
fn slash_missing(text: &str) -> Option<(&str, &str)> {
    let (scheme, rest) = text.split_once(":/").filter(|(_, rest)| !rest.starts_with('/'))?;
    let is_scheme = scheme.len() > 1 && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
    (is_scheme && !scheme.starts_with('.')).then_some((scheme, rest))
}

impl FromStr for DataLocation {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        if let Some((scheme, rest)) = slash_missing(text) {
            let slashes = if scheme.eq_ignore_ascii_case("file") { "///" } else { "//" };
            return Err(format!(
                "one slash is behind '{scheme}:'; write {scheme}:{slashes}{rest}, or ./{text} for a directory of that name"
            ));
        }
        Ok(match is_remote(text) {
            true => DataLocation::Remote(text.to_string()),
            false => DataLocation::Local(text.strip_prefix("file://").unwrap_or(text).into()),
        })
    }
}

impl fmt::Display for DataLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DataLocation::Local(dir) => dir.display().fmt(f),
            DataLocation::Remote(url) => f.write_str(url),
        }
    }
}

/// Access to remote data, and its cache.
#[derive(Debug, Clone, Default)]
pub struct RemoteOptions {
    /// Properties of stores that are reached without properties of their own: that of [`DataLocation::Remote`], and
    /// those of paths in statements. Settings that they lack are taken from the environment.
    pub properties: StoreProperties,
    /// Directory of the data cache; `None`: below the user's cache directory.
    pub cache_dir: Option<PathBuf>,
    /// Size of the data cache on disk in bytes; `None`: half of the free space; 0: none on disk.
    pub cache_bytes: Option<u64>,
}

/// Most bytes of the data cache in memory. Pages of tables are cached behind it, and are worth more.
const CACHE_MEMORY_MAX: u64 = 256 << 20;
/// The data cache gets this fraction of the memory: one part in 32.
const CACHE_MEMORY_SHARE: u64 = 32;

impl RemoteOptions {
    /// Opens the data cache. A process whose data are on the local disk, and which does not configure a cache, gets one
    /// in memory only: the cache directory is left to processes that need it.
    pub fn cache(&self, data: Option<&DataLocation>, memory_bytes: u64) -> Arc<DataCache> {
        let wanted = matches!(data, Some(DataLocation::Remote(_))) || self.cache_dir.is_some();
        let dir = self.cache_dir.clone().or_else(default_cache_dir).filter(|_| wanted);
        DataCache::open(&CacheOptions {
            dir,
            disk_bytes: self.cache_bytes,
            memory_bytes: (memory_bytes / CACHE_MEMORY_SHARE).min(CACHE_MEMORY_MAX),
            ..CacheOptions::default()
        })
    }

    /// Returns the registry of the processes of this machine that use a database. It is in the database's directory;
    /// for a database in object storage it is in the cache directory.
    pub fn nodes(&self, data: Option<&DataLocation>) -> Option<Nodes> {
        Some(Nodes::new(match data? {
            DataLocation::Local(dir) => dir.join(".dipper").join("nodes"),
            DataLocation::Remote(url) => {
                let name: String =
                    url.bytes().map(|b| if b.is_ascii_alphanumeric() { char::from(b) } else { '-' }).collect();
                self.cache_dir.clone().or_else(default_cache_dir)?.join("nodes").join(name)
            }
        }))
    }
}

fn default_cache_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let caches = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(caches.join("dipper").join("data"))
}

/// Opens the store of a database. Without a location, the data are in memory and are lost with the process.
pub fn open(data: Option<&DataLocation>, stores: &Stores) -> Result<Opened> {
    Ok(match data {
        None => Opened { store: Arc::new(object_store::memory::InMemory::new()), proof: None },
        Some(DataLocation::Local(dir)) => {
            let store = LocalStore::open(dir).map_err(|e| {
                EngineError::new(ErrorKind::Storage, format!("cannot open the data directory '{}': {e}", dir.display()))
            })?;
            Opened { store: Arc::new(store), proof: None }
        }
        Some(DataLocation::Remote(url)) => {
            let probed = Arc::new(ProbedStore::new(stores.open_data(url, &StoreProperties::new())?));
            Opened { store: Arc::clone(&probed) as _, proof: Some(probed) }
        }
    })
}

/// The opened store of a database.
pub struct Opened {
    /// The store of the database.
    pub store: Arc<dyn ObjectStore>,
    /// The same store, if it has to be probed before it is written to.
    pub proof: Option<Arc<ProbedStore>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_are_directories_or_urls() {
        let parse = |text: &str| text.parse::<DataLocation>().unwrap();
        assert_eq!(parse("dipper-data"), DataLocation::Local("dipper-data".into()));
        assert_eq!(parse("file:///x/y"), DataLocation::Local("/x/y".into()));
        assert_eq!(parse("s3://b/p"), DataLocation::Remote("s3://b/p".into()));
        assert_eq!(parse("s3://b/p").to_string(), "s3://b/p");
        for path in ["./s3:/b", "x/s3:/b", "/s3:/b", "../s3:/b", "s3:", "c:/d", "a_b:/c"] {
            assert_eq!(parse(path), DataLocation::Local(path.into()));
        }
    }

    #[test]
    fn a_url_with_one_slash_is_no_directory() {
        for (text, fix) in
            [("s3:/b/p", "write s3://b/p,"), ("OSS:/b", "write OSS://b,"), ("file:/x", "write file:///x,")]
        {
            let e = text.parse::<DataLocation>().unwrap_err();
            assert!(e.contains(fix) && e.contains(&format!("or ./{text} for")), "{e}");
        }
    }
}
