//! The statements: [`run`] dispatches each kind to the function that executes it.

mod access;
mod assigned;
mod catalogs;
mod ddl;
mod describe;
mod explain;
mod export;
mod found_rows;
mod functions;
mod help;
mod insert;
mod native;
mod partitions;
mod prepare;
mod set;
mod show;
mod table_properties;
mod transaction;
mod volumes;

use dipper_base::names;
use dipper_dialect::statement::{Insert, Name, Parsed, QueryText, Statement};
use dipper_exec::on_cpu::on_cpu;
pub(crate) use native::now;
pub use show::like;
pub(crate) use transaction::check as check_transaction;

use std::borrow::Cow;
use std::collections::HashSet;

use dipper_sql::charter::session::VarValue;
use dipper_store::catalog::TableId;
use futures::StreamExt;
use futures::future::BoxFuture;
use sqlparser::ast;

use crate::access::Hourly;
use crate::catalogs::Place;
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};
use crate::process::Stop;
use crate::query;
use crate::result::{Column, Done, Outcome};
use crate::session::Session;
use dipper_variables::CATALOG;

/// `ER_UNKNOWN_ERROR`, the code of warnings that have no number of their own.
const WARNING: u16 = 1105;

/// Warns that a property that is not in `known` is stored and shown but has no effect.
fn warn_of_unknown<'a>(session: &mut Session, key: &str, known: impl IntoIterator<Item = &'a str>) {
    let near =
        dipper_base::near::closest(key, known).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
    session.warn(WARNING, format!("property '{key}' is unknown: it is kept and shown, and has no effect{near}"));
}

/// Runs a statement. The future is boxed here; otherwise the code of all statements would be compiled again in each
/// crate that awaits it.
pub(crate) fn run<'a>(
    session: &'a mut Session,
    source: &'a str,
    parsed: &'a Parsed,
    params: Vec<VarValue>,
) -> BoxFuture<'a, Result<Outcome>> {
    Box::pin(run_with_hints(session, source, parsed, params))
}

async fn run_with_hints(
    session: &mut Session,
    source: &str,
    parsed: &Parsed,
    params: Vec<VarValue>,
) -> Result<Outcome> {
    apply_hints(session, parsed)?;
    for note in &parsed.notes {
        session.note(WARNING, note);
    }
    let text = source.get(parsed.text.clone()).unwrap_or(source);
    run_statement(session, text, &parsed.statement, params).await
}

/// Sets the variables of `/*+ SET_VAR(...) */` for this statement. The session restores the old values when the
/// statement ends.
fn apply_hints(session: &mut Session, parsed: &Parsed) -> Result<()> {
    if parsed.hints.is_empty() {
        return Ok(());
    }
    if session.unhinted.is_none() {
        session.unhinted = Some(session.variables.clone());
    }
    for (name, value) in &parsed.hints {
        if name.eq_ignore_ascii_case(CATALOG) {
            return Err(EngineError::unsupported("SET_VAR(catalog = ...): write catalog.database.table"));
        }
        let warning = session.variables.set(name, value)?;
        session.warnings.extend(warning);
    }
    Ok(())
}

async fn run_statement(
    session: &mut Session,
    text: &str,
    statement: &Statement,
    params: Vec<VarValue>,
) -> Result<Outcome> {
    crate::access::guard(session, statement).await?;
    let checked = if writes(statement) { session.check_writes() } else { Ok(()) };
    // The statement that EXECUTE runs passes through this function itself.
    if !matches!(statement, Statement::Begin { .. } | Statement::Set(_) | Statement::Execute { .. }) {
        session.forget_reads_only();
    }
    checked?;
    if session.in_transaction {
        transaction::admit(session, statement).await?;
    }
    if writes(statement) {
        session.spend(Hourly::Updates)?;
    }
    if !params.is_empty()
        && !matches!(
            statement,
            Statement::Query(_)
                | Statement::SelectIntoVariables { .. }
                | Statement::Insert(_)
                | Statement::Update(_)
                | Statement::Delete(_)
                | Statement::Merge(_)
                | Statement::Explain { .. }
        )
    {
        return Err(EngineError::unsupported("this kind of statement takes no parameters (?)"));
    }
    match statement {
        Statement::Query(q) => {
            let (rows, warnings) = match (found_rows::is_asked(q), assigned::taken_out(q)?) {
                (_, Some((values, names))) => assigned::select(session, &values, names, params).await?,
                (true, None) => found_rows::select(session, q, &params).await?,
                (false, None) => {
                    if let Some(rows) = session.look_up(q, &params).await? {
                        return Ok(Outcome::Rows(rows));
                    }
                    session.run_query(&limited(session, q), params).await?
                }
            };
            for warning in warnings {
                session.warn(WARNING, warning);
            }
            Ok(Outcome::Rows(rows))
        }
        Statement::SelectIntoVariables { source, names } => {
            assigned::into_variables(session, source, names, params).await
        }
        Statement::Do(q) => {
            let context = session.query_context_for(q).await?;
            query::drain(query::run(context, q.clone(), Vec::new()).await?.0).await?;
            Ok(Outcome::ok())
        }
        Statement::Explain { analyze, verbose, format, statement } => {
            explain::explain(session, statement, *analyze, *verbose, format.as_deref(), params).await
        }
        Statement::Insert(insert) => insert::insert(session, insert, params).await,
        Statement::LoadData(load) => crate::load::infile::load_file(session, load).await,
        Statement::InsertIntoFiles { properties, source } => {
            export::insert_into_files(session, properties, source).await
        }
        Statement::SelectIntoOutfile(outfile) => export::into_outfile(session, outfile).await,
        Statement::CopyTo { source, path, options } => export::copy_to(session, source, path, options).await,
        Statement::CreateExternalTable(create) => ddl::create_table(session, create, text).await,
        Statement::CreateTable(create) => native::create_table(session, create).await,
        Statement::CreateTableLike { name, like, if_not_exists, temporary, rollups } => {
            native::create_like(session, (name, *temporary), like, *if_not_exists, rollups).await
        }
        Statement::Update(update) => native::update(session, update, params).await,
        Statement::Delete(delete) => native::delete(session, delete, params).await,
        Statement::Merge(merge) => native::merge(session, merge, params).await,
        Statement::CreateView(create) => ddl::create_view(session, create, text).await,
        Statement::AlterView { name, change } => ddl::alter_view(session, name, change, text).await,
        Statement::CreateDatabase { name, if_not_exists, properties } => {
            ddl::create_database(session, name, *if_not_exists, properties).await
        }
        // FORCE and PURGE say that the table is not to go to a recycle bin; there is no recycle bin.
        Statement::Drop { kind, names, if_exists, force: _ } => ddl::drop(session, *kind, names, *if_exists).await,
        Statement::RenameTables(pairs) => ddl::rename_tables(session, pairs).await,
        Statement::AlterTable { name, if_exists, changes } => {
            ddl::alter_table(session, name, *if_exists, changes).await
        }
        Statement::CreateIndex(create) => native::create_index(session, create).await,
        Statement::DropIndex { name, table, if_exists } => native::drop_index(session, table, name, *if_exists).await,
        Statement::BuildIndex { name, table, partitions } => {
            native::build_index(session, name.as_deref(), table, partitions).await
        }
        Statement::CreateFunction(create) => functions::create(session, create).await,
        Statement::DropFunction(drop) => functions::drop(session, drop).await,
        Statement::DropNothing { kind } => {
            session.note(1105, format!("DROP {kind}: there are none, so nothing is dropped"));
            Ok(Outcome::ok())
        }
        Statement::MsckRepair { name, add, drop } => partitions::repair(session, name, *add, *drop).await,
        Statement::CreateCatalog { name, if_not_exists, comment, properties } => {
            catalogs::create(session, name, *if_not_exists, comment.as_deref(), properties).await
        }
        Statement::AlterDatabase { name, change } => ddl::alter_database(session, name, change).await,
        Statement::AlterCatalog { name, change } => catalogs::alter(session, name, change).await,
        Statement::DropCatalog { name, if_exists } => catalogs::drop(session, name, *if_exists).await,
        Statement::Refresh { kind, name } => catalogs::refresh(session, *kind, name).await,
        Statement::Show(show) => show::show(session, show).await,
        Statement::Describe { target, detail } => describe::describe(session, target, *detail).await,
        Statement::Use(name) => {
            session.use_database_of(name).await?;
            Ok(Outcome::ok())
        }
        Statement::SwitchCatalog(name) => catalogs::switch(session, name).await,
        Statement::Set(assignments) => set::set(session, assignments).await,
        Statement::Begin { read_only, label, .. } => transaction::begin(session, *read_only, label.as_deref()).await,
        Statement::Commit { chain, .. } => transaction::commit(session, *chain).await,
        Statement::Rollback { chain, .. } => transaction::rollback(session, *chain).await,
        Statement::Savepoint(name) => transaction::savepoint(session, name).await,
        Statement::ReleaseSavepoint(name) => transaction::release(session, name),
        Statement::RollbackTo(name) => transaction::rollback_to(session, name).await,
        Statement::Unset { scope, name } => set::unset(session, *scope, name.as_deref()).await,
        Statement::Kill { query, id } => kill(session, *query, id),
        // A statement never sees half of another statement's change, so a lock would add nothing.
        Statement::LockTables(_) | Statement::UnlockTables => Ok(Outcome::ok()),
        Statement::Flush(_) => Ok(Outcome::ok()),
        Statement::Sync => {
            session.engine.catalog.refresh().await?;
            sync(&session.engine).await?;
            Ok(Outcome::ok())
        }
        Statement::Prepare { name, source } => prepare::prepare(session, name, source),
        Statement::Execute { name, using } => prepare::execute(session, name, using).await,
        Statement::Deallocate(name) => prepare::deallocate(session, name),
        Statement::Truncate { name, partitions } => native::truncate(session, name, partitions).await,
        Statement::Analyze { kind, name, more, columns } => {
            for other in more {
                native::analyze(session, *kind, other, &[]).await?;
            }
            native::analyze(session, *kind, name, columns).await
        }
        Statement::DropStats { name, .. } => Err(EngineError::unsupported(format!(
            "DROP STATS: statistics of '{name}' are part of what its loads wrote, and are always true"
        ))),
        Statement::AdminSetConfig { properties, .. } => {
            for (key, value) in properties {
                if key.eq_ignore_ascii_case("qe_max_connection") {
                    session.variables.set_global("max_connections", value)?;
                } else if !crate::point::configure(&session.engine, key, value)? {
                    session.warn(WARNING, format!("configuration '{key}' is unknown here, and has no effect"));
                }
            }
            Ok(Outcome::ok())
        }
        Statement::CancelAlter { name } => Err(EngineError::unsupported(format!(
            "there is no change of '{name}' to cancel: ALTER TABLE takes effect when it returns"
        ))),
        Statement::Access(statement) => access::run(session, statement).await,
        Statement::CleanProfiles => {
            session.engine.profiles().clear();
            Ok(Outcome::ok())
        }
        Statement::Help(topic) => help::help(session, topic),
        Statement::Maintain { work, tables } => native::maintain(session, *work, tables).await,
        Statement::CreateVolume { name, if_not_exists, kind, locations, comment, properties } => {
            let given = volumes::Given { kind, locations, comment: comment.as_ref(), properties };
            volumes::create(session, name, *if_not_exists, given).await
        }
        Statement::AlterVolume { name, if_exists, comment, properties } => {
            volumes::alter(session, name, *if_exists, comment.as_ref(), properties).await
        }
        Statement::DropVolume { name, if_exists } => volumes::drop_volume(session, name, *if_exists).await,
        Statement::DefaultVolume(name) => volumes::set_default(session, name).await,
        Statement::CacheSelect { query, properties } => volumes::cache_select(session, query, properties).await,
        Statement::Recover { name, .. } => Err(EngineError::unsupported(format!(
            "RECOVER of '{name}': what is dropped is gone, there is no recycle bin; `dipper restore` makes tables from a backup"
        ))),
        Statement::Backup(_) | Statement::Restore(_) => Err(EngineError::unsupported(
            "BACKUP and RESTORE are not statements here; use `dipper backup` and `dipper restore`, also while the server runs",
        )),
        Statement::CleanLabel { .. } => Err(EngineError::unsupported(
            "CLEAN LABEL: a label stays with the load that used it, so that no load is done twice; use another label",
        )),
        Statement::CancelLoad { .. } => Err(EngineError::unsupported(
            "CANCEL LOAD: a load ends with its connection; close that, or KILL its session",
        )),
    }
}

/// Whether a statement changes tables or their definitions. A READ ONLY transaction refuses these statements.
fn writes(statement: &Statement) -> bool {
    match statement {
        Statement::Insert(_)
        | Statement::Update(_)
        | Statement::Delete(_)
        | Statement::Merge(_)
        | Statement::LoadData(_)
        | Statement::Truncate { .. }
        | Statement::CreateExternalTable(_)
        | Statement::CreateTable(_)
        | Statement::CreateTableLike { .. }
        | Statement::CreateView(_)
        | Statement::AlterView { .. }
        | Statement::CreateDatabase { .. }
        | Statement::AlterDatabase { .. }
        | Statement::Drop { .. }
        | Statement::AlterTable { .. }
        | Statement::RenameTables(_)
        | Statement::CreateFunction(_)
        | Statement::DropFunction(_)
        | Statement::CreateIndex(_)
        | Statement::DropIndex { .. } => true,
        // DROP PARTITIONS removes partitions from the definition.
        Statement::MsckRepair { drop, .. } => *drop,
        Statement::Query(_)
        | Statement::SelectIntoVariables { .. }
        | Statement::InsertIntoFiles { .. }
        | Statement::SelectIntoOutfile(_)
        | Statement::CopyTo { .. }
        | Statement::Explain { .. }
        | Statement::BuildIndex { .. }
        | Statement::DropNothing { .. }
        | Statement::CreateCatalog { .. }
        | Statement::AlterCatalog { .. }
        | Statement::DropCatalog { .. }
        | Statement::CreateVolume { .. }
        | Statement::AlterVolume { .. }
        | Statement::DropVolume { .. }
        | Statement::DefaultVolume(_)
        | Statement::CacheSelect { .. }
        | Statement::Refresh { .. }
        | Statement::Show(_)
        | Statement::Describe { .. }
        | Statement::Use(_)
        | Statement::SwitchCatalog(_)
        | Statement::Set(_)
        | Statement::Begin { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Unset { .. }
        | Statement::Savepoint(_)
        | Statement::RollbackTo(_)
        | Statement::ReleaseSavepoint(_)
        | Statement::Kill { .. }
        | Statement::LockTables(_)
        | Statement::UnlockTables
        | Statement::Flush(_)
        | Statement::Analyze { .. }
        | Statement::DropStats { .. }
        | Statement::CleanLabel { .. }
        | Statement::CancelLoad { .. }
        | Statement::CancelAlter { .. }
        | Statement::AdminSetConfig { .. }
        | Statement::CleanProfiles
        | Statement::Backup(_)
        | Statement::Restore(_)
        | Statement::Recover { .. }
        | Statement::Sync
        | Statement::Prepare { .. }
        | Statement::Execute { .. }
        | Statement::Deallocate(_)
        | Statement::Do(_)
        | Statement::Help(_)
        | Statement::Maintain { .. }
        | Statement::Access(_) => false,
    }
}

/// Returns the columns of a statement's result; `None` if it returns no rows. SHOW, DESCRIBE and HELP are run for that.
pub(crate) fn describe<'a>(
    session: &'a mut Session,
    source: &'a str,
    parsed: &'a Parsed,
) -> BoxFuture<'a, Result<Option<Vec<Column>>>> {
    Box::pin(describe_planned(session, source, parsed))
}

async fn describe_planned(session: &mut Session, source: &str, parsed: &Parsed) -> Result<Option<Vec<Column>>> {
    match &parsed.statement {
        Statement::Query(q) => {
            let context = session.query_context_for(q).await?;
            let query = assigned::taken_out(q)?.map_or_else(|| q.clone(), |(values, _)| values);
            let threads = session.engine.short().clone();
            let placeholders = parsed.placeholders;
            let columns = on_cpu(&threads, async move {
                let planned = match query::plan(&context, &query, None).await {
                    // A `?` whose type does not follow from what is around it: NULL has every type.
                    Err(_) if placeholders > 0 => {
                        query::plan(&context, &query, Some(&vec![VarValue::Null; placeholders])).await
                    }
                    planned => planned,
                };
                Ok(planned?.columns())
            });
            Ok(Some(columns.await?))
        }
        // These statements only read: running them is the surest way to learn their columns.
        Statement::Show(_) | Statement::Describe { .. } | Statement::Help(_) => {
            match Box::pin(run(session, source, parsed, Vec::new())).await? {
                Outcome::Rows(rows) => Ok(Some(rows.columns)),
                Outcome::Done(_) => Ok(None),
            }
        }
        Statement::Explain { .. } => Ok(Some(vec![explain::column()])),
        Statement::Maintain { work, .. } => Ok(Some(native::maintenance_columns(*work)?)),
        _ => Ok(None),
    }
}

/// Adds the LIMIT of `sql_select_limit` and `default_order_by_limit` to a query that has no LIMIT of its own.
fn limited<'q>(session: &Session, query: &'q QueryText) -> Cow<'q, QueryText> {
    let open = query.ast.limit_clause.is_none() && query.ast.fetch.is_none();
    let quick = session.variables.quick();
    let ordered = quick.order_by_limit.filter(|_| query.ast.order_by.is_some());
    let limit = quick.select_limit.into_iter().chain(ordered).min();
    let Some(limit) = limit.filter(|_| open) else { return Cow::Borrowed(query) };
    let mut query = query.clone();
    let limit = ast::Expr::value(ast::Value::Number(limit.to_string(), false));
    query.ast.limit_clause =
        Some(ast::LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by: Vec::new() });
    Cow::Owned(query)
}

/// Returns the database and the object of a name in dipper's own catalog. A name without database means the selected
/// one.
///
/// # Errors
/// `Unsupported` if the name leads to an external catalog, which can only be read; `NoDatabaseSelected` if the name has
/// no database and none is selected; `Invalid` if there is no such catalog.
pub(crate) fn qualified(session: &Session, name: &Name) -> Result<(String, String)> {
    let state = session.engine.catalog.snapshot();
    let selected = session.catalog.as_deref();
    match crate::catalogs::place(&state, selected, session.database(), name)? {
        Place::Internal { database: Some(database) } => Ok((database, name.object().to_string())),
        Place::Internal { database: None } => Err(crate::catalogs::no_database_selected(name)),
        Place::External { catalog, .. } => Err(EngineError::unsupported(format!(
            "'{name}' is in the external catalog '{}', which can only be read; SWITCH {} or write {}.database.table",
            catalog.name,
            names::CATALOG,
            names::CATALOG
        ))),
    }
}

/// Makes a name of an object in dipper's own catalog that is valid whichever catalog is selected.
pub(crate) fn own_name(database: &str, object: &str) -> Name {
    Name([names::CATALOG, database, object].map(str::to_string).into())
}

/// Number of tables that SYNC refreshes at the same time.
const SYNCED_AT_ONCE: usize = 64;

/// Reads what other processes have committed to the open tables, and forgets the cached listings and metadata of
/// external data, so that later queries see all of that however stale their variables allow a state to be.
async fn sync(engine: &Engine) -> Result<()> {
    engine.stores.known().forget();
    engine.lake.forget();
    let state = engine.catalog.snapshot();
    let named: HashSet<TableId> = state.tables().map(|(_, table)| table.id).collect();
    let mut open = engine.native.open_tables();
    // A table that another process has dropped may be gone from the store.
    open.retain(|table| named.contains(&table.id()));
    let reads = open.into_iter().map(|table| async move { table.refresh().await });
    let all: Vec<_> = futures::stream::iter(reads).buffer_unordered(SYNCED_AT_ONCE).collect().await;
    for read in all {
        read?;
    }
    Ok(())
}

fn kill(session: &mut Session, query_only: bool, id: &str) -> Result<Outcome> {
    let number: u32 = id.parse().map_err(|_| {
        EngineError::new(ErrorKind::NoThread, format!("Unknown thread id: {id}; SHOW PROCESSLIST lists the ids"))
    })?;
    session.kill(number, if query_only { Stop::Query } else { Stop::Connection })?;
    Ok(Outcome::Done(Done::default()))
}

/// Whether a value that does not fit is an error; otherwise it becomes NULL.
fn is_strict(session: &Session, insert: &Insert) -> bool {
    !insert.ignore && session.variables.flag("enable_insert_strict")
}
