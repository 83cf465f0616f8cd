//! Files and tables of other systems: text and Parquet files by path and by definition, Hive metastores, Iceberg, and
//! files that are written.
//!
//! | module | question it answers |
//! |---|---|
//! | [`read`] | what does reading need from a statement? |
//! | [`files`] | how does a definition, or a path in FROM, become a table? |
//! | [`catalogs`] | which databases and tables does an external catalog have? |
//! | [`sink`] | how are files written? |
//! | [`times`] | how are times with an offset read if a load has a time zone? |
//! | [`columns`], [`types`], [`sheet`], [`result`] | how are columns, types and small tables described? |
//! | [`printed`] | which statement creates a table, a view, a database or a catalog? |
//! | [`virtual_tables`] | which columns do `information_schema` and similar databases have? |
//!
//! Invariant: what a foreign file says about itself is checked before rows are skipped because of it.
//!
//! This crate must not know sessions, statements and users; all that it knows of access rights is which local files may
//! be read.

pub mod catalogs;
pub mod columns;
pub mod files;
pub mod printed;
pub mod read;
pub mod result;
pub mod sheet;
pub mod sink;
pub mod times;
pub mod types;
pub mod virtual_tables;
