//! Shared parts of the plan nodes of all scans.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::{ExecutionPlan, Partitioning, PlanProperties};

/// Returns the plan properties of a scan with this schema: it yields by itself, and its rows come in no order.
pub fn properties(schema: SchemaRef, partitioning: Partitioning) -> Arc<PlanProperties> {
    let properties = PlanProperties::new(
        EquivalenceProperties::new(schema),
        partitioning,
        EmissionType::Incremental,
        Boundedness::Bounded,
    );
    Arc::new(properties.with_scheduling_type(SchedulingType::Cooperative))
}

/// Implements `ExecutionPlan::apply_expressions` over the scan's filters.
pub fn visit(
    predicates: &[Arc<dyn PhysicalExpr>],
    f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
) -> Result<TreeNodeRecursion> {
    for predicate in predicates {
        if f(predicate)? == TreeNodeRecursion::Stop {
            return Ok(TreeNodeRecursion::Stop);
        }
    }
    Ok(TreeNodeRecursion::Continue)
}

/// Implements `ExecutionPlan::with_new_children` for a node without children.
///
/// # Errors
/// `Internal` if `children` is not empty.
pub fn without_inputs(
    scan: Arc<dyn ExecutionPlan>,
    children: &[Arc<dyn ExecutionPlan>],
) -> Result<Arc<dyn ExecutionPlan>> {
    if !children.is_empty() {
        return internal_err!("{} has no inputs", scan.name());
    }
    Ok(scan)
}

/// Writes filters and limit for EXPLAIN, after the other properties of a scan.
pub fn show(f: &mut fmt::Formatter, predicates: &[Arc<dyn PhysicalExpr>], fetch: Option<usize>) -> fmt::Result {
    for (i, predicate) in predicates.iter().enumerate() {
        f.write_str(if i == 0 { ", predicate=" } else { " AND " })?;
        write!(f, "{predicate}")?;
    }
    fetch.map_or(Ok(()), |n| write!(f, ", limit={n}"))
}
