//! RANGE frames: conversion of keys and distances to types in which every bound is exact.
//!
//! DataFusion computes a bound in the key's own type. Where that overflows, it takes the end of the rows for the bound,
//! and then rows with NULL, which are beside the least values, are in the frame. It reads a distance in the key's type,
//! so a distance with more digits is rounded, and one larger than the type means all rows. For keys of other types it
//! takes a bound that it cannot compute for the end of the rows, too. So keys and distances are converted here to a
//! type in which every bound is exact, and a key that is neither a number nor a point in time is refused.
//!
//! A key of the NULL type, which is a literal NULL or a parameter whose value is not given yet, becomes a number here,
//! or a DATETIME if a distance is an interval: NULL in all rows still, which are then peers of each other.

use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, IntervalMonthDayNano, IntervalUnit, i256,
};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, not_impl_err, plan_err};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{Expr, ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_planner::is_window_frame_bound_valid;

use super::terms::cast_to;
use crate::class::DATETIME;
use crate::type_text::Sql;

/// More months and days than lie between the first and the last day of the calendar. Nanoseconds need no limit, because
/// an interval cannot have as many.
const MONTHS: i32 = 12 * 10_000;
const DAYS: i32 = 366 * 10_000;

/// The digits that a key may have in `DECIMAL128`: the key plus twice its range still fits in 128 bits.
const DIGITS_OF_128_BITS: usize = DECIMAL128_MAX_PRECISION as usize - 1;

/// Gives the RANGE frame of a window function bounds of a type that holds them.
///
/// # Errors
/// `NotImplemented` if one bound is a number of months and the other one of days that may be longer or shorter; `Plan` if
/// the key's type has no distances, if a distance is not written in the form that the type needs or has too
/// many digits, or if the frame ends before it begins.
pub(super) fn with_exact_bounds(mut function: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let frame = &function.params.window_frame;
    let distances = [&frame.start_bound, &frame.end_bound].into_iter().filter_map(distance).map(String::from);
    let distances: Vec<String> = distances.collect();
    let ranges = frame.units == WindowFrameUnits::Range;
    let first = function.params.order_by.first().and_then(|key| key.expr.get_type(schema).ok());
    if ranges && distances.is_empty() && first.is_some_and(|t| !has_ranges(&t)) {
        function.params.window_frame.units = WindowFrameUnits::Groups;
        return Ok(Transformed::yes(Expr::WindowFunction(function)));
    }
    let (true, [key]) = (ranges, function.params.order_by.as_mut_slice()) else {
        return Ok(Transformed::no(Expr::WindowFunction(function)));
    };
    let Ok(t) = key.expr.get_type(schema) else { return Ok(Transformed::no(Expr::WindowFunction(function))) };
    let exact = match (&t, distances.is_empty()) {
        (DataType::Null, _) if distances.iter().any(|text| plain(text).is_err()) => {
            Exact { key: Some(DATETIME), bound: Box::new(interval) }
        }
        (DataType::Null, _) => Exact { key: Some(DataType::Int64), bound: Box::new(|_| Ok(None)) },
        (_, true) => return Ok(Transformed::no(Expr::WindowFunction(function))),
        (DataType::Float64, _) => Exact { key: None, bound: Box::new(float) },
        // In a FLOAT, 16777216 + 1 is 16777216.
        (DataType::Float16 | DataType::Float32, _) => Exact { key: Some(DataType::Float64), bound: Box::new(float) },
        (DataType::Date32 | DataType::Date64 | DataType::Timestamp(..), _) => {
            Exact { key: None, bound: Box::new(interval) }
        }
        _ => match digits_of(&t) {
            Some((digits, scale)) => numbers(&t, digits, scale, &distances)?,
            None => {
                return plan_err!(
                    "RANGE with a distance (PRECEDING or FOLLOWING) needs ORDER BY a number, date or datetime, and this is {}; use ROWS",
                    Sql(&t)
                );
            }
        },
    };
    if let Some(wide) = exact.key {
        key.expr = cast_to(std::mem::take(&mut key.expr), wide, schema);
    }
    let frame = &mut function.params.window_frame;
    let written = [words(&frame.start_bound), words(&frame.end_bound)];
    for bound in [&mut frame.start_bound, &mut frame.end_bound] {
        let value = distance(bound).map(&exact.bound).transpose()?.flatten();
        if let (Some(value), WindowFrameBound::Preceding(own) | WindowFrameBound::Following(own)) = (value, bound) {
            *own = value;
        }
    }
    let ends_late = match in_days(frame) {
        Some(Ends::Late) if is_window_frame_bound_valid(frame) => true,
        Some(Ends::Late | Ends::Unknown) => {
            let [start, end] = written;
            return not_impl_err!(
                "a RANGE frame BETWEEN {start} AND {end} is not supported: days and months differ in length"
            );
        }
        Some(Ends::Early) => false,
        None => is_window_frame_bound_valid(frame),
    };
    if !ends_late {
        let [start, end] = written;
        return plan_err!("the frame BETWEEN {start} AND {end} ends before it begins");
    }
    Ok(Transformed::yes(Expr::WindowFunction(function)))
}

/// Where the end of a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// Never before its beginning.
    Late,
    /// Always before its beginning.
    Early,
    /// Before its beginning in some rows, or in none.
    Unknown,
}

/// Compares the bounds of a frame of which one is a number of months and the other one of days; `None` for other frames.
/// Intervals of the two kinds cannot be compared by their parts.
fn in_days(frame: &WindowFrame) -> Option<Ends> {
    let of = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::Preceding(ScalarValue::IntervalMonthDayNano(Some(back))) => {
            let (least, most) = length(back);
            Some((back.months != 0, (-most, -least)))
        }
        WindowFrameBound::Following(ScalarValue::IntervalMonthDayNano(Some(forth))) => {
            Some((forth.months != 0, length(forth)))
        }
        _ => None,
    };
    let ((in_months, start), (also, end)) = (of(&frame.start_bound)?, of(&frame.end_bound)?);
    let ends = if start.1 <= end.0 {
        Ends::Late
    } else if start.0 > end.1 {
        Ends::Early
    } else {
        Ends::Unknown
    };
    (in_months != also).then_some(ends)
}

/// Returns the least and the most nanoseconds that an interval takes.
fn length(interval: &IntervalMonthDayNano) -> (i128, i128) {
    const DAY_NANOS: i128 = 86_400_000_000_000;
    let IntervalMonthDayNano { months, days, nanoseconds } = *interval;
    let (years, rest) = (months.unsigned_abs() / 12, months.unsigned_abs() % 12);
    // One February 29 in four years, but for most full centuries.
    let (few, many) = ((years / 4).saturating_sub(years / 100 + 1), years / 4 + 1);
    let (short, long) = MONTHS_DAYS[rest as usize];
    let least = i128::from(365 * years + few + short);
    let most = i128::from(365 * years + if years > 0 { many } else { 0 } + long);
    let (least, most) = if months < 0 { (-most, -least) } else { (least, most) };
    let other = i128::from(days) * DAY_NANOS + i128::from(nanoseconds);
    (least * DAY_NANOS + other, most * DAY_NANOS + other)
}

/// The least and the most days of 0 to 11 months.
const MONTHS_DAYS: [(u32, u32); 12] = [
    (0, 0),
    (28, 31),
    (59, 62),
    (89, 92),
    (120, 123),
    (150, 153),
    (181, 184),
    (212, 215),
    (242, 245),
    (273, 276),
    (303, 306),
    (334, 337),
];

/// Whether DataFusion takes a RANGE frame over keys of a type: it refuses others, such as addresses and STRUCTs, also
/// where no bound is a distance. Without distances the rows of the frame are those of a GROUPS frame.
fn has_ranges(t: &DataType) -> bool {
    match t {
        DataType::Dictionary(_, value) => has_ranges(value),
        DataType::Null
        | DataType::Boolean
        | DataType::Utf8
        | DataType::LargeUtf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(..)
        | DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..) => true,
        t => t.is_numeric(),
    }
}

/// Returns the distance of a bound as it is written.
fn distance(bound: &WindowFrameBound) -> Option<&str> {
    match bound {
        WindowFrameBound::Preceding(ScalarValue::Utf8(Some(text)))
        | WindowFrameBound::Following(ScalarValue::Utf8(Some(text))) => Some(text),
        _ => None,
    }
}

/// Returns a bound as a statement has it.
fn words(bound: &WindowFrameBound) -> String {
    let distance = |value: &ScalarValue| match value {
        ScalarValue::Utf8(Some(text)) if text.parse::<f64>().is_err() => format!("INTERVAL {text}"),
        ScalarValue::Utf8(Some(text)) => text.clone(),
        other if other.is_null() => "UNBOUNDED".into(),
        other => other.to_string(),
    };
    match bound {
        WindowFrameBound::Preceding(value) => format!("{} PRECEDING", distance(value)),
        WindowFrameBound::CurrentRow => "CURRENT ROW".into(),
        WindowFrameBound::Following(value) => format!("{} FOLLOWING", distance(value)),
    }
}

/// The type in which bounds of a key are exact, if it is not the key's own, and the reader of distances. A reader
/// returns `None` if the planner's own reading of the distance serves.
struct Exact {
    key: Option<DataType>,
    bound: Box<dyn Fn(&str) -> Result<Option<ScalarValue>>>,
}

/// Returns the digits before and after the point of the largest number of a type.
fn digits_of(t: &DataType) -> Option<(usize, usize)> {
    Some(match t {
        DataType::Boolean => (1, 0),
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => {
            let scale = usize::try_from(*s).ok()?;
            (usize::from(*p).saturating_sub(scale), scale)
        }
        _ => return None,
    })
}

/// Handles integers and decimals with `digits` digits before the point and at least `scale` behind it. The scale grows
/// to that of the longest distance.
fn numbers(t: &DataType, digits: usize, scale: usize, distances: &[String]) -> Result<Exact> {
    let mut scale = scale;
    for text in distances {
        scale = scale.max(plain(text)?.1.len());
    }
    let all = digits + scale;
    // No two values are further apart than this.
    let span = i256::from_i128(10).wrapping_pow(all as u32).wrapping_mul(i256::from_i128(2));
    let units = move |text: &str| -> Result<i256> {
        let (whole, fraction) = plain(text)?;
        Ok(i256::from_string(&format!("0{whole}{fraction:0<scale$}")).map_or(span, |units| units.min(span)))
    };
    if all <= 10 && scale == 0 && !matches!(t, DataType::Decimal128(..) | DataType::Decimal256(..)) {
        let bound = move |text: &str| -> Result<Option<ScalarValue>> {
            let units = units(text)?.to_i128().and_then(|units| units.try_into().ok());
            Ok(Some(ScalarValue::Int64(units)))
        };
        return Ok(Exact { key: Some(DataType::Int64), bound: Box::new(bound) });
    }
    let point = scale as i8;
    if all <= DIGITS_OF_128_BITS {
        let wide = DECIMAL128_MAX_PRECISION;
        let bound = move |text: &str| -> Result<Option<ScalarValue>> {
            Ok(Some(ScalarValue::Decimal128(units(text)?.to_i128(), wide, point)))
        };
        let is_wide = matches!(t, DataType::Decimal128(_, own) if *own == point);
        return Ok(Exact { key: (!is_wide).then_some(DataType::Decimal128(wide, point)), bound: Box::new(bound) });
    }
    let wide = DECIMAL256_MAX_PRECISION;
    if all > usize::from(wide) {
        return plan_err!(
            "a distance of RANGE has too many digits behind the point beside {t}: together there may be {wide}"
        );
    }
    let bound = move |text: &str| -> Result<Option<ScalarValue>> {
        Ok(Some(ScalarValue::Decimal256(Some(units(text)?), wide, point)))
    };
    let is_wide = matches!(t, DataType::Decimal256(_, own) if *own == point);
    Ok(Exact { key: (!is_wide).then_some(DataType::Decimal256(wide, point)), bound: Box::new(bound) })
}

/// Splits a number into its digits before and after the point, without leading and trailing zeros.
fn plain(text: &str) -> Result<(String, String)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    match whole.chars().chain(fraction.chars()).all(|c| c.is_ascii_digit())
        && text.len() > usize::from(text.contains('.'))
    {
        true => Ok((whole.trim_start_matches('0').to_string(), fraction.trim_end_matches('0').to_string())),
        false => plan_err!(
            "the distance of RANGE is '{text}', but ORDER BY is a number, beside which it is a number as well"
        ),
    }
}

/// Checks a distance for a floating-point key and leaves it to the planner.
fn float(text: &str) -> Result<Option<ScalarValue>> {
    plain(text).map(|_| None)
}

/// Reads a distance in time, clamped to the length of the calendar.
fn interval(text: &str) -> Result<Option<ScalarValue>> {
    let IntervalMonthDayNano { months, days, nanoseconds } = parts(text)?;
    let within = IntervalMonthDayNano::new(months.clamp(-MONTHS, MONTHS), days.clamp(-DAYS, DAYS), nanoseconds);
    Ok(Some(ScalarValue::IntervalMonthDayNano(Some(within))))
}

/// Reads an interval.
fn parts(text: &str) -> Result<IntervalMonthDayNano> {
    let is_number = text.parse::<f64>().is_ok();
    let value = ScalarValue::from(text).cast_to(&DataType::Interval(IntervalUnit::MonthDayNano));
    match value {
        Ok(ScalarValue::IntervalMonthDayNano(Some(value))) if !is_number => Ok(value),
        _ => plan_err!(
            "the distance of RANGE is '{text}', but ORDER BY is a date or time, beside which it is an INTERVAL, as in INTERVAL 1 DAY PRECEDING"
        ),
    }
}
