//! Reads the build side of a nested loop join a second time if it does not fit in memory.
//!
//! DataFusion's join then executes its left input a second time, to spill it. Most operators return their rows only
//! once: a repartitioning panics, and the queue of a scan is empty, so that rows would be missing without an error. A
//! node above that input starts the second run from a plan in its initial state. It also fails the joins whose fallback
//! gives wrong rows:
//!
//! - If several partitions probe, each of them would report a row of the left side as unmatched.
//! - Rows of the right side that are returned because they have a partner, or have none, come after the left side is
//!   finished. They do not come at all if the left side ends with the batch for which memory was too short.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::common::{JoinType, resources_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::{replace_children_if_necessary, reset_plan_states};
use datafusion::physical_plan::joins::NestedLoopJoinExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};

use crate::rules::passing::passes_rows;

/// Puts a [`RereadExec`] above the left input of a nested loop join; returns other plans unchanged.
pub fn with_left_reread(join: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    let Some(node) = join.downcast_ref::<NestedLoopJoinExec>() else { return Ok(Arc::clone(join)) };
    let says_what_is_unmatched = matches!(
        node.join_type(),
        JoinType::Left | JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark | JoinType::Full
    );
    let says_so_of_the_right = matches!(
        node.join_type(),
        JoinType::Right | JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark | JoinType::Full
    );
    let one_probes = node.right().output_partitioning().partition_count() == 1;
    let may = !says_so_of_the_right && (!says_what_is_unmatched || one_probes);
    let left = Arc::new(RereadExec::new(Arc::clone(node.left()), may));
    replace_children_if_necessary(Arc::clone(join), vec![left, Arc::clone(node.right())])
}

/// Returns the rows of its input, and a second time if [`may`](Self::may) allows it.
#[derive(Debug)]
struct RereadExec {
    input: Arc<dyn ExecutionPlan>,
    may: bool,
    begun: AtomicBool,
}

impl RereadExec {
    fn new(input: Arc<dyn ExecutionPlan>, may: bool) -> Self {
        RereadExec { input, may, begun: AtomicBool::new(false) }
    }
}

impl DisplayAs for RereadExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for RereadExec {
    passes_rows!("RereadExec");

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(RereadExec::new(children.swap_remove(0), self.may)))
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(RereadExec::new(Arc::clone(&self.input), self.may)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        if !self.begun.swap(true, Ordering::Relaxed) {
            return self.input.execute(partition, context);
        }
        if !self.may {
            return resources_err!(
                "the smaller side of a join without '=' does not fit in memory; give the join an '=' condition, filter its sides, or set --memory higher"
            );
        }
        reset_plan_states(Arc::clone(&self.input))?.execute(partition, context)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::{DataType, Field, Schema};
    use arrow::record_batch::RecordBatch;
    use datafusion::common::JoinSide;
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::logical_expr::Operator;
    use datafusion::physical_expr::expressions::{BinaryExpr, Column};
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::physical_plan::{Partitioning, collect};

    use super::*;

    fn repartitioned() -> Arc<dyn ExecutionPlan> {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let batch =
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(Int64Array::from_iter_values(0..100))]).unwrap();
        let rows = MemorySourceConfig::try_new_exec(&[vec![batch]], schema, None).unwrap();
        let parts = RepartitionExec::try_new(rows, Partitioning::RoundRobinBatch(3)).unwrap();
        Arc::new(CoalescePartitionsExec::new(Arc::new(parts)))
    }

    #[tokio::test]
    async fn a_second_run_gives_the_same_rows() {
        let plan: Arc<dyn ExecutionPlan> = Arc::new(RereadExec::new(repartitioned(), true));
        for _ in 0..3 {
            let rows = collect(Arc::clone(&plan), Arc::default()).await.unwrap();
            assert_eq!(rows.iter().map(RecordBatch::num_rows).sum::<usize>(), 100);
        }
    }

    /// Joins two batches with one by `l < r`, with memory for about one of the two.
    async fn joined(join_type: JoinType) -> Result<usize> {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let batch = |from: i64, to: i64| {
            let numbers = Int64Array::from_iter_values(from..to);
            RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers)]).unwrap()
        };
        let rows = |batches: Vec<RecordBatch>| {
            MemorySourceConfig::try_new_exec(&[batches], Arc::clone(&schema), None).unwrap()
        };
        let (left, right) = (rows(vec![batch(0, 1000), batch(1000, 2000)]), rows(vec![batch(-5, 3)]));
        let both = Schema::new(vec![Field::new("l", DataType::Int64, false), Field::new("r", DataType::Int64, false)]);
        let less = BinaryExpr::new(Arc::new(Column::new("l", 0)), Operator::Lt, Arc::new(Column::new("r", 1)));
        let places = [JoinSide::Left, JoinSide::Right].map(|side| ColumnIndex { index: 0, side });
        let filter = JoinFilter::new(Arc::new(less), places.to_vec(), Arc::new(both));
        let join = NestedLoopJoinExec::try_new(left, right, Some(filter), &join_type, None)?;
        let join: Arc<dyn ExecutionPlan> = Arc::new(join);
        let join = with_left_reread(&join)?;
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(12_000, 1.0).build_arc()?;
        let context = Arc::new(TaskContext::default().with_runtime(runtime));
        Ok(collect(join, context).await?.iter().map(RecordBatch::num_rows).sum())
    }

    #[tokio::test]
    async fn joins_that_do_not_fit_give_all_rows_or_an_error() {
        // 0 has two partners, 1 has one partner.
        for (join_type, wanted) in [(JoinType::Inner, 3), (JoinType::Left, 3 + 1998), (JoinType::LeftSemi, 2)] {
            assert_eq!(joined(join_type).await.unwrap(), wanted, "{join_type}");
        }
        for join_type in
            [JoinType::Right, JoinType::RightSemi, JoinType::RightAnti, JoinType::RightMark, JoinType::Full]
        {
            let error = joined(join_type).await.unwrap_err().to_string();
            assert!(error.contains("does not fit in memory"), "{join_type}: {error}");
        }
    }

    #[tokio::test]
    async fn or_an_error_where_its_rows_would_be_wrong() {
        let plan: Arc<dyn ExecutionPlan> = Arc::new(RereadExec::new(repartitioned(), false));
        assert!(collect(Arc::clone(&plan), Arc::default()).await.is_ok());
        let error = collect(plan, Arc::default()).await.unwrap_err();
        assert!(error.to_string().contains("does not fit in memory"), "{error}");
    }
}
