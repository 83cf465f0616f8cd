//! `__op`, the column by which loads of StarRocks say of each row whether it is written or deletes: `0` or `upsert`, `1` or
//! `delete`. It becomes the delete sign of the table; NULL, and a JSON object without it, writes.

use std::borrow::Cow;

use dipper_node::error::{EngineError, Result};
use dipper_store::table::schema::{DELETE_SIGN, TableSchema};

use crate::request::{ColumnItem, MergeType, StreamLoadRequest};

/// The column's name.
pub const OP: &str = "__op";

/// Whether the name is the column's.
pub fn is_op(name: &str) -> bool {
    name.eq_ignore_ascii_case(OP)
}

/// Whether rows of the table can be deleted by the column: one of its own of that name is a column like others.
pub fn applies(table: &TableSchema) -> bool {
    table.columns.iter().any(|c| c.name == DELETE_SIGN) && !table.columns.iter().any(|c| is_op(&c.name))
}

/// The delete sign that an operation means. One that is none gives NULL, which refuses its row.
pub fn sign(operation: &str) -> String {
    let word = format!("lower(trim(CAST(({operation}) AS STRING)))");
    format!(
        "CASE WHEN ({operation}) IS NULL THEN 0 WHEN {word} IN ('0', 'upsert') THEN 0 WHEN {word} IN ('1', 'delete') THEN 1 END"
    )
}

/// What a constant operation of all rows means, `None` of another expression.
fn constant(expression: &str) -> Option<bool> {
    let text = expression.trim();
    let word = [('\'', '\''), ('"', '"')]
        .into_iter()
        .find_map(|(open, close)| text.strip_prefix(open)?.strip_suffix(close))
        .unwrap_or(text);
    match word.to_ascii_lowercase().as_str() {
        "1" | "delete" => Some(true),
        "0" | "upsert" => Some(false),
        _ => None,
    }
}

/// The request with `__op` among its `columns` said in the table's own words.
///
/// # Errors
/// `merge_type` says what rows do, too.
pub fn resolved<'a>(table: &TableSchema, request: &'a StreamLoadRequest) -> Result<Cow<'a, StreamLoadRequest>> {
    let named = |item: &ColumnItem| match item {
        ColumnItem::Body(name) | ColumnItem::Derived { name, .. } => is_op(name),
    };
    if !applies(table) || !request.columns.iter().any(named) {
        return Ok(Cow::Borrowed(request));
    }
    if request.merge_type != MergeType::Append {
        return Err(EngineError::invalid(format!(
            "'columns' names {OP}, and 'merge_type' says what rows do, too; leave one of them out"
        )));
    }
    let mut resolved = request.clone();
    let mut operation = None;
    resolved.columns.retain(|item| match item {
        ColumnItem::Derived { name, expression } if is_op(name) => {
            operation = Some(expression.clone());
            false
        }
        ColumnItem::Body(name) if is_op(name) => {
            operation.get_or_insert_with(|| format!("`{name}`"));
            true
        }
        _ => true,
    });
    let Some(operation) = operation else { return Ok(Cow::Borrowed(request)) };
    match constant(&operation) {
        Some(true) => resolved.merge_type = MergeType::Delete,
        Some(false) => {}
        None => {
            let item = ColumnItem::Derived { name: DELETE_SIGN.into(), expression: sign(&operation) };
            resolved.columns.push(item);
        }
    }
    Ok(Cow::Owned(resolved))
}
