//! The rows of an external catalog's information_schema about its objects.

use std::sync::Arc;

use dipper_lake::sheet::{Cell, Sheet};
use dipper_store::catalog::ExternalCatalog;
use dipper_store::catalog::access::{Privileges, Rights};
use futures::stream::{self, StreamExt, TryStreamExt};

use super::objects::{FILES_ENGINE, push_columns, push_schema, push_table, virtual_tables};
use super::{INFORMATION_SCHEMA, MYSQL, Wanted, columns as describe};
use crate::context::QueryContext;
use crate::engine::Engine;
use crate::error::Result;

/// Number of databases whose tables, or tables whose columns, are requested at the same time.
const ASKED_AT_ONCE: usize = 16;

/// Lists the databases of a catalog that the user may see, and the virtual ones that every catalog has, sorted.
///
/// # Errors
/// The error of the external system, if it does not answer.
pub(crate) async fn databases(engine: &Engine, rights: &Rights, catalog: &ExternalCatalog) -> Result<Vec<String>> {
    let mut names = engine.lake.databases(catalog).await?;
    names.retain(|name| rights.sees_external(&catalog.name, Some(name)));
    names.extend([INFORMATION_SCHEMA, MYSQL].map(str::to_string));
    names.sort();
    names.dedup();
    Ok(names)
}

/// Lists the tables of an existing database that the user may see, and whether each is a view.
///
/// # Errors
/// The error of the external system, if it does not answer.
pub(crate) async fn tables(
    engine: &Engine,
    rights: &Rights,
    catalog: &ExternalCatalog,
    database: &str,
) -> Result<Vec<(String, bool)>> {
    let mut all = engine.lake.tables(catalog, database).await?;
    all.retain(|(name, _)| rights.on_external(&catalog.name, database, Some(name)).intersects(Privileges::OBJECT));
    Ok(all)
}

/// Adds the rows of a virtual table that a query may want. Returns false for tables about the server, its loads and
/// privileges, which are the same in each catalog.
///
/// # Errors
/// The error of the external system, if it does not answer, or if no table can be read.
pub(super) async fn rows(
    context: &Arc<QueryContext>,
    catalog: &ExternalCatalog,
    table: &str,
    wanted: &Wanted,
    sheet: &mut Sheet,
) -> Result<bool> {
    match table {
        "schemata" => {
            let all = databases(&context.engine, &context.rights, catalog).await?;
            all.iter().filter(|name| wanted.database(name)).for_each(|name| push_schema(&catalog.name, name, sheet));
        }
        "tables" => {
            let zone = context.variables.time_zone();
            let mut push = |database: &str, table: &str, what, comment: &str| {
                push_table([&catalog.name, database, table], what, [Cell::Null, comment.into()], None, &zone, sheet);
            };
            for (database, table, is_view) in wanted_tables(context, catalog, wanted).await? {
                match is_view {
                    true => push(&database, &table, ["VIEW".into(), Cell::Null, Cell::Null], "VIEW"),
                    false => push(&database, &table, ["BASE TABLE".into(), FILES_ENGINE.into(), Cell::Null], ""),
                }
            }
            for (database, table) in virtual_tables(context, wanted) {
                push(database, table, ["SYSTEM VIEW".into(), "MEMORY".into(), Cell::Null], "");
            }
        }
        "columns" => {
            let found = wanted_tables(context, catalog, wanted).await?;
            let asked = found.iter().map(async |(database, table, _)| {
                let described = context.engine.lake.find(catalog, database, table).await;
                (database, table, described.and_then(|found| found.columns()))
            });
            let asked: Vec<_> = asked.collect();
            let mut described = stream::iter(asked).buffered(ASKED_AT_ONCE);
            let (mut told, mut first_error) = (false, None);
            while let Some((database, table, columns)) = described.next().await {
                match columns {
                    Ok(columns) => {
                        told = true;
                        push_columns([&catalog.name, database, table], columns, sheet);
                    }
                    // One table that cannot be read must not hide the columns of all others.
                    Err(e) => {
                        tracing::debug!(%database, %table, error = %e, "left out of information_schema.columns");
                        first_error.get_or_insert(e);
                    }
                }
            }
            if let Some(e) = first_error.filter(|_| !told) {
                return Err(e);
            }
            for (database, table) in virtual_tables(context, wanted) {
                let columns = describe::columns(context, database, table).await?.unwrap_or_default();
                push_columns([&catalog.name, database, table], columns, sheet);
            }
        }
        // The external system does not tell the definitions of views, and its tables have no keys. SHOW PARTITIONS
        // lists their partitions.
        "views"
        | "partitions"
        | "statistics"
        | "key_column_usage"
        | "table_constraints"
        | "tables_config"
        | "table_options"
        | "table_properties"
        | "database_properties"
        | "view_dependency"
        | "metadata_name_ids"
        | "rowsets"
        | "column_data_sizes"
        | "partitions_meta" => {}
        _ => return Ok(false),
    }
    Ok(true)
}

/// Returns database, name, and whether it is a view, for each table that the query may want.
async fn wanted_tables(
    context: &QueryContext,
    catalog: &ExternalCatalog,
    wanted: &Wanted,
) -> Result<Vec<(String, String, bool)>> {
    let databases = databases(&context.engine, &context.rights, catalog).await?;
    let wanted_one = |name: &String| wanted.database(name) && !super::is_everywhere(name);
    let asked: Vec<_> = (databases.into_iter().filter(wanted_one))
        .map(async |database| {
            let found = tables(&context.engine, &context.rights, catalog, &database).await?;
            let found = found.into_iter().filter(|(table, _)| wanted.table(table));
            Ok(found.map(|(table, is_view)| (database.clone(), table, is_view)).collect::<Vec<_>>())
        })
        .collect();
    stream::iter(asked).buffered(ASKED_AT_ONCE).try_concat().await
}
