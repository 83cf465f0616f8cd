//! A table where nothing can be left out of a scan: every column but the key is uniform and independent of the others
//! and of the order of rows.

use std::io::{self, Write};

use crate::parallel::{self, BLOCK, Until};
use crate::random::{Random, civil, push_number, push_padded};

/// Letters of strings.
const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz012345";
/// Values of the columns with the conditions: 0 to 9,999.
const CONDITIONS: u64 = 10_000;
/// The first day, 1992-01-01, counted from 1970-01-01, and how many days there are.
const FIRST_DAY: i64 = 8035;
const DAYS: u64 = 4000;

/// Writes `rows` lines, a `|` behind each field; `scan/create.sql` has the columns. Returns lines and bytes.
pub fn write(seed: u64, rows: u64, threads: usize, out: &mut impl Write) -> io::Result<(u64, u64)> {
    parallel::write(out, Until::Units(rows), threads, |block, units, out| {
        let mut random = Random::new(seed, block);
        for unit in 0..units {
            push_row(out, &mut random, block * BLOCK + unit);
        }
    })
}

fn push_row(out: &mut Vec<u8>, random: &mut Random, key: u64) {
    push_number(out, key);
    // Numbers of 32 and 64 bits.
    for below in [1 << 30, 1 << 40, 1 << 40, 1 << 40, 1 << 40, 1 << 40, 1 << 40, 1 << 40, 1 << 40] {
        out.push(b'|');
        push_number(out, random.below(below));
    }
    // One in ten is NULL.
    out.push(b'|');
    match random.one_in(10) {
        true => out.extend_from_slice(b"\\N"),
        false => push_number(out, random.below(1 << 30)),
    }
    // DECIMAL(15, 2) and DOUBLE.
    let cents = random.below(10_000_000_000);
    out.push(b'|');
    push_number(out, cents / 100);
    out.push(b'.');
    push_padded(out, cents % 100, 2);
    let double = random.below(1 << 52) as f64 / (1u64 << 32) as f64;
    write!(out, "|{double}").expect("a Vec takes all bytes");
    let (year, month, day) = civil(FIRST_DAY + random.below(DAYS) as i64);
    write!(out, "|{year:04}-{month:02}-{day:02}").expect("a Vec takes all bytes");
    // A thousand short strings; long strings that hardly ever repeat.
    out.push(b'|');
    let short = random.below(1000);
    push_string(out, &mut Random::new(short, 1), 4, 9);
    push_number(out, short);
    out.push(b'|');
    push_string(out, random, 30, 90);
    // Conditions, and keys of 100 and of half a million groups.
    for below in [CONDITIONS, CONDITIONS, CONDITIONS, CONDITIONS, CONDITIONS, 100, 500_000] {
        out.push(b'|');
        push_number(out, random.below(below));
    }
    out.extend_from_slice(b"|\n");
}

fn push_string(out: &mut Vec<u8>, random: &mut Random, least: u64, spread: u64) {
    for _ in 0..least + random.below(spread) {
        out.push(LETTERS[random.below(32) as usize]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(seed: u64, threads: usize) -> String {
        let mut out = Vec::new();
        let (rows, bytes) = write(seed, 20_000, threads, &mut out).unwrap();
        assert_eq!((rows, bytes), (20_000, out.len() as u64));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn seeds_change_the_values_and_threads_do_not() {
        assert_eq!(lines(1, 1), lines(1, 3));
        assert_ne!(lines(1, 1), lines(2, 1));
    }

    #[test]
    fn values_have_their_domains() {
        let text = lines(1, 2);
        let column = |at: usize| text.lines().map(move |line| line.split('|').nth(at).unwrap());
        assert!(text.lines().all(|line| line.split('|').count() == 24 && line.ends_with('|')));
        assert!(column(0).enumerate().all(|(row, key)| key == row.to_string()));
        let nulls = column(10).filter(|&value| value == "\\N").count();
        assert!((1800..2200).contains(&nulls), "{nulls}");
        assert!(column(13).all(|day| ("1992-01-01".."2002-12-15").contains(&day)));
        let mut short: Vec<_> = column(14).collect();
        short.sort_unstable();
        short.dedup();
        assert_eq!(short.len(), 1000);
        let below = column(16).filter(|value| value.parse::<u64>().unwrap() < CONDITIONS / 10).count();
        assert!((1800..2200).contains(&below), "{below}");
    }
}
