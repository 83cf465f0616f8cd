//! Lines to fields if one separator byte is not enough: OpenCSVSerde, MultiDelimitSerDe, other encodings.

use memchr::memmem;

use super::charset::{Charset, java_lossy};
use super::cut;
use super::opencsv::{self, Marks};
use crate::convert::{LineFault, SplitLine};
use crate::dialect::{HiveDialect, HiveSerde};
use crate::error::TextError;
use crate::hive::error::HiveError;
use crate::span::Span;

/// Returns the splitter for the lines of this dialect; `None` if the first separator and the escape suffice
/// (LazySimpleSerDe in UTF-8).
///
/// # Errors
/// `Options` for an unknown encoding.
pub fn line_splitter(dialect: &HiveDialect) -> Result<Option<Box<dyn SplitLine>>, TextError> {
    let charset = match &dialect.encoding {
        None => Charset::Utf8,
        Some(name) => Charset::for_name(name).ok_or_else(|| HiveError::BadProperty {
            property: "serialization.encoding".to_owned(),
            value: name.clone(),
            expected: "the name of a character set".to_owned(),
        })?,
    };
    Ok(match &dialect.serde {
        HiveSerde::LazySimple if charset == Charset::Utf8 => None,
        HiveSerde::LazySimple => Some(Box::new(LazyLine {
            charset,
            separator: dialect.separators.first().copied().unwrap_or(1),
            escape: dialect.escape,
            rest: dialect.last_column_takes_rest,
        })),
        HiveSerde::MultiDelimit { field_delimiter } => Some(Box::new(MultiLine {
            charset,
            delimiter: memmem::Finder::new(field_delimiter).into_owned(),
            escape: dialect.escape,
        })),
        HiveSerde::OpenCsv { separator, quote, escape } => {
            Some(Box::new(CsvLine { marks: Marks { separator: *separator, quote: *quote, escape: *escape } }))
        }
    })
}

/// Splitter of LazySimpleSerDe with an encoding: the line is decoded, then cut.
#[derive(Debug)]
struct LazyLine {
    charset: Charset,
    separator: u8,
    escape: Option<u8>,
    rest: bool,
}

impl SplitLine for LazyLine {
    fn split(&self, line: &[u8], columns: usize, out: &mut Vec<u8>, fields: &mut Vec<Span>) -> Vec<LineFault> {
        let start = out.len();
        out.extend_from_slice(&self.charset.decode(line));
        let range = (start, out.len());
        cut::fields(out, range, self.separator, self.escape, self.rest, columns, |_, span| fields.push(span));
        Vec::new()
    }
}

/// Splitter of MultiDelimitSerDe: the line is made valid UTF-8, then cut at the delimiter; the cut ignores escapes.
#[derive(Debug)]
struct MultiLine {
    charset: Charset,
    delimiter: memmem::Finder<'static>,
    escape: Option<u8>,
}

impl SplitLine for MultiLine {
    fn split(&self, line: &[u8], columns: usize, out: &mut Vec<u8>, fields: &mut Vec<Span>) -> Vec<LineFault> {
        let start = out.len();
        let decoded = self.charset.decode(line);
        out.extend_from_slice(java_lossy(&decoded).as_bytes());
        let end = out.len();
        let mut from = Some(start);
        for _ in 0..columns {
            let Some(begin) = from else {
                fields.push(Span::MISSING);
                continue;
            };
            let found = self.delimiter.find(&out[begin..end]).map(|at| begin + at);
            fields.push(cut::span_of(out, begin, found.unwrap_or(end), self.escape));
            from = found.map(|at| at + self.delimiter.needle().len());
        }
        Vec::new()
    }
}

/// Splitter of OpenCSVSerde.
#[derive(Debug)]
struct CsvLine {
    marks: Marks<char>,
}

impl SplitLine for CsvLine {
    fn split(&self, line: &[u8], columns: usize, out: &mut Vec<u8>, fields: &mut Vec<Span>) -> Vec<LineFault> {
        let last = fields.len() + columns;
        let text = java_lossy(line);
        let Marks { separator, quote, escape } = self.marks;
        if separator.is_ascii() && quote.is_ascii() && escape.is_ascii() {
            let marks = Marks { separator: separator as u8, quote: quote as u8, escape: escape as u8 };
            let mut push = |field: &[u8]| {
                if fields.len() < last {
                    let start = out.len();
                    out.extend_from_slice(field);
                    fields.push(Span::new(start as u32, out.len() as u32));
                }
            };
            let line = text.as_bytes();
            let plain = memchr::memchr2(marks.quote, marks.escape, line).is_none()
                && memchr::memchr2(b'\n', b'\r', line).is_none();
            if plain && !line.is_empty() {
                line.split(|b| *b == marks.separator).for_each(push);
            } else {
                opencsv::split(line, marks, &mut push);
            }
        } else {
            let line: Vec<char> = text.chars().collect();
            opencsv::split(&line, self.marks, &mut |field: &[char]| {
                if fields.len() < last {
                    let start = out.len();
                    out.extend(field.iter().collect::<String>().bytes());
                    fields.push(Span::new(start as u32, out.len() as u32));
                }
            });
        }
        fields.resize(last, Span::MISSING);
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(dialect: &HiveDialect, line: &[u8], columns: usize) -> Vec<Option<String>> {
        let splitter = line_splitter(dialect).unwrap().unwrap();
        let (mut out, mut fields) = (b"before".to_vec(), vec![Span::new(0, 6)]);
        splitter.split(line, columns, &mut out, &mut fields);
        assert_eq!(fields.len(), columns + 1);
        fields[1..].iter().map(|span| span.bytes(&out).map(|b| String::from_utf8_lossy(b).into_owned())).collect()
    }

    fn some(fields: &[&str]) -> Vec<Option<String>> {
        fields.iter().map(|field| (*field != "-").then(|| (*field).to_owned())).collect()
    }

    #[test]
    fn lines() {
        let multi = |delimiter: &str| HiveDialect {
            serde: HiveSerde::MultiDelimit { field_delimiter: delimiter.as_bytes().to_vec() },
            ..HiveDialect::default()
        };
        assert_eq!(cut(&multi("||"), b"x|||y||z", 2), some(&["x", "|y"]));
        assert_eq!(cut(&multi("||"), b"x", 3), some(&["x", "-", "-"]));
        assert_eq!(cut(&multi("||"), b"\xC3||\xFF", 2), some(&["\u{FFFD}", "\u{FFFD}"]));
        let csv = HiveDialect {
            serde: HiveSerde::OpenCsv { separator: ',', quote: '"', escape: '\\' },
            ..HiveDialect::default()
        };
        assert_eq!(cut(&csv, b"1,\"a,b\",2", 4), some(&["1", "a,b", "2", "-"]));
        assert_eq!(cut(&csv, b"a,b,c", 2), some(&["a", "b"]));
        assert_eq!(cut(&csv, b"", 2), some(&["-", "-"]));
        let gbk = HiveDialect { encoding: Some("GBK".to_owned()), ..HiveDialect::default() };
        assert_eq!(cut(&gbk, b"\xd6\xd0\x01x", 2), some(&["中", "x"]));
    }
}
