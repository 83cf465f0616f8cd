//! Batches from records: filter columns first, then the other columns for the rows that pass. Bad values and records
//! are collected on the way and settled by the scan's policy.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::Schema;

use super::chunk::{Chunk, Rows};
use super::grammar::Ends;
use super::queue::{Scan, ScanQueue};
use super::{BadValue, RecordFault, Rejected};
use crate::block::TextBlock;
use crate::convert::{BadEntry, BadValues, Cx, LineFault};
use crate::dialect::Dialect;
use crate::error::{ErrorKind, TextError, cut};
use crate::span::Span;

/// Number of bytes of a rejected record that are kept.
const REJECTED_BYTES: usize = 1024;

/// Makes a batch that has only a row count.
pub(super) fn counted(queue: &ScanQueue, rows: usize) -> Result<Option<RecordBatch>, TextError> {
    let rows = queue.take_rows(rows);
    if rows == 0 {
        return Ok(None);
    }
    queue.counters.rows_returned.fetch_add(rows as u64, Ordering::Relaxed);
    assemble(queue, Vec::new(), rows).map(Some)
}

fn assemble(queue: &ScanQueue, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, TextError> {
    batch_of(Arc::clone(&queue.scan.output), columns, rows)
}

fn batch_of(schema: Arc<Schema>, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch, TextError> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    // The converters made the declared types; the remaining cause of failure is a NULL in a column declared NOT NULL.
    RecordBatch::try_new_with_options(schema, columns, &options)
        .map_err(|e| TextError::new(ErrorKind::BadValue, e.to_string()).with_hint("declare the column as nullable"))
}

/// A reason why a row is bad.
#[derive(Debug)]
struct Fault {
    /// Row of the chunk.
    row: usize,
    column: Option<usize>,
    kind: ErrorKind,
    fault: RecordFault,
    reason: String,
    /// Bytes of the chunk's block or of the value's own block.
    value: Option<Vec<u8>>,
}

/// Reused memory for making batches.
#[derive(Debug, Default)]
pub(super) struct RowMaker {
    spans: Vec<Span>,
    /// Rows of the chunk that are in the last batch; filled only if origins are wanted.
    kept: Vec<u32>,
}

/// Place of the fields of a batch: in the chunk, or in a block that a splitter made.
enum Fields<'a> {
    Direct(&'a Chunk),
    Split { block: TextBlock, spans: Vec<Span>, from: usize },
}

impl RowMaker {
    /// Makes a batch of those rows `from..to` of a chunk that pass; `None` if none does.
    pub(super) fn batch(
        &mut self,
        queue: &ScanQueue,
        chunk: &Chunk,
        from: usize,
        to: usize,
    ) -> Result<Option<RecordBatch>, TextError> {
        let scan = &*queue.scan;
        queue.counters.rows_scanned.fetch_add((to - from) as u64, Ordering::Relaxed);
        let mut faults = Vec::new();
        if scan.grammar.strict {
            ragged(scan, chunk, from, to, &mut faults);
        }
        let fields = split(scan, chunk, from, to, &mut faults);
        let reject = matches!(scan.options.bad_value, BadValue::Reject { .. } | BadValue::RejectRecord { .. });
        let mut bad_rows: Vec<usize> = faults.iter().map(|f| f.row).collect();
        bad_rows.sort_unstable();
        if scan.options.bad_value != BadValue::Error {
            // Under `Error`, wait: a bad value of an earlier row must be reported first.
            self.settle(queue, chunk, &mut faults)?;
        }
        // Rows of the chunk that have passed so far; `None`: all of `from..to`.
        let mut rows: Option<Vec<u32>> = None;
        if reject && !bad_rows.is_empty() {
            rows = Some((from..to).filter(|r| bad_rows.binary_search(r).is_err()).map(|r| r as u32).collect());
        }
        let range = chunk.batch_range(from, to, &scan.grammar);
        let mut ready: Vec<(usize, ArrayRef)> = Vec::new();
        if let Some(filter) = &scan.options.filter {
            let wanted = filter.columns();
            if let Some(bad) = wanted.iter().find(|c| **c >= scan.options.schema.fields().len()) {
                let reason = format!("the filter asks for column {bad}, the file has fewer");
                return Err(TextError::new(ErrorKind::Filter, reason));
            }
            let count = rows.as_ref().map_or(to - from, Vec::len);
            let mut columns = Vec::with_capacity(wanted.len());
            for column in &wanted {
                let selected = selection(&rows, from, to);
                columns.push(self.column(scan, &fields, *column, selected, &range, &mut faults)?);
            }
            let schema =
                Schema::new(wanted.iter().map(|c| Arc::clone(&scan.options.schema.fields()[*c])).collect::<Vec<_>>());
            let batch = batch_of(Arc::new(schema), columns.clone(), count)?;
            let keep = filter.keep(&batch).map_err(TextError::filter)?;
            if keep.len() != count {
                let reason = format!("the filter answered for {} rows, asked for {count}", keep.len());
                return Err(TextError::new(ErrorKind::Filter, reason));
            }
            let passed = keep.true_count();
            if passed == 0 {
                self.settle(queue, chunk, &mut faults)?;
                return Ok(None);
            }
            if passed < count {
                let kept = indexes(&keep);
                rows = Some(match &rows {
                    None => kept.iter().map(|i| from as u32 + i).collect(),
                    Some(rows) => kept.iter().map(|i| rows[*i as usize]).collect(),
                });
                for column in &mut columns {
                    *column = arrow_select::filter::filter(column, &keep)
                        .map_err(|e| TextError::new(ErrorKind::Filter, e.to_string()))?;
                }
            }
            ready = wanted.into_iter().zip(columns).collect();
        }
        // Build no more rows than the limit allows. Rows of other workers count as well, so the exact cut is made at
        // the end, but columns are not built for rows that are surely too many.
        if let Some(limit) = scan.options.limit {
            let most = usize::try_from(limit).unwrap_or(usize::MAX);
            let count = rows.as_ref().map_or(to - from, Vec::len);
            if count > most && !reject {
                match &mut rows {
                    Some(rows) => rows.truncate(most),
                    None => rows = Some((from..from + most).map(|r| r as u32).collect()),
                }
                for (_, column) in &mut ready {
                    *column = column.slice(0, most);
                }
            }
        }
        let count = rows.as_ref().map_or(to - from, Vec::len);
        let mut columns = Vec::with_capacity(scan.options.projection.len());
        for column in &scan.options.projection {
            let found = ready.iter().find(|(c, _)| c == column);
            columns.push(match found {
                Some((_, array)) => Arc::clone(array),
                None => {
                    let array = self.column(scan, &fields, *column, selection(&rows, from, to), &range, &mut faults)?;
                    ready.push((*column, Arc::clone(&array)));
                    array
                }
            });
        }
        let mut count = count;
        self.kept.clear();
        if scan.options.origins {
            match &rows {
                None => self.kept.extend(from as u32..to as u32),
                Some(rows) => self.kept.extend_from_slice(rows),
            }
        }
        if !faults.is_empty() {
            let mut all: Vec<usize> = faults.iter().map(|f| f.row).collect();
            all.sort_unstable();
            self.settle(queue, chunk, &mut faults)?;
            if reject {
                let row_of = |i: usize| rows.as_ref().map_or(from + i, |rows| rows[i] as usize);
                let keep: BooleanArray = (0..count).map(|i| Some(all.binary_search(&row_of(i)).is_err())).collect();
                for column in &mut columns {
                    *column = arrow_select::filter::filter(column, &keep)
                        .map_err(|e| TextError::new(ErrorKind::Filter, e.to_string()))?;
                }
                count = keep.true_count();
                self.kept.retain(|row| all.binary_search(&(*row as usize)).is_err());
            }
        }
        let taken = queue.take_rows(count);
        if taken == 0 {
            return Ok(None);
        }
        queue.counters.rows_returned.fetch_add(taken as u64, Ordering::Relaxed);
        let batch = assemble(queue, columns, count)?;
        Ok(Some(if taken < count { batch.slice(0, taken) } else { batch }))
    }

    /// Returns the rows of the chunk that are in the last batch.
    pub(super) fn kept(&self) -> &[u32] {
        &self.kept
    }

    fn column(
        &mut self,
        scan: &Scan,
        fields: &Fields<'_>,
        column: usize,
        rows: Rows<'_>,
        range: &std::ops::Range<usize>,
        faults: &mut Vec<Fault>,
    ) -> Result<ArrayRef, TextError> {
        let columns = scan.options.schema.fields().len();
        self.spans.clear();
        let (block, batch) = match fields {
            Fields::Direct(chunk) => {
                chunk.spans(column, columns, rows, &scan.grammar, &mut self.spans);
                (&chunk.block, range.clone())
            }
            Fields::Split { block, spans, from } => {
                let one = |row: usize| spans[(row - from) * columns + column];
                match rows {
                    Rows::Range(from, to) => self.spans.extend((from..to).map(one)),
                    Rows::Some(some) => self.spans.extend(some.iter().map(|r| one(*r as usize))),
                }
                (block, 0..block.bytes().len())
            }
        };
        let wanted = !matches!(scan.options.bad_value, BadValue::Null | BadValue::RejectRecord { .. });
        let mut bad = BadValues::new(wanted);
        let mut cx =
            Cx { strings: scan.options.strings, invalid_utf8: scan.options.invalid_utf8, batch, bad: &mut bad };
        let array = scan.convert(column, block, &self.spans, &mut cx)?;
        for BadEntry { row, reason, not_utf8, unsupported, fatal } in bad.values {
            let place = match rows {
                Rows::Range(from, _) => from + row,
                Rows::Some(some) => some[row] as usize,
            };
            let kind = if fatal { ErrorKind::InvalidUtf8 } else { ErrorKind::BadValue };
            let value = self.spans[row].bytes(block.bytes()).map(<[u8]>::to_vec);
            let fault = match (not_utf8, unsupported) {
                (true, _) => RecordFault::InvalidUtf8,
                (false, true) => RecordFault::Unsupported,
                (false, false) => RecordFault::Other,
            };
            faults.push(Fault { row: place, column: Some(column), kind, fault, reason, value });
        }
        Ok(array)
    }

    /// Applies the policy to the faults: the scan fails with the first one, or they are recorded and their rows
    /// rejected.
    fn settle(&mut self, queue: &ScanQueue, chunk: &Chunk, faults: &mut Vec<Fault>) -> Result<(), TextError> {
        if faults.is_empty() {
            return Ok(());
        }
        faults.sort_by_key(|f| (f.row, f.column));
        let fatal = faults.iter().find(|f| f.kind == ErrorKind::InvalidUtf8);
        let scan = &*queue.scan;
        match scan.options.bad_value {
            BadValue::Null => match fatal {
                Some(fault) => Err(error(queue, chunk, fault)),
                None => {
                    faults.clear();
                    Ok(())
                }
            },
            BadValue::Error => Err(error(queue, chunk, &faults[0])),
            BadValue::Reject { max } | BadValue::RejectRecord { max } => {
                if let Some(fault) = fatal {
                    return Err(error(queue, chunk, fault));
                }
                faults.dedup_by_key(|f| f.row);
                for fault in faults.drain(..) {
                    let before = queue.counters.rows_rejected.fetch_add(1, Ordering::Relaxed);
                    if queue.keeps_rejected() {
                        let e = error(queue, chunk, &fault);
                        let (start, end) = chunk.record_range(fault.row, &scan.grammar);
                        queue.reject(Rejected {
                            file: e.file,
                            line: e.line.unwrap_or(0),
                            byte: e.byte.unwrap_or(0),
                            column: e.column,
                            fault: fault.fault,
                            reason: match &e.value {
                                Some(value) => format!("{value:?} {}", e.reason),
                                None => e.reason,
                            },
                            text: cut(&chunk.block.bytes()[start..end], REJECTED_BYTES),
                        });
                    }
                    if before >= max {
                        let mut e = error(queue, chunk, &fault);
                        e.hint = Some(format!("{} records were rejected, at most {max} may be", before + 1));
                        e.kind = ErrorKind::Rejected;
                        return Err(e);
                    }
                }
                Ok(())
            }
        }
    }
}

fn selection<'a>(rows: &'a Option<Vec<u32>>, from: usize, to: usize) -> Rows<'a> {
    match rows {
        Some(rows) => Rows::Some(rows),
        None => Rows::Range(from, to),
    }
}

/// Returns the positions of the rows that are true.
fn indexes(keep: &BooleanArray) -> Vec<u32> {
    let bits = match keep.nulls() {
        Some(nulls) => keep.values() & nulls.inner(),
        None => keep.values().clone(),
    };
    bits.set_indices().map(|i| i as u32).collect()
}

/// Returns the fields of the lines `from..to`, cut by the splitter if there is one. Faults of columns that the scan
/// does not read are ignored.
fn split<'a>(scan: &Scan, chunk: &'a Chunk, from: usize, to: usize, faults: &mut Vec<Fault>) -> Fields<'a> {
    let Some(splitter) = &scan.splitter else { return Fields::Direct(chunk) };
    let columns = scan.options.schema.fields().len();
    let range = chunk.batch_range(from, to, &scan.grammar);
    let mut out = Vec::with_capacity(range.len() + crate::block::PAD * 2);
    out.resize(crate::block::PAD, 0);
    let mut spans = Vec::with_capacity((to - from) * columns);
    let filtered = scan.options.filter.as_ref().map(|filter| filter.columns()).unwrap_or_default();
    let is_wanted = |column: &usize| scan.options.projection.contains(column) || filtered.contains(column);
    for row in from..to {
        let (start, end) = chunk.record_range(row, &scan.grammar);
        let found = splitter.split(&chunk.block.bytes()[start..end], columns, &mut out, &mut spans);
        for LineFault { column, reason, value } in found.into_iter().filter(|f| f.column.iter().all(is_wanted)) {
            let kind = if column.is_some() { ErrorKind::BadValue } else { ErrorKind::BadRecord };
            faults.push(Fault { row, column, kind, fault: RecordFault::Other, reason, value });
        }
        assert_eq!(spans.len(), (row + 1 - from) * columns, "a span for each column");
    }
    Fields::Split { block: TextBlock::from_vec(out), spans, from }
}

/// Whether any record of a chunk has a wrong number of fields.
pub(super) fn is_ragged(scan: &Scan, chunk: &Chunk) -> bool {
    let mut faults = Vec::new();
    ragged(scan, chunk, 0, chunk.rows(), &mut faults);
    !faults.is_empty()
}

/// Reports records with the wrong number of fields. One empty field too many is accepted: the TPC generators write a
/// delimiter at the end of the line.
fn ragged(scan: &Scan, chunk: &Chunk, from: usize, to: usize, faults: &mut Vec<Fault>) {
    let columns = scan.options.schema.fields().len();
    let mut report = |row: usize, fault: RecordFault, reason: String| {
        faults.push(Fault { row, column: None, kind: ErrorKind::BadRecord, fault, reason, value: None });
    };
    if chunk.unterminated && to == chunk.rows() && to > from {
        report(to - 1, RecordFault::Other, "the record has a quote that is never closed".to_string());
    }
    if chunk.even_fields() == Some(columns) {
        return;
    }
    for row in from..to {
        let fields = chunk.record(row, &scan.grammar).fields as usize;
        if fields == columns {
            continue;
        }
        if fields == columns + 1 {
            let mut last = Vec::with_capacity(1);
            chunk.spans(columns, columns + 1, Rows::Range(row, row + 1), &scan.grammar, &mut last);
            if last[0].is_empty() {
                continue;
            }
        }
        let fault = RecordFault::Fields { found: fields, expected: columns };
        report(row, fault, format!("the record has {}, expected {}", plural(fields), plural(columns)));
    }
}

/// Returns the number, from 1, of the line that begins at `at` in the chunk's block.
fn line_at(queue: &ScanQueue, chunk: &Chunk, at: usize) -> std::io::Result<u64> {
    let ends = &queue.scan.grammar.ends;
    if let Some((position, line)) = chunk.line {
        return Ok(line + LineCounter::default().count(ends, &chunk.block.bytes()[position.min(at)..at]));
    }
    // Count by reading the file up to there, from the nearest place whose line is known.
    let byte = (chunk.offset + at as i64) as u64;
    let (mut from, mut lines) = queue.known_line(chunk.file, byte);
    let source = &*queue.files[chunk.file].input.source;
    let mut counter = LineCounter::default();
    let mut buffer = vec![0; 1 << 18];
    while from < byte {
        let most = buffer.len().min(usize::try_from(byte - from).unwrap_or(usize::MAX));
        let n = source.read_at(from, &mut buffer[..most])?;
        if n == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        lines += counter.count(ends, &buffer[..n]);
        from += n as u64;
    }
    queue.note_line(chunk.file, byte, lines);
    // Reading for this purpose may have opened the file again.
    queue.let_go(&queue.files[chunk.file]);
    Ok(lines)
}

/// Counts line ends over consecutive pieces of a file. The first piece must not begin inside a line end.
#[derive(Debug, Default)]
pub(super) struct LineCounter {
    cr: bool,
    matched: usize,
}

impl LineCounter {
    pub(super) fn count(&mut self, ends: &Ends, bytes: &[u8]) -> u64 {
        match ends {
            Ends::Feed => memchr::memchr_iter(b'\n', bytes).count() as u64,
            Ends::Byte(b) => memchr::memchr_iter(*b, bytes).count() as u64,
            Ends::Any => {
                let mut lines = 0;
                for i in memchr::memchr2_iter(b'\n', b'\r', bytes) {
                    let after_return = if i == 0 { self.cr } else { bytes[i - 1] == b'\r' };
                    lines += !(bytes[i] == b'\n' && after_return) as u64;
                }
                self.cr = bytes.last().map_or(self.cr, |b| *b == b'\r');
                lines
            }
            Ends::Bytes(end) => {
                let mut lines = 0;
                for b in bytes {
                    self.matched = if *b == end[self.matched] { self.matched + 1 } else { (*b == end[0]) as usize };
                    if self.matched == end.len() {
                        lines += 1;
                        self.matched = 0;
                    }
                }
                lines
            }
        }
    }
}

fn plural(fields: usize) -> String {
    if fields == 1 { "1 field".to_string() } else { format!("{fields} fields") }
}

/// Makes the error for a fault, with its line.
fn error(queue: &ScanQueue, chunk: &Chunk, fault: &Fault) -> TextError {
    let scan = &*queue.scan;
    let (start, _) = chunk.record_range(fault.row, &scan.grammar);
    let byte = (chunk.offset + start as i64) as u64;
    let mut e = TextError::new(fault.kind, fault.reason.clone()).in_file(&queue.files[chunk.file].input.name);
    e.byte = Some(byte);
    e.line = line_at(queue, chunk, start).ok();
    if let Some(column) = fault.column {
        e = e.in_column(scan.options.schema.field(column).name());
    }
    if let Some(value) = &fault.value {
        e = e.with_value(value);
    }
    match fault.kind {
        ErrorKind::BadValue | ErrorKind::BadRecord if matches!(scan.options.dialect, Dialect::Json(_)) => e.with_hint(
            "fix the line, or give columns and types by 'columns'='name:type;...', or say 'on_error'='null' or 'skip'; jq -c \
             makes lines of a document",
        ),
        ErrorKind::BadValue => e.with_hint("fix the row, or read bad values as NULL"),
        ErrorKind::BadRecord => e.with_hint(
            "fix the row, or let missing fields be NULL and drop extra ones: 'fill_missing_columns'='true' in files(...)",
        ),
        ErrorKind::InvalidUtf8 => {
            e.with_hint("convert the file to UTF-8, or give the option 'invalid_utf8' = 'replace' or 'null'")
        }
        _ => e,
    }
}
