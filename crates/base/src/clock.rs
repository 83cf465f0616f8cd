//! TIME values: spans of at most 838:59:59 either way in microseconds, their texts and their numbers.
//!
//! An Arrow column of them is `Time64(Microsecond)`. Arrow's own type is a time of day; MySQL's TIME is a span, so
//! values below zero and beyond a day are stored in the same 64 bits. Their order and their equality are those of the
//! numbers. Arrow's conversions to text and to other types know times of day only, so the functions here take their
//! place.

use std::fmt::Write;

/// Microseconds of a second.
const SECOND: i64 = 1_000_000;

/// The longest TIME, 838:59:59.
pub const LONGEST: i64 = 839 * 3600 * SECOND - SECOND;

/// Returns the nearest span that a TIME holds.
#[inline]
pub fn within(micros: i64) -> i64 {
    micros.clamp(-LONGEST, LONGEST)
}

/// Rounds a TIME to `digits` digits of a second, half away from zero.
#[inline]
pub fn rounded(micros: i64, digits: u8) -> i64 {
    let unit = 10_i64.pow(6 - u32::from(digits.min(6)));
    let whole = micros.unsigned_abs().min(LONGEST.unsigned_abs()) as i64;
    within(micros.signum() * ((whole + unit / 2) / unit * unit))
}

/// Reads a TIME: `[-][D ]HH:MM[:SS[.ffffff]]`, `[-]HHMMSS[.ffffff]`; the seventh digit of the fraction rounds. `None`
/// if the text has another form, `Some(None)` if a field of the time is out of range. The hours are not limited to a
/// TIME's.
pub fn read(text: &[u8]) -> Option<Option<i64>> {
    let text = text.trim_ascii();
    let (negative, body) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (whole, micros) = match body.iter().position(|b| *b == b'.') {
        Some(at) => (&body[..at], fraction(&body[at + 1..])?),
        None => (body, 0),
    };
    let (days, clock) = match whole.iter().position(|b| *b == b' ') {
        Some(at) if at <= 2 => (digits(whole, 2).0, whole[at..].trim_ascii_start()),
        _ => (0, whole),
    };
    let seconds = if clock.contains(&b':') {
        let mut fields = [0_i64; 3];
        for (count, part) in clock.split(|b| *b == b':').enumerate() {
            let (value, n) = digits(part, 3);
            if count == 3 || n == 0 || n != part.len() {
                return None;
            }
            fields[count] = value;
        }
        let [h, m, s] = fields;
        if m > 59 || s > 59 {
            return Some(None);
        }
        h * 3600 + m * 60 + s
    } else if !clock.is_empty() && clock.len() <= 7 && clock.iter().all(u8::is_ascii_digit) {
        let v = digits(clock, 7).0;
        let (m, s) = (v / 100 % 100, v % 100);
        if m > 59 || s > 59 {
            return Some(None);
        }
        v / 10_000 * 3600 + m * 60 + s
    } else {
        return None;
    };
    let value = (days * 86_400 + seconds) * SECOND + micros;
    Some(Some(if negative { -value } else { value }))
}

/// Reads a TIME like [`read`]; `None` for text of another form, and for 839 hours and more.
pub fn parse(text: &[u8]) -> Option<i64> {
    read(text).flatten().filter(|time| is_time(*time))
}

/// Whether a span, without its fraction of a second, is one that a TIME holds.
pub fn is_time(micros: i64) -> bool {
    micros.unsigned_abs() < (LONGEST + SECOND).unsigned_abs()
}

/// Reads up to `most` leading digits of `s` as a number; returns it with the number of digits.
fn digits(s: &[u8], most: usize) -> (i64, usize) {
    let n = s.iter().take(most).take_while(|b| b.is_ascii_digit()).count();
    (s[..n].iter().fold(0, |v, b| v * 10 + i64::from(b - b'0')), n)
}

/// Reads a fraction of a second in microseconds; the seventh digit rounds. All bytes must be digits.
fn fraction(s: &[u8]) -> Option<i64> {
    if !s.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let (value, n) = digits(s, 6);
    let rounds_up = s.get(6).is_some_and(|b| *b >= b'5');
    Some(value * 10_i64.pow(6 - n as u32) + i64::from(rounds_up))
}

/// Appends a TIME as `[-]HH:MM:SS`, with a point and `digits` digits of the fraction, 6 at most; the rest is cut off.
/// Without `digits`, all six are written where there is a fraction.
pub fn write(out: &mut String, micros: i64, digits: Option<u8>) {
    let digits = match digits {
        Some(digits) => digits.min(6),
        None if micros % SECOND == 0 => 0,
        None => 6,
    };
    if micros < 0 {
        out.push('-');
    }
    let micros = micros.unsigned_abs();
    let seconds = micros / SECOND.unsigned_abs();
    // Writing into a string does not fail.
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if digits > 0 {
        let fraction = micros % SECOND.unsigned_abs() / 10_u64.pow(6 - u32::from(digits));
        let _ = write!(out, ".{fraction:0width$}", width = usize::from(digits));
    }
}

/// Returns the text of a TIME, see [`write()`].
pub fn text(micros: i64, digits: Option<u8>) -> String {
    let mut out = String::new();
    write(&mut out, micros, digits);
    out
}

/// Returns a TIME as the number that MySQL converts it to, in millionths: 10:15:30.25 is 101530250000.
pub fn number(micros: i64) -> i64 {
    let whole = micros.unsigned_abs() as i64;
    let (seconds, fraction) = (whole / SECOND, whole % SECOND);
    let digits = seconds / 3600 * 10_000 + seconds / 60 % 60 * 100 + seconds % 60;
    micros.signum() * (digits * SECOND + fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_go_there_and_back() {
        for shown in ["00:00:00", "-00:00:01", "10:00:00.250000", "25:00:00", "-838:59:59", "838:59:59"] {
            assert_eq!(text(parse(shown.as_bytes()).unwrap(), None), shown);
        }
        for (given, shown) in [("1 2:3", "26:03:00"), ("101530.5", "10:15:30.500000"), ("7", "00:00:07")] {
            assert_eq!(text(parse(given.as_bytes()).unwrap(), None), shown, "{given}");
        }
        for bad in ["", "x", "10:60:00", "839:00:00", "-839:00:00", "838:59:59.9999999", "1:2:3:4", "2024-01-01"] {
            assert_eq!(parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn digits_round_away_from_zero() {
        let round = |s: &str, digits| text(rounded(parse(s.as_bytes()).unwrap(), digits), Some(digits));
        assert_eq!(round("10:00:00.9", 0), "10:00:01");
        assert_eq!(round("-10:00:00.5", 0), "-10:00:01");
        assert_eq!(round("10:00:00.9996", 3), "10:00:01.000");
        assert_eq!(round("10:00:00.1234", 3), "10:00:00.123");
        assert_eq!(round("838:59:59.9", 0), "838:59:59");
        assert_eq!(rounded(i64::MIN, 0), -LONGEST);
    }

    #[test]
    fn numbers_are_the_digits_of_the_text() {
        let of = |s: &str| number(parse(s.as_bytes()).unwrap());
        assert_eq!(of("10:15:30.25"), 101_530_250_000);
        assert_eq!(of("-100:00:01"), -1_000_001_000_000);
    }
}
