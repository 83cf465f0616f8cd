//! Labels: a load with a label happens once in its database, whatever table it goes to and however often it is sent.
//!
//! ```text
//! label/<database id>/<hash of the label>-<attempt>      the load that tries: transaction, table, node
//! label/<database id>/<hash of the label>-<attempt>-end  how it ended; only saves a look into the table's chain
//! lease/<node>                                           time until which a node counts as alive
//! ```
//!
//! An attempt is made by put-if-absent, so of two loads with one label one wins. Whoever meets an attempt determines
//! its outcome: if it is committed or prepared in its table's chain, the label is taken; if its table was dropped, the
//! label is free; if its node is alive, it is running. Otherwise the transaction is aborted in the chain, so that it
//! can never be committed, and the next attempt may begin. Attempts have numbers from 1 without a gap.
//!
//! Leases depend on the clocks of nodes. Correctness does not: a node that is taken for dead by mistake finds its
//! transaction aborted. A process knows [at once](crate::nodes) when other nodes of its own machine are gone.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode};
use parking_lot::Mutex;
use rand::Rng;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::catalog::TableId;
use crate::chain::{ChainError, Stored, TxnId, decode_as, encode_as};
use crate::nodes::{Nodes, Present};
use crate::table::{Table, TableError};

/// Format of labels and leases.
const FORMAT: u16 = 1;
/// How long labels are kept.
pub const LABELS_KEPT_MS: i64 = 3 * 24 * 3_600_000;
/// Labels younger than this are not examined to record how their loads ended.
const JUDGED_MS: i64 = 30 * 60_000;
/// How long a node counts as alive after it last renewed its lease.
const LEASE_MS: i64 = 30_000;
/// How often a node renews its lease.
const LEASE_EVERY: Duration = Duration::from_secs(10);
/// Most requests for attempts at a time.
const LISTED_AT_ONCE: usize = 16;
/// Most characters of a label.
pub const LABEL_CHARS_MAX: usize = 128;

/// Errors of labels.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabelError {
    /// The text is not a valid label.
    #[error("label \"{label}\" is not valid: expected 1 to {LABEL_CHARS_MAX} of the characters a-z, A-Z, 0-9, _ - : .")]
    Invalid {
        /// The label, cut after 64 characters.
        label: String,
    },
    /// The label belongs to a load that has not ended.
    #[error("label \"{label}\" is of a load that has not ended ({status:?}); commit or abort it first")]
    InUse {
        /// The label.
        label: String,
        /// Status of the load.
        status: LabelStatus,
    },
    /// Two labels have one hash.
    #[error("label \"{label}\" cannot be told from label \"{other}\"; choose another one")]
    Collision {
        /// The label.
        label: String,
        /// The existing label.
        other: String,
    },
    /// The store, an object of the label, or the chain of the load's table failed.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl From<ChainError> for LabelError {
    fn from(e: ChainError) -> Self {
        Self::Table(e.into())
    }
}

/// Status of a load with a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LabelStatus {
    /// The load's node is working on it.
    Running,
    /// The load is prepared: it waits for its commit or abort.
    Precommitted,
    /// The load is committed.
    Finished,
    /// The load will never be committed; the label is free.
    Aborted,
    /// The load ended so long ago that its outcome is forgotten, and nobody asked in time.
    Forgotten,
}

/// An attempt under a label.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attempt {
    /// Number of the attempt, from 1.
    pub attempt: u64,
    /// The label.
    pub label: String,
    /// Transaction of the load.
    pub txn: TxnId,
    /// Table that the load goes to.
    pub table: TableId,
    /// Node that loads, as a number that it drew when it started.
    pub node: u64,
    /// When the attempt began, in milliseconds since 1970, UTC.
    pub at_ms: i64,
}

impl Stored for Attempt {
    const KIND: &'static [u8; 4] = b"labl";
    fn number(&self) -> u64 {
        self.attempt
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct End {
    attempt: u64,
    status: LabelStatus,
}

impl Stored for End {
    const KIND: &'static [u8; 4] = b"lend";
    fn number(&self) -> u64 {
        self.attempt
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Lease {
    node: u64,
    until_ms: i64,
}

impl Stored for Lease {
    const KIND: &'static [u8; 4] = b"leas";
    fn number(&self) -> u64 {
        self.node
    }
}

/// The answer to a load that brings a label.
#[derive(Debug)]
pub enum Acquired {
    /// The label belongs to this load.
    New(Held),
    /// Another load has it.
    Exists(Attempt, LabelStatus),
}

/// A label that a load of this process holds. If all labels of its transaction are dropped without [`end`](Self::end),
/// the load does not count as running, and the next attempt aborts it.
#[derive(Debug)]
pub struct Held {
    labels: Labels,
    db: TableId,
    attempt: Attempt,
}

/// One process's view of all labels, and its lease; clones share it.
#[derive(Debug, Clone)]
pub struct Labels {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    store: Arc<dyn ObjectStore>,
    node: u64,
    /// Transactions of this process that hold labels, with the number of labels: loads that share a commit share a
    /// transaction.
    running: Mutex<HashMap<TxnId, usize>>,
    /// Processes of this machine that use the database.
    nodes: Option<Nodes>,
    /// Marks this process as present on its machine.
    present: OnceLock<Present>,
}

fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

fn failed(path: &Path, source: Error) -> LabelError {
    ChainError::Store { path: path.to_string(), source }.into()
}

impl Labels {
    /// Makes a view for a process that loads nothing: it has no lease.
    pub fn new(store: Arc<dyn ObjectStore>) -> Self {
        Self::with_nodes(store, None)
    }

    fn with_nodes(store: Arc<dyn ObjectStore>, nodes: Option<Nodes>) -> Self {
        let node = rand::rng().random();
        let inner = Inner { store, node, running: Mutex::default(), nodes, present: OnceLock::new() };
        Self { inner: Arc::new(inner) }
    }

    /// Makes a view with a lease, which a task renews until all clones are dropped. Ends the leases of processes of
    /// this machine that are gone. Needs a Tokio runtime.
    ///
    /// # Errors
    /// [`LabelError::Table`] if a lease could not be written or deleted.
    pub async fn start(store: Arc<dyn ObjectStore>, nodes: Option<Nodes>) -> Result<Self, LabelError> {
        let labels = Self::with_nodes(store, nodes);
        if let Some(nodes) = &labels.inner.nodes {
            for node in nodes.gone() {
                labels.remove(&lease_path(node)).await?;
                nodes.forget(node);
            }
            match nodes.enter(labels.inner.node) {
                Ok(present) => drop(labels.inner.present.set(present)),
                Err(e) => tracing::warn!(error = %e, "killed, this process would count as alive for {LEASE_MS} ms"),
            }
        }
        labels.renew().await?;
        let inner = Arc::downgrade(&labels.inner);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LEASE_EVERY).await;
                let Some(inner) = inner.upgrade() else { return };
                if let Err(e) = (Self { inner }).renew().await {
                    tracing::warn!(error = %e, "the node's lease was not renewed; others may abort its labelled loads");
                }
            }
        });
        Ok(labels)
    }

    pub(crate) fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.inner.store
    }

    async fn renew(&self) -> Result<(), LabelError> {
        let lease = Lease { node: self.inner.node, until_ms: now_ms() + LEASE_MS };
        self.put(&lease_path(lease.node), &lease, PutMode::Overwrite).await.map(drop)
    }

    /// Begins a load under a label. `txn` comes from the table's [`begin`](Table::begin). Loads with different labels
    /// that are committed together share one `txn`: all of them happen, or none.
    ///
    /// # Errors
    /// [`LabelError::Invalid`] if the label is not valid, [`LabelError::Collision`] if another label has the same hash,
    /// [`LabelError::Table`] if the store fails. In the last case the label may be taken by `txn` all the same, which
    /// must then not be committed without this load.
    pub async fn acquire(&self, db: TableId, label: &str, txn: TxnId, table: TableId) -> Result<Acquired, LabelError> {
        check(label)?;
        let mut number = 1;
        loop {
            let attempt =
                Attempt { attempt: number, label: label.into(), txn, table, node: self.inner.node, at_ms: now_ms() };
            let path = path(db, label, number, false);
            *self.inner.running.lock().entry(txn).or_default() += 1;
            let held = Held { labels: self.clone(), db, attempt };
            let put = self.put(&path, &held.attempt, PutMode::Create).await;
            if matches!(put, Ok(true)) {
                let before = number - 1;
                if before > 0 && self.get::<Attempt>(&self::path(db, label, before, false), before).await?.is_none() {
                    // The label was forgotten meanwhile: nobody would find an attempt after a gap.
                    self.remove(&path).await?;
                    number = 1;
                    continue;
                }
                return Ok(Acquired::New(held));
            }
            // The number is taken, or the answer was lost and the attempt is ours.
            let Some(there) = self.get::<Attempt>(&path, number).await? else {
                put?;
                continue;
            };
            // Loads with other labels may have this transaction, too.
            if there.txn == txn && there.label == label {
                return Ok(Acquired::New(held));
            }
            drop(held);
            if there.label != label {
                return Err(LabelError::Collision { label: label.into(), other: there.label });
            }
            if there.node == self.inner.node && self.inner.running.lock().contains_key(&there.txn) {
                // Answered without a look into its table, however the load ends: others wait for this answer.
                return Ok(Acquired::Exists(there, LabelStatus::Running));
            }
            match self.judge(db, &there).await? {
                LabelStatus::Aborted => number += 1,
                status => return Ok(Acquired::Exists(there, status)),
            }
        }
    }

    /// Returns the newest attempt under a label with its status. Aborts the load if nobody is working on it.
    ///
    /// # Errors
    /// [`LabelError::Invalid`], [`LabelError::Collision`], or [`LabelError::Table`] if the store fails.
    pub async fn lookup(&self, db: TableId, label: &str) -> Result<Option<(Attempt, LabelStatus)>, LabelError> {
        match self.attempts(db, label).await?.pop() {
            Some(last) => {
                let status = self.judge(db, &last).await?;
                Ok(Some((last, status)))
            }
            None => Ok(None),
        }
    }

    /// Returns at most `most` stored attempts of a database, in no order (SHOW LOAD). See [`status`](Self::status) for
    /// the status of each.
    ///
    /// # Errors
    /// [`LabelError::Table`] if the store fails.
    pub async fn list(&self, db: TableId, most: usize) -> Result<Vec<Attempt>, LabelError> {
        let paths = self.paths(&db_path(db)).await?;
        let mut requests = Vec::new();
        for path in &paths {
            if let Some(number) = attempt_of(path) {
                // Boxed, because the compiler does not see through closures that the futures are `Send`.
                requests.push(self.get::<Attempt>(path, number).boxed());
            }
        }
        requests.truncate(most);
        let found: Vec<Option<Attempt>> = stream::iter(requests).buffered(LISTED_AT_ONCE).try_collect().await?;
        Ok(found.into_iter().flatten().collect())
    }

    /// Returns the status of an attempt. Like [`lookup`](Self::lookup), aborts the load if nobody is working on it.
    ///
    /// # Errors
    /// [`LabelError::Table`] if the store fails.
    pub async fn status(&self, db: TableId, attempt: &Attempt) -> Result<LabelStatus, LabelError> {
        self.judge(db, attempt).await
    }

    /// Forgets a label (CLEAN LABEL), so that it can be used again. Returns false if there is none.
    ///
    /// # Errors
    /// [`LabelError::InUse`] for a load that is running or prepared, [`LabelError::Table`] if the store fails.
    pub async fn forget(&self, db: TableId, label: &str) -> Result<bool, LabelError> {
        let attempts = self.attempts(db, label).await?;
        if let Some(last) = attempts.last() {
            let status = self.judge(db, last).await?;
            if matches!(status, LabelStatus::Running | LabelStatus::Precommitted) {
                return Err(LabelError::InUse { label: label.into(), status });
            }
        }
        self.delete(db, &attempts).await?;
        Ok(!attempts.is_empty())
    }

    /// Forgets all labels of a database whose loads ended and began before a time in milliseconds since 1970, UTC.
    /// Returns their number.
    ///
    /// # Errors
    /// [`LabelError::Table`] if the store fails; the error of a single label is returned after all others are done.
    pub async fn forget_before(&self, db: TableId, before_ms: i64) -> Result<u64, LabelError> {
        let (mut forgotten, mut first_error) = (0, None);
        // A table that another node made just now may not be known here yet, and its labels would seem to have no
        // table.
        let young_ms = now_ms() - JUDGED_MS;
        let labels: HashSet<String> = self.list(db, usize::MAX).await?.into_iter().map(|a| a.label).collect();
        for label in labels {
            let attempts = self.attempts(db, &label).await?;
            let Some(last) = attempts.last().filter(|last| last.at_ms < young_ms.max(before_ms)) else { continue };
            // Determined for labels that stay, too: later their chain will have forgotten how their loads ended.
            let status = match self.judge(db, last).await {
                Ok(status) => status,
                Err(error) => {
                    tracing::warn!(%label, %error, "how the load of a label ended cannot be read");
                    first_error.get_or_insert(error);
                    continue;
                }
            };
            if last.at_ms < before_ms && !matches!(status, LabelStatus::Running | LabelStatus::Precommitted) {
                self.delete(db, &attempts).await?;
                forgotten += 1;
            }
        }
        first_error.map_or(Ok(forgotten), Err)
    }

    /// Returns the databases that have labels.
    pub(crate) async fn databases(&self) -> Result<Vec<TableId>, LabelError> {
        let root = Path::from("label");
        let listed = self.inner.store.list_with_delimiter(Some(&root)).await.map_err(|e| failed(&root, e))?;
        let id = |p: &Path| u64::from_str_radix(p.filename()?, 16).ok().map(TableId);
        Ok(listed.common_prefixes.iter().filter_map(id).collect())
    }

    /// Deletes the leases of nodes that died before that time.
    pub(crate) async fn forget_leases(&self, before_ms: i64) -> Result<(), LabelError> {
        for path in self.paths(&Path::from("lease")).await? {
            let node = path.filename().and_then(|n| u64::from_str_radix(n, 16).ok());
            if let Some(node) = node
                && let Some(lease) = self.get::<Lease>(&path, node).await?
                && lease.until_ms < before_ms
            {
                self.remove(&path).await?;
            }
        }
        Ok(())
    }

    async fn attempts(&self, db: TableId, label: &str) -> Result<Vec<Attempt>, LabelError> {
        check(label)?;
        let mut found = Vec::new();
        loop {
            let number = found.len() as u64 + 1;
            match self.get::<Attempt>(&path(db, label, number, false), number).await? {
                Some(a) if a.label != label => {
                    return Err(LabelError::Collision { label: label.into(), other: a.label });
                }
                Some(a) => found.push(a),
                None => return Ok(found),
            }
        }
    }

    /// Deletes attempts, the last one first: if this is cut off, no attempt is left after a gap.
    async fn delete(&self, db: TableId, attempts: &[Attempt]) -> Result<(), LabelError> {
        for a in attempts.iter().rev() {
            self.remove(&path(db, &a.label, a.attempt, false)).await?;
            self.remove(&path(db, &a.label, a.attempt, true)).await?;
        }
        Ok(())
    }

    async fn judge(&self, db: TableId, attempt: &Attempt) -> Result<LabelStatus, LabelError> {
        let end = path(db, &attempt.label, attempt.attempt, true);
        if let Some(end) = self.get::<End>(&end, attempt.attempt).await? {
            return Ok(end.status);
        }
        let status = self.look_into_the_table(attempt).await?;
        if matches!(status, LabelStatus::Finished | LabelStatus::Aborted) {
            self.put(&end, &End { attempt: attempt.attempt, status }, PutMode::Create).await?;
        }
        Ok(status)
    }

    async fn look_into_the_table(&self, attempt: &Attempt) -> Result<LabelStatus, LabelError> {
        let table = match Table::open(Arc::clone(&self.inner.store), attempt.table).await {
            Ok(table) => table,
            Err(TableError::NotFound { .. }) => return Ok(LabelStatus::Aborted),
            Err(e) => return Err(e.into()),
        };
        let txn = attempt.txn;
        let known = table.outcome(txn).await?;
        let state = table.snapshot();
        if state.prepared().contains_key(&txn) {
            return Ok(LabelStatus::Precommitted);
        }
        // The chain knows under its own id that a load was prepared, as it would know a commit; the state knows how it
        // ended. A drop ends prepared loads without recording how, and after it no row is left of a load whose end was
        // not noted.
        let committed = match state.prepared_outcome(txn) {
            None if state.is_dropped() => Some(false),
            None => known,
            ended => ended,
        };
        Ok(match committed {
            Some(true) => LabelStatus::Finished,
            Some(false) => LabelStatus::Aborted,
            None if self.is_alive(attempt).await? => LabelStatus::Running,
            None => match table.abort(txn).await {
                Ok(true) => LabelStatus::Aborted,
                Ok(false) => LabelStatus::Finished,
                Err(TableError::Chain(ChainError::Unknown { .. })) if txn < table.horizon() => LabelStatus::Forgotten,
                Err(e) => return Err(e.into()),
            },
        })
    }

    async fn is_alive(&self, attempt: &Attempt) -> Result<bool, LabelError> {
        if attempt.node == self.inner.node {
            return Ok(self.inner.running.lock().contains_key(&attempt.txn));
        }
        if self.inner.nodes.as_ref().is_some_and(|nodes| nodes.is_gone(attempt.node)) {
            return Ok(false);
        }
        let lease = self.get::<Lease>(&lease_path(attempt.node), attempt.node).await?;
        Ok(lease.is_some_and(|l| l.until_ms > now_ms()))
    }

    async fn put<T: Stored>(&self, path: &Path, value: &T, mode: PutMode) -> Result<bool, LabelError> {
        let bytes = encode_as(FORMAT, value).map_err(|e| ChainError::Damaged {
            path: path.to_string(),
            reason: format!("cannot be written as JSON: {e}"),
        })?;
        match self.inner.store.put_opts(path, bytes.into(), mode.into()).await {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. }) => Ok(false),
            Err(e) => Err(failed(path, e)),
        }
    }

    async fn get<T: Stored>(&self, path: &Path, number: u64) -> Result<Option<T>, LabelError> {
        let got = match self.inner.store.get(path).await {
            Ok(got) => got.bytes().await.map_err(|e| failed(path, e))?,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(e) => return Err(failed(path, e)),
        };
        Ok(Some(decode_as(FORMAT, path.as_ref(), number, &got)?))
    }

    async fn remove(&self, path: &Path) -> Result<(), LabelError> {
        match self.inner.store.delete(path).await {
            Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
            Err(e) => Err(failed(path, e)),
        }
    }

    async fn paths(&self, below: &Path) -> Result<Vec<Path>, LabelError> {
        let metas = self.inner.store.list(Some(below)).map_ok(|m| m.location).try_collect().await;
        metas.map_err(|e| failed(below, e))
    }
}

impl Held {
    /// Returns the attempt that the load makes.
    pub fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// Records how the load ended, after its commit or abort was acknowledged: a repeated load is then answered without
    /// a look into the table. Not for a prepared load, whose state is in the table.
    ///
    /// # Errors
    /// [`LabelError::Table`] if the store fails. The status of the label is determined by the table's chain all the
    /// same.
    pub async fn end(self, committed: bool) -> Result<(), LabelError> {
        let Attempt { label, attempt, .. } = &self.attempt;
        let status = if committed { LabelStatus::Finished } else { LabelStatus::Aborted };
        let end = path(self.db, label, *attempt, true);
        self.labels.put(&end, &End { attempt: *attempt, status }, PutMode::Create).await.map(drop)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut running = self.labels.inner.running.lock();
        if let Some(held) = running.get_mut(&self.attempt.txn) {
            *held -= 1;
            if *held == 0 {
                running.remove(&self.attempt.txn);
            }
        }
    }
}

fn check(label: &str) -> Result<(), LabelError> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | ':' | '.');
    if label.is_empty() || label.len() > LABEL_CHARS_MAX || !label.chars().all(allowed) {
        return Err(LabelError::Invalid { label: label.chars().take(64).collect() });
    }
    Ok(())
}

fn db_path(db: TableId) -> Path {
    Path::from("label").join(db.to_string())
}

fn path(db: TableId, label: &str, attempt: u64, end: bool) -> Path {
    let half = |seed| XxHash3_64::oneshot_with_seed(seed, label.as_bytes());
    let end = if end { "-end" } else { "" };
    db_path(db).join(format!("{:016x}{:016x}-{attempt}{end}", half(0), half(1)))
}

/// Returns the number of an attempt; `None` for the object that records its end.
fn attempt_of(path: &Path) -> Option<u64> {
    path.filename()?.split_once('-')?.1.parse().ok()
}

fn lease_path(node: u64) -> Path {
    Path::from("lease").join(format!("{node:016x}"))
}

/// Kind of an object below `label/` or `lease/`, by its name, for readers that only check whether it is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Named {
    /// The attempt of that number.
    Attempt(u64),
    /// The end of the attempt of that number.
    End(u64),
    /// The lease of a node.
    Lease(u64),
}

impl Named {
    /// Returns the kind of an object; `None` for other names.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let parts: Vec<&str> = path.as_ref().split('/').collect();
        let id = |text: &str| u64::from_str_radix(text, 16).ok().filter(|n| format!("{n:016x}") == text);
        match parts[..] {
            ["lease", node] => id(node).map(Self::Lease),
            ["label", db, name] => {
                id(db)?;
                let (hash, attempt) = name.split_once('-')?;
                if hash.len() != 32 || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
                    return None;
                }
                match attempt.strip_suffix("-end") {
                    Some(attempt) => attempt.parse().ok().map(Self::End),
                    None => attempt.parse().ok().map(Self::Attempt),
                }
            }
            _ => None,
        }
    }

    /// Reads and checks the object's bytes.
    ///
    /// # Errors
    /// [`ChainError::Damaged`] if they are damaged, [`ChainError::Newer`] if they have a newer format.
    pub(crate) fn verify(self, path: &Path, bytes: &[u8]) -> Result<(), ChainError> {
        match self {
            Self::Attempt(number) => decode_as::<Attempt>(FORMAT, path.as_ref(), number, bytes).map(drop),
            Self::End(number) => decode_as::<End>(FORMAT, path.as_ref(), number, bytes).map(drop),
            Self::Lease(node) => decode_as::<Lease>(FORMAT, path.as_ref(), node, bytes).map(drop),
        }
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::*;
    use crate::table::test_support::{object, partition, rowset, schema};

    const DB: TableId = TableId(3);

    async fn table(store: &Arc<dyn ObjectStore>, id: u64) -> Table {
        let partitions = vec![partition(0, "p", crate::table::schema::Bounds::All)];
        let schema = schema(crate::table::schema::Model::Duplicate, false);
        Table::create(Arc::clone(store), TableId(id), schema, partitions).await.unwrap()
    }

    async fn held(labels: &Labels, label: &str, t: &Table, txn: TxnId) -> Held {
        match labels.acquire(DB, label, txn, t.id()).await.unwrap() {
            Acquired::New(held) => held,
            other => panic!("{other:?}"),
        }
    }

    async fn exists(labels: &Labels, label: &str, t: &Table) -> (TxnId, LabelStatus) {
        match labels.acquire(DB, label, t.begin(), t.id()).await.unwrap() {
            Acquired::Exists(a, status) => (a.txn, status),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn of_two_loads_into_two_tables_one_wins() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let (a, b) = (table(&store, 1).await, table(&store, 2).await);
        let labels = Labels::start(Arc::clone(&store), None).await.unwrap();
        for round in 0..20 {
            let label = format!("l{round}");
            let (x, y) = tokio::join!(
                labels.acquire(DB, &label, a.begin(), a.id()),
                labels.acquire(DB, &label, b.begin(), b.id())
            );
            let won = |r: &Acquired| matches!(r, Acquired::New(_));
            assert!(won(x.as_ref().unwrap()) != won(y.as_ref().unwrap()), "{x:?} {y:?}");
        }
        for bad in ["", "a b", "ä", &"x".repeat(129)] {
            assert!(matches!(labels.lookup(DB, bad).await, Err(LabelError::Invalid { .. })));
        }
    }

    #[tokio::test]
    async fn loads_with_one_transaction_happen_all_or_none() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let t = table(&store, 1).await;
        let labels = Labels::start(Arc::clone(&store), None).await.unwrap();
        for commits in [false, true] {
            let txn = t.begin();
            let name = |which| format!("{which}-{commits}");
            let (x, y) = (held(&labels, &name("x"), &t, txn).await, held(&labels, &name("y"), &t, txn).await);
            let z = held(&labels, &name("z"), &t, t.begin()).await;
            assert!(matches!(labels.acquire(DB, &name("z"), txn, t.id()).await.unwrap(), Acquired::Exists(..)));
            drop(x);
            // Nobody takes it for dead as long as one of the loads is running.
            assert_eq!(exists(&labels, &name("x"), &t).await, (txn, LabelStatus::Running));
            if commits {
                t.publish(rowset(vec![object(txn, 0, &[(0, 0, 1)])])).await.unwrap();
            }
            drop(y);
            for which in ["x", "y"] {
                let (_, status) = labels.lookup(DB, &name(which)).await.unwrap().unwrap();
                assert_eq!(status, if commits { LabelStatus::Finished } else { LabelStatus::Aborted });
            }
            drop(z);
        }
    }

    #[tokio::test]
    async fn a_killed_process_is_gone_at_once_for_its_own_machine() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let dir = tempfile::tempdir().unwrap();
        let nodes = || Some(Nodes::new(dir.path().to_path_buf()));
        let t = table(&store, 1).await;
        let killed = Labels::start(Arc::clone(&store), nodes()).await.unwrap();
        let beside = Labels::start(Arc::clone(&store), nodes()).await.unwrap();
        for label in ["seen by the one beside it", "seen after a restart"].map(|l| l.replace(' ', "_")) {
            std::mem::forget(held(&killed, &label, &t, t.begin()).await);
        }
        assert_eq!(exists(&beside, "seen_after_a_restart", &t).await.1, LabelStatus::Running);
        // When a process ends, the system releases its locks; its lease stays.
        let node = killed.inner.node;
        let path = dir.path().join(format!("{node:016x}"));
        std::fs::remove_file(&path).unwrap();
        std::fs::File::create(&path).unwrap();
        let (_, status) = beside.lookup(DB, "seen_by_the_one_beside_it").await.unwrap().unwrap();
        assert_eq!(status, LabelStatus::Aborted);
        let restarted = Labels::start(Arc::clone(&store), nodes()).await.unwrap();
        assert!(!path.exists());
        let elsewhere = Labels::new(Arc::clone(&store));
        let (_, status) = elsewhere.lookup(DB, "seen_after_a_restart").await.unwrap().unwrap();
        assert_eq!(status, LabelStatus::Aborted);
        drop(restarted);
    }

    #[tokio::test]
    async fn a_label_is_what_its_tables_chain_says() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let t = table(&store, 1).await;
        let mine = Labels::start(Arc::clone(&store), None).await.unwrap();
        let other = Labels::start(Arc::clone(&store), None).await.unwrap();
        let txn = t.begin();
        let hold = held(&mine, "l", &t, txn).await;
        // Running: its node knows it, and others see the lease.
        assert_eq!(exists(&mine, "l", &t).await, (txn, LabelStatus::Running));
        assert_eq!(exists(&other, "l", &t).await, (txn, LabelStatus::Running));
        assert!(matches!(other.forget(DB, "l").await, Err(LabelError::InUse { .. })));
        t.publish(rowset(vec![object(txn, 0, &[(0, 0, 1)])])).await.unwrap();
        assert_eq!(exists(&other, "l", &t).await, (txn, LabelStatus::Finished));
        hold.end(true).await.unwrap();
        t.vacuum().await.unwrap();
        assert_eq!(exists(&other, "l", &t).await, (txn, LabelStatus::Finished));
        assert!(other.forget(DB, "l").await.unwrap() && !other.forget(DB, "l").await.unwrap());
        drop(held(&other, "l", &t, t.begin()).await);
        // An attempt that its process dropped is aborted by the next one, and cannot come back.
        let left = t.begin();
        drop(held(&mine, "m", &t, left).await);
        let next = t.begin();
        let hold = held(&mine, "m", &t, next).await;
        assert_eq!(hold.attempt().attempt, 2);
        let late = t.publish(rowset(vec![object(left, 0, &[(0, 0, 1)])])).await;
        assert!(matches!(late, Err(TableError::Chain(ChainError::Aborted { .. }))), "{late:?}");
        // A node without a lease counts as dead.
        let dead = Labels::new(Arc::clone(&store));
        let hold_dead = held(&dead, "n", &t, t.begin()).await;
        assert_eq!(held(&mine, "n", &t, t.begin()).await.attempt().attempt, 2);
        drop(hold_dead);
        // A prepared load: its label waits with it.
        let load = rowset(vec![object(next, 0, &[(0, 0, 1)])]);
        t.prepare(load).await.unwrap();
        drop(hold);
        assert_eq!(exists(&other, "m", &t).await, (next, LabelStatus::Precommitted));
        t.abort_prepared(next).await.unwrap();
        assert_eq!(held(&other, "m", &t, t.begin()).await.attempt().attempt, 3);
        // A dropped table frees the labels of loads that were not committed, prepared loads too.
        drop(held(&mine, "o", &t, t.begin()).await);
        let (waits, done) = (t.begin(), t.begin());
        for (label, txn) in [("p", waits), ("q", done)] {
            drop(held(&mine, label, &t, txn).await);
            t.prepare(rowset(vec![object(txn, 0, &[(0, 0, 1)])])).await.unwrap();
        }
        t.commit_prepared(done).await.unwrap();
        t.tombstone().await.unwrap();
        for (label, status) in [("o", LabelStatus::Aborted), ("p", LabelStatus::Aborted), ("q", LabelStatus::Finished)]
        {
            assert_eq!(other.lookup(DB, label).await.unwrap().unwrap().1, status, "{label}");
        }
        assert_eq!(mine.list(DB, 99).await.unwrap().iter().filter(|a| a.label == "m").count(), 3);
        assert!(mine.forget_before(DB, i64::MAX).await.unwrap() >= 3);
        assert_eq!(mine.list(DB, 99).await.unwrap(), []);
    }
}
