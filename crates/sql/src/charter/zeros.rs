//! -0.0 is 0.0: where DataFusion compares floats bit by bit, the sum with 0.0, which is never -0.0, stands for them.
//!
//! Joins, GROUP BY and comparisons know both zeros for one. The sets of DISTINCT aggregates do not, nor do the partitions
//! and peers of windows, nor sorts, which would not ask the next key which of the two comes first.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, Operator, Sort, SortExpr, lit};

use super::operators::binary;

/// An aggregate over different values, and one over sorted rows.
pub(super) fn aggregate(mut function: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
    let params = &mut function.params;
    let mut changed = params.distinct && plain(&mut params.args, schema);
    // Where the values are different their order is that of the values that are given.
    changed |= sorted(&mut params.order_by, params.distinct, schema);
    Transformed::new_transformed(Expr::AggregateFunction(function), changed)
}

/// A window function by its partitions and its order, and its different values.
pub(super) fn keys(mut function: Box<WindowFunction>, schema: &DFSchema) -> Transformed<Expr> {
    let params = &mut function.params;
    let mut changed = params.distinct && plain(&mut params.args, schema);
    changed |= plain(&mut params.partition_by, schema);
    changed |= sorted(&mut params.order_by, true, schema);
    Transformed::new_transformed(Expr::WindowFunction(function), changed)
}

/// The keys of ORDER BY.
pub(super) fn order(mut sort: Sort) -> Transformed<LogicalPlan> {
    let schema = Arc::clone(sort.input.schema());
    let changed = sorted(&mut sort.expr, false, &schema);
    Transformed::new_transformed(LogicalPlan::Sort(sort), changed)
}

/// Keys of an order; `all`: the last one, too, which nothing is asked after.
fn sorted(keys: &mut [SortExpr], all: bool, schema: &DFSchema) -> bool {
    let asked = if all { keys.len() } else { keys.len().saturating_sub(1) };
    let mut changed = false;
    for key in &mut keys[..asked] {
        changed |= plain(std::slice::from_mut(&mut key.expr), schema);
    }
    changed
}

/// Adds 0.0 to floats, also in the rows of `COUNT(DISTINCT a, b)`; says whether there are any.
fn plain(exprs: &mut [Expr], schema: &DFSchema) -> bool {
    let mut changed = false;
    for expr in exprs {
        if matches!(expr.get_type(schema), Ok(DataType::Struct(_))) {
            let rows = std::mem::take(expr).transform_up(|e| match e {
                Expr::ScalarFunction(mut row) if row.func.name() == "struct" => {
                    let changed = plain(&mut row.args, schema);
                    Ok(Transformed::new_transformed(Expr::ScalarFunction(row), changed))
                }
                other => Ok(Transformed::no(other)),
            });
            // Nothing in it can fail.
            if let Ok(rows) = rows {
                changed |= rows.transformed;
                *expr = rows.data;
            }
            continue;
        }
        let zero = match expr.get_type(schema) {
            Ok(DataType::Float32) => lit(0.0_f32),
            Ok(DataType::Float64) => lit(0.0_f64),
            _ => continue,
        };
        *expr = binary(std::mem::take(expr), Operator::Plus, zero);
        changed = true;
    }
    changed
}
