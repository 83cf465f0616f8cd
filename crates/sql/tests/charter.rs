//! Tests of the charter on a plain DataFusion session: tests/slt/charter/*.slt, and properties that slt cannot express
//! (headers, types, warnings).

use std::collections::HashMap;
use std::path::Path;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float32Type, Float64Type, Time64MicrosecondType, TimestampMicrosecondType};
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use dipper_dialect::error::SqlError;
use dipper_dialect::parser::{ParseOptions, parse};
use dipper_dialect::statement::{Assignment, Literal, QueryText, Scope, SetValue, Statement};
use dipper_sql::charter::session::{Context, ResolvedTable, Schemas, TableRef, VarValue, Variables};
use dipper_sql::charter::{Prepared, configure, install, prepare_query, text};
use sqllogictest::{DBOutput, DefaultColumnType};

struct Session {
    context: SessionContext,
    views: HashMap<String, Vec<String>>,
    variables: HashMap<String, VarValue>,
    options: ParseOptions,
    sql_mode: String,
}

impl Schemas for Session {
    fn resolve(&self, table: &TableRef) -> Result<Option<ResolvedTable>, SqlError> {
        let TableRef::Named { name, .. } = table else { return Ok(None) };
        Ok(self
            .views
            .get(name.object())
            .map(|columns| ResolvedTable { columns: columns.clone(), ..ResolvedTable::default() }))
    }
}

impl Variables for Session {
    fn user(&self, name: &str) -> Option<VarValue> {
        self.variables.get(name).cloned()
    }

    fn system(&self, _: Option<Scope>, name: &str) -> Option<VarValue> {
        name.eq_ignore_ascii_case("sql_mode").then(|| VarValue::String(self.sql_mode.clone()))
    }
}

#[derive(Debug)]
struct Failed(String);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}

fn failed(e: impl std::fmt::Display) -> Failed {
    Failed(e.to_string())
}

impl Session {
    fn new() -> Session {
        let builder = SessionStateBuilder::new()
            .with_config(configure(SessionConfig::new().with_target_partitions(2)))
            .with_default_features();
        let mut state = install(builder).build();
        dipper_sql::functions::register_all(&mut state).unwrap();
        let context = SessionContext::new_with_state(state);
        Session {
            context,
            views: HashMap::new(),
            variables: HashMap::new(),
            options: ParseOptions::default(),
            sql_mode: String::new(),
        }
    }

    fn prepare(&self, query: &QueryText, parameters: Option<&[VarValue]>) -> Result<Prepared, Failed> {
        prepare_query(query, &Context { schemas: self, variables: self, parameters }).map_err(failed)
    }

    async fn run_query(&self, query: &QueryText) -> Result<(Vec<String>, Vec<RecordBatch>), Failed> {
        let prepared = self.prepare(query, None)?;
        let statement = datafusion::sql::parser::Statement::Statement(Box::new(sqlparser::ast::Statement::Query(
            prepared.query.clone(),
        )));
        let plan = self.context.state().statement_to_plan(statement).await.map_err(failed)?;
        let headers = prepared.headers(plan.schema().fields().iter().map(|f| f.name().as_str()));
        let frame = self.context.execute_logical_plan(plan).await.map_err(failed)?;
        Ok((headers, frame.collect().await.map_err(failed)?))
    }

    async fn run_one(&mut self, statement: Statement) -> Result<DBOutput<DefaultColumnType>, Failed> {
        match statement {
            Statement::Query(query) => {
                let (headers, batches) = self.run_query(&query).await?;
                let types = vec![DefaultColumnType::Any; headers.len()];
                let rows = batches.iter().flat_map(rows_of).collect();
                return Ok(DBOutput::Rows { types, rows });
            }
            Statement::CreateView(view) => {
                let prepared = self.prepare(&view.query, None)?;
                let statement = datafusion::sql::parser::Statement::Statement(Box::new(
                    sqlparser::ast::Statement::Query(prepared.query.clone()),
                ));
                let plan = self.context.state().statement_to_plan(statement).await.map_err(failed)?;
                let columns = prepared.headers(plan.schema().fields().iter().map(|f| f.name().as_str()));
                let frame = self.context.execute_logical_plan(plan).await.map_err(failed)?;
                let name = view.name.object().to_string();
                let table = datafusion::common::TableReference::bare(name.clone());
                self.context.register_table(table, frame.into_view()).map_err(failed)?;
                self.views.insert(name, columns);
            }
            Statement::Set(list) => {
                for assignment in list {
                    let value = |v: SetValue| match v {
                        SetValue::Literal(Literal::Number(n)) => n.parse().map_or(VarValue::Decimal(n), VarValue::Int),
                        SetValue::Literal(Literal::String(s)) | SetValue::Word(s) => VarValue::String(s),
                        _ => VarValue::Null,
                    };
                    match assignment {
                        Assignment::User { name, value: v } => {
                            self.variables.insert(name, value(v));
                        }
                        Assignment::Variable { name, value: v, .. } if name.eq_ignore_ascii_case("sql_mode") => {
                            if let VarValue::String(mode) = value(v) {
                                self.options = ParseOptions::from_sql_mode(&mode);
                                self.sql_mode = mode;
                            }
                        }
                        other => return Err(failed(format!("{other:?}"))),
                    }
                }
            }
            other => return Err(failed(format!("not a charter statement: {other:?}"))),
        }
        Ok(DBOutput::StatementComplete(0))
    }
}

/// Values as a client sees them.
fn rows_of(batch: &RecordBatch) -> Vec<Vec<String>> {
    let options = FormatOptions::default();
    (0..batch.num_rows())
        .map(|row| {
            batch
                .columns()
                .iter()
                .zip(batch.schema().fields())
                .map(|(column, field)| {
                    if column.is_null(row) {
                        return "NULL".to_string();
                    }
                    let shown = match column.data_type() {
                        DataType::Null => "NULL".into(),
                        DataType::Boolean => u8::from(column.as_boolean().value(row)).to_string(),
                        DataType::Float64 => {
                            dipper_base::floats::double(column.as_primitive::<Float64Type>().value(row))
                        }
                        DataType::Float32 => column.as_primitive::<Float32Type>().value(row).to_string(),
                        DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None) => {
                            text::format_datetime(column.as_primitive::<TimestampMicrosecondType>().value(row))
                        }
                        DataType::Time64(arrow::datatypes::TimeUnit::Microsecond) => {
                            let time = column.as_primitive::<Time64MicrosecondType>().value(row);
                            dipper_base::clock::text(time, dipper_sql::charter::digits_of(field))
                        }
                        _ => ArrayFormatter::try_new(column, &options).unwrap().value(row).to_string(),
                    };
                    if shown.is_empty() { "(empty)".to_string() } else { shown }
                })
                .collect()
        })
        .collect()
}

#[async_trait::async_trait]
impl sqllogictest::AsyncDB for Session {
    type Error = Failed;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>, Failed> {
        let mut output = DBOutput::StatementComplete(0);
        for parsed in parse(sql, &self.options).map_err(failed)? {
            output = self.run_one(parsed.statement).await?;
        }
        Ok(output)
    }

    async fn shutdown(&mut self) {}

    fn engine_name(&self) -> &str {
        "dipper"
    }
}

/// Runs on a stack as large as those on which the engine plans.
#[test]
fn slt_files() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(run_slt_files());
    };
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(run).unwrap();
    thread.join().unwrap();
}

async fn run_slt_files() {
    let folder = Path::new("../../tests/slt/charter");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "slt"));
    files.sort();
    assert!(files.len() >= 10, "{files:?}");
    let mut errors = String::new();
    for file in files {
        let records = sqllogictest::parse_file::<DefaultColumnType>(&file).unwrap();
        let mut runner = sqllogictest::Runner::new(|| async { Ok(Session::new()) });
        // All records run, so that one report names everything that is wrong in a file.
        for record in records {
            if let Err(e) = runner.run_async(record).await {
                errors.push_str(&format!("{e}\n\n"));
            }
        }
    }
    assert!(errors.is_empty(), "{errors}");
}

async fn headers(session: &Session, sql: &str) -> Vec<String> {
    let parsed = parse(sql, &session.options).unwrap().remove(0);
    let Statement::Query(query) = parsed.statement else { panic!("{sql}") };
    session.run_query(&query).await.unwrap_or_else(|e| panic!("{sql}: {e}")).0
}

async fn with_views() -> Session {
    let mut session = Session::new();
    for sql in [
        "create view hits as select 1 as `URL`, 'x' as Title, 2 as `order by`",
        "create view other as select 1 as url, 'y' as TITLE",
    ] {
        let parsed = parse(sql, &session.options).unwrap().remove(0);
        session.run_one(parsed.statement).await.unwrap();
    }
    session
}

#[tokio::test]
async fn headers_are_the_text_as_written() {
    let s = with_views().await;
    for (sql, expected) in [
        ("select COUNT(*), max(a)+1, max( a ) from (select 1 as a) t", vec!["COUNT(*)", "max(a)+1", "max( a )"]),
        ("select a+1, a + 1 from (select 1 as a) t", vec!["a+1", "a + 1"]),
        ("select url, hits.Url, `TITLE` x from hits", vec!["url", "Url", "x"]),
        ("select * from hits", vec!["URL", "Title", "order by"]),
        ("select 1, 1, 1 from hits", vec!["1", "1", "1"]),
        ("select title, title, Title from hits", vec!["title", "title", "Title"]),
        ("select *, url, 1 as url, 'a' from hits", vec!["URL", "Title", "order by", "url", "url", "'a'"]),
        ("select 'a' as 'B', \"c\"", vec!["B", "\"c\""]),
        ("select Url from hits union all select 5", vec!["Url"]),
        ("with c as (select url + 1 from hits) select * from c", vec!["url + 1"]),
        ("select `url+1` from (select url+1 from hits) t", vec!["url+1"]),
        ("select hits.url, other.URL from hits join other on hits.url = other.url", vec!["url", "URL"]),
        ("select sum(url) over (order by title) from hits", vec!["sum(url) over (order by title)"]),
        ("select /* why */ 1 + /* not */ 1", vec!["1 + /* not */ 1"]),
        ("select 1 from dual", vec!["1"]),
    ] {
        assert_eq!(headers(&s, sql).await, expected, "{sql}");
    }
}

#[tokio::test]
async fn warnings_and_errors_of_names() {
    let s = with_views().await;
    let prepare = |sql: &str| {
        let parsed = parse(sql, &s.options).unwrap().remove(0);
        let Statement::Query(query) = parsed.statement else { panic!("{sql}") };
        s.prepare(&query, None)
    };
    let warned = prepare("select count(*) from hits where \"url\" like '%google%'").unwrap();
    assert_eq!(warned.warnings.len(), 1);
    assert!(warned.warnings[0].contains("`url`"), "{}", warned.warnings[0]);
    assert!(prepare("select count(*) from hits where \"xyz\" like '%google%'").unwrap().warnings.is_empty());
    assert_eq!(prepare("select 1 from Hits").unwrap_err().0, "table 'Hits' does not exist");
    assert_eq!(prepare("select @@nothing").unwrap_err().0, "unknown system variable 'nothing'");
}

#[tokio::test]
async fn parameters_become_literals() {
    let s = with_views().await;
    let parsed = parse("select ? + 1, ?, ? is null", &s.options).unwrap().remove(0);
    assert_eq!(parsed.placeholders, 3);
    let Statement::Query(query) = parsed.statement else { panic!() };
    let values = [VarValue::Int(-5), VarValue::String("it's".into()), VarValue::Null];
    let prepared = s.prepare(&query, Some(&values)).unwrap();
    assert!(prepared.query.to_string().starts_with("SELECT -5 + 1 AS"), "{}", prepared.query);
    assert!(s.prepare(&query, Some(&values[..1])).is_err());
}

#[tokio::test]
async fn result_types() {
    let s = Session::new();
    let view = "(select cast(1 as tinyint) t, cast(2 as smallint) s, cast(3 as int) i, cast(4 as bigint) b, \
        cast(1.5 as decimal(10,2)) d, cast(1 as double) f, cast(1 as largeint) l, cast('2024-01-01' as date) dt) v";
    for (expr, expected) in [
        ("t + t", DataType::Int16),
        ("s - t", DataType::Int32),
        ("i * i", DataType::Int64),
        ("i + 1", DataType::Int64),
        ("t + 1", DataType::Int16),
        ("b + b", DataType::Int64),
        ("i / i", DataType::Float64),
        ("i div i", DataType::Int64),
        ("t % t", DataType::Int8),
        ("d / 3", DataType::Decimal128(14, 6)),
        ("d + f", DataType::Float64),
        ("l", DataType::Decimal256(39, 0)),
        ("l + i", DataType::Decimal256(39, 0)),
        ("l div 2", DataType::Decimal256(39, 0)),
        ("l / i", DataType::Float64),
        ("l % i", DataType::Decimal256(39, 0)),
        ("array_sum(array(d))", DataType::Decimal128(38, 2)),
        ("sum(l)", DataType::Decimal256(39, 0)),
        ("sum(t)", DataType::Int64),
        ("sum(d)", DataType::Decimal128(38, 2)),
        ("avg(d)", DataType::Decimal128(38, 4)),
        ("avg(i)", DataType::Float64),
        ("sum(f)", DataType::Float64),
        ("cast('x' as datetime)", DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None)),
        ("timestamp '2024-01-01 00:00:00'", DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None)),
        ("dt + interval 1 day", DataType::Date32),
        ("dt + interval 1 hour", DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None)),
        ("1.5", DataType::Decimal128(2, 1)),
        ("1e0", DataType::Float64),
    ] {
        let sql = format!("select {expr} from {view}");
        let parsed = parse(&sql, &s.options).unwrap().remove(0);
        let Statement::Query(query) = parsed.statement else { panic!() };
        let (_, batches) = s.run_query(&query).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        assert_eq!(batches[0].schema().field(0).data_type(), &expected, "{expr}");
    }
}

/// Checks that the deepest statement which the parser admits is planned or refused, without an overflow. The engine
/// plans on its own big stacks; 16 MiB is the most that this needs.
#[test]
fn the_deepest_statements_plan() {
    let run = || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let session = Session::new();
        for sql in [
            format!("select 1{}", "+1".repeat(390)),
            format!("select a{} from (select 1 as a) t", "+a".repeat(390)),
            format!("select 1{}", "+1".repeat(5_000)),
            format!("select a{} from (select 1 as a) t", "+a".repeat(5_000)),
            format!("select a{} from (select 1.5 as a) t", "-a*a".repeat(2_500)),
            format!("select 1{}", " or 0".repeat(10_000)),
            format!("select count(*) from (select 1 as a) t where a = 0{}", " or a = 1 and a > 0".repeat(10_000)),
            format!("select {}1{}", "(".repeat(390), ")".repeat(390)),
            format!("select a{} from (select 1e0 as a) t", "+a".repeat(5_000)),
            format!("select a{} from (select 1 as a) t", "+a-a".repeat(60)),
            format!("select {}1", "not ".repeat(390)),
            format!("select {}1{}", "abs(".repeat(95), ")".repeat(95)),
        ] {
            let parsed = parse(&sql, &session.options).unwrap().remove(0);
            let Statement::Query(query) = parsed.statement else { panic!() };
            let start = std::time::Instant::now();
            let result = runtime.block_on(session.run_query(&query));
            assert!(start.elapsed().as_secs() < 30, "{}: {:?}", &sql[..40], start.elapsed());
            assert!(result.is_ok(), "{}: {}", &sql[..30], result.unwrap_err());
        }
    };
    std::thread::Builder::new().stack_size(16 << 20).spawn(run).unwrap().join().unwrap();
}
