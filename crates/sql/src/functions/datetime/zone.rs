//! The clock and time zones: NOW() and its relatives, CONVERT_TZ, UNIX_TIMESTAMP, FROM_UNIXTIME.
//!
//! The planner reads the clock once per statement and puts it into the plan as a constant. The session's zone is
//! `datafusion.execution.time_zone`; without one, it is UTC.

use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array};
use arrow::datatypes::DataType;
use chrono::{DateTime, LocalResult, Offset, TimeZone};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{Expr, ReturnFieldArgs, Volatility};

use super::super::args::{Args, Col};
use super::super::func::{Def, Ret, def};
use super::format::{format_moment, known_pattern};
use super::{DAY_MICROS, SECOND_MICROS, in_range};
use crate::charter::digits_of;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    clock("now", &["current_timestamp", "localtime", "localtimestamp", "sysdate"], 1, Ret::DateTime, |args, info| {
        let precision = precision(&args)?;
        Ok(datetime(cut(local_now(info)?, precision)))
    }),
    clock("utc_timestamp", &[], 1, Ret::DateTime, |args, info| {
        let precision = precision(&args)?;
        Ok(datetime(cut(utc_now(info)?, precision)))
    }),
    clock("curdate", &["current_date"], 0, Ret::Date, |_, info| Ok(date(local_now(info)?))),
    clock("utc_date", &[], 0, Ret::Date, |_, info| Ok(date(utc_now(info)?))),
    clock("curtime", &["current_time"], 1, Ret::Time, |args, info| {
        let precision = precision(&args)?;
        Ok(time(cut(local_now(info)?, precision)))
    }),
    clock("utc_time", &[], 1, Ret::Time, |args, info| {
        let precision = precision(&args)?;
        Ok(time(cut(utc_now(info)?, precision)))
    }),
    def("unix_timestamp", &[], (0, 2), Ret::By(unix_timestamp_type), unix_timestamp)
        .with_volatility(Volatility::Stable)
        .with_simplify(unix_now),
    def("from_unixtime", &[], (1, 2), Ret::By(from_unixtime_type), from_unixtime).with_volatility(Volatility::Stable),
    def("from_second", &[], (1, 1), Ret::DateTime, |a| from_epoch(a, SECOND_MICROS))
        .with_volatility(Volatility::Stable),
    def("from_millisecond", &["from_unixtime_ms"], (1, 1), Ret::DateTime, |a| from_epoch(a, 1_000))
        .with_volatility(Volatility::Stable),
    def("from_microsecond", &[], (1, 1), Ret::DateTime, |a| from_epoch(a, 1)).with_volatility(Volatility::Stable),
    def("second_timestamp", &[], (1, 1), Ret::Int, |a| to_epoch(a, SECOND_MICROS)).with_volatility(Volatility::Stable),
    def("millisecond_timestamp", &[], (1, 1), Ret::Int, |a| to_epoch(a, 1_000)).with_volatility(Volatility::Stable),
    def("microsecond_timestamp", &[], (1, 1), Ret::Int, |a| to_epoch(a, 1)).with_volatility(Volatility::Stable),
    def("convert_tz", &[], (3, 3), Ret::DateTime, convert_tz),
];

/// A time zone in one of the forms that MySQL has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Zone {
    /// Seconds east of UTC.
    Fixed(i32),
    /// A zone of the tz database.
    Named(chrono_tz::Tz),
}

impl Zone {
    /// Parses `+08:00`, `Asia/Shanghai`, `UTC`, `Z`, `CST` (China, as in Doris); `SYSTEM` is UTC.
    pub fn parse(name: &str) -> Option<Zone> {
        let name = name.trim();
        if let Some(sign @ (b'+' | b'-')) = name.as_bytes().first() {
            let (h, m) = name[1..].split_once(':')?;
            if h.is_empty() || h.len() > 2 || m.len() != 2 {
                return None;
            }
            let (h, m) = (h.parse::<u8>().ok()?, m.parse::<u8>().ok()?);
            if h > 14 || m > 59 || (h == 14 && m > 0) {
                return None;
            }
            let seconds = i32::from(h) * 3600 + i32::from(m) * 60;
            return Some(Zone::Fixed(if *sign == b'-' { -seconds } else { seconds }));
        }
        match name.to_ascii_uppercase().as_str() {
            "SYSTEM" | "UTC" | "GMT" | "Z" => Some(Zone::Fixed(0)),
            "CST" | "PRC" => Some(Zone::Named(chrono_tz::Asia::Shanghai)),
            _ => {
                let exact = name.parse::<chrono_tz::Tz>().ok();
                let near = || chrono_tz::TZ_VARIANTS.iter().find(|tz| tz.name().eq_ignore_ascii_case(name)).copied();
                exact.or_else(near).map(Zone::Named)
            }
        }
    }

    /// Returns the zone of the session; `Plan` error for an unknown name.
    pub fn of_session(config: &ConfigOptions) -> Result<Zone> {
        match &config.execution.time_zone {
            None => Ok(Zone::Fixed(0)),
            Some(name) => match Zone::parse(name) {
                Some(zone) => Ok(zone),
                None => plan_err!("time_zone: expected +HH:MM or a name such as Asia/Shanghai, found '{name}'"),
            },
        }
    }

    /// Returns the local time of an instant, both in microseconds.
    pub fn to_local(self, micros: i64) -> i64 {
        let seconds = match self {
            Zone::Fixed(seconds) => seconds,
            Zone::Named(tz) => match DateTime::from_timestamp_micros(micros) {
                Some(t) => tz.offset_from_utc_datetime(&t.naive_utc()).fix().local_minus_utc(),
                None => 0,
            },
        };
        micros + i64::from(seconds) * SECOND_MICROS
    }

    /// Returns the instant of a local time: the earlier one where clocks were put back, and the first one after the gap
    /// where the local time was skipped.
    pub fn to_utc(self, micros: i64) -> i64 {
        let tz = match self {
            Zone::Fixed(seconds) => return micros - i64::from(seconds) * SECOND_MICROS,
            Zone::Named(tz) => tz,
        };
        let Some(local) = DateTime::from_timestamp_micros(micros).map(|t| t.naive_utc()) else {
            return micros;
        };
        let offset = match tz.offset_from_local_datetime(&local) {
            LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => offset.fix().local_minus_utc(),
            LocalResult::None => {
                // Inside a gap: with the offset from before the change, the instant lies after the change; go back to
                // the change.
                let day = chrono::TimeDelta::days(1);
                let before = tz.offset_from_utc_datetime(&(local - day)).fix().local_minus_utc();
                let (mut low, mut high) = (micros - DAY_MICROS, micros + DAY_MICROS);
                while high - low > 1 {
                    let middle = low + (high - low) / 2;
                    if self.to_local(middle) - middle == i64::from(before) * SECOND_MICROS {
                        low = middle;
                    } else {
                        high = middle;
                    }
                }
                return high;
            }
        };
        micros - i64::from(offset) * SECOND_MICROS
    }
}

/// Defines a function of the clock, which planning replaces by a constant.
const fn clock(
    name: &'static str,
    aliases: &'static [&'static str],
    most: usize,
    ret: Ret,
    value: fn(Vec<Expr>, &SimplifyContext) -> Result<ExprSimplifyResult>,
) -> Def {
    def(name, aliases, (0, most), ret, not_planned).with_volatility(Volatility::Stable).with_simplify(value)
}

fn not_planned(a: &Args) -> Result<ArrayRef> {
    internal_err!("{}: the clock is read while planning, and this plan was not optimized", a.name)
}

fn constant(value: ScalarValue) -> ExprSimplifyResult {
    ExprSimplifyResult::Simplified(Expr::Literal(value, None))
}

fn datetime(micros: i64) -> ExprSimplifyResult {
    constant(ScalarValue::TimestampMicrosecond(Some(micros), None))
}

fn date(micros: i64) -> ExprSimplifyResult {
    constant(ScalarValue::Date32(Some(micros.div_euclid(DAY_MICROS) as i32)))
}

fn time(micros: i64) -> ExprSimplifyResult {
    constant(ScalarValue::Time64Microsecond(Some(micros.rem_euclid(DAY_MICROS))))
}

fn utc_now(info: &SimplifyContext) -> Result<i64> {
    match info.query_execution_start_time() {
        Some(t) => Ok(t.timestamp_micros()),
        None => internal_err!("the statement has no start time"),
    }
}

fn local_now(info: &SimplifyContext) -> Result<i64> {
    Ok(Zone::of_session(info.config_options())?.to_local(utc_now(info)?))
}

/// Returns the number of fractional digits that is asked for, 0 if none is given.
fn precision(args: &[Expr]) -> Result<u32> {
    let Some(arg) = args.first() else { return Ok(0) };
    let n = match arg {
        Expr::Literal(value, _) => value.cast_to(&DataType::Int64).ok(),
        _ => None,
    };
    match n {
        Some(ScalarValue::Int64(Some(n @ 0..=6))) => Ok(n as u32),
        _ => plan_err!("expected a precision from 0 to 6, found {}", arg.human_display()),
    }
}

fn cut(micros: i64, precision: u32) -> i64 {
    micros - micros.rem_euclid(10_i64.pow(6 - precision))
}

fn unix_now(args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
    if !args.is_empty() {
        return Ok(ExprSimplifyResult::Original(args));
    }
    Ok(constant(ScalarValue::Int64(Some(utc_now(info)?.div_euclid(SECOND_MICROS)))))
}

/// The type of seconds with a fraction: of DATETIME with digits, and of texts that have one.
const SECONDS_WITH_FRACTION: DataType = DataType::Decimal128(18, 6);

fn unix_timestamp_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let [field] = args.arg_fields else { return Ok(DataType::Int64) };
    let has_fraction = match field.data_type() {
        t if t.is_string() => match args.scalar_arguments[0].and_then(|s| s.try_as_str().flatten()) {
            Some(text) => text.contains('.'),
            None => args.scalar_arguments[0].is_none(),
        },
        DataType::Timestamp(..) => digits_of(field).is_some_and(|digits| digits > 0),
        _ => false,
    };
    Ok(if has_fraction { SECONDS_WITH_FRACTION } else { DataType::Int64 })
}

fn unix_timestamp(a: &Args) -> Result<ArrayRef> {
    if a.is_empty() {
        return not_planned(a);
    }
    let zone = Zone::of_session(a.config)?;
    // With a format, the text is read like STR_TO_DATE reads it.
    let seconds = |us: i64| zone.to_utc(us).div_euclid(SECOND_MICROS).max(0);
    if a.has(1) {
        let (text, format) = (a.text(0)?, a.text(1)?);
        return a.ints(|i| super::format::read_moment(text.at(i)?, format.at(i)?).map(seconds));
    }
    let x = a.datetime(0)?;
    if a.ret == SECONDS_WITH_FRACTION {
        let micros = (0..a.rows).map(|i| x.at(i).map(|us| i128::from(zone.to_utc(us).max(0))));
        return Ok(Arc::new(micros.collect::<Decimal128Array>().with_precision_and_scale(18, 6)?));
    }
    a.ints(|i| x.at(i).map(seconds))
}

fn from_unixtime_type(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(if args.arg_fields.len() == 2 { DataType::Utf8View } else { super::super::func::DATETIME })
}

fn from_unixtime(a: &Args) -> Result<ArrayRef> {
    let zone = Zone::of_session(a.config)?;
    let x = a.double(0)?;
    let whole = if a.data_type(0).is_integer() { Some(a.int(0)?) } else { None };
    let moment = |i: usize| {
        let us = match &whole {
            Some(n) => n.at(i)?.checked_mul(SECOND_MICROS)?,
            None => {
                let us = (x.at(i)? * SECOND_MICROS as f64).round();
                (us.abs() < 1e18).then_some(us as i64)?
            }
        };
        // MySQL's instants begin with 1970.
        (us >= 0).then(|| in_range(us)).flatten().and_then(|us| in_range(zone.to_local(us)))
    };
    if !a.has(1) {
        return a.datetimes(moment);
    }
    let format = a.text(1)?;
    a.texts(|i, out| format_moment(out, known_pattern(format.at(i).filter(|f| !f.is_empty())?), moment(i)?))
}

fn from_epoch(a: &Args, each: i64) -> Result<ArrayRef> {
    let zone = Zone::of_session(a.config)?;
    let x = a.int(0)?;
    a.datetimes(|i| {
        let us = x.at(i)?.checked_mul(each).filter(|us| *us >= 0).and_then(in_range)?;
        in_range(zone.to_local(us))
    })
}

fn to_epoch(a: &Args, each: i64) -> Result<ArrayRef> {
    let zone = Zone::of_session(a.config)?;
    let x = a.datetime(0)?;
    a.ints(|i| Some(zone.to_utc(x.at(i)?).div_euclid(each)))
}

/// The zones of a column of names; a name is parsed only when it differs from that of the row before.
struct Zones<'a> {
    names: &'a Col<arrow::array::StringViewArray>,
    last: Option<(String, Option<Zone>)>,
}

impl Zones<'_> {
    fn at(&mut self, i: usize) -> Option<Zone> {
        let name = self.names.at(i)?;
        match &self.last {
            Some((last, zone)) if last == name => *zone,
            _ => {
                let zone = Zone::parse(name);
                self.last = Some((name.to_owned(), zone));
                zone
            }
        }
    }
}

fn convert_tz(a: &Args) -> Result<ArrayRef> {
    let (x, from, to) = (a.datetime(0)?, a.text(1)?, a.text(2)?);
    let (mut from, mut to) = (Zones { names: &from, last: None }, Zones { names: &to, last: None });
    a.datetimes(|i| {
        let (us, from, to) = (x.at(i)?, from.at(i)?, to.at(i)?);
        in_range(to.to_local(from.to_utc(us)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_follow_their_changes_of_clock() {
        let at = |text: &str| super::super::parse::parse_datetime(text.as_bytes()).unwrap();
        let berlin = Zone::parse("europe/berlin").unwrap();
        assert_eq!(berlin.to_utc(at("2024-07-01 12:00:00")), at("2024-07-01 10:00:00"));
        assert_eq!(berlin.to_utc(at("2024-03-31 02:30:00")), at("2024-03-31 01:00:00"));
        assert_eq!(berlin.to_utc(at("2024-10-27 02:30:00")), at("2024-10-27 00:30:00"));
        assert_eq!(berlin.to_local(at("2024-01-01 00:00:00")), at("2024-01-01 01:00:00"));
        assert_eq!(Zone::parse("+05:30"), Some(Zone::Fixed(19_800)));
        assert_eq!(Zone::parse("+25:00"), None);
        assert_eq!(Zone::parse("Nowhere/Town"), None);
    }
}
