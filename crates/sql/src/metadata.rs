//! Keys of field metadata that carry the part of an SQL type which Arrow's type cannot express.

use arrow::datatypes::Field;

/// The key under which a field carries its SQL type where Arrow's type says less.
pub const TYPE_KEY: &str = "dipper.type";

/// The key under which a text field says that it compares without regard to case.
pub const NO_CASE_KEY: &str = "dipper.no_case";

/// The key under which a field that holds structs carries its SQL type. Only the digits of DATETIME, and which texts are
/// documents, are read from it: names and comments of the struct's fields are those of Arrow's type.
pub const DIGITS_KEY: &str = "dipper.digits";

/// Returns the SQL type of a field whose bytes are a set, or a state of an aggregate.
pub(crate) fn set_type(field: &Field) -> Option<&str> {
    let declared = field.metadata().get(TYPE_KEY).map(String::as_str)?;
    (["bitmap", "hll", "quantile_state"].contains(&declared) || is_state_type(declared)).then_some(declared)
}

/// Whether an SQL type is that of states of an aggregate.
pub(crate) fn is_state_type(text: &str) -> bool {
    text.starts_with("agg_state<")
}
