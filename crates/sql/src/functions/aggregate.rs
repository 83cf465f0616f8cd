//! Aggregates under the names of Doris and MySQL: most are DataFusion's own, MAX_BY and MIN_BY are here.

use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::functions_aggregate as df;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::ordered::sorts_itself;

/// Registers the aggregates of this file.
///
/// # Errors
/// Those of the registry, if it refuses functions.
pub fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    let known: [(Arc<AggregateUDF>, &'static [&'static str]); 14] = [
        // MySQL and Doris mean the population by the bare names, DataFusion the sample.
        (df::stddev::stddev_pop_udaf(), &["stddev", "std"]),
        (df::stddev::stddev_udaf(), &["stddev_samp"]),
        (df::variance::var_pop_udaf(), &["variance", "variance_pop", "var_pop"]),
        (df::variance::var_samp_udaf(), &["variance_samp", "var_samp"]),
        (df::approx_distinct::approx_distinct_udaf(), &["ndv", "approx_count_distinct"]),
        (df::any_value::any_value_udaf(), &["any"]),
        (sorts_itself(df::array_agg::array_agg_udaf()), &[]),
        (sorts_itself(df::string_agg::string_agg_udaf()), &["group_concat"]),
        (df::bit_and_or_xor::bit_and_udaf(), &["group_bit_and"]),
        (df::bit_and_or_xor::bit_or_udaf(), &["group_bit_or"]),
        (df::bit_and_or_xor::bit_xor_udaf(), &["group_bit_xor"]),
        (df::percentile_cont::percentile_cont_udaf(), &["percentile"]),
        (df::approx_percentile_cont::approx_percentile_cont_udaf(), &["percentile_approx"]),
        (df::bool_and_or::bool_or_udaf(), &["boolor_agg"]),
    ];
    for (function, names) in known {
        // The original keeps its own aliases: a name such as `stddev` would otherwise stay with the sample form.
        let renamed = function.as_ref().clone().with_aliases(names.iter().copied());
        registry.register_udaf(Arc::new(renamed))?;
    }
    // Registered last, so that `stddev` and `variance` do not go back to their samples.
    let population = df::stddev::stddev_pop_udaf().as_ref().clone().with_aliases(["stddev", "std"]);
    registry.register_udaf(Arc::new(population))?;
    for (name, greatest) in [("max_by", true), ("min_by", false)] {
        registry.register_udaf(Arc::new(AggregateUDF::new_from_impl(ExtremeBy::new(name, greatest))))?;
    }
    Ok(())
}

/// MAX_BY(value, key), MIN_BY(value, key): the value of a row with the greatest or least key; rows with a NULL key
/// do not count.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExtremeBy {
    name: &'static str,
    greatest: bool,
    signature: Signature,
}

impl ExtremeBy {
    fn new(name: &'static str, greatest: bool) -> Self {
        ExtremeBy { name, greatest, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for ExtremeBy {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [value, _] => Ok(value.clone()),
            other => plan_err!("{} takes 2 arguments, found {}", self.name, other.len()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name: &str, from: &FieldRef| {
            Arc::new(Field::new(format!("{}[{name}]", args.name), from.data_type().clone(), true)) as FieldRef
        };
        Ok(vec![field("value", &args.input_fields[0]), field("key", &args.input_fields[1])])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(ExtremeByState {
            greatest: self.greatest,
            value: ScalarValue::try_from(args.return_field.data_type())?,
            key: ScalarValue::try_from(args.exprs[1].data_type(args.schema)?)?,
        }))
    }
}

/// The best row so far.
#[derive(Debug)]
struct ExtremeByState {
    greatest: bool,
    value: ScalarValue,
    key: ScalarValue,
}

impl Accumulator for ExtremeByState {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let (values, keys) = (&columns[0], &columns[1]);
        let order = SortOptions { descending: self.greatest, nulls_first: false };
        let compare = make_comparator(keys, keys, order)?;
        // The first of equal keys stays, within a batch and between batches.
        let best =
            (0..keys.len()).filter(|i| keys.is_valid(*i)).reduce(|a, b| if compare(b, a).is_lt() { b } else { a });
        let Some(best) = best else { return Ok(()) };
        let key = ScalarValue::try_from_array(keys, best)?;
        let better = match key.partial_cmp(&self.key) {
            _ if self.key.is_null() => true,
            Some(order) => {
                if self.greatest {
                    order.is_gt()
                } else {
                    order.is_lt()
                }
            }
            None => false,
        };
        if better {
            // Compacted: a view would keep the whole batch alive.
            self.key = key.compacted();
            self.value = ScalarValue::try_from_array(values, best)?.compacted();
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), self.key.clone()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.value.size() + self.key.size()
    }
}
