//! Counting records without keeping any byte.
//!
//! A record belongs to the block in which it starts, and it starts behind a line end or at the start of the records. If
//! every line end ends a record, no state passes from block to block: the number of records of the block `from..to` is
//! the number of line ends in `from - 1..to - 1`, plus one for the first block. If `\r\n` ends a line too, one that is
//! cut by the end of this range is counted by the next block. In files with quotes, a block is counted for both cases,
//! beginning outside and inside quotes, and the [`Chain`](super::chain) says which one applies.
//!
//! Local files are mapped if they are in the page cache, or read, whichever is faster ([`Ways`]).
//!
//! Records that cannot be read are not rows, and a count that included them would be a number that no other query
//! gives. Faults that are cheap to see are detected while counting: in CSV, whether each record has as many delimiters as
//! there are columns, less one; in JSON, whether each line begins with `{` and ends with `}`. A file that
//! fails this test is [checked](verify) record by record, and a bad record gives the error that reading it gives. The
//! contents of fields are not checked.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::blocks::outside_behind;
use super::chain::Summary;
use super::grammar::{Ends, Grammar};
use super::machine::{Place, State};
use super::queue::{Scan, ScanQueue};
use crate::error::{ErrorKind, TextError};
use crate::mapped::Seen;
use crate::simd::{Carry, Counts, Simd, is_even};
use crate::source::{FileSource, Source, read_full};

/// Number of blocks that are counted at once: mapping a window costs as much as reading some 10 KiB.
pub(crate) const COUNTED_BLOCKS: u64 = 4;
/// Bytes per read where mapping is not possible: half of a small L2 cache.
const PIECE: usize = 256 << 10;
/// Ranges with fewer bytes than this are read, not mapped.
const MAPPED_MIN: u64 = 1 << 20;

/// The first windows are mapped and read in turns, to learn which is faster; so are two of each round of windows,
/// because the file's pages may be different further on.
const TRIALS: u64 = 8;
const ROUND: u64 = 32;

/// The two ways to the bytes of a local file in the page cache. Mapping them costs page faults, reading them costs a
/// copy. Either cost depends on the processor, the kernel, and the size of the pages in which the file was cached: in
/// measurements each way was twice as fast as the other on some machine.
#[derive(Debug, Default)]
pub(super) struct Ways {
    begun: AtomicU64,
    look: Pace,
    read: Pace,
}

/// Bytes processed and the time they took.
#[derive(Debug, Default)]
struct Pace {
    bytes: AtomicU64,
    ns: AtomicU64,
}

impl Pace {
    fn note(&self, bytes: u64, since: Instant) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.ns.fetch_add(since.elapsed().as_nanos() as u64, Ordering::Relaxed);
    }

    fn is_faster(&self, other: &Pace) -> bool {
        let get = |n: &AtomicU64| u128::from(n.load(Ordering::Relaxed));
        get(&self.ns) * get(&other.bytes) < get(&other.ns) * get(&self.bytes)
    }
}

impl Ways {
    /// Returns the result of `look` or `read` for `len` bytes of `file` from `at` on.
    fn take<R>(
        &self,
        file: &FileSource,
        (at, len): (u64, usize),
        look: impl FnOnce(&Seen) -> R,
        read: impl FnOnce() -> Result<R, TextError>,
        io: impl Fn(std::io::Error) -> TextError,
    ) -> Result<R, TextError> {
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let is_trial = number < TRIALS || number % ROUND < 2;
        let looks = if is_trial { number.is_multiple_of(2) } else { self.look.is_faster(&self.read) };
        let begun = Instant::now();
        // Trials look alone: the cost of a window is known only if its mapping is undone within the measured time.
        let (found, way) = match looks {
            true => match file.look((at, len), is_trial, look).map_err(io)? {
                Some(found) => (found, Some(&self.look)),
                // The window cannot be mapped, so it is read: that says nothing about the pace of either way.
                None => (read()?, None),
            },
            false => (read()?, Some(&self.read)),
        };
        if let Some(pace) = way.filter(|_| is_trial) {
            pace.note(len as u64, begun);
        }
        Ok(found)
    }
}

/// Whether a line end always ends a record, and every record is a row.
pub(super) fn is_plain(grammar: &Grammar) -> bool {
    let hidden = grammar.escape.is_some() && grammar.escape_hides_line_end;
    let bytes = matches!(grammar.ends, Ends::Bytes(_));
    let checked = grammar.strict || grammar.objects;
    grammar.quote.is_none() && !hidden && grammar.comment.is_none() && !grammar.skip_empty && !bytes && !checked
}

/// Whether quotes, but nothing else, can hide a line end.
pub(super) fn is_quoted(grammar: &Grammar) -> bool {
    grammar.quote.is_some() && grammar.escape.is_none() && grammar.comment.is_none() && grammar.has_shape()
}

/// Counts the line ends of bytes that come piece by piece.
struct Counter {
    simd: Simd,
    line_end: u8,
    /// `\r` ends a line too, and a `\n` behind it belongs to it.
    returns: bool,
    ends: u64,
    /// The last byte was a `\r`.
    returned: bool,
}

impl Counter {
    fn add(&mut self, bytes: &[u8]) {
        let (Some(first), Some(last)) = (bytes.first(), bytes.last()) else { return };
        self.ends += self.simd.line_ends(bytes, self.line_end, self.returns);
        self.ended(*first, *last);
    }

    /// Accounts for a pair of `\r` and `\n` across pieces, given the first and the last byte of a counted piece.
    fn ended(&mut self, first: u8, last: u8) {
        if self.returns {
            self.ends -= (self.returned && first == b'\n') as u64;
            self.returned = last == b'\r';
        }
    }

    /// Returns the number of line ends if `next` follows. A `\r` before a `\n` belongs to the next block.
    fn before(self, next: u8) -> u64 {
        self.ends - (self.returned && next == b'\n') as u64
    }
}

/// Counts the records that start in `from..to`, which is not empty, in a file whose records begin at `start`.
pub(super) fn records(queue: &ScanQueue, file: usize, start: u64, from: u64, to: u64) -> Result<u64, TextError> {
    let scan = &*queue.scan;
    let input = &queue.files[file].input;
    let grammar = &scan.grammar;
    let (line_end, returns) = match grammar.ends {
        Ends::Byte(byte) => (byte, false),
        Ends::Any => (b'\n', true),
        _ => (b'\n', false),
    };
    let first = (from == start) as u64;
    let at = if first == 1 { from } else { from - 1 };
    let counter = || Counter { simd: scan.simd, line_end, returns, ends: 0, returned: false };
    queue.counters.blocks.fetch_add(1, Ordering::Relaxed);
    queue.counters.bytes_read.fetch_add(to - at, Ordering::Relaxed);
    let io = |e| TextError::io(&input.name, e);

    let read = || {
        let mut counter = counter();
        let mut buffer = queue.pool.take(PIECE.min((to - at) as usize))?;
        let mut at = at;
        let ends = loop {
            // Pieces end at multiples of `PIECE` in the file, where caches keep their checksums.
            let piece = (PIECE - at as usize % PIECE).min((to - at) as usize);
            let n = read_full(&*input.source, at, &mut buffer[..piece]).map_err(io)?;
            if n < piece {
                return Err(io(ended(&*input.source, at + n as u64)));
            }
            at += piece as u64;
            if at == to {
                counter.add(&buffer[..piece - 1]);
                break counter.before(buffer[piece - 1]);
            }
            counter.add(&buffer[..piece]);
        };
        queue.pool.give_back(buffer);
        Ok(ends)
    };
    let local = input.source.local_file().filter(|_| scan.maps && to - at >= MAPPED_MIN);
    let Some(file) = local else { return Ok(first + read()?) };
    let len = (to - at) as usize;
    let look = |bytes: &Seen| {
        let mut counter = counter();
        counter.ends = bytes.line_ends(scan.simd, len - 1, line_end, returns);
        counter.ended(bytes.byte(0), bytes.byte(len - 2));
        counter.before(bytes.byte(len - 1))
    };
    Ok(first + queue.ways.take(file, (at, len), look, read, io)?)
}

/// What the blocks of a file have counted, to tell whether all of its records can be rows.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// The blocks that the masks resolved completely.
    counted: Mutex<Vec<CountedBlock>>,
    /// Number of blocks whose records were checked one by one.
    looked_at: AtomicU64,
    doubt: AtomicBool,
}

/// Number and counts of a block.
#[derive(Debug)]
struct CountedBlock {
    block: u64,
    rows: u64,
    counts: Counts,
}

impl Tally {
    /// Records a block that the masks resolved completely, with the number of its records.
    pub(super) fn count(&self, block: u64, rows: u64, counts: Counts) {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner).push(CountedBlock { block, rows, counts });
    }

    /// Records a block whose records were checked one by one.
    pub(super) fn look_at(&self) {
        self.looked_at.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that some record may not be a row.
    pub(super) fn doubt(&self) {
        self.doubt.store(true, Ordering::Relaxed);
    }

    /// Whether the counts fit together; called once every block was read.
    fn is_sound(&self, scan: &Scan) -> bool {
        if self.doubt.load(Ordering::Acquire) {
            return false;
        }
        let Some(shape) = scan.shape.as_ref().filter(|_| scan.grammar.strict) else { return !scan.grammar.strict };
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.is_empty() || self.looked_at.load(Ordering::Acquire) > 0 {
            return counted.is_empty();
        }
        counted.sort_unstable_by_key(|block| block.block);
        let (mut all, mut rows) = (Counts::RECORD, 0);
        for block in counted.iter() {
            all.join(&block.counts, shape.width);
            rows += block.rows;
        }
        // The last record of a file may have no line end.
        let is_open = rows > all.lines - Counts::RECORD.lines;
        !all.uneven && (!is_open || is_even(all.tail, false, shape.width))
    }
}

/// Checks the records of a file one by one if all of its blocks were counted and the counts leave a doubt.
///
/// # Errors
/// The error of the first record that is not a row.
pub(super) fn verify(queue: &ScanQueue, file: usize) -> Result<(), TextError> {
    let scan = &queue.scan;
    let file = &queue.files[file];
    if !(scan.grammar.strict || scan.grammar.objects) || file.tally.is_sound(scan) {
        return Ok(());
    }
    let again = ScanQueue::new(Scan::checking(&scan.options)?, vec![file.input.clone()]);
    let mut worker = again.worker();
    while worker.next_batch()?.is_some() {
        if queue.is_cancelled() {
            again.cancel();
        }
    }
    Ok(())
}

/// Result of the masks for a block of a file with quotes.
pub(super) enum Quoted {
    /// Number of the records that start in the block; the chain knows where it ends.
    Rows(u64),
    /// The masks cannot tell. The block begins in this state, and its end state still has to be published.
    Begins(State),
}

/// Counts like [`records`], for a file with quotes. Passes over the bytes once.
pub(super) fn quoted(
    queue: &ScanQueue,
    file: usize,
    block: u64,
    start: u64,
    (from, to): (u64, u64),
) -> Result<Quoted, TextError> {
    let scan = &*queue.scan;
    let Some(shape) = &scan.shape else { return Err(TextError::new(ErrorKind::Options, "quotes without a shape")) };
    let input = &queue.files[file].input;
    let chain = &queue.files[file].chain;
    // The byte before the block tells whether a line or a field begins.
    let before = (from > start) as usize;
    let at = from - before as u64;
    let len = (to - at) as usize;
    let carry = |first: u8| match before {
        0 => Carry::RECORD,
        _ => outside_behind(&scan.grammar, shape, first),
    };
    let io = |e| TextError::io(&input.name, e);
    let read = || {
        let mut buffer = queue.pool.take(len)?;
        let n = read_full(&*input.source, at, &mut buffer[..len]).map_err(io)?;
        if n < len {
            return Err(io(ended(&*input.source, at + n as u64)));
        }
        let sides = scan.simd.sides(&buffer[before..len], shape, &carry(buffer[0]));
        let last = buffer[len - 1];
        queue.pool.give_back(buffer);
        Ok((sides, last))
    };
    let look = |bytes: &Seen| (bytes.sides(scan.simd, before, shape, &carry(bytes.byte(0))), bytes.byte(len - 1));
    let local = input.source.local_file().filter(|_| scan.maps && to - at >= MAPPED_MIN);
    let ([outside, inside], last) = match local {
        Some(file) => queue.ways.take(file, (at, len), look, read, io)?,
        None => read()?,
    };
    let begins = match chain.start_of(block) {
        Some(state) => state,
        None => {
            chain.wait(block, Summary::of(&[outside, inside], &scan.grammar, last)).ok_or_else(|| queue.given_up())?
        }
    };
    let side = match begins.place {
        Place::Quoted => inside,
        _ => outside,
    };
    let end = side.end.filter(|_| !(side.odd && scan.grammar.skip_empty));
    let Some(end) = end.and_then(|carry| State::from_carry(&carry, &scan.grammar, last)) else {
        return Ok(Quoted::Begins(begins));
    };
    chain.end_of(block, end);
    queue.counters.blocks.fetch_add(1, Ordering::Relaxed);
    queue.counters.bytes_read.fetch_add(len as u64, Ordering::Relaxed);
    let starts = |state: State| (state.place == Place::Record) as u64;
    // The record behind the last byte belongs to the next block.
    let rows = starts(begins) + side.counts.lines - starts(end);
    queue.files[file].tally.count(block, rows, side.counts);
    Ok(Quoted::Rows(rows))
}

fn ended(source: &dyn Source, at: u64) -> std::io::Error {
    let message = format!("the file ended at byte {at}, expected {} bytes", source.len());
    std::io::Error::new(std::io::ErrorKind::UnexpectedEof, message)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{DataType, Field, Schema};

    use super::*;
    use crate::dialect::{CsvDialect, Dialect, HiveDialect, LineEnd};
    use crate::scan::{FileInput, ScanOptions};
    use crate::source::{Compression, FileSource};

    fn options(line_end: LineEnd, block_bytes: usize) -> ScanOptions {
        let dialect = HiveDialect { line_end, ..HiveDialect::default() };
        let mut options = ScanOptions::new(Dialect::Hive(dialect), Arc::new(Schema::empty()));
        options.block_bytes = block_bytes;
        options
    }

    fn count(scan: Arc<Scan>, source: FileSource) -> Result<u64, TextError> {
        let input = FileInput { name: "t".into(), source: Arc::new(source), compression: Compression::None };
        let queue = ScanQueue::new(scan, vec![input]);
        let mut worker = queue.worker();
        let mut rows = 0;
        while let Some(batch) = worker.next_batch()? {
            rows += batch.rows.num_rows() as u64;
        }
        Ok(rows)
    }

    /// Line ends of all kinds at and around every cut between blocks, pieces, and places of a window.
    #[test]
    fn mapped_and_read_as_one_would_count() {
        let mut state = 7u64;
        let mut text = Vec::new();
        while text.len() < 5 << 20 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let piece: &[u8] = match state >> 60 {
                0..8 => b"abcdefghijklmnopqrstuvwxyz0123456789",
                8 => b"\n",
                9 => b"\r\n",
                10 => b"\r",
                11 => b"\n\r\r\n\n",
                _ => b"x",
            };
            text.extend_from_slice(piece);
        }
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        for tail in ["", "\r", "\r\n", "\n", "x"] {
            let text = [&text[..], tail.as_bytes()].concat();
            std::fs::write(file.path(), &text).expect("written");
            let unended = |ended: bool| (!ended && !text.is_empty()) as usize;
            let feeds = text.iter().filter(|b| **b == b'\n').count() + unended(text.ends_with(b"\n"));
            let returns = text.iter().filter(|b| **b == b'\r').count();
            let pairs = text.windows(2).filter(|w| w == b"\r\n").count();
            let any = text.iter().filter(|b| **b == b'\n').count() + returns - pairs
                + unended(text.ends_with(b"\n") || text.ends_with(b"\r"));
            for (line_end, rows) in [(LineEnd::AnyNewline, any), (LineEnd::Newline, feeds)] {
                for block_bytes in [50_001, 150_007, 262_144, 1 << 20] {
                    let options = options(line_end.clone(), block_bytes);
                    for scan in [Scan::try_new(options.clone()), Scan::try_new_portable(options)] {
                        let scan = scan.expect("valid");
                        assert!(scan.counts);
                        let source = FileSource::open(file.path()).expect("opened");
                        let counted = count(Arc::clone(&scan), source).expect("counted");
                        assert_eq!(counted, rows as u64, "{line_end:?} {block_bytes} {tail:?} {}", scan.simd_name());
                    }
                }
            }
        }
    }

    /// Bytes that the masks can resolve are scanned once, whatever lies between the quotes.
    #[test]
    fn quoted_records_are_looked_at_once() {
        let record = "1,\"a line\nend\",\"\"\"doubled\"\"\",\n";
        let text = record.repeat((6 << 20) / record.len());
        let file = tempfile::NamedTempFile::new().expect("a temporary file");
        std::fs::write(file.path(), &text).expect("written");
        let dialect = CsvDialect { header: false, ..CsvDialect::default() };
        let columns: Vec<_> = ["a", "b", "c", "d"].map(|n| Field::new(n, DataType::Utf8View, true)).into();
        let mut options = ScanOptions::new(Dialect::Csv(dialect), Arc::new(Schema::new(columns)));
        options.projection.clear();
        for scan in [Scan::try_new(options.clone()), Scan::try_new_portable(options)] {
            let source = Arc::new(FileSource::open(file.path()).expect("opened"));
            let input = FileInput { name: "t".into(), source, compression: Compression::None };
            let queue = ScanQueue::new(scan.expect("valid"), vec![input]);
            let rows: u64 = std::thread::scope(|s| {
                let work = || {
                    let mut worker = queue.worker();
                    let mut rows = 0;
                    while let Some(batch) = worker.next_batch().expect("no error") {
                        rows += batch.rows.num_rows() as u64;
                    }
                    rows
                };
                let workers = [s.spawn(work), s.spawn(work)];
                workers.into_iter().map(|w| w.join().expect("no panic")).sum::<u64>()
            });
            assert_eq!(rows, (text.len() / record.len()) as u64);
            let metrics = queue.metrics();
            // A few bytes more for the start of the file and before each block.
            assert!(metrics.bytes_read <= text.len() as u64 + 100, "{metrics:?}");
        }
    }

    #[test]
    fn a_file_that_shrinks_is_an_error() {
        for cut in [0, 1000, (3 << 20) + 5] {
            let file = tempfile::NamedTempFile::new().expect("a temporary file");
            std::fs::write(file.path(), vec![b'\n'; 12 << 20]).expect("written");
            let source = FileSource::open(file.path()).expect("opened");
            file.as_file().set_len(cut).expect("cut");
            let scan = Scan::try_new(options(LineEnd::AnyNewline, 1 << 20)).expect("valid");
            let error = count(scan, source).expect_err("it is shorter");
            assert!(error.to_string().contains("changed while it was read"), "{error}");
        }
    }
}
