//! What holds for the rows below GROUPING SETS does not hold above.
//!
//! DataFusion's aggregate takes over what its input says of the keys: that one is the same in all rows, or that rows are
//! sorted by it. CUBE, ROLLUP and GROUPING SETS put NULL into keys, so above them neither is true: sorts would be left
//! out, and groups would be given out before they are complete. A node between the two forgets it.

use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, StatisticsArgs,
};

/// Puts [`ForgetExec`] below aggregates by several sets of keys. It has to run before rules that look at orders.
#[derive(Debug)]
pub(crate) struct ForgetBelowGroupingSets;

impl PhysicalOptimizerRule for ForgetBelowGroupingSets {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match node.downcast_ref::<AggregateExec>() {
            Some(aggregate)
                if aggregate.group_expr().has_grouping_set()
                    && aggregate.mode().input_mode() == AggregateInputMode::Raw =>
            {
                let input = Arc::new(ForgetExec::new(Arc::clone(aggregate.input())));
                Ok(Transformed::yes(replace_children_if_necessary(node, vec![input])?))
            }
            _ => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "forget_below_grouping_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows of its input, of whose order and values nothing is known.
#[derive(Debug)]
struct ForgetExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl ForgetExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::clone(input.properties())
            .with_eq_properties(EquivalenceProperties::new(input.schema()))
            .with_partitioning(Partitioning::UnknownPartitioning(partitions));
        ForgetExec { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for ForgetExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ForgetExec")
    }
}

impl ExecutionPlan for ForgetExec {
    fn name(&self) -> &str {
        "ForgetExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(ForgetExec::new(children.swap_remove(0))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        vec![ChildStats::At(partition)]
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        Ok(Arc::clone(&inputs[0]))
    }
}
