//! Iceberg's files in a plan.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{ChildFilterDescription, FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, StatisticsArgs,
};
use dipper_cache::{IoContext, IoStats};
use futures::StreamExt;
use futures::stream::poll_fn;

use crate::scan::profile;

/// DataFusion's scan of Parquet files below, whose requests are counted, and which is not handed every filter.
///
/// A scan decides by the table's schema whether it can apply a filter, and is taken at its word. A file that has a nested
/// column in another shape is read through an expression that its row filter does not know: the filter would be dropped.
/// So filters over nested columns stay above.
#[derive(Debug)]
pub(super) struct IcebergScanExec {
    input: Arc<dyn ExecutionPlan>,
    stats: Arc<IoStats>,
}

impl IcebergScanExec {
    pub(super) fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        IcebergScanExec { input, stats: Arc::default() }
    }
}

impl DisplayAs for IcebergScanExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for IcebergScanExec {
    fn name(&self) -> &'static str {
        "IcebergScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
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
        Ok(Arc::new(IcebergScanExec { input: children.swap_remove(0), stats: Arc::clone(&self.stats) }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(statement) = IoContext::current() else { return self.input.execute(partition, context) };
        let counted = statement.of_scan(&self.stats);
        let mut rows = counted.enter(|| self.input.execute(partition, context))?;
        let schema = rows.schema();
        let rows = poll_fn(move |wake| counted.enter(|| rows.poll_next_unpin(wake)));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut all = MetricsSet::new();
        profile::add_remote(&mut all, &self.stats.counts());
        Some(all)
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

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        // What takes nested columns apart stays above, as filters over them do.
        if self.input.schema().fields().iter().any(|field| field.data_type().is_nested()) {
            return Ok(None);
        }
        let input = self.input.try_swapping_with_projection(projection)?;
        Ok(input
            .map(|input| Arc::new(IcebergScanExec { input, stats: Arc::clone(&self.stats) }) as Arc<dyn ExecutionPlan>))
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let schema = self.input.schema();
        let flat: HashSet<usize> =
            (0..schema.fields().len()).filter(|at| !schema.field(*at).data_type().is_nested()).collect();
        let child = ChildFilterDescription::from_child_with_allowed_indices(&parent_filters, flat, &self.input)?;
        Ok(FilterDescription::new().with_child(child))
    }
}
