//! Conversion of text and numbers to DATETIME and TIME, by MySQL's rules for literals.

use dipper_base::clock;

use super::zone::Zone;
use super::{DAY_MICROS, Parts, in_range};

/// Completes a two-digit year: 70 to 99 are in the 1900s, others in the 2000s.
pub fn full_year(year: i32) -> i32 {
    if year < 70 { 2000 + year } else { 1900 + year }
}

/// Reads up to `most` leading digits of `s` as a number; returns it with the number of digits.
fn digits(s: &[u8], most: usize) -> (i32, usize) {
    let n = s.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
    (s[..n].iter().fold(0, |v, b| v * 10 + i32::from(b - b'0')), n)
}

/// Reads up to six digits of a fraction of a second in microseconds; the seventh rounds. All bytes must be digits.
fn fraction(s: &[u8]) -> Option<i64> {
    if !s.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (value, n) = digits(s, 6);
    let micros = i64::from(value) * 10_i64.pow(6 - n as u32);
    Some(micros + i64::from(rounds_up(s)))
}

/// Whether the digits of a fraction after the sixth round it up by one microsecond.
fn rounds_up(s: &[u8]) -> bool {
    s.get(6).is_some_and(|b| *b >= b'5')
}

/// Reads the zone after a time of day, perhaps after blanks: `Z`, `UTC`, `+HH:MM`, `-HHMM` or a name such as
/// `Asia/Shanghai`. `Some(None)` if there is no zone, `None` if there is something else.
pub fn zone_suffix(s: &[u8]) -> Option<Option<Zone>> {
    match s.trim_ascii_start() {
        b"" => Some(None),
        [sign @ (b'+' | b'-'), rest @ ..] => {
            let (h, n) = digits(rest, 2);
            let rest = rest.get(n..)?;
            let rest = rest.strip_prefix(b":").unwrap_or(rest);
            let (m, k) = digits(rest, 2);
            if n == 0 || k != rest.len() || h > 14 || m > 59 {
                return None;
            }
            let seconds = h * 3600 + m * 60;
            Some(Some(Zone::Fixed(if *sign == b'-' { -seconds } else { seconds })))
        }
        // Looking up a name among hundreds is slow, so it is done only for text that may be one.
        name if name.first().is_some_and(u8::is_ascii_alphabetic) => {
            Zone::parse(std::str::from_utf8(name).ok()?).map(Some)
        }
        _ => None,
    }
}

/// A date or time in the form in which it is written.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// Microseconds since 1970-01-01 00:00:00, before the zone is applied.
    pub micros: i64,
    /// Whether no time of day was written.
    pub is_date_only: bool,
    /// Whether the seventh digit of the fraction rounded `micros` up by one.
    pub is_rounded_up: bool,
    /// The zone that follows.
    pub zone: Option<Zone>,
}

impl Written {
    /// Builds a value without a zone; `None` if a field is out of range or the day does not exist.
    fn plain(p: Parts, is_date_only: bool) -> Option<Written> {
        Some(Written { micros: p.to_micros()?, is_date_only, is_rounded_up: false, zone: None })
    }

    /// Returns the microseconds in the zone `session`; a value without a zone is taken as it is.
    pub fn in_zone(self, session: Zone) -> Option<i64> {
        match self.zone {
            Some(zone) => in_range(session.to_local(zone.to_utc(self.micros))),
            None => Some(self.micros),
        }
    }
}

/// Reads a DATE or DATETIME like [`read`], in microseconds since 1970-01-01. A value that is followed by a zone is
/// moved to UTC.
pub fn parse_datetime(s: &[u8]) -> Option<i64> {
    parse_datetime_in(s, Zone::Fixed(0))
}

/// Reads a DATE or DATETIME like [`parse_datetime`], but a value that is followed by a zone is moved to `session`.
pub fn parse_datetime_in(s: &[u8], session: Zone) -> Option<i64> {
    read(s)?.in_zone(session)
}

/// Reads a DATE or DATETIME: `2024-02-29`, `2024-2-9 3:4:5.25`, `20240229`, `20240229030405`, `20240229T030405`,
/// `24-02-29`, with `T` or blanks between day and time and any punctuation between fields.
///
/// Two-digit years are MySQL's (70 to 99 are the 1900s); more than six digits of a fraction are rounded. `None` if the
/// text is something else or names no real day of the years 0 to 9999; zero dates are not real days.
pub fn read(s: &[u8]) -> Option<Written> {
    let s = s.trim_ascii();
    if let Some(p) = plain_parts(s) {
        return Written::plain(p, s.len() == 10);
    }
    let run = s.iter().take_while(|b| b.is_ascii_digit()).count();
    let separated = s.get(run).is_some_and(u8::is_ascii_punctuation) && run <= 4;
    if !separated {
        return read_compact(s, run);
    }
    let (mut year, n) = digits(s, 4);
    match n {
        1 | 2 => year = full_year(year),
        4 => {}
        _ => return None,
    }
    let (month, m) = digits(s.get(n + 1..)?, 2);
    let at = n + 1 + m;
    if m == 0 || !s.get(at)?.is_ascii_punctuation() {
        return None;
    }
    let (day, d) = digits(s.get(at + 1..)?, 2);
    if d == 0 {
        return None;
    }
    time_of_day(&s[at + 1 + d..], Parts { year, month, day, ..Parts::default() })
}

/// Reads the common forms `YYYY-MM-DD` and `YYYY-MM-DD HH:MM:SS` without a search for separators.
fn plain_parts(s: &[u8]) -> Option<Parts> {
    let two = |at: usize| {
        let (a, b) = (s[at].wrapping_sub(b'0'), s[at + 1].wrapping_sub(b'0'));
        (a < 10 && b < 10).then_some(i32::from(a) * 10 + i32::from(b))
    };
    if (s.len() != 10 && s.len() != 19) || s[4] != b'-' || s[7] != b'-' {
        return None;
    }
    let mut p = Parts { year: two(0)? * 100 + two(2)?, month: two(5)?, day: two(8)?, ..Parts::default() };
    if s.len() == 19 {
        if !matches!(s[10], b' ' | b'T') || s[13] != b':' || s[16] != b':' {
            return None;
        }
        (p.hour, p.minute, p.second) = (two(11)?, two(14)?, two(17)?);
    }
    Some(p)
}

/// Reads the part after the day: nothing, or a blank or `T` and `HH[:MM[:SS[.ffffff]]][zone]`, of which the colons may
/// be left out.
fn time_of_day(rest: &[u8], mut p: Parts) -> Option<Written> {
    let mut rest = match rest {
        [] => return Written::plain(p, true),
        [b'T' | b't', rest @ ..] => rest,
        [b' ', rest @ ..] => rest.trim_ascii_start(),
        _ => return None,
    };
    let mut fields = [0; 3];
    let run = rest.iter().take_while(|b| b.is_ascii_digit()).count();
    let compact = matches!(run, 4 | 6);
    for (k, field) in fields.iter_mut().enumerate() {
        let (value, n) = digits(rest, 2);
        if n == 0 {
            return None;
        }
        *field = value;
        rest = &rest[n..];
        match rest {
            [b':', after @ ..] if k < 2 && !compact => rest = after,
            _ if compact && (k + 1) * 2 < run => {}
            _ => break,
        }
    }
    [p.hour, p.minute, p.second] = fields;
    fraction_and_zone(p, rest)
}

/// Reads the end of a DATETIME: `[.ffffff][zone]`.
fn fraction_and_zone(p: Parts, rest: &[u8]) -> Option<Written> {
    let (micros, is_rounded_up, rest) = match rest {
        [b'.', after @ ..] => {
            let n = after.iter().take_while(|b| b.is_ascii_digit()).count();
            (fraction(&after[..n])?, rounds_up(&after[..n]), &after[n..])
        }
        _ => (0, false, rest),
    };
    // A fraction that rounds up may lead beyond the year 9999.
    let micros = in_range(p.to_micros()? + micros)?;
    Some(Written { micros, is_date_only: false, is_rounded_up, zone: zone_suffix(rest)? })
}

/// Reads the forms without separators: 6, 8 or 14 digits, perhaps with a `T` inside and a fraction at the end.
fn read_compact(s: &[u8], run: usize) -> Option<Written> {
    let (date, time, rest) = match s.get(run) {
        Some(b'T' | b't') if run == 8 || run == 6 => {
            let time = &s[run + 1..];
            let n = time.iter().take_while(|b| b.is_ascii_digit()).count();
            (&s[..run], &time[..n], &time[n..])
        }
        _ if run == 8 || run == 6 => (&s[..run], &s[..0], &s[run..]),
        _ if run == 14 => (&s[..run - 6], &s[run - 6..run], &s[run..]),
        _ => return None,
    };
    let (y, rest_of_date) = date.split_at(date.len() - 4);
    let year = digits(y, 4).0;
    let number = |at: usize, from: &[u8]| from.get(at..at + 2).map_or(0, |f| digits(f, 2).0);
    if !matches!(time.len(), 0 | 2 | 4 | 6) || (time.is_empty() && !rest.is_empty()) {
        return None;
    }
    let p = Parts {
        year: if y.len() == 2 { full_year(year) } else { year },
        month: number(0, rest_of_date),
        day: number(2, rest_of_date),
        hour: number(0, time),
        minute: number(2, time),
        second: number(4, time),
        micro: 0,
    };
    if time.is_empty() {
        return Written::plain(p, true);
    }
    fraction_and_zone(p, rest)
}

/// Reads a number as DATETIME: `YYYYMMDD`, `YYMMDD`, `YYYYMMDDHHMMSS` or `YYMMDDHHMMSS`.
pub fn datetime_from_number(v: i64) -> Option<i64> {
    let (date, time) = match v {
        101..=99_991_231 => (v, 0),
        99_991_232..=99_991_231_235_959 => (v / 1_000_000, v % 1_000_000),
        _ => return None,
    };
    let mut year = (date / 10_000) as i32;
    if year < 100 {
        year = full_year(year);
    }
    Parts {
        year,
        month: (date / 100 % 100) as i32,
        day: (date % 100) as i32,
        hour: (time / 10_000) as i32,
        minute: (time / 100 % 100) as i32,
        second: (time % 100) as i32,
        micro: 0,
    }
    .to_micros()
}

/// Reads a number in plain digits as DATETIME: its whole part as [`datetime_from_number`] does, and its fraction as that of
/// a second, rounded to microseconds.
pub fn datetime_from_digits(number: &str) -> Option<i64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let begin = datetime_from_number(whole.parse().ok()?)?;
    let mut digits = fraction.bytes().map(|digit| i64::from(digit.saturating_sub(b'0'))).chain(std::iter::repeat(0));
    let micros = (0..MICRO_DIGITS).fold(0, |micros, _| micros * 10 + digits.next().unwrap_or(0));
    in_range(begin + micros + i64::from(digits.next() >= Some(5)))
}

/// Digits of a DATETIME after the second.
const MICRO_DIGITS: u32 = 6;

/// Reads a TIME: `[-][D ]HH:MM[:SS[.ffffff]]`, `HHMMSS`; for a DATETIME its time of day in the zone `session`. Returns
/// microseconds.
pub fn parse_time(s: &[u8], session: Zone) -> Option<i64> {
    match clock::read(s) {
        Some(time) => time,
        None => parse_datetime_in(s, session).map(|v| v.rem_euclid(DAY_MICROS)),
    }
}

/// Reads a TIME like [`parse_time`], but no DATETIME, as `CAST(x AS TIME)` does; `None` for less than -838:59:59 and more
/// than 838:59:59.
pub fn parse_clock(s: &[u8]) -> Option<i64> {
    clock::parse(s)
}

#[cfg(test)]
mod tests {
    use super::super::{SECOND_MICROS, format_datetime};
    use super::*;

    fn shown(s: &str) -> String {
        let mut out = String::new();
        match parse_datetime(s.as_bytes()) {
            Some(v) => format_datetime(&mut out, v),
            None => out.push_str("NULL"),
        }
        out
    }

    #[test]
    fn reads_the_forms_of_literals() {
        for (text, want) in [
            ("2024-02-29", "2024-02-29 00:00:00"),
            ("2023-02-29", "NULL"),
            ("2024-2-9 3:4:5.25", "2024-02-09 03:04:05.250000"),
            ("2024-02-29T23:59:59.9999999", "2024-03-01 00:00:00"),
            ("20240229", "2024-02-29 00:00:00"),
            ("20240229030405", "2024-02-29 03:04:05"),
            ("20240229T030405", "2024-02-29 03:04:05"),
            ("240229", "2024-02-29 00:00:00"),
            ("70/01/02", "1970-01-02 00:00:00"),
            ("2024-02-29 12", "2024-02-29 12:00:00"),
            ("2024-02-29 12:30", "2024-02-29 12:30:00"),
            ("2024-02-29 12:30:00+02:00", "2024-02-29 10:30:00"),
            ("2024-02-29T12:30:00Z", "2024-02-29 12:30:00"),
            ("2024-02-29 12:30:00 Asia/Shanghai", "2024-02-29 04:30:00"),
            ("2024-02-29 12:30:00 nowhere", "NULL"),
            ("2024-02-29T1230", "2024-02-29 12:30:00"),
            ("2024-02-29 123045.5", "2024-02-29 12:30:45.500000"),
            ("2024-02-29T1230+08:00", "2024-02-29 04:30:00"),
            ("24-02-29T1230gmt", "2024-02-29 12:30:00"),
            ("2024-02-29T12304", "NULL"),
            ("2024-02-29T1230:45", "NULL"),
            ("240229123045", "NULL"),
            ("0000-02-29 10:00:00", "NULL"),
            ("0000-02-28", "0000-02-28 00:00:00"),
            ("0000-00-00", "NULL"),
            ("2024-13-01", "NULL"),
            ("2024-02-29 24:00:00", "NULL"),
            ("9999-12-31 23:59:59.9999995", "NULL"),
            ("", "NULL"),
            ("2024", "NULL"),
            ("nonsense", "NULL"),
            ("2024-02-29x", "NULL"),
            ("2024.02.29", "2024-02-29 00:00:00"),
            ("24:02:29", "2024-02-29 00:00:00"),
            ("12.5", "NULL"),
            ("-12.5", "NULL"),
            ("日本", "NULL"),
        ] {
            assert_eq!(shown(text), want, "{text:?}");
        }
    }

    #[test]
    fn every_day_comes_back_from_its_fields() {
        for day in -719_528..=2_932_896 {
            let (y, m, d) = super::super::civil(day);
            assert_eq!(super::super::day_number(y, m, d), Some(day));
        }
    }

    #[test]
    fn reads_times() {
        for (text, want) in [
            ("12:30:45", Some(45_045)),
            ("-01:00:00", Some(-3_600)),
            ("1 01:00:00", Some(90_000)),
            ("123045", Some(45_045)),
            ("2024-01-01 00:01:00", Some(60)),
            ("12:60:00", None),
            ("x", None),
        ] {
            assert_eq!(parse_time(text.as_bytes(), Zone::Fixed(0)), want.map(|v| v * SECOND_MICROS), "{text:?}");
        }
        for (text, want) in [
            ("838:59:59", Some(3_020_399)),
            ("-838:59:59", Some(-3_020_399)),
            ("839:00:00", None),
            ("901:15:00", None),
            ("838:59:59.99999995", None),
            ("2022-08-30 17:45:10", None),
            ("1 01:00:00", Some(90_000)),
        ] {
            assert_eq!(parse_clock(text.as_bytes()), want.map(|v| v * SECOND_MICROS), "{text:?}");
        }
        let shanghai = Zone::Fixed(8 * 3600);
        assert_eq!(parse_time(b"2024-01-01T10:00:00Z", shanghai), Some(18 * 3600 * SECOND_MICROS));
    }
}
