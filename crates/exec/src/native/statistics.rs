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

/// Returns statistics of exactly the rows that a scan returns. Bounds of types whose values are cut stay inexact; so do
/// bounds that are zeros with a sign, and the number of distinct values. A column of floating point with a NaN has no
/// bounds.
pub(super) fn exact(statistics: ColumnStatistics, data_type: &DataType) -> ColumnStatistics {
    use DataType::{Date32, Decimal128, Float32, Float64, Int8, Int16, Int32, Int64, Timestamp};
    let bound: fn(Precision<ScalarValue>) -> Precision<ScalarValue> = match data_type {
        Int8 | Int16 | Int32 | Int64 | Date32 | Decimal128(..) | Timestamp(TimeUnit::Microsecond, None) => as_exact,
        Float32 | Float64 => as_exact_float,
        _ => return statistics,
    };
    ColumnStatistics {
        min_value: bound(statistics.min_value),
        max_value: bound(statistics.max_value),
        null_count: as_exact(statistics.null_count),
        ..statistics
    }
}

/// Like [`as_exact`], except for zeros, whose signs say that they are bounds, and for what is no number.
fn as_exact_float(value: Precision<ScalarValue>) -> Precision<ScalarValue> {
    let number = match value.get_value() {
        Some(ScalarValue::Float32(Some(number))) => f64::from(*number),
        Some(ScalarValue::Float64(Some(number))) => *number,
        _ => return value,
    };
    if number.is_finite() && number != 0.0 { as_exact(value) } else { value }
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
    fn bounds_of_floating_point_are_exact_unless_they_are_zeros() {
        let exact = |value: f64| {
            let min_value = Precision::Inexact(ScalarValue::Float64(Some(value)));
            let statistics = ColumnStatistics { min_value, ..ColumnStatistics::new_unknown() };
            exact(statistics, &DataType::Float64).min_value.is_exact()
        };
        let values = [1.5, -1e300, f64::MIN_POSITIVE, 0.0, -0.0, f64::NAN, f64::INFINITY];
        let found = values.map(exact);
        assert_eq!(found, [Some(true), Some(true), Some(true), Some(false), Some(false), Some(false), Some(false)]);
        let text = Precision::Inexact(ScalarValue::Utf8View(Some("a".into())));
        let statistics = ColumnStatistics { min_value: text, ..ColumnStatistics::new_unknown() };
        assert_eq!(super::exact(statistics, &DataType::Utf8View).min_value.is_exact(), Some(false), "texts are cut");
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
