//! One load: batches in, a rowset out.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Instant;

use arrow_array::builder::Int64Builder;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use dipper_base::preempt;
use dipper_store::chain::TxnId;
use dipper_store::route::{NewPartition, Routed, Router, dynamic::auto_buckets};
use dipper_store::segment::{WriteOptions, encode_segment};
use dipper_store::table::schema::{Aggregate, ColumnId, Model, Partition, TableSchema};
use dipper_store::table::{Rowset, Table, TableState};
use parking_lot::{Condvar, Mutex, RwLock};
use tokio::runtime::Handle;

use crate::LoadError;
use crate::buffer::{Buffers, Chunk, Limits, Part, gather, memory_of};
use crate::check::Checks;
use crate::generate::{Computed, Generate};
use crate::output::Output;
use crate::profile::{Counters, LoadProfile, add, add_time, timed};
use crate::sort::sort_chunk;
use crate::stats::Sketches;

/// The table to load into, its state, and the transaction.
#[derive(Debug, Clone)]
pub struct LoadTarget {
    /// The table.
    pub table: Table,
    /// The state by which rows are typed and routed.
    pub state: Arc<TableState>,
    /// The transaction that [`Table::begin`] gave.
    pub txn: TxnId,
}

/// Options of a load.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Whether strings that are too long for CHAR(n) and VARCHAR(n) reject their row, instead of being cut to n
    /// characters.
    pub strict: bool,
    /// Names of the partitions to load into. Rows of other partitions are rejected, and no partition is made.
    pub partitions: Option<Vec<String>>,
    /// Whether `partitions` names temporary partitions.
    pub temporary_partitions: bool,
    /// Whether all rows of a partition go to one bucket if buckets are random.
    pub single_tablet: bool,
    /// Approximate number of bytes that rows may take while they wait and are encoded. Encoded segments on their way to
    /// the store come on top (at most some 80 MiB).
    pub memory_bytes: u64,
    /// Number of threads that push, and that [`Load::finish`] uses.
    pub threads: usize,
    /// Maximum number of rows of a segment.
    pub segment_rows: usize,
    /// Size in bytes at which an object is ended and the next one begun.
    pub object_bytes: u64,
    /// Maximum size in bytes of a STRING, JSON or BINARY value.
    pub string_bytes_max: usize,
    /// Number of the first object. Loads that share a transaction distinguish the names of their objects by it.
    pub first_object: u32,
    /// See [`Rowset::condition`].
    pub condition: Option<ColumnId>,
    /// Computes the generated columns. Required for a table that has such columns.
    pub generate: Option<Arc<dyn Generate>>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        // Asked once: this call reads the files of control groups, which per load was 2% of the work of the store's
        // threads for one.
        static CORES: LazyLock<usize> = LazyLock::new(|| std::thread::available_parallelism().map_or(1, usize::from));
        LoadOptions {
            strict: false,
            partitions: None,
            temporary_partitions: false,
            single_tablet: false,
            memory_bytes: 384 << 20,
            threads: *CORES,
            segment_rows: 128 * 1024,
            object_bytes: 256 << 20,
            string_bytes_max: 10 << 20,
            first_object: 0,
            condition: None,
            generate: None,
        }
    }
}

/// A row that was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectedRow {
    /// Index of the batch in the push.
    pub batch: usize,
    /// Row in that batch.
    pub row: usize,
    /// Reason, in Doris's words.
    pub reason: String,
}

/// Result of a push.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushReport {
    /// Rejected rows, in order. The caller decides how many are too many, and then aborts.
    pub rejected: Vec<RejectedRow>,
    /// The first value that was generated for the AUTO_INCREMENT column.
    pub generated: Option<i64>,
    /// The value of the AUTO_INCREMENT column in the last accepted row.
    pub last: Option<i64>,
}

/// Rows of one piece of the input, checked and routed.
#[derive(Debug, Default)]
pub struct Checked {
    parts: Vec<Part>,
    /// Result of the check.
    pub report: PushReport,
}

/// A load in progress; see the [crate]. It is shared by the threads that push.
///
/// Dropped without [`finish`](Load::finish) or [`abort`](Load::abort), it leaves objects that vacuum deletes.
#[derive(Debug)]
pub struct Load {
    target: LoadTarget,
    options: LoadOptions,
    schema: Arc<TableSchema>,
    input: SchemaRef,
    write: Arc<WriteOptions>,
    checks: Checks,
    /// Whether later rows win.
    ordered: bool,
    /// Index of the AUTO_INCREMENT column.
    auto_increment: Option<usize>,
    reserved: Mutex<std::ops::Range<i64>>,
    /// Largest value of the AUTO_INCREMENT column so far.
    largest: AtomicI64,
    router: RwLock<Arc<Router>>,
    /// Held while partitions are being made.
    making: Mutex<()>,
    buffers: Mutex<Buffers>,
    /// Signals that a push entered, or that the load ended.
    entered: Condvar,
    output: Output,
    sketches: Mutex<Sketches>,
    /// Reason why the load ended.
    ended: Mutex<Option<String>>,
    is_ended: AtomicBool,
    working_bytes: std::sync::atomic::AtomicU64,
    counters: Counters,
    runtime: Handle,
}

/// Maximum number of AUTO_INCREMENT values reserved at a time, unless one batch needs more.
const RESERVED_MAX: u64 = 1 << 20;
/// Maximum number of partitions up to which AUTO PARTITION makes new ones; Doris's limit (`max_auto_partition_num`).
const PARTITIONS_MAX: usize = 2000;
/// Minimum number of bytes of rows per thread: starting a thread costs as much as encoding some thousand rows.
const THREAD_BYTES: u64 = 1 << 20;

impl Load {
    /// Begins a load. `runtime` runs the writing; the methods block and must not be called on its async threads.
    ///
    /// # Errors
    /// [`LoadError::Route`] if a named partition does not exist; an error of the store if a property of the table is
    /// invalid; [`LoadError::Generated`] if the table has generated columns and nothing computes them.
    pub fn begin(target: LoadTarget, options: LoadOptions, runtime: Handle) -> Result<Arc<Self>, LoadError> {
        let schema = Arc::clone(target.state.schema());
        if schema.has_generated() && options.generate.is_none() {
            return Err(LoadError::Generated("nothing computes them".into()));
        }
        let partitions = partitions(&target.state);
        let router = match &options.partitions {
            Some(names) => Router::try_named(&schema, &partitions, names, options.temporary_partitions)?,
            None => Router::try_new(&schema, &partitions)?,
        };
        let replaces = |c: &dipper_store::table::schema::TableColumn| {
            use Aggregate::{Replace, ReplaceBySequence, ReplaceIfNotNull};
            matches!(c.aggregate, Some(Replace | ReplaceIfNotNull | ReplaceBySequence(_)))
        };
        let ordered = schema.model == Model::Unique || schema.columns.iter().any(replaces);
        let write = Arc::new(WriteOptions::try_new(Arc::clone(&schema))?);
        let threads = options.threads.max(1) as u64;
        let limits = Limits {
            rows: options.segment_rows.max(1),
            // A chunk that is encoded exists twice, and each thread may have one.
            bytes: (options.memory_bytes / (4 * threads)).clamp(64 << 10, 128 << 20),
            total: options.memory_bytes / 2,
        };
        let nullable = |f: &Arc<Field>| f.as_ref().clone().with_nullable(true);
        Ok(Arc::new(Load {
            input: Arc::new(Schema::new(schema.arrow().fields().iter().map(nullable).collect::<Vec<_>>())),
            checks: Checks::new(&schema, options.string_bytes_max),
            auto_increment: schema.columns.iter().position(|c| c.auto_increment.is_some()),
            output: Output::new(
                target.table.clone(),
                target.txn,
                Arc::clone(&write),
                (options.first_object, options.object_bytes),
                ordered,
                runtime.clone(),
            ),
            sketches: Mutex::new(Sketches::new(schema.columns.len())),
            buffers: Mutex::new(Buffers::new(limits)),
            router: RwLock::new(Arc::new(router)),
            reserved: Mutex::new(0..0),
            largest: AtomicI64::new(i64::MIN),
            making: Mutex::default(),
            entered: Condvar::new(),
            ended: Mutex::default(),
            is_ended: AtomicBool::new(false),
            working_bytes: Default::default(),
            counters: Counters::default(),
            target,
            options,
            schema,
            write,
            ordered,
            runtime,
        }))
    }

    /// Returns the schema of the batches that [`push`](Self::push) takes: all columns of the table, including hidden
    /// ones, all of them nullable (a NULL in a NOT NULL column rejects its row; in the AUTO_INCREMENT column it asks
    /// for a value).
    pub fn input_schema(&self) -> &SchemaRef {
        &self.input
    }

    /// Returns the transaction.
    pub fn txn(&self) -> TxnId {
        self.target.txn
    }

    /// Returns the definition by which rows are typed.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Returns the number of existing tablets that rows can go to.
    pub fn tablets(&self) -> usize {
        self.router.read().tablets() as usize
    }

    /// Returns the batch with its keys as they will be stored: [`push`](Self::push) cuts long ones unless the load is
    /// strict, and computes generated ones. A caller that looks keys up before pushing must look up these.
    ///
    /// # Errors
    /// [`LoadError::Generated`] if the expression of a generated column fails; no other for batches of the [input schema](Self::input_schema).
    pub fn with_stored_keys(&self, batch: &RecordBatch) -> Result<RecordBatch, LoadError> {
        if let Some(computed) = self.computed(batch, self.options.strict)? {
            return Ok(computed.batch);
        }
        if self.options.strict { Ok(batch.clone()) } else { self.checks.cut(self.schema.keys, batch) }
    }

    /// Returns the rows with their generated columns, which are computed from the values that are stored; `None` if the
    /// table has no such columns.
    fn computed(&self, batch: &RecordBatch, strict: bool) -> Result<Option<Computed>, LoadError> {
        let Some(generate) = &self.options.generate else { return Ok(None) };
        let stored = match strict {
            true => batch.clone(),
            false => self.checks.cut(batch.num_columns(), batch)?,
        };
        generate.generate(&stored).map(Some)
    }

    /// Whether every push needs its own number, without gaps from 0 on, because later rows win.
    pub fn is_ordered(&self) -> bool {
        self.ordered
    }

    /// Takes the rows of one piece of the input. Blocks; may be called from many threads at once.
    ///
    /// `order` is the piece's position in the input. If [rows with equal keys compete](Self::is_ordered), pieces are
    /// numbered 0, 1, 2, ... without gaps (an empty piece is pushed too), and a thread pushes its own pieces in
    /// ascending order: a piece far ahead waits for earlier ones. Otherwise numbers only serve to keep the order of the
    /// input where that costs nothing.
    ///
    /// # Errors
    /// The error that ended the load, or [`LoadError::Ended`] if it ended in another thread. The load takes no further
    /// rows, and should be [aborted](Self::abort).
    pub fn push(&self, order: u64, batches: &[RecordBatch]) -> Result<PushReport, LoadError> {
        let _guard = EndOnPanic(self);
        let result = self.try_push(order, batches);
        if let Err(e) = &result {
            self.end(&e.to_string());
        }
        result
    }

    fn try_push(&self, order: u64, batches: &[RecordBatch]) -> Result<PushReport, LoadError> {
        let checked = self.check(order, batches, self.options.strict)?;
        let report = checked.report.clone();
        self.enter(order, checked)?;
        Ok(report)
    }

    /// Does the first half of a [`push`](Self::push): checks and routes rows, which do not belong to the load before
    /// they [enter](Self::enter). So the caller can still discard them. `strict`: like [`LoadOptions::strict`], for
    /// these rows.
    ///
    /// # Errors
    /// The errors of [`push`](Self::push), but they do not end the load.
    pub fn check(&self, order: u64, batches: &[RecordBatch], strict: bool) -> Result<Checked, LoadError> {
        self.check_not_ended()?;
        let mut checked = Checked::default();
        for (i, batch) in batches.iter().enumerate() {
            self.prepare(order, i, batch, strict, &mut checked)?;
        }
        add(&self.counters.rows_rejected, checked.report.rejected.len() as u64);
        Ok(checked)
    }

    /// Does the second half of a [`push`](Self::push), with the result of [`check`](Self::check) for that `order`.
    ///
    /// # Errors
    /// The errors of [`push`](Self::push).
    pub fn enter(&self, order: u64, checked: Checked) -> Result<(), LoadError> {
        let _guard = EndOnPanic(self);
        let result = self.try_enter(order, checked.parts);
        if let Err(e) = &result {
            self.end(&e.to_string());
        }
        result
    }

    fn try_enter(&self, order: u64, parts: Vec<Part>) -> Result<(), LoadError> {
        {
            let mut buffers = self.buffers.lock();
            if self.ordered {
                // Pieces that wait for their turn count; the piece that all others wait for always enters.
                let begin = Instant::now();
                let limit = self.options.memory_bytes / 4;
                while order > buffers.next && buffers.early_bytes > limit && !self.is_ended() {
                    self.entered.wait(&mut buffers);
                }
                add_time(&self.counters.wait_ns, begin.elapsed());
                buffers.take_in_order(order, parts);
                self.entered.notify_all();
            } else {
                buffers.take(order, parts);
            }
            let held = buffers.bytes + buffers.early_bytes + self.working_bytes.load(Ordering::Relaxed);
            self.counters.memory_peak.fetch_max(held, Ordering::Relaxed);
        }
        self.work()
    }

    /// Checks and routes a batch.
    fn prepare(
        &self,
        order: u64,
        number: usize,
        batch: &RecordBatch,
        strict: bool,
        into: &mut Checked,
    ) -> Result<(), LoadError> {
        preempt::yield_point();
        let Checked { report, parts } = into;
        add(&self.counters.rows_pushed, batch.num_rows() as u64);
        let filled = self.fill_auto_increment(batch)?;
        let batch = filled.as_ref().map_or(batch, |(batch, _)| batch);
        report.generated = report.generated.or(filled.as_ref().map(|(_, first)| *first));
        let computed = timed(&self.counters.check_ns, || self.computed(batch, strict))?;
        let (batch, misfits) = match &computed {
            Some(Computed { batch, misfits }) => (batch, misfits.as_slice()),
            None => (batch, &[][..]),
        };
        let (checked, refused) = timed(&self.counters.check_ns, || self.checks.check(batch, strict, misfits))?;
        if let Some(at) = self.auto_increment {
            let wide = arrow_cast::cast(checked.column(at), &DataType::Int64)?;
            let values = wide.as_primitive::<Int64Type>();
            let largest = values.iter().flatten().max();
            report.last = values.iter().flatten().last().or(report.last);
            self.largest.fetch_max(largest.unwrap_or(i64::MIN), Ordering::Relaxed);
        }
        let bytes = memory_of(&checked);
        add(&self.counters.bytes_pushed, bytes);
        let begin = Instant::now();
        let gone: Vec<u32> = refused.iter().map(|r| r.row).collect();
        report.rejected.extend(refused.into_iter().map(|r| RejectedRow {
            batch: number,
            row: r.row as usize,
            reason: r.reason,
        }));
        if checked.num_rows() == 0 {
            return Ok(());
        }
        let turn = if self.options.single_tablet { self.turn(0) } else { self.turn(order) };
        let (router, routed) = self.route(&checked, turn)?;
        match routed {
            Routed::One(tablet) => parts.push(Part { tablet: router.tablet(tablet), batch: checked, bytes }),
            Routed::Rows(of) => {
                let mut rows: Vec<Vec<u32>> = vec![Vec::new(); router.tablets() as usize];
                let mut nowhere = Vec::new();
                for (row, tablet) in of.iter().enumerate() {
                    match rows.get_mut(*tablet as usize) {
                        Some(rows) => rows.push(row as u32),
                        None => nowhere.push(row),
                    }
                }
                let begin = report.rejected.len();
                for row in nowhere {
                    let tuple = tuple_text(&checked, row);
                    let reason = format!("no partition for this tuple. tuple={tuple}");
                    report.rejected.push(RejectedRow { batch: number, row: original(&gone, row), reason });
                }
                if report.rejected.len() > begin {
                    report.rejected.sort_by_key(|r| (r.batch, r.row));
                }
                for (tablet, rows) in rows.into_iter().enumerate().filter(|(_, rows)| !rows.is_empty()) {
                    let batch = if rows.len() == checked.num_rows() {
                        checked.clone()
                    } else {
                        gather(&checked, &UInt32Array::from(rows))?
                    };
                    let bytes = memory_of(&batch);
                    parts.push(Part { tablet: router.tablet(tablet as u32), batch, bytes });
                }
            }
        }
        add_time(&self.counters.route_ns, begin.elapsed());
        Ok(())
    }

    /// Returns the number by which a push selects its bucket if buckets are random. Different loads begin with
    /// different ones.
    fn turn(&self, order: u64) -> u64 {
        (self.target.txn.0 as u64).wrapping_add(order)
    }

    /// Routes a batch, and makes the partitions that it lacks.
    fn route(&self, batch: &RecordBatch, turn: u64) -> Result<(Arc<Router>, Routed), LoadError> {
        let router = Arc::clone(&self.router.read());
        let routed = router.route(batch, turn)?;
        if router.missing(batch, &routed)?.is_empty() {
            return Ok((router, routed));
        }
        let _one = self.making.lock();
        // Another thread may have made them in the meantime.
        let router = Arc::clone(&self.router.read());
        let routed = router.route(batch, turn)?;
        let missing = router.missing(batch, &routed)?;
        if missing.is_empty() {
            return Ok((router, routed));
        }
        let there = self.target.table.snapshot().partitions().count();
        if there + missing.len() > PARTITIONS_MAX {
            return Err(LoadError::Partitions { there, more: missing.len(), limit: PARTITIONS_MAX });
        }
        let buckets = match self.schema.buckets {
            Some(buckets) => buckets,
            None => auto_buckets(&self.schema.properties, None)?,
        };
        let new = |p: NewPartition| Partition {
            id: 0,
            name: p.name,
            bounds: p.bounds,
            buckets,
            temporary: false,
            properties: Default::default(),
        };
        let made = self.target.table.ensure_partitions(missing.into_iter().map(new).collect());
        let state = self.runtime.block_on(made)?;
        let router = Arc::new(Router::try_new(&self.schema, &partitions(&state))?);
        *self.router.write() = Arc::clone(&router);
        let routed = router.route(batch, turn)?;
        Ok((router, routed))
    }

    /// Fills NULLs of the AUTO_INCREMENT column with values. Returns the batch and the first value; `None` if there
    /// were none.
    fn fill_auto_increment(&self, batch: &RecordBatch) -> Result<Option<(RecordBatch, i64)>, LoadError> {
        let Some(at) = self.auto_increment else { return Ok(None) };
        let Some(column) = batch.columns().get(at).filter(|c| c.null_count() > 0) else { return Ok(None) };
        let first = {
            let mut reserved = self.reserved.lock();
            let wanted = column.null_count() as u64;
            if (reserved.end - reserved.start) < wanted as i64 {
                // Twice as many each time: a big load asks seldom, a small one wastes few values.
                let most = self.counters.rows_pushed.load(Ordering::Relaxed).clamp(wanted, RESERVED_MAX.max(wanted));
                *reserved = self.runtime.block_on(self.target.table.reserve_auto_increment(most))?;
            }
            let first = reserved.start;
            reserved.start += wanted as i64;
            first
        };
        let mut values = first..;
        let wide = arrow_cast::cast(column, &DataType::Int64)?;
        let mut filled = Int64Builder::with_capacity(wide.len());
        for value in wide.as_primitive::<Int64Type>() {
            filled.append_option(value.or_else(|| values.next()));
        }
        let options = arrow_cast::CastOptions { safe: false, ..Default::default() };
        let mut columns = batch.columns().to_vec();
        columns[at] = arrow_cast::cast_with_options(&filled.finish(), column.data_type(), &options)?;
        Ok(Some((RecordBatch::try_new(batch.schema(), columns)?, first)))
    }

    /// Sorts and encodes chunks until there is none left.
    fn work(&self) -> Result<(), LoadError> {
        loop {
            self.check_not_ended()?;
            let chunk = self.buffers.lock().ready.pop_front();
            let Some(chunk) = chunk else { return Ok(()) };
            let bytes = chunk.bytes;
            self.working_bytes.fetch_add(bytes, Ordering::Relaxed);
            let done = self.segment(chunk);
            self.working_bytes.fetch_sub(bytes, Ordering::Relaxed);
            done?;
        }
    }

    fn segment(&self, chunk: Chunk) -> Result<(), LoadError> {
        let Chunk { number, tablet, parts, .. } = chunk;
        let condition = self.options.condition.and_then(|id| self.schema.position(id));
        let (rows, in_order) = timed(&self.counters.sort_ns, || sort_chunk(&self.schema, condition, parts))?;
        add(&self.counters.segments_sorted, u64::from(in_order));
        timed(&self.counters.stats_ns, || {
            let mut sketches = self.sketches.lock().fresh();
            rows.iter().for_each(|batch| sketches.add(batch));
            self.sketches.lock().union(&sketches);
        });
        let encoded = timed(&self.counters.encode_ns, || encode_segment(&self.write, tablet, &rows))?;
        drop(rows);
        timed(&self.counters.write_ns, || self.output.append(number, encoded, &self.counters))
    }

    /// Encodes the remaining rows, and returns when all objects are durable. The rowset can then be published.
    ///
    /// # Errors
    /// The errors of [`push`](Self::push); [`LoadError::Gap`] if a push is missing in a load that needs all numbers.
    pub fn finish(&self) -> Result<Rowset, LoadError> {
        let _ended = EndOnPanic(self);
        let result = self.try_finish();
        match &result {
            Ok(_) => self.end("it is finished"),
            Err(e) => self.end(&e.to_string()),
        }
        result
    }

    fn try_finish(&self) -> Result<Rowset, LoadError> {
        self.check_not_ended()?;
        let worth = {
            let mut buffers = self.buffers.lock();
            if let Some(found) = buffers.first_early() {
                return Err(LoadError::Gap { expected: buffers.next, found });
            }
            buffers.cut_all();
            let bytes: u64 = buffers.ready.iter().map(|chunk| chunk.bytes).sum();
            buffers.ready.len().min((bytes / THREAD_BYTES) as usize)
        };
        let others = worth.min(self.options.threads).saturating_sub(1);
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..others).map(|_| scope.spawn(|| self.work())).collect();
            let own = self.work();
            let panicked = |_| Err(LoadError::Ended("a thread of it panicked".into()));
            others.into_iter().map(|w| w.join().unwrap_or_else(panicked)).fold(own, Result::and)
        })?;
        let (objects, mut stats) = self.output.finish(&self.counters)?;
        self.sketches.lock().fill(&self.schema, &mut stats);
        Ok(Rowset {
            txn: self.target.txn,
            objects,
            stats,
            replaces: Default::default(),
            label: None,
            // Generated values must not collide with the given ones.
            auto_increment: Some(self.largest.load(Ordering::Relaxed))
                .filter(|l| *l > i64::MIN)
                .map(|l| l.saturating_add(1)),
            reads: None,
            condition: self.options.condition,
        })
    }

    /// Ends the load and deletes the written objects if possible; vacuum deletes the rest.
    pub fn abort(&self) {
        self.end("it was aborted");
        self.buffers.lock().clear();
        self.output.abort();
    }

    fn end(&self, why: &str) {
        self.ended.lock().get_or_insert_with(|| why.to_string());
        self.is_ended.store(true, Ordering::Release);
        // Notified under the lock, so that no thread checks just before and waits just after.
        let _buffers = self.buffers.lock();
        self.entered.notify_all();
    }

    fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Acquire)
    }

    fn check_not_ended(&self) -> Result<(), LoadError> {
        if !self.is_ended() {
            return Ok(());
        }
        Err(LoadError::Ended(self.ended.lock().clone().unwrap_or_default()))
    }

    /// Returns the profile so far.
    pub fn profile(&self) -> LoadProfile {
        self.counters.profile()
    }
}

/// Ends a load if its thread panics: others may wait for the piece that this thread had.
pub(crate) struct EndOnPanic<'a>(pub(crate) &'a Load);

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.end("a thread of it panicked");
        }
    }
}

fn partitions(state: &TableState) -> Vec<Arc<Partition>> {
    state.partitions().chain(state.temporary_partitions()).cloned().collect()
}

/// Returns the row in the pushed batch for a row of the batch without the rows `gone`, which are ascending.
fn original(gone: &[u32], row: usize) -> usize {
    let mut at = row;
    for g in gone {
        if *g as usize <= at {
            at += 1;
        } else {
            break;
        }
    }
    at
}

/// Formats a row as `(1, abc, NULL)`, for messages.
fn tuple_text(batch: &RecordBatch, row: usize) -> String {
    let text = |c: &ArrayRef| match dipper_store::route::text_of(c.as_ref(), row) {
        Ok(Some(text)) => text,
        _ => "NULL".into(),
    };
    format!("({})", batch.columns().iter().map(text).collect::<Vec<_>>().join(", "))
}
