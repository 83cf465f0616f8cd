//! The state of a transaction that a session has begun.

use std::sync::Arc;

use dipper_ingest::uncommitted::{Mark, Uncommitted};
use dipper_store::catalog::TableId;
use dipper_store::table::TableState;

use crate::error::{EngineError, ErrorKind, Result};

/// The transaction that a session has begun: its label, what it has written, and its savepoints.
#[derive(Debug, Default)]
pub(crate) struct Transaction {
    pub(crate) label: Option<String>,
    pub(crate) written: Option<Box<Uncommitted>>,
    /// The table that the transaction writes to, as `database.table`.
    pub(crate) place: String,
    pub(crate) savepoints: Vec<(String, Option<Mark>)>,
}

impl Transaction {
    /// The table that the transaction has written to, with the rows that the transaction sees; `None` if that state has
    /// not been computed since the last write.
    pub(crate) fn known(&self) -> Option<(TableId, Arc<TableState>)> {
        self.written.as_ref()?.known().map(|(id, state)| (id, Arc::clone(state)))
    }

    /// Whether the transaction has written anything.
    pub(crate) fn has_written(&self) -> bool {
        self.written.as_ref().is_some_and(|written| !written.is_empty())
    }

    /// The transaction's label, once it has written.
    pub(crate) fn label(&self) -> Option<&str> {
        self.written.as_ref().map(|written| written.label.as_str())
    }

    /// Returns the uncommitted writes, for a statement that has entered the transaction.
    ///
    /// # Errors
    /// `Internal` if the transaction has no table yet.
    pub(crate) fn written(&mut self) -> Result<&mut Uncommitted> {
        let written = self.written.as_deref_mut();
        written.ok_or_else(|| EngineError::new(ErrorKind::Internal, "a transaction without a table"))
    }
}
