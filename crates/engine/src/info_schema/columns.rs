//! The columns of a table or view, as DESCRIBE and information_schema tell them.

use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema};
use dipper_store::catalog::{Column, ExternalTable, TableDef};

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

/// The columns of a result.
pub(crate) fn schema_columns(schema: &Schema, comment: impl Fn(&str) -> String) -> Vec<ColumnInfo> {
    schema
        .fields()
        .iter()
        .map(|f| ColumnInfo {
            name: f.name().clone(),
            type_text: type_text(f),
            nullable: f.is_nullable(),
            comment: comment(f.name()),
            partition: false,
        })
        .collect()
}

/// The fields that the definition alone tells; `None` when the files have to.
fn declared(table: &ExternalTable) -> Result<Option<Vec<FieldRef>>> {
    if table.columns.is_empty() {
        return Ok(None);
    }
    let mut fields = match table.format.as_str() {
        // A SerDe can deliver other types than those declared: OpenCSVSerde has only strings.
        define::FORMAT_TEXT => define::hive_text(table)?.1.fields().to_vec(),
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
            ColumnInfo {
                name: f.name().clone(),
                type_text: type_text(f),
                nullable: definition.as_ref().is_none_or(|c| c.nullable),
                comment: definition.and_then(|c| c.comment).unwrap_or_default(),
                partition: partition.is_some(),
            }
        })
        .collect()
}
