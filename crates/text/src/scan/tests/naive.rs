//! A CSV reader that looks at one byte after the other and knows nothing of blocks.

use super::Row;
use crate::dialect::{CsvDialect, LineEnd};

struct Reader<'a> {
    d: &'a CsvDialect,
    bytes: &'a [u8],
    at: usize,
}

/// Rows of `columns` strings; missing fields are NULL, extra ones are dropped.
pub(super) fn rows(bytes: &[u8], d: &CsvDialect, columns: usize) -> Vec<Row> {
    let mut r = Reader { d, bytes, at: 0 };
    if bytes.starts_with(b"\xEF\xBB\xBF") {
        r.at = 3;
    }
    for _ in 0..d.skip_lines {
        while r.at < bytes.len() {
            if let Some(n) = r.line_end() {
                r.at += n;
                break;
            }
            r.at += 1;
        }
    }
    let mut header = d.header;
    let mut rows = Vec::new();
    while r.at < bytes.len() {
        let start = r.at;
        let comment = d.comment == Some(bytes[start]);
        let (fields, end) = r.record(comment);
        let text = &bytes[start..end];
        let blank = text.is_empty() || text == b"\r" && d.line_end == LineEnd::Newline;
        if comment || blank && (columns != 1 || header) {
            continue;
        }
        if std::mem::take(&mut header) {
            continue;
        }
        let mut row: Row = fields.into_iter().take(columns).collect();
        row.resize(columns, None);
        rows.push(row);
    }
    rows
}

impl Reader<'_> {
    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Length of the line end here, if there is one.
    fn line_end(&self) -> Option<usize> {
        let rest = self.rest();
        match &self.d.line_end {
            LineEnd::Newline => rest.starts_with(b"\n").then_some(1),
            LineEnd::AnyNewline if rest.starts_with(b"\r\n") => Some(2),
            LineEnd::AnyNewline => (rest.starts_with(b"\n") || rest.starts_with(b"\r")).then_some(1),
            LineEnd::Bytes(b) => rest.starts_with(b).then_some(b.len()),
        }
    }

    /// Fields of the record here, and where its text ends; moves behind its line end.
    fn record(&mut self, comment: bool) -> (Vec<Option<String>>, usize) {
        let mut fields = Vec::new();
        loop {
            let start = self.at;
            self.field(comment);
            let mut end = self.at;
            let ended = self.at == self.bytes.len() || self.line_end().is_some();
            if ended {
                let text_end = end;
                if self.d.line_end == LineEnd::Newline && end > start && self.bytes[end - 1] == b'\r' {
                    end -= 1;
                }
                fields.push(self.value(start, end));
                self.at += self.line_end().filter(|_| self.at < self.bytes.len()).unwrap_or(0);
                return (fields, text_end);
            }
            fields.push(self.value(start, end));
            self.at += self.d.delimiter.len();
        }
    }

    /// Moves to the end of the field here.
    fn field(&mut self, comment: bool) {
        let d = self.d;
        if !comment {
            if d.trim {
                while matches!(self.rest().first(), Some(b' ' | b'\t')) && !d.delimiter.starts_with(&self.rest()[..1]) {
                    self.at += 1;
                }
            }
            if d.quote.is_some() && self.rest().first().copied() == d.quote {
                self.at += 1;
                while self.at < self.bytes.len() {
                    let b = self.bytes[self.at];
                    if d.escape == Some(b) && d.escape != d.quote {
                        self.at = (self.at + 2).min(self.bytes.len());
                    } else if d.quote == Some(b) {
                        self.at += 1;
                        if self.rest().first().copied() == d.quote {
                            self.at += 1;
                        } else {
                            break;
                        }
                    } else {
                        self.at += 1;
                    }
                }
            }
        }
        while self.at < self.bytes.len() {
            if self.line_end().is_some() || !comment && self.rest().starts_with(&d.delimiter) {
                return;
            }
            if d.quote.is_none() && d.escape == Some(self.bytes[self.at]) {
                self.at += 1;
            }
            self.at = (self.at + 1).min(self.bytes.len());
        }
    }

    fn value(&self, start: usize, end: usize) -> Option<String> {
        let d = self.d;
        let mut raw = &self.bytes[start..end];
        if d.trim {
            let blank = |b: &u8| matches!(b, b' ' | b'\t');
            while raw.first().is_some_and(blank) {
                raw = &raw[1..];
            }
            while raw.last().is_some_and(blank) {
                raw = &raw[..raw.len() - 1];
            }
        }
        let quoted = d.quote.is_some() && raw.first().copied() == d.quote;
        let unquote = d.unquote && d.quote != Some(b'"');
        let bare = unquote && !quoted && raw.len() >= 2 && raw[0] == b'"' && raw[raw.len() - 1] == b'"';
        if bare {
            raw = &raw[1..raw.len() - 1];
        }
        let mut closed = None;
        let mut out = Vec::new();
        let mut inside = quoted;
        let mut i = quoted as usize;
        let escape = d.escape.filter(|e| Some(*e) != d.quote);
        while i < raw.len() {
            let b = raw[i];
            let last = i + 1 == raw.len();
            if escape == Some(b) && !last && (inside || d.quote.is_none()) {
                out.push(raw[i + 1]);
                i += 2;
            } else if inside && d.quote == Some(b) {
                if !last && raw[i + 1] == b {
                    out.push(b);
                    i += 2;
                } else {
                    inside = false;
                    closed = Some(i);
                    i += 1;
                }
            } else {
                out.push(b);
                i += 1;
            }
        }
        // Quotes within others, where nothing is escaped.
        let plain = closed.is_some_and(|at| at + 1 == raw.len()) && out.len() + 2 == raw.len();
        if unquote && plain && out.len() >= 2 && out[0] == b'"' && out[out.len() - 1] == b'"' {
            out = out[1..out.len() - 1].to_vec();
        }
        let is_null = !quoted && !bare && d.null_values.iter().any(|n| n == raw);
        (!is_null).then(|| String::from_utf8_lossy(&out).into_owned())
    }
}
