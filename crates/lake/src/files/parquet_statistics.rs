//! Column statistics from the footers of Parquet files, in the optimizer's form.
//!
//! MIN, MAX and COUNT are answered from exact statistics, so nothing is exact here that a file does not guarantee.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field, Fields};
use datafusion::common::stats::Precision;
use datafusion::common::{ColumnStatistics, ScalarValue, Statistics};
use dipper_exec::scan::Conversion;
use dipper_node::error::Result;
use dipper_store::segment::{ForeignBounds, ForeignSchema, ObjectReader, ScanSchema};

/// Returns the statistics of one file's columns; columns that are not among `wanted` stay unknown. Bounds of columns
/// that are converted are those of other values.
pub(super) fn statistics(
    reader: &ObjectReader,
    fields: &Fields,
    columns: &ForeignSchema,
    conversions: &[Conversion],
    wanted: &[usize],
) -> Result<Statistics> {
    let rows: usize = (0..reader.num_groups()).map(|group| reader.group_rows(group)).sum();
    let mut all = vec![ColumnStatistics::new_unknown(); fields.len()];
    for at in wanted.iter().copied().filter(|at| *at < fields.len()) {
        let (field, known) = (&fields[at], &mut all[at]);
        let Some(own) = reader.fields().get(columns.id(at) as usize) else {
            known.null_count = Precision::Exact(rows);
            continue;
        };
        known.byte_size = size(field.data_type(), rows);
        let conversion = conversions.iter().find(|conversion| conversion.column == at);
        if conversion.is_some_and(|conversion| !conversion.keeps_nulls()) {
            continue;
        }
        let Some(bounds) = reader.foreign_bounds(columns.id(at), field.data_type()) else { continue };
        known.null_count = nulls(&bounds);
        if conversion.is_some() {
            continue;
        }
        known.min_value = bound(&bounds, own, field, false)?;
        known.max_value = bound(&bounds, own, field, true)?;
    }
    Ok(Statistics { num_rows: Precision::Exact(rows), column_statistics: all, ..Statistics::default() })
}

/// Returns the size in bytes of `rows` fixed-width values; absent for other types.
fn size(data_type: &DataType, rows: usize) -> Precision<usize> {
    data_type.primitive_width().map_or(Precision::Absent, |bytes| Precision::Exact(bytes * rows))
}

fn nulls(bounds: &ForeignBounds) -> Precision<usize> {
    let nulls = &bounds.zones.nulls;
    let sum: u64 = nulls.iter().flatten().sum();
    match nulls.null_count() {
        0 => Precision::Exact(sum as usize),
        _ => Precision::Absent,
    }
}

/// Returns the least or the greatest value of all row groups.
fn bound(bounds: &ForeignBounds, own: &Field, field: &Field, greatest: bool) -> Result<Precision<ScalarValue>> {
    let zones = &bounds.zones;
    let values: &ArrayRef = if greatest { &zones.max } else { &zones.min };
    // Values that are converted to another type may become equal to others, so their bounds are inexact.
    let (from, to) = (own.data_type(), field.data_type());
    let is_same = from == to
        || (from.is_integer() && to.is_integer())
        || matches!((from, to), (DataType::Timestamp(..), DataType::Timestamp(..)));
    let (mut extreme, mut exact): (Option<ScalarValue>, bool) = (None, is_same && !to.is_floating());
    for group in 0..values.len() {
        let rows = zones.rows.value(group);
        if rows == 0 || (zones.nulls.is_valid(group) && zones.nulls.value(group) == rows) {
            continue;
        }
        if values.is_null(group) {
            return Ok(Precision::Absent);
        }
        let value = ScalarValue::try_from_array(values, group)?;
        exact &= if greatest { bounds.exact[group].1 } else { bounds.exact[group].0 };
        let is_beyond = |seen: &ScalarValue| match greatest {
            true => value.partial_cmp(seen).is_some_and(|order| order.is_gt()),
            false => value.partial_cmp(seen).is_some_and(|order| order.is_lt()),
        };
        if extreme.as_ref().is_none_or(is_beyond) {
            extreme = Some(value);
        }
    }
    Ok(match extreme {
        None => Precision::Absent,
        Some(value) if exact => Precision::Exact(value),
        Some(value) => Precision::Inexact(value),
    })
}
