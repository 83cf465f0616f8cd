//! Routing of one row by its values alone.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Int8Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType,
    TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, StringViewArray, new_null_array};
use arrow_buffer::i256;
use dipper_base::types::SqlType;

use super::{Lookup, NOWHERE, RouteError, Router, find_range, hash};
use crate::key::KeyValue;
use crate::table::schema::TableSchema;

impl Router {
    /// Returns the tablet of a row; `None` if no partition takes it. `value` returns the row's values by position of
    /// their columns in the table. It is called for partition and distribution columns only, and must return values of
    /// their types.
    ///
    /// The number is one of [`tablet`](Self::tablet).
    ///
    /// # Errors
    /// [`RouteError::Value`] for a value that is not of its column's type.
    ///
    /// # Panics
    /// If the distribution is random: a row's tablet does not follow from its values then.
    pub fn route_one<'v>(
        &self,
        schema: &TableSchema,
        value: impl Fn(usize) -> KeyValue<'v>,
    ) -> Result<Option<u32>, RouteError> {
        let place = match (&self.lookup, &self.keys) {
            (Lookup::All, _) | (_, None) => 0,
            (lookup, Some((at, converter))) => {
                let columns = at.iter().map(|c| array(&schema.columns[*c].data_type, value(*c)));
                let rows = converter.convert_columns(&columns.collect::<Result<Vec<_>, _>>()?)?;
                let key = rows.row(0);
                match lookup {
                    Lookup::Range(ranges) => find_range(ranges, key.as_ref(), &mut 0),
                    Lookup::List(lists) => lists.get(key.as_ref()).copied().unwrap_or(NOWHERE),
                    Lookup::All => 0,
                }
            }
        };
        let Some(place) = self.places.get(place as usize) else { return Ok(None) };
        let buckets = place.partition.buckets.max(1);
        if buckets == 1 {
            return Ok(Some(place.first));
        }
        let columns = self.hashed.as_ref().expect("rows of random distribution are not routed by their values");
        let mut all = columns.iter().map(|(_, c)| hash::hash_value(&value(*c)));
        let first = all.next().unwrap_or(0);
        Ok(Some(place.first + hash::bucket(all.fold(first, hash::combine), buckets)))
    }
}

/// Returns an array of one value.
fn array(data_type: &SqlType, value: KeyValue<'_>) -> Result<ArrayRef, RouteError> {
    let wanted = data_type.to_arrow();
    let wrong = || RouteError::Value { column: None, value: format!("{value:?}"), expected: data_type.to_string() };
    fn one<T: ArrowPrimitiveType>(value: T::Native, wanted: arrow_schema::DataType) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_value(value, 1).with_data_type(wanted))
    }
    Ok(match (data_type, value) {
        (_, KeyValue::Null) => new_null_array(&wanted, 1),
        (SqlType::Boolean, KeyValue::Bool(v)) => Arc::new(BooleanArray::from(vec![v])),
        (SqlType::TinyInt, KeyValue::Int(v)) => one::<Int8Type>(v.try_into().map_err(|_| wrong())?, wanted),
        (SqlType::SmallInt, KeyValue::Int(v)) => one::<Int16Type>(v.try_into().map_err(|_| wrong())?, wanted),
        (SqlType::Int, KeyValue::Int(v)) => one::<Int32Type>(v.try_into().map_err(|_| wrong())?, wanted),
        (SqlType::BigInt, KeyValue::Int(v)) => one::<Int64Type>(v, wanted),
        (SqlType::UnsignedBigInt, KeyValue::UInt(v)) => one::<UInt64Type>(v, wanted),
        (SqlType::Date, KeyValue::Int(v)) => one::<Date32Type>(v.try_into().map_err(|_| wrong())?, wanted),
        (SqlType::DateTime(_), KeyValue::Int(v)) => one::<TimestampMicrosecondType>(v, wanted),
        (SqlType::Time(_), KeyValue::Int(v)) => one::<Time64MicrosecondType>(v, wanted),
        (SqlType::LargeInt, KeyValue::Decimal(v)) => one::<Decimal256Type>(i256::from_i128(v), wanted),
        (SqlType::Decimal(p, _), KeyValue::Decimal(v)) if *p <= 38 => one::<Decimal128Type>(v, wanted),
        (SqlType::Decimal(..), KeyValue::Decimal256(v)) => one::<Decimal256Type>(v, wanted),
        (SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String, KeyValue::Str(v)) => {
            Arc::new(StringViewArray::from(vec![v]))
        }
        _ => return Err(wrong()),
    })
}
