//! A plan node that hands on its input's rows as they come, and keeps back one thing that would go through otherwise.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::filter_pushdown::{ChildFilterDescription, FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, StatisticsArgs,
};

/// What does not go through a [`PassExec`].
#[derive(Debug, Clone, Copy)]
pub(crate) enum KeptBack {
    /// Upwards: the order of the rows, and what their columns have in common. Filters stay above, too.
    Knowledge,
    /// Downwards: filters over nested columns.
    NestedFilters,
}

/// The rows of its input.
#[derive(Debug)]
pub(crate) struct PassExec {
    input: Arc<dyn ExecutionPlan>,
    kept_back: KeptBack,
    properties: Arc<PlanProperties>,
}

impl PassExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, kept_back: KeptBack) -> Self {
        let properties = match kept_back {
            KeptBack::Knowledge => {
                let partitions = input.output_partitioning().partition_count();
                let properties = PlanProperties::clone(input.properties())
                    .with_eq_properties(EquivalenceProperties::new(input.schema()))
                    .with_partitioning(Partitioning::UnknownPartitioning(partitions));
                Arc::new(properties)
            }
            KeptBack::NestedFilters => Arc::clone(input.properties()),
        };
        PassExec { input, kept_back, properties }
    }
}

impl DisplayAs for PassExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for PassExec {
    fn name(&self) -> &str {
        match self.kept_back {
            KeptBack::Knowledge => "ForgetExec",
            KeptBack::NestedFilters => "FlatFiltersExec",
        }
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
        Ok(Arc::new(PassExec::new(children.swap_remove(0), self.kept_back)))
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![matches!(self.kept_back, KeptBack::NestedFilters)]
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

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        if matches!(self.kept_back, KeptBack::Knowledge) {
            return Ok(FilterDescription::all_unsupported(&parent_filters, &self.children()));
        }
        let schema = self.input.schema();
        let flat: HashSet<usize> =
            (0..schema.fields().len()).filter(|at| !schema.field(*at).data_type().is_nested()).collect();
        let child = ChildFilterDescription::from_child_with_allowed_indices(&parent_filters, flat, &self.input)?;
        Ok(FilterDescription::new().with_child(child))
    }
}
