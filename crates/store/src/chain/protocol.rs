//! The commit protocol, without input and output.
//!
//! A [`Committer`] brings a batch of transactions into a chain; a [`Vacuum`] writes a checkpoint and frees what it
//! replaces; a [`Reader`] finds the newest version. Each says what it wants to know or do next ([`Ask`]) and receives
//! the outcome ([`Answer`]). The driver in `io.rs` asks an object store; the explorer in `explore.rs` asks a model of
//! one and tries every interleaving. Both run this code.
//!
//! **The order of one chain settles everything.** An object is made by put-if-absent and never altered, so the first
//! record put at a number is that version, until it is freed: vacuum deletes versions below a checkpoint, and a writer
//! that slept meanwhile can put a record at a freed number. Such a record, a *stray*, is not a version. Nobody may
//! build on it, and its writer must not acknowledge it. Each rule below ([`Rule`]) closes one way in which that could
//! happen; the explorer shows for each that without it loads are lost, doubled or misreported.
//!
//! *Loading* (`Checkpoint`, `List`): read the newest checkpoint, then the listing after it. The numbers must have no
//! gap, every record must name the one before it, and the contents must be those that were listed; otherwise loading
//! starts again.
//!
//! *Committing*: `Put` at the next number on top of the newest version known. After anything but success, `Get` that
//! number. If the record there is ours, go on. If there is none, put the same bytes again. If it is another's with the
//! right link, build on it, at the number after. If its link is wrong, load afresh. A record met in a single read may
//! be a stray, so it never decides that a transaction failed: that takes a loaded state.
//!
//! *Before acknowledging* (`After`): list the records after one's number. If there are none, or an unbroken chain from
//! our record to the head, the number was not a freed one: the checkpointed version itself is never freed, so above a
//! freed number something is always listed, and it does not link to us. Otherwise done markers (`Done`) tell whether
//! the transaction had been committed before; if not, it is committed again from a fresh load.
//!
//! *Checkpoints* (`Newest`, `PutParts`, `PutCheckpoint`) have ordinals without a gap. Each is made from the one before
//! and put if absent, so of two vacuums one wins, and a part of one checkpoint is part of the next or of none after it.
//! Therefore the parts that the newest checkpoint does not name, with ordinals up to its own, can be freed at any time:
//! parts that another vacuum is just writing have the next ordinal. A sleeping writer can put a checkpoint at an
//! ordinal that was freed. The newest checkpoint is never freed, so nobody ever takes the sleeper's for the newest, and
//! it frees nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::record::{Checkpoint, Done, Entry, Op, PartName, Record, RecordId, TxnId};
use super::state::{Base, Broken, Known, Shared, State};

/// A rule of the protocol that tests can switch off, to show that it is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Every record names the one before it, and readers check it.
    Prev,
    /// Before acknowledging, the records listed after one's own number must continue it.
    After,
    /// Done markers are written before a checkpoint forgets transactions.
    Done,
    /// Checkpoints keep aborted transactions until the horizon has passed them.
    Abort,
    /// The checkpointed version itself is not freed.
    Order,
    /// Only a loaded state ends a transaction as failed.
    Fail,
    /// A transaction below the horizon is never put again.
    Horizon,
    /// Nothing is freed for a checkpoint that is not the newest one.
    Newest,
    /// Parts carry the ordinal of the checkpoint they are written for, and are freed only from that one on.
    Ordinal,
}

#[cfg(test)]
thread_local! {
    pub(super) static BROKEN: std::cell::Cell<Option<Rule>> = const { std::cell::Cell::new(None) };
}

/// Returns true if the rule holds. Tests break one at a time.
#[cfg(test)]
pub(super) fn holds(rule: Rule) -> bool {
    BROKEN.get() != Some(rule)
}

/// Returns true: the rules hold.
#[cfg(not(test))]
#[inline]
pub(super) const fn holds(_rule: Rule) -> bool {
    true
}

/// The next request of a machine.
#[derive(Clone, Debug)]
pub(crate) enum Ask<S: State> {
    /// Read the newest checkpoint.
    Checkpoint,
    /// Read the parts that a checkpoint names.
    Parts(Arc<Checkpoint<S>>),
    /// Find the ordinal of the newest checkpoint.
    Newest,
    /// List the records with numbers above `after`, with the contents that were listed.
    List { after: u64 },
    /// Read all done markers.
    Done,
    /// Put a record at its number, if there is none.
    Put(Arc<Record<S::Change>>),
    /// Read the record at this number.
    Get { number: u64 },
    /// Put a done marker, if there is none of its number.
    PutDone(Done),
    /// Put parts of a checkpoint; nobody else has their names.
    PutParts(Vec<(PartName, Arc<Shared<S::Part>>)>),
    /// Put a checkpoint, if there is none of its ordinal.
    PutCheckpoint(Arc<Checkpoint<S>>),
    /// Delete all records below this number.
    Free { below: u64 },
    /// Delete all checkpoints before this one, the parts up to its ordinal that it does not name, and the done markers
    /// below its version whose transactions are all below the horizon.
    FreeOld { base: Arc<Base>, horizon: TxnId },
}

/// The outcome of an [`Ask`].
#[derive(Clone, Debug)]
pub(crate) enum Answer<S: State> {
    /// The newest checkpoint; `None` if there is none yet.
    Checkpoint(Option<Checkpoint<S>>),
    /// The parts, in order; `None` if one is missing, so there is a newer checkpoint.
    Parts(Option<Vec<Arc<Shared<S::Part>>>>),
    /// Ordinal of the newest checkpoint; 0 if there is none.
    Newest(u64),
    /// The records in the order of their numbers.
    List(Vec<Arc<Record<S::Change>>>),
    /// Transactions of all done markers.
    Done(BTreeSet<TxnId>),
    /// Outcome of putting a record or checkpoint. True: this call made the object. False: anything else, and the object
    /// may or may not be there.
    Put(bool),
    /// The record; `None` if there is no such record.
    Get(Option<Arc<Record<S::Change>>>),
    /// `PutDone`, `PutParts`, `Free` or `FreeOld` is done; the objects that were to be put are there.
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
    /// Another writer aborted the transaction; it never took effect and never will.
    Aborted,
    /// The operation was an abort, but the transaction is already committed.
    AlreadyCommitted,
    /// The transaction's id fell below the horizon before it was ever put; it never took effect.
    Expired,
    /// The transaction was put, but its outcome is forgotten.
    Unknown,
}

/// A transaction of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Pending<C> {
    pub txn: TxnId,
    pub op: Op<C>,
    /// Whether a record with the transaction was put, perhaps without effect.
    pub attempted: bool,
}

/// Source of record ids: random, except for the explorer, whose equal records must have equal ids.
pub(crate) type Ids<S> = fn(&Record<<S as State>::Change>) -> RecordId;

/// Finds the newest version.
#[derive(Clone, Debug)]
pub(crate) enum Reader<S: State> {
    Checkpoint,
    Parts(Arc<Checkpoint<S>>),
    List(Known<S>),
}

impl<S: State> Reader<S> {
    /// Starts at a version known to be true. The read is one listing if that version is still near the newest one.
    pub fn refresh(from: Known<S>) -> Self {
        Self::List(from)
    }

    pub fn ask(&self) -> Ask<S> {
        match self {
            Self::Checkpoint => Ask::Checkpoint,
            Self::Parts(checkpoint) => Ask::Parts(Arc::clone(checkpoint)),
            Self::List(base) => Ask::List { after: base.number },
        }
    }

    /// Returns the newest version, or `None` if there is another ask, or the reason why a listing did not fit.
    pub fn answer(&mut self, answer: Answer<S>) -> Result<Option<Known<S>>, Broken> {
        match (&*self, answer) {
            (Self::Checkpoint, Answer::Checkpoint(None)) => {
                *self = Self::List(Known::root());
                Ok(None)
            }
            (Self::Checkpoint, Answer::Checkpoint(Some(c))) if c.parts.is_empty() => {
                *self = Self::List(Known::from_checkpoint(c, Vec::new())?);
                Ok(None)
            }
            (Self::Checkpoint, Answer::Checkpoint(Some(c))) => {
                *self = Self::Parts(Arc::new(c));
                Ok(None)
            }
            (Self::Parts(_), Answer::Parts(None)) => {
                *self = Self::Checkpoint;
                Err("a part of the newest checkpoint is missing".into())
            }
            (Self::Parts(c), Answer::Parts(Some(parts))) => {
                let known = Known::from_checkpoint((**c).clone(), parts);
                *self = Self::Checkpoint; // unless they fit together
                *self = Self::List(known?);
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
    /// Reads the record at the record's number.
    Get(Arc<Record<S::Change>>),
    /// Lists the records after the record's number.
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
    /// Whether `confirmed` was read after the batch began.
    pub(super) fresh: bool,
    /// The version that the next record builds on: `confirmed`, or records met in single reads after it.
    pub(super) tip: Known<S>,
    /// The state of `tip` after the record that is being put.
    next: Known<S>,
    /// Transactions that have not ended, in order.
    pub(super) pending: Vec<Pending<S::Change>>,
    pub(super) step: Step<S>,
    /// Ended transactions, for the driver to take.
    pub ended: Vec<(TxnId, Outcome<S::Error>)>,
    /// Why the last listing did not fit.
    pub broken: Option<Broken>,
    /// The horizon that the batch's record sets, unless one of its own transactions is below it.
    horizon: TxnId,
    pub(super) writer: u64,
    at_ms: i64,
    ids: Ids<S>,
}

impl<S: State> Clone for Committer<S> {
    /// Clones for the explorer, which takes `ended` out after each step.
    fn clone(&self) -> Self {
        assert!(self.ended.is_empty(), "outcomes are not cloned");
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

/// Whether a transaction ends or stays in the batch.
enum Falls<S: State> {
    /// The transaction ends with this outcome.
    Ends(Outcome<S::Error>),
    Stays,
}

impl<S: State> Committer<S> {
    /// Starts a batch on top of a version known to be true, however old.
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
        // Only done markers may know whether a transaction that is to be aborted was committed: they are read first.
        let aborts = c.pending.iter().any(|p| matches!(p.op, Op::Abort));
        if aborts || !c.put_on(c.tip.clone()) {
            c.read();
        }
        c
    }

    /// Returns what to do next; `None` when all transactions have ended.
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

    /// Returns the newest version known to be true.
    pub fn confirmed(&self) -> &Known<S> {
        &self.confirmed
    }

    /// Returns true if [`confirmed`](Self::confirmed) shows everything that ended as committed.
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Returns true if a record of this batch may have been written and the batch has not ended.
    pub fn attempted(&self) -> bool {
        self.pending.iter().any(|p| p.attempted)
    }

    /// Takes the answer to the last [`Ask`].
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

    /// Ends the transactions whose outcome a state just loaded, and done markers read after it, can decide; puts the
    /// rest.
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
            assert!(fits, "what falls out was ended above");
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

    /// Makes the record that follows `tip` and goes on to put it. Returns false if some transaction does not fit there.
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
        assert_eq!(next.number, tip.number + 1, "a version follows the one that it is put on");
        self.tip = tip;
        self.next = next;
        self.step = Step::Put(Arc::new(record));
        true
    }

    /// Handles a taken number: the record there is our own, a version that we build on, or something that cannot be
    /// judged from here.
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
        // A transaction that drops out here, because it is aborted or does not fit, may have been displaced by a stray.
        if !self.put_on(next) {
            self.read();
        }
    }

    /// Acknowledges the batch if the listing after our record continues it.
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

/// Writes a checkpoint of the newest version and frees the objects that it replaces.
#[derive(Clone, Debug)]
pub(crate) struct Vacuum<S: State> {
    pub(super) step: Clean<S>,
    /// Source of the random numbers in names of parts. For the explorer they come from the version and the place of the
    /// part.
    names: Names<S>,
    /// Parts that the checkpoint brought, set once it is known to be the newest: from then on they are stored.
    pub stored: Vec<(PartName, Arc<Shared<S::Part>>)>,
    /// The version of that checkpoint, based on it.
    pub head: Option<Known<S>>,
}

/// Source of the names of parts: takes the version and the place of the part.
pub(crate) type Names<S> = fn(&Known<S>, usize) -> u64;

/// Where a vacuum stands.
#[derive(Clone, Debug)]
pub(super) enum Clean<S: State> {
    /// Is the state that we know based on the newest checkpoint? Then its parts need not be read.
    Newest(Known<S>),
    Read(Reader<S>),
    /// Frees first the objects that an earlier vacuum left when it was cut off after its checkpoint. Otherwise
    /// short-lived processes would write checkpoints and free nothing.
    Leftover(Known<S>),
    List(Reader<S>),
    /// Puts the done marker before the checkpoint: whoever asks for a transaction that the checkpoint forgets finds it
    /// here.
    PutDone(Known<S>),
    PutParts(Known<S>, Plan<S>),
    PutCheckpoint(Known<S>, Plan<S>),
    /// Confirms the checkpoint: a writer that slept may have put one whose ordinal was freed, and then a newer one is
    /// there.
    Confirm(Known<S>, Plan<S>),
    /// Frees the versions below. The checkpoint's own version stays: it tells sleeping writers that numbers below were
    /// freed.
    Free(Known<S>),
    FreeOld(Known<S>),
    End,
}

/// The parts of a checkpoint: names in order, and those that must be written.
#[derive(Clone, Debug)]
pub(super) struct Plan<S: State> {
    pub names: Vec<PartName>,
    new: Vec<(PartName, Arc<Shared<S::Part>>)>,
}

impl<S: State> Vacuum<S> {
    /// Starts at a version known to be true, however old.
    pub fn new(known: Known<S>, names: Names<S>) -> Self {
        Self { step: Clean::Newest(known), names, stored: Vec::new(), head: None }
    }

    pub fn ask(&self) -> Option<Ask<S>> {
        Some(match &self.step {
            Clean::Newest(_) | Clean::Confirm(..) => Ask::Newest,
            Clean::Read(reader) | Clean::List(reader) => reader.ask(),
            Clean::Leftover(base) => Ask::Free { below: base.base.number },
            Clean::PutDone(head) => {
                let since = |number: &u64| *number > head.base.number && holds(Rule::Done);
                let txns = head.txns.committed.iter().filter(|(_, n)| since(n)).map(|(txn, _)| *txn).collect();
                Ask::PutDone(Done { number: head.number, txns })
            }
            Clean::PutParts(_, plan) => Ask::PutParts(plan.new.clone()),
            Clean::PutCheckpoint(head, plan) => Ask::PutCheckpoint(Arc::new(head.to_checkpoint(plan.names.clone()))),
            Clean::Free(head) => Ask::Free { below: head.number + u64::from(!holds(Rule::Order)) },
            Clean::FreeOld(head) => Ask::FreeOld { base: Arc::clone(&head.base), horizon: head.txns.horizon },
            Clean::End => return None,
        })
    }

    /// Returns the version of the checkpoint that the new one replaces.
    pub fn replaces(&self) -> Option<u64> {
        match &self.step {
            Clean::PutDone(head) => Some(head.base.number),
            _ => None,
        }
    }

    pub fn answer(&mut self, answer: Answer<S>) {
        self.step = match (std::mem::replace(&mut self.step, Clean::End), answer) {
            (Clean::Newest(known), Answer::Newest(ordinal)) if ordinal == known.base.ordinal => Clean::Leftover(known),
            (Clean::Newest(_), Answer::Newest(_)) => Clean::Read(Reader::Checkpoint),
            (Clean::Read(mut reader), answer) => match (reader.answer(answer), reader) {
                (Ok(_), Reader::List(base)) => Clean::Leftover(base),
                (_, reader) => Clean::Read(reader),
            },
            (Clean::Leftover(base), Answer::Finished) => Clean::List(Reader::List(base)),
            (Clean::List(mut reader), answer) => match reader.answer(answer) {
                Ok(Some(head)) if head.number == head.base.number => Clean::End,
                Ok(Some(head)) => Clean::PutDone(head),
                Ok(None) | Err(_) => Clean::Read(reader),
            },
            (Clean::PutDone(head), Answer::Finished) => {
                let plan = self.plan(&head);
                if plan.new.is_empty() { Clean::PutCheckpoint(head, plan) } else { Clean::PutParts(head, plan) }
            }
            (Clean::PutParts(head, plan), Answer::Finished) => Clean::PutCheckpoint(head, plan),
            (Clean::PutCheckpoint(head, plan), Answer::Put(true)) => Clean::Confirm(head, plan),
            // Another vacuum was faster, or the answer is lost: the next vacuum finds what is there.
            (Clean::PutCheckpoint(..), Answer::Put(false)) => Clean::End,
            (Clean::Confirm(head, plan), Answer::Newest(newest)) => {
                let (ordinal, number) = (head.base.ordinal + 1, head.number);
                if newest == ordinal || !holds(Rule::Newest) {
                    let base = Base { ordinal, number, parts: plan.names.iter().copied().collect() };
                    let head = head.rebased(&Arc::new(base));
                    self.stored = plan.new;
                    self.head = Some(head.clone());
                    Clean::Free(head)
                } else {
                    Clean::End
                }
            }
            (Clean::Free(head), Answer::Finished) => Clean::FreeOld(head),
            (Clean::FreeOld(_), Answer::Finished) => Clean::End,
            (_, answer) => unreachable!("the driver answers what was asked, not {answer:?}"),
        };
    }

    /// Plans the parts: those that the checkpoint before names are used again, all others are written under new names.
    fn plan(&self, head: &Known<S>) -> Plan<S> {
        let mut plan = Plan { names: Vec::new(), new: Vec::new() };
        for (at, part) in head.state.parts().into_iter().enumerate() {
            let known = part.name().filter(|name| head.base.parts.contains(name));
            let name = known.unwrap_or_else(|| {
                // The ordinal of the new checkpoint is not freed: freeing goes by ordinals of checkpoints that are
                // there.
                let ordinal = head.base.ordinal + u64::from(holds(Rule::Ordinal));
                let name = PartName { ordinal, random: (self.names)(head, at) };
                plan.new.push((name, part));
                name
            });
            plan.names.push(name);
        }
        assert_eq!(plan.names.iter().collect::<BTreeSet<_>>().len(), plan.names.len(), "each part has its own name");
        plan
    }
}
