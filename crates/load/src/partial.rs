//! Loads that bring only some columns: rows whose key exists keep their values in the other columns.
//!
//! Values are read at one state of the table, and the rowset names that state ([`Rowset::reads`]). If one of the rows
//! has changed by the time of publishing, the rowset is refused, and [`Partial::rebase`] makes it anew from the current
//! state.
//!
//! A sequence column is an ordinary column: a row that does not bring it keeps the old value, and so replaces the old
//! row; a row that brings a smaller value than the table has loses to the old row when it is published, as whole rows
//! do. A row that deletes its key by the delete sign is compared with later rows, too: a row that does not bring the
//! sequence column keeps the value of such a row, but none of its other values.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow_buffer::BooleanBufferBuilder;
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave;
use dipper_store::key::{KeyEncoder, Keys};
use dipper_store::route::{NOWHERE, Routed, Router};
use dipper_store::segment::{ObjectReader, Readers, Scan, SegmentError};
use dipper_store::table::data::{SegmentId, Tablet};
use dipper_store::table::schema::{DELETE_SIGN, Model, TableSchema};
use dipper_store::table::{Reads, Rowset, SegmentRef, Table, TableState};
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use tokio::runtime::Handle;

use crate::{Load, LoadError};

/// Number of keys that are looked up concurrently.
const LOOKUPS: usize = 32;

/// Fills the columns that a load does not bring. It is shared by the threads that push.
#[derive(Debug)]
pub struct Partial {
    table: Table,
    state: Arc<TableState>,
    schema: Arc<TableSchema>,
    readers: Arc<Readers>,
    runtime: Handle,
    keys: KeyEncoder,
    router: Router,
    /// Indexes of the columns that are filled.
    missing: Vec<usize>,
    /// Where rows that were deleted by their sign matter: the table has a sequence column, which is filled.
    signed: Option<Signed>,
    /// Old rows whose values were used by the load.
    read: Mutex<BTreeMap<SegmentId, RoaringBitmap>>,
}

/// What is read of rows that were deleted by their sign.
#[derive(Debug)]
struct Signed {
    sign: usize,
    sequence: usize,
    encoder: KeyEncoder,
}

/// The sequence values of rows that were deleted by their sign, as a column beside the rows of a batch.
#[derive(Debug)]
pub(crate) struct Past {
    /// The largest value among the deleted rows with each row's key.
    pub(crate) sequence: ArrayRef,
    /// Whether there is such a deleted row.
    pub(crate) has: Vec<bool>,
}

/// Rows with all their columns.
#[derive(Debug, Clone)]
pub struct Filled {
    /// The rows, in their order.
    pub batch: RecordBatch,
    /// Whether the table has no row with that key.
    pub is_new: BooleanArray,
}

/// Address of a row: its segment and its number in it.
pub(crate) type Address = (SegmentId, u32);

/// Result of looking up the keys of some rows.
pub(crate) struct LookedUp {
    pub(crate) keys: Keys,
    /// Whether each key has no NULL in a NOT NULL column.
    pub(crate) valid: Vec<bool>,
    /// The living row of the table with each key.
    pub(crate) found: Vec<Option<Address>>,
    /// Of keys without a living row.
    pub(crate) past: Option<Past>,
}

/// Rows of segments with the columns that a load does not bring, in the order of row numbers.
pub(crate) type Old = BTreeMap<SegmentId, (RoaringBitmap, RecordBatch)>;

impl Partial {
    /// Creates the filler for a load that brings the columns at `given` (indexes in the table's schema), computed on
    /// `state`.
    ///
    /// # Errors
    /// [`LoadError::Partial`] if the table is not UNIQUE or a key column is missing.
    pub fn try_new(
        table: Table,
        state: Arc<TableState>,
        given: &[usize],
        readers: Arc<Readers>,
        runtime: Handle,
    ) -> Result<Self, LoadError> {
        let schema = Arc::clone(state.schema());
        let refuse = |reason: String| Err(LoadError::Partial(reason));
        if schema.model != Model::Unique {
            return refuse("Only unique key merge on write support partial update".into());
        }
        if let Some(key) = (0..schema.keys).find(|k| !given.contains(k)) {
            let name = &schema.columns[key].name;
            return refuse(format!("Partial update should include all key columns, missing: {name}"));
        }
        let partitions: Vec<_> = state.partitions().cloned().collect();
        let sequence = schema.sequence.and_then(|id| schema.position(id)).filter(|at| !given.contains(at));
        let sign = schema.columns.iter().position(|c| c.name == DELETE_SIGN);
        let signed = match (sign, sequence) {
            (Some(sign), Some(sequence)) => {
                let encoder = KeyEncoder::try_new([&schema.columns[sequence].data_type]).map_err(SegmentError::from)?;
                Some(Signed { sign, sequence, encoder })
            }
            _ => None,
        };
        Ok(Partial {
            signed,
            keys: KeyEncoder::for_table(&schema).map_err(SegmentError::from)?,
            router: Router::try_new(&schema, &partitions)?,
            missing: (0..schema.columns.len()).filter(|c| !given.contains(c)).collect(),
            read: Mutex::default(),
            table,
            state,
            schema,
            readers,
            runtime,
        })
    }

    /// Completes rows by the missing columns of the table's rows. The batch has all columns of the table
    /// ([`Load::input_schema`]); the missing ones hold the values for new rows. Blocks; must not be called on async
    /// threads.
    ///
    /// # Errors
    /// [`LoadError::Segment`] if an object cannot be read or is damaged.
    pub fn fill(&self, batch: &RecordBatch) -> Result<Filled, LoadError> {
        let LookedUp { found, past, .. } = self.look_up(batch)?;
        let old = self.read(&found)?;
        // Source 0 is the batch itself, the others are the segments.
        let place: BTreeMap<SegmentId, usize> = old.keys().zip(1..).map(|(id, i)| (*id, i)).collect();
        let indexes: Vec<(usize, usize)> = found
            .iter()
            .enumerate()
            .map(|(row, at)| match at {
                // Rows are in ascending order, so a row's position is its rank.
                Some((segment, n)) => (place[segment], old[segment].0.rank(*n) as usize - 1),
                None => (0, row),
            })
            .collect();
        let mut columns = batch.columns().to_vec();
        for (i, column) in self.missing.iter().enumerate() {
            let mut sources: Vec<&dyn Array> = vec![batch.column(*column).as_ref()];
            sources.extend(old.values().map(|(_, batch)| batch.column(i).as_ref()));
            columns[*column] = interleave(&sources, &indexes)?;
        }
        if let (Some(signed), Some(past)) = (&self.signed, &past) {
            let indexes: Vec<_> = past.has.iter().enumerate().map(|(row, has)| (usize::from(*has), row)).collect();
            let sources: [&dyn Array; 2] = [columns[signed.sequence].as_ref(), past.sequence.as_ref()];
            columns[signed.sequence] = interleave(&sources, &indexes)?;
        }
        let is_new = found.iter().map(|at| Some(at.is_none())).collect();
        Ok(Filled { batch: RecordBatch::try_new(batch.schema(), columns)?, is_new })
    }

    /// Reads the missing columns of rows that were found, and records that the load was computed from these rows.
    pub(crate) fn read(&self, found: &[Option<Address>]) -> Result<Old, LoadError> {
        let mut wanted: BTreeMap<SegmentId, RoaringBitmap> = BTreeMap::new();
        for (segment, row) in found.iter().flatten() {
            wanted.entry(*segment).or_default().insert(*row);
        }
        let old = self.runtime.block_on(self.values(&wanted, &self.missing))?;
        let mut read = self.read.lock();
        for (segment, rows) in wanted {
            *read.entry(segment).or_default() |= rows;
        }
        Ok(old)
    }

    /// Returns the table's definition.
    pub(crate) fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Returns which rows have keys that neither the table has nor `is_first` has seen; it is asked row by row. A row
    /// whose key has a NULL in a NOT NULL column counts as new: it gets a value, or is rejected. Blocks; must not be
    /// called on async threads.
    ///
    /// # Errors
    /// [`LoadError::Segment`] if an object cannot be read or is damaged.
    pub fn unseen(
        &self,
        batch: &RecordBatch,
        mut is_first: impl FnMut(&[u8]) -> bool,
    ) -> Result<BooleanArray, LoadError> {
        let LookedUp { keys, valid, found, .. } = self.look_up(batch)?;
        let is_new = |row: usize| !valid[row] || found[row].is_none() && is_first(keys.get(row));
        Ok((0..batch.num_rows()).map(is_new).map(Some).collect())
    }

    /// Returns the rowset's statement about the rows that were read.
    pub fn reads(&self) -> Reads {
        Reads { seq: self.state.seq(), rows: self.read.lock().values().map(RoaringBitmap::len).sum() }
    }

    /// Pushes the rows of a refused rowset into another load, completed anew. `self` is made on a newer state, and
    /// `load` has a transaction of its own. Blocks; must not be called on async threads.
    ///
    /// # Errors
    /// [`LoadError::Partial`] if the caller must repeat the load, because a key does not exist or the definition has
    /// changed; [`LoadError::Segment`] if an object cannot be read; the errors of [`Load::push`].
    pub fn rebase(&self, rowset: &Rowset, load: &Load) -> Result<(), LoadError> {
        if rowset.objects.iter().any(|o| o.schema_version != self.schema.version) {
            return Err(LoadError::Partial("the table's definition was changed meanwhile; repeat the load".into()));
        }
        let columns: Vec<usize> = (0..self.schema.columns.len()).collect();
        let mut order = 0;
        for object in &rowset.objects {
            let path = self.table.data_path(object.id);
            let reader = self.runtime.block_on(self.readers.get(&path, object))?;
            for group in 0..reader.num_groups() {
                let scan = Scan::new(&self.schema, &columns);
                for batch in self.runtime.block_on(reader.scan_group(group, &scan, None))? {
                    let batch = RecordBatch::try_new(Arc::clone(load.input_schema()), batch?.columns().to_vec())?;
                    let filled = self.fill(&batch)?;
                    // It cannot be told whether a row is new, or existed when it was filled and has been deleted.
                    if filled.is_new.true_count() > 0 {
                        return Err(LoadError::Partial(
                            "rows that it completes were deleted meanwhile, or it brings new keys while others changed rows; repeat the load".into(),
                        ));
                    }
                    load.push(order, &[filled.batch])?;
                    order += 1;
                }
            }
        }
        Ok(())
    }

    /// Finds the keys of rows in the table.
    pub(crate) fn look_up(&self, batch: &RecordBatch) -> Result<LookedUp, LoadError> {
        let (tablets, valid) = self.tablets(batch)?;
        let keys = &batch.columns()[..self.schema.keys];
        let keys = self.keys.encode(keys).map_err(SegmentError::from)?;
        let lookups = (0..batch.num_rows()).map(|row| {
            let (tablet, key) = (tablets[row].filter(|_| valid[row]), keys.get(row));
            async move {
                match tablet {
                    Some(tablet) => self.find(tablet, key).await,
                    None => Ok((None, Vec::new())),
                }
            }
        });
        let found: Vec<_> = self.runtime.block_on(futures::stream::iter(lookups).buffered(LOOKUPS).try_collect())?;
        let (found, deleted): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        let past = self.past(&deleted)?;
        Ok(LookedUp { keys, valid, found, past })
    }

    /// Reads the sequence values of the deleted rows with each key; `None` if no row was deleted by its sign.
    fn past(&self, deleted: &[Vec<Address>]) -> Result<Option<Past>, LoadError> {
        let Some(signed) = self.signed.as_ref().filter(|_| deleted.iter().any(|rows| !rows.is_empty())) else {
            return Ok(None);
        };
        let mut wanted: BTreeMap<SegmentId, RoaringBitmap> = BTreeMap::new();
        for (segment, row) in deleted.iter().flatten() {
            wanted.entry(*segment).or_default().insert(*row);
        }
        let mut columns = [signed.sign, signed.sequence];
        columns.sort_unstable();
        let (sign, sequence) = if signed.sign < signed.sequence { (0, 1) } else { (1, 0) };
        let read = self.runtime.block_on(self.values(&wanted, &columns))?;
        let mut values = Vec::with_capacity(read.len());
        for (_, batch) in read.values() {
            values.push(signed.encoder.encode(&[Arc::clone(batch.column(sequence))]).map_err(SegmentError::from)?);
        }
        let places: BTreeMap<SegmentId, usize> = read.keys().zip(0..).map(|(id, place)| (*id, place)).collect();
        // The segment and row, in `read`, of each largest value.
        let largest = deleted.iter().map(|rows| {
            let rows = rows.iter().filter_map(|(segment, row)| {
                let (rows, batch) = read.get(segment)?;
                let at = rows.rank(*row) as usize - 1;
                let signs = batch.column(sign).as_primitive::<Int8Type>();
                (signs.is_valid(at) && signs.value(at) != 0).then_some((*places.get(segment)?, at))
            });
            rows.max_by(|a, b| values[a.0].get(a.1).cmp(values[b.0].get(b.1)))
        });
        let largest: Vec<Option<(usize, usize)>> = largest.collect();
        let none = new_null_array(&self.schema.columns[signed.sequence].data_type.to_arrow(), 1);
        let mut sources: Vec<&dyn Array> = vec![none.as_ref()];
        sources.extend(read.values().map(|(_, batch)| batch.column(sequence).as_ref()));
        let indexes: Vec<_> = largest.iter().map(|at| at.map_or((0, 0), |(place, row)| (place + 1, row))).collect();
        let sequence = interleave(&sources, &indexes)?;
        Ok(Some(Past { sequence, has: largest.iter().map(Option::is_some).collect() }))
    }

    /// Returns the tablet of each row, and whether its key has no NULL in a NOT NULL column.
    fn tablets(&self, batch: &RecordBatch) -> Result<(Vec<Option<Tablet>>, Vec<bool>), LoadError> {
        let rows = batch.num_rows();
        let tablet = |n: u32| (n != NOWHERE).then(|| self.router.tablet(n));
        let tablets = match self.router.route(batch, 0)? {
            Routed::One(n) => vec![tablet(n); rows],
            Routed::Rows(of) => of.into_iter().map(tablet).collect(),
        };
        let mut valid = vec![true; rows];
        for (column, array) in self.schema.key_columns().iter().zip(batch.columns()) {
            if !column.nullable && array.null_count() > 0 {
                valid.iter_mut().enumerate().for_each(|(row, v)| *v &= array.is_valid(row));
            }
        }
        Ok((tablets, valid))
    }

    /// Finds the living row with that key, of which there is at most one. Where there is none, the second result has the
    /// deleted rows with the key if their signs matter.
    async fn find(&self, tablet: Tablet, key: &[u8]) -> Result<(Option<Address>, Vec<Address>), LoadError> {
        let mut deleted = Vec::new();
        let mut segments: Vec<SegmentRef<'_>> = self.state.tablet_segments(tablet).collect();
        segments.sort_by_key(|s| std::cmp::Reverse(s.seq));
        for segment in segments {
            if key < segment.segment.key_min.as_slice() || key > segment.segment.key_max.as_slice() {
                continue;
            }
            let reader = self.reader(&segment).await?;
            let Some(row) = reader.find(segment.id.ordinal, key).await? else { continue };
            if segment.deleted.is_none_or(|d| !d.contains(row)) {
                return Ok((Some((segment.id, row)), Vec::new()));
            }
            if self.signed.is_some() {
                deleted.push((segment.id, row));
            }
        }
        Ok((None, deleted))
    }

    async fn reader(&self, segment: &SegmentRef<'_>) -> Result<Arc<ObjectReader>, LoadError> {
        Ok(self.readers.get(&self.table.data_path(segment.id.object), segment.object).await?)
    }

    /// Reads columns of some rows, by segment, in the order of rows.
    async fn values(&self, wanted: &BTreeMap<SegmentId, RoaringBitmap>, columns: &[usize]) -> Result<Old, LoadError> {
        let mut all = BTreeMap::new();
        for (id, rows) in wanted {
            // The segment was found in this state a moment ago.
            let Some(segment) = self.state.segment(*id) else { continue };
            let reader = self.reader(&segment).await?;
            let mut batches = Vec::new();
            let mut output = None;
            let first_group = segment.segment.first_group as usize;
            for group in first_group..first_group + segment.segment.groups as usize {
                let (_, first) = reader.group_segment(group);
                let count = reader.group_rows(group) as u32;
                if rows.range_cardinality(first..first + count) == 0 && output.is_some() {
                    continue;
                }
                let mut bits = BooleanBufferBuilder::new(count as usize);
                bits.append_n(count as usize, false);
                rows.range(first..first + count).for_each(|row| bits.set_bit((row - first) as usize, true));
                let bits = bits.finish();
                let scan = Scan { rows: Some(&bits), ..Scan::new(&self.schema, columns) };
                let found = reader.scan_group(group, &scan, None).await?;
                output.get_or_insert_with(|| Arc::clone(found.schema()));
                for batch in found {
                    batches.push(batch?);
                }
            }
            let Some(output) = output else { continue };
            all.insert(*id, (rows.clone(), concat_batches(&output, &batches)?));
        }
        Ok(all)
    }
}
