//! VALUES rewritten as a UNION ALL of SELECTs, one for each row.
//!
//! A plan of VALUES holds only constants. A row with a subquery in a cell, or with a column of an enclosing query,
//! needs a SELECT of its own.

use std::collections::VecDeque;

use sqlparser::ast::{self, Expr, Ident, Query, SelectItem, SetExpr, TableFactor, TableWithJoins, Value};

use crate::tree;

/// The column that numbers the rows.
const NUMBER: &str = "row_number";

/// Returns the name of a column of VALUES: `column1` for `at` 0.
fn column(at: usize) -> Ident {
    Ident::with_quote('`', format!("column{}", at + 1))
}

/// Returns a query whose result is `rows` in their order, with the columns `column1`, `column2` and so on; `None` if
/// there are no rows. All rows must have as many cells as the first one.
pub fn in_order(rows: Vec<Vec<Expr>>) -> Option<Query> {
    let width = rows.first()?.len();
    let number = Ident::with_quote('`', NUMBER);
    let select = |(at, cells): (usize, Vec<Expr>)| {
        let cells = cells.into_iter().enumerate().map(|(at, cell)| (cell, column(at)));
        let numbered = cells.chain([(Expr::value(Value::Number(at.to_string(), false)), number.clone())]);
        let items = numbered.map(|(expr, alias)| SelectItem::ExprWithAlias { expr, alias });
        tree::select(items.collect(), Vec::new()).body
    };
    let mut all = tree::select(Vec::new(), Vec::new());
    all.body = union_all(rows.into_iter().enumerate().map(select).collect())?;
    let relation = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(all),
        alias: Some(tree::alias(Ident::with_quote('`', "rows"))),
        sample: None,
    };
    let items = (0..width).map(|at| SelectItem::UnnamedExpr(Expr::Identifier(column(at)))).collect();
    let mut query = tree::select(items, vec![TableWithJoins { relation, joins: Vec::new() }]);
    let by_number = ast::OrderByExpr {
        expr: Expr::Identifier(number),
        options: ast::OrderByOptions { asc: None, nulls_first: None },
        with_fill: None,
    };
    query.order_by = Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(vec![by_number]), interpolate: None });
    Some(query)
}

/// Builds a UNION ALL as a balanced tree, because the planner recurses once per level. `None` if there are no parts.
fn union_all(mut parts: VecDeque<Box<SetExpr>>) -> Option<Box<SetExpr>> {
    while parts.len() > 1 {
        let mut level = VecDeque::with_capacity(parts.len().div_ceil(2));
        while let Some(left) = parts.pop_front() {
            level.push_back(match parts.pop_front() {
                Some(right) => Box::new(SetExpr::SetOperation {
                    op: ast::SetOperator::Union,
                    set_quantifier: ast::SetQuantifier::All,
                    left,
                    right,
                }),
                None => left,
            });
        }
        parts = level;
    }
    parts.pop_front()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbered_in_a_tree_that_is_flat() {
        let rows = (0..5).map(|n| vec![Expr::value(Value::Number(n.to_string(), false))]).collect();
        let text = in_order(rows).map(|query| query.to_string()).unwrap_or_default();
        assert!(text.starts_with("SELECT `column1` FROM (SELECT 0 AS `column1`, 0 AS `row_number`"), "{text}");
        assert!(text.contains("SELECT 4 AS `column1`, 4 AS `row_number`"), "{text}");
        assert!(text.ends_with("ORDER BY `row_number`"), "{text}");
        assert!(in_order(Vec::new()).is_none());
    }
}
