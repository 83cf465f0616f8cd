//! Catalogs backed by a Hive metastore.
//!
//! Each statement asks the metastore for the tables that it names and for the names of their partitions: one request
//! each, a few milliseconds, and never stale. The locations of partitions make a longer answer and hardly ever change;
//! they are cached for `partition.cache.ttl-second` (10 s, 0 for never) or until REFRESH.

mod api;
mod client;
mod convert;
pub mod provider;
mod thrift;

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_node::files::partitions::{NULL_PARTITION, unescape};
use dipper_node::files::stores::{flag, is_cache_property, is_store_property};
use dipper_store::catalog::{ExternalTable, PartitionValues};
use parking_lot::Mutex;

use super::properties;
use api::Table;
use client::Client;

/// How long the locations of partitions are cached.
const PARTITION_TTL: Duration = Duration::from_secs(10);

/// Partitions per call: a metastore builds one SQL statement of their names.
const PARTITIONS_A_CALL: usize = 500;

/// Partitions whose locations are cached, over all tables. The cache is cleared when it is full.
const PLACES_MAX: usize = 200_000;

/// A catalog backed by a metastore.
#[derive(Debug)]
pub struct HiveCatalog {
    client: Client,
    ttl: Duration,
    places: Mutex<HashMap<PartitionKey, (Instant, Place)>>,
}

/// Database, table and partition name.
type PartitionKey = (String, String, String);

/// The location of a partition's files, or why they cannot be read.
type Place = std::result::Result<String, String>;

/// One partition of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HivePartition {
    /// Name in the metastore's spelling, for example `dt=2024-01-31/country=CN`.
    pub name: String,
    /// One value per partition column.
    pub values: PartitionValues,
}

/// A table of a metastore.
#[derive(Debug)]
pub struct HiveTable {
    /// The definition, without partitions; [`HiveCatalog::partitions`] returns those.
    pub definition: ExternalTable,
}

impl HiveTable {
    /// Returns the table with the catalog's properties of the store in place of the table's own. The table's are
    /// ignored, because whoever may write to the metastore could otherwise choose where the catalog's keys are sent.
    pub(super) fn reached_by(&self, catalog: &BTreeMap<String, String>) -> HiveTable {
        let mut definition = self.definition.clone();
        // The table's own setting of the data cache takes precedence over the catalog's, if it is valid.
        let makes_sense = |(key, value): &(&String, &String)| is_cache_property(key) && flag(key, value).is_ok();
        let own = definition.properties.iter().find(makes_sense);
        let own = own.map(|(key, value)| (key.to_ascii_lowercase(), value.clone()));
        definition.properties.retain(|key, _| !is_store_property(key));
        let of_catalog = catalog.iter().filter(|(key, _)| is_store_property(key));
        definition.properties.extend(of_catalog.map(|(key, value)| (key.clone(), value.clone())).chain(own));
        HiveTable { definition }
    }
}

impl HiveCatalog {
    pub(super) fn new(properties: &BTreeMap<String, String>) -> Result<HiveCatalog> {
        let ttl = properties::duration(properties, "partition.cache.ttl-second", PARTITION_TTL)?;
        Ok(HiveCatalog { client: Client::new(properties)?, ttl, places: Mutex::default() })
    }

    pub(super) async fn databases(&self) -> Result<Vec<String>> {
        self.client.databases().await
    }

    pub(super) async fn has_database(&self, name: &str) -> Result<bool> {
        self.client.has_database(name).await
    }

    /// Returns the names of tables and views, and whether each is a view.
    pub(super) async fn tables(&self, database: &str) -> Result<Vec<(String, bool)>> {
        let found = self.client.tables(database).await?;
        let is_view = |kind: Option<&str>| kind.is_some_and(|kind| kind.contains("VIEW"));
        Ok(found.into_iter().map(|t| (t.table_name.unwrap_or_default(), is_view(t.table_type.as_deref()))).collect())
    }

    /// Returns a table or view as the metastore describes it; `None` if there is none of this name.
    pub(super) async fn raw(&self, database: &str, table: &str) -> Result<Option<Table>> {
        self.client.table(database, table).await
    }

    /// Returns the table's partitions, in the metastore's order. `columns` is the number of partition columns.
    pub async fn partitions(&self, database: &str, table: &str, columns: usize) -> Result<Vec<HivePartition>> {
        let names = self.client.partition_names(database, table).await?;
        names.into_iter().map(|name| partition(name, columns)).collect()
    }

    /// Returns the locations of these partitions, in their order; `None` for one that has been dropped meanwhile.
    ///
    /// # Errors
    /// `Storage` if the metastore does not answer, or answers for another partition; `Unsupported` if a partition has
    /// another format than the table.
    pub async fn locations(
        &self,
        (database, table): (&str, &str),
        definition: &ExternalTable,
        partitions: &[HivePartition],
    ) -> Result<Vec<Option<String>>> {
        let key = |name: &str| (database.to_string(), table.to_string(), name.to_string());
        let mut places: HashMap<&str, Place> = HashMap::new();
        {
            let kept = self.places.lock();
            for p in partitions {
                if let Some((at, place)) = kept.get(&key(&p.name)).filter(|(at, _)| at.elapsed() < self.ttl) {
                    let _ = at;
                    places.insert(&p.name, place.clone());
                }
            }
        }
        let missing: Vec<&HivePartition> =
            partitions.iter().filter(|p| !places.contains_key(p.name.as_str())).collect();
        for some in missing.chunks(PARTITIONS_A_CALL) {
            let names: Vec<String> = some.iter().map(|p| p.name.clone()).collect();
            let by_values: HashMap<Vec<String>, &HivePartition> =
                some.iter().map(|p| (raw_values(&p.values), *p)).collect();
            for found in self.client.partitions(database, table, &names).await? {
                let values: Vec<String> = found.values.iter().flatten().map(ToString::to_string).collect();
                let Some(p) = by_values.get(&values) else {
                    let values = values.join("', '");
                    let message = format!(
                        "the metastore answered for a partition of '{database}.{table}' with values '{values}', which are not \
                         those of a name that it gave"
                    );
                    return Err(EngineError::new(ErrorKind::Storage, message));
                };
                let storage = found.sd.as_ref();
                let place = match storage.and_then(|s| convert::differs(definition, s)) {
                    Some(reason) => Err(reason),
                    None => Ok(storage.and_then(|s| s.location.as_deref()).unwrap_or_default().to_string()),
                };
                places.insert(&p.name, place);
            }
        }
        if !missing.is_empty() && !self.ttl.is_zero() {
            let now = Instant::now();
            let mut kept = self.places.lock();
            if kept.len() + missing.len() > PLACES_MAX {
                kept.clear();
            }
            for p in &missing {
                if let Some(place) = places.get(p.name.as_str()) {
                    kept.insert(key(&p.name), (now, place.clone()));
                }
            }
        }
        partitions
            .iter()
            .map(|p| match places.get(p.name.as_str()) {
                None => Ok(None),
                Some(Ok(location)) => Ok(Some(location.clone())),
                Some(Err(reason)) => Err(EngineError::unsupported(format!(
                    "partition {} of '{database}.{table}' cannot be read: {reason}",
                    p.name
                ))),
            })
            .collect()
    }

    /// Removes the cached locations of partitions of all tables for which `of` is true.
    pub(super) fn forget(&self, of: impl Fn(&str, &str) -> bool) {
        self.places.lock().retain(|(database, table, _), _| !of(database, table));
    }
}

/// Returns the location of the metadata of an Iceberg table; `None` for other tables.
pub(super) fn iceberg_metadata(raw: &Table) -> Option<String> {
    let parameters = raw.parameters.as_ref()?;
    let is_iceberg = parameters.get("table_type").is_some_and(|t| t.eq_ignore_ascii_case("iceberg"));
    is_iceberg.then(|| parameters.get("metadata_location").map(ToString::to_string))?
}

/// Makes the definition of a metastore's table. Messages use `name`.
pub(super) fn table(name: &str, raw: &Table) -> Result<HiveTable> {
    Ok(HiveTable { definition: convert::definition(name, raw)? })
}

/// Returns the values of a partition in the metastore's spelling.
fn raw_values(values: &PartitionValues) -> Vec<String> {
    values.iter().map(|v| v.clone().unwrap_or_else(|| NULL_PARTITION.to_string())).collect()
}

fn partition(name: String, columns: usize) -> Result<HivePartition> {
    let values: Vec<_> = name
        .split('/')
        .filter_map(|part| part.split_once('='))
        .map(|(_, value)| unescape(value))
        .map(|value| (value != NULL_PARTITION).then_some(value))
        .collect();
    if values.len() != columns {
        return Err(EngineError::new(
            ErrorKind::Storage,
            format!("the metastore tells a partition '{name}' of a table with {columns} partition columns"),
        ));
    }
    Ok(HivePartition { name, values })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_catalog_says_how_files_are_reached() {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let properties = map(&[("aws.s3.endpoint", "http://elsewhere"), ("skip.header.line.count", "1")]);
        let table = HiveTable { definition: ExternalTable { properties, ..ExternalTable::default() } };
        let catalog = map(&[("type", "hive"), ("s3.access_key", "a"), ("dfs.nameservices", "lake")]);
        let reached = table.reached_by(&catalog).definition.properties;
        let expected = [("s3.access_key", "a"), ("dfs.nameservices", "lake"), ("skip.header.line.count", "1")];
        assert_eq!(reached, map(&expected));
        let mut table = table;
        for (own, of_catalog, counts) in [("FALSE", "true", "FALSE"), ("perhaps", "true", "true")] {
            table.definition.properties.insert("DataCache.Enable".into(), own.into());
            let reached = table.reached_by(&map(&[("datacache.enable", of_catalog)])).definition.properties;
            let of_cache: Vec<_> = reached.iter().filter(|(key, _)| is_cache_property(key)).collect();
            assert_eq!(of_cache, [(&"datacache.enable".to_string(), &counts.to_string())]);
        }
    }

    #[test]
    fn names_of_partitions_are_read_back() {
        let p = partition("dt=2024-01-01/c=a%2Fb%3D".into(), 2).unwrap();
        assert_eq!(p.values, [Some("2024-01-01".to_string()), Some("a/b=".to_string())]);
        assert_eq!(partition("dt=__HIVE_DEFAULT_PARTITION__".into(), 1).unwrap().values, [None]);
        assert_eq!(raw_values(&vec![None]), [NULL_PARTITION]);
        assert!(partition("dt=1".into(), 2).unwrap_err().message.contains("dt=1"));
    }
}
