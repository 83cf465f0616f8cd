//! UPDATE of UNIQUE tables: the rows to change are read whole and written as an upsert. [`rewrite`] is shared by MERGE,
//! and by DELETE where rows that delete are written.

use std::sync::Arc;
use std::time::Instant;

use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;
use dipper_base::retry::{self, Attempts};
use dipper_dialect::statement::{QueryText, Update, is_default};
use dipper_exec::native::{ROW_COLUMN, SEGMENT_COLUMN};
use dipper_exec::on_cpu::on_cpu;
use dipper_exec::shape::{Now, Shape};
use dipper_exec::stored::twice;
use dipper_sql::charter::session::VarValue;
use dipper_store::attempts::again;
use dipper_store::catalog::Table as CatalogTable;
use dipper_store::table::Reads;
use dipper_store::table::schema::{Model, TableSchema};
use parking_lot::Mutex;
use sqlparser::ast;

use super::addresses::Addresses;
use super::branches::Branches;
use super::delete::{changing, column, with_items};
use super::expressions::{default_expr, now, now_expr};
use super::write::{Kept, Target, run};
use crate::context::ChangedTable;
use crate::error::{EngineError, ErrorKind, Result};
use crate::generated;
use crate::query;
use crate::result::{Done, Outcome};
use crate::session::Session;
use crate::statements::{ddl, transaction};
use crate::tables::no_column;

pub(in crate::statements) async fn update(
    session: &mut Session,
    update: &Update,
    params: Vec<VarValue>,
) -> Result<Outcome> {
    let (database, table) = ddl::table_named(session, &update.table).await?;
    if !table.is_native() {
        return Err(EngineError::unsupported(format!(
            "UPDATE of '{database}.{}': tables over files keep their rows; INSERT OVERWRITE replaces them",
            table.name
        )));
    }
    let alias = update.alias.clone().unwrap_or_else(|| update.table.object().to_string());
    let items = |definition: &Arc<TableSchema>, now: &Now| {
        Ok(Rewritten { items: items(definition, update, &alias, now)?, branches: None })
    };
    let is_within = transaction::enter(session, &database, &table).await?;
    let changed = Changed { table: &table, is_within, partitions: &update.partitions, source: &update.source };
    rewrite(session, changed, params, items).await
}

/// The table and the rows that a statement changes.
pub(super) struct Changed<'a> {
    pub(super) table: &'a CatalogTable,
    /// The statement is part of a transaction.
    pub(super) is_within: bool,
    pub(super) partitions: &'a [String],
    pub(super) source: &'a QueryText,
}

/// The select items of the query, and how its rows become rows of the table.
pub(super) struct Rewritten {
    pub(super) items: Vec<ast::SelectItem>,
    /// If there are none, the query has one item for each column of the table; the addresses of the rows follow.
    pub(super) branches: Option<Branches>,
}

/// Writes the rows that a query finds again, with new values. `items` makes the select items.
///
/// # Errors
/// `Conflict` if others changed the same rows in each attempt ([`retry::STATEMENT`]).
pub(super) async fn rewrite(
    session: &mut Session,
    changed: Changed<'_>,
    params: Vec<VarValue>,
    items: impl Fn(&Arc<TableSchema>, &Now) -> Result<Rewritten>,
) -> Result<Outcome> {
    let Changed { table, is_within, partitions, source } = changed;
    let handle = session.engine.native.get(table.id).await?;
    let mut attempts = Attempts::of(retry::STATEMENT);
    loop {
        let begun = Instant::now();
        let state = match is_within {
            true => session.transaction.written()?.seen().await?,
            false => handle.refresh().await?,
        };
        let definition = Arc::clone(state.schema());
        let now = now(session);
        let Rewritten { items, branches } = items(&definition, &now)?;
        let (source, mention) = with_items(source, partitions, items)?;
        let changed = ChangedTable { id: table.id, partitions: mention, state: Arc::clone(&state), after: 0 };
        let context = changing(session, changed, &state).await?;
        let names: Vec<String> = definition.columns.iter().map(|c| c.name.clone()).collect();
        let shape = Shape::try_new(&definition, &names, &now, true)?;
        let width = definition.columns.len();
        let mut target = Target::new(handle.clone(), Arc::clone(&state), shape);
        if let Some(branches) = branches {
            target.branches = Some(Arc::new(branches.on(&state)));
        } else {
            let read = Arc::new(Mutex::new(Addresses::new(&state)));
            let first = Arc::clone(&read);
            // A row that joins several other rows is changed once.
            target.select = Some(Arc::new(move |batch: &RecordBatch| {
                let new = first.lock().add(batch, width);
                filter_record_batch(batch, &new.into()).map_err(|e| EngineError::invalid(e.to_string()))
            }));
            target.reads = Some(Box::new(move |_| Reads { seq: state.seq(), rows: read.lock().len() }));
        }
        if is_within {
            target.enter(session.transaction.written()?)?;
        }
        let kept = Kept::of(&target);
        let (engine, params) = (Arc::clone(&session.engine), params.clone());
        let threads = session.engine.short().clone();
        let written = on_cpu(&threads, async move {
            let planned = query::plan(&context, &source, Some(&params)).await?;
            run(&engine, planned, target).await
        });
        match written.await {
            Ok(mut written) => {
                if is_within {
                    written = kept.give(written, session.transaction.written()?).await?;
                }
                session.wrote();
                return Ok(Outcome::Done(Done { affected_rows: written.rows, ..Done::default() }));
            }
            Err(e) if e.is_passing_conflict() => {
                if again(&mut attempts, begun.elapsed()).await {
                    continue;
                }
                let message = format!(
                    "table '{}': others changed the same rows {} times while this statement ran; repeat it",
                    table.name,
                    attempts.failed()
                );
                return Err(EngineError::new(ErrorKind::Conflict, message).with_source(retry::STATEMENT.given_up()));
            }
            Err(e) => return Err(e),
        }
    }
}

/// Makes the select items: every column of the table, those of SET with their new values, and the row's address.
fn items(definition: &TableSchema, update: &Update, alias: &str, now: &Now) -> Result<Vec<ast::SelectItem>> {
    if definition.has_sequences() {
        return Err(EngineError::unsupported(
            "UPDATE of a table whose columns have sequences of their own; INSERT the columns with a greater value of their sequence",
        ));
    }
    if definition.model != Model::Unique {
        return Err(EngineError::invalid("Only unique table could be updated."));
    }
    let given = expressions(&update.source)?;
    let mut items: Vec<ast::SelectItem> = definition.columns.iter().map(|c| column(alias, &c.name)).collect();
    for (at, value) in set(update.table.object(), definition, &update.columns, &given, now)? {
        items[at] = ast::SelectItem::UnnamedExpr(value);
    }
    items.push(column(alias, SEGMENT_COLUMN));
    items.push(column(alias, ROW_COLUMN));
    Ok(items)
}

/// Returns the select items of a query as expressions.
pub(super) fn expressions(source: &QueryText) -> Result<Vec<ast::Expr>> {
    let ast::SetExpr::Select(select) = source.ast.body.as_ref() else {
        return Err(EngineError::new(ErrorKind::Internal, "a statement that changes rows without a SELECT"));
    };
    let expression = |item: &ast::SelectItem| match item {
        ast::SelectItem::UnnamedExpr(e) | ast::SelectItem::ExprWithAlias { expr: e, .. } => Ok(e.clone()),
        other => Err(EngineError::invalid(format!("{other}: expected an expression"))),
    };
    select.projection.iter().map(expression).collect()
}

/// Returns the columns that SET and ON UPDATE change, by their positions, with their new values.
pub(super) fn set(
    table: &str,
    definition: &TableSchema,
    columns: &[String],
    given: &[ast::Expr],
    now: &Now,
) -> Result<Vec<(usize, ast::Expr)>> {
    let mut out = Vec::new();
    let mut seen = vec![false; definition.columns.len()];
    for (name, expr) in columns.iter().zip(given) {
        let at = (definition.columns.iter())
            .position(|c| c.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| no_column(name, definition.columns.iter().map(|c| c.name.as_str())))?;
        if std::mem::replace(&mut seen[at], true) {
            return Err(twice(name));
        }
        if at < definition.keys {
            return Err(EngineError::unsupported(format!(
                "Only value columns of unique table could be updated: {name} is a key column; INSERT the row with its new key and DELETE the old one"
            )));
        }
        if definition.columns[at].generated.is_some() {
            match is_default(expr) {
                true => continue,
                false => return Err(generated::given(table, &definition.columns[at])),
            }
        }
        let value = match is_default(expr) {
            true => default_expr(&definition.columns[at], now)?,
            false => expr.clone(),
        };
        out.push((at, value));
    }
    for (at, c) in definition.columns.iter().enumerate().filter(|(_, c)| c.on_update.is_some()) {
        if !seen[at] {
            out.push((at, now_expr(c, now)?));
        }
    }
    Ok(out)
}
