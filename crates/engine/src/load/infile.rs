//! `LOAD DATA [LOCAL] INFILE`: the clauses become a request, and the file becomes the body of a load.
//!
//! Clauses have MySQL's meaning even where Stream Load differs: escapes use letters (`\n`, `\t`...), and besides `\N`
//! the bare word NULL is NULL if fields can be enclosed. A clause that a load cannot follow is an error.

use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use dipper_base::client::{Level, Warning};
use dipper_dialect::statement::{LoadColumn, LoadData, OnDuplicate, Parsed};
use dipper_ingest::answer::{LoadAnswer, LoadStatus};
use dipper_ingest::filters::{Filters, Letters, Recode, Starts};
use dipper_ingest::job::{self, LoadJob, LoadSpec};
use dipper_ingest::records::LoadKind;
use dipper_ingest::request::{ColumnItem, CsvLayout, StreamLoadRequest, bytes_of};
use dipper_store::table::schema::{Model, TableSchema};
use dipper_text::hive::charset::Charset;
use futures::{Stream, StreamExt};
use rustix::fs::OFlags;
use sqlparser::ast::{Expr, Ident, Value, visit_expressions_mut};

use super::body::{BodySender, body};
use crate::access::Hourly;
use crate::error::{EngineError, ErrorKind, Result};
use crate::files::{FileAccess, cannot, check_regular};
use crate::result::{Done, Outcome};
use crate::session::Session;
use crate::statements::{check_transaction, qualified};

/// PROPERTIES that a load of text supports.
const PROPERTIES: &[&str] = &[
    "strict_mode",
    "max_filter_ratio",
    "timeout",
    "timezone",
    "exec_mem_limit",
    "trim_double_quotes",
    "trim_space",
    "enclose",
    "escape",
    "empty_field_as_null",
];

/// `Row was truncated`: the code of rejected rows in SHOW WARNINGS.
const ROW_REJECTED: u16 = 1262;

/// MySQL's names of character sets, with the names that the text reader knows. MySQL's latin1 is windows-1252, as on
/// the web.
const CHARSETS: &[(&str, &str)] = &[
    ("latin1", "windows-1252"),
    ("latin2", "iso-8859-2"),
    ("latin5", "iso-8859-9"),
    ("latin7", "iso-8859-13"),
    ("gbk", "gbk"),
    ("gb2312", "gbk"),
    ("gb18030", "gb18030"),
    ("big5", "big5"),
    ("sjis", "shift_jis"),
    ("cp932", "shift_jis"),
    ("ujis", "euc-jp"),
    ("eucjpms", "euc-jp"),
    ("euckr", "euc-kr"),
    ("cp1250", "windows-1250"),
    ("cp1251", "windows-1251"),
    ("cp1256", "windows-1256"),
    ("cp1257", "windows-1257"),
    ("cp866", "ibm866"),
    ("koi8r", "koi8-r"),
    ("koi8u", "koi8-u"),
    ("greek", "iso-8859-7"),
    ("hebrew", "iso-8859-8"),
    ("tis620", "windows-874"),
    ("macroman", "macintosh"),
];

/// Number of bytes that are read from a file at once.
const CHUNK_BYTES: usize = 256 * 1024;

/// A LOAD DATA statement that waits for the bytes of its file.
pub struct Infile {
    job: LoadJob,
    filters: Filters,
}

impl Session {
    /// Checks everything about LOAD DATA LOCAL that can be checked without the file. `source` is the text that `parsed`
    /// came from.
    ///
    /// # Errors
    /// The error of the statement; the file is then not needed.
    pub async fn begin_infile(&mut self, source: &str, parsed: &Parsed, load: &LoadData) -> Result<Infile> {
        self.warnings.clear();
        self.process().begin(source.get(parsed.text.clone()).unwrap_or(source));
        let allowed = self.spend(Hourly::Queries).and_then(|()| self.check_writes());
        let allowed = allowed.and_then(|()| check_transaction(self, &parsed.statement));
        let begun = match allowed.and_then(|()| self.spend(Hourly::Updates)) {
            Ok(()) => begin(self, load).await,
            Err(e) => Err(e),
        };
        self.ended(begun.is_err(), begun)
    }

    /// Loads the file: all of its rows, or none.
    ///
    /// # Errors
    /// The error of the load; `Killed` if the session is killed; the error of a chunk that is one.
    ///
    /// # Cancellation
    /// Dropping the future loads nothing.
    pub async fn run_infile(
        &mut self,
        infile: Infile,
        chunks: impl Stream<Item = io::Result<Bytes>> + Send,
    ) -> Result<Done> {
        let process = Arc::clone(self.process());
        let done = tokio::select! {
            biased;
            done = take(self, infile, chunks) => done,
            _ = process.stopped() => Err(EngineError::new(ErrorKind::Killed, "query execution was interrupted: KILL")),
        };
        self.ended(true, done)
    }

    fn ended<T>(&mut self, ended: bool, result: Result<T>) -> Result<T> {
        if ended {
            self.process().end();
        }
        if let Err(e) = &result {
            self.warnings.push(Warning { level: Level::Error, code: e.code, message: e.message.clone() });
        }
        result
    }
}

/// Runs LOAD DATA with a file that this process reads: without LOCAL, and with LOCAL if client and server are the same
/// process.
pub(crate) async fn load_file(session: &mut Session, load: &LoadData) -> Result<Outcome> {
    let access = &session.engine.options.access;
    if load.local && !matches!(access, FileAccess::Any) {
        return Err(EngineError::unsupported(
            "LOAD DATA LOCAL: the file comes from the client, over the MySQL protocol, as a statement that is not prepared",
        ));
    }
    let path = PathBuf::from(&load.path);
    access.check(&path)?;
    let mut file = tokio::task::spawn_blocking(move || opened(&path))
        .await
        .map_err(|e| EngineError::of(ErrorKind::Internal, e))??;
    let infile = begin(session, load).await?;
    let (sender, chunks) = tokio::sync::mpsc::channel(4);
    tokio::task::spawn_blocking(move || {
        loop {
            let mut chunk = Vec::with_capacity(CHUNK_BYTES);
            let read = io::Read::read_to_end(&mut io::Read::take(&mut file, CHUNK_BYTES as u64), &mut chunk);
            let (next, last) = match read {
                Ok(0) => return,
                Ok(_) => (Ok(Bytes::from(chunk)), false),
                Err(e) => (Err(e), true),
            };
            if sender.blocking_send(next).is_err() || last {
                return;
            }
        }
    });
    let chunks = futures::stream::unfold(chunks, |mut chunks| async move { Some((chunks.recv().await?, chunks)) });
    take(session, infile, chunks).await.map(Outcome::Done)
}

/// Opens a regular file for reading. NONBLOCK prevents a named pipe from blocking the open for ever; it has no effect
/// on files.
fn opened(path: &Path) -> Result<File> {
    let open = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path);
    let file = open.map_err(|e| cannot(path, "read", &e))?;
    check_regular(path, &file.metadata().map_err(|e| cannot(path, "read", &e))?)?;
    Ok(file)
}

async fn begin(session: &mut Session, load: &LoadData) -> Result<Infile> {
    let (database, mut table) = qualified(session, &load.table)?;
    if let Some(hidden) = session.temporaries.hidden(&database, &table) {
        table = hidden.to_string();
    }
    let engine = Arc::clone(session.engine());
    let mut client = session.client.clone();
    // The load has an entry of its own in the list of processes.
    client.connection_id = engine.next_connection_id();
    let kind = if load.local { LoadKind::LocalInfile } else { LoadKind::File };
    let mut spec = LoadSpec { kind, client, database, table, request: StreamLoadRequest::default() };
    let (_, found) = job::table(&*engine.catalog.refresh().await?, &spec)?;
    let state = engine.native.newest(found.id).await?;
    spec.request = request(load, state.schema(), !session.variables().parse_options().no_backslash_escapes)?;
    if spec.request.timezone.is_none() {
        spec.request.timezone = session.variables.get("time_zone");
    }
    let csv = &spec.request.csv;
    let enclose = csv.enclose;
    let escape = csv.escape.filter(|e| Some(*e) != enclose);
    let filters = Filters {
        charset: charset(load)?.map(Recode::new),
        starts: Starts::new(&load.fields.lines_starting_by, load.skip_lines, csv, enclose),
        letters: escape.map(|escape| Letters::new(escape, enclose)),
    };
    let job = engine.begin_load(spec).await.map_err(|answer| answer.into_error())?;
    Ok(Infile { job, filters })
}

async fn take(
    session: &mut Session,
    infile: Infile,
    chunks: impl Stream<Item = io::Result<Bytes>> + Send,
) -> Result<Done> {
    let (sender, source) = body();
    let mut run = std::pin::pin!(infile.job.run(source));
    let answer = tokio::select! {
        biased;
        answer = &mut run => answer,
        () = feed(chunks, sender, infile.filters) => run.await,
    };
    for row in &answer.rejected {
        let column = row.column.as_ref().map(|c| format!(", column '{c}'")).unwrap_or_default();
        session.warn(ROW_REJECTED, format!("line {}{column}: {}; row: {}", row.line, row.reason, row.row));
    }
    // LOAD DATA has no WHERE, so the unselected rows are those whose keys exist.
    if answer.unselected_rows > 0 {
        let left_out = answer.unselected_rows;
        session.warn(1062, format!("Duplicate entry: {left_out} rows were left out, their keys are there"));
    }
    match answer.status {
        LoadStatus::Success | LoadStatus::PublishTimeout => {
            session.wrote();
            Ok(done(&answer, session.warnings.len()))
        }
        LoadStatus::Unknown | LoadStatus::LabelExists | LoadStatus::Fail => Err(answer.into_error()),
    }
}

fn done(answer: &LoadAnswer, warnings: usize) -> Done {
    let skipped = answer.filtered_rows + answer.unselected_rows;
    let info = format!("Records: {}  Deleted: 0  Skipped: {skipped}  Warnings: {warnings}", answer.total_rows);
    Done { affected_rows: answer.loaded_rows, info, ..Done::default() }
}

/// Passes chunks on until they end or the load ends, which then reports why.
async fn feed(chunks: impl Stream<Item = io::Result<Bytes>>, to: BodySender, mut filters: Filters) {
    let ends = futures::stream::once(async { None });
    let mut chunks = std::pin::pin!(chunks.map(Some).chain(ends));
    while let Some(chunk) = chunks.next().await {
        let passed = match chunk {
            Some(Ok(chunk)) => filters.pass(Some(chunk)),
            Some(Err(e)) => Err(e),
            None => filters.pass(None),
        };
        let sent = match passed {
            Ok(chunk) if chunk.is_empty() => Ok(()),
            Ok(chunk) => to.send(chunk).await,
            Err(e) => {
                let _ = to.fail(e).await;
                return;
            }
        };
        if sent.is_err() {
            return;
        }
    }
    let _ = to.end().await;
}

/// Converts the clauses to a request.
fn request(load: &LoadData, table: &TableSchema, backslashes: bool) -> Result<StreamLoadRequest> {
    if let Some((name, _)) = load.properties.iter().find(|(n, _)| !PROPERTIES.iter().any(|p| n.eq_ignore_ascii_case(p)))
    {
        let message = format!("LOAD DATA: property '{name}' is not known; expected one of {}", PROPERTIES.join(", "));
        return Err(EngineError::invalid(message));
    }
    let given = load.properties.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let mut request = StreamLoadRequest::from_headers(given).map_err(|e| EngineError::of(ErrorKind::Invalid, e))?;
    match (load.on_duplicate, table.model) {
        (Some(OnDuplicate::Replace), Model::Aggregate) if !table.has_sequences() => {
            return Err(EngineError::unsupported(
                "LOAD DATA REPLACE: rows of an AGGREGATE table are aggregated; leave it out",
            ));
        }
        (Some(OnDuplicate::Ignore), Model::Aggregate) => {
            return Err(EngineError::unsupported(
                "LOAD DATA IGNORE: a row whose key is there is added to it (AGGREGATE); leave it out, and say \
                 PROPERTIES('max_filter_ratio'='1') to pass over rows that do not fit",
            ));
        }
        // In MySQL, IGNORE also turns errors about values that do not fit into warnings.
        (Some(OnDuplicate::Ignore), model) => {
            request.keeps_rows = model == Model::Unique;
            if !load.properties.iter().any(|(n, _)| n.eq_ignore_ascii_case("max_filter_ratio")) {
                request.max_filter_ratio = 1.0;
            }
        }
        (Some(OnDuplicate::Replace) | None, _) => {}
    }
    layout(load, &mut request.csv)?;
    request.partitions.clone_from(&load.partitions);
    request.columns = columns(load, table, backslashes)?;
    Ok(request)
}

/// Returns the character set of the file; `None` if its bytes can be read as they are.
fn charset(load: &LoadData) -> Result<Option<Charset>> {
    let Some(name) = &load.charset else { return Ok(None) };
    let lower = name.to_ascii_lowercase();
    if ["utf8", "utf8mb3", "utf8mb4", "ascii", "binary", "default"].contains(&lower.as_str()) {
        return Ok(None);
    }
    let known = CHARSETS.iter().find(|(of_mysql, _)| *of_mysql == lower).and_then(|(_, name)| Charset::for_name(name));
    known.map(Some).ok_or_else(|| {
        let names: Vec<&str> = CHARSETS.iter().map(|(name, _)| *name).collect();
        EngineError::unsupported(format!(
            "LOAD DATA: CHARACTER SET {name}: convert the file to utf8mb4, or say one of {}",
            names.join(", ")
        ))
    })
}

fn layout(load: &LoadData, csv: &mut CsvLayout) -> Result<()> {
    let fields = &load.fields;
    if fields.terminated_by.is_empty() || fields.lines_terminated_by.is_empty() {
        return Err(EngineError::unsupported("LOAD DATA: TERMINATED BY ''; rows of fixed widths cannot be read"));
    }
    csv.column_separator = bytes_by_name("FIELDS TERMINATED BY", &fields.terminated_by)?;
    csv.line_delimiter = bytes_by_name("LINES TERMINATED BY", &fields.lines_terminated_by)?;
    let enclosed = one_byte("ENCLOSED BY", &fields.enclosed_by)?;
    if enclosed.is_some() && csv.enclose.is_some_and(|property| Some(property) != enclosed) {
        return Err(EngineError::invalid(
            "LOAD DATA: ENCLOSED BY and the property 'enclose' differ; write one of them",
        ));
    }
    csv.enclose = csv.enclose.or(enclosed);
    // A default of ESCAPED BY that nobody has written does not contradict a property.
    csv.escape = match csv.escape {
        Some(property) => Some(property),
        None => one_byte("ESCAPED BY", &fields.escaped_by)?,
    };
    // Lines before a prefix are skipped before the prefix is searched for.
    csv.skip_lines = if fields.lines_starting_by.is_empty() { load.skip_lines } else { 0 };
    csv.null_values = csv.escape.map(|e| vec![e, b'N']).into_iter().collect();
    // The rule is MySQL's; Doris, from which the properties are, does not have it.
    if enclosed.is_some() {
        csv.null_values.push(b"NULL".to_vec());
    }
    Ok(())
}

/// Returns the bytes of a separator; `\x01` is a byte, as in Doris's loads.
fn bytes_by_name(clause: &str, text: &str) -> Result<Vec<u8>> {
    match text.starts_with("\\x") || text.starts_with("\\X") {
        true => bytes_of(clause, text).map_err(|e| EngineError::of(ErrorKind::Invalid, e)),
        false => Ok(text.as_bytes().to_vec()),
    }
}

fn one_byte(clause: &str, text: &str) -> Result<Option<u8>> {
    match *text.as_bytes() {
        [] => Ok(None),
        [byte] => Ok(Some(byte)),
        _ => Err(EngineError::invalid(format!("LOAD DATA: {clause} '{text}'; expected one byte"))),
    }
}

/// Returns the name of a variable among the columns of the body.
fn variable(name: &str) -> String {
    format!("__variable_{name}")
}

/// Makes a literal that reads back as `text`; `None` if there is none. `backslashes`: literals use backslashes as
/// escapes.
fn literal(text: &str, backslashes: bool) -> Option<Value> {
    // Printing a tree keeps a quote after a backslash as it is, and doubles other quotes by rules of its own.
    match backslashes {
        true => Some(Value::SingleQuotedString(text.replace('\\', "\\\\").replace('\'', "\\'"))),
        false => (!text.contains('\'')).then(|| Value::SingleQuotedString(text.to_string())),
    }
}

fn columns(load: &LoadData, table: &TableSchema, backslashes: bool) -> Result<Vec<ColumnItem>> {
    let mut items: Vec<ColumnItem> = load
        .columns
        .iter()
        .map(|c| match c {
            LoadColumn::Column(name) => ColumnItem::Body(name.clone()),
            LoadColumn::Variable(name) => ColumnItem::Body(variable(name)),
        })
        .collect();
    for target in &load.columns {
        if let LoadColumn::Column(name) = target
            && !table.columns.iter().any(|c| c.name.eq_ignore_ascii_case(name))
        {
            let message = format!("LOAD DATA: the table has no column '{name}'; write @{name} to read it for SET only");
            return Err(EngineError::new(ErrorKind::NoColumn, message));
        }
    }
    if items.is_empty() && !load.set.is_empty() {
        items.extend(
            table
                .columns
                .iter()
                .filter(|c| !c.hidden && c.generated.is_none())
                .map(|c| ColumnItem::Body(c.name.clone())),
        );
    }
    let known =
        |name: &str| load.columns.iter().any(|c| matches!(c, LoadColumn::Variable(v) if v.eq_ignore_ascii_case(name)));
    for (name, expression) in &load.set {
        let mut expression = expression.clone();
        let refused = visit_expressions_mut(&mut expression, |e| {
            // The expression is printed as text and parsed again.
            if let Expr::Value(value) = e
                && let Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) = &value.value
            {
                let Some(literal) = literal(text, backslashes) else {
                    return ControlFlow::Break(EngineError::unsupported(format!(
                        "LOAD DATA: SET {name}: a text with a quote under sql_mode NO_BACKSLASH_ESCAPES; put it together with char(39)"
                    )));
                };
                value.value = literal;
            }
            if let Expr::Identifier(ident) = e
                && ident.quote_style.is_none()
                && let Some(of) = ident.value.strip_prefix('@').filter(|v| !v.starts_with('@'))
            {
                if !known(of) {
                    return ControlFlow::Break(EngineError::invalid(format!(
                        "LOAD DATA: SET {name} uses @{of}, which the list of columns does not name"
                    )));
                }
                *ident = Ident::with_quote('`', variable(of));
            }
            ControlFlow::Continue(())
        });
        if let ControlFlow::Break(e) = refused {
            return Err(e);
        }
        items.push(ColumnItem::Derived { name: name.clone(), expression: expression.to_string() });
    }
    Ok(items)
}
