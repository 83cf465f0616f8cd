//! Columns that are constant on one side of an outer join need not be constant above it.
//!
//! DataFusion's joins inherit the constant columns of each side. On the side that may lack a partner, a constant column
//! is NULL in some rows, so sorts by it and windows over it would be wrongly left out. A node above these joins forgets
//! the constants, and so does a node above a UNION ALL whose inputs have different constants.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::AcrossPartitions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::rules::forget::ForgetExec;

/// Puts a [`ForgetExec`] above outer joins with constants on a side that may be NULL, and above unions whose inputs
/// have different constants. It must run before rules that look at orders.
#[derive(Debug)]
pub struct ForgetAboveOuterJoins;

impl PhysicalOptimizerRule for ForgetAboveOuterJoins {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match makes_null_of_constants(&*node) {
            true => Ok(Transformed::yes(Arc::new(ForgetExec::new(node)) as Arc<dyn ExecutionPlan>)),
            false => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "forget_above_outer_joins"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn makes_null_of_constants(node: &dyn ExecutionPlan) -> bool {
    let hash = || node.downcast_ref::<HashJoinExec>().map(|join| *join.join_type());
    let loops = || node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type());
    let merge = || node.downcast_ref::<SortMergeJoinExec>().map(|join| join.join_type());
    let sides: &[usize] = match hash().or_else(loops).or_else(merge) {
        Some(JoinType::Left) => &[1],
        Some(JoinType::Right) => &[0],
        Some(JoinType::Full) => &[0, 1],
        _ => &[],
    };
    // A column that is constant in each input of a union, with different values, must not be dropped from the keys of
    // sorts below the merge of all inputs.
    if node.downcast_ref::<UnionExec>().is_some() {
        let constants = node.equivalence_properties().constants();
        return constants.iter().any(|c| matches!(c.across_partitions, AcrossPartitions::Heterogeneous));
    }
    let children = node.children();
    sides.iter().any(|side| !children[*side].equivalence_properties().constants().is_empty())
}
