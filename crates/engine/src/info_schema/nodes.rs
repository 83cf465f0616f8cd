//! Data of this process under the names that Doris uses for the nodes of a cluster.

use dipper_lake::sheet::{Cell, Head, Kind, Sheet, wall_clock_text};

use crate::engine::Engine;
use dipper_variables::Variables;

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
        _ => Cell::Null,
    });
    sheet.push_row(row.collect());
    sheet
}
