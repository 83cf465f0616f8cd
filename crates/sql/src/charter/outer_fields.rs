//! Names in a subquery, or in LATERAL, that mean columns of an outer query and that the planner does not find there.
//!
//! - The planner finds `t.s` in an outer query, but no field `t.s.x`. So the fields are taken by accesses: `(t.s).x`.
//! - The planner takes `a.k` for a member of `a` if the inner query has a column `a`, also where `a` is a table of the
//!   outer query and `k` one of its columns. In SQL a qualified name is a column of a table wherever there is one. So the
//!   name gets a qualifier more.
//! - The planner puts the tables before a LATERAL and those of all queries around it into one list, in which a bare name
//!   of several tables means nothing. In SQL it means a column of the nearest query. So the name gets the qualifier of
//!   its table.
//!
//! Names that the FROM around them has stay as they are, as do those that no outer query has.

use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{
    AccessExpr, Expr, GroupByExpr, Ident, Query, Select, SelectItem, TableFactor, TableWithJoins, Value,
};

use super::names::ANY_DATABASE;
use super::scope::{Columns, Environment, same};
use super::session::Context;
use super::tables;

/// Rewrites the names of such fields.
///
/// # Errors
/// The error of a table that cannot be read.
pub(super) fn access(query: &mut Query, ansi_quotes: bool, context: &Context<'_>) -> Result<(), SqlError> {
    if !may_have_some(query) {
        return Ok(());
    }
    let environment = Environment::of(query, ansi_quotes, context);
    walk::change(query, &mut Accesses { environment, scopes: Vec::new(), lateral: None })
}

/// Whether there is a query in the query, and a LATERAL or a name of several parts: other names of columns are left to
/// the planner.
fn may_have_some(query: &Query) -> bool {
    #[derive(Default)]
    struct Find {
        queries: usize,
        names: bool,
    }
    impl Look for Find {
        fn query(&mut self, _: &Query) -> Result<(), SqlError> {
            self.queries += 1;
            Ok(())
        }

        fn table_factor(&mut self, factor: &TableFactor) -> Result<(), SqlError> {
            self.names |= matches!(factor, TableFactor::Derived { lateral: true, .. });
            Ok(())
        }

        fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
            self.names |=
                self.queries > 1 && matches!(expr, Expr::CompoundIdentifier(_) | Expr::CompoundFieldAccess { .. });
            Ok(())
        }
    }
    let mut find = Find::default();
    // Looking cannot fail.
    let _ = walk::look(query, &mut find);
    find.names
}

/// A name that qualifies columns.
struct Table {
    name: String,
    /// What stands before the name in the FROM: a database, or a catalog and a database.
    before: Vec<Ident>,
    /// Its columns; `None` if they are not known.
    columns: Columns,
}

impl Table {
    fn has_column(&self, name: &Ident) -> bool {
        self.columns.iter().flatten().any(|column| same(&column.name, &name.value))
    }
}

/// What the FROM of a SELECT has.
struct Scope {
    /// The names that qualify its columns.
    tables: Vec<Table>,
    /// Its columns; `None` if they are not known.
    columns: Columns,
    /// The names that its select list gives, if there is a clause that may mean them.
    items: Vec<Ident>,
    ordered: bool,
    /// The number of tables of the query around it that come before it, if it is a LATERAL.
    before: Option<usize>,
}

impl Scope {
    fn table(&self, name: &Ident) -> Option<&Table> {
        self.tables.iter().find(|table| table.name == name.value)
    }

    fn has_table(&self, name: &Ident) -> bool {
        self.table(name).is_some()
    }

    fn has_column(&self, name: &Ident) -> bool {
        self.columns.iter().flatten().any(|column| same(&column.name, &name.value))
    }

    /// The number of names that make a column of this FROM, if others that are its fields follow.
    fn column_of(&self, names: &[&Ident]) -> Option<usize> {
        let parts = match names {
            // A table may be qualified by its database, and that by its catalog.
            [_, _, table, _, _, ..] if self.has_table(table) && !self.has_table(names[0]) => 4,
            [_, table, _, _, ..] if self.has_table(table) && !self.has_table(names[0]) => 3,
            [table, _, ..] if self.has_table(table) => 2,
            [column, _, ..] if self.has_column(column) => 1,
            _ => return None,
        };
        (names.len() > parts).then_some(parts)
    }

    /// Whether the first of some names is one of this FROM, or may be one.
    fn may_have(&self, names: &[&Ident]) -> bool {
        let is_qualified = matches!(names, [_, table, _, _, ..] if self.has_table(table));
        let has = |name: &&Ident| self.has_table(name) || self.has_column(name);
        is_qualified || self.columns.is_none() || names.first().is_some_and(has)
    }
}

struct Accesses<'a> {
    environment: Environment<'a>,
    /// The scopes of the open queries, innermost last.
    scopes: Vec<Scope>,
    /// A LATERAL whose query comes next, with the number of tables before it.
    lateral: Option<(*const Query, usize)>,
}

impl Accesses<'_> {
    /// Returns how many of the names make a column of an outer query, whose fields the others are.
    fn outer(&self, names: &[&Ident]) -> Option<usize> {
        let (inner, outer) = self.scopes.split_last()?;
        if inner.may_have(names) {
            return None;
        }
        for scope in outer.iter().rev() {
            match scope.column_of(names) {
                Some(parts) => return Some(parts),
                None if scope.may_have(names) => return None,
                None => {}
            }
        }
        None
    }

    /// Returns what has to stand before names of a column of an outer query, because the planner would take the first one
    /// for a column of a query inside of that one.
    fn covered(&self, names: &[&Ident]) -> Option<Vec<Ident>> {
        let (inner, outer) = self.scopes.split_last()?;
        let [first, second, ..] = names else { return None };
        if inner.has_table(first) {
            return None;
        }
        let mut is_column = inner.has_column(first);
        let mut table = None;
        for scope in outer.iter().rev() {
            table = scope.table(first);
            if table.is_some() {
                break;
            }
            is_column |= scope.has_column(first);
        }
        let table = table.filter(|_| is_column)?;
        match table.before.as_slice() {
            _ if !table.has_column(second) => None,
            [] => Some(vec![Ident::with_quote('"', ANY_DATABASE)]),
            before => Some(before.to_vec()),
        }
    }

    /// Returns the qualifier of a bare name within a LATERAL that is a column of one of the tables before it.
    fn beside(&self, name: &Ident) -> Option<Ident> {
        for (at, scope) in self.scopes.iter().enumerate().rev() {
            let may_have = scope.columns.is_none() || scope.has_column(name);
            if may_have || scope.items.iter().any(|item| same(&item.value, &name.value)) {
                return None;
            }
            let Some(before) = scope.before else { continue };
            let tables = self.scopes.get(at.checked_sub(1)?)?.tables.get(..before)?;
            if tables.iter().any(|table| table.columns.is_none()) {
                return None;
            }
            let mut found = tables.iter().filter(|table| table.has_column(name));
            if let Some(table) = found.next() {
                return found.next().is_none().then(|| Ident::with_quote('"', &table.name));
            }
        }
        None
    }

    /// Gives names of a table of an outer query the qualifier that they need, see [`Accesses::covered`]. Returns how
    /// many of the names are those of the column.
    fn uncover(&self, names: &mut Vec<Ident>) -> Option<usize> {
        let before = self.covered(&names.iter().collect::<Vec<_>>())?;
        let parts = before.len() + 2;
        names.splice(..0, before);
        Some(parts)
    }

    /// Adds the tables of a join, also those in parentheses.
    fn push_tables(&mut self, tables: &TableWithJoins, found: &mut Vec<Table>) -> Result<(), SqlError> {
        let factors = std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation));
        for factor in factors {
            let (name, before) = match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => {
                    self.push_tables(table_with_joins, found)?;
                    continue;
                }
                TableFactor::NestedJoin { alias: Some(alias), .. } => (Some(alias.name.clone()), Vec::new()),
                TableFactor::Table { name, alias: None, .. } => {
                    let mut parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident()).cloned().collect();
                    (parts.pop(), parts)
                }
                other => (tables::visible_name(other), Vec::new()),
            };
            if let Some(name) = name {
                let columns = self.environment.factor(factor)?;
                found.push(Table { name: name.value, before, columns });
            }
        }
        Ok(())
    }
}

impl Change for Accesses<'_> {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        self.environment.enter(query)?;
        let before = self.lateral.filter(|(lateral, _)| std::ptr::eq(*lateral, query)).map(|(_, before)| before);
        let (tables, columns, items) = (Vec::new(), Some(Vec::new()), Vec::new());
        self.scopes.push(Scope { tables, columns, items, ordered: query.order_by.is_some(), before });
        Ok(())
    }

    fn table_factor(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
        if let TableFactor::Derived { lateral: true, subquery, alias, .. } = factor
            && let Some(scope) = self.scopes.last()
        {
            let is_it = |table: &Table| alias.as_ref().is_some_and(|alias| alias.name.value == table.name);
            let before = scope.tables.iter().position(is_it).unwrap_or(scope.tables.len());
            self.lateral = Some((std::ptr::from_ref(subquery.as_ref()), before));
        }
        Ok(())
    }

    fn after_query(&mut self, _: &mut Query) -> Result<(), SqlError> {
        self.scopes.pop();
        self.environment.leave();
        Ok(())
    }

    fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
        let mut tables = Vec::new();
        for joined in &select.from {
            self.push_tables(joined, &mut tables)?;
        }
        let columns = self.environment.from(&select.from)?;
        if let Some(scope) = self.scopes.last_mut() {
            let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
            let named = match scope.ordered || is_grouped || select.having.is_some() {
                true => select.projection.as_slice(),
                false => &[],
            };
            let items = named.iter().filter_map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
                _ => None,
            });
            (scope.tables, scope.columns, scope.items) = (tables, columns, items.collect());
        }
        // A column keeps the name that its last part gives it.
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(Expr::Identifier(name)) = item
                && self.beside(name).is_some()
            {
                let alias = name.clone();
                *item = SelectItem::ExprWithAlias { expr: Expr::Identifier(name.clone()), alias };
            }
            if let SelectItem::UnnamedExpr(expr @ Expr::CompoundIdentifier(_)) = item
                && let Expr::CompoundIdentifier(names) = &*expr
                && let written = names.iter().collect::<Vec<_>>()
                && (self.covered(&written).is_some() || self.outer(&written).is_some())
                && let Some(alias) = names.last().cloned()
            {
                let expr = std::mem::replace(expr, Expr::value(Value::Null));
                *item = SelectItem::ExprWithAlias { expr, alias };
            }
        }
        Ok(())
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        match expr {
            Expr::Identifier(name) => {
                if let Some(table) = self.beside(name) {
                    *expr = Expr::CompoundIdentifier(vec![table, name.clone()]);
                }
            }
            Expr::CompoundIdentifier(names) => {
                let parts = self.uncover(names).or_else(|| self.outer(&names.iter().collect::<Vec<_>>()));
                let Some(parts) = parts else { return Ok(()) };
                let fields = names.split_off(parts);
                if !fields.is_empty() {
                    *expr = accessed(std::mem::take(names), fields, Vec::new());
                }
            }
            // This is `t.s.x[1]`, whose names are accesses already.
            Expr::CompoundFieldAccess { root, access_chain } => {
                let Expr::Identifier(first) = root.as_ref() else { return Ok(()) };
                let name = |access: &AccessExpr| match access {
                    AccessExpr::Dot(Expr::Identifier(name)) => Some(name.clone()),
                    _ => None,
                };
                let mut names = vec![first.clone()];
                names.extend(access_chain.iter().map_while(name));
                let written = names.len();
                let parts = self.uncover(&mut names).or_else(|| self.outer(&names.iter().collect::<Vec<_>>()));
                let Some(parts) = parts else { return Ok(()) };
                let rest = access_chain.split_off(written - 1);
                let fields = names.split_off(parts);
                *expr = accessed(names, fields, rest);
            }
            _ => {}
        }
        Ok(())
    }
}

/// Builds the access to fields of a column, and what follows it.
fn accessed(mut column: Vec<Ident>, fields: Vec<Ident>, rest: Vec<AccessExpr>) -> Expr {
    let root = match column.len() {
        1 => Expr::Identifier(column.swap_remove(0)),
        _ => Expr::CompoundIdentifier(column),
    };
    let field = |name: Ident| AccessExpr::Dot(Expr::value(Value::SingleQuotedString(name.value)));
    let access_chain = fields.into_iter().map(field).chain(rest).collect();
    Expr::CompoundFieldAccess { root: Box::new(root), access_chain }
}
