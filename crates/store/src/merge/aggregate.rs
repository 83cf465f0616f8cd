//! Merge rules of AGGREGATE tables, applied column by column: rows with equal keys become one.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow_array::builder::BinaryViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Decimal128Type, Decimal256Type, DecimalType, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray, RecordBatch, UInt32Array};
use arrow_buffer::ArrowNativeType;
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, SortOptions};
use arrow_select::take::take;
use dipper_base::quantile::quantile_union;
use dipper_base::sketch::{SketchError, bitmap_union, hll_union};
use dipper_base::states::reader;
use dipper_base::types::SqlType;

use super::MergeError;
use crate::table::schema::{Aggregate, TableColumn, TableSchema};

/// Merges the rows of each group. `starts` are the first rows of the groups, ascending, the first is 0. Rows of a group
/// are in order of age. NULLs take part only in REPLACE and in sequences; a group without values is NULL.
pub(super) fn aggregate(schema: &TableSchema, batch: &RecordBatch, starts: &[u32]) -> Result<RecordBatch, MergeError> {
    let groups = Groups { starts, rows: batch.num_rows() as u32 };
    assert!(
        starts.first() == Some(&0) && starts.is_sorted_by(|a, b| a < b) && starts.last() < Some(&groups.rows),
        "groups are not empty, and have all rows of the batch"
    );
    let firsts = UInt32Array::from(starts.to_vec());
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (i, (column, array)) in schema.columns.iter().zip(batch.columns()).enumerate() {
        columns.push(match column.aggregate {
            _ if i < schema.keys => take(array, &firsts, None)?,
            None => return Err(MergeError::NoRule { column: column.name.clone() }),
            Some(Aggregate::Sum) => sum(column, array, &groups)?,
            Some(Aggregate::Min) => choose_best(array, &groups, Ordering::Less)?,
            Some(Aggregate::Max) => choose_best(array, &groups, Ordering::Greater)?,
            Some(Aggregate::Replace) => choose(array, groups.iter().map(|(_, end)| end - 1))?,
            Some(Aggregate::ReplaceIfNotNull) => {
                choose(array, groups.iter().map(|(start, end)| groups.last_valid(array, start, end).unwrap_or(start)))?
            }
            Some(Aggregate::ReplaceBySequence(id)) => {
                let sequence = schema.position(id).ok_or_else(|| MergeError::NoRule { column: column.name.clone() })?;
                choose(array, latest(batch.column(sequence), &groups)?.into_iter())?
            }
            Some(Aggregate::HllUnion) => union(array, &groups, |sets| sketch(column, hll_union(sets.iter().copied())))?,
            Some(Aggregate::QuantileUnion) => {
                union(array, &groups, |sets| sketch(column, quantile_union(sets.iter().copied())))?
            }
            Some(Aggregate::BitmapUnion) => {
                union(array, &groups, |sets| sketch(column, bitmap_union(sets.iter().copied())))?
            }
            Some(Aggregate::Generic) => states(column, array, &groups)?,
        });
    }
    Ok(RecordBatch::try_new(batch.schema(), columns)?)
}

struct Groups<'a> {
    starts: &'a [u32],
    rows: u32,
}

impl Groups<'_> {
    /// Returns the first row of each group and the row after its last one.
    fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        let ends = self.starts.iter().skip(1).copied().chain([self.rows]);
        self.starts.iter().copied().zip(ends)
    }

    fn last_valid(&self, array: &ArrayRef, start: u32, end: u32) -> Option<u32> {
        (start..end).rev().find(|i| array.is_valid(*i as usize))
    }
}

fn choose(array: &ArrayRef, rows: impl Iterator<Item = u32>) -> Result<ArrayRef, MergeError> {
    Ok(take(array, &UInt32Array::from_iter_values(rows), None)?)
}

/// Returns the value of each group that is `better` than all others of it, in the order of ORDER BY.
fn choose_best(array: &ArrayRef, groups: &Groups<'_>, better: Ordering) -> Result<ArrayRef, MergeError> {
    let compare = make_comparator(array, array, SortOptions::default())?;
    let best = |(start, end)| {
        let mut valid = (start..end).filter(|i| array.is_valid(*i as usize));
        let first = valid.next().unwrap_or(start);
        valid.fold(first, |best, i| if compare(i as usize, best as usize) == better { i } else { best })
    };
    choose(array, groups.iter().map(best))
}

/// Returns the row of each group with the greatest value, NULL being the smallest; of equal ones the last.
fn latest(sequence: &ArrayRef, groups: &Groups<'_>) -> Result<Vec<u32>, MergeError> {
    let compare = make_comparator(sequence, sequence, SortOptions { descending: false, nulls_first: true })?;
    let later = |best: u32, row: u32| if compare(row as usize, best as usize) == Ordering::Less { best } else { row };
    Ok(groups.iter().map(|(start, end)| (start..end).fold(start, later)).collect())
}

/// Sums in the column's own type; a sum that does not fit is an error.
fn sum(column: &TableColumn, array: &ArrayRef, groups: &Groups<'_>) -> Result<ArrayRef, MergeError> {
    macro_rules! integers {
        ($t:ty) => {
            add::<$t>(array, groups, |a, b| a.checked_add(b))
        };
    }
    let summed = match array.data_type() {
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Float32 => add::<Float32Type>(array, groups, |a, b| Some(a + b)),
        DataType::Float64 => add::<Float64Type>(array, groups, |a, b| Some(a + b)),
        DataType::Decimal128(p, _) => add::<Decimal128Type>(array, groups, |a, b| {
            a.checked_add(b).filter(|sum| Decimal128Type::is_valid_decimal_precision(*sum, *p))
        }),
        DataType::Decimal256(p, _) => add::<Decimal256Type>(array, groups, |a, b| {
            let fits = |sum: &arrow_buffer::i256| match column.data_type {
                SqlType::LargeInt => sum.to_i128().is_some(),
                _ => Decimal256Type::is_valid_decimal_precision(*sum, *p),
            };
            a.checked_add(b).filter(fits)
        }),
        _ => return Err(MergeError::NoRule { column: column.name.clone() }),
    };
    summed.ok_or_else(|| MergeError::Overflow { column: column.name.clone(), data_type: column.data_type.to_string() })
}

fn add<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    groups: &Groups<'_>,
    add: impl Fn(T::Native, T::Native) -> Option<T::Native>,
) -> Option<ArrayRef>
where
    T::Native: ArrowNativeType,
{
    let array = array.as_primitive::<T>();
    let values = array.values();
    let mut sums = Vec::with_capacity(groups.starts.len());
    for (start, end) in groups.iter() {
        let (start, end) = (start as usize, end as usize);
        if end - start == 1 {
            sums.push(array.is_valid(start).then(|| values[start]));
            continue;
        }
        let mut sum = None;
        for i in (start..end).filter(|i| array.is_valid(*i)) {
            sum = Some(match sum {
                None => values[i],
                Some(sum) => add(sum, values[i])?,
            });
        }
        sums.push(sum);
    }
    let sums = PrimitiveArray::<T>::from_iter(sums).with_data_type(array.data_type().clone());
    Some(Arc::new(sums))
}

fn sketch(column: &TableColumn, united: Result<Vec<u8>, SketchError>) -> Result<Vec<u8>, MergeError> {
    united.map_err(|source| MergeError::Sketch { column: column.name.clone(), source })
}

/// Unites states of an aggregate function.
fn states(column: &TableColumn, array: &ArrayRef, groups: &Groups<'_>) -> Result<ArrayRef, MergeError> {
    let SqlType::AggState(of) = &column.data_type else {
        return Err(MergeError::NoRule { column: column.name.clone() });
    };
    let failed = |source| MergeError::State { column: column.name.clone(), source };
    let mut reader = reader(of).map_err(failed)?;
    union(array, groups, |states| reader.unite(states).map_err(failed))
}

fn union(
    array: &ArrayRef,
    groups: &Groups<'_>,
    mut union: impl FnMut(&[&[u8]]) -> Result<Vec<u8>, MergeError>,
) -> Result<ArrayRef, MergeError> {
    let array = array.as_binary_view();
    let mut builder = BinaryViewBuilder::with_capacity(groups.starts.len());
    let mut values = Vec::new();
    for (start, end) in groups.iter() {
        values.clear();
        values.extend((start..end).map(|i| i as usize).filter(|i| array.is_valid(*i)).map(|i| array.value(i)));
        match values.as_slice() {
            [] => builder.append_null(),
            [one] => builder.append_value(one),
            many => builder.append_value(union(many)?),
        }
    }
    Ok(Arc::new(builder.finish()))
}
