//! Native tables in queries and statements.
//!
//! - `background.rs`: compaction, vacuum, dynamic partitions · `dropped.rs`: the end of tables

mod background;
pub(crate) mod dropped;

pub(crate) use background::dynamic_partitions;
use dipper_dialect::statement::QueryText;
use dipper_exec::native::{Columns, NativeProvider, merged};

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use datafusion::catalog::TableProvider;
use dipper_dialect::internal::TEMPORARY;
use dipper_sql::charter::session::TableRef;
use dipper_sql::charter::table_refs;
use dipper_store::catalog::{CatalogState, Table as CatalogTable, TableId};
use dipper_store::table::TableState;
use dipper_store::table::schema::Model;
use futures::future::{Either, select};

use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};

/// Stands before the partitions of the table that a statement changes where the statement mentions the table again.
pub(crate) const CHANGED: &str = "\u{1}";

/// The table as a query reads it: AGGREGATE tables with equal keys merged.
///
/// `partitions`: their names, if not all are wanted; perhaps behind [`CHANGED`].
pub(crate) async fn provider(
    context: &Arc<QueryContext>,
    table: &CatalogTable,
    partitions: &[String],
) -> Result<Arc<dyn TableProvider>> {
    let changed = context.changed.as_ref().filter(|c| c.id == table.id && c.partitions == partitions);
    let state = match changed {
        Some(changed) => Arc::clone(&changed.state),
        None => snapshot(context, table.id).await?,
    };
    let handle = context.engine.native.get(table.id).await?;
    let readers = Arc::clone(context.readers());
    let after = changed.map_or(0, |c| c.after);
    // Rows of AGGREGATE tables are merged by the age of their segments.
    let merge = changed.is_none() && state.schema().model == Model::Aggregate;
    let columns = match (changed, context.hidden_columns) {
        (Some(_), _) => Columns::Addressed,
        _ if merge => Columns::Addressed,
        (None, true) => Columns::All,
        (None, false) => Columns::Visible,
    };
    let names = || partitions.iter().filter(|name| *name != CHANGED);
    let temporary = names().any(|name| name.starts_with(TEMPORARY));
    let names = names().map(|name| name.strip_prefix(TEMPORARY).unwrap_or(name).to_string()).collect();
    let provider =
        NativeProvider::new(&table.name, handle, state, readers, columns, names, after).of_temporary(temporary);
    match merge {
        true => merged(provider),
        false => Ok(Arc::new(provider)),
    }
}

/// The state of a table that this statement sees: the newest when it first asks.
pub(crate) async fn snapshot(context: &QueryContext, id: TableId) -> Result<Arc<TableState>> {
    if let Some(state) = context.snapshots.lock().get(&id) {
        return Ok(Arc::clone(state));
    }
    let state = context.engine.native.newest(id).await.map_err(|e| match context.catalog.table_by_id(id) {
        Some((database, table)) if e.kind == ErrorKind::Storage => {
            EngineError { message: format!("table '{}.{}': {}", database.name, table.name, e.message), ..e }
        }
        _ => e,
    })?;
    Ok(keep(context, id, state))
}

/// Makes a state the one that the statement sees, unless it has seen one.
fn keep(context: &QueryContext, id: TableId, state: Arc<TableState>) -> Arc<TableState> {
    context.engine.stores.heed_cache_property(id, state.schema());
    Arc::clone(context.snapshots.lock().entry(id).or_insert(state))
}

/// Native tables that a query seems to name, as this process knows the catalog.
fn named(context: &QueryContext, query: &QueryText) -> Vec<TableId> {
    let before = &context.catalog;
    let mut ids: Vec<TableId> = table_refs(query)
        .iter()
        .filter_map(|reference| match reference {
            TableRef::Named { name, .. } => {
                let database = name.database().or(context.database.as_deref())?;
                Some(before.table(database, name.object()).filter(|t| t.is_native())?.id)
            }
            _ => None,
        })
        .collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

/// Gives a statement the states that this process knows of the tables that its query seems to name. How old they and the
/// catalog are at most; `None` if one of them is not open.
pub(crate) fn assume(context: &QueryContext, query: &QueryText) -> Option<Duration> {
    let mut oldest = context.engine.catalog.staleness();
    for id in named(context, query) {
        let table = context.engine.native.opened(id)?;
        oldest = oldest.max(table.staleness());
        keep(context, id, table.snapshot());
    }
    Some(oldest)
}

/// Refreshes the catalog, and at the same time the tables that a query seems to name, as the catalog was before: each is a
/// request of its own to the store, and none needs the others' answers. A name that means another table now is looked up
/// again when its table is asked for. Where a storage volume has changed, what was asked of the old one is not waited for: it may
/// not be there any more.
pub(crate) async fn refresh(context: &QueryContext, query: &QueryText) -> Result<Arc<CatalogState>> {
    let ids = named(context, query);
    // What fails here fails again, with its message, for whoever needs it.
    let tables = futures::future::join_all(ids.into_iter().map(|id| async move { snapshot(context, id).await.ok() }));
    let catalog = pin!(context.engine.catalog.refresh());
    match select(catalog, tables).await {
        Either::Left((catalog, tables)) => {
            let catalog = catalog?;
            if catalog.volumes == context.catalog.volumes {
                tables.await;
            }
            Ok(catalog)
        }
        Either::Right((_, catalog)) => Ok(catalog.await?),
    }
}
