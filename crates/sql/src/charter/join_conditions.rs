//! IN (SELECT ...), EXISTS and other subqueries inside ON.
//!
//! DataFusion joins subqueries to the rows below a filter or a select list. So where a condition depends on one side of a join,
//! that side gets a column with the condition's value, which ON asks for. An inner join has conditions with subqueries above it.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery};

/// Columns that have the values of conditions, with a number behind.
const CONDITION: &str = "__on_";

/// Takes the conditions with subqueries out of a join.
///
/// # Errors
/// A condition of an outer join depends on both sides.
pub(super) fn rewrite(join: Join) -> Result<Transformed<LogicalPlan>> {
    let Some(filter) = join.filter.clone() else { return Ok(Transformed::no(LogicalPlan::Join(join))) };
    let (mut others, mut conditions) = (Vec::new(), Vec::new());
    for condition in split_conjunction_owned(filter) {
        if condition.exists(|e| Ok(is_joined(e)))? { conditions.push(condition) } else { others.push(condition) }
    }
    if conditions.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    if join.join_type == JoinType::Inner {
        let join = LogicalPlan::Join(Join { filter: conjunction(others), ..join });
        let plan = conditions
            .into_iter()
            .try_fold(join, |plan, condition| Filter::try_new(condition, Arc::new(plan)).map(LogicalPlan::Filter))?;
        return Ok(Transformed::yes(plan));
    }
    let shown = join.schema.columns();
    let (mut left, mut right) = (Vec::new(), Vec::new());
    for (i, condition) in conditions.into_iter().enumerate() {
        let columns = columns(&condition)?;
        let is_of = |side: &LogicalPlan| columns.iter().all(|column| side.schema().has_column(column));
        let name = format!("{CONDITION}{i}");
        others.push(Expr::Column(Column::new_unqualified(&name)));
        let condition = condition.alias(name);
        match (is_of(&join.left), is_of(&join.right)) {
            (true, _) => left.push(condition),
            (_, true) => right.push(condition),
            _ => {
                return not_impl_err!(
                    "a subquery in ON of an outer join that depends on both sides: write it in a derived table of one side, \
                     or in WHERE"
                );
            }
        }
    }
    let with = |side: &Arc<LogicalPlan>, values: Vec<Expr>| -> Result<Arc<LogicalPlan>> {
        if values.is_empty() {
            return Ok(Arc::clone(side));
        }
        let columns = side.schema().columns().into_iter().map(Expr::Column);
        let side = LogicalPlanBuilder::from(side.as_ref().clone()).project(columns.chain(values))?.build()?;
        Ok(Arc::new(super::subqueries::rewrite(side)?.data))
    };
    let joined = Join::try_new(
        with(&join.left, left)?,
        with(&join.right, right)?,
        join.on,
        conjunction(others),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let plan = LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(shown.into_iter().map(Expr::Column))?;
    Ok(Transformed::yes(plan.build()?))
}

/// Whether it is a subquery that has to be joined: a value that depends on no row outside is found by itself.
fn is_joined(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        other => subquery(other).is_some(),
    }
}

/// The subquery that an expression is, or has beside a value.
pub(super) fn subquery(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// The columns of the join that a condition depends on, also inside its subqueries.
fn columns(condition: &Expr) -> Result<Vec<Column>> {
    let mut columns = Vec::new();
    condition.apply(|e| {
        if let Expr::Column(column) = e {
            columns.push(column.clone());
        }
        for outer in subquery(e).map(|subquery| &subquery.outer_ref_columns).into_iter().flatten() {
            if let Expr::OuterReferenceColumn(_, column) = outer {
                columns.push(column.clone());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(columns)
}
