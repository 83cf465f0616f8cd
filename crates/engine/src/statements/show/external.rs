//! SHOW statements about external catalogs and their contents.

use std::collections::BTreeMap;

use dipper_base::names::CATALOG;
use dipper_dialect::statement::{Literal, Name};
use dipper_lake::catalogs::ExternalObject;
use dipper_lake::catalogs::properties::masked;
use dipper_lake::printed;
use dipper_lake::sheet::{Cell, Kind, Sheet, wall_clock_text};
use dipper_store::catalog::ExternalCatalog;

use super::catalog;
use crate::access::{self, Object};
use crate::catalogs::{self, Place};
use crate::error::{EngineError, Result};
use crate::info_schema::external;
use crate::secrets;
use crate::session::Session;

pub(super) async fn catalogs(session: &Session) -> Result<Sheet> {
    let mut sheet = Sheet::new(&[
        ("CatalogId", Kind::Int),
        ("CatalogName", Kind::Text),
        ("Type", Kind::Text),
        ("IsCurrent", Kind::Text),
        ("CreateTime", Kind::Text),
        ("LastUpdateTime", Kind::Text),
        ("Comment", Kind::Text),
        // The name of StarRocks' first column, by which its programs find the name.
        ("Catalog", Kind::Text),
    ]);
    let state = session.engine.catalog.refresh().await?;
    let zone = session.variables.time_zone();
    let current = |name: &str| if session.catalog() == name { "Yes" } else { "No" };
    let own = CATALOG;
    sheet.push([
        Cell::Int(0),
        own.into(),
        own.into(),
        current(own).into(),
        Cell::Null,
        Cell::Null,
        "".into(),
        own.into(),
    ]);
    let rights = session.rights(&state)?;
    for catalog in state.catalogs.values().filter(|c| access::sees(&rights, &state, &Object::Catalog(c.name.clone()))) {
        sheet.push([
            Cell::Int(i64::try_from(catalog.id.0).unwrap_or(i64::MAX)),
            (&catalog.name).into(),
            catalog.properties.get("type").cloned().into(),
            current(&catalog.name).into(),
            wall_clock_text(catalog.created_ms, &zone),
            wall_clock_text(catalog.changed_ms, &zone),
            catalog.comment.clone().unwrap_or_default().into(),
            (&catalog.name).into(),
        ]);
    }
    Ok(sheet)
}

/// Lists the properties of a catalog, with secrets masked.
pub(super) async fn properties(session: &Session, name: &str) -> Result<Sheet> {
    let mut sheet = Sheet::texts(&["Key", "Value"]);
    if !catalogs::is_internal(name) {
        let state = session.engine.catalog.refresh().await?;
        for (key, value) in masked(&catalogs::named(&state, name)?.properties) {
            sheet.push([key.into(), value.into()]);
        }
    }
    Ok(sheet)
}

pub(super) async fn create_catalog(session: &Session, name: &str) -> Result<Sheet> {
    if catalogs::is_internal(name) {
        return Err(EngineError::unsupported(format!("catalog '{name}' is dipper's own; nobody creates it")));
    }
    let state = session.engine.catalog.refresh().await?;
    let catalog = catalogs::named(&state, name)?;
    let mut sheet = Sheet::texts(&["Catalog", "CreateCatalog"]);
    let shown: BTreeMap<String, String> =
        masked(&catalog.properties).map(|(k, v)| (k.to_string(), v.to_string())).collect();
    sheet.push([name.into(), printed::catalog(name, catalog.comment.as_deref(), &shown).into()]);
    Ok(sheet)
}

/// Lists the databases of an external catalog as [`external::databases`] does, for the session's user.
pub(super) async fn databases(session: &Session, catalog: &ExternalCatalog) -> Result<Vec<String>> {
    let rights = session.rights(&session.engine.catalog.snapshot())?;
    external::databases(&session.engine, &rights, catalog).await
}

/// Lists the tables of a database as [`external::tables`] does, for the session's user. It is an error if the database
/// does not exist.
pub(super) async fn tables(
    session: &Session,
    catalog: &ExternalCatalog,
    database: &str,
) -> Result<Vec<(String, bool)>> {
    session.engine.lake.check_database(catalog, database).await?;
    let rights = session.rights(&session.engine.catalog.snapshot())?;
    external::tables(&session.engine, &rights, catalog, database).await
}

/// Returns the statement that would create a table of an external catalog here; `None` for tables of dipper's own
/// catalog.
pub(super) async fn create_table(session: &Session, name: &Name) -> Result<Option<String>> {
    let Place::External { catalog, database } = session.place(name).await? else { return Ok(None) };
    let database = database.ok_or_else(|| catalogs::no_database_selected(name))?;
    Ok(Some(match session.engine.lake.find(&catalog, &database, name.object()).await? {
        ExternalObject::Hive(table) => secrets::mask(&printed::table(name.object(), &table.definition)).into_owned(),
        ExternalObject::Iceberg(metadata) => dipper_lake::catalogs::iceberg::ddl(name.object(), &metadata)?,
    }))
}

pub(super) async fn partitions(
    session: &Session,
    catalog: &ExternalCatalog,
    database: Option<String>,
    name: &Name,
    spec: &[(String, Literal)],
) -> Result<Sheet> {
    let database = database.ok_or_else(|| catalogs::no_database_selected(name))?;
    let table = name.object();
    let full = format!("{database}.{table}");
    let not_partitioned =
        || EngineError { code: 1505, ..EngineError::invalid(format!("'{full}' is not a partitioned table")) };
    let found = match session.engine.lake.find(catalog, &database, table).await? {
        ExternalObject::Hive(found) => found,
        ExternalObject::Iceberg(metadata) => {
            if !spec.is_empty() {
                return Err(EngineError::unsupported(format!(
                    "SHOW PARTITIONS of '{full}' PARTITION (...): of an Iceberg table all are shown"
                )));
            }
            let parts = session.engine.lake.partitions(catalog, metadata).await?.ok_or_else(not_partitioned)?;
            let mut sheet = Sheet::new(&[("Partition", Kind::Text), ("Records", Kind::UInt), ("Files", Kind::UInt)]);
            let int = |n: u64| Cell::Int(i64::try_from(n).unwrap_or(i64::MAX));
            for (name, rows, files) in parts {
                sheet.push([name.into(), int(rows), int(files)]);
            }
            return Ok(sheet);
        }
    };
    let columns: Vec<String> = found.definition.partition_columns.iter().map(|c| c.name.clone()).collect();
    if columns.is_empty() {
        return Err(not_partitioned());
    }
    let wanted = catalog::wanted(&full, &columns, spec)?;
    let context = session.query_context().await?;
    let connector = context.engine.lake.connector(catalog)?;
    let place = (database.as_str(), table);
    let mut all =
        dipper_lake::catalogs::hive::provider::partitions(&context.read(), &connector, place, columns.len()).await?;
    all.retain(|p| wanted.iter().all(|(at, value)| &p.values[*at] == value));
    let locations =
        dipper_lake::catalogs::hive::provider::locations(&context.read(), &connector, place, &found, &all).await?;
    let mut sheet = Sheet::texts(&["Partition", "Location"]);
    for (partition, location) in all.into_iter().zip(locations) {
        if let Some(location) = location {
            sheet.push([partition.name.into(), location.into()]);
        }
    }
    Ok(sheet)
}
