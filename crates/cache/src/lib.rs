//! The data cache: bytes of remote objects, kept in memory and on local disk.
//!
//! [`DataCache::wrap`] puts it above an [`ObjectStore`](object_store::ObjectStore). It keeps *extents*: ranges of
//! objects as they were requested, cut at multiples of a block. So a miss fetches what the cache lacks of the requested
//! range, and keeping it costs no request of its own. Bytes that the cache has are fetched once more only if that saves
//! a request ([`dipper_base::ranges`]). A read returns the extents as they are, without a copy of its own. A thread of
//! the cache writes extents to disk, off the reader's path. Small objects are also kept when they are put.
//!
//! An object is identified by its store, its path and, if it can change, its tag: a read with `if_match`
//! ([`TaggedStore`] makes it from a path) concerns one version, and fails if the store has another. Only data that
//! cannot change under its identity is kept, so the cache is never stale.
//!
//! The cache is never needed: a directory that is missing, full, damaged or not writable costs requests, but no answer
//! fails.
//!
//! - `context.rs`: the statement that reads, its costs, and whether it fills the cache
//! - `index.rs`: places of extents and eviction · `disk.rs`: files and their checksums · `cache.rs`: both together
//! - `store.rs`: the layer above an object store
//!
//! This crate must not know Arrow, Parquet, SQL and DataFusion.

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
