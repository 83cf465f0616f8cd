//! Where merges of this process moved rows, for transactions that named the rows before.
//!
//! A transaction names rows by segment and number, as of the state at its beginning. Merges do not wait for it: they
//! leave here where each row went, and the commit finds the rows where they are by then. So only what others did to
//! the rows can be in the way of the commit.
//!
//! What a merge left is kept while a transaction is open that began before the merge ended, and is in memory only: of
//! merges of other processes nothing is known here. That memory is in no pool, but [bounded](KEPT_BYTES) for each table.
//! The rows of a large transaction take a while to be moved, so threads that may block do it.

use std::collections::{BTreeSet, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use super::change::{Deletes, union};
use super::data::SegmentId;
use super::state::TableState;

/// Most bytes that are kept for a table. Beyond them the oldest merges are forgotten, and a transaction that has rows
/// in their inputs cannot be committed any more: one that nobody ends does not fill the memory.
const KEPT_BYTES: u64 = 64 << 20;

/// Returns where rows of a merge's inputs went. Rows that were deleted before are left out. `None` if only some of the
/// rows that were merged into one are named: no row is theirs alone.
pub(crate) type Carry = dyn Fn(Deletes) -> Option<Deletes> + Send + Sync;

/// The merges of a table's segments that open transactions may have to know.
#[derive(Debug, Default)]
pub(super) struct Moves(Mutex<Kept>);

#[derive(Debug, Default)]
struct Kept {
    /// Counts beginnings and ends.
    clock: u64,
    /// When the transactions that are open began.
    open: BTreeSet<u64>,
    /// In the order in which they began to be committed. A merge that moves rows on comes after the one that moved
    /// them there.
    merges: VecDeque<Move>,
    bytes: u64,
}

#[derive(Debug)]
struct Move {
    begun: u64,
    /// `None` while the commit is under way.
    ended: Option<u64>,
    bytes: u64,
    merge: Arc<Merge>,
}

struct Merge {
    inputs: HashSet<SegmentId>,
    outputs: HashSet<SegmentId>,
    carry: Box<Carry>,
}

impl Merge {
    /// Whether the merge has led to a state, as far as that can be told from the state and from the merges after it: a
    /// commit whose outcome is unknown may have failed. One that left no rows leaves nothing to find.
    fn led_to(&self, state: &TableState, after: &[Arc<Merge>]) -> bool {
        let is_known = |id: &SegmentId| state.segment(*id).is_some() || after.iter().any(|m| m.inputs.contains(id));
        self.outputs.is_empty() || self.outputs.iter().any(is_known)
    }
}

impl fmt::Debug for Merge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merge").field("inputs", &self.inputs).finish_non_exhaustive()
    }
}

impl Kept {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn retain(&mut self, mut keep: impl FnMut(&Move) -> bool) {
        let bytes = &mut self.bytes;
        self.merges.retain(|m| {
            let keeps = keep(m);
            *bytes -= if keeps { 0 } else { m.bytes };
            keeps
        });
    }

    /// Forgets what no transaction needs, and what is too much.
    fn forget(&mut self) {
        let first = self.open.first().copied().unwrap_or(u64::MAX);
        self.retain(|m| m.ended.is_none_or(|ended| ended > first));
        let mut over = self.bytes.saturating_sub(KEPT_BYTES);
        self.retain(|m| {
            let keeps = over == 0 || m.ended.is_none();
            over = if keeps { over } else { over.saturating_sub(m.bytes) };
            keeps
        });
    }
}

impl Moves {
    /// Keeps what merges leave from here on. A state that is read after this call can be followed.
    pub fn follow(self: &Arc<Self>) -> Following {
        let mut kept = self.0.lock();
        let since = kept.tick();
        kept.open.insert(since);
        Following { moves: Arc::clone(self), since }
    }

    /// Notes a merge that is committed next, so that no state is seen without what is to be known of it.
    pub fn moving(
        self: &Arc<Self>,
        inputs: impl IntoIterator<Item = SegmentId>,
        outputs: impl IntoIterator<Item = SegmentId>,
        bytes: u64,
        carry: Box<Carry>,
    ) -> Moving {
        let (inputs, outputs) = (inputs.into_iter().collect(), outputs.into_iter().collect());
        let mut kept = self.0.lock();
        let begun = kept.tick();
        kept.bytes += bytes;
        kept.merges.push_back(Move { begun, ended: None, bytes, merge: Arc::new(Merge { inputs, outputs, carry }) });
        Moving { moves: Arc::clone(self), begun }
    }
}

/// A merge that is being committed. Dropped, it counts as one that may have happened.
#[derive(Debug)]
#[must_use = "dropping it ends the merge"]
pub(crate) struct Moving {
    moves: Arc<Moves>,
    begun: u64,
}

impl Moving {
    /// Notes that the merge did not happen.
    pub fn refused(self) {
        self.moves.0.lock().retain(|m| m.begun != self.begun);
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        let mut kept = self.moves.0.lock();
        let now = kept.tick();
        if let Some(merge) = kept.merges.iter_mut().find(|m| m.begun == self.begun) {
            merge.ended = Some(now);
        }
        kept.forget();
    }
}

/// Keeps what merges leave, until it is dropped.
#[derive(Debug)]
pub(super) struct Following {
    moves: Arc<Moves>,
    since: u64,
}

impl Drop for Following {
    fn drop(&mut self) {
        let mut kept = self.moves.0.lock();
        kept.open.remove(&self.since);
        kept.forget();
    }
}

/// A state of a table whose rows can be found in later states, for as long as this lives; see
/// [`Table::follow`](super::Table::follow).
#[derive(Debug)]
pub struct Followed {
    pub(super) state: Arc<TableState>,
    pub(super) following: Following,
}

impl Followed {
    /// Returns the state.
    pub fn state(&self) -> &Arc<TableState> {
        &self.state
    }

    /// Returns where rows of the state are in a later one. Rows that others deleted are left out if they are gone, and
    /// kept if they are still marked as deleted.
    ///
    /// `None` if rows are gone for another reason than a merge of this process, such as TRUNCATE, if a merge made one
    /// row of them and of others, or if so many merges happened since that the first are forgotten.
    ///
    /// `rows` may also be what an earlier call returned.
    pub async fn rows(&self, rows: &Deletes, later: &Arc<TableState>) -> Option<Deletes> {
        if rows.keys().all(|id| later.segment(*id).is_some()) {
            return Some(rows.clone());
        }
        let merges: Vec<Arc<Merge>> =
            self.following.moves.0.lock().merges.iter().map(|m| Arc::clone(&m.merge)).collect();
        let (rows, later) = (rows.clone(), Arc::clone(later));
        match spawn_blocking(move || moved(rows, &merges, &later)).await {
            Ok(moved) => moved,
            Err(e) => e.try_into_panic().map_or(None, |panic| std::panic::resume_unwind(panic)),
        }
    }
}

/// Returns where rows are in a later state, after these merges.
fn moved(rows: Deletes, merges: &[Arc<Merge>], later: &TableState) -> Option<Deletes> {
    let is_there = |id| later.segment(id).is_some();
    let (mut found, mut gone): (Deletes, Deletes) = rows.into_iter().partition(|(id, _)| is_there(*id));
    for (at, merge) in merges.iter().enumerate() {
        if gone.is_empty() {
            break;
        }
        if !gone.keys().any(|id| merge.inputs.contains(id)) || !merge.led_to(later, &merges[at + 1..]) {
            continue;
        }
        let (of_merge, others): (Deletes, Deletes) = gone.into_iter().partition(|(id, _)| merge.inputs.contains(id));
        gone = others;
        let (there, further) = (merge.carry)(of_merge)?.into_iter().partition(|(id, _)| is_there(*id));
        union(&mut found, there);
        union(&mut gone, further);
    }
    gone.is_empty().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::TxnId;
    use crate::table::data::ObjectId;

    fn segment(index: u32) -> SegmentId {
        SegmentId { object: ObjectId { txn: TxnId::default(), index }, ordinal: 0 }
    }

    fn moving(moves: &Arc<Moves>, input: u32, bytes: u64) -> Moving {
        moves.moving([segment(input)], [segment(input + 100)], bytes, Box::new(|_| None))
    }

    /// The inputs of the merges that are known.
    fn known(moves: &Moves) -> Vec<u32> {
        let kept = moves.0.lock();
        assert_eq!(kept.bytes, kept.merges.iter().map(|m| m.bytes).sum::<u64>());
        kept.merges.iter().flat_map(|m| m.merge.inputs.iter().map(|id| id.object.index)).collect()
    }

    #[test]
    fn merges_are_kept_while_a_transaction_needs_them() {
        let moves = Arc::new(Moves::default());
        drop(moving(&moves, 1, 1));
        assert_eq!(known(&moves), [0; 0], "no transaction is open");
        let (two, three) = (moving(&moves, 2, 1), moving(&moves, 3, 1));
        let first = moves.follow();
        drop(two);
        three.refused();
        assert_eq!(known(&moves), [2], "the merge ended after the transaction began");
        let second = moves.follow();
        drop(moving(&moves, 4, 1));
        drop(first);
        assert_eq!(known(&moves), [4]);
        // The outcome of the first may be unknown: 4 was perhaps read before its merge was seen.
        drop(moves.moving([segment(4), segment(5)], [], 1, Box::new(|_| None)));
        let mut inputs = known(&moves);
        inputs.sort_unstable();
        assert_eq!(inputs, [4, 4, 5]);
        drop(second);
        assert_eq!(known(&moves), [0; 0]);
    }

    #[test]
    fn a_transaction_without_end_does_not_fill_the_memory() {
        let moves = Arc::new(Moves::default());
        let _open = moves.follow();
        let late = moving(&moves, 0, KEPT_BYTES / 2);
        for input in 1..10 {
            drop(moving(&moves, input, KEPT_BYTES / 4));
        }
        assert_eq!(known(&moves), [0, 8, 9], "the oldest are forgotten, but not one that is under way");
        drop(late);
        drop(moving(&moves, 10, KEPT_BYTES / 4));
        assert_eq!(known(&moves), [8, 9, 10]);
    }
}
