//! IN (SELECT ...), EXISTS and other subqueries inside ON.
//!
//! DataFusion joins subqueries to the rows below a filter or a select list. So where a condition of ON depends on one
//! side of a join, that side gets a column with the condition's value, and ON reads the column. An inner join gets its
//! conditions with subqueries in a filter above it.
//!
//! Where a condition of an outer, semi or anti join depends on both sides, the join is made by the other conditions
//! alone, with a number for each row of the side that it keeps. The condition becomes a column above the join; windows
//! over the rows of one number tell whether one of them holds, see [`by_rows`].

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, not_impl_err};
use datafusion::functions_aggregate::min_max::max_udaf;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison, WindowFunction};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, Filter, Join, JoinType, LogicalPlan, LogicalPlanBuilder, Subquery, WindowFunctionDefinition,
    lit, when,
};

/// Prefix of the columns that hold the values of conditions; a number follows.
const CONDITION: &str = "__on_";

/// Names of the columns for the number of a row that the join keeps, and for a mark in the rows of its other side.
const ROW: &str = "__on_row";
const FOUND: &str = "__on_found";

/// Names of the columns for: whether a pair belongs to the join, as 1 or 0; the greatest of these for one row; the
/// pair's place among those of the row.
const HOLDS: &str = "__on_holds";
const ANY: &str = "__on_any";
const PLACE: &str = "__on_place";

/// Takes the conditions that have subqueries out of a join.
///
/// # Errors
/// `NotImplemented` if a condition of a FULL JOIN depends on both sides.
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
        // One filter for all: only the subqueries of the returned node are still rewritten, those of nodes below it
        // have been.
        let condition = conjunction(conditions).unwrap_or_else(|| lit(true));
        return Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(condition, Arc::new(join))?)));
    }
    let shown = join.schema.columns();
    let (mut left, mut right, mut both) = (Vec::new(), Vec::new(), Vec::new());
    for (i, condition) in conditions.into_iter().enumerate() {
        let columns = columns(&condition)?;
        let is_of = |side: &LogicalPlan| columns.iter().all(|column| side.schema().has_column(column));
        let name = format!("{CONDITION}{i}");
        let column = unqualified(&name);
        let condition = condition.alias(name);
        match (is_of(&join.left), is_of(&join.right)) {
            (true, _) => left.push(condition),
            (_, true) => right.push(condition),
            _ => {
                both.push(condition);
                continue;
            }
        }
        others.push(column);
    }
    let sides =
        Join { left: with(&join.left, left)?, right: with(&join.right, right)?, filter: conjunction(others), ..join };
    if !both.is_empty() {
        return by_rows(sides, both, shown).map(Transformed::yes);
    }
    let plan = LogicalPlanBuilder::from(LogicalPlan::Join(again(sides)?));
    Ok(Transformed::yes(plan.project(shown.into_iter().map(Expr::Column))?.build()?))
}

/// Adds columns, which may contain subqueries, to one side of a join.
fn with(side: &Arc<LogicalPlan>, values: Vec<Expr>) -> Result<Arc<LogicalPlan>> {
    if values.is_empty() {
        return Ok(Arc::clone(side));
    }
    let columns = side.schema().columns().into_iter().map(Expr::Column);
    let side = LogicalPlanBuilder::from(side.as_ref().clone()).project(columns.chain(values))?.build()?;
    Ok(Arc::new(super::subqueries::rewrite(side)?.data))
}

/// Rebuilds a join whose parts were changed.
fn again(join: Join) -> Result<Join> {
    let Join { left, right, on, filter, join_type, join_constraint, null_equality, null_aware, .. } = join;
    Join::try_new(left, right, on, filter, join_type, join_constraint, null_equality, null_aware)
}

fn unqualified(name: &str) -> Expr {
    Expr::Column(Column::new_unqualified(name))
}

/// Builds a join by conditions that depend on both sides and are columns of its pairs. Of the pairs of one row it keeps
/// those for which the conditions hold, or else the row by itself.
fn by_rows(join: Join, conditions: Vec<Expr>, shown: Vec<Column>) -> Result<LogicalPlan> {
    use JoinType as J;
    let swapped = match join.join_type {
        J::Left | J::LeftSemi | J::LeftAnti => false,
        J::Right | J::RightSemi | J::RightAnti => true,
        other => {
            return not_impl_err!(
                "a subquery in ON of a {other} join that depends on both sides: write it in a derived table of one side, or \
                 in WHERE"
            );
        }
    };
    let join_type = join.join_type;
    let (kept, other, on) = match swapped {
        false => (join.left, join.right, join.on),
        true => (join.right, join.left, join.on.into_iter().map(|(left, right)| (right, left)).collect()),
    };
    let numbered = LogicalPlanBuilder::from(kept.as_ref().clone()).window([row_number().alias(ROW)])?.build()?;
    let marked = with(&other, vec![lit(true).alias(FOUND)])?;
    let names: Vec<Expr> =
        conditions.iter().map(|condition| unqualified(&condition.schema_name().to_string())).collect();
    let pairs =
        again(Join { left: Arc::new(numbered), right: marked, on, join_type: J::Left, null_aware: false, ..join })?;
    let pairs = with(&Arc::new(LogicalPlan::Join(pairs)), conditions)?;
    let all = conjunction(names).map_or_else(|| unqualified(FOUND), |all| unqualified(FOUND).and(all));
    let holds = when(all, lit(1_i64)).otherwise(lit(0_i64))?;
    let pairs = with(&pairs, vec![holds.alias(HOLDS)])?;
    let any = WindowFunction::new(WindowFunctionDefinition::AggregateUDF(max_udaf()), vec![unqualified(HOLDS)]);
    let windows = [
        Expr::from(any).partition_by(vec![unqualified(ROW)]).build()?.alias(ANY),
        row_number().partition_by(vec![unqualified(ROW)]).build()?.alias(PLACE),
    ];
    let is = |name: &str, value: i64| unqualified(name).eq(lit(value));
    let wanted = match join_type {
        J::Left | J::Right => is(HOLDS, 1).or(is(ANY, 0).and(unqualified(PLACE).eq(lit(1_u64)))),
        J::LeftSemi | J::RightSemi => is(ANY, 1).and(unqualified(PLACE).eq(lit(1_u64))),
        _ => is(ANY, 0).and(unqualified(PLACE).eq(lit(1_u64))),
    };
    let columns = shown.into_iter().map(|column| -> Result<Expr> {
        if !other.schema().has_column(&column) {
            return Ok(Expr::Column(column));
        }
        let value = when(is(HOLDS, 1), Expr::Column(column.clone())).end()?;
        Ok(value.alias_qualified(column.relation, column.name))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(pairs.as_ref().clone()).window(windows)?.filter(wanted)?.project(columns)?.build()
}

/// Whether this is a subquery that has to be joined: a scalar one that depends on no outer row is evaluated on its own.
fn is_joined(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarSubquery(subquery) => !subquery.outer_ref_columns.is_empty(),
        other => subquery(other).is_some(),
    }
}

/// Returns the subquery that an expression is or contains directly.
pub(super) fn subquery(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}

/// Returns the columns of the join that a condition depends on, also inside its subqueries.
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
