//! The writes of INSERT, UPDATE and DELETE: the batches of a plan, pushed into one load and committed.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;
use datafusion::common::runtime::JoinSet;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::{ExecutionPlan, execute_stream, execute_stream_partitioned};
use dipper_base::retry;
use dipper_exec::cost::Class;
use dipper_exec::on_cpu::on_cpu;
use dipper_exec::quota::{Quota, task_context};
use dipper_exec::shape::Shape;
use dipper_exec::stored::check_width;
use dipper_ingest::group::{self, Share, Shared};
use dipper_ingest::outcome::Rejected;
use dipper_ingest::request::MEMBER_BYTES_MAX;
use dipper_ingest::uncommitted::{Part, Place, Uncommitted};
use dipper_load::{Filled, Load, LoadOptions, LoadProfile, LoadTarget, Partial, RejectedRow, memory_of};
use dipper_node::tables::registry::Brought;
use dipper_store::chain::TxnId;
use dipper_store::table::schema::TableSchema;
use dipper_store::table::{Reads, Replace, Rowset, Table, TableState};
use futures::StreamExt;
use parking_lot::Mutex;
use tokio::task::block_in_place;

use super::branches::Branches;
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};
use crate::profile::Recorder;
use crate::query::Planned;

/// Chooses rows from the batches of a query.
type Select = Arc<dyn Fn(&RecordBatch) -> Result<RecordBatch> + Send + Sync>;

/// Whether a partial update refuses keys that the table does not have.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewKeys {
    pub(super) refused: bool,
}

/// Whether a statement waits for others to share its commit with, for the time that the table sets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Patience(pub(super) bool);

/// The target of one transaction: the table, and how rows are written to it.
pub(super) struct Target {
    handle: Table,
    pub(super) state: Arc<TableState>,
    pub(super) txn: TxnId,
    pub(super) shape: Shape,
    /// Names of the partitions that rows may go to; empty for all.
    pub(super) partitions: Vec<String>,
    /// The partitions are temporary ones.
    pub(super) temporary: bool,
    pub(super) replaces: Replace,
    /// The load replaces the partitions that its rows fall into.
    pub(super) replaces_its_own: bool,
    pub(super) label: Option<String>,
    pub(super) max_filter_ratio: f64,
    /// Existing rows keep the columns that the query does not give.
    pub(super) partial: Option<NewKeys>,
    /// Rows whose keys exist are left out.
    pub(super) ignores: bool,
    /// The statement has few rows, which may share a commit with other statements.
    pub(super) shared: Option<Patience>,
    pub(super) recorder: Option<Recorder>,
    /// Called for each batch of the query, before it is shaped.
    pub(super) select: Option<Select>,
    /// Makes rows of the table from batches of the query, in the place of the shape.
    pub(super) branches: Option<Arc<Branches>>,
    /// Tells which rows the new ones were computed from. Called when all rows are read and the replaced partitions are
    /// known.
    pub(super) reads: Option<Box<dyn FnOnce(&Replace) -> Reads + Send>>,
    /// Set if the statement is part of a transaction, which receives what it writes.
    within: Option<Place>,
}

impl Target {
    pub(super) fn new(handle: Table, state: Arc<TableState>, shape: Shape) -> Self {
        Target {
            txn: handle.begin(),
            handle,
            state,
            shape,
            partitions: Vec::new(),
            temporary: false,
            replaces: Replace::None,
            replaces_its_own: false,
            label: None,
            max_filter_ratio: 0.0,
            partial: None,
            ignores: false,
            shared: None,
            recorder: None,
            select: None,
            branches: None,
            reads: None,
            within: None,
        }
    }

    /// Makes the load a part of a transaction.
    ///
    /// # Errors
    /// The transaction has too many parts.
    pub(super) fn enter(&mut self, transaction: &mut Uncommitted) -> Result<()> {
        let place = transaction.place()?;
        self.txn = place.txn;
        self.within = Some(place);
        Ok(())
    }
}

/// The writes that a statement hands to its transaction.
pub(super) enum Own {
    /// A few rows, not yet written.
    Rows(Vec<RecordBatch>),
    /// Rows that are durable already.
    Part(Part),
}

/// How the rows of a statement were made, for the transaction that receives them.
pub(super) struct Kept {
    definition: Arc<TableSchema>,
    strict: bool,
    max_filter_ratio: f64,
}

impl Kept {
    pub(super) fn of(target: &Target) -> Self {
        let Target { shape, max_filter_ratio, .. } = target;
        Kept { definition: Arc::clone(&shape.definition), strict: shape.strict, max_filter_ratio: *max_filter_ratio }
    }

    /// Hands the writes to the transaction.
    ///
    /// # Errors
    /// `BadValue` if more rows are refused than the statement tolerates. The transaction then has none of its rows.
    pub(super) async fn give(&self, mut written: Written, to: &mut Uncommitted) -> Result<Written> {
        match written.own.take() {
            None => {}
            Some(Own::Part(part)) => to.add(part),
            Some(Own::Rows(rows)) => {
                let pushed: usize = rows.iter().map(RecordBatch::num_rows).sum();
                let refused_max = (self.max_filter_ratio * pushed as f64).floor() as u64;
                let taken = to.values(&self.definition, rows, self.strict, refused_max).await?;
                let mut rejects = Rejects::default();
                rejects.add(pushed, taken.refused, self.max_filter_ratio)?;
                written = Written { generated: taken.generated, last: taken.last, ..rejects.written() };
                written.check(self.max_filter_ratio)?;
            }
        }
        to.rows += written.rows;
        Ok(written)
    }
}

/// The result of a statement that writes.
#[derive(Default)]
pub(super) struct Written {
    pub(super) rows: u64,
    /// Rows that were rejected.
    pub(super) rejected: u64,
    /// The reasons for the first of them.
    pub(super) reasons: Vec<String>,
    /// Rows that were left out because their keys exist.
    pub(super) left_out: u64,
    /// The shared transaction, if the statement shared its commit with others.
    pub(super) txn: Option<TxnId>,
    /// The first value generated for the AUTO_INCREMENT column.
    pub(super) generated: Option<i64>,
    /// The value of the AUTO_INCREMENT column in the last row, if the rows have an order.
    pub(super) last: Option<i64>,
    /// Counters of the load's steps and the time of its commit, if the statement had a load of its own.
    pub(super) pipeline: Option<(LoadProfile, Duration)>,
    /// Writes that are still to be handed to the statement's transaction.
    own: Option<Own>,
}

impl Written {
    /// Refuses the whole statement if more than this share of its rows was rejected, as in Doris.
    fn check(&self, max_filter_ratio: f64) -> Result<()> {
        if self.rejected as f64 <= max_filter_ratio * (self.rows + self.rejected) as f64 {
            return Ok(());
        }
        let first = self.reasons.first().cloned().unwrap_or_default();
        let rejected = Rejected { rejected: self.rejected, rows: self.rows + self.rejected, first };
        let message = format!("Insert has filtered data: {rejected}");
        Err(EngineError::new(ErrorKind::BadValue, message).with_source(rejected))
    }
}

/// Bytes that a key takes in a set besides its own bytes: its entry, as many free entries, and the overhead of the
/// allocator.
const SEEN_KEY_BYTES: usize = 48;

/// The filter of INSERT IGNORE: of the rows of each key that the table does not have, only the first passes.
struct Unseen {
    table: Partial,
    /// Keys of rows that have passed.
    seen: Mutex<HashSet<Box<[u8]>>>,
    memory: MemoryReservation,
}

impl Unseen {
    fn new(table: Partial, pool: &Arc<dyn MemoryPool>) -> Self {
        let memory = MemoryConsumer::new("keys of an INSERT IGNORE").register(pool);
        Unseen { table, seen: Mutex::default(), memory }
    }

    /// Returns the rows of a batch that pass. Blocks.
    fn choose(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut bytes = 0;
        let new = self.table.unseen(batch, |key| {
            let is_first = self.seen.lock().insert(key.into());
            bytes += if is_first { key.len() + SEEN_KEY_BYTES } else { 0 };
            is_first
        })?;
        self.memory.try_grow(bytes)?;
        Ok(filter_record_batch(batch, &new)?)
    }
}

/// Most reasons that are kept for SHOW WARNINGS.
const REASONS_MAX: usize = 64;

/// Counters of the parallel parts of a statement.
#[derive(Debug, Default)]
struct Rejects {
    pushed: u64,
    rejected: u64,
    left_out: u64,
    reasons: Vec<String>,
    generated: Option<i64>,
    last: Option<i64>,
}

impl Rejects {
    fn add(&mut self, rows: usize, rejected: Vec<RejectedRow>, max_filter_ratio: f64) -> Result<()> {
        self.pushed += rows as u64;
        self.rejected += rejected.len() as u64;
        let left = REASONS_MAX.saturating_sub(self.reasons.len());
        self.reasons.extend(rejected.into_iter().take(left).map(|r| r.reason));
        // Without tolerance, the first rejected row fails the statement.
        if max_filter_ratio <= 0.0 { self.written().check(0.0) } else { Ok(()) }
    }

    fn written(&self) -> Written {
        Written {
            rows: self.pushed - self.rejected,
            rejected: self.rejected,
            reasons: self.reasons.clone(),
            left_out: self.left_out,
            generated: self.generated,
            last: self.last,
            ..Written::default()
        }
    }

    /// Records the first generated value of a push. Threads draw values in any order, so the least value is the first.
    fn generated(&mut self, first: Option<i64>) {
        self.generated = self.generated.into_iter().chain(first).min();
    }
}

/// Runs a query on its threads and publishes its rows.
pub(super) async fn run(engine: &Arc<Engine>, planned: Planned, mut target: Target) -> Result<Written> {
    if target.branches.is_none() {
        check_width(
            target.shape.wanted,
            planned.logical.schema().fields().len() - 2 * usize::from(target.select.is_some()),
        )?;
    }
    let physical = planned.physical().await?;
    let mut recorder = target.recorder.take();
    if let Some(recorder) = &mut recorder {
        recorder.planned();
    }
    let class = Class::of(&physical);
    let permit = engine.admission.admit(class, &physical, &planned.state).await?;
    if let Some(recorder) = &mut recorder {
        recorder.admitted();
    }
    let (plan, of) = (Arc::clone(&physical), Arc::clone(engine));
    let work = Box::pin(async move {
        let _permit = permit;
        write(&of, &planned, plan, target).await
    });
    let written = match class {
        Class::Long => on_cpu(engine.cpu(), work).await,
        Class::Tiny | Class::Short => work.await,
    };
    let Some(mut recorder) = recorder else { return written };
    if let Ok(Written { pipeline: Some((pipeline, commit)), .. }) = &written {
        recorder.written(*pipeline, *commit);
    }
    let rows = written.as_ref().map_or(0, |w| w.rows);
    recorder.end(Some(physical.as_ref()), rows, Duration::ZERO, written.as_ref().map(drop).map_err(Some));
    written
}

async fn write(
    engine: &Arc<Engine>,
    planned: &Planned,
    physical: Arc<dyn ExecutionPlan>,
    target: Target,
) -> Result<Written> {
    let task = task_context(&planned.state);
    let streams = match target.shared {
        Some(patience) => {
            let mut stream = execute_stream(physical, Arc::clone(&task))?;
            let mut batches = Vec::new();
            let mut bytes = 0;
            while bytes <= MEMBER_BYTES_MAX
                && let Some(batch) = stream.next().await.transpose()?
            {
                bytes += memory_of(&batch);
                batches.push(batch);
            }
            if bytes <= MEMBER_BYTES_MAX && target.within.is_some() {
                let rows = batches.iter().map(|batch| target.shape.shape(batch)).collect::<Result<Vec<_>>>()?;
                return Ok(Written { own: Some(Own::Rows(rows)), ..Written::default() });
            }
            if bytes <= MEMBER_BYTES_MAX
                && let Some(written) =
                    share(engine, &target.handle, &target.shape, target.max_filter_ratio, patience, &batches).await?
            {
                return Ok(written);
            }
            vec![futures::stream::iter(batches.into_iter().map(Ok)).chain(stream).boxed()]
        }
        None => {
            let streams = execute_stream_partitioned(physical, Arc::clone(&task))?;
            streams.into_iter().map(StreamExt::boxed).collect()
        }
    };
    let Target { handle, state, txn, shape, partitions, temporary, replaces, label, max_filter_ratio, .. } = target;
    let (select, branches, reads, within) = (target.select, target.branches, target.reads, target.within);
    let replaces_its_own = target.replaces_its_own;
    let defaults = LoadOptions::default();
    let quota = Quota::under(&planned.state).and_then(|quota| quota.bytes());
    let options = LoadOptions {
        strict: shape.strict,
        partitions: (!partitions.is_empty()).then_some(partitions),
        temporary_partitions: temporary,
        threads: engine.threads,
        memory_bytes: defaults.memory_bytes.min(quota.map_or(u64::MAX, |bytes| bytes as u64)),
        first_object: within.map_or(0, |place| place.first_object),
        generate: engine.loads.generator(state.schema()).await?,
        ..defaults
    };
    let begin = |state: &Arc<TableState>, txn| {
        let target = LoadTarget { table: handle.clone(), state: Arc::clone(state), txn };
        Load::begin(target, options.clone(), engine.io().clone())
    };
    let given = shape.given();
    let with = |state: &Arc<TableState>, given: &[usize]| {
        let readers = Arc::clone(engine.native.readers());
        Partial::try_new(handle.clone(), Arc::clone(state), given, readers, engine.io().clone())
    };
    let complete = |state: &Arc<TableState>| with(state, &given);
    let load = begin(&state, txn)?;
    let partial = match target.partial {
        Some(new_keys) => Some((Arc::new(complete(&state)?), new_keys)),
        None => None,
    };
    let unseen = match target.ignores {
        // Key columns that are not given are constant in all rows, or the load generates them.
        true => {
            let all: Vec<usize> = (0..state.schema().columns.len()).collect();
            Some(Arc::new(Unseen::new(with(&state, &all)?, task.memory_pool())))
        }
        false => None,
    };
    // None of their keys may be added to the table before the commit.
    let unread = target.ignores.then(|| Reads { seq: state.seq(), rows: 0 });
    let shape = Arc::new(shape);
    let order = Arc::new(AtomicU64::new(0));
    let rejects = Arc::new(Mutex::new(Rejects::default()));
    let in_order = streams.len() == 1;
    let mut tasks = JoinSet::new();
    for mut stream in streams {
        let (load, shape, order) = (Arc::clone(&load), Arc::clone(&shape), Arc::clone(&order));
        let (rejects, select, partial) = (Arc::clone(&rejects), select.clone(), partial.clone());
        let (unseen, branches) = (unseen.clone(), branches.clone());
        tasks.spawn(async move {
            while let Some(batch) = stream.next().await {
                let mut batch = batch.map_err(EngineError::from)?;
                if let Some(select) = &select {
                    batch = select(&batch)?;
                }
                if let Some(branches) = &branches {
                    let rows = branches.rows(&batch)?;
                    let report = block_in_place(|| load.push(order.fetch_add(1, Ordering::Relaxed), &rows))?;
                    let mut rejects = rejects.lock();
                    rejects.generated(report.generated);
                    rejects.add(rows.iter().map(RecordBatch::num_rows).sum(), report.rejected, max_filter_ratio)?;
                    continue;
                }
                let mut rows = [shape.shape(&batch)?];
                if unseen.is_some() || partial.is_some() {
                    rows = [load.with_stored_keys(&rows[0])?];
                }
                if let Some(unseen) = &unseen {
                    let new = block_in_place(|| unseen.choose(&rows[0]))?;
                    rejects.lock().left_out += (rows[0].num_rows() - new.num_rows()) as u64;
                    rows = [new];
                }
                if let Some((partial, new_keys)) = &partial {
                    let filled = block_in_place(|| partial.fill(&rows[0]))?;
                    new_keys.check(&filled)?;
                    rows = [filled.batch];
                }
                // The number is drawn right before the push, because a push may wait for those with smaller numbers.
                let report = block_in_place(|| load.push(order.fetch_add(1, Ordering::Relaxed), &rows))?;
                let mut rejects = rejects.lock();
                rejects.generated(report.generated);
                rejects.last = report.last.filter(|_| in_order).or(rejects.last);
                rejects.add(rows[0].num_rows(), report.rejected, max_filter_ratio)?;
            }
            Ok::<_, EngineError>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        let failed = match done {
            Ok(Ok(())) => continue,
            Ok(Err(e)) => e,
            Err(e) if e.is_panic() => {
                // Other tasks may wait for the push of the number that this task has drawn.
                block_in_place(|| load.abort());
                std::panic::resume_unwind(e.into_panic())
            }
            Err(_) => EngineError::new(ErrorKind::Killed, "the statement was cancelled"),
        };
        block_in_place(|| load.abort());
        tasks.shutdown().await;
        return Err(failed);
    }
    let written = rejects.lock().written();
    written.check(max_filter_ratio)?;
    let mut rowset = block_in_place(|| load.finish())?;
    rowset.replaces = match replaces_its_own {
        true => {
            let segments = rowset.objects.iter().flat_map(|object| &object.segments);
            let partitions: BTreeSet<_> = segments.map(|segment| segment.tablet.partition).collect();
            Replace::Partitions(partitions.into_iter().collect())
        }
        false => replaces,
    };
    rowset.label = label;
    rowset.reads = match (&partial, reads) {
        (Some((partial, _)), _) => Some(partial.reads()),
        (None, reads) => reads.map(|reads| reads(&rowset.replaces)).or(unread),
    };
    if branches.is_some() {
        // Inserted rows may replace rows that the query has not read; they must be the same at the commit.
        let own = Brought::of(&rowset);
        let replaced = engine.native.replaced(&handle, own, Arc::clone(&state), 0).await?;
        let old = replaced.iter().filter(|(segment, _)| segment.object.txn != rowset.txn);
        rowset.reads = Some(Reads { seq: state.seq(), rows: old.map(|(_, rows)| rows.0.len()).sum() });
    }
    if within.is_some() {
        let pipeline = Some((load.profile(), Duration::ZERO));
        return Ok(Written { pipeline, own: Some(Own::Part(Part { load, rowset })), ..written });
    }
    let begun = Instant::now();
    for _ in 0..retry::STATEMENT.attempts {
        match engine.native.publish(&handle, rowset.clone()).await {
            Ok(_) => return Ok(Written { pipeline: Some((load.profile(), begun.elapsed())), ..written }),
            // Rows that were completed with existing values have changed in between; they are completed again.
            Err(e) if e.is_passing_conflict() && partial.is_some() => {
                let state = handle.refresh().await?;
                let again = complete(&state)?;
                let load = begin(&state, handle.begin())?;
                let rebased = block_in_place(|| {
                    again.rebase(&rowset, &load)?;
                    load.finish()
                })?;
                rowset =
                    Rowset { replaces: rowset.replaces, label: rowset.label, reads: Some(again.reads()), ..rebased };
            }
            Err(e) => return Err(e),
        }
    }
    let message = "others changed the same rows again and again; repeat the statement";
    Err(EngineError::new(ErrorKind::Conflict, message).with_source(retry::STATEMENT.given_up()))
}

/// Commits a few rows together with those of other statements; `None` if they must be committed alone.
async fn share(
    engine: &Arc<Engine>,
    handle: &Table,
    shape: &Shape,
    max_filter_ratio: f64,
    patience: Patience,
    batches: &[RecordBatch],
) -> Result<Option<Written>> {
    let rows = batches.iter().map(|b| shape.shape(b)).collect::<Result<Vec<_>>>()?;
    let pushed: usize = rows.iter().map(RecordBatch::num_rows).sum();
    let share = Share {
        schema: Arc::clone(&shape.definition),
        rows,
        label: None,
        strict: shape.strict,
        refused_max: (max_filter_ratio * pushed as f64).floor() as u64,
        patient: patience.0,
    };
    let (txn, refused, generated, last) = match group::commit(&engine.loads, handle, share).await? {
        Shared::Committed(c) => (Some(c.txn), c.refused, c.generated, c.last),
        Shared::Refused(refused) => (None, refused, None, None),
        Shared::Failed(_, e) => return Err(e),
        Shared::Exists(..) | Shared::Apart => return Ok(None),
    };
    let mut rejects = Rejects::default();
    rejects.add(pushed, refused, max_filter_ratio)?;
    let written = rejects.written();
    written.check(max_filter_ratio)?;
    Ok(Some(Written { txn, generated, last, ..written }))
}

impl NewKeys {
    fn check(self, filled: &Filled) -> Result<()> {
        if self.refused && filled.is_new.true_count() > 0 {
            return Err(EngineError::invalid(
                "[E-7003]Can't append new rows in partial update when partial_update_new_key_behavior is ERROR",
            ));
        }
        Ok(())
    }
}
