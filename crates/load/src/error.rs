//! What ends a load.

use arrow_schema::ArrowError;
use dipper_store::merge::MergeError;
use dipper_store::route::RouteError;
use dipper_store::segment::SegmentError;
use dipper_store::table::TableError;

/// Why a load ended. Rows that are refused are no errors: they are [rejected](crate::RejectedRow).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Partitions or buckets.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// Encoding.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Aggregation of rows with equal keys.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// Making partitions, or values of AUTO_INCREMENT.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Writing.
    #[error("cannot write object {path}: {source}; nothing of the load is visible")]
    Store {
        /// The object.
        path: String,
        /// The store's error.
        source: object_store::Error,
    },
    /// A batch that is not of the table's columns.
    #[error("a batch for the table: expected {expected}, found {found}")]
    Batch {
        /// What the table has.
        expected: String,
        /// What came.
        found: String,
    },
    /// Numbers of pushes are missing: their rows would be lost.
    #[error("the load ends while push {expected} is missing and push {found} is there")]
    Gap {
        /// The number that is missing.
        expected: u64,
        /// The lowest number that waits for it.
        found: u64,
    },
    /// AUTO PARTITION would make too many.
    #[error(
        "AUTO PARTITION: the table has {there} partitions and the rows need {more} more, expected {limit} in all at \
         most; partition by a coarser unit, or by a column of fewer values"
    )]
    Partitions {
        /// Partitions that are there.
        there: usize,
        /// Partitions that a batch lacks.
        more: usize,
        /// Most there may be.
        limit: usize,
    },
    /// Only some columns, where that cannot be.
    #[error("{0}")]
    Partial(String),
    /// The load has failed in another thread, was aborted, or is finished.
    #[error("the load has ended: {0}")]
    Ended(String),
    /// Arrow refused.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}
