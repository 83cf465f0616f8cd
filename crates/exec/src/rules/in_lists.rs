//! Runs [`in_lists`](dipper_sql::charter::in_lists) before DataFusion's rule that simplifies expressions.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use dipper_sql::charter::in_lists::{Wanted, is_concerned, settle};

/// The rule that simplifies expressions, applied after [`settle`].
#[derive(Debug)]
pub struct Settled(pub Arc<dyn OptimizerRule + Send + Sync>);

impl OptimizerRule for Settled {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut concerned = false;
        plan.apply_expressions(|expr| {
            concerned |= expr.exists(|e| Ok(is_concerned(e)))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !concerned {
            return self.0.rewrite(plan, config);
        }
        // A filter drops a row whether its condition is FALSE or NULL, so the two need not be told apart there.
        let wanted = if matches!(plan, LogicalPlan::Filter(_)) { Wanted::True } else { Wanted::Exact };
        let names = NamePreserver::new(&plan);
        let context = SimplifyContext::builder()
            .with_schema(Arc::new(schema_of(&plan)?))
            .with_config_options(config.options())
            .with_query_execution_start_time(config.query_execution_start_time())
            .build();
        let simplifier = ExprSimplifier::new(context);
        let named = |expr: Expr| -> Result<Transformed<Expr>> {
            let name = names.save(&expr);
            Ok(Transformed::yes(name.restore(settle(expr, wanted, &simplifier)?)))
        };
        let settled = plan.map_expressions(|expr| match &expr {
            // The keys of a grouping set have names, the set has none.
            Expr::GroupingSet(_) => expr.map_children(named),
            _ => named(expr),
        })?;
        self.0.rewrite(settled.data, config)
    }
}

/// Returns a schema of the columns that the expressions of a node read.
fn schema_of(plan: &LogicalPlan) -> Result<DFSchema> {
    match plan {
        // Filters of a scan may read columns that the scan does not return.
        LogicalPlan::TableScan(scan) => {
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())
        }
        _ => Ok(merge_schema(&plan.inputs())),
    }
}
