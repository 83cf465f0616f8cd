//! Charges the memory of window results to the statement.
//!
//! DataFusion's window operators reserve no memory. A node above each of them says, while it is polled, which
//! reservation the accumulators of aggregates over windows charge; a node below it says that the input's operators are
//! not part of the window.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use dipper_sql::functions::with_window_memory;
use futures::{Stream, StreamExt};

use crate::rules::passing::passes_rows;

/// Puts [`WindowMemoryExec`] above and below windows.
#[derive(Debug)]
pub struct ChargeWindows;

impl PhysicalOptimizerRule for ChargeWindows {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            if !node.is::<WindowAggExec>() && !node.is::<BoundedWindowAggExec>() {
                return Ok(Transformed::no(node));
            }
            let below = node.children().into_iter().map(|child| node_of(Arc::clone(child), false)).collect();
            Ok(Transformed::yes(node_of(replace_children_if_necessary(node, below)?, true)))
        })
        .data()
    }

    fn name(&self) -> &str {
        "charge_windows"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn node_of(input: Arc<dyn ExecutionPlan>, window: bool) -> Arc<dyn ExecutionPlan> {
    Arc::new(WindowMemoryExec { input, window })
}

/// Returns the rows of its input. If `window`, the input is a window operator whose results charge memory to the
/// statement; otherwise it is the input of one.
#[derive(Debug)]
struct WindowMemoryExec {
    input: Arc<dyn ExecutionPlan>,
    window: bool,
}

impl DisplayAs for WindowMemoryExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.window { "WindowMemoryExec" } else { "WindowMemoryExec: input" })
    }
}

impl ExecutionPlan for WindowMemoryExec {
    passes_rows!("WindowMemoryExec");

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(node_of(children.swap_remove(0), self.window))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let memory = self.window.then(|| {
            Arc::new(MemoryConsumer::new(format!("WindowMemory[{partition}]")).register(context.memory_pool()))
        });
        Ok(Box::pin(WindowMemoryStream { input: self.input.execute(partition, context)?, memory }))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

struct WindowMemoryStream {
    input: SendableRecordBatchStream,
    memory: Option<Arc<MemoryReservation>>,
}

impl Stream for WindowMemoryStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let polled = with_window_memory(this.memory.as_ref(), || this.input.poll_next_unpin(context));
        if let (Poll::Ready(_), Some(memory)) = (&polled, &this.memory) {
            // The results belong to the consumer of the batch from here on.
            memory.free();
        }
        polled
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.input.size_hint()
    }
}

impl RecordBatchStream for WindowMemoryStream {
    fn schema(&self) -> SchemaRef {
        self.input.schema()
    }
}
