//! A subquery computed for all outer values at once (Neumann and Kemper, "Unnesting Arbitrary Queries", 2015).
//!
//! 1. The *domain*: the distinct values of the outer columns that the subquery mentions. The plan that produces them
//!    runs a second time if it produces the same values again, or else once for both places. Where each operator of the
//!    subquery works on one row at a time, the domain is the outer rows themselves, and nothing runs twice.
//! 2. The subquery, with the domain joined where it first depends on it. Each operator above keeps the domain's
//!    columns: GROUP BY has them among its keys, LIMIT counts rows for each of their values.
//! 3. An aggregate without keys has a row for every value of the domain, even where there was nothing to aggregate.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, NullEquality, Result, ScalarValue};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::{Exists, GroupingSet, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::{FetchType, Projection, SkipType, Unnest};
use datafusion::logical_expr::utils::{conjunction, enumerate_grouping_sets, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, ExprSchemable, Filter, Join, JoinType, Limit, LogicalPlan,
    LogicalPlanBuilder, Operator, SortExpr, Union, Window, binary_expr, lit, when,
};
use datafusion::optimizer::optimize_projections::OptimizeProjections;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::rules::repeatable::is_repeatable;

/// Returns whether an expression is a subquery that depends on the outer rows.
pub(super) fn is_correlated(expr: &Expr) -> bool {
    let (Expr::ScalarSubquery(subquery)
    | Expr::Exists(Exists { subquery, .. })
    | Expr::InSubquery(InSubquery { subquery, .. })) = expr
    else {
        return false;
    };
    !subquery.outer_ref_columns.is_empty()
}

/// Returns whether an expression is a subquery of any kind.
pub(super) fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) | Expr::ScalarSubquery(_))
}

/// Returns the outer columns that a plan mentions, each once.
pub(super) fn outer_references(plan: &LogicalPlan) -> Vec<Column> {
    let mut columns = Vec::new();
    for reference in plan.all_out_ref_exprs() {
        if let Expr::OuterReferenceColumn(_, column) = reference
            && !columns.contains(&column)
        {
            columns.push(column);
        }
    }
    columns
}

/// The beginning of the names of domains.
const DOMAIN: &str = "__domain";

/// Returns whether a plan has a domain already.
pub(super) fn has_domain(plan: &LogicalPlan) -> Result<bool> {
    plan.exists(|node| Ok(matches!(node, LogicalPlan::SubqueryAlias(alias) if alias.alias.table().starts_with(DOMAIN))))
}

/// The outer values for which a subquery is computed.
pub(super) struct Domain<'a> {
    /// A plan of the distinct values of `columns`.
    values: LogicalPlan,
    columns: &'a [Column],
    config: &'a dyn OptimizerConfig,
}

/// A plan that computes a subquery for all values of the domain at once.
pub(super) struct Dependent {
    pub(super) plan: LogicalPlan,
    /// The domain's columns in the plan, in the order of the domain.
    pub(super) domain: Vec<Column>,
}

impl<'a> Domain<'a> {
    /// Makes the domain of these columns of `outer`; `None` if its values may differ when it runs a second time.
    pub(super) fn of(
        outer: &LogicalPlan,
        columns: &'a [Column],
        config: &'a dyn OptimizerConfig,
    ) -> Result<Option<Self>> {
        let keys = columns.iter().cloned().map(Expr::Column);
        let values = LogicalPlanBuilder::from(outer.clone()).aggregate(keys, Vec::<Expr>::new())?.build()?;
        // Only the parts of the plan on which the values depend have to be repeatable.
        let values = OptimizeProjections::new().rewrite(values, config)?.data;
        Ok(is_repeatable(&values)?.then_some(Domain { values, columns, config }))
    }

    /// Makes the domain of all rows of `outer`, which has these columns. Equal rows are not distinct in it, so it serves
    /// only plans that [work on one row at a time](follows_rows).
    pub(super) fn of_rows(outer: &LogicalPlan, columns: &'a [Column], config: &'a dyn OptimizerConfig) -> Self {
        Domain { values: outer.clone(), columns, config }
    }

    /// Returns the domain itself, under a name of its own.
    fn rows(&self) -> Result<Dependent> {
        let alias = self.config.alias_generator().next(DOMAIN);
        let named = |(i, key): (usize, &Column)| Expr::Column(key.clone()).alias(format!("{alias}_{i}"));
        let names: Vec<Expr> = self.columns.iter().enumerate().map(named).collect();
        let domain =
            (0..self.columns.len()).map(|i| Column::new(Some(alias.clone()), format!("{alias}_{i}"))).collect();
        let plan = LogicalPlanBuilder::from(self.values.clone()).project(names)?.alias(alias)?.build()?;
        Ok(Dependent { plan, domain })
    }

    /// Replaces outer columns of an expression by those of the domain; `None` if a subquery within it depends on outer
    /// rows. Columns of queries farther out stay what they are.
    fn inside(&self, expr: Expr, domain: &[Column]) -> Result<Option<Expr>> {
        if expr.exists(|e| Ok(is_correlated(e)))? {
            return Ok(None);
        }
        let inside = expr.transform_up(|e| match e {
            Expr::OuterReferenceColumn(field, column) => {
                let at = self.columns.iter().position(|c| *c == column);
                Ok(match at {
                    Some(at) => Transformed::yes(Expr::Column(domain[at].clone())),
                    None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
                })
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(Some(inside.data))
    }

    fn all_inside(&self, exprs: &[Expr], domain: &[Column], names: &NamePreserver) -> Result<Option<Vec<Expr>>> {
        let inside = exprs.iter().map(|expr| {
            let name = names.save(expr);
            Ok(self.inside(expr.clone(), domain)?.map(|e| name.restore(e)))
        });
        inside.collect()
    }

    /// Computes a whole subquery for each value of the domain; `None` if something in it is not supported.
    pub(super) fn compute(&self, subquery: &LogicalPlan) -> Result<Option<Dependent>> {
        if asks_for_grouping(subquery)? { Ok(None) } else { self.within(subquery) }
    }

    /// Computes `plan` for each value of the domain; `None` if one of its operators is not supported.
    fn within(&self, plan: &LogicalPlan) -> Result<Option<Dependent>> {
        if plan.all_out_ref_exprs().is_empty() {
            let Dependent { plan: rows, domain } = self.rows()?;
            let plan = LogicalPlanBuilder::from(plan.clone()).cross_join(rows)?.build()?;
            return Ok(Some(Dependent { plan, domain }));
        }
        match plan {
            LogicalPlan::Filter(filter) => self.filter(filter),
            LogicalPlan::Projection(projection) => {
                let Some(Dependent { plan: input, domain }) = self.within(&projection.input)? else { return Ok(None) };
                let Some(mut exprs) = self.all_inside(&projection.expr, &domain, &NamePreserver::new(plan))? else {
                    return Ok(None);
                };
                exprs.extend(domain.iter().cloned().map(Expr::Column));
                let plan = LogicalPlanBuilder::from(input).project(exprs)?.build()?;
                Ok(Some(Dependent { plan, domain }))
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let Some(Dependent { plan, domain }) = self.within(&alias.input)? else { return Ok(None) };
                let plan = LogicalPlanBuilder::from(plan).alias(alias.alias.clone())?.build()?;
                let domain = domain.iter().map(|c| Column::new(Some(alias.alias.clone()), c.name())).collect();
                Ok(Some(Dependent { plan, domain }))
            }
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let Some(Dependent { plan, domain }) = self.within(input)? else { return Ok(None) };
                Ok(Some(Dependent { plan: LogicalPlanBuilder::from(plan).distinct()?.build()?, domain }))
            }
            // An order without a LIMIT means nothing within a subquery.
            LogicalPlan::Sort(sort) if sort.fetch.is_none() => self.within(&sort.input),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            _ => Ok(None),
        }
    }

    /// Takes lists apart; the domain's columns are carried along.
    fn unnest(&self, unnest: &Unnest) -> Result<Option<Dependent>> {
        let Some(Dependent { plan, domain }) = self.within(&unnest.input)? else { return Ok(None) };
        let plan = LogicalPlanBuilder::from(plan)
            .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
            .build()?;
        Ok(Some(Dependent { plan, domain }))
    }

    /// Makes window functions see the rows of one value of the domain at a time.
    fn window(&self, window: &Window) -> Result<Option<Dependent>> {
        let Some(Dependent { plan: input, domain }) = self.within(&window.input)? else { return Ok(None) };
        let names = NamePreserver::new_for_projection();
        let Some(exprs) = self.all_inside(&window.window_expr, &domain, &names)? else { return Ok(None) };
        let partitioned = exprs.into_iter().map(|expr| {
            let name = names.save(&expr);
            let expr = expr.transform_down(|e| match e {
                Expr::WindowFunction(mut function) => {
                    function.params.partition_by.extend(domain.iter().cloned().map(Expr::Column));
                    Ok(Transformed::new(Expr::WindowFunction(function), true, TreeNodeRecursion::Jump))
                }
                other => Ok(Transformed::no(other)),
            })?;
            Ok(name.restore(expr.data))
        });
        let plan = LogicalPlanBuilder::from(input).window(partitioned.collect::<Result<Vec<_>>>()?)?.build()?;
        Ok(Some(Dependent { plan, domain }))
    }

    /// Joins the rows of all inputs, each with the domain's columns behind its own.
    fn union(&self, union: &Union) -> Result<Option<Dependent>> {
        let alias = self.config.alias_generator().next(DOMAIN);
        let named = |i: usize| format!("{alias}_{i}");
        let mut rows: Option<LogicalPlanBuilder> = None;
        for input in &union.inputs {
            let Some(Dependent { plan, domain }) = self.within(input)? else { return Ok(None) };
            let own = input.schema().columns().into_iter().zip(union.schema.fields());
            let own = own.map(|(column, field)| Expr::Column(column).alias(field.name()));
            let keys = domain.into_iter().enumerate().map(|(i, key)| Expr::Column(key).alias(named(i)));
            let input = LogicalPlanBuilder::from(plan).project(own.chain(keys))?;
            rows = Some(match rows {
                Some(rows) => rows.union(input.build()?)?,
                None => input,
            });
        }
        let Some(rows) = rows else { return Ok(None) };
        let rows = rows.build()?;
        let outside = union.schema.columns();
        let shown = rows.schema().columns().into_iter().enumerate().map(|(i, column)| {
            let relation = outside.get(i).and_then(|outside| outside.relation.clone());
            let name = column.name.clone();
            Expr::Column(column).alias_qualified(relation, name)
        });
        let plan = LogicalPlanBuilder::from(rows.clone()).project(shown.collect::<Vec<_>>())?.build()?;
        let domain = (0..self.columns.len()).map(|i| Column::new_unqualified(named(i))).collect();
        Ok(Some(Dependent { plan, domain }))
    }

    fn filter(&self, filter: &Filter) -> Result<Option<Dependent>> {
        if !filter.input.all_out_ref_exprs().is_empty() {
            let Some(Dependent { plan, domain }) = self.within(&filter.input)? else { return Ok(None) };
            let Some(predicate) = self.inside(filter.predicate.clone(), &domain)? else { return Ok(None) };
            let plan = LogicalPlanBuilder::from(plan).filter(predicate)?.build()?;
            return Ok(Some(Dependent { plan, domain }));
        }
        let Dependent { plan: rows, domain } = self.rows()?;
        let (depends, own): (Vec<Expr>, Vec<Expr>) =
            split_conjunction_owned(filter.predicate.clone()).into_iter().partition(Expr::contains_outer);
        let depends = depends.into_iter().map(|c| self.inside(c, &domain)).collect::<Result<Option<Vec<_>>>>()?;
        let own = own.into_iter().map(|c| self.inside(c, &domain)).collect::<Result<Option<Vec<_>>>>()?;
        let (Some(depends), Some(own)) = (depends, own) else { return Ok(None) };
        let mut input = LogicalPlanBuilder::from(filter.input.as_ref().clone());
        if let Some(own) = conjunction(own) {
            input = input.filter(own)?;
        }
        // A subquery, or a column of a query farther out, has rules that look for it in filters only.
        let above = |e: &Expr| e.contains_outer() || e.exists(|e| Ok(is_subquery(e))).unwrap_or(true);
        let (above, on): (Vec<Expr>, Vec<Expr>) = depends.into_iter().partition(above);
        let mut plan = match on.is_empty() {
            true => input.cross_join(rows)?,
            false => input.join_on(rows, JoinType::Inner, on)?,
        };
        if let Some(above) = conjunction(above) {
            plan = plan.filter(above)?;
        }
        Ok(Some(Dependent { plan: plan.build()?, domain }))
    }

    fn aggregate(&self, aggregate: &Aggregate) -> Result<Option<Dependent>> {
        let sets = aggregate.group_expr.iter().any(|e| matches!(e, Expr::GroupingSet(_)));
        let nothing = match sets {
            true => empty_sets(&aggregate.group_expr)?,
            false => usize::from(aggregate.group_expr.is_empty()),
        };
        if nothing > 1 {
            return Ok(None);
        }
        let Some(Dependent { plan: input, domain }) = self.within(&aggregate.input)? else { return Ok(None) };
        let names = NamePreserver::new_for_projection();
        let Some(mut keys) = self.all_inside(&aggregate.group_expr, &domain, &names)? else { return Ok(None) };
        let Some(values) = self.all_inside(&aggregate.aggr_expr, &domain, &names)? else { return Ok(None) };
        // Each grouping set gets the domain's columns.
        keys.extend(domain.iter().cloned().map(Expr::Column));
        let grouped = LogicalPlanBuilder::from(input).aggregate(keys, values)?;
        if nothing == 0 {
            return Ok(Some(Dependent { plan: grouped.build()?, domain }));
        }
        let indicator = self.config.alias_generator().next("__found");
        let grouped = grouped.build()?;
        let all = grouped.schema().columns().into_iter().map(Expr::Column);
        let all: Vec<Expr> = all.chain([lit(true).alias(&indicator)]).collect();
        let grouped = LogicalPlanBuilder::from(grouped).project(all)?.build()?;
        let Dependent { plan: rows, domain: every } = self.rows()?;
        let on = (every.clone(), domain);
        let plan = LogicalPlanBuilder::from(rows)
            .join_detailed(grouped, JoinType::Left, on, None, NullEquality::NullEqualsNull)?
            .build()?;
        let found = Expr::Column(Column::new_unqualified(indicator));
        let own = aggregate.schema.columns();
        let (keys, values) = own.split_at(own.len() - aggregate.aggr_expr.len());
        let mut shown: Vec<Expr> = keys.iter().cloned().map(Expr::Column).collect();
        for (column, value) in values.iter().cloned().zip(&aggregate.aggr_expr) {
            let of_none = of_no_rows(value, aggregate)?;
            let column_expr = Expr::Column(column.clone());
            shown.push(match of_none.is_null() {
                true => column_expr,
                false => when(found.clone().is_null(), Expr::Literal(of_none, None))
                    .otherwise(column_expr)?
                    .alias_qualified(column.relation.clone(), column.name()),
            });
        }
        shown.extend(every.iter().cloned().map(Expr::Column));
        let plan = LogicalPlanBuilder::from(plan).project(shown)?.build()?;
        Ok(Some(Dependent { plan, domain: every }))
    }

    /// Makes LIMIT count the rows of each value of the domain, in the order of the Sort below it.
    fn limit(&self, limit: &Limit) -> Result<Option<Dependent>> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) = (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Ok(None);
        };
        // The Sort may use columns that the select list above it has dropped; so compute the select list above the
        // LIMIT.
        if let LogicalPlan::Projection(projection) = limit.input.as_ref()
            && let LogicalPlan::Sort(_) = projection.input.as_ref()
        {
            let below = LogicalPlan::Limit(Limit { input: Arc::clone(&projection.input), ..limit.clone() });
            let above = Projection::try_new(projection.expr.clone(), Arc::new(below))?;
            return self.within(&LogicalPlan::Projection(above));
        }
        let (input, order): (&LogicalPlan, &[SortExpr]) = match limit.input.as_ref() {
            LogicalPlan::Sort(sort) => (&sort.input, &sort.expr),
            other => (other, &[]),
        };
        let Some(Dependent { plan, domain }) = self.within(input)? else { return Ok(None) };
        let mut sorts = Vec::with_capacity(order.len());
        for sort in order {
            let Some(expr) = self.inside(sort.expr.clone(), &domain)? else { return Ok(None) };
            sorts.push(SortExpr { expr, ..sort.clone() });
        }
        let keys: Vec<Expr> = domain.iter().cloned().map(Expr::Column).collect();
        let number = self.config.alias_generator().next("__row");
        let numbered = row_number().partition_by(keys).order_by(sorts).build()?.alias(&number);
        let shown: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let at = Expr::Column(Column::new_unqualified(number));
        let first = u64::try_from(skip).unwrap_or(u64::MAX);
        let mut wanted = at.clone().gt(lit(first));
        if let Some(fetch) = fetch {
            let last = first.saturating_add(u64::try_from(fetch).unwrap_or(u64::MAX));
            wanted = wanted.and(at.lt_eq(lit(last)));
        }
        let plan = LogicalPlanBuilder::from(plan).window([numbered])?.filter(wanted)?.project(shown)?.build()?;
        Ok(Some(Dependent { plan, domain }))
    }

    /// Handles joins of which only one side depends on the domain, if each result row has a row of that side, and joins
    /// of which both sides do.
    fn join(&self, join: &Join) -> Result<Option<Dependent>> {
        let right_depends = !join.right.all_out_ref_exprs().is_empty();
        let left_depends = !join.left.all_out_ref_exprs().is_empty();
        let mut one_value: Vec<Expr> = Vec::new();
        let (left, right, domain) = match (left_depends, right_depends, join.join_type) {
            (
                _,
                false,
                JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark,
            ) if !join.null_aware => {
                let Some(Dependent { plan, domain }) = self.within(&join.left)? else { return Ok(None) };
                (plan, join.right.as_ref().clone(), domain)
            }
            (
                false,
                true,
                JoinType::Inner | JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark,
            ) => {
                let Some(Dependent { plan, domain }) = self.within(&join.right)? else { return Ok(None) };
                (join.left.as_ref().clone(), plan, domain)
            }
            // Rows of both sides meet where they belong to the same value of the domain.
            (_, _, kind) if kind != JoinType::Full && !join.null_aware => {
                let (Some(left), Some(right)) = (self.within(&join.left)?, self.within(&join.right)?) else {
                    return Ok(None);
                };
                let pairs = left.domain.iter().zip(&right.domain);
                let same = pairs.map(|(l, r)| {
                    let (l, r) = (Expr::Column(l.clone()), Expr::Column(r.clone()));
                    binary_expr(l, Operator::IsNotDistinctFrom, r)
                });
                one_value = same.collect();
                let is_of_left = matches!(
                    kind,
                    JoinType::Inner | JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark
                );
                (left.plan, right.plan, if is_of_left { left.domain } else { right.domain })
            }
            _ => return Ok(None),
        };
        let keys = join.on.iter().map(|(l, r)| {
            let (l, r) = (self.inside(l.clone(), &domain)?, self.inside(r.clone(), &domain)?);
            Ok(l.zip(r))
        });
        let Some(on) = keys.collect::<Result<Option<Vec<_>>>>()? else { return Ok(None) };
        let filter = match &join.filter {
            None => None,
            Some(filter) => match self.inside(filter.clone(), &domain)? {
                None => return Ok(None),
                some => some,
            },
        };
        let plan = Join::try_new(
            Arc::new(left),
            Arc::new(right),
            on,
            conjunction(filter.into_iter().chain(one_value)),
            join.join_type,
            join.join_constraint,
            join.null_equality,
            join.null_aware,
        )?;
        Ok(Some(Dependent { plan: LogicalPlan::Join(plan), domain }))
    }
}

/// Returns whether each operator of a plan above the place of its outer columns works on one row at a time, and there is
/// one such place.
pub(super) fn follows_rows(plan: &LogicalPlan) -> bool {
    let depends = |plan: &LogicalPlan| !plan.all_out_ref_exprs().is_empty();
    match plan {
        _ if !depends(plan) => true,
        LogicalPlan::Filter(_)
        | LogicalPlan::Projection(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Unnest(_) => plan.inputs().into_iter().all(follows_rows),
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            !(depends(&join.left) && depends(&join.right)) && follows_rows(&join.left) && follows_rows(&join.right)
        }
        _ => false,
    }
}

/// Returns how many of the grouping sets are empty.
fn empty_sets(keys: &[Expr]) -> Result<usize> {
    let sets = enumerate_grouping_sets(keys.to_vec())?;
    let empty = |set: &GroupingSet| match set {
        GroupingSet::GroupingSets(sets) => sets.iter().filter(|set| set.is_empty()).count(),
        GroupingSet::Rollup(_) | GroupingSet::Cube(_) => 1,
    };
    Ok(sets.iter().map(|key| if let Expr::GroupingSet(set) = key { empty(set) } else { 0 }).sum())
}

/// Returns whether a plan asks which grouping set a row belongs to. The numbers of the sets change once each set has
/// more columns.
fn asks_for_grouping(plan: &LogicalPlan) -> Result<bool> {
    let mut asks = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            asks |= expr.exists(|e| Ok(matches!(e, Expr::Column(c) if c.name == Aggregate::INTERNAL_GROUPING_ID)))?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(asks)
}

/// Returns the value of an aggregate over no rows: 0 for COUNT, NULL for most others.
fn of_no_rows(value: &Expr, aggregate: &Aggregate) -> Result<ScalarValue> {
    let data_type = value.get_type(aggregate.input.schema())?;
    match value {
        Expr::Alias(alias) => of_no_rows(&alias.expr, aggregate),
        Expr::AggregateFunction(function) => function.func.default_value(&data_type),
        _ => ScalarValue::try_from(&data_type),
    }
}
