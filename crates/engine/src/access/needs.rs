//! Which privileges a statement needs before it does anything.
//!
//! No statement is met by a wildcard: for a new one the compiler asks what it needs.

use dipper_base::names::CATALOG;
use dipper_dialect::statement::{
    ConstraintKind, DatabaseAlteration, DescribeTarget, Maintenance, MergeAction, Name, ObjectKind, Show, ShowKind,
    Statement, TableChange,
};
use dipper_store::catalog::CatalogState;
use dipper_store::catalog::access::Privileges;

use super::{Object, check, check_seen};
use crate::error::Result;
use crate::session::Session;

/// One requirement of a statement.
#[derive(Debug)]
enum Need {
    /// All of these privileges on the object.
    All(Privileges, Object),
    /// Any privilege on the object: the statement reads its definition.
    Seen(Object),
    /// Any privilege on the object, and SHOW VIEW if it is a view: its text may reveal what the user may not see.
    Definition(Object),
}

/// Refuses a statement that the user may not run. The tables that a query reads are checked when they are looked up.
///
/// # Errors
/// MySQL's error for the first privilege that is missing.
pub(crate) async fn guard(session: &Session, statement: &Statement) -> Result<()> {
    let mut needs = Vec::new();
    collect(session, statement, &mut needs);
    if needs.is_empty() {
        return Ok(());
    }
    // An administrator may do everything, whatever the names stand for by now.
    let known = session.rights(&session.engine.catalog.snapshot())?;
    if known.on_all().contains(Privileges::ADMIN) {
        return Ok(());
    }
    let state = session.engine.catalog.refresh().await?;
    let rights = session.rights(&state)?;
    for need in &needs {
        match need {
            Need::All(privileges, object) => check(&rights, &state, *privileges, object)?,
            Need::Seen(object) => check_seen(&rights, &state, "SHOW", object)?,
            Need::Definition(object) => {
                check_seen(&rights, &state, "SHOW", object)?;
                if is_view(&state, object) {
                    check(&rights, &state, Privileges::SHOW_VIEW, object)?;
                }
            }
        }
    }
    Ok(())
}

fn is_view(state: &CatalogState, object: &Object) -> bool {
    match object {
        Object::Table(database, name) => state.table(database, name).is_some_and(|t| t.as_view().is_some()),
        _ => false,
    }
}

/// Returns the object that a name stands for; `None` if no database is selected, which the statement itself refuses.
fn table(session: &Session, name: &Name) -> Option<Object> {
    let database = name.database().or(session.database())?;
    if let Some(catalog) = external(session, name.catalog(), database) {
        return Some(Object::External(catalog, database.to_string(), Some(name.object().to_string())));
    }
    Some(Object::Table(database.to_string(), name.object().to_string()))
}

/// Returns the external catalog of a database, by the catalog that is written or else the selected one; `None` for
/// dipper's own.
fn external(session: &Session, written: Option<&str>, database: &str) -> Option<String> {
    let catalog = written.unwrap_or(session.catalog());
    let internal = crate::catalogs::is_internal(catalog) || crate::info_schema::is_everywhere(database);
    (!internal).then(|| catalog.to_string())
}

/// Returns the database that contains a name.
fn around(session: &Session, name: &Name) -> Option<Object> {
    table(session, name).map(|object| match object {
        Object::Table(database, _) => Object::Database(database),
        Object::External(catalog, database, _) => Object::External(catalog, database, None),
        other => other,
    })
}

fn database(session: &Session, name: &Name) -> Object {
    match external(session, name.database(), name.object()) {
        Some(catalog) => Object::External(catalog, name.object().to_string(), None),
        None => Object::Database(name.object().to_string()),
    }
}

fn collect(session: &Session, statement: &Statement, needs: &mut Vec<Need>) {
    let mut all = |privileges: Privileges, object: Option<Object>| {
        needs.extend(object.map(|object| Need::All(privileges, object)));
    };
    let table = |name: &Name| table(session, name);
    let around = |name: &Name| around(session, name);
    let database = |name: &Name| database(session, name);
    match statement {
        // The tables of these are checked when they are looked up.
        Statement::Query(_) | Statement::SelectIntoVariables { .. } | Statement::Do(_) => {}
        Statement::Explain { statement, .. } => collect(session, statement, needs),
        Statement::Insert(insert) => {
            let mut privileges = Privileges::INSERT;
            if insert.overwrite || insert.replace {
                privileges |= Privileges::DELETE;
            }
            if !insert.on_duplicate.is_empty() {
                privileges |= Privileges::UPDATE;
            }
            all(privileges, table(&insert.table));
        }
        Statement::LoadData(load) => {
            all(Privileges::INSERT, table(&load.table));
            if !load.local {
                all(Privileges::FILE, Some(Object::All));
            }
        }
        Statement::InsertIntoFiles { .. } | Statement::SelectIntoOutfile(_) | Statement::CopyTo { .. } => {
            all(Privileges::FILE, Some(Object::All));
        }
        Statement::Update(update) => all(Privileges::UPDATE, table(&update.table)),
        Statement::Delete(delete) => all(Privileges::DELETE, table(&delete.table)),
        Statement::Merge(merge) => {
            for clause in &merge.clauses {
                let privileges = match clause.action {
                    MergeAction::Update(_) => Privileges::UPDATE,
                    MergeAction::Delete => Privileges::DELETE,
                    MergeAction::Insert { .. } => Privileges::INSERT,
                };
                all(privileges, table(&merge.table));
            }
        }
        Statement::Truncate { name, .. } => all(Privileges::DELETE, table(name)),
        Statement::CreateExternalTable(create) => {
            all(Privileges::CREATE, around(&create.name));
            all(Privileges::FILE, Some(Object::All));
            if create.query.is_some() {
                all(Privileges::INSERT, around(&create.name));
            }
        }
        Statement::CreateTable(create) => {
            all(Privileges::CREATE, around(&create.name));
            if create.or_replace {
                all(Privileges::DROP, table(&create.name));
            }
            if create.query.is_some() {
                all(Privileges::INSERT, around(&create.name));
            }
        }
        Statement::CreateTableLike { name, like, .. } => {
            all(Privileges::CREATE, around(name));
            all(Privileges::SELECT, table(like));
        }
        Statement::CreateIndex(create) => all(Privileges::ALTER, table(&create.table)),
        Statement::DropIndex { table: name, .. } | Statement::BuildIndex { table: name, .. } => {
            all(Privileges::ALTER, table(name));
        }
        Statement::CreateView(create) => {
            all(Privileges::CREATE_VIEW, around(&create.name));
            if create.or_replace {
                all(Privileges::DROP, table(&create.name));
            }
        }
        Statement::AlterView { name, .. } => all(Privileges::ALTER, table(name)),
        Statement::CreateDatabase { name, .. } => {
            let catalog = external(session, name.database(), name.object()).unwrap_or_else(|| CATALOG.to_string());
            all(Privileges::CREATE, Some(Object::Catalog(catalog)));
        }
        Statement::AlterDatabase { name, change } => {
            all(Privileges::ALTER, Some(database(name)));
            // As with tables, the old name is dropped and the new one created.
            if matches!(change, DatabaseAlteration::Rename(_)) {
                all(Privileges::DROP, Some(database(name)));
                all(Privileges::CREATE, Some(Object::Catalog(CATALOG.to_string())));
            }
        }
        Statement::Drop { kind, names, .. } => {
            for name in names {
                all(Privileges::DROP, if *kind == ObjectKind::Database { Some(database(name)) } else { table(name) });
            }
        }
        // As in MySQL, the old name is dropped, and the new one is created with its rows.
        Statement::RenameTables(pairs) => {
            for (from, to) in pairs {
                all(Privileges::ALTER | Privileges::DROP, table(from));
                all(Privileges::CREATE | Privileges::INSERT, around(to));
            }
        }
        Statement::AlterTable { name, changes, .. } => {
            all(Privileges::ALTER, table(name));
            for change in changes {
                match change {
                    // As in MySQL, the old name is dropped, and the new one is created with its rows.
                    TableChange::Rename(to)
                        if to.database().is_some_and(|d| Some(d) != name.database().or(session.database())) =>
                    {
                        all(Privileges::DROP, table(name));
                        all(Privileges::CREATE | Privileges::INSERT, around(to));
                    }
                    // The files in the location may belong to anybody.
                    TableChange::SetLocation(_) | TableChange::AddPartition { location: Some(_), .. } => {
                        all(Privileges::FILE, Some(Object::All));
                    }
                    TableChange::ReplaceWith { table: with, .. } => {
                        all(Privileges::DROP, table(name));
                        all(Privileges::ALTER | Privileges::DROP, table(&beside(name, with)));
                    }
                    TableChange::AddConstraint(constraint) => {
                        if let ConstraintKind::Foreign { table: referenced, .. } = &constraint.kind {
                            all(Privileges::SELECT, table(&beside(name, referenced)));
                        }
                    }
                    TableChange::Rename(_)
                    | TableChange::AddPartition { location: None, .. }
                    | TableChange::DropPartition { .. }
                    | TableChange::AddNamedPartition { .. }
                    | TableChange::DropNamedPartition { .. }
                    | TableChange::RenamePartition { .. }
                    | TableChange::ReplacePartitions { .. }
                    | TableChange::ModifyPartitions { .. }
                    | TableChange::Distribution(_)
                    | TableChange::AddColumns { .. }
                    | TableChange::ModifyColumn { .. }
                    | TableChange::ReplaceColumns(_)
                    | TableChange::DropColumn(_)
                    | TableChange::RenameColumn { .. }
                    | TableChange::OrderColumns(_)
                    | TableChange::CommentColumn { .. }
                    | TableChange::SetDefault { .. }
                    | TableChange::RenameIndex { .. }
                    | TableChange::EnableFeature { .. }
                    | TableChange::AddIndex { .. }
                    | TableChange::DropIndex { .. }
                    | TableChange::AddRollup(_)
                    | TableChange::DropRollup { .. }
                    | TableChange::RenameRollup { .. }
                    | TableChange::DropConstraint { .. }
                    | TableChange::Compact { .. }
                    | TableChange::SetProperties(_)
                    | TableChange::UnsetProperties(_)
                    | TableChange::SetSerdeProperties(_)
                    | TableChange::RecoverPartitions
                    | TableChange::Comment(_) => {}
                }
            }
        }
        Statement::MsckRepair { name, .. } => all(Privileges::ALTER, table(name)),
        Statement::Maintain { work, tables } => {
            let privileges = match work {
                Maintenance::Check | Maintenance::Checksum { .. } => Privileges::SELECT,
                Maintenance::Optimize | Maintenance::Repair => Privileges::SELECT | Privileges::INSERT,
            };
            tables.iter().for_each(|name| all(privileges, table(name)));
        }
        Statement::Analyze { kind, name, more, .. } => {
            let object = if *kind == ObjectKind::Database { Some(database(name)) } else { table(name) };
            all(Privileges::SELECT, object);
            more.iter().for_each(|name| all(Privileges::SELECT, table(name)));
        }
        Statement::DropStats { name, .. } | Statement::CancelAlter { name } => all(Privileges::ALTER, table(name)),
        Statement::CleanLabel { database: name, .. } => all(Privileges::INSERT, Some(database(name))),
        Statement::CancelLoad { database: name, .. } => {
            let selected = session.database().map(|d| Object::Database(d.to_string()));
            all(Privileges::INSERT, name.as_ref().map(database).or(selected));
        }
        Statement::Show(show) => shown(session, show, needs),
        Statement::Describe { target: DescribeTarget::Table { name, .. }, .. } => {
            needs.extend(table(name).map(Need::Seen));
        }
        // Statements about the session itself, statements that check rights while they run (USE, SET, KILL, GRANT...),
        // and statements that do nothing.
        Statement::Describe { target: DescribeTarget::Query(_), .. }
        | Statement::Use(_)
        | Statement::SwitchCatalog(_)
        | Statement::Set(_)
        | Statement::Unset { .. }
        | Statement::Begin { .. }
        | Statement::Commit { .. }
        | Statement::Rollback { .. }
        | Statement::Savepoint(_)
        | Statement::RollbackTo(_)
        | Statement::ReleaseSavepoint(_)
        | Statement::Kill { .. }
        | Statement::LockTables(_)
        | Statement::UnlockTables
        | Statement::DropNothing { .. }
        | Statement::Flush(_)
        | Statement::Refresh { .. }
        | Statement::Sync
        | Statement::Prepare { .. }
        | Statement::Execute { .. }
        | Statement::Deallocate(_)
        | Statement::Help(_)
        | Statement::Access(_) => {}
        Statement::CreateFunction(_)
        | Statement::DropFunction(_)
        | Statement::CreateCatalog { .. }
        | Statement::AlterCatalog { .. }
        | Statement::DropCatalog { .. }
        | Statement::CreateVolume { .. }
        | Statement::AlterVolume { .. }
        | Statement::DropVolume { .. }
        | Statement::DefaultVolume(_)
        | Statement::CacheSelect { .. }
        | Statement::AdminSetConfig { .. }
        | Statement::CleanProfiles
        | Statement::Backup(_)
        | Statement::Restore(_)
        | Statement::Recover { .. } => all(Privileges::ADMIN, Some(Object::All)),
    }
}

/// Returns the name of another table, which is in the database of the first one if it names none.
fn beside(name: &Name, other: &Name) -> Name {
    let before = if other.database().is_some() { &[][..] } else { &name.0[..name.0.len() - 1] };
    Name(before.iter().chain(&other.0).cloned().collect())
}

fn shown(session: &Session, show: &Show, needs: &mut Vec<Need>) {
    let table = |name: &Name| table(session, name);
    let database = |name: &Name| database(session, name);
    let selected = || session.database().map(|d| database(&Name(vec![d.to_string()])));
    match &show.kind {
        ShowKind::Databases { from: Some(catalog) } if !crate::catalogs::is_internal(catalog.object()) => {
            needs.push(Need::Seen(Object::Catalog(catalog.object().to_string())));
        }
        ShowKind::Catalog(name) | ShowKind::CreateCatalog(name) if !crate::catalogs::is_internal(name) => {
            needs.push(Need::Seen(Object::Catalog(name.clone())));
        }
        ShowKind::Tables { from, .. }
        | ShowKind::Views { from }
        | ShowKind::TableStatus { from }
        | ShowKind::DynamicPartitions(from)
        | ShowKind::TemporaryTables(from)
        | ShowKind::Load { from, .. }
        | ShowKind::LoadWarnings { from, .. }
        | ShowKind::Transaction { from, .. }
        | ShowKind::AlterTable { from, .. } => {
            needs.extend(from.as_ref().map(database).or_else(selected).map(Need::Seen));
        }
        ShowKind::CreateFunction(function) if !function.global => {
            needs.extend(around(session, &function.name).map(Need::Seen));
        }
        ShowKind::CreateDatabase(name) => needs.push(Need::Seen(database(name))),
        ShowKind::CreateTable(name)
        | ShowKind::CreateView(name)
        | ShowKind::CreateMaterializedView { table: None, name }
        | ShowKind::CreateMaterializedView { table: Some(name), .. } => needs.extend(table(name).map(Need::Definition)),
        ShowKind::Columns { table: name, .. }
        | ShowKind::Index(name)
        | ShowKind::ViewsOver(name)
        | ShowKind::Constraints(name)
        | ShowKind::Partitions { table: name, .. }
        | ShowKind::Tablets { table: name, .. }
        | ShowKind::DataSkew { table: name, .. }
        | ShowKind::Data { table: Some(name), .. }
        | ShowKind::TableStats(name)
        | ShowKind::ColumnStats { table: name, .. }
        | ShowKind::Replicas { table: name, .. } => needs.extend(table(name).map(Need::Seen)),
        // About the server, about the session, or lists that leave out what is not to be seen.
        ShowKind::Databases { .. }
        | ShowKind::Catalog(_)
        | ShowKind::CreateCatalog(_)
        | ShowKind::Proc(_)
        | ShowKind::Tablet(_)
        | ShowKind::Partition(_)
        | ShowKind::Data { table: None, .. }
        | ShowKind::Config { .. }
        | ShowKind::Variables(_)
        | ShowKind::VerboseVariables
        | ShowKind::Status(_)
        | ShowKind::Processlist { .. }
        | ShowKind::Warnings { .. }
        | ShowKind::Errors { .. }
        | ShowKind::Engines
        | ShowKind::Charset
        | ShowKind::Collation
        | ShowKind::Plugins
        | ShowKind::Privileges
        | ShowKind::Grants { .. }
        | ShowKind::RoleGrants(_)
        | ShowKind::Authentication { .. }
        | ShowKind::Roles
        | ShowKind::CreateUser(_)
        | ShowKind::Properties { .. }
        | ShowKind::Functions { .. }
        | ShowKind::CreateFunction(_)
        | ShowKind::Triggers
        | ShowKind::Events
        | ShowKind::ProcedureStatus
        | ShowKind::OpenTables
        | ShowKind::Catalogs
        | ShowKind::Volumes
        | ShowKind::Volume(_)
        | ShowKind::Backends
        | ShowKind::Frontends
        | ShowKind::ProfileSteps(_)
        | ShowKind::Profile { .. }
        | ShowKind::Other(_) => {}
    }
}
