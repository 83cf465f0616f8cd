//! Data about the server in information_schema and mysql: engines, character sets, variables, sessions, and the data
//! cache.

use std::collections::BTreeMap;

use dipper_dialect::statement::Scope;
use dipper_lake::sheet::{Cell, Sheet};
use dipper_store::catalog::access::{Privileges, Rights};

use super::Wanted;
use crate::context::QueryContext;
use crate::engine::Engine;
use crate::error::Result;
use dipper_variables::Variables;
use dipper_variables::charset::{CHARACTER_SETS, COLLATIONS, character_set};

/// Returns the engines: name, support, comment, transactions, XA, savepoints.
pub(crate) fn engines() -> [[&'static str; 6]; 3] {
    [
        [
            super::objects::NATIVE_ENGINE,
            "DEFAULT",
            "Native tables: columns and keys in an object store",
            "NO",
            "NO",
            "NO",
        ],
        [super::objects::FILES_ENGINE, "YES", "Tables over delimited text and Parquet files", "NO", "NO", "NO"],
        ["MEMORY", "YES", "Virtual tables of information_schema and mysql", "NO", "NO", "NO"],
    ]
}

pub(super) fn fill_engines(_: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for row in engines() {
        sheet.push(row.map(Cell::from));
    }
    Ok(())
}

pub(super) fn character_sets(_: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for c in CHARACTER_SETS {
        sheet.push([c.name.into(), c.default_collation.into(), c.description.into(), c.bytes_max.into()]);
    }
    Ok(())
}

/// Whether the collation is the default of its character set.
pub(crate) fn is_default(collation: &str, charset: &str) -> bool {
    character_set(charset).is_some_and(|c| c.default_collation == collation)
}

pub(super) fn collations(_: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for c in COLLATIONS {
        sheet.push([
            c.name.into(),
            c.charset.into(),
            c.id.into(),
            if is_default(c.name, c.charset) { "Yes" } else { "" }.into(),
            "Yes".into(),
            Cell::Int(1),
            "NO PAD".into(),
        ]);
    }
    Ok(())
}

pub(super) fn applicability(_: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for c in COLLATIONS {
        sheet.push([c.name.into(), c.charset.into()]);
    }
    Ok(())
}

fn variables(variables: &Variables, scope: Scope, sheet: &mut Sheet) {
    for (name, value) in variables.list(scope) {
        sheet.push([name.into(), value.into()]);
    }
}

pub(super) fn session_variables(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    variables(&context.variables, Scope::Session, sheet);
    Ok(())
}

pub(super) fn global_variables(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    variables(&context.variables, Scope::Global, sheet);
    Ok(())
}

/// Returns the counters of a session, given by its number, or of this process, sorted by name. What is not counted by
/// session is that of the process.
pub(crate) fn status(engine: &Engine, session: Option<u32>) -> Vec<(&'static str, String)> {
    let sessions = engine.processes().list();
    let running = sessions.iter().filter(|p| p.activity().command == "Query").count();
    let uptime = engine.globals().uptime().as_secs();
    let mut all = engine.counted(session);
    all.extend(engine.processes().counters(session).list());
    all.extend([
        ("Open_tables", engine.native.open_tables().len() as u64),
        ("Threads_connected", sessions.len() as u64),
        ("Threads_running", running as u64),
        ("Uptime", uptime),
        ("Uptime_since_flush_status", uptime),
    ]);
    all.sort_unstable();
    all.into_iter().map(|(name, value)| (name, value.to_string())).collect()
}

pub(super) fn global_status(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (name, value) in status(&context.engine, None) {
        sheet.push([name.into(), value.into()]);
    }
    Ok(())
}

pub(super) fn session_status(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (name, value) in status(&context.engine, Some(context.connection_id)) {
        sheet.push([name.into(), value.into()]);
    }
    Ok(())
}

/// Returns the sessions of this process in MySQL's columns Id, User, Host, db, Command, Time, State, Info: the user's
/// own, or all if the user may see those of others.
pub(crate) fn processes(engine: &Engine, rights: &Rights) -> Vec<[Cell; 8]> {
    let all = rights.on_all().contains(Privileges::PROCESS);
    let row = |p: std::sync::Arc<crate::process::Process>| {
        let activity = p.activity();
        let state = if activity.info.is_some() { "executing" } else { "" };
        [
            Cell::Int(i64::from(p.id)),
            (&p.user).into(),
            (&p.host).into(),
            activity.database.into(),
            activity.command.into(),
            Cell::Int(activity.since.elapsed().as_secs() as i64),
            state.into(),
            activity.info.into(),
        ]
    };
    engine.processes().list().into_iter().filter(|p| all || p.user == rights.user().name).map(row).collect()
}

pub(super) fn processlist(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for row in processes(&context.engine, &context.rights) {
        sheet.push_known(row);
    }
    Ok(())
}

/// Fills performance_schema.threads: each session of [`processes`] is a foreground thread.
pub(super) fn threads(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for [id, user, host, database, command, time, state, info] in processes(&context.engine, &context.rights) {
        let number = id.clone();
        sheet.push_known([
            id,
            "thread/sql/one_connection".into(),
            "FOREGROUND".into(),
            number,
            user,
            host,
            database,
            command,
            time,
            state,
            info,
            Cell::Null,
            Cell::Null,
            "YES".into(),
            "YES".into(),
            "TCP/IP".into(),
        ]);
    }
    Ok(())
}

/// Counts the sessions that are open by the values that `of` returns. Those that have ended are not counted.
fn sessions_by<const N: usize>(context: &QueryContext, sheet: &mut Sheet, of: impl Fn(&[Cell; 8]) -> [Cell; N]) {
    let mut counted: BTreeMap<[Cell; N], i64> = BTreeMap::new();
    for session in processes(&context.engine, &context.rights) {
        *counted.entry(of(&session)).or_default() += 1;
    }
    for (names, sessions) in counted {
        let mut row: Vec<Cell> = names.into_iter().chain([Cell::Int(sessions)]).collect();
        row.resize(N + SESSION_COUNTS, Cell::Null);
        sheet.push_row(row);
    }
}

/// Number of columns behind the names in performance_schema.accounts, users and hosts.
const SESSION_COUNTS: usize = 4;

/// Returns the host of `host:port`.
fn host(session: &[Cell; 8]) -> Cell {
    match &session[2] {
        Cell::Text(peer) => peer.rsplit_once(':').map_or(peer.as_str(), |(host, _)| host).into(),
        other => other.clone(),
    }
}

/// Fills performance_schema.accounts: sessions by user and host.
pub(super) fn accounts(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    sessions_by(context, sheet, |session| [session[1].clone(), host(session)]);
    Ok(())
}

pub(super) fn users(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    sessions_by(context, sheet, |session| [session[1].clone()]);
    Ok(())
}

pub(super) fn hosts(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    sessions_by(context, sheet, |session| [host(session)]);
    Ok(())
}

/// Fills sys.processlist and sys.session.
pub(super) fn sys_sessions(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for [id, user, peer, database, command, time, state, info] in processes(&context.engine, &context.rights) {
        let account = match (user, peer) {
            (Cell::Text(user), Cell::Text(peer)) => format!("{user}@{peer}").into(),
            (user, _) => user,
        };
        sheet.push_known([id.clone(), id, account, database, command, state, time, info]);
    }
    Ok(())
}

pub(super) fn sys_metrics(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (name, value) in status(&context.engine, None) {
        sheet.push([name.to_lowercase().into(), value.into(), "Global Status".into(), "YES".into()]);
    }
    Ok(())
}

/// Fills sys.version. The views of `sys` are those of version 2.
pub(super) fn sys_version(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    sheet.push(["2.1.2".into(), context.variables.get("version").into()]);
    Ok(())
}

/// Lists the names of zones that `time_zone` accepts.
pub(super) fn time_zones(_: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (number, zone) in chrono_tz::TZ_VARIANTS.iter().enumerate() {
        sheet.push([zone.name().into(), Cell::Int(number as i64 + 1)]);
    }
    Ok(())
}

/// Fills the data cache's row, with the columns of StarRocks and a few of its own.
pub(super) fn data_cache(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let stats = context.engine.data_cache().stats();
    let int = |n: u64| Cell::Int(i64::try_from(n).unwrap_or(i64::MAX));
    sheet.push([
        Cell::Int(1),
        match (stats.has_disk, stats.disk_fails) {
            (false, _) => "MemoryOnly",
            (true, true) => "Abnormal",
            (true, false) => "Normal",
        }
        .into(),
        int(stats.disk_capacity),
        int(stats.disk_bytes),
        int(stats.memory_capacity),
        int(stats.memory_bytes + stats.pending_bytes),
        int(stats.extents * EXTENT_BYTES),
        Cell::Null,
        int(stats.extents),
        int(stats.evictions),
        int(stats.read_errors),
        int(stats.write_errors),
    ]);
    Ok(())
}

/// Estimated memory of the data cache's index per extent, in bytes.
const EXTENT_BYTES: u64 = 200;

/// Lists requests to object stores, and the savings of the data cache, since the start.
pub(super) fn data_io(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (name, value) in context.engine.data_cache().io().counts().named() {
        sheet.push([name.into(), Cell::Int(i64::try_from(value).unwrap_or(i64::MAX))]);
    }
    Ok(())
}

/// Converts a time to milliseconds since 1970, UTC.
pub(crate) fn millis(time: std::time::SystemTime) -> i64 {
    time.duration_since(std::time::UNIX_EPOCH).map_or(0, |d| d.as_millis() as i64)
}

/// Privileges with their context and meaning, in MySQL's words.
pub(crate) const PRIVILEGES: &[(&str, &str, &str)] = &[
    ("Alter", "Tables", "To alter the table"),
    ("Create", "Databases,Tables", "To create new databases and tables"),
    ("Create view", "Tables", "To create new views"),
    ("Delete", "Tables", "To delete existing rows"),
    ("Drop", "Databases,Tables", "To drop databases, tables, and views"),
    ("File", "File access on server", "To read and write files on the server"),
    ("Grant option", "Databases,Tables", "To give to other users those privileges you possess"),
    ("Insert", "Tables", "To insert data into tables"),
    ("Process", "Server Admin", "To view the plain text of currently executing queries"),
    ("Select", "Tables", "To retrieve rows from table"),
    ("Show databases", "Server Admin", "To see all databases with SHOW DATABASES"),
    ("Show view", "Tables", "To see views with SHOW CREATE VIEW"),
    ("Super", "Server Admin", "To use KILL thread and SET GLOBAL"),
    ("Usage", "Server Admin", "No privileges - allow connect only"),
];
