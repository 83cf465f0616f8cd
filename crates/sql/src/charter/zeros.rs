//! -0.0 is 0.0: where DataFusion compares floats bit by bit, the sum with 0.0, which is never -0.0, stands for them.
//!
//! Joins, GROUP BY and comparisons know both zeros for one. The sets of DISTINCT aggregates do not, nor do the partitions
//! and peers of windows.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, lit};

use arrow::datatypes::DataType;

use super::operators::binary;

/// An aggregate over different values.
pub(super) fn distinct(mut function: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
    let changed = function.params.distinct && plain(&mut function.params.args, schema);
    Transformed::new_transformed(Expr::AggregateFunction(function), changed)
}

/// A window function by its partitions and its order, and its different values.
pub(super) fn keys(mut function: Box<WindowFunction>, schema: &DFSchema) -> Transformed<Expr> {
    let params = &mut function.params;
    let mut changed = params.distinct && plain(&mut params.args, schema);
    changed |= plain(&mut params.partition_by, schema);
    for key in &mut params.order_by {
        changed |= plain(std::slice::from_mut(&mut key.expr), schema);
    }
    Transformed::new_transformed(Expr::WindowFunction(function), changed)
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
