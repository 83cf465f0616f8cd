//! Runs [`PickColumns`]: columns of an input by their places.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use dipper_sql::charter::wide::PickColumns;

/// DataFusion's planner, which knows the nodes of the charter.
#[derive(Debug)]
pub(crate) struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, logical: &LogicalPlan, state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner = DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Picks)]);
        planner.create_physical_plan(logical, state).await
    }
}

struct Picks;

#[async_trait]
impl ExtensionPlanner for Picks {
    async fn plan_extension(
        &self,
        _planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        _logical: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        _state: &dyn Session,
        _context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let (Some(node), [input]) = (node.as_any().downcast_ref::<PickColumns>(), inputs) else { return Ok(None) };
        let schema = input.schema();
        let places = node.places();
        if places.len() == schema.fields().len() && places.iter().enumerate().all(|(at, place)| at == *place) {
            return Ok(Some(Arc::clone(input)));
        }
        let columns = places.iter().map(|place| {
            let name = schema.field(*place).name();
            ProjectionExpr::new(Arc::new(Column::new(name, *place)), name.clone())
        });
        Ok(Some(Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), Arc::clone(input))?)))
    }
}
