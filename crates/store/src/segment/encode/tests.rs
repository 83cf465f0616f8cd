//! Chunks written here compared with those of arrow-rs, read by arrow-rs.

use std::sync::Arc;

use arrow_array::types::{Float64Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch, StringViewArray};
use bytes::Bytes;
use dipper_base::types::SqlType;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::WriterProperties;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::segment::WriteOptions;
use crate::segment::options::Plan;
use crate::segment::tests::make::{all_types, column, object, table};
use crate::table::schema::Model;

/// Writes a column under a plan, and reads it with arrow-rs's reader.
fn check(t: &SqlType, array: &ArrayRef, nullable: bool, plan: ColumnPlan, codec: &str) {
    let schema = table(
        &[("c", t.clone(), nullable)],
        0,
        Model::Duplicate,
        &[("compression", codec), ("bloom_filter_columns", "c")],
    );
    let options = WriteOptions::try_new(schema.clone()).unwrap();
    let properties = Arc::new(WriterProperties::default());
    options.plan.set(Arc::new(Plan { columns: vec![plan], properties })).unwrap();
    let batch = RecordBatch::try_new(schema.arrow(), vec![array.clone()]).unwrap();
    // In two pieces, so that row groups are composed of slices.
    let pieces = vec![
        batch.slice(0, batch.num_rows() / 3),
        batch.slice(batch.num_rows() / 3, batch.num_rows() - batch.num_rows() / 3),
    ];
    let (bytes, _) = object(&Arc::new(options), 0, &[pieces]);
    let with_schema = ArrowReaderOptions::new().with_schema(schema.arrow());
    let reader = ParquetRecordBatchReaderBuilder::try_new_with_options(Bytes::from(bytes), with_schema).unwrap();
    let ours: ColumnChunkMetaData = reader.metadata().row_group(0).column(0).clone();
    let found: Vec<_> = reader.with_batch_size(batch.num_rows()).build().unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(found, [batch.clone()], "{t} {plan:?} {codec}");

    let mut theirs = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut theirs, schema.arrow(), None).unwrap();
    writer.write(&batch).unwrap();
    let theirs = writer.close().unwrap().row_group(0).column(0).clone();
    let bounds = |c: &ColumnChunkMetaData| {
        let s = c.statistics().unwrap();
        (s.min_bytes_opt().map(<[u8]>::to_vec), s.max_bytes_opt().map(<[u8]>::to_vec), s.null_count_opt())
    };
    let (a, b) = (bounds(&ours), bounds(&theirs));
    assert_eq!(a.2, b.2);
    // Bounds of long strings are cut, and floating-point columns with a NaN have none here.
    let exact = b.0.iter().chain(&b.1).all(|v| v.len() < 64) && !array.data_type().is_floating();
    if exact {
        assert_eq!(a, b, "{t} {plan:?}");
    }
}

#[test]
fn all_types_under_all_plans_read_as_they_were_written() {
    let mut rng = StdRng::seed_from_u64(8);
    for (_, t, _) in all_types().iter().filter(|(_, t, _)| is_ours(&t.to_arrow())) {
        for rows in [1, 7, 8, 20_000, 20_001, 61_003] {
            for wide in [false, true] {
                for nullable in [false, true] {
                    let array = column(t, rows, nullable, wide, &mut rng);
                    let mut plans = Vec::new();
                    for (codec, name) in [(false, "none"), (false, "zstd"), (true, "zstd"), (true, "lz4")] {
                        plans.push((ColumnPlan::Dictionary { codec }, name));
                        plans.push((ColumnPlan::Plain { codec }, name));
                        if matches!(array.data_type(), DataType::Utf8View | DataType::BinaryView) {
                            plans.push((ColumnPlan::Lengths { codec }, name));
                        } else if !array.data_type().is_floating() && !codec {
                            plans.push((ColumnPlan::Delta, name));
                        }
                    }
                    for (plan, codec) in plans {
                        check(t, &array, nullable, plan, codec);
                    }
                }
            }
        }
    }
}

/// Returns the bytes of a chunk under a plan.
fn size(t: &SqlType, array: &ArrayRef, plan: ColumnPlan, codec: &str) -> usize {
    let schema = table(&[("c", t.clone(), true)], 0, Model::Duplicate, &[("compression", codec)]);
    let options = WriteOptions::try_new(schema).unwrap();
    let column = Column {
        descr: &options.parquet.columns()[0],
        nullable: true,
        plan,
        codec: options.codec(),
        compression: options.compression(),
        bloom: None,
    };
    let mut out = Vec::new();
    encode(&column, array, 0, &mut out, &mut Scratch::default()).unwrap();
    out.len()
}

#[test]
fn what_a_sample_advises_is_small() {
    use ColumnPlan::*;
    const ROWS: usize = 60_000;
    let mut rng = StdRng::seed_from_u64(4);
    fn numbers<T: arrow_array::ArrowPrimitiveType>(next: impl FnMut(usize) -> T::Native) -> ArrayRef {
        Arc::new(PrimitiveArray::<T>::from_iter_values((0..ROWS).map(next)))
    }
    fn texts(next: impl FnMut(usize) -> String) -> ArrayRef {
        Arc::new(StringViewArray::from_iter_values((0..ROWS).map(next)))
    }
    let (mut id, mut session, mut left) = (0, 0, 0);
    let mut of_session = |rng: &mut StdRng| {
        if left == 0 {
            (session, left) = (rng.random::<i64>(), rng.random_range(1..9));
        }
        left -= 1;
        session
    };
    let word = |rng: &mut StdRng| format!("{:x}", rng.random_range(0..3000u64).wrapping_mul(0x9e37_79b9_7f4a) >> 20);
    // Each column with the best plan for it, or some of the best.
    let columns: Vec<(&str, SqlType, ArrayRef, &[ColumnPlan])> = vec![
        ("a constant", SqlType::Int, numbers::<Int32Type>(|_| 7), &[Dictionary { codec: false }]),
        (
            "few values",
            SqlType::SmallInt,
            numbers::<Int16Type>(|_| rng.random_range(0..6) * 100),
            &[Dictionary { codec: false }],
        ),
        (
            "ids",
            SqlType::BigInt,
            numbers::<Int64Type>(|_| {
                id += rng.random_range(1..5);
                id
            }),
            &[Delta],
        ),
        ("hashes", SqlType::BigInt, numbers::<Int64Type>(|_| rng.random()), &[Plain { codec: false }]),
        (
            "sessions",
            SqlType::BigInt,
            numbers::<Int64Type>(|_| of_session(&mut rng)),
            &[Plain { codec: true }, Dictionary { codec: true }, Dictionary { codec: false }],
        ),
        (
            "seconds of a month",
            SqlType::DateTime(0),
            numbers::<TimestampMicrosecondType>(|_| 1_372_000_000_000_000 + rng.random_range(0..2_600_000) * 1_000_000),
            &[Delta],
        ),
        (
            "prices",
            SqlType::Double,
            numbers::<Float64Type>(|_| f64::from(rng.random_range(0..9_000)) / 100.0),
            &[Plain { codec: true }, Dictionary { codec: true }],
        ),
        (
            "texts",
            SqlType::String,
            texts(|_| (0..rng.random_range(1..30)).map(|_| word(&mut rng)).collect::<Vec<_>>().join(" ")),
            &[Lengths { codec: true }],
        ),
        (
            "equal lengths",
            SqlType::String,
            texts(|i| format!("user{:06}", i * 7919 % 900_001)),
            &[Plain { codec: true }],
        ),
        ("names", SqlType::String, texts(|_| word(&mut rng)), &[Dictionary { codec: false }]),
    ];
    for (name, t, array, good) in columns {
        for codec in ["zstd", "lz4", "none"] {
            let options =
                WriteOptions::try_new(table(&[("c", t.clone(), true)], 0, Model::Duplicate, &[("compression", codec)]));
            let batch = RecordBatch::try_from_iter([("c", array.clone())]).unwrap();
            let chosen =
                options.unwrap().plan(&[batch.slice(0, 1000), batch.slice(1000, ROWS - 1000)]).unwrap().columns[0];
            if codec == "zstd" {
                assert!(good.contains(&chosen), "{name}: {chosen:?}");
            }
            let mut plans = vec![Dictionary { codec: true }, Dictionary { codec: false }];
            plans.extend([Plain { codec: true }, Plain { codec: false }]);
            match array.data_type() {
                DataType::Utf8View => plans.extend([Lengths { codec: true }, Lengths { codec: false }]),
                DataType::Float64 => {}
                _ => plans.push(Delta),
            }
            let least = plans.into_iter().map(|plan| size(&t, &array, plan, codec)).min().unwrap();
            let found = size(&t, &array, chosen, codec);
            assert!(found as f64 <= least as f64 * 1.75, "{name}, {codec}: {chosen:?} takes {found} of {least} bytes");
        }
    }
}

#[test]
fn packed_codes_of_every_width() {
    for bits in 1..=20u32 {
        for n in [1usize, 8, 9, 1000] {
            let codes: Vec<u32> = (0..n as u32).map(|i| i.wrapping_mul(2_654_435_761) >> (32 - bits)).collect();
            let mut out = Vec::new();
            bits::put_codes(&mut out, &codes, bits);
            // One packed run after its header, or runs; decoded bit by bit.
            let mut found = Vec::new();
            let mut from = crate::segment::binary::Reader(&out);
            while found.len() < n {
                let header = from.var().unwrap();
                if header & 1 == 1 {
                    let bytes = from.take((header >> 1) as usize * bits as usize).unwrap();
                    let bit = |i: usize| u32::from(bytes[i / 8] >> (i % 8) & 1);
                    let width = bits as usize;
                    found.extend(
                        (0..(header as usize >> 1) * 8)
                            .map(|v| (0..width).map(|b| bit(v * width + b) << b).sum::<u32>()),
                    );
                } else {
                    let mut value = [0; 4];
                    let width = bits.div_ceil(8) as usize;
                    value[..width].copy_from_slice(from.take(width).unwrap());
                    found.extend(std::iter::repeat_n(u32::from_le_bytes(value), header as usize >> 1));
                }
            }
            assert_eq!(&found[..n], codes, "{bits} bits, {n} codes");
            assert!(from.0.is_empty() && found.len() < n + 8);
        }
    }
}
