//! Loads that bring only some columns: rows whose key exists keep their values in the other columns.
//!
//! Values are read at one state of the table, and the rowset names that state ([`Rowset::reads`]). If one of the rows
//! has changed by the time of publishing, the rowset is refused, and [`Partial::rebase`] makes it anew from the current
//! state.
//!
//! A sequence column is an ordinary column: a row that does not bring it keeps the old value, and so replaces the old
//! row; a row that brings a smaller value than the table has loses to the old row when it is published, as whole rows
//! do.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::{Array, BooleanArray, RecordBatch};
use arrow_buffer::BooleanBufferBuilder;
use arrow_select::concat::concat_batches;
use arrow_select::interleave::interleave;
use dipper_store::key::{KeyEncoder, Keys};
use dipper_store::route::{NOWHERE, Routed, Router};
use dipper_store::segment::{ObjectReader, Readers, Scan};
use dipper_store::table::data::{SegmentId, Tablet};
use dipper_store::table::schema::{Model, TableSchema};
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
    /// Old rows whose values were used by the load.
    read: Mutex<BTreeMap<SegmentId, RoaringBitmap>>,
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
        Ok(Partial {
            keys: KeyEncoder::for_table(&schema).map_err(dipper_store::segment::SegmentError::from)?,
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
        let LookedUp { found, .. } = self.look_up(batch)?;
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
        let is_new = found.iter().map(|at| Some(at.is_none())).collect();
        Ok(Filled { batch: RecordBatch::try_new(batch.schema(), columns)?, is_new })
    }

    /// Reads the missing columns of rows that were found, and records that the load was computed from these rows.
    pub(crate) fn read(&self, found: &[Option<Address>]) -> Result<Old, LoadError> {
        let mut wanted: BTreeMap<SegmentId, RoaringBitmap> = BTreeMap::new();
        for (segment, row) in found.iter().flatten() {
            wanted.entry(*segment).or_default().insert(*row);
        }
        let old = self.runtime.block_on(self.values(&wanted))?;
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
        let LookedUp { keys, valid, found } = self.look_up(batch)?;
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
        let keys = self.keys.encode(keys).map_err(dipper_store::segment::SegmentError::from)?;
        let lookups = (0..batch.num_rows()).map(|row| {
            let (tablet, key) = (tablets[row].filter(|_| valid[row]), keys.get(row));
            async move {
                match tablet {
                    Some(tablet) => self.find(tablet, key).await,
                    None => Ok(None),
                }
            }
        });
        let found = self.runtime.block_on(futures::stream::iter(lookups).buffered(LOOKUPS).try_collect())?;
        Ok(LookedUp { keys, valid, found })
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

    /// Finds the living row with that key. There is at most one.
    async fn find(&self, tablet: Tablet, key: &[u8]) -> Result<Option<Address>, LoadError> {
        let mut segments: Vec<SegmentRef<'_>> = self.state.tablet_segments(tablet).collect();
        segments.sort_by_key(|s| std::cmp::Reverse(s.seq));
        for segment in segments {
            if key < segment.segment.key_min.as_slice() || key > segment.segment.key_max.as_slice() {
                continue;
            }
            let reader = self.reader(&segment).await?;
            if let Some(row) = reader.find(segment.id.ordinal, key).await?
                && segment.deleted.is_none_or(|d| !d.contains(row))
            {
                return Ok(Some((segment.id, row)));
            }
        }
        Ok(None)
    }

    async fn reader(&self, segment: &SegmentRef<'_>) -> Result<Arc<ObjectReader>, LoadError> {
        Ok(self.readers.get(&self.table.data_path(segment.id.object), segment.object).await?)
    }

    /// Reads the missing columns of some rows, by segment, in the order of rows.
    async fn values(&self, wanted: &BTreeMap<SegmentId, RoaringBitmap>) -> Result<Old, LoadError> {
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
                let scan = Scan { rows: Some(&bits), ..Scan::new(&self.schema, &self.missing) };
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
