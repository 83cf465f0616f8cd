//! SUM of integers and decimals that fails instead of wrapping.
//!
//! A sum is its value in the type's own bits, which wraps, and a carry: how often it wrapped, upwards counted positive.
//! Both travel as the partial state, so that only the result has to fit and the order of the values does not matter.
//! Groups keep carries in a table beside the sums, for those that have one: in ordinary data it stays empty, and a row
//! costs one addition and one comparison more than the sum itself.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    DataType, Decimal128Type, Decimal256Type, DecimalType, Field, FieldRef, Int32Type, Int64Type, UInt64Type,
};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::NullState;

use super::checked::out_of_range;

/// Numbers that are summed here.
pub(super) trait Summed: ArrowPrimitiveType + Debug + Send {
    /// Whether a sum that did not wrap is a value of `data_type`.
    fn fits(_: Self::Native, _: &DataType) -> bool {
        true
    }

    /// Sum and carry of values without a NULL.
    fn total(values: &[Self::Native]) -> (Self::Native, i64) {
        let (mut sum, mut carry) = (Self::Native::ZERO, 0);
        values.iter().for_each(|v| carry += add(&mut sum, *v));
        (sum, carry)
    }
}

impl Summed for Int64Type {
    /// Halves of 32 bits do not wrap, so nothing waits for a carry and many are added at once.
    fn total(values: &[i64]) -> (i64, i64) {
        let mut sum = 0;
        for part in values.chunks(HALVES_MAX) {
            let (low, high) = part.iter().fold((0_u64, 0_i64), |(l, h), v| (l + u64::from(*v as u32), h + (*v >> 32)));
            sum += (i128::from(high) << 32) + i128::from(low);
        }
        let own = sum as i64;
        (own, ((sum - i128::from(own)) >> 64) as i64)
    }
}

impl Summed for UInt64Type {
    fn total(values: &[u64]) -> (u64, i64) {
        let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
        (sum as u64, (sum >> 64) as i64)
    }
}

/// Values whose halves fit into 64 bits together.
const HALVES_MAX: usize = 1 << 30;

impl Summed for Decimal128Type {
    fn fits(sum: i128, data_type: &DataType) -> bool {
        matches!(data_type, DataType::Decimal128(p, _) if Self::is_valid_decimal_precision(sum, *p))
    }
}

impl Summed for Decimal256Type {
    fn fits(sum: Self::Native, data_type: &DataType) -> bool {
        match data_type {
            // LARGEINT: 39 digits hold more than 128 bits.
            DataType::Decimal256(39, 0) => sum.to_i128().is_some(),
            DataType::Decimal256(p, _) => Self::is_valid_decimal_precision(sum, *p),
            _ => false,
        }
    }
}

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

/// Whether sums of this type are made here.
pub(super) fn is_checked(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// The partial state: the sum and its carry.
pub(super) fn state_fields(name: &str, data_type: &DataType) -> Vec<FieldRef> {
    vec![
        Arc::new(Field::new(format_state_name(name, "sum"), data_type.clone(), true)),
        Arc::new(Field::new(format_state_name(name, "carry"), DataType::Int32, true)),
    ]
}

/// The carry as the state keeps it: a sum that wraps more often has billions of values at the end of their range.
pub(super) fn state_carry(carry: i64, data_type: &DataType) -> Result<i32> {
    i32::try_from(carry).map_err(|_| beyond(data_type))
}

/// Adds a value and tells the carry, -1 to 1. A sum grows by a value that is not negative and shrinks by one that is,
/// unless it wraps.
#[inline]
pub(super) fn add<N: ArrowNativeTypeOp>(sum: &mut N, value: N) -> i64 {
    let new = sum.add_wrapping(value);
    let carry = i64::from(new.is_lt(*sum)) - i64::from(value.is_lt(N::ZERO));
    *sum = new;
    carry
}

/// Takes a value away and tells the carry.
pub(super) fn subtract<N: ArrowNativeTypeOp>(sum: &mut N, value: N) -> i64 {
    let new = sum.sub_wrapping(value);
    let carry = i64::from(value.is_lt(N::ZERO)) - i64::from(new.is_gt(*sum));
    *sum = new;
    carry
}

/// Sum and carry of the values that are not NULL.
pub(super) fn total<T: Summed>(values: &PrimitiveArray<T>) -> (T::Native, i64) {
    if values.null_count() == 0 {
        return T::total(values.values());
    }
    let (mut sum, mut carry) = (T::Native::ZERO, 0);
    values.iter().flatten().for_each(|v| carry += add(&mut sum, v));
    (sum, carry)
}

/// One sum, also of a sliding window.
#[derive(Debug)]
struct CheckedSum<T: Summed> {
    sum: T::Native,
    carry: i64,
    /// Values that are not NULL.
    count: u64,
    data_type: DataType,
}

/// One sum of a checked type.
///
/// # Errors
/// The type is not checked.
pub(super) fn one(data_type: &DataType) -> Result<Box<dyn Accumulator>> {
    Ok(with_type!(data_type, T => Box::new(CheckedSum::<T>::new(data_type.clone()))))
}

impl<T: Summed> CheckedSum<T> {
    fn new(data_type: DataType) -> Self {
        CheckedSum { sum: T::Native::ZERO, carry: 0, count: 0, data_type }
    }

    fn sum(&self) -> Result<ScalarValue> {
        ScalarValue::new_primitive::<T>((self.count > 0).then_some(self.sum), &self.data_type)
    }
}

impl<T: Summed> Accumulator for CheckedSum<T> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        let (sum, carry) = total(values);
        self.carry += carry + add(&mut self.sum, sum);
        self.count += (values.len() - values.null_count()) as u64;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(&states[..1])?;
        self.carry += states[1].as_primitive::<Int32Type>().iter().flatten().map(i64::from).sum::<i64>();
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.sum()?, ScalarValue::Int32(Some(state_carry(self.carry, &self.data_type)?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.carry != 0 || !T::fits(self.sum, &self.data_type) {
            return Err(beyond(&self.data_type));
        }
        self.sum()
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let values = values[0].as_primitive::<T>();
        let (sum, carry) = total(values);
        self.carry += subtract(&mut self.sum, sum) - carry;
        self.count -= (values.len() - values.null_count()) as u64;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// A sum of different values: DataFusion's set of them, summed here.
#[derive(Debug)]
struct CheckedDistinct {
    set: Box<dyn Accumulator>,
    data_type: DataType,
}

/// The sum of the values that `set` collects; its state is one list of them.
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
    /// By group; most have none.
    carries: HashMap<usize, i64>,
    nulls: NullState,
    data_type: DataType,
}

/// Sums of groups of a checked type.
///
/// # Errors
/// The type is not checked.
pub(super) fn groups(data_type: &DataType) -> Result<Box<dyn GroupsAccumulator>> {
    Ok(with_type!(data_type, T => Box::new(CheckedSums::<T> {
        sums: Vec::new(),
        carries: HashMap::new(),
        nulls: NullState::new(),
        data_type: data_type.clone(),
    })))
}

impl<T: Summed> CheckedSums<T> {
    /// Sums, with NULL for groups without a value, and the carries beside them.
    fn take(&mut self, emit_to: EmitTo) -> (PrimitiveArray<T>, HashMap<usize, i64>) {
        let carries = std::mem::take(&mut self.carries);
        let carries = match emit_to {
            EmitTo::First(n) if !carries.is_empty() => {
                let (taken, kept): (HashMap<usize, i64>, HashMap<usize, i64>) =
                    carries.into_iter().partition(|(group, _)| *group < n);
                self.carries = kept.into_iter().map(|(group, carry)| (group - n, carry)).collect();
                taken
            }
            _ => carries,
        };
        let sums = emit_to.take_needed(&mut self.sums);
        let sums = PrimitiveArray::<T>::new(sums.into(), self.nulls.build(emit_to));
        (sums.with_data_type(self.data_type.clone()), carries)
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
            let carry = add(&mut sums[group], value);
            if carry != 0 {
                *carries.entry(group).or_default() += carry;
            }
        });
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.update_batch(&states[..1], group_indices, None, total_num_groups)?;
        let carries = states[1].as_primitive::<Int32Type>();
        for (group, carry) in group_indices.iter().zip(carries.values()).filter(|(_, carry)| **carry != 0) {
            *self.carries.entry(*group).or_default() += i64::from(*carry);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, carries) = self.take(emit_to);
        // Groups without a value hold zero, which fits.
        if carries.values().any(|c| *c != 0) || !sums.values().iter().all(|sum| T::fits(*sum, &self.data_type)) {
            return Err(beyond(&self.data_type));
        }
        Ok(Arc::new(sums))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, carries) = self.take(emit_to);
        let mut column = vec![0; sums.len()];
        for (group, carry) in carries {
            column[group] = state_carry(carry, &self.data_type)?;
        }
        Ok(vec![Arc::new(sums), Arc::new(PrimitiveArray::<Int32Type>::from(column))])
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let (_, sums, nulls) = values[0].as_primitive::<T>().clone().into_parts();
        let chosen = opt_filter.map(|filter| match filter.nulls() {
            Some(known) => NullBuffer::new(filter.values() & known.inner()),
            None => NullBuffer::new(filter.values().clone()),
        });
        let nulls = NullBuffer::union(nulls.as_ref(), chosen.as_ref());
        // What is hidden by a NULL is no value of the group.
        let carries = PrimitiveArray::<Int32Type>::from(vec![0; sums.len()]);
        let sums = PrimitiveArray::<T>::new(sums, nulls).with_data_type(self.data_type.clone());
        Ok(vec![Arc::new(sums), Arc::new(carries)])
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.sums.capacity() * size_of::<T::Native>()
            + self.carries.capacity() * size_of::<(usize, i64)>()
            + self.nulls.size()
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
        // The state of a sum that does not fit is none the worse.
        let states: Vec<ArrayRef> = alone.state().unwrap().iter().map(|s| s.to_array().unwrap()).collect();
        let mut merged = one(&DataType::Int64).unwrap();
        merged.update_batch(&[values.slice(3, 2)]).unwrap();
        merged.merge_batch(&states).unwrap();
        assert_eq!(merged.evaluate().unwrap(), ScalarValue::Int64(Some(i64::MAX - 17)));
        // A window that moves past the large values.
        alone.retract_batch(&[values.slice(0, 2)]).unwrap();
        assert_eq!(alone.evaluate().unwrap(), ScalarValue::Int64(Some(7)));
    }

    #[test]
    fn halves_add_up_to_the_whole() {
        let mut state = 1_u64;
        let values: Vec<i64> = (0..10_000)
            .map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                [state as i64, i64::MAX, i64::MIN, -1, (state >> 40) as i64][i % 5]
            })
            .collect();
        for part in [&values[..0], &values[..1], &values[..3], &values[1..7], &values] {
            let (sum, carry) = Int64Type::total(part);
            let whole: i128 = part.iter().map(|v| i128::from(*v)).sum();
            assert_eq!(i128::from(sum) + (i128::from(carry) << 64), whole);
            let unsigned: Vec<u64> = part.iter().map(|v| *v as u64).collect();
            let (sum, carry) = UInt64Type::total(&unsigned);
            let whole: i128 = unsigned.iter().map(|v| i128::from(*v)).sum();
            assert_eq!(i128::from(sum) + (i128::from(carry) << 64), whole);
        }
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
