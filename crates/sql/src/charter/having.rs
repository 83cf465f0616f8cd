//! Rules of HAVING that DataFusion lacks.
//!
//! - A name in HAVING that the select list gives to an item means the item, also where a column has that name, unless
//!   it is a key of GROUP BY. Inside an aggregate it is the column.
//! - Without groups and aggregates, HAVING is one more condition on rows (Doris's rule HAVING_TO_FILTER). An aggregate
//!   in ORDER BY makes all rows one group, too; a column that HAVING names is then that of any row, and NULL if there
//!   is no row.
//! - Without HAVING, DataFusion looks up each item of the select list among all aggregates, which it hashes again for
//!   each item. A long list gets HAVING TRUE, which the optimizer removes: behind a filter nothing is looked up.

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::function_name;
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{
    BinaryOperator, Expr, Function, GroupByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
};

use super::loose_groups;
use super::names::own_name;
use super::nesting::is_subquery;
use super::rewrite::{binary, nested};
use super::wide::WIDE;
use crate::functions;

/// Rewrites HAVING of a query, before anything inside the query is rewritten.
pub(super) fn rewrite(query: &mut Query) {
    let ordered = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(keys)) => keys.iter().any(|key| has_aggregate(&key.expr)),
        _ => false,
    };
    body(&mut query.body, ordered);
}

fn body(of: &mut SetExpr, ordered: bool) {
    match of {
        SetExpr::Select(select) => rewrite_select(select, ordered),
        SetExpr::SetOperation { left, right, .. } => {
            body(left, false);
            body(right, false);
        }
        _ => {}
    }
}

/// Rewrites HAVING of one SELECT. `ordered`: ORDER BY contains an aggregate.
fn rewrite_select(select: &mut Select, ordered: bool) {
    let GroupByExpr::Expressions(keys, _) = &select.group_by else { return };
    let Some(mut having) = select.having.take() else {
        if select.projection.len() >= WIDE && (!keys.is_empty() || lists_aggregates(select)) {
            select.having = Some(Expr::value(Value::Boolean(true)));
        }
        return;
    };
    // A key that is the number of an item is that item.
    let is_key = |name: &str| keys.iter().filter_map(own_name).any(|key| key.value.eq_ignore_ascii_case(name));
    let items = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if !is_key(&alias.value) => Some((alias.value.clone(), expr.clone())),
        _ => None,
    });
    let mut names = Names::new(items.collect());
    names.walk(&mut having);
    let grouped = !keys.is_empty() || names.aggregates || lists_aggregates(select);
    // A value that differs from its evaluation in the select list cannot be computed ahead of it.
    if grouped || ordered || names.unsteady {
        select.having = Some(having);
        if ordered && !grouped {
            loose_groups::condition(select);
        }
        return;
    }
    select.selection = Some(match select.selection.take() {
        Some(condition) => binary(nested(condition), BinaryOperator::And, nested(having)),
        None => having,
    });
}

fn lists_aggregates(select: &Select) -> bool {
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => has_aggregate(expr),
        _ => false,
    })
}

/// Replaces names by their items and finds aggregates, outside of subqueries.
struct Names {
    items: Vec<(String, Expr)>,
    /// Whether names at this point are columns, as in aggregates and subqueries.
    inside: bool,
    /// The value of `inside` around each aggregate and subquery that is open.
    outside: Vec<bool>,
    aggregates: bool,
    /// Whether an item that was put in is volatile or a window function.
    unsteady: bool,
}

impl Names {
    fn new(items: Vec<(String, Expr)>) -> Names {
        Names { items, inside: false, outside: Vec::new(), aggregates: false, unsteady: false }
    }

    fn walk(&mut self, expr: &mut Expr) {
        // Renaming cannot fail.
        let _ = walk::change_expr(expr, self);
    }
}

impl Change for Names {
    fn query(&mut self, _: &mut Query) -> Result<(), SqlError> {
        self.inside = true;
        Ok(())
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        let aggregate = is_aggregate(expr);
        if aggregate || is_subquery(expr) {
            self.outside.push(self.inside);
        }
        if aggregate {
            self.aggregates |= !self.inside;
            self.inside = true;
        }
        Ok(())
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if is_aggregate(expr) || is_subquery(expr) {
            self.inside = self.outside.pop().unwrap_or(false);
        } else if let Expr::Identifier(name) = expr
            && !self.inside
            && let Some((_, item)) = self.items.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(&name.value))
        {
            self.unsteady |= walk::any(item, is_unsteady);
            *expr = nested(item.clone());
        }
        Ok(())
    }
}

/// Whether an expression contains an aggregate that belongs to its own query.
pub(super) fn has_aggregate(expr: &Expr) -> bool {
    struct Aggregates {
        subqueries: usize,
        found: bool,
    }
    impl Look for Aggregates {
        fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
            self.subqueries += usize::from(is_subquery(expr));
            self.found |= self.subqueries == 0 && is_aggregate(expr);
            Ok(())
        }

        fn after_expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
            self.subqueries -= usize::from(is_subquery(expr));
            Ok(())
        }
    }
    let mut aggregates = Aggregates { subqueries: 0, found: false };
    // Looking cannot fail.
    let _ = walk::look_expr(expr, &mut aggregates);
    aggregates.found
}

/// Returns a called function and its name.
fn called(expr: &Expr) -> Option<(&Function, String)> {
    match expr {
        Expr::Function(function) => Some((function, function_name(function)?)),
        _ => None,
    }
}

fn is_aggregate(expr: &Expr) -> bool {
    called(expr).is_some_and(|(function, name)| function.over.is_none() && functions::is_aggregate(&name))
}

/// Whether an expression is a window function, or may have another value when it is computed again.
pub(super) fn is_unsteady(expr: &Expr) -> bool {
    called(expr).is_some_and(|(function, name)| function.over.is_some() || functions::is_volatile(&name))
}

#[cfg(test)]
mod tests {
    use dipper_dialect::parser::{ParseOptions, parse};
    use dipper_dialect::statement::Statement;

    use super::*;

    fn having(sql: &str) -> Option<String> {
        let Statement::Query(query) = parse(sql, &ParseOptions::default()).unwrap().remove(0).statement else {
            panic!("{sql}");
        };
        let mut ast = query.ast;
        rewrite(&mut ast);
        match ast.body.as_ref() {
            SetExpr::Select(select) => select.having.as_ref().map(|having| having.to_string()),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn long_lists_of_aggregates_stand_behind_a_filter() {
        let list = |form: &str| (0..WIDE).map(|n| form.replace('N', &n.to_string())).collect::<Vec<_>>().join(", ");
        assert_eq!(having(&format!("SELECT {} FROM t", list("sum(cN)"))), Some("true".into()));
        assert_eq!(having(&format!("SELECT {} FROM t GROUP BY c1", list("cN"))), Some("true".into()));
        assert_eq!(having(&format!("SELECT {} FROM t", list("cN"))), None);
        assert_eq!(
            having(&format!("SELECT {} FROM t HAVING max(c1) > 1", list("sum(cN)"))),
            Some("max(c1) > 1".into())
        );
        assert_eq!(having("SELECT sum(c1) FROM t"), None);
    }
}
