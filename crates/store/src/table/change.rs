//! Changes of a table, and how they alter its state.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use dipper_base::types::SqlType;
use serde::{Deserialize, Serialize};

use super::data::{ColumnStats, DataObject, ObjectId, Rows, SegmentId, Tablet, arc_list};
use super::error::Refused;
use super::order::{overlap, same_cover};
use super::schema::{Bounds, ColumnId, Model, Partition, PartitionId, TableSchema};
use super::segments::{Item, Part, Segments, entries};
use super::state::{OUTCOMES_KEPT_MS, Prepared, READING_WINDOW_MS, TableState};
use super::stats::Stats;
use crate::chain::{Shared, TxnId};

/// Rows to delete, by segment.
pub type Deletes = BTreeMap<SegmentId, Rows>;

/// Adds rows to others.
pub(crate) fn union(into: &mut Deletes, more: Deletes) {
    for (id, rows) in more {
        into.entry(id).or_default().0 |= rows.0;
    }
}

/// The rows that a load replaces as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Replace {
    /// The load replaces nothing: rows are added.
    #[default]
    None,
    /// All rows that are in these partitions when the load is committed.
    Partitions(Vec<PartitionId>),
    /// All rows of the table, without temporary partitions.
    All,
}

/// The old rows whose values a load was computed from: by UPDATE or for partial columns, or all rows that the load
/// replaces ([`Rowset::replaces`]) if an overwriting query read the table. The load is refused if they changed since,
/// or if rows that it has not seen were added to those that it replaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reads {
    /// [`TableState::seq`] of the state that the rows were read from.
    pub seq: u64,
    /// Number of rows read; the load replaces each of them. A load that replaces whole partitions or tables read all
    /// their rows.
    pub rows: u64,
}

/// The rows of a load. A rowset that replaces rows by key is passed to [`Table::publish_replacing`](super::Table).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rowset {
    /// Transaction of the load; the objects carry it in their names.
    pub txn: TxnId,
    /// The objects, all of them durable.
    #[serde(with = "arc_list")]
    pub objects: Vec<Arc<DataObject>>,
    /// Column statistics over all rows of the load.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stats: Vec<ColumnStats>,
    /// Rows that the load replaces as a whole.
    #[serde(default)]
    pub replaces: Replace,
    /// Label that the load was begun with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// The least next value of AUTO_INCREMENT after the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_increment: Option<i64>,
    /// Old rows that the load was computed from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Reads>,
    /// A column whose values say, as a sequence column's do, which rows of this load replace those that they meet: the ones
    /// whose value is not smaller. Rows with the delete sign are not compared. From format 2 on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ColumnId>,
}

/// Merge-on-write: the rows that a load deletes, computed on the state with `seq` equal to `base`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Replaced {
    /// [`TableState::seq`] of the state. The change is refused if segments were added to the load's tablets since.
    pub base: u64,
    /// Rows of older segments, and of the load's own.
    pub deletes: Deletes,
    /// Set if the state was the one after the load with this segment, which was not committed yet: the change is
    /// refused unless that load is the newest one in `base`. Only checked before the commit, so no record has it.
    #[serde(skip)]
    pub after: Option<SegmentId>,
}

/// An input of a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The segment.
    pub segment: SegmentId,
    /// Number of deleted rows when the segment was read, or up to which later deletions were carried over into the
    /// output.
    pub deleted_rows: u64,
}

/// A change of a table. It names the conditions that it was computed on, and is refused where they do not hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum TableChange {
    /// The first change of a chain.
    Create {
        /// Definition.
        schema: TableSchema,
        /// Partitions with their ids.
        partitions: Vec<Partition>,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// Adds the rows of a load.
    Load {
        /// Rows of the load.
        rowset: Rowset,
        /// Rows that the load deletes; `None` for a load that replaces no rows by key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<Replaced>,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// Stores a load until it is committed or aborted.
    Prepare {
        /// Rows of the load.
        rowset: Rowset,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// Adds the rows of a prepared load.
    CommitPrepared {
        /// The load's transaction.
        txn: TxnId,
        /// Rows that the load deletes, see [`TableChange::Load`].
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<Replaced>,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// Forgets a prepared load.
    AbortPrepared {
        /// The load's transaction.
        txn: TxnId,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// Deletes rows.
    Delete {
        /// Partitions that were searched for the rows; empty for the whole table.
        partitions: Vec<PartitionId>,
        /// The rows, with the state they were computed on.
        replaced: Replaced,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// Replaces segments by others with the same rows.
    Compact {
        /// The segments that were read.
        inputs: Vec<Input>,
        /// The objects that were written: the inputs' rows that were not deleted.
        #[serde(with = "arc_list")]
        outputs: Vec<Arc<DataObject>>,
        /// Rows of outputs that were deleted in their inputs after these were read.
        deletes: Deletes,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// Replaces the definition. Columns keep their ids.
    Schema {
        /// Version of the definition that the new one is made from.
        expected: u64,
        /// The new definition; its version is the next one.
        schema: TableSchema,
    },
    /// Adds partitions, with ids that the state assigns.
    AddPartitions {
        /// The partitions; their `id` is ignored.
        partitions: Vec<Partition>,
        /// Whether partitions whose name or whose values exist already are left out instead of refused (IF NOT EXISTS,
        /// AUTO PARTITION).
        if_not_exists: bool,
        /// Whether a partition whose name belongs to a partition of other values gets a free name, made of its own and
        /// its id (AUTO PARTITION).
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        free_names: bool,
    },
    /// Drops partitions with their rows.
    DropPartitions {
        /// The partitions.
        partitions: Vec<PartitionId>,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// Renames a partition.
    RenamePartition {
        /// The partition.
        partition: PartitionId,
        /// Its new name.
        name: String,
    },
    /// Replaces partitions by temporary ones. The replaced partitions are dropped with their rows.
    ReplacePartitions {
        /// The partitions that are replaced.
        partitions: Vec<PartitionId>,
        /// The temporary partitions that replace them.
        by: Vec<PartitionId>,
        /// Whether to refuse the change unless both sets hold the same values.
        strict_range: bool,
        /// Whether each replacing partition takes the name of the partition at its position.
        keep_names: bool,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// Sets (`Some`) and removes (`None`) properties of partitions.
    PartitionProperties {
        /// The partitions.
        partitions: Vec<PartitionId>,
        /// The properties.
        properties: BTreeMap<String, Option<String>>,
    },
    /// Removes all rows that are in the table when the change is committed.
    Truncate {
        /// Partitions to empty; `None` for the whole table without temporary partitions.
        partitions: Option<Vec<PartitionId>>,
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
    /// Reserves values of AUTO_INCREMENT.
    ReserveAutoIncrement {
        /// First reserved value: the next value of the state.
        from: i64,
        /// Number of reserved values.
        values: u64,
    },
    /// Makes a version, and with it a newer horizon, and forgets objects that were removed before a time.
    Forget {
        /// Milliseconds since 1970, UTC.
        removed_before_ms: i64,
    },
    /// Drops the table: all rows and prepared loads go, and every later change is refused.
    Tombstone {
        /// Milliseconds since 1970, UTC.
        at_ms: i64,
    },
}

impl crate::chain::State for TableState {
    type Change = TableChange;
    type Error = Refused;
    type Part = Part;
    const FORMAT: u16 = 5;

    fn parts(&self) -> Vec<Arc<Shared<Part>>> {
        self.segments.parts().to_vec()
    }

    fn without_parts(&self) -> Self {
        Self { segments: Segments::default(), rows: 0, ..self.clone() }
    }

    fn with_parts(mut self, parts: Vec<Arc<Shared<Part>>>) -> Result<Self, String> {
        self.segments = Segments::from_parts(parts)?;
        self.rows = self.segments().map(|s| s.live_rows()).sum();
        Ok(self)
    }

    fn apply(&mut self, change: &TableChange) -> Result<bool, Refused> {
        if let TableChange::Create { schema, partitions, at_ms } = change {
            return self.create(schema, partitions, *at_ms);
        }
        if self.schema.is_none() {
            return Err(Refused::NotCreated);
        }
        if self.is_dropped() {
            // Dropping a dropped table changes nothing.
            return if matches!(change, TableChange::Tombstone { .. }) { Ok(false) } else { Err(Refused::Dropped) };
        }
        match change {
            TableChange::Create { .. } => Err(Refused::AlreadyCreated),
            TableChange::Load { rowset, replaced, at_ms } => self.load(rowset, replaced.as_ref(), *at_ms),
            TableChange::Prepare { rowset, at_ms } => self.prepare(rowset, *at_ms),
            TableChange::CommitPrepared { txn, replaced, at_ms } => {
                let prepared = self.take_prepared(*txn, true, *at_ms)?;
                self.load(&prepared.rowset, replaced.as_ref(), *at_ms)
            }
            TableChange::AbortPrepared { txn, at_ms } => {
                let prepared = self.take_prepared(*txn, false, *at_ms)?;
                prepared.rowset.objects.iter().for_each(|o| self.removed.push(o.id, *at_ms));
                Ok(true)
            }
            TableChange::Delete { partitions, replaced, at_ms } => {
                let within = |t: Tablet| partitions.is_empty() || partitions.contains(&t.partition);
                self.check_base(replaced, within)?;
                let deleted = self.delete(&replaced.deletes, *at_ms)?;
                Ok(deleted > 0)
            }
            TableChange::Compact { inputs, outputs, deletes, at_ms } => self.compact(inputs, outputs, deletes, *at_ms),
            TableChange::Schema { expected, schema } => self.alter(*expected, schema),
            TableChange::AddPartitions { partitions, if_not_exists, free_names } => {
                self.add_partitions(partitions, *if_not_exists, *free_names)
            }
            TableChange::DropPartitions { partitions, at_ms } => {
                self.check_partitions(partitions)?;
                self.clear(|t| partitions.contains(&t.partition), *at_ms);
                let all = Arc::make_mut(&mut self.partitions);
                partitions.iter().for_each(|p| drop(all.remove(p)));
                Ok(!partitions.is_empty())
            }
            TableChange::RenamePartition { partition, name } => self.rename_partition(*partition, name),
            TableChange::ReplacePartitions { partitions, by, strict_range, keep_names, at_ms } => {
                self.replace_partitions(partitions, by, *strict_range, *keep_names, *at_ms)
            }
            TableChange::PartitionProperties { partitions, properties } => {
                self.check_partitions(partitions)?;
                self.partition_properties(partitions, properties)
            }
            TableChange::Truncate { partitions, at_ms } => {
                match partitions {
                    None => self.clear_table(*at_ms),
                    Some(list) => {
                        self.check_partitions(list)?;
                        self.clear(|t| list.contains(&t.partition), *at_ms);
                    }
                }
                self.changed_ms = self.changed_ms.max(*at_ms);
                Ok(true)
            }
            TableChange::ReserveAutoIncrement { from, values } => {
                if *from != self.next_auto_increment {
                    return Err(Refused::AutoIncrementMoved { expected: *from, found: self.next_auto_increment });
                }
                let next = i64::try_from(*values).ok().and_then(|n| from.checked_add(n));
                self.next_auto_increment = next
                    .ok_or_else(|| Refused::Invalid(format!("AUTO_INCREMENT has no {values} values after {from}")))?;
                Ok(*values > 0)
            }
            TableChange::Forget { removed_before_ms } => {
                self.removed.forget(*removed_before_ms);
                Ok(true)
            }
            TableChange::Tombstone { at_ms } => {
                self.clear(|_| true, *at_ms);
                // The drop covers all objects of the table's directory.
                self.prepared = Arc::default();
                self.removed = Default::default();
                self.dropped_ms = Some(*at_ms);
                Ok(true)
            }
        }
    }
}

impl TableState {
    fn create(&mut self, schema: &TableSchema, partitions: &[Partition], at_ms: i64) -> Result<bool, Refused> {
        if self.schema.is_some() {
            return Err(Refused::AlreadyCreated);
        }
        check_schema(schema)?;
        self.schema = Some(Arc::new(schema.clone()));
        self.created_ms = at_ms;
        self.changed_ms = at_ms;
        if let Some(first) = schema.columns.iter().find_map(|c| c.auto_increment) {
            self.next_auto_increment = first;
        }
        for p in partitions {
            self.check_partition(p, None)?;
            self.next_partition = self.next_partition.max(p.id.saturating_add(1));
            if Arc::make_mut(&mut self.partitions).insert(p.id, Arc::new(p.clone())).is_some() {
                return Err(Refused::Invalid(format!("two partitions have the id {}", p.id)));
            }
        }
        Ok(true)
    }

    fn alter(&mut self, expected: u64, schema: &TableSchema) -> Result<bool, Refused> {
        let old = Arc::clone(self.schema());
        if old.version != expected {
            return Err(Refused::SchemaChanged { expected, found: old.version });
        }
        if schema.version != expected + 1 {
            let found = schema.version;
            return Err(Refused::Invalid(format!("version {} of the definition follows, not {found}", expected + 1)));
        }
        check_schema(schema)?;
        if schema.next_column < old.next_column {
            return Err(Refused::Invalid("a definition cannot free the ids of columns".into()));
        }
        let reused = |c: &&super::schema::TableColumn| c.id < old.next_column && old.position(c.id).is_none();
        if let Some(c) = schema.columns.iter().find(reused) {
            return Err(Refused::Invalid(format!("column \"{}\" has the id of a dropped one", c.name)));
        }
        self.stats.follow(&old, schema);
        self.schema = Some(Arc::new(schema.clone()));
        Ok(true)
    }

    fn prepare(&mut self, rowset: &Rowset, at_ms: i64) -> Result<bool, Refused> {
        self.check_load(rowset)?;
        let prepared = Arc::new(Prepared { rowset: rowset.clone(), at_ms });
        if Arc::make_mut(&mut self.prepared).insert(rowset.txn, prepared).is_some() {
            return Err(Refused::Invalid(format!("transaction {} is prepared already", rowset.txn)));
        }
        Ok(true)
    }

    fn take_prepared(&mut self, txn: TxnId, committed: bool, at_ms: i64) -> Result<Arc<Prepared>, Refused> {
        if !self.prepared.contains_key(&txn) {
            return Err(Refused::NotPrepared { txn });
        }
        self.outcomes.forget(at_ms - OUTCOMES_KEPT_MS);
        self.outcomes.push((txn, committed), at_ms);
        Arc::make_mut(&mut self.prepared).remove(&txn).ok_or(Refused::NotPrepared { txn })
    }

    /// Checks that a load's objects belong to it, are new, and fit the partitions, buckets and definition.
    fn check_load(&self, rowset: &Rowset) -> Result<(), Refused> {
        let mut ids = BTreeSet::new();
        for o in &rowset.objects {
            if o.id.txn != rowset.txn {
                return Err(Refused::Invalid(format!("object {} is not of transaction {}", o.id, rowset.txn)));
            }
            if !ids.insert(o.id) || self.names_object(o.id) {
                return Err(Refused::ObjectExists { object: o.id });
            }
            self.check_object(o)?;
        }
        if let Replace::Partitions(list) = &rowset.replaces {
            self.check_partitions(list)?;
        }
        // It may have been dropped since the rows were written, or while they were prepared.
        if rowset.condition.is_some_and(|id| self.schema().position(id).is_none()) {
            return Err(Refused::Invalid("the column that the load's rows are compared by was dropped".into()));
        }
        Ok(())
    }

    fn check_object(&self, o: &DataObject) -> Result<(), Refused> {
        let version = self.schema().version;
        if o.schema_version > version {
            return Err(Refused::SchemaChanged { expected: o.schema_version, found: version });
        }
        for s in &o.segments {
            let p = s.tablet.partition;
            let there = self.partitions.get(&p);
            let there = there.ok_or_else(|| Refused::PartitionNotFound { partition: p.to_string() })?;
            if s.tablet.bucket >= there.buckets {
                return Err(Refused::NoTablet { tablet: s.tablet });
            }
        }
        Ok(())
    }

    fn load(&mut self, rowset: &Rowset, replaced: Option<&Replaced>, at_ms: i64) -> Result<bool, Refused> {
        self.check_load(rowset)?;
        let merged = rowset.reads.filter(|_| rowset.replaces == Replace::None);
        if let (None, Some(reads)) = (merged, &rowset.reads) {
            self.check_overwritten(&rowset.replaces, reads)?;
        }
        match &rowset.replaces {
            Replace::None => {}
            Replace::Partitions(list) => self.clear(|t| list.contains(&t.partition), at_ms),
            Replace::All => self.clear_table(at_ms),
        }
        if let Some(r) = replaced {
            let tablets: BTreeSet<Tablet> =
                rowset.objects.iter().flat_map(|o| o.segments.iter().map(|s| s.tablet)).collect();
            self.check_base(r, |t| tablets.contains(&t))?;
            if let Some(reads) = merged {
                self.check_reads(rowset, &reads, &r.deletes)?;
            }
        } else if self.schema().model == Model::Unique || merged.is_some() {
            return Err(Refused::Invalid("a load that replaces rows by key says which rows it deletes".into()));
        }
        self.seq += 1;
        let seq = self.seq;
        let mut rows = 0;
        for object in &rowset.objects {
            rows += object.segments.iter().map(|s| u64::from(s.rows)).sum::<u64>();
            let items = entries(object, 0..object.segments.len() as u32, seq, |_| seq);
            self.rows += self.count(&items);
            self.segments.insert(items);
        }
        if let Some(r) = replaced {
            self.delete(&r.deletes, at_ms)?;
        }
        let schema = Arc::clone(self.schema());
        self.stats.add(&schema, rows, &rowset.stats);
        if let Some(next) = rowset.auto_increment {
            self.next_auto_increment = self.next_auto_increment.max(next);
        }
        self.changed_ms = self.changed_ms.max(at_ms);
        self.removed.forget(at_ms - 2 * READING_WINDOW_MS);
        Ok(true)
    }

    /// Checks that no segment came into these tablets after the base.
    fn check_base(&self, replaced: &Replaced, within: impl Fn(Tablet) -> bool) -> Result<(), Refused> {
        let base = replaced.base;
        if let Some(after) = replaced.after {
            // Another commit may have taken that number.
            let found = self.segments.get(after).map_or(self.seq, |i| i.added);
            if found != base || !self.segments.has_object(after.object) {
                return Err(Refused::Moved { base, found });
            }
        }
        if base > self.seq {
            return Err(Refused::Invalid(format!("computed on commit {base}, the newest is {}", self.seq)));
        }
        let found = self.segments.added_after(base).filter(|i| within(i.segment().tablet)).map(|i| i.added).max();
        found.map_or(Ok(()), |found| Err(Refused::Moved { base, found }))
    }

    /// Every old row that was read is there, alive, and was there when it was read; or its successor has lost to it, by a
    /// smaller value of the sequence column or of the load's condition.
    fn check_reads(&self, rowset: &Rowset, reads: &Reads, deletes: &Deletes) -> Result<(), Refused> {
        let mut found = 0;
        let mut lost = 0;
        for (id, rows) in deletes.iter() {
            if id.object.txn == rowset.txn {
                lost += rows.0.len();
                continue;
            }
            let Some(item) = self.segments.get(*id) else { continue };
            let alive = match &item.deleted {
                Some(dead) => rows.0.len() - rows.0.intersection_len(dead),
                None => rows.0.len(),
            };
            if alive > 0 && item.seq > reads.seq {
                return Err(Refused::RowsChanged { expected: reads.rows, found: 0 });
            }
            found += alive;
        }
        let compared = self.schema().sequence.is_some() || rowset.condition.is_some();
        let lost = if compared { lost } else { 0 };
        match found <= reads.rows && reads.rows <= found + lost {
            true => Ok(()),
            false => Err(Refused::RowsChanged { expected: reads.rows, found }),
        }
    }

    /// Checks that the rows that an overwriting query read are still exactly those that it replaces.
    fn check_overwritten(&self, replaces: &Replace, reads: &Reads) -> Result<(), Refused> {
        let within = |t: Tablet| match replaces {
            Replace::None => false,
            Replace::Partitions(list) => list.contains(&t.partition),
            Replace::All => !self.is_temporary(t.partition),
        };
        let mut found = 0;
        for item in self.all_segments().filter(|s| within(s.segment.tablet)) {
            // A compaction gives its output the age of the youngest segment that it read.
            if item.seq > reads.seq {
                return Err(Refused::RowsChanged { expected: reads.rows, found: 0 });
            }
            found += item.live_rows();
        }
        // Fewer rows are also the result of a compaction of an AGGREGATE table over the same rows; DELETE and TRUNCATE
        // of some of them look alike.
        match found == reads.rows {
            true => Ok(()),
            false => Err(Refused::RowsChanged { expected: reads.rows, found }),
        }
    }

    /// Marks rows as deleted; returns the number of them that were alive. A segment without living rows stays: its keys
    /// still decide by their sequence until a compaction drops it.
    fn delete(&mut self, deletes: &Deletes, at_ms: i64) -> Result<u64, Refused> {
        let mut total = 0;
        for (id, rows) in deletes {
            let temporary = |s: &Self, p| s.partitions.get(&p).is_some_and(|p| p.temporary);
            let item = self.segments.get(*id).ok_or(Refused::SegmentGone { segment: *id })?;
            let (own, partition) = (item.segment().rows, item.segment().tablet.partition);
            if rows.0.max().is_some_and(|last| last >= own) {
                return Err(Refused::Invalid(format!(
                    "segment {id} has {own} rows, not one of number {:?}",
                    rows.0.max()
                )));
            }
            let added = item.deleted.as_ref().map_or(rows.0.len(), |d| rows.0.len() - d.intersection_len(&rows.0));
            if added == 0 {
                continue;
            }
            let counts = !temporary(self, partition);
            if let Some(item) = self.segments.get_mut(*id) {
                let deleted = item.deleted.get_or_insert_default();
                *Arc::make_mut(deleted) |= &rows.0;
            }
            let counted = if counts { added } else { 0 };
            assert!(self.rows >= counted, "rows that are deleted were counted");
            self.rows -= counted;
            total += added;
        }
        if total > 0 {
            self.changed_ms = self.changed_ms.max(at_ms);
        }
        Ok(total)
    }

    fn compact(
        &mut self,
        inputs: &[Input],
        outputs: &[Arc<DataObject>],
        deletes: &Deletes,
        at_ms: i64,
    ) -> Result<bool, Refused> {
        let mut ages: HashMap<Tablet, u64> = HashMap::new();
        let mut gone = Vec::with_capacity(inputs.len());
        let mut rows_in = 0;
        for input in inputs {
            let Input { segment, deleted_rows } = *input;
            let item = self.segments.remove(segment).ok_or(Refused::SegmentGone { segment })?;
            let found = item.as_ref().deleted_rows();
            if found != deleted_rows {
                return Err(Refused::DeletesMoved { segment, expected: deleted_rows, found });
            }
            let age = ages.entry(item.segment().tablet).or_default();
            *age = item.seq.max(*age);
            rows_in += item.as_ref().live_rows();
            gone.push(item);
        }
        let counted = self.count(&gone);
        assert!(self.rows >= counted, "rows of the inputs were counted");
        self.rows -= counted;
        self.forget_objects(&gone, at_ms);
        self.seq += 1;
        let added = self.seq;
        let mut rows_out = 0;
        for object in outputs {
            if self.names_object(object.id) {
                return Err(Refused::ObjectExists { object: object.id });
            }
            self.check_object(object)?;
            if let Some(s) = object.segments.iter().find(|s| !ages.contains_key(&s.tablet)) {
                return Err(Refused::Invalid(format!("no input of the compaction is in tablet {:?}", s.tablet)));
            }
            let items = entries(object, 0..object.segments.len() as u32, added, |s| ages[&s.tablet]);
            self.rows += self.count(&items);
            rows_out += items.iter().map(|i| u64::from(i.segment().rows)).sum::<u64>();
            self.segments.insert(items);
        }
        let changed_ms = self.changed_ms;
        rows_out -= self.delete(deletes, at_ms)?;
        self.changed_ms = changed_ms; // For a reader nothing changed.
        // Where rows of one key are merged, fewer come out.
        let merges = self.schema().model != Model::Duplicate;
        if rows_out > rows_in || rows_out < rows_in && !merges {
            return Err(Refused::Invalid(format!("{rows_in} rows went into the compaction and {rows_out} came out")));
        }
        Ok(true)
    }

    /// Removes the segments of some tablets.
    fn clear(&mut self, gone: impl Fn(Tablet) -> bool, at_ms: i64) {
        let gone = self.segments.retain(|i| !gone(i.segment().tablet));
        let counted = self.count(&gone);
        assert!(self.rows >= counted, "rows of segments that go were counted");
        self.rows -= counted;
        self.forget_objects(&gone, at_ms);
        if self.segments.len() == 0 {
            self.stats = Stats::default();
        }
    }

    fn clear_table(&mut self, at_ms: i64) {
        let temporary: BTreeSet<PartitionId> = self.temporary_partitions().map(|p| p.id).collect();
        self.clear(|t| !temporary.contains(&t.partition), at_ms);
    }

    /// Records the objects that have no segment left as removed.
    fn forget_objects(&mut self, gone: &[Item], at_ms: i64) {
        let objects: BTreeSet<ObjectId> = gone.iter().map(|i| i.id.object).collect();
        for id in objects {
            if !self.segments.has_object(id) {
                self.removed.push(id, at_ms);
            }
        }
    }

    fn check_partitions(&self, ids: &[PartitionId]) -> Result<(), Refused> {
        match ids.iter().find(|id| !self.partitions.contains_key(id)) {
            Some(id) => Err(Refused::PartitionNotFound { partition: id.to_string() }),
            None => Ok(()),
        }
    }

    fn partition_types(&self) -> Vec<SqlType> {
        let schema = self.schema();
        let columns = schema.partition_by.iter().flat_map(|p| &p.columns);
        columns.filter_map(|id| schema.position(*id)).map(|at| schema.columns[at].data_type.clone()).collect()
    }

    /// Checks that name, buckets and values of a partition fit beside the others of its kind; the partition `but` is
    /// left out.
    fn check_partition(&self, p: &Partition, but: Option<PartitionId>) -> Result<(), Refused> {
        if p.name.is_empty() || p.buckets == 0 {
            return Err(Refused::Invalid(format!("partition \"{}\" has no name or no buckets", p.name)));
        }
        if (p.bounds == Bounds::All) != self.schema().partition_by.is_none() {
            let name = &p.name;
            return Err(Refused::Invalid(format!("partition \"{name}\" does not fit how the table is partitioned")));
        }
        let types = self.partition_types();
        let types: Vec<&SqlType> = types.iter().collect();
        for other in self.partitions.values().filter(|o| Some(o.id) != but) {
            if other.name.eq_ignore_ascii_case(&p.name) {
                return Err(Refused::PartitionExists { partition: p.name.clone() });
            }
            if other.temporary != p.temporary {
                continue;
            }
            match overlap(&types, &p.bounds, &other.bounds) {
                Some(false) => {}
                Some(true) => {
                    let (partition, other) = (p.name.clone(), other.name.clone());
                    return Err(Refused::PartitionsOverlap { partition, other });
                }
                None => {
                    let name = &p.name;
                    return Err(Refused::Invalid(format!("partition \"{name}\" has values of another type")));
                }
            }
        }
        Ok(())
    }

    fn add_partitions(
        &mut self,
        partitions: &[Partition],
        if_not_exists: bool,
        free_names: bool,
    ) -> Result<bool, Refused> {
        let mut changed = false;
        for p in partitions {
            let mut p = p.clone();
            if free_names && self.partition_by_name(&p.name).is_some_and(|o| o.bounds != p.bounds) {
                p.name = format!("{}_{}", p.name, self.next_partition);
                while self.partition_by_name(&p.name).is_some() {
                    p.name.push('_');
                }
            }
            let p = &p;
            match self.check_partition(p, None) {
                Ok(()) => {}
                Err(Refused::PartitionExists { .. } | Refused::PartitionsOverlap { .. }) if if_not_exists => {
                    // The same values under another name are accepted; values that overlap in part are not.
                    let same = |o: &&Arc<Partition>| o.temporary == p.temporary && o.bounds == p.bounds;
                    if self.partition_by_name(&p.name).is_none() && !self.partitions.values().any(|o| same(&o)) {
                        self.check_partition(p, None)?;
                    }
                    continue;
                }
                Err(e) => return Err(e),
            }
            let id = self.next_partition;
            let next = id.checked_add(1);
            self.next_partition = next.ok_or_else(|| Refused::Invalid("no partition ids are left".into()))?;
            Arc::make_mut(&mut self.partitions).insert(id, Arc::new(Partition { id, ..p.clone() }));
            changed = true;
        }
        Ok(changed)
    }

    fn rename_partition(&mut self, id: PartitionId, name: &str) -> Result<bool, Refused> {
        self.check_partitions(&[id])?;
        let taken = self.partitions.values().any(|o| o.id != id && o.name.eq_ignore_ascii_case(name));
        if taken {
            return Err(Refused::PartitionExists { partition: name.to_string() });
        }
        if name.is_empty() {
            return Err(Refused::Invalid("a partition's name is empty".into()));
        }
        self.alter_partition(id, |p| {
            let changed = p.name != name;
            p.name = name.to_string();
            changed
        })
    }

    fn alter_partition(&mut self, id: PartitionId, f: impl FnOnce(&mut Partition) -> bool) -> Result<bool, Refused> {
        let found = Arc::make_mut(&mut self.partitions).get_mut(&id);
        let found = found.ok_or_else(|| Refused::PartitionNotFound { partition: id.to_string() })?;
        Ok(f(Arc::make_mut(found)))
    }

    fn partition_properties(
        &mut self,
        ids: &[PartitionId],
        properties: &BTreeMap<String, Option<String>>,
    ) -> Result<bool, Refused> {
        let mut changed = false;
        for id in ids {
            changed |= self.alter_partition(*id, |p| {
                let before = p.properties.clone();
                for (key, value) in properties {
                    match value {
                        Some(v) => drop(p.properties.insert(key.clone(), v.clone())),
                        None => drop(p.properties.remove(key)),
                    }
                }
                p.properties != before
            })?;
        }
        Ok(changed)
    }

    fn replace_partitions(
        &mut self,
        ids: &[PartitionId],
        by: &[PartitionId],
        strict_range: bool,
        keep_names: bool,
        at_ms: i64,
    ) -> Result<bool, Refused> {
        self.check_partitions(ids)?;
        self.check_partitions(by)?;
        let pick = |list: &[PartitionId]| -> Vec<Arc<Partition>> {
            list.iter().filter_map(|id| self.partitions.get(id).cloned()).collect()
        };
        let (old, new) = (pick(ids), pick(by));
        if old.iter().any(|p| p.temporary) || new.iter().any(|p| !p.temporary) {
            return Err(Refused::Invalid("temporary partitions replace others, not the other way".into()));
        }
        if keep_names && old.len() != new.len() {
            return Err(Refused::Invalid(format!("{} partitions cannot give their names to {}", old.len(), new.len())));
        }
        let types = self.partition_types();
        let types: Vec<&SqlType> = types.iter().collect();
        if strict_range {
            let same = same_cover(&types, old.iter().map(|p| &p.bounds), new.iter().map(|p| &p.bounds));
            if same != Some(true) {
                let names =
                    |list: &[Arc<Partition>]| list.iter().map(|p| p.name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(Refused::CoverDiffers { replaced: names(&old), by: names(&new) });
            }
        }
        self.clear(|t| ids.contains(&t.partition), at_ms);
        let all = Arc::make_mut(&mut self.partitions);
        ids.iter().chain(by).for_each(|id| drop(all.remove(id)));
        for (i, p) in new.iter().enumerate() {
            let name = if keep_names { old[i].name.clone() } else { p.name.clone() };
            let p = Partition { name, temporary: false, ..(**p).clone() };
            self.check_partition(&p, None)?;
            Arc::make_mut(&mut self.partitions).insert(p.id, Arc::new(p));
        }
        let come: Vec<Item> =
            self.segments.iter().filter(|i| by.contains(&i.segment().tablet.partition)).cloned().collect();
        self.rows += self.count(&come);
        self.changed_ms = self.changed_ms.max(at_ms);
        Ok(!ids.is_empty() || !by.is_empty())
    }
}

/// Checks that columns have ids and names of their own.
fn check_schema(schema: &TableSchema) -> Result<(), Refused> {
    let invalid = |why: String| Err(Refused::Invalid(why));
    if schema.columns.is_empty() || schema.keys > schema.columns.len() {
        return invalid(format!("{} columns cannot have {} keys", schema.columns.len(), schema.keys));
    }
    let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
    for c in &schema.columns {
        if c.id >= schema.next_column || !ids.insert(c.id) {
            return invalid(format!("column \"{}\" has an id that is taken or not given out yet", c.name));
        }
        if !names.insert(c.name.to_lowercase()) {
            return invalid(format!("two columns are called \"{}\"", c.name));
        }
    }
    let named = schema.partition_by.iter().flat_map(|p| &p.columns).chain(&schema.sequence);
    match named.copied().find(|id| !ids.contains(id)) {
        Some(id) => invalid(format!("the definition names column {id}, which does not exist")),
        None => Ok(()),
    }
}
