//! The body of a request as a table, for the one statement that reads it.
//!
//! It is read once, by all threads or in order by one, as it comes: a query that keeps nothing holds a few blocks of it. Its columns are strings
//! named `c1`, `c2`, ... or by the header line (`csv_with_names`), or what `csv_schema` says. Those of JSON are the members
//! of the first row, or what `jsonpaths` ends with.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use dipper_dialect::statement::Properties;
use dipper_ingest::answer::RejectedRow;
use dipper_ingest::json::{self, JsonRows};
use dipper_ingest::outcome::Unqualified;
use dipper_ingest::request::{Format, StreamLoadRequest, unread_format};
use dipper_ingest::source::{PIECE_BYTES, ROW_BYTES_MAX, dialect, from_text};
use dipper_lake::files::schema_option;
use dipper_load::body::BodySource;
use dipper_store::chain::TxnId;
use dipper_text::json::text::Step;
use dipper_text::{
    BadValue, Compression, Dialect, FileInput, InvalidUtf8, Memory, Scan, ScanOptions, ScanQueue, Source, Worker,
};
use parking_lot::Mutex;

use super::times::Times;
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};

/// Name of the table function.
pub(crate) const FUNCTION: &str = "http_stream";

/// Options of the table function.
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

/// Formats that are read.
const FORMATS: &[&str] = &["csv", "csv_with_names", "csv_with_names_and_types", "txt", "json"];

/// Bytes of the body that are looked at for its columns.
const HEAD_BYTES: usize = 1 << 20;

/// Batches of a thread that wait for the query.
const BATCHES_WAITING: usize = 2;

/// The body of a request, for the one statement that reads it.
#[derive(Debug)]
pub(crate) struct BodyTable {
    max_filter_ratio: f64,
    /// Zone of the session, for the types of `csv_schema`.
    zone: String,
    threads: usize,
    cpu: tokio::runtime::Handle,
    memory: Arc<dyn Memory>,
    body: Mutex<Option<Arc<BodySource>>>,
    rows: Mutex<Option<BodyRows>>,
    inserted: Mutex<Option<Inserted>>,
}

/// What the INSERT tells about itself beside the number of rows.
#[derive(Debug, Clone)]
pub(crate) struct Inserted {
    pub(crate) txn: TxnId,
    /// Whether the INSERT shared its commit with others.
    pub(crate) shared: bool,
    pub(crate) rejected: u64,
    /// Why, for the first of them.
    pub(crate) reasons: Vec<String>,
}

/// The rows of a body, for all who read them.
#[derive(Clone)]
pub(super) enum BodyRows {
    Text(Arc<ScanQueue>),
    /// With the number of those that were read.
    Json(Arc<JsonRows>, Arc<AtomicU64>),
}

impl std::fmt::Debug for BodyRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, BodyRows::Text(_)) { "Text" } else { "Json" })
    }
}

impl BodyRows {
    /// Rows that were met, those of them that are no rows, and the first of these.
    pub(super) fn counts(&self) -> (u64, u64, Vec<RejectedRow>) {
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
    pub(super) fn cancel(&self) {
        match self {
            BodyRows::Text(queue) => queue.cancel(),
            BodyRows::Json(rows, _) => rows.cancel(),
        }
    }

    /// Reads rows and gives them away until there are none left, or nobody wants more (false). Blocking.
    fn read(&self, mut give: impl FnMut(RecordBatch) -> Result<bool>) -> Result<bool> {
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
}

impl BodyTable {
    /// The body of a request whose session has this zone. More of its rows than `max_filter_ratio` may be none. One thread
    /// gives them in the order of the body.
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

    /// The body's rows, once they are read.
    pub(super) fn rows(&self) -> Option<BodyRows> {
        self.rows.lock().clone()
    }

    /// What the INSERT has told.
    pub(super) fn inserted(&self) -> Option<Inserted> {
        self.inserted.lock().take()
    }

    /// The body as a table. `options` are those of the table function.
    ///
    /// # Errors
    /// Options that are unknown or cannot be met; the body is read already, or breaks off in its first line.
    pub(crate) async fn provider(self: &Arc<Self>, options: &Properties) -> Result<Arc<dyn TableProvider>> {
        // First: other formats have options of their own, and are not found by the names of those.
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
        // Another name of it.
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

    /// Delimited text: its columns, and its rows, whose dates and times are text where they have a zone.
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
            None => texts(&head.columns(&request, head_lines)?),
        };
        let times = Times::in_zone(&self.zone, &request);
        let read = Times::read_schema(times, &schema);
        let mut options = ScanOptions::new(Dialect::Csv(dialect(&request.csv, head_lines)), read);
        // How many are too many is known at the end.
        options.bad_value = BadValue::RejectRecord { max: u64::MAX };
        options.invalid_utf8 = InvalidUtf8::Reject;
        options.block_bytes = PIECE_BYTES;
        options.record_bytes_max = ROW_BYTES_MAX;
        options.memory = Some(Arc::clone(&self.memory));
        let scan = Scan::try_new(options)?;
        let file = FileInput { name: "body".into(), source: Arc::new(head), compression: Compression::None };
        Ok((schema, times, BodyRows::Text(ScanQueue::new(scan, vec![file]))))
    }

    /// Reads a body of JSON.
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
        let work = move || {
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
                    let (head, (bytes, rest)) = first_row(body, &request)?;
                    body = Box::new(io::Cursor::new(bytes).chain(rest));
                    let names = json::first_names(head.trim_ascii(), layout)?.ok_or_else(|| {
                        EngineError::invalid(format!(
                            "the body does not begin with a row of members, so that nobody knows its columns; name them: {FUNCTION}(\"format\" = \"json\", \"jsonpaths\" = \"[...]\")"
                        ))
                    })?;
                    (names, None)
                }
            };
            let schema = texts(&names);
            let rows = JsonRows::of(&request, Arc::clone(&schema), paths, body, memory)?;
            Ok::<_, EngineError>((schema, None, BodyRows::Json(Arc::new(rows), Arc::default())))
        };
        let begun = self.cpu.spawn_blocking(work).await;
        begun.map_err(|e| EngineError::of(ErrorKind::Internal, e))?
    }

    /// The statement has inserted its rows.
    pub(crate) fn note(&self, inserted: Inserted) {
        *self.inserted.lock() = Some(inserted);
    }
}

/// Columns of strings.
fn texts(names: &[String]) -> SchemaRef {
    Arc::new(Schema::new(names.iter().map(|n| Field::new(n, DataType::Utf8View, true)).collect::<Vec<_>>()))
}

/// What was read of a body, and what comes behind.
type Begun = (Vec<u8>, Box<dyn Read + Send>);

/// The text that holds the first row of a JSON body: its first line, else all of it. Blocking.
fn first_row(mut body: Box<dyn Read + Send>, request: &StreamLoadRequest) -> Result<(Vec<u8>, Begun)> {
    let failed = |e: io::Error| EngineError::new(ErrorKind::File, format!("cannot read the body: {e}"));
    let mut bytes = Vec::new();
    let by_line = request.json.read_json_by_line;
    let most = if by_line { ROW_BYTES_MAX } else { json::WHOLE_BYTES_MAX };
    loop {
        // Blank lines are none.
        let start = bytes.iter().position(|b: &u8| !b.is_ascii_whitespace()).unwrap_or(bytes.len());
        let end = bytes[start..].iter().position(|b| *b == b'\n').map(|end| start + end);
        if let Some(end) = end.filter(|_| by_line) {
            return Ok((bytes[start..end].to_vec(), (bytes, body)));
        }
        let before = bytes.len();
        (&mut body).take(PIECE_BYTES as u64).read_to_end_once(&mut bytes).map_err(failed)?;
        if bytes.len() == before {
            return Ok((bytes[start..].to_vec(), (bytes, body)));
        }
        if bytes.len() > most {
            let most = most >> 20;
            let text = format!("the first row of the body is not in its first {most} MiB; send a value a line");
            return Err(EngineError::new(ErrorKind::Resources, text));
        }
    }
}

/// A body whose first bytes were looked at.
struct Head {
    bytes: Vec<u8>,
    rest: Mutex<Box<dyn Read + Send>>,
}

impl std::fmt::Debug for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Head").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Head {
    /// Reads until the first line is there. Blocking.
    fn read(request: &StreamLoadRequest, body: Arc<BodySource>) -> Result<Head> {
        let Format::Csv { head_lines } = request.format else { unreachable!("asked for text only") };
        let mut rest = dipper_text::decoder(request.compression, body as Arc<dyn Source>);
        let mut bytes = Vec::new();
        let lines = request.csv.skip_lines as usize + usize::from(head_lines).max(1);
        while bytes.len() < HEAD_BYTES && Lines::of(&bytes, request).nth(lines - 1).is_none_or(|line| !line.1) {
            let before = bytes.len();
            let next = (&mut rest).take(64 << 10).read_to_end_once(&mut bytes);
            next.map_err(|e| EngineError::new(ErrorKind::File, format!("cannot read the body: {e}")))?;
            if bytes.len() == before {
                break;
            }
        }
        Ok(Head { bytes, rest: Mutex::new(rest) })
    }

    /// Names of the columns, of the header line or by number.
    fn columns(&self, request: &StreamLoadRequest, head_lines: u8) -> Result<Vec<String>> {
        let skipped = if head_lines > 0 { 0 } else { request.csv.skip_lines as usize };
        let Some((line, _)) = Lines::of(&self.bytes, request).nth(skipped) else {
            let what = if self.bytes.is_empty() { "is empty" } else { "has no line behind those that are skipped" };
            return Err(EngineError::invalid(format!(
                "the body {what}, so that nobody knows its columns; send rows, or name the columns: {FUNCTION}(\"csv_schema\" = \"a:int;b:string\", ...)"
            )));
        };
        let quote = request.csv.enclose.or(request.csv.trim_double_quotes.then_some(b'"'));
        let fields = fields(line, &request.csv.column_separator, quote);
        if head_lines == 0 {
            return Ok((1..=fields.len()).map(|n| format!("c{n}")).collect());
        }
        let name = |field: &[u8]| match std::str::from_utf8(field) {
            Ok(name) => Ok(name.trim_start_matches('\u{feff}').trim().to_string()),
            Err(_) => Err(EngineError::invalid("the header line of the body is not UTF-8")),
        };
        fields.into_iter().map(name).collect()
    }
}

/// One read, behind what is there.
trait ReadOnce {
    fn read_to_end_once(self, into: &mut Vec<u8>) -> io::Result<()>;
}

impl<R: Read> ReadOnce for io::Take<R> {
    fn read_to_end_once(mut self, into: &mut Vec<u8>) -> io::Result<()> {
        let (start, most) = (into.len(), self.limit() as usize);
        into.resize(start + most, 0);
        let read = self.read(&mut into[start..]);
        into.truncate(start + *read.as_ref().unwrap_or(&0));
        read.map(drop)
    }
}

impl Source for Head {
    fn len(&self) -> u64 {
        0
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        // In order, as a stream is read.
        if let Some(left) = self.bytes.get(offset as usize..).filter(|left| !left.is_empty()) {
            let n = left.len().min(buf.len());
            buf[..n].copy_from_slice(&left[..n]);
            return Ok(n);
        }
        self.rest.lock().read(buf)
    }
}

/// Lines of the head, without their ends, and whether the end is there.
struct Lines<'a> {
    left: Option<&'a [u8]>,
    delimiter: &'a [u8],
    quote: Option<u8>,
}

impl<'a> Lines<'a> {
    fn of(bytes: &'a [u8], request: &'a StreamLoadRequest) -> Self {
        let quote = request.csv.enclose.or(request.csv.trim_double_quotes.then_some(b'"'));
        Lines { left: Some(bytes).filter(|b| !b.is_empty()), delimiter: &request.csv.line_delimiter, quote }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (&'a [u8], bool);

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left?;
        let Some(end) = find(left, self.delimiter, self.quote) else {
            self.left = None;
            return Some((left, false));
        };
        self.left = Some(&left[end + self.delimiter.len()..]).filter(|left| !left.is_empty());
        let line = &left[..end];
        let line = if self.delimiter == b"\n" { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        Some((line, true))
    }
}

/// Where `what` is first, outside of quotes.
fn find(text: &[u8], what: &[u8], quote: Option<u8>) -> Option<usize> {
    let mut quoted = false;
    for at in 0..text.len() {
        if Some(text[at]) == quote {
            quoted = !quoted;
        }
        if !quoted && text[at..].starts_with(what) {
            return Some(at);
        }
    }
    None
}

/// Fields of a line, without their quotes.
fn fields<'a>(mut line: &'a [u8], separator: &[u8], quote: Option<u8>) -> Vec<&'a [u8]> {
    let bare = |field: &'a [u8]| match quote {
        Some(q) => field.strip_prefix(&[q]).and_then(|f| f.strip_suffix(&[q])).unwrap_or(field),
        None => field,
    };
    let mut fields = Vec::new();
    while let Some(end) = find(line, separator, quote) {
        fields.push(bare(&line[..end]));
        line = &line[end + separator.len()..];
    }
    fields.push(bare(line));
    fields
}

/// One thread's share of the body.
#[derive(Debug)]
struct Part {
    schema: SchemaRef,
    /// Makes values of the text of dates and times, where that is what the queue reads.
    times: Option<Times>,
    rows: BodyRows,
    /// Threads that have not come to the end.
    open: Arc<AtomicUsize>,
    /// Whether the load runs already.
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
        // A plan may mention a table more often than its statement does: each would get a part of the rows.
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
            // Where the query wants no more, nobody asks how many were wrong.
            if !read.map_err(EngineError::into_datafusion)? || open.fetch_sub(1, Ordering::AcqRel) > 1 {
                return Ok(());
            }
            enough(&rows, ratio)
        });
        stream.build()
    }
}

fn read_once() -> EngineError {
    EngineError::invalid(format!(
        "a body is read once: use {FUNCTION}(...), and what is made of it in WITH, once, or load it into a table before"
    ))
}

/// Too many lines that are no rows?
fn enough(rows: &BodyRows, max_filter_ratio: f64) -> DfResult<()> {
    let (met, rejected, _) = rows.counts();
    if rejected as f64 <= max_filter_ratio * met as f64 {
        return Ok(());
    }
    Err(EngineError::from(Unqualified).into_datafusion())
}
