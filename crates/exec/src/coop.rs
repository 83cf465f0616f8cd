//! Joins and planner rules that run for long without yielding stop when their statement ends, and let other tasks run.
//!
//! A task can be stopped only where it yields. DataFusion makes the leaves of a plan yield. A join may read few batches
//! of its inputs and produce millions of its own in one turn, while the operators above take them at once; so
//! [`GiveWay`] makes joins yield after as many batches as a leaf would. A join whose condition no pair meets produces
//! no batch at all and has nowhere to yield: its condition checks whether the statement still [runs](Run), and fails if
//! it does not. Planner rules and the type computations of functions check it too, because a plan is also made in one
//! turn. Once a turn has taken longer than [`TURN`], another thread takes over the tasks that wait for this one.

use std::any::Any;
use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use arrow::datatypes::{DataType, FieldRef, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::exec_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizerContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, NestedLoopJoinExecBuilder, SortMergeJoinExec,
};
use datafusion::physical_plan::unnest::UnnestExec;
use dipper_base::preempt;
use futures::future::BoxFuture;
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::rules::reread::with_left_reread;

/// Puts [`CooperativeExec`] above joins and UNNEST, up to [`YIELDING_MAX`] from below, and [`WhileItRuns`] around the
/// conditions of joins. Lets nested loop joins [read](crate::rules::reread) their left side again.
#[derive(Debug)]
pub struct GiveWay;

impl PhysicalOptimizerRule for GiveWay {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let node: Arc<dyn ExecutionPlan> =
                match (node.downcast_ref::<NestedLoopJoinExec>(), node.downcast_ref::<HashJoinExec>()) {
                    (Some(join), _) if let Some(filter) = join.filter() => {
                        Arc::new(NestedLoopJoinExecBuilder::from(join).with_filter(Some(watched(filter))).build()?)
                    }
                    (_, Some(join)) if let Some(filter) = join.filter() => {
                        Arc::new(join.builder().with_filter(Some(watched(filter))).build()?)
                    }
                    _ => node,
                };
            let node = with_left_reread(&node)?;
            if !multiplies(&node) {
                return Ok(Transformed::no(node));
            }
            let yields = yielding(&node) < YIELDING_MAX;
            Ok(Transformed::yes(if yields { Arc::new(CooperativeExec::new(node)) } else { node }))
        })
        .data()
    }

    fn name(&self) -> &str {
        "give_way"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The most operators that yield, one below the other. Each takes a unit of tokio's budget for a turn of a task, 128 in
/// all, before it asks the one below. Once the budget is used up above the leaves, no turn gets further.
const YIELDING_MAX: usize = 64;

/// Returns whether an operator may produce many more batches than it reads.
fn multiplies(node: &Arc<dyn ExecutionPlan>) -> bool {
    node.is::<CrossJoinExec>()
        || node.is::<NestedLoopJoinExec>()
        || node.is::<HashJoinExec>()
        || node.is::<SortMergeJoinExec>()
        || node.is::<UnnestExec>()
}

/// Returns the number of operators that yield on the path down with the most of them.
fn yielding(plan: &Arc<dyn ExecutionPlan>) -> usize {
    let (mut most, mut open) = (0, vec![(plan, 0)]);
    while let Some((node, above)) = open.pop() {
        let here = above + usize::from(node.is::<CooperativeExec>());
        most = most.max(here);
        open.extend(node.children().into_iter().map(|child| (child, here)));
    }
    most
}

fn watched(filter: &JoinFilter) -> JoinFilter {
    let condition = Arc::new(WhileItRuns(Arc::clone(filter.expression())));
    JoinFilter::new(condition, filter.column_indices().to_vec(), Arc::clone(filter.schema()))
}

/// A join condition that fails once nobody waits for its statement.
#[derive(Debug, Eq)]
struct WhileItRuns(Arc<dyn PhysicalExpr>);

// Written by hand: the derived implementation would move the values that it compares.
impl PartialEq for WhileItRuns {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq(&other.0)
    }
}

impl Hash for WhileItRuns {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

impl fmt::Display for WhileItRuns {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PhysicalExpr for WhileItRuns {
    fn data_type(&self, input: &Schema) -> Result<DataType> {
        self.0.data_type(input)
    }

    fn nullable(&self, input: &Schema) -> Result<bool> {
        self.0.nullable(input)
    }

    fn return_field(&self, input: &Schema) -> Result<FieldRef> {
        self.0.return_field(input)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        still_wanted()?;
        beside_others(|| self.0.evaluate(batch))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.0]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        match (children.pop(), children.is_empty()) {
            (Some(condition), true) => Ok(Arc::new(WhileItRuns(condition))),
            _ => exec_err!("WhileItRuns has one child"),
        }
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_sql(f)
    }
}

/// Wraps optimizer rules so that they fail at the next plan node once nobody waits for the statement.
pub fn while_wanted(rules: Vec<Arc<dyn OptimizerRule + Send + Sync>>) -> Vec<Arc<dyn OptimizerRule + Send + Sync>> {
    rules.into_iter().map(|rule| Arc::new(WhileWanted(rule)) as Arc<dyn OptimizerRule + Send + Sync>).collect()
}

#[derive(Debug)]
struct WhileWanted(Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for WhileWanted {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        still_wanted()?;
        beside_others(|| self.0.rewrite(plan, config))
    }
}

/// Wraps an analyzer rule so that it fails before it starts if nobody waits for the statement. An analyzer rule visits
/// the whole plan in one call, so there is no later check.
pub fn analyzed_while_wanted(rule: Arc<dyn AnalyzerRule + Send + Sync>) -> Arc<dyn AnalyzerRule + Send + Sync> {
    Arc::new(AnalyzedWhileWanted(rule))
}

#[derive(Debug)]
struct AnalyzedWhileWanted(Arc<dyn AnalyzerRule + Send + Sync>);

impl AnalyzerRule for AnalyzedWhileWanted {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        still_wanted()?;
        beside_others(|| self.0.analyze(plan, config))
    }
}

/// Wraps physical rules so that none starts once nobody waits for the statement. A rule visits the whole plan in one
/// call, so there is no later check.
pub fn physical_while_wanted(rules: Vec<PhysicalRule>) -> Vec<PhysicalRule> {
    rules.into_iter().map(|rule| Arc::new(PhysicalWhileWanted(rule)) as PhysicalRule).collect()
}

type PhysicalRule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

#[derive(Debug)]
struct PhysicalWhileWanted(PhysicalRule);

impl PhysicalOptimizerRule for PhysicalWhileWanted {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        still_wanted()?;
        beside_others(|| self.0.optimize(plan, config))
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        still_wanted()?;
        beside_others(|| self.0.optimize_with_context(plan, context))
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Fails if nobody waits for the work of this task any more. Otherwise offers the CPU to other threads first.
pub fn still_wanted() -> Result<()> {
    preempt::yield_point();
    match has_ended() {
        true => exec_err!("nobody waits for this statement any more"),
        false => Ok(()),
    }
}

/// Returns whether nobody waits for the work of this task any more.
pub fn has_ended() -> bool {
    ENDED.try_with(|ended| ended.load(Ordering::Relaxed)).unwrap_or(false)
}

tokio::task_local! {
    static ENDED: Arc<AtomicBool>;
}

/// The longest turn of a task that does not keep other statements waiting noticeably.
const TURN: Duration = Duration::from_millis(20);

thread_local! {
    /// When the current turn of the task on this thread began.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Returns whether the task's turn has taken so long that the thread's other tasks should go to another thread. Handing
/// them over may fail where the work is shorter than the time another thread needs to wake up, so it is tried until the
/// turn ends; once the tasks are gone, it costs next to nothing.
fn is_long() -> bool {
    BEGUN.get().is_some_and(|begun| begun.elapsed() > TURN) && is_one_of_many()
}

/// Runs a part of a turn. If the turn is long already, another thread runs the tasks that wait for this one meanwhile.
fn beside_others<R>(part: impl FnOnce() -> R) -> R {
    match is_long() {
        true => block_in_place(part),
        false => part(),
    }
}

/// Wraps work whose turns are long from the start, if `is_long`: during each turn another thread runs the tasks that
/// wait for this one meanwhile.
pub fn at_length<F: Future>(is_long: bool, work: F) -> impl Future<Output = F::Output> + use<F> {
    let mut work = Box::pin(work);
    poll_fn(move |context| match is_long && is_one_of_many() {
        true => block_in_place(|| work.as_mut().poll(context)),
        false => work.as_mut().poll(context),
    })
}

/// Returns whether the runtime has other threads that can take over the tasks of this one.
fn is_one_of_many() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Records when each turn of `work` begins.
fn in_turns<F: Future>(work: F) -> impl Future<Output = F::Output> + use<F> {
    let mut work = Box::pin(work);
    poll_fn(move |context| {
        let before = BEGUN.replace(Some(Instant::now()));
        let polled = work.as_mut().poll(context);
        BEGUN.set(before);
        polled
    })
}

/// A handle for work that somebody waits for. Dropping it tells the work that nobody waits any more.
#[derive(Debug, Default)]
pub struct Run(Arc<AtomicBool>);

impl Run {
    /// Runs `work` so that it, and the tasks that it spawns through DataFusion, see when the run ends.
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        in_turns(ENDED.scope(Arc::clone(&self.0), work))
    }

    /// Like [`scope`](Self::scope), for a function: for example one that starts a plan, which may spawn tasks.
    pub fn enter<R>(&self, f: impl FnOnce() -> R) -> R {
        ENDED.sync_scope(Arc::clone(&self.0), f)
    }

    /// Wraps a function that will run on another thread, so that it sees there when the run ends.
    pub fn elsewhere<R, F: FnOnce() -> R>(&self, f: F) -> impl FnOnce() -> R + use<R, F> {
        let ended = Arc::clone(&self.0);
        move || ENDED.sync_scope(ended, f)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Makes a task that DataFusion is about to spawn part of the run of the task that spawns it.
pub fn follow(task: BoxFuture<'static, Box<dyn Any + Send>>) -> BoxFuture<'static, Box<dyn Any + Send>> {
    match ENDED.try_with(Arc::clone) {
        Ok(ended) => Box::pin(in_turns(ENDED.scope(ended, task))),
        Err(_) => task,
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::DFSchema;
    use datafusion::execution::session_state::SessionStateBuilder;
    use datafusion::logical_expr::{ExprSchemable, LogicalPlanBuilder, lit};
    use datafusion::optimizer::{Optimizer, OptimizerContext};

    use super::*;

    #[tokio::test]
    async fn nothing_is_planned_for_nobody() {
        let plan = LogicalPlanBuilder::empty(true).project([lit(1)]).unwrap().build().unwrap();
        let optimizer = Optimizer::with_rules(while_wanted(Optimizer::new().rules));
        let optimize = async || optimizer.optimize(plan.clone(), &OptimizerContext::new(), |_, _| {});
        let run = Run::default();
        assert!(run.scope(optimize()).await.is_ok());
        let late = run.scope(optimize());
        drop(run);
        assert!(late.await.unwrap_err().to_string().contains("nobody waits"));
    }

    #[tokio::test]
    async fn functions_have_no_types_for_nobody() {
        let mut state = SessionStateBuilder::new().with_default_features().build();
        dipper_sql::functions::register_all(&mut state).unwrap();
        dipper_sql::functions::give_up_when(has_ended);
        let abs = state.scalar_functions()["abs"].call(vec![lit(-1_i64)]);
        let typed = async || abs.get_type(&DFSchema::empty());
        let run = Run::default();
        assert!(run.scope(typed()).await.is_ok());
        let late = run.scope(typed());
        drop(run);
        assert!(late.await.unwrap_err().to_string().contains("nobody waits"));
    }
}
