//! Definitions of the catalog as the statements that create them. Secrets are not masked.

use dipper_dialect::parser::{ParseOptions, query_for};
use dipper_dialect::statement::Name;
use dipper_store::catalog::{Column, Database, ExternalTable, View, ViewColumn};

use crate::files::define::{FORMAT_TEXT, LAZY_SIMPLE_SERDE};

/// Clauses of ROW FORMAT DELIMITED in the order of Hive's grammar, each with its property.
const CLAUSES: &[(&str, &str)] = &[
    ("field.delim", "FIELDS TERMINATED BY"),
    ("escape.delim", "ESCAPED BY"),
    ("collection.delim", "COLLECTION ITEMS TERMINATED BY"),
    ("mapkey.delim", "MAP KEYS TERMINATED BY"),
    ("line.delim", "LINES TERMINATED BY"),
    ("serialization.null.format", "NULL DEFINED AS"),
];

/// The property that ROW FORMAT DELIMITED sets besides `field.delim`.
const FORMAT_KEY: &str = "serialization.format";

/// Returns CREATE EXTERNAL TABLE of `table` under `name`.
pub fn table(name: &str, table: &ExternalTable) -> String {
    let mut out = format!("CREATE EXTERNAL TABLE {}", quoted(name));
    if !table.columns.is_empty() {
        out.push_str(&format!(" (\n{}\n)", columns(&table.columns)));
    }
    if let Some(comment) = &table.comment {
        out.push_str(&format!("\nCOMMENT {}", text(comment)));
    }
    if !table.partition_columns.is_empty() {
        out.push_str(&format!("\nPARTITIONED BY (\n{}\n)", columns(&table.partition_columns)));
    }
    if table.format == FORMAT_TEXT {
        out.push_str(&row_format(table));
    }
    out.push_str(&format!("\nSTORED AS {}", table.format.to_uppercase()));
    out.push_str(&format!("\nLOCATION {}", text(&table.location)));
    if !table.properties.is_empty() {
        out.push_str(&format!("\nTBLPROPERTIES (\n{}\n)", pairs(table.properties.iter())));
    }
    out
}

fn row_format(table: &ExternalTable) -> String {
    let serde = table.serde.as_deref().unwrap_or(LAZY_SIMPLE_SERDE);
    let properties = &table.serde_properties;
    let implied = |key: &str| key == FORMAT_KEY && properties.get(FORMAT_KEY) == properties.get("field.delim");
    let delimited = serde == LAZY_SIMPLE_SERDE
        && properties.contains_key(FORMAT_KEY) == properties.contains_key("field.delim")
        && properties.keys().all(|key| implied(key) || CLAUSES.iter().any(|(known, _)| known == key));
    if delimited {
        let clauses =
            CLAUSES.iter().filter_map(|(key, words)| Some(format!("\n  {words} {}", text(properties.get(*key)?))));
        return format!("\nROW FORMAT DELIMITED{}", clauses.collect::<String>());
    }
    let with = match properties.is_empty() {
        true => String::new(),
        false => format!("\nWITH SERDEPROPERTIES (\n{}\n)", pairs(properties.iter())),
    };
    format!("\nROW FORMAT SERDE {}{with}", text(serde))
}

/// Returns CREATE CATALOG with these properties, in which secrets are masked already.
pub fn catalog(name: &str, comment: Option<&str>, properties: &std::collections::BTreeMap<String, String>) -> String {
    let comment = comment.map(|c| format!(" COMMENT {}", text(c))).unwrap_or_default();
    format!("CREATE CATALOG {}{comment} PROPERTIES (\n{}\n)", quoted(name), pairs(properties.iter()))
}

/// Returns CREATE VIEW of `view` under `name`, for a reader under a mode.
pub fn view(name: &str, view: &View, reader: &ParseOptions) -> String {
    let comment = view.comment.as_ref().map(|comment| format!(" COMMENT {}", text(comment))).unwrap_or_default();
    format!("CREATE VIEW {}{comment} AS {}", named(name, view), query_for(&view.sql, &view.sql_mode, reader))
}

/// Returns CREATE MATERIALIZED VIEW of `view` under `name` with these clauses, for a reader under a mode.
pub fn materialized_view(name: &str, view: &View, clauses: &str, reader: &ParseOptions) -> String {
    let query = query_for(&view.sql, &view.sql_mode, reader);
    format!("CREATE MATERIALIZED VIEW {} {clauses} AS {query}", named(name, view))
}

/// Returns the name of a view with the names and comments of its columns, if it has some of its own.
fn named(name: &str, view: &View) -> String {
    if view.columns.is_empty() {
        return quoted(name);
    }
    let column = |c: &ViewColumn| match &c.comment {
        None => quoted(&c.name),
        Some(comment) => format!("{} COMMENT {}", quoted(&c.name), text(comment)),
    };
    format!("{} ({})", quoted(name), view.columns.iter().map(column).collect::<Vec<_>>().join(", "))
}

/// Returns CREATE DATABASE; `database` is `None` for databases that always exist.
pub fn database(name: &str, database: Option<&Database>) -> String {
    let mut out = format!("CREATE DATABASE {}", quoted(name));
    let mut properties: Vec<(&String, &String)> = database.iter().flat_map(|d| &d.properties).collect();
    let key = "comment".to_string();
    if let Some(comment) = database.and_then(|d| d.comment.as_ref()) {
        properties.push((&key, comment));
    }
    if !properties.is_empty() {
        out.push_str(&format!(" PROPERTIES (\n{}\n)", pairs(properties.into_iter())));
    }
    out
}

/// Returns CREATE TABLE of a virtual table, which nobody can run.
pub fn virtual_table(name: &str, columns: &[(String, String)]) -> String {
    let columns: Vec<_> = columns.iter().map(|(name, data_type)| format!("  {} {data_type}", quoted(name))).collect();
    format!("CREATE TABLE {} (\n{}\n)", quoted(name), columns.join(",\n"))
}

fn columns(list: &[Column]) -> String {
    let lines: Vec<_> = list
        .iter()
        .map(|c| {
            let not_null = if c.nullable { "" } else { " NOT NULL" };
            let comment = c.comment.as_ref().map(|comment| format!(" COMMENT {}", text(comment))).unwrap_or_default();
            format!("  {} {}{not_null}{comment}", quoted(&c.name), c.data_type)
        })
        .collect();
    lines.join(",\n")
}

fn pairs<'a>(list: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    let lines: Vec<_> = list.map(|(key, value)| format!("  {} = {}", text(key), text(value))).collect();
    lines.join(",\n")
}

fn quoted(name: &str) -> String {
    match Name(vec![name.to_string()]).to_string() {
        quoted if quoted.starts_with('`') => quoted,
        plain => format!("`{plain}`"),
    }
}

/// Formats a string literal that reads back the same by Hive's rules and, except for control characters, by MySQL's.
/// Control characters occur as delimiters, where only Hive's rules apply.
fn text(value: &str) -> String {
    let mut out = String::from("'");
    for c in value.chars() {
        match c {
            '\'' => out.push_str("''"),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => out.push_str(&format!("\\{:03o}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_string(), (*v).to_string())).collect()
    }

    #[test]
    fn delimiters_are_clauses_and_other_serdes_are_named() {
        let mut t = ExternalTable {
            columns: vec![Column::new("a", "bigint")],
            format: FORMAT_TEXT.into(),
            serde: Some(LAZY_SIMPLE_SERDE.into()),
            serde_properties: map(&[("field.delim", "\u{1}"), (FORMAT_KEY, "\u{1}"), ("escape.delim", "\\")]),
            location: "/data/o'x".into(),
            ..ExternalTable::default()
        };
        assert_eq!(
            table("t", &t),
            "CREATE EXTERNAL TABLE `t` (\n  `a` bigint\n)\nROW FORMAT DELIMITED\n  FIELDS TERMINATED BY '\\001'\n  \
             ESCAPED BY '\\\\'\nSTORED AS TEXTFILE\nLOCATION '/data/o''x'"
        );
        t.serde_properties.insert("serialization.encoding".into(), "GBK".into());
        assert!(table("t", &t).contains("ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe'"));
        t.serde_properties = map(&[(FORMAT_KEY, "1")]);
        assert!(table("t", &t).contains("'serialization.format' = '1'"));
    }
}
