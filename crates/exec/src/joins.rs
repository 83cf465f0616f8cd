//! How large the collected side of a hash join may be.
//!
//! A hash join either collects its smaller side once for all workers, or divides both sides among them by hash. The
//! collected side is put into its table by one worker while the others wait. Dividing moves every row of both sides
//! from worker to worker, and the filter that the other side's scan learns has to find out for each row whose table is
//! meant. So the more workers wait, the smaller the collected side should be. On two cores TPC-H takes 1.45 times the
//! processor time with divided sides as with collected ones.

use datafusion::config::ConfigOptions;

/// Rows that a single other worker may wait for. They shrink with the square of the number of workers: more of them
/// wait, and each of them would have less to move.
const ROWS: usize = 16 << 20;
/// Rows that may be collected for any number of workers.
const ROWS_MIN: usize = 128 << 10;
/// Bytes of a row, where the size of a side is only known in bytes.
const ROW_BYTES: usize = 64;
/// Range of integer keys for which a table has a slot for each number: 4 bytes each, which fit into a core's own cache.
const SLOTS: usize = 256 << 10;

/// Returns the most rows of the collected side of a join for that many workers.
fn collected_rows(workers: usize) -> usize {
    (ROWS / workers.max(1).saturating_pow(2)).max(ROWS_MIN)
}

/// Sets what DataFusion's planner decides by.
pub fn configure(options: &mut ConfigOptions, workers: usize) {
    let rows = collected_rows(workers);
    options.optimizer.hash_join_single_partition_threshold_rows = rows;
    options.optimizer.hash_join_single_partition_threshold = rows * ROW_BYTES;
    options.execution.perfect_hash_join_small_build_threshold = SLOTS;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_workers_collect_less() {
        assert_eq!(
            [1, 2, 4, 8, 64, 4096].map(collected_rows),
            [16 << 20, 4 << 20, 1 << 20, 256 << 10, ROWS_MIN, ROWS_MIN]
        );
    }
}
