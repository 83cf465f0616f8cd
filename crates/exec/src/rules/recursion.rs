//! The limit of the steps of WITH RECURSIVE.
//!
//! DataFusion goes on as long as a step gives rows. A node above the recursive part counts its executions, each of
//! which is a step, and a node above the first part begins to count from zero: a recursion inside of another one is
//! executed several times.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DataFusionError, config_err};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use dipper_node::error::{EngineError, ErrorKind};

use crate::rules::passing::passes_rows;

/// Settings of a session for WITH RECURSIVE. They travel in the plan's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecursionSettings {
    /// The most steps of a recursion.
    pub steps_max: u64,
}

impl Default for RecursionSettings {
    fn default() -> Self {
        RecursionSettings { steps_max: u64::MAX }
    }
}

impl ExtensionOptions for RecursionSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        config_err!("{key} is a setting of the session and cannot be set here")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

impl ConfigExtension for RecursionSettings {
    const PREFIX: &'static str = "recursion";
}

/// Puts a [`StepsExec`] above both parts of each recursion. Runs after the rules that put nodes between a recursion and
/// its parts.
#[derive(Debug)]
pub struct CountSteps;

impl PhysicalOptimizerRule for CountSteps {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let steps_max = config.extensions.get::<RecursionSettings>().cloned().unwrap_or_default().steps_max;
        plan.transform_up(|node| {
            let Some(recursion) = node.downcast_ref::<RecursiveQueryExec>() else { return Ok(Transformed::no(node)) };
            let steps = Arc::new(AtomicU64::new(0));
            let counting = |input: &Arc<dyn ExecutionPlan>, most: Option<u64>| {
                Arc::new(StepsExec { input: Arc::clone(input), steps: Arc::clone(&steps), most })
                    as Arc<dyn ExecutionPlan>
            };
            let counted = RecursiveQueryExec::try_new(
                recursion.name().to_string(),
                node.schema(),
                counting(recursion.static_term(), None),
                counting(recursion.recursive_term(), Some(steps_max)),
                recursion.is_distinct(),
            )?;
            Ok(Transformed::yes(Arc::new(counted) as Arc<dyn ExecutionPlan>))
        })
        .data()
    }

    fn name(&self) -> &str {
        "count_steps"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the rows of its input, a part of a recursion, and counts the steps.
#[derive(Debug)]
struct StepsExec {
    input: Arc<dyn ExecutionPlan>,
    /// The steps so far.
    steps: Arc<AtomicU64>,
    /// The most steps; `None` above the first part.
    most: Option<u64>,
}

impl DisplayAs for StepsExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.most {
            Some(most) => write!(f, "StepsExec: most={most}"),
            None => f.write_str("StepsExec"),
        }
    }
}

impl ExecutionPlan for StepsExec {
    passes_rows!("StepsExec");

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        let input = children.swap_remove(0);
        Ok(Arc::new(StepsExec { input, steps: Arc::clone(&self.steps), most: self.most }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        match self.most {
            None => self.steps.store(0, Ordering::Relaxed),
            Some(most) => {
                let step = self.steps.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                if step > most {
                    return Err(too_deep(step));
                }
            }
        }
        self.input.execute(partition, context)
    }
}

/// MySQL's error for a recursion of too many steps.
fn too_deep(step: u64) -> DataFusionError {
    let message = format!(
        "Recursive query aborted after {step} iterations. Try increasing @@cte_max_recursion_depth to a larger value."
    );
    EngineError { code: 3636, ..EngineError::new(ErrorKind::Invalid, message) }.into_datafusion()
}
