//! JSON to typed batches, as Stream Load reads it.
//!
//! A row is an object. Each wanted column takes the value of its key, or of its path; a value's text is then read as the
//! same text in CSV would be, so `"12"` and `12` both are an INT, and `[1,2]` is an ARRAY or, in a STRING column, text.
//! Rows are lines (one worker at a time reads lines, all parse), or the elements of an array that is the whole body.

mod scanner;

use std::collections::HashMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::{BooleanArray, RecordBatch};
use arrow_schema::SchemaRef;
use dipper_text::{BadValue, BadValues, Convert, CsvDialect, Cx, InvalidUtf8, Span, Strings, TextBlock, TextError};
use parking_lot::Mutex;

use scanner::{Items, Scanner, Value, Wrong, unescape};

/// Bytes of lines that a worker takes at a time.
const BLOCK_BYTES: usize = 1 << 20;
/// Zeros around values, so that converters can read whole machine words.
const PAD: usize = 64;
/// Bytes of a rejected row that are kept.
const REJECTED_BYTES: usize = 1024;

/// How the body is read.
#[derive(Debug, Clone)]
pub struct JsonOptions {
    /// Each line is a row (`read_json_by_line`); otherwise the body is one value.
    pub by_line: bool,
    /// A line, or the body, is an array of rows (`strip_outer_array`).
    pub strip_outer_array: bool,
    /// Where each column's value is, one for each column (`jsonpaths`); `None`: at the key with the column's name.
    pub paths: Option<Vec<JsonPath>>,
    /// Where the row is in its value (`json_root`).
    pub root: Option<JsonPath>,
    /// Text of the values of columns whose key a row lacks, one for each column; `None` is NULL.
    pub defaults: Vec<Option<String>>,
    /// Values that are not of their column's type.
    pub bad_value: BadValue,
    /// Most bytes of a body that is one value (`streaming_load_json_max_mb`).
    pub body_bytes_max: usize,
    /// Most rows of a batch.
    pub batch_rows: usize,
}

impl Default for JsonOptions {
    fn default() -> Self {
        JsonOptions {
            by_line: true,
            strip_outer_array: false,
            paths: None,
            root: None,
            defaults: Vec::new(),
            bad_value: BadValue::RejectRecord { max: u64::MAX },
            body_bytes_max: 100 << 20,
            batch_rows: 8192,
        }
    }
}

/// Why JSON cannot be read at all. Rows that are wrong are rejected instead.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The body could not be read.
    #[error("cannot read the body: {0}")]
    Io(#[from] io::Error),
    /// A body that is one value, but not of the kind that the options say, or no JSON.
    #[error("{0}")]
    Body(String),
    /// A body, or line, that is too long.
    #[error("{what} has more than {max} bytes; load it by lines (read_json_by_line)")]
    TooLong {
        /// Which.
        what: &'static str,
        /// Most bytes.
        max: usize,
    },
    /// A path that is none.
    #[error("json path {path:?}: expected {expected}")]
    Path {
        /// As written.
        path: String,
        /// What it should look like.
        expected: &'static str,
    },
    /// A value that is not of its column's type, under [`BadValue::Error`]; a column whose type JSON has no values for.
    #[error(transparent)]
    Value(#[from] TextError),
    /// Arrow refused.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
}

/// A way to a value: `$.a.b[0]`, `$["a b"]`, `$`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(Vec<u8>),
    Item(usize),
}

impl JsonPath {
    /// Reads a path.
    ///
    /// # Errors
    /// [`JsonError::Path`]; wildcards and filters are not understood.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        let wrong = |expected| JsonError::Path { path: text.into(), expected };
        let mut rest = text.trim().strip_prefix('$').ok_or_else(|| wrong("it to begin with $"))?;
        let mut steps = Vec::new();
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix(".[").or_else(|| rest.strip_prefix('[')) {
                let (item, behind) = inside.split_once(']').ok_or_else(|| wrong("a closing bracket"))?;
                let quoted = ['"', '\''].iter().find_map(|q| item.strip_prefix(*q)?.strip_suffix(*q));
                steps.push(match quoted {
                    Some(key) => Step::Key(key.into()),
                    None => Step::Item(item.trim().parse().map_err(|_| wrong("a number or a quoted key in brackets"))?),
                });
                rest = behind;
            } else if let Some(behind) = rest.strip_prefix('.') {
                let end = behind.find(['.', '[']).unwrap_or(behind.len());
                let key = behind[..end].trim_matches('"');
                if key.is_empty() || key == "*" {
                    return Err(wrong("a key behind the point"));
                }
                steps.push(Step::Key(key.into()));
                rest = &behind[end..];
            } else {
                return Err(wrong("a point or a bracket behind each step"));
            }
        }
        Ok(JsonPath { steps })
    }

    /// Reads `jsonpaths`: a JSON array of paths.
    ///
    /// # Errors
    /// [`JsonError::Path`].
    pub fn parse_all(text: &str) -> Result<Vec<Self>, JsonError> {
        let wrong = || JsonError::Path { path: text.into(), expected: "an array of paths, as in [\"$.a\", \"$.b\"]" };
        let paths: Vec<String> = serde_json::from_str(text).map_err(|_| wrong())?;
        paths.iter().map(|p| Self::parse(p)).collect()
    }

    fn find<'a>(&self, mut value: Value<'a>) -> Option<Value<'a>> {
        for step in &self.steps {
            value = match (step, value) {
                (Step::Key(key), Value::Object(text)) => member(text, key)?,
                (Step::Item(n), Value::Array(text)) => {
                    let mut scanner = Scanner::new(&text[1..]);
                    let mut items = Items { end: b']', begun: false };
                    let mut found = None;
                    for _ in 0..=*n {
                        found = if items.next(&mut scanner).ok()? { Some(scanner.value().ok()?) } else { return None };
                    }
                    found?
                }
                _ => return None,
            };
        }
        Some(value)
    }
}

/// The value of a key; of the last one if there are several.
fn member<'a>(object: &'a [u8], wanted: &[u8]) -> Option<Value<'a>> {
    let mut scanner = Scanner::new(&object[1..]);
    let mut items = Items { end: b'}', begun: false };
    let mut found = None;
    while items.next(&mut scanner).ok()? {
        let key = scanner.key().ok()?;
        let value = scanner.value().ok()?;
        if is_key(key, wanted) {
            found = Some(value);
        }
    }
    found
}

fn is_key((text, escaped): (&[u8], bool), wanted: &[u8]) -> bool {
    if !escaped {
        return text == wanted;
    }
    let mut plain = Vec::new();
    unescape(text, &mut plain);
    plain == wanted
}

/// A row that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedJson {
    /// Line of the body, or element of its array, from 1.
    pub row: u64,
    /// Why.
    pub reason: String,
    /// The row, cut at 1 KiB.
    pub text: String,
}

/// Rows of one piece of the body.
#[derive(Debug, Clone, Default)]
pub struct JsonSplit {
    /// Place in the body: 0, 1, 2, ... without gaps.
    pub order: u64,
    /// Rows with the wanted columns.
    pub batches: Vec<RecordBatch>,
    /// Rows that were left out.
    pub rejected: Vec<RejectedJson>,
}

/// A body of JSON, read by several workers.
pub struct JsonScan {
    options: JsonOptions,
    schema: SchemaRef,
    /// Columns by their keys, where there are no paths.
    keys: HashMap<Vec<u8>, usize>,
    converters: Vec<Arc<dyn Convert>>,
    input: Mutex<Input>,
    bytes_read: AtomicU64,
}

struct Input {
    reader: Box<dyn Read + Send>,
    rest: Vec<u8>,
    ended: bool,
    order: u64,
    /// Number of the first line of `rest`.
    line: u64,
}

/// Columns of rows on their way to be converted.
struct Rows {
    text: Vec<u8>,
    spans: Vec<Vec<Span>>,
    /// Number and text of each row.
    places: Vec<(u64, std::ops::Range<usize>)>,
}

impl JsonScan {
    /// Reads rows with these columns (all nullable) from a body.
    ///
    /// # Errors
    /// Columns of types that text cannot give; another number of paths or defaults than of columns.
    pub fn try_new(options: JsonOptions, schema: SchemaRef, reader: Box<dyn Read + Send>) -> Result<Self, JsonError> {
        let columns = schema.fields().len();
        if let Some(paths) = options.paths.as_ref().filter(|p| p.len() != columns) {
            let reason = format!("jsonpaths: expected {columns} paths, one a column, found {}", paths.len());
            return Err(JsonError::Body(reason));
        }
        // NULL is a missing span, so no text means it.
        let dialect = CsvDialect { null_values: Vec::new(), quote: None, ..CsvDialect::default() };
        let converters =
            schema.fields().iter().map(|f| dipper_text::csv_converter(f, &dialect)).collect::<Result<_, _>>()?;
        let keys = schema.fields().iter().enumerate().map(|(i, f)| (f.name().as_bytes().to_vec(), i)).collect();
        let input = Input { reader, rest: Vec::new(), ended: false, order: 0, line: 1 };
        Ok(JsonScan { options, schema, keys, converters, input: Mutex::new(input), bytes_read: AtomicU64::new(0) })
    }

    /// Bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.bytes_read.load(Ordering::Relaxed)
    }

    /// The next rows; `None` at the end. Blocking; from many threads at once.
    ///
    /// # Errors
    /// A body that cannot be read or is no JSON at all.
    pub fn next_split(&self) -> Result<Option<JsonSplit>, JsonError> {
        if !self.options.by_line {
            return self.whole();
        }
        let Some((order, first_line, block)) = self.lines()? else { return Ok(None) };
        let mut split = JsonSplit { order, ..JsonSplit::default() };
        let mut rows = self.rows();
        let mut from = 0;
        for line in first_line.. {
            if from >= block.len() {
                break;
            }
            let end = block[from..].iter().position(|b| *b == b'\n').map_or(block.len(), |n| from + n);
            let mut scanner = Scanner::new(&block[from..end]);
            if scanner.peek().is_some() {
                let parsed = scanner.value().and_then(|value| match scanner.peek() {
                    None => Ok(value),
                    Some(_) => Err(Wrong { at: scanner.at, what: "expected the end of the line" }),
                });
                match parsed {
                    Ok(value) => {
                        if let Err(reason) = self.unwrap(value, &mut |row| self.row(row, line, from..end, &mut rows)) {
                            split.rejected.push(rejected(line, reason, &block[from..end]));
                        }
                    }
                    Err(wrong) => split.rejected.push(rejected(line, parse_failed(&wrong), &block[from..end])),
                }
            }
            from = end + 1;
        }
        self.convert(rows, &block, &mut split)?;
        Ok(Some(split))
    }

    /// Whole lines, with the number of the piece and of its first line.
    fn lines(&self) -> Result<Option<(u64, u64, Vec<u8>)>, JsonError> {
        let mut input = self.input.lock();
        if input.ended && input.rest.is_empty() {
            return Ok(None);
        }
        let mut block = std::mem::take(&mut input.rest);
        let mut wanted = block.len() + BLOCK_BYTES;
        let end = loop {
            self.fill(&mut input, &mut block, wanted)?;
            if input.ended {
                break block.len();
            }
            if let Some(n) = block.iter().rposition(|b| *b == b'\n') {
                break n + 1;
            }
            if block.len() > self.options.body_bytes_max {
                return Err(JsonError::TooLong { what: "a line", max: self.options.body_bytes_max });
            }
            wanted *= 2;
        };
        input.rest = block.split_off(end);
        let place = (input.order, input.line);
        input.order += 1;
        input.line += block.iter().filter(|b| **b == b'\n').count() as u64;
        Ok(Some((place.0, place.1, block)))
    }

    fn fill(&self, input: &mut Input, block: &mut Vec<u8>, wanted: usize) -> io::Result<()> {
        let have = block.len();
        if wanted > have {
            let n = input.reader.by_ref().take((wanted - have) as u64).read_to_end(block)?;
            self.bytes_read.fetch_add(n as u64, Ordering::Relaxed);
            input.ended = n < wanted - have;
        }
        Ok(())
    }

    /// The body as one value.
    fn whole(&self) -> Result<Option<JsonSplit>, JsonError> {
        let mut input = self.input.lock();
        if input.ended {
            return Ok(None);
        }
        let max = self.options.body_bytes_max;
        let mut body = Vec::new();
        self.fill(&mut input, &mut body, max + 1)?;
        if !input.ended {
            return Err(JsonError::TooLong { what: "the body", max });
        }
        let mut split = JsonSplit::default();
        let mut scanner = Scanner::new(&body);
        if scanner.peek().is_none() {
            return Ok(Some(split));
        }
        let value = scanner.value().map_err(|wrong| JsonError::Body(parse_failed(&wrong)))?;
        if scanner.peek().is_some() {
            let wrong =
                Wrong { at: scanner.at, what: "expected the end; for a value on each line set read_json_by_line" };
            return Err(JsonError::Body(parse_failed(&wrong)));
        }
        let mut rows = self.rows();
        let mut number = 0;
        let begin = body.as_ptr() as usize;
        let unwrapped = self.unwrap(value, &mut |row| {
            number += 1;
            let range = match row {
                Value::Object(text) | Value::Array(text) => {
                    text.as_ptr() as usize - begin..text.as_ptr() as usize - begin + text.len()
                }
                _ => 0..0,
            };
            let result = self.row(row, number, range.clone(), &mut rows);
            if let Err(reason) = result {
                split.rejected.push(rejected(number, reason, &body[range]));
            }
            Ok(())
        });
        unwrapped.map_err(JsonError::Body)?;
        self.convert(rows, &body, &mut split)?;
        Ok(Some(split))
    }

    /// Hands over the rows of a value.
    fn unwrap<'a>(
        &self,
        value: Value<'a>,
        take: &mut dyn FnMut(Value<'a>) -> Result<(), String>,
    ) -> Result<(), String> {
        match value {
            Value::Array(text) if self.options.strip_outer_array => {
                let mut scanner = Scanner::new(&text[1..]);
                let mut items = Items { end: b']', begun: false };
                while items.next(&mut scanner).map_err(|w| parse_failed(&w))? {
                    take(scanner.value().map_err(|w| parse_failed(&w))?)?;
                }
                Ok(())
            }
            _ if self.options.strip_outer_array => {
                Err("JSON data is not an array-object, `strip_outer_array` must be FALSE.".into())
            }
            Value::Array(_) if self.options.root.is_none() => {
                Err("JSON data is array-object, `strip_outer_array` must be TRUE.".into())
            }
            other => take(other),
        }
    }

    fn rows(&self) -> Rows {
        let mut text = Vec::with_capacity(BLOCK_BYTES + 2 * PAD);
        text.resize(PAD, 0);
        Rows { text, spans: vec![Vec::new(); self.schema.fields().len()], places: Vec::new() }
    }

    /// Adds a row.
    fn row(&self, row: Value<'_>, number: u64, place: std::ops::Range<usize>, rows: &mut Rows) -> Result<(), String> {
        let row = match &self.options.root {
            Some(root) => root.find(row).ok_or("JSON Root not found.")?,
            None => row,
        };
        let Value::Object(text) = row else { return Err("JSON data is not an object, found another value.".into()) };
        let at = rows.places.len();
        let columns = rows.spans.len();
        let mut seen = 0;
        if let Some(paths) = &self.options.paths {
            for (column, path) in paths.iter().enumerate() {
                if let Some(value) = path.find(row) {
                    let span = add(value, &mut rows.text);
                    rows.spans[column].push(span);
                    seen += 1;
                }
            }
        } else {
            let mut scanner = Scanner::new(&text[1..]);
            let mut items = Items { end: b'}', begun: false };
            while items.next(&mut scanner).map_err(|w| parse_failed(&w))? {
                let (key, escaped) = scanner.key().map_err(|w| parse_failed(&w))?;
                let value = scanner.value().map_err(|w| parse_failed(&w))?;
                let Some(column) = self.column(key, escaped) else { continue };
                let span = add(value, &mut rows.text);
                let spans = &mut rows.spans[column];
                // A key that comes twice: the last one.
                spans.truncate(at);
                spans.push(span);
                seen += 1;
            }
        }
        if seen == 0 && columns > 0 {
            return Err("All fields is null, this is a invalid row.".into());
        }
        for (column, spans) in rows.spans.iter_mut().enumerate() {
            if spans.len() == at {
                let default = self.options.defaults.get(column).and_then(Option::as_deref);
                spans.push(default.map_or(Span::MISSING, |text| push(text.as_bytes(), &mut rows.text)));
            }
        }
        rows.places.push((number, place));
        Ok(())
    }

    /// The column of a key: with exactly that name, else without regard to case.
    fn column(&self, key: &[u8], escaped: bool) -> Option<usize> {
        let mut plain = Vec::new();
        let key = if escaped {
            unescape(key, &mut plain);
            &plain
        } else {
            key
        };
        let found = self.keys.get(key).copied();
        found.or_else(|| self.schema.fields().iter().position(|f| f.name().as_bytes().eq_ignore_ascii_case(key)))
    }

    fn convert(&self, rows: Rows, source: &[u8], split: &mut JsonSplit) -> Result<(), JsonError> {
        let Rows { mut text, spans, places } = rows;
        text.resize(text.len() + PAD, 0);
        let batch_range = 0..text.len();
        let block = TextBlock::from_vec(text);
        let step = self.options.batch_rows.max(1);
        for from in (0..places.len()).step_by(step) {
            let to = (from + step).min(places.len());
            let mut columns = Vec::with_capacity(spans.len());
            let mut faults: Vec<(usize, String)> = Vec::new();
            for (column, (spans, converter)) in spans.iter().zip(&self.converters).enumerate() {
                let lenient = matches!(self.options.bad_value, BadValue::Null | BadValue::RejectRecord { .. });
                let mut bad = BadValues::new(!lenient);
                let mut cx = Cx {
                    strings: Strings::View,
                    invalid_utf8: InvalidUtf8::Reject,
                    batch: batch_range.clone(),
                    bad: &mut bad,
                };
                let array = converter.convert(&block, &spans[from..to], &mut cx)?;
                let name = self.schema.field(column).name();
                for entry in bad.entries() {
                    let value =
                        spans[from + entry.row].bytes(block.bytes()).map(String::from_utf8_lossy).unwrap_or_default();
                    faults.push((entry.row, format!("column({name}) value is incorrect: {value:?} {}", entry.reason)));
                }
                columns.push(array);
            }
            let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(to - from));
            let mut batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
            if !faults.is_empty() {
                faults.sort_by_key(|(row, _)| *row);
                faults.dedup_by_key(|(row, _)| *row);
                let mut keep = vec![true; to - from];
                for (row, reason) in faults {
                    keep[row] = false;
                    let (number, place) = &places[from + row];
                    split.rejected.push(rejected(*number, reason, &source[place.clone()]));
                }
                batch = arrow_select::filter::filter_record_batch(&batch, &BooleanArray::from(keep))?;
            }
            if batch.num_rows() > 0 {
                split.batches.push(batch);
            }
        }
        split.rejected.sort_by_key(|r| r.row);
        if self.options.bad_value == BadValue::Error
            && let Some(first) = split.rejected.first()
        {
            return Err(JsonError::Body(format!("row {}: {}", first.row, first.reason)));
        }
        Ok(())
    }
}

impl std::fmt::Debug for JsonScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("JsonScan").field("options", &self.options).finish_non_exhaustive()
    }
}

fn push(bytes: &[u8], text: &mut Vec<u8>) -> Span {
    let begin = text.len() as u32;
    text.extend_from_slice(bytes);
    Span::new(begin, text.len() as u32)
}

/// A value's text.
fn add(value: Value<'_>, text: &mut Vec<u8>) -> Span {
    match value {
        Value::Null => Span::MISSING,
        // As numbers, so that integer columns take them; BOOLEAN reads them too.
        Value::Bool(b) => push(if b { b"1" } else { b"0" }, text),
        Value::Number(raw) | Value::Array(raw) | Value::Object(raw) | Value::String(raw, false) => push(raw, text),
        Value::String(raw, true) => {
            let begin = text.len() as u32;
            unescape(raw, text);
            Span::new(begin, text.len() as u32)
        }
    }
}

fn parse_failed(wrong: &Wrong) -> String {
    format!("Parse json data failed at byte {}: {}", wrong.at, wrong.what)
}

fn rejected(row: u64, reason: String, text: &[u8]) -> RejectedJson {
    let cut = &text[..text.len().min(REJECTED_BYTES)];
    RejectedJson { row, reason, text: String::from_utf8_lossy(cut).into_owned() }
}

#[cfg(test)]
mod tests {
    use arrow_array::Array;
    use arrow_cast::display::array_value_to_string;
    use arrow_schema::{DataType, Field, Schema};

    use super::*;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int32, true),
            Field::new("name", DataType::Utf8View, true),
            Field::new("price", DataType::Decimal128(20, 2), true),
            Field::new("tags", DataType::new_list(DataType::Int32, true), true),
        ]))
    }

    fn read(options: JsonOptions, body: &str) -> Result<(Vec<String>, Vec<(u64, String)>), JsonError> {
        let scan = JsonScan::try_new(options, schema(), Box::new(io::Cursor::new(body.to_string())))?;
        let (mut rows, mut rejected) = (Vec::new(), Vec::new());
        while let Some(split) = scan.next_split()? {
            for batch in &split.batches {
                for row in 0..batch.num_rows() {
                    let text = |c: &arrow_array::ArrayRef| {
                        if c.is_null(row) { "NULL".into() } else { array_value_to_string(c, row).expect("text") }
                    };
                    rows.push(batch.columns().iter().map(text).collect::<Vec<_>>().join(" "));
                }
            }
            rejected.extend(split.rejected.into_iter().map(|r| (r.row, r.reason)));
        }
        Ok((rows, rejected))
    }

    #[test]
    fn lines() {
        let body = "{\"id\": 1, \"name\": \"a\\nb\", \"price\": 123456789012345678.25, \"tags\": [1,2]}\n\n\
                    {\"ID\": \"2\", \"name\": {\"x\": 1}, \"other\": [1]}\nnonsense\n{\"none\": 1}\n[1]\n\
                    {\"id\": \"x\", \"name\": null, \"price\": true}";
        let (rows, rejected) = read(JsonOptions::default(), body).expect("rows");
        assert_eq!(rows, ["1 a\nb 123456789012345678.25 [1, 2]", "2 {\"x\": 1} NULL NULL", "NULL NULL 1.00 NULL"]);
        let numbers: Vec<_> = rejected.iter().map(|r| r.0).collect();
        assert_eq!(numbers, [4, 5, 6]);
        assert_eq!(rejected[1].1, "All fields is null, this is a invalid row.");
        let strict = JsonOptions { bad_value: BadValue::Reject { max: u64::MAX }, ..JsonOptions::default() };
        let (rows, rejected) = read(strict, body).expect("rows");
        assert_eq!(rows.len(), 2);
        assert!(rejected[3].1.starts_with("column(id) value is incorrect: \"x\""), "{}", rejected[3].1);
    }

    #[test]
    fn arrays_paths_root_and_defaults() {
        let options = JsonOptions {
            by_line: false,
            strip_outer_array: true,
            root: Some(JsonPath::parse("$.d").expect("a path")),
            paths: Some(JsonPath::parse_all("[\"$.k[1].id\", \"$.n\", \"$.p\", \"$['t']\"]").expect("paths")),
            defaults: vec![None, Some("none".into()), None, None],
            ..JsonOptions::default()
        };
        let body = "[{\"d\": {\"k\": [0, {\"id\": 7}], \"t\": []}}, {\"e\": 1}, {\"d\": {\"n\": \"x\"}}]";
        let (rows, rejected) = read(options.clone(), body).expect("rows");
        assert_eq!(rows, ["7 none NULL []", "NULL x NULL NULL"]);
        assert_eq!(rejected, [(2, "JSON Root not found.".to_string())]);
        assert!(read(options.clone(), "{}").is_err());
        assert!(read(JsonOptions { strip_outer_array: false, root: None, ..options.clone() }, "[]").is_err());
        assert!(read(JsonOptions { body_bytes_max: 4, ..options }, body).is_err());
        assert!(JsonPath::parse("$.a[*]").is_err());
    }

    #[test]
    fn many_workers_see_every_line_once() {
        let body: String = (0..200_000).map(|i| format!("{{\"id\": {i}, \"name\": \"row {i}\"}}\n")).collect();
        let scan =
            JsonScan::try_new(JsonOptions::default(), schema(), Box::new(io::Cursor::new(body))).expect("a scan");
        let mut splits = std::thread::scope(|scope| {
            let work = || {
                let mut all = Vec::new();
                while let Some(split) = scan.next_split().expect("rows") {
                    all.push(split);
                }
                all
            };
            let workers: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|w| w.join().expect("no panic")).collect::<Vec<_>>()
        });
        splits.sort_by_key(|s| s.order);
        use arrow_array::cast::AsArray;
        let ids: Vec<i32> = splits
            .iter()
            .flat_map(|s| &s.batches)
            .flat_map(|b| b.column(0).as_primitive::<arrow_array::types::Int32Type>().values().to_vec())
            .collect();
        assert_eq!(ids, (0..200_000).collect::<Vec<_>>());
    }
}
