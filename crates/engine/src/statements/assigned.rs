//! `SELECT @a := 1, ...` without FROM returns the values and keeps them in user variables; `SELECT ... INTO @a, ...`
//! only keeps them.
//!
//! A query of the first form has one row, whose values are computed before the client gets them. In other queries, and deeper in
//! expressions, the planner refuses `:=`: when MySQL assigns there depends on its plan.

use std::ops::ControlFlow;

use datafusion::common::ScalarValue;
use dipper_dialect::statement::QueryText;
use dipper_sql::charter::session::VarValue;
use futures::{StreamExt, stream};
use sqlparser::ast::{self, BinaryOperator, Expr, SelectItem};

use crate::error::{EngineError, Result};
use crate::result::{Done, Outcome, Rows};
use crate::session::Session;

/// Takes `@name :=` out of the items of a query's select list. Returns the query of the values, and for each assignment
/// the number of its item and the name; `None` for queries that assign nothing, or not in this form.
///
/// # Errors
/// `Unsupported` if an item reads a variable that an item before it assigns.
pub(super) fn taken_out(query: &QueryText) -> Result<Option<(QueryText, Vec<(usize, String)>)>> {
    let ast::SetExpr::Select(select) = query.ast.body.as_ref() else { return Ok(None) };
    if !select.from.is_empty() || !select.projection.iter().any(|item| assigned(item).is_some()) {
        return Ok(None);
    }
    let mut query = query.clone();
    let ast::SetExpr::Select(select) = query.ast.body.as_mut() else { return Ok(None) };
    let mut names: Vec<(usize, String)> = Vec::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let name = assigned(item);
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            if name.is_some()
                && let Expr::BinaryOp { right, .. } = expr
            {
                *expr = std::mem::replace(right.as_mut(), Expr::value(ast::Value::Null));
            }
            if let Some(read) = names.iter().map(|(_, name)| name).find(|name| reads(expr, name)) {
                return Err(EngineError::unsupported(format!(
                    "@{read} beside its assignment: a SELECT reads the variables that were set before it; SELECT twice"
                )));
            }
        }
        names.extend(name.map(|name| (at, name)));
    }
    Ok(Some((query, names)))
}

/// Returns the name of the variable that an item assigns.
fn assigned(item: &SelectItem) -> Option<String> {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return None };
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::Assignment, .. } => variable(left),
        _ => None,
    }
}

/// Returns the name, in lower case, of an expression that is a user variable.
fn variable(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) if name.quote_style.is_none() => {
            name.value.strip_prefix('@').filter(|name| !name.starts_with('@')).map(str::to_lowercase)
        }
        _ => None,
    }
}

fn reads(expr: &Expr, name: &str) -> bool {
    let found = ast::visit_expressions(expr, |expr| match variable(expr) {
        Some(read) if read == name => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// Runs the query of the values, and sets the variables to them.
///
/// # Errors
/// The error of the query; `Resources` if the session has too many variables.
pub(super) async fn select(
    session: &mut Session,
    query: &QueryText,
    names: Vec<(usize, String)>,
    params: Vec<VarValue>,
) -> Result<(Rows, Vec<String>)> {
    let (mut rows, warnings) = session.run_query(query, params).await?;
    let mut batches = Vec::new();
    while let Some(batch) = rows.batches.next().await {
        batches.push(batch?);
    }
    // WHERE or LIMIT may leave no row; then nothing is assigned.
    if let Some(row) = batches.iter().find(|batch| batch.num_rows() > 0) {
        let mut values = Vec::with_capacity(names.len());
        for (at, name) in names {
            values.push((name, ScalarValue::try_from_array(row.column(at), 0)?));
        }
        super::set::keep(session, values)?;
    }
    rows.batches = stream::iter(batches.into_iter().map(Ok)).boxed();
    Ok((rows, warnings))
}

/// Runs `SELECT ... INTO @name, ...`: sets the variables to the values of the only row. Without a row nothing is set,
/// which a warning says.
///
/// # Errors
/// The error of the query; 1222 if the row has another number of values, 1172 if there are several rows, as in MySQL;
/// `Resources` if the session has too many variables.
pub(super) async fn into_variables(
    session: &mut Session,
    query: &QueryText,
    names: &[String],
    params: Vec<VarValue>,
) -> Result<Outcome> {
    let (mut rows, warnings) = session.run_query(query, params).await?;
    if rows.columns.len() != names.len() {
        let (columns, names) = (rows.columns.len(), names.len());
        let message = format!(
            "The used SELECT statements have a different number of columns: {columns} columns INTO {names} variables"
        );
        return Err(EngineError { code: 1222, sqlstate: "21000", ..EngineError::invalid(message) });
    }
    let mut found = None;
    while let Some(batch) = rows.batches.next().await {
        let batch = batch?;
        if batch.num_rows() + usize::from(found.is_some()) > 1 {
            let message = "Result consisted of more than one row; add LIMIT 1";
            return Err(EngineError { code: 1172, sqlstate: "42000", ..EngineError::invalid(message) });
        }
        if batch.num_rows() == 1 {
            let mut values = Vec::with_capacity(names.len());
            for (name, column) in names.iter().zip(batch.columns()) {
                values.push((name.to_lowercase(), ScalarValue::try_from_array(column, 0)?));
            }
            found = Some(values);
        }
    }
    for warning in warnings {
        session.warn(super::WARNING, warning);
    }
    match found {
        Some(values) => {
            super::set::keep(session, values)?;
            Ok(Outcome::Done(Done { affected_rows: 1, ..Done::default() }))
        }
        None => {
            session.warn(1329, "No data - zero rows fetched, selected, or processed");
            Ok(Outcome::ok())
        }
    }
}
