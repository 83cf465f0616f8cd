//! Texts that are chosen by the bits of a number: EXPORT_SET, MAKE_SET.

use arrow::array::ArrayRef;
use datafusion::common::Result;

use super::args::Args;
use super::func::{Def, MANY, Ret, def};
use super::whole::wholes;

/// Functions of this file.
pub const DEFS: &[Def] =
    &[def("export_set", &[], (3, 5), Ret::Text, export_set), def("make_set", &[], (2, MANY), Ret::Text, make_set)];

/// The number of bits that are read.
const BITS: usize = 64;

/// `EXPORT_SET(bits, on, off [, separator [, count]])`: one of two texts for each bit, the lowest bit first.
fn export_set(a: &Args) -> Result<ArrayRef> {
    let (bits, on, off) = (wholes(a, 0)?, a.text(1)?, a.text(2)?);
    let separator = a.has(3).then(|| a.text(3)).transpose()?;
    let count = a.has(4).then(|| a.int(4)).transpose()?;
    a.texts(|i, out| {
        let bits = bits.at(i)?;
        // A number beyond 64 bits is clamped to the range of BIGINT.
        let bits = match u64::try_from(bits) {
            Ok(bits) => bits,
            Err(_) if bits > 0 => i64::MAX as u64,
            Err(_) => i64::try_from(bits).unwrap_or(i64::MIN) as u64,
        };
        let (on, off) = (on.at(i)?, off.at(i)?);
        let separator = match &separator {
            Some(separator) => separator.at(i)?,
            None => ",",
        };
        let count = match &count {
            Some(count) => usize::try_from(count.at(i)?).ok().filter(|count| *count <= BITS).unwrap_or(BITS),
            None => BITS,
        };
        a.ask(count * (on.len().max(off.len()) + separator.len()))?;
        for bit in 0..count {
            if bit > 0 {
                out.push_str(separator);
            }
            out.push_str(if bits >> bit & 1 == 1 { on } else { off });
        }
        Some(())
    })
}

/// `MAKE_SET(bits, text, ...)`: the texts whose bits are set, joined by commas; NULLs are left out.
fn make_set(a: &Args) -> Result<ArrayRef> {
    let bits = a.int(0)?;
    let texts = (1..a.len()).map(|k| a.text(k)).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        let bits = bits.at(i)?;
        let chosen = texts.iter().take(BITS).enumerate().filter(|(bit, _)| bits >> bit & 1 == 1);
        let chosen: Vec<&str> = chosen.filter_map(|(_, text)| text.at(i)).collect();
        a.ask(chosen.iter().map(|text| text.len() + 1).sum())?;
        for (n, text) in chosen.into_iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            out.push_str(text);
        }
        Some(())
    })
}
