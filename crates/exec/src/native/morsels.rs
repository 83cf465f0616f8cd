//! The queue from which the workers of a scan take row groups.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use dipper_store::table::data::Tablet;

use super::scan::NativeScanSpec;

/// A row group: the index of the segment in the scan, and of the row group in the segment.
pub(super) type Morsel = (u32, u32);

/// How row groups are shared among workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Split {
    /// Each row group is a task of its own.
    Groups,
    /// All row groups of a tablet are one task.
    Tablets,
    /// All row groups are one task, which ends with the segment that has the row with this number. For scans of few
    /// rows.
    First(u64),
}

/// Row groups that are still to be read, shared by the partitions of a scan.
#[derive(Debug)]
pub(super) struct Morsels {
    tasks: Vec<Vec<Morsel>>,
    next: AtomicUsize,
    /// Rows handed out so far, for LIMIT.
    pub(super) rows: AtomicU64,
}

impl Morsels {
    pub(super) fn new(spec: &NativeScanSpec, split: Split) -> Self {
        let groups = |i: usize| (0..spec.segments[i].described().groups).map(move |g| (i as u32, g));
        let all = 0..spec.segments.len();
        let tasks = match split {
            Split::Groups => all.flat_map(groups).map(|m| vec![m]).collect(),
            Split::Tablets => {
                let mut tablets: Vec<(Tablet, Vec<Morsel>)> = Vec::new();
                for i in all {
                    let tablet = spec.segments[i].described().tablet;
                    match tablets.iter_mut().find(|(t, _)| *t == tablet) {
                        Some((_, morsels)) => morsels.extend(groups(i)),
                        None => tablets.push((tablet, groups(i).collect())),
                    }
                }
                tablets.into_iter().map(|(_, morsels)| morsels).collect()
            }
            Split::First(rows) => {
                // The smallest segment that holds all wanted rows; if none does, the first segments that hold them
                // together.
                let bytes = |i: &usize| spec.segments[*i].described().bytes;
                let one = all.clone().filter(|i| spec.segments[*i].live_rows() >= rows).min_by_key(bytes);
                let mut found = 0;
                let segments: Vec<usize> = match one {
                    Some(i) => vec![i],
                    None => all
                        .take_while(|i| {
                            let more = found < rows;
                            found += spec.segments[*i].live_rows();
                            more
                        })
                        .collect(),
                };
                vec![segments.into_iter().flat_map(groups).collect()]
            }
        };
        assert!(tasks.iter().all(|task: &Vec<Morsel>| task.is_sorted()), "a task reads older segments first");
        Morsels { tasks, next: AtomicUsize::new(0), rows: AtomicU64::new(0) }
    }

    /// Number of tasks, and so of workers that would have something to do.
    pub(super) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// Number of row groups in all tasks.
    pub(super) fn groups(&self) -> usize {
        self.tasks.iter().map(Vec::len).sum()
    }

    pub(super) fn take(&self) -> Option<VecDeque<Morsel>> {
        let task = self.tasks.get(self.next.fetch_add(1, Ordering::Relaxed))?;
        Some(task.iter().copied().collect())
    }
}
