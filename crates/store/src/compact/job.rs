//! One compaction: reads segments, merges them, writes one object, and commits it.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_buffer::BooleanBufferBuilder;
use object_store::ObjectStoreExt;
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use tokio::runtime::Handle;

use super::policy::Pick;
use super::{CompactError, Options};
use crate::chain::TxnId;
use crate::merge::{RowMap, merge};
use crate::segment::{GroupScan, ObjectBuilder, ObjectReader, PageCache, Scan, SegmentError, WriteOptions};
use crate::table::data::{DataObject, ObjectId, Rows, SegmentId};
use crate::table::schema::{DELETE_SIGN, TableSchema};
use crate::table::{Deletes, Table, TableError, TableState};
use crate::upload::Upload;

/// Range of rows of a batch; the lower bound holds however little memory there is.
const BATCH_ROWS: Range<usize> = 256..8192;
/// Rows of a row group that are fetched at a time: about those of a page, since pages are fetched whole. Tests have
/// small segments, and need several slices.
pub(super) const SLICE_ROWS: usize = if cfg!(test) { 7 } else { 20_000 };
/// Approximate bytes in memory for each byte of a column in a segment.
const UNPACKED: u64 = 4;
/// Approximate memory of what is known of a merge's input, besides the row map.
const INPUT_BYTES: u64 = 256;

/// Counts of what compactions did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Segments merged.
    pub inputs: u64,
    /// Segments written.
    pub outputs: u64,
    /// Rows written.
    pub rows: u64,
    /// Bytes written.
    pub bytes: u64,
}

impl std::ops::AddAssign for Done {
    fn add_assign(&mut self, other: Self) {
        self.inputs += other.inputs;
        self.outputs += other.outputs;
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

/// Compacts the picks in one transaction. Dropped before its end it leaves at most an object that no version names.
pub(super) async fn run(
    table: &Table,
    state: Arc<TableState>,
    picks: Vec<Pick>,
    options: &Options,
    stop: Arc<AtomicBool>,
) -> Result<Done, CompactError> {
    let txn = table.begin();
    let job = Job {
        schema: Arc::clone(state.schema()),
        table: table.clone(),
        state,
        object: ObjectId { txn, index: 0 },
        memory_bytes: options.memory_bytes,
        segment_rows: options.policy.full_rows * 2,
        stop,
        readers: HashMap::new(),
        cache: PageCache::new(0),
        handle: Handle::current(),
    };
    let merged = tokio::task::spawn_blocking(move || job.write(picks)).await.map_err(|_| CompactError::Panicked)??;
    if let (Some(readers), Some(object)) = (&options.readers, &merged.object) {
        let reader = readers.get(&table.data_path(object.id), object).await?;
        let mut inputs = merged.tablets.iter().flat_map(|t| &t.inputs).map(|s| s.id.object);
        let was_looked_up = |id| readers.opened(&table.data_path(id)).is_some_and(|input| input.is_looked_up());
        if inputs.any(was_looked_up) {
            tokio::task::spawn_blocking(move || reader.warm()).await.map_err(|_| CompactError::Panicked)??;
        }
    }
    let written = merged.object.as_ref().map(|object| object.id);
    let done = commit(table, txn, merged).await;
    if let Some(id) = written.filter(|_| done.as_ref().is_err_and(CompactError::is_conflict)) {
        // Another writer has merged or removed the same segments: no version will name this object, and it need not
        // wait for a vacuum. If a version names it all the same, the answer to its commit was lost. A vacuum finds an
        // object that cannot be deleted here.
        let first = SegmentId { object: id, ordinal: 0 };
        if table.snapshot().segment(first).is_none() {
            let _ = table.store().delete(&table.data_path(id)).await;
        }
    }
    done
}

/// The written object, and where each row went.
struct Merged {
    object: Option<DataObject>,
    /// Inputs whose rows were all deleted.
    dropped: Vec<(SegmentId, Option<Arc<RoaringBitmap>>)>,
    tablets: Vec<MergedTablet>,
    /// Rows of the output that are deleted from the beginning.
    tombstones: Deletes,
}

#[derive(Clone)]
struct MergedTablet {
    inputs: Vec<Source>,
    map: Arc<RowMap>,
    /// Output segments with their numbers of rows, in order.
    outputs: Vec<(SegmentId, u32)>,
}

/// An input segment.
#[derive(Clone)]
struct Source {
    id: SegmentId,
    /// Deleted rows in the state that was read.
    deleted: Option<Arc<RoaringBitmap>>,
    /// Rows that were not read.
    skipped: Option<Arc<RoaringBitmap>>,
    /// Rows deleted since, in the numbering of the rows that were read.
    gone: RoaringBitmap,
}

async fn commit(table: &Table, txn: TxnId, merged: Merged) -> Result<Done, CompactError> {
    let Merged { object, dropped: mut inputs, tablets, tombstones } = merged;
    inputs.extend(tablets.iter().flat_map(|t| &t.inputs).map(|s| (s.id, s.deleted.clone())));
    let done = Done {
        inputs: inputs.len() as u64,
        outputs: object.as_ref().map_or(0, |o| o.segments.len() as u64),
        rows: tablets.iter().map(|t| u64::from(t.map.rows())).sum(),
        bytes: object.as_ref().map_or(0, |o| o.bytes),
    };
    let kept = tablets.clone();
    let moving = table.moving(
        inputs.iter().map(|(id, _)| *id),
        tablets.iter().flat_map(|t| &t.outputs).map(|(id, _)| *id),
        tablets.iter().map(|t| t.map.bytes()).sum::<u64>() + inputs.len() as u64 * INPUT_BYTES,
        Box::new(move |rows| carry(&mut kept.clone(), rows).ok()),
    );
    // Rows that were deleted meanwhile may be many.
    let tablets = Arc::new(Mutex::new(tablets));
    let carry = |added: Deletes| {
        let tablets = Arc::clone(&tablets);
        async move {
            let carried = tokio::task::spawn_blocking(move || carry(&mut tablets.lock(), added)).await;
            carried.map_err(|_| CompactError::Panicked)?
        }
    };
    match table.compact(txn, inputs, object.into_iter().map(Arc::new).collect(), tombstones, carry).await {
        Ok(_) => Ok(done),
        Err(e) => {
            if matches!(e, TableError::Refused(_) | TableError::Resolve(_)) {
                moving.refused();
            }
            Err(e.into())
        }
    }
}

/// Maps deleted rows of the inputs to rows of the outputs.
fn carry(tablets: &mut [MergedTablet], mut added: Deletes) -> Result<Deletes, CompactError> {
    let mut deletes = Deletes::new();
    for tablet in tablets {
        let mut any = false;
        for source in &mut tablet.inputs {
            let Some(rows) = added.remove(&source.id) else { continue };
            any = true;
            let skipped = source.skipped.as_deref();
            let read = rows.0.iter().filter(|row| skipped.is_none_or(|s| !s.contains(*row)));
            source.gone.extend(read.map(|row| row - skipped.map_or(0, |s| s.rank(row) as u32)));
        }
        if !any {
            continue;
        }
        let gone: Vec<RoaringBitmap> = tablet.inputs.iter().map(|s| s.gone.clone()).collect();
        let rows = tablet.map.translate(&gone).ok_or(CompactError::PartDeleted)?;
        let rows_out: u64 = tablet.outputs.iter().map(|(_, rows)| u64::from(*rows)).sum();
        assert_eq!(rows_out, u64::from(tablet.map.rows()), "the row map has the rows that were written");
        let mut first = 0;
        for (id, len) in &tablet.outputs {
            let mut own = RoaringBitmap::new();
            own.extend(rows.range(first..first + len).map(|row| row - first));
            if !own.is_empty() {
                deletes.insert(*id, Rows(own));
            }
            first += len;
        }
    }
    Ok(deletes)
}

struct Job {
    schema: Arc<TableSchema>,
    table: Table,
    state: Arc<TableState>,
    object: ObjectId,
    memory_bytes: u64,
    segment_rows: u64,
    stop: Arc<AtomicBool>,
    readers: HashMap<ObjectId, Arc<ObjectReader>>,
    /// Pages are read once and need no cache.
    cache: Arc<PageCache>,
    handle: Handle,
}

impl Job {
    /// Merges and writes the object. Uses the CPU and waits for the store, so it runs on a thread that may block.
    fn write(mut self, picks: Vec<Pick>) -> Result<Merged, CompactError> {
        let path = self.table.data_path(self.object);
        let store = |source| CompactError::Store { path: path.to_string(), source };
        let mut upload = Upload::new(Arc::clone(self.table.store()), path.clone());
        let written = self.write_to(picks, &mut |handle, data| handle.block_on(upload.write(data)).map_err(store));
        match &written {
            Ok(merged) if merged.object.is_some() => self.handle.block_on(upload.finish()).map_err(store)?,
            _ => self.handle.block_on(upload.abort()),
        }
        written
    }

    fn write_to(
        &mut self,
        picks: Vec<Pick>,
        out: &mut dyn FnMut(&Handle, Vec<bytes::Bytes>) -> Result<(), CompactError>,
    ) -> Result<Merged, CompactError> {
        let options = Arc::new(WriteOptions::try_new(Arc::clone(&self.schema))?);
        let mut builder = ObjectBuilder::new(options, self.object);
        // Deleted rows stay if, by their sequence, they decide over rows that are still to come.
        let sign = self.schema.sequence.and(self.schema.columns.iter().position(|c| c.name == DELETE_SIGN));
        let mut tombstones = Deletes::new();
        let mut tablets = Vec::with_capacity(picks.len());
        let mut dropped = Vec::new();
        let mut any = false;
        for (tablet, window) in picks.iter().flat_map(|p| p.windows.iter().map(|w| (p.tablet, w))) {
            let batch_rows = self.batch_rows(window);
            let (inputs, runs) = self.open(window, batch_rows, sign, &mut dropped)?;
            let mut merge = merge(&self.schema, runs, batch_rows)?.with_row_map();
            let mut outputs: Vec<(SegmentId, u32)> = Vec::new();
            let mut is_open = false;
            for batch in merge.by_ref() {
                if self.stop.load(Ordering::Relaxed) {
                    return Err(CompactError::Stopped);
                }
                let batch = batch?;
                if outputs.last().is_none_or(|(_, rows)| u64::from(*rows) >= self.segment_rows) {
                    out(&self.handle, builder.end_segment()?)?;
                    let ordinal = builder.segments() as u32;
                    outputs.push((SegmentId { object: self.object, ordinal }, 0));
                }
                let (id, rows) = outputs.last_mut().expect("pushed above");
                if let Some(sign) = sign {
                    note_tombstones(&batch, sign, *id, *rows, &mut tombstones);
                }
                out(&self.handle, builder.push(tablet, &batch)?)?;
                *rows += batch.num_rows() as u32;
                is_open = true;
            }
            if is_open {
                out(&self.handle, builder.end_segment()?)?;
                any = true;
            }
            tablets.push(MergedTablet { inputs, map: Arc::new(merge.row_map()), outputs });
        }
        let mut object = None;
        if any {
            let (data, described, _) = builder.finish()?;
            let outputs = tablets.iter().flat_map(|tablet| &tablet.outputs);
            assert!(
                outputs.map(|(_, rows)| *rows).eq(described.segments.iter().map(|segment| segment.rows)),
                "the segments of the object are the outputs of the merges, in their order"
            );
            out(&self.handle, data)?;
            object = Some(described);
        }
        Ok(Merged { object, dropped, tablets, tombstones })
    }

    /// Returns the number of rows of a batch for which all runs' batches fit half of the memory; the other half is for
    /// pages.
    fn batch_rows(&self, window: &[SegmentId]) -> usize {
        let segments = || window.iter().filter_map(|id| self.state.segment(*id)).map(|s| s.segment);
        let (bytes, rows) =
            (segments().map(|s| s.bytes).sum::<u64>(), segments().map(|s| u64::from(s.rows)).sum::<u64>());
        let row_bytes = (bytes * UNPACKED / rows.max(1)).max(16);
        // A run holds a batch and the one before it.
        let rows = self.memory_bytes / 2 / (row_bytes * 2 * window.len().max(1) as u64);
        usize::try_from(rows).unwrap_or(usize::MAX).clamp(BATCH_ROWS.start, BATCH_ROWS.end)
    }

    fn open(
        &mut self,
        window: &[SegmentId],
        batch_rows: usize,
        sign: Option<usize>,
        dropped: &mut Vec<(SegmentId, Option<Arc<RoaringBitmap>>)>,
    ) -> Result<(Vec<Source>, Vec<SegmentRun>), CompactError> {
        let columns: Arc<[usize]> = (0..self.schema.columns.len()).collect();
        let mut sources = Vec::with_capacity(window.len());
        let mut runs = Vec::with_capacity(window.len());
        for id in window {
            let s = self.state.segment(*id).ok_or(CompactError::Gone { segment: *id })?;
            let groups = s.segment.first_group as usize..(s.segment.first_group + s.segment.groups) as usize;
            let deleted = s.deleted.cloned();
            let object = Arc::clone(s.object);
            let mut skipped = deleted.clone();
            if s.live_rows() == 0 && sign.is_none() {
                dropped.push((*id, deleted));
                continue;
            }
            let reader = self.reader(&object)?;
            let run = |columns, skipped| SegmentRun {
                reader: Arc::clone(&reader),
                schema: Arc::clone(&self.schema),
                columns,
                groups: groups.clone(),
                done: 0,
                skipped,
                scan: None,
                batch_rows,
                handle: self.handle.clone(),
            };
            if let (Some(sign), Some(rows)) = (sign, &mut skipped) {
                let mut at = 0;
                for batch in run([sign].into(), None) {
                    let batch = batch?;
                    for row in tombstones_of(&batch, 0) {
                        Arc::make_mut(rows).remove(at + row);
                    }
                    at += batch.num_rows() as u32;
                }
            }
            runs.push(run(Arc::clone(&columns), skipped.clone()));
            sources.push(Source { id: *id, deleted, skipped, gone: RoaringBitmap::new() });
        }
        Ok((sources, runs))
    }

    fn reader(&mut self, object: &DataObject) -> Result<Arc<ObjectReader>, CompactError> {
        if let Some(reader) = self.readers.get(&object.id) {
            return Ok(Arc::clone(reader));
        }
        let path = self.table.data_path(object.id);
        let reader = self.handle.block_on(ObjectReader::open(self.table.store(), &path, object, &self.cache))?;
        self.readers.insert(object.id, Arc::clone(&reader));
        Ok(reader)
    }
}

/// Returns the rows whose delete sign, in that column, is set.
fn tombstones_of(batch: &RecordBatch, sign: usize) -> impl Iterator<Item = u32> {
    let signs = batch.column(sign).as_primitive::<Int8Type>();
    signs.iter().zip(0..).filter(|(sign, _)| sign.is_some_and(|s| s != 0)).map(|(_, row)| row)
}

fn note_tombstones(batch: &RecordBatch, sign: usize, id: SegmentId, first: u32, deletes: &mut Deletes) {
    let mut rows = tombstones_of(batch, sign).peekable();
    if rows.peek().is_some() {
        deletes.entry(id).or_default().0.extend(rows.map(|row| first + row));
    }
}

/// Iterator over the rows of a segment that are not skipped, batch by batch.
struct SegmentRun {
    reader: Arc<ObjectReader>,
    schema: Arc<TableSchema>,
    columns: Arc<[usize]>,
    /// Row groups still to be read, and the number of rows of the first one that were read.
    groups: Range<usize>,
    done: usize,
    skipped: Option<Arc<RoaringBitmap>>,
    scan: Option<GroupScan>,
    batch_rows: usize,
    handle: Handle,
}

impl Iterator for SegmentRun {
    type Item = Result<RecordBatch, SegmentError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.scan.as_mut().and_then(Iterator::next) {
                return Some(batch);
            }
            // Its pages are freed before the next ones are fetched.
            self.scan = None;
            if self.groups.is_empty() {
                return None;
            }
            let (group, from) = (self.groups.start, self.done);
            let rows = self.reader.group_rows(group);
            let to = rows.min(from + SLICE_ROWS);
            self.done = to;
            if to == rows {
                (self.groups.start, self.done) = (group + 1, 0);
            }
            assert!(from < to && to <= rows, "a slice of a row group has rows of it");
            let mut slice = BooleanBufferBuilder::new(rows);
            slice.append_n(from, false);
            slice.append_n(to - from, true);
            slice.append_n(rows - to, false);
            let slice = slice.finish();
            let scan = Scan {
                deleted: self.skipped.as_deref(),
                batch_rows: self.batch_rows,
                rows: (to - from < rows).then_some(&slice),
                ..Scan::new(&self.schema, &self.columns)
            };
            match self.handle.block_on(self.reader.scan_group(group, &scan, None)) {
                Ok(scan) => self.scan = Some(scan),
                Err(e) => return Some(Err(e)),
            }
        }
    }
}
