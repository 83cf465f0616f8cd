//! What columns are called in SQL: `int`, `varchar(10)`, `array<string>`.

use arrow::datatypes::{DataType, Field, FieldRef};
use dipper_base::types::SqlType;
use dipper_dialect::parser::parse_type as parse_sql_type;
use dipper_sql::charter::DIGITS_KEY;
use dipper_text::hive::TYPE_KEY;

/// The SQL type of a field as text. The field's own `dipper.type` counts first, then the digits that it says.
pub fn type_text(field: &Field) -> String {
    match field.metadata().get(TYPE_KEY) {
        Some(text) => text.to_lowercase(),
        None => {
            let declared = field.metadata().get(DIGITS_KEY).and_then(|text| parse_sql_type(text).ok());
            arrow_type_text(field.data_type(), declared.as_ref())
        }
    }
}

/// The text of a part of a type, of which `declared` says the digits of DATETIME.
fn part_text(field: &Field, declared: Option<&SqlType>) -> String {
    match declared {
        Some(_) if !field.metadata().contains_key(TYPE_KEY) => arrow_type_text(field.data_type(), declared),
        _ => type_text(field),
    }
}

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
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Null => "string".into(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "binary".into()
        }
        DataType::Date32 | DataType::Date64 => "date".into(),
        // Parquet files say the precision; tables that declare their columns have microseconds and say it in metadata.
        DataType::Timestamp(unit, _) => match unit {
            arrow::datatypes::TimeUnit::Second => "datetime".into(),
            arrow::datatypes::TimeUnit::Millisecond => "datetime(3)".into(),
            _ => "datetime(6)".into(),
        },
        DataType::Time32(_) | DataType::Time64(_) | DataType::Duration(_) => "time".into(),
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

/// What a type's text says in numbers, for the columns of information_schema that repeat it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The text without arguments: `varchar`, `decimal`, `array`.
    pub data_type: String,
    /// Characters that fit; `None` for other types.
    pub characters: Option<i64>,
    /// Decimal digits of numbers.
    pub precision: Option<i64>,
    /// Digits behind the point.
    pub scale: Option<i64>,
    /// Digits of fractions of a second.
    pub datetime_precision: Option<i64>,
    /// Whether values are text.
    pub is_text: bool,
}

impl Facts {
    /// DATA_TYPE as Doris and StarRocks tell it, in names that MySQL's tools know.
    pub fn shown_type(&self) -> &str {
        match self.data_type.as_str() {
            "boolean" => "tinyint",
            "largeint" => "bigint unsigned",
            "string" | "text" => "varchar",
            other => other,
        }
    }

    /// COLUMN_TYPE of a column with this type: STRING by its own name, as in Doris, which dialects of both systems know.
    pub fn shown_column_type<'t>(&self, column_type: &'t str) -> &'t str {
        if self.data_type == "text" { "string" } else { column_type }
    }

    /// COLUMN_SIZE: characters of text, digits of numbers; `None` for other types.
    pub fn column_size(&self) -> Option<i64> {
        match self.data_type.as_str() {
            "boolean" => None,
            "float" => Some(7),
            "double" => Some(15),
            _ => self.characters.or(self.precision),
        }
    }

    /// DECIMAL_DIGITS: digits behind the point, of floating numbers those that they hold.
    pub fn decimal_digits(&self) -> Option<i64> {
        match self.data_type.as_str() {
            "float" | "double" => self.column_size(),
            "boolean" => None,
            _ => self.scale,
        }
    }
}

/// Longest string in bytes, as Doris shows it.
const STRING_BYTES_MAX: i64 = 2_147_483_643;

/// What `column_type`, a text of [`type_text`], says.
pub fn facts(column_type: &str) -> Facts {
    let end = column_type.find(['(', '<', ' ']).unwrap_or(column_type.len());
    let data_type = column_type[..end].to_string();
    let arguments: Vec<i64> = column_type[end..]
        .strip_prefix('(')
        .and_then(|rest| rest.split(')').next())
        .map(|inside| inside.split(',').filter_map(|n| n.trim().parse().ok()).collect())
        .unwrap_or_default();
    let mut facts = Facts { data_type, ..Facts::default() };
    let digits = match facts.data_type.as_str() {
        "boolean" => Some((1, 0)),
        "tinyint" => Some((3, 0)),
        "smallint" => Some((5, 0)),
        "int" => Some((10, 0)),
        "bigint" if column_type.ends_with("unsigned") => Some((20, 0)),
        "bigint" => Some((19, 0)),
        "largeint" => Some((39, 0)),
        "decimal" => Some((arguments.first().copied().unwrap_or(10), arguments.get(1).copied().unwrap_or(0))),
        _ => None,
    };
    match facts.data_type.as_str() {
        "float" => facts.precision = Some(12),
        "double" => facts.precision = Some(22),
        "datetime" | "timestamp" => facts.datetime_precision = Some(arguments.first().copied().unwrap_or(0)),
        "time" => facts.datetime_precision = Some(arguments.first().copied().unwrap_or(6)),
        "string" | "text" | "json" => (facts.is_text, facts.characters) = (true, Some(STRING_BYTES_MAX)),
        "char" | "varchar" => (facts.is_text, facts.characters) = (true, arguments.first().copied()),
        _ => {}
    }
    if let Some((precision, scale)) = digits {
        (facts.precision, facts.scale) = (Some(precision), Some(scale));
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::*;
    use dipper_text::hive::parse_type;

    #[test]
    fn types_come_back_as_they_were_written() {
        for text in [
            "tinyint",
            "bigint",
            "double",
            "boolean",
            "date",
            "binary",
            "string",
            "decimal(12,3)",
            "varchar(10)",
            "char(3)",
            "array<string>",
            "map<string,array<int>>",
            "struct<a:int,b:varchar(5)>",
        ] {
            assert_eq!(type_text(&parse_type("c", text).unwrap()), text);
        }
    }

    #[test]
    fn numbers_are_taken_from_the_text() {
        let f = facts("decimal(12,3)");
        assert_eq!((f.data_type.as_str(), f.precision, f.scale), ("decimal", Some(12), Some(3)));
        let f = facts("varchar(10)");
        assert_eq!((f.data_type.as_str(), f.characters, f.is_text), ("varchar", Some(10), true));
        assert_eq!(facts("array<decimal(3,1)>").data_type, "array");
        assert_eq!(facts("array<decimal(3,1)>").precision, None);
        assert_eq!(facts("bigint unsigned").precision, Some(20));
        assert_eq!(facts("datetime(3)").datetime_precision, Some(3));
        let shown = |t: &str| {
            let f = facts(t);
            (f.shown_type().to_string(), f.column_size(), f.decimal_digits())
        };
        assert_eq!(shown("boolean"), ("tinyint".into(), None, None));
        assert_eq!(shown("largeint"), ("bigint unsigned".into(), Some(39), Some(0)));
        assert_eq!(shown("text"), ("varchar".into(), Some(STRING_BYTES_MAX), None));
        assert_eq!(shown("decimal(12,3)"), ("decimal".into(), Some(12), Some(3)));
        assert_eq!(shown("double"), ("double".into(), Some(15), Some(15)));
        assert_eq!(shown("datetime(3)"), ("datetime".into(), None, None));
    }
}
