//! Single fields of a date or time: YEAR() to MICROSECOND(), weeks, names, day numbers and second numbers.

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use dipper_base::clock;

use super::super::args::{Args, to_datetime};
use super::super::func::{Def, Ret, def};
use super::parse::{parse_clock, parse_time};
use super::{
    DAY_MICROS, EPOCH_DAY, MONTHS, Parts, SECOND_MICROS, WEEKDAYS, civil, day_number, leap, month_days, split_micros,
};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("year", &[], (1, 1), Ret::Int, |a| field(a, |p| p.year.into())),
    def("century", &[], (1, 1), Ret::Int, |a| field(a, |p| ((p.year - 1) / 100 + 1).into())),
    def("week_iso", &[], (1, 1), Ret::Int, |a| days(a, |d| week(d, 3).1)),
    def("dayofweek_iso", &[], (1, 1), Ret::Int, |a| days(a, |d| weekday(d) + 1)),
    def("year_of_week", &["yow"], (1, 1), Ret::Int, |a| days(a, |d| week(d, 3).0)),
    def("quarter", &[], (1, 1), Ret::Int, |a| field(a, |p| ((p.month - 1) / 3 + 1).into())),
    def("month", &[], (1, 1), Ret::Int, |a| field(a, |p| p.month.into())),
    def("day", &["dayofmonth"], (1, 1), Ret::Int, |a| field(a, |p| p.day.into())),
    def("dayofyear", &["day_of_year", "doy"], (1, 1), Ret::Int, |a| field(a, |p| day_of_year(&p).into())),
    def("weekday", &[], (1, 1), Ret::Int, |a| days(a, weekday)),
    def("dayofweek", &["day_of_week", "dow"], (1, 1), Ret::Int, |a| days(a, |d| (d + 4).rem_euclid(7) + 1)),
    def("to_days", &[], (1, 1), Ret::Int, |a| days(a, mysql_day)),
    def("to_seconds", &[], (1, 1), Ret::Int, to_seconds),
    def("week", &[], (1, 2), Ret::Int, |a| weeks(a, |days, mode| week(days, mode).1)),
    def("weekofyear", &["week_of_year"], (1, 1), Ret::Int, |a| days(a, |d| week(d, 3).1)),
    def("yearweek", &[], (1, 2), Ret::Int, |a| {
        weeks(a, |days, mode| {
            let (year, week) = week(days, mode | 2);
            year * 100 + week
        })
    }),
    def("hour", &[], (1, 1), Ret::Int, |a| time(a, |us| us / (3600 * SECOND_MICROS))),
    def("minute", &[], (1, 1), Ret::Int, |a| time(a, |us| us / (60 * SECOND_MICROS) % 60)),
    def("second", &[], (1, 1), Ret::Int, |a| time(a, |us| us / SECOND_MICROS % 60)),
    def("microsecond", &[], (1, 1), Ret::Int, |a| time(a, |us| us % SECOND_MICROS)),
    def("time_to_sec", &[], (1, 1), Ret::Int, time_to_sec),
    def("sec_to_time", &[], (1, 1), Ret::Time, sec_to_time),
    def("time", &[], (1, 2), Ret::Time, time_value),
    def("dayname", &[], (1, 1), Ret::Text, dayname),
    def("monthname", &[], (1, 1), Ret::Text, monthname),
    def("last_day", &[], (1, 2), Ret::Date, last_day),
    def("date_part", &["datepart"], (2, 2), Ret::By(date_part_type), date_part),
];

/// Returns the weekday of a day counted from 1970-01-01; Monday is 0.
pub fn weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7)
}

/// Returns MySQL's day number: its year 0 has no leap day, so the days before March of that year have a number one
/// higher.
fn mysql_day(days: i64) -> i64 {
    let day = days + EPOCH_DAY;
    day + i64::from(day < 60)
}

/// Returns the day of the year, 1 to 366.
pub fn day_of_year(p: &Parts) -> i32 {
    (1..p.month).map(|m| month_days(p.year, m)).sum::<i32>() + p.day
}

/// Returns the year and week number of a day in one of MySQL's eight modes.
///
/// Bit 0: weeks begin on Monday, else on Sunday. Bit 1: weeks 1 to 53 with the year that they belong to, else 0 to 53.
/// Bit 2 flips the rule for week 1 between "has four days of the year" and "begins in the year".
pub fn week(days: i64, mode: i64) -> (i64, i64) {
    let monday_first = mode & 1 != 0;
    let mut of_year = mode & 2 != 0;
    let begins_in_year = (mode & 4 != 0) == monday_first;
    let (mut year, month, day) = civil(days);
    let mut first = days + 1 - i64::from(day_of_year(&Parts { year, month, day, ..Parts::default() }));
    let mut start = if monday_first { weekday(first) } else { (weekday(first) + 1) % 7 };
    let short_first = |start: i64| if begins_in_year { start != 0 } else { start >= 4 };
    let year_days = |year: i32| 365 + i64::from(leap(year));
    if month == 1 && i64::from(day) <= 7 - start {
        if !of_year && short_first(start) {
            return (i64::from(year), 0);
        }
        if short_first(start) {
            of_year = true;
            year -= 1;
            let length = year_days(year);
            first -= length;
            start = (start + 53 * 7 - length) % 7;
        }
    }
    let since = if short_first(start) { days - (first + 7 - start) } else { days - (first - start) };
    if of_year && since >= 52 * 7 {
        let next = (start + year_days(year)) % 7;
        if !short_first(next) {
            return (i64::from(year) + 1, 1);
        }
    }
    (i64::from(year), since / 7 + 1)
}

fn field(a: &Args, f: impl Fn(Parts) -> i64) -> Result<ArrayRef> {
    let x = a.datetime(0)?;
    a.ints(|i| Some(f(split_micros(x.at(i)?))))
}

fn days(a: &Args, f: impl Fn(i64) -> i64) -> Result<ArrayRef> {
    let x = a.datetime(0)?;
    a.ints(|i| Some(f(x.at(i)?.div_euclid(DAY_MICROS))))
}

fn weeks(a: &Args, f: impl Fn(i64, i64) -> i64) -> Result<ArrayRef> {
    let x = a.datetime(0)?;
    let mode = if a.has(1) { Some(a.int(1)?) } else { None };
    a.ints(|i| {
        let mode = match &mode {
            Some(mode) => mode.at(i)?,
            None => 0,
        };
        Some(f(x.at(i)?.div_euclid(DAY_MICROS), mode & 7))
    })
}

/// Returns the TIME of every row in microseconds: of text by the rules of TIME literals, else the time of day.
pub fn times(a: &Args, k: usize) -> Result<Vec<Option<i64>>> {
    let raw = a.raw(k);
    let session = a.session_zone()?;
    let values: Vec<Option<i64>> = match raw.array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
            a.text(k)?.array.iter().map(|v| parse_time(v?.as_bytes(), session)).collect()
        }
        t if t.is_numeric() => {
            let text = a.text(k)?;
            text.array.iter().map(|v| parse_time(v?.as_bytes(), session)).collect()
        }
        DataType::Time32(_) | DataType::Time64(_) => super::super::args::times(&raw.array)?.iter().collect(),
        _ => to_datetime(a.name, &raw.array, session)?.iter().map(|v| v.map(|v| v.rem_euclid(DAY_MICROS))).collect(),
    };
    Ok(if raw.one { vec![values[0]; a.rows] } else { values })
}

fn time(a: &Args, f: impl Fn(i64) -> i64) -> Result<ArrayRef> {
    let x = times(a, 0)?;
    a.ints(|i| Some(f(x[i]?.abs())))
}

fn time_to_sec(a: &Args) -> Result<ArrayRef> {
    let x = times(a, 0)?;
    a.ints(|i| Some(x[i]? / SECOND_MICROS))
}

/// TIME(x), and with a number of digits as second argument `CAST(x AS TIME(digits))`, which rounds.
fn time_value(a: &Args) -> Result<ArrayRef> {
    let is_text = matches!(a.data_type(0), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let x = match is_text && a.has(1) {
        true => {
            let text = a.text(0)?;
            (0..a.rows).map(|i| parse_clock(text.at(i)?.as_bytes())).collect()
        }
        false => times(a, 0)?,
    };
    let digits = if a.has(1) { Some(a.int(1)?) } else { None };
    a.spans(|i| match &digits {
        Some(digits) => Some(clock::rounded(x[i]?, u8::try_from(digits.at(i)?).ok()?)),
        None => x[i],
    })
}

fn sec_to_time(a: &Args) -> Result<ArrayRef> {
    let x = a.double(0)?;
    a.spans(|i| Some((x.at(i)? * SECOND_MICROS as f64).round() as i64))
}

fn to_seconds(a: &Args) -> Result<ArrayRef> {
    let x = a.datetime(0)?;
    a.ints(|i| {
        let us = x.at(i)?;
        Some(mysql_day(us.div_euclid(DAY_MICROS)) * 86_400 + us.rem_euclid(DAY_MICROS) / SECOND_MICROS)
    })
}

fn dayname(a: &Args) -> Result<ArrayRef> {
    let x = a.datetime(0)?;
    a.texts(|i, out| {
        out.push_str(WEEKDAYS[weekday(x.at(i)?.div_euclid(DAY_MICROS)) as usize]);
        Some(())
    })
}

fn monthname(a: &Args) -> Result<ArrayRef> {
    let x = a.datetime(0)?;
    a.texts(|i, out| {
        out.push_str(MONTHS[split_micros(x.at(i)?).month as usize - 1]);
        Some(())
    })
}

fn last_day(a: &Args) -> Result<ArrayRef> {
    let x = a.datetime(0)?;
    let units = a.has(1).then(|| a.text(1)).transpose()?;
    // The months that a period has: its last day is that of the last of them.
    let months = |unit: &str| match unit.trim().to_ascii_lowercase().as_str() {
        "month" => Some(1),
        "quarter" => Some(3),
        "year" => Some(12),
        _ => None,
    };
    if let Some(units) = &units
        && let Some(unit) = units.array.iter().flatten().find(|unit| months(unit).is_none())
    {
        return exec_err!("last_day: expected 'month', 'quarter' or 'year', found '{unit}'");
    }
    a.dates(|i| {
        let (year, month, _) = civil(x.at(i)?.div_euclid(DAY_MICROS));
        let months = match &units {
            Some(units) => months(units.at(i)?)?,
            None => 1,
        };
        let month = (month - 1) / months * months + months;
        Some(day_number(year, month, month_days(year, month))? as i32)
    })
}

fn date_part_type(args: &datafusion::logical_expr::ReturnFieldArgs) -> Result<DataType> {
    let unit = args.scalar_arguments[0].and_then(|s| s.try_as_str().flatten());
    Ok(match unit.map(str::to_ascii_lowercase).as_deref() {
        Some("epoch") => DataType::Float64,
        _ => DataType::Int64,
    })
}

fn day_second(p: &Parts) -> i64 {
    i64::from(p.day * 1_000_000 + p.hour * 10_000 + p.minute * 100 + p.second)
}

fn hour_second(us: i64) -> i64 {
    us / (3600 * SECOND_MICROS) * 10_000 + minute_second(us)
}

fn minute_second(us: i64) -> i64 {
    us / (60 * SECOND_MICROS) % 60 * 100 + us / SECOND_MICROS % 60
}

/// EXTRACT: `date_part('unit', x)`, with MySQL's compound units and the PostgreSQL units that DataFusion knows.
fn date_part(a: &Args) -> Result<ArrayRef> {
    let unit = a.text(0)?;
    let unit = match unit.at(0) {
        Some(u) if unit.one => u.trim().to_ascii_lowercase(),
        _ => return exec_err!("{}: the unit must be a constant such as 'year'", a.name),
    };
    let x = a.datetime(1);
    let f: fn(Parts) -> i64 = match unit.as_str() {
        "year" | "years" => |p| p.year.into(),
        "quarter" | "quarters" => |p| ((p.month - 1) / 3 + 1).into(),
        "month" | "months" => |p| p.month.into(),
        "day" | "days" => |p| p.day.into(),
        "doy" => |p| day_of_year(&p).into(),
        "year_month" => |p| (p.year * 100 + p.month).into(),
        "day_hour" => |p| (p.day * 100 + p.hour).into(),
        "day_minute" => |p| (p.day * 10_000 + p.hour * 100 + p.minute).into(),
        "day_second" => |p| day_second(&p),
        "day_microsecond" => |p| day_second(&p) * SECOND_MICROS + i64::from(p.micro),
        "week" | "weeks" => {
            let x = x?;
            return a.ints(|i| Some(week(x.at(i)?.div_euclid(DAY_MICROS), 0).1));
        }
        "dow" => {
            let x = x?;
            return a.ints(|i| Some((x.at(i)?.div_euclid(DAY_MICROS) + 4).rem_euclid(7)));
        }
        "isodow" => {
            let x = x?;
            return a.ints(|i| Some(weekday(x.at(i)?.div_euclid(DAY_MICROS)) + 1));
        }
        "epoch" => {
            let x = x?;
            return a.doubles(|i| Some(x.at(i)? as f64 / SECOND_MICROS as f64));
        }
        _ => {
            let f: fn(i64) -> i64 = match unit.as_str() {
                "hour" | "hours" => |us| us / (3600 * SECOND_MICROS),
                "minute" | "minutes" => |us| us / (60 * SECOND_MICROS) % 60,
                "second" | "seconds" => |us| us / SECOND_MICROS % 60,
                "millisecond" | "milliseconds" => |us| us / 1_000 % 60_000,
                "microsecond" | "microseconds" => |us| us % SECOND_MICROS,
                "hour_minute" => |us| us / (3600 * SECOND_MICROS) * 100 + us / (60 * SECOND_MICROS) % 60,
                "hour_second" => hour_second,
                "hour_microsecond" => |us| hour_second(us) * SECOND_MICROS + us % SECOND_MICROS,
                "minute_second" => minute_second,
                "minute_microsecond" => |us| minute_second(us) * SECOND_MICROS + us % SECOND_MICROS,
                "second_microsecond" => |us| us % (60 * SECOND_MICROS),
                _ => {
                    return exec_err!(
                        "{}: expected a unit such as year, quarter, month, week, day, hour, minute, second, found '{unit}'",
                        a.name
                    );
                }
            };
            let x = times(a, 1)?;
            return a.ints(|i| x[i].map(|us| us.signum() * f(us.abs())));
        }
    };
    let x = x?;
    a.ints(|i| Some(f(split_micros(x.at(i)?))))
}
