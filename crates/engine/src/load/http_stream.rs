//! `PUT /api/_http_stream`: an INSERT whose query reads the body of the request by `FROM http_stream(...)`.
//!
//! The body is a table that is read once, by all threads, as it comes: a query that keeps nothing holds a few blocks of it.
//! Its columns are strings named `c1`, `c2`, ... or by the header line (`csv_with_names`), or what `csv_schema` says.
//!
//! Headers of Stream Load act as they do there, by what INSERT has for it: `label` is WITH LABEL, `partial_columns` the
//! variable of that name. What the statement itself says is refused as a header: see [`misplaced`].

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
use dipper_store::labels::LabelStatus;
use dipper_store::table::schema::Model;
use dipper_text::{
    BadValue, Compression, Dialect, FileInput, InvalidUtf8, Memory, Scan, ScanOptions, ScanQueue, Source, Worker,
};
use futures::future::BoxFuture;
use parking_lot::Mutex;

use super::answer::{LoadAnswer, LoadStatus, RejectedRow};
use super::records::{LoadHeader, LoadKind};
use super::request::{Format, GroupCommit, MergeType, NewKeys, StreamLoadRequest, UpdateMode};
use super::source::{PIECE_BYTES, ROW_BYTES_MAX, dialect, from_text, too_bad};
use super::times::Times;
use super::{errors, job};
use crate::access;
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
    "trim_space",
    "skip_lines",
    "empty_field_as_null",
    "compress_type",
    "csv_schema",
];

/// Formats that are read.
const FORMATS: &[&str] = &["csv", "csv_with_names", "csv_with_names_and_types", "txt"];

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
        // First: other formats have options of their own, and are not found by the names of those.
        let format = options.iter().find(|(key, value)| key.eq_ignore_ascii_case("format") && !value.is_empty());
        if let Some((_, format)) = format
            && !FORMATS.iter().any(|f| f.eq_ignore_ascii_case(format))
        {
            let expected = FORMATS.join(", ");
            return Err(EngineError::unsupported(format!(
                "{FUNCTION}(...) reads {expected}, not \"format\" = \"{format}\"; other formats are loaded by PUT /api/DB/TABLE/_stream_load"
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
        let request = StreamLoadRequest::from_headers(given).map_err(|e| EngineError::invalid(e.to_string()))?;
        let Format::Csv { head_lines } = request.format else { unreachable!("the format is one of FORMATS") };
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
        let queue = ScanQueue::new(scan, vec![file]);
        *self.queue.lock() = Some(Arc::clone(&queue));
        let open = Arc::new(AtomicUsize::new(self.threads));
        let streams = (0..self.threads).map(|_| {
            let part = Part {
                schema: Arc::clone(&schema),
                times,
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
        let (schema, times) = (Arc::clone(&self.schema), self.times);
        // A plan may mention a table more often than its statement does: each would get a part of the rows.
        let again = self.begun.swap(true, Ordering::Relaxed);
        stream.spawn_blocking(move || {
            if again {
                return Err(read_once().into_datafusion());
            }
            let mut worker: Worker = queue.worker();
            while let Some(batch) = worker.next_batch().map_err(|e| EngineError::from(e).into_datafusion())? {
                let batch = match times {
                    Some(times) => times.read_batch(&batch.rows, &schema).map_err(EngineError::into_datafusion)?,
                    None => batch.rows,
                };
                if rows.blocking_send(Ok(batch)).is_err() {
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
    let found = statement(&session, sql, request);
    let label = match &found {
        Ok((_, Insert { label: Some(label), .. })) => label.clone(),
        _ => request.label.clone().unwrap_or_else(|| job::new_label(request.grouped())),
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
        database: database.clone(),
        table: table.clone(),
        label,
        comment: request.comment.clone(),
    });
    let prepared = match prepare(&mut session, request) {
        Ok(()) => check_partial(&session, request, &parsed, &database, &table).await,
        Err(e) => Err(e),
    };
    let read = Arc::new(BodyTable {
        max_filter_ratio: request.max_filter_ratio,
        zone: session.variables.time_zone(),
        threads: engine.threads,
        cpu: engine.cpu().clone(),
        memory: engine.text_memory(),
        body: Mutex::new(Some(Arc::clone(&body))),
        queue: Mutex::default(),
        inserted: Mutex::default(),
    });
    session.body = Some(Arc::clone(&read));
    answer.times.plan = begun.elapsed();
    if request.two_phase_commit {
        session.begin_labelled(&answer.label);
        answer.two_phase_commit = true;
    }
    let outcome = match prepared {
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
    // Behind a query nobody knows the lines that its rows come from.
    let unplaced = |reason| RejectedRow { line: 0, column: None, reason, row: String::new() };
    if let Some(inserted) = read.inserted.lock().take() {
        answer.txn = Some(inserted.txn);
        answer.group_commit = request.grouped() && inserted.shared;
        answer.filtered_rows += inserted.rejected;
        rejected.extend(inserted.reasons.into_iter().map(unplaced));
    }
    let outcome = match (outcome, session.take_written()) {
        (Ok(done), Some(written)) => written.prepare().await.map(|_| done),
        (outcome, _) => outcome,
    };
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
        Err(e) => match holder(engine, &database, insert.label.as_deref(), &e).await {
            Some((txn, status)) => {
                // Nothing but times, as of a Stream Load.
                let nothing = LoadAnswer { times: answer.times, ..LoadAnswer::new(answer.label, answer.comment) };
                answer = job::exists(nothing, txn, status);
            }
            None => {
                let message = match Misfits::of(&e) {
                    Some(misfits) => {
                        answer.filtered_rows += misfits.rows;
                        let message = misfits.message(request);
                        rejected.push(unplaced(misfits.reason));
                        message
                    }
                    None => e.message,
                };
                answer = answer.failed(message);
            }
        },
    }
    errors::keep_rejected(&engine.loads.store, &rejected, &mut answer).await;
    answer.times.total = running.elapsed();
    running.end(&answer);
    answer
}

/// The INSERT that reads the body, with the label that the headers name.
fn statement(session: &Session, sql: &str, request: &StreamLoadRequest) -> Result<(Parsed, Insert)> {
    let mut parsed =
        session.parse(sql).map_err(|e| EngineError { message: format!("Nereids parse failed. {e}"), ..e })?;
    let (Some(mut parsed), true) = (parsed.pop(), parsed.is_empty()) else { return Err(expected(sql)) };
    let Statement::Insert(insert) = &parsed.statement else { return Err(expected(sql)) };
    let mut insert = insert.clone();
    let options_of = |reference: TableRef| match reference {
        TableRef::Function { name, properties, .. } if name == FUNCTION => Some(properties),
        _ => None,
    };
    let functions: Vec<Properties> = table_refs(&insert.source).into_iter().filter_map(options_of).collect();
    let [options] = functions.as_slice() else { return Err(expected(sql)) };
    let given = options.iter().map(|(key, value)| (key.as_str(), value.as_bytes()));
    // What is wrong with the options is told where they are used.
    let function = StreamLoadRequest::from_headers(given).unwrap_or_default();
    if let Some((header, instead)) = misplaced(request, &function) {
        return Err(EngineError::unsupported(format!(
            "header '{header}' has no effect on an INSERT that reads {FUNCTION}(...): {instead}"
        )));
    }
    match (&request.label, &insert.label) {
        // As in Doris the header wins.
        (Some(header), _) => insert.label = Some(header.clone()),
        (None, Some(_)) if matches!(request.group_commit, GroupCommit::Sync | GroupCommit::Async) => {
            return Err(EngineError::invalid("label and group_commit can't be set at the same time"));
        }
        (None, _) => {}
    }
    let mut run = insert.clone();
    if request.two_phase_commit {
        // It is its transaction's.
        run.label = None;
    }
    parsed.statement = Statement::Insert(run);
    Ok((parsed, insert))
}

/// A header that would change what a Stream Load does and that an INSERT does not heed, and what to do instead. Where it
/// says the same as the options of the function there is nothing to refuse.
///
/// Of the others `label`, `comment`, `max_filter_ratio`, `timeout`, `strict_mode`, `timezone`, `group_commit` and those of
/// partial updates act; how JSON is written does not matter to a body of text; `exec_mem_limit` changes no row, and an
/// INSERT has the memory of queries.
fn misplaced(request: &StreamLoadRequest, function: &StreamLoadRequest) -> Option<(&'static str, &'static str)> {
    const OPTION: &str = "it is said by the option of that name, as in http_stream(\"format\" = \"csv\", ...)";
    const SIGN: &str =
        "name __DORIS_DELETE_SIGN__ in the INSERT's list of columns, 1 in rows that delete and 0 in others";
    /// Given, and not what the function says.
    fn other<T: PartialEq>(header: &T, none: &T, function: &T) -> bool {
        header != none && header != function
    }
    let none = StreamLoadRequest::default();
    let (csv, own, no) = (&request.csv, &function.csv, &none.csv);
    [
        (
            "unique_key_update_mode",
            request.update_mode == UpdateMode::FlexibleColumns,
            "all rows of an INSERT have the same columns; UPDATE_FIXED_COLUMNS keeps those that it does not name",
        ),
        ("columns", !request.columns.is_empty(), "the SELECT of the statement names columns and expressions"),
        ("where", request.where_.is_some(), "write WHERE in the statement"),
        ("merge_type", request.merge_type != MergeType::Append, SIGN),
        (
            "function_column.sequence_col",
            request.sequence_col.is_some(),
            "name __DORIS_SEQUENCE_COL__ in the INSERT's list of columns",
        ),
        (
            "hidden_columns",
            !request.hidden_columns.is_empty(),
            "name the hidden columns in the INSERT's list of columns",
        ),
        ("negative", request.negative, "write the minus in the SELECT of the statement"),
        (
            "temporary_partitions",
            request.temporary_partitions,
            "write INSERT INTO db.table TEMPORARY PARTITION (p1, p2)",
        ),
        ("partitions", !request.partitions.is_empty(), "write INSERT INTO db.table PARTITION (p1, p2)"),
        ("format", other(&request.format, &none.format, &function.format), OPTION),
        ("compress_type", other(&request.compression, &none.compression, &function.compression), OPTION),
        ("column_separator", other(&csv.column_separator, &no.column_separator, &own.column_separator), OPTION),
        ("line_delimiter", other(&csv.line_delimiter, &no.line_delimiter, &own.line_delimiter), OPTION),
        ("enclose", other(&csv.enclose, &no.enclose, &own.enclose), OPTION),
        ("escape", other(&csv.escape, &no.escape, &own.escape), OPTION),
        ("trim_double_quotes", other(&csv.trim_double_quotes, &no.trim_double_quotes, &own.trim_double_quotes), OPTION),
        ("trim_space", other(&csv.trim_space, &no.trim_space, &own.trim_space), OPTION),
        ("skip_lines", other(&csv.skip_lines, &no.skip_lines, &own.skip_lines), OPTION),
        (
            "empty_field_as_null",
            other(&csv.empty_field_as_null, &no.empty_field_as_null, &own.empty_field_as_null),
            OPTION,
        ),
    ]
    .into_iter()
    .find(|(_, is_misplaced, _)| *is_misplaced)
    .map(|(header, _, instead)| (header, instead))
}

/// A partial update needs a table that has keys to find rows by. An INSERT into another one would add whole rows.
async fn check_partial(
    session: &Session,
    request: &StreamLoadRequest,
    parsed: &Parsed,
    database: &str,
    table: &str,
) -> Result<()> {
    if request.update_mode == UpdateMode::Upsert {
        return Ok(());
    }
    // Who may not insert is not told what the table is.
    access::guard(session, &parsed.statement).await?;
    let engine = session.engine();
    let found = engine.catalog.snapshot().table(database, table).filter(|t| t.is_native()).map(|t| t.id);
    // One that is not there, or is not known here yet, is the INSERT's matter.
    let Some(id) = found else { return Ok(()) };
    match engine.native.newest(id).await?.schema().model {
        Model::Unique => Ok(()),
        _ => Err(EngineError::invalid("Only unique key merge on write support partial update")),
    }
}

/// The load that has the label, where that is why the INSERT failed.
async fn holder(
    engine: &Arc<Engine>,
    database: &str,
    label: Option<&str>,
    error: &EngineError,
) -> Option<(TxnId, LabelStatus)> {
    // An INSERT says it in words only. It takes its label before it plans, and so before it reads the body.
    let label = label.filter(|l| error.message.starts_with(&format!("Label [{l}] has already been used")))?;
    let id = engine.catalog.snapshot().database(database)?.id;
    let labels = engine.loads.labels(engine.io()).await.ok()?;
    let (attempt, status) = labels.lookup(id, label).await.ok()??;
    (status != LabelStatus::Aborted).then_some((attempt.txn, status))
}

/// Rows that did not fit, of an INSERT that failed for them.
struct Misfits {
    /// How many were met until then.
    rows: u64,
    /// Why, for the first.
    reason: String,
    /// What the INSERT says.
    said: String,
}

impl Misfits {
    /// What the words of an INSERT tell; it has no others. `None`: it failed for something else, or for lines that are no
    /// rows, which the queue knows.
    fn of(error: &EngineError) -> Option<Self> {
        if error.kind != ErrorKind::BadValue || error.message == too_bad().message {
            return None;
        }
        // Its variables are headers here.
        let message = error.message.replace("SET enable_insert_strict = false", "send strict_mode: false");
        let counted = || {
            let said = message.strip_prefix("Insert has filtered data: ")?;
            let rows = said.split_once(" of ")?.0.parse().ok()?;
            let reason = said.split_once("; first: ")?.1;
            Some(Misfits { rows, reason: reason.to_string(), said: said.to_string() })
        };
        let counted = counted();
        // A strict INSERT ends with the first.
        Some(counted.unwrap_or_else(|| Misfits { rows: 1, reason: message.clone(), said: message }))
    }

    /// The message of the load.
    fn message(&self, request: &StreamLoadRequest) -> String {
        let most = match request.strict_mode {
            true if request.max_filter_ratio > 0.0 => {
                "; max_filter_ratio has no effect on values with strict_mode: true, where an INSERT ends with the first that does not fit"
                    .to_string()
            }
            true => String::new(),
            false => format!("; max_filter_ratio is {}", request.max_filter_ratio),
        };
        format!("[DATA_QUALITY_ERROR]too many filtered rows: {}{most}", self.said)
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
    if request.update_mode == UpdateMode::FixedColumns {
        variables.set("enable_unique_key_partial_update", "true")?;
        let new_keys = if request.new_keys == NewKeys::Error { "ERROR" } else { "APPEND" };
        variables.set("partial_update_new_key_behavior", new_keys)?;
    }
    Ok(())
}
