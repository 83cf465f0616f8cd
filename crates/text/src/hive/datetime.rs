//! Dates and timestamps as Hive 4.0.1 reads them: in the proleptic Gregorian calendar, without zone; impossible ones
//! are NULL.

use dipper_base::calendar::{civil_from_days, day_number};

use super::number::trim;
use crate::parse;

/// Minimum length of a value: Hive ignores shorter ones, since no date has fewer bytes than `2020-1-2`.
const LEN_MIN: usize = 8;

const DAY_MICROS: i64 = 86_400_000_000;

/// A cursor over ASCII text.
pub(crate) struct Text<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Text<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Text { bytes, at: 0 }
    }

    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(crate) fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }

    pub(crate) fn done(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// Reads `min` to `max` digits, as many as there are.
    pub(crate) fn digits(&mut self, min: usize, max: usize) -> Option<i64> {
        let (start, mut value) = (self.at, 0i64);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            if self.at - start == max {
                break;
            }
            value = value * 10 + i64::from(digit - b'0');
            self.at += 1;
        }
        (self.at - start >= min).then_some(value)
    }

    /// Reads a year: digits, optionally negative, but not -0.
    fn year(&mut self, min: usize, max: usize) -> Option<i64> {
        if self.take(b'-').is_some() {
            return self.digits(min, max).filter(|year| *year != 0).map(|year| -year);
        }
        self.digits(min, max)
    }

    /// Reads `min` to 9 digits of a fraction of a second, as nanoseconds.
    fn nanos(&mut self, min: usize) -> Option<i64> {
        let start = self.at;
        let value = self.digits(min, 9)?;
        Some(value * 10i64.pow(9 - (self.at - start) as u32))
    }
}

/// Parses `date` as days from 1970-01-01.
///
/// The year has 1 to 4 digits, month and day 1 or 2, with blanks around; anything but a digit may follow the day.
///
/// ```
/// use dipper_text::hive::datetime::parse_date;
/// assert_eq!(parse_date(b"1970-1-02"), Some(1));
/// assert_eq!(parse_date(b"1970-01-02T03:04"), Some(1));
/// assert_eq!(parse_date(b"2021-02-29"), None);
/// ```
pub fn parse_date(bytes: &[u8]) -> Option<i32> {
    if let Some(days) = parse::date_fixed(bytes, 0, bytes.len()) {
        return Some(days);
    }
    if bytes.len() < LEN_MIN {
        return None;
    }
    let mut text = Text::new(trim(bytes));
    let days = short_date(&mut text, 4)?;
    if matches!(text.peek(), Some(b'0'..=b'9')) {
        return None;
    }
    i32::try_from(days).ok()
}

/// Reads year, month and day of one or more digits.
fn short_date(text: &mut Text<'_>, year_max: usize) -> Option<i64> {
    let year = text.year(1, year_max)?;
    text.take(b'-')?;
    let month = text.digits(1, 2)?;
    text.take(b'-')?;
    let day = text.digits(1, 2)?;
    day_number(year, month as u32, day as u32)
}

/// Parses `timestamp` as microseconds from 1970-01-01 00:00:00; further digits are cut off.
///
/// The form is either `y-M-d H:m:s[.1 to 9 digits]` with one or more digits each, or ISO with a `T`: two digits each,
/// seconds optional. Blanks around are dropped. Years that microseconds cannot reach (from 294,247 on) are `None`;
/// Hive's own limit is 999,999,999.
///
/// ```
/// use dipper_text::hive::datetime::parse_timestamp;
/// assert_eq!(parse_timestamp(b"1970-1-1 0:0:1.5"), Some(1_500_000));
/// assert_eq!(parse_timestamp(b"1970-01-01T00:01"), Some(60_000_000));
/// assert_eq!(parse_timestamp(b"1970-01-01"), None);
/// ```
pub fn parse_timestamp(bytes: &[u8]) -> Option<i64> {
    if let Some(micros) = parse::timestamp_fixed(bytes, 0, bytes.len()) {
        return Some(micros);
    }
    if bytes.len() < LEN_MIN {
        return None;
    }
    let bytes = trim(bytes);
    usual_timestamp(bytes).or_else(|| iso_timestamp(bytes))
}

fn usual_timestamp(bytes: &[u8]) -> Option<i64> {
    let mut text = Text::new(bytes);
    let days = short_date(&mut text, 10)?;
    text.take(b' ')?;
    let hour = text.digits(1, 2)?;
    text.take(b':')?;
    let minute = text.digits(1, 2)?;
    text.take(b':')?;
    let second = text.digits(1, 2)?;
    let nanos = if text.take(b'.').is_some() { text.nanos(1)? } else { 0 };
    if !text.done() {
        return None;
    }
    micros(days, hour, minute, second, nanos)
}

fn iso_timestamp(bytes: &[u8]) -> Option<i64> {
    let mut text = Text::new(bytes);
    let days = iso_date(&mut text)?;
    text.take(b'T').or_else(|| text.take(b't'))?;
    let (hour, minute, second, nanos) = iso_time(&mut text)?;
    if !text.done() {
        return None;
    }
    micros(days, hour, minute, second, nanos)
}

/// Reads `HH:mm`, optionally with `:ss` and `.` and 0 to 9 digits.
pub(crate) fn iso_time(text: &mut Text<'_>) -> Option<(i64, i64, i64, i64)> {
    let hour = text.digits(2, 2)?;
    text.take(b':')?;
    let minute = text.digits(2, 2)?;
    if text.take(b':').is_none() {
        return Some((hour, minute, 0, 0));
    }
    let second = text.digits(2, 2)?;
    let nanos = if text.take(b'.').is_some() { text.nanos(0)? } else { 0 };
    Some((hour, minute, second, nanos))
}

/// Reads a year of four digits (more only behind a sign), month and day of two.
pub(crate) fn iso_date(text: &mut Text<'_>) -> Option<i64> {
    let plus = text.take(b'+').is_some();
    let start = text.at + usize::from(text.peek() == Some(b'-'));
    let year = text.year(4, 10)?;
    let digits = text.at - start;
    let negative = start > 0 && text.bytes[start - 1] == b'-';
    if !negative && plus != (digits > 4) {
        return None;
    }
    if plus && negative {
        return None;
    }
    text.take(b'-')?;
    let month = text.digits(2, 2)?;
    text.take(b'-')?;
    let day = text.digits(2, 2)?;
    day_number(year, month as u32, day as u32)
}

/// Returns the microseconds of a day and a time of day; `None` for impossible times and values beyond 64 bits.
pub(crate) fn micros(days: i64, hour: i64, minute: i64, second: i64, nanos: i64) -> Option<i64> {
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let of_day = ((hour * 60 + minute) * 60 + second) * 1_000_000 + nanos / 1000;
    days.checked_mul(DAY_MICROS)?.checked_add(of_day)
}

/// Writes year, month and day for messages and files: `-0001-01-02`, at least four digits of the year.
pub fn write_date(days: i64, out: &mut Vec<u8>) {
    let (year, month, day) = civil_from_days(days);
    write_year(year, out);
    out.push(b'-');
    two(month, out);
    out.push(b'-');
    two(day, out);
}

/// Writes a year like Java's `uuuu`: at least four digits, a sign before more than four and before negative years.
fn write_year(year: i64, out: &mut Vec<u8>) {
    if year < 0 {
        out.push(b'-');
    } else if year > 9999 {
        out.push(b'+');
    }
    let year = year.unsigned_abs();
    if year < 10_000 {
        two((year / 100) as u32, out);
        two((year % 100) as u32, out);
    } else {
        out.extend_from_slice(year.to_string().as_bytes());
    }
}

pub(crate) fn two(value: u32, out: &mut Vec<u8>) {
    out.push(b'0' + (value / 10 % 10) as u8);
    out.push(b'0' + (value % 10) as u8);
}

/// Writes a timestamp in Hive's form: `2020-01-31 01:02:03`, then the fraction without trailing zeros, none if it is
/// zero. `ticks` count from 1970-01-01; `per_second` of them (a power of ten up to 10^9) make a second.
pub fn write_timestamp(ticks: i64, per_second: i64, out: &mut Vec<u8>) {
    let (seconds, fraction) = (ticks.div_euclid(per_second), ticks.rem_euclid(per_second));
    write_date(seconds.div_euclid(86_400), out);
    out.push(b' ');
    let second = seconds.rem_euclid(86_400) as u32;
    two(second / 3600, out);
    out.push(b':');
    two(second / 60 % 60, out);
    out.push(b':');
    two(second % 60, out);
    if fraction != 0 {
        out.push(b'.');
        let (mut rest, mut unit) = (fraction, per_second / 10);
        while rest != 0 {
            out.push(b'0' + (rest / unit) as u8);
            rest %= unit;
            unit /= 10;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_round_trip() {
        for days in (-2_000_000..4_000_000).step_by(97).chain([i64::from(i32::MIN), i64::from(i32::MAX)]) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(day_number(year, month, day), Some(days));
        }
        assert_eq!(day_number(1900, 2, 29), None);
        assert_eq!(day_number(2000, 2, 29), Some(11_016));
        assert_eq!(day_number(0, 2, 29), Some(-719_469));
    }

    #[test]
    fn dates() {
        let day = |y, m, d| day_number(y, m, d).map(|days| days as i32);
        for (text, expected) in [
            ("1-1-1   ", day(1, 1, 1)),
            ("1-1-1", None),
            ("-1-01-01", day(-1, 1, 1)),
            ("-0-01-01", None),
            ("20201-01-02", None),
            ("2020-001-02", None),
            ("2020-01-02é", day(2020, 1, 2)),
            ("2020-01--2", None),
            ("\u{1f}2020-01-02", day(2020, 1, 2)),
        ] {
            assert_eq!(parse_date(text.as_bytes()), expected, "{text:?}");
        }
        assert_eq!(parse_date(b"2020-01-02\xff"), day(2020, 1, 2));
    }

    #[test]
    fn timestamps() {
        let shown = |text: &str| {
            parse_timestamp(text.as_bytes()).map(|micros| {
                let mut out = Vec::new();
                write_timestamp(micros, 1_000_000, &mut out);
                String::from_utf8(out).unwrap()
            })
        };
        for (text, expected) in [
            ("2020-01-02 03:04:05.0000019", Some("2020-01-02 03:04:05.000001")),
            ("1969-12-31 23:59:59.9999999", Some("1969-12-31 23:59:59.999999")),
            ("2020-01-02 03:04:05.50", Some("2020-01-02 03:04:05.5")),
            ("2020-01-02t03:04:05.", Some("2020-01-02 03:04:05")),
            ("2020-01-02 03:04:05.", None),
            ("2020-1-02T03:04:05", None),
            ("12020-01-02 03:04:05", Some("+12020-01-02 03:04:05")),
            ("+12020-01-02T03:04:05", Some("+12020-01-02 03:04:05")),
            ("12020-01-02T03:04:05", None),
            ("+2020-01-02T03:04:05", None),
            ("-2020-01-02T03:04:05", Some("-2020-01-02 03:04:05")),
            ("999999-01-02 03:04:05", None),
            ("2020-01-02 24:00:00", None),
        ] {
            assert_eq!(shown(text).as_deref(), expected, "{text}");
        }
    }
}
