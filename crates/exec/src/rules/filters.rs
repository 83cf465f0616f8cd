//! Filters that must not move below the operator under them, and comparisons in the form that DataFusion's rule reads
//! right.
//!
//! DataFusion's rule moves a filter down wherever all its columns are available, which is always true of a filter
//! without columns. An aggregate without GROUP BY or with an empty grouping set has a row even if it aggregates
//! nothing. Below it, a constant condition removes input rows, and that row remains. A volatile condition, for example
//! one with `rand()`, is evaluated on other rows there, and on more or fewer of them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Aggregate, BinaryExpr, Expr, Filter, Join, JoinType, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::simplify_expressions::simplify_predicates;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use dipper_sql::charter::wide_groups::GroupColumns;
use dipper_sql::charter::wide_windows::WindowColumns;

use crate::shared::is_shared_node;

/// DataFusion's rule, given only the conditions that it may move, each in the form of [`literal_right`].
#[derive(Debug)]
pub struct KeepAbove(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for KeepAbove {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Filter(filter) => self.filter(filter, config),
            LogicalPlan::Join(join) if has_volatile_condition(&join) => volatile_above(join),
            other => self.0.rewrite(other, config),
        }
    }
}

impl KeepAbove {
    fn filter(&self, filter: Filter, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // Collect all conditions above one operator: DataFusion merges adjacent filters by itself, and then moves them
        // all.
        let mut conditions = vec![filter.predicate.clone()];
        let mut below = Arc::clone(&filter.input);
        while let LogicalPlan::Filter(next) = below.as_ref() {
            conditions.push(next.predicate.clone());
            below = Arc::clone(&next.input);
        }
        let mut turned = false;
        let conditions = conditions.into_iter().rev().flat_map(split_conjunction_owned).map(|condition| {
            let literal_right = literal_right(condition);
            turned |= literal_right.transformed;
            literal_right.data
        });
        let mut conditions: Vec<Expr> = conditions.collect();
        // DataFusion makes FALSE of `c = 0 AND c = 3`, and moves FALSE down. Here FALSE is found to stay above.
        let simpler = simplify_predicates(conditions.clone())?;
        if simpler.len() < conditions.len() {
            turned = true;
            conditions = simpler;
        }
        let (kept, moved): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(|c| stays_above(c, &below));
        let Some(kept) = conjunction(kept) else {
            let Some(moved) = conjunction(moved).filter(|_| turned) else {
                return self.0.rewrite(LogicalPlan::Filter(filter), config);
            };
            let plan = self.0.rewrite(LogicalPlan::Filter(Filter::try_new(moved, below)?), config)?;
            return Ok(Transformed::yes(plan.data));
        };
        let Some(moved) = conjunction(moved) else {
            return Ok(match turned {
                true => Transformed::yes(LogicalPlan::Filter(Filter::try_new(kept, below)?)),
                false => Transformed::no(LogicalPlan::Filter(filter)),
            });
        };
        let moved = self.0.rewrite(LogicalPlan::Filter(Filter::try_new(moved, below)?), config)?;
        let (left, input) = match moved.data {
            LogicalPlan::Filter(left) => (left.predicate.and(kept), left.input),
            input => (kept, Arc::new(input)),
        };
        let plan = LogicalPlan::Filter(Filter::try_new(left, input)?);
        Ok(if moved.transformed { Transformed::yes(plan) } else { Transformed::no(plan) })
    }
}

/// Writes a comparison of a literal and a column with the literal on the right.
///
/// Of several comparisons of one column with literals, DataFusion's rule keeps the one that implies the others. Between
/// `v <= 1` and `1 > v` it decides by the operators as they are written, so it would take `1 > v` for the weaker one.
/// `1 = v` and `v = 1` are two different values to it, so that no row could have both.
fn literal_right(condition: Expr) -> Transformed<Expr> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if left.as_literal().is_some() && matches!(*right, Expr::Column(_)) =>
        {
            match op.swap() {
                Some(op) => Transformed::yes(Expr::BinaryExpr(BinaryExpr { left: right, op, right: left })),
                None => Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })),
            }
        }
        other => Transformed::no(other),
    }
}

/// Returns whether a condition would mean something else below `plan` than above it.
fn stays_above(condition: &Expr, plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => {
            condition.is_volatile() || has_row_of_nothing(aggregate) && condition.column_refs().is_empty()
        }
        LogicalPlan::Join(join) => condition.is_volatile() || has_volatile_condition(join),
        // All conditions: DataFusion moves those without columns below any node. Rows that several places share must be
        // those of all of them.
        LogicalPlan::Extension(extension)
            if extension.node.as_any().is::<GroupColumns>()
                || extension.node.as_any().is::<WindowColumns>()
                || is_shared_node(plan) =>
        {
            true
        }
        LogicalPlan::Distinct(_) | LogicalPlan::Window(_) | LogicalPlan::Unnest(_) | LogicalPlan::Extension(_) => {
            condition.is_volatile()
        }
        _ => false,
    }
}

/// Returns whether an aggregate has a row even if it aggregates nothing. For grouping sets it is enough that one of
/// them can be empty.
pub fn has_row_of_nothing(aggregate: &Aggregate) -> bool {
    aggregate.group_expr.iter().all(|key| matches!(key, Expr::GroupingSet(_)))
}

fn has_volatile_condition(join: &Join) -> bool {
    join.filter.as_ref().is_some_and(Expr::is_volatile)
}

/// Moves the volatile conditions of an inner join into a filter above it, so that each is evaluated once for each pair.
/// Other joins stay as they are.
fn volatile_above(join: Join) -> Result<Transformed<LogicalPlan>> {
    if join.join_type != JoinType::Inner {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    let conditions = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
    let (volatile, rest): (Vec<Expr>, Vec<Expr>) = conditions.into_iter().partition(Expr::is_volatile);
    let plan = LogicalPlan::Join(Join { filter: conjunction(rest), ..join });
    match conjunction(volatile) {
        Some(volatile) => Ok(Transformed::yes(LogicalPlan::Filter(Filter::try_new(volatile, Arc::new(plan))?))),
        None => Ok(Transformed::no(plan)),
    }
}
