//! SQL types of columns of an outer query in its subqueries.
//!
//! The planner puts a copy of the outer column's field into the subquery. Where the outer query computes the column, the
//! copy lacks what only [`declared`] finds out: the digits of a DATETIME, and that a text is a document.

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::declared;

/// Gives the columns of this plan in its subqueries the types that they have in its inputs, and derives what follows.
///
/// # Errors
/// An error of building a plan's schema.
pub(super) fn settle(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let mut found = false;
    plan.apply_subqueries(|subquery| {
        found |= matches!(subquery, LogicalPlan::Subquery(subquery) if !subquery.outer_ref_columns.is_empty());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    let outer = merge_schema(&plan.inputs());
    plan.map_subqueries(|subquery| {
        let known = subquery.transform_up_with_subqueries(|node| {
            node.map_expressions(|expr| expr.transform_up(|expr| Ok(typed(expr, &outer))))
        })?;
        match known.transformed {
            true => known.transform_data(|subquery| subquery.transform_up_with_subqueries(derived)),
            false => Ok(known),
        }
    })
}

fn typed(expr: Expr, outer: &DFSchema) -> Transformed<Expr> {
    let Expr::OuterReferenceColumn(field, column) = &expr else { return Transformed::no(expr) };
    let is_open = declared::may_say_more(field.data_type()) && declared::said(field).is_none();
    let known = || {
        let known = outer.maybe_index_of_column(column).map(|at| outer.field(at))?;
        (known.data_type() == field.data_type()).then(|| declared::said(known)).flatten()
    };
    match known().filter(|_| is_open) {
        Some(text) => {
            let field = declared::with_text(field, text.to_string());
            Transformed::yes(Expr::OuterReferenceColumn(field, column.clone()))
        }
        None => Transformed::no(expr),
    }
}

/// Derives the types of a node of a subquery once more.
fn derived(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_up(|expr| match expr {
            Expr::ScalarFunction(function) => Ok(declared::arguments(function, &schema)),
            expr => Ok(Transformed::no(expr)),
        })?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })?;
    plan.map_data(declared::schema)
}
