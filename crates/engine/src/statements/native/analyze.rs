//! ANALYZE. There is nothing to gather, because each load records the statistics of what it wrote.

use dipper_dialect::statement::{Name, ObjectKind};

use crate::error::{EngineError, Result};
use crate::result::Outcome;
use crate::session::Session;
use crate::statements::ddl;

/// Checks that the named objects exist, and notes that the statistics are up to date.
pub(in crate::statements) async fn analyze(
    session: &mut Session,
    kind: ObjectKind,
    name: &Name,
    columns: &[String],
) -> Result<Outcome> {
    if kind == ObjectKind::Database {
        let state = session.engine.catalog.refresh().await?;
        if !crate::tables::database_exists(&state, name.object()) {
            return Err(state.no_database(name.object()).into());
        }
    } else {
        let (_, table) = ddl::table_named(session, name).await?;
        if !table.is_native() {
            return Err(EngineError::unsupported(format!(
                "ANALYZE of '{name}': statistics are kept for native tables, this one lies over files"
            )));
        }
        let state = session.engine.native.get(table.id).await?.refresh().await?;
        for column in columns {
            super::create::named(&state.schema().columns, column)?;
        }
    }
    session.note(1105, "statistics are kept by every load and are up to date; SHOW COLUMN STATS shows them");
    Ok(Outcome::ok())
}
