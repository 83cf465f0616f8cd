//! Column aliases that name only some columns: in `WITH c (x) AS (SELECT 1 a, 2 b)` and `(SELECT 1 a, 2 b) AS c (x)`
//! the columns after the named ones keep their names (Doris). DataFusion wants a name for each column, so the missing
//! names are added.

use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{Ident, Query, TableAlias, TableAliasColumnDef, TableFactor};

use super::names::visible;
use super::scope::Environment;
use super::session::Context;

/// Completes the column lists of aliases that name only some of the columns.
///
/// # Errors
/// 1353 if an alias names more columns than its query has; also the errors of finding out the columns of tables.
pub(super) fn complete(query: &mut Query, ansi_quotes: bool, context: &Context<'_>) -> Result<(), SqlError> {
    if !names_columns(query) {
        return Ok(());
    }
    let environment = Environment::of(query, ansi_quotes, context);
    walk::change(query, &mut Names { environment })
}

fn names_columns(query: &Query) -> bool {
    struct Find(bool);
    impl Look for Find {
        fn query(&mut self, query: &Query) -> Result<(), SqlError> {
            self.0 |= query.with.iter().flat_map(|with| &with.cte_tables).any(|cte| !cte.alias.columns.is_empty());
            Ok(())
        }

        fn table_factor(&mut self, factor: &TableFactor) -> Result<(), SqlError> {
            if let TableFactor::Derived { alias: Some(alias), .. } = factor {
                self.0 |= !alias.columns.is_empty();
            }
            Ok(())
        }
    }
    let mut find = Find(false);
    // Looking cannot fail.
    let _ = walk::look(query, &mut find);
    find.0
}

struct Names<'a> {
    environment: Environment<'a>,
}

impl Change for Names<'_> {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        self.environment.enter(query)?;
        for cte in query.with.iter_mut().flat_map(|with| &mut with.cte_tables) {
            let name = cte.alias.name.value.clone();
            if let Some(columns) = self.environment.expression(&name) {
                all(&mut cte.alias, columns, &name)?;
            }
        }
        Ok(())
    }

    fn after_query(&mut self, _: &mut Query) -> Result<(), SqlError> {
        self.environment.leave();
        Ok(())
    }

    fn table_factor(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
        let columns = match &*factor {
            TableFactor::Derived { alias: Some(alias), .. } if !alias.columns.is_empty() => {
                self.environment.factor(factor)?
            }
            _ => None,
        };
        if let (TableFactor::Derived { alias: Some(alias), .. }, Some(columns)) = (factor, columns) {
            let name = alias.name.value.clone();
            let columns: Vec<String> = columns.into_iter().map(|column| column.name).collect();
            all(alias, &columns, &name)?;
        }
        Ok(())
    }
}

/// Appends the names of the columns that an alias does not name.
fn all(alias: &mut TableAlias, columns: &[String], name: &str) -> Result<(), SqlError> {
    let named = alias.columns.len();
    if named > columns.len() {
        return Err(SqlError {
            code: 1353,
            sqlstate: "HY000",
            message: format!("'{}' names {named} columns, and its query has {}", visible(name), columns.len()),
            position: None,
        });
    }
    if named > 0 {
        let rest = columns[named..]
            .iter()
            .map(|column| TableAliasColumnDef { name: Ident::with_quote('"', column), data_type: None });
        alias.columns.extend(rest);
    }
    Ok(())
}
