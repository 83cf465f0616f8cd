//! A dialect reduced to the properties needed for finding records and fields.

use crate::dialect::{CsvDialect, Dialect, HiveDialect, HiveSerde, LineEnd, Ragged};
use crate::error::{ErrorKind, TextError};
use crate::simd::Shape;

/// The end of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ends {
    /// `\n`; a `\r` before it is not data.
    Feed,
    /// `\n`, `\r\n` or `\r`.
    Any,
    /// One byte, nothing else.
    Byte(u8),
    /// Several bytes.
    Bytes(Vec<u8>),
}

/// Structure of a file, as [`machine`](super::machine) and [`Shape`] use it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grammar {
    /// Bytes between fields; `None`: lines are cut by a [`SplitLine`](crate::convert::SplitLine).
    pub delimiter: Option<Vec<u8>>,
    pub ends: Ends,
    pub quote: Option<u8>,
    pub escape: Option<u8>,
    pub escape_hides_line_end: bool,
    pub comment: Option<u8>,
    /// Blanks and tabs around fields are not data.
    pub trim: bool,
    /// Nor are two `"` around one.
    pub unquote: bool,
    /// Lines without bytes are no rows.
    pub skip_empty: bool,
    /// A wrong number of fields makes a record bad.
    pub strict: bool,
    /// The last column extends to the end of the line.
    pub takes_rest: bool,
    /// Each line is a JSON object.
    pub objects: bool,
    /// Lines to skip at the start of a file; whether a header follows; lines to skip at the end.
    pub skip_lines: u64,
    pub header: bool,
    pub footer: u64,
}

impl Grammar {
    /// Reduces `dialect`.
    ///
    /// # Errors
    /// `Options` if the dialect contradicts itself.
    pub(crate) fn try_new(dialect: &Dialect, columns: usize) -> Result<Self, TextError> {
        match dialect {
            Dialect::Csv(csv) => Self::csv(csv, columns),
            Dialect::Hive(hive) => Self::hive(hive),
            Dialect::Json(_) => Ok(Self::json()),
        }
    }

    fn csv(d: &CsvDialect, columns: usize) -> Result<Self, TextError> {
        let wrong = |what: &str| Err(TextError::new(ErrorKind::Options, what));
        if d.delimiter.is_empty() {
            return wrong("the delimiter is empty, expected at least one byte");
        }
        if matches!(&d.line_end, LineEnd::Bytes(b) if b.is_empty()) {
            return wrong("the line end is empty, expected at least one byte");
        }
        let ends = ends(&d.line_end);
        let is_end = |b: u8| match &ends {
            Ends::Feed => b == b'\n',
            Ends::Any => b == b'\n' || b == b'\r',
            Ends::Byte(e) => b == *e,
            Ends::Bytes(e) => b == e[0],
        };
        if is_end(d.delimiter[0]) && (d.delimiter.len() == 1 || !matches!(ends, Ends::Bytes(_))) {
            return wrong("the delimiter begins with the line end");
        }
        for (name, byte) in [("quote", d.quote), ("escape", d.escape), ("comment", d.comment)] {
            let Some(byte) = byte else { continue };
            if byte == d.delimiter[0] || is_end(byte) {
                return wrong(&format!("the {name} byte {:?} is the delimiter's or the line end's", byte as char));
            }
        }
        if d.comment.is_some() && d.comment == d.quote {
            return wrong("comment and quote are the same byte");
        }
        // An escape equal to the quote means the same as doubling.
        let escape = d.escape.filter(|e| Some(*e) != d.quote);
        if d.unquote && escape == Some(b'"') {
            return wrong("double quotes that are dropped around fields are the escape byte");
        }
        Ok(Grammar {
            delimiter: Some(d.delimiter.clone()),
            ends,
            quote: d.quote,
            escape,
            escape_hides_line_end: true,
            comment: d.comment,
            trim: d.trim,
            unquote: d.unquote && d.quote != Some(b'"'),
            skip_empty: columns != 1,
            strict: d.ragged == Ragged::Error,
            takes_rest: false,
            objects: false,
            skip_lines: d.skip_lines,
            header: d.header,
            footer: 0,
        })
    }

    /// Lines without an inner structure.
    fn json() -> Self {
        Grammar {
            delimiter: None,
            ends: Ends::Feed,
            quote: None,
            escape: None,
            escape_hides_line_end: false,
            comment: None,
            trim: false,
            unquote: false,
            skip_empty: true,
            strict: false,
            takes_rest: false,
            objects: true,
            skip_lines: 0,
            header: false,
            footer: 0,
        }
    }

    fn hive(d: &HiveDialect) -> Result<Self, TextError> {
        if matches!(&d.line_end, LineEnd::Bytes(b) if b.is_empty()) {
            return Err(TextError::new(ErrorKind::Options, "textinputformat.record.delimiter is empty"));
        }
        let delimiter = match &d.serde {
            // Other encodings are decoded line by line before fields are cut.
            HiveSerde::LazySimple if d.encoding.is_none() => Some(vec![d.separators.first().copied().unwrap_or(1)]),
            _ => None,
        };
        // The separator is compared before the escape, so an escape of the same byte never has an effect.
        let escape = if delimiter.is_some() { d.escape } else { None };
        let escape = escape.filter(|e| delimiter.as_ref().is_some_and(|s| s[0] != *e));
        Ok(Grammar {
            delimiter,
            ends: ends(&d.line_end),
            quote: None,
            escape,
            escape_hides_line_end: false,
            comment: None,
            trim: false,
            unquote: false,
            skip_empty: false,
            strict: false,
            takes_rest: d.last_column_takes_rest,
            objects: false,
            skip_lines: d.skip_header,
            header: false,
            footer: d.skip_footer,
        })
    }

    /// Returns the shape for the SIMD index; `None` if delimiter or line end have several bytes. `columns`: the fields of
    /// each record.
    pub(crate) fn shape(&self, columns: usize) -> Option<Shape> {
        let line_end = match &self.ends {
            Ends::Feed | Ends::Any => b'\n',
            Ends::Byte(b) => *b,
            Ends::Bytes(_) => return None,
        };
        let delimiter = match &self.delimiter {
            Some(d) if d.len() == 1 => d[0],
            Some(_) => return None,
            // There is no delimiter: use a byte that is never found as one, because line ends win.
            None => line_end,
        };
        Some(Shape {
            delimiter,
            line_end,
            any_newline: self.ends == Ends::Any,
            quote: self.quote,
            escape: self.escape,
            escape_hides_line_end: self.escape_hides_line_end,
            comment: self.comment,
            skip_empty: self.skip_empty,
            objects: self.objects,
            width: if self.strict { columns as u64 } else { 0 },
        })
    }

    pub(crate) fn delimiter_len(&self) -> u32 {
        self.delimiter.as_ref().map_or(1, |d| d.len() as u32)
    }

    pub(crate) fn line_end_len(&self) -> u32 {
        match &self.ends {
            Ends::Bytes(b) => b.len() as u32,
            _ => 1,
        }
    }

    /// Whether there is a shape for the SIMD index.
    pub(crate) fn has_shape(&self) -> bool {
        self.shape(0).is_some()
    }

    /// Whether a worker can begin in the middle of a file. With quotes, their state is resolved between workers by
    /// masks, which need delimiters and line ends of one byte; without quotes, a line end must be one byte, so that it
    /// cannot be cut in half.
    pub(crate) fn splittable(&self) -> bool {
        let byte_ends = !matches!(self.ends, Ends::Bytes(_));
        byte_ends && (self.quote.is_none() || self.has_shape())
    }
}

fn ends(line_end: &LineEnd) -> Ends {
    match line_end {
        LineEnd::Newline => Ends::Feed,
        LineEnd::AnyNewline => Ends::Any,
        LineEnd::Bytes(b) if b.len() == 1 => Ends::Byte(b[0]),
        LineEnd::Bytes(b) => Ends::Bytes(b.clone()),
    }
}
