//! Column statistics from the table's state, in the optimizer's form.

use arrow::datatypes::DataType;
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue};
use dipper_base::sketch::HyperLogLog;
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
    if let Ok(sketch) = HyperLogLog::from_bytes(&known.sketch) {
        statistics.distinct_count = Precision::Inexact(sketch.estimate() as usize);
    }
    statistics
}
