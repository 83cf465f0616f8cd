//! Explores every interleaving of the commit protocol in small worlds.
//!
//! The processes are the machines of `protocol.rs`; the store is a model: objects put if absent, atomic listings (the
//! driver makes them so by checking that every record is still the one that was listed). Any process may sleep at any
//! point, even for ever (every state is checked, so a crash is a process that takes no further step). A budget limits
//! how many puts lose their answer or report a conflict that does not exist.
//!
//! Checked in every state:
//! - no transaction is in the true history twice; an acknowledged transaction is in it, one that was answered as
//!   failed, refused or expired is not; of two attempts under one label at most one is in it; a refusal has its reason
//!   in it;
//! - the state that a fresh reader loads is that of the true history; any state that a process holds for confirmed is a
//!   prefix of it; the newest checkpoint has all its parts.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Instant;

use super::protocol::{Answer, Ask, BROKEN, Clean, Committer, Names, Outcome, Pending, Reader, Rule, Step, Vacuum};
use super::record::{Checkpoint, Entry, Op, PartName, Record, RecordId, TxnId};
use super::state::{Known, Shared, State};

mod model;
mod tables;

type Rec<S> = Arc<Record<<S as State>::Change>>;
type Batch<S> = Vec<(TxnId, Op<<S as State>::Change>)>;

/// A state that is explored, and the tasks of its writers.
trait Subject: State<Part: PartialEq> + PartialEq {
    /// A task of a writer.
    type Task: Clone + Debug;
    /// Data of a world beside its chain.
    type Beside: Clone + Debug + Default + Hash;

    /// Returns the batch of a task on a state, and the horizon that it sets; `None` if there is nothing to do.
    fn batch(task: &mut Self::Task, state: &Self, beside: &mut Self::Beside) -> Option<(Batch<Self>, TxnId)>;

    /// Notes that one of a batch's transactions has ended, with the state. Returns true if the task is done again on
    /// it.
    fn ended(_: &mut Self::Task, _: TxnId, _: &Outcome<Self::Error>, _: &Self, _: &mut Self::Beside) -> bool {
        false
    }

    /// Hashes the properties that distinguish tasks under way, and with them the changes that they make.
    fn mark(_: &Self::Task, _: &mut DefaultHasher) {}

    /// Hashes the properties that distinguish changes of one transaction.
    fn content(_: &Self::Change, _: &mut DefaultHasher) {}

    /// Returns a change as it is read back.
    fn stored(change: Self::Change) -> Self::Change {
        change
    }

    /// Returns the mistake in a world that the protocol's own checks do not find.
    fn wrong(world: &World<Self>) -> Option<String>;
}

#[derive(Clone, Debug)]
enum Process<S: Subject> {
    Writer {
        writer: u64,
        /// Set while the process is starting.
        opening: Option<Reader<S>>,
        machine: Option<Box<Committer<S>>>,
        /// Tasks; the current one first.
        todo: Vec<S::Task>,
    },
    Vacuum {
        machine: Vacuum<S>,
        rounds: usize,
        /// State that the process knows between its rounds, with the names of its parts.
        known: Known<S>,
        names: Names<S>,
    },
    Reader {
        known: Known<S>,
        machine: Option<Reader<S>>,
        rounds: usize,
    },
}

#[derive(Clone, Debug)]
struct World<S: Subject> {
    versions: BTreeMap<u64, Rec<S>>,
    checkpoints: BTreeMap<u64, Checkpoint<S>>,
    done: BTreeMap<u64, BTreeSet<TxnId>>,
    parts: BTreeMap<PartName, S::Part>,
    history: Vec<Rec<S>>,
    /// The states before the history and after each of its versions.
    truths: Vec<Arc<S>>,
    acknowledged: BTreeSet<TxnId>,
    /// Transactions that were answered as failed, refused or expired.
    denied: BTreeSet<TxnId>,
    refused: BTreeSet<TxnId>,
    beside: S::Beside,
    processes: Vec<Process<S>>,
    budget: usize,
}

fn txn(n: u8) -> TxnId {
    TxnId(u128::from(n))
}

const NONE: TxnId = TxnId(0);

fn id_of<S: Subject>(record: &Record<S::Change>) -> RecordId {
    let h = &mut DefaultHasher::new();
    (record.number, record.prev, record.writer, record.horizon).hash(h);
    for e in &record.entries {
        e.txn.hash(h);
        match &e.op {
            Op::Abort => true.hash(h),
            Op::Commit(change) => {
                false.hash(h);
                S::content(change, h);
            }
        }
    }
    RecordId(u128::from(h.finish()))
}

/// Begins the next task that has something to do.
fn begin<S: Subject>(
    known: &Known<S>,
    writer: u64,
    todo: &mut Vec<S::Task>,
    beside: &mut S::Beside,
) -> Option<Box<Committer<S>>> {
    while let Some(task) = todo.first_mut() {
        if let Some((batch, horizon)) = S::batch(task, &known.state, beside) {
            return Some(Box::new(Committer::new(known.clone(), batch, horizon, writer, 0, id_of::<S>)));
        }
        todo.remove(0);
    }
    None
}

fn part_number<S: State>(process: u8, head: &Known<S>, at: usize) -> u64 {
    let mut h = DefaultHasher::new();
    (process, head.id, at).hash(&mut h);
    h.finish()
}

impl<S: Subject> World<S> {
    fn new(budget: usize) -> Self {
        Self {
            versions: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            done: BTreeMap::new(),
            parts: BTreeMap::new(),
            history: Vec::new(),
            truths: vec![Arc::default()],
            acknowledged: BTreeSet::new(),
            denied: BTreeSet::new(),
            refused: BTreeSet::new(),
            beside: S::Beside::default(),
            processes: Vec::new(),
            budget,
        }
    }

    /// Returns the newest version, without reading.
    fn head(&self) -> Known<S> {
        Known::root().then_all(self.history.iter().map(|r| &**r)).expect("the history fits together")
    }

    /// Adds one more version, from before the world begins.
    fn after(mut self, batch: Batch<S>) -> Self {
        let entries = batch.into_iter().map(|(txn, op)| Entry { txn, op }).collect();
        let (number, prev) = (self.history.len() as u64 + 1, self.head().id);
        let id = RecordId::ROOT;
        let mut record = Record { number, id, prev, writer: 0, at_ms: 0, horizon: NONE, entries };
        record.id = id_of::<S>(&record);
        let record = Arc::new(record);
        self.versions.insert(number, Arc::clone(&record));
        self.history.push(record);
        self.truths.push(self.head().state);
        self
    }

    /// Adds a writer that knows the newest version.
    fn writer(mut self, writer: u64, mut todo: Vec<S::Task>) -> Self {
        let machine = begin(&self.head(), writer, &mut todo, &mut self.beside);
        self.processes.push(Process::Writer { writer, opening: None, machine, todo });
        self
    }

    /// Adds a writer that has to read first.
    fn loading(mut self, writer: u64, todo: Vec<S::Task>) -> Self {
        self.processes.push(Process::Writer { writer, opening: Some(Reader::Checkpoint), machine: None, todo });
        self
    }

    fn vacuum(self, rounds: usize) -> Self {
        self.vacuum_naming(rounds, |head, at| part_number(1, head, at))
    }

    /// Adds a vacuum of another process: the parts that it writes have other names.
    fn other_vacuum(self, rounds: usize) -> Self {
        self.vacuum_naming(rounds, |head, at| part_number(2, head, at))
    }

    fn vacuum_naming(mut self, rounds: usize, names: Names<S>) -> Self {
        let known = self.head();
        self.processes.push(Process::Vacuum { machine: Vacuum::new(known.clone(), names), rounds, known, names });
        self
    }

    fn reader(mut self, rounds: usize) -> Self {
        let known = self.head();
        self.processes.push(Process::Reader { machine: Some(Reader::refresh(known.clone())), known, rounds });
        self
    }

    /// Returns the state after the whole history.
    fn truth(&self) -> &S {
        self.truths.last().expect("one for the beginning")
    }
}

impl<S: Subject> World<S> {
    /// Returns all worlds one step on.
    fn successors(&self) -> Vec<Self> {
        let mut out = Vec::new();
        for i in 0..self.processes.len() {
            let ask = match &self.processes[i] {
                Process::Writer { opening: Some(reader), .. } => Some(reader.ask()),
                Process::Writer { machine, .. } => machine.as_ref().and_then(|m| m.ask()),
                Process::Vacuum { machine, rounds, .. } => (*rounds > 0).then(|| machine.ask()).flatten(),
                Process::Reader { machine, .. } => machine.as_ref().map(Reader::ask),
            };
            if let Some(ask) = ask {
                self.step(i, ask, &mut out);
            }
        }
        out
    }

    fn step(&self, i: usize, ask: Ask<S>, out: &mut Vec<Self>) {
        let mut go = |mut world: Self, answer: Answer<S>| {
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
                let record = stored::<S>(&record);
                let last = self.history.last().map_or(RecordId::ROOT, |r| r.id);
                if record.number == self.history.len() as u64 + 1 && record.prev == last {
                    made.push(&record);
                }
                made.versions.insert(record.number, record);
                if self.budget > 0 {
                    let budget = self.budget - 1;
                    go(Self { budget, ..made.clone() }, Answer::Put(false)); // the answer is lost
                    go(Self { budget, ..self.clone() }, Answer::Put(false)); // a false conflict, nothing was written
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

    /// Adds a version to the history.
    fn push(&mut self, record: &Rec<S>) {
        let mut state = self.truth().clone();
        for e in &record.entries {
            if let Op::Commit(c) = &e.op {
                state.apply(c).expect("a version fits the history");
            }
        }
        self.truths.push(Arc::new(state));
        self.history.push(Arc::clone(record));
    }

    fn answer(&mut self, i: usize, answer: Answer<S>) {
        match &mut self.processes[i] {
            Process::Writer { writer, opening: opening @ Some(_), machine, todo } => {
                let reader = opening.as_mut().expect("it is opening");
                if let Ok(Some(head)) = reader.answer(answer) {
                    *opening = None;
                    *machine = begin(&head, *writer, todo, &mut self.beside);
                }
            }
            Process::Writer { writer, machine: slot, todo, .. } => {
                let machine = slot.as_mut().expect("it asked");
                let aborts = |p: &Pending<S::Change>| matches!(p.op, Op::Abort).then_some(p.txn);
                let aborts: BTreeSet<TxnId> = machine.pending.iter().filter_map(aborts).collect();
                machine.answer(answer);
                machine.broken = None;
                let mut again = false;
                for (txn, outcome) in std::mem::take(&mut machine.ended) {
                    let state = &machine.confirmed().state;
                    if S::ended(&mut todo[0], txn, &outcome, state, &mut self.beside) {
                        again = true;
                        continue;
                    }
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
                            todo.truncate(1); // the label is finished: nothing to do
                            self.acknowledged.insert(txn);
                        }
                        Outcome::Unchanged | Outcome::Unknown => {}
                    }
                }
                if machine.ask().is_none() {
                    if !again {
                        todo.remove(0);
                    }
                    if !todo.is_empty() {
                        let known = machine.confirmed().clone();
                        *slot = begin(&known, *writer, todo, &mut self.beside);
                    }
                }
            }
            Process::Vacuum { machine, rounds, known, names } => {
                machine.answer(answer);
                if let Some(head) = machine.head.take() {
                    let stored = std::mem::take(&mut machine.stored);
                    let name_of = |p: &Arc<_>| stored.iter().find(|(_, s)| Arc::ptr_eq(s, p)).map(|(name, _)| *name);
                    // The worlds share parts, so names are given to copies.
                    let named = |p: Arc<Shared<S::Part>>| match name_of(&p) {
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

    /// Returns the mistake in this state, if there is one.
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
        if let Some(wrong) = S::wrong(self) {
            return Some(wrong);
        }
        let truth = self.truth();
        let base = match self.checkpoints.last_key_value() {
            None => Known::root(),
            Some((n, c)) => match self.parts_of(c) {
                Some(parts) => Known::from_checkpoint(c.clone(), parts).unwrap(),
                None => return Some(format!("the newest checkpoint, {n}, has lost a part")),
            },
        };
        // A listing that does not fit is read again: a stray just above a checkpoint is recognised by its link.
        if let Ok(head) = base.then_all(self.versions.range(base.number + 1..).map(|(_, r)| &**r))
            && *head.state != *truth
        {
            return Some(format!("a fresh reader sees {:?}, the history is {truth:?}", head.state));
        }
        for p in &self.processes {
            let known = match p {
                Process::Writer { machine: Some(machine), .. } => machine.confirmed(),
                Process::Writer { .. } => continue,
                Process::Reader { known, .. } => known,
                Process::Vacuum { machine: Vacuum { step: Clean::PutCheckpoint(known, _), .. }, .. } => known,
                Process::Vacuum { .. } => continue,
            };
            let n = known.number as usize;
            let id = if n == 0 { Some(RecordId::ROOT) } else { self.history.get(n - 1).map(|r| r.id) };
            if id != Some(known.id) || self.truths.get(n).is_none_or(|truth| *known.state != **truth) {
                return Some(format!("a process takes version {n} with {:?} for confirmed", known.state));
            }
        }
        None
    }

    fn parts_of(&self, c: &Checkpoint<S>) -> Option<Vec<Arc<Shared<S::Part>>>> {
        c.parts.iter().map(|name| self.parts.get(name).map(|p| Shared::named(p.clone(), *name))).collect()
    }

    /// Returns a fingerprint; equal worlds have equal ones. Ids are derived from content and from the id before, so an
    /// id stands for everything that led to it.
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
            (&self.acknowledged, &self.denied, &self.refused, self.budget, &self.beside).hash(h);
            for p in &self.processes {
                match p {
                    Process::Writer { opening, machine, todo, .. } => {
                        (opening.is_some(), todo.len()).hash(h);
                        if let Some(r) = opening {
                            read(r, h);
                        }
                        todo.iter().for_each(|task| S::mark(task, h));
                        let Some(m) = machine else { continue };
                        m.fresh.hash(h);
                        for p in &m.pending {
                            (p.txn, matches!(p.op, Op::Abort), p.attempted).hash(h);
                        }
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

fn known<S: Subject>(k: &Known<S>, h: &mut DefaultHasher) {
    (k.number, k.id, &k.txns).hash(h);
}

/// Hashes a state with the checkpoint that it is based on, and the names of its parts.
fn parted<S: Subject>(k: &Known<S>, h: &mut DefaultHasher) {
    known(k, h);
    k.base.hash(h);
    k.state.parts().iter().for_each(|p| p.name().hash(h));
}

fn read<S: Subject>(r: &Reader<S>, h: &mut DefaultHasher) {
    match r {
        Reader::Checkpoint => 0.hash(h),
        Reader::Parts(c) => (1, c.ordinal, c.id).hash(h),
        Reader::List(k) => parted(k, h),
    }
}

/// Returns the record as others read it.
fn stored<S: Subject>(record: &Record<S::Change>) -> Rec<S> {
    let entry = |e: &Entry<S::Change>| {
        let op = match e.op.clone() {
            Op::Commit(change) => Op::Commit(S::stored(change)),
            Op::Abort => Op::Abort,
        };
        Entry { txn: e.txn, op }
    };
    Arc::new(Record { entries: record.entries.iter().map(entry).collect(), ..record.clone() })
}

/// Visits all worlds. Returns the number of states, or the mistake with the trail that led there.
fn explore<S: Subject>(start: World<S>, limit: usize) -> Result<usize, String> {
    let began = Instant::now();
    let mut seen = HashSet::from([start.fingerprint()]);
    // Depth first: the stack is the trail, and memory is one number per state.
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

impl<S: Subject> World<S> {
    /// Returns one line of a trail.
    fn brief(&self) -> String {
        let at = |p: &Process<S>| match p {
            Process::Writer { machine: None, .. } => "-".into(),
            Process::Writer { machine: Some(machine), .. } => match &machine.step {
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

/// Returns how a world goes wrong without a rule.
fn broken<S: Subject>(rule: Rule, start: World<S>) -> String {
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

fn sound<S: Subject>(start: World<S>) -> usize {
    explore(start, usize::MAX).unwrap_or_else(|trail| panic!("{trail}"))
}
