//! Plan nodes that pass their input's rows on unchanged, but none of their known properties, or only some.

use std::fmt;
use std::sync::Arc;

use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{ConstExpr, EquivalenceProperties, Partitioning, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::CardinalityEffect;
use datafusion::physical_plan::filter_pushdown::{FilterDescription, FilterPushdownPhase};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties};

use crate::rules::passing::passes_rows;

/// Returns the rows of its input. The parents learn neither their order nor equal or constant columns; filters stay
/// above it.
#[derive(Debug)]
pub struct ForgetExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl ForgetExec {
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::clone(input.properties())
            .with_eq_properties(EquivalenceProperties::new(input.schema()))
            .with_partitioning(Partitioning::UnknownPartitioning(partitions));
        ForgetExec { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for ForgetExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for ForgetExec {
    passes_rows!("ForgetExec");

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(ForgetExec::new(children.swap_remove(0))))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        Ok(FilterDescription::all_unsupported(&parent_filters, &self.children()))
    }
}

/// Returns the rows of its input. The parents learn only the order and the constants of the first `width` columns.
#[derive(Debug)]
pub struct ForgetResultsExec {
    input: Arc<dyn ExecutionPlan>,
    width: usize,
    properties: Arc<PlanProperties>,
}

impl ForgetResultsExec {
    pub fn new(input: Arc<dyn ExecutionPlan>, width: usize) -> Result<Self> {
        let known = input.equivalence_properties();
        let is_kept = |expr: &Arc<dyn PhysicalExpr>| collect_columns(expr).iter().all(|column| column.index() < width);
        let mut orders: Vec<Vec<PhysicalSortExpr>> = Vec::new();
        for order in known.oeq_class().iter() {
            let order: Vec<PhysicalSortExpr> = order.iter().take_while(|sort| is_kept(&sort.expr)).cloned().collect();
            if !order.is_empty() && !orders.contains(&order) {
                orders.push(order);
            }
        }
        let mut kept = EquivalenceProperties::new_with_orderings(input.schema(), orders);
        let group = known.eq_group();
        let constants = group
            .iter()
            .flat_map(|class| class.iter())
            .filter(|expr| is_kept(expr))
            .filter_map(|expr| Some(ConstExpr::new(Arc::clone(expr), group.is_expr_constant(expr)?)));
        kept.add_constants(constants)?;
        let properties = PlanProperties::clone(input.properties()).with_eq_properties(kept);
        Ok(ForgetResultsExec { input, width, properties: Arc::new(properties) })
    }
}

impl DisplayAs for ForgetResultsExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for ForgetResultsExec {
    passes_rows!("ForgetResultsExec");

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(ForgetResultsExec::new(children.swap_remove(0), self.width)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }

    fn cardinality_effect(&self) -> CardinalityEffect {
        CardinalityEffect::Equal
    }

    fn gather_filters_for_pushdown(
        &self,
        _phase: FilterPushdownPhase,
        parent_filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterDescription> {
        Ok(FilterDescription::all_unsupported(&parent_filters, &self.children()))
    }
}
