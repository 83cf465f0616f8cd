//! The writer of CSV.

use std::io;

use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use memchr::memmem;

use super::cells::Cells;
use super::check_batch;
use super::json::{is_json, json};
use super::text::{Style, is_free_text, is_leaf, leaf_texts, unsupported};
use crate::dialect::{CsvDialect, LineEnd, null_word};
use crate::error::{ErrorKind, TextError};

/// Writes batches as CSV that the reader of the same dialect reads as the same rows.
///
/// Fields are quoted only if needed: for delimiters, line ends, quotes, escapes, a comment sign in front, blanks that
/// would be trimmed, and text that would read as NULL, also to a reader that guesses the dialect. Without a quote
/// character, the escape serves for all but the last case. Without either, a value that needs quoting is an error. NULL
/// is the first of the dialect's null values, unquoted. Arrays, maps and structs are JSON. Floats have their shortest
/// digits, dates and times are `2020-01-31 01:02:03.5`, times with a zone are in UTC and end in `Z`. `skip_lines` are
/// written as empty lines, so that the same dialect reads the file.
///
/// Limits: NULL in a dialect without null values is an error; the reader's policy decides about bytes that are not
/// UTF-8 in binary columns.
#[derive(Debug)]
pub struct CsvWriter<W: io::Write> {
    out: W,
    dialect: CsvDialect,
    schema: SchemaRef,
    line_end: Vec<u8>,
    null: Option<Vec<u8>>,
    /// Bytes whose presence requires a closer look at a value.
    special: [bool; 256],
    columns: Vec<Cells>,
    buffer: Vec<u8>,
    begun: bool,
    /// Whether nothing has reached the output yet.
    at_start: bool,
}

impl<W: io::Write> CsvWriter<W> {
    /// Creates a writer of files with these columns.
    ///
    /// # Errors
    /// `Options` if the delimiter or line end is empty, or a column type has no text form.
    pub fn try_new(out: W, dialect: CsvDialect, schema: SchemaRef) -> Result<Self, TextError> {
        let line_end = match &dialect.line_end {
            LineEnd::Newline | LineEnd::AnyNewline => b"\n".to_vec(),
            LineEnd::Bytes(bytes) => bytes.clone(),
        };
        for (what, bytes) in [("delimiter", &dialect.delimiter), ("line end", &line_end)] {
            if bytes.is_empty() {
                return Err(TextError::new(
                    ErrorKind::Options,
                    format!("the {what} is empty, expected at least one byte"),
                ));
            }
        }
        for field in schema.fields() {
            if !is_json(field.data_type()) {
                return Err(unsupported(field.data_type()).in_column(field.name()));
            }
        }
        let mut special = [false; 256];
        // A delimiter or line end of several bytes is compared in full where its first byte occurs.
        for byte in [Some(dialect.delimiter[0]), Some(line_end[0]), dialect.quote, dialect.escape].into_iter().flatten()
        {
            special[usize::from(byte)] = true;
        }
        if !matches!(dialect.line_end, LineEnd::Bytes(_)) {
            special[usize::from(b'\n')] = true;
            special[usize::from(b'\r')] = true;
        }
        let columns = schema.fields().iter().map(|_| Cells::default()).collect();
        let null = dialect.null_values.first().cloned();
        let buffer = Vec::new();
        Ok(CsvWriter { out, dialect, schema, line_end, null, special, columns, buffer, begun: false, at_start: true })
    }

    /// Writes the rows of `batch`.
    ///
    /// # Errors
    /// `Options` if the batch has other columns, `BadValue` if the dialect cannot write a value, `Io` if writing fails.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), TextError> {
        check_batch(&self.schema, batch)?;
        self.begin()?;
        let mut columns = std::mem::take(&mut self.columns);
        for (number, cells) in columns.iter_mut().enumerate() {
            cells.clear();
            self.column(batch.column(number), number == 0, cells)
                .map_err(|error| error.in_column(self.schema.field(number).name()))?;
        }
        for row in 0..batch.num_rows() {
            for (number, cells) in columns.iter().enumerate() {
                if number > 0 {
                    self.buffer.extend_from_slice(&self.dialect.delimiter);
                }
                self.buffer.extend_from_slice(cells.get(row));
            }
            self.buffer.extend_from_slice(&self.line_end);
            self.flush_at(1 << 20)?;
        }
        self.columns = columns;
        self.flush_at(1)
    }

    /// Writes the buffered rows (the header, if there was no batch) and returns the output.
    ///
    /// # Errors
    /// `BadValue` if the dialect cannot write a column name, `Io` if writing fails.
    pub fn finish(mut self) -> Result<W, TextError> {
        self.begin()?;
        self.flush_at(1)?;
        self.out.flush().map_err(|error| TextError::io("output", error))?;
        Ok(self.out)
    }

    fn flush_at(&mut self, bytes: usize) -> Result<(), TextError> {
        if self.buffer.len() >= bytes {
            // The reader drops one byte order mark at the start of a file: this one is data, so it gets another.
            const MARK: &[u8] = b"\xEF\xBB\xBF";
            if std::mem::take(&mut self.at_start) && self.buffer.starts_with(MARK) {
                self.out.write_all(MARK).map_err(|error| TextError::io("output", error))?;
            }
            self.out.write_all(&self.buffer).map_err(|error| TextError::io("output", error))?;
            self.buffer.clear();
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), TextError> {
        if std::mem::replace(&mut self.begun, true) {
            return Ok(());
        }
        for _ in 0..self.dialect.skip_lines {
            self.buffer.extend_from_slice(&self.line_end);
        }
        if self.dialect.header {
            let mut names = Cells::default();
            for (number, field) in self.schema.fields().iter().enumerate() {
                self.cell(Some(field.name().as_bytes()), true, number == 0, &mut names)
                    .map_err(|error| error.in_column(field.name()))?;
            }
            for number in 0..names.len() {
                if number > 0 {
                    self.buffer.extend_from_slice(&self.dialect.delimiter);
                }
                self.buffer.extend_from_slice(names.get(number));
            }
            self.buffer.extend_from_slice(&self.line_end);
        }
        Ok(())
    }

    fn column(&self, array: &dyn Array, first: bool, out: &mut Cells) -> Result<(), TextError> {
        let data_type = array.data_type();
        if is_leaf(data_type) {
            let free = is_free_text(data_type) || data_type == &DataType::Null || self.in_numbers();
            return leaf_texts(array, Style::Csv, &mut |value| self.cell(value, free, first, out));
        }
        let mut texts = Cells::default();
        json(array, &mut texts)?;
        for row in 0..texts.len() {
            self.cell((!array.is_null(row)).then(|| texts.get(row)), true, first, out)?;
        }
        Ok(())
    }

    /// Whether any special byte of the dialect can occur in numbers, dates or words like `true`.
    fn in_numbers(&self) -> bool {
        let in_number = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.: ".contains(byte);
        (0..=255u8).any(|byte| self.special[usize::from(byte)] && in_number(&byte))
            || self.dialect.comment.is_some_and(|comment| in_number(&comment))
            || self.dialect.null_values.iter().any(|null| !null.is_empty() && null.iter().all(in_number))
    }

    /// Appends one field; `free`: its value may hold any bytes.
    #[inline]
    fn cell(&self, value: Option<&[u8]>, free: bool, first: bool, out: &mut Cells) -> Result<(), TextError> {
        let Some(value) = value else {
            let Some(null) = &self.null else {
                let error = TextError::new(ErrorKind::BadValue, "is NULL, for which this dialect has no text");
                return Err(error.with_hint("give it a null value"));
            };
            out.push(null);
            return Ok(());
        };
        if !free || !self.needs_care(value, first) {
            out.push(value);
            return Ok(());
        }
        match (self.dialect.quote, self.dialect.escape) {
            (Some(quote), escape) => {
                out.push_with(|text| {
                    text.push(quote);
                    for &byte in value {
                        if byte == quote {
                            text.push(escape.unwrap_or(quote));
                        } else if escape == Some(byte) {
                            text.push(byte);
                        }
                        text.push(byte);
                    }
                    text.push(quote);
                });
                Ok(())
            }
            (None, Some(escape)) if self.escape_helps(value) => {
                let comment = self.dialect.comment.filter(|_| first);
                out.push_with(|text| {
                    for (at, &byte) in value.iter().enumerate() {
                        if self.special[usize::from(byte)] || (at == 0 && comment == Some(byte)) {
                            text.push(escape);
                        }
                        text.push(byte);
                    }
                });
                Ok(())
            }
            _ => Err(TextError::new(ErrorKind::BadValue, "cannot be written so that it reads back the same")
                .with_value(value)
                .with_hint("give the dialect a quote character")),
        }
    }

    /// Whether the bytes alone would not read back as `value`.
    #[inline]
    fn needs_care(&self, value: &[u8], first: bool) -> bool {
        let d = &self.dialect;
        if d.null_values.iter().any(|null| null == value)
            || (d.quote.is_some() && null_word(value).is_some())
            || (first && d.comment.is_some() && d.comment == value.first().copied())
        {
            return true;
        }
        let blank = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        if d.trim && (blank(value.first()) || blank(value.last())) {
            return true;
        }
        value.iter().any(|byte| self.special[usize::from(*byte)]) && self.really_special(value)
    }

    fn really_special(&self, value: &[u8]) -> bool {
        let d = &self.dialect;
        let single = |byte: &u8| {
            d.quote == Some(*byte)
                || d.escape == Some(*byte)
                || (!matches!(d.line_end, LineEnd::Bytes(_)) && matches!(byte, b'\n' | b'\r'))
        };
        // A value that ends with the beginning of a delimiter could complete one with the bytes behind it.
        let begins = |mark: &[u8]| (1..mark.len()).any(|length| value.ends_with(&mark[..length]));
        value.iter().any(single)
            || [&d.delimiter, &self.line_end].iter().any(|mark| memmem::find(value, mark).is_some() || begins(mark))
    }

    /// Whether an escape is enough: it hides single bytes, but not that a whole field is NULL or trimmed.
    fn escape_helps(&self, value: &[u8]) -> bool {
        let d = &self.dialect;
        let blank = |byte: Option<&u8>| byte.is_some_and(|byte| matches!(byte, b' ' | b'\t'));
        !(d.trim && (blank(value.first()) || blank(value.last())))
            && !d.null_values.iter().any(|null| null == value && !value.iter().any(|b| self.special[usize::from(*b)]))
    }
}
