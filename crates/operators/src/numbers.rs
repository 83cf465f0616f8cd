//! Sums and extremes of arrays of numbers.
//!
//! Sums are exact. Extremes of floats are those of IEEE's totalOrder, as in ORDER BY: a zero with a sign is less than one
//! without, and NaN is beyond all numbers. Comparing in that order takes several instructions for each value. A comparison
//! of plain numbers takes one for several values, and finds the same as long as there is no NaN and the result is no
//! zero.
//!
//! The functions are not generic, so that they are compiled with this crate, for speed, whoever calls them.

use std::cmp::Ordering;

use arrow_array::types::{Decimal128Type, Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrowPrimitiveType, PrimitiveArray};

/// The largest number of values whose halves sum up within 64 bits.
const HALVES_MAX: usize = 1 << 30;

/// Values that are compared side by side.
const LANES: usize = 16;

/// Values after which NaN is looked for, while they are in the nearest cache.
const BLOCK: usize = 1024;

/// Returns the sum of the values that are not NULL.
pub fn sum_i64(array: &PrimitiveArray<Int64Type>) -> i128 {
    // With the sign turned round, numbers are as many more than those without a sign.
    let unsigned = |value: i64| (value as u64) ^ (1 << 63);
    let count = (array.len() - array.null_count()) as i128;
    halves(array, unsigned) as i128 - (count << 63)
}

/// Returns the sum of the values that are not NULL.
pub fn sum_u64(array: &PrimitiveArray<UInt64Type>) -> u128 {
    halves(array, |value| value)
}

/// Sums halves of 32 bits, which do not wrap: no addition waits for a carry, so many are done at once.
#[inline(always)]
fn halves<T: ArrowPrimitiveType>(array: &PrimitiveArray<T>, unsigned: impl Fn(T::Native) -> u64) -> u128 {
    let mut sum = 0_u128;
    let mut add = |(low, high): (u64, u64)| sum += (u128::from(high) << 32) + u128::from(low);
    let both = |(low, high): (u64, u64), value: u64| (low + u64::from(value as u32), high + (value >> 32));
    in_blocks(array, HALVES_MAX, |values, valid| {
        let values = values.iter().map(|value| unsigned(*value));
        add(match valid {
            None => values.fold((0, 0), both),
            Some(valid) => {
                let of_bit = |bit: usize| (valid >> bit & 1).wrapping_neg();
                values.enumerate().map(|(bit, value)| value & of_bit(bit)).fold((0, 0), both)
            }
        });
    });
    sum
}

/// Returns the sum of the values that are not NULL in 128 bits, and its carry: the number of times that it wrapped
/// upwards, minus the number of times that it wrapped downwards.
pub fn sum_i128(array: &PrimitiveArray<Decimal128Type>) -> (i128, i64) {
    let (mut sum, mut carry) = (0_i128, 0);
    let mut add = |value: i128| {
        let (new, wrapped) = sum.overflowing_add(value);
        sum = new;
        if wrapped {
            carry += if value < 0 { -1 } else { 1 };
        }
    };
    in_blocks(array, usize::MAX, |values, valid| match valid {
        None => values.iter().for_each(|value| add(*value)),
        Some(valid) => {
            let some = values.iter().enumerate().filter(|(bit, _)| valid >> bit & 1 == 1);
            some.for_each(|(_, value)| add(*value));
        }
    });
    (sum, carry)
}

/// Returns the greatest or the least of the values that are not NULL; `None` if there are none.
pub fn extreme_f32(array: &PrimitiveArray<Float32Type>, greatest: bool) -> Option<f32> {
    match greatest {
        true => extreme::<Float32Type, true>(array, f32::total_cmp),
        false => extreme::<Float32Type, false>(array, f32::total_cmp),
    }
}

/// Returns the greatest or the least of the values that are not NULL; `None` if there are none.
pub fn extreme_f64(array: &PrimitiveArray<Float64Type>, greatest: bool) -> Option<f64> {
    match greatest {
        true => extreme::<Float64Type, true>(array, f64::total_cmp),
        false => extreme::<Float64Type, false>(array, f64::total_cmp),
    }
}

#[inline(always)]
fn extreme<T: ArrowPrimitiveType, const GREATEST: bool>(
    array: &PrimitiveArray<T>,
    order: impl Fn(&T::Native, &T::Native) -> Ordering,
) -> Option<T::Native> {
    let wanted = if GREATEST { Ordering::Greater } else { Ordering::Less };
    let total = |best: T::Native, value: T::Native| if order(&value, &best) == wanted { value } else { best };
    let of_block = |values: &[T::Native]| match plain::<T, GREATEST>(values) {
        Some(found) if found != T::Native::default() => Some(found),
        // A NaN, or a zero of either sign.
        _ => values.iter().copied().reduce(total),
    };
    let mut best = None;
    in_blocks(array, BLOCK, |values, valid| {
        let found = match valid {
            None => of_block(values),
            // The first of the values takes the place of each NULL.
            Some(valid) if valid != 0 => {
                let mut some = [values[valid.trailing_zeros() as usize]; 64];
                for (bit, value) in values.iter().enumerate().filter(|(bit, _)| valid >> bit & 1 == 1) {
                    some[bit] = *value;
                }
                of_block(&some)
            }
            Some(_) => None,
        };
        best = match (best, found) {
            (Some(best), Some(found)) => Some(total(best, found)),
            (best, found) => best.or(found),
        };
    });
    best
}

/// Returns the greatest or least of values as numbers are compared; `None` if one of them is NaN, or there are none.
#[inline(always)]
fn plain<T: ArrowPrimitiveType, const GREATEST: bool>(values: &[T::Native]) -> Option<T::Native> {
    // Nothing equals NaN, not even NaN itself.
    #[expect(clippy::eq_op, reason = "NaN")]
    let nan = values.iter().fold(false, |nan, value| nan | (value != value));
    let first = values.first().filter(|_| !nan)?;
    let better = |best: T::Native, value: T::Native| {
        let better = if GREATEST { value > best } else { value < best };
        if better { value } else { best }
    };
    let mut lanes = [*first; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane = better(*lane, *value);
        }
    }
    Some(lanes.into_iter().chain(rest.iter().copied()).fold(*first, better))
}

/// Calls `each` with all values, at most `most` of them at a time. With NULLs among them there are 64 at a time, and a
/// bit says of each, from the lowest on, whether it is a value.
#[inline(always)]
fn in_blocks<T: ArrowPrimitiveType>(
    array: &PrimitiveArray<T>,
    most: usize,
    mut each: impl FnMut(&[T::Native], Option<u64>),
) {
    match array.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => array.values().chunks(most).for_each(|values| each(values, None)),
        Some(nulls) => {
            let valid = nulls.inner().bit_chunks();
            for (values, valid) in array.values().chunks(64).zip(valid.iter_padded()) {
                each(values, Some(valid).filter(|valid| *valid != u64::MAX));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Decimal128Array, Float32Array, Float64Array, Int64Array, UInt64Array};
    use proptest::prelude::*;

    /// Numbers by a seed.
    fn numbers(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let mixed = (state ^ (state >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            mixed ^ (mixed >> 32)
        }
    }

    /// A double of one of the kinds, of which the first ones are ordinary numbers.
    fn double(random: u64, kinds: u64) -> f64 {
        match 63 - random % kinds {
            0 => f64::NAN,
            1 => -f64::NAN,
            2 => f64::INFINITY,
            3 => f64::NEG_INFINITY,
            4..8 => -0.0,
            8..12 => 0.0,
            12 => f64::from_bits(random),
            _ => (random >> 32) as f64 - 2e9,
        }
    }

    proptest! {
        #[test]
        fn kernels_find_what_one_value_after_the_other_gives(
            seed in any::<u64>(),
            length in 0usize..3000,
            cut in 0usize..70,
            kinds in 1u64..65,
            nulls in prop_oneof![Just(0u64), Just(3), Just(50), Just(100)],
        ) {
            let mut next = numbers(seed);
            let values: Vec<Option<u64>> = (0..length).map(|_| {
                let value = next();
                (next() % 100 >= nulls).then_some(value)
            }).collect();
            let ends = |v: u64| [v as i64, i64::MAX, i64::MIN, -1, (v >> 40) as i64][(v % 5) as usize];
            let cut = cut.min(length);
            let given = || values[cut..].iter().flatten().copied();

            let array: Int64Array = values.iter().map(|v| v.map(ends)).collect();
            let wanted: i128 = given().map(|v| i128::from(ends(v))).sum();
            prop_assert_eq!(sum_i64(&array.slice(cut, length - cut)), wanted);

            let array: UInt64Array = values.iter().map(|v| v.map(|v| ends(v) as u64)).collect();
            let wanted: u128 = given().map(|v| u128::from(ends(v) as u64)).sum();
            prop_assert_eq!(sum_u64(&array.slice(cut, length - cut)), wanted);

            let wide = |v: u64| i128::from(ends(v)) << (v % 65);
            let array: Decimal128Array = values.iter().map(|v| v.map(wide)).collect();
            let (sum, carry) = sum_i128(&array.slice(cut, length - cut));
            // The sum of the upper and of the lower halves.
            let (high, low) = given().fold((0_i128, 0_i128), |(high, low), v| {
                (high + (wide(v) >> 64), low + i128::from(wide(v) as u64))
            });
            let high = high + (low >> 64);
            prop_assert_eq!((sum as u64, (sum >> 64) + (i128::from(carry) << 64)), (low as u64, high));

            for greatest in [true, false] {
                let better = |a: Ordering| a == if greatest { Ordering::Greater } else { Ordering::Less };
                let array: Float64Array = values.iter().map(|v| v.map(|v| double(v, kinds))).collect();
                let wanted = given().map(|v| double(v, kinds)).reduce(|a, b| if better(b.total_cmp(&a)) { b } else { a });
                let found = extreme_f64(&array.slice(cut, length - cut), greatest);
                prop_assert_eq!(found.map(f64::to_bits), wanted.map(f64::to_bits));
                let float = |v: u64| double(v, kinds) as f32;
                let array: Float32Array = values.iter().map(|v| v.map(float)).collect();
                let wanted = given().map(float).reduce(|a, b| if better(b.total_cmp(&a)) { b } else { a });
                let found = extreme_f32(&array.slice(cut, length - cut), greatest);
                prop_assert_eq!(found.map(f32::to_bits), wanted.map(f32::to_bits));
            }
        }
    }
}
