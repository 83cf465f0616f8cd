//! Columns as DESCRIBE and information_schema tell them.

use arrow::datatypes::{FieldRef, Schema};
use dipper_node::error::Result;
use dipper_store::catalog::{Column, ExternalTable};

use crate::files::define;
use dipper_sql::type_text::type_text;

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnInfo {
    /// Name as written in the definition.
    pub name: String,
    /// SQL type as text: `array<string>`.
    pub type_text: String,
    /// False for NOT NULL.
    pub nullable: bool,
    /// Empty when there is none.
    pub comment: String,
    /// Its value is in the directory's name.
    pub partition: bool,
    /// A key column of a native table.
    pub key: bool,
    /// A key column of a table without two rows of one key.
    pub unique: bool,
    /// What kind of key the column is part of, in the words of Doris and StarRocks: `PRI`, `UNI`, `AGG`, `DUP`, or nothing.
    pub key_kind: &'static str,
    /// DEFAULT, as text.
    pub default: Option<String>,
    /// Extra in the words of Doris: an aggregation, `NONE`, `AUTO_INCREMENT`.
    pub extra: String,
    /// Extra in the words of MySQL: `auto_increment`.
    pub mysql_extra: String,
}

impl ColumnInfo {
    /// A column of which nothing else is known. STRING has the name that Doris shows it by, because it is MySQL's too: a
    /// client that asks for types would know nothing of `string`.
    pub fn plain(name: String, type_text: String, nullable: bool, comment: String) -> ColumnInfo {
        let type_text = if type_text == "string" { "text".into() } else { type_text };
        let (extra, mysql_extra) = (String::new(), String::new());
        let (partition, key, unique, key_kind, default) = (false, false, false, "", None);
        ColumnInfo { name, type_text, nullable, comment, partition, key, unique, key_kind, default, extra, mysql_extra }
    }
}

/// The columns of a table over files of an external catalog.
///
/// # Errors
/// Its definition names none, or does not hold together.
pub fn of_external(external: &ExternalTable) -> Result<Vec<ColumnInfo>> {
    Ok(declared(external)?.map(|fields| described(&fields, external)).unwrap_or_default())
}

/// The columns of a result.
pub fn schema_columns(schema: &Schema, comment: impl Fn(&str) -> String) -> Vec<ColumnInfo> {
    schema
        .fields()
        .iter()
        .map(|f| ColumnInfo::plain(f.name().clone(), type_text(f), f.is_nullable(), comment(f.name())))
        .collect()
}

/// The fields that the definition alone tells; `None` when the files have to.
///
/// # Errors
/// The definition does not hold together.
pub fn declared(table: &ExternalTable) -> Result<Option<Vec<FieldRef>>> {
    if table.columns.is_empty() {
        return Ok(None);
    }
    let mut fields = match table.format.as_str() {
        // A SerDe can deliver other types than those declared: OpenCSVSerde has only strings.
        define::FORMAT_TEXT => define::hive_text(table, &[])?.1.fields().to_vec(),
        define::FORMAT_PARQUET => define::fields(&table.columns)?,
        _ => return Ok(None),
    };
    fields.extend(define::fields(&table.partition_columns)?);
    Ok(Some(fields))
}

/// The columns of a table with these fields, as its definition tells them.
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
