//! Arrays combined element by element.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Int64Array, ListArray, StructArray, UInt64Array, make_comparator};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::args::Args;
use super::array::{list_of, lists, span};
use super::func::{Def, MANY, Ret, common_type, def};
use super::kept::one_zero;
use super::lambda_rows::{Elements, as_lists, elements, lengths};
use crate::charter::casts::cast_values;
use crate::charter::compare::comparison_type;
use crate::type_text::Sql;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("array_zip", &[], (1, MANY), Ret::By(zip_type), zip),
    def("array_enumerate_uniq", &[], (1, MANY), Ret::By(|_| Ok(list_of(&DataType::Int64))), enumerate_uniq),
    def("array_contains_all", &["hassubstr", "array_contains_seq"], (2, 2), Ret::Bool, contains_all),
];

fn item(t: &DataType) -> Result<DataType> {
    match t {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Ok(item.data_type().clone())
        }
        DataType::Null => Ok(DataType::Null),
        t => plan_err!("expected an ARRAY, found {}", Sql(t)),
    }
}

/// Returns the type ARRAY of STRUCTs of the elements of all arguments, whose fields are `col1`, `col2` and so on.
pub(super) fn zip_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let fields = args
        .arg_fields
        .iter()
        .enumerate()
        .map(|(at, field)| Ok(Field::new(format!("col{}", at + 1), item(field.data_type())?, true)));
    Ok(list_of(&DataType::Struct(fields.collect::<Result<Fields>>()?)))
}

/// Returns the elements of all arguments.
fn all(a: &Args) -> Result<Vec<Elements>> {
    let mut all = Vec::with_capacity(a.len());
    for k in 0..a.len() {
        all.extend(elements(a, k)?);
    }
    Ok(all)
}

/// Concatenates the elements of all rows.
fn behind_each_other(elements: &Elements, lengths: &[Option<usize>]) -> Result<ArrayRef> {
    let rows = (0..lengths.len()).filter(|row| lengths[*row].is_some());
    let places = rows.filter_map(|row| elements.span(row)).flatten().map(|at| at as u64);
    Ok(take(&elements.values, &UInt64Array::from_iter_values(places), None)?)
}

/// Builds STRUCTs of the elements at the same place; NULL if one of the arrays is NULL.
fn zip(a: &Args) -> Result<ArrayRef> {
    let DataType::List(item) = &a.ret else { return Ok(a.nulls()) };
    let DataType::Struct(fields) = item.data_type() else { return Ok(a.nulls()) };
    let all = all(a)?;
    let lengths = lengths(a.name, a.rows, &all)?;
    let columns = all.iter().map(|elements| behind_each_other(elements, &lengths)).collect::<Result<Vec<_>>>()?;
    a.made(columns.iter().map(super::growth::bytes_of).sum())?;
    let length = lengths.iter().flatten().sum();
    let structs: ArrayRef = Arc::new(StructArray::try_new_with_length(fields.clone(), columns, None, length)?);
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| length.unwrap_or(0)));
    let nulls = NullBuffer::from_iter(lengths.iter().map(Option::is_some));
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, structs, Some(nulls))?))
}

/// Counts for each element, or each group of elements at one place, how often it has occurred so far.
fn enumerate_uniq(a: &Args) -> Result<ArrayRef> {
    let all = all(a)?;
    let lengths = lengths(a.name, a.rows, &all)?;
    let columns = all.iter().map(|e| Ok(one_zero(&behind_each_other(e, &lengths)?))).collect::<Result<Vec<_>>>()?;
    let types = columns.iter().map(|column| SortField::new(column.data_type().clone()));
    let rows = RowConverter::new(types.collect())?.convert_columns(&columns)?;
    let mut numbers = Vec::with_capacity(rows.num_rows());
    let mut at = 0;
    for length in lengths.iter().flatten() {
        let mut seen: HashMap<&[u8], i64> = HashMap::new();
        for row in at..at + length {
            let count = seen.entry(rows.row(row).data()).or_default();
            *count += 1;
            numbers.push(*count);
        }
        at += length;
        a.made(length * size_of::<i64>())?;
    }
    as_lists(&a.ret, &lengths, &(Arc::new(Int64Array::from(numbers)) as ArrayRef))
}

/// Whether the second array is a contiguous part of the first one; NULL equals NULL.
fn contains_all(a: &Args) -> Result<ArrayRef> {
    let (whole, part) = (lists(a, 0)?, lists(a, 1)?);
    let types = [whole.array.value_type(), part.array.value_type()];
    let common = match comparison_type(&types[0], &types[1]) {
        Some(common) => common,
        None => common_type(a.name, &types)?,
    };
    let common = if common.is_null() { DataType::Int8 } else { common };
    let left = one_zero(&cast_values(whole.array.values(), &common)?);
    let right = one_zero(&cast_values(part.array.values(), &common)?);
    let compare = make_comparator(&left, &right, SortOptions::default())?;
    let equal = |x: usize, y: usize| left.is_null(x) == right.is_null(y) && compare(x, y).is_eq();
    a.bools(|row| {
        let (here, there) = (span(&whole, row)?, span(&part, row)?);
        let starts = here.start..(here.end + 1).saturating_sub(there.len()).max(here.start);
        let fits = |start: usize| there.clone().enumerate().all(|(at, other)| equal(start + at, other));
        Some(there.is_empty() || starts.into_iter().any(fits))
    })
}
