//! Addresses as text, because no format of files has IPV4 and IPV6.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use dipper_base::address::holds_address;
use dipper_sql::charter::casts::cast_values;

/// Returns the schema with text in place of addresses.
pub(super) fn schema(schema: &SchemaRef) -> SchemaRef {
    match schema.fields().iter().any(|field| holds_address(field.data_type())) {
        true => Arc::new(Schema::new_with_metadata(
            schema.fields().iter().map(text).collect::<Vec<_>>(),
            schema.metadata().clone(),
        )),
        false => Arc::clone(schema),
    }
}

/// Returns the rows with text in place of addresses.
///
/// # Errors
/// An error if the values cannot be cast, which does not happen for the types that tables have.
pub(super) fn rows(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let (given, wanted) = (batch.schema(), schema(&batch.schema()));
    if Arc::ptr_eq(&given, &wanted) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(wanted.fields());
    let columns = columns.map(|(column, field)| match column.data_type() == field.data_type() {
        true => Ok(Arc::clone(column)),
        false => cast_values(column, field.data_type()).map_err(|e| ArrowError::CastError(e.to_string())),
    });
    let columns = columns.collect::<Result<Vec<_>, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(&wanted), columns, &options)
}

fn text(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        t if !holds_address(t) => return Arc::clone(field),
        DataType::List(item) => DataType::List(text(item)),
        DataType::Map(entries, sorted) => DataType::Map(text(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(text).collect()),
        _ => DataType::Utf8,
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

#[cfg(test)]
mod tests {
    use arrow::array::{Array, ArrayRef, AsArray, FixedSizeBinaryArray, Int32Array};
    use dipper_base::address::V4_BYTES;

    use super::*;

    #[test]
    fn only_addresses_change() {
        let values = [Some([10, 0, 0, 1]), None].into_iter();
        let addresses = FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, V4_BYTES as i32).unwrap();
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter([("a", Arc::new(addresses) as ArrayRef), ("n", numbers)]).unwrap();
        let written = rows(&batch).unwrap();
        assert_eq!(written.schema(), schema(&batch.schema()));
        assert_eq!(written.column(0).as_string::<i32>().value(0), "10.0.0.1");
        assert!(written.column(0).is_null(1));
        assert_eq!(written.column(1), batch.column(1));
    }
}
