//! Profile of a load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;

/// Work of a load so far. Times are summed over threads, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LoadProfile {
    /// Rows pushed, including rejected ones.
    pub rows_pushed: u64,
    /// Rows that were rejected.
    pub rows_rejected: u64,
    /// Rows in segments: fewer than were pushed if rows with equal keys were merged.
    pub rows_written: u64,
    /// Bytes of the pushed columns in memory.
    pub bytes_pushed: u64,
    /// Bytes of the written objects.
    pub bytes_written: u64,
    /// Number of segments.
    pub segments: u64,
    /// Number of segments whose rows came in order.
    pub segments_sorted: u64,
    /// Number of objects.
    pub objects: u64,
    /// Largest number of bytes that waited in buffers or were being encoded.
    pub memory_peak: u64,
    /// Time for checks of values.
    pub check_ns: u64,
    /// Time for finding tablets and cutting batches by them.
    pub route_ns: u64,
    /// Time for sorting and merging rows with equal keys.
    pub sort_ns: u64,
    /// Time for statistics of the columns.
    pub stats_ns: u64,
    /// Time for encoding and compressing.
    pub encode_ns: u64,
    /// Time for handing encoded segments to the writer; long if the store is slower than the load.
    pub write_ns: u64,
    /// Time that threads waited for earlier rows, or for memory.
    pub wait_ns: u64,
    /// Time from the last segment until everything was durable.
    pub sync_ns: u64,
}

/// Counters that threads add to.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub rows_pushed: AtomicU64,
    pub rows_rejected: AtomicU64,
    pub rows_written: AtomicU64,
    pub bytes_pushed: AtomicU64,
    pub bytes_written: AtomicU64,
    pub segments: AtomicU64,
    pub segments_sorted: AtomicU64,
    pub objects: AtomicU64,
    pub memory_peak: AtomicU64,
    pub check_ns: AtomicU64,
    pub route_ns: AtomicU64,
    pub sort_ns: AtomicU64,
    pub stats_ns: AtomicU64,
    pub encode_ns: AtomicU64,
    pub write_ns: AtomicU64,
    pub wait_ns: AtomicU64,
    pub sync_ns: AtomicU64,
}

impl Counters {
    pub fn profile(&self) -> LoadProfile {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        LoadProfile {
            rows_pushed: get(&self.rows_pushed),
            rows_rejected: get(&self.rows_rejected),
            rows_written: get(&self.rows_written),
            bytes_pushed: get(&self.bytes_pushed),
            bytes_written: get(&self.bytes_written),
            segments: get(&self.segments),
            segments_sorted: get(&self.segments_sorted),
            objects: get(&self.objects),
            memory_peak: get(&self.memory_peak),
            check_ns: get(&self.check_ns),
            route_ns: get(&self.route_ns),
            sort_ns: get(&self.sort_ns),
            stats_ns: get(&self.stats_ns),
            encode_ns: get(&self.encode_ns),
            write_ns: get(&self.write_ns),
            wait_ns: get(&self.wait_ns),
            sync_ns: get(&self.sync_ns),
        }
    }
}

/// Adds to a counter.
pub(crate) fn add(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Runs `f` and adds its time to a counter.
pub(crate) fn timed<T>(counter: &AtomicU64, f: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let result = f();
    add_time(counter, begin.elapsed());
    result
}

/// Adds a time to a counter.
pub(crate) fn add_time(counter: &AtomicU64, time: Duration) {
    add(counter, u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
}
