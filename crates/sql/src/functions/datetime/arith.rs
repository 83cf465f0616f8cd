//! Sums, differences and truncation of dates.

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ReturnFieldArgs;

use dipper_base::clock;

use super::super::args::{Args, Col, lenient_cast};
use super::super::func::{DATETIME, Def, Ret, def};
use super::parts::{times, weekday};
use super::{DAY_MICROS, EPOCH_DAY, Parts, SECOND_MICROS, day_number, in_range, month_days, split_micros};
use crate::class::TIME;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("date_add", &["adddate"], (2, 3), Ret::By(add_type), |a| add(a, 1)),
    def("date_sub", &["subdate"], (2, 3), Ret::By(add_type), |a| add(a, -1)),
    def("timestampadd", &[], (3, 3), Ret::By(timestampadd_type), timestampadd),
    def("timestampdiff", &[], (3, 3), Ret::Int, timestampdiff),
    def("years_add", &[], (2, 2), Ret::By(named_add_type), named_add),
    def("years_sub", &[], (2, 2), Ret::By(named_add_type), named_add),
    def("quarters_add", &[], (2, 2), Ret::By(named_add_type), named_add),
    def("quarters_sub", &[], (2, 2), Ret::By(named_add_type), named_add),
    def("months_add", &["add_months"], (2, 2), Ret::By(named_add_type), named_add),
    def("months_sub", &[], (2, 2), Ret::By(named_add_type), named_add),
    def("weeks_add", &[], (2, 2), Ret::By(named_add_type), named_add),
    def("weeks_sub", &[], (2, 2), Ret::By(named_add_type), named_add),
    def("days_add", &[], (2, 2), Ret::By(named_add_type), named_add),
    def("days_sub", &[], (2, 2), Ret::By(named_add_type), named_add),
    def("hours_add", &[], (2, 2), Ret::DateTime, named_add),
    def("hours_sub", &[], (2, 2), Ret::DateTime, named_add),
    def("minutes_add", &[], (2, 2), Ret::DateTime, named_add),
    def("minutes_sub", &[], (2, 2), Ret::DateTime, named_add),
    def("seconds_add", &[], (2, 2), Ret::DateTime, named_add),
    def("seconds_sub", &[], (2, 2), Ret::DateTime, named_add),
    def("milliseconds_add", &[], (2, 2), Ret::DateTime, named_add),
    def("milliseconds_sub", &[], (2, 2), Ret::DateTime, named_add),
    def("microseconds_add", &[], (2, 2), Ret::DateTime, named_add),
    def("microseconds_sub", &[], (2, 2), Ret::DateTime, named_add),
    def("years_diff", &[], (2, 2), Ret::Int, named_diff),
    def("quarters_diff", &[], (2, 2), Ret::Int, named_diff),
    def("months_diff", &[], (2, 2), Ret::Int, named_diff),
    def("weeks_diff", &[], (2, 2), Ret::Int, named_diff),
    def("days_diff", &[], (2, 2), Ret::Int, named_diff),
    def("hours_diff", &[], (2, 2), Ret::Int, named_diff),
    def("minutes_diff", &[], (2, 2), Ret::Int, named_diff),
    def("seconds_diff", &[], (2, 2), Ret::Int, named_diff),
    def("milliseconds_diff", &[], (2, 2), Ret::Int, named_diff),
    def("microseconds_diff", &[], (2, 2), Ret::Int, named_diff),
    def("datediff", &[], (2, 2), Ret::Int, datediff),
    def("timediff", &[], (2, 2), Ret::Time, timediff),
    def("addtime", &["add_time"], (2, 2), Ret::By(addtime_type), |a| addtime(a, 1)),
    def("subtime", &["sub_time"], (2, 2), Ret::By(addtime_type), |a| addtime(a, -1)),
    def("date_trunc", &[], (2, 2), Ret::By(trunc_type), date_trunc),
    def("date", &["to_date", "to_datev2", "datev2"], (1, 1), Ret::Date, date),
    def("timestamp", &["to_datetime"], (1, 2), Ret::DateTime, timestamp),
    def("from_days", &[], (1, 1), Ret::Date, from_days),
    def("makedate", &[], (2, 2), Ret::Date, makedate),
    def("maketime", &[], (3, 3), Ret::Time, maketime),
    def("period_add", &[], (2, 2), Ret::Int, period_add),
    def("period_diff", &[], (2, 2), Ret::Int, period_diff),
];

/// A unit of INTERVAL, TIMESTAMPADD and TIMESTAMPDIFF.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of months.
    Months(i64),
    /// A number of microseconds.
    Micros(i64),
    /// Several fields in one text, as in `'1:30' MINUTE_SECOND`: the microseconds of each field.
    Fields(&'static [i64]),
    /// YEAR_MONTH.
    YearMonth,
}

impl Unit {
    /// Parses the name of a unit, such as `day`, `days`, `sql_tsi_day`, `day_hour`.
    pub fn parse(name: &str) -> Option<Unit> {
        const H: i64 = 3600 * SECOND_MICROS;
        const M: i64 = 60 * SECOND_MICROS;
        const S: i64 = SECOND_MICROS;
        const D: i64 = DAY_MICROS;
        let name = name.trim().to_ascii_lowercase();
        let name = name.strip_prefix("sql_tsi_").unwrap_or(&name);
        Some(match name.strip_suffix('s').unwrap_or(name) {
            "year" => Unit::Months(12),
            "quarter" => Unit::Months(3),
            "month" => Unit::Months(1),
            "week" => Unit::Micros(7 * D),
            "day" => Unit::Micros(D),
            "hour" => Unit::Micros(H),
            "minute" => Unit::Micros(M),
            "second" => Unit::Micros(S),
            "millisecond" => Unit::Micros(1_000),
            "microsecond" | "frac_second" => Unit::Micros(1),
            "year_month" => Unit::YearMonth,
            "day_hour" => Unit::Fields(&[D, H]),
            "day_minute" => Unit::Fields(&[D, H, M]),
            "day_second" => Unit::Fields(&[D, H, M, S]),
            "day_microsecond" => Unit::Fields(&[D, H, M, S, 1]),
            "hour_minute" => Unit::Fields(&[H, M]),
            "hour_second" => Unit::Fields(&[H, M, S]),
            "hour_microsecond" => Unit::Fields(&[H, M, S, 1]),
            "minute_second" => Unit::Fields(&[M, S]),
            "minute_microsecond" => Unit::Fields(&[M, S, 1]),
            "second_microsecond" => Unit::Fields(&[S, 1]),
            _ => return None,
        })
    }

    /// Whether the unit consists of whole days or months, so that a DATE stays a DATE.
    pub fn keeps_date(self) -> bool {
        match self {
            Unit::Months(_) | Unit::YearMonth => true,
            Unit::Micros(us) => us % DAY_MICROS == 0,
            Unit::Fields(_) => false,
        }
    }
}

/// Adds months; the result is the last day of the month if the day does not exist there.
pub fn add_months(micros: i64, months: i64) -> Option<i64> {
    let mut p = split_micros(micros);
    let total = i64::from(p.year).checked_mul(12)?.checked_add(i64::from(p.month) - 1)?.checked_add(months)?;
    if !(0..10_000 * 12).contains(&total) {
        return None;
    }
    (p.year, p.month) = ((total / 12) as i32, (total % 12) as i32 + 1);
    p.day = p.day.min(month_days(p.year, p.month));
    p.to_micros()
}

pub fn add_micros(micros: i64, n: i64, each: i64) -> Option<i64> {
    in_range(micros.checked_add(n.checked_mul(each)?)?)
}

/// Returns the numbers in a text such as `-1 02:30`, each with the sign.
fn fields(text: &str) -> Vec<i64> {
    let negative = text.trim_start().starts_with('-');
    let numbers = text.split(|c: char| !c.is_ascii_digit()).filter(|p| !p.is_empty());
    numbers.map(|p| p.parse::<i64>().unwrap_or(i64::MAX) * if negative { -1 } else { 1 }).collect()
}

/// Adds a number of compound units, given as text, to a moment.
fn add_fields(micros: i64, unit: Unit, text: &str, sign: i64) -> Option<i64> {
    let values = fields(text);
    match unit {
        Unit::YearMonth => {
            let (years, months) = match values[..] {
                [y, m] => (y, m),
                [m] => (0, m),
                _ => return None,
            };
            add_months(micros, sign.checked_mul(years.checked_mul(12)?.checked_add(months)?)?)
        }
        Unit::Fields(each) => {
            if values.is_empty() || values.len() > each.len() {
                return None;
            }
            // Digits behind the point are a fraction of a second, the others whole numbers of microseconds.
            let values = match (each, text.rsplit_once('.'), values.split_last()) {
                ([.., 1], Some((_, places)), Some((last, before))) => {
                    let zeros = 6_u32.saturating_sub(places.trim_end().len() as u32);
                    [before, &[last.checked_mul(10_i64.pow(zeros))?]].concat()
                }
                _ => values,
            };
            // If fields are missing, they are the leading ones.
            let each = &each[each.len() - values.len()..];
            values
                .iter()
                .zip(each)
                .try_fold(micros, |at, (n, each)| at.checked_add(n.checked_mul(*each)?.checked_mul(sign)?))
        }
        .and_then(in_range),
        Unit::Months(_) | Unit::Micros(_) => None,
    }
}

/// The amounts to add, row by row.
enum Amount {
    Ints(Col<arrow::array::Int64Array>),
    Doubles(Col<arrow::array::Float64Array>),
    Texts(Col<arrow::array::StringViewArray>),
}

impl Amount {
    fn of(a: &Args, k: usize, unit: Unit) -> Result<Amount> {
        Ok(match unit {
            // Only seconds take a fraction: 1.5 SECOND is 1,500,000 microseconds, 1.5 DAY is 2 days.
            Unit::Micros(SECOND_MICROS) if !a.data_type(k).is_integer() => Amount::Doubles(a.double(k)?),
            Unit::Months(_) | Unit::Micros(_) => Amount::Ints(a.int(k)?),
            Unit::Fields(_) | Unit::YearMonth => Amount::Texts(a.text(k)?),
        })
    }

    fn add(&self, i: usize, micros: i64, unit: Unit, sign: i64) -> Option<i64> {
        match (self, unit) {
            (Amount::Ints(n), Unit::Months(each)) => add_months(micros, n.at(i)?.checked_mul(each)?.checked_mul(sign)?),
            (Amount::Ints(n), Unit::Micros(each)) => add_micros(micros, n.at(i)?.checked_mul(sign)?, each),
            (Amount::Doubles(n), Unit::Micros(each)) => {
                let us = (n.at(i)? * each as f64).round();
                (us.abs() < 1e18).then(|| in_range(micros + sign * us as i64)).flatten()
            }
            (Amount::Texts(text), _) => add_fields(micros, unit, text.at(i)?, sign),
            _ => None,
        }
    }
}

/// Returns the constant unit in argument `k`.
fn unit_of(a: &Args, k: usize) -> Result<Unit> {
    let text = a.text(k)?;
    let name = if text.one { text.at(0) } else { None };
    match name.and_then(Unit::parse) {
        Some(unit) => Ok(unit),
        None => exec_err!(
            "{}: expected a unit (year, quarter, month, week, day, hour, minute, second, microsecond or a compound such \
             as day_hour), found {}",
            a.name,
            name.map_or("no constant".to_owned(), |n| format!("'{n}'"))
        ),
    }
}

/// Whether argument `k` is a DATE. Texts count as DATETIME: [`super::super::rewrite_calls`] marks those that are dates.
pub fn is_date(args: &ReturnFieldArgs, k: usize) -> bool {
    args.arg_fields[k].data_type() == &DataType::Date32
}

fn date_or_datetime(date: bool) -> DataType {
    if date { DataType::Date32 } else { DATETIME }
}

pub fn scalar_unit(args: &ReturnFieldArgs, k: usize) -> Option<Unit> {
    args.scalar_arguments[k].and_then(|s| s.try_as_str().flatten()).and_then(Unit::parse)
}

fn is_time(args: &ReturnFieldArgs, k: usize) -> bool {
    matches!(args.arg_fields[k].data_type(), DataType::Time32(_) | DataType::Time64(_))
}

fn add_type(args: &ReturnFieldArgs) -> Result<DataType> {
    if is_time(args, 0) {
        // Days are added to the time of the statement's day.
        let is_moved = match args.arg_fields.len() {
            3 => !scalar_unit(args, 2).is_some_and(Unit::keeps_date),
            _ => matches!(args.arg_fields[1].data_type(), DataType::Interval(_)),
        };
        return Ok(if is_moved { TIME } else { DATETIME });
    }
    let keeps = if args.arg_fields.len() == 3 {
        scalar_unit(args, 2).is_some_and(Unit::keeps_date)
    } else {
        // The length of an interval may be known only after planning.
        !matches!(args.arg_fields[1].data_type(), DataType::Interval(_))
    };
    Ok(date_or_datetime(keeps && is_date(args, 0)))
}

fn timestampadd_type(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(date_or_datetime(scalar_unit(args, 0).is_some_and(Unit::keeps_date) && is_date(args, 2)))
}

fn named_add_type(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(date_or_datetime(is_date(args, 0)))
}

fn trunc_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let k = usize::from(scalar_unit(args, 0).is_some());
    Ok(date_or_datetime(args.arg_fields[k].data_type() == &DataType::Date32))
}

fn addtime_type(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(match args.arg_fields[0].data_type() {
        DataType::Timestamp(..) | DataType::Date32 => DATETIME,
        DataType::Time32(_) | DataType::Time64(_) => TIME,
        t if t.is_numeric() => TIME,
        // A constant is one or the other, and a column of texts may have both.
        _ => match args.scalar_arguments[0].and_then(|text| text.try_as_str().flatten()) {
            Some(text) if clock::read(text.as_bytes()).is_some() => TIME,
            _ => DataType::Utf8View,
        },
    })
}

/// Builds a column of moments, as DATE, DATETIME or TIME depending on the announced type.
pub fn moments(a: &Args, mut f: impl FnMut(usize) -> Option<i64>) -> Result<ArrayRef> {
    match a.ret {
        DataType::Date32 => a.dates(|i| f(i).map(|us| us.div_euclid(DAY_MICROS) as i32)),
        DataType::Time64(_) => a.spans(f),
        _ => a.datetimes(f),
    }
}

/// Adds intervals to TIMEs. Arrow's type of intervals has months and days, too, which a TIME cannot be moved by.
fn add_to_times(a: &Args, sign: i64) -> Result<ArrayRef> {
    let x = times(a, 0)?;
    if a.len() == 3 {
        let unit = unit_of(a, 2)?;
        let amount = Amount::of(a, 1, unit)?;
        return a.spans(|i| amount.add(i, x[i]?, unit, sign));
    }
    let raw = a.raw(1);
    let parts = lenient_cast(&raw.array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
    let by = Col { array: parts.as_primitive::<IntervalMonthDayNanoType>().clone(), one: raw.one };
    a.spans(|i| {
        let by = by.at(i)?;
        let days = i64::from(by.days).checked_mul(DAY_MICROS)?;
        (by.months == 0).then(|| x[i]?.checked_add(sign * days)?.checked_add(sign * (by.nanoseconds / 1_000))).flatten()
    })
}

fn add(a: &Args, sign: i64) -> Result<ArrayRef> {
    if a.ret == TIME {
        return add_to_times(a, sign);
    }
    let x = a.datetime(0)?;
    if a.len() == 2 && matches!(a.data_type(1), DataType::Interval(_)) {
        let raw = a.raw(1);
        let parts = lenient_cast(&raw.array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
        let by = Col { array: parts.as_primitive::<IntervalMonthDayNanoType>().clone(), one: raw.one };
        return moments(a, |i| {
            let by = by.at(i)?;
            let at = add_months(x.at(i)?, sign * i64::from(by.months))?;
            let at = add_micros(at, sign * i64::from(by.days), DAY_MICROS)?;
            in_range(at + sign * by.nanoseconds / 1_000)
        });
    }
    let unit = if a.len() == 3 { unit_of(a, 2)? } else { Unit::Micros(DAY_MICROS) };
    let amount = Amount::of(a, 1, unit)?;
    moments(a, |i| amount.add(i, x.at(i)?, unit, sign))
}

fn timestampadd(a: &Args) -> Result<ArrayRef> {
    let unit = unit_of(a, 0)?;
    let (amount, x) = (Amount::of(a, 1, unit)?, a.datetime(2)?);
    moments(a, |i| amount.add(i, x.at(i)?, unit, 1))
}

/// Returns the unit and the sign of `hours_add`, `days_sub`, `years_diff`.
fn named_unit(name: &str) -> Option<(Unit, i64)> {
    let (unit, kind) = name.split_once('_')?;
    Some((Unit::parse(unit)?, if kind == "sub" { -1 } else { 1 }))
}

/// Functions that add a number of a unit to a date, or take it away: the beginning of `days_add` and `days_sub`.
const NAMED_ADDS: [&str; 10] =
    ["years", "quarters", "months", "weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds"];

/// The unit in the name of a function such as `days_add` and `months_sub`; `None` of all other functions.
pub fn unit_of_named_add(name: &str) -> Option<&str> {
    let unit = name.strip_suffix("_add").or_else(|| name.strip_suffix("_sub"))?;
    NAMED_ADDS.contains(&unit).then_some(unit)
}

fn named_add(a: &Args) -> Result<ArrayRef> {
    let Some((unit, sign)) = named_unit(a.name) else {
        return exec_err!("{}: no unit in the name of the function", a.name);
    };
    let (x, amount) = (a.datetime(0)?, Amount::of(a, 1, unit)?);
    moments(a, |i| amount.add(i, x.at(i)?, unit, sign))
}

/// Returns the number of whole units from `from` to `to`, truncated towards zero.
pub fn difference(unit: Unit, from: i64, to: i64) -> Option<i64> {
    match unit {
        Unit::Micros(each) => Some((to - from) / each),
        Unit::Months(each) => {
            if to < from {
                return difference(unit, to, from).map(|n| -n);
            }
            let (a, b) = (split_micros(from), split_micros(to));
            let rest = |p: Parts, us: i64| (p.day, us.rem_euclid(DAY_MICROS));
            let mut months = i64::from((b.year - a.year) * 12 + b.month - a.month);
            if rest(b, to) < rest(a, from) {
                months -= 1;
            }
            Some(months / each)
        }
        Unit::Fields(_) | Unit::YearMonth => None,
    }
}

/// Returns the constant unit in argument `k`, which must not be a compound one.
pub fn simple_unit(a: &Args, k: usize) -> Result<Unit> {
    let unit = unit_of(a, k)?;
    if matches!(unit, Unit::Fields(_) | Unit::YearMonth) {
        return exec_err!("{}: expected a simple unit such as day, found a compound one", a.name);
    }
    Ok(unit)
}

fn timestampdiff(a: &Args) -> Result<ArrayRef> {
    let unit = simple_unit(a, 0)?;
    let (from, to) = (a.datetime(1)?, a.datetime(2)?);
    a.ints(|i| difference(unit, from.at(i)?, to.at(i)?))
}

fn named_diff(a: &Args) -> Result<ArrayRef> {
    let Some((unit, _)) = named_unit(a.name) else {
        return exec_err!("{}: no unit in the name of the function", a.name);
    };
    let (to, from) = (a.datetime(0)?, a.datetime(1)?);
    a.ints(|i| difference(unit, from.at(i)?, to.at(i)?))
}

fn datediff(a: &Args) -> Result<ArrayRef> {
    let (to, from) = (a.datetime(0)?, a.datetime(1)?);
    a.ints(|i| Some(to.at(i)?.div_euclid(DAY_MICROS) - from.at(i)?.div_euclid(DAY_MICROS)))
}

/// Returns moments and times in microseconds: text that contains a date is a moment, other text a TIME.
fn moment_or_time(a: &Args, k: usize) -> Result<Vec<Option<i64>>> {
    if matches!(a.data_type(k), DataType::Timestamp(..) | DataType::Date32) {
        let x = a.datetime(k)?;
        return Ok((0..a.rows).map(|i| x.at(i)).collect());
    }
    let (text, time) = (a.text(k)?, times(a, k)?);
    let has_day = |t: &str| t.trim().get(1..).is_some_and(|t| t.contains('-'));
    let moment = |i: usize| match text.at(i) {
        Some(t) if has_day(t) => super::parse::parse_datetime(t.as_bytes()),
        _ => time[i],
    };
    Ok((0..a.rows).map(moment).collect())
}

fn timediff(a: &Args) -> Result<ArrayRef> {
    let (to, from) = (moment_or_time(a, 0)?, moment_or_time(a, 1)?);
    a.spans(|i| Some(to[i]? - from[i]?))
}

fn addtime(a: &Args, sign: i64) -> Result<ArrayRef> {
    let (x, by) = (moment_or_time(a, 0)?, times(a, 1)?);
    if a.ret == DATETIME {
        return a.datetimes(|i| in_range(x[i]? + sign * by[i]?));
    }
    if a.ret == TIME {
        return a.spans(|i| Some(x[i]? + sign * by[i]?));
    }
    let text = a.text(0)?;
    a.texts(|i, out| {
        let value = x[i]? + sign * by[i]?;
        if text.at(i).is_some_and(|t| t.trim().get(1..).is_some_and(|t| t.contains('-'))) {
            super::format_datetime(out, in_range(value)?);
        } else {
            clock::write(out, clock::within(value), None);
        }
        Some(())
    })
}

fn date_trunc(a: &Args) -> Result<ArrayRef> {
    // Doris writes date_trunc(x, 'day'); PostgreSQL and DataFusion have the arguments in the other order.
    let is_unit = |k: usize| a.raw(k).one && a.text(k).is_ok_and(|t| t.at(0).and_then(Unit::parse).is_some());
    let (x, unit) = if is_unit(0) && !is_unit(1) { (1, 0) } else { (0, 1) };
    let unit = unit_of(a, unit)?;
    let x = a.datetime(x)?;
    let truncate: Box<dyn Fn(i64) -> Option<i64>> = match unit {
        Unit::Months(each) => Box::new(move |us| {
            let p = split_micros(us);
            let month = (i64::from(p.month - 1) / each * each) as i32 + 1;
            Parts { year: p.year, month, day: 1, ..Parts::default() }.to_micros()
        }),
        Unit::Micros(each) if each == 7 * DAY_MICROS => Box::new(|us| {
            let day = us.div_euclid(DAY_MICROS);
            in_range((day - weekday(day)) * DAY_MICROS)
        }),
        Unit::Micros(each) => Box::new(move |us| Some(us - us.rem_euclid(each))),
        Unit::Fields(_) | Unit::YearMonth => {
            return exec_err!("date_trunc: expected a simple unit such as day, found a compound one");
        }
    };
    moments(a, |i| truncate(x.at(i)?))
}

fn date(a: &Args) -> Result<ArrayRef> {
    let x = a.datetime(0)?;
    a.dates(|i| Some(x.at(i)?.div_euclid(DAY_MICROS) as i32))
}

fn timestamp(a: &Args) -> Result<ArrayRef> {
    let x = a.datetime(0)?;
    if !a.has(1) {
        return a.datetimes(|i| x.at(i));
    }
    let by = times(a, 1)?;
    a.datetimes(|i| in_range(x.at(i)? + by[i]?))
}

fn from_days(a: &Args) -> Result<ArrayRef> {
    let n = a.int(0)?;
    a.dates(|i| {
        let n = n.at(i).filter(|n| (1..EPOCH_DAY + 2_932_897).contains(n))?;
        // Days below 366 lie in the year 0, which has no leap day in Doris and has one in the calendar here.
        let n = if n < 60 { n - 1 } else { n };
        Some((n - EPOCH_DAY) as i32)
    })
}

fn makedate(a: &Args) -> Result<ArrayRef> {
    let (year, day) = (a.int(0)?, a.int(1)?);
    a.dates(|i| {
        let (year, day) = (year.at(i)?, day.at(i)?);
        if !(0..=9999).contains(&year) || !(1..=4_000_000).contains(&day) {
            return None;
        }
        let days = day_number(year as i32, 1, 1)? + day - 1;
        in_range(days * DAY_MICROS).map(|_| days as i32)
    })
}

fn maketime(a: &Args) -> Result<ArrayRef> {
    let (h, m, s) = (a.int(0)?, a.int(1)?, a.double(2)?);
    a.spans(|i| {
        let (h, m, s) = (h.at(i)?, m.at(i)?, s.at(i)?);
        if !(0..60).contains(&m) || !(0.0..60.0).contains(&s) {
            return None;
        }
        let h = h.clamp(-839, 839);
        let rest = m * 60 * SECOND_MICROS + (s * SECOND_MICROS as f64).round() as i64;
        let micros = h.abs() * 3600 * SECOND_MICROS + rest;
        Some(if h < 0 { -micros } else { micros })
    })
}

/// Returns the months since the year 0 of a period `YYMM` or `YYYYMM`.
fn period_months(period: i64) -> Option<i64> {
    let (year, month) = (period / 100, period % 100);
    if period <= 0 || !(1..=12).contains(&month) || year > 9999 {
        return None;
    }
    let year = if year < 100 { i64::from(super::parse::full_year(year as i32)) } else { year };
    Some(year * 12 + month - 1)
}

fn period_add(a: &Args) -> Result<ArrayRef> {
    let (period, n) = (a.int(0)?, a.int(1)?);
    a.ints(|i| {
        let months = period_months(period.at(i)?)?.checked_add(n.at(i)?)?;
        (months >= 0).then_some(months / 12 * 100 + months % 12 + 1)
    })
}

fn period_diff(a: &Args) -> Result<ArrayRef> {
    let (x, y) = (a.int(0)?, a.int(1)?);
    a.ints(|i| Some(period_months(x.at(i)?)? - period_months(y.at(i)?)?))
}

/// Moves a moment by a number of steps; `None` if there is no such moment.
pub type Steps = Box<dyn Fn(i64, i64) -> Option<i64>>;

/// Returns how the unit in argument `k` moves a moment.
///
/// # Errors
/// `Execution` if the argument is no unit, or one of several fields.
pub fn steps(a: &Args, k: usize) -> Result<Steps> {
    match simple_unit(a, k)? {
        Unit::Months(each) => Ok(Box::new(move |at, n| add_months(at, n.checked_mul(each)?))),
        Unit::Micros(each) => Ok(Box::new(move |at, n| add_micros(at, n, each))),
        Unit::Fields(_) | Unit::YearMonth => exec_err!("{}: expected a unit such as DAY", a.name),
    }
}

/// Whether argument `k` is a unit that leads from one DATE to another, and the first argument a DATE.
pub fn steps_are_days(args: &ReturnFieldArgs, k: usize) -> bool {
    is_date(args, 0) && scalar_unit(args, k).is_some_and(Unit::keeps_date)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn months_end_on_the_last_day() {
        let at = Parts { year: 2024, month: 1, day: 31, ..Parts::default() }.to_micros().unwrap();
        let p = split_micros(add_months(at, 1).unwrap());
        assert_eq!((p.year, p.month, p.day), (2024, 2, 29));
        assert_eq!(add_months(at, i64::MAX), None);
    }

    #[test]
    fn functions_that_add_a_unit_are_listed() {
        for def in DEFS {
            let unit = def.name.strip_suffix("_add").or_else(|| def.name.strip_suffix("_sub"));
            let unit = unit.filter(|unit| Unit::parse(unit).is_some());
            assert_eq!(unit_of_named_add(def.name), unit, "{}", def.name);
        }
        for unit in NAMED_ADDS {
            for name in [format!("{unit}_add"), format!("{unit}_sub")] {
                assert!(DEFS.iter().any(|def| def.name == name), "{name}");
            }
        }
        for name in ["totals_add", "bits_sub", "s_add", "day_add", "days_diff", "date_add"] {
            assert_eq!(unit_of_named_add(name), None, "{name}");
        }
    }
}
