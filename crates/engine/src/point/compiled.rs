//! Conditions and expressions over the rows of a look-up, planned once for the same constants and session variables.
//!
//! The DataFusion plan is taken apart into its operations on a batch: an `ExecutionPlan` that is run many times would
//! keep the metrics of each run.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::projection::Projector;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::filter::{FilterExec, batch_filter};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use dipper_sql::charter::session::VarValue;
use dipper_sql::functions::LostValues;

use crate::context::QueryContext;
use crate::error::Result;
use crate::query::Planned;
use crate::result::Column;
use dipper_variables::Variables;

/// A plan over rows in memory, for these constants and variables.
#[derive(Debug)]
pub(super) struct Compiled {
    constants: Vec<VarValue>,
    variables: Variables,
    /// Counts the values that became NULL in its functions.
    lost: Arc<LostValues>,
    pub(super) columns: Vec<Column>,
    /// The operations, in the order in which they are applied.
    steps: Vec<Step>,
}

/// An operation on a batch.
#[derive(Debug)]
enum Step {
    /// Keeps the rows for which the condition is true.
    Filter(Arc<dyn PhysicalExpr>),
    /// Computes columns.
    Compute(Projector),
    /// Selects columns.
    Take(Vec<usize>),
}

impl Compiled {
    /// Compiles a plan. `context` is the context in which it was planned, which belongs to no statement. Returns `None`
    /// if the plan cannot be used again: it calls a function whose result can differ next time (NOW, USER, RAND), a
    /// constant became NULL while it was planned, or it has operations other than filters and computations.
    pub(super) fn of(
        planned: &Planned,
        physical: &Arc<dyn ExecutionPlan>,
        constants: Vec<VarValue>,
        context: &QueryContext,
    ) -> Result<Option<Self>> {
        let mut steps = Vec::new();
        if !context.lost.is_empty() || !is_lasting(&planned.logical)? || !collect(physical, &mut steps)? {
            return Ok(None);
        }
        let (variables, lost) = (context.variables.clone(), Arc::clone(&context.lost));
        Ok(Some(Compiled { constants, variables, lost, columns: planned.columns(), steps }))
    }

    /// Whether the plan was made for these constants and variables.
    pub(super) fn is_for(&self, constants: &[VarValue], variables: &Variables) -> bool {
        let same = |(a, b): (&VarValue, &VarValue)| match (a, b) {
            // 0 and -0 are equal, but results that are computed from them may differ.
            (VarValue::Double(a), VarValue::Double(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        };
        self.constants.len() == constants.len()
            && self.constants.iter().zip(constants).all(same)
            && self.variables.are_as(variables)
    }

    /// Runs the plan over these rows. Only one thread at a time may run it, so that `lost` gets the values that this
    /// run has lost.
    pub(super) fn run(&self, batch: RecordBatch, lost: &LostValues) -> Result<RecordBatch> {
        let result = self.steps.iter().try_fold(batch, |batch, step| {
            Ok(match step {
                Step::Filter(predicate) => batch_filter(&batch, predicate)?,
                Step::Compute(projector) => projector.project_batch(&batch)?,
                Step::Take(columns) => batch.project(columns)?,
            })
        });
        lost.take_from(&self.lost);
        result
    }
}

/// Whether a plan, before it is optimised, means the same at any time and in any session with the same variables.
fn is_lasting(plan: &LogicalPlan) -> Result<bool> {
    let mut lasting = true;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                lasting &= match part {
                    Expr::ScalarFunction(function) => function.func.signature().volatility == Volatility::Immutable,
                    Expr::HigherOrderFunction(_) => false,
                    _ => true,
                };
                Ok(if lasting { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
            })
        })
    })?;
    Ok(lasting)
}

/// Appends the operations of a plan; false if the plan has other operations.
fn collect(plan: &Arc<dyn ExecutionPlan>, steps: &mut Vec<Step>) -> Result<bool> {
    let is_one_for_one = plan.downcast_ref::<RepartitionExec>().is_some()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some()
        || plan.downcast_ref::<CooperativeExec>().is_some();
    // The LIMIT of a plan is that of the look-up, which applies it itself.
    if plan.fetch().is_some() {
        return Ok(false);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        if !collect(filter.input(), steps)? {
            return Ok(false);
        }
        steps.push(Step::Filter(Arc::clone(filter.predicate())));
        steps.extend(filter.projection().as_ref().map(|columns| Step::Take(columns.to_vec())));
        return Ok(true);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let input = projection.input();
        if !collect(input, steps)? {
            return Ok(false);
        }
        steps.push(Step::Compute(projection.projection_expr().make_projector(&input.schema())?));
        return Ok(true);
    }
    if let Some(source) = plan.downcast_ref::<DataSourceExec>() {
        let Some(rows) = source.data_source().downcast_ref::<MemorySourceConfig>() else { return Ok(false) };
        steps.extend(rows.projection().clone().map(Step::Take));
        return Ok(true);
    }
    match plan.children().as_slice() {
        [input] if is_one_for_one => collect(input, steps),
        _ => Ok(false),
    }
}
