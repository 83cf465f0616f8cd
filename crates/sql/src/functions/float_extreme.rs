//! MAX and MIN of FLOAT and DOUBLE, in IEEE's totalOrder as in ORDER BY.
//!
//! With GROUP BY, DataFusion's own accumulators begin with the greatest or least finite number, so that infinities were
//! no results, and where there is a NaN their result depends on the order of the rows.

use std::fmt::Debug;

use arrow::array::{ArrayRef, ArrowNativeTypeOp, AsArray, PrimitiveArray};
use arrow::datatypes::{ArrowPrimitiveType, DataType, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;
use dipper_operators::numbers;

/// Returns the accumulator for a type; `None` for types that are not floating point.
pub(super) fn accumulator(greatest: bool, data_type: &DataType) -> Option<Box<dyn Accumulator>> {
    match data_type {
        DataType::Float32 => Some(Box::new(Best::<Float32Type> { greatest, of: numbers::extreme_f32, best: None })),
        DataType::Float64 => Some(Box::new(Best::<Float64Type> { greatest, of: numbers::extreme_f64, best: None })),
        _ => None,
    }
}

/// Returns the accumulator of groups for a type; `None` for types that are not floating point.
pub(super) fn groups(greatest: bool, data_type: &DataType) -> Option<Box<dyn GroupsAccumulator>> {
    fn of<T: ArrowPrimitiveType + Send>(greatest: bool) -> Box<dyn GroupsAccumulator> {
        let keep = move |best: &mut T::Native, value: T::Native| {
            if is_better(greatest, value, *best) {
                *best = value;
            }
        };
        // What each value is better than.
        let worst = if greatest { T::Native::MIN_TOTAL_ORDER } else { T::Native::MAX_TOTAL_ORDER };
        Box::new(PrimitiveGroupsAccumulator::<T, _>::new(&T::DATA_TYPE, keep).with_starting_value(worst))
    }
    match data_type {
        DataType::Float32 => Some(of::<Float32Type>(greatest)),
        DataType::Float64 => Some(of::<Float64Type>(greatest)),
        _ => None,
    }
}

fn is_better<N: ArrowNativeTypeOp>(greatest: bool, value: N, best: N) -> bool {
    if greatest { value.is_gt(best) } else { value.is_lt(best) }
}

/// The greatest or least value so far.
#[derive(Debug)]
struct Best<T: ArrowPrimitiveType> {
    greatest: bool,
    /// Returns the greatest (`true`) or least value of an array.
    of: fn(&PrimitiveArray<T>, bool) -> Option<T::Native>,
    best: Option<T::Native>,
}

impl<T: ArrowPrimitiveType + Debug> Accumulator for Best<T> {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let Some(values) = columns[0].as_primitive_opt::<T>() else {
            return internal_err!("MAX or MIN of {} got {}", T::DATA_TYPE, columns[0].data_type());
        };
        if let Some(found) = (self.of)(values, self.greatest)
            && self.best.is_none_or(|best| is_better(self.greatest, found, best))
        {
            self.best = Some(found);
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
        ScalarValue::new_primitive::<T>(self.best, &T::DATA_TYPE)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
    use datafusion::logical_expr::EmitTo;
    use proptest::prelude::*;
    use std::sync::Arc;

    /// Asserts that the accumulators of a type answer as DataFusion's does without groups.
    fn compare<T: ArrowPrimitiveType + Debug>(batches: &[Vec<Option<T::Native>>]) {
        for greatest in [true, false] {
            let mut own = accumulator(greatest, &T::DATA_TYPE).unwrap();
            let mut grouped = groups(greatest, &T::DATA_TYPE).unwrap();
            let mut other: Box<dyn Accumulator> = match greatest {
                true => Box::new(MaxAccumulator::try_new(&T::DATA_TYPE).unwrap()),
                false => Box::new(MinAccumulator::try_new(&T::DATA_TYPE).unwrap()),
            };
            for batch in batches {
                let batch: ArrayRef = Arc::new(batch.iter().copied().collect::<PrimitiveArray<T>>());
                own.update_batch(&[Arc::clone(&batch)]).unwrap();
                grouped.update_batch(&[Arc::clone(&batch)], &vec![0; batch.len()], None, 1).unwrap();
                other.update_batch(&[batch]).unwrap();
            }
            let bits = |value: ScalarValue| match value {
                ScalarValue::Float64(value) => value.map(f64::to_bits),
                ScalarValue::Float32(value) => value.map(|v| v.to_bits().into()),
                other => panic!("{other:?} is no float"),
            };
            let wanted = bits(other.evaluate().unwrap());
            assert_eq!(bits(own.evaluate().unwrap()), wanted, "{greatest} of {batches:?}");
            // A group has rows, at least of NULL.
            if !batches.is_empty() && batches.iter().all(|batch| !batch.is_empty()) {
                let of_groups = grouped.evaluate(EmitTo::All).unwrap();
                assert_eq!(bits(ScalarValue::try_from_array(&of_groups, 0).unwrap()), wanted, "{batches:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn answers_are_those_of_datafusion_without_groups(
            batches in proptest::collection::vec(
                proptest::collection::vec(
                    proptest::option::of(prop_oneof![
                        -1e3f64..1e3,
                        Just(0.0),
                        Just(-0.0),
                        Just(f64::INFINITY),
                        Just(f64::NEG_INFINITY),
                        Just(f64::NAN),
                        Just(-f64::NAN),
                    ]),
                    0..6,
                ),
                0..4,
            ),
        ) {
            compare::<Float64Type>(&batches);
            let floats = |batch: &Vec<Option<f64>>| batch.iter().map(|value| value.map(|value| value as f32)).collect();
            compare::<Float32Type>(&batches.iter().map(floats).collect::<Vec<_>>());
        }
    }
}
