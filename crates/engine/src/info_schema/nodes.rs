//! Data of this process under the names that Doris uses for the nodes of a cluster.

use dipper_lake::sheet::{Cell, Head, Kind, Sheet, wall_clock_text};

use dipper_node::disk;
use dipper_node::location::DataLocation;
use dipper_store::catalog::CatalogState;
use dipper_store::catalog::access::{Privileges, Rights};
use dipper_variables::Variables;

use crate::access::{self, Object};
use crate::engine::Engine;
use crate::error::Result;
use dipper_lake::virtual_tables::partitions::bytes_text;

/// Columns of SHOW BACKENDS and backends().
pub(crate) const BACKENDS: &[&str] = &[
    "BackendId",
    "Host",
    "HeartbeatPort",
    "BePort",
    "HttpPort",
    "BrpcPort",
    "ArrowFlightSqlPort",
    "LastStartTime",
    "LastHeartbeat",
    "Alive",
    "SystemDecommissioned",
    "TabletNum",
    "DataUsedCapacity",
    "TrashUsedCapacity",
    "AvailCapacity",
    "TotalCapacity",
    "UsedPct",
    "MaxDiskUsedPct",
    "RemoteUsedCapacity",
    "Tag",
    "ErrMsg",
    "Version",
    "Status",
    "HeartbeatFailureCounter",
    "NodeRole",
    "CpuCores",
    "Memory",
];

/// Columns of SHOW FRONTENDS and frontends().
pub(crate) const FRONTENDS: &[&str] = &[
    "Name",
    "Host",
    "EditLogPort",
    "HttpPort",
    "QueryPort",
    "RpcPort",
    "ArrowFlightSqlPort",
    "Role",
    "IsMaster",
    "ClusterId",
    "Join",
    "Alive",
    "ReplayedJournalId",
    "LastStartTime",
    "LastHeartbeat",
    "IsHelper",
    "ErrMsg",
    "Version",
    "CurrentConnected",
];

/// Returns a list of nodes with this process as its only node. Values that dipper does not have are NULL.
pub(crate) fn node(engine: &Engine, variables: &Variables, columns: &'static [&'static str]) -> Sheet {
    let now_ms = chrono::Utc::now().timestamp_millis();
    let uptime_ms = i64::try_from(engine.globals().uptime().as_millis()).unwrap_or(i64::MAX);
    let zone = variables.time_zone();
    let fact = |name: &str| Cell::from(variables.get(name));
    let head: Vec<(&'static str, Kind)> = columns.iter().map(|c| (*c, Kind::Text)).collect();
    let head: &Head = &head;
    let mut sheet = Sheet::new(head);
    let row = columns.iter().map(|column| match *column {
        "BackendId" => "0".into(),
        "Name" | "Host" => fact("hostname"),
        "QueryPort" => fact("port"),
        "HttpPort" => fact("http_port"),
        "LastStartTime" => wall_clock_text(now_ms.saturating_sub(uptime_ms), &zone),
        "LastHeartbeat" => wall_clock_text(now_ms, &zone),
        "Alive" | "IsMaster" | "Join" | "IsHelper" => "true".into(),
        "SystemDecommissioned" => "false".into(),
        "Role" => "FOLLOWER".into(),
        "NodeRole" => "mix".into(),
        "CurrentConnected" => "Yes".into(),
        "CpuCores" => engine.threads.to_string().into(),
        "Version" => concat!("dipper-", env!("CARGO_PKG_VERSION")).into(),
        "ErrMsg" => "".into(),
        // What Doris's journal is to a front end, the chain of the catalog is to this process.
        "ReplayedJournalId" => engine.catalog.version().to_string().into(),
        _ => Cell::Null,
    });
    sheet.push_row(row.collect());
    sheet
}

/// The disks of this process: those of its data, of what is kept of remote data, and of what queries spill. For who may
/// administer it.
pub(crate) fn disks(engine: &Engine, variables: &Variables, rights: &Rights, state: &CatalogState) -> Result<Sheet> {
    access::check(rights, state, Privileges::ADMIN, &Object::All)?;
    let mut sheet = Sheet::texts(&[
        "Name",
        "Host",
        "DirType",
        "Dir",
        "Filesystem",
        "Capacity",
        "Used",
        "Available",
        "UseRate",
        "MountedOn",
    ]);
    let data = match &engine.options.data {
        Some(DataLocation::Local(path)) => Some(path.clone()),
        Some(DataLocation::Remote(_)) | None => None,
    };
    let spill = engine.options.spill_dir.clone().unwrap_or_else(std::env::temp_dir);
    let cache = engine.options.remote.cache_dir.clone();
    for (kind, directory) in [("meta", data), ("cache", cache), ("temp", Some(spill))] {
        let Some(directory) = directory else { continue };
        let found = disk::of(&directory).ok();
        let size = |bytes: fn(&disk::Disk) -> u64| Cell::from(found.as_ref().map(|d| bytes_text(bytes(d))));
        let host = Cell::from(variables.get("hostname"));
        sheet.push([
            host.clone(),
            host,
            kind.into(),
            directory.display().to_string().into(),
            found.as_ref().map(|d| &d.device).into(),
            size(|d| d.capacity),
            size(|d| d.used),
            size(|d| d.available),
            found.as_ref().map(|d| format!("{}%", (d.used * 100).div_ceil((d.used + d.available).max(1)))).into(),
            found.as_ref().map(|d| &d.mounted_on).into(),
        ]);
    }
    Ok(sheet)
}
