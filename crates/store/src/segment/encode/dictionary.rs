//! Codes for distinct values, in the order of their first occurrence.

/// Hash table of codes. A slot holds a code plus one; 0 is free.
pub(super) struct Codes<'a> {
    slots: &'a mut Vec<u32>,
    shift: u32,
    pub len: usize,
}

/// Most distinct values of a chunk; with more a dictionary gains nothing.
pub(super) const CODES_MAX: usize = 1 << 16;

impl<'a> Codes<'a> {
    pub fn new(slots: &'a mut Vec<u32>) -> Self {
        let mut codes = Self { slots, shift: 0, len: 0 };
        codes.reset(1 << 10);
        codes
    }

    fn reset(&mut self, slots: usize) {
        assert!(slots.is_power_of_two() && self.len < slots, "the slots are a power of two, and some stay free");
        self.slots.clear();
        self.slots.resize(slots, 0);
        self.shift = u64::BITS - slots.trailing_zeros();
    }

    /// Returns the code of a value. `same(code)` says whether a code stands for the same value. A new value gets the
    /// next code, which is `self.len` before the call. `hash_of` returns the hashes of known codes when the table
    /// grows.
    #[inline]
    pub fn code(&mut self, hash: u64, same: impl Fn(u32) -> bool, hash_of: impl Fn(u32) -> u64) -> u32 {
        let mask = self.slots.len() - 1;
        let mut at = (hash >> self.shift) as usize;
        loop {
            match self.slots[at] {
                0 => break,
                slot if same(slot - 1) => return slot - 1,
                _ => at = (at + 1) & mask,
            }
        }
        let code = self.len as u32;
        self.slots[at] = code + 1;
        self.len += 1;
        if self.len * 2 > self.slots.len() {
            self.reset(self.slots.len() * 4);
            let mask = self.slots.len() - 1;
            for known in 0..self.len as u32 {
                // The caller has not added the value of the newest code to its list yet.
                let hash = if known == code { hash } else { hash_of(known) };
                let mut at = (hash >> self.shift) as usize;
                while self.slots[at] != 0 {
                    at = (at + 1) & mask;
                }
                self.slots[at] = known + 1;
            }
        }
        code
    }
}

/// Returns both halves of the product of two numbers, combined by XOR.
#[inline]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

const A: u64 = 0x9e37_79b9_7f4a_7c15;
const B: u64 = 0xd1b5_4a32_d192_ed03;

/// Hashes 16 bytes; the high bits of the result are well mixed.
#[inline]
pub(super) fn hash128(v: u128) -> u64 {
    fold(v as u64 ^ A, (v >> 64) as u64 ^ B).wrapping_mul(A)
}

/// Hashes bytes; the high bits of the result are well mixed.
#[inline]
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (chunks, _) = bytes.as_chunks::<16>();
    let mut hash = bytes.len() as u64 ^ A;
    for chunk in chunks {
        let v = u128::from_le_bytes(*chunk);
        hash = fold(v as u64 ^ hash, (v >> 64) as u64 ^ B);
    }
    // The last 16 bytes, overlapping; shorter values come as views.
    let tail = bytes.last_chunk::<16>().map_or_else(
        || {
            let mut all = [0; 16];
            all[..bytes.len()].copy_from_slice(bytes);
            u128::from_le_bytes(all)
        },
        |t| u128::from_le_bytes(*t),
    );
    fold(tail as u64 ^ hash, (tail >> 64) as u64 ^ B).wrapping_mul(A)
}
