//! SHOW statements about databases, tables, views and partitions.

use std::sync::Arc;

use dipper_dialect::parser::ParseOptions;
use dipper_dialect::statement::{Literal, Name, Statement, ViewKind};
use dipper_exec::on_cpu::on_cpu;
use dipper_lake::files::define;
use dipper_lake::printed;
use dipper_lake::sheet::{Cell, Kind, Sheet, wall_clock_us};
use dipper_store::catalog::{ExternalCatalog, Table, TableDef, View};

use super::{external, native};
use crate::catalogs::{self, Place};
use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};
use crate::files::partitions::directory_name;
use crate::info_schema::facts::Facts;
use crate::info_schema::{self, columns};
use crate::secrets;
use crate::session::Session;
use crate::statements::qualified;
use crate::tables;

/// Returns the database that FROM names, or the selected one. It must be in dipper's own catalog.
///
/// # Errors
/// `NoDatabaseSelected` if FROM is missing and none is selected; `NoDatabase` if there is no such database;
/// `Unsupported` if the database is in an external catalog; `Invalid` if there is no such catalog.
pub(super) async fn database(session: &Session, from: Option<&Name>) -> Result<String> {
    match database_place(session, from).await? {
        (database, None) => Ok(database),
        (database, Some(catalog)) => Err(EngineError::unsupported(format!(
            "'{}.{database}' is in an external catalog, of which this is not known",
            catalog.name
        ))),
    }
}

/// Returns the database that FROM names, or the selected one, and the external catalog that it is in, if it is in one.
/// Whether a database exists is checked only in dipper's own catalog.
///
/// # Errors
/// `NoDatabaseSelected` if FROM is missing and none is selected; `NoDatabase` if there is no such database; `Invalid`
/// if there is no such catalog.
pub(super) async fn database_place(
    session: &Session,
    from: Option<&Name>,
) -> Result<(String, Option<Arc<ExternalCatalog>>)> {
    let Some(name) = from.map(Name::object).or(session.database()) else {
        return Err(EngineError::new(
            ErrorKind::NoDatabaseSelected,
            "No database selected; say USE database, or FROM database",
        ));
    };
    let state = session.engine.catalog.refresh().await?;
    let catalog = from.and_then(Name::database).unwrap_or(session.catalog());
    if !catalogs::is_internal(catalog) && !info_schema::is_everywhere(name) {
        return Ok((name.to_string(), Some(catalogs::named(&state, catalog)?)));
    }
    if !tables::database_exists(&state, name) {
        return Err(state.no_database(name).into());
    }
    Ok((name.to_string(), None))
}

pub(super) async fn databases(session: &Session, from: Option<&Name>) -> Result<Sheet> {
    let state = session.engine.catalog.refresh().await?;
    let catalog = from.map_or(session.catalog(), Name::object);
    let mut sheet = Sheet::texts(&["Database"]);
    if !catalogs::is_internal(catalog) {
        for name in external::databases(session, &*catalogs::named(&state, catalog)?).await? {
            sheet.push([name.into()]);
        }
        return Ok(sheet);
    }
    for name in info_schema::databases(&state, &*session.rights(&state)?) {
        sheet.push([name.into()]);
    }
    Ok(sheet)
}

/// Lists the tables and views of a database that the user may see, by name.
pub(super) async fn in_database(session: &Session, database: &str) -> Result<Vec<Arc<Table>>> {
    let state = session.engine.catalog.refresh().await?;
    let rights = session.rights(&state)?;
    let Some(database) = state.database(database) else { return Ok(Vec::new()) };
    let seen = database.tables.values().filter(|t| !t.is_temporary() && rights.sees_table(database.id, t.id));
    Ok(seen.cloned().collect())
}

/// Runs SHOW TEMPORARY TABLES: lists the session's own, by the names that it gave them.
pub(super) async fn temporary_tables(session: &Session, from: Option<&Name>) -> Result<Sheet> {
    let database = database(session, from).await?;
    let mut sheet = Sheet::texts(&[""]).rename(0, format!("Tables_in_{database}"));
    for name in session.temporaries.names(&database) {
        sheet.push([name.into()]);
    }
    Ok(sheet)
}

pub(super) async fn tables(session: &Session, from: Option<&Name>, full: bool) -> Result<Sheet> {
    let (database, catalog) = database_place(session, from).await?;
    let sheet = if full { Sheet::texts(&["", "Table_type"]) } else { Sheet::texts(&[""]) };
    let mut sheet = sheet.rename(0, format!("Tables_in_{database}"));
    let mut push = |name: &str, kind: &str| match full {
        true => sheet.push([name.into(), kind.into()]),
        false => sheet.push([name.into()]),
    };
    if let Some(catalog) = catalog {
        for (name, is_view) in external::tables(session, &catalog, &database).await? {
            push(&name, if is_view { "VIEW" } else { "BASE TABLE" });
        }
        return Ok(sheet);
    }
    let state = session.engine.catalog.refresh().await?;
    for name in info_schema::tables(&state, &database) {
        push(name, "SYSTEM VIEW");
    }
    for table in in_database(session, &database).await? {
        push(&table.name, if table.as_view().is_some() { "VIEW" } else { "BASE TABLE" });
    }
    Ok(sheet)
}

pub(super) async fn views(session: &Session, from: Option<&Name>) -> Result<Sheet> {
    let (database, catalog) = database_place(session, from).await?;
    let mut sheet = Sheet::texts(&[""]).rename(0, format!("Tables_in_{database}"));
    if let Some(catalog) = catalog {
        for (name, is_view) in external::tables(session, &catalog, &database).await? {
            if is_view {
                sheet.push([name.into()]);
            }
        }
        return Ok(sheet);
    }
    for table in in_database(session, &database).await?.iter().filter(|t| t.as_view().is_some()) {
        sheet.push([(&table.name).into()]);
    }
    Ok(sheet)
}

pub(super) async fn table_status(session: &Session, from: Option<&Name>) -> Result<Sheet> {
    let (database, catalog) = database_place(session, from).await?;
    let zone = session.variables.time_zone();
    let mut sheet = Sheet::new(&[
        ("Name", Kind::Text),
        ("Engine", Kind::Text),
        ("Version", Kind::Int),
        ("Row_format", Kind::Text),
        ("Rows", Kind::Int),
        ("Avg_row_length", Kind::Int),
        ("Data_length", Kind::Int),
        ("Max_data_length", Kind::Int),
        ("Index_length", Kind::Int),
        ("Data_free", Kind::Int),
        ("Auto_increment", Kind::Int),
        ("Create_time", Kind::Time),
        ("Update_time", Kind::Time),
        ("Check_time", Kind::Time),
        ("Collation", Kind::Text),
        ("Checksum", Kind::Int),
        ("Create_options", Kind::Text),
        ("Comment", Kind::Text),
    ]);
    let mut push = |name: &str, engine: Cell, format: Cell, created: Cell, comment: Cell, own: Option<Facts>| {
        let mut row = vec![name.into(), engine, Cell::Null, format];
        // The rows of files that others write are not counted.
        let facts = own.map_or([const { Cell::Null }; 8], |f| f.cells(&zone));
        let [counts @ .., updated] = facts;
        row.extend(counts);
        row.extend([created, updated, Cell::Null, "utf8mb4_0900_bin".into(), Cell::Null, "".into(), comment]);
        sheet.push_row(row);
    };
    if let Some(catalog) = catalog {
        for (name, is_view) in external::tables(session, &catalog, &database).await? {
            let engine = if is_view { Cell::Null } else { info_schema::FILES_ENGINE.into() };
            push(&name, engine, Cell::Null, Cell::Null, if is_view { "VIEW" } else { "" }.into(), None);
        }
        return Ok(sheet);
    }
    let context = session.query_context().await?;
    for name in info_schema::tables(&context.catalog, &database) {
        push(name, "MEMORY".into(), Cell::Null, Cell::Null, "".into(), None);
    }
    let tables = in_database(session, &database).await?;
    let native = tables.iter().filter(|t| t.is_native()).map(|t| t.id).collect();
    let states = info_schema::states(&context, native).await;
    for table in tables {
        let created = wall_clock_us(table.created_ms, &zone);
        match &table.def {
            TableDef::External(t) => {
                let comment = t.comment.clone().unwrap_or_default();
                push(
                    &table.name,
                    info_schema::FILES_ENGINE.into(),
                    t.format.as_str().into(),
                    created,
                    comment.into(),
                    None,
                );
            }
            TableDef::View(_) => push(&table.name, Cell::Null, Cell::Null, created, "VIEW".into(), None),
            TableDef::Native => {
                let (comment, facts) = info_schema::comment_and_facts(states.get(&table.id));
                let engine = info_schema::NATIVE_ENGINE.into();
                push(&table.name, engine, Cell::Null, created, comment.into(), facts);
            }
        }
    }
    Ok(sheet)
}

/// Finds a table, a view or a virtual table of dipper's own catalog.
async fn table(session: &Session, name: &Name) -> Result<(Arc<QueryContext>, String, Option<Arc<Table>>)> {
    let (database, object) = qualified(session, name)?;
    let context = session.query_context().await?;
    let found = context.catalog.table(&database, &object).cloned();
    let is_virtual = info_schema::table(&context, None, &database, &object).is_some();
    if found.is_none() && !is_virtual {
        return Err(tables::no_such_table(&context, Some(&database), &object));
    }
    Ok((context, database, found))
}

pub(super) async fn create_table(session: &Session, name: &Name) -> Result<Sheet> {
    if let Some(statement) = external::create_table(session, name).await? {
        let mut sheet = Sheet::texts(&["Table", "Create Table"]);
        sheet.push([name.object().into(), statement.into()]);
        return Ok(sheet);
    }
    let (context, database, found) = table(session, name).await?;
    let statement = match found.as_deref() {
        Some(Table { def: TableDef::View(_), .. }) => return create_view(session, name).await,
        Some(Table { def: TableDef::External(external), name, .. }) => {
            secrets::mask(&printed::table(name, external)).into_owned()
        }
        Some(Table { def: TableDef::Native, name, id, .. }) => {
            let state = crate::native::snapshot(&context, *id).await?;
            crate::statements::native::statement(name, &state, &session.parse_options()).to_string()
        }
        None => {
            let columns = columns::columns(&context, &database, name.object()).await?.unwrap_or_default();
            let columns: Vec<_> = columns.into_iter().map(|c| (c.name, c.type_text)).collect();
            printed::virtual_table(name.object(), &columns)
        }
    };
    let mut sheet = Sheet::texts(&["Table", "Create Table"]);
    sheet.push([name.object().into(), statement.into()]);
    Ok(sheet)
}

pub(super) async fn create_view(session: &Session, name: &Name) -> Result<Sheet> {
    let (_, database, found) = table(session, name).await?;
    let Some(view) = found.as_deref().and_then(Table::as_view) else {
        return Err(EngineError::new(
            ErrorKind::WrongObject,
            format!("'{database}.{}' is a table, expected a view; SHOW CREATE TABLE shows it", name.object()),
        ));
    };
    let mut sheet = Sheet::texts(&["View", "Create View", "character_set_client", "collation_connection"]);
    sheet.push([
        name.object().into(),
        secrets::mask(&printed::view(name.object(), view, &session.parse_options())).as_ref().into(),
        "utf8mb4".into(),
        "utf8mb4_0900_bin".into(),
    ]);
    Ok(sheet)
}

/// Runs SHOW CREATE MATERIALIZED VIEW: shows a view with the clauses that have no effect.
pub(super) async fn create_materialized_view(session: &Session, name: &Name, of: Option<&Name>) -> Result<Sheet> {
    if let Some(of) = of {
        table(session, of).await?;
        return Err(EngineError::unsupported(format!(
            "materialized views of the table '{of}' are not kept, because its queries read the table itself"
        )));
    }
    let (_, database, found) = table(session, name).await?;
    let view = found.as_deref().and_then(Table::as_view);
    let Some((view, clauses)) = view.and_then(|view| Some((view, clauses(view)?))) else {
        return Err(EngineError::new(
            ErrorKind::WrongObject,
            format!("'{database}.{}' is no materialized view; SHOW CREATE TABLE shows it", name.object()),
        ));
    };
    let mut sheet = Sheet::texts(&["Materialized View", "Create Materialized View"]);
    let statement = printed::materialized_view(name.object(), view, &clauses, &session.parse_options());
    sheet.push([name.object().into(), secrets::mask(&statement).as_ref().into()]);
    Ok(sheet)
}

/// Returns the clauses of a materialized view between its columns and its query; `None` for other views.
fn clauses(view: &View) -> Option<String> {
    let parsed = dipper_dialect::parser::parse(&view.ddl, &ParseOptions::from_sql_mode(&view.sql_mode)).ok()?;
    match parsed.into_iter().next()?.statement {
        Statement::CreateView(create) if create.kind == ViewKind::Materialized => Some(create.clauses),
        _ => None,
    }
}

/// The views of all databases that read a table or a view, with their definitions.
pub(super) async fn views_over(session: &Session, name: &Name) -> Result<Sheet> {
    let (context, database, _) = table(session, name).await?;
    let mut sheet = Sheet::texts(&["View", "Create View"]);
    let reader = session.parse_options();
    for (of, view) in info_schema::views_over(&context, &database, name.object()) {
        let found = context.catalog.table(&of, &view).and_then(|found| found.as_view());
        sheet.push([
            (&view).into(),
            found.map(|definition| secrets::mask(&printed::view(&view, definition, &reader)).into_owned()).into(),
        ]);
    }
    Ok(sheet)
}

pub(super) async fn create_database(session: &Session, name: &Name) -> Result<Sheet> {
    let (database, catalog) = database_place(session, Some(name)).await?;
    if let Some(catalog) = catalog {
        session.engine.lake.check_database(&catalog, &database).await?;
    }
    let state = session.engine.catalog.refresh().await?;
    let mut sheet = Sheet::texts(&["Database", "Create Database"]);
    sheet.push([(&database).into(), printed::database(&database, state.database(&database).map(|d| &**d)).into()]);
    Ok(sheet)
}

/// Runs SHOW INDEX. Doris's columns come first, then MySQL's. Visible is NO for an index that no query uses. Tables
/// over files have no indexes.
pub(super) async fn index(session: &Session, name: &Name) -> Result<Sheet> {
    let found = match external::create_table(session, name).await? {
        Some(_) => None,
        None => Some(table(session, name).await?),
    };
    let mut sheet = Sheet::new(&[
        ("Table", Kind::Text),
        ("Non_unique", Kind::Int),
        ("Key_name", Kind::Text),
        ("Seq_in_index", Kind::Int),
        ("Column_name", Kind::Text),
        ("Collation", Kind::Text),
        ("Cardinality", Kind::Int),
        ("Sub_part", Kind::Int),
        ("Packed", Kind::Text),
        ("Null", Kind::Text),
        ("Index_type", Kind::Text),
        ("Comment", Kind::Text),
        ("Properties", Kind::Text),
        ("Index_comment", Kind::Text),
        ("Visible", Kind::Text),
    ]);
    if let Some((context, _, Some(table))) = found
        && table.is_native()
    {
        native::index(&table.name, &*crate::native::snapshot(&context, table.id).await?, &mut sheet);
    }
    Ok(sheet)
}

pub(super) async fn partitions(
    session: &Session,
    name: &Name,
    temporary: bool,
    spec: &[(String, Literal)],
) -> Result<Sheet> {
    if let Place::External { catalog, database } = session.place(name).await? {
        return external::partitions(session, &catalog, database, name, spec).await;
    }
    let (context, database, found) = table(session, name).await?;
    if found.as_ref().is_some_and(|t| t.is_native()) {
        return match spec.first() {
            None => native::partitions(session, name, temporary).await,
            Some((column, _)) => Err(EngineError::invalid(format!(
                "partitions of '{database}.{}' have names: SHOW PARTITIONS ... WHERE PartitionName = '...', not {column} = ...",
                name.object()
            ))),
        };
    }
    let external = found.as_deref().and_then(Table::as_external).filter(|t| !t.partition_columns.is_empty());
    let Some(external) = external.cloned() else {
        return Err(EngineError {
            code: 1505,
            ..EngineError::invalid(format!("'{database}.{}' is not a partitioned table", name.object()))
        });
    };
    let names: Vec<String> = external.partition_columns.iter().map(|c| c.name.clone()).collect();
    let wanted = wanted(&format!("{database}.{}", name.object()), &names, spec)?;
    let threads = session.engine.short().clone();
    on_cpu(&threads, async move {
        let mut sheet = Sheet::texts(&["Partition", "Location"]);
        for (values, location) in define::partition_locations(&context.read(), &external).await? {
            if wanted.iter().all(|(at, value)| &values[*at] == value) {
                sheet.push([directory_name(&names, &values).into(), location.into()]);
            }
        }
        Ok(sheet)
    })
    .await
}

/// Returns the positions and values of the partition columns in SHOW PARTITIONS ... PARTITION (k=v).
pub(super) fn wanted(
    table: &str,
    names: &[String],
    spec: &[(String, Literal)],
) -> Result<Vec<(usize, Option<String>)>> {
    let position = |column: &str| {
        names.iter().position(|n| n.eq_ignore_ascii_case(column)).ok_or_else(|| {
            EngineError::new(
                ErrorKind::NoColumn,
                format!("'{column}' is not a partition column of '{table}'; they are {}", names.join(", ")),
            )
        })
    };
    spec.iter().map(|(column, value)| Ok((position(column)?, value.text()))).collect()
}
