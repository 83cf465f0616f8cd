//! Conditions and expressions over the rows found, planned once for the same constants and session variables.
//!
//! DataFusion's plan is taken apart into what it does with a batch: an `ExecutionPlan` that is run many times would keep the
//! metrics of each run.

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

/// A plan over rows that are there, for these constants under these variables.
#[derive(Debug)]
pub(super) struct Compiled {
    constants: Vec<VarValue>,
    variables: Variables,
    /// Where its functions count values that became NULL.
    lost: Arc<LostValues>,
    pub(super) columns: Vec<Column>,
    /// In the order in which they are done.
    steps: Vec<Step>,
}

/// What is done with a batch.
#[derive(Debug)]
enum Step {
    /// Rows are kept.
    Filter(Arc<dyn PhysicalExpr>),
    /// Columns are computed.
    Compute(Projector),
    /// Columns are taken.
    Take(Vec<usize>),
}

impl Compiled {
    /// `None` for a plan that cannot be used again: it calls a function that means something else the next time (NOW, USER,
    /// RAND), has lost a value of its text, or does more than to filter and to compute. `context`: it was planned in this one,
    /// which is no statement's.
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

    /// Whether it was planned for these.
    pub(super) fn is_for(&self, constants: &[VarValue], variables: &Variables) -> bool {
        let same = |(a, b): (&VarValue, &VarValue)| match (a, b) {
            // 0 and -0 are equal, and what is computed of them is not.
            (VarValue::Double(a), VarValue::Double(b)) => a.to_bits() == b.to_bits(),
            (a, b) => a == b,
        };
        self.constants.len() == constants.len()
            && self.constants.iter().zip(constants).all(same)
            && self.variables.are_as(variables)
    }

    /// The result over these rows. One at a time runs it, so that `lost` gets what this run has lost.
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

/// Whether a plan, which is not optimised yet, means the same at any time and in any session with the same variables.
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

/// Appends what a plan does with a batch; false if it does something else.
fn collect(plan: &Arc<dyn ExecutionPlan>, steps: &mut Vec<Step>) -> Result<bool> {
    let is_one_for_one = plan.downcast_ref::<RepartitionExec>().is_some()
        || plan.downcast_ref::<CoalescePartitionsExec>().is_some()
        || plan.downcast_ref::<CooperativeExec>().is_some();
    // Its LIMIT is the look-up's own.
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
