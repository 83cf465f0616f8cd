//! Dropping native tables outside of a session: first the name goes, then the rows.

use dipper_store::catalog::{CatalogChange, CatalogState, TableId, TableKind};

use crate::engine::Engine;
use crate::error::{EngineError, Result};

/// Drops native tables by database and name, whatever a session calls them. A table that is gone already is not an
/// error.
///
/// # Errors
/// `Storage` if the catalog cannot be written.
pub(crate) async fn drop_tables(engine: &Engine, names: Vec<(String, String)>) -> Result<()> {
    let before = engine.catalog.refresh().await?;
    let kind = TableKind::Table;
    let there = names.into_iter().filter(|(db, name)| before.table(db, name).is_some());
    let changes = there.map(|(db, name)| CatalogChange::Drop { db, name, kind, if_exists: true }).collect();
    let after = engine.catalog.commit(changes).await?;
    for (_, table) in before.tables().filter(|(_, t)| t.is_native() && after.table_by_id(t.id).is_none()) {
        // If the end cannot be noted now, vacuum frees the rows later, because no name leads to them.
        if let Err(error) = end(engine, &before, table.id, table.volume.as_deref()).await {
            tracing::warn!(table = %table.id, error = %error.message, "a dropped table's rows remain");
        }
    }
    Ok(())
}

/// Notes beside the rows of a table that the table is gone, and forgets what this process knows of the table.
///
/// # Errors
/// `Storage` if the note cannot be written.
pub(crate) async fn end(engine: &Engine, before: &CatalogState, id: TableId, volume: Option<&str>) -> Result<()> {
    // The catalog no longer says which volume the table is in.
    if let Some(volume) = volume {
        engine.native.volumes().assign(before, id, volume)?;
    }
    // Open loads fail once this is written; the objects are freed by vacuum.
    let noted = match engine.native.get(id).await {
        Ok(table) => table.tombstone().await.map(drop).map_err(EngineError::from),
        Err(e) => Err(e),
    };
    engine.native.forget(id);
    engine.points().forget(id);
    noted
}
