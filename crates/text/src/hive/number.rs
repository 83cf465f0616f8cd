//! Numbers and booleans as Hive's lazy types read them.
//!
//! Each function takes the raw bytes of a field and returns `None` where Hive returns NULL. Escapes are not removed
//! first: Hive does not remove them either.

/// Hive's check before parsing: bytes that cannot be a number are NULL without being parsed. The odd rule is the last
/// one: four bytes that begin with an N (`NULL`) are no number, which also excludes `NaN` followed by a blank.
#[inline]
fn may_be_number(bytes: &[u8]) -> bool {
    match bytes {
        [] => false,
        [a] => a.is_ascii_digit(),
        [a, b] => a.is_ascii_digit() || b.is_ascii_digit(),
        [first, _, _, _] => !matches!(first, b'N' | b'n'),
        _ => true,
    }
}

/// Parses `tinyint` to `bigint`: digits with an optional sign. A fraction must be digits and is cut off before the
/// range check (`1.9` is 1, `127.9` fits a tinyint). Blanks and exponents are not allowed.
///
/// ```
/// use dipper_text::hive::number::parse_int;
/// assert_eq!(parse_int::<i8>(b"127.9"), Some(127));
/// assert_eq!(parse_int::<i8>(b"128"), None);
/// assert_eq!(parse_int::<i32>(b"-.5"), Some(0));
/// ```
#[inline]
pub fn parse_int<T: TryFrom<i64>>(bytes: &[u8]) -> Option<T> {
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    };
    let mut value: u64 = 0;
    let mut at = 0;
    // Up to 18 digits cannot overflow, and nearly all numbers have no more.
    let safe = digits.len().min(18);
    while at < safe {
        let digit = digits[at].wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value * 10 + u64::from(digit);
        at += 1;
    }
    if at == digits.len() && at > 0 {
        let value = value as i64;
        return T::try_from(if negative { -value } else { value }).ok();
    }
    parse_int_rest(bytes, negative, digits, value, at)
}

/// The slow part of [`parse_int`]: long digit strings and fractions.
#[cold]
fn parse_int_rest<T: TryFrom<i64>>(
    bytes: &[u8],
    negative: bool,
    digits: &[u8],
    mut value: u64,
    mut at: usize,
) -> Option<T> {
    while let Some(digit) = digits.get(at).filter(|b| b.is_ascii_digit()) {
        value = value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        at += 1;
    }
    if at < digits.len() {
        if digits[at] != b'.' || !digits[at + 1..].iter().all(u8::is_ascii_digit) {
            return None;
        }
        // A single point, signed or not, is no number.
        if digits.len() == 1 {
            return None;
        }
    } else if digits.is_empty() || !may_be_number(bytes) {
        return None;
    }
    let value = if negative { 0i64.checked_sub_unsigned(value)? } else { i64::try_from(value).ok()? };
    T::try_from(value).ok()
}

/// A binary floating-point type with Java's parser.
pub trait JavaFloat: fast_float2::FastFloat + Copy {
    /// Not a number.
    const NOT_A_NUMBER: Self;
    /// Positive infinity.
    const INFINITE: Self;
    /// Bits of the significand, the implicit one included.
    const PRECISION: i32;
    /// Exponent of the smallest normal number.
    const EXPONENT_MIN: i32;
    /// Returns `significand * 2^exponent`, exactly; both fit by construction.
    fn compose(significand: u64, exponent: i32) -> Self;
    /// Returns the number with the other sign.
    fn negate(self) -> Self;
}

impl JavaFloat for f64 {
    const NOT_A_NUMBER: f64 = f64::NAN;
    const INFINITE: f64 = f64::INFINITY;
    const PRECISION: i32 = 53;
    const EXPONENT_MIN: i32 = -1022;
    fn compose(significand: u64, exponent: i32) -> f64 {
        // In two steps: 2^-1074 times a significand is exact, 2^-1074 alone as a factor may be subnormal.
        let half = exponent / 2;
        significand as f64 * 2f64.powi(half) * 2f64.powi(exponent - half)
    }
    fn negate(self) -> f64 {
        -self
    }
}

impl JavaFloat for f32 {
    const NOT_A_NUMBER: f32 = f32::NAN;
    const INFINITE: f32 = f32::INFINITY;
    const PRECISION: i32 = 24;
    const EXPONENT_MIN: i32 = -126;
    fn compose(significand: u64, exponent: i32) -> f32 {
        // Exact in f64, and the significand has at most 24 bits at an exponent that f32 has.
        f64::compose(significand, exponent) as f32
    }
    fn negate(self) -> f32 {
        -self
    }
}

/// Parses `float` and `double` like Java's `parseFloat` and `parseDouble`. White space around, a `d` or `f` behind and
/// hexadecimal floats are accepted; `NaN` and `Infinity` only in this spelling, signs allowed. Overflow is infinity,
/// underflow is 0.
///
/// ```
/// use dipper_text::hive::number::parse_float;
/// assert_eq!(parse_float::<f64>(b" 1.5d "), Some(1.5));
/// assert_eq!(parse_float::<f64>(b"0x1.8p1"), Some(3.0));
/// assert_eq!(parse_float::<f32>(b"1e400"), Some(f32::INFINITY));
/// assert_eq!(parse_float::<f64>(b"inf"), None);
/// ```
#[inline]
pub fn parse_float<T: JavaFloat>(bytes: &[u8]) -> Option<T> {
    // A text that ends in a digit is none of the words that the fast parser knows and Java does not.
    if let Some(b'0'..=b'9') = bytes.last()
        && let Ok(value) = fast_float2::parse::<T, _>(bytes)
    {
        return Some(value);
    }
    parse_float_slow(bytes)
}

#[cold]
fn parse_float_slow<T: JavaFloat>(bytes: &[u8]) -> Option<T> {
    if !may_be_number(bytes) {
        return None;
    }
    let text = trim(bytes);
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let value = match text {
        b"NaN" => T::NOT_A_NUMBER,
        b"Infinity" => T::INFINITE,
        [b'0', b'x' | b'X', hex @ ..] => parse_hex(hex)?,
        [digits @ .., b'd' | b'D' | b'f' | b'F'] => parse_decimal_float(digits)?,
        digits => parse_decimal_float(digits)?,
    };
    Some(if negative { value.negate() } else { value })
}

/// Parses digits, point and exponent, without a sign.
fn parse_decimal_float<T: JavaFloat>(digits: &[u8]) -> Option<T> {
    match (digits.first(), digits.last()) {
        (Some(b'0'..=b'9' | b'.'), Some(b'0'..=b'9' | b'.')) => fast_float2::parse::<T, _>(digits).ok(),
        _ => None,
    }
}

/// Parses the text behind `0x`: digits with at most one point, then a mandatory binary exponent, then optionally `d` or
/// `f`. Rounded half to even.
fn parse_hex<T: JavaFloat>(hex: &[u8]) -> Option<T> {
    let p = hex.iter().position(|b| matches!(b, b'p' | b'P'))?;
    let (digits, exponent) = (&hex[..p], &hex[p + 1..]);
    let exponent = match exponent {
        [rest @ .., b'd' | b'D' | b'f' | b'F'] => rest,
        all => all,
    };
    let (exponent_negative, exponent) = match exponent {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, exponent),
    };
    if exponent.is_empty() || !exponent.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // The exponent is clamped far outside every range: the significand's length is below 2^30.
    let exponent = exponent.iter().fold(0i64, |n, b| (n * 10 + i64::from(b - b'0')).min(1 << 40));
    let mut exponent = if exponent_negative { -exponent } else { exponent };

    let (mut significand, mut sticky, mut any, mut point) = (0u64, false, false, false);
    for &b in digits {
        let digit = match b {
            b'.' if !point => {
                point = true;
                continue;
            }
            _ => char::from(b).to_digit(16)?,
        };
        any = true;
        if significand >> 60 == 0 {
            significand = significand << 4 | u64::from(digit);
            exponent -= if point { 4 } else { 0 };
        } else {
            sticky |= digit != 0;
            exponent += if point { 0 } else { 4 };
        }
    }
    // `0x.p1` has no digit, `0x1.p1` has one.
    if !any {
        return None;
    }
    if significand == 0 {
        return Some(T::compose(0, 0));
    }
    let top = exponent + 63 - i64::from(significand.leading_zeros());
    if top > 1 - i64::from(T::EXPONENT_MIN) {
        return Some(T::INFINITE);
    }
    // The weight of the last bit kept; subnormal numbers keep fewer.
    let last = (top - i64::from(T::PRECISION) + 1).max(i64::from(T::EXPONENT_MIN - T::PRECISION + 1));
    let drop = last - exponent;
    let rounded = match drop {
        i64::MIN..=0 => significand << -drop,
        1..=63 => {
            let kept = significand >> drop;
            let (rest, half) = (significand & ((1 << drop) - 1), 1u64 << (drop - 1));
            kept + u64::from(rest > half || (rest == half && (sticky || kept & 1 == 1)))
        }
        // Below half of the smallest number. With exactly 64 bits dropped, only a significand above 2^63 exceeds that
        // half.
        64 => u64::from(significand > 1 << 63 || (significand == 1 << 63 && sticky)),
        _ => 0,
    };
    // Rounding up to the next power of two may leave the range.
    if rounded >> T::PRECISION != 0 && top == 1 - i64::from(T::EXPONENT_MIN) {
        return Some(T::INFINITE);
    }
    Some(T::compose(rounded, last as i32))
}

/// Java's `String.trim`: removes all bytes up to U+0020 at both ends.
#[inline]
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [0..=b' ', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., 0..=b' '] = bytes {
        bytes = rest;
    }
    bytes
}

/// Whether Java takes this ASCII byte for white space.
fn is_white(byte: &u8) -> bool {
    matches!(byte, b'\t'..=b'\r' | 0x1C..=b' ')
}

/// Removes white space at both ends; unlike [`trim`], control characters stay.
fn strip(bytes: &[u8]) -> &[u8] {
    let start = bytes.iter().position(|byte| !is_white(byte)).unwrap_or(bytes.len());
    let end = bytes.iter().rposition(|byte| !is_white(byte)).map_or(start, |at| at + 1);
    &bytes[start..end]
}

/// Parses `boolean`: `true` and `false` in any case; `extended` adds `1 0 t f T F`.
#[inline]
pub fn parse_bool(bytes: &[u8], extended: bool) -> Option<bool> {
    match bytes.len() {
        4 if bytes.eq_ignore_ascii_case(b"true") => Some(true),
        5 if bytes.eq_ignore_ascii_case(b"false") => Some(false),
        1 if extended => match bytes[0] {
            b'1' | b't' | b'T' => Some(true),
            b'0' | b'f' | b'F' => Some(false),
            _ => None,
        },
        _ => None,
    }
}

const DIGITS_MAX: u32 = 38;

/// Parses `decimal(precision, scale)` as its unscaled value: rounded half away from zero to `scale`, `None` if the
/// result exceeds `precision`. Blanks around are dropped, exponents of up to two digits are accepted.
///
/// Hive first rounds to 38 digits and only then to the scale; so does this function.
///
/// ```
/// use dipper_text::hive::number::parse_decimal;
/// assert_eq!(parse_decimal(b"1.235", 5, 2), Some(124));
/// assert_eq!(parse_decimal(b"-1e1", 5, 2), Some(-1000));
/// assert_eq!(parse_decimal(b"1000", 5, 2), None);
/// ```
#[inline]
pub fn parse_decimal(bytes: &[u8], precision: u8, scale: i8) -> Option<i128> {
    debug_assert!((1..=38).contains(&precision) && (0..=precision as i8).contains(&scale));
    let (negative, digits) = match bytes {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, bytes),
    };
    // The usual shape: up to 18 digits with a point among or before them, a digit at both ends.
    let number = if digits.len() <= 19 { short_decimal(digits) } else { None };
    let number = match number {
        Some(number) => Decimal { negative, ..number },
        None => Decimal::parse(bytes)?,
    };
    number.fit(u32::from(precision), scale as u32)
}

#[inline]
fn short_decimal(digits: &[u8]) -> Option<Decimal> {
    let (mut value, mut point) = (0u64, None);
    for (i, &b) in digits.iter().enumerate() {
        let digit = b.wrapping_sub(b'0');
        if digit <= 9 {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
        } else if b == b'.' && point.is_none() && i > 0 {
            point = Some(i);
        } else {
            return None;
        }
    }
    let scale = match point {
        None if digits.is_empty() || digits.len() > 18 => return None,
        None => 0,
        Some(point) => digits.len() - point - 1,
    };
    Some(Decimal { negative: false, value: u128::from(value), scale: scale as u32 })
}

/// `value / 10^scale`, with at most 38 digits before and after the point together.
#[derive(Clone, Copy)]
struct Decimal {
    negative: bool,
    value: u128,
    scale: u32,
}

/// Returns the number of digits of `value`; 0 has none.
fn digit_count(value: u128) -> u32 {
    value.checked_ilog10().map_or(0, |n| n + 1)
}

/// Returns `value / 10^digits`, rounded half up by the first dropped digit.
fn round_off(value: u128, digits: u32) -> u128 {
    match digits {
        0 => value,
        1..=DIGITS_MAX => (value / 10u128.pow(digits - 1) + 5) / 10,
        _ => 0,
    }
}

impl Decimal {
    /// Returns the number of digits before the point, without leading zeros.
    fn integer_digits(&self) -> u32 {
        digit_count(self.value).saturating_sub(self.scale)
    }

    fn strip_zeros(&mut self) {
        while self.scale > 0 && self.value.is_multiple_of(10) {
            self.value /= 10;
            self.scale -= 1;
        }
    }

    fn parse(bytes: &[u8]) -> Option<Decimal> {
        let text = strip(bytes);
        let blank_behind = bytes.last().is_some_and(is_white);
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            _ => (false, text),
        };
        let digits_until = |from: usize| {
            text[from..].iter().position(|b| !b.is_ascii_digit()).map_or(text.len(), |length| from + length)
        };
        let integer = digits_until(0);
        let (mut value, mut digits) = (0u128, 0);
        for b in text[..integer].iter().skip_while(|b| **b == b'0') {
            digits += 1;
            if digits > DIGITS_MAX {
                return None;
            }
            value = value * 10 + u128::from(b - b'0');
        }
        let (mut at, mut scale, mut up) = (integer, 0, false);
        if text.get(at) == Some(&b'.') {
            let end = digits_until(at + 1);
            if integer == 0 && end == at + 1 {
                return None;
            }
            for b in &text[at + 1..end] {
                if digits == DIGITS_MAX {
                    up = *b >= b'5';
                    break;
                }
                digits += 1;
                scale += 1;
                value = value * 10 + u128::from(b - b'0');
            }
            at = end;
        } else if integer == 0 {
            return None;
        }
        value += u128::from(up);
        if value == 10u128.pow(DIGITS_MAX) && scale == 0 {
            return None;
        }
        let mut number = Decimal { negative, value, scale };
        number.strip_zeros();
        match text.get(at) {
            None => Some(number),
            Some(b'e' | b'E') => number.shift(exponent(&text[at + 1..], blank_behind)?),
            Some(_) => None,
        }
    }

    /// Multiplies by `10^power`. Hive refuses a result beyond 38 digits to the left and rounds off digits beyond 38 to
    /// the right.
    fn shift(mut self, power: i32) -> Option<Decimal> {
        if self.value == 0 {
            return Some(self);
        }
        if power >= 0 {
            let power = power as u32;
            let room = match self.integer_digits() {
                0 => DIGITS_MAX + self.scale - digit_count(self.value),
                digits => DIGITS_MAX.saturating_sub(digits),
            };
            if power > room {
                return None;
            }
            self.value = self.value.checked_mul(10u128.checked_pow(power.saturating_sub(self.scale))?)?;
            self.scale = self.scale.saturating_sub(power);
        } else {
            self.scale += power.unsigned_abs();
            if self.scale > DIGITS_MAX {
                let drop = self.scale - DIGITS_MAX;
                self.value = if drop < DIGITS_MAX { round_off(self.value, drop) } else { 0 };
                self.scale = DIGITS_MAX;
            }
        }
        Some(self)
    }

    #[inline]
    fn fit(self, precision: u32, scale: u32) -> Option<i128> {
        let value = if self.scale > scale {
            round_off(self.value, self.scale - scale)
        } else {
            self.value.checked_mul(10u128.pow(scale - self.scale))?
        };
        if value >= 10u128.pow(precision) {
            return None;
        }
        Some(if self.negative { -(value as i128) } else { value as i128 })
    }
}

/// Parses the digits of an exponent with their sign; more than two significant digits are refused, even for zero. No
/// digits are an exponent of 0 if a blank follows: Hive only checks that the text goes on.
fn exponent(text: &[u8], blank_behind: bool) -> Option<i32> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    if (digits.is_empty() && !blank_behind) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let mut value = 0;
    for (i, b) in digits.iter().skip_while(|b| **b == b'0').enumerate() {
        if i == 2 {
            return None;
        }
        value = value * 10 + i32::from(b - b'0');
    }
    Some(if negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ints() {
        for (text, expected) in [
            ("9223372036854775807", Some(i64::MAX)),
            ("9223372036854775807.99", Some(i64::MAX)),
            ("9223372036854775808", None),
            ("-9223372036854775808", Some(i64::MIN)),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("000000000000000000000000000012", Some(12)),
            ("", None),
            ("-", None),
            (".", None),
            ("-.", None),
            ("5.", Some(5)),
            ("-.5", Some(0)),
            ("..", None),
            ("1.x", None),
            (" 1", None),
        ] {
            assert_eq!(parse_int::<i64>(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn floats() {
        for (text, expected) in [
            ("0x1p-1074", Some(5e-324)),
            ("0x1p-1075", Some(0.0)),
            ("0x1.8p-1075", Some(5e-324)),
            ("0x1.fffffffffffffp1023", Some(f64::MAX)),
            ("0x1.fffffffffffff8p1023", Some(f64::INFINITY)),
            ("0x1.fffffffffffff7ffffp1023", Some(f64::MAX)),
            ("0x1p99999999999999999999", Some(f64::INFINITY)),
            ("0x1p-99999999999999999999", Some(0.0)),
            ("0x.8p1d", Some(1.0)),
            ("0x1.p1", Some(2.0)),
            ("0x.p1", None),
            ("0x1", None),
            ("0x1p", None),
            ("-0x10p0", Some(-16.0)),
            ("1e5f", Some(1e5)),
            ("1.5fd", None),
            ("1.5 f", None),
            ("5.", Some(5.0)),
            (".5d", Some(0.5)),
            (".", None),
            (".d", None),
            ("NaN ", None),
            ("Infinityd", None),
            ("+-1", None),
            ("1e", None),
            ("infinity", None),
        ] {
            assert_eq!(parse_float::<f64>(text.as_bytes()), expected, "{text:?}");
        }
        assert!(parse_float::<f64>(b" NaN").unwrap().is_nan());
        assert_eq!(parse_float::<f32>(b"0x1.000001p0"), Some(1.0));
        assert_eq!(parse_float::<f32>(b"0x1.0000011p0"), Some(1.0000001));
        assert_eq!(parse_float::<f32>(b"0x1p-149"), Some(1e-45));
        assert_eq!(parse_float::<f32>(b"0x1p128"), Some(f32::INFINITY));
    }

    #[test]
    fn decimals() {
        for (text, precision, scale, expected) in [
            ("0.49999999999999999999999999999999999999999", 1, 0, Some(1)),
            ("99999999999999999999999999999999999999.5", 38, 0, None),
            ("9.99999999999999999999999999999999999999", 38, 0, Some(10)),
            (".5", 2, 1, Some(5)),
            (".5e1", 2, 1, Some(50)),
            (".e1", 2, 1, None),
            ("\u{1c} .5\t", 2, 1, Some(5)),
            ("\u{7}.5", 2, 1, None),
            ("5e ", 2, 1, Some(50)),
            ("5e+\t", 2, 1, Some(50)),
            ("5e", 2, 1, None),
            ("5 e1", 2, 1, None),
            ("0.5e1", 2, 1, Some(50)),
            ("5.e0", 2, 1, Some(50)),
            ("1e-99", 2, 1, Some(0)),
            ("1e-100", 2, 1, None),
            ("0e100", 2, 1, None),
            ("1e0002", 5, 0, Some(100)),
            ("1e38", 38, 0, None),
            ("1e37", 38, 0, Some(10i128.pow(37))),
            ("0.001e40", 38, 0, Some(10i128.pow(37))),
            ("0.001e41", 38, 0, None),
            ("-0.05", 3, 1, Some(-1)),
            ("1.5e", 3, 1, None),
            ("+1.5", 3, 1, Some(15)),
            ("12345678901234567890.5", 38, 2, Some(1234567890123456789050)),
        ] {
            assert_eq!(parse_decimal(text.as_bytes(), precision, scale), expected, "{text}");
        }
    }
}
