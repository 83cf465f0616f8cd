//! DATETIME(p) inside arrays, maps and structs: digits of the second that are not shown must not tell two values apart.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray};
use arrow_schema::DataType;
use dipper_base::calendar;
use dipper_base::types::SqlType;

/// Whether a nested type has DATETIME of fewer than six digits inside.
pub(crate) fn has_digits(t: &SqlType) -> bool {
    let holds = |t: &SqlType| matches!(t, SqlType::DateTime(0..6)) || has_digits(t);
    match t {
        SqlType::Array(item) => holds(item),
        SqlType::Map(key, value) => holds(key) || holds(value),
        SqlType::Struct(fields) => fields.iter().any(|(_, t, _)| holds(t)),
        _ => false,
    }
}

/// Returns the values with their times rounded, halves up; `None` if none changes. A time that would be behind the year
/// 9999 is rounded down: keys of maps cannot be NULL.
pub(crate) fn rounded(array: &ArrayRef, t: &SqlType) -> Option<ArrayRef> {
    match (t, array.data_type()) {
        (SqlType::DateTime(digits @ 0..6), DataType::Timestamp(..)) => {
            let unit = 10_i64.pow(6 - u32::from(*digits));
            let times = array.as_primitive_opt::<TimestampMicrosecondType>()?;
            let round = |t: i64| calendar::rounded(t, *digits).unwrap_or_else(|| t.div_euclid(unit) * unit);
            match times.values().iter().all(|t| t % unit == 0) {
                true => None,
                false => Some(Arc::new(times.unary::<_, TimestampMicrosecondType>(round))),
            }
        }
        (SqlType::Array(item), DataType::List(field)) => {
            let list = array.as_list::<i32>();
            let values = rounded(list.values(), item)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Some(Arc::new(ListArray::new(Arc::clone(field), offsets, values, nulls)))
        }
        (SqlType::Map(key, value), DataType::Map(entries, sorted)) => {
            let map = array.as_map();
            let DataType::Struct(fields) = entries.data_type() else { return None };
            let parts = [(map.keys(), key), (map.values(), value)];
            let columns = changed(parts.into_iter().map(|(column, t)| (column, t.as_ref())))?;
            let pairs = StructArray::new(fields.clone(), columns, None);
            let (offsets, nulls) = (map.offsets().clone(), map.nulls().cloned());
            Some(Arc::new(MapArray::new(Arc::clone(entries), offsets, pairs, nulls, *sorted)))
        }
        (SqlType::Struct(types), DataType::Struct(fields)) => {
            let parts = array.as_struct();
            let columns = changed(parts.columns().iter().zip(types).map(|(column, (_, t, _))| (column, t)))?;
            Some(Arc::new(StructArray::new(fields.clone(), columns, parts.nulls().cloned())))
        }
        _ => None,
    }
}

/// Returns the columns with their times rounded; `None` if none changes.
fn changed<'a>(columns: impl Iterator<Item = (&'a ArrayRef, &'a SqlType)>) -> Option<Vec<ArrayRef>> {
    let mut any = false;
    let columns = columns.map(|(column, t)| match rounded(column, t) {
        Some(changed) => {
            any = true;
            changed
        }
        None => Arc::clone(column),
    });
    let columns = columns.collect();
    any.then_some(columns)
}

#[cfg(test)]
mod tests {
    use arrow_array::TimestampMicrosecondArray;
    use dipper_base::calendar::LAST_MICROSECOND;

    use super::*;

    #[test]
    fn times_in_lists_stay_in_the_year_9999() {
        let t = SqlType::Array(Box::new(SqlType::DateTime(0)));
        let DataType::List(field) = t.to_arrow() else { panic!("a list") };
        let list = |values: Vec<Option<i64>>| -> ArrayRef {
            let offsets = arrow_buffer::OffsetBuffer::from_lengths([values.len()]);
            let values = Arc::new(TimestampMicrosecondArray::from(values));
            Arc::new(ListArray::new(Arc::clone(&field), offsets, values, None))
        };
        let given = list(vec![Some(1_499_999), Some(1_500_000), Some(-500_000), None, Some(LAST_MICROSECOND)]);
        let expected = list(vec![Some(1_000_000), Some(2_000_000), Some(0), None, Some(LAST_MICROSECOND - 999_999)]);
        assert_eq!(rounded(&given, &t), Some(expected.clone()));
        assert!(rounded(&expected, &t).is_none(), "nothing changes any more");
    }
}
