//! Integers.

use super::{ZEROS, all_digits, eight, load8};

/// Returns the value of `bytes[start..end]`, which must be one or more digits and nothing else; `None` for anything
/// else, and if the value exceeds `u64`.
#[inline(always)]
pub fn digits(bytes: &[u8], start: usize, end: usize) -> Option<u64> {
    let len = end.wrapping_sub(start);
    if len.wrapping_sub(1) < 8 {
        if let Some(word) = load8(bytes, end.wrapping_sub(8)) {
            // Bytes before the field become zeros: the field's last byte is the highest of the word.
            let value = (word ^ ZEROS) & (u64::MAX << (64 - 8 * len));
            return if all_digits(value) { Some(eight(value)) } else { None };
        }
    } else if len.wrapping_sub(9) < 8
        && let (Some(high), Some(low)) = (load8(bytes, end.wrapping_sub(16)), load8(bytes, end - 8))
    {
        let high = (high ^ ZEROS) & (u64::MAX << (128 - 8 * len));
        let low = low ^ ZEROS;
        return if all_digits(high) && all_digits(low) { Some(eight(high) * 100_000_000 + eight(low)) } else { None };
    }
    if len.wrapping_sub(17) < 4
        && let (Some(high), Some(middle), Some(low)) =
            (load8(bytes, end.wrapping_sub(24)), load8(bytes, end - 16), load8(bytes, end - 8))
    {
        // 17 to 20 digits: ids and hashes are often that long.
        let high = (high ^ ZEROS) & (u64::MAX << (192 - 8 * len));
        let (middle, low) = (middle ^ ZEROS, low ^ ZEROS);
        if !(all_digits(high) && all_digits(middle) && all_digits(low)) {
            return None;
        }
        let lower = eight(middle) * 100_000_000 + eight(low);
        return eight(high).checked_mul(10_000_000_000_000_000)?.checked_add(lower);
    }
    digits_bytewise(bytes.get(start..end)?)
}

#[inline(never)]
fn digits_bytewise(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    let mut value = 0u64;
    for b in text {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(digit as u64)?;
    }
    Some(value)
}

/// Returns the value of `bytes[start..end]`: an optional sign and digits, nothing else. `None` also if it exceeds
/// `i64`.
#[inline(always)]
pub fn int(bytes: &[u8], start: usize, end: usize) -> Option<i64> {
    let first = *bytes.get(start)?;
    let negative = first == b'-';
    let signed = negative | (first == b'+');
    let value = digits(bytes, start + signed as usize, end)?;
    if value > i64::MAX as u64 {
        return (negative && value == 1 << 63).then_some(i64::MIN);
    }
    Some(if negative { -(value as i64) } else { value as i64 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(pad: usize, text: &str) -> Option<i64> {
        let mut bytes = vec![b'7'; pad];
        bytes.extend_from_slice(text.as_bytes());
        let end = bytes.len();
        bytes.extend_from_slice(b"99");
        int(&bytes, pad, end)
    }

    #[test]
    fn edges() {
        for pad in [0, 3, 40] {
            assert_eq!(at(pad, ""), None);
            assert_eq!(at(pad, "-"), None);
            assert_eq!(at(pad, "+-1"), None);
            assert_eq!(at(pad, "+7"), Some(7));
            assert_eq!(at(pad, "-0"), Some(0));
            assert_eq!(at(pad, "9223372036854775807"), Some(i64::MAX));
            assert_eq!(at(pad, "9223372036854775808"), None);
            assert_eq!(at(pad, "-9223372036854775808"), Some(i64::MIN));
            assert_eq!(at(pad, "-9223372036854775809"), None);
            assert_eq!(at(pad, "000000000000000000000000012"), Some(12));
            assert_eq!(at(pad, "1 "), None);
            assert_eq!(at(pad, "1:"), None);
            assert_eq!(at(pad, "1/"), None);
        }
    }

    proptest! {
        #[test]
        fn equals_std(pad in 0usize..40, text in "[+-]?[0-9:/ .a\u{e9}]{0,22}|[+-]?[0-9]{0,22}") {
            prop_assert_eq!(at(pad, &text), text.parse::<i64>().ok());
        }
    }
}
