//! Options of a scan over text files, and the queue of splits that workers drain.

mod blocks;
mod chain;
mod chunk;
mod count;
mod grammar;
mod head;
mod machine;
mod origins;
mod queue;
mod rows;
mod stream;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use count::COUNTED_BLOCKS;
pub use origins::Origins;
pub use queue::{Scan, ScanQueue};
pub use worker::Worker;

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;

use crate::dialect::Dialect;
use crate::error::TextError;
use crate::source::{Compression, Source};

/// Largest block, and longest record, in bytes.
pub const BLOCK_BYTES_MAX: usize = 512 << 20;

/// Treatment of a value that does not fit its column's type, and of records with the wrong number of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadValue {
    /// The value is NULL.
    Null,
    /// The scan ends with an error that names file, line, column and value.
    Error,
    /// The value is NULL, but records with the wrong number of fields, and those that fall under
    /// [`InvalidUtf8::Reject`], are left out as under `Reject`.
    RejectRecord {
        /// Maximum number of rejected records.
        max: u64,
    },
    /// The record is left out and counted; the first rejected records are kept with their reasons. The scan ends with
    /// an error if more than `max` records are rejected.
    Reject {
        /// Maximum number of rejected records.
        max: u64,
    },
}

/// Treatment of strings that are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidUtf8 {
    /// Broken sequences become U+FFFD.
    Replace,
    /// The scan ends with an error that names file, line and column.
    Error,
    /// The value is NULL.
    Null,
    /// Under [`BadValue::Reject`] and [`BadValue::RejectRecord`], the record is left out; under others the value is
    /// NULL.
    Reject,
}

/// How string columns hold their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strings {
    /// Views into the block if the column's long values make up at least half of the batch's bytes, else dense copies.
    View,
    /// Always dense copies.
    Copy,
}

/// A predicate that is evaluated on its own columns before the others are built.
pub trait RowFilter: Send + Sync + fmt::Debug {
    /// Returns the indexes of the file's columns that [`keep`](Self::keep) needs. Called for each block, because
    /// dynamic filters may change.
    fn columns(&self) -> Vec<usize>;

    /// Returns one bool per row; NULL and false drop the row. `batch` has exactly the columns that
    /// [`columns`](Self::columns) returned last, in that order.
    ///
    /// # Errors
    /// Any error of the evaluation; the scan ends with it.
    fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray, Box<dyn Error + Send + Sync>>;
}

/// Checks by its header whether a file has the columns that are read from it.
pub trait HeaderCheck: Send + Sync + fmt::Debug {
    /// Checks a header, which is given without its line end.
    ///
    /// # Errors
    /// If the header names other columns; the scan ends with the error.
    fn check(&self, header: &[u8]) -> Result<(), TextError>;
}

/// Accountant of the memory for long records. It is dropped with the scan and its last batch, and must then release all
/// that is still reserved: a scan that fails does not call [`shrink`](Self::shrink) for it.
pub trait Memory: Send + Sync + fmt::Debug {
    /// Reserves `bytes` more bytes.
    ///
    /// # Errors
    /// The reason why the memory is not available.
    fn grow(&self, bytes: usize) -> Result<(), String>;

    /// Releases `bytes` bytes.
    fn shrink(&self, bytes: usize);
}

/// Options of a scan that are the same for all files.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    /// Dialect of the files.
    pub dialect: Dialect,
    /// All columns of the files, in file order.
    pub schema: SchemaRef,
    /// Columns to return, in this order. Empty: batches have only a row count.
    pub projection: Vec<usize>,
    /// Predicate of the rows to return.
    pub filter: Option<Arc<dyn RowFilter>>,
    /// Maximum number of rows to return after the filter, over all files and workers. The first block is then small,
    /// and nothing is read once the limit is met.
    pub limit: Option<u64>,
    /// Maximum number of rows in a batch.
    pub batch_rows: usize,
    /// Bytes read at a time. A record longer than this makes its block grow, up to `record_bytes_max`.
    pub block_bytes: usize,
    /// Length in bytes of the longest record that is accepted, at most [`BLOCK_BYTES_MAX`].
    pub record_bytes_max: usize,
    /// Accountant of blocks that have grown beyond five times `block_bytes`; `None`: they are not accounted for.
    pub memory: Option<Arc<dyn Memory>>,
    /// Treatment of values that do not fit.
    pub bad_value: BadValue,
    /// Treatment of strings that are not UTF-8.
    pub invalid_utf8: InvalidUtf8,
    /// The way in which string columns hold their bytes.
    pub strings: Strings,
    /// Columns (indexes into `schema`) of CSV files whose values are never truncated to fit their type, because the
    /// type is a guess: in them `1.5` is no integer and `2024-01-01 10:00:00` is no date.
    pub exact: Vec<usize>,
    /// Check of the header of each CSV file, made before its records are read. `None`: headers are not checked.
    pub header: Option<Arc<dyn HeaderCheck>>,
    /// Whether splits say where their rows come from, see [`Split::origins`].
    pub origins: bool,
}

impl ScanOptions {
    /// Creates options for all columns and rows of files of this dialect. Bad values are treated as the dialect's users
    /// expect: they are errors in CSV and JSON, NULL in Hive text.
    pub fn new(dialect: Dialect, schema: SchemaRef) -> Self {
        let bad_value = match dialect {
            Dialect::Csv(_) | Dialect::Json(_) => BadValue::Error,
            Dialect::Hive(_) => BadValue::Null,
        };
        let invalid_utf8 = match dialect {
            Dialect::Csv(_) | Dialect::Json(_) => InvalidUtf8::Error,
            Dialect::Hive(_) => InvalidUtf8::Replace,
        };
        let projection = (0..schema.fields().len()).collect();
        ScanOptions {
            dialect,
            schema,
            projection,
            filter: None,
            limit: None,
            batch_rows: 8192,
            block_bytes: 1 << 20,
            record_bytes_max: BLOCK_BYTES_MAX,
            memory: None,
            bad_value,
            invalid_utf8,
            strings: Strings::View,
            exact: Vec::new(),
            header: None,
            origins: false,
        }
    }
}

/// One file of a scan.
#[derive(Debug, Clone)]
pub struct FileInput {
    /// Name for messages.
    pub name: String,
    /// The file's bytes, as stored.
    pub source: Arc<dyn Source>,
    /// Compression of the file.
    pub compression: Compression,
}

/// Rows of one split: the smallest piece of the input that one worker takes.
#[derive(Debug, Clone)]
pub struct Split {
    /// Position in the input, over all files: 0, 1, 2, ... without gaps; each number is handed out once.
    pub order: u64,
    /// Index into the files of the queue.
    pub file: usize,
    /// The rows; empty if no row passed.
    pub batches: Vec<RecordBatch>,
    /// Origins of the rows of each batch if [`ScanOptions::origins`] is set, else empty.
    pub origins: Vec<Origins>,
}

/// Rows of one file.
#[derive(Debug, Clone)]
pub struct Batch {
    /// Index into the files of the queue.
    pub file: usize,
    /// The projected columns.
    pub rows: RecordBatch,
}

/// Counters of a scan's work so far. They only grow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanMetrics {
    /// Bytes read from the sources (compressed ones as stored).
    pub bytes_read: u64,
    /// Records seen, before the filter.
    pub rows_scanned: u64,
    /// Rows handed out.
    pub rows_returned: u64,
    /// Records left out under [`BadValue::Reject`].
    pub rows_rejected: u64,
    /// Blocks read.
    pub blocks: u64,
}

/// The fault of a record that was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordFault {
    /// The record has another number of fields than the file has columns.
    Fields {
        /// Fields of the record.
        found: usize,
        /// Columns of the file.
        expected: usize,
    },
    /// A field is not UTF-8.
    InvalidUtf8,
    /// A value is a good one, but its column cannot hold it; the reason has the details.
    Unsupported,
    /// A value does not fit its column, or a quote is not closed; the reason has the details.
    Other,
}

/// A record that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// Name of the file.
    pub file: String,
    /// Line in the file, from 1.
    pub line: u64,
    /// Bytes from the start of the (decompressed) file to the record.
    pub byte: u64,
    /// The column at fault, if a single one is.
    pub column: Option<String>,
    /// The fault, for code that acts on it.
    pub fault: RecordFault,
    /// The fault, for people.
    pub reason: String,
    /// The record as it stands in the file, cut at 1 KiB.
    pub text: String,
}
