//! Tables over Parquet files.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::error::Result as DfResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use dipper_cache::TaggedStore;
use dipper_exec::io::{self, ScanRequests};
use dipper_exec::scan::{Conversion, ParquetScanExec, ParquetScanFile, ParquetScanSpec, bare, table_schema};
use dipper_iceberg::reshape;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_node::files::{FileAccess, FileEntry};
use dipper_sql::charter::DIGITS_KEY;
use dipper_sql::functions::datetime::Zone;
use dipper_store::segment::{Fetcher, ForeignFile, ForeignSchema, ObjectReader, Readers, ScanIo};
use dipper_text::infer::unique;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path as ObjectPath;
use object_store::{ObjectMeta, ObjectStore};
use tokio::runtime::Handle;

use super::by_the_clock;
use super::file_set::FileSet;
use super::parquet_statistics::statistics;
use super::widen::united;
use crate::read::ReadContext;
use dipper_sql::type_text::type_text;

/// Files whose footers are read concurrently.
const OPENED_AT_ONCE: usize = 16;

/// A table over Parquet files.
#[derive(Debug)]
pub struct ParquetTable {
    footers: Footers,
    files: FileSet,
    access: FileAccess,
    /// Columns that are read from the files, with their names spelled as in the files.
    spelled: SchemaRef,
    /// The columns as they were declared: like `file_schema`, with lengths of texts in the metadata of fields inside.
    declared: Fields,
    /// The same columns with the names of the table: no two names differ only in case.
    file_schema: SchemaRef,
    schema: SchemaRef,
    /// The session's zone, to which texts that name a zone are moved where they become times.
    zone: Option<Zone>,
}

impl ParquetTable {
    /// Makes a table over `files`. If `declared` is given, it has these columns, which are looked up in the files by
    /// name without regard to case; columns that a file lacks are NULL, and values of other types are cast. Otherwise it
    /// has the columns of all files, merged by name, and instants are shown in the session's local time.
    pub async fn try_new(
        context: &ReadContext,
        state: &SessionState,
        files: FileSet,
        access: FileAccess,
        declared: Option<SchemaRef>,
    ) -> Result<Arc<dyn TableProvider>> {
        let listed = files.files(&access, state, &[])?;
        let footers = Footers { readers: Arc::clone(&context.readers), requests: context.stores.io().clone() };
        let requests = ScanRequests::of(state);
        let zone = Zone::parse(&context.time_zone);
        let over = |files: FileSet, spelled: Fields, declared: Fields| {
            let named: Fields = declared.iter().map(bare).collect();
            let (spelled, file_schema) = (Arc::new(Schema::new(spelled)), Arc::new(Schema::new(named)));
            let schema = table_schema(&file_schema, files.partition_columns());
            let footers = footers.clone();
            Arc::new(ParquetTable { footers, files, access, spelled, declared, file_schema, schema, zone })
        };
        if let Some(declared) = declared {
            let spelled = match listed.first() {
                Some((first, _)) => {
                    let own = footers.open(state, &[first], &requests, |reader| reader.fields().clone()).await?;
                    spelled_as_in(declared.fields(), &own[0])
                }
                None => declared.fields().clone(),
            };
            return Ok(over(files, spelled.iter().map(bare).collect(), spelled));
        }
        let all: Vec<_> = listed.iter().map(|(file, _)| file).collect();
        let found = merged(&all, &footers.open(state, &all, &requests, |reader| reader.table_fields()).await?)?;
        let names = unique(found.iter().map(|f| f.name().clone()));
        let instants: Vec<&String> =
            names.iter().zip(&found).filter(|(_, f)| is_instant(f)).map(|(name, _)| name).collect();
        let spelled: Fields = found.iter().map(in_utc).map(with_digits).collect();
        let named = |(field, name): (&FieldRef, &String)| Arc::new(field.as_ref().clone().with_name(name));
        let named = spelled.iter().zip(&names).map(named).collect();
        by_the_clock(context, over(files, spelled, named), |f| instants.contains(&f.name()))
    }
}

/// Opens the files of tables.
#[derive(Debug, Clone)]
struct Footers {
    readers: Arc<Readers>,
    /// Threads for requests to object stores.
    requests: Handle,
}

impl Footers {
    /// Opens files and applies `wanted` to each: several at a time; files that are open already are reused.
    async fn open<T>(
        &self,
        state: &dyn Session,
        files: &[&FileEntry],
        requests: &ScanRequests,
        wanted: impl Fn(Arc<ObjectReader>) -> T,
    ) -> Result<Vec<T>> {
        let views = state.config_options().execution.parquet.schema_force_view_types;
        // Partitions may be in different stores.
        let mut stores = BTreeMap::new();
        for file in files {
            if let Entry::Vacant(unknown) = stores.entry(store_number(file)) {
                let (url, store) = store(state, file)?;
                let fetcher = match file.remote.is_some() {
                    false => Fetcher::local(store),
                    true => Fetcher::remote(store, self.requests.clone(), io::anew()),
                };
                unknown.insert((url, fetcher));
            }
        }
        let io = Arc::new(ScanIo::new(false, false).with_extensions(requests.extensions.clone()));
        let opening: Vec<_> = (files.iter())
            .map(async |entry| {
                let (url, fetcher) = &stores[&store_number(entry)];
                let object = object(entry)?;
                let file = ForeignFile {
                    path: object.location,
                    name: entry.name(),
                    size: object.size,
                    tag: object.e_tag.unwrap_or_default(),
                    modified: Some(object.last_modified),
                    views,
                };
                Ok(wanted(self.readers.get_foreign(url.as_str(), fetcher, &file, Some(&io)).await?))
            })
            .collect();
        futures::stream::iter(opening).buffered(OPENED_AT_ONCE).try_collect().await
    }
}

/// Renames `fields` to the spelling of `like`, where `like` has a field of that name in any case.
fn spelled_as_in(fields: &Fields, like: &Fields) -> Fields {
    let spelled = |(field, place): (&FieldRef, Option<usize>)| match place {
        Some(at) => Arc::new(field.as_ref().clone().with_name(like[at].name())),
        None => Arc::clone(field),
    };
    fields.iter().zip(reshape::places(like, fields)).map(spelled).collect()
}

/// Returns whether a column holds instants, which files store in UTC.
fn is_instant(field: &FieldRef) -> bool {
    matches!(field.data_type(), DataType::Timestamp(_, Some(_)))
}

/// Returns a column of instants as local time in UTC; other columns unchanged.
fn in_utc(field: &FieldRef) -> FieldRef {
    match field.data_type() {
        DataType::Timestamp(unit, Some(_)) => {
            Arc::new(field.as_ref().clone().with_data_type(DataType::Timestamp(*unit, None)))
        }
        _ => Arc::clone(field),
    }
}

/// Adds the digits that the unit of a column's times means: those of its type are shown, as of a column that declares
/// them. Times in microseconds and finer stay open: they show a fraction where they have one.
fn with_digits(field: FieldRef) -> FieldRef {
    fn is_coarse(t: &DataType) -> bool {
        match t {
            DataType::Timestamp(TimeUnit::Second | TimeUnit::Millisecond, _) | DataType::Time32(_) => true,
            DataType::List(item)
            | DataType::LargeList(item)
            | DataType::FixedSizeList(item, _)
            | DataType::Map(item, _) => is_coarse(item.data_type()),
            DataType::Struct(fields) => fields.iter().any(|field| is_coarse(field.data_type())),
            _ => false,
        }
    }
    if !is_coarse(field.data_type()) {
        return field;
    }
    let digits = [(DIGITS_KEY.to_string(), type_text(&field))];
    Arc::new(field.as_ref().clone().with_metadata(digits.into()))
}

/// Returns the number of the object store that holds a file; `None` for local files.
fn store_number(file: &FileEntry) -> Option<u64> {
    file.remote.as_ref().map(|remote| remote.store_number)
}

/// Returns the store that holds a file, with the URL under which DataFusion knows it.
fn store(state: &dyn Session, file: &FileEntry) -> DfResult<(ObjectStoreUrl, Arc<dyn ObjectStore>)> {
    let Some(remote) = &file.remote else {
        let url = ObjectStoreUrl::local_filesystem();
        let store = state.runtime_env().object_store(&url)?;
        return Ok((url, store));
    };
    let url = ObjectStoreUrl::parse(format!("remote://{}", remote.store_number))?;
    let tagged: Arc<dyn ObjectStore> = Arc::new(TaggedStore::new(remote.store.clone(), remote.store_number));
    state.runtime_env().register_object_store(url.as_ref(), Arc::clone(&tagged));
    Ok((url, tagged))
}

/// Returns the file's metadata in the form of its [`store`].
fn object(entry: &FileEntry) -> Result<ObjectMeta> {
    if let Some(remote) = &entry.remote {
        let tagged = TaggedStore::new(remote.store.clone(), remote.store_number);
        let location = tagged
            .path(&remote.meta)
            .map_err(|e| EngineError::new(ErrorKind::File, format!("'{}': {e}", entry.name())))?;
        return Ok(ObjectMeta { location, ..remote.meta.clone() });
    }
    let path = entry.path.canonicalize().map_err(|e| dipper_node::files::cannot(&entry.path, "read", &e))?;
    let location = ObjectPath::from_absolute_path(&path)
        .map_err(|e| EngineError::new(ErrorKind::File, format!("'{}': {e}", entry.path.display())))?;
    Ok(ObjectMeta { location, last_modified: entry.modified.into(), size: entry.len, e_tag: None, version: None })
}

/// Returns a column's type in SQL, and marks instants, which SQL does not distinguish from local time.
fn spelled(field: &Field) -> String {
    let zoned = matches!(field.data_type(), DataType::Timestamp(_, Some(_)));
    format!("{}{}", type_text(field), if zoned { " of universal time" } else { "" })
}

/// Merges the columns of all files by name, with a type that holds the values of each.
///
/// # Errors
/// `File` if no type holds both, or if there are no files.
fn merged(files: &[&FileEntry], own: &[Fields]) -> Result<Fields> {
    let mut merged: Option<Fields> = None;
    for (file, own) in files.iter().zip(own) {
        // Metadata that writers attach to a column may differ from file to file.
        let plain = |field: &FieldRef| field.as_ref().clone().with_metadata(HashMap::new());
        let fields: Fields = own.iter().map(plain).collect();
        merged = Some(match merged {
            None => fields,
            Some(before) => united(&before, &spelled_as_in(&fields, &before)).map_err(|(before, own)| {
                let (name, before, own) = (before.name(), spelled(&before), spelled(&own));
                EngineError::new(
                    ErrorKind::File,
                    format!(
                        "'{}' does not fit the files before it: column '{name}' is {own} here and {before} there, which no type \
                         holds both; read the files apart, or declare the columns of a table over them",
                        file.name()
                    ),
                )
            })?,
        });
    }
    merged.ok_or_else(|| EngineError::new(ErrorKind::File, "no Parquet files to take columns from; declare them"))
}

/// Returns how the table's columns are read from one file: its schema, and the columns that have to be converted.
fn read_from(
    reader: &ObjectReader,
    spelled: &Fields,
    declared: &Fields,
    zone: Option<Zone>,
) -> (ForeignSchema, Vec<Conversion>) {
    let own = reader.fields();
    let places = reshape::places(own, spelled);
    let (mut fields, mut conversions) = (Vec::with_capacity(declared.len()), Vec::new());
    for (at, (field, place)) in declared.iter().zip(&places).enumerate() {
        let conversion = place.and_then(|place| Conversion::declared(at, &own[place], field, zone));
        let of_table = bare(field);
        fields.push(match (place, &conversion) {
            (Some(place), Some(_)) => {
                Arc::new(of_table.as_ref().clone().with_data_type(own[*place].data_type().clone()))
            }
            _ => of_table,
        });
        conversions.extend(conversion);
    }
    (ForeignSchema::new(&fields.into(), &places), conversions)
}

#[async_trait]
impl TableProvider for ParquetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        // Other filters reach the scan later, as physical expressions.
        Ok(self.files.pushdown(filters))
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let listed = self.files.files(&self.access, state, filters).map_err(EngineError::into_datafusion)?;
        if listed.is_empty() {
            let schema = match projection {
                Some(p) => Arc::new(self.schema.project(p)?),
                None => Arc::clone(&self.schema),
            };
            return Ok(Arc::new(EmptyExec::new(schema)));
        }
        let entries: Vec<_> = listed.iter().map(|(file, _)| file).collect();
        let remote = entries.iter().any(|file| file.remote.is_some());
        let requests = ScanRequests::of(state);
        let opened = self
            .footers
            .open(state, &entries, &requests, |reader| reader)
            .await
            .map_err(EngineError::into_datafusion)?;
        let mut files = Vec::with_capacity(opened.len());
        let mut total: Option<Statistics> = None;
        let projection = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        for (reader, (_, partition)) in opened.into_iter().zip(listed) {
            let named = self.file_schema.fields();
            let (columns, conversions) = read_from(&reader, self.spelled.fields(), &self.declared, self.zone);
            let statistics = statistics(&reader, named, &columns, &conversions, &projection)
                .map_err(EngineError::into_datafusion)?;
            total = Some(match total {
                None => statistics,
                Some(before) => Statistics::try_merge_iter([&before, &statistics], &self.file_schema)?,
            });
            let file = ParquetScanFile::new(reader, Arc::new(columns), partition);
            files.push(ParquetScanFile { conversions: conversions.into(), ..file });
        }
        let mut statistics = total.expect("there is at least one file");
        let unknown = Statistics::unknown_column(&self.schema);
        statistics.column_statistics.extend(unknown.into_iter().skip(self.file_schema.fields().len()));
        let spec = ParquetScanSpec {
            files,
            file_schema: Arc::clone(&self.file_schema),
            table_schema: Arc::clone(&self.schema),
            statistics,
            remote,
            requests,
        };
        let workers = state.config().target_partitions();
        Ok(Arc::new(ParquetScanExec::new(Arc::new(spec), projection, limit, workers)?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;

    use super::*;

    fn fields(names: &[&str]) -> Fields {
        names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect()
    }

    #[test]
    fn columns_are_spelled_as_files_spell_them() {
        let own = fields(&["A", "a", "b"]);
        assert_eq!(spelled_as_in(&fields(&["B", "c", "a"]), &own), fields(&["b", "c", "a"]));
    }
}
