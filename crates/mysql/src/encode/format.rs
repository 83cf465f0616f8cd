//! Text forms of single values.

use arrow_buffer::i256;
use dipper_base::calendar::civil_from_days;

/// `00` to `99`, so that two digits are one copy.
const PAIRS: &[u8; 200] = b"0001020304050607080910111213141516171819\
2021222324252627282930313233343536373839\
4041424344454647484950515253545556575859\
6061626364656667686970717273747576777879\
8081828384858687888990919293949596979899";

fn pair(out: &mut Vec<u8>, value: u32) {
    let at = (value % 100) as usize * 2;
    out.extend_from_slice(&PAIRS[at..at + 2]);
}

pub(super) fn int(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Writes the shortest digits that read back as the same double, in Doris's layout: plain from 0.0001 to below 1e16,
/// with a sign and at least two digits of the exponent outside (`1e+16`, `1.5e-05`). MySQL has no NaN and infinities;
/// they are written as `NaN`, `Infinity`, `-Infinity`, which the drivers' number parsers read.
pub(super) fn double(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        shortest(out, ryu::Buffer::new().format_finite(value));
    } else {
        special(out, value);
    }
}

/// Writes a FLOAT like [`double`]: the shortest digits that read back as the same float.
pub(super) fn float(out: &mut Vec<u8>, value: f32) {
    if value.is_finite() {
        shortest(out, ryu::Buffer::new().format_finite(value));
    } else {
        special(out, f64::from(value));
    }
}

fn special(out: &mut Vec<u8>, value: f64) {
    let text = if value.is_nan() {
        "NaN"
    } else if value > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    };
    out.extend_from_slice(text.as_bytes());
}

/// Converts ryu's layout where it differs: ryu writes `1.0` for 1, and 0.00001 without an exponent.
fn shortest(out: &mut Vec<u8>, text: &str) {
    let (sign, unsigned) = match text.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", text),
    };
    out.extend_from_slice(sign.as_bytes());
    let (mantissa, exponent) = match unsigned.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().unwrap_or(0)),
        None if !unsigned.starts_with("0.0000") => {
            out.extend_from_slice(unsigned.strip_suffix(".0").unwrap_or(unsigned).as_bytes());
            return;
        }
        None => (unsigned, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits = [0u8; 32];
    let mut count = 0;
    for byte in whole.bytes().chain(fraction.bytes()).skip_while(|byte| *byte == b'0') {
        digits[count] = byte;
        count += 1;
    }
    let zeros = whole.len() + fraction.len() - count;
    while count > 1 && digits[count - 1] == b'0' {
        count -= 1;
    }
    let digits = &digits[..count];
    let exponent = exponent + whole.len() as i32 - zeros as i32 - 1;
    out.push(digits[0]);
    if count > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    if exponent.abs() < 10 {
        out.push(b'0');
    }
    int(out, exponent.abs());
}

/// Writes `value` times ten to the power of minus `scale`, with exactly `scale` decimals. A negative scale adds zeros.
pub(super) fn decimal(out: &mut Vec<u8>, value: i128, scale: i8) {
    let mut buffer = itoa::Buffer::new();
    scaled(out, buffer.format(value), scale);
}

pub(super) fn decimal256(out: &mut Vec<u8>, value: i256, scale: i8) {
    match value.to_i128() {
        Some(small) => decimal(out, small, scale),
        None => scaled(out, &value.to_string(), scale),
    }
}

fn scaled(out: &mut Vec<u8>, text: &str, scale: i8) {
    let digits = match text.strip_prefix('-') {
        Some(rest) => {
            out.push(b'-');
            rest.as_bytes()
        }
        None => text.as_bytes(),
    };
    if scale <= 0 {
        out.extend_from_slice(digits);
        if digits != b"0" {
            out.resize(out.len() + usize::from(scale.unsigned_abs()), b'0');
        }
        return;
    }
    let scale = usize::from(scale.unsigned_abs());
    if digits.len() > scale {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        out.extend_from_slice(whole);
        out.push(b'.');
        out.extend_from_slice(fraction);
    } else {
        out.extend_from_slice(b"0.");
        out.resize(out.len() + scale - digits.len(), b'0');
        out.extend_from_slice(digits);
    }
}

/// Writes `2020-01-31`; years outside 0 to 9999 with all their digits and their sign.
pub(super) fn date(out: &mut Vec<u8>, days: i64) {
    let (year, month, day) = civil_from_days(days);
    year_month_day(out, year, month, day);
}

/// Writes a date like [`date`], from its parts.
pub(super) fn year_month_day(out: &mut Vec<u8>, year: i64, month: u32, day: u32) {
    if (0..=9999).contains(&year) {
        pair(out, year as u32 / 100);
        pair(out, year as u32 % 100);
    } else {
        int(out, year);
    }
    out.push(b'-');
    pair(out, month);
    out.push(b'-');
    pair(out, day);
}

/// A point in time in units of `1 / per_second` seconds, split into days, second of the day and nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instant {
    pub days: i64,
    pub second: u32,
    pub nanos: u32,
}

impl Instant {
    pub fn new(value: i64, per_second: i64) -> Self {
        let seconds = value.div_euclid(per_second);
        let rest = value.rem_euclid(per_second);
        Self {
            days: seconds.div_euclid(86_400),
            second: seconds.rem_euclid(86_400) as u32,
            nanos: (rest * (1_000_000_000 / per_second)) as u32,
        }
    }

    pub fn micros(self) -> u32 {
        self.nanos / 1_000
    }
}

/// Writes `2020-01-31 01:02:03` with `digits` (0 to 6) of the fraction, cut, not rounded. More than 6: all six digits
/// if there is a fraction, none if there is not.
pub(super) fn date_time(out: &mut Vec<u8>, value: Instant, digits: u8) {
    date(out, value.days);
    clock(out, value.second, value.micros(), digits);
}

/// Writes the part of [`date_time`] behind the date.
pub(super) fn clock(out: &mut Vec<u8>, second: u32, micros: u32, digits: u8) {
    out.push(b' ');
    pair(out, second / 3600);
    out.push(b':');
    pair(out, second / 60 % 60);
    out.push(b':');
    pair(out, second % 60);
    fraction(out, micros, digits);
}

fn fraction(out: &mut Vec<u8>, micros: u32, digits: u8) {
    if digits == 0 || (digits > 6 && micros == 0) {
        return;
    }
    out.push(b'.');
    let start = out.len();
    pair(out, micros / 10_000);
    pair(out, micros / 100 % 100);
    pair(out, micros % 100);
    out.truncate(start + usize::from(digits.min(6)));
}

/// Writes a span of seconds as MySQL's TIME: `-34:05:06`; hours have two or more digits.
pub(super) fn time(out: &mut Vec<u8>, negative: bool, seconds: u64, micros: u32, digits: u8) {
    if negative {
        out.push(b'-');
    }
    let hours = seconds / 3600;
    if hours < 100 {
        pair(out, hours as u32);
    } else {
        int(out, hours);
    }
    out.push(b':');
    pair(out, (seconds / 60 % 60) as u32);
    out.push(b':');
    pair(out, (seconds % 60) as u32);
    fraction(out, micros, digits);
}

/// Writes a signed span in units of `1 / per_second` seconds; the fraction only if there is one.
pub(super) fn duration(out: &mut Vec<u8>, value: i64, per_second: u64) {
    let magnitude = value.unsigned_abs();
    let rest = magnitude % per_second;
    let micros = (rest * (1_000_000_000 / per_second) / 1_000) as u32;
    time(out, value < 0, magnitude / per_second, micros, if rest == 0 { 0 } else { 6 });
}

/// Writes `1 year 2 mons 3 days 04:05:06.5`: the parts that are not zero, each with its sign; `00:00:00` if all are.
pub(super) fn interval(out: &mut Vec<u8>, months: i32, days: i32, nanos: i64) {
    let start = out.len();
    let mut part = |value: i32, one: &str, many: &str| {
        if value != 0 {
            if out.len() > start {
                out.push(b' ');
            }
            int(out, value);
            out.push(b' ');
            out.extend_from_slice(if value.abs() == 1 { one } else { many }.as_bytes());
        }
    };
    part(months / 12, "year", "years");
    part(months % 12, "mon", "mons");
    part(days, "day", "days");
    if nanos != 0 || out.len() == start {
        if out.len() > start {
            out.push(b' ');
        }
        duration(out, nanos, 1_000_000_000);
    }
}

/// Writes a string inside a list, map or struct: quoted, with JSON's escapes.
pub(super) fn quoted(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.push(b'"');
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=0x1f => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Writes bytes inside a list, map or struct as `"0xABCD"`, because they may not be text.
pub(super) fn quoted_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(b"\"0x");
    for &byte in bytes {
        out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn doubles_look_as_in_doris() {
        for (value, expected) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (100.0, "100"),
            (0.1, "0.1"),
            (123_456.789, "123456.789"),
            (1e14, "100000000000000"),
            (1.5e15, "1500000000000000"),
            (123_456_789_012_345.6, "123456789012345.6"),
            (1_234_567_890_123_456.0, "1234567890123456"),
            (1e16, "1e+16"),
            (1.797_693_134_862_315_7e308, "1.7976931348623157e+308"),
            (0.0001, "0.0001"),
            (1e-5, "1e-05"),
            (0.000_012_5, "1.25e-05"),
            (1.25e-7, "1.25e-07"),
            (1e-15, "1e-15"),
            (-2.5e-20, "-2.5e-20"),
            (5e-324, "5e-324"),
            (f64::NAN, "NaN"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(text(|out| double(out, value)), expected);
        }
        assert_eq!(text(|out| float(out, 0.1)), "0.1");
        assert_eq!(text(|out| float(out, 16_777_216.0)), "16777216");
        assert_eq!(text(|out| float(out, 3e20)), "3e+20");
    }

    #[test]
    fn decimals_keep_their_scale() {
        assert_eq!(text(|out| decimal(out, 125, 2)), "1.25");
        assert_eq!(text(|out| decimal(out, -5, 3)), "-0.005");
        assert_eq!(text(|out| decimal(out, 0, 2)), "0.00");
        assert_eq!(text(|out| decimal(out, -12, 0)), "-12");
        assert_eq!(text(|out| decimal(out, 12, -3)), "12000");
        assert_eq!(text(|out| decimal(out, i128::MIN, 0)), "-170141183460469231731687303715884105728");
        let big = i256::from_string("123456789012345678901234567890123456789012345").unwrap();
        assert_eq!(text(|out| decimal256(out, big, 5)), "1234567890123456789012345678901234567890.12345");
    }

    #[test]
    fn spans_and_intervals() {
        assert_eq!(text(|out| duration(out, -3_723_500_000, 1_000_000)), "-01:02:03.500000");
        assert_eq!(text(|out| duration(out, 360_000, 1)), "100:00:00");
        assert_eq!(text(|out| duration(out, i64::MIN, 1_000_000_000)), "-2562047:47:16.854775");
        assert_eq!(text(|out| interval(out, 14, -1, 1_500_000_000)), "1 year 2 mons -1 day 00:00:01.500000");
        assert_eq!(text(|out| interval(out, 0, 0, 0)), "00:00:00");
        assert_eq!(text(|out| interval(out, 0, 5, 0)), "5 days");
    }

    #[test]
    fn strings_inside_lists_are_escaped() {
        assert_eq!(text(|out| quoted(out, "a\"b\\c\n\u{1}é".as_bytes())), "\"a\\\"b\\\\c\\n\\u0001é\"");
        assert_eq!(text(|out| quoted_hex(out, &[0xab, 1])), "\"0xAB01\"");
    }

    #[test]
    fn dates_of_all_years() {
        assert_eq!(text(|out| date(out, 0)), "1970-01-01");
        assert_eq!(text(|out| date(out, -719_528)), "0000-01-01");
        assert_eq!(text(|out| date(out, 3_000_000)), "10183-09-21");
        assert_eq!(text(|out| date_time(out, Instant::new(-1, 1_000_000), 3)), "1969-12-31 23:59:59.999");
        assert_eq!(text(|out| date_time(out, Instant::new(i64::MAX, 1), 0)).len(), "292277026596-12-04 15:30:07".len());
    }

    proptest! {
        #[test]
        fn numbers_read_back_as_themselves(bits: u64, small: u32, value: i128, scale in 0i8..39) {
            let number = f64::from_bits(bits);
            if number.is_finite() {
                prop_assert_eq!(text(|out| double(out, number)).parse::<f64>().unwrap().to_bits(), bits);
            }
            let number = f32::from_bits(small);
            if number.is_finite() {
                prop_assert_eq!(text(|out| float(out, number)).parse::<f32>().unwrap().to_bits(), small);
            }
            let written = text(|out| decimal(out, value, scale));
            let digits: String = written.chars().filter(|&char| char != '.').collect();
            prop_assert_eq!(digits.parse::<i128>().unwrap(), value);
            prop_assert_eq!(written.len() - written.find('.').map_or(written.len(), |at| at + 1), scale as usize);
        }
    }
}
