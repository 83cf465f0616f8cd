//! AUTO_PARTITION_NAME: the names that Doris gives to partitions that it creates automatically.

use std::fmt::Write;

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::args::Args;
use super::func::{Def, MANY, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[def("auto_partition_name", &[], (2, MANY), Ret::Text, auto_partition_name)];

/// `AUTO_PARTITION_NAME('RANGE', unit, date)` or `('LIST', value, ...)`.
fn auto_partition_name(a: &Args) -> Result<ArrayRef> {
    let kind = a.text(0)?;
    let kind = kind.one.then(|| kind.at(0)).flatten().map(str::to_ascii_lowercase);
    match kind.as_deref() {
        Some("range") => range_name(a),
        Some("list") => list_name(a),
        _ => exec_err!("{}: expected 'RANGE' or 'LIST' as a constant in front", a.name),
    }
}

/// The number of digits of a complete range name.
const RANGE_DIGITS: usize = 14;

/// Returns `p` and the digits of the moment at which the range begins.
fn range_name(a: &Args) -> Result<ArrayRef> {
    if a.len() != 3 {
        return exec_err!("{}: expected 'RANGE', a unit and a date, found {} arguments", a.name, a.len());
    }
    let unit = a.text(1)?;
    let unit = unit.one.then(|| unit.at(0)).flatten().map(str::to_ascii_lowercase);
    // The digits of the date that the unit keeps, and those that complete it to the first day.
    let (kept, first) = match unit.as_deref() {
        Some("year") => (4, "0101"),
        Some("month") => (6, "01"),
        Some("day") => (8, ""),
        Some("hour") => (10, ""),
        Some("minute") => (12, ""),
        Some("second") => (14, ""),
        _ => {
            return exec_err!(
                "{}: expected 'year', 'month', 'day', 'hour', 'minute' or 'second' as a constant",
                a.name
            );
        }
    };
    let dates = a.text(2)?;
    let mut bad = None;
    let out = a.texts(|i, out| {
        let date = dates.at(i)?;
        let shape: String = date.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        if !matches!(shape.as_str(), "0000-00-00" | "0000-00-00 00:00:00") {
            bad = Some(date.to_string());
            return None;
        }
        out.push('p');
        out.extend(date.chars().filter(char::is_ascii_digit).take(kept));
        out.push_str(first);
        while out.len() < RANGE_DIGITS + 1 {
            out.push('0');
        }
        Some(())
    })?;
    match bad {
        Some(date) => exec_err!("{}: expected a DATE or DATETIME without a fraction, found '{date}'", a.name),
        None => Ok(out),
    }
}

/// The length in bytes from which on the name of a list is cut.
const LIST_LENGTH_MAX: usize = 50;

/// Returns `p`, and for each value its letters and digits, the codes of other characters, and its length; `X` for NULL.
fn list_name(a: &Args) -> Result<ArrayRef> {
    let values = (1..a.len()).map(|k| a.text(k)).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        out.push('p');
        for value in &values {
            let Some(value) = value.at(i) else {
                out.push('X');
                continue;
            };
            a.ask(value.len() * 5)?;
            if value.starts_with('-') {
                out.push('_');
            }
            let mut units = 0;
            for c in value.chars() {
                let mut pair = [0; 2];
                let pair = c.encode_utf16(&mut pair);
                units += pair.len();
                if c.is_ascii_alphanumeric() {
                    out.push(c);
                    continue;
                }
                let _ = write!(out, "{:02x}", u32::from(c));
                // The second half of a UTF-16 pair is written after the whole character.
                if let [_, low] = pair {
                    let _ = write!(out, "{low:02x}");
                }
            }
            let _ = write!(out, "{units}");
        }
        if out.len() > LIST_LENGTH_MAX {
            // Java's hash of a string.
            let hash = out.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
            out.truncate(LIST_LENGTH_MAX);
            let _ = write!(out, "_{}", signed_hex(hash.cast_signed()));
        }
        Some(())
    })
}

/// Returns eight digits, with a sign before negative numbers, like C++ does.
fn signed_hex(n: i32) -> String {
    match n < 0 {
        true => format!("-{:07x}", n.unsigned_abs()),
        false => format!("{n:08x}"),
    }
}
