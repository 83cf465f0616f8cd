//! Column statistics of a table, merged load by load.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use dipper_base::sketch::hll_union;
use dipper_base::types::SqlType;

use super::data::{ColumnStats, Derived};
use super::order::compare_text;
use super::schema::{ColumnId, TableColumn, TableSchema};

/// Statistics of a table's columns over all rows that were loaded since the table was last empty. Deleted rows still
/// count: bounds hold all the same, and counts are exact while nothing was deleted.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stats {
    /// Number of rows that the statistics describe.
    pub rows: u64,
    pub columns: Arc<BTreeMap<ColumnId, Arc<ColumnStats>>>,
}

impl Stats {
    /// Adds the statistics of a load of `rows` rows. A column without statistics in the load loses its own.
    pub fn add(&mut self, schema: &TableSchema, rows: u64, loaded: &[ColumnStats]) {
        if rows == 0 {
            return;
        }
        let columns = Arc::make_mut(&mut self.columns);
        let mut merged = BTreeMap::new();
        for new in loaded {
            let Some(column) = schema.columns.iter().find(|c| c.id == new.column) else { continue };
            if self.rows == 0 {
                merged.insert(new.column, Arc::new(new.clone()));
            } else if let Some(old) = columns.remove(&new.column) {
                merged.insert(new.column, Arc::new(merge_stats(&column.data_type, (&old, self.rows), (new, rows))));
            }
        }
        *columns = merged;
        self.rows += rows;
    }

    /// Follows a change of the definition: dropped columns are forgotten, new ones hold their default in every row, and
    /// a column whose values change with its type loses its statistics.
    pub fn follow(&mut self, old: &TableSchema, new: &TableSchema) {
        let columns = Arc::make_mut(&mut self.columns);
        columns.retain(|id, _| new.columns.iter().any(|c| c.id == *id));
        for column in &new.columns {
            match old.columns.iter().find(|c| c.id == column.id) {
                Some(before) if before.data_type == column.data_type => {}
                Some(before) if widens(&before.data_type, &column.data_type) => {}
                Some(_) => drop(columns.remove(&column.id)),
                None => drop(columns.insert(column.id, Arc::new(constant(column, self.rows)))),
            }
        }
    }
}

/// Returns true if values keep their text and their order.
fn widens(from: &SqlType, to: &SqlType) -> bool {
    use SqlType::*;
    let whole = |t: &SqlType| matches!(t, TinyInt | SmallInt | Int | BigInt | LargeInt | UnsignedBigInt);
    let text = |t: &SqlType| matches!(t, Char(_) | Varchar(_) | String);
    whole(from) && (whole(to) || matches!(to, Decimal(..))) || text(from) && text(to)
}

fn constant(column: &TableColumn, rows: u64) -> ColumnStats {
    let value = column.added_default.clone();
    let nulls = if value.is_none() { rows } else { 0 };
    ColumnStats {
        column: column.id,
        min: value.clone(),
        max: value,
        nulls,
        sketch: Vec::new(),
        distinct: Derived::default(),
    }
}

/// Merges statistics of a column over two sets of rows, given with their sizes. If one side has values but no bound,
/// the result has no bound.
pub fn merge_stats(data_type: &SqlType, a: (&ColumnStats, u64), b: (&ColumnStats, u64)) -> ColumnStats {
    let ((a, a_rows), (b, b_rows)) = (a, b);
    let bound = |a_bound: &Option<String>, b_bound: &Option<String>, wanted: Ordering| {
        if a.nulls == a_rows {
            return b_bound.clone();
        }
        if b.nulls == b_rows {
            return a_bound.clone();
        }
        let (x, y) = (a_bound.as_ref()?, b_bound.as_ref()?);
        let order = compare_text(data_type, x, y)?;
        Some(if order == wanted { x.clone() } else { y.clone() })
    };
    ColumnStats {
        column: a.column,
        min: bound(&a.min, &b.min, Ordering::Less),
        max: bound(&a.max, &b.max, Ordering::Greater),
        nulls: a.nulls + b.nulls,
        sketch: union(&a.sketch, &b.sketch),
        distinct: Derived::default(),
    }
}

/// Returns the union of two sketches. A sketch that cannot be read yields an empty one, since sketches only serve
/// estimates.
fn union(a: &[u8], b: &[u8]) -> Vec<u8> {
    match (a.is_empty(), b.is_empty()) {
        (true, _) => b.to_vec(),
        (_, true) => a.to_vec(),
        _ => hll_union([a, b]).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(min: Option<&str>, max: Option<&str>, nulls: u64) -> ColumnStats {
        let text = |t: Option<&str>| t.map(str::to_string);
        ColumnStats {
            column: 0,
            min: text(min),
            max: text(max),
            nulls,
            sketch: Vec::new(),
            distinct: Derived::default(),
        }
    }

    #[test]
    fn bounds_hold_for_both_sides() {
        let merged =
            merge_stats(&SqlType::Int, (&stats(Some("9"), Some("10"), 1), 5), (&stats(Some("-3"), Some("9"), 0), 2));
        assert_eq!(merged, stats(Some("-3"), Some("10"), 1));
        let nothing = stats(None, None, 2);
        let one = stats(Some("5"), Some("5"), 0);
        assert_eq!(merge_stats(&SqlType::Int, (&nothing, 2), (&one, 3)), stats(Some("5"), Some("5"), 2));
        assert_eq!(merge_stats(&SqlType::Int, (&one, 3), (&nothing, 2)), stats(Some("5"), Some("5"), 2));
        // One side has values without a bound: the whole has no bound either.
        let unbounded = stats(Some("a"), None, 0);
        assert_eq!(
            merge_stats(&SqlType::String, (&unbounded, 3), (&stats(Some("b"), Some("c"), 0), 1)),
            stats(Some("a"), None, 0)
        );
    }
}
