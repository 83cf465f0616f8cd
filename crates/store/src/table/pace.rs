//! Loads wait for a merge of their table that they would outrun.
//!
//! Small loads cost less than merging their segments, and many clients share the cores with one merge. Without the wait
//! the segments of a busy table pile up, and each waiting segment makes queries, commits and the next merge slower.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Longest wait of a load: it may be slowed down, but merges never make it hang.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// State shared by the loads and the merge of a table.
#[derive(Debug)]
pub(super) struct Pace {
    /// Most segments that the table may have while its merge is under way.
    most: AtomicUsize,
    ended: Notify,
}

impl Default for Pace {
    fn default() -> Self {
        Self { most: AtomicUsize::new(usize::MAX), ended: Notify::new() }
    }
}

impl Pace {
    /// Begins a merge: until the guard is dropped, loads wait while the table has more than `most` segments.
    pub(super) fn merging(self: &Arc<Self>, most: usize) -> Merging {
        self.most.store(most, Ordering::Relaxed);
        Merging(Arc::clone(self))
    }

    /// Waits until the table may have more segments, or for [`WAIT_MAX`]. `segments` returns their current number.
    pub(super) async fn wait(&self, segments: impl Fn() -> usize) {
        let until = Instant::now() + WAIT_MAX;
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            // The end of a merge from here on is noticed.
            ended.as_mut().enable();
            let left = until.saturating_duration_since(Instant::now());
            let may = segments() <= self.most.load(Ordering::Relaxed);
            if may || tokio::time::timeout(left, ended).await.is_err() {
                return;
            }
        }
    }
}

/// Guard of a merge that is under way.
#[derive(Debug)]
pub(crate) struct Merging(Arc<Pace>);

impl Drop for Merging {
    fn drop(&mut self) {
        self.0.most.store(usize::MAX, Ordering::Relaxed);
        self.0.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn loads_wait_for_the_merge_but_not_for_ever() {
        let pace = Arc::new(Pace::default());
        let took = async |segments: usize| {
            let begun = Instant::now();
            pace.wait(|| segments).await;
            begun.elapsed()
        };
        assert!(took(1000).await < WAIT_MAX / 2, "no merge is under way");
        let merging = pace.merging(10);
        assert!(took(10).await < WAIT_MAX / 2);
        let merge = Duration::from_millis(70);
        let end = async {
            tokio::time::sleep(merge).await;
            drop(merging);
        };
        let (waited, ()) = tokio::join!(took(11), end);
        assert!(waited >= merge && waited < WAIT_MAX, "{waited:?}");
        let _merging = pace.merging(10);
        assert!(took(11).await >= WAIT_MAX);
    }
}
