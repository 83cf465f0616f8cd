//! Opened objects, kept for the next one who asks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::path::Path;
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;

use super::{Fetcher, ForeignFile, ObjectReader, PageCache, Result, ScanIo};
use crate::table::data::DataObject;

/// Opened objects of one store and their pages: one for a process, for all tables. Bounded by bytes; what was asked for
/// longest ago goes first.
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
    /// Its store, and the file.
    Foreign(String, ForeignFile),
}

type Cell = Arc<OnceCell<Arc<ObjectReader>>>;

/// An object that is open, or is being opened: all who ask meanwhile wait for the same request.
struct Slot {
    reader: Cell,
    /// As counted in [`Open::bytes`]; 0 until it is open.
    bytes: usize,
    used: u64,
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readers").finish_non_exhaustive()
    }
}

impl Readers {
    /// Keeps about `open_bytes` of footers and indexes, and unpacked pages in `cache`.
    pub fn new(fetcher: Arc<Fetcher>, cache: Arc<PageCache>, open_bytes: usize) -> Self {
        Self { fetcher, cache, open_bytes, workers: None, tick: AtomicU64::new(0), open: Mutex::default() }
    }

    /// Long work on what is read goes to these threads, instead of those of whoever asks for it.
    pub fn with_workers(self, workers: Handle) -> Self {
        Self { workers: Some(workers), ..self }
    }

    /// The threads for long work; `None` outside of any runtime.
    pub(crate) fn workers(&self) -> Option<Handle> {
        self.workers.clone().or_else(|| Handle::try_current().ok())
    }

    /// The cache of pages.
    pub fn cache(&self) -> &Arc<PageCache> {
        &self.cache
    }

    /// The object at `path`, if it is open.
    pub fn opened(&self, path: &Path) -> Option<Arc<ObjectReader>> {
        let now = self.tick.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock();
        let slot = open.map.get_mut(&Key::Own(path.clone()))?;
        slot.used = now;
        slot.reader.get().filter(|reader| !reader.is_distrusted()).cloned()
    }

    /// The object at `path`, if it is open or can be opened without waiting.
    ///
    /// # Errors
    /// As [`ObjectReader::open`].
    pub fn get_now(&self, path: &Path, object: &DataObject) -> Result<Option<Arc<ObjectReader>>> {
        if let Some(reader) = self.opened(path) {
            return Ok(Some(reader));
        }
        let Some(reader) = ObjectReader::open_now(&self.fetcher, path, object, &self.cache)? else { return Ok(None) };
        let key = Key::Own(path.clone());
        let cell = self.slot(&key);
        // Who was faster is right; while another is opening it, this reader is as good.
        let _ = cell.set(reader);
        let Some(reader) = cell.get().cloned() else { return Ok(None) };
        self.note(&key, &cell, Ok(&reader));
        Ok(Some(reader))
    }

    /// How requests are made.
    pub fn fetcher(&self) -> &Arc<Fetcher> {
        &self.fetcher
    }

    /// Forgets all that is kept in memory.
    pub fn clear(&self) {
        *self.open.lock() = Open::default();
        self.cache.clear();
    }

    /// The object at `path`, opened if need be.
    ///
    /// # Errors
    /// As [`ObjectReader::open`].
    pub async fn get(&self, path: &Path, object: &DataObject) -> Result<Arc<ObjectReader>> {
        self.get_for(path, object, None).await
    }

    /// The same; a request that is needed is counted in `io`.
    ///
    /// # Errors
    /// As [`ObjectReader::open`].
    pub async fn get_for(
        &self,
        path: &Path,
        object: &DataObject,
        io: Option<&Arc<ScanIo>>,
    ) -> Result<Arc<ObjectReader>> {
        let open = || ObjectReader::open_by(&self.fetcher, path, object, &self.cache, io);
        self.open_once(Key::Own(path.clone()), open).await
    }

    /// A Parquet file of somebody else in the store that `fetcher` reads, which is known by the name `store`.
    ///
    /// # Errors
    /// As [`ObjectReader::open_foreign`].
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

    /// Where an object is, or will be when it is open.
    fn slot(&self, key: &Key) -> Cell {
        let now = self.tick.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock();
        let open = &mut *open;
        let slot = match open.map.get_mut(key) {
            Some(slot) => {
                if slot.reader.get().is_some_and(|reader| reader.is_distrusted()) {
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

    /// Counts what was opened, or forgets what could not be; makes room.
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
            // A tenth at once, so that the order is made rarely.
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
