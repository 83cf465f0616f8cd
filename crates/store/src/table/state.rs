//! The state of a table at one version of its chain.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::change::{Deletes, Replaced, Rowset, TableChange};
use super::data::{ColumnStats, ObjectId, SegmentId, Tablet, arc_list};
use super::error::Refused;
use super::schema::{ColumnId, Model, Partition, PartitionId, TableSchema};
use super::segments::{Item, SegmentRef, Segments};
use super::stats::Stats;
use crate::chain::{State, TxnId};

/// How long a removed object can still be read by processes that hold an older state; longer than any query.
pub const READING_WINDOW_MS: i64 = 3_600_000;
/// How long the outcome of a prepared load is remembered: as long as its label.
pub const OUTCOMES_KEPT_MS: i64 = 3 * 24 * 3_600_000;
/// Number of things in one piece of a [`Queue`].
const QUEUE_PIECE: usize = 1024;

/// A table at one version. It is a value: the cost of cloning does not grow with the table, and nothing changes under a
/// reader.
#[derive(Clone, Debug, PartialEq)]
pub struct TableState {
    /// `None` until the table is created.
    pub(super) schema: Option<Arc<TableSchema>>,
    pub(super) created_ms: i64,
    pub(super) dropped_ms: Option<i64>,
    pub(super) partitions: Arc<BTreeMap<PartitionId, Arc<Partition>>>,
    pub(super) next_partition: PartitionId,
    pub(super) segments: Segments,
    /// Number of rows that are not deleted, in partitions that are not temporary.
    pub(super) rows: u64,
    pub(super) seq: u64,
    pub(super) changed_ms: i64,
    pub(super) stats: Stats,
    pub(super) next_auto_increment: i64,
    pub(super) prepared: Arc<BTreeMap<TxnId, Arc<Prepared>>>,
    /// Objects that were part of the table and are not any more.
    pub(super) removed: Queue<ObjectId>,
    /// Prepared loads that ended: true for a commit.
    pub(super) outcomes: Queue<(TxnId, bool)>,
}

impl Default for TableState {
    fn default() -> Self {
        Self {
            schema: None,
            created_ms: 0,
            dropped_ms: None,
            partitions: Arc::default(),
            next_partition: 0,
            segments: Segments::default(),
            rows: 0,
            seq: 0,
            changed_ms: 0,
            stats: Stats::default(),
            next_auto_increment: 1,
            prepared: Arc::default(),
            removed: Queue::default(),
            outcomes: Queue::default(),
        }
    }
}

/// A load that waits for its commit or abort.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prepared {
    /// The rows of the load, and which rows they replace.
    pub rowset: Rowset,
    /// When it was prepared, milliseconds since 1970, UTC.
    pub at_ms: i64,
}

/// Things with the time at which they were added, oldest first, in pieces that states share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent, bound(serialize = "T: Serialize", deserialize = "T: Deserialize<'de>"))]
pub(super) struct Queue<T>(#[serde(with = "arc_list")] Vec<Arc<Vec<(T, i64)>>>);

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Clone> Queue<T> {
    pub fn push(&mut self, thing: T, at_ms: i64) {
        match self.0.last_mut() {
            Some(piece) if piece.len() < QUEUE_PIECE => Arc::make_mut(piece).push((thing, at_ms)),
            _ => self.0.push(Arc::new(vec![(thing, at_ms)])),
        }
    }

    /// Forgets pieces of which all things were added before that time.
    pub fn forget(&mut self, before_ms: i64) {
        let old = |piece: &Arc<Vec<(T, i64)>>| piece.iter().all(|(_, at)| *at < before_ms);
        let pieces = self.0.iter().take_while(|p| old(p)).count();
        self.0.drain(..pieces);
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &(T, i64)> {
        self.0.iter().flat_map(|p| p.iter())
    }
}

impl TableState {
    /// Returns the definition. Before the table is created, which no [`Table`](super::Table) shows, that of a table
    /// without columns.
    pub fn schema(&self) -> &Arc<TableSchema> {
        static NONE: std::sync::LazyLock<Arc<TableSchema>> = std::sync::LazyLock::new(|| {
            Arc::new(TableSchema { version: 0, buckets: None, ..TableSchema::new(Model::Duplicate, Vec::new(), 0) })
        });
        self.schema.as_ref().unwrap_or(&NONE)
    }

    /// Returns whether another state of the same table has the same definition and partitions: what was derived from
    /// them then holds for both.
    pub fn same_definition(&self, other: &Self) -> bool {
        match (&self.schema, &other.schema) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b) && Arc::ptr_eq(&self.partitions, &other.partitions),
            _ => false,
        }
    }

    /// Returns true once the table is created, also after it was dropped.
    pub fn is_created(&self) -> bool {
        self.schema.is_some()
    }

    /// Returns true if the table was dropped: it has no rows and accepts no change.
    pub fn is_dropped(&self) -> bool {
        self.dropped_ms.is_some()
    }

    /// Returns the time of creation in milliseconds since 1970, UTC.
    pub fn created_ms(&self) -> i64 {
        self.created_ms
    }

    /// Returns when rows last came in or were removed, in milliseconds since 1970, UTC; the time of creation if they
    /// never did.
    pub fn changed_ms(&self) -> i64 {
        self.changed_ms
    }

    /// Returns the partitions that take part in queries and loads, in the order of their ids.
    pub fn partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.partitions.values().filter(|p| !p.temporary)
    }

    /// Returns the temporary partitions, in the order of their ids.
    pub fn temporary_partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.partitions.values().filter(|p| p.temporary)
    }

    /// Returns the partition of that name, temporary or not, compared without regard to case.
    pub fn partition_by_name(&self, name: &str) -> Option<&Arc<Partition>> {
        self.partitions.values().find(|p| p.name.eq_ignore_ascii_case(name))
    }

    /// Returns the partition with that id, temporary or not.
    pub fn partition(&self, id: PartitionId) -> Option<&Arc<Partition>> {
        self.partitions.get(&id)
    }

    pub(super) fn is_temporary(&self, id: PartitionId) -> bool {
        self.partitions.get(&id).is_some_and(|p| p.temporary)
    }

    /// Returns all segments, including those of temporary partitions, in the order of their ids. This is the order in
    /// which the transactions began, not of their commits: [`SegmentRef::seq`] says which is newer.
    pub fn all_segments(&self) -> impl Iterator<Item = SegmentRef<'_>> {
        self.segments.iter().map(Item::as_ref)
    }

    /// Returns the segments that a query of the table reads, in the order of their ids.
    pub fn segments(&self) -> impl Iterator<Item = SegmentRef<'_>> {
        self.all_segments().filter(|s| !self.is_temporary(s.segment.tablet.partition))
    }

    /// Returns the segments of a tablet, in the order of their ids.
    pub fn tablet_segments(&self, tablet: Tablet) -> impl Iterator<Item = SegmentRef<'_>> {
        self.segments.tablet(tablet).map(Item::as_ref)
    }

    /// Returns the segments that later commits made part of the table: `SegmentRef::added > seq`.
    pub fn segments_added_after(&self, seq: u64) -> impl Iterator<Item = SegmentRef<'_>> {
        self.segments.added_after(seq).map(Item::as_ref)
    }

    /// Returns a segment by its name.
    pub fn segment(&self, id: SegmentId) -> Option<SegmentRef<'_>> {
        self.segments.get(id).map(Item::as_ref)
    }

    /// Returns the number of segments, including those of temporary partitions.
    pub fn segment_count(&self) -> usize {
        self.segments.len()
    }

    /// Returns the exact number of rows that are not deleted, without temporary partitions.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the number of commits that brought segments, by load or compaction.
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// Returns the statistics of a column. Bounds hold for all rows. Counts are over [`stats_rows`](Self::stats_rows)
    /// rows, and are exact if that equals [`rows`](Self::rows), when nothing was deleted since the table was last
    /// empty.
    pub fn stats(&self, column: ColumnId) -> Option<&Arc<ColumnStats>> {
        self.stats.columns.get(&column)
    }

    /// Returns the number of rows that [`stats`](Self::stats) describes.
    pub fn stats_rows(&self) -> u64 {
        self.stats.rows
    }

    /// Returns the loads that were prepared and neither committed nor aborted, in the order of their ids.
    pub fn prepared(&self) -> &BTreeMap<TxnId, Arc<Prepared>> {
        &self.prepared
    }

    /// Returns how a prepared load ended: true if it was committed. `None` if it is still prepared, was never prepared,
    /// or ended longer ago than labels are kept.
    pub fn prepared_outcome(&self, txn: TxnId) -> Option<bool> {
        self.outcomes.iter().rev().find(|((t, _), _)| *t == txn).map(|((_, committed), _)| *committed)
    }

    /// Returns all outcomes that [`prepared_outcome`](Self::prepared_outcome) knows, oldest first.
    pub fn prepared_outcomes(&self) -> impl Iterator<Item = (TxnId, bool)> {
        self.outcomes.iter().map(|(outcome, _)| *outcome)
    }

    /// Returns the next value of AUTO_INCREMENT that nobody has reserved.
    pub fn next_auto_increment(&self) -> i64 {
        self.next_auto_increment
    }

    /// Returns objects that were part of the table, with the time of their removal in milliseconds since 1970, UTC.
    pub fn removed(&self) -> impl Iterator<Item = (ObjectId, i64)> + '_ {
        self.removed.iter().copied()
    }

    /// Returns true if an object is part of the table or of a prepared load.
    pub fn names_object(&self, id: ObjectId) -> bool {
        self.segments.has_object(id)
            || self.prepared.get(&id.txn).is_some_and(|p| p.rowset.objects.iter().any(|o| o.id == id))
    }

    /// Returns the state with the rows of a load that is not committed, and without `deletes`: the state that the
    /// load's own transaction sees. Partitions that were made since, and that the load may have rows for, are taken
    /// from `newest`.
    ///
    /// # Errors
    /// The [`Refused`] that says why the load does not fit the definition.
    pub fn with_uncommitted(&self, rowset: &Rowset, deletes: Deletes, newest: &Self) -> Result<Self, Refused> {
        let mut state = self.clone();
        if newest.partitions.keys().any(|id| !state.partitions.contains_key(id)) {
            let own = Arc::make_mut(&mut state.partitions);
            for (id, partition) in newest.partitions.iter() {
                own.entry(*id).or_insert_with(|| Arc::clone(partition));
            }
        }
        let replaced = Some(Replaced { base: self.seq, deletes, after: None });
        let rowset = Rowset { reads: None, ..rowset.clone() };
        state.apply(&TableChange::Load { rowset, replaced, at_ms: self.changed_ms })?;
        Ok(state)
    }

    /// Returns the number of live rows of these entries, without those in temporary partitions.
    pub(super) fn count(&self, items: &[Item]) -> u64 {
        let counted = items.iter().filter(|i| !self.is_temporary(i.segment().tablet.partition));
        counted.map(|i| i.as_ref().live_rows()).sum()
    }
}

/// The state as a checkpoint stores it, without its segments.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    schema: Option<TableSchema>,
    created_ms: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    dropped_ms: Option<i64>,
    #[serde(with = "arc_list")]
    partitions: Vec<Arc<Partition>>,
    next_partition: PartitionId,
    seq: u64,
    changed_ms: i64,
    stats_rows: u64,
    #[serde(with = "arc_list")]
    stats: Vec<Arc<ColumnStats>>,
    next_auto_increment: i64,
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "arc_list")]
    prepared: Vec<Arc<Prepared>>,
    #[serde(default = "Queue::default")]
    removed: Queue<ObjectId>,
    #[serde(default = "Queue::default")]
    outcomes: Queue<(TxnId, bool)>,
}

impl Serialize for TableState {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Stored {
            schema: self.schema.as_deref().cloned(),
            created_ms: self.created_ms,
            dropped_ms: self.dropped_ms,
            partitions: self.partitions.values().cloned().collect(),
            next_partition: self.next_partition,
            seq: self.seq,
            changed_ms: self.changed_ms,
            stats_rows: self.stats.rows,
            stats: self.stats.columns.values().cloned().collect(),
            next_auto_increment: self.next_auto_increment,
            prepared: self.prepared.values().cloned().collect(),
            removed: self.removed.clone(),
            outcomes: self.outcomes.clone(),
        }
        .serialize(to)
    }
}

impl<'de> Deserialize<'de> for TableState {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let s = Stored::deserialize(from)?;
        let columns = s.stats.into_iter().map(|c| (c.column, c)).collect();
        Ok(Self {
            schema: s.schema.map(Arc::new),
            created_ms: s.created_ms,
            dropped_ms: s.dropped_ms,
            partitions: Arc::new(s.partitions.into_iter().map(|p| (p.id, p)).collect()),
            next_partition: s.next_partition,
            // Segments are read as parts of the checkpoint.
            segments: Segments::default(),
            rows: 0,
            seq: s.seq,
            changed_ms: s.changed_ms,
            stats: Stats { rows: s.stats_rows, columns: Arc::new(columns) },
            next_auto_increment: s.next_auto_increment,
            prepared: Arc::new(s.prepared.into_iter().map(|p| (p.rowset.txn, p)).collect()),
            removed: s.removed,
            outcomes: s.outcomes,
        })
    }
}
