//! Written rows are read back.

use std::sync::Arc;
use std::task::Poll;

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, BooleanArray, RecordBatch, UInt32Array};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use dipper_base::types::SqlType;
use object_store::{Extensions, ObjectStoreExt};
use roaring::RoaringBitmap;

use super::make::*;
use crate::key::KeyEncoder;
use crate::segment::*;
use crate::table::schema::{Model, TableColumn};

#[tokio::test]
async fn all_types_in_all_codecs() {
    for (seed, codec) in ["zstd", "lz4", "none"].into_iter().enumerate() {
        for wide in [false, true] {
            for rows_of in [1usize, 3000, 30_000] {
                let schema = table(&all_types(), 0, Model::Duplicate, &[("compression", codec)]);
                let mut options = WriteOptions::try_new(schema.clone()).unwrap();
                options.row_group_rows = 12_500;
                let options = Arc::new(options);
                let a = rows(&schema, rows_of, wide, seed as u64);
                let b = rows(&schema, 100, wide, seed as u64 + 10);
                let (bytes, object) = object(&options, 0, &[vec![a.clone(), b.clone()], vec![b.clone()]]);
                let stored = Stored::new(bytes).await;
                let reader = stored.open(&object).await.unwrap();
                reader.verify().await.unwrap();
                let columns: Vec<_> = (0..schema.columns.len()).collect();
                let expected = concat_batches(&schema.arrow(), [&a, &b, &b]).unwrap();
                for _ in 0..2 {
                    let found = read_all(&reader, &Scan::new(&schema, &columns)).await.unwrap();
                    for (i, c) in schema.columns.iter().enumerate() {
                        assert_eq!(expected.column(i), found.column(i), "{} {codec} {wide} {rows_of}", c.name);
                    }
                }
            }
        }
    }
}

/// Nested columns have several chunks, whose bytes are those of one column.
#[tokio::test]
async fn the_bytes_of_columns_are_those_of_their_segment() {
    for codec in ["zstd", "lz4", "none"] {
        let schema = table(&all_types(), 0, Model::Duplicate, &[("compression", codec)]);
        let mut options = WriteOptions::try_new(schema.clone()).unwrap();
        options.row_group_rows = 1000;
        let options = Arc::new(options);
        let segments = [vec![rows(&schema, 2500, true, 1)], vec![rows(&schema, 10, true, 2)]];
        let (bytes, object) = object(&options, 0, &segments);
        let stored = Stored::new(bytes).await;
        let reader = stored.open(&object).await.unwrap();
        for (ordinal, segment) in (0..).zip(&object.segments) {
            let found = reader.column_bytes(ordinal);
            let names: Vec<_> = found.iter().map(|c| (c.id, c.name.as_str())).collect();
            let wanted: Vec<_> = schema.columns.iter().map(|c| (c.id, c.name.as_str())).collect();
            assert_eq!(names, wanted);
            assert_eq!(found.iter().map(|c| c.packed).sum::<u64>(), segment.bytes, "{codec} {ordinal}");
            assert!(found.iter().all(|c| c.packed <= c.unpacked), "{codec} {found:?}");
            assert_eq!(codec == "none", found.iter().all(|c| c.packed == c.unpacked), "{codec} {found:?}");
        }
    }
}

/// However the rows come, also with a key index and a row store, whose blocks follow each row group.
#[tokio::test]
async fn a_last_row_group_of_few_rows_goes_with_the_one_before_it() {
    let columns = [("k", SqlType::BigInt, false), ("s", SqlType::String, true)];
    let schema = table(&columns, 1, Model::Unique, &[("store_row_column", "true")]);
    let mut options = WriteOptions::try_new(schema.clone()).unwrap();
    options.row_group_rows = 1000;
    let options = Arc::new(options);
    for (pieces, groups) in [
        (vec![1], vec![1]),
        (vec![1125], vec![1125]),
        (vec![1126], vec![1000, 126]),
        (vec![400, 0, 700], vec![1100]),
        (vec![999, 2, 1000, 1], vec![1000, 1002]),
        (vec![5000, 124], vec![1000, 1000, 1000, 1000, 1124]),
    ] {
        let wanted = pieces.iter().sum();
        // Of rows with the same key one is left.
        let batch = rows(&schema, 2 * wanted, true, 3).slice(0, wanted);
        let mut from = 0;
        let cut = pieces.iter().map(|n| {
            from += n;
            batch.slice(from - n, *n)
        });
        let (bytes, object) = object(&options, 0, &[cut.collect()]);
        let stored = Stored::new(bytes).await;
        let reader = stored.open(&object).await.unwrap();
        reader.verify().await.unwrap();
        let found: Vec<_> = (0..object.segments[0].groups as usize).map(|group| reader.group_rows(group)).collect();
        assert_eq!(found, groups, "{pieces:?}");
        let read = read_all(&reader, &Scan::new(&schema, &[0, 1])).await.unwrap();
        assert_eq!(read.columns(), &batch.columns()[..2], "{pieces:?}");
    }
}

#[tokio::test]
async fn filters_delete_vectors_and_addresses() {
    let columns = [("k", SqlType::BigInt, false), ("s", SqlType::String, true), ("v", SqlType::Int, true)];
    let schema = table(&columns, 1, Model::Duplicate, &[]);
    let mut options = WriteOptions::try_new(schema.clone()).unwrap();
    options.row_group_rows = 50_000;
    let batch = rows(&schema, 120_000, true, 5);
    let (bytes, object) = object(&Arc::new(options), 0, &[vec![batch.clone()]]);
    assert_eq!(object.segments[0].groups, 3);
    let stored = Stored::new(bytes).await;
    let reader = stored.open(&object).await.unwrap();
    let deleted: RoaringBitmap = (0..120_000u32).filter(|r| r % 7 == 3 || (40_000..90_000).contains(r)).collect();
    for (wanted, filter_columns) in
        [(vec![1, 2, 0], vec![0]), (vec![1], vec![2, 0]), (vec![], vec![0]), (vec![0], vec![])]
    {
        for few in [false, true] {
            let scan = Scan {
                filter_columns: &filter_columns,
                deleted: Some(&deleted),
                row_address: true,
                batch_rows: 1000,
                ..Scan::new(&schema, &wanted)
            };
            // By the value of the last filter column, so that it is known which rows pass.
            let passes = |v: i64| if few { v % 5000 == 0 } else { v % 3 != 0 };
            let last = filter_columns.last().copied();
            let value = |row: usize| -> Option<i64> {
                let column = batch.column(last?);
                assert_eq!(last, Some(0));
                Some(column.as_primitive::<Int64Type>().value(row))
            };
            let expected: Vec<u32> =
                (0..120_000u32).filter(|r| !deleted.contains(*r) && value(*r as usize).is_none_or(passes)).collect();
            let mut batches = Vec::new();
            for group in 0..reader.num_groups() {
                let mut filter = |b: &RecordBatch| {
                    let keys = b.column(b.num_columns() - 1).as_primitive::<Int64Type>().clone();
                    Ok(keys.iter().map(|k| k.map(passes)).collect::<BooleanArray>())
                };
                let filter = last.is_some().then_some(&mut filter as &mut Filter<'_>);
                for b in reader.scan_group(group, &scan, filter).await.unwrap() {
                    batches.push(b.unwrap());
                }
            }
            let found = concat_batches(&scan.output(), &batches).unwrap();
            assert_eq!(found.num_rows(), expected.len());
            let addresses = row_addresses(&found).unwrap();
            assert!(addresses.iter().eq(expected.iter().map(|r| u64::from(*r)).collect::<Vec<_>>().iter()));
            let expected = take_record_batch(&batch, &UInt32Array::from(expected)).unwrap();
            for (i, column) in wanted.iter().enumerate() {
                assert_eq!(found.column(i), expected.column(*column));
            }
        }
    }
}

#[tokio::test]
async fn keys_and_rows_are_found() {
    let columns = [
        ("a", SqlType::Varchar(Some(20)), true),
        ("b", SqlType::Int, true),
        ("v", SqlType::String, true),
        ("__DORIS_DELETE_SIGN__", SqlType::TinyInt, false),
    ];
    let schema = table(&columns, 2, Model::Unique, &[("store_row_column", "true")]);
    let mut options = WriteOptions::try_new(schema.clone()).unwrap();
    options.row_group_rows = 1500;
    let batch = rows(&schema, 9000, true, 5);
    let (bytes, object) = object(&Arc::new(options), 0, &[vec![batch.slice(0, 10)], vec![batch.clone()]]);
    let stored = Stored::new(bytes).await;
    let reader = stored.open(&object).await.unwrap();
    let encoder = KeyEncoder::for_table(&schema).unwrap();
    let keys = encoder.encode(&batch.columns()[..2]).unwrap();
    let types: Vec<_> = schema.columns.iter().map(|c| c.data_type.clone()).collect();
    let layout = row::RowLayout::try_new(&types).unwrap();
    assert_eq!(reader.row_columns(1), Some(&[10, 11, 12, 13][..]));
    for (i, key) in keys.iter().enumerate() {
        assert_eq!(reader.find(1, key).await.unwrap(), Some(i as u32));
        assert_eq!(reader.find(0, key).await.unwrap(), (i < 10).then_some(i as u32));
        let mut other = key.to_vec();
        other.push(0);
        assert_eq!(reader.find(1, &other).await.unwrap(), None);
        let row = reader.row(1, i as u32).await.unwrap();
        let values: Vec<_> = layout.values(&row).collect::<Result<_, _>>().unwrap();
        let text = batch.column(2).as_string_view();
        match values[2] {
            None => assert!(text.is_null(i)),
            Some(v) => assert_eq!(row::text(v).unwrap(), text.value(i).as_bytes()),
        }
        assert_eq!(
            values[3].map(|v| v[0] as i8),
            Some(batch.column(3).as_primitive::<arrow_array::types::Int8Type>().value(i))
        );
    }
    assert_eq!(object.segments[1].key_max, keys.get(keys.len() - 1));
    assert!(reader.row(1, 9000).await.is_err());
}

/// After warming, all blocks that look-ups read are in the cache. An object that is large beside the cache, or remote,
/// is not warmed.
#[tokio::test]
async fn a_warm_object_is_looked_into_without_its_store() {
    let columns = [("k", SqlType::BigInt, false), ("v", SqlType::String, true)];
    let schema = table(&columns, 1, Model::Unique, &[("store_row_column", "true")]);
    let batch = rows(&schema, 9000, true, 5);
    let options = Arc::new(WriteOptions::try_new(schema.clone()).unwrap());
    let (bytes, object) = object(&options, 0, &[vec![batch.slice(0, 10)], vec![batch.clone()]]);
    let keys = KeyEncoder::for_table(&schema).unwrap().encode(&batch.columns()[..1]).unwrap();
    let found = |reader: &ObjectReader| {
        let found = |(i, key): (usize, &[u8])| {
            let row = reader.find_now(1, key, key_hash(key)).unwrap();
            row == Poll::Ready(Some(i as u32)) && reader.row_now(1, i as u32).unwrap().is_ready()
        };
        keys.iter().enumerate().filter(|key| found(*key)).count()
    };
    for (times, expected) in [(1, 0), (17, keys.len())] {
        let stored = Stored { cache: PageCache::new(bytes.len() * times), ..Stored::new(bytes.clone()).await };
        let reader = stored.open(&object).await.unwrap();
        assert!(!reader.is_looked_up());
        reader.warm().unwrap();
        stored.store.delete(&stored.path).await.unwrap();
        assert_eq!(found(&reader), expected, "a cache of {times} times the object's bytes");
        assert!(reader.is_looked_up());
    }
    let stored = Stored::new(bytes.clone()).await;
    let far = Fetcher::remote(Arc::clone(&stored.store), tokio::runtime::Handle::current(), Extensions::new());
    let reader = ObjectReader::open_by(&far, &stored.path, &object, &stored.cache, None).await.unwrap();
    reader.warm().unwrap();
    assert_eq!(stored.cache.bytes(), 0);
}

#[tokio::test]
async fn a_small_first_segment_does_not_decide_for_its_load() {
    let schema = table(&[("s", SqlType::String, false)], 0, Model::Duplicate, &[]);
    let options = Arc::new(WriteOptions::try_new(schema.clone()).unwrap());
    // One row does not show how often values repeat.
    let few = rows(&schema, 1, false, 1);
    let many = rows(&schema, 50_000, false, 2);
    let (bytes, object) = object(&options, 0, &[vec![few], vec![many]]);
    let reader = Stored::new(bytes).await.open(&object).await.unwrap();
    let dictionary = |group: usize| reader.metadata().row_group(group).column(0).dictionary_page_offset().is_some();
    assert!(dictionary(1));
    assert!(!dictionary(0));
}

#[tokio::test]
async fn filters_of_another_type_are_not_used() {
    let columns = [("k", SqlType::Int, false), ("s", SqlType::String, true)];
    let schema = table(&columns, 1, Model::Duplicate, &[("bloom_filter_columns", "k,s")]);
    let options = Arc::new(WriteOptions::try_new(schema.clone()).unwrap());
    let (bytes, object) = object(&options, 0, &[vec![rows(&schema, 500, true, 3)]]);
    let stored = Stored::new(bytes).await;
    let reader = stored.open(&object).await.unwrap();
    for column in &schema.columns {
        assert!(reader.bloom(0, column).unwrap().is_some(), "{}", column.name);
    }
    let wider = TableColumn { data_type: SqlType::BigInt, ..schema.columns[0].clone() };
    assert!(reader.bloom(0, &wider).unwrap().is_none());
    let text = TableColumn { data_type: SqlType::Varchar(None), ..schema.columns[0].clone() };
    assert!(reader.bloom(0, &text).unwrap().is_none());
}

#[test]
fn an_object_says_whether_it_has_room() {
    let schema = table(&[("k", SqlType::Int, false)], 0, Model::Duplicate, &[]);
    let mut options = WriteOptions::try_new(schema.clone()).unwrap();
    options.row_group_rows = 1;
    let options = Arc::new(options);
    let batch = rows(&schema, 17_000, true, 3);
    let segment = || encode_segment(&options, TABLET, &[batch.clone()]).unwrap();
    let mut builder = ObjectBuilder::new(options.clone(), object_id(0));
    assert!(builder.has_room(&segment()));
    builder.append(segment()).unwrap();
    assert!(!builder.has_room(&segment()));
    assert!(matches!(builder.append(segment()), Err(SegmentError::TooLarge { .. })));
}
