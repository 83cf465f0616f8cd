//! Merge-on-write: the rows that are deleted because a load brings rows with the same keys.
//!
//! The newest of the rows with one key is kept: within a load the one in the later segment, and a row of the load
//! before all rows in the table. A sequence column takes precedence over age: the largest value is kept, of equal ones
//! the newest row, and NULL is the smallest. A row with the delete sign takes part like any other and is then deleted
//! itself, so that scans need no filter. Its key stays in the index, where later loads with smaller sequence values
//! still meet it.
//!
//! A load may bring a condition of its own ([`Rowset::condition`](crate::table::Rowset::condition)): a column that decides as
//! a sequence column would, but for this load only. Other loads may have lowered its values or removed the key, so only rows
//! that live count, and the answer is good for all of `old` or for nothing: one on a later state is not added to it. Rows
//! with the delete sign are not compared: they replace all before them, and any row behind them replaces them.
//!
//! The keys of a tablet are cut into ranges that are worked on in parallel. In each, the load's key runs are merged; the
//! keys that come of it are then looked up in each old segment. Where the load has so many keys for those that a segment
//! has there that reading all of them is cheaper, they are walked through side by side, else the segment is probed for
//! each key, filter first.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::task::Poll;

use arrow_array::cast::AsArray;
use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, RecordBatch};
use dipper_base::preempt;
use futures::future::Either;
use futures::stream::{self, StreamExt, TryStreamExt};
use object_store::path::Path;
use roaring::RoaringBitmap;
use tokio::runtime::Handle;

use crate::key::{KeyEncoder, Keys};
use crate::segment::{KeyIter, ObjectReader, Readers, Result, Scan, SegmentError, key_hash};
use crate::table::SegmentRef;
use crate::table::data::{DataObject, ObjectId, Rows, SegmentId, Tablet};
use crate::table::schema::{ColumnId, DELETE_SIGN, TableSchema};

/// Key blocks of an old segment that are read to save one probe, if requests take long to begin.
const BLOCKS_PER_PROBE: u64 = 8;
/// Keys of an old segment on this machine that are walked to save one probe. A probe walks half a block of up to 256
/// keys if the key is there, and costs as much as a key or two if the filter says no, as it mostly does in small
/// segments.
const KEYS_PER_PROBE: u64 = 16;
/// Keys that are looked up between two places where the CPU may be given up.
const PROBES_BETWEEN_POINTS: usize = 64;
/// Approximate rows of the load in a range.
const RANGE_ROWS: u64 = 256 * 1024;
/// Approximate bytes of the load's keys in a range; they are in memory. Tests have few keys, and need several ranges.
const RANGE_BYTES: u64 = if cfg!(test) { 64 << 10 } else { 16 << 20 };
/// Most rows of a load whose tablets are processed at the same time, which matters if each asks a remote store. For
/// larger loads the ranges of one tablet are processed at the same time. The memory for old segments grows with it.
const SMALL_ROWS: u64 = 64 * 1024;
/// Most ranges, tablets of a small load, and probes under way at once.
const AT_ONCE: usize = 8;

/// Most old segments that are opened, and whose keys are read, at once: each takes a request or two.
const OPENED_AT_ONCE: usize = 32;

/// A segment that takes part in the merge.
struct Run {
    id: SegmentId,
    reader: Arc<ObjectReader>,
    rows: u32,
    key_min: Vec<u8>,
    key_max: Vec<u8>,
    /// Order of age: larger is newer.
    age: (u64, SegmentId),
    new: bool,
    deleted: Option<Arc<RoaringBitmap>>,
}

impl Run {
    fn ordinal(&self) -> u32 {
        self.id.ordinal
    }
}

/// Rows (run, row) that share a key, at least two each, oldest first.
#[derive(Default)]
struct Groups {
    rows: Vec<(usize, u32)>,
    ends: Vec<usize>,
}

impl Groups {
    fn iter(&self) -> impl Iterator<Item = &[(usize, u32)]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.rows[start..*end])
    }
}

/// Returns the rows that a load deletes: rows of the load's own segments, and of `old`, the segments that it is to be
/// compared with (segments of other tablets, or without a common key, cost nothing).
///
/// `new` are the load's objects, all of them in the store, `condition` the column that it compares by, if it does; `path`
/// says where objects are. Bits that `old` already has are not in the answer.
///
/// # Errors
/// [`SegmentError`], mostly [`SegmentError::Store`] if the store fails.
pub async fn replaced<'a>(
    readers: &Readers,
    path: &(dyn Fn(ObjectId) -> Path + Sync),
    schema: &TableSchema,
    new: &[Arc<DataObject>],
    condition: Option<ColumnId>,
    old: impl IntoIterator<Item = SegmentRef<'a>>,
) -> Result<BTreeMap<SegmentId, Rows>> {
    let mut tablets: BTreeMap<Tablet, Vec<Run>> = BTreeMap::new();
    for object in new {
        let reader = readers.get(&path(object.id), object).await?;
        for (ordinal, segment) in object.segments.iter().enumerate() {
            let id = SegmentId { object: object.id, ordinal: ordinal as u32 };
            tablets.entry(segment.tablet).or_default().push(Run {
                id,
                reader: reader.clone(),
                rows: segment.rows,
                key_min: segment.key_min.clone(),
                key_max: segment.key_max.clone(),
                age: (u64::MAX, id),
                new: true,
                deleted: None,
            });
        }
    }
    let met = old.into_iter().filter(|old| {
        let segment = old.segment;
        // A smallest key may be cut, which leaves it a lower bound.
        let meets = |r: &Run| r.key_min <= segment.key_max && segment.key_min <= r.key_max;
        let runs = tablets.get(&segment.tablet).map(Vec::as_slice).unwrap_or_default();
        runs.iter().any(meets) && runs.iter().all(|r| r.id != old.id)
    });
    // Many at once: each may be a request to a remote store.
    let met: Vec<_> = met.collect();
    let mut opened = Vec::with_capacity(met.len());
    for old in met {
        let place = path(old.id.object);
        opened.push(async move { Ok::<_, SegmentError>((old, readers.get(&place, old.object).await?)) });
    }
    let opened: Vec<_> = stream::iter(opened).buffered(OPENED_AT_ONCE).try_collect().await?;
    for (old, reader) in opened {
        let segment = old.segment;
        tablets.entry(segment.tablet).or_default().push(Run {
            id: old.id,
            reader,
            rows: segment.rows,
            key_min: segment.key_min.clone(),
            key_max: segment.key_max.clone(),
            age: (old.seq, old.id),
            new: false,
            deleted: old.deleted.cloned(),
        });
    }
    let is_looked_up = tablets.values().flatten().any(|r| !r.new && r.reader.is_looked_up());
    let rows: u64 = tablets.values().flatten().filter(|r| r.new).map(|r| u64::from(r.rows)).sum();
    let at_once = if rows <= SMALL_ROWS { AT_ONCE } else { 1 };
    let bits = stream::iter(tablets.into_values().map(|runs| tablet(schema, condition, runs, readers.workers())))
        .buffer_unordered(at_once)
        .try_collect::<Vec<_>>()
        .await?;
    // The new keys are looked up next, so the object is warmed. Other commits wait for this one, so large loads are not
    // warmed.
    if let ([object], true) = (new, is_looked_up) {
        let reader = readers.get(&path(object.id), object).await?;
        on(readers.workers(), reader.path().clone(), move || reader.warm()).await?;
    }
    Ok(bits.into_iter().flatten().filter(|(_, rows)| !rows.is_empty()).map(|(id, rows)| (id, Rows(rows))).collect())
}

/// Returns the rows of a tablet's segments that are deleted.
async fn tablet(
    schema: &TableSchema,
    condition: Option<ColumnId>,
    mut runs: Vec<Run>,
    workers: Option<Handle>,
) -> Result<BTreeMap<SegmentId, RoaringBitmap>> {
    runs.sort_by_key(|r| r.age);
    assert!(runs.windows(2).all(|pair| pair[0].age < pair[1].age), "a segment takes part in a merge once");
    let runs = Arc::new(runs);
    let mut bits = BTreeMap::new();
    let sequence = condition.or(schema.sequence).and_then(|id| schema.position(id));
    let sign = schema.columns.iter().position(|c| c.name == DELETE_SIGN);
    let mut facts = Facts { schema, sequence, is_condition: condition.is_some(), sign, known: HashMap::new() };
    // One segment of a load alone has each key once.
    let borders = if runs.len() > 1 { borders(&runs)? } else { Vec::new() };
    let jobs = (0..borders.len())
        .map(|i| range(runs.clone(), workers.clone(), borders[i].clone(), borders.get(i + 1).cloned()));
    let mut jobs = stream::iter(jobs.collect::<Vec<_>>()).buffer_unordered(AT_ONCE);
    // No key is in two ranges: each range is decided as it arrives, so that few are in memory.
    while let Some(groups) = jobs.try_next().await? {
        decide(&groups, &runs, &mut facts, &mut bits).await?;
    }
    for (i, run) in runs.iter().enumerate().filter(|(_, r)| r.new) {
        if let Some(signed) = facts.signed_rows(&runs, i).await? {
            *bits.entry(run.id).or_default() |= signed;
        }
    }
    Ok(bits)
}

/// Sets the bits of all rows of each group except the row that wins.
async fn decide(
    groups: &Groups,
    runs: &[Run],
    facts: &mut Facts<'_>,
    bits: &mut BTreeMap<SegmentId, RoaringBitmap>,
) -> Result<()> {
    let mut candidates = Vec::new();
    for group in groups.iter() {
        let mut winner: Option<(usize, u32)> = None;
        for (run, row) in group.iter().copied() {
            let gone = runs[run].deleted.as_ref().is_some_and(|d| d.contains(row));
            // Deleted rows are past, but for tombstones where the table's sequence decides.
            let tombstones = facts.sequence.is_some() && !facts.is_condition;
            if gone && !(tombstones && facts.signed(runs, run, row).await?) {
                continue;
            }
            candidates.push((run, row));
            // Runs are in the order of age, and so are the rows of a group.
            winner = match winner {
                Some(best) if facts.stays(runs, best, (run, row)).await? => Some(best),
                _ => Some((run, row)),
            };
        }
        for (run, row) in candidates.drain(..) {
            if Some((run, row)) != winner && !runs[run].deleted.as_ref().is_some_and(|d| d.contains(row)) {
                bits.entry(runs[run].id).or_default().insert(row);
            }
        }
    }
    Ok(())
}

/// Returns the first keys of the ranges into which the keys of the new runs are cut. The first range starts before all
/// keys.
fn borders(runs: &[Run]) -> Result<Vec<Vec<u8>>> {
    let mut firsts: Vec<(Vec<u8>, u64)> = Vec::new();
    for run in runs.iter().filter(|r| r.new) {
        firsts.extend(run.reader.key_block_starts(run.ordinal())?);
    }
    firsts.sort_unstable();
    let mut borders = vec![Vec::new()];
    let (mut rows, mut bytes) = (0, 0);
    for (key, block_rows) in firsts {
        let block_bytes = key.len() as u64 * block_rows;
        if (rows >= RANGE_ROWS || bytes >= RANGE_BYTES) && borders.last() != Some(&key) {
            borders.push(key);
            (rows, bytes) = (0, 0);
        }
        (rows, bytes) = (rows + block_rows, bytes + block_bytes);
    }
    assert!(borders.is_sorted_by(|a, b| a < b), "no key is in two ranges");
    Ok(borders)
}

/// Does long work on an object on `workers`, or on this thread without them.
async fn on<T: Send + 'static>(
    workers: Option<Handle>,
    object: Path,
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let Some(workers) = workers else { return work() };
    workers.spawn_blocking(work).await.unwrap_or_else(|e| match e.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        // The runtime is shutting down.
        Err(e) => Err(SegmentError::Store { object: object.to_string(), source: e.into() }),
    })
}

/// Returns the groups of rows whose keys are in `from..to`.
async fn range(runs: Arc<Vec<Run>>, workers: Option<Handle>, from: Vec<u8>, to: Option<Vec<u8>>) -> Result<Groups> {
    let meets = |r: &Run| r.key_max >= from && to.as_ref().is_none_or(|to| r.key_min < *to);
    let blocks = |r: &Run| r.reader.key_blocks_between(r.ordinal(), &from, to.as_deref());
    let mut new_rows = 0;
    for run in runs.iter().filter(|r| r.new && meets(r)) {
        new_rows += run.reader.key_block_rows(run.ordinal(), blocks(run));
    }
    let (mut read, mut probed) = (Vec::new(), Vec::new());
    for (i, run) in runs.iter().enumerate().filter(|(_, r)| meets(r)) {
        let blocks = blocks(run);
        let dense = || match run.reader.is_remote() {
            true => new_rows * BLOCKS_PER_PROBE >= blocks.len() as u64,
            false => new_rows * KEYS_PER_PROBE >= run.reader.key_block_rows(run.ordinal(), blocks.clone()),
        };
        if run.new || dense() {
            read.push(async move { Ok::<_, SegmentError>((i, run.reader.keys_again(run.ordinal(), blocks).await?)) });
        } else {
            probed.push(i);
        }
    }
    let read: Vec<_> = stream::iter(read).buffered(OPENED_AT_ONCE).try_collect().await?;
    let shared = runs.clone();
    let work = move || {
        let (found, unread) = Matches::look(&shared, read, &probed, &from, to.as_deref())?;
        Ok::<_, SegmentError>(if unread.is_empty() {
            Either::Left(found.groups())
        } else {
            Either::Right((found, unread))
        })
    };
    let looked = on(workers, runs[0].reader.path().clone(), work).await?;
    let (mut found, unread) = match looked {
        Either::Left(groups) => return Ok(groups),
        Either::Right(part) => part,
    };
    // Fetches the blocks that were not at hand, mostly from a remote store.
    let (keys, runs) = (&found.keys, &runs);
    let probes = unread.into_iter().map(|(at, run)| async move {
        let row = runs[run].reader.find(runs[run].ordinal(), keys.get(at)).await?;
        Ok::<_, SegmentError>(row.map(|row| (at, run, row)))
    });
    let fetched: Vec<_> = stream::iter(probes.collect::<Vec<_>>()).buffer_unordered(AT_ONCE).try_collect().await?;
    found.old.extend(fetched.into_iter().flatten());
    Ok(found.groups())
}

/// The keys of a load in a range, each once, in order.
#[derive(Default)]
struct NewKeys {
    bytes: Vec<u8>,
    ends: Vec<usize>,
    heads: Vec<u128>,
    /// Rows (run, row) of the load, key by key, oldest first.
    rows: Vec<(usize, u32)>,
    /// Ends of the rows of each key in `rows`.
    row_ends: Vec<usize>,
}

impl NewKeys {
    fn len(&self) -> usize {
        self.ends.len()
    }

    fn get(&self, at: usize) -> &[u8] {
        &self.bytes[at.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[at]]
    }

    fn rows(&self, at: usize) -> &[(usize, u32)] {
        &self.rows[at.checked_sub(1).map_or(0, |before| self.row_ends[before])..self.row_ends[at]]
    }

    /// Adds a row whose key is not below those that were added before.
    fn push(&mut self, key: &[u8], head: u128, row: (usize, u32)) {
        let last = self.len().checked_sub(1);
        if last.is_none_or(|last| self.heads[last] != head || self.get(last) != key) {
            self.bytes.extend_from_slice(key);
            self.ends.push(self.bytes.len());
            self.heads.push(head);
            self.row_ends.push(self.rows.len());
        }
        self.rows.push(row);
        *self.row_ends.last_mut().expect("a key was pushed") = self.rows.len();
    }

    /// Walks all keys of a segment side by side with these, and adds the keys that are in both to `old`.
    fn walk(&self, run: usize, blocks: Vec<KeyIter>, old: &mut Vec<(usize, usize, u32)>) -> Result<()> {
        let mut at = 0;
        for mut block in blocks {
            preempt::yield_point();
            while let Some((key, row)) = block.advance()? {
                let wanted = head(key);
                while at < self.len() && (self.heads[at] < wanted || self.heads[at] == wanted && self.get(at) < key) {
                    at += 1;
                }
                if at == self.len() {
                    return Ok(());
                }
                if self.heads[at] == wanted && self.get(at) == key {
                    old.push((at, run, row));
                }
            }
        }
        Ok(())
    }
}

/// Keys of a load, and the rows of old segments with the same keys.
struct Matches {
    keys: NewKeys,
    /// Index of the key, and the row (run, row) of an old segment that has it.
    old: Vec<(usize, usize, u32)>,
}

impl Matches {
    /// Merges the load's runs among `read`, and looks for their keys in the others and in the `probed` ones. The second
    /// result lists the probes (key, run) that would have had to wait.
    fn look(
        runs: &[Run],
        read: Vec<(usize, Vec<KeyIter>)>,
        probed: &[usize],
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<(Matches, Vec<(usize, usize)>)> {
        let (new, read): (Vec<_>, Vec<_>) = read.into_iter().partition(|(run, _)| runs[*run].new);
        let keys = merge(new, from, to)?;
        let mut old = Vec::new();
        for (run, blocks) in read {
            keys.walk(run, blocks, &mut old)?;
        }
        let mut unread = Vec::new();
        if !probed.is_empty() {
            for at in 0..keys.len() {
                if at.is_multiple_of(PROBES_BETWEEN_POINTS) {
                    preempt::yield_point();
                }
                let key = keys.get(at);
                let hash = key_hash(key);
                for run in probed {
                    match runs[*run].reader.find_now(runs[*run].ordinal(), key, hash)? {
                        Poll::Ready(row) => old.extend(row.map(|row| (at, *run, row))),
                        Poll::Pending => unread.push((at, *run)),
                    }
                }
            }
        }
        Ok((Matches { keys, old }, unread))
    }

    fn groups(mut self) -> Groups {
        // In order run by run.
        self.old.sort();
        let mut old = self.old.into_iter().peekable();
        let mut groups = Groups::default();
        for at in 0..self.keys.len() {
            let before = groups.rows.len();
            // Old runs come before the load's.
            while let Some((_, run, row)) = old.next_if(|(key, ..)| *key == at) {
                groups.rows.push((run, row));
            }
            groups.rows.extend_from_slice(self.keys.rows(at));
            match groups.rows.len() - before {
                1 => groups.rows.truncate(before),
                _ => groups.ends.push(groups.rows.len()),
            }
        }
        assert!(old.next().is_none(), "each row that was found has one of the load's keys");
        groups
    }
}

/// Position of a run in the merge.
struct Cursor {
    run: usize,
    blocks: std::vec::IntoIter<KeyIter>,
    current: KeyIter,
    row: u32,
    /// The first 16 bytes of the key, with zeros after its end: most comparisons need no more.
    head: u128,
}

impl Cursor {
    /// Advances to the next key below `to`; returns false at the end.
    fn advance(&mut self, to: Option<&[u8]>) -> Result<bool> {
        loop {
            if let Some((key, row)) = self.current.advance()? {
                if to.is_some_and(|to| key >= to) {
                    return Ok(false);
                }
                self.row = row;
                self.head = head(key);
                return Ok(true);
            }
            match self.blocks.next() {
                Some(next) => self.current = next,
                None => return Ok(false),
            }
        }
    }

    fn key(&self) -> &[u8] {
        self.current.key()
    }

    fn compare(&self, other: &Self) -> Ordering {
        self.head.cmp(&other.head).then_with(|| self.key().cmp(other.key()))
    }
}

fn head(key: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    let n = key.len().min(16);
    bytes[..n].copy_from_slice(&key[..n]);
    u128::from_be_bytes(bytes)
}

/// Merges the key runs of a load.
fn merge(parts: Vec<(usize, Vec<KeyIter>)>, from: &[u8], to: Option<&[u8]>) -> Result<NewKeys> {
    let mut heap: Vec<Cursor> = Vec::new();
    for (run, blocks) in parts {
        let mut cursor = Cursor { run, blocks: blocks.into_iter(), current: KeyIter::default(), row: 0, head: 0 };
        let mut more = cursor.advance(to)?;
        while more && cursor.key() < from {
            more = cursor.advance(to)?;
        }
        if more {
            heap.push(cursor);
        }
    }
    // A binary heap by key, then by age.
    let less = |a: &Cursor, b: &Cursor| a.compare(b).then(a.run.cmp(&b.run)).is_lt();
    let sift = |heap: &mut Vec<Cursor>, mut at: usize| {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < heap.len() && less(&heap[child], &heap[least]) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            heap.swap(at, least);
            at = least;
        }
    };
    for at in (0..heap.len() / 2).rev() {
        sift(&mut heap, at);
    }
    let mut keys = NewKeys::default();
    while let Some(top) = heap.first_mut() {
        keys.push(top.key(), top.head, (top.run, top.row));
        if !top.advance(to)? {
            heap.swap_remove(0);
        }
        sift(&mut heap, 0);
    }
    Ok(keys)
}

/// Sequence values and delete signs of the segments where they matter, read when first needed.
struct Facts<'a> {
    schema: &'a TableSchema,
    sequence: Option<usize>,
    /// `sequence` is the load's condition.
    is_condition: bool,
    sign: Option<usize>,
    known: HashMap<usize, (Option<Keys>, Option<RoaringBitmap>)>,
}

impl Facts<'_> {
    async fn known(&mut self, runs: &[Run], run: usize) -> Result<&(Option<Keys>, Option<RoaringBitmap>)> {
        if !self.known.contains_key(&run) {
            let columns: Vec<usize> = self.sequence.into_iter().chain(self.sign).collect();
            let batch = column_values(self.schema, &columns, &runs[run]).await?;
            let sequence = match self.sequence {
                None => None,
                Some(place) => {
                    // Keys of one column: their order is that of the values, NULL first.
                    let encoder = KeyEncoder::try_new([&self.schema.columns[place].data_type])?;
                    Some(encoder.encode(&batch.columns()[..1])?)
                }
            };
            let signed = self.sign.map(|_| signed_rows(&batch));
            self.known.insert(run, (sequence, signed));
        }
        Ok(&self.known[&run])
    }

    async fn signed(&mut self, runs: &[Run], run: usize, row: u32) -> Result<bool> {
        Ok(self.known(runs, run).await?.1.as_ref().is_some_and(|s| s.contains(row)))
    }

    /// Returns the rows of a run with the delete sign.
    async fn signed_rows(&mut self, runs: &[Run], run: usize) -> Result<Option<RoaringBitmap>> {
        let Some(sign) = self.sign else { return Ok(None) };
        if let Some((_, signed)) = self.known.get(&run) {
            return Ok(signed.clone());
        }
        let reader = &runs[run].reader;
        let stats = reader.group_stats(reader.segment_groups(runs[run].ordinal()), &self.schema.columns[sign])?;
        let zero = |bounds: &ArrayRef| bounds.as_primitive::<Int8Type>().iter().all(|bound| bound == Some(0));
        if zero(&stats.min) && zero(&stats.max) {
            return Ok(None);
        }
        let batch = column_values(self.schema, &[sign], &runs[run]).await?;
        Ok(Some(signed_rows(&batch)))
    }

    /// Whether a row stays although a newer one has its key: its sequence value is larger.
    async fn stays(&mut self, runs: &[Run], old: (usize, u32), new: (usize, u32)) -> Result<bool> {
        if self.sequence.is_none() {
            return Ok(false);
        }
        if self.is_condition && (self.signed(runs, old.0, old.1).await? || self.signed(runs, new.0, new.1).await?) {
            return Ok(false);
        }
        self.known(runs, old.0).await?;
        self.known(runs, new.0).await?;
        let value = |(run, row): (usize, u32)| self.known[&run].0.as_ref().map(|keys| keys.get(row as usize));
        Ok(value(old) > value(new))
    }
}

/// Returns the rows whose last column, the delete sign, is set.
fn signed_rows(batch: &RecordBatch) -> RoaringBitmap {
    let signs = batch.column(batch.num_columns() - 1).as_primitive::<Int8Type>();
    signs.iter().zip(0u32..).filter(|(sign, _)| sign.is_some_and(|s| s != 0)).map(|(_, row)| row).collect()
}

/// Reads some columns of a whole segment.
async fn column_values(schema: &TableSchema, columns: &[usize], run: &Run) -> Result<RecordBatch> {
    let scan = Scan { batch_rows: usize::MAX, ..Scan::new(schema, columns) };
    let mut batches = Vec::new();
    for group in run.reader.segment_groups(run.ordinal()) {
        for batch in run.reader.scan_group(group, &scan, None).await? {
            batches.push(batch?);
        }
    }
    Ok(arrow_select::concat::concat_batches(&scan.output(), &batches)?)
}

#[cfg(test)]
#[path = "mow_tests.rs"]
mod tests;
