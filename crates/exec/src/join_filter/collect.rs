//! The plan node that collects the keys of a join's build side.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::{NullEquality, Result};
use datafusion::config::ConfigOptions;
use datafusion::execution::memory_pool::MemoryConsumer;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::metrics::{Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;

use super::keys::KeyCollector;
use super::settings::JoinFilterSettings;
use crate::rules::passing::passes_rows;

/// A filter over the probe side of a join, of one of the join's keys.
#[derive(Clone, Debug)]
pub(crate) struct KeyFilter {
    /// The key over the build side.
    build: Arc<dyn PhysicalExpr>,
    /// The key over the probe side.
    probe: Arc<dyn PhysicalExpr>,
    filter: Arc<DynamicFilterPhysicalExpr>,
}

impl KeyFilter {
    /// Returns the filter, which lets all rows pass until the keys are known.
    pub(crate) fn filter(&self) -> Arc<dyn PhysicalExpr> {
        Arc::clone(&self.filter) as _
    }
}

/// Returns the filters that a join can give its probe side: one for each of its keys whose bits say whether two values
/// are equal. None for a join that returns rows of the probe side which have no partner, and none for an anti join that
/// must see whether the probe side has any row.
pub(crate) fn filters_of(join: &HashJoinExec, config: &ConfigOptions) -> Result<Vec<KeyFilter>> {
    let settings = config.extensions.get::<JoinFilterSettings>().cloned().unwrap_or_default();
    let (_, drops_without_partner) = join.join_type().on_lr_is_preserved();
    if !settings.enabled || !drops_without_partner || join.null_aware {
        return Ok(Vec::new());
    }
    let mut filters = Vec::new();
    for (build, probe) in join.on() {
        let data_type = build.data_type(&join.left().schema())?;
        // -0.0 equals 0.0, and an array with NULL in it equals another one.
        let by_bits = !data_type.is_floating() && !data_type.is_nested() && !data_type.is_null();
        if by_bits && probe.data_type(&join.right().schema())? == data_type {
            let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(probe)], lit(true)));
            filters.push(KeyFilter { build: Arc::clone(build), probe: Arc::clone(probe), filter });
        }
    }
    Ok(filters)
}

/// Returns the rows of its input, the build side of a join, and makes the join's filters of their keys when the last
/// row of all partitions has passed.
#[derive(Debug)]
pub(crate) struct CollectKeysExec {
    input: Arc<dyn ExecutionPlan>,
    filters: Vec<KeyFilter>,
    nulls_equal: bool,
    /// Schema of the probe side.
    probe: SchemaRef,
    collected: Arc<Mutex<Collected>>,
    metrics: ExecutionPlanMetricsSet,
}

/// The keys that all partitions share.
#[derive(Default)]
struct Collected {
    /// One for each filter, from the first partition's begin to the last one's end.
    keys: Option<Vec<KeyCollector>>,
    /// The partitions that have ended.
    ended: Vec<bool>,
}

impl fmt::Debug for Collected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Collected").field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl CollectKeysExec {
    /// Makes the node above the build side of `join`.
    pub(crate) fn new(join: &HashJoinExec, input: Arc<dyn ExecutionPlan>, filters: Vec<KeyFilter>) -> Self {
        let nulls_equal = join.null_equality() == NullEquality::NullEqualsNull;
        Self::over(input, filters, nulls_equal, join.right().schema())
    }

    fn over(input: Arc<dyn ExecutionPlan>, filters: Vec<KeyFilter>, nulls_equal: bool, probe: SchemaRef) -> Self {
        let (collected, metrics) = (Arc::default(), ExecutionPlanMetricsSet::new());
        CollectKeysExec { input, filters, nulls_equal, probe, collected, metrics }
    }
}

impl DisplayAs for CollectKeysExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.filters.iter().map(|filter| filter.build.to_string()).collect::<Vec<_>>().join(", ");
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "keys={keys}"),
            _ => write!(f, "{}: keys=[{keys}]", self.name()),
        }
    }
}

impl ExecutionPlan for CollectKeysExec {
    passes_rows!("CollectKeysExec");

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let (filters, probe) = (self.filters.clone(), Arc::clone(&self.probe));
        Ok(Arc::new(Self::over(children.swap_remove(0), filters, self.nulls_equal, probe)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        // The scans of the probe side keep the filters, which must let all rows pass until the keys are known again.
        self.filters.iter().try_for_each(|filter| filter.filter.update(lit(true)))?;
        let (input, filters) = (Arc::clone(&self.input), self.filters.clone());
        Ok(Arc::new(Self::over(input, filters, self.nulls_equal, Arc::clone(&self.probe))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, Arc::clone(&context))?;
        let schema = input.schema();
        let mut collected = self.collected.lock();
        if collected.keys.is_none() && collected.ended.is_empty() {
            let pool = context.memory_pool();
            let collectors = self.filters.iter().map(|filter| {
                let memory = MemoryConsumer::new("CollectKeys").register(pool);
                KeyCollector::new(&filter.build.data_type(&schema)?, memory, pool)
            });
            collected.keys = Some(collectors.collect::<Result<_>>()?);
            collected.ended = vec![false; self.input.output_partitioning().partition_count()];
        }
        drop(collected);
        Ok(Box::pin(CollectKeysStream {
            input,
            schema,
            partition,
            filters: self.filters.clone(),
            nulls_equal: self.nulls_equal,
            probe: Arc::clone(&self.probe),
            collected: Arc::clone(&self.collected),
            time: MetricBuilder::new(&self.metrics).elapsed_compute(partition),
            made: MetricBuilder::new(&self.metrics).counter("filters_made", partition),
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn supports_limit_pushdown(&self) -> bool {
        false
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

struct CollectKeysStream {
    input: SendableRecordBatchStream,
    schema: SchemaRef,
    partition: usize,
    filters: Vec<KeyFilter>,
    nulls_equal: bool,
    probe: Arc<Schema>,
    collected: Arc<Mutex<Collected>>,
    time: Time,
    made: Count,
}

impl CollectKeysStream {
    fn add(&self, batch: &RecordBatch) -> Result<()> {
        let keys = self.filters.iter().map(|filter| filter.build.evaluate(batch)?.into_array(batch.num_rows()));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        if let Some(collectors) = &mut self.collected.lock().keys {
            collectors.iter_mut().zip(&keys).try_for_each(|(collector, keys)| collector.add(keys))?;
        }
        Ok(())
    }

    /// Makes the filters if all other partitions have ended, too.
    fn end(&self) -> Result<()> {
        let mut collected = self.collected.lock();
        collected.ended[self.partition] = true;
        if collected.ended.contains(&false) {
            return Ok(());
        }
        let Some(collectors) = collected.keys.take() else { return Ok(()) };
        drop(collected);
        for (collector, filter) in collectors.into_iter().zip(&self.filters) {
            if let Some(condition) = collector.condition(&filter.probe, self.nulls_equal, &self.probe)? {
                filter.filter.update(condition)?;
                self.made.add(1);
            }
        }
        Ok(())
    }
}

impl Stream for CollectKeysStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.input.poll_next_unpin(context));
        let _timer = self.time.timer();
        Poll::Ready(match next {
            Some(Ok(batch)) => Some(self.add(&batch).map(|()| batch)),
            Some(Err(e)) => Some(Err(e)),
            None => self.end().err().map(Err),
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.input.size_hint()
    }
}

impl RecordBatchStream for CollectKeysStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}
