//! Destinations of rows: files, objects and directories, by name.

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
    /// A file in the local file system.
    File(PathBuf),
    /// An object in an object store, with the runtime for requests that nobody waits for.
    Object(Remote, Handle),
}

impl Place {
    /// Returns the place that a location in a statement means.
    ///
    /// # Errors
    /// `Unsupported` if the location cannot be written to (HDFS, other schemes); `File` if it names no file; the errors
    /// of opening the store.
    pub fn of(stores: &Stores, location: &str, properties: &StoreProperties) -> Result<Self> {
        if !is_remote(location) {
            return Ok(Place::File(local_path(location)?));
        }
        if location.to_ascii_lowercase().starts_with("hdfs://") {
            return Err(EngineError::unsupported(format!("'{location}': files in HDFS are read, not written")));
        }
        Ok(Place::Object(stores.open(location, properties)?, stores.io().clone()))
    }

    /// Fails if a local place may not be accessed.
    pub fn check(&self, access: &FileAccess) -> Result<()> {
        match self {
            Place::File(path) => access.check(path),
            Place::Object(..) => Ok(()),
        }
    }

    /// Returns a place below this one.
    ///
    /// # Errors
    /// `File` if no object can have that name.
    pub fn join(&self, name: &str) -> Result<Self> {
        match self {
            Place::File(path) => Ok(Place::File(path.join(name))),
            Place::Object(remote, _) if remote.path.as_ref().is_empty() => self.named(name.to_string()),
            Place::Object(remote, _) => self.named(format!("{}/{name}", remote.path)),
        }
    }

    /// Returns the place whose name is this one's followed by `text`.
    ///
    /// # Errors
    /// The error of [`join`](Self::join).
    pub fn with_suffix(&self, text: &str) -> Result<Self> {
        match self {
            Place::File(path) => Ok(Place::File(format!("{}{text}", path.display()).into())),
            Place::Object(remote, _) => self.named(format!("{}{text}", remote.path)),
        }
    }

    /// Returns the directory that contains a file of this name.
    ///
    /// # Errors
    /// The error of [`join`](Self::join).
    pub fn around(&self) -> Result<Self> {
        match self {
            Place::File(path) => Ok(Place::File(super::directory(path).to_path_buf())),
            Place::Object(remote, _) => {
                let path: &str = remote.path.as_ref();
                self.named(path.rsplit_once('/').map_or("", |(directory, _)| directory).to_string())
            }
        }
    }

    /// Returns another object of the same store.
    fn named(&self, path: String) -> Result<Self> {
        let Place::Object(remote, runtime) = self else { return Ok(Place::File(path.into())) };
        let path = ObjectPath::parse(&path)
            .map_err(|e| EngineError::new(ErrorKind::File, format!("'{path}' is no path of an object: {e}")))?;
        Ok(Place::Object(Remote { path, ..remote.clone() }, runtime.clone()))
    }

    /// Returns the name for messages: a path, or a URL.
    pub fn name(&self) -> String {
        match self {
            Place::File(path) => path.display().to_string(),
            Place::Object(remote, _) => remote.url(&remote.path),
        }
    }

    /// Returns the URL.
    pub fn url(&self) -> String {
        match self {
            Place::File(path) => format!("file://{}", path.display()),
            Place::Object(..) => self.name(),
        }
    }

    /// Fails if no new file can be created at this place: it is a directory, a link or a device, or an existing file
    /// and not `replace`.
    pub async fn check_new(&self, replace: bool) -> Result<()> {
        let exists = match self {
            // The new file replaces whatever has the name: the link itself, not the file to which it leads.
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

    /// Makes MySQL's error for a file that must not exist (1086).
    pub(super) fn exists(&self) -> EngineError {
        let message = format!("File '{}' already exists", self.name());
        EngineError { code: 1086, ..EngineError::new(ErrorKind::File, message) }
    }

    /// Makes the error of a failed request to the store.
    pub(super) fn failed(&self, what: &str, e: &Error) -> EngineError {
        let kind = match e {
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => ErrorKind::Denied,
            _ => ErrorKind::File,
        };
        EngineError::of_store(kind, format!("cannot {what} '{}': {e}", self.name()), e)
    }

    /// Returns the visible files below this place.
    ///
    /// # Errors
    /// `File` or `Denied` if they cannot be listed.
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
    /// `File` or `Denied` if it cannot be removed.
    pub async fn remove(&self) -> Result<()> {
        match self {
            Place::File(path) => std::fs::remove_file(path).map_err(|e| cannot(path, "remove the replaced file", &e)),
            Place::Object(remote, _) => {
                remote.store.delete(&remote.path).await.map_err(|e| self.failed("remove the replaced object", &e))
            }
        }
    }
}
