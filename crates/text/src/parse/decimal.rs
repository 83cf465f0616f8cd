//! Decimal numbers of fixed scale.

use arrow_buffer::i256;

use super::digits;

const POWERS: [u64; 20] = {
    let mut powers = [1u64; 20];
    let mut i = 1;
    while i < 20 {
        powers[i] = powers[i - 1] * 10;
        i += 1;
    }
    powers
};

fn power(exponent: u32) -> Option<i128> {
    10i128.checked_pow(exponent)
}

/// Returns the value of `bytes[start..end]` times 10^`scale`, rounded half away from zero. `None` if the text is no
/// decimal number (optional sign, digits with at most one point, optional exponent) or the result has more than
/// `precision` digits.
///
/// `precision` is 1..=38, `scale` at most `precision`; a negative scale rounds before the point.
#[inline]
pub fn decimal(bytes: &[u8], start: usize, end: usize, precision: u8, scale: i8) -> Option<i128> {
    if (0..=9).contains(&scale) {
        // The usual shape has exactly `scale` digits behind the point: two runs of digits.
        let scale = scale as usize;
        let first = *bytes.get(start)?;
        let negative = first == b'-';
        let begin = start + (negative | (first == b'+')) as usize;
        let point = end.wrapping_sub(scale + 1);
        let value = if scale > 0 && point > begin && point < end && bytes[point] == b'.' && point - begin <= 16 {
            match (digits(bytes, begin, point), digits(bytes, point + 1, end)) {
                (Some(whole), Some(fraction)) => Some(whole as i128 * POWERS[scale] as i128 + fraction as i128),
                _ => None,
            }
        } else {
            None
        };
        if let Some(value) = value {
            let fits = precision > 25 || value < power(precision as u32)?;
            return fits.then_some(if negative { -value } else { value });
        }
    }
    any_shape(bytes.get(start..end)?, precision, scale)
}

/// A decimal number in parts: sign, digits before and behind the point, and exponent.
struct Parts<'a> {
    negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
    exponent: i64,
}

fn parts(text: &[u8]) -> Option<Parts<'_>> {
    let (negative, rest) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    };
    let digits_end = rest.iter().position(|b| matches!(b, b'e' | b'E')).unwrap_or(rest.len());
    let mantissa = &rest[..digits_end];
    let exponent = match rest.get(digits_end + 1..) {
        None if digits_end == rest.len() => 0,
        None => return None,
        Some(e) => std::str::from_utf8(e).ok()?.parse::<i32>().ok()? as i64,
    };
    let point = mantissa.iter().position(|b| *b == b'.');
    let (whole, fraction) = match point {
        Some(p) => (&mantissa[..p], &mantissa[p + 1..]),
        None => (mantissa, &[][..]),
    };
    if whole.is_empty() && fraction.is_empty() || !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
        return None;
    }
    Some(Parts { negative, whole, fraction, exponent })
}

#[inline(never)]
fn any_shape(text: &[u8], precision: u8, scale: i8) -> Option<i128> {
    let value = any_shape256(text, precision, scale)?;
    value.to_i128()
}

fn any_shape256(text: &[u8], precision: u8, scale: i8) -> Option<i256> {
    let Parts { negative, whole, fraction, exponent } = parts(text)?;
    // Only digits worth at least 10^-scale remain. `keep` counts them from the first digit of `whole`.
    let keep = whole.len() as i64 + exponent + scale as i64;
    let ten = i256::from_i128(10);
    let mut value = i256::ZERO;
    let mut significant = 0u32;
    let all = whole.iter().chain(fraction);
    let total = (whole.len() + fraction.len()) as i64;
    for digit in all.take(keep.clamp(0, total) as usize) {
        let digit = digit - b'0';
        if significant > 0 || digit != 0 {
            significant += 1;
            if significant > precision as u32 {
                return None;
            }
        }
        value = value.wrapping_mul(ten).wrapping_add(i256::from_i128(digit as i128));
    }
    if keep > total && significant > 0 {
        let zeros = keep - total;
        if zeros + significant as i64 > precision as i64 {
            return None;
        }
        for _ in 0..zeros {
            value = value.wrapping_mul(ten);
        }
    }
    if (0..total).contains(&keep) {
        let next = whole.iter().chain(fraction).nth(keep as usize)?;
        if *next >= b'5' {
            value = value.wrapping_add(i256::ONE);
            let limit = ten.checked_pow(precision as u32)?;
            if value >= limit {
                return None;
            }
        }
    }
    Some(if negative { value.wrapping_neg() } else { value })
}

/// Reads a number like [`decimal`], with up to 76 digits.
pub fn decimal256(text: &[u8], precision: u8, scale: i8) -> Option<i256> {
    any_shape256(text, precision, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn d(text: &str, precision: u8, scale: i8) -> Option<i128> {
        let padded = format!("{:>40}{text}77", "");
        let a = decimal(padded.as_bytes(), 40, 40 + text.len(), precision, scale);
        let b = decimal(text.as_bytes(), 0, text.len(), precision, scale);
        assert_eq!(a, b, "{text}");
        a
    }

    #[test]
    fn shapes() {
        assert_eq!(d("1.25", 10, 2), Some(125));
        assert_eq!(d("-1.25", 10, 2), Some(-125));
        assert_eq!(d("1.255", 10, 2), Some(126));
        assert_eq!(d("-1.255", 10, 2), Some(-126));
        assert_eq!(d("1", 10, 2), Some(100));
        assert_eq!(d("1.", 10, 2), Some(100));
        assert_eq!(d(".5", 10, 2), Some(50));
        assert_eq!(d("-.5", 10, 0), Some(-1));
        assert_eq!(d(".", 10, 2), None);
        assert_eq!(d("", 10, 2), None);
        assert_eq!(d("+", 10, 2), None);
        assert_eq!(d("1.2.3", 10, 2), None);
        assert_eq!(d("-1.-2", 10, 2), None);
        assert_eq!(d("1e2", 10, 2), Some(10000));
        assert_eq!(d("1.5E-1", 10, 2), Some(15));
        assert_eq!(d("1e", 10, 2), None);
        assert_eq!(d("99999999.99", 10, 2), Some(9_999_999_999));
        assert_eq!(d("99999999.995", 10, 2), None);
        assert_eq!(d("100000000.00", 10, 2), None);
        assert_eq!(d("0000000000000000000000000000000000000000001.00", 10, 2), Some(100));
        assert_eq!(d("0e999999", 10, 2), Some(0));
        assert_eq!(d("1e999999", 10, 2), None);
        assert_eq!(d("1e-999999", 10, 2), Some(0));
        assert_eq!(d("99999999999999999999999999999999999999", 38, 0), 10i128.checked_pow(38).map(|v| v - 1));
        assert_eq!(d("149", 3, -2), Some(1));
        assert_eq!(d("150", 3, -2), Some(2));
    }

    #[test]
    fn large() {
        let text = b"170141183460469231731687303715884105728";
        assert_eq!(decimal256(text, 39, 0).map(|v| v.to_string()).as_deref(), std::str::from_utf8(text).ok());
    }
}
