//! Opened objects, kept for the next one who asks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::path::Path;
use parking_lot::Mutex;
use tokio::sync::OnceCell;

use super::{Fetcher, ForeignFile, ObjectReader, PageCache, Result, ScanIo};
use crate::table::data::DataObject;

/// Opened objects of one store and their pages: one for a process, for all tables. Bounded by bytes; what was asked for
/// longest ago goes first.
pub struct Readers {
    fetcher: Arc<Fetcher>,
    cache: Arc<PageCache>,
    open_bytes: usize,
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

/// An object that is open, or is being opened: all who ask meanwhile wait for the same request.
struct Slot {
    reader: Arc<OnceCell<Arc<ObjectReader>>>,
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
        Self { fetcher, cache, open_bytes, tick: AtomicU64::new(0), open: Mutex::default() }
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
        slot.reader.get().cloned()
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
        let now = self.tick.fetch_add(1, Ordering::Relaxed);
        let cell = {
            let mut open = self.open.lock();
            let slot = match open.map.get_mut(&key) {
                Some(slot) => slot,
                None => open.map.entry(key.clone()).or_insert(Slot { reader: Arc::default(), bytes: 0, used: now }),
            };
            slot.used = now;
            if let Some(reader) = slot.reader.get() {
                return Ok(reader.clone());
            }
            Arc::clone(&slot.reader)
        };
        let opened = cell.get_or_try_init(open).await;
        let mut open = self.open.lock();
        let open = &mut *open;
        match &opened {
            Ok(reader) => {
                let ours = open.map.get_mut(&key).filter(|slot| Arc::ptr_eq(&slot.reader, &cell) && slot.bytes == 0);
                if let Some(slot) = ours {
                    slot.bytes = reader.memory_bytes();
                    open.bytes += slot.bytes;
                }
            }
            Err(_) => {
                if open.map.get(&key).is_some_and(|slot| Arc::ptr_eq(&slot.reader, &cell)) {
                    open.map.remove(&key);
                }
            }
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
        opened.cloned()
    }
}
