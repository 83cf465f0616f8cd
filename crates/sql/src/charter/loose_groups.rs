//! Grouping without the SQL mode ONLY_FULL_GROUP_BY: a column that is not a key of GROUP BY has the value of any row of
//! its group. Aggregates without GROUP BY make one group of all rows.
//!
//! A column that is not a key becomes `any_value(column)` in the select list, HAVING, QUALIFY and ORDER BY, also inside
//! expressions. Keys stay unchanged: with ROLLUP, CUBE and GROUPING SETS they are NULL in the rows that leave them out.

use std::collections::HashSet;

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::{call, function_name};
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{Expr, GroupByExpr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins};

use super::grouping_keys::key_place;
use super::having;
use super::names::own_name;
use super::nesting::is_subquery;
use super::scope::{self, Environment};
use super::session::Context;
use super::tables;
use crate::functions;

/// Qualifies keys of GROUP BY that name both a column and an alias of the select list, so that they mean the column: in
/// `SELECT v AS k ... GROUP BY k`, the key is the column `k`, and `v` is not a key. A key is qualified if exactly one
/// column of FROM has its name.
///
/// # Errors
/// The errors of [`Environment::factor`], for instance if the columns of a table cannot be read.
pub(super) fn columns_first(query: &mut Query, ansi_quotes: bool, context: &Context<'_>) -> Result<(), SqlError> {
    struct First<'a>(Environment<'a>);
    impl Change for First<'_> {
        fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            self.0.enter(query)
        }

        fn after_query(&mut self, _: &mut Query) -> Result<(), SqlError> {
            self.0.leave();
            Ok(())
        }

        fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
            let Select { group_by: GroupByExpr::Expressions(keys, _), projection, from, .. } = select else {
                return Ok(());
            };
            let aliases = projection.iter().filter_map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.as_str()),
                _ => None,
            });
            let aliases: Vec<&str> = aliases.collect();
            let mut shared = Vec::new();
            keys.iter_mut().for_each(|key| bare_names(key, &aliases, &mut shared));
            if shared.is_empty() {
                return Ok(());
            }
            let Some(columns) = self.0.from(from)? else { return Ok(()) };
            for key in shared {
                let Expr::Identifier(name) = &*key else { continue };
                let mut meant = columns.iter().filter(|column| scope::same(&column.name, &name.value));
                if let (Some(column), None) = (meant.next(), meant.next()) {
                    *key = column.value.clone();
                }
            }
            Ok(())
        }
    }
    walk::change(query, &mut First(Environment::of(query, ansi_quotes, context)))
}

/// Collects in `found` the keys that are an alias of the select list, also inside ROLLUP, CUBE and GROUPING SETS.
fn bare_names<'a>(key: &'a mut Expr, aliases: &[&str], found: &mut Vec<&'a mut Expr>) {
    match key {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
            sets.iter_mut().flatten().for_each(|key| bare_names(key, aliases, found));
        }
        Expr::Tuple(parts) => parts.iter_mut().for_each(|key| bare_names(key, aliases, found)),
        Expr::Nested(inner) => bare_names(inner, aliases, found),
        Expr::Identifier(name) if aliases.iter().any(|alias| scope::same(alias, &name.value)) => found.push(key),
        _ => {}
    }
}

/// Puts `any_value` around columns that are not keys, in all queries that group their rows.
pub(super) fn any_values(query: &mut Query) {
    struct Loose;
    impl Change for Loose {
        fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            let (body, order) = walk::body_and_order(query);
            loosen(body, order);
            Ok(())
        }
    }
    // Rewriting cannot fail.
    let _ = walk::change(query, &mut Loose);
}

fn loosen(body: &mut SetExpr, order: Vec<&mut Expr>) {
    match body {
        SetExpr::Select(select) => grouped(select, order),
        SetExpr::SetOperation { left, right, .. } => {
            loosen(left, Vec::new());
            loosen(right, Vec::new());
        }
        _ => {}
    }
}

/// Rewrites HAVING of a SELECT that groups its rows without GROUP BY, because ORDER BY has an aggregate.
pub(super) fn condition(select: &mut Select) {
    let mut loose = Loosening { aliases: aliases(select), ..Loosening::of(select, Vec::new()) };
    select.having.iter_mut().for_each(|having| loose.walk(having));
}

/// Returns the aliases of the select list, in lower case.
fn aliases(select: &Select) -> HashSet<String> {
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.to_lowercase()),
        _ => None,
    });
    named.collect()
}

/// Rewrites a SELECT, and the ORDER BY of its query, if it has GROUP BY or aggregates.
fn grouped(select: &mut Select, order: Vec<&mut Expr>) {
    let GroupByExpr::Expressions(written, _) = &select.group_by else { return };
    let listed = select.projection.iter().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let mut all = listed.chain(&select.having).chain(&select.qualify).chain(order.iter().map(|key| &**key));
    if written.is_empty() && !all.any(having::has_aggregate) {
        return;
    }
    let mut keys = Vec::new();
    written.iter().for_each(|key| keys_of(key, &select.projection, &mut keys));
    let mut loose = Loosening::of(select, keys);
    for item in &mut select.projection {
        match item {
            SelectItem::ExprWithAlias { expr, .. } => loose.walk(expr),
            SelectItem::UnnamedExpr(expr) => {
                let name = own_name(expr).cloned();
                loose.walk(expr);
                // An item that was a column keeps the column's name.
                if let (Some(name), None) = (name, own_name(expr)) {
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: name };
                }
            }
            _ => {}
        }
    }
    loose.aliases = aliases(select);
    for expr in select.having.iter_mut().chain(select.qualify.iter_mut()).chain(order) {
        loose.walk(expr);
    }
}

/// Collects in `keys` the expressions of a key of GROUP BY, also inside ROLLUP, CUBE and GROUPING SETS. For a key that
/// is the number of an item, it adds the item's expression; for one that is an alias, the alias and the expression.
fn keys_of(key: &Expr, items: &[SelectItem], keys: &mut Vec<Expr>) {
    match key {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
            sets.iter().flatten().for_each(|key| keys_of(key, items, keys));
        }
        Expr::Tuple(parts) => parts.iter().for_each(|key| keys_of(key, items, keys)),
        Expr::Nested(inner) => keys_of(inner, items, keys),
        _ => {
            keys.push(match key_place(key, items) {
                Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) => expr.clone(),
                _ => key.clone(),
            });
            // An alias means the item where no column has that name, so the item's expression is a key, too.
            if let Expr::Identifier(name) = key {
                keys.extend(items.iter().filter_map(|item| match item {
                    SelectItem::ExprWithAlias { expr, alias } if alias.value.eq_ignore_ascii_case(&name.value) => {
                        Some(expr.clone())
                    }
                    _ => None,
                }));
            }
        }
    }
}

/// Collects in `names` the names that can qualify columns of FROM.
fn relations_of(tables: &TableWithJoins, names: &mut HashSet<String>) {
    let joined = tables.joins.iter().map(|join| &join.relation);
    for factor in std::iter::once(&tables.relation).chain(joined) {
        match factor {
            TableFactor::NestedJoin { table_with_joins, alias: None } => relations_of(table_with_joins, names),
            TableFactor::NestedJoin { alias: Some(alias), .. } => {
                names.insert(alias.name.value.clone());
            }
            _ => names.extend(tables::visible_name(factor).map(|name| name.value)),
        }
    }
}

/// Puts `any_value` around columns outside of aggregates, subqueries and keys.
struct Loosening {
    keys: Vec<Expr>,
    relations: HashSet<String>,
    /// The aliases of the select list, in lower case; empty while the select list is rewritten, which does not see
    /// them.
    aliases: HashSet<String>,
    /// The number of enclosing aggregates, subqueries and keys, inside which columns are left alone.
    closed: usize,
}

impl Loosening {
    /// Creates the rewriter for a SELECT with these keys.
    fn of(select: &Select, keys: Vec<Expr>) -> Loosening {
        let mut relations = HashSet::new();
        select.from.iter().for_each(|tables| relations_of(tables, &mut relations));
        Loosening { keys, relations, aliases: HashSet::new(), closed: 0 }
    }

    fn walk(&mut self, expr: &mut Expr) {
        // Rewriting cannot fail.
        let _ = walk::change_expr(expr, self);
    }

    /// Whether columns inside an expression are left alone: it is an aggregate, GROUPING, a subquery or a key.
    fn is_closed(&self, expr: &Expr) -> bool {
        let aggregate = match expr {
            Expr::Function(function) => {
                let name = function_name(function).unwrap_or_default();
                let grouping = ["grouping", "grouping_id"].contains(&name.as_str());
                grouping || function.over.is_none() && functions::is_aggregate(&name)
            }
            _ => false,
        };
        aggregate || is_subquery(expr) || self.is_key(expr)
    }

    fn is_key(&self, expr: &Expr) -> bool {
        let is_it = |key: &Expr| match (columns(key), columns(expr)) {
            (Some((table, name)), Some((other, same))) => {
                name.value.eq_ignore_ascii_case(&same.value)
                    && (table.is_none() || other.is_none() || table.map(|t| &t.value) == other.map(|t| &t.value))
            }
            (None, None) => bare(key) == bare(expr),
            _ => false,
        };
        self.keys.iter().any(is_it)
    }

    /// Whether an expression is a column that this SELECT's FROM may have; not a variable and not an alias.
    fn is_loose(&self, expr: &Expr) -> bool {
        match columns(expr) {
            Some((None, name)) => {
                let is_variable = name.quote_style.is_none() && name.value.starts_with('@');
                !is_variable && !self.aliases.contains(&name.value.to_lowercase())
            }
            Some((Some(table), _)) => self.relations.contains(&table.value),
            None => false,
        }
    }
}

impl Change for Loosening {
    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        self.closed += usize::from(self.is_closed(expr));
        Ok(())
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if self.is_closed(expr) {
            self.closed -= 1;
        } else if self.closed == 0 && self.is_loose(expr) {
            let column = std::mem::replace(expr, Expr::value(sqlparser::ast::Value::Null));
            *expr = call("any_value", vec![column]);
        }
        Ok(())
    }
}

/// Returns the table, if it is written, and the name of a column; `None` for other expressions.
fn columns(expr: &Expr) -> Option<(Option<&Ident>, &Ident)> {
    match expr {
        Expr::Identifier(name) => Some((None, name)),
        Expr::CompoundIdentifier(names) => {
            let (name, before) = names.split_last()?;
            Some((before.last(), name))
        }
        Expr::Nested(inner) => columns(inner),
        _ => None,
    }
}

/// Returns a text that is equal for equal expressions, without regard to case, quotes and outer parentheses.
fn bare(expr: &Expr) -> String {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other.to_string().to_lowercase().replace(['"', '`'], ""),
    }
}
