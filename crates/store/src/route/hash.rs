//! The hash that selects a row's bucket. Part of the format: it never changes.
//!
//! A value's hash is XXH3 (64 bits, seed 0) of its canonical bytes; NULL's is 0:
//!
//! | type | canonical bytes |
//! |---|---|
//! | BOOLEAN, integers, DECIMAL (unscaled) | 8 bytes if it fits, else 16, else 32; little-endian two's complement |
//! | DATE; DATETIME, TIME | days since 1970-01-01; microseconds: as an integer |
//! | FLOAT, DOUBLE | IEEE 754 double, little-endian; -0 is 0, every NaN is 0x7ff8000000000000 |
//! | CHAR, VARCHAR, STRING, BINARY | the bytes |
//!
//! so that equal values of any width have equal hashes. The hash of several columns is
//! `h = xxh3(rotl(h, 31) ^ hash(next))`, beginning with the first column's hash. The bucket is the upper half of the
//! 128-bit product `h * buckets`.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, i256};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use twox_hash::XxHash3_64;

use crate::key::KeyValue;

/// Bytes 8 to 24 of XXH3's secret, combined as for inputs of 4 to 8 bytes.
const FLIP: u64 = 0x1cad_21f7_2c81_017c ^ 0xdb97_9083_e96d_d4de;

/// Returns the XXH3 of the 8 bytes of an integer, as its reference describes inputs of 4 to 8 bytes. Written out
/// because the general function's dispatch costs more than the hash.
#[inline(always)]
fn hash_u64(value: u64) -> u64 {
    let keyed = value.rotate_left(32) ^ FLIP;
    let mut h = keyed ^ keyed.rotate_left(49) ^ keyed.rotate_left(24);
    h = h.wrapping_mul(0x9fb2_1c65_1e98_df25);
    h ^= (h >> 35).wrapping_add(8);
    h = h.wrapping_mul(0x9fb2_1c65_1e98_df25);
    h ^ (h >> 28)
}

#[inline]
fn hash_i128(value: i128) -> u64 {
    match i64::try_from(value) {
        Ok(v) => hash_u64(v as u64),
        Err(_) => hash_bytes(&value.to_le_bytes()),
    }
}

fn hash_i256(value: i256) -> u64 {
    match value.to_i128() {
        Some(v) => hash_i128(v),
        None => hash_bytes(&value.to_le_bytes()),
    }
}

#[inline]
fn hash_f64(value: f64) -> u64 {
    let bits = if value.is_nan() { 0x7ff8_0000_0000_0000 } else { (value + 0.0).to_bits() };
    hash_u64(bits)
}

#[inline]
fn hash_bytes(bytes: &[u8]) -> u64 {
    match <[u8; 8]>::try_from(bytes) {
        Ok(eight) => hash_u64(u64::from_le_bytes(eight)),
        Err(_) => XxHash3_64::oneshot(bytes),
    }
}

/// Combines the hash of a row's columns so far with that of the next one.
#[inline]
pub(super) fn combine(so_far: u64, next: u64) -> u64 {
    hash_u64(so_far.rotate_left(31) ^ next)
}

/// Hashes one value of a key; the result equals that of a column with the value.
pub(super) fn hash_value(value: &KeyValue<'_>) -> u64 {
    match value {
        KeyValue::Null => 0,
        KeyValue::Bool(v) => hash_u64(u64::from(*v)),
        KeyValue::Int(v) => hash_u64(*v as u64),
        KeyValue::UInt(v) => hash_i128(i128::from(*v)),
        KeyValue::Decimal(v) => hash_i128(*v),
        KeyValue::Decimal256(v) => hash_i256(*v),
        KeyValue::Str(v) => hash_bytes(v.as_bytes()),
    }
}

/// Returns the bucket of a hash.
#[inline]
pub fn bucket(hash: u64, buckets: u32) -> u32 {
    ((u128::from(hash) * u128::from(buckets)) >> 64) as u32
}

/// Returns whether values of a type have a hash.
pub fn supports(data_type: &DataType) -> bool {
    use DataType as D;
    matches!(
        data_type,
        D::Boolean
            | D::Int8
            | D::Int16
            | D::Int32
            | D::Int64
            | D::UInt64
            | D::Float32
            | D::Float64
            | D::Decimal128(..)
            | D::Decimal256(..)
            | D::Date32
            | D::Timestamp(TimeUnit::Microsecond, None)
            | D::Time64(TimeUnit::Microsecond)
            | D::Utf8View
            | D::BinaryView
            | D::FixedSizeBinary(_)
    )
}

/// Writes the hashes of the rows of some columns into `out`, which is cleared before.
///
/// # Errors
/// [`ArrowError::NotYetImplemented`] for types that [`supports`] refuses.
pub fn hash_rows(columns: &[&ArrayRef], rows: usize, out: &mut Vec<u64>) -> Result<(), ArrowError> {
    assert!(columns.iter().all(|column| column.len() == rows), "each column has a value for each row");
    out.clear();
    let mut next = Vec::new();
    for (i, column) in columns.iter().enumerate() {
        if i == 0 {
            hash_column(column, out)?;
            continue;
        }
        next.clear();
        hash_column(column, &mut next)?;
        for (h, n) in out.iter_mut().zip(&next) {
            *h = combine(*h, *n);
        }
    }
    out.resize(rows, 0);
    Ok(())
}

fn hash_column(column: &ArrayRef, out: &mut Vec<u64>) -> Result<(), ArrowError> {
    macro_rules! primitive {
        ($type:ty, $hash:expr) => {
            fill(column.as_primitive::<$type>().values(), column, out, $hash)
        };
    }
    match column.data_type() {
        DataType::Boolean => {
            let values = column.as_boolean().values();
            out.extend((0..column.len()).map(|i| if column.is_null(i) { 0 } else { hash_u64(values.value(i) as u64) }));
        }
        DataType::Int8 => primitive!(Int8Type, |v| hash_u64(i64::from(*v) as u64)),
        DataType::Int16 => primitive!(Int16Type, |v| hash_u64(i64::from(*v) as u64)),
        DataType::Int32 => primitive!(Int32Type, |v| hash_u64(i64::from(*v) as u64)),
        DataType::Int64 => primitive!(Int64Type, |v| hash_u64(*v as u64)),
        DataType::UInt64 => primitive!(UInt64Type, |v| hash_i128(i128::from(*v))),
        DataType::Float32 => primitive!(Float32Type, |v| hash_f64(f64::from(*v))),
        DataType::Float64 => primitive!(Float64Type, |v| hash_f64(*v)),
        DataType::Decimal128(..) => primitive!(Decimal128Type, |v| hash_i128(*v)),
        DataType::Decimal256(..) => primitive!(Decimal256Type, |v| hash_i256(*v)),
        DataType::Date32 => primitive!(Date32Type, |v| hash_u64(i64::from(*v) as u64)),
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            primitive!(TimestampMicrosecondType, |v| hash_u64(*v as u64));
        }
        DataType::Time64(TimeUnit::Microsecond) => primitive!(Time64MicrosecondType, |v| hash_u64(*v as u64)),
        DataType::Utf8View => {
            let values = column.as_string_view();
            let hash = |i| if values.is_null(i) { 0 } else { hash_bytes(values.value(i).as_bytes()) };
            out.extend((0..values.len()).map(hash));
        }
        DataType::BinaryView => {
            let values = column.as_binary_view();
            out.extend((0..values.len()).map(|i| if values.is_null(i) { 0 } else { hash_bytes(values.value(i)) }));
        }
        DataType::FixedSizeBinary(_) => {
            let values = column.as_fixed_size_binary();
            out.extend((0..values.len()).map(|i| if values.is_null(i) { 0 } else { hash_bytes(values.value(i)) }));
        }
        other => return Err(ArrowError::NotYetImplemented(format!("buckets by a hash of {other}"))),
    }
    Ok(())
}

fn fill<T: ArrowNativeType>(values: &[T], column: &ArrayRef, out: &mut Vec<u64>, hash: impl Fn(&T) -> u64) {
    out.extend(values.iter().map(hash));
    if let Some(nulls) = column.logical_nulls().filter(|n| n.null_count() > 0) {
        for (i, h) in out.iter_mut().enumerate() {
            if nulls.is_null(i) {
                *h = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Decimal256Array, Int8Array, Int64Array, StringViewArray};

    use super::*;

    #[test]
    fn eight_bytes_are_xxh3() {
        for v in [0u64, 1, u64::MAX, 0x0123_4567_89ab_cdef, 42] {
            assert_eq!(hash_u64(v), XxHash3_64::oneshot(&v.to_le_bytes()), "{v}");
        }
    }

    fn one(array: impl Array + 'static) -> Vec<u64> {
        let column: ArrayRef = Arc::new(array);
        let mut out = Vec::new();
        hash_rows(&[&column], column.len(), &mut out).expect("a supported type");
        out
    }

    #[test]
    fn equal_values_of_any_width_have_equal_hashes() {
        let wide = Decimal256Array::from(vec![Some(i256::from_i128(-7)), None]).with_precision_and_scale(39, 0);
        let narrow = one(Int8Array::from(vec![Some(-7), None]));
        assert_eq!(narrow, one(Int64Array::from(vec![Some(-7), None])));
        assert_eq!(narrow, one(wide.expect("39 digits")));
        assert_eq!(narrow[1], 0);
    }

    /// The hash is part of the format.
    #[test]
    fn hashes_do_not_change() {
        assert_eq!(one(Int64Array::from(vec![0, 1])), [14_374_147_212_387_527_897, 3_439_722_301_264_460_078]);
        assert_eq!(one(StringViewArray::from(vec![""])), [0x2d06_8005_38d3_94c2]);
    }

    #[test]
    fn buckets_are_in_range_and_all_used() {
        let mut seen = [0u32; 7];
        for i in 0..7000u64 {
            seen[bucket(hash_u64(i), 7) as usize] += 1;
        }
        assert!(seen.iter().all(|n| (800..1200).contains(n)), "{seen:?}");
    }
}
