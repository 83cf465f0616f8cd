//! Statistics of the loaded columns: bounds and NULLs from the objects, distinct values from sketches.

use arrow_array::{Array, RecordBatch};
use arrow_schema::DataType;
use dipper_base::sketch::{HyperLogLog, STATS_PRECISION};
use dipper_store::table::data::ColumnStats;
use dipper_store::table::merge_stats;
use dipper_store::table::schema::TableSchema;

/// Sketches of all columns over some rows.
#[derive(Debug)]
pub(crate) struct Sketches {
    columns: Vec<Column>,
}

#[derive(Debug, Clone)]
struct Column {
    /// `None` for types that have no hash.
    sketch: Option<HyperLogLog>,
    /// Number of rows sampled.
    rows: u64,
    /// One row of `step` is sampled.
    step: usize,
}

/// Number of rows after which the sampling of a column is decided.
const DECIDED_ROWS: u64 = 1 << 14;
/// A column with fewer distinct values than one `FEW`-th of its rows: a sample lacks only few of them.
const FEW: u64 = 16;
const FEW_STEP: usize = 8;
/// Strings of which at least half are distinct: hashing all of them would cost as much as the rest of the statistics.
/// The estimate comes out up to four times too low, which is enough to know that there are many.
const MANY_STRINGS: u64 = 2;
const MANY_STEP: usize = 4;

impl Sketches {
    pub fn new(columns: usize) -> Self {
        let column = Column { sketch: Some(HyperLogLog::new(STATS_PRECISION)), rows: 0, step: 1 };
        Sketches { columns: vec![column; columns] }
    }

    /// Returns empty sketches that sample as these have found to be enough.
    pub fn fresh(&self) -> Self {
        let mut columns = self.columns.clone();
        for column in &mut columns {
            column.sketch = column.sketch.as_ref().map(|_| HyperLogLog::new(STATS_PRECISION));
            column.rows = 0;
        }
        Sketches { columns }
    }

    /// Adds rows.
    pub fn add(&mut self, batch: &RecordBatch) {
        for (column, array) in self.columns.iter_mut().zip(batch.columns()) {
            let Some(sketch) = &mut column.sketch else { continue };
            let rows = array.len().div_ceil(column.step);
            if !sketch.add_array(&array.slice(0, rows)) {
                column.sketch = None;
                continue;
            }
            column.rows += rows as u64;
            if column.step == 1 && column.rows >= DECIDED_ROWS {
                let distinct = sketch.estimate();
                let text = matches!(array.data_type(), DataType::Utf8View | DataType::BinaryView);
                column.step = match distinct {
                    few if few < column.rows / FEW => FEW_STEP,
                    many if text && many > column.rows / MANY_STRINGS => MANY_STEP,
                    _ => 1,
                };
            }
        }
    }

    /// Adds the rows that another sampler has seen.
    pub fn union(&mut self, other: &Sketches) {
        for (mine, theirs) in self.columns.iter_mut().zip(&other.columns) {
            match (&mut mine.sketch, &theirs.sketch) {
                (Some(a), Some(b)) => a.union(b),
                (mine, _) => *mine = None,
            }
            mine.rows += theirs.rows;
            mine.step = theirs.step;
        }
    }

    /// Writes the sketches into the statistics.
    pub fn fill(&self, schema: &TableSchema, stats: &mut [ColumnStats]) {
        for one in stats {
            let sketch =
                schema.position(one.column).and_then(|at| self.columns.get(at)).and_then(|c| c.sketch.as_ref());
            one.sketch = sketch.map(HyperLogLog::to_bytes).unwrap_or_default();
        }
    }
}

/// Merges the statistics of one more object. `rows`: the number of rows of all objects so far, and of the new one.
pub(crate) fn merge(schema: &TableSchema, all: &mut Vec<ColumnStats>, more: Vec<ColumnStats>, rows: (u64, u64)) {
    let (rows_before, rows_more) = rows;
    if rows_before == 0 {
        *all = more;
        return;
    }
    for new in more {
        let Some(old) = all.iter_mut().find(|s| s.column == new.column) else { continue };
        let Some(column) = schema.columns.iter().find(|c| c.id == new.column) else { continue };
        *old = merge_stats(&column.data_type, (old, rows_before), (&new, rows_more));
    }
}
