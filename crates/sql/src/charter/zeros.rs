//! Normalization of floats: -0.0 equals 0.0 and NaN equals NaN. Where DataFusion compares floats bit by bit, a call
//! gives equal floats the same bits.
//!
//! Joins, GROUP BY and comparisons treat both zeros of a DOUBLE as equal, but not zeros inside arrays and structs, nor
//! a NaN with a sign bit, which processors produce for infinity minus infinity, and one without. The sets of DISTINCT
//! aggregates treat neither as equal; nor do the partitions and peers of windows, nor sorts, which would order the two
//! zeros without asking the next key.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::{AggregateFunction, InList, InSubquery, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{Distinct, Projection, Subquery};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlan, ScalarUDF, Sort, SortExpr,
};

use crate::functions::one_zero_udf;

/// Normalizes the arguments of a DISTINCT aggregate, and the keys of a sorted one.
pub(super) fn aggregate(mut function: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
    let params = &mut function.params;
    let mut changed = params.distinct && plain(&mut params.args, schema);
    // With DISTINCT, the order is also that of the values that are passed on.
    changed |= sorted(&mut params.order_by, params.distinct, schema);
    Transformed::new_transformed(Expr::AggregateFunction(function), changed)
}

/// Normalizes the partitions and the order of a window function, and its arguments if it is DISTINCT.
pub(super) fn keys(mut function: Box<WindowFunction>, schema: &DFSchema) -> Transformed<Expr> {
    let params = &mut function.params;
    let mut changed = params.distinct && plain(&mut params.args, schema);
    changed |= plain(&mut params.partition_by, schema);
    changed |= sorted(&mut params.order_by, true, schema);
    Transformed::new_transformed(Expr::WindowFunction(function), changed)
}

/// Normalizes the keys of ORDER BY.
pub(super) fn order(mut sort: Sort) -> Transformed<LogicalPlan> {
    let schema = Arc::clone(sort.input.schema());
    let changed = sorted(&mut sort.expr, false, &schema);
    Transformed::new_transformed(LogicalPlan::Sort(sort), changed)
}

/// Normalizes arrays and structs that are compared.
pub(super) fn comparison(mut compared: BinaryExpr, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if compared.op.supports_propagation() {
        changed |= inside(&mut compared.left, schema);
        changed |= inside(&mut compared.right, schema);
    }
    Transformed::new_transformed(Expr::BinaryExpr(compared), changed)
}

/// Normalizes an array or struct and the list that it is compared with.
pub(super) fn in_list(mut list: InList, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = inside(&mut list.expr, schema);
    for item in &mut list.list {
        changed |= inside(item, schema);
    }
    Transformed::new_transformed(Expr::InList(list), changed)
}

/// Normalizes a value and the rows of the subquery that it is compared with.
///
/// # Errors
/// An error of building the subquery's schema.
pub(super) fn in_subquery(mut list: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let changed = same_bits(&mut list.expr, schema);
    if let Some(plan) = columns(&list.subquery.subquery)? {
        list.subquery = Subquery { subquery: Arc::new(plan), ..list.subquery };
        return Ok(Transformed::yes(Expr::InSubquery(list)));
    }
    Ok(Transformed::new_transformed(Expr::InSubquery(list), changed))
}

/// Normalizes an array or struct that is compared with those of each WHEN.
pub(super) fn case(mut case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if let Some(base) = &mut case.expr {
        changed |= inside(base, schema);
        for (when, _) in &mut case.when_then_expr {
            changed |= inside(when, schema);
        }
    }
    Transformed::new_transformed(Expr::Case(case), changed)
}

/// Normalizes rows that are compared by floats or by values that contain floats: those of GROUP BY, DISTINCT and joins,
/// which includes INTERSECT and EXCEPT.
///
/// # Errors
/// An error of building the plan's schema.
pub(super) fn rows(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Aggregate(aggregate) => groups(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) => Ok(match columns(&input)? {
            Some(input) => Transformed::yes(LogicalPlan::Distinct(Distinct::All(Arc::new(input)))),
            None => Transformed::no(LogicalPlan::Distinct(Distinct::All(input))),
        }),
        LogicalPlan::Join(mut join) => {
            let mut changed = false;
            for (left, right) in &mut join.on {
                changed |= same_bits(left, join.left.schema());
                changed |= same_bits(right, join.right.schema());
            }
            Ok(Transformed::new_transformed(LogicalPlan::Join(join), changed))
        }
        plan => Ok(Transformed::no(plan)),
    }
}

fn groups(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(aggregate.input.schema());
    let holds = |key: &Expr| key.get_type(&schema).is_ok_and(|t| holds_floats(&t));
    let in_set = |key: &Expr| match key {
        Expr::GroupingSet(set) => set.distinct_expr().into_iter().any(&holds),
        key => holds(key),
    };
    if !aggregate.group_expr.iter().any(in_set) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let names = NamePreserver::new_for_projection();
    let named = |mut key: Expr| {
        let name = names.save(&key);
        let changed = same_bits(&mut key, &schema);
        Ok(Transformed::new_transformed(name.restore(key), changed))
    };
    let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
    let group_expr = group_expr.into_iter().map(|key| match key {
        Expr::GroupingSet(_) => Ok(key.map_children(named)?.data),
        key => Ok(named(key)?.data),
    });
    let aggregate = Aggregate::try_new(input, group_expr.collect::<Result<_>>()?, aggr_expr)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

/// Projects the plan's floats to their normal form; `None` if it has none.
fn columns(plan: &Arc<LogicalPlan>) -> Result<Option<LogicalPlan>> {
    let schema = plan.schema();
    if !schema.fields().iter().any(|field| holds_floats(field.data_type())) {
        return Ok(None);
    }
    let exprs = schema.columns().into_iter().map(|column| {
        let (relation, name) = (column.relation.clone(), column.name.clone());
        let mut expr = Expr::Column(column);
        match same_bits(&mut expr, schema) {
            true => expr.alias_qualified(relation, name),
            false => expr,
        }
    });
    let exprs = exprs.collect();
    Ok(Some(LogicalPlan::Projection(Projection::try_new(exprs, Arc::clone(plan))?)))
}

/// Normalizes the keys of an order. `all`: also the last key, which no other key follows.
fn sorted(keys: &mut [SortExpr], all: bool, schema: &DFSchema) -> bool {
    let asked = if all { keys.len() } else { keys.len().saturating_sub(1) };
    let mut changed = false;
    for (at, key) in keys.iter_mut().enumerate() {
        // Inside a nested value, other parts follow after each zero.
        changed |=
            if at < asked { plain(std::slice::from_mut(&mut key.expr), schema) } else { inside(&mut key.expr, schema) };
    }
    changed
}

/// Gives equal floats the same bits, also in the rows of `COUNT(DISTINCT a, b)`; returns whether there are any.
fn plain(exprs: &mut [Expr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for expr in exprs {
        changed |= same_bits(expr, schema);
    }
    changed
}

/// Gives equal floats of one expression the same bits, like [`plain`].
pub(super) fn same_bits(expr: &mut Expr, schema: &DFSchema) -> bool {
    let holds = expr.get_type(schema).is_ok_and(|t| holds_floats(&t));
    if holds {
        *expr = one(std::mem::take(expr));
    }
    holds
}

/// Gives equal floats inside an array, map or struct the same bits, like [`same_bits`].
fn inside(expr: &mut Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|t| t.is_nested()) && same_bits(expr, schema)
}

fn one(expr: Expr) -> Expr {
    static ONE: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(one_zero_udf()));
    ONE.call(vec![expr])
}

/// Whether values of a type are floats, or hold such values.
fn holds_floats(t: &DataType) -> bool {
    match t {
        DataType::Float16 | DataType::Float32 | DataType::Float64 => true,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => holds_floats(item.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_floats(field.data_type())),
        _ => false,
    }
}
