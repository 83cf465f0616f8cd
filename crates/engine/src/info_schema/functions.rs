//! Doris's table functions about the system, such as `backends()` and `partitions('catalog' = 'internal', ...)`.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use dipper_dialect::statement::{Name, Properties};
use dipper_lake::catalogs::{ExternalObject, hive};
use dipper_lake::files::define;
use dipper_lake::sheet::{Cell, Kind, Sheet};
use dipper_lake::virtual_tables::partitions;
use dipper_store::catalog::TableDef;
use dipper_store::catalog::access::Privileges;

use super::{CATALOG_NAME, nodes};
use crate::access::{self, Object};
use crate::catalogs::{self, Place};
use crate::context::QueryContext;
use crate::error::{EngineError, Result};

/// Names of the functions, and the options of each.
const FUNCTIONS: &[(&str, &[&str])] = &[
    ("backends", &[]),
    ("frontends", &[]),
    ("frontends_disks", &[]),
    ("catalogs", &[]),
    ("partitions", &["catalog", "database", "table"]),
    ("partition_values", &["catalog", "database", "table"]),
    ("jobs", &["type"]),
    ("tasks", &["type"]),
    ("mv_infos", &["database"]),
];

/// Columns of `jobs('type' = 'insert')`.
const JOBS: &[&str] = &[
    "Id",
    "Name",
    "Definer",
    "ExecuteType",
    "RecurringStrategy",
    "Status",
    "ExecuteSql",
    "CreateTime",
    "SucceedTaskCount",
    "FailedTaskCount",
    "CanceledTaskCount",
    "Comment",
];

/// Columns of `jobs('type' = 'mv')`.
const MV_JOBS: &[&str] = &[
    "Id",
    "Name",
    "MvId",
    "MvName",
    "MvDatabaseId",
    "MvDatabaseName",
    "ExecuteType",
    "RecurringStrategy",
    "Status",
    "CreateTime",
];

/// Columns of `tasks('type' = 'insert')`.
const TASKS: &[&str] = &[
    "TaskId",
    "JobId",
    "JobName",
    "Label",
    "Status",
    "ErrorMsg",
    "CreateTime",
    "StartTime",
    "FinishTime",
    "TrackingUrl",
    "LoadStatistic",
    "User",
];

/// Columns of `tasks('type' = 'mv')`.
const MV_TASKS: &[&str] = &[
    "TaskId",
    "JobId",
    "JobName",
    "MvId",
    "MvName",
    "MvDatabaseId",
    "MvDatabaseName",
    "Status",
    "ErrorMsg",
    "CreateTime",
    "StartTime",
    "FinishTime",
    "DurationMs",
    "TaskContext",
    "RefreshMode",
    "NeedRefreshPartitions",
    "CompletedPartitions",
    "Progress",
    "LastQueryId",
];

/// Columns of `mv_infos('database' = '...')`.
const MV_INFOS: &[&str] = &[
    "Id",
    "Name",
    "JobName",
    "State",
    "SchemaChangeDetail",
    "RefreshState",
    "RefreshInfo",
    "QuerySql",
    "EnvInfo",
    "MvProperties",
    "MvPartitionInfo",
    "SyncWithBaseTables",
];

/// Whether `name`, in lower case, is one of these functions.
pub(crate) fn is_one(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| *known == name)
}

/// Returns a table with the rows of a function.
///
/// # Errors
/// `Invalid` if an option is missing, unknown or wrong; `NoTable` if there is no such table or the user may not see it.
pub(crate) async fn provider(
    context: &Arc<QueryContext>,
    name: &str,
    properties: &Properties,
) -> Result<Arc<dyn TableProvider>> {
    let batch = batch(context, name, properties).await?;
    Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
}

async fn batch(context: &Arc<QueryContext>, name: &str, properties: &Properties) -> Result<RecordBatch> {
    let options = FUNCTIONS.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, options)| *options);
    if let Some((key, _)) = properties.iter().find(|(key, _)| !options.iter().any(|o| o.eq_ignore_ascii_case(key))) {
        let takes = match options {
            [] => "takes no options".to_string(),
            some => format!("takes {}", some.iter().map(|o| format!("'{o}'")).collect::<Vec<_>>().join(", ")),
        };
        return Err(EngineError::invalid(format!("{name}(...): option '{key}' is not known; the function {takes}")));
    }
    let option = |wanted: &str| {
        let found = properties.iter().find(|(key, _)| key.eq_ignore_ascii_case(wanted));
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
            .ok_or_else(|| EngineError::invalid(format!("{name}(...): expected '{wanted}' = '...'")))
    };
    // Jobs of materialized views have other columns.
    let of_kind = |insert: &'static [&'static str], mv: &'static [&'static str]| match option("type")? {
        kind if kind.eq_ignore_ascii_case("insert") => Ok(Sheet::texts(insert)),
        kind if kind.eq_ignore_ascii_case("mv") => Ok(Sheet::texts(mv)),
        other => Err(EngineError::invalid(format!("{name}(...): 'type' = '{other}': expected 'insert' or 'mv'"))),
    };
    let sheet: Result<Sheet> = match name {
        "backends" => Ok(nodes::node(&context.engine, &context.variables, nodes::BACKENDS)),
        "frontends" => Ok(nodes::node(&context.engine, &context.variables, nodes::FRONTENDS)),
        "frontends_disks" => nodes::disks(&context.engine, &context.variables, &context.rights, &context.catalog),
        "catalogs" => Ok(all_catalogs(context)),
        "partition_values" => {
            return partition_values(context, option("catalog")?, option("database")?, option("table")?).await;
        }
        "partitions" => partitions(context, option("catalog")?, option("database")?, option("table")?).await,
        "jobs" => of_kind(JOBS, MV_JOBS),
        "tasks" => of_kind(TASKS, MV_TASKS),
        _ => {
            let database = option("database")?;
            if !crate::tables::database_exists(&context.catalog, database) {
                return Err(context.catalog.no_database(database).into());
            }
            Ok(Sheet::texts(MV_INFOS))
        }
    };
    sheet?.into_batch()
}

/// The values of the partitions of a table over files. Who reads them reads a part of its rows.
async fn partition_values(
    context: &Arc<QueryContext>,
    catalog: &str,
    database: &str,
    table: &str,
) -> Result<RecordBatch> {
    let full = format!("{database}.{table}");
    let may_read = |object| access::check(&context.rights, &context.catalog, Privileges::SELECT, &object);
    let unpartitioned =
        || EngineError { code: 1505, ..EngineError::invalid(format!("'{full}' is not a partitioned table")) };
    let name = Name([catalog, database, table].map(str::to_string).to_vec());
    if let Place::External { catalog, .. } = context.place(&name)? {
        may_read(Object::External(catalog.name.clone(), database.to_string(), Some(table.to_string())))?;
        let ExternalObject::Hive(found) = context.engine.lake.find(&catalog, database, table).await? else {
            return Err(EngineError::unsupported(format!(
                "partition_values(...) of '{full}', a table of Iceberg: use SHOW PARTITIONS FROM {name}"
            )));
        };
        let columns = Some(found.definition.partition_columns.len()).filter(|n| *n > 0).ok_or_else(unpartitioned)?;
        let connector = context.engine.lake.connector(&catalog)?;
        let place = (database, table);
        let all = hive::provider::partitions(&context.read(), &connector, place, columns).await?;
        return define::partition_rows(&found.definition, all.into_iter().map(|partition| partition.values));
    }
    may_read(Object::Table(database.to_string(), table.to_string()))?;
    match context.catalog.table(database, table).map(|found| &found.def) {
        Some(TableDef::External(definition)) if definition.partition_columns.is_empty() => Err(unpartitioned()),
        Some(TableDef::External(definition)) => {
            define::partition_rows(definition, define::partitions(&context.read(), definition).await?)
        }
        Some(_) => Err(EngineError::unsupported(format!(
            "partition_values(...) of '{full}', which is no table over files: use partitions(...)"
        ))),
        None => Err(crate::tables::no_such_table(context, Some(database), table)),
    }
}

/// Lists each property of each catalog that the user sees, with secrets masked.
fn all_catalogs(context: &QueryContext) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("CatalogId", Kind::Int),
        ("CatalogName", Kind::Text),
        ("CatalogType", Kind::Text),
        ("Property", Kind::Text),
        ("Value", Kind::Text),
    ]);
    sheet.push([Cell::Int(0), CATALOG_NAME.into(), CATALOG_NAME.into(), Cell::Null, Cell::Null]);
    let seen = |name: &str| access::sees(&context.rights, &context.catalog, &Object::Catalog(name.to_string()));
    for catalog in context.catalog.catalogs.values().filter(|c| seen(&c.name)) {
        let kind = catalog.properties.get("type").cloned();
        for (key, value) in dipper_lake::catalogs::properties::masked(&catalog.properties) {
            sheet.push([
                Cell::Int(i64::try_from(catalog.id.0).unwrap_or(i64::MAX)),
                (&catalog.name).into(),
                kind.clone().into(),
                key.to_string().into(),
                value.to_string().into(),
            ]);
        }
    }
    sheet
}

/// Returns the rows of SHOW PARTITIONS.
async fn partitions(context: &Arc<QueryContext>, catalog: &str, database: &str, table: &str) -> Result<Sheet> {
    if !catalogs::is_internal(catalog) {
        return Err(EngineError::unsupported(format!(
            "partitions(...) of catalog '{catalog}': use SHOW PARTITIONS FROM {catalog}.{database}.{table}"
        )));
    }
    let object = Object::Table(database.to_string(), table.to_string());
    let found = context.catalog.table(database, table);
    let Some(found) = found.filter(|_| access::sees(&context.rights, &context.catalog, &object)) else {
        return Err(crate::tables::no_such_table(context, Some(database), table));
    };
    if !found.is_native() {
        return Err(EngineError::unsupported(format!(
            "partitions(...) of '{database}.{table}', which is no native table: use SHOW PARTITIONS FROM {database}.{table}"
        )));
    }
    let state = crate::native::snapshot(context, found.id).await?;
    let version = context.engine.native.get(found.id).await?.version();
    Ok(partitions::partition_rows(found.id, &state, version, &context.variables.time_zone(), false))
}
