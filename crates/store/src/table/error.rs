//! Errors of tables: changes that do not fit, and failures of the chain or the store.

use super::data::{ObjectId, SegmentId, Tablet};
use crate::chain::{ChainError, CommitError, TxnId};

/// Why a change was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The table was dropped.
    #[error("the table was dropped")]
    Dropped,
    /// A change came before the table's creation.
    #[error("the table was not created yet")]
    NotCreated,
    /// The table has been created already.
    #[error("the table exists already")]
    AlreadyCreated,
    /// Rows came in after those that the change was computed on; it must be computed again with them.
    #[error("rows came in at {found} after {base}, which the change was computed on; repeat it")]
    Moved {
        /// [`TableState::seq`](super::TableState::seq) that the change names.
        base: u64,
        /// [`TableState::seq`](super::TableState::seq) of the newest rows that the change does not know.
        found: u64,
    },
    /// Rows whose old values the change builds on were changed or deleted meanwhile.
    #[error(
        "{expected} rows were read to be replaced and {found} of them are still as they were; repeat the statement"
    )]
    RowsChanged {
        /// Rows read.
        expected: u64,
        /// Rows found unchanged.
        found: u64,
    },
    /// A segment that the change names is not part of the table.
    #[error("segment {segment} is not part of the table any more")]
    SegmentGone {
        /// The segment.
        segment: SegmentId,
    },
    /// More rows of a segment were deleted since the change was computed.
    #[error("segment {segment} had {expected} deleted rows, now it has {found}; repeat the change")]
    DeletesMoved {
        /// The segment.
        segment: SegmentId,
        /// Deleted rows that the change knows.
        expected: u64,
        /// Deleted rows in the newest state.
        found: u64,
    },
    /// The definition was changed after the change had been made for it.
    #[error("version {expected} of the definition was changed, now it is version {found}; repeat the statement")]
    SchemaChanged {
        /// Version that the change was made for.
        expected: u64,
        /// Version in the newest state.
        found: u64,
    },
    /// There is no such partition.
    #[error("partition \"{partition}\" does not exist; it may have been dropped")]
    PartitionNotFound {
        /// The partition's name, or its number in the table.
        partition: String,
    },
    /// A partition of that name exists already.
    #[error("partition \"{partition}\" exists already")]
    PartitionExists {
        /// The partition's name.
        partition: String,
    },
    /// Two partitions would hold the same value.
    #[error("the values of partition \"{partition}\" overlap those of partition \"{other}\"")]
    PartitionsOverlap {
        /// The new partition.
        partition: String,
        /// The existing partition.
        other: String,
    },
    /// The replacing partitions hold other values than the replaced ones.
    #[error("partitions {by} do not hold the same values as partitions {replaced}; use 'strict_range' = 'false'")]
    CoverDiffers {
        /// Names of the replaced partitions, with commas.
        replaced: String,
        /// Names of the replacing partitions, with commas.
        by: String,
    },
    /// A segment's bucket does not exist in its partition.
    #[error("bucket {} of partition {} does not exist", tablet.bucket, tablet.partition)]
    NoTablet {
        /// The tablet.
        tablet: Tablet,
    },
    /// No transaction of that id is prepared.
    #[error("transaction {txn} is not prepared: it was committed, aborted, or never prepared")]
    NotPrepared {
        /// The transaction.
        txn: TxnId,
    },
    /// The object is or was part of the table, so the change was committed before.
    #[error("object {object} is part of the table already")]
    ObjectExists {
        /// The object.
        object: ObjectId,
    },
    /// Another reservation of AUTO_INCREMENT values came first.
    #[error("AUTO_INCREMENT stood at {expected}, now it stands at {found}; repeat the reservation")]
    AutoIncrementMoved {
        /// Next value that the change names.
        expected: i64,
        /// Next value in the newest state.
        found: i64,
    },
    /// The change contradicts itself or the definition.
    #[error("{0}")]
    Invalid(String),
}

/// Why an operation on a table failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// The change does not fit the newest state.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The chain or the store below failed.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// There is no table of that id.
    #[error("{path}: there is no table")]
    NotFound {
        /// Directory of the table.
        path: String,
    },
    /// Finding the rows that a change replaces failed.
    #[error("finding the rows to replace: {0}")]
    Resolve(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Other writers were faster in every attempt; nothing was changed.
    #[error("{path}: other writers were faster {attempts} times ({last}); repeat the statement")]
    Contended {
        /// The table's directory.
        path: String,
        /// Attempts made.
        attempts: u32,
        /// Why the last attempt did not fit.
        last: Refused,
    },
}

impl From<CommitError<Refused>> for TableError {
    fn from(e: CommitError<Refused>) -> Self {
        match e {
            CommitError::Refused(e) => Self::Refused(e),
            CommitError::Chain(e) => Self::Chain(e),
        }
    }
}
