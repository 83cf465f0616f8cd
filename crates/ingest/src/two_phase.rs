//! The second phase of prepared loads, and the states of labels.

use std::collections::HashMap;
use std::sync::Arc;

use dipper_base::client::ClientInfo;
use dipper_node::error::{EngineError, Result};
use dipper_node::tables::registry::Brought;
use dipper_store::catalog::access::Privileges;
use dipper_store::catalog::{Database, TableId};
use dipper_store::chain::TxnId;
use dipper_store::labels::{Attempt, LabelStatus};
use dipper_store::table::Table;
use dipper_store::table::schema::Model;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};

use crate::answer::txn_number;
use crate::host::LoadHost;
use crate::loads::Loads;

/// The name of a prepared load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxnName {
    /// The number in the load's answer.
    Number(u64),
    /// The load's label.
    Label(String),
}

/// The operation on a prepared load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TwoPhase {
    /// Makes its rows visible.
    Commit,
    /// Discards it.
    Abort,
}

/// The state of a transaction that a client wants to end.
enum Found {
    Prepared(Table, TxnId),
    Committed(TxnId),
    Aborted(TxnId),
    Running(TxnId),
}

async fn database(loads: &Arc<Loads>, name: &str) -> Result<Arc<Database>> {
    let state = loads.catalog.refresh().await?;
    Ok(Arc::clone(state.database(name).ok_or_else(|| state.no_database(name))?))
}

/// Commits or aborts a prepared load of a database; `table` narrows the search. Returns a message for the client.
///
/// # Errors
/// `Invalid` if there is no such load, or it has ended already. The message says how it ended in Doris' words, which
/// clients look for to learn that a repeated commit had succeeded.
pub fn two_phase<'a>(
    loads: &'a Arc<Loads>,
    host: &'a dyn LoadHost,
    client: &'a ClientInfo,
    database_name: &'a str,
    table: Option<&'a str>,
    name: &'a TxnName,
    operation: TwoPhase,
) -> BoxFuture<'a, Result<String>> {
    Box::pin(ended(loads, host, client, database_name, table, name, operation))
}

async fn ended(
    loads: &Arc<Loads>,
    host: &dyn LoadHost,
    client: &ClientInfo,
    database_name: &str,
    table: Option<&str>,
    name: &TxnName,
    operation: TwoPhase,
) -> Result<String> {
    let invalid = |message: String| Err(EngineError::invalid(message));
    match end(loads, host, client, database_name, table, name, operation).await? {
        End::Unknown => match name {
            TxnName::Number(number) => invalid(format!("transaction [{number}] not found")),
            TxnName::Label(label) => invalid(format!("transaction with label [{label}] not found")),
        },
        End::Was(txn, true) => {
            invalid(format!("transaction [{}] is already visible, not pre-committed.", txn_number(txn)))
        }
        End::Was(txn, false) => {
            invalid(format!("transaction [{}] is already aborted. abort reason: User Abort", txn_number(txn)))
        }
        End::Running(txn) => invalid(format!("transaction [{}] is prepare, not pre-committed.", txn_number(txn))),
        End::Now(txn) => {
            let done = if operation == TwoPhase::Commit { "commit" } else { "abort" };
            Ok(format!("transaction [{}] {done} successfully.", txn_number(txn)))
        }
    }
}

/// The outcome of a request to end a prepared load.
pub(crate) enum End {
    /// The load was committed or aborted by this request.
    Now(TxnId),
    /// The load had ended before; true if it was committed.
    Was(TxnId, bool),
    /// The load is not prepared yet.
    Running(TxnId),
    /// There is no load of this name.
    Unknown,
}

/// Commits or aborts a prepared load.
pub(crate) async fn end(
    loads: &Arc<Loads>,
    host: &dyn LoadHost,
    client: &ClientInfo,
    database_name: &str,
    table: Option<&str>,
    name: &TxnName,
    operation: TwoPhase,
) -> Result<End> {
    let state = loads.catalog.refresh().await?;
    host.check_seen(client, &state, database_name)?;
    let found = match name {
        TxnName::Number(number) => by_number(loads, database_name, table, *number).await?,
        TxnName::Label(label) => by_label(loads, database_name, label).await?,
    };
    match found {
        None => Ok(End::Unknown),
        Some(Found::Committed(txn)) => Ok(End::Was(txn, true)),
        Some(Found::Aborted(txn)) => Ok(End::Was(txn, false)),
        Some(Found::Running(txn)) => Ok(End::Running(txn)),
        Some(Found::Prepared(table, txn)) => {
            let place = state.table_by_id(table.id());
            let (database, name) =
                place.map_or((database_name, None), |(d, t)| (d.name.as_str(), Some(t.name.as_str())));
            host.check(client, &state, Privileges::INSERT, database, name)?;
            match operation {
                TwoPhase::Abort => drop(table.abort_prepared(txn).await?),
                TwoPhase::Commit => commit(loads, &table, txn).await?,
            }
            loads.records.settle(txn, operation == TwoPhase::Commit);
            Ok(End::Now(txn))
        }
    }
}

async fn commit(loads: &Arc<Loads>, table: &Table, txn: TxnId) -> Result<()> {
    let state = table.snapshot();
    if state.schema().model != Model::Unique {
        table.commit_prepared(txn).await?;
        return Ok(());
    }
    let own = state.prepared().get(&txn).map(|p| Brought::of(&p.rowset)).unwrap_or_default();
    let native = &loads.tables;
    table.commit_prepared_replacing(txn, |state, after| native.replaced(table, own.clone(), state, after)).await?;
    Ok(())
}

/// Looks for a transaction in the newest state of a table.
async fn in_table(loads: &Arc<Loads>, id: TableId, is: impl Fn(TxnId) -> bool) -> Result<Option<Found>> {
    let table = loads.tables.get(id).await?;
    let state = table.refresh().await?;
    if let Some(txn) = state.prepared().keys().copied().find(|t| is(*t)) {
        return Ok(Some(Found::Prepared(table, txn)));
    }
    let ended = state.prepared_outcomes().filter(|(t, _)| is(*t)).last();
    Ok(ended.map(|(txn, committed)| if committed { Found::Committed(txn) } else { Found::Aborted(txn) }))
}

async fn by_number(loads: &Arc<Loads>, name: &str, table: Option<&str>, number: u64) -> Result<Option<Found>> {
    let database = database(loads, name).await?;
    let mut found: Option<Found> = None;
    for candidate in database.tables.values().filter(|t| t.is_native()) {
        if table.is_some_and(|t| t != candidate.name) {
            continue;
        }
        let Some(here) = in_table(loads, candidate.id, |txn| txn_number(txn) == number).await? else { continue };
        if found.is_some() {
            return Err(EngineError::invalid(format!(
                "transaction [{number}] is the number of several transactions; name the label instead"
            )));
        }
        found = Some(here);
    }
    Ok(found)
}

async fn by_label(loads: &Arc<Loads>, name: &str, label: &str) -> Result<Option<Found>> {
    let database = database(loads, name).await?;
    let labels = loads.labels().await?;
    let Some((attempt, status)) = labels.lookup(database.id, label).await? else { return Ok(None) };
    let txn = attempt.txn;
    Ok(match status {
        LabelStatus::Precommitted => in_table(loads, attempt.table, |t| t == txn).await?,
        LabelStatus::Finished => Some(Found::Committed(txn)),
        LabelStatus::Running => Some(Found::Running(txn)),
        LabelStatus::Aborted | LabelStatus::Forgotten => Some(Found::Aborted(txn)),
    })
}

/// Returns the labels of a database with the states of their newest loads, oldest first. They include loads of earlier
/// and of other processes. At most [`LABELS_LISTED`], because each costs a request.
///
/// # Errors
/// The errors of the store.
pub async fn known_labels(loads: &Arc<Loads>, database: &Database) -> Result<Vec<(Attempt, LabelStatus)>> {
    let labels = loads.labels().await?;
    let mut newest: HashMap<String, Attempt> = HashMap::new();
    for attempt in labels.list(database.id, LABELS_LISTED).await? {
        match newest.get(&attempt.label) {
            Some(known) if known.attempt > attempt.attempt => {}
            _ => drop(newest.insert(attempt.label.clone(), attempt)),
        }
    }
    let mut requests = Vec::with_capacity(newest.len());
    for attempt in newest.into_values() {
        let judged = async move {
            let status = labels.status(database.id, &attempt).await?;
            Ok::<_, EngineError>((attempt, status))
        };
        // Boxed, because the compiler does not see through closures that the futures are `Send`.
        requests.push(judged.boxed());
    }
    let mut known: Vec<_> = futures::stream::iter(requests).buffer_unordered(REQUESTS).try_collect().await?;
    known.sort_by_key(|(attempt, _)| attempt.at_ms);
    Ok(known)
}

/// Most labels that SHOW lists: as many as Doris keeps (`label_num_threshold`).
const LABELS_LISTED: usize = 2000;
/// Requests for labels that are in flight at a time.
const REQUESTS: usize = 16;

/// Returns the state of the load with a label, in Doris' words; `UNKNOWN` for an unused label.
///
/// # Errors
/// `NoDatabase` if there is no such database; the errors of the store.
pub async fn label_state(loads: &Arc<Loads>, database_name: &str, label: &str) -> Result<&'static str> {
    let database = database(loads, database_name).await?;
    let labels = loads.labels().await?;
    let found = labels.lookup(database.id, label).await?.map(|(_, status)| status);
    Ok(match found {
        // The label of a small load is taken only with its rows, so look for a running load, too.
        None | Some(LabelStatus::Aborted) => match loads.records.labelled(database_name, label) {
            Some(record) if record.ended.is_none() => "PREPARE",
            Some(record) if record.state() == "CANCELLED" => "ABORTED",
            _ if found.is_some() => "ABORTED",
            _ => "UNKNOWN",
        },
        Some(LabelStatus::Running) => "PREPARE",
        Some(LabelStatus::Precommitted) => "PRECOMMITTED",
        Some(LabelStatus::Finished) => "VISIBLE",
        Some(LabelStatus::Forgotten) => "UNKNOWN",
    })
}
