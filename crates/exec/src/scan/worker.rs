//! The workers of a scan. Each has several row groups in flight, so that the bytes of the next ones arrive while one is
//! decoded.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use arrow::array::BooleanBufferBuilder;
use arrow::buffer::BooleanBuffer;
use arrow::record_batch::RecordBatch;
use datafusion::error::Result as DfResult;
use datafusion::physical_plan::metrics::{BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, Time};
use dipper_base::preempt;
use dipper_node::error::{EngineError, Result};
use dipper_store::segment::{GroupScan, ScanIo, SegmentError};
use futures::future::{BoxFuture, FutureExt};
use futures::stream::{FuturesUnordered, Stream, StreamExt};
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use super::prune::Kept;

/// Row groups that a worker has in flight on the local disk: the next one is read while one is decoded.
const DEPTH_LOCAL: usize = 2;
/// Row groups that a worker has in flight on object storage, where the latency of a request is high.
const DEPTH_REMOTE: usize = 24;
/// Stored bytes that the workers of a scan have in flight together.
const UNDER_WAY_BYTES: u64 = 192 << 20;

/// Counters of a scan besides those of its reads.
#[derive(Debug, Clone)]
pub struct ScanMetrics {
    groups_read: Count,
    groups_pruned: Count,
    rows_scanned: Count,
    io_wait: Time,
}

impl ScanMetrics {
    /// Registers the counters of one partition of a scan.
    pub fn new(set: &ExecutionPlanMetricsSet, partition: usize) -> Self {
        let counter = |name: &'static str| MetricBuilder::new(set).counter(name, partition);
        ScanMetrics {
            groups_read: counter("row_groups_read"),
            groups_pruned: counter("row_groups_pruned"),
            rows_scanned: counter("rows_scanned"),
            io_wait: MetricBuilder::new(set).subset_time("io_wait_time", partition),
        }
    }
}

/// A running scan, shared by all its workers.
pub trait ScanRun: Send + Sync + 'static {
    /// The piece of a task that a worker opens at a time.
    type Morsel: Copy + Send + 'static;
    /// State that is kept for a morsel while it is decoded.
    type Tag: Send + 'static;

    /// Returns the next task: morsels that one worker takes one after the other. `None` if all are taken.
    fn take(&self) -> Option<VecDeque<Self::Morsel>>;

    /// Fetches and filters a morsel, and leaves its remaining rows to be decoded. `None` if no row can pass.
    fn open(
        &self,
        morsel: Self::Morsel,
        metrics: &ScanMetrics,
    ) -> impl Future<Output = Result<Option<(Self::Tag, GroupScan)>>> + Send;

    /// Converts a decoded batch to the schema of the plan.
    fn output(&self, tag: &Self::Tag, batch: RecordBatch) -> Result<RecordBatch>;

    /// Reads the rows `rest` of a row group, whose decoding failed with `e`, once more from where they may be
    /// undamaged.
    ///
    /// # Errors
    /// `e` if another attempt is of no use; this is what the default implementation returns.
    fn again(
        &self,
        _tag: &mut Self::Tag,
        _group: usize,
        _rest: BooleanBuffer,
        e: SegmentError,
    ) -> impl Future<Output = Result<GroupScan>> + Send {
        std::future::ready(Err(e.into()))
    }

    /// Returns the LIMIT, and the number of rows handed out so far; `None` without a LIMIT.
    fn limit(&self) -> Option<(u64, &AtomicU64)>;
}

/// Returns how many morsels each of `workers` has in flight. `bytes` are the estimated stored bytes of one morsel.
pub fn depth(io: &ScanIo, remote: bool, bytes: u64, workers: usize) -> usize {
    if io.is_serial() || io.wants_few() {
        return 1;
    }
    let most = if remote { DEPTH_REMOTE } else { DEPTH_LOCAL };
    ((UNDER_WAY_BYTES / bytes.max(1)) as usize / workers.max(1)).clamp(1, most)
}

/// Returns the rows of a row group that pages leave, `Some(None)` for all of them, and updates the counters. `None` if
/// no row is left.
pub fn rows_of(kept: Kept, io: &ScanIo, total: usize, metrics: &ScanMetrics) -> Option<Option<BooleanBuffer>> {
    let whole = |rows: &BooleanBuffer| rows.len() == total;
    assert!(!matches!(&kept, Kept::Rows(rows, _) if !whole(rows)), "one bit for each row of the row group");
    let rows = match kept {
        Kept::Nothing => {
            metrics.groups_pruned.add(1);
            return None;
        }
        Kept::All => None,
        Kept::Rows(rows, pruned) => {
            io.pruned_pages(pruned as u64);
            Some(rows)
        }
    };
    metrics.groups_read.add(1);
    metrics.rows_scanned.add(rows.as_ref().map_or(total, |r| r.count_set_bits()));
    Some(rows)
}

/// Returns one bit per row with the first `wanted` rows of a row group set; `None` for all rows.
pub fn first_rows(wanted: usize, total: usize) -> Option<BooleanBuffer> {
    (wanted < total).then(|| {
        let mut rows = BooleanBufferBuilder::new(total);
        rows.append_n(wanted, true);
        rows.append_n(total - wanted, false);
        rows.finish()
    })
}

/// The worker of one partition of a scan.
pub struct Worker<R: ScanRun> {
    run: Arc<R>,
    metrics: ScanMetrics,
    depth: usize,
    task: VecDeque<R::Morsel>,
    pending: FuturesUnordered<Opening<R>>,
    open: Option<(R::Tag, GroupScan)>,
    /// Nanoseconds that separate tasks have computed for this worker.
    elsewhere: Arc<AtomicU64>,
}

type Opening<R> = BoxFuture<'static, Result<Option<(<R as ScanRun>::Tag, GroupScan)>>>;

impl<R: ScanRun> Worker<R> {
    /// Makes a worker with `depth` morsels in flight. With `early`, the first ones start before the plan asks for rows:
    /// inputs of joins are polled one after the other, and each would wait for its own first bytes.
    pub fn new(run: Arc<R>, metrics: ScanMetrics, depth: usize, early: Option<&Handle>) -> Self {
        let (task, pending) = (VecDeque::new(), FuturesUnordered::new());
        let elsewhere = Arc::new(AtomicU64::new(0));
        let mut worker = Worker { run, metrics, depth, task, pending, open: None, elsewhere: Arc::clone(&elsewhere) };
        if let Some(runtime) = early {
            worker.fill(|opening| {
                let mut task = Aborting(runtime.spawn(Counted { inner: opening, nanos: Arc::clone(&elsewhere) }));
                Box::pin(async move {
                    let done = (&mut task.0).await;
                    done.unwrap_or_else(|e| match e.try_into_panic() {
                        Ok(panic) => std::panic::resume_unwind(panic),
                        Err(_) => Err(EngineError::invalid("the scan was stopped")),
                    })
                })
            });
        }
        worker
    }

    fn fill(&mut self, begin: impl Fn(Opening<R>) -> Opening<R>) {
        assert!(self.depth > 0, "a worker has a morsel under way");
        while self.pending.len() < self.depth {
            let Some(morsel) = self.task.pop_front() else {
                match self.run.take() {
                    Some(task) => self.task = task,
                    None => return,
                }
                continue;
            };
            let (run, metrics) = (Arc::clone(&self.run), self.metrics.clone());
            self.pending.push(begin(async move { run.open(morsel, &metrics).await }.boxed()));
        }
    }

    /// Returns the next batch; `None` when all row groups are taken, or the LIMIT is reached.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            preempt::yield_point();
            let run = &self.run;
            if run.limit().is_some_and(|(most, done)| done.load(Ordering::Relaxed) >= most) {
                return Ok(None);
            }
            if let Some((tag, rows)) = &mut self.open {
                let batch = match rows.next() {
                    Some(Ok(batch)) => batch,
                    Some(Err(e)) => {
                        let (group, rest) = (rows.group(), rows.rest());
                        *rows = run.again(tag, group, rest, e).await?;
                        continue;
                    }
                    None => {
                        self.open = None;
                        continue;
                    }
                };
                // Decoding is one piece of work, processing the rows is another: yield in between.
                preempt::yield_point();
                let batch = run.output(tag, batch)?;
                let Some((most, done)) = run.limit() else { return Ok(Some(batch)) };
                let rows = batch.num_rows() as u64;
                let before = done.fetch_add(rows, Ordering::Relaxed);
                assert!(before.checked_add(rows).is_some(), "rows handed out are counted");
                return Ok(Some(batch.slice(0, most.saturating_sub(before).min(rows) as usize)));
            }
            self.fill(|opening| opening);
            match self.pending.next().await {
                None => return Ok(None),
                Some(opened) => self.open = opened?,
            }
        }
    }

    /// Turns the worker into the stream of its batches, and measures the time.
    pub fn batches(self, baseline: BaselineMetrics) -> impl Stream<Item = DfResult<RecordBatch>> {
        let (busy, waited) = (baseline.elapsed_compute().clone(), self.metrics.io_wait.clone());
        let elsewhere = Arc::clone(&self.elsewhere);
        let batches = futures::stream::try_unfold(self, |mut worker| async move {
            let next = worker.next().await.map_err(EngineError::into_datafusion)?;
            Ok(next.map(|batch| (batch, worker)))
        });
        let timed = Timed { inner: Box::pin(batches), busy, waited, since: None, elsewhere, counted: 0 };
        timed.inspect(move |batch| {
            if let Ok(batch) = batch {
                baseline.record_output(batch.num_rows());
            }
        })
    }
}

/// A task that is aborted when this handle is dropped.
#[derive(Debug)]
pub struct Aborting<T>(pub JoinHandle<T>);

impl<T> Drop for Aborting<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Measures the time in which a future computes.
struct Counted<F> {
    inner: F,
    nanos: Arc<AtomicU64>,
}

impl<F: Future + Unpin> Future for Counted<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let began = Instant::now();
        let done = Pin::new(&mut self.inner).poll(cx);
        self.nanos.fetch_add(began.elapsed().as_nanos() as u64, Ordering::Relaxed);
        done
    }
}

/// Measures separately the time in which a stream computed and the time in which it waited.
struct Timed<S> {
    inner: Pin<Box<S>>,
    busy: Time,
    waited: Time,
    since: Option<Instant>,
    /// Nanoseconds computed for the stream in other tasks, and how many of them are in `busy` already.
    elsewhere: Arc<AtomicU64>,
    counted: u64,
}

impl<S: Stream> Stream for Timed<S> {
    type Item = S::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let elsewhere = self.elsewhere.load(Ordering::Relaxed);
        assert!(elsewhere >= self.counted, "time does not run backwards");
        let computed = Duration::from_nanos(elsewhere - std::mem::replace(&mut self.counted, elsewhere));
        if !computed.is_zero() {
            self.busy.add_duration(computed);
        }
        if let Some(since) = self.since.take() {
            self.waited.add_duration(since.elapsed().saturating_sub(computed));
        }
        let began = Instant::now();
        let next = self.inner.as_mut().poll_next(cx);
        self.busy.add_elapsed(began);
        if next.is_pending() {
            self.since = Some(Instant::now());
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_have_as_much_under_way_as_memory_allows() {
        let many = ScanIo::new(false, false);
        assert_eq!(depth(&many, false, 1, 4), DEPTH_LOCAL);
        assert_eq!(depth(&many, true, 1, 4), DEPTH_REMOTE);
        // Four workers with morsels of 16 MiB: 192 MiB are three for each.
        assert_eq!(depth(&many, true, 16 << 20, 4), 3);
        assert_eq!(depth(&many, true, u64::MAX, 4), 1, "a worker always has one");
        assert_eq!(depth(&many, true, 0, 0), DEPTH_REMOTE, "nothing is known of sizes, and no worker is named");
        assert_eq!(depth(&ScanIo::new(true, false), true, 1, 1), 1, "one request after the other");
        assert_eq!(depth(&ScanIo::new(false, true), true, 1, 1), 1, "a few first rows");
    }

    #[test]
    fn first_rows_are_the_first() {
        for total in 0..20 {
            for wanted in 0..25 {
                match first_rows(wanted, total) {
                    None => assert!(wanted >= total, "{wanted} of {total}"),
                    Some(rows) => {
                        assert!(wanted < total, "{wanted} of {total}");
                        assert_eq!(rows.len(), total);
                        assert_eq!(rows.set_indices().collect::<Vec<_>>(), (0..wanted).collect::<Vec<_>>());
                    }
                }
            }
        }
    }

    #[test]
    fn rows_that_pages_leave_are_counted() {
        let (io, set) = (ScanIo::new(false, false), ExecutionPlanMetricsSet::new());
        let metrics = ScanMetrics::new(&set, 0);
        assert!(rows_of(Kept::Nothing, &io, 10, &metrics).is_none());
        assert_eq!(rows_of(Kept::All, &io, 10, &metrics), Some(None));
        let some = BooleanBuffer::collect_bool(10, |row| row < 3);
        assert_eq!(rows_of(Kept::Rows(some.clone(), 2), &io, 10, &metrics), Some(Some(some)));
        let counted = [&metrics.groups_pruned, &metrics.groups_read, &metrics.rows_scanned].map(|count| count.value());
        assert_eq!(counted, [1, 2, 13]);
        assert_eq!(io.counts().pages_pruned, 2);
    }

    #[test]
    #[should_panic(expected = "one bit for each row of the row group")]
    fn rows_of_another_row_group_are_refused() {
        let metrics = ScanMetrics::new(&ExecutionPlanMetricsSet::new(), 0);
        let io = ScanIo::new(false, false);
        let _ = rows_of(Kept::Rows(BooleanBuffer::new_set(9), 1), &io, 10, &metrics);
    }

    /// A stream that waits for a tenth of a second is measured as one that waited, but for what was computed for it in
    /// the meantime.
    #[test]
    fn waiting_is_no_work() {
        const WAIT: Duration = Duration::from_millis(100);
        const COMPUTED: Duration = Duration::from_millis(40);
        let elsewhere = Arc::new(AtomicU64::new(0));
        let (busy, waited) = (Time::new(), Time::new());
        let computed = Arc::clone(&elsewhere);
        let inner = futures::stream::once(async move {
            tokio::time::sleep(WAIT).await;
            computed.fetch_add(COMPUTED.as_nanos() as u64, Ordering::Relaxed);
        });
        let timed = Timed {
            inner: Box::pin(inner),
            busy: busy.clone(),
            waited: waited.clone(),
            since: None,
            elsewhere,
            counted: 0,
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        // The time computed elsewhere is known when the stream is asked again.
        assert_eq!(runtime.block_on(timed.collect::<Vec<()>>()).len(), 1);
        let (busy, waited) = (Duration::from_nanos(busy.value() as u64), Duration::from_nanos(waited.value() as u64));
        assert!(busy >= COMPUTED, "{busy:?} of {COMPUTED:?} at least");
        assert!(waited >= WAIT - Duration::from_millis(5), "{waited:?} of {WAIT:?}");
    }
}
