//! Objects in other readers, and under other schemas.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringViewArray};
use arrow_cast::cast;
use bytes::Bytes;
use dipper_base::types::SqlType;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};

use super::make::*;
use crate::segment::*;
use crate::table::schema::Model;

/// Objects are Parquet files like others: the plain reader of arrow-rs sees the same rows.
#[test]
fn the_plain_parquet_reader_reads_objects() {
    let mut columns = all_types();
    columns[4] = ("c_i64", SqlType::BigInt, true);
    let key = columns.remove(4);
    columns.insert(0, key);
    let schema = table(&columns, 1, Model::Duplicate, &[("bloom_filter_columns", "c_string,c_i32")]);
    let mut options = WriteOptions::try_new(schema.clone()).unwrap();
    options.row_group_rows = 3000;
    let options = Arc::new(options);
    let rows = rows(&schema, 10_000, false, 1);
    let (bytes, _) = object(&options, 0, &[vec![rows.clone()]]);
    if let Ok(dir) = std::env::var("DIPPER_KEEP_OBJECT") {
        std::fs::write(dir, &bytes).unwrap();
    }
    let options = ArrowReaderOptions::new().with_schema(schema.arrow());
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(Bytes::from(bytes), options).unwrap();
    assert_eq!(reader.metadata().num_row_groups(), 4);
    for (i, c) in schema.columns.iter().enumerate() {
        let field = &reader.parquet_schema().root_schema().get_fields()[i];
        assert_eq!(field.get_basic_info().id(), c.id as i32);
    }
    let batches: Vec<_> = reader.with_batch_size(10_000).build().unwrap().collect::<Result<_, _>>().unwrap();
    let found = arrow_select::concat::concat_batches(&schema.arrow(), &batches).unwrap();
    assert_eq!(found, rows);
}

#[tokio::test]
async fn columns_are_added_dropped_renamed_and_widened() {
    let columns = [("k", SqlType::Int, false), ("s", SqlType::Varchar(Some(5)), true), ("gone", SqlType::Date, true)];
    let before = table(&columns, 1, Model::Duplicate, &[]);
    let rows = rows(&before, 5000, true, 1);
    let (bytes, object) = object(&Arc::new(WriteOptions::try_new(before).unwrap()), 0, &[vec![rows.clone()]]);
    let columns = [
        ("key", SqlType::BigInt, false),
        ("added", SqlType::Decimal(10, 2), true),
        ("text", SqlType::String, true),
        ("at", SqlType::DateTime(0), false),
        ("empty", SqlType::Array(Box::new(SqlType::Int)), true),
    ];
    let mut now = (*table(&columns, 1, Model::Duplicate, &[])).clone();
    for (column, id) in now.columns.iter_mut().zip([10, 20, 11, 21, 22]) {
        column.id = id;
    }
    now.columns[1].added_default = Some("1.5".into());
    now.columns[3].added_default = Some("2024-02-03 04:05:06".into());
    let stored = Stored::new(bytes).await;
    let reader = stored.open(&object).await.unwrap();
    let found = read_all(&reader, &Scan::new(&now, &[4, 3, 2, 1, 0])).await.unwrap();
    assert_eq!(found.num_rows(), 5000);
    assert_eq!(found.column(4), &cast(rows.column(0), &arrow_schema::DataType::Int64).unwrap());
    assert_eq!(found.column(2), rows.column(1));
    assert_eq!(found.column(0).null_count(), 5000);
    let text = |i: usize| cast(&found.column(i).slice(0, 1), &arrow_schema::DataType::Utf8).unwrap();
    assert_eq!(text(1).as_string::<i32>().value(0), "2024-02-03T04:05:06");
    assert_eq!(text(3).as_string::<i32>().value(0), "1.50");
    let stats = reader.group_stats(0..1, &now.columns[0]).unwrap();
    let keys = rows.column(0).as_primitive::<Int32Type>();
    assert_eq!(stats.min.as_primitive::<Int64Type>().value(0), i64::from(keys.value(0)));
    assert_eq!(stats.max.as_primitive::<Int64Type>().value(0), i64::from(keys.value(4999)));
    let stats = reader.group_stats(0..1, &now.columns[3]).unwrap();
    assert_eq!((stats.min.null_count(), stats.nulls.value(0)), (0, 0));
}

#[tokio::test]
async fn statistics_bound_all_values() {
    let schema = table(&all_types(), 0, Model::Duplicate, &[]);
    let rows = rows(&schema, 45_000, true, 6);
    let options = Arc::new(WriteOptions::try_new(schema.clone()).unwrap());
    let (bytes, object) = object(&options, 0, &[vec![rows.clone()]]);
    let stored = Stored::new(bytes).await;
    let reader = stored.open(&object).await.unwrap();
    let options = arrow_schema::SortOptions { descending: false, nulls_first: true };
    for (i, column) in schema.columns.iter().enumerate() {
        let group = reader.group_stats(0..1, column).unwrap();
        let pages = reader.page_stats(0, column).unwrap();
        assert_eq!(pages.rows.iter().flatten().sum::<u64>(), 45_000);
        for (zone, first) in [(&group, vec![0]), (&pages, starts(&pages))] {
            for (z, first) in first.into_iter().enumerate() {
                let values = rows.column(i).slice(first, zone.rows.value(z) as usize);
                if zone.nulls.is_valid(z) {
                    assert_eq!(zone.nulls.value(z), values.null_count() as u64, "{}", column.name);
                }
                if zone.min.is_null(z) && zone.max.is_null(z) {
                    continue;
                }
                // NULL first: an unknown bound is below everything, which is right for minima only.
                let order = |a: &dyn Array, b: &dyn Array| arrow_ord::ord::make_comparator(a, b, options).unwrap();
                let (least, most) = (order(&zone.min, &values), order(&values, &zone.max));
                for row in (0..values.len()).filter(|r| values.is_valid(*r)) {
                    assert!(least(z, row).is_le(), "{}: {:?} is below its bound", column.name, values.slice(row, 1));
                    assert!(zone.max.is_null(z) || most(row, z).is_le(), "{}: {:?}", column.name, values.slice(row, 1));
                }
            }
        }
    }
}

fn starts(zones: &ZoneStats) -> Vec<usize> {
    let ends = zones.rows.values().iter().scan(0, |at, n| {
        *at += *n as usize;
        Some(*at)
    });
    std::iter::once(0).chain(ends).take(zones.rows.len()).collect()
}

#[test]
fn what_the_chain_keeps_of_columns() {
    let columns = [("k", SqlType::BigInt, false), ("s", SqlType::String, true), ("t", SqlType::DateTime(0), true)];
    let schema = table(&columns, 1, Model::Duplicate, &[]);
    let k: ArrayRef = Arc::new(Int64Array::from(vec![-5, 0, 7]));
    let s: ArrayRef = Arc::new(StringViewArray::from(vec![Some("b"), None, Some(&*"z".repeat(100))]));
    let t: ArrayRef = Arc::new(arrow_array::TimestampMicrosecondArray::from(vec![None, Some(1_000_000), Some(0)]));
    let batch = RecordBatch::try_new(schema.arrow(), vec![k, s, t]).unwrap();
    let options = Arc::new(WriteOptions::try_new(schema).unwrap());
    let mut builder = ObjectBuilder::new(options.clone(), object_id(0));
    // Batch by batch gives the same as all at once.
    let mut bytes = Vec::new();
    for row in 0..3 {
        builder.push(TABLET, &batch.slice(row, 1)).unwrap().iter().for_each(|b| bytes.extend_from_slice(b));
    }
    let (tail, found, stats) = builder.finish().unwrap();
    tail.iter().for_each(|b| bytes.extend_from_slice(b));
    assert_eq!((bytes, found), object(&options, 0, &[vec![batch]]));
    let text = |v: &Option<String>| v.clone().unwrap_or_default();
    assert_eq!((text(&stats[0].min), text(&stats[0].max), stats[0].nulls), ("-5".into(), "7".into(), 0));
    assert_eq!((text(&stats[1].min), stats[1].nulls), ("b".into(), 1));
    assert_eq!(text(&stats[1].max), format!("{}{{", "z".repeat(63)));
    assert_eq!(
        (text(&stats[2].min), text(&stats[2].max)),
        ("1970-01-01 00:00:00".into(), "1970-01-01 00:00:01".into())
    );
}
