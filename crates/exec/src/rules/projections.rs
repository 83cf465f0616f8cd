//! A projection must not be moved below a filter that has a projection of its own.
//!
//! DataFusion's rule looks for the columns of such a filter's predicate, which are places of the filter's input, among
//! places of the filter's output. Where two columns have one name, it finds a column that is not meant, and the plan
//! fails or filters by the wrong column. So the rule is given filters without projections: each is put above its
//! filter as a node, from where the rule moves it into the filter again, or below.
//!
//! For each column of a projection above a join, DataFusion's rule compares the columns of the join one by one. So
//! projections of very many columns are moved into hash joins here, by the places of the columns.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::{ExecutionPlan, PhysicalExpr};
use dipper_sql::charter::wide::WIDE;

type Plan = Arc<dyn ExecutionPlan>;

/// DataFusion's rule that moves projections down, for plans whose filters have projections.
#[derive(Debug)]
pub struct PushProjections(pub Arc<dyn PhysicalOptimizerRule + Send + Sync>);

impl PhysicalOptimizerRule for PushProjections {
    fn optimize(&self, plan: Plan, config: &ConfigOptions) -> Result<Plan> {
        let plan = plan.transform_up(take_out).data()?;
        self.0.optimize(plan.transform_up(into_join).data()?, config)
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

/// Makes a hash join below a projection of very many columns return only the columns that the projection reads, in the
/// order in which it reads them. Nothing is left of a projection that only picks columns.
fn into_join(node: Plan) -> Result<Transformed<Plan>> {
    let Some(projection) = node.downcast_ref::<ProjectionExec>() else { return Ok(Transformed::no(node)) };
    let Some(join) = projection.input().downcast_ref::<HashJoinExec>() else { return Ok(Transformed::no(node)) };
    let columns = projection.expr();
    if columns.len() < WIDE || join.contains_projection() {
        return Ok(Transformed::no(node));
    }
    let (mut order, mut new_places) = (Vec::new(), HashMap::new());
    for column in columns {
        column.expr.apply(|e| {
            if let Some(column) = e.downcast_ref::<Column>() {
                new_places.entry(column.index()).or_insert_with(|| {
                    order.push(column.index());
                    order.len() - 1
                });
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    if order.is_empty() {
        return Ok(Transformed::no(node));
    }
    let picks =
        |column: &ProjectionExpr| column.expr.downcast_ref::<Column>().is_some_and(|c| c.name() == column.alias);
    let only_picks = order.len() == columns.len() && columns.iter().all(picks);
    let join: Plan = Arc::new(join.with_projection(Some(order))?);
    if only_picks {
        // A projection may also change the metadata of columns.
        let is_same = join.schema() == node.schema();
        return Ok(if is_same { Transformed::yes(join) } else { Transformed::no(node) });
    }
    let columns = columns.iter().map(|column| {
        let expr = Arc::clone(&column.expr).transform_up(|e| {
            let moved = e.downcast_ref::<Column>().and_then(|column| {
                let place = new_places.get(&column.index())?;
                Some(Arc::new(Column::new(column.name(), *place)))
            });
            Ok(match moved {
                Some(column) => Transformed::yes(column as Arc<dyn PhysicalExpr>),
                None => Transformed::no(e),
            })
        });
        Ok(ProjectionExpr { expr: expr.data()?, alias: column.alias.clone() })
    });
    let columns = columns.collect::<Result<Vec<ProjectionExpr>>>()?;
    let moved: Plan = Arc::new(ProjectionExec::try_new(columns, join)?);
    let is_same = moved.schema() == node.schema();
    Ok(if is_same { Transformed::yes(moved) } else { Transformed::no(node) })
}
