//! Casts under `enable_strict_cast`: a value that does not convert is an error, not NULL.
//!
//! The function gets the result of a cast, the value before the cast, and the name of the type. It returns the result,
//! and fails where a value that is not NULL has become NULL. Text becomes an integer only if all of it is one. Casts
//! that nobody wrote, and TRY_CAST, stay as they are.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use dipper_dialect::error::SqlError;

use crate::class::Class;
use crate::functions::{JSON, VARIANT};
use crate::metadata::TYPE_KEY;

/// Name of the function.
pub(super) const NAME: &str = "dipper_strict_cast";

/// Number of characters of a value that an error shows.
const SHOWN_CHARS: usize = 64;

/// The function.
pub(super) fn function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Strict { signature: Signature::any(3, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Strict {
    signature: Signature,
}

impl ScalarUDFImpl for Strict {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let value = &args.arg_fields[0];
        let field = Field::new(NAME, value.data_type().clone(), true);
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
        let [result, given] = match &args.args[..] {
            // A constant is checked once, whatever the number of rows is.
            [ColumnarValue::Scalar(result), ColumnarValue::Scalar(given), ..] => {
                [result.to_array()?, given.to_array()?]
            }
            [result, given, ..] => [result.to_array(rows)?, given.to_array(rows)?],
            _ => return Err(DataFusionError::Internal(format!("{NAME} takes three arguments"))),
        };
        if let Some(row) = failed(&result, &given, &to, is_document) {
            let value = array_value_to_string(&given, row)?;
            let shown: String = value.chars().take(SHOWN_CHARS).collect();
            return Err(DataFusionError::External(Box::new(SqlError {
                code: 1292,
                sqlstate: "22007",
                message: format!("CAST AS {to}: incorrect value '{shown}'; TRY_CAST gives NULL for it"),
                position: None,
            })));
        }
        Ok(args.args.into_iter().next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}

/// Returns the first row whose value did not convert.
fn failed(result: &ArrayRef, given: &ArrayRef, to: &str, is_document: bool) -> Option<usize> {
    let nulls = given.logical_nulls();
    let is_given = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let texts = match Class::of(given.data_type()) {
        Class::Text => cast(given, &DataType::Utf8View).ok(),
        _ => None,
    };
    let texts = texts.as_ref().and_then(|texts| texts.as_string_view_opt());
    let is_whole = ["TINYINT", "SMALLINT", "INT", "BIGINT", "LARGEINT", "BIGINT UNSIGNED"].contains(&to)
        && texts.is_some()
        && !is_document;
    (0..result.len()).find(|row| {
        let text = texts.filter(|_| is_given(*row)).map(|texts| texts.value(*row));
        if is_document && text == Some("null") {
            return false;
        }
        is_given(*row) && (result.is_null(*row) || is_whole && text.is_some_and(|text| !is_integer(text)))
    })
}

fn is_integer(text: &str) -> bool {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}
