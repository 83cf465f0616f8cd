//! How text files are scanned inside a DataFusion plan.

mod exec;
mod filter;

pub(crate) use exec::table_schema;
pub use exec::{TextScanExec, TextScanFile, TextScanSpec};
pub(crate) use filter::{ScanFilter, take_filters};
