//! Comparisons of rows, rewritten to comparisons of their values: DataFusion would compare structs, where NULL equals
//! NULL.
//!
//! | written | becomes |
//! |---|---|
//! | `(a, b) = (x, y)`, also `<=>` | `a = x AND b = y` |
//! | `(a, b) <> (x, y)` | `a <> x OR b <> y` |
//! | `(a, b) < (x, y)` | `a < x OR (a = x AND b < y)` |
//! | `(a, b) IN ((x, y), ..)` | an OR of what `=` becomes |
//! | `(a, b) = (SELECT x, y ..)` | a call of a [`Form`] over a, b and the subquery's row, which is read once |
//!
//! Rows of literals are grouped by the column with the fewest distinct values, and the possible values of each column
//! are put in front as IN lists: they prune partitions, buckets and pages, and are FALSE only where the rest is. So
//! `(a, b) IN ((1, 2), (1, 3), (4, 5))` becomes `a IN (1, 4) AND b IN (2, 3, 5) AND (a = 1 AND b IN (2, 3) OR a = 4 AND
//! b = 5)`.

use std::collections::HashSet;

use dipper_dialect::chains::balance;
use dipper_dialect::error::SqlError;
use dipper_dialect::tree::{self, call, function_name};
use sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SelectItem, SetExpr, TableAliasColumnDef, TableWithJoins, UnaryOperator, Value,
};

use super::mixed::kind;
use super::once::Form;
use super::rewrite::{binary, nested, plain_args};
use super::{one_row, tables};

/// The name of a subquery that gives a row, and the prefix of its columns' names before a number: no other column has
/// the name.
const ROW: &str = "__row";

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

/// Writes `ROW(a, b)` as `(a, b)` where rows are compared, before the call becomes a struct.
pub(super) fn calls(expr: &mut Expr) {
    let operands: Vec<&mut Expr> = match expr {
        Expr::BinaryOp { left, op, right } if Form::of_rows(op).is_some() => vec![&mut **left, &mut **right],
        Expr::InList { expr, list, .. } => std::iter::once(&mut **expr).chain(list).collect(),
        Expr::InSubquery { expr, .. } => vec![&mut **expr],
        Expr::Between { expr, low, high, .. } => vec![&mut **expr, &mut **low, &mut **high],
        Expr::Case { operand: Some(operand), conditions, .. } => {
            std::iter::once(&mut **operand).chain(conditions.iter_mut().map(|when| &mut when.condition)).collect()
        }
        _ => return,
    };
    if operands.iter().any(|operand| is_call(operand))
        && operands.iter().all(|operand| values(operand).is_some() || subquery(operand).is_some())
    {
        for operand in operands {
            if let Some(row) = values(operand) {
                *operand = Expr::Tuple(row);
            }
        }
    }
}

fn is_call(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_call(inner),
        Expr::Function(function) => function_name(function).as_deref() == Some("row"),
        _ => false,
    }
}

/// Returns the query of `(SELECT ..)`.
fn subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Nested(inner) => subquery(inner),
        Expr::Subquery(query) => Some(query),
        _ => None,
    }
}

/// Returns the number of columns of a query; `None` if its select list has a `*`.
fn width(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one =
                |item: &SelectItem| matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. });
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::Query(query) => width(&query.body),
        SetExpr::SetOperation { left, right, .. } => width(left).or_else(|| width(right)),
        SetExpr::Values(values) => values.rows.first().map(|row| row.len()),
        _ => None,
    }
}

/// Whether a query is known to have more than one column.
fn is_wide(query: &Query) -> bool {
    width(&query.body).is_some_and(|width| width > 1)
}

fn same_width(row: usize, other: usize) -> Result<(), SqlError> {
    if row == other {
        return Ok(());
    }
    Err(SqlError {
        code: 1241,
        sqlstate: "21000",
        message: format!("Operand should contain {row} column(s), found {other}"),
        position: None,
    })
}

/// Builds the comparison of a row with the row of a subquery. The subquery gives one value, a struct, so that the one-row
/// rules of values hold for rows, too; the comparisons of the parts are made when their types are known.
///
/// Without a row the comparison is NULL. Only `<=>` is never NULL: a row that is missing consists of NULLs to `<=>`.
fn with_query(row: Vec<Expr>, op: Form, query: &Query) -> Result<Expr, SqlError> {
    if let Some(found) = width(&query.body) {
        same_width(row.len(), found)?;
    }
    let name = |i: usize| Ident::with_quote('"', format!("{ROW}_{i}"));
    let mut alias = tree::alias(Ident::with_quote('"', ROW));
    alias.columns = (0..row.len()).map(|i| TableAliasColumnDef { name: name(i), data_type: None }).collect();
    let part = |i: usize| [Expr::value(Value::SingleQuotedString(i.to_string())), Expr::Identifier(name(i))];
    let whole = call(one_row::STRUCT, (0..row.len()).flat_map(part).collect());
    let rows = TableWithJoins { relation: tables::derived(query.clone(), alias), joins: Vec::new() };
    let item = SelectItem::ExprWithAlias { expr: whole, alias: Ident::with_quote('"', ROW) };
    let whole = Expr::Subquery(Box::new(tree::select(vec![item], vec![rows])));
    Ok(call(op.name(), row.into_iter().chain([whole]).collect()))
}

/// Returns the operator for exchanged operands.
fn exchanged(op: BinaryOperator) -> BinaryOperator {
    use BinaryOperator as Op;
    match op {
        Op::Lt => Op::Gt,
        Op::Gt => Op::Lt,
        Op::LtEq => Op::GtEq,
        Op::GtEq => Op::LtEq,
        same => same,
    }
}

/// Builds a comparison of two expressions; of two rows, the comparisons of their values.
///
/// # Errors
/// 1241 if the rows have different numbers of values; 1235 if both are rows of subqueries.
pub(super) fn comparison(left: Expr, op: BinaryOperator, right: Expr) -> Result<Expr, SqlError> {
    use BinaryOperator as Op;
    // The operator for a value when all values before it are equal but others follow.
    let strict = match &op {
        Op::Eq | Op::Spaceship | Op::NotEq | Op::Lt | Op::Gt => op.clone(),
        Op::LtEq => Op::Lt,
        Op::GtEq => Op::Gt,
        _ => return Ok(binary(left, op, right)),
    };
    let (row, other) = match (values(&left), values(&right)) {
        (Some(row), Some(other)) => (row, other),
        (Some(row), None) if let (Some(query), Some(form)) = (subquery(&right), Form::of_rows(&op)) => {
            return with_query(row, form, query);
        }
        (None, Some(row))
            if let (Some(query), Some(form)) = (subquery(&left), Form::of_rows(&exchanged(op.clone()))) =>
        {
            return with_query(row, form, query);
        }
        (None, None)
            if let (Some(left), Some(right)) = (subquery(&left), subquery(&right))
                && is_wide(left)
                && is_wide(right) =>
        {
            let what = "a comparison of the rows of two subqueries is not supported: join the subqueries";
            return Err(SqlError::unsupported(what, None));
        }
        _ => return Ok(binary(left, op, right)),
    };
    same_width(row.len(), other.len())?;
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
    let Some(row) = values(&expr).filter(|_| list.iter().all(|e| values(e).is_some() || subquery(e).is_some())) else {
        return Ok(Expr::InList { expr, list, negated });
    };
    let rows: Vec<Vec<Expr>> = list.iter().filter_map(values).collect();
    for other in &rows {
        same_width(row.len(), other.len())?;
    }
    let of_literals = rows.len() == list.len() && (0..row.len()).all(|at| has_literals(&rows, at));
    let found = if rows.len() > 1 && of_literals {
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
