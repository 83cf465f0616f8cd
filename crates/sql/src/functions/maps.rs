//! Maps that are put together from arrays and from other maps, as in StarRocks.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, MapArray, StructArray, UInt64Array};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion::common::{Result, exec_err, internal_err, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::args::Args;
use super::array::{lists, span};
use super::array_flags::map_of;
use super::func::{Def, MANY, Ret, common_type, def};
use super::growth::bytes_of;
use super::kept::one_zero;
use crate::charter::casts::cast_values;
use crate::type_text::Sql;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("map_concat", &[], (1, MANY), Ret::By(concat_type), map_concat),
    def("map_from_arrays", &[], (2, 2), Ret::By(arrays_type), map_from_arrays),
];

/// Returns the type of maps with these keys and values.
pub(super) fn map_type(key: &DataType, value: &DataType) -> DataType {
    let entries = Fields::from(vec![Field::new("keys", key.clone(), false), Field::new("values", value.clone(), true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

/// Returns the types of the keys and the values of a map; `None` for NULL.
fn parts_of(name: &str, t: &DataType) -> Result<Option<(DataType, DataType)>> {
    match t {
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(parts) if parts.len() == 2 => {
                Ok(Some((parts[0].data_type().clone(), parts[1].data_type().clone())))
            }
            t => plan_err!("{name}: expected a MAP of keys and values, found {}", Sql(t)),
        },
        DataType::Null => Ok(None),
        t => plan_err!("{name}: expected a MAP, found {}", Sql(t)),
    }
}

fn concat_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let name = "map_concat";
    let parts = args.arg_fields.iter().map(|field| parts_of(name, field.data_type())).collect::<Result<Vec<_>>>()?;
    let (keys, values): (Vec<_>, Vec<_>) = parts.into_iter().flatten().unzip();
    if keys.is_empty() {
        return Ok(DataType::Null);
    }
    // The type of an empty map's entries says nothing.
    let common = |types: Vec<DataType>| {
        let known: Vec<DataType> = types.into_iter().filter(|t| !t.is_null()).collect();
        if known.is_empty() { Ok(DataType::Null) } else { common_type(name, &known) }
    };
    Ok(map_type(&common(keys)?, &common(values)?))
}

fn arrays_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let item = |k: usize| match args.arg_fields[k].data_type() {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Ok(Some(item.data_type().clone()))
        }
        DataType::Null => Ok(None),
        t => plan_err!("map_from_arrays: expected an ARRAY, found {}", Sql(t)),
    };
    match (item(0)?, item(1)?) {
        (Some(key), _) if key.is_nested() => {
            plan_err!("map_from_arrays takes keys that are numbers, texts or dates, found {}", Sql(&key))
        }
        (Some(key), Some(value)) => Ok(map_type(&key, &value)),
        _ => Ok(DataType::Null),
    }
}

/// Builds maps from entries that are picked by `places`: the last value of a key counts, at the place of the first.
struct Building<'a> {
    a: &'a Args<'a>,
    keys: ArrayRef,
    values: ArrayRef,
    picked: (Vec<u64>, Vec<u64>),
    lengths: Vec<Option<usize>>,
}

impl<'a> Building<'a> {
    fn new(a: &'a Args<'a>, keys: ArrayRef, values: ArrayRef) -> Self {
        Building { a, keys, values, picked: (Vec::new(), Vec::new()), lengths: Vec::with_capacity(a.rows) }
    }

    fn build(mut self, mut row: impl FnMut(usize) -> Result<Option<Vec<(usize, usize)>>>) -> Result<ArrayRef> {
        let DataType::Map(entries, sorted) = &self.a.ret else { return Ok(self.a.nulls()) };
        let DataType::Struct(fields) = entries.data_type() else {
            return internal_err!("{}: entries of a map are a STRUCT", self.a.name);
        };
        let converter = RowConverter::new(vec![SortField::new(self.keys.data_type().clone())])?;
        let rows = converter.convert_columns(&[one_zero(&self.keys)])?;
        let each = 2 * size_of::<u64>()
            + bytes_of(&self.keys) / self.keys.len().max(1)
            + bytes_of(&self.values) / self.values.len().max(1);
        for i in 0..self.a.rows {
            let Some(pairs) = row(i)? else {
                self.lengths.push(None);
                continue;
            };
            self.a.made(pairs.len().saturating_mul(each))?;
            let start = self.picked.0.len();
            let mut known: HashMap<&[u8], usize> = HashMap::with_capacity(pairs.len());
            for (key, value) in pairs {
                if self.keys.is_null(key) {
                    return exec_err!("{}: a key of a MAP cannot be NULL", self.a.name);
                }
                let at = *known.entry(rows.row(key).data()).or_insert(self.picked.0.len());
                if at == self.picked.0.len() {
                    self.picked.0.push(key as u64);
                    self.picked.1.push(value as u64);
                } else {
                    self.picked.1[at] = value as u64;
                }
            }
            self.lengths.push(Some(self.picked.0.len() - start));
        }
        let keys = take(&self.keys, &UInt64Array::from(self.picked.0), None)?;
        let values = take(&self.values, &UInt64Array::from(self.picked.1), None)?;
        let parts = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
        map_of(entries, *sorted, parts, &self.lengths)
    }
}

/// `MAP_CONCAT(map, ...)`: the entries of all maps, of which those that are NULL are left out; NULL if all are.
fn map_concat(a: &Args) -> Result<ArrayRef> {
    let Some((key, value)) = parts_of(a.name, &a.ret)? else { return Ok(a.nulls()) };
    let columns: Vec<_> = (0..a.len()).map(|k| a.raw(k)).filter(|raw| !raw.array.data_type().is_null()).collect();
    let maps: Vec<(&MapArray, bool)> = columns.iter().map(|raw| (raw.array.as_map(), raw.one)).collect();
    let all = |part: fn(&MapArray) -> &ArrayRef, to: &DataType| -> Result<ArrayRef> {
        let parts = maps.iter().map(|(map, _)| cast_values(part(map), to)).collect::<Result<Vec<_>>>()?;
        Ok(concat(&parts.iter().map(|part| part.as_ref()).collect::<Vec<_>>())?)
    };
    let (keys, values) = (all(MapArray::keys, &key)?, all(MapArray::values, &value)?);
    let starts: Vec<usize> = maps
        .iter()
        .scan(0, |end, (map, _)| {
            let start = *end;
            *end += map.keys().len();
            Some(start)
        })
        .collect();
    Building::new(a, keys, values).build(|i| {
        let (mut pairs, mut any) = (Vec::new(), false);
        for ((map, one), start) in maps.iter().zip(&starts) {
            let row = if *one { 0 } else { i };
            if map.is_valid(row) {
                any = true;
                let offsets = map.value_offsets();
                pairs.extend((offsets[row] as usize..offsets[row + 1] as usize).map(|at| (start + at, start + at)));
            }
        }
        Ok(any.then_some(pairs))
    })
}

/// `MAP_FROM_ARRAYS(keys, values)`: NULL if one of the arrays is NULL.
fn map_from_arrays(a: &Args) -> Result<ArrayRef> {
    if a.ret.is_null() {
        return Ok(a.nulls());
    }
    let (keys, values) = (lists(a, 0)?, lists(a, 1)?);
    Building::new(a, Arc::clone(keys.array.values()), Arc::clone(values.array.values())).build(|i| {
        let Some((of_keys, of_values)) = span(&keys, i).zip(span(&values, i)) else { return Ok(None) };
        match of_keys.len() == of_values.len() {
            true => Ok(Some(of_keys.zip(of_values).collect())),
            false => exec_err!(
                "{}: expected as many values as keys, found {} and {}",
                a.name,
                of_values.len(),
                of_keys.len()
            ),
        }
    })
}
