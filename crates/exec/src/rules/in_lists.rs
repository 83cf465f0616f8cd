//! Runs [`in_lists`](dipper_sql::charter::in_lists) before DataFusion's rule that simplifies expressions, and gives the
//! rule equal literals where their values are equal.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use dipper_sql::charter::in_lists::{Wanted, is_concerned, settle};

/// The rule that simplifies expressions, applied after [`settle`] and [`values_only`].
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
        let plain = values_only(plan, config)?;
        let changed = plain.transformed;
        let mut done = self.settled(plain.data, config)?;
        done.transformed |= changed;
        Ok(done)
    }
}

impl Settled {
    fn settled(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
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
        let simplifier = simplifier(&plan, config)?;
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

/// Makes literals without a declared type of the constants that are compared. The rule makes `v = x` of `v = x AND v <> y`
/// if the literals x and y differ, and literals of one value that declare different types do.
fn values_only(plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
    let compares = |op: Operator| matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq | IsDistinctFrom | IsNotDistinctFrom);
    let is_concerned = |e: &Expr| match e {
        Expr::BinaryExpr(of) => compares(of.op) && (is_declared(&of.left) || is_declared(&of.right)),
        Expr::InList(list) => is_declared(&list.expr) || list.list.iter().any(is_declared),
        _ => false,
    };
    let mut concerned = false;
    plan.apply_expressions(|expr| {
        concerned |= expr.exists(|e| Ok(is_concerned(e)))?;
        Ok(if concerned { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !concerned {
        return Ok(Transformed::no(plan));
    }
    let names = NamePreserver::new(&plan);
    let simplifier = simplifier(&plan, config)?;
    let named = |expr: Expr| -> Result<Transformed<Expr>> {
        let name = names.save(&expr);
        let plain = expr.transform_up(|e| match is_concerned(&e) {
            true => e.map_children(|operand| {
                if !is_declared(&operand) {
                    return Ok(Transformed::no(operand));
                }
                // A constant that has no value, such as one that divides by zero, is left to the rule.
                Ok(match simplifier.simplify(operand.clone()) {
                    Ok(Expr::Literal(value, _)) => Transformed::yes(Expr::Literal(value, None)),
                    _ => Transformed::no(operand),
                })
            }),
            false => Ok(Transformed::no(e)),
        })?;
        Ok(plain.update_data(|e| name.restore(e)))
    };
    plan.map_expressions(|expr| match &expr {
        // The keys of a grouping set have names, the set has none.
        Expr::GroupingSet(_) => expr.map_children(named),
        _ => named(expr),
    })
}

/// Returns whether an expression is a constant that may declare a type: a literal, or a call of a function.
fn is_declared(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(_, metadata) => metadata.is_some(),
        Expr::ScalarFunction(call) => !expr.is_volatile() && call.args.iter().all(is_constant),
        _ => false,
    }
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(..) => true,
        Expr::ScalarFunction(call) => call.args.iter().all(is_constant),
        Expr::Cast(cast) => is_constant(&cast.expr),
        Expr::TryCast(cast) => is_constant(&cast.expr),
        _ => false,
    }
}

fn simplifier(plan: &LogicalPlan, config: &dyn OptimizerConfig) -> Result<ExprSimplifier> {
    let context = SimplifyContext::builder()
        .with_schema(Arc::new(schema_of(plan)?))
        .with_config_options(config.options())
        .with_query_execution_start_time(config.query_execution_start_time())
        .build();
    Ok(ExprSimplifier::new(context))
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
