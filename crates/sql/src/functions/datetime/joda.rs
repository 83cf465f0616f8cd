//! JODATIME_FORMAT and STR_TO_JODATIME: dates in patterns of the Java library Joda-Time, as in StarRocks; and STRFTIME,
//! whose specifiers are those of C.

use std::fmt::Write;

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::super::args::Args;
use super::super::func::{Def, Ret, def};
use super::parse::full_year;
use super::parts::{day_of_year, week, weekday};
use super::{DAY_MICROS, MONTHS, Parts, WEEKDAYS, day_number, split_micros};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("jodatime_format", &[], (2, 2), Ret::Text, jodatime_format),
    def("str_to_jodatime", &[], (2, 2), Ret::DateTime, str_to_jodatime),
    def("strftime", &[], (2, 2), Ret::Text, strftime),
];

/// The longest text that JODATIME_FORMAT returns, in bytes.
const TEXT_MAX: usize = 128;

/// A part of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    /// Text that stands for itself.
    Text(String),
    /// A letter and how often it is repeated.
    Field(char, usize),
}

/// The letters that have a meaning for values without a time zone.
const LETTERS: &str = "GCYxweEyDMdaKhHkmsS";

/// Takes a pattern apart. Text stands between single quotes, of which two in a row are one; all but letters stands for
/// itself.
///
/// # Errors
/// The reason why there is no such pattern.
fn pieces(pattern: &str) -> std::result::Result<Vec<Piece>, String> {
    let mut pieces = Vec::new();
    let text = |pieces: &mut Vec<Piece>, c: char| match pieces.last_mut() {
        Some(Piece::Text(text)) => text.push(c),
        _ => pieces.push(Piece::Text(c.into())),
    };
    let mut rest = pattern.chars().peekable();
    let mut quoted = false;
    while let Some(c) = rest.next() {
        match c {
            '\'' if rest.next_if_eq(&'\'').is_some() => text(&mut pieces, '\''),
            '\'' => quoted = !quoted,
            c if quoted || !c.is_ascii_alphabetic() => text(&mut pieces, c),
            'z' | 'Z' => return Err("z and Z are not supported: DATETIME has no time zone".to_string()),
            c if LETTERS.contains(c) => {
                let mut count = 1;
                while rest.next_if_eq(&c).is_some() {
                    count += 1;
                }
                pieces.push(Piece::Field(c, count));
            }
            c => return Err(format!("'{c}' is no letter of a pattern")),
        }
    }
    if quoted { Err("a quote is left open".to_string()) } else { Ok(pieces) }
}

/// The last pattern that was taken apart.
struct Patterns<'a>(Option<(&'a str, Vec<Piece>)>);

impl<'a> Patterns<'a> {
    fn of(&mut self, name: &str, pattern: &'a str) -> Result<&[Piece]> {
        if self.0.as_ref().is_none_or(|(last, _)| *last != pattern) {
            match pieces(pattern) {
                Ok(pieces) => self.0 = Some((pattern, pieces)),
                Err(reason) => {
                    return exec_err!("{name}: expected a pattern of Joda-Time, found '{pattern}': {reason}");
                }
            }
        }
        Ok(self.0.as_ref().map_or(&[][..], |(_, pieces)| pieces.as_slice()))
    }
}

/// Appends a moment in a pattern.
fn write_pattern(out: &mut String, pattern: &[Piece], at: i64) {
    let p = split_micros(at);
    let days = at.div_euclid(DAY_MICROS);
    let number = |out: &mut String, value: i64, width: usize| {
        let _ = write!(out, "{value:0width$}");
    };
    // Years of two letters are the last two digits.
    let year = |out: &mut String, year: i64, width: usize| match width {
        2 => number(out, year % 100, 2),
        width => number(out, year, width),
    };
    let (iso_year, iso_week) = week(days, 3);
    for piece in pattern {
        let (letter, count) = match piece {
            Piece::Text(text) => {
                out.push_str(text);
                continue;
            }
            Piece::Field(letter, count) => (*letter, *count),
        };
        match letter {
            'G' => out.push_str("AD"),
            'C' => number(out, i64::from(p.year / 100), count),
            'Y' | 'y' => year(out, p.year.into(), count),
            'x' => year(out, iso_year, count),
            'w' => number(out, iso_week, count),
            'e' => number(out, weekday(days) + 1, count),
            'E' => {
                let name = WEEKDAYS[weekday(days) as usize];
                out.push_str(if count < 4 { &name[..3] } else { name });
            }
            'D' => number(out, day_of_year(&p).into(), count),
            'M' if count >= 3 => {
                let name = MONTHS[p.month as usize - 1];
                out.push_str(if count == 3 { &name[..3] } else { name });
            }
            'M' => number(out, p.month.into(), count),
            'd' => number(out, p.day.into(), count),
            'a' => out.push_str(if p.hour < 12 { "AM" } else { "PM" }),
            'K' => number(out, i64::from(p.hour % 12), count),
            'h' => number(out, i64::from((p.hour + 11) % 12 + 1), count),
            'H' => number(out, p.hour.into(), count),
            'k' => number(out, i64::from((p.hour + 23) % 24 + 1), count),
            'm' => number(out, p.minute.into(), count),
            's' => number(out, p.second.into(), count),
            // A fraction has as many digits as there are letters.
            _ => {
                let digits = format!("{:06}", p.micro);
                out.extend(digits.chars().chain(std::iter::repeat('0')).take(count));
            }
        }
    }
}

fn jodatime_format(a: &Args) -> Result<ArrayRef> {
    let (x, formats) = (a.datetime(0)?, a.text(1)?);
    let (mut patterns, mut failure) = (Patterns(None), None);
    let out = a.texts(|i, out| {
        let (at, format) = (x.at(i)?, formats.at(i).filter(|format| !format.is_empty())?);
        match patterns.of(a.name, format) {
            // A pattern that is longer than the longest result would only be written in vain.
            Ok(_) if format.len() > TEXT_MAX * 4 => return None,
            Ok(pattern) => write_pattern(out, pattern, at),
            Err(e) => failure = Some(e),
        }
        (out.len() <= TEXT_MAX).then_some(())
    })?;
    failure.map_or(Ok(out), Err)
}

/// Reads a text by a pattern; `None` if the text does not fit, or there is no such moment.
fn read(text: &str, pattern: &[Piece]) -> Option<i64> {
    let mut p = Parts { year: 1970, month: 1, day: 1, ..Parts::default() };
    let (mut rest, mut afternoon, mut twelve, mut day_of_year) = (text, None, None, None);
    for (n, piece) in pattern.iter().enumerate() {
        let (letter, count) = match piece {
            Piece::Text(text) => {
                rest = rest.strip_prefix(text.as_str())?;
                continue;
            }
            Piece::Field(letter, count) => (*letter, *count),
        };
        // A number ends where the text does, unless another number follows at once.
        let adjacent = matches!(pattern.get(n + 1), Some(Piece::Field(next, _)) if !matches!(next, 'a' | 'E' | 'G'));
        let most = if adjacent { count } else { 9 };
        let mut number = || -> Option<i32> {
            let length = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
            let (found, behind) = rest.split_at(length);
            rest = behind;
            found.parse().ok()
        };
        match letter {
            'y' | 'Y' if count == 2 => {
                let year = number()?;
                p.year = if year < 100 { full_year(year) } else { year };
            }
            'y' | 'Y' => p.year = number()?,
            'M' if count < 3 => p.month = number()?,
            'M' => p.month = named(&mut rest, &MONTHS)? + 1,
            'E' => {
                named(&mut rest, &WEEKDAYS)?;
            }
            'd' => p.day = number()?,
            'D' => day_of_year = Some(number()?),
            'H' => p.hour = number()?,
            'k' => p.hour = number().filter(|hour| (1..=24).contains(hour))? % 24,
            'K' => twelve = Some(number().filter(|hour| (0..12).contains(hour))?),
            'h' => twelve = Some(number().filter(|hour| (1..=12).contains(hour))? % 12),
            'a' => {
                let half = rest.get(..2)?;
                afternoon = Some(match half {
                    half if half.eq_ignore_ascii_case("am") => 0,
                    half if half.eq_ignore_ascii_case("pm") => 12,
                    _ => return None,
                });
                rest = &rest[2..];
            }
            'm' => p.minute = number()?,
            's' => p.second = number()?,
            'S' => {
                let length = rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
                let (digits, behind) = rest.split_at(length);
                rest = behind;
                p.micro = format!("{:0<6}", digits.get(..digits.len().min(6))?).parse().ok().filter(|_| length > 0)?;
            }
            // Eras, centuries and weeks do not say which day is meant.
            _ => return None,
        }
    }
    if let Some(hour) = twelve {
        p.hour = hour + afternoon.unwrap_or(0);
    }
    if let Some(day) = day_of_year {
        let first = day_number(p.year, 1, 1)?;
        let found = split_micros((first + i64::from(day) - 1) * DAY_MICROS);
        if day < 1 || found.year != p.year {
            return None;
        }
        (p.month, p.day) = (found.month, found.day);
    }
    if rest.is_empty() { p.to_micros() } else { None }
}

/// Takes one of the names from the front, whole or as its first three letters; returns its number.
fn named(rest: &mut &str, names: &[&str]) -> Option<i32> {
    let begins = |word: &str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let whole = names.iter().position(|name| begins(name)).map(|at| (at, names[at].len()));
    let (at, length) = whole.or_else(|| names.iter().position(|name| begins(&name[..3])).map(|at| (at, 3)))?;
    *rest = &rest[length..];
    Some(at as i32)
}

fn str_to_jodatime(a: &Args) -> Result<ArrayRef> {
    let (texts, formats) = (a.text(0)?, a.text(1)?);
    let (mut patterns, mut failure) = (Patterns(None), None);
    let out = a.datetimes(|i| {
        let (text, format) = (texts.at(i)?, formats.at(i)?);
        match patterns.of(a.name, format) {
            Ok(pattern) => read(text, pattern),
            Err(e) => {
                failure = Some(e);
                None
            }
        }
    })?;
    failure.map_or(Ok(out), Err)
}

/// Appends a moment in a format of C; `None` for a specifier that does not exist.
fn write_c(out: &mut String, format: &str, at: i64) -> Option<()> {
    let (p, days) = (split_micros(at), at.div_euclid(DAY_MICROS));
    let of_year = i64::from(day_of_year(&p)) - 1;
    let twelve = (p.hour + 11) % 12 + 1;
    let half = if p.hour < 12 { "AM" } else { "PM" };
    let (weekday, month) = (weekday(days), MONTHS[p.month as usize - 1]);
    let day = WEEKDAYS[weekday as usize];
    let (iso_year, iso_week) = week(days, 3);
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let _ = match rest.next()? {
            'a' => write!(out, "{}", &day[..3]),
            'A' => write!(out, "{day}"),
            'b' | 'h' => write!(out, "{}", &month[..3]),
            'B' => write!(out, "{month}"),
            'c' => write!(
                out,
                "{} {} {:2} {:02}:{:02}:{:02} {}",
                &day[..3],
                &month[..3],
                p.day,
                p.hour,
                p.minute,
                p.second,
                p.year
            ),
            'C' => write!(out, "{:02}", p.year / 100),
            'd' => write!(out, "{:02}", p.day),
            'D' | 'x' => write!(out, "{:02}/{:02}/{:02}", p.month, p.day, p.year % 100),
            'e' => write!(out, "{:2}", p.day),
            'F' => write!(out, "{:04}-{:02}-{:02}", p.year, p.month, p.day),
            'g' => write!(out, "{:02}", iso_year % 100),
            'G' => write!(out, "{iso_year:04}"),
            'H' => write!(out, "{:02}", p.hour),
            'I' => write!(out, "{twelve:02}"),
            'j' => write!(out, "{:03}", of_year + 1),
            'm' => write!(out, "{:02}", p.month),
            'M' => write!(out, "{:02}", p.minute),
            'n' => out.write_char('\n'),
            'p' => write!(out, "{half}"),
            'r' => write!(out, "{twelve:02}:{:02}:{:02} {half}", p.minute, p.second),
            'R' => write!(out, "{:02}:{:02}", p.hour, p.minute),
            'S' => write!(out, "{:02}", p.second),
            't' => out.write_char('\t'),
            'T' | 'X' => write!(out, "{:02}:{:02}:{:02}", p.hour, p.minute, p.second),
            'u' => write!(out, "{}", weekday + 1),
            'U' => write!(out, "{:02}", (of_year + 7 - (weekday + 1) % 7) / 7),
            'V' => write!(out, "{iso_week:02}"),
            'w' => write!(out, "{}", (weekday + 1) % 7),
            'W' => write!(out, "{:02}", (of_year + 7 - weekday) / 7),
            'y' => write!(out, "{:02}", p.year % 100),
            'Y' => write!(out, "{:04}", p.year),
            '%' => out.write_char('%'),
            _ => return None,
        };
    }
    Some(())
}

/// `STRFTIME(moment, format)`: NULL for an empty format, and for specifiers that C does not have.
fn strftime(a: &Args) -> Result<ArrayRef> {
    let (x, formats) = (a.datetime(0)?, a.text(1)?);
    a.texts(|i, out| write_c(out, formats.at(i).filter(|format| !format.is_empty())?, x.at(i)?))
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse_datetime;
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let at = parse_datetime(b"2023-06-25 14:05:09.123456").unwrap();
        for pattern in [
            "yyyy-MM-dd HH:mm:ss.SSSSSS",
            "yyyyMMddHHmmssSSSSSS",
            "EEEE d MMMM yyyy K:mm:ss.SSSSSS a",
            "EEE, dd MMM yy hh:mm:ss.SSSSSS a",
            "yyyy-DDD kk:mm:ss.SSSSSS",
            "''yyyy'T'M/d H:m:s.SSSSSS",
        ] {
            let pieces = pieces(pattern).unwrap();
            let mut text = String::new();
            write_pattern(&mut text, &pieces, at);
            assert_eq!(read(&text, &pieces), Some(at), "{pattern}: {text}");
            assert_eq!(read(&format!("{text}x"), &pieces), None, "{pattern}");
        }
        assert!(pieces("'open").is_err() && pieces("q").is_err() && pieces("z").is_err());
    }
}
