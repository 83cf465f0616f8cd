//! Lets a hash join go on when one of its partitions has been dropped.
//!
//! A hash join that collects its smaller side for all partitions builds a filter for the scan of the other side, once
//! each partition has seen the collected side. Until then all partitions wait. A partition that is dropped before does
//! not report: for example, the join above found no row of its own side in that partition, and polls no row of this
//! one. DataFusion then lets the other partitions wait forever. A node above such a join keeps the stream of the
//! dropped partition, and the waiting partitions poll that stream, too.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties, StatisticsArgs,
};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;

/// Puts a join below a [`ReportsExec`] if its partitions wait for one another; returns other plans unchanged.
pub fn with_reports(join: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    let wait = join.downcast_ref::<HashJoinExec>().is_some_and(|join| {
        *join.partition_mode() == PartitionMode::CollectLeft
            && !join.dynamic_expressions_produced().is_empty()
            && join.right().output_partitioning().partition_count() > 1
    });
    if wait { Arc::new(ReportsExec::new(join)) } else { join }
}

/// Returns the rows of its input. Each partition is polled until it has returned its first batch or has ended, even if
/// its consumer drops it before.
#[derive(Debug)]
struct ReportsExec {
    input: Arc<dyn ExecutionPlan>,
    dropped: Arc<Mutex<Dropped>>,
}

/// Partitions that were dropped before they reported.
#[derive(Default)]
struct Dropped {
    streams: Vec<SendableRecordBatchStream>,
    /// Wakers of the partitions that wait for others.
    waiting: Vec<Waker>,
    /// Number of partitions that were started, and of those that have not been dropped.
    begun: usize,
    wanted: usize,
}

impl fmt::Debug for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dropped").field("streams", &self.streams.len()).finish_non_exhaustive()
    }
}

impl ReportsExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        ReportsExec { input, dropped: Arc::default() }
    }
}

impl DisplayAs for ReportsExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for ReportsExec {
    fn name(&self) -> &str {
        "ReportsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        Ok(Arc::new(ReportsExec::new(children.swap_remove(0))))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(ReportsExec::new(Arc::clone(&self.input))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.input.execute(partition, context)?;
        let schema = input.schema();
        let mut dropped = self.dropped.lock();
        dropped.begun += 1;
        dropped.wanted += 1;
        let partitions = self.input.output_partitioning().partition_count();
        Ok(Box::pin(ReportsStream {
            input: Some(input),
            schema,
            reported: false,
            partitions,
            dropped: Arc::clone(&self.dropped),
        }))
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

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

struct ReportsStream {
    /// `Some` until this stream is dropped.
    input: Option<SendableRecordBatchStream>,
    schema: SchemaRef,
    /// Whether the input has returned a batch or has ended, so that it waits for no other partition.
    reported: bool,
    partitions: usize,
    dropped: Arc<Mutex<Dropped>>,
}

impl Stream for ReportsStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(input) = &mut this.input else { return Poll::Ready(None) };
        let polled = input.poll_next_unpin(context);
        if this.reported {
            return polled;
        }
        if polled.is_ready() {
            this.reported = true;
            return polled;
        }
        // Poll outside the lock, because it may take long.
        let streams = {
            let mut dropped = this.dropped.lock();
            if !dropped.waiting.iter().any(|waker| waker.will_wake(context.waker())) {
                dropped.waiting.push(context.waker().clone());
            }
            std::mem::take(&mut dropped.streams)
        };
        if streams.is_empty() {
            return Poll::Pending;
        }
        let still: Vec<_> =
            streams.into_iter().filter_map(|mut s| s.poll_next_unpin(context).is_pending().then_some(s)).collect();
        this.dropped.lock().streams.extend(still);
        // The input may have waited for the report of those streams.
        let Some(input) = &mut this.input else { return Poll::Ready(None) };
        let polled = input.poll_next_unpin(context);
        this.reported = polled.is_ready();
        polled
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.input.as_ref().map_or((0, Some(0)), |input| input.size_hint())
    }
}

impl RecordBatchStream for ReportsStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for ReportsStream {
    fn drop(&mut self) {
        let mut gone = Vec::new();
        let mut dropped = self.dropped.lock();
        dropped.wanted -= 1;
        if !self.reported {
            dropped.streams.extend(self.input.take());
        }
        if dropped.wanted == 0 && dropped.begun >= self.partitions {
            gone.append(&mut dropped.streams);
        }
        let waiting = std::mem::take(&mut dropped.waiting);
        drop(dropped);
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::NullEquality;
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::logical_expr::JoinType;
    use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr, lit};
    use datafusion::physical_plan::filter::FilterExec;
    use tokio::time::timeout;

    use super::*;

    /// Makes a join of three partitions with a filter for its right side. Each partition gives two rows.
    fn join() -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![numbers]).unwrap();
        let rows = |partitions: usize| {
            let batches = vec![vec![batch.clone()]; partitions];
            MemorySourceConfig::try_new_exec(&batches, Arc::clone(&schema), None).unwrap()
        };
        let key: Arc<dyn PhysicalExpr> = Arc::new(Column::new("k", 0));
        let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![Arc::clone(&key)], lit(true)));
        let right = Arc::new(FilterExec::try_new(Arc::clone(&filter) as _, rows(3)).unwrap());
        let on = vec![(Arc::clone(&key), key)];
        let (mode, nulls) = (PartitionMode::CollectLeft, NullEquality::NullEqualsNothing);
        let join = HashJoinExec::try_new(rows(1), right, on, None, &JoinType::Inner, None, mode, nulls, false);
        Arc::new(join.unwrap().with_dynamic_filter_expr(filter).unwrap())
    }

    /// If this test fails, DataFusion has been fixed, and the node is not needed any more.
    #[tokio::test]
    async fn by_itself_a_join_waits_for_a_partition_that_is_gone() {
        let join = join();
        let [first, mut second] = [0, 1].map(|at| join.execute(at, Arc::default()).unwrap());
        drop((first, join.execute(2, Arc::default()).unwrap()));
        assert!(timeout(Duration::from_millis(200), second.next()).await.is_err());
    }

    #[tokio::test]
    async fn others_go_on_without_a_partition() {
        let node = with_reports(join());
        let [first, mut second, mut third] = [0, 1, 2].map(|at| node.execute(at, Arc::default()).unwrap());
        // One partition is dropped before the others wait, one while they do.
        drop(first);
        assert!(timeout(Duration::from_millis(20), second.next()).await.is_err());
        let last = tokio::spawn(async move { third.next().await });
        tokio::task::yield_now().await;
        drop(second);
        let rows = timeout(Duration::from_secs(5), last).await.expect("no wait").unwrap();
        assert_eq!(rows.unwrap().unwrap().num_rows(), 2);
    }

    #[tokio::test]
    async fn nothing_is_kept_where_nobody_is_left() {
        let node = ReportsExec::new(join());
        let streams = [0, 1, 2].map(|at| node.execute(at, Arc::default()).unwrap());
        drop(streams);
        let dropped = node.dropped.lock();
        assert_eq!((dropped.streams.len(), dropped.wanted), (0, 0));
    }
}
