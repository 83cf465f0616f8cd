//! Estimates, before a plan runs, how many rows and bytes it reads and how many pairs its joins compare.

use std::sync::Arc;

use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::source::DataSourceExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, NestedLoopJoinExec, PiecewiseMergeJoinExec, SortMergeJoinExec, SymmetricHashJoinExec,
};
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::unnest::UnnestExec;

use crate::native::NativeScanExec;

/// How long a statement is expected to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A few keys or a few rows: it ends before another statement could wait for it.
    Tiny,
    /// About 50 ms of one core.
    Short,
    /// Longer than that, or unknown.
    Long,
}

impl Class {
    /// Returns the class of a plan, from the rows that it reads and the pairs that its joins compare.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        match rows_at_most(plan) {
            Some(rows) if rows <= TINY_ROWS => Class::Tiny,
            Some(rows) if rows <= SHORT_ROWS => Class::Short,
            _ => Class::Long,
        }
    }
}

/// Returns whether a plan reads files or segments, and not only rows in memory.
pub fn reads_tables(plan: &Arc<dyn ExecutionPlan>) -> bool {
    let children = plan.children();
    if !children.is_empty() {
        return children.into_iter().any(reads_tables);
    }
    let in_memory = plan
        .downcast_ref::<DataSourceExec>()
        .is_some_and(|source| source.data_source().downcast_ref::<MemorySourceConfig>().is_some());
    !in_memory && !plan.is::<PlaceholderRowExec>() && !plan.is::<EmptyExec>()
}

/// The largest number of rows that a tiny plan reads and compares.
const TINY_ROWS: u64 = 1 << 14;
/// The largest number of rows that a short plan reads and compares.
const SHORT_ROWS: u64 = 1 << 20;
/// The largest number of stored bytes that a tiny or short plan reads.
const SHORT_BYTES: u64 = 64 << 20;

/// Returns the largest number of rows that any part of a plan can handle. `None` if it is unknown, or if a leaf reads
/// more than [`SHORT_BYTES`].
fn rows_at_most(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let children = plan.children();
    if children.is_empty() {
        return rows_of_leaf(plan);
    }
    // These operators can produce any number of rows.
    if plan.is::<UnnestExec>() || plan.is::<RecursiveQueryExec>() {
        return None;
    }
    let joins = plan.is::<CrossJoinExec>()
        || plan.is::<NestedLoopJoinExec>()
        || plan.is::<HashJoinExec>()
        || plan.is::<SortMergeJoinExec>()
        || plan.is::<SymmetricHashJoinExec>()
        || plan.is::<PiecewiseMergeJoinExec>();
    let mut rows = u64::from(joins);
    for child in children {
        let of_child = rows_at_most(child)?;
        rows = if joins { rows.saturating_mul(of_child.max(1)) } else { rows.saturating_add(of_child) };
    }
    Some(rows)
}

fn rows_of_leaf(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    if plan.is::<PlaceholderRowExec>() || plan.is::<EmptyExec>() {
        return Some(1);
    }
    if let Some(scan) = plan.downcast_ref::<NativeScanExec>() {
        let (rows, bytes) = scan.read_at_most();
        return Some(rows).filter(|_| bytes <= SHORT_BYTES);
    }
    let known = plan.statistics_from_inputs(&[], &StatisticsArgs::new()).ok()?;
    let rows = *known.num_rows.get_value()? as u64;
    // Rows in memory have no stored size.
    let bytes = known.total_byte_size.get_value().map_or(0, |bytes| *bytes as u64);
    Some(rows).filter(|_| bytes <= SHORT_BYTES)
}
