//! `INTERVAL expr unit` where expr is not a plain number, and units that Arrow does not know.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, IntervalMonthDayNanoArray, StringViewArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};

/// The function's name.
pub const NAME: &str = "dipper_interval";

/// `dipper_interval(value, 'unit')`: an interval of `value` units. Compound units take text as in MySQL:
/// `dipper_interval('1:30', 'hour_minute')`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct MakeInterval {
    signature: Signature,
}

impl Default for MakeInterval {
    fn default() -> Self {
        MakeInterval { signature: Signature::any(2, Volatility::Immutable) }
    }
}

const SECOND: i128 = 1_000_000_000;

/// Returns an interval as clients are shown it: `1 year 2 mons 3 days 04:05:06.500000`, the parts that are not zero, each
/// with its sign; `00:00:00` if all are.
fn shown(interval: IntervalMonthDayNano) -> String {
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let part = |value: i32, one: &str, many: &str| {
        (value != 0).then(|| format!("{value} {}", if value.abs() == 1 { one } else { many }))
    };
    let mut parts: Vec<String> =
        [part(months / 12, "year", "years"), part(months % 12, "mon", "mons"), part(days, "day", "days")]
            .into_iter()
            .flatten()
            .collect();
    if nanoseconds != 0 || parts.is_empty() {
        let sign = if nanoseconds < 0 { "-" } else { "" };
        let (seconds, rest) = (nanoseconds.unsigned_abs() / 1_000_000_000, nanoseconds.unsigned_abs() % 1_000_000_000);
        let fraction = if rest == 0 { String::new() } else { format!(".{:06}", rest / 1000) };
        parts.push(format!("{sign}{:02}:{:02}:{:02}{fraction}", seconds / 3600, seconds / 60 % 60, seconds % 60));
    }
    parts.join(" ")
}

/// Returns intervals of any unit as clients are shown them.
///
/// # Errors
/// Arrow's error if `array` holds no intervals.
pub fn texts(array: &ArrayRef) -> Result<StringViewArray> {
    let intervals = arrow::compute::cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    Ok(intervals.as_primitive::<IntervalMonthDayNanoType>().iter().map(|v| v.map(shown)).collect())
}

/// Returns the months, days and nanoseconds of one simple unit.
fn unit(name: &str) -> Option<(i32, i32, i128)> {
    Some(match name {
        "year" | "years" => (12, 0, 0),
        "quarter" | "quarters" => (3, 0, 0),
        "month" | "months" => (1, 0, 0),
        "week" | "weeks" => (0, 7, 0),
        "day" | "days" => (0, 1, 0),
        "hour" | "hours" => (0, 0, 3600 * SECOND),
        "minute" | "minutes" => (0, 0, 60 * SECOND),
        "second" | "seconds" => (0, 0, SECOND),
        "millisecond" | "milliseconds" => (0, 0, 1_000_000),
        "microsecond" | "microseconds" => (0, 0, 1_000),
        _ => return None,
    })
}

/// Reads one value of one unit; `None` is NULL, for a text that is not a number or is out of range. Only seconds take a
/// fraction, other units round.
fn make(text: &str, unit_name: &str) -> Option<IntervalMonthDayNano> {
    let text = text.trim();
    if let Some((months, days, nanos)) = unit(unit_name) {
        let n: f64 = text.parse().ok()?;
        if !n.is_finite() {
            return None;
        }
        if unit_name.starts_with("second") {
            let nanos = n * SECOND as f64;
            return (nanos.abs() < i64::MAX as f64).then(|| IntervalMonthDayNano::new(0, 0, nanos.round() as i64));
        }
        let n = n.round() as i128;
        return Some(IntervalMonthDayNano::new(
            i32::try_from(n * i128::from(months)).ok()?,
            i32::try_from(n * i128::from(days)).ok()?,
            i64::try_from(n * nanos).ok()?,
        ));
    }
    // MySQL: parts are runs of digits, aligned to the right: '1:30' of DAY_SECOND is minutes and seconds.
    let (first, last) = unit_name.split_once('_')?;
    let order = ["year", "month", "day", "hour", "minute", "second", "microsecond"];
    let place = |name: &str| order.iter().position(|u| *u == name);
    let (first, last) = (place(first)?, place(last)?);
    let negative = text.starts_with('-');
    let parts: Vec<&str> = text.split(|c: char| !c.is_ascii_digit()).filter(|p| !p.is_empty()).collect();
    if parts.is_empty() || parts.len() > last.checked_sub(first)? + 1 {
        return None;
    }
    let (mut months, mut days, mut nanos) = (0i128, 0i128, 0i128);
    for (part, unit_name) in parts.iter().zip(&order[last + 1 - parts.len()..=last]) {
        let n: i128 = part.parse().ok()?;
        let (m, d, ns) = unit(unit_name)?;
        months += n * i128::from(m);
        days += n * i128::from(d);
        nanos += n * ns;
    }
    let sign = if negative { -1 } else { 1 };
    Some(IntervalMonthDayNano::new(
        i32::try_from(sign * months).ok()?,
        i32::try_from(sign * days).ok()?,
        i64::try_from(sign * nanos).ok()?,
    ))
}

/// Writes `INTERVAL 'text' unit` in units that the planner reads in a window frame, as `3 months` or `150.5 seconds`;
/// `None` if the text is no value of the unit.
pub(super) fn in_plain_units(text: &str, unit: &str) -> Option<String> {
    let IntervalMonthDayNano { months, days, nanoseconds } = make(text, unit)?;
    let part = |n: i32, name: &str| (n != 0).then(|| format!("{n} {name}"));
    let sign = if nanoseconds < 0 { "-" } else { "" };
    let (seconds, rest) = (nanoseconds.unsigned_abs() / 1_000_000_000, nanoseconds.unsigned_abs() % 1_000_000_000);
    let time = format!("{sign}{seconds}.{rest:09}");
    let time = format!("{} seconds", time.trim_end_matches('0').trim_end_matches('.'));
    let time = (nanoseconds != 0 || (months, days) == (0, 0)).then_some(time);
    Some([part(months, "months"), part(days, "days"), time].into_iter().flatten().collect::<Vec<_>>().join(" "))
}

impl ScalarUDFImpl for MakeInterval {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, ColumnarValue::Scalar(unit_name)] = args.args.as_slice() else {
            return Err(DataFusionError::Execution("INTERVAL takes a value and a unit".into()));
        };
        let unit_name = unit_name.try_as_str().flatten().unwrap_or("");
        if unit(unit_name).is_none() && make("0", unit_name).is_none() {
            return Err(DataFusionError::Execution(format!(
                "unknown unit '{unit_name}' in INTERVAL, expected YEAR, QUARTER, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND, \
                 MICROSECOND or two of them joined by '_'"
            )));
        }
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let array = value.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let texts = arrow::compute::cast(&array, &DataType::Utf8View)?;
        let intervals: IntervalMonthDayNanoArray =
            texts.as_string_view().iter().map(|t| t.and_then(|t| make(t, unit_name))).collect();
        let intervals: ArrayRef = Arc::new(intervals);
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&intervals, 0)?)
        } else {
            ColumnarValue::Array(intervals)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Clients are shown the same, see `interval` of the crate dipper-mysql.
    #[test]
    fn an_interval_shows_its_parts() {
        for ((months, days, nanoseconds), expected) in [
            ((14, 3, 4 * 3_600_000_000_000), "1 year 2 mons 3 days 04:00:00"),
            ((14, -1, 1_500_000_000), "1 year 2 mons -1 day 00:00:01.500000"),
            ((0, 0, 0), "00:00:00"),
            ((0, 5, 0), "5 days"),
            ((-1, 0, -61_000_000_000), "-1 mon -00:01:01"),
        ] {
            assert_eq!(shown(IntervalMonthDayNano::new(months, days, nanoseconds)), expected);
        }
    }

    #[test]
    fn units() {
        let of = |text, unit| make(text, unit).map(|i| (i.months, i.days, i.nanoseconds));
        assert_eq!(of("2", "quarter"), Some((6, 0, 0)));
        assert_eq!(of("-3", "day"), Some((0, -3, 0)));
        assert_eq!(of("1.5", "second"), Some((0, 0, 1_500_000_000)));
        assert_eq!(of("1:30", "hour_minute"), Some((0, 0, 5_400_000_000_000)));
        assert_eq!(of("1 2:3:4", "day_second"), Some((0, 1, 7_384_000_000_000)));
        assert_eq!(of("-1-2", "year_month"), Some((-14, 0, 0)));
        assert_eq!(of("x", "day"), None);
        assert_eq!(of("1", "fortnight"), None);
    }
}
