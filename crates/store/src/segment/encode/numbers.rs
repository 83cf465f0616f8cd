//! Encoding of integers, dates, times and floating-point numbers.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::DataType;
use parquet::basic::Encoding;
use parquet::file::statistics::{Statistics, ValueStatistics};

use super::bits::{put_codes, put_delta, put_levels, width};
use super::choose::primitive;
use super::dictionary::{CODES_MAX, Codes, hash128};
use super::{Bounds, Chunk, Column, PageSink, Scratch, bloom, folded};
use crate::segment::options::{ColumnPlan, PAGE_ROWS};
use crate::segment::{Codec, Result};

/// A number as bits of its physical type, and the order of numbers of its type.
pub(super) trait Number: ArrowPrimitiveType {
    /// Size of the physical type in bytes.
    const BYTES: usize;
    /// Returns the value in the low bytes of the physical type.
    fn bits(v: Self::Native) -> u64;
    /// Returns a number that grows with the value; any number for NaN.
    fn rank(v: Self::Native) -> i64;
    /// Returns the value of a rank.
    fn of_rank(rank: i64) -> Self::Native;
    fn is_nan(_: Self::Native) -> bool {
        false
    }
    /// Returns the statistics of a chunk.
    fn statistics(bounds: Option<(Self::Native, Self::Native)>, nulls: u64) -> Statistics;
    /// Returns bounds as they are written: zeros get the sign that keeps them bounds.
    fn bounds(min: Self::Native, max: Self::Native) -> (Self::Native, Self::Native) {
        (min, max)
    }
}

macro_rules! integer {
    ($t:ty, $physical:ty) => {
        impl Number for $t {
            const BYTES: usize = size_of::<$physical>();
            #[inline]
            fn bits(v: Self::Native) -> u64 {
                <$physical>::from(v) as u64
            }
            #[inline]
            fn rank(v: Self::Native) -> i64 {
                v.into()
            }
            #[inline]
            fn of_rank(rank: i64) -> Self::Native {
                rank as Self::Native
            }
            fn statistics(bounds: Option<(Self::Native, Self::Native)>, nulls: u64) -> Statistics {
                let (min, max) = (bounds.map(|b| b.0.into()), bounds.map(|b| b.1.into()));
                ValueStatistics::<$physical>::new(min, max, None, Some(nulls), false).into()
            }
        }
    };
}

integer!(Int8Type, i32);
integer!(Int16Type, i32);
integer!(Int32Type, i32);
integer!(Date32Type, i32);
integer!(Int64Type, i64);
integer!(TimestampMicrosecondType, i64);
integer!(Time64MicrosecondType, i64);

impl Number for UInt64Type {
    const BYTES: usize = 8;
    #[inline]
    fn bits(v: u64) -> u64 {
        v
    }
    #[inline]
    fn rank(v: u64) -> i64 {
        (v ^ (1 << 63)) as i64
    }
    #[inline]
    fn of_rank(rank: i64) -> u64 {
        rank as u64 ^ (1 << 63)
    }
    fn statistics(bounds: Option<(u64, u64)>, nulls: u64) -> Statistics {
        let (min, max) = (bounds.map(|b| b.0 as i64), bounds.map(|b| b.1 as i64));
        ValueStatistics::<i64>::new(min, max, None, Some(nulls), false).into()
    }
}

macro_rules! floating {
    ($t:ty, $native:ty, $bits:ty, $signed:ty) => {
        impl Number for $t {
            const BYTES: usize = size_of::<$native>();
            #[inline]
            fn bits(v: $native) -> u64 {
                v.to_bits().into()
            }
            #[inline]
            fn rank(v: $native) -> i64 {
                // The order of IEEE's totalOrder, as Arrow sorts: the other bits of negative numbers are inverted.
                let bits = v.to_bits() as $signed;
                (bits ^ (((bits >> (<$signed>::BITS - 1)) as $bits) >> 1) as $signed).into()
            }
            #[inline]
            fn of_rank(rank: i64) -> $native {
                let bits = rank as $signed;
                <$native>::from_bits((bits ^ (((bits >> (<$signed>::BITS - 1)) as $bits) >> 1) as $signed) as $bits)
            }
            #[inline]
            fn is_nan(v: $native) -> bool {
                v.is_nan()
            }
            fn statistics(bounds: Option<($native, $native)>, nulls: u64) -> Statistics {
                let (min, max) = (bounds.map(|b| b.0), bounds.map(|b| b.1));
                ValueStatistics::<$native>::new(min, max, None, Some(nulls), false).into()
            }
            fn bounds(min: $native, max: $native) -> ($native, $native) {
                (if min == 0.0 { -0.0 } else { min }, if max == 0.0 { 0.0 } else { max })
            }
        }
    };
}

floating!(Float32Type, f32, u32, i32);
floating!(Float64Type, f64, u64, i64);

/// Calls a function with an array downcast to its type.
macro_rules! typed {
    ($function:ident, $array:expr $(, $argument:expr)*) => {
        match $array.data_type() {
            DataType::Int8 => $function::<Int8Type>($array.as_primitive() $(, $argument)*),
            DataType::Int16 => $function::<Int16Type>($array.as_primitive() $(, $argument)*),
            DataType::Int32 => $function::<Int32Type>($array.as_primitive() $(, $argument)*),
            DataType::Date32 => $function::<Date32Type>($array.as_primitive() $(, $argument)*),
            DataType::Int64 => $function::<Int64Type>($array.as_primitive() $(, $argument)*),
            DataType::UInt64 => $function::<UInt64Type>($array.as_primitive() $(, $argument)*),
            DataType::Timestamp(..) => $function::<TimestampMicrosecondType>($array.as_primitive() $(, $argument)*),
            DataType::Time64(_) => $function::<Time64MicrosecondType>($array.as_primitive() $(, $argument)*),
            DataType::Float32 => $function::<Float32Type>($array.as_primitive() $(, $argument)*),
            DataType::Float64 => $function::<Float64Type>($array.as_primitive() $(, $argument)*),
            other => unreachable!("{other} is written elsewhere"),
        }
    };
}

pub(super) fn encode(
    column: &Column<'_>,
    array: &ArrayRef,
    before: u64,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Chunk> {
    typed!(numbers, array, column, before, out, scratch)
}

/// Chooses the encoding of a column; `sample` holds some of its `rows` rows.
pub(super) fn choose(sample: &ArrayRef, rows: usize, codec: Codec, scratch: &mut Scratch) -> ColumnPlan {
    typed!(primitive, sample, rows, codec, scratch)
}

fn numbers<T: Number>(
    array: &PrimitiveArray<T>,
    column: &Column<'_>,
    before: u64,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Chunk> {
    let bytes = T::BYTES;
    let mut filter = bloom(column, array.len() - array.null_count())?;
    if let Some(filter) = &mut filter {
        for v in array.iter().flatten() {
            filter.insert(&T::bits(v).to_le_bytes()[..bytes]);
        }
    }
    let Scratch { page, packed, codes, slots } = scratch;
    let dictionary = match column.plan {
        ColumnPlan::Dictionary { .. } => number_codes(array, codes, slots),
        _ => None,
    };
    let coded = dictionary.is_some();
    let dictionary = dictionary.unwrap_or_default();
    let encoding = match column.plan {
        _ if coded => Encoding::RLE_DICTIONARY,
        ColumnPlan::Delta => Encoding::DELTA_BINARY_PACKED,
        _ => Encoding::PLAIN,
    };
    let compress = match column.plan {
        ColumnPlan::Dictionary { codec } | ColumnPlan::Plain { codec } => codec,
        ColumnPlan::Lengths { .. } | ColumnPlan::Delta => false,
    };
    let mut sink = PageSink::new(column, before, out, packed, encoding, compress);
    if coded {
        page.clear();
        dictionary.iter().for_each(|bits| page.extend_from_slice(&bits.to_le_bytes()[..bytes]));
        sink.dictionary(page, dictionary.len())?;
    }
    let code_bits = width(dictionary.len().saturating_sub(1) as u64).max(1);
    let mut next_code = 0;
    let mut whole: Option<(T::Native, T::Native)> = None;
    let mut bounded = true;
    for from in (0..array.len()).step_by(PAGE_ROWS) {
        let part = array.slice(from, PAGE_ROWS.min(array.len() - from));
        let nulls = part.null_count();
        let values = part.len() - nulls;
        page.clear();
        if column.nullable {
            put_levels(page, part.len(), part.nulls());
        }
        if coded {
            page.push(code_bits as u8);
            put_codes(page, &codes[next_code..next_code + values], code_bits);
            next_code += values;
        } else if encoding == Encoding::DELTA_BINARY_PACKED {
            put_deltas(page, &part, bytes);
        } else {
            put_plain(page, &part, bytes);
        }
        let (range, nan) = range(&part);
        bounded &= !nan;
        let bounds: Bounds = range.filter(|_| !nan).map(|(min, max)| {
            let (min, max) = T::bounds(min, max);
            let plain = |v| T::bits(v).to_le_bytes()[..bytes].to_vec();
            (plain(min), plain(max))
        });
        if let Some((min, max)) = range {
            let (low, high) = whole.unwrap_or((min, max));
            whole = Some((T::of_rank(T::rank(low).min(T::rank(min))), T::of_rank(T::rank(high).max(T::rank(max)))));
        }
        sink.data(page, part.len(), nulls, bounds, None)?;
    }
    assert!(!coded || next_code == codes.len(), "each code is on a page");
    let whole = whole.filter(|_| bounded).map(|(min, max)| T::bounds(min, max));
    let statistics = T::statistics(whole, array.null_count() as u64);
    sink.finish(Some(statistics), folded(filter, column))
}

/// Returns whether the ranks from `low` to `high` are few enough for a table of all of them.
fn is_range(low: i64, high: i64) -> bool {
    low <= high && high.abs_diff(low) < CODES_MAX as u64
}

/// Returns whether [`number_codes`] needs no hashes.
pub(super) fn is_narrow<T: Number>(array: &PrimitiveArray<T>) -> bool {
    let (low, high) = ranks(array);
    is_range(low, high)
}

/// Returns the codes of the values that are not NULL, in order, in `codes`, and the bits of the values that they stand
/// for; `None` if a dictionary saves nothing.
pub(super) fn number_codes<T: Number>(
    array: &PrimitiveArray<T>,
    codes: &mut Vec<u32>,
    slots: &mut Vec<u32>,
) -> Option<Vec<u64>> {
    codes.clear();
    let mut known: Vec<u64> = Vec::new();
    let (low, high) = ranks(array);
    if high == low {
        known.push(T::bits(T::of_rank(low)));
        codes.resize(array.len() - array.null_count(), 0);
    } else if is_range(low, high) {
        // A slot for each possible value, holding its code plus one.
        slots.clear();
        slots.resize(high.abs_diff(low) as usize + 1, 0);
        let mut code = |v: T::Native| {
            let slot = &mut slots[T::rank(v).wrapping_sub(low) as usize];
            if *slot == 0 {
                known.push(T::bits(v));
                *slot = known.len() as u32;
            }
            *slot - 1
        };
        match array.null_count() {
            0 => codes.extend(array.values().iter().map(|v| code(*v))),
            _ => codes.extend(array.iter().flatten().map(code)),
        }
    } else {
        let mut table = Codes::new(slots);
        let hash = |bits: u64| hash128(bits.into());
        let mut last = None;
        for v in array.iter().flatten() {
            let bits = T::bits(v);
            let code = match last {
                // Neighbours are often equal.
                Some((before, code)) if before == bits => code,
                _ => table.code(hash(bits), |c| known[c as usize] == bits, |c| hash(known[c as usize])),
            };
            if code as usize == known.len() {
                known.push(bits);
                if known.len() > CODES_MAX {
                    return None;
                }
            }
            last = Some((bits, code));
            codes.push(code);
        }
    }
    // A dictionary as large as the values themselves saves nothing.
    (known.len() * 2 <= codes.len().max(2)).then_some(known)
}

/// Appends the values that are not NULL as differences of neighbours, as numbers of `bytes` bytes.
pub(super) fn put_deltas<T: Number>(page: &mut Vec<u8>, part: &PrimitiveArray<T>, bytes: usize) {
    let signed = |v: T::Native| match bytes {
        4 => i64::from(T::bits(v) as u32 as i32),
        _ => T::bits(v) as i64,
    };
    match part.null_count() {
        0 => put_delta(page, part.values().iter().map(|v| signed(*v)), bytes == 4),
        _ => put_delta(page, part.iter().flatten().map(signed).collect::<Vec<_>>().into_iter(), bytes == 4),
    }
}

/// Appends the values that are not NULL as numbers of `bytes` bytes.
pub(super) fn put_plain<T: Number>(page: &mut Vec<u8>, part: &PrimitiveArray<T>, bytes: usize) {
    if part.null_count() > 0 {
        part.iter().flatten().for_each(|v| page.extend_from_slice(&T::bits(v).to_le_bytes()[..bytes]));
        return;
    }
    let start = page.len();
    page.resize(start + part.len() * bytes, 0);
    if bytes == 4 {
        let (out, _) = page[start..].as_chunks_mut::<4>();
        out.iter_mut().zip(part.values()).for_each(|(out, v)| *out = (T::bits(*v) as u32).to_le_bytes());
    } else {
        let (out, _) = page[start..].as_chunks_mut::<8>();
        out.iter_mut().zip(part.values()).for_each(|(out, v)| *out = T::bits(*v).to_le_bytes());
    }
}

/// Returns the smallest and largest rank; the first is larger if there is no value.
fn ranks<T: Number>(part: &PrimitiveArray<T>) -> (i64, i64) {
    let add = |(low, high): (i64, i64), v: T::Native| (low.min(T::rank(v)), high.max(T::rank(v)));
    let none = (i64::MAX, i64::MIN);
    match part.null_count() {
        0 => part.values().iter().fold(none, |r, v| add(r, *v)),
        _ => part.iter().flatten().fold(none, add),
    }
}

/// Returns the smallest and largest value, and whether there is a NaN, which makes them meaningless.
fn range<T: Number>(part: &PrimitiveArray<T>) -> (Option<(T::Native, T::Native)>, bool) {
    let (low, high) = ranks(part);
    let nan = match part.null_count() {
        0 => part.values().iter().any(|v| T::is_nan(*v)),
        _ => part.iter().flatten().any(T::is_nan),
    };
    ((low <= high).then(|| (T::of_rank(low), T::of_rank(high))), nan)
}
