//! VALUES of INSERT: rows of literals and placeholders become a batch without the planner, other rows are prepared for
//! it.
//!
//! Planning VALUES takes longer than the load itself: each cell becomes an expression that the planner types, the
//! optimizer simplifies and the executor evaluates. [`literal_rows`] makes the batch directly. The stored values are
//! the same as with [`prepare`] and the planner; rows for which they could differ are left to the planner.
//!
//! A value is cast to its column by itself, as if its row were the only one. So literals of several types in a column
//! are not cast to a common type: the column of the batch is a struct of one column for each type, see
//! [`crate::charter::apart`].

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Decimal128Array, Float64Array, Int64Array, NullArray, StringViewArray};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType};
use arrow::record_batch::RecordBatch;
use dipper_dialect::rows;
use dipper_dialect::statement::{QueryText, is_default};
use sqlparser::ast;

use crate::charter::apart::{mark, packed};
use crate::charter::session::VarValue;
use crate::charter::text;

/// A cell of VALUES that needs no planner.
enum Cell<'a> {
    Null,
    Boolean(bool),
    Int(i64),
    /// A number with a point: its digits, and how many of them are behind the point.
    Decimal(i128, i8),
    /// A number with an exponent.
    Double(f64),
    Text(Cow<'a, str>),
}

/// The type of a cell's literal.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LiteralType {
    Boolean,
    Int,
    /// A decimal with this number of digits behind the point.
    Decimal(i8),
    Double,
    Text,
}

impl Cell<'_> {
    /// Returns the type; `None` for NULL, which has none.
    fn literal_type(&self) -> Option<LiteralType> {
        match self {
            Cell::Null => None,
            Cell::Boolean(_) => Some(LiteralType::Boolean),
            Cell::Int(_) => Some(LiteralType::Int),
            Cell::Decimal(_, scale) => Some(LiteralType::Decimal(*scale)),
            Cell::Double(_) => Some(LiteralType::Double),
            Cell::Text(_) => Some(LiteralType::Text),
        }
    }
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
            let is_bit = targets[at] == DataType::Boolean;
            let read = |expr| is_bit.then(|| bit(expr, params)).flatten().or_else(|| cell(expr, params));
            let cells = values.rows.iter().map(|row| read(&row[at])).collect::<Option<Vec<_>>>()?;
            Some((format!("column{}", at + 1), column(&cells)?, true))
        })
        .collect::<Option<Vec<_>>>()?;
    RecordBatch::try_from_iter_with_nullable(arrays).ok()
}

/// Reads a number without a sign, in the type that the planner gives it; `None` for one that the planner has to read,
/// which is too large for the types here.
fn number<'a>(text: &str) -> Option<Cell<'a>> {
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if text.contains(['e', 'E']) {
        return text::parse_double(text).map(Cell::Double);
    }
    let Some((whole, fraction)) = text.split_once('.') else {
        return text.parse().ok().filter(|_| is_digits(text)).map(Cell::Int);
    };
    if !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let digits: i128 = [whole, fraction].concat().parse().ok()?;
    let scale = i8::try_from(fraction.len()).ok()?;
    (precision(digits, scale) <= DECIMAL128_MAX_PRECISION).then_some(Cell::Decimal(digits, scale))
}

/// Returns the number of digits of a decimal; those behind the point count all.
fn precision(digits: i128, scale: i8) -> u8 {
    let significant = digits.unsigned_abs().checked_ilog10().map_or(1, |log| log + 1);
    u8::try_from(significant).unwrap_or(u8::MAX).max(scale.unsigned_abs())
}

/// Reads a literal of bytes for a BOOLEAN, which is true if the number of the bytes is not zero, as when it is stored.
fn bit<'a>(expr: &ast::Expr, params: &[VarValue]) -> Option<Cell<'a>> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::HexStringLiteral(digits) => Some(Cell::Boolean(digits.bytes().any(|digit| digit != b'0'))),
            ast::Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                match params.get(number.checked_sub(1)?)? {
                    VarValue::Bytes(bytes) => Some(Cell::Boolean(bytes.iter().any(|byte| *byte != 0))),
                    _ => None,
                }
            }
            _ => None,
        },
        _ => None,
    }
}

fn cell<'a>(expr: &'a ast::Expr, params: &'a [VarValue]) -> Option<Cell<'a>> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Null => Some(Cell::Null),
            ast::Value::Boolean(value) => Some(Cell::Boolean(*value)),
            ast::Value::Number(text, false) => number(text),
            ast::Value::SingleQuotedString(text) | ast::Value::DoubleQuotedString(text) => {
                Some(Cell::Text(Cow::Borrowed(text)))
            }
            ast::Value::Placeholder(name) => {
                let number: usize = name.strip_prefix('$')?.parse().ok()?;
                match params.get(number.checked_sub(1)?)? {
                    VarValue::Int(value) => Some(Cell::Int(*value)),
                    VarValue::String(text) => Some(Cell::Text(Cow::Borrowed(text))),
                    point => point.point_text().map(|text| Cell::Text(Cow::Owned(text))),
                }
            }
            _ => None,
        },
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => match expr.as_ref() {
            ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::Number(text, false), .. }) => {
                match number(text)? {
                    Cell::Int(value) => Some(Cell::Int(-value)),
                    Cell::Decimal(digits, scale) => Some(Cell::Decimal(-digits, scale)),
                    // The planner subtracts as well: zero has no sign.
                    Cell::Double(value) => Some(Cell::Double(0.0 - value)),
                    other => Some(other),
                }
            }
            _ => None,
        },
        _ => None,
    }
}

/// Builds a column: of type NULL if it has only NULL, of the type of its literals if they have one type, else of one
/// part for each type.
fn column(cells: &[Cell<'_>]) -> Option<ArrayRef> {
    // The largest number of digits of each type, which matters for decimals only.
    let mut types: BTreeMap<LiteralType, u8> = BTreeMap::new();
    for cell in cells {
        let Some(literal_type) = cell.literal_type() else { continue };
        let digits = if let Cell::Decimal(digits, scale) = cell { precision(*digits, *scale) } else { 0 };
        let most = types.entry(literal_type).or_default();
        *most = digits.max(*most);
    }
    let parts = types.iter().map(|(literal_type, digits)| part(cells, *literal_type, *digits));
    let mut parts = parts.collect::<Option<Vec<ArrayRef>>>()?;
    Some(match parts.len() {
        0 => Arc::new(NullArray::new(cells.len())),
        1 => parts.swap_remove(0),
        _ => packed(parts),
    })
}

/// Builds the column of the cells of one type, with NULL in the place of all others. `digits`: the precision of
/// decimals.
fn part(cells: &[Cell<'_>], literal_type: LiteralType, digits: u8) -> Option<ArrayRef> {
    fn values<T>(cells: &[Cell<'_>], value: impl Fn(&Cell<'_>) -> Option<T>) -> Vec<Option<T>> {
        cells.iter().map(value).collect()
    }
    Some(match literal_type {
        LiteralType::Boolean => Arc::new(BooleanArray::from(values(cells, |cell| match cell {
            Cell::Boolean(value) => Some(*value),
            _ => None,
        }))),
        LiteralType::Int => Arc::new(Int64Array::from(values(cells, |cell| match cell {
            Cell::Int(value) => Some(*value),
            _ => None,
        }))),
        LiteralType::Decimal(scale) => {
            let values = values(cells, |cell| match cell {
                Cell::Decimal(digits, own) if *own == scale => Some(*digits),
                _ => None,
            });
            Arc::new(Decimal128Array::from(values).with_precision_and_scale(digits, scale).ok()?)
        }
        LiteralType::Double => Arc::new(Float64Array::from(values(cells, |cell| match cell {
            Cell::Double(value) => Some(*value),
            _ => None,
        }))),
        LiteralType::Text => Arc::new(StringViewArray::from_iter(cells.iter().map(|cell| match cell {
            Cell::Text(text) => Some(text.as_ref()),
            _ => None,
        }))),
    })
}

/// Rewrites VALUES for `width` columns: the word DEFAULT becomes what `default` gives for the column, and [`apart`] does
/// the rest.
///
/// # Errors
/// The errors of `default`.
pub fn prepare<E>(
    source: &QueryText,
    width: usize,
    default: impl Fn(usize) -> Result<ast::Expr, E>,
) -> Result<QueryText, E> {
    let mut query = source.clone();
    if let ast::SetExpr::Values(values) = query.ast.body.as_mut() {
        for row in &mut values.rows {
            if row.is_empty() {
                // In MySQL, an empty row is a row of defaults.
                row.extend((0..width).map(|_| default_word()));
            }
            for (at, expr) in row.iter_mut().enumerate().take(width) {
                if is_default(expr) {
                    *expr = default(at)?;
                }
            }
        }
    }
    Ok(apart(query))
}

/// Rewrites the VALUES of an INSERT so that each value keeps its type, whatever the other rows have in its column: the
/// planner would look for one type for all rows, and lose values that do not fit into it. Rows with subqueries become a
/// UNION of SELECTs.
pub fn apart(mut query: QueryText) -> QueryText {
    let ast::SetExpr::Values(values) = query.ast.body.as_mut() else { return query };
    let width = values.rows.first().map_or(0, |row| row.len());
    if values.rows.iter().any(|row| row.len() != width) {
        // The planner refuses them.
        return query;
    }
    // A single row has no neighbours.
    let columns = if values.rows.len() > 1 { width } else { 0 };
    for at in 0..columns {
        let mut kinds = values.rows.iter().filter_map(|row| kind(&row[at]));
        let first = kinds.next();
        if first != Some(Kind::Other) && kinds.all(|kind| Some(kind) == first) {
            continue;
        }
        for row in values.rows.iter_mut().filter(|row| kind(&row[at]).is_some()) {
            let cell = std::mem::replace(&mut row[at], ast::Expr::Value(ast::Value::Null.into()));
            row[at] = mark(cell);
        }
    }
    if have_query(&values.rows) {
        // The order of rows matters: of rows with the same key the last one stays.
        let rows = std::mem::take(&mut values.rows).into_iter().map(|row| row.content).collect();
        if let Some(selects) = rows::in_order(rows) {
            *query.ast.body = ast::SetExpr::Query(Box::new(selects));
        }
    }
    query
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

/// Kinds of cells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    /// An integer of 64 bits.
    Integer,
    Boolean,
    /// A value whose type differs from literal to literal, or is not known before planning.
    Other,
}

/// Returns the kind of an expression; `None` for NULL, which fits every type.
fn kind(expr: &ast::Expr) -> Option<Kind> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Null => None,
            ast::Value::Number(text, false) if text.parse::<i64>().is_ok() => Some(Kind::Integer),
            ast::Value::Boolean(_) => Some(Kind::Boolean),
            ast::Value::SingleQuotedString(_) | ast::Value::DoubleQuotedString(_) => Some(Kind::Text),
            _ => Some(Kind::Other),
        },
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } => {
            kind(expr).filter(|kind| *kind == Kind::Integer).or(Some(Kind::Other))
        }
        _ => Some(Kind::Other),
    }
}
