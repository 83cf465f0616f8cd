//! `merge_condition`: the column of a UNIQUE table that decides whether a row of the load replaces the one that is there.
//!
//! The column itself travels in [`Rowset::condition`](dipper_store::table::Rowset::condition), also of prepared loads: rows are
//! compared when they are published, with what the table has then.

use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_store::key::KeyEncoder;
use dipper_store::table::schema::{ColumnId, Model, TableColumn, TableSchema};

use crate::request::StreamLoadRequest;

/// The column that the load names.
///
/// # Errors
/// The table has no column of that name, or is none whose rows are compared by it.
pub(crate) fn of(schema: &TableSchema, request: &StreamLoadRequest) -> Result<Option<ColumnId>> {
    let Some(name) = &request.merge_condition else { return Ok(None) };
    let invalid = |why: String| Err(EngineError::invalid(format!("'merge_condition': {why}")));
    if schema.has_sequences() || schema.sequence.is_some() {
        return invalid("the table has a sequence column, which decides already".into());
    }
    if schema.model != Model::Unique {
        return invalid("only rows of a UNIQUE or PRIMARY KEY table replace others".into());
    }
    let Some(at) = place(schema, name) else {
        let message = format!("'merge_condition': the table has no column '{name}'");
        return Err(EngineError::new(ErrorKind::NoColumn, message));
    };
    let column = &schema.columns[at];
    if at < schema.keys {
        return invalid(format!("'{name}' is a key column, which is equal in rows that replace each other"));
    }
    if KeyEncoder::try_new([&column.data_type]).is_err() {
        let message = format!(
            "'merge_condition': values of type {} are not compared; name a number without exponent, a date or a text",
            column.data_type
        );
        return Err(EngineError::unsupported(message));
    }
    Ok(Some(column.id))
}

/// Refuses a load that does not bring the column: all of its rows would have one value, which nobody chose. `given` are
/// places of columns.
///
/// # Errors
/// `Invalid`.
pub(crate) fn check_given(schema: &TableSchema, request: &StreamLoadRequest, given: &[usize]) -> Result<()> {
    match &request.merge_condition {
        Some(name) if place(schema, name).is_none_or(|at| !given.contains(&at)) => Err(EngineError::invalid(format!(
            "'merge_condition' names '{name}', which is not among the columns of the load"
        ))),
        _ => Ok(()),
    }
}

/// The error of a load whose condition is not that of the loads before it in its transaction.
pub(crate) fn mixed(schema: &TableSchema, before: Option<ColumnId>) -> EngineError {
    let name = before.and_then(|id| schema.position(id)).map(|at| schema.columns[at].name.as_str());
    let theirs = name.map_or("none".to_string(), |name| format!("'{name}'"));
    EngineError::unsupported(format!(
        "loads of a transaction have one 'merge_condition', and that of the first is {theirs}; begin another transaction"
    ))
}

fn place(schema: &TableSchema, name: &str) -> Option<usize> {
    let is = |column: &TableColumn| !column.hidden && column.name.eq_ignore_ascii_case(name);
    schema.columns.iter().position(is)
}
