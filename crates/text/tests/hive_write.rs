//! What the Hive writer writes, the reader reads as the same rows.

mod support;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use dipper_text::hive::parse_type;
use dipper_text::{HiveDialect, HiveSerde, HiveTextWriter, LineEnd};
use proptest::prelude::*;
use serde_json::Value;
use support::{cases, definition, read_plainly, value};

fn write(dialect: &HiveDialect, batch: &RecordBatch) -> Result<Vec<u8>, String> {
    let mut writer = HiveTextWriter::try_new(Vec::new(), dialect.clone(), batch.schema()).map_err(|e| e.to_string())?;
    writer.write(batch).map_err(|e| e.to_string())?;
    writer.finish().map_err(|e| e.to_string())
}

/// The rows, with what Hive text cannot tell apart made equal.
fn rows(dialect: &HiveDialect, batch: &RecordBatch) -> Vec<Vec<Value>> {
    let csv = matches!(dialect.serde, HiveSerde::OpenCsv { .. });
    let shown = |row: usize| {
        let columns = batch.columns().iter().zip(batch.schema_ref().fields());
        columns
            .map(|(column, field)| match value(column, row) {
                Value::Null if csv => Value::String(String::new()),
                found => plain(found, field.data_type(), dialect),
            })
            .collect()
    };
    (0..batch.num_rows()).map(shown).collect()
}

/// A collection of one NULL is written as the null sequence; text equal to a null sequence that no escape can tell apart
/// is NULL.
fn plain(value: Value, data_type: &DataType, dialect: &HiveDialect) -> Value {
    match (value, data_type) {
        (Value::Array(items), DataType::List(item)) => {
            let items: Vec<Value> = items.into_iter().map(|v| plain(v, item.data_type(), dialect)).collect();
            if items == [Value::Null] {
                return Value::Null;
            }
            // One element that is written as nothing is no element.
            let nothing = [Value::Array(Vec::new()), Value::String(String::new())];
            let items = if items.len() == 1 && nothing.contains(&items[0]) { Vec::new() } else { items };
            if items.is_empty() && dialect.null_format.is_empty() {
                return Value::Null;
            }
            Value::Array(items)
        }
        (Value::Array(entries), DataType::Map(fields, _)) => {
            let DataType::Struct(fields) = fields.data_type() else { unreachable!() };
            let pair = |entry: Value| {
                let Value::Array(pair) = entry else { unreachable!() };
                let [key, value] = <[Value; 2]>::try_from(pair).unwrap();
                [plain(key, fields[0].data_type(), dialect), plain(value, fields[1].data_type(), dialect)]
            };
            let entries: Vec<[Value; 2]> = entries.into_iter().map(pair).filter(|[key, _]| !key.is_null()).collect();
            if entries.is_empty() && dialect.null_format.is_empty() {
                return Value::Null;
            }
            entries.into_iter().map(|pair| Value::Array(pair.to_vec())).collect()
        }
        (Value::Object(object), DataType::Struct(fields)) => {
            let object: serde_json::Map<String, Value> = fields
                .iter()
                .map(|f| (f.name().clone(), plain(object[f.name()].clone(), f.data_type(), dialect)))
                .collect();
            if fields.len() == 1 && object.values().all(Value::is_null) {
                return Value::Null;
            }
            Value::Object(object)
        }
        (Value::String(text), _) if text.as_bytes() == dialect.null_format && dialect.escape.is_none() => Value::Null,
        (Value::String(text), _) if text.is_empty() && dialect.null_format.is_empty() => Value::Null,
        (Value::Number(number), _) if number.to_string().as_bytes() == dialect.null_format => Value::Null,
        (other, _) => other,
    }
}

/// Rows of every golden case, written and read again. Some tables cannot hold some values: that is an error which says
/// so, never other rows.
#[test]
fn golden_cases_survive() {
    let (mut same, mut refused, mut differ) = (0, Vec::new(), Vec::new());
    for case in cases() {
        let Ok((dialect, schema)) = definition(&case) else { continue };
        let batch = read_plainly(&dialect, &schema, &case.data);
        match write(&dialect, &batch) {
            Err(error) => refused.push(format!("{}: {error}", case.name)),
            Ok(text) => {
                let again = read_plainly(&dialect, &schema, &text);
                if rows(&dialect, &batch) == rows(&dialect, &again) {
                    same += 1;
                } else {
                    let (old, new) = (rows(&dialect, &batch), rows(&dialect, &again));
                    let at = old.iter().zip(&new).position(|(a, b)| a != b);
                    let at = at.unwrap_or(old.len().min(new.len()));
                    let shown = String::from_utf8_lossy(&text).into_owned();
                    differ.push(format!(
                        "{} row {at}: {:?} became {:?}; {shown:?}",
                        case.name,
                        old.get(at),
                        new.get(at)
                    ));
                }
            }
        }
    }
    assert!(differ.is_empty(), "{} differ:\n{}", differ.len(), differ.join("\n"));
    // Refusals are rare and say what is wrong.
    assert!(same > 450, "{same} survive, refused:\n{}", refused.join("\n"));
    for error in &refused {
        assert!(error.contains("cannot be written: it holds") || error.contains("field delimiter"), "{error}");
    }
}

/// Texts that try everything: separators, escapes, line ends, NULL sequences, byte order marks, more than ASCII.
fn text() -> impl Strategy<Value = String> {
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

/// A column of a type and its values in the form of the golden files, with the Hive text for it made by no writer.
fn column(rows: usize) -> impl Strategy<Value = (&'static str, Vec<Value>)> {
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
fn array(field: &Field, values: &[Value]) -> ArrayRef {
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

fn table() -> impl Strategy<Value = (Vec<Arc<Field>>, Vec<Vec<Value>>)> {
    (1usize..6, 1usize..12).prop_flat_map(|(columns, rows)| prop::collection::vec(column(rows), columns)).prop_map(
        |all| {
            let name = |number: usize, text: &str| Arc::new(parse_type(&format!("c{number}"), text).unwrap());
            let fields = all.iter().enumerate().map(|(number, (text, _))| name(number, text)).collect();
            (fields, all.into_iter().map(|(_, values)| values).collect())
        },
    )
}

fn dialects() -> impl Strategy<Value = HiveDialect> {
    let plain = HiveDialect { escape: Some(b'\\'), ..HiveDialect::default() };
    prop_oneof![
        Just(plain.clone()),
        Just(HiveDialect { separators: b",;:\x04\x05\x06".to_vec(), escape: Some(b'^'), ..plain.clone() }),
        Just(HiveDialect { null_format: b"NULL".to_vec(), skip_header: 2, skip_footer: 1, ..plain.clone() }),
        Just(HiveDialect { escape: Some(b'|'), encoding: Some("GB18030".to_owned()), ..plain.clone() }),
        Just(HiveDialect { line_end: LineEnd::Bytes(b"\x1e\x1f".to_vec()), ..plain }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_survive(((fields, values), dialect) in (table(), dialects())) {
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let columns: Vec<ArrayRef> = schema.fields().iter().zip(&values).map(|(f, v)| array(f, v)).collect();
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        // Sliced arrays have offsets of their own.
        let cut = batch.num_rows() / 3;
        for batch in [batch.slice(0, cut), batch.slice(cut, batch.num_rows() - cut)] {
            let text = write(&dialect, &batch).unwrap();
            let again = read_plainly(&dialect, &schema, &text);
            prop_assert_eq!(rows(&dialect, &batch), rows(&dialect, &again), "{:?}", String::from_utf8_lossy(&text));
        }
    }

    #[test]
    fn open_csv_survives(texts in prop::collection::vec(prop::collection::vec(text(), 3), 1..6)) {
        let dialect = HiveDialect {
            serde: HiveSerde::OpenCsv { separator: ',', quote: '"', escape: '\\' },
            ..HiveDialect::default()
        };
        let columns = (0..3).map(|at| {
            let values = texts.iter().map(|row| Some(row[at].replace(['\n', '\r'], "")));
            (format!("c{at}"), Arc::new(StringViewArray::from_iter(values)) as ArrayRef, true)
        });
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let text = write(&dialect, &batch).unwrap();
        let again = read_plainly(&dialect, &batch.schema(), &text);
        prop_assert_eq!(rows(&dialect, &batch), rows(&dialect, &again), "{:?}", String::from_utf8_lossy(&text));
    }
}

fn strings(values: &[&str]) -> RecordBatch {
    RecordBatch::try_from_iter([("s", Arc::new(StringViewArray::from_iter_values(values)) as ArrayRef)]).unwrap()
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let plain = HiveDialect::default();
    for (dialect, value, message) in [
        (plain.clone(), "a\u{1}b", "column s: \"a\\u{1}b\" cannot be written: it holds the byte 0x01"),
        (plain.clone(), "a\nb", "it holds a line end, give"),
        (
            HiveDialect { serde: HiveSerde::MultiDelimit { field_delimiter: b"||".to_vec() }, ..plain.clone() },
            "a||b",
            "makes the field delimiter \"||\" appear",
        ),
        (
            HiveDialect { encoding: Some("GBK".to_owned()), ..plain.clone() },
            "😀",
            "holds '😀', which GBK does not have",
        ),
        (
            HiveDialect { serde: HiveSerde::OpenCsv { separator: ',', quote: '"', escape: '\\' }, ..plain },
            "a\nb",
            "OpenCSVSerde has no form for line ends",
        ),
    ] {
        let error = write(&dialect, &strings(&[value])).unwrap_err();
        assert!(error.replace("; give", ", give").contains(message), "{error}");
    }
}

#[test]
fn forms_are_those_of_hive() {
    let fields = [
        ("a", "double", serde_json::json!([1e7, 0.5, null])),
        ("b", "char(3)", serde_json::json!(["x", "abc", null])),
        ("c", "map<string,int>", serde_json::json!([[["k", 1], ["l", null]], [], null])),
    ];
    let schema = Arc::new(Schema::new(fields.iter().map(|(n, t, _)| parse_type(n, t).unwrap()).collect::<Vec<_>>()));
    let columns = fields.iter().zip(schema.fields()).map(|((_, _, v), f)| array(f, v.as_array().unwrap())).collect();
    let batch = RecordBatch::try_new(schema, columns).unwrap();
    let text = write(&HiveDialect { separators: b"|,:".to_vec(), ..HiveDialect::default() }, &batch).unwrap();
    assert_eq!(String::from_utf8(text).unwrap(), "1.0E7|x  |k:1,l:\\N\n0.5|abc|\n\\N|\\N|\\N\n");

    let times = arrow_array::TimestampNanosecondArray::from(vec![1_500_000_000, -1]);
    let dates = arrow_array::Date32Array::from(vec![0, -719_528]);
    let bytes = arrow_array::BinaryViewArray::from_iter_values([b"hello".as_slice(), b""]);
    let decimals = arrow_array::Decimal128Array::from(vec![5, -12345]).with_precision_and_scale(10, 2).unwrap();
    let batch = RecordBatch::try_from_iter([
        ("t", Arc::new(times) as ArrayRef),
        ("d", Arc::new(dates) as ArrayRef),
        ("b", Arc::new(bytes) as ArrayRef),
        ("n", Arc::new(decimals) as ArrayRef),
    ])
    .unwrap();
    assert_eq!(batch.schema().field(0).data_type(), &DataType::Timestamp(TimeUnit::Nanosecond, None));
    let text = write(&HiveDialect { separators: b"|,:".to_vec(), ..HiveDialect::default() }, &batch).unwrap();
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "1970-01-01 00:00:01.5|1970-01-01|aGVsbG8=|0.05\n1969-12-31 23:59:59.999999999|0000-01-01||-123.45\n"
    );
}
