//! How much a plan reads and compares, as far as that is known before the plan runs.

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

/// How long a statement will run, as far as that is known beforehand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// A few keys, a few rows: over before another could wait for it.
    Tiny,
    /// Some 50 ms of one core.
    Short,
    /// Longer, or not known.
    Long,
}

impl Class {
    /// The class of a plan: by the rows that it reads, and the pairs of its joins.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Self {
        match rows_at_most(plan) {
            Some(rows) if rows <= TINY_ROWS => Class::Tiny,
            Some(rows) if rows <= SHORT_ROWS => Class::Short,
            _ => Class::Long,
        }
    }
}

/// Whether a plan reads files or segments, and not only what is in memory.
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

/// Rows that a tiny plan reads and compares at most.
const TINY_ROWS: u64 = 1 << 14;
/// Rows that a short plan reads and compares at most.
const SHORT_ROWS: u64 = 1 << 20;
/// Bytes that it reads at most, as they are stored.
const SHORT_BYTES: u64 = 64 << 20;

/// Rows that a plan handles at most in any of its parts. `None`: it is not known, or the bytes are many.
fn rows_at_most(plan: &Arc<dyn ExecutionPlan>) -> Option<u64> {
    let children = plan.children();
    if children.is_empty() {
        return rows_of_leaf(plan);
    }
    // These make any number of rows.
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
