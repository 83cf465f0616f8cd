//! The columns of a table or view, as DESCRIBE and information_schema tell them.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use dipper_sql::statement::aggregate_name;
use dipper_store::catalog::{Column, ExternalTable, TableDef};
use dipper_store::table::TableState;
use dipper_store::table::schema::{DefaultValue, Model, TableColumn};
use dipper_store::types::SqlType;

use super::types::type_text;
use crate::error::Result;
use crate::query::QueryContext;
use crate::tables::{self, define};

/// One column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ColumnInfo {
    /// Name as written in the definition.
    pub(crate) name: String,
    /// SQL type as text: `array<string>`.
    pub(crate) type_text: String,
    pub(crate) nullable: bool,
    /// Empty when there is none.
    pub(crate) comment: String,
    /// Its value is in the directory's name.
    pub(crate) partition: bool,
    /// A key column of a native table.
    pub(crate) key: bool,
    /// A key column of a table without two rows of one key.
    pub(crate) unique: bool,
    /// What kind of key the column is part of, in the words of Doris and StarRocks: `PRI`, `UNI`, `AGG`, `DUP`, or nothing.
    pub(crate) key_kind: &'static str,
    /// DEFAULT, as text.
    pub(crate) default: Option<String>,
    /// Extra in the words of Doris: an aggregation, `NONE`, `AUTO_INCREMENT`.
    pub(crate) extra: String,
    /// Extra in the words of MySQL: `auto_increment`.
    pub(crate) mysql_extra: String,
}

impl ColumnInfo {
    /// A column of which nothing else is known. STRING has the name that Doris shows it by, because it is MySQL's too: a
    /// client that asks for types would know nothing of `string`.
    pub(crate) fn plain(name: String, type_text: String, nullable: bool, comment: String) -> ColumnInfo {
        let type_text = if type_text == "string" { "text".into() } else { type_text };
        let (extra, mysql_extra) = (String::new(), String::new());
        let (partition, key, unique, key_kind, default) = (false, false, false, "", None);
        ColumnInfo { name, type_text, nullable, comment, partition, key, unique, key_kind, default, extra, mysql_extra }
    }
}

/// The columns of a native table, hidden ones where the session shows them.
fn native(state: &TableState, hidden: bool) -> Vec<ColumnInfo> {
    let schema = state.schema();
    let info = |(at, c): (usize, &TableColumn)| {
        let key = at < schema.keys;
        let merged = c.aggregate.map_or("NONE", aggregate_name);
        let mut extra = if key { String::new() } else { merged.to_string() };
        let mut mysql_extra = String::new();
        if c.auto_increment.is_some() {
            extra = if key { "AUTO_INCREMENT".into() } else { format!("{extra},AUTO_INCREMENT") };
            mysql_extra = "auto_increment".into();
        }
        if c.on_update.is_some() {
            mysql_extra = "DEFAULT_GENERATED on update CURRENT_TIMESTAMP".into();
        }
        ColumnInfo {
            key,
            unique: key && schema.model != Model::Duplicate,
            key_kind: match schema.shown_model() {
                _ if !key => "",
                Model::Unique if schema.is_primary() => "PRI",
                Model::Unique => "UNI",
                Model::Aggregate => "AGG",
                Model::Duplicate => "DUP",
            },
            default: match &c.default {
                None | Some(DefaultValue::Literal(None)) => None,
                Some(DefaultValue::Literal(Some(text))) => Some(text.clone()),
                Some(DefaultValue::CurrentTimestamp(0)) => Some("CURRENT_TIMESTAMP".into()),
                Some(DefaultValue::CurrentTimestamp(digits)) => Some(format!("CURRENT_TIMESTAMP({digits})")),
                Some(DefaultValue::CurrentDate) => Some("CURRENT_DATE".into()),
                Some(DefaultValue::Empty) if c.data_type == SqlType::Hll => Some("HLL_EMPTY".into()),
                Some(DefaultValue::Empty) => Some("BITMAP_EMPTY".into()),
            },
            extra,
            mysql_extra,
            ..ColumnInfo::plain(
                c.name.clone(),
                c.data_type.to_string(),
                c.nullable,
                c.comment.clone().unwrap_or_default(),
            )
        }
    };
    schema.columns.iter().enumerate().filter(|(_, c)| hidden || !c.hidden).map(info).collect()
}

/// The columns of a table, view or virtual table; `None` when there is no such name.
///
/// A table over files is described from its definition where that says the columns, without a look at the files.
///
/// # Errors
/// The view cannot be planned, or the files that would tell the columns cannot be read.
pub(crate) async fn columns(
    context: &Arc<QueryContext>,
    database: &str,
    table: &str,
) -> Result<Option<Vec<ColumnInfo>>> {
    let found = context.catalog.table(database, table).cloned();
    if let Some(external) = found.as_deref().and_then(|t| t.as_external())
        && let Some(fields) = declared(external)?
    {
        return Ok(Some(described(&fields, external)));
    }
    if let Some(found) = found.as_deref().filter(|t| t.is_native()) {
        let state = crate::native::snapshot(context, found.id).await?;
        return Ok(Some(native(&state, context.hidden_columns)));
    }
    let Some(provider) = tables::find(context, database, table).await? else { return Ok(None) };
    let schema = provider.schema();
    Ok(Some(match found.as_deref().map(|t| &t.def) {
        Some(TableDef::External(external)) => described(schema.fields(), external),
        Some(TableDef::View(view)) => {
            let comment = |name: &str| {
                view.columns.iter().find(|c| c.name == name).and_then(|c| c.comment.clone()).unwrap_or_default()
            };
            schema_columns(&schema, comment)
        }
        _ => schema_columns(&schema, |_| String::new()),
    }))
}

/// The columns of a table over files of an external catalog.
///
/// # Errors
/// Its definition names none, or does not hold together.
pub(crate) fn of_external(external: &ExternalTable) -> Result<Vec<ColumnInfo>> {
    Ok(declared(external)?.map(|fields| described(&fields, external)).unwrap_or_default())
}

/// The columns of a result.
pub(crate) fn schema_columns(schema: &Schema, comment: impl Fn(&str) -> String) -> Vec<ColumnInfo> {
    schema
        .fields()
        .iter()
        .map(|f| ColumnInfo::plain(f.name().clone(), type_text(f), f.is_nullable(), comment(f.name())))
        .collect()
}

/// The fields that the definition alone tells; `None` when the files have to.
fn declared(table: &ExternalTable) -> Result<Option<Vec<FieldRef>>> {
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

fn described(fields: &[FieldRef], table: &ExternalTable) -> Vec<ColumnInfo> {
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
