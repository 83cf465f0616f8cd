//! SHOW PROC: lists of Doris's front end by their paths, if they apply here.

use dipper_dialect::statement::Name;
use dipper_lake::columns::description;
use dipper_lake::sheet::{Cell, Sheet, wall_clock_text};
use dipper_lake::virtual_tables::{no_rows, partitions, proc};
use dipper_store::catalog::Database;

use super::{access, catalog, external, server};
use crate::error::{EngineError, Result};
use crate::info_schema::nodes;
use crate::session::Session;
use crate::statements::{describe, own_name};

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
        "compute_nodes" => no_rows::list("COMPUTE NODES"),
        "brokers" => no_rows::list("BROKER"),
        "resources" => no_rows::list("RESOURCES"),
        "routine_loads" => no_rows::list("ALL ROUTINE LOAD"),
        "trash" => no_rows::list("TRASH"),
        "catalogs" | "catalog" => external::catalogs(session).await,
        "auth" => access::all_grants(session).await,
        "replications" => no_rows::list("REPLICATIONS"),
        "workload_sched_policy" => no_rows::list("WORKLOAD POLICY"),
        "current_queries" | "current_query_stmts" | "global_current_queries" => server::processlist(session, true),
        "compactions" => {
            Ok(Sheet::texts(&["Partition", "TxnID", "StartTime", "CommitTime", "FinishTime", "Error", "Profile"]))
        }
        "bdbje" => Ok(Sheet::texts(&["DbNames", "JournalNumber", "Comment"])),
        "colocation_group" => Ok(Sheet::texts(no_rows::COLOCATION_GROUPS)),
        "cluster_balance" => {
            let mut sheet = Sheet::texts(&["Item", "Number"]);
            proc::BALANCE.iter().for_each(|(name, _)| sheet.push([(*name).into(), "0".into()]));
            Ok(sheet)
        }
        "current_backend_instances" => Ok(Sheet::texts(&["Backend", "InstanceNum"])),
        "load_error_hub" => Ok(Sheet::texts(&["Protocol", "Url"])),
        "jobs" => {
            let mut sheet = Sheet::texts(&["DbId", "DbName"]);
            for database in databases(session).await? {
                sheet.push([database.id.0.to_string().into(), database.name.into()]);
            }
            Ok(sheet)
        }
        "tasks" => Ok(Sheet::texts(&["TaskType", "FailedNum", "TotalNum"])),
        "workload_groups" => no_rows::list("WORKLOAD GROUPS"),
        "warehouses" => no_rows::list("WAREHOUSES"),
        "transactions" => {
            let mut sheet = Sheet::texts(&["DbId", "DbName", "RunningTransactionNum"]);
            for database in databases(session).await? {
                let running = transactions(session, &database).await?.count(STATUS, is_running);
                sheet.push([database.id.0.to_string().into(), database.name.into(), running.to_string().into()]);
            }
            Ok(sheet)
        }
        "dbs" => databases_list(session).await,
        "statistic" | "cluster_health" | "cluster_health/tablet_health" => statistic(session).await,
        other => below(session, other).await,
    }
}

/// Returns the list at a path of several parts.
async fn below(session: &Session, path: &str) -> Result<Sheet> {
    let unknown =
        || EngineError::unsupported(format!("SHOW PROC '/{path}' is not supported; there are /{}", PATHS.join(", /")));
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    // dipper's own catalog has the number 0.
    if parts.starts_with(&["catalogs", "0"]) {
        parts.remove(0);
        parts[0] = "dbs";
    }
    match parts[..] {
        ["dbs"] => databases_list(session).await,
        ["dbs", id] => tables(session, id).await,
        ["dbs", id, table, ref rest @ ..] => {
            below_table(session, &numbered(session, id).await?, table, rest).await?.ok_or_else(unknown)
        }
        ["cluster_balance", list] => {
            let found = proc::BALANCE.iter().find(|(name, _)| *name == list);
            found.map(|(_, columns)| Sheet::texts(columns)).ok_or_else(unknown)
        }
        ["backends", "0"] => {
            let state = session.engine.catalog.snapshot();
            let disks = nodes::disks(&session.engine, &session.variables, &*session.rights(&state)?, &state)?;
            Ok(disks.select(proc::DISKS, |name| if name == "State" { "ONLINE".into() } else { Cell::Null }))
        }
        ["transactions", id] => {
            let all = transactions(session, &numbered(session, id).await?).await?;
            let mut sheet = Sheet::texts(&["State", "Number"]);
            for (state, runs) in [("running", true), ("finished", false)] {
                sheet.push([state.into(), all.count(STATUS, |status| is_running(status) == runs).to_string().into()]);
            }
            Ok(sheet)
        }
        ["transactions", id, state @ ("running" | "finished")] => {
            let mut all = transactions(session, &numbered(session, id).await?).await?;
            all.retain(STATUS, |status| is_running(status) == (state == "running"));
            let columns: Vec<_> = proc::TRANSACTIONS.iter().map(|name| (*name, Some(*name))).collect();
            Ok(all.select(&columns, |_| Cell::Null))
        }
        ["jobs", id] => jobs(session, &numbered(session, id).await?).await,
        ["jobs", id, kind] => {
            let database = numbered(session, id).await?;
            jobs_of(session, &database, kind).await?.ok_or_else(unknown)
        }
        _ => Err(unknown()),
    }
}

/// The column of SHOW TRANSACTION that has the status.
const STATUS: usize = 3;

fn is_running(status: &str) -> bool {
    matches!(status, "PREPARE" | "PRECOMMITTED")
}

async fn transactions(session: &Session, database: &Database) -> Result<Sheet> {
    server::transactions(session, Some(&Name(vec![database.name.clone()])), None).await
}

/// Returns the list at a path below a table; `None` if there is nothing.
async fn below_table(session: &Session, database: &Database, id: &str, rest: &[&str]) -> Result<Option<Sheet>> {
    let tables = catalog::in_database(session, &database.name).await?;
    let table = tables.into_iter().find(|table| table.id.0.to_string() == id).ok_or_else(|| {
        EngineError::invalid(format!(
            "there is no table with the number '{id}'; SHOW PROC '/dbs/{}' lists them",
            database.id.0
        ))
    })?;
    if !table.is_native() {
        return Err(EngineError::unsupported(format!("SHOW PROC below '{}', which is no native table", table.name)));
    }
    if *rest == ["index_schema", id] {
        let columns = describe::of_table(session, &own_name(&database.name, &table.name)).await?;
        return Ok(Some(description(columns, false)));
    }
    let handle = session.engine.native.get(table.id).await?;
    let state = handle.refresh().await?;
    Ok(proc::below(&table, &state, handle.version(), &session.variables.time_zone(), rest))
}

/// The kinds of jobs of a database.
const JOBS: &[&str] = &["load", "delete", "rollup", "schema_change", "export", "build_index"];

/// Counts the jobs of a database by kind and state.
async fn jobs(session: &Session, database: &Database) -> Result<Sheet> {
    let mut sheet = Sheet::texts(&["JobType", "Pending", "Running", "Finished", "Cancelled", "Total"]);
    for kind in JOBS {
        let Some(jobs) = jobs_of(session, database, kind).await? else { continue };
        // Only these two kinds have rows; a change of columns is over when its statement ends.
        let state = if *kind == "load" { LOAD_STATE } else { ALTER_STATE };
        let count = |states: &[&str]| jobs.count(state, |found| states.contains(&found));
        let (running, finished, cancelled) =
            (count(&["LOADING", "PRECOMMITTED"]), count(&["FINISHED"]), count(&["CANCELLED"]));
        let counts = [0, running, finished, cancelled, running + finished + cancelled];
        let mut row = vec![Cell::from(*kind)];
        row.extend(counts.map(|n| Cell::from(n.to_string())));
        sheet.push_row(row);
    }
    Ok(sheet)
}

/// The columns of SHOW LOAD and SHOW ALTER TABLE COLUMN that have the state.
const LOAD_STATE: usize = 2;
const ALTER_STATE: usize = 9;

/// Lists the jobs of a kind; `None` if there is no such kind.
async fn jobs_of(session: &Session, database: &Database, kind: &str) -> Result<Option<Sheet>> {
    let name = Name(vec![database.name.clone()]);
    Ok(Some(match kind {
        "load" => server::loads(session, false, Some(&name)).await?,
        "schema_change" => server::alters(session, Some(&name))?,
        "rollup" => no_rows::list("ALTER TABLE")?,
        "delete" => no_rows::list("DELETE")?,
        "export" => no_rows::list("EXPORT")?,
        "build_index" => no_rows::list("BUILD INDEX")?,
        _ => return Ok(None),
    }))
}

/// Returns the database with this number, if the user sees it.
async fn numbered(session: &Session, id: &str) -> Result<Database> {
    let found = databases(session).await?.into_iter().find(|d| d.id.0.to_string() == id);
    found.ok_or_else(|| {
        EngineError::invalid(format!("there is no database with the number '{id}'; SHOW PROC '/dbs' lists them"))
    })
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
    let database = numbered(session, id).await?;
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
        "VisibleVersion",
        "VisibleVersionTime",
    ]);
    let zone = session.variables.time_zone();
    for table in catalog::in_database(session, &database.name).await? {
        let mut row: Vec<Cell> = vec![table.id.0.to_string().into(), (&table.name).into()];
        match table.is_native() {
            true => {
                let handle = session.engine.native.get(table.id).await?;
                let state = handle.refresh().await?;
                let by = state.schema().partition_by.as_ref();
                let column = by.map(|by| partitions::columns(&state, &by.columns)).unwrap_or_default();
                let tablets: u64 = state.partitions().map(|p| u64::from(p.buckets)).sum();
                row.extend([
                    "1".into(),
                    column.into(),
                    state.partitions().count().to_string().into(),
                    "NORMAL".into(),
                    "OLAP".into(),
                    Cell::Null,
                    tablets.to_string().into(),
                    handle.version().to_string().into(),
                    wall_clock_text(state.changed_ms(), &zone),
                ]);
            }
            false => {
                let kind = if table.as_view().is_some() { "VIEW" } else { "FILES" };
                row.extend(["0".into(), "".into(), "0".into(), "NORMAL".into(), kind.into(), Cell::Null, "0".into()]);
                row.extend([Cell::Null, Cell::Null]);
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
