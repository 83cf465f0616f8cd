//! Joins by `<=>` beside joins by `=`.
//!
//! A DataFusion join says once for all its keys whether NULL equals NULL. Its rule against cross joins takes a tree of
//! inner joins and the filter above apart and builds it anew with what the topmost join says, and its rule that finds keys
//! adds `=` to the keys of `<=>`: rows with NULL would meet in joins by `=`, or be lost in joins by `<=>`.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::logical_plan::Projection;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Filter, Join, JoinType, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::correlated::{Forgiving, join_subqueries};
use crate::in_lists::Settled;

/// DataFusion's rules, [`Settled`] around the one that simplifies expressions, with [`keep_apart`] ahead of the one against cross joins and [`take_back`] of the one for keys, and
/// [`join_subqueries`] for what the one for scalar subqueries leaves.
pub(crate) fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules = Optimizer::new().rules;
    for (before, rule) in [
        ("eliminate_cross_join", Rule { name: "keep_null_equal_joins_apart", rewrite: keep_apart }),
        ("extract_equijoin_predicate", Rule { name: "take_back_null_equal_keys", rewrite: take_back }),
    ] {
        let at = rules.iter().position(|r| r.name() == before).expect("the rule is one of DataFusion's");
        rules.insert(at, Arc::new(rule));
    }
    for rule in &mut rules {
        if rule.name() == "simplify_expressions" {
            *rule = Arc::new(Settled(Arc::clone(rule)));
        }
        if ["decorrelate_predicate_subquery", "scalar_subquery_to_join"].contains(&rule.name()) {
            *rule = Arc::new(Forgiving(Arc::clone(rule)));
        }
    }
    let at = rules.iter().position(|r| r.name() == "scalar_subquery_to_join").expect("the rule is one of DataFusion's");
    rules.insert(at + 1, Arc::new(Rule { name: "join_scalar_subqueries", rewrite: join_subqueries }));
    rules
}

/// A rule that looks at one node at a time, inputs first.
#[derive(Debug)]
struct Rule {
    name: &'static str,
    rewrite: fn(LogicalPlan, &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>>,
}

impl OptimizerRule for Rule {
    fn name(&self) -> &str {
        self.name
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(plan, config)
    }
}

/// Puts a projection, which a later rule drops, between a join by `<=>` and the joins and filters around it.
fn keep_apart(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let (left, right) = (apart(&join.left, nulls_meet(&join)), apart(&join.right, nulls_meet(&join)));
            if left.is_none() && right.is_none() {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            }
            let (left, right) = (left.unwrap_or(join.left), right.unwrap_or(join.right));
            Ok(Transformed::yes(LogicalPlan::Join(Join { left, right, ..join })))
        }
        LogicalPlan::Filter(filter) => match apart(&filter.input, false) {
            Some(input) => Filter::try_new(filter.predicate, input).map(|f| Transformed::yes(LogicalPlan::Filter(f))),
            None => Ok(Transformed::no(LogicalPlan::Filter(filter))),
        },
        other => Ok(Transformed::no(other)),
    }
}

/// Makes conditions of the keys of a join by `<=>` that has got further conditions: the next rule sorts them anew.
fn take_back(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) if nulls_meet(&join) && join.filter.is_some() => {
            let keys = join.on.into_iter().map(|(l, r)| binary_expr(l, Operator::IsNotDistinctFrom, r));
            let filter = conjunction(keys.chain(join.filter));
            let null_equality = NullEquality::NullEqualsNothing;
            Ok(Transformed::yes(LogicalPlan::Join(Join { on: Vec::new(), filter, null_equality, ..join })))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn nulls_meet(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

/// The inner join `plan` under a projection, if NULLs meet in it or, as `around` says, in the one above.
fn apart(plan: &Arc<LogicalPlan>, around: bool) -> Option<Arc<LogicalPlan>> {
    match plan.as_ref() {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && (around || nulls_meet(join)) => {
            let schema = Arc::clone(plan.schema());
            Some(Arc::new(LogicalPlan::Projection(Projection::new_from_schema(Arc::clone(plan), schema))))
        }
        _ => None,
    }
}
