//! Scans of native tables.
//!
//! - `provider.rs`: a table as DataFusion sees it · `aggregate.rs`: AGGREGATE tables, merged as they are read
//! - `scan.rs`: the scan operator · `morsels.rs`, `run.rs`: how it runs · `prune.rs`: what it can leave out
//! - `settings.rs`: session variables that scans obey · `columns.rs`: fields of results · `statistics.rs`: for the
//!   optimizer

mod aggregate;
mod columns;
mod morsels;
mod provider;
mod prune;
mod run;
mod scan;
mod selectivity;
mod settings;
mod statistics;

pub use aggregate::merged;
pub use columns::{by_age, field, field_of};
pub use provider::{Columns, NativeProvider, ROW_COLUMN, SEGMENT_COLUMN};
pub use scan::NativeScanExec;
pub use settings::ScanSettings;
