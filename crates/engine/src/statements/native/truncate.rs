//! TRUNCATE TABLE.

use dipper_dialect::statement::Name;
use dipper_store::table::TableChange;

use crate::error::{EngineError, Result};
use crate::result::Outcome;
use crate::session::Session;
use crate::statements::ddl;

pub(in crate::statements) async fn truncate(
    session: &mut Session,
    name: &Name,
    partitions: &[String],
) -> Result<Outcome> {
    let (_, table) = ddl::table_named(session, name).await?;
    if !table.is_native() {
        return Err(EngineError::unsupported(format!(
            "TRUNCATE of '{name}': tables over files are not truncated; INSERT OVERWRITE replaces their rows"
        )));
    }
    let handle = session.engine.native.get(table.id).await?;
    let state = handle.refresh().await?;
    let ids = match partitions.is_empty() {
        true => None,
        false => Some(super::partition_ids(&state, partitions)?),
    };
    let at_ms = chrono::Utc::now().timestamp_millis();
    handle.commit(TableChange::Truncate { partitions: ids, at_ms }).await?;
    session.wrote();
    Ok(Outcome::ok())
}
