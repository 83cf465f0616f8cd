//! ALTER TABLE of native tables.
//!
//! - `columns.rs`: changes of columns
//! - `types.rs`: which type a column can change to
//! - `partitions.rs`: changes of partitions

mod columns;
mod partitions;
mod types;

pub(in crate::statements) use partitions::follow_name;

use std::sync::Arc;

use dipper_base::retry;
use dipper_dialect::parser::parse_type;
use dipper_dialect::statement::{ConstraintKind, CreateIndex, Name, Properties, TableChange};
use dipper_node::tables::alters::Alter;
use dipper_node::tables::{constraints, rules};
use dipper_store::catalog::{CatalogChange, Table as CatalogTable, TableId, TableKind};
use dipper_store::route::dynamic::DynamicPartition;
use dipper_store::table::schema::{Model, TableSchema};
use dipper_store::table::{Refused, TableChange as Change, TableError};

use super::{create, discard_missing, indexes, properties, rollups};
use crate::error::{EngineError, ErrorKind, Result};
use crate::result::Outcome;
use crate::session::Session;
use crate::statements::{ddl, own_name, qualified};

/// Runs the changes in order. Consecutive changes of the definition alone become one version of the definition.
pub(in crate::statements) async fn alter(
    session: &mut Session,
    database: &str,
    table: &Arc<CatalogTable>,
    changes: &[TableChange],
) -> Result<Outcome> {
    let mut name = (database.to_string(), table.name.clone());
    let changes = &with_referenced(session, database, changes).await?[..];
    let mut rest = changes;
    while let Some(first) = rest.first() {
        let count = rest.iter().take_while(|c| of_definition(c)).count();
        if count > 0 {
            let begun_ms = chrono::Utc::now().timestamp_millis();
            let version = redefine(session, table.id, &rest[..count]).await?;
            if let Some(version) = version.filter(|_| rest[..count].iter().any(of_columns)) {
                let (database, table_name) = name.clone();
                let ended_ms = chrono::Utc::now().timestamp_millis();
                let (number, id) = (0, table.id);
                let alter = Alter { number, database, table: table_name, id, begun_ms, ended_ms, version };
                session.engine.alters.add(alter);
            }
            rest = &rest[count..];
            continue;
        }
        rest = &rest[1..];
        match first {
            TableChange::Rename(to) => name = rename(session, table.id, name, to).await?,
            TableChange::ReplaceWith { table: other, swap, .. } => {
                replace_with(session, &name, other, *swap).await?;
            }
            TableChange::AddNamedPartition { .. }
            | TableChange::DropNamedPartition { .. }
            | TableChange::RenamePartition { .. }
            | TableChange::ReplacePartitions { .. }
            | TableChange::ModifyPartitions { .. } => partition(session, table.id, first).await?,
            TableChange::Compact { partitions, kind } => {
                compact(session, table.id, partitions, kind.as_deref()).await?
            }
            TableChange::AddPartition { .. } | TableChange::DropPartition { .. } | TableChange::RecoverPartitions => {
                return Err(EngineError::unsupported(format!(
                    "'{}' is a native table: its partitions have names, as in ADD PARTITION p VALUES LESS THAN (...) and DROP PARTITION p",
                    table.name
                )));
            }
            _ => {
                return Err(EngineError::unsupported(format!(
                    "'{}' is a native table: this change is for tables over files",
                    table.name
                )));
            }
        }
    }
    Ok(Outcome::ok())
}

/// Names the tables of foreign keys in full, as they are kept. Without a database they are in that of the table.
///
/// # Errors
/// `NoTable` or `NoColumn` if a foreign key refers to what is not there.
async fn with_referenced(session: &Session, database: &str, changes: &[TableChange]) -> Result<Vec<TableChange>> {
    let mut changes = changes.to_vec();
    for change in &mut changes {
        let TableChange::AddConstraint(constraint) = change else { continue };
        let ConstraintKind::Foreign { table, columns } = &mut constraint.kind else { continue };
        let name = if table.database().is_some() { table.clone() } else { own_name(database, table.object()) };
        let (database, found) = ddl::table_named(session, &name).await?;
        if found.is_native() {
            let state = session.engine.native.get(found.id).await?.refresh().await?;
            columns.iter().try_for_each(|name| create::named(&state.schema().columns, name).map(drop))?;
        }
        *table = own_name(&database, &found.name);
    }
    Ok(changes)
}

/// Whether a change concerns the definition alone.
fn of_definition(change: &TableChange) -> bool {
    let of_others = matches!(
        change,
        TableChange::RenameColumn { .. }
            | TableChange::CommentColumn { .. }
            | TableChange::Comment(_)
            | TableChange::EnableFeature { .. }
            | TableChange::AddIndex { .. }
            | TableChange::DropIndex { .. }
            | TableChange::RenameIndex { .. }
            | TableChange::SetDefault { .. }
            | TableChange::AddRollup(_)
            | TableChange::DropRollup { .. }
            | TableChange::RenameRollup { .. }
            | TableChange::AddConstraint(_)
            | TableChange::DropConstraint { .. }
            | TableChange::Distribution(_)
            | TableChange::SetProperties(_)
            | TableChange::UnsetProperties(_)
    );
    of_others || of_columns(change)
}

/// Whether Doris makes a job of the change that SHOW ALTER TABLE COLUMN lists.
fn of_columns(change: &TableChange) -> bool {
    matches!(
        change,
        TableChange::AddColumns { .. }
            | TableChange::ModifyColumn { .. }
            | TableChange::DropColumn(_)
            | TableChange::OrderColumns(_)
    )
}

/// Changes the definition; if another session was faster, tries again on the newest one. Returns the new version;
/// `None` if nothing changed.
async fn redefine(session: &mut Session, id: TableId, changes: &[TableChange]) -> Result<Option<u64>> {
    let handle = session.engine.native.get(id).await?;
    let mut state = handle.refresh().await?;
    let warnings = session.warnings.len();
    let sets = |c: &TableChange| matches!(c, TableChange::SetProperties(list) if list.iter().any(|(k, _)| dynamic(k)));
    // Partitions that the new properties call for are created at once, as after CREATE TABLE.
    let is_dynamic = changes.iter().any(sets);
    for attempt in 1.. {
        session.warnings.truncate(warnings);
        let expected = state.schema().version;
        let mut schema = state.schema().as_ref().clone();
        for change in changes {
            apply(session, &mut schema, change)?;
        }
        if schema == *state.schema().as_ref() {
            return Ok(None);
        }
        rules::check(&schema)?;
        if is_dynamic {
            DynamicPartition::parse(&schema.properties)?;
        }
        schema.version = expected + 1;
        match handle.commit(Change::Schema { expected, schema }).await {
            Ok(_) => {
                if is_dynamic {
                    crate::native::dynamic_partitions(&handle).await?;
                }
                return Ok(Some(expected + 1));
            }
            Err(TableError::Refused(Refused::SchemaChanged { .. })) if attempt < retry::STATEMENT.attempts => {
                state = handle.refresh().await?;
            }
            Err(e) => return Err(e.into()),
        }
    }
    unreachable!("the loop ends by returning")
}

fn apply(session: &mut Session, schema: &mut TableSchema, change: &TableChange) -> Result<()> {
    let now = super::now(session);
    match change {
        TableChange::AddColumns { columns: list, position } => {
            list.iter().try_for_each(|def| columns::add(schema, def, position.as_ref(), &now))
        }
        TableChange::ModifyColumn { column, position } => columns::modify(schema, column, position.as_ref(), &now),
        TableChange::DropColumn(name) => columns::drop(schema, name),
        TableChange::RenameColumn { from, to, definition } => {
            columns::rename(schema, from, to)?;
            definition.as_ref().map_or(Ok(()), |def| columns::modify(schema, def, None, &now))
        }
        TableChange::OrderColumns(names) => columns::order(schema, names),
        TableChange::CommentColumn { column, comment } => columns::comment(schema, column, comment),
        TableChange::Comment(comment) => {
            schema.comment = Some(comment.clone());
            Ok(())
        }
        TableChange::EnableFeature { feature, properties } => enable(session, schema, feature, properties),
        TableChange::AddIndex { if_not_exists, index } => indexes::add(session, schema, *if_not_exists, index),
        TableChange::DropIndex { if_exists, name } => {
            let before = schema.indexes.len();
            schema.indexes.retain(|i| !i.name.eq_ignore_ascii_case(name));
            match schema.indexes.len() < before || *if_exists {
                true => Ok(()),
                false => Err(EngineError {
                    code: 1091,
                    sqlstate: "42000",
                    ..EngineError::invalid(format!("Can't DROP '{name}'; check that column/key exists"))
                }),
            }
        }
        TableChange::RenameIndex { from, to } => indexes::rename(schema, from, to),
        TableChange::SetDefault { column, default } => columns::set_default(schema, column, default.as_ref(), &now),
        TableChange::AddRollup(rollup) => rollups::add(session, schema, rollup),
        TableChange::DropRollup { if_exists, name } => rollups::drop(schema, name, *if_exists),
        TableChange::RenameRollup { from, to } => rollups::rename(schema, from, to),
        TableChange::AddConstraint(constraint) => {
            session.note(1105, "constraints are kept and shown; nothing checks them");
            constraints::add(schema, constraint)
        }
        TableChange::DropConstraint { if_exists, name } => constraints::drop(schema, name, *if_exists),
        TableChange::Distribution(clause) => {
            schema.buckets = partitions::buckets(schema, clause)?;
            Ok(())
        }
        TableChange::SetProperties(list) => set_properties(session, schema, list),
        TableChange::UnsetProperties(names) => {
            names.iter().try_for_each(|name| fixed(name))?;
            schema.properties.retain(|key, _| !names.iter().any(|n| n.eq_ignore_ascii_case(key)));
            Ok(())
        }
        other => Err(EngineError::new(ErrorKind::Internal, format!("{other:?} is no change of a definition"))),
    }
}

fn enable(session: &mut Session, schema: &mut TableSchema, feature: &str, given: &Properties) -> Result<()> {
    match feature {
        "BATCH_DELETE" if schema.model == Model::Unique => {
            session.note(1105, "BATCH_DELETE: UNIQUE KEY tables always have it");
            Ok(())
        }
        "BATCH_DELETE" => Err(EngineError::invalid("BATCH_DELETE is only for UNIQUE KEY tables")),
        "SEQUENCE_LOAD" => {
            const KEY: &str = "function_column.sequence_type";
            let Some((_, data_type)) = given.iter().find(|(k, _)| k.eq_ignore_ascii_case(KEY)) else {
                return Err(EngineError::invalid(format!("SEQUENCE_LOAD needs PROPERTIES ('{KEY}' = 'type')")));
            };
            columns::add_sequence(schema, parse_type(data_type)?)?;
            schema.properties.insert(KEY.into(), data_type.clone());
            Ok(())
        }
        other => {
            Err(EngineError::unsupported(format!("feature \"{other}\": there are BATCH_DELETE and SEQUENCE_LOAD")))
        }
    }
}

fn dynamic(key: &str) -> bool {
    key.to_lowercase().starts_with("dynamic_partition.")
}

/// Refuses properties that determine what rows mean, which cannot change once there are rows.
fn fixed(key: &str) -> Result<()> {
    match ["function_column.", "enable_unique_key_merge_on_write", "storage_volume", "dipper."]
        .iter()
        .any(|p| key.to_lowercase().starts_with(p))
    {
        true => {
            Err(EngineError::invalid(format!("property '{key}' is given when the table is created, it cannot change")))
        }
        false => Ok(()),
    }
}

fn set_properties(session: &mut Session, schema: &mut TableSchema, list: &Properties) -> Result<()> {
    // Doris writes `default.` before properties of new partitions, such as `default.replication_num`.
    let of_table = |key: &str| key.strip_prefix("default.").unwrap_or(key).to_string();
    let list: Vec<(String, String)> = list.iter().map(|(k, v)| (of_table(k), v.clone())).collect();
    for (key, value) in &list {
        let same = schema.property(key).is_some_and(|v| v.eq_ignore_ascii_case(value));
        // Merge-on-write is the only way of writing, so setting it to true changes nothing.
        let given = key.eq_ignore_ascii_case("enable_unique_key_merge_on_write") && value.eq_ignore_ascii_case("true");
        if !same && !given {
            fixed(key)?;
        }
        schema.properties.retain(|k, _| !k.eq_ignore_ascii_case(key));
        schema.properties.insert(key.clone(), value.clone());
    }
    properties::check(session, schema, list.iter().map(|(k, v)| (k.as_str(), v.as_str())))
}

/// Makes one change of partitions, computed on the newest state.
async fn partition(session: &Session, id: TableId, change: &TableChange) -> Result<()> {
    let handle = session.engine.native.get(id).await?;
    let state = handle.refresh().await?;
    if let Some(change) = partitions::change(&state, change)? {
        handle.commit(change).await?;
    }
    Ok(())
}

/// Runs COMPACT: merges all segments of each tablet into one. With CUMULATIVE, merges only those that the policy would
/// merge anyway.
pub(super) async fn compact(session: &mut Session, id: TableId, names: &[String], kind: Option<&str>) -> Result<()> {
    let full = match kind {
        None | Some("BASE" | "FULL") => true,
        Some("CUMULATIVE") => false,
        Some(other) => {
            return Err(EngineError::invalid(format!("compaction '{other}': expected base, cumulative or full")));
        }
    };
    let handle = session.engine.native.get(id).await?;
    let state = handle.refresh().await?;
    let ids = (!names.is_empty()).then(|| super::partition_ids(&state, names)).transpose()?;
    let done = session.engine.compactor().compact_now(&handle, ids.as_deref(), full).await;
    done.map(drop).map_err(|e| EngineError::new(ErrorKind::Storage, format!("compaction: {e}")))
}

/// Runs RENAME. Returns the new database and name.
async fn rename(session: &Session, id: TableId, (db, name): (String, String), to: &Name) -> Result<(String, String)> {
    let (to_db, to_name) = match to.database() {
        Some(_) => qualified(session, to)?,
        None => (db.clone(), to.object().to_string()),
    };
    let (from, new) = (name.clone(), to_name.clone());
    let change = CatalogChange::Rename { db: db.clone(), name, to_db: to_db.clone(), to_name };
    ddl::commit(session, &db, vec![change]).await?;
    follow_name(&session.engine.native.get(id).await?, &from, &new).await?;
    Ok((to_db, new))
}

/// Runs REPLACE WITH TABLE and SWAP WITH: the names change in one version of the catalog.
async fn replace_with(session: &mut Session, (db, name): &(String, String), other: &Name, swap: bool) -> Result<()> {
    let (other_db, other_table) = ddl::table_named(
        session,
        &match other.database() {
            Some(_) => other.clone(),
            None => own_name(db, other.object()),
        },
    )
    .await?;
    if !other_table.is_native() {
        return Err(EngineError::new(
            ErrorKind::WrongObject,
            format!("'{other}' lies over files, expected a native table"),
        ));
    }
    let other_name = other_table.name.clone();
    if (&other_db, &other_name) == (db, name) {
        return Err(EngineError::invalid(format!("'{name}' cannot be replaced with itself")));
    }
    let renamed = |from: (&str, &str), to: (&str, &str)| CatalogChange::Rename {
        db: from.0.into(),
        name: from.1.into(),
        to_db: to.0.into(),
        to_name: to.1.into(),
    };
    let (this, that) = ((db.as_str(), name.as_str()), (other_db.as_str(), other_name.as_str()));
    let before = session.engine.catalog.refresh().await?;
    let changes = if swap {
        let aside = format!("__dipper_swap_{}", TableId::fresh());
        vec![renamed(this, (db, &aside)), renamed(that, this), renamed((db, &aside), that)]
    } else {
        let drop = CatalogChange::Drop { db: db.clone(), name: name.clone(), kind: TableKind::Table, if_exists: false };
        vec![drop, renamed(that, this)]
    };
    ddl::commit(session, db, changes).await?;
    let after = session.engine.catalog.snapshot();
    discard_missing(session, &before, &after).await;
    for (table, from, to) in
        [(after.table(db, name), &other_name, name), (after.table(&other_db, &other_name), name, &other_name)]
    {
        if let Some(table) = table.filter(|t| t.is_native()) {
            follow_name(&session.engine.native.get(table.id).await?, from, to).await?;
        }
    }
    Ok(())
}

/// Runs CREATE INDEX.
pub(in crate::statements) async fn create_index(session: &mut Session, create: &CreateIndex) -> Result<Outcome> {
    let change = TableChange::AddIndex { if_not_exists: create.if_not_exists, index: create.index.clone() };
    of_native(session, &create.table, change).await
}

/// Runs DROP INDEX.
pub(in crate::statements) async fn drop_index(
    session: &mut Session,
    table: &Name,
    name: &str,
    if_exists: bool,
) -> Result<Outcome> {
    of_native(session, table, TableChange::DropIndex { if_exists, name: name.to_string() }).await
}

async fn of_native(session: &mut Session, table: &Name, change: TableChange) -> Result<Outcome> {
    let (database, found) = ddl::table_named(session, table).await?;
    if !found.is_native() {
        return Err(EngineError::unsupported(format!("'{table}' lies over files: it has no indexes")));
    }
    alter(session, &database, &found, &[change]).await
}
