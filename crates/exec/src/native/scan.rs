//! The scan of a native table: row groups of its segments as morsels from one queue.

use std::fmt;
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use datafusion::config::ConfigOptions;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, Literal};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use datafusion::physical_plan::filter_pushdown::{ChildPushdownResult, FilterPushdownPhase, FilterPushdownPropagation};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties};
use dipper_store::segment::{Readers, ScanIo};
use dipper_store::table::data::{DataObject, Segment, SegmentId};
use dipper_store::table::{Table, TableState};
use futures::StreamExt;
use parking_lot::Mutex;
use roaring::RoaringBitmap;
use tokio::runtime::Handle;

use super::morsels::{Morsels, Split};
use super::prune::Tablets;
use super::run::Run;
use super::selectivity::{Known, share};
use super::settings::ScanSettings;
use super::{ROW_COLUMN, SEGMENT_COLUMN};
use crate::io::ScanRequests;
use crate::rules::conditions::parts;
use crate::scan::prune::GroupPruner;
use crate::scan::worker::{Aborting, ScanMetrics, Worker, depth};
use crate::scan::{GroupFilter, leaf, narrowed, over_table, profile, take_filters};

/// One segment that the scan reads, from its snapshot.
#[derive(Debug, Clone)]
pub struct ScanSegment {
    /// Index among all segments of the snapshot, oldest first.
    pub age: u32,
    pub id: SegmentId,
    pub object: Arc<DataObject>,
    pub deleted: Option<Arc<RoaringBitmap>>,
}

/// Where an output column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// A column of the table's definition, by its index there.
    Stored(usize),
    /// The index of the row's segment in the snapshot.
    Segment,
    /// The row's number in its segment.
    Row,
}

impl Source {
    /// Returns the index in the table's definition.
    fn stored(&self) -> Option<usize> {
        match self {
            Source::Stored(at) => Some(*at),
            Source::Segment | Source::Row => None,
        }
    }
}

/// Everything about a scan that is known when it is planned.
#[derive(Debug)]
pub struct NativeScanSpec {
    name: String,
    pub(super) table: Table,
    pub(super) state: Arc<TableState>,
    pub(super) readers: Arc<Readers>,
    /// Schema of the provider.
    schema: SchemaRef,
    sources: Vec<Source>,
    /// Segments of the tablets that the filters leave, oldest first.
    pub(super) segments: Vec<ScanSegment>,
    /// Number of segments of the snapshot, for EXPLAIN.
    segments_total: usize,
    /// Rows of the segments that are not deleted.
    rows: u64,
    /// Whether the statistics of the table are those of these rows.
    is_described: bool,
    /// Statistics of the provider's columns, once the optimizer has asked for them: it asks many times.
    known: Vec<OnceLock<ColumnStatistics>>,
    pub(super) settings: ScanSettings,
    requests: ScanRequests,
}

impl ScanSegment {
    /// Returns the segment's description in the table's state.
    pub(super) fn described(&self) -> &Segment {
        &self.object.segments[self.id.ordinal as usize]
    }

    /// Number of rows that are not deleted.
    pub(super) fn live_rows(&self) -> u64 {
        let rows = u64::from(self.described().rows);
        let deleted = self.deleted.as_ref().map_or(0, |d| d.len());
        assert!(deleted <= rows, "{deleted} of {rows} rows are deleted");
        rows - deleted
    }
}

impl NativeScanSpec {
    #[expect(clippy::too_many_arguments, reason = "one call, each a thing of its own")]
    pub(super) fn new(
        name: &str,
        table: &Table,
        state: &Arc<TableState>,
        readers: &Arc<Readers>,
        schema: &SchemaRef,
        wanted: &Tablets,
        after: u64,
        settings: ScanSettings,
        requests: ScanRequests,
    ) -> Self {
        let definition = state.schema();
        let sources: Vec<Source> = (schema.fields().iter())
            .map(|f| match f.name().as_str() {
                SEGMENT_COLUMN => Source::Segment,
                ROW_COLUMN => Source::Row,
                name => Source::Stored(definition.columns.iter().position(|c| c.name == *name).expect("own column")),
            })
            .collect();
        let all = super::by_age(state);
        let segments_total = state.segments().count();
        let segments: Vec<ScanSegment> = (all.into_iter().enumerate())
            .filter(|(_, s)| s.added > after && wanted.contains(s.segment.tablet))
            .map(|(age, s)| ScanSegment {
                age: age as u32,
                id: s.id,
                object: Arc::clone(s.object),
                deleted: s.deleted.cloned(),
            })
            .collect();
        let rows = segments.iter().map(ScanSegment::live_rows).sum::<u64>();
        NativeScanSpec {
            name: name.to_string(),
            table: table.clone(),
            state: Arc::clone(state),
            readers: Arc::clone(readers),
            schema: Arc::clone(schema),
            known: sources.iter().map(|_| OnceLock::new()).collect(),
            sources,
            segments,
            segments_total,
            rows,
            is_described: rows == state.rows() && super::statistics::are_of_live_rows(state),
            settings,
            requests,
        }
    }

    /// Returns the statistics of a column of the provider.
    fn known(&self, at: usize) -> &ColumnStatistics {
        self.known[at].get_or_init(|| match self.sources[at] {
            Source::Stored(own) => super::statistics::column(&self.state, own, self.schema.field(at).data_type()),
            Source::Segment | Source::Row => ColumnStatistics::new_unknown(),
        })
    }

    /// Returns whether the row groups of one tablet may go to several workers.
    fn is_split(&self) -> bool {
        match self.readers.fetcher().is_remote() {
            true => self.settings.split_remote,
            false => self.settings.split_local,
        }
    }
}

/// Objects that are opened concurrently ahead of the workers.
const OPENED_AHEAD: usize = 32;
/// The largest LIMIT for which a scan reads only the wanted rows, one request after the other.
const FEW_ROWS: usize = 8192;

/// Returns the queue from which the workers take row groups, and how they may issue requests.
fn queue(
    spec: &NativeScanSpec,
    predicates: &[Arc<dyn PhysicalExpr>],
    fetch: Option<usize>,
    workers: usize,
) -> (Arc<Morsels>, Arc<ScanIo>) {
    let few = fetch.filter(|n| *n <= FEW_ROWS && predicates.is_empty());
    let io = |serial, few| Arc::new(ScanIo::new(serial, few).with_extensions(spec.requests.extensions.clone()));
    if let Some(rows) = few {
        return (Arc::new(Morsels::new(spec, Split::First(rows as u64))), io(false, true));
    }
    if !spec.is_split() {
        return (Arc::new(Morsels::new(spec, Split::Tablets)), io(true, false));
    }
    let mut morsels = None;
    if !spec.settings.force_split && !spec.readers.fetcher().is_remote() {
        // On the local disk whole tablets are as good, if there are enough of them.
        morsels = Some(Morsels::new(spec, Split::Tablets)).filter(|m| m.tasks() >= TABLETS_A_WORKER * workers);
    }
    let morsels = morsels.unwrap_or_else(|| Morsels::new(spec, Split::Groups));
    (Arc::new(morsels), io(false, false))
}

/// Tablets that are read at the same time per core if each tablet is read serially.
const SERIAL_TABLETS_A_WORKER: usize = 16;
/// Tablets per worker from which on there is no need to split them.
const TABLETS_A_WORKER: usize = 8;

/// Scans a native table; all partitions drain one queue of row groups.
#[derive(Debug)]
pub struct NativeScanExec {
    spec: Arc<NativeScanSpec>,
    /// The returned columns, by their indexes in the provider.
    projection: Vec<usize>,
    /// Filters over the provider's columns.
    predicates: Vec<Arc<dyn PhysicalExpr>>,
    fetch: Option<usize>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    morsels: Arc<Morsels>,
    io: Arc<ScanIo>,
    workers: usize,
    /// Made by the first partition that runs.
    run: OnceLock<Arc<Run>>,
    /// The task that reads footers and indexes ahead. It is aborted when the scan is dropped.
    opening: OnceLock<Aborting<()>>,
}

impl NativeScanExec {
    /// Makes a scan that returns the columns `projection`, without filters. It has at most `workers` partitions, or
    /// [`SERIAL_TABLETS_A_WORKER`] times as many if tablets are read serially. `fetch` is the LIMIT.
    pub fn new(spec: Arc<NativeScanSpec>, projection: Vec<usize>, fetch: Option<usize>, workers: usize) -> Self {
        let schema = Arc::new(spec.schema.project(&projection).expect("projection is within the table"));
        let (morsels, io) = queue(&spec, &[], fetch, workers);
        // A tablet that is read serially has one request in flight, but tablets do not wait for one another.
        let most = workers.max(1) * if io.is_serial() { SERIAL_TABLETS_A_WORKER } else { 1 };
        let properties = leaf::properties(schema, Partitioning::UnknownPartitioning(morsels.tasks().clamp(1, most)));
        NativeScanExec {
            spec,
            projection,
            predicates: Vec::new(),
            fetch,
            properties,
            metrics: ExecutionPlanMetricsSet::new(),
            morsels,
            io,
            workers,
            run: OnceLock::new(),
            opening: OnceLock::new(),
        }
    }

    fn with(&self, predicates: Vec<Arc<dyn PhysicalExpr>>, fetch: Option<usize>) -> Self {
        let (morsels, io) = queue(&self.spec, &predicates, fetch, self.workers);
        NativeScanExec {
            spec: Arc::clone(&self.spec),
            projection: self.projection.clone(),
            predicates,
            fetch,
            properties: Arc::clone(&self.properties),
            metrics: ExecutionPlanMetricsSet::new(),
            morsels,
            io,
            workers: self.workers,
            run: OnceLock::new(),
            opening: OnceLock::new(),
        }
    }

    /// Returns whether a filter is still to be learnt while the query runs. Row groups that it will rule out should not
    /// be read ahead.
    fn is_dynamic(&self) -> bool {
        self.predicates.iter().any(|p| snapshot_generation(p) != 0)
    }

    /// Opens objects ahead of the workers, up to [`OPENED_AHEAD`] at a time.
    fn open_ahead(&self) {
        let readers = Arc::clone(&self.spec.readers);
        let Some(runtime) = readers.fetcher().runtime().cloned() else { return };
        if self.io.is_serial() || self.io.wants_few() {
            return;
        }
        self.opening.get_or_init(|| {
            let (spec, io) = (Arc::clone(&self.spec), Arc::clone(&self.io));
            let mut objects: Vec<_> = spec.segments.iter().map(|s| Arc::clone(&s.object)).collect();
            objects.dedup_by_key(|o| o.id);
            Aborting(runtime.spawn(async move {
                let opened = futures::stream::iter(objects).for_each_concurrent(OPENED_AHEAD, |object| {
                    let (spec, io) = (&spec, &io);
                    async move {
                        // The error is dropped here: a worker that needs the object meets it again.
                        let _ = spec.readers.get_for(&spec.table.data_path(object.id), &object, Some(io)).await;
                    }
                });
                opened.await;
            }))
        });
    }

    /// Returns for each output column its index in the table's definition, `None` for addresses.
    fn stored_columns(&self) -> Vec<Option<usize>> {
        self.projection.iter().map(|&i| self.spec.sources[i].stored()).collect()
    }

    /// Returns this scan with other columns of the provider.
    fn returning(&self, projection: Vec<usize>) -> DfResult<Self> {
        let schema = Arc::new(self.spec.schema.project(&projection)?);
        let properties = leaf::properties(schema, self.properties.partitioning.clone());
        let same = self.with(self.predicates.clone(), self.fetch);
        Ok(NativeScanExec { projection, properties, ..same })
    }
}

impl DisplayAs for NativeScanExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter) -> fmt::Result {
        let schema = self.schema();
        let names: Vec<_> = schema.fields().iter().map(|x| x.name().as_str()).collect();
        let spec = &self.spec;
        let row_groups = self.morsels.groups();
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
        leaf::show(f, &self.predicates, self.fetch)
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
                let stored: Vec<_> = self.spec.sources.iter().map(Source::stored).collect();
                let run = Arc::new(Run {
                    spec: Arc::clone(&self.spec),
                    morsels: Arc::clone(&self.morsels),
                    sources: self.projection.iter().map(|&i| self.spec.sources[i]).collect(),
                    schema: Arc::clone(&schema),
                    filter: GroupFilter::try_new(
                        &self.predicates,
                        &stored,
                        &self.spec.schema,
                        |_| true,
                        |at| self.bounds(at),
                    )?,
                    pruner: Mutex::new(GroupPruner::new(&self.predicates, &self.spec.schema)),
                    fetch: self.fetch.map(|n| n as u64),
                    io: Arc::clone(&self.io),
                });
                Arc::clone(self.run.get_or_init(|| run))
            }
        };
        self.open_ahead();
        let remote = self.spec.readers.fetcher().is_remote();
        let early = Handle::try_current().ok().filter(|_| remote && !self.io.is_serial() && !self.is_dynamic());
        let metrics = ScanMetrics::new(&self.metrics, partition);
        let depth = depth(&self.io, remote, run.group_bytes(), self.properties.partitioning.partition_count());
        let worker = Worker::new(run, metrics, depth, early.as_ref());
        let batches = worker.batches(BaselineMetrics::new(&self.metrics, partition));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        let mut all = self.metrics.clone_inner();
        profile::add(&mut all, &self.io.counts(), &self.spec.requests.stats.counts());
        Some(all)
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
            take_filters(child_pushdown_result, self.fetch, &self.schema(), &self.stored_columns(), &mut taken);
        if changed {
            let mut predicates = self.predicates.clone();
            predicates.extend(over_table(taken, &self.projection)?);
            result = result.with_updated_node(Arc::new(self.with(predicates, self.fetch)) as _);
        }
        Ok(result)
    }
}

impl NativeScanExec {
    /// Returns the least and the greatest number of a column of the provider, if they are known.
    fn bounds(&self, at: usize) -> Option<(i64, i64)> {
        let known = self.spec.known(at);
        Some((whole(known.min_value.get_value()?)?, whole(known.max_value.get_value()?)?))
    }

    /// Estimates the most rows and stored bytes that the scan reads. Rows of whole keys are found by the key index, so
    /// few are read for each key.
    pub fn read_at_most(&self) -> (u64, u64) {
        let spec = &self.spec;
        let rows: u64 = spec.segments.iter().map(|s| u64::from(s.described().rows)).sum();
        let bytes: u64 = spec.segments.iter().map(|s| s.described().bytes).sum();
        if let Some(keys) = keys_wanted(&self.predicates, &spec.sources, spec.state.schema().keys) {
            let most = keys.saturating_mul(spec.segments.len() as u64).saturating_mul(ROWS_A_KEY).min(rows);
            return (most, bytes / rows.max(1) * most);
        }
        let rows = self.fetch.filter(|_| self.predicates.is_empty()).map_or(rows, |n| rows.min(n as u64));
        let mut columns = vec![false; spec.sources.len()];
        self.projection.iter().for_each(|at| columns[*at] = true);
        for predicate in &self.predicates {
            collect_columns(predicate).iter().for_each(|column| columns[column.index()] = true);
        }
        let read = columns.iter().filter(|read| **read).count() as u64;
        (rows, bytes / columns.len().max(1) as u64 * read)
    }

    /// The row count is exact as long as nothing filters, and [estimated](super::selectivity) otherwise. Bounds of columns hold for every row; their counts are those
    /// of all rows ever loaded. Where all of these are returned, both are exact. The size is that of the returned
    /// columns in memory, by which joins choose the side that they keep.
    fn statistics(&self) -> Statistics {
        let spec = &self.spec;
        let rows = spec.rows as usize;
        let filtered = !self.predicates.is_empty();
        // At least one row: no estimate shows that there is none.
        let passing = match filtered {
            true => ((rows as f64 * share(&self.predicates, spec.as_ref())).ceil() as usize).max(1).min(rows),
            false => rows,
        };
        let fetched = self.fetch.map_or(passing, |n| n.min(passing));
        let is_exact = spec.is_described && !filtered && self.fetch.is_none();
        let columns = (self.projection.iter())
            .map(|&at| match spec.known(at).clone() {
                known if is_exact => super::statistics::exact(known, spec.schema.field(at).data_type()),
                known => known,
            })
            .collect();
        let row_bytes = |at: &usize| super::statistics::row_bytes(spec.known(*at), spec.schema.field(*at).data_type());
        let row_bytes: usize = self.projection.iter().map(row_bytes).sum();
        Statistics {
            num_rows: if filtered { Precision::Inexact(fetched) } else { Precision::Exact(fetched) },
            total_byte_size: Precision::Inexact(fetched.saturating_mul(row_bytes)),
            column_statistics: columns,
        }
    }
}

impl Known for NativeScanSpec {
    fn column(&self, at: usize) -> &ColumnStatistics {
        self.known(at)
    }

    fn rows(&self) -> u64 {
        self.rows
    }
}

/// Estimated rows that are read of a segment for each key.
const ROWS_A_KEY: u64 = 256;

/// Returns how many whole keys the filters of a scan leave at most; `None` if they leave a key column open.
fn keys_wanted(predicates: &[Arc<dyn PhysicalExpr>], sources: &[Source], keys: usize) -> Option<u64> {
    let mut found: Vec<Option<u64>> = vec![None; keys];
    for conjunct in predicates.iter().flat_map(parts) {
        let Some((column, values)) = values_of(conjunct) else { continue };
        if let Some(found) = sources[column].stored().and_then(|at| found.get_mut(at)) {
            *found = Some(found.map_or(values, |before| before.min(values)));
        }
    }
    found.into_iter().try_fold(1u64, |all, values| Some(all.saturating_mul(values?))).filter(|_| keys > 0)
}

/// Returns the column that a condition limits to a few values, and how many values.
fn values_of(condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, u64)> {
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        let column = list.expr().downcast_ref::<Column>()?.index();
        return (!list.negated()).then_some((column, list.list().len() as u64));
    }
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    match binary.op() {
        Operator::Eq => {
            let column = |e: &Arc<dyn PhysicalExpr>| e.downcast_ref::<Column>().map(Column::index);
            let constant = |e: &Arc<dyn PhysicalExpr>| e.is::<Literal>();
            match (column(binary.left()), column(binary.right())) {
                (Some(at), None) if constant(binary.right()) => Some((at, 1)),
                (None, Some(at)) if constant(binary.left()) => Some((at, 1)),
                _ => None,
            }
        }
        Operator::Or => match (values_of(binary.left())?, values_of(binary.right())?) {
            ((left, some), (right, more)) if left == right => Some((left, some + more)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns a number, date or timestamp as the integer that columns of its type store.
fn whole(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int8(v) => v.map(i64::from),
        ScalarValue::Int16(v) => v.map(i64::from),
        ScalarValue::Int32(v) | ScalarValue::Date32(v) => v.map(i64::from),
        ScalarValue::Int64(v) | ScalarValue::TimestampMicrosecond(v, None) => *v,
        _ => None,
    }
}
