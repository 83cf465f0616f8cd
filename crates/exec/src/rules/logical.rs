//! The rules that rewrite a logical plan: DataFusion's, with ours where its own give wrong rows or fail.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan};
use datafusion::optimizer::optimizer::{ApplyOrder, Optimizer};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use dipper_sql::charter::wide::WIDE;
use dipper_sql::functions::{ask_for_copies, has_large_constant};

use crate::rules::conditions::{balance, shelter};
use crate::rules::correlated::{Forgiving, join_subqueries};
use crate::rules::dependencies::forget_unsound;
use crate::rules::filters::KeepAbove;
use crate::rules::in_lists::Settled;
use crate::rules::lateral::join_lateral;
use crate::rules::null_joins::{keep_apart, take_back};
use crate::rules::pull_up::PullUpSafely;

/// Our rules that run right before a rule of DataFusion, by the name of that rule.
const AHEAD: [(&str, Rule); 8] = [
    ("simplify_expressions", Rule { name: "balance_conditions", rewrite: balance }),
    ("replace_distinct_aggregate", Rule { name: "forget_unsound_dependencies", rewrite: forget_unsound }),
    ("eliminate_join", Rule { name: "forget_unsound_dependencies", rewrite: forget_unsound }),
    ("decorrelate_predicate_subquery", Rule { name: "join_lateral", rewrite: join_lateral }),
    ("extract_equijoin_predicate", Rule { name: "take_back_null_equal_keys", rewrite: take_back }),
    ("eliminate_duplicated_expr", Rule { name: "forget_unsound_dependencies", rewrite: forget_unsound }),
    ("eliminate_cross_join", Rule { name: "keep_joins_apart", rewrite: keep_apart }),
    ("optimize_projections", Rule { name: "forget_unsound_dependencies", rewrite: forget_unsound }),
];

/// Returns the rules, in the order in which they run.
pub fn rules() -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    let mut rules: Vec<Arc<dyn OptimizerRule + Send + Sync>> = Vec::new();
    for rule in Optimizer::new().rules {
        for (_, ours) in AHEAD.into_iter().filter(|(before, _)| *before == rule.name()) {
            rules.push(Arc::new(ours));
        }
        match rule.name() {
            "decorrelate_predicate_subquery" => rules.push(Arc::new(Forgiving(Arc::new(PullUpSafely(rule))))),
            "scalar_subquery_to_join" => {
                rules.push(Arc::new(Forgiving(Arc::new(PullUpSafely(rule)))));
                rules.push(Arc::new(Rule { name: "join_scalar_subqueries", rewrite: join_subqueries }));
            }
            // See `join_lateral`.
            "decorrelate_lateral_join" => {}
            "push_down_filter" => rules.push(Arc::new(KeepAbove(rule))),
            "replace_distinct_aggregate" => rules.push(Arc::new(SoundBelow(rule))),
            "simplify_expressions" => rules.push(Arc::new(Settled(rule))),
            "single_distinct_aggregation_to_group_by" => {
                rules.push(Arc::new(Unless { rule, not_for: has_names_of_rule }))
            }
            "optimize_unions" => rules.push(Arc::new(Unless { rule, not_for: is_wide_union })),
            _ => rules.push(rule),
        }
    }
    rules.push(Arc::new(Rule { name: "balance_conditions", rewrite: balance }));
    rules.push(Arc::new(Rule { name: "shelter_conditions", rewrite: shelter }));
    rules.push(Arc::new(Rule { name: "ask_for_copies", rewrite: ask_for_large_constants }));
    rules
}

/// DataFusion's rule for DISTINCT. It turns each DISTINCT below into a key before it reaches the one above, so unsound
/// dependencies have to be removed from the plan below first.
#[derive(Debug)]
struct SoundBelow(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for SoundBelow {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Distinct(Distinct::All(input)) => {
                let input = Arc::unwrap_or_clone(input).transform_up(|node| forget_unsound(node, config))?.data;
                self.0.rewrite(LogicalPlan::Distinct(Distinct::All(Arc::new(input))), config)
            }
            other => self.0.rewrite(other, config),
        }
    }
}

/// Optimizer rule that marks large constants that become columns, so that memory for their copies is [asked
/// for](ask_for_copies).
fn ask_for_large_constants(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    let mut large = false;
    plan.apply_expressions(|expr| {
        large |= has_large_constant(expr);
        Ok(if large { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    // Rows of VALUES are made once, when the plan is made.
    if !large || matches!(plan, LogicalPlan::Values(_)) {
        return Ok(Transformed::no(plan));
    }
    let names = NamePreserver::new(&plan);
    let named = |expr: Expr| -> Result<Transformed<Expr>> {
        let name = names.save(&expr);
        Ok(Transformed::yes(name.restore(ask_for_copies(expr)?)))
    };
    plan.map_expressions(|expr| match &expr {
        // The keys of a grouping set have names, the set has none.
        Expr::GroupingSet(_) => expr.map_children(named),
        _ => named(expr),
    })
}

/// A rule of DataFusion that is not applied to some nodes.
#[derive(Debug)]
struct Unless {
    rule: Arc<dyn OptimizerRule + Send + Sync>,
    not_for: fn(&LogicalPlan) -> bool,
}

impl OptimizerRule for Unless {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match (self.not_for)(&plan) {
            true => Ok(Transformed::no(plan)),
            false => self.rule.rewrite(plan, config),
        }
    }
}

/// Returns whether an input column of an aggregate has a name like those that DataFusion's rule for a single DISTINCT
/// makes up.
fn has_names_of_rule(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Aggregate(aggregate) = plan else { return false };
    let taken = |name: &str| name.starts_with("alias") || name.starts_with("group_alias_");
    aggregate.input.schema().fields().iter().any(|field| taken(field.name()))
}

/// Returns whether a plan is a UNION of so many columns that finding the type of each by its name takes long. Its
/// inputs have the types of the union already.
fn is_wide_union(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Union(union) => union.inputs.len() > 1 && union.schema.fields().len() >= WIDE,
        LogicalPlan::Distinct(Distinct::All(input)) => is_wide_union(input),
        _ => false,
    }
}

/// A rule that looks at one node at a time, inputs first.
#[derive(Debug, Clone, Copy)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_that_ours_stand_for_is_one_of_datafusions() {
        let names: Vec<String> = Optimizer::new().rules.iter().map(|rule| rule.name().to_string()).collect();
        let ours = [
            "decorrelate_predicate_subquery",
            "scalar_subquery_to_join",
            "decorrelate_lateral_join",
            "push_down_filter",
            "single_distinct_aggregation_to_group_by",
            "optimize_unions",
        ];
        for name in AHEAD.iter().map(|(before, _)| *before).chain(ours) {
            assert!(names.iter().any(|n| n == name), "DataFusion has no rule {name}: {names:?}");
        }
    }
}
