//! Runs `tests/slt/functions/*.slt` in the dialect of this crate: parser, charter and functions on one session.

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement as DfStatement;
use dipper_dialect::error::SqlError;
use dipper_dialect::parser::{ParseOptions, parse};
use dipper_dialect::statement::{Scope, Statement};
use dipper_sql::charter::session::{Context, ResolvedTable, Schemas, TableRef, VarValue, Variables};
use dipper_sql::charter::{configure, install, prepare_query};
use dipper_sql::functions::args::to_text;
use dipper_sql::functions::{SessionInfo, register_all};
use sqllogictest::{AsyncDB, DBOutput, DefaultColumnType, Runner};
use sqlparser::ast::Statement as SqlStatement;

struct Session(SessionContext);

fn session() -> Session {
    let mut config = configure(SessionConfig::new().with_target_partitions(2));
    let info = SessionInfo { database: Some("shop".to_owned()), connection_id: 42, ..SessionInfo::default() };
    config.options_mut().extensions.insert(info);
    let builder = SessionStateBuilder::new().with_config(config).with_default_features();
    let mut context = SessionContext::new_with_state(install(builder).build());
    register_all(&mut context).expect("the registry takes functions");
    Session(context)
}

impl Schemas for Session {
    fn resolve(&self, table: &TableRef) -> std::result::Result<Option<ResolvedTable>, SqlError> {
        let known = matches!(table, TableRef::Named { name, .. } if name.object() == "t");
        Ok(known.then(|| ResolvedTable { columns: vec!["s".to_owned()], ..ResolvedTable::default() }))
    }
}

impl Variables for Session {
    fn user(&self, _: &str) -> Option<VarValue> {
        None
    }

    fn system(&self, _: Option<Scope>, _: &str) -> Option<VarValue> {
        None
    }
}

fn failed(e: impl std::fmt::Display) -> DataFusionError {
    DataFusionError::External(e.to_string().into())
}

/// One cell as the MySQL text protocol would show it.
fn cell(array: &ArrayRef, row: usize) -> Result<String> {
    if array.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
        return Ok("NULL".to_owned());
    }
    let shown = match array.data_type() {
        DataType::List(_) => {
            let values = array.as_list::<i32>().value(row);
            let mut out = String::from("[");
            for k in 0..values.len() {
                let separator = if k > 0 { ", " } else { "" };
                write!(out, "{separator}{}", cell(&values, k)?)?;
            }
            out + "]"
        }
        t if t.is_nested() => {
            ArrayFormatter::try_new(array, &FormatOptions::new().with_null("NULL"))?.value(row).to_string()
        }
        _ => to_text("slt", array)?.value(row).to_owned(),
    };
    Ok(if shown.is_empty() { "(empty)".to_owned() } else { shown })
}

#[async_trait::async_trait]
impl AsyncDB for Session {
    type Error = DataFusionError;
    type ColumnType = DefaultColumnType;

    async fn run(&mut self, sql: &str) -> Result<DBOutput<DefaultColumnType>> {
        let mut parsed = parse(sql, &ParseOptions::default()).map_err(failed)?;
        let Some(Statement::Query(query)) = parsed.pop().map(|p| p.statement) else {
            return Err(failed("expected a query"));
        };
        // A block of its own: the context must not live across an await.
        let prepared = {
            let context = Context { schemas: self, variables: self, parameters: None };
            prepare_query(&query, &context).map_err(failed)?
        };
        let statement = SqlStatement::Query(prepared.query);
        let plan = self.0.state().statement_to_plan(DfStatement::Statement(Box::new(statement))).await?;
        let batches = self.0.execute_logical_plan(plan).await?.collect().await?;
        let mut rows = Vec::new();
        for batch in &batches {
            for row in 0..batch.num_rows() {
                rows.push(batch.columns().iter().map(|c| cell(c, row)).collect::<Result<Vec<_>>>()?);
            }
        }
        if batches.iter().all(|b| b.num_columns() == 0) {
            return Ok(DBOutput::StatementComplete(0));
        }
        let types = vec![DefaultColumnType::Text; batches[0].num_columns()];
        Ok(DBOutput::Rows { types, rows })
    }

    async fn shutdown(&mut self) {}
}

#[tokio::test]
async fn functions_give_the_results_on_file() {
    let folder = Path::new("../../tests/slt/functions");
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of the tests")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|e| e == "slt"))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no .slt below {}", folder.display());
    let mut failures = String::new();
    for file in files {
        let records = sqllogictest::parse_file::<DefaultColumnType>(&file).expect("a well-formed file");
        let mut runner = Runner::new(|| async { Ok(session()) });
        for record in records {
            if let Err(e) = runner.run_async(record).await {
                let _ = writeln!(failures, "{}\n", e.display(false));
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// Checks that an expression over a column of many rows, with constants beside it, gives what it gives for each
/// constant.
#[tokio::test]
async fn columns_and_constants_agree() {
    use arrow::array::{RecordBatch, StringArray};
    let values = [Some("2024-02-29 13:14:15"), None, Some(""), Some("héllo wörld, 日本語"), Some("-12.5"), Some("a,b")];
    let expressions = [
        "left(s, 3)",
        "right(s, 13)",
        "substring(s, -4, 20)",
        "substring_index(s, ',', 1)",
        "split_part(s, ' ', 2)",
        "trim(s)",
        "lpad(s, 20, 'xy')",
        "replace(s, 'l', 'LL')",
        "date_format(s, '%W %d %M %Y')",
        "date_add(s, INTERVAL 1 MONTH)",
        "to_days(s)",
        "round(s, 1)",
        "hex(s)",
        "md5(s)",
        "concat(s, '-', s)",
        "concat_ws('/', s, 'x')",
        "if(length(s) > 5, s, 'short')",
        "greatest(s, 'b')",
        "regexp_replace(s, '([a-z]+)', '<\\1>')",
        "locate('l', s, 4)",
        "ifnull(s, 'none')",
    ];
    let mut db = session();
    let column = StringArray::from(values.to_vec());
    let batch = RecordBatch::try_from_iter([("s", Arc::new(column) as ArrayRef)]).expect("one column");
    db.0.register_batch("t", batch).expect("a new table");
    for expression in expressions {
        let DBOutput::Rows { rows, .. } = db.run(&format!("SELECT {expression} FROM t")).await.expect(expression)
        else {
            panic!("{expression}: no rows");
        };
        for (value, row) in values.iter().zip(rows) {
            let literal = value.map_or("CAST(NULL AS VARCHAR)".to_owned(), |v| format!("'{v}'"));
            let one = format!(
                "SELECT {}",
                expression.replace("(s", &format!("({literal}")).replace(", s", &format!(", {literal}"))
            );
            let DBOutput::Rows { rows, .. } = db.run(&one).await.expect(&one) else {
                panic!("{one}: no rows");
            };
            assert_eq!(rows[0], row, "{one}");
        }
    }
}
