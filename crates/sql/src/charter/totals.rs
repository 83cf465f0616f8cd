//! Exact totals of integers and decimals, from which SUM and AVG are computed.
//!
//! A total consists of the sum in the type's own bits, which wraps, and of a carry: the number of times that it wrapped
//! upwards minus the number of times that it wrapped downwards. Both are in the partial state, so only the result has
//! to fit and the order of the values does not matter. Groups keep carries in a table beside the sums, only for groups
//! that have one: with ordinary data it stays empty, and a row costs one addition and one comparison more than the sum
//! itself.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Decimal128Type, Decimal256Type, DecimalType, Int32Type, Int64Type, UInt64Type};
use datafusion::logical_expr::EmitTo;
use dipper_operators::numbers;

/// Numbers that are summed here.
pub(super) trait Summed: ArrowPrimitiveType + Debug + Send + Sized {
    /// Whether a sum that did not wrap is a value of `data_type`.
    fn fits(_: Self::Native, _: &DataType) -> bool {
        true
    }

    /// Returns the sum and the carry of the values that are not NULL.
    fn sum(values: &PrimitiveArray<Self>) -> (Self::Native, i64) {
        let (mut sum, mut carry) = (Self::Native::ZERO, 0);
        values.iter().flatten().for_each(|v| carry += add(&mut sum, v));
        (sum, carry)
    }
}

impl Summed for Int64Type {
    fn sum(values: &PrimitiveArray<Self>) -> (i64, i64) {
        let sum = numbers::sum_i64(values);
        let own = sum as i64;
        (own, ((sum - i128::from(own)) >> 64) as i64)
    }
}

impl Summed for UInt64Type {
    fn sum(values: &PrimitiveArray<Self>) -> (u64, i64) {
        let sum = numbers::sum_u64(values);
        (sum as u64, (sum >> 64) as i64)
    }
}

impl Summed for Decimal128Type {
    fn fits(sum: i128, data_type: &DataType) -> bool {
        matches!(data_type, DataType::Decimal128(p, _) if Self::is_valid_decimal_precision(sum, *p))
    }

    fn sum(values: &PrimitiveArray<Self>) -> (i128, i64) {
        numbers::sum_i128(values)
    }
}

impl Summed for Decimal256Type {
    fn fits(sum: Self::Native, data_type: &DataType) -> bool {
        match data_type {
            // LARGEINT is limited to 128 bits, which is less than 39 digits can hold.
            DataType::Decimal256(39, 0) => sum.to_i128().is_some(),
            DataType::Decimal256(p, _) => Self::is_valid_decimal_precision(sum, *p),
            _ => false,
        }
    }
}

/// Adds a value and returns the carry, -1 to 1. Unless it wraps, a sum grows by a value that is not negative, and
/// shrinks by one that is.
#[inline]
pub(super) fn add<N: ArrowNativeTypeOp>(sum: &mut N, value: N) -> i64 {
    let new = sum.add_wrapping(value);
    let carry = i64::from(new.is_lt(*sum)) - i64::from(value.is_lt(N::ZERO));
    *sum = new;
    carry
}

/// Subtracts a value and returns the carry.
fn subtract<N: ArrowNativeTypeOp>(sum: &mut N, value: N) -> i64 {
    let new = sum.sub_wrapping(value);
    let carry = i64::from(value.is_lt(N::ZERO)) - i64::from(new.is_gt(*sum));
    *sum = new;
    carry
}

/// The total of the values that are not NULL.
#[derive(Debug)]
pub(super) struct Total<T: Summed> {
    pub(super) sum: T::Native,
    pub(super) carry: i64,
    /// The number of values.
    pub(super) count: i64,
}

impl<T: Summed> Default for Total<T> {
    fn default() -> Self {
        Total { sum: T::Native::ZERO, carry: 0, count: 0 }
    }
}

impl<T: Summed> Total<T> {
    fn of(values: &PrimitiveArray<T>) -> Self {
        let count = (values.len() - values.null_count()) as i64;
        let (sum, carry) = T::sum(values);
        Total { sum, carry, count }
    }

    /// Adds an array of values, which has this type.
    pub(super) fn add(&mut self, values: &ArrayRef) {
        let more = Self::of(values.as_primitive());
        self.carry += more.carry + add(&mut self.sum, more.sum);
        self.count += more.count;
    }

    /// Removes values that were added before.
    pub(super) fn take_away(&mut self, values: &ArrayRef) {
        let less = Self::of(values.as_primitive());
        self.carry += subtract(&mut self.sum, less.sum) - less.carry;
        self.count -= less.count;
    }

    /// Adds the carries of partial states.
    pub(super) fn add_carries(&mut self, carries: &ArrayRef) {
        self.carry += carries.as_primitive::<Int32Type>().iter().flatten().map(i64::from).sum::<i64>();
    }
}

/// Returns the carry in the type of the partial state; `None` if it does not fit, which takes billions of values at the
/// end of their range.
pub(super) fn state_carry(carry: i64) -> Option<i32> {
    i32::try_from(carry).ok()
}

/// The carries of groups; most groups have none.
#[derive(Debug, Default)]
pub(super) struct Carries(HashMap<usize, i64>);

impl Carries {
    #[inline]
    pub(super) fn add(&mut self, group: usize, carry: i64) {
        if carry != 0 {
            *self.0.entry(group).or_default() += carry;
        }
    }

    /// Adds the carries of partial states.
    pub(super) fn merge(&mut self, group_indices: &[usize], carries: &ArrayRef) {
        let carries = carries.as_primitive::<Int32Type>().values();
        group_indices.iter().zip(carries).for_each(|(group, carry)| self.add(*group, i64::from(*carry)));
    }

    /// Takes the carries of the groups that are emitted, and renumbers the others.
    pub(super) fn take(&mut self, emit_to: EmitTo) -> Self {
        let all = std::mem::take(&mut self.0);
        match emit_to {
            EmitTo::First(n) if !all.is_empty() => {
                let (taken, kept): (HashMap<usize, i64>, HashMap<usize, i64>) =
                    all.into_iter().partition(|(group, _)| *group < n);
                self.0 = kept.into_iter().map(|(group, carry)| (group - n, carry)).collect();
                Carries(taken)
            }
            _ => Carries(all),
        }
    }

    pub(super) fn of(&self, group: usize) -> i64 {
        if self.0.is_empty() { 0 } else { self.0.get(&group).copied().unwrap_or(0) }
    }

    /// Whether some group's sum wrapped.
    pub(super) fn any(&self) -> bool {
        self.0.values().any(|carry| *carry != 0)
    }

    /// Returns the carries as a column of the partial state; `None` where [`state_carry`] is `None`.
    pub(super) fn column(self, groups: usize) -> Option<ArrayRef> {
        let mut column = vec![0; groups];
        for (group, carry) in self.0 {
            column[group] = state_carry(carry)?;
        }
        Some(Arc::new(PrimitiveArray::<Int32Type>::from(column)))
    }

    /// Returns the bytes that the carries occupy.
    pub(super) fn size(&self) -> usize {
        self.0.capacity() * size_of::<(usize, i64)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_carries_add_up_to_the_whole() {
        let mut state = 1_u64;
        let values: Vec<Option<i64>> = (0..10_000)
            .map(|i| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let value = [state as i64, i64::MAX, i64::MIN, -1, (state >> 40) as i64][i % 5];
                (state >> 60 > 2).then_some(value)
            })
            .collect();
        for part in [&values[..0], &values[..1], &values[..3], &values[1..7], &values] {
            let given = || part.iter().flatten();
            let signed: PrimitiveArray<Int64Type> = part.iter().copied().collect();
            let (sum, carry) = Int64Type::sum(&signed);
            let whole: i128 = given().map(|v| i128::from(*v)).sum();
            assert_eq!(i128::from(sum) + (i128::from(carry) << 64), whole);
            let unsigned: PrimitiveArray<UInt64Type> = part.iter().map(|v| v.map(|v| v as u64)).collect();
            let (sum, carry) = UInt64Type::sum(&unsigned);
            let whole: i128 = given().map(|v| i128::from(*v as u64)).sum();
            assert_eq!(i128::from(sum) + (i128::from(carry) << 64), whole);
            let decimals: PrimitiveArray<Decimal128Type> =
                part.iter().map(|v| v.map(|v| i128::from(v) << 10)).collect();
            let whole: i128 = given().map(|v| i128::from(*v) << 10).sum();
            assert_eq!(Decimal128Type::sum(&decimals), (whole, 0));
            let end: PrimitiveArray<Decimal128Type> = vec![i128::MAX, 1, i128::MAX, 1].into();
            assert_eq!(Decimal128Type::sum(&end), (0, 1));
        }
    }
}
