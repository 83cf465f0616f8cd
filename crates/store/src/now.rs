//! Reads that must not wait.
//!
//! A thread that serves many connections takes what is in memory and leaves everything else to threads that may wait.
//! "In memory" includes the system's page cache: a read from there is a few system calls of microseconds.

use std::ops::Range;

use bytes::Bytes;
use futures::FutureExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};

/// Extension of [`GetOptions`]: the answer comes from memory, or it is an error. Stores behind a network refuse the
/// request. Stores that do not know the extension are polled once, and an answer that is not ready by then is dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtOnce;

/// Returns whether a request must not wait.
pub(crate) fn is_asked(options: &GetOptions) -> bool {
    options.extensions.get::<AtOnce>().is_some()
}

/// Returns a range of an object's bytes if the store has them at hand. Errors become `None`: the caller's waiting read
/// reports them.
pub(crate) fn range(store: &dyn ObjectStore, path: &Path, range: Range<u64>) -> Option<Bytes> {
    let len = range.end - range.start;
    let mut options = GetOptions::new().with_range(Some(GetRange::Bounded(range)));
    options.extensions.insert(AtOnce);
    let read = async { store.get_opts(path, options).await?.bytes().await };
    read.now_or_never()?.ok().filter(|bytes| bytes.len() as u64 == len)
}
