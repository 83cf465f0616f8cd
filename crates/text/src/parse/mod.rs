//! Numbers, dates and times from bytes, without allocation.
//!
//! Functions that take `(bytes, start, end)` read the field `bytes[start..end]` and may load up to 16 bytes before it:
//! machine words are parsed eight digits at a time (SWAR, "SIMD within a register"; the digit arithmetic follows Daniel
//! Lemire, "Quickly parsing eight digits", 2018), with the bytes before the field masked away. Near the start of
//! `bytes` they fall back to a byte at a time, so the result depends on the field alone.

mod date;
mod decimal;
mod float;
mod int;

pub use date::{Civil, date_fixed, days_from_civil, days_in_month, micros, timestamp_fixed};
pub use decimal::{decimal, decimal256};
pub use float::float64;
pub use int::{digits, int};

/// `b"00000000"` as a word.
pub(crate) const ZEROS: u64 = 0x3030_3030_3030_3030;

/// Returns the value of eight decimal digits, given as numbers 0..=9, the first one in the lowest byte.
#[inline(always)]
pub(crate) fn eight(digits: u64) -> u64 {
    const MASK: u64 = 0x0000_00FF_0000_00FF;
    const HUNDREDS: u64 = 100 + (1_000_000 << 32);
    const ONES: u64 = 1 + (10_000 << 32);
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8);
    let high = (pairs & MASK).wrapping_mul(HUNDREDS);
    let low = ((pairs >> 16) & MASK).wrapping_mul(ONES);
    high.wrapping_add(low) >> 32
}

/// Whether each byte of `digits` (a text word XOR [`ZEROS`]) is a number 0..=9.
#[inline(always)]
pub(crate) fn all_digits(digits: u64) -> bool {
    // 9 + 0x76 = 0x7F; anything above sets the high bit or has it already. Bytes below 0x80 do not carry over.
    (digits | digits.wrapping_add(0x7676_7676_7676_7676)) & 0x8080_8080_8080_8080 == 0
}

/// Returns the eight bytes from `at` on as a word, the first one lowest.
#[inline(always)]
pub(crate) fn load8(bytes: &[u8], at: usize) -> Option<u64> {
    let b: [u8; 8] = bytes.get(at..at.wrapping_add(8))?.try_into().ok()?;
    Some(u64::from_le_bytes(b))
}
