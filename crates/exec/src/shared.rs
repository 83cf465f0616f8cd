//! Common table expressions, and other plans, that have one result for all places where they are read.
//!
//! DataFusion copies the plan of a common table expression to each place, and each copy runs. If the rows are random, or
//! LIMIT chooses some of many, the copies have different rows: `WITH c AS (SELECT uuid() u) SELECT a.u = b.u FROM c a, c
//! b` would be false. So the copies of such plans get a node above them, and the first node that is asked runs its copy
//! for all.
//!
//! So is the plan that an optimizer rule copies, whatever its rows are ([`shared`]).
//!
//! 1. The charter gives such an expression a name of its own ([`is_shared`]). [`share`] finds the copies by that name, and
//!    puts [`Shared`] nodes into them.
//! 2. [`Sharing`] makes a [`SharedExec`] of each node. Those of one expression have one [`Rows`].

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::logical_plan::{Extension, SubqueryAlias};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet, SpillMetrics};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, SpillManager,
};
use datafusion::physical_planner::{ExtensionPlanner, PhysicalPlanner};
use dipper_sql::charter::is_shared;
use futures::future::{BoxFuture, FutureExt, Shared as SharedFuture};
use futures::{StreamExt, TryFutureExt, TryStreamExt, stream};
use parking_lot::Mutex;

/// Puts [`Shared`] nodes above the copies of common table expressions whose rows would differ from copy to copy. The
/// plan is one that no rule has changed.
///
/// # Errors
/// An error of building the new plan.
pub fn share(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut copies: HashMap<String, usize> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        Ok(match node {
            LogicalPlan::SubqueryAlias(alias) if is_to_share(alias) => {
                *copies.entry(alias.alias.table().to_string()).or_default() += 1;
                TreeNodeRecursion::Continue
            }
            // The term that repeats itself runs many times, with other rows each time.
            LogicalPlan::RecursiveQuery(_) => TreeNodeRecursion::Jump,
            _ => TreeNodeRecursion::Continue,
        })
    })?;
    copies.retain(|_, copies| *copies > 1);
    if copies.is_empty() {
        return Ok(plan);
    }
    let shared = plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::SubqueryAlias(alias)
            if is_to_share(&alias) && copies.contains_key(alias.alias.table()) && is_chosen(&alias.input)? =>
        {
            let name = alias.alias.table().to_string();
            let node = Shared { name, input: alias.input.as_ref().clone() };
            let input = LogicalPlan::Extension(Extension { node: Arc::new(node) });
            let alias = SubqueryAlias::try_new(Arc::new(input), alias.alias)?;
            Ok(Transformed::yes(LogicalPlan::SubqueryAlias(alias)))
        }
        node @ LogicalPlan::RecursiveQuery(_) => Ok(Transformed::new(node, false, TreeNodeRecursion::Jump)),
        node => Ok(Transformed::no(node)),
    })?;
    Ok(shared.data)
}

/// Whether a name stands for an expression whose copies share their rows, and this copy has no [`Shared`] node yet. The
/// plan of a view within the plan has them.
fn is_to_share(alias: &SubqueryAlias) -> bool {
    is_shared(alias.alias.table()) && !is_shared_node(&alias.input)
}

/// Whether the rows of a plan are random, or some of several that could be chosen.
fn is_chosen(plan: &LogicalPlan) -> Result<bool> {
    let (mut chosen, mut outer) = (false, false);
    plan.apply_with_subqueries(|node| {
        chosen |= matches!(node, LogicalPlan::Limit(_)) || node.expressions().iter().any(Expr::is_volatile);
        outer |= node.expressions().iter().any(Expr::contains_outer);
        Ok(TreeNodeRecursion::Continue)
    })?;
    // A plan that reads columns of an outer query has other rows for each of its rows.
    Ok(chosen && !outer)
}

/// Returns a plan that gives the rows of `plan`, and in all its copies the same rows; `None` if `plan` gives other rows
/// for each row of an outer query.
pub(crate) fn shared(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    static NAMES: AtomicU64 = AtomicU64::new(0);
    let mut differs = false;
    plan.apply_with_subqueries(|node| {
        differs |= node.expressions().iter().any(Expr::contains_outer);
        Ok(if differs { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    // No common table expression has a name like this.
    let name = || format!("copied {}", NAMES.fetch_add(1, Ordering::Relaxed));
    let node = (!differs).then(|| Shared { name: name(), input: plan.clone() });
    Ok(node.map(|node| LogicalPlan::Extension(Extension { node: Arc::new(node) })))
}

/// Whether a node gives the same rows in all its copies.
pub(crate) fn is_shared_node(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Extension(node) if node.node.as_any().is::<Shared>())
}

/// A copy of a plan whose rows are those of all copies.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Hash)]
struct Shared {
    /// The name of the plan, which no other one has.
    name: String,
    input: LogicalPlan,
}

impl UserDefinedLogicalNodeCore for Shared {
    fn name(&self) -> &str {
        "Shared"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Shared")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => Ok(Shared { name: self.name.clone(), input }),
            _ => plan_err!("Shared has one input"),
        }
    }

    // Each copy needs all columns and all rows, since another copy may.
    fn necessary_children_exprs(&self, _: &[usize]) -> Option<Vec<Vec<usize>>> {
        Some(vec![(0..self.input.schema().fields().len()).collect()])
    }
}

/// Makes the physical nodes of one plan.
#[derive(Debug, Default)]
pub(crate) struct Sharing {
    rows: Mutex<HashMap<String, Arc<Rows>>>,
}

#[async_trait]
impl ExtensionPlanner for Sharing {
    async fn plan_extension(
        &self,
        _: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _: &dyn Session,
        _: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [input]) = (node.as_any().downcast_ref::<Shared>(), inputs) else { return Ok(None) };
        let rows = Arc::clone(self.rows.lock().entry(node.name.clone()).or_default());
        Ok(Some(Arc::new(SharedExec::new(Arc::clone(input), rows))))
    }
}

/// The work that collects rows. Whoever polls it drives it for all.
type Collecting = SharedFuture<BoxFuture<'static, std::result::Result<Arc<Kept>, Arc<DataFusionError>>>>;

/// The rows of an expression, once they are asked for.
#[derive(Default)]
struct Rows(Mutex<Option<Collecting>>);

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rows").field("asked", &self.0.lock().is_some()).finish()
    }
}

/// Rows in memory, and behind them those for which there was no memory.
struct Kept {
    batches: Vec<RecordBatch>,
    spilled: Option<Arc<dyn SpillFile>>,
    spills: SpillManager,
    _charged: MemoryReservation,
}

impl Kept {
    async fn collect(
        mut rows: SendableRecordBatchStream,
        context: Arc<TaskContext>,
        spills: SpillManager,
    ) -> Result<Self> {
        let charged = MemoryConsumer::new("Shared").with_can_spill(true).register(context.memory_pool());
        let (mut batches, mut file) = (Vec::new(), None);
        while let Some(batch) = rows.try_next().await? {
            let file = match &mut file {
                None if charged.try_grow(batch.get_array_memory_size()).is_ok() => {
                    batches.push(batch);
                    continue;
                }
                None => file.insert(spills.create_in_progress_file("Shared")?),
                Some(file) => file,
            };
            file.append_batch(&batch)?;
        }
        let spilled = file.map(|mut file| file.finish()).transpose()?.flatten();
        Ok(Kept { batches, spilled, spills, _charged: charged })
    }
}

/// Returns the rows of its input, or those of another node's input that was asked before. One partition: so all inputs
/// have as many.
#[derive(Debug)]
struct SharedExec {
    input: Arc<dyn ExecutionPlan>,
    rows: Arc<Rows>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl SharedExec {
    fn new(input: Arc<dyn ExecutionPlan>, rows: Arc<Rows>) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        SharedExec { input, rows, properties: Arc::new(properties), metrics: ExecutionPlanMetricsSet::new() }
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(SharedExec::new(children.swap_remove(0), Arc::clone(&self.rows))))
    }

    /// Keeps the rows: a second run of the plan around this node reads the same ones.
    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        assert_eq!(partition, 0, "there is one partition");
        let schema: SchemaRef = self.schema();
        let known = self.rows.0.lock().clone();
        let collected = match known {
            Some(collecting) => collecting,
            None => {
                // Without the lock: there may be other shared expressions below.
                let rows = self.input.execute(0, Arc::clone(&context))?;
                let spilled = SpillMetrics::new(&self.metrics, 0);
                let spills = SpillManager::new(context.runtime_env(), spilled, Arc::clone(&schema));
                let collect = Kept::collect(rows, context, spills);
                let collect = async move { Ok(Arc::new(collect.await.map_err(Arc::new)?)) };
                self.rows.0.lock().get_or_insert(collect.boxed().shared()).clone()
            }
        };
        let batches = async move {
            let kept = collected.await.map_err(DataFusionError::Shared)?;
            let spilled = match &kept.spilled {
                Some(file) => kept.spills.read_spill_as_stream(Arc::clone(file), None)?.boxed(),
                None => stream::empty().boxed(),
            };
            let batches: Vec<Result<RecordBatch>> = kept.batches.iter().cloned().map(Ok).collect();
            Ok::<_, DataFusionError>(stream::iter(batches).chain(spilled))
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten_stream())))
    }
}
