//! The rows of a join's build side repeat for each row of the other side.
//!
//! DataFusion's hash joins say that their rows are in the order of the probe side, and rows that are equal in it in the
//! order of the build side. Two rows of the probe side that are equal in its order have the build side's rows once
//! each, so the second part is not true, and sorts by both would be wrongly left out (datafusion#25052). A node above
//! the build side forgets its order.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::rules::forget::ForgetExec;

/// Puts a [`ForgetExec`] above the build sides of hash joins that may be in an order. It must run when the sides of
/// joins are chosen, and before orders are ensured.
#[derive(Debug)]
pub struct ForgetOrdersOfBuildSides;

impl PhysicalOptimizerRule for ForgetOrdersOfBuildSides {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match node.downcast_ref::<HashJoinExec>() {
            // Other joins claim no order, or that of the probe side only.
            Some(join)
                if matches!(join.join_type(), JoinType::Inner | JoinType::Right) && may_have_order(join.left())? =>
            {
                let left = Arc::new(ForgetExec::new(Arc::clone(join.left())));
                let right = Arc::clone(join.right());
                Ok(Transformed::yes(replace_children_if_necessary(Arc::clone(&node), vec![left, right])?))
            }
            _ => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "forget_orders_of_build_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns whether a plan has an order, or an operator for whose input one will be made.
fn may_have_order(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    plan.exists(|node| {
        Ok(node.output_ordering().is_some() || node.required_input_ordering().iter().any(Option::is_some))
    })
}
