//! StarRocks' transaction interface: several Stream Loads into one table are committed together.
//!
//! ```text
//! begin ─ load ─ load ─ ... ─ prepare ─ commit
//!                                └─ from here on as any prepared load: over restarts, by its label, in each process
//! ```
//!
//! Up to `prepare` a transaction belongs to this process, and is lost with it. A transaction is rolled back if nothing
//! happens in it until its timeout, and also if one of its loads fails, because clients do not check each answer.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dipper_base::client::ClientInfo;
use dipper_load::body::BodySource;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_store::catalog::TableId;
use dipper_store::catalog::access::Privileges;
use dipper_store::chain::TxnId;
use dipper_store::labels::{Acquired, LabelStatus};
use futures::FutureExt;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard};

use crate::answer::{LoadAnswer, LoadStatus, txn_number};
use crate::host::LoadHost;
use crate::job::{self, LoadJob, LoadSpec};
use crate::loads::Loads;
use crate::records::LoadKind;
use crate::request::{self, StreamLoadRequest, UpdateMode};
use crate::two_phase::{End, TwoPhase, TxnName, end};
use crate::uncommitted::{Slot, Uncommitted};

/// Time from `begin` to `prepare` if `begin` names none, like StarRocks' `stream_load_default_timeout_second`.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Most transactions that may be open at the same time.
const OPEN_MAX: usize = 4096;

/// The name of a transaction in a request.
#[derive(Debug, Clone)]
pub struct TransactionName {
    /// The client that asks.
    pub client: ClientInfo,
    /// Database of the transaction's table.
    pub database: String,
    /// The transaction's table; required only for `begin` and `load`.
    pub table: Option<String>,
    /// The transaction's name in its database.
    pub label: String,
}

/// Timeouts of a transaction.
#[derive(Debug, Clone, Copy, Default)]
pub struct TransactionTimes {
    /// From `begin` to `prepare`; `None` means ten minutes.
    pub whole: Option<Duration>,
    /// Longest pause between two requests; `None` means no limit.
    pub idle: Option<Duration>,
}

/// An operation on a transaction, other than a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Keeps the transaction for a later commit, also over restarts.
    Prepare,
    /// Makes the transaction's rows visible.
    Commit,
    /// Discards the transaction.
    Rollback,
}

/// The reason for refusing a request, in StarRocks' words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionError {
    /// Status in the answer: `FAILED`, `LABEL_ALREADY_EXISTS`, `TXN_NOT_EXISTS`.
    pub status: &'static str,
    /// The message.
    pub message: String,
    /// State of the transaction that has the label: `RUNNING`, `PREPARED`, `FINISHED`.
    pub existing: Option<&'static str>,
    /// Number of the transaction, if it is known.
    pub number: Option<u64>,
}

impl From<EngineError> for TransactionError {
    fn from(e: EngineError) -> Self {
        TransactionError { status: "FAILED", message: e.message, existing: None, number: None }
    }
}

fn not_there(label: &str) -> TransactionError {
    let message = format!("transaction with label {label} not exists; it was never begun here, or has ended");
    TransactionError { status: "TXN_NOT_EXISTS", message, existing: None, number: None }
}

/// The result of a successful request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionDone {
    /// Number of the transaction.
    pub number: u64,
    /// Rows of its loads, as far as this process knows them.
    pub rows: u64,
    /// Message for the client; may be empty.
    pub message: String,
}

/// The open transactions, by database and label.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    open: Mutex<HashMap<(TableId, String), Arc<Open>>>,
}

#[derive(Debug)]
struct Open {
    table: TableId,
    txn: TxnId,
    written: Arc<tokio::sync::Mutex<Option<Uncommitted>>>,
    /// When the last request for it came.
    asked: Mutex<Instant>,
    until: Instant,
    idle: Option<Duration>,
    /// Notified when the transaction has ended.
    ended: Notify,
}

impl Open {
    /// Returns when the transaction is rolled back if no further request comes.
    fn deadline(&self) -> Instant {
        let idle = self.idle.map(|idle| *self.asked.lock() + idle);
        idle.map_or(self.until, |idle| idle.min(self.until))
    }
}

/// A load of a transaction that is ready to take its body.
pub struct TransactionLoad {
    job: LoadJob,
    slot: Slot,
    open: Arc<Open>,
    written: OwnedMutexGuard<Option<Uncommitted>>,
    loads: Arc<Loads>,
    key: (TableId, String),
    number: u64,
}

/// Begins a transaction and takes its label. Returns its number.
///
/// # Errors
/// `LABEL_ALREADY_EXISTS` if the label has been used; `FAILED` for all other reasons.
pub fn begin<'a>(
    loads: &'a Arc<Loads>,
    host: &'a dyn LoadHost,
    name: &'a TransactionName,
    times: TransactionTimes,
) -> BoxFuture<'a, std::result::Result<u64, TransactionError>> {
    Box::pin(begun(loads, host, name, times))
}

async fn begun(
    loads: &Arc<Loads>,
    host: &dyn LoadHost,
    name: &TransactionName,
    times: TransactionTimes,
) -> std::result::Result<u64, TransactionError> {
    let label = request::label(&name.label).map_err(|e| EngineError::of(ErrorKind::Invalid, e))?;
    let (database, id) = target(loads, host, name).await?;
    let table = loads.tables.get(id).await?;
    let base = table.follow().await.map_err(EngineError::from)?;
    let txn = table.begin();
    if loads.transactions.open.lock().len() >= OPEN_MAX {
        let message = format!("{OPEN_MAX} transactions are open; commit or roll back some of them");
        return Err(EngineError::new(ErrorKind::Resources, message).into());
    }
    let labels = loads.labels().await?;
    let held = match labels.acquire(database, &label, txn, id).await.map_err(EngineError::from)? {
        Acquired::New(held) => held,
        Acquired::Exists(there, status) => {
            let existing = match status {
                LabelStatus::Running => "RUNNING",
                LabelStatus::Precommitted => "PREPARED",
                LabelStatus::Finished | LabelStatus::Aborted | LabelStatus::Forgotten => "FINISHED",
            };
            return Err(TransactionError {
                status: "LABEL_ALREADY_EXISTS",
                message: format!("Label [{label}] has already been used."),
                existing: Some(existing),
                number: Some(txn_number(there.txn)),
            });
        }
    };
    let now = Instant::now();
    let written = Uncommitted::new(loads, table, base, txn, (label.clone(), Some(held)), None);
    let open = Arc::new(Open {
        table: id,
        txn,
        written: Arc::new(tokio::sync::Mutex::new(Some(written))),
        asked: Mutex::new(now),
        until: now + times.whole.unwrap_or(TIMEOUT),
        idle: times.idle,
        ended: Notify::new(),
    });
    loads.transactions.open.lock().insert((database, label.clone()), Arc::clone(&open));
    let weak = Arc::downgrade(loads);
    loads.io.spawn(async move {
        loop {
            if tokio::time::timeout_at(open.deadline().into(), open.ended.notified()).await.is_ok() {
                return;
            }
            // A load that is running ends first: it has a timeout of its own.
            let mut written = open.written.lock().await;
            if open.deadline() > Instant::now() && written.is_some() {
                continue;
            }
            let late = written.take();
            let Some(loads) = weak.upgrade() else { return };
            loads.transactions.remove(&(database, label.clone()), &open);
            if let Some(late) = late {
                tracing::info!(label, "a transaction was rolled back: its time is over");
                loads.records.settle(open.txn, false);
                late.roll_back().await;
            }
            return;
        }
    });
    Ok(txn_number(txn))
}

impl Transactions {
    fn find(&self, key: &(TableId, String)) -> Option<Arc<Open>> {
        let found = self.open.lock().get(key).cloned()?;
        *found.asked.lock() = Instant::now();
        Some(found)
    }

    fn remove(&self, key: &(TableId, String), which: &Arc<Open>) {
        which.ended.notify_one();
        let mut open = self.open.lock();
        if open.get(key).is_some_and(|there| Arc::ptr_eq(there, which)) {
            open.remove(key);
        }
    }
}

/// Returns the database, and the table that the client names and may write to.
async fn target(loads: &Arc<Loads>, host: &dyn LoadHost, name: &TransactionName) -> Result<(TableId, TableId)> {
    let Some(table) = name.table.clone() else {
        return Err(EngineError::invalid("header 'table' is missing: the table that the transaction writes to"));
    };
    let catalog = loads.catalog.refresh().await?;
    host.check(&name.client, &catalog, Privileges::INSERT, &name.database, Some(&table))?;
    let (database, found) = job::table(&catalog, &spec(name, table, StreamLoadRequest::default()))?;
    Ok((database, found.id))
}

fn spec(name: &TransactionName, table: String, request: StreamLoadRequest) -> LoadSpec {
    let (client, database) = (name.client.clone(), name.database.clone());
    LoadSpec { kind: LoadKind::Stream, client, database, table, request }
}

/// Begins a load of an open transaction: checks everything that can be checked without the body. It waits until another
/// load of the transaction has ended.
///
/// # Errors
/// `TXN_NOT_EXISTS` if the transaction is not open here; `FAILED` for all other reasons. The transaction stays
/// unchanged.
pub fn begin_load<'a>(
    loads: &'a Arc<Loads>,
    host: &'a dyn LoadHost,
    name: &'a TransactionName,
    request: StreamLoadRequest,
) -> BoxFuture<'a, std::result::Result<TransactionLoad, TransactionError>> {
    Box::pin(load_begun(loads, host, name, request))
}

async fn load_begun(
    loads: &Arc<Loads>,
    host: &dyn LoadHost,
    name: &TransactionName,
    mut request: StreamLoadRequest,
) -> std::result::Result<TransactionLoad, TransactionError> {
    let (database, table) = target(loads, host, name).await?;
    let key = (database, name.label.clone());
    let Some(open) = loads.transactions.find(&key) else { return Err(not_there(&name.label)) };
    if open.table != table {
        return Err(EngineError::unsupported(
            "a transaction writes to one table: that of its begin; begin another one for this table",
        )
        .into());
    }
    let mut written = Arc::clone(&open.written).lock_owned().await;
    let Some(transaction) = written.as_mut() else { return Err(not_there(&name.label)) };
    let number = txn_number(open.txn);
    let slot = transaction.slot(request.update_mode != UpdateMode::Upsert).await?;
    request.label = Some(name.label.clone());
    let spec = spec(name, name.table.clone().unwrap_or_default(), request);
    let job = LoadJob::begin_within(loads, host, spec, slot.clone()).await.map_err(|answer| TransactionError {
        status: "FAILED",
        message: answer.message,
        existing: None,
        number: Some(number),
    })?;
    Ok(TransactionLoad { job, slot, open, written, loads: Arc::clone(loads), key, number })
}

impl TransactionLoad {
    /// Returns the number of the transaction.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Takes the body. If the load fails, its transaction is rolled back.
    ///
    /// # Cancellation
    /// If the future is dropped, no rows of the load are in the transaction.
    pub fn run(self, body: BodySource) -> BoxFuture<'static, LoadAnswer> {
        let TransactionLoad { job, slot, open, mut written, loads, key, .. } = self;
        async move {
            let answer = job.run(body).await;
            let part = slot.part.lock().take();
            match (answer.status, part, written.as_mut()) {
                (LoadStatus::Success, Some(part), Some(transaction)) => {
                    transaction.add(part);
                    transaction.rows += answer.loaded_rows;
                }
                _ => {
                    loads.transactions.remove(&key, &open);
                    loads.records.settle(open.txn, false);
                    if let Some(transaction) = written.take() {
                        transaction.roll_back().await;
                    }
                }
            }
            *open.asked.lock() = Instant::now();
            answer
        }
        .boxed()
    }
}

/// Prepares, commits or rolls back a transaction. Repeating an operation succeeds.
///
/// # Errors
/// `TXN_NOT_EXISTS` if there is no such transaction; `FAILED` for all other reasons.
pub fn finish<'a>(
    loads: &'a Arc<Loads>,
    host: &'a dyn LoadHost,
    name: &'a TransactionName,
    operation: Operation,
) -> BoxFuture<'a, std::result::Result<TransactionDone, TransactionError>> {
    Box::pin(finished(loads, host, name, operation))
}

async fn finished(
    loads: &Arc<Loads>,
    host: &dyn LoadHost,
    name: &TransactionName,
    operation: Operation,
) -> std::result::Result<TransactionDone, TransactionError> {
    let catalog = loads.catalog.refresh().await.map_err(EngineError::from)?;
    host.check_seen(&name.client, &catalog, &name.database)?;
    let found = catalog.database(&name.database).ok_or_else(|| catalog.no_database(&name.database));
    let key = (found.map_err(EngineError::from)?.id, name.label.clone());
    let Some(open) = loads.transactions.find(&key) else { return prepared(loads, host, name, operation).await };
    if let Some((database, table)) = catalog.table_by_id(open.table) {
        host.check(&name.client, &catalog, Privileges::INSERT, &database.name, Some(&table.name))?;
    }
    let written = open.written.lock().await.take();
    let Some(written) = written else { return prepared(loads, host, name, operation).await };
    let (number, mut rows) = (txn_number(open.txn), 0);
    let ended = match operation {
        Operation::Prepare => written.prepare().await.map(|prepared| rows = prepared),
        Operation::Commit => written.commit().await.map(|committed| rows = committed),
        Operation::Rollback => {
            written.roll_back().await;
            Ok(())
        }
    };
    loads.transactions.remove(&key, &open);
    match (&ended, operation) {
        (Ok(()), Operation::Prepare) => {}
        (ended, _) => loads.records.settle(open.txn, ended.is_ok() && operation == Operation::Commit),
    }
    match ended {
        Ok(()) => Ok(TransactionDone { number, rows, message: String::new() }),
        Err(e) => Err(TransactionError { number: Some(number), ..e.into() }),
    }
}

/// Commits or rolls back a transaction that is prepared, or has ended.
async fn prepared(
    loads: &Arc<Loads>,
    host: &dyn LoadHost,
    name: &TransactionName,
    operation: Operation,
) -> std::result::Result<TransactionDone, TransactionError> {
    let label = TxnName::Label(name.label.clone());
    let TransactionName { client, database, .. } = name;
    let done = |txn, message: String| Ok(TransactionDone { number: txn_number(txn), rows: 0, message });
    let failed = |txn, message: String| {
        Err(TransactionError { status: "FAILED", message, existing: None, number: Some(txn_number(txn)) })
    };
    let what = match operation {
        Operation::Prepare => {
            let labels = loads.labels().await?;
            let state = loads.catalog.snapshot();
            let Some(found) = state.database(database) else { return Err(not_there(&name.label)) };
            let known = labels.lookup(found.id, &name.label).await.map_err(EngineError::from)?;
            return match known {
                Some((attempt, LabelStatus::Precommitted)) => {
                    done(attempt.txn, format!("Transaction {} has already prepared", txn_number(attempt.txn)))
                }
                Some((attempt, LabelStatus::Finished)) => {
                    done(attempt.txn, format!("Transaction {} has already committed", txn_number(attempt.txn)))
                }
                _ => Err(not_there(&name.label)),
            };
        }
        Operation::Commit => TwoPhase::Commit,
        Operation::Rollback => TwoPhase::Abort,
    };
    match end(loads, host, client, database, None, &label, what).await? {
        End::Now(txn) => done(txn, String::new()),
        End::Was(txn, committed) => match (committed, operation) {
            (true, Operation::Commit) => {
                done(txn, format!("Transaction {} has already committed, label is {}", txn_number(txn), name.label))
            }
            (false, Operation::Rollback) => {
                done(txn, format!("Transaction {} has already aborted, label is {}", txn_number(txn), name.label))
            }
            (true, _) => failed(txn, format!("Can not abort committed transaction {}", txn_number(txn))),
            (false, _) => failed(txn, format!("Can not commit aborted transaction {}", txn_number(txn))),
        },
        // The transaction belongs to another process, which may have died since.
        End::Running(txn) => failed(
            txn,
            format!("Transaction {} is open in another server process; send the request there", txn_number(txn)),
        ),
        End::Unknown => Err(not_there(&name.label)),
    }
}
