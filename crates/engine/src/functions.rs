//! Functions that users define: names for expressions, kept in the catalog.

use dipper_base::types::SqlType;
use dipper_dialect::error::SqlError;
use dipper_dialect::parser::{ParseOptions, parse_expr, parse_type};
use dipper_dialect::statement::QueryText;
use dipper_sql::charter::alias_functions::{self, Alias, Aliases};
use dipper_store::catalog::{AliasFunction, functions};
use sqlparser::ast;

use crate::catalogs::is_internal;
use crate::context::QueryContext;
use crate::error::Result;

/// Replaces the calls of functions that users have defined by their expressions. Returns `None` if the query has none.
///
/// # Errors
/// The errors of [`alias_functions::expand`].
pub(crate) fn expand(context: &QueryContext, query: &QueryText) -> Result<Option<QueryText>> {
    if !context.permanent.has_functions() {
        return Ok(None);
    }
    let mut query = query.clone();
    Ok(alias_functions::expand(&mut query.ast, database(context), context)?.then_some(query))
}

/// The database in which the names of functions are looked up.
fn database(context: &QueryContext) -> Option<&str> {
    context.database.as_deref().filter(|_| context.selected_catalog.is_none())
}

impl Aliases for QueryContext {
    fn find(
        &self,
        database: Option<&str>,
        name: &[&str],
        arguments: usize,
    ) -> std::result::Result<Option<Alias>, SqlError> {
        let catalog = &self.permanent;
        let (within, name, is_written) = match name {
            [name] => (database, *name, false),
            [database, name] => (Some(*database), *name, true),
            [catalog, database, name] if is_internal(catalog) => (Some(*database), *name, true),
            _ => return Ok(None),
        };
        let own = within.and_then(|name| catalog.database(name));
        if let (Some(database), Some(found)) =
            (own, own.and_then(|database| functions::find(&database.functions, name, arguments)))
        {
            return alias(Some(&database.name), found).map(Some);
        }
        match functions::find(&catalog.functions, name, arguments) {
            Some(found) if !is_written => alias(None, found).map(Some),
            _ => Ok(None),
        }
    }
}

fn alias(database: Option<&str>, function: &AliasFunction) -> std::result::Result<Alias, SqlError> {
    let parameters = (function.parameters.iter().zip(&function.types))
        .map(|(name, data_type)| Ok((name.clone(), cast_type(data_type)?)))
        .collect::<std::result::Result<_, SqlError>>()?;
    let database = database.map(str::to_string);
    Ok(Alias {
        identity: database.iter().map(|name| format!("{name}.")).chain([function.signature()]).collect(),
        database,
        parameters,
        body: parse_expr(&function.sql, &ParseOptions::from_sql_mode(&function.sql_mode))?,
    })
}

/// The type to which an argument is converted. As in Doris, the length of a text type does not cut texts.
fn cast_type(text: &str) -> std::result::Result<ast::DataType, SqlError> {
    let data_type = match parse_type(text)? {
        SqlType::Char(_) | SqlType::Varchar(_) => "STRING".to_string(),
        other => other.to_string(),
    };
    match parse_expr(&format!("CAST(NULL AS {data_type})"), &ParseOptions::default())? {
        ast::Expr::Cast { data_type, .. } => Ok(data_type),
        _ => Err(SqlError::unsupported(format!("{text} as the type of an argument"), None)),
    }
}
