//! Comparisons of rows, rewritten to comparisons of their values: DataFusion would compare structs, where NULL equals
//! NULL.
//!
//! | written | becomes |
//! |---|---|
//! | `(a, b) = (x, y)`, also `<=>` | `a = x AND b = y` |
//! | `(a, b) <> (x, y)` | `a <> x OR b <> y` |
//! | `(a, b) < (x, y)` | `a < x OR (a = x AND b < y)` |
//! | `(a, b) IN ((x, y), ..)` | an OR of what `=` becomes |
//!
//! Rows of literals are grouped by the column with the fewest distinct values, and the possible values of each column
//! are put in front as IN lists: they prune partitions, buckets and pages, and are FALSE only where the rest is. So
//! `(a, b) IN ((1, 2), (1, 3), (4, 5))` becomes `a IN (1, 4) AND b IN (2, 3, 5) AND (a = 1 AND b IN (2, 3) OR a = 4 AND
//! b = 5)`.

use std::collections::HashSet;

use dipper_dialect::chains::balance;
use dipper_dialect::error::SqlError;
use dipper_dialect::tree::function_name;
use sqlparser::ast::{BinaryOperator, Expr, UnaryOperator, Value};

use super::mixed::kind;
use super::rewrite::{binary, nested, plain_args};

/// Returns the values of `(a, b)` or `ROW(a, b)`; `None` if the expression is not a row.
fn values(expr: &Expr) -> Option<Vec<Expr>> {
    let values = match expr {
        Expr::Nested(inner) => values(inner),
        Expr::Tuple(values) => Some(values.clone()),
        Expr::Function(function) if function_name(function).as_deref() == Some("row") => plain_args(function),
        _ => None,
    };
    values.filter(|values| values.len() > 1)
}

fn same_width(row: &[Expr], other: &[Expr]) -> Result<(), SqlError> {
    if row.len() == other.len() {
        return Ok(());
    }
    Err(SqlError {
        code: 1241,
        sqlstate: "21000",
        message: format!("Operand should contain {} column(s), found {}", row.len(), other.len()),
        position: None,
    })
}

/// Builds a comparison of two expressions; of two rows, the comparisons of their values.
///
/// # Errors
/// 1241 if the rows have different numbers of values.
pub(super) fn comparison(left: Expr, op: BinaryOperator, right: Expr) -> Result<Expr, SqlError> {
    use BinaryOperator as Op;
    // The operator for a value when all values before it are equal but others follow.
    let strict = match &op {
        Op::Eq | Op::Spaceship | Op::NotEq | Op::Lt | Op::Gt => op.clone(),
        Op::LtEq => Op::Lt,
        Op::GtEq => Op::Gt,
        _ => return Ok(binary(left, op, right)),
    };
    let (Some(row), Some(other)) = (values(&left), values(&right)) else { return Ok(binary(left, op, right)) };
    same_width(&row, &other)?;
    let mut compared: Option<Expr> = None;
    for (x, y) in row.into_iter().zip(other).rev() {
        compared = Some(match (compared, &strict) {
            (None, _) => comparison(x, op.clone(), y)?,
            (Some(rest), Op::Eq | Op::Spaceship) => binary(comparison(x, op.clone(), y)?, Op::And, rest),
            (Some(rest), Op::NotEq) => binary(comparison(x, op.clone(), y)?, Op::Or, rest),
            (Some(rest), _) => {
                let same = binary(comparison(x.clone(), Op::Eq, y.clone())?, Op::And, nested(rest));
                binary(comparison(x, strict.clone(), y)?, Op::Or, nested(same))
            }
        });
    }
    Ok(compared.map_or_else(|| Expr::value(Value::Null), nested))
}

/// Builds `expr [NOT] IN (list)`; for rows, the comparisons of their values.
///
/// # Errors
/// 1241 if the rows have different numbers of values.
pub(super) fn in_list(expr: Box<Expr>, list: Vec<Expr>, negated: bool) -> Result<Expr, SqlError> {
    let (Some(row), Some(rows)) = (values(&expr), list.iter().map(values).collect::<Option<Vec<_>>>()) else {
        return Ok(Expr::InList { expr, list, negated });
    };
    for other in &rows {
        same_width(&row, other)?;
    }
    let found = if rows.len() > 1 && (0..row.len()).all(|at| has_literals(&rows, at)) {
        let narrowed: Vec<Expr> = (row.iter().enumerate())
            .filter(|(_, x)| matches!(x, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
            .map(|(at, x)| in_values(x, distinct(&rows, at).cloned().collect()))
            .collect();
        let found = nested(one_of(&row, rows));
        narrowed.into_iter().rev().fold(found, |rest, x| binary(x, BinaryOperator::And, rest))
    } else {
        let equal = |other| comparison((*expr).clone(), BinaryOperator::Eq, other);
        any(list.into_iter().map(equal).collect::<Result<Vec<_>, _>>()?)
    };
    let found = nested(found);
    Ok(match negated {
        true => Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(found) })),
        false => found,
    })
}

/// Whether a column of the rows holds only NULLs and literals of one kind, for which IN compares like `=`.
fn has_literals(rows: &[Vec<Expr>], at: usize) -> bool {
    let values = rows.iter().map(|row| &row[at]);
    let mut kinds = values.filter(|v| !matches!(v, Expr::Value(v) if v.value == Value::Null)).map(kind);
    kinds.next().flatten().is_some_and(|first| kinds.all(|other| other.as_ref() == Some(&first)))
}

/// Returns the distinct values of a column of the rows.
fn distinct(rows: &[Vec<Expr>], at: usize) -> impl Iterator<Item = &Expr> {
    let mut seen = HashSet::new();
    rows.iter().map(move |row| &row[at]).filter(move |value| seen.insert(*value))
}

/// Builds the condition that the columns equal one of these rows of literals.
fn one_of(columns: &[Expr], mut rows: Vec<Vec<Expr>>) -> Expr {
    if let [column] = columns {
        return in_values(column, distinct(&rows, 0).cloned().collect());
    }
    let fewest = (0..columns.len()).min_by_key(|at| distinct(&rows, *at).count()).unwrap_or(0);
    rows.sort_by_cached_key(|row| row[fewest].clone());
    let without = |row: &[Expr]| [&row[..fewest], &row[fewest + 1..]].concat();
    let rest = without(columns);
    let groups = rows.chunk_by(|a, b| a[fewest] == b[fewest]).map(|group| {
        let is_in_group = binary(columns[fewest].clone(), BinaryOperator::Eq, group[0][fewest].clone());
        let rows = group.iter().map(|row| without(row)).collect();
        binary(is_in_group, BinaryOperator::And, nested(one_of(&rest, rows)))
    });
    any(groups.collect())
}

/// Builds the condition that the column equals one of these values.
fn in_values(column: &Expr, values: Vec<Expr>) -> Expr {
    match <[Expr; 1]>::try_from(values) {
        Ok([value]) => binary(column.clone(), BinaryOperator::Eq, value),
        Err(list) => Expr::InList { expr: Box::new(column.clone()), list, negated: false },
    }
}

/// Builds the condition that one of the conditions holds.
fn any(conditions: Vec<Expr>) -> Expr {
    let chain = conditions.into_iter().reduce(|any, next| binary(any, BinaryOperator::Or, next));
    let mut any = chain.unwrap_or_else(|| Expr::value(Value::Boolean(false)));
    balance(&mut any, &BinaryOperator::Or);
    any
}
