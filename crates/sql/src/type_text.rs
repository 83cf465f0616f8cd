//! Names of types in SQL: `int`, `varchar(10)`, `array<string>`.

use std::borrow::Borrow;
use std::fmt;

use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use dipper_base::address;
use dipper_base::types::SqlType;
use dipper_dialect::parser::parse_type as parse_sql_type;

use crate::metadata::{DIGITS_KEY, TYPE_KEY};

/// Displays an Arrow type by its SQL name, for messages: `expected a MAP, found BIGINT`. The name is in upper case,
/// unless it contains a STRUCT, whose field names keep their case.
pub(crate) struct Sql<T>(pub T);

impl<T: Borrow<DataType>> fmt::Display for Sql<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.borrow() {
            DataType::Null => f.write_str("NULL"),
            t => {
                let text = arrow_type_text(t, None);
                f.write_str(&if text.contains("struct<") { text } else { text.to_uppercase() })
            }
        }
    }
}

/// Returns the SQL type of a field as text: the type in its metadata ([`TYPE_KEY`]) in lower case, else the name of the
/// Arrow type, in which DATETIME has the digits of [`DIGITS_KEY`], and texts that are documents by it are JSON or
/// VARIANT.
pub fn type_text(field: &Field) -> String {
    match field.metadata().get(TYPE_KEY) {
        Some(text) => text.to_lowercase(),
        None => {
            let declared = field.metadata().get(DIGITS_KEY).and_then(|text| parse_sql_type(text).ok());
            arrow_type_text(field.data_type(), declared.as_ref())
        }
    }
}

/// Returns the text of an element, key, value or field type inside a nested type. `declared` gives what Arrow's type
/// lacks if the field itself has no [`TYPE_KEY`].
fn part_text(field: &Field, declared: Option<&SqlType>) -> String {
    match declared {
        Some(_) if !field.metadata().contains_key(TYPE_KEY) => arrow_type_text(field.data_type(), declared),
        _ => type_text(field),
    }
}

/// Returns the SQL name of an Arrow type. `declared` gives the digits of DATETIME, and which texts are documents, also
/// inside nested types.
fn arrow_type_text(data_type: &DataType, declared: Option<&SqlType>) -> String {
    match data_type {
        DataType::Timestamp(..) if matches!(declared, Some(SqlType::DateTime(_))) => {
            declared.map_or_else(String::new, ToString::to_string)
        }
        DataType::Boolean => "boolean".into(),
        DataType::Int8 => "tinyint".into(),
        DataType::Int16 => "smallint".into(),
        DataType::Int32 => "int".into(),
        DataType::Int64 => "bigint".into(),
        DataType::UInt8 => "tinyint unsigned".into(),
        DataType::UInt16 => "smallint unsigned".into(),
        DataType::UInt32 => "int unsigned".into(),
        DataType::UInt64 => "bigint unsigned".into(),
        DataType::Float16 | DataType::Float32 => "float".into(),
        DataType::Float64 => "double".into(),
        DataType::Decimal256(39, 0) => "largeint".into(),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => format!("decimal({p},{s})"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
            if matches!(declared, Some(SqlType::Json | SqlType::Variant)) =>
        {
            declared.map_or_else(String::new, ToString::to_string)
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => "string".into(),
        t if *t == address::IPV4 => "ipv4".into(),
        t if *t == address::IPV6 => "ipv6".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "binary".into()
        }
        DataType::Date32 | DataType::Date64 => "date".into(),
        // Parquet files have the precision in the Arrow type. Tables with declared columns always have microseconds,
        // and the precision is in the metadata.
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => "datetime".into(),
            TimeUnit::Millisecond => "datetime(3)".into(),
            _ => "datetime(6)".into(),
        },
        DataType::Time32(_) | DataType::Time64(_) if matches!(declared, Some(SqlType::Time(_))) => {
            declared.map_or_else(String::new, ToString::to_string)
        }
        DataType::Time32(TimeUnit::Millisecond) => "time(3)".into(),
        DataType::Time64(_) => "time(6)".into(),
        DataType::Time32(_) | DataType::Duration(_) => "time".into(),
        DataType::Interval(_) => "interval".into(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => {
            let of = if let Some(SqlType::Array(of)) = declared { Some(&**of) } else { None };
            format!("array<{}>", part_text(item, of))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                let (key, value) = match declared {
                    Some(SqlType::Map(key, value)) => (Some(&**key), Some(&**value)),
                    _ => (None, None),
                };
                format!("map<{},{}>", part_text(&fields[0], key), part_text(&fields[1], value))
            }
            _ => "map".into(),
        },
        DataType::Struct(fields) => {
            let of = |at: usize| match declared {
                Some(SqlType::Struct(of)) if of.len() == fields.len() => Some(&of[at].1),
                _ => None,
            };
            let text = |(at, f): (usize, &FieldRef)| format!("{}:{}", f.name(), part_text(f, of(at)));
            format!("struct<{}>", fields.iter().enumerate().map(text).collect::<Vec<_>>().join(","))
        }
        DataType::Dictionary(_, value) => arrow_type_text(value, None),
        DataType::RunEndEncoded(_, values) => type_text(values),
        DataType::Union(..) => "union".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn messages_name_types_as_sql_does() {
        let list = DataType::List(Arc::new(Field::new_list_field(DataType::Utf8View, true)));
        let named = |t: &DataType| Sql(t).to_string();
        assert_eq!(named(&list), "ARRAY<STRING>");
        assert_eq!(named(&DataType::Decimal128(12, 3)), "DECIMAL(12,3)");
        assert_eq!(named(&DataType::Float64), "DOUBLE");
        assert_eq!(named(&DataType::Null), "NULL");
        let fields = vec![Field::new("userId", DataType::Int64, true)];
        assert_eq!(named(&DataType::Struct(fields.into())), "struct<userId:bigint>");
    }
}
