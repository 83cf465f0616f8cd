//! A store composed of several: each table's chain and data are in the volume that the table was made in.
//!
//! All objects of a table are below `t/<id>/`, so the id in a path says where an object is. All other paths, those of
//! the catalog and the labels, are in the root store. The catalog knows which table is in which volume; it is passed to
//! [`VolumeStore::assign`] before the table is used.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use parking_lot::RwLock;

use crate::catalog::TableId;
use crate::table::table_path;

/// Property of a table or database that names the volume in which tables are made.
pub const STORAGE_VOLUME: &str = "storage_volume";

/// Directory of all tables.
const TABLES: &str = "t";
/// Most objects deleted by one call to a store.
const DELETED_AT_ONCE: usize = 512;

/// A root store, and the volumes of tables.
#[derive(Debug)]
pub struct VolumeStore {
    root: Arc<dyn ObjectStore>,
    volumes: RwLock<Volumes>,
}

#[derive(Debug, Default)]
struct Volumes {
    stores: HashMap<String, Arc<dyn ObjectStore>>,
    /// The volume's name by the directory of a table.
    tables: HashMap<String, Arc<str>>,
}

/// The store that an object is in, and its volume.
struct Place {
    store: Arc<dyn ObjectStore>,
    /// Name of the volume; `None` for the root.
    volume: Option<Arc<str>>,
}

impl Place {
    /// Adds the volume's name to the error of a request: paths identify a table by a number that nobody knows. Errors
    /// that callers act on stay as they are.
    fn named(&self, e: Error) -> Error {
        let Some(volume) = &self.volume else { return e };
        let within = |source| Box::new(InVolume { volume: Arc::clone(volume), source });
        match e {
            Error::Generic { store, source } => Error::Generic { store, source: within(source) },
            Error::PermissionDenied { path, source } => Error::PermissionDenied { path, source: within(source) },
            Error::Unauthenticated { path, source } => Error::Unauthenticated { path, source: within(source) },
            e => e,
        }
    }
}

/// The error of a request to a volume's store, with the volume's name.
#[derive(Debug, thiserror::Error)]
#[error("storage volume '{volume}': {source}")]
struct InVolume {
    volume: Arc<str>,
    source: Box<dyn std::error::Error + Send + Sync>,
}

impl VolumeStore {
    /// Makes a store whose tables are all in the root until they are assigned to volumes.
    pub fn new(root: Arc<dyn ObjectStore>) -> Self {
        VolumeStore { root, volumes: RwLock::default() }
    }

    /// Adds a volume, or replaces its store (by one with other keys, for example).
    pub fn set_volume(&self, name: &str, store: Arc<dyn ObjectStore>) {
        self.volumes.write().stores.insert(name.to_string(), store);
    }

    /// Removes a volume: requests for its tables are errors until it is set again.
    pub fn remove_volume(&self, name: &str) {
        self.volumes.write().stores.remove(name);
    }

    /// Assigns a table to a volume. Tables never move: later calls for the same table have no effect.
    pub fn assign(&self, table: TableId, volume: &str) {
        let dir = table_path(table).to_string();
        self.volumes.write().tables.entry(dir).or_insert_with(|| volume.into());
    }

    fn place(&self, path: &Path) -> Result<Place> {
        let text = path.as_ref();
        let end = text.match_indices('/').nth(1).map_or(text.len(), |(i, _)| i);
        let volumes = self.volumes.read();
        match volumes.tables.get(&text[..end]) {
            None => Ok(Place { store: Arc::clone(&self.root), volume: None }),
            Some(name) => match volumes.stores.get(&**name) {
                Some(store) => Ok(Place { store: Arc::clone(store), volume: Some(Arc::clone(name)) }),
                // The error is not `NotFound`, which says that the object is gone, nor one that suggests another try.
                None => Err(Error::NotSupported {
                    source: format!("'{text}' is in storage volume '{name}', which is not connected").into(),
                }),
            },
        }
    }

    /// Returns the stores that a listing below `prefix` must ask; the root is the first if there are several.
    fn places(&self, prefix: Option<&Path>) -> Result<Vec<Place>> {
        match prefix {
            Some(prefix) if prefix.as_ref() != TABLES && !prefix.as_ref().is_empty() => Ok(vec![self.place(prefix)?]),
            _ => {
                let volumes = self.volumes.read();
                let own = volumes
                    .stores
                    .iter()
                    .map(|(name, store)| Place { store: Arc::clone(store), volume: Some(name.as_str().into()) });
                Ok(std::iter::once(Place { store: Arc::clone(&self.root), volume: None }).chain(own).collect())
            }
        }
    }
}

impl fmt::Display for VolumeStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.root.fmt(f)
    }
}

#[async_trait]
impl ObjectStore for VolumeStore {
    async fn put_opts(&self, location: &Path, payload: PutPayload, options: PutOptions) -> Result<PutResult> {
        let place = self.place(location)?;
        place.store.put_opts(location, payload, options).await.map_err(|e| place.named(e))
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let place = self.place(location)?;
        place.store.put_multipart_opts(location, options).await.map_err(|e| place.named(e))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let place = self.place(location)?;
        place.store.get_opts(location, options).await.map_err(|e| place.named(e))
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let place = self.place(location)?;
        place.store.get_ranges(location, ranges).await.map_err(|e| place.named(e))
    }

    fn delete_stream(&self, locations: BoxStream<'static, Result<Path>>) -> BoxStream<'static, Result<Path>> {
        let volumes = self.volumes.read();
        if volumes.tables.is_empty() {
            return self.root.delete_stream(locations);
        }
        let parts = VolumeStore {
            root: Arc::clone(&self.root),
            volumes: RwLock::new(Volumes { stores: volumes.stores.clone(), tables: volumes.tables.clone() }),
        };
        let delete = move |chunk: Vec<Result<Path>>| {
            // Deletions come from one table at a time, so consecutive paths are mostly in the same store.
            let mut runs: Vec<(Place, Vec<Path>)> = Vec::new();
            let mut failed = Vec::new();
            for path in chunk {
                match path.and_then(|p| parts.place(&p).map(|place| (place, p))) {
                    Err(e) => failed.push(Err(e)),
                    Ok((place, path)) => match runs.last_mut().filter(|(p, _)| Arc::ptr_eq(&p.store, &place.store)) {
                        Some((_, paths)) => paths.push(path),
                        None => runs.push((place, vec![path])),
                    },
                }
            }
            let deleted = runs.into_iter().map(|(place, paths)| {
                let deleted = place.store.delete_stream(stream::iter(paths).map(Ok).boxed());
                deleted.map_err(move |e| place.named(e))
            });
            stream::iter(failed).chain(stream::iter(deleted.collect::<Vec<_>>()).flatten())
        };
        locations.ready_chunks(DELETED_AT_ONCE).map(delete).flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.places(prefix) {
            Ok(places) => {
                let listed = |p: Place| p.store.list(prefix).map_err(move |e| p.named(e));
                let listings: Vec<_> = places.into_iter().map(listed).collect();
                stream::iter(listings).flatten().boxed()
            }
            Err(e) => stream::once(async { Err(e) }).boxed(),
        }
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.places(prefix) {
            Ok(places) => {
                let listed = |p: Place| p.store.list_with_offset(prefix, offset).map_err(move |e| p.named(e));
                let listings: Vec<_> = places.into_iter().map(listed).collect();
                stream::iter(listings).flatten().boxed()
            }
            Err(e) => stream::once(async { Err(e) }).boxed(),
        }
    }

    /// In a listing over all tables, volumes that cannot be listed are left out, so that an unreachable volume does not
    /// keep vacuum from the others. An error of the root is returned.
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let places = self.places(prefix)?;
        let asked = places.iter().map(|p| p.store.list_with_delimiter(prefix)).collect::<Vec<_>>();
        let all: Vec<Result<ListResult>> = stream::iter(asked).buffered(8).collect().await;
        let mut merged = ListResult { common_prefixes: Vec::new(), objects: Vec::new() };
        for (i, one) in all.into_iter().enumerate() {
            let one = match one {
                Err(error) if i > 0 => {
                    let volume = places[i].volume.as_deref().unwrap_or_default();
                    tracing::warn!(%volume, %error, "a storage volume cannot be listed");
                    continue;
                }
                one => one.map_err(|e| places[i].named(e))?,
            };
            if i > 0 {
                // Tables that no catalog names are assigned to the volume in which they were found.
                self.found_in(&places[i], &one.common_prefixes);
            }
            merged.common_prefixes.extend(one.common_prefixes);
            merged.objects.extend(one.objects);
        }
        merged.common_prefixes.sort_unstable();
        merged.common_prefixes.dedup();
        Ok(merged)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (a, b) = (self.place(from)?, self.place(to)?);
        if !Arc::ptr_eq(&a.store, &b.store) {
            return Err(Error::NotSupported { source: format!("'{from}' and '{to}' are in two volumes").into() });
        }
        a.store.copy_opts(from, to, options).await.map_err(|e| a.named(e))
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let (a, b) = (self.place(from)?, self.place(to)?);
        if !Arc::ptr_eq(&a.store, &b.store) {
            return Err(Error::NotSupported { source: format!("'{from}' and '{to}' are in two volumes").into() });
        }
        a.store.rename_opts(from, to, options).await.map_err(|e| a.named(e))
    }
}

impl VolumeStore {
    fn found_in(&self, place: &Place, dirs: &[Path]) {
        let mut volumes = self.volumes.write();
        let Some(name) = &place.volume else { return };
        // The volume may have been given another store meanwhile.
        if !volumes.stores.get(&**name).is_some_and(|store| Arc::ptr_eq(store, &place.store)) {
            return;
        }
        for dir in dirs {
            volumes.tables.entry(dir.to_string()).or_insert_with(|| Arc::clone(name));
        }
    }
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;
    use object_store::memory::InMemory;

    use super::*;

    #[tokio::test]
    async fn objects_of_a_table_are_in_its_volume() {
        let (root, cold) = (Arc::new(InMemory::new()), Arc::new(InMemory::new()));
        let store = VolumeStore::new(Arc::clone(&root) as _);
        store.set_volume("cold", Arc::clone(&cold) as _);
        let (here, there) = (TableId(1), TableId(2));
        store.assign(there, "cold");
        store.assign(there, "elsewhere");
        let at = |id: TableId, name: &str| table_path(id).join("d").join(name);
        for id in [here, there] {
            store.put(&at(id, "a"), "x".into()).await.unwrap();
            store.put(&at(id, "b"), "y".into()).await.unwrap();
        }
        store.put(&Path::from("catalog/v/1"), "z".into()).await.unwrap();
        let count = async |s: &dyn ObjectStore| s.list(None).try_collect::<Vec<_>>().await.unwrap().len();
        assert_eq!((count(&*root).await, count(&*cold).await, count(&store).await), (3, 2, 5));
        assert_eq!(store.get(&at(there, "b")).await.unwrap().bytes().await.unwrap(), "y");
        let below = store.list_with_delimiter(Some(&Path::from("t"))).await.unwrap();
        assert_eq!(below.common_prefixes, [table_path(here), table_path(there)]);
        // A new process learns by listing about tables that were not assigned.
        let other = VolumeStore::new(Arc::clone(&root) as _);
        other.set_volume("cold", Arc::clone(&cold) as _);
        other.get(&at(there, "b")).await.unwrap_err();
        other.list_with_delimiter(Some(&Path::from("t"))).await.unwrap();
        other.get(&at(there, "b")).await.unwrap();
        let paths = [at(here, "a"), at(there, "a"), at(here, "b")].map(Ok);
        let deleted: Vec<Path> = store.delete_stream(stream::iter(paths).boxed()).try_collect().await.unwrap();
        assert_eq!((deleted.len(), count(&*root).await, count(&*cold).await), (3, 1, 1));
        let gone = VolumeStore::new(root);
        gone.assign(there, "cold");
        let e = gone.get(&at(there, "b")).await.unwrap_err();
        assert!(e.to_string().contains("storage volume 'cold'"), "{e}");
    }

    #[test]
    fn errors_name_the_volume() {
        let place = |volume: Option<&str>| Place { store: Arc::new(InMemory::new()), volume: volume.map(Arc::from) };
        let down = || Error::Generic { store: "S3", source: "connection refused".into() };
        let told = |e: Error| place(Some("cold")).named(e);
        assert_eq!(told(down()).to_string(), "Generic S3 error: storage volume 'cold': connection refused");
        assert_eq!(place(None).named(down()).to_string(), down().to_string());
        let gone = Error::NotFound { path: "t/1/v/1".into(), source: "404".into() };
        assert!(matches!(told(gone), Error::NotFound { .. }));
        let denied = Error::PermissionDenied { path: "t/1/v/1".into(), source: "403".into() };
        assert!(matches!(told(denied), Error::PermissionDenied { .. }));
    }
}
