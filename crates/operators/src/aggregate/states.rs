//! States of aggregates in the words of a record.
//!
//! Sums of integers have 128 bits. Sums of decimals wrap in 128 bits and count how often they did. So no order of the
//! rows makes a sum wrong, and only the result has to fit, which is for the caller to check. States come out as columns
//! with the sum in the type's own bits and the carry beside it: the number of times that the sum wrapped upwards, minus
//! the number of times that it wrapped downwards.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Float32Type, Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, Float64Array, Int32Array, Int64Array, UInt64Array};
use arrow_buffer::{ArrowNativeType, NullBuffer};
use arrow_schema::{ArrowError, DataType};

use super::keys::{fixed_array, wide, wide_array};
use super::layout::{Aggregate, Function, Layout};

/// How values change a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Counts in one word.
    Count,
    /// Adds signed integers of 64 bits, in two words.
    Integer,
    /// Adds unsigned integers of 64 bits, in two words.
    Unsigned,
    /// Adds numbers of 128 bits, in two words for the sum and one for the carry.
    Decimal,
    /// Adds doubles in one word.
    Double,
    /// Keeps a signed number of at most 64 bits.
    SignedExtreme { greatest: bool },
    /// Keeps an unsigned number of at most 64 bits.
    UnsignedExtreme { greatest: bool },
    /// Keeps a number of 128 bits.
    WideExtreme { greatest: bool },
    /// Keeps the rank of a float in IEEE's totalOrder.
    FloatExtreme { greatest: bool },
}

/// The least and the greatest signed number of 64 bits.
const LEAST: u64 = 1 << 63;
const GREATEST: u64 = u64::MAX >> 1;

impl Work {
    /// The words of a group without values.
    pub(super) fn initial(self) -> &'static [u64] {
        match self {
            Work::Count | Work::Double => &[0],
            Work::Integer | Work::Unsigned => &[0, 0],
            Work::Decimal => &[0, 0, 0],
            Work::SignedExtreme { greatest: true } | Work::FloatExtreme { greatest: true } => &[LEAST],
            Work::SignedExtreme { greatest: false } | Work::FloatExtreme { greatest: false } => &[GREATEST],
            Work::UnsignedExtreme { greatest: true } => &[0],
            Work::UnsignedExtreme { greatest: false } => &[u64::MAX],
            Work::WideExtreme { greatest: true } => &[0, LEAST],
            Work::WideExtreme { greatest: false } => &[u64::MAX, GREATEST],
        }
    }
}

/// A state: its words and the bit of the word of flags that says that there was a value, 0 if none does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct State {
    pub(super) work: Work,
    pub(super) word: usize,
    pub(super) flag: u64,
}

#[inline(always)]
fn put_wide(words: &mut [u64], value: i128) {
    words[0] = value as u64;
    words[1] = (value >> 64) as u64;
}

#[inline(always)]
fn add_wide(words: &mut [u64], value: i128) {
    put_wide(words, wide(words).wrapping_add(value));
}

#[inline(always)]
fn add_decimal(words: &mut [u64], value: i128) {
    let (sum, wrapped) = wide(words).overflowing_add(value);
    put_wide(words, sum);
    if wrapped {
        let carry = if value < 0 { -1 } else { 1 };
        words[2] = (words[2] as i64 + carry) as u64;
    }
}

#[inline(always)]
fn add_double(word: &mut u64, value: f64) {
    *word = (f64::from_bits(*word) + value).to_bits();
}

#[inline(always)]
fn keep_signed(word: &mut u64, value: i64, greatest: bool) {
    let kept = *word as i64;
    *word = (if greatest { kept.max(value) } else { kept.min(value) }) as u64;
}

#[inline(always)]
fn keep_unsigned(word: &mut u64, value: u64, greatest: bool) {
    *word = if greatest { value.max(*word) } else { value.min(*word) };
}

#[inline(always)]
fn keep_wide(words: &mut [u64], value: i128, greatest: bool) {
    let kept = wide(words);
    put_wide(words, if greatest { kept.max(value) } else { kept.min(value) });
}

/// Returns the rank of a double, and the double of a rank: the other bits of negative numbers are inverted.
#[inline(always)]
fn rank(bits: i64) -> i64 {
    bits ^ ((bits >> 63) as u64 >> 1) as i64
}

/// Like [`rank`].
#[inline(always)]
fn rank_of_float(bits: i32) -> i32 {
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

/// The groups of some rows of a batch.
pub(super) struct Rows<'a> {
    /// The first row.
    pub(super) from: usize,
    /// The number of each row's group.
    pub(super) groups: &'a [u32],
}

impl State {
    /// Updates the states of groups by the rows' values.
    pub(super) fn update(self, layout: &Layout, records: &mut [u64], rows: &Rows<'_>, values: Option<&ArrayRef>) {
        let nulls = values.and_then(|values| values.logical_nulls()).filter(|nulls| nulls.null_count() > 0);
        let nulls = nulls.map(|nulls| nulls.slice(rows.from, rows.groups.len()));
        let each = Each { layout, records, groups: rows.groups, nulls: nulls.as_ref(), state: self };
        let Some(values) = values else { return each.run(|_, words| words[0] += 1) };
        let (from, to) = (rows.from, rows.from + rows.groups.len());
        match self.work {
            Work::Count => each.run(|_, words| words[0] += 1),
            Work::Integer => {
                let values = &values.as_primitive::<Int64Type>().values()[from..to];
                each.run(|row, words| add_wide(words, i128::from(values[row])));
            }
            Work::Unsigned => {
                let values = &values.as_primitive::<UInt64Type>().values()[from..to];
                each.run(|row, words| add_wide(words, i128::from(values[row])));
            }
            Work::Decimal => {
                let values = &values.as_primitive::<Decimal128Type>().values()[from..to];
                each.run(|row, words| add_decimal(words, values[row]));
            }
            Work::Double => {
                let values = &values.as_primitive::<Float64Type>().values()[from..to];
                each.run(|row, words| add_double(&mut words[0], values[row]));
            }
            Work::SignedExtreme { greatest } => match values.data_type().primitive_width() {
                Some(1) => each.signed::<i8>(values, from, greatest),
                Some(2) => each.signed::<i16>(values, from, greatest),
                Some(4) => each.signed::<i32>(values, from, greatest),
                _ => each.signed::<i64>(values, from, greatest),
            },
            Work::UnsignedExtreme { greatest } => match values.data_type().primitive_width() {
                Some(1) => each.unsigned::<u8>(values, from, greatest),
                Some(2) => each.unsigned::<u16>(values, from, greatest),
                Some(4) => each.unsigned::<u32>(values, from, greatest),
                _ => each.unsigned::<u64>(values, from, greatest),
            },
            Work::WideExtreme { greatest } => {
                let values = &values.as_primitive::<Decimal128Type>().values()[from..to];
                each.run(|row, words| keep_wide(words, values[row], greatest));
            }
            Work::FloatExtreme { greatest } => match values.data_type() {
                DataType::Float32 => {
                    let values = &values.as_primitive::<Float32Type>().values()[from..to];
                    let rank = |row: usize| i64::from(rank_of_float(values[row].to_bits() as i32));
                    each.run(|row, words| keep_signed(&mut words[0], rank(row), greatest));
                }
                _ => {
                    let values = &values.as_primitive::<Float64Type>().values()[from..to];
                    let rank = |row: usize| rank(values[row].to_bits() as i64);
                    each.run(|row, words| keep_signed(&mut words[0], rank(row), greatest));
                }
            },
        }
    }

    /// Merges the state of one record into that of another one.
    #[inline]
    fn merge(self, into: &mut [u64], from: &[u64]) {
        let (into, from) = (&mut into[self.word..], &from[self.word..]);
        match self.work {
            Work::Count => into[0] += from[0],
            Work::Integer | Work::Unsigned => add_wide(into, wide(from)),
            Work::Decimal => {
                add_decimal(into, wide(from));
                into[2] = (into[2] as i64 + from[2] as i64) as u64;
            }
            Work::Double => add_double(&mut into[0], f64::from_bits(from[0])),
            Work::SignedExtreme { greatest } | Work::FloatExtreme { greatest } => {
                keep_signed(&mut into[0], from[0] as i64, greatest);
            }
            Work::UnsignedExtreme { greatest } => keep_unsigned(&mut into[0], from[0], greatest),
            Work::WideExtreme { greatest } => keep_wide(into, wide(from), greatest),
        }
    }
}

/// Merges the states of a record into another record of the same key.
#[inline]
pub(super) fn merge(layout: &Layout, into: &mut [u64], from: &[u64]) {
    if let Some(flags) = layout.flags {
        into[flags] |= from[flags];
    }
    for state in layout.states.iter().flatten() {
        state.merge(into, from);
    }
}

/// An update of one state of the groups of some rows.
struct Each<'a> {
    layout: &'a Layout,
    records: &'a mut [u64],
    groups: &'a [u32],
    nulls: Option<&'a NullBuffer>,
    state: State,
}

impl Each<'_> {
    /// Calls `update` with each row whose value is not NULL and the words of its state.
    #[inline(always)]
    fn run(self, mut update: impl FnMut(usize, &mut [u64])) {
        let State { word, flag, .. } = self.state;
        let (width, flags) = (self.layout.width, self.layout.flags.unwrap_or(0));
        let records = self.records;
        let mut one = |row: usize, group: u32| {
            let record = &mut records[group as usize * width..][..width];
            if flag != 0 {
                record[flags] |= flag;
            }
            update(row, &mut record[word..]);
        };
        match self.nulls {
            None => self.groups.iter().enumerate().for_each(|(row, group)| one(row, *group)),
            Some(nulls) => nulls.valid_indices().for_each(|row| one(row, self.groups[row])),
        }
    }

    #[inline(always)]
    fn signed<T: ArrowNativeType + Into<i64>>(self, values: &ArrayRef, from: usize, greatest: bool) {
        let data = values.to_data();
        let values = &data.buffer::<T>(0)[from..from + self.groups.len()];
        self.run(|row, words| keep_signed(&mut words[0], values[row].into(), greatest));
    }

    #[inline(always)]
    fn unsigned<T: ArrowNativeType + Into<u64>>(self, values: &ArrayRef, from: usize, greatest: bool) {
        let data = values.to_data();
        let values = &data.buffer::<T>(0)[from..from + self.groups.len()];
        self.run(|row, words| keep_unsigned(&mut words[0], values[row].into(), greatest));
    }
}

/// Returns the columns of the states of an aggregate:
///
/// | aggregate | columns |
/// |---|---|
/// | COUNT | the number |
/// | MIN, MAX | the value |
/// | SUM of doubles | the sum |
/// | SUM of integers and decimals | the sum, its carry |
/// | AVG of doubles | the number (unsigned), the sum; NULL without values |
/// | AVG of integers and decimals | the number, the sum, its carry |
pub(super) fn columns<'a>(
    layout: &Layout,
    aggregate: usize,
    records: impl ExactSizeIterator<Item = &'a [u64]> + Clone,
) -> Result<Vec<ArrayRef>, ArrowError> {
    let Aggregate { function, argument } = &layout.aggregates()[aggregate];
    let states = &layout.states[aggregate];
    let state = states[states.len() - 1];
    let (word, flag, flags) = (state.word, state.flag, layout.flags.unwrap_or(0));
    let mut nulls = None;
    if flag != 0 && records.clone().any(|record| record[flags] & flag == 0) {
        nulls = Some(records.clone().map(|record| record[flags] & flag != 0).collect::<NullBuffer>());
    }
    let mut columns: Vec<ArrayRef> = Vec::with_capacity(3);
    if *function == Function::Average {
        let counts = records.clone().map(|record| record[states[0].word]);
        if state.work == Work::Double {
            nulls = Some(counts.clone().map(|count| count > 0).collect());
            columns.push(Arc::new(UInt64Array::new(counts.collect(), nulls.clone())));
        } else {
            columns.push(Arc::new(Int64Array::from_iter_values(counts.map(|count| count as i64))));
        }
    }
    let carry = |carry: i64| {
        i32::try_from(carry).map_err(|_| ArrowError::ComputeError("too many values for one sum".to_string()))
    };
    match state.work {
        Work::Count => columns.push(Arc::new(Int64Array::from_iter_values(records.map(|r| r[word] as i64)))),
        Work::Double => {
            let sums = records.map(|record| f64::from_bits(record[word])).collect();
            columns.push(Arc::new(Float64Array::new(sums, nulls)));
        }
        Work::Integer => {
            let sums = records.clone().map(|record| record[word] as i64).collect();
            columns.push(Arc::new(Int64Array::new(sums, nulls)));
            let carries = records.map(|record| {
                let total = wide(&record[word..]);
                carry(((total - i128::from(total as i64)) >> 64) as i64)
            });
            columns.push(Arc::new(Int32Array::from(carries.collect::<Result<Vec<_>, _>>()?)));
        }
        Work::Unsigned => {
            columns.push(Arc::new(UInt64Array::new(records.clone().map(|record| record[word]).collect(), nulls)));
            let carries = records.map(|record| carry(record[word + 1] as i64));
            columns.push(Arc::new(Int32Array::from(carries.collect::<Result<Vec<_>, _>>()?)));
        }
        Work::Decimal => {
            let data_type = argument.as_ref().unwrap_or(&DataType::Null);
            let sums = records.clone().map(|record| wide(&record[word..])).collect();
            columns.push(wide_array(data_type, sums, nulls)?);
            let carries = records.map(|record| carry(record[word + 2] as i64));
            columns.push(Arc::new(Int32Array::from(carries.collect::<Result<Vec<_>, _>>()?)));
        }
        Work::SignedExtreme { .. } | Work::UnsignedExtreme { .. } => {
            let data_type = argument.as_ref().unwrap_or(&DataType::Null);
            columns.push(fixed_array(data_type, records.map(|record| record[word]), nulls)?);
        }
        Work::FloatExtreme { .. } => {
            let data_type = argument.as_ref().unwrap_or(&DataType::Null);
            let bits = |record: &[u64]| match data_type {
                DataType::Float32 => rank_of_float(record[word] as i32) as u32 as u64,
                _ => rank(record[word] as i64) as u64,
            };
            columns.push(fixed_array(data_type, records.map(bits), nulls)?);
        }
        Work::WideExtreme { .. } => {
            let data_type = argument.as_ref().unwrap_or(&DataType::Null);
            columns.push(wide_array(data_type, records.map(|record| wide(&record[word..])).collect(), nulls)?);
        }
    }
    Ok(columns)
}
