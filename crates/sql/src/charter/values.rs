//! `VALUES` with values of different types in one column.
//!
//! DataFusion gives the columns of VALUES their types before any rule runs: a column of numbers and text becomes a
//! column of numbers, and values that declare different SQL types are an error. So VALUES is planned here, row by row,
//! with the types that a UNION of the rows has. The plan is a list of rows, not a UNION: rows keep their order, which
//! decides which row of an INSERT stays if two have the same key. Such a list holds only constants, so rows with
//! subqueries or with columns of an enclosing query become a UNION of SELECTs, numbered and sorted.

use std::ops::ControlFlow;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::type_coercion::binary::type_union_coercion;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use dipper_dialect::error::SqlError;
use dipper_dialect::rows;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{self, Query, SetExpr, Values};

use super::apart::{self, Kinds};
use super::mixed::{beside_floats, kind};
use super::terms::cast_to;
use super::typed::Typed;
use super::unions::declared;
use crate::class::charter_type;

/// Rewrites VALUES with subqueries or columns in its cells as a UNION of SELECTs.
pub(super) fn with_queries(query: &mut Query) {
    struct Selects;
    impl Change for Selects {
        fn query(&mut self, query: &mut Query) -> std::result::Result<(), SqlError> {
            as_selects(&mut query.body);
            Ok(())
        }
    }
    // Rewriting cannot fail.
    let _ = walk::change(query, &mut Selects);
}

fn as_selects(body: &mut SetExpr) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            as_selects(left);
            as_selects(right);
        }
        SetExpr::Values(values) => {
            let width = values.rows.first().map_or(0, |row| row.len());
            let has_length = values.rows.iter().all(|row| row.len() == width);
            if !has_length || !values.rows.iter().flat_map(|row| row.iter()).any(reads) {
                return;
            }
            let cells = std::mem::take(&mut values.rows).into_iter().map(|row| row.content).collect();
            if let Some(selects) = rows::in_order(cells) {
                *body = SetExpr::Query(Box::new(selects));
            }
        }
        _ => {}
    }
}

/// Whether a cell has a subquery or a name. In VALUES a name can only be a column of an enclosing query.
fn reads(cell: &ast::Expr) -> bool {
    ast::visit_expressions(cell, |e| match e {
        ast::Expr::Subquery(_)
        | ast::Expr::Exists { .. }
        | ast::Expr::InSubquery { .. }
        | ast::Expr::Identifier(_)
        | ast::Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Whether VALUES has several rows, and a column with other values than NULL and literals of one kind. Rows of
/// different lengths are left to the planner, which refuses them.
pub(super) fn are_mixed(values: &Values) -> bool {
    let Some(first) = values.rows.first() else { return false };
    let width = first.len();
    if values.rows.len() < 2 || values.rows.iter().any(|row| row.len() != width) {
        return false;
    }
    let is_null = |e: &ast::Expr| matches!(e, ast::Expr::Value(value) if matches!(value.value, ast::Value::Null));
    let is_plain = |column: usize| {
        let mut kinds = values.rows.iter().map(|row| &row[column]).filter(|cell| !is_null(cell)).map(kind);
        match kinds.next() {
            None => true,
            Some(None) => false,
            Some(first) => kinds.all(|kind| kind == first),
        }
    };
    !(0..width).all(is_plain)
}

/// Whether a query consists only of VALUES that [`plan`] plans.
pub(super) fn are_all(query: &Query) -> bool {
    let plain =
        query.with.is_none() && query.order_by.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    plain && matches!(query.body.as_ref(), SetExpr::Values(values) if are_mixed(values))
}

/// Plans VALUES for which [`are_mixed`] is true.
///
/// # Errors
/// A planning error if the values of a column have no common type; the errors of planning a value.
pub(super) fn plan(body: SetExpr, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let SetExpr::Values(values) = body else { return plan_err!("no VALUES to plan") };
    let nothing = DFSchema::empty();
    let mut rows = Vec::with_capacity(values.rows.len());
    for row in values.rows {
        let cells = row.content.into_iter().map(|cell| context.sql_to_expr(cell, &nothing));
        rows.push(cells.collect::<Result<Vec<Expr>>>()?);
    }
    for column in 0..rows[0].len() {
        of_one_type(&mut rows, column, &nothing)?;
    }
    LogicalPlanBuilder::values(rows)?.build()
}

/// Gives the values of a column one type, and one declared SQL type. Values that keep types of their own become parts
/// of structs.
fn of_one_type(rows: &mut [Vec<Expr>], column: usize, nothing: &DFSchema) -> Result<()> {
    let mut is_apart = false;
    for row in rows.iter_mut().filter(|row| apart::is_marked(&row[column])) {
        is_apart = true;
        row[column] = apart::unmarked(std::mem::take(&mut row[column]));
    }
    let values = rows.iter_mut().map(|row| std::mem::take(&mut row[column])).collect();
    for (row, value) in rows.iter_mut().zip(beside_floats(values, nothing)) {
        row[column] = value;
    }
    let fields = rows.iter().map(|row| Ok(row[column].to_field(nothing)?.1)).collect::<Result<Vec<FieldRef>>>()?;
    if is_apart && let Some(kinds) = Kinds::of(fields.iter().map(|field| field.data_type())) {
        for (row, field) in rows.iter_mut().zip(&fields) {
            row[column] = kinds.part(std::mem::take(&mut row[column]), field.data_type())?;
        }
        return Ok(());
    }
    let types: Vec<DataType> = fields.iter().map(|f| f.data_type().clone()).filter(|t| !t.is_null()).collect();
    let Some(first) = types.first() else { return Ok(()) };
    let wanted = match types.iter().all(|t| t == first) {
        true => first.clone(),
        false => match charter_type(types.iter()).or_else(|| union_type(&types)) {
            Some(wanted) => wanted,
            None => return plan_err!("the values of column {} of VALUES have no common type", column + 1),
        },
    };
    let is_alike = fields.windows(2).all(|pair| pair[0].metadata() == pair[1].metadata());
    // DataFusion refuses columns whose values declare different SQL types. An empty text declares none.
    let declared = declared(fields.iter()).or_else(|| (!is_alike).then(String::new));
    for row in rows {
        let value = match std::mem::take(&mut row[column]) {
            Expr::Literal(ScalarValue::Null, _) => Expr::Literal(ScalarValue::try_from(&wanted)?, None),
            value => cast_to(value, wanted.clone(), nothing),
        };
        row[column] = match &declared {
            Some(text) => Typed::declare(value, text),
            None => value,
        };
    }
    Ok(())
}

/// Returns the common type that DataFusion gives to a UNION; `None` if it has none.
fn union_type(types: &[DataType]) -> Option<DataType> {
    let mut types = types.iter().cloned();
    let first = types.next()?;
    types.try_fold(first, |common, t| type_union_coercion(&common, &t))
}
