//! Keys of the metadata of fields: what an SQL type says beyond Arrow's.

/// The key under which a field says its SQL type where Arrow's type says less.
pub const TYPE_KEY: &str = "dipper.type";

/// The key under which a field of structs says its SQL type where only the digits of DATETIME are meant: names and comments of
/// fields are those of Arrow's type.
pub const DIGITS_KEY: &str = "dipper.digits";
