//! The end of native tables: first the name goes, then the rows.

use std::sync::Arc;
use std::time::Duration;

use dipper_store::catalog::CatalogState;

use crate::error::{EngineError, ErrorKind};
use crate::native::dropped::end;
use crate::session::Session;

/// Longest wait of a statement until the store has noted the end of a table. A note that takes longer is written in the
/// background.
const NOTED_WITHIN: Duration = Duration::from_secs(10);

/// Gives up the rows of native tables that a change of the catalog left without a name. If the end of a table cannot be
/// noted in its storage volume, the table is dropped all the same: the statement warns, and vacuum deletes the rows
/// later, because it finds everything that no name leads to.
pub(in crate::statements) async fn discard_missing(
    session: &mut Session,
    before: &Arc<CatalogState>,
    after: &CatalogState,
) {
    let gone = before.tables().filter(|(_, t)| t.is_native() && after.table_by_id(t.id).is_none());
    let gone: Vec<_> = gone.map(|(_, t)| Arc::clone(t)).collect();
    let ends: Vec<_> = gone
        .iter()
        .map(|table| {
            let (engine, before) = (Arc::clone(&session.engine), Arc::clone(before));
            let (id, volume) = (table.id, table.volume.clone());
            // A task of its own, which goes on after the statement has stopped waiting for it.
            let end = session.engine.io().spawn(async move { end(&engine, &before, id, volume.as_deref()).await });
            async {
                match tokio::time::timeout(NOTED_WITHIN, end).await {
                    Ok(Ok(done)) => done,
                    Ok(Err(e)) => Err(EngineError::new(ErrorKind::Internal, e.to_string())),
                    Err(_) => Err(EngineError::new(ErrorKind::Storage, "the store does not answer")),
                }
            }
        })
        .collect();
    let ended = futures::future::join_all(ends).await;
    for (table, ended) in gone.iter().zip(ended) {
        if let Err(e) = ended {
            let place = table.volume.as_deref().unwrap_or(dipper_base::names::BUILTIN_VOLUME);
            tracing::warn!(table = %table.id, volume = place, error = %e.message, "a dropped table's rows remain");
            let message = format!(
                "table '{}' is dropped, but its rows remain in storage volume '{place}' until that can be reached and is vacuumed: {}",
                table.name, e.message
            );
            session.warn(1105, message);
        }
    }
}
