//! What a scan of text files in buckets has read.

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
    /// What object storage and its cache did for them.
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

    /// Ranges that were asked for; the data cache may have had a part.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The longest that one took.
    pub fn slowest(&self) -> Duration {
        Duration::from_nanos(self.slowest_ns.load(Relaxed))
    }

    /// How long workers waited for bytes, all together.
    pub fn waited(&self) -> Duration {
        Duration::from_nanos(self.waited_ns.load(Relaxed))
    }
}
