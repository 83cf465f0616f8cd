//! Parquet's hybrid of runs and bit-packed groups, decoded in stretches.

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, Buffer};

/// A stretch of values.
pub(super) enum Stretch<'a> {
    /// One value, repeated this number of times.
    Run(u32, usize),
    /// Bit-packed values, lowest bits first, and their number. The bytes may go on after them.
    Packed(&'a [u8], usize),
}

/// Decodes levels or codes of `width` bits and calls `each` with their stretches. `None` if there are fewer than
/// `count` values, or if `each` returns `None`.
pub(super) fn hybrid(
    bytes: &[u8],
    width: u32,
    count: usize,
    mut each: impl FnMut(Stretch<'_>) -> Option<()>,
) -> Option<()> {
    if width > 32 {
        return None;
    }
    let mut at = 0;
    let mut left = count;
    let value_bytes = (width as usize).div_ceil(8);
    let mask = ((1u64 << width) - 1) as u32;
    while left > 0 {
        let mut header = 0u64;
        for shift in 0.. {
            let byte = *bytes.get(at)?;
            at += 1;
            header |= u64::from(byte & 0x7f) << (7 * shift);
            if byte < 0x80 {
                break;
            }
            if shift == 4 {
                return None;
            }
        }
        let n = (header >> 1) as usize;
        if n == 0 {
            return None;
        }
        if header & 1 == 0 {
            let mut value = [0; 4];
            value[..value_bytes].copy_from_slice(bytes.get(at..at + value_bytes)?);
            at += value_bytes;
            let run = n.min(left);
            each(Stretch::Run(u32::from_le_bytes(value) & mask, run))?;
            left -= run;
            continue;
        }
        // Groups of eight values. The last one may be cut off where its values end.
        let packed = bytes.get(at..)?;
        let packed = &packed[..packed.len().min(n.checked_mul(width as usize)?)];
        let run = n.checked_mul(8)?.min(left);
        if packed.len() * 8 < run * width as usize {
            return None;
        }
        each(Stretch::Packed(packed, run))?;
        at += packed.len();
        left -= run;
    }
    Some(())
}

/// Returns the value of `width` bits that starts at `bit`. Eight bytes from there on must exist.
fn window(bytes: &[u8], bit: usize, mask: u32) -> u32 {
    let bytes: [u8; 8] = bytes[bit / 8..bit / 8 + 8].try_into().expect("eight bytes");
    (u64::from_le_bytes(bytes) >> (bit % 8)) as u32 & mask
}

/// Returns value number `at` of bit-packed values of `width` bits.
pub(super) fn one(packed: &[u8], width: u32, at: usize) -> u32 {
    let (bit, mask) = (at * width as usize, ((1u64 << width) - 1) as u32);
    if bit / 8 + 8 <= packed.len() {
        return window(packed, bit, mask);
    }
    let mut rest = [0; 8];
    let tail = &packed[(bit / 8).min(packed.len())..];
    rest[..tail.len()].copy_from_slice(tail);
    window(&rest, bit % 8, mask)
}

/// Values that are unpacked at once. They begin and end with a byte, whatever their width is.
const EIGHT: usize = 8;

/// Calls `each` with `count` bit-packed values of `width` bits, [`EIGHT`] at a time as long as there are as many.
#[inline]
pub(super) fn unpack(packed: &[u8], width: u32, count: usize, mut each: impl FnMut(&[u32])) {
    macro_rules! of_width {
        ($($width:literal)*) => {
            match width {
                $($width => eights::<$width>(packed, count, &mut each),)*
                _ => 0,
            }
        };
    }
    let done = of_width!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20);
    if done == count {
        return;
    }
    let (width, mask) = (width as usize, ((1u64 << width) - 1) as u32);
    let from = (done * width / 8).min(packed.len());
    // The last values are read from a copy with spare bytes at its end.
    let (packed, count) = (&packed[from..], count - done);
    let fast = match packed.len().checked_sub(8) {
        Some(last) if width > 0 => count.min(last * 8 / width + 1),
        _ => 0,
    };
    for i in 0..fast {
        each(&[window(packed, i * width, mask)]);
    }
    if fast == count {
        return;
    }
    let from = (fast * width / 8).min(packed.len());
    let mut rest = packed[from..].to_vec();
    rest.resize(rest.len() + 8, 0);
    for i in fast..count {
        each(&[window(&rest, i * width - from * 8, mask)]);
    }
}

/// Calls `each` with [`EIGHT`] values of `W` bits after the other, as long as eight bytes can be read from the begin of
/// each. Returns the number of values. With the width known, each value is a load, a shift and a mask.
#[inline(always)]
fn eights<const W: usize>(packed: &[u8], count: usize, each: &mut impl FnMut(&[u32])) -> usize {
    let mask = (1u64 << W) - 1;
    let (mut rest, mut done) = (packed, 0);
    while done + EIGHT <= count {
        let Some(bytes) = rest.get(..W + 8) else { break };
        let mut values = [0; EIGHT];
        for (i, value) in values.iter_mut().enumerate() {
            let at = i * W / 8;
            let eight: [u8; 8] = bytes[at..at + 8].try_into().expect("eight bytes");
            *value = ((u64::from_le_bytes(eight) >> (i * W % 8)) & mask) as u32;
        }
        each(&values);
        rest = &rest[W..];
        done += EIGHT;
    }
    done
}

/// Decodes levels of one bit.
pub(super) fn levels(bytes: &[u8], rows: usize) -> Option<BooleanBuffer> {
    let mut valid = BooleanBufferBuilder::new(rows);
    hybrid(bytes, 1, rows, |stretch| {
        match stretch {
            Stretch::Run(value, n) => valid.append_n(n, value == 1),
            Stretch::Packed(packed, n) => valid.append_packed_range(0..n, packed),
        }
        Some(())
    })?;
    Some(valid.finish())
}

/// Answers of a test for each entry of a dictionary, by code.
pub(super) struct Answers {
    /// 1 for yes, 0 for no, and [`NO_ENTRY`] up to the next power of two.
    answers: Vec<u8>,
}

const NO_ENTRY: u8 = 2;

impl Answers {
    /// Makes answers from those of the entries in the order of their codes.
    pub(super) fn new(entries: &BooleanBuffer) -> Self {
        let mut answers: Vec<u8> = entries.iter().map(u8::from).collect();
        answers.resize(entries.len().next_power_of_two(), NO_ENTRY);
        Answers { answers }
    }

    /// Returns the entries' answers for the codes of the set bits of `wanted`, one for each set bit; `None` under the
    /// conditions of [`of`](Self::of).
    pub(super) fn of_some(&self, bytes: &[u8], count: usize, wanted: &BooleanBuffer) -> Option<BooleanBuffer> {
        let mut codes = Vec::new();
        codes_of(bytes, count, wanted, &mut codes)?;
        let mut seen = 0;
        let mut out = Bits::with_capacity(codes.len());
        for codes in codes.chunks(EIGHT) {
            seen |= self.push(codes, &mut out);
        }
        (seen & NO_ENTRY == 0).then(|| out.finish())
    }

    /// Returns the entries' answers for a page's codes, whose width comes first; `None` for a code without an entry.
    pub(super) fn of(&self, bytes: &[u8], count: usize) -> Option<BooleanBuffer> {
        let mut out = Bits::with_capacity(count);
        if count == 0 {
            return Some(out.finish());
        }
        let (width, bytes) = bytes.split_first()?;
        let width = u32::from(*width);
        hybrid(bytes, width, count, |stretch| {
            let mut seen = 0;
            match stretch {
                Stretch::Run(code, n) => {
                    seen = self.answers.get(code as usize).copied().unwrap_or(NO_ENTRY);
                    out.push_n(seen & 1, n);
                }
                Stretch::Packed(packed, n) => unpack(packed, width, n, |codes| seen |= self.push(codes, &mut out)),
            }
            (seen & NO_ENTRY == 0).then_some(())
        })?;
        Some(out.finish())
    }

    /// Appends the answers of at most [`EIGHT`] codes, and returns all of them put together by "or".
    #[inline(always)]
    fn push(&self, codes: &[u32], out: &mut Bits) -> u8 {
        let (mut bits, mut seen) = (0, 0);
        for (i, code) in codes.iter().enumerate() {
            let answer = self.answers.get(*code as usize).copied().unwrap_or(NO_ENTRY);
            seen |= answer;
            bits |= u64::from(answer & 1) << i;
        }
        out.push(bits, codes.len());
        seen
    }
}

/// A builder of bits that appends a word at a time.
struct Bits {
    words: Vec<u64>,
    word: u64,
    len: usize,
}

impl Bits {
    fn with_capacity(bits: usize) -> Self {
        Bits { words: Vec::with_capacity(bits / 64 + 1), word: 0, len: 0 }
    }

    /// Appends the lowest `n` bits, at most [`EIGHT`]; the others are 0.
    #[inline(always)]
    fn push(&mut self, bits: u64, n: usize) {
        let used = self.len % 64;
        self.word |= bits << used;
        self.len += n;
        if used + n >= 64 {
            self.words.push(self.word);
            // At most 8 bits are appended, so `used` is not 0 here.
            self.word = bits >> (64 - used);
        }
    }

    /// Appends the same bit `n` times.
    #[inline]
    fn push_n(&mut self, bit: u8, mut n: usize) {
        let ones = u64::from(bit).wrapping_neg();
        while n > 0 {
            let used = self.len % 64;
            let now = n.min(64 - used);
            self.word |= (ones >> (64 - now)) << used;
            self.len += now;
            n -= now;
            if used + now == 64 {
                self.words.push(std::mem::take(&mut self.word));
            }
        }
    }

    fn finish(mut self) -> BooleanBuffer {
        self.words.push(self.word);
        BooleanBuffer::new(Buffer::from_vec(self.words), 0, self.len)
    }
}

/// Up to one code in this number is unpacked alone.
pub(super) const FEW_CODES_OF: usize = 4;

/// Appends those of a page's `count` codes, whose width comes first, for which `wanted` has a bit. `None` if the page
/// has fewer codes.
pub(super) fn codes_of(bytes: &[u8], count: usize, wanted: &BooleanBuffer, out: &mut Vec<u32>) -> Option<()> {
    let few = wanted.count_set_bits();
    if wanted.len() != count {
        return None;
    }
    if few == 0 {
        return Some(());
    }
    let (width, bytes) = bytes.split_first()?;
    let width = u32::from(*width);
    if few * FEW_CODES_OF > count {
        let mut all = Vec::with_capacity(count.min(bytes.len().saturating_mul(8)));
        hybrid(bytes, width, count, |stretch| {
            match stretch {
                Stretch::Run(code, n) => all.resize(all.len() + n, code),
                Stretch::Packed(packed, n) => unpack(packed, width, n, |codes| all.extend_from_slice(codes)),
            }
            Some(())
        })?;
        match few == count {
            true => out.append(&mut all),
            false => out.extend(wanted.set_indices().map(|row| all[row])),
        }
        return Some(());
    }
    let mut rows = wanted.set_indices().peekable();
    let mut start = 0;
    hybrid(bytes, width, count, |stretch| {
        let n = match stretch {
            Stretch::Run(_, n) | Stretch::Packed(_, n) => n,
        };
        while let Some(row) = rows.next_if(|row| *row < start + n) {
            out.push(match stretch {
                Stretch::Run(code, _) => code,
                Stretch::Packed(packed, _) => one(packed, width, row - start),
            });
        }
        start += n;
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    fn values(bytes: &[u8], width: u32, count: usize) -> Option<Vec<u32>> {
        let mut found = Vec::new();
        hybrid(bytes, width, count, |stretch| {
            match stretch {
                Stretch::Run(value, n) => found.extend(std::iter::repeat_n(value, n)),
                Stretch::Packed(packed, n) => unpack(packed, width, n, |v| found.extend_from_slice(v)),
            }
            Some(())
        })?;
        Some(found)
    }

    #[test]
    fn runs_and_packed_groups() {
        // A run of 5 sevens; then one group of 8 values of 3 bits: 0 to 7.
        let bytes = [10, 7, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        assert_eq!(values(&bytes, 3, 13).unwrap(), [7, 7, 7, 7, 7, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(values(&bytes, 3, 14).is_none(), "there are only 13");
        assert!(values(&bytes[..4], 3, 13).is_none(), "the group is cut");
        assert!(values(&[0], 3, 1).is_none(), "an empty run");
        assert!(values(&bytes, 33, 1).is_none(), "no such width");
    }

    /// Packs values bit by bit.
    fn pack(values: &[u32], width: u32) -> Vec<u8> {
        let mut out = vec![0u8; (values.len() * width as usize).div_ceil(8)];
        for (i, value) in values.iter().enumerate() {
            for bit in (0..width as usize).filter(|bit| value >> bit & 1 == 1) {
                let at = i * width as usize + bit;
                out[at / 8] |= 1 << (at % 8);
            }
        }
        out
    }

    #[test]
    fn every_width_and_length_unpacks() {
        let mut rng = StdRng::seed_from_u64(1);
        for width in 0..=32u32 {
            for count in [0, 1, 7, 8, 9, 16, 63, 64, 65, 200] {
                let mask = ((1u64 << width) - 1) as u32;
                let wanted: Vec<u32> = (0..count).map(|_| rng.random::<u32>() & mask).collect();
                let mut found = Vec::new();
                unpack(&pack(&wanted, width), width, count, |v| found.extend_from_slice(v));
                assert_eq!(found, wanted, "width {width}, {count} values");
            }
        }
    }

    #[test]
    fn answers_are_those_of_the_codes() {
        let mut rng = StdRng::seed_from_u64(2);
        for _ in 0..300 {
            let entries: BooleanBuffer = (0..rng.random_range(1..300)).map(|_| rng.random_bool(0.5)).collect();
            let width = (entries.len() as u32).next_power_of_two().trailing_zeros().max(1);
            let answers = Answers::new(&entries);
            // Runs and groups in turns.
            let (mut bytes, mut codes) = (vec![width as u8], Vec::new());
            for _ in 0..rng.random_range(1..5) {
                if rng.random_bool(0.5) {
                    let (code, n) = (rng.random_range(0..entries.len() as u32), rng.random_range(1..63));
                    bytes.push(n << 1);
                    bytes.extend(&code.to_le_bytes()[..(width as usize).div_ceil(8)]);
                    codes.extend(std::iter::repeat_n(code, n as usize));
                } else {
                    let groups = rng.random_range(1..20);
                    let new: Vec<u32> = (0..groups * 8).map(|_| rng.random_range(0..entries.len() as u32)).collect();
                    bytes.push((groups as u8) << 1 | 1);
                    bytes.extend(pack(&new, width));
                    codes.extend(new);
                }
            }
            let found = answers.of(&bytes, codes.len()).unwrap();
            let wanted: BooleanBuffer = codes.iter().map(|c| entries.value(*c as usize)).collect();
            assert_eq!(found, wanted);
            let share = [0.0, 0.02, 0.3, 1.0][rng.random_range(0..4)];
            let some: BooleanBuffer = (0..codes.len()).map(|_| rng.random_bool(share)).collect();
            let mut found = Vec::new();
            codes_of(&bytes, codes.len(), &some, &mut found).unwrap();
            assert_eq!(found, some.set_indices().map(|row| codes[row]).collect::<Vec<_>>());
            let wanted: BooleanBuffer = found.iter().map(|code| entries.value(*code as usize)).collect();
            assert_eq!(answers.of_some(&bytes, codes.len(), &some).unwrap(), wanted);
            let more = BooleanBuffer::new_set(codes.len() + 9);
            assert!(codes_of(&bytes, more.len(), &more, &mut found).is_none(), "no such rows");
            if entries.len() < 1 << width {
                bytes.extend([2]);
                bytes.extend(&(entries.len() as u32).to_le_bytes()[..(width as usize).div_ceil(8)]);
                assert!(answers.of(&bytes, codes.len() + 1).is_none(), "a code without entry");
                let last: BooleanBuffer = (0..=codes.len()).map(|row| row == codes.len()).collect();
                assert!(answers.of_some(&bytes, last.len(), &last).is_none(), "a wanted code without entry");
            }
        }
    }
}
