//! Column statistics from the table's state, in the optimizer's form.

use arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};
use dipper_store::table::TableState;

/// Returns the statistics of a column of the definition. Bounds are inexact: long strings are cut, deleted rows still
/// count.
pub(super) fn column(state: &TableState, at: usize, data_type: &DataType) -> ColumnStatistics {
    let mut statistics = ColumnStatistics::new_unknown();
    let Some(known) = state.stats(state.schema().columns[at].id) else { return statistics };
    let typed = |text: &Option<String>| {
        let text = ScalarValue::Utf8(Some(text.clone()?));
        text.cast_to(data_type).ok().filter(|v| !v.is_null()).map(Precision::Inexact)
    };
    statistics.min_value = typed(&known.min).unwrap_or(Precision::Absent);
    statistics.max_value = typed(&known.max).unwrap_or(Precision::Absent);
    statistics.null_count = Precision::Inexact(known.nulls as usize);
    if let Some(distinct) = known.distinct() {
        statistics.distinct_count = Precision::Inexact(distinct as usize);
    }
    statistics
}

/// Returns whether the statistics of a table describe exactly those of its rows that can be read: every row that was
/// loaded is still there, none of them in a temporary partition.
pub(super) fn are_of_live_rows(state: &TableState) -> bool {
    state.rows() == state.stats_rows()
}

/// Returns statistics of exactly the rows that a scan returns. Bounds of types whose values are cut, or whose order has
/// several equal values, stay inexact; so does the number of distinct values.
pub(super) fn exact(statistics: ColumnStatistics, data_type: &DataType) -> ColumnStatistics {
    use DataType::{Date32, Decimal128, Int8, Int16, Int32, Int64, Timestamp};
    match data_type {
        Int8 | Int16 | Int32 | Int64 | Date32 | Decimal128(..) | Timestamp(TimeUnit::Microsecond, None) => {}
        _ => return statistics,
    }
    ColumnStatistics {
        min_value: as_exact(statistics.min_value),
        max_value: as_exact(statistics.max_value),
        null_count: as_exact(statistics.null_count),
        ..statistics
    }
}

fn as_exact<T: std::fmt::Debug + Clone + PartialEq + Eq + PartialOrd>(value: Precision<T>) -> Precision<T> {
    match value {
        Precision::Inexact(value) => Precision::Exact(value),
        other => other,
    }
}
