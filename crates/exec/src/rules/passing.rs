//! Shared methods of plan nodes that pass the rows of their one input on unchanged.

/// Expands to the methods of `ExecutionPlan` for a node that computes nothing and has its input in the field `input`.
macro_rules! passes_rows {
    ($name:literal) => {
        fn name(&self) -> &str {
            $name
        }

        fn children(&self) -> Vec<&std::sync::Arc<dyn datafusion::physical_plan::ExecutionPlan>> {
            vec![&self.input]
        }

        fn apply_expressions(
            &self,
            _f: &mut dyn FnMut(
                &std::sync::Arc<dyn datafusion::physical_expr::PhysicalExpr>,
            ) -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion>,
        ) -> datafusion::error::Result<datafusion::common::tree_node::TreeNodeRecursion> {
            Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
        }

        fn child_stats_requests(&self, partition: Option<usize>) -> Vec<datafusion::physical_plan::ChildStats> {
            vec![datafusion::physical_plan::ChildStats::At(partition)]
        }

        fn statistics_from_inputs(
            &self,
            inputs: &[std::sync::Arc<datafusion::common::Statistics>],
            _args: &datafusion::physical_plan::StatisticsArgs,
        ) -> datafusion::error::Result<std::sync::Arc<datafusion::common::Statistics>> {
            Ok(std::sync::Arc::clone(&inputs[0]))
        }
    };
}

pub(crate) use passes_rows;
