//! MAX and MIN of arrays, maps and structs, in the order in which ORDER BY sorts them: NULL within a value comes first.
//!
//! DataFusion's own put NULL last within one batch and compare batches in another way.

use std::any::Any;
use std::mem::size_of_val;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, Signature, Volatility,
};

/// The aggregate with an order of our own, where it is one of nested values.
pub(super) fn of_nested(mut function: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
    let largest = function.func.name() == "max";
    let is_extreme = largest || function.func.name() == "min";
    let nested = |e: &Expr| e.get_type(schema).is_ok_and(|t| t.is_nested());
    let implementation: &dyn Any = function.func.inner().as_ref();
    let is_ours = implementation.is::<Extreme>();
    let changed = is_extreme && !is_ours && function.params.args.first().is_some_and(nested);
    if changed {
        function.func = Arc::new(AggregateUDF::new_from_impl(Extreme {
            largest,
            signature: Signature::any(1, Volatility::Immutable),
        }));
    }
    Transformed::new_transformed(Expr::AggregateFunction(function), changed)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    largest: bool,
    signature: Signature,
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        if self.largest { "max" } else { "min" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(args.name, args.return_field.data_type().clone(), true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let none = ScalarValue::try_from(args.return_field.data_type())?;
        Ok(Box::new(Found { largest: self.largest, value: none.to_array()? }))
    }
}

/// The value that is the largest or least so far.
#[derive(Debug)]
struct Found {
    largest: bool,
    /// One row.
    value: ArrayRef,
}

impl Accumulator for Found {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = &values[0];
        let order = SortOptions { descending: self.largest, nulls_first: !self.largest };
        let present = |at: &usize| !values.is_null(*at);
        let compared = make_comparator(values, values, order)?;
        let Some(best) = (0..values.len()).filter(present).min_by(|a, b| compared(*a, *b)) else { return Ok(()) };
        if self.value.is_null(0) || make_comparator(values, &self.value, order)?(best, 0).is_lt() {
            // A copy: a slice would keep the whole batch.
            self.value = ScalarValue::try_from_array(values, best)?.to_array()?;
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        ScalarValue::try_from_array(&self.value, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.get_array_memory_size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }
}
