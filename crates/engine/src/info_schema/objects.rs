//! Databases, tables, columns, views and partitions in information_schema.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use dipper_base::names::DEFAULT_DATABASE;
use dipper_dialect::parser::query_for;
use dipper_lake::files::define;
use dipper_lake::sheet::{Cell, Sheet, wall_clock_us};
use dipper_lake::virtual_tables::partitions;
use dipper_store::catalog::access::{Privileges, Rights};
use dipper_store::catalog::{CatalogState, Table, TableDef, TableId};
use dipper_store::table::TableState;
use dipper_store::table::schema::PartitionKind;
use futures::stream::{self, StreamExt};

use super::facts::Facts;
use super::{CATALOG_NAME, INFORMATION_SCHEMA, MYSQL, Wanted, columns as describe};
use crate::access::{self, Object};
use crate::context::QueryContext;
use crate::error::Result;
use crate::files::partitions::directory_name;
use crate::secrets;
use dipper_lake::columns::ColumnInfo;

/// Returns the names of all databases that the user may see: those of the catalog, `default`, and the virtual ones.
pub(crate) fn databases(catalog: &CatalogState, rights: &Rights) -> BTreeSet<String> {
    let names = catalog.databases.keys().map(String::as_str).chain([DEFAULT_DATABASE, INFORMATION_SCHEMA, MYSQL]);
    let seen = names.filter(|name| access::sees(rights, catalog, &Object::Database((*name).to_string())));
    seen.map(str::to_string).collect()
}

pub(super) fn schemata(context: &QueryContext, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for name in databases(&context.catalog, &context.rights).into_iter().filter(|d| wanted.database(d)) {
        push_schema(CATALOG_NAME, &name, sheet);
    }
    Ok(())
}

/// Adds a row of `schemata`.
pub(super) fn push_schema(catalog: &str, name: &str, sheet: &mut Sheet) {
    sheet.push([catalog.into(), name.into(), "utf8mb4".into(), "utf8mb4_0900_bin".into(), Cell::Null, "NO".into()]);
}

/// Adds a row of `tables`: catalog, database and name; kind, engine and format; time of creation and comment; and
/// counts. Only native tables have counts, because the rows of files that others write are not counted.
pub(super) fn push_table(
    name: [&str; 3],
    what: [Cell; 3],
    [created, comment]: [Cell; 2],
    own: Option<Facts>,
    zone: &str,
    sheet: &mut Sheet,
) {
    let [kind, engine, format] = what;
    let [counts @ .., updated] = own.map_or([const { Cell::Null }; 8], |f| f.cells(zone));
    let mut row: Vec<Cell> = name.map(Cell::from).into();
    row.extend([kind, engine, Cell::Null, format]);
    row.extend(counts);
    row.extend([created, updated, Cell::Null, "utf8mb4_0900_bin".into(), Cell::Null, "".into(), comment]);
    sheet.push_row(row);
}

/// Adds the rows of `columns` of one table, given by catalog, database and name.
pub(super) fn push_columns(name: [&str; 3], columns: Vec<ColumnInfo>, sheet: &mut Sheet) {
    for (at, column) in columns.into_iter().enumerate() {
        let facts = dipper_lake::types::facts(&column.type_text);
        let text = |value: &str| if facts.is_text { Cell::from(value) } else { Cell::Null };
        let mut row: Vec<Cell> = name.map(Cell::from).into();
        row.extend([
            column.name.into(),
            Cell::Int(at as i64 + 1),
            column.default.into(),
            if column.nullable { "YES" } else { "NO" }.into(),
            facts.shown_type().into(),
            facts.characters.into(),
            facts.characters.into(),
            facts.precision.into(),
            facts.scale.into(),
            facts.datetime_precision.into(),
            text("utf8mb4"),
            text("utf8mb4_0900_bin"),
            facts.shown_column_type(&column.type_text).into(),
            column.key_kind.into(),
            column.mysql_extra.into(),
            "select,insert,update,references".into(),
            column.comment.into(),
            facts.column_size().into(),
            facts.decimal_digits().into(),
            "".into(),
            Cell::Null,
        ]);
        sheet.push_row(row);
    }
}

/// Returns the virtual tables that the query may want, as (database, table).
pub(super) fn virtual_tables<'a>(
    context: &'a QueryContext,
    wanted: &'a Wanted,
) -> impl Iterator<Item = (&'static str, &'static str)> + 'a {
    [INFORMATION_SCHEMA, MYSQL]
        .into_iter()
        .filter(|d| wanted.database(d))
        .flat_map(|d| super::tables(&context.catalog, d).into_iter().map(move |t| (d, t)))
        .filter(|(_, t)| wanted.table(t))
}

/// Returns the tables and views of the catalog that the query may want and the user may see, each with the name of its
/// database.
pub(super) fn catalog_tables<'a>(
    context: &'a QueryContext,
    wanted: &'a Wanted,
) -> impl Iterator<Item = (&'a str, &'a Arc<Table>)> {
    context
        .catalog
        .tables()
        .filter(|(database, table)| !table.is_temporary() && context.rights.sees_table(database.id, table.id))
        .map(|(database, table)| (database.name.as_str(), table))
        .filter(|(database, table)| wanted.database(database) && wanted.table(&table.name))
}

/// Number of tables that are read at the same time. Each one in a storage volume that is down takes a while to fail.
const ASKED_AT_ONCE: usize = 32;

/// Returns the states of native tables, or the errors of reading them. A table that cannot be read does not prevent
/// others from being shown.
pub(crate) async fn states(
    context: &Arc<QueryContext>,
    tables: Vec<TableId>,
) -> HashMap<TableId, Result<Arc<TableState>>> {
    let asked = tables.into_iter().map(|id| {
        let context = Arc::clone(context);
        async move { (id, crate::native::snapshot(&context, id).await) }
    });
    let all: HashMap<_, _> = stream::iter(asked).buffer_unordered(ASKED_AT_ONCE).collect().await;
    for (id, state) in &all {
        if let Err(error) = state {
            tracing::debug!(table = %id, %error, "cannot be read; left out of information_schema, or told without its size");
        }
    }
    all
}

/// Returns the [`states`] of the native tables that the query may want.
pub(super) async fn wanted_states(
    context: &Arc<QueryContext>,
    wanted: &Wanted,
) -> HashMap<TableId, Result<Arc<TableState>>> {
    let native: Vec<TableId> =
        catalog_tables(context, wanted).filter(|(_, t)| t.is_native()).map(|(_, t)| t.id).collect();
    states(context, native).await
}

/// Returns comment and counts of a native table. As in MySQL, the comment of a table that cannot be read is the error.
pub(crate) fn comment_and_facts(state: Option<&Result<Arc<TableState>>>) -> (String, Option<Facts>) {
    match state {
        Some(Ok(state)) => (state.schema().comment.clone().unwrap_or_default(), Some(Facts::of(state))),
        Some(Err(e)) => (e.message.clone(), None),
        None => (String::new(), None),
    }
}

/// ENGINE of tables over files.
pub(crate) const FILES_ENGINE: &str = "FILES";
/// ENGINE of native tables, which is Doris's name.
pub(crate) const NATIVE_ENGINE: &str = "OLAP";

pub(super) async fn tables(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let zone = context.variables.time_zone();
    let mut push = |database: &str, name: &str, what, created: Cell, comment: Cell, own| {
        push_table([CATALOG_NAME, database, name], what, [created, comment], own, &zone, sheet);
    };
    let states = wanted_states(context, wanted).await;
    for (database, table) in catalog_tables(context, wanted) {
        let created = wall_clock_us(table.created_ms, &zone);
        match &table.def {
            TableDef::External(t) => {
                let comment = t.comment.clone().unwrap_or_default();
                let what = ["BASE TABLE".into(), FILES_ENGINE.into(), t.format.as_str().into()];
                push(database, &table.name, what, created, comment.into(), None);
            }
            TableDef::View(_) => {
                push(database, &table.name, ["VIEW".into(), Cell::Null, Cell::Null], created, "VIEW".into(), None);
            }
            TableDef::Native => {
                let (comment, facts) = comment_and_facts(states.get(&table.id));
                let what = ["BASE TABLE".into(), NATIVE_ENGINE.into(), Cell::Null];
                push(database, &table.name, what, created, comment.into(), facts);
            }
        }
    }
    for (database, table) in virtual_tables(context, wanted) {
        push(database, table, ["SYSTEM VIEW".into(), "MEMORY".into(), Cell::Null], Cell::Null, "".into(), None);
    }
    Ok(())
}

pub(super) async fn columns(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let states = wanted_states(context, wanted).await;
    let in_catalog = catalog_tables(context, wanted)
        .filter(|(_, t)| !matches!(states.get(&t.id), Some(Err(_))))
        .map(|(d, t)| (d.to_string(), t.name.clone()));
    let all: Vec<(String, String)> =
        in_catalog.chain(virtual_tables(context, wanted).map(|(d, t)| (d.to_string(), t.to_string()))).collect();
    for (database, table) in all {
        let described = match describe::columns(context, &database, &table).await {
            Ok(described) => described.unwrap_or_default(),
            // One broken view must not hide the columns of all other tables.
            Err(e) => {
                tracing::debug!(%database, %table, error = %e, "left out of information_schema.columns");
                continue;
            }
        };
        push_columns([CATALOG_NAME, &database, &table], described, sheet);
    }
    Ok(())
}

pub(super) fn views(context: &QueryContext, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    for (database, table) in catalog_tables(context, wanted) {
        if let Some(view) = table.as_view() {
            // As in MySQL, users who may not see the definition get an empty one.
            let object = Object::Table(database.to_string(), table.name.clone());
            let shown = access::on(&context.rights, &context.catalog, &object).contains(Privileges::SHOW_VIEW);
            let text = query_for(&view.sql, &view.sql_mode, &context.variables.parse_options());
            sheet.push([
                CATALOG_NAME.into(),
                database.into(),
                (&table.name).into(),
                if shown { secrets::mask(&text) } else { "".into() }.as_ref().into(),
                "NONE".into(),
                "NO".into(),
                "root@%".into(),
                // The rights of the creator apply to what the view reads.
                "DEFINER".into(),
                "utf8mb4".into(),
                "utf8mb4_0900_bin".into(),
            ]);
        }
    }
    Ok(())
}

pub(super) async fn partitions(context: &Arc<QueryContext>, wanted: &Wanted, sheet: &mut Sheet) -> Result<()> {
    let zone = context.variables.time_zone();
    let states = wanted_states(context, wanted).await;
    for (database, table) in catalog_tables(context, wanted) {
        if let Some(Ok(state)) = states.get(&table.id) {
            native_partitions((database, &table.name), table.created_ms, state, &zone, sheet);
        }
        let Some(external) = table.as_external() else { continue };
        let names: Vec<String> = external.partition_columns.iter().map(|c| c.name.clone()).collect();
        let created = wall_clock_us(table.created_ms, &zone);
        let mut push = |name: Cell, position: Cell, method: Cell, expression: Cell, description: Cell| {
            let mut row: Vec<Cell> = vec![CATALOG_NAME.into(), database.into(), (&table.name).into()];
            row.extend([
                name,
                Cell::Null,
                position,
                Cell::Null,
                method,
                Cell::Null,
                expression,
                Cell::Null,
                description,
            ]);
            row.extend(std::iter::repeat_n(Cell::Null, 6));
            row.extend([created.clone(), Cell::Null, Cell::Null, Cell::Null, "".into(), "".into(), Cell::Null]);
            sheet.push_row(row);
        };
        if names.is_empty() {
            push(Cell::Null, Cell::Null, Cell::Null, Cell::Null, Cell::Null);
            continue;
        }
        let found = match define::local_partitions(&context.read(), external) {
            Ok(found) => found,
            Err(e) => {
                tracing::debug!(%database, table = %table.name, error = %e, "left out of information_schema.partitions");
                continue;
            }
        };
        for (at, values) in found.iter().enumerate() {
            let described: Vec<&str> = values.iter().map(|v| v.as_deref().unwrap_or("NULL")).collect();
            push(
                directory_name(&names, values).into(),
                Cell::Int(at as i64 + 1),
                "LIST".into(),
                names.join(",").into(),
                described.join(",").into(),
            );
        }
    }
    Ok(())
}

fn native_partitions(
    (database, table): (&str, &str),
    created_ms: i64,
    state: &TableState,
    zone: &str,
    sheet: &mut Sheet,
) {
    let schema = state.schema();
    let by = schema.partition_by.as_ref();
    let method = by.map(|by| match by.kind {
        PartitionKind::Range => "RANGE",
        PartitionKind::List => "LIST",
    });
    let expression = by.map(|by| {
        let names = by.columns.iter().filter_map(|id| schema.position(*id)).map(|at| schema.columns[at].name.as_str());
        names.collect::<Vec<_>>().join(",")
    });
    let facts = Facts::of_partitions(state);
    for (at, partition) in state.partitions().enumerate() {
        let [rows, average, data, most, index, free, _, updated] =
            facts.get(&partition.id).copied().unwrap_or_default().cells(zone);
        let mut row: Vec<Cell> = vec![CATALOG_NAME.into(), database.into(), table.into()];
        row.extend([
            (&partition.name).into(),
            Cell::Null,
            Cell::Int(at as i64 + 1),
            Cell::Null,
            method.into(),
            Cell::Null,
            expression.clone().into(),
            Cell::Null,
            partitions::range_text(schema, &partition.bounds).into(),
        ]);
        row.extend([rows, average, data, most, index, free]);
        row.extend([wall_clock_us(created_ms, zone), updated, Cell::Null, Cell::Null]);
        row.extend(["".into(), "".into(), Cell::Null]);
        sheet.push_row(row);
    }
}
