//! INSERT ... ON DUPLICATE KEY UPDATE, in the forms that a load can do: a row whose key exists takes the new values of
//! the statement, or keeps its old ones.

use dipper_dialect::statement::Insert;
use dipper_store::table::schema::{DefaultValue, Model, TableColumn, TableSchema};
use sqlparser::ast;

use super::write::NewKeys;
use crate::error::{EngineError, Result};
use crate::generated;
use crate::tables::no_column;

/// The treatment of a new row whose key exists.
#[derive(Debug)]
pub(super) enum Duplicates {
    /// The new row replaces the existing row, as a whole or in the columns that the statement names.
    Replace(Option<NewKeys>),
    /// The new row is left out.
    Skip,
}

/// The row whose value an assignment gives to its column.
enum Given {
    /// The row that is inserted.
    New,
    /// The row that exists.
    Old,
}

/// Interprets the assignments of ON DUPLICATE KEY UPDATE.
///
/// # Errors
/// `Unsupported` if the assignments are neither an upsert of the given values nor without effect, or if the rows of the
/// table have no unique key; `NoColumn` if there is no column of an assignment's name.
pub(super) fn duplicates(definition: &TableSchema, table: &str, insert: &Insert) -> Result<Duplicates> {
    let refused = |why: String| EngineError::unsupported(format!("ON DUPLICATE KEY UPDATE: {why}"));
    if definition.model != Model::Unique || definition.has_sequences() {
        return Err(refused(format!(
            "rows of '{table}' have no unique key; it is for tables with UNIQUE KEY or PRIMARY KEY"
        )));
    }
    if definition.sequence.is_some() {
        return Err(refused(format!(
            "in '{table}' the row with the greater value of its sequence column stays; INSERT the rows without this clause"
        )));
    }
    if insert.overwrite || insert.replace || insert.ignore {
        return Err(refused("not with OVERWRITE, REPLACE or IGNORE".into()));
    }
    let visible = || definition.columns.iter().filter(|c| !c.hidden);
    let is_given = |column: &TableColumn| {
        insert.columns.is_empty() || insert.columns.iter().any(|name| name.eq_ignore_ascii_case(&column.name))
    };
    let mut replaced = Vec::new();
    for (name, expr) in &insert.on_duplicate {
        let column = visible()
            .find(|c| c.name.eq_ignore_ascii_case(name))
            .ok_or_else(|| no_column(name, visible().map(|c| c.name.as_str())))?;
        if column.generated.is_some() {
            return Err(generated::given(table, column));
        }
        match given(expr, &column.name, table, definition, insert) {
            Some(Given::Old) => {}
            Some(Given::New) if is_given(column) => replaced.push(column.id),
            Some(Given::New) => {
                return Err(refused(format!("VALUES({name}) is a default: name {name} in the column list")));
            }
            None => {
                return Err(refused(format!(
                    "{name} = {expr}: there are {name} = VALUES({name}), which takes the new value, and {name} = {name}, which keeps the old one; for others UPDATE what is there"
                )));
            }
        }
    }
    if replaced.is_empty() {
        return Ok(Duplicates::Skip);
    }
    let values = || definition.columns[definition.keys..].iter().filter(|c| !c.hidden && c.generated.is_none());
    if let Some(kept) = values().find(|c| is_given(c) && !replaced.contains(&c.id)) {
        let kept = &kept.name;
        return Err(refused(format!(
            "{kept} is given, but not assigned: write {kept} = VALUES({kept}), too, or leave {kept} out of the column list"
        )));
    }
    // A load gives new rows and existing rows the same time.
    let stamped = |c: &TableColumn| {
        c.on_update.is_some_and(|digits| c.default != Some(DefaultValue::CurrentTimestamp(digits))) && !is_given(c)
    };
    if let Some(column) = values().find(|c| stamped(c)) {
        return Err(refused(format!(
            "'{}' has ON UPDATE CURRENT_TIMESTAMP and another default; name it in the column list",
            column.name
        )));
    }
    let is_whole = values().all(is_given);
    Ok(Duplicates::Replace((!is_whole).then_some(NewKeys { refused: false })))
}

/// Returns the row whose value of `column` the expression is; `None` for other expressions.
fn given(expr: &ast::Expr, column: &str, table: &str, definition: &TableSchema, insert: &Insert) -> Option<Given> {
    let is_column = |name: &ast::Ident| name.value.eq_ignore_ascii_case(column);
    // The column that a name in `AS name (column, ...)` stands for.
    let renamed = |name: &ast::Ident| {
        let (_, names) = insert.rows_as.as_ref()?;
        let at = names.iter().position(|other| other.eq_ignore_ascii_case(&name.value))?;
        match insert.columns.is_empty() {
            true => definition.columns.iter().filter(|c| !c.hidden).nth(at).map(|c| c.name.as_str()),
            false => insert.columns.get(at).map(String::as_str),
        }
    };
    let has_names = insert.rows_as.as_ref().is_some_and(|(_, names)| !names.is_empty());
    match expr {
        ast::Expr::Nested(inner) => given(inner, column, table, definition, insert),
        ast::Expr::Identifier(name) => match renamed(name) {
            Some(other) => other.eq_ignore_ascii_case(column).then_some(Given::New),
            None => is_column(name).then_some(Given::Old),
        },
        ast::Expr::CompoundIdentifier(parts) => {
            let [.., of, name] = parts.as_slice() else { return None };
            let is_new = insert.rows_as.as_ref().is_some_and(|(rows, _)| rows.eq_ignore_ascii_case(&of.value));
            match (is_new, has_names) {
                (true, false) => is_column(name).then_some(Given::New),
                (true, true) => renamed(name).filter(|other| other.eq_ignore_ascii_case(column)).map(|_| Given::New),
                (false, _) => (is_column(name) && of.value == table).then_some(Given::Old),
            }
        }
        ast::Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("values") => {
            let ast::FunctionArguments::List(list) = &function.args else { return None };
            let [ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(argument))] = list.args.as_slice() else {
                return None;
            };
            let name = match argument {
                ast::Expr::Identifier(name) => name,
                ast::Expr::CompoundIdentifier(parts) => parts.last()?,
                _ => return None,
            };
            is_column(name).then_some(Given::New)
        }
        _ => None,
    }
}
