//! Integers, dates, times and floating-point numbers.

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow_schema::DataType;
use parquet::basic::Encoding;
use parquet::file::statistics::{Statistics, ValueStatistics};

use super::bits::{put_codes, put_delta, put_levels, width};
use super::dictionary::{CODES_MAX, Codes, hash128};
use super::{Bounds, Chunk, Column, PageSink, Scratch, bloom, folded, is_32};
use crate::segment::Result;
use crate::segment::options::{ColumnPlan, PAGE_ROWS};

/// A number in its physical type's bits, and how numbers of its type compare.
trait Number: ArrowPrimitiveType {
    /// The value in the low bytes of the physical type.
    fn bits(v: Self::Native) -> u64;
    /// Grows with the value; `None` for NaN.
    fn rank(v: Self::Native) -> Option<i64>;
    /// Statistics of a chunk.
    fn statistics(bounds: Option<(Self::Native, Self::Native)>, nulls: u64) -> Statistics;
    /// Bounds as they are written: zeros get the sign that keeps them bounds.
    fn bounds(min: Self::Native, max: Self::Native) -> (Self::Native, Self::Native) {
        (min, max)
    }
}

macro_rules! integer {
    ($t:ty, $physical:ty) => {
        impl Number for $t {
            #[inline]
            fn bits(v: Self::Native) -> u64 {
                <$physical>::from(v) as u64
            }
            #[inline]
            fn rank(v: Self::Native) -> Option<i64> {
                Some(v.into())
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
    #[inline]
    fn bits(v: u64) -> u64 {
        v
    }
    #[inline]
    fn rank(v: u64) -> Option<i64> {
        Some((v ^ (1 << 63)) as i64)
    }
    fn statistics(bounds: Option<(u64, u64)>, nulls: u64) -> Statistics {
        let (min, max) = (bounds.map(|b| b.0 as i64), bounds.map(|b| b.1 as i64));
        ValueStatistics::<i64>::new(min, max, None, Some(nulls), false).into()
    }
}

macro_rules! floating {
    ($t:ty, $native:ty, $bits:ty, $signed:ty) => {
        impl Number for $t {
            #[inline]
            fn bits(v: $native) -> u64 {
                v.to_bits().into()
            }
            #[inline]
            fn rank(v: $native) -> Option<i64> {
                // The order of IEEE's totalOrder, as Arrow sorts.
                let bits = v.to_bits() as $signed;
                let shift = <$signed>::BITS - 1;
                (!v.is_nan()).then(|| (bits ^ (((bits >> shift) as $bits) >> 1) as $signed).into())
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

pub(super) fn encode(
    column: &Column<'_>,
    array: &ArrayRef,
    before: u64,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Chunk> {
    macro_rules! of {
        ($t:ty) => {
            numbers::<$t>(column, array.as_primitive(), before, out, scratch)
        };
    }
    match array.data_type() {
        DataType::Int8 => of!(Int8Type),
        DataType::Int16 => of!(Int16Type),
        DataType::Int32 => of!(Int32Type),
        DataType::Date32 => of!(Date32Type),
        DataType::Int64 => of!(Int64Type),
        DataType::UInt64 => of!(UInt64Type),
        DataType::Timestamp(..) => of!(TimestampMicrosecondType),
        DataType::Time64(_) => of!(Time64MicrosecondType),
        DataType::Float32 => of!(Float32Type),
        DataType::Float64 => of!(Float64Type),
        other => unreachable!("{other} is written elsewhere"),
    }
}

fn numbers<T: Number>(
    column: &Column<'_>,
    array: &PrimitiveArray<T>,
    before: u64,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Chunk> {
    let bytes = if is_32(column) { 4 } else { 8 };
    let mut filter = bloom(column, array.len() - array.null_count())?;
    if let Some(filter) = &mut filter {
        for v in array.iter().flatten() {
            filter.insert(&T::bits(v).to_le_bytes()[..bytes]);
        }
    }
    let Scratch { page, packed, codes, slots } = scratch;
    // Codes of the values that are not NULL, in order.
    let mut dictionary = Vec::new();
    let mut coded = column.plan == ColumnPlan::Dictionary;
    if coded {
        codes.clear();
        let mut known: Vec<u64> = Vec::new();
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
                    coded = false;
                    break;
                }
            }
            last = Some((bits, code));
            codes.push(code);
        }
        // A dictionary as large as the values themselves saves nothing.
        coded &= known.len() * 2 <= codes.len().max(2);
        dictionary = known;
    }
    let encoding = match column.plan {
        _ if coded => Encoding::RLE_DICTIONARY,
        ColumnPlan::Delta => Encoding::DELTA_BINARY_PACKED,
        _ => Encoding::PLAIN,
    };
    let mut sink = PageSink::new(column, before, out, packed, encoding, false);
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
            let signed = |bits: u64| if bytes == 4 { i64::from(bits as u32 as i32) } else { bits as i64 };
            if nulls == 0 {
                put_delta(page, part.values().iter().map(|v| signed(T::bits(*v))), bytes == 4);
            } else {
                let present: Vec<_> = part.iter().flatten().map(|v| signed(T::bits(v))).collect();
                put_delta(page, present.into_iter(), bytes == 4);
            }
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
            let low = if T::rank(min) < T::rank(low) { min } else { low };
            let high = if T::rank(max) > T::rank(high) { max } else { high };
            whole = Some((low, high));
        }
        sink.data(page, part.len(), nulls, bounds, None)?;
    }
    let whole = whole.filter(|_| bounded).map(|(min, max)| T::bounds(min, max));
    let statistics = T::statistics(whole, array.null_count() as u64);
    sink.finish(Some(statistics), folded(filter, column))
}

fn put_plain<T: Number>(page: &mut Vec<u8>, part: &PrimitiveArray<T>, bytes: usize) {
    let put = |page: &mut Vec<u8>, v| match bytes {
        4 => page.extend((T::bits(v) as u32).to_le_bytes()),
        _ => page.extend(T::bits(v).to_le_bytes()),
    };
    page.reserve(part.len() * bytes);
    match part.null_count() {
        0 => part.values().iter().for_each(|v| put(page, *v)),
        _ => part.iter().flatten().for_each(|v| put(page, v)),
    }
}

/// Smallest and largest value, NaN aside, and whether there is a NaN.
fn range<T: Number>(part: &PrimitiveArray<T>) -> (Option<(T::Native, T::Native)>, bool) {
    let mut nan = false;
    let mut range: Option<(T::Native, i64, T::Native, i64)> = None;
    let mut add = |v: T::Native| match (T::rank(v), &mut range) {
        (None, _) => nan = true,
        (Some(rank), None) => range = Some((v, rank, v, rank)),
        (Some(rank), Some((min, low, max, high))) => {
            if rank < *low {
                (*min, *low) = (v, rank);
            }
            if rank > *high {
                (*max, *high) = (v, rank);
            }
        }
    };
    match part.null_count() {
        0 => part.values().iter().for_each(|v| add(*v)),
        _ => part.iter().flatten().for_each(add),
    }
    (range.map(|(min, _, max, _)| (min, max)), nan)
}
