//! INSERT into tables over files and into native tables.

pub(super) mod files;
mod partitions;

use dipper_dialect::statement::Insert;
use dipper_exec::on_cpu::on_cpu;
use dipper_sql::charter::session::VarValue;

use super::ddl::table_named;
use crate::error::{EngineError, Result};
use crate::query;
use crate::result::{Done, Outcome};
use crate::session::Session;

pub(super) async fn insert(session: &mut Session, insert: &Insert, params: Vec<VarValue>) -> Result<Outcome> {
    let named;
    let insert = match insert.by_name {
        true => {
            let context = session.query_context().await?;
            let (source, threads) = (insert.source.clone(), context.engine.short().clone());
            let given = params.clone();
            let planned = on_cpu(&threads, async move { query::plan(&context, &source, Some(&given)).await }).await?;
            let columns = planned.columns().into_iter().map(|column| column.name).collect();
            named = Insert { columns, by_name: false, ..insert.clone() };
            &named
        }
        false => insert,
    };
    let (database, table) = table_named(session, &insert.table).await?;
    let done = match table.as_external() {
        Some(_) if session.in_transaction => {
            return Err(EngineError::unsupported(format!(
                "INSERT into '{database}.{}' in a transaction: rows of tables over files cannot be taken back; COMMIT first",
                table.name
            )));
        }
        Some(external) => {
            let affected_rows = files::insert(session, external, insert, params).await?;
            Done { affected_rows, ..Done::default() }
        }
        None => super::native::insert(session, &database, &table, insert, params).await?,
    };
    session.wrote();
    Ok(Outcome::Done(done))
}
