//! Rollups and CLUSTER BY. They are kept in the definition, for scripts that create them. Queries read the table
//! itself, whose rows are sorted by its key.

use dipper_base::types::SqlType;
use dipper_dialect::statement::{RollupDef, WithRollups};
use dipper_store::table::schema::{Model, Rollup, TableSchema};

use super::create::named;
use crate::error::{EngineError, Result};
use crate::session::Session;

fn invalid<T>(message: String) -> Result<T> {
    Err(EngineError::invalid(message))
}

/// Adds a rollup to a definition.
///
/// # Errors
/// `Invalid` if the name is taken, a column is named twice or a key column is missing; `NoColumn` if a column does not
/// exist.
pub(super) fn add(session: &mut Session, schema: &mut TableSchema, def: &RollupDef) -> Result<()> {
    let name = &def.name;
    if schema.rollups.iter().any(|r| r.name.eq_ignore_ascii_case(name)) {
        return invalid(format!("Rollup index[{name}] already exists"));
    }
    let ids = |names: &[String]| {
        let mut ids = Vec::with_capacity(names.len());
        for name in names {
            let id = named(&schema.columns, name)?.id;
            if ids.contains(&id) {
                return invalid(format!("rollup {}: column {name} is named twice", def.name));
            }
            ids.push(id);
        }
        Ok(ids)
    };
    let columns = ids(&def.columns)?;
    let keys = ids(&def.keys)?;
    if !columns.starts_with(&keys) {
        return invalid(format!("rollup {name}: its DUPLICATE KEY must be its first columns, in their order"));
    }
    if !keys.is_empty() && schema.model != Model::Duplicate {
        return invalid(format!("rollup {name}: DUPLICATE KEY is for rollups of DUPLICATE tables"));
    }
    if schema.model == Model::Unique
        && let Some(key) = schema.key_columns().iter().find(|key| !columns.contains(&key.id))
    {
        return invalid(format!(
            "rollup {name}: rollups of UNIQUE tables hold all key columns, {} is missing",
            key.name
        ));
    }
    session.note(1105, format!("rollup {name} is kept, and has no effect yet: queries read the table itself"));
    schema.rollups.push(Rollup { name: name.clone(), columns, keys });
    Ok(())
}

/// Removes a rollup from a definition.
///
/// # Errors
/// `Invalid` if there is no rollup of this name and `if_exists` is false.
pub(super) fn drop(schema: &mut TableSchema, name: &str, if_exists: bool) -> Result<()> {
    let before = schema.rollups.len();
    schema.rollups.retain(|r| !r.name.eq_ignore_ascii_case(name));
    if schema.rollups.len() < before || if_exists { Ok(()) } else { missing(name) }
}

/// Renames a rollup.
///
/// # Errors
/// `Invalid` if there is no rollup of this name, or the new name is taken.
pub(super) fn rename(schema: &mut TableSchema, from: &str, to: &str) -> Result<()> {
    if !from.eq_ignore_ascii_case(to) && schema.rollups.iter().any(|r| r.name.eq_ignore_ascii_case(to)) {
        return invalid(format!("Rollup index[{to}] already exists"));
    }
    match schema.rollups.iter_mut().find(|r| r.name.eq_ignore_ascii_case(from)) {
        Some(rollup) => {
            rollup.name = to.to_string();
            Ok(())
        }
        None => missing(from),
    }
}

fn missing<T>(name: &str) -> Result<T> {
    invalid(format!("Rollup index[{name}] does not exist; SHOW CREATE TABLE shows the rollups of a table"))
}

/// Keeps the rollups that CREATE TABLE ... LIKE takes over.
///
/// # Errors
/// `Invalid` if the statement names a rollup that the table does not have.
pub(super) fn like(schema: &mut TableSchema, wanted: &WithRollups) -> Result<()> {
    match wanted {
        WithRollups::All => Ok(()),
        WithRollups::None => {
            schema.rollups.clear();
            Ok(())
        }
        WithRollups::Named(names) => {
            let has = |name: &&String| schema.rollups.iter().any(|r| r.name.eq_ignore_ascii_case(name));
            if let Some(name) = names.iter().find(|name| !has(name)) {
                return missing(name);
            }
            schema.rollups.retain(|r| names.iter().any(|name| r.name.eq_ignore_ascii_case(name)));
            Ok(())
        }
    }
}

/// Stores CLUSTER BY of Doris and ORDER BY of StarRocks. A prefix of the key is not stored, because rows are sorted by
/// the key anyway.
///
/// # Errors
/// `NoColumn` if a column does not exist; `Invalid` if it is named twice, or its type has no order.
pub(super) fn cluster_by(session: &mut Session, schema: &mut TableSchema, names: &[String]) -> Result<()> {
    let mut ids = Vec::with_capacity(names.len());
    for name in names {
        let column = named(&schema.columns, name)?;
        if ids.contains(&column.id) {
            return invalid(format!("CLUSTER BY: column {name} is named twice"));
        }
        if matches!(
            column.data_type,
            SqlType::Json | SqlType::Variant | SqlType::Array(_) | SqlType::Map(..) | SqlType::Struct(_)
        ) || column.data_type.is_set()
        {
            return invalid(format!("CLUSTER BY: column {name} has type {}, which has no order", column.data_type));
        }
        ids.push(column.id);
    }
    let keys: Vec<_> = schema.key_columns().iter().map(|key| key.id).collect();
    if keys.starts_with(&ids) {
        return Ok(());
    }
    session.note(
        1105,
        format!("CLUSTER BY ({}) is kept, and has no effect yet: rows are sorted by the key", names.join(", ")),
    );
    schema.cluster_by = ids;
    Ok(())
}
