//! UUIDs. As a LARGEINT, their 16 bytes begin with the lowest one.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{SystemTime, UNIX_EPOCH};

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::Volatility;
use rand::Rng;

use super::args::Args;
use super::func::{Def, Ret, def};
use super::whole::{LARGEINT, large, wholes};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("is_uuid", &[], (1, 1), Ret::Bool, |a| {
        let s = a.text(0)?;
        a.bools(|i| Some(written(s.at(i)?).is_some()))
    }),
    def("uuid_to_bin", &[], (1, 2), Ret::Bytes, uuid_to_bin),
    def("bin_to_uuid", &[], (1, 2), Ret::Text, bin_to_uuid),
    def("uuid_to_int", &[], (1, 1), LARGE, |a| {
        let s = a.text(0)?;
        large(a, |i| Ok(s.at(i).and_then(|text| bytes_of(text, |_| false)).map(i128::from_le_bytes)))
    }),
    def("int_to_uuid", &[], (1, 1), Ret::Text, int_to_uuid),
    def("uuid_v7", &[], (0, 0), Ret::Text, |a| {
        let values = version_7(a.rows);
        a.texts(|i, out| {
            write_uuid(out, values[i].to_be_bytes());
            Some(())
        })
    })
    .with_volatility(Volatility::Volatile),
    def("uuid_v7_numeric", &[], (0, 0), LARGE, |a| {
        let values = version_7(a.rows);
        large(a, |i| Ok(Some(values[i].cast_signed())))
    })
    .with_volatility(Volatility::Volatile),
    def("uuid_numeric", &[], (0, 0), LARGE, |a| {
        let mut random = rand::rng();
        let values: Vec<i128> = (0..a.rows).map(|_| random.random_range(0..=i128::MAX)).collect();
        large(a, |i| Ok(Some(values[i])))
    })
    .with_volatility(Volatility::Volatile),
    def("uuid_short", &[], (0, 0), Ret::By(|_| Ok(DataType::UInt64)), |a| {
        let first = short(a.rows as u64);
        Ok(Arc::new(UInt64Array::from_iter_values((0..a.rows as u64).map(|i| first.wrapping_add(i)))))
    })
    .with_volatility(Volatility::Volatile),
];

const LARGE: Ret = Ret::By(|_| Ok(LARGEINT));

/// Takes `count` numbers for UUID_SHORT, and returns the first. As in MySQL they are the number of the server, which is
/// 1, the second in which this process took the first of them, and a counter: 8, 32 and 24 bits.
fn short(count: u64) -> u64 {
    static NEXT: LazyLock<AtomicU64> = LazyLock::new(|| {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        AtomicU64::new(1 << 56 | (seconds & 0xffff_ffff) << 24)
    });
    NEXT.fetch_add(count, Ordering::Relaxed)
}

/// The number of characters of a UUID.
const WITH_HYPHENS: usize = 36;
const WITHOUT_HYPHENS: usize = 32;
/// The positions of the hyphens.
const HYPHENS: [usize; 4] = [8, 13, 18, 23];

/// Returns the bytes of 32 hexadecimal digits, which may have hyphens; `at_hyphen` tells which other characters may
/// stand at their positions, where they are ignored.
fn bytes_of(text: &str, at_hyphen: fn(char) -> bool) -> Option<[u8; 16]> {
    let digits: Vec<u8> = match text.len() {
        WITHOUT_HYPHENS => text.bytes().collect(),
        WITH_HYPHENS => {
            let bytes = text.as_bytes();
            if !HYPHENS.iter().all(|at| bytes[*at] == b'-' || at_hyphen(bytes[*at].into())) {
                return None;
            }
            bytes.iter().enumerate().filter(|(at, _)| !HYPHENS.contains(at)).map(|(_, b)| *b).collect()
        }
        _ => return None,
    };
    let digit = |b: u8| char::from(b).to_digit(16).map(|d| d as u8);
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

/// Returns the bytes of a UUID in the forms of IS_UUID: 32 digits, with hyphens or without, and with hyphens also in
/// braces.
fn written(text: &str) -> Option<[u8; 16]> {
    let inside = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let text = match inside {
        Some(inside) => Some(inside).filter(|inside| inside.len() == WITH_HYPHENS)?,
        None => text,
    };
    bytes_of(text, |c| c.is_ascii_hexdigit())
}

/// `UUID_TO_BIN(text [, swap])`: with `swap` the bytes of the time begin with the highest, so that UUIDs of version 1 are
/// in the order of their times.
fn uuid_to_bin(a: &Args) -> Result<ArrayRef> {
    let (s, swap) = (a.text(0)?, a.has(1).then(|| a.bool(1)).transpose()?);
    if let Some(wrong) = (0..a.rows).filter_map(|i| s.at(i)).find(|text| written(text).is_none()) {
        return exec_err!("uuid_to_bin: '{wrong}' is no UUID");
    }
    a.binaries(|i| {
        let b = written(s.at(i)?)?;
        let swaps = swap.as_ref().map_or(Some(false), |swap| swap.at(i))?;
        Some(if swaps { [&b[6..8], &b[4..6], &b[..4], &b[8..]].concat() } else { b.to_vec() })
    })
}

/// `BIN_TO_UUID(bytes [, swap])`, the inverse of [`uuid_to_bin`].
fn bin_to_uuid(a: &Args) -> Result<ArrayRef> {
    let (s, swap) = (a.bytes(0)?, a.has(1).then(|| a.bool(1)).transpose()?);
    if let Some(wrong) = (0..a.rows).filter_map(|i| s.at(i)).find(|bytes| bytes.len() != 16) {
        return exec_err!("bin_to_uuid: a UUID has 16 bytes, found {}", wrong.len());
    }
    a.texts(|i, out| {
        let b = s.at(i)?;
        let swaps = swap.as_ref().map_or(Some(false), |swap| swap.at(i))?;
        let bytes = if swaps { [&b[4..8], &b[2..4], &b[..2], &b[8..]].concat() } else { b.to_vec() };
        write_uuid(out, bytes.try_into().ok()?);
        Some(())
    })
}

/// Appends the text of a UUID.
fn write_uuid(out: &mut String, bytes: [u8; 16]) {
    for (at, byte) in bytes.into_iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            out.push('-');
        }
        let _ = write!(out, "{byte:02x}");
    }
}

/// Returns UUIDs of version 7, whose highest bits are the milliseconds since 1970: 48 bits of time, the version, 12
/// random bits, the variant and 62 random bits.
fn version_7(rows: usize) -> Vec<u128> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let mut random = rand::rng();
    let mut values: Vec<u128> = (0..rows)
        .map(|_| {
            let bits: u128 = random.random();
            let low = bits & ((1 << 62) - 1) | 0b10 << 62;
            let middle = bits >> 64 & 0xfff | 0x7000;
            (since & 0xffff_ffff_ffff) << 80 | middle << 64 | low
        })
        .collect();
    // Later rows have larger numbers, as if they were made one after the other.
    values.sort_unstable();
    values
}

fn int_to_uuid(a: &Args) -> Result<ArrayRef> {
    let x = wholes(a, 0)?;
    a.texts(|i, out| {
        write_uuid(out, x.at(i)?.to_le_bytes());
        Some(())
    })
}
