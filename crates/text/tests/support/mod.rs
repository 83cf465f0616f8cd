//! Helpers shared by the tests of Hive text: golden cases, a naive line reader, honest comparison.
#![allow(dead_code)]

pub mod random;

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, RecordBatch, RecordBatchOptions};
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use base64::Engine as _;
use dipper_text::hive::{converter, datetime, line_splitter, parse_type};
use dipper_text::{
    BadValues, Compression, Cx, Dialect, FileInput, HiveDialect, InvalidUtf8, LineEnd, MemorySource, Scan, ScanOptions,
    ScanQueue, Span, Strings, TextBlock,
};
use serde_json::Value;

/// One line of `tests/golden/hive_text/cases.jsonl`.
pub struct Case {
    pub name: String,
    pub serde: String,
    pub serde_properties: Vec<(String, String)>,
    pub table_properties: Vec<(String, String)>,
    pub session: Vec<(String, String)>,
    pub columns: Vec<(String, String)>,
    pub data: Vec<u8>,
    /// `None`: Hive refuses.
    pub expect: Option<Vec<Value>>,
}

pub fn cases() -> Vec<Case> {
    cases_at("../../tests/golden/hive_text/cases.jsonl")
}

/// The random cases beside them.
pub fn random_cases() -> Vec<Case> {
    cases_at("../../tests/golden/hive_text_random/cases.jsonl")
}

fn cases_at(path: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(path).expect("the golden cases lie in the repository");
    text.lines()
        .map(|line| {
            let value: Value = serde_json::from_str(line).expect("a JSON object a line");
            let string = |value: &Value| value.as_str().expect("a string").to_owned();
            let map = |key: &str| -> Vec<(String, String)> {
                let object = value[key].as_object().expect("an object");
                object.iter().map(|(k, v)| (k.clone(), string(v))).collect()
            };
            let columns = value["columns"].as_array().expect("a list");
            assert!(value.get("expect").is_some() != value.get("error").is_some());
            Case {
                name: string(&value["name"]),
                serde: string(&value["serde"]),
                serde_properties: map("serde_properties"),
                table_properties: map("table_properties"),
                session: map("session"),
                columns: columns.iter().map(|c| (string(&c[0]), string(&c[1]))).collect(),
                data: base64::engine::general_purpose::STANDARD.decode(string(&value["data_base64"])).expect("base64"),
                expect: value.get("expect").map(|rows| rows.as_array().expect("a list").clone()),
            }
        })
        .collect()
}

/// The dialect and schema of a case, or why it is refused.
pub fn definition(case: &Case) -> Result<(HiveDialect, SchemaRef), String> {
    let dialect =
        HiveDialect::from_properties(&case.serde, &case.serde_properties, &case.table_properties, &case.session)
            .map_err(|error| error.to_string())?;
    let mut declared: Vec<FieldRef> = Vec::new();
    for (name, text) in &case.columns {
        declared.push(Arc::new(parse_type(name, text).map_err(|error| error.to_string())?));
    }
    let fields = dialect.file_fields(&declared);
    dialect.check_fields(&fields).map_err(|error| error.to_string())?;
    Ok((dialect, Arc::new(Schema::new(fields))))
}

/// How a scan is run.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    pub block_bytes: usize,
    pub batch_rows: usize,
    pub workers: usize,
    pub strings: Strings,
}

/// Reads `data` as a file, by the scan's own way; in order if there is one worker.
pub fn read_scanned(dialect: Dialect, schema: &SchemaRef, data: &[u8], run: Run) -> Result<Vec<RecordBatch>, String> {
    let mut options = ScanOptions::new(dialect, schema.clone());
    options.block_bytes = run.block_bytes;
    options.batch_rows = run.batch_rows;
    options.strings = run.strings;
    let scan = Scan::try_new(options).map_err(|error| error.to_string())?;
    let source = Arc::new(MemorySource(data.to_vec().into()));
    let file = FileInput { name: "case".to_owned(), source, compression: Compression::None };
    let queue = ScanQueue::new(scan, vec![file]);
    let drain = || {
        let (mut worker, mut batches) = (queue.worker(), Vec::new());
        while let Some(batch) = worker.next_batch().map_err(|error| error.to_string())? {
            batches.push(batch.rows);
        }
        Ok::<_, String>(batches)
    };
    let parts: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..run.workers).map(|_| scope.spawn(drain)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a worker does not panic")).collect()
    });
    Ok(parts.into_iter().collect::<Result<Vec<_>, _>>()?.concat())
}

/// All rows of some batches as text, in any order.
pub fn bag(batches: &[RecordBatch]) -> Vec<String> {
    let row = |batch: &RecordBatch, row: usize| {
        let values: Vec<Value> = batch.columns().iter().map(|column| value(column, row)).collect();
        Value::Array(values).to_string()
    };
    let mut rows: Vec<String> = batches.iter().flat_map(|b| (0..b.num_rows()).map(move |r| row(b, r))).collect();
    rows.sort();
    rows
}

/// Lines as Hadoop's LineRecordReader cuts them, the plain way; header and footer taken off.
pub fn lines<'a>(dialect: &HiveDialect, data: &'a [u8]) -> Vec<&'a [u8]> {
    let data = data.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(data);
    let mut lines = Vec::new();
    let mut start = 0;
    while start < data.len() {
        let found = match &dialect.line_end {
            LineEnd::Bytes(end) => {
                data[start..].windows(end.len()).position(|w| w == &end[..]).map(|at| (at, end.len()))
            }
            _ => data[start..].iter().position(|b| matches!(b, b'\n' | b'\r')).map(|at| {
                let crlf = data[start + at..].starts_with(b"\r\n");
                (at, if crlf { 2 } else { 1 })
            }),
        };
        let (length, end) = found.unwrap_or((data.len() - start, 0));
        lines.push(&data[start..start + length]);
        start += length + end;
    }
    let header = (dialect.skip_header as usize).min(lines.len());
    lines.drain(..header);
    lines.truncate(lines.len().saturating_sub(dialect.skip_footer as usize));
    lines
}

/// Reads `data` with the converters alone: fields cut the plain way.
pub fn read_plainly(dialect: &HiveDialect, schema: &SchemaRef, data: &[u8]) -> RecordBatch {
    let columns = schema.fields().len();
    let mut text = Vec::new();
    let mut rows: Vec<Span> = Vec::new();
    let splitter = line_splitter(dialect).unwrap();
    let lines = lines(dialect, data);
    for line in &lines {
        match &splitter {
            Some(splitter) => assert!(splitter.split(line, columns, &mut text, &mut rows).is_empty()),
            None => split_plainly(dialect, line, columns, &mut text, &mut rows),
        }
    }
    let block = TextBlock::from_vec(text);
    let mut arrays = Vec::new();
    for (number, field) in schema.fields().iter().enumerate() {
        let spans: Vec<Span> = rows.iter().skip(number).step_by(columns).copied().collect();
        let mut bad = BadValues::new(false);
        let mut cx = Cx {
            strings: Strings::View,
            invalid_utf8: InvalidUtf8::Replace,
            batch: 0..block.bytes().len(),
            bad: &mut bad,
        };
        arrays.push(converter(dialect, field).unwrap().convert(&block, &spans, &mut cx).unwrap());
    }
    let options = RecordBatchOptions::new().with_row_count(Some(lines.len()));
    RecordBatch::try_new_with_options(schema.clone(), arrays, &options).unwrap()
}

fn split_plainly(dialect: &HiveDialect, line: &[u8], columns: usize, text: &mut Vec<u8>, rows: &mut Vec<Span>) {
    let base = text.len();
    text.extend_from_slice(line);
    let (mut from, mut at, mut number) = (0, 0, 0);
    while number < columns {
        let rest = dialect.last_column_takes_rest && number + 1 == columns;
        while at < line.len() && (rest || line[at] != dialect.separators[0]) {
            at += if dialect.escape == Some(line[at]) && at + 1 < line.len() { 2 } else { 1 };
        }
        let escaped = line[from..at].iter().any(|b| Some(*b) == dialect.escape);
        let (start, end) = ((base + from) as u32, (base + at) as u32);
        rows.push(if escaped { Span::escaped(start, end) } else { Span::new(start, end) });
        number += 1;
        if at >= line.len() {
            break;
        }
        at += 1;
        from = at;
    }
    rows.resize(rows.len() + columns - number, Span::MISSING);
}

/// The value of a row as the golden files write it; timestamps have microseconds.
pub fn value(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    let float = |shown: String| shown.parse::<serde_json::Number>().map_or(Value::String(shown), Value::Number);
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).into(),
        DataType::Int8 => array.as_primitive::<Int8Type>().value(row).into(),
        DataType::Int16 => array.as_primitive::<Int16Type>().value(row).into(),
        DataType::Int32 => array.as_primitive::<Int32Type>().value(row).into(),
        DataType::Int64 => array.as_primitive::<Int64Type>().value(row).into(),
        DataType::Float32 => float(float_text(f64::from(array.as_primitive::<Float32Type>().value(row)), || {
            format!("{:?}", array.as_primitive::<Float32Type>().value(row))
        })),
        DataType::Float64 => {
            let value = array.as_primitive::<Float64Type>().value(row);
            float(float_text(value, || format!("{value:?}")))
        }
        DataType::Decimal128(_, scale) => {
            let value = array.as_primitive::<Decimal128Type>().value(row);
            let digits = format!("{:0width$}", value.unsigned_abs(), width = *scale as usize + 1);
            let (whole, fraction) = digits.split_at(digits.len() - *scale as usize);
            let sign = if value < 0 { "-" } else { "" };
            let point = if *scale > 0 { "." } else { "" };
            format!("{sign}{whole}{point}{fraction}").into()
        }
        DataType::Utf8View => array.as_string_view().value(row).into(),
        DataType::BinaryView => {
            base64::engine::general_purpose::STANDARD.encode(array.as_binary_view().value(row)).into()
        }
        DataType::Date32 => {
            let mut out = Vec::new();
            datetime::write_date(i64::from(array.as_primitive::<Date32Type>().value(row)), &mut out);
            String::from_utf8(out).unwrap().into()
        }
        DataType::Timestamp(..) => {
            let mut out = Vec::new();
            datetime::write_timestamp(array.as_primitive::<TimestampMicrosecondType>().value(row), 1_000_000, &mut out);
            String::from_utf8(out).unwrap().into()
        }
        DataType::List(_) => {
            let items = array.as_list::<i32>().value(row);
            (0..items.len()).map(|i| value(&items, i)).collect()
        }
        DataType::Map(..) => {
            let entries = array.as_map().value(row);
            let pair = |i| Value::Array(vec![value(entries.column(0), i), value(entries.column(1), i)]);
            (0..entries.len()).map(pair).collect()
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let pairs = fields.iter().zip(columns);
            Value::Object(pairs.map(|(field, column)| (field.name().clone(), value(column, row))).collect())
        }
        other => panic!("{other} is in no golden case"),
    }
}

fn float_text(value: f64, finite: impl FnOnce() -> String) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else {
        finite()
    }
}

/// Whether `found` is `expected`: the same JSON, but that numbers are compared as the column's type and timestamps of
/// nanoseconds are cut to microseconds.
pub fn same(data_type: &DataType, expected: &Value, found: &Value) -> bool {
    match (data_type, expected, found) {
        (_, Value::Null, _) | (_, _, Value::Null) => expected == found,
        (DataType::Float32, Value::Number(a), Value::Number(b)) => {
            let float = |n: &serde_json::Number| n.to_string().parse::<f32>().expect("a number").to_bits();
            float(a) == float(b)
        }
        (DataType::Float64, Value::Number(a), Value::Number(b)) => {
            let float = |n: &serde_json::Number| n.to_string().parse::<f64>().expect("a number").to_bits();
            float(a) == float(b)
        }
        (DataType::Timestamp(..), Value::String(a), Value::String(b)) => {
            let micros = match a.split_once('.') {
                Some((whole, fraction)) if fraction.len() > 6 => {
                    format!("{whole}.{}", &fraction[..6]).trim_end_matches('0').trim_end_matches('.').to_owned()
                }
                _ => a.clone(),
            };
            micros == *b
        }
        (DataType::List(item), Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(item.data_type(), a, b))
        }
        (DataType::Map(entries, _), Value::Array(a), Value::Array(b)) => {
            let DataType::Struct(fields) = entries.data_type() else { return false };
            let pair = |a: &Value, b: &Value| {
                same(fields[0].data_type(), &a[0], &b[0]) && same(fields[1].data_type(), &a[1], &b[1])
            };
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| pair(a, b))
        }
        (DataType::Struct(fields), Value::Object(a), Value::Object(b)) => {
            a.len() == fields.len()
                && b.len() == fields.len()
                && fields.iter().all(|field| {
                    matches!((a.get(field.name()), b.get(field.name())), (Some(a), Some(b)) if same(field.data_type(), a, b))
                })
        }
        _ => expected == found,
    }
}

/// Returns the first difference between the expected rows and the batches, if there is one.
pub fn difference(expected: &[Value], schema: &Schema, batches: &[RecordBatch]) -> Option<String> {
    let mut rows = 0;
    for batch in batches {
        for row in 0..batch.num_rows() {
            let Some(wanted) = expected.get(rows) else {
                return Some(format!("{} rows were expected, there are more", expected.len()));
            };
            for (number, field) in schema.fields().iter().enumerate() {
                let found = value(batch.column(number), row);
                if !same(field.data_type(), &wanted[number], &found) {
                    return Some(format!(
                        "row {rows}, column {} ({}): expected {}, found {found}",
                        field.name(),
                        field.data_type(),
                        wanted[number]
                    ));
                }
            }
            rows += 1;
        }
    }
    (rows < expected.len()).then(|| format!("{} rows were expected, there are {rows}", expected.len()))
}

/// How many cases there are by the part of the name before the slash: a file that lost cases is noticed.
pub fn census(cases: &[Case]) -> BTreeMap<String, usize> {
    let mut census = BTreeMap::new();
    for case in cases {
        *census.entry(case.name.split('/').next().unwrap_or_default().to_owned()).or_default() += 1;
    }
    census
}
