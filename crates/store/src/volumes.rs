//! One store made of several: each table's chain and data are in the volume that the table was made in.
//!
//! Everything of a table is below `t/<id>/`, so the id in a path says where an object is; all other paths, the catalog's and
//! the labels', are in the root store. Which table is in which volume is in the catalog, and given to
//! [`VolumeStore::assign`] before the table is used.

use std::collections::HashMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use object_store::path::Path;
use object_store::{
    CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, RenameOptions, Result,
};
use parking_lot::RwLock;

use crate::catalog::TableId;
use crate::table::table_path;

/// Where tables are.
const TABLES: &str = "t";
/// Objects deleted by one call to a store.
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
    /// Directory of a table, and its volume's name.
    tables: HashMap<String, String>,
}

impl VolumeStore {
    /// All tables are in the root until told otherwise.
    pub fn new(root: Arc<dyn ObjectStore>) -> Self {
        VolumeStore { root, volumes: RwLock::default() }
    }

    /// Adds a volume, or puts another store (with other keys, say) in its place.
    pub fn set_volume(&self, name: &str, store: Arc<dyn ObjectStore>) {
        self.volumes.write().stores.insert(name.to_string(), store);
    }

    /// From now on requests for the volume's tables are errors, until it is set again.
    pub fn remove_volume(&self, name: &str) {
        self.volumes.write().stores.remove(name);
    }

    /// From now on the table is looked for in that volume. Tables never move.
    pub fn assign(&self, table: TableId, volume: &str) {
        let dir = table_path(table).to_string();
        self.volumes.write().tables.entry(dir).or_insert_with(|| volume.to_string());
    }

    fn store(&self, path: &Path) -> Result<Arc<dyn ObjectStore>> {
        let text = path.as_ref();
        let end = text.match_indices('/').nth(1).map_or(text.len(), |(i, _)| i);
        let volumes = self.volumes.read();
        match volumes.tables.get(&text[..end]) {
            None => Ok(Arc::clone(&self.root)),
            // Not `NotFound`, which says that the object is gone, and nothing that another try would mend.
            Some(name) => volumes.stores.get(name).map(Arc::clone).ok_or_else(|| Error::NotSupported {
                source: format!("'{text}' is in storage volume '{name}', which is not connected").into(),
            }),
        }
    }

    /// The stores that a listing below `prefix` must ask.
    fn stores(&self, prefix: Option<&Path>) -> Result<Vec<Arc<dyn ObjectStore>>> {
        match prefix {
            Some(prefix) if prefix.as_ref() != TABLES && !prefix.as_ref().is_empty() => Ok(vec![self.store(prefix)?]),
            _ => {
                let volumes = self.volumes.read();
                Ok(std::iter::once(&self.root).chain(volumes.stores.values()).map(Arc::clone).collect())
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
        self.store(location)?.put_opts(location, payload, options).await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        options: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.store(location)?.put_multipart_opts(location, options).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.store(location)?.get_opts(location, options).await
    }

    async fn get_ranges(&self, location: &Path, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.store(location)?.get_ranges(location, ranges).await
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
            // Deletions come from one table at a time, so runs of one store are long.
            let mut runs: Vec<(Arc<dyn ObjectStore>, Vec<Path>)> = Vec::new();
            let mut failed = Vec::new();
            for path in chunk {
                match path.and_then(|p| parts.store(&p).map(|s| (s, p))) {
                    Err(e) => failed.push(Err(e)),
                    Ok((store, path)) => match runs.last_mut().filter(|(s, _)| Arc::ptr_eq(s, &store)) {
                        Some((_, paths)) => paths.push(path),
                        None => runs.push((store, vec![path])),
                    },
                }
            }
            let deleted =
                runs.into_iter().map(|(store, paths)| store.delete_stream(stream::iter(paths).map(Ok).boxed()));
            stream::iter(failed).chain(stream::iter(deleted.collect::<Vec<_>>()).flatten())
        };
        locations.ready_chunks(DELETED_AT_ONCE).map(delete).flatten().boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.stores(prefix) {
            Ok(stores) => {
                let listings: Vec<_> = stores.iter().map(|s| s.list(prefix)).collect();
                stream::iter(listings).flatten().boxed()
            }
            Err(e) => stream::once(async { Err(e) }).boxed(),
        }
    }

    fn list_with_offset(&self, prefix: Option<&Path>, offset: &Path) -> BoxStream<'static, Result<ObjectMeta>> {
        match self.stores(prefix) {
            Ok(stores) => {
                let listings: Vec<_> = stores.iter().map(|s| s.list_with_offset(prefix, offset)).collect();
                stream::iter(listings).flatten().boxed()
            }
            Err(e) => stream::once(async { Err(e) }).boxed(),
        }
    }

    /// Over all tables, volumes that cannot be listed are left out: one that is out of reach does not keep a vacuum from the
    /// others. The root's error is one.
    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let stores = self.stores(prefix)?;
        let asked = stores.iter().map(|s| s.list_with_delimiter(prefix)).collect::<Vec<_>>();
        let all: Vec<Result<ListResult>> = stream::iter(asked).buffered(8).collect().await;
        let mut merged = ListResult { common_prefixes: Vec::new(), objects: Vec::new() };
        for (i, one) in all.into_iter().enumerate() {
            let one = match one {
                Err(error) if i > 0 => {
                    tracing::warn!(store = %stores[i], %error, "a storage volume cannot be listed");
                    continue;
                }
                one => one?,
            };
            if i > 0 {
                // Tables that no catalog names are found by what is there.
                self.found_in(&stores[i], &one.common_prefixes);
            }
            merged.common_prefixes.extend(one.common_prefixes);
            merged.objects.extend(one.objects);
        }
        merged.common_prefixes.sort_unstable();
        merged.common_prefixes.dedup();
        Ok(merged)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (a, b) = (self.store(from)?, self.store(to)?);
        if !Arc::ptr_eq(&a, &b) {
            return Err(Error::NotSupported { source: format!("'{from}' and '{to}' are in two volumes").into() });
        }
        a.copy_opts(from, to, options).await
    }

    async fn rename_opts(&self, from: &Path, to: &Path, options: RenameOptions) -> Result<()> {
        let (a, b) = (self.store(from)?, self.store(to)?);
        if !Arc::ptr_eq(&a, &b) {
            return Err(Error::NotSupported { source: format!("'{from}' and '{to}' are in two volumes").into() });
        }
        a.rename_opts(from, to, options).await
    }
}

impl VolumeStore {
    fn found_in(&self, store: &Arc<dyn ObjectStore>, dirs: &[Path]) {
        let mut volumes = self.volumes.write();
        let name = volumes.stores.iter().find(|(_, s)| Arc::ptr_eq(s, store)).map(|(name, _)| name.clone());
        let Some(name) = name else { return };
        for dir in dirs {
            volumes.tables.entry(dir.to_string()).or_insert_with(|| name.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;
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
        // A new process finds by listing what it was not told.
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
}
