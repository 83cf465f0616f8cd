//! TO_TERA_DATE and TO_TERA_TIMESTAMP: texts that are read by a format in Teradata's words, as in StarRocks.

use datafusion::common::{Result, exec_err};

use super::super::args::Args;
use super::super::func::{Def, Ret, def};
use super::parse::full_year;
use super::{DAY_MICROS, Parts};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("to_tera_date", &[], (2, 2), Ret::Date, |a| {
        let moments = moments(a)?;
        a.dates(|i| moments[i].map(|at| at.div_euclid(DAY_MICROS) as i32))
    }),
    def("to_tera_timestamp", &[], (2, 2), Ret::DateTime, |a| {
        let moments = moments(a)?;
        a.datetimes(|i| moments[i])
    }),
];

/// An element of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Element {
    Year4,
    Year2,
    Month,
    Day,
    /// An hour from 1 to 12.
    Hour12,
    /// An hour from 0 to 23.
    Hour24,
    Minute,
    Second,
    /// `am` or `pm`: the text may have either.
    Half,
    /// A character that separates.
    Mark,
}

/// The words of a format, each before those that it begins with.
const WORDS: [(&str, Element); 10] = [
    ("yyyy", Element::Year4),
    ("yy", Element::Year2),
    ("mm", Element::Month),
    ("mi", Element::Minute),
    ("dd", Element::Day),
    ("hh24", Element::Hour24),
    ("hh", Element::Hour12),
    ("ss", Element::Second),
    ("am", Element::Half),
    ("pm", Element::Half),
];

fn is_mark(c: char) -> bool {
    matches!(c, ' ' | '\r' | '\n' | '\t' | '-' | '/' | ',' | '.' | ';' | ':')
}

/// Takes a format apart; `None` if there is something else in it.
fn elements(format: &str) -> Option<Vec<Element>> {
    let (mut elements, mut rest) = (Vec::new(), format);
    while let Some(first) = rest.chars().next() {
        if is_mark(first) {
            elements.push(Element::Mark);
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let begins = |word: &str| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
        let (word, element) = WORDS.iter().find(|(word, _)| begins(word))?;
        elements.push(*element);
        rest = &rest[word.len()..];
    }
    Some(elements)
}

/// Takes up to `digits` digits from the front.
fn number(rest: &mut &str, digits: usize) -> Option<i32> {
    let length = rest.bytes().take(digits).take_while(u8::is_ascii_digit).count();
    let (found, behind) = rest.split_at(length);
    *rest = behind;
    found.parse().ok()
}

/// Reads a text by a format; `None` if it does not fit, or there is no such moment. What follows the last element is
/// ignored; what the format does not name is that of 1970-01-01 00:00:00.
fn read(text: &str, format: &[Element]) -> Option<i64> {
    let mut parts = Parts { year: 1970, month: 1, day: 1, ..Parts::default() };
    let (mut rest, mut afternoon, mut twelve) = (text, None, false);
    for element in format {
        match element {
            Element::Mark => {
                let mark = rest.chars().next().filter(|c| is_mark(*c))?;
                rest = &rest[mark.len_utf8()..];
            }
            Element::Half => {
                let half = rest.get(..2)?;
                afternoon = Some(match half {
                    half if half.eq_ignore_ascii_case("am") => false,
                    half if half.eq_ignore_ascii_case("pm") => true,
                    _ => return None,
                });
                rest = &rest[2..];
            }
            Element::Year4 => parts.year = number(&mut rest, 4)?,
            Element::Year2 => parts.year = full_year(number(&mut rest, 2)?),
            Element::Month => parts.month = number(&mut rest, 2)?,
            Element::Day => parts.day = number(&mut rest, 2)?,
            Element::Hour24 => parts.hour = number(&mut rest, 2)?,
            Element::Hour12 => {
                parts.hour = number(&mut rest, 2).filter(|hour| (1..=12).contains(hour))?;
                twelve = true;
            }
            Element::Minute => parts.minute = number(&mut rest, 2)?,
            Element::Second => parts.second = number(&mut rest, 2)?,
        }
    }
    if let Some(afternoon) = afternoon.filter(|_| twelve) {
        parts.hour = parts.hour % 12 + if afternoon { 12 } else { 0 };
    }
    parts.to_micros()
}

fn moments(a: &Args) -> Result<Vec<Option<i64>>> {
    let (texts, formats) = (a.text(0)?, a.text(1)?);
    let mut moments = Vec::with_capacity(a.rows);
    // The format is taken apart again only when it differs from that of the row before.
    let mut last: Option<(&str, Vec<Element>)> = None;
    for i in 0..a.rows {
        let (Some(text), Some(format)) = (texts.at(i), formats.at(i)) else {
            moments.push(None);
            continue;
        };
        if last.as_ref().is_none_or(|(known, _)| *known != format) {
            let Some(elements) = elements(format) else {
                return exec_err!(
                    "{}: expected a format of yyyy, yy, mm, dd, hh, hh24, mi, ss, am, pm and punctuation, found '{format}'",
                    a.name
                );
            };
            last = Some((format, elements));
        }
        moments.push(last.as_ref().and_then(|(_, elements)| read(text, elements)));
    }
    Ok(moments)
}
