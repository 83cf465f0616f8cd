//! Columns of another writer's file: as they are decoded, and as a table over the file has them.
//!
//! A table has DATETIME(6) for all times finer than milliseconds, text for UUIDs, BINARY for other bytes of a fixed
//! length, and intervals whole.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, IntervalUnit, TimeUnit};
use parquet::basic::Type;
use parquet::schema::types::SchemaDescriptor;

use super::footer::Bytes;
use super::read::viewed;

/// Key under which a field notes the meaning of its bytes.
const STAND_FOR: &str = "dipper.bytes";

/// Returns the fields as they are decoded: top-level strings as views or not, INT96 as instants in microseconds, and
/// the meaning of bytes of fixed length noted in the metadata.
pub(super) fn decoded(
    fields: &Fields,
    schema: &SchemaDescriptor,
    bytes: &HashMap<usize, Bytes>,
    views: bool,
) -> Fields {
    let mut leaves = Leaves { schema, bytes, next: 0 };
    fields.iter().map(|field| Arc::new(hinted(&leaves.field(field), views))).collect()
}

/// Returns the fields with the times of INT96 as instants in UTC; `None` if there are none.
///
/// Parquet does not say in which zone the writer's clock was. Hive and Spark write UTC, and Doris and StarRocks read the
/// times as such.
pub fn int96_as_instants(fields: &Fields, schema: &SchemaDescriptor) -> Option<Fields> {
    let has_some = schema.columns().iter().any(|column| column.physical_type() == Type::INT96);
    let mut leaves = Leaves { schema, bytes: &HashMap::new(), next: 0 };
    has_some.then(|| fields.iter().map(|field| Arc::new(leaves.field(field))).collect())
}

/// Leaves in the order that both schemas share.
struct Leaves<'a> {
    schema: &'a SchemaDescriptor,
    bytes: &'a HashMap<usize, Bytes>,
    next: usize,
}

impl Leaves<'_> {
    fn field(&mut self, field: &FieldRef) -> Field {
        let made = inside(field, &mut |inner| self.field(inner));
        if field.data_type().is_nested() {
            return made;
        }
        let leaf = self.next;
        self.next += 1;
        let is_int96 = leaf < self.schema.num_columns() && self.schema.column(leaf).physical_type() == Type::INT96;
        match (field.data_type(), self.bytes.get(&leaf)) {
            // Takes precedence over the writer's note of its own types.
            (_, Some(bytes)) => {
                let mut metadata = made.metadata().clone();
                metadata.insert(STAND_FOR.into(), format!("{bytes:?}"));
                let length = if *bytes == Bytes::Uuid { 16 } else { 12 };
                made.with_data_type(DataType::FixedSizeBinary(length)).with_metadata(metadata)
            }
            (DataType::Timestamp(..), _) if is_int96 => {
                made.with_data_type(DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())))
            }
            _ => made,
        }
    }
}

/// Returns the field with each of its direct children made anew.
fn inside(field: &Field, make: &mut dyn FnMut(&FieldRef) -> Field) -> Field {
    let data_type = match field.data_type() {
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(|f| Arc::new(make(f))).collect()),
        DataType::List(f) => DataType::List(Arc::new(make(f))),
        DataType::LargeList(f) => DataType::LargeList(Arc::new(make(f))),
        DataType::ListView(f) => DataType::ListView(Arc::new(make(f))),
        DataType::LargeListView(f) => DataType::LargeListView(Arc::new(make(f))),
        DataType::FixedSizeList(f, n) => DataType::FixedSizeList(Arc::new(make(f)), *n),
        DataType::Map(f, sorted) => DataType::Map(Arc::new(make(f)), *sorted),
        other => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

/// Returns the field with top-level strings as views or not.
fn hinted(field: &Field, views: bool) -> Field {
    let data_type = match (views, field.data_type()) {
        (true, DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary) => {
            return viewed(field);
        }
        // Bytes of a fixed length become text or bytes of any length.
        (_, DataType::FixedSizeBinary(_)) if views => {
            let mut metadata = field.metadata().clone();
            metadata.insert(VIEWS.into(), String::new());
            return field.clone().with_metadata(metadata);
        }
        (false, DataType::Utf8View) => DataType::Utf8,
        (false, DataType::BinaryView) => DataType::Binary,
        (_, other) => other.clone(),
    };
    field.clone().with_data_type(data_type)
}

/// Key of fields whose text is read as views.
const VIEWS: &str = "dipper.views";

/// Returns the field as a table has it.
pub(super) fn shown(field: &Field) -> Field {
    let mut made = inside(field, &mut |inner| shown(inner));
    let stands_for = |bytes: Bytes| field.metadata().get(STAND_FOR).is_some_and(|noted| *noted == format!("{bytes:?}"));
    let data_type = match field.data_type() {
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::FixedSizeBinary(16) if stands_for(Bytes::Uuid) => match field.metadata().contains_key(VIEWS) {
            true => DataType::Utf8View,
            false => DataType::Utf8,
        },
        DataType::FixedSizeBinary(12) if stands_for(Bytes::Interval) => DataType::Interval(IntervalUnit::MonthDayNano),
        // Bytes of a fixed length are addresses to everything above.
        DataType::FixedSizeBinary(_) if field.metadata().contains_key(VIEWS) => DataType::BinaryView,
        DataType::FixedSizeBinary(_) => DataType::Binary,
        _ => made.data_type().clone(),
    };
    let mut metadata = std::mem::take(made.metadata_mut());
    metadata.retain(|key, _| key != STAND_FOR && key != VIEWS);
    made.with_data_type(data_type).with_metadata(metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_have_types_of_sql() {
        let uuid = HashMap::from([(STAND_FOR.to_string(), "Uuid".to_string())]);
        let id = Field::new("id", DataType::FixedSizeBinary(16), true).with_metadata(uuid);
        let at = Field::new("at", DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())), true);
        let bytes = Field::new("b", DataType::FixedSizeBinary(16), true);
        let inner = Fields::from(vec![id.clone(), at.clone(), bytes.clone()]);
        let list = Field::new("l", DataType::List(Arc::new(Field::new("item", DataType::Struct(inner), true))), true);
        let DataType::List(item) = shown(&list).data_type().clone() else { panic!() };
        let DataType::Struct(found) = item.data_type() else { panic!() };
        let types: Vec<_> = found.iter().map(|f| f.data_type().clone()).collect();
        let micros = DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()));
        assert_eq!(types, [DataType::Utf8, micros, DataType::Binary]);
        assert!(found.iter().all(|f| f.metadata().is_empty()));
        assert_eq!(shown(&hinted(&id, true)).data_type(), &DataType::Utf8View);
        assert_eq!(shown(&hinted(&bytes, true)).data_type(), &DataType::BinaryView);
    }
}
