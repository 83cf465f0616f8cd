//! The end of native tables: the name goes first, then the rows.

use dipper_store::catalog::CatalogState;

use crate::error::Result;
use crate::session::Session;

/// Gives up the rows of native tables that a change of the catalog left without a name.
pub(in crate::statements) async fn discard_missing(
    session: &Session,
    before: &CatalogState,
    after: &CatalogState,
) -> Result<()> {
    let gone = before.tables().filter(|(_, t)| t.is_native() && after.table_by_id(t.id).is_none());
    let mut ids = Vec::new();
    for (_, table) in gone {
        // The catalog no longer says where it is.
        if let Some(volume) = &table.volume {
            session.engine.native.volumes().assign(before, table.id, volume)?;
        }
        ids.push(table.id);
    }
    for id in ids {
        // Open loads fail from here on; the objects are freed by vacuum.
        session.engine.native.get(id).await?.tombstone().await?;
        session.engine.native.forget(id);
        session.engine.points().forget(id);
    }
    Ok(())
}
