//! Reads the rows of a body with several threads.
//!
//! A body is cut into pieces that are numbered in its order. One thread at a time reads, the others parse the pieces
//! that they have read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use dipper_load::body::BodySource;
use dipper_node::error::{EngineError, Result};
use dipper_text::{
    BadValue, CsvDialect, DateOrder, Dialect, ErrorKind as TextKind, FileInput, HiveDialect, InvalidUtf8, LineEnd,
    Memory, Origins, RecordFault, Rejected, Scan, ScanOptions, ScanQueue, Source, Worker,
};

use crate::answer::RejectedRow;
use crate::arrow_stream::ArrowRows;
use crate::json::{JsonOrigins, JsonRows};
use crate::outcome::Unqualified;
use crate::parquet::ParquetRows;
use crate::request::{CsvLayout, Format, StreamLoadRequest};
use crate::shaper::Reading;

/// Bytes of a rejected row that are shown.
pub(crate) const ROW_BYTES_SHOWN: usize = 1024;

/// Approximate bytes of a piece of text.
pub const PIECE_BYTES: usize = 1 << 20;

/// Bytes of the longest row of a body: far more than the columns of any row hold, and small enough to be buffered.
pub const ROW_BYTES_MAX: usize = 100 << 20;

/// Most rows of a batch: the size at which the following operators work best.
const BATCH_ROWS: usize = 8192;

/// Number of tablets over which the rows of one piece are distributed. With more tablets, pieces are larger, up to
/// [`PIECES_MAX`] times.
const TABLETS_PER_PIECE: usize = 8;

const PIECES_MAX: usize = 16;

/// Rejected rows after which a load without tolerance stops reading.
const REJECTED_WITHOUT_TOLERANCE: u64 = 50;

/// A piece of the body, parsed.
pub struct Piece {
    /// Number of the piece: 0, 1, 2, ... in the order of the body, without gaps.
    pub(crate) order: u64,
    /// The rows.
    pub batches: Vec<RecordBatch>,
    /// Position of the rows of each batch in the body.
    pub(crate) origins: Vec<Origin>,
    /// For each batch, which rows contain each of its columns; empty if all rows contain all.
    pub(crate) present: Vec<Vec<BooleanArray>>,
}

/// Position of the rows of a batch in the body.
pub(crate) enum Origin {
    Text(Origins),
    Json(JsonOrigins),
    /// Number of the first row, from 1.
    Rows(u64),
}

impl Origin {
    /// Makes the rejected row for row `row` of `batch`.
    pub(crate) fn rejected(&self, row: usize, batch: &RecordBatch, reason: String) -> RejectedRow {
        match self {
            Origin::Text(origins) => RejectedRow {
                line: origins.line(row).unwrap_or_default(),
                column: None,
                reason,
                row: origins.text(row, ROW_BYTES_SHOWN),
            },
            Origin::Json(origins) => {
                RejectedRow { line: origins.line(row), column: None, reason, row: origins.text(row) }
            }
            Origin::Rows(first) => {
                RejectedRow { line: first + row as u64, column: None, reason, row: row_text(batch, row) }
            }
        }
    }
}

/// Formats a row of a body that is not text.
fn row_text(batch: &RecordBatch, row: usize) -> String {
    let cell = |c: &arrow::array::ArrayRef| arrow::util::display::array_value_to_string(c, row).unwrap_or_default();
    let mut text = batch.columns().iter().map(cell).collect::<Vec<_>>().join("\t");
    if text.len() > ROW_BYTES_SHOWN {
        let cut = (0..=ROW_BYTES_SHOWN).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default();
        text.truncate(cut);
        text.push_str("...");
    }
    text
}

/// The rows of one body.
pub(crate) enum RowSource {
    Text(Arc<ScanQueue>),
    Json(Arc<JsonRows>),
    Parquet(Arc<ParquetRows>),
    Arrow(Arc<ArrowRows>),
}

/// A thread's reader of a [`RowSource`].
pub(crate) enum Reader {
    Text(Box<Worker>),
    Json(Arc<JsonRows>),
    Parquet(Arc<ParquetRows>),
    Arrow(Arc<ArrowRows>),
}

impl RowSource {
    /// Makes the rows of delimited text, which are distributed over `tablets` tablets.
    ///
    /// # Errors
    /// `Invalid` if separators contradict each other, or text cannot have a column's type.
    pub(crate) fn text(
        request: &StreamLoadRequest,
        reading: &Reading,
        body: Arc<BodySource>,
        tablets: usize,
        memory: Arc<dyn Memory>,
    ) -> Result<Self> {
        let dialect = match request.format {
            Format::Csv { head_lines } => Dialect::Csv(dialect(&request.csv, head_lines)),
            Format::HiveText => Dialect::Hive(hive_dialect(&request.csv)?),
            Format::Json | Format::Parquet | Format::Arrow => unreachable!("asked for text only"),
        };
        let mut options = ScanOptions::new(dialect, Arc::clone(&reading.body));
        options.projection.clone_from(&reading.wanted);
        let max = if request.max_filter_ratio > 0.0 { u64::MAX } else { REJECTED_WITHOUT_TOLERANCE };
        options.bad_value = if request.strict_mode { BadValue::Reject { max } } else { BadValue::RejectRecord { max } };
        options.invalid_utf8 = InvalidUtf8::Reject;
        // With only a few rows per tablet, distributing them would cost more than parsing them.
        let factor = (tablets / TABLETS_PER_PIECE).clamp(1, PIECES_MAX);
        options.block_bytes = PIECE_BYTES * factor;
        options.batch_rows = BATCH_ROWS * factor;
        options.record_bytes_max = ROW_BYTES_MAX;
        options.memory = Some(memory);
        options.origins = true;
        let scan = Scan::try_new(options)?;
        let file = FileInput { name: "body".into(), source: body, compression: request.compression };
        Ok(RowSource::Text(ScanQueue::new(scan, vec![file])))
    }

    /// Makes a reader for one more thread.
    pub(crate) fn reader(&self) -> Reader {
        match self {
            RowSource::Text(queue) => Reader::Text(Box::new(queue.worker())),
            RowSource::Json(rows) => Reader::Json(Arc::clone(rows)),
            RowSource::Parquet(rows) => Reader::Parquet(Arc::clone(rows)),
            RowSource::Arrow(rows) => Reader::Arrow(Arc::clone(rows)),
        }
    }

    /// Makes readers stop.
    pub(crate) fn cancel(&self) {
        match self {
            RowSource::Text(queue) => queue.cancel(),
            RowSource::Json(rows) => rows.cancel(),
            RowSource::Parquet(rows) => rows.cancel(),
            RowSource::Arrow(rows) => rows.cancel(),
        }
    }

    /// Returns the number of rows that do not fit the table, and the first of them.
    pub(crate) fn rejected(&self) -> (u64, Vec<RejectedRow>) {
        match self {
            RowSource::Text(queue) => {
                (queue.metrics().rows_rejected, queue.rejected().into_iter().map(from_text).collect())
            }
            RowSource::Json(rows) => rows.rejected(),
            RowSource::Parquet(_) | RowSource::Arrow(_) => (0, Vec::new()),
        }
    }
}

impl Reader {
    /// Returns the next piece; `None` if nothing is left for this thread. Blocking.
    ///
    /// # Errors
    /// `BadValue`, caused by [`Unqualified`], if too many rows are rejected; otherwise the error of reading the body.
    pub(crate) fn next(&mut self) -> Result<Option<Piece>> {
        match self {
            Reader::Text(worker) => match worker.next_split() {
                Ok(None) => Ok(None),
                Ok(Some(split)) => Ok(Some(Piece {
                    order: split.order,
                    batches: split.batches,
                    origins: split.origins.into_iter().map(Origin::Text).collect(),
                    present: Vec::new(),
                })),
                Err(e) if e.kind == TextKind::Rejected => Err(Unqualified.into()),
                Err(e) => Err(EngineError::from(e)),
            },
            Reader::Json(rows) => rows.next(),
            Reader::Parquet(rows) => rows.next(),
            Reader::Arrow(rows) => rows.next(),
        }
    }
}

/// Stops a load without tolerance that has met too many rejected rows.
///
/// # Errors
/// `BadValue`, caused by [`Unqualified`].
pub(crate) fn check_qualified(request: &StreamLoadRequest, rejected: u64) -> Result<()> {
    match request.max_filter_ratio <= 0.0 && rejected > REJECTED_WITHOUT_TOLERANCE {
        true => Err(Unqualified.into()),
        false => Ok(()),
    }
}

/// Returns the dialect of delimited text that the headers of a load describe.
pub fn dialect(layout: &CsvLayout, head_lines: u8) -> CsvDialect {
    let line_end = match layout.line_delimiter.as_slice() {
        b"\n" | b"\r\n" => LineEnd::Newline,
        other => LineEnd::Bytes(other.to_vec()),
    };
    let mut null_values = layout.null_values.clone();
    if layout.empty_field_as_null {
        null_values.push(Vec::new());
    }
    CsvDialect {
        delimiter: layout.column_separator.clone(),
        line_end,
        quote: layout.enclose,
        escape: layout.escape,
        comment: None,
        header: false,
        skip_lines: if head_lines > 0 { u64::from(head_lines) } else { layout.skip_lines },
        trim: layout.trim_space,
        unquote: layout.trim_double_quotes,
        null_values,
        ragged: dipper_text::Ragged::Error,
        dates: DateOrder::YearFirst,
    }
}

/// Returns the dialect of Hive's text that the headers of a load describe; by default fields are separated by `^A`.
///
/// # Errors
/// `Invalid` if a separator has several bytes, or a header has no meaning for Hive's text.
fn hive_dialect(layout: &CsvLayout) -> Result<HiveDialect> {
    let none = CsvLayout::default();
    let refused = [
        ("enclose", layout.enclose.is_some()),
        ("trim_double_quotes", layout.trim_double_quotes),
        ("trim_space", layout.trim_space),
        ("empty_field_as_null", layout.empty_field_as_null),
    ];
    if let Some((header, _)) = refused.iter().find(|(_, given)| *given) {
        return Err(EngineError::invalid(format!(
            "'{header}' has no meaning for format hive_text, whose fields have no quotes; use format csv"
        )));
    }
    let mut dialect = HiveDialect { skip_header: layout.skip_lines, escape: layout.escape, ..HiveDialect::default() };
    if layout.column_separator != none.column_separator {
        let [byte] = *layout.column_separator.as_slice() else {
            return Err(EngineError::invalid("'column_separator' of format hive_text is one byte; use format csv"));
        };
        dialect.separators[0] = byte;
    }
    if layout.line_delimiter != none.line_delimiter {
        dialect.line_end = LineEnd::Bytes(layout.line_delimiter.clone());
    }
    Ok(dialect)
}

/// Converts a row that the scan rejected, with the reason in Doris' words.
pub fn from_text(rejected: Rejected) -> RejectedRow {
    let Rejected { line, column, fault, reason, text, .. } = rejected;
    let packed = if line == 1 { packed(&text) } else { None };
    let reason = match (&column, fault) {
        _ if packed.is_some() => packed.unwrap_or_default().to_string(),
        (_, RecordFault::Fields { found, expected }) => {
            let way = match found {
                1 => "'column_separator' is what stands between the fields of a row",
                found if found > expected => {
                    "'enclose' is the quote around fields that hold a separator, 'columns' names all fields of a row, and \
                     'max_filter_ratio' lets such rows be left out"
                }
                _ => {
                    "'columns' names the fields of a row if they are not all columns of the table, and \
                     'max_filter_ratio' lets such rows be left out"
                }
            };
            format!("Column count mismatch: expected {expected}, but found {found}; {way}")
        }
        (_, RecordFault::InvalidUtf8) => "Invalid file encoding: all CSV files must be UTF-8 encoded".to_string(),
        (Some(column), RecordFault::Unsupported) => format!("column({column}) cannot hold {reason}"),
        (Some(column), _) => {
            format!("column({column}) value is incorrect while strict mode is 1, src value is {reason}")
        }
        _ => reason,
    };
    RejectedRow { line, column, reason, row: text }
}

/// Returns what to do with a body whose first row begins with the bytes of a compressed file; `None` for other rows. In
/// the row, bytes that are no UTF-8 have become replacement characters.
pub(crate) fn packed(row: &str) -> Option<&'static str> {
    let forms = [
        (
            "\u{fffd}7zXZ\0",
            "the body is xz, not text; unpack it (xz -d), or compress it as gzip, zstd, bzip2 or lz4 instead",
        ),
        ("\u{1f}\u{fffd}\u{8}", "the body is gzip, not text; say 'compress_type: gz'"),
        ("(\u{fffd}/\u{fffd}", "the body is zstd, not text; say 'compress_type: zstd'"),
        ("BZh91AY&SY", "the body is bzip2, not text; say 'compress_type: bz2'"),
        ("\u{4}\"M\u{18}", "the body is lz4, not text; say 'compress_type: lz4'"),
        ("PAR1", "the body is Parquet, not text; say 'format: parquet'"),
        ("PARE", "the body is Parquet with an encrypted footer, which is not read; write it without encryption"),
    ];
    forms.into_iter().find(|(begin, _)| row.starts_with(begin)).map(|(_, way)| way)
}

/// Generates the numbers of pieces for sources that do not number them.
#[derive(Debug, Default)]
pub(crate) struct Numbers(AtomicU64);

impl Numbers {
    pub(crate) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// Returns the decompressed body as a reader.
pub(crate) fn plain(body: Arc<BodySource>, request: &StreamLoadRequest) -> Box<dyn std::io::Read + Send> {
    dipper_text::decoder(request.compression, body as Arc<dyn Source>)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_bodies_are_told_by_their_first_bytes() {
        let told = |bytes: &[u8]| packed(&String::from_utf8_lossy(bytes)).unwrap_or("text");
        assert!(told(b"\xfd7zXZ\0\0\x04").starts_with("the body is xz"));
        assert!(told(b"\x1f\x8b\x08\0").starts_with("the body is gzip"));
        assert!(told(b"(\xb5/\xfd\0").starts_with("the body is zstd"));
        assert!(told(b"BZh91AY&SY").starts_with("the body is bzip2"));
        assert!(told(b"\x04\"M\x18").starts_with("the body is lz4"));
        assert_eq!(told(b"1,2,3"), "text");
    }
}
