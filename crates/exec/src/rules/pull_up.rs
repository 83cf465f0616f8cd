//! Subqueries that DataFusion must not join to the outer rows.
//!
//! DataFusion's rules for EXISTS and for scalar subqueries move conditions on outer columns up to a join of the
//! subquery with the outer rows. The operators between then see the rows for all outer values at once. That is correct
//! for projections, filters and inner joins, and for GROUP BY, to which the rules add the columns that the conditions
//! fix. An aggregate without keys, ROLLUP and CUBE lose the row that they have for no input; LIMIT, OFFSET and window
//! functions count rows of other values; the side of an outer join that may lack a partner finds partners that the
//! condition would have removed. The rules also give all columns of the subquery one qualifier, so that two columns of
//! one name become one. [`join_subqueries`] joins the subqueries with one of these operators or with such columns.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::expr::{Exists, GroupingSet, InSubquery};
use datafusion::logical_expr::logical_plan::{FetchType, Projection, SkipType};
use datafusion::logical_expr::utils::{conjunction, split_conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Cast, Distinct, Expr, ExprSchemable, Filter, JoinType, Limit, LogicalPlan, LogicalPlanBuilder,
    Operator, Subquery, SubqueryAlias, TryCast, lit,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::rules::correlated::join_subqueries;
use crate::rules::domain::{is_correlated, is_subquery};
use crate::rules::filters::has_row_of_nothing;

/// One of DataFusion's rules for subqueries, given only those that it joins correctly.
#[derive(Debug)]
pub struct PullUpSafely(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for PullUpSafely {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        self.settle(plan, config)?.transform_data(|plan| self.0.rewrite(plan, config))
    }
}

impl PullUpSafely {
    /// Joins those subqueries of a node that DataFusion would join wrongly, after those nested in them. DataFusion's
    /// rule descends into subqueries of every depth by itself: a subquery that it must not see has to be gone before.
    fn settle(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        if !has_among_expressions(&plan, |e| e.exists(|e| Ok(is_subquery(e))).unwrap_or(false)) {
            return Ok(Transformed::no(plan));
        }
        let plan = plan.map_expressions(|e| e.transform_up(plain))?;
        let plan = plan.transform_data(|plan| {
            plan.map_subqueries(|subquery| subquery.transform_down(|node| self.settle(node, config)))
        })?;
        plan.transform_data(|plan| self.join_others(plan, config))
    }

    /// Joins those subqueries of a node that DataFusion would join wrongly. In a filter, EXISTS of a subquery that
    /// always has a row becomes TRUE.
    fn join_others(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Filter(filter) => {
                let (others, own): (Vec<Expr>, Vec<Expr>) = split_conjunction_owned(filter.predicate)
                    .into_iter()
                    .partition(|condition| has_other(condition) || has_subquery_and_outer(condition));
                let others =
                    others.into_iter().map(|e| e.transform_up(fold).map(|t| t.data)).collect::<Result<Vec<_>>>()?;
                let Some(predicate) = conjunction(others) else {
                    let predicate = conjunction(own).unwrap_or_else(|| lit(true));
                    return Ok(Transformed::no(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)));
                };
                let plan = LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?);
                let plan = joined(plan, config)?;
                Ok(Transformed::yes(match conjunction(own) {
                    Some(own) => LogicalPlan::Filter(Filter::try_new(own, Arc::new(plan))?),
                    None => plan,
                }))
            }
            LogicalPlan::Projection(_) if has_among_expressions(&plan, has_other) => {
                Ok(Transformed::yes(joined(plan, config)?))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Joins all subqueries of a node that DataFusion would join wrongly or could not join.
///
/// # Errors
/// `NotImplemented` if one that it would join wrongly cannot be joined.
fn joined(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<LogicalPlan> {
    let is_wrong = has_among_expressions(&plan, has_other);
    if !is_wrong && !has_among_expressions(&plan, has_subquery_and_outer) {
        return Ok(plan);
    }
    let joined = join_subqueries(plan, config)?;
    match joined.transformed || !is_wrong {
        true => Ok(joined.data),
        false => not_impl_err!(
            "a subquery that depends on the rows outside below an aggregate without GROUP BY, ROLLUP, a window function, LIMIT or an outer join: write it as a join"
        ),
    }
}

fn has_among_expressions(plan: &LogicalPlan, wanted: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    let looked = plan.apply_expressions(|expr| {
        found |= wanted(expr);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    looked.is_ok() && found
}

/// Returns whether an expression has a subquery that DataFusion would join wrongly.
fn has_other(expr: &Expr) -> bool {
    let is_other = |e: &Expr| match e {
        Expr::Exists(exists) => {
            let plan = &exists.subquery.subquery;
            always_has_rows(plan)
                || is_correlated(e) && !(is_safe(plan, At::EXISTS) && has_clear_names(plan, plan.schema().columns()))
        }
        // The rule does not find the value without rows for a struct, nor for a value beside the number of rows.
        Expr::ScalarSubquery(subquery) => {
            let is_struct = subquery.subquery.schema().fields().iter().any(|field| field.data_type().is_nested());
            let plan = &subquery.subquery;
            is_correlated(e) && (is_struct || !is_safe(plan, At::VALUE) || !has_clear_names(plan, Vec::new()))
        }
        _ => false,
    };
    expr.exists(|e| Ok(is_other(e))).unwrap_or(false)
}

/// Returns whether the columns of conditions on outer columns within a subquery, and those in `shown`, differ in their
/// names without their qualifiers.
fn has_clear_names(plan: &LogicalPlan, shown: Vec<Column>) -> bool {
    let mut columns = shown;
    let looked = plan.apply(|node| {
        for expr in node.expressions() {
            for condition in split_conjunction(&expr).into_iter().filter(|condition| condition.contains_outer()) {
                columns.extend(condition.column_refs().into_iter().cloned());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    let is_clear = |at: usize, column: &Column| {
        columns[..at].iter().all(|other| other.name != column.name || other.relation == column.relation)
    };
    looked.is_ok() && columns.iter().enumerate().all(|(at, column)| is_clear(at, column))
}

/// Returns whether a condition within a subquery has a column of the rows outside, and a subquery that depends on the
/// rows around it, as in `EXISTS (SELECT 1 FROM t WHERE outside.v >= (SELECT sum(u.v) FROM u WHERE u.k = t.k))`.
/// DataFusion would move the condition, with the subquery in it, to a join, where no subquery can stand.
fn has_subquery_and_outer(condition: &Expr) -> bool {
    condition.contains_outer() && condition.exists(|e| Ok(is_correlated(e))).unwrap_or(false)
}

/// Replaces EXISTS of a subquery that has rows for every outer row by TRUE, or NOT EXISTS by FALSE.
fn fold(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::Exists(Exists { subquery, negated }) if always_has_rows(&subquery.subquery) => {
            Ok(Transformed::yes(lit(!negated)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Simplifies a subquery in four ways. A subquery whose conditions on outer columns have been optimized away is marked
/// as independent. EXISTS and IN over a plan that can have no row become FALSE. EXISTS drops what does
/// not change whether there are rows: an order, a LIMIT that leaves the first row, and the select list.
fn plain(expr: Expr) -> Result<Transformed<Expr>> {
    let mut changed = false;
    let mut independent = |subquery: Subquery| {
        let forgets = !subquery.outer_ref_columns.is_empty() && subquery.subquery.all_out_ref_exprs().is_empty();
        changed |= forgets;
        match forgets {
            true => Subquery { outer_ref_columns: Vec::new(), ..subquery },
            false => subquery,
        }
    };
    let expr = match expr {
        Expr::Exists(Exists { subquery, negated }) | Expr::InSubquery(InSubquery { subquery, negated, .. })
            if never_has_rows(&subquery.subquery) =>
        {
            return Ok(Transformed::yes(lit(negated)));
        }
        Expr::Exists(Exists { subquery, negated }) => {
            let mut subquery = independent(subquery);
            if let Some(plan) = some_rows(&subquery.subquery)? {
                subquery = subquery.with_plan(Arc::new(plan));
                changed = true;
            }
            if let Some(plan) = without_items(&subquery.subquery)? {
                subquery = subquery.with_plan(Arc::new(plan));
                changed = true;
            }
            Expr::Exists(Exists { subquery, negated })
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) => {
            Expr::InSubquery(InSubquery { expr, subquery: independent(subquery), negated })
        }
        Expr::ScalarSubquery(subquery) => Expr::ScalarSubquery(independent(subquery)),
        other => other,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// Returns a plan with a constant in place of the columns of a select list; `None` if there are none, or if an item is
/// more than a column.
fn without_items(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = plan else { return Ok(None) };
    match projection.expr.iter().all(|item| matches!(item.clone().unalias(), Expr::Column(_))) {
        true => {
            let rows = LogicalPlanBuilder::from(projection.input.as_ref().clone()).project([lit(1_i64)])?;
            Ok(Some(rows.build()?))
        }
        false => Ok(None),
    }
}

/// Returns a simpler plan that has rows exactly if `plan` has some; `None` if there is nothing to drop.
fn some_rows(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let input = match plan {
        LogicalPlan::Sort(sort) if sort.fetch != Some(0) => &sort.input,
        LogicalPlan::Limit(limit) if skips_nothing(limit) => &limit.input,
        LogicalPlan::Projection(Projection { input, .. }) | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. }) => {
            return some_rows(input)?.map(|input| plan.with_new_exprs(plan.expressions(), vec![input])).transpose();
        }
        _ => return Ok(None),
    };
    Ok(Some(some_rows(input)?.unwrap_or_else(|| input.as_ref().clone())))
}

fn always_has_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => always_has_rows(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => always_has_rows(&alias.input),
        LogicalPlan::Sort(sort) => sort.fetch != Some(0) && always_has_rows(&sort.input),
        LogicalPlan::Window(window) => always_has_rows(&window.input),
        LogicalPlan::Distinct(Distinct::All(input)) => always_has_rows(input),
        LogicalPlan::Union(union) => union.inputs.iter().any(|input| always_has_rows(input)),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Limit(limit) => skips_nothing(limit) && always_has_rows(&limit.input),
        LogicalPlan::Aggregate(aggregate) => match &aggregate.group_expr[..] {
            [] | [Expr::GroupingSet(GroupingSet::Rollup(_) | GroupingSet::Cube(_))] => true,
            [Expr::GroupingSet(GroupingSet::GroupingSets(sets))] => {
                sets.iter().any(Vec::is_empty) || always_has_rows(&aggregate.input)
            }
            _ => always_has_rows(&aggregate.input),
        },
        _ => false,
    }
}

/// Returns whether the form of a plan shows that it has no rows, for example with `HAVING false`.
fn never_has_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::EmptyRelation(empty) => !empty.produce_one_row,
        LogicalPlan::Filter(filter) => {
            matches!(&filter.predicate, Expr::Literal(ScalarValue::Boolean(None | Some(false)) | ScalarValue::Null, _))
                || never_has_rows(&filter.input)
        }
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type(), Ok(FetchType::Literal(Some(0)))) || never_has_rows(&limit.input)
        }
        LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Sort(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Union(_) => plan.inputs().into_iter().all(never_has_rows),
        LogicalPlan::Aggregate(aggregate) => !has_row_of_nothing(aggregate) && never_has_rows(&aggregate.input),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            never_has_rows(&join.left) || never_has_rows(&join.right)
        }
        _ => false,
    }
}

/// Returns whether LIMIT leaves the first row.
fn skips_nothing(limit: &Limit) -> bool {
    matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)))
        && matches!(limit.get_fetch_type(), Ok(FetchType::Literal(fetch)) if fetch != Some(0))
}

/// Position of a part within a subquery, as far as it matters for conditions that are moved out of that part.
#[derive(Debug, Clone, Copy)]
struct At {
    /// Only projections and aliases stand above: the first row of this part is that of the subquery.
    top: bool,
    /// The subquery is asked for its value, rather than whether it has rows.
    value: bool,
}

impl At {
    const EXISTS: At = At { top: true, value: false };
    const VALUE: At = At { top: true, value: true };

    fn below(self) -> At {
        At { top: false, ..self }
    }
}

/// Returns whether DataFusion moves the conditions on outer columns out of `plan` correctly, or does not move them.
fn is_safe(plan: &LogicalPlan, at: At) -> bool {
    if plan.all_out_ref_exprs().is_empty() {
        return true;
    }
    let depends = |plan: &LogicalPlan| !plan.all_out_ref_exprs().is_empty();
    match plan {
        LogicalPlan::Projection(projection) => is_safe(&projection.input, at),
        // The rule does not add to the derived table's columns those on which it moves conditions.
        LogicalPlan::SubqueryAlias(alias) => shows_keys(&alias.input, &alias.input) && is_safe(&alias.input, at),
        LogicalPlan::Sort(sort) => is_safe(&sort.input, at),
        LogicalPlan::Filter(filter) => is_safe(&filter.input, at.below()),
        LogicalPlan::Distinct(Distinct::All(input)) => is_safe(input, at.below()),
        LogicalPlan::Limit(limit) => at.top && (at.value || skips_nothing(limit)) && is_safe(&limit.input, at),
        LogicalPlan::Aggregate(aggregate) => {
            let keys = match has_row_of_nothing(aggregate) {
                // DataFusion knows the value of an aggregate over no rows, if nothing else is done with the row.
                true => at.value && at.top && aggregate.group_expr.is_empty(),
                false => true,
            };
            keys && !depends_twice(&aggregate.input, false)
                && (aggregate.aggr_expr.is_empty() || fixes_keys(&aggregate.input))
                && is_safe(&aggregate.input, at.below())
        }
        LogicalPlan::Join(join) => match join.join_type {
            JoinType::Inner => is_safe(&join.left, at.below()) && is_safe(&join.right, at.below()),
            JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => {
                !depends(&join.right) && is_safe(&join.left, at.below())
            }
            JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => {
                !depends(&join.left) && is_safe(&join.right, at.below())
            }
            JoinType::Full => false,
        },
        LogicalPlan::Window(_) => false,
        _ => true,
    }
}

/// Returns whether `shown` has all columns that are compared with outer ones inside `plan`.
fn shows_keys(plan: &LogicalPlan, shown: &LogicalPlan) -> bool {
    let own = match plan {
        LogicalPlan::Filter(filter) => split_conjunction(&filter.predicate).into_iter().all(|condition| {
            !condition.contains_outer() || condition.column_refs().into_iter().all(|c| shown.schema().has_column(c))
        }),
        _ => true,
    };
    own && plan.inputs().into_iter().all(|input| shows_keys(input, shown))
}

/// Returns whether conditions on outer columns stand both above a derived table and within it. The rule looks for the
/// columns of those within it among the keys of an aggregate above, which has only those of the conditions above it.
/// `above` says whether there are conditions above `plan`.
fn depends_twice(plan: &LogicalPlan, above: bool) -> bool {
    let above = match plan {
        LogicalPlan::SubqueryAlias(alias) if above && !alias.input.all_out_ref_exprs().is_empty() => return true,
        LogicalPlan::Filter(filter) => above || filter.predicate.contains_outer(),
        _ => above,
    };
    plan.inputs().into_iter().any(|input| depends_twice(input, above))
}

/// Returns whether every condition below an aggregate that compares a column with outer ones fixes it to one value.
/// Where the column is cast, several of its values may be equal after the cast, and each would be a group of its own.
fn fixes_keys(plan: &LogicalPlan) -> bool {
    let own = match plan {
        LogicalPlan::Filter(filter) => {
            split_conjunction(&filter.predicate).into_iter().all(|condition| match condition {
                Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) if condition.contains_outer() => {
                    [left, right].into_iter().all(|side| side.contains_outer() || !merges_values(side, plan))
                }
                _ => true,
            })
        }
        _ => true,
    };
    own && plan.inputs().into_iter().all(fixes_keys)
}

/// Returns whether a cast can make different values equal. Different integers stay different in another integer type.
fn merges_values(expr: &Expr, plan: &LogicalPlan) -> bool {
    match expr {
        Expr::Cast(Cast { expr: inner, .. }) | Expr::TryCast(TryCast { expr: inner, .. }) => {
            let is_integer = |e: &Expr| e.get_type(plan.schema()).is_ok_and(|t| t.is_integer());
            !is_integer(expr) || !is_integer(inner) || merges_values(inner, plan)
        }
        _ => false,
    }
}
