//! The hash of a key.

/// Odd constants with about as many ones as zeros.
const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
const SEED: u64 = 0xD6E8_FEB8_6659_FD93;

/// Multiplies to 128 bits and folds the halves, so that each bit of the result depends on all bits of both numbers.
#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

/// Returns the hash before the first word of a key.
#[inline(always)]
pub(super) fn begin(nulls: u64) -> u64 {
    SEED ^ nulls
}

/// Returns the hash after one word more.
#[inline(always)]
pub(super) fn mix(hash: u64, word: u64) -> u64 {
    fold(hash ^ word, FACTOR).wrapping_add(word.rotate_left(32))
}

/// Returns the hash after the last word.
#[inline(always)]
pub(super) fn finish(hash: u64) -> u64 {
    fold(hash ^ (hash >> 32), SEED)
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Returns a hash of more than eight bytes.
#[inline]
pub(super) fn bytes(bytes: &[u8]) -> u64 {
    let mut hash = SEED ^ bytes.len() as u64;
    let mut at = 0;
    while at + 16 <= bytes.len() {
        hash = fold(word(bytes, at) ^ FACTOR, word(bytes, at + 8) ^ hash);
        at += 16;
    }
    // The last bytes, some of them a second time.
    let end = bytes.len();
    fold(word(bytes, end.saturating_sub(16).min(end - 8)) ^ FACTOR, word(bytes, end - 8) ^ hash)
}
