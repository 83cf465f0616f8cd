//! The writer of Hive text.

use std::io;

use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, SchemaRef};
use memchr::memmem;

use super::cells::Cells;
use super::check_batch;
use super::text::{Style, is_binary, is_free_text, leaf_texts, list_children, unsupported};
use crate::dialect::{HiveDialect, HiveSerde, LineEnd};
use crate::error::{ErrorKind, TextError};
use crate::hive::base64;
use crate::hive::charset::Charset;
use crate::hive::error::HiveError;
use crate::hive::types::{StringKind, hive_type};

/// Writes batches as Hive's SerDes write rows, in such a way that reading gives the same rows.
///
/// The forms are Hive's: `true`, `1.0E7`, decimals with all digits of their scale, `2020-01-31 01:02:03.5`, base64,
/// char padded with blanks, the null sequence, separators by nesting level, escapes before escape and separators if the
/// table has an escape. Forms of Hive that Hive itself does not read back are changed:
///
/// - line ends are always escaped where there is an escape (Hive: only with `serialization.escape.crlf`);
/// - text that equals the null sequence gets an escape;
/// - MultiDelimitSerDe gets base64 too (Hive writes raw bytes there, and decodes them when it reads);
/// - OpenCSVSerde gets its escape character doubled, and any type as its text;
/// - `skip.header.line.count` lines come first, the column names in the first of them, and empty lines for the footer.
///
/// A value that would end its field or its row early is an error: a separator or line end in a table without escape, a
/// line end in OpenCSVSerde, a character that `serialization.encoding` does not have. So is a collection that would be
/// another one after reading: `['']` and `[[]]`, which would be `[]`, and one with a single element that is written as
/// the null sequence, such as `[NULL]`, which would be NULL.
///
/// Hive text cannot express these values, so they differ after reading: text that equals a null sequence if no escape
/// can help (`''` if the null sequence is empty), and empty collections then; NULL in OpenCSVSerde (becomes `''`);
/// timestamps beyond the year 9999; nanoseconds.
#[derive(Debug)]
pub struct HiveTextWriter<W: io::Write> {
    out: W,
    dialect: HiveDialect,
    schema: SchemaRef,
    charset: Charset,
    line_end: Vec<u8>,
    columns: Vec<Cells>,
    row: Vec<u8>,
    buffer: Vec<u8>,
    begun: bool,
    /// Whether nothing has reached the output yet.
    at_start: bool,
}

impl<W: io::Write> HiveTextWriter<W> {
    /// Creates a writer of files with these columns.
    ///
    /// # Errors
    /// `Options` if Hive does not have a type, a type nests deeper than there are separators, or the encoding is
    /// unknown.
    pub fn try_new(out: W, dialect: HiveDialect, schema: SchemaRef) -> Result<Self, TextError> {
        let csv = matches!(dialect.serde, HiveSerde::OpenCsv { .. });
        for field in schema.fields() {
            let known = if csv { super::text::is_leaf(field.data_type()) } else { true };
            if !known {
                return Err(unsupported(field.data_type()).in_column(field.name()));
            }
            // An untyped NULL fits any type.
            if !csv && field.data_type() != &DataType::Null {
                hive_type(field).map_err(|error| TextError::from(error).in_column(field.name()))?;
                let needed = 1 + levels(field.data_type());
                if needed > dialect.separators.len() {
                    let column = field.name().clone();
                    let available = dialect.separators.len();
                    return Err(HiveError::NestingTooDeep { column, needed, available }.into());
                }
            }
        }
        if dialect.separators.is_empty() {
            return Err(TextError::new(ErrorKind::Options, "the dialect has no separator between fields"));
        }
        let charset = match &dialect.encoding {
            None => Charset::Utf8,
            Some(name) => Charset::for_name(name).ok_or_else(|| {
                TextError::new(ErrorKind::Options, format!("serialization.encoding {name:?} is not known"))
            })?,
        };
        let line_end = match &dialect.line_end {
            LineEnd::Bytes(bytes) => bytes.clone(),
            _ => b"\n".to_vec(),
        };
        if line_end.is_empty() {
            return Err(TextError::new(ErrorKind::Options, "textinputformat.record.delimiter is empty"));
        }
        let columns = schema.fields().iter().map(|_| Cells::default()).collect();
        let (row, buffer) = (Vec::new(), Vec::new());
        let (begun, at_start) = (false, true);
        Ok(HiveTextWriter { out, dialect, schema, charset, line_end, columns, row, buffer, begun, at_start })
    }

    /// Writes the rows of `batch`.
    ///
    /// # Errors
    /// `Options` if the batch has other columns, `BadValue` if the table cannot hold a value, `Io` if writing fails.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), TextError> {
        check_batch(&self.schema, batch)?;
        self.begin()?;
        let mut columns = std::mem::take(&mut self.columns);
        for (number, cells) in columns.iter_mut().enumerate() {
            let field = self.schema.field(number);
            cells.clear();
            self.column(batch.column(number), field, number + 1 == batch.num_columns(), cells)
                .map_err(|error| error.in_column(field.name()))?;
        }
        let delimiter = self.field_delimiter();
        for row in 0..batch.num_rows() {
            self.row.clear();
            for (number, cells) in columns.iter().enumerate() {
                if number > 0 {
                    self.row.extend_from_slice(&delimiter);
                }
                self.row.extend_from_slice(cells.get(row));
            }
            self.end_row()?;
        }
        self.columns = columns;
        self.flush_at(1)
    }

    /// Writes the buffered rows and the footer, and returns the output.
    ///
    /// # Errors
    /// `Io` if writing fails.
    pub fn finish(mut self) -> Result<W, TextError> {
        self.begin()?;
        for _ in 0..self.dialect.skip_footer {
            self.buffer.extend_from_slice(&self.line_end);
        }
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
        for line in 0..self.dialect.skip_header {
            if line == 0 {
                // Names with line ends would make more lines; the header is for people only.
                let clean = |field: &Field| field.name().replace(['\n', '\r'], " ");
                let names: Vec<String> = self.schema.fields().iter().map(|field| clean(field)).collect();
                self.row.clear();
                self.row.extend_from_slice(names.join(&*String::from_utf8_lossy(&self.field_delimiter())).as_bytes());
                let encoded = self.charset.encode(&self.row).unwrap_or_default();
                if memmem::find(&encoded, &self.line_end).is_none() {
                    self.buffer.extend_from_slice(&encoded);
                }
            }
            self.buffer.extend_from_slice(&self.line_end);
        }
        Ok(())
    }

    /// Encodes the row, checks that it is one line, and appends it to the buffer.
    fn end_row(&mut self) -> Result<(), TextError> {
        let encoded = self.charset.encode(&self.row).map_err(|c| {
            let encoding = self.dialect.encoding.as_deref().unwrap_or("UTF-8");
            TextError::new(ErrorKind::BadValue, format!("holds '{c}', which {encoding} does not have"))
                .with_value(&self.row)
        })?;
        let cut = match &self.dialect.line_end {
            // Single bytes that end lines were checked in the fields; a line end of several bytes may have come
            // together only here.
            LineEnd::Bytes(end) if end.len() > 1 => {
                let mut line = encoded.to_vec();
                line.extend_from_slice(end);
                memmem::find(&line, end) != Some(encoded.len())
            }
            LineEnd::Bytes(end) => memchr::memchr(end[0], &encoded).is_some(),
            _ => !self.charset.is_ascii_compatible() && memchr::memchr2(b'\n', b'\r', &encoded).is_some(),
        };
        if cut {
            return Err(TextError::new(ErrorKind::BadValue, "holds the record delimiter, which nothing can hide")
                .with_value(&self.row));
        }
        self.buffer.extend_from_slice(&encoded);
        self.buffer.extend_from_slice(&self.line_end);
        self.flush_at(1 << 20)
    }

    fn field_delimiter(&self) -> Vec<u8> {
        match &self.dialect.serde {
            HiveSerde::LazySimple => vec![self.dialect.separators[0]],
            HiveSerde::MultiDelimit { field_delimiter } => field_delimiter.clone(),
            HiveSerde::OpenCsv { separator, .. } => separator.to_string().into_bytes(),
        }
    }

    fn column(&self, array: &dyn Array, field: &Field, last: bool, out: &mut Cells) -> Result<(), TextError> {
        match &self.dialect.serde {
            HiveSerde::OpenCsv { separator, quote, escape } => {
                leaf_texts(array, Style::Java, &mut |value| csv_cell(value, (*separator, *quote, *escape), out))
            }
            HiveSerde::LazySimple => self.cells(array, field, 1, out),
            HiveSerde::MultiDelimit { field_delimiter } => {
                self.cells(array, field, 1, out)?;
                let mut joined = Vec::new();
                for row in 0..out.len() {
                    // The delimiter's first occurrence must be the real one, not one across the end of the value.
                    joined.clear();
                    joined.extend_from_slice(out.get(row));
                    let own = (!last).then_some(joined.len());
                    if !last {
                        joined.extend_from_slice(field_delimiter);
                    }
                    if memmem::find(&joined, field_delimiter) != own {
                        let shown = String::from_utf8_lossy(field_delimiter);
                        let reason = format!("makes the field delimiter {shown:?} appear in its field");
                        return Err(TextError::new(ErrorKind::BadValue, reason).with_value(out.get(row)));
                    }
                }
                Ok(())
            }
        }
    }

    /// Checks that the text of a collection that is neither NULL nor empty reads back as one. `single`: whether it is an
    /// array of one element, of which nothing would be an empty array.
    fn reads_back(&self, text: &[u8], single: bool) -> Result<(), TextError> {
        let what = match text {
            b"" if single => "an ARRAY whose only element is written as nothing, which would be an empty ARRAY",
            text if text == self.dialect.null_format.as_slice() => "a value that is written like NULL",
            _ => return Ok(()),
        };
        let error = TextError::new(ErrorKind::BadValue, format!("cannot be written: Hive text has no form for {what}"));
        Err(error.with_value(text).with_hint("store the table as PARQUET"))
    }

    /// Makes the texts of a column or of the columns nested in it. `level`: index of the separator for an array at this
    /// level.
    fn cells(&self, array: &dyn Array, field: &Field, level: usize, out: &mut Cells) -> Result<(), TextError> {
        let separator = |level: usize| self.dialect.separators.get(level).copied().unwrap_or_default();
        let null = &self.dialect.null_format;
        match array.data_type() {
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
                let (children, ends) = list_children(array)?;
                let mut items = Cells::default();
                self.cells(&children, item, level + 1, &mut items)?;
                let mut start = 0;
                for (row, end) in ends.into_iter().enumerate() {
                    out.push_with(|text| {
                        if array.is_null(row) {
                            text.extend_from_slice(null);
                            return;
                        }
                        for at in start..end {
                            if at > start {
                                text.push(separator(level));
                            }
                            text.extend_from_slice(items.get(at));
                        }
                    });
                    if array.is_valid(row) && end > start {
                        self.reads_back(out.last(), end == start + 1)?;
                    }
                    start = end;
                }
                Ok(())
            }
            DataType::Map(entries, _) => {
                let DataType::Struct(fields) = entries.data_type() else { return Err(unsupported(array.data_type())) };
                let map = array.as_map();
                let offsets = map.value_offsets();
                let (first, last) = (offsets[0] as usize, offsets[map.len()] as usize);
                let (mut keys, mut values) = (Cells::default(), Cells::default());
                self.cells(&map.keys().slice(first, last - first), &fields[0], level + 2, &mut keys)?;
                self.cells(&map.values().slice(first, last - first), &fields[1], level + 2, &mut values)?;
                for row in 0..map.len() {
                    let (start, end) = (offsets[row] as usize - first, offsets[row + 1] as usize - first);
                    out.push_with(|text| {
                        if array.is_null(row) {
                            text.extend_from_slice(null);
                            return;
                        }
                        for at in start..end {
                            if at > start {
                                text.push(separator(level));
                            }
                            text.extend_from_slice(keys.get(at));
                            text.push(separator(level + 1));
                            text.extend_from_slice(values.get(at));
                        }
                    });
                    if array.is_valid(row) && end > start {
                        self.reads_back(out.last(), false)?;
                    }
                }
                Ok(())
            }
            DataType::Struct(fields) => {
                let mut columns = Vec::new();
                for (column, field) in array.as_struct().columns().iter().zip(fields) {
                    let mut cells = Cells::default();
                    self.cells(column, field, level + 1, &mut cells)?;
                    columns.push(cells);
                }
                for row in 0..array.len() {
                    out.push_with(|text| {
                        if array.is_null(row) {
                            text.extend_from_slice(null);
                            return;
                        }
                        for (number, cells) in columns.iter().enumerate() {
                            if number > 0 {
                                text.push(separator(level));
                            }
                            text.extend_from_slice(cells.get(row));
                        }
                    });
                    if array.is_valid(row) {
                        self.reads_back(out.last(), false)?;
                    }
                }
                Ok(())
            }
            leaf => {
                let shield = Shield::new(&self.dialect, leaf, level);
                let padded = match StringKind::of(field) {
                    StringKind::Char(length) if is_free_text(leaf) => length as usize,
                    _ => 0,
                };
                let binary = is_binary(leaf);
                let mut own = Vec::new();
                leaf_texts(array, Style::Java, &mut |value| {
                    let Some(value) = value else {
                        out.push(null);
                        return Ok(());
                    };
                    let value = if binary || padded > 0 {
                        own.clear();
                        if binary {
                            base64::encode(value, &mut own);
                        } else {
                            own.extend_from_slice(value);
                            let characters = value.iter().filter(|byte| (**byte as i8) >= -0x40).count();
                            own.resize(value.len() + padded.saturating_sub(characters), b' ');
                        }
                        &own
                    } else {
                        value
                    };
                    shield.cell(value, out)
                })
            }
        }
    }
}

/// Returns the number of separators that a type takes below the one between the fields.
fn levels(data_type: &DataType) -> usize {
    let deepest = |fields: &arrow_schema::Fields| fields.iter().map(|f| levels(f.data_type())).max().unwrap_or(0);
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            1 + levels(item.data_type())
        }
        DataType::Struct(fields) => 1 + deepest(fields),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => 2 + deepest(fields),
            _ => 2,
        },
        _ => 0,
    }
}

/// Rules that keep the bytes of a value from being taken for structure.
struct Shield<'a> {
    null: &'a [u8],
    /// The escape that hides bytes, if there is one.
    escape: Option<u8>,
    /// Bytes that are written with an escape.
    hidden: [bool; 256],
    /// Bytes that no value may hold.
    refused: [bool; 256],
    /// Either of the two.
    special: [bool; 256],
    any: bool,
}

impl<'a> Shield<'a> {
    fn new(dialect: &'a HiveDialect, leaf: &DataType, level: usize) -> Self {
        let (mut hidden, mut refused) = ([false; 256], [false; 256]);
        // Separators that cut at this depth; MultiDelimitSerDe's own delimiter is checked elsewhere.
        let first = usize::from(matches!(dialect.serde, HiveSerde::MultiDelimit { .. }));
        let used = dialect.separators.get(first..level).unwrap_or_default();
        let text = is_free_text(leaf) && !is_binary(leaf);
        // An escape that also separates never escapes: Hive looks for separators first.
        let escape = dialect.escape.filter(|escape| text && !used.contains(escape));
        let line_end: &[u8] = match &dialect.line_end {
            LineEnd::Bytes(end) if end.len() == 1 => end,
            LineEnd::Bytes(_) => b"",
            _ => b"\n\r",
        };
        // Behind an escape, these two letters mean line ends.
        let codes = b"nr";
        match escape {
            Some(escape) => {
                for byte in dialect.separators.iter().chain(b"\n\r").chain([&escape]) {
                    hidden[usize::from(*byte)] = true;
                }
                for byte in codes {
                    hidden[usize::from(*byte)] = false;
                    refused[usize::from(*byte)] = used.contains(byte) || *byte == escape;
                }
                if let [byte] = line_end {
                    refused[usize::from(*byte)] = !matches!(byte, b'\n' | b'\r');
                }
            }
            None => {
                for byte in used.iter().chain(line_end).chain(dialect.escape.as_ref().filter(|_| !text)) {
                    refused[usize::from(*byte)] = true;
                }
            }
        }
        let can_hold = |byte: u8| is_free_text(leaf) || byte.is_ascii_alphanumeric() || b"+-.: /=".contains(&byte);
        let special: [bool; 256] = std::array::from_fn(|byte| hidden[byte] || refused[byte]);
        let any = (0..=255u8).any(|byte| special[usize::from(byte)] && can_hold(byte));
        Shield { null: &dialect.null_format, escape, hidden, refused, special, any }
    }

    #[inline]
    fn cell(&self, value: &[u8], out: &mut Cells) -> Result<(), TextError> {
        // Nearly all values hold nothing special: one test per byte, then a copy.
        let special = self.any && value.iter().any(|byte| self.special[usize::from(*byte)]);
        if special && let Some(byte) = value.iter().find(|byte| self.refused[usize::from(**byte)]) {
            return Err(self.refusal(*byte, value));
        }
        let Some(escape) = self.escape.filter(|_| special || value == self.null) else {
            out.push(value);
            return Ok(());
        };
        // Text that reads as NULL needs one more escape, before a byte that keeps its meaning behind an escape.
        let marked = (!special).then(|| value.iter().position(|byte| !matches!(byte, b'n' | b'r'))).flatten();
        out.push_with(|text| {
            for (at, &byte) in value.iter().enumerate() {
                if self.hidden[usize::from(byte)] || marked == Some(at) {
                    text.push(escape);
                }
                text.push(match byte {
                    b'\n' => b'n',
                    b'\r' => b'r',
                    byte => byte,
                });
            }
        });
        Ok(())
    }

    #[cold]
    fn refusal(&self, byte: u8, value: &[u8]) -> TextError {
        let what = match byte {
            b'\n' | b'\r' => "a line end".to_owned(),
            byte if byte.is_ascii_graphic() => format!("'{}', which means something else here", char::from(byte)),
            byte => format!("the byte 0x{byte:02X}, which means something else here"),
        };
        let error =
            TextError::new(ErrorKind::BadValue, format!("cannot be written: it holds {what}")).with_value(value);
        if self.escape.is_some() {
            return error.with_hint("use separators and an escape that are no letters");
        }
        error.with_hint("give the table an escape (ROW FORMAT DELIMITED FIELDS TERMINATED BY ... ESCAPED BY '\\\\')")
    }
}

/// Writes a field of OpenCSVSerde: everything in quotes, NULL as nothing.
fn csv_cell(
    value: Option<&[u8]>,
    (separator, quote, escape): (char, char, char),
    out: &mut Cells,
) -> Result<(), TextError> {
    let Some(value) = value else {
        out.push(b"");
        return Ok(());
    };
    let text = crate::hive::charset::java_lossy(value);
    let refusal = |what: &str| {
        Err(TextError::new(ErrorKind::BadValue, format!("cannot be written: OpenCSVSerde has no form for {what}"))
            .with_value(value)
            .with_hint("store the table as PARQUET, or as TEXTFILE with ESCAPED BY"))
    };
    if text.contains(['\n', '\r']) {
        return refusal("line ends in values");
    }
    if quote == '\0' {
        if text.contains([separator, escape, quote]) {
            return refusal("its own characters without quoteChar");
        }
        out.push(text.as_bytes());
        return Ok(());
    }
    if escape == '\0' && text.contains(quote) {
        return refusal("quotes in values without escapeChar");
    }
    out.push_with(|out| {
        let mut buffer = [0; 4];
        out.extend_from_slice(quote.encode_utf8(&mut buffer).as_bytes());
        for c in text.chars() {
            if c == quote || c == escape {
                out.extend_from_slice(escape.encode_utf8(&mut buffer).as_bytes());
            }
            out.extend_from_slice(c.encode_utf8(&mut buffer).as_bytes());
        }
        out.extend_from_slice(quote.encode_utf8(&mut buffer).as_bytes());
    });
    Ok(())
}
