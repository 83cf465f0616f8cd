//! External catalogs: databases and tables that other systems manage, under three-part names.
//!
//! A catalog definition of the catalog chain becomes a [`Connector`] when a statement first needs it; the connector is
//! kept until the definition changes. Each statement asks the other system which databases and tables the catalog has.

pub mod hive;
pub mod iceberg;
pub mod properties;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use datafusion::catalog::TableProvider;
use dipper_exec::on_cpu::on_cpu;
use dipper_iceberg::metadata::{At, TableMetadata};
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_node::files::stores::{self, store_properties};
use dipper_store::catalog::{ExternalCatalog, TableId};
use futures::FutureExt;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use hive::{HiveCatalog, HiveTable};
use iceberg::about::{About, Part};
use iceberg::{IcebergCatalog, Places};

use crate::columns::{self, ColumnInfo};
use crate::read::ReadContext;

/// External catalogs of a process, and their connectors.
pub struct Lake {
    /// Stores in which tables of Iceberg may be.
    pub places: Places,
    /// Threads that wait for the other systems.
    pub io: Handle,
    connected: Mutex<HashMap<TableId, (u64, Arc<Connector>)>>,
}

/// A connection to the system behind an external catalog.
#[derive(Debug)]
pub enum Connector {
    /// A Hive metastore.
    Hive(HiveCatalog),
    /// A warehouse directory of Iceberg tables.
    Iceberg(IcebergCatalog),
}

/// A table of an external catalog.
#[derive(Debug, Clone)]
pub enum ExternalObject {
    /// A table of a Hive metastore.
    Hive(Arc<HiveTable>),
    /// An Iceberg table, of either kind of catalog.
    Iceberg(Arc<TableMetadata>),
}

impl ExternalObject {
    /// Returns the columns for DESCRIBE.
    pub fn columns(&self) -> Result<Vec<ColumnInfo>> {
        match self {
            ExternalObject::Hive(table) => columns::of_external(&table.definition),
            ExternalObject::Iceberg(metadata) => iceberg::columns(metadata),
        }
    }
}

/// Makes the provider of a table of an external catalog, or of a metadata table of it (`t$snapshots`).
///
/// # Errors
/// `NoTable` or `NoDatabase` if it does not exist; `Storage` if the metastore does not answer; `File` if metadata
/// cannot be read; `Unsupported` if the table is of a kind that is not supported.
pub async fn provider(
    context: &ReadContext,
    catalog: &ExternalCatalog,
    (database, table): (&str, &str),
    at: &At,
) -> Result<Arc<dyn TableProvider>> {
    let lake = &context.lake;
    let connector = lake.connector(catalog)?;
    if let Some((base, about)) = About::of(table) {
        if !matches!(at, At::Now) {
            return Err(EngineError::unsupported(format!(
                "'{database}.{table}' tells of all states of the table; leave out FOR VERSION AS OF or FOR TIMESTAMP AS OF"
            )));
        }
        return match lake.find(catalog, database, base).await? {
            ExternalObject::Hive(_) => {
                Err(EngineError::unsupported(format!("'{database}.{base}' is a table of Hive, which has no '{table}'")))
            }
            ExternalObject::Iceberg(metadata) => about.provider(context, &metadata),
        };
    }
    match lake.find(catalog, database, table).await? {
        ExternalObject::Hive(_) if !matches!(at, At::Now) => Err(EngineError::unsupported(format!(
            "'{database}.{table}' is a table of Hive, which keeps no older states; FOR VERSION AS OF is for tables of Iceberg"
        ))),
        ExternalObject::Hive(found) => {
            let found = Arc::new(found.reached_by(&catalog.properties));
            hive::provider::provider(context, connector, (database, table), found).await
        }
        ExternalObject::Iceberg(metadata) => {
            let places = lake.places.of(&catalog.properties);
            iceberg::provider::provider(context, places, metadata, at)
        }
    }
}

/// Checks the properties of a catalog without connecting.
///
/// # Errors
/// `Invalid` or `Unsupported` if properties are missing, wrong or not supported.
pub fn check(properties: &BTreeMap<String, String>) -> Result<()> {
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
            // The metastore knows the location of each table's metadata.
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

impl fmt::Debug for Lake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lake").field("connected", &self.connected).finish_non_exhaustive()
    }
}

impl Lake {
    /// Makes the state of a process that has not connected to any catalog yet.
    pub fn new(places: Places, io: Handle) -> Lake {
        Lake { places, io, connected: Mutex::default() }
    }

    /// Finds a table of an external catalog.
    ///
    /// # Errors
    /// The errors of [`provider`].
    pub async fn find(&self, catalog: &ExternalCatalog, database: &str, table: &str) -> Result<ExternalObject> {
        let connector = self.connector(catalog)?;
        let places = self.places.of(&catalog.properties);
        let (catalog, database, table) = (catalog.name.clone(), database.to_string(), table.to_string());
        on_cpu(&self.io, async move {
            match connector.table(&places, &database, &table).await? {
                Some(found) => Ok(found),
                None => Err(connector.no_table(&places, &catalog, &database, &table).await),
            }
        })
        .await
    }

    /// Fails if the catalog does not have the database.
    ///
    /// # Errors
    /// `NoDatabase` if the catalog has no such database; `Storage` if the metastore does not answer; `File` if the
    /// warehouse directory cannot be listed.
    pub async fn check_database(&self, catalog: &ExternalCatalog, database: &str) -> Result<()> {
        let connector = self.connector(catalog)?;
        let places = self.places.of(&catalog.properties);
        let (catalog, database) = (catalog.name.clone(), database.to_string());
        on_cpu(&self.io, async move {
            match connector.has_database(&places, &database).await? {
                true => Ok(()),
                false => Err(connector.no_database(&places, &catalog, &database).await),
            }
        })
        .await
    }

    /// Returns the names of the databases of a catalog, in order.
    ///
    /// # Errors
    /// `Storage` if the metastore does not answer; `File` if the warehouse directory cannot be listed.
    pub async fn databases(&self, catalog: &ExternalCatalog) -> Result<Vec<String>> {
        let connector = self.connector(catalog)?;
        let places = self.places.of(&catalog.properties);
        on_cpu(&self.io, async move { connector.databases(&places).await }).await
    }

    /// Returns the names of the tables of an existing database, in order, and whether each is a view.
    ///
    /// # Errors
    /// `Storage` if the metastore does not answer; `File` if the warehouse directory cannot be listed.
    pub async fn tables(&self, catalog: &ExternalCatalog, database: &str) -> Result<Vec<(String, bool)>> {
        let connector = self.connector(catalog)?;
        let places = self.places.of(&catalog.properties);
        let database = database.to_string();
        on_cpu(&self.io, async move { connector.tables(&places, &database).await }).await
    }

    /// Returns the partitions of an Iceberg table; `None` if it is not partitioned.
    ///
    /// # Errors
    /// `File` if the table's metadata cannot be read, `Unsupported` if they use a feature that is not supported.
    pub async fn partitions(
        &self,
        catalog: &ExternalCatalog,
        metadata: Arc<TableMetadata>,
    ) -> Result<Option<Vec<Part>>> {
        let places = self.places.of(&catalog.properties);
        on_cpu(&self.io, async move { iceberg::about::partitions(&places, &metadata).await }).await
    }

    /// Returns the connector of a catalog, a new one if its definition has changed.
    ///
    /// # Errors
    /// `Invalid` or `Unsupported` if this version does not accept the catalog's properties.
    pub fn connector(&self, catalog: &ExternalCatalog) -> Result<Arc<Connector>> {
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

    /// Clears the caches of all connectors.
    pub fn forget(&self) {
        self.connected.lock().values().for_each(|(_, connector)| connector.forget(None, None));
    }
}

impl Connector {
    /// Returns the names of the databases, in order.
    pub async fn databases(&self, places: &Places) -> Result<Vec<String>> {
        let mut names = match self {
            Connector::Hive(hive) => hive.databases().await?,
            Connector::Iceberg(iceberg) => iceberg.databases(places).await?,
        };
        names.sort();
        Ok(names)
    }

    /// Returns whether there is a database of this name.
    pub async fn has_database(&self, places: &Places, name: &str) -> Result<bool> {
        match self {
            Connector::Hive(hive) => hive.has_database(name).await,
            Connector::Iceberg(iceberg) => iceberg.has_database(places, name).await,
        }
    }

    /// Returns the names of the tables of a database, in order, and whether each is a view.
    pub async fn tables(&self, places: &Places, database: &str) -> Result<Vec<(String, bool)>> {
        match self {
            Connector::Hive(hive) => hive.tables(database).await,
            Connector::Iceberg(iceberg) => iceberg.tables(places, database).await,
        }
    }

    /// Returns a table; `None` if there is none of this name.
    ///
    /// # Errors
    /// `Storage` if the metastore does not answer; `File` if metadata cannot be read; `Unsupported` if the table is of
    /// a kind that is not supported.
    pub async fn table(&self, places: &Places, database: &str, table: &str) -> Result<Option<ExternalObject>> {
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

    /// Clears the caches for one table, one database or everything.
    pub fn forget(&self, database: Option<&str>, table: Option<&str>) {
        match self {
            Connector::Hive(hive) => {
                hive.forget(|d, t| database.is_none_or(|only| only == d) && table.is_none_or(|only| only == t));
            }
            Connector::Iceberg(_) => {}
        }
    }

    /// Makes the error for a table that does not exist, with the nearest name.
    pub async fn no_table(&self, places: &Places, catalog: &str, database: &str, table: &str) -> EngineError {
        let names: Vec<String> = self
            .tables(places, database)
            .await
            .map(|all| all.into_iter().map(|(name, _)| name).collect())
            .unwrap_or_default();
        if names.is_empty() && matches!(self.has_database(places, database).await, Ok(false)) {
            return self.no_database(places, catalog, database).await;
        }
        let mut message = format!("Table '{catalog}.{database}.{table}' doesn't exist");
        if let Some(near) = dipper_base::near::closest(table, names.iter().map(String::as_str)) {
            message.push_str(&format!("; did you mean '{near}'?"));
        }
        EngineError::new(ErrorKind::NoTable, message)
    }

    /// Makes the error for a database that does not exist, with the nearest name.
    pub async fn no_database(&self, places: &Places, catalog: &str, database: &str) -> EngineError {
        let names = self.databases(places).await.unwrap_or_default();
        let mut message = format!("database \"{catalog}.{database}\" does not exist");
        if let Some(near) = dipper_base::near::closest(database, names.iter().map(String::as_str)) {
            message.push_str(&format!("; did you mean \"{near}\"?"));
        }
        EngineError::new(ErrorKind::NoDatabase, message)
    }
}
