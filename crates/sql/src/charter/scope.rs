//! The columns of FROM, known by name before anything is planned.
//!
//! A table has the columns that the engine found; a derived table or common table expression has those of its select
//! list. Two columns that `JOIN ... USING` or `NATURAL JOIN` merges are one column of the scope: see [`super::joins`].

use std::collections::HashSet;

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::call;
use sqlparser::ast::{
    Expr, Ident, Join, JoinConstraint, JoinOperator, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
};

use super::hidden::{self, HIDDEN_PREFIX};
use super::names::{own_name, visible};
use super::session::{Context, Schemas, TableRef};
use super::tables;

/// A column as `SELECT *` shows it.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) name: String,
    /// The expression for the column: `t.a`, or `coalesce(t.a, u.a)` for a FULL JOIN USING.
    pub(super) value: Expr,
    /// Whether several columns were merged into this one.
    pub(super) merged: bool,
    /// Whether this is a [hidden column](super::hidden) of a table. One that a query around the table selects is not.
    pub(super) hidden: bool,
}

impl Column {
    fn is(&self, name: &str) -> bool {
        same(&self.name, name)
    }
}

/// Whether two names mean the same column.
pub(super) fn same(name: &str, other: &str) -> bool {
    name.len() == other.len() && name == other || name.to_lowercase() == other.to_lowercase()
}

/// The columns of FROM; `None` if those of one of its tables are unknown.
pub(super) type Columns = Option<Vec<Column>>;

/// The names that a query can read at its place in the statement.
pub(super) struct Environment<'a> {
    schemas: &'a dyn Schemas,
    ansi_quotes: bool,
    /// Whether `*` shows hidden columns.
    shows_hidden: bool,
    /// All names of common table expressions in the statement.
    ctes: HashSet<String>,
    /// The common table expressions that are visible here, innermost last, with their columns.
    visible: Vec<(String, Option<Vec<String>>)>,
    /// The open queries around this place.
    frames: Vec<Frame>,
}

/// An open query.
struct Frame {
    /// The number of common table expressions that were visible before its own.
    before: usize,
    /// The queries of its own common table expressions.
    expressions: Vec<*const Query>,
    recursive: bool,
    /// Entries of `visible` that are hidden inside: a common table expression does not see those that come after it.
    hidden: Vec<(String, Option<Vec<String>>)>,
}

impl<'a> Environment<'a> {
    /// Creates the environment of a whole statement.
    pub(super) fn of(query: &Query, ansi_quotes: bool, context: &Context<'a>) -> Environment<'a> {
        let ctes = tables::cte_names(query);
        let shows_hidden = hidden::are_shown(context);
        let (visible, frames) = (Vec::new(), Vec::new());
        Environment { schemas: context.schemas, ansi_quotes, shows_hidden, ctes, visible, frames }
    }
}

impl Environment<'_> {
    /// Makes the names of a query's WITH clause visible.
    ///
    /// # Errors
    /// See [`Environment::joined`].
    pub(super) fn enter(&mut self, query: &Query) -> Result<(), SqlError> {
        let itself = std::ptr::from_ref(query);
        let place = self.frames.last().and_then(|frame| {
            let at = frame.expressions.iter().position(|expression| *expression == itself)?;
            Some(frame.before + at + usize::from(frame.recursive))
        });
        let hidden = place.map_or_else(Vec::new, |place| self.visible.split_off(place));
        let before = self.visible.len();
        let mut expressions = Vec::new();
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = cte.alias.name.value.clone();
            let named: Vec<String> = cte.alias.columns.iter().map(|column| column.name.value.clone()).collect();
            let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
            if recursive {
                // A common table expression that reads itself has the columns of its first half.
                self.visible.push((name.clone(), (!named.is_empty()).then(|| named.clone())));
            }
            let inner = self.query(&cte.query)?.map(|inner| renamed(inner, &named));
            if recursive {
                self.visible.pop();
            }
            self.visible.push((name, inner));
            expressions.push(std::ptr::from_ref(cte.query.as_ref()));
        }
        let recursive = query.with.as_ref().is_some_and(|with| with.recursive);
        self.frames.push(Frame { before, expressions, recursive, hidden });
        Ok(())
    }

    /// Closes the query that [`Environment::enter`] opened.
    pub(super) fn leave(&mut self) {
        if let Some(frame) = self.frames.pop() {
            self.visible.truncate(frame.before);
            self.visible.extend(frame.hidden);
        }
    }

    /// Returns the columns of a visible common table expression.
    pub(super) fn expression(&self, name: &str) -> Option<&[String]> {
        let (_, columns) = self.visible.iter().rev().find(|(visible, _)| visible == name)?;
        columns.as_deref()
    }

    /// Returns the reference that a table of FROM makes.
    pub(super) fn table_ref(&self, factor: &TableFactor) -> Option<TableRef> {
        tables::table_ref(factor, &self.ctes, self.ansi_quotes)
    }

    /// Returns the names of a query's columns.
    fn query(&mut self, query: &Query) -> Result<Option<Vec<String>>, SqlError> {
        self.enter(query)?;
        let columns = self.body(&query.body);
        self.leave();
        columns
    }

    fn body(&mut self, body: &SetExpr) -> Result<Option<Vec<String>>, SqlError> {
        match body {
            SetExpr::Select(select) => self.items(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { left, .. } => self.body(left),
            SetExpr::Values(values) => {
                let width = values.rows.first().map_or(0, |row| row.len());
                Ok(Some((1..=width).map(|at| format!("column{at}")).collect()))
            }
            _ => Ok(None),
        }
    }

    fn items(&mut self, select: &Select) -> Result<Option<Vec<String>>, SqlError> {
        let mut names = Vec::with_capacity(select.projection.len());
        for item in &select.projection {
            match item {
                SelectItem::ExprWithAlias { alias, .. } => names.push(alias.value.clone()),
                SelectItem::UnnamedExpr(expr) => match own_name(expr) {
                    Some(name) => names.push(name.value.clone()),
                    None => names.push(expr.to_string()),
                },
                SelectItem::Wildcard(options) => {
                    let except = excepted(options);
                    let Some(columns) = self.from(&select.from)? else { return Ok(None) };
                    let shown = columns.into_iter().filter(|column| self.shows_hidden || !column.hidden);
                    let shown = shown.filter(|column| !except.iter().any(|name| column.is(name)));
                    names.extend(shown.map(|column| column.name));
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), options) => {
                    let except = excepted(options);
                    let Some(columns) = self.qualified(&select.from, table)? else { return Ok(None) };
                    names.extend(columns.into_iter().filter(|column| !except.iter().any(|name| same(column, name))));
                }
                _ => return Ok(None),
            }
        }
        Ok(Some(names))
    }

    /// Returns all columns of FROM, in the order of `SELECT *`.
    ///
    /// # Errors
    /// See [`Environment::joined`].
    pub(super) fn from(&mut self, from: &[TableWithJoins]) -> Result<Columns, SqlError> {
        let mut all = Vec::new();
        for tables in from {
            match self.joined(tables)? {
                Some(columns) => all.extend(columns),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }

    /// Returns the names of the hidden columns of the tables in FROM, or of the one with this qualifier.
    ///
    /// # Errors
    /// The error of a table that cannot be read.
    pub(super) fn hidden(
        &mut self,
        from: &[TableWithJoins],
        table: Option<&ObjectName>,
    ) -> Result<Vec<String>, SqlError> {
        let name = table.and_then(|table| table.0.last()).and_then(|part| part.as_ident());
        let mut hidden: Vec<String> = Vec::new();
        let mut open: Vec<&TableFactor> = Vec::new();
        from.iter().for_each(|tables| push_factors(tables, &mut open));
        while let Some(factor) = open.pop() {
            if let TableFactor::NestedJoin { table_with_joins, .. } = factor {
                push_factors(table_with_joins, &mut open);
                continue;
            }
            let is_asked =
                name.is_none_or(|name| tables::visible_name(factor).is_some_and(|visible| visible.value == name.value));
            if is_asked {
                let columns = self.factor(factor)?.into_iter().flatten();
                hidden.extend(columns.filter(|column| column.hidden).map(|column| column.name));
            }
        }
        Ok(hidden)
    }

    /// Whether a table of FROM is a common table expression.
    fn is_expression(&self, factor: &TableFactor) -> bool {
        match self.table_ref(factor) {
            Some(TableRef::Named { name, maybe_cte: true, .. }) => {
                self.visible.iter().any(|(visible, _)| visible == name.object())
            }
            _ => false,
        }
    }

    /// Returns the columns that `t.*` shows of the table of FROM with this qualifier.
    fn qualified(&mut self, from: &[TableWithJoins], table: &ObjectName) -> Result<Option<Vec<String>>, SqlError> {
        let Some(name) = table.0.last().and_then(|part| part.as_ident()) else { return Ok(None) };
        let mut open: Vec<&TableFactor> = Vec::new();
        from.iter().for_each(|tables| push_factors(tables, &mut open));
        while let Some(factor) = open.pop() {
            match factor {
                TableFactor::NestedJoin { table_with_joins, alias: None } => push_factors(table_with_joins, &mut open),
                _ if tables::visible_name(factor).is_some_and(|visible| visible.value == name.value) => {
                    let mut columns = self.factor(factor)?;
                    if let Some(columns) = &mut columns {
                        columns.retain(|column| self.shows_hidden || !column.hidden);
                    }
                    return Ok(columns.map(names_of));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns the columns of a table and the tables joined to it.
    ///
    /// # Errors
    /// 1054 if a column of USING is missing on a side, 1052 if it is there several times; 1235 if the columns of a side
    /// are unknown.
    pub(super) fn joined(&mut self, tables: &TableWithJoins) -> Result<Columns, SqlError> {
        let mut columns = self.factor(&tables.relation)?;
        for join in &tables.joins {
            let right = self.factor(&join.relation)?;
            columns = match merged_names(join, columns.as_deref(), right.as_deref())? {
                Some(names) => {
                    let (Some(left), Some(right)) = (columns, right) else { return Ok(None) };
                    Some(merge(left, right, &names, &join.join_operator)?.1)
                }
                None => beside(columns, right, &join.join_operator),
            };
        }
        Ok(columns)
    }

    /// Returns the columns of one table of FROM.
    ///
    /// # Errors
    /// The errors of [`Environment::joined`]; the error of [`Schemas::resolve`] if the table cannot be read.
    pub(super) fn factor(&mut self, factor: &TableFactor) -> Result<Columns, SqlError> {
        let (names, alias) = match factor {
            TableFactor::Table { alias, .. } => {
                let Some(table) = self.table_ref(factor) else { return Ok(None) };
                let expression = match &table {
                    TableRef::Named { name, maybe_cte: true, .. } => {
                        self.visible.iter().rev().find(|(visible, _)| visible == name.object())
                    }
                    _ => None,
                };
                let names = match expression {
                    Some((_, columns)) => columns.clone(),
                    None => self.schemas.resolve(&table)?.map(|found| found.columns),
                };
                (names, alias)
            }
            TableFactor::Derived { subquery, alias, .. } => (self.query(subquery)?, alias),
            TableFactor::NestedJoin { table_with_joins, alias: None } => return self.joined(table_with_joins),
            TableFactor::NestedJoin { table_with_joins, alias } => {
                (self.joined(table_with_joins)?.map(names_of), alias)
            }
            _ => return Ok(None),
        };
        let named: Vec<String> =
            alias.iter().flat_map(|a| &a.columns).map(|column| column.name.value.clone()).collect();
        let qualifier = qualifier(factor);
        let is_table = matches!(factor, TableFactor::Table { .. }) && !self.is_expression(factor);
        Ok(names.map(|names| {
            let columns = renamed(names, &named).into_iter().map(|name| Column {
                value: reference(&qualifier, &name),
                hidden: is_table && name.starts_with(HIDDEN_PREFIX),
                name,
                merged: false,
            });
            columns.collect()
        }))
    }
}

fn push_factors<'a>(tables: &'a TableWithJoins, open: &mut Vec<&'a TableFactor>) {
    open.push(&tables.relation);
    open.extend(tables.joins.iter().map(|join| &join.relation));
}

fn names_of(columns: Vec<Column>) -> Vec<String> {
    columns.into_iter().map(|column| column.name).collect()
}

/// Gives the first columns the names of an alias's column list.
fn renamed(mut columns: Vec<String>, named: &[String]) -> Vec<String> {
    for (column, name) in columns.iter_mut().zip(named) {
        column.clone_from(name);
    }
    columns
}

/// Returns the names in `* EXCEPT (...)`.
pub(super) fn excepted(options: &sqlparser::ast::WildcardAdditionalOptions) -> Vec<String> {
    let except = options.opt_except.iter();
    except
        .flat_map(|e| std::iter::once(&e.first_element).chain(&e.additional_elements))
        .map(|i| i.value.clone())
        .collect()
}

/// Returns the qualifier by which the planner tells a table's columns from those of others.
fn qualifier(factor: &TableFactor) -> Vec<Ident> {
    let idents = match factor {
        TableFactor::Table { name, alias: None, version: None, partitions, .. } if partitions.is_empty() => {
            name.0.iter().filter_map(|part| part.as_ident()).cloned().collect()
        }
        _ => tables::visible_name(factor).into_iter().collect::<Vec<_>>(),
    };
    idents.into_iter().map(|ident| Ident::with_quote('"', ident.value)).collect()
}

fn reference(qualifier: &[Ident], name: &str) -> Expr {
    let column = Ident::with_quote('"', name);
    match qualifier {
        [] => Expr::Identifier(column),
        some => Expr::CompoundIdentifier(some.iter().cloned().chain([column]).collect()),
    }
}

/// Returns the columns of a join that merges no columns.
pub(super) fn beside(left: Columns, right: Columns, operator: &JoinOperator) -> Columns {
    match shown(operator) {
        Shown::Left => left,
        Shown::Right => right,
        Shown::Both => match (left, right) {
            (Some(mut left), Some(right)) => {
                left.extend(right);
                Some(left)
            }
            _ => None,
        },
    }
}

/// The side or sides whose rows a join returns.
enum Shown {
    Left,
    Right,
    Both,
}

fn shown(operator: &JoinOperator) -> Shown {
    use JoinOperator as J;
    match operator {
        J::Semi(_) | J::LeftSemi(_) | J::Anti(_) | J::LeftAnti(_) => Shown::Left,
        J::RightSemi(_) | J::RightAnti(_) => Shown::Right,
        _ => Shown::Both,
    }
}

/// Returns the constraint of a join: ON, USING or NATURAL.
pub(super) fn constraint(operator: &mut JoinOperator) -> Option<&mut JoinConstraint> {
    use JoinOperator as J;
    match operator {
        J::Join(c)
        | J::Inner(c)
        | J::Left(c)
        | J::LeftOuter(c)
        | J::Right(c)
        | J::RightOuter(c)
        | J::FullOuter(c)
        | J::CrossJoin(c)
        | J::Semi(c)
        | J::LeftSemi(c)
        | J::RightSemi(c)
        | J::Anti(c)
        | J::LeftAnti(c)
        | J::RightAnti(c)
        | J::StraightJoin(c) => Some(c),
        _ => None,
    }
}

/// Returns the names of the columns that USING or NATURAL merges, in the order of the left side; `None` for other
/// joins.
///
/// # Errors
/// 1235 if the columns of a side are unknown; for USING also 1054 if a name is missing on a side, and 1052 if it is
/// there twice.
pub(super) fn merged_names(
    join: &Join,
    left: Option<&[Column]>,
    right: Option<&[Column]>,
) -> Result<Option<Vec<String>>, SqlError> {
    let unknown = || SqlError::unsupported("USING or NATURAL over a table whose columns are not known; write ON", None);
    match constraint(&mut join.join_operator.clone()) {
        Some(JoinConstraint::Using(written)) => {
            let (Some(left), Some(right)) = (left, right) else { return Err(unknown()) };
            let mut names: Vec<String> = Vec::with_capacity(written.len());
            for name in written.iter().filter_map(|name| name.0.last()).filter_map(|part| part.as_ident()) {
                if !names.iter().any(|other| same(other, &name.value)) {
                    one(left, &name.value)?;
                    one(right, &name.value)?;
                    names.push(name.value.clone());
                }
            }
            names.sort_by_key(|name| left.iter().position(|column| column.is(name)));
            Ok(Some(names))
        }
        Some(JoinConstraint::Natural) => {
            let (Some(left), Some(right)) = (left, right) else { return Err(unknown()) };
            let common = left.iter().filter(|column| right.iter().any(|other| other.is(&column.name)));
            let common = common.filter(|column| !column.name.starts_with(HIDDEN_PREFIX));
            Ok(Some(common.map(|column| column.name.clone()).collect()))
        }
        _ => Ok(None),
    }
}

/// Returns the only column of a side that has this name.
fn one<'a>(columns: &'a [Column], name: &str) -> Result<&'a Column, SqlError> {
    let mut found = columns.iter().filter(|column| column.is(name));
    let error = |code, sqlstate, message| Err(SqlError { code, sqlstate, message, position: None });
    match (found.next(), found.next()) {
        (Some(column), None) => Ok(column),
        (None, _) => error(1054, "42S22", format!("Unknown column '{}' in 'from clause'", visible(name))),
        _ => error(1052, "23000", format!("Column '{}' in from clause is ambiguous", visible(name))),
    }
}

/// Returns the pairs of columns that a join equates, and the columns of the join: the merged ones first.
///
/// # Errors
/// 1054 if one side lacks a name, 1052 if it has it twice.
pub(super) fn merge(
    left: Vec<Column>,
    right: Vec<Column>,
    names: &[String],
    operator: &JoinOperator,
) -> Result<(Vec<(Expr, Expr)>, Vec<Column>), SqlError> {
    use JoinOperator as J;
    let mut pairs = Vec::with_capacity(names.len());
    let mut columns = Vec::with_capacity(left.len() + right.len());
    for name in names {
        let (l, r) = (one(&left, name)?, one(&right, name)?);
        pairs.push((l.value.clone(), r.value.clone()));
        let value = match operator {
            J::Right(_) | J::RightOuter(_) => r.value.clone(),
            J::FullOuter(_) => call("coalesce", vec![l.value.clone(), r.value.clone()]),
            _ => l.value.clone(),
        };
        columns.push(Column { name: l.name.clone(), value, merged: true, hidden: l.hidden && r.hidden });
    }
    match shown(operator) {
        Shown::Left => return Ok((pairs, left)),
        Shown::Right => return Ok((pairs, right)),
        Shown::Both => {}
    }
    let own = left.into_iter().chain(right).filter(|column| !names.iter().any(|name| column.is(name)));
    columns.extend(own);
    Ok((pairs, columns))
}
