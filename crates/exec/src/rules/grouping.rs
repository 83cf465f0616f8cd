//! Properties of the rows below GROUPING SETS that do not hold above them.
//!
//! DataFusion's aggregate inherits what its input says of the keys: that one is constant, or that rows are sorted by
//! it. CUBE, ROLLUP and GROUPING SETS put NULL into keys, so above them neither is true: sorts would be left out, and
//! groups would be emitted before they are complete. A node between the input and the aggregate forgets these
//! properties. A key that is itself a constant counts as constant for the aggregate, so then the aggregate's own
//! properties are forgotten, too.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;

use crate::rules::forget::ForgetExec;

/// Puts a [`ForgetExec`] below aggregates with grouping sets, and also above those with constants among the keys. It
/// must run before rules that look at orders.
#[derive(Debug)]
pub struct ForgetBelowGroupingSets;

impl PhysicalOptimizerRule for ForgetBelowGroupingSets {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| match node.downcast_ref::<AggregateExec>() {
            Some(aggregate)
                if aggregate.group_expr().has_grouping_set()
                    && aggregate.mode().input_mode() == AggregateInputMode::Raw =>
            {
                let input = Arc::new(ForgetExec::new(Arc::clone(aggregate.input())));
                let fixed = aggregate.group_expr().expr().iter().any(|(key, _)| collect_columns(key).is_empty());
                let node = replace_children_if_necessary(Arc::clone(&node), vec![input])?;
                Ok(Transformed::yes(if fixed { Arc::new(ForgetExec::new(node)) } else { node }))
            }
            _ => Ok(Transformed::no(node)),
        })
        .data()
    }

    fn name(&self) -> &str {
        "forget_below_grouping_sets"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
