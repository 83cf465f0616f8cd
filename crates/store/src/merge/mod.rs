//! Merging of sorted runs of rows, applying the table's model to rows with equal keys.
//!
//! [`merge`] takes runs (each sorted by the schema's key columns, oldest run first) and returns sorted batches.
//! DUPLICATE keeps all rows, older runs first among equal keys; UNIQUE keeps the last row of a key, or the one with the
//! highest value of the sequence column; AGGREGATE merges rows with equal keys column by column.
//!
//! A heap holds the runs by their next key. The run with the smallest key yields all its rows up to the next key of the
//! second one, found by galloping: runs that hardly overlap are copied in long pieces, and a piece that fills a batch
//! is passed on without a copy. Memory: one or two batches of each run, and their keys.

mod aggregate;
mod keys;
mod row_map;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::error::Error;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, make_array};
use arrow_data::transform::MutableArrayData;
use arrow_schema::{ArrowError, SchemaRef};
use arrow_select::interleave::interleave;
use dipper_base::preempt;
use dipper_base::sketch::SketchError;
use dipper_base::states::StateError;

use crate::table::schema::{Model, TableSchema};

pub use row_map::RowMap;

use keys::{KeyForm, Keys};

/// Pieces that are shorter than this on average are gathered row by row.
const PIECE_ROWS_MIN: usize = 8;
/// Pieces that are cut between two places where the CPU may be given up. Most pieces have few rows where runs overlap.
const PIECES_BETWEEN_POINTS: u32 = 64;

/// Why runs cannot be merged.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MergeError {
    /// A run cannot be read.
    #[error("a run cannot be read: {0}")]
    Input(#[source] Box<dyn Error + Send + Sync>),
    /// A batch does not have the schema's columns.
    #[error("column {column}: expected {expected} in a run, found {found}")]
    Columns {
        /// Name of the column, or "number of columns".
        column: String,
        /// Type in the schema.
        expected: String,
        /// Type in the batch.
        found: String,
    },
    /// A run is not sorted.
    #[error("run {run}: the key of row {row} is below the one before it; a run must be sorted by the key columns")]
    Unsorted {
        /// The run.
        run: usize,
        /// The row, counted over the run.
        row: u64,
    },
    /// A sum does not fit its column's type.
    #[error("column {column}: a SUM is out of range for {data_type}; give the column a wider type")]
    Overflow {
        /// The column.
        column: String,
        /// Type of the column.
        data_type: String,
    },
    /// A value column of an AGGREGATE table whose rule is missing or does not fit its type.
    #[error("column {column}: no rule that merges its values")]
    NoRule {
        /// The column.
        column: String,
    },
    /// A value that is not a sketch or bitmap.
    #[error("column {column}: {source}")]
    Sketch {
        /// The column.
        column: String,
        /// The error of the sketch.
        source: SketchError,
    },
    /// A value that is no state of its column's function, or states whose union is none.
    #[error("column {column}: {source}")]
    State {
        /// The column.
        column: String,
        /// The error of the states.
        source: StateError,
    },
    /// More rows than a row map can count.
    #[error("merged runs have more than {} rows; merge fewer of them", u32::MAX)]
    TooManyRows,
    /// An error of Arrow.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// Merges runs into batches of `batch_rows` rows. A batch of an AGGREGATE table can have twice as many; the last one
/// has fewer.
///
/// # Errors
/// [`MergeError::Arrow`] if a key's type has no order. Errors of the runs are returned by the iterator, which ends
/// there.
///
/// # Panics
/// If `batch_rows` is 0.
pub fn merge<I, E>(schema: &TableSchema, runs: Vec<I>, batch_rows: usize) -> Result<Merge<I>, MergeError>
where
    I: Iterator<Item = Result<RecordBatch, E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    assert!(batch_rows > 0, "batches have rows");
    let sequence = match (schema.model, schema.sequence.and_then(|id| schema.position(id))) {
        (Model::Unique, Some(at)) => Some(KeyForm::try_new([(at, &schema.columns[at])].into_iter())?),
        _ => None,
    };
    Ok(Merge {
        key: KeyForm::try_new(schema.key_columns().iter().enumerate())?,
        sequence,
        arrow: schema.arrow(),
        schema: schema.clone(),
        batch_rows,
        heap: Vec::with_capacity(runs.len()),
        runs: runs.into_iter().map(|input| Run { input, chunk: None, row: 0, slot: None, rows: 0 }).collect(),
        begun: false,
        pending: Pending::default(),
        map: None,
    })
}

/// Applies the model to one sorted batch: UNIQUE keeps the last row of each key (or the one with the highest sequence),
/// AGGREGATE merges, DUPLICATE keeps all. Equal keys are in order of age.
///
/// # Errors
/// [`MergeError::Unsorted`] or [`MergeError::Columns`] if the batch is not sorted or not of the schema,
/// [`MergeError::Overflow`] if a sum does not fit.
pub fn merge_sorted_batch(schema: &TableSchema, batch: RecordBatch) -> Result<RecordBatch, MergeError> {
    if schema.model == Model::Duplicate || batch.num_rows() == 0 {
        return Ok(batch);
    }
    let run = std::iter::once(Ok::<_, MergeError>(batch));
    merge(schema, vec![run], usize::MAX)?.next().expect("a row gives a row")
}

/// Iterator over the merged batches.
pub struct Merge<I> {
    schema: TableSchema,
    arrow: SchemaRef,
    key: KeyForm,
    sequence: Option<KeyForm>,
    batch_rows: usize,
    runs: Vec<Run<I>>,
    /// Runs that have rows: a binary heap by next key, then by age.
    heap: Vec<usize>,
    begun: bool,
    pending: Pending,
    map: Option<RowMap>,
}

struct Run<I> {
    input: I,
    chunk: Option<Arc<Chunk>>,
    /// The next row in the chunk.
    row: usize,
    /// Index of the chunk in [`Pending::slots`].
    slot: Option<usize>,
    /// Rows read, including those of the chunk.
    rows: u64,
}

/// A batch with its keys.
struct Chunk {
    batch: RecordBatch,
    keys: Keys,
    sequence: Option<Keys>,
    /// Whether no two keys are equal.
    distinct: bool,
    /// Run, and the number in it of the batch's first row; `None` for rows that were merged from several.
    origin: Option<(usize, u64)>,
}

/// Rows that make up the next batch.
#[derive(Default)]
struct Pending {
    slots: Vec<Arc<Chunk>>,
    /// Slot and rows of each piece, in order of the output.
    pieces: Vec<(usize, Range<usize>)>,
    rows: usize,
    /// AGGREGATE: beginnings of groups of equal keys, as indexes of pending rows.
    starts: Vec<u32>,
}

impl<I, E> Merge<I>
where
    I: Iterator<Item = Result<RecordBatch, E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    /// Also records where rows go; see [`row_map`](Self::row_map).
    pub fn with_row_map(mut self) -> Self {
        self.map = Some(RowMap::new(self.runs.len(), self.schema.model == Model::Aggregate));
        self
    }

    /// Returns where the rows went; complete when the iterator has ended. Empty without
    /// [`with_row_map`](Self::with_row_map).
    pub fn row_map(self) -> RowMap {
        self.map.unwrap_or_default()
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>, MergeError> {
        if !self.begun {
            self.begun = true;
            for run in 0..self.runs.len() {
                if self.load(run)? {
                    self.heap.push(run);
                }
            }
            for at in (0..self.heap.len() / 2).rev() {
                self.sift_down(at);
            }
        }
        let mut turn = 0u32;
        while let Some(&run) = self.heap.first() {
            if turn.is_multiple_of(PIECES_BETWEEN_POINTS) {
                preempt::yield_point();
            }
            turn += 1;
            let mut room = self.batch_rows.saturating_sub(self.pending.rows);
            if room == 0 {
                if !self.continues(run) {
                    return self.flush().map(Some);
                }
                // A group must not be cut. A group that is too large is merged as far as it is known.
                room = match self.schema.model {
                    Model::Aggregate => self.batch_rows.saturating_mul(2).saturating_sub(self.pending.rows),
                    _ => 1,
                };
                if room == 0 {
                    if let Some(batch) = self.fold()? {
                        return Ok(Some(batch));
                    }
                    continue;
                }
            }
            self.take_piece(run, room);
            if self.runs[run].is_at_end() && !self.load(run)? {
                self.heap.swap_remove(0);
            }
            self.sift_down(0);
        }
        if self.pending.rows > 0 { self.flush().map(Some) } else { Ok(None) }
    }

    /// Reads the next batch of a run that has rows; returns false at its end.
    fn load(&mut self, number: usize) -> Result<bool, MergeError> {
        let run = &mut self.runs[number];
        run.slot = None;
        let before = run.chunk.take();
        let batch = loop {
            match run.input.next() {
                None => return Ok(false),
                Some(batch) => match batch.map_err(|e| MergeError::Input(e.into()))? {
                    batch if batch.num_rows() == 0 => {}
                    batch => break batch,
                },
            }
        };
        check_columns(&self.arrow, &batch)?;
        let keys = self.key.keys(&batch)?;
        let unsorted = |row: usize| MergeError::Unsorted { run: number, row: run.rows + row as u64 };
        let distinct = keys.distinct().map_err(unsorted)?;
        if before.is_some_and(|b| b.keys.compare(b.batch.num_rows() - 1, &keys, 0) == Ordering::Greater) {
            return Err(unsorted(0));
        }
        let sequence = self.sequence.as_ref().map(|form| form.keys(&batch)).transpose()?;
        let origin = Some((number, run.rows));
        run.rows += batch.num_rows() as u64;
        run.row = 0;
        run.chunk = Some(Arc::new(Chunk { batch, keys, sequence, distinct, origin }));
        Ok(true)
    }

    /// Returns whether the run's next key equals that of the last pending row, and the model makes one row of them.
    fn continues(&self, run: usize) -> bool {
        self.schema.model != Model::Duplicate
            && self.pending.last().is_some_and(|(chunk, row)| {
                let (next, at) = self.runs[run].head();
                chunk.keys.compare(row, &next.keys, at) == Ordering::Equal
            })
    }

    /// Moves rows of the run at the top of the heap to the pending ones, at most `room`, at least one.
    fn take_piece(&mut self, run: usize, room: usize) {
        let second = match self.heap[1..] {
            [] => None,
            [only] => Some(only),
            [a, b, ..] => Some(if self.is_before(a, b) { a } else { b }),
        };
        let (chunk, from) = self.runs[run].head();
        let to = chunk.batch.num_rows().min(from.saturating_add(room));
        let end = match second {
            None => to,
            Some(second) => {
                let (other, row) = self.runs[second].head();
                chunk.keys.gallop(from, to, (&other.keys, row), run < second)
            }
        };
        let chunk = Arc::clone(chunk);
        let continues = self.continues(run);
        let slot = *self.runs[run].slot.get_or_insert_with(|| {
            self.pending.slots.push(Arc::clone(&chunk));
            self.pending.slots.len() - 1
        });
        assert!(from < end && end <= to, "the run with the smallest key gives a row, and none that it lacks");
        self.runs[run].row = end;
        match self.schema.model {
            Model::Duplicate => self.pending.push(slot, from..end),
            Model::Unique => self.pending.push_unique(slot, from..end, continues),
            Model::Aggregate => self.pending.push_groups(slot, from..end, continues),
        }
    }

    fn is_before(&self, a: usize, b: usize) -> bool {
        let ((x, i), (y, j)) = (self.runs[a].head(), self.runs[b].head());
        x.keys.compare(i, &y.keys, j).then(a.cmp(&b)) == Ordering::Less
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.is_before(self.heap[child], self.heap[least]) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.heap.swap(at, least);
            at = least;
        }
    }

    /// Returns all pending rows as a batch.
    fn flush(&mut self) -> Result<RecordBatch, MergeError> {
        let pending = std::mem::take(&mut self.pending);
        self.runs.iter_mut().for_each(|run| run.slot = None);
        let merges = self.schema.model == Model::Aggregate && pending.starts.len() < pending.rows;
        let rows = if merges { pending.starts.len() } else { pending.rows };
        let mut batch = pending.gather(&self.arrow)?;
        if merges {
            batch = aggregate::aggregate(&self.schema, &batch, &pending.starts)?;
        }
        assert_eq!(batch.num_rows(), rows, "a row comes out for each pending one, or for each group of them");
        if let Some(map) = &mut self.map {
            record(map, &pending, merges)?;
            let rows = u32::try_from(batch.num_rows()).map_err(|_| MergeError::TooManyRows)?;
            map.rows().checked_add(rows).ok_or(MergeError::TooManyRows)?;
            map.advance(rows);
        }
        Ok(batch)
    }

    /// Merges the pending rows and keeps the last one, whose group goes on; returns those before it.
    fn fold(&mut self) -> Result<Option<RecordBatch>, MergeError> {
        let (chunk, row) = self.pending.last().expect("a group that goes on has begun");
        let keys = self.key.one(&chunk.keys, row);
        let batch = self.flush()?;
        let before = batch.num_rows() - 1;
        if let Some(map) = &mut self.map {
            map.reopen_last();
        }
        let chunk = Chunk { batch: batch.slice(before, 1), keys, sequence: None, distinct: true, origin: None };
        self.pending.slots.push(Arc::new(chunk));
        self.pending.push_groups(0, 0..1, false);
        Ok((before > 0).then(|| batch.slice(0, before)))
    }
}

impl<I, E> Iterator for Merge<I>
where
    I: Iterator<Item = Result<RecordBatch, E>>,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    type Item = Result<RecordBatch, MergeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_batch().transpose();
        if let Some(Err(_)) = next {
            self.heap.clear();
            self.pending = Pending::default();
        }
        next
    }
}

impl<I> Run<I> {
    fn head(&self) -> (&Arc<Chunk>, usize) {
        (self.chunk.as_ref().expect("runs in the heap have rows"), self.row)
    }

    fn is_at_end(&self) -> bool {
        self.chunk.as_ref().is_none_or(|c| self.row == c.batch.num_rows())
    }
}

impl Pending {
    fn last(&self) -> Option<(&Arc<Chunk>, usize)> {
        self.pieces.last().map(|(slot, rows)| (&self.slots[*slot], rows.end - 1))
    }

    fn push(&mut self, slot: usize, rows: Range<usize>) {
        self.rows += rows.len();
        match self.pieces.last_mut() {
            Some((last, piece)) if *last == slot && piece.end == rows.start => piece.end = rows.end,
            _ => self.pieces.push((slot, rows)),
        }
    }

    /// Adds only the last row of each key, or the one with the highest sequence. With `continues` the first of the rows
    /// has the key of the last pending one.
    fn push_unique(&mut self, slot: usize, rows: Range<usize>, continues: bool) {
        let chunk = Arc::clone(&self.slots[slot]);
        if chunk.distinct && !continues {
            return self.push(slot, rows);
        }
        for row in rows.clone() {
            let same = if row == rows.start {
                continues
            } else {
                chunk.keys.compare(row - 1, &chunk.keys, row) == Ordering::Equal
            };
            if same {
                let (last, at) = self.last().expect("a row with the same key came before");
                let loses = match (&last.sequence, &chunk.sequence) {
                    (Some(theirs), Some(ours)) => ours.compare(row, theirs, at) == Ordering::Less,
                    _ => false,
                };
                if loses {
                    continue;
                }
                self.pop();
            }
            self.push(slot, row..row + 1);
        }
    }

    fn pop(&mut self) {
        if let Some((_, piece)) = self.pieces.last_mut() {
            piece.end -= 1;
            self.rows -= 1;
            if piece.start == piece.end {
                self.pieces.pop();
            }
        }
    }

    /// Adds all rows, and records where groups begin.
    fn push_groups(&mut self, slot: usize, rows: Range<usize>, continues: bool) {
        let chunk = Arc::clone(&self.slots[slot]);
        let base = self.rows as u32;
        let first = rows.start;
        let begins = |row: usize| match row == first {
            true => !continues,
            false => chunk.distinct || chunk.keys.compare(row - 1, &chunk.keys, row) != Ordering::Equal,
        };
        self.starts.extend(rows.clone().filter(|row| begins(*row)).map(|row| base + (row - first) as u32));
        self.push(slot, rows);
    }

    fn gather(&self, schema: &SchemaRef) -> Result<RecordBatch, MergeError> {
        let rows: usize = self.pieces.iter().map(|(_, rows)| rows.len()).sum();
        assert_eq!(rows, self.rows, "pending rows are counted");
        if let [(slot, rows)] = self.pieces.as_slice() {
            let batch = self.slots[*slot].batch.slice(rows.start, rows.len());
            return Ok(RecordBatch::try_new(schema.clone(), batch.columns().to_vec())?);
        }
        let indices: Vec<(usize, usize)> = match self.rows < self.pieces.len() * PIECE_ROWS_MIN {
            true => self.pieces.iter().flat_map(|(slot, rows)| rows.clone().map(|row| (*slot, row))).collect(),
            false => Vec::new(),
        };
        let column = |i: usize| -> Result<ArrayRef, ArrowError> {
            preempt::yield_point();
            let arrays = self.slots.iter().map(|s| s.batch.column(i));
            if !indices.is_empty() {
                return interleave(&arrays.map(|a| a.as_ref()).collect::<Vec<&dyn Array>>(), &indices);
            }
            let data: Vec<_> = arrays.map(|a| a.to_data()).collect();
            let mut copy = MutableArrayData::new(data.iter().collect(), false, self.rows);
            for (slot, rows) in &self.pieces {
                copy.try_extend(*slot, rows.start, rows.end)?;
            }
            Ok(make_array(copy.freeze()))
        };
        let columns = (0..schema.fields().len()).map(column).collect::<Result<_, _>>()?;
        Ok(RecordBatch::try_new(schema.clone(), columns)?)
    }
}

fn check_columns(schema: &SchemaRef, batch: &RecordBatch) -> Result<(), MergeError> {
    let bad = |column: &str, expected: String, found: String| {
        Err(MergeError::Columns { column: column.to_string(), expected, found })
    };
    if batch.num_columns() != schema.fields().len() {
        return bad("number of columns", schema.fields().len().to_string(), batch.num_columns().to_string());
    }
    for (field, array) in schema.fields().iter().zip(batch.columns()) {
        if field.data_type() != array.data_type() {
            return bad(field.name(), field.data_type().to_string(), array.data_type().to_string());
        }
        if !field.is_nullable() && array.null_count() > 0 {
            return bad(field.name(), "values".into(), "NULL".into());
        }
    }
    Ok(())
}

/// Records the rows that make up the next batch in the row map.
fn record(map: &mut RowMap, pending: &Pending, merges: bool) -> Result<(), MergeError> {
    let narrow = |n: u64| u32::try_from(n).map_err(|_| MergeError::TooManyRows);
    let base = u64::from(map.rows());
    let mut done = 0u32;
    let mut group = 0;
    for (slot, rows) in &pending.pieces {
        let len = rows.len() as u32;
        if let Some((run, first)) = pending.slots[*slot].origin {
            let row = narrow(first + rows.start as u64)?;
            narrow(u64::from(row) + u64::from(len))?;
            if merges {
                for i in 0..len {
                    while pending.starts.get(group + 1).is_some_and(|start| *start <= done + i) {
                        group += 1;
                    }
                    map.merged(run, row + i, narrow(base + group as u64)?);
                }
            } else {
                map.copied(run, row, narrow(base + u64::from(done))?, len);
            }
        }
        done += len;
    }
    assert_eq!(done as usize, pending.rows, "each pending row is recorded");
    narrow(base + u64::from(done))?;
    Ok(())
}
