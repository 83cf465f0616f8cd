//! Policy of compaction: which segments are merged, and when.
//!
//! The segments of a tablet form a sequence. If the order of rows decides values (AGGREGATE, UNIQUE with a sequence
//! column) they are ordered by age, and only neighbours are merged; otherwise they are ordered by size. From the small
//! or new end a window grows by its next neighbour as long as that is not larger than [`Policy::ratio`] times all
//! before it. So the sizes of remaining segments grow threefold from one to the next, and every rewrite of a row goes
//! into a segment at least half as large again. A window of [`Policy::runs_min`] segments is merged. With the defaults
//! a tablet has at most about 7 waiting segments and one for each factor of three from 64 KiB to 512 MiB, 16 together;
//! larger ones are left alone.
//!
//! Apart from that, a segment is rewritten when [`Policy::deleted_share`] of its rows are deleted.

use std::collections::{BTreeMap, HashSet};

use super::job::SLICE_ROWS;
use crate::table::data::{SegmentId, Tablet};
use crate::table::schema::{Model, PartitionId, TableSchema};
use crate::table::{SegmentRef, TableState};

/// Limits that decide when segments are merged.
#[derive(Debug, Clone)]
pub struct Policy {
    /// Fewest segments that are worth a merge.
    pub runs_min: usize,
    /// A window takes in a segment up to this many times its own size.
    pub ratio: u64,
    /// Segments with fewer bytes are always taken in, because their cost does not depend on their bytes.
    pub bytes_min: u64,
    /// Segments of at least this many bytes are not merged.
    pub full_bytes: u64,
    /// Segments of at least this many rows are not merged. An output is cut at twice as many.
    pub full_rows: u64,
    /// Share of deleted rows from which on a segment is rewritten.
    pub deleted_share: f64,
    /// If a tablet has more segments than this, not counting full ones, some are merged even against `ratio`.
    pub segments_max: usize,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            runs_min: 8,
            ratio: 2,
            bytes_min: 64 << 10,
            full_bytes: 512 << 20,
            full_rows: 8 << 20,
            deleted_share: 0.3,
            segments_max: 20,
        }
    }
}

impl Policy {
    /// Returns a policy that makes one segment without deleted rows of each tablet, as far as memory allows, leaving
    /// full segments alone.
    pub fn full(&self) -> Self {
        Self { runs_min: 2, ratio: u64::MAX, deleted_share: 0.0, ..self.clone() }
    }
}

/// Segments of a tablet that are to be merged in one commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pick {
    pub tablet: Tablet,
    /// Windows of which each becomes one segment; the oldest window first, and the oldest segment first in each.
    pub windows: Vec<Vec<SegmentId>>,
    /// Bytes of the inputs, without deleted rows.
    pub bytes: u64,
}

impl Pick {
    pub fn inputs(&self) -> impl Iterator<Item = SegmentId> {
        self.windows.iter().flatten().copied()
    }
}

/// Limits of a merge.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub runs: usize,
    /// Bytes of a merge's inputs that are in memory at a time.
    pub memory: u64,
    /// Bytes of a merge's inputs, if there are enough inputs to be worth a merge.
    pub bytes: u64,
}

/// A segment, as the policy sees it.
#[derive(Debug, Clone, Copy)]
struct Piece {
    id: SegmentId,
    seq: u64,
    rows: u64,
    deleted: u64,
    /// Bytes of the rows that are not deleted.
    bytes: u64,
    /// Bytes of the segment that a merge has in memory.
    memory: u64,
    /// Whether it is the output of a compaction.
    merged: bool,
    /// Whether it is an input of a merge that is under way.
    busy: bool,
}

/// Returns the merges that a table needs, small ones first. `busy` segments are left alone, and so are partitions other
/// than `partitions`, if these are given.
pub(super) fn plan(
    state: &TableState,
    policy: &Policy,
    limits: Limits,
    busy: &HashSet<SegmentId>,
    partitions: Option<&[PartitionId]>,
) -> Vec<Pick> {
    let mut tablets: BTreeMap<Tablet, Vec<Piece>> = BTreeMap::new();
    for s in state.all_segments() {
        let tablet = s.segment.tablet;
        if partitions.is_none_or(|p| p.contains(&tablet.partition)) {
            tablets.entry(tablet).or_default().push(piece(s, busy.contains(&s.id)));
        }
    }
    let schema = state.schema();
    let mut picks = Vec::new();
    for (tablet, pieces) in tablets {
        plan_tablet(schema, policy, limits, tablet, pieces, &mut picks);
    }
    picks.sort_by_key(|p| p.bytes);
    let mut seen = HashSet::new();
    assert!(
        picks.iter().flat_map(Pick::inputs).all(|id| seen.insert(id) && !busy.contains(&id)),
        "a segment is in one merge at a time"
    );
    picks
}

fn piece(s: SegmentRef<'_>, busy: bool) -> Piece {
    let rows = u64::from(s.segment.rows);
    let bytes = s.segment.bytes as u128 * u128::from(s.live_rows()) / u128::from(rows.max(1));
    Piece {
        id: s.id,
        seq: s.seq,
        rows,
        deleted: s.deleted_rows(),
        bytes: bytes as u64,
        memory: s.segment.bytes * rows.min(SLICE_ROWS as u64) / rows.max(1),
        merged: s.added > s.seq,
        busy,
    }
}

/// Returns whether the order of rows with equal keys decides the result.
fn is_ordered(schema: &TableSchema) -> bool {
    match schema.model {
        Model::Duplicate => false,
        Model::Unique => schema.sequence.is_some(),
        Model::Aggregate => true,
    }
}

fn plan_tablet(
    schema: &TableSchema,
    policy: &Policy,
    limits: Limits,
    tablet: Tablet,
    mut pieces: Vec<Piece>,
    picks: &mut Vec<Pick>,
) {
    let ordered = is_ordered(schema);
    pieces.sort_by_key(|p| if ordered { (0, p.seq, p.id) } else { (u64::MAX - p.bytes, p.seq, p.id) });
    let is_full = |p: &Piece| p.busy || p.bytes >= policy.full_bytes || p.rows - p.deleted >= policy.full_rows;
    let is_large = |p: &Piece, others: u64| p.bytes > others.saturating_mul(policy.ratio).max(policy.bytes_min);
    let mut pick = |window: &[Piece], linked: bool| {
        assert!(!window.is_empty() && window.iter().all(|p| !p.busy || p.deleted == p.rows), "a merge has free inputs");
        let mut window = window.to_vec();
        window.sort_by_key(|p| (p.seq, p.id));
        if !linked {
            picks.push(Pick { tablet, windows: Vec::new(), bytes: 0 });
        }
        let pick = picks.last_mut().expect("linked ones follow another");
        pick.bytes += window.iter().map(|p| p.bytes).sum::<u64>();
        pick.windows.insert(0, window.iter().map(|p| p.id).collect());
    };
    // An output takes the age of its newest input, and a name that is newer than all. If other segments of that age
    // came after it, it would overtake them, unless they are merged by the same commit, whose outputs are named in
    // their order.
    let splits_age =
        |pieces: &[Piece], end: usize| ordered && end < pieces.len() && pieces[end - 1].seq == pieces[end].seq;

    let mut end = pieces.len();
    let mut picked = false;
    // Set if the last window was cut at `end` for lack of memory, and was picked.
    let mut cut = false;
    while end > 0 {
        let linked = cut && splits_age(&pieces, end);
        if is_full(&pieces[end - 1]) || splits_age(&pieces, end) && !linked {
            (cut, end) = (false, end - 1);
            continue;
        }
        let mut start = end - 1;
        let (mut sum, mut memory) = (pieces[start].bytes, pieces[start].memory);
        let mut limited = false;
        while start > 0 {
            let next = &pieces[start - 1];
            if is_full(next) || is_large(next, sum) {
                break;
            }
            // Two segments are always merged, so that large row groups do not stop everything.
            let fits = memory + next.memory <= limits.memory && end - start < limits.runs;
            let is_enough = end - start >= policy.runs_min && sum + next.bytes > limits.bytes;
            if is_enough || !fits && end - start >= 2 {
                limited = true;
                break;
            }
            start -= 1;
            sum += next.bytes;
            memory += next.memory;
        }
        // A large segment is not rewritten for the sake of small ones that are older.
        let newest = end;
        while end - start > 1 && is_large(&pieces[end - 1], sum - pieces[end - 1].bytes) {
            end -= 1;
            sum -= pieces[end].bytes;
        }
        let worth = if limited || linked { 2 } else { policy.runs_min.max(2) };
        cut = end - start >= worth && (!splits_age(&pieces, end) || linked && end == newest);
        if cut {
            pick(&pieces[start..end], linked);
            picked = true;
            pieces[start..end].iter_mut().for_each(|p| p.busy = true);
        }
        end = start;
    }
    if !picked && pieces.iter().filter(|p| !is_full(p)).count() > policy.segments_max {
        let cost = |w: &[Piece]| w.iter().map(|p| p.bytes).sum::<u64>();
        let runs = policy.runs_min.min(limits.runs).max(2);
        let free = (0..=pieces.len().saturating_sub(runs))
            .filter(|at| !pieces[*at..at + runs].iter().any(is_full))
            .filter(|at| !splits_age(&pieces, at + runs));
        if let Some(at) = free.min_by_key(|at| cost(&pieces[*at..at + runs])) {
            pick(&pieces[at..at + runs], false);
            pieces[at..at + runs].iter_mut().for_each(|p| p.busy = true);
        }
    }
    // No rows of them are left, so neither order nor number matters.
    let is_dead = |p: &&mut Piece| p.deleted == p.rows && !p.busy && schema.sequence.is_none();
    let mut dead = Vec::new();
    for p in pieces.iter_mut().filter(is_dead) {
        p.busy = true;
        dead.push(*p);
    }
    if !dead.is_empty() {
        pick(&dead, false);
    }
    for i in 0..pieces.len() {
        let p = pieces[i];
        // With a sequence column deleted rows stay if they are the newest of their key, again and again. Only a segment
        // that a load wrote is sure to become smaller.
        let shrinks = schema.model != Model::Unique || schema.sequence.is_none() || !p.merged;
        let many = p.deleted > 0 && p.deleted as f64 >= policy.deleted_share * p.rows as f64;
        if many && shrinks && !p.busy && !splits_age(&pieces, i + 1) {
            pick(&pieces[i..=i], false);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;
    use crate::chain::TxnId;
    use crate::table::data::ObjectId;

    const TABLET: Tablet = Tablet { partition: 0, bucket: 0 };
    const LIMITS: Limits = Limits { runs: 256, memory: 64 << 20, bytes: u64::MAX };

    fn schema(model: Model, sequence: Option<u32>) -> TableSchema {
        TableSchema { sequence, buckets: None, ..TableSchema::new(model, Vec::new(), 0) }
    }

    fn id(n: u64) -> SegmentId {
        SegmentId { object: ObjectId { txn: TxnId(n.into()), index: 0 }, ordinal: 0 }
    }

    fn loaded(n: u64, seq: u64, bytes: u64) -> Piece {
        let rows = (bytes / 100).max(1);
        Piece { id: id(n), seq, rows, deleted: 0, bytes, memory: bytes.min(4 << 20), merged: false, busy: false }
    }

    fn picks(schema: &TableSchema, policy: &Policy, pieces: &[Piece]) -> Vec<Vec<u64>> {
        picks_within(LIMITS, schema, policy, pieces)
    }

    fn picks_within(limits: Limits, schema: &TableSchema, policy: &Policy, pieces: &[Piece]) -> Vec<Vec<u64>> {
        let mut picks = Vec::new();
        plan_tablet(schema, policy, limits, TABLET, pieces.to_vec(), &mut picks);
        picks.iter().map(|p| p.inputs().map(|id| id.object.txn.0 as u64).collect()).collect()
    }

    /// A backlog is merged piece by piece, so that it never becomes a large merge.
    #[test]
    fn windows_end_at_their_bytes_when_they_are_long_enough() {
        let (policy, schema) = (Policy::default(), schema(Model::Duplicate, None));
        let pieces: Vec<Piece> = (0..20).map(|n| loaded(n, n, 200_000)).collect();
        let lengths = |bytes| {
            let found = picks_within(Limits { bytes, ..LIMITS }, &schema, &policy, &pieces);
            found.iter().map(Vec::len).collect::<Vec<_>>()
        };
        assert_eq!(lengths(u64::MAX), [20]);
        assert_eq!(lengths(2_000_000), [10, 10]);
        assert_eq!(lengths(1_000_000), [policy.runs_min, policy.runs_min], "but not before they are worth it");
    }

    /// Simulates loads and merges in turn. Returns the bytes written per byte loaded, and the most segments that
    /// remained.
    fn simulate(
        seed: u64,
        schema: &TableSchema,
        loads: usize,
        load: impl Fn(&mut StdRng) -> (usize, u64),
    ) -> (f64, usize) {
        let mut rng = StdRng::seed_from_u64(seed);
        let policy = Policy::default();
        let (mut pieces, mut next) = (Vec::<Piece>::new(), 0);
        let (mut bytes_in, mut bytes_out, mut most) = (0, 0, 0);
        for seq in 0..loads as u64 {
            let (segments, bytes) = load(&mut rng);
            for _ in 0..segments {
                next += 1;
                pieces.push(loaded(next, seq, bytes));
                bytes_in += bytes;
            }
            if rng.random_bool(0.9) {
                continue;
            }
            loop {
                let mut picked = Vec::new();
                plan_tablet(schema, &policy, LIMITS, TABLET, pieces.clone(), &mut picked);
                if picked.is_empty() {
                    break;
                }
                for pick in picked {
                    let mut outputs = Vec::new();
                    for window in &pick.windows {
                        let inputs: Vec<Piece> = pieces.extract_if(.., |p| window.contains(&p.id)).collect();
                        assert_eq!(inputs.len(), window.len(), "picked twice");
                        next += 1;
                        let seq = inputs.iter().map(|p| p.seq).max().unwrap();
                        // Outputs keep the order of all rows: no segment was between these inputs, and the segments
                        // that come after the output came after them before.
                        let ages = || inputs.iter().map(|p| (p.seq, p.id));
                        let (low, high) = (ages().min().unwrap(), ages().max().unwrap());
                        let later = pick.windows.iter().flatten().collect::<Vec<_>>();
                        let wrong = |p: &&Piece| {
                            let age = (p.seq, p.id);
                            age > low && age < high || age > high && p.seq == seq && !later.contains(&&p.id)
                        };
                        assert!(!is_ordered(schema) || !pieces.iter().any(|p| wrong(&p)), "{window:?}");
                        let bytes = inputs.iter().map(|p| p.bytes).sum();
                        outputs.push(Piece { merged: true, ..loaded(next, seq, bytes) });
                        bytes_out += bytes;
                    }
                    pieces.extend(outputs);
                }
            }
            most = most.max(pieces.iter().filter(|p| p.bytes < policy.full_bytes).count());
        }
        (bytes_out as f64 / bytes_in as f64, most)
    }

    #[test]
    fn segments_stay_few_and_rows_are_rarely_rewritten() {
        for (model, sequence) in [(Model::Duplicate, None), (Model::Unique, Some(1)), (Model::Aggregate, None)] {
            let schema = schema(model, sequence);
            for seed in 0..4 {
                for (what, rewrites, result) in [
                    ("small", 10.0, simulate(seed, &schema, 20_000, |_| (1, 10 << 10))),
                    ("mixed", 10.0, simulate(seed, &schema, 5_000, |r| (1, 1 << r.random_range(8..24)))),
                    ("large", 4.0, simulate(seed, &schema, 60, |r| (r.random_range(1..200), 6 << 20))),
                ] {
                    let (amplification, most) = result;
                    assert!(most <= 20, "{model:?}, {what}: {most} segments");
                    assert!(amplification < rewrites, "{model:?}, {what}: written {amplification} times");
                }
            }
        }
    }

    #[test]
    fn what_is_left_alone() {
        let policy = Policy { runs_min: 3, ..Policy::default() };
        let aggregate = schema(Model::Aggregate, None);
        let big = 1 << 20;
        // A much larger neighbour stops a window by age, but not one by size.
        let pieces = [loaded(1, 1, 10), loaded(2, 2, 10), loaded(3, 3, big), loaded(4, 4, 10)];
        assert_eq!(picks(&aggregate, &policy, &pieces), Vec::<Vec<u64>>::new());
        assert_eq!(picks(&schema(Model::Duplicate, None), &policy, &pieces), [[1, 2, 4]]);
        // Busy segments, and full ones.
        let mut pieces: Vec<Piece> = (1..=7).map(|n| loaded(n, n, 10)).collect();
        pieces[3].busy = true;
        assert_eq!(picks(&aggregate, &policy, &pieces), [[5, 6, 7], [1, 2, 3]]);
        pieces[3] = loaded(4, 4, policy.full_bytes);
        assert_eq!(picks(&aggregate, &policy, &pieces), [[5, 6, 7], [1, 2, 3]]);
        // Segments of one load are not cut at their newer end.
        let mut pieces: Vec<Piece> = (1..=7).map(|n| loaded(n, 1, 10)).collect();
        pieces[6].busy = true;
        assert_eq!(picks(&aggregate, &policy, &pieces), Vec::<Vec<u64>>::new());
        assert_eq!(picks(&schema(Model::Unique, None), &policy, &pieces), [[1, 2, 3, 4, 5, 6]]);
    }

    #[test]
    fn deleted_rows_are_reason_enough() {
        let unique = schema(Model::Unique, None);
        let sequenced = schema(Model::Unique, Some(1));
        let mut pieces = [loaded(1, 1, 1 << 30), loaded(2, 2, 1 << 30)];
        pieces[0].deleted = pieces[0].rows / 3;
        pieces[1].deleted = pieces[1].rows / 4;
        assert_eq!(picks(&unique, &Policy::default(), &pieces), [[1]]);
        assert_eq!(picks(&sequenced, &Policy::default(), &pieces), [[1]]);
        assert_eq!(picks(&unique, &Policy::default().full(), &pieces), [[1], [2]]);
        pieces[0].merged = true;
        assert_eq!(picks(&unique, &Policy::default(), &pieces), [[1]]);
        assert_eq!(picks(&sequenced, &Policy::default(), &pieces), Vec::<Vec<u64>>::new());
    }
}
