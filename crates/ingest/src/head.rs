//! The beginning of a body, from which its columns are known: the header line of text, or the first row of JSON.

use std::io::{self, Read};
use std::sync::Arc;

use dipper_load::body::BodySource;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_text::Source;
use parking_lot::Mutex;

use crate::json;
use crate::request::{CsvLayout, Format, StreamLoadRequest};
use crate::source::{PIECE_BYTES, ROW_BYTES_MAX};

/// Bytes of the body that are searched for its columns.
const HEAD_BYTES: usize = 1 << 20;

/// The bytes that have been read of a body, and the rest of it.
pub(crate) type Begun = (Vec<u8>, Box<dyn Read + Send>);

/// Returns the text that holds the first row of a JSON body: its first line that is not blank, or all of it if there is
/// no row per line. Blocking.
pub(crate) fn first_row(mut body: Box<dyn Read + Send>, request: &StreamLoadRequest) -> Result<(Vec<u8>, Begun)> {
    let failed = |e: io::Error| EngineError::new(ErrorKind::File, format!("cannot read the body: {e}"));
    let mut bytes = Vec::new();
    let by_line = request.json.read_json_by_line;
    let most = if by_line { ROW_BYTES_MAX } else { json::WHOLE_BYTES_MAX };
    loop {
        // Skip blank lines.
        let start = bytes.iter().position(|b: &u8| !b.is_ascii_whitespace()).unwrap_or(bytes.len());
        let end = bytes[start..].iter().position(|b| *b == b'\n').map(|end| start + end);
        if let Some(end) = end.filter(|_| by_line) {
            return Ok((bytes[start..end].to_vec(), (bytes, body)));
        }
        let before = bytes.len();
        (&mut body).take(PIECE_BYTES as u64).read_to_end_once(&mut bytes).map_err(failed)?;
        if bytes.len() == before {
            return Ok((bytes[start..].to_vec(), (bytes, body)));
        }
        if bytes.len() > most {
            let most = most >> 20;
            let text = format!("the first row of the body is not in its first {most} MiB; send a value a line");
            return Err(EngineError::new(ErrorKind::Resources, text));
        }
    }
}

/// A body whose first bytes have been read.
pub struct Head {
    bytes: Vec<u8>,
    rest: Mutex<Box<dyn Read + Send>>,
}

impl std::fmt::Debug for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Head").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

impl Head {
    /// Reads until the first line is complete. Blocking.
    ///
    /// # Errors
    /// `File` if the body breaks off.
    ///
    /// # Panics
    /// If the request is for another format than delimited text.
    pub fn read(request: &StreamLoadRequest, body: Arc<BodySource>) -> Result<Head> {
        let Format::Csv { head_lines } = request.format else { panic!("asked for text only") };
        let mut rest = dipper_text::decoder(request.compression, body as Arc<dyn Source>);
        let mut bytes = Vec::new();
        let lines = request.csv.skip_lines as usize + usize::from(head_lines).max(1);
        while bytes.len() < HEAD_BYTES && Lines::of(&bytes, request).nth(lines - 1).is_none_or(|line| !line.1) {
            let before = bytes.len();
            let next = (&mut rest).take(64 << 10).read_to_end_once(&mut bytes);
            next.map_err(|e| EngineError::new(ErrorKind::File, format!("cannot read the body: {e}")))?;
            if bytes.len() == before {
                break;
            }
        }
        Ok(Head { bytes, rest: Mutex::new(rest) })
    }

    /// Returns whether the body has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the names of the columns, from the header line or by number; `None` if the body ends before its first
    /// line.
    ///
    /// # Errors
    /// `Invalid` if the header line is not UTF-8.
    pub fn columns(&self, request: &StreamLoadRequest, head_lines: u8) -> Result<Option<Vec<String>>> {
        let skipped = if head_lines > 0 { 0 } else { request.csv.skip_lines as usize };
        let Some((line, _)) = Lines::of(&self.bytes, request).nth(skipped) else { return Ok(None) };
        let fields = fields(line, &request.csv);
        if head_lines == 0 {
            return Ok(Some((1..=fields.len()).map(|n| format!("c{n}")).collect()));
        }
        let name = |field: &[u8]| match std::str::from_utf8(field) {
            Ok(name) => Ok(name.trim_start_matches('\u{feff}').trim().to_string()),
            Err(_) => Err(EngineError::invalid("the header line of the body is not UTF-8")),
        };
        fields.into_iter().map(name).collect::<Result<Vec<_>>>().map(Some)
    }
}

/// Appends the result of a single read.
trait ReadOnce {
    fn read_to_end_once(self, into: &mut Vec<u8>) -> io::Result<()>;
}

impl<R: Read> ReadOnce for io::Take<R> {
    fn read_to_end_once(mut self, into: &mut Vec<u8>) -> io::Result<()> {
        let (start, most) = (into.len(), self.limit() as usize);
        into.resize(start + most, 0);
        let read = self.read(&mut into[start..]);
        into.truncate(start + *read.as_ref().unwrap_or(&0));
        read.map(drop)
    }
}

impl Source for Head {
    fn len(&self) -> u64 {
        0
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        // Streams are read in order.
        if let Some(left) = self.bytes.get(offset as usize..).filter(|left| !left.is_empty()) {
            let n = left.len().min(buf.len());
            buf[..n].copy_from_slice(&left[..n]);
            return Ok(n);
        }
        self.rest.lock().read(buf)
    }
}

/// The lines of the head without their ends, each with whether its end was found.
struct Lines<'a> {
    left: Option<&'a [u8]>,
    delimiter: &'a [u8],
    quote: Option<u8>,
}

impl<'a> Lines<'a> {
    fn of(bytes: &'a [u8], request: &'a StreamLoadRequest) -> Self {
        let (delimiter, quote) = (&request.csv.line_delimiter, request.csv.enclose);
        Lines { left: Some(bytes).filter(|b| !b.is_empty()), delimiter, quote }
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = (&'a [u8], bool);

    fn next(&mut self) -> Option<Self::Item> {
        let left = self.left?;
        let Some(end) = find(left, self.delimiter, self.quote) else {
            self.left = None;
            return Some((left, false));
        };
        self.left = Some(&left[end + self.delimiter.len()..]).filter(|left| !left.is_empty());
        let line = &left[..end];
        let line = if self.delimiter == b"\n" { line.strip_suffix(b"\r").unwrap_or(line) } else { line };
        Some((line, true))
    }
}

/// Returns the first position of `what` outside of quotes.
fn find(text: &[u8], what: &[u8], quote: Option<u8>) -> Option<usize> {
    let mut quoted = false;
    for at in 0..text.len() {
        if Some(text[at]) == quote {
            quoted = !quoted;
        }
        if !quoted && text[at..].starts_with(what) {
            return Some(at);
        }
    }
    None
}

/// Fields of a line, without their quotes.
fn fields<'a>(mut line: &'a [u8], layout: &CsvLayout) -> Vec<&'a [u8]> {
    let (separator, quote) = (&layout.column_separator, layout.enclose);
    let around = quote.or(layout.trim_double_quotes.then_some(b'"'));
    let bare = |field: &'a [u8]| match around {
        Some(q) => field.strip_prefix(&[q]).and_then(|f| f.strip_suffix(&[q])).unwrap_or(field),
        None => field,
    };
    let mut fields = Vec::new();
    while let Some(end) = find(line, separator, quote) {
        fields.push(bare(&line[..end]));
        line = &line[end + separator.len()..];
    }
    fields.push(bare(line));
    fields
}
