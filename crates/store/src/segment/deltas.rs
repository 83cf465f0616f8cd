//! Pages of whole numbers as differences of neighbours (DELTA_BINARY_PACKED).

use arrow_buffer::ArrowNativeType;

use super::binary::{Reader, Short};
use super::coded::unpack;

/// Most values of a block of differences. Writers choose 128.
const BLOCK_MAX: usize = 1 << 16;

/// A number that is stored as differences, which are added modulo its size.
pub(super) trait Whole: ArrowNativeType {
    /// Returns the low bits of a number.
    fn low(n: i64) -> Self;
}

impl Whole for i32 {
    fn low(n: i64) -> Self {
        n as i32
    }
}

impl Whole for i64 {
    fn low(n: i64) -> Self {
        n
    }
}

/// Returns the `count` values of a page, and the offset behind them. `None` if the page has another number of values,
/// is cut, or has another form than writers give it: such pages are left to the decoder.
pub(super) fn numbers<T: Whole>(page: &[u8], count: usize) -> Option<(Vec<T>, usize)> {
    let mut from = Reader(page);
    let size = |n: Result<u64, Short>| n.ok().and_then(|n| usize::try_from(n).ok());
    let (block, minis, total) = (size(from.var())?, size(from.var())?, size(from.var())?);
    let mini = block.checked_div(minis)?;
    if total != count || block > BLOCK_MAX || mini * minis != block || mini % 32 != 0 || mini == 0 {
        return None;
    }
    // Each value after the first one belongs to a block, which has at least a width for every miniblock.
    if count > page.len().saturating_mul(mini) {
        return None;
    }
    let mut last = zigzag(&mut from)?;
    let mut values = vec![T::default(); count];
    if let Some(first) = values.first_mut() {
        *first = T::low(last);
    }
    let mut rest = values.get_mut(1..).unwrap_or_default();
    while !rest.is_empty() {
        let least = zigzag(&mut from)?;
        for bits in from.take(minis).ok()? {
            let here = mini.min(rest.len());
            if here == 0 {
                break;
            }
            let width = usize::from(*bits);
            let packed = mini / 8 * width;
            if width > size_of::<T>() * 8 || packed > from.0.len() {
                return None;
            }
            let (now, later) = rest.split_at_mut(here);
            let mut slots = now.iter_mut();
            let mut add = |above: u64| {
                last = last.wrapping_add(least).wrapping_add(above as i64);
                if let Some(slot) = slots.next() {
                    *slot = T::low(last);
                }
            };
            // With a few more bytes behind them, all values are read at once.
            let bytes = &from.0[..from.0.len().min(packed + 8)];
            match u32::try_from(width).ok().filter(|width| *width <= u32::BITS) {
                Some(width) => unpack(bytes, width, here, |above| above.iter().for_each(|n| add(u64::from(*n)))),
                None => unpack_wide(&from.0[..packed], width, here, add),
            }
            rest = later;
            from.take(packed).ok()?;
        }
    }
    Some((values, page.len() - from.0.len()))
}

/// Calls `each` with `count` bit-packed values of more than 32 bits.
fn unpack_wide(packed: &[u8], width: usize, count: usize, mut each: impl FnMut(u64)) {
    let mask = u64::MAX >> (64 - width);
    for i in 0..count {
        let bit = i * width;
        let mut window = [0; 16];
        let tail = &packed[bit / 8..packed.len().min(bit / 8 + 16)];
        window[..tail.len()].copy_from_slice(tail);
        each((u128::from_le_bytes(window) >> (bit % 8)) as u64 & mask);
    }
}

fn zigzag(from: &mut Reader<'_>) -> Option<i64> {
    let n = from.var().ok()?;
    Some((n >> 1) as i64 ^ -((n & 1) as i64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::encode::put_delta;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn numbers_are_those_that_were_written() {
        let mut rng = StdRng::seed_from_u64(12);
        for round in 0..3000 {
            let n = [0, 1, 2, 31, 32, 33, 128, 129, 130, 300][rng.random_range(0..10)];
            let bits = rng.random_range(0..64);
            let wanted: Vec<i64> = (0..n).map(|_| rng.random::<i64>() >> bits).collect();
            let mut page = Vec::new();
            put_delta(&mut page, wanted.iter().copied(), false);
            assert_eq!(numbers::<i64>(&page, n).unwrap(), (wanted.clone(), page.len()), "round {round}");
            let narrow: Vec<i32> = wanted.iter().map(|v| (*v >> 32) as i32).collect();
            let mut small = Vec::new();
            put_delta(&mut small, narrow.iter().map(|v| i64::from(*v)), true);
            assert_eq!(numbers::<i32>(&small, n).unwrap(), (narrow, small.len()), "round {round}");
            assert!(numbers::<i64>(&page, n + 1).is_none(), "another number of values");
            // Damage is refused, or yields other numbers.
            let at = rng.random_range(0..page.len());
            assert!(numbers::<i64>(&page[..at], n).is_none_or(|(found, _)| found.len() == n));
            page[at] = rng.random();
            assert!(numbers::<i64>(&page, n).is_none_or(|(found, _)| found.len() == n));
            assert!(numbers::<i32>(&page, n).is_none_or(|(found, _)| found.len() == n));
        }
    }
}
