//! Pushdown of filters through the operators of a physical plan.
//!
//! DataFusion's operators pass filters down by column names. Where a schema has two columns of one name, for example
//! above a join of two tables that both have `v`, DataFusion takes the first of them and drops rows by the wrong
//! table's column. The same happens where a column of the hidden side of a semi join has the name of a key of the other
//! side. The rule here replaces DataFusion's and keeps a filter back where names do not say which column is meant.
//!
//! Hash joins offer filters of dipper's own to their probe side ([`crate::join_filter`]).

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, JoinType, Result};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterPushdownResult, ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation, PushedDown,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};

use crate::aggregate::GroupByRadix;
use crate::join_filter::{CollectKeysExec, KeyFilter, filters_of};
use crate::rules::build_sides::ForgetOrdersOfBuildSides;
use crate::rules::grouping::ForgetBelowGroupingSets;
use crate::rules::orders::SortWhatIsUnsorted;
use crate::rules::outer_joins::ForgetAboveOuterJoins;
use crate::rules::projections::PushProjections;
use crate::rules::recursion::CountSteps;
use crate::rules::top_rows::{EnsureOrders, LimitBelowWindows};

type Plan = Arc<dyn ExecutionPlan>;
type Filter = Arc<dyn PhysicalExpr>;
type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// Returns DataFusion's rules with [`PushFilters`] and [`EnsureOrders`] in place of its own, and with [`PushProjections`]
/// and [`LimitBelowWindows`] around its own.
/// [`ForgetBelowGroupingSets`] and [`ForgetAboveOuterJoins`] run first. Filters are pushed down before the sides of joins
/// are chosen, because scans estimate how many rows pass them. [`GroupByRadix`] and [`ForgetOrdersOfBuildSides`] run
/// before orders and partitions are ensured; [`CountSteps`], [`FewGroupsAtOnce`] and [`SortWhatIsUnsorted`] run right
/// before plans are checked, in this order.
pub fn rules() -> Vec<Rule> {
    let ours = |rule: Rule| -> Rule {
        match rule.name() {
            "FilterPushdown" => Arc::new(PushFilters { phase: FilterPushdownPhase::Pre }),
            "FilterPushdown(Post)" => Arc::new(PushFilters { phase: FilterPushdownPhase::Post }),
            "EnsureRequirements" => Arc::new(EnsureOrders),
            "LimitPushPastWindows" => Arc::new(LimitBelowWindows(rule)),
            "ProjectionPushdown" => Arc::new(PushProjections(rule)),
            _ => rule,
        }
    };
    let mut rules: Vec<Rule> = vec![Arc::new(ForgetBelowGroupingSets), Arc::new(ForgetAboveOuterJoins)];
    rules.extend(PhysicalOptimizer::new().rules.into_iter().map(ours));
    let place = |rules: &[Rule], name: &str| rules.iter().position(|rule| rule.name() == name);
    if let (Some(chosen), Some(pushed)) = (place(&rules, "join_selection"), place(&rules, "FilterPushdown"))
        && chosen < pushed
    {
        let push = rules.remove(pushed);
        rules.insert(chosen, push);
    }
    let ensure = place(&rules, "EnsureRequirements").unwrap_or(rules.len());
    rules.insert(ensure, Arc::new(ForgetOrdersOfBuildSides));
    rules.insert(ensure, Arc::new(GroupByRadix));
    let check = place(&rules, "SanityCheckPlan").unwrap_or(rules.len());
    rules.insert(check, Arc::new(SortWhatIsUnsorted));
    rules.insert(check, Arc::new(FewGroupsAtOnce));
    rules.insert(check, Arc::new(CountSteps));
    rules
}

/// The most groups that an aggregate under ORDER BY LIMIT keeps in its heap. DataFusion allocates the memory for all of
/// them before the first row, and does not reserve it in the pool. For a larger LIMIT the aggregate keeps all groups,
/// in memory that it reserves.
const HEAP_MAX: usize = 10_000;

/// Removes a large LIMIT from aggregates that would make a heap of that size.
#[derive(Debug)]
struct FewGroupsAtOnce;

impl PhysicalOptimizerRule for FewGroupsAtOnce {
    fn optimize(&self, plan: Plan, _config: &ConfigOptions) -> Result<Plan> {
        plan.transform_up(|node| {
            let large = node.downcast_ref::<AggregateExec>().filter(|aggregate| {
                aggregate.limit_options().is_some_and(|l| l.descending.is_some() && l.limit > HEAP_MAX)
            });
            Ok(match large {
                Some(aggregate) => Transformed::yes(Arc::new(aggregate.with_new_limit_options(None)) as Plan),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "few_groups_at_once"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The places of a hash join's sides among its children.
const BUILD_SIDE: usize = 0;
const PROBE_SIDE: usize = 1;

/// Passes filters down to the operators that can use them.
#[derive(Debug)]
struct PushFilters {
    phase: FilterPushdownPhase,
}

impl PhysicalOptimizerRule for PushFilters {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        Ok(self.push(&plan, Vec::new(), config)?.updated_node.unwrap_or(plan))
    }

    fn name(&self) -> &str {
        match self.phase {
            FilterPushdownPhase::Pre => "FilterPushdown",
            FilterPushdownPhase::Post => "FilterPushdown(Post)",
        }
    }

    fn schema_check(&self) -> bool {
        true
    }
}

impl PushFilters {
    /// Offers `filters`, which are over the output of `node`, to the node and to the plan below it.
    fn push(
        &self,
        node: &Plan,
        filters: Vec<Filter>,
        config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Plan>> {
        let children: Vec<Plan> = node.children().into_iter().cloned().collect();
        let offered: Vec<usize> = (0..filters.len())
            .filter(|f| !is_volatile(&filters[*f]) && is_clear(node, &children, &filters[*f]))
            .collect();
        let offers = offered.iter().map(|f| Arc::clone(&filters[*f])).collect();
        let description = node.gather_filters_for_pushdown(self.phase, offers, config)?;
        let (of_parent, of_node) = (description.parent_filters(), description.self_filters());
        if of_parent.len() != children.len() || of_node.len() != children.len() {
            let name = node.name();
            return Err(DataFusionError::Internal(format!("{name} describes filters of other children than it has")));
        }
        let mut taken = vec![vec![PushedDown::No; children.len()]; filters.len()];
        let mut own_results = Vec::with_capacity(children.len());
        let mut below = Vec::with_capacity(children.len());
        let join = node.downcast_ref::<HashJoinExec>().filter(|_| self.phase == FilterPushdownPhase::Post);
        let mut of_keys = join.map(|join| filters_of(join, config)).transpose()?.unwrap_or_default();
        for (place, child) in children.into_iter().enumerate() {
            let own: Vec<usize> = (0..of_node[place].len()).filter(|f| !is_volatile(&of_node[place][*f])).collect();
            let passed: Vec<usize> = (0..offered.len())
                .filter(|f| matches!(of_parent[place].get(*f).map(|p| p.discriminant), Some(PushedDown::Yes)))
                .filter(|f| is_of_keys(node, place, &filters[offered[*f]]))
                .collect();
            let own_filters = own.iter().map(|f| Arc::clone(&of_node[place][*f]));
            let passed_filters = passed.iter().map(|f| Arc::clone(&of_parent[place][*f].predicate));
            let offered_keys = of_keys.iter().filter(|_| place == PROBE_SIDE).map(KeyFilter::filter);
            let offers = own_filters.chain(passed_filters).chain(offered_keys).collect();
            let result = self.push(&child, offers, config)?;
            let (results_of_own, rest) = result.filters.split_at(own.len());
            let (results_of_passed, results_of_keys) = rest.split_at(passed.len());
            if place == PROBE_SIDE {
                let mut taken = results_of_keys.iter();
                of_keys.retain(|_| matches!(taken.next(), Some(PushedDown::Yes)));
            }
            let mut results = vec![PushedDown::No; of_node[place].len()];
            for (f, result) in own.into_iter().zip(results_of_own) {
                results[f] = *result;
            }
            let wrapped = results.into_iter().zip(&of_node[place]).map(|(r, f)| r.wrap_expression(Arc::clone(f)));
            own_results.push(wrapped.collect());
            for (f, result) in passed.into_iter().zip(results_of_passed) {
                taken[offered[f]][place] = *result;
            }
            below.push(result.updated_node.unwrap_or(child));
        }
        if let Some(join) = join.filter(|_| !of_keys.is_empty()) {
            let build = &mut below[BUILD_SIDE];
            *build = Arc::new(CollectKeysExec::new(join, Arc::clone(build), of_keys));
        }
        let updated = replace_children_if_necessary(Arc::clone(node), below)?;
        let parent_filters = filters.into_iter().zip(taken);
        let results = ChildPushdownResult {
            parent_filters: parent_filters
                .map(|(filter, child_results)| ChildFilterPushdownResult { filter, child_results })
                .collect(),
            self_filters: own_results,
        };
        let mut result = updated.handle_child_pushdown_result(self.phase, results, config)?;
        if result.updated_node.is_none() && !Arc::ptr_eq(&updated, node) {
            result.updated_node = Some(updated);
        }
        Ok(result)
    }
}

/// Returns whether a filter may go to a child of a semi join. It may go to the side that is not shown only if all its
/// columns are keys. The join looks only for the names of the filter's columns there, and columns that are no keys may
/// have the same names.
fn is_of_keys(node: &Plan, place: usize, filter: &Filter) -> bool {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return true };
    let hidden = match join.join_type() {
        JoinType::LeftSemi => 1,
        JoinType::RightSemi => 0,
        _ => return true,
    };
    if place != hidden {
        return true;
    }
    let is_key = |column: &Column| {
        let shown = match join.projection.as_ref() {
            Some(projection) => projection.get(column.index()).copied(),
            None => Some(column.index()),
        };
        join.on().iter().any(|(left, right)| {
            let (of_shown, of_hidden) = if hidden == 1 { (left, right) } else { (right, left) };
            of_shown.downcast_ref::<Column>().map(|key| key.index()) == shown
                && of_hidden.downcast_ref::<Column>().is_some_and(|key| key.name() == column.name())
        })
    };
    collect_columns(filter).iter().all(is_key)
}

/// Returns whether the names of the filter's columns identify the columns of `node` and of its children.
fn is_clear(node: &Plan, children: &[Plan], filter: &Filter) -> bool {
    let times = |schema: &SchemaRef, name: &str| schema.fields().iter().filter(|f| f.name() == name).count();
    let by_place = node.downcast_ref::<HashJoinExec>().is_some();
    let union = node.downcast_ref::<UnionExec>().is_some();
    collect_columns(filter).iter().all(|column| {
        (by_place || times(&node.schema(), column.name()) <= 1)
            && children.iter().all(|child| {
                let schema = child.schema();
                times(&schema, column.name()) <= 1
                    && (!union || schema.fields().get(column.index()).is_some_and(|f| f.name() == column.name()))
            })
    })
}
