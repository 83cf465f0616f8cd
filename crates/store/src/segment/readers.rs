//! A cache of opened objects.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::path::Path;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::{Fetcher, ForeignFile, ObjectReader, PageCache, Result, ScanIo};
use crate::table::data::DataObject;

/// Opened objects of one store and their pages: one value for a process, for all tables. Bounded by bytes; the objects
/// that were not used for the longest time are dropped first.
pub struct Readers {
    fetcher: Arc<Fetcher>,
    cache: Arc<PageCache>,
    open_bytes: usize,
    workers: Option<Handle>,
    tick: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    map: HashMap<Key, Slot>,
    bytes: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Key {
    Own(Path),
    /// Name of the store, and the file.
    Foreign(String, ForeignFile),
}

type Cell = Arc<OnceCell<Arc<ObjectReader>>>;

/// An object that is open or being opened: all callers that ask meanwhile wait for the same request.
struct Slot {
    reader: Cell,
    /// Bytes as counted in [`Open::bytes`]; 0 until the object is open.
    bytes: usize,
    used: u64,
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readers").finish_non_exhaustive()
    }
}

impl Readers {
    /// Makes a cache that keeps about `open_bytes` of footers and indexes, and unpacked pages in `cache`.
    pub fn new(fetcher: Arc<Fetcher>, cache: Arc<PageCache>, open_bytes: usize) -> Self {
        Self { fetcher, cache, open_bytes, workers: None, tick: AtomicU64::new(0), open: Mutex::default() }
    }

    /// Sends long work on pages and blocks to these threads, instead of the caller's.
    pub fn with_workers(self, workers: Handle) -> Self {
        Self { workers: Some(workers), ..self }
    }

    /// Returns the threads for long work; `None` outside of any runtime.
    pub(crate) fn workers(&self) -> Option<Handle> {
        self.workers.clone().or_else(|| Handle::try_current().ok())
    }

    /// Returns the cache of pages.
    pub fn cache(&self) -> &Arc<PageCache> {
        &self.cache
    }

    /// Returns the object at `path` if it is open.
    pub fn opened(&self, path: &Path) -> Option<Arc<ObjectReader>> {
        let now = self.tick.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock();
        let slot = open.map.get_mut(&Key::Own(path.clone()))?;
        slot.used = now;
        slot.reader.get().filter(|reader| !reader.is_distrusted()).cloned()
    }

    /// Returns the object at `path` if it is open or can be opened without waiting.
    ///
    /// # Errors
    /// The errors of [`ObjectReader::open`].
    pub fn get_now(&self, path: &Path, object: &DataObject) -> Result<Option<Arc<ObjectReader>>> {
        if let Some(reader) = self.opened(path) {
            return Ok(Some(reader));
        }
        let Some(reader) = ObjectReader::open_now(&self.fetcher, path, object, &self.cache)? else { return Ok(None) };
        let key = Key::Own(path.clone());
        let cell = self.slot(&key);
        // Whoever was faster wins; while another thread is opening the object, this reader is as good.
        let _ = cell.set(reader);
        let Some(reader) = cell.get().cloned() else { return Ok(None) };
        self.note(&key, &cell, Ok(&reader));
        Ok(Some(reader))
    }

    /// Returns the fetcher of the objects.
    pub fn fetcher(&self) -> &Arc<Fetcher> {
        &self.fetcher
    }

    /// Drops all opened objects and pages.
    pub fn clear(&self) {
        *self.open.lock() = Open::default();
        self.cache.clear();
    }

    /// Returns the object at `path`; opens it if necessary.
    ///
    /// # Errors
    /// The errors of [`ObjectReader::open`].
    pub async fn get(&self, path: &Path, object: &DataObject) -> Result<Arc<ObjectReader>> {
        self.get_for(path, object, None).await
    }

    /// Returns the object like [`get`](Self::get); a request that is needed is counted in `io`.
    ///
    /// # Errors
    /// The errors of [`ObjectReader::open`].
    pub async fn get_for(
        &self,
        path: &Path,
        object: &DataObject,
        io: Option<&Arc<ScanIo>>,
    ) -> Result<Arc<ObjectReader>> {
        let open = || ObjectReader::open_by(&self.fetcher, path, object, &self.cache, io);
        self.open_once(Key::Own(path.clone()), open).await
    }

    /// Returns a Parquet file of another writer in the store that `fetcher` reads and that is known by the name
    /// `store`; opens it if necessary.
    ///
    /// # Errors
    /// The errors of [`ObjectReader::open_foreign`].
    pub async fn get_foreign(
        &self,
        store: &str,
        fetcher: &Arc<Fetcher>,
        file: &ForeignFile,
        io: Option<&Arc<ScanIo>>,
    ) -> Result<Arc<ObjectReader>> {
        let open = || ObjectReader::open_foreign(fetcher, file, &self.cache, io);
        self.open_once(Key::Foreign(store.to_string(), file.clone()), open).await
    }

    async fn open_once<F>(&self, key: Key, open: impl FnOnce() -> F) -> Result<Arc<ObjectReader>>
    where
        F: Future<Output = Result<Arc<ObjectReader>>>,
    {
        let cell = self.slot(&key);
        if let Some(reader) = cell.get() {
            return Ok(reader.clone());
        }
        let opened = cell.get_or_try_init(open).await;
        self.note(&key, &cell, opened.as_ref().copied().map_err(|_| ()));
        opened.cloned()
    }

    /// Returns the cell that holds an object, or will hold it when it is open.
    fn slot(&self, key: &Key) -> Cell {
        let now = self.tick.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock();
        let open = &mut *open;
        let slot = match open.map.get_mut(key) {
            Some(slot) => {
                if slot.reader.get().is_some_and(|reader| reader.is_distrusted()) {
                    assert!(open.bytes >= slot.bytes, "the bytes of an opened object are counted");
                    open.bytes -= slot.bytes;
                    *slot = Slot { reader: Arc::default(), bytes: 0, used: now };
                }
                slot
            }
            None => open.map.entry(key.clone()).or_insert(Slot { reader: Arc::default(), bytes: 0, used: now }),
        };
        slot.used = now;
        Arc::clone(&slot.reader)
    }

    /// Counts an opened object, or removes one that could not be opened; then makes room.
    fn note(&self, key: &Key, cell: &Cell, opened: Result<&Arc<ObjectReader>, ()>) {
        let mut open = self.open.lock();
        let open = &mut *open;
        let ours = open.map.get_mut(key).filter(|slot| Arc::ptr_eq(&slot.reader, cell));
        let now = ours.as_ref().map_or(0, |slot| slot.used);
        match (opened, ours) {
            (Ok(reader), Some(slot)) if slot.bytes == 0 => {
                slot.bytes = reader.memory_bytes();
                open.bytes += slot.bytes;
            }
            (Err(()), Some(_)) => {
                open.map.remove(key);
            }
            _ => {}
        }
        if open.bytes > self.open_bytes {
            let held: usize = open.map.values().map(|slot| slot.bytes).sum();
            assert_eq!(open.bytes, held, "the bytes of all opened objects are counted once");
            // Frees a tenth at once, so that entries are rarely sorted.
            let mut by_age: Vec<_> = open.map.iter().map(|(key, slot)| (slot.used, key.clone())).collect();
            by_age.sort_unstable();
            for (used, key) in by_age {
                if open.bytes <= self.open_bytes / 10 * 9 || used == now {
                    break;
                }
                if let Some(gone) = open.map.remove(&key) {
                    open.bytes -= gone.bytes;
                }
            }
        }
    }
}
