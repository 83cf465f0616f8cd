//! Tables: prepared loads, delete vectors, compactions. States and changes are those of `crate::table`, and so is the
//! computation between two attempts; only rows belong to a model.
//!
//! Checked in addition to the explorer's checks of every chain, in every state:
//! - a row that is alive is the result of the history's operations on its key, one after the other, and exists once: no
//!   load, delete or update is lost beside a compaction, none comes back;
//! - a prepared load waits until it is committed or aborted; an answer that it is one of both is true for ever.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash};
use std::sync::Arc;

use roaring::RoaringBitmap;

use super::{Batch, NONE, Subject, World, explore, sound, txn};
use crate::chain::protocol::Outcome;
use crate::chain::record::{Op, TxnId};
use crate::chain::state::State;
use crate::table::data::{DataObject, ObjectId, Rows, SegmentId, Tablet};
use crate::table::schema::{Bounds, Model};
use crate::table::test_support::{object, partition, rowset, schema};
use crate::table::{
    Carrying, Deletes, Reads, Refused, Replaced, Rowset, Scope, Settling, TableChange, TableState, union,
};

const TABLET: Tablet = Tablet { partition: 0, bucket: 0 };

/// A key and a value.
type Row = (u8, u8);

/// Effect of an operation on the table, whenever it happens.
#[derive(Clone, Debug, Hash)]
enum Intent {
    Put(Vec<Row>),
    Delete(u8),
    /// Adds to the value of a key that exists.
    Add(u8, u8),
}

/// Rows of objects, meanings of operations, and answers about prepared loads.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Beside {
    rows: BTreeMap<ObjectId, Vec<Row>>,
    intents: BTreeMap<TxnId, Intent>,
    told: BTreeMap<TxnId, bool>,
    /// A load that was reported as committed and as aborted.
    lied: Option<TxnId>,
}

impl Beside {
    fn tell(&mut self, load: TxnId, committed: bool) {
        if self.told.insert(load, committed).is_some_and(|before| before != committed) {
            self.lied = Some(load);
        }
    }

    fn write(&mut self, txn: TxnId, rows: Vec<Row>) -> Arc<DataObject> {
        let object = object(txn, 0, &[(0, 0, rows.len() as u32)]);
        self.rows.insert(object.id, rows);
        object
    }

    /// Finds rows with these keys in segments added later than `after`, as an index finds them.
    fn find(&self, state: &TableState, after: u64, keys: &[u8]) -> Deletes {
        let mut found = Deletes::new();
        for s in state.segments_added_after(after) {
            let rows = self.rows[&s.id.object].iter().zip(0..).filter(|((key, _), _)| keys.contains(key));
            let rows: RoaringBitmap = rows.map(|(_, row)| row).collect();
            if !rows.is_empty() {
                found.insert(s.id, Rows(rows));
            }
        }
        found
    }

    /// Returns the rows that are alive, each with its place.
    fn alive(&self, state: &TableState) -> Vec<(Row, SegmentId, u32)> {
        let rows = |id: SegmentId| self.rows[&id.object].iter().copied().zip(0..);
        let segments = state.tablet_segments(TABLET);
        segments
            .flat_map(|s| {
                rows(s.id)
                    .filter(move |(_, at)| s.deleted.is_none_or(|d| !d.contains(*at)))
                    .map(move |(row, at)| (row, s.id, at))
            })
            .collect()
    }
}

/// A load whose rows replace others by key.
#[derive(Clone, Debug)]
pub(super) struct Load {
    rowset: Rowset,
    keys: Vec<u8>,
    settling: Settling,
    /// Base of its computation: the state, and the load before it that was not committed yet.
    on: Option<(Arc<TableState>, Option<SegmentId>)>,
}

impl Load {
    fn segment(&self) -> SegmentId {
        SegmentId { object: self.rowset.objects[0].id, ordinal: 0 }
    }

    /// Computes the change as [`Table::publish_replacing`](crate::table::Table) does.
    fn on(&mut self, state: &TableState, after: Option<SegmentId>, beside: &Beside) -> TableChange {
        let found = beside.find(state, self.settling.base, &self.keys);
        let replaced = self.settling.on(state, &Scope::of(&self.rowset), found, after);
        self.on = Some((Arc::new(state.clone()), after));
        TableChange::Load { rowset: self.rowset.clone(), replaced: Some(replaced), at_ms: 0 }
    }
}

// Few tasks exist, so their size does not matter.
#[allow(clippy::large_enum_variant)]
#[derive(Clone, Debug)]
pub(super) enum Task {
    /// Loads of one process that wait at the same time: each is computed on the state after the one before.
    Loads { new: Vec<(u8, Vec<u8>)>, loads: Vec<Load> },
    /// Prepares a load.
    Prepare(u8, Vec<u8>),
    /// Commits or aborts a prepared load, under a transaction of its own. Of several loads, the one that exists.
    Finish { own: u8, load: Vec<u8>, commit: bool, settling: Settling, on: Option<Arc<TableState>> },
    /// Makes sure that a load is never committed.
    Abort(u8),
    /// Deletes a key.
    Delete { own: u8, key: u8, settling: Settling, on: Option<Arc<TableState>> },
    /// Adds to the value of a key; begins again under the next transaction if others changed it.
    Update { key: u8, own: Vec<u8>, load: Option<Load> },
    /// Replaces all segments by one.
    Compact { own: u8, carrying: Option<(Carrying, Arc<DataObject>)>, moved: BTreeMap<(SegmentId, u32), u32> },
    /// Sets the horizon.
    Forget { own: u8, horizon: u8 },
}

fn load(own: u8, keys: &[u8]) -> Task {
    loads(&[(own, keys)])
}

fn loads(new: &[(u8, &[u8])]) -> Task {
    Task::Loads { new: new.iter().map(|(own, keys)| (*own, keys.to_vec())).collect(), loads: Vec::new() }
}

fn finish(own: u8, load: &[u8], commit: bool) -> Task {
    Task::Finish { own, load: load.to_vec(), commit, settling: Settling::default(), on: None }
}

fn delete(own: u8, key: u8) -> Task {
    Task::Delete { own, key, settling: Settling::default(), on: None }
}

fn update(own: &[u8], key: u8) -> Task {
    Task::Update { key, own: own.to_vec(), load: None }
}

fn compact(own: u8) -> Task {
    Task::Compact { own, carrying: None, moved: BTreeMap::new() }
}

/// Writes the rows of a load; their value is the load's number.
fn written(own: u8, keys: &[u8], beside: &mut Beside) -> Rowset {
    let rows: Vec<Row> = keys.iter().map(|key| (*key, own)).collect();
    beside.intents.insert(txn(own), Intent::Put(rows.clone()));
    rowset(vec![beside.write(txn(own), rows)])
}

fn new_load(rowset: Rowset, keys: &[u8]) -> Load {
    Load { rowset, keys: keys.to_vec(), settling: Settling::default(), on: None }
}

fn one(own: u8, change: TableChange) -> Option<(Batch<TableState>, TxnId)> {
    Some((vec![(txn(own), Op::Commit(change))], NONE))
}

impl Settling {
    fn mark(&self, h: &mut DefaultHasher) {
        self.base.hash(h);
        mark(&self.deletes, h);
    }
}

fn mark(deletes: &Deletes, h: &mut DefaultHasher) {
    for (id, rows) in deletes {
        (id, rows.0.len()).hash(h);
        rows.0.iter().for_each(|row| row.hash(h));
    }
}

/// Amount that an update adds.
const ADDED: u8 = 64;

impl Subject for TableState {
    type Task = Task;
    type Beside = Beside;

    fn batch(task: &mut Task, state: &Self, beside: &mut Beside) -> Option<(Batch<Self>, TxnId)> {
        match task {
            Task::Loads { new, loads } => {
                for (own, keys) in new.drain(..) {
                    loads.push(new_load(written(own, &keys, beside), &keys));
                }
                let (mut ahead, mut after) = (state.clone(), None);
                let mut batch = Vec::new();
                for load in loads {
                    let change = load.on(&ahead, after, beside);
                    ahead.apply(&change).expect("it was computed on that state");
                    after = Some(load.segment());
                    batch.push((load.rowset.txn, Op::Commit(change)));
                }
                (!batch.is_empty()).then_some((batch, NONE))
            }
            Task::Prepare(own, keys) => {
                let rowset = written(*own, keys, beside);
                one(*own, TableChange::Prepare { rowset, at_ms: 0 })
            }
            Task::Finish { own, load, commit, settling, on } => {
                let prepared = load.iter().find_map(|own| state.prepared().get(&txn(*own)));
                let Some(prepared) = prepared else {
                    // Answered as a server would: with the outcomes of the loads, if they are known.
                    for own in load {
                        if let Some(committed) = state.prepared_outcome(txn(*own)) {
                            beside.tell(txn(*own), committed);
                        }
                    }
                    return None;
                };
                let of = prepared.rowset.txn;
                if !*commit {
                    return one(*own, TableChange::AbortPrepared { txn: of, at_ms: 0 });
                }
                let keys: Vec<u8> = beside.rows[&prepared.rowset.objects[0].id].iter().map(|(key, _)| *key).collect();
                let found = beside.find(state, settling.base, &keys);
                let replaced = settling.on(state, &Scope::of(&prepared.rowset), found, None);
                *on = Some(Arc::new(state.clone()));
                one(*own, TableChange::CommitPrepared { txn: of, replaced: Some(replaced), at_ms: 0 })
            }
            Task::Abort(own) => Some((vec![(txn(*own), Op::Abort)], NONE)),
            Task::Delete { own, key, settling, on } => {
                beside.intents.insert(txn(*own), Intent::Delete(*key));
                let found = beside.find(state, settling.base, &[*key]);
                let replaced = settling.on(state, &Scope::of_delete(), found, None);
                *on = Some(Arc::new(state.clone()));
                one(*own, TableChange::Delete { partitions: Vec::new(), replaced, at_ms: 0 })
            }
            Task::Update { key, own, load } => {
                if load.is_none() {
                    let (row, ..) = beside.alive(state).into_iter().find(|((k, _), ..)| k == key)?;
                    let txn = txn(if own.is_empty() { return None } else { own.remove(0) });
                    beside.intents.insert(txn, Intent::Add(*key, ADDED));
                    let object = beside.write(txn, vec![(*key, row.1.wrapping_add(ADDED))]);
                    let reads = Some(Reads { seq: state.seq(), rows: 1 });
                    *load = Some(new_load(Rowset { reads, ..rowset(vec![object]) }, &[*key]));
                }
                let load = load.as_mut()?;
                Some((vec![(load.rowset.txn, Op::Commit(load.on(state, None, beside)))], NONE))
            }
            Task::Compact { own, carrying, moved } => {
                if carrying.is_none() {
                    let mut rows = Vec::new();
                    for (row, id, at) in beside.alive(state) {
                        moved.insert((id, at), rows.len() as u32);
                        rows.push(row);
                    }
                    let inputs = state.tablet_segments(TABLET).map(|s| (s.id, s.deleted.cloned())).collect();
                    *carrying = Some((Carrying { inputs, deletes: Deletes::new() }, beside.write(txn(*own), rows)));
                }
                let (carrying, output) = carrying.as_mut()?;
                let added = carrying.added(state).ok()?;
                let rows: RoaringBitmap =
                    added.iter().flat_map(|(id, rows)| rows.0.iter().map(|row| moved[&(*id, row)])).collect();
                if !rows.is_empty() {
                    let id = SegmentId { object: output.id, ordinal: 0 };
                    union(&mut carrying.deletes, Deletes::from([(id, Rows(rows))]));
                }
                one(*own, carrying.change(vec![Arc::clone(output)], 0))
            }
            Task::Forget { own, horizon } => {
                let change = TableChange::Forget { removed_before_ms: 0 };
                Some((vec![(txn(*own), Op::Commit(change))], txn(*horizon)))
            }
        }
    }

    fn ended(task: &mut Task, of: TxnId, outcome: &Outcome<Refused>, state: &Self, beside: &mut Beside) -> bool {
        let lost = matches!(outcome, Outcome::Refused(Refused::Moved { .. } | Refused::SegmentGone { .. }));
        match task {
            Task::Loads { loads, .. } => {
                if !lost {
                    loads.retain(|load| load.rowset.txn != of);
                    return false;
                }
                for load in loads.iter_mut().filter(|load| load.rowset.txn == of) {
                    let (on, after) = load.on.take().expect("it was computed");
                    load.settling.refused(&on, after);
                }
                true
            }
            Task::Finish { load, commit, settling, on, .. } => {
                match outcome {
                    _ if lost => settling.refused(&on.take().expect("it was computed"), None),
                    Outcome::Committed => {
                        // The newest state knows which load it was.
                        let ended =
                            load.iter().map(|own| txn(*own)).find(|l| state.prepared_outcome(*l) == Some(*commit));
                        if let Some(ended) = ended {
                            beside.tell(ended, *commit);
                        }
                    }
                    Outcome::Refused(Refused::NotPrepared { txn }) => {
                        if let Some(committed) = state.prepared_outcome(*txn) {
                            beside.tell(*txn, committed);
                        }
                    }
                    _ => {}
                }
                lost
            }
            Task::Delete { settling, on, .. } => {
                if lost {
                    settling.refused(&on.take().expect("it was computed"), None);
                }
                lost
            }
            Task::Update { own, load, .. } => match outcome {
                Outcome::Refused(Refused::RowsChanged { .. }) => {
                    *load = None;
                    !own.is_empty()
                }
                _ if lost => {
                    if let Some(load) = load {
                        let (on, after) = load.on.take().expect("it was computed");
                        load.settling.refused(&on, after);
                    }
                    true
                }
                _ => false,
            },
            Task::Compact { .. } => matches!(outcome, Outcome::Refused(Refused::DeletesMoved { .. })),
            Task::Prepare(..) | Task::Abort(_) | Task::Forget { .. } => false,
        }
    }

    fn mark(task: &Task, h: &mut DefaultHasher) {
        let seq = |state: &Arc<Self>| state.seq();
        std::mem::discriminant(task).hash(h);
        match task {
            Task::Loads { new, loads } => {
                new.len().hash(h);
                for load in loads {
                    load.rowset.txn.hash(h);
                    load.settling.mark(h);
                    load.on.as_ref().map(|(state, after)| (seq(state), after)).hash(h);
                }
            }
            Task::Finish { settling, on, .. } | Task::Delete { settling, on, .. } => {
                settling.mark(h);
                on.as_ref().map(seq).hash(h);
            }
            Task::Update { own, load, .. } => {
                own.hash(h);
                if let Some(load) = load {
                    load.settling.mark(h);
                    load.on.as_ref().map(|(state, _)| seq(state)).hash(h);
                }
            }
            Task::Compact { carrying, .. } => {
                if let Some((carrying, _)) = carrying {
                    let inputs = carrying.inputs.iter();
                    inputs.for_each(|(id, known)| (id, known.as_ref().map(|rows| rows.len())).hash(h));
                    mark(&carrying.deletes, h);
                }
            }
            Task::Prepare(..) | Task::Abort(_) | Task::Forget { .. } => {}
        }
    }

    fn content(change: &TableChange, h: &mut DefaultHasher) {
        format!("{change:?}").hash(h);
    }

    /// Drops the field that is only checked before the commit: it is in no record.
    fn stored(mut change: TableChange) -> TableChange {
        if let TableChange::Load { replaced: Some(Replaced { after, .. }), .. } = &mut change {
            *after = None;
        }
        change
    }

    fn wrong(world: &World<Self>) -> Option<String> {
        let (beside, truth) = (&world.beside, world.truth());
        let mut wanted: BTreeMap<u8, u8> = BTreeMap::new();
        let mut prepared: BTreeMap<TxnId, Option<bool>> = BTreeMap::new();
        for e in world.history.iter().flat_map(|r| &r.entries) {
            let Op::Commit(change) = &e.op else { continue };
            let meant = match change {
                TableChange::Load { rowset, .. } => rowset.txn,
                TableChange::CommitPrepared { txn, .. } => {
                    if prepared.insert(*txn, Some(true)) != Some(None) {
                        return Some(format!("{txn:?} is committed, and was not prepared"));
                    }
                    *txn
                }
                TableChange::Delete { .. } => e.txn,
                TableChange::Prepare { rowset, .. } => {
                    prepared.insert(rowset.txn, None);
                    continue;
                }
                TableChange::AbortPrepared { txn, .. } => {
                    if prepared.insert(*txn, Some(false)) != Some(None) {
                        return Some(format!("{txn:?} is aborted, and was not prepared"));
                    }
                    continue;
                }
                _ => continue,
            };
            match &beside.intents[&meant] {
                Intent::Put(rows) => wanted.extend(rows.iter().copied()),
                Intent::Delete(key) => drop(wanted.remove(key)),
                Intent::Add(key, n) => match wanted.get_mut(key) {
                    Some(value) => *value = value.wrapping_add(*n),
                    None => return Some(format!("{meant:?} has changed a row that is not there")),
                },
            }
        }
        let mut found: BTreeMap<u8, u8> = BTreeMap::new();
        for ((key, value), ..) in beside.alive(truth) {
            if found.insert(key, value).is_some() {
                return Some(format!("key {key} is there twice"));
            }
        }
        if found != wanted {
            return Some(format!("the table has {found:?}, its history says {wanted:?}"));
        }
        if truth.rows() != found.len() as u64 {
            return Some(format!("the table has {} rows and counts {}", found.len(), truth.rows()));
        }
        let waiting = prepared.iter().filter(|(_, ended)| ended.is_none()).map(|(txn, _)| txn);
        if !waiting.eq(truth.prepared().keys()) {
            return Some(format!("{prepared:?} are prepared, the table has {:?}", truth.prepared().keys()));
        }
        let lie = beside.told.iter().find(|(txn, told)| prepared.get(txn) != Some(&Some(**told)));
        lie.map(|(txn, _)| *txn).or(beside.lied).map(|txn| format!("{txn:?} is not what was told of it"))
    }
}

/// Makes a UNIQUE table with keys 1 and 2 of one load, 3 and 4 of another.
fn table(budget: usize) -> World<TableState> {
    let create = TableChange::Create {
        schema: schema(Model::Unique, false),
        partitions: vec![partition(0, "p", Bounds::All)],
        at_ms: 0,
    };
    let mut world = World::new(budget).after(vec![(txn(50), Op::Commit(create))]);
    for mut task in [load(51, &[1, 2]), load(52, &[3, 4])] {
        let state = world.head().state;
        let (batch, _) = TableState::batch(&mut task, &state, &mut world.beside).expect("a load");
        world = world.after(batch);
    }
    world
}

/// A load is prepared by a node that may sleep for ever. Other nodes, started then, commit it and abort it; one of them
/// repeats the request of a client that got no answer.
fn two_phase_world(rounds: usize, budget: usize) -> World<TableState> {
    table(budget)
        .writer(1, vec![Task::Prepare(1, vec![2])])
        .loading(2, vec![finish(61, &[1], true), finish(62, &[1], true)])
        .loading(3, vec![finish(63, &[1], false)])
        .vacuum(rounds)
}

/// Two attempts under one label, on two nodes; the second one only if the first can be aborted. Whichever is prepared
/// is committed by a third node, while the horizon passes both.
fn label_world(rounds: usize, budget: usize) -> World<TableState> {
    table(budget)
        .writer(1, vec![Task::Prepare(1, vec![2])])
        .writer(2, vec![Task::Abort(1), Task::Prepare(2, vec![2, 3])])
        .loading(3, vec![finish(61, &[1, 2], true)])
        .writer(4, vec![Task::Forget { own: 60, horizon: 9 }])
        .vacuum(rounds)
}

/// A compaction beside a load and a delete of rows that it moves.
fn compaction_world(rounds: usize, budget: usize) -> World<TableState> {
    table(budget)
        .writer(1, vec![compact(60)])
        .writer(2, vec![load(53, &[2, 5])])
        .writer(3, vec![delete(61, 3)])
        .vacuum(rounds)
}

/// Two compactions of the same rows, and a load.
fn compactions_world(rounds: usize, budget: usize) -> World<TableState> {
    table(budget)
        .writer(1, vec![compact(60)])
        .writer(2, vec![load(53, &[2]), compact(61)])
        .writer(3, vec![load(54, &[2, 4])])
        .vacuum(rounds)
}

/// A prepared load is committed beside a load of the same key and a compaction.
fn prepared_world(rounds: usize, budget: usize) -> World<TableState> {
    table(budget)
        .writer(1, vec![Task::Prepare(1, vec![2, 3]), finish(61, &[1], true)])
        .writer(2, vec![load(53, &[2])])
        .writer(3, vec![compact(60)])
        .vacuum(rounds)
}

/// Loads of one process, of which the second is computed before the first is committed, beside another process's load.
fn ahead_world(rounds: usize, budget: usize) -> World<TableState> {
    table(budget)
        .writer(1, vec![loads(&[(53, &[2]), (54, &[2, 3])])])
        .writer(2, vec![load(55, &[2, 5])])
        .writer(3, vec![compact(60)])
        .vacuum(rounds)
}

/// Two updates of one row, each computed from the row that it read, beside a compaction.
fn update_world(rounds: usize, budget: usize) -> World<TableState> {
    table(budget)
        .writer(1, vec![update(&[53, 54], 2)])
        .writer(2, vec![update(&[55, 56], 2)])
        .writer(3, vec![compact(60)])
        .vacuum(rounds)
}

#[test]
fn prepared_loads_end_once() {
    let states = sound(two_phase_world(1, 1));
    assert!(states > 50_000, "only {states} states: the world is smaller than it was");
}

#[test]
fn deletes_survive_compactions() {
    for (world, least) in
        [(compaction_world(0, 1), 1_000), (compaction_world(1, 0), 1_000), (compactions_world(0, 0), 1_000)]
    {
        let states = sound(world);
        assert!(states > least, "only {states} states: the world is smaller than it was");
    }
}

#[test]
fn updates_and_loads_that_are_computed_ahead_see_each_other() {
    for (world, least) in [(update_world(0, 1), 1_000), (ahead_world(0, 1), 1_000)] {
        let states = sound(world);
        assert!(states > least, "only {states} states: the world is smaller than it was");
    }
}

/// More rounds of vacuum, more lost answers. Only a part of the states is visited unless the environment has
/// `DIPPER_EXPLORE_STATES`, the number to stop at.
#[test]
fn slow_tables_hold_in_larger_worlds() {
    let limit = std::env::var("DIPPER_EXPLORE_STATES").ok().and_then(|n| n.parse().ok()).unwrap_or(30_000);
    let worlds = [
        two_phase_world(2, 2),
        label_world(2, 1),
        compaction_world(2, 1),
        compactions_world(1, 1),
        prepared_world(2, 1),
        ahead_world(1, 1),
        update_world(1, 1),
    ];
    for world in worlds {
        explore(world, limit).unwrap_or_else(|trail| panic!("{trail}"));
    }
}
