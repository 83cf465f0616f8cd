//! Types, policies, filters, compression, odd files.

use arrow_array::types::{Date32Type, Decimal128Type, Int32Type};
use arrow_array::{BooleanArray, ListArray, MapArray};
use arrow_schema::{Fields, TimeUnit};
use std::io::Write;

use super::*;
use crate::TextError;
use crate::scan::{BadValue, RowFilter};

fn all(options: &ScanOptions, files: Vec<FileInput>) -> Result<(Vec<RecordBatch>, Arc<ScanQueue>), TextError> {
    let queue = ScanQueue::new(Scan::try_new(options.clone())?, files);
    let mut worker = queue.worker();
    let mut batches = Vec::new();
    while let Some(batch) = worker.next_batch()? {
        batch.rows.columns().iter().for_each(|c| c.to_data().validate_full().expect("a valid array"));
        batches.push(batch.rows);
    }
    Ok((batches, queue))
}

fn schema(fields: &[(&str, DataType)]) -> SchemaRef {
    Arc::new(Schema::new(fields.iter().map(|(n, t)| Field::new(*n, t.clone(), true)).collect::<Vec<_>>()))
}

fn bare() -> CsvDialect {
    CsvDialect { header: false, ..CsvDialect::default() }
}

#[test]
fn whole_numbers_are_cut_at_the_point() {
    let columns = schema(&[("i", DataType::Int32), ("large", DataType::Decimal256(39, 0))]);
    let cases = [
        ("1.7", Some(1)),
        (" -12.9 ", Some(-12)),
        ("+3.", Some(3)),
        (".5", Some(0)),
        ("-.5", Some(0)),
        (".", None),
        ("-.", None),
        ("1.7x", None),
        ("1.2.3", None),
        ("1e3", None),
        ("1.-2", None),
    ];
    let text: String = cases.iter().map(|(text, _)| format!("{text},{text}\n")).collect();
    let mut options = csv(bare(), columns);
    options.bad_value = BadValue::Null;
    let (batches, _) = all(&options, vec![memory(text.as_bytes())]).expect("bad values are NULL");
    let ints = batches[0].column(0).as_primitive::<Int32Type>();
    let large = batches[0].column(1).as_primitive::<arrow_array::types::Decimal256Type>();
    for (row, (text, expected)) in cases.iter().enumerate() {
        assert_eq!(ints.is_valid(row).then(|| ints.value(row)), *expected, "{text}");
        let large = large.is_valid(row).then(|| large.value(row).as_i128() as i32);
        assert_eq!(large, *expected, "{text} as LARGEINT");
    }
}

#[test]
fn nothing_is_cut_in_exact_columns() {
    let columns = schema(&[
        ("i", DataType::Int64),
        ("large", DataType::Decimal256(39, 0)),
        ("day", DataType::Date32),
        ("cut", DataType::Int64),
    ]);
    let fits = "1,2,1970-01-02,3.9\n7,8,1970-01-02 00:00:00,9\n\"\",\"\",\"\",\n";
    let mut options = csv(bare(), columns);
    options.exact = vec![0, 1, 2];
    let (batches, _) = all(&options, vec![memory(fits.as_bytes())]).expect("all fit");
    assert_eq!(batches[0].column(2).as_primitive::<Date32Type>().iter().collect::<Vec<_>>(), [Some(1), Some(1), None]);
    let cut = batches[0].column(3).as_primitive::<arrow_array::types::Int64Type>();
    assert_eq!(cut.iter().collect::<Vec<_>>(), [Some(3), Some(9), None]);
    for (row, place) in [
        ("1.5,2,1970-01-02,3", "column i: \"1.5\" is not a BIGINT;"),
        ("1,2.0,1970-01-02,3", "column large: \"2.0\" is not a LARGEINT;"),
        ("1,2,1970-01-02 23:59,3", "column day: \"1970-01-02 23:59\" is not a DATE (a time of day follows);"),
    ] {
        let error = all(&options, vec![memory(format!("{fits}{row}\n").as_bytes())]).expect_err("it would be cut");
        assert!(error.to_string().contains(place), "{error}");
    }
    options.exact.clear();
    all(&options, vec![memory(b"1.5,2.0,1970-01-02 23:59,3\n")]).expect("it is cut");
    // Other orders of days and months have a reader of their own.
    let dialect = CsvDialect { dates: crate::DateOrder::DayFirst, ..bare() };
    let mut options = csv(dialect, schema(&[("day", DataType::Date32)]));
    all(&options, vec![memory(b"2/1/1970 23:59\n")]).expect("it is cut");
    options.exact = vec![0];
    all(&options, vec![memory(b"2/1/1970\n")]).expect("a date");
    all(&options, vec![memory(b"2/1/1970 23:59\n")]).expect_err("it would be cut");
}

/// The header of a file from any kind of source is checked before the rest of the file.
#[test]
fn headers_are_checked() {
    let columns = schema(&[("a", DataType::Int32), ("b", DataType::Int32)]);
    let dialect = CsvDialect { skip_lines: 1, comment: Some(b'#'), ..CsvDialect::default() };
    let mut options = csv(dialect.clone(), Arc::clone(&columns));
    options.header = Some(Arc::new(crate::Header::new(&columns, &dialect)));
    let packed = |text: &[u8]| {
        let mut encoder = crate::encoder(Compression::Gzip, Vec::new()).expect("memory");
        encoder.write_all(text).expect("memory");
        FileInput { compression: Compression::Gzip, ..memory(&encoder.finish().expect("memory")) }
    };
    let rows = |batches: Vec<RecordBatch>| batches.iter().map(RecordBatch::num_rows).sum::<usize>();
    let same: [&[u8]; 6] = [
        b"skipped\na,b\n1,2\n",
        b"\xEF\xBB\xBFskipped\r\n\r\n# no header\r\nA,\"b\"\r\n3,4\r\n",
        b"",
        b"skipped\n",
        b"skipped\n# no header",
        b"skipped\na,b",
    ];
    let files = || same.iter().flat_map(|text| [memory(text), once(text), packed(text)]).collect::<Vec<_>>();
    assert_eq!(rows(all(&options, files()).expect("the same columns").0), 6);
    for counts in [false, true] {
        if counts {
            options.projection.clear();
        }
        for other in [&b"skipped\nb,a\n5,6\n"[..], b"skipped\n5,6", b"skipped\r\na,b,c\r\n"] {
            for file in [memory(other), once(other), packed(other)] {
                let error = all(&options, [files(), vec![file]].concat()).expect_err("other columns");
                assert_eq!(error.kind, crate::ErrorKind::BadRecord);
                assert!(error.to_string().contains("; other files have a, b; read each column by its name"), "{error}");
            }
        }
    }
}

#[test]
fn every_type() {
    let entries =
        Fields::from(vec![Field::new("key", DataType::Utf8View, false), Field::new("value", DataType::Int32, true)]);
    let map = DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false);
    let list = DataType::List(Arc::new(Field::new("item", DataType::Int32, true)));
    let record = DataType::Struct(Fields::from(vec![
        Field::new("a", DataType::Int32, true),
        Field::new("b", DataType::Utf8View, true),
    ]));
    let columns = schema(&[
        ("tiny", DataType::Int8),
        ("large", DataType::Decimal256(39, 0)),
        ("price", DataType::Decimal128(10, 2)),
        ("f", DataType::Float32),
        ("d", DataType::Float64),
        ("b", DataType::Boolean),
        ("day", DataType::Date32),
        ("at", DataType::Timestamp(TimeUnit::Microsecond, None)),
        ("text", DataType::Utf8View),
        ("raw", DataType::BinaryView),
        ("list", list),
        ("map", map),
        ("record", record),
    ]);
    let text = concat!(
        "-128,-170141183460469231731687303715884105728,1.255,0.5,1e3,TRUE,1970-01-02,1970-01-01 00:00:01,",
        "\"a \"\"b\"\"\",\\x00ff,\"[1, null,3]\",\"{\"\"k\"\":1,\"\"k\"\":2,\"\"l\"\":null}\",\"{\"\"b\"\":\"\"x\\u00e9\"\",\"\"a\"\":7}\"\n",
        ",,,,,,,,\"\",,,,\n",
    );
    let (batches, _) = all(&csv(bare(), columns), vec![memory(text.as_bytes())]).expect("no bad values");
    let rows = &batches[0];
    assert_eq!(rows.num_rows(), 2);
    for (i, column) in rows.columns().iter().enumerate() {
        assert!(column.is_valid(0), "column {i}");
        assert_eq!(column.is_null(1), i != 8, "column {i}");
    }
    assert_eq!(rows.column(0).as_primitive::<arrow_array::types::Int8Type>().value(0), -128);
    assert_eq!(rows.column(2).as_primitive::<Decimal128Type>().value(0), 126);
    assert_eq!(rows.column(6).as_primitive::<Date32Type>().value(0), 1);
    assert_eq!(rows.column(8).as_string_view().value(0), "a \"b\"");
    assert_eq!(rows.column(8).as_string_view().value(1), "");
    assert_eq!(rows.column(9).as_binary_view().value(0), [0, 255]);
    let list: &ListArray = rows.column(10).as_list();
    let items = list.value(0);
    assert_eq!(items.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(1), None, Some(3)]);
    let map: &MapArray = rows.column(11).as_map();
    assert_eq!(map.value(0).len(), 2);
    let record = rows.column(12).as_struct();
    assert_eq!(record.column(0).as_primitive::<Int32Type>().value(0), 7);
    assert_eq!(record.column(1).as_string_view().value(0), "x\u{e9}");
}

#[test]
fn bad_values_by_policy() {
    let columns = schema(&[("a", DataType::Int8), ("b", DataType::Utf8View)]);
    let text = b"1,x\n200,y\n3\n4,z,\n5,w,v\n6,\"u";
    let mut options = csv(bare(), columns);
    let error = all(&options, vec![memory(text)]).expect_err("200 is too large");
    assert_eq!(
        error.to_string(),
        "test.csv: line 2, byte 4, column a: \"200\" is not a TINYINT (-128 to 127); fix the row, or read bad values as NULL"
    );
    let error = all(&options, vec![memory(&text[10..])]).expect_err("one field");
    assert_eq!(
        error.to_string(),
        "test.csv: line 1, byte 0: the record has 1 field, expected 2 fields; fix the row, or let missing fields be NULL \
         and drop extra ones: 'fill_missing_columns'='true' in files(...)"
    );
    options.bad_value = BadValue::Null;
    let (batches, _) = all(&options, vec![memory(text)]).expect("all is NULL");
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 6);
    options.bad_value = BadValue::Reject { max: 10 };
    let (batches, queue) = all(&options, vec![memory(text)]).expect("few enough");
    let kept: Vec<_> = batches
        .iter()
        .flat_map(|b| b.column(0).as_primitive::<arrow_array::types::Int8Type>().values().to_vec())
        .collect();
    assert_eq!(kept, [1, 4]);
    let mut rejected: Vec<_> = queue.rejected().into_iter().map(|r| (r.line, r.reason, r.text)).collect();
    rejected.sort();
    let expected = [
        (2, "\"200\" is not a TINYINT (-128 to 127)", "200,y"),
        (3, "the record has 1 field, expected 2 fields", "3"),
        (5, "the record has 3 fields, expected 2 fields", "5,w,v"),
        (6, "the record has a quote that is never closed", "6,\"u"),
    ];
    assert_eq!(rejected, expected.map(|(l, r, t)| (l, r.to_string(), t.to_string())));
    options.bad_value = BadValue::Reject { max: 3 };
    let error = all(&options, vec![memory(text)]).expect_err("too many");
    assert_eq!(error.kind, crate::ErrorKind::Rejected);
}

/// Keeps rows whose first asked-for column is a multiple of `of`.
#[derive(Debug)]
struct Multiples(i32);

impl RowFilter for Multiples {
    fn columns(&self) -> Vec<usize> {
        vec![1]
    }

    fn keep(&self, batch: &RecordBatch) -> Result<BooleanArray, Box<dyn std::error::Error + Send + Sync>> {
        let column = batch.column(0).as_primitive::<Int32Type>();
        Ok(column.iter().map(|v| v.map(|v| v % self.0 == 0)).collect())
    }
}

#[test]
fn filter_before_the_rest() {
    let columns = schema(&[("name", DataType::Utf8View), ("n", DataType::Int32), ("m", DataType::Int32)]);
    let mut text = Vec::new();
    for i in 0..5000 {
        // `m` is bad in rows that the filter drops: it must not be read there.
        let m = if i % 7 == 0 { i.to_string() } else { "bad".to_string() };
        writeln!(text, "a name of some length {i},{i},{m}").expect("memory");
    }
    let mut options = csv(bare(), columns);
    options.filter = Some(Arc::new(Multiples(7)));
    options.projection = vec![2, 0, 1];
    options.block_bytes = 10_000;
    let (batches, queue) = all(&options, vec![memory(&text)]).expect("only good rows pass");
    let n: Vec<i32> = batches.iter().flat_map(|b| b.column(0).as_primitive::<Int32Type>().values().to_vec()).collect();
    assert_eq!(n, (0..5000).filter(|i| i % 7 == 0).collect::<Vec<_>>());
    for batch in &batches {
        for row in 0..batch.num_rows() {
            let n = batch.column(2).as_primitive::<Int32Type>().value(row);
            assert_eq!(batch.column(1).as_string_view().value(row), format!("a name of some length {n}"));
        }
    }
    assert_eq!((queue.metrics().rows_scanned, queue.metrics().rows_returned), (5000, n.len() as u64));
    options.limit = Some(3);
    let (batches, _) = all(&options, vec![memory(&text)]).expect("only good rows pass");
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 3);
}

#[test]
fn compressed_and_several_files() {
    let mut text = b"h1,h2\n".to_vec();
    for i in 0..3000 {
        writeln!(text, "{i},\"line\n{i}\"").expect("memory");
    }
    text.extend_from_slice(b"x,1\n");
    let columns = schema(&[("a", DataType::Int32), ("b", DataType::Utf8View)]);
    let mut options = csv(CsvDialect::default(), columns);
    options.block_bytes = 1000;
    for compression in [Compression::Gzip, Compression::Zstd, Compression::None] {
        let mut encoder = crate::encoder(compression, Vec::new()).expect("memory");
        encoder.write_all(&text).expect("memory");
        let packed = encoder.finish().expect("memory");
        let input = || FileInput { compression, ..memory(&packed) };
        options.bad_value = BadValue::Null;
        let (batches, _) = all(&options, vec![input(), input()]).expect("good");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 6002);
        options.bad_value = BadValue::Error;
        let error = all(&options, vec![input()]).expect_err("x is no INT");
        assert_eq!((error.line, error.value.as_deref()), (Some(6002), Some("x")), "{compression}");
    }
    // Cut short.
    let mut encoder = crate::encoder(Compression::Gzip, Vec::new()).expect("memory");
    encoder.write_all(&text).expect("memory");
    let packed = encoder.finish().expect("memory");
    options.bad_value = BadValue::Null;
    let input = FileInput { compression: Compression::Gzip, ..memory(&packed[..packed.len() / 2]) };
    let error = all(&options, vec![input]).expect_err("truncated");
    assert_eq!((error.kind, &error.file[..]), (crate::ErrorKind::Compression, "test.csv"));
}

#[test]
fn odd_files() {
    let columns = schema(&[("a", DataType::Utf8View), ("b", DataType::Utf8View)]);
    let mut options = csv(CsvDialect::default(), columns);
    for (text, rows) in
        [(&b""[..], 0), (b"\xEF\xBB\xBF", 0), (b"a,b", 0), (b"a,b\n", 0), (b"a,b\r\n\r\n1,2", 1), (b"a,b\n\0,\0\n", 1)]
    {
        let (batches, _) = all(&options, vec![memory(text)]).expect("good");
        assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), rows, "{text:?}");
    }
    // A record of 40 blocks.
    options.block_bytes = 1 << 16;
    let long = "x".repeat(40 << 16);
    let text = format!("a,b\n1,2\n{long},\"{long}\"\n3,4\n");
    let (batches, _) = all(&options, vec![memory(text.as_bytes())]).expect("good");
    let rows: Vec<Row> = batches.iter().flat_map(rows_of).collect();
    let value = |s: &str| Some(s.to_string());
    assert!(rows == [vec![value("1"), value("2")], vec![value(&long), value(&long)], vec![value("3"), value("4")]]);
    // Broken UTF-8.
    let error = all(&options, vec![memory(b"a,b\n1,2\n3,\xFF\n")]).expect_err("not UTF-8");
    assert_eq!((error.kind, error.line, error.column.as_deref()), (crate::ErrorKind::InvalidUtf8, Some(3), Some("b")));
    options.invalid_utf8 = crate::InvalidUtf8::Null;
    let (batches, _) = all(&options, vec![memory(b"a,b\n1,2\n3,\xFF\n")]).expect("NULL");
    assert!(batches[0].column(1).is_null(1));
}

#[test]
fn char_and_varchar_limits() {
    let metadata = [("dipper.type".to_string(), "varchar(3)".to_string())].into();
    let columns = Arc::new(Schema::new(vec![Field::new("v", DataType::Utf8View, true).with_metadata(metadata)]));
    let mut options = csv(bare(), columns);
    let text = "abc\n\u{e9}\u{e9}\u{e9}\nabcd\n";
    let error = all(&options, vec![memory(text.as_bytes())]).expect_err("too long");
    assert!(
        error.to_string().contains("line 3, byte 11, column v: \"abcd\" has 4 characters, the column takes 3"),
        "{error}"
    );
    options.bad_value = BadValue::Null;
    let (batches, _) = all(&options, vec![memory(text.as_bytes())]).expect("NULL");
    assert_eq!(rows_of(&batches[0]), [vec![Some("abc".into())], vec![Some("\u{e9}\u{e9}\u{e9}".into())], vec![None]]);
}

#[test]
fn limit_reads_little() {
    let columns = schema(&[("a", DataType::Int32)]);
    let text = "1234567\n".repeat(1 << 20);
    let mut options = csv(bare(), columns);
    options.limit = Some(1);
    let (batches, queue) = all(&options, vec![memory(text.as_bytes())]).expect("good");
    assert_eq!(batches[0].num_rows(), 1);
    assert!(queue.metrics().bytes_read < 80 << 10, "{:?}", queue.metrics());
}

#[test]
fn options_are_checked() {
    let columns = schema(&[("a", DataType::Duration(TimeUnit::Second))]);
    let error = Scan::try_new(csv(bare(), columns)).expect_err("no such type");
    assert_eq!(error.to_string(), "column a: type Duration(s) cannot be read from CSV");
    let dialect = CsvDialect { quote: Some(b','), ..bare() };
    assert!(Scan::try_new(csv(dialect, strings(1))).is_err());
    let mut options = csv(bare(), strings(1));
    options.projection = vec![1];
    assert!(Scan::try_new(options).is_err());
}

/// Quotes that are only dropped hold nothing together, and need not be closed.
#[test]
fn double_quotes_around_fields_are_dropped() {
    let dialect = CsvDialect { quote: None, unquote: true, null_values: vec![b"\\N".to_vec()], ..bare() };
    let text = "\"a\",\"b\r\n\"open,5\" x\n\"\",\"\"\"\"\n\\N,\"\\N\"\n\"say \"\"it\"\"\",\"\"\n\"x,y\"\n";
    let (batches, _) = all(&csv(dialect, strings(2)), vec![memory(text.as_bytes())]).expect("no error");
    let rows: Vec<[Option<&str>; 2]> = batches
        .iter()
        .flat_map(|batch| {
            let column = |at: usize| batch.column(at).as_string_view().iter();
            column(0).zip(column(1)).map(|(a, b)| [a, b]).collect::<Vec<_>>()
        })
        .collect();
    let expected = [
        [Some("a"), Some("\"b")],
        [Some("\"open"), Some("5\" x")],
        [Some(""), Some("\"\"")],
        [None, Some("\\N")],
        [Some("say \"\"it\"\""), Some("")],
        [Some("\"x"), Some("y\"")],
    ];
    assert_eq!(rows, expected);
    let dialect = CsvDialect { quote: Some(b'\''), unquote: true, ..bare() };
    let text = "'\"a,b\"',\"c\"\n'd',e\n";
    let (batches, _) = all(&csv(dialect.clone(), strings(2)), vec![memory(text.as_bytes())]).expect("no error");
    let column = batches[0].column(0).as_string_view().iter().flatten().collect::<Vec<_>>();
    assert_eq!(column, ["a,b", "d"]);
    let wrong = CsvDialect { escape: Some(b'"'), ..dialect };
    assert!(Scan::try_new(csv(wrong, strings(2))).is_err());
}
