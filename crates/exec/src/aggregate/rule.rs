//! Which aggregates are replaced by a [`RadixAggregateExec`].

use std::any::Any;
use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::config_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{
    AggregateExec, AggregateInputMode, AggregateMode, AggregateOutputMode, topk_types_supported,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, InputOrderMode};
use dipper_operators::aggregate::{Aggregate, Function, Layout};

use super::exec::RadixAggregateExec;

/// Settings of a session for GROUP BY. They travel in the plan's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AggregationSettings {
    /// Whether aggregates are replaced.
    pub enabled: bool,
    /// The most groups in the table of a worker; 0 for as many as fit in the cache of a core.
    pub table_groups: usize,
}

impl ExtensionOptions for AggregationSettings {
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

impl ConfigExtension for AggregationSettings {
    const PREFIX: &'static str = "aggregation";
}

/// Replaces DataFusion's aggregates over GROUP BY by a [`RadixAggregateExec`] where the kernel has the types of all
/// keys and aggregates.
///
/// An aggregate stays as it is if it has grouping sets, DISTINCT, FILTER, an order or a LIMIT of its own, or if its
/// input is sorted by a key: DataFusion then emits groups before the input ends. So does one of which ORDER BY with LIMIT
/// wants a few groups, if DataFusion can keep no more than these. The rule runs before DataFusion places
/// exchanges, because the node says nothing about which rows are in which partition of its output.
#[derive(Debug)]
pub struct GroupByRadix;

impl PhysicalOptimizerRule for GroupByRadix {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let settings = config.extensions.get::<AggregationSettings>().cloned().unwrap_or_default();
        if !settings.enabled {
            return Ok(plan);
        }
        let mut few = HashSet::new();
        plan.transform_down(|node| {
            if let Some(aggregate) = ordered_with_limit(&node).filter(|below| keeps_few(below)) {
                few.insert(Arc::as_ptr(aggregate).cast::<()>());
            }
            let replaced = match node.downcast_ref::<AggregateExec>() {
                Some(aggregate) if !few.contains(&Arc::as_ptr(&node).cast()) => replacement(aggregate, &settings)?,
                _ => None,
            };
            Ok(match replaced {
                Some(own) => Transformed::yes(Arc::new(own) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &str {
        "group_by_radix"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the plan, below projections, whose first rows in an order `node` returns; `None` if it returns others.
fn ordered_with_limit(node: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let mut below = node.downcast_ref::<SortExec>().filter(|sort| sort.fetch().is_some())?.input();
    while let Some(projection) = below.downcast_ref::<ProjectionExec>() {
        below = projection.input();
    }
    Some(below)
}

/// Returns whether an aggregate may be one that DataFusion computes by keeping as many groups as a LIMIT wants: the
/// least or greatest keys, or those with the least or greatest value.
fn keeps_few(node: &Arc<dyn ExecutionPlan>) -> bool {
    let Some(aggregate) = node.downcast_ref::<AggregateExec>() else { return false };
    let [(key, _)] = aggregate.group_expr().expr() else { return false };
    let Ok(key) = key.data_type(&aggregate.input().schema()) else { return false };
    match (aggregate.get_minmax_desc(), aggregate.aggr_expr().is_empty()) {
        (Some((value, _)), _) => topk_types_supported(&key, value.data_type()),
        (None, only_keys) => only_keys && topk_types_supported(&key, &key),
    }
}

/// Returns the node that computes what `last` returns; `None` if `last` is no last stage, or must stay.
fn replacement(last: &AggregateExec, settings: &AggregationSettings) -> Result<Option<RadixAggregateExec>> {
    if last.mode().output_mode() != AggregateOutputMode::Final || last.limit_options().is_some() {
        return Ok(None);
    }
    // The stage that reads the rows.
    let first = match last.mode().input_mode() {
        AggregateInputMode::Raw => last,
        AggregateInputMode::Partial => match last.input().downcast_ref::<AggregateExec>() {
            Some(partial) if *partial.mode() == AggregateMode::Partial => partial,
            _ => return Ok(None),
        },
    };
    let keys = first.group_expr();
    let stays = first.limit_options().is_some()
        || keys.has_grouping_set()
        || keys.expr().is_empty()
        || *first.input_order_mode() != InputOrderMode::Linear
        || first.filter_expr().iter().any(Option::is_some);
    if stays {
        return Ok(None);
    }
    let input = first.input().schema();
    let mut key_types = Vec::with_capacity(keys.expr().len());
    for (key, _) in keys.expr() {
        key_types.push(key.data_type(&input)?);
    }
    let Some(aggregates) = aggregates(first.aggr_expr(), &input)? else { return Ok(None) };
    let Some(layout) = Layout::new(&key_types, &aggregates) else { return Ok(None) };
    let whole = AggregateExec::try_new(
        AggregateMode::Single,
        keys.clone(),
        first.aggr_expr().to_vec(),
        first.filter_expr().to_vec(),
        Arc::clone(first.input()),
        first.input_schema(),
    )?;
    if whole.schema() != last.schema() {
        return Ok(None);
    }
    Ok(Some(RadixAggregateExec::new(Arc::new(whole), Arc::new(layout), settings.table_groups)))
}

/// Returns what the kernel computes for aggregates; `None` if it cannot compute all of them.
fn aggregates(all: &[Arc<AggregateFunctionExpr>], input: &SchemaRef) -> Result<Option<Vec<Aggregate>>> {
    let mut found = Vec::with_capacity(all.len());
    for aggregate in all {
        match one(aggregate, input)? {
            Some(one) => found.push(one),
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

fn one(aggregate: &AggregateFunctionExpr, input: &SchemaRef) -> Result<Option<Aggregate>> {
    if aggregate.is_distinct() || !aggregate.order_bys().is_empty() || !aggregate.groups_accumulator_supported() {
        return Ok(None);
    }
    let [argument] = &aggregate.expressions()[..] else { return Ok(None) };
    let function = match aggregate.fun().name() {
        "count" => Function::Count,
        "sum" => Function::Sum,
        "avg" => Function::Average,
        "min" => Function::Min,
        "max" => Function::Max,
        _ => return Ok(None),
    };
    let counts_rows = function == Function::Count
        && argument.downcast_ref::<Literal>().is_some_and(|literal| !literal.value().is_null());
    let argument = match counts_rows {
        true => None,
        false => Some(argument.data_type(input)?),
    };
    // The kernel's states are merged by DataFusion's accumulators, so they must be what these expect.
    let states = aggregate.state_fields()?;
    let states: Vec<&DataType> = states.iter().map(|field| field.data_type()).collect();
    let as_expected = match (function, &argument) {
        (Function::Count, _) => states == [&DataType::Int64],
        (Function::Sum, Some(DataType::Float64)) => states == [&DataType::Float64],
        (Function::Sum, Some(of)) => states == [of, &DataType::Int32],
        (Function::Average, Some(DataType::Float64)) => states == [&DataType::UInt64, &DataType::Float64],
        (Function::Average, Some(of)) => states == [&DataType::Int64, of, &DataType::Int32],
        (Function::Min | Function::Max, Some(of)) => states == [of] && aggregate.field().data_type() == of,
        _ => false,
    };
    Ok(as_expected.then_some(Aggregate { function, argument }))
}
