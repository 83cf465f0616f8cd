//! ORDER BY of SELECT DISTINCT by an expression of the select list.
//!
//! `SELECT DISTINCT a + b FROM t ORDER BY a + b` sorts by the item. DataFusion looks for the columns a and b, which
//! rows without duplicates no longer have. So the expression becomes the number of the item.

use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{Distinct, Expr, Ident, OrderByKind, Query, SelectItem, SetExpr, Value};

/// Replaces such expressions by numbers of items, in a query and in all within it.
pub(super) fn by_place(query: &mut Query) {
    struct All;
    impl Change for All {
        fn after_query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            of_one(query);
            Ok(())
        }
    }
    // Replacing cannot fail.
    let _ = walk::change(query, &mut All);
}

fn of_one(query: &mut Query) {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by) else { return };
    let OrderByKind::Expressions(order) = &mut order.kind else { return };
    if !matches!(select.distinct, Some(Distinct::Distinct)) {
        return;
    }
    // Behind `*`, an item's place is not known.
    let items: Vec<(Expr, Option<&Ident>)> = (select.projection.iter())
        .map_while(|item| match item {
            SelectItem::UnnamedExpr(expr) => Some((comparable(expr), None)),
            SelectItem::ExprWithAlias { expr, alias } => Some((comparable(expr), Some(alias))),
            _ => None,
        })
        .collect();
    for by in order {
        let wanted = comparable(&by.expr);
        // A number is that of an item already.
        if matches!(wanted, Expr::Value(_)) || names_item(&wanted, &items) {
            continue;
        }
        if let Some(at) = items.iter().position(|(item, _)| *item == wanted) {
            by.expr = Expr::value(Value::Number((at + 1).to_string(), false));
        }
    }
}

/// Returns whether a name within an expression means an item by its alias, which is not a column of that name.
fn names_item(expr: &Expr, items: &[(Expr, Option<&Ident>)]) -> bool {
    struct Names<'a>(&'a [(Expr, Option<&'a Ident>)], bool);
    impl Look for Names<'_> {
        fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
            let Expr::Identifier(name) = expr else { return Ok(()) };
            self.1 |= self.0.iter().any(|(item, alias)| {
                alias.is_some_and(|alias| alias.value.eq_ignore_ascii_case(&name.value)) && item != expr
            });
            Ok(())
        }
    }
    let mut names = Names(items, false);
    // Looking cannot fail.
    let _ = walk::look_expr(expr, &mut names);
    names.1
}

/// Returns an expression without the parentheses around it, and with its functions' names in lower case.
fn comparable(expr: &Expr) -> Expr {
    struct Lower;
    impl Change for Lower {
        fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
            if let Expr::Function(function) = expr {
                for part in &mut function.name.0 {
                    if let sqlparser::ast::ObjectNamePart::Identifier(name) = part {
                        name.value.make_ascii_lowercase();
                    }
                }
            }
            Ok(())
        }
    }
    let mut expr = expr;
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    let mut expr = expr.clone();
    // Renaming cannot fail.
    let _ = walk::change_expr(&mut expr, &mut Lower);
    expr
}
