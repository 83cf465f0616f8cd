//! Delimited text and JSON lines to Arrow: bytes in, [`RecordBatch`](arrow_array::RecordBatch)es out. The crate knows
//! nothing of SQL.
//!
//! Layers, lowest first:
//!
//! | module | question it answers |
//! |---|---|
//! | `simd` | where are the line ends, delimiters and quotes of these bytes? |
//! | [`dialect`] | what do the bytes of a file mean? |
//! | [`span`] | where does a field lie in its block, and what did its quoting look like? |
//! | [`source`] | where do bytes come from: files, decompressors, anything with positioned reads |
//! | `mapped` | what is in these bytes of a file, without copying them? |
//! | [`convert`] | the seam between spans and values: one converter a column |
//! | [`views`] | string columns without a copy where that pays, built without a call per value |
//! | [`parse`] | numbers, dates and times from bytes |
//! | [`scan`] | what is wanted: columns, filter, limit, policies; a queue of splits and the workers that drain it |
//! | `csv` | values of CSV fields, a column at a time |
//! | [`hive`] | values of Hive fields, a column at a time; Hive's own rules, byte for byte |
//! | [`json`] | values of JSON texts, and the members of a line as columns |
//! | [`infer`](mod@infer) | which dialect, columns and types does this unknown file have? |
//! | [`write`](mod@write) | rows back to text |
//!
//! This crate must not know SQL, DataFusion, Parquet, tokio and object stores.

// A `TextError` carries its whole place, so it is large; a scan returns at most one, and the functions that return it
// process megabytes per call.
#![allow(clippy::result_large_err)]

pub mod block;
pub mod compress;
pub mod convert;
mod csv;
pub mod dialect;
pub mod error;
pub mod hive;
pub mod infer;
pub mod json;
mod mapped;
pub mod parse;
pub mod scan;
pub(crate) mod simd;
pub mod source;
pub mod span;
pub mod views;
pub mod write;

pub use block::TextBlock;
pub use compress::{CompressError, Encoder, decoder, encoder};
pub use convert::{BadEntry, BadValues, Convert, Cx, LineFault, SplitLine};
pub use csv::converter as csv_converter;
pub use dialect::{CsvDialect, DateOrder, Dialect, HiveDialect, HiveSerde, JsonDialect, LineEnd, Ragged};
pub use error::{ErrorKind, TextError};
pub use infer::{
    Guess, Header, Hints, Kind, Union, common_dialect, describe, infer, infer_sample, settle_dates, union_by_name,
};
pub use scan::{
    BadValue, Batch, FileInput, HeaderCheck, InvalidUtf8, Memory, Origins, RecordFault, Rejected, RowFilter, Scan,
    ScanMetrics, ScanOptions, ScanQueue, Split, Strings, Worker,
};
pub use source::{Compression, FileSource, MemorySource, Source};
pub use span::Span;
pub use write::{CsvWriter, HiveTextWriter};
