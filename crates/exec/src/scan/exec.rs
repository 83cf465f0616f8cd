//! [`TextScanExec`]: the plan node that reads text files.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use arrow::array::{ArrayRef, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, Statistics};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{RecordBatchStream, SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter_pushdown::{ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use dipper_base::preempt;
use dipper_node::error::EngineError;
use dipper_node::files::FileEntry;
use dipper_node::files::reads::FileReads;
use dipper_text::dialect::Dialect;
use dipper_text::error::{ErrorKind as TextKind, TextError};
use dipper_text::infer::{Guess, Header};
use dipper_text::scan::{BadValue, FileInput, InvalidUtf8, Scan, ScanOptions, ScanQueue, Strings, Worker};
use dipper_text::source::Compression;
use futures::Stream;

use super::bare::{BareFilter, bare_array};
use super::filter::{ScanFilter, take_filters};
use super::{PoolMemory, leaf, profile};

/// Bytes that a worker reads at a time. A block and the arrays that are built from it stay in the L2 cache, and the
/// memory of a scan is a few blocks per worker.
const BLOCK_BYTES: usize = 1 << 20;

/// Bytes of files per worker: a scan gets another worker for each.
const BYTES_PER_WORKER: u64 = 1 << 20;

/// A file of a text table and the partition values that its directory gives it.
#[derive(Debug, Clone)]
pub struct TextScanFile {
    /// The file.
    pub entry: FileEntry,
    /// Values of the table's partition columns.
    pub partition: Arc<[ScalarValue]>,
}

/// Everything about a text scan that is known when it is planned.
#[derive(Debug, Clone)]
pub struct TextScanSpec {
    /// How the files are written.
    pub dialect: Dialect,
    /// Columns of the files, in file order.
    pub file_schema: SchemaRef,
    /// Columns of the table: those of the files, then those of the partitions.
    pub table_schema: SchemaRef,
    /// How values are treated that do not fit their column.
    pub bad_value: BadValue,
    /// How invalid UTF-8 is treated.
    pub invalid_utf8: InvalidUtf8,
    /// Whether strings are views into the blocks or dense copies.
    pub strings: Strings,
    /// The files, in reading order.
    pub files: Arc<[TextScanFile]>,
    /// Compression of all files; `None`: by each file's name.
    pub compression: Option<Compression>,
    /// `Some` if the dialect or the columns were guessed from a sample.
    pub guess: Option<TextGuess>,
}

/// Properties of CSV files that were guessed from a sample of them.
#[derive(Debug, Clone)]
pub struct TextGuess {
    /// The guessed dialect, for EXPLAIN.
    pub written: String,
    /// Columns of the files whose types are guesses.
    pub columns: Vec<usize>,
    /// Names that must be in the headers of the files that were not sampled.
    pub header: Option<Arc<Header>>,
}

impl TextScanSpec {
    /// Adds a way out to the error of a value that does not fit a guessed type. Other errors stay unchanged.
    fn with_way_out(&self, error: TextError) -> TextError {
        let (Some(guess), Dialect::Csv(csv), TextKind::BadValue) = (&self.guess, &self.dialect, error.kind) else {
            return error;
        };
        let mut guessed = guess.columns.iter().map(|column| self.file_schema.field(*column));
        let column = guessed.find(|column| error.column.as_ref() == Some(column.name()));
        let (Some(column), Some(value)) = (column, &error.value) else { return error };
        let hint = Guess::hint(column, value.as_bytes(), csv.dates);
        error.with_hint(hint)
    }
}

/// Scans text files with one worker per partition; all workers drain one queue of blocks.
#[derive(Debug)]
pub struct TextScanExec {
    spec: Arc<TextScanSpec>,
    /// Columns of the table to return.
    projection: Vec<usize>,
    predicates: Vec<Arc<dyn PhysicalExpr>>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// Made by the first partition that runs, and shared by all. An error is kept, and each partition reports it.
    queue: OnceLock<std::result::Result<Arc<ScanQueue>, EngineError>>,
    reads: Arc<FileReads>,
}

impl TextScanExec {
    /// Makes a scan that returns `projection` (indexes into the table's columns) with at most `workers` partitions.
    pub fn new(spec: Arc<TextScanSpec>, projection: Vec<usize>, fetch: Option<usize>, workers: usize) -> Self {
        let schema = Arc::new(spec.table_schema.project(&projection).expect("projection is within the table"));
        let bytes: u64 = spec.files.iter().map(|f| f.entry.len).sum();
        let useful = usize::try_from(bytes.div_ceil(BYTES_PER_WORKER)).unwrap_or(usize::MAX);
        let workers = useful.max(spec.files.len().min(8)).clamp(1, workers.max(1));
        let properties = leaf::properties(schema, Partitioning::UnknownPartitioning(workers));
        TextScanExec {
            spec,
            projection,
            predicates: Vec::new(),
            fetch,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            queue: OnceLock::new(),
            reads: Arc::default(),
        }
    }

    fn with(&self, predicates: Vec<Arc<dyn PhysicalExpr>>, fetch: Option<usize>) -> Self {
        TextScanExec {
            spec: Arc::clone(&self.spec),
            projection: self.projection.clone(),
            predicates,
            fetch,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            queue: OnceLock::new(),
            reads: Arc::default(),
        }
    }

    /// Returns for each output column its index among the file's columns, `None` for partition columns.
    fn file_columns(&self) -> Vec<Option<usize>> {
        let n = self.spec.file_schema.fields().len();
        self.projection.iter().map(|&i| (i < n).then_some(i)).collect()
    }

    fn open(&self, pool: &Arc<dyn MemoryPool>) -> std::result::Result<Arc<ScanQueue>, EngineError> {
        let spec = &self.spec;
        let file_columns = self.file_columns();
        let mut options = ScanOptions::new(spec.dialect.clone(), Arc::clone(&spec.file_schema));
        options.projection = file_columns.iter().flatten().copied().collect();
        options.filter = ScanFilter::try_new(&self.predicates, &file_columns)?
            .map(|f| Arc::new(BareFilter::new(f, Arc::clone(&spec.table_schema))) as _);
        options.limit = self.fetch.map(|n| n as u64);
        options.block_bytes = BLOCK_BYTES;
        options.memory = Some(PoolMemory::of(pool, "text scan"));
        options.bad_value = spec.bad_value;
        options.invalid_utf8 = spec.invalid_utf8;
        options.strings = spec.strings;
        if let Some(guess) = &spec.guess {
            options.exact.clone_from(&guess.columns);
            options.header = guess.header.as_ref().map(|header| Arc::clone(header) as _);
        }
        let scan = Scan::try_new(options)?;
        let mut inputs = Vec::with_capacity(spec.files.len());
        for file in spec.files.iter() {
            let source = file.entry.counted_source(self.fetch.is_none(), &self.reads);
            let name = file.entry.name();
            let compression = spec.compression.unwrap_or_else(|| Compression::from_path(&name));
            inputs.push(FileInput { name, source, compression });
        }
        Ok(ScanQueue::new(scan, inputs))
    }
}

impl DisplayAs for TextScanExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<_> = schema.fields().iter().map(|x| x.name().as_str()).collect();
        let kind = match &self.spec.dialect {
            Dialect::Csv(_) => "csv",
            Dialect::Json(_) => "json",
            _ => "hive_text",
        };
        match t {
            DisplayFormatType::TreeRender => {
                writeln!(f, "format={kind}")?;
                writeln!(f, "files={}", self.spec.files.len())?;
                self.spec.guess.as_ref().map_or(Ok(()), |guess| writeln!(f, "guess={}", guess.written))
            }
            _ => {
                write!(
                    f,
                    "TextScanExec: format={kind}, files={}, projection=[{}]",
                    self.spec.files.len(),
                    names.join(", ")
                )?;
                leaf::show(f, &self.predicates, self.fetch)?;
                if let Some(guess) = &self.spec.guess {
                    write!(f, ", guess=[{}]", guess.written)?;
                }
                if matches!(t, DisplayFormatType::Verbose) {
                    let all: Vec<_> = self.spec.files.iter().map(|x| x.entry.name()).collect();
                    write!(f, ", paths=[{}]", all.join(", "))?;
                }
                Ok(())
            }
        }
    }
}

impl ExecutionPlan for TextScanExec {
    fn name(&self) -> &str {
        "TextScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        leaf::visit(&self.predicates, f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        leaf::without_inputs(self, &children)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with(self.predicates.clone(), self.fetch)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let open = || self.open(context.memory_pool());
        let queue = self.queue.get_or_init(open).clone().map_err(EngineError::into_datafusion)?;
        Ok(Box::pin(TextScanStream {
            worker: queue.worker(),
            spec: Arc::clone(&self.spec),
            projection: self.projection.clone(),
            schema: self.schema(),
            baseline: BaselineMetrics::new(&self.metrics, partition),
            ended: false,
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut all = self.metrics.clone_inner();
        if let Some(Ok(queue)) = self.queue.get() {
            let seen = queue.metrics();
            profile::count(&mut all, profile::BYTES_SCANNED, seen.bytes_read);
            profile::count(&mut all, "rows_scanned", seen.rows_scanned);
        }
        if self.spec.files.iter().any(|f| f.entry.remote.is_some()) {
            profile::add_files(&mut all, &self.reads);
        }
        Some(all)
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        let bytes: u64 = self.spec.files.iter().map(|f| f.entry.len).sum();
        // Joins are ordered by size; without a row count, a 10 GB file would be as good a build side as a 1 KB one. So
        // estimate 16 bytes per column.
        let row_bytes = 16 * self.spec.file_schema.fields().len().max(1) as u64;
        let rows = (bytes / row_bytes) as usize;
        statistics.num_rows = Precision::Inexact(self.fetch.map_or(rows, |n| n.min(rows)));
        statistics.total_byte_size = Precision::Inexact(bytes as usize);
        Ok(Arc::new(statistics))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        Some(Arc::new(self.with(self.predicates.clone(), limit)))
    }

    fn fetch(&self) -> Option<usize> {
        self.fetch
    }

    fn handle_child_pushdown_result(
        &self,
        _phase: FilterPushdownPhase,
        child_pushdown_result: ChildPushdownResult,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut predicates = self.predicates.clone();
        let (mut result, changed) =
            take_filters(child_pushdown_result, self.fetch, &self.schema(), &self.file_columns(), &mut predicates);
        if changed {
            result = result.with_updated_node(Arc::new(self.with(predicates, self.fetch)) as _);
        }
        Ok(result)
    }
}

struct TextScanStream {
    worker: Worker,
    spec: Arc<TextScanSpec>,
    projection: Vec<usize>,
    schema: SchemaRef,
    baseline: BaselineMetrics,
    ended: bool,
}

impl TextScanStream {
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        preempt::yield_point();
        let _timer = self.baseline.elapsed_compute().timer();
        let next = self.worker.next_batch().map_err(|e| EngineError::from(self.spec.with_way_out(e)));
        let Some(batch) = next.map_err(EngineError::into_datafusion)? else { return Ok(None) };
        let rows = batch.rows.num_rows();
        let n = self.spec.file_schema.fields().len();
        let mut from_file = batch.rows.columns().iter();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.projection.len());
        for (&i, field) in self.projection.iter().zip(self.schema.fields()) {
            columns.push(if i < n {
                bare_array(from_file.next().expect("one array per projected file column"), field.data_type())?
            } else {
                self.spec.files[batch.file].partition[i - n].to_array_of_size(rows)?
            });
        }
        assert!(from_file.next().is_none(), "a scan decodes the columns of its output only");
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(Some(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?))
    }
}

impl Stream for TextScanStream {
    type Item = Result<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.ended {
            return Poll::Ready(None);
        }
        // A batch is a few hundred microseconds of work. The budget gives other streams of this thread, and
        // cancellation, a chance between batches.
        let coop = std::task::ready!(tokio::task::coop::poll_proceed(cx));
        coop.made_progress();
        let next = self.next().transpose();
        if !matches!(next, Some(Ok(_))) {
            self.ended = true;
        }
        self.baseline.record_poll(Poll::Ready(next))
    }
}

impl RecordBatchStream for TextScanStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

/// Returns the table's schema: file columns, then partition columns.
pub fn table_schema(file: &Schema, partition: &[arrow::datatypes::FieldRef]) -> SchemaRef {
    let fields: Vec<_> = file.fields().iter().cloned().chain(partition.iter().cloned()).collect();
    Arc::new(Schema::new(fields))
}
