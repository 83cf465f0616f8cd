//! The columns that a statement fills: how many, which ones, and the conversion of values to their types.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::datatypes::{DataType, Field};
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_sql::charter::casts::cast_values;
use dipper_sql::functions::LostValues;
use dipper_text::{BadValues, CsvDialect, Cx, InvalidUtf8, Span, Strings, TextBlock, csv_converter};

/// Converts an array to the type of a column. A value that does not fit is an error, or with `lost` becomes NULL and is
/// counted.
///
/// # Errors
/// `BadValue` if a value does not fit; the errors of [`stored`].
pub fn cast(array: &ArrayRef, field: &Field, lost: Option<&LostValues>) -> Result<ArrayRef> {
    let (stored, misfits) = stored(array, field)?;
    if let Some(row) = misfits.first() {
        let Some(lost) = lost else {
            return Err(misfit(field, &arrow::util::display::array_value_to_string(array, *row).unwrap_or_default()));
        };
        let rows = UInt64Array::from_iter_values(misfits.iter().map(|row| *row as u64));
        let values = arrow::compute::take(array, &rows, None)?;
        lost.add(format!("column {}", field.name()), &values, |value| incorrect(field, value));
    }
    Ok(stored)
}

/// Converts an array to the type of a column by the charter's casts. Returns the array, with NULL where a value does
/// not fit, and the rows of those values. Everything that is stored and was not read in the column's type goes through
/// this conversion.
///
/// # Errors
/// `Invalid` if there is no conversion between the types.
pub fn stored(array: &ArrayRef, field: &Field) -> Result<(ArrayRef, Vec<usize>)> {
    let (from, to) = (array.data_type(), field.data_type());
    if from == to {
        return Ok((Arc::clone(array), Vec::new()));
    }
    let text = matches!(from, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if text && matches!(to, DataType::List(_) | DataType::Map(..) | DataType::Struct(_)) {
        return nested_of_text(array, field);
    }
    let Ok(cast) = cast_values(array, to) else {
        return Err(EngineError::invalid(format!(
            "column {}: a value of type {} cannot be stored as {}; cast it",
            field.name(),
            sql_type(&Field::new("", from.clone(), true)),
            sql_type(field)
        )));
    };
    assert_eq!(cast.len(), array.len(), "a conversion keeps the rows");
    let misfits = match cast.null_count() > array.logical_null_count() {
        _ if from.is_nested() && to.is_nested() => {
            let lost = lost_parts(array, &cast);
            (0..array.len()).filter(|row| lost[*row]).collect()
        }
        true => {
            let nulls = array.logical_nulls();
            let given = |row: usize| nulls.as_ref().is_none_or(|n| n.is_valid(row));
            (0..array.len()).filter(|row| cast.is_null(*row) && given(*row)).collect()
        }
        false => Vec::new(),
    };
    Ok((cast, misfits))
}

/// Returns for each row whether its value, or a part of its nested value, became NULL by a conversion.
fn lost_parts(before: &ArrayRef, after: &ArrayRef) -> Vec<bool> {
    let nulls = before.logical_nulls();
    let is_given = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let mut lost: Vec<bool> = (0..before.len()).map(|row| is_given(row) && after.is_null(row)).collect();
    // Flags the rows whose members are lost; both sides have the members of a row in the same order.
    let mut flag = |before: (&[i32], &ArrayRef), after: (&[i32], &ArrayRef)| {
        let span = |offsets: &[i32], row: usize| offsets[row] as usize..offsets[row + 1] as usize;
        let aligned = before.0 == after.0 && before.1.len() == after.1.len();
        let members = aligned.then(|| lost_parts(before.1, after.1));
        for (row, lost) in lost.iter_mut().enumerate() {
            if *lost || !is_given(row) {
                continue;
            }
            let (from, to) = (span(before.0, row), span(after.0, row));
            *lost = match &members {
                Some(members) => members[from].contains(&true),
                None => lost_parts(&before.1.slice(from.start, from.len()), &after.1.slice(to.start, to.len()))
                    .contains(&true),
            };
        }
    };
    match (before.data_type(), after.data_type()) {
        (DataType::List(_), DataType::List(_)) => {
            let (before, after) = (before.as_list::<i32>(), after.as_list::<i32>());
            flag((before.value_offsets(), before.values()), (after.value_offsets(), after.values()));
        }
        (DataType::Map(..), DataType::Map(..)) => {
            let (before, after) = (before.as_map(), after.as_map());
            flag((before.value_offsets(), before.values()), (after.value_offsets(), after.values()));
        }
        (DataType::Struct(from), DataType::Struct(to)) if from.len() == to.len() => {
            let (before, after) = (before.as_struct(), after.as_struct());
            let is_named = to.iter().all(|field| from.find(field.name()).is_some());
            for (at, field) in to.iter().enumerate() {
                let place = from.find(field.name()).filter(|_| is_named).map_or(at, |(place, _)| place);
                let part = lost_parts(before.column(place), after.column(at));
                for (row, part) in part.into_iter().enumerate() {
                    lost[row] |= part && is_given(row);
                }
            }
        }
        _ => {}
    }
    lost
}

/// Converts texts such as `[1,2]` and `{"a":1}` to nested values, in the way in which loads read text. Arrow's cast
/// would make a list of one NULL.
fn nested_of_text(array: &ArrayRef, field: &Field) -> Result<(ArrayRef, Vec<usize>)> {
    let views = arrow::compute::cast(array, &DataType::Utf8View)?;
    let mut bytes = Vec::new();
    let mut cells = Vec::with_capacity(array.len());
    let place = |at: usize| {
        u32::try_from(at).map_err(|_| {
            EngineError::new(ErrorKind::Resources, format!("column {}: 4 GiB of text in one batch", field.name()))
        })
    };
    for value in views.as_string_view() {
        let start = place(bytes.len())?;
        cells.push(match value {
            None => Span::MISSING,
            Some(value) => {
                bytes.extend_from_slice(value.as_bytes());
                Span::new(start, place(bytes.len())?)
            }
        });
    }
    let block = TextBlock::from_vec(bytes);
    let mut bad = BadValues::new(true);
    let mut cx =
        Cx { strings: Strings::View, invalid_utf8: InvalidUtf8::Replace, batch: 0..block.bytes().len(), bad: &mut bad };
    let dialect = CsvDialect { quote: None, null_values: Vec::new(), ..CsvDialect::default() };
    let array = csv_converter(field, &dialect)?.convert(&block, &cells, &mut cx)?;
    let mut misfits: Vec<usize> = bad.entries().iter().map(|b| b.row).collect();
    misfits.sort_unstable();
    misfits.dedup();
    Ok((array, misfits))
}

fn sql_type(field: &Field) -> String {
    dipper_sql::type_text::type_text(field).to_uppercase()
}

fn incorrect(field: &Field, value: &str) -> String {
    format!("Incorrect {} value: '{value}' for column '{}'", sql_type(field), field.name())
}

/// A value that a strict INSERT does not accept.
#[derive(Debug)]
pub struct Misfit {
    /// Description of the error, with the value.
    what: String,
}

impl Misfit {
    /// Describes the error and what to do about it; `lenient` is the setting that stores NULL instead.
    pub fn way_out(&self, lenient: &str) -> String {
        format!("{}; cast or correct it, or {lenient} to store NULL", self.what)
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.way_out("SET enable_insert_strict = false"))
    }
}

impl std::error::Error for Misfit {}

/// Makes the error for a value that does not fit into a column.
pub fn misfit(field: &Field, value: &str) -> EngineError {
    EngineError::of(ErrorKind::BadValue, Misfit { what: incorrect(field, value) })
}

/// Checks that the query gives as many columns as are to be filled.
///
/// # Errors
/// MySQL's error 1136.
pub fn check_width(wanted: usize, given: usize) -> Result<()> {
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

/// Makes the error for a column that a statement names twice.
pub fn twice(name: &str) -> EngineError {
    EngineError { code: 1110, ..EngineError::invalid(format!("Column '{name}' specified twice")) }
}

/// Makes the error for a column that the table does not have. `known` are its columns.
pub fn no_column<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> EngineError {
    let near = dipper_base::near::closest(name, known);
    let hint = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
    EngineError::new(ErrorKind::NoColumn, format!("Unknown column '{name}' in 'field list'{hint}"))
}
