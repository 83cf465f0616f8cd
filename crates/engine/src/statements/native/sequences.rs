//! Groups of columns with sequences of their own: `"sequence_mapping.s" = "a,b"` of a UNIQUE table.
//!
//! Among rows with equal keys, each group of columns is taken from the row with the greatest value of the group's
//! sequence column, so that several streams can write their columns of one table in any order. The table is kept as an
//! AGGREGATE table, whose rows are merged column by column when they are read and compacted. Loads therefore do not
//! need to know the existing rows.

use std::collections::BTreeMap;

use dipper_store::table::schema::{Aggregate, Model, TableColumn};

use super::create::named;
use crate::error::{EngineError, Result};

/// Prefix of these properties.
pub(super) const PREFIX: &str = "sequence_mapping.";

/// Returns the sequence column that a property names.
fn sequence(key: &str) -> Option<&str> {
    key.get(..PREFIX.len()).filter(|prefix| prefix.eq_ignore_ascii_case(PREFIX))?;
    Some(key[PREFIX.len()..].trim())
}

/// Gives columns the aggregations that the properties ask for. Returns the model in which the table is kept.
///
/// # Errors
/// `Invalid` if the table is not UNIQUE, or a column is in two groups, in no group, or part of the key; `NoColumn` if a
/// column does not exist.
pub(super) fn apply(
    columns: &mut [TableColumn],
    keys: usize,
    model: Model,
    properties: &BTreeMap<String, String>,
) -> Result<Model> {
    let groups: Vec<(&str, &str)> =
        properties.iter().filter_map(|(key, value)| Some((sequence(key)?, value.as_str()))).collect();
    if groups.is_empty() {
        return Ok(model);
    }
    let invalid = |message: String| Err(EngineError::invalid(message));
    if model != Model::Unique {
        return invalid(format!("property '{PREFIX}{}' is for UNIQUE KEY tables", groups[0].0));
    }
    if let Some(key) = properties.keys().find(|key| key.to_lowercase().starts_with("function_column.sequence")) {
        return invalid(format!("properties '{key}' and '{PREFIX}{}' exclude each other", groups[0].0));
    }
    for (sequence, list) in groups {
        let id = named(columns, sequence)?.id;
        let names = list.split(',').map(|name| name.trim().trim_matches('`')).filter(|name| !name.is_empty());
        let others = names.map(|name| Ok(named(columns, name)?.id)).collect::<Result<Vec<_>>>()?;
        if others.is_empty() || others.contains(&id) {
            return invalid(format!("property '{PREFIX}{sequence}' = '{list}': expected the columns that follow it"));
        }
        for column in [id].into_iter().chain(others) {
            let at = columns.iter().position(|c| c.id == column).expect("it was found by its name");
            if at < keys {
                return invalid(format!("property '{PREFIX}{sequence}': {} is a key column", columns[at].name));
            }
            if columns[at].aggregate.replace(Aggregate::ReplaceBySequence(id)).is_some() {
                return invalid(format!("property '{PREFIX}{sequence}': {} is in two groups", columns[at].name));
            }
        }
    }
    match columns[keys..].iter().find(|c| c.aggregate.is_none()) {
        Some(column) => invalid(format!("column {} is in no group; name it in one '{PREFIX}...'", column.name)),
        None => Ok(Model::Aggregate),
    }
}

/// Renames a column in the properties, or for `None` removes it from them.
pub(super) fn rename(properties: &mut BTreeMap<String, String>, name: &str, new: Option<&str>) {
    let renamed = |(key, list): (String, String)| match sequence(&key) {
        None => Some((key, list)),
        Some(of) => {
            let is = |column: &str| column.trim_matches('`').eq_ignore_ascii_case(name);
            let key = if is(of) { format!("{PREFIX}{}", new?) } else { key.clone() };
            let list = list.split(',').map(str::trim).filter_map(|c| if is(c) { new } else { Some(c) });
            Some((key, list.collect::<Vec<_>>().join(","))).filter(|(_, list)| !list.is_empty())
        }
    };
    *properties = std::mem::take(properties).into_iter().filter_map(renamed).collect();
}
