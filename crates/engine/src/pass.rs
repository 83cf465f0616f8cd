//! A plan node that hands on its input's rows as they come, and keeps back what should not go through.

use std::any::Any;
use std::collections::HashSet;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::error::ArrowError;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::filter_pushdown::{ChildFilterDescription, FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, StatisticsArgs,
};
use dipper_cache::{IoContext, IoStats};
use futures::StreamExt;
use futures::stream::poll_fn;

use crate::query::panic_text;
use crate::scan::profile;

/// Makes a scan's error of that of its reader in one partition, where the store did what it was asked.
pub(crate) type Told = Arc<dyn Fn(DataFusionError, usize, &TaskContext) -> DataFusionError + Send + Sync>;

/// What a [`PassExec`] is for.
#[derive(Clone)]
enum Role {
    /// Nothing goes up that is known of the rows: their order, and what their columns have in common. Filters stay above.
    Forget,
    /// Below is DataFusion's scan of Parquet files, whose requests are counted, and which is not handed every filter.
    ///
    /// A scan decides by the table's schema whether it can apply a filter, and is taken at its word. A file that has a nested
    /// column in another shape is read through an expression that its row filter does not know: the filter would be dropped.
    /// So what is about nested columns stays above.
    IcebergScan(Arc<IoStats>, Told),
}

/// The rows of its input.
pub(crate) struct PassExec {
    input: Arc<dyn ExecutionPlan>,
    role: Role,
    properties: Arc<PlanProperties>,
}

impl PassExec {
    /// The rows, and nothing that is known of them.
    pub(crate) fn forgetting(input: Arc<dyn ExecutionPlan>) -> Self {
        Self::new(input, Role::Forget)
    }

    /// The rows of Iceberg's files.
    pub(crate) fn iceberg_scan(files: Arc<dyn ExecutionPlan>, told: Told) -> Self {
        Self::new(files, Role::IcebergScan(Arc::default(), told))
    }

    fn new(input: Arc<dyn ExecutionPlan>, role: Role) -> Self {
        let properties = match role {
            Role::Forget => {
                let partitions = input.output_partitioning().partition_count();
                let properties = PlanProperties::clone(input.properties())
                    .with_eq_properties(EquivalenceProperties::new(input.schema()))
                    .with_partitioning(Partitioning::UnknownPartitioning(partitions));
                Arc::new(properties)
            }
            Role::IcebergScan(..) => Arc::clone(input.properties()),
        };
        PassExec { input, role, properties }
    }

    /// The columns that are not nested.
    fn flat_columns(&self) -> HashSet<usize> {
        let schema = self.input.schema();
        (0..schema.fields().len()).filter(|at| !schema.field(*at).data_type().is_nested()).collect()
    }
}

impl fmt::Debug for PassExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.name()).field("input", &self.input).finish()
    }
}

impl DisplayAs for PassExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for PassExec {
    fn name(&self) -> &str {
        match self.role {
            Role::Forget => "ForgetExec",
            Role::IcebergScan(..) => "IcebergScanExec",
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
        Ok(Arc::new(PassExec::new(children.swap_remove(0), self.role.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (Role::IcebergScan(stats, told), Some(statement)) = (&self.role, IoContext::current()) else {
            return self.input.execute(partition, context);
        };
        let (counted, stats, told) = (statement.of_scan(stats), Arc::clone(stats), Arc::clone(told));
        let rows = counted.enter(|| self.input.execute(partition, Arc::clone(&context)))?;
        let schema = rows.schema();
        // Parquet's reader panics on some damage.
        let mut rows = AssertUnwindSafe(rows).catch_unwind().map(|next| {
            let panicked = |panic: &(dyn Any + Send)| format!("the reader panicked: {}", panic_text(panic));
            next.unwrap_or_else(|panic| Err(ArrowError::ParquetError(panicked(&*panic)).into()))
        });
        let told = move |e| match stats.counts().failures {
            0 => told(e, partition, &context),
            _ => e,
        };
        let rows = poll_fn(move |wake| {
            let next = counted.enter(|| rows.poll_next_unpin(wake));
            next.map(|rows| rows.map(|rows| rows.map_err(&told)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let Role::IcebergScan(stats, _) = &self.role else { return None };
        let mut all = MetricsSet::new();
        profile::add_remote(&mut all, &stats.counts());
        profile::add_times(&mut all, &stats.counts());
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
        if matches!(self.role, Role::Forget) || self.flat_columns().len() < self.input.schema().fields().len() {
            return Ok(None);
        }
        let input = self.input.try_swapping_with_projection(projection)?;
        Ok(input.map(|input| Arc::new(PassExec::new(input, self.role.clone())) as Arc<dyn ExecutionPlan>))
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        if matches!(self.role, Role::Forget) {
            return Ok(FilterDescription::all_unsupported(&parent_filters, &self.children()));
        }
        let flat = self.flat_columns();
        let child = ChildFilterDescription::from_child_with_allowed_indices(&parent_filters, flat, &self.input)?;
        Ok(FilterDescription::new().with_child(child))
    }
}
