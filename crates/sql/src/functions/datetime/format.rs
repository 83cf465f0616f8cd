//! DATE_FORMAT, TIME_FORMAT and STR_TO_DATE.

use std::fmt::Write;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::ReturnFieldArgs;

use super::super::args::Args;
use super::super::func::{DATETIME, Def, Ret, def};
use super::parse::full_year;
use super::parts::{day_of_year, times, week, weekday};
use super::{DAY_MICROS, MONTHS, Parts, SECOND_MICROS, WEEKDAYS, day_number, in_range, split_micros};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("date_format", &[], (2, 2), Ret::Text, date_format),
    def("time_format", &[], (2, 2), Ret::Text, time_format),
    def("str_to_date", &[], (2, 2), Ret::By(str_to_date_type), str_to_date),
    def("str2date", &[], (2, 2), Ret::Date, str_to_date),
    def("str_to_datetime", &[], (2, 2), Ret::DateTime, str_to_date),
];

/// Translates the three Java patterns that Doris accepts in place of `%` specifiers; other formats are returned as they
/// are.
pub fn known_pattern(format: &str) -> &str {
    match format {
        "yyyyMMdd" => "%Y%m%d",
        "yyyy-MM-dd" => "%Y-%m-%d",
        "yyyy-MM-dd HH:mm:ss" => "%Y-%m-%d %H:%i:%s",
        other => other,
    }
}

fn ordinal(day: i32) -> &'static str {
    match (day % 10, day % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    }
}

/// Appends a moment in a MySQL format; `hours` may be above 23 for a TIME. `None` if a date is needed and missing.
fn write_format(out: &mut String, format: &str, p: &Parts, days: Option<i64>, hours: i64) -> Option<()> {
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        let Some(spec) = rest.chars().next() else {
            out.push('%');
            break;
        };
        rest = &rest[spec.len_utf8()..];
        let twelve = (hours + 11) % 12 + 1;
        let half = if hours % 24 < 12 { "AM" } else { "PM" };
        let _ = match spec {
            'f' => write!(out, "{:06}", p.micro),
            'H' => write!(out, "{hours:02}"),
            'h' | 'I' => write!(out, "{twelve:02}"),
            'i' => write!(out, "{:02}", p.minute),
            'k' => write!(out, "{hours}"),
            'l' => write!(out, "{twelve}"),
            'p' => write!(out, "{half}"),
            'r' => write!(out, "{twelve:02}:{:02}:{:02} {half}", p.minute, p.second),
            'S' | 's' => write!(out, "{:02}", p.second),
            'T' => write!(out, "{hours:02}:{:02}:{:02}", p.minute, p.second),
            'a' => write!(out, "{}", &WEEKDAYS[weekday(days?) as usize][..3]),
            'W' => write!(out, "{}", WEEKDAYS[weekday(days?) as usize]),
            'w' => write!(out, "{}", (weekday(days?) + 1) % 7),
            'b' => days.and(write!(out, "{}", &MONTHS[p.month as usize - 1][..3]).into())?,
            'M' => days.and(write!(out, "{}", MONTHS[p.month as usize - 1]).into())?,
            'c' => days.and(write!(out, "{}", p.month).into())?,
            'm' => days.and(write!(out, "{:02}", p.month).into())?,
            'D' => days.and(write!(out, "{}{}", p.day, ordinal(p.day)).into())?,
            'd' => days.and(write!(out, "{:02}", p.day).into())?,
            'e' => days.and(write!(out, "{}", p.day).into())?,
            'j' => days.and(write!(out, "{:03}", day_of_year(p)).into())?,
            'Y' => days.and(write!(out, "{:04}", p.year).into())?,
            'y' => days.and(write!(out, "{:02}", p.year % 100).into())?,
            'U' => write!(out, "{:02}", week(days?, 0).1),
            'u' => write!(out, "{:02}", week(days?, 1).1),
            'V' => write!(out, "{:02}", week(days?, 2).1),
            'v' => write!(out, "{:02}", week(days?, 3).1),
            'X' => write!(out, "{:04}", week(days?, 2).0),
            'x' => write!(out, "{:04}", week(days?, 3).0),
            other => {
                out.push(other);
                Ok(())
            }
        };
    }
    out.push_str(rest);
    Some(())
}

/// Appends a DATETIME, given in microseconds, in a MySQL format.
pub fn format_moment(out: &mut String, format: &str, micros: i64) -> Option<()> {
    let p = split_micros(micros);
    write_format(out, format, &p, Some(micros.div_euclid(DAY_MICROS)), p.hour.into())
}

fn date_format(a: &Args) -> Result<ArrayRef> {
    if matches!(a.data_type(0), DataType::Time32(_) | DataType::Time64(_)) {
        return time_format(a);
    }
    let (x, format) = (a.datetime(0)?, a.text(1)?);
    a.texts(|i, out| {
        // An empty format gives NULL, in MySQL as in Doris.
        let format = format.at(i).filter(|f| !f.is_empty())?;
        format_moment(out, known_pattern(format), x.at(i)?)
    })
}

fn time_format(a: &Args) -> Result<ArrayRef> {
    let (x, format) = (times(a, 0)?, a.text(1)?);
    a.texts(|i, out| {
        let us = x[i]?;
        let format = format.at(i).filter(|f| !f.is_empty())?;
        if us < 0 {
            out.push('-');
        }
        let us = us.abs();
        let seconds = us / SECOND_MICROS;
        let p = Parts {
            minute: (seconds / 60 % 60) as i32,
            second: (seconds % 60) as i32,
            micro: (us % SECOND_MICROS) as i32,
            ..Parts::default()
        };
        write_format(out, format, &p, None, seconds / 3600)
    })
}

/// Returns DATE for a constant format without a time of day, else DATETIME.
fn str_to_date_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let format = args.scalar_arguments[1].and_then(|s| s.try_as_str().flatten());
    let time_specs = ["%f", "%H", "%h", "%I", "%i", "%k", "%l", "%p", "%r", "%S", "%s", "%T"];
    Ok(match format.map(known_pattern) {
        Some(f) if !time_specs.iter().any(|s| f.contains(s)) => DataType::Date32,
        _ => DATETIME,
    })
}

/// A reader over the text of STR_TO_DATE.
struct Reader<'a> {
    rest: &'a str,
}

impl Reader<'_> {
    fn number(&mut self, most: usize) -> Option<i32> {
        let n = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let value = self.rest.get(..n)?.parse().ok()?;
        self.rest = &self.rest[n..];
        Some(value)
    }

    fn word(&mut self, names: &[&str], length: Option<usize>) -> Option<i32> {
        let at = names.iter().position(|name| {
            let name = &name[..length.unwrap_or(name.len())];
            self.rest.get(..name.len()).is_some_and(|head| head.eq_ignore_ascii_case(name))
        })?;
        self.rest = &self.rest[length.unwrap_or(names[at].len())..];
        Some(at as i32)
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_start();
    }
}

/// The fields that STR_TO_DATE has read so far.
#[derive(Default)]
struct Found {
    parts: Parts,
    /// Whether the year, the month and the day were there: those that are not are 1 in a year that is.
    given: [bool; 3],
    half: Option<bool>,
    twelve: bool,
    year_day: Option<i32>,
    week: Option<(i64, i64)>,
    week_year: Option<i32>,
    weekday: Option<i64>,
}

impl Found {
    fn year(year: i32, digits: usize) -> i32 {
        if digits <= 2 { full_year(year) } else { year }
    }

    fn read(&mut self, format: &str, from: &mut Reader) -> Option<()> {
        let mut specs = format.chars();
        while let Some(c) = specs.next() {
            if c.is_whitespace() {
                from.skip_blanks();
                continue;
            }
            if from.rest.is_empty() {
                // The text may end before the format does; the missing fields stay 0.
                return Some(());
            }
            if c != '%' {
                from.skip_blanks();
                from.rest = from.rest.strip_prefix(c)?;
                continue;
            }
            from.skip_blanks();
            let p = &mut self.parts;
            match specs.next()? {
                'Y' => {
                    let before = from.rest.len();
                    let year = from.number(4)?;
                    (p.year, self.given[0]) = (Self::year(year, before - from.rest.len()), true);
                }
                'y' => (p.year, self.given[0]) = (full_year(from.number(2)?), true),
                'm' | 'c' => (p.month, self.given[1]) = (from.number(2)?, true),
                'd' | 'e' => (p.day, self.given[2]) = (from.number(2)?, true),
                'D' => {
                    (p.day, self.given[2]) = (from.number(2)?, true);
                    from.rest = from.rest.get(2..)?;
                }
                'M' => (p.month, self.given[1]) = (from.word(&MONTHS, None)? + 1, true),
                'b' => (p.month, self.given[1]) = (from.word(&MONTHS, Some(3))? + 1, true),
                'W' => self.weekday = Some(from.word(&WEEKDAYS, None)?.into()),
                'a' => self.weekday = Some(from.word(&WEEKDAYS, Some(3))?.into()),
                'w' => self.weekday = Some((i64::from(from.number(1)?) + 6) % 7),
                'j' => self.year_day = Some(from.number(3)?),
                'H' | 'k' => p.hour = from.number(2)?,
                'h' | 'I' | 'l' => {
                    p.hour = from.number(2).filter(|h| (1..=12).contains(h))?;
                    self.twelve = true;
                }
                'i' => p.minute = from.number(2)?,
                's' | 'S' => p.second = from.number(2)?,
                'f' => {
                    let before = from.rest.len();
                    let value = from.number(6)?;
                    p.micro = value * 10_i32.pow(6 - (before - from.rest.len()) as u32);
                }
                'p' => self.half = Some(from.word(&["AM", "PM"], None)? == 1),
                'T' => self.read("%H:%i:%S", from)?,
                'r' => self.read("%I:%i:%S %p", from)?,
                'U' => self.week = Some((from.number(2)?.into(), 0)),
                'u' => self.week = Some((from.number(2)?.into(), 1)),
                'V' => self.week = Some((from.number(2)?.into(), 2)),
                'v' => self.week = Some((from.number(2)?.into(), 3)),
                'X' | 'x' => self.week_year = Some(from.number(4)?),
                '%' => from.rest = from.rest.strip_prefix('%')?,
                '.' => from.rest = from.rest.trim_start_matches(|c: char| c.is_ascii_punctuation()),
                '@' => from.rest = from.rest.trim_start_matches(|c: char| c.is_ascii_alphabetic()),
                '#' => from.rest = from.rest.trim_start_matches(|c: char| c.is_ascii_digit()),
                _ => return None,
            }
        }
        Some(())
    }

    fn finish(mut self) -> Option<i64> {
        let [has_year, has_month, has_day] = self.given;
        if has_year && !has_month {
            self.parts.month = 1;
        }
        if has_year && !has_day {
            self.parts.day = 1;
        }
        if self.twelve {
            self.parts.hour = self.parts.hour % 12 + if self.half == Some(true) { 12 } else { 0 };
        } else if self.half.is_some() {
            return None;
        }
        let days = if let Some(n) = self.year_day {
            (n >= 1).then_some(day_number(self.parts.year, 1, 1)? + i64::from(n) - 1)?
        } else if let (Some((week, mode)), Some(weekday_wanted)) = (self.week, self.weekday) {
            let strict = mode >= 2;
            if strict != self.week_year.is_some() || !(i64::from(strict)..=53).contains(&week) {
                return None;
            }
            let year = self.week_year.unwrap_or(self.parts.year);
            let first = day_number(year, 1, 1)?;
            let sunday_first = mode % 2 == 0;
            let start = if sunday_first { (weekday(first) + 1) % 7 } else { weekday(first) };
            let wanted = if sunday_first { (weekday_wanted + 1) % 7 } else { weekday_wanted };
            // Week 1 is the first that begins in the year (Sunday first), or that has four days of the year (Monday
            // first).
            let skip = if sunday_first { start != 0 } else { start >= 4 };
            first - start + if skip { 7 } else { 0 } + (week - 1) * 7 + wanted
        } else {
            day_number(self.parts.year, self.parts.month, self.parts.day)?
        };
        let clock = Parts { year: 1970, month: 1, day: 1, ..self.parts }.to_micros()?;
        in_range(days * DAY_MICROS + clock)
    }
}

/// Reads a text like STR_TO_DATE; text after the part that the format describes is ignored.
pub fn read_moment(text: &str, format: &str) -> Option<i64> {
    let mut found = Found::default();
    found.read(known_pattern(format), &mut Reader { rest: text.trim_start() })?;
    found.finish()
}

fn str_to_date(a: &Args) -> Result<ArrayRef> {
    let (text, format) = (a.text(0)?, a.text(1)?);
    let moment = |i: usize| read_moment(text.at(i)?, format.at(i)?);
    if a.ret == DataType::Date32 {
        a.dates(|i| moment(i).map(|us| us.div_euclid(DAY_MICROS) as i32))
    } else {
        a.datetimes(moment)
    }
}
