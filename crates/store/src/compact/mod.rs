//! Compaction: rewrites many segments as few, without deleted rows.
//!
//! A [`Compactor`] looks after all tables of a process. `policy.rs` chooses the segments to merge. `job.rs` merges
//! them: it reads them as of one state, merges them ([`crate::merge`]), writes one object and commits that in the place
//! of the inputs. A commit that finds an input gone gives up and removes its object; one that is cut off leaves an
//! orphan for vacuum. Rows of inputs that were deleted meanwhile are looked up in the merge's row map and deleted in
//! the output by the same commit. So no delete is lost, and no load waits for a compaction: a load that needs the keys
//! again finds them in the output.
//!
//! Small merges, of all tablets of a table at once, have a thread of their own, so that large ones never hold them up.
//! Loads wait for a small merge while more segments arrive than it takes (`table/pace.rs`).
//!
//! Several processes may compact one table. The second to commit the same segments has worked in vain; nothing else
//! happens.

mod job;
mod policy;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dipper_base::retry::{self, Attempts};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

use crate::attempts::again;
use crate::catalog::TableId;
use crate::chain::TxnId;
use crate::merge::MergeError;
use crate::segment::{Readers, SegmentError};
use crate::table::data::SegmentId;
use crate::table::schema::PartitionId;
use crate::table::{Refused, Table, TableError, TableState};

pub use job::Done;
pub use policy::Policy;

use policy::{Limits, Pick};

/// Most inputs of one small job, and most of their bytes: it takes a fraction of a second, and segments that arrived
/// meanwhile are merged next.
const SMALL_INPUTS: usize = 4096;
const SMALL_BYTES: u64 = 16 << 20;

/// Why a compaction was not done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// The table could not be read or changed.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A segment cannot be read or written.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// The rows cannot be merged.
    #[error(transparent)]
    Merge(#[from] MergeError),
    /// The store failed.
    #[error("cannot write object {path}: {source}")]
    Store {
        /// Path of the object.
        path: String,
        /// The store's error.
        source: object_store::Error,
    },
    /// An input is not part of the table.
    #[error("segment {segment} was compacted or removed by another")]
    Gone {
        /// The input.
        segment: SegmentId,
    },
    /// Only some of the rows that were merged into one were deleted meanwhile.
    #[error("rows were deleted of which others were merged into the same one; the compaction must be done anew")]
    PartDeleted,
    /// The compactor was stopped.
    #[error("compaction was stopped")]
    Stopped,
    /// The compaction panicked, which is a bug.
    #[error("compaction panicked; see the log")]
    Panicked,
}

impl CompactError {
    /// Returns whether another writer was faster: the next attempt starts from the new state.
    fn is_conflict(&self) -> bool {
        match self {
            Self::Gone { .. } | Self::PartDeleted => true,
            Self::Table(TableError::Refused(Refused::SegmentGone { .. })) => true,
            Self::Table(TableError::Resolve(e)) => e.downcast_ref::<Self>().is_some_and(Self::is_conflict),
            _ => false,
        }
    }
}

/// Options of a [`Compactor`].
#[derive(Debug, Clone)]
pub struct Options {
    /// Policy that chooses the segments to merge.
    pub policy: Policy,
    /// Most large merges at a time; small ones have one more thread.
    pub threads: usize,
    /// Approximate memory of one merge.
    pub memory_bytes: u64,
    /// Most segments of one merge.
    pub runs_max: usize,
    /// Merges of fewer bytes are small.
    pub small_bytes: u64,
    /// How often tables are examined.
    pub interval: Duration,
    /// Merges of at least this number of bytes wait until their youngest input has the age [`rest`](Self::rest), so
    /// that a load that is followed by others is not held up by merging the first.
    pub rest_bytes: u64,
    /// Age of the youngest input from which on large merges begin.
    pub rest: Duration,
    /// Runtime for small merges and for examining tables; by default the one that the compactor was started on, like
    /// large merges. Late merges make everything slower, so they should not queue behind queries.
    pub small_on: Option<Handle>,
    /// Readers through which the process reads its tables: the output of a merge is opened there before anyone sees it.
    pub readers: Option<Arc<Readers>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            policy: Policy::default(),
            threads: 1,
            memory_bytes: 256 << 20,
            runs_max: 256,
            small_bytes: 2 << 20,
            interval: Duration::from_millis(100),
            rest_bytes: 16 << 20,
            rest: Duration::from_secs(30),
            small_on: None,
            readers: None,
        }
    }
}

/// Compacts the tables of a process in the background. Clones share one compactor, which stops when the last is
/// dropped.
#[derive(Debug, Clone)]
pub struct Compactor {
    shared: Arc<Shared>,
    /// Dropped with the last clone.
    _guard: Arc<StopOnDrop>,
}

#[derive(Debug)]
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct Shared {
    options: Options,
    tables: Mutex<HashMap<TableId, Watched>>,
    /// Inputs of merges that are under way.
    busy: Mutex<HashMap<TableId, HashSet<SegmentId>>>,
    small: Arc<Semaphore>,
    large: Arc<Semaphore>,
    /// Runtime of large merges.
    large_on: Handle,
    paused: AtomicBool,
    stop: Arc<AtomicBool>,
    /// Notified when a merge has ended.
    ended: Notify,
    total: Mutex<Done>,
}

#[derive(Debug)]
struct Watched {
    table: Table,
    /// Version at which there was nothing to do.
    idle_at: Option<u64>,
    failures: Attempts,
    /// Time before which no merge is tried, after failures.
    resume: Option<Instant>,
}

impl Compactor {
    /// Starts the compactor; tables are added by [`add`](Self::add).
    ///
    /// # Panics
    /// Outside of a Tokio runtime with time.
    pub fn start(options: Options) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let shared = Arc::new(Shared {
            large_on: Handle::current(),
            small: Arc::new(Semaphore::new(1)),
            large: Arc::new(Semaphore::new(options.threads.max(1))),
            options,
            tables: Mutex::default(),
            busy: Mutex::default(),
            paused: AtomicBool::new(false),
            stop: Arc::clone(&stop),
            ended: Notify::new(),
            total: Mutex::default(),
        });
        shared.small_on().spawn(watch(Arc::clone(&shared)));
        Self { shared, _guard: Arc::new(StopOnDrop(stop)) }
    }

    /// Looks after this table from here on. Dropped tables are removed automatically.
    pub fn add(&self, table: Table) {
        let watched = Watched { table, idle_at: None, failures: Attempts::of(retry::MERGE), resume: None };
        self.shared.tables.lock().entry(watched.table.id()).or_insert(watched);
    }

    /// Stops looking after this table. A merge that is under way goes on.
    pub fn remove(&self, id: TableId) {
        self.shared.tables.lock().remove(&id);
    }

    /// Begins no merge by itself until [`resume`](Self::resume).
    pub fn pause(&self) {
        self.shared.paused.store(true, Ordering::Relaxed);
    }

    /// Ends [`pause`](Self::pause).
    pub fn resume(&self) {
        self.shared.paused.store(false, Ordering::Relaxed);
    }

    /// Ends merges that are under way, without a commit, and begins no more.
    pub fn stop(&self) {
        self.shared.stop.store(true, Ordering::Relaxed);
    }

    /// Returns the sum of all merges since the start.
    pub fn total(&self) -> Done {
        *self.shared.total.lock()
    }

    /// Merges now, also while paused: the segments that the policy chooses, or with `full` all segments of each tablet
    /// except those too large to be merged, and drops all deleted rows. Rows that come in meanwhile are left out.
    /// `partitions` restricts the merge to these.
    ///
    /// # Errors
    /// The [`CompactError`] that prevents a merge. Commits of other writers are retried, unless they win again and
    /// again.
    pub async fn compact_now(
        &self,
        table: &Table,
        partitions: Option<&[PartitionId]>,
        full: bool,
    ) -> Result<Done, CompactError> {
        let shared = &self.shared;
        let policy = if full { shared.options.policy.full() } else { shared.options.policy.clone() };
        let begun = table.refresh().await?.seq();
        let mut done = Done::default();
        let mut conflicts = Attempts::of(retry::MERGE_CONFLICT);
        loop {
            let ended = shared.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let permit = shared.large.acquire().await.map_err(|_| CompactError::Stopped)?;
            let job = shared.reserve(table, |state, busy| {
                let mut left = busy.clone();
                left.extend(state.segments_added_after(begun).filter(|s| s.added == s.seq).map(|s| s.id));
                let mut picks = shared.plan(state, &policy, &left, partitions, u64::MAX);
                // Outputs of this call are not rewritten for rows that were deleted since.
                let is_new = |id| state.segment(id).is_some_and(|s| s.added > begun);
                picks.retain(|p| p.inputs().nth(1).is_some() || !p.inputs().all(is_new));
                let small = shared.small_ones(&picks);
                if small.is_empty() { shared.large_one(&picks) } else { small }
            });
            let Some(job) = job else {
                drop(permit);
                if shared.busy.lock().get(&table.id()).is_none_or(HashSet::is_empty) {
                    return Ok(done);
                }
                ended.await;
                continue;
            };
            match shared.run(table, job).await {
                Ok(more) => done += more,
                Err(e) if e.is_conflict() => {
                    if !again(&mut conflicts, Duration::ZERO).await {
                        return Err(e);
                    }
                    table.refresh().await?;
                }
                Err(e) => return Err(e),
            }
        }
    }
}

/// Picks with their segments marked as busy.
struct Reserved {
    shared: Arc<Shared>,
    table: TableId,
    /// The state that they were picked from.
    state: Arc<TableState>,
    picks: Vec<Pick>,
    inputs: Vec<SegmentId>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if let Some(busy) = self.shared.busy.lock().get_mut(&self.table) {
            for id in &self.inputs {
                busy.remove(id);
            }
        }
        self.shared.ended.notify_waiters();
    }
}

impl Shared {
    /// Returns the runtime of small merges.
    fn small_on(&self) -> &Handle {
        self.options.small_on.as_ref().unwrap_or(&self.large_on)
    }

    /// Marks the picks of `choose` as busy; `choose` knows which segments are busy already. `None` if there are no
    /// picks.
    fn reserve(
        self: &Arc<Self>,
        table: &Table,
        choose: impl FnOnce(&TableState, &HashSet<SegmentId>) -> Vec<Pick>,
    ) -> Option<Reserved> {
        let mut busy = self.busy.lock();
        let busy = busy.entry(table.id()).or_default();
        // Read under the lock, so that segments that are not busy any more are gone from the state.
        let state = table.snapshot();
        let picks = choose(&state, busy);
        let inputs: Vec<SegmentId> = picks.iter().flat_map(Pick::inputs).collect();
        busy.extend(&inputs);
        (!picks.is_empty()).then(|| Reserved { shared: Arc::clone(self), table: table.id(), state, picks, inputs })
    }

    async fn run(&self, table: &Table, mut job: Reserved) -> Result<Done, CompactError> {
        let (state, picks) = (Arc::clone(&job.state), std::mem::take(&mut job.picks));
        let begun = Instant::now();
        let done = job::run(table, state, picks, &self.options, Arc::clone(&self.stop)).await?;
        let ms = begun.elapsed().as_millis() as u64;
        tracing::debug!(table = %table.id(), inputs = done.inputs, outputs = done.outputs, rows = done.rows, ms, "merged");
        *self.total.lock() += done;
        Ok(done)
    }

    fn plan(
        &self,
        state: &TableState,
        policy: &Policy,
        busy: &HashSet<SegmentId>,
        partitions: Option<&[PartitionId]>,
        bytes: u64,
    ) -> Vec<Pick> {
        let limits = Limits { runs: self.options.runs_max.max(2), memory: self.options.memory_bytes / 4, bytes };
        policy::plan(state, policy, limits, busy, partitions)
    }

    /// Returns small picks that make one job: one of each tablet, since all segments that a commit adds to a tablet
    /// have the same age.
    fn small_ones(&self, picks: &[Pick]) -> Vec<Pick> {
        let (mut inputs, mut bytes) = (0, 0);
        let mut tablets = HashSet::new();
        let fits = |p: &&Pick| {
            let first = inputs == 0;
            inputs += p.inputs().count();
            bytes += p.bytes;
            first || inputs <= SMALL_INPUTS && bytes <= SMALL_BYTES
        };
        picks
            .iter()
            .filter(|p| p.bytes < self.options.small_bytes && tablets.insert(p.tablet))
            .take_while(fits)
            .cloned()
            .collect()
    }

    /// Returns the smallest of the other picks.
    fn large_one(&self, picks: &[Pick]) -> Vec<Pick> {
        picks.iter().find(|p| p.bytes >= self.options.small_bytes).cloned().into_iter().collect()
    }

    /// Returns whether a pick is too small to have to rest, or none of its inputs was written recently.
    fn has_rested(&self, pick: &Pick) -> bool {
        let before = chrono::Utc::now().timestamp_millis() - self.options.rest.as_millis() as i64;
        pick.bytes < self.options.rest_bytes || pick.inputs().all(|id| id.object.txn <= TxnId::at_ms(before))
    }

    /// Begins the merges that a table needs.
    fn look_at(self: &Arc<Self>, id: TableId) {
        let table = match self.tables.lock().get_mut(&id) {
            Some(w) if w.resume.is_none_or(|at| at <= Instant::now()) && w.idle_at != Some(w.table.version()) => {
                w.table.clone()
            }
            _ => return,
        };
        let version = table.version();
        if table.snapshot().is_dropped() {
            self.tables.lock().remove(&id);
            self.busy.lock().remove(&id);
            return;
        }
        // `compact_now` merges all the same.
        let snapshot = table.snapshot();
        let off = snapshot.schema().property("disable_auto_compaction");
        if off.is_some_and(|value| value.eq_ignore_ascii_case("true")) {
            if let Some(w) = self.tables.lock().get_mut(&id) {
                w.idle_at = Some(version);
            }
            return;
        }
        let mut idle = true;
        for (lane, is_small) in [(&self.small, true), (&self.large, false)] {
            while let Ok(permit) = Arc::clone(lane).try_acquire_owned() {
                let job = self.reserve(&table, |state, busy| {
                    // While a large merge runs, small segments do not wait to become part of the next.
                    let most = if is_small { self.options.small_bytes } else { u64::MAX };
                    let picks = self.plan(state, &self.options.policy, busy, None, most);
                    if is_small {
                        return self.small_ones(&picks);
                    }
                    let rested: Vec<Pick> = picks.iter().filter(|p| self.has_rested(p)).cloned().collect();
                    idle &= rested.len() == picks.len();
                    self.large_one(&rested)
                });
                let Some(job) = job else { break };
                idle = false;
                let (shared, table) = (Arc::clone(self), table.clone());
                let on = if is_small { self.small_on() } else { &self.large_on };
                on.spawn(async move {
                    let pace = is_small.then(|| {
                        let tablets: usize = job.state.partitions().map(|p| p.buckets as usize).sum();
                        let more = job.inputs.len().max(shared.options.policy.segments_max * tablets);
                        table.merging(job.state.segment_count() + more)
                    });
                    let result = shared.run(&table, job).await;
                    drop((pace, permit));
                    shared.note(&table, result);
                });
            }
            // Without a free thread it is not known whether there is more to do.
            idle &= lane.available_permits() > 0;
        }
        if idle && let Some(w) = self.tables.lock().get_mut(&id) {
            w.idle_at = Some(version);
        }
    }

    fn note(&self, table: &Table, result: Result<Done, CompactError>) {
        let mut tables = self.tables.lock();
        let Some(watched) = tables.get_mut(&table.id()) else { return };
        watched.idle_at = None;
        match result {
            Ok(_) => (watched.failures, watched.resume) = (Attempts::of(retry::MERGE), None),
            Err(CompactError::Stopped) => {}
            Err(e) if e.is_conflict() => tracing::debug!(table = %table.id(), "compaction lost: {e}"),
            Err(e) => {
                if watched.failures.failed() == 0 {
                    tracing::warn!(table = %table.id(), "compaction failed, is tried again from time to time: {e}");
                }
                let wait = watched.failures.next(Duration::ZERO, 1.0);
                watched.resume = wait.map(|wait| Instant::now() + wait);
            }
        }
    }
}

/// Examines all tables in turn until the compactor stops.
async fn watch(shared: Arc<Shared>) {
    let mut first = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        if !shared.paused.load(Ordering::Relaxed) {
            let mut ids: Vec<TableId> = shared.tables.lock().keys().copied().collect();
            ids.sort_unstable();
            // Each time another table comes first, so that none takes all threads.
            let at = first % ids.len().max(1);
            ids.rotate_left(at);
            first += 1;
            ids.into_iter().for_each(|id| shared.look_at(id));
        }
        tokio::time::sleep(shared.options.interval).await;
    }
}
