//! Hidden columns, which a query can name and `*` does not show.
//!
//! The engine gives a table its hidden columns if the text of the query has their prefix. The planner would then take
//! them for columns like all others.

use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{
    ExceptSelectItem, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};

use super::joins;
use super::scope::{Environment, excepted, same};
use super::session::{Context, VarValue};

/// Prefix of the names of hidden columns.
pub const HIDDEN_PREFIX: &str = "__DORIS_";

/// Whether the text may name a hidden column.
pub fn may_name_one(text: &str) -> bool {
    let prefix = HIDDEN_PREFIX.as_bytes();
    text.as_bytes().windows(prefix.len()).any(|part| part.eq_ignore_ascii_case(prefix))
}

/// Leaves the hidden columns of tables out of each `*`, unless the session shows them.
///
/// # Errors
/// The error of a table that cannot be read.
pub(super) fn leave_out(query: &mut Query, ansi_quotes: bool, context: &Context<'_>) -> Result<(), SqlError> {
    if are_shown(context) {
        return Ok(());
    }
    let environment = Environment::of(query, ansi_quotes, context);
    walk::change(query, &mut Wildcards { environment, named: 0 })
}

/// Whether the session shows hidden columns.
pub(super) fn are_shown(context: &Context<'_>) -> bool {
    let shows = context.variables.system(None, "show_hidden_columns");
    shows.is_some_and(|value| !matches!(value, VarValue::Int(0) | VarValue::Null))
}

struct Wildcards<'a> {
    environment: Environment<'a>,
    /// The number of unnamed tables that have been given a name.
    named: usize,
}

impl Change for Wildcards<'_> {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        self.environment.enter(query)
    }

    fn after_query(&mut self, _: &mut Query) -> Result<(), SqlError> {
        self.environment.leave();
        Ok(())
    }

    fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
        if select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_))) {
            self.expand_repeated(select)?;
        }
        let Select { projection, from, .. } = select;
        for item in projection {
            let hidden = match &*item {
                SelectItem::Wildcard(_) => self.environment.hidden(from, None)?,
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), _) => {
                    self.environment.hidden(from, Some(table))?
                }
                _ => continue,
            };
            if let SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) = item {
                leave(options, hidden);
            }
        }
        Ok(())
    }
}

impl Wildcards<'_> {
    /// Writes out each `*` over several columns that have the name of a hidden column: the planner has no EXCEPT for
    /// them. Joins that merge columns are [written out anyway](super::joins).
    fn expand_repeated(&mut self, select: &mut Select) -> Result<(), SqlError> {
        let hidden = self.environment.hidden(&select.from, None)?;
        if hidden.is_empty() || select.from.iter().any(joins::merges) {
            return Ok(());
        }
        for tables in &mut select.from {
            joins::name_tables(tables, &self.environment, &mut self.named);
        }
        match self.environment.from(&select.from)? {
            Some(columns) if is_repeated(&hidden, columns.iter().map(|column| &column.name)) => {
                joins::show(select, &columns, false)
            }
            None if is_repeated(&hidden, hidden.iter()) => Err(SqlError::unsupported(
                "* over hidden columns of several tables, beside a table whose columns are not known; write `t.*` for \
                 each table",
                None,
            )),
            _ => Ok(()),
        }
    }
}

/// Whether one of the names is that of several columns.
fn is_repeated<'a>(names: &[String], columns: impl Iterator<Item = &'a String> + Clone) -> bool {
    names.iter().any(|name| columns.clone().filter(|column| same(column, name)).count() > 1)
}

/// Adds names to the EXCEPT of a `*`.
fn leave(options: &mut WildcardAdditionalOptions, names: Vec<String>) {
    let mut except = excepted(options);
    for name in names {
        if except.iter().any(|known| same(known, &name)) {
            continue;
        }
        let ident = Ident::with_quote('"', &name);
        except.push(name);
        match &mut options.opt_except {
            Some(except) => except.additional_elements.push(ident),
            none => *none = Some(ExceptSelectItem { first_element: ident, additional_elements: Vec::new() }),
        }
    }
}
