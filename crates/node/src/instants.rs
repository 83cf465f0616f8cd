//! Instants: times that files store in UTC, and clients see by the clock of their zone. Also inside of arrays, maps and
//! structs.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit, TimestampMicrosecondType};

use crate::error::Result;

/// Type of times without a zone.
pub const WALL_CLOCK: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Whether values of a type are instants, or hold some.
pub fn holds_some(t: &DataType) -> bool {
    match t {
        DataType::Timestamp(_, Some(_)) => true,
        DataType::List(item) => holds_some(item.data_type()),
        DataType::Map(entries, _) => holds_some(entries.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| holds_some(field.data_type())),
        _ => false,
    }
}

/// Returns the type of values whose instants are times by the clock.
pub fn local_type(t: &DataType) -> DataType {
    let field = |field: &FieldRef| {
        let local = local_type(field.data_type());
        Arc::new(Field::clone(field).with_data_type(local))
    };
    match t {
        DataType::Timestamp(_, Some(_)) => WALL_CLOCK,
        DataType::List(item) => DataType::List(field(item)),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        other => other.clone(),
    }
}

/// Converts the instants of values to times by the clock; `to_local` does so for one, in microseconds, and gives `None`
/// for a time that there is not. Other values stay.
///
/// # Errors
/// Arrow's error if a map would have a key that is NULL.
pub fn local(array: &ArrayRef, to_local: &dyn Fn(i64) -> Option<i64>) -> Result<ArrayRef> {
    if !holds_some(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    let fields_of = |t: &DataType| match local_type(t) {
        DataType::List(item) | DataType::Map(item, _) => item,
        _ => unreachable!("the type of an array of lists or maps"),
    };
    Ok(match array.data_type() {
        DataType::List(_) => {
            let item = fields_of(array.data_type());
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::try_new(item, offsets, local(&values, to_local)?, nulls)?)
        }
        DataType::Map(_, sorted) => {
            let entries = fields_of(array.data_type());
            let (_, offsets, pairs, nulls, _) = array.as_map().clone().into_parts();
            let pairs: ArrayRef = Arc::new(pairs);
            let pairs = local(&pairs, to_local)?.as_struct().clone();
            Arc::new(MapArray::try_new(entries, offsets, pairs, nulls, *sorted)?)
        }
        DataType::Struct(_) => {
            let (fields, columns, nulls) = array.as_struct().clone().into_parts();
            let DataType::Struct(fields) = local_type(&DataType::Struct(fields)) else {
                unreachable!("the type of a struct")
            };
            let columns = columns.iter().map(|column| local(column, to_local)).collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields, columns, nulls, array.len())?)
        }
        _ => {
            let utc = cast(array, &WALL_CLOCK)?;
            Arc::new(utc.as_primitive::<TimestampMicrosecondType>().unary_opt::<_, TimestampMicrosecondType>(to_local))
        }
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::TimestampMicrosecondArray;
    use arrow::buffer::{NullBuffer, OffsetBuffer};
    use arrow::datatypes::Fields;

    use super::*;

    #[test]
    fn instants_inside_of_all_kinds_of_values() {
        let times = |values: [i64; 3]| TimestampMicrosecondArray::from(values.to_vec());
        let instants = |values: [i64; 3]| -> ArrayRef { Arc::new(times(values).with_timezone("UTC")) };
        let hour = |at: i64| at.checked_add(3_600_000_000).filter(|_| at >= 0);
        let utc = || DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        let pair = Fields::from(vec![Field::new("key", utc(), false), Field::new("value", utc(), true)]);
        let pairs = StructArray::new(pair.clone(), vec![instants([0, 1, 2]), instants([3, 4, -1])], None);
        let entries = Arc::new(Field::new("entries", DataType::Struct(pair), false));
        let nulls = || Some(NullBuffer::from(vec![true, false]));
        let maps: ArrayRef =
            Arc::new(MapArray::new(entries, OffsetBuffer::from_lengths([1, 2]), pairs, nulls(), false));
        let item = Arc::new(Field::new_list_field(maps.data_type().clone(), true));
        let lists: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([2]), maps, None));
        assert!(holds_some(lists.data_type()));

        let found = local(&lists, &hour).expect("local times");
        assert_eq!(found.data_type(), &local_type(lists.data_type()));
        let maps = found.as_list::<i32>().values().as_map();
        assert_eq!((maps.is_null(1), maps.value_length(0)), (true, 1));
        let values = |array: &ArrayRef| array.as_primitive::<TimestampMicrosecondType>().iter().collect::<Vec<_>>();
        assert_eq!(values(maps.keys()), [0, 1, 2].map(hour));
        assert_eq!(values(maps.values()), [3, 4, -1].map(hour));

        let plain: ArrayRef = Arc::new(times([0, 1, 2]));
        assert!(Arc::ptr_eq(&local(&plain, &hour).expect("the times"), &plain));
    }
}
