//! Random tables.

use std::sync::Arc;

use arrow_array::{ArrayRef, StringViewArray};
use arrow_schema::{DataType, Field};
use dipper_text::hive::parse_type;
use proptest::prelude::*;
use serde_json::Value;

/// Texts that try everything: separators, escapes, line ends, NULL sequences, byte order marks, more than ASCII.
pub fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("\\".to_owned()),
        Just("\\N".to_owned()),
        Just("\n".to_owned()),
        Just("\r".to_owned()),
        Just("\u{1}".to_owned()),
        Just("\u{2}\u{3}".to_owned()),
        Just("\u{4}\u{8}".to_owned()),
        Just("n".to_owned()),
        Just("NULL".to_owned()),
        Just("\u{FEFF}".to_owned()),
        Just(",;:|".to_owned()),
        "[a-z0-9 ]{0,6}",
        "\\PC{0,3}",
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

/// A Hive type and values of it, in the form of the golden files. None that Hive text cannot tell apart.
pub fn column(rows: usize) -> impl Strategy<Value = (&'static str, Vec<Value>)> {
    fn values(rows: usize, one: impl Strategy<Value = Value>) -> impl Strategy<Value = Vec<Value>> {
        prop::collection::vec(prop_oneof![1 => Just(Value::Null), 6 => one], rows)
    }
    let texts = || text().prop_map(Value::from);
    let list = || prop::collection::vec(prop_oneof![1 => Just(Value::Null), 5 => text().prop_map(Value::from)], 0..5);
    prop_oneof![
        values(rows, texts()).prop_map(|v| ("string", v)),
        values(
            rows,
            text().prop_map(|t| t
                .trim_end_matches(' ')
                .chars()
                .take(9)
                .collect::<String>()
                .trim_end_matches(' ')
                .into())
        )
        .prop_map(|v| ("char(9)", v)),
        values(rows, text().prop_map(|t| t.chars().take(9).collect::<String>().into())).prop_map(|v| ("varchar(9)", v)),
        values(rows, any::<i8>().prop_map(Value::from)).prop_map(|v| ("tinyint", v)),
        values(rows, any::<i64>().prop_map(Value::from)).prop_map(|v| ("bigint", v)),
        values(rows, any::<f64>().prop_map(|f| if f.is_finite() { f.into() } else { "NaN".into() }))
            .prop_map(|v| ("double", v)),
        values(rows, any::<bool>().prop_map(Value::from)).prop_map(|v| ("boolean", v)),
        // One element that is NULL or empty cannot be told from NULL or no element.
        values(rows, list().prop_map(|l| if l.len() == 1 { vec![l[0].clone(), "x".into()] } else { l }.into()))
            .prop_map(|v| ("array<string>", v)),
        values(
            rows,
            prop::collection::btree_map(text(), any::<i32>(), 0..4)
                .prop_map(|m| { m.into_iter().map(|(k, v)| Value::Array(vec![k.into(), v.into()])).collect() })
        )
        .prop_map(|v| ("map<string,int>", v)),
        values(
            rows,
            (text(), any::<i16>(), list()).prop_map(|(a, b, c)| {
                let c = if c.len() == 1 { Vec::new() } else { c };
                serde_json::json!({"a": a, "b": b, "c": c})
            })
        )
        .prop_map(|v| ("struct<a:string,b:smallint,c:array<string>>", v)),
    ]
}

/// Arrays from values, by way of builders that know nothing of Hive text.
pub fn array(field: &Field, values: &[Value]) -> ArrayRef {
    use arrow_array::builder::*;
    match field.data_type() {
        DataType::Utf8View => Arc::new(StringViewArray::from_iter(values.iter().map(Value::as_str))),
        DataType::Int8 => {
            Arc::new(arrow_array::Int8Array::from_iter(values.iter().map(|v| v.as_i64().map(|v| v as i8))))
        }
        DataType::Int16 => {
            Arc::new(arrow_array::Int16Array::from_iter(values.iter().map(|v| v.as_i64().map(|v| v as i16))))
        }
        DataType::Int32 => {
            Arc::new(arrow_array::Int32Array::from_iter(values.iter().map(|v| v.as_i64().map(|v| v as i32))))
        }
        DataType::Int64 => Arc::new(arrow_array::Int64Array::from_iter(values.iter().map(Value::as_i64))),
        DataType::Float64 => Arc::new(arrow_array::Float64Array::from_iter(values.iter().map(|v| match v {
            Value::String(_) => Some(f64::NAN),
            other => other.as_f64(),
        }))),
        DataType::Boolean => Arc::new(arrow_array::BooleanArray::from_iter(values.iter().map(Value::as_bool))),
        DataType::List(item) => {
            let mut builder = ListBuilder::new(StringViewBuilder::new()).with_field(item.clone());
            for value in values {
                for item in value.as_array().into_iter().flatten() {
                    builder.values().append_option(item.as_str());
                }
                builder.append(!value.is_null());
            }
            Arc::new(builder.finish())
        }
        DataType::Map(entries, _) => {
            let DataType::Struct(fields) = entries.data_type() else { unreachable!() };
            let pairs = |at: usize| {
                let all = values.iter().filter_map(Value::as_array).flatten();
                array(&fields[at], &all.map(|pair| pair[at].clone()).collect::<Vec<_>>())
            };
            let content = arrow_array::StructArray::new(fields.clone(), vec![pairs(0), pairs(1)], None);
            let lengths = values.iter().map(|v| v.as_array().map_or(0, Vec::len));
            let nulls = arrow_buffer::NullBuffer::from_iter(values.iter().map(|v| !v.is_null()));
            let offsets = arrow_buffer::OffsetBuffer::from_lengths(lengths);
            Arc::new(arrow_array::MapArray::new(entries.clone(), offsets, content, Some(nulls), false))
        }
        DataType::Struct(fields) => {
            let one = |field: &Arc<Field>| {
                array(
                    field,
                    &values.iter().map(|v| v.get(field.name()).cloned().unwrap_or_default()).collect::<Vec<_>>(),
                )
            };
            let nulls = arrow_buffer::NullBuffer::from_iter(values.iter().map(|v| !v.is_null()));
            Arc::new(arrow_array::StructArray::new(fields.clone(), fields.iter().map(one).collect(), Some(nulls)))
        }
        other => panic!("{other} is not generated"),
    }
}

/// The columns of a table and their values, column by column.
pub fn table() -> impl Strategy<Value = (Vec<Arc<Field>>, Vec<Vec<Value>>)> {
    (1usize..6, 1usize..12).prop_flat_map(|(columns, rows)| prop::collection::vec(column(rows), columns)).prop_map(
        |all| {
            let name = |number: usize, text: &str| Arc::new(parse_type(&format!("c{number}"), text).unwrap());
            let fields = all.iter().enumerate().map(|(number, (text, _))| name(number, text)).collect();
            (fields, all.into_iter().map(|(_, values)| values).collect())
        },
    )
}
