//! The classes of types that MySQL's rules know, and the common type of several values.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;

use dipper_base::address::{IPV6, is_address};

use crate::functions::is_bytes;

/// The class of an operand, as finely as operators distinguish types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// The NULL literal.
    Null,
    Boolean,
    /// A signed integer of this many bits.
    Int(u32),
    /// 64-bit unsigned integer; narrower unsigned integers count as the next wider signed type.
    UInt64,
    /// A decimal: precision, scale, and whether it is a 256-bit one.
    Decimal(u8, i8, bool),
    Float,
    Text,
    Date,
    DateTime,
    Interval,
    Other,
}

impl Class {
    /// Returns the class of an Arrow type.
    pub(crate) fn of(t: &DataType) -> Class {
        match t {
            DataType::Null => Class::Null,
            DataType::Boolean => Class::Boolean,
            DataType::Int8 => Class::Int(8),
            DataType::Int16 | DataType::UInt8 => Class::Int(16),
            DataType::Int32 | DataType::UInt16 => Class::Int(32),
            DataType::Int64 | DataType::UInt32 => Class::Int(64),
            DataType::UInt64 => Class::UInt64,
            DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) => {
                Class::Decimal(*p, *s, false)
            }
            DataType::Decimal256(p, s) => Class::Decimal(*p, *s, true),
            DataType::Float16 | DataType::Float32 | DataType::Float64 => Class::Float,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Class::Text,
            DataType::Date32 | DataType::Date64 => Class::Date,
            DataType::Timestamp(..) => Class::DateTime,
            DataType::Interval(_) => Class::Interval,
            DataType::Dictionary(_, value) => Class::of(value),
            _ => Class::Other,
        }
    }

    pub(crate) fn is_number(self) -> bool {
        matches!(self, Class::Int(_) | Class::UInt64 | Class::Decimal(..) | Class::Float)
    }

    pub(crate) fn is_integer(self) -> bool {
        matches!(self, Class::Int(_) | Class::UInt64) || self == LARGEINT_CLASS
    }
}

/// The class of LARGEINT.
pub(crate) const LARGEINT_CLASS: Class = Class::Decimal(39, 0, true);

/// DATETIME's Arrow type.
pub(crate) const DATETIME: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Returns the type of a column that holds values of these types; `None` where DataFusion's own choice serves.
pub(crate) fn charter_type<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let classes = types.clone().map(Class::of).filter(|c| *c != Class::Null);
    if let Some(address) = types.clone().find(|t| is_address(t))
        && types.clone().all(|t| is_address(t) || matches!(Class::of(t), Class::Text | Class::Null))
    {
        let one = types.clone().all(|t| !is_address(t) || t == address);
        // As in Doris, a text need not be an address, unless it is compared with one.
        return Some(match types.clone().any(|t| Class::of(t) == Class::Text) {
            true => DataType::Utf8View,
            false if one => address.clone(),
            false => IPV6,
        });
    }
    if types.clone().any(is_bytes)
        && types.clone().all(|t| is_bytes(t) || matches!(Class::of(t), Class::Text | Class::Null))
    {
        return Some(DataType::BinaryView);
    }
    if classes.clone().any(|c| matches!(c, Class::Other | Class::Interval)) {
        return None;
    }
    let has = |wanted: fn(Class) -> bool| classes.clone().any(wanted);
    let text = has(|c| c == Class::Text);
    let point = has(|c| matches!(c, Class::Date | Class::DateTime));
    let (boolean, number) = (has(|c| c == Class::Boolean), has(Class::is_number));
    if [text, point, boolean || number].iter().filter(|kind| **kind).count() > 1 {
        return Some(DataType::Utf8View);
    }
    if has(|c| c == Class::Float) && (boolean || has(|c| matches!(c, Class::Decimal(..)))) {
        return Some(DataType::Float64);
    }
    if boolean && number {
        let numbers = types.map(|t| if *t == DataType::Boolean { DataType::Int8 } else { t.clone() });
        return type_union_resolution(&numbers.collect::<Vec<_>>());
    }
    None
}
