//! States of aggregates (AGG_STATE) are neither compared nor sorted nor grouped: two states of the same rows may have
//! different bytes. As in Doris, what would do so is refused.

use arrow::datatypes::Field;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, not_impl_err};
use datafusion::logical_expr::expr::{AggregateFunction, Between, InList, WindowFunction};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, WindowFunctionDefinition,
};

use crate::functions::is_combined;
use crate::metadata::{is_state_type, set_type};

/// Refuses the operations of a plan's node that would compare states.
///
/// # Errors
/// `NotImplemented` for the first of them.
pub(super) fn check(plan: &LogicalPlan) -> Result<()> {
    let inputs = plan.inputs();
    let holds = |field: &Field| set_type(field).is_some_and(is_state_type);
    if !inputs.iter().any(|input| input.schema().fields().iter().any(|field| holds(field))) {
        return Ok(());
    }
    let schema = merge_schema(&inputs);
    let refuse = |expr: &Expr, what: &str| refuse(expr, &schema, what);
    match plan {
        LogicalPlan::Sort(sort) => sort.expr.iter().try_for_each(|key| refuse(&key.expr, "ORDER BY"))?,
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.iter().try_for_each(|key| match key {
            Expr::GroupingSet(set) => set.distinct_expr().into_iter().try_for_each(|key| refuse(key, "GROUP BY")),
            key if follows(key, &aggregate.group_expr, aggregate.input.schema()) => Ok(()),
            key => refuse(key, "GROUP BY"),
        })?,
        LogicalPlan::Distinct(Distinct::All(input)) if input.schema().fields().iter().any(|field| holds(field)) => {
            return not_comparable("DISTINCT");
        }
        LogicalPlan::Join(join) => {
            join.on.iter().try_for_each(|(left, _)| refuse(left, "a condition of a join"))?;
        }
        _ => {}
    }
    plan.apply_expressions(|expr| {
        expr.apply(|part| {
            compared(part, &refuse)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

/// Whether a key follows from the others, so that rows with equal other keys are one row. DataFusion adds such keys.
fn follows(key: &Expr, keys: &[Expr], input: &DFSchema) -> bool {
    let place = |key: &Expr| match key {
        Expr::Column(column) => input.maybe_index_of_column(column),
        _ => None,
    };
    let Some(at) = place(key) else { return false };
    let others: Vec<usize> = keys.iter().filter_map(place).filter(|other| *other != at).collect();
    input.functional_dependencies().iter().any(|dependence| {
        dependence.target_indices.contains(&at) && dependence.source_indices.iter().all(|from| others.contains(from))
    })
}

/// Hands the operands that an expression compares or sorts to `refuse`.
fn compared(expr: &Expr, refuse: &impl Fn(&Expr, &str) -> Result<()>) -> Result<()> {
    let all = |operands: &[Expr], what: &str| operands.iter().try_for_each(|operand| refuse(operand, what));
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if !matches!(op, Operator::And | Operator::Or) => {
            refuse(left, &op.to_string())?;
            refuse(right, &op.to_string())
        }
        Expr::Between(Between { expr, .. }) => refuse(expr, "BETWEEN"),
        Expr::InList(InList { expr, .. }) => refuse(expr, "IN"),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            let keeps = matches!(func.name(), "count" | "any_value" | "first_value" | "last_value");
            if !keeps && !is_combined(func.name()) || params.distinct {
                all(&params.args, &func.name().to_uppercase())?;
            }
            params.order_by.iter().try_for_each(|key| refuse(&key.expr, "ORDER BY"))
        }
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, params } = window.as_ref();
            if let WindowFunctionDefinition::AggregateUDF(func) = fun
                && matches!(func.name(), "min" | "max")
            {
                all(&params.args, &func.name().to_uppercase())?;
            }
            all(&params.partition_by, "PARTITION BY")?;
            params.order_by.iter().try_for_each(|key| refuse(&key.expr, "ORDER BY"))
        }
        _ => Ok(()),
    }
}

fn refuse(expr: &Expr, schema: &DFSchema, what: &str) -> Result<()> {
    let Ok((_, field)) = expr.to_field(schema) else { return Ok(()) };
    match set_type(&field) {
        Some(text) if is_state_type(text) => not_comparable(what),
        _ => Ok(()),
    }
}

fn not_comparable(what: &str) -> Result<()> {
    not_impl_err!(
        "{what} of AGG_STATE values is not supported: states have no order and do not compare; merge them first, as in sum_merge(s)"
    )
}
