//! Hidden columns, which a query can name and `*` does not show.
//!
//! The engine gives a table its hidden columns if the text of the query has their prefix. The planner would then take
//! them for columns like all others.

use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{
    ExceptSelectItem, Ident, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, WildcardAdditionalOptions,
};

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
    let shows = context.variables.system(None, "show_hidden_columns");
    if shows.is_some_and(|value| !matches!(value, VarValue::Int(0) | VarValue::Null)) {
        return Ok(());
    }
    let environment = Environment::of(query, ansi_quotes, context);
    walk::change(query, &mut Wildcards { environment })
}

struct Wildcards<'a> {
    environment: Environment<'a>,
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

/// Adds names to the EXCEPT of a `*`.
fn leave(options: &mut WildcardAdditionalOptions, names: Vec<String>) {
    let except = excepted(options);
    for (at, name) in names.iter().enumerate() {
        // The planner has no EXCEPT for a name of two tables.
        let is_repeated = names.iter().enumerate().any(|(other, known)| other != at && same(known, name));
        if is_repeated || except.iter().any(|known| same(known, name)) {
            continue;
        }
        let name = Ident::with_quote('"', name);
        match &mut options.opt_except {
            Some(except) => except.additional_elements.push(name),
            none => *none = Some(ExceptSelectItem { first_element: name, additional_elements: Vec::new() }),
        }
    }
}
