//! CHECK, OPTIMIZE and REPAIR TABLE: MySQL's statements about the storage of tables. They answer as in MySQL, with a
//! few rows for each table.

use dipper_dialect::statement::{Maintenance, Name};
use dipper_exec::on_cpu::on_cpu;
use dipper_lake::sheet::Sheet;
use dipper_store::catalog::Table as CatalogTable;
use dipper_store::check::{Report, check_table};

use crate::error::{ErrorKind, Result};
use crate::result::{Column, Outcome};
use crate::session::Session;
use crate::statements::{ddl, qualified};

/// MySQL's text for an engine that does not know the statement.
const UNKNOWN: &str = "The storage engine for the table doesn't support";

/// Makes the answer, without rows.
fn empty() -> Sheet {
    Sheet::texts(&["Table", "Op", "Msg_type", "Msg_text"])
}

/// Returns the columns of the answer.
pub(in crate::statements) fn columns() -> Result<Vec<Column>> {
    match empty().into_outcome()? {
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
        Maintenance::Optimize => "optimize",
        Maintenance::Repair => "repair",
    };
    let mut sheet = empty();
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
            Maintenance::Repair => {
                say(
                    "note",
                    &format!("{UNKNOWN} repair: CHECK TABLE says what is wrong, `dipper restore` brings a backup"),
                );
            }
        }
    }
    sheet.into_outcome()
}

/// Reads everything that is stored of a table.
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
