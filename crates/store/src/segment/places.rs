//! Bits at the places of other bits: of rows that have a value, of rows that are wanted.
//!
//! Both functions work on a word at a time, and leave out words that are all zeros or all ones.

use arrow_buffer::{BooleanBuffer, Buffer};

/// Returns those of `mask`'s set bits that `chosen` selects; `chosen` has one bit for each set bit of `mask`.
pub(super) fn deposit(mask: &BooleanBuffer, chosen: &BooleanBuffer) -> BooleanBuffer {
    let mut chosen = Words::new(chosen);
    let masks = mask.bit_chunks();
    let words = masks.iter_padded().map(|mask| {
        let bits = chosen.next(mask.count_ones());
        match mask {
            0 | u64::MAX => bits,
            _ if bits == 0 => 0,
            _ => spread(mask, bits),
        }
    });
    let words: Vec<u64> = words.take(mask.len().div_ceil(64)).collect();
    BooleanBuffer::new(Buffer::from_vec(words), 0, mask.len())
}

/// Returns the bits at the places of the set bits of `at`, which has as many bits.
pub(super) fn picked(bits: &BooleanBuffer, at: &BooleanBuffer) -> BooleanBuffer {
    assert_eq!(bits.len(), at.len(), "a bit for each place");
    let len = at.count_set_bits();
    let mut out = Vec::with_capacity(len / 64 + 1);
    let (mut word, mut used) = (0, 0);
    for (bits, at) in bits.bit_chunks().iter_padded().zip(at.bit_chunks().iter_padded()) {
        let count = at.count_ones();
        let packed = match at {
            0 | u64::MAX => bits & at,
            _ if bits & at == 0 => 0,
            _ => gathered(at, bits),
        };
        word |= packed << used;
        used += count;
        if used >= u64::BITS {
            out.push(word);
            used -= u64::BITS;
            // What of the bits did not fit, if anything.
            word = if used == 0 { 0 } else { packed >> (count - used) };
        }
    }
    if used > 0 {
        out.push(word);
    }
    BooleanBuffer::new(Buffer::from_vec(out), 0, len)
}

/// Moves the lowest bits to the places of the set bits of `mask`.
fn spread(mut mask: u64, mut bits: u64) -> u64 {
    let mut out = 0;
    while bits != 0 {
        let place = mask & mask.wrapping_neg();
        out |= place & (bits & 1).wrapping_neg();
        mask ^= place;
        bits >>= 1;
    }
    out
}

/// Moves the bits at the places of the set bits of `mask` to the lowest ones.
fn gathered(mut mask: u64, bits: u64) -> u64 {
    let (mut out, mut at) = (0, 0);
    while mask != 0 {
        let place = mask.trailing_zeros();
        out |= (bits >> place & 1) << at;
        mask &= mask - 1;
        at += 1;
    }
    out
}

/// Bits that are taken some at a time.
struct Words {
    words: Vec<u64>,
    at: usize,
}

impl Words {
    fn new(bits: &BooleanBuffer) -> Self {
        Words { words: bits.bit_chunks().iter_padded().collect(), at: 0 }
    }

    /// Returns the next `count` bits, at most 64, as the lowest ones; zeros behind the end.
    fn next(&mut self, count: u32) -> u64 {
        if count == 0 {
            return 0;
        }
        let (word, shift) = (self.at / 64, self.at as u32 % 64);
        self.at += count as usize;
        let of = |word: usize| self.words.get(word).copied().unwrap_or(0);
        let high = if shift > 0 { of(word + 1) << (64 - shift) } else { 0 };
        (of(word) >> shift | high) & (u64::MAX >> (64 - count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn words_do_what_bits_do() {
        let mut rng = StdRng::seed_from_u64(8);
        for round in 0..3000 {
            let len = [0, 1, 63, 64, 65, 127, 128, 500][round % 8];
            let share = [0.0, 0.02, 0.5, 0.98, 1.0][rng.random_range(0..5)];
            // Some begin within a byte.
            let cut = rng.random_range(0..9);
            let bits = |rng: &mut StdRng, len: usize, share: f64| {
                let all: BooleanBuffer = (0..cut + len).map(|_| rng.random_bool(share)).collect();
                all.slice(cut, len)
            };
            let (mask, values) = (bits(&mut rng, len, share), bits(&mut rng, len, 0.5));
            let found = picked(&values, &mask);
            let wanted: BooleanBuffer = mask.set_indices().map(|row| values.value(row)).collect();
            assert_eq!(found, wanted, "{mask:?} {values:?}");
            let share = [0.0, 0.1, 0.5, 1.0][rng.random_range(0..4)];
            let chosen = bits(&mut rng, mask.count_set_bits(), share);
            let mut wanted = vec![false; len];
            mask.set_indices().zip(&chosen).for_each(|(row, chosen)| wanted[row] = chosen);
            assert_eq!(deposit(&mask, &chosen), BooleanBuffer::from(wanted), "{mask:?} {chosen:?}");
        }
    }
}
