//! Turns a definition in the catalog into a table that can be scanned or written.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::catalog::TableProvider;
use datafusion::scalar::ScalarValue;
use dipper_base::types::SqlType;
use dipper_node::error::{EngineError, Result};
use dipper_node::files::listings::Listings;
use dipper_node::files::partitions::{PartitionDir, directory_name};
use dipper_node::files::remote::{self, PartitionFiles};
use dipper_node::files::stores::{StoreProperties, Stores, is_remote, store_properties};
use dipper_node::files::{self, FileAccess, lakes, local_path};
use dipper_store::catalog::{Column, ExternalTable, PartitionValues};
use dipper_text::dialect::{Dialect, HiveDialect};
use dipper_text::hive::parse_type;
use dipper_text::scan::{BadValue, InvalidUtf8};
use futures::{StreamExt, TryStreamExt};

use super::file_set::{FileSet, typed};
use super::parquet::ParquetTable;
use super::text::TextTable;
use crate::read::ReadContext;
use crate::sink::Place;

/// SerDe of `ROW FORMAT DELIMITED` and of tables without a row format.
pub const LAZY_SIMPLE_SERDE: &str = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe";

/// Value of `format` for a table over Hive text.
pub const FORMAT_TEXT: &str = "textfile";
/// Value of `format` for a table over Parquet.
pub const FORMAT_PARQUET: &str = "parquet";

/// Returns a type in Hive's spelling, in which the catalog stores the types of columns.
///
/// # Errors
/// `Unsupported` if files of Hive cannot hold the type.
pub fn hive_spelling(data_type: &SqlType) -> Result<String> {
    Ok(match data_type {
        SqlType::DateTime(_) => "timestamp".into(),
        SqlType::Json | SqlType::Variant | SqlType::Varchar(None) => "string".into(),
        SqlType::Char(None) => "char(1)".into(),
        SqlType::Array(item) => format!("array<{}>", hive_spelling(item)?),
        SqlType::Map(key, value) => format!("map<{},{}>", hive_spelling(key)?, hive_spelling(value)?),
        SqlType::Struct(fields) => {
            let fields = fields
                .iter()
                .map(|(name, t, _)| Ok(format!("{name}:{}", hive_spelling(t)?)))
                .collect::<Result<Vec<_>>>()?;
            format!("struct<{}>", fields.join(","))
        }
        SqlType::LargeInt | SqlType::UnsignedBigInt | SqlType::Time(_) => {
            return Err(EngineError::unsupported(format!(
                "a table over files cannot have a column of type {data_type}; use decimal(38,0) or string"
            )));
        }
        other => other.to_string(),
    })
}

/// Returns the Arrow fields of columns of the catalog.
///
/// # Errors
/// `Invalid` if this version does not know a type.
pub fn fields(columns: &[Column]) -> Result<Vec<FieldRef>> {
    columns.iter().map(|c| Ok(FieldRef::new(parse_type(&c.name, &c.data_type)?))).collect()
}

/// Returns where the table's files are. The table must be in the local file system.
///
/// # Errors
/// `Unsupported` if the location is not local, or is a glob with files of a lake format; `Invalid` if a partition column has a nested or binary type; the errors
/// of [`files::list`] if the location is a file or a glob.
pub fn file_set(table: &ExternalTable) -> Result<FileSet> {
    let root = local_path(&table.location)?;
    if table.partition_columns.is_empty() {
        if root.is_file() || files::is_glob(&root) {
            let found = files::list(&table.location, &FileAccess::Any)?;
            lakes::refuse_local(&table.location, &found, &FileAccess::Any)?;
            return Ok(FileSet::Listed(found.into()));
        }
        return Ok(FileSet::Below(root));
    }
    Ok(FileSet::Partitioned { root: Some(root), columns: partition_fields(table)?, registered: registered(table) })
}

fn registered(table: &ExternalTable) -> BTreeMap<Vec<Option<String>>, Option<String>> {
    table.partitions.iter().map(|(values, p)| (values.clone(), p.location.clone())).collect()
}

/// Returns the partition columns as Arrow fields.
///
/// # Errors
/// `Invalid` if a type is unknown, or cannot be in a directory name.
pub fn partition_fields(table: &ExternalTable) -> Result<Vec<FieldRef>> {
    fields(&table.partition_columns)?.into_iter().map(plain_partition_column).collect()
}

/// Like [`file_set`], but also for a table in an object store, whose files are listed.
///
/// # Errors
/// The errors of [`file_set`], and of the listing of the store.
pub async fn listed_file_set(context: &ReadContext, table: &ExternalTable) -> Result<FileSet> {
    if !is_remote(&table.location) {
        return file_set(table);
    }
    let properties = store_properties(&table.properties);
    if table.partition_columns.is_empty() {
        let listed = context.listings.list(&context.stores, &table.location, &properties).await?;
        return Ok(FileSet::Listed(listed));
    }
    let columns = partition_fields(table)?;
    let mut partitions = partitions_below(context, table).await?;
    let added: Vec<_> = (table.partitions.iter())
        .filter_map(|(values, partition)| Some((values, partition.location.as_deref()?)))
        .collect();
    partitions.retain(|(found, _)| added.iter().all(|(values, _)| *values != found));
    partitions.extend(files_of(context, &properties, added).await?);
    // Partitions that were added by statement and have no files yet.
    let empty = table.partitions.iter().filter(|(values, partition)| {
        partition.location.is_none() && partitions.iter().all(|(found, _)| found != *values)
    });
    let empty: Vec<PartitionFiles> = empty.map(|(values, _)| (values.clone(), Vec::new())).collect();
    partitions.extend(empty);
    Ok(FileSet::Known { columns, partitions: partitions.into() })
}

/// Returns the partitions of a table in an object store whose files are below its own directory.
///
/// # Errors
/// The errors of [`remote::partitioned`]: the store cannot be listed, or a file is not in a partition's directory.
pub async fn partitions_below(context: &ReadContext, table: &ExternalTable) -> Result<Vec<PartitionFiles>> {
    let names: Vec<String> = table.partition_columns.iter().map(|c| c.name.clone()).collect();
    let listing = (&context.stores, &*context.listings);
    remote::partitioned(listing, &table.location, &store_properties(&table.properties), &names).await
}

/// Returns whether there are files below a location of the table in an object store. A store has no directories, so
/// this stands for their existence.
///
/// # Errors
/// The error of the listing, if the store does not answer.
pub async fn has_files(context: &ReadContext, table: &ExternalTable, place: &str) -> Result<bool> {
    let directory = format!("{}/", place.trim_end_matches('/'));
    let properties = store_properties(&table.properties);
    Ok(!context.listings.list(&context.stores, &directory, &properties).await?.is_empty())
}

/// Partitions that are listed concurrently.
const LISTED_AT_ONCE: usize = 16;

/// Lists the files of partitions at locations of their own.
async fn files_of(
    context: &ReadContext,
    properties: &StoreProperties,
    partitions: Vec<(&Vec<Option<String>>, &str)>,
) -> Result<Vec<PartitionFiles>> {
    let listed: Vec<_> = (partitions.into_iter())
        .map(|(values, location)| {
            let directory = format!("{}/", location.trim_end_matches('/'));
            one_partition(
                Arc::clone(&context.stores),
                context.access.clone(),
                Arc::clone(&context.listings),
                properties.clone(),
                values.clone(),
                directory,
            )
        })
        .collect();
    futures::stream::iter(listed).buffered(LISTED_AT_ONCE).try_collect().await
}

async fn one_partition(
    stores: Arc<Stores>,
    access: FileAccess,
    listings: Arc<Listings>,
    properties: StoreProperties,
    values: Vec<Option<String>>,
    directory: String,
) -> Result<PartitionFiles> {
    let files = match is_remote(&directory) {
        true => listings.list(&stores, &directory, &properties).await?.to_vec(),
        false => files::list(&directory, &access)?,
    };
    Ok((values, files))
}

/// Returns a partition column with a plain type. Partition values are strings in directory names: `Utf8View` gains
/// nothing for one repeated value, and DataFusion's Parquet scan makes these columns from scalars of the plain type.
fn plain_partition_column(field: FieldRef) -> Result<FieldRef> {
    let plain = match field.data_type() {
        DataType::Utf8View => DataType::Utf8,
        t if t.is_nested() || matches!(t, DataType::BinaryView | DataType::Binary) => {
            return Err(EngineError::invalid(format!("partition column {} cannot be of type {t}", field.name())));
        }
        t => t.clone(),
    };
    Ok(Arc::new(Field::new(field.name(), plain, true).with_metadata(field.metadata().clone())))
}

/// Returns the dialect of a table over Hive text, and the columns that its SerDe returns. `session` are the settings of
/// the session.
///
/// # Errors
/// `Invalid` if properties contradict each other, or the SerDe cannot hold a column's type.
pub fn hive_text(table: &ExternalTable, session: &[(String, String)]) -> Result<(HiveDialect, SchemaRef)> {
    let pairs = |m: &BTreeMap<String, String>| m.iter().map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>();
    let serde = table.serde.as_deref().unwrap_or(LAZY_SIMPLE_SERDE);
    let (of_serde, of_table) = (pairs(&table.serde_properties), pairs(&table.properties));
    let dialect = HiveDialect::from_properties(serde, &of_serde, &of_table, session)?;
    let fields = dialect.file_fields(&fields(&table.columns)?);
    dialect.check_fields(&fields)?;
    Ok((dialect, Arc::new(Schema::new(fields))))
}

/// Makes the provider of a table.
///
/// # Errors
/// `Invalid` if the definition is inconsistent, `Denied` if access is denied, `Unsupported` if the format is not
/// supported; the errors of listing and opening its files.
pub async fn provider(context: &ReadContext, name: &str, table: &ExternalTable) -> Result<Arc<dyn TableProvider>> {
    if !is_remote(&table.location) {
        context.access.check(&local_path(&table.location)?)?;
    }
    over(context, name, table, listed_file_set(context, table).await?).await
}

/// Makes a provider over the partitions that the definition names; other partitions below its location are ignored.
///
/// # Errors
/// The errors of [`provider`].
pub async fn provider_of_partitions(
    context: &ReadContext,
    name: &str,
    table: &ExternalTable,
) -> Result<Arc<dyn TableProvider>> {
    let columns = partition_fields(table)?;
    let locations: Vec<&str> = table.partitions.values().filter_map(|p| p.location.as_deref()).collect();
    let files = match locations.iter().any(|l| is_remote(l)) {
        false => FileSet::Partitioned { root: None, columns, registered: registered(table) },
        true => {
            let own = &table.location;
            let all =
                table.partitions.iter().map(|(values, p)| (values, p.location.as_deref().unwrap_or(own))).collect();
            let partitions = files_of(context, &store_properties(&table.properties), all).await?;
            FileSet::Known { columns, partitions: partitions.into() }
        }
    };
    over(context, name, table, files).await
}

async fn over(
    context: &ReadContext,
    name: &str,
    table: &ExternalTable,
    files: FileSet,
) -> Result<Arc<dyn TableProvider>> {
    let access = context.access.clone();
    match table.format.as_str() {
        FORMAT_TEXT => {
            let (dialect, file_schema) = hive_text(table, &context.hive_settings)?;
            let text = TextTable {
                dialect: Dialect::Hive(dialect),
                file_schema,
                files,
                access,
                bad_value: BadValue::Null,
                invalid_utf8: InvalidUtf8::Replace,
                strings: context.strings(),
                compression: None,
            };
            Ok(text.into_provider(None))
        }
        FORMAT_PARQUET => {
            let declared = match table.columns.is_empty() {
                true => None,
                false => Some(parquet_schema(table, context.string_view)?),
            };
            let state = context.state();
            ParquetTable::try_new(context, &state, files, access, declared).await
        }
        other => Err(EngineError::unsupported(format!("table '{name}' is stored as {other}, which is not read yet"))),
    }
}

/// Returns the declared columns with the string types that Parquet's reader has to build: views, or plain strings if
/// not `views` (`schema_force_string_view=false`).
pub fn parquet_schema(table: &ExternalTable, views: bool) -> Result<SchemaRef> {
    let plain = |f: FieldRef| match f.data_type() {
        DataType::Utf8View if !views => Arc::new(f.as_ref().clone().with_data_type(DataType::Utf8)),
        DataType::BinaryView if !views => Arc::new(f.as_ref().clone().with_data_type(DataType::Binary)),
        _ => f,
    };
    Ok(Arc::new(Schema::new(fields(&table.columns)?.into_iter().map(plain).collect::<Vec<_>>())))
}

/// Returns the values of all partitions of the table: those found as directories and those added by statement.
///
/// # Errors
/// The errors of [`listed_file_set`], and of reading the directories.
pub async fn partitions(context: &ReadContext, table: &ExternalTable) -> Result<Vec<Vec<Option<String>>>> {
    match listed_file_set(context, table).await? {
        FileSet::Known { partitions, .. } => Ok(partitions.iter().map(|(values, _)| values.clone()).collect()),
        _ => local_partitions(context, table),
    }
}

/// Values of a table's partitions as rows of the partition columns, each once and in order of their texts.
///
/// # Errors
/// As of [`partition_fields`].
pub fn partition_rows(
    table: &ExternalTable,
    values: impl IntoIterator<Item = Vec<Option<String>>>,
) -> Result<RecordBatch> {
    let columns = partition_fields(table)?;
    let nullable = |field: &FieldRef| field.as_ref().clone().with_nullable(true);
    let schema = Arc::new(Schema::new(columns.iter().map(nullable).collect::<Vec<_>>()));
    let values: BTreeSet<Vec<Option<String>>> = values.into_iter().collect();
    if values.is_empty() {
        return Ok(RecordBatch::new_empty(schema));
    }
    let rows = values.iter().map(|row| typed(&columns, row)).collect::<Result<Vec<_>>>()?;
    let column = |at: usize| ScalarValue::iter_to_array(rows.iter().map(|row| row[at].clone()));
    let arrays = (0..columns.len()).map(column).collect::<datafusion::error::Result<Vec<_>>>()?;
    Ok(RecordBatch::try_new(schema, arrays)?)
}

/// As [`partitions`], of a table in the local file system.
///
/// # Errors
/// `Unsupported` if the table is elsewhere; the errors of [`file_set`] and of reading the directories.
pub fn local_partitions(context: &ReadContext, table: &ExternalTable) -> Result<Vec<Vec<Option<String>>>> {
    let files = file_set(table)?;
    let found = files.partitions(&context.access, &context.state(), &[])?;
    Ok(found.into_iter().map(|(dir, _)| dir.values).collect())
}

/// Returns the partitions of the table with the location of each, in its original spelling. A partition whose files are
/// in several directories is returned once for each.
///
/// # Errors
/// The errors of [`partitions`].
pub async fn partition_locations(
    context: &ReadContext,
    table: &ExternalTable,
) -> Result<Vec<(PartitionValues, String)>> {
    let added = |values: &PartitionValues| table.partitions.get(values).and_then(|p| p.location.clone());
    let partitions = match listed_file_set(context, table).await? {
        FileSet::Known { partitions, .. } => partitions,
        local => {
            let found = local.partitions(&context.access, &context.state(), &[])?;
            let location = |dir: &PartitionDir| added(&dir.values).unwrap_or_else(|| dir.path.display().to_string());
            return Ok(found.into_iter().map(|(dir, _)| (dir.values.clone(), location(&dir))).collect());
        }
    };
    let names: Vec<String> = table.partition_columns.iter().map(|c| c.name.clone()).collect();
    let root = context.stores.open(&table.location, &store_properties(&table.properties))?.path;
    let below = |directory: String| format!("{}/{directory}", table.location.trim_end_matches('/'));
    let mut all = Vec::new();
    for (values, files) in partitions.iter() {
        let places = match added(values) {
            Some(own) => vec![own],
            None if files.is_empty() => vec![below(directory_name(&names, values))],
            None => remote::directories(&root, names.len(), files).into_iter().map(below).collect(),
        };
        all.extend(places.into_iter().map(|place| (values.clone(), place)));
    }
    Ok(all)
}

/// Returns the directories of the table's partitions: those of partitions that were added with a location and, if
/// `below`, all that are below the table's location.
///
/// # Errors
/// The errors of [`partitions`].
pub async fn partition_places(
    context: &ReadContext,
    table: &ExternalTable,
    below: bool,
) -> Result<Vec<(PartitionValues, Place)>> {
    let place = |location: &str| Place::of(&context.stores, location, &store_properties(&table.properties));
    let added = |values: &PartitionValues| table.partitions.get(values).and_then(|p| p.location.as_deref());
    let mut places = Vec::new();
    for values in table.partitions.keys() {
        if let Some(location) = added(values) {
            places.push((values.clone(), place(location)?));
        }
    }
    if !below {
        return Ok(places);
    }
    let root = place(&table.location)?;
    match &root {
        Place::Object(at, _) => {
            // Partitions that were added with a location are elsewhere: they need not be listed.
            for (values, files) in partitions_below(context, table).await?.iter().filter(|(v, _)| added(v).is_none()) {
                for directory in remote::directories(&at.path, values.len(), files) {
                    places.push((values.clone(), root.join(&directory)?));
                }
            }
        }
        Place::File(_) => {
            let found = file_set(table)?.partitions(&context.access, &context.state(), &[])?;
            let found = found.into_iter().filter(|(dir, _)| added(&dir.values).is_none());
            places.extend(found.map(|(dir, _)| (dir.values, Place::File(dir.path))));
        }
    }
    Ok(places)
}

/// Returns the root directory below which INSERT writes.
///
/// # Errors
/// `Unsupported` if the location is a single file or a glob, or cannot be written to; `Denied` if access is denied.
pub fn writable_root(context: &ReadContext, table: &ExternalTable) -> Result<Place> {
    let root = Place::of(&context.stores, &table.location, &store_properties(&table.properties))?;
    root.check(&context.access)?;
    let is_file = matches!(&root, Place::File(path) if path.is_file());
    if is_file || files::is_glob(Path::new(&table.location)) {
        return Err(EngineError::unsupported(format!(
            "cannot insert: the table's location '{}' is not a directory",
            table.location
        )));
    }
    Ok(root)
}
