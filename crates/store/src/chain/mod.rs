//! Chains of versions made by put-if-absent: how everything that dipper stores changes.
//!
//! A chain is a directory of immutable objects in an object store:
//!
//! ```text
//! <prefix>/v/<n>       version n: its own random id, the id of version n-1, transactions with their changes
//! <prefix>/c/<k>       k-th checkpoint: the state at some version, of which it names unchanged parts of the one before
//! <prefix>/p/<k>-<id>  part of a state, written for the k-th checkpoint
//! <prefix>/done/<n>    transactions that the checkpoint of version n forgets
//! ```
//!
//! Numbers have 20 digits. Version n exists from the moment its object does. Creating an object that exists fails, so
//! each number is won by one writer, on any number of nodes, without locks. [`Chain`] is one process's view:
//! [`snapshot`](Chain::snapshot) costs nothing, [`refresh`](Chain::refresh) is one LIST, [`commit`](Chain::commit) one
//! PUT and one LIST. Commits of one process that wait at the same time share a version. Every
//! [`Options::checkpoint_versions`] versions a checkpoint is written in the background, and the objects that it
//! replaces are deleted.
//!
//! - `record.rs`: formats · `state.rs`: states and how versions follow each other
//! - `protocol.rs`: the commit protocol as state machines, with its rules · `io.rs`: their requests on a store
//! - `explore.rs` (tests): every interleaving of the machines in small worlds

mod error;
mod io;
mod probe;
mod protocol;
mod record;
mod state;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dipper_base::retry::{self, Attempts};
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::{Mutex, RwLock};
use rand::Rng;
use tokio::sync::oneshot;

pub use error::{ChainError, CommitError};
pub(crate) use io::{is_stray, number};
pub use probe::{NotDone, probe_put_if_absent};
pub(crate) use record::{Checkpoint, Done, Stored, decode, decode_as, encode_as};
pub use record::{Entry, Op, Record, RecordId, TxnId};
pub use state::{Shared, State};

use io::Io;
use protocol::{Answer, Ask, Committer, Outcome, Reader, Vacuum};
use state::Known;

use crate::attempts::again;

/// Most transactions in one version.
const BATCH_MAX: usize = 256;

/// How a chain is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// Versions between checkpoints. Up to eight times as many while the versions are small beside the state.
    pub checkpoint_versions: u64,
    /// Bytes of versions between checkpoints, or half the last checkpoint's size if that is more.
    pub checkpoint_bytes: u64,
    /// How long a transaction is remembered after it began, so that a writer that was cut off can learn its outcome.
    /// Also the longest time that a commit may take.
    pub remember: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { checkpoint_versions: 64, checkpoint_bytes: 1 << 20, remember: Duration::from_secs(3600) }
    }
}

/// One process's view of a chain; clones share it.
#[derive(Debug)]
pub struct Chain<S: State> {
    inner: Arc<Inner<S>>,
}

impl<S: State> Clone for Chain<S> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

#[derive(Debug)]
struct Inner<S: State> {
    io: Io<S>,
    options: Options,
    /// Random number of this view, in every record it writes.
    writer: u64,
    /// The newest version known to be true.
    now: RwLock<Known<S>>,
    /// Number of the version in `now`. Readers at a high rate compare it without taking the lock.
    number: AtomicU64,
    queue: Mutex<Queue<S>>,
    /// One refresh at a time, and what became of the last ones.
    refreshing: tokio::sync::Mutex<Refreshed>,
    /// How many calls of [`Chain::refresh`] began: each has the next number.
    refreshes_asked: AtomicU64,
    /// When the store was last asked for a newer version than those known.
    asked: Mutex<Instant>,
    vacuuming: AtomicBool,
}

/// Calls of [`Chain::refresh`] that are answered, by their numbers. A LIST answers the calls that began before it, whether it
/// succeeds or fails: none is told what was so before it began.
#[derive(Debug, Default)]
struct Refreshed {
    /// Up to this one the state is new enough.
    succeeded: u64,
    /// Up to this one there is an error, if nothing has succeeded since.
    failed: Option<(u64, ChainError)>,
}

#[derive(Debug)]
struct Queue<S: State> {
    waiting: Vec<Waiting<S>>,
    /// Whether a task is draining the queue.
    draining: bool,
}

type Reply<S> = Result<Ended<S>, ChainError>;
type Ended<S> = (Outcome<<S as State>::Error>, Arc<S>);

#[derive(Debug)]
struct Waiting<S: State> {
    txn: TxnId,
    op: Op<S::Change>,
    reply: oneshot::Sender<Reply<S>>,
}

impl<S: State> Chain<S> {
    /// Reads the newest version. A prefix without objects is the empty chain; nothing is written.
    ///
    /// # Errors
    /// [`ChainError::Store`] if the store fails, [`ChainError::Damaged`] or [`ChainError::Newer`] if an object is
    /// damaged or of a newer format, [`ChainError::Contended`] if no consistent state was found in several attempts.
    pub async fn open(store: Arc<dyn ObjectStore>, prefix: Path, options: Options) -> Result<Self, ChainError> {
        let queue = Mutex::new(Queue { waiting: Vec::new(), draining: false });
        let inner = Inner {
            io: Io::new(store, prefix),
            options,
            writer: rand::rng().random(),
            now: RwLock::new(Known::root()),
            number: AtomicU64::new(0),
            queue,
            refreshing: tokio::sync::Mutex::default(),
            refreshes_asked: AtomicU64::new(0),
            asked: Mutex::new(Instant::now()),
            vacuuming: AtomicBool::new(false),
        };
        let head = inner.find(Reader::Checkpoint).await?;
        inner.publish(&head);
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the newest state that this process knows.
    pub fn snapshot(&self) -> Arc<S> {
        Arc::clone(&self.inner.now.read().state)
    }

    /// Number of the version that [`snapshot`](Self::snapshot) shows; 0 = the empty chain.
    pub fn version(&self) -> u64 {
        self.inner.number.load(Ordering::Acquire)
    }

    /// Returns objects that were seen in the chain's directories and do not belong to it.
    pub fn strays(&self) -> Vec<Path> {
        self.inner.io.strays()
    }

    /// The newest state there is: one LIST. Calls that wait at the same time share one that begins after them all, and its
    /// error if it fails: while a store is away a call waits for the LIST that is under way and for one more.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub async fn refresh(&self) -> Result<Arc<S>, ChainError> {
        let inner = &self.inner;
        let ticket = inner.refreshes_asked.fetch_add(1, Ordering::AcqRel) + 1;
        let mut last = inner.refreshing.lock().await;
        if last.succeeded >= ticket {
            return Ok(self.snapshot());
        }
        if let Some((until, error)) = &last.failed
            && *until >= ticket
        {
            return Err(copy(error));
        }
        let covers = inner.refreshes_asked.load(Ordering::Acquire);
        let (asked, from) = (Instant::now(), inner.now.read().clone());
        match inner.find(Reader::refresh(from)).await {
            Ok(head) => {
                inner.publish(&head);
                *inner.asked.lock() = asked;
                *last = Refreshed { succeeded: covers, failed: None };
                Ok(self.snapshot())
            }
            Err(error) => {
                let error = error::shared(error);
                last.failed = Some((covers, copy(&error)));
                Err(error)
            }
        }
    }

    /// Returns the time since the store was last asked for newer versions. [`snapshot`](Self::snapshot) contains
    /// everything that others had committed by then.
    pub fn staleness(&self) -> Duration {
        self.inner.asked.lock().elapsed()
    }

    /// Commits a change and returns a state that contains it. A change that alters nothing makes no version. A change
    /// is refused only on a state that was read after the call.
    ///
    /// # Cancellation
    /// A dropped call goes on: its change may be committed.
    ///
    /// # Errors
    /// [`CommitError::Refused`] if the change does not fit. [`ChainError::Unknown`] if it is not known whether the
    /// change was committed. After all other errors nothing was changed.
    pub async fn commit(&self, change: S::Change) -> Result<Arc<S>, CommitError<S::Error>> {
        loop {
            match self.commit_as(TxnId::fresh(self.horizon()), change.clone()).await {
                // The horizon passed the transaction before it was ever put: this counts as if it had not begun.
                Err(CommitError::Chain(ChainError::Expired { .. })) => {}
                other => return other,
            }
        }
    }

    /// Commits a change like [`commit`](Self::commit), under an id that the caller drew. Another call with the same id
    /// is the same transaction, unless it was refused.
    ///
    /// # Errors
    /// The errors of [`commit`](Self::commit), [`ChainError::Expired`] for an id below the horizon, and
    /// [`ChainError::Aborted`] if another writer aborted the transaction.
    pub async fn commit_as(&self, txn: TxnId, change: S::Change) -> Result<Arc<S>, CommitError<S::Error>> {
        let (outcome, state) = self.run(txn, Op::Commit(change)).await?;
        let path = self.inner.io.prefix();
        match outcome {
            Outcome::Committed | Outcome::Unchanged => Ok(state),
            Outcome::Refused(e) => Err(CommitError::Refused(e)),
            Outcome::Expired => Err(ChainError::Expired { path, txn }.into()),
            Outcome::Aborted => Err(ChainError::Aborted { path, txn }.into()),
            Outcome::Unknown | Outcome::AlreadyCommitted => Err(self.inner.unknown(txn, "it is forgotten").into()),
        }
    }

    /// Returns the id below which transactions are forgotten and can never be committed.
    pub fn horizon(&self) -> TxnId {
        self.inner.now.read().txns.horizon
    }

    /// Returns the outcome of a transaction: true for committed, false for aborted. `None` means that it has neither
    /// outcome yet, or that it is so old that it is forgotten.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub async fn outcome(&self, txn: TxnId) -> Result<Option<bool>, ChainError> {
        self.refresh().await?;
        {
            let txns = &self.inner.now.read().txns;
            if txns.committed.contains_key(&txn) || txns.aborted.contains(&txn) {
                return Ok(Some(txns.committed.contains_key(&txn)));
            }
        }
        // Read after the state: transactions that a checkpoint forgot are in a marker by then.
        match self.inner.io.read(&Ask::Done).await? {
            Answer::Done(done) if done.contains(&txn) => Ok(Some(true)),
            _ => Ok(None),
        }
    }

    /// Makes sure that a transaction of any writer is never committed from here on. Returns false if it was committed
    /// before.
    ///
    /// # Errors
    /// [`ChainError::Unknown`] also if the horizon has passed the transaction.
    pub async fn abort(&self, txn: TxnId) -> Result<bool, ChainError> {
        match self.run(txn, Op::Abort).await?.0 {
            Outcome::Committed => Ok(true),
            Outcome::AlreadyCommitted => Ok(false),
            _ => Err(self.inner.unknown(txn, "it is forgotten")),
        }
    }

    async fn run(&self, txn: TxnId, op: Op<S::Change>) -> Reply<S> {
        let (reply, answer) = oneshot::channel();
        let drain = {
            let mut queue = self.inner.queue.lock();
            queue.waiting.push(Waiting { txn, op, reply });
            !std::mem::replace(&mut queue.draining, true)
        };
        if drain {
            // A task of its own: a caller that goes away must not leave the batch unfinished.
            tokio::spawn(Arc::clone(&self.inner).drain());
        }
        match answer.await {
            Ok(reply) => reply,
            Err(_) => Err(self.inner.unknown(txn, "the committer was stopped")),
        }
    }

    /// Writes a checkpoint of the newest version and deletes the objects that it replaces. Runs by itself every
    /// [`Options::checkpoint_versions`]. A crash in the middle is harmless.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open). Steps that were done before the error stay done.
    pub async fn vacuum(&self) -> Result<(), ChainError> {
        self.inner.vacuum(1).await
    }
}

impl<S: State> Inner<S> {
    fn unknown(&self, txn: TxnId, reason: impl Into<String>) -> ChainError {
        ChainError::Unknown { path: self.io.prefix(), txn, reason: reason.into() }
    }

    fn publish(&self, head: &Known<S>) {
        let mut now = self.now.write();
        let before = (now.number, now.base.ordinal);
        if head.number > now.number {
            *now = head.clone().rebased(&now.base);
        } else if head.base.ordinal > now.base.ordinal {
            // Of two states of the same version, keep the one whose parts have names.
            let to = if head.number == now.number { head } else { &*now };
            *now = to.clone().rebased(&head.base);
        }
        assert!(
            before.0 <= now.number && before.1 <= now.base.ordinal,
            "the newest version that is known never falls, nor does its checkpoint"
        );
        // Stored under the lock: whoever sees the number finds the state.
        self.number.store(now.number, Ordering::Release);
    }

    /// Runs a reader to its end.
    async fn find(&self, mut reader: Reader<S>) -> Result<Known<S>, ChainError> {
        let mut attempts = Attempts::of(retry::CHAIN_STATE);
        loop {
            let answer = self.io.read(&reader.ask()).await?;
            match reader.answer(answer) {
                Ok(Some(head)) => return Ok(head),
                Ok(None) => {}
                Err(why) => {
                    if !again(&mut attempts, Duration::ZERO).await {
                        return Err(self.io.contended("reading the newest version", attempts.failed(), why));
                    }
                }
            }
        }
    }

    async fn drain(self: Arc<Self>) {
        let inner = &*self;
        // If the runtime goes away or a change panics, waiting callers are told so, and the next commit drains again.
        let stopped = OnDrop(|| {
            let mut queue = inner.queue.lock();
            queue.waiting.clear();
            queue.draining = false;
        });
        loop {
            let batch: Vec<Waiting<S>> = {
                let mut queue = self.queue.lock();
                let size = queue.waiting.len().min(BATCH_MAX);
                if size == 0 {
                    queue.draining = false;
                    std::mem::forget(stopped);
                    return;
                }
                queue.waiting.drain(..size).collect()
            };
            self.batch(batch).await;
            if self.checkpoint_is_due() && !self.vacuuming.swap(true, Ordering::AcqRel) {
                let inner = Arc::clone(&self);
                tokio::spawn(async move {
                    let _stopped = OnDrop(|| inner.vacuuming.store(false, Ordering::Release));
                    let least = inner.options.checkpoint_versions.div_ceil(2);
                    if let Err(e) = inner.vacuum(least).await {
                        tracing::warn!(chain = %inner.io.prefix(), error = %e, "no checkpoint was written; the next commit tries again");
                    }
                });
            }
        }
    }

    /// Returns whether a checkpoint is due: after enough versions or bytes, but not before the versions have some
    /// weight beside the checkpoint that they would replace. With a large state, commits must not pay for writing all
    /// of it every few versions.
    fn checkpoint_is_due(&self) -> bool {
        let o = &self.options;
        let behind = self.now.read().number.saturating_sub(self.io.checkpoint.load(Ordering::Acquire));
        let bytes = self.io.bytes.load(Ordering::Relaxed);
        let last = self.io.checkpoint_bytes.load(Ordering::Relaxed);
        let many = behind >= o.checkpoint_versions && (bytes >= last / 8 || behind >= 8 * o.checkpoint_versions);
        many || behind > 0 && bytes >= o.checkpoint_bytes.max(last / 2)
    }

    /// Brings one batch to its end and sends each waiting caller its outcome.
    async fn batch(&self, batch: Vec<Waiting<S>>) {
        let now_ms = chrono::Utc::now().timestamp_millis();
        let horizon = TxnId::at_ms(now_ms - self.options.remember.as_millis() as i64);
        let mut replies = HashMap::with_capacity(batch.len());
        let mut list = Vec::with_capacity(batch.len());
        for w in batch {
            replies.insert(w.txn, w.reply);
            list.push((w.txn, w.op));
        }
        let known = self.now.read().clone();
        let mut committer = Committer::new(known, list, horizon, self.writer, now_ms, |_| RecordId::fresh());
        let failed = self.drive(&mut committer).await.err().map(error::shared);
        if !committer.is_fresh() && failed.is_none() {
            // A done marker says that the transaction is committed: the answer's state must show it.
            if let Ok(head) = self.find(Reader::refresh(committer.confirmed().clone())).await {
                self.publish(&head);
            }
        }
        self.publish(committer.confirmed());
        let state = Arc::clone(&self.now.read().state);
        for (txn, outcome) in committer.ended.drain(..) {
            if let Some(reply) = replies.remove(&txn) {
                // If the receiver is gone, the outcome stands all the same.
                let _ = reply.send(Ok((outcome, Arc::clone(&state))));
            }
        }
        let Some(error) = failed else { return };
        let attempted = committer.attempted();
        for (txn, reply) in replies {
            let told = if attempted { self.unknown(txn, error.to_string()) } else { copy(&error) };
            let _ = reply.send(Err(told));
        }
    }

    /// Runs a committer until all its transactions have ended, or until the store fails for good.
    async fn drive(&self, committer: &mut Committer<S>) -> Result<(), ChainError> {
        let (mut broken, mut puts) = (Attempts::of(retry::CHAIN_STATE), Attempts::of(retry::CHAIN_PUT));
        // The last put that failed, if it is not tried again: its outcome is open until its number is read.
        let mut last: Option<(u64, ChainError)> = None;
        let began = Instant::now();
        while let Some(ask) = committer.ask() {
            if began.elapsed() > self.options.remember {
                let attempts = broken.failed() + puts.failed();
                return Err(self.io.contended("committing", attempts, "it took too long"));
            }
            let answer = match &ask {
                Ask::Put(record) => {
                    if let Some((number, error)) = last.take()
                        && number == record.number
                    {
                        return Err(error);
                    }
                    let put = Instant::now();
                    match self.io.put_record(record).await {
                        Ok(made) => {
                            puts = Attempts::of(retry::CHAIN_PUT);
                            Answer::Put(made)
                        }
                        Err(e) if e.certain && !committer.attempted() => return Err(e.error),
                        Err(e) => {
                            if !again(&mut puts, put.elapsed()).await {
                                last = Some((record.number, e.error));
                            }
                            Answer::Put(false)
                        }
                    }
                }
                read => match self.io.read(read).await {
                    Ok(answer) => answer,
                    Err(e) => return Err(last.map_or(e, |(_, error)| error)),
                },
            };
            committer.answer(answer);
            if let Some(why) = committer.broken.take()
                && !again(&mut broken, Duration::ZERO).await
            {
                return Err(self.io.contended("committing", broken.failed(), why));
            }
        }
        Ok(())
    }

    /// Writes a checkpoint if it replaces at least `least` versions.
    async fn vacuum(&self, least: u64) -> Result<(), ChainError> {
        let known = self.now.read().clone();
        let mut vacuum = Vacuum::new(known, |_, _| rand::rng().random());
        let mut attempts: Option<Attempts> = None;
        while let Some(ask) = vacuum.ask() {
            if let (Ask::PutDone(done), Some(from)) = (&ask, vacuum.replaces())
                && done.number < from + least
            {
                return Ok(());
            }
            let answer = match ask {
                Ask::PutDone(_) | Ask::PutParts(_) | Ask::PutCheckpoint(_) | Ask::Free { .. } | Ask::FreeOld { .. } => {
                    self.io.write(ask).await?
                }
                Ask::Checkpoint => {
                    match &mut attempts {
                        None => attempts = Some(Attempts::of(retry::CHAIN_STATE)),
                        Some(attempts) => {
                            if !again(attempts, Duration::ZERO).await {
                                let (what, why) = ("reading the newest version", "its versions do not fit");
                                return Err(self.io.contended(what, attempts.failed(), why));
                            }
                        }
                    }
                    self.io.read(&ask).await?
                }
                read => self.io.read(&read).await?,
            };
            vacuum.answer(answer);
            if let Some(head) = vacuum.head.take() {
                for (name, part) in vacuum.stored.drain(..) {
                    part.set_name(name);
                    self.io.keep(name, &part);
                }
                self.publish(&head);
            }
        }
        Ok(())
    }
}

/// Runs when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The same error for everybody who waits for one request.
fn copy(e: &ChainError) -> ChainError {
    match e {
        ChainError::Store { path, source } => {
            ChainError::Store { path: path.clone(), source: error::copy_of_store(source) }
        }
        ChainError::Damaged { path, reason } => ChainError::Damaged { path: path.clone(), reason: reason.clone() },
        ChainError::Newer { path, found, supported } => {
            ChainError::Newer { path: path.clone(), found: *found, supported: *supported }
        }
        ChainError::Contended { path, what, attempts, reason } => {
            ChainError::Contended { path: path.clone(), what, attempts: *attempts, reason: reason.clone() }
        }
        ChainError::Unknown { path, txn, reason } => {
            ChainError::Unknown { path: path.clone(), txn: *txn, reason: reason.clone() }
        }
        ChainError::Aborted { path, txn } => ChainError::Aborted { path: path.clone(), txn: *txn },
        ChainError::Expired { path, txn } => ChainError::Expired { path: path.clone(), txn: *txn },
        ChainError::NoPutIfAbsent { path, winners, racers } => {
            ChainError::NoPutIfAbsent { path: path.clone(), winners: *winners, racers: *racers }
        }
    }
}

#[cfg(test)]
mod explore;
#[cfg(test)]
pub(crate) mod tests;
