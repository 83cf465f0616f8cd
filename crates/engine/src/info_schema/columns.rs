//! The columns of a table or view, for DESCRIBE and information_schema.

use std::sync::Arc;

use dipper_base::types::SqlType;
use dipper_dialect::statement::aggregate_name;
use dipper_lake::columns::{ColumnInfo, declared, described, schema_columns};
use dipper_store::catalog::TableDef;
use dipper_store::table::TableState;
use dipper_store::table::schema::{DefaultValue, Model, TableColumn};

use crate::context::QueryContext;
use crate::error::Result;
use crate::tables;

/// Describes the columns of a native table. `hidden` includes hidden ones.
fn native(state: &TableState, hidden: bool) -> Vec<ColumnInfo> {
    let schema = state.schema();
    let info = |(at, c): (usize, &TableColumn)| {
        let key = at < schema.keys;
        let mut extra = Vec::new();
        if !key {
            extra.push(c.aggregate.map_or("NONE", aggregate_name));
        }
        if schema.has_bloom_filter(c) {
            extra.push("BLOOM_FILTER");
        }
        let mut mysql_extra = String::new();
        if c.auto_increment.is_some() {
            extra.push("AUTO_INCREMENT");
            mysql_extra = "auto_increment".into();
        }
        if c.generated.is_some() {
            extra.push("STORED GENERATED");
            mysql_extra = "STORED GENERATED".into();
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
                Some(DefaultValue::Empty) if c.data_type == SqlType::QuantileState => None,
                Some(DefaultValue::Empty) => Some("BITMAP_EMPTY".into()),
            },
            extra: extra.join(","),
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

/// Describes the columns of a table, view or virtual table; `None` if there is none of this name.
///
/// A table over files whose definition has the columns is described from it, without reading the files.
///
/// # Errors
/// The error of planning the view, or of reading the files that would tell the columns.
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
