//! Parquet's packings of integers: LEB128 and zigzag, the RLE and bit-packed hybrid, DELTA_BINARY_PACKED.

use crate::segment::binary::put_var;

/// Returns the number of bits that a number takes.
pub(super) fn width(n: u64) -> u32 {
    u64::BITS - n.leading_zeros()
}

pub(super) fn put_zigzag(out: &mut Vec<u8>, n: i64) {
    put_var(out, ((n << 1) ^ (n >> 63)) as u64);
}

/// Appends values of `width` bits each, low bits first. Their number is a multiple of eight.
fn pack(out: &mut Vec<u8>, values: &[u64], width: u32) {
    debug_assert!(values.len().is_multiple_of(8), "values are packed in groups of eight");
    let mut acc = 0u64;
    let mut bits = 0;
    for v in values {
        acc |= v << bits;
        bits += width;
        if bits >= u64::BITS {
            out.extend_from_slice(&acc.to_le_bytes());
            bits -= u64::BITS;
            acc = if bits == 0 { 0 } else { v >> (width - bits) };
        }
    }
    out.extend_from_slice(&acc.to_le_bytes()[..bits as usize / 8]);
}

/// Appends like [`pack`], for up to 32 bits, filled with zeros up to a multiple of eight values.
fn pack32(out: &mut Vec<u8>, values: &[u32], width: u32) {
    let mut acc = 0u64;
    let mut bits = 0;
    for v in values {
        acc |= u64::from(*v) << bits;
        bits += width;
        if bits >= 32 {
            out.extend((acc as u32).to_le_bytes());
            acc >>= 32;
            bits -= 32;
        }
    }
    bits += width * (values.len().next_multiple_of(8) - values.len()) as u32;
    while bits > 0 {
        out.push(acc as u8);
        acc >>= 8;
        bits = bits.saturating_sub(8);
    }
}

/// Appends codes in the hybrid: as runs of equal ones if that is shorter, otherwise as one packed run.
pub(super) fn put_codes(out: &mut Vec<u8>, codes: &[u32], width: u32) {
    if codes.is_empty() {
        return;
    }
    let changes = codes.iter().zip(&codes[1..]).filter(|(a, b)| a != b).count();
    let value_bytes = width.div_ceil(8) as usize;
    let mut run = |code: u32, len: usize| {
        put_var(out, (len as u64) << 1);
        out.extend_from_slice(&code.to_le_bytes()[..value_bytes]);
    };
    // A run takes its value and one or two bytes of length.
    if changes == 0 {
        run(codes[0], codes.len());
    } else if (changes + 1) * (value_bytes + 2) < codes.len() * width as usize / 8 + 4 {
        codes.chunk_by(|a, b| a == b).for_each(|equal| run(equal[0], equal.len()));
    } else {
        put_var(out, (codes.len().div_ceil(8) as u64) << 1 | 1);
        pack32(out, codes, width);
    }
}

/// Appends definition levels of a column without nesting, 1 for a value: after their length, as in pages of version 1.
pub(super) fn put_levels(out: &mut Vec<u8>, rows: usize, nulls: Option<&arrow_buffer::NullBuffer>) {
    let start = out.len();
    out.extend([0; 4]);
    match nulls.filter(|n| n.null_count() > 0) {
        None => {
            put_var(out, (rows as u64) << 1);
            out.push(1);
        }
        Some(nulls) if nulls.null_count() == rows => {
            put_var(out, (rows as u64) << 1);
            out.push(0);
        }
        Some(nulls) => {
            put_var(out, (rows.div_ceil(8) as u64) << 1 | 1);
            let bits = nulls.inner().sliced();
            let bytes = &bits[..rows.div_ceil(8)];
            out.extend_from_slice(bytes);
            // Bits after the last row are undefined in Arrow.
            if !rows.is_multiple_of(8) {
                let last = out.len() - 1;
                out[last] &= (1 << (rows % 8)) - 1;
            }
        }
    }
    let len = (out.len() - start - 4) as u32;
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
}

const BLOCK: usize = 128;
const MINIBLOCKS: usize = 4;

/// Appends integers in DELTA_BINARY_PACKED. Differences wrap at the width of the physical type, as readers undo them.
pub(in crate::segment) fn put_delta(out: &mut Vec<u8>, mut values: impl ExactSizeIterator<Item = i64>, is_32: bool) {
    put_var(out, BLOCK as u64);
    put_var(out, MINIBLOCKS as u64);
    put_var(out, values.len() as u64);
    let Some(mut before) = values.next() else {
        put_zigzag(out, 0);
        return;
    };
    put_zigzag(out, before);
    let mut deltas = [0i64; BLOCK];
    loop {
        let mut n = 0;
        for v in values.by_ref().take(BLOCK) {
            let delta = v.wrapping_sub(before);
            deltas[n] = if is_32 { i64::from(delta as i32) } else { delta };
            before = v;
            n += 1;
        }
        if n == 0 {
            return;
        }
        let least = deltas[..n].iter().copied().min().expect("there is a value");
        put_zigzag(out, least);
        // A miniblock is always whole.
        let mut above = [0u64; BLOCK];
        for (above, delta) in above.iter_mut().zip(&deltas[..n]) {
            let d = delta.wrapping_sub(least) as u64;
            *above = if is_32 { u64::from(d as u32) } else { d };
        }
        const VALUES: usize = BLOCK / MINIBLOCKS;
        let widths_at = out.len();
        out.extend([0; MINIBLOCKS]);
        for (i, mini) in above[..n.next_multiple_of(VALUES)].chunks(VALUES).enumerate() {
            let bits = width(mini.iter().fold(0, |all, v| all | v));
            out[widths_at + i] = bits as u8;
            pack(out, mini, bits);
        }
    }
}
