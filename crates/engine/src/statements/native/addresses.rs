//! Addresses of the rows that a statement changes.

use arrow::array::AsArray;
use arrow::datatypes::UInt32Type;
use arrow::record_batch::RecordBatch;
use dipper_exec::native::by_age;
use dipper_store::table::data::{Rows, SegmentId};
use dipper_store::table::{Deletes, TableState};
use roaring::RoaringBitmap;

/// Addresses of rows, collected from batches. A row that is found twice counts once.
pub(super) struct Addresses {
    ids: Vec<SegmentId>,
    rows: Vec<RoaringBitmap>,
}

impl Addresses {
    pub(super) fn new(state: &TableState) -> Self {
        let ids: Vec<_> = by_age(state).iter().map(|s| s.id).collect();
        Addresses { rows: vec![RoaringBitmap::new(); ids.len()], ids }
    }

    /// Adds the addresses in the columns `at` (segments) and `at + 1` (rows). Returns for each row whether it is new.
    pub(super) fn add(&mut self, batch: &RecordBatch, at: usize) -> Vec<bool> {
        let segments = batch.column(at).as_primitive::<UInt32Type>();
        let rows = batch.column(at + 1).as_primitive::<UInt32Type>();
        segments.values().iter().zip(rows.values()).map(|(s, r)| self.rows[*s as usize].insert(*r)).collect()
    }

    /// Number of rows collected.
    pub(super) fn len(&self) -> u64 {
        self.rows.iter().map(RoaringBitmap::len).sum()
    }

    pub(super) fn rows(self) -> Deletes {
        self.ids.into_iter().zip(self.rows).filter(|(_, rows)| !rows.is_empty()).map(|(id, r)| (id, Rows(r))).collect()
    }
}
