//! Keys that come several times where a MAP is made: the last of equal keys counts, as in Doris.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::DataType;
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;

/// Returns the lists of keys and values, the two arguments of MAP, without the entries whose keys come again later in
/// their list. Arguments of other forms are returned as they are.
///
/// # Errors
/// Arrow's error if keys of their type cannot be compared.
pub(super) fn last_of_equal(mut args: Vec<ColumnarValue>, rows: usize) -> Result<Vec<ColumnarValue>> {
    let is_list = |arg: &ColumnarValue| matches!(arg.data_type(), DataType::List(_));
    if args.len() != 2 || !args.iter().all(is_list) {
        return Ok(args);
    }
    let constant = args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
    let rows = if constant { 1 } else { rows };
    let (keys, values) = (args[0].to_array(rows)?, args[1].to_array(rows)?);
    let Some((keys, values)) = without_earlier(keys.as_list(), values.as_list())? else { return Ok(args) };
    for (arg, list) in args.iter_mut().zip([keys, values]) {
        let list: ArrayRef = Arc::new(list);
        *arg = match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&list, 0)?),
            false => ColumnarValue::Array(list),
        };
    }
    Ok(args)
}

/// Returns `None` if no key comes twice in its list, or if the lists do not fit each other.
fn without_earlier(keys: &ListArray, values: &ListArray) -> Result<Option<(ListArray, ListArray)>> {
    let fits =
        |row: usize| keys.is_null(row) || values.is_null(row) || keys.value_length(row) == values.value_length(row);
    if !(0..keys.len()).all(fits) {
        return Ok(None);
    }
    let converter = RowConverter::new(vec![SortField::new(keys.values().data_type().clone())])?;
    let compared = converter.convert_columns(&[Arc::clone(keys.values())])?;
    let (mut of_keys, mut of_values, mut lengths) = (Vec::new(), Vec::new(), Vec::with_capacity(keys.len()));
    let mut twice = false;
    for row in 0..keys.len() {
        let length = if keys.is_null(row) || values.is_null(row) { 0 } else { keys.value_length(row) as usize };
        let (from_key, from_value) = (keys.value_offsets()[row] as usize, values.value_offsets()[row] as usize);
        let mut seen = HashSet::with_capacity(length);
        let kept: Vec<usize> = (0..length).rev().filter(|at| seen.insert(compared.row(from_key + at))).collect();
        twice |= kept.len() < length;
        lengths.push(kept.len());
        of_keys.extend(kept.iter().rev().map(|at| (from_key + at) as u64));
        of_values.extend(kept.iter().rev().map(|at| (from_value + at) as u64));
    }
    if !twice {
        return Ok(None);
    }
    let taken = |list: &ListArray, places: Vec<u64>| -> Result<ListArray> {
        let DataType::List(field) = list.data_type() else { return Ok(list.clone()) };
        let values = take(list.values(), &UInt64Array::from(places), None)?;
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        Ok(ListArray::try_new(Arc::clone(field), offsets, values, list.nulls().cloned())?)
    };
    Ok(Some((taken(keys, of_keys)?, taken(values, of_values)?)))
}
