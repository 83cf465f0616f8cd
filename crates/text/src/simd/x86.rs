//! The primitives for x86-64: AVX-512 (BW, VL, VBMI2), AVX2, SSE4.2.

use super::kernel::{self, Carry, Isa, bind};
use super::{Counts, Found, Index, Shape, Side};

/// Writes the positions of set bits, eight at a time: a word usually has fewer than eight or sixteen, so the branches
/// are predictable.
///
/// # Safety
/// 64 values can be written to `out`.
#[inline(always)]
unsafe fn unrolled_positions(mut bits: u64, base: u32, mut out: *mut u32) {
    let mut left = bits.count_ones();
    loop {
        for i in 0..8 {
            // If no bit is left, this writes `base + 64`, which the next word overwrites.
            // SAFETY: the caller has room for 64 values, written in steps of eight while any is left.
            unsafe { *out.add(i) = base.wrapping_add(bits.trailing_zeros()) };
            bits &= bits.wrapping_sub(1);
        }
        if left <= 8 {
            return;
        }
        left -= 8;
        // SAFETY: as above.
        out = unsafe { out.add(8) };
    }
}

/// Prefetches into the second-level cache.
///
/// # Safety
/// None for the address; the processor must have SSE, as every x86-64 does.
#[inline(always)]
unsafe fn prefetch(at: *const u8) {
    use std::arch::x86_64::*;
    // SAFETY: no address makes it fail; all of these instruction sets include it.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast()) }
}

/// Returns the prefix XOR of `bits`, by carry-less multiplication with all ones.
///
/// # Safety
/// The feature `pclmulqdq` is enabled.
#[inline(always)]
unsafe fn clmul_prefix_xor(bits: u64) -> u64 {
    use std::arch::x86_64::*;
    // SAFETY: the caller runs with `pclmulqdq` enabled.
    unsafe {
        let product = _mm_clmulepi64_si128::<0>(_mm_set_epi64x(0, bits as i64), _mm_set1_epi8(-1));
        _mm_cvtsi128_si64(product) as u64
    }
}

pub(super) mod avx512 {
    use super::*;
    use std::arch::x86_64::*;

    struct Avx512;

    impl Isa for Avx512 {
        type Block = __m512i;

        #[inline(always)]
        unsafe fn load(bytes: *const u8) -> __m512i {
            // SAFETY: 64 readable bytes and the features, guaranteed by the caller; likewise below.
            unsafe { _mm512_loadu_si512(bytes.cast()) }
        }

        #[inline(always)]
        unsafe fn prefetch(at: *const u8) {
            // SAFETY: takes any address.
            unsafe { prefetch(at) }
        }

        #[inline(always)]
        unsafe fn eq(block: __m512i, byte: u8) -> u64 {
            // SAFETY: features by the caller.
            unsafe { _mm512_cmpeq_epi8_mask(block, _mm512_set1_epi8(byte as i8)) }
        }

        #[inline(always)]
        unsafe fn prefix_xor(bits: u64) -> u64 {
            // SAFETY: features by the caller.
            unsafe { clmul_prefix_xor(bits) }
        }

        #[inline(always)]
        unsafe fn positions(bits: u64, base: u32, out: *mut u32) {
            const IOTA: [u8; 64] = {
                let mut iota = [0; 64];
                let mut i = 0;
                while i < 64 {
                    iota[i] = i as u8;
                    i += 1;
                }
                iota
            };
            // SAFETY: `IOTA` has 64 bytes; writes are 16 values each, at most up to 64; features by the caller.
            unsafe {
                let packed = _mm512_maskz_compress_epi8(bits, _mm512_loadu_si512(IOTA.as_ptr().cast()));
                let base = _mm512_set1_epi32(base as i32);
                // A macro and not a closure, which would not have the features.
                macro_rules! widen {
                    ($lane:expr, $out:expr) => {
                        _mm512_storeu_si512($out.cast(), _mm512_add_epi32(base, _mm512_cvtepu8_epi32($lane)))
                    };
                }
                widen!(_mm512_castsi512_si128(packed), out);
                let n = bits.count_ones();
                if n > 16 {
                    widen!(_mm512_extracti32x4_epi32::<1>(packed), out.add(16));
                    if n > 32 {
                        widen!(_mm512_extracti32x4_epi32::<2>(packed), out.add(32));
                        widen!(_mm512_extracti32x4_epi32::<3>(packed), out.add(48));
                    }
                }
            }
        }
    }

    bind!(Avx512, [#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt,pclmulqdq")]] unsafe);
}

pub(super) mod avx2 {
    use super::*;
    use std::arch::x86_64::*;

    struct Avx2;

    impl Isa for Avx2 {
        type Block = [__m256i; 2];

        #[inline(always)]
        unsafe fn load(bytes: *const u8) -> [__m256i; 2] {
            // SAFETY: 64 readable bytes and the features, by the caller.
            unsafe { [_mm256_loadu_si256(bytes.cast()), _mm256_loadu_si256(bytes.add(32).cast())] }
        }

        #[inline(always)]
        unsafe fn prefetch(at: *const u8) {
            // SAFETY: takes any address.
            unsafe { prefetch(at) }
        }

        #[inline(always)]
        unsafe fn eq(block: [__m256i; 2], byte: u8) -> u64 {
            // SAFETY: features by the caller.
            unsafe {
                let wanted = _mm256_set1_epi8(byte as i8);
                let low = _mm256_movemask_epi8(_mm256_cmpeq_epi8(block[0], wanted)) as u32;
                let high = _mm256_movemask_epi8(_mm256_cmpeq_epi8(block[1], wanted)) as u32;
                low as u64 | (high as u64) << 32
            }
        }

        #[inline(always)]
        unsafe fn prefix_xor(bits: u64) -> u64 {
            // SAFETY: features by the caller.
            unsafe { clmul_prefix_xor(bits) }
        }

        #[inline(always)]
        unsafe fn positions(bits: u64, base: u32, out: *mut u32) {
            // SAFETY: room for 64 values by the caller.
            unsafe { unrolled_positions(bits, base, out) }
        }
    }

    bind!(Avx2, [#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,pclmulqdq")]] unsafe);
}

pub(super) mod sse42 {
    use super::*;
    use std::arch::x86_64::*;

    struct Sse42;

    impl Isa for Sse42 {
        type Block = [__m128i; 4];

        #[inline(always)]
        unsafe fn load(bytes: *const u8) -> [__m128i; 4] {
            // SAFETY: 64 readable bytes and the features, by the caller.
            unsafe {
                [
                    _mm_loadu_si128(bytes.cast()),
                    _mm_loadu_si128(bytes.add(16).cast()),
                    _mm_loadu_si128(bytes.add(32).cast()),
                    _mm_loadu_si128(bytes.add(48).cast()),
                ]
            }
        }

        #[inline(always)]
        unsafe fn prefetch(at: *const u8) {
            // SAFETY: takes any address.
            unsafe { prefetch(at) }
        }

        #[inline(always)]
        unsafe fn eq(block: [__m128i; 4], byte: u8) -> u64 {
            let mut mask = 0;
            for (i, part) in block.into_iter().enumerate() {
                // SAFETY: features by the caller.
                let bits = unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(part, _mm_set1_epi8(byte as i8))) };
                mask |= (bits as u64) << (16 * i);
            }
            mask
        }

        #[inline(always)]
        unsafe fn prefix_xor(bits: u64) -> u64 {
            // SAFETY: features by the caller.
            unsafe { clmul_prefix_xor(bits) }
        }

        #[inline(always)]
        unsafe fn positions(bits: u64, base: u32, out: *mut u32) {
            // SAFETY: room for 64 values by the caller.
            unsafe { unrolled_positions(bits, base, out) }
        }
    }

    bind!(Sse42, [#[target_feature(enable = "sse4.2,popcnt,pclmulqdq")]] unsafe);
}
