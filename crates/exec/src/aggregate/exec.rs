//! The plan node of GROUP BY.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Partitioning, PhysicalExpr};
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::{
    CardinalityEffect, EmissionType, EvaluationType, SchedulingType, replace_children_if_necessary,
};
use datafusion::physical_plan::filter_pushdown::{
    ChildPushdownResult, FilterDescription, FilterPushdownPhase, FilterPushdownPropagation,
};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, StatisticsArgs,
};
use dipper_operators::aggregate::Layout;
use parking_lot::Mutex;

use super::run::{Groups, Plan};

/// Groups the rows of all partitions of its input. Each group is in one partition of the output, and any group may be
/// in any.
#[derive(Debug)]
pub struct RadixAggregateExec {
    /// The same aggregate as a node of DataFusion, which answers what optimizer rules ask.
    whole: Arc<AggregateExec>,
    layout: Arc<Layout>,
    table_groups: usize,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    started: Mutex<Started>,
}

/// The groups that the streams of the output share.
#[derive(Debug, Default)]
struct Started {
    /// Until the last partition has begun: a stream may end before the next one begins.
    groups: Option<Groups>,
    begun: usize,
}

impl RadixAggregateExec {
    /// Returns a node that computes what `whole` computes, which has the mode `Single`. `table_groups` is the most
    /// groups in the table of a worker, 0 for as many as fit in the cache.
    pub(super) fn new(whole: Arc<AggregateExec>, layout: Arc<Layout>, table_groups: usize) -> Self {
        let partitions = whole.input().output_partitioning().partition_count();
        let mut equivalence = whole.properties().equivalence_properties().clone();
        // Rows of all partitions meet, in no order.
        equivalence.clear_orderings();
        equivalence.clear_per_partition_constants();
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Final,
            whole.input().boundedness(),
        );
        let properties =
            properties.with_evaluation_type(EvaluationType::Eager).with_scheduling_type(SchedulingType::Cooperative);
        RadixAggregateExec {
            whole,
            layout,
            table_groups,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            started: Mutex::default(),
        }
    }
}

impl DisplayAs for RadixAggregateExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.whole.group_expr().expr().iter().map(|(key, name)| {
            let key = key.to_string();
            if key == *name { key } else { format!("{key} as {name}") }
        });
        let keys = keys.collect::<Vec<_>>().join(", ");
        let aggregates = self.whole.aggr_expr().iter().map(|aggregate| aggregate.name());
        let aggregates = aggregates.collect::<Vec<_>>().join(", ");
        match t {
            DisplayFormatType::TreeRender => {
                writeln!(f, "group_by={keys}")?;
                if aggregates.is_empty() { Ok(()) } else { writeln!(f, "aggr={aggregates}") }
            }
            _ => write!(f, "{}: gby=[{keys}], aggr=[{aggregates}]", self.name()),
        }
    }
}

impl ExecutionPlan for RadixAggregateExec {
    fn name(&self) -> &str {
        "RadixAggregateExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![self.whole.input()]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.whole.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let whole = replace_children_if_necessary(Arc::clone(&self.whole) as Arc<dyn ExecutionPlan>, children)?;
        let Some(whole) = whole.downcast_ref::<AggregateExec>() else {
            return internal_err!("an aggregate became another node");
        };
        Ok(Arc::new(Self::new(Arc::new(whole.clone()), Arc::clone(&self.layout), self.table_groups)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(Self::new(Arc::clone(&self.whole), Arc::clone(&self.layout), self.table_groups)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.output_partitioning().partition_count();
        let mut started = self.started.lock();
        if started.begun == partitions {
            return internal_err!("all partitions of {} have begun before", self.name());
        }
        if started.groups.is_none() {
            let plan = Plan::new(&self.whole, Arc::clone(&self.layout), self.table_groups, &self.metrics, &context);
            let inputs = (0..partitions).map(|input| self.whole.input().execute(input, Arc::clone(&context)));
            started.groups = Some(Groups::new(Arc::new(plan), inputs.collect::<Result<Vec<_>>>()?));
        }
        started.begun += 1;
        let groups = match started.begun == partitions {
            true => started.groups.take(),
            false => started.groups.clone(),
        };
        match groups {
            Some(groups) => Ok(groups.stream(partition, &self.metrics)),
            None => internal_err!("{} has not begun", self.name()),
        }
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        // Groups of one partition of the output come from all partitions of the input.
        match partition {
            Some(_) => vec![ChildStats::Skip],
            None => vec![ChildStats::At(None)],
        }
    }

    fn statistics_from_inputs(&self, inputs: &[Arc<Statistics>], args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        match args.partition() {
            Some(_) => Ok(Arc::new(Statistics::new_unknown(&self.schema()))),
            None => self.whole.statistics_from_inputs(inputs, args),
        }
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::LowerEqual
    }

    fn gather_filters_for_pushdown(
        &self,
        phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        self.whole.gather_filters_for_pushdown(phase, parent_filters, config)
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        results: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        Ok(FilterPushdownPropagation::if_any(results))
    }
}
