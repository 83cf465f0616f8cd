//! Small loads that share one object and one commit.
//!
//! A commit costs a synced object, a synced version and a LIST, however few rows it has. So small loads hand their rows
//! to the group of their table. While one batch is being committed the next one fills; it goes when the one
//! before it has ended, at once if there was none. A load by itself waits for nobody, many at once share what a commit
//! costs and leave few segments.
//!
//! Each load keeps its own answer: its rows are checked apart, and enter the batch only if no more of them were refused
//! than it allows. Loads enter in the order of their arrival, so later rows win. Who is answered is committed. If a batch
//! cannot be committed for a reason that may lie with one of its loads, each is told to commit by itself.
//!
//! Labels are taken between the check and the batch, by the transaction of the batch: it is committed with all loads whose
//! labels name it, or not at all.

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

/// Requests for labels of a batch at a time.
const LABELS_AT_ONCE: usize = 16;

/// Bytes of a batch where the table does not say (`group_commit_data_bytes`).
const BATCH_BYTES: u64 = 64 << 20;

/// Bytes that may wait behind a commit; loads beyond that commit by themselves.
const WAITING_BYTES_MAX: u64 = 256 << 20;

/// When a batch had several loads, the next one is at least so much later: where loads come one after the other from
/// each of many clients, the commit's cost is shared by those who come within this time.
const PACE: Duration = Duration::from_millis(25);

/// A load's share of a batch.
pub struct Share {
    /// What its rows are typed by.
    pub schema: Arc<TableSchema>,
    /// Its rows, as [`Load::input_schema`] says.
    pub rows: Vec<RecordBatch>,
    /// Its label, with the database that it is of.
    pub label: Option<(TableId, String)>,
    /// As [`LoadOptions::strict`].
    pub strict: bool,
    /// Rows of it that may be refused; if there are more, none enters.
    pub refused_max: u64,
    /// It asked for group commit and waits as long as the table says (`group_commit_interval_ms`) for others.
    pub patient: bool,
}

/// What became of a [`Share`].
pub enum Shared {
    /// Committed.
    Committed(Committed),
    /// Too many rows were refused, and none was committed.
    Refused(Vec<RejectedRow>),
    /// The load of this transaction has its label; of this one nothing was committed.
    Exists(TxnId, LabelStatus),
    /// An error that each of them would meet; it may leave open whether the transaction is committed.
    Failed(TxnId, EngineError),
    /// Nothing was committed: the load has to do it by itself.
    Apart,
}

/// A share that was committed.
pub struct Committed {
    /// The transaction that it was committed by.
    pub txn: TxnId,
    /// Rows of the share that were refused, and are not committed.
    pub refused: Vec<RejectedRow>,
    /// The first value that was made for its AUTO_INCREMENT column.
    pub generated: Option<i64>,
    /// That column in its last row.
    pub last: Option<i64>,
    /// Its label, whose end is still to be noted.
    pub label: Option<Held>,
}

/// The groups that have something to do, by table.
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
    /// Somebody came.
    came: Arc<Notify>,
}

struct Member {
    share: Share,
    bytes: u64,
    /// When it wants to be committed.
    due: Instant,
    reply: oneshot::Sender<Result<Shared>>,
}

/// `group_commit_interval_ms` and `group_commit_data_bytes` of a table.
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

/// Commits a load together with others that are there at the same time.
///
/// # Cancellation
/// Dropped before its batch is closed, it leaves nothing; later, it may be committed.
///
/// # Errors
/// The store fails; [`ErrorKind::Unknown`] and [`ErrorKind::Storage`] leave the outcome open.
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

/// Commits batches of a table until nobody waits.
async fn lead(loads: Arc<Loads>, table: Table, came: Arc<Notify>) {
    // Should this task die, those who wait hear of it, and the next one leads again.
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
                // Another may lead from here on.
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
    /// The next batch, if it is time for one; else when to ask again. Not before `paced`.
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
        // One by itself is below: it was asked when it came.
        let count = fits.count().max(1);
        let members: Vec<Member> = self.members.drain(..count).collect();
        self.bytes = self.members.iter().map(|m| m.bytes).sum();
        Ok(members)
    }
}

/// A load whose rows are checked.
struct Candidate {
    checked: Checked,
    label: Option<(TableId, String)>,
    reply: oneshot::Sender<Result<Shared>>,
}

/// A load that is in the batch.
struct Entered {
    refused: Vec<RejectedRow>,
    generated: Option<i64>,
    last: Option<i64>,
    label: Option<Held>,
    reply: oneshot::Sender<Result<Shared>>,
}

/// Commits a batch and answers its members.
async fn batch(loads: &Arc<Loads>, table: &Table, members: Vec<Member>) {
    let txn = table.begin();
    // Not older than what any member was typed by.
    let target = LoadTarget { table: table.clone(), state: table.snapshot(), txn };
    let options = LoadOptions { threads: loads.threads, ..LoadOptions::default() };
    let load = match Load::begin(target, options, loads.io.clone()) {
        Ok(load) => load,
        // Properties of the table that are none: each learns it from its own load.
        Err(_) => return members.into_iter().for_each(|m| answer(m.reply, Ok(Shared::Apart))),
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
    // Without an error it may lie with one of its loads.
    let failed: Option<EngineError> = match finished {
        // Labels are remembered also of loads without rows.
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
    // Its labels are let go before any of its loads takes its own again.
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
    // Nobody waits any more: what was done stays done.
    let _ = reply.send(told);
}

async fn abort(loads: &Arc<Loads>, load: Arc<Load>) {
    // What it cannot delete is vacuum's.
    let _ = loads.cpu.spawn_blocking(move || load.abort()).await;
}

/// Checks the members' rows. Those that do not want to be in the batch, or cannot, are answered.
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
            // An error of this one is told by its own load.
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

/// Takes the labels of the candidates for the batch. Those whose labels others have are answered; an error leaves it open
/// whether the batch has a label, so that it must not be committed.
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

/// Puts the rows into the load and encodes them.
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
