//! Columns and segments of a native table in the order and form of results.

use arrow::datatypes::Field;
use dipper_base::types::SqlType;
use dipper_sql::charter::DIGITS_KEY;
use dipper_sql::functions::{ANALYZER_KEY, described};
use dipper_store::table::schema::{TableColumn, TableSchema};
use dipper_store::table::{SegmentRef, TableState};
use dipper_text::hive::TYPE_KEY;

/// The segments of a snapshot, oldest first, those of temporary partitions among them. A row's [`SEGMENT_COLUMN`](super::SEGMENT_COLUMN) is the place of its segment in this list.
pub fn by_age(state: &TableState) -> Vec<SegmentRef<'_>> {
    let mut all: Vec<_> = state.all_segments().collect();
    all.sort_by_key(|s| (s.seq, s.id));
    all
}

/// A field that holds structs, with the digits of DATETIME in them. It has their names and comments from Arrow's type.
fn with_digits(field: Field, text: String) -> Field {
    match text.contains("datetime") {
        true => field.with_metadata([(DIGITS_KEY.to_string(), text)].into()),
        false => field,
    }
}

/// A column in a result. What its SQL type says beyond Arrow's is in the metadata.
pub fn field(column: &TableColumn) -> Field {
    let field = column.field();
    match &column.data_type {
        SqlType::Char(_)
        | SqlType::Varchar(_)
        | SqlType::Json
        | SqlType::DateTime(_)
        | SqlType::Hll
        | SqlType::Bitmap
        | SqlType::Time(_) => {
            let text = column.data_type.to_string();
            field.with_metadata([(TYPE_KEY.to_string(), text)].into())
        }
        SqlType::Array(_) | SqlType::Map(..) => match column.data_type.to_string() {
            // The digits of DATETIME.
            text if text.contains("datetime") && !text.contains("struct<") => {
                field.with_metadata([(TYPE_KEY.to_string(), text)].into())
            }
            text => with_digits(field, text),
        },
        SqlType::Struct(_) => with_digits(field, column.data_type.to_string()),
        _ => field,
    }
}

/// As [`field`], with the properties by which an inverted index of the table cuts the column's texts.
pub fn field_of(schema: &TableSchema, column: &TableColumn) -> Field {
    let field = field(column);
    let cuts = |key: &str, value: &str| {
        matches!(key, "parser" | "built_in_analyzer" | "analyzer" | "normalizer") && !value.eq_ignore_ascii_case("none")
    };
    let index = schema.indexes.iter().find(|index| {
        matches!(index.kind.as_str(), "inverted" | "gin")
            && index.columns == [column.id]
            && index.properties.iter().any(|(key, value)| cuts(&key.to_ascii_lowercase(), value))
    });
    let Some(index) = index else { return field };
    let mut metadata = field.metadata().clone();
    metadata.insert(ANALYZER_KEY.to_string(), described(&index.properties));
    field.with_metadata(metadata)
}
