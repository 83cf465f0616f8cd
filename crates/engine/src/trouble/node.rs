//! The sources of trouble: random numbers, a memory pool that refuses, and a plan node that waits and fails.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{exec_datafusion_err, resources_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::{CardinalityEffect, replace_children_if_necessary};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::{StreamExt, stream};

/// How often the batches of one statement wait at most; each wait takes about a millisecond.
const WAITS: u64 = 500;

/// Beginning of the errors of operators and pools that were told to fail.
pub(super) const TOLD: &str = "told to";

/// Random numbers for several threads (SplitMix64).
#[derive(Debug)]
pub(super) struct Dice(AtomicU64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Dice(AtomicU64::new(seed.wrapping_mul(0x2545_F491_4F6C_DD1D)))
    }

    pub(super) fn below(&self, n: u64) -> u64 {
        let mut z = self.0.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (z ^ (z >> 31)) % n.max(1)
    }

    /// True once in `n` times; never for 0.
    pub(super) fn one_in(&self, n: u64) -> bool {
        n > 0 && self.below(n) == 0
    }

    pub(super) fn of<T: Copy>(&self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

/// A pool that refuses one in `one_in` requests, in addition to those that it has to refuse.
#[derive(Debug)]
pub(super) struct Refusing {
    pub(super) inner: Arc<dyn MemoryPool>,
    pub(super) one_in: u64,
    pub(super) dice: Dice,
}

impl fmt::Display for Refusing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl MemoryPool for Refusing {
    fn name(&self) -> &str {
        "refusing"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.inner.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.inner.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.inner.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.inner.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        match additional > 0 && self.dice.one_in(self.one_in) {
            true => Err(resources_datafusion_err!("{TOLD} refuse {additional} bytes")),
            false => self.inner.try_grow(reservation, additional),
        }
    }

    fn reserved(&self) -> usize {
        self.inner.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.inner.memory_limit()
    }
}

/// The way in which an operator fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Failure {
    /// Returns an error.
    Error,
    /// Returns an error that memory is short, which other operators answer by spilling.
    NoMemory,
    /// Returns an error before the first batch is requested.
    Begin,
    Panic,
}

/// The behaviour of the nodes of one statement.
#[derive(Debug)]
pub(super) struct Trouble {
    pub(super) dice: Dice,
    /// A batch waits once in this many times, but at most [`WAITS`] times in total.
    pub(super) waits_one_in: u64,
    pub(super) waited: AtomicU64,
    /// Rows of the pieces into which batches are cut.
    pub(super) rows: usize,
    /// The failure of the failing node, and the batch at which it occurs.
    pub(super) failure: Option<(Failure, u64)>,
}

/// Passes the rows of its input on, later and in pieces, or fails.
#[derive(Debug)]
struct TroubleExec {
    input: Arc<dyn ExecutionPlan>,
    trouble: Arc<Trouble>,
    /// Whether this node is the one that fails.
    fails: bool,
    batches: Arc<AtomicU64>,
}

impl TroubleExec {
    fn failure(&self) -> Option<(Failure, u64)> {
        self.trouble.failure.filter(|_| self.fails)
    }
}

impl DisplayAs for TroubleExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.failure() {
            Some(failure) => write!(f, "TroubleExec: {failure:?}"),
            None => f.write_str("TroubleExec"),
        }
    }
}

impl ExecutionPlan for TroubleExec {
    fn name(&self) -> &str {
        "TroubleExec"
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
        Ok(Arc::new(TroubleExec {
            input: children.swap_remove(0),
            trouble: Arc::clone(&self.trouble),
            fails: self.fails,
            batches: Arc::clone(&self.batches),
        }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let failure = self.failure();
        if matches!(failure, Some((Failure::Begin, at)) if self.batches.fetch_add(1, Ordering::Relaxed) == at) {
            return Err(exec_datafusion_err!("{TOLD} fail at the beginning"));
        }
        let rows = self.trouble.rows;
        let pieces = self.input.execute(partition, context)?.flat_map(move |batch| {
            let pieces: Vec<Result<RecordBatch>> = match batch {
                Ok(batch) if batch.num_rows() > rows => (0..batch.num_rows())
                    .step_by(rows)
                    .map(|from| Ok(batch.slice(from, rows.min(batch.num_rows() - from))))
                    .collect(),
                other => vec![other],
            };
            stream::iter(pieces)
        });
        let (trouble, batches) = (Arc::clone(&self.trouble), Arc::clone(&self.batches));
        let late = pieces.then(move |batch| {
            let (trouble, batches) = (Arc::clone(&trouble), Arc::clone(&batches));
            async move {
                if trouble.dice.one_in(trouble.waits_one_in) && trouble.waited.fetch_add(1, Ordering::Relaxed) < WAITS {
                    match trouble.dice.below(1000) {
                        0..500 => tokio::task::yield_now().await,
                        micros => tokio::time::sleep(Duration::from_micros(micros)).await,
                    }
                }
                let number = batches.fetch_add(1, Ordering::Relaxed);
                match failure.filter(|(_, at)| *at == number) {
                    Some((Failure::Error, _)) => Err(exec_datafusion_err!("{TOLD} fail at batch {number}")),
                    Some((Failure::NoMemory, _)) => Err(resources_datafusion_err!("{TOLD} lack memory")),
                    Some((Failure::Panic, _)) => std::panic::panic_any(format!("{TOLD} panic")),
                    Some((Failure::Begin, _)) | None => batch,
                }
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.input.schema(), late)))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }
}

/// Adds a [`TroubleExec`] above each node of a plan; one of them fails.
pub(super) fn in_trouble(plan: Arc<dyn ExecutionPlan>, trouble: &Arc<Trouble>) -> Result<Arc<dyn ExecutionPlan>> {
    let mut nodes = 0;
    plan.apply(|_| {
        nodes += 1;
        Ok(TreeNodeRecursion::Continue)
    })?;
    let (failing, mut number) = (trouble.dice.below(nodes), 0);
    let mut above = |input| -> Arc<dyn ExecutionPlan> {
        number += 1;
        let (trouble, batches) = (Arc::clone(trouble), Arc::default());
        Arc::new(TroubleExec { input, trouble, fails: number - 1 == failing, batches })
    };
    let plan = plan
        .transform_up(|node| {
            let below = node.children().into_iter().map(|child| above(Arc::clone(child))).collect();
            Ok(Transformed::yes(replace_children_if_necessary(node, below)?))
        })
        .data()?;
    Ok(above(plan))
}
