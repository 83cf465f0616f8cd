//! Generated columns, which the table computes from other columns of a row. Expressions are SQL, so the caller of a load
//! brings what computes them.

use std::fmt;

use arrow_array::RecordBatch;

use crate::LoadError;

/// Rows with their generated columns.
#[derive(Debug, Clone)]
pub struct Computed {
    /// The rows.
    pub batch: RecordBatch,
    /// Rows with a value that does not fit its column, and the reason. The column is NULL in them.
    pub misfits: Vec<(u32, String)>,
}

/// Computes the generated columns of one table.
pub trait Generate: fmt::Debug + Send + Sync {
    /// Returns the rows with their generated columns, whatever values these had before. The batch has all columns of
    /// the table.
    ///
    /// # Errors
    /// [`LoadError::Generated`] if an expression fails.
    fn generate(&self, batch: &RecordBatch) -> Result<Computed, LoadError>;
}
