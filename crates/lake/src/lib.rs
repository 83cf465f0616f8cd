//! Files and tables of others: text and Parquet files by path and by definition, Hive metastores, Iceberg, and files that are
//! written.
//!
//! | module | question it answers |
//! |---|---|
//! | [`read`] | what does reading need of a statement? |
//! | [`files`] | how does a definition, or a path in FROM, become a table? |
//! | [`catalogs`] | which databases and tables does an external catalog have? |
//! | [`sink`] | how are files written? |
//! | [`columns`], [`types`], [`sheet`], [`result`] | how are columns, types and small tables told? |
//! | [`virtual_tables`] | which columns do `information_schema` and its like have? |
//!
//! Invariant: what a foreign file says about itself is checked before it leaves rows out.
//!
//! This crate must not know sessions, statements and users; of access it knows which local files may be read.

pub mod catalogs;
pub mod columns;
pub mod files;
pub mod read;
pub mod result;
pub mod sheet;
pub mod sink;
pub mod types;
pub mod virtual_tables;
