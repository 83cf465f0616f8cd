//! Explores every interleaving of the commit protocol in small worlds.
//!
//! The processes are the machines of `protocol.rs`; the store is a model: objects put if absent, atomic listings (the
//! driver makes them so by checking that every record is still the one that was listed). Any process may sleep anywhere,
//! for ever too (every state is checked, so a crash is a process that takes no further step). A budget of puts has
//! its answer lost, or is told of a conflict that is none.
//!
//! Checked in every state:
//! - no transaction is in the true history twice; one that was acknowledged is in it, one that was answered as failed,
//!   refused or expired is not; of two attempts under one label at most one is in it; a refusal has its reason in it;
//! - what a fresh reader loads is the true history; what any process holds for confirmed is a prefix of it; the newest
//!   checkpoint has all its parts.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::protocol::{Answer, Ask, BROKEN, Clean, Committer, Names, Outcome, Pending, Reader, Rule, Step, Vacuum};
use super::record::{Checkpoint, Op, PartName, Record, RecordId, TxnId};
use super::state::{Known, Shared, State};

/// Rows in order of their commits, and names that can be taken once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Model {
    rows: Vec<u8>,
    names: BTreeMap<u8, u8>,
    /// Rows that checkpoints store apart, two together.
    #[serde(skip)]
    parts: Vec<Arc<Shared<Vec<u8>>>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
enum Change {
    /// Always fits.
    Row(u8),
    /// Always fits, and goes into a part.
    Part(u8),
    /// Fits if the name is free: CREATE TABLE.
    Name { name: u8, by: u8 },
}

impl State for Model {
    type Change = Change;
    type Error = String;
    type Part = Vec<u8>;
    const FORMAT: u16 = 1;

    fn apply(&mut self, change: &Change) -> Result<bool, String> {
        match change {
            Change::Row(row) => self.rows.push(*row),
            Change::Part(row) => match self.parts.last_mut() {
                Some(last) if last.len() < 2 => Shared::edit(last).push(*row),
                _ => self.parts.push(Shared::new(vec![*row])),
            },
            Change::Name { name, .. } if self.names.contains_key(name) => return Err("taken".into()),
            Change::Name { name, by } => drop(self.names.insert(*name, *by)),
        }
        Ok(true)
    }

    fn parts(&self) -> Vec<Arc<Shared<Vec<u8>>>> {
        self.parts.clone()
    }

    fn without_parts(&self) -> Self {
        Self { parts: Vec::new(), ..self.clone() }
    }

    fn with_parts(self, parts: Vec<Arc<Shared<Vec<u8>>>>) -> Result<Self, String> {
        Ok(Self { parts, ..self })
    }
}

type Rec = Arc<Record<Change>>;
type Batch = Vec<(TxnId, Op<Change>)>;

#[derive(Clone, Debug)]
enum Process {
    Writer {
        writer: u64,
        machine: Box<Committer<Model>>,
        /// Batches after the current one, and the horizon each sets.
        todo: Vec<(Batch, TxnId)>,
    },
    Vacuum {
        machine: Vacuum<Model>,
        rounds: usize,
        /// What the process knows between its rounds, parts with their names.
        known: Known<Model>,
        names: Names<Model>,
    },
    Reader {
        known: Known<Model>,
        machine: Option<Reader<Model>>,
        rounds: usize,
    },
}

#[derive(Clone, Debug, Default)]
struct World {
    versions: BTreeMap<u64, Rec>,
    checkpoints: BTreeMap<u64, Checkpoint<Model>>,
    done: BTreeMap<u64, BTreeSet<TxnId>>,
    parts: BTreeMap<PartName, Vec<u8>>,
    history: Vec<Rec>,
    acknowledged: BTreeSet<TxnId>,
    /// Answered as failed, refused or expired.
    denied: BTreeSet<TxnId>,
    refused: BTreeSet<TxnId>,
    processes: Vec<Process>,
    budget: usize,
}

fn txn(n: u8) -> TxnId {
    TxnId(u128::from(n))
}

fn row(n: u8) -> (TxnId, Op<Change>) {
    (txn(n), Op::Commit(Change::Row(n)))
}

fn part(n: u8) -> (TxnId, Op<Change>) {
    (txn(n), Op::Commit(Change::Part(n)))
}

fn name(n: u8) -> (TxnId, Op<Change>) {
    (txn(n), Op::Commit(Change::Name { name: 1, by: n }))
}

fn abort(n: u8) -> (TxnId, Op<Change>) {
    (txn(n), Op::Abort)
}

const NONE: TxnId = TxnId(0);

fn committer(known: Known<Model>, batch: Batch, horizon: TxnId, writer: u64) -> Committer<Model> {
    Committer::new(known, batch, horizon, writer, 0, |record| {
        let mut h = DefaultHasher::new();
        (record.number, record.prev, record.writer, record.horizon).hash(&mut h);
        for e in &record.entries {
            (e.txn, matches!(e.op, Op::Abort)).hash(&mut h);
        }
        RecordId(u128::from(h.finish()))
    })
}

/// A writer that holds the empty chain for the newest version.
fn writer(writer: u64, batches: Vec<(Batch, TxnId)>) -> Process {
    let mut todo = batches;
    let (batch, horizon) = todo.remove(0);
    Process::Writer { writer, machine: Box::new(committer(Known::root(), batch, horizon, writer)), todo }
}

/// A writer that loads first.
fn loading(number: u64, batches: Vec<(Batch, TxnId)>) -> Process {
    let mut p = writer(number, batches);
    if let Process::Writer { machine, .. } = &mut p {
        machine.step = Step::Read(Reader::Checkpoint);
    }
    p
}

fn vacuum(rounds: usize) -> Process {
    vacuum_naming(rounds, |head, at| part_number(1, head, at))
}

/// A vacuum of another process: the parts that it writes have other names.
fn other_vacuum(rounds: usize) -> Process {
    vacuum_naming(rounds, |head, at| part_number(2, head, at))
}

fn vacuum_naming(rounds: usize, names: Names<Model>) -> Process {
    let known = Known::root();
    Process::Vacuum { machine: Vacuum::new(known.clone(), names), rounds, known, names }
}

fn part_number(process: u8, head: &Known<Model>, at: usize) -> u64 {
    let mut h = DefaultHasher::new();
    (process, head.id, at).hash(&mut h);
    h.finish()
}

fn reader(rounds: usize) -> Process {
    let known = Known::root();
    Process::Reader { machine: Some(Reader::refresh(known.clone())), known, rounds }
}

fn world(processes: Vec<Process>, budget: usize) -> World {
    World { processes, budget, ..World::default() }
}

impl World {
    /// All worlds one step on.
    fn successors(&self) -> Vec<Self> {
        let mut out = Vec::new();
        for i in 0..self.processes.len() {
            let ask = match &self.processes[i] {
                Process::Writer { machine, .. } => machine.ask(),
                Process::Vacuum { machine, rounds, .. } => (*rounds > 0).then(|| machine.ask()).flatten(),
                Process::Reader { machine, .. } => machine.as_ref().map(Reader::ask),
            };
            if let Some(ask) = ask {
                self.step(i, ask, &mut out);
            }
        }
        out
    }

    fn step(&self, i: usize, ask: Ask<Model>, out: &mut Vec<Self>) {
        let mut go = |mut world: Self, answer: Answer<Model>| {
            world.answer(i, answer);
            out.push(world);
        };
        match ask {
            Ask::Checkpoint => {
                go(self.clone(), Answer::Checkpoint(self.checkpoints.last_key_value().map(|(_, c)| c.clone())));
            }
            Ask::Newest => go(self.clone(), Answer::Newest(self.checkpoints.last_key_value().map_or(0, |(n, _)| *n))),
            Ask::Parts(c) => go(self.clone(), Answer::Parts(self.parts_of(&c))),
            Ask::PutParts(parts) => {
                let mut w = self.clone();
                for (name, part) in parts {
                    assert!(w.parts.insert(name, (**part).clone()).is_none_or(|p| p == **part), "{name:?} is there");
                }
                go(w, Answer::Finished);
            }
            Ask::List { after } => {
                let listed = self.versions.range(after + 1..).map(|(_, r)| Arc::clone(r)).collect();
                go(self.clone(), Answer::List(listed));
            }
            Ask::Done => go(self.clone(), Answer::Done(self.done.values().flatten().copied().collect())),
            Ask::Get { number } => go(self.clone(), Answer::Get(self.versions.get(&number).cloned())),
            Ask::Put(_) if self.budget > 0 && matches!(self.processes[i], Process::Reader { .. }) => unreachable!(),
            Ask::Put(record) if self.versions.contains_key(&record.number) => go(self.clone(), Answer::Put(false)),
            Ask::Put(record) => {
                let mut made = self.clone();
                let last = self.history.last().map_or(RecordId::ROOT, |r| r.id);
                if record.number == self.history.len() as u64 + 1 && record.prev == last {
                    made.history.push(Arc::clone(&record));
                }
                made.versions.insert(record.number, record);
                if self.budget > 0 {
                    let budget = self.budget - 1;
                    go(Self { budget, ..made.clone() }, Answer::Put(false)); // the answer is lost
                    go(Self { budget, ..self.clone() }, Answer::Put(false)); // a conflict is told, nothing was written
                }
                go(made, Answer::Put(true));
            }
            Ask::PutDone(d) => {
                let mut w = self.clone();
                w.done.entry(d.number).or_insert(d.txns);
                go(w, Answer::Finished);
            }
            Ask::PutCheckpoint(c) => {
                if self.checkpoints.contains_key(&c.ordinal) {
                    return go(self.clone(), Answer::Put(false));
                }
                let mut w = self.clone();
                w.checkpoints.insert(c.ordinal, (*c).clone());
                if self.budget > 0 {
                    go(Self { budget: self.budget - 1, ..w.clone() }, Answer::Put(false)); // the answer is lost
                }
                go(w, Answer::Put(true));
            }
            Ask::Free { below } => {
                for &number in self.versions.range(..below).map(|(n, _)| n) {
                    let mut w = self.clone();
                    w.versions.remove(&number);
                    out.push(w); // and goes on freeing
                }
                let mut w = self.clone();
                w.answer(i, Answer::Finished);
                out.push(w);
            }
            Ask::FreeOld { base, horizon } => {
                let mut w = self.clone();
                w.checkpoints.retain(|&n, _| n >= base.ordinal);
                w.parts.retain(|name, _| name.ordinal > base.ordinal || base.parts.contains(name));
                w.done.retain(|&n, txns| n >= base.number || txns.iter().any(|t| *t >= horizon));
                go(w, Answer::Finished);
            }
        }
    }

    fn answer(&mut self, i: usize, answer: Answer<Model>) {
        match &mut self.processes[i] {
            Process::Writer { writer, machine, todo } => {
                let aborts = |p: &Pending<Change>| matches!(p.op, Op::Abort).then_some(p.txn);
                let aborts: BTreeSet<TxnId> = machine.pending.iter().filter_map(aborts).collect();
                machine.answer(answer);
                machine.broken = None;
                for (txn, outcome) in std::mem::take(&mut machine.ended) {
                    match outcome {
                        // An abort that is acknowledged denies its transaction for ever.
                        Outcome::Committed if aborts.contains(&txn) => drop(self.denied.insert(txn)),
                        Outcome::Committed => drop(self.acknowledged.insert(txn)),
                        Outcome::Refused(_) => {
                            self.refused.insert(txn);
                            self.denied.insert(txn);
                        }
                        Outcome::Aborted | Outcome::Expired => drop(self.denied.insert(txn)),
                        Outcome::AlreadyCommitted => {
                            todo.clear(); // the label is finished: nothing to do
                            self.acknowledged.insert(txn);
                        }
                        Outcome::Unchanged | Outcome::Unknown => {}
                    }
                }
                if machine.ask().is_none() && !todo.is_empty() {
                    let (batch, horizon) = todo.remove(0);
                    **machine = committer(machine.confirmed().clone(), batch, horizon, *writer);
                }
            }
            Process::Vacuum { machine, rounds, known, names } => {
                machine.answer(answer);
                if let Some(head) = machine.head.take() {
                    let stored = std::mem::take(&mut machine.stored);
                    let name_of = |p: &Arc<_>| stored.iter().find(|(_, s)| Arc::ptr_eq(s, p)).map(|(name, _)| *name);
                    // The worlds share parts: names are given to copies.
                    let named = |p: Arc<Shared<Vec<u8>>>| match name_of(&p) {
                        Some(name) => Shared::named((**p).clone(), name),
                        None => p,
                    };
                    let parts = head.state.parts().into_iter().map(named).collect();
                    let state = Arc::new(head.state.without_parts().with_parts(parts).unwrap());
                    *known = Known { state, ..head };
                }
                if machine.ask().is_none() {
                    *rounds -= 1;
                    *machine = Vacuum::new(known.clone(), *names);
                }
            }
            Process::Reader { known, machine, rounds } => {
                let reader = machine.as_mut().expect("it asked");
                if let Ok(Some(head)) = reader.answer(answer) {
                    *known = head;
                    *rounds -= 1;
                    *machine = (*rounds > 0).then(|| Reader::refresh(known.clone()));
                }
            }
        }
    }

    /// What is wrong in this state.
    fn wrong(&self) -> Option<String> {
        let mut commits = BTreeSet::new();
        for e in self.history.iter().flat_map(|r| &r.entries) {
            if matches!(e.op, Op::Commit(_)) && !commits.insert(e.txn) {
                return Some(format!("{:?} is in the history twice", e.txn));
            }
        }
        if let Some(t) = self.acknowledged.iter().find(|t| !commits.contains(t)) {
            return Some(format!("{t:?} was acknowledged and is not in the history"));
        }
        if let Some(t) = self.denied.iter().find(|t| commits.contains(t)) {
            return Some(format!("{t:?} was denied and is in the history"));
        }
        if commits.contains(&txn(1)) && commits.contains(&txn(2)) {
            return Some("both attempts under one label are in the history".into());
        }
        let truth = self.truth(self.history.len());
        if let Some(t) = self.refused.iter().find(|_| truth.names.is_empty()) {
            return Some(format!("{t:?} was refused because of a name that nobody took"));
        }
        let base = match self.checkpoints.last_key_value() {
            None => Known::root(),
            Some((n, c)) => match self.parts_of(c) {
                Some(parts) => Known::from_checkpoint(c.clone(), parts).unwrap(),
                None => return Some(format!("the newest checkpoint, {n}, has lost a part")),
            },
        };
        // A listing that does not fit is read again: a stray just above a checkpoint is told by its link.
        if let Ok(head) = base.then_all(self.versions.range(base.number + 1..).map(|(_, r)| &**r))
            && *head.state != truth
        {
            return Some(format!("a fresh reader sees {:?}, the history is {truth:?}", head.state));
        }
        for p in &self.processes {
            let known = match p {
                Process::Writer { machine, .. } => machine.confirmed(),
                Process::Reader { known, .. } => known,
                Process::Vacuum { machine: Vacuum { step: Clean::PutCheckpoint(known, _), .. }, .. } => known,
                Process::Vacuum { .. } => continue,
            };
            let n = known.number as usize;
            let id = if n == 0 { Some(RecordId::ROOT) } else { self.history.get(n - 1).map(|r| r.id) };
            if id != Some(known.id) || *known.state != self.truth(n) {
                return Some(format!("a process takes version {n} with {:?} for confirmed", known.state));
            }
        }
        None
    }

    fn parts_of(&self, c: &Checkpoint<Model>) -> Option<Vec<Arc<Shared<Vec<u8>>>>> {
        c.parts.iter().map(|name| self.parts.get(name).map(|p| Shared::named(p.clone(), *name))).collect()
    }

    /// The state after that many versions of the history.
    fn truth(&self, versions: usize) -> Model {
        let mut m = Model::default();
        for e in self.history[..versions].iter().flat_map(|r| &r.entries) {
            if let Op::Commit(c) = &e.op {
                m.apply(c).unwrap();
            }
        }
        m
    }

    /// Equal worlds have equal fingerprints. Ids are derived from content and from the id before, so an id stands for
    /// all that led to it.
    fn fingerprint(&self) -> u128 {
        let half = |seed: u64| {
            let h = &mut DefaultHasher::new();
            seed.hash(h);
            for (n, r) in &self.versions {
                (n, r.id).hash(h);
            }
            for (n, c) in &self.checkpoints {
                (n, c.id, &c.aborted, c.horizon, &c.parts).hash(h);
            }
            self.parts.keys().for_each(|name| name.hash(h));
            (&self.done, self.history.last().map(|r| r.id), self.history.len()).hash(h);
            (&self.acknowledged, &self.denied, &self.refused, self.budget).hash(h);
            for p in &self.processes {
                match p {
                    Process::Writer { machine: m, todo, .. } => {
                        todo.len().hash(h);
                        (m.fresh, &m.pending).hash(h);
                        known(&m.confirmed, h);
                        known(&m.tip, h);
                        std::mem::discriminant(&m.step).hash(h);
                        match &m.step {
                            Step::Read(r) => read(r, h),
                            Step::Put(r) | Step::Get(r) | Step::After(r) => r.id.hash(h),
                            Step::Done | Step::AfterDone | Step::End => {}
                        }
                    }
                    Process::Vacuum { machine, rounds, known, .. } => {
                        (std::mem::discriminant(&machine.step), rounds).hash(h);
                        parted(known, h);
                        match &machine.step {
                            Clean::Read(r) | Clean::List(r) => read(r, h),
                            Clean::Newest(k)
                            | Clean::Leftover(k)
                            | Clean::PutDone(k)
                            | Clean::Free(k)
                            | Clean::FreeOld(k) => parted(k, h),
                            Clean::PutParts(k, plan) | Clean::PutCheckpoint(k, plan) | Clean::Confirm(k, plan) => {
                                parted(k, h);
                                plan.names.hash(h);
                            }
                            Clean::End => {}
                        }
                    }
                    Process::Reader { known: k, machine, rounds } => {
                        (machine.is_some(), rounds).hash(h);
                        known(k, h);
                        if let Some(r) = machine {
                            read(r, h);
                        }
                    }
                }
            }
            h.finish()
        };
        u128::from(half(1)) << 64 | u128::from(half(2))
    }
}

fn known(k: &Known<Model>, h: &mut DefaultHasher) {
    (k.number, k.id, &k.txns).hash(h);
}

/// With the checkpoint that it goes back to, and the names of its parts.
fn parted(k: &Known<Model>, h: &mut DefaultHasher) {
    known(k, h);
    k.base.hash(h);
    k.state.parts.iter().for_each(|p| p.name().hash(h));
}

fn read(r: &Reader<Model>, h: &mut DefaultHasher) {
    match r {
        Reader::Checkpoint => 0.hash(h),
        Reader::Parts(c) => (1, c.ordinal, c.id).hash(h),
        Reader::List(k) => parted(k, h),
    }
}

/// Goes through all worlds; the number of states, or what was wrong with the trail that led there.
fn explore(start: World, limit: usize) -> Result<usize, String> {
    let began = Instant::now();
    let mut seen = HashSet::from([start.fingerprint()]);
    // Depth first: the stack is the trail, and memory is one number a state.
    let mut stack = vec![(start.clone(), start.successors())];
    while let Some((_, next)) = stack.last_mut() {
        let Some(world) = next.pop() else {
            stack.pop();
            continue;
        };
        if !seen.insert(world.fingerprint()) {
            continue;
        }
        if let Some(wrong) = world.wrong() {
            let trail: Vec<String> = stack.iter().map(|(w, _)| w.brief()).chain([world.brief()]).collect();
            return Err(format!("after {} states: {wrong}\n{}", seen.len(), trail.join("\n")));
        }
        if seen.len() >= limit {
            eprintln!("limit of {limit} states reached in {:.1} s", began.elapsed().as_secs_f32());
            return Ok(seen.len());
        }
        let successors = world.successors();
        stack.push((world, successors));
    }
    eprintln!("{} states in {:.1} s", seen.len(), began.elapsed().as_secs_f32());
    Ok(seen.len())
}

impl World {
    /// One line of a trail.
    fn brief(&self) -> String {
        let at = |p: &Process| match p {
            Process::Writer { machine, .. } => match &machine.step {
                Step::Put(r) | Step::Get(r) | Step::After(r) => {
                    format!("{}:{:?}", r.number, std::mem::discriminant(&machine.step))
                }
                s => format!("{:?}", std::mem::discriminant(s)),
            },
            Process::Vacuum { machine, .. } => format!("x{:?}", std::mem::discriminant(&machine.step)),
            Process::Reader { known, .. } => format!("r{}", known.number),
        };
        let at: Vec<String> = self.processes.iter().map(at).collect();
        let v: Vec<String> = self.versions.iter().map(|(n, r)| format!("{n}={:x}", r.id.0 & 0xffff)).collect();
        let c: Vec<&u64> = self.checkpoints.keys().collect();
        let h: Vec<String> = self.history.iter().map(|r| format!("{:x}", r.id.0 & 0xffff)).collect();
        format!("{at:?} v {v:?} c {c:?} h {h:?} ok {:?} no {:?}", self.acknowledged, self.denied)
    }
}

/// The world of the protocol's first exploration: a first attempt that may sleep for ever, the client's retry under the
/// same label on another node, another writer, a vacuum.
fn label_world(rounds: usize, others: u8, budget: usize) -> World {
    let others = (0..others).map(|k| (vec![row(10 + k)], NONE)).collect();
    world(
        vec![
            writer(1, vec![(vec![row(1)], NONE)]),
            writer(2, vec![(vec![abort(1)], NONE), (vec![row(2)], NONE)]),
            loading(3, others),
            vacuum(rounds),
        ],
        budget,
    )
}

/// Two CREATE TABLE of one name, a third writer, a vacuum: the catalog's chain.
fn name_world(rounds: usize, others: u8, budget: usize) -> World {
    let others = (0..others).map(|k| (vec![row(10 + k)], NONE)).collect();
    world(
        vec![
            writer(1, vec![(vec![name(3)], NONE)]),
            writer(2, vec![(vec![name(4)], NONE)]),
            writer(3, others),
            vacuum(rounds),
        ],
        budget,
    )
}

/// Two nodes whose queues held several transactions, one of them an abort of a transaction in the other's.
fn batch_world(rounds: usize, budget: usize) -> World {
    world(
        vec![
            writer(1, vec![(vec![row(1), name(3)], NONE)]),
            writer(2, vec![(vec![abort(1), name(4), row(5)], NONE), (vec![row(2)], NONE)]),
            writer(3, vec![(vec![row(10), name(6)], NONE)]),
            vacuum(rounds),
        ],
        budget,
    )
}

/// A version sets a horizon above a transaction that may be asleep, or aborted, or done.
fn horizon_world(rounds: usize, budget: usize) -> World {
    world(
        vec![
            writer(1, vec![(vec![row(1)], NONE)]),
            writer(2, vec![(vec![abort(1)], NONE), (vec![row(2)], NONE)]),
            writer(3, vec![(vec![row(20)], txn(9))]),
            vacuum(rounds),
        ],
        budget,
    )
}

/// A process that only refreshes sees a prefix of the history at any time.
fn reader_world(rounds: usize, budget: usize) -> World {
    world(
        vec![
            writer(1, vec![(vec![row(1)], NONE)]),
            writer(3, vec![(vec![row(10)], NONE), (vec![row(11)], NONE)]),
            vacuum(rounds),
            reader(2),
        ],
        budget,
    )
}

/// Two vacuums write checkpoints of one chain whose state is in parts, while a reader loads them.
fn parts_world(rounds: usize, rows: u8, budget: usize) -> World {
    let rows = (0..rows).map(|k| (vec![part(10 + k)], NONE)).collect();
    world(vec![writer(1, rows), vacuum(rounds), other_vacuum(rounds), reader(1)], budget)
}

/// How a world goes wrong without a rule.
fn broken(rule: Rule, start: World) -> String {
    BROKEN.set(Some(rule));
    let found = explore(start, 30_000_000);
    BROKEN.set(None);
    match found {
        Err(trail) => {
            eprintln!("{rule:?}: {trail}");
            trail.lines().next().unwrap_or_default().to_string()
        }
        Ok(states) => panic!("{rule:?} is broken and nothing was wrong in {states} states"),
    }
}

fn sound(start: World) -> usize {
    explore(start, usize::MAX).unwrap_or_else(|trail| panic!("{trail}"))
}

#[test]
fn rules_hold_in_small_worlds() {
    for (world, least) in [
        (label_world(2, 1, 1), 400_000),
        (name_world(2, 1, 1), 50_000),
        (batch_world(2, 1), 50_000),
        (horizon_world(2, 1), 100_000),
        (reader_world(2, 1), 150_000),
        (parts_world(2, 3, 1), 50_000),
    ] {
        let states = sound(world);
        assert!(states > least, "only {states} states: the world is smaller than it was");
    }
}

/// Two rounds of vacuum against two other writers: 4.0 million states. A part of them unless the environment has
/// `DIPPER_EXPLORE_STATES`, the number to stop at.
#[test]
fn slow_rules_hold_in_the_large_world() {
    let limit = std::env::var("DIPPER_EXPLORE_STATES").ok().and_then(|n| n.parse().ok()).unwrap_or(600_000);
    explore(label_world(2, 2, 1), limit).unwrap_or_else(|trail| panic!("{trail}"));
}

#[test]
fn without_links_strays_are_taken_for_versions() {
    let found = broken(Rule::Prev, label_world(2, 2, 1));
    assert!(found.contains("was acknowledged and is not in the history"), "{found}");
}

#[test]
fn without_the_listing_before_acknowledging_loads_are_lost() {
    let found = broken(Rule::After, label_world(2, 2, 1));
    assert!(found.contains("was acknowledged and is not in the history"), "{found}");
}

#[test]
fn without_done_markers_a_committed_load_is_denied() {
    let found = broken(Rule::Done, label_world(2, 2, 1));
    assert!(found.contains("1 was denied and is in the history"), "{found}");
}

#[test]
fn without_kept_aborts_an_aborted_load_is_committed() {
    let found = broken(Rule::Abort, label_world(2, 2, 1));
    assert!(found.contains("1 was denied and is in the history"), "{found}");
}

#[test]
fn without_the_checkpointed_version_strays_are_taken_for_versions() {
    let found = broken(Rule::Order, label_world(2, 2, 1));
    assert!(found.contains("is not in the history") || found.contains("for confirmed"), "{found}");
}

#[test]
fn without_a_loaded_state_strays_fail_loads() {
    let found = broken(Rule::Fail, label_world(2, 2, 1));
    assert!(found.contains("1 was denied and is in the history"), "{found}");
}

#[test]
fn without_the_horizon_forgotten_loads_come_back() {
    let found = broken(Rule::Horizon, horizon_world(2, 1));
    assert!(found.contains("1 was denied and is in the history"), "{found}");
}

#[test]
fn without_the_look_at_the_newest_checkpoint_strays_free_what_is_needed() {
    let found = broken(Rule::Newest, parts_world(2, 3, 0));
    assert!(found.contains("sees") || found.contains("lost a part") || found.contains("not in the history"), "{found}");
}

#[test]
fn without_ordinals_in_their_names_parts_are_freed_while_they_are_written() {
    let found = broken(Rule::Ordinal, parts_world(2, 3, 0));
    assert!(found.contains("has lost a part"), "{found}");
}
