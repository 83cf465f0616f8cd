//! CREATE, ALTER and DROP of databases, external tables and views.

use std::collections::BTreeMap;
use std::sync::Arc;

use dipper_base::names::{BUILTIN_VOLUME, CATALOG, DEFAULT_DATABASE};
use dipper_dialect::statement::{
    ColumnDef, CreateExternalTable, CreateView, DatabaseAlteration, Literal, Name, ObjectKind, Properties, QueryText,
    RowFormat, StoredAs, TableChange, ViewChange, ViewKind,
};
use dipper_dialect::wildcards;
use dipper_lake::files::define::{self, FORMAT_PARQUET, FORMAT_TEXT, LAZY_SIMPLE_SERDE, hive_spelling};
use dipper_sql::charter::collations;
use dipper_store::catalog::{
    CatalogChange, Column, ExternalTable, OnExists, Table, TableDef, TableKind, View, ViewColumn,
};
use dipper_store::volumes::STORAGE_VOLUME;
use dipper_text::hive::hive_type;

use super::export::refuse_duplicates;
use super::{own_name, partitions, qualified, table_properties};
use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};
use crate::files::local_path;
use crate::files::stores::{is_remote, store_properties};
use crate::info_schema;
use crate::query;
use crate::result::{Done, Outcome};
use crate::session::Session;

/// Commits the changes of one statement. The database `default` is created with its first table.
pub(super) async fn commit(session: &Session, database: &str, mut changes: Vec<CatalogChange>) -> Result<()> {
    refuse_virtual(session, database).await?;
    if database == DEFAULT_DATABASE {
        changes.insert(0, CatalogChange::create_database(DEFAULT_DATABASE, true));
    }
    session.engine.catalog.commit(changes).await?;
    Ok(())
}

/// Refuses changes of the virtual databases of the system.
pub(super) async fn refuse_virtual(session: &Session, database: &str) -> Result<()> {
    if info_schema::is_reserved(database)
        && info_schema::is_virtual(&*session.engine.catalog.refresh().await?, database)
    {
        return Err(EngineError::new(
            ErrorKind::Denied,
            format!("database '{database}' is read only: its tables tell of the system"),
        ));
    }
    Ok(())
}

/// Refuses to create a database under the name of a virtual database.
fn refuse_reserved(database: &str) -> Result<()> {
    match info_schema::is_reserved(database) {
        true => Err(EngineError::new(
            ErrorKind::DatabaseExists,
            format!("database '{database}' is there already: its tables tell of the system; take another name"),
        )),
        false => Ok(()),
    }
}

/// Refuses to create and drop databases of external catalogs; that is done where they are kept.
fn refuse_external(session: &Session, database: &Name) -> Result<()> {
    let catalog = database.database().unwrap_or(session.catalog());
    if crate::catalogs::is_internal(catalog) {
        return Ok(());
    }
    Err(EngineError::unsupported(format!(
        "database '{}' would be in catalog '{catalog}', which can only be read; SWITCH {} first",
        database.object(),
        CATALOG
    )))
}

pub(super) async fn create_database(
    session: &mut Session,
    name: &Name,
    if_not_exists: bool,
    properties: &Properties,
) -> Result<Outcome> {
    let database = name.object();
    refuse_external(session, name)?;
    refuse_reserved(database)?;
    let mut change = CatalogChange::create_database(database, if_not_exists || database == DEFAULT_DATABASE);
    let CatalogChange::CreateDatabase { properties: kept, comment, .. } = &mut change else {
        unreachable!("it creates a database")
    };
    let (comments, properties): (Properties, Properties) =
        properties.iter().cloned().partition(|(key, _)| key.eq_ignore_ascii_case("comment"));
    *comment = comments.into_iter().last().map(|(_, text)| text);
    *kept = checked_properties(session, database, &properties).await?;
    session.engine.catalog.commit(vec![change]).await?;
    Ok(Outcome::Done(Done { affected_rows: 1, ..Done::default() }))
}

/// Checks the properties of a database and returns them as they are stored. Warns of properties without effect.
///
/// # Errors
/// `Invalid` if there is no storage volume of this name.
async fn checked_properties(
    session: &mut Session,
    database: &str,
    properties: &Properties,
) -> Result<BTreeMap<String, String>> {
    let mut kept = BTreeMap::new();
    for (key, value) in properties {
        let is_volume = key.eq_ignore_ascii_case(STORAGE_VOLUME);
        // Text is always stored as UTF-8, so the property is true anyway.
        let is_utf8 = ["charset", "collate"].contains(&key.as_str()) && value.to_ascii_lowercase().starts_with("utf8");
        if is_volume && !["", "default", BUILTIN_VOLUME].contains(&value.as_str()) {
            session.engine.catalog.refresh().await?.volume(value)?;
        }
        if !is_volume && !is_utf8 {
            let message = format!("property '{key}' of database '{database}' is kept and shown, without effect");
            session.warn(super::WARNING, message);
        }
        let key = if is_volume { STORAGE_VOLUME.to_string() } else { key.clone() };
        kept.insert(key, value.clone());
    }
    Ok(kept)
}

pub(super) async fn alter_database(session: &mut Session, name: &Name, change: &DatabaseAlteration) -> Result<Outcome> {
    let database = name.object().to_string();
    refuse_external(session, name)?;
    refuse_virtual(session, &database).await?;
    match change {
        DatabaseAlteration::Rename(to) => {
            refuse_reserved(to)?;
            if database == DEFAULT_DATABASE || to == DEFAULT_DATABASE {
                return Err(EngineError::unsupported(format!(
                    "RENAME of '{database}' to '{to}': database '{DEFAULT_DATABASE}' is always there"
                )));
            }
            let change = CatalogChange::RenameDatabase { db: database.clone(), to: to.clone() };
            session.engine.catalog.commit(vec![change]).await?;
            // A session that has the database selected continues in it under its new name.
            if session.catalog.is_none() && session.database() == Some(database.as_str()) {
                session.select(None, Some(to.clone()));
            }
        }
        DatabaseAlteration::SetProperties(properties) => {
            if properties.iter().any(|(key, _)| key.eq_ignore_ascii_case("comment")) {
                return Err(EngineError::unsupported("the comment of a database is given by CREATE DATABASE alone"));
            }
            let properties = checked_properties(session, &database, properties).await?;
            let change = CatalogChange::SetDatabaseProperties {
                db: database.clone(),
                properties: properties.into_iter().map(|(key, value)| (key, Some(value))).collect(),
            };
            commit(session, &database, vec![change]).await?;
        }
    }
    Ok(Outcome::ok())
}

pub(super) async fn create_table(session: &mut Session, create: &CreateExternalTable, ddl: &str) -> Result<Outcome> {
    let (database, name) = qualified(session, &create.name)?;
    let mut table = definition(create, ddl)?;
    if let Some(query) = &create.query {
        if !create.columns.is_empty() {
            return Err(EngineError::invalid(
                "CREATE TABLE ... AS SELECT takes its columns from the query; leave them out",
            ));
        }
        table.columns = columns_of_query(session, query, &table).await?;
    }
    if table.columns.is_empty() && table.format == FORMAT_TEXT {
        return Err(EngineError::invalid(format!(
            "table '{database}.{name}' has no columns; text files do not name theirs"
        )));
    }
    check(session, &table)?;
    table_properties::check(session, table.serde_properties.keys().chain(table.properties.keys()));
    let on_exists = if create.if_not_exists { OnExists::Keep } else { OnExists::Fail };
    let before = session.engine.catalog.refresh().await?;
    if create.query.is_some() && before.table(&database, &name).is_some() {
        if create.if_not_exists {
            return Ok(Outcome::ok());
        }
        return Err(EngineError::new(ErrorKind::TableExists, format!("Table '{database}.{name}' already exists")));
    }
    let change = CatalogChange::create(&database, &name, TableDef::External(table), on_exists);
    commit(session, &database, vec![change]).await?;
    if let Some(query) = &create.query {
        let insert = dipper_dialect::statement::Insert {
            table: own_name(&database, &name),
            overwrite: false,
            replace: false,
            partition: Vec::new(),
            temporary: false,
            columns: Vec::new(),
            by_name: false,
            label: None,
            ignore: false,
            source: query.clone(),
            rows_as: None,
            on_duplicate: Vec::new(),
        };
        let filled = super::insert::insert(session, &insert, Vec::new()).await;
        if filled.is_err() {
            let drop = CatalogChange::Drop { db: database.clone(), name, kind: TableKind::Table, if_exists: true };
            commit(session, &database, vec![drop]).await?;
        }
        return filled;
    }
    Ok(Outcome::ok())
}

/// Returns the columns of a query's result, without the partition columns at its end.
async fn columns_of_query(session: &Session, query: &QueryText, table: &ExternalTable) -> Result<Vec<Column>> {
    let context = session.query_context().await?;
    let planned = query::plan_elsewhere(&context, query).await?;
    let mut columns = planned
        .columns()
        .into_iter()
        .map(|c| Ok(Column::new(c.name, hive_type(&c.field)?)))
        .collect::<Result<Vec<_>>>()?;
    let own = columns.len().saturating_sub(table.partition_columns.len());
    columns.truncate(own);
    Ok(columns)
}

/// Checks whether statements may use a location, as far as this is known without a request to an object store.
pub(super) fn reachable(session: &Session, location: &str, properties: &BTreeMap<String, String>) -> Result<()> {
    if is_remote(location) {
        session.engine.stores.open(location, &store_properties(properties))?;
        return Ok(());
    }
    session.engine.options.access.check(&local_path(location)?)
}

/// Reads the definition back as a scan would, so that a table that cannot work is refused when it is created.
fn check(session: &Session, table: &ExternalTable) -> Result<()> {
    reachable(session, &table.location, &table.properties)?;
    define::fields(&table.partition_columns)?;
    let mut seen = std::collections::HashSet::new();
    for column in table.columns.iter().chain(&table.partition_columns) {
        if !seen.insert(column.name.to_lowercase()) {
            return Err(EngineError {
                code: 1060,
                sqlstate: "42S21",
                ..EngineError::invalid(format!("Duplicate column name '{}'", column.name))
            });
        }
    }
    match table.format.as_str() {
        FORMAT_TEXT => define::hive_text(table, &[]).map(|_| ()),
        _ => define::fields(&table.columns).map(|_| ()),
    }
}

fn columns(list: &[ColumnDef]) -> Result<Vec<Column>> {
    list.iter()
        .map(|c| {
            let mut column = Column::new(&c.name, hive_spelling(&c.data_type)?);
            column.comment.clone_from(&c.comment);
            column.nullable = !c.not_null;
            Ok(column)
        })
        .collect()
}

fn definition(create: &CreateExternalTable, ddl: &str) -> Result<ExternalTable> {
    let (format, format_serde) = format_of(create.stored_as.as_ref())?;
    let (serde, serde_properties) = match &create.row_format {
        None => (format_serde, BTreeMap::new()),
        Some(RowFormat::Serde { class, properties }) => {
            (Some(class.clone()), properties.iter().cloned().collect::<BTreeMap<_, _>>())
        }
        Some(RowFormat::Delimited { field, escape, collection, map_key, line, null }) => {
            let clauses = [
                ("field.delim", field),
                ("escape.delim", escape),
                ("collection.delim", collection),
                ("mapkey.delim", map_key),
                ("line.delim", line),
                ("serialization.null.format", null),
            ];
            let mut properties: BTreeMap<String, String> =
                clauses.into_iter().filter_map(|(key, value)| Some((key.to_string(), value.clone()?))).collect();
            // Hive's parser also sets the old name of field.delim.
            if let Some(field) = field {
                properties.insert("serialization.format".into(), field.clone());
            }
            (Some(LAZY_SIMPLE_SERDE.to_string()), properties)
        }
    };
    let location = create.location.as_deref().ok_or_else(|| {
        EngineError::unsupported(format!("table '{}' needs LOCATION 'directory': where its files are", create.name))
    })?;
    if serde.as_deref().is_some_and(|s| s.to_lowercase().contains("parquet")) && format != FORMAT_PARQUET {
        return Err(EngineError::invalid("a Parquet SerDe needs STORED AS PARQUET"));
    }
    Ok(ExternalTable {
        columns: columns(&create.columns)?,
        partition_columns: columns(&create.partition_columns)?,
        format: format.to_string(),
        serde: if format == FORMAT_TEXT { serde } else { None },
        serde_properties,
        location: absolute(location)?,
        properties: create.properties.iter().cloned().collect(),
        comment: create.comment.clone(),
        ddl: crate::secrets::mask(ddl).into_owned(),
        partitions: BTreeMap::new(),
    })
}

/// Returns a location that means the same wherever the server is started next time.
pub(super) fn absolute(location: &str) -> Result<String> {
    if is_remote(location) {
        return Ok(location.to_string());
    }
    let path = local_path(location)?;
    let absolute = std::path::absolute(&path).map_err(|e| crate::files::cannot(&path, "resolve", &e))?;
    Ok(absolute.display().to_string())
}

fn format_of(stored_as: Option<&StoredAs>) -> Result<(&'static str, Option<String>)> {
    let unknown = |what: &str| {
        Err(EngineError::unsupported(format!("STORED AS {what} is not supported; TEXTFILE and PARQUET are")))
    };
    match stored_as {
        None => Ok((FORMAT_TEXT, Some(LAZY_SIMPLE_SERDE.to_string()))),
        Some(StoredAs::Format(name)) => match name.as_str() {
            "TEXTFILE" => Ok((FORMAT_TEXT, Some(LAZY_SIMPLE_SERDE.to_string()))),
            "PARQUET" => Ok((FORMAT_PARQUET, None)),
            other => unknown(other),
        },
        Some(StoredAs::Classes { input, .. }) => match input.rsplit('.').next().unwrap_or_default() {
            "TextInputFormat" => Ok((FORMAT_TEXT, Some(LAZY_SIMPLE_SERDE.to_string()))),
            "MapredParquetInputFormat" => Ok((FORMAT_PARQUET, None)),
            other => unknown(other),
        },
    }
}

pub(super) async fn create_view(session: &mut Session, create: &CreateView, ddl: &str) -> Result<Outcome> {
    let (database, name) = qualified(session, &create.name)?;
    let columns = view_columns(&create.columns);
    let given = check_view(session, (&database, &name), &create.query, &columns).await?;
    let view = View { columns, comment: create.comment.clone(), ..view_of(session, &create.query, &given, ddl) };
    match create.kind {
        ViewKind::Plain => {}
        ViewKind::Materialized => {
            session.note(1105, format!("materialized view {name} is a view: each query that names it computes it"));
        }
        ViewKind::OfTable => {
            session.note(1105, format!("materialized view {name} is not kept: queries read the table itself"));
            return Ok(Outcome::ok());
        }
    }
    let on_exists = match (create.or_replace, create.if_not_exists) {
        (true, _) => OnExists::Replace,
        (_, true) => OnExists::Keep,
        _ => OnExists::Fail,
    };
    let change = CatalogChange::create(&database, &name, TableDef::View(view), on_exists);
    commit(session, &database, vec![change]).await?;
    Ok(Outcome::ok())
}

fn view_columns(written: &[(String, Option<String>)]) -> Vec<ViewColumn> {
    written.iter().map(|(name, comment)| ViewColumn { name: name.clone(), comment: comment.clone() }).collect()
}

/// Makes a view of a query, whose columns have the names `given`.
fn view_of(session: &Session, query: &QueryText, given: &[String], ddl: &str) -> View {
    let names: Vec<&str> = given.iter().map(String::as_str).collect();
    // Columns of one name can only be told apart by their places.
    let written_out = match refuse_duplicates(names.iter().copied()) {
        Ok(()) => wildcards::written_out(&query.text, &session.variables.parse_options(), &names),
        Err(_) => None,
    };
    View {
        columns: Vec::new(),
        sql: written_out.unwrap_or_else(|| query.text.clone()),
        sql_mode: session.variables.get("sql_mode").unwrap_or_default(),
        database: session.database().unwrap_or_default().to_string(),
        comment: None,
        ddl: ddl.to_string(),
    }
}

/// Checks that the view of this database and name can be read before it is made. Without `names` the view has the column
/// names of the query, which are returned.
async fn check_view(
    session: &Session,
    (database, name): (&str, &str),
    query: &QueryText,
    names: &[ViewColumn],
) -> Result<Vec<String>> {
    collations::check_view(&query.ast)?;
    if !crate::catalogs::is_internal(session.catalog()) {
        return Err(EngineError::unsupported(format!(
            "a view is made while catalog '{}' is selected, in which it looks up its names; SWITCH {} first",
            CATALOG, CATALOG
        )));
    }
    // The view must not use temporary tables, because other sessions that read it do not see them.
    let context = session.query_context().await?.without_temporaries();
    let made_view = Some((database.to_string(), name.to_string()));
    let context = Arc::new(QueryContext { made_view, ..context });
    let planned = query::plan_elsewhere(&context, query).await?;
    let given: Vec<String> = planned.columns().iter().map(|column| column.name.clone()).collect();
    if names.is_empty() {
        refuse_duplicates(given.iter().map(String::as_str))?;
        return Ok(given);
    }
    if names.len() != given.len() {
        let (names, given) = (names.len(), given.len());
        return Err(EngineError {
            code: 1353,
            ..EngineError::invalid(format!("the view names {names} columns, its query gives {given}"))
        });
    }
    refuse_duplicates(names.iter().map(|column| column.name.as_str()))?;
    Ok(given)
}

pub(super) async fn alter_view(session: &mut Session, name: &Name, change: &ViewChange, ddl: &str) -> Result<Outcome> {
    let (database, view) = qualified(session, name)?;
    let state = session.engine.catalog.refresh().await?;
    let found = state.table(&database, &view).ok_or_else(|| state.no_table(&database, &view))?;
    let Some(before) = found.as_view() else {
        return Err(EngineError::new(
            ErrorKind::WrongObject,
            format!("'{database}.{view}' is a table, expected a view"),
        ));
    };
    let def = match change {
        ViewChange::Comment(comment) => View { comment: Some(comment.clone()), ..before.clone() },
        ViewChange::Query { columns, comment, query } => {
            let columns = if columns.is_empty() { before.columns.clone() } else { view_columns(columns) };
            let given = check_view(session, (&database, &view), query, &columns).await?;
            let comment = comment.clone().or_else(|| before.comment.clone());
            View { columns, comment, ..view_of(session, query, &given, ddl) }
        }
    };
    commit(session, &database, vec![redefine(&database, found, TableDef::View(def))]).await?;
    Ok(Outcome::ok())
}

fn redefine(database: &str, table: &Table, def: TableDef) -> CatalogChange {
    CatalogChange::Redefine {
        db: database.to_string(),
        name: table.name.clone(),
        id: table.id,
        revision: table.revision,
        def,
    }
}

/// `ER_BAD_TABLE_ERROR`.
const UNKNOWN_TABLE: u16 = 1051;

pub(super) async fn drop(session: &mut Session, kind: ObjectKind, names: &[Name], if_exists: bool) -> Result<Outcome> {
    if kind == ObjectKind::Database {
        for name in names {
            refuse_external(session, name)?;
            let db = name.object().to_string();
            refuse_virtual(session, &db).await?;
            // MySQL and Doris drop everything in the database. The files of tables over files stay where they are.
            let before = session.engine.catalog.refresh().await?;
            let change = CatalogChange::DropDatabase { db: db.clone(), if_exists, cascade: true };
            let after = session.engine.catalog.commit(vec![change]).await?;
            super::native::discard_missing(session, &before, &after).await;
            if session.database() == Some(db.as_str()) {
                session.database = None;
                session.process().set_database(None);
            }
        }
        return Ok(Outcome::ok());
    }
    let kind = if kind == ObjectKind::View { TableKind::View } else { TableKind::Table };
    let before = session.engine.catalog.refresh().await?;
    let mut changes = Vec::new();
    for name in names {
        let (db, mut name) = qualified(session, name)?;
        refuse_virtual(session, &db).await?;
        if let Some(hidden) = session.temporaries.hidden(&db, &name).filter(|_| kind == TableKind::Table) {
            name = hidden.to_string();
        }
        // As in MySQL, DROP TABLE IF EXISTS of a view's name finds no table; MySQL's dumps rely on it.
        let is_view = before.table(&db, &name).is_some_and(|t| t.as_view().is_some());
        if is_view && if_exists && kind == TableKind::Table {
            session.warn(UNKNOWN_TABLE, format!("Unknown table '{db}.{name}'"));
            continue;
        }
        changes.push(CatalogChange::Drop { db, name, kind, if_exists });
    }
    let after = session.engine.catalog.commit(changes).await?;
    session.temporaries.keep(&after);
    super::native::discard_missing(session, &before, &after).await;
    Ok(Outcome::ok())
}

/// Runs RENAME TABLE. All tables and views are renamed in one version of the catalog, or none is.
pub(super) async fn rename_tables(session: &mut Session, pairs: &[(Name, Name)]) -> Result<Outcome> {
    let before = session.engine.catalog.refresh().await?;
    let mut changes = Vec::with_capacity(pairs.len());
    let mut renamed = Vec::with_capacity(pairs.len());
    for (from, to) in pairs {
        let (db, name) = qualified(session, from)?;
        let (to_db, to_name) = qualified(session, to)?;
        refuse_temporary(session, &db, &name, "RENAME")?;
        renamed.extend(before.table(&db, &name).filter(|t| t.is_native()).cloned());
        changes.push(CatalogChange::Rename { db, name, to_db, to_name });
    }
    let after = session.engine.catalog.commit(changes).await?;
    for table in renamed {
        if let Some((_, now)) = after.table_by_id(table.id).filter(|(_, now)| now.name != table.name) {
            super::native::follow_name(&session.engine.native.get(table.id).await?, &table.name, &now.name).await?;
        }
    }
    Ok(Outcome::ok())
}

pub(super) async fn alter_table(
    session: &mut Session,
    name: &Name,
    if_exists: bool,
    changes: &[TableChange],
) -> Result<Outcome> {
    let (database, table) = qualified(session, name)?;
    // Clauses that change nothing, as in `ALTER TABLE t ALGORITHM = INPLACE`.
    if changes.is_empty() && !if_exists {
        table_named(session, name).await?;
    }
    for change in changes {
        match change {
            TableChange::Rename(_) => refuse_temporary(session, &database, &table, "RENAME")?,
            TableChange::ReplaceWith { table: other, .. } => {
                let (other_db, other) = match other.database() {
                    Some(_) => qualified(session, other)?,
                    None => (database.clone(), other.object().to_string()),
                };
                refuse_temporary(session, &database, &table, "REPLACE WITH TABLE")?;
                refuse_temporary(session, &other_db, &other, "REPLACE WITH TABLE")?;
            }
            _ => {}
        }
        let state = session.temporaries.over(session.engine.catalog.refresh().await?);
        let Some(found) = state.table(&database, &table).cloned() else {
            if if_exists {
                return Ok(Outcome::ok());
            }
            return Err(state.no_table(&database, &table).into());
        };
        if found.is_native() {
            return super::native::alter(session, &database, &found, changes).await;
        }
        if let TableChange::Rename(to) = change {
            let (to_db, to_name) = match to.database() {
                Some(_) => qualified(session, to)?,
                None => (database.clone(), to.object().to_string()),
            };
            let rename = CatalogChange::Rename { db: database.clone(), name: table.clone(), to_db, to_name };
            commit(session, &database, vec![rename]).await?;
            continue;
        }
        let Some(before) = found.as_external() else {
            return Err(EngineError::new(
                ErrorKind::WrongObject,
                format!("'{database}.{table}' is a view, expected a table"),
            ));
        };
        match change {
            TableChange::AddPartition { if_not_exists, spec, location } => {
                partitions::add(session, &database, &found, spec, location.as_deref(), *if_not_exists).await?;
            }
            TableChange::DropPartition { if_exists, spec } => {
                partitions::drop(session, &database, &found, spec, *if_exists).await?;
            }
            TableChange::RecoverPartitions => {
                partitions::repair(session, name, true, false).await?;
            }
            other => {
                let mut after = before.clone();
                apply(&mut after, other)?;
                check(session, &after)?;
                if let TableChange::SetProperties(list) | TableChange::SetSerdeProperties(list) = other {
                    table_properties::check(session, list.iter().map(|(key, _)| key));
                }
                commit(session, &database, vec![redefine(&database, &found, TableDef::External(after))]).await?;
            }
        }
    }
    Ok(Outcome::ok())
}

/// Applies a change to the definition alone; the files stay as they are.
fn apply(table: &mut ExternalTable, change: &TableChange) -> Result<()> {
    let position = |columns: &[Column], name: &str| {
        columns.iter().position(|c| c.name.eq_ignore_ascii_case(name)).ok_or_else(|| {
            let near = dipper_base::near::closest(name, columns.iter().map(|c| c.name.as_str()));
            let hint = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
            EngineError::new(ErrorKind::NoColumn, format!("Unknown column '{name}'{hint}"))
        })
    };
    match change {
        TableChange::AddColumns { columns: list, position: None } => table.columns.extend(columns(list)?),
        TableChange::ReplaceColumns(list) => table.columns = columns(list)?,
        TableChange::DropColumn(name) => {
            if table.format == FORMAT_TEXT {
                return Err(EngineError::unsupported(format!(
                    "DROP COLUMN {name}: text files have their columns by position; use REPLACE COLUMNS with those that remain"
                )));
            }
            let at = position(&table.columns, name)?;
            table.columns.remove(at);
        }
        TableChange::RenameColumn { from, to, definition } => {
            let at = position(&table.columns, from)?;
            match definition {
                Some(definition) => table.columns[at] = columns(std::slice::from_ref(definition))?.remove(0),
                None => table.columns[at].name.clone_from(to),
            }
        }
        TableChange::SetLocation(location) => table.location = absolute(location)?,
        TableChange::SetProperties(list) => table.properties.extend(list.iter().cloned()),
        TableChange::UnsetProperties(names) => table.properties.retain(|k, _| !names.contains(k)),
        TableChange::SetSerdeProperties(list) => table.serde_properties.extend(list.iter().cloned()),
        TableChange::Comment(comment) => table.comment = Some(comment.clone()),
        _ => {
            return Err(EngineError::unsupported(
                "this ALTER TABLE is for native tables; CREATE EXTERNAL TABLE describes the same files in another way",
            ));
        }
    }
    Ok(())
}

/// Returns partition values in the order of the table's partition columns, from `k=v` pairs in any order.
pub(super) fn partition_values(table: &ExternalTable, spec: &[(String, Literal)]) -> Result<Vec<Option<String>>> {
    let names: Vec<&str> = table.partition_columns.iter().map(|c| c.name.as_str()).collect();
    if names.is_empty() {
        return Err(EngineError::invalid("the table is not partitioned"));
    }
    for (key, _) in spec {
        if !names.iter().any(|n| n.eq_ignore_ascii_case(key)) {
            return Err(EngineError::new(
                ErrorKind::NoColumn,
                format!("'{key}' is no partition column; they are: {}", names.join(", ")),
            ));
        }
    }
    names
        .iter()
        .map(|name| {
            let found = spec.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            let (_, value) = found.ok_or_else(|| {
                EngineError::invalid(format!("the partition needs a value for each of: {}", names.join(", ")))
            })?;
            Ok(value.text().filter(|v| v != crate::files::partitions::NULL_PARTITION))
        })
        .collect()
}

/// Refuses to rename a temporary table, and to give its name to another table.
fn refuse_temporary(session: &Session, database: &str, table: &str, what: &str) -> Result<()> {
    match session.temporaries.hidden(database, table) {
        Some(_) => Err(EngineError::unsupported(format!(
            "{what} of the temporary table '{database}.{table}'; make another one of it by CREATE TEMPORARY TABLE ... AS SELECT"
        ))),
        None => Ok(()),
    }
}

/// Finds the table that a statement names, which must not be a view, and its database.
pub(super) async fn table_named(session: &Session, name: &Name) -> Result<(String, Arc<Table>)> {
    let (database, table) = qualified(session, name)?;
    refuse_virtual(session, &database).await?;
    let state = session.temporaries.over(session.engine.catalog.refresh().await?);
    let found = state.table(&database, &table).cloned().ok_or_else(|| state.no_table(&database, &table))?;
    if found.as_view().is_some() {
        let message = format!("'{database}.{table}' is a view, expected a table");
        return Err(EngineError::new(ErrorKind::WrongObject, message));
    }
    Ok((database, found))
}

/// Finds the table over files that a statement names, and its database.
pub(super) async fn external(session: &Session, name: &Name) -> Result<(String, Arc<Table>, ExternalTable)> {
    let (database, found) = table_named(session, name).await?;
    match found.as_external().cloned() {
        Some(external) => Ok((database, found, external)),
        None => {
            let message = format!("'{database}.{}' is a native table, expected one over files", found.name);
            Err(EngineError::new(ErrorKind::WrongObject, message))
        }
    }
}
