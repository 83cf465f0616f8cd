//! Sorts one chunk of a tablet's rows by the key, and applies the table model to equal keys.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, Int8Array, RecordBatch, UInt32Array};
use arrow_ord::ord::{DynComparator, make_comparator};
use arrow_row::{RowConverter, Rows, SortField};
use arrow_schema::{DataType, SortOptions, TimeUnit};
use arrow_select::concat::concat_batches;
use arrow_select::take::take;
use dipper_store::merge::merge_sorted_batch;
use dipper_store::table::schema::{DELETE_SIGN, Model, TableSchema};

use crate::LoadError;

/// The keys of a chunk's rows, in a form that compares fast.
enum Keys {
    /// One integer column without NULLs: its values with the sign bit inverted.
    Integers(Vec<u64>),
    /// Anything else.
    Rows(Rows),
}

/// Returns the rows of a chunk as the segment holds them, and whether they came in order.
///
/// `parts` are in order of age. Equal keys of a UNIQUE table: the last stays, or the last of those with the highest
/// sequence (NULL is below every value). The place of a `condition` makes that column the sequence of rows without the
/// delete sign; those with it are not compared.
pub(crate) fn sort_chunk(
    schema: &TableSchema,
    condition: Option<usize>,
    parts: Vec<RecordBatch>,
) -> Result<(Vec<RecordBatch>, bool), LoadError> {
    if schema.keys == 0 {
        return Ok((parts, true));
    }
    let keys = keys(schema, &parts)?;
    // Segments of DUPLICATE tables may hold equal keys side by side.
    let distinct = schema.model != Model::Duplicate;
    let in_order = match &keys {
        Keys::Integers(v) => v.windows(2).all(|w| w[0] < w[1] || !distinct && w[0] == w[1]),
        Keys::Rows(rows) => (1..rows.num_rows()).all(|i| {
            let order = rows.row(i - 1).cmp(&rows.row(i));
            order == Ordering::Less || !distinct && order == Ordering::Equal
        }),
    };
    if in_order {
        return Ok((parts, true));
    }
    let mut order = sorted(&keys);
    let whole = concat_batches(parts[0].schema_ref(), &parts)?;
    drop(parts);
    if schema.model == Model::Unique {
        let sequence = condition.or(schema.sequence.and_then(|id| schema.position(id))).map(|at| whole.column(at));
        let sign = schema.columns.iter().position(|c| c.name == DELETE_SIGN).filter(|_| condition.is_some());
        let sign = sign.map(|at| whole.column(at).as_primitive::<Int8Type>());
        keep_last(&keys, sequence, sign, &mut order)?;
    }
    let indexes = UInt32Array::from(order);
    let columns =
        whole.columns().iter().map(|c| take(c.as_ref(), &indexes, None)).collect::<Result<Vec<ArrayRef>, _>>()?;
    let batch = RecordBatch::try_new(whole.schema(), columns)?;
    let batch = if schema.model == Model::Aggregate { merge_sorted_batch(schema, batch)? } else { batch };
    Ok((vec![batch], false))
}

fn keys(schema: &TableSchema, parts: &[RecordBatch]) -> Result<Keys, LoadError> {
    let rows = parts.iter().map(RecordBatch::num_rows).sum();
    if schema.keys == 1 {
        let mut all = Vec::with_capacity(rows);
        if parts.iter().all(|p| integers(p.column(0), &mut all)) {
            return Ok(Keys::Integers(all));
        }
    }
    let fields = schema.key_columns().iter().map(|c| SortField::new(c.data_type.to_arrow())).collect();
    let converter = RowConverter::new(fields)?;
    let mut all = converter.empty_rows(rows, 0);
    for part in parts {
        converter.append(&mut all, &part.columns()[..schema.keys])?;
    }
    Ok(Keys::Rows(all))
}

/// Appends a column's values as numbers that order like them; false if the column is no integer or has NULLs.
fn integers(column: &ArrayRef, all: &mut Vec<u64>) -> bool {
    if column.null_count() > 0 {
        return false;
    }
    let number = |v: i64| v as u64 ^ 1 << 63;
    macro_rules! primitive {
        ($type:ty) => {
            all.extend(column.as_primitive::<$type>().values().iter().map(|v| number(i64::from(*v))))
        };
    }
    match column.data_type() {
        DataType::Int8 => primitive!(Int8Type),
        DataType::Int16 => primitive!(Int16Type),
        DataType::Int32 => primitive!(Int32Type),
        DataType::Int64 => primitive!(Int64Type),
        DataType::Date32 => primitive!(Date32Type),
        DataType::Timestamp(TimeUnit::Microsecond, None) => primitive!(TimestampMicrosecondType),
        _ => return false,
    }
    true
}

/// Returns the row numbers in the order of keys; equal keys in the order of rows.
fn sorted(keys: &Keys) -> Vec<u32> {
    match keys {
        Keys::Integers(values) => {
            let mut pairs: Vec<(u64, u32)> = values.iter().zip(0..).map(|(v, i)| (*v, i)).collect();
            // The row number makes all pairs different, so an unstable sort keeps equal keys in order.
            pairs.sort_unstable();
            pairs.into_iter().map(|(_, i)| i).collect()
        }
        Keys::Rows(rows) => {
            // Most comparisons end in the first eight bytes, which need no second cache line.
            let mut pairs: Vec<(u64, u32)> =
                (0..rows.num_rows()).map(|i| (prefix(rows.row(i).data()), i as u32)).collect();
            pairs.sort_unstable_by(|(a, i), (b, j)| {
                a.cmp(b).then_with(|| rows.row(*i as usize).cmp(&rows.row(*j as usize))).then(i.cmp(j))
            });
            pairs.into_iter().map(|(_, i)| i).collect()
        }
    }
}

/// Returns the first eight bytes as a number that orders like them; fewer bytes are padded with zeros.
fn prefix(bytes: &[u8]) -> u64 {
    match bytes.first_chunk() {
        Some(eight) => u64::from_be_bytes(*eight),
        None => {
            let mut eight = [0; 8];
            eight[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(eight)
        }
    }
}

/// Keeps the row that wins of each run of equal keys. Rows with `sign`, and those behind them, win whatever their sequence.
fn keep_last(
    keys: &Keys,
    sequence: Option<&ArrayRef>,
    sign: Option<&Int8Array>,
    order: &mut Vec<u32>,
) -> Result<(), LoadError> {
    let deletes = |row: u32| sign.is_some_and(|sign| sign.is_valid(row as usize) && sign.value(row as usize) != 0);
    let same = |a: u32, b: u32| match keys {
        Keys::Integers(v) => v[a as usize] == v[b as usize],
        Keys::Rows(rows) => rows.row(a as usize) == rows.row(b as usize),
    };
    let newer: Option<DynComparator> = match sequence {
        Some(s) => Some(make_comparator(s, s, SortOptions { descending: false, nulls_first: true })?),
        None => None,
    };
    let mut kept: Vec<u32> = Vec::with_capacity(order.len());
    for row in order.drain(..) {
        match kept.last_mut() {
            Some(last) if same(*last, row) => {
                // Equal sequences: the later row wins.
                let wins = newer.as_ref().is_none_or(|newer| newer(row as usize, *last as usize) != Ordering::Less);
                if wins || deletes(row) || deletes(*last) {
                    *last = row;
                }
            }
            _ => kept.push(row),
        }
    }
    *order = kept;
    Ok(())
}
