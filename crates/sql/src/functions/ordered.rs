//! Sorting of lists that aggregates have collected, by the ORDER BY inside the call.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::{DataType, Field};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::args::Args;
use super::func::{Def, Ret, def};

/// Name of the function that returns NULL for an empty list. (It is not a name in SQL.)
pub const UNLESS_EMPTY: &str = "dipper_unless_empty";

/// Name of the function that sorts a list of rows and returns their first columns. (It is not a name in SQL.) The
/// second argument has a letter for each other column: `a` for ascending, `d` for descending, in upper case if NULL is
/// not at the default end; and `u` if only the first of equal values stays.
pub const IN_ORDER: &str = "dipper_in_order";

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def(UNLESS_EMPTY, &[], (1, 1), Ret::Arg(0), unless_empty),
    def(IN_ORDER, &[], (2, 2), Ret::By(first_column), in_order),
];

fn unless_empty(a: &Args) -> Result<ArrayRef> {
    let raw = a.raw(0);
    let Some(lists) = raw.array.as_list_opt::<i32>() else { return Ok(Arc::clone(&raw.array)) };
    let some: NullBuffer = (0..lists.len()).map(|at| lists.value_length(at) > 0).collect();
    let (field, offsets, values, nulls) = lists.clone().into_parts();
    Ok(Arc::new(ListArray::try_new(field, offsets, values, NullBuffer::union(nulls.as_ref(), Some(&some)))?))
}

fn first_column(args: &ReturnFieldArgs) -> Result<DataType> {
    if let DataType::List(row) = args.arg_fields[0].data_type()
        && let DataType::Struct(columns) = row.data_type()
    {
        return Ok(DataType::List(Arc::new(Field::new_list_field(columns[0].data_type().clone(), true))));
    }
    plan_err!("{IN_ORDER}: expected a list of rows")
}

fn in_order(a: &Args) -> Result<ArrayRef> {
    let (raw, how) = (a.raw(0), a.text(1)?);
    let (Some(how), Some(lists)) = (how.at(0), raw.array.as_list_opt::<i32>()) else {
        return exec_err!("{IN_ORDER}: expected a list of rows and how they are sorted");
    };
    let rows = lists.values().as_struct();
    let unique = how.contains('u');
    let orders = how.chars().filter(|letter| *letter != 'u').map(|letter| {
        let descending = letter.eq_ignore_ascii_case(&'d');
        SortOptions { descending, nulls_first: descending == letter.is_ascii_uppercase() }
    });
    let types = rows.columns()[1..].iter().map(|column| column.data_type().clone());
    let fields = types.zip(orders).map(|(t, order)| SortField::new_with_options(t, order)).collect();
    let keys = RowConverter::new(fields)?.convert_columns(&rows.columns()[1..])?;
    let values = Arc::clone(rows.column(0));
    let same = RowConverter::new(vec![SortField::new(values.data_type().clone())])?;
    let same = unique.then(|| same.convert_columns(&[Arc::clone(&values)])).transpose()?;

    let mut chosen: Vec<u64> = Vec::with_capacity(rows.len());
    let mut lengths = Vec::with_capacity(lists.len());
    for (list, span) in lists.value_offsets().windows(2).enumerate() {
        let before = chosen.len();
        if lists.is_valid(list) {
            chosen.extend(span[0] as u64..span[1] as u64);
            // The sort is stable: rows with equal keys keep their order.
            chosen[before..].sort_by(|a, b| keys.row(*a as usize).cmp(&keys.row(*b as usize)));
            if let Some(same) = &same {
                let mut seen = HashSet::new();
                let first: Vec<u64> = chosen.drain(before..).filter(|at| seen.insert(same.row(*at as usize))).collect();
                chosen.extend(first);
            }
        }
        lengths.push(chosen.len() - before);
    }
    let values = take(&values, &UInt64Array::from(chosen), None)?;
    let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(field, offsets, values, lists.nulls().cloned())?))
}
