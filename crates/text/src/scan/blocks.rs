//! One block of a file, read by position: from its first record start to the end of its last record.
//!
//! ```text
//!            | LOOK |<------- block ------->| AHEAD |
//! ...aaaaaaaaaaaaaaaa\nbbbbbb\nccc ... yyyy\nzzzzzzzzz\n...
//!                      ^ first record        ^ the last record begins in the block and is read to its end
//! ```
//!
//! A record belongs to the block in which it starts. The byte before the block tells whether its first byte starts a
//! record; in files with quotes, the [`Chain`](super::chain) tells it.

use std::sync::atomic::Ordering;

use super::chain::Summary;
use super::chunk::{Chunk, Structure};
use super::count;
use super::grammar::{Ends, Grammar};
use super::machine::{self, Place, State};
use super::queue::{Scan, ScanQueue};
use super::rows::is_ragged;
use super::worker::Part;
use crate::block::{PAD, TextBlock};
use crate::error::{ErrorKind, TextError};
use crate::simd::{self, Carry, Found, Index, Shape};
use crate::source::read_full;

/// Bytes read before a block, to learn its state from them.
const LOOK: u64 = 16;
/// Bytes read behind a block at first; the end of its last record is usually among them.
const AHEAD: u64 = 4096;
/// Step in bytes of the search for a single line end.
const STEP: usize = 512;

/// The number of records of a block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Counted {
    pub rows: u64,
}

/// Appends the structure of `bytes[from..to]` to `index`, by masks if they can tell, else by the machine. Returns the
/// same pair as [`machine::run`].
pub(super) fn find(
    scan: &Scan,
    bytes: &[u8],
    from: usize,
    to: usize,
    more: bool,
    state: State,
    index: &mut Index,
) -> (State, usize) {
    if from == to {
        return (state, to);
    }
    if let (Some(shape), Some(mut carry)) = (&scan.shape, state.carry()) {
        let before = (index.ends.len(), index.lines.len(), index.specials.len());
        if scan.simd.index(bytes, from, to, shape, &mut carry, index) == Found::Regular
            && let Some(state) = State::from_carry(&carry, &scan.grammar, bytes[to - 1])
        {
            // The masks give positions within each stretch; line counts continue from those before.
            return (state, to);
        }
        index.ends.truncate(before.0);
        index.lines.truncate(before.1);
        index.specials.truncate(before.2);
        index.any_quote = true;
    }
    machine::run(&scan.grammar, bytes, from, to, more, state, index)
}

/// Returns the state at the start of a block of a file without quotes, from the bytes before it (`bytes[..at]`, at
/// least one byte); `None`: they begin inside a run of escapes.
fn state_before(bytes: &[u8], at: usize, reaches_start: bool, grammar: &Grammar) -> Option<State> {
    let run_before = |end: usize| -> Option<bool> {
        let Some(escape) = grammar.escape else { return Some(false) };
        let run = bytes[..end].iter().rev().take_while(|b| **b == escape).count();
        (run < end || reaches_start).then_some(run % 2 == 1)
    };
    let last = bytes[at - 1];
    let ends_line = match &grammar.ends {
        Ends::Feed => last == b'\n',
        Ends::Any => matches!(last, b'\n' | b'\r'),
        Ends::Byte(b) => last == *b,
        Ends::Bytes(_) => false,
    };
    if ends_line {
        let hidden = grammar.escape_hides_line_end && run_before(at - 1)?;
        if !hidden {
            return Some(State { place: Place::Record, cr: grammar.ends == Ends::Any && last == b'\r' });
        }
        return Some(State { place: Place::Plain, cr: false });
    }
    let place = if run_before(at)? { Place::PlainEscaped } else { Place::Plain };
    Some(State { place, cr: false })
}

struct Reader<'a> {
    queue: &'a ScanQueue,
    file: usize,
    /// Position in the file of `buffer[PAD]`.
    base: u64,
    /// End of the file's records.
    end: u64,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are filled, padding included.
    filled: usize,
}

impl Reader<'_> {
    fn io(&self, e: std::io::Error) -> TextError {
        TextError::io(&self.queue.files[self.file].input.name, e)
    }

    /// Reads on, up to position `to` in the file.
    fn fill(&mut self, to: u64) -> Result<(), TextError> {
        let wanted = PAD + (to.min(self.end) - self.base) as usize;
        if wanted + PAD > self.buffer.len() {
            let mut larger = self.queue.pool.take(wanted + PAD).map_err(|e| self.at_record(e))?;
            larger[..self.filled].copy_from_slice(&self.buffer[..self.filled]);
            self.queue.pool.give_back(std::mem::replace(&mut self.buffer, larger));
        }
        let at = self.base + (self.filled - PAD) as u64;
        let source = &*self.queue.files[self.file].input.source;
        let n = read_full(source, at, &mut self.buffer[self.filled..wanted]).map_err(|e| self.io(e))?;
        self.filled += n;
        self.queue.counters.bytes_read.fetch_add(n as u64, Ordering::Relaxed);
        if self.filled < wanted {
            return Err(self.io(std::io::Error::new(
                std::io::ErrorKind::UnexpectedEof,
                format!("the file ended at byte {}, expected {} bytes", at + n as u64, source.len()),
            )));
        }
        Ok(())
    }

    fn at_end(&self) -> bool {
        self.base + (self.filled - PAD) as u64 >= self.end
    }

    /// Reads more for a record that is longer than the buffered bytes.
    fn fill_more(&mut self) -> Result<(), TextError> {
        let have = (self.filled - PAD) as u64;
        let most = self.queue.scan.options.record_bytes_max;
        if have >= most as u64 {
            return Err(self.at_record(too_long(most)));
        }
        self.fill(self.base + have + have.clamp(AHEAD, (most as u64 - have).max(AHEAD)))
    }

    /// Completes an error about a record that begins in this block with the block's place.
    fn at_record(&self, e: TextError) -> TextError {
        let mut e = e.in_file(&self.queue.files[self.file].input.name);
        e.byte = Some(self.base);
        e
    }
}

pub(super) fn too_long(most: usize) -> TextError {
    TextError::new(ErrorKind::Limit, format!("a record is longer than {} MiB", most >> 20))
        .with_hint("is the line end, or a quote that is never closed, the right one?")
}

/// Wakes the other workers when it is dropped unkept: this worker will not publish.
struct Promise<'a> {
    queue: &'a ScanQueue,
    file: usize,
    kept: bool,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        if !self.kept {
            self.queue.files[self.file].chain.fail();
        }
    }
}

/// Reads a block and finds its records.
pub(super) fn read(
    queue: &ScanQueue,
    file: usize,
    block: u64,
    extent: (u64, u64),
    index: Index,
) -> Result<Part, TextError> {
    let mut promise = Promise { queue, file, kept: queue.scan.grammar.quote.is_none() };
    let part = records(&mut promise, block, extent, index);
    let last = match &part {
        Ok(_) => queue.block_read(file),
        Err(e) => {
            queue.fail(file, e);
            false
        }
    };
    if last && queue.scan.counts_only() {
        count::verify(queue, file).inspect_err(|e| queue.fail(file, e))?;
    }
    part
}

fn records(
    promise: &mut Promise<'_>,
    block: u64,
    (start, end): (u64, u64),
    mut index: Index,
) -> Result<Part, TextError> {
    let Promise { queue, file, .. } = *promise;
    let scan = &*queue.scan;
    let grammar = &scan.grammar;
    let quoting = grammar.quote.is_some();
    let (from, to) = queue.block_range(file, start, end, block);
    if scan.counts {
        return Ok(Part::Count(file, Counted { rows: count::records(queue, file, start, from, to)? }));
    }
    let mut known = None;
    if scan.counts_quoted {
        match count::quoted(queue, file, block, start, (from, to))? {
            count::Quoted::Rows(rows) => {
                promise.kept = true;
                return Ok(Part::Count(file, Counted { rows }));
            }
            count::Quoted::Begins(state) => known = Some(state),
        }
    }
    let look = (from - start).min(LOOK);
    let base = from - look;
    let counting = scan.counts_only();
    let ahead = if counting { 0 } else { AHEAD };
    let buffer = queue.pool.take(PAD * 2 + (to + ahead - base) as usize)?;
    let mut reader = Reader { queue, file, base, end, buffer, filled: PAD };
    reader.fill(to + ahead)?;
    queue.counters.blocks.fetch_add(1, Ordering::Relaxed);
    let at_from = PAD + look as usize;
    let at_to = PAD + (to - base) as usize;

    // The state in which the block begins.
    let state = if let Some(state) = known {
        state
    } else if block == 0 {
        State::RECORD
    } else if !quoting {
        let bytes = &reader.buffer[PAD..at_from];
        match state_before(bytes, bytes.len(), base == start, grammar) {
            Some(state) => state,
            None => before_escapes(&reader, from, start, grammar)?,
        }
    } else {
        let chain = &queue.files[file].chain;
        let known = match chain.start_of(block) {
            Some(state) => Some(state),
            None => {
                let bytes = &reader.buffer[PAD..at_to];
                let escaped = escaped_at(&reader, at_from, from, start, grammar)?;
                let summary = summary(scan, bytes, at_from - PAD, escaped);
                chain.wait(block, summary)
            }
        };
        match known {
            Some(state) => state,
            None => return Err(queue.given_up()),
        }
    };

    // The first record lies behind the end of one that began before the block.
    index.clear();
    let mut state = state;
    let mut at = at_from;
    let mut first = None;
    // Delimiters of a record that began before the block, and its end.
    let (mut before, mut ended_at) = (0, None);
    if state.place == Place::Record {
        first = Some(at_from);
    }
    while first.is_none() && at < at_to {
        let step = (at + STEP).min(at_to);
        let (next, reached) = find(scan, &reader.buffer, at, step, true, state, &mut index);
        before += index.lines.first().map_or(index.ends.len(), |line| *line as usize - 1);
        if let Some(line) = index.lines.first() {
            let line_end = index.ends[*line as usize - 1] as usize;
            ended_at = Some(line_end);
            first = Some(line_end + grammar.line_end_len() as usize);
            state = State { place: Place::Record, cr: grammar.ends == Ends::Any && reader.buffer[line_end] == b'\r' };
        } else if reached == at {
            // These bytes may be half of a delimiter: look at more bytes at once.
            let (next, _) = find(scan, &reader.buffer, at, at_to, false, state, &mut index);
            before += index.lines.first().map_or(index.ends.len(), |line| *line as usize - 1);
            state = next;
            at = at_to;
            if let Some(line) = index.lines.first() {
                let line_end = index.ends[*line as usize - 1] as usize;
                ended_at = Some(line_end);
                first = Some(line_end + grammar.line_end_len() as usize);
                state =
                    State { place: Place::Record, cr: grammar.ends == Ends::Any && reader.buffer[line_end] == b'\r' };
            }
        } else {
            state = next;
            at = reached;
        }
        index.clear();
    }
    let mut first = first.unwrap_or(at_to);
    let tally = &queue.files[file].tally;
    let cut = to == end && !matches!(reader.buffer[at_to - 1], b'}' | b'\n');
    if grammar.objects && (cut || ended_at.is_some_and(|end: usize| reader.buffer[end - 1] != b'}')) {
        tally.doubt();
    }
    // The end of a record that began in an earlier block.
    let delimiter = scan.shape.as_ref().map(|shape| shape.delimiter);
    let mut rest = match ended_at {
        Some(end) => simd::Counts {
            lines: 1,
            head: before as u64,
            head_trails: Some(reader.buffer[end - 1]) == delimiter,
            ..simd::Counts::default()
        },
        None => simd::Counts { tail: before as u64, ..simd::Counts::default() },
    };
    if state.cr && first < at_to && reader.buffer[first] == b'\n' {
        first += 1;
        state.cr = false;
    }
    if first >= at_to {
        // No record starts in this block.
        tally.count(block, 0, rest);
        if quoting {
            queue.files[file].chain.end_of(block, state);
            promise.kept = true;
        }
        queue.pool.give_back(reader.buffer);
        return Ok(none(file, counting, index));
    }
    state.cr = false;

    if counting && let Some(shape) = &scan.shape {
        let mut carry = Carry::RECORD;
        let (counts, found) = scan.simd.count(&reader.buffer, first, at_to, shape, &mut carry);
        let end_state = State::from_carry(&carry, grammar, reader.buffer[at_to - 1]);
        if let Some(end_state) = end_state.filter(|_| found == Found::Regular) {
            if quoting {
                queue.files[file].chain.end_of(block, end_state);
                promise.kept = true;
            }
            // A record that begins here and continues behind the block counts here.
            let unfinished = end_state.place != Place::Record;
            let rows = counts.lines + unfinished as u64;
            rest.join(&counts, shape.width);
            tally.count(block, rows, rest);
            queue.pool.give_back(reader.buffer);
            return Ok(Part::Count(file, Counted { rows }));
        }
    }

    // All records that start in the block, and the end of the last one.
    let has_more = to < end;
    let (next, reached) = find(scan, &reader.buffer, first, at_to, has_more, state, &mut index);
    if quoting {
        // With quotes, all delimiters are single bytes: the whole block was scanned.
        queue.files[file].chain.end_of(block, next);
        promise.kept = true;
    }
    state = next;
    at = reached;
    let mut seen = 0;
    let mut step = STEP;
    let mut unterminated = false;
    loop {
        let bytes = &reader.buffer[..reader.filled];
        let closing = index.lines[seen..]
            .iter()
            .position(|line| next_record(bytes, index.ends[*line as usize - 1] as usize, grammar) >= at_to);
        if let Some(i) = closing {
            keep_lines(&mut index, seen + i + 1);
            break;
        }
        seen = index.lines.len();
        if at >= reader.filled && reader.at_end() {
            if state.place != Place::Record {
                unterminated = matches!(state.place, Place::Quoted | Place::QuotedEscaped);
                index.ends.push(reader.filled as u32);
                index.lines.push(index.ends.len() as u32);
            }
            break;
        }
        let stop = (at + step).min(reader.filled);
        let more = stop < reader.filled || !reader.at_end();
        let (next, reached) = find(scan, &reader.buffer, at, stop, more, state, &mut index);
        if reached == at {
            if stop == reader.filled && !reader.at_end() {
                reader.fill_more()?;
            } else {
                step *= 2;
            }
        }
        state = next;
        at = reached;
        if at == reader.filled && !reader.at_end() {
            reader.fill_more()?;
        }
        step = (step * 2).min(1 << 20);
    }
    let found = Structure { file, offset: base as i64 - PAD as i64, start: first, index, unterminated, line: None };
    Ok(finish(queue, reader.buffer, reader.filled, found, counting))
}

/// Returns the start of the record after a line end at `end`, as far as `bytes` reach.
fn next_record(bytes: &[u8], end: usize, grammar: &Grammar) -> usize {
    let next = end + grammar.line_end_len() as usize;
    let pair = grammar.ends == Ends::Any && bytes[end] == b'\r' && bytes.get(next) == Some(&b'\n');
    next + pair as usize
}

/// Makes a part from the records of a block; the buffer is shared with it.
fn finish(queue: &ScanQueue, buffer: Vec<u8>, filled: usize, found: Structure, counting: bool) -> Part {
    let scan = &*queue.scan;
    let text = &buffer[found.start.min(filled)..filled];
    // The bytes behind the last record may end in the middle of a character.
    let last = found.index.ends.last().map_or(0, |e| *e as usize + 1).saturating_sub(found.start).min(text.len());
    let utf8 = scan.text && !counting && simdutf8::basic::from_utf8(&text[..last]).is_ok();
    let file = found.file;
    let block = TextBlock::new(queue.pool.share(buffer), utf8);
    let chunk = Chunk::new(found, block, &scan.grammar);
    if counting {
        let tally = &queue.files[file].tally;
        tally.look_at();
        if scan.grammar.objects || (scan.grammar.strict && is_ragged(scan, &chunk)) {
            tally.doubt();
        }
        return Part::Count(file, Counted { rows: chunk.rows() as u64 });
    }
    Part::Records(chunk)
}

fn none(file: usize, counting: bool, index: Index) -> Part {
    if counting {
        return Part::Count(file, Counted { rows: 0 });
    }
    let found = Structure { file, offset: 0, start: 0, index, unterminated: false, line: None };
    Part::Records(Chunk::empty(found))
}

/// Keeps only the first `lines` lines of an index.
pub(super) fn keep_lines(index: &mut Index, lines: usize) {
    let Some(last) = lines.checked_sub(1) else {
        index.ends.clear();
        index.lines.clear();
        return;
    };
    let ends = index.lines[last] as usize;
    let position = index.ends[ends - 1];
    index.lines.truncate(lines);
    index.ends.truncate(ends);
    while index.specials.last().is_some_and(|s| *s > position) {
        index.specials.pop();
    }
}

/// Summarises the block's quotes for both cases. `bytes[at..]` is the block.
fn summary(scan: &Scan, bytes: &[u8], at: usize, escaped: bool) -> Summary {
    let Some(shape) = &scan.shape else { return Summary { outside: None, inside: None } };
    let carry = Carry { escaped: escaped as u64, ..outside_behind(&scan.grammar, shape, bytes[at - 1]) };
    Summary::of(&scan.simd.sides(&bytes[at..], shape, &carry), &scan.grammar, bytes[bytes.len() - 1])
}

/// Returns the carry behind a byte that is outside quotes and not escaped.
pub(super) fn outside_behind(grammar: &Grammar, shape: &Shape, before: u8) -> Carry {
    let cr = grammar.ends == Ends::Any && before == b'\r';
    let line = cr || before == shape.line_end;
    Carry {
        inside: 0,
        escaped: 0,
        cr: cr as u64,
        open: (line || before == shape.delimiter) as u64,
        closed: 0,
        line: line as u64,
        brace: 0,
        behind: (before == shape.delimiter) as u64,
    }
}

/// Whether the byte at `at` (at `position` in the file) follows an odd run of escapes.
fn escaped_at(reader: &Reader<'_>, at: usize, position: u64, start: u64, grammar: &Grammar) -> Result<bool, TextError> {
    let Some(escape) = grammar.escape else { return Ok(false) };
    let look = &reader.buffer[PAD..at];
    let run = look.iter().rev().take_while(|b| **b == escape).count() as u64;
    if run < look.len() as u64 {
        return Ok(run % 2 == 1);
    }
    Ok(escape_run(reader, position, start, escape)? % 2 == 1)
}

/// Returns the state behind a run of escapes that is longer than [`LOOK`], or behind a line end after that run.
fn before_escapes(reader: &Reader<'_>, from: u64, start: u64, grammar: &Grammar) -> Result<State, TextError> {
    let plain = State { place: Place::Plain, cr: false };
    let Some(escape) = grammar.escape else { return Ok(plain) };
    let mut last = [0u8; 1];
    let source = &*reader.queue.files[reader.file].input.source;
    read_full(source, from - 1, &mut last).map_err(|e| reader.io(e))?;
    if last[0] == escape {
        let odd = escape_run(reader, from, start, escape)? % 2 == 1;
        return Ok(if odd { State { place: Place::PlainEscaped, ..plain } } else { plain });
    }
    // The byte is a line end, hidden or not.
    let odd = escape_run(reader, from - 1, start, escape)? % 2 == 1;
    Ok(if odd { plain } else { State { place: Place::Record, cr: grammar.ends == Ends::Any && last[0] == b'\r' } })
}

/// Returns the number of escapes directly before `position` in the file.
fn escape_run(reader: &Reader<'_>, position: u64, start: u64, escape: u8) -> Result<u64, TextError> {
    let source = &*reader.queue.files[reader.file].input.source;
    let mut window = 4096;
    loop {
        let from = start.max(position.saturating_sub(window));
        let mut bytes = vec![0; (position - from) as usize];
        read_full(source, from, &mut bytes).map_err(|e| reader.io(e))?;
        let run = bytes.iter().rev().take_while(|b| **b == escape).count() as u64;
        if run < bytes.len() as u64 || from == start {
            return Ok(run);
        }
        window *= 16;
    }
}
