//! Context of a read: the statement that reads, its costs, and whether it fills the cache.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Whether misses fill the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Populate {
    /// All misses do, except those of a scan that has missed more than a tenth of the cache: these only on the second
    /// miss.
    #[default]
    Auto,
    /// All misses do.
    Always,
    /// No misses do.
    Never,
}

/// Use of remote stores by one statement or one scan. A store finds the context of a call in
/// [`GetOptions::extensions`](object_store::GetOptions::extensions) as `Arc<IoContext>`, else around the task
/// ([`scope`](Self::scope), [`enter`](Self::enter)). A spawned task does not inherit it. A call without a context
/// behaves as with the default.
#[derive(Debug, Clone, Default)]
pub struct IoContext {
    /// Counters of reads; several contexts may share them.
    pub stats: Arc<IoStats>,
    /// Additional counters for one scan of the statement.
    pub scan: Option<Arc<IoStats>>,
    /// Whether reads ignore the contents of the cache.
    pub bypass: bool,
    /// Whether misses fill the cache.
    pub populate: Populate,
    /// Whether reads wait until missed data is on disk.
    pub synchronous: bool,
}

tokio::task_local! {
    static CURRENT: Arc<IoContext>;
}

impl IoContext {
    /// Runs a future in this context.
    pub fn scope<F: Future>(self: &Arc<Self>, future: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(Arc::clone(self), future)
    }

    /// Runs a function in this context, for example one poll of a stream.
    pub fn enter<R>(self: &Arc<Self>, f: impl FnOnce() -> R) -> R {
        CURRENT.sync_scope(Arc::clone(self), f)
    }

    /// Returns this context for a scan whose reads are also counted in `counted`.
    #[must_use]
    pub fn of_scan(&self, counted: &Arc<IoStats>) -> Arc<IoContext> {
        Arc::new(IoContext { scan: Some(Arc::clone(counted)), ..self.clone() })
    }

    /// Applies `f` to all counters of this context.
    pub fn count(&self, f: impl Fn(&IoStats)) {
        f(&self.stats);
        if let Some(scan) = &self.scan {
            f(scan);
        }
    }

    /// Returns the context of the running task.
    pub fn current() -> Option<Arc<IoContext>> {
        CURRENT.try_with(Arc::clone).ok()
    }
}

macro_rules! counters {
    ($(#[doc = $doc:literal] $name:ident),* $(,)?) => {
        /// Counters of reads and writes of remote stores, and of the cache above them.
        #[derive(Debug, Default)]
        pub struct IoStats {
            $(#[doc = $doc] pub $name: AtomicU64,)*
        }

        /// The values of [`IoStats`] at one time.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct IoCounts {
            $(#[doc = $doc] pub $name: u64,)*
        }

        impl IoStats {
            /// The values now.
            pub fn counts(&self) -> IoCounts {
                IoCounts { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }

        impl IoCounts {
            /// Each value with its name, in the order of their declaration.
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }

            /// Each value as in [`named`](Self::named), with a sentence on what it counts.
            pub fn described(&self) -> Vec<(&'static str, &'static str, u64)> {
                vec![$((stringify!($name), $doc.trim_ascii(), self.$name),)*]
            }
        }
    };
}

counters! {
    /// GET and HEAD requests to object stores; a request that the client repeats counts once.
    requests,
    /// Attempts at requests that got no answer, or an answer by which the store is in trouble; the client repeats most.
    failed_attempts,
    /// Bytes that GET requests returned.
    request_bytes,
    /// Nanoseconds that GET and HEAD requests took, added up over requests that ran at the same time.
    request_ns,
    /// Nanoseconds that the slowest GET or HEAD request took.
    request_ns_max,
    /// LIST requests, one for each page of a listing.
    lists,
    /// Objects, or parts of them, that were put.
    puts,
    /// Bytes that were put.
    put_bytes,
    /// Objects that were deleted.
    deletes,
    /// Reads answered from memory, whole or in part.
    memory_hits,
    /// Bytes answered from memory.
    memory_hit_bytes,
    /// Reads answered from local disk, whole or in part.
    disk_hits,
    /// Bytes answered from local disk.
    disk_hit_bytes,
    /// Reads of which something was not in the cache.
    misses,
    /// Bytes that were not in the cache.
    miss_bytes,
    /// Bytes given to the cache to keep.
    fill_bytes,
}

impl IoStats {
    pub(crate) fn add(&self, counter: impl Fn(&Self) -> &AtomicU64, n: u64) {
        counter(self).fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn request(&self, bytes: u64, took: Duration) {
        let ns = took.as_nanos() as u64;
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.request_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.request_ns.fetch_add(ns, Ordering::Relaxed);
        self.request_ns_max.fetch_max(ns, Ordering::Relaxed);
    }
}
