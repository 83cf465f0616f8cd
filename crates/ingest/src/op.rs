//! `__op`: the column with which loads of StarRocks say for each row whether it is written (`0` or `upsert`) or deletes
//! (`1` or `delete`). It becomes the delete sign of the table. NULL, and a JSON object without the column, writes.

use std::borrow::Cow;

use dipper_node::error::{EngineError, Result};
use dipper_store::table::schema::{DELETE_SIGN, TableSchema};

use crate::request::{ColumnItem, MergeType, StreamLoadRequest};

/// The column's name.
pub const OP: &str = "__op";

/// Returns whether a name is that of the column, in any case.
pub fn is_op(name: &str) -> bool {
    name.eq_ignore_ascii_case(OP)
}

/// Returns whether the column deletes rows of the table. If the table has a column of that name, it is an ordinary
/// column.
pub fn applies(table: &TableSchema) -> bool {
    table.columns.iter().any(|c| c.name == DELETE_SIGN) && !table.columns.iter().any(|c| is_op(&c.name))
}

/// Returns the SQL expression of the delete sign for an operation. An invalid operation gives NULL, so its row is
/// refused.
pub fn sign(operation: &str) -> String {
    let word = format!("lower(trim(CAST(({operation}) AS STRING)))");
    format!(
        "CASE WHEN ({operation}) IS NULL THEN 0 WHEN {word} IN ('0', 'upsert') THEN 0 WHEN {word} IN ('1', 'delete') THEN 1 END"
    )
}

/// Returns whether a constant operation deletes all rows; `None` for other expressions.
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

/// Rewrites a request that has `__op` among its `columns` to one that sets the delete sign.
///
/// # Errors
/// `Invalid` if `merge_type` also says what the rows do.
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
