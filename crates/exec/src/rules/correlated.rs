//! Scalar subqueries that depend on the outer row by something else than `=`, and EXISTS subqueries that cannot become
//! semi joins.
//!
//! DataFusion joins a correlated subquery to the outer rows by the columns that are equal, so it can do nothing where
//! the dependence is `<`, `<=>` or OR, or stands below LIMIT. The subqueries that it leaves are computed here [for all
//! outer values at once](super::domain). Then the outer rows are left joined to the result on the domain's columns, with
//! NULL equal to NULL.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{FetchType, Projection, Sort};
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{
    BinaryExpr, Cast, Expr, ExprSchemable, Filter, JoinType, LogicalPlan, LogicalPlanBuilder, Operator, Subquery,
    SubqueryAlias, TryCast, lit,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::rules::domain::{Dependent, Domain, is_correlated, outer_references};
use crate::rules::repeatable::is_repeatable;
use crate::shared::shared;

/// Optimizer rule that joins the subqueries of a SELECT list or condition that still depend on its rows. If one
/// subquery of a node cannot be joined, the node stays as it is.
pub fn join_subqueries(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let input = match &plan {
        LogicalPlan::Projection(projection) => &projection.input,
        LogicalPlan::Filter(filter) => &filter.input,
        _ => return Ok(Transformed::no(plan)),
    };
    if !plan.expressions().iter().any(|e| e.exists(|e| Ok(is_correlated(e))).unwrap_or(false)) {
        return Ok(Transformed::no(plan));
    }
    if let Some(joined) = join_all(&plan, input, config)? {
        return Ok(Transformed::yes(joined));
    }
    if is_repeatable(input)? {
        return Ok(Transformed::no(plan));
    }
    // A plan that runs twice would give other rows the second time, so it runs once for both places.
    let joined = match shared(input)? {
        Some(input) => join_all(&plan, &input, config)?,
        None => None,
    };
    Ok(joined.map_or_else(|| Transformed::no(plan), Transformed::yes))
}

/// Joins the subqueries of a node to the rows of `input`; `None` if one of them cannot be joined.
fn join_all(plan: &LogicalPlan, input: &LogicalPlan, config: &dyn OptimizerConfig) -> Result<Option<LogicalPlan>> {
    let shown = input.schema().columns();
    let mut joined = input.clone();
    let mut complete = true;
    let names = NamePreserver::new(plan);
    let exprs = plan.expressions().into_iter().map(|expr| {
        let name = names.save(&expr);
        let expr = expr.transform_down(|e| {
            if !complete || !is_correlated(&e) {
                return Ok(Transformed::no(e));
            }
            let found = match &e {
                Expr::ScalarSubquery(subquery) => join(&joined, input, subquery, config)?,
                // DataFusion did not make a semi join of this EXISTS: count the rows instead.
                Expr::Exists(exists) => join(&joined, input, &counted(&exists.subquery)?, config)?,
                _ => None,
            };
            let Some((plan, value)) = found else {
                complete = false;
                return Ok(Transformed::no(e));
            };
            joined = plan;
            let value = Expr::Column(value);
            Ok(Transformed::yes(match &e {
                Expr::Exists(exists) if exists.negated => value.eq(lit(0_i64)),
                Expr::Exists(_) => value.gt(lit(0_i64)),
                _ => value,
            }))
        })?;
        Ok(name.restore(expr.data))
    });
    let exprs: Vec<Expr> = exprs.collect::<Result<_>>()?;
    if !complete {
        return Ok(None);
    }
    let builder = LogicalPlanBuilder::from(joined);
    let plan = match plan {
        LogicalPlan::Projection(_) => builder.project(exprs)?,
        _ => exprs
            .into_iter()
            .try_fold(builder, |builder, condition| builder.filter(condition))?
            .project(shown.into_iter().map(Expr::Column))?,
    };
    Ok(Some(plan.build()?))
}

/// One of DataFusion's rules for subqueries, made to leave a plan as it is for [`join_subqueries`] where it fails, for
/// example on a dependence below two aggregates. The rule descends into subqueries by itself, so the failure may be
/// within a subquery that depends on nothing; that one waits until the inner one is joined.
#[derive(Debug)]
pub struct Forgiving(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for Forgiving {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let depends = has_correlated(&plan)?;
        let kept = depends.then(|| plan.clone());
        match (self.0.rewrite(plan, config), kept) {
            (Err(_), Some(plan)) => Ok(Transformed::no(plan)),
            (done, _) => done,
        }
    }
}

/// Returns whether a subquery of a node, or a subquery within one, depends on the rows around it.
fn has_correlated(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= expr.exists(|e| Ok(is_correlated(e)))?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        node.apply_subqueries(|subquery| {
            subquery.apply(|within| {
                found |= has_correlated(within)?;
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
    }
    Ok(found)
}

/// Returns the outer columns on which those parts of a plan depend that could not be joined.
pub fn outer_columns(plan: &LogicalPlan) -> Result<Vec<String>> {
    let mut columns = Vec::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|e| {
                if let Expr::OuterReferenceColumn(_, column) = e {
                    let name = column.flat_name();
                    if !columns.contains(&name) {
                        columns.push(name);
                    }
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(columns)
}

/// Returns a subquery that counts the rows of this one.
fn counted(subquery: &Subquery) -> Result<Subquery> {
    let rows = LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
        .aggregate(Vec::<Expr>::new(), [count(lit(1_i64)).alias("rows")])?
        .build()?;
    Ok(subquery.with_plan(Arc::new(rows)))
}

/// Joins to `rows` the value of `subquery` for each row; returns the plan and the column with the value. `rows` has the
/// rows of `outer`, perhaps with values of other subqueries. Only `outer` runs once more for this subquery: running
/// `rows` again would double the plan with every subquery. `None` if the subquery cannot be joined.
fn join(
    rows: &LogicalPlan,
    outer: &LogicalPlan,
    subquery: &Subquery,
    config: &dyn OptimizerConfig,
) -> Result<Option<(LogicalPlan, Column)>> {
    let columns = outer_references(&subquery.subquery);
    if columns.is_empty() || !columns.iter().all(|c| outer.schema().has_column(c)) || !is_single(&subquery.subquery)? {
        return Ok(None);
    }
    let Some(domain) = Domain::of(outer, &columns, config)? else { return Ok(None) };
    let value = Column::from(subquery.subquery.schema().qualified_field(0));
    let Some(Dependent { plan, domain: keys }) = domain.compute(&subquery.subquery)? else { return Ok(None) };
    let alias = config.alias_generator().next("__scalar");
    let shown = std::iter::once(Expr::Column(value.clone())).chain(keys.iter().cloned().map(Expr::Column));
    let right = LogicalPlanBuilder::from(plan).project(shown)?.alias(alias.clone())?.build()?;
    let right_keys: Vec<Column> = keys.iter().map(|key| Column::new(Some(alias.clone()), key.name())).collect();
    let on = (columns.clone(), right_keys);
    let joined = LogicalPlanBuilder::from(rows.clone())
        .join_detailed(right, JoinType::Left, on, None, NullEquality::NullEqualsNull)?
        .build()?;
    Ok(Some((joined, Column::new(Some(alias), value.name()))))
}

/// Returns whether a subquery has at most one row for each outer row.
fn is_single(plan: &LogicalPlan) -> Result<bool> {
    Ok(match plan {
        LogicalPlan::Projection(Projection { input, .. })
        | LogicalPlan::Filter(Filter { input, .. })
        | LogicalPlan::SubqueryAlias(SubqueryAlias { input, .. })
        | LogicalPlan::Sort(Sort { input, .. }) => is_single(input)?,
        LogicalPlan::Limit(limit) => {
            matches!(limit.get_fetch_type()?, FetchType::Literal(Some(0 | 1))) || is_single(&limit.input)?
        }
        LogicalPlan::Aggregate(aggregate) => {
            let sets = aggregate.group_expr.iter().any(|key| matches!(key, Expr::GroupingSet(_)));
            !sets
                && (aggregate.group_expr.iter().all(|key| is_fixed(key, &aggregate.input))
                    || is_single(&aggregate.input)?)
        }
        LogicalPlan::Join(join) => {
            is_single(&join.left)?
                && match join.join_type {
                    JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => true,
                    JoinType::Inner | JoinType::Left => is_single(&join.right)?,
                    _ => false,
                }
        }
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    })
}

/// Returns whether the filters on top of a plan let through only one value of `key` for each outer row.
fn is_fixed(key: &Expr, plan: &LogicalPlan) -> bool {
    let LogicalPlan::Filter(filter) = plan else { return false };
    // Different integers stay different in another integer type.
    let is_integer = |e: &Expr| e.get_type(plan.schema()).is_ok_and(|t| t.is_integer());
    let is_key = |e: &Expr| match e {
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) if is_integer(e) && is_integer(expr) => {
            **expr == *key
        }
        other => other == key,
    };
    let fixes = |condition: &Expr| match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq | Operator::IsNotDistinctFrom, right }) => {
            is_key(left) && right.column_refs().is_empty() || is_key(right) && left.column_refs().is_empty()
        }
        _ => false,
    };
    split_conjunction(&filter.predicate).into_iter().any(fixes) || is_fixed(key, &filter.input)
}
