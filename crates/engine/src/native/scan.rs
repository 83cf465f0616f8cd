//! The scan of a native table: row groups of its segments as morsels from one queue.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::datatypes::{SchemaRef, UInt64Type};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::filter_pushdown::{ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet, Time,
};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use dipper_store::segment::{GroupScan, Readers, Scan};
use dipper_store::table::data::{DataObject, SegmentId};
use dipper_store::table::{Table, TableState};
use roaring::RoaringBitmap;

use super::prune::{GroupPruner, Tablets};
use super::{ROW_COLUMN, SEGMENT_COLUMN};
use crate::error::{EngineError, Result};
use crate::scan::{ScanFilter, take_filters};

/// A segment of the scan's snapshot.
#[derive(Debug, Clone)]
pub(crate) struct ScanSegment {
    /// Place among all segments of the snapshot, oldest first.
    pub(crate) age: u32,
    pub(crate) id: SegmentId,
    pub(crate) object: Arc<DataObject>,
    pub(crate) deleted: Option<Arc<RoaringBitmap>>,
}

/// Where an output column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// A column of the table's definition.
    Stored(usize),
    /// Which segment of the snapshot.
    Segment,
    /// Row number in the segment.
    Row,
}

/// Everything about a scan that is known when it is planned.
#[derive(Debug)]
pub(crate) struct NativeScanSpec {
    name: String,
    table: Table,
    state: Arc<TableState>,
    readers: Arc<Readers>,
    /// What the provider shows.
    schema: SchemaRef,
    sources: Vec<Source>,
    /// Segments of the partitions and buckets that the filters leave, oldest first.
    segments: Vec<ScanSegment>,
    /// Segments of the snapshot.
    segments_total: usize,
}

impl NativeScanSpec {
    pub(crate) fn new(
        name: &str,
        table: &Table,
        state: &Arc<TableState>,
        readers: &Arc<Readers>,
        schema: &SchemaRef,
        wanted: &Tablets,
        after: u64,
    ) -> Self {
        let definition = state.schema();
        let sources = (schema.fields().iter())
            .map(|f| match f.name().as_str() {
                SEGMENT_COLUMN => Source::Segment,
                ROW_COLUMN => Source::Row,
                name => Source::Stored(definition.columns.iter().position(|c| c.name == *name).expect("own column")),
            })
            .collect();
        let all = super::by_age(state);
        let segments_total = all.len();
        let segments = (all.into_iter().enumerate())
            .filter(|(_, s)| s.added > after && wanted.contains(s.segment.tablet))
            .map(|(age, s)| ScanSegment {
                age: age as u32,
                id: s.id,
                object: Arc::clone(s.object),
                deleted: s.deleted.cloned(),
            })
            .collect();
        NativeScanSpec {
            name: name.to_string(),
            table: table.clone(),
            state: Arc::clone(state),
            readers: Arc::clone(readers),
            schema: Arc::clone(schema),
            sources,
            segments,
            segments_total,
        }
    }
}

/// Row groups still to be read, shared by the partitions of a scan.
#[derive(Debug)]
struct Morsels {
    /// Segment of the scan and row group in its segment.
    list: Vec<(u32, u32)>,
    next: AtomicUsize,
    /// Rows handed out, for LIMIT.
    rows: AtomicU64,
}

impl Morsels {
    fn new(spec: &NativeScanSpec) -> Self {
        let groups = |s: &ScanSegment| s.object.segments[s.id.ordinal as usize].groups;
        let list = (spec.segments.iter().zip(0..)).flat_map(|(s, i)| (0..groups(s)).map(move |g| (i, g))).collect();
        Morsels { list, next: AtomicUsize::new(0), rows: AtomicU64::new(0) }
    }

    fn take(&self) -> Option<(u32, u32)> {
        self.list.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }
}

/// Counters of a scan beside those that every operator has.
#[derive(Debug, Clone)]
struct ScanMetrics {
    groups_read: Count,
    groups_pruned: Count,
    rows_scanned: Count,
}

impl ScanMetrics {
    fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(set).counter(name, partition);
        ScanMetrics {
            groups_read: counter("row_groups_read"),
            groups_pruned: counter("row_groups_pruned"),
            rows_scanned: counter("rows_scanned"),
        }
    }
}

/// Scans a native table; all partitions drain one queue of row groups.
#[derive(Debug)]
pub(crate) struct NativeScanExec {
    spec: Arc<NativeScanSpec>,
    /// Columns of the provider to return.
    projection: Vec<usize>,
    predicates: Vec<Arc<dyn PhysicalExpr>>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    morsels: Arc<Morsels>,
}

impl NativeScanExec {
    /// A scan that returns `projection` with at most `workers` partitions.
    pub(crate) fn new(spec: Arc<NativeScanSpec>, projection: Vec<usize>, fetch: Option<usize>, workers: usize) -> Self {
        let schema = Arc::new(spec.schema.project(&projection).expect("projection is within the table"));
        let morsels = Arc::new(Morsels::new(&spec));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(morsels.list.len().clamp(1, workers.max(1))),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        NativeScanExec {
            spec,
            projection,
            predicates: Vec::new(),
            fetch,
            properties: Arc::new(properties),
            metrics: ExecutionPlanMetricsSet::new(),
            morsels,
        }
    }

    fn with(&self, predicates: Vec<Arc<dyn PhysicalExpr>>, fetch: Option<usize>) -> Self {
        NativeScanExec {
            spec: Arc::clone(&self.spec),
            projection: self.projection.clone(),
            predicates,
            fetch,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            morsels: Arc::new(Morsels::new(&self.spec)),
        }
    }

    /// For each output column its place in the table's definition, `None` for addresses.
    fn stored_columns(&self) -> Vec<Option<usize>> {
        self.projection
            .iter()
            .map(|&i| match self.spec.sources[i] {
                Source::Stored(at) => Some(at),
                Source::Segment | Source::Row => None,
            })
            .collect()
    }
}

impl DisplayAs for NativeScanExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<_> = schema.fields().iter().map(|x| x.name().as_str()).collect();
        let spec = &self.spec;
        let row_groups = self.morsels.list.len();
        if matches!(t, DisplayFormatType::TreeRender) {
            writeln!(f, "table={}", spec.name)?;
            return writeln!(f, "row_groups={row_groups}");
        }
        write!(
            f,
            "NativeScanExec: table={}, segments={}/{}, row_groups={row_groups}, projection=[{}]",
            spec.name,
            spec.segments.len(),
            spec.segments_total,
            names.join(", ")
        )?;
        if !self.predicates.is_empty() {
            let all: Vec<_> = self.predicates.iter().map(|p| p.to_string()).collect();
            write!(f, ", predicate={}", all.join(" AND "))?;
        }
        if let Some(fetch) = self.fetch {
            write!(f, ", limit={fetch}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for NativeScanExec {
    fn name(&self) -> &str {
        "NativeScanExec"
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
        for predicate in &self.predicates {
            if f(predicate)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Arc<dyn ExecutionPlan>>) -> DfResult<Arc<dyn ExecutionPlan>> {
        if !children.is_empty() {
            return internal_err!("NativeScanExec has no inputs");
        }
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(self.with(self.predicates.clone(), self.fetch)))
    }

    fn execute(&self, partition: usize, _context: Arc<TaskContext>) -> DfResult<SendableRecordBatchStream> {
        let stored = self.stored_columns();
        let filter = ScanFilter::try_new(&self.predicates, &stored)?;
        let schema = self.schema();
        let pruner = GroupPruner::new(&self.predicates, &schema);
        let worker = Worker {
            spec: Arc::clone(&self.spec),
            morsels: Arc::clone(&self.morsels),
            sources: self.projection.iter().map(|&i| self.spec.sources[i]).collect(),
            schema: Arc::clone(&schema),
            filter: filter.map(Arc::new),
            pruner,
            fetch: self.fetch.map(|n| n as u64),
            metrics: ScanMetrics::new(&self.metrics, partition),
            open: None,
        };
        let baseline = BaselineMetrics::new(&self.metrics, partition);
        let batches = futures::stream::try_unfold((worker, baseline), |(mut worker, baseline)| async move {
            let next = worker.next(baseline.elapsed_compute()).await.map_err(EngineError::into_datafusion)?;
            if let Some(batch) = &next {
                baseline.record_output(batch.num_rows());
            }
            Ok(next.map(|batch| (batch, (worker, baseline))))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(&self, _inputs: &[Arc<Statistics>], _args: &StatisticsArgs) -> DfResult<Arc<Statistics>> {
        Ok(Arc::new(self.statistics()))
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
    ) -> DfResult<FilterPushdownPropagation<Arc<dyn ExecutionPlan>>> {
        let mut predicates = self.predicates.clone();
        let (mut result, changed) =
            take_filters(child_pushdown_result, self.fetch, &self.schema(), &self.stored_columns(), &mut predicates);
        if changed {
            result = result.with_updated_node(Arc::new(self.with(predicates, self.fetch)) as _);
        }
        Ok(result)
    }
}

impl NativeScanExec {
    /// Rows are exact as long as nothing filters; column bounds hold for every row, counts for those ever loaded.
    fn statistics(&self) -> Statistics {
        let spec = &self.spec;
        let live = |s: &ScanSegment| {
            let rows = u64::from(s.object.segments[s.id.ordinal as usize].rows);
            rows - s.deleted.as_ref().map_or(0, |d| d.len())
        };
        let rows = spec.segments.iter().map(live).sum::<u64>() as usize;
        let bytes: u64 = spec.segments.iter().map(|s| s.object.segments[s.id.ordinal as usize].bytes).sum();
        let filtered = !self.predicates.is_empty();
        let fetched = self.fetch.map_or(rows, |n| n.min(rows));
        let columns = (self.projection.iter().zip(self.schema().fields()))
            .map(|(&i, field)| match spec.sources[i] {
                Source::Stored(at) => super::statistics::column(&spec.state, at, field.data_type()),
                Source::Segment | Source::Row => ColumnStatistics::new_unknown(),
            })
            .collect();
        Statistics {
            num_rows: if filtered { Precision::Inexact(fetched) } else { Precision::Exact(fetched) },
            total_byte_size: Precision::Inexact(bytes as usize),
            column_statistics: columns,
        }
    }
}

/// One partition of a scan.
struct Worker {
    spec: Arc<NativeScanSpec>,
    morsels: Arc<Morsels>,
    /// Of the output's columns.
    sources: Vec<Source>,
    schema: SchemaRef,
    filter: Option<Arc<ScanFilter>>,
    pruner: GroupPruner,
    fetch: Option<u64>,
    metrics: ScanMetrics,
    /// The row group that is being decoded, with the place of its segment by age.
    open: Option<(u32, GroupScan)>,
}

impl Worker {
    /// The next batch; `None` when all row groups are taken.
    async fn next(&mut self, busy: &Time) -> Result<Option<RecordBatch>> {
        loop {
            if self.fetch.is_some_and(|most| self.morsels.rows.load(Ordering::Relaxed) >= most) {
                return Ok(None);
            }
            if let Some((age, group)) = &mut self.open {
                let timer = busy.timer();
                let age = *age;
                let decoded = group.next().transpose()?;
                timer.done();
                match decoded {
                    None => self.open = None,
                    Some(batch) => return self.output(age, &batch).map(|batch| self.limited(batch)),
                }
                continue;
            }
            let Some((segment, group)) = self.morsels.take() else { return Ok(None) };
            self.open = self.open_group(segment, group, busy).await?;
        }
    }

    /// Fetches a row group, filters it, and leaves the rest to be decoded. `None` if no row can pass.
    async fn open_group(&mut self, segment: u32, group: u32, busy: &Time) -> Result<Option<(u32, GroupScan)>> {
        let spec = Arc::clone(&self.spec);
        let segment = &spec.segments[segment as usize];
        let described = &segment.object.segments[segment.id.ordinal as usize];
        let reader = spec.readers.get(&spec.table.data_path(segment.object.id), &segment.object).await?;
        let group = (described.first_group + group) as usize;
        let definition = spec.state.schema();
        if !self.pruner.keeps(&reader, group, definition)? {
            self.metrics.groups_pruned.add(1);
            return Ok(None);
        }
        self.metrics.groups_read.add(1);
        self.metrics.rows_scanned.add(reader.group_rows(group));
        let columns: Vec<usize> = (self.sources.iter())
            .filter_map(|s| match s {
                Source::Stored(at) => Some(*at),
                Source::Segment | Source::Row => None,
            })
            .collect();
        let scan = Scan {
            filter_columns: self.filter.as_ref().map(|f| f.columns()).unwrap_or_default(),
            deleted: segment.deleted.as_deref(),
            row_address: self.sources.contains(&Source::Row),
            ..Scan::new(definition, &columns)
        };
        let timer = busy.timer();
        let open = match &self.filter {
            None => reader.scan_group(group, &scan, None).await?,
            Some(filter) => {
                let filter = Arc::clone(filter);
                let mut keep =
                    move |batch: &RecordBatch| filter.keep(batch).map_err(|e| ArrowError::ExternalError(Box::new(e)));
                reader.scan_group(group, &scan, Some(&mut keep)).await?
            }
        };
        timer.done();
        Ok((open.rows_left() > 0).then_some((segment.age, open)))
    }

    /// A decoded batch as the plan wants it: addresses are added, fields are the provider's.
    fn output(&self, age: u32, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let mut stored = batch.columns().iter();
        let mut columns: Vec<ArrayRef> = Vec::with_capacity(self.sources.len());
        for source in &self.sources {
            columns.push(match source {
                Source::Stored(_) => Arc::clone(stored.next().expect("one array per stored column")),
                Source::Segment => Arc::new(UInt32Array::from(vec![age; rows])),
                Source::Row => {
                    let addresses =
                        batch.columns().last().expect("the scan adds addresses").as_primitive::<UInt64Type>();
                    // The upper half is the segment's ordinal.
                    Arc::new(addresses.values().iter().map(|a| *a as u32).collect::<UInt32Array>())
                }
            });
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|e| EngineError::invalid(e.to_string()))
    }

    /// The part of the batch that LIMIT leaves.
    fn limited(&self, batch: RecordBatch) -> Option<RecordBatch> {
        let Some(most) = self.fetch else { return Some(batch) };
        let rows = batch.num_rows() as u64;
        let before = self.morsels.rows.fetch_add(rows, Ordering::Relaxed);
        let left = most.saturating_sub(before).min(rows);
        Some(batch.slice(0, left as usize))
    }
}
