//! The text of single values, and columns of them.

use std::fmt::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{ArrowError, DataType, TimeUnit};
use dipper_base::address::{self, is_address};

use crate::error::{ErrorKind, TextError};
use crate::hive::datetime::{two, write_date, write_timestamp};

/// The form of floating point numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Plain digits up to 16 of them, else `1.5e23`.
    Csv,
    /// Java's form: `1.0E7`, `1.5E-4`, plain in between.
    Java,
}

/// Whether [`leaf_texts`] knows the type.
pub(super) fn is_leaf(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => is_leaf(values),
        Null | Boolean | Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64 | Float32 | Float64 => true,
        Decimal32(_, scale) | Decimal64(_, scale) | Decimal128(_, scale) | Decimal256(_, scale) => *scale >= 0,
        Date32 | Date64 | Timestamp(..) | Time32(_) | Time64(_) => true,
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => true,
        _ => false,
    }
}

/// Whether values of the type are bytes that the user chose, as opposed to digits, signs and letters of a fixed form.
pub(super) fn is_free_text(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => is_free_text(values),
        Utf8 | LargeUtf8 | Utf8View => true,
        other => is_binary(other),
    }
}

/// Whether values of the type are bytes without an encoding.
pub(super) fn is_binary(data_type: &DataType) -> bool {
    use DataType::*;
    match data_type {
        Dictionary(_, values) => is_binary(values),
        other => !is_address(other) && matches!(other, Binary | LargeBinary | BinaryView | FixedSizeBinary(_)),
    }
}

/// Converts Arrow's error about an inconsistent array.
pub(super) fn broken(error: ArrowError) -> TextError {
    TextError::new(ErrorKind::BadValue, format!("cannot be read from its array: {error}"))
}

/// Callback that receives the text of a value, `None` for NULL.
pub(super) type Each<'a> = dyn FnMut(Option<&[u8]>) -> Result<(), TextError> + 'a;

/// Calls `each` with the text of every value of a leaf column, `None` for NULL. The text is valid only during the call.
pub(super) fn leaf_texts(array: &dyn Array, style: Style, each: &mut Each<'_>) -> Result<(), TextError> {
    let mut text = Vec::with_capacity(48);
    macro_rules! numbers {
        ($type:ty, |$value:ident, $out:ident| $write:expr) => {{
            let array = array.as_primitive::<$type>();
            for row in 0..array.len() {
                if array.is_null(row) {
                    each(None)?;
                    continue;
                }
                let $value = array.value(row);
                text.clear();
                let $out = &mut text;
                $write;
                each(Some(&text))?;
            }
        }};
    }
    macro_rules! bytes {
        ($array:expr) => {{
            let array = $array;
            for row in 0..array.len() {
                let value: &[u8] = if array.is_null(row) {
                    each(None)?;
                    continue;
                } else {
                    array.value(row).as_ref()
                };
                each(Some(value))?;
            }
        }};
    }
    match array.data_type() {
        DataType::Null => (0..array.len()).try_for_each(|_| each(None))?,
        DataType::Boolean => {
            let array = array.as_boolean();
            for row in 0..array.len() {
                let text: &[u8] = if array.is_null(row) {
                    each(None)?;
                    continue;
                } else if array.value(row) {
                    b"true"
                } else {
                    b"false"
                };
                each(Some(text))?;
            }
        }
        DataType::Int8 => numbers!(Int8Type, |v, out| write_int(i64::from(v), out)),
        DataType::Int16 => numbers!(Int16Type, |v, out| write_int(i64::from(v), out)),
        DataType::Int32 => numbers!(Int32Type, |v, out| write_int(i64::from(v), out)),
        DataType::Int64 => numbers!(Int64Type, |v, out| write_int(v, out)),
        DataType::UInt8 => numbers!(UInt8Type, |v, out| write_digits(u64::from(v), out)),
        DataType::UInt16 => numbers!(UInt16Type, |v, out| write_digits(u64::from(v), out)),
        DataType::UInt32 => numbers!(UInt32Type, |v, out| write_digits(u64::from(v), out)),
        DataType::UInt64 => numbers!(UInt64Type, |v, out| write_digits(v, out)),
        DataType::Float32 => {
            let mut shown = String::new();
            numbers!(Float32Type, |v, out| {
                shown.clear();
                // Writing into a string does not fail.
                let _ = write!(shown, "{v:e}");
                write_float(&shown, style, out);
            })
        }
        DataType::Float64 => {
            let mut shown = String::new();
            numbers!(Float64Type, |v, out| {
                shown.clear();
                let _ = write!(shown, "{v:e}");
                write_float(&shown, style, out);
            })
        }
        DataType::Decimal32(_, s) => numbers!(Decimal32Type, |v, out| write_decimal(v < 0, &v.unsigned_abs(), *s, out)),
        DataType::Decimal64(_, s) => numbers!(Decimal64Type, |v, out| write_decimal(v < 0, &v.unsigned_abs(), *s, out)),
        DataType::Decimal128(_, s) => {
            numbers!(Decimal128Type, |v, out| write_decimal(v < 0, &v.unsigned_abs(), *s, out))
        }
        DataType::Decimal256(_, s) => numbers!(Decimal256Type, |v, out| {
            let negative = v.is_negative();
            let shown = v.to_string();
            write_decimal(negative, &shown.trim_start_matches('-'), *s, out);
        }),
        DataType::Date32 => numbers!(Date32Type, |v, out| write_date(i64::from(v), out)),
        DataType::Date64 => numbers!(Date64Type, |v, out| write_date(v.div_euclid(86_400_000), out)),
        DataType::Timestamp(unit, zone) => {
            // A timestamp with a zone is an instant, shown in UTC.
            let suffix: &[u8] = if zone.is_some() { b"Z" } else { b"" };
            let per_second = per_second(*unit);
            macro_rules! timestamps {
                ($type:ty) => {
                    numbers!($type, |v, out| {
                        write_timestamp(v, per_second, out);
                        out.extend_from_slice(suffix);
                    })
                };
            }
            match unit {
                TimeUnit::Second => timestamps!(TimestampSecondType),
                TimeUnit::Millisecond => timestamps!(TimestampMillisecondType),
                TimeUnit::Microsecond => timestamps!(TimestampMicrosecondType),
                TimeUnit::Nanosecond => timestamps!(TimestampNanosecondType),
            }
        }
        DataType::Time32(TimeUnit::Second) => numbers!(Time32SecondType, |v, out| write_time(i64::from(v), 1, out)),
        DataType::Time32(_) => numbers!(Time32MillisecondType, |v, out| write_time(i64::from(v), 1000, out)),
        DataType::Time64(TimeUnit::Microsecond) => {
            numbers!(Time64MicrosecondType, |v, out| write_time(v, 1_000_000, out))
        }
        DataType::Time64(_) => numbers!(Time64NanosecondType, |v, out| write_time(v, 1_000_000_000, out)),
        DataType::Utf8 => bytes!(array.as_string::<i32>()),
        DataType::LargeUtf8 => bytes!(array.as_string::<i64>()),
        DataType::Utf8View => bytes!(array.as_string_view()),
        DataType::Binary => bytes!(array.as_binary::<i32>()),
        DataType::LargeBinary => bytes!(array.as_binary::<i64>()),
        DataType::BinaryView => bytes!(array.as_binary_view()),
        t if is_address(t) => {
            for value in array.as_fixed_size_binary() {
                each(value.map(address::shown).as_ref().map(String::as_bytes))?;
            }
        }
        DataType::FixedSizeBinary(_) => bytes!(array.as_fixed_size_binary()),
        DataType::Dictionary(..) => {
            let dictionary = array.as_any_dictionary();
            let values = arrow_select::take::take(dictionary.values(), dictionary.keys(), None).map_err(broken)?;
            leaf_texts(&values, style, each)?;
        }
        other => return Err(unsupported(other)),
    }
    Ok(())
}

/// Returns the children of lists of any offset width, and the end of each row's children among them. For variable
/// lists, NULL rows usually have none.
pub(super) fn list_children(array: &dyn Array) -> Result<(ArrayRef, Vec<usize>), TextError> {
    fn variable<O: arrow_array::OffsetSizeTrait>(array: &dyn Array) -> (ArrayRef, Vec<usize>) {
        let list = array.as_list::<O>();
        let offsets: Vec<usize> = list.value_offsets().iter().map(|offset| offset.as_usize()).collect();
        let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
        (list.values().slice(first, last - first), offsets[1..].iter().map(|o| o - first).collect())
    }
    Ok(match array.data_type() {
        DataType::List(_) => variable::<i32>(array),
        DataType::LargeList(_) => variable::<i64>(array),
        DataType::FixedSizeList(_, size) => {
            let size = *size as usize;
            (array.as_fixed_size_list().values().clone(), (1..=array.len()).map(|row| row * size).collect())
        }
        other => return Err(unsupported(other)),
    })
}

/// Returns the error for types that have no text.
pub(super) fn unsupported(data_type: &DataType) -> TextError {
    TextError::new(ErrorKind::Options, format!("is {data_type}, which has no text form here"))
        .with_hint("cast the column to a string")
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

#[inline]
fn write_int(value: i64, out: &mut Vec<u8>) {
    if value < 0 {
        out.push(b'-');
    }
    write_digits(value.unsigned_abs(), out);
}

#[inline]
fn write_digits(mut value: u64, out: &mut Vec<u8>) {
    let mut buffer = [0u8; 20];
    let mut at = buffer.len();
    loop {
        at -= 1;
        buffer[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&buffer[at..]);
}

/// Writes an unscaled number with all digits of its scale.
fn write_decimal(negative: bool, digits: &dyn std::fmt::Display, scale: i8, out: &mut Vec<u8>) {
    let scale = scale.max(0) as usize;
    let digits = format!("{digits}");
    let digits = format!("{digits:0>width$}", width = scale + 1);
    if negative {
        out.push(b'-');
    }
    let (whole, fraction) = digits.as_bytes().split_at(digits.len() - scale);
    out.extend_from_slice(whole);
    if scale > 0 {
        out.push(b'.');
        out.extend_from_slice(fraction);
    }
}

/// Writes a TIME, which may be negative and exceed a day.
fn write_time(ticks: i64, per_second: i64, out: &mut Vec<u8>) {
    if ticks < 0 {
        out.push(b'-');
    }
    let (ticks, hour) = (ticks.unsigned_abs(), 3600 * per_second.unsigned_abs());
    let hours = ticks / hour;
    if hours < 100 {
        two(hours as u32, out);
    } else {
        write_digits(hours, out);
    }
    let mut shown = Vec::with_capacity(32);
    write_timestamp((ticks % hour) as i64, per_second, &mut shown);
    // Without the leading `1970-01-01 00`.
    out.extend_from_slice(&shown[13..]);
}

/// Writes a float from its shortest digits in the form `-1.25e-7`; `NaN` and `inf` become Java's words, which all
/// readers know.
fn write_float(shown: &str, style: Style, out: &mut Vec<u8>) {
    let (sign, number) = match shown.strip_prefix('-') {
        Some(number) => ("-", number),
        None => ("", shown),
    };
    let Some((mantissa, exponent)) = number.split_once('e') else {
        out.extend_from_slice(if number == "NaN" { b"NaN" } else { sign.as_bytes() });
        if number != "NaN" {
            out.extend_from_slice(b"Infinity");
        }
        return;
    };
    out.extend_from_slice(sign.as_bytes());
    let exponent: i32 = exponent.parse().unwrap_or_default();
    let (first, rest) = mantissa.split_at(1);
    let rest = rest.trim_start_matches('.');
    let plain = match style {
        Style::Java => (-3..7).contains(&exponent),
        Style::Csv => (-5..16).contains(&exponent),
    };
    if !plain {
        out.extend_from_slice(first.as_bytes());
        if !rest.is_empty() || style == Style::Java {
            out.push(b'.');
            out.extend_from_slice(if rest.is_empty() { b"0" } else { rest.as_bytes() });
        }
        out.push(if style == Style::Java { b'E' } else { b'e' });
        write_int(i64::from(exponent), out);
        return;
    }
    if exponent < 0 {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + (-exponent - 1) as usize, b'0');
        out.extend_from_slice(first.as_bytes());
        out.extend_from_slice(rest.as_bytes());
        return;
    }
    out.extend_from_slice(first.as_bytes());
    let whole = (exponent as usize).min(rest.len());
    out.extend_from_slice(&rest.as_bytes()[..whole]);
    out.resize(out.len() + exponent as usize - whole, b'0');
    out.push(b'.');
    out.extend_from_slice(if whole == rest.len() { b"0" } else { &rest.as_bytes()[whole..] });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats() {
        for (value, java, csv) in [
            (0.0, "0.0", "0.0"),
            (-0.0, "-0.0", "-0.0"),
            (1.0, "1.0", "1.0"),
            (123456.5, "123456.5", "123456.5"),
            (1e6, "1000000.0", "1000000.0"),
            (1e7, "1.0E7", "10000000.0"),
            (12345678.9, "1.23456789E7", "12345678.9"),
            (0.001, "0.001", "0.001"),
            (0.0001, "1.0E-4", "0.0001"),
            (1.5e-7, "1.5E-7", "1.5e-7"),
            (1e23, "1.0E23", "1e23"),
            (f64::NAN, "NaN", "NaN"),
            (f64::NEG_INFINITY, "-Infinity", "-Infinity"),
        ] {
            for (style, expected) in [(Style::Java, java), (Style::Csv, csv)] {
                let mut out = Vec::new();
                write_float(&format!("{value:e}"), style, &mut out);
                assert_eq!(String::from_utf8(out).unwrap(), expected);
            }
        }
    }

    #[test]
    fn numbers() {
        let shown = |write: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            write(&mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(shown(&|out| write_int(i64::MIN, out)), "-9223372036854775808");
        assert_eq!(shown(&|out| write_int(0, out)), "0");
        assert_eq!(shown(&|out| write_decimal(true, &5, 2, out)), "-0.05");
        assert_eq!(shown(&|out| write_decimal(false, &12345, 0, out)), "12345");
        assert_eq!(shown(&|out| write_time(3_661_500, 1000, out)), "01:01:01.5");
        assert_eq!(shown(&|out| write_time(-90_061, 1, out)), "-25:01:01");
        assert_eq!(shown(&|out| write_time(838 * 3600, 1, out)), "838:00:00");
        assert_eq!(shown(&|out| write_time(-90_061_250, 1000, out)), "-25:01:01.25");
        assert_eq!(shown(&|out| write_time(-500_000, 1_000_000, out)), "-00:00:00.5");
    }
}
