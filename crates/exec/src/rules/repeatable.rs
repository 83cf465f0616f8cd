//! Decides whether a plan that runs twice gives the same rows twice.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::native::SEGMENT_COLUMN;
use crate::shared::is_shared_node;

/// Aggregates whose value does not depend on the order of their input rows, for all argument types.
const OF_ALL_ORDERS: [&str; 17] = [
    "count",
    "min",
    "max",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "median",
    "percentile_cont",
    "approx_distinct",
    "bitmap_union",
    "bitmap_union_count",
    "bitmap_union_int",
    "bitmap_intersect",
    "hll_union",
    "hll_union_agg",
];

/// Returns whether a plan gives the same rows each time it runs: it has no random values, chooses no rows among equals,
/// and has no sums of floating-point numbers, whose last digits depend on the order of the rows. A plan whose copies
/// share their rows gives the same rows.
pub fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut repeatable = true;
    plan.apply_with_subqueries(|node| {
        if is_shared_node(node) {
            return Ok(TreeNodeRecursion::Jump);
        }
        repeatable = !node.expressions().iter().any(Expr::is_volatile)
            && match node {
                LogicalPlan::Limit(_) | LogicalPlan::Window(_) => false,
                LogicalPlan::Sort(sort) => sort.fetch.is_none(),
                LogicalPlan::TableScan(scan) => scan.fetch.is_none(),
                LogicalPlan::Aggregate(aggregate) => {
                    let schema = aggregate.input.schema();
                    aggregate.aggr_expr.iter().all(|value| is_of_all_orders(value, schema))
                }
                _ => true,
            };
        Ok(if repeatable { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(repeatable)
}

/// Returns whether an aggregate gives the same value for every order of its input rows. False for aggregates that are
/// not known here.
fn is_of_all_orders(value: &Expr, schema: &DFSchema) -> bool {
    match value {
        Expr::Alias(alias) => is_of_all_orders(&alias.expr, schema),
        Expr::AggregateFunction(function) => match function.func.name() {
            name if OF_ALL_ORDERS.contains(&name) => true,
            "sum" | "avg" => function.params.args.iter().all(|arg| is_exact(arg, schema)),
            // Rows with equal sort keys come in any order; that does not matter if the argument is the sort key itself.
            "array_agg" | "string_agg" | "first_value" | "last_value" => {
                let of = function.params.args.first();
                function.params.order_by.iter().any(|by| Some(&by.expr) == of || is_segment(&by.expr))
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns whether an expression is the segment of a row of an AGGREGATE table. Each segment has at most one row per
/// key, so it gives a total order of the rows of a key.
fn is_segment(by: &Expr) -> bool {
    matches!(by, Expr::Column(column) if column.name == SEGMENT_COLUMN)
}

/// Returns whether sums of these values are exact: those of integers and decimals are.
fn is_exact(arg: &Expr, schema: &DFSchema) -> bool {
    arg.get_type(schema).is_ok_and(|t| t.is_integer() || t.is_decimal() || t.is_null())
}
