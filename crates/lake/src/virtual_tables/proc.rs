//! What SHOW PROC lists below a native table: partitions, tablets, and indexes, under Doris's column names.

use dipper_store::catalog::Table;
use dipper_store::table::TableState;
use dipper_store::table::schema::{Partition, TableSchema};

use super::keys::{keys_type, properties_text};
use super::partitions::{partition_id, partition_rows, tablet_id, tablet_rows};
use crate::sheet::{Cell, Sheet};

const NODES: &[&str] = &["partitions", "temp_partitions", "index_schema", "indexes"];

const TABLETS: &[&str] = &[
    "TabletId",
    "ReplicaId",
    "BackendId",
    "SchemaHash",
    "Version",
    "LstSuccessVersion",
    "LstFailedVersion",
    "LstFailedTime",
    "LocalDataSize",
    "RemoteDataSize",
    "RowCount",
    "State",
    "LstConsistencyCheckTime",
    "CheckVersion",
    "VersionCount",
    "QueryHits",
    "PathHash",
    "MetaUrl",
    "CompactionStatus",
    "CooldownReplicaId",
    "CooldownMetaId",
];

const REPLICAS: &[&str] = &[
    "ReplicaId",
    "BackendId",
    "Version",
    "LstSuccessVersion",
    "LstFailedVersion",
    "LstFailedTime",
    "SchemaHash",
    "LocalDataSize",
    "RemoteDataSize",
    "RowCount",
    "State",
    "IsBad",
    "IsUserDrop",
    "VisibleVersionCount",
    "VersionCount",
    "PathHash",
    "Path",
    "MetaUrl",
    "CompactionStatus",
    "CooldownReplicaId",
    "CooldownMetaId",
    "QueryHits",
];

/// Columns of the transactions of a database.
pub const TRANSACTIONS: &[&str] = &[
    "TransactionId",
    "Label",
    "Coordinator",
    "TransactionStatus",
    "LoadJobSourceType",
    "PrepareTime",
    "PreCommitTime",
    "CommitTime",
    "PublishTime",
    "FinishTime",
    "Reason",
    "ErrorReplicasCount",
    "ListenerId",
    "TimeoutMs",
    "ErrMsg",
];

/// The lists below `/cluster_balance`, with their columns. Nothing moves tablets between nodes, so they are empty.
pub const BALANCE: &[(&str, &[&str])] = &[
    ("cluster_load_stat", &["Tag"]),
    ("working_slots", &["BeId", "PathHash", "AvailSlots", "TotalSlots", "BalanceSlot", "AvgRate"]),
    ("sched_stat", &["Item", "Value"]),
    ("pending_tablets", MOVED_TABLETS),
    ("running_tablets", MOVED_TABLETS),
    ("history_tablets", MOVED_TABLETS),
];

const MOVED_TABLETS: &[&str] = &[
    "TabletId",
    "Type",
    "Medium",
    "Status",
    "State",
    "SchedCode",
    "Priority",
    "RealPriorityVal",
    "SrcBe",
    "SrcPath",
    "DestBe",
    "DestPath",
    "Timeout",
    "Create",
    "LstSched",
    "LstVisit",
    "Finished",
    "ReplicaSize",
    "Rate",
    "FailedSched",
    "FailedRunning",
    "VisibleVersion",
    "CmtVer",
    "ErrMsg",
];

/// Columns of the disks of a node.
pub const DISKS: &[(&str, Option<&str>)] = &[
    ("RootPath", Some("Dir")),
    ("DataUsedCapacity", None),
    ("OtherUsedCapacity", None),
    ("AvailCapacity", Some("Available")),
    ("TotalCapacity", Some("Capacity")),
    ("TotalUsedPct", Some("UseRate")),
    ("State", None),
    ("PathHash", None),
    ("StorageMedium", None),
];

/// Returns the list at a path below a native table whose chain is at `version`; `None` if there is nothing.
pub fn below(table: &Table, state: &TableState, version: u64, zone: &str, path: &[&str]) -> Option<Sheet> {
    match path {
        [] => {
            let mut sheet = Sheet::texts(&["Nodes"]);
            NODES.iter().for_each(|name| sheet.push([(*name).into()]));
            Some(sheet)
        }
        ["indexes"] => Some(indexes(&table.name, state.schema())),
        ["index_schema"] => Some(index_schema(table, state.schema())),
        ["partitions"] => Some(partition_rows(table.id, state, version, zone, false)),
        ["temp_partitions"] => Some(partition_rows(table.id, state, version, zone, true)),
        [kind @ ("partitions" | "temp_partitions"), partition, path @ ..] => {
            let number = Cell::Int(partition.parse().ok()?);
            let found = match *kind {
                "partitions" => state.partitions().find(|p| partition_id(table.id, p.id) == number),
                _ => state.temporary_partitions().find(|p| partition_id(table.id, p.id) == number),
            };
            of_partition(table, state, version, found?, path)
        }
        _ => None,
    }
}

/// Returns the list at a path below a partition. The table itself is the only index that has rows.
fn of_partition(table: &Table, state: &TableState, version: u64, p: &Partition, path: &[&str]) -> Option<Sheet> {
    let own = table.id.0.to_string();
    let tablets = |wanted: Option<Cell>| {
        let is_wanted = |bucket: &u32| wanted.as_ref().is_none_or(|id| *id == tablet_id(table.id, p.id, *bucket));
        let buckets: Vec<u32> = (0..p.buckets).filter(is_wanted).collect();
        (!buckets.is_empty())
            .then(|| tablet_rows(table.id, state, version, buckets.into_iter().map(|bucket| (p, bucket))))
    };
    match path {
        [] => {
            let mut sheet = Sheet::texts(&["IndexId", "IndexName", "State", "LastConsistencyCheckTime"]);
            sheet.push([own.into(), (&table.name).into(), "NORMAL".into(), Cell::Null]);
            Some(sheet)
        }
        [index] if **index == own => Some(named(tablets(None)?, TABLETS)),
        [index, tablet] if **index == own => Some(named(tablets(Some(Cell::Int(tablet.parse().ok()?)))?, REPLICAS)),
        _ => None,
    }
}

/// Selects columns of a list of tablets. Damage is found only when a tablet is read, so none is shown as bad.
fn named(sheet: Sheet, columns: &[&'static str]) -> Sheet {
    let source = |name: &&'static str| match *name {
        "VisibleVersionCount" => (*name, Some("VersionCount")),
        name => (name, Some(name)),
    };
    let columns: Vec<_> = columns.iter().map(source).collect();
    sheet.select(&columns, |name| if name.starts_with("Is") { "false".into() } else { Cell::Null })
}

/// Lists the secondary indexes of a table.
fn indexes(table: &str, schema: &TableSchema) -> Sheet {
    let mut sheet = Sheet::texts(&[
        "Table",
        "IndexId",
        "NonUnique",
        "KeyName",
        "SeqInIndex",
        "ColumnName",
        "Collation",
        "Cardinality",
        "SubPart",
        "Packed",
        "Null",
        "IndexType",
        "Comment",
        "Properties",
    ]);
    for index in &schema.indexes {
        let named = index.columns.iter().filter_map(|id| schema.position(*id));
        let names: Vec<_> = named.map(|at| schema.columns[at].name.as_str()).collect();
        let mut row: Vec<Cell> = vec![table.into(), Cell::Null, "".into(), (&index.name).into(), "".into()];
        row.push(names.join(",").into());
        row.extend([""; 5].map(Cell::from));
        row.extend([index.kind.to_uppercase().into(), index.comment.as_ref().into(), properties_text(index).into()]);
        sheet.push_row(row);
    }
    sheet
}

/// Describes the table as the index that has its rows.
fn index_schema(table: &Table, schema: &TableSchema) -> Sheet {
    let mut sheet = Sheet::texts(&[
        "IndexId",
        "IndexName",
        "SchemaVersion",
        "SchemaHash",
        "ShortKeyColumnCount",
        "StorageType",
        "Keys",
    ]);
    let keys: Vec<_> = schema.key_columns().iter().map(|c| c.name.as_str()).collect();
    sheet.push([
        table.id.0.to_string().into(),
        (&table.name).into(),
        schema.version.to_string().into(),
        schema.version.to_string().into(),
        Cell::Null,
        "COLUMN".into(),
        format!("{}({})", keys_type(schema), keys.join(", ")).into(),
    ]);
    sheet
}
