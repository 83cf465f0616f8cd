//! How files and native tables are scanned inside a DataFusion plan.
//!
//! - `exec.rs`: text files · `parquet.rs`: Parquet files of others
//! - `worker.rs`: how row groups are worked through · `prune.rs`: which are left out · `filter.rs`: filters inside scans,
//!   `column_tests.rs`: those of row groups, a column at a time
//! - `bare.rs`: nested columns as plans compare them
//! - `morsels.rs`: what workers take of Parquet files · `leaf.rs`: what all their plan nodes do alike · `profile.rs`: what scans say of themselves
//! - `memory.rs`: the memory of long records

mod bare;
mod column_tests;
mod exec;
mod filter;
pub mod leaf;
mod memory;
mod morsels;
mod parquet;
pub mod profile;
pub mod prune;
pub mod worker;

pub use bare::bare;
pub use column_tests::GroupFilter;
pub use exec::table_schema;
pub use exec::{TextGuess, TextScanExec, TextScanFile, TextScanSpec};
pub use filter::{ScanFilter, narrowed, over_table, take_filters};
pub use memory::PoolMemory;
pub use parquet::{ParquetScanExec, ParquetScanFile, ParquetScanSpec};
