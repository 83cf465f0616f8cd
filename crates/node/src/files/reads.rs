//! Counters of the reads of a scan of text files in object storage.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use dipper_cache::IoStats;

/// Counters of one scan, shared by its files.
#[derive(Debug, Default)]
pub struct FileReads {
    requests: AtomicU64,
    bytes: AtomicU64,
    slowest_ns: AtomicU64,
    waited_ns: AtomicU64,
    /// Counters of object storage and its cache.
    pub stats: Arc<IoStats>,
}

impl FileReads {
    pub(super) fn request(&self, bytes: u64, took: Duration) {
        self.requests.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.slowest_ns.fetch_max(took.as_nanos() as u64, Relaxed);
    }

    pub(super) fn wait(&self, time: Duration) {
        self.waited_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }

    /// Returns the number of requested ranges; the data cache may have answered a part of them.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Returns the bytes of these ranges.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Returns the duration of the slowest request.
    pub fn slowest(&self) -> Duration {
        Duration::from_nanos(self.slowest_ns.load(Relaxed))
    }

    /// Returns how long workers waited for bytes, summed over all workers.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Relaxed))
    }
}
