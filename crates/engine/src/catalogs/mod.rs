//! External catalogs: databases and tables that others keep, under three-part names.
//!
//! A definition of the catalog chain becomes a [`Connector`] when a statement first needs it; the connector is kept until
//! the definition changes. What is in the catalog is asked of the other side by each statement.

pub(crate) mod hive;
pub(crate) mod iceberg;
pub(crate) mod properties;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use dipper_iceberg::metadata::TableMetadata;
use dipper_sql::charter::session::TableVersion;
use dipper_sql::statement::Name;
use dipper_store::catalog::access::Rights;
use dipper_store::catalog::{CatalogState, ExternalCatalog, INTERNAL_CATALOGS, TableId};
use futures::FutureExt;
use parking_lot::Mutex;

use crate::access::{self, Object};
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};
use crate::files::stores::{self, store_properties};
use crate::info_schema::{self, columns::ColumnInfo};
use crate::query::{CATALOG, QueryContext, on_cpu};
use crate::session::Session;
use hive::{HiveCatalog, HiveTable};
use iceberg::about::{About, Part};
use iceberg::{IcebergCatalog, Places};

/// Whether `name` means the catalog that dipper keeps itself.
pub(crate) fn is_internal(name: &str) -> bool {
    INTERNAL_CATALOGS.iter().any(|own| own.eq_ignore_ascii_case(name))
}

/// The external catalogs that this process has connected to.
#[derive(Debug, Default)]
pub(crate) struct ExternalCatalogs {
    connected: Mutex<HashMap<TableId, (u64, Arc<Connector>)>>,
}

/// The other side of an external catalog.
#[derive(Debug)]
pub(crate) enum Connector {
    /// A Hive metastore.
    Hive(HiveCatalog),
    /// A directory of Iceberg tables.
    Iceberg(IcebergCatalog),
}

/// A table of an external catalog.
#[derive(Debug, Clone)]
pub(crate) enum ExternalObject {
    /// A table of a Hive metastore.
    Hive(Arc<HiveTable>),
    /// An Iceberg table, of whatever catalog.
    Iceberg(Arc<TableMetadata>),
}

impl ExternalObject {
    /// Its columns, as DESCRIBE tells them.
    pub(crate) fn columns(&self) -> Result<Vec<ColumnInfo>> {
        match self {
            ExternalObject::Hive(table) => info_schema::columns::of_external(&table.definition),
            ExternalObject::Iceberg(metadata) => iceberg::columns(metadata),
        }
    }
}

/// Where a name leads.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// To dipper's own catalog, or a virtual database.
    Internal {
        /// Database; `None` where the name has none and none is selected.
        database: Option<String>,
    },
    /// To an external catalog.
    External {
        catalog: Arc<ExternalCatalog>,
        /// As of `Internal`.
        database: Option<String>,
    },
}

/// Where `name` leads in a session that has selected `catalog` (`None`: dipper's own) and `database`.
///
/// # Errors
/// There is no such catalog.
pub(crate) fn place(state: &CatalogState, catalog: Option<&str>, database: Option<&str>, name: &Name) -> Result<Place> {
    let selected = if name.catalog().is_some() { None } else { database };
    let database = name.database().or(selected).map(str::to_string);
    let external = name.catalog().or(catalog).filter(|c| !is_internal(c));
    match external {
        // Every catalog has the virtual databases, whose tables dipper makes.
        Some(_) if database.as_deref().is_some_and(info_schema::is_everywhere) => Ok(Place::Internal { database }),
        Some(name) => Ok(Place::External { catalog: named(state, name)?, database }),
        None => Ok(Place::Internal { database }),
    }
}

/// The definition of an external catalog.
///
/// # Errors
/// There is no such catalog.
pub(crate) fn named(state: &CatalogState, name: &str) -> Result<Arc<ExternalCatalog>> {
    Ok(Arc::clone(state.external_catalog(name).ok_or_else(|| state.no_catalog(name))?))
}

/// The definition of an external catalog, for who may see something of it.
///
/// # Errors
/// There is no such catalog; who may see nothing of it does not learn either whether it is there.
pub(crate) fn seen(state: &CatalogState, rights: &Rights, name: &str) -> Result<Arc<ExternalCatalog>> {
    let object = Object::Catalog(name.to_string());
    match access::sees(rights, state, &object) {
        true => named(state, name),
        false => Err(access::denied(rights, "any privilege", &object)),
    }
}

/// The database that a name without one is missing.
pub(crate) fn no_database_selected(name: &Name) -> EngineError {
    EngineError::new(
        ErrorKind::NoDatabaseSelected,
        format!("no database selected for '{name}'; say USE database, or write database.{name}"),
    )
}

impl Session {
    /// As [`place`], for this session, on the newest state of the catalog.
    pub(crate) async fn place(&self, name: &Name) -> Result<Place> {
        let state = self.engine.catalog.refresh().await?;
        place(&state, self.catalog.as_deref(), self.database.as_deref(), name)
    }

    /// Name of the selected catalog.
    pub fn catalog(&self) -> &str {
        self.catalog.as_deref().unwrap_or(CATALOG)
    }
}

impl QueryContext {
    /// As [`place`], for the session of this query.
    pub(crate) fn place(&self, name: &Name) -> Result<Place> {
        place(&self.catalog, self.selected_catalog.as_deref(), self.database.as_deref(), name)
    }

    /// The connector of an external catalog.
    pub(crate) fn connector(&self, catalog: &ExternalCatalog) -> Result<Arc<Connector>> {
        self.engine.external.connector(catalog)
    }
}

/// The provider of a table of an external catalog.
///
/// # Errors
/// There is no such table, the other side does not answer, or the table is of a kind that is not read.
pub(crate) async fn provider(
    context: &Arc<QueryContext>,
    catalog: &ExternalCatalog,
    (database, table): (&str, &str),
    version: Option<&TableVersion>,
) -> Result<Arc<dyn TableProvider>> {
    let connector = context.connector(catalog)?;
    if let Some((base, about)) = About::of(table) {
        if version.is_some() {
            return Err(EngineError::unsupported(format!(
                "'{database}.{table}' tells of all states of the table; leave out FOR VERSION AS OF or FOR TIMESTAMP AS OF"
            )));
        }
        return match find(&context.engine, catalog, database, base).await? {
            ExternalObject::Hive(_) => {
                Err(EngineError::unsupported(format!("'{database}.{base}' is a table of Hive, which has no '{table}'")))
            }
            ExternalObject::Iceberg(metadata) => about.provider(context, &metadata),
        };
    }
    match find(&context.engine, catalog, database, table).await? {
        ExternalObject::Hive(_) if version.is_some() => Err(EngineError::unsupported(format!(
            "'{database}.{table}' is a table of Hive, which keeps no older states; FOR VERSION AS OF is for tables of Iceberg"
        ))),
        ExternalObject::Hive(found) => {
            let found = Arc::new(found.reached_by(&catalog.properties));
            hive::provider::provider(context, connector, (database, table), found).await
        }
        ExternalObject::Iceberg(metadata) => {
            let places = context.engine.places.of(&catalog.properties);
            iceberg::provider::provider(context, places, metadata, &iceberg::at(context, version).await?)
        }
    }
}

/// A table of an external catalog.
///
/// # Errors
/// As of [`provider`].
pub(crate) async fn find(
    engine: &Engine,
    catalog: &ExternalCatalog,
    database: &str,
    table: &str,
) -> Result<ExternalObject> {
    let connector = engine.external.connector(catalog)?;
    let places = engine.places.of(&catalog.properties);
    let (catalog, database, table) = (catalog.name.clone(), database.to_string(), table.to_string());
    on_cpu(engine.io(), async move {
        match connector.table(&places, &database, &table).await? {
            Some(found) => Ok(found),
            None => Err(connector.no_table(&places, &catalog, &database, &table).await),
        }
    })
    .await
}

/// Passes when the catalog has the database.
///
/// # Errors
/// It has not, or the other side does not answer.
pub(crate) async fn check_database(engine: &Engine, catalog: &ExternalCatalog, database: &str) -> Result<()> {
    let connector = engine.external.connector(catalog)?;
    let places = engine.places.of(&catalog.properties);
    let (catalog, database) = (catalog.name.clone(), database.to_string());
    on_cpu(engine.io(), async move {
        match connector.has_database(&places, &database).await? {
            true => Ok(()),
            false => Err(connector.no_database(&places, &catalog, &database).await),
        }
    })
    .await
}

/// Names of the databases of a catalog, in order.
///
/// # Errors
/// The other side does not answer.
pub(crate) async fn databases(engine: &Engine, catalog: &ExternalCatalog) -> Result<Vec<String>> {
    let connector = engine.external.connector(catalog)?;
    let places = engine.places.of(&catalog.properties);
    on_cpu(engine.io(), async move { connector.databases(&places).await }).await
}

/// Names of the tables of a database that is there, in order, and whether each is a view.
///
/// # Errors
/// The other side does not answer.
pub(crate) async fn tables(engine: &Engine, catalog: &ExternalCatalog, database: &str) -> Result<Vec<(String, bool)>> {
    let connector = engine.external.connector(catalog)?;
    let places = engine.places.of(&catalog.properties);
    let database = database.to_string();
    on_cpu(engine.io(), async move { connector.tables(&places, &database).await }).await
}

/// The partitions of an Iceberg table; `None` where it is not partitioned.
///
/// # Errors
/// Metadata that cannot be read.
pub(crate) async fn partitions(
    engine: &Engine,
    catalog: &ExternalCatalog,
    metadata: Arc<TableMetadata>,
) -> Result<Option<Vec<Part>>> {
    let places = engine.places.of(&catalog.properties);
    on_cpu(engine.io(), async move { iceberg::about::partitions(&places, &metadata).await }).await
}

/// Checks the properties of a catalog without connecting.
///
/// # Errors
/// Properties that are missing, wrong or not supported.
pub(crate) fn check(properties: &BTreeMap<String, String>) -> Result<()> {
    stores::check(&store_properties(properties))?;
    connect(properties).map(|_| ())
}

fn connect(properties: &BTreeMap<String, String>) -> Result<Connector> {
    match properties.get("type").map(|t| t.to_ascii_lowercase()).as_deref() {
        Some("hive" | "hms") => {
            let kind = properties::first(properties, &["hive.metastore.type"]);
            match kind.map(str::to_ascii_lowercase).as_deref() {
                None | Some("hive" | "hms") => Ok(Connector::Hive(HiveCatalog::new(properties)?)),
                Some(other) => Err(EngineError::unsupported(format!(
                    "'hive.metastore.type' = '{other}' is not supported; 'hive' is"
                ))),
            }
        }
        Some("iceberg") => match properties::first(properties, &["iceberg.catalog.type"]) {
            // A metastore tells of each table where its metadata is.
            Some(kind) if ["hive", "hms"].iter().any(|k| k.eq_ignore_ascii_case(kind)) => {
                Ok(Connector::Hive(HiveCatalog::new(properties)?))
            }
            _ => Ok(Connector::Iceberg(IcebergCatalog::new(properties)?)),
        },
        Some(other) => Err(EngineError::unsupported(format!(
            "catalogs of type '{other}' are not supported; 'hive' ('hms') and 'iceberg' are"
        ))),
        None => Err(EngineError::invalid("a catalog needs a 'type' in PROPERTIES: 'hive' ('hms') or 'iceberg'")),
    }
}

impl ExternalCatalogs {
    /// The connector of a catalog, made anew where its definition has changed.
    ///
    /// # Errors
    /// Properties that this version does not accept.
    pub(crate) fn connector(&self, catalog: &ExternalCatalog) -> Result<Arc<Connector>> {
        let mut connected = self.connected.lock();
        if let Some((revision, connector)) = connected.get(&catalog.id)
            && *revision == catalog.revision
        {
            return Ok(Arc::clone(connector));
        }
        let made = connect(&catalog.properties)
            .map_err(|e| EngineError { message: format!("catalog '{}': {}", catalog.name, e.message), ..e })?;
        let made = Arc::new(made);
        connected.insert(catalog.id, (catalog.revision, Arc::clone(&made)));
        Ok(made)
    }

    /// Forgets what all of them keep between statements.
    pub(crate) fn forget(&self) {
        self.connected.lock().values().for_each(|(_, connector)| connector.forget(None, None));
    }
}

impl Connector {
    /// Names of the databases, in order.
    pub(crate) async fn databases(&self, places: &Places) -> Result<Vec<String>> {
        let mut names = match self {
            Connector::Hive(hive) => hive.databases().await?,
            Connector::Iceberg(iceberg) => iceberg.databases(places).await?,
        };
        names.sort();
        Ok(names)
    }

    /// Whether there is a database of this name.
    pub(crate) async fn has_database(&self, places: &Places, name: &str) -> Result<bool> {
        match self {
            Connector::Hive(hive) => hive.has_database(name).await,
            Connector::Iceberg(iceberg) => iceberg.has_database(places, name).await,
        }
    }

    /// Names of the tables of a database, in order, and whether each is a view.
    pub(crate) async fn tables(&self, places: &Places, database: &str) -> Result<Vec<(String, bool)>> {
        match self {
            Connector::Hive(hive) => hive.tables(database).await,
            Connector::Iceberg(iceberg) => iceberg.tables(places, database).await,
        }
    }

    /// A table; `None` when there is none of this name.
    ///
    /// # Errors
    /// The other side does not answer, or the table is of a kind that is not read.
    pub(crate) async fn table(&self, places: &Places, database: &str, table: &str) -> Result<Option<ExternalObject>> {
        match self {
            Connector::Hive(hive) => match hive.raw(database, table).await? {
                None => Ok(None),
                Some(raw) if hive::iceberg_metadata(&raw).is_some() => {
                    let location = hive::iceberg_metadata(&raw).unwrap_or_default();
                    let metadata = places.sound(|| TableMetadata::load(places, &location).boxed()).await?;
                    Ok(Some(ExternalObject::Iceberg(Arc::new(metadata))))
                }
                Some(raw) => {
                    let found = hive::table(&format!("{database}.{table}"), &raw)?;
                    Ok(Some(ExternalObject::Hive(Arc::new(found))))
                }
            },
            Connector::Iceberg(iceberg) => {
                Ok(iceberg.table(places, database, table).await?.map(|m| ExternalObject::Iceberg(Arc::new(m))))
            }
        }
    }

    /// Forgets what is kept between statements, for one database or table or all.
    pub(crate) fn forget(&self, database: Option<&str>, table: Option<&str>) {
        match self {
            Connector::Hive(hive) => {
                hive.forget(|d, t| database.is_none_or(|only| only == d) && table.is_none_or(|only| only == t));
            }
            Connector::Iceberg(_) => {}
        }
    }

    /// The error for a table that is not there, with the nearest name.
    pub(crate) async fn no_table(&self, places: &Places, catalog: &str, database: &str, table: &str) -> EngineError {
        let names: Vec<String> = self
            .tables(places, database)
            .await
            .map(|all| all.into_iter().map(|(name, _)| name).collect())
            .unwrap_or_default();
        if names.is_empty() && matches!(self.has_database(places, database).await, Ok(false)) {
            return self.no_database(places, catalog, database).await;
        }
        let mut message = format!("Table '{catalog}.{database}.{table}' doesn't exist");
        if let Some(near) = crate::near::closest(table, names.iter().map(String::as_str)) {
            message.push_str(&format!("; did you mean '{near}'?"));
        }
        EngineError::new(ErrorKind::NoTable, message)
    }

    /// The error for a database that is not there, with the nearest name.
    pub(crate) async fn no_database(&self, places: &Places, catalog: &str, database: &str) -> EngineError {
        let names = self.databases(places).await.unwrap_or_default();
        let mut message = format!("database \"{catalog}.{database}\" does not exist");
        if let Some(near) = crate::near::closest(database, names.iter().map(String::as_str)) {
            message.push_str(&format!("; did you mean \"{near}\"?"));
        }
        EngineError::new(ErrorKind::NoDatabase, message)
    }
}
