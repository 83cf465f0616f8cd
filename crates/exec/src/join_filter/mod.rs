//! Filters that hash joins give the scans of their probe side.
//!
//! A hash join reads its build side before the first row of its probe side. [`CollectKeysExec`] stands above the build
//! side and passes its rows on. When the last row has passed, the node turns the keys into a test: a bitmap of whole
//! numbers in a bounded range, or a Bloom filter, with the least and the greatest key and the list of few keys, by which
//! scans leave out whole row groups. The scan tests rows by it before it builds their other columns. DataFusion's own
//! filter looks each row up in the join's hash table, one for each partition, and lets the partitions of a join wait for
//! one another.
//!
//! The filter only leaves out rows that the join would drop. Until it is there, and where there is no memory for it, all
//! rows pass.

mod collect;
mod keys;
mod settings;

pub(crate) use collect::{CollectKeysExec, KeyFilter, filters_of};
pub(crate) use keys::InKeys;
pub use settings::JoinFilterSettings;
