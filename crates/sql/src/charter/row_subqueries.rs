//! `(a, b) IN (SELECT x, y ...)`, which DataFusion's planner does not know, rewritten to EXISTS.
//!
//! The value is TRUE if a row of the subquery is equal in all columns; else NULL if some row does not certainly differ
//! in any column; else FALSE. A condition only asks whether it is TRUE (or, below NOT, whether it is FALSE), and one
//! EXISTS answers that.

use dipper_dialect::tree;
use sqlparser::ast::{
    BinaryOperator, Expr, Ident, Query, SelectItem, SetExpr, TableAliasColumnDef, TableWithJoins, UnaryOperator, Value,
};

use super::cases::case;
use super::rewrite::{binary, nested};
use super::tables;

/// The name of the subquery inside EXISTS, and the prefix of its columns' names before a number: no outer column has
/// it.
const ROWS: &str = "__in_rows";

/// Rewrites the memberships of rows among the terms that AND, OR and NOT combine into a condition.
pub(super) fn condition(expr: &mut Expr) {
    wanted(expr, true);
}

/// Rewrites an expression of which only one value matters: TRUE if `when`, else FALSE. The other two values need not be
/// told apart.
fn wanted(expr: &mut Expr, when: bool) {
    match expr {
        Expr::Nested(inner) => wanted(inner, when),
        Expr::UnaryOp { op: UnaryOperator::Not | UnaryOperator::BangNot, expr } => wanted(expr, !when),
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            wanted(left, when);
            wanted(right, when);
        }
        Expr::InSubquery { expr: row, subquery, negated } if let Some(row) = columns(row) => {
            let asked = if *negated { !when } else { when };
            let exists = exists(row, subquery, asked);
            *expr = if *negated { not(exists) } else { exists };
        }
        _ => {}
    }
}

/// Rewrites a membership of a row whose three values all matter; other expressions are returned as they are.
pub(super) fn value(expr: Expr) -> Expr {
    match expr {
        Expr::InSubquery { expr: row, subquery, negated } => match columns(&row) {
            Some(row) => {
                let bool = |b: bool| Expr::value(Value::Boolean(b));
                let found = (exists(row, &subquery, true), bool(!negated));
                let unknown = (exists(row, &subquery, false), Expr::value(Value::Null));
                case(vec![found, unknown], Some(bool(negated)))
            }
            None => Expr::InSubquery { expr: row, subquery, negated },
        },
        other => other,
    }
}

/// Returns the values of a row that has more than one.
fn columns(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(columns) if columns.len() > 1 => Some(columns),
        _ => None,
    }
}

fn not(expr: Expr) -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(expr)) }
}

/// Builds the condition that the subquery has a row that equals (`certain`), or else one that does not certainly
/// differ.
fn exists(row: &[Expr], subquery: &Query, certain: bool) -> Expr {
    let name = |i: usize| Ident::with_quote('"', format!("{ROWS}_{i}"));
    let mut alias = tree::alias(Ident::with_quote('"', ROWS));
    alias.columns = (0..row.len()).map(|i| TableAliasColumnDef { name: name(i), data_type: None }).collect();
    let equal = row.iter().enumerate().map(|(i, x)| {
        let equal = binary(nested(x.clone()), BinaryOperator::Eq, Expr::Identifier(name(i)));
        match certain {
            true => equal,
            false => Expr::IsNotFalse(Box::new(nested(equal))),
        }
    });
    let selection = equal.reduce(|all, next| binary(all, BinaryOperator::And, next));
    let rows = TableWithJoins { relation: tables::derived(subquery.clone(), alias), joins: Vec::new() };
    let one = SelectItem::UnnamedExpr(Expr::value(Value::Number("1".into(), false)));
    let mut query = tree::select(vec![one], vec![rows]);
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.selection = selection;
    }
    Expr::Exists { subquery: Box::new(query), negated: false }
}
