//! One process's view of a table: loads, merge-on-write, compaction.

use std::error::Error;
use std::future::Future;
use std::ops::Range;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use dipper_base::retry;
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;
use roaring::RoaringBitmap;

use super::change::{Deletes, Input, Replace, Replaced, Rowset, TableChange, union};
use super::data::{DataObject, ObjectId, Rows, SegmentId, Tablet};
use super::error::{Refused, TableError};
use super::moves::{Carry, Followed, Moves, Moving};
use super::pace::{Merging, Pace};
use super::schema::{Partition, PartitionId, TableSchema};
use super::state::TableState;
use crate::catalog::TableId;
#[allow(unused_imports, reason = "for the documentation")]
use crate::chain::ChainError;
use crate::chain::{Chain, Options, State, TxnId};

/// The longest time between the beginning of a load and its commit.
pub const LOAD_TIME_MAX: Duration = Duration::from_secs(4 * 3600);

/// One process's view of a table; clones share it. A process opens each table once, so that its loads queue up instead
/// of racing.
#[derive(Clone, Debug)]
pub struct Table {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    id: TableId,
    store: Arc<dyn ObjectStore>,
    chain: Chain<TableState>,
    /// Held while a change is computed on the newest state.
    settling: tokio::sync::Mutex<Option<Ahead>>,
    pace: Arc<Pace>,
    moves: Arc<Moves>,
}

/// The state after a load that is on its way into the chain. The next load is computed on it and so waits for no
/// commit. Loads that are computed while another is being written share a version.
#[derive(Debug)]
struct Ahead {
    state: Arc<TableState>,
    /// A segment of that load.
    load: SegmentId,
}

/// Returns the directory of a table's chain and data.
pub fn table_path(id: TableId) -> Path {
    Path::from("t").join(id.to_string())
}

fn now_ms() -> i64 {
    chrono::Utc::now().timestamp_millis()
}

impl Table {
    /// Creates a table. Its id must be new: a catalog names it afterwards.
    ///
    /// # Errors
    /// [`Refused::AlreadyCreated`], [`Refused::Invalid`] if the definition contradicts itself, another [`Refused`] if a
    /// partition does not fit, or the error of the chain.
    pub async fn create(
        store: Arc<dyn ObjectStore>,
        id: TableId,
        schema: TableSchema,
        partitions: Vec<Partition>,
    ) -> Result<Self, TableError> {
        let table = Self::connect(store, id, options()).await?;
        table.commit(TableChange::Create { schema, partitions, at_ms: now_ms() }).await?;
        Ok(table)
    }

    /// Opens a table, dropped or not.
    ///
    /// # Errors
    /// [`TableError::NotFound`] if there is no table, [`TableError::Chain`] if the store fails or holds damaged or
    /// newer objects.
    pub async fn open(store: Arc<dyn ObjectStore>, id: TableId) -> Result<Self, TableError> {
        Self::open_with(store, id, options()).await
    }

    /// Opens a table like [`open`](Self::open), with other limits of its chain.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub async fn open_with(store: Arc<dyn ObjectStore>, id: TableId, options: Options) -> Result<Self, TableError> {
        let table = Self::connect(store, id, options).await?;
        if !table.snapshot().is_created() {
            return Err(TableError::NotFound { path: table_path(id).to_string() });
        }
        Ok(table)
    }

    pub(super) async fn connect(
        store: Arc<dyn ObjectStore>,
        id: TableId,
        options: Options,
    ) -> Result<Self, TableError> {
        let chain = Chain::open(Arc::clone(&store), table_path(id), options).await?;
        let (settling, pace, moves) = Default::default();
        Ok(Self { inner: Arc::new(Inner { id, store, chain, settling, pace, moves }) })
    }

    /// Returns the table's id.
    pub fn id(&self) -> TableId {
        self.inner.id
    }

    /// Returns the store that the table is in.
    pub fn store(&self) -> &Arc<dyn ObjectStore> {
        &self.inner.store
    }

    /// Returns the path of a data object.
    pub fn data_path(&self, object: ObjectId) -> Path {
        table_path(self.inner.id).join("d").join(format!("{object}.parquet"))
    }

    /// Returns the newest state that this process knows. Costs nothing.
    pub fn snapshot(&self) -> Arc<TableState> {
        self.inner.chain.snapshot()
    }

    /// Returns the number of the version that [`snapshot`](Self::snapshot) shows.
    pub fn version(&self) -> u64 {
        self.inner.chain.version()
    }

    /// Returns objects in the directories of the table's chain that do not belong to it.
    pub fn strays(&self) -> Vec<Path> {
        self.inner.chain.strays()
    }

    /// Returns the newest state there is: one LIST.
    ///
    /// # Errors
    /// [`TableError::Chain`] if the store fails or holds damaged or newer objects.
    pub async fn refresh(&self) -> Result<Arc<TableState>, TableError> {
        Ok(self.inner.chain.refresh().await?)
    }

    /// Returns the newest state there is, whose rows can be found in later states wherever merges of this process move
    /// them: the state that a transaction reads and names rows of.
    ///
    /// # Errors
    /// The errors of [`refresh`](Self::refresh).
    pub async fn follow(&self) -> Result<Followed, TableError> {
        // First, so that no merge comes between it and the state.
        let following = self.inner.moves.follow();
        Ok(Followed { state: self.refresh().await?, following })
    }

    /// Notes where rows go by a merge that is committed next. `bytes` is the memory that `carry` takes.
    pub(crate) fn moving(
        &self,
        inputs: impl IntoIterator<Item = SegmentId>,
        outputs: impl IntoIterator<Item = SegmentId>,
        bytes: u64,
        carry: Box<Carry>,
    ) -> Moving {
        self.inner.moves.moving(inputs, outputs, bytes, carry)
    }

    /// Returns the time since the store was last asked for newer versions. [`snapshot`](Self::snapshot) contains
    /// everything that others had committed by then.
    pub fn staleness(&self) -> Duration {
        self.inner.chain.staleness()
    }

    /// Begins a transaction: returns the id under which it writes its objects and then commits. The id is valid for
    /// [`LOAD_TIME_MAX`]; objects of a transaction that was not committed by then are deleted.
    pub fn begin(&self) -> TxnId {
        TxnId::fresh(self.horizon())
    }

    /// Returns the id below which transactions are over: one that is not committed never will be. Prepared loads are
    /// kept by the state.
    pub fn horizon(&self) -> TxnId {
        self.inner.chain.horizon()
    }

    /// Commits a change that does not depend on rows and returns a state that contains it. A change that alters nothing
    /// makes no version.
    ///
    /// # Errors
    /// [`TableError::Refused`] if the change does not fit a state that was read after the call; of the chain's errors
    /// only [`ChainError::Unknown`] leaves the outcome open.
    pub async fn commit(&self, change: TableChange) -> Result<Arc<TableState>, TableError> {
        Ok(self.inner.chain.commit(change).await?)
    }

    /// Commits a load that replaces no rows by key: into a DUPLICATE or AGGREGATE table.
    ///
    /// # Errors
    /// The errors of [`commit`](Self::commit), [`ChainError::Expired`] after [`LOAD_TIME_MAX`], and
    /// [`ChainError::Aborted`] if another process aborted it.
    pub async fn publish(&self, rowset: Rowset) -> Result<Arc<TableState>, TableError> {
        self.keep_pace(&rowset).await;
        let txn = rowset.txn;
        self.commit_load(txn, TableChange::Load { rowset, replaced: None, at_ms: now_ms() }).await
    }

    /// Begins a merge of this process. While the guard lives, loads of this process wait, for a second at most, while
    /// the table has more than `most` segments.
    pub(crate) fn merging(&self, most: usize) -> Merging {
        self.inner.pace.merging(most)
    }

    async fn keep_pace(&self, rowset: &Rowset) {
        // A load that reads rows does not wait, because others may change what it was computed from. A load that
        // replaces segments does not wait, because it reduces their number.
        if rowset.reads.is_none() && rowset.replaces == Replace::None {
            self.inner.pace.wait(|| self.snapshot().segment_count()).await;
        }
    }

    async fn commit_load(&self, txn: TxnId, change: TableChange) -> Result<Arc<TableState>, TableError> {
        match self.inner.chain.commit_as(txn, change).await.map_err(TableError::from) {
            // The load was put again after its version had been freed: it is committed already.
            Err(TableError::Refused(Refused::ObjectExists { .. })) if self.outcome(txn).await? == Some(true) => {
                Ok(self.snapshot())
            }
            other => other,
        }
    }

    /// Commits a load into a UNIQUE table.
    ///
    /// `resolve(state, after)` returns the rows that the load deletes: rows of segments in `state` that were added
    /// after `after` ([`SegmentRef::added`](super::SegmentRef::added)` > after`), and of the load's own segments. It is
    /// called with 0 first, and again for the segments that came in meanwhile as long as other writers are faster.
    ///
    /// # Errors
    /// The errors of [`publish`](Self::publish), [`TableError::Resolve`] if `resolve` fails, and
    /// [`Refused::RowsChanged`] if the rows in [`Rowset::reads`] were changed: then the load's rows must be computed
    /// again.
    pub async fn publish_replacing<F, Fut, E>(&self, rowset: Rowset, resolve: F) -> Result<Arc<TableState>, TableError>
    where
        F: FnMut(Arc<TableState>, u64) -> Fut,
        Fut: Future<Output = Result<Deletes, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.keep_pace(&rowset).await;
        let txn = rowset.txn;
        let scope = Scope::of(&rowset);
        let build = |_: &TableState, replaced| TableChange::Load {
            rowset: rowset.clone(),
            replaced: Some(replaced),
            at_ms: now_ms(),
        };
        self.settle(txn, scope, segment_of(&rowset), resolve, build, |_, _| {}).await
    }

    /// Commits a load into a UNIQUE table like [`publish_replacing`](Self::publish_replacing), for a transaction whose
    /// [`Rowset::reads`] are of the `followed` state and count the rows `read`.
    ///
    /// A merge gives these rows the age of the newest rows that it merged them with, which others may have added
    /// since. The load is refused only if one of the rows themselves was changed.
    ///
    /// # Errors
    /// The errors of [`publish_replacing`](Self::publish_replacing).
    pub async fn publish_following<F, Fut, E>(
        &self,
        rowset: Rowset,
        followed: &Followed,
        read: &Deletes,
        mut resolve: F,
    ) -> Result<Arc<TableState>, TableError>
    where
        F: FnMut(Arc<TableState>, u64) -> Fut,
        Fut: Future<Output = Result<Deletes, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let txn = rowset.txn;
        let scope = Scope::of(&rowset);
        // Before the lock, because rows of large merges take long to follow. Under the lock only later merges remain.
        let read = followed.rows(read, &self.snapshot()).await;
        let there = Mutex::new(None);
        let (read, there) = (read.as_ref(), &there);
        let resolve = |state: Arc<TableState>, after| {
            let replaced = resolve(Arc::clone(&state), after);
            async move {
                let found = match read {
                    Some(read) => followed.rows(read, &state).await,
                    None => None,
                };
                *there.lock() = found;
                replaced.await
            }
        };
        let build = |state: &TableState, replaced: Replaced| {
            let mut rowset = rowset.clone();
            if let Some(reads) = &mut rowset.reads
                && there.lock().as_ref().is_some_and(|read| are_among(state, txn, &replaced.deletes, read))
            {
                // The rows are those of this state, too. From here on the change itself says if it still holds.
                reads.seq = state.seq();
            }
            TableChange::Load { rowset, replaced: Some(replaced), at_ms: now_ms() }
        };
        self.settle(txn, scope, segment_of(&rowset), resolve, build, |_, _| {}).await
    }

    /// Stores a load for a later commit or abort, which may come after a restart. Its rows are invisible until then.
    ///
    /// # Errors
    /// The errors of [`publish`](Self::publish).
    pub async fn prepare(&self, rowset: Rowset) -> Result<Arc<TableState>, TableError> {
        let txn = rowset.txn;
        Ok(self.inner.chain.commit_as(txn, TableChange::Prepare { rowset, at_ms: now_ms() }).await?)
    }

    /// Commits a prepared load that replaces no rows by key.
    ///
    /// # Errors
    /// [`Refused::NotPrepared`] if there is no such load, otherwise the errors of [`commit`](Self::commit).
    pub async fn commit_prepared(&self, txn: TxnId) -> Result<Arc<TableState>, TableError> {
        self.commit(TableChange::CommitPrepared { txn, replaced: None, at_ms: now_ms() }).await
    }

    /// Commits a prepared load into a UNIQUE table. For `resolve` see [`publish_replacing`](Self::publish_replacing).
    ///
    /// # Errors
    /// [`Refused::NotPrepared`] if there is no such load, otherwise the errors of
    /// [`publish_replacing`](Self::publish_replacing).
    pub async fn commit_prepared_replacing<F, Fut, E>(
        &self,
        txn: TxnId,
        resolve: F,
    ) -> Result<Arc<TableState>, TableError>
    where
        F: FnMut(Arc<TableState>, u64) -> Fut,
        Fut: Future<Output = Result<Deletes, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let state = self.snapshot();
        let state = if state.prepared().contains_key(&txn) { state } else { self.refresh().await? };
        let prepared = state.prepared().get(&txn).ok_or(Refused::NotPrepared { txn })?;
        let scope = Scope::of(&prepared.rowset);
        let build =
            |_: &TableState, replaced| TableChange::CommitPrepared { txn, replaced: Some(replaced), at_ms: now_ms() };
        self.settle(self.begin(), scope, None, resolve, build, |_, _| {}).await
    }

    /// Aborts a prepared load.
    ///
    /// # Errors
    /// [`Refused::NotPrepared`] if there is no such load, otherwise the errors of [`commit`](Self::commit).
    pub async fn abort_prepared(&self, txn: TxnId) -> Result<Arc<TableState>, TableError> {
        self.commit(TableChange::AbortPrepared { txn, at_ms: now_ms() }).await
    }

    /// Makes sure that a transaction is never committed from here on. Returns false if it was committed (or prepared)
    /// before.
    ///
    /// # Errors
    /// [`ChainError::Unknown`] also if the horizon has passed the transaction.
    pub async fn abort(&self, txn: TxnId) -> Result<bool, TableError> {
        Ok(self.inner.chain.abort(txn).await?)
    }

    /// Returns the outcome of a transaction: true for committed or prepared, false for aborted. `None` means that it
    /// has neither outcome yet, or that it is forgotten.
    ///
    /// # Errors
    /// [`TableError::Chain`] if the store fails or holds damaged or newer objects.
    pub async fn outcome(&self, txn: TxnId) -> Result<Option<bool>, TableError> {
        Ok(self.inner.chain.outcome(txn).await?)
    }

    /// Deletes rows (DELETE FROM) in some partitions, or in all if none are named. For `resolve` see
    /// [`publish_replacing`](Self::publish_replacing). Returns the state and the number of rows deleted.
    ///
    /// # Errors
    /// The errors of [`publish_replacing`](Self::publish_replacing).
    pub async fn delete<F, Fut, E>(
        &self,
        partitions: Vec<PartitionId>,
        resolve: F,
    ) -> Result<(Arc<TableState>, u64), TableError>
    where
        F: FnMut(Arc<TableState>, u64) -> Fut,
        Fut: Future<Output = Result<Deletes, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let scope = Scope::of_delete();
        let build = |_: &TableState, replaced| TableChange::Delete {
            partitions: partitions.clone(),
            replaced,
            at_ms: now_ms(),
        };
        let mut deleted = 0;
        let note = |state: &TableState, deletes: &Deletes| {
            deleted = deletes.iter().map(|(id, rows)| alive(state, *id, &rows.0)).sum();
        };
        let state = self.settle(self.begin(), scope, None, resolve, build, note).await?;
        Ok((state, deleted))
    }

    /// Replaces segments by others. `inputs` name the deleted rows that `outputs` leave out. `deletes` are rows of
    /// outputs that are deleted all the same (their keys still decide by their sequence). `carry(added)` maps rows of
    /// inputs that were deleted since to rows of outputs; it is called again as long as deletions are faster.
    ///
    /// # Errors
    /// [`Refused::SegmentGone`] if an input was compacted or removed by another writer: the outputs are useless then.
    /// Otherwise the errors of [`publish_replacing`](Self::publish_replacing).
    pub async fn compact<F, Fut, E>(
        &self,
        txn: TxnId,
        inputs: Vec<(SegmentId, Option<Arc<RoaringBitmap>>)>,
        outputs: Vec<Arc<DataObject>>,
        deletes: Deletes,
        mut carry: F,
    ) -> Result<Arc<TableState>, TableError>
    where
        F: FnMut(Deletes) -> Fut,
        Fut: Future<Output = Result<Deletes, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let _one = self.inner.settling.lock().await;
        let mut state = self.snapshot();
        let mut carrying = Carrying { inputs, deletes };
        for _ in 0..retry::COMMIT.attempts {
            let added = carrying.added(&state)?;
            if !added.is_empty() {
                union(&mut carrying.deletes, carry(added).await.map_err(|e| TableError::Resolve(e.into()))?);
            }
            let change = carrying.change(outputs.clone(), now_ms());
            match self.inner.chain.commit_as(txn, change).await.map_err(TableError::from) {
                Err(TableError::Refused(Refused::DeletesMoved { .. })) => state = self.snapshot(),
                other => return other,
            }
        }
        let (path, attempts) = (table_path(self.inner.id).to_string(), retry::COMMIT.attempts);
        let (base, found) = (state.seq(), state.seq());
        Err(TableError::Contended { path, attempts, last: Refused::Moved { base, found } })
    }

    /// Reserves values of AUTO_INCREMENT that nobody else gets. Values that are not used leave gaps.
    ///
    /// # Errors
    /// The errors of [`commit`](Self::commit).
    pub async fn reserve_auto_increment(&self, values: u64) -> Result<Range<i64>, TableError> {
        let _one = self.inner.settling.lock().await;
        let mut attempt = 0;
        loop {
            let from = self.snapshot().next_auto_increment();
            match self.commit(TableChange::ReserveAutoIncrement { from, values }).await {
                Err(TableError::Refused(Refused::AutoIncrementMoved { .. })) if attempt < retry::COMMIT.attempts => {
                    attempt += 1
                }
                Err(e) => return Err(e),
                // The range is valid: the commit has checked it.
                Ok(_) => return Ok(from..from.saturating_add_unsigned(values)),
            }
        }
    }

    /// Makes sure that there are partitions for values that a load brings (AUTO PARTITION), before the load writes rows
    /// into them. The returned state has their ids. Existing partitions stay as they are. A new partition whose name
    /// belongs to a partition of other values gets another name.
    ///
    /// # Errors
    /// The errors of [`commit`](Self::commit).
    pub async fn ensure_partitions(&self, partitions: Vec<Partition>) -> Result<Arc<TableState>, TableError> {
        self.commit(TableChange::AddPartitions { partitions, if_not_exists: true, free_names: true }).await
    }

    /// Drops the table: aborts its prepared loads and refuses every later change. The catalog forgets the table first.
    /// Its objects are deleted by [`vacuum_data`](super::vacuum_data).
    ///
    /// # Errors
    /// The errors of [`commit`](Self::commit).
    pub async fn tombstone(&self) -> Result<(), TableError> {
        self.commit(TableChange::Tombstone { at_ms: now_ms() }).await.map(drop)
    }

    /// Writes a checkpoint and deletes the objects that it replaces. Runs by itself every 64 versions.
    ///
    /// # Errors
    /// [`TableError::Chain`] if the store fails.
    pub async fn vacuum(&self) -> Result<(), TableError> {
        Ok(self.inner.chain.vacuum().await?)
    }

    /// Computes the deleted rows, commits, and computes them for the segments that came in meanwhile, until the commit
    /// succeeds.
    ///
    /// `segment` is a segment that the change brings, if it brings any: then other changes may be computed while it is
    /// committed.
    async fn settle<F, Fut, E>(
        &self,
        txn: TxnId,
        scope: Scope,
        segment: Option<SegmentId>,
        mut resolve: F,
        build: impl Fn(&TableState, Replaced) -> TableChange,
        mut note: impl FnMut(&TableState, &Deletes),
    ) -> Result<Arc<TableState>, TableError>
    where
        F: FnMut(Arc<TableState>, u64) -> Fut,
        Fut: Future<Output = Result<Deletes, E>>,
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        let mut settling = Settling::default();
        let mut last = Refused::NotCreated;
        for _ in 0..retry::COMMIT.attempts {
            // Held while computing: without the lock, a load with much to compute would lose against small ones for
            // ever.
            let mut ahead = self.inner.settling.lock().await;
            let now = self.snapshot();
            let (state, after) = match &*ahead {
                Some(ahead) if ahead.state.seq() > now.seq() => (Arc::clone(&ahead.state), Some(ahead.load)),
                _ => (now, None),
            };
            let new = resolve(Arc::clone(&state), settling.base).await.map_err(|e| TableError::Resolve(e.into()))?;
            let replaced = settling.on(&state, &scope, new, after);
            note(&state, &replaced.deletes);
            let change = build(&state, replaced);
            let next = segment.and_then(|load| {
                let mut next = state.as_ref().clone();
                next.apply(&change).ok().map(|_| Ahead { state: Arc::new(next), load })
            });
            let goes_on = next.is_some();
            *ahead = next;
            let mut commit = Box::pin(self.commit_load(txn, change));
            let committed = if goes_on {
                // One poll puts the commit into the committer's queue before the next one.
                let first = std::future::poll_fn(|cx| Poll::Ready(commit.as_mut().poll(cx))).await;
                drop(ahead);
                match first {
                    Poll::Ready(done) => done,
                    Poll::Pending => commit.await,
                }
            } else {
                commit.await
            };
            let Err(failed) = committed else { return committed };
            if goes_on {
                // Changes that were computed on it are refused by themselves.
                *self.inner.settling.lock().await = None;
            }
            match failed {
                TableError::Refused(e @ (Refused::Moved { .. } | Refused::SegmentGone { .. })) => last = e,
                other => return Err(other),
            }
            settling.refused(&state, after);
            if scope.is_conditional {
                // Rows that lost on that state may win on the next.
                settling = Settling::default();
            }
        }
        let path = table_path(self.inner.id).to_string();
        Err(TableError::Contended { path, attempts: retry::COMMIT.attempts, last })
    }
}

/// The rows that a change deletes, found on one state after the other until no commit comes between.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settling {
    /// Segments that were added up to this `seq` have been searched; later ones are still to be searched.
    pub base: u64,
    pub deletes: Deletes,
}

impl Settling {
    /// Returns the rows deleted on that state. `new` are the rows found in segments added after [`base`](Self::base).
    /// For `after` see [`Replaced::after`].
    pub fn on(&mut self, state: &TableState, scope: &Scope, new: Deletes, after: Option<SegmentId>) -> Replaced {
        union(&mut self.deletes, new);
        self.deletes.retain(|id, _| scope.has(state, *id));
        Replaced { base: state.seq(), deletes: self.deletes.clone(), after }
    }

    /// Notes that the commit computed on that state was refused.
    pub fn refused(&mut self, state: &TableState, after: Option<SegmentId>) {
        match after {
            None => self.base = state.seq(),
            // That state may never exist.
            Some(_) => *self = Self::default(),
        }
    }
}

/// The inputs of a compaction, and the deleted rows of its outputs.
#[derive(Clone, Debug)]
pub(crate) struct Carrying {
    /// The inputs, with the deleted rows that the output leaves out or that were carried over.
    pub inputs: Vec<(SegmentId, Option<Arc<RoaringBitmap>>)>,
    /// Deleted rows of outputs.
    pub deletes: Deletes,
}

impl Carrying {
    /// Returns rows of inputs that were deleted since the last call; they count as known afterwards.
    pub fn added(&mut self, state: &TableState) -> Result<Deletes, Refused> {
        let mut added = Deletes::new();
        for (id, known) in &mut self.inputs {
            let now = state.segment(*id).ok_or(Refused::SegmentGone { segment: *id })?.deleted;
            if let Some(now) = now {
                let new = known.as_ref().map_or_else(|| (**now).clone(), |k| &**now - &**k);
                if !new.is_empty() {
                    added.insert(*id, Rows(new));
                    *known = Some(Arc::clone(now));
                }
            }
        }
        Ok(added)
    }

    /// Returns the change that replaces the inputs by the outputs.
    pub fn change(&self, outputs: Vec<Arc<DataObject>>, at_ms: i64) -> TableChange {
        let rows = |d: &Option<Arc<RoaringBitmap>>| d.as_ref().map_or(0, |d| d.len());
        let input = |(segment, d): &(SegmentId, _)| Input { segment: *segment, deleted_rows: rows(d) };
        TableChange::Compact {
            inputs: self.inputs.iter().map(input).collect(),
            outputs,
            deletes: self.deletes.clone(),
            at_ms,
        }
    }
}

/// Segments whose deletions a commit may name.
#[derive(Clone, Debug)]
pub(crate) struct Scope {
    /// Segments of this transaction come with the commit.
    own: TxnId,
    /// Rows that the commit removes anyway.
    cleared: Replace,
    /// The load has a condition, see [`Rowset::condition`].
    is_conditional: bool,
}

impl Scope {
    /// Returns the scope of a change that brings no rows.
    pub fn of_delete() -> Self {
        Self { own: TxnId::default(), cleared: Replace::None, is_conditional: false }
    }

    pub fn of(rowset: &Rowset) -> Self {
        Self { own: rowset.txn, cleared: rowset.replaces.clone(), is_conditional: rowset.condition.is_some() }
    }

    fn has(&self, state: &TableState, id: SegmentId) -> bool {
        if id.object.txn == self.own {
            return true;
        }
        let Some(found) = state.segment(id) else { return false };
        let Tablet { partition, .. } = found.segment.tablet;
        match &self.cleared {
            Replace::None => true,
            Replace::Partitions(list) => !list.contains(&partition),
            Replace::All => state.partition(partition).is_some_and(|p| p.temporary),
        }
    }
}

/// Returns the first segment of a load; `None` if the load has no rows.
fn segment_of(rowset: &Rowset) -> Option<SegmentId> {
    let object = rowset.objects.iter().find(|o| !o.segments.is_empty())?;
    Some(SegmentId { object: object.id, ordinal: 0 })
}

/// Returns whether the live rows of older segments that a load of `txn` deletes are all among `read`.
fn are_among(state: &TableState, txn: TxnId, deletes: &Deletes, read: &Deletes) -> bool {
    let old = deletes.iter().filter(|(id, _)| id.object.txn != txn);
    old.into_iter().all(|(id, rows)| {
        let mut rest = rows.0.clone();
        if let Some(dead) = state.segment(*id).and_then(|s| s.deleted) {
            rest -= &**dead;
        }
        if let Some(read) = read.get(id) {
            rest -= &read.0;
        }
        rest.is_empty()
    })
}

fn alive(state: &TableState, id: SegmentId, rows: &RoaringBitmap) -> u64 {
    let dead = state.segment(id).and_then(|s| s.deleted);
    rows.len() - dead.map_or(0, |d| d.intersection_len(rows))
}

/// Returns the options of tables' chains.
pub(super) fn options() -> Options {
    Options { remember: LOAD_TIME_MAX, ..Options::default() }
}
