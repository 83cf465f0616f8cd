//! ORDER BY of SELECT DISTINCT by an expression of the select list.
//!
//! `SELECT DISTINCT a + b FROM t ORDER BY a + b` sorts by the item. DataFusion looks for the columns a and b, which
//! rows without duplicates no longer have. So the expression becomes the number of the item.

use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{
    Distinct, Expr, Ident, ObjectNamePart, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value,
};

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
        let table = only_table(select);
        let is_wanted = |item: &Expr| *item == wanted || table.as_ref().is_some_and(|t| is_column(item, t, &wanted));
        if let Some(at) = items.iter().position(|(item, _)| is_wanted(item)) {
            by.expr = Expr::value(Value::Number((at + 1).to_string(), false));
        }
    }
}

/// Returns the name by which a query knows the only table that it reads; `None` if there are several, or none.
fn only_table(select: &Select) -> Option<String> {
    let [only] = select.from.as_slice() else { return None };
    let name = match &only.relation {
        _ if !only.joins.is_empty() => return None,
        TableFactor::Table { alias: Some(alias), .. } | TableFactor::Derived { alias: Some(alias), .. } => &alias.name,
        TableFactor::Table { name, .. } => name.0.last()?.as_ident()?,
        _ => return None,
    };
    Some(name.value.to_lowercase())
}

/// Returns whether a bare name is the column that the other expression names with its table.
fn is_column(bare: &Expr, table: &str, qualified: &Expr) -> bool {
    match (bare, qualified) {
        (Expr::Identifier(name), Expr::CompoundIdentifier(parts)) => {
            matches!(parts.as_slice(), [of, column] if of.value == table && column == name)
        }
        _ => false,
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

/// Returns an expression without the parentheses around it, and with all names in lower case and without quotes.
fn comparable(expr: &Expr) -> Expr {
    struct Plain;
    impl Change for Plain {
        fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
            let plain = |name: &mut Ident| *name = Ident::new(name.value.to_lowercase());
            match expr {
                Expr::Identifier(name) => plain(name),
                Expr::CompoundIdentifier(parts) => parts.iter_mut().for_each(plain),
                Expr::Function(function) => function.name.0.iter_mut().for_each(|part| {
                    if let ObjectNamePart::Identifier(name) = part {
                        plain(name);
                    }
                }),
                _ => {}
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
    let _ = walk::change_expr(&mut expr, &mut Plain);
    expr
}
