//! Keys and indexes of native tables in information_schema. A unique key is called PRIMARY, because MySQL's tools look
//! for that name.

use std::sync::Arc;

use dipper_lake::sheet::{Cell, Sheet};
use dipper_store::catalog::Table;
use dipper_store::table::TableState;
use dipper_store::table::schema::{Index, Model, TableColumn};

use super::objects::{catalog_tables, wanted_states};
use super::{CATALOG_NAME, Wanted};
use crate::context::QueryContext;
use crate::error::Result;

const PRIMARY: &str = "PRIMARY";

/// Returns database, name and state of the native tables that the query may want, without those that cannot be read.
async fn tables(context: &Arc<QueryContext>, wanted: &Wanted) -> Vec<(String, String, Arc<TableState>)> {
    let mut states = wanted_states(context, wanted).await;
    let state = |(database, table): (&str, &Arc<Table>)| {
        let state = states.remove(&table.id)?.ok()?;
        Some((database.to_string(), table.name.clone(), state))
    };
    catalog_tables(context, wanted).filter_map(state).collect()
}

fn unique_key(state: &TableState) -> &[TableColumn] {
    match state.schema().model {
        Model::Duplicate => &[],
        Model::Unique | Model::Aggregate => state.schema().key_columns(),
    }
}

pub(super) async fn statistics(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (database, table, state) in tables(context, wanted).await {
        let schema = state.schema();
        let mut push = |non_unique: i64, name: &str, at: usize, column: &TableColumn, index: Option<&Index>| {
            sheet.push([
                CATALOG_NAME.into(),
                (&database).into(),
                (&table).into(),
                Cell::Int(non_unique),
                (&database).into(),
                name.into(),
                Cell::Int(at as i64 + 1),
                (&column.name).into(),
                if non_unique == 0 { "A".into() } else { Cell::Null },
                Cell::Null,
                Cell::Null,
                Cell::Null,
                if column.nullable { "YES" } else { "" }.into(),
                index.map_or("BTREE".to_string(), |i| i.kind.to_uppercase()).into(),
                "".into(),
                index.and_then(|i| i.comment.as_deref()).unwrap_or_default().into(),
                if index.is_none_or(Index::acts) { "YES" } else { "NO" }.into(),
                Cell::Null,
            ]);
        };
        for (at, column) in unique_key(&state).iter().enumerate() {
            push(0, PRIMARY, at, column, None);
        }
        for index in &schema.indexes {
            for (at, place) in index.columns.iter().filter_map(|id| schema.position(*id)).enumerate() {
                push(1, &index.name, at, &schema.columns[place], Some(index));
            }
        }
    }
    Ok(())
}

pub(super) async fn key_column_usage(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (database, table, state) in tables(context, wanted).await {
        for (at, column) in unique_key(&state).iter().enumerate() {
            sheet.push([
                CATALOG_NAME.into(),
                (&database).into(),
                PRIMARY.into(),
                CATALOG_NAME.into(),
                (&database).into(),
                (&table).into(),
                (&column.name).into(),
                Cell::Int(at as i64 + 1),
                Cell::Null,
                Cell::Null,
                Cell::Null,
                Cell::Null,
            ]);
        }
    }
    Ok(())
}

pub(super) async fn table_constraints(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (database, table, state) in tables(context, wanted).await {
        if !unique_key(&state).is_empty() {
            sheet.push([
                CATALOG_NAME.into(),
                (&database).into(),
                PRIMARY.into(),
                (&database).into(),
                table.into(),
                "PRIMARY KEY".into(),
                "YES".into(),
            ]);
        }
    }
    Ok(())
}
