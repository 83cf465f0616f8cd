//! Measurements of this process and its tables, in the monitoring tables of StarRocks and Doris: tablets, threads,
//! counters, statistics of columns, and the last statements.

use std::sync::Arc;

use dipper_base::sketch::HyperLogLog;
use dipper_store::catalog::Table;
use dipper_store::catalog::access::Privileges;
use dipper_store::table::data::Tablet;

use super::config::natives;
use super::server::{millis, status};
use super::{CATALOG_NAME, NATIVE_ENGINE, Wanted};
use crate::context::QueryContext;
use crate::error::Result;
use crate::profile::{Profile, Task};
use dipper_lake::sheet::{Cell, Sheet, wall_clock_us};
use dipper_lake::virtual_tables::keys::keys_type;
use dipper_lake::virtual_tables::partitions::{self, NODE};
use dipper_variables::Variables;

fn int(n: u64) -> Cell {
    Cell::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Fills StarRocks' list of tablets of native tables. Each tablet has one copy.
pub(super) async fn be_tablets(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (_, table, state) in natives(context, wanted).await {
        let path = dipper_store::table::table_path(table.id).to_string();
        for partition in state.partitions().chain(state.temporary_partitions()) {
            for bucket in 0..partition.buckets {
                let (mut segments, mut rows, mut bytes) = (0, 0, 0);
                for segment in state.tablet_segments(Tablet { partition: partition.id, bucket }) {
                    segments += 1;
                    rows += segment.live_rows();
                    bytes += segment.segment.bytes;
                }
                sheet.push([
                    NODE,
                    int(table.id.0),
                    partitions::partition_id(table.id, partition.id),
                    partitions::tablet_id(table.id, partition.id, bucket),
                    Cell::Int(1),
                    int(state.seq()),
                    int(state.seq()),
                    int(segments),
                    int(rows),
                    int(bytes),
                    Cell::Null,
                    Cell::Null,
                    "RUNNING".into(),
                    keys_type(state.schema()).into(),
                    (&path).into(),
                    Cell::Null,
                    int(state.schema().version),
                    Cell::Null,
                    Cell::Null,
                    int(segments),
                ]);
            }
        }
    }
    Ok(())
}

/// Fills Doris's list of tablets of native tables. The only copy of a tablet has the number of the tablet.
pub(super) async fn backend_tablets(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let zone = context.variables.time_zone();
    for (_, table, state) in natives(context, wanted).await {
        let path = dipper_store::table::table_path(table.id).to_string();
        for partition in state.partitions().chain(state.temporary_partitions()) {
            for bucket in 0..partition.buckets {
                let segments = state.tablet_segments(Tablet { partition: partition.id, bucket });
                let (count, bytes) = segments.fold((0, 0), |(count, bytes), s| (count + 1, bytes + s.segment.bytes));
                let tablet = partitions::tablet_id(table.id, partition.id, bucket);
                sheet.push_named([
                    ("BE_ID", NODE),
                    ("TABLET_ID", tablet.clone()),
                    ("REPLICA_ID", tablet),
                    ("PARTITION_ID", partitions::partition_id(table.id, partition.id)),
                    ("TABLET_PATH", (&path).into()),
                    ("TABLET_LOCAL_SIZE", int(bytes)),
                    ("VERSION_COUNT", int(count)),
                    ("SEGMENT_COUNT", int(count)),
                    ("NUM_COLUMNS", int(state.schema().columns.len() as u64)),
                    ("IS_USED", Cell::Int(1)),
                    ("IS_ALTER_FAILED", Cell::Int(0)),
                    ("UPDATE_TIME", wall_clock_us(state.changed_ms(), &zone)),
                ]);
            }
        }
    }
    Ok(())
}

/// Returns the numbers and names of this process's threads, as the system reports them.
fn tasks() -> Vec<(i64, String)> {
    let Ok(entries) = std::fs::read_dir("/proc/self/task") else { return Vec::new() };
    let task = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.ok()?;
        let number = entry.file_name().to_str()?.parse().ok()?;
        let name = std::fs::read_to_string(entry.path().join("comm")).ok()?;
        Some((number, name.trim_end().to_string()))
    };
    let mut all: Vec<_> = entries.filter_map(task).collect();
    all.sort_unstable();
    all
}

pub(super) fn be_threads(_: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (number, name) in tasks() {
        sheet.push([
            NODE,
            "dipper".into(),
            name.into(),
            Cell::Null,
            Cell::Int(number),
            Cell::Null,
            Cell::Null,
            Cell::Null,
        ]);
    }
    Ok(())
}

pub(super) fn fe_threads(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let host = Cell::from(context.variables.get("hostname"));
    for (number, name) in tasks() {
        sheet.push([
            host.clone(),
            Cell::Int(number),
            name.into(),
            "dipper".into(),
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Null,
            Cell::Null,
        ]);
    }
    Ok(())
}

/// Fills the counters of SHOW GLOBAL STATUS.
pub(super) fn metrics(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (name, value) in status(&context.engine, None) {
        sheet.push([NODE, name.into(), "{}".into(), value.parse::<i64>().unwrap_or(i64::MAX).into()]);
    }
    Ok(())
}

/// Fills Doris's list of counters, with those of SHOW GLOBAL STATUS.
pub(super) fn frontend_metrics(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let host = Cell::from(context.variables.get("hostname"));
    for (name, value) in status(&context.engine, None) {
        sheet.push_known([host.clone(), name.into(), Cell::Null, value.into()]);
    }
    Ok(())
}

/// Returns variables with their defaults, and whether the two differ.
pub(crate) fn verbose(variables: &Variables) -> impl Iterator<Item = [Cell; 4]> {
    let defaults: std::collections::HashMap<_, _> =
        Variables::documentation().into_iter().map(|(name, default, _, _)| (name, default)).collect();
    let row = move |(name, value): (String, String)| {
        let default = defaults.get(name.as_str()).cloned();
        let changed = default.as_ref().is_some_and(|default| *default != value);
        [name.into(), value.into(), default.into(), if changed { "1" } else { "0" }.into()]
    };
    variables.list(dipper_dialect::statement::Scope::Session).into_iter().map(row)
}

pub(super) fn verbose_variables(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for [name, value, default, changed] in verbose(&context.variables) {
        let changed = Cell::Int(i64::from(changed == Cell::from("1")));
        sheet.push([name, value, default, changed]);
    }
    Ok(())
}

/// Fills MariaDB's list of variables with their meaning.
pub(super) fn system_variables(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (name, default, _, doc) in Variables::documentation() {
        let value = |global: bool| match global {
            true => context.variables.get_global(name),
            false => context.variables.get(name),
        };
        sheet.push([name.to_uppercase().into(), value(false).into(), value(true).into(), default.into(), doc.into()]);
    }
    Ok(())
}

/// Lists the words of SQL, and which of them must be quoted as names.
pub(super) fn keywords(_: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (word, reserved) in dipper_dialect::parser::keywords() {
        sheet.push([word.into(), Cell::Int(i64::from(reserved)), word.into()]);
    }
    Ok(())
}

/// Lists the session's temporary tables.
pub(super) fn temporary_tables(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (database, table) in context.catalog.tables() {
        let is_own = context.permanent.table(&database.name, &table.name).is_none_or(|below| below.id != table.id);
        if is_own {
            sheet.push([
                CATALOG_NAME.into(),
                (&database.name).into(),
                (&table.name).into(),
                "TEMPORARY TABLE".into(),
                NATIVE_ENGINE.into(),
                context.connection_id.to_string().into(),
                int(table.id.0),
            ]);
        }
    }
    Ok(())
}

/// The recorded statistics of a column: database and table, name, rows, distinct values, NULLs, the least and the
/// greatest value, and the time of the record.
struct Known<'a> {
    database: &'a str,
    table: &'a Table,
    column: &'a str,
    rows: Cell,
    distinct: Cell,
    nulls: Cell,
    least: Cell,
    greatest: Cell,
    at: Cell,
}

/// Calls `put` with the statistics of each column of native tables, which loads record.
async fn statistics(context: &Arc<QueryContext>, wanted: &Wanted, mut put: impl FnMut(Known<'_>)) {
    let zone = context.variables.time_zone();
    for (database, table, state) in natives(context, wanted).await {
        for column in state.schema().columns.iter().filter(|c| !c.hidden) {
            let Some(known) = state.stats(column.id) else { continue };
            let distinct = HyperLogLog::from_bytes(&known.sketch).ok().filter(|_| !known.sketch.is_empty());
            put(Known {
                database: &database,
                table: &table,
                column: &column.name,
                rows: int(state.stats_rows()),
                distinct: distinct.map(|s| s.estimate() as i64).into(),
                nulls: int(known.nulls),
                least: known.min.as_ref().into(),
                greatest: known.max.as_ref().into(),
                at: wall_clock_us(state.changed_ms(), &zone),
            });
        }
    }
}

/// Fills StarRocks' table of column statistics.
pub(super) async fn column_statistics(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let put = |k: Known<'_>| {
        sheet.push([
            int(k.table.id.0),
            k.column.into(),
            k.database.into(),
            (&k.table.name).into(),
            k.rows,
            k.distinct,
            k.nulls,
            k.greatest,
            k.least,
            k.at,
        ]);
    };
    statistics(context, wanted, put).await;
    Ok(())
}

/// Fills Doris's table of column statistics, in which tables and columns have only numbers.
pub(super) async fn doris_column_statistics(
    context: &Arc<QueryContext>,
    wanted: &Wanted,
    sheet: &mut Sheet,
) -> Result<()> {
    let databases = &context.catalog.databases;
    let put = |k: Known<'_>| {
        let table = k.table.id.0.to_string();
        let database = databases.get(k.database).map(|d| d.id.0.to_string());
        sheet.push([
            format!("{table}--1-{}", k.column).into(),
            "0".into(),
            database.into(),
            table.into(),
            "-1".into(),
            k.column.into(),
            Cell::Null,
            k.rows,
            k.distinct,
            k.nulls,
            k.least,
            k.greatest,
            Cell::Null,
            k.at,
            Cell::Null,
        ]);
    };
    statistics(context, wanted, put).await;
    Ok(())
}

/// Fills Doris's audit log with the last statements: the user's own, or all if the user may see those of others.
pub(super) fn audit_log(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let all = context.rights.on_all().contains(Privileges::PROCESS);
    let zone = context.variables.time_zone();
    let seen = |profile: &Arc<Profile>| all || profile.user == context.user;
    for profile in context.engine.profiles().list().into_iter().filter(seen) {
        let state = match profile.state {
            "OK" if profile.task == Task::Query => "EOF",
            state => state,
        };
        let phase = |wanted: &str| {
            let found = profile.phases.iter().find(|(name, _)| *name == wanted);
            Cell::from(found.map(|(_, time)| time.as_millis() as i64))
        };
        // The log keeps the message of an error, and not its number.
        let code = profile.message.is_none().then_some(0);
        sheet.push_named([
            ("query_id", (&profile.id).into()),
            ("time", wall_clock_us(millis(profile.started), &zone)),
            ("user", (&profile.user).into()),
            ("frontend_ip", context.variables.get("hostname").into()),
            ("catalog", CATALOG_NAME.into()),
            ("db", (&profile.database).into()),
            ("state", state.into()),
            ("error_code", code.into()),
            ("error_message", profile.message.as_ref().into()),
            ("query_time", Cell::Int(profile.total.as_millis() as i64)),
            ("return_rows", int(profile.rows)),
            ("plan_times_ms", phase("plan")),
            ("schedule_times_ms", phase("queue")),
            ("stmt_id", int(profile.number())),
            ("stmt_type", profile.task.name().into()),
            ("is_query", Cell::Int(i64::from(profile.task == Task::Query))),
            ("stmt", (&profile.statement).into()),
        ]);
    }
    Ok(())
}

/// Fills MySQL's `profiling` with the times of the steps of the last statements, under their numbers in SHOW PROFILES.
pub(super) fn profiling(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let all = context.rights.on_all().contains(Privileges::PROCESS);
    let seen = |profile: &Arc<Profile>| all || profile.user == context.user;
    for profile in context.engine.profiles().list().into_iter().filter(seen) {
        for (step, (name, time)) in profile.phases.iter().enumerate() {
            sheet.push_known([
                int(profile.number()),
                Cell::Int(step as i64 + 1),
                (*name).into(),
                format!("{:.6}", time.as_secs_f64()).into(),
            ]);
        }
    }
    Ok(())
}
