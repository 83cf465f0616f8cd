//! A projection must not be moved below a filter that has a projection of its own.
//!
//! DataFusion's rule looks for the columns of such a filter's predicate, which are places of the filter's input, among
//! places of the filter's output. Where two columns have one name, it finds a column that is not meant, and the plan
//! fails or filters by the wrong column. So the rule is given filters without projections: each is put above its
//! filter as a node, from where the rule moves it into the filter again, or below.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};

type Plan = Arc<dyn ExecutionPlan>;

/// DataFusion's rule that moves projections down, for plans whose filters have projections.
#[derive(Debug)]
pub struct PushProjections(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for PushProjections {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        self.0.optimize(plan.transform_up(take_out).data()?, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Replaces a filter that has a projection by a node of that projection above the filter.
fn take_out(node: Plan) -> Result<Transformed<Plan>> {
    let Some(filter) = node.downcast_ref::<FilterExec>() else { return Ok(Transformed::no(node)) };
    let Some(places) = filter.projection() else { return Ok(Transformed::no(node)) };
    let schema = filter.input().schema();
    let columns = places.iter().map(|place| {
        let name = schema.field(*place).name();
        ProjectionExpr { expr: Arc::new(Column::new(name, *place)), alias: name.clone() }
    });
    let columns: Vec<ProjectionExpr> = columns.collect();
    let bare = FilterExecBuilder::from(filter).apply_projection(None)?.build()?;
    Ok(Transformed::yes(Arc::new(ProjectionExec::try_new(columns, Arc::new(bare))?)))
}
