//! Conversion of a body's rows to rows of a table, as loads need it. Expressions are SQL, so a session implements it.

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use dipper_load::Given;

use dipper_node::error::Result;

/// The columns that are read of a body.
#[derive(Debug, Clone)]
pub struct Reading {
    /// All columns of the body, in order, with the types as which they are read.
    pub body: SchemaRef,
    /// Indexes in the body of the columns that are read.
    pub wanted: Vec<usize>,
    /// For each wanted column, the value that it has where a JSON object lacks it, as an array of one row; `None` is
    /// NULL.
    pub absent: Vec<Option<ArrayRef>>,
    /// Indexes in `wanted` of the columns that each row must contain, if rows contain different columns.
    pub required: Vec<usize>,
}

impl Reading {
    /// Returns the names of the wanted columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.wanted.iter().map(|at| self.body.field(*at).name().clone())
    }
}

/// Rows for the table, made of a batch of the body.
#[derive(Debug)]
pub struct Shaped {
    /// The rows, with all columns of the table.
    pub batch: RecordBatch,
    /// The input rows of which they were made; `None`: all, in order.
    pub rows: Option<Vec<u32>>,
    /// The number of rows that `where` left out.
    pub unselected: u64,
    /// Input rows with a value that does not fit, and the reason. They are not in the batch.
    pub misfits: Vec<(usize, String)>,
}

impl Shaped {
    /// Returns the input row of which row `row` was made.
    pub fn input_row(&self, row: usize) -> usize {
        self.rows.as_ref().map_or(row, |rows| rows[row] as usize)
    }
}

/// Converts rows of a body to rows of a table.
pub trait Shaper: Send + Sync {
    /// Returns the columns that are read of the body.
    fn reading(&self) -> &Reading;

    /// Converts rows of the body, which have the wanted columns, to rows of the table.
    ///
    /// # Errors
    /// The error of an expression of the load that fails on a row.
    fn shape(&self, batch: &RecordBatch) -> Result<Shaped>;

    /// Returns the indexes of the table's columns that every row of the load contains.
    fn given(&self) -> Vec<usize>;

    /// Returns for each column of the table which rows contain it. `present` says so of the wanted columns.
    ///
    /// # Errors
    /// An error if `present` has other rows than the input of `shaped`.
    fn given_by_row(&self, present: &[BooleanArray], shaped: &Shaped) -> Result<Given>;
}
