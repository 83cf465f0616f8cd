//! Iceberg tables as DataFusion scans them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema as ArrowSchema, SchemaRef};
use arrow::error::ArrowError;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::object_store::ObjectStoreUrl;
use datafusion::datasource::physical_plan::parquet::ParquetRowSelection;
use datafusion::datasource::physical_plan::{FileGroup, FileGroupPartitioner, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};
use dipper_iceberg::deletes::{self, Positions};
use dipper_iceberg::manifest::FileEntry;
use dipper_iceberg::metadata::{At, Snapshot, TableMetadata};
use dipper_iceberg::reshape;
use dipper_iceberg::scan::{self, Plan, Task};
use dipper_iceberg::schema::Schema;
use dipper_iceberg::transform::Transform;
use dipper_store::segment::check_claims;
use futures::{StreamExt, TryStreamExt};
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use roaring::RoaringTreemap;

use super::Places;
use super::adapter::ByFieldId;
use super::deleted::{NotDeleted, Values, selection};
use super::filters::{predicate, scalar};
use crate::error::{EngineError, ErrorKind, Result};
use crate::pass::{PassExec, Told};
use crate::query::{QueryContext, on_cpu};
use crate::tables::by_the_clock;

/// Delete files that are read at a time.
const DELETES_AT_ONCE: usize = 8;

/// The table at one of its states.
pub(crate) fn provider(
    context: &Arc<QueryContext>,
    places: Places,
    metadata: Arc<TableMetadata>,
    at: &At,
) -> Result<Arc<dyn TableProvider>> {
    let (snapshot, schema) = metadata.at(at)?;
    let (snapshot, schema) = (snapshot.cloned(), schema.clone());
    let arrow = Arc::new(ArrowSchema::new(schema.arrow_fields(context.variables.string_view())?));
    let table = IcebergTable { context: Arc::clone(context), places, metadata, snapshot, schema, arrow };
    by_the_clock(context, Arc::new(table), |f| matches!(f.data_type(), DataType::Timestamp(_, Some(_))))
}

struct IcebergTable {
    context: Arc<QueryContext>,
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

/// What a scan reads, its deletes read already.
struct Work {
    plan: Plan,
    /// By path and place in the file.
    positions: HashMap<DeleteKey, Positions>,
    /// By path.
    equality: HashMap<String, EqualityDelete>,
}

type DeleteKey = (String, Option<(u64, u64)>);

fn key(file: &FileEntry) -> DeleteKey {
    (file.path.clone(), file.blob)
}

/// The columns that an equality delete compares, and the values.
#[derive(Clone)]
struct EqualityDelete {
    fields: Vec<FieldRef>,
    values: Arc<Values>,
}

impl IcebergTable {
    /// Reads manifests and deletes, on the threads that wait for stores.
    async fn work(&self, filters: &[Expr]) -> Result<Work> {
        let Some(snapshot) = self.snapshot.clone() else {
            return Ok(Work { plan: Plan::default(), positions: HashMap::new(), equality: HashMap::new() });
        };
        let predicate = predicate(filters, &self.schema);
        let (places, metadata, schema) = (self.places.clone(), Arc::clone(&self.metadata), self.schema.clone());
        let views = self.context.variables.string_view();
        on_cpu(self.context.engine.io(), async move {
            let (places, metadata, schema) = (&places, &*metadata, &schema);
            let plan = places.checked(scan::plan(places, metadata, &snapshot, schema, &predicate).await)?;
            let mut files: HashMap<DeleteKey, Arc<FileEntry>> = HashMap::new();
            for delete in plan.tasks.iter().flat_map(|t| t.positions.iter().chain(&t.equality)) {
                files.entry(key(delete)).or_insert_with(|| Arc::clone(delete));
            }
            let (equality, positions): (Vec<_>, Vec<_>) =
                files.into_values().partition(|f| f.content == dipper_iceberg::manifest::Content::Equality);
            let positions = futures::stream::iter(positions)
                .map(|f| async move {
                    let read = deletes::positions(places, &f, check_claims).await;
                    Ok::<_, EngineError>((key(&f), places.checked(read)?))
                })
                .buffer_unordered(DELETES_AT_ONCE)
                .try_collect()
                .await?;
            let equality = futures::stream::iter(equality)
                .map(|f| async move {
                    let fields = equality_fields(metadata, schema, &f, views)?;
                    let batches = places.checked(deletes::equality(places, &f, &fields, check_claims).await)?;
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

    /// One scan over files of one partition spec that have the same equality deletes, in at most so many parts where they
    /// are in object storage.
    async fn group(
        &self,
        state: &dyn Session,
        projection: &[usize],
        work: &Work,
        tasks: &[&Task],
        limit: Option<usize>,
        parts: usize,
    ) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let Some(first) = tasks.first() else { return Ok(None) };
        let constants = self.constants(tasks);
        let is_constant = |f: &FieldRef| constants.iter().any(|(c, _)| c.name() == f.name());
        let mut file_fields: Vec<FieldRef> = self.arrow.fields().iter().filter(|f| !is_constant(f)).cloned().collect();
        // Columns that deletes compare and that the table does not have any more.
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
        let mut files = Vec::new();
        let mut paths = HashMap::new();
        let mut rows = 0u64;
        let mut exact = first.equality.is_empty();
        for task in tasks {
            let records = task.file.records.max(0) as u64;
            let mut bits = RoaringTreemap::new();
            for delete in &task.positions {
                if let Some(deleted) = work.positions.get(&key(delete)).and_then(|p| p.get(&task.file.path)) {
                    bits |= deleted;
                }
            }
            let mut file = self.file(&task.file)?;
            file.partition_values = constants.iter().map(|(_, values)| values[&task.file.path].clone()).collect();
            if bits.is_empty() {
                rows += records;
            } else {
                let Some(left) = selection(&bits, records) else { continue };
                rows += left.row_count() as u64;
                exact = false;
                file = file.with_extension(ParquetRowSelection::new(left));
            }
            paths.insert(file.object_meta.location.clone(), task.file.path.clone());
            files.push(file);
        }
        if files.is_empty() {
            return Ok(None);
        }
        let table_schema = TableSchema::builder(Arc::new(ArrowSchema::new(file_fields)))
            .with_table_partition_cols(constants.iter().map(|(c, _)| Arc::clone(c)).collect::<Vec<_>>())
            .build();
        let mut statistics = Statistics::new_unknown(table_schema.table_schema());
        let rows = usize::try_from(rows).unwrap_or(usize::MAX);
        statistics.num_rows = if exact { Precision::Exact(rows) } else { Precision::Inexact(rows) };
        let source = ParquetSource::new(table_schema);
        let url = self.store(state, &first.file.path)?;
        let (groups, partitioning) = match limit.is_none() && url != ObjectStoreUrl::local_filesystem() {
            true => {
                let groups = far_parts(files, parts);
                let partitioning = Partitioning::UnknownPartitioning(groups.len());
                (groups, Some(partitioning))
            }
            false => (FileGroup::new(files).split_files(state.config().target_partitions()), None),
        };
        // Those of local files are the optimizer's.
        let told = match partitioning {
            Some(_) => self.told(&groups, &paths),
            None => self.told(&[groups.iter().flat_map(FileGroup::files).cloned().collect()], &paths),
        };
        let adapter = ByFieldId {
            mapping: self.metadata.properties.get("schema.name-mapping.default").cloned(),
            defaults: self.schema.fields.iter().filter_map(|f| Some((f.id, f.initial_default.clone()?))).collect(),
        };
        let config = FileScanConfigBuilder::new(url, Arc::new(source))
            .with_file_groups(groups)
            .with_output_partitioning(partitioning)
            .with_statistics(statistics)
            .with_expr_adapter(Some(Arc::new(adapter)))
            .with_projection_indices(Some(read.clone()))?
            .with_limit(limit.filter(|_| first.equality.is_empty()))
            .build();
        let mut options = state.table_options().parquet.clone();
        options.global = state.config_options().execution.parquet.clone();
        let scan = ParquetFormat::default().with_options(options).create_physical_plan(state, config).await?;
        let mut plan: Arc<dyn ExecutionPlan> = Arc::new(PassExec::iceberg_scan(scan, told));
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

    /// Columns whose values are those of the files' partitions, with the value for each file. Files that were added to
    /// the table as they were (migrated from Hive) do not have them.
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
            // Where a value is not understood the column is read from the files.
            if let Some(values) = tasks.iter().map(value).collect::<Option<HashMap<_, _>>>() {
                found.push((Arc::clone(column), values));
            }
        }
        found
    }

    /// Says of an error in the bytes of files which files those are, and keeps nothing of them: once one is repaired it is
    /// read anew. They are those of the partition that failed, or of the first where all are in one; `paths` has the names
    /// of what scans call otherwise.
    fn told(&self, partitions: &[FileGroup], paths: &HashMap<ObjectPath, String>) -> Told {
        let names = |group: &FileGroup| -> Vec<(ObjectPath, String)> {
            let own = group.files().iter().map(|file| &file.object_meta.location);
            own.map(|at| (at.clone(), paths[at].clone())).collect()
        };
        let (places, partitions) = (self.places.clone(), partitions.iter().map(names).collect::<Vec<_>>());
        Arc::new(move |e, partition, context| {
            if !is_in_bytes(&e) {
                return e;
            }
            let files = partitions.get(partition).unwrap_or(&partitions[0]);
            let footers = context.runtime_env().cache_manager.get_file_metadata_cache();
            for (at, path) in files {
                places.forget(path);
                footers.remove(at);
            }
            let which = match &files[..] {
                [(_, one)] => format!("'{one}'"),
                all => format!("one of {} files ('{}' is the first)", all.len(), all[0].1),
            };
            EngineError::new(ErrorKind::File, format!("{which} cannot be read as Parquet: {e}")).into_datafusion()
        })
    }

    /// The store of a file, where DataFusion finds it.
    fn store(&self, state: &dyn Session, path: &str) -> Result<ObjectStoreUrl> {
        let url = self.places.url(path)?;
        if url != ObjectStoreUrl::local_filesystem() {
            let failed = |reason: String| EngineError::new(ErrorKind::File, format!("'{path}': {reason}"));
            let (store, _) = self.places.scanned(path).map_err(failed)?;
            state.runtime_env().register_object_store(url.as_ref(), store);
        }
        Ok(url)
    }

    fn file(&self, entry: &FileEntry) -> Result<PartitionedFile> {
        let failed = |reason: String| EngineError::new(ErrorKind::File, format!("'{}': {reason}", entry.path));
        let (_, location) = self.places.scanned(&entry.path).map_err(failed)?;
        let size = u64::try_from(entry.bytes).ok().filter(|size| *size > 0);
        let size = size.ok_or_else(|| failed(format!("a size of {} bytes", entry.bytes)))?;
        // Files are never written twice under one name, so when does not matter.
        let last_modified = std::time::SystemTime::UNIX_EPOCH.into();
        Ok(PartitionedFile::new_from_meta(ObjectMeta { location, last_modified, size, e_tag: None, version: None }))
    }
}

/// Whether a scan whose requests were answered failed by what is in a file: Parquet's reader says so, and it was no filter
/// that failed on its rows.
fn is_in_bytes(e: &DataFusionError) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(e);
    let mut found = false;
    while let Some(e) = cause {
        found |= matches!(e.downcast_ref::<DataFusionError>(), Some(DataFusionError::ParquetError(_)));
        match e.downcast_ref::<ArrowError>() {
            None | Some(ArrowError::ExternalError(_)) => {}
            Some(ArrowError::ParquetError(_)) => found = true,
            Some(_) => return false,
        }
        cause = e.source();
    }
    found
}

/// Parts of a table's files in object storage that are read at the same time, or a part for each of its scans. DataFusion's reader has one request under way for each.
const FAR_PARTS_MAX: usize = 16;
/// Bytes of such a part at least.
const FAR_PART_BYTES: u64 = 1 << 20;
/// Bytes of the first request of a part, which most footers are in.
const FOOTER_BYTES: usize = 64 << 10;

/// Files in parts, so that requests of some are under way while others are decoded. The optimizer would make as many parts
/// as there are cores of them, unless their number is said to be the partitioning of the scan.
fn far_parts(files: Vec<PartitionedFile>, most: usize) -> Vec<FileGroup> {
    let bytes: u64 = files.iter().map(|file| file.object_meta.size).sum();
    let parts = usize::try_from(bytes / FAR_PART_BYTES).unwrap_or(usize::MAX).max(files.len()).min(most);
    // Each part asks for its file's footer.
    let files = files.into_iter().map(|file| file.with_metadata_size_hint(FOOTER_BYTES)).collect();
    let all = [FileGroup::new(files)];
    let split = FileGroupPartitioner::new().with_target_partitions(parts).with_repartition_file_min_size(0);
    split.repartition_file_groups(&all).unwrap_or_else(|| all.into())
}

/// The columns that an equality delete compares, in the types that the table has them in.
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
        Ok(field.to_arrow(views)?)
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
        // They leave out files here, and rows where the plan's filter is pushed into the Parquet scan.
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let work = self.work(filters).await.map_err(EngineError::into_datafusion)?;
        let all: Vec<usize> = (0..self.arrow.fields().len()).collect();
        let projection = projection.unwrap_or(&all);
        // One scan reads from one store.
        let mut groups: BTreeMap<(i32, String, Vec<&str>), Vec<&Task>> = BTreeMap::new();
        for task in &work.plan.tasks {
            let mut equality: Vec<&str> = task.equality.iter().map(|d| d.path.as_str()).collect();
            equality.sort_unstable();
            let url = self.places.url(&task.file.path).map_err(EngineError::into_datafusion)?;
            groups.entry((task.file.spec_id, url.as_str().to_string(), equality)).or_default().push(task);
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
        let parts = FAR_PARTS_MAX.div_ceil(groups.len().max(1));
        for tasks in groups.values() {
            let plan = self.group(state, projection, &work, tasks, limit, parts).await;
            plans.extend(plan.map_err(EngineError::into_datafusion)?);
        }
        if plans.is_empty() {
            return Ok(Arc::new(EmptyExec::new(Arc::new(self.arrow.project(projection)?))));
        }
        UnionExec::try_new(plans)
    }
}
