//! Conversions between text and values, as MySQL and Doris read and print them.

use std::borrow::Cow;

use crate::functions::datetime::parse;
use crate::functions::datetime::zone::Zone;
use crate::functions::datetime::{self, DAY_MICROS, civil};

/// A point in time read from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parsed {
    /// Microseconds since 1970-01-01 00:00:00, no zone.
    pub micros: i64,
    /// Whether no time of day was written.
    pub is_date_only: bool,
    /// Whether more than six digits of a fraction rounded `micros` up by one microsecond.
    pub is_rounded_up: bool,
}

impl Parsed {
    /// Combines what was written with its `micros`.
    fn of(written: &parse::Written, micros: i64) -> Parsed {
        Parsed { micros, is_date_only: written.is_date_only, is_rounded_up: written.is_rounded_up }
    }

    /// Days since 1970-01-01.
    pub fn days(&self) -> i32 {
        self.micros.div_euclid(DAY_MICROS) as i32
    }

    /// Days since 1970-01-01 of the date that was written: rounding up a time of day does not move it to the next day.
    pub fn written_days(&self) -> i32 {
        (self.micros - i64::from(self.is_rounded_up)).div_euclid(DAY_MICROS) as i32
    }

    /// Whether the time of day is 00:00:00.
    pub fn is_midnight(&self) -> bool {
        self.micros.rem_euclid(DAY_MICROS) == 0
    }
}

/// Reads a date or datetime like [`parse::read`]; `None` for a time followed by a zone.
pub fn parse_datetime(text: &str) -> Option<Parsed> {
    let written = parse::read(text.as_bytes())?;
    written.zone.is_none().then_some(Parsed::of(&written, written.micros))
}

/// Reads a date or datetime like [`parse_datetime`]; a time followed by a zone, such as `2024-01-05T01:02:03Z` or
/// `2024-01-05 01:02:03+08:00`, is moved to `session`.
pub fn parse_datetime_in(text: &str, session: Zone) -> Option<Parsed> {
    let written = parse::read(text.as_bytes())?;
    Some(Parsed::of(&written, written.in_zone(session)?))
}

/// Whether the text is a time followed by a zone.
pub(super) fn has_zone(text: &str) -> bool {
    parse::read(text.as_bytes()).is_some_and(|written| written.zone.is_some())
}

/// Reads a boolean: `true`, `false`, `yes`, `no`, their first letters, `on`, `off`, `1` or `0`.
pub fn parse_boolean(text: &str) -> Option<bool> {
    let s = text.trim();
    let is = |words: &[&str]| words.iter().any(|w| s.eq_ignore_ascii_case(w));
    if is(&["true", "t", "yes", "y", "on", "1"]) {
        Some(true)
    } else {
        is(&["false", "f", "no", "n", "off", "0"]).then_some(false)
    }
}

/// Reads an integer; a fraction is truncated (`'1.9'` is 1), blanks around it do not matter.
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

/// Writes a number with an exponent, such as `1.5e3`, in plain digits, in which decimals are read; text without an
/// exponent is returned as it is. `None` if the text is not a number, or would have more digits than any decimal.
pub fn plain_decimal(text: &str) -> Option<Cow<'_, str>> {
    let Some((number, exponent)) = text.split_once(['e', 'E']) else { return Some(Cow::Borrowed(text)) };
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = [whole, fraction].concat();
    if all.is_empty() || !all.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let exponent: i32 = exponent.parse().ok()?;
    if all.bytes().all(|b| b == b'0') {
        return Some(Cow::Borrowed("0"));
    }
    // The position of the point among the digits.
    let point = i32::try_from(whole.len()).ok()?.checked_add(exponent)?;
    let length = i32::try_from(all.len()).ok()?;
    let zeros = |n: i32| "0".repeat(usize::try_from(n).unwrap_or(0));
    Some(Cow::Owned(match point {
        _ if point < -PLACES_MAX => "0".to_string(),
        _ if point > PLACES_MAX => return None,
        ..=0 => format!("{sign}0.{}{all}", zeros(-point)),
        _ if point < length => {
            let (whole, fraction) = all.split_at(usize::try_from(point).ok()?);
            format!("{sign}{whole}.{fraction}")
        }
        _ => format!("{sign}{all}{}", zeros(point - length)),
    }))
}

/// Shortens the fraction of a number in plain digits to `scale` places and one more, which decides how it is rounded.
/// Arrow reads at most 76 digits.
pub(super) fn cut_fraction(plain: Cow<'_, str>, scale: i8) -> Cow<'_, str> {
    let places = usize::try_from(scale).unwrap_or(0) + 1;
    let longer = plain.split_once('.').filter(|(_, fraction)| fraction.len() > places);
    match longer.filter(|(_, fraction)| fraction.bytes().all(|b| b.is_ascii_digit())) {
        Some((whole, fraction)) => Cow::Owned(format!("{whole}.{}", &fraction[..places])),
        None => plain,
    }
}

/// Limit on the position of the point: further right no decimal holds the number, further left all digits of a decimal
/// are 0.
const PLACES_MAX: i32 = 1000;

/// Reads a double; blanks around it do not matter.
pub fn parse_double(text: &str) -> Option<f64> {
    text.trim().parse().ok()
}

/// Prints a date: `2024-01-05`.
pub fn format_date(days: i64) -> String {
    let mut out = String::new();
    datetime::format_date(&mut out, days);
    out
}

/// Prints a datetime: `2024-01-05 01:02:03`, with a point and six digits if it has a fraction.
pub fn format_datetime(micros: i64) -> String {
    let rest = micros.rem_euclid(DAY_MICROS);
    let (seconds, fraction) = (rest / 1_000_000, rest % 1_000_000);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let date = format_date(micros.div_euclid(DAY_MICROS));
    let mut out = format!("{date} {hour:02}:{minute:02}:{second:02}");
    if fraction != 0 {
        out.push_str(&format!(".{fraction:06}"));
    }
    out
}

/// Prints a datetime with `digits` digits of the second; with `None`, like [`format_datetime`].
pub fn format_datetime_to(micros: i64, digits: Option<u8>) -> String {
    let Some(digits) = digits else { return format_datetime(micros) };
    let fraction = micros.rem_euclid(1_000_000);
    let mut out = format_datetime(micros - fraction);
    if digits > 0 {
        let fraction = format!("{fraction:06}");
        out.push('.');
        out.push_str(&fraction[..usize::from(digits.min(6))]);
    }
    out
}

/// Returns a datetime as the number that MySQL converts it to: 20240105010203. The fraction is dropped.
pub fn datetime_number(micros: i64) -> i64 {
    let rest = micros.rem_euclid(DAY_MICROS) / 1_000_000;
    date_number(micros.div_euclid(DAY_MICROS)) * 1_000_000 + rest / 3600 * 10_000 + rest / 60 % 60 * 100 + rest % 60
}

/// Returns a date as the number that MySQL converts it to: 20240105.
pub fn date_number(days: i64) -> i64 {
    let (year, month, day) = civil(days);
    i64::from(year * 10_000 + month * 100 + day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn years_outside_of_four_digits_have_their_sign() {
        for (days, text) in
            [(0, "1970-01-01"), (-719_528, "0000-01-01"), (-719_529, "-1-12-31"), (2_932_897, "10000-01-01")]
        {
            assert_eq!(format_date(days), text);
            assert_eq!(format_datetime(days * DAY_MICROS), format!("{text} 00:00:00"));
        }
    }
    use crate::functions::datetime::day_number;

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
        for s in ["2024-01-05 01:02:03", "2024/1/5 1:2:3", "20240105010203", " 2024-01-05T01:02:03 ", "20240105T010203"]
        {
            assert_eq!(show(s).as_deref(), Some("2024-01-05 01:02:03"), "{s}");
        }
        for s in ["2024-01-05", "20240105", "240105", "24-1-5", "2024-01-05 00:00", "2024.01.05", "24:01:05"] {
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
        for s in [
            "",
            "x",
            "0000-00-00",
            "2024-13-01",
            "2024-02-30",
            "2024-01-01 24:00:00",
            "2024-01-05x",
            "1",
            "240105010203",
        ] {
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
        for (text, plain) in [
            ("1e3", Some("1000")),
            ("-1.25E+1", Some("-12.5")),
            ("1e-2", Some("0.01")),
            ("+12.5e-3", Some("0.0125")),
            ("0e99999", Some("0")),
            ("1e-99999", Some("0")),
            ("1.5", Some("1.5")),
            ("1e99999", None),
            ("e3", None),
            ("1ex", None),
        ] {
            assert_eq!(plain_decimal(text).as_deref(), plain, "{text}");
        }
        for (text, scale, cut) in
            [("0.0451", 2, "0.045"), ("-1.5", 0, "-1.5"), ("1.25x", 0, "1.25x"), ("7.999", 1, "7.99")]
        {
            assert_eq!(cut_fraction(Cow::Borrowed(text), scale), cut, "{text}");
        }
        assert_eq!(datetime_number(parse_datetime("2024-01-05 01:02:03.5").unwrap().micros), 20_240_105_010_203);
    }
}
