//! Reads that must not wait.
//!
//! A thread that serves many connections takes what is in memory, and leaves the rest to those that may wait. "In memory"
//! includes the system's cache of files: there a read is a few system calls of microseconds.

use std::ops::Range;

use bytes::Bytes;
use futures::FutureExt;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore};

/// Extension of [`GetOptions`]: the answer comes from memory, or it is an error. Stores behind a network refuse it; stores
/// that do not know it are asked once, and what they do not have ready is dropped.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AtOnce;

/// Whether a request must not wait.
pub(crate) fn is_asked(options: &GetOptions) -> bool {
    options.extensions.get::<AtOnce>().is_some()
}

/// Bytes of an object, if the store has them at hand. Errors are left to who reads them by waiting.
pub(crate) fn range(store: &dyn ObjectStore, path: &Path, range: Range<u64>) -> Option<Bytes> {
    let len = range.end - range.start;
    let mut options = GetOptions::new().with_range(Some(GetRange::Bounded(range)));
    options.extensions.insert(AtOnce);
    let read = async { store.get_opts(path, options).await?.bytes().await };
    read.now_or_never()?.ok().filter(|bytes| bytes.len() as u64 == len)
}
