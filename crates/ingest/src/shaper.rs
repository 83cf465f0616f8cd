//! How the rows of a body become rows of a table, as a load sees it. Expressions are SQL, so a session implements it.

use arrow::array::{ArrayRef, BooleanArray};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use dipper_load::Given;

use dipper_node::error::Result;

/// What is read of a body.
#[derive(Debug, Clone)]
pub struct Reading {
    /// All columns of the body, in order, with the types they are to be read as.
    pub body: SchemaRef,
    /// Places in the body of the columns that are read.
    pub wanted: Vec<usize>,
    /// The value of each wanted column, as an array of one row, in a JSON object that does not have it; `None`: NULL.
    pub absent: Vec<Option<ArrayRef>>,
    /// Places among `wanted` of columns that each row must bring, where rows bring different columns.
    pub required: Vec<usize>,
}

impl Reading {
    /// Names of the wanted columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.wanted.iter().map(|at| self.body.field(*at).name().clone())
    }
}

/// Rows for the table.
#[derive(Debug)]
pub struct Shaped {
    /// The rows, with all columns of the table.
    pub batch: RecordBatch,
    /// Which rows of the input they are; `None`: all, in order.
    pub rows: Option<Vec<u32>>,
    /// The number of rows that `where` left out.
    pub unselected: u64,
    /// Rows of the input with a value that does not fit, and why; the batch does not have them.
    pub misfits: Vec<(usize, String)>,
}

impl Shaped {
    /// The row of the input that is row `row` here.
    pub fn input_row(&self, row: usize) -> usize {
        self.rows.as_ref().map_or(row, |rows| rows[row] as usize)
    }
}

/// Makes rows of a table from rows of a body.
pub trait Shaper: Send + Sync {
    /// What is read of the body.
    fn reading(&self) -> &Reading;

    /// Rows of the body, with the columns that are wanted, as rows of the table.
    ///
    /// # Errors
    /// An expression of the load fails on a row.
    fn shape(&self, batch: &RecordBatch) -> Result<Shaped>;

    /// Places of the table's columns that every row of the load brings.
    fn given(&self) -> Vec<usize>;

    /// For each column of the table which rows bring it. `present` says so of the wanted columns.
    ///
    /// # Errors
    /// `present` has other rows than the input of `shaped`.
    fn given_by_row(&self, present: &[BooleanArray], shaped: &Shaped) -> Result<Given>;
}
