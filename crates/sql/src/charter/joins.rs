//! `JOIN ... USING (a)` and `NATURAL JOIN`, rewritten to ON and to columns that name their table.
//!
//! The common columns become one column: that of the left side, of the right side for RIGHT JOIN, and `coalesce` of
//! both for FULL JOIN. `SELECT *` shows it once and before all others. Its bare name means it in all expressions of the
//! query, also in subqueries that have no column of that name themselves. `t.a` and `u.a` stay the columns of their
//! tables. DataFusion would show one of the two, depending on which table's name comes first in the alphabet, and
//! reports bare names as ambiguous.

use std::collections::HashMap;

use dipper_dialect::chains;
use dipper_dialect::error::SqlError;
use dipper_dialect::tree::{self, function_name};
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{
    BinaryOperator, Expr, Ident, JoinConstraint, JoinOperator, OneOrManyWithParens, Query, Select, SelectItem, SetExpr,
    TableFactor, TableWithJoins, Value,
};

use super::names::{MARK, own_name, visible};
use super::rewrite::binary;
use super::scope::{self, Column, Columns, Environment};
use super::session::{Context, TableRef};
use super::tables;
use crate::functions;

/// Rewrites all joins of a query that have USING or NATURAL.
///
/// # Errors
/// 1054 if a column of USING is unknown, 1052 if it is ambiguous; 1235 if the columns of a table are unknown.
pub(super) fn explicit(query: &mut Query, ansi_quotes: bool, context: &Context<'_>) -> Result<(), SqlError> {
    if !has_common_columns(query) {
        return Ok(());
    }
    let environment = Environment::of(query, ansi_quotes, context);
    walk::change(query, &mut Joins { environment, named: 0 })
}

fn has_common_columns(query: &Query) -> bool {
    struct Find(bool);
    impl Look for Find {
        fn select(&mut self, select: &Select) -> Result<(), SqlError> {
            self.0 |= select.from.iter().any(merges);
            Ok(())
        }
    }
    let mut find = Find(false);
    // Looking cannot fail.
    let _ = walk::look(query, &mut find);
    find.0
}

/// Whether a join merges two columns into one.
pub(super) fn merges(tables: &TableWithJoins) -> bool {
    let is_common = |operator: &JoinOperator| {
        let constraint = scope::constraint(&mut operator.clone()).map(|c| std::mem::replace(c, JoinConstraint::None));
        matches!(constraint, Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
    };
    let nested = |factor: &TableFactor| match factor {
        TableFactor::NestedJoin { table_with_joins, .. } => merges(table_with_joins),
        _ => false,
    };
    nested(&tables.relation) || tables.joins.iter().any(|join| is_common(&join.join_operator) || nested(&join.relation))
}

struct Joins<'a> {
    environment: Environment<'a>,
    /// The number of unnamed tables that have been given a name.
    named: usize,
}

impl Change for Joins<'_> {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        self.environment.enter(query)
    }

    /// Works bottom-up: queries inside this one have none of these joins left.
    fn after_query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        let (body, order) = walk::body_and_order(query);
        self.body(body, order)?;
        self.environment.leave();
        Ok(())
    }
}

impl Joins<'_> {
    fn body(&mut self, body: &mut SetExpr, order: Vec<&mut Expr>) -> Result<(), SqlError> {
        match body {
            SetExpr::Select(select) if select.from.iter().any(merges) => self.select(select, order),
            SetExpr::SetOperation { left, right, .. } => {
                self.body(left, Vec::new())?;
                self.body(right, Vec::new())
            }
            _ => Ok(()),
        }
    }

    fn select(&mut self, select: &mut Select, order: Vec<&mut Expr>) -> Result<(), SqlError> {
        let mut columns = Some(Vec::new());
        for tables in &mut select.from {
            name_tables(tables, &self.environment, &mut self.named);
            columns = columns.zip(self.joined(tables)?).map(|(before, these)| [before, these].concat());
        }
        let Some(columns) = columns else {
            return Err(SqlError::unsupported(
                "USING or NATURAL beside a table whose columns are not known; write ON",
                None,
            ));
        };
        let merged = Merged::of(&columns);
        // EXCEPT names the hidden columns that are left out.
        show(select, &columns, true)?;
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some(name) = own_name(expr).cloned()
                && let Some(value) = merged.value(expr)
            {
                *item = shown(&name, value);
            }
        }
        let from = std::mem::take(&mut select.from);
        // HAVING and ORDER BY see the names of the select list first, except inside aggregates and windows.
        let (having, qualify) = (select.having.take(), select.qualify.take());
        let done = self.replace(select, &merged, &[]);
        select.from = from;
        done?;
        let names = given_names(select);
        (select.having, select.qualify) = (having, qualify);
        for expr in select.having.iter_mut().chain(select.qualify.iter_mut()).chain(order) {
            self.replace(expr, &merged, &names)?;
        }
        Ok(())
    }

    /// Replaces bare names of common columns. `items`: names that mean items of a select list, outside of aggregates
    /// and windows.
    fn replace(
        &mut self,
        node: &mut impl sqlparser::ast::VisitMut,
        merged: &Merged,
        items: &[String],
    ) -> Result<(), SqlError> {
        if merged.values.is_empty() {
            return Ok(());
        }
        let mut replacing = Replacing { joins: self, merged, items, columns: 0, hidden: Vec::new() };
        walk::change_node(node, &mut replacing)
    }

    /// Turns the common columns of joins into conditions. Returns the columns as `*` shows them.
    fn joined(&mut self, tables: &mut TableWithJoins) -> Result<Columns, SqlError> {
        let mut columns = self.nested(&mut tables.relation)?;
        for join in &mut tables.joins {
            // A lateral table sees the tables before it.
            if let (TableFactor::Derived { lateral: true, subquery, .. }, Some(before)) = (&mut join.relation, &columns)
            {
                self.replace(subquery.as_mut(), &Merged::of(before), &[])?;
            }
            let right = self.nested(&mut join.relation)?;
            let names = scope::merged_names(join, columns.as_deref(), right.as_deref())?;
            columns = match (names, columns, right) {
                (Some(names), Some(left), Some(right)) => {
                    let (pairs, columns) = scope::merge(left, right, &names, &join.join_operator)?;
                    if let Some(constraint) = scope::constraint(&mut join.join_operator) {
                        *constraint = JoinConstraint::On(condition(pairs));
                    }
                    Some(columns)
                }
                (_, left, right) => {
                    let all = left.clone().zip(right.clone()).map(|(left, right)| [left, right].concat());
                    if let (Some(all), Some(JoinConstraint::On(on))) =
                        (&all, scope::constraint(&mut join.join_operator))
                    {
                        self.replace(on, &Merged::of(all), &[])?;
                    }
                    scope::beside(left, right, &join.join_operator)
                }
            };
        }
        Ok(columns)
    }

    fn nested(&mut self, factor: &mut TableFactor) -> Result<Columns, SqlError> {
        if let TableFactor::NestedJoin { table_with_joins, alias } = factor {
            let columns = self.joined(table_with_joins)?;
            let Some(alias) = alias.take() else { return Ok(columns) };
            // A join that has a name becomes a table whose columns are those that `*` shows.
            let Some(columns) = columns else { return Ok(None) };
            let items = columns.iter().map(|c| shown(&Ident::with_quote('"', &c.name), c.value.clone())).collect();
            let from = std::mem::replace(
                table_with_joins.as_mut(),
                TableWithJoins {
                    relation: tables::derived(tree::select(Vec::new(), Vec::new()), None),
                    joins: Vec::new(),
                },
            );
            *factor = tables::derived(tree::select(items, vec![from]), alias);
        }
        self.environment.factor(factor)
    }
}

/// Names the tables that have no name, so that their columns can be told apart. `named`: the number of tables that were
/// named before.
pub(super) fn name_tables(tables: &mut TableWithJoins, environment: &Environment<'_>, named: &mut usize) {
    let joined = tables.joins.iter_mut().map(|join| &mut join.relation);
    for factor in std::iter::once(&mut tables.relation).chain(joined) {
        let unnamed = match &*factor {
            TableFactor::NestedJoin { .. } => false,
            TableFactor::Derived { alias, .. } => alias.is_none(),
            TableFactor::Table { alias: None, .. } => {
                !matches!(environment.table_ref(factor), Some(TableRef::Named { .. }))
            }
            _ => false,
        };
        match factor {
            TableFactor::NestedJoin { table_with_joins, .. } => name_tables(table_with_joins, environment, named),
            TableFactor::Derived { alias, .. } | TableFactor::Table { alias, .. } if unnamed => {
                *named += 1;
                *alias = Some(tree::alias(Ident::with_quote('"', format!("table{MARK}{named}"))));
            }
            _ => {}
        }
    }
}

/// Returns `a = b AND ...`; TRUE for tables without common columns.
fn condition(pairs: Vec<(Expr, Expr)>) -> Expr {
    let equal = pairs.into_iter().map(|(left, right)| binary(left, BinaryOperator::Eq, right));
    let all = equal.reduce(|all, next| binary(all, BinaryOperator::And, next));
    let mut all = all.unwrap_or_else(|| Expr::value(Value::Boolean(true)));
    // In an unbalanced chain, the type of each AND would be derived from all of the chain below it.
    chains::balance(&mut all, &BinaryOperator::And);
    all
}

/// Builds an item of the select list with the name of a column.
fn shown(name: &Ident, value: Expr) -> SelectItem {
    match &value {
        Expr::CompoundIdentifier(parts) if parts.last().is_some_and(|last| scope::same(&last.value, &name.value)) => {
            SelectItem::UnnamedExpr(value)
        }
        _ => SelectItem::ExprWithAlias { expr: value, alias: Ident::with_quote('"', &name.value) },
    }
}

/// Expands `*`, to hidden columns of tables or without them.
pub(super) fn show(select: &mut Select, columns: &[Column], with_hidden: bool) -> Result<(), SqlError> {
    let mut items = Vec::with_capacity(select.projection.len());
    for item in std::mem::take(&mut select.projection) {
        let SelectItem::Wildcard(options) = &item else {
            items.push(item);
            continue;
        };
        let except = scope::excepted(options);
        if let Some(name) = except.iter().find(|name| !columns.iter().any(|c| scope::same(&c.name, name))) {
            return Err(SqlError {
                code: 1054,
                sqlstate: "42S22",
                message: format!("Unknown column '{name}' in '* EXCEPT'"),
                position: None,
            });
        }
        let shown_columns = columns.iter().filter(|c| with_hidden || !c.hidden);
        let shown_columns = shown_columns.filter(|c| !except.iter().any(|name| scope::same(name, &c.name)));
        items.extend(shown_columns.map(|c| shown(&Ident::with_quote('"', &c.name), c.value.clone())));
    }
    select.projection = items;
    distinct_names(select);
    Ok(())
}

/// Renames items that would stand beside a column of the same name and table.
fn distinct_names(select: &mut Select) {
    let mut seen: HashMap<String, Vec<Option<String>>> = HashMap::new();
    for (at, item) in select.projection.iter_mut().enumerate() {
        let (name, qualifier) = match &*item {
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => match parts.as_slice() {
                [.., table, column] => (column.value.clone(), Some(table.value.clone())),
                _ => continue,
            },
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => (name.value.clone(), None),
            SelectItem::ExprWithAlias { alias, .. } => (alias.value.clone(), None),
            _ => continue,
        };
        let before = seen.entry(name.to_lowercase()).or_default();
        let clash = before.iter().any(|other| other.is_none() || qualifier.is_none() || *other == qualifier);
        before.push(qualifier);
        if clash {
            let other = Ident::with_quote('"', format!("{}{MARK}{at}", visible(&name)));
            *item = match std::mem::replace(item, SelectItem::UnnamedExpr(Expr::value(Value::Null))) {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    SelectItem::ExprWithAlias { expr, alias: other }
                }
                item => item,
            };
        }
    }
}

/// Returns the names that the select list gives, in lower case.
fn given_names(select: &Select) -> Vec<String> {
    let named = select.projection.iter().filter_map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(visible(&alias.value).to_lowercase()),
        _ => None,
    });
    named.collect()
}

/// Bare names and the expressions that they stand for.
struct Merged {
    values: HashMap<String, Expr>,
}

impl Merged {
    /// Collects the merged columns whose names are unambiguous.
    fn of(columns: &[Column]) -> Merged {
        let mut count: HashMap<String, usize> = HashMap::new();
        for column in columns {
            *count.entry(column.name.to_lowercase()).or_default() += 1;
        }
        let merged = columns.iter().filter(|column| column.merged);
        let named = merged.map(|column| (column.name.to_lowercase(), column.value.clone()));
        Merged { values: named.filter(|(name, _)| count.get(name) == Some(&1)).collect() }
    }

    /// Returns the expression that a bare name stands for, also if it is in parentheses.
    fn value(&self, expr: &Expr) -> Option<Expr> {
        match expr {
            Expr::Nested(inner) => self.value(inner),
            Expr::Identifier(name) if name.quote_style.is_some() || !name.value.starts_with('@') => {
                self.values.get(&name.value.to_lowercase()).cloned()
            }
            _ => None,
        }
    }
}

/// The walk that replaces bare names by their expressions.
struct Replacing<'a, 'b> {
    joins: &'a mut Joins<'b>,
    merged: &'a Merged,
    /// Names that mean items of the select list, in lower case.
    items: &'a [String],
    /// The number of open aggregates and windows, in which these names mean columns.
    columns: usize,
    /// Names that mean something else in each of the queries and functions that are open.
    hidden: Vec<Vec<String>>,
}

impl Change for Replacing<'_, '_> {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        let environment = &mut self.joins.environment;
        environment.enter(query)?;
        let mut names = Vec::new();
        own_names(&query.body, environment, &mut names)?;
        self.hidden.push(names);
        Ok(())
    }

    fn after_query(&mut self, _: &mut Query) -> Result<(), SqlError> {
        self.hidden.pop();
        self.joins.environment.leave();
        Ok(())
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if let Expr::Lambda(lambda) = expr {
            let params = match &lambda.params {
                OneOrManyWithParens::One(param) => std::slice::from_ref(param),
                OneOrManyWithParens::Many(params) => params.as_slice(),
            };
            self.hidden.push(params.iter().map(|param| param.name.value.to_lowercase()).collect());
        }
        self.columns += usize::from(is_over_columns(expr));
        let items = if self.columns == 0 { self.items } else { &[] };
        let mut hidden = self.hidden.iter().flatten().chain(items);
        let mut is_hidden = |name: &Ident| hidden.any(|hidden| scope::same(hidden, &name.value));
        if let Expr::Identifier(name) = expr
            && !is_hidden(name)
            && let Some(value) = self.merged.value(expr)
        {
            *expr = value;
        }
        Ok(())
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if matches!(expr, Expr::Lambda(_)) {
            self.hidden.pop();
        }
        self.columns -= usize::from(is_over_columns(expr));
        Ok(())
    }
}

/// Whether names in an expression never mean items of the select list: it is an aggregate, or has a window.
fn is_over_columns(expr: &Expr) -> bool {
    match expr {
        Expr::Function(function) => {
            function.over.is_some() || function_name(function).is_some_and(|name| functions::is_aggregate(&name))
        }
        _ => false,
    }
}

/// Collects the names that mean something in a query itself.
fn own_names(body: &SetExpr, environment: &mut Environment<'_>, names: &mut Vec<String>) -> Result<(), SqlError> {
    match body {
        SetExpr::Select(select) => {
            let columns = environment.from(&select.from)?.unwrap_or_default();
            names.extend(columns.into_iter().map(|column| column.name.to_lowercase()));
            names.extend(select.projection.iter().filter_map(|item| match item {
                SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.to_lowercase()),
                _ => None,
            }));
            Ok(())
        }
        SetExpr::SetOperation { left, right, .. } => {
            own_names(left, environment, names)?;
            own_names(right, environment, names)
        }
        _ => Ok(()),
    }
}
