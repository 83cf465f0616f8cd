//! Aliases of the select list that ORDER BY does not mean.
//!
//! `SELECT 1 AS a FROM t ORDER BY t.a` and `SELECT max(a) AS a FROM t GROUP BY b ORDER BY sum(a)` sort by the column a.
//! DataFusion either adds the column to the select list to sort by it, where it collides with the item `a`, or takes
//! the item for it. So the item is renamed. A subquery whose item is renamed becomes one level deeper, and the outer
//! level restores the name.
//!
//! `SELECT k AS a FROM t GROUP BY k ORDER BY sum(a)` means the item where no table has a column `a`. DataFusion looks
//! there among the columns only, so the item's expression takes the place of the name.

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::{self, function_name};
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableWithJoins, Value};

use super::grouping_keys::key_name;
use super::having;
use super::names::{MARK, own_name, visible};
use super::nesting::is_subquery;
use super::rewrite::nested;
use super::scope::{self, Environment};
use super::session::Context;
use super::tables;
use crate::functions;

/// Puts the items of the select list in the place of their names inside aggregates and window functions of ORDER BY, where
/// no table of FROM has a column of the name.
///
/// # Errors
/// The errors of finding out the columns of tables.
pub(super) fn put_in(query: &mut Query, ansi_quotes: bool, context: &Context<'_>) -> Result<(), SqlError> {
    struct Items<'a>(Environment<'a>);
    impl Change for Items<'_> {
        fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            self.0.enter(query)?;
            let (SetExpr::Select(select), Some(order)) = (query.body.as_ref(), &mut query.order_by) else {
                return Ok(());
            };
            let OrderByKind::Expressions(order) = &mut order.kind else { return Ok(()) };
            let steady = |expr: &Expr| !walk::any(expr, having::is_unsteady);
            let items = select.projection.iter().filter_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if steady(expr) => {
                    Some((visible(&alias.value).to_string(), expr.clone()))
                }
                _ => None,
            });
            let mut named = Filling { items: items.collect(), open: Vec::new(), found: Vec::new(), fill: false };
            order.iter_mut().for_each(|o| named.walk(&mut o.expr));
            if named.found.is_empty() {
                return Ok(());
            }
            let Some(columns) = self.0.from(&select.from)? else { return Ok(()) };
            let Filling { items, found, .. } = named;
            let is_meant = |name: &str| {
                found.iter().any(|found| scope::same(found, name))
                    && !columns.iter().any(|column| scope::same(&column.name, name))
            };
            let items = items.into_iter().filter(|(name, _)| is_meant(name)).collect();
            let mut filling = Filling { items, open: Vec::new(), found: Vec::new(), fill: true };
            order.iter_mut().for_each(|o| filling.walk(&mut o.expr));
            Ok(())
        }

        fn after_query(&mut self, _: &mut Query) -> Result<(), SqlError> {
            self.0.leave();
            Ok(())
        }
    }
    struct Calls(bool);
    impl Look for Calls {
        fn query(&mut self, query: &Query) -> Result<(), SqlError> {
            if let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|order| &order.kind) {
                self.0 |= order.iter().any(|o| walk::any(&o.expr, is_over_rows));
            }
            Ok(())
        }
    }
    let mut calls = Calls(false);
    // Looking cannot fail.
    let _ = walk::look(query, &mut calls);
    match calls.0 {
        true => walk::change(query, &mut Items(Environment::of(query, ansi_quotes, context))),
        false => Ok(()),
    }
}

/// Whether an expression is a call of an aggregate or a window function.
fn is_over_rows(expr: &Expr) -> bool {
    is_aggregate(expr) || matches!(expr, Expr::Function(function) if function.over.is_some())
}

/// The walk over the names of items inside aggregates and window functions, outside of subqueries.
struct Filling {
    items: Vec<(String, Expr)>,
    /// For each open call and subquery, whether it is a call.
    open: Vec<bool>,
    found: Vec<String>,
    /// Whether the items take the place of their names.
    fill: bool,
}

impl Filling {
    fn walk(&mut self, expr: &mut Expr) {
        // Filling in cannot fail.
        let _ = walk::change_expr(expr, self);
    }
}

impl Change for Filling {
    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if is_over_rows(expr) || is_subquery(expr) {
            self.open.push(is_over_rows(expr));
        }
        Ok(())
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if is_over_rows(expr) || is_subquery(expr) {
            self.open.pop();
        } else if let Expr::Identifier(name) = expr
            && !self.open.is_empty()
            && self.open.iter().all(|is_call| *is_call)
            && let Some((_, item)) = self.items.iter().find(|(alias, _)| scope::same(alias, &name.value))
        {
            self.found.push(name.value.clone());
            if self.fill {
                *expr = nested(item.clone());
            }
        }
        Ok(())
    }
}

/// Renames these items in the outermost query, whose headers are already known, and in all others.
pub(super) fn rename(query: &mut Query) {
    struct Inner(*const Query);
    impl Change for Inner {
        fn after_query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            if !std::ptr::eq(self.0, query) && renamed(query) {
                restore(query);
            }
            Ok(())
        }
    }
    renamed(query);
    let outermost = std::ptr::from_ref(query);
    // Renaming cannot fail.
    let _ = walk::change(query, &mut Inner(outermost));
}

/// Renames items of one query; returns whether there were any.
fn renamed(query: &mut Query) -> bool {
    let (SetExpr::Select(select), Some(order)) = (query.body.as_mut(), &mut query.order_by) else { return false };
    let OrderByKind::Expressions(order) = &mut order.kind else { return false };
    if select.distinct.is_some() || select.qualify.is_some() {
        return false;
    }
    let mut any = false;
    for at in 0..select.projection.len() {
        let SelectItem::ExprWithAlias { expr, alias } = &select.projection[at] else { continue };
        if is_renamed(alias) {
            continue;
        }
        let name = visible(&alias.value).to_string();
        let mut meant = Meant { name: &name, item: expr, open: Vec::new(), found: false };
        order.iter().for_each(|o| meant.look(&o.expr));
        if !meant.found {
            continue;
        }
        let new = Ident::with_quote('"', format!("{name}{MARK}o{at}"));
        let mut naming = Naming { name: name.clone(), new: new.clone(), open: 0 };
        order.iter_mut().for_each(|o| naming.walk(&mut o.expr));
        if !is_key(select, &name) {
            select.having.iter_mut().for_each(|having| naming.walk(having));
        }
        if let SelectItem::ExprWithAlias { alias, .. } = &mut select.projection[at] {
            *alias = new;
        }
        any = true;
    }
    any
}

/// Whether a name was given here.
fn is_renamed(name: &Ident) -> bool {
    name.value.rsplit_once(MARK).is_some_and(|(_, mark)| mark.starts_with('o'))
}

fn is_key(select: &Select, name: &str) -> bool {
    match &select.group_by {
        sqlparser::ast::GroupByExpr::Expressions(keys, _) => {
            keys.iter().any(|key| key_name(key, &select.projection).eq_ignore_ascii_case(name))
        }
        sqlparser::ast::GroupByExpr::All(_) => false,
    }
}

/// Wraps the query in a select list with the names that clients and outer queries know.
fn restore(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let items: Option<Vec<SelectItem>> = (select.projection.iter())
        .map(|item| {
            let name = match item {
                SelectItem::ExprWithAlias { alias, .. } => alias,
                SelectItem::UnnamedExpr(expr) => own_name(expr)?,
                _ => return None,
            };
            let alias = if is_renamed(name) { visible(&name.value) } else { &name.value };
            let alias = Ident::with_quote('"', alias);
            let expr = Expr::Identifier(Ident::with_quote('"', &name.value));
            Some(SelectItem::ExprWithAlias { expr, alias })
        })
        .collect();
    // Beside `*` no name is restored: a query that reads the item by its name is refused.
    let Some(items) = items else { return };
    let inner = std::mem::replace(query, tree::select(items, Vec::new()));
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from.push(TableWithJoins { relation: tables::derived(inner, None), joins: Vec::new() });
    }
}

fn is_aggregate(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => {
            function.over.is_none() && function_name(function).is_some_and(|name| functions::is_aggregate(&name))
        }
        _ => false,
    }
}

/// The search for a column of the item's name that is not the item: qualified by its table, or inside an aggregate.
struct Meant<'a> {
    name: &'a str,
    item: &'a Expr,
    /// For each open subquery or aggregate, whether it is an aggregate.
    open: Vec<bool>,
    found: bool,
}

impl Meant<'_> {
    fn look(&mut self, expr: &Expr) {
        // Looking cannot fail.
        let _ = walk::look_expr(expr, self);
    }
}

impl Look for Meant<'_> {
    fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
        if is_aggregate(expr) || is_subquery(expr) {
            self.open.push(is_aggregate(expr));
        }
        match expr {
            Expr::CompoundIdentifier(parts) if self.open.is_empty() => {
                let is_it = parts.last().is_some_and(|last| last.value.eq_ignore_ascii_case(self.name));
                self.found |= is_it && expr != self.item;
            }
            Expr::Identifier(name) => {
                let in_aggregate = !self.open.is_empty() && self.open.iter().all(|aggregate| *aggregate);
                self.found |= in_aggregate && name.value.eq_ignore_ascii_case(self.name) && expr != self.item;
            }
            _ => {}
        }
        Ok(())
    }

    fn after_expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
        if is_aggregate(expr) || is_subquery(expr) {
            self.open.pop();
        }
        Ok(())
    }
}

/// The walk that replaces the item's name by the new one, outside of aggregates and subqueries.
struct Naming {
    name: String,
    new: Ident,
    open: usize,
}

impl Naming {
    fn walk(&mut self, expr: &mut Expr) {
        // Renaming cannot fail.
        let _ = walk::change_expr(expr, self);
        // Parentheses around the expression come off: in `ORDER BY (a)` the name is a name, too.
        while let Expr::Nested(inner) = expr {
            *expr = std::mem::replace(&mut **inner, Expr::value(Value::Null));
        }
    }
}

impl Change for Naming {
    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        self.open += usize::from(is_aggregate(expr) || is_subquery(expr));
        Ok(())
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if is_aggregate(expr) || is_subquery(expr) {
            self.open -= 1;
        } else if let Expr::Identifier(name) = expr
            && self.open == 0
            && name.value.eq_ignore_ascii_case(&self.name)
        {
            *name = self.new.clone();
        }
        Ok(())
    }
}
