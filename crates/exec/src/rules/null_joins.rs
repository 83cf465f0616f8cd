//! Inner joins whose conditions DataFusion's rule against cross joins would lose or change.
//!
//! A DataFusion join says once for all its keys whether NULL equals NULL. Its rule against cross joins takes a tree of
//! inner joins and the filter above apart and builds it anew with what the topmost join says, and its rule that finds keys
//! adds `=` to the keys of `<=>`: rows with NULL would meet in joins by `=`, or be lost in joins by `<=>`. And a key one side of
//! which is made of columns of several tables, as in `a.x + b.y = c.z`, is forgotten where that tree is built in another order
//! than `c` last.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result};
use datafusion::logical_expr::logical_plan::Projection;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, Filter, Join, JoinType, LogicalPlan, Operator, binary_expr};
use datafusion::optimizer::OptimizerConfig;

/// Puts a projection, which a later rule drops, between a join by `<=>` and the joins and filters around it, and between a
/// join and the one that makes several columns of one side of its keys.
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

/// Makes conditions of the keys of a join by `<=>` that has got further conditions: the next rule sorts them anew.
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

/// Whether a key is made of columns of more than one of the tables that inner joins have put together.
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

/// The inner join `plan` under a projection, if NULLs meet in it or if, as `wanted` says, the join above asks for that.
fn apart(plan: &Arc<LogicalPlan>, wanted: bool) -> Option<Arc<LogicalPlan>> {
    match plan.as_ref() {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner && (wanted || nulls_meet(join)) => {
            let schema = Arc::clone(plan.schema());
            Some(Arc::new(LogicalPlan::Projection(Projection::new_from_schema(Arc::clone(plan), schema))))
        }
        _ => None,
    }
}
