//! The rows of a body that a statement reads as a table, by several threads or by one thread in the order of the body.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use dipper_load::body::BodySource;
use dipper_node::error::{EngineError, Result};
use dipper_text::json::text::Step;
use dipper_text::{
    BadValue, Compression, Dialect, FileInput, InvalidUtf8, Memory, Scan, ScanOptions, ScanQueue, Source, Worker,
};

use crate::answer::RejectedRow;
use crate::head::{Head, first_row};
use crate::json::{self, JsonRows};
use crate::outcome::Unqualified;
use crate::request::StreamLoadRequest;
use crate::source::{PIECE_BYTES, ROW_BYTES_MAX, dialect, from_text};

/// The rows of a body, shared by all threads that read them.
#[derive(Clone)]
pub enum BodyRows {
    /// Delimited text.
    Text(Arc<ScanQueue>),
    /// JSON, with the number of rows that were read.
    Json(Arc<JsonRows>, Arc<AtomicU64>),
}

impl std::fmt::Debug for BodyRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, BodyRows::Text(_)) { "Text" } else { "Json" })
    }
}

impl BodyRows {
    /// Makes the rows of delimited text with columns of these types; `head` is the beginning of the body.
    ///
    /// # Errors
    /// `Invalid` if separators contradict each other, or text cannot have a column's type.
    pub fn text(
        head: Head,
        request: &StreamLoadRequest,
        head_lines: u8,
        schema: SchemaRef,
        memory: Arc<dyn Memory>,
    ) -> Result<Self> {
        let mut options = ScanOptions::new(Dialect::Csv(dialect(&request.csv, head_lines)), schema);
        // Whether there are too many rejected rows is known only at the end.
        options.bad_value = BadValue::RejectRecord { max: u64::MAX };
        options.invalid_utf8 = InvalidUtf8::Reject;
        options.block_bytes = PIECE_BYTES;
        options.record_bytes_max = ROW_BYTES_MAX;
        options.memory = Some(memory);
        let scan = Scan::try_new(options)?;
        let file = FileInput { name: "body".into(), source: Arc::new(head), compression: Compression::None };
        Ok(BodyRows::Text(ScanQueue::new(scan, vec![file])))
    }

    /// Makes the rows of JSON, with their schema: columns are strings, named by the members of the first row, or by the
    /// last steps of `jsonpaths`. `None` if there are no `jsonpaths` and the body does not begin with an object that
    /// has members. Blocking.
    ///
    /// # Errors
    /// `Invalid` if a path cannot be parsed; `File` if the body breaks off in its first row; `Resources` if that row is
    /// too long.
    pub fn json(
        request: &StreamLoadRequest,
        body: Arc<BodySource>,
        memory: Arc<dyn Memory>,
    ) -> Result<Option<(SchemaRef, Self)>> {
        let mut body = dipper_text::decoder(request.compression, body as Arc<dyn Source>);
        let layout = &request.json;
        let (names, paths) = match &layout.jsonpaths {
            Some(texts) => {
                let paths = texts.iter().map(|text| json::path(text)).collect::<Result<Vec<_>>>()?;
                let name = |(at, path): (usize, &Vec<Step>)| match path.last() {
                    Some(Step::Key(key)) => String::from_utf8_lossy(key).into_owned(),
                    _ => format!("c{}", at + 1),
                };
                let names: Vec<String> = paths.iter().enumerate().map(name).collect();
                (names, Some(paths.into_iter().map(Some).collect()))
            }
            None => {
                let (head, (bytes, rest)) = first_row(body, request)?;
                body = Box::new(io::Cursor::new(bytes).chain(rest));
                let Some(names) = json::first_names(head.trim_ascii(), layout)? else { return Ok(None) };
                (names, None)
            }
        };
        let schema = texts(&names);
        let rows = JsonRows::of(request, Arc::clone(&schema), paths, body, memory)?;
        Ok(Some((schema, BodyRows::Json(Arc::new(rows), Arc::default()))))
    }

    /// Returns the number of rows that were read, the number of rejected ones among them, and the first of these.
    pub fn counts(&self) -> (u64, u64, Vec<RejectedRow>) {
        match self {
            BodyRows::Text(queue) => {
                let metrics = queue.metrics();
                let rejected = queue.rejected().into_iter().map(from_text).collect();
                (metrics.rows_scanned, metrics.rows_rejected, rejected)
            }
            BodyRows::Json(rows, read) => {
                let (rejected, kept) = rows.rejected();
                (read.load(Ordering::Relaxed) + rejected, rejected, kept)
            }
        }
    }

    /// Makes readers stop.
    pub fn cancel(&self) {
        match self {
            BodyRows::Text(queue) => queue.cancel(),
            BodyRows::Json(rows, _) => rows.cancel(),
        }
    }

    /// Reads rows and passes them to `give` until there are none left (true), or `give` returns false. Blocking.
    ///
    /// # Errors
    /// The error of reading the body, or of `give`.
    pub fn read(&self, mut give: impl FnMut(RecordBatch) -> Result<bool>) -> Result<bool> {
        match self {
            BodyRows::Text(queue) => {
                let mut worker: Worker = queue.worker();
                while let Some(batch) = worker.next_batch()? {
                    if !give(batch.rows)? {
                        return Ok(false);
                    }
                }
            }
            BodyRows::Json(rows, read) => {
                while let Some(piece) = rows.next()? {
                    for batch in piece.batches {
                        read.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
                        if !give(batch)? {
                            return Ok(false);
                        }
                    }
                }
            }
        }
        Ok(true)
    }

    /// Refuses a body in which the share of rejected rows is larger than `max_filter_ratio`.
    ///
    /// # Errors
    /// `BadValue`, caused by [`Unqualified`].
    pub fn check(&self, max_filter_ratio: f64) -> Result<()> {
        let (met, rejected, _) = self.counts();
        match rejected as f64 <= max_filter_ratio * met as f64 {
            true => Ok(()),
            false => Err(EngineError::from(Unqualified)),
        }
    }
}

/// Returns a schema of string columns.
pub fn texts(names: &[String]) -> SchemaRef {
    Arc::new(Schema::new(names.iter().map(|n| Field::new(n, DataType::Utf8View, true)).collect::<Vec<_>>()))
}
