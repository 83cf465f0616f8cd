//! Errors that end a load.

use arrow_schema::ArrowError;
use dipper_store::merge::MergeError;
use dipper_store::route::RouteError;
use dipper_store::segment::SegmentError;
use dipper_store::table::TableError;

/// Reason why a load ended. Refused rows are not errors: they are [rejected](crate::RejectedRow).
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Partitions or buckets cannot be used.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// Encoding or reading a segment failed.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Aggregation of rows with equal keys failed.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// Making partitions, or reserving values of AUTO_INCREMENT, failed.
    #[error(transparent)]
    Table(#[from] TableError),
    /// Writing an object failed.
    #[error("cannot write object {path}: {source}; nothing of the load is visible")]
    Store {
        /// The object.
        path: String,
        /// The store's error.
        source: object_store::Error,
    },
    /// A batch does not have the table's columns.
    #[error("a batch for the table: expected {expected}, found {found}")]
    Batch {
        /// The table's columns.
        expected: String,
        /// The batch's columns.
        found: String,
    },
    /// A push is missing: its rows would be lost.
    #[error("the load ends while push {expected} is missing and push {found} is there")]
    Gap {
        /// The number that is missing.
        expected: u64,
        /// The lowest number that waits for it.
        found: u64,
    },
    /// AUTO PARTITION would make too many partitions.
    #[error(
        "AUTO PARTITION: the table has {there} partitions and the rows need {more} more, expected {limit} in all at \
         most; partition by a coarser unit, or by a column of fewer values"
    )]
    Partitions {
        /// Number of existing partitions.
        there: usize,
        /// Number of partitions that a batch needs in addition.
        more: usize,
        /// Maximum number of partitions.
        limit: usize,
    },
    /// A generated column could not be computed.
    #[error("generated columns: {0}")]
    Generated(String),
    /// A load of some columns is not possible.
    #[error("{0}")]
    Partial(String),
    /// The load has failed in another thread, was aborted, or is finished.
    #[error("the load has ended: {0}")]
    Ended(String),
    /// Arrow refused an operation.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}
