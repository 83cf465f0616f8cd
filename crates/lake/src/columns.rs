//! Columns in the form that DESCRIBE and information_schema show.

use arrow::datatypes::{FieldRef, Schema};
use dipper_node::error::Result;
use dipper_store::catalog::{Column, ExternalTable};

use crate::files::define;
use dipper_sql::type_text::type_text;

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Name as written in the definition.
    pub name: String,
    /// SQL type as text, for example `array<string>`.
    pub type_text: String,
    /// False for NOT NULL.
    pub nullable: bool,
    /// Comment; empty if there is none.
    pub comment: String,
    /// Whether the value is in the directory's name, rather than in the file.
    pub partition: bool,
    /// Whether it is a key column of a native table.
    pub key: bool,
    /// Whether it is a key column of a table in which no two rows share a key.
    pub unique: bool,
    /// Kind of key that the column is part of, in the words of Doris and StarRocks: `PRI`, `UNI`, `AGG`, `DUP`, or
    /// empty.
    pub key_kind: &'static str,
    /// DEFAULT, as text.
    pub default: Option<String>,
    /// Doris' column Extra: an aggregation, `NONE`, `AUTO_INCREMENT`.
    pub extra: String,
    /// MySQL's column Extra: `auto_increment`.
    pub mysql_extra: String,
}

impl ColumnInfo {
    /// Makes a column of which nothing else is known. The type STRING is shown as `text`, also inside others, as Doris
    /// does, because MySQL has that type too: a client that asks for types would not know `string`.
    pub fn plain(name: String, type_text: String, nullable: bool, comment: String) -> ColumnInfo {
        let type_text = as_text(&type_text);
        let (extra, mysql_extra) = (String::new(), String::new());
        let (partition, key, unique, key_kind, default) = (false, false, false, "", None);
        ColumnInfo { name, type_text, nullable, comment, partition, key, unique, key_kind, default, extra, mysql_extra }
    }
}

/// Returns the text of a type with `text` for each `string`.
fn as_text(type_text: &str) -> String {
    let mut out = String::with_capacity(type_text.len());
    let mut rest = type_text;
    while let Some(at) = rest.find("string") {
        let end = at + "string".len();
        let is_whole = (at == 0 && out.is_empty() || rest[..at].ends_with(['<', ',', ':']))
            && (end == rest.len() || rest[end..].starts_with(['>', ',']));
        out.push_str(&rest[..at]);
        out.push_str(if is_whole { "text" } else { "string" });
        rest = &rest[end..];
    }
    out + rest
}

/// Returns the columns of a table over files of an external catalog; none if only its files know them.
///
/// # Errors
/// `Invalid` if the definition is inconsistent.
pub fn of_external(external: &ExternalTable) -> Result<Vec<ColumnInfo>> {
    Ok(declared(external)?.map(|fields| described(&fields, external)).unwrap_or_default())
}

/// Returns the columns of a result. `comment` returns the comment of a column by its name.
pub fn schema_columns(schema: &Schema, comment: impl Fn(&str) -> String) -> Vec<ColumnInfo> {
    schema
        .fields()
        .iter()
        .map(|f| ColumnInfo::plain(f.name().clone(), type_text(f), f.is_nullable(), comment(f.name())))
        .collect()
}

/// Returns the fields that the definition alone determines; `None` if they have to be read from the files.
///
/// # Errors
/// `Invalid` if the definition is inconsistent.
pub fn declared(table: &ExternalTable) -> Result<Option<Vec<FieldRef>>> {
    if table.columns.is_empty() {
        return Ok(None);
    }
    let mut fields = match table.format.as_str() {
        // A SerDe can return other types than the declared ones: OpenCSVSerde returns only strings.
        define::FORMAT_TEXT => define::hive_text(table, &[])?.1.fields().to_vec(),
        define::FORMAT_PARQUET => define::fields(&table.columns)?,
        _ => return Ok(None),
    };
    fields.extend(define::fields(&table.partition_columns)?);
    Ok(Some(fields))
}

/// Returns the columns of a table with these fields, described by its definition.
pub fn described(fields: &[FieldRef], table: &ExternalTable) -> Vec<ColumnInfo> {
    let find = |columns: &[Column], name: &str| columns.iter().find(|c| c.name.eq_ignore_ascii_case(name)).cloned();
    fields
        .iter()
        .map(|f| {
            let in_files = find(&table.columns, f.name());
            let partition = find(&table.partition_columns, f.name());
            let definition = in_files.or_else(|| partition.clone());
            let nullable = definition.as_ref().is_none_or(|c| c.nullable);
            let comment = definition.and_then(|c| c.comment).unwrap_or_default();
            let extra = if partition.is_some() { "PARTITION" } else { "" }.to_string();
            ColumnInfo {
                partition: partition.is_some(),
                mysql_extra: extra.clone(),
                extra,
                ..ColumnInfo::plain(f.name().clone(), type_text(f), nullable, comment)
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::as_text;

    #[test]
    fn strings_are_shown_as_text() {
        for (declared, shown) in [
            ("string", "text"),
            ("array<string>", "array<text>"),
            ("map<string,array<string>>", "map<text,array<text>>"),
            ("struct<string:string,a:int>", "struct<string:text,a:int>"),
            ("varchar(5)", "varchar(5)"),
        ] {
            assert_eq!(as_text(declared), shown);
        }
    }
}
