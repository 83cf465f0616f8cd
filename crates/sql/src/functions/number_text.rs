//! Numbers as texts for people, and sizes that are read from such texts.

use std::fmt::Write;

use arrow::array::{Array, ArrayRef};
use datafusion::common::{Result, exec_err};

use super::args::{Args, to_text};
use super::func::{Def, Ret, def};
use super::math::{round_double, round_text};
use super::string::write_grouped;
use super::whole::{LARGEINT, large, truncated};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("format_bytes", &[], (1, 1), Ret::Text, |a| with_unit(a, 4, &BYTES)),
    def("format_number", &[], (1, 1), Ret::Text, format_number),
    def("format_pico_time", &[], (1, 1), Ret::Text, |a| with_unit(a, 3, &PICOSECONDS)),
    def("format_round", &[], (2, 2), Ret::Text, format_round),
    def("human_readable_seconds", &[], (1, 1), Ret::Text, human_readable_seconds),
    def("parse_data_size", &[], (1, 1), Ret::By(|_| Ok(LARGEINT)), parse_data_size),
];

/// Units with the numbers of bytes that they have, beginning with the largest.
const BYTES: [(f64, &str); 7] = [
    (1_152_921_504_606_846_976.0, "EiB"),
    (1_125_899_906_842_624.0, "PiB"),
    (1_099_511_627_776.0, "TiB"),
    (1_073_741_824.0, "GiB"),
    (1_048_576.0, "MiB"),
    (1024.0, "KiB"),
    (1.0, "bytes"),
];

/// Units with the numbers of picoseconds that they have, beginning with the largest.
const PICOSECONDS: [(f64, &str); 8] = [
    (86_400e12, "d"),
    (3_600e12, "h"),
    (60e12, "min"),
    (1e12, "s"),
    (1e9, "ms"),
    (1e6, "us"),
    (1e3, "ns"),
    (1.0, "ps"),
];

/// `FORMAT_BYTES(x)`, `FORMAT_PICO_TIME(x)`: two digits behind the point of the largest unit of which there is one. The
/// smallest unit is counted whole, on the right of `width` places, as in MySQL.
fn with_unit(a: &Args, width: usize, units: &[(f64, &str)]) -> Result<ArrayRef> {
    let x = a.double(0)?;
    a.texts(|i, out| {
        let x = x.at(i)?;
        let _ = match units.iter().find(|(size, _)| x.abs() >= *size && *size > 1.0) {
            Some((size, unit)) => write!(out, "{:.2} {unit}", x / size),
            None => write!(out, "{:width$} {}", x.trunc() as i64, units[units.len() - 1].1),
        };
        Some(())
    })
}

/// `HUMAN_READABLE_SECONDS(x)`: weeks, days, hours, minutes and seconds, without those of which there are none. The sign does not
/// count; NULL beyond the range of BIGINT.
fn human_readable_seconds(a: &Args) -> Result<ArrayRef> {
    const UNITS: [(&str, u64); 5] =
        [("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1)];
    let x = a.double(0)?;
    a.texts(|i, out| {
        let mut left = whole_seconds(x.at(i)?)?;
        for (unit, seconds) in UNITS {
            let count = left / seconds;
            left %= seconds;
            if count > 0 {
                let (comma, plural) = (if out.is_empty() { "" } else { ", " }, if count == 1 { "" } else { "s" });
                let _ = write!(out, "{comma}{count} {unit}{plural}");
            }
        }
        if out.is_empty() {
            out.push_str("0 seconds");
        }
        Some(())
    })
}

/// The nearest whole number without its sign; of two, the larger one is taken before the sign is dropped.
fn whole_seconds(x: f64) -> Option<u64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if x.is_nan() || x.abs() >= LIMIT {
        return None;
    }
    // Adding 0.5 would round up what is just below a half.
    let floor = x.floor();
    let nearest = if x - floor >= 0.5 { floor + 1.0 } else { floor };
    Some(nearest.abs() as u64)
}

/// `FORMAT_NUMBER(x)`: three digits and a unit of thousands.
fn format_number(a: &Args) -> Result<ArrayRef> {
    const UNITS: [&str; 6] = ["", "K", "M", "B", "T", "Q"];
    let x = a.double(0)?;
    a.texts(|i, out| {
        let x = x.at(i)?;
        let (mut size, mut unit) = (x.abs(), 0);
        while size >= 1000.0 && unit + 1 < UNITS.len() {
            size /= 1000.0;
            unit += 1;
        }
        if x < 0.0 {
            out.push('-');
        }
        let digits = match size {
            1.0 => 0,
            ..10.0 => 2,
            ..100.0 => 1,
            _ => 0,
        };
        match size.is_finite() {
            true => {
                let _ = write!(out, "{size:.digits$}");
            }
            false => out.push_str(if size.is_nan() { "nan" } else { "inf" }),
        }
        out.push_str(UNITS[unit]);
        Some(())
    })
}

/// The largest number of digits of `FORMAT_ROUND`.
const DIGITS_MAX: i64 = 1024;

/// `FORMAT_ROUND(x, digits)`: with commas between thousands, rounded half away from zero.
fn format_round(a: &Args) -> Result<ArrayRef> {
    let (raw, digits) = (a.raw(0), a.int(1)?);
    if let Some(bad) = digits.array.iter().flatten().find(|digits| !(0..=DIGITS_MAX).contains(digits)) {
        return exec_err!("{}: expected a number of digits from 0 to {DIGITS_MAX}, found {bad}", a.name);
    }
    // Text is read as a number, like CAST reads it.
    let is_exact = raw.array.data_type().is_integer() || raw.array.data_type().is_decimal();
    let exact = is_exact.then(|| to_text(a.name, &raw.array)).transpose()?;
    let doubles = a.double(0)?;
    a.texts(|i, out| {
        let digits = digits.at(i)? as usize;
        let plain = match &exact {
            Some(texts) => {
                let row = if raw.one { 0 } else { i };
                round_text(texts.is_valid(row).then(|| texts.value(row))?, digits)?
            }
            None => {
                let x = doubles.at(i)?;
                if !x.is_finite() {
                    let _ = write!(out, "{}", x.to_string().to_lowercase());
                    return Some(());
                }
                format!("{:.digits$}", round_double(x, digits as i64))
            }
        };
        a.ask(plain.len() * 4 / 3)?;
        write_grouped(out, &plain);
        Some(())
    })
}

/// `PARSE_DATA_SIZE('2.5kB')`: the size in bytes; units are powers of 1,024.
fn parse_data_size(a: &Args) -> Result<ArrayRef> {
    const UNITS: [&str; 9] = ["B", "kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"];
    let texts = a.text(0)?;
    let size = |text: &str| {
        let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len()));
        let unit = UNITS.iter().position(|known| *known == unit)?;
        // The number ends before a second point.
        let end = number.match_indices('.').nth(1).map_or(number.len(), |(at, _)| at);
        // The product is exact, because the unit is a power of 2.
        truncated(number[..end].parse::<f64>().ok()? * 2_f64.powi(10 * unit as i32))
    };
    large(a, |i| match texts.at(i) {
        None => Ok(None),
        Some(text) => match size(text) {
            Some(size) => Ok(Some(size)),
            None => exec_err!("{}: expected a size such as 2.5kB, found '{text}'", a.name),
        },
    })
}
