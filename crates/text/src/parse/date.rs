//! Dates and times of fixed shape.

use super::{ZEROS, all_digits, load8};

const MICROS_PER_SECOND: i64 = 1_000_000;

/// A date and a time of day, in fields of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Civil {
    /// Proleptic Gregorian year.
    pub year: i32,
    /// 1..=12.
    pub month: u32,
    /// 1..=31.
    pub day: u32,
    /// 0..=23.
    pub hour: u32,
    /// 0..=59.
    pub minute: u32,
    /// 0..=59.
    pub second: u32,
    /// 0..=999_999.
    pub micro: u32,
}

/// Returns the number of days in a month of the proleptic Gregorian calendar; 0 if `month` is not 1..=12.
#[inline(always)]
pub fn days_in_month(year: i32, month: u32) -> u32 {
    const DAYS: [u8; 16] = [0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31, 0, 0, 0];
    let leap = month == 2 && year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    if month > 12 { 0 } else { DAYS[(month & 15) as usize] as u32 + leap as u32 }
}

/// Returns the days from 1970-01-01 to a date of the proleptic Gregorian calendar, years -4800 to 1_000_000.
///
/// This is the Julian day formula with March as the first month, so that the leap day is the last of its year.
#[inline(always)]
pub fn days_from_civil(year: i32, month: u32, day: u32) -> i32 {
    let early = (month < 3) as i32;
    let m = month as i32 + 12 * early - 3;
    let y = year + 4800 - early;
    day as i32 + (153 * m + 2) / 5 + 365 * y + y / 4 - y / 100 + y / 400 - 32_045 - 2_440_588
}

/// Returns the microseconds from 1970-01-01 00:00:00.
#[inline(always)]
pub fn micros(at: Civil) -> i64 {
    let days = days_from_civil(at.year, at.month, at.day) as i64;
    let seconds = days * 86_400 + (at.hour * 3600 + at.minute * 60 + at.second) as i64;
    seconds * MICROS_PER_SECOND + at.micro as i64
}

/// Checks a word against a shape of digits (`0`) and separators and returns the digits as numbers, separators as 0.
#[inline(always)]
fn shaped(word: u64, shape: &[u8; 8]) -> Option<u64> {
    let shape = u64::from_le_bytes(*shape);
    let digits = word ^ shape;
    // A digit may be up to 9, so 0x76 is added; a separator must be equal, so 0x7F is.
    let separators = shape ^ ZEROS;
    let is_separator = ((separators.wrapping_add(0x7F7F_7F7F_7F7F_7F7F)) & 0x8080_8080_8080_8080) >> 7;
    let add = 0x7676_7676_7676_7676 + is_separator * 9;
    if (digits | digits.wrapping_add(add)) & 0x8080_8080_8080_8080 == 0 { Some(digits) } else { None }
}

/// Numbers of two digits: byte `i` of the result is `10 * digits[i] + digits[i + 1]`.
#[inline(always)]
fn pairs(digits: u64) -> u64 {
    digits.wrapping_mul(10).wrapping_add(digits >> 8)
}

#[inline(always)]
fn byte(word: u64, i: u32) -> u32 {
    (word >> (8 * i)) as u8 as u32
}

/// Reads year, month and day of `YYYY-MM-DD` at `at`, with any bytes behind it; checked against the calendar.
#[inline(always)]
fn date_at(bytes: &[u8], at: usize) -> Option<(i32, u32, u32)> {
    let head = pairs(shaped(load8(bytes, at)?, b"0000-00-")?);
    let (tens, ones) = (bytes.get(at + 8)?.wrapping_sub(b'0'), bytes.get(at + 9)?.wrapping_sub(b'0'));
    let year = (byte(head, 0) * 100 + byte(head, 2)) as i32;
    let month = byte(head, 5);
    let day = tens as u32 * 10 + ones as u32;
    if tens > 9 || ones > 9 || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    Some((year, month, day))
}

/// Reads a field that is exactly `YYYY-MM-DD` as days since 1970-01-01; `None` for any other shape and for days that do
/// not exist (callers that accept more shapes try those next).
#[inline(always)]
pub fn date_fixed(bytes: &[u8], start: usize, end: usize) -> Option<i32> {
    if end.wrapping_sub(start) != 10 {
        return None;
    }
    let (year, month, day) = date_at(bytes, start)?;
    Some(days_from_civil(year, month, day))
}

/// Reads a field that is exactly `YYYY-MM-DD HH:MM:SS` (or `T` between) as microseconds since 1970-01-01. It may have a
/// fraction of 1 to 9 digits (cut after the sixth). `None` for any other shape and for times that do not exist.
#[inline(always)]
pub fn timestamp_fixed(bytes: &[u8], start: usize, end: usize) -> Option<i64> {
    let len = end.wrapping_sub(start);
    if !(19..=29).contains(&len) || end > bytes.len() {
        return None;
    }
    let (year, month, day) = date_at(bytes, start)?;
    if !matches!(bytes[start + 10], b' ' | b'T') {
        return None;
    }
    let time = pairs(shaped(load8(bytes, start + 11)?, b"00:00:00")?);
    let (hour, minute, second) = (byte(time, 0), byte(time, 3), byte(time, 6));
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let micro = if len == 19 { 0 } else { fraction(bytes, start + 19, end)? };
    Some(micros(Civil { year, month, day, hour, minute, second, micro }))
}

/// Reads `.` and 1 to 9 digits at `bytes[point..end]` as microseconds.
#[inline(always)]
fn fraction(bytes: &[u8], point: usize, end: usize) -> Option<u32> {
    if bytes[point] != b'.' || end == point + 1 {
        return None;
    }
    let kept = (end - point - 1).min(6);
    // The word that ends with the kept digits begins inside the field, which has 19 bytes before the point.
    let word = load8(bytes, point + 1 + kept - 8)? ^ ZEROS;
    let word = word & (u64::MAX << (64 - 8 * kept));
    if !all_digits(word) || !bytes[point + 1 + kept..end].iter().all(u8::is_ascii_digit) {
        return None;
    }
    const SCALE: [u32; 7] = [1_000_000, 100_000, 10_000, 1_000, 100, 10, 1];
    Some(super::eight(word) as u32 * SCALE[kept])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_day() {
        let mut days = days_from_civil(0, 1, 1);
        assert_eq!(days_from_civil(1970, 1, 1), 0);
        assert_eq!(days, -719_528);
        for year in 0..=9999 {
            for month in 1..=12 {
                for day in 1..=days_in_month(year, month) {
                    let text = format!("{year:04}-{month:02}-{day:02}");
                    assert_eq!(date_fixed(text.as_bytes(), 0, 10), Some(days), "{text}");
                    days += 1;
                }
                let after = format!("{year:04}-{month:02}-{:02}", days_in_month(year, month) + 1);
                assert_eq!(date_fixed(after.as_bytes(), 0, 10), None, "{after}");
            }
        }
        for bad in ["2020-00-01", "2020-13-01", "2020-01-00", "2020/01/01", "202a-01-01", "2020-1-1", "2020-01-1x"] {
            assert_eq!(date_fixed(bad.as_bytes(), 0, bad.len()), None, "{bad}");
        }
    }

    fn naive(text: &str) -> Option<i64> {
        let b = text.as_bytes();
        if b.len() < 19 || b.len() > 29 || !text.is_ascii() {
            return None;
        }
        for (i, shape) in b"0000-00-00 00:00:00".iter().enumerate() {
            let fits = match shape {
                b'0' => b[i].is_ascii_digit(),
                b' ' => matches!(b[i], b' ' | b'T'),
                _ => b[i] == *shape,
            };
            if !fits {
                return None;
            }
        }
        let n = |r: std::ops::Range<usize>| text[r].parse::<u32>().ok();
        let mut at = Civil {
            year: n(0..4)? as i32,
            month: n(5..7)?,
            day: n(8..10)?,
            hour: n(11..13)?,
            minute: n(14..16)?,
            second: n(17..19)?,
            micro: 0,
        };
        if let Some(f) = text.get(19..).filter(|f| !f.is_empty()) {
            let f = f.strip_prefix('.')?;
            if f.is_empty() || !f.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            at.micro = format!("{f:0<9}")[..6].parse().ok()?;
        }
        let real = at.day >= 1 && at.day <= days_in_month(at.year, at.month);
        (real && at.hour < 24 && at.minute < 60 && at.second < 60).then(|| micros(at))
    }

    proptest! {
        #[test]
        fn timestamps(text in "[12][0-9]{3}-[01][0-9]-[0-3][0-9][ T][0-2][0-9]:[0-6][0-9]:[0-6][0-9](\\.[0-9]{0,10})?", at in 0usize..30, to in 0u8..=127) {
            prop_assert_eq!(timestamp_fixed(text.as_bytes(), 0, text.len()), naive(&text));
            // One byte wrong anywhere.
            let mut bytes = text.into_bytes();
            if at < bytes.len() {
                bytes[at] = to;
            }
            let text = String::from_utf8(bytes).unwrap();
            prop_assert_eq!(timestamp_fixed(text.as_bytes(), 0, text.len()), naive(&text));
        }
    }
}
