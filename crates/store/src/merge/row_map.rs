//! Record of where the rows of merged runs went.

use roaring::RoaringBitmap;

/// Maps each row of each run to the row of the output that it became or was merged into.
///
/// Each run keeps its order, so two sets are enough: the rows that begin an output row, and these output rows. Memory: at
/// worst about two bytes a row, next to nothing where runs do not interleave.
#[derive(Debug, Clone, Default)]
pub struct RowMap {
    runs: Vec<RunMap>,
    /// Number of rows of the output.
    rows: u32,
    /// Whether rows between two heads were merged into the first one's output row; otherwise they were dropped.
    merges: bool,
}

#[derive(Debug, Clone, Default)]
struct RunMap {
    /// Rows of the run that are the run's first in their output row.
    heads: RoaringBitmap,
    /// Output rows; the n-th belongs to the n-th head.
    outputs: RoaringBitmap,
    /// Number of rows of the run up to the last one seen.
    rows: u32,
}

impl RowMap {
    pub(super) fn new(runs: usize, merges: bool) -> Self {
        Self { runs: vec![RunMap::default(); runs], rows: 0, merges }
    }

    /// Returns the number of output rows so far.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Records that `len` rows of a run from `row` on became the output rows from `output` on.
    pub(super) fn copied(&mut self, run: usize, row: u32, output: u32, len: u32) {
        let run = &mut self.runs[run];
        assert!(run.rows <= row, "the rows of a run keep their order");
        run.heads.insert_range(row..row + len);
        run.outputs.insert_range(output..output + len);
        run.rows = row + len;
    }

    /// Records that a row of a run was merged into an output row.
    pub(super) fn merged(&mut self, run: usize, row: u32, output: u32) {
        let run = &mut self.runs[run];
        if run.outputs.insert(output) {
            run.heads.insert(row);
        }
        run.rows = row + 1;
    }

    /// Returns the approximate memory of the map.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| (run.heads.serialized_size() + run.outputs.serialized_size()) as u64).sum()
    }

    pub(super) fn advance(&mut self, outputs: u32) {
        self.rows += outputs;
    }

    /// Reopens the last output row: more rows will be merged into it.
    pub(super) fn reopen_last(&mut self) {
        assert!(self.rows > 0, "an output row is there to be reopened");
        self.rows -= 1;
    }

    /// Returns the output rows to delete when these rows of the runs are deleted: one set for each run, in the
    /// numbering of the merge's input. `None` if only some of the rows that were merged into one are deleted, because
    /// no row holds the remaining value.
    ///
    /// # Panics
    /// If the number of sets differs from that of runs.
    pub fn translate(&self, deleted: &[RoaringBitmap]) -> Option<RoaringBitmap> {
        assert_eq!(deleted.len(), self.runs.len(), "one set of rows for each run");
        assert!(
            self.runs.iter().all(|run| run.heads.len() == run.outputs.len()),
            "each first row of a run in an output row has that output row"
        );
        let mut outputs = RoaringBitmap::new();
        for (run, rows) in self.runs.iter().zip(deleted) {
            for row in rows {
                if !self.merges && !run.heads.contains(row) {
                    continue;
                }
                let nth = run.heads.rank(row).checked_sub(1).and_then(|n| u32::try_from(n).ok());
                outputs.extend(nth.and_then(|n| run.outputs.select(n)));
            }
        }
        let whole = |output: u32| self.runs.iter().zip(deleted).all(|(run, rows)| run.is_gone(output, rows));
        (!self.merges || outputs.iter().all(whole)).then_some(outputs)
    }
}

impl RunMap {
    /// Returns whether all rows that were merged into an output row are among `rows`.
    fn is_gone(&self, output: u32, rows: &RoaringBitmap) -> bool {
        if !self.outputs.contains(output) {
            return true;
        }
        let nth = (self.outputs.rank(output) - 1) as u32;
        let first = self.heads.select(nth).unwrap_or(self.rows);
        let end = self.heads.select(nth + 1).unwrap_or(self.rows);
        rows.contains_range(first..end)
    }
}
