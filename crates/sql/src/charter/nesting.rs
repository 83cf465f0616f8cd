//! Limits on the nesting of expressions whose planning takes time exponential in their depth.

use std::collections::HashSet;
use std::ptr;

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::function_name;
use dipper_dialect::walk::{self, Look};
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, UnaryOperator,
};

/// The largest depth of subqueries in conditions and select lists of one another. DataFusion checks each level together
/// with all levels below it, twice: 16 levels take half a second, 20 take ten. Subqueries in FROM do not count.
const SUBQUERIES_MAX: usize = 16;

/// The levels that `(a, b) IN (SELECT ...)` counts where it is not a condition: as a value it has two copies of its
/// subquery.
const ROW_SUBQUERY: usize = 5;

/// The largest depth of CASE and IF in values of one another, with a call or an operator between. Each level asks twice
/// for the type of the next: 10 levels take a tenth of a second, 16 take six. `ELSE CASE` and `ELSE IF` chains do not
/// count.
const VALUES_MAX: usize = 10;

/// The largest depth of BETWEEN and CASE in operands of one another: each becomes the argument of a call, which the
/// parser did not count.
const OPERANDS_MAX: usize = 50;

/// The largest depth of rows in rows: a comparison of rows copies their parts.
const ROWS_MAX: usize = 3;

/// Fails with 1436 if something is nested deeper than it may be.
pub(super) fn check(query: &Query) -> Result<(), SqlError> {
    walk::look(query, &mut Levels::default())
}

/// The numbers of open levels. Places are addresses of expressions in the tree under inspection.
#[derive(Default)]
struct Levels {
    subqueries: usize,
    values: usize,
    operands: usize,
    rows: usize,
    /// The places of values of CASE and IF.
    value_places: HashSet<*const Expr>,
    /// The places of operands of CASE.
    operand_places: HashSet<*const Expr>,
    /// The places of `IN (SELECT ...)` that are conditions.
    condition_places: HashSet<*const Expr>,
}

impl Levels {
    /// Returns the number of subquery levels that an expression counts.
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

/// Whether an expression is CASE or IF.
fn is_choice(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_choice(inner),
        Expr::Case { .. } => true,
        Expr::Function(function) => function_name(function).as_deref() == Some("if"),
        _ => false,
    }
}

/// Returns the values of CASE and IF.
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

/// Collects the places of `IN (SELECT ...)` among the terms that AND, OR and NOT combine into a condition.
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
