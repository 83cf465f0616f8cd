//! JSON bodies: the values of lines, of an array or behind paths, as text cells from which columns are parsed.
//!
//! Numbers keep their digits as written, so `num_as_string` changes nothing. Nested values are the JSON text itself. A
//! column that an object lacks gets its default, as in Doris; an explicit `null` is NULL.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow::array::{ArrayRef, AsArray, BooleanArray, RecordBatchOptions};
use arrow::compute::{filter, interleave};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_text::json::text::{Bad, Cell, Kind, Members, Step, items, lookup, parse_path, string, whole};
use dipper_text::{BadValues, Convert, CsvDialect, Cx, InvalidUtf8, Memory, Span, Strings, TextBlock, csv_converter};
use parking_lot::Mutex;

use crate::answer::RejectedRow;
use crate::errors::Kept;
use crate::request::{JsonLayout, StreamLoadRequest, UpdateMode};
use crate::shaper::Reading;
use crate::source::{Origin, Piece, ROW_BYTES_MAX, ROW_BYTES_SHOWN, check_qualified, packed};

/// Approximate bytes of a piece of lines.
const PIECE_BYTES: usize = 1 << 20;
/// Largest piece for which no memory is reserved.
const ORDINARY_BYTES: usize = 4 * PIECE_BYTES;
/// Largest body that is one value, like Doris' `streaming_load_json_max_mb`.
pub const WHOLE_BYTES_MAX: usize = 100 << 20;
/// Rows per batch.
const BATCH_ROWS: usize = 8192;

/// The rows of a JSON body.
pub struct JsonRows {
    feed: Mutex<Feed>,
    layout: JsonLayout,
    /// The line end after each value, if there is one value per line.
    line_end: Vec<u8>,
    /// The columns that are read, and the converters from text to their values.
    schema: SchemaRef,
    converters: Vec<Arc<dyn Convert>>,
    /// Values for absent members, by column: see [`Reading::absent`].
    absent: Vec<Option<ArrayRef>>,
    /// Columns by name in lower case; used if there are no paths.
    by_name: HashMap<String, usize>,
    /// Paths of the columns; `None` for a column that is not in the body.
    paths: Option<Vec<Option<Vec<Step>>>>,
    root: Vec<Step>,
    /// Columns without which an object is rejected; empty unless other columns may be missing.
    required: Vec<usize>,
    /// Whether pieces say which columns each row contains.
    tells_present: bool,
    strict: bool,
    request: StreamLoadRequest,
    rejected: AtomicU64,
    kept: Mutex<Kept>,
    cancelled: AtomicBool,
}

/// Most names in a message.
const NAMED_MAX: usize = 8;

struct Feed {
    body: Box<dyn Read + Send>,
    rest: Vec<u8>,
    line: u64,
    order: u64,
    ended: bool,
    memory: Arc<dyn Memory>,
}

/// Memory of a piece that is longer than usual, reserved until its rows are made.
struct Held {
    memory: Arc<dyn Memory>,
    bytes: usize,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.memory.shrink(self.bytes);
    }
}

/// Positions of the rows of a batch in the body.
pub(crate) struct JsonOrigins {
    block: TextBlock,
    /// Start, end and line of each row.
    rows: Vec<(u32, u32, u64)>,
}

impl JsonOrigins {
    pub(crate) fn line(&self, row: usize) -> u64 {
        self.rows[row].2
    }

    pub(crate) fn text(&self, row: usize) -> String {
        let (start, end, _) = self.rows[row];
        shown(&self.block.bytes()[start as usize..end as usize])
    }
}

fn shown(bytes: &[u8]) -> String {
    let cut = bytes.len() > ROW_BYTES_SHOWN;
    let mut text = String::from_utf8_lossy(&bytes[..bytes.len().min(ROW_BYTES_SHOWN)]).into_owned();
    if cut {
        text.push_str("...");
    }
    text
}

/// Position of a cell's text: in the piece, or in the decoded text behind it.
#[derive(Debug, Clone, Copy)]
enum Text {
    /// The object lacks the member.
    Absent,
    Null,
    Piece(u32, u32),
    Side(u32, u32),
}

/// The cells of some rows.
#[derive(Default)]
struct Cells {
    /// Positions by column and row.
    texts: Vec<Vec<Text>>,
    /// Decoded strings, which are placed behind the piece's own bytes.
    side: Vec<u8>,
    rows: Vec<(u32, u32, u64)>,
}

impl JsonRows {
    /// Makes the rows of a body.
    ///
    /// # Errors
    /// `Invalid` if a path cannot be parsed, or there are fewer paths than columns.
    pub(crate) fn try_new(
        request: &StreamLoadRequest,
        reading: &Reading,
        body: Box<dyn Read + Send>,
        memory: Arc<dyn Memory>,
    ) -> Result<Self> {
        let paths = match &request.json.jsonpaths {
            None => None,
            Some(paths) => {
                let columns = reading.body.fields().len();
                // If the request lists no columns, not all of the table's need to be in the body.
                if paths.len() < columns && !request.derives_only() {
                    let (n, m) = (paths.len(), columns);
                    return Err(EngineError::invalid(format!("jsonpaths has {n} paths for {m} columns")));
                }
                let of = |i: &usize| paths.get(*i).map(|text| path(text)).transpose();
                Some(reading.wanted.iter().map(of).collect::<Result<Vec<_>>>()?)
            }
        };
        let rows = Self::of(request, Arc::new(reading.body.project(&reading.wanted)?), paths, body, memory)?;
        Ok(JsonRows {
            absent: reading.absent.clone(),
            required: reading.required.clone(),
            tells_present: request.update_mode == UpdateMode::FlexibleColumns,
            ..rows
        })
    }

    /// Makes the rows of a body with these columns. `paths` has a path for each of them; without paths they are found
    /// by name.
    ///
    /// # Errors
    /// `Invalid` if `json_root` is not a path, or text cannot have a column's type.
    pub fn of(
        request: &StreamLoadRequest,
        schema: SchemaRef,
        paths: Option<Vec<Option<Vec<Step>>>>,
        body: Box<dyn Read + Send>,
        memory: Arc<dyn Memory>,
    ) -> Result<Self> {
        let dialect = CsvDialect { quote: None, null_values: Vec::new(), ..CsvDialect::default() };
        let converters = schema.fields().iter().map(|f| Ok(csv_converter(f, &dialect)?)).collect::<Result<Vec<_>>>()?;
        let layout = request.json.clone();
        let root = layout.json_root.as_deref().map(path).transpose()?.unwrap_or_default();
        let by_name = schema.fields().iter().enumerate().map(|(i, f)| (f.name().to_lowercase(), i)).collect();
        Ok(JsonRows {
            feed: Mutex::new(Feed { body, rest: Vec::new(), line: 1, order: 0, ended: false, memory }),
            line_end: match request.csv.line_delimiter.as_slice() {
                b"\r\n" => b"\n".to_vec(),
                _ if !layout.read_json_by_line => b"\n".to_vec(),
                end => end.to_vec(),
            },
            layout,
            converters,
            absent: vec![None; schema.fields().len()],
            schema,
            by_name,
            paths,
            root,
            required: Vec::new(),
            tells_present: false,
            strict: request.strict_mode,
            request: request.clone(),
            rejected: AtomicU64::new(0),
            kept: Mutex::default(),
            cancelled: AtomicBool::new(false),
        })
    }

    /// Makes readers stop.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Returns the number of rejected values, and the first of them, by line.
    pub fn rejected(&self) -> (u64, Vec<RejectedRow>) {
        let mut kept = self.kept.lock().rows().to_vec();
        kept.sort_by_key(|r| r.line);
        (self.rejected.load(Ordering::Relaxed), kept)
    }

    /// Returns the next piece; `None` at the end of the body. Blocking.
    ///
    /// # Errors
    /// `File` if the body breaks off; `Resources` if a row is too long or there is no memory for it; `Killed` after
    /// [`cancel`](Self::cancel); `BadValue` if too many values are rejected.
    pub fn next(&self) -> Result<Option<Piece>> {
        let (order, line, bytes, _held) = {
            let mut feed = self.feed.lock();
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(EngineError::new(ErrorKind::Killed, "the load was stopped"));
            }
            let line = feed.line;
            let lines = self.layout.read_json_by_line.then_some(self.line_end.as_slice());
            let Some((bytes, held)) = feed.piece(lines)? else { return Ok(None) };
            feed.line += count(&bytes, &self.line_end);
            feed.order += 1;
            (feed.order - 1, line, bytes, held)
        };
        let cells = self.cells(&bytes, line)?;
        self.piece(order, bytes, cells).map(Some)
    }

    fn cells(&self, bytes: &[u8], first_line: u64) -> Result<Cells> {
        let mut cells = Cells { texts: vec![Vec::new(); self.schema.fields().len()], ..Cells::default() };
        if !self.layout.read_json_by_line {
            if !bytes.iter().all(u8::is_ascii_whitespace) {
                self.text(bytes, 0, bytes.len(), first_line, &mut cells)?;
            }
            return Ok(cells);
        }
        let mut start = 0;
        let mut line = first_line;
        while start < bytes.len() {
            let end = find(&bytes[start..], &self.line_end).map_or(bytes.len(), |n| start + n);
            if !bytes[start..end].iter().all(u8::is_ascii_whitespace) {
                self.text(bytes, start, end, line, &mut cells)?;
            }
            start = end + self.line_end.len();
            line += 1;
        }
        Ok(cells)
    }

    /// Adds the rows of one JSON text.
    fn text(&self, bytes: &[u8], start: usize, end: usize, line: u64, cells: &mut Cells) -> Result<()> {
        let text = &bytes[..end];
        let value = match whole(text, start) {
            Ok(value) => value,
            Err(bad) => {
                let is_first = self.layout.read_json_by_line
                    && bytes[..start].iter().all(u8::is_ascii_whitespace)
                    && line == 1 + count(&bytes[..start], &self.line_end);
                let way =
                    if is_first { other_form(&text[start..], bad.at >= text.trim_ascii_end().len()) } else { None };
                let reason = parse_failed(&bad, start) + &way.unwrap_or_default();
                return self.reject(line, &bytes[start..end], reason);
            }
        };
        // A root that begins with a member is looked up in each item of an array.
        let in_items = value.kind == Kind::Array
            && self.layout.strip_outer_array
            && matches!(self.root.first(), Some(Step::Key(_)));
        let root = match lookup(text, value, if in_items { &[] } else { &self.root }) {
            Ok(Some(root)) => root,
            Ok(None) => return self.reject(line, &bytes[start..end], "JSON Root not found.".into()),
            Err(bad) => return self.reject(line, &bytes[start..end], parse_failed(&bad, start)),
        };
        let is_array = root.kind == Kind::Array;
        if is_array && !self.layout.strip_outer_array {
            let reason = "JSON data is array-object, `strip_outer_array` must be TRUE.";
            return self.reject(line, &bytes[start..end], reason.into());
        }
        if !is_array && self.layout.strip_outer_array {
            let reason = "JSON data is not an array-object, `strip_outer_array` must be FALSE.";
            return self.reject(line, &bytes[start..end], reason.into());
        }
        if !is_array {
            return self.row(text, root, line, cells);
        }
        let mut at_line = (root.start, line);
        for item in items(text, root) {
            // The whole text has been checked above.
            let Ok(item) = item else { break };
            at_line = (item.start, at_line.1 + count(&text[at_line.0..item.start], &self.line_end));
            let row = if in_items { lookup(text, item, &self.root).ok().flatten() } else { Some(item) };
            match row {
                Some(row) => self.row(text, row, at_line.1, cells)?,
                None => self.reject(at_line.1, &text[item.start..item.end], "JSON Root not found.".into())?,
            }
        }
        Ok(())
    }

    fn row(&self, text: &[u8], row: Cell, line: u64, cells: &mut Cells) -> Result<()> {
        if row.kind != Kind::Object {
            let reason = "the row is no JSON object";
            return self.reject(line, &text[row.start..row.end], reason.into());
        }
        // Pieces begin with the piece's bytes; decoded strings come behind them.
        let before = cells.rows.len();
        let mut any = self.schema.fields().is_empty();
        match &self.paths {
            Some(paths) => {
                for (column, path) in paths.iter().enumerate() {
                    let cell = path.as_ref().and_then(|path| lookup(text, row, path).ok().flatten());
                    any |= cell.is_some();
                    let found = cell.map_or(Text::Absent, |cell| cells.text(text, cell));
                    cells.texts[column].push(found);
                }
            }
            None => {
                let mut expected = 0;
                for member in Members::new(text, row) {
                    let Ok((key, cell)) = member else { break };
                    let Some(column) = self.column(text, key, expected) else { continue };
                    expected = column + 1;
                    any = true;
                    let found = cells.text(text, cell);
                    let texts = &mut cells.texts[column];
                    // Of two members with equal names the last one counts.
                    texts.truncate(before);
                    texts.push(found);
                }
                for texts in cells.texts.iter_mut().filter(|t| t.len() == before) {
                    texts.push(Text::Absent);
                }
            }
        }
        if !any {
            // The object is not of this table: like Doris, reject a row without any known member, rather than load one
            // of NULLs.
            cells.texts.iter_mut().for_each(|texts| texts.truncate(before));
            return self.reject(line, &text[row.start..row.end], self.nothing_found());
        }
        if let Some(key) = self.required.iter().find(|at| matches!(cells.texts[**at].last(), Some(Text::Absent))) {
            cells.texts.iter_mut().for_each(|texts| texts.truncate(before));
            let name = self.schema.field(*key).name();
            let reason = format!("the row has no key column '{name}'; each row brings all of the key");
            return self.reject(line, &text[row.start..row.end], reason);
        }
        cells.rows.push((row.start as u32, row.end as u32, line));
        Ok(())
    }

    /// Returns the reason for rejecting a row without any known member, in Doris' words and with the names that were
    /// looked for.
    fn nothing_found(&self) -> String {
        let names = self.schema.fields().iter().map(|f| f.name().clone());
        let (what, wanted): (_, Vec<String>) = match &self.layout.jsonpaths {
            Some(paths) => ("the jsonpaths", paths.clone()),
            None => ("the columns' names", names.collect()),
        };
        let more = if wanted.len() > NAMED_MAX { ", ..." } else { "" };
        let wanted = wanted[..wanted.len().min(NAMED_MAX)].join(", ");
        let root = self.layout.json_root.as_ref().map(|root| format!(" below json_root {root}")).unwrap_or_default();
        format!("All fields is null, this is a invalid row. None of {what} leads to a value{root}: {wanted}{more}")
    }

    /// Returns the column of this name; most often it is the one after that of the previous member.
    fn column(&self, text: &[u8], key: Cell, expected: usize) -> Option<usize> {
        let raw = &text[key.start + 1..key.end - 1];
        if let Some(field) = self.schema.fields().get(expected)
            && field.name().as_bytes() == raw
        {
            return Some(expected);
        }
        let name = match key.kind {
            Kind::String { escaped: true } => {
                let mut decoded = Vec::new();
                string(raw, &mut decoded);
                String::from_utf8_lossy(&decoded).to_lowercase()
            }
            _ => String::from_utf8_lossy(raw).to_lowercase(),
        };
        self.by_name.get(&name).copied()
    }

    fn piece(&self, order: u64, bytes: Vec<u8>, cells: Cells) -> Result<Piece> {
        let Cells { texts, side, rows } = cells;
        let base = bytes.len();
        let mut all = bytes;
        all.extend_from_slice(&side);
        let block = TextBlock::from_vec(all);
        let mut piece = Piece { order, batches: Vec::new(), origins: Vec::new(), present: Vec::new() };
        let total = rows.len();
        for from in (0..total).step_by(BATCH_ROWS) {
            let to = (from + BATCH_ROWS).min(total);
            let mut faults: HashMap<usize, String> = HashMap::new();
            let mut columns: Vec<ArrayRef> = Vec::with_capacity(texts.len());
            let read = texts.iter().zip(&self.converters).zip(&self.absent).zip(self.schema.fields());
            for (((column, converter), absent), field) in read {
                let wanted: Vec<Span> = column[from..to].iter().map(|text| text.span(base as u32)).collect();
                // Invalid UTF-8 and what no column can hold are reported even where other bad values just become NULL.
                let mut bad = BadValues::new(self.strict);
                let mut cx = Cx {
                    strings: Strings::View,
                    invalid_utf8: InvalidUtf8::Reject,
                    batch: 0..block.bytes().len(),
                    bad: &mut bad,
                };
                let array = converter.convert(&block, &wanted, &mut cx)?;
                columns.push(match absent {
                    Some(value) => with_absent(array, &column[from..to], value)?,
                    None => array,
                });
                for entry in bad.entries() {
                    let value = wanted[entry.row].bytes(block.bytes()).map(shown).unwrap_or_default();
                    let (name, why) = (field.name(), &entry.reason);
                    faults.entry(entry.row).or_insert_with(|| match entry.unsupported {
                        true => format!("column({name}) cannot hold {value:?} {why}"),
                        false => format!(
                            "column({name}) value is incorrect while strict mode is 1, src value is {value:?} {why}"
                        ),
                    });
                }
            }
            let is_there = |column: &Vec<Text>| -> BooleanArray {
                column[from..to].iter().map(|text| Some(!matches!(text, Text::Absent))).collect()
            };
            let mut present: Vec<BooleanArray> = match self.tells_present {
                true => texts.iter().map(is_there).collect(),
                false => Vec::new(),
            };
            let mut here = rows[from..to].to_vec();
            let mut count = to - from;
            if !faults.is_empty() {
                for (row, reason) in &faults {
                    let (start, end, line) = here[*row];
                    self.reject(line, &block.bytes()[start as usize..end as usize], reason.clone())?;
                }
                let keep: BooleanArray = (0..count).map(|row| Some(!faults.contains_key(&row))).collect();
                columns = columns.iter().map(|c| filter(c, &keep)).collect::<std::result::Result<Vec<_>, _>>()?;
                for column in &mut present {
                    *column = filter(column, &keep)?.as_boolean().clone();
                }
                let mut row = 0..;
                here.retain(|_| row.next().is_none_or(|row| !faults.contains_key(&row)));
                count = here.len();
            }
            let options = RecordBatchOptions::new().with_row_count(Some(count));
            piece.batches.push(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?);
            piece.present.push(present);
            piece.origins.push(Origin::Json(JsonOrigins { block: block.clone(), rows: here }));
        }
        Ok(piece)
    }

    fn reject(&self, line: u64, text: &[u8], reason: String) -> Result<()> {
        let rejected = self.rejected.fetch_add(1, Ordering::Relaxed) + 1;
        let mut kept = self.kept.lock();
        if kept.has_room() {
            kept.push(RejectedRow { line, column: None, reason, row: shown(text) });
        }
        check_qualified(&self.request, rejected)
    }
}

impl Cells {
    /// Adds the text of a value.
    fn text(&mut self, text: &[u8], cell: Cell) -> Text {
        let (start, end) = (cell.start as u32, cell.end as u32);
        match cell.kind {
            Kind::Null => Text::Null,
            Kind::True => self.put(|side| side.push(b'1')),
            Kind::False => self.put(|side| side.push(b'0')),
            Kind::String { escaped: true } => self.put(|side| string(&text[cell.start + 1..cell.end - 1], side)),
            Kind::String { escaped: false } => Text::Piece(start + 1, end - 1),
            Kind::Number | Kind::Object | Kind::Array => Text::Piece(start, end),
        }
    }

    fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Text {
        let start = self.side.len() as u32;
        write(&mut self.side);
        Text::Side(start, self.side.len() as u32)
    }
}

impl Text {
    /// Returns the span in a block that holds the piece's `base` bytes and the decoded text behind them.
    fn span(self, base: u32) -> Span {
        match self {
            Text::Absent | Text::Null => Span::MISSING,
            Text::Piece(start, end) => Span::new(start, end),
            Text::Side(start, end) => Span::new(base + start, base + end),
        }
    }
}

/// Returns the column with `value` in the rows whose cell is absent.
fn with_absent(array: ArrayRef, texts: &[Text], value: &ArrayRef) -> Result<ArrayRef> {
    let is_absent = |text: &Text| matches!(text, Text::Absent);
    if !texts.iter().any(is_absent) {
        return Ok(array);
    }
    let pick = |(row, text): (usize, &Text)| if is_absent(text) { (1, 0) } else { (0, row) };
    let picked: Vec<(usize, usize)> = texts.iter().enumerate().map(pick).collect();
    Ok(interleave(&[array.as_ref(), value.as_ref()], &picked)?)
}

/// Parses the steps of a path; `$.` is the whole object.
///
/// # Errors
/// `Invalid` if the text is not a path.
pub fn path(text: &str) -> Result<Vec<Step>> {
    match text {
        "$." => Ok(Vec::new()),
        _ => parse_path(text).ok_or_else(|| EngineError::invalid(format!("Invalid json path: {text}"))),
    }
}

/// Returns the names of the first row's members, in their order. `text` holds the first row: it is the first line of a
/// body with one row per line, otherwise the whole body. `None` if it has no object with members.
///
/// # Errors
/// `Invalid` if `json_root` is not a path.
pub fn first_names(text: &[u8], layout: &JsonLayout) -> Result<Option<Vec<String>>> {
    let root = layout.json_root.as_deref().map(path).transpose()?.unwrap_or_default();
    let Ok(value) = whole(text, 0) else { return Ok(None) };
    let first = |value: Cell| match value.kind == Kind::Array && layout.strip_outer_array {
        true => items(text, value).next().and_then(std::result::Result::ok),
        false => Some(value),
    };
    let found = |value: Cell| lookup(text, value, &root).ok().flatten();
    // A root that begins with a member is looked up in each item of an array.
    let in_items = value.kind == Kind::Array && matches!(root.first(), Some(Step::Key(_)));
    let row = if in_items { first(value).and_then(found) } else { found(value).and_then(first) };
    let Some(row) = row.filter(|row| row.kind == Kind::Object) else { return Ok(None) };
    let mut names: Vec<String> = Vec::new();
    for member in Members::new(text, row) {
        let Ok((key, _)) = member else { break };
        let mut name = Vec::new();
        string(&text[key.start + 1..key.end - 1], &mut name);
        let name = String::from_utf8_lossy(&name).into_owned();
        if !names.iter().any(|known| known.eq_ignore_ascii_case(&name)) {
            names.push(name);
        }
    }
    Ok(Some(names).filter(|names| !names.is_empty()))
}

/// Returns what else a body can be whose first line is no JSON, and how to load it. `goes_on`: the value of the line has
/// no end in it.
fn other_form(line: &[u8], goes_on: bool) -> Option<String> {
    if let Some(way) = packed(&String::from_utf8_lossy(&line[..line.len().min(16)])) {
        return Some(format!("; {way}"));
    }
    let (kind, header) = match line.trim_ascii_start().first()? {
        b'[' => ("array", " and 'strip_outer_array: true'"),
        b'{' => ("object", ""),
        _ => return None,
    };
    goes_on.then(|| {
        format!(
            "; if the body is one JSON {kind} over several lines, load it with 'read_json_by_line: false'{header}: what is \
             read is an object a line"
        )
    })
}

fn parse_failed(bad: &Bad, start: usize) -> String {
    format!("Parse json data failed: at byte {}: {}", bad.at.saturating_sub(start), bad.what)
}

/// Returns the position of the first line end, which must not be empty.
fn find(bytes: &[u8], end: &[u8]) -> Option<usize> {
    match end {
        [byte] => bytes.iter().position(|b| b == byte),
        _ => bytes.windows(end.len()).position(|w| w == end),
    }
}

/// Returns the position of the last line end.
fn rfind(bytes: &[u8], end: &[u8]) -> Option<usize> {
    match end {
        [byte] => bytes.iter().rposition(|b| b == byte),
        _ => bytes.windows(end.len()).rposition(|w| w == end),
    }
}

/// Counts the line ends.
fn count(mut bytes: &[u8], end: &[u8]) -> u64 {
    if let [byte] = end {
        return bytes.iter().filter(|b| *b == byte).count() as u64;
    }
    let mut found = 0;
    while let Some(at) = find(bytes, end) {
        found += 1;
        bytes = &bytes[at + end.len()..];
    }
    found
}

impl Feed {
    /// Reads whole lines, if `lines` gives their line end, or the whole body. `None` at the end of the body.
    fn piece(&mut self, lines: Option<&[u8]>) -> Result<Option<(Vec<u8>, Held)>> {
        if self.ended && self.rest.is_empty() {
            return Ok(None);
        }
        let mut buffer = std::mem::take(&mut self.rest);
        let most = if lines.is_some() { ROW_BYTES_MAX } else { WHOLE_BYTES_MAX };
        let mut wanted = PIECE_BYTES;
        let mut held = Held { memory: Arc::clone(&self.memory), bytes: 0 };
        loop {
            self.hold(wanted, &mut held)?;
            let before = buffer.len();
            if !self.ended && before < wanted {
                let read = (&mut self.body).take((wanted - before) as u64).read_to_end(&mut buffer);
                let n = read.map_err(|e| EngineError::of(ErrorKind::File, e))?;
                self.ended = before + n < wanted;
            }
            if buffer.is_empty() {
                return Ok(None);
            }
            if self.ended {
                return Ok(Some((buffer, held)));
            }
            if let Some(line_end) = lines
                && let Some(at) = rfind(&buffer, line_end)
            {
                self.rest = buffer.split_off(at + line_end.len());
                return Ok(Some((buffer, held)));
            }
            if buffer.len() > most {
                let (line, most) = (self.line, most >> 20);
                return Err(EngineError::new(
                    ErrorKind::Resources,
                    match lines {
                        Some(_) => format!("line {line} has more than {most} MiB"),
                        None => format!(
                            "the JSON body is one value of more than {most} MiB; send a value a line, with read_json_by_line:true"
                        ),
                    },
                ));
            }
            // Read no more than is needed to see that it is too long.
            wanted = (buffer.len() * 2).min(most + 1).max(buffer.len() + 1);
        }
    }

    /// Reserves the memory of a piece of `bytes` bytes. A long piece is counted twice: as text, and with its decoded
    /// strings.
    fn hold(&self, bytes: usize, held: &mut Held) -> Result<()> {
        let wanted = if bytes > ORDINARY_BYTES { 2 * bytes } else { 0 };
        let more = wanted.saturating_sub(held.bytes);
        if more > 0 {
            self.memory.grow(more).map_err(|why| {
                let text = format!("line {}: no memory for a row of {} MiB or more: {why}", self.line, bytes >> 21);
                EngineError::new(ErrorKind::Resources, text)
            })?;
            held.bytes += more;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    #[test]
    fn a_first_line_that_goes_on_is_one_of_a_document() {
        let way = |line: &[u8], goes_on| other_form(line, goes_on).unwrap_or_default();
        assert!(way(b"{", true).contains("'read_json_by_line: false': what"));
        assert!(way(b"[{\"a\": 1},", true).contains("'read_json_by_line: false' and 'strip_outer_array: true'"));
        assert!(way(b"\xfd7zXZ\0", false).starts_with("; the body is xz"));
        assert_eq!(way(b"{x}", false), "");
        assert_eq!(way(b"a,b", true), "");
    }

    #[derive(Debug, Default)]
    struct Taken(AtomicUsize);

    impl Memory for Taken {
        fn grow(&self, bytes: usize) -> std::result::Result<(), String> {
            self.0.fetch_add(bytes, Ordering::Relaxed);
            Ok(())
        }

        fn shrink(&self, bytes: usize) {
            self.0.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// One thread may parse the rows of a piece while another reads the next piece.
    #[test]
    fn long_pieces_hold_their_memory_as_long_as_they_are_there() {
        let memory = Arc::new(Taken::default());
        let taken = || memory.0.load(Ordering::Relaxed);
        let lines = [vec![b'x'; 10 << 20], b"\n".to_vec()].concat().repeat(2);
        let body = Box::new(std::io::Cursor::new(lines));
        let mut feed =
            Feed { body, rest: Vec::new(), line: 1, order: 0, ended: false, memory: Arc::<Taken>::clone(&memory) };
        let mut piece = || feed.piece(Some(b"\n")).expect("read").expect("a line");
        let first = piece();
        let one = taken();
        assert!(one >= 20 << 20, "{one}");
        let second = piece();
        assert!(taken() > one);
        drop(first);
        assert!(taken() >= 20 << 20, "{}", taken());
        drop(second);
        assert_eq!(taken(), 0);
    }
}
