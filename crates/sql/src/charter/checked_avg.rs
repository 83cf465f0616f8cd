//! AVG of integers and decimals from their exact sum.
//!
//! The sum is an exact [total](super::totals). So an average does not depend on the order of the rows, is right where
//! the sum exceeds its type, and can retract rows that leave a moving frame.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, DecimalType, Field, FieldRef, Float64Type, Int32Type,
    Int64Type, UInt64Type, i256,
};
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err};
use datafusion::logical_expr::utils::format_state_name;
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::accumulate;

use super::checked::out_of_range;
use super::totals::{Carries, Summed, Total, add, state_carry};
use crate::functions::counted;

/// Numbers whose average is computed here.
/// The parameter is the type of their average.
trait Averaged<A: ArrowPrimitiveType>: Summed {
    /// Returns the average of `count` numbers of type `from`; `None` if `to` cannot hold it.
    fn average(sum: Self::Native, carry: i64, count: i64, from: &DataType, to: &DataType) -> Option<A::Native>;
}

impl Averaged<Float64Type> for Int64Type {
    fn average(sum: i64, carry: i64, count: i64, _: &DataType, _: &DataType) -> Option<f64> {
        Some(((i128::from(carry) << 64) + i128::from(sum)) as f64 / count as f64)
    }
}

impl Averaged<Float64Type> for UInt64Type {
    fn average(sum: u64, carry: i64, count: i64, _: &DataType, _: &DataType) -> Option<f64> {
        Some(((i128::from(carry) << 64) + i128::from(sum)) as f64 / count as f64)
    }
}

/// LARGEINT, an integer.
impl Averaged<Float64Type> for Decimal256Type {
    fn average(sum: i256, carry: i64, count: i64, _: &DataType, _: &DataType) -> Option<f64> {
        if carry != 0 {
            return None;
        }
        match sum.to_i128() {
            Some(sum) => Some(sum as f64 / count as f64),
            // What the division leaves is less than the last digit of a double.
            None => Some(sum.checked_div(i256::from(count))?.to_i128()? as f64),
        }
    }
}

/// Returns 10 to the number of digits after the point that the average has more than its numbers.
fn places(from: &DataType, to: &DataType) -> Option<i256> {
    let scale = |t: &DataType| match t {
        DataType::Decimal128(_, s) | DataType::Decimal256(_, s) => Some(i32::from(*s)),
        _ => None,
    };
    i256::from(10_i64).checked_pow(u32::try_from(scale(to)? - scale(from)?).ok()?)
}

impl Averaged<Self> for Decimal128Type {
    fn average(sum: i128, carry: i64, count: i64, from: &DataType, to: &DataType) -> Option<i128> {
        let sum = i256::from_i128(sum).wrapping_add(i256::from_parts(0, i128::from(carry)));
        let average = sum.checked_mul(places(from, to)?)?.checked_div(i256::from(count))?.to_i128()?;
        Self::fits(average, to).then_some(average)
    }
}

impl Averaged<Self> for Decimal256Type {
    fn average(sum: i256, carry: i64, count: i64, from: &DataType, to: &DataType) -> Option<i256> {
        if carry != 0 {
            return None;
        }
        // The whole part comes first: scaled up, the sum may be too wide although the average is not.
        let (count, places) = (i256::from(count), places(from, to)?);
        let whole = sum.checked_div(count)?.checked_mul(places)?;
        let part = sum.checked_rem(count)?.checked_mul(places)?.checked_div(count)?;
        let average = whole.checked_add(part)?;
        matches!(to, DataType::Decimal256(p, _) if Self::is_valid_decimal_precision(average, *p)).then_some(average)
    }
}

/// Whether averages of this argument type are computed here.
pub(super) fn is_exact(argument: &DataType) -> bool {
    matches!(argument, DataType::Int64 | DataType::UInt64 | DataType::Decimal128(..) | DataType::Decimal256(..))
}

/// The fields of the partial state: the number of values, their sum and its carry.
pub(super) fn state_fields(name: &str, argument: &DataType) -> Vec<FieldRef> {
    let field = |part: &str, t: DataType| Arc::new(Field::new(format_state_name(name, part), t, true)) as FieldRef;
    vec![field("count", DataType::Int64), field("sum", argument.clone()), field("carry", DataType::Int32)]
}

/// Evaluates the expression with `$t` as the Arrow type of the numbers and `$a` as that of their average.
macro_rules! with_types {
    ($from:expr, $to:expr, $t:ident, $a:ident => $made:expr) => {
        match ($from, $to) {
            (DataType::Int64, _) => {
                type $t = Int64Type;
                type $a = Float64Type;
                $made
            }
            (DataType::UInt64, _) => {
                type $t = UInt64Type;
                type $a = Float64Type;
                $made
            }
            (DataType::Decimal128(..), _) => {
                type $t = Decimal128Type;
                type $a = Decimal128Type;
                $made
            }
            (DataType::Decimal256(..), DataType::Float64) => {
                type $t = Decimal256Type;
                type $a = Float64Type;
                $made
            }
            (DataType::Decimal256(..), _) => {
                type $t = Decimal256Type;
                type $a = Decimal256Type;
                $made
            }
            (other, _) => return internal_err!("AVG of {other} is not exact"),
        }
    };
}

/// Returns an accumulator for one average.
///
/// # Errors
/// `Internal` if averages of the type are not exact, see [`is_exact`].
pub(super) fn one(argument: &DataType, result: &DataType) -> Result<Box<dyn Accumulator>> {
    let types = Types { from: argument.clone(), to: result.clone() };
    Ok(with_types!(argument, result, T, A => {
        Box::new(One::<T, A> { total: Total::default(), types, average: PhantomData })
    }))
}

/// Returns an accumulator for averages of groups.
///
/// # Errors
/// `Internal` if averages of the type are not exact, see [`is_exact`].
pub(super) fn groups(argument: &DataType, result: &DataType) -> Result<Box<dyn GroupsAccumulator>> {
    let types = Types { from: argument.clone(), to: result.clone() };
    Ok(with_types!(argument, result, T, A => {
        Box::new(Many::<T, A> { sums: Vec::new(), carries: Carries::default(), types, average: PhantomData })
    }))
}

#[derive(Debug)]
struct Types {
    from: DataType,
    to: DataType,
}

impl Types {
    fn beyond(&self) -> DataFusionError {
        let name = match &self.to {
            DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => format!("DECIMAL({p},{s})"),
            other => other.to_string(),
        };
        out_of_range(format!("{name} value is out of range in AVG; cast its argument to DOUBLE"))
    }
}

/// The sum and the number of the values that are not NULL.
#[derive(Debug, Clone, Copy, Default)]
struct Sum<N> {
    sum: N,
    count: i64,
}

fn average<T: Averaged<A>, A: ArrowPrimitiveType>(
    sum: Sum<T::Native>,
    carry: i64,
    types: &Types,
) -> Result<Option<A::Native>> {
    if sum.count == 0 {
        return Ok(None);
    }
    match T::average(sum.sum, carry, sum.count, &types.from, &types.to) {
        None => Err(types.beyond()),
        found => Ok(found),
    }
}

#[derive(Debug)]
struct One<T: Averaged<A>, A: ArrowPrimitiveType> {
    total: Total<T>,
    types: Types,
    average: PhantomData<fn() -> A>,
}

impl<T: Averaged<A>, A: ArrowPrimitiveType + Debug> Accumulator for One<T, A> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.total.add(&values[0]);
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.total.take_away(&values[0]);
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let count = self.total.count + states[0].as_primitive::<Int64Type>().iter().flatten().sum::<i64>();
        self.total.add(&states[1]);
        self.total.add_carries(&states[2]);
        // A partial sum brings its own count.
        self.total.count = count;
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let Total { sum, carry, count } = self.total;
        let carry = state_carry(carry).ok_or_else(|| self.types.beyond())?;
        Ok(vec![
            ScalarValue::Int64(Some(count)),
            ScalarValue::new_primitive::<T>(Some(sum), &self.types.from)?,
            ScalarValue::Int32(Some(carry)),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Total { sum, carry, count } = self.total;
        let found = average::<T, A>(Sum { sum, count }, carry, &self.types)?;
        ScalarValue::new_primitive::<A>(found, &self.types.to)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[derive(Debug)]
struct Many<T: Averaged<A>, A: ArrowPrimitiveType> {
    sums: Vec<Sum<T::Native>>,
    carries: Carries,
    types: Types,
    average: PhantomData<fn() -> A>,
}

impl<T: Averaged<A>, A: ArrowPrimitiveType> Many<T, A> {
    /// Adds values, each of which counts `count` times. It is 0 for partial sums, which bring their own counts.
    fn add(
        &mut self,
        values: &PrimitiveArray<T>,
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
        count: i64,
    ) {
        self.sums.resize(total_num_groups, Sum::default());
        let (sums, carries) = (&mut self.sums[..], &mut self.carries);
        accumulate(group_indices, values, opt_filter, |group, value| {
            let sum = &mut sums[group];
            carries.add(group, add(&mut sum.sum, value));
            sum.count += count;
        });
    }
}

impl<T: Averaged<A>, A: ArrowPrimitiveType + Debug> GroupsAccumulator for Many<T, A> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.add(values[0].as_primitive::<T>(), group_indices, opt_filter, total_num_groups, 1);
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.add(states[1].as_primitive::<T>(), group_indices, None, total_num_groups, 0);
        for (group, count) in group_indices.iter().zip(states[0].as_primitive::<Int64Type>().values()) {
            self.sums[*group].count += count;
        }
        self.carries.merge(group_indices, &states[2]);
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let (sums, carries) = (emit_to.take_needed(&mut self.sums), self.carries.take(emit_to));
        let averages =
            sums.into_iter().enumerate().map(|(group, sum)| average::<T, A>(sum, carries.of(group), &self.types));
        let averages = averages.collect::<Result<PrimitiveArray<A>>>()?;
        Ok(Arc::new(averages.with_data_type(self.types.to.clone())))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let (sums, carries) = (emit_to.take_needed(&mut self.sums), self.carries.take(emit_to));
        let carries = carries.column(sums.len()).ok_or_else(|| self.types.beyond())?;
        let counts: PrimitiveArray<Int64Type> = sums.iter().map(|sum| Some(sum.count)).collect();
        let sums = PrimitiveArray::<T>::from_iter_values(sums.iter().map(|sum| sum.sum));
        Ok(vec![Arc::new(counts), Arc::new(sums.with_data_type(self.types.from.clone())), carries])
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = values[0].as_primitive::<T>();
        let counted = counted(values.nulls(), opt_filter);
        let counts = (0..values.len()).map(|at| i64::from(counted.as_ref().is_none_or(|rows| rows.is_valid(at))));
        let counts = PrimitiveArray::<Int64Type>::from_iter_values(counts);
        let sums = (0..values.len()).map(|at| match counts.value(at) {
            0 => T::Native::default(),
            _ => values.value(at),
        });
        let sums = PrimitiveArray::<T>::from_iter_values(sums).with_data_type(self.types.from.clone());
        let carries = PrimitiveArray::<Int32Type>::from(vec![0; values.len()]);
        Ok(vec![Arc::new(counts), Arc::new(sums), Arc::new(carries)])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sums.capacity() * size_of::<Sum<T::Native>>() + self.carries.size()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Int64Array};

    use super::*;

    #[test]
    fn what_leaves_a_frame_is_gone() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![8_540_000_000_000_000_123, 300, 5, 8]));
        let mut moving = one(&DataType::Int64, &DataType::Float64).unwrap();
        moving.update_batch(&[values.slice(0, 2)]).unwrap();
        moving.retract_batch(&[values.slice(0, 1)]).unwrap();
        moving.update_batch(&[values.slice(2, 1)]).unwrap();
        assert_eq!(moving.evaluate().unwrap(), ScalarValue::Float64(Some(152.5)));
        moving.retract_batch(&[values.slice(1, 2)]).unwrap();
        assert_eq!(moving.evaluate().unwrap(), ScalarValue::Float64(None));
    }

    #[test]
    fn the_sum_may_be_wider_than_its_type() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![i64::MAX, i64::MAX, i64::MAX, 4]));
        let mut many = groups(&DataType::Int64, &DataType::Float64).unwrap();
        many.update_batch(&[values.clone()], &[1, 1, 1, 0], None, 3).unwrap();
        let state = many.state(EmitTo::All).unwrap();
        many.merge_batch(&state, &[0, 1, 2], 3).unwrap();
        let raw = many.convert_to_state(&[values], Some(&BooleanArray::from(vec![true, true, true, false]))).unwrap();
        many.merge_batch(&raw, &[1, 1, 1, 0], 3).unwrap();
        let averages = many.evaluate(EmitTo::All).unwrap();
        let averages: Vec<_> = averages.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(averages, [Some(4.0), Some(i64::MAX as f64), None]);
    }

    #[test]
    fn wide_integers_are_added_up_as_such() {
        let largest = i128::MAX;
        let values = vec![i256::from_i128(largest), i256::from(1_i64), i256::from(2_i64), i256::from_i128(-largest)];
        let large = DataType::Decimal256(39, 0);
        let values: ArrayRef = Arc::new(PrimitiveArray::<Decimal256Type>::from(values).with_data_type(large.clone()));
        let mut moving = one(&large, &DataType::Float64).unwrap();
        moving.update_batch(&[values.clone()]).unwrap();
        assert_eq!(moving.evaluate().unwrap(), ScalarValue::Float64(Some(0.75)));
        moving.retract_batch(&[values.slice(0, 1)]).unwrap();
        moving.retract_batch(&[values.slice(3, 1)]).unwrap();
        assert_eq!(moving.evaluate().unwrap(), ScalarValue::Float64(Some(1.5)));
        let mut many = groups(&large, &DataType::Float64).unwrap();
        many.update_batch(&[values], &[0, 1, 0, 0], None, 2).unwrap();
        let averages = many.evaluate(EmitTo::All).unwrap();
        let averages: Vec<_> = averages.as_primitive::<Float64Type>().iter().collect();
        assert_eq!(averages, [Some(2.0 / 3.0), Some(1.0)]);
        let values: ArrayRef = Arc::new(PrimitiveArray::<UInt64Type>::from(vec![u64::MAX, u64::MAX, 3]));
        let mut moving = one(&DataType::UInt64, &DataType::Float64).unwrap();
        moving.update_batch(&[values.clone()]).unwrap();
        moving.retract_batch(&[values.slice(0, 2)]).unwrap();
        assert_eq!(moving.evaluate().unwrap(), ScalarValue::Float64(Some(3.0)));
    }

    #[test]
    fn decimals_of_all_digits() {
        let largest = 10_i128.pow(38) - 1;
        let (from, to) = (DataType::Decimal128(38, 4), DataType::Decimal128(38, 4));
        let values: ArrayRef =
            Arc::new(Decimal128Array::from(vec![largest; 7]).with_precision_and_scale(38, 4).unwrap());
        let mut avg = one(&from, &to).unwrap();
        avg.update_batch(&[values.clone()]).unwrap();
        assert_eq!(avg.evaluate().unwrap(), ScalarValue::Decimal128(Some(largest), 38, 4));
        // The average has four places more than the type has room for.
        let (from, to) = (DataType::Decimal128(38, 0), DataType::Decimal128(38, 4));
        let mut avg = one(&from, &to).unwrap();
        avg.update_batch(&[Arc::new(Decimal128Array::from(vec![largest]).with_data_type(from.clone()))]).unwrap();
        assert!(avg.evaluate().unwrap_err().to_string().contains("out of range in AVG"));
    }
}
