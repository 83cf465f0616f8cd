//! SHOW statements about the server: variables, sessions, warnings, character sets, functions, privileges, loads.

use std::collections::{HashMap, HashSet};

use dipper_base::client::Level;
use dipper_dialect::statement::{Name, Scope};
use dipper_ingest::answer::txn_number;
use dipper_ingest::records::{LoadHeader, LoadKind, LoadRecord};
use dipper_ingest::two_phase::known_labels;
use dipper_lake::sheet::{Cell, Kind, Sheet, wall_clock_text};
use dipper_store::chain::TxnId;
use dipper_store::labels::{Attempt, LabelStatus};

use crate::access;
use crate::error::{EngineError, ErrorKind, Result};
use crate::info_schema::nodes::{BACKENDS, FRONTENDS, node};
use crate::info_schema::{self, PRIVILEGES, millis};
use crate::session::Session;
use dipper_variables::charset::{CHARACTER_SETS, COLLATIONS};

pub(super) fn variables(session: &Session, scope: Scope) -> Sheet {
    let mut sheet = Sheet::texts(&["Variable_name", "Value"]);
    for (name, value) in session.variables.list(scope) {
        sheet.push([name.into(), value.into()]);
    }
    sheet
}

/// Lists the session's variables with their defaults, and whether the two differ; `default` and `changed` are the names
/// of the last columns.
pub(super) fn verbose_variables(session: &Session, default: &str, changed: &str) -> Sheet {
    let mut sheet = Sheet::texts(&["Variable_name", "Value", default, changed]);
    for row in info_schema::measures::verbose(&session.variables) {
        sheet.push(row);
    }
    sheet
}

pub(super) fn status(session: &Session, scope: Scope) -> Sheet {
    let mut sheet = Sheet::texts(&["Variable_name", "Value"]);
    let own = (scope != Scope::Global).then_some(session.client.connection_id);
    for (name, value) in info_schema::status(&session.engine, own) {
        sheet.push([name.into(), value.into()]);
    }
    sheet
}

/// Number of characters of a statement that SHOW PROCESSLIST shows without FULL.
const INFO_CHARS: usize = 100;

pub(super) fn processlist(session: &Session, full: bool) -> Result<Sheet> {
    let rights = session.rights(&session.engine.catalog.snapshot())?;
    let mut sheet = Sheet::new(&[
        ("Id", Kind::Int),
        ("User", Kind::Text),
        ("Host", Kind::Text),
        ("db", Kind::Text),
        ("Command", Kind::Text),
        ("Time", Kind::Int),
        ("State", Kind::Text),
        ("Info", Kind::Text),
    ]);
    for mut row in info_schema::processes(&session.engine, &rights) {
        if let (false, Some(Cell::Text(info))) = (full, row.last_mut()) {
            *info = info.chars().take(INFO_CHARS).collect();
        }
        sheet.push(row);
    }
    Ok(sheet)
}

pub(super) fn warnings(session: &Session, count: bool, errors_only: bool) -> Sheet {
    let kept: Vec<_> = session.warnings.iter().filter(|w| !errors_only || w.level == Level::Error).collect();
    if count {
        let name = if errors_only { "@@session.error_count" } else { "@@session.warning_count" };
        let mut sheet = Sheet::new(&[(name, Kind::Int)]);
        sheet.push([Cell::Int(kept.len() as i64)]);
        return sheet;
    }
    let mut sheet = Sheet::new(&[("Level", Kind::Text), ("Code", Kind::Int), ("Message", Kind::Text)]);
    for warning in kept {
        let level = match warning.level {
            Level::Note => "Note",
            Level::Warning => "Warning",
            Level::Error => "Error",
        };
        sheet.push([level.into(), Cell::Int(i64::from(warning.code)), (&warning.message).into()]);
    }
    sheet
}

pub(super) fn engines() -> Sheet {
    let mut sheet = Sheet::texts(&["Engine", "Support", "Comment", "Transactions", "XA", "Savepoints"]);
    for row in info_schema::engines() {
        sheet.push(row.map(Cell::from));
    }
    sheet
}

pub(super) fn charset() -> Sheet {
    let mut sheet = Sheet::new(&[
        ("Charset", Kind::Text),
        ("Description", Kind::Text),
        ("Default collation", Kind::Text),
        ("Maxlen", Kind::Int),
    ]);
    for c in CHARACTER_SETS {
        sheet.push([c.name.into(), c.description.into(), c.default_collation.into(), c.bytes_max.into()]);
    }
    sheet
}

pub(super) fn collation() -> Sheet {
    let mut sheet = Sheet::new(&[
        ("Collation", Kind::Text),
        ("Charset", Kind::Text),
        ("Id", Kind::Int),
        ("Default", Kind::Text),
        ("Compiled", Kind::Text),
        ("Sortlen", Kind::Int),
    ]);
    for c in COLLATIONS {
        let default = if info_schema::is_default_collation(c.name, c.charset) { "Yes" } else { "" };
        sheet.push([c.name.into(), c.charset.into(), c.id.into(), default.into(), "Yes".into(), Cell::Int(1)]);
    }
    sheet
}

pub(super) fn plugins() -> Sheet {
    let mut sheet = Sheet::texts(&["Name", "Status", "Type", "Library", "License"]);
    for name in ["caching_sha2_password", "mysql_native_password"] {
        sheet.push([name.into(), "ACTIVE".into(), "AUTHENTICATION".into(), Cell::Null, "Apache-2.0".into()]);
    }
    sheet
}

pub(super) fn privileges() -> Sheet {
    let mut sheet = Sheet::texts(&["Privilege", "Context", "Comment"]);
    for (privilege, context, comment) in PRIVILEGES {
        sheet.push([(*privilege).into(), (*context).into(), (*comment).into()]);
    }
    sheet
}

pub(super) fn backends(session: &Session) -> Sheet {
    node(&session.engine, &session.variables, BACKENDS)
}

pub(super) fn frontends(session: &Session) -> Sheet {
    node(&session.engine, &session.variables, FRONTENDS)
}

/// Runs SHOW ALTER TABLE COLUMN: lists changes of columns. A change ends at once.
pub(super) fn alters(session: &Session, from: Option<&Name>) -> Result<Sheet> {
    let mut sheet = dipper_lake::virtual_tables::no_rows::list("ALTER TABLE")?;
    let zone = session.variables.time_zone();
    let database = database_of(session, from, "SHOW ALTER TABLE COLUMN")?;
    let state = session.engine.catalog.snapshot();
    let rights = session.rights(&state)?;
    for alter in session.engine.alters.of(database) {
        if !state.database(database).is_some_and(|database| rights.sees_table(database.id, alter.id)) {
            continue;
        }
        let id = alter.id.0.to_string();
        sheet.push([
            alter.number.to_string().into(),
            (&alter.table).into(),
            wall_clock_text(alter.begun_ms, &zone),
            wall_clock_text(alter.ended_ms, &zone),
            (&alter.table).into(),
            (&id).into(),
            (&id).into(),
            format!("{}:0", alter.version).into(),
            alter.number.to_string().into(),
            "FINISHED".into(),
            "".into(),
            Cell::Null,
            "86400".into(),
        ]);
    }
    Ok(sheet)
}

/// Lists the configuration that ADMIN SET FRONTEND CONFIG changes. All other settings are flags of the command or
/// variables.
pub(super) fn config(session: &Session) -> Sheet {
    let mut sheet = Sheet::texts(&["Key", "Value", "Type", "IsMutable", "MasterOnly", "Comment"]);
    let cache = session.engine.points().lookups.cache();
    let connections = session.variables.get_global("max_connections");
    for (key, value, kind, comment) in [
        (
            "disable_storage_row_cache",
            Some((!cache.is_on()).to_string()),
            "boolean",
            "rows looked up by key are not kept",
        ),
        (
            "qe_max_connection",
            connections,
            "int",
            "connections that may be open at once; as SET GLOBAL max_connections",
        ),
        ("row_cache_mem_limit", Some(cache.capacity().to_string()), "long", "bytes of rows that were looked up by key"),
    ] {
        sheet.push([key.into(), value.into(), kind.into(), "true".into(), "false".into(), comment.into()]);
    }
    sheet
}

/// The labels of a database, without those of transactions that this process has records of, and the status of each
/// labelled transaction, because another process may have ended a prepared load.
struct Labelled {
    others: Vec<(Attempt, LabelStatus)>,
    ended: HashMap<TxnId, LabelStatus>,
}

async fn labelled(session: &Session, database: &str, loads: &[LoadRecord]) -> Result<Labelled> {
    let state = session.engine.catalog.refresh().await?;
    let Some(found) = state.database(database) else {
        return Ok(Labelled { others: Vec::new(), ended: HashMap::new() });
    };
    // Loads that share a commit have the same transaction.
    let here: HashSet<(TxnId, String)> =
        loads.iter().filter_map(|r| Some((r.txn()?, r.header.label.clone()))).collect();
    let all = known_labels(&session.engine.loads, found).await?;
    let ended = all.iter().map(|(attempt, status)| (attempt.txn, *status)).collect();
    Ok(Labelled { others: all.into_iter().filter(|(a, _)| !here.contains(&(a.txn, a.label.clone()))).collect(), ended })
}

impl Labelled {
    /// Returns the state of a load of this process. Another process, or a DROP, may have ended it since it was
    /// prepared.
    fn state(&self, load: &LoadRecord) -> &'static str {
        match load.txn().and_then(|txn| self.ended.get(&txn)) {
            Some(status) if load.state() == "PRECOMMITTED" => state_word(*status),
            _ => load.state(),
        }
    }
}

/// Returns SHOW LOAD's word for the status of a label.
fn state_word(status: LabelStatus) -> &'static str {
    match status {
        LabelStatus::Running => "LOADING",
        LabelStatus::Precommitted => "PRECOMMITTED",
        LabelStatus::Finished => "FINISHED",
        LabelStatus::Aborted => "CANCELLED",
        LabelStatus::Forgotten => "UNKNOWN",
    }
}

/// Returns SHOW TRANSACTION's word for a state of SHOW LOAD.
fn transaction_word(state: &'static str) -> &'static str {
    match state {
        "FINISHED" => "VISIBLE",
        "CANCELLED" => "ABORTED",
        "LOADING" => "PREPARE",
        state => state,
    }
}

/// Runs SHOW TRANSACTION: lists the transactions of loads that this process has records of, and those whose labels are
/// kept.
pub(super) async fn transactions(session: &Session, from: Option<&Name>, id: Option<u64>) -> Result<Sheet> {
    let database = database_of(session, from, "SHOW TRANSACTION")?;
    let zone = session.variables.time_zone();
    let mut sheet = Sheet::texts(&[
        "TransactionId",
        "Label",
        "Coordinator",
        "TransactionStatus",
        "LoadJobSourceType",
        "PrepareTime",
        "CommitTime",
        "FinishTime",
        "Reason",
        "ErrMsg",
    ]);
    let loads: Vec<LoadRecord> =
        session.engine.loads().list().into_iter().filter(|l| l.header.database == database).collect();
    let labelled = labelled(session, database, &loads).await?;
    let wanted = |n: &u64| id.is_none_or(|id| *n == id);
    for (attempt, status) in &labelled.others {
        let Some(number) = Some(txn_number(attempt.txn)).filter(wanted) else { continue };
        sheet.push([
            number.to_string().into(),
            (&attempt.label).into(),
            Cell::Null,
            transaction_word(state_word(*status)).into(),
            Cell::Null,
            wall_clock_text(attempt.at_ms, &zone),
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Null,
        ]);
    }
    let state = session.engine.catalog.snapshot();
    let rights = session.rights(&state)?;
    for load in &loads {
        if !access::sees_loads(&rights, &state, database, &load.header.table) {
            continue;
        }
        let end = load.ended.as_ref();
        let Some(number) = load.txn().map(txn_number).filter(wanted) else { continue };
        let status = transaction_word(labelled.state(load));
        let ended = end.map_or(Cell::Null, |end| wall_clock_text(millis(end.at), &zone));
        let message = end.map(|end| end.answer.message.clone()).filter(|m| m != "OK");
        sheet.push([
            number.to_string().into(),
            (&load.header.label).into(),
            (&load.header.client).into(),
            status.into(),
            load.header.kind.name().into(),
            wall_clock_text(millis(load.started), &zone),
            ended.clone(),
            ended,
            message.clone().into(),
            message.into(),
        ]);
    }
    Ok(sheet)
}

/// Returns the database to which a SHOW statement applies.
fn database_of<'a>(session: &'a Session, from: Option<&'a Name>, what: &str) -> Result<&'a str> {
    from.map(Name::object).or(session.database()).ok_or_else(|| {
        EngineError::new(ErrorKind::NoDatabaseSelected, format!("no database selected; write {what} FROM database"))
    })
}

/// Runs SHOW LOAD: lists the loads of a database that this process has records of, and those whose labels are kept.
/// SHOW STREAM LOAD lists only loads that came over HTTP; of the kept labels these are the prepared ones, because loads
/// are prepared over HTTP only.
pub(super) async fn loads(session: &Session, stream: bool, from: Option<&Name>) -> Result<Sheet> {
    let database = database_of(session, from, "SHOW LOAD")?;
    let zone = session.variables.time_zone();
    let mut sheet = Sheet::texts(&[
        "JobId",
        "Label",
        "State",
        "Progress",
        "Type",
        "EtlInfo",
        "TaskInfo",
        "ErrorMsg",
        "CreateTime",
        "EtlStartTime",
        "EtlFinishTime",
        "LoadStartTime",
        "LoadFinishTime",
        "URL",
        "JobDetails",
        "TransactionId",
        "ErrorTablets",
        "User",
        "Comment",
    ]);
    let state = session.engine.catalog.snapshot();
    let rights = session.rights(&state)?;
    let mut loads = session.engine.loads().list();
    loads.retain(|load| load.header.database == database);
    let labelled = labelled(session, database, &loads).await?;
    for (attempt, status) in &labelled.others {
        if stream && *status != LabelStatus::Precommitted {
            continue;
        }
        let started = wall_clock_text(attempt.at_ms, &zone);
        let number = txn_number(attempt.txn).to_string();
        let progress = if *status == LabelStatus::Running { "0%" } else { "100%" };
        sheet.push([
            (&number).into(),
            (&attempt.label).into(),
            state_word(*status).into(),
            progress.into(),
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Null,
            started.clone(),
            started.clone(),
            started.clone(),
            started,
            Cell::Null,
            Cell::Null,
            Cell::Null,
            (&number).into(),
            "{}".into(),
            Cell::Null,
            Cell::Null,
        ]);
    }
    for load in loads {
        let header = &load.header;
        // A load that was refused because another load has its label is not a load of its own.
        if load.is_repeat() || stream && header.kind != LoadKind::Stream {
            continue;
        }
        if !access::sees_loads(&rights, &state, &header.database, &header.table) {
            continue;
        }
        let started = wall_clock_text(millis(load.started), &zone);
        let ended = load.ended.as_ref().map_or(Cell::Null, |end| wall_clock_text(millis(end.at), &zone));
        let answer = load.ended.as_ref().map(|end| &end.answer);
        let error = answer.map(|a| a.message.clone()).filter(|m| m != "OK");
        let log = answer.and_then(|a| a.error_log.as_ref()).map(|name| format!("/api/_load_error_log?file={name}"));
        let progress = if load.ended.is_some() { "100%" } else { "0%" };
        sheet.push([
            load.id.to_string().into(),
            (&load.header.label).into(),
            labelled.state(&load).into(),
            progress.into(),
            load.header.kind.name().into(),
            Cell::Null,
            Cell::Null,
            error.into(),
            started.clone(),
            started.clone(),
            started.clone(),
            started,
            ended,
            log.into(),
            load.profile().to_string().into(),
            load.txn().map(|t| txn_number(t).to_string()).into(),
            "{}".into(),
            (&load.header.user).into(),
            (&load.header.comment).into(),
        ]);
    }
    Ok(sheet)
}

/// Runs SHOW LOAD WARNINGS ON 'url': returns the rejected rows behind an error URL, whatever host it names.
pub(super) async fn load_warnings(session: &Session, url: &str) -> Result<Sheet> {
    let name = url.rsplit_once("file=").map_or(url, |(_, name)| name);
    let log = session.engine.load_error_log(name).await?.ok_or_else(|| {
        EngineError::invalid(format!("no log of rejected rows at '{url}'; they are kept for 48 hours"))
    })?;
    let mut sheet = Sheet::texts(&["JobId", "Label", "ErrorMsgDetail"]);
    for line in String::from_utf8_lossy(&log).split_inclusive("; \n") {
        sheet.push(["-1".into(), Cell::Null, line.trim_end().into()]);
    }
    Ok(sheet)
}

/// Runs SHOW LOAD WARNINGS [FROM db]: returns the rejected rows of the loads that this process has records of.
pub(super) async fn load_warnings_of(session: &Session, from: Option<&Name>) -> Result<Sheet> {
    let database = database_of(session, from, "SHOW LOAD WARNINGS")?;
    let mut sheet = Sheet::texts(&["JobId", "Label", "ErrorMsgDetail"]);
    let state = session.engine.catalog.snapshot();
    let rights = session.rights(&state)?;
    let sees = |header: &LoadHeader| {
        header.database == database && access::sees_loads(&rights, &state, database, &header.table)
    };
    for load in session.engine.loads().list().into_iter().filter(|l| sees(&l.header)) {
        let Some(name) = load.ended.as_ref().and_then(|end| end.answer.error_log.clone()) else { continue };
        // Logs are kept for 48 hours, the records of loads for longer.
        let Some(log) = session.engine.load_error_log(&name).await? else { continue };
        for line in String::from_utf8_lossy(&log).split_inclusive("; \n") {
            sheet.push([load.id.to_string().into(), (&load.header.label).into(), line.trim_end().into()]);
        }
    }
    Ok(sheet)
}
