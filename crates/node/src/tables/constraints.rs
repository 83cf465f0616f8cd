//! Constraints that ALTER TABLE declares. They are kept and shown, and nothing checks them: rows that break them are
//! stored, as in Doris.
//!
//! A constraint is a property of the table that is not shown. Its value names the columns by their ids, so that a
//! column can be renamed.

use dipper_dialect::statement::{ConstraintDef, ConstraintKind};
use dipper_store::table::schema::{CONSTRAINT, ColumnId, TableSchema};
use serde_json::{Value, json};

use crate::error::{EngineError, Result};

/// A constraint as SHOW CONSTRAINTS shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    /// The name.
    pub name: String,
    /// `PRIMARY KEY`, `UNIQUE` or `FOREIGN KEY`.
    pub kind: String,
    /// The constraint in the words of ALTER TABLE.
    pub definition: String,
}

/// Adds a constraint to a definition. The table of a foreign key must be `database.table`, and must exist.
///
/// # Errors
/// `Invalid` if the name is taken, a column does not exist or is named twice, or a foreign key has another number of
/// columns than it refers to.
pub fn add(schema: &mut TableSchema, def: &ConstraintDef) -> Result<()> {
    let name = match &def.name {
        Some(name) => name.clone(),
        None => free_name(schema, &def.kind),
    };
    if key_of(schema, &name).is_some() {
        return Err(EngineError::invalid(format!("Constraint name {name} has existed")));
    }
    let mut ids: Vec<ColumnId> = Vec::with_capacity(def.columns.len());
    for column in &def.columns {
        let found = schema.column(column).filter(|column| !column.hidden);
        let id = found
            .map(|column| column.id)
            .ok_or_else(|| coded(1072, format!("Key column '{column}' doesn't exist in table")))?;
        if ids.contains(&id) {
            return Err(EngineError::invalid(format!("constraint {name}: column {column} is named twice")));
        }
        ids.push(id);
    }
    let value = match &def.kind {
        ConstraintKind::Primary => json!({"kind": PRIMARY, "columns": ids}),
        ConstraintKind::Unique => json!({"kind": UNIQUE, "columns": ids}),
        ConstraintKind::Foreign { table, columns } => {
            if columns.len() != ids.len() {
                return Err(EngineError::invalid(format!(
                    "constraint {name}: {} columns refer to {} columns of {table}",
                    ids.len(),
                    columns.len()
                )));
            }
            // Database and table; there is one catalog of native tables.
            let table = &table.0[table.0.len().saturating_sub(2)..];
            json!({"kind": FOREIGN, "columns": ids, "table": table, "referenced": columns})
        }
    };
    schema.properties.insert(format!("{CONSTRAINT}{name}"), value.to_string());
    Ok(())
}

/// Removes a constraint from a definition.
///
/// # Errors
/// 1091 if there is no constraint of this name and `if_exists` is false.
pub fn drop(schema: &mut TableSchema, name: &str, if_exists: bool) -> Result<()> {
    match key_of(schema, name) {
        Some(key) => {
            schema.properties.remove(&key);
            Ok(())
        }
        None if if_exists => Ok(()),
        None => Err(coded(1091, format!("Can't DROP '{name}'; check that the constraint exists"))),
    }
}

/// Removes all constraints, which a copy of a table does not have.
pub fn clear(schema: &mut TableSchema) {
    schema.properties.retain(|key, _| !key.starts_with(CONSTRAINT));
}

/// A constraint that is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Declared {
    /// The name.
    pub name: String,
    /// `PRIMARY KEY`, `UNIQUE` or `FOREIGN KEY`.
    pub kind: String,
    /// The columns of the table.
    pub columns: Vec<String>,
    /// Database and table that a foreign key refers to, and the columns there.
    pub references: Option<([String; 2], Vec<String>)>,
}

/// Returns the constraints of a table, ordered by name.
pub fn declared(schema: &TableSchema) -> Vec<Declared> {
    let texts = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_string).collect()
    };
    let constraints = schema.properties.iter().filter_map(|(key, value)| {
        let name = key.strip_prefix(CONSTRAINT)?.to_string();
        let value: Value = serde_json::from_str(value).ok()?;
        let columns = ids(&value).into_iter().filter_map(|id| schema.position(id));
        let references = <[String; 2]>::try_from(texts(&value["table"])).ok();
        Some(Declared {
            name,
            kind: value["kind"].as_str()?.to_string(),
            columns: columns.map(|at| schema.columns[at].name.clone()).collect(),
            references: references.map(|table| (table, texts(&value["referenced"]))),
        })
    });
    constraints.collect()
}

/// Returns the constraints of a table as they are shown, ordered by name.
pub fn list(schema: &TableSchema) -> Vec<Shown> {
    let shown = |Declared { name, kind, columns, references }| {
        let mut definition = format!("{kind} ({})", columns.join(", "));
        if let Some((table, columns)) = references {
            definition += &format!(" REFERENCES {} ({})", table.join("."), columns.join(", "));
        }
        Shown { name, kind, definition }
    };
    declared(schema).into_iter().map(shown).collect()
}

/// Returns the name of a constraint that has the column.
pub fn of_column(schema: &TableSchema, column: ColumnId) -> Option<String> {
    schema.properties.iter().find_map(|(key, value)| {
        let name = key.strip_prefix(CONSTRAINT)?;
        let value: Value = serde_json::from_str(value).ok()?;
        ids(&value).contains(&column).then(|| name.to_string())
    })
}

const PRIMARY: &str = "PRIMARY KEY";
const UNIQUE: &str = "UNIQUE";
const FOREIGN: &str = "FOREIGN KEY";

fn coded(code: u16, message: String) -> EngineError {
    EngineError { code, sqlstate: "42000", ..EngineError::invalid(message) }
}

fn ids(value: &Value) -> Vec<ColumnId> {
    let ids = value["columns"].as_array().into_iter().flatten();
    ids.filter_map(|id| ColumnId::try_from(id.as_u64()?).ok()).collect()
}

/// Returns the property of a constraint; names are compared without regard to case.
fn key_of(schema: &TableSchema, name: &str) -> Option<String> {
    let is_it = |key: &&String| key.strip_prefix(CONSTRAINT).is_some_and(|known| known.eq_ignore_ascii_case(name));
    schema.properties.keys().find(is_it).cloned()
}

/// Makes up a name for a constraint that has none.
fn free_name(schema: &TableSchema, kind: &ConstraintKind) -> String {
    let prefix = match kind {
        ConstraintKind::Primary => "pk",
        ConstraintKind::Unique => "uk",
        ConstraintKind::Foreign { .. } => "fk",
    };
    let mut names = (1..).map(|number| format!("{prefix}_{number}"));
    names.find(|name| key_of(schema, name).is_none()).expect("there are more numbers than constraints")
}
