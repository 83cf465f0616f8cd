//! Changes of columns. Only the definition changes; rows stay as they were written.

use datafusion::common::ScalarValue;
use dipper_base::clock;
use dipper_base::types::SqlType;
use dipper_dialect::statement::{ColumnDef, ColumnPosition, DefaultValue};
use dipper_exec::shape::{Now, default_value};
use dipper_node::tables::{constraints, rules};
use dipper_store::route::text_of;
use dipper_store::table::schema::{Aggregate, ColumnId, Distribution, Model, SEQUENCE, TableColumn, TableSchema};

use super::super::create::{self, named};
use super::super::sequences;
use super::types::{self, Change};
use crate::error::{EngineError, ErrorKind, Result};
use crate::generated;

fn invalid<T>(message: impl Into<String>) -> Result<T> {
    Err(EngineError::invalid(message))
}

/// Returns the position of a column that the user sees.
fn place(schema: &TableSchema, name: &str) -> Result<usize> {
    let id = named(&schema.columns, name)?.id;
    let at = schema.position(id).expect("it was just found");
    if schema.columns[at].hidden {
        return invalid(format!("column {name} is the table's own, it cannot be changed"));
    }
    Ok(at)
}

fn taken(schema: &TableSchema, name: &str) -> Result<()> {
    match schema.column(name) {
        None => Ok(()),
        Some(_) => Err(EngineError {
            code: 1060,
            sqlstate: "42S21",
            ..EngineError::invalid(format!("Duplicate column name '{name}'"))
        }),
    }
}

/// Returns the position for a value column: after the keys, before the hidden columns.
fn target(schema: &TableSchema, name: &str, position: Option<&ColumnPosition>) -> Result<usize> {
    let end = schema.columns.iter().position(|c| c.hidden).unwrap_or(schema.columns.len());
    let at = match position {
        None => end,
        Some(ColumnPosition::First) => 0,
        Some(ColumnPosition::After(other)) => place(schema, other)? + 1,
    };
    if at < schema.keys {
        let last = &schema.columns[schema.keys - 1].name;
        return invalid(format!("column {name} is no key column, it can stand behind {last} at the earliest"));
    }
    Ok(at)
}

/// Runs ADD COLUMN.
pub(super) fn add(
    schema: &mut TableSchema,
    def: &ColumnDef,
    position: Option<&ColumnPosition>,
    now: &Now,
) -> Result<()> {
    taken(schema, &def.name)?;
    if schema.has_sequences() {
        return Err(EngineError::unsupported(format!(
            "column {}: a table whose columns have sequences of their own gets no more columns; create a new table, INSERT ... \
             SELECT, and REPLACE WITH TABLE",
            def.name
        )));
    }
    if def.key || schema.model == Model::Aggregate && def.aggregate.is_none() {
        return Err(EngineError::unsupported(format!(
            "column {}: a key column cannot be added yet; create a new table, INSERT ... SELECT, and REPLACE WITH TABLE",
            def.name
        )));
    }
    if def.auto_increment.is_some() {
        return Err(EngineError::unsupported(format!(
            "column {}: AUTO_INCREMENT cannot be added, the rows that are there have no numbers",
            def.name
        )));
    }
    if def.generated.is_some() {
        return Err(EngineError::unsupported(format!(
            "column {}: generated columns are made with their table; create a new table, INSERT ... SELECT, and REPLACE WITH TABLE",
            def.name
        )));
    }
    let mut column = create::column(def, schema.next_column);
    rules::column(&column)?;
    column.added_default = added_default(&column, now)?;
    let at = target(schema, &def.name, position)?;
    schema.set_variant_paths(column.id, def.paths.clone());
    schema.columns.insert(at, column);
    schema.next_column += 1;
    Ok(())
}

/// Returns, as text, the value of the new column in rows that were written before it.
fn added_default(column: &TableColumn, now: &Now) -> Result<Option<String>> {
    let Some(value) = default_value(column, now)? else {
        return invalid(format!(
            "column {} is NOT NULL: it needs a DEFAULT, which the rows that are there get",
            column.name
        ));
    };
    if value.is_null() && !column.nullable {
        return invalid(format!("column {} is NOT NULL, its DEFAULT cannot be NULL", column.name));
    }
    // Arrow has no text of a TIME below zero or beyond a day.
    if let ScalarValue::Time64Microsecond(Some(time)) = value {
        return Ok(Some(clock::text(time, None)));
    }
    Ok(text_of(&value.to_array()?, 0)?)
}

/// Runs DROP COLUMN.
pub(super) fn drop(schema: &mut TableSchema, name: &str) -> Result<()> {
    if schema.column(name).is_none() {
        return Err(EngineError {
            code: 1091,
            sqlstate: "42000",
            ..EngineError::invalid(format!("Can't DROP '{name}'; check that column/key exists"))
        });
    }
    let at = place(schema, name)?;
    let id = schema.columns[at].id;
    let role = if at < schema.keys {
        Some("a key column")
    } else if schema.partition_by.as_ref().is_some_and(|p| p.columns.contains(&id)) {
        Some("a partition column")
    } else if matches!(&schema.distribution, Distribution::Hash(columns) if columns.contains(&id)) {
        Some("a distribution column")
    } else if schema.sequence == Some(id) {
        Some("the sequence column")
    } else if is_sequence_of_others(schema, id) {
        Some("the sequence column of others")
    } else if is_last_of_group(schema, &schema.columns[at]) {
        Some("the only column that follows its sequence")
    } else if schema.cluster_by.contains(&id) {
        Some("a column of CLUSTER BY")
    } else {
        None
    };
    if let Some(role) = role {
        return invalid(format!("column {name} is {role}, it cannot be dropped"));
    }
    free(schema, name)?;
    if let Some(constraint) = constraints::of_column(schema, id) {
        return invalid(format!("column {name} is in constraint {constraint}; DROP CONSTRAINT {constraint} first"));
    }
    let name = schema.columns.remove(at).name;
    for index in &mut schema.indexes {
        index.columns.retain(|c| *c != id);
    }
    schema.indexes.retain(|i| !i.columns.is_empty());
    for rollup in &mut schema.rollups {
        rollup.columns.retain(|c| *c != id);
        rollup.keys.retain(|c| *c != id);
    }
    schema.rollups.retain(|r| !r.columns.is_empty());
    in_properties(schema, &name, None);
    Ok(())
}

/// Refuses to change a column from which others are computed.
fn free(schema: &TableSchema, name: &str) -> Result<()> {
    match generated::dependents(schema, name).as_slice() {
        [] => Ok(()),
        columns => invalid(format!("Column '{name}' has a generated column dependency on :[{}]", columns.join(", "))),
    }
}

/// Whether the column is the sequence of other columns.
fn is_sequence_of_others(schema: &TableSchema, id: ColumnId) -> bool {
    schema.columns.iter().any(|c| c.id != id && c.aggregate == Some(Aggregate::ReplaceBySequence(id)))
}

/// Whether the column is the only one that follows its sequence column.
fn is_last_of_group(schema: &TableSchema, column: &TableColumn) -> bool {
    let Some(Aggregate::ReplaceBySequence(sequence)) = column.aggregate else { return false };
    schema.columns.iter().filter(|c| c.aggregate == column.aggregate && c.id != sequence).count() == 1
}

/// Renames a column in the properties that name columns, or for `None` removes it from them.
fn in_properties(schema: &mut TableSchema, name: &str, new: Option<&str>) {
    sequences::rename(&mut schema.properties, name, new);
    for (key, value) in &mut schema.properties {
        if ["bloom_filter_columns", "row_store_columns", "function_column.sequence_col"]
            .iter()
            .any(|k| k.eq_ignore_ascii_case(key))
        {
            let list = value.split(',').map(str::trim).filter_map(|c| match c.eq_ignore_ascii_case(name) {
                true => new,
                false => Some(c),
            });
            *value = list.collect::<Vec<_>>().join(",");
        }
    }
    schema.properties.retain(|key, value| !value.is_empty() || !key.to_lowercase().ends_with("_columns"));
}

/// Runs RENAME COLUMN.
pub(super) fn rename(schema: &mut TableSchema, from: &str, to: &str) -> Result<()> {
    let at = place(schema, from)?;
    free(schema, from)?;
    if !from.eq_ignore_ascii_case(to) {
        taken(schema, to)?;
    }
    let old = std::mem::replace(&mut schema.columns[at].name, to.to_string());
    in_properties(schema, &old, Some(to));
    Ok(())
}

/// Runs MODIFY COLUMN. Properties that the definition does not mention stay: default, comment, aggregation,
/// AUTO_INCREMENT, ON UPDATE.
pub(super) fn modify(
    schema: &mut TableSchema,
    def: &ColumnDef,
    position: Option<&ColumnPosition>,
    now: &Now,
) -> Result<()> {
    let at = place(schema, &def.name)?;
    let old = schema.columns[at].clone();
    let given = create::column(def, old.id);
    let name = &old.name;
    if def.key && at >= schema.keys {
        return invalid(format!("column {name} is no key column, and cannot become one"));
    }
    if def.aggregate.is_some() && def.aggregate != old.aggregate {
        return invalid(format!("column {name}: its aggregation cannot be changed"));
    }
    if def.auto_increment.is_some() && old.auto_increment.is_none() {
        return invalid(format!("column {name} cannot become AUTO_INCREMENT"));
    }
    if old.nullable && !given.nullable {
        return invalid(format!("column {name} can hold NULL, and cannot become NOT NULL"));
    }
    if old.generated.is_some() || def.generated.is_some() {
        return Err(EngineError::unsupported(format!("MODIFY COLUMN of the generated column {name}")));
    }
    if given.data_type != old.data_type {
        free(schema, name)?;
    }
    check_type(schema, &old, &given.data_type)?;
    let column = TableColumn {
        data_type: given.data_type,
        nullable: given.nullable,
        default: given.default.or_else(|| old.default.clone()),
        on_update: given.on_update.or(old.on_update),
        comment: given.comment.or_else(|| old.comment.clone()),
        ..old.clone()
    };
    rules::column(&column)?;
    default_value(&column, now)?;
    schema.columns[at] = column;
    schema.set_variant_paths(old.id, def.paths.clone());
    if let Some(position) = position {
        let column = schema.columns.remove(at);
        if at < schema.keys {
            return Err(EngineError::unsupported(format!(
                "key column {name} cannot be moved: rows are sorted by the keys in their order"
            )));
        }
        let to = target(schema, &column.name, Some(position))?;
        schema.columns.insert(to, column);
    }
    Ok(())
}

fn check_type(schema: &TableSchema, old: &TableColumn, new: &SqlType) -> Result<()> {
    let (name, from) = (&old.name, &old.data_type);
    let Some(change) = types::change(from, new) else {
        return Err(EngineError::unsupported(format!(
            "column {name} cannot change from {from} to {new}: values that are there might not fit"
        )));
    };
    let at = schema.position(old.id).expect("it is a column of the table");
    let placed = schema.partition_by.as_ref().is_some_and(|p| p.columns.contains(&old.id))
        || matches!(&schema.distribution, Distribution::Hash(columns) if columns.contains(&old.id));
    if change == Change::Values
        && (at < schema.keys || placed || schema.sequence == Some(old.id) || is_sequence_of_others(schema, old.id))
    {
        return Err(EngineError::unsupported(format!(
            "column {name} cannot change from {from} to {new} yet: rows are sorted or placed by its values"
        )));
    }
    Ok(())
}

/// Runs ORDER BY, which puts all columns into a new order.
pub(super) fn order(schema: &mut TableSchema, names: &[String]) -> Result<()> {
    let visible = schema.columns.iter().filter(|c| !c.hidden).count();
    let mut ids = Vec::with_capacity(schema.columns.len());
    for name in names {
        let id = schema.columns[place(schema, name)?].id;
        if ids.contains(&id) {
            return invalid(format!("column {name} is named twice"));
        }
        ids.push(id);
    }
    if ids.len() != visible {
        return invalid(format!("ORDER BY names {} of the table's {visible} columns, it must name all", ids.len()));
    }
    let keys = schema.key_columns().iter().map(|c| c.id);
    if !keys.eq(ids[..schema.keys].iter().copied()) {
        return Err(EngineError::unsupported(
            "the key columns keep their order, and stand first: rows are sorted by them; create a new table for another order",
        ));
    }
    let rank = |c: &TableColumn| ids.iter().position(|id| *id == c.id).unwrap_or(usize::MAX);
    schema.columns.sort_by_key(rank);
    Ok(())
}

/// Runs MODIFY COLUMN ... COMMENT.
pub(super) fn comment(schema: &mut TableSchema, name: &str, comment: &str) -> Result<()> {
    let at = place(schema, name)?;
    schema.columns[at].comment = Some(comment.to_string());
    Ok(())
}

/// Runs ALTER COLUMN ... SET DEFAULT and DROP DEFAULT. Rows that are there keep their values.
pub(super) fn set_default(
    schema: &mut TableSchema,
    name: &str,
    default: Option<&DefaultValue>,
    now: &Now,
) -> Result<()> {
    let at = place(schema, name)?;
    let old = &schema.columns[at];
    if old.generated.is_some() {
        return invalid(format!("column {name} is generated, it has no default"));
    }
    let default = match default {
        None | Some(DefaultValue::Literal(None)) if old.data_type.has_empty() => Some(DefaultValue::Empty),
        other => other.cloned(),
    };
    let column = TableColumn { default, ..old.clone() };
    rules::column(&column)?;
    default_value(&column, now)?;
    schema.columns[at] = column;
    Ok(())
}

/// Runs ENABLE FEATURE "SEQUENCE_LOAD": adds the hidden sequence column. It is NULL in existing rows, which makes them
/// the oldest.
pub(super) fn add_sequence(schema: &mut TableSchema, data_type: SqlType) -> Result<()> {
    if schema.model != Model::Unique {
        return invalid("only UNIQUE KEY tables can have a sequence column");
    }
    if let Some(id) = schema.sequence {
        let has = schema.position(id).map_or("", |at| &schema.columns[at].name);
        return Err(EngineError::new(ErrorKind::Invalid, format!("the table has a sequence column, {has}")));
    }
    let id = schema.next_column;
    schema.next_column += 1;
    schema.columns.push(TableColumn { hidden: true, ..TableColumn::new(id, SEQUENCE, data_type, true) });
    schema.sequence = Some(id);
    Ok(())
}
