//! Files that are read from the beginning to the end: compressed ones, those whose records cannot be found from the
//! middle, and bytes that come only once. One worker at a time reads a piece of whole records; the others convert
//! theirs meanwhile. Without quotes, the piece ends at the last line end that was read, and its structure is found
//! outside the lock as well.

use std::fmt;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::blocks::{find, keep_lines, too_long};
use super::chunk::{Chunk, Structure};
use super::grammar::{Ends, Grammar};
use super::head::head;
use super::machine::{Place, State};
use super::queue::ScanQueue;
use super::rows::LineCounter;
use crate::block::{PAD, TextBlock};
use crate::error::TextError;
use crate::simd::Index;
use crate::source::{Compression, Source};

/// Reads a source in order and keeps the position.
struct Plain {
    source: Arc<dyn Source>,
    at: u64,
}

impl Read for Plain {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.source.read_at(self.at, buf)?;
        if n == 0 && !buf.is_empty() && self.at < self.source.len() {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        self.at += n as u64;
        Ok(n)
    }
}

/// A source that counts the bytes read from it.
#[derive(Debug)]
struct Counting {
    source: Arc<dyn Source>,
    bytes: Arc<AtomicU64>,
}

impl Source for Counting {
    fn len(&self) -> u64 {
        self.source.len()
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<usize> {
        let n = self.source.read_at(offset, buf)?;
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// Returns a reader of the decompressed bytes of a file.
pub(super) fn open(source: Arc<dyn Source>, compression: Compression) -> Box<dyn Read + Send> {
    match compression {
        Compression::None => Box::new(Plain { source, at: 0 }),
        other => crate::compress::decoder(other, source),
    }
}

pub(super) struct Stream {
    file: usize,
    reader: Box<dyn Read + Send>,
    bytes: Arc<AtomicU64>,
    /// Bytes of an incomplete record, or of lines that may be the footer.
    rest: Vec<u8>,
    /// Position of `rest` in the decompressed file.
    position: u64,
    /// Line number at `position`, counted along the way because another pass would have to decompress again.
    line: u64,
    counter: LineCounter,
    begun: bool,
    ended: bool,
    /// The byte before `rest` is a `\r` that ended a record.
    cr: bool,
}

/// Whole records as they were read.
pub(super) struct Piece {
    buffer: Vec<u8>,
    /// End of the last record.
    end: usize,
    /// Whether `found.index` is yet to be made.
    raw: bool,
    found: Structure,
}

impl Piece {
    /// Does the part of the work that takes time and needs no order.
    pub(super) fn into_chunk(self, queue: &ScanQueue) -> Chunk {
        let Piece { buffer, end, raw, mut found } = self;
        let scan = &*queue.scan;
        let start = found.start;
        if raw {
            let (state, _) = find(scan, &buffer, start, end, false, State::RECORD, &mut found.index);
            if start < end && state.place != Place::Record {
                // The last line of the file has no end.
                found.index.ends.push(end as u32);
                found.index.lines.push(found.index.ends.len() as u32);
            }
        }
        let last = found.index.ends.last().map_or(start, |e| (*e as usize + 1).min(end));
        let utf8 = scan.text && simdutf8::basic::from_utf8(&buffer[start..last.max(start)]).is_ok();
        let block = TextBlock::new(queue.pool.share(buffer), utf8);
        if found.index.lines.is_empty() { Chunk::empty(found) } else { Chunk::new(found, block, &scan.grammar) }
    }
}

/// Whether the last line end of any bytes ends a record.
fn ends_plainly(grammar: &Grammar) -> bool {
    let hidden = grammar.escape.is_some() && grammar.escape_hides_line_end;
    grammar.quote.is_none() && !hidden && grammar.footer == 0 && !matches!(grammar.ends, Ends::Bytes(_))
}

/// Returns the place behind the last line end, and whether a `\n` that may follow belongs to it.
fn last_end(bytes: &[u8], grammar: &Grammar) -> Option<(usize, bool)> {
    let at = match &grammar.ends {
        Ends::Feed => memchr::memrchr(b'\n', bytes)?,
        Ends::Byte(b) => memchr::memrchr(*b, bytes)?,
        Ends::Any => memchr::memrchr2(b'\n', b'\r', bytes)?,
        Ends::Bytes(_) => return None,
    };
    Some((at + 1, grammar.ends == Ends::Any && bytes[at] == b'\r'))
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("file", &self.file).field("position", &self.position).finish_non_exhaustive()
    }
}

impl Stream {
    pub(super) fn new(queue: &ScanQueue, file: usize) -> Self {
        let input = &queue.files[file].input;
        let bytes = Arc::new(AtomicU64::new(0));
        let source = Arc::new(Counting { source: Arc::clone(&input.source), bytes: Arc::clone(&bytes) });
        let reader = open(source, input.compression);
        Stream {
            file,
            reader,
            bytes,
            rest: Vec::new(),
            position: 0,
            line: 1,
            counter: LineCounter::default(),
            begun: false,
            ended: false,
            cr: false,
        }
    }

    /// Reads until `buffer[..to]` is full or the file ends; returns how far it got.
    fn fill(&mut self, queue: &ScanQueue, buffer: &mut [u8], mut filled: usize, to: usize) -> Result<usize, TextError> {
        while filled < to && !self.ended {
            match self.reader.read(&mut buffer[filled..to]) {
                Ok(0) => self.ended = true,
                Ok(n) => filled += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(TextError::io(&queue.files[self.file].input.name, e)),
            }
        }
        queue.counters.bytes_read.fetch_add(self.bytes.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        Ok(filled)
    }

    /// Reads the next records; `None` at the end of the file.
    pub(super) fn next(&mut self, queue: &ScanQueue, mut index: Index) -> Result<Option<Piece>, TextError> {
        let scan = &*queue.scan;
        let grammar = &scan.grammar;
        if self.ended && self.rest.is_empty() {
            return Ok(None);
        }
        let wanted =
            if self.begun { scan.options.block_bytes } else { queue.first_block(&queue.files[self.file]) as usize };
        let mut size = PAD + self.rest.len() + wanted;
        // The record that is not complete begins where the last piece ended.
        let (name, position) = (&queue.files[self.file].input.name, self.position);
        let at_record = |e: TextError| TextError { byte: Some(position), ..e.in_file(name) };
        let most = scan.options.record_bytes_max;
        let mut buffer = queue.pool.take(size + PAD).map_err(at_record)?;
        buffer[PAD..PAD + self.rest.len()].copy_from_slice(&self.rest);
        let mut filled = PAD + self.rest.len();
        queue.counters.blocks.fetch_add(1, Ordering::Relaxed);
        let mut start = PAD;
        let mut at = PAD;
        let mut state = State::RECORD;
        let mut skipped_feed = false;
        let raw = ends_plainly(grammar);
        let mut last = None;
        index.clear();
        loop {
            filled = self.fill(queue, &mut buffer, filled, size)?;
            if !self.begun
                && let Some(head) = head(&buffer[PAD..filled], self.ended, grammar)
            {
                queue.check_header(&queue.files[self.file], &buffer[PAD..filled][head.header])?;
                self.begun = true;
                start = PAD + head.len;
                at = start;
            }
            if self.cr && !skipped_feed && filled > PAD {
                skipped_feed = true;
                let feed = buffer[PAD] == b'\n';
                start = PAD + feed as usize;
                at = start;
            }
            if self.begun && raw {
                last = last_end(&buffer[start..filled], grammar).map(|(end, cr)| (start + end, cr));
                if last.is_some() || self.ended {
                    break;
                }
            } else if self.begun {
                (state, at) = find(scan, &buffer, at, filled, !self.ended, state, &mut index);
                let keep = index.lines.len() as u64 > grammar.footer;
                if keep || self.ended {
                    break;
                }
            }
            if filled - PAD > most {
                return Err(at_record(too_long(most)));
            }
            // The record is longer than the block: read twice as much, but no more than is needed to show that it is
            // too long.
            size = PAD + ((size - PAD) * 2).min(most + 1).max(size - PAD);
            if buffer.len() < size + PAD {
                let mut larger = queue.pool.take(size + PAD).map_err(at_record)?;
                larger[..filled].copy_from_slice(&buffer[..filled]);
                queue.pool.give_back(std::mem::replace(&mut buffer, larger));
            }
        }
        let mut unterminated = false;
        let mut end = filled;
        if raw {
            self.rest.clear();
            if !self.ended {
                // The loop above ended at a line end.
                let (behind, cr) = last.unwrap_or((filled, false));
                end = behind;
                self.cr = cr;
                self.rest.extend_from_slice(&buffer[end..filled]);
            }
        } else if self.ended {
            if start < filled && state.place != Place::Record {
                unterminated = matches!(state.place, Place::Quoted | Place::QuotedEscaped);
                index.ends.push(filled as u32);
                index.lines.push(index.ends.len() as u32);
            }
            let lines = index.lines.len().saturating_sub(grammar.footer as usize);
            if grammar.footer > 0 {
                keep_lines(&mut index, lines);
            }
            self.rest.clear();
        } else {
            let lines = index.lines.len() - grammar.footer as usize;
            keep_lines(&mut index, lines);
            let line_end = index.ends[index.ends.len() - 1] as usize;
            end = line_end + grammar.line_end_len() as usize;
            self.cr = grammar.ends == Ends::Any && buffer[line_end] == b'\r';
            if self.cr && end < filled {
                end += (buffer[end] == b'\n') as usize;
                self.cr = false;
            }
            self.rest.clear();
            self.rest.extend_from_slice(&buffer[end..filled]);
        }
        let offset = self.position as i64 - PAD as i64;
        self.position += (end - PAD) as u64;
        // Bytes before the records are counted separately: the next piece begins behind this place.
        let line = self.line + self.counter.count(&grammar.ends, &buffer[PAD..start]);
        self.line = line + self.counter.count(&grammar.ends, &buffer[start..end]);
        let found = Structure { file: self.file, offset, start, index, unterminated, line: Some((start, line)) };
        Ok(Some(Piece { buffer, end, raw, found }))
    }
}
