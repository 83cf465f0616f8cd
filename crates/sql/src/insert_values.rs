//! VALUES of INSERT: rows of literals and placeholders become a batch without the planner, other rows are prepared for
//! it.
//!
//! Planning VALUES takes longer than the load itself: each cell becomes an expression that the planner types, the
//! optimizer simplifies and the executor evaluates. [`literal_rows`] makes the batch directly. The stored values are
//! the same as with [`prepare`] and the planner; rows for which they could differ are left to the planner. A column of
//! whole numbers becomes Int64; if any of its cells is text or a placeholder, all of them become text.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, NullArray, StringViewBuilder};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use dipper_dialect::rows;
use dipper_dialect::statement::{QueryText, is_default};
use sqlparser::ast;

use crate::charter::session::VarValue;

/// A cell of VALUES that needs no planner: NULL, a whole number or text.
enum Cell<'a> {
    Null,
    Int(i64),
    Text(Cow<'a, str>),
    /// An integer that a client has bound to a placeholder.
    Given(i64),
}

/// Returns the rows of a query that consists only of `VALUES (...), (...)` for columns of these types; `None` if the
/// query needs the planner.
pub fn literal_rows(query: &ast::Query, params: &[VarValue], targets: &[DataType]) -> Option<RecordBatch> {
    let ast::Query { with: None, order_by: None, limit_clause: None, fetch: None, .. } = query else { return None };
    let ast::SetExpr::Values(values) = query.body.as_ref() else { return None };
    if targets.is_empty()
        || targets.contains(&DataType::BinaryView)
        || values.rows.iter().any(|r| r.len() != targets.len())
    {
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

/// Parses a whole number of at most 18 characters in its canonical spelling; `None` for `007`, which differs from `7`
/// as text.
fn whole(text: &str) -> Option<i64> {
    let value: i64 = text.parse().ok().filter(|_| text.len() <= 18)?;
    (value.to_string() == text).then_some(value)
}

fn cell<'a>(expr: &'a ast::Expr, params: &'a [VarValue]) -> Option<Cell<'a>> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Null => Some(Cell::Null),
            ast::Value::Number(text, false) => whole(text).map(Cell::Int),
            ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => {
                Some(Cell::Text(Cow::Borrowed(text)))
            }
            ast::Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                match params.get(number.checked_sub(1)?)? {
                    VarValue::Int(value) => Some(Cell::Given(*value)),
                    VarValue::String(text) => Some(Cell::Text(Cow::Borrowed(text))),
                    point => point.point_text().map(|text| Cell::Text(Cow::Owned(text))),
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

/// Builds a column: of type NULL if it has only NULL, Int64 if it has only literal integers and NULL, else text.
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

/// Rewrites VALUES for columns of these types. The word DEFAULT becomes what `default` gives for the column. If rows give a
/// column values of several kinds, all of them become text, which is cast to the type of the column. The planner would
/// look for one type for all rows, and lose values that do not fit into it. Rows with subqueries become a UNION of
/// SELECTs.
///
/// # Errors
/// The errors of `default`.
pub fn prepare<E>(
    source: &QueryText,
    targets: &[DataType],
    default: impl Fn(usize) -> Result<ast::Expr, E>,
) -> Result<QueryText, E> {
    let mut query = source.clone();
    let ast::SetExpr::Values(values) = query.ast.body.as_mut() else { return Ok(query) };
    for row in &mut values.rows {
        if row.is_empty() {
            // In MySQL, an empty row is a row of defaults.
            row.extend(targets.iter().map(|_| default_word()));
        }
        for (at, expr) in row.iter_mut().enumerate().take(targets.len()) {
            if is_default(expr) {
                *expr = default(at)?;
            }
        }
    }
    for (at, data_type) in targets.iter().enumerate() {
        // Values of BINARY, HLL and BITMAP are not text, and arrays, maps and structs are not read from text.
        if *data_type == DataType::BinaryView || data_type.is_nested() {
            continue;
        }
        let mut kinds = values.rows.iter().filter_map(|row| row.get(at).and_then(kind));
        let first = kinds.next();
        // No common type holds all decimals of several scales.
        let alike = |k: Kind| Some(k) == first && !matches!(k, Kind::Decimal | Kind::Other);
        if first.is_some() && kinds.all(alike) {
            continue;
        }
        for row in values.rows.iter_mut().filter(|row| row.len() > at) {
            let text = match (kind(&row[at]), &row[at]) {
                (None | Some(Kind::Text), _) => continue,
                (Some(Kind::Integer | Kind::Decimal), number) => {
                    ast::Expr::Value(ast::Value::SingleQuotedString(number.to_string()).into())
                }
                (_, other) => as_text(other.clone()),
            };
            row[at] = text;
        }
    }
    let width = values.rows.first().map_or(0, |row| row.len());
    if have_query(&values.rows) && values.rows.iter().all(|row| row.len() == width) {
        // The order of rows matters: of rows with the same key the last one stays.
        let rows = std::mem::take(&mut values.rows).into_iter().map(|row| row.content).collect();
        if let Some(selects) = rows::in_order(rows) {
            *query.ast.body = ast::SetExpr::Query(Box::new(selects));
        }
    }
    Ok(query)
}

/// Makes the bare word DEFAULT.
fn default_word() -> ast::Expr {
    ast::Expr::Identifier(ast::Ident::new("DEFAULT"))
}

/// Whether any row has a subquery among its values, which a plan of VALUES cannot hold.
fn have_query(rows: &[ast::Parens<Vec<ast::Expr>>]) -> bool {
    let has_query = |e: &ast::Expr| {
        ast::visit_expressions(e, |e| match e {
            ast::Expr::Subquery(_) | ast::Expr::Exists { .. } | ast::Expr::InSubquery { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    };
    rows.iter().flat_map(|row| row.iter()).any(has_query)
}

/// Kinds of literals. Values of different kinds have no type that is right for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Decimal,
    Boolean,
    Other,
}

/// Returns the kind of an expression; `None` for NULL, which fits every type.
fn kind(expr: &ast::Expr) -> Option<Kind> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Null => None,
            ast::Value::Number(text, _) if text.bytes().all(|b| b.is_ascii_digit()) => Some(Kind::Integer),
            ast::Value::Number(..) => Some(Kind::Decimal),
            ast::Value::Boolean(_) => Some(Kind::Boolean),
            ast::Value::SingleQuotedString(_) | ast::Value::DoubleQuotedString(_) => Some(Kind::Text),
            _ => Some(Kind::Other),
        },
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus | ast::UnaryOperator::Plus, expr } => {
            kind(expr).filter(|k| matches!(k, Kind::Integer | Kind::Decimal)).or(Some(Kind::Other))
        }
        _ => Some(Kind::Other),
    }
}

/// Makes `CAST(expr AS STRING)`.
fn as_text(expr: ast::Expr) -> ast::Expr {
    ast::Expr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(expr),
        data_type: ast::DataType::String(None),
        array: false,
        format: None,
    }
}
