//! DataFusion table providers for Iceberg tables.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema as ArrowSchema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use dipper_exec::io::{self, ScanRequests};
use dipper_exec::on_cpu::on_cpu;
use dipper_exec::scan::{ParquetScanExec, ParquetScanFile, ParquetScanSpec};
use dipper_iceberg::deletes::{self, Positions};
use dipper_iceberg::manifest::FileEntry;
use dipper_iceberg::metadata::{At, Snapshot, TableMetadata};
use dipper_iceberg::reshape;
use dipper_iceberg::scan::{self, Plan, Task};
use dipper_iceberg::schema::Schema;
use dipper_iceberg::transform::Transform;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_node::passing::passes;
use dipper_store::segment::{Fetcher, ForeignFile, ObjectReader, ScanIo, check_claims};
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::ObjectStoreExt;
use roaring::RoaringBitmap;

use super::Places;
use super::columns::{FileColumns, TableColumns};
use super::deleted::{NotDeleted, Values};
use super::filters::{predicate, scalar};
use crate::files::by_the_clock;
use crate::read::ReadContext;

/// Files whose footers are read concurrently.
const OPENED_AT_ONCE: usize = 32;
/// Delete files that are read concurrently.
const DELETES_AT_ONCE: usize = 8;

/// Makes a provider for the table at one of its snapshots.
pub fn provider(
    context: &ReadContext,
    places: Places,
    metadata: Arc<TableMetadata>,
    at: &At,
) -> Result<Arc<dyn TableProvider>> {
    let (snapshot, schema) = metadata.at(at)?;
    let (snapshot, schema) = (snapshot.cloned(), schema.clone());
    let arrow = Arc::new(ArrowSchema::new(schema.arrow_fields(context.string_view)));
    let table = IcebergTable { context: context.clone(), places, metadata, snapshot, schema, arrow };
    by_the_clock(context, Arc::new(table), |f| matches!(f.data_type(), DataType::Timestamp(_, Some(_))))
}

struct IcebergTable {
    context: ReadContext,
    places: Places,
    metadata: Arc<TableMetadata>,
    snapshot: Option<Snapshot>,
    schema: Schema,
    arrow: SchemaRef,
}

impl std::fmt::Debug for IcebergTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.metadata.metadata_location)
    }
}

/// The planned files of a scan, and its deletes, which have been read already.
struct Work {
    plan: Plan,
    /// Positional deletes, by path of the delete file and position of the blob in it.
    positions: HashMap<DeleteKey, Positions>,
    /// Equality deletes, by path of the delete file.
    equality: HashMap<String, EqualityDelete>,
}

impl Work {
    /// Returns the row numbers of a file that positional deletes list.
    fn deleted(&self, task: &Task) -> Result<RoaringBitmap> {
        let mut all = RoaringBitmap::new();
        for deleted in task.positions.iter().filter_map(|d| self.positions.get(&key(d))?.get(&task.file.path)) {
            for (high, numbers) in deleted.bitmaps() {
                if high > 0 {
                    let path = &task.file.path;
                    return Err(EngineError::unsupported(format!("'{path}': a deleted row beyond the first 2^32")));
                }
                all |= numbers;
            }
        }
        Ok(all)
    }
}

type DeleteKey = (String, Option<(u64, u64)>);

fn key(file: &FileEntry) -> DeleteKey {
    (file.path.clone(), file.blob)
}

/// The columns that an equality delete compares, and the deleted values.
#[derive(Clone)]
struct EqualityDelete {
    fields: Vec<FieldRef>,
    values: Arc<Values>,
}

impl IcebergTable {
    /// Reads manifests and delete files, on the threads that wait for stores.
    async fn work(&self, filters: &[Expr]) -> Result<Work> {
        let Some(snapshot) = self.snapshot.clone() else {
            return Ok(Work { plan: Plan::default(), positions: HashMap::new(), equality: HashMap::new() });
        };
        let predicate = predicate(filters, &self.schema);
        let (places, metadata, schema) = (self.places.clone(), Arc::clone(&self.metadata), self.schema.clone());
        let views = self.context.string_view;
        on_cpu(&self.context.lake.io, async move {
            let (places, metadata, schema) = (&places, &*metadata, &schema);
            let plan = places.sound(|| scan::plan(places, metadata, &snapshot, schema, &predicate).boxed()).await?;
            let mut files: HashMap<DeleteKey, Arc<FileEntry>> = HashMap::new();
            for delete in plan.tasks.iter().flat_map(|t| t.positions.iter().chain(&t.equality)) {
                files.entry(key(delete)).or_insert_with(|| Arc::clone(delete));
            }
            let (equality, positions): (Vec<_>, Vec<_>) =
                files.into_values().partition(|f| f.content == dipper_iceberg::manifest::Content::Equality);
            let positions = futures::stream::iter(positions)
                .map(|f| async move {
                    let read = places.sound(|| deletes::positions(places, &f, check_claims).boxed()).await?;
                    Ok::<_, EngineError>((key(&f), read))
                })
                .buffer_unordered(DELETES_AT_ONCE)
                .try_collect()
                .await?;
            let equality = futures::stream::iter(equality)
                .map(|f| async move {
                    let fields = equality_fields(metadata, schema, &f, views)?;
                    let batches = places.sound(|| deletes::equality(places, &f, &fields, check_claims).boxed()).await?;
                    let values = Arc::new(Values::new(&fields, &batches)?);
                    Ok::<_, EngineError>((f.path.clone(), EqualityDelete { fields, values }))
                })
                .buffer_unordered(DELETES_AT_ONCE)
                .try_collect()
                .await?;
            Ok(Work { plan, positions, equality })
        })
        .await
    }

    /// Fails if one of these columns has a type that is not supported.
    fn check_readable(&self, projection: &[usize]) -> Result<()> {
        let columns = projection.iter().map(|at| &self.schema.fields[*at]);
        match columns.filter_map(|column| Some((&column.name, column.unsupported_type()?))).next() {
            None => Ok(()),
            Some((name, written)) => Err(EngineError::unsupported(format!(
                "column '{name}' is of Iceberg's type {written}, which is not read; name the other columns, or write \
                 SELECT * EXCEPT(`{name}`)"
            ))),
        }
    }

    /// Plans one scan over files that have the same partition spec and the same equality deletes. `None` if they have
    /// no rows.
    async fn group(
        &self,
        state: &dyn Session,
        projection: &[usize],
        work: &Work,
        tasks: &[&Task],
        limit: Option<usize>,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(first) = tasks.first() else { return Ok(None) };
        let limit = limit.filter(|_| first.equality.is_empty());
        let constants = self.constants(tasks);
        let is_constant = |f: &FieldRef| constants.iter().any(|(c, _)| c.name() == f.name());
        let columns = self.arrow.fields().iter().zip(&self.schema.fields);
        let readable = columns.filter(|(_, column)| column.unsupported_type().is_none()).map(|(field, _)| field);
        let mut file_fields: Vec<FieldRef> = readable.filter(|f| !is_constant(f)).cloned().collect();
        // Add columns that deletes compare, but that the table has dropped or does not read from files.
        for field in first.equality.iter().flat_map(|d| &work.equality[&d.path].fields) {
            let id = reshape::field_id(field);
            let known = file_fields.iter().chain(constants.iter().map(|(c, _)| c)).any(|f| reshape::field_id(f) == id);
            if !known {
                let name = format!("\u{1}{}", id.unwrap_or_default());
                file_fields.push(Arc::new(field.as_ref().clone().with_name(name)));
            }
        }
        let all: Vec<FieldRef> = file_fields.iter().chain(constants.iter().map(|(c, _)| c)).cloned().collect();
        let position = |id: Option<i32>| all.iter().position(|f| reshape::field_id(f) == id);
        let place = |field: &FieldRef| {
            position(reshape::field_id(field)).ok_or_else(|| {
                EngineError::new(ErrorKind::Internal, format!("column '{}' is in no file schema", field.name()))
            })
        };
        let mut read = Vec::new();
        for at in projection {
            read.push(place(&self.arrow.fields()[*at])?);
        }
        let wanted = read.len();
        for field in first.equality.iter().flat_map(|d| &work.equality[&d.path].fields) {
            let at = place(field)?;
            if !read.contains(&at) {
                read.push(at);
            }
        }
        let mut rows = 0u64;
        let mut exact = first.equality.is_empty();
        let mut left = Vec::new();
        for task in tasks {
            if limit.is_some_and(|limit| rows >= limit as u64) {
                break;
            }
            let records = task.file.records.max(0) as u64;
            let deleted = work.deleted(task)?;
            let gone = records.checked_sub(1).map_or(0, |last| deleted.rank(u32::try_from(last).unwrap_or(u32::MAX)));
            if gone >= records {
                continue;
            }
            exact &= gone == 0;
            rows += records - gone;
            left.push((*task, deleted));
        }
        if left.is_empty() {
            return Ok(None);
        }
        let fields = file_fields.into();
        let table = TableColumns {
            fields,
            mapping: self.metadata.properties.get("schema.name-mapping.default").map(String::as_str),
            schema: &self.schema,
        };
        let requests = ScanRequests::of(state);
        let opened = self.open(&left, &requests).await?;
        let remote = opened.iter().any(|file| file.remote);
        let mut files = Vec::with_capacity(opened.len());
        for (file, (task, deleted)) in opened.into_iter().zip(left) {
            let FileColumns { columns, conversions } = table.of(&file.reader)?;
            let partition = constants.iter().map(|(_, values)| values[&task.file.path].clone()).collect();
            files.push(ParquetScanFile {
                deleted: (!deleted.is_empty()).then(|| Arc::new(deleted)),
                conversions: conversions.into(),
                ..ParquetScanFile::new(file.reader, Arc::new(columns), partition)
            });
        }
        let file_schema = Arc::new(ArrowSchema::new(table.fields));
        let table_schema = Arc::new(ArrowSchema::new(all.clone()));
        let mut statistics = Statistics::new_unknown(&table_schema);
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        statistics.num_rows = if exact { Precision::Exact(rows) } else { Precision::Inexact(rows) };
        let spec = ParquetScanSpec { files, file_schema, table_schema, statistics, remote, requests };
        let workers = state.config().target_partitions();
        let scan = ParquetScanExec::new(Arc::new(spec), read.clone(), limit, workers)?;
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(scan);
        for delete in &first.equality {
            let EqualityDelete { fields, values } = &work.equality[&delete.path];
            let columns = fields
                .iter()
                .map(|f| {
                    let at = place(f)?;
                    let in_scan = read.iter().position(|r| *r == at).unwrap_or_default();
                    Ok(Arc::new(Column::new(all[at].name(), in_scan)) as Arc<dyn PhysicalExpr>)
                })
                .collect::<Result<Vec<_>>>()?;
            let filter = Arc::new(NotDeleted { columns, values: Arc::clone(values) });
            plan = Arc::new(FilterExec::try_new(filter, plan)?);
        }
        if read.len() > wanted {
            let columns = plan.schema().fields()[..wanted]
                .iter()
                .enumerate()
                .map(|(at, f)| (Arc::new(Column::new(f.name(), at)) as Arc<dyn PhysicalExpr>, f.name().clone()))
                .collect::<Vec<_>>();
            plan = Arc::new(ProjectionExec::try_new(columns, plan)?);
        }
        Ok(Some(plan))
    }

    /// Opens files, several at a time; files that are open already are reused.
    async fn open(&self, files: &[(&Task, RoaringBitmap)], requests: &ScanRequests) -> Result<Vec<Opened>> {
        let readers = &self.context.readers;
        let views = self.context.string_view;
        let io = Arc::new(ScanIo::new(false, false).with_extensions(requests.extensions.clone()));
        let mut fetchers: HashMap<String, Arc<Fetcher>> = HashMap::new();
        let mut opening = Vec::with_capacity(files.len());
        for (task, _) in files {
            let path = &task.file.path;
            let failed = |reason: String| EngineError::new(ErrorKind::File, format!("'{path}': {reason}"));
            let told = u64::try_from(task.file.bytes).unwrap_or(0);
            let (store, location) = dipper_iceberg::Locations::resolve(&self.places, path).map_err(failed)?;
            let name = self.places.store_name(path)?;
            let remote = name.is_some();
            let place = name.unwrap_or_default();
            let fetcher = fetchers.entry(place.clone()).or_insert_with(|| match remote {
                false => Fetcher::local(Arc::clone(&store)),
                true => Fetcher::remote(Arc::clone(&store), self.context.stores.io().clone(), io::anew()),
            });
            // Iceberg never writes a file twice under one name.
            let (tag, modified) = (String::new(), None);
            let mut file = ForeignFile { path: location, name: path.clone(), size: told, tag, modified, views };
            let (fetcher, io) = (Arc::clone(fetcher), Arc::clone(&io));
            let threads = self.context.lake.io.clone();
            opening.push(async move {
                let opened = match told {
                    0 => None,
                    _ => Some(readers.get_foreign(&place, &fetcher, &file, Some(&io)).await),
                };
                let reader = match opened {
                    Some(Ok(reader)) => reader,
                    // Some writers put a wrong size into the manifest; only the store knows the right one.
                    refused => {
                        let at = file.path.clone();
                        let meta = on_cpu(&threads, async move { Ok(store.head(&at).await) }).await?;
                        file.size = meta.as_ref().map(|meta| meta.size).ok().filter(|size| *size != told).unwrap_or(0);
                        match (refused, file.size, meta) {
                            (Some(Err(e)), 0, _) => return Err(e.into()),
                            (_, 0, Err(e)) if passes(&e) => {
                                let message = format!("cannot read '{}': {e}", file.name);
                                return Err(EngineError::of_store(ErrorKind::File, message, &e));
                            }
                            (_, 0, _) => {
                                return Err(EngineError::new(
                                    ErrorKind::File,
                                    format!("'{}' is empty or gone", file.name),
                                ));
                            }
                            _ => readers.get_foreign(&place, &fetcher, &file, Some(&io)).await?,
                        }
                    }
                };
                Ok::<_, EngineError>(Opened { reader, remote })
            });
        }
        futures::stream::iter(opening).buffered(OPENED_AT_ONCE).try_collect().await
    }

    /// Returns the columns whose values are constant in each file because they are identity partition columns, with the
    /// value for each file. Files that were added to the table as they were (migrated from Hive) lack these columns.
    fn constants(&self, tasks: &[&Task]) -> Vec<(FieldRef, HashMap<String, ScalarValue>)> {
        let Some(spec) = tasks.first().and_then(|t| self.metadata.specs.get(&t.file.spec_id)) else {
            return Vec::new();
        };
        let mut found: Vec<(FieldRef, HashMap<String, ScalarValue>)> = Vec::new();
        for (at, field) in spec.fields.iter().enumerate().filter(|(_, f)| f.transform == Transform::Identity) {
            let column = self.arrow.fields().iter().find(|f| reshape::field_id(f) == Some(field.source_id));
            let Some(column) = column.filter(|c| found.iter().all(|(f, _)| f.name() != c.name())) else { continue };
            let value = |t: &&Task| {
                let value = t.file.partition.get(at)?.as_ref();
                Some((t.file.path.clone(), scalar(value, column.data_type())?))
            };
            // If a value cannot be converted, the column is read from the files.
            if let Some(values) = tasks.iter().map(value).collect::<Option<HashMap<_, _>>>() {
                found.push((Arc::clone(column), values));
            }
        }
        found
    }
}

/// An open data file.
struct Opened {
    reader: Arc<ObjectReader>,
    /// Whether it is in object storage or HDFS.
    remote: bool,
}

/// Returns the columns that an equality delete compares, with the types that they have in the table.
fn equality_fields(metadata: &TableMetadata, schema: &Schema, file: &FileEntry, views: bool) -> Result<Vec<FieldRef>> {
    let one = |id: &i32| {
        let now = schema.fields.iter().find(|f| f.id == *id);
        let ever = || metadata.schemas.iter().rev().find_map(|s| s.fields.iter().find(|f| f.id == *id));
        let field = now.or_else(ever).ok_or_else(|| {
            EngineError::unsupported(format!(
                "'{}': an equality delete by field {id}, which is no column of the table",
                file.path
            ))
        })?;
        Ok(field.to_arrow(views))
    };
    if file.equality_ids.is_empty() {
        return Err(EngineError::new(ErrorKind::File, format!("'{}': an equality delete without columns", file.path)));
    }
    file.equality_ids.iter().map(one).collect()
}

#[async_trait]
impl TableProvider for IcebergTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.arrow)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> DfResult<Vec<TableProviderFilterPushDown>> {
        // Filters prune files here; they drop rows where the plan's filter is pushed into the Parquet scan.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let all: Vec<usize> = (0..self.arrow.fields().len()).collect();
        let projection = projection.unwrap_or(&all);
        self.check_readable(projection).map_err(EngineError::into_datafusion)?;
        let work = self.work(filters).await.map_err(EngineError::into_datafusion)?;
        let mut groups: BTreeMap<(i32, Vec<&str>), Vec<&Task>> = BTreeMap::new();
        for task in &work.plan.tasks {
            let mut equality: Vec<&str> = task.equality.iter().map(|d| d.path.as_str()).collect();
            equality.sort_unstable();
            groups.entry((task.file.spec_id, equality)).or_default().push(task);
        }
        tracing::debug!(
            manifests = work.plan.manifests.0,
            manifests_read = work.plan.manifests.1,
            files = work.plan.files,
            files_read = work.plan.tasks.len(),
            groups = groups.len(),
            "iceberg scan of {}",
            self.metadata.metadata_location
        );
        let mut plans = Vec::new();
        for tasks in groups.values() {
            let plan = self.group(state, projection, &work, tasks, limit).await;
            plans.extend(plan.map_err(EngineError::into_datafusion)?);
        }
        if plans.is_empty() {
            return Ok(Arc::new(EmptyExec::new(Arc::new(self.arrow.project(projection)?))));
        }
        UnionExec::try_new(plans)
    }
}
