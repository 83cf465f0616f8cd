//! The data cache: bytes of remote objects, kept in memory and on local disk.
//!
//! [`DataCache::wrap`] puts it above an [`ObjectStore`](object_store::ObjectStore). What it keeps are *extents*: ranges of
//! objects as they were asked for, cut at multiples of a block. So a miss fetches what was asked for and nothing else, and
//! what is kept costs no request of its own. Extents reach the disk behind the reader, on a thread of the cache. Small objects
//! are kept when they are put.
//!
//! An object is known by its store, its path and, if it can change, its tag: a read with
//! `if_match` ([`TaggedStore`] makes it from a path) is of one version, and fails if there is another. Only what cannot change under its name is kept, so the cache is never stale.
//!
//! The cache is never needed: a directory that is gone, full, damaged or not writable costs requests, and no answer.
//!
//! - `context.rs`: who reads, what it cost, and whether it fills the cache
//! - `index.rs`: what is where, what goes first · `disk.rs`: files and their checksums · `cache.rs`: the two together
//! - `store.rs`: the layer above an object store

mod cache;
mod context;
mod disk;
mod index;
mod store;
#[cfg(test)]
mod tests;

pub use cache::{CacheOptions, CacheStats, DataCache};
pub use context::{IoContext, IoCounts, IoStats, Populate};
pub use store::{Anew, CachedStore, Immutable, TaggedStore};
