//! INSERT: into tables over files, and into native ones.

mod files;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field};
use dipper_sql::charter::casts::cast_values;
use dipper_sql::charter::session::VarValue;
use dipper_sql::statement::Insert;

use super::ddl::table_named;
use crate::error::{EngineError, ErrorKind, Result};
use crate::result::{Done, Outcome};
use crate::session::Session;

pub(super) async fn insert(session: &mut Session, insert: &Insert, params: Vec<VarValue>) -> Result<Outcome> {
    let (database, table) = table_named(session, &insert.table).await?;
    let strict = !insert.ignore && session.variables.flag("enable_insert_strict");
    let done = match table.as_external() {
        Some(external) => {
            let affected_rows = files::insert(session, external, insert, params, strict).await?;
            Done { affected_rows, info: String::new() }
        }
        None => super::native::insert(session, &database, &table, insert, params, strict).await?,
    };
    session.wrote();
    Ok(Outcome::Done(done))
}

/// The array as the column's type. A value that does not fit is an error, or NULL when not `strict`.
pub(super) fn cast(array: &ArrayRef, field: &Field, strict: bool) -> Result<ArrayRef> {
    let (from, to) = (array.data_type(), field.data_type());
    let text = matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    let cast = match text && to.is_nested() {
        // Arrow would make a list of one NULL of it.
        true => None,
        false => cast_values(array, to).ok(),
    };
    let Some(cast) = cast else {
        return Err(EngineError::invalid(format!(
            "column {}: a value of type {} cannot be stored as {}; write arrays as ARRAY(...), or cast it",
            field.name(),
            sql_type(&Field::new("", from.clone(), true)),
            sql_type(field)
        )));
    };
    if strict && cast.null_count() > array.logical_null_count() {
        let row = (0..array.len()).find(|&i| cast.is_null(i) && array.is_valid(i)).unwrap_or_default();
        let value = arrow::util::display::array_value_to_string(array, row).unwrap_or_default();
        return Err(misfit(field, &value));
    }
    Ok(cast)
}

fn sql_type(field: &Field) -> String {
    crate::info_schema::types::type_text(field).to_uppercase()
}

fn misfit(field: &Field, value: &str) -> EngineError {
    EngineError::new(
        ErrorKind::BadValue,
        format!(
            "Incorrect {} value: '{value}' for column '{}'; cast or correct it, or SET enable_insert_strict = false to store NULL",
            sql_type(field),
            field.name()
        ),
    )
}

/// The query must give as many columns as are to be filled.
pub(super) fn check_width(wanted: usize, given: usize) -> Result<()> {
    if wanted == given {
        return Ok(());
    }
    Err(EngineError {
        code: 1136,
        sqlstate: "21S01",
        ..EngineError::invalid(format!(
            "Column count doesn't match value count: {wanted} columns to fill, the query gives {given}"
        ))
    })
}

pub(super) fn no_column<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> EngineError {
    let near = crate::near::closest(name, known);
    let hint = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
    EngineError::new(ErrorKind::NoColumn, format!("Unknown column '{name}' in 'field list'{hint}"))
}

pub(super) fn twice(name: &str) -> EngineError {
    EngineError { code: 1110, ..EngineError::invalid(format!("Column '{name}' specified twice")) }
}
