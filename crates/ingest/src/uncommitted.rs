//! Uncommitted writes of a transaction: rows of one table, in objects that no version of the table names.
//!
//! ```text
//! BEGIN ─ INSERT ─ UPDATE ─ DELETE ─ COMMIT    POST /api/transaction/begin ─ load ─ load ─ prepare ─ commit
//!           │        │        │         │                                     │      │        │         │
//!           └─ part ─┴─ part ─┴─ part ──┴─ one version                        └─ part┴─ part ─┴ prepared┴─ one version
//! ```
//!
//! Each statement or load is a part: a load of its own under the transaction's id, whose objects are numbered after
//! those of the part before. Rows of VALUES share one load as long as no other statement comes, so that many small
//! INSERTs leave one object. The table's chain contains nothing before the commit, so nothing has to be undone: a
//! transaction that rolls back, loses its connection or dies leaves objects that nobody names. They are deleted
//! immediately or by vacuum.
//!
//! The transaction itself sees its writes ([`Uncommitted::seen`]), on top of the table's state at its first write. Of
//! rows with equal keys those of the later part win. If the transaction has read rows that it replaces (UPDATE, DELETE,
//! partial updates), its commit is refused if others have changed one of these rows since then: the first to commit
//! wins, and the other is told to repeat its transaction (1213). Merges of this process that move the rows do not count:
//! the commit follows the rows ([`Followed`]).

use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use dipper_load::{Load, LoadOptions, LoadTarget, RejectedRow, together};
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_node::tables::registry::Brought;
use dipper_store::catalog::TableId;
use dipper_store::chain::TxnId;
use dipper_store::labels::Held;
use dipper_store::table::schema::{ColumnId, Model, TableSchema};
use dipper_store::table::{Deletes, Followed, Reads, Rowset, Table, TableState};
use parking_lot::Mutex;

use crate::answer::LoadAnswer;
use crate::loads::Loads;
use crate::records::Running;

/// Most objects of a part: the numbers of the next part begin after them.
const PART_OBJECTS: u32 = 1 << 16;
/// Approximate bytes of VALUES rows that are buffered in memory.
const VALUES_BYTES: u64 = 64 << 20;

/// The part of a transaction that a statement or load has written: durable, and in no version.
#[derive(Debug, Clone)]
pub struct Part {
    /// The load that wrote the rows, and can delete them.
    pub load: Arc<Load>,
    /// The objects of the part.
    pub rowset: Rowset,
}

/// The beginning of a part.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The transaction.
    pub txn: TxnId,
    /// First number for the load's objects, see [`LoadOptions::first_object`].
    pub first_object: u32,
}

/// The place of a load in its transaction.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The beginning of its part.
    pub place: Place,
    /// The state that the transaction sees; `Some` only if the load reads rows of the table.
    pub seen: Option<Arc<TableState>>,
    /// The condition of the parts before, if there are any: [`Rowset::condition`] of all of them.
    pub condition: Option<Option<ColumnId>>,
    /// What it has written, once it has ended well.
    pub part: Arc<Mutex<Option<Part>>>,
}

/// The outcome of [`Uncommitted::values`].
pub struct Taken {
    /// Rows that were refused. If there are more than the caller allows, no row was taken.
    pub refused: Vec<RejectedRow>,
    /// The first value that was generated for the AUTO_INCREMENT column.
    pub generated: Option<i64>,
    /// The value of that column in the last row.
    pub last: Option<i64>,
}

/// The state of a transaction at a savepoint.
#[derive(Debug, Clone)]
pub struct Mark {
    parts: usize,
    deletes: Deletes,
    reads: bool,
    rows: u64,
}

/// The load that collects the rows of consecutive VALUES.
#[derive(Debug)]
struct Values {
    load: Arc<Load>,
    pushed: u64,
}

/// The uncommitted writes of a transaction; see the [module](self). Dropping it rolls back.
#[derive(Debug)]
pub struct Uncommitted {
    loads: Arc<Loads>,
    table: Table,
    txn: TxnId,
    /// The label, given or generated.
    pub label: String,
    /// The taken label, if a client could know it.
    held: Option<Held>,
    /// The table's state when the transaction first wrote.
    base: Followed,
    parts: Vec<Part>,
    values: Option<Values>,
    /// Rows of DUPLICATE and AGGREGATE tables that the transaction deletes, among older rows and its own.
    deletes: Deletes,
    /// Whether the transaction has read rows that it replaces.
    reads: bool,
    /// Whether rows are being entered into the load of VALUES, or were when their statement was broken off.
    is_taking: bool,
    next_part: u32,
    /// The state that the transaction sees, until it writes more.
    seen: Option<Arc<TableState>>,
    /// Number of rows written.
    pub rows: u64,
    record: Option<Running>,
}

impl Uncommitted {
    /// Begins to write to a table, whose newest state is `base`. `held` is the label, taken for `txn`.
    pub fn new(
        loads: &Arc<Loads>,
        table: Table,
        base: Followed,
        txn: TxnId,
        (label, held): (String, Option<Held>),
        record: Option<Running>,
    ) -> Self {
        Uncommitted {
            loads: Arc::clone(loads),
            table,
            txn,
            label,
            held,
            base,
            parts: Vec::new(),
            values: None,
            deletes: Deletes::new(),
            reads: false,
            is_taking: false,
            next_part: 0,
            seen: None,
            rows: 0,
            record,
        }
    }

    /// Returns the table that the transaction writes to.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the transaction's id, under which all of its rows become visible.
    pub fn txn(&self) -> TxnId {
        self.txn
    }

    /// Returns whether nothing has been written.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.deletes.is_empty() && self.values.as_ref().is_none_or(|values| values.pushed == 0)
    }

    /// Returns the state that the transaction sees, if nothing has been written since it was computed.
    pub fn known(&self) -> Option<(TableId, &Arc<TableState>)> {
        self.seen.as_ref().map(|state| (self.table.id(), state))
    }

    /// Returns the beginning of the next part.
    ///
    /// # Errors
    /// `Resources` if the transaction has too many parts.
    pub fn place(&mut self) -> Result<Place> {
        let part = self.next_part;
        let first_object = part.checked_mul(PART_OBJECTS).ok_or_else(|| {
            let most = u32::MAX / PART_OBJECTS;
            EngineError::new(ErrorKind::Resources, format!("a transaction has at most {most} parts; COMMIT this one"))
        })?;
        self.next_part = part + 1;
        Ok(Place { txn: self.txn, first_object })
    }

    /// Begins a load. If `reads`, the load reads rows of the table, including those of the transaction.
    ///
    /// # Errors
    /// `Resources` if the transaction has too many parts; the errors of the store.
    pub async fn slot(&mut self, reads: bool) -> Result<Slot> {
        let seen = match reads {
            true => Some(self.seen().await?),
            false => None,
        };
        let condition = self.parts.first().map(|part| part.rowset.condition);
        Ok(Slot { place: self.place()?, seen, condition, part: Arc::default() })
    }

    /// Adds the part that a statement or load has written, after all earlier ones.
    pub fn add(&mut self, part: Part) {
        self.reads |= part.rowset.reads.is_some();
        self.seen = None;
        self.parts.push(part);
    }

    /// Deletes rows of a table without unique keys, by their positions.
    pub fn delete(&mut self, deletes: Deletes) {
        self.seen = None;
        for (segment, rows) in deletes {
            self.deletes.entry(segment).or_default().0 |= rows.0;
        }
    }

    /// Takes a few rows with the columns of `schema`, unless more than `refused_max` of them are refused: then it takes
    /// none.
    ///
    /// # Errors
    /// The errors of the load, for lack of memory or of the store. Afterwards the transaction can only be rolled back,
    /// or goes on without the rows.
    pub async fn values(
        &mut self,
        schema: &Arc<TableSchema>,
        rows: Vec<RecordBatch>,
        strict: bool,
        refused_max: u64,
    ) -> Result<Taken> {
        self.check_whole()?;
        if self.values.as_ref().is_some_and(|values| **values.load.schema() != **schema) {
            self.flush().await?;
        }
        if self.values.is_none() {
            let place = self.place()?;
            let state = self.table.snapshot();
            let options = LoadOptions {
                threads: self.loads.threads,
                memory_bytes: VALUES_BYTES,
                first_object: place.first_object,
                generate: self.loads.generator(state.schema()).await?,
                ..LoadOptions::default()
            };
            let target = LoadTarget { table: self.table.clone(), state, txn: self.txn };
            let load = Load::begin(target, options, self.loads.io.clone())?;
            self.values = Some(Values { load, pushed: 0 });
        }
        let Some(Values { load, pushed }) = &mut self.values else { return Err(broken_off()) };
        let (checking, order) = (Arc::clone(load), *pushed);
        let checked = self.loads.cpu.spawn_blocking(move || checking.check(order, &rows, strict));
        let mut checked = checked.await.map_err(internal)??;
        let refused = std::mem::take(&mut checked.report.rejected);
        let taken = Taken { refused, generated: checked.report.generated, last: checked.report.last };
        if taken.refused.len() as u64 <= refused_max {
            let entering = Arc::clone(load);
            *pushed += 1;
            self.is_taking = true;
            self.loads.cpu.spawn_blocking(move || entering.enter(order, checked)).await.map_err(internal)??;
            self.is_taking = false;
            self.seen = None;
        }
        Ok(taken)
    }

    /// Finishes the load of VALUES, if there is one.
    async fn flush(&mut self) -> Result<()> {
        self.check_whole()?;
        let Some(Values { load, .. }) = &self.values else { return Ok(()) };
        let (load, finishing) = (Arc::clone(load), Arc::clone(load));
        self.is_taking = true;
        let rowset = self.loads.cpu.spawn_blocking(move || finishing.finish()).await.map_err(internal)??;
        self.is_taking = false;
        self.values = None;
        self.parts.push(Part { load, rowset });
        Ok(())
    }

    /// Fails if it is unknown which rows the transaction has, because a statement was broken off.
    fn check_whole(&self) -> Result<()> {
        if self.is_taking { Err(broken_off()) } else { Ok(()) }
    }

    /// Returns all parts as one rowset.
    fn rowset(&self) -> Rowset {
        let parts = self.parts.iter().map(|part| part.rowset.clone());
        let label = self.held.is_some().then(|| self.label.clone());
        let condition = self.parts.first().and_then(|part| part.rowset.condition);
        Rowset { label, condition, ..together(self.base.state().schema(), self.txn, parts) }
    }

    /// Returns the rows that the rowset deletes or replaces, among those of the first state and its own.
    async fn replaced(&self, rowset: &Rowset) -> Result<Deletes> {
        if self.base.state().schema().model != Model::Unique {
            return Ok(self.deletes.clone());
        }
        self.loads.tables.replaced(&self.table, Brought::of(rowset), Arc::clone(self.base.state()), 0).await
    }

    /// Returns the table's state as the transaction sees it: the state when it first wrote, with its own writes.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn seen(&mut self) -> Result<Arc<TableState>> {
        if let Some(state) = &self.seen {
            return Ok(Arc::clone(state));
        }
        self.flush().await?;
        let rowset = self.rowset();
        let deletes = self.replaced(&rowset).await?;
        let newest = self.table.snapshot();
        let base = self.base.state();
        let state = base.with_uncommitted(&rowset, deletes, &newest).map_err(dipper_store::table::TableError::from)?;
        Ok(Arc::clone(self.seen.insert(Arc::new(state))))
    }

    /// Returns the current state, for a savepoint.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn mark(&mut self) -> Result<Mark> {
        self.flush().await?;
        Ok(Mark { parts: self.parts.len(), deletes: self.deletes.clone(), reads: self.reads, rows: self.rows })
    }

    /// Discards everything that was written since a mark; everything if there is no mark.
    ///
    /// # Errors
    /// The errors of the store.
    pub async fn back_to(&mut self, mark: Option<&Mark>) -> Result<()> {
        self.flush().await?;
        let nothing = Mark { parts: 0, deletes: Deletes::new(), reads: false, rows: 0 };
        let Mark { parts, deletes, reads, rows } = mark.cloned().unwrap_or(nothing);
        let gone = self.parts.split_off(parts.min(self.parts.len()));
        self.abort_parts(gone);
        (self.deletes, self.reads, self.rows, self.seen) = (deletes, reads, rows, None);
        Ok(())
    }

    /// Returns the rowset to commit or prepare: all parts, and the check of the rows that they replace. The second
    /// result is these rows, among those of the first state, if the transaction has read them.
    async fn finished(&mut self) -> Result<(Rowset, Option<Deletes>)> {
        self.flush().await?;
        let mut rowset = self.rowset();
        if !self.reads {
            return Ok((rowset, None));
        }
        let mut read = self.replaced(&rowset).await?;
        read.retain(|segment, _| segment.object.txn != self.txn);
        let rows = read.values().map(|rows| rows.0.len()).sum();
        rowset.reads = Some(Reads { seq: self.base.state().seq(), rows });
        Ok((rowset, Some(read)))
    }

    /// Makes all writes visible, as one version. Returns the number of rows written.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`] if others changed rows that the transaction has read; it is rolled back.
    /// [`ErrorKind::Unknown`] and [`ErrorKind::Storage`] leave the outcome open. After any error the transaction is
    /// over.
    pub async fn commit(mut self) -> Result<u64> {
        let (rowset, read) = match self.finished().await {
            Ok(finished) => finished,
            Err(e) => return Err(self.failed(e)),
        };
        if rowset.objects.is_empty() && self.deletes.is_empty() && self.held.is_none() {
            self.end(Ok(()));
            return Ok(self.rows);
        }
        // From here on the table may name the objects.
        let parts = std::mem::take(&mut self.parts);
        let tables = &self.loads.tables;
        let published = match &read {
            _ if !self.deletes.is_empty() => self.delete_and_publish(rowset).await,
            Some(read) => tables.publish_following(&self.table, rowset, &self.base, read).await.map(drop),
            None => tables.publish(&self.table, rowset).await.map(drop),
        };
        match published {
            Ok(()) => {
                if let Some(held) = self.held.take()
                    && let Err(error) = held.end(true).await
                {
                    tracing::warn!(%error, "the end of a labelled transaction was not noted; its table knows it");
                }
                self.end(Ok(()));
                Ok(self.rows)
            }
            Err(e) => {
                if !matches!(e.kind, ErrorKind::Storage | ErrorKind::Vanished | ErrorKind::Unknown) {
                    self.parts = parts;
                }
                Err(self.failed(e))
            }
        }
    }

    /// Commits writes to a table without unique keys that also delete rows. The rows are looked up where merges have
    /// moved them; the commit fails with `Conflict` if one of them is not to be found, or is part of a row into which
    /// rows of others were merged.
    async fn delete_and_publish(&self, rowset: Rowset) -> Result<()> {
        let (own, old): (Deletes, Deletes) =
            self.deletes.clone().into_iter().partition(|(segment, _)| segment.object.txn == self.txn);
        // Rows are followed through the merges so far before the table's lock is taken; later merges remain.
        let old = self.base.rows(&old, &self.table.snapshot()).await.unwrap_or(old);
        let (base, own, old) = (&self.base, &own, &old);
        let resolve = |state: Arc<TableState>, _| async move {
            let gone =
                || conflict("rows that it deletes were removed or added to by others, or moved by another server");
            let mut found = base.rows(old, &state).await.ok_or_else(gone)?;
            found.extend(own.clone());
            Ok::<_, EngineError>(found)
        };
        Ok(self.table.publish_replacing(rowset, resolve).await.map(drop)?)
    }

    /// Keeps all writes for a later commit, also over restarts. Returns the number of rows.
    ///
    /// # Errors
    /// The errors of the store. The transaction is over then.
    pub async fn prepare(mut self) -> Result<u64> {
        let (rowset, _) = match self.finished().await {
            Ok(finished) => finished,
            Err(e) => return Err(self.failed(e)),
        };
        let parts = std::mem::take(&mut self.parts);
        match self.table.prepare(rowset).await {
            Ok(_) => {
                if let Some(record) = self.record.take() {
                    record.end(&LoadAnswer { two_phase_commit: true, ..self.answer() });
                }
                Ok(self.rows)
            }
            Err(e) => {
                let e = EngineError::from(e);
                if !matches!(e.kind, ErrorKind::Storage | ErrorKind::Vanished | ErrorKind::Unknown) {
                    self.parts = parts;
                }
                Err(self.failed(e))
            }
        }
    }

    /// Discards all writes.
    pub async fn roll_back(mut self) {
        if let Some(held) = self.held.take() {
            // If this fails, the next lookup of the label finds that nothing was committed.
            let _ = held.end(false).await;
        }
        self.end(Err("the transaction was rolled back"));
    }

    fn answer(&self) -> LoadAnswer {
        let mut answer = LoadAnswer::new("", "");
        answer.txn = Some(self.txn);
        (answer.total_rows, answer.loaded_rows) = (self.rows, self.rows);
        answer.times.total = self.record.as_ref().map_or(Duration::ZERO, Running::elapsed);
        answer
    }

    fn end(&mut self, how: std::result::Result<(), &str>) {
        let answer = self.answer();
        if let Some(record) = self.record.take() {
            record.end(&match how {
                Ok(()) => answer,
                Err(why) => answer.failed(why),
            });
        }
    }

    /// Ends the transaction, and returns the error for the client.
    fn failed(&mut self, e: EngineError) -> EngineError {
        self.end(Err(&e.message));
        match e.kind {
            ErrorKind::Conflict => EngineError {
                message: format!(
                    "the transaction was rolled back: others changed rows that it had read; repeat it ({})",
                    e.message
                ),
                ..e
            },
            _ => e,
        }
    }

    fn abort_parts(&self, parts: Vec<Part>) {
        let loads: Vec<_> = parts.into_iter().map(|part| part.load).collect();
        if !loads.is_empty() {
            self.loads.cpu.spawn_blocking(move || loads.iter().for_each(|load| load.abort()));
        }
    }
}

impl Drop for Uncommitted {
    fn drop(&mut self) {
        let parts = std::mem::take(&mut self.parts);
        self.abort_parts(parts);
        if let Some(Values { load, .. }) = self.values.take() {
            self.loads.cpu.spawn_blocking(move || load.abort());
        }
    }
}

fn broken_off() -> EngineError {
    EngineError::invalid("a statement of the transaction was broken off while its rows were being taken; ROLLBACK")
}

fn conflict(why: &str) -> EngineError {
    EngineError::new(ErrorKind::Conflict, why)
}

fn internal(e: tokio::task::JoinError) -> EngineError {
    EngineError::of(ErrorKind::Internal, e)
}
