//! The queue of a scan of Parquet files: row groups, and parts of large ones.

use std::sync::atomic::{AtomicU64, AtomicUsize};

use super::parquet::ParquetScanSpec;

/// Rows of a morsel. A row group of at least twice as many rows is split if it has a page index.
const MORSEL_ROWS: usize = 128 << 10;

/// Rows of one row group of a file.
#[derive(Debug, Clone, Copy)]
pub struct FileMorsel {
    pub(super) file: u32,
    pub(super) group: u32,
    /// First row, and the one after the last; `None` for all rows.
    pub(super) rows: Option<(u32, u32)>,
}

/// The morsels of a scan; all partitions drain it.
#[derive(Debug)]
pub(super) struct Queue {
    pub(super) tasks: Vec<Vec<FileMorsel>>,
    pub(super) next: AtomicUsize,
    /// Rows handed out, for LIMIT.
    pub(super) rows: AtomicU64,
}

impl Queue {
    /// Makes the queue. `few` is the LIMIT of a scan that reads only the first rows: then there is one task, which ends
    /// with the row group that completes them.
    pub(super) fn new(spec: &ParquetScanSpec, few: Option<usize>) -> Self {
        let mut all = Vec::new();
        for (file, i) in spec.files.iter().zip(0..) {
            for group in 0..file.reader.num_groups() {
                let rows = file.reader.group_rows(group);
                let whole = FileMorsel { file: i, group: group as u32, rows: None };
                if rows == 0 {
                    continue;
                }
                if few.is_some() || rows < 2 * MORSEL_ROWS || !file.reader.has_page_index(group) {
                    all.push(whole);
                    continue;
                }
                for start in (0..rows).step_by(MORSEL_ROWS) {
                    let end = (start + MORSEL_ROWS).min(rows);
                    all.push(FileMorsel { rows: Some((start as u32, end as u32)), ..whole });
                }
            }
        }
        let tasks = match few {
            None => all.into_iter().map(|morsel| vec![morsel]).collect(),
            Some(wanted) => {
                let mut found = 0;
                let enough = all.into_iter().take_while(|morsel| {
                    let (more, group) = (found < wanted, morsel.group as usize);
                    let file = &spec.files[morsel.file as usize];
                    found += file.reader.group_rows(group) - file.deleted_in(group).count();
                    more
                });
                vec![enough.collect()]
            }
        };
        let ordered = |task: &[FileMorsel]| {
            task.windows(2).all(|pair| (pair[0].file, pair[0].group) < (pair[1].file, pair[1].group))
        };
        assert!(tasks.iter().all(|task| task.len() < 2 || ordered(task)), "a task goes through its files in order");
        Queue { tasks, next: AtomicUsize::new(0), rows: AtomicU64::new(0) }
    }
}
