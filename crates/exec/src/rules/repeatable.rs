//! Whether a plan that runs twice gives the same rows twice.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::native::SEGMENT_COLUMN;

/// Aggregates whose value does not depend on the order in which rows come, whatever the types of their arguments.
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

/// Whether a plan has the same rows each time it runs: none that are random, or chosen among equals, and no sums of
/// floating-point numbers, whose last digits depend on the order of the rows.
pub fn is_repeatable(plan: &LogicalPlan) -> Result<bool> {
    let mut repeatable = true;
    plan.apply_with_subqueries(|node| {
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

/// Whether an aggregate gives one value in whatever order rows come. Of one that is not known here this is not said.
fn is_of_all_orders(value: &Expr, schema: &DFSchema) -> bool {
    match value {
        Expr::Alias(alias) => is_of_all_orders(&alias.expr, schema),
        Expr::AggregateFunction(function) => match function.func.name() {
            name if OF_ALL_ORDERS.contains(&name) => true,
            "sum" | "avg" => function.params.args.iter().all(|arg| is_exact(arg, schema)),
            // Rows with equal keys come in any order, but for those that are the key itself.
            "array_agg" | "string_agg" | "first_value" | "last_value" => {
                let of = function.params.args.first();
                function.params.order_by.iter().any(|by| Some(&by.expr) == of || is_segment(&by.expr))
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether it is the segment that a row of an AGGREGATE table lies in: each has one row of a key.
fn is_segment(by: &Expr) -> bool {
    matches!(by, Expr::Column(column) if column.name == SEGMENT_COLUMN)
}

/// Whether sums of such values are exact: of whole numbers and decimals.
fn is_exact(arg: &Expr, schema: &DFSchema) -> bool {
    arg.get_type(schema).is_ok_and(|t| t.is_integer() || t.is_decimal() || t.is_null())
}
