//! Where rows go: files and objects by their names, and what such names begin with.

use std::path::{Path, PathBuf};

use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_node::files::stores::{Remote, StoreProperties, Stores, is_remote};
use dipper_node::files::{FileAccess, cannot, is_hidden, local_path, walk};
use futures::TryStreamExt;
use object_store::path::Path as ObjectPath;
use object_store::{Error, ObjectStore, ObjectStoreExt};
use tokio::runtime::Handle;

/// A file or an object, or a directory of them.
#[derive(Debug, Clone)]
pub enum Place {
    /// In the local file system.
    File(PathBuf),
    /// In an object store, and where requests run that nobody waits for.
    Object(Remote, Handle),
}

impl Place {
    /// What a location in a statement means.
    ///
    /// # Errors
    /// A location that is none, or that is not written to.
    pub fn of(stores: &Stores, location: &str, properties: &StoreProperties) -> Result<Self> {
        if !is_remote(location) {
            return Ok(Place::File(local_path(location)?));
        }
        if location.to_ascii_lowercase().starts_with("hdfs://") {
            return Err(EngineError::unsupported(format!("'{location}': files in HDFS are read, not written")));
        }
        Ok(Place::Object(stores.open(location, properties)?, stores.io().clone()))
    }

    /// Refuses local places that may not be reached.
    pub fn check(&self, access: &FileAccess) -> Result<()> {
        match self {
            Place::File(path) => access.check(path),
            Place::Object(..) => Ok(()),
        }
    }

    /// A place below this one.
    ///
    /// # Errors
    /// A name that no object can have.
    pub fn join(&self, name: &str) -> Result<Self> {
        match self {
            Place::File(path) => Ok(Place::File(path.join(name))),
            Place::Object(remote, _) if remote.path.as_ref().is_empty() => self.named(name.to_string()),
            Place::Object(remote, _) => self.named(format!("{}/{name}", remote.path)),
        }
    }

    /// The place whose name begins with this one's.
    ///
    /// # Errors
    /// As of [`join`](Self::join).
    pub fn with_suffix(&self, text: &str) -> Result<Self> {
        match self {
            Place::File(path) => Ok(Place::File(format!("{}{text}", path.display()).into())),
            Place::Object(remote, _) => self.named(format!("{}{text}", remote.path)),
        }
    }

    /// The directory that a file of this name is in.
    ///
    /// # Errors
    /// As of [`join`](Self::join).
    pub fn around(&self) -> Result<Self> {
        match self {
            Place::File(path) => Ok(Place::File(super::directory(path).to_path_buf())),
            Place::Object(remote, _) => {
                let path: &str = remote.path.as_ref();
                self.named(path.rsplit_once('/').map_or("", |(directory, _)| directory).to_string())
            }
        }
    }

    /// Another object of the same store.
    fn named(&self, path: String) -> Result<Self> {
        let Place::Object(remote, runtime) = self else { return Ok(Place::File(path.into())) };
        let path = ObjectPath::parse(&path)
            .map_err(|e| EngineError::new(ErrorKind::File, format!("'{path}' is no path of an object: {e}")))?;
        Ok(Place::Object(Remote { path, ..remote.clone() }, runtime.clone()))
    }

    /// How messages call it: a path, or a URL.
    pub fn name(&self) -> String {
        match self {
            Place::File(path) => path.display().to_string(),
            Place::Object(remote, _) => remote.url(&remote.path),
        }
    }

    /// As a URL.
    pub fn url(&self) -> String {
        match self {
            Place::File(path) => format!("file://{}", path.display()),
            Place::Object(..) => self.name(),
        }
    }

    /// Refuses a place where no new file can be: a directory, a link or a device, or an existing file unless it is to be
    /// replaced.
    pub async fn check_new(&self, replace: bool) -> Result<()> {
        let exists = match self {
            // The new file takes the place of what has the name: of a link, too, and not of what it leads to.
            Place::File(path) => match path.symlink_metadata().map(|found| found.file_type()) {
                Ok(found) if found.is_file() => true,
                Ok(found) => {
                    let what = match (found.is_dir(), found.is_symlink()) {
                        (true, _) => "a directory",
                        (_, true) => "a symbolic link",
                        _ => "a device, pipe or socket",
                    };
                    let message = format!("'{}' is {what}, expected a file name", self.name());
                    return Err(EngineError::new(ErrorKind::File, message));
                }
                Err(_) => false,
            },
            Place::Object(..) if replace => false,
            Place::Object(remote, _) => match remote.store.head(&remote.path).await {
                Ok(_) => true,
                Err(Error::NotFound { .. }) => false,
                Err(e) => return Err(self.failed("write", &e)),
            },
        };
        if exists && !replace { Err(self.exists()) } else { Ok(()) }
    }

    /// MySQL's error for a file that must not be there.
    pub(super) fn exists(&self) -> EngineError {
        let message = format!("File '{}' already exists", self.name());
        EngineError { code: 1086, ..EngineError::new(ErrorKind::File, message) }
    }

    /// The error of a store that does not do what it should.
    pub(super) fn failed(&self, what: &str, e: &Error) -> EngineError {
        let kind = match e {
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => ErrorKind::Denied,
            _ => ErrorKind::File,
        };
        EngineError::new(kind, format!("cannot {what} '{}': {e}", self.name()))
    }

    /// The visible files below it.
    ///
    /// # Errors
    /// They cannot be listed.
    pub async fn files(&self, access: &FileAccess) -> Result<Vec<Place>> {
        match self {
            Place::File(dir) if !dir.exists() => Ok(Vec::new()),
            Place::File(dir) => {
                let mut found = Vec::new();
                walk(dir, access, &mut found)?;
                Ok(found.into_iter().map(|f| Place::File(f.path)).collect())
            }
            Place::Object(remote, runtime) => {
                let all: Vec<_> =
                    remote.store.list(Some(&remote.path)).try_collect().await.map_err(|e| self.failed("list", &e))?;
                let shown = |path: &ObjectPath| {
                    let below = path.prefix_match(&remote.path);
                    below.is_some_and(|mut parts| !parts.any(|part| is_hidden(Path::new(part.as_ref()))))
                };
                let paths = all.into_iter().map(|meta| meta.location).filter(shown);
                Ok(paths.map(|path| Place::Object(Remote { path, ..remote.clone() }, runtime.clone())).collect())
            }
        }
    }

    /// Removes a file.
    ///
    /// # Errors
    /// It stays.
    pub async fn remove(&self) -> Result<()> {
        match self {
            Place::File(path) => std::fs::remove_file(path).map_err(|e| cannot(path, "remove the replaced file", &e)),
            Place::Object(remote, _) => {
                remote.store.delete(&remote.path).await.map_err(|e| self.failed("remove the replaced object", &e))
            }
        }
    }
}
