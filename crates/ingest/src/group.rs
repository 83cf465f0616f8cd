//! Group commit: small loads that share one object and one commit.
//!
//! A commit costs a synced object, a synced version and a LIST, however few rows it has. Therefore small loads hand
//! their rows to the group of their table. While one batch is being committed, the next one fills; it is committed when
//! the one before it has ended, or at once if there was none. A single load waits for nobody; many concurrent loads
//! share the cost of a commit and leave few segments.
//!
//! Each load has an answer of its own: its rows are checked separately, and enter the batch only if no more of them
//! were refused than the load allows. Loads enter in the order of their arrival, so later rows win. A load is reported
//! as successful only after its batch is committed. If a batch cannot be committed for a reason that may lie with one
//! of its loads, each of them is told to commit by itself.
//!
//! Labels are taken between the check and the batch, by the transaction of the batch: it is committed with all loads
//! whose labels name it, or not at all.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use dipper_load::{Checked, Load, LoadError, LoadOptions, LoadTarget, RejectedRow, memory_of};
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_store::catalog::TableId;
use dipper_store::chain::TxnId;
use dipper_store::labels::{Acquired, Held, LabelStatus};
use dipper_store::table::schema::TableSchema;
use dipper_store::table::{Rowset, Table};
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use crate::loads::Loads;
use crate::request::MEMBER_BYTES_MAX;

/// Requests for labels of one batch that are in flight at a time.
const LABELS_AT_ONCE: usize = 16;

/// Largest batch in bytes, unless the table sets `group_commit_data_bytes`.
const BATCH_BYTES: u64 = 64 << 20;

/// Bytes that may wait for a batch of a table; loads beyond that commit by themselves.
const WAITING_BYTES_MAX: u64 = 256 << 20;

/// Delay of the next batch after one with several loads. If each of many clients sends one load after the other, the
/// loads that arrive within this time share the cost of a commit.
const PACE: Duration = Duration::from_millis(25);

/// The part of a batch that comes from one load.
pub struct Share {
    /// Schema of the rows.
    pub schema: Arc<TableSchema>,
    /// The rows, in the form of [`Load::input_schema`].
    pub rows: Vec<RecordBatch>,
    /// The load's label, with its database.
    pub label: Option<(TableId, String)>,
    /// Whether the load is strict, as in [`LoadOptions::strict`].
    pub strict: bool,
    /// Rows that may be refused; if there are more, no row is committed.
    pub refused_max: u64,
    /// Whether the load asked for group commit, and so waits up to the table's `group_commit_interval_ms` for others.
    pub patient: bool,
}

/// The outcome of a [`Share`].
pub enum Shared {
    /// Committed.
    Committed(Committed),
    /// Too many rows were refused, and none was committed.
    Refused(Vec<RejectedRow>),
    /// Another load, of this transaction, has the label; nothing was committed.
    Exists(TxnId, LabelStatus),
    /// An error that every load of the batch would meet. It may leave open whether the transaction is committed.
    Failed(TxnId, EngineError),
    /// Nothing was committed: the load has to commit by itself.
    Apart,
}

/// A share that was committed.
pub struct Committed {
    /// The transaction that committed it.
    pub txn: TxnId,
    /// Rows of the share that were refused, and so are not committed.
    pub refused: Vec<RejectedRow>,
    /// The first value that was generated for its AUTO_INCREMENT column.
    pub generated: Option<i64>,
    /// The value of that column in its last row.
    pub last: Option<i64>,
    /// Its label, whose end has to be recorded.
    pub label: Option<Held>,
}

/// The groups that have work to do, by table.
#[derive(Default)]
pub(crate) struct Groups {
    active: Mutex<HashMap<TableId, Waiting>>,
}

impl std::fmt::Debug for Groups {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Groups").field("active", &self.active.lock().len()).finish()
    }
}

/// Loads that wait for the next batch of a table.
#[derive(Default)]
struct Waiting {
    members: Vec<Member>,
    bytes: u64,
    /// Notified when a load arrives.
    came: Arc<Notify>,
}

struct Member {
    share: Share,
    bytes: u64,
    /// When the load wants to be committed.
    due: Instant,
    reply: oneshot::Sender<Result<Shared>>,
}

/// The table properties `group_commit_interval_ms` and `group_commit_data_bytes`.
struct Limits {
    interval: Duration,
    bytes: u64,
}

impl Limits {
    fn of(schema: &TableSchema) -> Self {
        let number = |name| -> Option<u64> { schema.property(name)?.parse().ok() };
        Limits {
            interval: Duration::from_millis(number("group_commit_interval_ms").unwrap_or(0)),
            bytes: number("group_commit_data_bytes").unwrap_or(BATCH_BYTES).max(1),
        }
    }
}

/// Commits a load together with others that arrive at the same time.
///
/// # Cancellation
/// If the future is dropped before the load's batch is closed, nothing is committed; later, the load may be committed.
///
/// # Errors
/// `Unknown` and `Storage` leave the outcome open; other errors of the store.
pub async fn commit(loads: &Arc<Loads>, table: &Table, share: Share) -> Result<Shared> {
    let bytes: u64 = share.rows.iter().map(memory_of).sum();
    let limits = Limits::of(&share.schema);
    let (reply, answer) = oneshot::channel();
    {
        let mut active = loads.groups.active.lock();
        let leads = !active.contains_key(&table.id());
        let waiting = active.entry(table.id()).or_default();
        if bytes > MEMBER_BYTES_MAX.min(limits.bytes) || waiting.bytes + bytes > WAITING_BYTES_MAX {
            if leads {
                active.remove(&table.id());
            }
            return Ok(Shared::Apart);
        }
        let due = Instant::now() + if share.patient { limits.interval } else { Duration::ZERO };
        waiting.bytes += bytes;
        waiting.members.push(Member { share, bytes, due, reply });
        waiting.came.notify_one();
        if leads {
            loads.io.spawn(lead(Arc::clone(loads), table.clone(), Arc::clone(&waiting.came)));
        }
    }
    answer.await.unwrap_or_else(|_| {
        Err(EngineError::new(ErrorKind::Unknown, "the shared commit of this load was stopped; look at the rows"))
    })
}

/// Commits batches of a table until no load waits.
async fn lead(loads: Arc<Loads>, table: Table, came: Arc<Notify>) {
    // If this task dies, the waiting loads get an error, and the next load leads again.
    struct Forget(Arc<Loads>, TableId);
    impl Drop for Forget {
        fn drop(&mut self) {
            self.0.groups.active.lock().remove(&self.1);
        }
    }
    let forget = Forget(Arc::clone(&loads), table.id());
    let mut paced = Instant::now();
    loop {
        let closed = {
            let mut active = loads.groups.active.lock();
            let Some(waiting) = active.get_mut(&table.id()) else { return };
            if waiting.members.is_empty() && paced <= Instant::now() {
                active.remove(&table.id());
                // From here on another task may lead.
                std::mem::forget(forget);
                return;
            }
            waiting.close(paced)
        };
        match closed {
            Ok(members) => {
                let begun = Instant::now();
                let many = members.len() > 1;
                batch(&loads, &table, members).await;
                paced = if many { begun + PACE } else { Instant::now() };
            }
            Err(until) => {
                let _ = tokio::time::timeout_at(until, came.notified()).await;
            }
        }
    }
}

impl Waiting {
    /// Takes the loads of the next batch, if it is due. Otherwise returns when to ask again, which is not before
    /// `paced`.
    fn close(&mut self, paced: Instant) -> std::result::Result<Vec<Member>, Instant> {
        let now = Instant::now();
        let Some(due) = self.members.iter().map(|m| m.due).min() else { return Err(paced) };
        let most = self.members.iter().map(|m| Limits::of(&m.share.schema).bytes).min().unwrap_or(BATCH_BYTES);
        let due = due.max(paced);
        if now < due && self.bytes < most {
            return Err(due);
        }
        let mut bytes = 0;
        let fits = self.members.iter().take_while(|m| {
            bytes += m.bytes;
            bytes <= most
        });
        // A single load is smaller than the limit: that was checked when it arrived.
        let count = fits.count().max(1);
        let members: Vec<Member> = self.members.drain(..count).collect();
        self.bytes = self.members.iter().map(|m| m.bytes).sum();
        Ok(members)
    }
}

/// A load whose rows have been checked.
struct Candidate {
    checked: Checked,
    label: Option<(TableId, String)>,
    reply: oneshot::Sender<Result<Shared>>,
}

/// A load that has entered the batch.
struct Entered {
    refused: Vec<RejectedRow>,
    generated: Option<i64>,
    last: Option<i64>,
    label: Option<Held>,
    reply: oneshot::Sender<Result<Shared>>,
}

/// Commits a batch and answers its loads.
async fn batch(loads: &Arc<Loads>, table: &Table, members: Vec<Member>) {
    let txn = table.begin();
    // The snapshot is not older than the schema of any member's rows.
    let target = LoadTarget { table: table.clone(), state: table.snapshot(), txn };
    let begun = match loads.generator(target.state.schema()).await {
        Ok(generate) => {
            let options = LoadOptions { threads: loads.threads, generate, ..LoadOptions::default() };
            Load::begin(target, options, loads.io.clone()).ok()
        }
        Err(_) => None,
    };
    let load = match begun {
        Some(load) => load,
        // The table's properties or expressions are invalid: each load finds out by itself.
        None => return members.into_iter().for_each(|m| answer(m.reply, Ok(Shared::Apart))),
    };
    let checking = Arc::clone(&load);
    let checked = loads.cpu.spawn_blocking(move || check(&checking, members)).await;
    let Ok(candidates) = checked else { return abort(loads, load).await };
    let taken = match take_labels(loads, table, txn, candidates).await {
        Ok(taken) => taken,
        Err(candidates) => {
            abort(loads, load).await;
            return candidates.into_iter().for_each(|c| answer(c.reply, Ok(Shared::Apart)));
        }
    };
    let entering = Arc::clone(&load);
    let encoded = loads.cpu.spawn_blocking(move || enter(&entering, taken)).await;
    let Ok((entered, finished)) = encoded else { return abort(loads, load).await };
    // `None` if the failure may lie with one of the loads.
    let failed: Option<EngineError> = match finished {
        // Labels are recorded even of loads without rows.
        Ok(rowset) if rowset.objects.is_empty() && entered.iter().all(|e| e.label.is_none()) => {
            return committed(txn, entered);
        }
        Ok(rowset) => match loads.tables.publish(table, rowset).await {
            Ok(_) => return committed(txn, entered),
            Err(e) if matches!(e.kind, ErrorKind::Unknown | ErrorKind::Storage) => Some(e),
            Err(_) => {
                abort(loads, load).await;
                None
            }
        },
        Err(e) => {
            abort(loads, load).await;
            matches!(e, LoadError::Store { .. }).then(|| e.into())
        }
    };
    // Release the labels before any of the loads takes its own again.
    let replies: Vec<_> = entered.into_iter().map(|e| e.reply).collect();
    for reply in replies {
        answer(reply, Ok(failed.clone().map_or(Shared::Apart, |e| Shared::Failed(txn, e))));
    }
}

fn committed(txn: TxnId, entered: Vec<Entered>) {
    for Entered { refused, generated, last, label, reply } in entered {
        answer(reply, Ok(Shared::Committed(Committed { txn, refused, generated, last, label })));
    }
}

fn answer(reply: oneshot::Sender<Result<Shared>>, told: Result<Shared>) {
    // If the receiver is gone, nobody waits any more; the outcome stays the same.
    let _ = reply.send(told);
}

async fn abort(loads: &Arc<Loads>, load: Arc<Load>) {
    // Objects that cannot be deleted are left to vacuum.
    let _ = loads.cpu.spawn_blocking(move || load.abort()).await;
}

/// Checks the rows of loads. Those that cannot be in the batch, or whose client is gone, are answered or dropped.
fn check(load: &Load, members: Vec<Member>) -> Vec<Candidate> {
    let mut candidates = Vec::with_capacity(members.len());
    let mut labels = HashSet::new();
    for Member { share, reply, .. } in members {
        if reply.is_closed() {
            continue;
        }
        if share.label.as_ref().is_some_and(|label| labels.contains(label)) {
            answer(reply, Ok(Shared::Exists(load.txn(), LabelStatus::Running)));
            continue;
        }
        let same = Arc::ptr_eq(&share.schema, load.schema()) || share.schema == *load.schema();
        let order = candidates.len() as u64;
        let checked = same.then(|| load.check(order, &share.rows, share.strict));
        let Some(Ok(checked)) = checked else {
            // The load meets its error again when it commits by itself.
            answer(reply, Ok(Shared::Apart));
            continue;
        };
        if checked.report.rejected.len() as u64 > share.refused_max {
            answer(reply, Ok(Shared::Refused(checked.report.rejected)));
            continue;
        }
        labels.extend(share.label.clone());
        candidates.push(Candidate { checked, label: share.label, reply });
    }
    candidates
}

/// Takes the labels of the candidates for the batch. Candidates whose labels belong to other loads are answered. After
/// an error it is open whether the batch has a label, so it must not be committed; all candidates are returned.
async fn take_labels(
    loads: &Arc<Loads>,
    table: &Table,
    txn: TxnId,
    candidates: Vec<Candidate>,
) -> std::result::Result<Vec<(Candidate, Option<Held>)>, Vec<Candidate>> {
    let acquired = async {
        let labels = match candidates.iter().any(|c| c.label.is_some()) {
            true => Some(loads.labels().await?),
            false => None,
        };
        let acquire = candidates.iter().map(|c| {
            let acquire = async {
                match (labels, &c.label) {
                    (Some(labels), Some((database, label))) => {
                        Ok(Some(labels.acquire(*database, label, txn, table.id()).await?))
                    }
                    _ => Ok::<_, EngineError>(None),
                }
            };
            acquire.boxed()
        });
        let acquire: Vec<_> = acquire.collect();
        stream::iter(acquire).buffered(LABELS_AT_ONCE).try_collect::<Vec<_>>().await
    };
    let acquired = match acquired.await {
        Ok(acquired) => acquired,
        Err(error) => {
            tracing::warn!(%error, "a label could not be taken; the loads that were to share its commit go apart");
            return Err(candidates);
        }
    };
    let mut taken = Vec::with_capacity(candidates.len());
    for (candidate, acquired) in candidates.into_iter().zip(acquired) {
        match acquired {
            None => taken.push((candidate, None)),
            Some(Acquired::New(held)) => taken.push((candidate, Some(held))),
            Some(Acquired::Exists(there, status)) => answer(candidate.reply, Ok(Shared::Exists(there.txn, status))),
        }
    }
    Ok(taken)
}

/// Enters the rows into the load and encodes them.
fn enter(load: &Load, taken: Vec<(Candidate, Option<Held>)>) -> (Vec<Entered>, std::result::Result<Rowset, LoadError>) {
    let mut entered = Vec::with_capacity(taken.len());
    let mut failed = None;
    for (order, (Candidate { mut checked, reply, .. }, label)) in taken.into_iter().enumerate() {
        let refused = std::mem::take(&mut checked.report.rejected);
        let (generated, last) = (checked.report.generated, checked.report.last);
        if failed.is_none() {
            failed = load.enter(order as u64, checked).err();
        }
        entered.push(Entered { refused, generated, last, label, reply });
    }
    let finished = match failed {
        Some(e) => Err(e),
        None => load.finish(),
    };
    (entered, finished)
}
