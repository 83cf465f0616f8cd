//! Columns of Parquet and Arrow bodies in the types that can be stored: those that a query over such a file has.
//!
//! | a body has | a table gets |
//! |---|---|
//! | lists of other forms (large, of fixed size, views) | `ARRAY` |
//! | bytes of a fixed length | `BINARY`; an address is bytes of fixed length only within dipper |
//! | UUIDs | text |
//! | days in milliseconds | `DATE` |
//! | dictionaries and runs | their values |
//! | instants (timestamps with a zone) | local times in the zone of the load |

use std::sync::Arc;

use arrow::array::timezone::Tz;
use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StringArray, StructArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef};
use chrono::{DateTime, Offset, TimeZone};
use dipper_node::error::{EngineError, Result};
use dipper_node::instants;

/// Key and value by which fields say that their bytes are UUIDs.
pub(crate) const EXTENSION: &str = "ARROW:extension:name";
pub(crate) const UUID: &str = "arrow.uuid";

/// Returns the column of the table-like schema.
///
/// # Errors
/// `Invalid` for a type that no column of a table can take.
pub(crate) fn field(field: &FieldRef) -> Result<FieldRef> {
    let mut made = Field::clone(field).with_data_type(instants::local_type(&plain_type(field)?));
    if is_uuid(field) {
        made.metadata_mut().remove(EXTENSION);
    }
    Ok(Arc::new(made))
}

/// Returns a column in the type that [`field`] gives it; `zone` is that of the load.
///
/// # Errors
/// As [`field`]; Arrow's error if values do not have the form of their type.
pub(crate) fn column(field: &Field, array: &ArrayRef, zone: Tz) -> Result<ArrayRef> {
    let plain = plain_values(field, array)?;
    let local = |us: i64| {
        let at = DateTime::from_timestamp_micros(us)?;
        let offset = zone.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc();
        us.checked_add(i64::from(offset) * 1_000_000)
    };
    instants::local(&plain, &local)
}

fn is_uuid(field: &Field) -> bool {
    field.metadata().get(EXTENSION).is_some_and(|name| name == UUID)
        && *field.data_type() == DataType::FixedSizeBinary(16)
}

fn plain_type(field: &Field) -> Result<DataType> {
    let inner =
        |field: &FieldRef| Ok::<_, EngineError>(Arc::new(Field::clone(field).with_data_type(plain_type(field)?)));
    Ok(match field.data_type() {
        DataType::FixedSizeBinary(_) if is_uuid(field) => DataType::Utf8,
        DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Date64 => DataType::Date32,
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => DataType::List(inner(item)?),
        DataType::Map(entries, sorted) => DataType::Map(inner(entries)?, *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect::<Result<_>>()?),
        DataType::Dictionary(_, value) => plain_type(&Field::new("", value.as_ref().clone(), true))?,
        DataType::RunEndEncoded(_, values) => plain_type(values)?,
        DataType::Union(..) => {
            return Err(EngineError::invalid(format!(
                "column {} of the body is a union of types, which no column of a table can take",
                field.name()
            )));
        }
        other => other.clone(),
    })
}

fn plain_values(field: &Field, array: &ArrayRef) -> Result<ArrayRef> {
    let plain = plain_type(field)?;
    if plain == *field.data_type() {
        return Ok(Arc::clone(array));
    }
    Ok(match (field.data_type(), &plain) {
        (DataType::FixedSizeBinary(_), DataType::Utf8) => {
            let hyphened = |id: &[u8]| {
                let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
                [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
            };
            let ids = array.as_fixed_size_binary().iter().map(|id| id.map(hyphened));
            Arc::new(ids.collect::<StringArray>())
        }
        (
            DataType::List(from)
            | DataType::LargeList(from)
            | DataType::FixedSizeList(from, _)
            | DataType::ListView(from)
            | DataType::LargeListView(from),
            DataType::List(item),
        ) => {
            let lists = cast(array, &DataType::List(Arc::clone(from)))?;
            let (_, offsets, values, nulls) = lists.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, plain_values(from, &values)?, nulls)?)
        }
        (DataType::Map(from, _), DataType::Map(entries, sorted)) => {
            let (_, offsets, pairs, nulls, _) = array.as_map().clone().into_parts();
            let pairs: ArrayRef = Arc::new(pairs);
            let pairs = plain_values(from, &pairs)?.as_struct().clone();
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *sorted)?)
        }
        (DataType::Struct(from), DataType::Struct(fields)) => {
            let (_, columns, nulls) = array.as_struct().clone().into_parts();
            let columns = from.iter().zip(&columns).map(|(field, column)| plain_values(field, column));
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, array.len())?)
        }
        (DataType::Dictionary(_, value), _) => {
            let values = cast(array, value)?;
            plain_values(&Field::new("", value.as_ref().clone(), true), &values)?
        }
        (DataType::RunEndEncoded(_, values), _) => plain_values(values, &cast(array, values.data_type())?)?,
        _ => cast(array, &plain)?,
    })
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Date64Array, DictionaryArray, FixedSizeBinaryArray, FixedSizeListArray, Int64Array, LargeListArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Int32Type;
    use arrow::util::display::array_value_to_string;

    use super::*;

    fn shown(named: Field, array: ArrayRef) -> Vec<String> {
        let named = Arc::new(named.with_data_type(array.data_type().clone()));
        let made = column(&named, &array, "+00:00".parse().expect("a zone")).expect("a column");
        assert_eq!(made.data_type(), field(&named).expect("a field").data_type());
        (0..made.len()).map(|row| array_value_to_string(&made, row).expect("a text")).collect()
    }

    #[test]
    fn columns_have_types_of_tables() {
        let plain = || Field::new("c", DataType::Null, true);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let item = || Arc::new(Field::new_list_field(DataType::Int64, true));
        let large = LargeListArray::new(item(), OffsetBuffer::from_lengths([1, 0, 3]), Arc::clone(&numbers), None);
        assert_eq!(shown(plain(), Arc::new(large.clone())), ["[1]", "[]", "[2, 3, 4]"]);
        let pairs = FixedSizeListArray::new(item(), 2, Arc::clone(&numbers), None);
        assert_eq!(shown(plain(), Arc::new(pairs)), ["[1, 2]", "[3, 4]"]);
        let outer = Arc::new(Field::new_list_field(large.data_type().clone(), true));
        let nested = LargeListArray::new(outer, OffsetBuffer::from_lengths([2, 1]), Arc::new(large), None);
        assert_eq!(shown(plain(), Arc::new(nested)), ["[[1], []]", "[[2, 3, 4]]"]);

        let bytes = || FixedSizeBinaryArray::try_from_iter([[0x31_u8; 16], [0xFF; 16]].iter()).expect("bytes");
        assert_eq!(shown(plain(), Arc::new(bytes()))[0], "31".repeat(16));
        let id = plain().with_metadata([(EXTENSION.to_string(), UUID.to_string())].into());
        let ids = shown(id, Arc::new(bytes()));
        assert_eq!(ids, ["31313131-3131-3131-3131-313131313131", "ffffffff-ffff-ffff-ffff-ffffffffffff"]);

        assert_eq!(shown(plain(), Arc::new(Date64Array::from(vec![86_400_000]))), ["1970-01-02"]);
        let words: DictionaryArray<Int32Type> = ["a", "b", "a"].into_iter().collect();
        assert_eq!(shown(plain(), Arc::new(words)), ["a", "b", "a"]);
    }
}
