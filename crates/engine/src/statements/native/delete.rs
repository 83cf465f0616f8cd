//! DELETE: the rows that match the condition get bits in the delete vectors of their segments.
//!
//! If a sequence column decides which rows win, the rows are instead written again as rows that delete, as in Doris: a
//! row that comes later with a smaller sequence value must still be compared with their sequence.

use std::sync::Arc;

use dipper_dialect::statement::{Delete, QueryText};
use dipper_exec::native::{ROW_COLUMN, SEGMENT_COLUMN};
use dipper_exec::on_cpu::on_cpu;
use dipper_exec::shape::Now;
use dipper_sql::charter::session::{TableRef, VarValue};
use dipper_sql::charter::table_refs;
use dipper_store::table::schema::{DELETE_SIGN, Model, TableSchema};
use dipper_store::table::{Deletes, TableState};
use futures::StreamExt;
use sqlparser::ast;

use super::addresses::Addresses;
use super::update::{Changed, Rewritten, rewrite};
use crate::context::{ChangedTable, QueryContext};
use crate::error::{EngineError, ErrorKind, Result};
use crate::native::CHANGED;
use crate::query;
use crate::result::{Done, Outcome};
use crate::session::Session;
use crate::statements::{ddl, transaction};

pub(in crate::statements) async fn delete(
    session: &mut Session,
    delete: &Delete,
    params: Vec<VarValue>,
) -> Result<Outcome> {
    let (database, table) = ddl::table_named(session, &delete.table).await?;
    if !table.is_native() {
        return Err(EngineError::unsupported(format!(
            "DELETE FROM '{database}.{}': tables over files keep their rows; INSERT OVERWRITE replaces them",
            table.name
        )));
    }
    if delete.temporary {
        return Err(EngineError::unsupported("DELETE of temporary partitions; drop or replace them"));
    }
    let is_within = transaction::enter(session, &database, &table).await?;
    let handle = session.engine.native.get(table.id).await?;
    let state = match is_within {
        true => session.transaction.written()?.seen().await?,
        false => handle.refresh().await?,
    };
    keys_only(&state, &delete.source)?;
    let partitions = super::partition_ids(&state, &delete.partitions)?;
    let alias = delete.alias.clone().unwrap_or_else(|| delete.table.object().to_string());
    // In a transaction, a later statement may bring a row back by its key.
    if state.schema().sequence.is_some() || is_within && state.schema().model == Model::Unique {
        let items = |definition: &Arc<TableSchema>, _: &Now| {
            Ok(Rewritten { items: tombstones(definition, &alias), branches: None })
        };
        let changed = Changed { table: &table, is_within, partitions: &delete.partitions, source: &delete.source };
        return rewrite(session, changed, params, items).await;
    }
    let items = vec![column(&alias, SEGMENT_COLUMN), column(&alias, ROW_COLUMN)];
    let (source, mention) = with_items(&delete.source, &delete.partitions, items)?;
    if is_within {
        let changed = ChangedTable { id: table.id, partitions: mention, state: Arc::clone(&state), after: 0 };
        let found = addresses(session, changed, &state, source, params).await?;
        let affected_rows = found.values().map(|rows| rows.0.len()).sum();
        session.transaction.written()?.delete(found);
        return Ok(Outcome::Done(Done { affected_rows, ..Done::default() }));
    }
    let session_ref: &Session = session;
    let mut first = None;
    let found = handle.delete(partitions, |state, after| {
        let (source, params) = (source.clone(), params.clone());
        // If others commit in between, only their rows remain to be examined, but by the same condition: everything
        // else that it reads of the table is as it was at first.
        let read = match (&first, after) {
            (Some(first), 1..) => Arc::clone(first),
            _ => Arc::clone(first.insert(Arc::clone(&state))),
        };
        let changed = ChangedTable { id: table.id, partitions: mention.clone(), state, after };
        async move { addresses(session_ref, changed, &read, source, params).await }
    });
    let (_, affected_rows) = found.await?;
    session.wrote();
    Ok(Outcome::Done(Done { affected_rows, ..Done::default() }))
}

/// Select items that return rows as they are, except that they delete, and their addresses.
fn tombstones(definition: &TableSchema, alias: &str) -> Vec<ast::SelectItem> {
    let deletes = || ast::SelectItem::UnnamedExpr(ast::Expr::Value(ast::Value::Number("1".into(), false).into()));
    let values = definition.columns.iter().map(|c| match c.name == DELETE_SIGN {
        true => deletes(),
        false => column(alias, &c.name),
    });
    values.chain([column(alias, SEGMENT_COLUMN), column(alias, ROW_COLUMN)]).collect()
}

/// Makes a context in which the mention of the table that is changed also returns the addresses of rows. Other mentions
/// of the table see the state `read`.
pub(super) async fn changing(
    session: &Session,
    changed: ChangedTable,
    read: &Arc<TableState>,
) -> Result<Arc<QueryContext>> {
    let mut context = QueryContext::new(session, session.engine.catalog.refresh().await?);
    context.snapshots.lock().insert(changed.id, Ok(Arc::clone(read)));
    context.changed = Some(changed);
    Ok(Arc::new(context))
}

/// Refuses conditions on values of AGGREGATE tables: rows are merged when they are read, so a condition on a value does
/// not select any stored row.
fn keys_only(state: &TableState, source: &QueryText) -> Result<()> {
    let schema = state.schema();
    if schema.model != Model::Aggregate {
        return Ok(());
    }
    let values: Vec<&str> = schema.columns[schema.keys..].iter().map(|c| c.name.as_str()).collect();
    let ast::SetExpr::Select(select) = source.ast.body.as_ref() else { return Ok(()) };
    let Some(condition) = &select.selection else { return Ok(()) };
    let mut wrong = None;
    let _ = ast::visit_expressions(condition, |e| {
        let name = match e {
            ast::Expr::Identifier(i) => Some(&i.value),
            ast::Expr::CompoundIdentifier(parts) => parts.last().map(|i| &i.value),
            _ => None,
        };
        if let Some(name) = name.filter(|n| values.iter().any(|v| v.eq_ignore_ascii_case(n))) {
            wrong = Some(name.clone());
        }
        std::ops::ControlFlow::<()>::Continue(())
    });
    match wrong {
        None => Ok(()),
        Some(name) => Err(EngineError::invalid(format!(
            "delete predicate on value column only supports Unique table with merge-on-write enabled and Duplicate table, but {name} is a value column of an AGGREGATE table"
        ))),
    }
}

/// Returns the query with other select items, restricted to some partitions of the table that it begins with, and the
/// names now in `PARTITION (...)` of this mention. Other mentions of the table read all of it.
pub(super) fn with_items(
    source: &QueryText,
    partitions: &[String],
    items: Vec<ast::SelectItem>,
) -> Result<(QueryText, Vec<String>)> {
    let mut query = source.clone();
    let ast::SetExpr::Select(select) = query.ast.body.as_mut() else {
        return Err(EngineError::new(ErrorKind::Internal, "a DELETE or UPDATE without a SELECT"));
    };
    select.projection = items;
    let mut mention: Vec<String> = [CHANGED.to_string()].into_iter().chain(partitions.iter().cloned()).collect();
    let table = restrict(&mut query, &mention)?;
    let again = |other: &TableRef| match other {
        TableRef::Named { name, partitions, .. } => {
            *partitions != mention && name.object().eq_ignore_ascii_case(&table)
        }
        _ => false,
    };
    if !table_refs(&query).iter().any(again) {
        mention.remove(0);
        restrict(&mut query, &mention)?;
    }
    Ok((query, mention))
}

/// Puts names into the `PARTITION (...)` of the first table of a query. Returns the name of the table.
fn restrict(query: &mut QueryText, names: &[String]) -> Result<String> {
    let first = match query.ast.body.as_mut() {
        ast::SetExpr::Select(select) => select.from.first_mut().map(|from| &mut from.relation),
        _ => None,
    };
    if let Some(ast::TableFactor::Table { name, partitions, .. }) = first
        && let Some(table) = name.0.last().and_then(|part| part.as_ident())
    {
        *partitions = names.iter().map(|name| ast::Ident::with_quote('`', name)).collect();
        return Ok(table.value.clone());
    }
    Err(EngineError::new(ErrorKind::Internal, "a DELETE or UPDATE that does not begin with a table"))
}

pub(super) fn column(table: &str, name: &str) -> ast::SelectItem {
    ast::SelectItem::UnnamedExpr(column_expr(table, name))
}

pub(super) fn column_expr(table: &str, name: &str) -> ast::Expr {
    ast::Expr::CompoundIdentifier(vec![ast::Ident::with_quote('`', table), ast::Ident::with_quote('`', name)])
}

/// Runs a query whose two columns are addresses of rows.
async fn addresses(
    session: &Session,
    changed: ChangedTable,
    read: &Arc<TableState>,
    source: QueryText,
    params: Vec<VarValue>,
) -> Result<Deletes> {
    let state = Arc::clone(&changed.state);
    let context = changing(session, changed, read).await?;
    let threads = session.engine.short().clone();
    on_cpu(&threads, async move {
        let planned = query::plan(&context, &source, Some(&params)).await?;
        let mut stream = query::start(&context, &planned.state, planned.physical().await?).await?;
        let mut found = Addresses::new(&state);
        while let Some(batch) = stream.next().await {
            found.add(&batch?, 0);
        }
        Ok(found.rows())
    })
    .await
}
