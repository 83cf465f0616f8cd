//! Types for the reasons why a load or an INSERT was refused. Each is the source of the error that a client sees, where
//! [`EngineError::cause`] finds it; each protocol makes its messages of them in one place.

use std::error::Error;
use std::fmt;

use dipper_node::error::{EngineError, ErrorKind};
use dipper_store::chain::TxnId;
use dipper_store::labels::LabelStatus;

use crate::answer::txn_number;

/// The label of a load belongs to another load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelUsed {
    /// The label.
    pub label: String,
    /// The transaction that has the label.
    pub txn: TxnId,
    /// The state of that transaction.
    pub status: LabelStatus,
}

impl fmt::Display for LabelUsed {
    /// Formats the message in Doris' words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = match self.status {
            LabelStatus::Running => "PREPARE",
            LabelStatus::Precommitted => "PRECOMMITTED",
            LabelStatus::Forgotten => "UNKNOWN",
            LabelStatus::Finished | LabelStatus::Aborted => "VISIBLE",
        };
        let (label, txn) = (&self.label, txn_number(self.txn));
        write!(f, "Label [{label}] has already been used, relate to txn [{txn}], status [{status}].")
    }
}

impl Error for LabelUsed {}

impl From<LabelUsed> for EngineError {
    fn from(used: LabelUsed) -> Self {
        EngineError::of(ErrorKind::Invalid, used)
    }
}

/// More rows do not fit than a load or a statement tolerates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// The number of rows that do not fit.
    pub rejected: u64,
    /// The number of all rows.
    pub rows: u64,
    /// Why the first of them does not fit.
    pub first: String,
}

impl fmt::Display for Rejected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} rows; first: {}", self.rejected, self.rows, self.first)
    }
}

impl Error for Rejected {}

/// A load without tolerance has stopped reading because too many rows do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unqualified;

impl fmt::Display for Unqualified {
    /// Formats the message in Doris' words.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "[DATA_QUALITY_ERROR]Encountered unqualified data, stop processing. Please check if the source data matches the schema, and consider disabling strict mode or increasing max_filter_ratio.",
        )
    }
}

impl Error for Unqualified {}

impl From<Unqualified> for EngineError {
    fn from(unqualified: Unqualified) -> Self {
        EngineError::of(ErrorKind::BadValue, unqualified)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Wraps an error in one of a library.
    fn through(e: EngineError) -> EngineError {
        EngineError::of(ErrorKind::Internal, std::io::Error::other(e))
    }

    #[test]
    fn facts_are_found_behind_what_wraps_them() {
        let used = LabelUsed { label: "a".into(), txn: TxnId(1 << 80), status: LabelStatus::Running };
        let error = through(used.clone().into());
        assert_eq!(error.cause::<LabelUsed>(), Some(&used));
        assert_eq!(error.cause::<Rejected>(), None);
        assert_eq!(through(Unqualified.into()).cause::<Unqualified>(), Some(&Unqualified));
    }
}
