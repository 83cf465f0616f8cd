//! What is wanted from files of text, and the queue of splits that workers drain.

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

/// What becomes of a value that does not fit its column's type, and of records with the wrong number of fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadValue {
    /// The value is NULL.
    Null,
    /// The scan ends with an error that names file, line, column and value.
    Error,
    /// The value is NULL, but records with the wrong number of fields, and those that [`InvalidUtf8::Reject`] is about,
    /// are left out as under `Reject`.
    RejectRecord {
        /// Most records that may be rejected.
        max: u64,
    },
    /// The record is left out and counted; the first ones are kept with their reasons. The scan ends with an error when
    /// there are more than `max`.
    Reject {
        /// Most records that may be rejected.
        max: u64,
    },
}

/// What becomes of strings that are not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidUtf8 {
    /// Broken sequences become U+FFFD.
    Replace,
    /// The scan ends with an error that names file, line and column.
    Error,
    /// The value is NULL.
    Null,
    /// Under [`BadValue::Reject`] and [`BadValue::RejectRecord`], the record is left out; under others the value is NULL.
    Reject,
}

/// How string columns hold their bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Strings {
    /// Views into the block where the column's long values make up at least half of the batch's bytes, else dense copies.
    View,
    /// Always dense copies.
    Copy,
}

/// A predicate that is evaluated on its own columns before the others are built.
pub trait RowFilter: Send + Sync + fmt::Debug {
    /// Indexes into the file's columns that [`keep`](Self::keep) needs. Asked for each block: dynamic filters may change.
    fn columns(&self) -> Vec<usize>;

    /// One bool a row; NULL and false drop the row. `batch` has exactly the columns last asked for, in that order.
    ///
    /// # Errors
    /// Whatever evaluation reports; the scan ends with it.
    fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray, Box<dyn Error + Send + Sync>>;
}

/// Says whether a file has the columns that are read from it, by its header.
pub trait HeaderCheck: Send + Sync + fmt::Debug {
    /// Looks at a header, given without its line end.
    ///
    /// # Errors
    /// It names other columns; the scan ends with it.
    fn check(&self, header: &[u8]) -> Result<(), TextError>;
}

/// Where the memory for long records is asked for. Dropped with the scan and its last batch, it gives back what is left:
/// a scan that fails does not say what it held.
pub trait Memory: Send + Sync + fmt::Debug {
    /// Takes so many bytes more.
    ///
    /// # Errors
    /// Why there are none.
    fn grow(&self, bytes: usize) -> Result<(), String>;

    /// Gives so many bytes back.
    fn shrink(&self, bytes: usize);
}

/// Everything about a scan that is the same for all files.
#[derive(Debug, Clone)]
pub struct ScanOptions {
    /// How the files are written.
    pub dialect: Dialect,
    /// All columns of the files, in file order.
    pub schema: SchemaRef,
    /// Columns to return, in this order. Empty: batches have only a row count.
    pub projection: Vec<usize>,
    /// Rows to return.
    pub filter: Option<Arc<dyn RowFilter>>,
    /// Most rows to return (after the filter), over all files and workers. The first block is then small, and nothing is
    /// read once the limit is met.
    pub limit: Option<u64>,
    /// Most rows in a batch.
    pub batch_rows: usize,
    /// Bytes read at a time. A record longer than this makes its block grow, up to `record_bytes_max`.
    pub block_bytes: usize,
    /// Bytes of the longest record that is accepted, at most [`BLOCK_BYTES_MAX`].
    pub record_bytes_max: usize,
    /// Where blocks are asked for that have grown beyond five times their size; `None`: nowhere.
    pub memory: Option<Arc<dyn Memory>>,
    /// Values that do not fit.
    pub bad_value: BadValue,
    /// Strings that are not UTF-8.
    pub invalid_utf8: InvalidUtf8,
    /// How string columns hold their bytes.
    pub strings: Strings,
    /// Columns (indexes into `schema`) of CSV files whose values are never cut to fit their type, because the type is a guess:
    /// `1.5` is no whole number there, `2024-01-01 10:00:00` no date.
    pub exact: Vec<usize>,
    /// Sees the header of each CSV file before its records are read. `None`: headers are not looked at.
    pub header: Option<Arc<dyn HeaderCheck>>,
    /// Splits say where their rows come from, see [`Split::origins`].
    pub origins: bool,
}

impl ScanOptions {
    /// All columns and rows of files of this dialect, bad values as the dialect's users expect: an error in CSV and JSON,
    /// NULL in Hive text.
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
    /// For messages.
    pub name: String,
    /// Its bytes, as stored.
    pub source: Arc<dyn Source>,
    /// How they are compressed.
    pub compression: Compression,
}

/// Rows of one split: the smallest piece of the input that one worker takes.
#[derive(Debug, Clone)]
pub struct Split {
    /// Place in the input, over all files: 0, 1, 2, ... without gaps; each number is handed out once.
    pub order: u64,
    /// Index into the files of the queue.
    pub file: usize,
    /// Its rows, none where none passed.
    pub batches: Vec<RecordBatch>,
    /// For each batch where its rows come from, if [`ScanOptions::origins`] asks for it; else empty.
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

/// What a scan has done so far. Counters only grow.
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

/// What is wrong with a record that was left out.
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
    /// A value does not fit its column, or the record is not closed; the reason says it.
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
    /// The column at fault, where it is one.
    pub column: Option<String>,
    /// What is wrong, for code that acts on it.
    pub fault: RecordFault,
    /// What is wrong, for people.
    pub reason: String,
    /// The record as it stands in the file, cut at 1 KiB.
    pub text: String,
}
