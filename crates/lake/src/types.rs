//! Properties of an SQL type that information_schema shows, such as precision and length, read from the type's text.

/// The properties of a type that information_schema.COLUMNS shows in columns of their own.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The type's name without arguments: `varchar`, `decimal`, `array`.
    pub data_type: String,
    /// Maximum length of text in characters; `None` for other types.
    pub characters: Option<i64>,
    /// Decimal digits of numeric types.
    pub precision: Option<i64>,
    /// Digits after the decimal point.
    pub scale: Option<i64>,
    /// Digits of the fraction of a second, for DATETIME and TIME.
    pub datetime_precision: Option<i64>,
    /// Whether values are text.
    pub is_text: bool,
}

impl Facts {
    /// Returns DATA_TYPE as Doris and StarRocks show it, with names that MySQL's tools know.
    pub fn shown_type(&self) -> &str {
        match self.data_type.as_str() {
            "boolean" => "tinyint",
            "largeint" => "bigint unsigned",
            "string" | "text" => "varchar",
            other => other,
        }
    }

    /// Returns COLUMN_TYPE of a column whose type text is `column_type`. STRING, whose text is `text` in descriptions
    /// of columns, is shown as `string`, as Doris does: the dialects of both systems know that name.
    pub fn shown_column_type<'t>(&self, column_type: &'t str) -> &'t str {
        if self.data_type == "text" { "string" } else { column_type }
    }

    /// Returns COLUMN_SIZE: characters of text, digits of numbers; `None` for other types.
    pub fn column_size(&self) -> Option<i64> {
        match self.data_type.as_str() {
            "boolean" => None,
            "float" => Some(7),
            "double" => Some(15),
            _ => self.characters.or(self.precision),
        }
    }

    /// Returns DECIMAL_DIGITS: digits after the point; for floating-point types the significant digits that they hold.
    pub fn decimal_digits(&self) -> Option<i64> {
        match self.data_type.as_str() {
            "float" | "double" => self.column_size(),
            "boolean" => None,
            _ => self.scale,
        }
    }
}

/// The maximum length of a STRING that Doris shows, in bytes.
const STRING_BYTES_MAX: i64 = 2_147_483_643;

/// Reads the properties from `column_type`, a text that [`type_text`](dipper_sql::type_text::type_text) returns, or
/// `text` for STRING.
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
        "string" | "text" | "json" | "variant" => (facts.is_text, facts.characters) = (true, Some(STRING_BYTES_MAX)),
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
    use dipper_sql::type_text::type_text;
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
