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
/// several equal values, stay inexact; so does the number of distinct values. Bounds of floating point stay so, too: what
/// older builds wrote beside a NaN says nothing of it.
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

/// Estimates the bytes of a row of a column in memory.
pub(super) fn row_bytes(statistics: &ColumnStatistics, data_type: &DataType) -> usize {
    match data_type {
        DataType::Boolean => 1,
        DataType::FixedSizeBinary(bytes) => usize::try_from(*bytes).unwrap_or(0),
        DataType::Utf8View | DataType::BinaryView => VIEW_BYTES + text_bytes(statistics),
        other => other.primitive_width().unwrap_or(NESTED_BYTES),
    }
}

/// Bytes of a view of text.
const VIEW_BYTES: usize = 16;
/// The longest text that its view holds.
const SHORT_TEXT: usize = 12;
/// Bytes of a text of which nothing is known, beside its view.
const UNKNOWN_TEXT: usize = 32;
/// Bytes of an array, a map or a struct.
const NESTED_BYTES: usize = 64;

/// Estimates the bytes of a text beside its view, by the least and the greatest one, which may be cut.
fn text_bytes(statistics: &ColumnStatistics) -> usize {
    let length = |bound: &Precision<ScalarValue>| match bound.get_value() {
        Some(ScalarValue::Utf8View(Some(text)) | ScalarValue::Utf8(Some(text))) => Some(text.len()),
        _ => None,
    };
    match (length(&statistics.min_value), length(&statistics.max_value)) {
        (None, None) => UNKNOWN_TEXT,
        // An empty text says nothing about the others.
        (Some(least), Some(greatest)) if least > 0 => beside((least + greatest) / 2),
        (Some(one), None) | (None | Some(_), Some(one)) => beside(one),
    }
}

fn beside(length: usize) -> usize {
    if length > SHORT_TEXT { length } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::datatypes::Field;

    #[test]
    fn bounds_of_numbers_are_exact_unless_they_have_a_point_or_are_cut() {
        let exact = |value: ScalarValue| {
            let data_type = value.data_type();
            let min_value = Precision::Inexact(value);
            let statistics = ColumnStatistics { min_value, ..ColumnStatistics::new_unknown() };
            exact(statistics, &data_type).min_value.is_exact()
        };
        assert_eq!(exact(ScalarValue::Int64(Some(1))), Some(true));
        assert_eq!(exact(ScalarValue::Float64(Some(1.5))), Some(false), "a NaN may be beside");
        assert_eq!(exact(ScalarValue::Utf8View(Some("a".into()))), Some(false), "texts are cut");
    }

    #[test]
    fn rows_are_as_wide_as_their_arrays() {
        let text = |text: &str| Precision::Inexact(ScalarValue::Utf8View(Some(text.into())));
        let of = |min_value, max_value| {
            let statistics = ColumnStatistics { min_value, max_value, ..ColumnStatistics::new_unknown() };
            row_bytes(&statistics, &DataType::Utf8View)
        };
        assert_eq!(of(text("a"), text("twelve bytes")), 16);
        assert_eq!(of(text("fourteen bytes"), text("eighteen more bytes")), 16 + 16);
        assert_eq!(of(text(""), text("eighteen more bytes")), 16 + 19);
        assert_eq!(of(Precision::Absent, text("eighteen more bytes")), 16 + 19);
        assert_eq!(of(Precision::Absent, Precision::Absent), 16 + 32);
        let plain = |data_type| row_bytes(&ColumnStatistics::new_unknown(), &data_type);
        assert_eq!(plain(DataType::Int32), 4);
        assert_eq!(plain(DataType::Decimal128(15, 2)), 16);
        assert_eq!(plain(DataType::Boolean), 1);
        assert_eq!(plain(DataType::FixedSizeBinary(16)), 16);
        assert_eq!(plain(DataType::List(Field::new_list_field(DataType::Int32, true).into())), 64);
    }
}
