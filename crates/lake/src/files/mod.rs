//! Tables over files: from definitions of the catalog, paths and table functions.
//!
//! - `define.rs`: tables of CREATE EXTERNAL TABLE and of Hive · `path.rs`: paths and `files(...)`
//! - `file_set.rs`: the files of a table, and which partitions filters leave
//! - `text.rs`, `parquet.rs`, `parquet_statistics.rs`: the providers · `widen.rs`: common types of columns in several
//!   files · `instants.rs`: time zones

pub mod define;
mod file_set;
mod instants;
mod parquet;
mod parquet_statistics;
mod path;
mod text;
mod widen;

pub use file_set::{FileSet, Pruner, covers, typed};
pub use instants::{CONVERT_TZ, by_the_clock};
pub use path::{PATH_FUNCTIONS, from_function, from_path, schema_option};
