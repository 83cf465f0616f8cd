//! Partitions and tablets of native tables for SHOW and the virtual tables.

use std::collections::BTreeMap;
use std::sync::Arc;

use dipper_base::sketch::hash_integer;
use dipper_dialect::statement::Name;
use dipper_store::catalog::{Database, Table, TableId};
use dipper_store::table::data::Tablet;
use dipper_store::table::schema::{Bounds, Distribution, Partition, PartitionId, TableSchema, Values};
use dipper_store::table::{SegmentRef, TableState, table_path};

use crate::sheet::{Cell, Kind, Sheet, wall_clock_text};

/// Rows, bytes and number of some segments.
#[derive(Debug, Default, Clone, Copy)]
pub struct Size {
    /// Rows that are not deleted.
    pub rows: u64,
    /// Bytes in the store.
    pub bytes: u64,
    /// Number of segments.
    pub segments: u64,
}

impl Size {
    /// Adds a segment.
    pub fn add(&mut self, s: &SegmentRef<'_>) {
        self.rows += s.live_rows();
        self.bytes += s.segment.bytes;
        self.segments += 1;
    }

    /// The rows and bytes of `segments` together.
    pub fn of<'a>(segments: impl Iterator<Item = SegmentRef<'a>>) -> Size {
        let mut size = Size::default();
        segments.for_each(|s| size.add(&s));
        size
    }
}

/// Formats a size as Doris does, as in `1.234 KB`.
pub fn bytes_text(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = "";
    for next in ["KB", "MB", "GB", "TB"] {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    format!("{value:.3} {unit}")
}

/// Makes a cell of BIGINT; larger numbers become its maximum.
pub fn int(n: u64) -> Cell {
    Cell::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Returns the names of the columns with these ids.
pub fn columns(state: &TableState, ids: &[u32]) -> String {
    let schema = state.schema();
    let names = ids.iter().filter_map(|id| schema.position(*id)).map(|at| schema.columns[at].name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// The number of the only node, by which lists of nodes and of tablets are joined.
pub const NODE: Cell = Cell::Int(0);

/// Columns of SHOW PARTITION id.
pub const PARTITION: &[&str] = &["DbName", "TableName", "PartitionName", "DbId", "TableId"];

/// Columns of SHOW TABLET id.
pub const TABLET: &[&str] = &[
    "DbName",
    "TableName",
    "PartitionName",
    "IndexName",
    "DbId",
    "TableId",
    "PartitionId",
    "IndexId",
    "IsSync",
    "Order",
    "QueryHits",
    "DetailCmd",
];

/// Makes the rows of SHOW PARTITIONS for a table whose chain is at `version`.
pub fn partition_rows(table: TableId, state: &TableState, version: u64, zone: &str, temporary: bool) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("PartitionId", Kind::Int),
        ("PartitionName", Kind::Text),
        ("VisibleVersion", Kind::Int),
        ("VisibleVersionTime", Kind::Text),
        ("State", Kind::Text),
        ("PartitionKey", Kind::Text),
        ("Range", Kind::Text),
        ("DistributionKey", Kind::Text),
        ("Buckets", Kind::Int),
        ("ReplicationNum", Kind::Int),
        ("StorageMedium", Kind::Text),
        ("CooldownTime", Kind::Text),
        ("RemoteStoragePolicy", Kind::Text),
        ("LastConsistencyCheckTime", Kind::Text),
        ("DataSize", Kind::Text),
        ("IsInMemory", Kind::Text),
        ("ReplicaAllocation", Kind::Text),
        ("IsMutable", Kind::Text),
        ("SyncWithBaseTables", Kind::Text),
        ("UnsyncTables", Kind::Text),
        ("CommittedVersion", Kind::Int),
        ("RowCount", Kind::Int),
    ]);
    let mut sizes: BTreeMap<PartitionId, Size> = BTreeMap::new();
    state.all_segments().for_each(|s| sizes.entry(s.segment.tablet.partition).or_default().add(&s));
    let schema = state.schema();
    let key = schema.partition_by.as_ref().map(|by| columns(state, &by.columns)).unwrap_or_default();
    let distribution = match &schema.distribution {
        Distribution::Hash(ids) => columns(state, ids),
        Distribution::Random => "RANDOM".to_string(),
    };
    let push = |p: &Arc<Partition>| {
        let size = sizes.get(&p.id).copied().unwrap_or_default();
        sheet.push([
            partition_id(table, p.id),
            (&p.name).into(),
            int(version),
            wall_clock_text(state.changed_ms(), zone),
            "NORMAL".into(),
            (&key).into(),
            range_text(schema, &p.bounds).into(),
            (&distribution).into(),
            Cell::Int(i64::from(p.buckets)),
            Cell::Int(1),
            Cell::Null,
            Cell::Null,
            "".into(),
            Cell::Null,
            bytes_text(size.bytes).into(),
            "false".into(),
            "tag.location.default: 1".into(),
            "true".into(),
            "true".into(),
            Cell::Null,
            int(version),
            int(size.rows),
        ]);
    };
    match temporary {
        true => state.temporary_partitions().for_each(push),
        false => state.partitions().for_each(push),
    }
    sheet
}

/// Makes the rows of SHOW TABLETS for tablets of a table whose chain is at `version`, given by partition and bucket.
pub fn tablet_rows<'a>(
    table: TableId,
    state: &TableState,
    version: u64,
    tablets: impl Iterator<Item = (&'a Partition, u32)>,
) -> Sheet {
    let mut sheet = Sheet::new(&[
        ("TabletId", Kind::Int),
        ("ReplicaId", Kind::Int),
        ("BackendId", Kind::Int),
        ("SchemaHash", Kind::Int),
        ("Version", Kind::Int),
        ("LstSuccessVersion", Kind::Int),
        ("LstFailedVersion", Kind::Int),
        ("LstFailedTime", Kind::Text),
        ("LocalDataSize", Kind::Int),
        ("RemoteDataSize", Kind::Int),
        ("RowCount", Kind::Int),
        ("State", Kind::Text),
        ("LstConsistencyCheckTime", Kind::Text),
        ("CheckVersion", Kind::Int),
        ("VersionCount", Kind::Int),
        ("QueryHits", Kind::Int),
        ("PathHash", Kind::Int),
        ("Path", Kind::Text),
        ("MetaUrl", Kind::Text),
        ("CompactionStatus", Kind::Text),
        ("PartitionName", Kind::Text),
        ("Bucket", Kind::Int),
    ]);
    let path = table_path(table).to_string();
    for (p, bucket) in tablets {
        let size = Size::of(state.tablet_segments(Tablet { partition: p.id, bucket }));
        sheet.push([
            tablet_id(table, p.id, bucket),
            tablet_id(table, p.id, bucket),
            NODE,
            int(state.schema().version),
            int(version),
            int(version),
            Cell::Int(-1),
            Cell::Null,
            int(size.bytes),
            Cell::Int(0),
            int(size.rows),
            "NORMAL".into(),
            Cell::Null,
            Cell::Int(-1),
            int(size.segments),
            Cell::Int(0),
            Cell::Int(-1),
            (&path).into(),
            Cell::Null,
            Cell::Null,
            (&p.name).into(),
            Cell::Int(i64::from(bucket)),
        ]);
    }
    sheet
}

/// Makes the number of a partition that lists show. No two partitions of all tables have the same one: monitoring
/// queries join lists by the number alone. In a table later partitions have larger numbers.
pub fn partition_id(table: TableId, partition: PartitionId) -> Cell {
    // 38 bits for the table, and 25 for the partition. Where a table makes more partitions than that, the numbers go
    // on into what another table would have.
    let table = hash_integer(table.0.cast_signed()) >> 26 << 25;
    positive(table.wrapping_add(u64::from(partition)))
}

/// Makes the number of a tablet that lists show. No two tablets of all tables have the same one.
pub fn tablet_id(table: TableId, partition: PartitionId, bucket: u32) -> Cell {
    let place = u64::from(partition) << 32 | u64::from(bucket);
    positive(hash_integer((hash_integer(table.0.cast_signed()) ^ place).cast_signed()))
}

fn positive(number: u64) -> Cell {
    Cell::Int((number & i64::MAX.cast_unsigned()).cast_signed())
}

/// Adds a row for the partition with this number, if the table has it.
pub fn find_partition(sheet: &mut Sheet, id: u64, database: &Database, table: &Table, state: &TableState) {
    for p in state.partitions().chain(state.temporary_partitions()) {
        if partition_id(table.id, p.id) == int(id) {
            sheet.push([
                (&database.name).into(),
                (&table.name).into(),
                (&p.name).into(),
                database.id.0.to_string().into(),
                table.id.0.to_string().into(),
            ]);
        }
    }
}

/// Adds a row for the tablet with this number, if the table has it. The last column is a statement that shows more.
pub fn find_tablet(sheet: &mut Sheet, id: u64, database: &Database, table: &Table, state: &TableState) {
    for p in state.partitions().chain(state.temporary_partitions()) {
        let Some(bucket) = (0..p.buckets).find(|bucket| tablet_id(table.id, p.id, *bucket) == int(id)) else {
            continue;
        };
        let Cell::Int(partition) = partition_id(table.id, p.id) else { continue };
        let name = Name(vec![database.name.clone(), table.name.clone()]);
        let place = Name(vec![p.name.clone()]);
        sheet.push([
            (&database.name).into(),
            (&table.name).into(),
            (&p.name).into(),
            (&table.name).into(),
            database.id.0.to_string().into(),
            table.id.0.to_string().into(),
            partition.to_string().into(),
            table.id.0.to_string().into(),
            "true".into(),
            bucket.to_string().into(),
            "0".into(),
            format!("SHOW TABLETS FROM {name} PARTITION ({place}) WHERE TabletId = {id}").into(),
        ]);
    }
}

/// Formats the values of a partition as in Doris's SHOW PARTITIONS.
pub fn range_text(schema: &TableSchema, bounds: &Bounds) -> String {
    let Some(by) = &schema.partition_by else { return String::new() };
    let types: Vec<String> = (by.columns.iter())
        .filter_map(|id| schema.position(*id))
        .map(|at| schema.columns[at].data_type.to_string().to_uppercase())
        .collect();
    let types = types.join(", ");
    let keys = |values: &Values, rest: &str| {
        let mut all: Vec<&str> = values.iter().map(|v| v.as_deref().unwrap_or("NULL")).collect();
        all.resize(by.columns.len().max(all.len()), rest);
        format!("types: [{types}]; keys: [{}]; ", all.join(", "))
    };
    match bounds {
        Bounds::All => String::new(),
        Bounds::Range { lower, upper, lower_max, upper_max } => {
            let rest = |max: bool| if max { "MAXVALUE" } else { "MINVALUE" };
            let lower = lower.as_ref().map_or_else(|| keys(&Vec::new(), "MINVALUE"), |v| keys(v, rest(*lower_max)));
            let upper = upper.as_ref().map_or_else(|| keys(&Vec::new(), "MAXVALUE"), |v| keys(v, rest(*upper_max)));
            format!("[{lower}..{upper})")
        }
        Bounds::List(rows) => rows.iter().map(|row| format!("[{}]", keys(row, "NULL"))).collect::<Vec<_>>().join(","),
    }
}
