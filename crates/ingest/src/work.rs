//! The work on a load's rows between its body and its commit, by several threads.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use arrow::array::BooleanArray;
use arrow::compute::filter_record_batch;
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use dipper_load::{Flexible, Load, Partial, RejectedRow as Refused, memory_of};
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_store::catalog::TableId;
use dipper_store::table::schema::TableSchema;
use dipper_store::table::{Reads, Table};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::answer::{LoadAnswer, RejectedRow};
use crate::errors::Kept;
use crate::group::{self, Committed, Share, Shared};
use crate::loads::Loads;
use crate::request::{GroupCommit, MEMBER_BYTES_MAX, NewKeys, StreamLoadRequest, UpdateMode};
use crate::shaper::{Shaped, Shaper};
use crate::source::{Piece, Reader, RowSource, check_qualified};
use crate::unseen::Unseen;

/// A piece of the body, and its rows in the form of the table.
struct Pushed {
    piece: Piece,
    shaped: Vec<Shaped>,
    batches: Vec<RecordBatch>,
}

/// Pieces that wait for the end of the body.
#[derive(Default)]
struct Pieces {
    list: Vec<Pushed>,
    bytes: u64,
}

/// Completes the rows of a partial update.
pub(crate) enum Completion {
    /// All rows contain the same columns.
    Fixed(Partial),
    /// Each row contains its own columns.
    Flexible(Flexible),
}

impl Completion {
    /// Returns the rows that the load was computed from.
    pub(crate) fn reads(&self) -> Reads {
        match self {
            Completion::Fixed(partial) => partial.reads(),
            Completion::Flexible(flexible) => flexible.reads(),
        }
    }
}

/// The state that the threads of a load share.
pub(crate) struct Work {
    loads: Arc<Loads>,
    pub(crate) request: Arc<StreamLoadRequest>,
    pub(crate) load: Arc<Load>,
    pub(crate) source: std::sync::OnceLock<RowSource>,
    pub(crate) shape: std::sync::OnceLock<Arc<dyn Shaper>>,
    pub(crate) partial: std::sync::OnceLock<Completion>,
    pub(crate) unseen: std::sync::OnceLock<Unseen>,
    threads: AtomicUsize,
    rows: AtomicU64,
    loaded: AtomicU64,
    unselected: AtomicU64,
    rejected: AtomicU64,
    kept: Mutex<Kept>,
    /// Rows of a load that may be small enough to share a commit; `None` if it is not.
    waiting: Mutex<Option<Pieces>>,
    pub(crate) read_ns: AtomicU64,
    pub(crate) write_ns: AtomicU64,
}

impl Work {
    pub(crate) fn new(loads: &Arc<Loads>, request: &Arc<StreamLoadRequest>, load: &Arc<Load>) -> Self {
        Work {
            loads: Arc::clone(loads),
            request: Arc::clone(request),
            load: Arc::clone(load),
            source: Default::default(),
            shape: Default::default(),
            partial: Default::default(),
            unseen: Default::default(),
            threads: AtomicUsize::new(0),
            rows: AtomicU64::new(0),
            loaded: AtomicU64::new(0),
            unselected: AtomicU64::new(0),
            rejected: AtomicU64::new(0),
            kept: Mutex::default(),
            waiting: Mutex::new(request.may_share().then(Pieces::default)),
            read_ns: AtomicU64::new(0),
            write_ns: AtomicU64::new(0),
        }
    }

    /// Starts one more thread, if the limit allows it. Each thread starts the next when it has found rows, so that a
    /// small body costs one thread.
    pub(crate) fn start(self: &Arc<Self>, done: mpsc::UnboundedSender<Result<()>>) {
        // Rows that depend on the rows before them are processed by one thread.
        let one_by_one = self.request.update_mode == UpdateMode::FlexibleColumns || self.request.keeps_rows;
        let most = if one_by_one { 1 } else { self.loads.threads };
        if self.threads.fetch_add(1, Ordering::Relaxed) >= most {
            return;
        }
        let work = Arc::clone(self);
        self.loads.cpu.spawn_blocking(move || {
            let result = std::panic::catch_unwind(AssertUnwindSafe(|| work.run(&done)));
            let result = result.unwrap_or_else(|_| {
                Err(EngineError::new(ErrorKind::Internal, "a thread of the load panicked; nothing was loaded"))
            });
            let _ = done.send(result);
        });
    }

    fn run(self: &Arc<Self>, done: &mpsc::UnboundedSender<Result<()>>) -> Result<()> {
        let (Some(source), Some(shape)) = (self.source.get(), self.shape.get()) else { return Ok(()) };
        let mut reader: Reader = source.reader();
        let mut others = Some(done.clone());
        loop {
            let begun = Instant::now();
            let piece = reader.next();
            self.read_ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            let Some(piece) = piece? else { return Ok(()) };
            if let Some(others) = others.take() {
                self.start(others);
            }
            let begun = Instant::now();
            let pushed = self.push(shape.as_ref(), piece);
            self.write_ns.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
            pushed?;
        }
    }

    /// Adds the columns that the load does not contain to its rows.
    fn filled(&self, shape: &dyn Shaper, rows: &Shaped, present: Option<&Vec<BooleanArray>>) -> Result<RecordBatch> {
        let batch = &rows.batch;
        let Some(completion) = self.partial.get() else { return Ok(batch.clone()) };
        let stored = self.load.with_stored_keys(batch)?;
        let filled = match (completion, present) {
            (Completion::Fixed(partial), _) => partial.fill(&stored)?,
            (Completion::Flexible(flexible), Some(present)) => {
                flexible.fill(&stored, shape.given_by_row(present, rows)?)?
            }
            (Completion::Flexible(_), None) => {
                return Err(EngineError::new(ErrorKind::Internal, "rows that do not tell which columns they bring"));
            }
        };
        if self.request.new_keys == NewKeys::Error
            && let Some(row) = (0..batch.num_rows()).find(|row| filled.is_new.value(*row))
        {
            let keys = &batch.columns()[..self.load.schema().keys];
            let key = keys.iter().map(|c| array_value_to_string(c, row).unwrap_or_default()).collect::<Vec<_>>();
            return Err(EngineError::invalid(format!(
                "[E-7003]Can't append new rows in partial update when partial_update_new_key_behavior is ERROR. Row with key=[{}] is not in table.",
                key.join(", ")
            )));
        }
        Ok(filled.batch)
    }

    /// Drops the rows that are left out because the table has their keys.
    fn new_rows(&self, rows: Shaped) -> Result<Shaped> {
        let Some(unseen) = self.unseen.get() else { return Ok(rows) };
        let new = unseen.choose(&self.load.with_stored_keys(&rows.batch)?)?;
        let kept: Vec<u32> =
            (0..new.len()).filter(|row| new.value(*row)).map(|row| rows.input_row(row) as u32).collect();
        let unselected = rows.unselected + (new.len() - kept.len()) as u64;
        Ok(Shaped { batch: filter_record_batch(&rows.batch, &new)?, rows: Some(kept), unselected, ..rows })
    }

    fn push(&self, shape: &dyn Shaper, piece: Piece) -> Result<()> {
        let mut shaped = Vec::with_capacity(piece.batches.len());
        let mut batches = Vec::with_capacity(piece.batches.len());
        for batch in &piece.batches {
            self.rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
            let rows = self.new_rows(shape.shape(batch)?)?;
            self.unselected.fetch_add(rows.unselected, Ordering::Relaxed);
            self.refuse(&piece, batches.len(), &rows.misfits)?;
            batches.push(self.filled(shape, &rows, piece.present.get(batches.len()))?);
            shaped.push(rows);
        }
        let mut ready = vec![Pushed { piece, shaped, batches }];
        {
            let mut waiting = self.waiting.lock();
            if let Some(pieces) = &mut *waiting {
                pieces.bytes += ready.iter().flat_map(|p| &p.batches).map(memory_of).sum::<u64>();
                pieces.list.append(&mut ready);
                if pieces.bytes <= MEMBER_BYTES_MAX {
                    return Ok(());
                }
                ready = std::mem::take(&mut pieces.list);
                *waiting = None;
            }
        }
        self.enter(ready)
    }

    /// Records the rows of a batch that do not fit the table.
    fn refuse(&self, piece: &Piece, batch: usize, misfits: &[(usize, String)]) -> Result<()> {
        if misfits.is_empty() {
            return Ok(());
        }
        let before = self.rejected.fetch_add(misfits.len() as u64, Ordering::Relaxed);
        let mut kept = self.kept.lock();
        for (row, reason) in misfits {
            if !kept.has_room() {
                break;
            }
            kept.push(piece.origins[batch].rejected(*row, &piece.batches[batch], reason.clone()));
        }
        check_qualified(&self.request, before + misfits.len() as u64)
    }

    /// Enters rows that do not share a commit into the load.
    fn enter(&self, mut pieces: Vec<Pushed>) -> Result<()> {
        pieces.sort_by_key(|p| p.piece.order);
        for pushed in pieces {
            let report = self.load.push(pushed.piece.order, &pushed.batches)?;
            self.note(std::slice::from_ref(&pushed), &report.rejected)?;
        }
        Ok(())
    }

    /// Counts the pushed rows; `refused` name their batch by its index among all batches of the pieces.
    fn note(&self, pieces: &[Pushed], refused: &[Refused]) -> Result<()> {
        let rows: usize = pieces.iter().flat_map(|p| &p.batches).map(RecordBatch::num_rows).sum();
        self.loaded.fetch_add((rows - refused.len()) as u64, Ordering::Relaxed);
        if refused.is_empty() {
            return Ok(());
        }
        let before = self.rejected.fetch_add(refused.len() as u64, Ordering::Relaxed);
        let of: Vec<(&Pushed, usize)> =
            pieces.iter().flat_map(|p| (0..p.batches.len()).map(move |at| (p, at))).collect();
        let mut kept = self.kept.lock();
        for row in refused {
            if !kept.has_room() {
                break;
            }
            let (Pushed { piece, shaped, .. }, batch) = of[row.batch];
            let at = shaped[batch].input_row(row.row);
            kept.push(piece.origins[batch].rejected(at, &piece.batches[batch], row.reason.clone()));
        }
        check_qualified(&self.request, before + refused.len() as u64)
    }

    /// Commits a small load together with others. Returns [`Shared::Apart`] if it has to be committed by itself, or has
    /// nothing to commit. `database` is that of its label, if it has one.
    pub(crate) async fn share(
        self: &Arc<Self>,
        table: &Table,
        schema: &Arc<TableSchema>,
        database: Option<TableId>,
    ) -> Result<Shared> {
        let Some(Pieces { list: mut pieces, .. }) = self.waiting.lock().take() else { return Ok(Shared::Apart) };
        pieces.sort_by_key(|p| p.piece.order);
        let rows: Vec<RecordBatch> = pieces.iter().flat_map(|p| &p.batches).cloned().collect();
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let unread = self.source.get().map_or(0, |source| source.rejected().0);
        let selected = get(&self.rows) + unread - get(&self.unselected);
        let tolerated = (self.request.max_filter_ratio * selected as f64).floor() as u64;
        // No row has entered the load yet: the rejected rows are those that did not fit.
        let refused = unread + get(&self.rejected);
        if rows.iter().all(|batch| batch.num_rows() == 0) {
            return Ok(Shared::Apart);
        }
        let shared = match tolerated.checked_sub(refused) {
            Some(refused_max) => {
                let share = Share {
                    schema: Arc::clone(schema),
                    rows,
                    label: database.zip(self.request.label.clone()),
                    strict: self.request.strict_mode,
                    refused_max,
                    patient: self.request.group_commit == GroupCommit::Sync,
                };
                group::commit(&self.loads, table, share).await?
            }
            // The load has failed; enter its rows all the same, to report those that the table refuses.
            None => Shared::Apart,
        };
        match &shared {
            Shared::Committed(Committed { refused, .. }) | Shared::Refused(refused) => self.note(&pieces, refused)?,
            Shared::Exists(..) | Shared::Failed(..) => {}
            Shared::Apart => self.enter_late(pieces).await?,
        }
        Ok(shared)
    }

    /// Enters all rows into the load itself, so that none is shared.
    pub(crate) async fn keep_apart(self: &Arc<Self>) -> Result<Shared> {
        let waiting = self.waiting.lock().take();
        if let Some(Pieces { list, .. }) = waiting {
            self.enter_late(list).await?;
        }
        Ok(Shared::Apart)
    }

    async fn enter_late(self: &Arc<Self>, pieces: Vec<Pushed>) -> Result<()> {
        let work = Arc::clone(self);
        let entered = self.loads.cpu.spawn_blocking(move || work.enter(pieces)).await;
        entered.map_err(|e| EngineError::of(ErrorKind::Internal, e))?
    }

    /// Makes the threads end.
    pub(crate) fn stop(&self) {
        if let Some(source) = self.source.get() {
            source.cancel();
        }
    }

    /// Adds the counts to the answer; returns the rejected rows that were kept, by line.
    pub(crate) fn count(&self, answer: &mut LoadAnswer) -> Vec<RejectedRow> {
        let (unread, mut rejected) = self.source.get().map(RowSource::rejected).unwrap_or_default();
        rejected.extend(self.kept.lock().rows().iter().cloned());
        rejected.sort_by_key(|r| r.line);
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        answer.total_rows = get(&self.rows) + unread;
        answer.filtered_rows = get(&self.rejected) + unread;
        answer.unselected_rows = get(&self.unselected);
        answer.loaded_rows = get(&self.loaded);
        rejected
    }
}
