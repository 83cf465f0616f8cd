//! Finds the tables of a query: turns names, paths and table functions into tables that DataFusion can scan.

mod instant;
mod view;

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, CatalogProviderList, SchemaProvider, TableFunctionArgs, TableProvider};
use datafusion::common::Column;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};
use dipper_base::names::{CATALOG, DEFAULT_DATABASE};
use dipper_dialect::error::SqlError;
use dipper_dialect::statement::{Name, Properties, QueryText};
pub(crate) use dipper_exec::stored::no_column;
use dipper_lake::catalogs::iceberg::about::About;
use dipper_lake::files::{self, PATH_FUNCTIONS, define};
use dipper_sql::charter::session::{ResolvedTable, Schemas, TableRef, TableVersion};
use dipper_sql::charter::table_refs;
use dipper_store::catalog::access::Privileges;
use dipper_store::catalog::{CatalogState, Table, TableDef};

use crate::access::{self, Object};
use crate::catalogs::{self, Place};
use crate::context::QueryContext;
use crate::error::{EngineError, ErrorKind, Result};
use crate::info_schema::functions;
use crate::load::body_table;

/// Whether a database of this name exists: one of the catalog, `default`, or a virtual one.
pub(crate) fn database_exists(state: &CatalogState, name: &str) -> bool {
    state.database(name).is_some() || name == DEFAULT_DATABASE || crate::info_schema::is_virtual(state, name)
}

/// Schema in which the planner knows tables that are paths or calls of table functions.
pub(crate) const FILES_SCHEMA: &str = "files";

/// Doris's table function `numbers('number' = 'n')`.
const NUMBERS: &str = "numbers";

/// Makes a table of one column `number` with the values 0 to n - 1; with `const_value`, n times that value.
fn numbers(context: &QueryContext, properties: &Properties) -> Result<Arc<dyn TableProvider>> {
    let (mut count, mut value) = (None, None);
    for (key, text) in properties {
        let place = match key.to_ascii_lowercase().as_str() {
            "number" => &mut count,
            "const_value" => &mut value,
            _ => return Err(EngineError::invalid(format!("{NUMBERS}(...): option '{key}' is not known"))),
        };
        let number = text.trim().parse::<i64>().ok().filter(|n| *n >= 0);
        *place = Some(number.ok_or_else(|| {
            EngineError::invalid(format!("{NUMBERS}(...): '{key}': expected a number from 0, found '{text}'"))
        })?);
    }
    let Some(count) = count else {
        return Err(EngineError::invalid(format!("{NUMBERS}(...): expected 'number' = 'how many'")));
    };
    let series = context.engine.template.table_functions().get("generate_series").map(Arc::clone);
    let series = series.ok_or_else(|| EngineError::new(ErrorKind::Internal, "no generate_series"))?;
    let ends = [lit(0_i64), lit(count - 1)];
    let arguments = TableFunctionArgs::new(&ends, &context.engine.template);
    let rows = series.create_table_provider_with_args(arguments)?;
    let column = rows.schema().field(0).name().clone();
    let number = value.map_or_else(|| Expr::Column(Column::from_name(column)), lit);
    let plan = LogicalPlanBuilder::scan(NUMBERS, provider_as_source(rows), None)?.project([number.alias("number")])?;
    Ok(Arc::new(ViewTable::new(plan.build()?, None)))
}

/// A table of a query, or the error for it.
#[derive(Debug)]
enum Found {
    Table { catalog: String, database: String, table: String, provider: Arc<dyn TableProvider> },
    Missing(EngineError),
}

impl Found {
    /// Makes an entry for a table that has no name in a catalog. `table` is the name under which it is registered.
    fn unnamed(table: String, provider: Arc<dyn TableProvider>) -> Self {
        Found::Table { catalog: CATALOG.into(), database: FILES_SCHEMA.into(), table, provider }
    }
}

/// The tables that a query names.
#[derive(Debug, Default)]
pub(crate) struct TableSet {
    found: Vec<(TableRef, Found)>,
}

impl TableSet {
    /// Number of columns of all tables together.
    pub(crate) fn columns(&self) -> usize {
        let widths = self.found.iter().map(|(_, found)| match found {
            Found::Table { provider, .. } => provider.schema().fields().len(),
            Found::Missing(_) => 0,
        });
        widths.sum()
    }

    /// Finds every table of the query. A name without table is kept as an error, which counts only if the name is not
    /// that of a common table expression.
    pub(crate) async fn load(context: &Arc<QueryContext>, query: &QueryText) -> Result<Self> {
        let mut set = TableSet::default();
        for (i, reference) in table_refs(query).into_iter().enumerate() {
            let found = match &reference {
                TableRef::Named { name, version, partitions, .. } => {
                    named(context, name, version.as_ref(), partitions).await?
                }
                TableRef::Path(path) => {
                    outside(context, path)?;
                    let provider = files::from_path(&context.read(), path).await?;
                    Found::unnamed(path.clone(), provider)
                }
                TableRef::Function { name, properties, arguments } if PATH_FUNCTIONS.contains(&name.as_str()) => {
                    if let Some(argument) = arguments.first() {
                        return Err(EngineError::invalid(format!(
                            "{name}(...): '{argument}': expected 'key' = 'value'"
                        )));
                    }
                    outside(context, name)?;
                    let provider = files::from_function(&context.read(), name, properties).await?;
                    Found::unnamed(format!("{name}#{i}"), provider)
                }
                TableRef::Function { name, properties, .. } if name == body_table::FUNCTION => {
                    let Some(body) = &context.body else {
                        return Err(EngineError::invalid(format!(
                            "{name}(...) reads the body of PUT /api/_http_stream"
                        )));
                    };
                    let provider = body.provider(properties).await?;
                    Found::unnamed(format!("{name}#{i}"), provider)
                }
                TableRef::Function { name, properties, .. } if name == NUMBERS => {
                    let provider = numbers(context, properties)?;
                    Found::unnamed(format!("{name}#{i}"), provider)
                }
                TableRef::Function { name, properties, arguments } if functions::is_one(name) => {
                    if let Some(argument) = arguments.first() {
                        return Err(EngineError::invalid(format!(
                            "{name}(...): '{argument}': expected 'key' = 'value'"
                        )));
                    }
                    let provider = functions::provider(context, name, properties).await?;
                    Found::unnamed(format!("{name}#{i}"), provider)
                }
                TableRef::Function { name, properties, .. } if name == ICEBERG_META => {
                    match named(context, &about(properties)?, None, &[]).await? {
                        Found::Missing(e) => return Err(e),
                        Found::Table { provider, .. } => Found::unnamed(format!("{name}#{i}"), provider),
                    }
                }
                TableRef::Function { name, .. } => {
                    match REFUSED_FUNCTIONS.iter().find(|(refused, _)| refused == name) {
                        Some((_, way)) => {
                            return Err(EngineError::unsupported(format!("{name}(...) is not supported; {way}")));
                        }
                        // DataFusion's own table functions, such as generate_series; the planner finds them.
                        None => continue,
                    }
                }
            };
            set.found.push((reference, found));
        }
        Ok(set)
    }

    /// Makes the set of a query that reads only one provider, under the name `table`.
    ///
    /// # Errors
    /// `Unsupported` if the query names another table.
    pub(crate) fn only(query: &QueryText, table: &str, provider: Arc<dyn TableProvider>) -> Result<Self> {
        let mut set = TableSet::default();
        for reference in table_refs(query) {
            match &reference {
                TableRef::Named { name, .. } if name.0.len() == 1 && name.object() == table => {}
                _ => return Err(EngineError::unsupported("an expression of a load reads the body's columns only")),
            }
            let provider = Arc::clone(&provider);
            set.found.push((reference, Found::unnamed(table.into(), provider)));
        }
        Ok(set)
    }

    /// Makes the set of a query over one table of the catalog, with this provider in its place.
    pub(crate) fn one(query: &QueryText, database: &str, table: &str, provider: Arc<dyn TableProvider>) -> Self {
        let found = |reference| {
            let provider = Arc::clone(&provider);
            (
                reference,
                Found::Table { catalog: CATALOG.into(), database: database.into(), table: table.into(), provider },
            )
        };
        TableSet { found: table_refs(query).into_iter().map(found).collect() }
    }

    /// Finds the native table that a name of the query means; `None` if it means something else.
    pub(crate) fn native<'a>(&self, context: &'a QueryContext, name: &Name) -> Option<&'a Arc<Table>> {
        let is_it = |reference: &TableRef| matches!(reference, TableRef::Named { name: other, .. } if other == name);
        let (_, found) = self.found.iter().find(|(reference, _)| is_it(reference))?;
        let Found::Table { catalog, database, table, .. } = found else { return None };
        // A selection of partitions is registered under a name of its own, which begins with that of the table.
        let table = table.split('\u{1}').next().filter(|_| catalogs::is_internal(catalog))?;
        context.catalog.table(database, table).filter(|table| table.is_native())
    }

    /// Returns the tables in the form in which DataFusion resolves names.
    pub(crate) fn catalog_list(&self) -> Arc<dyn CatalogProviderList> {
        let mut catalogs: HashMap<String, Databases> = HashMap::new();
        for (_, found) in &self.found {
            if let Found::Table { catalog, database, table, provider } = found {
                let databases = &mut catalogs.entry(catalog.clone()).or_default().databases;
                let database = Arc::make_mut(databases.entry(database.clone()).or_default());
                database.tables.insert(table.clone(), Arc::clone(provider));
            }
        }
        let catalogs = catalogs.into_iter().map(|(name, databases)| (name, Arc::new(databases))).collect();
        Arc::new(Catalogs { catalogs })
    }
}

impl Schemas for TableSet {
    fn width(&self) -> usize {
        self.columns()
    }

    fn resolve(&self, table: &TableRef) -> std::result::Result<Option<ResolvedTable>, SqlError> {
        let is_part = match table {
            TableRef::Named { version, partitions, .. } => version.is_some() || !partitions.is_empty(),
            _ => false,
        };
        match self.found.iter().find(|(reference, _)| reference == table).map(|(_, found)| found) {
            None => Ok(None),
            Some(Found::Table { catalog, database, table, provider }) => Ok(Some(ResolvedTable {
                columns: provider.schema().fields().iter().map(|f| f.name().clone()).collect(),
                // Names stay as written, so that `t.*` finds its table. Paths, older states and partitions of tables
                // get the name under which they are registered.
                reference: (database == FILES_SCHEMA || is_part)
                    .then(|| vec![catalog.clone(), database.clone(), table.clone()]),
                place: (database != FILES_SCHEMA).then(|| [catalog.clone(), database.clone()]),
            })),
            Some(Found::Missing(_)) if matches!(table, TableRef::Named { maybe_cte: true, .. }) => Ok(None),
            Some(Found::Missing(e)) => {
                Err(SqlError { code: e.code, sqlstate: e.sqlstate, message: e.message.clone(), position: None })
            }
        }
    }
}

/// Table functions of Doris that are not here, and what to do instead.
const REFUSED_FUNCTIONS: [(&str, &str); 5] = [
    ("query", "read the other server with a client of its own, and write the rows by Stream Load"),
    ("http", "fetch the file, and write its rows by Stream Load"),
    ("parquet_meta", "DESC FUNCTION local(...) or s3(...) has the columns of a file"),
    ("hudi_meta", "there are no tables of Hudi"),
    ("group_commit", "the rows of a group are in their table when the group is committed"),
];

/// Doris's table function for metadata of an Iceberg table.
const ICEBERG_META: &str = "iceberg_meta";

/// Returns the table name that `iceberg_meta('table' = 'catalog.database.table', 'query_type' = 'snapshots')` means.
fn about(properties: &Properties) -> Result<Name> {
    let known = |key: &str| ["table", "query_type"].iter().any(|known| key.eq_ignore_ascii_case(known));
    if let Some((key, _)) = properties.iter().find(|(key, _)| !known(key)) {
        return Err(EngineError::invalid(format!("{ICEBERG_META}(...): option '{key}' is not known")));
    }
    let value = |wanted: &str| {
        let found = properties.iter().find(|(key, _)| key.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    };
    let (Some(table), Some(kind)) = (value("table"), value("query_type")) else {
        return Err(EngineError::invalid(format!(
            "{ICEBERG_META}(...): expected 'table' = 'catalog.database.table' and 'query_type' = 'snapshots'"
        )));
    };
    let mut parts: Vec<String> = table.split('.').map(str::to_string).collect();
    if parts.len() != 3 {
        return Err(EngineError::invalid(format!(
            "{ICEBERG_META}(...): 'table' = '{table}': expected catalog.database.table"
        )));
    }
    parts[2] = format!("{}${kind}", parts[2]);
    if About::of(&parts[2]).is_none() {
        return Err(EngineError::unsupported(format!(
            "{ICEBERG_META}(...): 'query_type' = '{kind}': snapshots, history and refs are told"
        )));
    }
    Ok(Name(parts))
}

async fn named(
    context: &Arc<QueryContext>,
    name: &Name,
    version: Option<&TableVersion>,
    partitions: &[String],
) -> Result<Found> {
    let (place, table) = match context.place(name) {
        Ok(place) => (place, name.object().to_string()),
        Err(e) => return Ok(Found::Missing(e)),
    };
    // The planner looks names up as they are written.
    let catalog = name.catalog().or(context.selected_catalog.as_deref()).unwrap_or(CATALOG).to_string();
    match place {
        Place::Internal { .. } if version.is_some() => Ok(Found::Missing(EngineError::unsupported(format!(
            "'{name}' {}: older states, branches and tags are read of tables of Iceberg",
            version.map(ToString::to_string).unwrap_or_default()
        )))),
        Place::External { .. } if !partitions.is_empty() => Ok(Found::Missing(only_native(name))),
        Place::Internal { database } => {
            if let Some(database) = &database
                && let Err(e) = may_read(context, database, &table)
            {
                return Ok(Found::Missing(e));
            }
            let provider = match &database {
                Some(database) if !partitions.is_empty() => match context.catalog.table(database, &table) {
                    Some(found) if found.is_native() => {
                        Some(crate::native::provider(context, found, partitions).await?)
                    }
                    None if !crate::info_schema::is_virtual(&context.catalog, database) => None,
                    _ => return Ok(Found::Missing(only_native(name))),
                },
                Some(database) if crate::info_schema::is_virtual(&context.catalog, database) => {
                    let external = match catalogs::is_internal(&catalog) {
                        true => Ok(None),
                        // The rights of the creator of a view were checked.
                        false if context.is_in_view() => catalogs::named(&context.catalog, &catalog).map(Some),
                        false => catalogs::seen(&context.catalog, &context.rights, &catalog).map(Some),
                    };
                    match external {
                        Ok(external) => crate::info_schema::table(context, external, database, &table),
                        Err(e) => return Ok(Found::Missing(e)),
                    }
                }
                Some(database) => find(context, database, &table).await?,
                None => None,
            };
            // A selection of partitions, and another one in the same statement, are two tables for the planner.
            let part = |table: String| match partitions {
                [] => table,
                some => format!("{table}\u{1}PARTITION({})", some.join(",")),
            };
            Ok(match (database, provider) {
                (Some(database), Some(provider)) => Found::Table { catalog, database, table: part(table), provider },
                (database, _) => Found::Missing(no_such_table(context, database.as_deref(), &table)),
            })
        }
        Place::External { database: None, .. } => Ok(Found::Missing(catalogs::no_database_selected(name))),
        // An error counts only if the name is not that of a common table expression.
        Place::External { catalog: external, database: Some(database) } => {
            // A user who may read a table may read its metadata.
            let read = About::of(&table).map_or(table.as_str(), |(base, _)| base);
            if !context.is_in_view()
                && let Err(e) = access::check(
                    &context.rights,
                    &context.catalog,
                    Privileges::SELECT,
                    &Object::External(external.name.clone(), database.clone(), Some(read.to_string())),
                )
            {
                return Ok(Found::Missing(e));
            }
            // Two states of a table in one statement are two tables for the planner.
            let state = version.map(ToString::to_string);
            let at = instant::at(context, version).await?;
            Ok(match dipper_lake::catalogs::provider(&context.read(), &external, (&database, &table), &at).await {
                Ok(provider) if state.is_some() => {
                    let table = format!("{table}\u{1}{}", state.unwrap_or_default());
                    Found::Table { catalog, database, table, provider }
                }
                Ok(provider) => Found::Table { catalog, database, table, provider },
                Err(e) => Found::Missing(e),
            })
        }
    }
}

fn only_native(name: &Name) -> EngineError {
    EngineError::unsupported(format!(
        "'{name}' PARTITION (...) in FROM: it is for native tables; filter by the partition's columns"
    ))
}

/// Refuses files and addresses to users without the right to them. In views nothing is checked, because the rights of
/// the creator were.
fn outside(context: &QueryContext, what: &str) -> Result<()> {
    if context.is_in_view() {
        return Ok(());
    }
    access::check_outside(&context.rights, what)
}

/// Refuses a table to users who may not read it, before they learn whether it exists.
fn may_read(context: &QueryContext, database: &str, table: &str) -> Result<()> {
    if context.is_in_view() || crate::info_schema::is_virtual(&context.catalog, database) {
        return Ok(());
    }
    let object = Object::Table(database.to_string(), table.to_string());
    if context.catalog.table(database, table).is_none() {
        // A user who sees the database may learn that the table does not exist.
        let around = Object::Database(database.to_string());
        return match access::sees(&context.rights, &context.catalog, &around) {
            true => Ok(()),
            false => Err(access::denied(&context.rights, "SELECT", &object)),
        };
    }
    access::check(&context.rights, &context.catalog, Privileges::SELECT, &object)
}

/// Returns the provider of a table or view of the catalog, or of a virtual table; `None` if there is none of this name.
pub(crate) async fn find(
    context: &Arc<QueryContext>,
    database: &str,
    table: &str,
) -> Result<Option<Arc<dyn TableProvider>>> {
    if crate::info_schema::is_virtual(&context.catalog, database) {
        return Ok(crate::info_schema::table(context, None, database, table));
    }
    let Some(found) = context.catalog.table(database, table).cloned() else { return Ok(None) };
    match &found.def {
        TableDef::External(external) => Ok(Some(define::provider(&context.read(), &found.name, external).await?)),
        TableDef::View(definition) => Ok(Some(view::provider(context, database, &found.name, definition).await?)),
        TableDef::Native => Ok(Some(crate::native::provider(context, &found, &[]).await?)),
    }
}

/// Makes the error for a missing table, with a similar name if there is one.
pub(crate) fn no_such_table(context: &QueryContext, database: Option<&str>, table: &str) -> EngineError {
    let Some(database) = database.or(context.database.as_deref()) else {
        return EngineError::new(
            ErrorKind::NoDatabaseSelected,
            format!("no database selected for table '{table}'; say USE database, or write database.{table}"),
        );
    };
    if !database_exists(&context.catalog, database) {
        return context.catalog.no_database(database).into();
    }
    let mut message = format!("Table '{database}.{table}' doesn't exist");
    let seen = context.catalog.database(database).into_iter().flat_map(|d| {
        let rights = &context.rights;
        d.tables.values().filter(move |t| !t.is_temporary() && rights.sees_table(d.id, t.id)).map(|t| t.name.as_str())
    });
    if let Some(near) = dipper_base::near::closest(table, seen) {
        message.push_str(&format!("; did you mean '{near}'?"));
    }
    EngineError::new(ErrorKind::NoTable, message)
}

#[derive(Debug, Default, Clone)]
struct OneDatabase {
    tables: HashMap<String, Arc<dyn TableProvider>>,
}

#[async_trait]
impl SchemaProvider for OneDatabase {
    fn table_names(&self) -> Vec<String> {
        self.tables.keys().cloned().collect()
    }

    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        Ok(self.tables.get(name).cloned())
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.contains_key(name)
    }
}

#[derive(Debug, Default)]
struct Databases {
    databases: HashMap<String, Arc<OneDatabase>>,
}

impl CatalogProvider for Databases {
    fn schema_names(&self) -> Vec<String> {
        self.databases.keys().cloned().collect()
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        self.databases.get(name).map(|d| Arc::clone(d) as _)
    }
}

#[derive(Debug)]
struct Catalogs {
    catalogs: HashMap<String, Arc<Databases>>,
}

impl CatalogProviderList for Catalogs {
    fn register_catalog(&self, _name: String, _catalog: Arc<dyn CatalogProvider>) -> Option<Arc<dyn CatalogProvider>> {
        None
    }

    fn catalog_names(&self) -> Vec<String> {
        self.catalogs.keys().cloned().collect()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        self.catalogs.get(name).map(|c| Arc::clone(c) as _)
    }
}
