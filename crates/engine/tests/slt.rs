//! Runs every file below `tests/slt/` against an engine: statements with the results that they must have.
//!
//! Each file gets an engine of its own, without a data directory. `$DIR` in a file is an empty directory made for it,
//! and `$ROOT` is the checkout. Statements are root's; one that begins with `/* as NAME */` runs in the session of
//! another user, which its first statement opens.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, FieldRef, Float32Type, Float64Type, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use arrow::record_batch::RecordBatch;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use dipper_base::address::{self, is_address};
use dipper_base::{clock, floats};
use dipper_engine::{ClientInfo, Engine, EngineError, EngineOptions, Outcome, Session};
use dipper_sql::charter::{digits_of, text};
use futures::StreamExt;
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};

struct Database {
    session: Session,
    others: HashMap<String, Session>,
    dir: Arc<tempfile::TempDir>,
    /// Names of the columns of the last result.
    columns: Vec<String>,
}

impl Database {
    fn new(engine: &Arc<Engine>, dir: &Arc<tempfile::TempDir>) -> Database {
        let session = engine.session(ClientInfo::local(engine.next_connection_id()));
        Database { session, others: HashMap::new(), dir: Arc::clone(dir), columns: Vec::new() }
    }
}

#[async_trait::async_trait]
impl AsyncDB for Database {
    type Error = EngineError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, EngineError> {
        let sql =
            sql.replace("$DIR", &self.dir.path().display().to_string()).replace("$ROOT", &root().display().to_string());
        let mut output = DBOutput::StatementComplete(0);
        let other =
            sql.strip_prefix("/* as ").and_then(|rest| rest.split_once(" */")).map(|(name, _)| name.to_string());
        let session = match other {
            None => &mut self.session,
            Some(name) => {
                let engine = Arc::clone(self.session.engine());
                self.others.entry(name.clone()).or_insert_with(|| {
                    engine.session(ClientInfo {
                        connection_id: engine.next_connection_id(),
                        user: name,
                        host: "127.0.0.1:50000".into(),
                        database: None,
                    })
                })
            }
        };
        for parsed in session.parse(&sql)? {
            output = match session.execute(&sql, &parsed, Vec::new()).await? {
                Outcome::Done(done) => DBOutput::StatementComplete(done.affected_rows),
                Outcome::Rows(mut rows) => {
                    self.columns = rows.columns.iter().map(|column| column.name.clone()).collect();
                    let types = vec![DefaultColumnType::Any; rows.columns.len()];
                    let mut lines = Vec::new();
                    while let Some(batch) = rows.batches.next().await {
                        let batch = batch?;
                        lines.extend((0..batch.num_rows()).map(|row| line(&batch, row)));
                    }
                    DBOutput::Rows { types, rows: lines }
                }
            };
        }
        Ok(output)
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "dipper"
    }
}

fn line(batch: &RecordBatch, row: usize) -> Vec<String> {
    let schema = batch.schema();
    let shown = |(column, field): (&ArrayRef, &FieldRef)| match column.data_type() {
        DataType::Time64(TimeUnit::Microsecond) if column.is_valid(row) => {
            clock::text(column.as_primitive::<Time64MicrosecondType>().value(row), digits_of(field))
        }
        _ => cell(column.as_ref(), row),
    };
    batch.columns().iter().zip(schema.fields()).map(shown).collect()
}

/// Formats a value as a client sees it; NULL as the word, the empty string as `(empty)`.
fn cell(column: &dyn Array, row: usize) -> String {
    if column.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return "NULL".into();
    }
    let shown = match column.data_type() {
        DataType::Boolean => u8::from(column.as_boolean().value(row)).to_string(),
        DataType::Float64 => floats::double(column.as_primitive::<Float64Type>().value(row)),
        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).to_string(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            text::format_datetime(column.as_primitive::<TimestampMicrosecondType>().value(row))
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            clock::text(column.as_primitive::<Time64MicrosecondType>().value(row), None)
        }
        t if is_address(t) => address::shown(column.as_fixed_size_binary().value(row)),
        // Clients see bytes as text if they are valid text.
        DataType::BinaryView => {
            let bytes = column.as_binary_view().value(row);
            match std::str::from_utf8(bytes).ok().filter(|text| !text.chars().any(char::is_control)) {
                Some(text) => text.to_string(),
                None => bytes.iter().map(|b| format!("{b:02x}")).collect(),
            }
        }
        DataType::List(_) => {
            let items = column.as_list::<i32>().value(row);
            let items: Vec<_> = (0..items.len()).map(|i| cell(items.as_ref(), i)).collect();
            format!("[{}]", items.join(", "))
        }
        _ => {
            let options = FormatOptions::new().with_null("NULL");
            ArrayFormatter::try_new(column, &options).expect("a printable type").value(row).to_string()
        }
    };
    if shown.is_empty() { "(empty)".into() } else { shown }
}

fn root() -> PathBuf {
    Path::new("../..").canonicalize().expect("the checkout")
}

fn files(dir: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        std::fs::read_dir(dir).expect("tests/slt is there").map(|e| e.expect("listed").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|e| e == "slt") {
            found.push(path);
        }
    }
}

#[test]
fn all_files() {
    let mut all = Vec::new();
    files(&root().join("tests/slt"), &mut all);
    assert!(!all.is_empty());
    // `SLT=name` runs only the files whose path contains the name.
    let wanted = std::env::var("SLT").unwrap_or_default();
    // `SLT_SETTINGS=statements` runs statements first, such as SET GLOBAL.
    let settings = std::env::var("SLT_SETTINGS").unwrap_or_default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut failed = Vec::new();
    for path in all.iter().filter(|p| p.to_string_lossy().contains(&wanted)) {
        let engine = runtime
            .block_on(Engine::open(EngineOptions { threads: Some(2), ..EngineOptions::default() }))
            .expect("an engine without a data directory");
        let dir = Arc::new(tempfile::tempdir().unwrap());
        runtime.block_on(Database::new(&engine, &dir).run(&settings)).expect("settings");
        let mut runner = Runner::new(|| {
            let database = Database::new(&engine, &dir);
            async move { Ok(database) }
        });
        if let Err(e) = runtime.block_on(runner.run_file_async(path)) {
            failed.push(format!("{}: {e}", path.display()));
        }
    }
    assert!(failed.is_empty(), "{} files failed:\n{}", failed.len(), failed.join("\n\n"));
}

/// A statement of a list below `tests/forms/`: the expected outcome, the columns that its result must have, and its
/// rows.
struct Form<'a> {
    label: &'a str,
    wanted: &'a str,
    sql: &'a str,
    columns: Vec<&'a str>,
    rows: Vec<&'a str>,
}

/// Parses the statements of a list, in order.
fn forms(text: &str) -> Vec<Form<'_>> {
    let mut all: Vec<Form<'_>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let (Some((mark @ (">" | "="), rest)), Some(form)) = (line.split_once(' '), all.last_mut()) {
            match mark {
                ">" => form.columns.extend(rest.split(", ")),
                _ => form.rows.push(rest),
            }
            continue;
        }
        let [label, wanted, sql] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        all.push(Form { label, wanted, sql, columns: Vec::new(), rows: Vec::new() });
    }
    all
}

/// Runs the statements of a list in one session. Returns those whose outcome differs; none may be a syntax error.
fn answers(list: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("tests/forms").join(list)).expect("the list of forms");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let engine = runtime
        .block_on(Engine::open(EngineOptions { threads: Some(2), ..EngineOptions::default() }))
        .expect("an engine without a data directory");
    engine.globals().publish("port", "9030");
    let mut database = Database::new(&engine, &Arc::new(tempfile::tempdir().unwrap()));
    let mut wrong = Vec::new();
    for form in forms(&text) {
        database.columns.clear();
        let mut rows = Vec::new();
        let (found, why) = match runtime.block_on(database.run(form.sql)) {
            Ok(output) => {
                if let DBOutput::Rows { rows: found, .. } = output {
                    rows = found.iter().map(|row| row.join(" | ")).collect();
                }
                ("ok".to_string(), String::new())
            }
            Err(e) if e.code == 1235 => ("refused".to_string(), e.message),
            Err(e) => (e.code.to_string(), e.message),
        };
        if found != form.wanted || found == "1064" {
            wrong.push(format!("{}: expected {}, found {found}: {}\n    {why}", form.label, form.wanted, form.sql));
            continue;
        }
        let missing: Vec<_> = form.columns.iter().filter(|name| !database.columns.iter().any(|c| c == *name)).collect();
        if !missing.is_empty() {
            wrong.push(format!("{}: no column {missing:?} in {:?}: {}", form.label, database.columns, form.sql));
        }
        if !form.rows.is_empty() && form.rows != rows {
            wrong.push(format!("{}: expected {:?}, found {rows:?}: {}", form.label, form.rows, form.sql));
        }
    }
    wrong
}

/// One example of each statement of Doris's grammar is accepted, or refused by its name; none is a syntax error.
#[test]
fn forms_of_the_grammar() {
    let wrong = answers("doris.txt");
    assert!(wrong.is_empty(), "{} forms:\n{}", wrong.len(), wrong.join("\n"));
}

/// The alternatives of the clauses of Doris's grammar are accepted, or refused by name; none is a syntax error.
#[test]
fn clauses_of_the_grammar() {
    let wrong = answers("doris-clauses.txt");
    assert!(wrong.is_empty(), "{} forms:\n{}", wrong.len(), wrong.join("\n"));
}

/// One example of each statement of StarRocks' grammar is accepted, or refused by its name; none is a syntax error.
#[test]
fn forms_of_starrocks() {
    let wrong = answers("starrocks.txt");
    assert!(wrong.is_empty(), "{} forms:\n{}", wrong.len(), wrong.join("\n"));
}

/// Statements that programs send at start and to read metadata are answered, with the columns and rows that they read.
#[test]
fn statements_of_tools() {
    let lists = ["tools.txt", "tools-more.txt", "tools-consoles.txt", "tools-monitors.txt"];
    let wrong: Vec<_> = lists.into_iter().flat_map(answers).collect();
    assert!(wrong.is_empty(), "{} statements:\n{}", wrong.len(), wrong.join("\n"));
}
