//! The size of a native table as recorded in its chain, for TABLE STATUS and information_schema.

use std::collections::HashMap;

use dipper_lake::sheet::{Cell, wall_clock_us};
use dipper_store::table::TableState;
use dipper_store::table::schema::PartitionId;

/// Counts of a table or of a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Rows that are not deleted.
    rows: u64,
    /// Bytes of row groups.
    data_bytes: u64,
    /// Bytes of indexes and footers; 0 for a partition, because its objects can hold rows of other partitions.
    index_bytes: u64,
    /// The next value of AUTO_INCREMENT, if a column has it.
    auto_increment: Option<i64>,
    /// Time of the last change, in milliseconds since 1970.
    changed_ms: i64,
}

impl Facts {
    /// Counts of the whole table.
    pub(crate) fn of(state: &TableState) -> Facts {
        let mut facts = Facts { rows: state.rows(), changed_ms: state.changed_ms(), ..Facts::default() };
        let mut tails = HashMap::new();
        for s in state.segments() {
            facts.data_bytes += s.segment.bytes;
            tails.insert(s.object.id, s.object.tail_bytes);
        }
        facts.index_bytes = tails.values().sum();
        let counts = state.schema().columns.iter().any(|c| c.auto_increment.is_some());
        facts.auto_increment = counts.then(|| state.next_auto_increment());
        facts
    }

    /// Counts of each partition.
    pub(crate) fn of_partitions(state: &TableState) -> HashMap<PartitionId, Facts> {
        let mut all: HashMap<PartitionId, Facts> = HashMap::new();
        for s in state.segments() {
            let facts = all.entry(s.segment.tablet.partition).or_default();
            facts.rows += s.live_rows();
            facts.data_bytes += s.segment.bytes;
            facts.changed_ms = state.changed_ms();
        }
        all
    }

    /// Rows that are not deleted, and bytes of row groups.
    pub(super) fn size(&self) -> (u64, u64) {
        (self.rows, self.data_bytes)
    }

    /// Returns the cells Rows, Avg_row_length, Data_length, Max_data_length, Index_length, Data_free, Auto_increment
    /// and Update_time.
    pub(crate) fn cells(self, zone: &str) -> [Cell; 8] {
        let int = |n: u64| Cell::Int(i64::try_from(n).unwrap_or(i64::MAX));
        [
            int(self.rows),
            int(self.data_bytes.checked_div(self.rows).unwrap_or(0)),
            int(self.data_bytes),
            Cell::Null,
            int(self.index_bytes),
            Cell::Null,
            self.auto_increment.into(),
            wall_clock_us(self.changed_ms, zone),
        ]
    }
}
