//! Casts under `enable_strict_cast`: a value that does not convert is an error, not NULL.
//!
//! The function gets the result of a cast, the value before the cast, and the name of the type. It returns the result,
//! and fails where a value that is not NULL has become NULL, also inside of an array, a map or a struct. Text becomes an
//! integer only if all of it is one. Casts that nobody wrote stay as they are.
//!
//! TRY_CAST is a strict cast that gives NULL for a value that does not convert, also if only a part of the value does
//! not. A second function does that for nested types; for others, every cast gives this NULL already.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, nullif};
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use dipper_dialect::error::SqlError;

use super::nested;
use super::typed::{STRICT_NAME, WHOLE_NAME};
use crate::class::{Class, LARGEINT_CLASS, places};
use crate::functions::{JSON, VARIANT};
use crate::metadata::TYPE_KEY;

/// Number of characters of a value that an error shows.
const SHOWN_CHARS: usize = 64;

/// The functions of strict casts and of TRY_CAST.
pub(super) fn functions() -> [Arc<ScalarUDF>; 2] {
    [true, false].map(|fails| {
        let signature = Signature::any(3, Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(Strict { fails, signature }))
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Strict {
    /// Whether a value that does not convert is an error; else it is NULL.
    fails: bool,
    signature: Signature,
}

impl ScalarUDFImpl for Strict {
    fn name(&self) -> &str {
        if self.fails { STRICT_NAME } else { WHOLE_NAME }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let value = &args.arg_fields[0];
        let field = Field::new(self.name(), value.data_type().clone(), true);
        Ok(Arc::new(field.with_metadata(value.metadata().clone())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let to = match args.args.get(2) {
            Some(ColumnarValue::Scalar(name)) => name.try_as_str().flatten().unwrap_or_default().to_uppercase(),
            _ => String::new(),
        };
        let is_document = args
            .arg_fields
            .get(1)
            .and_then(|field| field.metadata().get(TYPE_KEY))
            .is_some_and(|declared| declared == JSON || declared == VARIANT);
        let kind = if is_document { Given::Document } else { Given::Values };
        let [result, given] = match &args.args[..] {
            // A constant is checked once, whatever the number of rows is.
            [ColumnarValue::Scalar(result), ColumnarValue::Scalar(given), ..] => {
                [result.to_array()?, given.to_array()?]
            }
            [result, given, ..] => [result.to_array(rows)?, given.to_array(rows)?],
            _ => return Err(DataFusionError::Internal(format!("{} takes three arguments", self.name()))),
        };
        let Some(row) = failed(&result, &given, &to, kind)? else {
            return Ok(args.args.into_iter().next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)));
        };
        if self.fails {
            let value = array_value_to_string(&given, row)?;
            let shown: String = value.chars().take(SHOWN_CHARS).collect();
            return Err(DataFusionError::External(Box::new(SqlError {
                code: 1292,
                sqlstate: "22007",
                message: format!("CAST AS {to}: incorrect value '{shown}'; TRY_CAST gives NULL for it"),
                position: None,
            })));
        }
        let has_failed = |row: usize| Ok(failed(&result.slice(row, 1), &given.slice(row, 1), &to, kind)?.is_some());
        let all = (0..result.len()).map(|row| has_failed(row).map(Some)).collect::<Result<BooleanArray>>()?;
        let whole = nullif(&result, &all)?;
        Ok(match &args.args[..] {
            [ColumnarValue::Scalar(_), ColumnarValue::Scalar(_), ..] => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&whole, 0)?)
            }
            _ => ColumnarValue::Array(whole),
        })
    }
}

/// What a strict cast converts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    /// Values of SQL.
    Values,
    /// JSON documents, whose `null` is no value.
    Document,
    /// Parts of JSON documents, whose `null` is NULL already.
    PartsOfDocument,
}

/// Returns the first row whose value, or a part of it, did not convert.
fn failed(result: &ArrayRef, given: &ArrayRef, to: &str, kind: Given) -> Result<Option<usize>> {
    let is_whole = ["TINYINT", "SMALLINT", "INT", "BIGINT", "LARGEINT", "BIGINT UNSIGNED"].contains(&to);
    failed_values(result, given, is_whole, kind)
}

/// Returns the first row whose value, or a part of it, did not convert. `is_whole`: text must be a whole number.
fn failed_values(result: &ArrayRef, given: &ArrayRef, is_whole: bool, kind: Given) -> Result<Option<usize>> {
    let nulls = given.logical_nulls();
    let is_given = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let texts = match Class::of(given.data_type()) {
        Class::Text => cast(given, &DataType::Utf8View).ok(),
        _ => None,
    };
    let texts = texts.as_ref().and_then(|texts| texts.as_string_view_opt());
    let failed = (0..result.len()).find(|row| {
        let text = texts.filter(|_| is_given(*row)).map(|texts| texts.value(*row));
        if kind == Given::Document && text == Some("null") {
            return false;
        }
        let is_wanted_whole = is_whole && kind == Given::Values;
        is_given(*row) && (result.is_null(*row) || is_wanted_whole && text.is_some_and(|text| !is_integer(text)))
    });
    if failed.is_some() || !result.data_type().is_nested() {
        return Ok(failed);
    }
    let kind = if kind == Given::Values { Given::Values } else { Given::PartsOfDocument };
    match texts {
        // The parts of a text are texts.
        Some(texts) => failed_parts(result, &nested::of_texts(texts, &with_text_parts(result.data_type()))?, kind),
        None => failed_parts(result, given, kind),
    }
}

/// Returns the first row of nested values with a part that did not convert.
fn failed_parts(result: &ArrayRef, given: &ArrayRef, kind: Given) -> Result<Option<usize>> {
    let part = |result: &ArrayRef, given: &ArrayRef| {
        let is_whole = matches!(Class::of(result.data_type()), Class::Int(_) | Class::UInt64 | LARGEINT_CLASS);
        failed_values(result, given, is_whole, kind)
    };
    if let (DataType::Struct(from), DataType::Struct(to)) = (given.data_type(), result.data_type()) {
        let (given, result) = (given.as_struct(), result.as_struct());
        let mut first: Option<usize> = None;
        for (at, place) in places(from, to).into_iter().enumerate() {
            let Some(place) = place else { continue };
            // What a NULL struct has inside does not matter.
            let nulls = NullBuffer::union(given.nulls(), result.nulls());
            let inside = |part: &ArrayRef| match &nulls {
                Some(nulls) => nullif(part, &BooleanArray::new(!nulls.inner(), None)),
                None => Ok(Arc::clone(part)),
            };
            let failed = part(&inside(result.column(at))?, &inside(given.column(place))?)?;
            first = [first, failed].into_iter().flatten().min();
        }
        return Ok(first);
    }
    for row in (0..result.len()).filter(|row| result.is_valid(*row) && given.is_valid(*row)) {
        let pairs = match (given.data_type(), result.data_type()) {
            (DataType::List(_), DataType::List(_)) => {
                vec![(result.as_list::<i32>().value(row), given.as_list::<i32>().value(row))]
            }
            (DataType::Map(..), DataType::Map(..)) => {
                let (result, given) = (result.as_map().value(row), given.as_map().value(row));
                let columns = result.columns().iter().zip(given.columns());
                columns.map(|(result, given)| (Arc::clone(result), Arc::clone(given))).collect()
            }
            _ => Vec::new(),
        };
        for (result, given) in pairs {
            // Keys that became equal are one key.
            if result.len() == given.len() && part(&result, &given)?.is_some() {
                return Ok(Some(row));
            }
        }
    }
    Ok(None)
}

/// Returns a nested type with texts in the place of all parts that are not nested.
fn with_text_parts(t: &DataType) -> DataType {
    let field =
        |field: &FieldRef| Arc::new(Field::new(field.name(), with_text_parts(field.data_type()), field.is_nullable()));
    match t {
        DataType::List(item) => DataType::List(field(item)),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        _ => DataType::Utf8View,
    }
}

fn is_integer(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}
