//! Rows into tables: parse, check, route, sort, encode, write.
//!
//! ```text
//! threads of the caller                                     │ tasks of its runtime
//! rows ─ check ─ route ─┬─► buffer of tablet 1 ─ cut ─┐     │
//!        (per column)   ├─► buffer of tablet 2        ├─ sort ─ encode ─► object ─ parts ─► store
//!                       └─► ...                       ┘     │             (one at a time)
//! ```
//!
//! [`Load`] takes typed batches from any number of threads. A full buffer (128K rows, or its share of the memory) is
//! cut, and the thread that cut it sorts and encodes it, so that threads that bring rows too fast are kept busy.
//! Encoded segments are appended to an open object, whose parts are written while the load runs.
//!
//! If later rows win (UNIQUE, or AGGREGATE with REPLACE), pushes enter the buffers in the order of their numbers, and
//! segments enter objects in the order in which they were cut. So among equal keys the higher ([object,
//! ordinal](dipper_store::table::data::SegmentId)) is the later row, however many threads parse.
//!
//! A load that brings only some columns goes through [`Partial`] first, one whose rows bring different columns through
//! [`Flexible`].
//!
//! Generated columns are computed by what the caller brings ([`Generate`]), from the values that are stored.
//!
//! [`body`] makes bytes that arrive over time a source for `dipper_text`.
//!
//! This crate must not know SQL and DataFusion.

pub mod body;
mod buffer;
mod check;
mod error;
mod flexible;
mod generate;
mod load;
mod nested;
mod output;
mod partial;
mod profile;
mod sort;
mod stats;
#[cfg(test)]
mod tests;
mod together;

pub use buffer::memory_of;
pub use error::LoadError;
pub use flexible::{Flexible, Given};
pub use generate::{Computed, Generate};
pub use load::{Checked, Load, LoadOptions, LoadTarget, PushReport, RejectedRow};
pub use partial::{Filled, Partial};
pub use profile::LoadProfile;
pub use together::together;
