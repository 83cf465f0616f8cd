//! [`ParquetScanExec`]: the plan node that reads Parquet files of others, with the same code that reads native tables.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{ArrayRef, BooleanBufferBuilder};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ScalarValue, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use dipper_node::error::{EngineError, Result};
use dipper_store::segment::{
    ForeignSchema, GroupScan, ObjectReader, Scan, ScanIo, ScanSchema, SegmentError, ZoneStats,
};
use parking_lot::Mutex;
use parquet::bloom_filter::Sbbf;
use roaring::RoaringBitmap;

use super::converted::{Conversion, converted};
use super::leaf;
use super::morsels::{FileMorsel, Queue};
use super::prune::{GroupPruner, Kept, Zones, keeps};
use super::worker::{ScanMetrics, ScanRun, Worker, depth, first_rows, rows_of};
use super::{GroupFilter, ScanFilter, narrowed, over_table, profile, take_filters};
use crate::io::ScanRequests;

/// The largest LIMIT for which a scan reads only the wanted rows, one request after the other.
const FEW_ROWS: usize = 8192;

/// A file of a table, and what its directory or the table's metadata say of it.
#[derive(Clone)]
pub struct ParquetScanFile {
    /// The open file.
    pub reader: Arc<ObjectReader>,
    /// The table's columns as they are in this file.
    pub columns: Arc<ForeignSchema>,
    /// Values of the table's partition columns.
    pub partition: Arc<[ScalarValue]>,
    /// Numbers of the deleted rows in the file.
    pub deleted: Option<Arc<RoaringBitmap>>,
    /// Columns that are read as they are in the file, and then converted.
    pub conversions: Arc<[Conversion]>,
}

impl fmt::Debug for ParquetScanFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ParquetScanFile").field("file", &self.reader.name()).finish_non_exhaustive()
    }
}

impl ParquetScanFile {
    /// Makes a file without deleted rows whose reader gives the values of the table.
    pub fn new(reader: Arc<ObjectReader>, columns: Arc<ForeignSchema>, partition: Arc<[ScalarValue]>) -> Self {
        ParquetScanFile { reader, columns, partition, deleted: None, conversions: Arc::default() }
    }

    /// Returns the deleted rows of a row group, counted from its first row, ascending.
    pub(super) fn deleted_in(&self, group: usize) -> impl Iterator<Item = usize> {
        let (_, first) = self.reader.group_segment(group);
        let end = first.saturating_add(self.reader.group_rows(group) as u32);
        let deleted = self.deleted.as_ref().map(|deleted| deleted.range(first..end));
        deleted.into_iter().flatten().map(move |row| (row - first) as usize)
    }

    /// Returns how many first rows of a row group contain `wanted` rows that are not deleted, or all its rows if it has
    /// fewer.
    fn first_with(&self, group: usize, wanted: usize) -> usize {
        let (mut end, mut left) = (0, wanted);
        for row in self.deleted_in(group) {
            if row - end >= left {
                break;
            }
            (left, end) = (left - (row - end), row + 1);
        }
        end.saturating_add(left).min(self.reader.group_rows(group))
    }

    /// Returns how a column is converted; `None` if the reader gives the values of the table.
    fn conversion(&self, column: usize) -> Option<&Conversion> {
        self.conversions.iter().find(|conversion| conversion.column == column)
    }

    /// Returns a reader that reads damaged data once more from the store itself; `None` if the error is no damage. An
    /// answer of the store can be wrong where the file is not, and the data cache would keep it.
    fn anew(&self, e: &SegmentError) -> Option<Arc<ObjectReader>> {
        if !e.is_damage() {
            return None;
        }
        // Distrust the open reader, too: its footer, and what was cached from it, may be wrong.
        self.reader.distrust();
        self.reader.anew()
    }
}

/// Everything about a scan that is known when it is planned.
#[derive(Debug)]
pub struct ParquetScanSpec {
    /// The files, in the order of the table.
    pub files: Vec<ParquetScanFile>,
    /// Columns of the files, with the types of the table.
    pub file_schema: SchemaRef,
    /// Columns of the table: those of the files, then those of the partitions.
    pub table_schema: SchemaRef,
    /// Statistics of the table's columns.
    pub statistics: Statistics,
    /// Whether the files are in object storage, where each request has a high latency.
    pub remote: bool,
    /// The requests of the scan.
    pub requests: ScanRequests,
}

/// The origin of rows that are being decoded.
#[derive(Debug)]
struct Opened {
    /// Index of the file.
    file: u32,
    /// Whether they were read again from the store itself because they were damaged.
    anew: bool,
}

/// Scans Parquet files; all partitions drain one queue of row groups.
#[derive(Debug)]
pub struct ParquetScanExec {
    spec: Arc<ParquetScanSpec>,
    /// The returned columns, by their indexes in the table.
    projection: Vec<usize>,
    /// Filters over the table's columns.
    predicates: Vec<Arc<dyn PhysicalExpr>>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    queue: Arc<Queue>,
    io: Arc<ScanIo>,
    /// Made by the first partition that runs.
    run: OnceLock<Arc<Run>>,
}

impl ParquetScanExec {
    /// Makes a scan that returns the columns `projection` with at most `workers` partitions. `fetch` is the LIMIT.
    pub fn new(
        spec: Arc<ParquetScanSpec>,
        projection: Vec<usize>,
        fetch: Option<usize>,
        workers: usize,
    ) -> DfResult<Self> {
        let schema = Arc::new(spec.table_schema.project(&projection)?);
        let (queue, io) = queue(&spec, &[], fetch);
        let properties =
            leaf::properties(schema, Partitioning::UnknownPartitioning(queue.tasks.len().clamp(1, workers.max(1))));
        Ok(ParquetScanExec {
            spec,
            projection,
            predicates: Vec::new(),
            fetch,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            queue,
            io,
            run: OnceLock::new(),
        })
    }

    fn with(&self, predicates: Vec<Arc<dyn PhysicalExpr>>, fetch: Option<usize>) -> Self {
        let (queue, io) = queue(&self.spec, &predicates, fetch);
        ParquetScanExec {
            spec: Arc::clone(&self.spec),
            projection: self.projection.clone(),
            predicates,
            fetch,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            queue,
            io,
            run: OnceLock::new(),
        }
    }

    /// Returns this scan with other columns of the table.
    fn returning(&self, projection: Vec<usize>) -> DfResult<Self> {
        let schema = Arc::new(self.spec.table_schema.project(&projection)?);
        let properties = leaf::properties(schema, self.properties.partitioning.clone());
        let same = self.with(self.predicates.clone(), self.fetch);
        Ok(ParquetScanExec { projection, properties, ..same })
    }

    /// Returns for each output column its index among the files' columns, `None` for partition columns.
    fn file_columns(&self) -> Vec<Option<usize>> {
        let n = self.spec.file_schema.fields().len();
        self.projection.iter().map(|&i| (i < n).then_some(i)).collect()
    }
}

fn queue(
    spec: &ParquetScanSpec,
    predicates: &[Arc<dyn PhysicalExpr>],
    fetch: Option<usize>,
) -> (Arc<Queue>, Arc<ScanIo>) {
    let few = fetch.filter(|n| *n <= FEW_ROWS && predicates.is_empty());
    let io = ScanIo::new(false, few.is_some()).with_extensions(spec.requests.extensions.clone());
    (Arc::new(Queue::new(spec, few)), Arc::new(io))
}

impl DisplayAs for ParquetScanExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let spec = &self.spec;
        let groups: usize = spec.files.iter().map(|f| f.reader.num_groups()).sum();
        if matches!(t, DisplayFormatType::TreeRender) {
            writeln!(f, "files={}", spec.files.len())?;
            return writeln!(f, "row_groups={groups}");
        }
        let schema = self.schema();
        let names: Vec<_> = schema.fields().iter().map(|x| x.name().as_str()).collect();
        write!(
            f,
            "ParquetScanExec: files={}, row_groups={groups}, projection=[{}]",
            spec.files.len(),
            names.join(", ")
        )?;
        leaf::show(f, &self.predicates, self.fetch)?;
        if matches!(t, DisplayFormatType::Verbose) {
            let all: Vec<_> = spec.files.iter().map(|x| x.reader.name()).collect();
            write!(f, ", paths=[{}]", all.join(", "))?;
        }
        Ok(())
    }
}

impl ExecutionPlan for ParquetScanExec {
    fn name(&self) -> &str {
        "ParquetScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        leaf::visit(&self.predicates, f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        leaf::without_inputs(self, &children)
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with(self.predicates.clone(), self.fetch)))
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let schema = self.schema();
        let run = match self.run.get() {
            Some(run) => Arc::clone(run),
            None => {
                let table = &self.spec.table_schema;
                let n = self.spec.file_schema.fields().len();
                let stored: Vec<_> = (0..table.fields().len()).map(|i| (i < n).then_some(i)).collect();
                // The reader's tests see the values of files.
                let is_read = |at: usize| self.spec.files.iter().all(|file| file.conversion(at).is_none());
                let filter = GroupFilter::try_new(&self.predicates, &stored, table, is_read, |_| None)?;
                let run = Arc::new(Run {
                    spec: Arc::clone(&self.spec),
                    queue: Arc::clone(&self.queue),
                    projection: self.projection.clone(),
                    columns: self.file_columns().into_iter().flatten().collect(),
                    schema: Arc::clone(&schema),
                    filter,
                    pruner: Mutex::new(GroupPruner::new(&self.predicates, table)),
                    fetch: self.fetch.map(|n| n as u64),
                    io: Arc::clone(&self.io),
                });
                Arc::clone(self.run.get_or_init(|| run))
            }
        };
        let workers = self.properties.partitioning.partition_count();
        let depth = depth(&self.io, self.spec.remote, run.morsel_bytes(), workers);
        let worker = Worker::new(run, ScanMetrics::new(&self.metrics, partition), depth, None);
        let batches = worker.batches(BaselineMetrics::new(&self.metrics, partition));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut all = self.metrics.clone_inner();
        profile::add(&mut all, &self.io.counts(), &self.spec.requests.stats.counts());
        Some(all)
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> DfResult<Arc<Statistics>> {
        let mut statistics = self.spec.statistics.clone().project(Some(&self.projection));
        if !self.predicates.is_empty() {
            statistics = statistics.to_inexact();
        }
        if let Some(fetch) = self.fetch {
            statistics.num_rows = match statistics.num_rows {
                Precision::Exact(n) => Precision::Exact(n.min(fetch)),
                Precision::Inexact(n) => Precision::Inexact(n.min(fetch)),
                Precision::Absent => Precision::Inexact(fetch),
            };
            // Bounds and counts are those of all rows, so they are inexact under a LIMIT.
            let rows = statistics.num_rows;
            statistics = statistics.to_inexact();
            statistics.num_rows = rows;
        }
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(self.with(self.predicates.clone(), limit)))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn try_swapping_with_projection(&self, projection: &ProjectionExec) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        let Some(places) = narrowed(projection) else { return Ok(None) };
        let projection = places.into_iter().map(|i| self.projection[i]).collect();
        Ok(Some(Arc::new(self.returning(projection)?)))
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> DfResult<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut taken = Vec::new();
        let (mut result, changed) =
            take_filters(child_pushdown_result, self.fetch, &self.schema(), &self.file_columns(), &mut taken);
        if changed {
            let mut predicates = self.predicates.clone();
            predicates.extend(over_table(taken, &self.projection)?);
            result = result.with_updated_node(Arc::new(self.with(predicates, self.fetch)) as _);
        }
        Ok(result)
    }
}

/// State that all workers of a running scan share.
#[derive(Debug)]
struct Run {
    spec: Arc<ParquetScanSpec>,
    queue: Arc<Queue>,
    projection: Vec<usize>,
    /// Indexes of the returned columns among the files'.
    columns: Vec<usize>,
    schema: SchemaRef,
    filter: Option<GroupFilter>,
    pruner: Mutex<GroupPruner>,
    fetch: Option<u64>,
    io: Arc<ScanIo>,
}

impl Run {
    /// Estimates the stored bytes of the wanted columns of a morsel.
    fn morsel_bytes(&self) -> u64 {
        let mut bytes = 0;
        for file in &self.spec.files {
            let groups = file.reader.metadata().row_groups();
            let all: i64 = groups.iter().map(|g| g.compressed_size()).sum();
            let share = self.columns.len().max(1) as u64;
            bytes += all as u64 * share / file.columns.len().max(1) as u64;
        }
        bytes / self.queue.tasks.len().max(1) as u64
    }

    /// Opens a morsel with a given reader of its file, for [`ScanRun::open`].
    async fn begin(
        &self,
        reader: &ObjectReader,
        morsel: FileMorsel,
        metrics: &ScanMetrics,
    ) -> Result<std::result::Result<Option<(Opened, GroupScan)>, SegmentError>> {
        let (spec, io) = (&self.spec, &self.io);
        let (file, group) = (&spec.files[morsel.file as usize], morsel.group as usize);
        assert!(group < reader.num_groups(), "a morsel is of a row group of its file");
        let total = reader.group_rows(group);
        let predicate = self.pruner.lock().predicate();
        let kept = match predicate {
            None => Kept::All,
            Some(predicate) => keeps(&predicate, &ForeignZones { reader, group, schema: &spec.file_schema, file }),
        };
        let Some(mut rows) = rows_of(kept, io, total, metrics) else { return Ok(Ok(None)) };
        if let Some((start, end)) = morsel.rows {
            let own = stretch(start as usize, end as usize, total);
            rows = Some(rows.map_or_else(|| own.clone(), |rows| &rows & &own));
        }
        if let (true, Some(most)) = (io.wants_few(), self.fetch) {
            let wanted = most.saturating_sub(self.queue.rows.load(Ordering::Relaxed)) as usize;
            rows = first_rows(file.first_with(group, wanted), total);
        }
        let rest = self.filter.as_ref().and_then(GroupFilter::rest);
        let scan = Scan {
            filter_columns: rest.map(ScanFilter::columns).unwrap_or_default(),
            rows: rows.as_ref(),
            deleted: file.deleted.as_deref(),
            tests: self.filter.as_ref().and_then(GroupFilter::tests),
            io: Some(io),
            ..Scan::new(file.columns.as_ref(), &self.columns)
        };
        let mut opened = Opened { file: morsel.file, anew: false };
        let mut rows = self.read(file, reader, group, &scan).await;
        if let Err(e) = &rows
            && let Some(anew) = file.anew(e)
        {
            opened.anew = true;
            rows = self.read(file, &anew, group, &scan).await;
        }
        Ok(rows.map(|rows| (rows.rows_left() > 0).then_some((opened, rows))))
    }

    /// Reads the rows of a row group that pass the filter.
    async fn read(
        &self,
        file: &ParquetScanFile,
        reader: &ObjectReader,
        group: usize,
        scan: &Scan<'_>,
    ) -> std::result::Result<GroupScan, SegmentError> {
        let Some(filter) = self.filter.as_ref().and_then(GroupFilter::rest) else {
            return reader.scan_group(group, scan, None).await;
        };
        let mut keep = |batch: &RecordBatch| {
            let failed = |e: EngineError| ArrowError::ExternalError(Box::new(e.into_datafusion()));
            let columns = filter.columns();
            let kept = match columns.iter().any(|column| file.conversion(*column).is_some()) {
                false => filter.keep(batch),
                true => {
                    let batch = converted(batch, columns, &file.conversions, reader.name()).map_err(failed)?;
                    filter.keep(&batch)
                }
            };
            kept.map_err(|e| ArrowError::ExternalError(Box::new(e)))
        };
        reader.scan_group(group, scan, Some(&mut keep)).await
    }
}

/// Returns one bit per row, with those from `start` up to `end` set.
fn stretch(start: usize, end: usize, total: usize) -> BooleanBuffer {
    assert!(start <= end && end <= total, "rows {start} to {end} are rows of a row group of {total}");
    let mut rows = BooleanBufferBuilder::new(total);
    rows.append_n(start, false);
    rows.append_n(end - start, true);
    rows.append_n(total - end, false);
    rows.finish()
}

impl ScanRun for Run {
    type Morsel = FileMorsel;
    type Tag = Opened;

    fn take(&self) -> Option<VecDeque<FileMorsel>> {
        let task = self.queue.tasks.get(self.queue.next.fetch_add(1, Ordering::Relaxed))?;
        Some(task.iter().copied().collect())
    }

    async fn open(&self, morsel: FileMorsel, metrics: &ScanMetrics) -> Result<Option<(Opened, GroupScan)>> {
        let reader = &self.spec.files[morsel.file as usize].reader;
        let opened = match self.begin(reader, morsel, metrics).await? {
            // Rows that the wrong index ruled out may be wanted.
            Err(SegmentError::Misindexed { .. }) => self.begin(&reader.without_index(), morsel, metrics).await?,
            opened => opened,
        };
        Ok(opened?)
    }

    async fn again(
        &self,
        opened: &mut Opened,
        group: usize,
        rest: BooleanBuffer,
        e: SegmentError,
    ) -> Result<GroupScan> {
        let file = &self.spec.files[opened.file as usize];
        let anew = file.anew(&e).filter(|_| !opened.anew);
        let Some(anew) = anew else { return Err(e.into()) };
        opened.anew = true;
        // Read without the filter, which these rows have passed: it learns while the query runs, and may reject them by
        // then.
        let scan = Scan { rows: Some(&rest), io: Some(&self.io), ..Scan::new(file.columns.as_ref(), &self.columns) };
        Ok(anew.scan_group(group, &scan, None).await?)
    }

    /// Adds the values of partition columns, and converts those that are not the table's yet.
    fn output(&self, opened: &Opened, batch: RecordBatch) -> Result<RecordBatch> {
        let file = &self.spec.files[opened.file as usize];
        let rows = batch.num_rows();
        let n = self.spec.file_schema.fields().len();
        let mut stored = batch.columns().iter();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.projection.len());
        for &i in &self.projection {
            columns.push(match i.checked_sub(n) {
                None => {
                    let array = stored.next().expect("one array per file column");
                    match file.conversion(i) {
                        None => Arc::clone(array),
                        Some(conversion) => conversion.convert(array, file.reader.name())?,
                    }
                }
                Some(i) => file.partition[i].to_array_of_size(rows)?,
            });
        }
        assert_eq!(stored.len(), 0, "the scan returns the columns that were asked for and no others");
        assert!(columns.iter().all(|column| column.len() == rows), "columns of a batch are equally long");
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|e| EngineError::invalid(e.to_string()))
    }

    fn limit(&self) -> Option<(u64, &AtomicU64)> {
        Some((self.fetch?, &self.queue.rows))
    }
}

/// Statistics of a row group of a file.
struct ForeignZones<'a> {
    reader: &'a ObjectReader,
    group: usize,
    /// The files' columns with the types of the table.
    schema: &'a SchemaRef,
    file: &'a ParquetScanFile,
}

impl ForeignZones<'_> {
    fn stats(&self, column: &str, pages: bool) -> Option<ZoneStats> {
        let at = self.schema.index_of(column).ok()?;
        let of = |wanted: &DataType| self.reader.foreign_stats(self.group, self.file.columns.id(at), wanted, pages);
        match self.file.conversion(at) {
            None => of(self.schema.field(at).data_type()),
            Some(conversion) => conversion.bounds(of),
        }
    }
}

impl Zones for ForeignZones<'_> {
    fn rows(&self) -> usize {
        self.reader.group_rows(self.group)
    }

    fn group(&self, column: &str) -> Option<ZoneStats> {
        self.stats(column, false)
    }

    fn pages(&self, column: &str) -> Option<ZoneStats> {
        self.stats(column, true)
    }

    fn page_starts(&self, column: &str) -> Vec<usize> {
        let at = self.schema.index_of(column).ok();
        at.map(|at| self.reader.page_starts(self.group, self.file.columns.id(at))).unwrap_or_default()
    }

    /// Bloom filters of files of others are not read: they lie apart from the footer, and would cost a request each.
    fn bloom(&self, _column: &str) -> Option<Sbbf> {
        None
    }
}

#[cfg(test)]
#[path = "parquet_tests.rs"]
mod tests;
