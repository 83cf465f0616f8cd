//! Loads in which each row brings its own set of columns.
//!
//! A row is completed by the current row of its key: the load's previous row, else the table's. So rows with equal keys
//! add up, column by column, in the order of the load. With a sequence column, a row with a smaller value than the
//! current row of its key changes nothing. A row whose current row deletes the key is a new row; if it does not bring the
//! sequence column, it keeps the deleting row's value there, else it would lose to that row. Completed rows stay in
//! memory until the load ends, because any later row may have one of their keys.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch};
use arrow_select::interleave::interleave;
use dipper_store::key::{KeyEncoder, Keys};
use dipper_store::segment::SegmentError;
use dipper_store::table::Reads;
use dipper_store::table::schema::DELETE_SIGN;
use dipper_text::Memory;
use parking_lot::Mutex;

use crate::partial::{Filled, LookedUp, Partial, Past};
use crate::{Load, LoadError, memory_of};

/// For each column of the table, which rows of a batch bring it.
pub type Given = Vec<BooleanArray>;

/// Completes rows that bring different columns. One thread at a time gives it batches, in the order of the load.
#[derive(Debug)]
pub struct Flexible {
    partial: Partial,
    /// Index of the sequence column, and the encoder that makes its values comparable.
    sequence: Option<(usize, KeyEncoder)>,
    sign: Option<usize>,
    known: Mutex<Known>,
}

/// The rows that the load has brought so far.
#[derive(Debug)]
struct Known {
    /// The rows as given, to be completed anew on another state of the table.
    given: Vec<(RecordBatch, Given)>,
    /// The given rows, completed.
    filled: Vec<RecordBatch>,
    latest: HashMap<Box<[u8]>, Latest>,
    memory: Arc<dyn Memory>,
    bytes: usize,
}

impl Drop for Known {
    fn drop(&mut self) {
        self.memory.shrink(self.bytes);
    }
}

/// The current row of a key among the rows that the load has brought.
#[derive(Debug, Clone, Copy)]
struct Latest {
    batch: usize,
    row: usize,
    /// Whether the row deletes.
    deletes: bool,
}

/// Bytes that a key takes in the map in addition to its own length.
const KEY_BYTES: usize = 64;

impl Flexible {
    /// Creates a completer that looks rows up with `partial`, which must be made for a load that brings the keys alone.
    ///
    /// # Errors
    /// [`LoadError::Segment`] if the type of the sequence column has no order.
    pub fn try_new(partial: Partial, memory: Arc<dyn Memory>) -> Result<Self, LoadError> {
        let schema = partial.schema();
        let sequence = match schema.sequence.and_then(|id| schema.position(id)) {
            None => None,
            Some(at) => {
                let encoder = KeyEncoder::try_new([&schema.columns[at].data_type]).map_err(SegmentError::from)?;
                Some((at, encoder))
            }
        };
        let sign = schema.columns.iter().position(|c| c.name == DELETE_SIGN);
        let known = Known { given: Vec::new(), filled: Vec::new(), latest: HashMap::new(), memory, bytes: 0 };
        Ok(Flexible { partial, sequence, sign, known: Mutex::new(known) })
    }

    /// Returns the rowset's statement about the rows that were read.
    pub fn reads(&self) -> Reads {
        self.partial.reads()
    }

    /// Completes the rows. The batch has all columns of the table ([`Load::input_schema`]); a column that a row does
    /// not bring holds the value for a new row. Blocks; must not be called on async threads.
    ///
    /// # Errors
    /// [`LoadError::Segment`] if an object cannot be read or is damaged; [`LoadError::Partial`] if the memory does not
    /// suffice.
    pub fn fill(&self, batch: &RecordBatch, given: Given) -> Result<Filled, LoadError> {
        let mut known = self.known.lock();
        let LookedUp { keys, valid, found, past } = self.partial.look_up(batch)?;
        let old = self.partial.read(&found)?;
        let sources = Sources::new(self, batch, &old, &known.filled, past.as_ref())?;
        let columns = batch.num_columns();
        // Source of each value: row by row, column by column.
        let mut from: Vec<(usize, usize)> = Vec::with_capacity(batch.num_rows() * columns);
        let mut here: HashMap<&[u8], (usize, bool)> = HashMap::new();
        let mut is_new = Vec::with_capacity(batch.num_rows());
        for row in 0..batch.num_rows() {
            let key = keys.get(row);
            // The current row of the key: a source's row, or a row of this batch, and whether it deletes.
            let stands = match (here.get(key), known.latest.get(key)) {
                (Some((before, deletes)), _) => Some((Stands::Here(*before), *deletes)),
                (None, Some(latest)) => Some((Stands::Source(sources.own(latest.batch), latest.row), latest.deletes)),
                (None, None) => match found[row] {
                    Some((segment, at)) => {
                        let (rows, _) = &old[&segment];
                        Some((Stands::Source(sources.old[&segment], rows.rank(at) as usize - 1), false))
                    }
                    None => {
                        past.as_ref().filter(|past| past.has[row]).map(|_| (Stands::Source(sources.past(), row), true))
                    }
                },
            };
            let base = stands.filter(|(_, deletes)| !deletes).map(|(stands, _)| stands);
            is_new.push(base.is_none());
            for (column, given) in given.iter().enumerate() {
                let is_sequence = self.sequence.as_ref().is_some_and(|(sequence, _)| *sequence == column);
                let base = if is_sequence { stands.map(|(stands, _)| stands) } else { base };
                let value = match base {
                    Some(_) if given.value(row) => (0, row),
                    Some(Stands::Here(before)) => from[before * columns + column],
                    Some(Stands::Source(source, at)) => (source, at),
                    None => (0, row),
                };
                from.push(value);
            }
            let of = |column: usize| from[row * columns + column];
            let loses = match (&self.sequence, stands) {
                (Some((column, _)), Some((stands, _))) => {
                    let before = match stands {
                        Stands::Here(before) => from[before * columns + column],
                        Stands::Source(source, at) => (source, at),
                    };
                    sources.sequence(of(*column)) < sources.sequence(before)
                }
                _ => false,
            };
            if valid[row] && !loses {
                let deletes = self.sign.is_some_and(|sign| {
                    let (source, at) = of(sign);
                    source == 0 && batch.column(sign).as_primitive::<Int8Type>().value(at) != 0
                });
                here.insert(key, (row, deletes));
            }
        }
        let mut filled: Vec<ArrayRef> = Vec::with_capacity(columns);
        for column in 0..columns {
            let indexes: Vec<_> = from.iter().skip(column).step_by(columns).copied().collect();
            filled.push(
                match indexes.iter().all(|(source, _)| *source == 0) && indexes.is_sorted_by(|a, b| a.1 < b.1) {
                    true => Arc::clone(batch.column(column)),
                    false => interleave(&sources.column(column), &indexes)?,
                },
            );
        }
        let filled = RecordBatch::try_new(batch.schema(), filled)?;
        drop(sources);
        known.keep(batch, given, &filled, here)?;
        Ok(Filled { batch: filled, is_new: is_new.into_iter().map(Some).collect() })
    }

    /// Pushes the rows of the load, completed anew, into another load. `partial` is made on a newer state, and `load`
    /// has a transaction of its own. Blocks; must not be called on async threads.
    ///
    /// # Errors
    /// [`LoadError::Partial`] if the definition has changed; the errors of [`fill`](Self::fill) and [`Load::push`].
    pub fn again(&self, partial: Partial, load: &Load) -> Result<Reads, LoadError> {
        let known = self.known.lock();
        if partial.schema().version != self.partial.schema().version {
            return Err(LoadError::Partial("the table's definition was changed meanwhile; repeat the load".into()));
        }
        let again = Flexible::try_new(partial, Arc::clone(&known.memory))?;
        for ((batch, given), order) in known.given.iter().zip(0..) {
            let filled = again.fill(batch, given.clone())?;
            load.push(order, &[filled.batch])?;
        }
        Ok(again.reads())
    }
}

/// The current row of a row's key.
#[derive(Debug, Clone, Copy)]
enum Stands {
    /// A row of the same batch.
    Here(usize),
    /// A row of a source.
    Source(usize, usize),
}

/// Sources of values: the batch, segments of the table, earlier batches of the load.
struct Sources<'a> {
    batch: &'a RecordBatch,
    /// Columns of segments, without the keys.
    segments: Vec<&'a RecordBatch>,
    own: &'a [RecordBatch],
    /// Source numbers of segments.
    old: BTreeMap<dipper_store::table::data::SegmentId, usize>,
    /// Sequence values of the table's deleted rows, which are the last source of that column, and of no other.
    past: Option<(usize, &'a ArrayRef)>,
    keys: usize,
    /// Sequence values, by source.
    sequences: Vec<Keys>,
}

impl<'a> Sources<'a> {
    fn new(
        flexible: &Flexible,
        batch: &'a RecordBatch,
        old: &'a crate::partial::Old,
        own: &'a [RecordBatch],
        past: Option<&'a Past>,
    ) -> Result<Self, LoadError> {
        let sequence = flexible.sequence.as_ref().map(|(column, _)| *column);
        let mut sources = Sources {
            batch,
            past: sequence.zip(past.map(|past| &past.sequence)),
            segments: old.values().map(|(_, rows)| rows).collect(),
            own,
            old: old.keys().zip(1..).map(|(id, place)| (*id, place)).collect(),
            keys: flexible.partial.schema().keys,
            sequences: Vec::new(),
        };
        if let Some((column, encoder)) = &flexible.sequence {
            for source in 0..sources.past() {
                let values = [Arc::clone(sources.array(source, *column))];
                sources.sequences.push(encoder.encode(&values).map_err(SegmentError::from)?);
            }
            if let Some((_, past)) = sources.past {
                sources.sequences.push(encoder.encode(&[Arc::clone(past)]).map_err(SegmentError::from)?);
            }
        }
        Ok(sources)
    }

    /// Returns the source number of a batch of the load.
    fn own(&self, batch: usize) -> usize {
        1 + self.segments.len() + batch
    }

    /// Returns the source number of the deleted rows' sequence values.
    fn past(&self) -> usize {
        1 + self.segments.len() + self.own.len()
    }

    fn array(&self, source: usize, column: usize) -> &ArrayRef {
        match source.checked_sub(1) {
            None => self.batch.column(column),
            Some(at) if at < self.segments.len() => self.segments[at].column(column - self.keys),
            Some(at) => self.own[at - self.segments.len()].column(column),
        }
    }

    /// Returns all arrays of a column. Keys, which every row brings, come from the batch.
    fn column(&self, column: usize) -> Vec<&dyn Array> {
        if column < self.keys {
            return vec![self.batch.column(column).as_ref()];
        }
        let past = self.past.filter(|(sequence, _)| *sequence == column).map(|(_, past)| past.as_ref());
        (0..self.past()).map(|source| self.array(source, column).as_ref()).chain(past).collect()
    }

    fn sequence(&self, (source, row): (usize, usize)) -> &[u8] {
        self.sequences[source].get(row)
    }
}

impl Known {
    /// Keeps a batch, and the current rows of its keys.
    fn keep(
        &mut self,
        batch: &RecordBatch,
        given: Given,
        filled: &RecordBatch,
        here: HashMap<&[u8], (usize, bool)>,
    ) -> Result<(), LoadError> {
        let keys: usize = here.keys().map(|key| key.len() + KEY_BYTES).sum();
        let bytes = (memory_of(batch) + memory_of(filled)) as usize + keys;
        self.memory.grow(bytes).map_err(|why| {
            LoadError::Partial(format!("the rows of the load do not fit into memory, send fewer at a time: {why}"))
        })?;
        self.bytes += bytes;
        let number = self.filled.len();
        for (key, (row, deletes)) in here {
            self.latest.insert(key.into(), Latest { batch: number, row, deletes });
        }
        self.given.push((batch.clone(), given));
        self.filled.push(filled.clone());
        Ok(())
    }
}
