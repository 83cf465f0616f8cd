//! The cache: memory and disk together, and the thread that fills them.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use object_store::ObjectStore;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::context::{IoContext, IoStats, Populate};
use super::disk::{Disk, Key, Name};
use super::index::{Facts, Index, Piece};
use super::store::{CachedStore, Immutable};

/// Maximum number of bytes that wait to be written to disk; further bytes are not kept.
const PENDING_BYTES_MAX: u64 = 128 << 20;
/// Time after a failed write during which nothing is written.
const REST: Duration = Duration::from_secs(10);
/// Number of attempts to make room for one file on a full disk.
const FULL_TRIES: u32 = 4;
/// A scan that missed more than one `LARGE_SHARE`-th of the cache is large.
const LARGE_SHARE: u64 = 10;
/// One `FREE_SHARE`-th of the free disk space is the cache's default size.
const FREE_SHARE: u64 = 2;
/// Largest default size on disk, in bytes.
const DISK_BYTES_DEFAULT_MAX: u64 = 100 << 30;

/// Options of a cache.
#[derive(Debug, Clone)]
pub struct CacheOptions {
    /// Directory of its files; `None`: memory only.
    pub dir: Option<PathBuf>,
    /// Bytes on disk; `None`: half of the free space there (including the cache's own files), at most 100 GiB.
    pub disk_bytes: Option<u64>,
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Block size in bytes: extents are cut at multiples of it in their object.
    pub block_bytes: u64,
}

impl Default for CacheOptions {
    fn default() -> Self {
        CacheOptions { dir: None, disk_bytes: None, memory_bytes: 64 << 20, block_bytes: 1 << 20 }
    }
}

/// Contents and counters of a cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheStats {
    /// Bytes in memory.
    pub memory_bytes: u64,
    /// Maximum number of bytes in memory.
    pub memory_capacity: u64,
    /// Bytes that files take on disk.
    pub disk_bytes: u64,
    /// Maximum number of bytes that files may take.
    pub disk_capacity: u64,
    /// Number of extents.
    pub extents: u64,
    /// Bytes that wait to be written to disk.
    pub pending_bytes: u64,
    /// Files deleted to make room.
    pub evictions: u64,
    /// Files that could not be read or were damaged; their bytes came from the store.
    pub read_errors: u64,
    /// Files that were not written, including those skipped for a while after a failure.
    pub write_errors: u64,
    /// Whether there is a directory to write to.
    pub has_disk: bool,
    /// Whether the last write there failed, so that writing is suspended.
    pub disk_fails: bool,
}

enum Job {
    Write { name: Name, bytes: Bytes },
    Settled(oneshot::Sender<()>),
}

/// The data cache. All bytes in it also exist elsewhere.
#[derive(Debug)]
pub struct DataCache {
    inner: Arc<Inner>,
    jobs: mpsc::Sender<Job>,
    /// Queue of the filling thread, which starts with the directory or with the first store.
    todo: Mutex<Option<mpsc::Receiver<Job>>>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    index: Mutex<Index>,
    disk: Option<Disk>,
    block_bytes: u64,
    stats: IoStats,
    pending: AtomicU64,
    evictions: AtomicU64,
    read_errors: AtomicU64,
    write_errors: AtomicU64,
    disk_fails: AtomicBool,
    warned: AtomicBool,
}

impl DataCache {
    /// Opens a cache. Its directory is read in the background. If the directory cannot be used, for example because
    /// another process uses it, the cache is in memory only, and a line is logged.
    pub fn open(options: &CacheOptions) -> Arc<Self> {
        let disk = options.dir.as_ref().filter(|_| options.disk_bytes != Some(0)).and_then(|dir| {
            Disk::open(dir)
                .inspect_err(|e| tracing::warn!(dir = %dir.display(), error = %e, "the data cache is in memory only"))
                .ok()
        });
        let disk_bytes = match (&disk, options.disk_bytes) {
            (None, _) => 0,
            (Some(_), Some(bytes)) => bytes,
            (Some(disk), None) => {
                let mut own = 0;
                let _ = disk.load(|name| own += name.disk_bytes());
                let free = disk.free_bytes().unwrap_or(0);
                ((free + own) / FREE_SHARE).min(DISK_BYTES_DEFAULT_MAX)
            }
        };
        let inner = Arc::new(Inner {
            index: Mutex::new(Index::new(options.memory_bytes, disk_bytes)),
            disk,
            block_bytes: options.block_bytes.max(1),
            stats: IoStats::default(),
            pending: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            read_errors: AtomicU64::new(0),
            write_errors: AtomicU64::new(0),
            disk_fails: AtomicBool::new(false),
            warned: AtomicBool::new(false),
        });
        let (jobs, todo) = mpsc::channel();
        let cache = Arc::new(DataCache { inner, jobs, todo: Mutex::new(Some(todo)) });
        if cache.inner.disk.is_some() {
            cache.start_filling();
        }
        cache
    }

    fn start_filling(&self) {
        let Some(todo) = self.todo.lock().take() else { return };
        let filler = Arc::clone(&self.inner);
        // Without its thread, the cache keeps nothing beyond memory's first fill: `admit` finds the channel closed.
        let started = std::thread::Builder::new().name("cache-fill".into()).spawn(move || filler.fill(&todo));
        if let Err(e) = started {
            tracing::warn!(error = %e, "the data cache keeps nothing: its thread cannot be started");
        }
    }

    /// Returns the caching layer above a store. `identity` distinguishes stores (endpoint and bucket). `immutable` says
    /// which paths have objects that never change, so that they are kept although they are read without a tag.
    pub fn wrap(
        self: &Arc<Self>,
        store: Arc<dyn ObjectStore>,
        identity: &str,
        immutable: Immutable,
    ) -> Arc<CachedStore> {
        self.start_filling();
        Arc::new(CachedStore::new(store, Arc::clone(self), identity, immutable))
    }

    /// Returns a layer like [`wrap`](Self::wrap) that keeps nothing and only counts reads.
    pub fn beside(self: &Arc<Self>, store: Arc<dyn ObjectStore>) -> Arc<CachedStore> {
        Arc::new(CachedStore::uncached(store, Arc::clone(self)))
    }

    /// Returns the contents and counters.
    pub fn stats(&self) -> CacheStats {
        let inner = &self.inner;
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        inner.heed_removal();
        let index = inner.index.lock();
        let (extents, memory_bytes, disk_bytes) = index.sizes();
        CacheStats {
            memory_bytes,
            memory_capacity: index.memory_capacity(),
            disk_bytes,
            disk_capacity: index.disk_capacity(),
            extents: extents as u64,
            pending_bytes: get(&inner.pending),
            evictions: get(&inner.evictions),
            read_errors: get(&inner.read_errors),
            write_errors: get(&inner.write_errors),
            has_disk: inner.disk.is_some(),
            disk_fails: inner.disk_fails.load(Ordering::Relaxed),
        }
    }

    /// Returns the counters of reads and writes of all stores below, since the start.
    pub fn io(&self) -> &IoStats {
        &self.inner.stats
    }

    /// Returns when all bytes given to the cache before are written, or could not be.
    pub async fn settle(&self) {
        self.start_filling();
        let (done, wait) = oneshot::channel();
        if self.jobs.send(Job::Settled(done)).is_ok() {
            let _ = wait.await;
        }
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// Keeps fetched bytes if the context allows it.
    pub(crate) fn admit(&self, context: Option<&IoContext>, key: Key, facts: Facts, start: u64, bytes: &Bytes) {
        let populate = context.map_or(Populate::Auto, |c| c.populate);
        if populate == Populate::Never {
            return;
        }
        let inner = &*self.inner;
        let block = inner.block_bytes;
        let (mut at, end) = (start, start + bytes.len() as u64);
        while at < end {
            let to = (at / block + 1).saturating_mul(block).min(end);
            let part = bytes.slice((at - start) as usize..(to - start) as usize);
            let name = Name { key, size: facts.size, modified_ms: facts.modified_ms, start: at, len: to - at };
            if inner.pending.load(Ordering::Relaxed) + name.len > PENDING_BYTES_MAX {
                return;
            }
            {
                let mut index = inner.index.lock();
                let large = (index.disk_capacity() + index.memory_capacity()) / LARGE_SHARE;
                let is_large = context.is_some_and(|c| c.stats.miss_bytes.load(Ordering::Relaxed) > large);
                let admitted = populate == Populate::Always || !is_large || index.second_touch(key, at / block);
                if !admitted || !index.insert(key, facts, at, &part) {
                    at = to;
                    continue;
                }
            }
            inner.pending.fetch_add(name.len, Ordering::Relaxed);
            if self.jobs.send(Job::Write { name, bytes: part }).is_err() {
                inner.pending.fetch_sub(name.len, Ordering::Relaxed);
                inner.index.lock().written(&name, false, None);
                return;
            }
            inner.stats.add(|s| &s.fill_bytes, name.len);
            if let Some(context) = context {
                context.count(|stats| stats.add(|s| &s.fill_bytes, name.len));
            }
            at = to;
        }
    }
}

impl Inner {
    pub(crate) fn stats(&self) -> &IoStats {
        &self.stats
    }

    /// Returns the properties of an object. If only names of files have them, one file is read first, at most 64 KiB: a
    /// file under a wrong name must not decide how large an object is.
    pub(crate) fn facts(&self, key: Key) -> Option<Facts> {
        loop {
            let name = {
                let index = self.index.lock();
                match index.facts(key) {
                    Some(facts) => return Some(facts),
                    None => index.unproven(key)?,
                }
            };
            // A damaged file is removed from the index by this read.
            if self.read_disk(&name, 0..1, &mut [0]) {
                self.index.lock().proved(&name);
            }
        }
    }

    /// Whether [`facts`](Self::facts) will read a file.
    pub(crate) fn is_unproven(&self, key: Key) -> bool {
        self.index.lock().unproven(key).is_some()
    }

    /// Removes an object.
    pub(crate) fn forget(&self, key: Key) {
        let files = self.index.lock().forget(key);
        if let Some(disk) = &self.disk {
            files.iter().for_each(|name| disk.remove(name));
        }
    }

    pub(crate) fn pieces(&self, key: Key, range: Range<u64>) -> Vec<Piece> {
        self.index.lock().pieces(key, range)
    }

    /// Reads part of an extent from disk. Returns false, and removes the extent, if that is not possible.
    pub(crate) fn read_disk(&self, name: &Name, part: Range<u64>, out: &mut [u8]) -> bool {
        let Some(disk) = &self.disk else { return false };
        match disk.read(name, part, out) {
            Ok(()) => true,
            Err(e) => {
                // Usually the file was evicted since it was looked up, or another program cleaned the directory.
                if e.kind() != std::io::ErrorKind::NotFound {
                    let file = disk.file(name);
                    tracing::warn!(file = %file.display(), error = %e, "a file of the data cache is damaged; its bytes come from the store");
                    self.read_errors.fetch_add(1, Ordering::Relaxed);
                }
                self.index.lock().lost(name);
                disk.remove(name);
                false
            }
        }
    }

    fn fill(&self, jobs: &mpsc::Receiver<Job>) {
        if let Some(disk) = &self.disk {
            let loaded = disk.load(|name| {
                if !self.index.lock().found(name) {
                    disk.remove(&name);
                }
            });
            if let Err(e) = loaded {
                tracing::warn!(error = %e, "not all of the data cache's directory can be read");
            }
            let capacity = self.index.lock().disk_capacity();
            self.evict(capacity);
        }
        let mut resting: Option<Instant> = None;
        while let Ok(job) = jobs.recv() {
            match job {
                Job::Write { name, bytes } => {
                    resting = resting.filter(|since| since.elapsed() < REST);
                    let fits = self.disk.is_some() && name.disk_bytes() <= self.index.lock().disk_capacity();
                    let on_disk = fits && resting.is_none() && self.write(&name, &bytes);
                    if fits && !on_disk {
                        self.write_errors.fetch_add(1, Ordering::Relaxed);
                        resting.get_or_insert_with(Instant::now);
                    }
                    self.disk_fails.store(resting.is_some(), Ordering::Relaxed);
                    let keep = self.index.lock().memory_capacity() > 0;
                    // A copy, because the bytes may share a buffer that is larger than the accounted size.
                    let compact = keep.then(|| Bytes::copy_from_slice(&bytes));
                    let mut index = self.index.lock();
                    let known = index.written(&name, on_disk, compact);
                    index.shrink_memory();
                    drop(index);
                    if !known && let Some(disk) = self.disk.as_ref().filter(|_| on_disk) {
                        disk.remove(&name);
                    }
                    self.pending.fetch_sub(name.len, Ordering::Relaxed);
                }
                Job::Settled(done) => drop(done.send(())),
            }
        }
    }

    /// Removes all files from the index if the directory was removed.
    fn heed_removal(&self) {
        if self.disk.as_ref().is_some_and(|disk| !disk.is_there()) {
            self.index.lock().lost_disk();
        }
    }

    /// Deletes files until all together have at most `most` bytes.
    fn evict(&self, most: u64) {
        let gone = self.index.lock().shrink_disk(most);
        if let Some(disk) = &self.disk {
            gone.iter().for_each(|name| disk.remove(name));
        }
        self.evictions.fetch_add(gone.len() as u64, Ordering::Relaxed);
    }

    fn write(&self, name: &Name, bytes: &Bytes) -> bool {
        let Some(disk) = &self.disk else { return false };
        let room = name.disk_bytes();
        let capacity = self.index.lock().disk_capacity();
        self.heed_removal();
        self.evict(capacity.saturating_sub(room));
        let mut written = disk.write(name, bytes);
        // Others need the disk too: the cache's oldest files are deleted, twice as many bytes in each attempt, since a
        // file takes more than its bytes. Not all files: if something else fills the disk, or frees it late, that would
        // empty the cache for nothing.
        for times in (0..FULL_TRIES).map(|tries| 1 << tries) {
            let held = self.index.lock().disk_bytes();
            if held == 0 || !written.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::StorageFull) {
                break;
            }
            self.evict(held.saturating_sub(room * times));
            written = disk.write(name, bytes);
        }
        match written {
            Ok(()) => true,
            Err(e) => {
                if !self.warned.swap(true, Ordering::Relaxed) {
                    let file = disk.file(name);
                    tracing::warn!(file = %file.display(), error = %e, "the data cache cannot write to its directory; reads go on without it");
                }
                false
            }
        }
    }
}
