//! Searches in arrays, comparing like `=` does, and concatenations of arrays.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, DynComparator, ListArray, StructArray, UInt64Array, make_comparator, new_empty_array,
    new_null_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{SortOptions, concat, take};
use arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion::common::{Result, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::args::{Args, Col};
use super::array::{as_list, element_type, list_of, lists, pick, span};
use super::func::{Def, Ret, common_type, def};
use super::growth::bytes_of;
use super::kept::one_zero;
use crate::charter::{cast_values, comparison_type};
use crate::type_text::Sql;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("array_position", &[], (2, 2), Ret::Int, |a| search(a, false)),
    def("countequal", &[], (2, 2), Ret::Int, |a| search(a, true)),
    def("array_contains", &[], (2, 2), Ret::Bool, |a| {
        let at = search(a, false)?;
        let at = at.as_primitive::<Int64Type>();
        a.bools(|i| at.is_valid(i).then(|| at.value(i) > 0))
    }),
    def("array_remove", &["array_remove_all"], (2, 2), Ret::Arg(0), remove),
    def("arrays_overlap", &["array_has_any"], (2, 2), Ret::Bool, overlap),
    def("array_has_all", &["list_has_all"], (2, 2), Ret::Bool, contains_all),
    def("array_concat", &["array_cat"], (1, usize::MAX), Ret::By(joined_type), |a| joined(a, a.len(), false)),
    def("array_append", &["array_pushback", "array_push_back"], (2, 2), Ret::By(appended_type), |a| {
        joined(a, 1, false)
    }),
    def("array_pushfront", &[], (2, 2), Ret::By(appended_type), |a| joined(a, 1, true)),
    def("array_max", &["list_max"], (1, 1), Ret::By(element_type), |a| extreme(a, Ordering::Greater)),
    def("array_min", &["list_min"], (1, 1), Ret::By(element_type), |a| extreme(a, Ordering::Less)),
    def("map_entries", &[], (1, 1), Ret::By(entries_type), map_entries),
    def("flatten", &["array_flatten"], (1, 1), Ret::By(flat_type), flatten),
];

/// Returns two columns in the type in which they are compared, and the comparison.
fn comparable(a: &Args, inside: &ArrayRef, other: &ArrayRef) -> Result<(ArrayRef, ArrayRef, DynComparator)> {
    let (x, y) = (inside.data_type(), other.data_type());
    let common = match comparison_type(x, y) {
        Some(common) => common,
        None => common_type(a.name, &[x.clone(), y.clone()])?,
    };
    // An array of the NULL type has no validity mask.
    let common = if common.is_null() { DataType::Int8 } else { common };
    let (inside, other) = (one_zero(&cast_values(inside, &common)?), one_zero(&cast_values(other, &common)?));
    let compare = make_comparator(&inside, &other, SortOptions::default())?;
    Ok((inside, other, compare))
}

/// Two columns whose values are compared as `=` does, but NULL equals NULL.
pub(super) struct Compared {
    /// The NULLs of both columns before their values became one type.
    nulls: [Option<NullBuffer>; 2],
    inside: ArrayRef,
    other: ArrayRef,
    compare: DynComparator,
}

impl Compared {
    /// Brings elements (or the keys or values of a map) and other values together.
    pub(super) fn new(a: &Args, inside: &ArrayRef, other: &ArrayRef) -> Result<Compared> {
        let nulls = [inside.logical_nulls(), other.logical_nulls()];
        let (inside, other, compare) = comparable(a, inside, other)?;
        Ok(Compared { nulls, inside, other, compare })
    }

    /// Whether element `at` equals the other value `k`. A value that does not convert to the type in which they are
    /// compared equals nothing, and is not NULL.
    pub(super) fn equal(&self, at: usize, k: usize) -> bool {
        let [inside, other] = &self.nulls;
        let is_null = |nulls: &Option<NullBuffer>, i| nulls.as_ref().is_some_and(|nulls| nulls.is_null(i));
        match (is_null(inside, at), is_null(other, k)) {
            (true, true) => true,
            (false, false) => self.inside.is_valid(at) && self.other.is_valid(k) && (self.compare)(at, k).is_eq(),
            _ => false,
        }
    }
}

/// Returns the position of the first element equal to argument 1, or the number of equal elements. NULL equals NULL.
fn search(a: &Args, count: bool) -> Result<ArrayRef> {
    let (lists, wanted) = (lists(a, 0)?, a.raw(1));
    let compared = Compared::new(a, lists.array.values(), &wanted.array)?;
    a.ints(|i| {
        let span = span(&lists, i)?;
        let k = if wanted.one { 0 } else { i };
        let start = span.start;
        let mut hits = span.filter(|at| compared.equal(*at, k));
        Some(if count { hits.count() as i64 } else { hits.next().map_or(0, |at| (at - start) as i64 + 1) })
    })
}

/// Removes the elements equal to argument 1; NULL equals NULL.
fn remove(a: &Args) -> Result<ArrayRef> {
    let (lists, wanted) = (lists(a, 0)?, a.raw(1));
    let compared = Compared::new(a, lists.array.values(), &wanted.array)?;
    pick(a, lists.array.values(), |i, out| {
        let k = if wanted.one { 0 } else { i };
        out.extend(span(&lists, i)?.filter(|at| !compared.equal(*at, k)).map(|at| Some(at as u64)));
        Some(())
    })
}

/// Whether two arrays have a common element that is not NULL; NULL if they have none and one of them contains a NULL.
fn overlap(a: &Args) -> Result<ArrayRef> {
    let (x, y) = (lists(a, 0)?, lists(a, 1)?);
    // A value that does not convert to the other's type is no NULL: it is in no array of that type.
    let [here_null, there_null] = [&x, &y].map(|list| list.array.values().logical_nulls());
    let is_null = |nulls: &Option<NullBuffer>, at| nulls.as_ref().is_some_and(|nulls| nulls.is_null(at));
    let (left, right, compare) = comparable(a, x.array.values(), y.array.values())?;
    let order = make_comparator(&right, &right, SortOptions::default())?;
    a.bools(|i| {
        let (here, there) = (span(&x, i)?, span(&y, i)?);
        let mut unknown = there.clone().any(|at| is_null(&there_null, at));
        let mut known: Vec<usize> = there.filter(|k| right.is_valid(*k)).collect();
        // Each element is searched in the sorted other array, which takes few steps.
        known.sort_unstable_by(|k, l| order(*k, *l));
        for at in here {
            if left.is_null(at) {
                unknown |= is_null(&here_null, at);
            } else if known.binary_search_by(|k| compare(at, *k).reverse()).is_ok() {
                return Some(true);
            }
        }
        (!unknown).then_some(false)
    })
}

/// Whether an array contains all elements of another; NULL equals NULL.
fn contains_all(a: &Args) -> Result<ArrayRef> {
    let (x, y) = (lists(a, 0)?, lists(a, 1)?);
    let (left, right, compare) = comparable(a, x.array.values(), y.array.values())?;
    let order = make_comparator(&left, &left, SortOptions::default())?;
    a.bools(|i| {
        let (here, mut there) = (span(&x, i)?, span(&y, i)?);
        // A value that does not convert to the other's type is in no array of that type.
        let is_null = |list: &ListArray, at: usize| list.values().is_null(at) || list.value_type().is_null();
        let mut known: Vec<usize> = here.clone().filter(|at| left.is_valid(*at)).collect();
        let has_null = known.len() < here.len() && here.clone().any(|at| is_null(&x.array, at));
        known.sort_unstable_by(|k, l| order(*k, *l));
        let has = |at: usize| match right.is_null(at) {
            true => has_null && is_null(&y.array, at),
            false => known.binary_search_by(|k| compare(*k, at)).is_ok(),
        };
        Some(there.all(has))
    })
}

/// Returns the type of an array's elements; `None` for an array without any, and for NULL.
fn item(name: &str, t: &DataType) -> Result<Option<DataType>> {
    match t {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Ok(Some(item.data_type().clone()).filter(|t| !t.is_null()))
        }
        DataType::Null => Ok(None),
        t => plan_err!("{name}: expected an ARRAY, found {}", Sql(t)),
    }
}

/// Returns the type of the array that holds elements of all these types.
fn array_of(name: &str, items: Vec<DataType>) -> Result<DataType> {
    match items.split_first() {
        None => Ok(list_of(&DataType::Null)),
        Some((first, rest)) if rest.iter().all(|t| t == first) => Ok(list_of(first)),
        // For arrays: the common type of their elements.
        Some((first, _)) if item(name, first).is_ok() => {
            let inner = items.iter().map(|t| item(name, t)).collect::<Result<Vec<_>>>()?;
            Ok(list_of(&array_of(name, inner.into_iter().flatten().collect())?))
        }
        _ => Ok(list_of(&common_type(name, &items)?)),
    }
}

/// Returns the types of two arrays whose elements become their common type, as those of [`joined_type`] do. DataFusion
/// would take the type of numbers for numbers and texts, in which most texts are NULL.
///
/// # Errors
/// `Plan` if there are not two arguments, or one of them is no array.
pub(super) fn common_arrays(name: &str, types: &[DataType]) -> Result<Vec<DataType>> {
    let [left, right] = types else { return plan_err!("{name} takes two arrays, found {} arguments", types.len()) };
    let items = [item(name, left)?, item(name, right)?];
    let common = array_of(name, items.into_iter().flatten().collect())?;
    let own = |t: &DataType| if t.is_null() { DataType::Null } else { common.clone() };
    Ok(vec![own(left), own(right)])
}

fn joined_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let items = args.arg_fields.iter().map(|f| item("array_concat", f.data_type())).collect::<Result<Vec<_>>>()?;
    array_of("array_concat", items.into_iter().flatten().collect())
}

fn appended_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let value = Some(args.arg_fields[1].data_type().clone()).filter(|t| !t.is_null());
    let items = [item("array_append", args.arg_fields[0].data_type())?, value];
    array_of("array_append", items.into_iter().flatten().collect())
}

/// Concatenates the first `arrays` arguments and adds the others as elements before or after them; NULL if one of the
/// arrays is NULL.
fn joined(a: &Args, arrays: usize, in_front: bool) -> Result<ArrayRef> {
    let DataType::List(field) = &a.ret else {
        return plan_err!("{}: expected an ARRAY, found {}", a.name, Sql(&a.ret));
    };
    let lists = (0..arrays).map(|k| lists(a, k)).collect::<Result<Vec<_>>>()?;
    let rest: Vec<Col<ArrayRef>> = (arrays..a.len()).map(|k| a.raw(k)).collect();
    let parts = lists.iter().map(|l| l.array.values()).chain(rest.iter().map(|r| &r.array));
    let parts = parts
        .map(|part| match part.data_type().is_null() {
            true => Ok(new_null_array(field.data_type(), part.len())),
            false => cast_values(part, field.data_type()),
        })
        .collect::<Result<Vec<_>>>()?;
    let starts: Vec<usize> = parts
        .iter()
        .scan(0, |end, part| {
            let start = *end;
            *end += part.len();
            Some(start)
        })
        .collect();
    let all = concat(&parts.iter().map(|p| p.as_ref()).collect::<Vec<_>>())?;
    pick(a, &all, |i, out| {
        let values = rest.iter().zip(&starts[arrays..]);
        let values = values.map(|(value, start)| Some((start + if value.one { 0 } else { i }) as u64));
        if in_front {
            out.extend(values.clone());
        }
        for (list, start) in lists.iter().zip(&starts) {
            out.extend(span(list, i)?.map(|k| Some((start + k) as u64)));
        }
        if !in_front {
            out.extend(values);
        }
        Some(())
    })
}

/// Returns the type of the innermost elements of nested arrays.
fn innermost(t: &DataType) -> DataType {
    match t {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            innermost(item.data_type())
        }
        t => t.clone(),
    }
}

fn flat_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let t = args.arg_fields[0].data_type();
    item("array_flatten", t)?;
    Ok(list_of(&innermost(t)))
}

/// Puts the elements of all levels into one array; arrays that are NULL add none.
fn flatten(a: &Args) -> Result<ArrayRef> {
    let mut levels: Vec<ListArray> = vec![as_list(a.name, &a.raw(0).array)?];
    while let Some(DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)) =
        levels.last().map(ListArray::value_type)
    {
        let inner = levels.last().map_or_else(|| new_empty_array(&DataType::Null), |l| Arc::clone(l.values()));
        levels.push(as_list(a.name, &inner)?);
    }
    fn gather(levels: &[ListArray], row: usize, out: &mut Vec<Option<u64>>) {
        let Some((list, deeper)) = levels.split_first() else {
            out.push(Some(row as u64));
            return;
        };
        if list.is_valid(row) {
            let offsets = list.value_offsets();
            (offsets[row] as usize..offsets[row + 1] as usize).for_each(|at| gather(deeper, at, out));
        }
    }
    let one = a.raw(0).one;
    // Per element: an index in the vector, the same index in the array that it becomes, and the value.
    let innermost = levels.last().map(|lists| bytes_of(lists.values()) / lists.values().len().max(1));
    let each = size_of::<Option<u64>>() + size_of::<u64>() + innermost.unwrap_or(0);
    let (mut picked, mut lengths, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for i in 0..a.rows {
        let row = if one { 0 } else { i };
        let before = picked.len();
        gather(&levels, row, &mut picked);
        lengths.push(picked.len() - before);
        a.made((picked.len() - before).saturating_mul(each))?;
        valid.push(levels[0].is_valid(row));
    }
    let DataType::List(item) = &a.ret else {
        return plan_err!("array_flatten: expected an ARRAY, found {}", Sql(&a.ret));
    };
    let values = levels.last().map_or_else(|| new_empty_array(&DataType::Null), |l| Arc::clone(l.values()));
    let values = take(&values, &UInt64Array::from(picked), None)?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, Some(NullBuffer::from(valid)))?))
}

/// Returns the greatest or least element that is not NULL; NULL if there is none.
fn extreme(a: &Args, wanted: Ordering) -> Result<ArrayRef> {
    let lists = lists(a, 0)?;
    let values = Arc::clone(lists.array.values());
    let compare = make_comparator(&values, &values, SortOptions::default())?;
    let best = |i: usize| {
        span(&lists, i)?.filter(|k| values.is_valid(*k)).reduce(|best, k| match compare(k, best) == wanted {
            true => k,
            false => best,
        })
    };
    let picked: UInt64Array = (0..a.rows).map(|i| best(i).map(|k| k as u64)).collect();
    Ok(take(&values, &picked, None)?)
}

/// Returns the type of a map's entries as an array of structs.
fn entries_type(args: &ReturnFieldArgs) -> Result<DataType> {
    match args.arg_fields[0].data_type() {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(parts) if parts.len() == 2 => Ok(list_of(&DataType::Struct(entry(parts)))),
            t => plan_err!("map_entries: expected a MAP of keys and values, found {}", Sql(t)),
        },
        DataType::Null => Ok(DataType::Null),
        t => plan_err!("map_entries: expected a MAP, found {}", Sql(t)),
    }
}

fn entry(parts: &Fields) -> Fields {
    ["key", "value"].iter().zip(parts).map(|(name, part)| Field::new(*name, part.data_type().clone(), true)).collect()
}

fn map_entries(a: &Args) -> Result<ArrayRef> {
    let array = a.full(0)?;
    let (DataType::List(item), DataType::Map(..)) = (&a.ret, array.data_type()) else { return Ok(a.nulls()) };
    let maps = array.as_map();
    let columns = vec![Arc::clone(maps.keys()), Arc::clone(maps.values())];
    let entries = StructArray::try_new(entry(maps.entries().fields()), columns, None)?;
    let offsets = maps.offsets().clone();
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, Arc::new(entries), maps.nulls().cloned())?))
}
