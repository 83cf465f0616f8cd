//! Memory for data that text scans read ahead.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation, UnboundedMemoryPool};

/// The read-ahead budget of all scans of a process, and the pool in which its memory is reserved.
pub struct ReadAhead {
    most: usize,
    held: AtomicUsize,
    /// An empty reservation, from which those of chunks are made.
    root: MemoryReservation,
}

/// The memory of one chunk. Dropping this frees it.
pub(super) struct Held {
    of: Arc<ReadAhead>,
    bytes: usize,
    _counted: MemoryReservation,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl fmt::Debug for ReadAhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadAhead").field("most", &self.most).field("held", &self.held).finish_non_exhaustive()
    }
}

impl Default for ReadAhead {
    fn default() -> Self {
        ReadAhead::new(&(Arc::new(UnboundedMemoryPool::default()) as Arc<dyn MemoryPool>), usize::MAX)
    }
}

impl ReadAhead {
    /// Makes a budget of up to `most` bytes, which are reserved in `pool`.
    pub fn new(pool: &Arc<dyn MemoryPool>, most: usize) -> Self {
        ReadAhead { most, held: AtomicUsize::new(0), root: MemoryConsumer::new("read-ahead").register(pool) }
    }

    /// Reserves memory for bytes that a reader will want later. `None` if there is none to spare, and the reader has to
    /// do with less.
    pub(super) fn spare(self: &Arc<Self>, bytes: usize) -> Option<Held> {
        if self.held.load(Ordering::Relaxed).saturating_add(bytes) > self.most {
            return None;
        }
        let counted = self.root.new_empty();
        counted.try_grow(bytes).ok()?;
        Some(self.held(bytes, counted))
    }

    /// Reserves memory for bytes that a reader is waiting for. This is counted but never refused, because the reader
    /// could not go on without it.
    pub(super) fn needed(self: &Arc<Self>, bytes: usize) -> Held {
        let counted = self.root.new_empty();
        counted.grow(bytes);
        self.held(bytes, counted)
    }

    fn held(self: &Arc<Self>, bytes: usize, counted: MemoryReservation) -> Held {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Held { of: Arc::clone(self), bytes, _counted: counted }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn what_is_spare_has_two_limits_and_what_is_needed_none() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100));
        let ahead = Arc::new(ReadAhead::new(&pool, 60));
        let first = ahead.spare(50).unwrap();
        assert!(ahead.spare(20).is_none());
        let other = MemoryConsumer::new("a join").register(&pool);
        other.grow(45);
        assert!(ahead.spare(10).is_none(), "the pool has 5");
        let needed = ahead.needed(30);
        assert_eq!(pool.reserved(), 125);
        drop((first, needed, other));
        assert_eq!(pool.reserved(), 0);
        assert!(ahead.spare(60).is_some());
    }
}
