//! Marks on derived tables and common table expressions that have very many columns; [`super::wide`] plans them.
//!
//! The planner of relations sees a derived table before anything inside it is planned. So the knowledge of its width is
//! written into its tree: as a setting, which the parser never produces.

use dipper_dialect::error::SqlError;
use dipper_dialect::tree;
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{Expr, Ident, ObjectNamePart, Query, Select, SetExpr, Setting, TableFactor, Value, With};

use super::scope::Environment;
use super::session::Context;
use super::wide::{self, WIDE};
use super::{tables, unions};

/// The setting that marks a query with very many columns.
const MARK: &str = "dipper_wide";

/// Whether a query is marked.
pub(super) fn is_marked(query: &Query) -> bool {
    query.settings.iter().flatten().any(|setting| setting.key.value == MARK)
}

/// Marks a query.
pub(super) fn marked(mut query: Query) -> Query {
    query.settings = Some(vec![Setting { key: Ident::new(MARK), value: Expr::value(Value::Boolean(true)) }]);
    query
}

/// Removes the mark.
pub(super) fn unmark(query: &mut Query) {
    query.settings = None;
}

/// Marks the inner queries that have very many columns.
///
/// # Errors
/// The errors of [`Environment::joined`].
pub(super) fn mark(query: &mut Query, ansi_quotes: bool, context: &Context<'_>) -> Result<(), SqlError> {
    let tables_are_wide = context.schemas.width() >= WIDE;
    if !tables_are_wide && !has_long_list(query) {
        return Ok(());
    }
    let environment = Environment::of(query, ansi_quotes, context);
    walk::change(query, &mut Marks { environment, tables_are_wide })
}

/// Whether a select list has very many items.
fn has_long_list(query: &Query) -> bool {
    struct Find(bool);
    impl Look for Find {
        fn select(&mut self, select: &Select) -> Result<(), SqlError> {
            self.0 |= select.projection.len() >= WIDE;
            Ok(())
        }
    }
    let mut find = Find(false);
    // Looking cannot fail.
    let _ = walk::look(query, &mut find);
    find.0
}

struct Marks<'a> {
    environment: Environment<'a>,
    tables_are_wide: bool,
}

impl Marks<'_> {
    fn is_wide(&mut self, body: &SetExpr) -> Result<bool, SqlError> {
        match body {
            SetExpr::Select(select) => {
                let reads_all =
                    |select: &Select| select.projection.iter().any(wide::is_wildcard) || wide::has_windows(select);
                let width = match self.tables_are_wide && reads_all(select) {
                    true => self.environment.from(&select.from)?.map_or(0, |columns| columns.len()),
                    false => 0,
                };
                Ok(wide::is_wide(select, width))
            }
            SetExpr::Query(query) => self.is_wide(&query.body),
            // All inputs have as many columns as the first.
            SetExpr::SetOperation { left, .. } if unions::is_set_operation(body) => self.is_wide(left),
            _ => Ok(false),
        }
    }
}

impl Change for Marks<'_> {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        self.environment.enter(query)?;
        if query.settings.is_none() && self.is_wide(&query.body)? {
            *query = marked(std::mem::replace(query, tree::select(Vec::new(), Vec::new())));
        }
        Ok(())
    }

    fn after_query(&mut self, _: &mut Query) -> Result<(), SqlError> {
        self.environment.leave();
        Ok(())
    }
}

/// Turns marked common table expressions into derived tables where they are read. The planner plans the others before
/// it meets the places where they are read.
pub(super) fn inline(query: &mut Query) {
    // `Expressions` returns no error.
    let _ = walk::change(query, &mut Expressions::default());
}

#[derive(Default)]
struct Expressions {
    /// The wide common table expressions that are visible, innermost last.
    wide: Vec<(String, Query)>,
    /// For each enclosing query: the number of wide expressions that are visible outside it, and its WITH clause
    /// without its own wide ones.
    frames: Vec<(usize, Option<With>)>,
}

impl Change for Expressions {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        let before = self.wide.len();
        if query.with.as_ref().is_none_or(|with| with.recursive) {
            self.frames.push((before, None));
            return Ok(());
        }
        let mut with = query.with.take();
        for tables in with.iter_mut().map(|with| &mut with.cte_tables) {
            for mut cte in std::mem::take(tables) {
                // Each one sees those before it.
                walk::change(&mut cte.query, self)?;
                match cte.alias.columns.is_empty() && is_marked(&cte.query) {
                    true => self.wide.push((cte.alias.name.value, *cte.query)),
                    false => tables.push(cte),
                }
            }
        }
        self.frames.push((before, with.filter(|with| !with.cte_tables.is_empty())));
        Ok(())
    }

    fn after_query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        if let Some((before, with)) = self.frames.pop() {
            self.wide.truncate(before);
            if with.is_some() {
                query.with = with;
            }
        }
        Ok(())
    }

    fn after_table_factor(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
        let TableFactor::Table { name, alias, args: None, .. } = factor else { return Ok(()) };
        let [ObjectNamePart::Identifier(name)] = name.0.as_slice() else { return Ok(()) };
        if let Some((_, query)) = self.wide.iter().rev().find(|(wide, _)| *wide == name.value) {
            let alias = alias.take().unwrap_or_else(|| tree::alias(name.clone()));
            *factor = tables::derived(query.clone(), alias);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use dipper_dialect::parser::{ParseOptions, parse};
    use dipper_dialect::statement::Statement;

    fn inlined(sql: &str) -> String {
        let mut query = match parse(sql, &ParseOptions::default()).unwrap().remove(0).statement {
            Statement::Query(query) => *query.ast,
            other => panic!("{other:?}"),
        };
        struct AllOfX;
        impl Change for AllOfX {
            fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
                for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
                    if cte.alias.name.value.starts_with('x') {
                        let inner = std::mem::replace(&mut *cte.query, tree::select(Vec::new(), Vec::new()));
                        *cte.query = marked(inner);
                    }
                }
                Ok(())
            }
        }
        walk::change(&mut query, &mut AllOfX).unwrap();
        inline(&mut query);
        query.to_string().replace(" SETTINGS dipper_wide = true", "")
    }

    #[test]
    fn wide_expressions_stand_where_they_are_read() {
        let is = |sql: &str, expected: &str| assert_eq!(inlined(sql), expected);
        is("WITH x AS (SELECT 1) SELECT * FROM x", "SELECT * FROM (SELECT 1) AS x");
        is(
            "WITH x AS (SELECT 1), y AS (SELECT 2 FROM x) SELECT * FROM x a, y",
            "WITH y AS (SELECT 2 FROM (SELECT 1) AS x) SELECT * FROM (SELECT 1) a, y",
        );
        is(
            "WITH x AS (SELECT 1), x2 AS (SELECT 2 FROM x) SELECT * FROM x2",
            "SELECT * FROM (SELECT 2 FROM (SELECT 1) AS x) AS x2",
        );
        // Tables of the same name: before the expression, and outside the query in which it is visible.
        is("WITH x AS (SELECT 1 FROM x) SELECT * FROM x", "SELECT * FROM (SELECT 1 FROM x) AS x");
        is(
            "WITH y AS (SELECT 1 FROM x), x AS (SELECT 2) SELECT * FROM x, y",
            "WITH y AS (SELECT 1 FROM x) SELECT * FROM (SELECT 2) AS x, y",
        );
        is(
            "SELECT * FROM (WITH x AS (SELECT 1) SELECT * FROM x) a, x",
            "SELECT * FROM (SELECT * FROM (SELECT 1) AS x) a, x",
        );
        is("WITH y AS (SELECT 1) SELECT * FROM y", "WITH y AS (SELECT 1) SELECT * FROM y");
    }
}
