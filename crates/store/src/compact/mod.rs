//! Compaction: many segments become few, deleted rows go.
//!
//! A [`Compactor`] looks after all tables of a process. `policy.rs` says which segments are merged; `job.rs` does it: it
//! reads them as of one state, merges them ([`crate::merge`]), writes one object and commits that in the place of the
//! inputs. A commit that finds an input gone gives up and removes its object; one that is cut off leaves an orphan for
//! vacuum. Rows of inputs that were deleted meanwhile are looked up in the merge's row map and deleted in the output by the
//! same commit, so no delete is lost, and no load waits for a compaction: one that needs its keys again finds them in the
//! output.
//!
//! Small merges, of all tablets of a table at once, have a thread of their own: large ones never hold them up. Loads wait
//! for one while more segments come than it takes (`table/pace.rs`).
//!
//! Several processes may compact one table. The second to commit the same segments has worked in vain, nothing worse.

mod job;
mod policy;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};

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

/// Inputs of one small job at most, and their bytes: a fraction of a second, after which what came meanwhile is merged.
const SMALL_INPUTS: usize = 4096;
const SMALL_BYTES: u64 = 16 << 20;
/// Longest time without a try after failures.
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// Tries of [`Compactor::compact_now`] against others that are faster.
const CONFLICTS_MAX: u32 = 100;

/// Why a compaction did nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    /// The table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// A segment cannot be read or written.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Its rows cannot be merged.
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
    /// An input is not part of the table any more.
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
    /// A bug.
    #[error("compaction panicked; see the log")]
    Panicked,
}

impl CompactError {
    /// Another was faster: the next try starts from what is there then.
    fn is_conflict(&self) -> bool {
        match self {
            Self::Gone { .. } | Self::PartDeleted => true,
            Self::Table(TableError::Refused(Refused::SegmentGone { .. })) => true,
            Self::Table(TableError::Resolve(e)) => e.downcast_ref::<Self>().is_some_and(Self::is_conflict),
            _ => false,
        }
    }
}

/// How a [`Compactor`] works.
#[derive(Debug, Clone)]
pub struct Options {
    /// When segments are merged.
    pub policy: Policy,
    /// Large merges at a time; one thread more is for small ones.
    pub threads: usize,
    /// Memory of one merge, about.
    pub memory_bytes: u64,
    /// Segments of one merge at most.
    pub runs_max: usize,
    /// Merges of fewer bytes are small.
    pub small_bytes: u64,
    /// How often tables are looked at.
    pub interval: Duration,
    /// Merges of that many bytes wait until their youngest input has the age [`rest`](Self::rest): a load that is followed by
    /// others is not held up by merging the first.
    pub rest_bytes: u64,
    /// That age.
    pub rest: Duration,
    /// Threads that small merges run on, and by which tables are looked at; by default those that the compactor was started
    /// on, as large merges do. Merges that come late make everything slower, so they should not stand behind queries.
    pub small_on: Option<Handle>,
    /// By what the process reads its tables: what a merge has written is opened there before anyone sees it.
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

/// Compacts the tables of a process in the background. Clones are the same one. It stops when the last is dropped.
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
    /// Where large merges run.
    large_on: Handle,
    paused: AtomicBool,
    stop: Arc<AtomicBool>,
    /// A merge has ended.
    ended: Notify,
    total: Mutex<Done>,
}

#[derive(Debug)]
struct Watched {
    table: Table,
    /// Version at which there was nothing to do.
    idle_at: Option<u64>,
    failures: u32,
    /// Not before, after failures.
    resume: Option<Instant>,
}

impl Compactor {
    /// Starts it; tables come by [`add`](Self::add).
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

    /// Looks after this table from now on. Dropped tables are forgotten by themselves.
    pub fn add(&self, table: Table) {
        let watched = Watched { table, idle_at: None, failures: 0, resume: None };
        self.shared.tables.lock().entry(watched.table.id()).or_insert(watched);
    }

    /// Looks no more after this table. A merge that is under way goes on.
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

    /// What was done since the start.
    pub fn total(&self) -> Done {
        *self.shared.total.lock()
    }

    /// Merges now, also while paused: what the policy asks for, or with `full` all segments of each tablet, those too
    /// large to be merged aside, and drops all deleted rows. Rows that come in meanwhile are left out. `partitions`: only
    /// these.
    ///
    /// # Errors
    /// What keeps a merge from being done; others' commits do not, unless they win again and again.
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
        let mut conflicts = 0;
        loop {
            let ended = shared.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            let permit = shared.large.acquire().await.map_err(|_| CompactError::Stopped)?;
            let job = shared.reserve(table, |state, busy| {
                let mut left = busy.clone();
                left.extend(state.segments_added_after(begun).filter(|s| s.added == s.seq).map(|s| s.id));
                let mut picks = shared.plan(state, &policy, &left, partitions, u64::MAX);
                // Outputs of this call are not rewritten for what was deleted since.
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
                Err(e) if e.is_conflict() && conflicts < CONFLICTS_MAX => {
                    conflicts += 1;
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
    /// The state they were picked from.
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
    /// Where small merges run.
    fn small_on(&self) -> &Handle {
        self.options.small_on.as_ref().unwrap_or(&self.large_on)
    }

    /// Marks what `choose` takes, knowing what is taken already; `None` if that is nothing.
    fn reserve(
        self: &Arc<Self>,
        table: &Table,
        choose: impl FnOnce(&TableState, &HashSet<SegmentId>) -> Vec<Pick>,
    ) -> Option<Reserved> {
        let mut busy = self.busy.lock();
        let busy = busy.entry(table.id()).or_default();
        // Taken under the lock: what is not busy any more is gone from it.
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

    /// Small picks that make one job: one of each tablet, since all that a commit puts into a tablet has the same age.
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

    /// The smallest of the others.
    fn large_one(&self, picks: &[Pick]) -> Vec<Pick> {
        picks.iter().find(|p| p.bytes >= self.options.small_bytes).cloned().into_iter().collect()
    }

    /// Whether a pick is too small to have to rest, or nothing of it was written just now.
    fn has_rested(&self, pick: &Pick) -> bool {
        let before = chrono::Utc::now().timestamp_millis() - self.options.rest.as_millis() as i64;
        pick.bytes < self.options.rest_bytes || pick.inputs().all(|id| id.object.txn <= TxnId::at_ms(before))
    }

    /// Begins what there is to do in a table.
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
        // What is asked for by `compact_now` is done all the same.
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
            // Who has no thread cannot know.
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
            Ok(_) => (watched.failures, watched.resume) = (0, None),
            Err(CompactError::Stopped) => {}
            Err(e) if e.is_conflict() => tracing::debug!(table = %table.id(), "compaction lost: {e}"),
            Err(e) => {
                let pause = (Duration::from_secs(1) * 2u32.pow(watched.failures.min(10))).min(PAUSE_MAX);
                if watched.failures == 0 {
                    tracing::warn!(table = %table.id(), "compaction failed, is tried again from time to time: {e}");
                }
                watched.failures += 1;
                watched.resume = Some(Instant::now() + pause);
            }
        }
    }
}

/// Looks at all tables in turn until the compactor stops.
async fn watch(shared: Arc<Shared>) {
    let mut first = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        if !shared.paused.load(Ordering::Relaxed) {
            let mut ids: Vec<TableId> = shared.tables.lock().keys().copied().collect();
            ids.sort_unstable();
            // Each time another one comes first, so that none takes all threads.
            let at = first % ids.len().max(1);
            ids.rotate_left(at);
            first += 1;
            ids.into_iter().for_each(|id| shared.look_at(id));
        }
        tokio::time::sleep(shared.options.interval).await;
    }
}
