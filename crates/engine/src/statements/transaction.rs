//! BEGIN, COMMIT, ROLLBACK and savepoints.
//!
//! After BEGIN, the INSERTs, UPDATEs, DELETEs and MERGEs of one table take effect together or not at all; see
//! [`dipper_ingest::uncommitted`]. As in Doris, `SET autocommit = 0` does not begin a transaction: many drivers send
//! it, and most of their users never send COMMIT. Every statement outside of BEGIN takes effect on its own, and a
//! ROLLBACK that cannot take rows back says so (warning 1196). Statements on temporary tables also take effect at once
//! within a transaction, when these are created, filled or dropped.

use dipper_dialect::statement::{Assignment, Name, ObjectKind, SetValue, Statement};
use dipper_ingest::answer::txn_number;
use dipper_ingest::records::{LoadHeader, LoadKind};
use dipper_ingest::uncommitted::Uncommitted;
use dipper_sql::charter::table_refs;
use dipper_store::catalog::Table as CatalogTable;

use super::{native, qualified, writes};
use crate::error::{EngineError, Result};
use crate::result::{Done, Outcome};
use crate::session::Session;
use crate::transaction::Transaction;

/// `ER_WARNING_NOT_COMPLETE_ROLLBACK`.
const NOT_ROLLED_BACK: u16 = 1196;

impl Session {
    /// Begins a transaction of this label, as BEGIN WITH LABEL does.
    pub(crate) fn begin_labelled(&mut self, label: &str) {
        self.in_transaction = true;
        self.transaction = Transaction { label: Some(label.to_string()), ..Transaction::default() };
    }

    /// Ends the transaction, if there is one, and returns its uncommitted writes to the caller, who commits or prepares
    /// them.
    pub(crate) fn take_written(&mut self) -> Option<Box<Uncommitted>> {
        over(self, false)
    }
}

pub(super) async fn begin(session: &mut Session, reads_only: bool, label: Option<&str>) -> Result<Outcome> {
    if let Some(label) = label {
        dipper_ingest::request::label(label).map_err(|e| EngineError::invalid(e.to_string()))?;
    }
    // SET TRANSACTION READ ONLY applied to this transaction.
    let reads_only = reads_only || session.reads_only && !session.in_transaction;
    // As in MySQL, BEGIN commits the open transaction.
    commit(session, false).await?;
    session.reads_only = reads_only;
    session.in_transaction = true;
    session.transaction.label = label.map(str::to_string);
    let label = label.unwrap_or_default();
    Ok(told(format!("{{'label':'{label}', 'status':'PREPARE', 'txnId':''}}")))
}

fn told(info: String) -> Outcome {
    Outcome::Done(Done { info, ..Done::default() })
}

/// Ends the session's transaction and returns its uncommitted writes.
fn over(session: &mut Session, chain: bool) -> Option<Box<Uncommitted>> {
    session.reads_only &= chain;
    session.in_transaction = chain;
    session.wrote_alone = false;
    std::mem::take(&mut session.transaction).written
}

pub(super) async fn commit(session: &mut Session, chain: bool) -> Result<Outcome> {
    let Some(written) = over(session, chain) else { return Ok(Outcome::ok()) };
    let (label, number) = (written.label.clone(), txn_number(written.txn()));
    written.commit().await?;
    Ok(told(format!("{{'label':'{label}', 'status':'VISIBLE', 'txnId':'{number}'}}")))
}

pub(super) async fn rollback(session: &mut Session, chain: bool) -> Result<Outcome> {
    warn_of_alone(session);
    if let Some(written) = over(session, chain) {
        written.roll_back().await;
    }
    Ok(Outcome::ok())
}

/// Warns that rows which statements wrote outside of the transaction stay.
fn warn_of_alone(session: &mut Session) {
    if session.wrote_alone {
        session.warn(NOT_ROLLED_BACK, "Some non-transactional changed tables couldn't be rolled back");
    }
}

/// Runs SAVEPOINT. An earlier savepoint of the same name is dropped.
pub(super) async fn savepoint(session: &mut Session, name: &str) -> Result<Outcome> {
    if session.in_transaction {
        let Transaction { written, savepoints, .. } = &mut session.transaction;
        let mark = match written {
            Some(written) => Some(written.mark().await?),
            None => None,
        };
        savepoints.retain(|(there, _)| !there.eq_ignore_ascii_case(name));
        savepoints.push((name.to_string(), mark));
    }
    Ok(Outcome::ok())
}

/// Returns the position of a savepoint among those of the transaction.
fn place_of(session: &Session, name: &str) -> Result<usize> {
    let known = session.transaction.savepoints.iter().position(|(there, _)| there.eq_ignore_ascii_case(name));
    known.ok_or_else(|| EngineError { code: 1305, ..EngineError::invalid(format!("SAVEPOINT {name} does not exist")) })
}

/// Runs RELEASE SAVEPOINT: the writes stay, and later savepoints are dropped as well.
pub(super) fn release(session: &mut Session, name: &str) -> Result<Outcome> {
    if session.in_transaction {
        let at = place_of(session, name)?;
        session.transaction.savepoints.truncate(at);
    }
    Ok(Outcome::ok())
}

/// Runs ROLLBACK TO SAVEPOINT: the transaction continues without the writes since the savepoint.
pub(super) async fn rollback_to(session: &mut Session, name: &str) -> Result<Outcome> {
    if !session.in_transaction {
        warn_of_alone(session);
        return Ok(Outcome::ok());
    }
    let at = place_of(session, name)?;
    let Transaction { written, savepoints, .. } = &mut session.transaction;
    savepoints.truncate(at + 1);
    if let (Some(written), Some((_, mark))) = (written, savepoints.last()) {
        written.back_to(mark.as_ref()).await?;
    }
    Ok(Outcome::ok())
}

/// Refuses statements that cannot be taken back, in Doris's words, and computes the state that includes earlier writes
/// of the transaction if the statement reads tables. A transaction without writes and label ends before a statement
/// that cannot be taken back, as every transaction does in MySQL: tools that change schemas send BEGIN before all they
/// do. INSERT OVERWRITE is always refused, because it replaces rows: ROLLBACK would have to bring them back.
pub(super) async fn admit(session: &mut Session, statement: &Statement) -> Result<()> {
    if let Err(refused) = check(session, statement) {
        let overwrites = matches!(statement, Statement::Insert(insert) if insert.overwrite);
        if overwrites || session.transaction.has_written() || session.transaction.label.is_some() || session.wrote_alone
        {
            return Err(refused);
        }
        commit(session, false).await?;
        return Ok(());
    }
    if sees(session, statement) && session.transaction.has_written() {
        session.transaction.written()?.seen().await?;
    }
    Ok(())
}

/// Refuses a statement in a transaction that is neither a query nor changes rows by INSERT, UPDATE, DELETE or MERGE.
///
/// # Errors
/// `Invalid`, in Doris's words; `Unsupported` for INSERT OVERWRITE.
pub(crate) fn check(session: &Session, statement: &Statement) -> Result<()> {
    let refused = match statement {
        Statement::Insert(insert) if insert.overwrite && session.in_transaction => {
            return Err(EngineError::unsupported(
                "INSERT OVERWRITE in a transaction is not supported: it takes effect at once and cannot be rolled back; COMMIT or ROLLBACK first",
            ));
        }
        Statement::Insert(_) => false,
        Statement::Update(_) | Statement::Delete(_) | Statement::Merge(_) => false,
        Statement::CreateCatalog { .. }
        | Statement::AlterCatalog { .. }
        | Statement::DropCatalog { .. }
        | Statement::CreateVolume { .. }
        | Statement::AlterVolume { .. }
        | Statement::DropVolume { .. }
        | Statement::DefaultVolume(_)
        | Statement::Access(_) => true,
        Statement::CreateTable(create) => !create.temporary,
        Statement::CreateTableLike { temporary, .. } => !temporary,
        Statement::Drop { kind: ObjectKind::Table, names, .. } => !names.iter().all(|name| is_temporary(session, name)),
        other => writes(other),
    };
    if !session.in_transaction || !refused {
        return Ok(());
    }
    Err(EngineError::invalid(
        "This is in a transaction, only insert, update, delete, commit, rollback is acceptable. COMMIT or ROLLBACK first",
    ))
}

/// Whether a name is that of a temporary table of the session.
fn is_temporary(session: &Session, name: &Name) -> bool {
    let found = qualified(session, name).is_ok_and(|(db, table)| session.temporaries.hidden(&db, &table).is_some());
    found && name.catalog().is_none_or(crate::catalogs::is_internal)
}

/// Whether a statement reads tables, or may read them.
fn sees(session: &Session, statement: &Statement) -> bool {
    match statement {
        Statement::Insert(insert) => {
            let is_partial = (insert.by_name || !insert.columns.is_empty())
                && session.variables.flag("enable_unique_key_partial_update");
            insert.ignore || is_partial || !insert.on_duplicate.is_empty() || !table_refs(&insert.source).is_empty()
        }
        Statement::Query(query) | Statement::SelectIntoVariables { source: query, .. } => !table_refs(query).is_empty(),
        Statement::Set(assignments) => assignments.iter().any(|assignment| {
            let value = match assignment {
                Assignment::Variable { value, .. } | Assignment::User { value, .. } => Some(value),
                _ => None,
            };
            matches!(value, Some(SetValue::Query(_)))
        }),
        Statement::Show(_)
        | Statement::Describe { .. }
        | Statement::Begin { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint(_)
        | Statement::ReleaseSavepoint(_)
        | Statement::RollbackTo(_)
        | Statement::Prepare { .. }
        | Statement::Execute { .. }
        | Statement::Use(_) => false,
        _ => true,
    }
}

/// Makes what a statement writes to a table part of the session's transaction. Returns false if there is no
/// transaction, and for temporary tables: no other session sees their rows, and a transaction may write to several of
/// them.
///
/// # Errors
/// `Unsupported` (1235) if the transaction has written to another table; an error with `LabelUsed` as its source if
/// another load has its label.
pub(in crate::statements) async fn enter(session: &mut Session, database: &str, table: &CatalogTable) -> Result<bool> {
    if !session.in_transaction {
        return Ok(false);
    }
    if session.temporaries.hidden(database, &table.name).is_some() {
        session.wrote_alone = true;
        return Ok(false);
    }
    if let Some(written) = &session.transaction.written {
        if written.table().id() == table.id {
            return Ok(true);
        }
        if !written.is_empty() {
            return Err(EngineError::unsupported(format!(
                "a transaction writes to one table, and this one has written to '{}'; COMMIT it before writing to '{database}.{}'",
                session.transaction.place, table.name
            )));
        }
        if let Some(written) = session.transaction.written.take() {
            written.roll_back().await;
        }
    }
    let handle = session.engine.native.get(table.id).await?;
    let base = handle.follow().await?;
    let txn = handle.begin();
    let named = session.transaction.label.clone();
    let held = match &named {
        Some(label) => Some(native::acquire(session, database, table.id, label, txn).await?),
        None => None,
    };
    let label = named.unwrap_or_else(|| format!("txn_insert_{txn}"));
    // A transaction that reads the body of a request is the load of that request, which has a record already.
    let record = session.body.is_none().then(|| {
        session.engine.loads.records.begin(LoadHeader {
            kind: LoadKind::Insert,
            user: session.client.user.clone(),
            client: session.client.host.clone(),
            database: database.into(),
            table: table.name.clone(),
            label: label.clone(),
            comment: String::new(),
        })
    });
    let written = Uncommitted::new(&session.engine.loads, handle, base, txn, (label, held), record);
    session.transaction.written = Some(Box::new(written));
    session.transaction.place = format!("{database}.{}", table.name);
    // Earlier savepoints lead back to a transaction that has written nothing.
    session.transaction.savepoints.iter_mut().for_each(|(_, mark)| *mark = None);
    Ok(true)
}
