//! Plans conditions of very many terms in time linear in their number.
//!
//! The optimizer joins conditions to a left-deep tree, as deep as they are many, and for each term looks through all
//! terms before it. [`balance`] makes a flat tree of it first. A filter estimates by intervals how many rows pass, and
//! for that compares each part of its condition with all others: [`shelter`] hides a long condition in a function call,
//! which the filter does not look into. Scans do look into it ([`parts`]).

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use datafusion::optimizer::OptimizerConfig;
use datafusion::physical_expr::expressions::BinaryExpr as PhysicalBinary;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr, split_conjunction};
use dipper_sql::charter::in_lists::in_pairs;

/// Number of terms from which on a condition is sheltered.
const SHELTERED: usize = 256;

/// Levels that a tree may have beyond those of a balanced tree before it is rebuilt.
const SLACK: u32 = 4;

/// The name of the call around a sheltered condition.
const NAME: &str = "dipper_condition";

fn logic(expr: &Expr) -> Option<Operator> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => Some(*op),
        _ => None,
    }
}

/// Returns how many terms AND and OR join, and the depth of their tree.
fn measure(condition: &Expr) -> (usize, u32) {
    let (mut terms, mut deepest) = (0, 0);
    let mut open = vec![(condition, 0)];
    while let Some((expr, depth)) = open.pop() {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
                open.push((right, depth + 1));
                open.push((left, depth + 1));
            }
            _ => {
                terms += 1;
                deepest = deepest.max(depth);
            }
        }
    }
    (terms, deepest)
}

/// Rebuilds a condition as a balanced tree.
fn balanced(condition: Expr) -> Expr {
    let Some(op) = logic(&condition) else { return condition };
    let mut operands = Vec::new();
    let mut open = vec![condition];
    while let Some(expr) = open.pop() {
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: found, right }) if found == op => {
                open.push(*right);
                open.push(*left);
            }
            operand => operands.push(balanced(operand)),
        }
    }
    in_pairs(operands, op).unwrap_or_else(|| lit(op == Operator::And))
}

/// Returns whether a condition is a deeper tree than it needs to be. AND and OR that alternate may take a level each,
/// hence the factor 2.
fn is_deep(condition: &Expr) -> bool {
    let (terms, depth) = measure(condition);
    depth > 2 * (terms.max(1).ilog2() + SLACK)
}

/// Optimizer rule that makes a balanced tree of a filter's condition if it is too deep.
pub fn balance(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(mut filter) if is_deep(&filter.predicate) => {
            let predicate = std::mem::replace(&mut filter.predicate, lit(true));
            filter.predicate = balanced(predicate);
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Returns whether a condition has subqueries or outer references, which later rules turn into joins.
fn has_subquery(condition: &Expr) -> bool {
    let is_one = |e: &Expr| {
        matches!(
            e,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::OuterReferenceColumn(..)
        )
    };
    condition.exists(|e| Ok(is_one(e))).unwrap_or(true)
}

/// Optimizer rule that hides a filter's condition of at least [`SHELTERED`] terms in a function call.
pub fn shelter(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Filter(mut filter)
            if measure(&filter.predicate).0 >= SHELTERED && !has_subquery(&filter.predicate) =>
        {
            let predicate = std::mem::replace(&mut filter.predicate, lit(true));
            let call = ScalarFunction::new_udf(Arc::clone(&CONDITION), vec![balanced(predicate)]);
            filter.predicate = Expr::ScalarFunction(call);
            Ok(Transformed::yes(LogicalPlan::Filter(filter)))
        }
        other => Ok(Transformed::no(other)),
    }
}

/// Returns the conjuncts of a filter, also of one that is sheltered.
pub fn parts(predicate: &Arc<dyn PhysicalExpr>) -> Vec<&Arc<dyn PhysicalExpr>> {
    let inner = predicate.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == NAME);
    split_conjunction(inner.and_then(|call| call.args().first()).unwrap_or(predicate))
}

/// The most columns of a conjunct that a scan checks against its bounds.
const BOUNDED_COLUMNS: usize = 64;

/// Returns the conditions that a scan checks against its bounds, joined by AND. Of a long condition they are the first
/// [`SHELTERED`] conjuncts, which are enough to prune by. A conjunct over more than [`BOUNDED_COLUMNS`] columns is left
/// out: the bounds of all of them hardly ever rule rows out together, and DataFusion compares each of its columns with
/// all others.
pub fn first_parts(predicates: &[Arc<dyn PhysicalExpr>]) -> Option<Arc<dyn PhysicalExpr>> {
    let first = predicates.iter().flat_map(|p| parts(p).into_iter().take(SHELTERED));
    all_of(first.filter(|part| collect_columns(part).len() <= BOUNDED_COLUMNS).cloned().collect())
}

/// Joins conditions by AND as a balanced tree. `None` if there are none.
pub fn all_of(conditions: Vec<Arc<dyn PhysicalExpr>>) -> Option<Arc<dyn PhysicalExpr>> {
    joined(conditions, Operator::And)
}

/// Joins conditions by AND or OR as a balanced tree. `None` if there are none.
pub fn joined(mut conditions: Vec<Arc<dyn PhysicalExpr>>, operator: Operator) -> Option<Arc<dyn PhysicalExpr>> {
    while conditions.len() > 1 {
        let mut pairs: Vec<Arc<dyn PhysicalExpr>> = Vec::with_capacity(conditions.len().div_ceil(2));
        let mut from = conditions.into_iter();
        while let Some(left) = from.next() {
            pairs.push(match from.next() {
                Some(right) => Arc::new(PhysicalBinary::new(left, operator, right)),
                None => left,
            });
        }
        conditions = pairs;
    }
    conditions.pop()
}

/// Hides a physical condition of a filter in a function call, as [`shelter`] does.
pub fn sheltered(
    condition: Arc<dyn PhysicalExpr>,
    schema: &Schema,
    options: &Arc<ConfigOptions>,
) -> Result<Arc<dyn PhysicalExpr>> {
    let call = ScalarFunctionExpr::try_new(Arc::clone(&CONDITION), vec![condition], schema, Arc::clone(options))?;
    Ok(Arc::new(call))
}

static CONDITION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::exact(vec![DataType::Boolean], Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Condition { signature }))
});

/// The function that shelters a condition: it returns its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Condition {
    signature: Signature,
}

impl ScalarUDFImpl for Condition {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.pop() {
            Some(value) => Ok(value),
            None => plan_err!("{NAME} takes a condition"),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::common::tree_node::TreeNodeRecursion;
    use datafusion::logical_expr::col;

    use super::*;

    fn spine(terms: usize, op: Operator) -> Expr {
        let term = |n: usize| col("k").not_eq(lit(n as i64));
        let both = |left: Expr, right: Expr| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
        (0..terms).map(term).reduce(both).unwrap()
    }

    fn texts(expr: &Expr) -> Vec<String> {
        let mut texts = Vec::new();
        let _ = expr.apply(|e| {
            if logic(e).is_none() {
                texts.push(e.to_string());
                return Ok(TreeNodeRecursion::Jump);
            }
            Ok(TreeNodeRecursion::Continue)
        });
        texts
    }

    #[test]
    fn spines_become_flat_and_keep_their_order() {
        for op in [Operator::And, Operator::Or] {
            let deep = spine(1_000, op);
            assert!(is_deep(&deep));
            let flat = balanced(deep.clone());
            assert_eq!(measure(&flat), (1_000, 10));
            assert!(!is_deep(&flat));
            assert_eq!(texts(&flat), texts(&deep));
        }
        let mixed = spine(100, Operator::And).or(spine(100, Operator::And)).and(spine(100, Operator::Or));
        let flat = balanced(mixed.clone());
        assert!(is_deep(&mixed) && !is_deep(&flat), "{:?}", measure(&flat));
        assert_eq!(texts(&flat), texts(&mixed));
        assert!(!is_deep(&spine(8, Operator::And)));
    }
}
