//! Text to values and back, as MySQL and Doris read and print them.

use crate::functions::datetime::parse::zone_suffix;
use crate::functions::datetime::zone::Zone;
use crate::functions::datetime::{DAY_MICROS, civil, day_number, in_range};

/// A point in time read from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed {
    /// Microseconds since 1970-01-01 00:00:00, no zone.
    pub micros: i64,
    /// No time of day was written.
    pub is_date_only: bool,
}

impl Parsed {
    /// Days since 1970-01-01.
    pub fn days(&self) -> i32 {
        self.micros.div_euclid(DAY_MICROS) as i32
    }

    /// The time of day is 00:00:00.
    pub fn is_midnight(&self) -> bool {
        self.micros.rem_euclid(DAY_MICROS) == 0
    }
}

/// Reads a date or datetime: `2024-1-5`, `2024/01/05 1:02:03.5`, `2024-01-05T01:02`, `20240105`, `20240105010203`,
/// two-digit years as in MySQL (70 to 99 are the 1900s). More than six digits of fraction are rounded. Invalid dates,
/// zero dates, years beyond 9999 and anything else are `None`, as is a time with a zone behind it.
pub fn parse_datetime(text: &str) -> Option<Parsed> {
    match parse_zoned(text)? {
        (parsed, None) => Some(parsed),
        (_, Some(_)) => None,
    }
}

/// As [`parse_datetime`]; a time with a zone behind it, `2024-01-05T01:02:03Z`, `2024-01-05 01:02:03+08:00`, is moved to
/// `session`.
pub fn parse_datetime_in(text: &str, session: Zone) -> Option<Parsed> {
    let (parsed, zone) = parse_zoned(text)?;
    let Some(zone) = zone else { return Some(parsed) };
    let micros = in_range(session.to_local(zone.to_utc(parsed.micros)))?;
    Some(Parsed { micros, ..parsed })
}

/// Whether the text is a time with a zone behind it.
pub(super) fn has_zone(text: &str) -> bool {
    matches!(parse_zoned(text), Some((_, Some(_))))
}

/// A local time and the zone behind it.
fn parse_zoned(text: &str) -> Option<(Parsed, Option<Zone>)> {
    let s = text.trim().as_bytes();
    if s.is_empty() || !s[0].is_ascii_digit() {
        return None;
    }
    let (digits, rest) = number(s);
    if matches!(digits.len(), 6 | 8 | 12 | 14) && (rest.is_empty() || (rest[0] == b'.' && digits.len() > 8)) {
        return Some((parse_compact(digits, rest)?, None));
    }
    let year = full_year(digits)?;
    let (separator, rest) = rest.split_first()?;
    if !matches!(separator, b'-' | b'/' | b'.') {
        return None;
    }
    let (month, rest) = field(rest)?;
    let rest = rest.strip_prefix(std::slice::from_ref(separator))?;
    let (day, rest) = field(rest)?;
    let days = day_number(year, month as i32, day as i32)?;
    if rest.is_empty() {
        return Some((Parsed { micros: days * DAY_MICROS, is_date_only: true }, None));
    }
    let rest = match rest {
        [b'T' | b't', rest @ ..] => rest,
        [b' ', ..] => rest.trim_ascii_start(),
        _ => return None,
    };
    let (hour, rest) = field(rest)?;
    let (mut minute, mut second, mut micros) = (0, 0, 0);
    let mut rest = rest;
    if let Some(after) = rest.strip_prefix(b":") {
        (minute, rest) = field(after)?;
        if let Some(after) = rest.strip_prefix(b":") {
            (second, rest) = field(after)?;
            (micros, rest) = fraction(rest)?;
        }
    }
    let zone = zone_suffix(rest)?;
    Some((at_time(days, hour, minute, second, micros)?, zone))
}

fn at_time(days: i64, hour: u32, minute: u32, second: u32, micros: i64) -> Option<Parsed> {
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let seconds = i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second);
    // A fraction that rounds up may end the year 9999.
    let micros = in_range(days * DAY_MICROS + seconds * 1_000_000 + micros)?;
    Some(Parsed { micros, is_date_only: false })
}

fn parse_compact(digits: &[u8], rest: &[u8]) -> Option<Parsed> {
    let year_digits = if matches!(digits.len(), 8 | 14) { 4 } else { 2 };
    let (year, tail) = digits.split_at(year_digits);
    let two = |i: usize| tail.get(i * 2..i * 2 + 2).and_then(value);
    let days = day_number(full_year(year)?, two(0)? as i32, two(1)? as i32)?;
    if tail.len() == 4 {
        return Some(Parsed { micros: days * DAY_MICROS, is_date_only: true });
    }
    let (micros, rest) = fraction(rest)?;
    if !rest.is_empty() {
        return None;
    }
    at_time(days, two(2)?, two(3)?, two(4)?, micros)
}

fn full_year(digits: &[u8]) -> Option<i32> {
    let year = i32::try_from(value(digits)?).ok()?;
    match digits.len() {
        1 | 2 if year >= 70 => Some(1900 + year),
        1 | 2 => Some(2000 + year),
        4 => Some(year),
        _ => None,
    }
}

/// Leading digits and what follows them.
fn number(s: &[u8]) -> (&[u8], &[u8]) {
    s.split_at(s.iter().take_while(|c| c.is_ascii_digit()).count())
}

fn value(digits: &[u8]) -> Option<u32> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// One or two digits.
fn field(s: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = number(s);
    if digits.is_empty() || digits.len() > 2 { None } else { Some((value(digits)?, rest)) }
}

/// `.123456` in microseconds, rounded half up; nothing is 0.
fn fraction(s: &[u8]) -> Option<(i64, &[u8])> {
    let Some(s) = s.strip_prefix(b".") else { return Some((0, s)) };
    let (digits, rest) = number(s);
    let mut micros = 0;
    for i in 0..6 {
        micros = micros * 10 + digits.get(i).map_or(0, |c| i64::from(c - b'0'));
    }
    if digits.get(6).is_some_and(|c| *c >= b'5') {
        micros += 1;
    }
    Some((micros, rest))
}

/// Reads a boolean: `true`, `false`, their first letters, `yes`, `no`, `on`, `off`, or a number (true if not zero).
pub fn parse_boolean(text: &str) -> Option<bool> {
    let s = text.trim();
    let is = |words: &[&str]| words.iter().any(|w| s.eq_ignore_ascii_case(w));
    if is(&["true", "t", "yes", "on"]) {
        Some(true)
    } else if is(&["false", "f", "no", "off"]) {
        Some(false)
    } else {
        s.parse::<f64>().ok().filter(|n| !n.is_nan()).map(|n| n != 0.0)
    }
}

/// Reads an integer; a fraction is cut off (`'1.9'` is 1), blanks around it do not matter.
pub fn parse_integer(text: &str) -> Option<i128> {
    let s = text.trim();
    if let Ok(n) = s.parse::<i128>() {
        return Some(n);
    }
    let digits = s.strip_prefix(['-', '+']).unwrap_or(s);
    let (whole, fraction) = digits.split_once('.')?;
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    Some(if s.starts_with('-') { -whole } else { whole })
}

/// Reads a double; blanks around it do not matter.
pub fn parse_double(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// Prints a double as MySQL does: the shortest digits that read back, an exponent from 1e15 and below 1e-15.
pub fn format_double(n: f64) -> String {
    if !n.is_finite() {
        return if n.is_nan() {
            "nan"
        } else if n > 0.0 {
            "inf"
        } else {
            "-inf"
        }
        .into();
    }
    with_exponent(format!("{n:e}"), || n.to_string())
}

/// Prints a float as MySQL does; see [`format_double`].
pub fn format_float(n: f32) -> String {
    if !n.is_finite() {
        return format_double(f64::from(n));
    }
    with_exponent(format!("{n:e}"), || n.to_string())
}

fn with_exponent(scientific: String, plain: impl Fn() -> String) -> String {
    match scientific.split_once('e').and_then(|(_, e)| e.parse::<i32>().ok()) {
        Some(exponent) if (-15..15).contains(&exponent) => plain(),
        _ => scientific,
    }
}

/// Prints a datetime: `2024-01-05 01:02:03`, with a point and six digits if it has a fraction.
pub fn format_datetime(micros: i64) -> String {
    let (year, month, day) = civil(micros.div_euclid(DAY_MICROS));
    let rest = micros.rem_euclid(DAY_MICROS);
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut out = format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
    if fraction != 0 {
        out.push_str(&format!(".{fraction:06}"));
    }
    out
}

/// A datetime as the number MySQL makes of it: 20240105010203; the fraction is dropped.
pub fn datetime_number(micros: i64) -> i64 {
    let rest = micros.rem_euclid(DAY_MICROS) / 1_000_000;
    date_number(micros.div_euclid(DAY_MICROS)) * 1_000_000 + rest / 3600 * 10_000 + rest / 60 % 60 * 100 + rest % 60
}

/// A date as the number MySQL makes of it: 20240105.
pub fn date_number(days: i64) -> i64 {
    let (year, month, day) = civil(days);
    i64::from(year * 10_000 + month * 100 + day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_go_there_and_back() {
        for days in (-719_528..2_932_897).step_by(97) {
            let (y, m, d) = civil(days);
            assert_eq!(day_number(y, m, d), Some(days));
        }
        assert_eq!(day_number(1970, 1, 1), Some(0));
        assert_eq!(day_number(2023, 2, 29), None);
        assert_eq!(day_number(2024, 2, 29), Some(19_782));
    }

    #[test]
    fn datetimes_in_their_spellings() {
        let show = |s: &str| parse_datetime(s).map(|p| format_datetime(p.micros));
        for s in ["2024-01-05 01:02:03", "2024/1/5 1:2:3", "20240105010203", "240105010203", " 2024-01-05T01:02:03 "] {
            assert_eq!(show(s).as_deref(), Some("2024-01-05 01:02:03"), "{s}");
        }
        for s in ["2024-01-05", "20240105", "240105", "24-1-5", "2024-01-05 00:00"] {
            assert_eq!(show(s).as_deref(), Some("2024-01-05 00:00:00"), "{s}");
        }
        assert_eq!(show("2024-01-05 01:02:03.4567891").as_deref(), Some("2024-01-05 01:02:03.456789"));
        assert_eq!(show("2024-01-05 23:59:59.9999999").as_deref(), Some("2024-01-06 00:00:00"));
        assert_eq!(show("9999-12-31 23:59:59.9999999"), None);
        assert_eq!(show("9999-12-31 23:59:59.999999").as_deref(), Some("9999-12-31 23:59:59.999999"));
        let shanghai = |s: &str| parse_datetime_in(s, Zone::Fixed(8 * 3600)).map(|p| format_datetime(p.micros));
        for s in ["2024-01-01T10:00:00Z", "2024-01-01 12:00:00+02:00", "2024-01-01 18:00:00 Asia/Shanghai"] {
            assert_eq!(shanghai(s).as_deref(), Some("2024-01-01 18:00:00"), "{s}");
            assert_eq!(show(s), None, "{s}");
        }
        assert_eq!(shanghai("2024-01-01 10:00:00").as_deref(), Some("2024-01-01 10:00:00"));
        assert_eq!(show("99-1-1").as_deref(), Some("1999-01-01 00:00:00"));
        for s in
            ["", "x", "0000-00-00", "2024-13-01", "2024-02-30", "2024-01-01 24:00:00", "2024-01/05", "2024-01-05x", "1"]
        {
            assert_eq!(show(s), None, "{s}");
        }
        assert_eq!(parse_datetime("1969-12-31 23:59:59").map(|p| p.days()), Some(-1));
    }

    #[test]
    fn numbers() {
        assert_eq!(parse_integer(" 12 "), Some(12));
        assert_eq!(parse_integer("-1.9"), Some(-1));
        assert_eq!(parse_integer("12abc"), None);
        assert_eq!(parse_integer("."), None);
        for (n, s) in [
            (1.0, "1"),
            (0.1, "0.1"),
            (-2.5, "-2.5"),
            (1e15, "1e15"),
            (1e14, "100000000000000"),
            (1e-15, "0.000000000000001"),
            (1e-16, "1e-16"),
        ] {
            assert_eq!(format_double(n), s);
        }
        assert_eq!(datetime_number(parse_datetime("2024-01-05 01:02:03.5").unwrap().micros), 20_240_105_010_203);
    }
}
