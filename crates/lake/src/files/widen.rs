//! Finds one type for a column that has different types in the files of a table.

use std::sync::Arc;

use arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Fields, TimeUnit,
};
use dipper_iceberg::reshape::places;

/// Unites two lists of fields: those of `a` in their order, then those that only `b` has, with types that hold the
/// values of both. `Err` are the two fields for which there is no such type.
pub(super) fn united(a: &Fields, b: &Fields) -> Result<Fields, (FieldRef, FieldRef)> {
    let found = places(b, a);
    let both = |(field, place): (&FieldRef, &Option<usize>)| match place {
        None => Ok(Arc::new(field.as_ref().clone().with_nullable(true))),
        Some(at) => wider_field(field, &b[*at]).ok_or_else(|| (Arc::clone(field), Arc::clone(&b[*at]))),
    };
    let own: Vec<FieldRef> = a.iter().zip(&found).map(both).collect::<Result<_, _>>()?;
    let added = (0..b.len()).filter(|at| !found.contains(&Some(*at)));
    let added = added.map(|at| Arc::new(b[at].as_ref().clone().with_nullable(true)));
    Ok(own.into_iter().chain(added).collect())
}

fn wider_field(a: &FieldRef, b: &FieldRef) -> Option<FieldRef> {
    let nullable = a.is_nullable() || b.is_nullable();
    if a.data_type() == b.data_type() {
        return Some(Arc::new(a.as_ref().clone().with_nullable(nullable)));
    }
    let data_type = wider(a.data_type(), b.data_type())?;
    Some(Arc::new(Field::new(a.name(), data_type, nullable)))
}

/// Returns the smallest type that holds the values of both; `None` if there is none.
pub(super) fn wider(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::*;
    if a == b {
        return Some(a.clone());
    }
    Some(match (a, b) {
        (Null, other) | (other, Null) => other.clone(),
        (a, b) if a.is_integer() && b.is_integer() => integer(a, b)?,
        (a, b) if a.is_numeric() && b.is_numeric() => match (decimal(a), decimal(b)) {
            (Some((p, s)), Some((q, t))) => {
                let scale = s.max(t);
                let digits = (i16::from(p) - i16::from(s)).max(i16::from(q) - i16::from(t)) + i16::from(scale);
                match u8::try_from(digits).ok()? {
                    p @ ..=DECIMAL128_MAX_PRECISION => Decimal128(p, scale),
                    p @ ..=DECIMAL256_MAX_PRECISION => Decimal256(p, scale),
                    _ => return None,
                }
            }
            // A floating-point type and any other numeric type.
            _ => Float64,
        },
        (Utf8View, Utf8 | LargeUtf8) | (Utf8 | LargeUtf8, Utf8View) => Utf8View,
        (Utf8 | LargeUtf8, Utf8 | LargeUtf8) => LargeUtf8,
        (BinaryView, Binary | LargeBinary) | (Binary | LargeBinary, BinaryView) => BinaryView,
        (Binary | LargeBinary, Binary | LargeBinary) => LargeBinary,
        (Dictionary(_, value), other) | (other, Dictionary(_, value)) => wider(value, other)?,
        // Instants in one zone are the same instants in another; local times have no zone and are no instants.
        (Timestamp(a, x), Timestamp(b, y)) if x.is_some() == y.is_some() => {
            Timestamp(finer(*a, *b), x.as_ref().map(|_| "UTC".into()))
        }
        (Date32, Timestamp(_, None)) | (Timestamp(_, None), Date32) => Timestamp(TimeUnit::Microsecond, None),
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => {
            Time64(match [a, b].contains(&&Time64(TimeUnit::Nanosecond)) {
                true => TimeUnit::Nanosecond,
                false => TimeUnit::Microsecond,
            })
        }
        (List(a) | LargeList(a) | FixedSizeList(a, _), List(b) | LargeList(b) | FixedSizeList(b, _)) => {
            List(wider_field(a, b)?)
        }
        (Map(a, _), Map(b, _)) => match (a.data_type(), b.data_type()) {
            // Keys and values are identified by their positions.
            (Struct(x), Struct(y)) if x.len() == 2 && y.len() == 2 => {
                let parts: Option<Vec<_>> = x.iter().zip(y).map(|(x, y)| wider_field(x, y)).collect();
                Map(Arc::new(Field::new(a.name(), Struct(parts?.into()), false)), false)
            }
            _ => return None,
        },
        (Struct(a), Struct(b)) => Struct(united(a, b).ok()?),
        _ => return None,
    })
}

/// Returns precision and scale of an exact numeric type.
fn decimal(data_type: &DataType) -> Option<(u8, i8)> {
    Some(match data_type {
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => (*p, *s),
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => (*p, *s),
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

fn integer(a: &DataType, b: &DataType) -> Option<DataType> {
    use DataType::*;
    // Bits of the value, without the sign.
    let bits = |t: &DataType| t.primitive_width().map(|bytes| bytes * 8 - usize::from(t.is_signed_integer()));
    let wanted = bits(a)?.max(bits(b)?);
    let types = match a.is_signed_integer() || b.is_signed_integer() {
        true => [Int8, Int16, Int32, Int64],
        false => [UInt8, UInt16, UInt32, UInt64],
    };
    Some(types.into_iter().find(|t| bits(t) >= Some(wanted)).unwrap_or(Decimal128(20, 0)))
}

fn finer(a: TimeUnit, b: TimeUnit) -> TimeUnit {
    let rank = |unit: TimeUnit| match unit {
        TimeUnit::Second => 0,
        TimeUnit::Millisecond => 1,
        TimeUnit::Microsecond => 2,
        TimeUnit::Nanosecond => 3,
    };
    if rank(a) >= rank(b) { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_widen() {
        use DataType::*;
        let cases = [
            (Int32, Int64, Some(Int64)),
            (UInt32, Int32, Some(Int64)),
            (UInt8, UInt16, Some(UInt16)),
            (UInt64, Int8, Some(Decimal128(20, 0))),
            (Int32, Float64, Some(Float64)),
            (Float32, Float64, Some(Float64)),
            (Decimal128(9, 2), Decimal128(18, 6), Some(Decimal128(18, 6))),
            (Decimal128(38, 0), Decimal128(38, 10), Some(Decimal256(48, 10))),
            (Int64, Decimal128(9, 2), Some(Decimal128(21, 2))),
            (Decimal128(9, 2), Float32, Some(Float64)),
            (Utf8, Int32, None),
            (Boolean, Int32, None),
            (Null, Utf8View, Some(Utf8View)),
            (Date32, Timestamp(TimeUnit::Millisecond, None), Some(Timestamp(TimeUnit::Microsecond, None))),
            (Timestamp(TimeUnit::Millisecond, Some("UTC".into())), Timestamp(TimeUnit::Millisecond, None), None),
        ];
        for (a, b, wanted) in cases {
            assert_eq!(wider(&a, &b), wanted, "{a} {b}");
            assert_eq!(wider(&b, &a), wanted, "{b} {a}");
        }
    }

    #[test]
    fn structs_are_united_by_name() {
        let int = |name: &str| Field::new(name, DataType::Int32, false);
        let a = Fields::from(vec![int("x"), int("y")]);
        let b = Fields::from(vec![Field::new("Y", DataType::Int64, true), int("z")]);
        let made = united(&a, &b).unwrap();
        let found: Vec<_> = made.iter().map(|f| (f.name().as_str(), f.data_type().clone(), f.is_nullable())).collect();
        let wanted = [("x", DataType::Int32, true), ("y", DataType::Int64, true), ("z", DataType::Int32, true)];
        assert_eq!(found, wanted);
        let list =
            |fields: &Fields| DataType::List(Arc::new(Field::new("item", DataType::Struct(fields.clone()), true)));
        assert_eq!(wider(&list(&a), &list(&b)), Some(list(&made)));
        assert!(united(&a, &Fields::from(vec![Field::new("x", DataType::Utf8, true)])).is_err());
    }
}
