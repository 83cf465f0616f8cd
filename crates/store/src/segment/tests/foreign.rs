//! Files of other writers are read as parquet's own reader reads them.

use std::sync::Arc;

use arrow_array::builder::{Int32Builder, ListBuilder, StringBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    StructArray,
};
use arrow_buffer::BooleanBuffer;
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Fields, Schema};
use arrow_select::concat::concat_batches;
use arrow_select::filter::filter_record_batch;
use bytes::Bytes;
use chrono::DateTime;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder, WriterVersion};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::column_tests::ByText;
use crate::segment::*;

fn random(rng: &mut StdRng, rows: usize) -> RecordBatch {
    let null = |rng: &mut StdRng| rng.random_bool(0.15);
    let id: Int64Array = (0..rows as i64).collect();
    let small: Int32Array = (0..rows).map(|_| (!null(rng)).then(|| rng.random_range(0..20))).collect();
    let text = |rng: &mut StdRng| {
        let len = rng.random_range(0..40);
        (0..len).map(|_| char::from(rng.random_range(b'a'..b'e'))).collect::<String>()
    };
    let texts: StringArray = (0..rows).map(|_| (!null(rng)).then(|| text(rng))).collect();
    let few: StringArray = (0..rows).map(|_| (!null(rng)).then(|| format!("v{}", rng.random_range(0..9)))).collect();
    let float: Float64Array = (0..rows).map(|_| (!null(rng)).then(|| rng.random())).collect();
    let flags: BooleanArray = (0..rows).map(|_| (!null(rng)).then(|| rng.random_bool(0.5))).collect();
    let mut list = ListBuilder::new(Int32Builder::new());
    let mut names = ListBuilder::new(StringBuilder::new());
    for _ in 0..rows {
        if null(rng) {
            list.append_null();
            names.append_null();
            continue;
        }
        for _ in 0..rng.random_range(0..5) {
            list.values().append_option((!null(rng)).then(|| rng.random_range(0..1000)));
            names.values().append_value(text(rng));
        }
        list.append(true);
        names.append(true);
    }
    let inner: ArrayRef = Arc::new(Int32Array::from_iter((0..rows).map(|i| (i % 3 != 0).then_some(i as i32))));
    let nested = StructArray::from(vec![(Arc::new(Field::new("a", DataType::Int32, true)), inner)]);
    let codes: DictionaryArray<Int32Type> = (0..rows).map(|i| Some(["x", "yy", "zzz"][i % 3])).collect();
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(id)),
        ("small", Arc::new(small)),
        ("text", Arc::new(texts)),
        ("few", Arc::new(few)),
        ("float", Arc::new(float)),
        ("flag", Arc::new(flags)),
        ("list", Arc::new(list.finish())),
        ("names", Arc::new(names.finish())),
        ("nested", Arc::new(nested)),
        ("code", Arc::new(codes)),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, a)| (n, a, true))).unwrap()
}

/// Returns the ways in which files are written.
fn ways() -> Vec<(&'static str, WriterPropertiesBuilder)> {
    let new = || WriterProperties::builder().set_max_row_group_row_count(Some(4000)).set_data_page_row_count_limit(700);
    let small = || new().set_data_page_size_limit(2000).set_write_batch_size(64);
    vec![
        ("as it comes", new()),
        ("small pages", small().set_writer_version(WriterVersion::PARQUET_2_0)),
        ("plain", small().set_dictionary_enabled(false)),
        ("no index", small().set_offset_index_disabled(true).set_statistics_enabled(EnabledStatistics::None)),
        (
            "no index, version 2",
            small()
                .set_offset_index_disabled(true)
                .set_statistics_enabled(EnabledStatistics::Chunk)
                .set_writer_version(WriterVersion::PARQUET_2_0)
                .set_compression(Compression::LZ4_RAW),
        ),
        (
            "no index, plain",
            small()
                .set_offset_index_disabled(true)
                .set_statistics_enabled(EnabledStatistics::None)
                .set_dictionary_enabled(false)
                .set_compression(Compression::SNAPPY),
        ),
        (
            "other encodings",
            small()
                .set_dictionary_enabled(false)
                .set_column_encoding("text".into(), Encoding::DELTA_BYTE_ARRAY)
                .set_column_encoding("few".into(), Encoding::DELTA_LENGTH_BYTE_ARRAY)
                .set_column_encoding("id".into(), Encoding::DELTA_BINARY_PACKED)
                .set_column_encoding("float".into(), Encoding::BYTE_STREAM_SPLIT)
                .set_compression(Compression::ZSTD(ZstdLevel::default())),
        ),
    ]
}

async fn open(bytes: Vec<u8>, views: bool, cache: usize) -> Result<Arc<ObjectReader>> {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("somebody/else.parquet");
    let size = bytes.len() as u64;
    store.put(&path, bytes.into()).await.unwrap();
    let modified = Some(store.head(&path).await.unwrap().last_modified);
    let file = ForeignFile { path, name: "else.parquet".into(), size, tag: String::new(), modified, views };
    ObjectReader::open_foreign(&Fetcher::local(store), &file, &PageCache::new(cache), None).await
}

fn as_views(batch: &RecordBatch) -> RecordBatch {
    let fields: Fields = batch
        .schema()
        .fields()
        .iter()
        .map(|f| match f.data_type() {
            DataType::Utf8 => Arc::new(f.as_ref().clone().with_data_type(DataType::Utf8View)),
            _ => Arc::clone(f),
        })
        .collect();
    let columns = batch.columns().iter().zip(&fields).map(|(a, f)| cast(a, f.data_type()).unwrap()).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[tokio::test]
async fn whatever_wrote_them() {
    let mut rng = StdRng::seed_from_u64(8);
    for (way, properties) in ways() {
        let batch = random(&mut rng, 9000);
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        let theirs = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes.clone())).unwrap().build().unwrap();
        let theirs: Vec<_> = theirs.map(std::result::Result::unwrap).collect();
        let theirs = concat_batches(&batch.schema(), &theirs).unwrap();
        for (views, cache) in [(true, 64 << 20), (false, 0)] {
            let theirs = if views { as_views(&theirs) } else { theirs.clone() };
            let reader = open(bytes.clone(), views, cache).await.unwrap();
            let all: Vec<_> = (0..reader.fields().len()).map(Some).collect();
            let schema = ForeignSchema::new(theirs.schema().fields(), &all);
            for round in 0..12 {
                // Random columns, rows and filter; the second time pages come from the cache.
                let columns: Vec<usize> = match round {
                    0 => (0..all.len()).collect(),
                    _ => (0..all.len()).filter(|_| rng.random_bool(0.4)).collect(),
                };
                let few = round % 3 == 1;
                let keeps = |id: i64| if few { id % 977 == 3 } else { id % 5 != 0 };
                let filtered = round % 2 == 1;
                let filter_columns = if filtered { vec![1, 0] } else { vec![] };
                let types: Vec<DataType> = theirs.schema().fields().iter().map(|f| f.data_type().clone()).collect();
                let tests = ByText::random(&types, &mut rng);
                let tested = round % 4 > 1 && !tests.tests.is_empty();
                let (mut found, mut wanted) = (Vec::new(), Vec::new());
                let mut first = 0;
                for group in 0..reader.num_groups() {
                    let rows = reader.group_rows(group);
                    let own = theirs.slice(first, rows);
                    first += rows;
                    let mut from = rng.random_range(0..rows);
                    let mask: BooleanBuffer = (0..rows)
                        .map(|i| {
                            if rng.random_bool(0.002) {
                                from = i;
                            }
                            (from..from + 900).contains(&i)
                        })
                        .collect();
                    let masked = round > 5;
                    let scan = Scan {
                        filter_columns: &filter_columns,
                        rows: masked.then_some(&mask),
                        batch_rows: 1000,
                        tests: tested.then_some(&tests as _),
                        ..Scan::new(&schema, &columns)
                    };
                    let mut filter = |b: &RecordBatch| {
                        Ok(b.column(1).as_primitive::<Int64Type>().values().iter().map(|v| Some(keeps(*v))).collect())
                    };
                    let filter = filtered.then_some(&mut filter as &mut Filter<'_>);
                    for b in reader.scan_group(group, &scan, filter).await.unwrap() {
                        found.push(b.unwrap());
                    }
                    let ids = own.column(0).as_primitive::<Int64Type>();
                    let by_text = tests.keeps(&own);
                    let passes = (0..rows).map(|i| {
                        Some(
                            (!masked || mask.value(i)) && (!filtered || keeps(ids.value(i))) && (!tested || by_text[i]),
                        )
                    });
                    wanted.push(filter_record_batch(&own, &passes.collect()).unwrap().project(&columns).unwrap());
                }
                let output = Scan::new(&schema, &columns).output();
                let found = concat_batches(&output, &found).unwrap();
                let wanted = concat_batches(&output, &wanted).unwrap();
                assert_eq!(found, wanted, "{way}, views {views}, round {round}");
            }
        }
    }
}

#[tokio::test]
async fn columns_are_typed_and_filled_by_the_table() {
    let batch = RecordBatch::try_from_iter([("a", Arc::new(Int32Array::from(vec![1, 2, 3])) as ArrayRef)]).unwrap();
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let reader = open(bytes, true, 0).await.unwrap();
    let wanted: Fields = [("b", DataType::Utf8View), ("a", DataType::Int64)]
        .map(|(name, t)| Field::new(name, t, true))
        .into_iter()
        .collect();
    let schema = ForeignSchema::new(&wanted, &[None, Some(0)]);
    let rows: Vec<_> = reader.scan_group(0, &Scan::new(&schema, &[0, 1]), None).await.unwrap().collect();
    let rows = rows[0].as_ref().unwrap();
    assert_eq!(rows.column(0).null_count(), 3);
    assert_eq!(rows.column(1).as_primitive::<Int64Type>().values(), &[1, 2, 3]);
    let stats = reader.foreign_stats(0, schema.id(1), &DataType::Int64, false).unwrap();
    assert_eq!(stats.max.as_primitive::<Int64Type>().value(0), 3);
    assert!(reader.foreign_stats(0, schema.id(0), &DataType::Utf8View, false).is_none());
}

/// No panic, whatever is in the file.
#[tokio::test]
async fn damaged_files_are_errors() {
    let mut rng = StdRng::seed_from_u64(9);
    let batch = random(&mut rng, 700);
    for (_, properties) in ways() {
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties.build())).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        for _ in 0..150 {
            let mut bytes = bytes.clone();
            match rng.random_range(0..4) {
                0 => bytes.truncate(rng.random_range(0..bytes.len())),
                _ => {
                    for _ in 0..rng.random_range(1..5) {
                        let at = rng.random_range(0..bytes.len());
                        bytes[at] = rng.random();
                    }
                }
            }
            let Ok(reader) = open(bytes, true, 0).await else { continue };
            let all: Vec<_> = (0..reader.fields().len()).map(Some).collect();
            let schema = ForeignSchema::new(reader.fields(), &all);
            let columns: Vec<_> = (0..all.len()).collect();
            for group in 0..reader.num_groups() {
                if let Ok(rows) = reader.scan_group(group, &Scan::new(&schema, &columns), None).await {
                    let _ = rows.collect::<Vec<_>>();
                }
                // Pages that are tested and split as they are stored.
                let types: Vec<DataType> = reader.fields().iter().map(|f| f.data_type().clone()).collect();
                let tests = ByText::random(&types, &mut rng);
                let scan = Scan { tests: Some(&tests), ..Scan::new(&schema, &columns) };
                if let Ok(rows) = reader.scan_group(group, &scan, None).await {
                    let _ = rows.collect::<Vec<_>>();
                }
                for column in 0..all.len() {
                    for pages in [false, true] {
                        let wanted = schema.field(column).data_type().clone();
                        let _ = reader.foreign_stats(group, schema.id(column), &wanted, pages);
                    }
                }
            }
        }
    }
}

/// Files of other writers have no checksum over all their bytes, but writers put one in the header of each page.
#[tokio::test]
async fn values_that_do_not_meet_the_checksum_of_their_page_are_damage() {
    let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/parquet");
    for name in ["checksums_1.parquet", "checksums_2.parquet"] {
        let sound = std::fs::read(golden.join(name)).unwrap();
        let rows = async |bytes: Vec<u8>| {
            let reader = open(bytes, true, 0).await?;
            let schema = ForeignSchema::new(reader.fields(), &[Some(0), Some(1)]);
            let rows = reader.scan_group(0, &Scan::new(&schema, &[0, 1]), None).await?.collect::<Result<Vec<_>>>()?;
            Ok::<_, SegmentError>(concat_batches(&rows[0].schema(), &rows).unwrap())
        };
        let read = rows(sound.clone()).await.unwrap();
        let squares: Int64Array = (0..40).map(|i| i * i).collect();
        assert_eq!(read.column(0).as_primitive::<Int64Type>(), &squares);
        // The stored values of one column, and the text of the other's dictionary.
        let values: Vec<u8> = squares.values().iter().flat_map(|n| n.to_le_bytes()).collect();
        for (stored, what) in [(values.as_slice(), "numbers"), (b"row 37".as_slice(), "texts")] {
            let start = sound.windows(stored.len()).position(|bytes| bytes == stored).unwrap();
            for at in start..start + stored.len() {
                let mut bytes = sound.clone();
                bytes[at] ^= 1;
                let e = rows(bytes).await.unwrap_err();
                assert!(e.is_damage() && e.to_string().contains("CRC"), "{name}, {what}, byte {at}: {e}");
            }
        }
    }
}

#[tokio::test]
async fn a_file_that_changes_is_noticed() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let path = Path::from("x.parquet");
    let batch = random(&mut StdRng::seed_from_u64(1), 100);
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    let size = bytes.len() as u64;
    store.put(&path, bytes.into()).await.unwrap();
    let modified = Some(DateTime::from_timestamp(1, 0).unwrap());
    let file = ForeignFile { path, name: "/x.parquet".into(), size, tag: String::new(), modified, views: true };
    let reader = ObjectReader::open_foreign(&Fetcher::local(store), &file, &PageCache::new(0), None).await.unwrap();
    let schema = ForeignSchema::new(reader.fields(), &[Some(0)]);
    let error = reader.scan_group(0, &Scan::new(&schema, &[0]), None).await.err().expect("an error");
    assert!(error.to_string().contains("'/x.parquet'") && error.to_string().contains("changed"), "{error}");
}

#[tokio::test]
async fn a_value_that_does_not_fit_names_file_and_column() {
    let texts: ArrayRef = Arc::new(StringArray::from(vec!["1", "x", "3"]));
    let rows = RecordBatch::try_from_iter([("t", texts)]).unwrap();
    let mut writer = ArrowWriter::try_new(Vec::new(), rows.schema(), None).unwrap();
    writer.write(&rows).unwrap();
    let reader = open(writer.into_inner().unwrap(), true, 0).await.unwrap();
    let fields = Fields::from(vec![Field::new("n", DataType::Int64, true)]);
    let schema = ForeignSchema::new(&fields, &[Some(0)]);
    let batches: Result<Vec<_>> = reader.scan_group(0, &Scan::new(&schema, &[0]), None).await.unwrap().collect();
    let e = batches.unwrap_err();
    assert!(!e.is_damage(), "{e}");
    let e = e.to_string();
    assert!(e.starts_with("'else.parquet', column n: ") && e.contains("'x'"), "{e}");
}
