//! INSERT into tables over files and into native tables.

pub(super) mod files;
mod partitions;

use dipper_dialect::statement::Insert;
use dipper_sql::charter::session::VarValue;

use super::ddl::table_named;
use crate::error::{EngineError, Result};
use crate::result::{Done, Outcome};
use crate::session::Session;

pub(super) async fn insert(session: &mut Session, insert: &Insert, params: Vec<VarValue>) -> Result<Outcome> {
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
