//! SUM of integers and decimals that fails instead of wrapping, from their exact [totals](super::totals).

use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowNativeTypeOp, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Int32Type, Int64Type, UInt64Type};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::NullState;

use super::checked::out_of_range;
use super::totals::{Carries, Summed, Total, add, state_carry};
use crate::functions::counted;

/// Evaluates the expression with `$t` as the Arrow type of the sum.
macro_rules! with_type {
    ($data_type:expr, $t:ident => $made:expr) => {
        match $data_type {
            DataType::Int64 => {
                type $t = Int64Type;
                $made
            }
            DataType::UInt64 => {
                type $t = UInt64Type;
                $made
            }
            DataType::Decimal128(..) => {
                type $t = Decimal128Type;
                $made
            }
            DataType::Decimal256(..) => {
                type $t = Decimal256Type;
                $made
            }
            other => return internal_err!("SUM of {other} is not checked"),
        }
    };
}

fn beyond(data_type: &DataType) -> DataFusionError {
    let (name, way_out) = match data_type {
        DataType::Int64 => ("BIGINT".to_string(), "cast its argument to LARGEINT, DECIMAL or DOUBLE"),
        DataType::UInt64 => ("UNSIGNED BIGINT".to_string(), "cast its argument to LARGEINT, DECIMAL or DOUBLE"),
        DataType::Decimal256(39, 0) => ("LARGEINT".to_string(), "cast its argument to DOUBLE"),
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => {
            (format!("DECIMAL({p},{s})"), "cast its argument to DOUBLE")
        }
        other => (other.to_string(), "cast its argument to DOUBLE"),
    };
    out_of_range(format!("{name} value is out of range in SUM; {way_out}"))
}

/// Whether sums of this type are computed here.
pub(super) fn is_checked(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// The fields of the partial state: the sum and its carry.
pub(super) fn state_fields(name: &str, data_type: &DataType) -> Vec<FieldRef> {
    vec![
        Arc::new(Field::new(format_state_name(name, "sum"), data_type.clone(), true)),
        Arc::new(Field::new(format_state_name(name, "carry"), DataType::Int32, true)),
    ]
}

/// One sum, also over a sliding window.
#[derive(Debug)]
struct CheckedSum<T: Summed> {
    total: Total<T>,
    data_type: DataType,
}

/// Returns an accumulator for one sum of a checked type.
///
/// # Errors
/// `Internal` if the type is not checked, see [`is_checked`].
pub(super) fn one(data_type: &DataType) -> Result<Box<dyn Accumulator>> {
    let data_type = data_type.clone();
    Ok(with_type!(&data_type, T => Box::new(CheckedSum::<T> { total: Total::default(), data_type })))
}

impl<T: Summed> CheckedSum<T> {
    fn sum(&self) -> Result<ScalarValue> {
        ScalarValue::new_primitive::<T>((self.total.count > 0).then_some(self.total.sum), &self.data_type)
    }
}

impl<T: Summed> Accumulator for CheckedSum<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.total.add(&values[0]);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.total.add(&states[0]);
        self.total.add_carries(&states[1]);
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let carry = state_carry(self.total.carry).ok_or_else(|| beyond(&self.data_type))?;
        Ok(vec![self.sum()?, ScalarValue::Int32(Some(carry))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.total.carry != 0 || !T::fits(self.total.sum, &self.data_type) {
            return Err(beyond(&self.data_type));
        }
        self.sum()
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.total.take_away(&values[0]);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// A sum of distinct values: DataFusion's set of them, summed here.
#[derive(Debug)]
struct CheckedDistinct {
    set: Box<dyn Accumulator>,
    data_type: DataType,
}

/// Returns the sum of the values that `set` collects; its state is one list of them.
pub(super) fn distinct(set: Box<dyn Accumulator>, data_type: &DataType) -> Box<dyn Accumulator> {
    Box::new(CheckedDistinct { set, data_type: data_type.clone() })
}

impl Accumulator for CheckedDistinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.set.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.set.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.set.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = one(&self.data_type)?;
        for state in self.set.state()? {
            let lists = state.to_array()?;
            sum.update_batch(&[Arc::clone(lists.as_list::<i32>().values())])?;
        }
        sum.evaluate()
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.set.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.set.supports_retract_batch()
    }

    fn size(&self) -> usize {
        self.set.size() + size_of_val(self)
    }
}

/// Sums of groups.
#[derive(Debug)]
struct CheckedSums<T: Summed> {
    sums: Vec<T::Native>,
    carries: Carries,
    nulls: NullState,
    data_type: DataType,
}

/// Returns an accumulator for sums of groups of a checked type.
///
/// # Errors
/// `Internal` if the type is not checked, see [`is_checked`].
pub(super) fn groups(data_type: &DataType) -> Result<Box<dyn GroupsAccumulator>> {
    Ok(with_type!(data_type, T => Box::new(CheckedSums::<T> {
        sums: Vec::new(),
        carries: Carries::default(),
        nulls: NullState::new(),
        data_type: data_type.clone(),
    })))
}

impl<T: Summed> CheckedSums<T> {
    /// Takes the sums, with NULL for groups without a value, and the carries beside them.
    fn take(&mut self, emit_to: EmitTo) -> (PrimitiveArray<T>, Carries) {
        let sums = emit_to.take_needed(&mut self.sums);
        let sums = PrimitiveArray::<T>::new(sums.into(), self.nulls.build(emit_to));
        (sums.with_data_type(self.data_type.clone()), self.carries.take(emit_to))
    }
}

impl<T: Summed> GroupsAccumulator for CheckedSums<T> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        self.sums.resize(total_num_groups, T::Native::ZERO);
        let (sums, carries) = (&mut self.sums[..], &mut self.carries);
        self.nulls.accumulate(group_indices, values, opt_filter, total_num_groups, |group, value| {
            carries.add(group, add(&mut sums[group], value));
        });
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.update_batch(&states[..1], group_indices, None, total_num_groups)?;
        self.carries.merge(group_indices, &states[1]);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, carries) = self.take(emit_to);
        // A group without a value holds zero, which fits.
        if carries.any() || !sums.values().iter().all(|sum| T::fits(*sum, &self.data_type)) {
            return Err(beyond(&self.data_type));
        }
        Ok(Arc::new(sums))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, carries) = self.take(emit_to);
        let carries = carries.column(sums.len()).ok_or_else(|| beyond(&self.data_type))?;
        Ok(vec![Arc::new(sums), carries])
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let (_, sums, nulls) = values[0].as_primitive::<T>().clone().into_parts();
        let nulls = counted(nulls.as_ref(), opt_filter);
        // The value under a NULL is not part of the group.
        let carries = PrimitiveArray::<Int32Type>::from(vec![0; sums.len()]);
        let sums = PrimitiveArray::<T>::new(sums, nulls).with_data_type(self.data_type.clone());
        Ok(vec![Arc::new(sums), Arc::new(carries)])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sums.capacity() * size_of::<T::Native>() + self.carries.size() + self.nulls.size()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Decimal128Array, Int64Array};

    fn decimals(values: Vec<i128>) -> ArrayRef {
        Arc::new(Decimal128Array::from(values).with_precision_and_scale(38, 0).unwrap())
    }

    const LARGEST: i128 = 10i128.pow(38) - 1;

    #[test]
    fn only_the_result_has_to_fit_whatever_the_order() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, 1, 7, -5, -20]));
        let mut alone = one(&DataType::Int64).unwrap();
        alone.update_batch(&[values.slice(0, 3)]).unwrap();
        assert!(alone.evaluate().is_err());
        // The state of a sum that does not fit can still be merged.
        let states: Vec<ArrayRef> = alone.state().unwrap().iter().map(|s| s.to_array().unwrap()).collect();
        let mut merged = one(&DataType::Int64).unwrap();
        merged.update_batch(&[values.slice(3, 2)]).unwrap();
        merged.merge_batch(&states).unwrap();
        assert_eq!(merged.evaluate().unwrap(), ScalarValue::Int64(Some(i64::MAX - 17)));
        // A window moves past the large values.
        alone.retract_batch(&[values.slice(0, 2)]).unwrap();
        assert_eq!(alone.evaluate().unwrap(), ScalarValue::Int64(Some(7)));
    }

    #[test]
    fn groups_carry_through_states_and_early_emission() {
        let mut first = groups(&DataType::Int64).unwrap();
        let values: ArrayRef = Arc::new(Int64Array::from(vec![i64::MIN, -1, 3, i64::MAX, 5]));
        first.update_batch(&[values], &[1, 1, 0, 2, 2], None, 3).unwrap();
        assert_eq!(*first.evaluate(EmitTo::First(1)).unwrap(), Int64Array::from(vec![3]));
        let state = first.state(EmitTo::All).unwrap();
        let mut last = groups(&DataType::Int64).unwrap();
        last.merge_batch(&state, &[0, 1], 2).unwrap();
        last.update_batch(&[Arc::new(Int64Array::from(vec![6, -10]))], &[0, 1], None, 2).unwrap();
        assert_eq!(*last.evaluate(EmitTo::All).unwrap(), Int64Array::from(vec![i64::MIN + 5, i64::MAX - 5]));
        last.update_batch(&[Arc::new(Int64Array::from(vec![i64::MIN, -1]))], &[0, 0], None, 1).unwrap();
        assert!(last.evaluate(EmitTo::All).is_err());
    }

    #[test]
    fn decimals_stop_at_38_digits_not_at_128_bits() {
        let t = DataType::Decimal128(38, 0);
        let mut sum = one(&t).unwrap();
        sum.update_batch(&[decimals(vec![LARGEST])]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Decimal128(Some(LARGEST), 38, 0));
        for more in [1, LARGEST, LARGEST, LARGEST] {
            sum.update_batch(&[decimals(vec![more])]).unwrap();
            assert!(sum.evaluate().unwrap_err().to_string().contains("DECIMAL(38,0) value is out of range in SUM"));
        }
        sum.update_batch(&[decimals(vec![-LARGEST, -LARGEST, -LARGEST, -1])]).unwrap();
        assert_eq!(sum.evaluate().unwrap(), ScalarValue::Decimal128(Some(LARGEST), 38, 0));
        let mut sums = groups(&t).unwrap();
        sums.update_batch(&[decimals(vec![LARGEST, 1])], &[0, 0], None, 1).unwrap();
        assert!(sums.evaluate(EmitTo::All).is_err());
    }
}
