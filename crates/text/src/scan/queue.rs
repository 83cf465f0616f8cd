//! One scan over several files: its resolved options, the queue of splits, and the state that all workers share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use arrow_array::ArrayRef;
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};

use super::chain::Chain;
use super::count::{Tally, Ways};
use super::grammar::Grammar;
use super::stream::Stream;
use super::worker::Worker;
use super::{BadValue, FileInput, Rejected, ScanMetrics, ScanOptions};
use super::{count, head};
use crate::block::{BufferPool, TextBlock};
use crate::convert::{Convert, Cx, SplitLine};
use crate::dialect::Dialect;
use crate::error::{ErrorKind, TextError};
use crate::json::JsonLine;
use crate::simd::{Shape, Simd};
use crate::source::Compression;
use crate::span::Span;

/// Size in bytes of the first block of a scan with a limit.
const FIRST_BLOCK: u64 = 64 << 10;
/// Number of files after the current one whose reading is announced by [`Source::soon`](crate::source::Source::soon).
const FILES_AHEAD: usize = 16;
/// Maximum number of bytes of rejected records that are kept with their text.
const REJECTED_BYTES: usize = 32 << 20;

/// A scan's options, with everything resolved that is the same for all files: column mapping, converters, instruction
/// set.
#[derive(Debug)]
pub struct Scan {
    pub(super) options: ScanOptions,
    pub(super) grammar: Grammar,
    pub(super) shape: Option<Shape>,
    pub(super) simd: Simd,
    pub(super) splitter: Option<Arc<dyn SplitLine>>,
    converters: Vec<Result<Arc<dyn Convert>, TextError>>,
    pub(super) output: SchemaRef,
    /// Whether any column in use holds text.
    pub(super) text: bool,
    /// Whether only the number of records is wanted and [`count`] can count them without state between
    /// blocks.
    pub(super) counts: bool,
    /// Whether records are checked although no column of them is wanted.
    pub(super) checks: bool,
    /// Whether only the number of records is wanted and they have quotes that the masks can resolve.
    pub(super) counts_quoted: bool,
    /// Whether local files may be mapped for counting.
    pub(super) maps: bool,
}

impl Scan {
    /// Checks and resolves the options.
    ///
    /// # Errors
    /// `Options` if the dialect contradicts itself, a projected column does not exist or its type cannot be read from
    /// text, or sizes are zero or above [`BLOCK_BYTES_MAX`](super::BLOCK_BYTES_MAX).
    pub fn try_new(options: ScanOptions) -> Result<Arc<Scan>, TextError> {
        Self::with_simd(options, Simd::best())
    }

    /// Checks and resolves the options like [`try_new`](Self::try_new), but selects portable code instead of vector
    /// instructions: the twin that tests and fuzzers compare with.
    ///
    /// # Errors
    /// `Options`, under the conditions of [`try_new`](Self::try_new).
    pub fn try_new_portable(options: ScanOptions) -> Result<Arc<Scan>, TextError> {
        Self::with_simd(options, Simd::portable())
    }

    pub(crate) fn with_simd(options: ScanOptions, simd: Simd) -> Result<Arc<Scan>, TextError> {
        let columns = options.schema.fields().len();
        if options.batch_rows == 0 || options.block_bytes == 0 {
            return Err(TextError::new(ErrorKind::Options, "batch_rows and block_bytes must be at least 1"));
        }
        if options.block_bytes.max(options.record_bytes_max) > super::BLOCK_BYTES_MAX {
            let reason = format!(
                "block_bytes is {}, record_bytes_max {}; at most {} are possible",
                options.block_bytes,
                options.record_bytes_max,
                super::BLOCK_BYTES_MAX
            );
            return Err(TextError::new(ErrorKind::Options, reason));
        }
        if let Some(bad) = options.projection.iter().find(|c| **c >= columns) {
            let reason = format!("column {bad} is projected, the file has {columns}");
            return Err(TextError::new(ErrorKind::Options, reason));
        }
        let splitter = splitter(&options.dialect, &options.schema)?;
        let mut grammar = Grammar::try_new(&options.dialect, columns)?;
        if splitter.is_some() {
            // Only lines are found here; the splitter cuts them.
            grammar.delimiter = None;
            grammar.escape = None;
        }
        let fields = options.schema.fields();
        let converters: Vec<_> = (fields.iter().enumerate())
            .map(|(column, field)| converter(field, &options.dialect, options.exact.contains(&column)))
            .collect();
        for column in &options.projection {
            if let Err(e) = &converters[*column] {
                return Err(TextError::new(e.kind, e.reason.clone()).in_column(fields[*column].name()));
            }
        }
        let output = Schema::new(options.projection.iter().map(|c| Arc::clone(&fields[*c])).collect::<Vec<_>>());
        let filtered = options.filter.is_some();
        let is_text = |t: &DataType| matches!(t, DataType::Utf8View) || t.is_nested();
        let text = options.projection.iter().any(|c| is_text(fields[*c].data_type())) || filtered;
        Ok(Arc::new(Scan {
            shape: grammar.shape(fields.len()),
            splitter,
            simd,
            converters,
            output: Arc::new(output),
            text,
            checks: false,
            counts: counts_only(&options) && count::is_plain(&grammar),
            counts_quoted: counts_only(&options) && count::is_quoted(&grammar),
            maps: simd != Simd::portable(),
            grammar,
            options,
        }))
    }

    /// Returns the schema of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.output
    }

    /// Returns the name of the instruction set in use.
    pub fn simd_name(&self) -> &'static str {
        self.simd.name()
    }

    /// Whether only the number of records is wanted.
    pub(super) fn counts_only(&self) -> bool {
        counts_only(&self.options) && !self.checks
    }

    /// Makes a scan that checks for each record whether it is a row and converts none of the fields.
    ///
    /// # Errors
    /// `Options`, under the conditions of [`Scan::try_new`].
    pub(super) fn checking(options: &ScanOptions) -> Result<Arc<Self>, TextError> {
        let options = ScanOptions { projection: Vec::new(), filter: None, limit: None, ..options.clone() };
        let made = Self::try_new(options)?;
        let Some(mut scan) = Arc::into_inner(made) else {
            return Err(TextError::new(ErrorKind::Options, "a scan that is in use already"));
        };
        (scan.checks, scan.counts, scan.counts_quoted) = (true, false, false);
        Ok(Arc::new(scan))
    }

    pub(super) fn convert(
        &self,
        column: usize,
        block: &TextBlock,
        spans: &[Span],
        cx: &mut Cx<'_>,
    ) -> Result<ArrayRef, TextError> {
        match &self.converters[column] {
            Ok(converter) => converter.convert(block, spans, cx),
            Err(e) => Err(TextError::new(e.kind, e.reason.clone()).in_column(self.options.schema.field(column).name())),
        }
    }
}

fn counts_only(o: &ScanOptions) -> bool {
    let rejects = matches!(o.bad_value, BadValue::Reject { .. } | BadValue::RejectRecord { .. });
    o.projection.is_empty() && o.filter.is_none() && !rejects
}

fn converter(field: &FieldRef, dialect: &Dialect, exact: bool) -> Result<Arc<dyn Convert>, TextError> {
    match dialect {
        Dialect::Csv(csv) if exact => crate::csv::exact_converter(field, csv),
        Dialect::Csv(csv) => crate::csv::converter(field, csv),
        Dialect::Hive(hive) => crate::hive::converter(hive, field).map(Into::into),
        Dialect::Json(_) => crate::json::converter(field),
    }
}

fn splitter(dialect: &Dialect, schema: &SchemaRef) -> Result<Option<Arc<dyn SplitLine>>, TextError> {
    match dialect {
        Dialect::Csv(_) => Ok(None),
        Dialect::Hive(hive) => Ok(crate::hive::line_splitter(hive)?.map(Into::into)),
        Dialect::Json(json) => Ok(Some(Arc::new(JsonLine::new(json, schema)))),
    }
}

/// The way in which a file is cut.
#[derive(Debug, Clone, Copy)]
pub(super) enum Plan {
    /// Blocks by position; the records lie in `start..end`.
    Blocks { start: u64, end: u64, blocks: u64 },
    /// From the beginning to the end: one worker at a time reads, all convert.
    Stream,
}

#[derive(Debug)]
pub(super) struct File {
    pub input: FileInput,
    pub plan: std::sync::OnceLock<Plan>,
    /// Number of blocks that have not been read.
    left: AtomicU64,
    pub chain: Chain,
    pub tally: Tally,
    /// Reader of a file that is read in order.
    pub stream: Mutex<Option<Stream>>,
    /// Whether the stream has ended.
    pub stream_done: AtomicBool,
}

/// A worker's next task.
#[derive(Debug, Clone, Copy)]
pub(super) enum Claim {
    Block { file: usize, block: u64, order: u64 },
    Stream { file: usize },
    Nothing,
}

#[derive(Debug, Default)]
struct Cursor {
    file: usize,
    block: u64,
    /// Index of the last file whose reading was announced.
    told: usize,
    /// Whether the first split was handed out, and whether its worker has returned, with or without rows.
    begun: bool,
    first_done: bool,
}

/// The splits of all files, in file order, and the state that workers share.
#[derive(Debug)]
pub struct ScanQueue {
    pub(super) scan: Arc<Scan>,
    pub(super) files: Vec<File>,
    cursor: Mutex<Cursor>,
    first_done: Condvar,
    pub(super) pool: Arc<BufferPool>,
    /// Rows that may still be returned.
    remaining: AtomicU64,
    /// Order of the next split.
    next_split: AtomicU64,
    cancelled: AtomicBool,
    /// The first failure of a worker.
    failure: Mutex<Option<TextError>>,
    pub(super) counters: Counters,
    pub(super) ways: Ways,
    rejected: Mutex<Kept>,
    /// The header that was checked last: most files have the same one.
    header: Mutex<Vec<u8>>,
    /// Line numbers counted for messages, by file and byte.
    lines: Mutex<BTreeMap<(usize, u64), u64>>,
}

/// Rejected records, as many as there is room for.
#[derive(Debug, Default)]
struct Kept {
    records: Vec<Rejected>,
    bytes: usize,
}

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub bytes_read: AtomicU64,
    pub rows_scanned: AtomicU64,
    pub rows_returned: AtomicU64,
    pub rows_rejected: AtomicU64,
    pub blocks: AtomicU64,
}

impl ScanQueue {
    /// Creates a queue over `files`. Nothing is read yet.
    pub fn new(scan: Arc<Scan>, files: Vec<FileInput>) -> Arc<Self> {
        let remaining = AtomicU64::new(scan.options.limit.unwrap_or(u64::MAX));
        let pool = Arc::new(BufferPool::new(scan.options.memory.clone(), scan.options.block_bytes));
        let files = files
            .into_iter()
            .map(|input| File {
                input,
                plan: std::sync::OnceLock::new(),
                left: AtomicU64::new(0),
                chain: Chain::new(),
                tally: Tally::default(),
                stream: Mutex::default(),
                stream_done: AtomicBool::new(false),
            })
            .collect();
        Arc::new(ScanQueue {
            scan,
            files,
            cursor: Mutex::default(),
            first_done: Condvar::new(),
            pool,
            remaining,
            next_split: AtomicU64::new(0),
            cancelled: AtomicBool::new(false),
            failure: Mutex::default(),
            counters: Counters::default(),
            ways: Ways::default(),
            rejected: Mutex::default(),
            header: Mutex::default(),
            lines: Mutex::default(),
        })
    }

    /// Returns a worker that takes splits from this queue. Use one per thread.
    pub fn worker(self: &Arc<Self>) -> Worker {
        Worker::new(Arc::clone(self))
    }

    /// Returns the counters so far.
    pub fn metrics(&self) -> ScanMetrics {
        let c = &self.counters;
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ScanMetrics {
            bytes_read: get(&c.bytes_read),
            rows_scanned: get(&c.rows_scanned),
            rows_returned: get(&c.rows_returned),
            rows_rejected: get(&c.rows_rejected),
            blocks: get(&c.blocks),
        }
    }

    /// Returns the records left out so far, in no particular order. They are kept up to a total of about 32 MiB.
    pub fn rejected(&self) -> Vec<Rejected> {
        self.rejected.lock().unwrap_or_else(|e| e.into_inner()).records.clone()
    }

    /// Makes workers stop at their next block, with an error of kind `Cancelled`.
    pub fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.notify_first_done();
        for file in &self.files {
            file.chain.fail();
        }
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Records that a worker failed with `error`. Workers that wait for it report the same error, because any of them
    /// may be heard first.
    pub(super) fn fail(&self, file: usize, error: &TextError) {
        if error.kind != ErrorKind::Cancelled {
            self.failure.lock().unwrap_or_else(|e| e.into_inner()).get_or_insert_with(|| error.copy());
        }
        self.files[file].chain.fail();
    }

    /// Returns the error of a worker that gives up waiting for another one.
    pub(super) fn given_up(&self) -> TextError {
        match &*self.failure.lock().unwrap_or_else(|e| e.into_inner()) {
            Some(failure) => failure.copy(),
            None => TextError::new(ErrorKind::Cancelled, "the scan was cancelled, or another worker of it failed"),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.remaining.load(Ordering::Relaxed) == 0
    }

    /// Takes up to `rows` from the rows that may still be returned; returns the number taken.
    pub(super) fn take_rows(&self, rows: usize) -> usize {
        if self.scan.options.limit.is_none() {
            return rows;
        }
        let mut taken = 0;
        let _ = self.remaining.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            taken = left.min(rows as u64);
            Some(left - taken)
        });
        taken as usize
    }

    /// Whether one more rejected record can be kept with its text.
    pub(super) fn keeps_rejected(&self) -> bool {
        self.rejected.lock().unwrap_or_else(|e| e.into_inner()).bytes < REJECTED_BYTES
    }

    /// Returns the last position before `byte` whose line number is known, and that number.
    pub(super) fn known_line(&self, file: usize, byte: u64) -> (u64, u64) {
        let lines = self.lines.lock().unwrap_or_else(|e| e.into_inner());
        lines.range((file, 0)..=(file, byte)).next_back().map_or((0, 1), |((_, byte), line)| (*byte, *line))
    }

    pub(super) fn note_line(&self, file: usize, byte: u64, line: u64) {
        self.lines.lock().unwrap_or_else(|e| e.into_inner()).insert((file, byte), line);
    }

    pub(super) fn reject(&self, rejected: Rejected) {
        let mut kept = self.rejected.lock().unwrap_or_else(|e| e.into_inner());
        if kept.bytes < REJECTED_BYTES {
            kept.bytes += size_of::<Rejected>() + rejected.file.len() + rejected.reason.len() + rejected.text.len();
            kept.records.push(rejected);
        }
    }

    /// Claims the next split. With a limit, all but the first worker wait until the first split has shown how many rows
    /// it yields.
    pub(super) fn claim(&self) -> Result<Claim, TextError> {
        let limited = self.scan.options.limit.is_some();
        let mut cursor = self.cursor.lock().unwrap_or_else(|e| e.into_inner());
        while limited && cursor.begun && !cursor.first_done && !self.is_cancelled() {
            cursor = self.first_done.wait(cursor).unwrap_or_else(|e| e.into_inner());
        }
        if self.is_done() {
            return Ok(Claim::Nothing);
        }
        loop {
            let at = cursor.file;
            let Some(file) = self.files.get(at) else { return Ok(Claim::Nothing) };
            // With a limit, few files may be enough: prepare more files as the scan goes on.
            let ahead = if limited { at.min(FILES_AHEAD) } else { FILES_AHEAD };
            while cursor.told < (at + ahead).min(self.files.len() - 1) {
                cursor.told += 1;
                self.files[cursor.told].input.source.soon();
            }
            match self.plan(file)? {
                Plan::Blocks { blocks, .. } if cursor.block < blocks => {
                    let block = cursor.block;
                    cursor.block += 1;
                    cursor.begun = true;
                    return Ok(Claim::Block { file: at, block, order: self.number_split() });
                }
                Plan::Blocks { .. } => {
                    cursor.file += 1;
                    cursor.block = 0;
                }
                // All workers stay with the file until it ends, so that the order of splits follows the input.
                Plan::Stream if !file.stream_done.load(Ordering::Acquire) => {
                    cursor.begun = true;
                    return Ok(Claim::Stream { file: at });
                }
                Plan::Stream => cursor.file += 1,
            }
        }
    }

    /// Returns the order of the next split; called in the order of the input.
    pub(super) fn number_split(&self) -> u64 {
        self.next_split.fetch_add(1, Ordering::Relaxed)
    }

    /// Wakes the waiting workers: the first split's worker has returned.
    pub(super) fn notify_first_done(&self) {
        if self.scan.options.limit.is_some() {
            self.cursor.lock().unwrap_or_else(|e| e.into_inner()).first_done = true;
            self.first_done.notify_all();
        }
    }

    /// Decides how the file is cut. Called under the cursor's lock.
    fn plan(&self, file: &File) -> Result<Plan, TextError> {
        if let Some(plan) = file.plan.get() {
            return Ok(*plan);
        }
        let grammar = &self.scan.grammar;
        let input = &file.input;
        input.source.ready().map_err(|e| TextError::io(&input.name, e))?;
        let plan = if input.compression != Compression::None || input.source.is_stream() || !grammar.splittable() {
            Plan::Stream
        } else {
            let mut bytes_read = 0;
            let extent = head::extent(&*file.input.source, grammar, &mut bytes_read);
            self.counters.bytes_read.fetch_add(bytes_read, Ordering::Relaxed);
            let head::Extent { start, end, header } = extent.map_err(|e| TextError::io(&file.input.name, e))?;
            self.check_header(file, &header)?;
            let size = self.block_bytes(file);
            let first = self.first_block(file);
            let len = end.saturating_sub(start);
            let blocks = if len == 0 { 0 } else { 1 + len.saturating_sub(first).div_ceil(size) };
            file.left.store(blocks, Ordering::Release);
            self.let_go(file);
            Plan::Blocks { start, end, blocks }
        };
        Ok(*file.plan.get_or_init(|| plan))
    }

    /// Checks the header of a file, empty if it has none, if the scan has a [`HeaderCheck`](super::HeaderCheck).
    pub(super) fn check_header(&self, file: &File, header: &[u8]) -> Result<(), TextError> {
        let Some(expected) = self.scan.options.header.as_ref().filter(|_| !header.is_empty()) else { return Ok(()) };
        let mut checked = self.header.lock().unwrap_or_else(|e| e.into_inner());
        if *checked != header {
            expected.check(header).map_err(|e| e.in_file(&file.input.name))?;
            *checked = header.to_vec();
        }
        Ok(())
    }

    /// Records that a block of a file was read. Returns whether it was the last one.
    pub(super) fn block_read(&self, file: usize) -> bool {
        let file = &self.files[file];
        let last = file.left.fetch_sub(1, Ordering::AcqRel) == 1;
        self.let_go(file);
        last
    }

    /// Closes a file that is cut into blocks if all of them were read.
    pub(super) fn let_go(&self, file: &File) {
        if file.left.load(Ordering::Acquire) == 0 {
            file.input.source.done();
        }
    }

    /// Returns the size in bytes of a block of a file. Local files are counted in larger blocks. Remote files are
    /// prefetched in the order in which blocks are asked for, so all workers should be close together.
    fn block_bytes(&self, file: &File) -> u64 {
        let plain = file.input.compression == Compression::None;
        let counts = self.scan.counts || self.scan.counts_quoted;
        let many = counts && plain && file.input.source.local_file().is_some();
        self.scan.options.block_bytes as u64 * if many { count::COUNTED_BLOCKS } else { 1 }
    }

    /// Returns the size in bytes of the first block of a file.
    pub(super) fn first_block(&self, file: &File) -> u64 {
        let size = self.block_bytes(file);
        if self.scan.options.limit.is_some() { size.min(FIRST_BLOCK) } else { size }
    }

    /// Returns the range of a block in its file.
    pub(super) fn block_range(&self, file: usize, start: u64, end: u64, block: u64) -> (u64, u64) {
        let file = &self.files[file];
        let size = self.block_bytes(file);
        let first = self.first_block(file);
        if block == 0 {
            return (start, (start + first).min(end));
        }
        let from = start + first + (block - 1) * size;
        (from, (from + size).min(end))
    }
}
