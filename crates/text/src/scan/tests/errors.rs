//! Bad input: what is said about it, and where.

use super::*;
use crate::scan::{BadValue, InvalidUtf8, RecordFault};

#[test]
fn bad_value_names_its_place() {
    let schema = Arc::new(Schema::new(vec![
        Field::new("id", DataType::Int32, true),
        Field::new("ts", DataType::Timestamp(arrow_schema::TimeUnit::Microsecond, None), true),
    ]));
    let mut text = b"id,ts\n".to_vec();
    for i in 0..1000 {
        text.extend_from_slice(format!("{i},2024-01-02 03:04:05\n").as_bytes());
    }
    text.extend_from_slice(b"7,2024-13-01\n");
    let mut options = csv(CsvDialect::default(), schema);
    options.block_bytes = 300;
    let scan = Scan::try_new(options.clone()).expect("valid");
    let queue = ScanQueue::new(scan, vec![memory(&text)]);
    let mut worker = queue.worker();
    let error = loop {
        match worker.next_batch() {
            Ok(batch) => assert!(batch.is_some(), "an error comes"),
            Err(e) => break e,
        }
    };
    let expected = "test.csv: line 1002, byte 23896, column ts: \"2024-13-01\" is not a DATETIME (month 13); \
                    fix the row, or read bad values as NULL";
    assert_eq!(error.to_string(), expected);
    assert!(worker.next_batch().expect("no second error").is_none());

    options.bad_value = BadValue::Reject { max: 1 };
    let scan = Scan::try_new(options.clone()).expect("valid");
    let queue = ScanQueue::new(scan, vec![memory(&text)]);
    let mut worker = queue.worker();
    let mut rows = 0;
    while let Some(batch) = worker.next_batch().expect("one may be rejected") {
        rows += batch.rows.num_rows();
    }
    assert_eq!(rows, 1000);
    let rejected = queue.rejected();
    assert_eq!(rejected.len(), 1);
    assert_eq!((rejected[0].line, &rejected[0].text[..]), (1002, "7,2024-13-01"));
}

#[test]
fn records_are_rejected_while_bad_values_are_null() {
    let schema =
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, true), Field::new("b", DataType::Utf8View, true)]));
    let dialect = CsvDialect { header: false, ..CsvDialect::default() };
    let mut options = csv(dialect, schema);
    options.bad_value = BadValue::RejectRecord { max: u64::MAX };
    options.invalid_utf8 = InvalidUtf8::Reject;
    options.origins = true;
    let queue =
        ScanQueue::new(Scan::try_new(options).expect("valid"), vec![memory(b"1,x\nno,y\n3\n4,z,5\n6,\xff\n7,w\n")]);
    let mut worker = queue.worker();
    let split = worker.next_split().expect("no error").expect("rows");
    assert!(worker.next_split().expect("no error").is_none());
    let a: Vec<_> = split.batches[0].column(0).as_primitive::<arrow_array::types::Int32Type>().iter().collect();
    assert_eq!(a, [Some(1), None, Some(7)]);
    let origins = &split.origins[0];
    let from: Vec<_> = (0..3).map(|row| (origins.line(row), origins.text(row, 100))).collect();
    let at = |line, text: &str| (line, text.to_string());
    assert_eq!(from, [at(None, "1,x"), at(None, "no,y"), at(None, "7,w")]);
    let rejected = queue.rejected();
    let faults: Vec<RecordFault> = rejected.iter().map(|r| r.fault).collect();
    let fields = |found| RecordFault::Fields { found, expected: 2 };
    assert_eq!(faults, [fields(1), fields(3), RecordFault::InvalidUtf8]);
    let rejected: Vec<_> = rejected.into_iter().map(|r| (r.line, r.reason)).collect();
    assert_eq!(
        rejected,
        [
            (3, "the record has 1 field, expected 2 fields".to_string()),
            (4, "the record has 3 fields, expected 2 fields".to_string()),
            (5, "\"\u{fffd}\" is not UTF-8".to_string()),
        ]
    );
}
