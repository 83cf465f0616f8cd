//! Normal forms of Unicode.

use arrow::array::ArrayRef;
use caseless::Caseless;
use datafusion::common::{Result, exec_err};
use unicode_normalization::UnicodeNormalization;

use super::args::Args;
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[def("unicode_normalize", &[], (2, 2), Ret::Text, unicode_normalize)];

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
