//! MASK and its relatives: ASCII letters and digits are hidden, other characters stay.

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::args::Args;
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("mask", &[], (1, 4), Ret::Text, mask),
    def("digital_masking", &[], (1, 1), Ret::Text, digital_masking),
    def("mask_first_n", &[], (1, 2), Ret::Text, |a| mask_part(a, |count, n| 0..n.min(count))),
    def("mask_last_n", &[], (1, 2), Ret::Text, |a| mask_part(a, |count, n| count.saturating_sub(n)..count)),
];

/// `DIGITAL_MASKING(number)`: the first three and the last four characters of a telephone number, with `****` between.
fn digital_masking(a: &Args) -> Result<ArrayRef> {
    let text = a.text(0)?;
    a.texts(|i, out| {
        let text = text.at(i)?;
        let count = super::string::char_count(text);
        out.extend(text.chars().take(3));
        out.push_str("****");
        out.extend(text.chars().skip(count.saturating_sub(4)));
        Some(())
    })
}

/// The replacements of a capital letter, a small letter and a digit.
type Masks = [char; 3];

const MASKS: Masks = ['X', 'x', 'n'];

fn masked(c: char, masks: Masks) -> char {
    match c {
        'A'..='Z' => masks[0],
        'a'..='z' => masks[1],
        '0'..='9' => masks[2],
        other => other,
    }
}

/// `MASK(text [, upper [, lower [, digit]]])`.
fn mask(a: &Args) -> Result<ArrayRef> {
    let text = a.text(0)?;
    let given = (1..a.len()).map(|k| a.text(k)).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        let text = text.at(i)?;
        let mut masks = MASKS;
        for (mask, given) in masks.iter_mut().zip(&given) {
            // An empty text keeps the default.
            *mask = given.at(i)?.chars().next().unwrap_or(*mask);
        }
        out.extend(text.chars().map(|c| masked(c, masks)));
        Some(())
    })
}

/// Masks a range of bytes, which `part` determines from the number of bytes and n; without n, all bytes. Characters
/// beyond ASCII stay, so none is cut.
fn mask_part(a: &Args, part: fn(usize, usize) -> std::ops::Range<usize>) -> Result<ArrayRef> {
    let text = a.text(0)?;
    let count = a.has(1).then(|| a.int(1)).transpose()?;
    if let Some(count) = &count
        && count.array.iter().flatten().any(|n| n < 0)
    {
        return exec_err!("{}: expected a number of bytes, found a negative one", a.name);
    }
    a.texts(|i, out| {
        let text = text.at(i)?;
        let n = match &count {
            Some(count) => usize::try_from(count.at(i)?).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        let part = part(text.len(), n);
        out.extend(text.char_indices().map(|(at, c)| if part.contains(&at) { masked(c, MASKS) } else { c }));
        Some(())
    })
}
