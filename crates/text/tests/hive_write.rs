//! The reader reads the output of the Hive writer as the same rows.

mod support;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Schema, SchemaRef, TimeUnit};
use dipper_text::hive::parse_type;
use dipper_text::{HiveDialect, HiveSerde, HiveTextWriter, LineEnd};
use proptest::prelude::*;
use serde_json::Value;
use support::random::{array, table, text};
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

/// A collection of one NULL is written as the null sequence; text that equals a null sequence is NULL if no escape can
/// tell them apart.
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
    assert!(same > 440, "{same} survive, refused:\n{}", refused.join("\n"));
    for error in &refused {
        let reasons = ["cannot be written: it holds", "field delimiter", "Hive text has no form for"];
        assert!(reasons.iter().any(|reason| error.contains(reason)), "{error}");
    }
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
fn collections_that_read_back_as_others_are_errors() {
    for (data_type, value, message) in [
        ("array<string>", serde_json::json!([""]), "which would be an empty ARRAY"),
        ("array<string>", serde_json::json!([null]), "a value that is written like NULL"),
    ] {
        let field = parse_type("c", data_type).unwrap();
        let column = array(&field, &[value]);
        let batch = RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![column]).unwrap();
        let error = write(&HiveDialect::default(), &batch).unwrap_err();
        assert!(error.contains(message), "{error}");
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
