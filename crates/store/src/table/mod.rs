//! Native tables: their definition, their state, and how it changes.
//!
//! A table is a chain ([`crate::chain`]) below `t/<table id>/` and the objects that its state names in
//! `t/<table id>/d/`. A [`Table`] is one process's view of it; a [`TableState`] is the content of the chain at one
//! version; a [`TableChange`] is the effect of one transaction.
//!
//! - `schema.rs`, `data.rs`: definitions, objects, segments · `segments.rs`: the list of all segments, shared by states
//! - `state.rs`: the state · `change.rs`: changes and how they are applied · `stats.rs`, `order.rs`: column statistics
//! - `handle.rs`: loading, merge-on-write, compaction as seen by the chain · `vacuum.rs`: deletes objects without use
//! - `moves.rs`: finds rows again that merges moved · `pace.rs`: makes loads wait for merges that they would outrun

mod change;
pub mod data;
mod error;
mod handle;
mod moves;
pub(crate) mod order;
mod pace;
pub mod schema;
mod segments;
mod state;
mod stats;
mod vacuum;

#[cfg(test)]
pub(crate) use change::union;
pub use change::{Deletes, Input, Reads, Replace, Replaced, Rowset, TableChange};
pub use error::{Refused, TableError};
#[cfg(test)]
pub(crate) use handle::{Carrying, Scope, Settling};
pub use handle::{LOAD_TIME_MAX, Table, table_path};
pub use moves::Followed;
pub use order::compare_text;
pub use segments::SegmentRef;
pub use state::{OUTCOMES_KEPT_MS, Prepared, READING_WINDOW_MS, TableState};
pub use stats::merge_stats;
pub use vacuum::{VacuumError, Vacuumed, vacuum_data};

#[cfg(test)]
mod model_tests;
#[cfg(test)]
pub(crate) mod test_support;
#[cfg(test)]
mod tests;
