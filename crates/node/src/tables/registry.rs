//! Registry of a process's native tables: handles, open objects, and the publishing of loads of any kind.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use dipper_store::catalog::TableId;
use dipper_store::compact::Compactor;
use dipper_store::mow;
use dipper_store::segment::{Fetcher, PageCache, Readers};
use dipper_store::table::data::DataObject;
use dipper_store::table::schema::{ColumnId, Model};
use dipper_store::table::{Deletes, Followed, Rowset, Table, TableState};
use object_store::{Extensions, ObjectStore};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::volumes::Volumes;
use crate::error::Result;

/// One part in this many of the cache is for footers and indexes.
const OPEN_SHARE: usize = 4;

/// What of a load decides which rows it replaces.
#[derive(Debug, Clone, Default)]
pub struct Brought {
    objects: Vec<Arc<DataObject>>,
    condition: Option<ColumnId>,
}

impl Brought {
    /// Of this load.
    pub fn of(rowset: &Rowset) -> Self {
        Brought { objects: rowset.objects.clone(), condition: rowset.condition }
    }
}

/// Open tables by id, and what they share.
#[derive(Debug)]
pub struct NativeTables {
    store: Arc<dyn ObjectStore>,
    volumes: Volumes,
    open: Mutex<HashMap<TableId, Table>>,
    readers: Arc<Readers>,
    /// Readers that cache nothing in memory.
    forgetful: Arc<Readers>,
    compactor: OnceLock<Compactor>,
}

impl NativeTables {
    /// Makes an empty registry. Decompressed pages and open objects are cached in `cache_bytes`. For a database in an
    /// object store, `requests` are the threads that make requests, and the extensions that make a request ask the
    /// store again for bytes that arrived damaged. `workers` are the threads that give way to those that talk to
    /// clients.
    pub fn new(volumes: Volumes, requests: Option<(Handle, Extensions)>, workers: Handle, cache_bytes: usize) -> Self {
        let store = volumes.store();
        let fetcher = match requests {
            None => Fetcher::local(Arc::clone(&store)),
            Some((runtime, anew)) => Fetcher::remote(Arc::clone(&store), runtime, anew),
        };
        let open_bytes = cache_bytes / OPEN_SHARE;
        let pages = PageCache::new(cache_bytes - open_bytes);
        let forgetful = Readers::new(Arc::clone(&fetcher), PageCache::new(0), 0).with_workers(workers.clone());
        let readers = Arc::new(Readers::new(fetcher, pages, open_bytes).with_workers(workers));
        let (open, forgetful, compactor) = (Mutex::default(), Arc::new(forgetful), OnceLock::new());
        NativeTables { store, volumes, open, readers, forgetful, compactor }
    }

    /// Returns the store that contains all tables.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Returns the storage volumes.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Returns the cache of open objects, shared by all queries.
    pub fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }

    /// Returns readers that use no cached pages and footers, and cache none: all their reads go through the data cache.
    pub fn forgetful_readers(&self) -> &Arc<Readers> {
        &self.forgetful
    }

    /// Returns the table's handle. Two concurrent callers may both read the chain; one handle is kept.
    ///
    /// # Errors
    /// `Storage` if the chain cannot be read; the errors of connecting the table's volume.
    pub async fn get(&self, id: TableId) -> Result<Table> {
        self.volumes.follow();
        if let Some(table) = self.open.lock().get(&id) {
            return Ok(table.clone());
        }
        self.volumes.locate(id)?;
        let table = Table::open(Arc::clone(&self.store), id).await?;
        let table = self.open.lock().entry(id).or_insert(table).clone();
        self.watch(&table);
        Ok(table)
    }

    /// Returns the newest state of a table: read when this is called, or later.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub async fn newest(&self, id: TableId) -> Result<Arc<TableState>> {
        self.newest_since(Instant::now(), id).await
    }

    /// Returns a state of a table that was read at `since`, or later.
    ///
    /// # Errors
    /// The errors of [`get`](Self::get).
    pub async fn newest_since(&self, since: Instant, id: TableId) -> Result<Arc<TableState>> {
        let table = self.get(id).await?;
        // A handle that was made meanwhile has just read its chain.
        Ok(if table.staleness() <= since.elapsed() { table.snapshot() } else { table.refresh().await? })
    }

    /// Returns the table's handle, if it is open.
    pub fn opened(&self, id: TableId) -> Option<Table> {
        self.open.lock().get(&id).cloned()
    }

    /// Returns the compactor, which the first call makes.
    pub fn compactor(&self, make: impl FnOnce() -> Compactor) -> &Compactor {
        self.compactor.get_or_init(make)
    }

    fn watch(&self, table: &Table) {
        if let Some(compactor) = self.compactor.get() {
            compactor.add(table.clone());
        }
    }

    /// Returns the tables that are open.
    pub fn open_tables(&self) -> Vec<Table> {
        self.open.lock().values().cloned().collect()
    }

    /// Adds a table that has just been created.
    pub fn insert(&self, table: Table) {
        self.watch(&table);
        self.open.lock().insert(table.id(), table);
    }

    /// Removes a table that was dropped.
    pub fn forget(&self, id: TableId) {
        self.open.lock().remove(&id);
        if let Some(compactor) = self.compactor.get() {
            compactor.remove(id);
        }
    }

    /// Commits a load; for UNIQUE tables, finds out which rows it replaces.
    ///
    /// # Errors
    /// The errors of [`Table::publish`] and [`Table::publish_replacing`].
    pub async fn publish(&self, table: &Table, rowset: Rowset) -> Result<Arc<TableState>> {
        if table.snapshot().schema().model != Model::Unique {
            return Ok(table.publish(rowset).await?);
        }
        let own = Brought::of(&rowset);
        Ok(table.publish_replacing(rowset, |state, after| self.replaced(table, own.clone(), state, after)).await?)
    }

    /// Commits the load of a transaction into a UNIQUE table. `read` are the rows of the followed state that the load
    /// replaces.
    ///
    /// # Errors
    /// The errors of [`Table::publish_following`].
    pub async fn publish_following(
        &self,
        table: &Table,
        rowset: Rowset,
        followed: &Followed,
        read: &Deletes,
    ) -> Result<Arc<TableState>> {
        let own = Brought::of(&rowset);
        let resolve = |state, after| self.replaced(table, own.clone(), state, after);
        Ok(table.publish_following(rowset, followed, read, resolve).await?)
    }

    /// Returns the rows that a load replaces, among those that were added after a commit.
    ///
    /// # Errors
    /// The store's.
    pub async fn replaced(&self, table: &Table, own: Brought, state: Arc<TableState>, after: u64) -> Result<Deletes> {
        let path = |object| table.data_path(object);
        let old = state.segments_added_after(after);
        Ok(mow::replaced(&self.readers, &path, state.schema(), &own.objects, own.condition, old).await?)
    }
}
