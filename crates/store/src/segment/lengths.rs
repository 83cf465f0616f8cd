//! Pages of text with the lengths of all values first, as differences, and the bytes behind them without gaps
//! (DELTA_LENGTH_BYTE_ARRAY).

use super::binary::{Reader, Short};
use super::coded::unpack;

/// Values of a block of differences at most. Writers choose 128.
const BLOCK_MAX: usize = 1 << 16;

/// The lengths of the `count` values of a page, and where the first one starts. `None` if it has another number of values,
/// or is cut: the values end within the page.
pub(super) fn lengths(page: &[u8], count: usize) -> Option<(Vec<u32>, usize)> {
    let mut from = Reader(page);
    let size = |n: Result<u64, Short>| n.ok().and_then(|n| usize::try_from(n).ok());
    let (block, minis, total) = (size(from.var())?, size(from.var())?, size(from.var())?);
    // Each value takes part in a block, of which a width is written at least for every miniblock.
    let mini = block.checked_div(minis)?;
    if total != count || block > BLOCK_MAX || mini * minis != block || mini % 32 != 0 || mini == 0 {
        return None;
    }
    let mut lengths = Vec::with_capacity(count.min(page.len().saturating_mul(mini)));
    let mut last = zigzag(&mut from)?;
    let mut end = 0usize;
    let mut push = |length: i32, lengths: &mut Vec<u32>| {
        end = end.checked_add(usize::try_from(length).ok()?)?;
        lengths.push(length as u32);
        Some(())
    };
    if count > 0 {
        push(last, &mut lengths)?;
    }
    while lengths.len() < count {
        let least = zigzag(&mut from)?;
        for bits in from.take(minis).ok()? {
            let here = mini.min(count - lengths.len());
            if here == 0 {
                break;
            }
            let packed = mini / 8 * usize::from(*bits);
            if u32::from(*bits) > u32::BITS || packed > from.0.len() {
                return None;
            }
            // With a few bytes more, all values are read at once.
            let mut fits = Some(());
            unpack(&from.0[..from.0.len().min(packed + 8)], u32::from(*bits), here, |above| {
                last = last.wrapping_add(least).wrapping_add(above as i32);
                fits = fits.and_then(|()| push(last, &mut lengths));
            });
            from.take(packed).ok()?;
            fits?;
        }
    }
    let start = page.len() - from.0.len();
    (end <= from.0.len()).then_some((lengths, start))
}

/// A difference. It is added up in 32 bits, whatever it says beyond them.
fn zigzag(from: &mut Reader<'_>) -> Option<i32> {
    let n = from.var().ok()?;
    Some(((n >> 1) as i64 ^ -((n & 1) as i64)) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::encode::put_delta;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn lengths_are_those_that_were_written() {
        let mut rng = StdRng::seed_from_u64(9);
        for round in 0..2000 {
            let most = [1, 2, 60, 5000, 1 << 20][round % 5];
            let n = [0, 1, 2, 31, 32, 33, 128, 129, 130, 300][rng.random_range(0..10)];
            let wanted: Vec<u32> = (0..n).map(|_| rng.random_range(0..most)).collect();
            let mut page = Vec::new();
            put_delta(&mut page, wanted.iter().map(|n| i64::from(*n)), true);
            let start = page.len();
            let text = wanted.iter().sum::<u32>() as usize;
            page.resize(start + text, b'x');
            assert_eq!(lengths(&page, n), Some((wanted, start)));
            assert_eq!(lengths(&page, n + 1), None, "another number of values");
            if text > 0 {
                assert_eq!(lengths(&page[..page.len() - 1], n), None, "cut");
            }
            // Damage is refused, or gives other lengths that fit.
            let at = rng.random_range(0..start);
            page[at] = rng.random();
            if let Some((found, start)) = lengths(&page, n) {
                assert!(start + found.iter().map(|n| *n as usize).sum::<usize>() <= page.len());
            }
            let cut = rng.random_range(0..start);
            assert!(lengths(&page[..cut], n).is_none_or(|(found, _)| found.iter().all(|n| *n == 0)));
        }
    }
}
