//! GROUP BY while it runs.
//!
//! A [`Side`] groups the rows of one partition of the input. A side that gets no more memory writes all its records to
//! spill files, one for each partition of the hash, and goes on. If some side has written records, all do so in the
//! end. Otherwise the records stay in memory.
//!
//! The streams of the output take [`Job`]s from one queue. A job is a part of the hash, in memory or in files. A job in
//! files is grouped by a side of its own on the next level, whose partitions become new jobs.

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Int32Type, SchemaRef};
use datafusion::common::runtime::JoinSet;
use datafusion::common::{DataFusionError, Result, resources_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::spill_file::SpillFile;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::coop::cooperative;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, RecordOutput, SpillMetrics, Time,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{ExecutionPlan, SpillManager};
use dipper_operators::aggregate::{self, Function, Grouper, LEVELS, Layout, Merge, Output, PARTITIONS, Records};
use futures::future::{BoxFuture, Shared};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;

use crate::coop::still_wanted;

/// Records that are merged between two points at which a task gives way.
const STEP: usize = 1 << 15;

/// Records that make a job worth its costs: neighbouring partitions with fewer are one job.
const JOB_RECORDS: usize = 1 << 13;

/// What all tasks of a node need to know.
pub(super) struct Plan {
    layout: Arc<Layout>,
    table_groups: usize,
    keys: Vec<Arc<dyn PhysicalExpr>>,
    /// `None` where rows are counted.
    arguments: Vec<Option<Arc<dyn PhysicalExpr>>>,
    aggregates: Vec<Arc<AggregateFunctionExpr>>,
    schema: SchemaRef,
    batch_rows: usize,
    record_schema: SchemaRef,
    env: Arc<RuntimeEnv>,
    spilled: SpillMetrics,
    metrics: PlanMetrics,
}

/// Counters of a node.
struct PlanMetrics {
    compute: Time,
    /// Groups that left the tables of workers; more than rows of the output if groups came back.
    records: Count,
    /// Groups that were in one table only, so that they were not merged.
    unmerged: Count,
}

impl Plan {
    pub(super) fn new(
        whole: &AggregateExec,
        layout: Arc<Layout>,
        table_groups: usize,
        metrics: &ExecutionPlanMetricsSet,
        context: &TaskContext,
    ) -> Plan {
        let aggregates = whole.aggr_expr().to_vec();
        let arguments = aggregates
            .iter()
            .zip(layout.aggregates())
            .map(|(expr, aggregate)| aggregate.argument.as_ref().and_then(|_| expr.expressions().first().cloned()));
        let arguments: Vec<_> = arguments.collect();
        assert_eq!(arguments.len(), aggregates.len(), "the layout has all aggregates of the node");
        Plan {
            table_groups,
            keys: whole.group_expr().input_exprs(),
            arguments,
            schema: whole.schema(),
            batch_rows: context.session_config().batch_size(),
            record_schema: layout.record_schema(),
            env: context.runtime_env(),
            spilled: SpillMetrics::new(metrics, 0),
            metrics: PlanMetrics {
                compute: MetricBuilder::new(metrics).elapsed_compute(0),
                records: MetricBuilder::new(metrics).counter("table_groups", 0),
                unmerged: MetricBuilder::new(metrics).counter("unmerged_groups", 0),
            },
            aggregates,
            layout,
        }
    }

    fn pool(&self) -> &Arc<dyn MemoryPool> {
        &self.env.memory_pool
    }

    fn spills(&self) -> SpillManager {
        SpillManager::new(Arc::clone(&self.env), self.spilled.clone(), Arc::clone(&self.record_schema))
    }

    /// Makes a batch of the node's schema.
    fn batch(&self, output: Output) -> Result<RecordBatch> {
        let Output { keys: mut columns, states, rows } = output;
        assert_eq!(states.len(), self.aggregates.len(), "each aggregate has its states");
        for ((expr, aggregate), states) in self.aggregates.iter().zip(self.layout.aggregates()).zip(states) {
            columns.push(result(expr, aggregate, states, rows)?);
        }
        assert!(columns.iter().all(|column| column.len() == rows), "each group has its keys and results");
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}

/// Returns the results of an aggregate from its states. Where a state is not the result itself, the function's own
/// accumulator makes one of it, so that its scale, its range and its errors are those of the function.
fn result(
    expr: &AggregateFunctionExpr,
    aggregate: &aggregate::Aggregate,
    mut states: Vec<ArrayRef>,
    rows: usize,
) -> Result<ArrayRef> {
    let no_carry =
        || states.get(1).is_some_and(|carries| carries.as_primitive::<Int32Type>().values().iter().all(|c| *c == 0));
    let is_result = match (aggregate.function, &aggregate.argument) {
        (Function::Count | Function::Min | Function::Max, _) | (Function::Sum, Some(DataType::Float64)) => true,
        (Function::Sum, Some(DataType::Int64 | DataType::UInt64)) => no_carry(),
        _ => false,
    };
    if is_result {
        return Ok(states.swap_remove(0));
    }
    let mut accumulator = expr.create_groups_accumulator()?;
    let groups: Vec<usize> = (0..rows).collect();
    accumulator.merge_batch(&states, &groups, rows)?;
    accumulator.evaluate(EmitTo::All)
}

/// Groups rows of one partition of the input, or records of one partition of a level.
struct Side {
    plan: Arc<Plan>,
    grouper: Grouper,
    memory: MemoryReservation,
    /// The files of each partition.
    files: Vec<Vec<Arc<dyn SpillFile>>>,
}

impl Side {
    fn new(plan: &Arc<Plan>, level: u32) -> Side {
        let memory = MemoryConsumer::new("RadixAggregate").with_can_spill(true).register(plan.pool());
        let grouper = Grouper::new(Arc::clone(&plan.layout), level, plan.table_groups);
        Side { plan: Arc::clone(plan), grouper, memory, files: vec![Vec::new(); PARTITIONS] }
    }

    /// Groups the rows of a partition of the input.
    async fn read(mut self, mut input: SendableRecordBatchStream) -> Result<Side> {
        while let Some(batch) = input.next().await {
            let batch = batch?;
            still_wanted()?;
            let plan = Arc::clone(&self.plan);
            let _timer = plan.metrics.compute.timer();
            let rows = batch.num_rows();
            let array = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(&batch)?.into_array(rows);
            let keys = plan.keys.iter().map(array).collect::<Result<Vec<_>>>()?;
            let arguments = plan.arguments.iter().map(|expr| expr.as_ref().map(array).transpose());
            let arguments = arguments.collect::<Result<Vec<_>>>()?;
            self.grouper.update(&keys, &arguments, rows);
            self.charge()?;
        }
        Ok(self)
    }

    /// Asks for the memory that the side occupies by now. Writes all records if there is none.
    fn charge(&mut self) -> Result<()> {
        match self.memory.try_resize(self.grouper.bytes()) {
            Err(e) if is_short(&e) => {
                self.write()?;
                self.memory.try_resize(self.grouper.bytes())
            }
            result => result,
        }
    }

    /// Writes all records to files.
    fn write(&mut self) -> Result<()> {
        let records = self.grouper.take();
        let spills = self.plan.spills();
        for (partition, files) in self.files.iter_mut().enumerate() {
            if records.len(partition) == 0 {
                continue;
            }
            self.plan.metrics.records.add(records.len(partition));
            let mut file = spills.create_in_progress_file("RadixAggregate")?;
            for batch in records.batches(partition, &self.plan.record_schema) {
                file.append_batch(&batch?)?;
            }
            files.extend(file.finish()?);
            still_wanted()?;
        }
        Ok(())
    }
}

/// Returns whether an error says that there is no memory left.
fn is_short(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
}

/// A part of the hash: all records of its groups.
enum Job {
    Memory(InMemory),
    Files {
        /// The level on which the records come apart.
        level: u32,
        files: Vec<Arc<dyn SpillFile>>,
    },
}

/// Records in memory.
struct InMemory {
    /// The level on which they came apart.
    level: u32,
    merge: Merge,
    /// The memory of the records.
    held: Vec<MemoryReservation>,
}

/// Makes jobs of what sides of one level have.
fn jobs(plan: &Plan, level: u32, mut sides: Vec<Side>) -> Result<Vec<Job>> {
    if sides.iter().any(|side| side.files.iter().any(|files| !files.is_empty())) {
        let mut jobs: Vec<Vec<Arc<dyn SpillFile>>> = vec![Vec::new(); PARTITIONS];
        for side in &mut sides {
            side.write()?;
            for (all, own) in jobs.iter_mut().zip(&mut side.files) {
                all.append(own);
            }
        }
        let jobs = jobs.into_iter().filter(|files| !files.is_empty());
        return Ok(jobs.map(|files| Job::Files { level: level + 1, files }).collect());
    }
    let (mut sources, mut memories): (Vec<Records>, Vec<MemoryReservation>) = (Vec::new(), Vec::new());
    for mut side in sides {
        let records = side.grouper.take();
        side.memory.resize((0..PARTITIONS).map(|partition| records.partition_bytes(partition)).sum());
        sources.push(records);
        memories.push(side.memory);
    }
    let mut jobs = Vec::new();
    let mut from = 0;
    while from < PARTITIONS {
        let (mut to, mut records) = (from, 0);
        while to < PARTITIONS && records < JOB_RECORDS {
            records += sources.iter().map(|source| source.len(to)).sum::<usize>();
            to += 1;
        }
        let bytes = |source: &Records| -> usize { (from..to).map(|partition| source.partition_bytes(partition)).sum() };
        let held = sources.iter().zip(&memories).map(|(source, memory)| memory.split(bytes(source))).collect();
        if let Some(merge) = Merge::new(Arc::clone(&plan.layout), &mut sources, from..to) {
            plan.metrics.records.add(merge.records());
            if merge.is_done() {
                plan.metrics.unmerged.add(merge.records());
            }
            jobs.push(Job::Memory(InMemory { level, merge, held }));
        }
        assert!(from < to, "each job has partitions of its own");
        from = to;
    }
    Ok(jobs)
}

/// The jobs of which the streams of the output take the next.
type Queue = Arc<Mutex<VecDeque<Job>>>;

/// The groups of all partitions of the input. The first stream that is polled starts the tasks that read the input; if
/// all streams are dropped, the tasks end.
#[derive(Clone)]
pub(super) struct Groups {
    plan: Arc<Plan>,
    queue: Shared<BoxFuture<'static, Result<Queue, Arc<DataFusionError>>>>,
}

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Groups").finish_non_exhaustive()
    }
}

impl Groups {
    pub(super) fn new(plan: Arc<Plan>, inputs: Vec<SendableRecordBatchStream>) -> Groups {
        let read = read(Arc::clone(&plan), inputs).map(|result| result.map_err(Arc::new));
        Groups { plan, queue: read.boxed().shared() }
    }

    /// Returns a stream of those groups that no other stream returns.
    pub(super) fn stream(self, partition: usize, metrics: &ExecutionPlanMetricsSet) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.plan.schema);
        let memory = MemoryConsumer::new("RadixAggregate[groups]").register(self.plan.pool());
        let metrics = BaselineMetrics::new(metrics, partition);
        let state = Emit { groups: self, queue: None, current: None, memory, metrics };
        let stream = futures::stream::try_unfold(state, |mut state| async move {
            let batch = state.next().await?;
            Ok(batch.map(|batch| (batch, state)))
        });
        Box::pin(cooperative(RecordBatchStreamAdapter::new(schema, Box::pin(stream))))
    }
}

/// Reads the whole input.
async fn read(plan: Arc<Plan>, mut inputs: Vec<SendableRecordBatchStream>) -> Result<Queue> {
    let sides = match (inputs.pop(), inputs.is_empty()) {
        (Some(only), true) => vec![Side::new(&plan, 0).read(only).await?],
        (last, _) => {
            let mut tasks = JoinSet::new();
            for input in inputs.into_iter().chain(last) {
                tasks.spawn(Side::new(&plan, 0).read(input));
            }
            let mut sides = Vec::with_capacity(tasks.len());
            while let Some(side) = tasks.join_next().await {
                match side {
                    Ok(side) => sides.push(side?),
                    Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
                    Err(e) => return Err(DataFusionError::ExecutionJoin(Box::new(e))),
                }
            }
            sides
        }
    };
    let jobs = jobs(&plan, 0, sides)?;
    Ok(Arc::new(Mutex::new(jobs.into())))
}

/// A stream of the output.
struct Emit {
    groups: Groups,
    queue: Option<Queue>,
    current: Option<Current>,
    /// The memory of the table of the current job.
    memory: MemoryReservation,
    metrics: BaselineMetrics,
}

/// The job of which a stream makes batches.
struct Current {
    groups: aggregate::Groups,
    _held: Vec<MemoryReservation>,
}

impl Emit {
    /// Returns the next batch of groups.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.batch()? {
                return Ok(Some(batch));
            }
            still_wanted()?;
            let queue = match &self.queue {
                Some(queue) => Arc::clone(queue),
                None => {
                    let queue = self.groups.queue.clone().await.map_err(|e| DataFusionError::from(&e))?;
                    Arc::clone(self.queue.insert(queue))
                }
            };
            let Some(job) = queue.lock().pop_front() else { return Ok(None) };
            let jobs = match job {
                Job::Memory(job) => self.merge(job).await?.into_iter().collect(),
                Job::Files { level, files } => self.read(level, files).await?,
            };
            let mut queue = queue.lock();
            jobs.into_iter().for_each(|job| queue.push_front(job));
        }
    }

    /// Returns the next batch of the current job.
    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let Some(current) = &mut self.current else { return Ok(None) };
        let _timer = self.metrics.elapsed_compute().timer();
        match current.groups.next(self.groups.plan.batch_rows)? {
            Some(output) => {
                let batch = self.groups.plan.batch(output)?;
                Ok(Some(batch.record_output(&self.metrics)))
            }
            None => {
                self.current = None;
                self.memory.free();
                Ok(None)
            }
        }
    }

    /// Merges records in memory. If there is no memory for the table, writes the records to a file, which is a job.
    async fn merge(&mut self, job: InMemory) -> Result<Option<Job>> {
        let InMemory { level, mut merge, held } = job;
        match self.memory.try_resize(merge.table_bytes()) {
            Ok(()) => {
                while self.step(&mut merge) {
                    still_wanted()?;
                    tokio::task::yield_now().await;
                }
                self.current = Some(Current { groups: merge.finish(), _held: held });
                Ok(None)
            }
            Err(e) if is_short(&e) && level + 1 < LEVELS => {
                let plan = &self.groups.plan;
                let mut file = plan.spills().create_in_progress_file("RadixAggregate")?;
                for batch in merge.batches(&plan.record_schema) {
                    file.append_batch(&batch?)?;
                    still_wanted()?;
                }
                Ok(file.finish()?.map(|file| Job::Files { level: level + 1, files: vec![file] }))
            }
            Err(e) => Err(e),
        }
    }

    fn step(&self, merge: &mut Merge) -> bool {
        let _timer = self.metrics.elapsed_compute().timer();
        merge.step(STEP)
    }

    /// Groups records in files on their level, and returns the jobs that this makes.
    async fn read(&mut self, level: u32, files: Vec<Arc<dyn SpillFile>>) -> Result<Vec<Job>> {
        let plan = &self.groups.plan;
        if level >= LEVELS {
            return resources_err!(
                "the groups of a GROUP BY do not fit in memory, not even a small part of them; set --memory higher"
            );
        }
        let (spills, mut side) = (plan.spills(), Side::new(plan, level));
        for file in files {
            let mut batches = spills.read_spill_as_stream_unbuffered(file, None)?;
            while let Some(batch) = batches.next().await {
                still_wanted()?;
                let _timer = plan.metrics.compute.timer();
                side.grouper.merge(&batch?);
                side.charge()?;
            }
        }
        jobs(plan, level, vec![side])
    }
}
