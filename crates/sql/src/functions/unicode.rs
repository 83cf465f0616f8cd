//! Normal forms of Unicode, and the order of Chinese characters.

use std::ops::RangeInclusive;

use arrow::array::ArrayRef;
use caseless::Caseless;
use datafusion::common::{Result, exec_err};
use pinyin::ToPinyin;
use unicode_normalization::UnicodeNormalization;

use super::args::Args;
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("unicode_normalize", &[], (2, 2), Ret::Text, unicode_normalize),
    def("convert_to", &[], (2, 2), Ret::Text, convert_to),
];

/// The characters that GBK orders by their Pinyin.
const HAN: RangeInclusive<char> = '\u{4e00}'..='\u{9fa5}';

/// `CONVERT_TO(text, 'gbk')`, which is also `CONVERT(text USING gbk)`: a text that sorts as `text` does in GBK, with the
/// Pinyin in the place of each Chinese character. The `~` in front of it sorts behind all letters of ASCII.
fn convert_to(a: &Args) -> Result<ArrayRef> {
    let (texts, charsets) = (a.text(0)?, a.text(1)?);
    match charsets.at(0) {
        Some(charset) if charsets.one && charset.eq_ignore_ascii_case("gbk") => {}
        Some(charset) if charsets.one => return exec_err!("{}: expected 'gbk', found '{charset}'", a.name),
        _ => return exec_err!("{}: the character set must be a constant: 'gbk'", a.name),
    }
    a.texts(|i, out| {
        let text = texts.at(i)?;
        // Three bytes become at most seven.
        a.ask(text.len() / 3 * 7)?;
        for c in text.chars() {
            match c.to_pinyin().filter(|_| HAN.contains(&c)) {
                Some(pinyin) => {
                    out.push('~');
                    out.push_str(pinyin.plain());
                }
                None => out.push(c),
            }
        }
        Some(())
    })
}

/// `UNICODE_NORMALIZE(text, form)`.
fn unicode_normalize(a: &Args) -> Result<ArrayRef> {
    let (texts, forms) = (a.text(0)?, a.text(1)?);
    let form = match forms.one {
        true => forms.at(0),
        false => return exec_err!("{}: the form must be a constant, such as 'NFC'", a.name),
    };
    let Some(form) = form else { return Ok(a.nulls()) };
    let normalize: fn(&str, &mut String) = match form.trim().to_ascii_lowercase().as_str() {
        "nfc" => |text, out| out.extend(text.nfc()),
        "nfd" => |text, out| out.extend(text.nfd()),
        "nfkc" => |text, out| out.extend(text.nfkc()),
        "nfkd" => |text, out| out.extend(text.nfkd()),
        "nfkc_cf" => |text, out| out.push_str(&case_folded(text)),
        _ => return exec_err!("{}: expected NFC, NFD, NFKC, NFKD or NFKC_CF, found '{form}'", a.name),
    };
    a.texts(|i, out| {
        let text = texts.at(i)?;
        // One character becomes at most 18.
        a.ask(text.len())?;
        match text.is_ascii() && !form.trim().eq_ignore_ascii_case("nfkc_cf") {
            true => out.push_str(text),
            false => normalize(text, out),
        }
        Some(())
    })
}

/// NFKC_Casefold: compatible forms, without case and without ignorable characters.
fn case_folded(text: &str) -> String {
    let mut text = text.to_string();
    // Folding can make characters that compose, and composing characters that fold, so this is repeated until nothing
    // changes.
    loop {
        let shown = text.chars().filter(|c| !is_ignorable(*c));
        let next: String = shown.nfkd().default_case_fold().nfkc().collect();
        if next == text {
            return text;
        }
        text = next;
    }
}

/// Default_Ignorable_Code_Point of the Unicode Character Database.
fn is_ignorable(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fff8}' | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}
