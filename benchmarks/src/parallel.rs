//! Rows made by all cores and written in order: block `i` depends on the seed and on `i` alone.

use std::io::{self, Write};
use std::thread;

/// Where to stop.
#[derive(Clone, Copy)]
pub enum Until {
    /// After this many units (rows, orders).
    Units(u64),
    /// At the first row that reaches this size.
    Bytes(u64),
}

/// Units in a block.
pub const BLOCK: u64 = 8192;

/// Lets `fill(block, units, buffer)` write lines, `threads` blocks at a time; returns lines and bytes written.
///
/// The same bytes come out for every number of threads.
pub fn write(
    out: &mut impl Write,
    until: Until,
    threads: usize,
    fill: impl Fn(u64, u64, &mut Vec<u8>) + Sync,
) -> io::Result<(u64, u64)> {
    let mut buffers: Vec<Vec<u8>> = vec![Vec::new(); threads.max(1)];
    let (mut rows, mut bytes, mut first) = (0, 0, 0);
    loop {
        let units = |at: usize| match until {
            Until::Units(units) => units.saturating_sub((first + at as u64) * BLOCK).min(BLOCK),
            Until::Bytes(_) => BLOCK,
        };
        thread::scope(|scope| {
            for (at, buffer) in buffers.iter_mut().enumerate() {
                let (fill, block, units) = (&fill, first + at as u64, units(at));
                buffer.clear();
                scope.spawn(move || fill(block, units, buffer));
            }
        });
        for buffer in &mut buffers {
            if let Until::Bytes(limit) = until {
                let left = (limit - bytes) as usize;
                if buffer.len() >= left {
                    let end =
                        buffer[left.max(1) - 1..].iter().position(|&b| b == b'\n').map_or(buffer.len(), |at| left + at);
                    buffer.truncate(end);
                }
            }
            out.write_all(buffer)?;
            rows += buffer.iter().filter(|&&b| b == b'\n').count() as u64;
            bytes += buffer.len() as u64;
            if matches!(until, Until::Bytes(limit) if bytes >= limit) {
                return Ok((rows, bytes));
            }
        }
        first += buffers.len() as u64;
        if matches!(until, Until::Units(units) if first * BLOCK >= units) {
            return Ok((rows, bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(block: u64, units: u64, out: &mut Vec<u8>) {
        for unit in 0..units {
            writeln!(out, "{block}-{unit}").unwrap();
        }
    }

    #[test]
    fn threads_do_not_change_the_bytes() {
        let run = |until, threads| {
            let mut out = Vec::new();
            let (rows, bytes) = write(&mut out, until, threads, lines).unwrap();
            assert_eq!((rows, bytes), (out.iter().filter(|&&b| b == b'\n').count() as u64, out.len() as u64));
            assert_eq!(out.last(), Some(&b'\n'));
            out
        };
        for until in [Until::Units(1), Until::Units(20_000), Until::Bytes(1), Until::Bytes(123_456)] {
            assert_eq!(run(until, 1), run(until, 3));
        }
        assert_eq!(run(Until::Units(20_000), 2).iter().filter(|&&b| b == b'\n').count(), 20_000);
        assert_eq!(run(Until::Bytes(1), 2), b"0-0\n");
        let cut = run(Until::Bytes(123_456), 2);
        assert!((123_456..123_470).contains(&cut.len()), "{}", cut.len());
    }
}
