//! VALUES of literals and placeholders as a batch. Making a plan of them takes longer than the load itself: each cell
//! becomes an expression that the planner types, the optimizer simplifies and the executor evaluates.
//!
//! What is stored is what `prepare_values` and the planner make of them, and what they might see in another way is left to
//! them: a column of whole numbers is Int64; where there is text, or a placeholder, among its cells all of them are text.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, NullArray, StringViewBuilder};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use dipper_sql::charter::session::VarValue;
use dipper_store::table::schema::TableColumn;
use sqlparser::ast;

/// A cell; whole numbers and text only, what else there is needs the planner.
enum Cell<'a> {
    Null,
    Int(i64),
    Text(&'a str),
    /// A number from a driver.
    Given(i64),
}

/// The rows of a query that is nothing but `VALUES (...), (...)` for these columns; `None` when it takes more than that.
pub(super) fn literal_rows(query: &ast::Query, params: &[VarValue], targets: &[&TableColumn]) -> Option<RecordBatch> {
    let ast::Query { with: None, order_by: None, limit_clause: None, fetch: None, .. } = query else { return None };
    let ast::SetExpr::Values(values) = query.body.as_ref() else { return None };
    let is_bytes = |c: &&TableColumn| c.data_type.to_arrow() == DataType::BinaryView;
    if targets.is_empty() || targets.iter().any(is_bytes) || values.rows.iter().any(|r| r.len() != targets.len()) {
        return None;
    }
    let arrays = (0..targets.len())
        .map(|at| {
            let cells = values.rows.iter().map(|row| cell(&row[at], params)).collect::<Option<Vec<_>>>()?;
            Some((format!("column{}", at + 1), column(&cells), true))
        })
        .collect::<Option<Vec<_>>>()?;
    RecordBatch::try_from_iter_with_nullable(arrays).ok()
}

/// A whole number as it is written in one way only: `007` is another text.
fn whole(text: &str) -> Option<i64> {
    let value: i64 = text.parse().ok().filter(|_| text.len() <= 18)?;
    (value.to_string() == text).then_some(value)
}

fn cell<'a>(expr: &'a ast::Expr, params: &'a [VarValue]) -> Option<Cell<'a>> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Null => Some(Cell::Null),
            ast::Value::Number(text, false) => whole(text).map(Cell::Int),
            ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => Some(Cell::Text(text)),
            ast::Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                match params.get(number.checked_sub(1)?)? {
                    VarValue::Int(value) => Some(Cell::Given(*value)),
                    VarValue::String(text) => Some(Cell::Text(text)),
                    _ => None,
                }
            }
            _ => None,
        },
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match expr.as_ref() {
            ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(text, false), .. }) => {
                whole(text).filter(|v| *v > 0).map(|v| Cell::Int(-v))
            }
            _ => None,
        },
        _ => None,
    }
}

fn column(cells: &[Cell<'_>]) -> ArrayRef {
    if cells.iter().all(|c| matches!(c, Cell::Null)) {
        return Arc::new(NullArray::new(cells.len()));
    }
    if cells.iter().all(|c| matches!(c, Cell::Null | Cell::Int(_))) {
        let number = |cell: &Cell<'_>| match cell {
            Cell::Int(value) => Some(*value),
            _ => None,
        };
        return Arc::new(cells.iter().map(number).collect::<Int64Array>());
    }
    let mut texts = StringViewBuilder::with_capacity(cells.len());
    for cell in cells {
        match cell {
            Cell::Text(text) => texts.append_value(text),
            Cell::Int(value) | Cell::Given(value) => texts.append_value(value.to_string()),
            Cell::Null => texts.append_null(),
        }
    }
    Arc::new(texts.finish())
}
