//! `ORDER BY ... LIMIT` above rows that are in that order already.
//!
//! DataFusion moves a sort with a LIMIT down as far as it can, and with it the number of wanted rows. Where an operator
//! on the way has the wanted order already, like a GROUP BY of sorted rows or a filter above a sort, the number moves
//! on below that operator: the inner sort then returns just that many rows, and the filter or GROUP BY returns fewer.
//! Therefore a sort above rows in its order stays where it is while other sorts are moved. A merge of partitions that
//! brings the rows of one key together also stays when sorts above it are made parallel.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{OrderingRequirements, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::enforce_distribution::{
    DistributionContext, PlanWithKeyRequirements, adjust_input_keys_ordering, ensure_distribution,
    reorder_join_keys_to_inputs,
};
use datafusion::physical_optimizer::enforce_sorting::replace_with_order_preserving_variants::{
    OrderPreservationContext, replace_with_order_preserving_variants,
};
use datafusion::physical_optimizer::enforce_sorting::sort_pushdown::{
    SortPushDown, assign_initial_requirements, pushdown_sorts,
};
use datafusion::physical_optimizer::enforce_sorting::{
    PlanWithCorrespondingCoalescePartitions, PlanWithCorrespondingSort, ensure_sorting, parallelize_sorts,
    replace_with_partial_sort,
};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, ExecutionPlanProperties, InputDistributionRequirements,
    PlanProperties,
};

type Plan = Arc<dyn ExecutionPlan>;

/// DataFusion's rule for orders and partitions, step by step, except that it does not move the sorts and merges that
/// must stay.
#[derive(Debug)]
pub struct EnsureOrders;

impl PhysicalOptimizerRule for EnsureOrders {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let plan = match config.optimizer.top_down_join_key_reordering {
            true => PlanWithKeyRequirements::new_default(plan).transform_down(adjust_input_keys_ordering).data()?.plan,
            false => plan.transform_up(|node| reorder_join_keys_to_inputs(node).map(Transformed::yes)).data()?,
        };
        let plan =
            DistributionContext::new_default(plan).transform_up(|node| ensure_distribution(node, config)).data()?.plan;
        let mut plan = PlanWithCorrespondingSort::new_default(plan).transform_up(ensure_sorting).data()?.plan;
        if config.optimizer.repartition_sorts {
            let node = PlanWithCorrespondingCoalescePartitions::new_default(plan.transform_up(hold_merges).data()?);
            plan = node.transform_up(parallelize_sorts).data()?.plan.transform_up(release).data()?;
        }
        let node = OrderPreservationContext::new_default(plan);
        let plan =
            node.transform_up(|node| replace_with_order_preserving_variants(node, false, true, config)).data()?.plan;
        let mut node = SortPushDown::new_default(plan.transform_up(hold).data()?);
        assign_initial_requirements(&mut node);
        let plan = pushdown_sorts(node)?.plan.transform_up(release).data()?;
        plan.transform_up(|node| replace_with_partial_sort(node).map(Transformed::yes)).data()
    }

    fn name(&self) -> &str {
        // EXPLAIN shows it under the name of DataFusion's rule.
        "EnsureRequirements"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// DataFusion's rule that passes a LIMIT to the sort below a window. It carries the LIMIT of one branch of a plan over
/// to the next branch, so it is applied only to plans without branches.
#[derive(Debug)]
pub struct LimitBelowWindows(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for LimitBelowWindows {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        match plan.exists(|node| Ok(node.children().len() > 1))? {
            true => Ok(plan),
            false => self.0.optimize(plan, config),
        }
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Replaces a sort, or a merge of sorted rows, whose LIMIT must not be moved by a [`Held`].
fn hold(node: Plan) -> Result<Transformed<Plan>> {
    let (order, input) = match (node.downcast_ref::<SortExec>(), node.downcast_ref::<SortPreservingMergeExec>()) {
        (Some(sort), _) => (sort.expr(), sort.input()),
        (_, Some(merge)) => (merge.expr(), merge.input()),
        _ => return Ok(Transformed::no(node)),
    };
    if node.fetch().is_none() || !meets_order(input, order.iter().cloned().collect())? {
        return Ok(Transformed::no(node));
    }
    Ok(Transformed::yes(Arc::new(Held { node })))
}

/// Replaces by a [`Held`] each merge of partitions that gives an operator all rows of one key together. DataFusion
/// removes merges below a sort unless an operator between wants all rows in one partition. With one worker, a window
/// over a constant key wants rows by their key, and a merge is what brings them together.
fn hold_merges(node: Plan) -> Result<Transformed<Plan>> {
    let wanted = node.input_distribution_requirements();
    let by_key = |child: usize| {
        let wanted = wanted.child_distribution(child);
        !matches!(wanted, None | Some(Distribution::UnspecifiedDistribution | Distribution::SinglePartition))
    };
    let children = node.children();
    let is_held = |child: usize| by_key(child) && children[child].is::<CoalescePartitionsExec>();
    if !(0..children.len()).any(is_held) {
        return Ok(Transformed::no(node));
    }
    let held = children.iter().enumerate().map(|(child, input)| match is_held(child) {
        true => Arc::new(Held { node: Arc::clone(input) }) as Plan,
        false => Arc::clone(input),
    });
    let held = held.collect();
    Ok(Transformed::yes(replace_children_if_necessary(node, held)?))
}

/// Returns whether an operator at or below `node` has this order and either drops rows, or looks at other rows than the
/// one that it returns.
fn meets_order(node: &Plan, order: Vec<PhysicalSortExpr>) -> Result<bool> {
    let looks_around = node.is::<WindowAggExec>() || node.is::<BoundedWindowAggExec>();
    let hands_on = node.is::<SortExec>()
        || node.is::<UnionExec>()
        || matches!(node.cardinality_effect(), CardinalityEffect::Equal);
    if looks_around || !hands_on {
        return node.equivalence_properties().ordering_satisfy(order);
    }
    let order = match node.downcast_ref::<ProjectionExec>() {
        Some(projection) => {
            let below = |sort: PhysicalSortExpr| {
                let expr = sort.expr.transform_down(|e| match e.downcast_ref::<Column>() {
                    Some(column) => {
                        let shown = projection.expr().get(column.index()).map(|shown| Arc::clone(&shown.expr));
                        Ok(Transformed::new(shown.unwrap_or(e), true, TreeNodeRecursion::Jump))
                    }
                    None => Ok(Transformed::no(e)),
                });
                Ok(PhysicalSortExpr::new(expr.data()?, sort.options))
            };
            order.into_iter().map(below).collect::<Result<Vec<_>>>()?
        }
        None => order,
    };
    for child in node.children() {
        if meets_order(child, order.clone())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Replaces a [`Held`] by the node that it stands for.
fn release(node: Plan) -> Result<Transformed<Plan>> {
    Ok(match node.downcast_ref::<Held>() {
        Some(held) => Transformed::yes(Arc::clone(&held.node)),
        None => Transformed::no(node),
    })
}

/// A node that DataFusion's rules do not know. It stands for a sort, or a merge of sorted rows, so that its LIMIT is
/// not seen, or for a merge of partitions.
#[derive(Debug)]
struct Held {
    node: Plan,
}

impl DisplayAs for Held {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for Held {
    fn name(&self) -> &str {
        "Held"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.node.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        self.node.children()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.node.input_distribution_requirements()
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.node.required_input_ordering()
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.node.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> Result<Plan> {
        Ok(Arc::new(Held { node: replace_children_if_necessary(Arc::clone(&self.node), children)? }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.node.execute(partition, context)
    }
}
