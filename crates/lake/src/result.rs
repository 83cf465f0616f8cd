//! Results of statements.

use std::fmt;

use arrow::datatypes::FieldRef;
use arrow::record_batch::RecordBatch;
use dipper_node::error::Result;
use futures::stream::BoxStream;

/// A column of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Header: the text of the select item as written, or its alias.
    pub name: String,
    /// Arrow type, nullability, and `dipper.type` metadata where the SQL type says more than the Arrow type.
    pub field: FieldRef,
    /// Name of the column in its table; empty for expressions.
    pub org_name: String,
    /// Alias of the table; empty for expressions.
    pub table: String,
    /// Name of the table itself; empty for expressions.
    pub org_table: String,
    /// Database of the table; empty for expressions.
    pub database: String,
    /// `None` if the column is not part of its table's key; otherwise whether no two rows share a key.
    pub key: Option<bool>,
}

impl Column {
    /// Makes a column that belongs to no table.
    pub fn computed(field: FieldRef) -> Self {
        Column {
            name: field.name().clone(),
            field,
            org_name: String::new(),
            table: String::new(),
            org_table: String::new(),
            database: String::new(),
            key: None,
        }
    }
}

/// Rows of a result, computed while the stream is polled. Dropping it ends the statement.
pub struct Rows {
    /// The columns, in order.
    pub columns: Vec<Column>,
    /// Batches whose columns have the types of `columns`.
    pub batches: BoxStream<'static, Result<RecordBatch>>,
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("columns", &self.columns).finish_non_exhaustive()
    }
}

/// Result of a statement that returns no rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows inserted, written or changed.
    pub affected_rows: u64,
    /// First value that the statement generated for an AUTO_INCREMENT column.
    pub last_insert_id: Option<u64>,
    /// Value of the AUTO_INCREMENT column in the last row. As in MySQL, clients receive it if the statement generated
    /// no value, and LAST_INSERT_ID() does not change.
    pub last_id: Option<u64>,
    /// Message for the client; may be empty.
    pub info: String,
}

/// Result of a statement.
#[derive(Debug)]
pub enum Outcome {
    /// Rows.
    Rows(Rows),
    /// No rows.
    Done(Done),
}

impl Outcome {
    /// Makes the result of a statement that changed no rows and has no message.
    pub fn ok() -> Self {
        Outcome::Done(Done::default())
    }
}
