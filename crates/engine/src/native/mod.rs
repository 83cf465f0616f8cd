//! Native tables in queries and statements.
//!
//! - `background.rs`: compaction, vacuum, dynamic partitions
//! - `dropped.rs`: the end of tables

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

/// Marks the list of partitions of the mention that a statement changes, if the statement mentions the table again.
pub(crate) const CHANGED: &str = "\u{1}";

/// Returns the provider of a table as a query reads it: rows with equal keys of AGGREGATE tables are merged.
///
/// `partitions` are the names of the partitions to read; empty for all. [`CHANGED`] may precede them.
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
    // Rows of AGGREGATE tables are merged in the order of the age of their segments.
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

/// Returns the state of a table that this statement sees, which is the newest one at the first call.
pub(crate) async fn snapshot(context: &QueryContext, id: TableId) -> Result<Arc<TableState>> {
    if let Some(known) = context.snapshots.lock().get(&id) {
        return known.clone();
    }
    let state = context.engine.native.newest(id).await.map_err(|e| match context.catalog.table_by_id(id) {
        Some((database, table)) if e.kind == ErrorKind::Storage => {
            EngineError { message: format!("table '{}.{}': {}", database.name, table.name, e.message), ..e }
        }
        _ => e,
    })?;
    keep(context, id, state)
}

/// Makes a state the one that the statement sees, unless it has seen one already.
fn keep(context: &QueryContext, id: TableId, state: Arc<TableState>) -> Result<Arc<TableState>> {
    context.engine.stores.heed_cache_property(id, state.schema());
    context.snapshots.lock().entry(id).or_insert(Ok(state)).clone()
}

/// Returns the native tables that a query seems to name, by the catalog that this process knows.
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

/// Gives a statement the known states of the tables that its query seems to name. Returns the greatest age of these
/// states and of the catalog; `None` if one of the tables is not open.
pub(crate) fn assume(context: &QueryContext, query: &QueryText) -> Option<Duration> {
    let mut oldest = context.engine.catalog.staleness();
    for id in named(context, query) {
        let table = context.engine.native.opened(id)?;
        oldest = oldest.max(table.staleness());
        keep(context, id, table.snapshot()).ok()?;
    }
    Some(oldest)
}

/// Refreshes the catalog and, at the same time, the tables that a query seems to name by the known catalog. Each one is
/// a separate request to the store, and none needs the answers of the others. A name that now means another table is
/// looked up again when its table is needed. If a storage volume has changed, requests to the old one are not awaited,
/// because it may no longer exist; otherwise a table whose store fails is not asked for again.
pub(crate) async fn refresh(context: &QueryContext, query: &QueryText) -> Result<Arc<CatalogState>> {
    let ids = named(context, query);
    // An error here occurs again, with its message, where the table is needed.
    let read = |id| async move { snapshot(context, id).await.err().map(|e| (id, e)) };
    let tables = futures::future::join_all(ids.into_iter().map(read));
    let catalog = pin!(context.engine.catalog.refresh());
    let (catalog, failed) = match select(catalog, tables).await {
        Either::Left((catalog, tables)) => {
            let catalog = catalog?;
            let failed = if catalog.volumes == context.catalog.volumes { tables.await } else { Vec::new() };
            (catalog, failed)
        }
        Either::Right((failed, catalog)) => (catalog.await?, failed),
    };
    if catalog.volumes == context.catalog.volumes {
        let failed = failed.into_iter().flatten().filter(|(_, e)| e.kind == ErrorKind::Storage);
        context.snapshots.lock().extend(failed.map(|(id, e)| (id, Err(e))));
    }
    Ok(catalog)
}
