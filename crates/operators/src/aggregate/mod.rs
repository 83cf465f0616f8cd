//! GROUP BY: hash aggregation over partitions of the hash.
//!
//! One table for all groups is slow once it outgrows the cache of a core: each row then waits for memory. Here each
//! thread groups its rows in a table that stays in that cache. When the table is full, its groups are appended to
//! [`PARTITIONS`] partitions by their hash, and the table starts anew. When all rows are read, the groups of one
//! partition, of all threads, are merged by one thread. A partition again fits in the cache, and threads share nothing.
//!
//! A group is a record of 64-bit words ([`Layout`]): the hash of the key, the key, and the state of each aggregate. It
//! is written once when its first row comes and copied once to its partition; merging changes the records in place.
//! Long texts are kept beside the records of a table and of a partition. Where the table does not help, because nearly
//! every row is a group of its own, rows pass by the table.
//!
//! Steps, each with its type:
//!
//! 1. [`Layout`]: which words a record has, from the types of keys and aggregates.
//! 2. [`Grouper`]: rows in, [`Records`] in partitions out. Records can be written as Arrow batches and read back.
//! 3. [`Merge`]: the records of a partition, from several groupers, become groups.
//! 4. [`Groups`]: keys and states of groups as Arrow arrays.

mod group;
mod hash;
mod keys;
mod layout;
mod merge;
mod states;
#[cfg(test)]
mod tests;
mod texts;
mod utf8;

pub use group::{Grouper, Records};
pub use layout::{Aggregate, Function, Layout};
pub use merge::{Groups, Merge, Output};

/// The number of partitions of one level.
pub const PARTITIONS: usize = 1 << PARTITION_BITS;

/// The number of bits of the hash that choose the partition of one level.
const PARTITION_BITS: u32 = 6;

/// The number of levels: the partitions of a partition are of the next level. Below the last level, records of
/// different groups may not come apart.
pub const LEVELS: u32 = 5;

/// The bits of a record's first word that say which keys are NULL. The others are the hash.
const NULL_BITS: u32 = 16;
