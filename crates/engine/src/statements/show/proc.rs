//! SHOW PROC: lists of Doris's front end by their paths, if they apply here.

use dipper_lake::sheet::{Cell, Sheet};
use dipper_store::catalog::Database;

use super::{access, catalog, external, server};
use crate::error::{EngineError, Result};
use crate::session::Session;

/// The paths that SHOW PROC answers.
const PATHS: &[&str] = &[
    "auth",
    "backends",
    "bdbje",
    "brokers",
    "catalog",
    "catalogs",
    "cluster_balance",
    "cluster_health",
    "colocation_group",
    "compactions",
    "compute_nodes",
    "current_backend_instances",
    "current_queries",
    "current_query_stmts",
    "dbs",
    "frontends",
    "global_current_queries",
    "jobs",
    "load_error_hub",
    "replications",
    "resources",
    "routine_loads",
    "statistic",
    "tasks",
    "transactions",
    "trash",
    "warehouses",
    "workload_groups",
    "workload_sched_policy",
];

/// Returns the list at a path, which has no slash at its beginning and end.
pub(super) async fn show(session: &Session, path: &str) -> Result<Sheet> {
    match path {
        "" => {
            let mut sheet = Sheet::texts(&["name"]);
            PATHS.iter().for_each(|name| sheet.push([(*name).into()]));
            Ok(sheet)
        }
        "backends" => Ok(server::backends(session)),
        "frontends" => Ok(server::frontends(session)),
        "compute_nodes" => dipper_lake::virtual_tables::no_rows::list("COMPUTE NODES"),
        "brokers" => dipper_lake::virtual_tables::no_rows::list("BROKER"),
        "resources" => dipper_lake::virtual_tables::no_rows::list("RESOURCES"),
        "routine_loads" => dipper_lake::virtual_tables::no_rows::list("ALL ROUTINE LOAD"),
        "trash" => dipper_lake::virtual_tables::no_rows::list("TRASH"),
        "catalogs" | "catalog" => external::catalogs(session).await,
        "auth" => access::all_grants(session).await,
        "replications" => dipper_lake::virtual_tables::no_rows::list("REPLICATIONS"),
        "workload_sched_policy" => dipper_lake::virtual_tables::no_rows::list("WORKLOAD POLICY"),
        "current_queries" | "current_query_stmts" | "global_current_queries" => server::processlist(session, true),
        "compactions" => {
            Ok(Sheet::texts(&["Partition", "TxnID", "StartTime", "CommitTime", "FinishTime", "Error", "Profile"]))
        }
        "bdbje" => Ok(Sheet::texts(&["DbNames", "JournalNumber", "Comment"])),
        "colocation_group" => Ok(Sheet::texts(dipper_lake::virtual_tables::no_rows::COLOCATION_GROUPS)),
        "cluster_balance" => Ok(Sheet::texts(&["Item", "Number"])),
        "current_backend_instances" => Ok(Sheet::texts(&["Backend", "InstanceNum"])),
        "load_error_hub" => Ok(Sheet::texts(&["Protocol", "Url"])),
        "jobs" => Ok(Sheet::texts(&["DbId", "DbName"])),
        "tasks" => Ok(Sheet::texts(&["TaskType", "FailedNum", "TotalNum"])),
        "workload_groups" => dipper_lake::virtual_tables::no_rows::list("WORKLOAD GROUPS"),
        "warehouses" => dipper_lake::virtual_tables::no_rows::list("WAREHOUSES"),
        "transactions" => {
            let mut sheet = Sheet::texts(&["DbId", "DbName"]);
            for database in databases(session).await? {
                sheet.push([database.id.0.to_string().into(), database.name.into()]);
            }
            Ok(sheet)
        }
        "dbs" => databases_list(session).await,
        "statistic" | "cluster_health" | "cluster_health/tablet_health" => statistic(session).await,
        other => match other.strip_prefix("dbs/").or_else(|| other.strip_prefix("statistic/")) {
            Some(id) => tables(session, id).await,
            None => Err(EngineError::unsupported(format!(
                "SHOW PROC '/{other}' is not supported; there are /{}",
                PATHS.join(", /")
            ))),
        },
    }
}

/// Returns the databases of dipper's own catalog that the user sees.
pub(super) async fn databases(session: &Session) -> Result<Vec<Database>> {
    let state = session.engine.catalog.refresh().await?;
    let rights = session.rights(&state)?;
    let seen = state.databases.values().filter(|d| rights.sees_database(d));
    Ok(seen.map(|d| Database::clone(d)).collect())
}

/// SHOW DATABASE by its number: a row, or none.
pub(super) async fn database_of(session: &Session, id: u64) -> Result<Sheet> {
    let mut sheet = Sheet::texts(&["DbName"]);
    let found = databases(session).await?.into_iter().filter(|database| database.id.0 == id);
    found.for_each(|database| sheet.push([database.name.into()]));
    Ok(sheet)
}

/// SHOW TABLE by its number: a row, or none.
pub(super) async fn table_of(session: &Session, id: u64) -> Result<Sheet> {
    let mut sheet = Sheet::texts(&["DbName", "TableName", "DbId"]);
    for database in databases(session).await? {
        let tables = catalog::in_database(session, &database.name).await?;
        for table in tables.iter().filter(|table| table.id.0 == id) {
            sheet.push([(&database.name).into(), (&table.name).into(), database.id.0.to_string().into()]);
        }
    }
    Ok(sheet)
}

async fn databases_list(session: &Session) -> Result<Sheet> {
    let mut sheet = Sheet::texts(&[
        "DbId",
        "DbName",
        "TableNum",
        "Size",
        "Quota",
        "LastConsistencyCheckTime",
        "ReplicaCount",
        "ReplicaQuota",
        "RunningTransactionNum",
        "TransactionQuota",
        "LastUpdateTime",
    ]);
    for database in databases(session).await? {
        let tables = catalog::in_database(session, &database.name).await?.len();
        let mut row: Vec<Cell> =
            vec![database.id.0.to_string().into(), database.name.into(), tables.to_string().into()];
        row.resize(11, Cell::Null);
        sheet.push_row(row);
    }
    Ok(sheet)
}

/// Lists the tables of the database with this number.
async fn tables(session: &Session, id: &str) -> Result<Sheet> {
    let found = databases(session).await?.into_iter().find(|d| d.id.0.to_string() == id);
    let database = found.ok_or_else(|| {
        EngineError::invalid(format!("there is no database with the number '{id}'; SHOW PROC '/dbs' lists them"))
    })?;
    let mut sheet = Sheet::texts(&[
        "TableId",
        "TableName",
        "IndexNum",
        "PartitionColumnName",
        "PartitionNum",
        "State",
        "Type",
        "LastConsistencyCheckTime",
        "ReplicaCount",
    ]);
    for table in catalog::in_database(session, &database.name).await? {
        let mut row: Vec<Cell> = vec![table.id.0.to_string().into(), (&table.name).into()];
        match table.is_native() {
            true => {
                let state = session.engine.native.newest(table.id).await?;
                let by = state.schema().partition_by.as_ref();
                let column = by
                    .map(|by| dipper_lake::virtual_tables::partitions::columns(&state, &by.columns))
                    .unwrap_or_default();
                let tablets: u64 = state.partitions().map(|p| u64::from(p.buckets)).sum();
                row.extend([
                    "1".into(),
                    column.into(),
                    state.partitions().count().to_string().into(),
                    "NORMAL".into(),
                    "OLAP".into(),
                    Cell::Null,
                    tablets.to_string().into(),
                ]);
            }
            false => {
                let kind = if table.as_view().is_some() { "VIEW" } else { "FILES" };
                row.extend(["0".into(), "".into(), "0".into(), "NORMAL".into(), kind.into(), Cell::Null, "0".into()]);
            }
        }
        sheet.push_row(row);
    }
    Ok(sheet)
}

/// Counts tables, partitions and tablets by database. Each tablet has one copy.
async fn statistic(session: &Session) -> Result<Sheet> {
    let mut sheet = Sheet::texts(&[
        "DbId",
        "DbName",
        "TableNum",
        "PartitionNum",
        "IndexNum",
        "TabletNum",
        "ReplicaNum",
        "UnhealthyTabletNum",
    ]);
    for database in databases(session).await? {
        let (mut tables, mut partitions, mut tablets) = (0_u64, 0_u64, 0_u64);
        for table in catalog::in_database(session, &database.name).await?.iter().filter(|t| t.is_native()) {
            let state = session.engine.native.newest(table.id).await?;
            tables += 1;
            partitions += state.partitions().count() as u64;
            tablets += state.partitions().map(|p| u64::from(p.buckets)).sum::<u64>();
        }
        let mut row: Vec<Cell> = vec![database.id.0.to_string().into(), database.name.into()];
        row.extend([tables, partitions, partitions, tablets, tablets, 0].map(|n| Cell::from(n.to_string())));
        sheet.push_row(row);
    }
    Ok(sheet)
}
