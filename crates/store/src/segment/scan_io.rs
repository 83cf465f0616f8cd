//! Counters of the reads of one scan, and options for its requests.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use object_store::Extensions;
use parking_lot::Mutex;

/// Counters of one scan's reads, shared by its workers. Serial scans have one request of at most 4 MiB under way at a
/// time in each call.
#[derive(Debug, Default)]
pub struct ScanIo {
    serial: bool,
    few: bool,
    extensions: Extensions,
    requests: AtomicU64,
    bytes: AtomicU64,
    hedged: AtomicU64,
    retried: AtomicU64,
    cached_pages: AtomicU64,
    cached_bytes: AtomicU64,
    pages_pruned: AtomicU64,
    pages_skipped: AtomicU64,
    tails: AtomicU64,
    tail_bytes: AtomicU64,
    ahead: Mutex<Ahead>,
    /// Times of requests in microseconds.
    latencies: Mutex<Vec<u32>>,
}

/// Bytes fetched together with a filter's columns, before the filter said whether they are needed.
#[derive(Debug, Default)]
struct Ahead {
    undecided: u64,
    needed: u64,
    unneeded: u64,
}

/// Bytes that a scan may fetch in vain instead of waiting for its filter: as many as a link transfers in about the time
/// to one first byte.
const AHEAD_BYTES: u64 = 32 << 20;

/// The counters of a [`ScanIo`] at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IoCounts {
    /// Requests that were answered, those for tails among them.
    pub requests: u64,
    /// Bytes that were received.
    pub bytes: u64,
    /// Requests that were sent a second time because they were slow.
    pub hedged: u64,
    /// Requests that were repeated after an error.
    pub retried: u64,
    /// Pages that were in memory.
    pub cached_pages: u64,
    /// Unpacked bytes of those pages.
    pub cached_bytes: u64,
    /// Stretches between page borders that were pruned by bounds.
    pub pages_pruned: u64,
    /// Pages that were not read because none of their rows was wanted.
    pub pages_skipped: u64,
    /// Requests for footers and indexes.
    pub tails: u64,
    /// Bytes of footers and indexes.
    pub tail_bytes: u64,
    /// Shortest, median and 99th percentile of the times of requests.
    pub latencies: Option<[Duration; 3]>,
}

impl ScanIo {
    /// Makes counters. `serial`: one request after the other. `few`: a scan of few rows, which rather reads some bytes
    /// in vain than makes many requests.
    pub fn new(serial: bool, few: bool) -> Self {
        Self { serial, few, ..Self::default() }
    }

    /// Adds extensions for the store, which its layers find in [`GetOptions::extensions`].
    ///
    /// [`GetOptions::extensions`]: object_store::GetOptions::extensions
    pub fn with_extensions(self, extensions: Extensions) -> Self {
        Self { extensions, ..self }
    }

    pub(super) fn extensions(&self) -> &Extensions {
        &self.extensions
    }

    /// Returns whether few rows are wanted.
    pub fn wants_few(&self) -> bool {
        self.few
    }

    /// Returns whether requests are made one after the other.
    pub fn is_serial(&self) -> bool {
        self.serial
    }

    pub(super) fn request(&self, bytes: u64, took: Duration) {
        self.requests.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.latencies.lock().push(took.as_micros().try_into().unwrap_or(u32::MAX));
    }

    pub(super) fn hedged(&self) {
        self.hedged.fetch_add(1, Relaxed);
    }

    pub(super) fn retried(&self) {
        self.retried.fetch_add(1, Relaxed);
    }

    pub(super) fn cached(&self, bytes: u64) {
        self.cached_pages.fetch_add(1, Relaxed);
        self.cached_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn tail(&self, bytes: u64) {
        self.tails.fetch_add(1, Relaxed);
        self.tail_bytes.fetch_add(bytes, Relaxed);
    }

    /// Returns whether `bytes` should be fetched together with the filter's columns: as long as most of those before
    /// were needed.
    pub(super) fn may_fetch_ahead(&self, bytes: u64) -> bool {
        if self.serial || self.few {
            return false;
        }
        let mut ahead = self.ahead.lock();
        let may = ahead.undecided + ahead.unneeded + bytes <= AHEAD_BYTES + ahead.needed;
        ahead.undecided += if may { bytes } else { 0 };
        may
    }

    /// Notes whether bytes that were fetched ahead were needed.
    pub(super) fn fetched_ahead(&self, bytes: u64, needed: bool) {
        let mut ahead = self.ahead.lock();
        ahead.undecided -= bytes;
        let counted = if needed { &mut ahead.needed } else { &mut ahead.unneeded };
        *counted += bytes;
    }

    /// Counts pages that were pruned: none of their rows can be wanted.
    pub fn pruned_pages(&self, pages: u64) {
        self.pages_pruned.fetch_add(pages, Relaxed);
    }

    pub(super) fn skipped_pages(&self, pages: u64) {
        self.pages_skipped.fetch_add(pages, Relaxed);
    }

    /// Returns the counters.
    pub fn counts(&self) -> IoCounts {
        let mut sorted = self.latencies.lock().clone();
        sorted.sort_unstable();
        let at = |share: usize| Duration::from_micros(sorted[(sorted.len() - 1) * share / 100].into());
        let n = |counter: &AtomicU64| counter.load(Relaxed);
        IoCounts {
            requests: n(&self.requests),
            bytes: n(&self.bytes),
            hedged: n(&self.hedged),
            retried: n(&self.retried),
            cached_pages: n(&self.cached_pages),
            cached_bytes: n(&self.cached_bytes),
            pages_pruned: n(&self.pages_pruned),
            pages_skipped: n(&self.pages_skipped),
            tails: n(&self.tails),
            tail_bytes: n(&self.tail_bytes),
            latencies: (!sorted.is_empty()).then(|| [at(0), at(50), at(99)]),
        }
    }
}
