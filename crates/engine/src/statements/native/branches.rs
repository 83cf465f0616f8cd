//! The rows that the clauses of MERGE INTO write for the rows of its query.

use arrow::array::{AsArray, BooleanArray};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Int64Type};
use arrow::record_batch::RecordBatch;
use dipper_exec::shape::Shape;
use dipper_store::table::TableState;
use parking_lot::Mutex;

use super::addresses::Addresses;
use crate::error::{EngineError, Result};

/// The rows that the clauses write.
pub(super) struct Branches {
    pub(super) list: Vec<Branch>,
    pub(super) table: String,
    /// Position of the first of the two columns of addresses.
    pub(super) address: usize,
    /// Rows of the target on which clauses have acted.
    pub(super) seen: Mutex<Option<Addresses>>,
}

/// The rows that one clause writes.
pub(super) struct Branch {
    pub(super) matched: bool,
    /// The columns of the query that make a row of the table.
    pub(super) columns: Vec<usize>,
    pub(super) shape: Shape,
}

impl Branches {
    /// Prepares for rows of this state.
    pub(super) fn on(self, state: &TableState) -> Self {
        // Where a column decides between rows of a key, the source may bring several of them.
        let seen = state.schema().sequence.is_none().then(|| Addresses::new(state));
        Branches { seen: Mutex::new(seen), ..self }
    }

    /// Returns the rows that the clauses write for a batch of the query.
    ///
    /// # Errors
    /// `Invalid` if clauses act on a row of the target again; the errors of [`Shape::shape`].
    pub(super) fn rows(&self, batch: &RecordBatch) -> Result<Vec<RecordBatch>> {
        let labels = arrow::compute::cast(batch.column(0), &DataType::Int64)?;
        let labels = labels.as_primitive::<Int64Type>();
        let mut out = Vec::new();
        for (at, branch) in (0..).zip(&self.list) {
            let own: BooleanArray = labels.iter().map(|label| Some(label == Some(at))).collect();
            if own.true_count() == 0 {
                continue;
            }
            let rows = filter_record_batch(batch, &own)?;
            if branch.matched
                && let Some(seen) = self.seen.lock().as_mut()
                && seen.add(&rows, self.address).contains(&false)
            {
                return Err(EngineError::invalid(format!(
                    "MERGE INTO: several rows of the source match the same row of '{}'; make ON, or the conditions of WHEN, match one of them",
                    self.table
                )));
            }
            out.push(branch.shape.shape(&rows.project(&branch.columns)?)?);
        }
        Ok(out)
    }
}
