//! SHOW statements of Doris and StarRocks about users, types, running statements and dynamic partitions.

use dipper_dialect::statement::Name;
use dipper_store::catalog::access::Privileges;

use super::catalog;
use crate::error::Result;
use crate::info_schema::nodes;
use crate::session::Session;
use dipper_lake::sheet::{Cell, Sheet, wall_clock_text};
use dipper_lake::virtual_tables::types;

/// Returns the list that `words` name; `None` for other words.
pub(super) async fn list(session: &Session, words: &str) -> Result<Option<Sheet>> {
    Ok(match words {
        "USERS" | "USER" => Some(users(session).await?),
        "DATA TYPES" => Some(types::sizes()),
        "PROFILELIST" => Some(super::profile::profile_list(session)),
        "RUNNING QUERIES" => Some(running(session)?),
        "LAST INSERT" => Some(last_insert(session)),
        "FRONTENDS DISKS" => Some(disks(session)?),
        _ => match words.split_once(' ').and_then(|(kind, id)| Some((kind, id.parse().ok()?))) {
            Some(("DATABASE", id)) => Some(super::proc::database_of(session, id).await?),
            Some(("TABLE", id)) => Some(super::proc::table_of(session, id).await?),
            _ => None,
        },
    })
}

/// As `frontends_disks()`.
fn disks(session: &Session) -> Result<Sheet> {
    let state = session.engine.catalog.snapshot();
    let rights = session.rights(&state)?;
    nodes::disks(&session.engine, &session.variables, &rights, &state)
}

/// Accounts: all for who can change them, else one's own.
async fn users(session: &Session) -> Result<Sheet> {
    let state = session.engine.catalog.refresh().await?;
    let rights = session.rights(&state)?;
    let all = rights.on_all().intersects(Privileges::CREATE_USER | Privileges::GRANT);
    let mut sheet = Sheet::texts(&["User"]);
    for user in state.accounts.users().filter(|user| all || user.id == rights.user().id) {
        sheet.push([user.to_string().into()]);
    }
    Ok(sheet)
}

/// Makes StarRocks' list of running statements, under the numbers that KILL QUERY takes. It has the user's own
/// statements, or all if the user may see those of others. Statements that wait for admission are shown as running.
fn running(session: &Session) -> Result<Sheet> {
    let rights = session.rights(&session.engine.catalog.snapshot())?;
    let all = rights.on_all().contains(Privileges::PROCESS);
    let zone = session.variables.time_zone();
    let now_ms = chrono::Utc::now().timestamp_millis();
    let before = |elapsed: std::time::Duration| now_ms - i64::try_from(elapsed.as_millis()).unwrap_or(now_ms);
    let mut sheet = Sheet::texts(&[
        "QueryId",
        "ResourceGroupId",
        "StartTime",
        "PendingTimeout",
        "QueryTimeout",
        "State",
        "Slots",
        "Frontend",
        "FeStartTime",
    ]);
    for process in session.engine.processes().list() {
        let activity = process.activity();
        if activity.info.is_none() || !all && process.user != rights.user().name {
            continue;
        }
        sheet.push([
            process.id.to_string().into(),
            "-".into(),
            wall_clock_text(before(activity.since.elapsed()), &zone),
            Cell::Null,
            Cell::Null,
            "RUNNING".into(),
            Cell::Null,
            session.variables.get("hostname").into(),
            wall_clock_text(before(session.engine.globals().uptime()), &zone),
        ]);
    }
    Ok(sheet)
}

/// Shows the session's last INSERT into a native table.
fn last_insert(session: &Session) -> Sheet {
    let mut sheet = Sheet::texts(&[
        "TransactionId",
        "Label",
        "Database",
        "Table",
        "TransactionStatus",
        "LoadedRows",
        "FilteredRows",
    ]);
    if let Some(last) = &session.last_insert {
        sheet.push([
            (&last.txn).into(),
            (&last.label).into(),
            (&last.database).into(),
            (&last.table).into(),
            last.status.into(),
            last.loaded.to_string().into(),
            last.filtered.to_string().into(),
        ]);
    }
    sheet
}

/// Lists the tables that have `dynamic_partition.*` properties, and the values of the properties.
pub(super) async fn dynamic_partitions(session: &Session, from: Option<&Name>) -> Result<Sheet> {
    let database = catalog::database(session, from).await?;
    let mut sheet = Sheet::texts(&[
        "TableName",
        "Enable",
        "TimeUnit",
        "Start",
        "End",
        "Prefix",
        "Buckets",
        "ReplicationNum",
        "StartOf",
        "LastUpdateTime",
        "LastSchedulerTime",
        "State",
        "LastCreatePartitionMsg",
        "LastDropPartitionMsg",
        "ReservedHistoryPeriods",
    ]);
    for table in catalog::in_database(session, &database).await?.iter().filter(|table| table.is_native()) {
        let state = session.engine.native.get(table.id).await?.refresh().await?;
        let schema = state.schema();
        let said = |name: &str| {
            let key = format!("dynamic_partition.{name}");
            schema.shown_properties().find(|(known, _)| **known == key).map(|(_, value)| value.clone())
        };
        let Some(enable) = said("enable") else { continue };
        let start_of = said("start_day_of_week").map(|day| format!("day {day} of the week"));
        sheet.push([
            (&table.name).into(),
            (&enable).into(),
            said("time_unit").into(),
            said("start").into(),
            said("end").into(),
            said("prefix").into(),
            said("buckets").into(),
            "1".into(),
            start_of.or_else(|| said("start_day_of_month").map(|day| format!("day {day} of the month"))).into(),
            Cell::Null,
            Cell::Null,
            if enable.eq_ignore_ascii_case("true") { "NORMAL" } else { "DISABLED" }.into(),
            Cell::Null,
            Cell::Null,
            Cell::Null,
        ]);
    }
    Ok(sheet)
}
