//! Scans of text, Parquet and native files inside a DataFusion plan.
//!
//! - `exec.rs`: text files · `parquet.rs`: Parquet files that others wrote
//! - `worker.rs`: how row groups are read and decoded · `prune.rs`: row groups and pages that are left out ·
//!   `filter.rs`: filters inside scans, `column_tests.rs`: filters of row groups, one column at a time
//! - `bare.rs`: nested columns as plans compare them · `converted.rs`: values of files that become those of the table
//! - `morsels.rs`: the morsels of Parquet files · `leaf.rs`: shared parts of plan nodes · `profile.rs`: metrics of
//!   scans
//! - `memory.rs`: the memory of long records

mod bare;
mod column_tests;
mod converted;
mod exec;
mod filter;
pub mod leaf;
mod like;
mod memory;
mod morsels;
mod parquet;
pub mod profile;
pub mod prune;
pub mod worker;

pub use bare::bare;
pub use column_tests::GroupFilter;
pub use converted::{Conversion, How};
pub use exec::table_schema;
pub use exec::{TextGuess, TextScanExec, TextScanFile, TextScanSpec};
pub use filter::{ScanFilter, narrowed, over_table, take_filters};
pub use memory::PoolMemory;
pub use parquet::{ParquetScanExec, ParquetScanFile, ParquetScanSpec};
