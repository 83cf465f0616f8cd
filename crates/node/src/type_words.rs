//! Names of Arrow's types in messages, as those of SQL: `List(Field { data_type: Int64, .. })` is `ARRAY<BIGINT>`.
//!
//! Arrow prints types in two forms, that of its `Display` and that of its `Debug`. Messages have both.

/// Arrow's names and SQL's.
const NAMES: &[(&str, &str)] = &[
    ("Boolean", "BOOLEAN"),
    ("Int8", "TINYINT"),
    ("Int16", "SMALLINT"),
    ("Int32", "INT"),
    ("Int64", "BIGINT"),
    ("UInt8", "TINYINT UNSIGNED"),
    ("UInt16", "SMALLINT UNSIGNED"),
    ("UInt32", "INT UNSIGNED"),
    ("UInt64", "BIGINT UNSIGNED"),
    ("Float16", "FLOAT"),
    ("Float32", "FLOAT"),
    ("Float64", "DOUBLE"),
    ("Utf8", "STRING"),
    ("LargeUtf8", "STRING"),
    ("Utf8View", "STRING"),
    ("Binary", "BINARY"),
    ("LargeBinary", "BINARY"),
    ("BinaryView", "BINARY"),
    ("FixedSizeBinary", "BINARY"),
    ("Date32", "DATE"),
    ("Date64", "DATE"),
    ("Decimal32", "DECIMAL"),
    ("Decimal64", "DECIMAL"),
    ("Decimal128", "DECIMAL"),
    ("Decimal256", "DECIMAL"),
    ("List", "ARRAY"),
    ("LargeList", "ARRAY"),
    ("FixedSizeList", "ARRAY"),
    ("Struct", "STRUCT"),
    ("Map", "MAP"),
    ("Null", "NULL"),
];

/// Names that are also words of English, or that users may give.
const ALSO_WORDS: &[&str] = &["Boolean", "Binary", "List", "Struct", "Map", "Null"];

/// Whether a text has names that only Arrow has.
pub(crate) fn has_names(text: &str) -> bool {
    words(text).any(|word| {
        !ALSO_WORDS.contains(&word)
            && (NAMES.iter().any(|(name, _)| *name == word)
                || text.contains(&format!("{word}(")) && matches!(word, "Timestamp" | "Time32" | "Time64" | "Duration"))
    })
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Replaces Arrow's names of types. What stands in single quotes stays.
pub(crate) fn in_sql(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        if let Some((sql, behind)) = data_type(rest) {
            out.push_str(&sql);
            rest = behind;
            continue;
        }
        let end = match first {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            c if is_word(c) => rest.find(|c: char| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out
}

/// Reads a type at the beginning of a text. Returns its name in SQL and what follows.
fn data_type(text: &str) -> Option<(String, &str)> {
    let (word, behind) = text.split_at(text.find(|c: char| !is_word(c)).unwrap_or(text.len()));
    let plain = NAMES.iter().find(|(name, _)| *name == word).map(|(_, sql)| (*sql).to_string());
    let Some(inside) = behind.strip_prefix('(') else { return plain.map(|sql| (sql, behind)) };
    let whole = match word {
        "Timestamp" => after(inside).map(|(_, rest)| ("DATETIME".to_string(), rest)),
        "Time32" | "Time64" | "Duration" => after(inside).map(|(_, rest)| ("TIME".to_string(), rest)),
        "Decimal32" | "Decimal64" | "Decimal128" | "Decimal256" => after(inside).map(|(parameters, rest)| {
            let parameters = parameters.replace(' ', "");
            (if parameters == "39,0" { "LARGEINT".into() } else { format!("DECIMAL({parameters})") }, rest)
        }),
        "FixedSizeBinary" => after(inside).map(|(bytes, rest)| {
            let name = match bytes {
                "4" => "IPV4",
                "16" => "IPV6",
                _ => "BINARY",
            };
            (name.to_string(), rest)
        }),
        "Dictionary" => after(inside).and_then(|(both, rest)| {
            let (_, value) = both.split_once(", ")?;
            Some((data_type(value)?.0, rest))
        }),
        "List" | "LargeList" | "FixedSizeList" => {
            let item = match inside.split_once(" x ") {
                Some((size, item)) if size.bytes().all(|b| b.is_ascii_digit()) => item,
                _ => inside,
            };
            field(item).and_then(|(_, item, _)| Some((format!("ARRAY<{item}>"), after(inside)?.1)))
        }
        "Struct" => fields(inside).and_then(|fields| {
            let fields: Vec<String> = fields.into_iter().map(|(name, of)| format!("{name}:{of}")).collect();
            Some((format!("STRUCT<{}>", fields.join(",")), after(inside)?.1))
        }),
        "Map" => entries(inside).and_then(|fields| {
            let [(_, key), (_, value)] = fields.as_slice() else { return None };
            Some((format!("MAP<{key},{value}>"), after(inside)?.1))
        }),
        _ => None,
    };
    whole.or_else(|| plain.map(|sql| (sql, behind)))
}

/// Splits a text at the parenthesis that closes one before it.
fn after(inside: &str) -> Option<(&str, &str)> {
    let (mut depth, mut quoted) = (0_usize, false);
    for (at, c) in inside.char_indices() {
        match c {
            '"' => quoted = !quoted,
            _ if quoted => {}
            '(' => depth += 1,
            ')' if depth == 0 => return Some((&inside[..at], &inside[at + 1..])),
            ')' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Reads a field: `Field { name: "a", data_type: Int64, .. }`, `"a": non-null Int64`, or a type alone. Returns its name,
/// its type, and what follows.
fn field(text: &str) -> Option<(&str, String, &str)> {
    if let Some(debug) = text.strip_prefix("Field { ") {
        // Items of lists have no name.
        let (name, rest) = match debug.strip_prefix("name: \"") {
            Some(named) => named.split_once("\", ")?,
            None => ("", debug),
        };
        let (of, rest) = data_type(rest.strip_prefix("data_type: ")?)?;
        let mut depth = 0_usize;
        let end = rest.find(|c| match c {
            '{' => {
                depth += 1;
                false
            }
            '}' if depth == 0 => true,
            '}' => {
                depth -= 1;
                false
            }
            _ => false,
        })?;
        return Some((name, of, &rest[end + 1..]));
    }
    let (name, rest) = match text.strip_prefix('"') {
        Some(named) => {
            let (name, rest) = named.split_once('"')?;
            (name, rest.strip_prefix(": ")?)
        }
        None => ("", text),
    };
    let (of, rest) = data_type(rest.strip_prefix("non-null ").unwrap_or(rest))?;
    Some((name, of, rest))
}

/// Reads the fields of a struct behind its parenthesis.
fn fields(inside: &str) -> Option<Vec<(&str, String)>> {
    let mut rest = inside.strip_prefix('[').unwrap_or(inside);
    let mut fields = Vec::new();
    while !rest.starts_with([')', ']']) {
        let (name, of, behind) = field(rest)?;
        fields.push((name, of));
        rest = behind.strip_prefix(", ").unwrap_or(behind);
    }
    Some(fields)
}

/// Reads the key and the value of a map behind its parenthesis.
fn entries(inside: &str) -> Option<Vec<(&str, String)>> {
    let at = inside.find("Struct(")?;
    fields(&inside[at + "Struct(".len()..])
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Fields, TimeUnit};

    use super::*;

    #[test]
    fn both_forms_of_all_types() {
        let item = |of| Arc::new(Field::new_list_field(of, true));
        let pair = Fields::from(vec![
            Field::new("key", DataType::Utf8, false),
            Field::new("value", DataType::List(item(DataType::Int32)), true),
        ]);
        let map = DataType::Map(Arc::new(Field::new("entries", DataType::Struct(pair), false)), false);
        let parts = Fields::from(vec![Field::new("a b", DataType::Float64, true), Field::new("m", map.clone(), false)]);
        for (of, expected) in [
            (DataType::Utf8View, "STRING"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "DATETIME"),
            (DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())), "DATETIME"),
            (DataType::Time64(TimeUnit::Microsecond), "TIME"),
            (DataType::Decimal128(10, 2), "DECIMAL(10,2)"),
            (DataType::Decimal128(39, 0), "LARGEINT"),
            (DataType::FixedSizeBinary(4), "IPV4"),
            (DataType::List(item(DataType::List(item(DataType::Int64)))), "ARRAY<ARRAY<BIGINT>>"),
            (DataType::FixedSizeList(item(DataType::Int8), 3), "ARRAY<TINYINT>"),
            (map.clone(), "MAP<STRING,ARRAY<INT>>"),
            (DataType::Struct(parts), "STRUCT<a b:DOUBLE,m:MAP<STRING,ARRAY<INT>>>"),
            (DataType::Struct(Fields::empty()), "STRUCT<>"),
            (DataType::Null, "NULL"),
        ] {
            assert_eq!(in_sql(&format!("a {of}, b")), format!("a {expected}, b"), "{of}");
            assert_eq!(in_sql(&format!("a {of:?}, b")), format!("a {expected}, b"), "{of:?}");
        }
    }

    #[test]
    fn other_words_stay() {
        assert_eq!(in_sql("column 'Int64' of Map( and Utf8"), "column 'Int64' of MAP( and STRING");
        assert_eq!(in_sql("Struct([Field { name"), "STRUCT([Field { name");
        assert!(has_names("found Utf8View") && has_names("Time64(µs) + BIGINT"));
        assert!(!has_names("the Map of a List, Timestamp, Binary"));
    }
}
