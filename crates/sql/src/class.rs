//! The classes of types that MySQL's rules know, and the common type of several values.

use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Fields, TimeUnit,
};
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
    /// TIME, a span of hours, minutes and seconds.
    Time,
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
            DataType::Time32(_) | DataType::Time64(_) => Class::Time,
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

/// TIME's Arrow type; see [`dipper_base::clock`].
pub(crate) const TIME: DataType = DataType::Time64(TimeUnit::Microsecond);

/// Returns the common type of nested types: the parts have the common types of the parts. `None` if the types have not
/// all the same form, or where DataFusion's own choice serves for each part.
fn nested_type(types: &[&DataType]) -> Option<DataType> {
    let mut own = false;
    let common = by_part(types, &mut |parts| {
        let charter = charter_type(parts.iter().copied());
        own |= charter.is_some();
        match charter {
            Some(common) => Some(common),
            None if parts.iter().all(|t| *t == parts[0]) => Some(parts[0].clone()),
            None => type_union_resolution(&parts.iter().map(|t| (*t).clone()).collect::<Vec<_>>()),
        }
    });
    common.filter(|_| own)
}

/// Returns the nested type whose parts have the type that `common` gives to the parts of these types. `None` if the types
/// have not all the same form, or it gives none.
///
/// Fields of structs are matched as casts do: by name if all have the names of the first struct, else by position.
pub(crate) fn by_part(
    types: &[&DataType],
    common: &mut dyn FnMut(&[&DataType]) -> Option<DataType>,
) -> Option<DataType> {
    let mut part = |parts: Vec<&FieldRef>| -> Option<FieldRef> {
        let types: Vec<&DataType> = parts.iter().map(|field| field.data_type()).collect();
        let nullable = parts.iter().any(|field| field.is_nullable());
        Some(Arc::new(Field::new(parts[0].name(), common(&types)?, nullable)))
    };
    Some(match types.first()? {
        DataType::List(_) => {
            let items = types.iter().map(|t| if let DataType::List(item) = t { Some(item) } else { None });
            DataType::List(part(items.collect::<Option<Vec<_>>>()?)?)
        }
        DataType::Map(entries, sorted) => {
            let fields = types.iter().map(|t| match t {
                DataType::Map(entries, _) => match entries.data_type() {
                    DataType::Struct(fields) if fields.len() == 2 => Some(fields),
                    _ => None,
                },
                _ => None,
            });
            let fields = fields.collect::<Option<Vec<_>>>()?;
            let key = part(fields.iter().map(|fields| &fields[0]).collect())?;
            let value = part(fields.iter().map(|fields| &fields[1]).collect())?;
            let pairs = DataType::Struct(vec![key, value].into());
            DataType::Map(Arc::new(Field::new(entries.name(), pairs, false)), *sorted)
        }
        DataType::Struct(first) => {
            let places = types.iter().map(|t| match t {
                DataType::Struct(fields) if fields.len() == first.len() => Some((fields, places(fields, first))),
                _ => None,
            });
            let places = places.collect::<Option<Vec<(&Fields, Vec<Option<usize>>)>>>()?;
            let columns = (0..first.len()).map(|at| {
                let parts = places.iter().map(|(fields, places)| places[at].map(|place| &fields[place]));
                part(parts.collect::<Option<Vec<_>>>()?)
            });
            DataType::Struct(columns.collect::<Option<Vec<_>>>()?.into())
        }
        _ => return None,
    })
}

/// Returns where each field of a struct comes from. Fields are matched by name if all names are there, or the numbers of
/// fields differ; else by position. A field that is not there is NULL.
pub(crate) fn places(from: &Fields, to: &Fields) -> Vec<Option<usize>> {
    let named: Vec<Option<usize>> = to.iter().map(|field| from.find(field.name()).map(|(at, _)| at)).collect();
    match from.len() == to.len() && named.contains(&None) {
        true => (0..to.len()).map(Some).collect(),
        false => named,
    }
}

/// Whether two types are a float and another number whose values only DOUBLE holds as well as it can. DataFusion would
/// turn both into a FLOAT, or into a decimal of 15 places. A FLOAT has each TINYINT and SMALLINT, but not each INT.
pub(crate) fn meet_as_double(a: &DataType, b: &DataType) -> bool {
    let meet = |float: &DataType, other: &DataType| {
        let whole = match float {
            DataType::Float16 => 8,
            DataType::Float32 => 16,
            _ => 64,
        };
        match (Class::of(float), Class::of(other)) {
            (Class::Float, Class::Int(bits)) => bits > whole,
            (Class::Float, Class::UInt64) => whole < 64,
            (Class::Float, Class::Decimal(..)) => true,
            _ => false,
        }
    };
    meet(a, b) || meet(b, a)
}

/// Returns the type of a column that holds values of these types; `None` where DataFusion's own choice serves.
pub(crate) fn charter_type<'a>(types: impl Iterator<Item = &'a DataType> + Clone) -> Option<DataType> {
    let classes = types.clone().map(Class::of).filter(|c| *c != Class::Null);
    if let Some(address) = types.clone().find(|t| is_address(t))
        && types.clone().all(|t| is_address(t) || matches!(Class::of(t), Class::Text | Class::Null))
    {
        let one = types.clone().all(|t| !is_address(t) || t == address);
        return Some(if one { address.clone() } else { IPV6 });
    }
    // As in MySQL, a number or a date beside bytes is the bytes of its text.
    let is_text = |t: &DataType| !matches!(Class::of(t), Class::Other | Class::Interval);
    if types.clone().any(is_bytes) && types.clone().all(|t| is_bytes(t) || is_text(t)) {
        return Some(DataType::BinaryView);
    }
    if let Some(nested) = nested_type(&types.clone().filter(|t| !t.is_null()).collect::<Vec<_>>()) {
        return Some(nested);
    }
    if classes.clone().any(|c| matches!(c, Class::Other | Class::Interval)) {
        return None;
    }
    let has = |wanted: fn(Class) -> bool| classes.clone().any(wanted);
    let text = has(|c| c == Class::Text);
    let point = has(|c| matches!(c, Class::Date | Class::DateTime));
    let time = has(|c| c == Class::Time);
    let (boolean, number) = (has(|c| c == Class::Boolean), has(Class::is_number));
    if [text, point, time, boolean || number].iter().filter(|kind| **kind).count() > 1 {
        return Some(DataType::Utf8View);
    }
    // DataFusion's choice for a DATE and a DATETIME counts nanoseconds, which end in the year 2262.
    let mut known = types.clone().filter(|t| !t.is_null());
    if point && known.next().is_some_and(|first| known.any(|t| t != first)) {
        return Some(DATETIME);
    }
    // Files of others have TIME in other units.
    if time && types.clone().any(|t| !t.is_null() && *t != TIME) {
        return Some(TIME);
    }
    let mut floats = types.clone().filter(|t| Class::of(t) == Class::Float);
    if floats.any(|float| boolean || types.clone().any(|t| meet_as_double(float, t))) {
        return Some(DataType::Float64);
    }
    if boolean && number {
        let numbers = types.map(|t| if *t == DataType::Boolean { DataType::Int8 } else { t.clone() });
        return type_union_resolution(&numbers.collect::<Vec<_>>());
    }
    wide_decimal(types)
}

/// Returns the decimal type that holds the values of all these types of decimals and integers, where 38 digits are too
/// few: DataFusion would choose a type of 38 digits, to which some values cannot be cast. `None` where 38 digits are
/// enough or 76 are too few, and for other types.
pub(crate) fn wide_decimal<'a>(types: impl Iterator<Item = &'a DataType>) -> Option<DataType> {
    let (mut before, mut behind, mut decimal) = (0, 0, false);
    for t in types {
        let (digits, scale) = match Class::of(t) {
            Class::Null => continue,
            Class::Int(8) => (3, 0),
            Class::Int(16) => (5, 0),
            Class::Int(32) => (10, 0),
            Class::Int(_) => (19, 0),
            Class::UInt64 => (20, 0),
            Class::Decimal(digits, scale, _) => {
                decimal = true;
                (i16::from(digits), i16::from(scale))
            }
            _ => return None,
        };
        before = before.max(digits - scale);
        behind = behind.max(scale);
    }
    let digits = before + behind;
    let is_wide = decimal && digits > i16::from(DECIMAL128_MAX_PRECISION);
    (is_wide && digits <= i16::from(DECIMAL256_MAX_PRECISION))
        .then_some(DataType::Decimal256(digits as u8, behind as i8))
}

/// Returns the type to which DataFusion casts an argument of type `from` that becomes `common`. DataFusion refuses a call
/// with an argument of which Arrow has no such cast ([`is_own_cast`]): the argument keeps its type until the charter
/// casts it.
pub(crate) fn coerced(from: &DataType, common: &DataType) -> DataType {
    if is_own_cast(from, common) { from.clone() } else { common.clone() }
}

/// Whether only the charter casts a value to the common type of several: a BOOLEAN to a decimal, and what is neither
/// text nor bytes to bytes.
pub(crate) fn is_own_cast(from: &DataType, to: &DataType) -> bool {
    match *from == DataType::Boolean && to.is_decimal() {
        true => true,
        false => is_bytes(to) && !is_bytes(from) && !matches!(Class::of(from), Class::Text | Class::Null),
    }
}
