//! Physical plans of [`PickColumns`], which picks columns of its input by their indexes, and [`ComputeColumns`], which
//! computes expressions over some of them. Wide select lists use both.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::Session;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use dipper_sql::charter::compute::{ComputeColumns, Item, narrowed, simplified};
use dipper_sql::charter::wide::PickColumns;
use dipper_sql::functions::ask_for_copies;

use crate::shared::Sharing;

/// DataFusion's planner, extended by the plan nodes of the charter.
#[derive(Debug)]
pub struct Planner;

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(&self, logical: &LogicalPlan, state: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let planner =
            DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(Picks), Arc::new(Sharing::default())]);
        planner.create_physical_plan(logical, state).await
    }
}

struct Picks;

#[async_trait]
impl ExtensionPlanner for Picks {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical: &[&LogicalPlan],
        inputs: &[Arc<dyn ExecutionPlan>],
        state: &dyn Session,
        context: &PhysicalPlanningContext,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        if let (Some(node), [logical], [input]) = (node.as_any().downcast_ref::<ComputeColumns>(), logical, inputs) {
            let computing = Computing { planner, schema: logical.schema(), state, context };
            assert_eq!(node.items().len(), node.schema().fields().len(), "each item is a column of the node");
            let columns = node.items().iter().zip(node.schema().fields());
            let columns = columns.map(|(item, field)| computing.column(item, field.name()));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            return Ok(Some(Arc::new(ProjectionExec::try_new(columns, Arc::clone(input))?)));
        }
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

/// Makes the physical columns of a [`ComputeColumns`] node.
struct Computing<'a> {
    planner: &'a dyn PhysicalPlanner,
    /// The input's schema.
    schema: &'a DFSchema,
    state: &'a dyn Session,
    context: &'a PhysicalPlanningContext,
}

impl Computing<'_> {
    fn column(&self, item: &Item, name: &str) -> Result<ProjectionExpr> {
        let schema = Arc::new(narrowed(self.schema, &item.reads)?);
        let props = self.state.execution_props();
        let mut builder = SimplifyContext::builder().with_schema(Arc::clone(&schema));
        if let Some(options) = &props.config_options {
            builder = builder.with_config_options(Arc::clone(options));
        }
        let simplify = builder.with_query_execution_start_time(props.query_execution_start_time).build();
        let expr = ask_for_copies(simplified(item.expr.clone(), &simplify)?)?;
        let expr = self.planner.create_physical_expr(&expr, &schema, self.state, self.context)?;
        // The expression was planned over the columns that it reads: map their indexes to those of the whole input.
        let expr = expr.transform_up(|e| {
            let place =
                e.downcast_ref::<Column>().and_then(|c| Some((c.name().to_string(), *item.reads.get(c.index())?)));
            Ok(match place {
                Some((name, place)) => Transformed::yes(Arc::new(Column::new(&name, place)) as Arc<dyn PhysicalExpr>),
                None => Transformed::no(e),
            })
        });
        Ok(ProjectionExpr::new(expr.data()?, name.to_string()))
    }
}
