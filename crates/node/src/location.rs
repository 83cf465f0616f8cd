//! Where the database is, and how remote data is cached.

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

/// Where the database is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataLocation {
    /// A local directory; created when it is not there.
    Local(PathBuf),
    /// A prefix of an object store, as a URL.
    Remote(String),
}

/// The scheme of a URL that has one slash too few: it would be a directory of that name.
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

/// How remote data is reached and cached.
#[derive(Debug, Clone, Default)]
pub struct RemoteOptions {
    /// Where stores are that are reached without properties of their own: that of [`DataLocation::Remote`], and those of
    /// paths in statements. What they leave open is taken from the environment.
    pub properties: StoreProperties,
    /// Directory of the data cache; `None`: below the user's cache directory.
    pub cache_dir: Option<PathBuf>,
    /// Bytes of it; `None`: half of what is free, 0: none on disk.
    pub cache_bytes: Option<u64>,
}

/// Bytes of the data cache in memory at most: behind it are the pages of tables, which are worth more.
const CACHE_MEMORY_MAX: u64 = 256 << 20;
/// One part in so many of the memory is the data cache's.
const CACHE_MEMORY_SHARE: u64 = 32;

impl RemoteOptions {
    /// The data cache. A process that has its data on local disk, and did not ask for one, gets one in memory: its
    /// directory belongs to whoever needs it.
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

    /// The processes of this machine that use a database: known in its directory, for one in a bucket in that of the cache.
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

/// The store of a database. `None`: nothing outlives the process.
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

/// The store of a database.
pub struct Opened {
    /// The store of the database.
    pub store: Arc<dyn ObjectStore>,
    /// The same, where it must prove itself before it is written to.
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
