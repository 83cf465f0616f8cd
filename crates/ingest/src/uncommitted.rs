//! What a transaction has written and not committed: rows of one table, in objects that no version of it names.
//!
//! ```text
//! BEGIN ─ INSERT ─ UPDATE ─ DELETE ─ COMMIT        POST /api/transaction/begin ─ load ─ load ─ prepare ─ commit
//!           │        │        │         │                                         │      │        │         │
//!           └─ part ─┴─ part ─┴─ part ──┴─ one version                            └─ part┴─ part ─┴ prepared┴─ one version
//! ```
//!
//! Each statement or load is a part: a load of its own under the transaction's id, whose objects are numbered behind those of
//! the part before. Rows of VALUES go on in one load as long as nothing else comes, so that many small INSERTs leave one
//! object. Nothing is in the table's chain before the commit, so nobody has to take anything back: who rolls back, loses the
//! connection or dies leaves objects that nobody names, which are deleted at once or by vacuum.
//!
//! The transaction itself sees what it has written ([`Uncommitted::seen`]), over the state that the table had when it wrote
//! first. Of rows with equal keys those of the later part win. Where it has read rows that it replaces (UPDATE, DELETE, some
//! columns of a row), its commit is refused if others have changed one of the rows that it replaces since then: the first
//! who commits wins, and the other is told to repeat its transaction (1213).

use std::sync::Arc;
use std::time::Duration;

use arrow::record_batch::RecordBatch;
use dipper_load::{Load, LoadOptions, LoadTarget, RejectedRow, together};
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_store::catalog::TableId;
use dipper_store::chain::TxnId;
use dipper_store::labels::Held;
use dipper_store::table::schema::{Model, TableSchema};
use dipper_store::table::{Deletes, Reads, Rowset, Table, TableState};
use parking_lot::Mutex;

use crate::answer::LoadAnswer;
use crate::loads::Loads;
use crate::records::Running;

/// Objects that a part may have: the next one's numbers begin behind them.
const PART_OBJECTS: u32 = 1 << 16;
/// Bytes of rows of VALUES that wait in memory, about.
const VALUES_BYTES: u64 = 64 << 20;

/// A statement's or a load's share of a transaction: durable, and in no version.
#[derive(Debug, Clone)]
pub struct Part {
    /// What wrote the rows, and can delete them.
    pub load: Arc<Load>,
    /// Its objects.
    pub rowset: Rowset,
}

/// Where a part begins.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// The transaction.
    pub txn: TxnId,
    /// First number of the load's objects, see [`LoadOptions::first_object`].
    pub first_object: u32,
}

/// Where a load belongs that is one of a transaction.
#[derive(Debug, Clone)]
pub struct Slot {
    /// Where its part begins.
    pub place: Place,
    /// What the transaction sees; only where the load reads rows of the table.
    pub seen: Option<Arc<TableState>>,
    /// What it has written, once it has ended well.
    pub part: Arc<Mutex<Option<Part>>>,
}

/// What became of rows that were given to [`Uncommitted::values`].
pub struct Taken {
    /// Rows that were left out; where they are more than were allowed, all are.
    pub refused: Vec<RejectedRow>,
    /// The first value that was made for the AUTO_INCREMENT column.
    pub generated: Option<i64>,
    /// That column in the last row.
    pub last: Option<i64>,
}

/// A state to come back to, of a savepoint.
#[derive(Debug, Clone)]
pub struct Mark {
    parts: usize,
    deletes: Deletes,
    reads: bool,
    rows: u64,
}

/// A load that takes the rows of one VALUES after the other.
#[derive(Debug)]
struct Values {
    load: Arc<Load>,
    pushed: u64,
}

/// What a transaction has written; see the [module](self). Dropped, it is rolled back.
#[derive(Debug)]
pub struct Uncommitted {
    loads: Arc<Loads>,
    table: Table,
    txn: TxnId,
    /// The label, given or made.
    pub label: String,
    /// The label, where somebody else could know it.
    held: Option<Held>,
    /// The table when the transaction first wrote.
    base: Arc<TableState>,
    parts: Vec<Part>,
    values: Option<Values>,
    /// Rows of DUPLICATE and AGGREGATE tables that it deletes: old ones, and its own.
    deletes: Deletes,
    /// Whether the transaction has read rows that it replaces.
    reads: bool,
    /// Rows are on their way into the load of VALUES, or were when their statement was broken off.
    is_taking: bool,
    next_part: u32,
    /// What it sees, as long as it writes nothing more.
    seen: Option<Arc<TableState>>,
    /// Rows that were written.
    pub rows: u64,
    record: Option<Running>,
}

impl Uncommitted {
    /// Begins to write to a table. `held` is the label's, taken for `txn`.
    pub fn new(
        loads: &Arc<Loads>,
        table: Table,
        base: Arc<TableState>,
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

    /// The table that it writes to.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// The transaction's id, under which all of its rows become visible.
    pub fn txn(&self) -> TxnId {
        self.txn
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty() && self.deletes.is_empty() && self.values.as_ref().is_none_or(|values| values.pushed == 0)
    }

    /// The state that it sees, if nothing was written since it was computed.
    pub fn known(&self) -> Option<(TableId, &Arc<TableState>)> {
        self.seen.as_ref().map(|state| (self.table.id(), state))
    }

    /// Where the next part begins.
    ///
    /// # Errors
    /// The transaction has too many.
    pub fn place(&mut self) -> Result<Place> {
        let part = self.next_part;
        let first_object = part.checked_mul(PART_OBJECTS).ok_or_else(|| {
            let most = u32::MAX / PART_OBJECTS;
            EngineError::new(ErrorKind::Resources, format!("a transaction has at most {most} parts; COMMIT this one"))
        })?;
        self.next_part = part + 1;
        Ok(Place { txn: self.txn, first_object })
    }

    /// Begins a load. `reads`: it reads rows of the table, and shall see those of the transaction.
    ///
    /// # Errors
    /// The store's; the transaction has too many parts.
    pub async fn slot(&mut self, reads: bool) -> Result<Slot> {
        let seen = match reads {
            true => Some(self.seen().await?),
            false => None,
        };
        Ok(Slot { place: self.place()?, seen, part: Arc::default() })
    }

    /// Takes what a statement or load has written, which counts behind all that was written before.
    pub fn add(&mut self, part: Part) {
        self.reads |= part.rowset.reads.is_some();
        self.seen = None;
        self.parts.push(part);
    }

    /// Deletes rows of a table whose rows have no keys to meet.
    pub fn delete(&mut self, deletes: Deletes) {
        self.seen = None;
        for (segment, rows) in deletes {
            self.deletes.entry(segment).or_default().0 |= rows.0;
        }
    }

    /// Takes a few rows, typed by `schema`, unless more than `refused_max` of them are refused: then none.
    ///
    /// # Errors
    /// Too little memory, or the store's; the transaction can then only be rolled back, or goes on without the rows.
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
            let options = LoadOptions {
                threads: self.loads.threads,
                memory_bytes: VALUES_BYTES,
                first_object: place.first_object,
                ..LoadOptions::default()
            };
            let target = LoadTarget { table: self.table.clone(), state: self.table.snapshot(), txn: self.txn };
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

    /// Ends the load of VALUES, if there is one.
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

    /// Refuses to go on where it is not known which rows it has.
    fn check_whole(&self) -> Result<()> {
        if self.is_taking { Err(broken_off()) } else { Ok(()) }
    }

    /// All parts as one rowset.
    fn rowset(&self) -> Rowset {
        let parts = self.parts.iter().map(|part| part.rowset.clone());
        let label = self.held.is_some().then(|| self.label.clone());
        Rowset { label, ..together(self.base.schema(), self.txn, parts) }
    }

    /// Rows that go because of the rowset, among those of the first state and its own.
    async fn replaced(&self, rowset: &Rowset) -> Result<Deletes> {
        if self.base.schema().model != Model::Unique {
            return Ok(self.deletes.clone());
        }
        let objects = rowset.objects.clone();
        self.loads.tables.replaced(&self.table, objects, Arc::clone(&self.base), 0).await
    }

    /// The table as the transaction sees it: as it was when it first wrote, with what it has written.
    ///
    /// # Errors
    /// The store's.
    pub async fn seen(&mut self) -> Result<Arc<TableState>> {
        if let Some(state) = &self.seen {
            return Ok(Arc::clone(state));
        }
        self.flush().await?;
        let rowset = self.rowset();
        let deletes = self.replaced(&rowset).await?;
        let newest = self.table.snapshot();
        let state =
            self.base.with_uncommitted(&rowset, deletes, &newest).map_err(dipper_store::table::TableError::from)?;
        Ok(Arc::clone(self.seen.insert(Arc::new(state))))
    }

    /// Where a savepoint comes back to.
    ///
    /// # Errors
    /// The store's.
    pub async fn mark(&mut self) -> Result<Mark> {
        self.flush().await?;
        Ok(Mark { parts: self.parts.len(), deletes: self.deletes.clone(), reads: self.reads, rows: self.rows })
    }

    /// Forgets what was written since; all of it, without a mark.
    ///
    /// # Errors
    /// The store's.
    pub async fn back_to(&mut self, mark: Option<&Mark>) -> Result<()> {
        self.flush().await?;
        let nothing = Mark { parts: 0, deletes: Deletes::new(), reads: false, rows: 0 };
        let Mark { parts, deletes, reads, rows } = mark.cloned().unwrap_or(nothing);
        let gone = self.parts.split_off(parts.min(self.parts.len()));
        self.abort_parts(gone);
        (self.deletes, self.reads, self.rows, self.seen) = (deletes, reads, rows, None);
        Ok(())
    }

    /// What is committed or prepared: all parts, and what is asked of the rows that they replace.
    async fn finished(&mut self) -> Result<Rowset> {
        self.flush().await?;
        let mut rowset = self.rowset();
        if self.reads {
            let replaced = self.replaced(&rowset).await?;
            let old = replaced.iter().filter(|(segment, _)| segment.object.txn != self.txn);
            rowset.reads = Some(Reads { seq: self.base.seq(), rows: old.map(|(_, rows)| rows.0.len()).sum() });
        }
        Ok(rowset)
    }

    /// Makes all that was written visible, as one version. Gives the number of rows written.
    ///
    /// # Errors
    /// [`ErrorKind::Conflict`]: others changed rows that the transaction has read; it is rolled back.
    /// [`ErrorKind::Unknown`] and [`ErrorKind::Storage`] leave the outcome open. After any error the transaction is over.
    pub async fn commit(mut self) -> Result<u64> {
        let rowset = match self.finished().await {
            Ok(rowset) => rowset,
            Err(e) => return Err(self.failed(e)),
        };
        if rowset.objects.is_empty() && self.deletes.is_empty() && self.held.is_none() {
            self.end(Ok(()));
            return Ok(self.rows);
        }
        // From here on the table may name what was written.
        let parts = std::mem::take(&mut self.parts);
        let published = match self.deletes.is_empty() {
            true => self.loads.tables.publish(&self.table, rowset).await.map(drop),
            false => self.delete_and_publish(rowset).await,
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

    /// Commits a load into a table without unique keys that deletes rows, too: those that it has found, if all of them are
    /// still where they were.
    async fn delete_and_publish(&self, rowset: Rowset) -> Result<()> {
        let txn = self.txn;
        let resolve = |state: Arc<TableState>, _| {
            let moved = self.deletes.keys().find(|id| id.object.txn != txn && state.segment(**id).is_none());
            let found = match moved {
                None => Ok(self.deletes.clone()),
                Some(_) => Err(conflict("rows that it deletes were moved or removed by others")),
            };
            std::future::ready(found)
        };
        Ok(self.table.publish_replacing(rowset, resolve).await.map(drop)?)
    }

    /// Keeps all that was written for a later commit, also over restarts. Gives the number of rows.
    ///
    /// # Errors
    /// The store's. The transaction is over then.
    pub async fn prepare(mut self) -> Result<u64> {
        let rowset = match self.finished().await {
            Ok(rowset) => rowset,
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

    /// Forgets all that was written.
    pub async fn roll_back(mut self) {
        if let Some(held) = self.held.take() {
            // Else the next who asks finds that nothing was committed.
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

    /// The error of a transaction that it has ended.
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
