//! Nested columns without the metadata of fields within them.
//!
//! A declared `ARRAY<VARCHAR(20)>` stores the length in the metadata of its item field, for the readers of text.
//! Expressions over the column do not keep that metadata, and plans compare the types of both, so a table shows columns
//! without it.

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray, MapArray, RecordBatchOptions, StructArray};
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use dipper_text::scan::RowFilter;

/// Returns a column without the metadata of fields within it; the column's own metadata stay.
pub fn bare(field: &FieldRef) -> FieldRef {
    fn inner(field: &FieldRef) -> FieldRef {
        let data_type = data_type(field.data_type());
        Arc::new(field.as_ref().clone().with_data_type(data_type).with_metadata(HashMap::new()))
    }
    fn data_type(of: &DataType) -> DataType {
        match of {
            DataType::List(item) => DataType::List(inner(item)),
            DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
            DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
            other => other.clone(),
        }
    }
    Arc::new(field.as_ref().clone().with_data_type(data_type(field.data_type())))
}

/// Returns an array's values as a type that differs only in the metadata of fields.
///
/// # Errors
/// `SchemaError` if the types differ in more than metadata.
pub fn bare_array(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    Ok(match (array.data_type(), to) {
        (DataType::List(_), DataType::List(item)) => {
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            let values = bare_array(&values, item.data_type())?;
            Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?)
        }
        (DataType::Struct(_), DataType::Struct(fields)) => {
            let rows = array.len();
            let (_, columns, nulls) = array.as_struct().clone().into_parts();
            let columns = columns.iter().zip(fields).map(|(column, field)| bare_array(column, field.data_type()));
            let columns = columns.collect::<Result<Vec<_>, _>>()?;
            Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, rows)?)
        }
        (DataType::Map(..), DataType::Map(entries, sorted)) => {
            let (_, offsets, values, nulls, _) = array.as_map().clone().into_parts();
            let values: ArrayRef = Arc::new(values);
            let values = bare_array(&values, entries.data_type())?.as_struct().clone();
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, values, nulls, *sorted)?)
        }
        (from, to) => return Err(ArrowError::SchemaError(format!("{from} is not {to}"))),
    })
}

/// A filter over columns that have inner metadata in the file and none in the table.
#[derive(Debug)]
pub struct BareFilter<F> {
    filter: F,
    table: SchemaRef,
}

impl<F: RowFilter> BareFilter<F> {
    /// Makes the filter. `table` begins with the columns of the file.
    pub fn new(filter: F, table: SchemaRef) -> Self {
        BareFilter { filter, table }
    }
}

impl<F: RowFilter> RowFilter for BareFilter<F> {
    fn columns(&self) -> Vec<usize> {
        self.filter.columns()
    }

    fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray, Box<dyn Error + Send + Sync>> {
        let columns = self.filter.columns();
        let fields = || columns.iter().map(|at| &self.table.fields()[*at]);
        if batch.columns().iter().zip(fields()).all(|(column, field)| column.data_type() == field.data_type()) {
            return self.filter.keep(batch);
        }
        let arrays = batch.columns().iter().zip(fields()).map(|(column, field)| bare_array(column, field.data_type()));
        let schema = Arc::new(Schema::new(fields().cloned().collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(schema, arrays.collect::<Result<_, _>>()?, &options)?;
        self.filter.keep(&batch)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{ListBuilder, MapBuilder, StringBuilder};
    use arrow::datatypes::Field;

    use super::*;

    fn noted(name: &str, data_type: DataType) -> Field {
        Field::new(name, data_type, true).with_metadata([("note".to_string(), "x".to_string())].into())
    }

    #[test]
    fn values_stay_and_notes_go() {
        let mut list = ListBuilder::new(StringBuilder::new()).with_field(noted("item", DataType::Utf8));
        list.append_value([Some("a"), None]);
        list.append_null();
        let list: ArrayRef = Arc::new(list.finish());
        let mut map = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new())
            .with_values_field(noted("values", DataType::Utf8));
        for key in ["k", "l"] {
            map.keys().append_value(key);
            map.values().append_value("v");
            map.append(true).unwrap();
        }
        let map: ArrayRef = Arc::new(map.finish());
        let fields: Vec<FieldRef> =
            [&list, &map].iter().map(|array| Arc::new(noted("f", array.data_type().clone()))).collect();
        let all: ArrayRef = Arc::new(StructArray::new(fields.into(), vec![list, map], None));
        let field: FieldRef = Arc::new(noted("all", all.data_type().clone()));
        let plain = bare(&field);
        assert_eq!(plain.metadata(), field.metadata());
        assert!(!format!("{:?}", plain.data_type()).contains("note"));
        let made = bare_array(&all, plain.data_type()).unwrap();
        assert_eq!(made.data_type(), plain.data_type());
        let shown = |array: &ArrayRef| {
            let shown = arrow::util::display::array_value_to_string;
            (0..array.len()).map(|row| shown(array, row).unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(shown(&made), shown(&all));
        assert!(bare_array(&all, &DataType::Utf8).is_err());
    }
}
