//! The commit protocol, without input and output.
//!
//! A [`Committer`] brings a batch of transactions into a chain; a [`Vacuum`] writes a checkpoint and frees what it
//! replaces; a [`Reader`] finds the newest version. Each says what it wants to know or do next ([`Ask`]) and is told the
//! outcome ([`Answer`]). The driver in `io.rs` asks an object store; the explorer in `explore.rs` asks a model of one and
//! tries every interleaving. Both run this code.
//!
//! **The order of one chain settles everything.** An object is made by put-if-absent and never altered, so the first
//! record put at a number is that version, for ever. Until it is freed: vacuum deletes versions below a checkpoint, and a
//! writer that slept meanwhile can put a record at a freed number. Such a *stray* is no version. Nobody may build on it,
//! and its writer must not acknowledge it. Each rule below ([`Rule`]) closes one way in which that could happen; the
//! explorer shows for each that without it loads are lost, doubled or misreported.
//!
//! *Loading* (`Checkpoint`, `List`): the newest checkpoint, then the listing after it. Numbers without a gap, every
//! record naming the one before it, contents as listed; else again.
//!
//! *Committing*: `Put` at the next number on top of the newest version known. Anything but success: `Get` that number.
//! Ours: go on. Absent: put the same bytes again. Another's with the right link: build on it, at the number after. With
//! a wrong link: load afresh. What was met in a single read may be a stray, so it never decides that a transaction
//! failed: that takes a loaded state.
//!
//! *Before acknowledging* (`After`): list what is after one's number. Nothing, or an unbroken chain from our record to
//! the head, proves that the number was not a freed one: the checkpointed version itself is never freed, so above a
//! freed number something is always listed, and it does not link to us. Otherwise done markers (`Done`) tell whether the
//! transaction had been committed before; if not, it is committed again from a fresh load.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::record::{Checkpoint, Done, Entry, Op, Record, RecordId, TxnId};
use super::state::{Broken, Known, State};

/// A rule of the protocol that tests can switch off, to see that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Every record names the one before it, and readers check it.
    Prev,
    /// Before acknowledging, what is listed after one's number must continue it.
    After,
    /// Done markers are written before a checkpoint forgets transactions.
    Done,
    /// Checkpoints keep aborted transactions until the horizon passed them.
    Abort,
    /// The checkpointed version itself is not freed.
    Order,
    /// Only a loaded state ends a transaction as failed.
    Fail,
    /// A transaction below the horizon is never put again.
    Horizon,
}

#[cfg(test)]
thread_local! {
    pub(super) static BROKEN: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

/// True: the rules hold. Tests break one at a time.
#[cfg(test)]
pub(super) fn holds(rule: Rule) -> bool {
    BROKEN.get() != Some(rule)
}

/// True: the rules hold.
#[cfg(not(test))]
#[inline]
pub(super) const fn holds(_rule: Rule) -> bool {
    true
}

/// What a machine wants next.
#[derive(Clone, Debug)]
pub(crate) enum Ask<S: State> {
    /// Read the newest checkpoint.
    Checkpoint,
    /// List the records with numbers above this one, with the contents that were listed.
    List { after: u64 },
    /// Read all done markers.
    Done,
    /// Put a record at its number, if there is none.
    Put(Arc<Record<S::Change>>),
    /// Read the record at this number.
    Get { number: u64 },
    /// Put a done marker, if there is none of its number.
    PutDone(Done),
    /// Put a checkpoint, if there is none of its number.
    PutCheckpoint(Arc<Checkpoint<S>>),
    /// Delete all records below this number.
    Free { below: u64 },
    /// Delete all checkpoints below this number, and done markers of transactions that are all below the horizon.
    FreeOld { below: u64, horizon: TxnId },
}

/// The outcome of an [`Ask`].
#[derive(Clone, Debug)]
pub(crate) enum Answer<S: State> {
    /// `None`: there is no checkpoint yet.
    Checkpoint(Option<Checkpoint<S>>),
    /// In order of their numbers.
    List(Vec<Arc<Record<S::Change>>>),
    /// Transactions of all done markers.
    Done(BTreeSet<TxnId>),
    /// True: this call made the object. False: anything else, it may or may not be there.
    Put(bool),
    /// `None`: no such record.
    Get(Option<Arc<Record<S::Change>>>),
    /// `PutDone`, `PutCheckpoint`, `Free` or `FreeOld` is done; what was to be put is there.
    Finished,
}

/// How a transaction ended.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome<E> {
    /// Its operation is part of the chain.
    Committed,
    /// The change alters nothing: no version was needed.
    Unchanged,
    /// The change does not fit the newest state; nothing was written.
    Refused(E),
    /// Another writer aborted it; it never took effect and never will.
    Aborted,
    /// It was to be aborted, and is committed.
    AlreadyCommitted,
    /// Its id fell below the horizon before it was ever put; it never took effect.
    Expired,
    /// It was put, its fate is forgotten.
    Unknown,
}

/// A transaction of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pending<C> {
    pub txn: TxnId,
    pub op: Op<C>,
    /// A record with it was put, perhaps without effect.
    pub attempted: bool,
}

/// Where record ids come from: random, but for the explorer, which must not tell apart what is equal.
pub(crate) type Ids<S> = fn(&Record<<S as State>::Change>) -> RecordId;

/// Finds the newest version.
#[derive(Clone, Debug)]
pub(crate) enum Reader<S: State> {
    Checkpoint,
    List(Known<S>),
}

impl<S: State> Reader<S> {
    /// Starts at a version known to be true: one listing if it still is near.
    pub fn refresh(from: Known<S>) -> Self {
        Self::List(from)
    }

    pub fn ask(&self) -> Ask<S> {
        match self {
            Self::Checkpoint => Ask::Checkpoint,
            Self::List(base) => Ask::List { after: base.number },
        }
    }

    /// The newest version, or `None` and another ask; with the reason when a listing did not fit.
    pub fn answer(&mut self, answer: Answer<S>) -> Result<Option<Known<S>>, Broken> {
        match (&*self, answer) {
            (Self::Checkpoint, Answer::Checkpoint(c)) => {
                *self = Self::List(c.map_or_else(Known::root, Known::from_checkpoint));
                Ok(None)
            }
            (Self::List(base), Answer::List(records)) => match base.then_all(records.iter().map(|r| &**r)) {
                Ok(head) => Ok(Some(head)),
                Err(why) => {
                    *self = Self::Checkpoint;
                    Err(why)
                }
            },
            (_, answer) => unreachable!("the driver answers what was asked, not {answer:?}"),
        }
    }
}

/// Where a committer stands.
#[derive(Clone, Debug)]
pub(super) enum Step<S: State> {
    /// Reads the newest version.
    Read(Reader<S>),
    /// Reads done markers for transactions that a put may have brought in before.
    Done,
    /// Puts the record.
    Put(Arc<Record<S::Change>>),
    /// Reads what is at the record's number.
    Get(Arc<Record<S::Change>>),
    /// Lists what is after the record's number.
    After(Arc<Record<S::Change>>),
    /// The listing did not continue our record: reads done markers.
    AfterDone,
    /// All transactions have ended.
    End,
}

/// Brings a batch of transactions into the chain.
#[derive(Debug)]
pub(crate) struct Committer<S: State> {
    /// The newest version known to be true.
    pub(super) confirmed: Known<S>,
    /// `confirmed` was read after the batch began.
    pub(super) fresh: bool,
    /// What the next record builds on: `confirmed`, or records met in single reads after it.
    pub(super) tip: Known<S>,
    /// `tip` with that record.
    next: Known<S>,
    /// Transactions that have not ended, in order.
    pub(super) pending: Vec<Pending<S::Change>>,
    pub(super) step: Step<S>,
    /// Ended transactions, for the driver to take.
    pub ended: Vec<(TxnId, Outcome<S::Error>)>,
    /// Why a listing did not fit, last time.
    pub broken: Option<Broken>,
    /// The horizon that the batch's record sets, unless it is above one of its own transactions.
    horizon: TxnId,
    pub(super) writer: u64,
    at_ms: i64,
    ids: Ids<S>,
}

impl<S: State> Clone for Committer<S> {
    /// For the explorer, which takes `ended` out after each step.
    fn clone(&self) -> Self {
        debug_assert!(self.ended.is_empty(), "outcomes are not cloned");
        Self {
            confirmed: self.confirmed.clone(),
            fresh: self.fresh,
            tip: self.tip.clone(),
            next: self.next.clone(),
            pending: self.pending.clone(),
            step: self.step.clone(),
            ended: Vec::new(),
            broken: self.broken.clone(),
            horizon: self.horizon,
            writer: self.writer,
            at_ms: self.at_ms,
            ids: self.ids,
        }
    }
}

/// Why a batch, or a part of it, cannot be put on top of a state.
enum Falls<S: State> {
    /// How this transaction ends.
    Ends(Outcome<S::Error>),
    Stays,
}

impl<S: State> Committer<S> {
    /// A batch on top of a version known to be true, however old.
    pub fn new(
        confirmed: Known<S>,
        batch: Vec<(TxnId, Op<S::Change>)>,
        horizon: TxnId,
        writer: u64,
        at_ms: i64,
        ids: Ids<S>,
    ) -> Self {
        let pending = batch.into_iter().map(|(txn, op)| Pending { txn, op, attempted: false }).collect();
        let (tip, next) = (confirmed.clone(), confirmed.clone());
        let step = Step::End;
        let (ended, broken) = (Vec::new(), None);
        let mut c =
            Self { confirmed, fresh: false, tip, next, pending, step, ended, broken, horizon, writer, at_ms, ids };
        // Whether a transaction to be aborted was committed may be known to done markers only: they are read first.
        let aborts = c.pending.iter().any(|p| matches!(p.op, Op::Abort));
        if aborts || !c.put_on(c.tip.clone()) {
            c.read();
        }
        c
    }

    /// What to do next; `None` when all transactions have ended.
    pub fn ask(&self) -> Option<Ask<S>> {
        Some(match &self.step {
            Step::Read(reader) => reader.ask(),
            Step::Done | Step::AfterDone => Ask::Done,
            Step::Put(record) => Ask::Put(Arc::clone(record)),
            Step::Get(record) => Ask::Get { number: record.number },
            Step::After(record) => Ask::List { after: record.number },
            Step::End => return None,
        })
    }

    /// The newest version known to be true.
    pub fn confirmed(&self) -> &Known<S> {
        &self.confirmed
    }

    /// True if [`confirmed`](Self::confirmed) shows everything that ended as committed.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// True if a record of this batch may have been written and the batch has not ended.
    pub fn attempted(&self) -> bool {
        self.pending.iter().any(|p| p.attempted)
    }

    /// Takes the outcome of what was asked.
    pub fn answer(&mut self, answer: Answer<S>) {
        match (std::mem::replace(&mut self.step, Step::End), answer) {
            (Step::Read(mut reader), answer) => match reader.answer(answer) {
                Ok(Some(head)) => self.loaded(head),
                Ok(None) => self.step = Step::Read(reader),
                Err(why) => {
                    self.broken = Some(why);
                    self.step = Step::Read(reader);
                }
            },
            (Step::Done, Answer::Done(done)) => self.decide(&done),
            (Step::Put(record), Answer::Put(made)) => {
                self.pending.iter_mut().for_each(|p| p.attempted = true);
                self.step = if made { Step::After(record) } else { Step::Get(record) };
            }
            (Step::Get(record), Answer::Get(None)) => self.step = Step::Put(record),
            (Step::Get(record), Answer::Get(Some(found))) => self.met(record, &found),
            (Step::After(_), Answer::List(after)) => self.after(&after),
            (Step::AfterDone, Answer::Done(done)) => {
                self.fresh = false; // the version that has it is above `confirmed`
                self.end_each(|p| match p.op {
                    Op::Commit(_) if done.contains(&p.txn) => Falls::Ends(Outcome::Committed),
                    _ => Falls::Stays,
                });
                if !self.pending.is_empty() {
                    self.read();
                }
            }
            (_, answer) => unreachable!("the driver answers what was asked, not {answer:?}"),
        }
    }

    /// Reads the newest version: from the last one known to be true, which is one listing, or afresh when that fails.
    fn read(&mut self) {
        self.step = Step::Read(Reader::refresh(self.confirmed.clone()));
    }

    fn loaded(&mut self, head: Known<S>) {
        self.confirmed = head.clone();
        self.tip = head;
        self.fresh = true;
        if self.pending.iter().any(|p| p.attempted || matches!(p.op, Op::Abort)) {
            self.step = Step::Done;
        } else {
            self.decide(&BTreeSet::new());
        }
    }

    /// Ends what a state just loaded, and done markers read after it, can end; puts the rest.
    fn decide(&mut self, done: &BTreeSet<TxnId>) {
        let txns = Arc::clone(&self.tip.txns);
        let mut scratch = (*self.tip.state).clone();
        self.end_each(|p| {
            let committed = txns.committed.contains_key(&p.txn) || done.contains(&p.txn);
            let aborted = txns.aborted.contains(&p.txn);
            let forgotten = holds(Rule::Horizon) && p.txn < txns.horizon;
            Falls::Ends(match &p.op {
                Op::Commit(_) if aborted => Outcome::Aborted,
                Op::Commit(_) if committed => Outcome::Committed,
                Op::Abort if committed => Outcome::AlreadyCommitted,
                Op::Abort if aborted => Outcome::Committed,
                Op::Commit(_) if forgotten && !p.attempted => Outcome::Expired,
                _ if forgotten => Outcome::Unknown,
                Op::Abort => return Falls::Stays,
                Op::Commit(change) => {
                    let mut next = scratch.clone();
                    match next.apply(change) {
                        Ok(true) => {
                            scratch = next;
                            return Falls::Stays;
                        }
                        Ok(false) => Outcome::Unchanged,
                        Err(e) => Outcome::Refused(e),
                    }
                }
            })
        });
        if !self.pending.is_empty() {
            let fits = self.put_on(self.tip.clone());
            debug_assert!(fits, "what falls out was ended above");
        }
    }

    fn end_each(&mut self, mut falls: impl FnMut(&Pending<S::Change>) -> Falls<S>) {
        let ended = &mut self.ended;
        self.pending.retain(|p| match falls(p) {
            Falls::Stays => true,
            Falls::Ends(outcome) => {
                ended.push((p.txn, outcome));
                false
            }
        });
    }

    /// Makes the record that follows `tip` and goes on to put it. False if some transaction does not fit there.
    fn put_on(&mut self, tip: Known<S>) -> bool {
        let txns = &tip.txns;
        let ended = |p: &Pending<S::Change>| {
            let forgotten = holds(Rule::Horizon) && p.txn < txns.horizon;
            forgotten || txns.committed.contains_key(&p.txn) || txns.aborted.contains(&p.txn)
        };
        if self.pending.iter().any(ended) {
            return false;
        }
        // A record never sends its own transactions below the horizon.
        let own = self.pending.iter().map(|p| p.txn).min().unwrap_or_default();
        let mut record = Record {
            number: tip.number + 1,
            id: RecordId::ROOT,
            prev: tip.id,
            writer: self.writer,
            at_ms: self.at_ms,
            horizon: tip.txns.horizon.max(self.horizon.min(own)),
            entries: self.pending.iter().map(|p| Entry { txn: p.txn, op: p.op.clone() }).collect(),
        };
        record.id = (self.ids)(&record);
        let mut next = tip.clone();
        if !matches!(next.push(&record), Ok(true)) {
            return false;
        }
        self.tip = tip;
        self.next = next;
        self.step = Step::Put(Arc::new(record));
        true
    }

    /// Our number is taken: by us, by a version that we build on, or by something that we cannot judge from here.
    fn met(&mut self, record: Arc<Record<S::Change>>, found: &Record<S::Change>) {
        if found.id == record.id {
            self.step = Step::After(record);
            return;
        }
        let Ok(next) = self.tip.then(found) else { return self.read() };
        if !holds(Rule::Fail) && self.pending.iter().any(|p| next.txns.aborted.contains(&p.txn)) {
            self.tip = next;
            return self.decide(&BTreeSet::new());
        }
        // A transaction that falls out here, aborted or no longer fitting, may have fallen to a stray.
        if !self.put_on(next) {
            self.read();
        }
    }

    /// Acknowledges if the listing after our record continues it.
    fn after(&mut self, after: &[Arc<Record<S::Change>>]) {
        match self.next.then_all(after.iter().map(|r| &**r)) {
            Ok(head) => {
                self.confirmed = head;
                self.fresh = true;
                self.end_each(|_| Falls::Ends(Outcome::Committed));
            }
            Err(_) if !holds(Rule::After) => self.end_each(|_| Falls::Ends(Outcome::Committed)),
            Err(why) => {
                self.broken = Some(why);
                self.step = Step::AfterDone;
            }
        }
    }
}

/// Writes a checkpoint of the newest version and frees what it replaces.
#[derive(Clone, Debug)]
pub(crate) enum Vacuum<S: State> {
    Read(Reader<S>),
    /// First what an earlier vacuum left that was cut off after its checkpoint: processes that live shortly would else
    /// write checkpoints and free nothing.
    Leftover(Known<S>),
    /// Before the checkpoint: who asks for a transaction that it forgets finds it here.
    PutDone(Known<S>),
    PutCheckpoint(Known<S>),
    /// The version itself stays: it tells sleepers that numbers below were freed.
    Free(Known<S>),
    FreeOld(Known<S>),
    End,
}

impl<S: State> Vacuum<S> {
    pub fn new() -> Self {
        Self::Read(Reader::Checkpoint)
    }

    pub fn ask(&self) -> Option<Ask<S>> {
        Some(match self {
            Self::Read(reader) => reader.ask(),
            Self::Leftover(base) => Ask::Free { below: base.number },
            Self::PutDone(head) => {
                let txns = head.txns.committed.keys().copied().filter(|_| holds(Rule::Done)).collect();
                Ask::PutDone(Done { number: head.number, txns })
            }
            Self::PutCheckpoint(head) => Ask::PutCheckpoint(Arc::new(head.to_checkpoint())),
            Self::Free(head) => Ask::Free { below: head.number + u64::from(!holds(Rule::Order)) },
            Self::FreeOld(head) => Ask::FreeOld { below: head.number, horizon: head.txns.horizon },
            Self::End => return None,
        })
    }

    pub fn answer(&mut self, answer: Answer<S>) {
        *self = match (std::mem::replace(self, Self::End), answer) {
            (Self::Read(Reader::Checkpoint), Answer::Checkpoint(Some(c))) => Self::Leftover(Known::from_checkpoint(c)),
            (Self::Leftover(base), Answer::Finished) => Self::Read(Reader::List(base)),
            (Self::Read(mut reader), answer) => match reader.answer(answer) {
                Ok(Some(head)) if head.number == 0 => Self::End,
                Ok(Some(head)) => Self::PutDone(head),
                Ok(None) | Err(_) => Self::Read(reader),
            },
            (Self::PutDone(head), Answer::Finished) => Self::PutCheckpoint(head),
            (Self::PutCheckpoint(head), Answer::Finished) => Self::Free(head),
            (Self::Free(head), Answer::Finished) => Self::FreeOld(head),
            (Self::FreeOld(_), Answer::Finished) => Self::End,
            (_, answer) => unreachable!("the driver answers what was asked, not {answer:?}"),
        };
    }
}
