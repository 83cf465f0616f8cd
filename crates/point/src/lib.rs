//! Rows by their whole key, from memory at the speed of a hash table, without DataFusion and without a SQL parser.
//!
//! A look-up, in order: values of the key columns ([`bind`]) -> encoded key -> tablet ([`View::tablet`]) -> that tablet's
//! segments, newest first: bounds, key filter, [row cache](RowCache), key index, delete vector -> a [`Row`], whose bytes are
//! a binary row of the MySQL protocol.
//!
//! [`PointTable::get_now`] never waits: it is pending where footer, block or page of an object are not in memory, and
//! [`PointTable::get`] does the same while it may ask the store.
//!
//! **Never stale by construction.** The cache holds what cannot change, the row that a key has in a segment. Which of a
//! segment's rows are deleted is said by the delete vector of the snapshot that is asked, so there is nothing to
//! invalidate.
//!
//! **Rows.** A [`Shape`] says which columns a row has, in which order, under which version of the table's definition.
//! What objects hold is brought into that shape when it is first read: columns that were added later get their default,
//! integers that were widened are widened, columns that are not in the row store come from the pages of the columns.

mod cache;
mod shape;
mod table;
#[cfg(test)]
mod tests;
mod value;

pub use cache::{Row, RowCache};
pub use shape::{Projection, Shape, arrays};
pub use table::{HeldView, PointTable, Points, View};
pub use value::{Bound, Value, bind};

use dipper_store::key::KeyError;
use dipper_store::route::RouteError;
use dipper_store::segment::SegmentError;
use dipper_store::segment::row::NotARow;

/// Why a look-up failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PointError {
    /// An object cannot be read.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// A key cannot be routed to a tablet.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A key cannot be encoded.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A row of a row store is damaged.
    #[error("object {object}: row {row} of segment {ordinal} is {source}; restore the object from a copy")]
    Row {
        /// Path of the object.
        object: String,
        /// Which of its segments.
        ordinal: u32,
        /// Which row of it.
        row: u32,
        /// What is wrong with it.
        source: NotARow,
    },
    /// A table that has no look-ups by key.
    #[error("table {table} has no look-ups by key: {reason}")]
    Table {
        /// Its id.
        table: String,
        /// Why.
        reason: &'static str,
    },
}

/// The result of a look-up.
pub type Result<T, E = PointError> = std::result::Result<T, E>;
