//! Conversion of values of a file to the type that a table has.
//!
//! Arrow's casts are used where they agree with SQL. They do not in these cases: points in time become coarser by
//! rounding down, not towards 1970; 16 bytes that become text are a UUID; 12 bytes that become an interval are months,
//! days and milliseconds, as Parquet stores them.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, IntervalMonthDayNano, IntervalMonthDayNanoType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType,
};
use arrow_array::{Array, ArrayRef, PrimitiveArray, StringArray, TimestampMicrosecondArray};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{ArrowError, DataType, IntervalUnit, TimeUnit};

/// Converts an array to another type.
///
/// # Errors
/// [`ArrowError`] if there is no conversion between the types, or if a value does not fit.
pub fn convert(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    let cast = |array: &ArrayRef| cast_with_options(array, wanted, &CastOptions { safe: false, ..Default::default() });
    match (array.data_type(), wanted) {
        (DataType::Timestamp(TimeUnit::Nanosecond, _), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            Ok(Arc::new(floored::<TimestampNanosecondType>(array, 1000).with_timezone_opt(zone.clone())))
        }
        // The number is the UTC clock time, so it stays as it is.
        (DataType::Timestamp(TimeUnit::Microsecond, _), DataType::Timestamp(TimeUnit::Microsecond, zone)) => {
            let micros = array.as_primitive::<TimestampMicrosecondType>().clone();
            Ok(Arc::new(micros.with_timezone_opt(zone.clone())))
        }
        (DataType::Timestamp(TimeUnit::Millisecond, _), DataType::Timestamp(TimeUnit::Millisecond, zone)) => {
            let millis = array.as_primitive::<TimestampMillisecondType>().clone();
            Ok(Arc::new(millis.with_timezone_opt(zone.clone())))
        }
        (DataType::FixedSizeBinary(16), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => {
            cast(&(uuids(array) as ArrayRef))
        }
        (DataType::FixedSizeBinary(12), DataType::Interval(IntervalUnit::MonthDayNano)) => Ok(intervals(array)),
        _ => cast(array),
    }
}

/// Returns whether [`convert`] supports a conversion.
pub fn can_convert(from: &DataType, to: &DataType) -> bool {
    let own = match (from, to) {
        (DataType::FixedSizeBinary(16), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) => true,
        (DataType::FixedSizeBinary(12), DataType::Interval(IntervalUnit::MonthDayNano)) => true,
        _ => from == to,
    };
    own || arrow_cast::can_cast_types(from, to)
}

/// Returns whether values keep their order when they are converted, so that their bounds stay bounds.
pub(super) fn keeps_order(from: &DataType, to: &DataType) -> bool {
    from == to
        || (from.is_numeric() && to.is_numeric())
        || matches!((from, to), (DataType::Timestamp(..), DataType::Timestamp(..)))
        || matches!(from, DataType::FixedSizeBinary(16)) && matches!(to, DataType::Utf8 | DataType::Utf8View)
}

/// Returns times as microseconds, rounded down; `of` is the number of the array's units in a microsecond.
fn floored<T: ArrowPrimitiveType<Native = i64>>(array: &ArrayRef, of: i64) -> TimestampMicrosecondArray {
    array.as_primitive::<T>().unary(|time| time.div_euclid(of))
}

fn uuids(array: &ArrayRef) -> Arc<StringArray> {
    Arc::new(array.as_fixed_size_binary().iter().map(|bytes| bytes.map(uuid_text)).collect())
}

/// Formats the 16 bytes of a UUID: `00112233-4455-6677-8899-aabbccddeeff`.
pub fn uuid_text(bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(36);
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push(char::from(HEX[usize::from(byte >> 4)]));
        text.push(char::from(HEX[usize::from(byte & 15)]));
    }
    text
}

/// Converts intervals from Parquet's form: three little-endian numbers.
fn intervals(array: &ArrayRef) -> ArrayRef {
    let read = |bytes: &[u8]| {
        let part = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        IntervalMonthDayNano::new(part(0) as i32, part(4) as i32, i64::from(part(8)) * 1_000_000)
    };
    let all = array.as_fixed_size_binary().iter().map(|bytes| bytes.map(read));
    Arc::new(all.collect::<PrimitiveArray<IntervalMonthDayNanoType>>())
}

#[cfg(test)]
mod tests {
    use arrow_array::{FixedSizeBinaryArray, TimestampNanosecondArray};

    use super::*;

    #[test]
    fn times_go_down() {
        let nanos: ArrayRef = Arc::new(TimestampNanosecondArray::from(vec![Some(-1), Some(1999), None, Some(-1000)]));
        let micros = convert(&nanos, &DataType::Timestamp(TimeUnit::Microsecond, None)).unwrap();
        assert_eq!(&*micros, &TimestampMicrosecondArray::from(vec![Some(-1), Some(1), None, Some(-1)]) as &dyn Array);
        let utc = convert(&micros, &DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))).unwrap();
        assert_eq!(utc.as_primitive::<TimestampMicrosecondType>().values()[0], -1);
    }

    #[test]
    fn bytes_become_what_they_stand_for() {
        let bytes: Vec<Option<Vec<u8>>> = vec![Some((0..16).map(|i| i * 17).collect()), None];
        let uuid: ArrayRef =
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(bytes.into_iter(), 16).unwrap());
        for text in [DataType::Utf8, DataType::Utf8View, DataType::LargeUtf8] {
            let made = convert(&uuid, &text).unwrap();
            assert!(can_convert(uuid.data_type(), &text));
            let made = convert(&made, &DataType::Utf8).unwrap();
            assert_eq!(made.as_string::<i32>().value(0), "00112233-4455-6677-8899-aabbccddeeff");
            assert!(made.is_null(1));
        }
        let months = [14u32.to_le_bytes(), 3u32.to_le_bytes(), 4000u32.to_le_bytes()].concat();
        let bytes: ArrayRef = Arc::new(FixedSizeBinaryArray::try_from_iter([months].into_iter()).unwrap());
        let made = convert(&bytes, &DataType::Interval(IntervalUnit::MonthDayNano)).unwrap();
        let made = made.as_primitive::<IntervalMonthDayNanoType>().value(0);
        assert_eq!((made.months, made.days, made.nanoseconds), (14, 3, 4_000_000_000));
    }
}
