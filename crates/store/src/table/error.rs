//! Why a change does not fit a table, and what can go wrong with one.

use super::data::{ObjectId, SegmentId, Tablet};
use crate::chain::{ChainError, CommitError, TxnId};

/// Why a change was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// The table was dropped.
    #[error("the table was dropped")]
    Dropped,
    /// Nothing but a creation can come first.
    #[error("the table was not created yet")]
    NotCreated,
    /// There is a table already.
    #[error("the table exists already")]
    AlreadyCreated,
    /// Rows came in after those that the change was computed on; it must be computed on them too.
    #[error("rows came in at {found} after {base}, which the change was computed on; repeat it")]
    Moved {
        /// [`TableState::seq`](super::TableState::seq) that the change names.
        base: u64,
        /// That of the newest rows it does not know.
        found: u64,
    },
    /// Rows whose old values the change builds on were changed or deleted since.
    #[error(
        "{expected} rows were read to be replaced and {found} of them are still as they were; repeat the statement"
    )]
    RowsChanged {
        /// Rows read.
        expected: u64,
        /// Rows found unchanged.
        found: u64,
    },
    /// A segment that the change names is not part of the table any more.
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
        /// Deleted rows now.
        found: u64,
    },
    /// The definition is another one by now.
    #[error("version {expected} of the definition was changed, now it is version {found}; repeat the statement")]
    SchemaChanged {
        /// Version that the change was made for.
        expected: u64,
        /// Version now.
        found: u64,
    },
    /// No such partition.
    #[error("partition \"{partition}\" does not exist; it may have been dropped")]
    PartitionNotFound {
        /// Its name, or its number in the table.
        partition: String,
    },
    /// A partition of that name exists.
    #[error("partition \"{partition}\" exists already")]
    PartitionExists {
        /// Its name.
        partition: String,
    },
    /// Two partitions would hold one value.
    #[error("the values of partition \"{partition}\" overlap those of partition \"{other}\"")]
    PartitionsOverlap {
        /// The new one.
        partition: String,
        /// The one that is there.
        other: String,
    },
    /// The partitions that replace others hold other values.
    #[error("partitions {by} do not hold the same values as partitions {replaced}; use 'strict_range' = 'false'")]
    CoverDiffers {
        /// Names, with commas.
        replaced: String,
        /// Names, with commas.
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
    /// The object is or was part of the table: the change was committed before.
    #[error("object {object} is part of the table already")]
    ObjectExists {
        /// The object.
        object: ObjectId,
    },
    /// Another reservation came first.
    #[error("AUTO_INCREMENT stood at {expected}, now it stands at {found}; repeat the reservation")]
    AutoIncrementMoved {
        /// Next value that the change names.
        expected: i64,
        /// Next value now.
        found: i64,
    },
    /// The change contradicts itself or the definition.
    #[error("{0}")]
    Invalid(String),
}

/// What can go wrong with a table.
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
        /// Its directory.
        path: String,
    },
    /// Finding the rows that a change replaces failed.
    #[error("finding the rows to replace: {0}")]
    Resolve(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Others were faster in every attempt; nothing was changed.
    #[error("{path}: other writers were faster {attempts} times ({last}); repeat the statement")]
    Contended {
        /// The table's directory.
        path: String,
        /// Attempts made.
        attempts: u32,
        /// Why the last one did not fit.
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
