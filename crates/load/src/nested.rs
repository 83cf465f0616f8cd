//! Checks of what lies inside arrays, maps and structs: each part is checked as a column of its type is.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Time64MicrosecondType, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, BooleanArray, ListArray, MapArray, StructArray};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_row::{Row, RowConverter, SortField};
use arrow_schema::{ArrowError, DataType, Fields};
use arrow_select::filter::filter;
use dipper_base::types::SqlType;
use dipper_base::{calendar, clock};

use crate::check::{Rule, checked};

/// Receives the rows that do not pass, and the reasons.
pub(crate) type Refuse<'a> = dyn FnMut(usize, String) + 'a;

/// What the checks of parts need to know of the load.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    /// Most bytes of a text whose type has no length.
    pub string_bytes_max: usize,
    pub strict: bool,
}

/// Whether parts of a nested type have to be checked. Maps always have to be, for equal keys.
pub(crate) fn has_rules(t: &SqlType, string_bytes_max: usize) -> bool {
    let holds = |t: &SqlType| !matches!(Rule::of_part(t, string_bytes_max), Rule::Any);
    match t {
        SqlType::Array(item) => holds(item),
        SqlType::Map(..) => true,
        SqlType::Struct(fields) => fields.iter().any(|(_, t, _)| holds(t)),
        _ => false,
    }
}

/// Checks the parts of nested values of the type `t`. Returns the values as they are stored; `None` if none changes.
/// Of equal keys of a map the last one stays.
pub(crate) fn parts(array: &ArrayRef, t: &SqlType, settings: Settings, refuse: &mut Refuse<'_>) -> Option<ArrayRef> {
    match (t, array.data_type()) {
        (SqlType::Array(item), DataType::List(field)) => {
            let list = array.as_list::<i32>();
            let mut around = around(list.offsets(), list.nulls(), refuse);
            let values = part(list.values(), item, true, settings, &mut around)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Some(Arc::new(ListArray::new(Arc::clone(field), offsets, values, nulls)))
        }
        (SqlType::Map(key, value), DataType::Map(entries, sorted)) => {
            let map = array.as_map();
            let DataType::Struct(fields) = entries.data_type() else { return None };
            let keys = part(map.keys(), key, false, settings, &mut around(map.offsets(), map.nulls(), refuse));
            let values = part(map.values(), value, true, settings, &mut around(map.offsets(), map.nulls(), refuse));
            let is_changed = keys.is_some() || values.is_some();
            let keys = keys.unwrap_or_else(|| Arc::clone(map.keys()));
            let values = values.unwrap_or_else(|| Arc::clone(map.values()));
            let (offsets, keys, values) = match last_of_equal(map.offsets(), &keys, &values) {
                Ok(Some(distinct)) => distinct,
                Ok(None) if !is_changed => return None,
                Ok(None) => (map.offsets().clone(), keys, values),
                Err(e) => {
                    refuse(0, format!("its keys cannot be compared: {e}"));
                    return None;
                }
            };
            let pairs = StructArray::new(fields.clone(), vec![keys, values], None);
            Some(Arc::new(MapArray::new(Arc::clone(entries), offsets, pairs, map.nulls().cloned(), *sorted)))
        }
        (SqlType::Struct(types), DataType::Struct(fields)) => {
            structs(array.as_struct(), types, fields, settings, refuse)
        }
        _ => None,
    }
}

fn structs(
    array: &StructArray,
    types: &[(String, SqlType, Option<String>)],
    fields: &Fields,
    settings: Settings,
    refuse: &mut Refuse<'_>,
) -> Option<ArrayRef> {
    let mut is_changed = false;
    let mut columns = Vec::with_capacity(fields.len());
    for (column, (_, t, _)) in array.columns().iter().zip(types) {
        let mut of_given = |row: usize, reason: String| {
            if array.is_valid(row) {
                refuse(row, reason);
            }
        };
        let changed = part(column, t, true, settings, &mut of_given);
        is_changed |= changed.is_some();
        columns.push(changed.unwrap_or_else(|| Arc::clone(column)));
    }
    is_changed.then(|| Arc::new(StructArray::new(fields.clone(), columns, array.nulls().cloned())) as _)
}

/// Checks parts of one type, which may be nested themselves.
fn part(
    array: &ArrayRef,
    t: &SqlType,
    nullable: bool,
    settings: Settings,
    refuse: &mut Refuse<'_>,
) -> Option<ArrayRef> {
    match Rule::of_part(t, settings.string_bytes_max) {
        Rule::Any => None,
        Rule::Parts => parts(array, t, settings, refuse),
        rule => checked(rule, array, nullable, settings.strict, refuse),
    }
}

/// Returns a receiver of items that do not pass, which refuses the rows that hold them.
fn around<'a>(
    offsets: &'a OffsetBuffer<i32>,
    nulls: Option<&'a NullBuffer>,
    refuse: &'a mut Refuse<'_>,
) -> impl FnMut(usize, String) + 'a {
    move |item, reason| {
        let row = offsets.partition_point(|offset| *offset as usize <= item);
        // Items before the first row, behind the last one, and below a NULL are not used.
        if row > 0 && row < offsets.len() && nulls.is_none_or(|nulls| nulls.is_valid(row - 1)) {
            refuse(row - 1, reason);
        }
    }
}

/// Rounds times (microseconds) to `digits` digits of the second, halves up; `None` if none changes: digits that are not
/// shown must not tell two values apart. A time that would be behind the year 9999 is rounded down, because keys of
/// maps cannot be NULL.
pub(crate) fn rounded(array: &ArrayRef, digits: u8) -> Option<ArrayRef> {
    let unit = 10_i64.pow(6 - u32::from(digits));
    let times = array.as_primitive_opt::<TimestampMicrosecondType>()?;
    let round = |t: i64| calendar::rounded(t, digits).unwrap_or_else(|| t.div_euclid(unit) * unit);
    match times.values().iter().all(|t| t % unit == 0) {
        true => None,
        false => Some(Arc::new(times.unary::<_, TimestampMicrosecondType>(round))),
    }
}

/// Rounds TIME values as [`rounded`] does times. Values beyond a TIME's range, which only files of others have, become
/// the nearest that it holds.
pub(crate) fn rounded_clock(array: &ArrayRef, digits: u8) -> Option<ArrayRef> {
    let times = array.as_primitive_opt::<Time64MicrosecondType>()?;
    match times.values().iter().all(|t| clock::rounded(*t, digits) == *t) {
        true => None,
        false => Some(Arc::new(times.unary::<_, Time64MicrosecondType>(|t| clock::rounded(t, digits)))),
    }
}

/// Offsets, keys and values of maps.
type Entries = (OffsetBuffer<i32>, ArrayRef, ArrayRef);

/// Leaves out entries of maps whose key comes again later in the same map; `None` if there are none.
fn last_of_equal(
    offsets: &OffsetBuffer<i32>,
    keys: &ArrayRef,
    values: &ArrayRef,
) -> Result<Option<Entries>, ArrowError> {
    if offsets.windows(2).all(|ends| ends[1] - ends[0] < 2) {
        return Ok(None);
    }
    let rows =
        RowConverter::new(vec![SortField::new(keys.data_type().clone())])?.convert_columns(&[Arc::clone(keys)])?;
    let mut keep = vec![false; keys.len()];
    let mut places: HashMap<Row<'_>, usize> = HashMap::new();
    let mut left_out = 0;
    let mut lengths = Vec::with_capacity(offsets.len());
    for ends in offsets.windows(2) {
        let (start, end) = (ends[0] as usize, ends[1] as usize);
        let before = left_out;
        keep[start..end].fill(true);
        places.clear();
        for at in (start..end).filter(|_| end - start > 1) {
            if let Some(earlier) = places.insert(rows.row(at), at) {
                keep[earlier] = false;
                left_out += 1;
            }
        }
        lengths.push(end - start - (left_out - before));
    }
    if left_out == 0 {
        return Ok(None);
    }
    let keep = BooleanArray::from(keep);
    Ok(Some((OffsetBuffer::from_lengths(lengths), filter(keys, &keep)?, filter(values, &keep)?)))
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{Int32Builder, MapBuilder, StringViewBuilder};
    use arrow_array::{StringViewArray, TimestampMicrosecondArray};
    use dipper_base::calendar::LAST_MICROSECOND;

    use super::*;

    fn list(t: &SqlType, lengths: &[usize], values: ArrayRef, nulls: Option<Vec<bool>>) -> ArrayRef {
        let DataType::List(field) = t.to_arrow() else { panic!("a list") };
        let offsets = OffsetBuffer::from_lengths(lengths.iter().copied());
        Arc::new(ListArray::new(field, offsets, values, nulls.map(NullBuffer::from)))
    }

    fn run(array: &ArrayRef, t: &SqlType, strict: bool) -> (Option<ArrayRef>, Vec<usize>) {
        let mut refused = Vec::new();
        let settings = Settings { string_bytes_max: 100, strict };
        let made = parts(array, t, settings, &mut |row, _| refused.push(row));
        (made, refused)
    }

    #[test]
    fn times_in_lists_stay_in_the_year_9999() {
        let t = SqlType::Array(Box::new(SqlType::DateTime(0)));
        let times = |values: Vec<Option<i64>>| -> ArrayRef {
            list(&t, &[values.len()], Arc::new(TimestampMicrosecondArray::from(values)), None)
        };
        let given = times(vec![Some(1_499_999), Some(1_500_000), Some(-500_000), None, Some(LAST_MICROSECOND)]);
        let expected = times(vec![Some(1_000_000), Some(2_000_000), Some(0), None, Some(LAST_MICROSECOND - 999_999)]);
        assert_eq!(run(&given, &t, true).0, Some(expected.clone()));
        assert!(run(&expected, &t, true).0.is_none(), "nothing changes any more");
    }

    #[test]
    fn long_texts_in_lists_are_cut_or_refused() {
        let t = SqlType::Array(Box::new(SqlType::Varchar(Some(2))));
        let texts = |values: Vec<Option<&str>>| Arc::new(StringViewArray::from(values)) as ArrayRef;
        let given = |values| list(&t, &[1, 0, 2, 1], texts(values), Some(vec![true, true, true, false]));
        let long = given(vec![Some("ab"), Some("abc"), None, Some("below NULL")]);
        let (made, refused) = run(&long, &t, true);
        assert_eq!(refused, [2]);
        assert!(made.is_some());
        let (made, refused) = run(&long, &t, false);
        assert_eq!(refused, [] as [usize; 0]);
        let made = made.expect("cut texts");
        let made = made.as_list::<i32>().values().as_string_view().iter().take(3).collect::<Vec<_>>();
        assert_eq!(made, [Some("ab"), Some("ab"), None]);
        // Two characters of three bytes are more than two bytes, as in columns.
        let wide = given(vec![Some("\u{20ac}\u{20ac}"), None, None, None]);
        assert_eq!(run(&wide, &t, false).1, [0]);
    }

    #[test]
    fn of_equal_keys_the_last_stays() {
        let t = SqlType::Map(Box::new(SqlType::Varchar(Some(1))), Box::new(SqlType::Int));
        let mut maps = MapBuilder::new(None, StringViewBuilder::new(), Int32Builder::new());
        for entries in [&[("a", 1), ("bx", 2), ("a", 3), ("by", 4)][..], &[], &[("a", 5)]] {
            for (key, value) in entries {
                maps.keys().append_value(key);
                maps.values().append_value(*value);
            }
            maps.append(true).unwrap();
        }
        let maps: ArrayRef = Arc::new(maps.finish());
        let (made, refused) = run(&maps, &t, false);
        assert_eq!(refused, [] as [usize; 0]);
        let made = made.expect("fewer entries");
        let made = made.as_map();
        assert_eq!(made.value_offsets(), [0, 2, 2, 3]);
        assert_eq!(made.keys().as_string_view().iter().flatten().collect::<Vec<_>>(), ["a", "b", "a"]);
        let values = made.values().as_primitive::<arrow_array::types::Int32Type>();
        assert_eq!(values.values()[..], [3, 4, 5]);
    }
}
