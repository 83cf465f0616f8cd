//! Sorts inputs that are not known to have the order that an operator requires.
//!
//! Where all rows of a union are wanted in an order, DataFusion sorts each branch by itself. Of a branch's order it
//! then keeps only the columns that matter in that branch: no column that equals an earlier one, and no constant. For
//! the union, whose other branches lack those equal or constant columns, that is another order than the required one,
//! and the plan is refused (`SELECT DISTINCT a, b, a ... UNION ALL SELECT 1, 2, 3 ... ORDER BY 1, 2, 3`). Such rows are
//! sorted once more.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

/// Sorts the inputs of operators that need an order which these inputs are not known to have. It must run when no rule
/// moves sorts any more, and before plans are checked.
#[derive(Debug)]
pub struct SortWhatIsUnsorted;

impl PhysicalOptimizerRule for SortWhatIsUnsorted {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let wanted = node.required_input_ordering();
            if wanted.iter().all(Option::is_none) {
                return Ok(Transformed::no(node));
            }
            let (mut inputs, mut sorted) = (Vec::with_capacity(wanted.len()), false);
            for (input, wanted) in node.children().into_iter().zip(wanted) {
                let mut input = Arc::clone(input);
                if let Some(wanted) = wanted.map(|wanted| wanted.into_single())
                    && !input.equivalence_properties().ordering_satisfy_requirement(wanted.clone())?
                    && let Some(order) = LexOrdering::new(wanted.into_iter().map(PhysicalSortExpr::from))
                {
                    let parts = input.output_partitioning().partition_count();
                    input = Arc::new(SortExec::new(order, input).with_preserve_partitioning(parts > 1));
                    sorted = true;
                }
                inputs.push(input);
            }
            match sorted {
                true => Ok(Transformed::yes(replace_children_if_necessary(node, inputs)?)),
                false => Ok(Transformed::no(node)),
            }
        })
        .data()
    }

    fn name(&self) -> &str {
        "sort_what_is_unsorted"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
