//! Look-ups of rows by their whole key, from memory at the speed of a hash table, without DataFusion and without a SQL
//! parser.
//!
//! Steps of a look-up: values of the key columns ([`bind`]) -> encoded key -> tablet ([`View::tablet`]) -> that
//! tablet's segments, newest first: bounds, key filter, [row cache](RowCache), key index, delete vector -> a [`Row`],
//! whose bytes are a binary row of the MySQL protocol.
//!
//! [`PointTable::get_now`] never waits: it is pending if a footer, block or page of an object is not in memory.
//! [`PointTable::get`] does the same and may ask the store.
//!
//! **Never stale by construction.** The cache holds only what cannot change: the row that a key has in a segment. The
//! delete vector of the snapshot in use says which of a segment's rows are deleted, so nothing needs to be invalidated.
//!
//! **Rows.** A [`Shape`] says which columns a row has, in which order, under which version of the table's definition.
//! Stored rows are brought into that shape when they are first read: columns that were added later get their default,
//! integers that were widened are widened, and columns that are not in the row store come from the column pages.
//!
//! This crate must not know SQL and DataFusion.

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

/// Reason why a look-up failed.
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
        /// Index of the segment in the object.
        ordinal: u32,
        /// Number of the row in the segment.
        row: u32,
        /// The damage.
        source: NotARow,
    },
    /// The table has no look-ups by key.
    #[error("table {table} has no look-ups by key: {reason}")]
    Table {
        /// Id of the table.
        table: String,
        /// Reason.
        reason: &'static str,
    },
}

/// The result of a look-up.
pub type Result<T, E = PointError> = std::result::Result<T, E>;
