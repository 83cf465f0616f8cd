//! `IN (SELECT ...)` with SQL's three-valued logic, wherever it stands.
//!
//! DataFusion turns `IN` into a semi join and `NOT IN` into a null-aware anti join where they are conditions of their
//! own and the subquery is not correlated. Under OR, NOT, CASE and IS NULL, and in correlated subqueries, it would take
//! NULL for FALSE: there `x IN (S)` is rewritten to EXISTS, which is never NULL. In select lists EXISTS is rewritten to
//! a count. Below aggregates, window functions and sorts, a projection provides the values of subqueries, since
//! DataFusion joins subqueries with select lists and conditions only.
//!
//! `x > ANY (S)` and similar comparisons use the least or greatest value of S, `= ANY` is IN, and ALL is NOT ANY of the
//! opposite operator.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, ExprSchema, Result, ScalarValue, Spans, not_impl_err, plan_err,
};
use datafusion::functions_aggregate::expr_fn::{count, max, min};
use datafusion::logical_expr::expr::{Alias, Cast, Exists, InSubquery, SetComparison, SetQuantifier, TryCast};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, disjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, LogicalPlanBuilder, Operator, Sort, Subquery, lit, when,
};

use super::typed::{CAST_NAME, TYPED_NAME};
use super::{compare, join_conditions, lateral, one_row};
use crate::class::Class;
use crate::functions::{bitmap_contains_udf, bitmap_union};
use crate::metadata::set_type;
use crate::type_text::Sql;

/// The column of a subquery that was put below EXISTS: no outer column has this name.
const ELEMENT: &str = "__in_element";

/// Prefix of the columns that hold the values of subqueries; a number follows.
const VALUE: &str = "__subquery_";

/// The value of a condition that matters: TRUE, FALSE, or exactly which of the three it is. For the first two, the
/// other value and NULL need not be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    True,
    False,
    Exact,
}

impl Wanted {
    fn of_opposite(self) -> Self {
        match self {
            Wanted::True => Wanted::False,
            Wanted::False => Wanted::True,
            Wanted::Exact => Wanted::Exact,
        }
    }
}

/// Rewrites the subqueries among a node's expressions.
///
/// # Errors
/// `NotImplemented` if a subquery depends on a query that is not the one directly around it, or has an aggregate of
/// columns of that query only.
pub(super) fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let plan = lateral::settle(plan)?.transform_data(|plan| match plan {
        LogicalPlan::Join(join) => join_conditions::rewrite(join),
        other => Ok(Transformed::no(other)),
    })?;
    let plan = plan.transform_data(sort_columns)?;
    let plan = plan.transform_data(bitmaps)?;
    plan.transform_data(one_row::rewrite)?.transform_data(quantified)?.transform_data(rewrite_unquantified)
}

fn rewrite_unquantified(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    depend_on_one_level(&plan)?;
    aggregates_of_own_rows(&plan)?;
    match plan {
        LogicalPlan::Filter(filter) if has(&filter.predicate, |e| matches!(e, Expr::InSubquery(_))) => {
            let schema = Arc::clone(filter.input.schema());
            let conditions = split_conjunction_owned(filter.predicate).into_iter().map(|c| condition(c, &schema));
            let predicate = conjunction(conditions.collect::<Result<Vec<_>>>()?).unwrap_or_else(|| lit(true));
            Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(predicate, filter.input)?)))
        }
        LogicalPlan::Projection(_) | LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_) => {
            let schema: DFSchemaRef = Arc::new(merge_schema(&plan.inputs()));
            let names = NamePreserver::new(&plan);
            let rewritten = plan.map_expressions(|e| {
                if !has(&e, |e| matches!(e, Expr::InSubquery(_) | Expr::Exists(_))) {
                    return Ok(Transformed::no(e));
                }
                let name = names.save(&e);
                let counted = value(e, Wanted::Exact, &schema)?.transform_up(exists_as_count)?.data;
                Ok(Transformed::yes(name.restore(counted)))
            })?;
            let rewritten = match rewritten.transformed {
                true => Transformed::yes(rewritten.data.recompute_schema()?),
                false => rewritten,
            };
            rewritten.transform_data(values_below)
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Adds to a select list below ORDER BY the columns that subqueries of ORDER BY depend on. The planner itself adds only
/// those that stand in ORDER BY directly.
fn sort_columns(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(sort) = plan else { return Ok(Transformed::no(plan)) };
    let LogicalPlan::Projection(projection) = sort.input.as_ref() else {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    };
    let mut missing: Vec<Column> = Vec::new();
    for by in &sort.expr {
        by.expr.apply(|e| {
            for reference in join_conditions::subquery(e).map(|s| &s.outer_ref_columns).into_iter().flatten() {
                if let Expr::OuterReferenceColumn(_, column) = reference
                    && !missing.contains(column)
                    && !projection.schema.has_column(column)
                    && projection.input.schema().has_column(column)
                {
                    missing.push(column.clone());
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    if missing.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Sort(sort)));
    }
    let shown = projection.schema.columns().into_iter().map(Expr::Column);
    let columns = projection.expr.iter().cloned().chain(missing.into_iter().map(Expr::Column));
    let input = LogicalPlanBuilder::from(projection.input.as_ref().clone()).project(columns)?.build()?;
    let sorted = rewrite(LogicalPlan::Sort(Sort { input: Arc::new(input), expr: sort.expr, fetch: sort.fetch }))?.data;
    Ok(Transformed::yes(LogicalPlanBuilder::from(sorted).project(shown)?.build()?))
}

/// Rewrites `k IN (SELECT bitmap ...)` and `k = ANY (SELECT bitmap ...)` to membership in the union of the bitmaps.
fn bitmaps(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let set = |e: &Expr| match e {
        Expr::InSubquery(InSubquery { subquery, .. }) | Expr::SetComparison(SetComparison { subquery, .. }) => {
            set_type(subquery.subquery.schema().field(0)).map(str::to_owned)
        }
        _ => None,
    };
    let mut found = false;
    plan.apply_expressions(|e| {
        found |= has(e, |e| set(e).is_some());
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|e| {
        let name = names.save(&e);
        let e = e.transform_up(|e| {
            let Some(set) = set(&e) else { return Ok(Transformed::no(e)) };
            let (expr, subquery, negated) = match e {
                Expr::InSubquery(InSubquery { expr, subquery, negated }) => (expr, subquery, negated),
                Expr::SetComparison(SetComparison {
                    expr,
                    subquery,
                    op: Operator::Eq,
                    quantifier: SetQuantifier::Any,
                }) => (expr, subquery, false),
                Expr::SetComparison(SetComparison {
                    expr,
                    subquery,
                    op: Operator::NotEq,
                    quantifier: SetQuantifier::All,
                }) => (expr, subquery, true),
                _ => return plan_err!("{} values of a subquery do not compare by an order", set.to_uppercase()),
            };
            Ok(Transformed::yes(in_bitmaps(*expr, subquery, negated, &set, &schema)?))
        })?;
        Ok(e.update_data(|e| name.restore(e)))
    })?;
    rewritten.map_data(LogicalPlan::recompute_schema)
}

/// Returns `x IN (S)` where S has one column of bitmaps: NULL if x is, and else whether one of the bitmaps contains it.
fn in_bitmaps(x: Expr, subquery: Subquery, negated: bool, set: &str, schema: &DFSchema) -> Result<Expr> {
    let field = x.to_field(schema)?.1;
    let of = field.data_type().clone();
    let class = Class::of(&of);
    if set != "bitmap" || !(class.is_integer() || class == Class::Null) || set_type(&field).is_some() {
        let of = set_type(&field).map_or_else(|| Sql(&of).to_string(), str::to_uppercase);
        return plan_err!(
            "IN: {of} beside a subquery of {} values; integers can be members of BITMAPs",
            set.to_uppercase()
        );
    }
    let Subquery { subquery, outer_ref_columns, spans } = subquery;
    let element = Expr::from(subquery.schema().qualified_field(0));
    let union = bitmap_union().call(vec![element]).alias("value");
    let plan = LogicalPlanBuilder::from(subquery.as_ref().clone()).aggregate(Vec::<Expr>::new(), [union])?.build()?;
    let union = Expr::ScalarSubquery(Subquery { subquery: Arc::new(plan), outer_ref_columns, spans });
    // There is no union of no bitmaps.
    let contains = bitmap_contains_udf().call(vec![union, x.clone()]);
    let is_in = when(x.is_null(), lit(ScalarValue::Boolean(None))).when(contains, lit(true)).otherwise(lit(false))?;
    Ok(if negated { Expr::Not(Box::new(is_in)) } else { is_in })
}

/// Rewrites comparisons with ANY and ALL.
fn quantified(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let is_quantified = |e: &Expr| matches!(e, Expr::SetComparison(_));
    let mut found = false;
    plan.apply_expressions(|e| {
        found |= has(e, is_quantified);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !found {
        return Ok(Transformed::no(plan));
    }
    let schema = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|e| {
        let name = names.save(&e);
        let e = e.transform_up(|e| match e {
            Expr::SetComparison(comparison) => comparison_with_any(comparison, &schema),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(e.update_data(|e| name.restore(e)))
    })?;
    rewritten.map_data(LogicalPlan::recompute_schema)
}

/// Rewrites `x op ANY (S)` and `x op ALL (S)`: with the least and greatest values of S, or with EXISTS if S is
/// correlated.
fn comparison_with_any(comparison: SetComparison, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let SetComparison { expr, subquery, op: written, quantifier } = comparison;
    // The types are aligned before the least or greatest value is taken: the least text is not the least number.
    let InSubquery { expr, subquery, .. } = alike(InSubquery { expr, subquery, negated: false }, schema)?;
    let all = quantifier == SetQuantifier::All;
    let op = match all {
        true => written.negate(),
        false => Some(written),
    };
    let any = match op {
        Some(Operator::Eq) => Expr::InSubquery(InSubquery { expr, subquery, negated: false }),
        Some(op) if subquery.outer_ref_columns.is_empty() => {
            let x = *expr;
            let plan = subquery.subquery;
            let element = Expr::from(plan.schema().qualified_field(0));
            let of_all = |aggregate: Expr| -> Result<Expr> {
                let plan = LogicalPlanBuilder::from(plan.as_ref().clone())
                    .aggregate(Vec::<Expr>::new(), [aggregate.alias("value")])?
                    .build()?;
                let subquery =
                    Subquery { subquery: Arc::new(plan), outer_ref_columns: Vec::new(), spans: Spans::new() };
                Ok(Expr::ScalarSubquery(subquery))
            };
            let bounds = match op {
                Operator::Gt | Operator::GtEq => vec![min(element.clone())],
                Operator::Lt | Operator::LtEq => vec![max(element.clone())],
                _ => vec![min(element.clone()), max(element.clone())],
            };
            let holds = bounds.into_iter().map(|bound| compare::compare(op, x.clone(), of_all(bound)?, schema));
            let holds = disjunction(holds.collect::<Result<Vec<_>>>()?).unwrap_or_else(|| lit(false));
            let (rows, known) = (of_all(count(lit(1i64)))?, of_all(count(element))?);
            when(holds, lit(true))
                .when(rows.clone().eq(lit(0i64)), lit(false))
                .when(x.is_null().or(known.not_eq(rows)), lit(ScalarValue::Boolean(None)))
                .otherwise(lit(false))?
        }
        Some(op) => {
            let Within { inner, element, x, outer, spans } = Within::of(*expr, subquery, schema)?;
            let holds = compare::compare(op, x, element, inner.schema())?;
            let unknown = exists_where(&inner, holds.clone().is_null(), outer.clone(), spans.clone())?;
            when(exists_where(&inner, holds, outer, spans)?, lit(true))
                .when(unknown, lit(ScalarValue::Boolean(None)))
                .otherwise(lit(false))?
        }
        None => {
            let comparison = SetComparison { expr, subquery, op: written, quantifier };
            return Ok(Transformed::yes(Expr::SetComparison(comparison)));
        }
    };
    Ok(Transformed::yes(if all { Expr::Not(Box::new(any)) } else { any }))
}

/// Moves subqueries among the expressions of an aggregate, window or sort into columns of a projection below, if one of
/// them depends on its rows.
fn values_below(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let grouping_sets = |e: &Expr| matches!(e, Expr::GroupingSet(_));
    let depends = |e: &Expr| matches!(e, Expr::ScalarSubquery(subquery) if !subquery.outer_ref_columns.is_empty());
    if !matches!(plan, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) | LogicalPlan::Sort(_))
        || plan.expressions().iter().any(grouping_sets)
        || !plan.expressions().iter().any(|e| has(e, depends))
    {
        return Ok(Transformed::no(plan));
    }
    let mut values: Vec<Expr> = Vec::new();
    let names = NamePreserver::new(&plan);
    let rewritten = plan.map_expressions(|e| {
        let name = names.save(&e);
        let e = e.transform_down(|e| match e {
            value @ Expr::ScalarSubquery(_) => {
                let at = values.iter().position(|v| *v == value).unwrap_or_else(|| {
                    values.push(value);
                    values.len() - 1
                });
                Ok(Transformed::yes(Expr::Column(Column::new_unqualified(format!("{VALUE}{at}")))))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(e.update_data(|e| name.restore(e)))
    })?;
    let plan = rewritten.data;
    let inputs = plan.inputs();
    let input = inputs[0].clone();
    let shown: Vec<Expr> = match plan {
        LogicalPlan::Aggregate(_) => Vec::new(),
        _ => plan.schema().columns().into_iter().map(Expr::Column).collect(),
    };
    let columns = input.schema().columns().into_iter().map(Expr::Column);
    let values = values.into_iter().enumerate().map(|(at, value)| value.alias(format!("{VALUE}{at}")));
    let columns: Vec<Expr> = columns.chain(values).collect();
    let below = LogicalPlanBuilder::from(input).project(columns)?.build()?;
    let plan = plan.with_new_exprs(plan.expressions(), vec![below])?;
    Ok(Transformed::yes(match shown.is_empty() {
        true => plan,
        false => LogicalPlanBuilder::from(plan).project(shown)?.build()?,
    }))
}

fn depend_on_one_level(plan: &LogicalPlan) -> Result<()> {
    plan.apply_expressions(|expr| {
        expr.apply(|e| {
            let (Expr::ScalarSubquery(subquery)
            | Expr::Exists(Exists { subquery, .. })
            | Expr::InSubquery(InSubquery { subquery, .. })) = e
            else {
                return Ok(TreeNodeRecursion::Continue);
            };
            for reference in &subquery.outer_ref_columns {
                if let Expr::OuterReferenceColumn(_, column) = reference
                    && !plan.inputs().iter().any(|input| input.schema().has_column(column))
                {
                    return two_levels_below(column);
                }
            }
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(())
}

/// Refuses an aggregate over columns of the query around only, as in `(SELECT count(a.k) FROM b)` within a query of `a`.
/// It is an aggregate of that query, over the rows of `a`, although it is written in the subquery.
fn aggregates_of_own_rows(plan: &LogicalPlan) -> Result<()> {
    let LogicalPlan::Aggregate(aggregate) = plan else { return Ok(()) };
    let of_others = |e: &Expr| matches!(e, Expr::AggregateFunction(_)) && e.contains_outer() && !e.any_column_refs();
    match aggregate.aggr_expr.iter().any(|e| has(e, of_others)) {
        true => not_impl_err!(
            "an aggregate of columns of the query around a subquery, which is one of that query; write it there"
        ),
        false => Ok(()),
    }
}

fn two_levels_below<T>(column: &Column) -> Result<T> {
    not_impl_err!(
        "column '{column}' in a subquery two levels below its table: a subquery can use columns of the query directly around it; \
         write it as a join"
    )
}

fn has(expr: &Expr, wanted: impl Fn(&Expr) -> bool) -> bool {
    expr.exists(|e| Ok(wanted(e))).unwrap_or(false)
}

/// Rewrites one of the conditions that a filter joins by AND.
fn condition(expr: Expr, schema: &DFSchema) -> Result<Expr> {
    match expr {
        // In a correlated subquery, DataFusion would give a cast and the column that it casts the same name.
        Expr::InSubquery(is_in)
            if is_in.subquery.outer_ref_columns.is_empty()
                && (!is_in.negated || columns_say_nulls(&is_in.expr, schema)?) =>
        {
            Ok(Expr::InSubquery(alike(is_in, schema)?))
        }
        Expr::Not(inner) => match *inner {
            Expr::InSubquery(is_in) => {
                condition(Expr::InSubquery(InSubquery { negated: !is_in.negated, ..is_in }), schema)
            }
            other => value(Expr::Not(Box::new(other)), Wanted::True, schema),
        },
        other => value(other, Wanted::True, schema),
    }
}

/// Whether DataFusion can tell from the columns of `x NOT IN (S)` that NULLs count. If x is a constant that is not in
/// S, it forgets the NULLs of S; an expression over columns without NULLs it takes for one without NULLs.
fn columns_say_nulls(x: &Expr, schema: &DFSchema) -> Result<bool> {
    let columns = x.column_refs();
    let may_be_null = |column: &&Column| schema.field_from_column(column).is_ok_and(|field| field.is_nullable());
    Ok(stays_a_column(x) && (!x.nullable(schema)? || columns.iter().any(may_be_null)))
}

/// Whether an expression is a column, or a cast of one. DataFusion simplifies others before it plans the join:
/// `CASE WHEN k IS NOT NULL THEN 0 END` over a column without NULLs becomes 0, and so does `k * 0`.
fn stays_a_column(x: &Expr) -> bool {
    match x {
        Expr::Column(_) => true,
        Expr::Alias(Alias { expr, .. }) | Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            stays_a_column(expr)
        }
        Expr::ScalarFunction(f) => [CAST_NAME, TYPED_NAME].contains(&f.func.name()) && stays_a_column(&f.args[0]),
        _ => false,
    }
}

/// Removes IN (SELECT ...) from an expression, keeping the part of its value that is wanted.
fn value(expr: Expr, wanted: Wanted, schema: &DFSchema) -> Result<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (left, right) = (value(*left, wanted, schema)?, value(*right, wanted, schema)?);
            Ok(Expr::BinaryExpr(BinaryExpr { left: Box::new(left), op, right: Box::new(right) }))
        }
        Expr::Not(inner) => Ok(Expr::Not(Box::new(value(*inner, wanted.of_opposite(), schema)?))),
        Expr::InSubquery(is_in) if is_in.negated => {
            Ok(Expr::Not(Box::new(membership(is_in, wanted.of_opposite(), schema)?)))
        }
        Expr::InSubquery(is_in) => membership(is_in, wanted, schema),
        other => other.map_children(|e| Ok(Transformed::yes(value(e, Wanted::Exact, schema)?))).map(|t| t.data),
    }
}

/// Rewrites `x IN (S)`, without its negation: TRUE if S contains x; else NULL if S contains NULL, or if x is NULL and S
/// has rows. A value that cannot be converted to the type of the comparison is NULL there.
fn membership(is_in: InSubquery, wanted: Wanted, schema: &DFSchema) -> Result<Expr> {
    let is_in = alike(is_in, schema)?;
    let nullable = is_in.subquery.subquery.schema().field(0).is_nullable();
    let outer_ref_columns = is_in.subquery.outer_ref_columns.clone();
    let Within { inner, element, x, outer, spans } = Within::of(is_in.expr.as_ref().clone(), is_in.subquery, schema)?;
    let exists = |plan: LogicalPlan, outer: Vec<Expr>| {
        let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns: outer, spans: spans.clone() };
        Expr::Exists(Exists { subquery, negated: false })
    };
    let within = |predicate: Expr| LogicalPlanBuilder::from(inner.clone()).filter(predicate)?.build();
    let found = exists(within(x.eq(element.clone()))?, outer);
    if wanted == Wanted::True {
        return Ok(found);
    }
    let mut unknown = Vec::new();
    if nullable {
        unknown.push(exists(within(element.is_null())?, outer_ref_columns.clone()));
    }
    if is_in.expr.nullable(schema)? {
        unknown.push(is_in.expr.is_null().and(exists(inner.clone(), outer_ref_columns)));
    }
    Ok(match (disjunction(unknown), wanted) {
        (None, _) => found,
        (Some(unknown), Wanted::Exact) => {
            when(found, lit(true)).when(unknown, lit(ScalarValue::Boolean(None))).otherwise(lit(false))?
        }
        (Some(unknown), _) => found.or(unknown),
    })
}

/// A subquery together with an outer value beside each of its rows.
struct Within {
    /// The subquery's plan, with one column.
    inner: LogicalPlan,
    element: Expr,
    /// The outer value as it is written inside the subquery, and all outer columns that are referenced then.
    x: Expr,
    outer: Vec<Expr>,
    spans: Spans,
}

impl Within {
    /// Combines a subquery with the outer value `x`.
    ///
    /// # Errors
    /// `NotImplemented` if the value depends on a query outside the one that contains the subquery.
    fn of(x: Expr, subquery: Subquery, schema: &DFSchema) -> Result<Within> {
        x.apply(|e| match e {
            Expr::OuterReferenceColumn(_, column) => two_levels_below(column),
            _ => Ok(TreeNodeRecursion::Continue),
        })?;
        let Subquery { subquery, outer_ref_columns: mut outer, spans } = subquery;
        let (qualifier, field) = subquery.schema().qualified_field(0);
        let element = Expr::from((qualifier, field)).alias(ELEMENT);
        let inner = LogicalPlanBuilder::from(Arc::unwrap_or_clone(subquery)).project([element])?.build()?;
        let x = x.transform(|e| match e {
            Expr::Column(column) => {
                let field = Arc::clone(schema.field_from_column(&column)?);
                let reference = Expr::OuterReferenceColumn(field, column);
                outer.push(reference.clone());
                Ok(Transformed::yes(reference))
            }
            other => Ok(Transformed::no(other)),
        })?;
        Ok(Within { inner, element: Expr::Column(Column::new_unqualified(ELEMENT)), x: x.data, outer, spans })
    }
}

fn exists_where(inner: &LogicalPlan, condition: Expr, outer: Vec<Expr>, spans: Spans) -> Result<Expr> {
    let plan = LogicalPlanBuilder::from(inner.clone()).filter(condition)?.build()?;
    let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns: outer, spans };
    Ok(Expr::Exists(Exists { subquery, negated: false }))
}

/// Converts both sides of a membership to types that compare like `=` does.
fn alike(is_in: InSubquery, schema: &DFSchema) -> Result<InSubquery> {
    let InSubquery { expr, subquery, negated } = is_in;
    let inner = subquery.subquery.schema();
    let (qualifier, field) = inner.qualified_field(0);
    let element = Expr::from((qualifier, field));
    let t = expr.get_type(schema)?;
    let (x, like_x) = {
        let (lt, rt) = (&t, field.data_type());
        compare::sides((*expr).clone(), lt, Class::of(lt), element.clone(), rt, Class::of(rt), &both(schema, inner)?)
    };
    let subquery = match like_x == element {
        true => subquery,
        false => Subquery {
            subquery: Arc::new(
                LogicalPlanBuilder::from(subquery.subquery.as_ref().clone())
                    .project([like_x.alias("value")])?
                    .build()?,
            ),
            ..subquery
        },
    };
    Ok(InSubquery { expr: Box::new(x), subquery, negated })
}

fn both(outer: &DFSchema, inner: &DFSchema) -> Result<DFSchema> {
    let mut schema = inner.clone();
    schema.merge(outer);
    Ok(schema)
}

/// Rewrites `EXISTS (S)` to `(SELECT count(1) FROM S) > 0`, which may stand in a select list.
fn exists_as_count(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::Exists(Exists { subquery, negated }) = expr else { return Ok(Transformed::no(expr)) };
    let rows = LogicalPlanBuilder::from(Arc::unwrap_or_clone(subquery.subquery))
        .aggregate(Vec::<Expr>::new(), [count(lit(1i64)).alias("rows")])?
        .build()?;
    let rows = Expr::ScalarSubquery(Subquery {
        subquery: Arc::new(rows),
        outer_ref_columns: subquery.outer_ref_columns,
        spans: Spans::new(),
    });
    let zero = lit(0i64);
    Ok(Transformed::yes(if negated { rows.eq(zero) } else { rows.gt(zero) }))
}
