//! SHOW statements about native tables: partitions, tablets, sizes, statistics, indexes.

use std::sync::Arc;

use dipper_base::sketch::HyperLogLog;
use dipper_dialect::statement::Name;
use dipper_lake::sheet::{Cell, Kind, Sheet, wall_clock_text};
use dipper_store::catalog::{Database, Table};
use dipper_store::table::schema::{Index, Model, Partition};
use dipper_store::table::{SegmentRef, TableState};

use crate::error::{EngineError, ErrorKind, Result};
use crate::session::Session;
use crate::statements::{ddl, native};
use dipper_lake::virtual_tables::keys::properties_text;
use dipper_lake::virtual_tables::partitions::{NODE, Size, bytes_text, int, partition_rows, tablet_rows};

/// Returns a native table with the newest version and state of its chain.
async fn state(session: &Session, name: &Name) -> Result<(Arc<Table>, u64, Arc<TableState>)> {
    let (_, table) = ddl::table_named(session, name).await?;
    if !table.is_native() {
        return Err(EngineError::new(
            ErrorKind::WrongObject,
            format!("'{name}' is a table over files, expected a native table"),
        ));
    }
    let handle = session.engine.native.get(table.id).await?;
    let state = handle.refresh().await?;
    Ok((table, handle.version(), state))
}

pub(super) async fn partitions(session: &Session, name: &Name, temporary: bool) -> Result<Sheet> {
    let (table, version, state) = state(session, name).await?;
    Ok(partition_rows(table.id, &state, version, &session.variables.time_zone(), temporary))
}

/// Finds partitions by name, temporary ones included; all partitions if no name is given.
fn chosen<'a>(state: &'a TableState, wanted: &[String]) -> Result<Vec<&'a Arc<Partition>>> {
    let known: Vec<_> = state.partitions().chain(state.temporary_partitions()).collect();
    if let Some(missing) = wanted.iter().find(|w| !known.iter().any(|p| p.name.eq_ignore_ascii_case(w))) {
        return Err(EngineError {
            code: 1735,
            ..EngineError::invalid(format!("partition '{missing}' does not exist"))
        });
    }
    let is_wanted = |p: &&Arc<Partition>| wanted.is_empty() || wanted.iter().any(|w| p.name.eq_ignore_ascii_case(w));
    Ok(known.into_iter().filter(is_wanted).collect())
}

/// Draws a part of a whole as Doris does: a bar with one sign for each hundredth, and the percentage.
fn bar(part: u64, whole: u64) -> [Cell; 2] {
    let share = if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
    [">".repeat((share * 100.0) as usize).into(), format!("{:.2} %", share * 100.0).into()]
}

/// Runs SHOW REPLICA DISTRIBUTION. All copies are in the one place of the table.
pub(super) async fn distribution(session: &Session, name: &Name, wanted: &[String]) -> Result<Sheet> {
    let (_, _, state) = state(session, name).await?;
    let partitions = chosen(&state, wanted)?;
    let tablets: u64 = partitions.iter().map(|p| u64::from(p.buckets)).sum();
    let is_chosen = |s: &SegmentRef<'_>| partitions.iter().any(|p| p.id == s.segment.tablet.partition);
    let bytes = Size::of(state.all_segments().filter(is_chosen)).bytes;
    let mut sheet = Sheet::new(&[
        ("BackendId", Kind::Int),
        ("ReplicaNum", Kind::Int),
        ("ReplicaSize", Kind::Int),
        ("NumGraph", Kind::Text),
        ("NumPercent", Kind::Text),
        ("SizeGraph", Kind::Text),
        ("SizePercent", Kind::Text),
    ]);
    let ([number_bar, number], [size_bar, size]) = (bar(tablets, tablets), bar(bytes, bytes));
    sheet.push([NODE, int(tablets), int(bytes), number_bar, number, size_bar, size]);
    Ok(sheet)
}

/// Runs SHOW DATA SKEW: shows the share of each bucket in its partition.
pub(super) async fn skew(session: &Session, name: &Name, wanted: &[String]) -> Result<Sheet> {
    let (_, _, state) = state(session, name).await?;
    let mut sheet = Sheet::new(&[
        ("PartitionName", Kind::Text),
        ("BucketIdx", Kind::Int),
        ("AvgRowCount", Kind::Int),
        ("AvgDataSize", Kind::Int),
        ("Graph", Kind::Text),
        ("Percent", Kind::Text),
    ]);
    for p in chosen(&state, wanted)? {
        let tablet = |bucket| dipper_store::table::data::Tablet { partition: p.id, bucket };
        let sizes: Vec<Size> = (0..p.buckets).map(|b| Size::of(state.tablet_segments(tablet(b)))).collect();
        let whole = sizes.iter().map(|size| size.bytes).sum();
        for (bucket, size) in sizes.into_iter().enumerate() {
            let [graph, percent] = bar(size.bytes, whole);
            let bucket = Cell::Int(bucket as i64);
            sheet.push([(&p.name).into(), bucket, int(size.rows), int(size.bytes), graph, percent]);
        }
    }
    Ok(sheet)
}

pub(super) async fn tablets(session: &Session, name: &Name, wanted: &[String]) -> Result<Sheet> {
    let (table, version, state) = state(session, name).await?;
    let chosen = chosen(&state, wanted)?.into_iter().flat_map(|p| (0..p.buckets).map(move |bucket| (&**p, bucket)));
    Ok(tablet_rows(table.id, &state, version, chosen))
}

/// Runs SHOW PARTITION id and SHOW TABLET id: asks each native table that the user sees.
pub(super) async fn numbered(
    session: &Session,
    mut sheet: Sheet,
    find: impl Fn(&mut Sheet, &Database, &Table, &TableState),
) -> Result<Sheet> {
    for database in super::proc::databases(session).await? {
        for table in super::catalog::in_database(session, &database.name).await? {
            if table.is_native() {
                let state = session.engine.native.newest(table.id).await?;
                find(&mut sheet, &database, &table, &state);
            }
        }
    }
    Ok(sheet)
}

/// Runs SHOW CONSTRAINTS.
pub(super) async fn constraints(session: &Session, name: &Name) -> Result<Sheet> {
    let (_, _, state) = state(session, name).await?;
    let mut sheet = Sheet::texts(&["Name", "Type", "Definition"]);
    for constraint in dipper_node::tables::constraints::list(state.schema()) {
        sheet.push([constraint.name.into(), constraint.kind.into(), constraint.definition.into()]);
    }
    Ok(sheet)
}

/// Runs SHOW REPLICA STATUS. Each tablet has one copy, which is shown as good: damage is found only when the copy is
/// read.
pub(super) async fn replicas(session: &Session, name: &Name, wanted: &[String]) -> Result<Sheet> {
    let tablets = tablets(session, name, wanted).await?;
    Ok(tablets.select(
        &[
            ("TabletId", Some("TabletId")),
            ("ReplicaId", Some("ReplicaId")),
            ("BackendId", Some("BackendId")),
            ("Version", Some("Version")),
            ("LastFailedVersion", Some("LstFailedVersion")),
            ("LastSuccessVersion", Some("LstSuccessVersion")),
            ("CommittedVersion", Some("Version")),
            ("SchemaHash", Some("SchemaHash")),
            ("VersionNum", Some("VersionCount")),
            ("IsBad", None),
            ("State", Some("State")),
            ("Status", None),
        ],
        |column| if column == "IsBad" { "false".into() } else { "OK".into() },
    ))
}

/// Shows the sizes of a database's native tables with their sum, or the size of one table.
pub(super) async fn data(session: &Session, table: Option<&Name>) -> Result<Sheet> {
    if let Some(name) = table {
        let (table, _, state) = state(session, name).await?;
        let mut sheet = Sheet::new(&[
            ("TableName", Kind::Text),
            ("IndexName", Kind::Text),
            ("Size", Kind::Text),
            ("ReplicaCount", Kind::Int),
            ("RowCount", Kind::Int),
            ("RemoteSize", Kind::Text),
        ]);
        let size = Size::of(state.segments());
        let tablets: u64 = state.partitions().map(|p| u64::from(p.buckets)).sum();
        for label in [table.name.as_str(), "Total"] {
            let index = if label == "Total" { "" } else { label };
            let bytes = bytes_text(size.bytes);
            sheet.push([label.into(), index.into(), bytes.into(), int(tablets), int(size.rows), "0.000 ".into()]);
        }
        return Ok(sheet);
    }
    let database = super::catalog::database(session, None).await?;
    let mut sheet = Sheet::new(&[
        ("TableName", Kind::Text),
        ("Size", Kind::Text),
        ("ReplicaCount", Kind::Int),
        ("RemoteSize", Kind::Text),
    ]);
    let (mut bytes, mut tablets) = (0, 0);
    for table in super::catalog::in_database(session, &database).await?.iter().filter(|t| t.is_native()) {
        let state = session.engine.native.get(table.id).await?.refresh().await?;
        let own = Size::of(state.segments()).bytes;
        let buckets: u64 = state.partitions().map(|p| u64::from(p.buckets)).sum();
        sheet.push([(&table.name).into(), bytes_text(own).into(), int(buckets), "0.000 ".into()]);
        bytes += own;
        tablets += buckets;
    }
    sheet.push(["Total".into(), bytes_text(bytes).into(), int(tablets), "0.000 ".into()]);
    Ok(sheet)
}

pub(super) async fn table_stats(session: &Session, name: &Name) -> Result<Sheet> {
    let (_, _, state) = state(session, name).await?;
    let zone = session.variables.time_zone();
    let mut sheet = Sheet::new(&[
        ("updated_rows", Kind::Int),
        ("query_times", Kind::Int),
        ("row_count", Kind::Int),
        ("updated_time", Kind::Text),
        ("columns", Kind::Text),
        ("trigger", Kind::Text),
        ("new_partition", Kind::Text),
        ("user_inject", Kind::Text),
        ("enable_auto_analyze", Kind::Text),
    ]);
    let visible: Vec<_> = state.schema().columns.iter().filter(|c| !c.hidden).map(|c| c.name.as_str()).collect();
    sheet.push([
        int(state.stats_rows()),
        Cell::Null,
        int(state.rows()),
        wall_clock_text(state.changed_ms(), &zone),
        format!("[{}]", visible.join(", ")).into(),
        "LOAD".into(),
        "false".into(),
        "false".into(),
        "true".into(),
    ]);
    Ok(sheet)
}

/// Runs SHOW COLUMN STATS: shows the statistics that loads have recorded about the values of columns.
pub(super) async fn column_stats(session: &Session, name: &Name, wanted: &[String]) -> Result<Sheet> {
    let (table, _, state) = state(session, name).await?;
    let zone = session.variables.time_zone();
    let mut sheet = Sheet::new(&[
        ("column_name", Kind::Text),
        ("index_name", Kind::Text),
        ("count", Kind::Int),
        ("ndv", Kind::Int),
        ("num_null", Kind::Int),
        ("min", Kind::Text),
        ("max", Kind::Text),
        ("method", Kind::Text),
        ("type", Kind::Text),
        ("trigger", Kind::Text),
        ("updated_time", Kind::Text),
    ]);
    let schema = state.schema();
    for name in wanted {
        native::column_named(&schema.columns, name)?;
    }
    let shown = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w.eq_ignore_ascii_case(name));
    for column in schema.columns.iter().filter(|c| !c.hidden && shown(&c.name)) {
        let Some(known) = state.stats(column.id) else { continue };
        let distinct = HyperLogLog::from_bytes(&known.sketch).ok().filter(|_| !known.sketch.is_empty());
        sheet.push([
            (&column.name).into(),
            (&table.name).into(),
            int(state.stats_rows()),
            distinct.map(|s| s.estimate() as i64).into(),
            int(known.nulls),
            known.min.as_ref().into(),
            known.max.as_ref().into(),
            "FULL".into(),
            "FUNDAMENTALS".into(),
            "LOAD".into(),
            wall_clock_text(state.changed_ms(), &zone),
        ]);
    }
    Ok(sheet)
}

/// Adds the key of the table, if it is unique, and the indexes of its definition.
pub(super) fn index(table: &str, state: &TableState, sheet: &mut Sheet) {
    let schema = state.schema();
    let mut push = |non_unique: i64, key: &str, at: usize, id: u32, index: Option<&Index>| {
        let Some(column) = schema.position(id).map(|i| &schema.columns[i]) else { return };
        let distinct = state.stats(id).filter(|s| !s.sketch.is_empty());
        let distinct = distinct.and_then(|s| HyperLogLog::from_bytes(&s.sketch).ok()).map(|s| s.estimate() as i64);
        let comment = index.and_then(|i| i.comment.as_deref()).unwrap_or_default();
        sheet.push([
            table.into(),
            Cell::Int(non_unique),
            key.into(),
            Cell::Int(at as i64 + 1),
            (&column.name).into(),
            if non_unique == 0 { "A".into() } else { Cell::Null },
            distinct.into(),
            Cell::Null,
            Cell::Null,
            if column.nullable { "YES" } else { "" }.into(),
            index.map_or("BTREE".to_string(), |i| i.kind.to_uppercase()).into(),
            comment.into(),
            index.map(properties_text).unwrap_or_default().into(),
            comment.into(),
            if index.is_none_or(Index::acts) { "YES" } else { "NO" }.into(),
        ]);
    };
    if schema.model != Model::Duplicate {
        for (at, column) in schema.key_columns().iter().enumerate() {
            push(0, "PRIMARY", at, column.id, None);
        }
    }
    for index in &schema.indexes {
        for (at, id) in index.columns.iter().enumerate() {
            push(i64::from(!schema.is_key(&index.columns)), &index.name, at, *id, Some(index));
        }
    }
}
