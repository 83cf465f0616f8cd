//! The body of a request as a table, for the one statement that reads it.
//!
//! The body is read once as it arrives, by all threads, or by one thread in order; a query that keeps nothing holds
//! only a few blocks of it. Its columns are strings named `c1`, `c2`, ... or by the header line (`csv_with_names`), or
//! the columns of `csv_schema`. The columns of JSON are the members of the first row, or the last parts of `jsonpaths`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use dipper_dialect::statement::Properties;
use dipper_ingest::body_rows::{BodyRows, texts};
use dipper_ingest::head::Head;
use dipper_ingest::request::{Format, StreamLoadRequest, unread_format};
use dipper_lake::files::schema_option;
use dipper_lake::times::Times;
use dipper_load::body::BodySource;
use dipper_store::chain::TxnId;
use dipper_text::Memory;
use parking_lot::Mutex;

use super::times;
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};

/// Name of the table function.
pub(crate) const FUNCTION: &str = "http_stream";

/// The options of the table function.
const OPTIONS: &[&str] = &[
    "format",
    "column_separator",
    "line_delimiter",
    "enclose",
    "escape",
    "trim_double_quotes",
    "trim_space",
    "skip_lines",
    "empty_field_as_null",
    "compress_type",
    "csv_schema",
    "strip_outer_array",
    "read_json_by_line",
    "jsonpaths",
    "json_root",
    "num_as_string",
];

/// The formats that can be read.
const FORMATS: &[&str] = &["csv", "csv_with_names", "csv_with_names_and_types", "txt", "json"];

/// Number of batches of one thread that wait for the query.
const BATCHES_WAITING: usize = 2;

/// The body of a request, for the one statement that reads it.
#[derive(Debug)]
pub(crate) struct BodyTable {
    max_filter_ratio: f64,
    /// Time zone of the session, for the types of `csv_schema`.
    zone: String,
    threads: usize,
    cpu: tokio::runtime::Handle,
    memory: Arc<dyn Memory>,
    body: Mutex<Option<Arc<BodySource>>>,
    rows: Mutex<Option<BodyRows>>,
    inserted: Mutex<Option<Inserted>>,
}

/// The report of the INSERT, besides the number of rows.
#[derive(Debug, Clone)]
pub(crate) struct Inserted {
    pub(crate) txn: TxnId,
    /// Whether the INSERT shared its commit with others.
    pub(crate) shared: bool,
    pub(crate) rejected: u64,
    /// The reasons for the first rejected rows.
    pub(crate) reasons: Vec<String>,
}

impl BodyTable {
    /// Makes the table of a body. `zone` is the time zone of the session, and `max_filter_ratio` the share of rows that
    /// may be rejected. With one thread, rows come in the order of the body.
    pub(super) fn new(
        engine: &Engine,
        zone: String,
        max_filter_ratio: f64,
        threads: usize,
        body: Arc<BodySource>,
    ) -> Self {
        BodyTable {
            max_filter_ratio,
            zone,
            threads,
            cpu: engine.cpu().clone(),
            memory: engine.loads.text_memory(),
            body: Mutex::new(Some(body)),
            rows: Mutex::default(),
            inserted: Mutex::default(),
        }
    }

    /// Returns the rows of the body, once reading has begun.
    pub(super) fn rows(&self) -> Option<BodyRows> {
        self.rows.lock().clone()
    }

    /// Takes the report of the INSERT.
    pub(super) fn inserted(&self) -> Option<Inserted> {
        self.inserted.lock().take()
    }

    /// Returns the body as a table. `options` are those of the table function.
    ///
    /// # Errors
    /// `Invalid` if options are unknown, cannot be met, or the body has been read already; `Unsupported` for other
    /// formats; otherwise the error of reading the first line.
    pub(crate) async fn provider(self: &Arc<Self>, options: &Properties) -> Result<Arc<dyn TableProvider>> {
        // The format is checked first: other formats have options of their own, which would be reported as unknown.
        let format = options.iter().find(|(key, value)| key.eq_ignore_ascii_case("format") && !value.is_empty());
        if let Some((_, format)) = format
            && !FORMATS.iter().any(|f| f.eq_ignore_ascii_case(format))
        {
            let expected = FORMATS.join(", ");
            let cure = unread_format(format).unwrap_or("load it by PUT /api/DB/TABLE/_stream_load");
            return Err(EngineError::unsupported(format!(
                "{FUNCTION}(...) reads {expected}, not \"format\" = \"{format}\"; {cure}"
            )));
        }
        if let Some((key, _)) = options.iter().find(|(key, _)| !OPTIONS.iter().any(|o| o.eq_ignore_ascii_case(key))) {
            let expected = OPTIONS.join(", ");
            return Err(EngineError::invalid(format!("{FUNCTION}(...): '{key}' is unknown; expected {expected}")));
        }
        // `txt` is another name of `csv`.
        let value = |value: &str| if value.eq_ignore_ascii_case("txt") { "csv".to_string() } else { value.to_string() };
        let given: Vec<(&str, String)> = options.iter().map(|(key, text)| (key.as_str(), value(text))).collect();
        let given = given.iter().map(|(key, value)| (*key, value.as_bytes()));
        let request = StreamLoadRequest::from_headers(given).map_err(|e| EngineError::of(ErrorKind::Invalid, e))?;
        let columns = options.iter().find(|(key, _)| key.eq_ignore_ascii_case("csv_schema"));
        let columns = columns.map(|(_, text)| schema_option(text)).transpose()?;
        let body = self.body.lock().take();
        let body = body.ok_or_else(read_once)?;
        let (schema, times, rows) = match request.format {
            Format::Csv { head_lines } => self.text(request, head_lines, columns, body).await?,
            _ => self.json(request, columns, body).await?,
        };
        *self.rows.lock() = Some(rows.clone());
        let open = Arc::new(AtomicUsize::new(self.threads));
        let streams = (0..self.threads).map(|_| {
            let part = Part {
                schema: Arc::clone(&schema),
                times,
                rows: rows.clone(),
                open: Arc::clone(&open),
                begun: AtomicBool::new(false),
                max_filter_ratio: self.max_filter_ratio,
            };
            Arc::new(part) as Arc<dyn PartitionStream>
        });
        Ok(Arc::new(StreamingTable::try_new(Arc::clone(&schema), streams.collect())?))
    }

    /// Reads a body of delimited text. Returns its columns and its rows; dates and times are read as text if the
    /// session has a time zone.
    async fn text(
        &self,
        request: StreamLoadRequest,
        head_lines: u8,
        columns: Option<Vec<FieldRef>>,
        body: Arc<BodySource>,
    ) -> Result<(SchemaRef, Option<Times>, BodyRows)> {
        let head = {
            let request = request.clone();
            let begun = self.cpu.spawn_blocking(move || Head::read(&request, body)).await;
            begun.map_err(|e| EngineError::of(ErrorKind::Internal, e))??
        };
        let schema: SchemaRef = match columns {
            Some(columns) => Arc::new(Schema::new(columns)),
            None => texts(&head.columns(&request, head_lines)?.ok_or_else(|| no_columns(&head))?),
        };
        let times = times(&self.zone, &request);
        let read = Times::read_schema(times, &schema);
        let rows = BodyRows::text(head, &request, head_lines, read, Arc::clone(&self.memory))?;
        Ok((schema, times, rows))
    }

    /// Reads a body of JSON. Returns its columns and its rows.
    async fn json(
        &self,
        mut request: StreamLoadRequest,
        columns: Option<Vec<FieldRef>>,
        body: Arc<BodySource>,
    ) -> Result<(SchemaRef, Option<Times>, BodyRows)> {
        if columns.is_some() {
            return Err(EngineError::invalid(format!(
                "{FUNCTION}(...): 'csv_schema' is for text; the columns of JSON are the members of its first row, as strings"
            )));
        }
        request.max_filter_ratio = self.max_filter_ratio;
        let memory = Arc::clone(&self.memory);
        let begun = self.cpu.spawn_blocking(move || BodyRows::json(&request, body, memory)).await;
        let begun = begun.map_err(|e| EngineError::of(ErrorKind::Internal, e))??;
        let (schema, rows) = begun.ok_or_else(|| {
            EngineError::invalid(format!(
                "the body does not begin with a row of members, so that nobody knows its columns; name them: {FUNCTION}(\"format\" = \"json\", \"jsonpaths\" = \"[...]\")"
            ))
        })?;
        Ok((schema, None, rows))
    }

    /// Stores the report of the INSERT.
    pub(crate) fn note(&self, inserted: Inserted) {
        *self.inserted.lock() = Some(inserted);
    }
}

/// Makes the error for a body without a first line.
fn no_columns(head: &Head) -> EngineError {
    let what = if head.is_empty() { "is empty" } else { "has no line behind those that are skipped" };
    EngineError::invalid(format!(
        "the body {what}, so that nobody knows its columns; send rows, or name the columns: {FUNCTION}(\"csv_schema\" = \"a:int;b:string\", ...)"
    ))
}

/// The share of the body that one thread reads.
#[derive(Debug)]
struct Part {
    schema: SchemaRef,
    /// Converts the text of dates and times, if these are read as text.
    times: Option<Times>,
    rows: BodyRows,
    /// Number of threads that have not come to the end.
    open: Arc<AtomicUsize>,
    /// Whether this share has been started.
    begun: AtomicBool,
    max_filter_ratio: f64,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), BATCHES_WAITING);
        let to = stream.tx();
        let (rows, open, ratio) = (self.rows.clone(), Arc::clone(&self.open), self.max_filter_ratio);
        let (schema, times) = (Arc::clone(&self.schema), self.times);
        // A plan may mention a table more often than its statement does. Each mention would then get only a part of the
        // rows.
        let again = self.begun.swap(true, Ordering::Relaxed);
        stream.spawn_blocking(move || {
            if again {
                return Err(read_once().into_datafusion());
            }
            let read = rows.read(|batch| {
                let batch = match times {
                    Some(times) => times.read_batch(&batch, &schema)?,
                    None => batch,
                };
                Ok(to.blocking_send(Ok(batch)).is_ok())
            });
            // If the query needs no more rows, the number of rejected rows is not checked.
            if !read.map_err(EngineError::into_datafusion)? || open.fetch_sub(1, Ordering::AcqRel) > 1 {
                return Ok(());
            }
            rows.check(ratio).map_err(EngineError::into_datafusion)
        });
        stream.build()
    }
}

fn read_once() -> EngineError {
    EngineError::invalid(format!(
        "a body is read once: use {FUNCTION}(...), and what is made of it in WITH, once, or load it into a table before"
    ))
}
