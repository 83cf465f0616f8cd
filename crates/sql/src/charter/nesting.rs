//! How deep some expressions may stand in one another: planning them takes time by a power of their depth.

use std::collections::HashSet;
use std::ptr;

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::function_name;
use dipper_dialect::walk::{self, Look};
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, UnaryOperator,
};

/// Subqueries in conditions and select lists of one another. DataFusion checks each level together with all below it, twice:
/// 16 levels take half a second, 20 take ten. Subqueries in FROM do not count.
const SUBQUERIES_MAX: usize = 16;

/// What `(a, b) IN (SELECT ...)` counts where it is no condition: as a value it has two copies of its subquery.
const ROW_SUBQUERY: usize = 5;

/// Values of CASE and IF in values of others, with a call or an operator between: each level asks twice for the type of the
/// next, so that 10 levels take a tenth of a second, 16 six. `ELSE CASE` and `ELSE IF` chains do not count.
const VALUES_MAX: usize = 10;

/// Operands of BETWEEN and CASE in one another: each becomes the argument of a call, which the parser did not count as one.
const OPERANDS_MAX: usize = 50;

/// Rows in rows: comparing them copies what is in them.
const ROWS_MAX: usize = 3;

/// Error if something is nested deeper than it may be.
pub(super) fn check(query: &Query) -> Result<(), SqlError> {
    walk::look(query, &mut Levels::default())
}

/// How many levels are open. Places are those of expressions of the tree that is looked at.
#[derive(Default)]
struct Levels {
    subqueries: usize,
    values: usize,
    operands: usize,
    rows: usize,
    /// Values of CASE and IF.
    value_places: HashSet<*const Expr>,
    /// Operands of CASE.
    operand_places: HashSet<*const Expr>,
    /// `IN (SELECT ...)` as a condition.
    condition_places: HashSet<*const Expr>,
}

impl Levels {
    /// What an expression counts as a subquery.
    fn subquery(&self, expr: &Expr) -> usize {
        match expr {
            Expr::InSubquery { expr: row, .. }
                if is_row(row) && !self.condition_places.contains(&ptr::from_ref(expr)) =>
            {
                ROW_SUBQUERY
            }
            _ => usize::from(is_subquery(expr)),
        }
    }
}

impl Look for Levels {
    fn select(&mut self, select: &Select) -> Result<(), SqlError> {
        for condition in select.selection.iter().chain(&select.having) {
            memberships(condition, &mut self.condition_places);
        }
        Ok(())
    }

    fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
        self.subqueries += self.subquery(expr);
        self.values += usize::from(self.value_places.contains(&ptr::from_ref(expr)));
        self.operands += usize::from(matches!(expr, Expr::Between { .. }));
        self.operands += usize::from(self.operand_places.contains(&ptr::from_ref(expr)));
        self.rows += usize::from(is_row(expr));
        if let Expr::Case { operand: Some(operand), .. } = expr {
            self.operand_places.insert(ptr::from_ref(operand.as_ref()));
        }
        self.value_places.extend(values(expr).into_iter().filter(|value| !is_choice(value)).map(ptr::from_ref));
        let limits = [
            (self.subqueries, SUBQUERIES_MAX, "subqueries in conditions", "use joins, or WITH"),
            (self.values, VALUES_MAX, "values of CASE and IF", "name the inner ones in a subquery of FROM"),
            (self.operands, OPERANDS_MAX, "operands of BETWEEN and CASE", "name the inner ones in a subquery of FROM"),
            (self.rows, ROWS_MAX, "rows", "compare their values one by one"),
        ];
        match limits.into_iter().find(|(levels, most, ..)| levels > most) {
            None => Ok(()),
            Some((_, most, what, instead)) => Err(SqlError {
                code: 1436,
                sqlstate: "HY000",
                message: format!("{what} are nested deeper than {most} levels; {instead}"),
                position: None,
            }),
        }
    }

    fn after_expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
        self.subqueries -= self.subquery(expr);
        self.values -= usize::from(self.value_places.remove(&ptr::from_ref(expr)));
        self.operands -= usize::from(matches!(expr, Expr::Between { .. }));
        self.operands -= usize::from(self.operand_places.remove(&ptr::from_ref(expr)));
        self.rows -= usize::from(is_row(expr));
        Ok(())
    }
}

pub(super) fn is_subquery(expr: &Expr) -> bool {
    matches!(expr, Expr::Subquery(_) | Expr::InSubquery { .. } | Expr::Exists { .. })
}

fn is_row(expr: &Expr) -> bool {
    matches!(expr, Expr::Tuple(values) if values.len() > 1)
}

/// It is CASE or IF.
fn is_choice(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_choice(inner),
        Expr::Case { .. } => true,
        Expr::Function(function) => function_name(function).as_deref() == Some("if"),
        _ => false,
    }
}

/// The values of CASE and IF.
fn values(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Case { conditions, else_result, .. } => {
            conditions.iter().map(|when| &when.result).chain(else_result.as_deref()).collect()
        }
        Expr::Function(function) if is_choice(expr) => match &function.args {
            FunctionArguments::List(list) => (list.args.iter().skip(1))
                .filter_map(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
                    _ => None,
                })
                .collect(),
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// The places of `IN (SELECT ...)` among what AND, OR and NOT combine to a condition.
fn memberships(condition: &Expr, places: &mut HashSet<*const Expr>) {
    match condition {
        Expr::Nested(inner) => memberships(inner, places),
        Expr::UnaryOp { op: UnaryOperator::Not | UnaryOperator::BangNot, expr } => memberships(expr, places),
        Expr::BinaryOp { left, op: BinaryOperator::And | BinaryOperator::Or, right } => {
            memberships(left, places);
            memberships(right, places);
        }
        Expr::InSubquery { .. } => {
            places.insert(ptr::from_ref(condition));
        }
        _ => {}
    }
}
