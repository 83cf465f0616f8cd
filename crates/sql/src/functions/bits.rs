//! Bits and number bases.

use std::fmt::Write;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::Result;

use super::args::Args;
use super::func::{Def, Ret, def};
use super::whole::{LARGEINT, pattern, wholes};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("bit_count", &[], (1, 1), Ret::Int, |a| {
        let x = wholes(a, 0)?;
        // A negative number has as many leading ones as its type has bits.
        let unused = match a.data_type(0) {
            DataType::Boolean | DataType::Int8 => 120,
            DataType::Int16 => 112,
            DataType::Int32 => 96,
            t if *t == LARGEINT => 0,
            _ => 64,
        };
        let ones = |x: i128| match x < 0 {
            true => x.count_ones().saturating_sub(unused),
            false => x.count_ones(),
        };
        a.ints(|i| x.at(i).map(|x| ones(x).into()))
    }),
    def("bit_test", &["bit_test_all"], (2, usize::MAX), Ret::Int, bit_test),
    def("bin", &[], (1, 1), Ret::Text, |a| in_base(a, 2)),
    def("oct", &[], (1, 1), Ret::Text, |a| in_base(a, 8)),
    def("hex", &[], (1, 1), Ret::Text, hex),
    def("unhex", &["hex_decode_string"], (1, 1), Ret::Bytes, |a| unhex(a, true)),
    def("unhex_null", &[], (1, 1), Ret::Bytes, |a| unhex(a, false)),
    def("conv", &[], (3, 3), Ret::Text, conv),
];

fn bit_test(a: &Args) -> Result<ArrayRef> {
    let x = wholes(a, 0)?;
    let places = (1..a.len()).map(|k| a.int(k)).collect::<Result<Vec<_>>>()?;
    let width = if *a.data_type(0) == LARGEINT { 128 } else { 64 };
    a.ints(|i| {
        let x = x.at(i)?;
        let mut all = true;
        for place in &places {
            let place = place.at(i)?;
            all &= (0..width).contains(&place) && x >> place & 1 == 1;
        }
        Some(all.into())
    })
}

fn in_base(a: &Args, base: u128) -> Result<ArrayRef> {
    let x = wholes(a, 0)?;
    a.texts(|i, out| {
        write_base(out, pattern(x.at(i)?), base);
        Some(())
    })
}

/// Appends a number in a base from 2 to 36, in capital letters.
fn write_base(out: &mut String, mut v: u128, base: u128) {
    let mut digits = [0; 128];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[(v % base) as usize];
        v /= base;
        if v == 0 {
            break;
        }
    }
    out.extend(digits[at..].iter().map(|b| *b as char));
}

fn hex(a: &Args) -> Result<ArrayRef> {
    let t = a.data_type(0);
    if t.is_numeric() || *t == DataType::Boolean {
        return in_base(a, 16);
    }
    let s = a.bytes(0)?;
    a.texts(|i, out| {
        for b in s.at(i)? {
            let _ = write!(out, "{b:02X}");
        }
        Some(())
    })
}

/// Reads bytes from pairs of hexadecimal digits; `None` if the last pair is incomplete or another character occurs.
fn unhex_bytes(s: &[u8]) -> Option<Vec<u8>> {
    let digit = |b: u8| (b as char).to_digit(16).map(|d| d as u8);
    if s.len() % 2 == 1 || s.is_empty() {
        return None;
    }
    s.chunks_exact(2).map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

/// UNHEX: for text that is not hexadecimal Doris returns the empty text, and NULL from `unhex_null`.
pub fn unhex(a: &Args, empty: bool) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.binaries(|i| match unhex_bytes(s.at(i)?.as_bytes()) {
        None if empty => Some(Vec::new()),
        bytes => bytes,
    })
}

/// CONV(text, from, to): a negative `from` reads signed numbers, a negative `to` prints them.
fn conv(a: &Args) -> Result<ArrayRef> {
    let (s, from, to) = (a.text(0)?, a.int(1)?, a.int(2)?);
    a.texts(|i, out| {
        let (s, from, to) = (s.at(i)?.trim(), from.at(i)?, to.at(i)?);
        let (base, target) = (from.unsigned_abs(), to.unsigned_abs());
        if !(2..=36).contains(&base) || !(2..=36).contains(&target) || s.is_empty() {
            return None;
        }
        let (negative, digits) = match s.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, s.strip_prefix('+').unwrap_or(s)),
        };
        // Reads up to the first character that is not a digit; a number that is too large becomes the greatest one.
        let mut v: u64 = 0;
        for c in digits.chars() {
            let Some(d) = c.to_digit(base as u32) else { break };
            v = v.checked_mul(base).and_then(|v| v.checked_add(d.into())).unwrap_or(u64::MAX);
        }
        if negative {
            v = v.wrapping_neg();
        }
        if to < 0 && (v as i64) < 0 {
            out.push('-');
            v = (v as i64).unsigned_abs();
        }
        write_base(out, v.into(), target.into());
        Some(())
    })
}
