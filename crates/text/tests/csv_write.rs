//! The CSV reader reads the output of the CSV writer as the same rows.

mod support;

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch, StringViewArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};
use dipper_text::{CsvDialect, CsvWriter, Dialect, Hints, LineEnd, Ragged, Strings, infer_sample};
use proptest::prelude::*;
use support::random::{array, table};
use support::{Run, read_scanned, value};

fn write(dialect: &CsvDialect, batches: &[RecordBatch], schema: &SchemaRef) -> Result<Vec<u8>, String> {
    let mut writer = CsvWriter::try_new(Vec::new(), dialect.clone(), schema.clone()).map_err(|e| e.to_string())?;
    for batch in batches {
        writer.write(batch).map_err(|e| e.to_string())?;
    }
    writer.finish().map_err(|e| e.to_string())
}

fn read(dialect: &CsvDialect, schema: &SchemaRef, text: &[u8]) -> Result<Vec<RecordBatch>, String> {
    let run = Run { block_bytes: 64, batch_rows: 5, workers: 1, strings: Strings::View };
    read_scanned(Dialect::Csv(dialect.clone()), schema, text, run)
}

fn rows(batches: &[RecordBatch]) -> Vec<Vec<serde_json::Value>> {
    let row = |batch: &RecordBatch, row| batch.columns().iter().map(|column| value(column, row)).collect();
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |at| row(batch, at))).collect()
}

fn dialects() -> impl Strategy<Value = CsvDialect> {
    let rfc = CsvDialect::default();
    let named = |null: &str| vec![null.as_bytes().to_vec()];
    prop_oneof![
        Just(rfc.clone()),
        Just(CsvDialect { delimiter: b"||".to_vec(), header: false, ..rfc.clone() }),
        Just(CsvDialect { quote: Some(b'\''), comment: Some(b'n'), skip_lines: 2, ..rfc.clone() }),
        Just(CsvDialect { escape: Some(b'\\'), null_values: named("NULL"), ..rfc.clone() }),
        Just(CsvDialect { delimiter: b"\t".to_vec(), trim: true, ragged: Ragged::Fill, ..rfc.clone() }),
        Just(CsvDialect { line_end: LineEnd::Bytes(b"|\x01".to_vec()), null_values: named("n"), ..rfc.clone() }),
        Just(CsvDialect { delimiter: b":".to_vec(), line_end: LineEnd::AnyNewline, ..rfc }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 800, ..ProptestConfig::default() })]

    #[test]
    fn any_rows_survive(((fields, values), dialect) in (table(), dialects())) {
        let schema: SchemaRef = Arc::new(Schema::new(fields));
        let columns: Vec<ArrayRef> = schema.fields().iter().zip(&values).map(|(f, v)| array(f, v)).collect();
        let batch = RecordBatch::try_new(schema.clone(), columns).unwrap();
        let cut = batch.num_rows() / 3;
        let batches = [batch.slice(0, cut), batch.slice(cut, batch.num_rows() - cut)];
        let text = write(&dialect, &batches, &schema).unwrap();
        let again = read(&dialect, &schema, &text).map_err(|e| TestCaseError::fail(format!("{e}: {:?}", String::from_utf8_lossy(&text))))?;
        prop_assert_eq!(rows(&[batch]), rows(&again), "{:?}", String::from_utf8_lossy(&text));
    }
}

fn strings(values: &[Option<&str>]) -> RecordBatch {
    let column = |name: &str| (name.to_owned(), Arc::new(StringViewArray::from_iter(values)) as ArrayRef, true);
    RecordBatch::try_from_iter_with_nullable([column("a"), column("b")]).unwrap()
}

#[test]
fn without_quotes_the_escape_does_it() {
    let dialect = CsvDialect {
        delimiter: b"\t".to_vec(),
        quote: None,
        escape: Some(b'\\'),
        header: false,
        null_values: vec![b"\\N".to_vec()],
        ..CsvDialect::default()
    };
    let batch = strings(&[Some("a\tb\\c\nd\re"), Some("\\N"), None, Some("")]);
    let schema = batch.schema();
    let text = write(&dialect, std::slice::from_ref(&batch), &schema).unwrap();
    assert_eq!(rows(&read(&dialect, &schema, &text).unwrap()), rows(&[batch]), "{:?}", String::from_utf8_lossy(&text));
}

#[test]
fn text_like_null_survives_a_guess() {
    let words = ["", "\\N", "NULL", "null", "NA", "n/a", "none", "-", "x"];
    let values: Vec<Option<&str>> = [None].into_iter().chain(words.map(Some)).collect();
    let batch = strings(&values);
    let schema = batch.schema();
    let text = write(&CsvDialect::default(), std::slice::from_ref(&batch), &schema).unwrap();
    let hints = Hints { all_strings: true, ..Hints::default() };
    let guess = infer_sample("t.csv", &text, true, &[], &hints).unwrap();
    assert_eq!(guess.dialect.null_values, [b""]);
    assert_eq!(rows(&read(&guess.dialect, &schema, &text).unwrap()), rows(&[batch]));
}

#[test]
fn what_cannot_be_written_is_an_error() {
    let bare = CsvDialect { quote: None, ..CsvDialect::default() };
    for (dialect, value, message) in [
        (bare.clone(), Some("a,b"), "column a: \"a,b\" cannot be written so that it reads back the same; give"),
        (bare.clone(), Some(""), "column a: \"\" cannot be written so that it reads back the same"),
        (CsvDialect { null_values: Vec::new(), ..bare }, None, "is NULL, for which this dialect has no text"),
    ] {
        let batch = strings(&[value]);
        let error = write(&dialect, std::slice::from_ref(&batch), &batch.schema()).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    let interval = DataType::Interval(arrow_schema::IntervalUnit::MonthDayNano);
    let schema = Arc::new(Schema::new(vec![Field::new("i", interval, true)]));
    let error = CsvWriter::try_new(Vec::new(), CsvDialect::default(), schema).unwrap_err().to_string();
    assert!(error.contains("column i: is Interval(MonthDayNano), which has no text form here"), "{error}");
}

#[test]
fn forms() {
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("n", Arc::new(arrow_array::UInt64Array::from(vec![Some(u64::MAX), None])) as ArrayRef, true),
        ("f", Arc::new(arrow_array::Float32Array::from(vec![0.1, 1e20])) as ArrayRef, true),
        ("t", Arc::new(arrow_array::TimestampMicrosecondArray::from(vec![1, -1])) as ArrayRef, true),
        ("b", Arc::new(arrow_array::BooleanArray::from(vec![true, false])) as ArrayRef, true),
    ])
    .unwrap();
    assert_eq!(batch.schema().field(2).data_type(), &DataType::Timestamp(TimeUnit::Microsecond, None));
    let text = write(&CsvDialect::default(), std::slice::from_ref(&batch), &batch.schema()).unwrap();
    let expected =
        "n,f,t,b\n18446744073709551615,0.1,1970-01-01 00:00:00.000001,true\n,1e20,1969-12-31 23:59:59.999999,false\n";
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}

#[test]
fn an_empty_table_has_a_header() {
    let schema = strings(&[]).schema();
    assert_eq!(write(&CsvDialect::default(), &[], &schema).unwrap(), b"a,b\n");
}
