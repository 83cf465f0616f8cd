//! The primitives in 64-bit words, for machines without any of the instruction sets, and as the reference in tests.

use super::kernel::{self, Carry, Isa, bind};
use super::{Counts, Found, Index, Shape, Side};

struct Words;

const ONES: u64 = 0x0101_0101_0101_0101;
const LOW7: u64 = 0x7F7F_7F7F_7F7F_7F7F;

impl Isa for Words {
    type Block = [u64; 8];

    #[inline(always)]
    unsafe fn load(bytes: *const u8) -> [u64; 8] {
        // SAFETY: the caller guarantees 64 readable bytes; `[u8; 64]` has no alignment.
        let bytes = unsafe { bytes.cast::<[u8; 64]>().read_unaligned() };
        let mut words = [0; 8];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(chunk.try_into().expect("eight bytes"));
        }
        words
    }

    #[inline(always)]
    unsafe fn prefetch(_at: *const u8) {}

    #[inline(always)]
    unsafe fn eq(block: [u64; 8], byte: u8) -> u64 {
        let pattern = ONES * byte as u64;
        let mut mask = 0;
        for (i, word) in block.iter().enumerate() {
            let x = word ^ pattern;
            // The high bit of each byte is clear exactly where the byte is zero; nothing carries between bytes.
            let zero = !(((x & LOW7) + LOW7) | x | LOW7);
            // Gathers the eight high bits: each product term lands on its own bit of the top byte.
            mask |= ((zero >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * i);
        }
        mask
    }

    #[inline(always)]
    unsafe fn prefix_xor(mut bits: u64) -> u64 {
        bits ^= bits << 1;
        bits ^= bits << 2;
        bits ^= bits << 4;
        bits ^= bits << 8;
        bits ^= bits << 16;
        bits ^= bits << 32;
        bits
    }

    #[inline(always)]
    unsafe fn positions(mut bits: u64, base: u32, mut out: *mut u32) {
        while bits != 0 {
            // SAFETY: at most 64 values, for which the caller has room.
            unsafe {
                *out = base + bits.trailing_zeros();
                out = out.add(1);
            }
            bits &= bits - 1;
        }
    }
}

bind!(Words, []);
