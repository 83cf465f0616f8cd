//! Catalogs of Iceberg tables.
//!
//! With `iceberg.catalog.type` = `hadoop`, a warehouse directory holds a directory for each database, and that one
//! holds a directory for each table. The file names in a table's `metadata/` say which state is the newest. Nothing is
//! cached between statements.

pub mod about;
mod columns;
mod deleted;
mod filters;
pub mod provider;

use std::collections::BTreeMap;
use std::sync::Arc;

use dipper_iceberg::metadata::TableMetadata;
use dipper_iceberg::{IcebergError, Locations};
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_node::files::hdfs::{self, Hdfs};
use dipper_node::files::stores::{Remote, StoreProperties, Stores, is_hadoop_property, is_remote, store_properties};
use dipper_node::files::{FileAccess, keys, local_path};
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::ObjectStore;
use object_store::path::Path;

use super::properties;
use crate::columns::{ColumnInfo, schema_columns};

/// Stores of Iceberg's metadata and data: local directories, and object stores and HDFS with a catalog's properties.
#[derive(Clone)]
pub struct Places {
    access: FileAccess,
    local: Arc<dyn ObjectStore>,
    stores: Arc<Stores>,
    /// The catalog's properties for object stores.
    properties: StoreProperties,
    hdfs: Arc<Hdfs>,
    /// Hadoop's own properties of the catalog, which take precedence over those of HADOOP_CONF_DIR.
    configuration: BTreeMap<String, String>,
}

impl Places {
    /// Makes the places of a process that may read these local files and has these stores.
    pub fn new(access: FileAccess, stores: Arc<Stores>) -> Places {
        Places {
            access,
            local: Arc::new(object_store::local::LocalFileSystem::new()),
            hdfs: Arc::new(Hdfs::new(stores.io().clone())),
            stores,
            properties: StoreProperties::new(),
            configuration: BTreeMap::new(),
        }
    }

    /// Returns the places as a catalog with these properties reaches them.
    pub fn of(&self, all: &BTreeMap<String, String>) -> Places {
        let own = all.iter().filter(|(key, _)| is_hadoop_property(key));
        let configuration = own.map(|(key, value)| (key.clone(), value.clone())).collect();
        Places { configuration, properties: store_properties(all), ..self.clone() }
    }

    /// Returns the object store and path of a location; `None` if it is not in an object store.
    fn remote(&self, location: &str) -> Result<Option<Remote>> {
        match hdfs::authority(location).is_none() && is_remote(location) {
            true => self.stores.open_drawn(location, &self.properties).map(Some),
            false => Ok(None),
        }
    }

    /// Reads a table's metadata with `read`. If a file of a remote store is damaged, the data cache forgets the file
    /// and it is read once more: the answer may be wrong where the file is not.
    ///
    /// # Errors
    /// The error of the second attempt. The data cache keeps nothing of a damaged file, so that it is read again once
    /// it is repaired.
    pub(super) async fn sound<'a, T>(&self, read: impl Fn() -> BoxFuture<'a, dipper_iceberg::Result<T>>) -> Result<T> {
        match read().await {
            Err(IcebergError::Damaged { location, .. }) if self.forget(&location) => {
                let again = read().await;
                if let Err(IcebergError::Damaged { location, .. }) = &again {
                    self.forget(location);
                }
                Ok(again?)
            }
            read => Ok(read?),
        }
    }

    /// Removes a file from the data cache. Returns whether it is in an object store.
    fn forget(&self, location: &str) -> bool {
        let Ok(Some(remote)) = self.remote(location) else { return false };
        remote.store.forget(&remote.path);
        true
    }

    /// Returns a name for the store of a location that is unique within this process; `None` for local files.
    fn store_name(&self, location: &str) -> Result<Option<String>> {
        if let Some(remote) = self.remote(location)? {
            return Ok(Some(format!("remote://{}", remote.number)));
        }
        let named = |authority| Ok(self.hdfs.store(authority, &self.configuration)?.0.to_string());
        hdfs::authority(location).map(named).transpose()
    }
}

impl Locations for Places {
    fn resolve(&self, location: &str) -> std::result::Result<(Arc<dyn ObjectStore>, Path), String> {
        if let Some(remote) = self.remote(location).map_err(|e| e.message)? {
            return Ok((remote.store, remote.path));
        }
        if let Some(authority) = hdfs::authority(location) {
            let (_, store) = self.hdfs.store(authority, &self.configuration).map_err(|e| e.message)?;
            // HDFS treats `//` as `/`.
            let path = keys::without_empty_parts(location.splitn(4, '/').nth(3).unwrap_or_default());
            return Ok((store, Path::parse(path.as_ref()).map_err(|e| e.to_string())?));
        }
        let path = local_path(location).and_then(|p| self.access.check(&p).map(|()| p)).map_err(|e| e.message)?;
        let path = std::path::absolute(&path).map_err(|e| e.to_string())?;
        Ok((Arc::clone(&self.local), Path::from_absolute_path(&path).map_err(|e| e.to_string())?))
    }
}

/// Tables whose newest metadata is looked up concurrently. In object storage, each takes a listing.
const LISTINGS_AT_ONCE: usize = 16;

/// A catalog over a warehouse directory.
#[derive(Debug)]
pub struct IcebergCatalog {
    warehouse: String,
}

impl IcebergCatalog {
    pub(super) fn new(all: &BTreeMap<String, String>) -> Result<IcebergCatalog> {
        let kind = properties::first(all, &["iceberg.catalog.type"]).unwrap_or("hadoop").to_ascii_lowercase();
        if kind != "hadoop" {
            return Err(EngineError::unsupported(format!(
                "'iceberg.catalog.type' = '{kind}' is not supported; 'hadoop' and 'hive' are"
            )));
        }
        let warehouse = properties::first(all, &["iceberg.catalog.warehouse", "warehouse"])
            .ok_or_else(|| EngineError::invalid("an Iceberg catalog of type hadoop needs 'warehouse' = 'directory'"))?;
        // Hadoop's file systems create a `hadoop` catalog, and they treat `//` as `/`.
        let warehouse = match warehouse.split_once("://") {
            Some((scheme, rest)) => format!("{scheme}://{}", keys::without_empty_parts(rest)),
            None => warehouse.to_string(),
        };
        Ok(IcebergCatalog { warehouse: warehouse.trim_end_matches('/').to_string() })
    }

    pub(super) async fn databases(&self, places: &Places) -> Result<Vec<String>> {
        children(places, &self.warehouse).await
    }

    pub(super) async fn has_database(&self, places: &Places, name: &str) -> Result<bool> {
        Ok(self.databases(places).await?.iter().any(|d| d == name))
    }

    pub(super) async fn tables(&self, places: &Places, database: &str) -> Result<Vec<(String, bool)>> {
        let names = children(places, &format!("{}/{database}", self.warehouse)).await?;
        let seen = futures::stream::iter(names).map(|name| async move {
            // A directory whose newest metadata is ambiguous counts as a table, too: reading it reports why it cannot
            // be read.
            let is_table = match newest(places, &format!("{}/{database}/{name}", self.warehouse)).await {
                Ok(state) => state.is_some(),
                Err(e) if e.kind == ErrorKind::File => true,
                Err(e) => return Err(e),
            };
            Ok::<_, EngineError>(is_table.then_some((name, false)))
        });
        seen.buffered(LISTINGS_AT_ONCE).try_filter_map(futures::future::ok).try_collect().await
    }

    pub(super) async fn table(&self, places: &Places, database: &str, table: &str) -> Result<Option<TableMetadata>> {
        if [database, table].iter().any(|name| name.is_empty() || name.contains(['/', '\\']) || name.starts_with('.')) {
            return Ok(None);
        }
        match newest(places, &format!("{}/{database}/{table}", self.warehouse)).await? {
            None => Ok(None),
            Some(location) => places.sound(|| TableMetadata::load(places, &location).boxed()).await.map(Some),
        }
    }
}

fn unreadable(location: &str, reason: &str) -> EngineError {
    EngineError::new(ErrorKind::File, format!("cannot list '{location}': {reason}"))
}

fn unlisted(location: &str, e: &object_store::Error) -> EngineError {
    EngineError::of_store(ErrorKind::File, format!("cannot list '{location}': {e}"), e)
}

/// Names of the directories in a directory.
async fn children(places: &Places, location: &str) -> Result<Vec<String>> {
    let (store, path) = places.resolve(location).map_err(|e| unreadable(location, &e))?;
    let listed = match store.list_with_delimiter(Some(&path)).await {
        Err(object_store::Error::NotFound { .. }) => return Ok(Vec::new()),
        listed => listed.map_err(|e| unlisted(location, &e))?,
    };
    let names = listed.common_prefixes.iter().filter_map(|p| p.filename().map(str::to_string));
    Ok(names.filter(|n| !n.starts_with(['.', '_']) && !keys::is_empty_part(n)).collect())
}

/// Returns the location of the newest metadata file of the table in a directory; `None` if there is no table.
async fn newest(places: &Places, table: &str) -> Result<Option<String>> {
    let directory = format!("{table}/metadata");
    let (store, path) = places.resolve(&directory).map_err(|e| unreadable(&directory, &e))?;
    let listed = match store.list_with_delimiter(Some(&path)).await {
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        listed => listed.map_err(|e| unlisted(&directory, &e))?.objects,
    };
    let mut versions: Vec<(u64, String)> = listed
        .iter()
        .filter_map(|o| o.location.filename())
        .filter_map(|name| Some((version(name)?, name.to_string())))
        .collect();
    versions.sort();
    let Some((number, name)) = versions.pop() else { return Ok(None) };
    if let Some((before, other)) = versions.pop()
        && before == number
    {
        return Err(EngineError::new(
            ErrorKind::File,
            format!(
                "'{directory}' holds two states of number {number}, {other} and {name}: only the catalog that wrote them knows which counts"
            ),
        ));
    }
    Ok(Some(format!("{directory}/{name}")))
}

const UUID_CHARS: usize = 36;

/// Returns the number of a metadata file: `v7.metadata.json`, `v7.gz.metadata.json`, `00007-<uuid>.metadata.json`.
fn version(name: &str) -> Option<u64> {
    let stem = name.strip_suffix(".metadata.json").or_else(|| name.strip_suffix(".metadata.json.gz"))?;
    let stem = stem.strip_suffix(".gz").unwrap_or(stem);
    match stem.strip_prefix('v') {
        Some(number) => number.parse().ok(),
        // A commit in progress is named by a UUID alone, which may begin with digits, too.
        None => stem.split_once('-').filter(|(_, uuid)| uuid.len() == UUID_CHARS)?.0.parse().ok(),
    }
}

/// Returns the columns for DESCRIBE.
pub fn columns(metadata: &TableMetadata) -> Result<Vec<ColumnInfo>> {
    let schema = metadata.schema_of(metadata.current_schema_id)?;
    let arrow = arrow::datatypes::Schema::new(schema.arrow_fields(false));
    let comment =
        |name: &str| schema.fields.iter().find(|f| f.name == name).and_then(|f| f.doc.clone()).unwrap_or_default();
    let mut columns = schema_columns(&arrow, comment);
    for (column, field) in columns.iter_mut().zip(&schema.fields) {
        column.nullable = !field.required;
        if field.unsupported_type().is_some() {
            column.type_text = "unsupported".into();
        }
    }
    Ok(columns)
}

/// Returns a CREATE TABLE statement for the table, in Doris' dialect.
pub fn ddl(name: &str, metadata: &TableMetadata) -> Result<String> {
    let schema = metadata.schema_of(metadata.current_schema_id)?;
    let columns = columns(metadata)?;
    let quoted = |name: &str| format!("`{}`", name.replace('`', "``"));
    let lines: Vec<String> = columns
        .iter()
        .zip(&schema.fields)
        .map(|(c, f)| {
            let required = if f.required { " NOT NULL" } else { "" };
            let comment = f.doc.as_ref().map(|d| format!(" COMMENT '{}'", d.replace('\'', "''"))).unwrap_or_default();
            format!("  {} {}{required}{comment}", quoted(&c.name), c.type_text)
        })
        .collect();
    let mut out = format!("CREATE TABLE {} (\n{}\n) ENGINE=ICEBERG", quoted(name), lines.join(",\n"));
    if let Some(spec) = metadata.specs.get(&metadata.default_spec_id).filter(|s| !s.is_unpartitioned()) {
        use dipper_iceberg::transform::Transform;
        let one = |f: &dipper_iceberg::metadata::PartitionField| {
            let column = metadata.field_ever(f.source_id).map_or("?".to_string(), |c| quoted(&c.name));
            match f.transform {
                Transform::Identity => column,
                Transform::Bucket(n) => format!("bucket({n}, {column})"),
                Transform::Truncate(n) => format!("truncate({n}, {column})"),
                other => format!("{}({column})", format!("{other:?}").to_lowercase()),
            }
        };
        let fields: Vec<String> = spec.fields.iter().map(one).collect();
        out.push_str(&format!("\nPARTITION BY LIST ({}) ()", fields.join(", ")));
    }
    out.push_str(&format!("\nLOCATION '{}'", metadata.location.replace('\'', "''")));
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_metadata_files_tell_their_number() {
        assert_eq!(version("v12.metadata.json"), Some(12));
        assert_eq!(version("v3.gz.metadata.json"), Some(3));
        assert_eq!(version("00004-12345678-9abc-4def-8123-456789abcdef.metadata.json"), Some(4));
        assert_eq!(version("00004-12345678-9abc-4def-8123-456789abcdef.metadata.json.gz"), Some(4));
        assert_eq!(version("12345678-9abc-4def-8123-456789abcdef.metadata.json"), None);
        for other in ["version-hint.text", "snap-1.avro", "v.metadata.json", ".v1.metadata.json.crc"] {
            assert_eq!(version(other), None, "{other}");
        }
    }
}
