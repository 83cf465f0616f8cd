//! Keys of maps for JSON, whose member names are always text, and addresses, which Arrow's writer takes for bytes.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Fields, Schema, SchemaRef};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use dipper_base::address::{holds_address, is_address};
use dipper_sql::charter::casts::cast_values;

/// Converts the keys of all maps, and addresses, to text, which writers of JSON need: each key becomes the text that a
/// value of its type has in JSON.
///
/// # Errors
/// The error of the cast, if keys have a type without text.
pub fn as_names(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema: SchemaRef = batch.schema();
    let fields: Fields = schema.fields().iter().map(named_by_text).collect();
    if &fields == schema.fields() {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().zip(&fields).map(|(column, field)| match holds_address(column.data_type()) {
        true => cast_values(column, field.data_type()).map_err(|e| ArrowError::ExternalError(Box::new(e))),
        false => cast(column, field.data_type()),
    });
    let columns: Vec<ArrayRef> = columns.collect::<Result<_, _>>()?;
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

fn named_by_text(field: &FieldRef) -> FieldRef {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(named_by_text(item)),
        DataType::LargeList(item) => DataType::LargeList(named_by_text(item)),
        DataType::FixedSizeList(item, length) => DataType::FixedSizeList(named_by_text(item), *length),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(named_by_text).collect()),
        DataType::Map(entries, sorted) => DataType::Map(entries_named_by_text(entries), *sorted),
        other if is_address(other) => DataType::Utf8,
        _ => return Arc::clone(field),
    };
    Arc::new(field.as_ref().clone().with_data_type(data_type))
}

fn entries_named_by_text(entries: &FieldRef) -> FieldRef {
    let DataType::Struct(parts) = entries.data_type() else { return Arc::clone(entries) };
    let part = |(at, part): (usize, &FieldRef)| match part.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Arc::clone(part),
        _ if at == 0 => Arc::new(part.as_ref().clone().with_data_type(DataType::Utf8)),
        _ => named_by_text(part),
    };
    let parts = parts.iter().enumerate().map(part).collect();
    Arc::new(entries.as_ref().clone().with_data_type(DataType::Struct(parts)))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        Array, ArrayRef, FixedSizeBinaryArray, Int32Builder, ListArray, ListBuilder, MapBuilder, StringBuilder,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::Field;
    use arrow::json::LineDelimitedWriter;

    use super::*;

    #[test]
    fn keys_of_every_depth_are_text() {
        let inner = MapBuilder::new(None, Int32Builder::new(), Int32Builder::new());
        let mut lists = ListBuilder::new(MapBuilder::new(None, Int32Builder::new(), inner));
        let map = lists.values();
        map.keys().append_value(1);
        map.values().keys().append_value(2);
        map.values().values().append_value(3);
        map.values().append(true).unwrap();
        map.append(true).unwrap();
        lists.append(true);
        let mut plain = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        plain.keys().append_value("x");
        plain.values().append_value(4);
        plain.append(true).unwrap();
        let (lists, plain): (ArrayRef, ArrayRef) = (Arc::new(lists.finish()), Arc::new(plain.finish()));
        let batch = RecordBatch::try_from_iter([("l", lists), ("p", Arc::clone(&plain))]).unwrap();
        let named = as_names(&batch).unwrap();
        assert_eq!(named.column(1).data_type(), plain.data_type());
        let mut writer = LineDelimitedWriter::new(Vec::new());
        writer.write(&named).unwrap();
        writer.finish().unwrap();
        let text = String::from_utf8(writer.into_inner()).unwrap();
        assert_eq!(text, "{\"l\":[{\"1\":{\"2\":3}}],\"p\":{\"x\":4}}\n");
    }

    #[test]
    fn addresses_are_text() {
        let addresses = || {
            let bytes = [[1_u8, 2, 3, 4], [255; 4]];
            Arc::new(FixedSizeBinaryArray::try_from_iter(bytes.iter()).unwrap()) as ArrayRef
        };
        let item = Arc::new(Field::new_list_field(DataType::FixedSizeBinary(4), true));
        let lists: ArrayRef = Arc::new(ListArray::new(item, OffsetBuffer::from_lengths([2]), addresses(), None));
        let batch = RecordBatch::try_from_iter([("a", addresses().slice(0, 1)), ("l", lists)]).unwrap();
        let mut writer = LineDelimitedWriter::new(Vec::new());
        writer.write(&as_names(&batch).unwrap()).unwrap();
        writer.finish().unwrap();
        let text = String::from_utf8(writer.into_inner()).unwrap();
        assert_eq!(text, "{\"a\":\"1.2.3.4\",\"l\":[\"1.2.3.4\",\"255.255.255.255\"]}\n");
    }
}
