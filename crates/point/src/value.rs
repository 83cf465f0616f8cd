//! Values given by clients, as values of key columns.

use arrow_buffer::i256;
use dipper_base::calendar;
use dipper_base::types::SqlType;
use dipper_store::key::KeyValue;

/// A constant of a statement, or the value of a placeholder.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// A signed integer; TRUE and FALSE are 1 and 0.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A floating-point number.
    Double(f64),
    /// An exact number as text.
    Decimal(&'a str),
    /// Text.
    Text(&'a str),
    /// A date.
    Date {
        /// Year.
        year: u16,
        /// 0 to 255; not checked.
        month: u8,
        /// 0 to 255; not checked.
        day: u8,
    },
    /// A date with a time.
    DateTime {
        /// Year.
        year: u16,
        /// 0 to 255; not checked.
        month: u8,
        /// 0 to 255; not checked.
        day: u8,
        /// 0 to 255; not checked.
        hour: u8,
        /// 0 to 255; not checked.
        minute: u8,
        /// 0 to 255; not checked.
        second: u8,
        /// Microseconds; not checked.
        micros: u32,
    },
    /// Anything else.
    Other,
}

/// Result of binding the value in `column = value`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bound<'a> {
    /// Rows with this value. With [`KeyValue::Null`], no rows, except for `<=>`.
    Is(KeyValue<'a>),
    /// A value that no column of this type can have: no rows.
    Never,
    /// The SQL layer must decide how the two compare.
    Unclear,
}

/// Doubles with a smaller absolute value represent integers exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Converts a value to one of a key column of type `t`, if that does not need the rules by which values of different
/// types are compared.
pub fn bind<'a>(t: &SqlType, value: Value<'a>) -> Bound<'a> {
    if value == Value::Null {
        return Bound::Is(KeyValue::Null);
    }
    match t {
        SqlType::TinyInt => int(value, i8::MIN.into(), i8::MAX.into()),
        SqlType::SmallInt => int(value, i16::MIN.into(), i16::MAX.into()),
        SqlType::Int => int(value, i32::MIN.into(), i32::MAX.into()),
        SqlType::BigInt => int(value, i64::MIN, i64::MAX),
        SqlType::UnsignedBigInt => match value {
            Value::UInt(v) => Bound::Is(KeyValue::UInt(v)),
            Value::Int(v) => u64::try_from(v).map_or(Bound::Unclear, |v| Bound::Is(KeyValue::UInt(v))),
            _ => Bound::Unclear,
        },
        SqlType::Boolean => match value {
            Value::Int(v @ 0..=1) => Bound::Is(KeyValue::Bool(v == 1)),
            Value::UInt(v @ 0..=1) => Bound::Is(KeyValue::Bool(v == 1)),
            _ => Bound::Unclear,
        },
        SqlType::LargeInt => unscaled(value, 0).map_or(Bound::Unclear, |v| Bound::Is(KeyValue::Decimal(v))),
        SqlType::Decimal(p, s) => match (u32::try_from(*s).ok()).and_then(|s| unscaled(value, s)) {
            // A number that needs more digits than the column has is compared by the SQL layer's rules.
            Some(v) if v.unsigned_abs() >= 10u128.saturating_pow((*p).min(38).into()) => Bound::Unclear,
            Some(v) if *p <= 38 => Bound::Is(KeyValue::Decimal(v)),
            Some(v) => Bound::Is(KeyValue::Decimal256(i256::from_i128(v))),
            None => Bound::Unclear,
        },
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String => match value {
            Value::Text(v) => Bound::Is(KeyValue::Str(v)),
            _ => Bound::Unclear,
        },
        SqlType::Date => match micros(value) {
            Some(v) if v % DAY == 0 => Bound::Is(KeyValue::Int(v / DAY)),
            Some(_) => Bound::Never,
            None => Bound::Unclear,
        },
        SqlType::DateTime(_) => micros(value).map_or(Bound::Unclear, |v| Bound::Is(KeyValue::Int(v))),
        _ => Bound::Unclear,
    }
}

fn int(value: Value<'_>, least: i64, most: i64) -> Bound<'_> {
    let number = match value {
        Value::Int(v) => v,
        Value::UInt(v) => match i64::try_from(v) {
            Ok(v) => v,
            Err(_) => return Bound::Never,
        },
        // Several clients send every number as a double.
        Value::Double(v) if v.fract() == 0.0 && v.abs() < EXACT => v as i64,
        Value::Text(v) => match v.parse() {
            Ok(v) if (least..=most).contains(&v) => v,
            _ => return Bound::Unclear,
        },
        Value::Decimal(v) => match v.parse() {
            Ok(v) => v,
            Err(_) => return Bound::Unclear,
        },
        _ => return Bound::Unclear,
    };
    if (least..=most).contains(&number) { Bound::Is(KeyValue::Int(number)) } else { Bound::Never }
}

/// Returns an exact number times 10^scale, if it has at most `scale` digits behind the point.
fn unscaled(value: Value<'_>, scale: u32) -> Option<i128> {
    let text = match value {
        Value::Int(v) => return i128::from(v).checked_mul(10i128.checked_pow(scale)?),
        Value::UInt(v) => return i128::from(v).checked_mul(10i128.checked_pow(scale)?),
        Value::Decimal(text) | Value::Text(text) => text,
        _ => return None,
    };
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let fraction = fraction.trim_end_matches('0');
    if whole.is_empty() || fraction.len() > scale as usize {
        return None;
    }
    let mut number: i128 = 0;
    for b in whole.bytes().chain(fraction.bytes()) {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        // Accumulated downwards: the smallest LARGEINT has no positive counterpart.
        number = number.checked_mul(10)?.checked_sub(digit.into())?;
    }
    let number = number.checked_mul(10i128.checked_pow(scale - fraction.len() as u32)?)?;
    if negative { Some(number) } else { number.checked_neg() }
}

const DAY: i64 = 86_400_000_000;

fn valid_days(year: i64, month: i64, day: i64) -> Option<i64> {
    let (month, day) = (u32::try_from(month).ok()?, u32::try_from(day).ok()?);
    (0..=9999).contains(&year).then(|| calendar::day_number(year, month, day))?
}

/// Returns microseconds since 1970 of a date or datetime in the protocol's form or in its complete text form.
fn micros(value: Value<'_>) -> Option<i64> {
    let at = |days: i64, hour: i64, minute: i64, second: i64, micros: i64| {
        (hour < 24 && minute < 60 && second < 60 && micros < 1_000_000)
            .then(|| days * DAY + ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros)
    };
    match value {
        Value::Date { year, month, day } => Some(valid_days(year.into(), month.into(), day.into())? * DAY),
        Value::DateTime { year, month, day, hour, minute, second, micros } => {
            let days = valid_days(year.into(), month.into(), day.into())?;
            at(days, hour.into(), minute.into(), second.into(), micros.into())
        }
        Value::Text(text) => {
            let text = text.as_bytes();
            let number = |range: std::ops::Range<usize>| {
                text.get(range)?.iter().try_fold(0i64, |n, b| b.is_ascii_digit().then(|| n * 10 + i64::from(b - b'0')))
            };
            let is = |i: usize, b: u8| text.get(i) == Some(&b);
            if !is(4, b'-') || !is(7, b'-') {
                return None;
            }
            let days = valid_days(number(0..4)?, number(5..7)?, number(8..10)?)?;
            if text.len() == 10 {
                return Some(days * DAY);
            }
            if !is(10, b' ') || !is(13, b':') || !is(16, b':') {
                return None;
            }
            let fraction = match text.len() {
                19 => 0,
                len @ 21..=26 if is(19, b'.') => number(20..len)? * 10i64.pow(26 - len as u32),
                _ => return None,
            };
            at(days, number(11..13)?, number(14..16)?, number(17..19)?, fraction)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(v: KeyValue<'_>) -> Bound<'_> {
        Bound::Is(v)
    }

    #[test]
    fn integers() {
        let t = SqlType::TinyInt;
        for v in [Value::Int(-7), Value::Double(-7.0), Value::Text("-7"), Value::Decimal("-7")] {
            assert_eq!(bind(&t, v), is(KeyValue::Int(-7)), "{v:?}");
        }
        assert_eq!(bind(&t, Value::Int(128)), Bound::Never);
        assert_eq!(bind(&t, Value::UInt(u64::MAX)), Bound::Never);
        for v in [Value::Double(1.5), Value::Text("7x"), Value::Text(" 7"), Value::Decimal("7.0"), Value::Text("300")] {
            assert_eq!(bind(&t, v), Bound::Unclear, "{v:?}");
        }
        assert_eq!(bind(&SqlType::BigInt, Value::Double(EXACT)), Bound::Unclear);
        assert_eq!(bind(&SqlType::UnsignedBigInt, Value::UInt(u64::MAX)), is(KeyValue::UInt(u64::MAX)));
        assert_eq!(bind(&SqlType::Int, Value::Null), is(KeyValue::Null));
        assert_eq!(bind(&SqlType::Boolean, Value::Int(1)), is(KeyValue::Bool(true)));
        assert_eq!(bind(&SqlType::Boolean, Value::Int(2)), Bound::Unclear);
    }

    #[test]
    fn exact_numbers() {
        let t = SqlType::Decimal(10, 2);
        for v in [Value::Decimal("-1.5"), Value::Text("-1.50"), Value::Decimal("-1.5000")] {
            assert_eq!(bind(&t, v), is(KeyValue::Decimal(-150)), "{v:?}");
        }
        assert_eq!(bind(&t, Value::Int(3)), is(KeyValue::Decimal(300)));
        for v in [Value::Decimal("1.505"), Value::Text("1.5e0"), Value::Text(".5"), Value::Double(1.5)] {
            assert_eq!(bind(&t, v), Bound::Unclear, "{v:?}");
        }
        assert_eq!(bind(&t, Value::Int(1_000_000_000)), Bound::Unclear);
        let largest = i128::MAX.to_string();
        let least = i128::MIN.to_string();
        assert_eq!(bind(&SqlType::LargeInt, Value::Decimal(&largest)), is(KeyValue::Decimal(i128::MAX)));
        assert_eq!(bind(&SqlType::LargeInt, Value::Text(&least)), is(KeyValue::Decimal(i128::MIN)));
        let wide = SqlType::Decimal(60, 1);
        assert_eq!(bind(&wide, Value::Int(2)), is(KeyValue::Decimal256(i256::from_i128(20))));
    }

    #[test]
    fn dates_and_times() {
        let t = SqlType::DateTime(3);
        let noon = KeyValue::Int(1_704_110_400_250_000);
        assert_eq!(bind(&t, Value::Text("2024-01-01 12:00:00.25")), is(noon));
        let v = Value::DateTime { year: 2024, month: 1, day: 1, hour: 12, minute: 0, second: 0, micros: 250_000 };
        assert_eq!(bind(&t, v), is(noon));
        assert_eq!(bind(&SqlType::Date, v), Bound::Never);
        assert_eq!(bind(&SqlType::Date, Value::Text("2024-01-01")), is(KeyValue::Int(19_723)));
        assert_eq!(bind(&SqlType::Date, Value::Text("2024-01-01 00:00:00")), is(KeyValue::Int(19_723)));
        assert_eq!(bind(&SqlType::Date, Value::Date { year: 1969, month: 12, day: 31 }), is(KeyValue::Int(-1)));
        for v in ["2024-1-1", "2024-02-30", "0000-00-00", "2024-01-01T00:00:00", "2024-01-01 24:00:00", "20240101"] {
            assert_eq!(bind(&t, Value::Text(v)), Bound::Unclear, "{v}");
        }
    }

    #[test]
    fn text_is_taken_as_it_is() {
        let t = SqlType::Varchar(Some(3));
        assert_eq!(bind(&t, Value::Text("abc  ")), is(KeyValue::Str("abc  ")));
        assert_eq!(bind(&t, Value::Int(1)), Bound::Unclear);
        assert_eq!(bind(&SqlType::Time(0), Value::Text("00:00:00")), Bound::Unclear);
    }
}
