//! GROUP_BIT_AND, GROUP_BIT_OR and GROUP_BIT_XOR: DataFusion's functions, extended to the 128 bits of LARGEINT.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Decimal256Type, FieldRef, i256};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::functions_aggregate::bit_and_or_xor as df;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use super::whole::LARGEINT;
use crate::type_text::Sql;

/// Returns the functions, each with the other name that it has in SQL.
pub(super) fn functions() -> [(Arc<AggregateUDF>, &'static [&'static str]); 3] {
    let of = |inner: Arc<AggregateUDF>, join: Join| {
        let signature = Signature::user_defined(Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Bits { inner, join, signature }))
    };
    [
        (of(df::bit_and_udaf(), Join::And), &["group_bit_and"]),
        (of(df::bit_or_udaf(), Join::Or), &["group_bit_or"]),
        (of(df::bit_xor_udaf(), Join::Xor), &["group_bit_xor"]),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Join {
    And,
    Or,
    Xor,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Bits {
    inner: Arc<AggregateUDF>,
    join: Join,
    signature: Signature,
}

impl AggregateUDFImpl for Bits {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Null] => Ok(vec![DataType::Int64]),
            [number] if number.is_integer() || *number == LARGEINT => Ok(vec![number.clone()]),
            [other] => plan_err!("{} takes a whole number, found {}", self.name(), Sql(other)),
            _ => plan_err!("{} takes one argument, found {}", self.name(), types.len()),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [large] if *large == LARGEINT => Ok(LARGEINT),
            _ => self.inner.return_type(types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match *args.return_field.data_type() == LARGEINT {
            true => Ok(Box::new(Large { join: self.join, found: None })),
            false => self.inner.accumulator(args),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match *args.return_field.data_type() == LARGEINT {
            true => Ok(vec![Arc::clone(&args.return_field)]),
            false => self.inner.state_fields(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        *args.return_field.data_type() != LARGEINT && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The bits of the LARGEINT values so far.
#[derive(Debug)]
struct Large {
    join: Join,
    found: Option<i128>,
}

impl Accumulator for Large {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<Decimal256Type>();
        // A LARGEINT has 128 bits.
        for value in values.iter().flatten().filter_map(i256::to_i128) {
            self.found = Some(match (self.found, self.join) {
                (None, _) => value,
                (Some(found), Join::And) => found & value,
                (Some(found), Join::Or) => found | value,
                (Some(found), Join::Xor) => found ^ value,
            });
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Decimal256(self.found.map(i256::from_i128), 39, 0))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}
