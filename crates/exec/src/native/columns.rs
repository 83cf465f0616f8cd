//! Columns and segments of a native table in the order and form of results.

use arrow::datatypes::Field;
use dipper_base::types::SqlType;
use dipper_sql::charter::DIGITS_KEY;
use dipper_sql::functions::{ANALYZER_KEY, described};
use dipper_store::table::schema::{TableColumn, TableSchema};
use dipper_store::table::{SegmentRef, TableState};
use dipper_text::hive::TYPE_KEY;

/// Returns the segments of a snapshot, oldest first, including those of temporary partitions. The value of a row's
/// [`SEGMENT_COLUMN`](super::SEGMENT_COLUMN) is the index of its segment in this list.
pub fn by_age(state: &TableState) -> Vec<SegmentRef<'_>> {
    let mut all: Vec<_> = state.all_segments().collect();
    all.sort_by_key(|s| (s.seq, s.id));
    all
}

/// Whether a nested type may have parts of which Arrow's type lacks something: the digits of DATETIME and TIME, and
/// that texts are documents.
fn says_more(text: &str) -> bool {
    ["time", "json", "variant"].iter().any(|word| text.contains(word))
}

/// Adds the declared type to the metadata of a field that holds structs, if it [says more](says_more) than Arrow's type.
/// Names and comments of struct fields are in Arrow's type already.
fn with_digits(field: Field, text: String) -> Field {
    match says_more(&text) {
        true => field.with_metadata([(DIGITS_KEY.to_string(), text)].into()),
        false => field,
    }
}

/// Returns the field of a column in a result. Its metadata hold what the SQL type says beyond Arrow's type.
pub fn field(column: &TableColumn) -> Field {
    let field = column.field();
    match &column.data_type {
        SqlType::Char(_)
        | SqlType::Varchar(_)
        | SqlType::Json
        | SqlType::Variant
        | SqlType::DateTime(_)
        | SqlType::Hll
        | SqlType::Bitmap
        | SqlType::QuantileState
        | SqlType::AggState(_)
        | SqlType::Time(_) => {
            let text = column.data_type.to_string();
            field.with_metadata([(TYPE_KEY.to_string(), text)].into())
        }
        SqlType::Array(_) | SqlType::Map(..) => match column.data_type.to_string() {
            text if says_more(&text) && !text.contains("struct<") => {
                field.with_metadata([(TYPE_KEY.to_string(), text)].into())
            }
            text => with_digits(field, text),
        },
        SqlType::Struct(_) => with_digits(field, column.data_type.to_string()),
        _ => field,
    }
}

/// Like [`field`], and adds to the metadata the properties by which the table's inverted index splits the column's
/// texts into terms.
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
