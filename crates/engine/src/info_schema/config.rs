//! Definitions of tables in the tables of information_schema that Doris and StarRocks add to MySQL's: models, keys,
//! distribution, properties, rowsets, and the tables that views read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dipper_dialect::parser::ParseOptions;
use dipper_dialect::statement::Statement;
use dipper_lake::sheet::{Cell, Sheet, wall_clock_text, wall_clock_us};
use dipper_lake::virtual_tables::keys::keys_type;
use dipper_lake::virtual_tables::partitions::NODE;
use dipper_lake::virtual_tables::{column_sizes, partitions};
use dipper_sql::charter::session::TableRef;
use dipper_sql::charter::table_refs;
use dipper_store::catalog::access::Privileges;
use dipper_store::catalog::{Table, TableDef};
use dipper_store::table::TableState;
use dipper_store::table::schema::{ColumnId, Distribution, Model, TableSchema};

use super::facts::Facts;
use super::objects::{catalog_tables, wanted_states};
use super::{CATALOG_NAME, NATIVE_ENGINE, Wanted};
use crate::access::{self, Object};
use crate::context::QueryContext;
use crate::error::Result;

/// A native table: its database, its entry in the catalog, and its state.
pub(super) type Native = (String, Arc<Table>, Arc<TableState>);

/// Returns the native tables that the query may want, without those that cannot be read.
pub(super) async fn natives(context: &Arc<QueryContext>, wanted: &Wanted) -> Vec<Native> {
    let mut states = wanted_states(context, wanted).await;
    let state = |(database, table): (&str, &Arc<Table>)| {
        let state = states.remove(&table.id)?.ok()?;
        Some((database.to_string(), Arc::clone(table), state))
    };
    catalog_tables(context, wanted).filter_map(state).collect()
}

/// Joins names by commas, each between two of `quote`.
fn joined<'a>(names: impl Iterator<Item = &'a str>, quote: &str) -> String {
    names.map(|name| format!("{quote}{name}{quote}")).collect::<Vec<_>>().join(", ")
}

fn names<'a>(schema: &'a TableSchema, ids: &'a [ColumnId]) -> impl Iterator<Item = &'a str> {
    ids.iter().filter_map(|id| schema.position(*id)).map(|at| schema.columns[at].name.as_str())
}

fn key_names(schema: &TableSchema) -> impl Iterator<Item = &str> {
    schema.key_columns().iter().map(|c| c.name.as_str())
}

/// Returns the distribution columns, and the method of distribution.
fn distribution(schema: &TableSchema, quote: &str) -> (String, &'static str) {
    match &schema.distribution {
        Distribution::Hash(ids) => (joined(names(schema, ids), quote), "HASH"),
        Distribution::Random => (String::new(), "RANDOM"),
    }
}

fn int(n: u64) -> Cell {
    Cell::Int(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Fills StarRocks' `tables_config`: one row per table, names in back quotes.
pub(super) async fn tables_config(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (database, table, state) in natives(context, wanted).await {
        let schema = state.schema();
        let model = match schema.shown_model() {
            Model::Duplicate => "DUP_KEYS",
            Model::Aggregate => "AGG_KEYS",
            Model::Unique if schema.is_primary() => "PRI_KEYS",
            Model::Unique => "UNQ_KEYS",
        };
        let key = joined(key_names(schema), "`");
        let (distributed, how) = distribution(schema, "`");
        let partition = schema.partition_by.as_ref().map(|by| joined(names(schema, &by.columns), "`"));
        let properties: serde_json::Map<_, _> =
            schema.shown_properties().map(|(k, v)| (k.clone(), v.clone().into())).collect();
        let buckets = state.partitions().last().map_or(1, |p| p.buckets);
        sheet.push([
            database.into(),
            (&table.name).into(),
            NATIVE_ENGINE.into(),
            model.into(),
            if schema.model == Model::Unique { key.clone() } else { String::new() }.into(),
            partition.unwrap_or_default().into(),
            distributed.into(),
            how.into(),
            Cell::Int(i64::from(buckets)),
            key.into(),
            serde_json::Value::Object(properties).to_string().into(),
            int(table.id.0),
        ]);
    }
    Ok(())
}

/// Fills Doris's `table_options`, which has the data of [`tables_config`] without properties.
pub(super) async fn table_options(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (database, table, state) in natives(context, wanted).await {
        let schema = state.schema();
        let (distributed, how) = distribution(schema, "");
        sheet.push([
            CATALOG_NAME.into(),
            database.into(),
            (&table.name).into(),
            keys_type(schema).into(),
            joined(key_names(schema), "").into(),
            distributed.into(),
            how.into(),
            Cell::Int(i64::from(state.partitions().last().map_or(1, |p| p.buckets))),
            Cell::Int(state.partitions().count() as i64),
        ]);
    }
    Ok(())
}

pub(super) async fn table_properties(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (database, table, state) in natives(context, wanted).await {
        for (name, value) in state.schema().shown_properties() {
            sheet.push([CATALOG_NAME.into(), (&database).into(), (&table.name).into(), name.into(), value.into()]);
        }
    }
    Ok(())
}

pub(super) fn database_properties(context: &QueryContext, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for database in context.catalog.databases.values() {
        if !wanted.database(&database.name) || !context.rights.sees_database(database) {
            continue;
        }
        for (name, value) in &database.properties {
            sheet.push([CATALOG_NAME.into(), (&database.name).into(), name.into(), value.into()]);
        }
    }
    Ok(())
}

/// Calls `put` with each table or view that a view reads: database and name of the view; catalog, database, name and
/// kind of what it reads. A view that cannot be parsed is left out.
fn view_reads(context: &QueryContext, wanted: &Wanted, mut put: impl FnMut([&str; 2], [&str; 4])) {
    for (database, table) in catalog_tables(context, wanted) {
        let TableDef::View(view) = &table.def else { continue };
        // A user who may not see the definition of a view does not learn what it reads.
        let object = Object::Table(database.to_string(), table.name.clone());
        if !access::on(&context.rights, &context.catalog, &object).contains(Privileges::SHOW_VIEW) {
            continue;
        }
        let options = ParseOptions::from_sql_mode(&view.sql_mode);
        let parsed = dipper_dialect::parser::parse(&view.sql, &options).unwrap_or_default();
        let Some(Statement::Query(query)) = parsed.into_iter().next().map(|p| p.statement) else { continue };
        for reference in table_refs(&query) {
            let TableRef::Named { name, maybe_cte: false, .. } = reference else { continue };
            let of = name.database().unwrap_or(&view.database);
            let kind = match context.catalog.table(of, name.object()).map(|t| &t.def) {
                Some(TableDef::View(_)) => "VIEW",
                _ => "TABLE",
            };
            put([database, &table.name], [name.catalog().unwrap_or(CATALOG_NAME), of, name.object(), kind]);
        }
    }
}

/// The views that name a table of dipper's own: database and view.
pub(crate) fn views_over(context: &QueryContext, database: &str, table: &str) -> BTreeSet<(String, String)> {
    let mut found = BTreeSet::new();
    view_reads(context, &Wanted::default(), |[of, view], [catalog, named, name, _]| {
        if [catalog, named, name] == [CATALOG_NAME, database, table] {
            found.insert((of.to_string(), view.to_string()));
        }
    });
    found
}

pub(super) fn view_dependency(context: &QueryContext, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    view_reads(context, wanted, |[database, view], [catalog, of, name, kind]| {
        let row = [CATALOG_NAME, database, view, "VIEW", catalog, of, name, kind];
        sheet.push(row.map(Cell::from));
    });
    Ok(())
}

/// Counts the tables and the views of each database.
pub(super) fn schema_object_overview(context: &QueryContext, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let mut counted: BTreeMap<(&str, &str), i64> = BTreeMap::new();
    for (database, table) in catalog_tables(context, wanted) {
        let kind = if matches!(table.def, TableDef::View(_)) { "VIEW" } else { "BASE TABLE" };
        *counted.entry((database, kind)).or_default() += 1;
    }
    for ((database, kind), count) in counted {
        sheet.push([database.into(), kind.into(), Cell::Int(count)]);
    }
    Ok(())
}

/// Fills StarRocks' `object_dependencies`, which has the data of [`view_dependency`].
pub(super) fn object_dependencies(context: &QueryContext, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let id = |database: &str, name: &str| context.catalog.table(database, name).map_or(Cell::Null, |t| int(t.id.0));
    view_reads(context, wanted, |[database, view], [catalog, of, name, kind]| {
        sheet.push([
            id(database, view),
            view.into(),
            database.into(),
            CATALOG_NAME.into(),
            "VIEW".into(),
            if catalog == CATALOG_NAME { id(of, name) } else { Cell::Null },
            name.into(),
            of.into(),
            catalog.into(),
            kind.into(),
        ]);
    });
    Ok(())
}

pub(super) fn view_table_usage(context: &QueryContext, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    view_reads(context, wanted, |[database, view], [catalog, of, name, _]| {
        sheet.push([CATALOG_NAME, database, view, catalog, of, name].map(Cell::from));
    });
    Ok(())
}

pub(super) fn metadata_name_ids(context: &QueryContext, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let databases = &context.catalog.databases;
    for (database, table) in catalog_tables(context, wanted) {
        sheet.push([
            Cell::Int(0),
            CATALOG_NAME.into(),
            databases.get(database).map_or(Cell::Null, |d| int(d.id.0)),
            database.into(),
            int(table.id.0),
            (&table.name).into(),
        ]);
    }
    Ok(())
}

/// Lists running statements, under the numbers that KILL QUERY takes: the user's own, or all if the user may see those
/// of others.
pub(super) fn active_queries(context: &QueryContext, _: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let all = context.rights.on_all().contains(Privileges::PROCESS);
    let zone = context.variables.time_zone();
    let now_ms = chrono::Utc::now().timestamp_millis();
    for process in context.engine.processes().list() {
        let activity = process.activity();
        let Some(text) = activity.info.filter(|_| all || process.user == context.rights.user().name) else { continue };
        let running_ms = activity.since.elapsed().as_millis() as i64;
        sheet.push([
            process.id.to_string().into(),
            wall_clock_text(now_ms - running_ms, &zone),
            Cell::Int(running_ms),
            Cell::Null,
            activity.database.into(),
            context.variables.get("hostname").into(),
            Cell::Null,
            Cell::Null,
            "RUNNING".into(),
            text.into(),
        ]);
    }
    Ok(())
}

/// Lists the segments of native tables, each as a rowset of its own.
pub(super) async fn rowsets(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let zone = context.variables.time_zone();
    for (_, table, state) in natives(context, wanted).await {
        for s in state.all_segments() {
            let tablet = s.segment.tablet;
            sheet.push([
                NODE,
                s.id.to_string().into(),
                partitions::tablet_id(table.id, tablet.partition, tablet.bucket),
                int(s.live_rows()),
                Cell::Null,
                Cell::Int(1),
                Cell::Null,
                Cell::Null,
                Cell::Int(0),
                int(s.segment.bytes),
                wall_clock_us(state.changed_ms(), &zone),
                wall_clock_us(state.changed_ms(), &zone),
                int(state.schema().version),
            ]);
        }
    }
    Ok(())
}

/// Fills the bytes of columns by segment.
pub(super) async fn column_data_sizes(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (_, table, state) in natives(context, wanted).await {
        let handle = context.engine.native.get(table.id).await?;
        column_sizes::rows(sheet, &handle, &state, context.readers()).await?;
    }
    Ok(())
}

/// Fills StarRocks' `partitions_meta`: partitions with their versions and sizes.
pub(super) async fn partitions_meta(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let zone = context.variables.time_zone();
    for (database, table, state) in natives(context, wanted).await {
        let schema = state.schema();
        let facts = Facts::of_partitions(&state);
        let key = schema.partition_by.as_ref().map(|by| joined(names(schema, &by.columns), "")).unwrap_or_default();
        let (distributed, _) = distribution(schema, "");
        let seq = int(state.seq());
        for (partition, temporary) in
            state.partitions().map(|p| (p, 0)).chain(state.temporary_partitions().map(|p| (p, 1)))
        {
            let (rows, bytes) = facts.get(&partition.id).map_or((0, 0), Facts::size);
            sheet.push_known([
                (&database).into(),
                (&table.name).into(),
                (&partition.name).into(),
                partitions::partition_id(table.id, partition.id),
                Cell::Int(0),
                seq.clone(),
                wall_clock_us(state.changed_ms(), &zone),
                int(state.seq() + 1),
                (&key).into(),
                partitions::range_text(schema, &partition.bounds).into(),
                (&distributed).into(),
                Cell::Int(i64::from(partition.buckets)),
                Cell::Int(1),
                Cell::Null,
                Cell::Null,
                Cell::Null,
                Cell::Int(0),
                Cell::Int(temporary),
                partitions::bytes_text(bytes).trim().into(),
                int(rows),
                Cell::Int(1),
                dipper_store::table::table_path(table.id).to_string().into(),
                int(bytes),
            ]);
        }
    }
    Ok(())
}
