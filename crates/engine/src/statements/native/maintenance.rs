//! CHECK, CHECKSUM, OPTIMIZE and REPAIR TABLE: MySQL's statements about the storage of tables, with MySQL's answer: a few rows for each table.

use arrow::array::AsArray;
use arrow::datatypes::Int64Type;
use dipper_base::types::SqlType;
use dipper_dialect::statement::{Maintenance, Name, Statement};
use dipper_exec::on_cpu::on_cpu;
use dipper_lake::sheet::{Cell, Kind, Sheet};
use dipper_store::catalog::Table as CatalogTable;
use dipper_store::check::{Report, check_table};
use futures::StreamExt;

use crate::error::{EngineError, ErrorKind, Result};
use crate::result::{Column, Outcome};
use crate::session::Session;
use crate::statements::{ddl, qualified};

/// MySQL's text for an engine that does not know the statement.
const UNKNOWN: &str = "The storage engine for the table doesn't support";

/// The answer before there is one.
fn empty(work: Maintenance) -> Sheet {
    match work {
        Maintenance::Checksum { .. } => Sheet::new(&[("Table", Kind::Text), ("Checksum", Kind::UInt)]),
        _ => Sheet::texts(&["Table", "Op", "Msg_type", "Msg_text"]),
    }
}

/// The columns of the answer.
pub(in crate::statements) fn columns(work: Maintenance) -> Result<Vec<Column>> {
    match empty(work).into_outcome()? {
        Outcome::Rows(rows) => Ok(rows.columns),
        Outcome::Done(_) => Ok(Vec::new()),
    }
}

/// Runs the statement on each table and reports the results.
pub(in crate::statements) async fn maintain(
    session: &mut Session,
    work: Maintenance,
    tables: &[Name],
) -> Result<Outcome> {
    let op = match work {
        Maintenance::Check => "check",
        Maintenance::Checksum { quick } => return checksums(session, work, quick, tables).await,
        Maintenance::Optimize => "optimize",
        Maintenance::Repair => "repair",
    };
    let mut sheet = empty(work);
    for name in tables {
        let (database, object) = qualified(session, name)?;
        let shown = format!("{database}.{object}");
        let mut say = |kind: &str, text: &str| sheet.push([(&shown).into(), op.into(), kind.into(), text.into()]);
        let table = match ddl::table_named(session, name).await {
            Ok((_, table)) => table,
            // As in MySQL, the other tables are still processed.
            Err(e) if matches!(e.kind, ErrorKind::NoTable | ErrorKind::NoDatabase) => {
                say("Error", &e.message);
                say("status", "Operation failed");
                continue;
            }
            Err(e) if e.kind == ErrorKind::WrongObject => {
                say("note", &format!("{UNKNOWN} {op}: it is a view"));
                continue;
            }
            Err(e) => return Err(e),
        };
        match work {
            Maintenance::Check if table.is_native() => {
                let report = check(session, &shown, &table).await?;
                report.suspicious.iter().for_each(|text| say("warning", text));
                report.problems.iter().for_each(|text| say("error", text));
                say("status", if report.problems.is_empty() { "OK" } else { "Corrupt" });
            }
            Maintenance::Optimize if table.is_native() => {
                super::alter::compact(session, table.id, &[], None).await?;
                say("status", "OK");
            }
            Maintenance::Check | Maintenance::Optimize => {
                say("note", &format!("{UNKNOWN} {op}: the table lies over files of others"));
            }
            Maintenance::Repair | Maintenance::Checksum { .. } => {
                say(
                    "note",
                    &format!("{UNKNOWN} repair: CHECK TABLE says what is wrong, `dipper restore` brings a backup"),
                );
            }
        }
    }
    sheet.into_outcome()
}

/// A checksum of each table; NULL where there is none, with the reason in a warning, as in MySQL.
async fn checksums(session: &mut Session, work: Maintenance, quick: bool, tables: &[Name]) -> Result<Outcome> {
    let mut sheet = empty(work);
    for name in tables {
        let (database, object) = qualified(session, name)?;
        let shown = format!("{database}.{object}");
        let sum = match ddl::table_named(session, name).await {
            Ok((_, table)) if table.is_native() && quick => Cell::Null,
            Ok((_, table)) if table.is_native() => Cell::Int(checksum(session, (&database, &object), &table).await?),
            Ok(_) => {
                session.warn(1031, format!("{UNKNOWN} checksum: '{shown}' lies over files of others"));
                Cell::Null
            }
            Err(e) if matches!(e.kind, ErrorKind::NoTable | ErrorKind::NoDatabase | ErrorKind::WrongObject) => {
                session.warn(e.code, e.message);
                Cell::Null
            }
            Err(e) => return Err(e),
        };
        sheet.push([shown.into(), sum]);
    }
    sheet.into_outcome()
}

/// The sum of the rows' checksums, each of which is one of its columns' checksums: the order of rows does not count.
async fn checksum(session: &mut Session, (database, object): (&str, &str), table: &CatalogTable) -> Result<i64> {
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let state = session.engine.native.newest(table.id).await?;
    let text = |column: &dipper_store::table::schema::TableColumn| {
        let name = quoted(&column.name);
        let value = match &column.data_type {
            SqlType::Binary | SqlType::AggState(_) => name,
            SqlType::Bitmap => format!("bitmap_to_base64({name})"),
            SqlType::Hll => format!("hll_cardinality({name})"),
            SqlType::QuantileState => format!("quantile_state_to_base64({name})"),
            _ => format!("CAST({name} AS STRING)"),
        };
        format!("IFNULL(CAST(crc32({value}) AS STRING), '-')")
    };
    let columns: Vec<String> = state.schema().columns.iter().filter(|c| !c.hidden).map(text).collect();
    let (columns, from) = (columns.join(", "), format!("{}.{}", quoted(database), quoted(object)));
    let sql = format!("SELECT CAST(SUM(crc32(CONCAT_WS(',', {columns}))) % 4294967296 AS BIGINT) FROM {from}");
    let Some(Statement::Query(query)) = session.parse(&sql)?.pop().map(|parsed| parsed.statement) else {
        return Err(EngineError::new(ErrorKind::Internal, format!("no query: {sql}")));
    };
    let (mut rows, _) = session.run_query(&query, Vec::new()).await?;
    let mut sum = 0;
    while let Some(batch) = rows.batches.next().await {
        sum += batch?.column(0).as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
    }
    Ok(sum)
}

/// Reads all that is stored of a table.
async fn check(session: &Session, name: &str, table: &CatalogTable) -> Result<Report> {
    let handle = session.engine.native.get(table.id).await?;
    handle.refresh().await?;
    let name = name.to_string();
    let threads = session.engine.short().clone();
    on_cpu(&threads, async move {
        let mut report = Report::default();
        check_table(&name, &handle, &mut report).await;
        Ok(report)
    })
    .await
}
