//! Inner joins whose conditions DataFusion's rule that eliminates cross joins would lose or change.
//!
//! A DataFusion join has one setting for all its keys that says whether NULL equals NULL. The rule that eliminates
//! cross joins takes apart a tree of inner joins and the filter above it, and rebuilds it with the setting of the
//! topmost join. The rule that extracts equality keys adds `=` to the keys of `<=>`. Rows with NULL would then meet in
//! joins by `=`, or be lost in joins by `<=>`. Also, a key whose one side has columns of several tables, as in `a.x +
//! b.y = c.z`, is lost if the tree is rebuilt in an order in which `c` is not last.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::logical_plan::Projection;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::OptimizerConfig;

/// Optimizer rule that puts a projection, which a later rule removes, between a join by `<=>` and the joins and filters
/// around it, and between a join and the join below it whose tables together make one side of one of its keys.
pub fn keep_apart(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            let around = nulls_meet(&join);
            let left = apart(&join.left, around || join.on.iter().any(|(key, _)| is_of_several(key, &join.left)));
            let right = apart(&join.right, around || join.on.iter().any(|(_, key)| is_of_several(key, &join.right)));
            if left.is_none() && right.is_none() {
                return Ok(Transformed::no(LogicalPlan::Join(join)));
            }
            let (left, right) = (left.unwrap_or(join.left), right.unwrap_or(join.right));
            Ok(Transformed::yes(LogicalPlan::Join(Join { left, right, ..join })))
        }
        LogicalPlan::Filter(filter) => match apart(&filter.input, false) {
            Some(input) => Filter::try_new(filter.predicate, input).map(|f| Transformed::yes(LogicalPlan::Filter(f))),
            None => Ok(Transformed::no(LogicalPlan::Filter(filter))),
        },
        other => Ok(Transformed::no(other)),
    }
}

/// Optimizer rule for joins by `<=>` that have got further conditions: turns the keys back into conditions, so that the
/// next rule extracts the keys anew.
pub fn take_back(plan: LogicalPlan, _: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Join(join) if nulls_meet(&join) && join.filter.is_some() => {
            let keys = join.on.into_iter().map(|(l, r)| binary_expr(l, Operator::IsNotDistinctFrom, r));
            let filter = conjunction(keys.chain(join.filter));
            let null_equality = NullEquality::NullEqualsNothing;
            Ok(Transformed::yes(LogicalPlan::Join(Join { on: Vec::new(), filter, null_equality, ..join })))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn nulls_meet(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

/// Returns whether a key has columns of more than one of the tables that inner joins have put together, or no columns
/// at all.
fn is_of_several(key: &Expr, plan: &LogicalPlan) -> bool {
    let LogicalPlan::Join(join) = plan else { return false };
    if join.join_type != JoinType::Inner {
        return false;
    }
    let columns = key.column_refs();
    let all_in = |side: &LogicalPlan| columns.iter().all(|column| side.schema().has_column(column));
    match (columns.is_empty(), all_in(&join.left), all_in(&join.right)) {
        (true, ..) => true,
        (_, true, _) => is_of_several(key, &join.left),
        (_, _, true) => is_of_several(key, &join.right),
        _ => true,
    }
}

/// Puts a projection on top of the inner join `plan` if NULLs meet in it or if `wanted`, because the join above it asks
/// for that.
fn apart(plan: &Arc<LogicalPlan>, wanted: bool) -> Option<Arc<LogicalPlan>> {
    match plan.as_ref() {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && (wanted || nulls_meet(join)) => {
            let schema = Arc::clone(plan.schema());
            Some(Arc::new(LogicalPlan::Projection(Projection::new_from_schema(Arc::clone(plan), schema))))
        }
        _ => None,
    }
}
