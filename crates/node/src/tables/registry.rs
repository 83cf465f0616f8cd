//! What a process keeps of its native tables: handles, open objects, and how loads of any kind are published.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use dipper_store::catalog::TableId;
use dipper_store::compact::Compactor;
use dipper_store::mow;
use dipper_store::segment::{Fetcher, PageCache, Readers};
use dipper_store::table::data::DataObject;
use dipper_store::table::schema::Model;
use dipper_store::table::{Deletes, Rowset, Table, TableState};
use object_store::{Extensions, ObjectStore};
use parking_lot::Mutex;
use tokio::runtime::Handle;

use super::volumes::Volumes;
use crate::error::Result;

/// One part in so many of the cache keeps footers and indexes.
const OPEN_SHARE: usize = 4;

/// Open tables by id, and what they share.
#[derive(Debug)]
pub struct NativeTables {
    store: Arc<dyn ObjectStore>,
    volumes: Volumes,
    open: Mutex<HashMap<TableId, Table>>,
    readers: Arc<Readers>,
    /// Those that keep nothing in memory.
    forgetful: Arc<Readers>,
    compactor: OnceLock<Compactor>,
}

impl NativeTables {
    /// Keeps unpacked pages and open objects in `cache_bytes`.
    /// `requests`: of a database in an object store, the threads that make requests, and what makes a request ask the store
    /// again for bytes that came damaged.
    /// `workers`: those that give way to threads which talk to clients.
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

    /// Where tables are.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.store
    }

    /// Where tables can be.
    pub fn volumes(&self) -> &Volumes {
        &self.volumes
    }

    /// Open objects, shared by all queries.
    pub fn readers(&self) -> &Arc<Readers> {
        &self.readers
    }

    /// Readers that keep no pages and footers and use none that are kept: all that they read comes by the data cache.
    pub fn forgetful_readers(&self) -> &Arc<Readers> {
        &self.forgetful
    }

    /// The table's handle. Two callers at once may both read the chain; one handle is kept.
    ///
    /// # Errors
    /// The chain cannot be read.
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

    /// The newest state of a table: read when this is called, or later.
    ///
    /// # Errors
    /// The chain cannot be read.
    pub async fn newest(&self, id: TableId) -> Result<Arc<TableState>> {
        self.newest_since(Instant::now(), id).await
    }

    /// The state of a table that was read at that time, or later.
    ///
    /// # Errors
    /// The chain cannot be read.
    pub async fn newest_since(&self, since: Instant, id: TableId) -> Result<Arc<TableState>> {
        let table = self.get(id).await?;
        // A handle that was made meanwhile has just read its chain.
        Ok(if table.staleness() <= since.elapsed() { table.snapshot() } else { table.refresh().await? })
    }

    /// The table's handle, if it is open.
    pub fn opened(&self, id: TableId) -> Option<Table> {
        self.open.lock().get(&id).cloned()
    }

    /// The compactor, made by the first who asks.
    pub fn compactor(&self, make: impl FnOnce() -> Compactor) -> &Compactor {
        self.compactor.get_or_init(make)
    }

    fn watch(&self, table: &Table) {
        if let Some(compactor) = self.compactor.get() {
            compactor.add(table.clone());
        }
    }

    /// Tables that are open.
    pub fn open_tables(&self) -> Vec<Table> {
        self.open.lock().values().cloned().collect()
    }

    /// Puts a table that was just made.
    pub fn insert(&self, table: Table) {
        self.watch(&table);
        self.open.lock().insert(table.id(), table);
    }

    /// Forgets a table that was dropped.
    pub fn forget(&self, id: TableId) {
        self.open.lock().remove(&id);
        if let Some(compactor) = self.compactor.get() {
            compactor.remove(id);
        }
    }

    /// Commits a load; UNIQUE tables find out which rows it replaces.
    ///
    /// # Errors
    /// As of [`Table::publish`] and [`Table::publish_replacing`].
    pub async fn publish(&self, table: &Table, rowset: Rowset) -> Result<Arc<TableState>> {
        if table.snapshot().schema().model != Model::Unique {
            return Ok(table.publish(rowset).await?);
        }
        let own = rowset.objects.clone();
        Ok(table.publish_replacing(rowset, |state, after| self.replaced(table, own.clone(), state, after)).await?)
    }

    /// Rows that go because of a load, among those that came in after a commit.
    ///
    /// # Errors
    /// The store's.
    pub async fn replaced(
        &self,
        table: &Table,
        own: Vec<Arc<DataObject>>,
        state: Arc<TableState>,
        after: u64,
    ) -> Result<Deletes> {
        let path = |object| table.data_path(object);
        let old = state.segments_added_after(after);
        Ok(mow::replaced(&self.readers, &path, state.schema(), &own, old).await?)
    }
}
