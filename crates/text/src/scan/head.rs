//! Parts of a file before and after its records: byte order mark, lines to skip, header, footer.

use std::io;
use std::ops::Range;

use super::grammar::{Ends, Grammar};
use super::machine::{self, Place, State};
use crate::simd::Index;
use crate::source::{Source, read_full};

const BOM: &[u8] = b"\xEF\xBB\xBF";

/// Whether anything but a byte order mark may precede the first record.
fn has_head(grammar: &Grammar) -> bool {
    grammar.skip_lines > 0 || grammar.header
}

/// The part of a file before its first record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Head {
    /// Length of all of it in bytes.
    pub len: usize,
    /// Range of the header in it, without its line end; empty if there is none.
    pub header: Range<usize>,
}

/// Finds the head at the start of a file; `None`: `bytes` is too short to tell.
///
/// Lines to skip are physical lines, also inside quotes. The header is the first record behind them that is neither
/// empty nor a comment.
pub(crate) fn head(bytes: &[u8], eof: bool, grammar: &Grammar) -> Option<Head> {
    if bytes.len() < BOM.len() && !eof {
        return None;
    }
    let without_header = |len| Some(Head { len, header: len..len });
    let mut at = if bytes.starts_with(BOM) { BOM.len() } else { 0 };
    for _ in 0..grammar.skip_lines {
        match line_len(&bytes[at..], eof, grammar)? {
            0 => return without_header(at),
            n => at += n,
        }
    }
    if !grammar.header {
        return without_header(at);
    }
    let is_header = |text: &[u8]| {
        let blank = text.is_empty() || text == b"\r" && grammar.ends == Ends::Feed;
        let comment = grammar.comment.is_some() && text.first().copied() == grammar.comment;
        !blank && !comment
    };
    let mut index = Index::default();
    let (state, end) = machine::run(grammar, bytes, at, bytes.len(), !eof, State::RECORD, &mut index);
    let mut start = at;
    for line in &index.lines {
        let line_end = index.ends[*line as usize - 1] as usize;
        let mut next = line_end + grammar.line_end_len() as usize;
        if grammar.ends == Ends::Any && bytes[line_end] == b'\r' {
            if next == bytes.len() && !eof {
                return None;
            }
            next += (bytes.get(next) == Some(&b'\n')) as usize;
        }
        if is_header(&bytes[start..line_end]) {
            return Some(Head { len: next, header: start..line_end });
        }
        start = next;
    }
    // No header so far: it continues behind these bytes, or the file has no line end.
    if !eof {
        return None;
    }
    let len = if state.place == Place::Record { end } else { bytes.len() };
    if is_header(&bytes[start..len]) { Some(Head { len, header: start..len }) } else { without_header(len) }
}

/// Returns the length of the first line with its end; `Some(0)`: there is no line.
fn line_len(bytes: &[u8], eof: bool, grammar: &Grammar) -> Option<usize> {
    let found = match &grammar.ends {
        Ends::Feed => memchr::memchr(b'\n', bytes).map(|i| i + 1),
        Ends::Byte(b) => memchr::memchr(*b, bytes).map(|i| i + 1),
        Ends::Bytes(b) => memchr::memmem::find(bytes, b).map(|i| i + b.len()),
        Ends::Any => match memchr::memchr2(b'\n', b'\r', bytes) {
            Some(i) if bytes[i] == b'\r' => match bytes.get(i + 1) {
                None if !eof => return None,
                next => Some(i + 1 + (next == Some(&b'\n')) as usize),
            },
            other => other.map(|i| i + 1),
        },
    };
    match found {
        Some(n) => Some(n),
        None if eof => Some(bytes.len()),
        None => None,
    }
}

/// Returns the offset in `bytes` of the last `lines` lines, or `None` if there are not that many lines behind the first
/// line start in `bytes` (which lies behind `bytes[0]` unless `whole`).
fn footer_start(bytes: &[u8], lines: u64, whole: bool, grammar: &Grammar) -> Option<usize> {
    let mut starts = Vec::new();
    let mut at = 0;
    if whole && !bytes.is_empty() {
        starts.push(0);
    }
    while let Some(n) = line_len(&bytes[at..], true, grammar) {
        at += n;
        if at >= bytes.len() {
            break;
        }
        starts.push(at);
    }
    if starts.len() as u64 >= lines {
        return Some(starts[starts.len() - lines as usize]);
    }
    whole.then_some(0)
}

/// The part of an uncompressed file that holds its records.
#[derive(Debug)]
pub(crate) struct Extent {
    pub start: u64,
    pub end: u64,
    /// The header before the records, without its line end; empty if there is none.
    pub header: Vec<u8>,
}

/// Finds the records of an uncompressed file.
///
/// # Errors
/// The errors of reading; `UnexpectedEof` if the file is shorter than its length.
pub(crate) fn extent(source: &dyn Source, grammar: &Grammar, bytes_read: &mut u64) -> io::Result<Extent> {
    let len = source.len();
    let mut window = if has_head(grammar) { 4096 } else { BOM.len() };
    let (start, header) = loop {
        let mut bytes = vec![0; window.min(usize::try_from(len).unwrap_or(usize::MAX))];
        let n = read_full(source, 0, &mut bytes)?;
        *bytes_read += n as u64;
        if let Some(head) = head(&bytes[..n], n as u64 == len, grammar) {
            break (head.len as u64, bytes[head.header].to_vec());
        }
        if n < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        window *= 4;
    };
    if grammar.footer == 0 || start >= len {
        return Ok(Extent { start, end: len, header });
    }
    let mut window = 1 << 16;
    loop {
        let from = start.max(len.saturating_sub(window));
        let mut bytes = vec![0; (len - from) as usize];
        let n = read_full(source, from, &mut bytes)?;
        *bytes_read += n as u64;
        if n < bytes.len() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        // A window that begins in the middle of a line, or between `\r` and `\n`, counts only line starts behind its
        // first line end, because the bytes before it may be the rest of a line.
        if let Some(at) = footer_start(&bytes, grammar.footer, from == start, grammar) {
            return Ok(Extent { start, end: from + at as u64, header });
        }
        window *= 4;
    }
}
