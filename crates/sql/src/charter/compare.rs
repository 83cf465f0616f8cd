//! Coercion of the two sides of a comparison.
//!
//! Text against a number compares as numbers, text against a date as dates, and anything against a boolean as numbers.
//! A value that does not convert is NULL (Doris; MySQL would take the leading digits). Text against text is binary. A
//! literal is converted at planning time, so that the column beside it stays bare for pruning.

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, i256};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, TryCast};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Expr, ExprSchemable, Operator, lit, not};
use dipper_base::address::{self, is_address};
use dipper_base::clock;

use super::datetime;
use super::terms::{binary, cast_to, int_literal};
use super::text;
use crate::class::{Class, DATETIME, TIME, by_part, meet_as_double, wide_decimal};
use crate::functions::datetime::Zone;
use crate::functions::datetime::parse::parse_time;
use crate::functions::is_bytes;

/// Builds the comparison with its sides coerced.
pub(super) fn compare(op: Operator, left: Expr, right: Expr, schema: &DFSchema) -> Result<Expr> {
    let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
    let (left, right) = (beside(left, &rt), beside(right, &lt));
    let is_safe = matches!(op, Operator::IsNotDistinctFrom | Operator::IsDistinctFrom);
    let written = is_safe.then(|| [left.clone(), right.clone()]);
    let (left, right) = sides(left, &lt, Class::of(&lt), right, &rt, Class::of(&rt), schema);
    let Some(written) = written else { return Ok(binary(left, op, right)) };
    let failed: Vec<Expr> = written.into_iter().zip([&left, &right]).filter_map(|(x, y)| fails(x, y)).collect();
    let compared = binary(left, op, right);
    Ok(failed.into_iter().fold(compared, |all, failed| match op {
        Operator::IsDistinctFrom => all.or(failed),
        _ => all.and(not(failed)),
    }))
}

/// Returns the condition that a value is not NULL, and NULL once it is converted: no value equals it, and NULL does not,
/// either. `None` if the conversion cannot fail.
fn fails(written: Expr, converted: &Expr) -> Option<Expr> {
    let never = written.is_volatile()
        || match converted {
            Expr::Literal(value, _) => !value.is_null(),
            converted => written == *converted,
        };
    (!never).then(|| written.is_not_null().and(converted.clone().is_null()))
}

/// Returns the type in which values of two columns are compared, where it is neither column's own type or Arrow would
/// choose another; `None` where the common type of both serves.
pub(crate) fn comparison_type(a: &DataType, b: &DataType) -> Option<DataType> {
    let number = |t: &DataType, c: Class| match c {
        Class::Decimal(_, s, _) => DataType::Decimal256(DECIMAL256_MAX_PRECISION, s.max(EXACT_PLACES)),
        Class::Int(_) | Class::UInt64 => DataType::Decimal256(DECIMAL256_MAX_PRECISION, EXACT_PLACES),
        _ => t.clone(),
    };
    match (Class::of(a), Class::of(b)) {
        (Class::Text, c) if c.is_number() => Some(number(&DataType::Float64, c)),
        (c, Class::Text) if c.is_number() => Some(number(&DataType::Float64, c)),
        (Class::Text, Class::Date | Class::DateTime) | (Class::Date | Class::DateTime, Class::Text) => Some(DATETIME),
        (Class::Date, Class::DateTime) | (Class::DateTime, Class::Date) => Some(DATETIME),
        (Class::Date | Class::DateTime, Class::Float | Class::Decimal(..))
        | (Class::Float | Class::Decimal(..), Class::Date | Class::DateTime) => Some(DataType::Float64),
        (Class::Date | Class::DateTime, c) if c.is_number() => Some(DATETIME),
        (c, Class::Date | Class::DateTime) if c.is_number() => Some(DATETIME),
        (Class::Text, Class::Time) | (Class::Time, Class::Text) => Some(TIME),
        (Class::Time, Class::Date | Class::DateTime) | (Class::Date | Class::DateTime, Class::Time) => Some(DATETIME),
        (Class::Time, c) | (c, Class::Time) if c.is_number() || c == Class::Boolean => Some(DataType::Float64),
        (Class::Time, Class::Time) if a != b => Some(TIME),
        (Class::Text, Class::Boolean) | (Class::Boolean, Class::Text) => Some(DataType::Boolean),
        _ if meet_as_double(a, b) => Some(DataType::Float64),
        (Class::Decimal(..), _) | (_, Class::Decimal(..)) if a != b => wide_decimal([a, b].into_iter()),
        (Class::Text, _) if is_address(b) => Some(b.clone()),
        (_, Class::Text) if is_address(a) => Some(a.clone()),
        _ if is_address(a) && is_address(b) && a != b => Some(address::IPV6),
        _ if is_bytes(a) && Class::of(b) == Class::Text => Some(DataType::BinaryView),
        _ if is_bytes(b) && Class::of(a) == Class::Text => Some(DataType::BinaryView),
        _ if a != b && a.is_nested() && b.is_nested() => nested_type(a, b),
        _ => None,
    }
}

/// Returns the type in which nested values are compared: each pair of parts in the type in which the two are compared by
/// themselves. `None` if the types do not have the same form.
fn nested_type(a: &DataType, b: &DataType) -> Option<DataType> {
    by_part(&[a, b], &mut |parts| part_type(parts[0], parts[1]))
}

/// Returns the type in which two parts of nested values are compared.
fn part_type(a: &DataType, b: &DataType) -> Option<DataType> {
    match (Class::of(a), Class::of(b)) {
        _ if a == b => Some(a.clone()),
        (Class::Null, _) => Some(b.clone()),
        (_, Class::Null) => Some(a.clone()),
        (Class::Boolean, c) if c.is_number() => type_union_resolution(&[DataType::Int8, b.clone()]),
        (c, Class::Boolean) if c.is_number() => type_union_resolution(&[DataType::Int8, a.clone()]),
        _ => comparison_type(a, b).or_else(|| type_union_resolution(&[a.clone(), b.clone()])),
    }
}

/// Places after the point to which text is read where it is compared with a whole number.
const EXACT_PLACES: i8 = 30;

fn text_literal(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(value, _) => value.try_as_str().flatten(),
        _ => None,
    }
}

/// Returns both sides as they are compared. Pairs that DataFusion's own coercion handles as well are left to it.
pub(super) fn sides(
    left: Expr,
    lt: &DataType,
    l: Class,
    right: Expr,
    rt: &DataType,
    r: Class,
    schema: &DFSchema,
) -> (Expr, Expr) {
    let swap = |(a, b): (Expr, Expr)| (b, a);
    match (l, r) {
        (Class::Text, c) if c.is_number() => text_number(left, right, rt, schema),
        (c, Class::Text) if c.is_number() => swap(text_number(right, left, lt, schema)),
        (Class::Text, Class::Date | Class::DateTime) => text_date(left, right, r, schema),
        (Class::Date | Class::DateTime, Class::Text) => swap(text_date(right, left, l, schema)),
        (Class::Text, Class::Time) => text_time(left, right, schema),
        (Class::Time, Class::Text) => swap(text_time(right, left, schema)),
        (Class::Time, Class::Date | Class::DateTime) | (Class::Date | Class::DateTime, Class::Time) => {
            (cast_to(left, DATETIME, schema), cast_to(right, DATETIME, schema))
        }
        (Class::Time, c) if c.is_number() || c == Class::Boolean => time_number(left, right, schema),
        (c, Class::Time) if c.is_number() || c == Class::Boolean => swap(time_number(right, left, schema)),
        (Class::Time, Class::Time) if lt != rt => (cast_to(left, TIME, schema), cast_to(right, TIME, schema)),
        (Class::Boolean, Class::Text) => (left, text_boolean(right, schema)),
        (Class::Text, Class::Boolean) => (text_boolean(left, schema), right),
        (Class::Boolean, c) if c.is_number() => boolean_number(left, right, schema),
        (c, Class::Boolean) if c.is_number() => swap(boolean_number(right, left, schema)),
        // A double can be larger than every decimal.
        _ if meet_as_double(lt, rt) => match (float_literal(&left, rt), float_literal(&right, lt)) {
            (Some(literal), _) => (literal, right),
            (_, Some(literal)) => (left, literal),
            _ => (cast_to(left, DataType::Float64, schema), cast_to(right, DataType::Float64, schema)),
        },
        // 20240101 is a date. A fraction is none: then the date is the number.
        (Class::Date | Class::DateTime, Class::Float | Class::Decimal(..)) => point_number(left, l, right, r, schema),
        (Class::Float | Class::Decimal(..), Class::Date | Class::DateTime) => {
            swap(point_number(right, r, left, l, schema))
        }
        (Class::Date | Class::DateTime, c) if c.is_number() => (left, cast_to(right, date_type(l), schema)),
        (c, Class::Date | Class::DateTime) if c.is_number() => (cast_to(left, date_type(r), schema), right),
        (Class::Decimal(..), _) | (_, Class::Decimal(..))
            if let Some(wide) = wide_decimal([&literal_type(&left, lt), &literal_type(&right, rt)].into_iter()) =>
        {
            (cast_to(left, wide.clone(), schema), cast_to(right, wide, schema))
        }
        (Class::Text, _) if is_address(rt) => (cast_to(left, rt.clone(), schema), right),
        (_, Class::Text) if is_address(lt) => (left, cast_to(right, lt.clone(), schema)),
        _ if is_address(lt) && is_address(rt) && lt != rt => {
            (cast_to(left, address::IPV6, schema), cast_to(right, address::IPV6, schema))
        }
        // Text is bytes, and not all bytes are text.
        (Class::Text, _) if is_bytes(rt) => (cast_to(left, DataType::BinaryView, schema), right),
        (_, Class::Text) if is_bytes(lt) => (left, cast_to(right, DataType::BinaryView, schema)),
        // DataFusion would compare doubles and decimals inside of nested values as decimals.
        _ if lt.is_nested()
            && !lt.equals_datatype(rt)
            && let Some(common) = nested_type(lt, rt) =>
        {
            (cast_to(left, common.clone(), schema), cast_to(right, common, schema))
        }
        (Class::Date, Class::DateTime) => date_datetime(left, right, schema),
        (Class::DateTime, Class::Date) => swap(date_datetime(right, left, schema)),
        _ => (left, right),
    }
}

/// Returns the FLOAT that an integer literal is, for a comparison with a number of type `t`. `None` if that is no FLOAT,
/// or FLOAT has no such number.
fn float_literal(expr: &Expr, t: &DataType) -> Option<Expr> {
    let number = int_literal(expr).filter(|_| *t == DataType::Float32)?;
    let float = number as f32;
    (float as i128 == i128::from(number)).then(|| lit(float))
}

/// Returns the decimal type with the digits of an integer literal; for other expressions their type `t`.
fn literal_type(expr: &Expr, t: &DataType) -> DataType {
    match int_literal(expr) {
        Some(n) => DataType::Decimal128(n.unsigned_abs().checked_ilog10().map_or(1, |digits| digits as u8 + 1), 0),
        None => t.clone(),
    }
}

fn date_type(class: Class) -> DataType {
    if class == Class::Date { DataType::Date32 } else { DATETIME }
}

fn null(t: &DataType) -> Expr {
    Expr::Literal(ScalarValue::try_from(t).unwrap_or(ScalarValue::Null), None)
}

/// Coerces text and a number of type `t`.
fn text_number(text: Expr, number: Expr, t: &DataType, schema: &DFSchema) -> (Expr, Expr) {
    if let Some(s) = text_literal(&text) {
        let s = s.trim();
        // The literal becomes a value of the column's own type if it fits exactly, else a decimal or a double, else it is
        // not a number.
        if let Ok(value) = ScalarValue::try_from_string(s.to_string(), t)
            && !value.is_null()
            && !matches!(t, DataType::Decimal128(..) | DataType::Decimal256(..))
            && (*t != DataType::Float32 || s.parse::<f64>().is_ok_and(|n| f64::from(n as f32) == n))
        {
            return (Expr::Literal(value, None), number);
        }
        if let Some(decimal) = decimal_literal(s, t) {
            return (decimal, number);
        }
        return match s.parse::<f64>() {
            Ok(n) => (lit(n), cast_to(number, DataType::Float64, schema)),
            Err(_) => (null(t), number),
        };
    }
    (cast_to(text, DataType::Float64, schema), cast_to(number, DataType::Float64, schema))
}

/// Reads `123.45` as a decimal literal of exactly its digits, for a comparison with a number of type `t`.
fn decimal_literal(s: &str, t: &DataType) -> Option<Expr> {
    let (sign, digits) = s.strip_prefix('-').map_or(("", s), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    let precision = u8::try_from(whole.len() + fraction.len()).ok().filter(|p| *p <= DECIMAL256_MAX_PRECISION)?;
    let value = i256::from_string(&format!("{sign}0{whole}{fraction}"))?;
    decimal(value, precision.max(1), i8::try_from(fraction.len()).ok()?, t)
}

/// Makes a decimal literal comparable with every number of type `t`; other expressions are returned as they are.
fn beside(literal: Expr, t: &DataType) -> Expr {
    let decimal = match &literal {
        Expr::Literal(ScalarValue::Decimal128(Some(value), p, s), _) => decimal(i256::from_i128(*value), *p, *s, t),
        _ => None,
    };
    decimal.unwrap_or(literal)
}

/// Returns a decimal literal for a comparison with an integer or decimal of type `t`. DataFusion compares decimals of
/// 128 bits as 128 bits, and its casts fail where both sides together need more than 38 digits: there the literal gets
/// 256 bits. `None` where 256 bits are too few as well.
fn decimal(value: i256, precision: u8, scale: i8, t: &DataType) -> Option<Expr> {
    let (p, s) = match Class::of(t) {
        Class::Decimal(p, s, _) => (i16::from(p), i16::from(s)),
        Class::Int(_) | Class::UInt64 => (20, 0),
        _ => return None,
    };
    let own = (i16::from(precision), i16::from(scale));
    let together = (own.0 - own.1).max(p - s) + own.1.max(s);
    let value = if together <= i16::from(DECIMAL128_MAX_PRECISION) {
        ScalarValue::Decimal128(Some(value.to_i128()?), precision, scale)
    } else if together <= i16::from(DECIMAL256_MAX_PRECISION) {
        ScalarValue::Decimal256(Some(value), precision, scale)
    } else {
        return None;
    };
    Some(Expr::Literal(value, None))
}

/// Coerces a date and a datetime. A constant at midnight becomes a date, so that the column beside it stays bare.
fn date_datetime(date: Expr, point: Expr, schema: &DFSchema) -> (Expr, Expr) {
    let constant = match &point {
        Expr::Literal(ScalarValue::TimestampMicrosecond(Some(micros), None), _) => {
            Some(text::Parsed { micros: *micros, is_date_only: false, is_rounded_up: false })
        }
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => {
            text_literal(expr).and_then(text::parse_datetime)
        }
        _ => None,
    };
    match constant.filter(text::Parsed::is_midnight) {
        Some(day) => (date, Expr::Literal(ScalarValue::Date32(Some(day.days())), None)),
        None => (cast_to(date, DATETIME, schema), point),
    }
}

/// Coerces text and a date or datetime.
fn text_date(text: Expr, point: Expr, class: Class, schema: &DFSchema) -> (Expr, Expr) {
    // A time with a zone has to be moved to the session's zone, which only the cast knows.
    if let Some(s) = text_literal(&text).filter(|s| !text::has_zone(s)) {
        return match text::parse_datetime(s) {
            None => (null(&date_type(class)), point),
            Some(parsed) if class == Class::Date && parsed.is_midnight() => {
                (Expr::Literal(ScalarValue::Date32(Some(parsed.days())), None), point)
            }
            Some(parsed) => {
                let literal = Expr::Literal(ScalarValue::TimestampMicrosecond(Some(parsed.micros), None), None);
                (literal, if class == Class::Date { cast_to(point, DATETIME, schema) } else { point })
            }
        };
    }
    let point = if class == Class::Date { cast_to(point, DATETIME, schema) } else { point };
    (cast_to(text, DATETIME, schema), point)
}

/// Coerces a date or datetime and a double or decimal, which compare as numbers: 2024-01-01 10:15:30.5 is
/// 20240101101530.5. A decimal is compared with all digits of both, as far as decimals have room for them.
fn point_number(point: Expr, class: Class, number: Expr, of: Class, schema: &DFSchema) -> (Expr, Expr) {
    let t = match of {
        Class::Decimal(p, s, _) => {
            let places = s.max(MICRO_PLACES);
            let digits = (i16::from(p) - i16::from(s)).max(14) + i16::from(places);
            match u8::try_from(digits) {
                Ok(digits) if digits <= DECIMAL128_MAX_PRECISION => DataType::Decimal128(digits, places),
                Ok(digits) if digits <= DECIMAL256_MAX_PRECISION => DataType::Decimal256(digits, places),
                _ => DataType::Float64,
            }
        }
        _ => DataType::Float64,
    };
    let point = match class {
        Class::Date => point,
        _ => datetime::number(cast_to(point, DATETIME, schema)),
    };
    (cast_to(point, t.clone(), schema), cast_to(number, t, schema))
}

/// Digits of a DATETIME after the second.
const MICRO_PLACES: i8 = 6;

/// Coerces text and a TIME.
fn text_time(text: Expr, time: Expr, schema: &DFSchema) -> (Expr, Expr) {
    // The time of day of a DATETIME with a zone is one in the session's zone, which only the cast knows.
    let literal = text_literal(&text).filter(|s| !text::has_zone(s)).map(|s| {
        let read = parse_time(s.as_bytes(), Zone::Fixed(0));
        Expr::Literal(ScalarValue::Time64Microsecond(read), None)
    });
    (literal.unwrap_or_else(|| cast_to(text, TIME, schema)), cast_to(time, TIME, schema))
}

/// Coerces a TIME and a number, which compare as numbers: 10:15:30 is 101530. A literal of the digits of a TIME becomes
/// one, so that the column beside it stays bare.
fn time_number(time: Expr, number: Expr, schema: &DFSchema) -> (Expr, Expr) {
    let literal = int_literal(&number).and_then(|n| clock::parse(n.to_string().as_bytes()));
    match literal {
        Some(micros) => {
            (cast_to(time, TIME, schema), Expr::Literal(ScalarValue::Time64Microsecond(Some(micros)), None))
        }
        None => (cast_to(time, DataType::Float64, schema), cast_to(number, DataType::Float64, schema)),
    }
}

/// Reads text as a boolean, like a cast does.
pub(super) fn text_boolean(text: Expr, schema: &DFSchema) -> Expr {
    match text_literal(&text) {
        Some(s) => match text::parse_boolean(s) {
            Some(b) => lit(b),
            None => null(&DataType::Boolean),
        },
        None => cast_to(text, DataType::Boolean, schema),
    }
}

/// Coerces a boolean and a number. `flag = 1` keeps the column bare; other numbers compare with the boolean's 0 or 1.
fn boolean_number(boolean: Expr, number: Expr, schema: &DFSchema) -> (Expr, Expr) {
    match int_literal(&number) {
        Some(n @ 0..=1) => (boolean, lit(n == 1)),
        _ => (cast_to(boolean, DataType::Int64, schema), number),
    }
}
