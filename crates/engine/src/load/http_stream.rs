//! `PUT /api/_http_stream`: an INSERT whose query reads the body of the request by `FROM http_stream(...)`.
//!
//! The body is a table that is read once, by all threads, as it comes: a query that keeps nothing holds a few blocks of it.
//! Its columns are strings named `c1`, `c2`, ... or by the header line (`csv_with_names`), or what `csv_schema` says.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use dipper_load::body::BodySource;
use dipper_sql::charter::session::TableRef;
use dipper_sql::charter::table_refs;
use dipper_sql::statement::{Insert, Parsed, Properties, Statement};
use dipper_store::chain::TxnId;
use dipper_text::{
    BadValue, Compression, Dialect, FileInput, InvalidUtf8, Memory, Scan, ScanOptions, ScanQueue, Source, Worker,
};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::answer::{LoadAnswer, LoadStatus, RejectedRow};
use super::records::{LoadHeader, LoadKind};
use super::request::{Format, GroupCommit, StreamLoadRequest};
use super::source::{PIECE_BYTES, ROW_BYTES_MAX, dialect, from_text, too_bad};
use super::{errors, job};
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};
use crate::result::Outcome;
use crate::session::{ClientInfo, Session};
use crate::statements::qualified;
use crate::tables::schema_option;

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
    "skip_lines",
    "empty_field_as_null",
    "compress_type",
    "csv_schema",
];

/// Bytes of the body that are looked at for its columns.
const HEAD_BYTES: usize = 1 << 20;

/// Batches of a thread that wait for the query.
const BATCHES_WAITING: usize = 2;

/// The body of a request, for the one statement that reads it.
#[derive(Debug)]
pub(crate) struct BodyTable {
    max_filter_ratio: f64,
    threads: usize,
    cpu: tokio::runtime::Handle,
    memory: Arc<dyn Memory>,
    body: Mutex<Option<Arc<BodySource>>>,
    queue: Mutex<Option<Arc<ScanQueue>>>,
    inserted: Mutex<Option<Inserted>>,
}

/// What the INSERT tells about itself beside the number of rows.
#[derive(Debug, Clone)]
pub(crate) struct Inserted {
    pub(crate) txn: TxnId,
    /// It shared its commit with others.
    pub(crate) shared: bool,
    pub(crate) rejected: u64,
    /// Why, for the first of them.
    pub(crate) reasons: Vec<String>,
}

impl BodyTable {
    /// The body as a table. `options` are those of the table function.
    ///
    /// # Errors
    /// Options that are unknown or cannot be met; the body is read already, or breaks off in its first line.
    pub(crate) async fn provider(self: &Arc<Self>, options: &Properties) -> Result<Arc<dyn TableProvider>> {
        if let Some((key, _)) = options.iter().find(|(key, _)| !OPTIONS.iter().any(|o| o.eq_ignore_ascii_case(key))) {
            let expected = OPTIONS.join(", ");
            return Err(EngineError::invalid(format!("{FUNCTION}(...): '{key}' is unknown; expected {expected}")));
        }
        let given = options.iter().map(|(key, value)| (key.as_str(), value.as_bytes()));
        let request = StreamLoadRequest::from_headers(given).map_err(|e| EngineError::invalid(e.to_string()))?;
        let Format::Csv { head_lines } = request.format else {
            return Err(EngineError::unsupported(format!(
                "{FUNCTION}(...) reads csv, csv_with_names and csv_with_names_and_types; other formats are loaded by /api/DB/TABLE/_stream_load"
            )));
        };
        let columns = options.iter().find(|(key, _)| key.eq_ignore_ascii_case("csv_schema"));
        let columns = columns.map(|(_, text)| schema_option(text)).transpose()?;
        let body = self.body.lock().take();
        let body = body.ok_or_else(read_once)?;
        let head = {
            let request = request.clone();
            let begun = self.cpu.spawn_blocking(move || Head::read(&request, body)).await;
            begun.map_err(|e| EngineError::new(ErrorKind::Internal, e.to_string()))??
        };
        let schema: SchemaRef = match columns {
            Some(columns) => Arc::new(Schema::new(columns)),
            None => {
                let names = head.columns(&request, head_lines)?;
                Arc::new(Schema::new(names.iter().map(|n| Field::new(n, DataType::Utf8View, true)).collect::<Vec<_>>()))
            }
        };
        let mut options = ScanOptions::new(Dialect::Csv(dialect(&request.csv, head_lines)), Arc::clone(&schema));
        // How many are too many is known at the end.
        options.bad_value = BadValue::RejectRecord { max: u64::MAX };
        options.invalid_utf8 = InvalidUtf8::Reject;
        options.block_bytes = PIECE_BYTES;
        options.record_bytes_max = ROW_BYTES_MAX;
        options.memory = Some(Arc::clone(&self.memory));
        let scan = Scan::try_new(options)?;
        let file = FileInput { name: "body".into(), source: Arc::new(head), compression: Compression::None };
        let queue = ScanQueue::new(scan, vec![file]);
        *self.queue.lock() = Some(Arc::clone(&queue));
        let open = Arc::new(AtomicUsize::new(self.threads));
        let streams = (0..self.threads).map(|_| {
            let part = Part {
                schema: Arc::clone(&schema),
                queue: Arc::clone(&queue),
                open: Arc::clone(&open),
                begun: AtomicBool::new(false),
                max_filter_ratio: self.max_filter_ratio,
            };
            Arc::new(part) as Arc<dyn PartitionStream>
        });
        Ok(Arc::new(StreamingTable::try_new(Arc::clone(&schema), streams.collect())?))
    }

    /// The statement has inserted its rows.
    pub(crate) fn note(&self, inserted: Inserted) {
        *self.inserted.lock() = Some(inserted);
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
            return Ok(vec!["c1".into()]);
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
    queue: Arc<ScanQueue>,
    /// Threads that have not come to the end.
    open: Arc<AtomicUsize>,
    /// It runs already.
    begun: AtomicBool,
    max_filter_ratio: f64,
}

impl PartitionStream for Part {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut stream = RecordBatchReceiverStream::builder(Arc::clone(&self.schema), BATCHES_WAITING);
        let rows = stream.tx();
        let (queue, open, ratio) = (Arc::clone(&self.queue), Arc::clone(&self.open), self.max_filter_ratio);
        // A plan may mention a table more often than its statement does: each would get a part of the rows.
        let again = self.begun.swap(true, Ordering::Relaxed);
        stream.spawn_blocking(move || {
            if again {
                return Err(read_once().into_datafusion());
            }
            let mut worker: Worker = queue.worker();
            while let Some(batch) = worker.next_batch().map_err(|e| EngineError::from(e).into_datafusion())? {
                if rows.blocking_send(Ok(batch.rows)).is_err() {
                    // The query wants no more.
                    return Ok(());
                }
            }
            if open.fetch_sub(1, Ordering::AcqRel) > 1 {
                return Ok(());
            }
            enough(&queue, ratio)
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
fn enough(queue: &ScanQueue, max_filter_ratio: f64) -> DfResult<()> {
    let metrics = queue.metrics();
    if metrics.rows_rejected as f64 <= max_filter_ratio * metrics.rows_scanned as f64 {
        return Ok(());
    }
    Err(too_bad().into_datafusion())
}

/// Runs an INSERT over a body. `request` holds what the headers say beside the statement.
///
/// # Cancellation
/// Dropped, it leaves nothing, unless it was at its commit.
pub fn http_stream<'a>(
    engine: &'a Arc<Engine>,
    client: ClientInfo,
    sql: &'a str,
    request: &'a StreamLoadRequest,
    body: BodySource,
) -> BoxFuture<'a, LoadAnswer> {
    Box::pin(run(engine, client, sql, request, body))
}

async fn run(
    engine: &Arc<Engine>,
    client: ClientInfo,
    sql: &str,
    request: &StreamLoadRequest,
    body: BodySource,
) -> LoadAnswer {
    let body = Arc::new(body);
    let mut session = engine.session(client);
    let begun = Instant::now();
    let found = statement(&session, sql);
    let label = match &found {
        Ok((_, Insert { label: Some(label), .. })) => label.clone(),
        _ => job::new_label(request.grouped()),
    };
    let mut answer = LoadAnswer::new(label.clone(), request.comment.clone());
    let (parsed, insert) = match found {
        Ok(found) => found,
        Err(e) => return answer.failed(e.message),
    };
    let (database, table) = match qualified(&session, &insert.table) {
        Ok(found) => found,
        Err(e) => return answer.failed(e.message),
    };
    let running = engine.loads.records.begin(LoadHeader {
        kind: LoadKind::Stream,
        user: session.client.user.clone(),
        client: session.client.host.clone(),
        database,
        table,
        label,
        comment: request.comment.clone(),
    });
    let read = Arc::new(BodyTable {
        max_filter_ratio: request.max_filter_ratio,
        threads: engine.threads,
        cpu: engine.cpu().clone(),
        memory: engine.text_memory(),
        body: Mutex::new(Some(Arc::clone(&body))),
        queue: Mutex::default(),
        inserted: Mutex::default(),
    });
    session.body = Some(Arc::clone(&read));
    answer.times.plan = begun.elapsed();
    let outcome = match prepare(&mut session, request) {
        Ok(()) => session.execute(sql, &parsed, Vec::new()).await,
        Err(e) => Err(e),
    };
    answer.bytes = body.bytes_read();
    answer.times.receive = std::time::Duration::from_nanos(body.waited_ns());
    let queue = read.queue.lock().clone();
    let mut rejected = Vec::new();
    if let Some(queue) = &queue {
        let metrics = queue.metrics();
        answer.total_rows = metrics.rows_scanned;
        answer.filtered_rows = metrics.rows_rejected;
        rejected.extend(queue.rejected().into_iter().map(from_text));
        // Readers that nobody reads from any more end.
        queue.cancel();
    }
    if let Some(inserted) = read.inserted.lock().take() {
        answer.txn = Some(inserted.txn);
        answer.group_commit = request.grouped() && inserted.shared;
        answer.filtered_rows += inserted.rejected;
        let row = |reason| RejectedRow { line: 0, column: None, reason, row: String::new() };
        rejected.extend(inserted.reasons.into_iter().map(row));
    }
    match outcome {
        Ok(Outcome::Done(done)) => {
            answer.loaded_rows = done.affected_rows;
            answer.unselected_rows = answer.total_rows.saturating_sub(answer.loaded_rows + answer.filtered_rows);
        }
        Ok(Outcome::Rows(_)) => answer = answer.failed("internal error: an INSERT gave rows"),
        Err(e) if e.kind == ErrorKind::Unknown => {
            answer.status = LoadStatus::Unknown;
            answer.message = e.message;
        }
        Err(e) => answer = answer.failed(e.message),
    }
    errors::keep_rejected(&engine.loads.store, &rejected, &mut answer).await;
    answer.times.total = running.elapsed();
    running.end(&answer);
    answer
}

/// The INSERT that reads the body.
fn statement(session: &Session, sql: &str) -> Result<(Parsed, Insert)> {
    let mut parsed =
        session.parse(sql).map_err(|e| EngineError { message: format!("Nereids parse failed. {e}"), ..e })?;
    let reads = |insert: &Insert| {
        let is = |r: &TableRef| matches!(r, TableRef::Function { name, .. } if name == FUNCTION);
        table_refs(&insert.source).iter().filter(|r| is(r)).count() == 1
    };
    match (parsed.pop(), parsed.is_empty()) {
        (Some(parsed), true) => match &parsed.statement {
            Statement::Insert(insert) if reads(insert) => {
                let insert = insert.clone();
                Ok((parsed, insert))
            }
            _ => Err(expected(sql)),
        },
        _ => Err(expected(sql)),
    }
}

fn expected(sql: &str) -> EngineError {
    EngineError::invalid(format!(
        "header 'sql': expected one INSERT INTO db.table SELECT ... FROM {FUNCTION}(\"format\" = \"csv\", ...), found: {sql}"
    ))
}

/// What the headers say about how to insert.
fn prepare(session: &mut Session, request: &StreamLoadRequest) -> Result<()> {
    let variables = &mut session.variables;
    if let Some(zone) = &request.timezone {
        variables.set("time_zone", zone)?;
    }
    variables.set("enable_insert_strict", if request.strict_mode { "true" } else { "false" })?;
    variables.set("insert_max_filter_ratio", &request.max_filter_ratio.to_string())?;
    variables.set("query_timeout", &request.timeout.as_secs().to_string())?;
    let mode = match request.group_commit {
        GroupCommit::Unsaid | GroupCommit::Off => "off_mode",
        GroupCommit::Sync => "sync_mode",
        GroupCommit::Async => "async_mode",
    };
    variables.set("group_commit", mode)?;
    Ok(())
}
