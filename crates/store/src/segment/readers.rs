//! Opened objects, kept for the next one who asks.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;

use super::{ObjectReader, PageCache, Result};
use crate::table::data::DataObject;

/// Opened objects of one store and their pages: one for a process, for all tables. Bounded by bytes; what was asked for
/// longest ago goes first.
pub struct Readers {
    store: Arc<dyn ObjectStore>,
    cache: Arc<PageCache>,
    open_bytes: usize,
    tick: AtomicU64,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    map: HashMap<Path, (Arc<ObjectReader>, u64)>,
    bytes: usize,
}

impl std::fmt::Debug for Readers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Readers").finish_non_exhaustive()
    }
}

impl Readers {
    /// Keeps about `open_bytes` of footers and indexes, and unpacked pages in `cache`.
    pub fn new(store: Arc<dyn ObjectStore>, cache: Arc<PageCache>, open_bytes: usize) -> Self {
        Self { store, cache, open_bytes, tick: AtomicU64::new(0), open: Mutex::default() }
    }

    /// The cache of pages.
    pub fn cache(&self) -> &Arc<PageCache> {
        &self.cache
    }

    /// The object at `path`, if it is open.
    pub fn opened(&self, path: &Path) -> Option<Arc<ObjectReader>> {
        let now = self.tick.fetch_add(1, Ordering::Relaxed);
        let mut open = self.open.lock();
        let (reader, used) = open.map.get_mut(path)?;
        *used = now;
        Some(reader.clone())
    }

    /// The object at `path`, opened if need be.
    ///
    /// # Errors
    /// As [`ObjectReader::open`].
    pub async fn get(&self, path: &Path, object: &DataObject) -> Result<Arc<ObjectReader>> {
        if let Some(reader) = self.opened(path) {
            return Ok(reader);
        }
        let now = self.tick.fetch_add(1, Ordering::Relaxed);
        // Two at once may both open it; the second one's reader is used from then on.
        let reader = ObjectReader::open(&self.store, path, object, &self.cache).await?;
        let mut open = self.open.lock();
        let open = &mut *open;
        open.bytes += reader.memory_bytes();
        if let Some((before, _)) = open.map.insert(path.clone(), (reader.clone(), now)) {
            open.bytes -= before.memory_bytes();
        }
        if open.bytes > self.open_bytes {
            // A tenth at once, so that the order is made rarely.
            let mut by_age: Vec<_> = open.map.iter().map(|(path, (_, used))| (*used, path.clone())).collect();
            by_age.sort_unstable();
            for (used, path) in by_age {
                if open.bytes <= self.open_bytes / 10 * 9 || used == now {
                    break;
                }
                if let Some((gone, _)) = open.map.remove(&path) {
                    open.bytes -= gone.memory_bytes();
                }
            }
        }
        Ok(reader)
    }
}
