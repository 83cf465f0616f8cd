//! Chunks written here against those of arrow-rs, read by arrow-rs.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use bytes::Bytes;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReaderBuilder};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::properties::WriterProperties;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::*;
use crate::segment::WriteOptions;
use crate::segment::options::Plan;
use crate::segment::tests::make::{all_types, column, object, table};
use crate::table::schema::Model;
use crate::types::SqlType;

/// Writes a column under a plan, and reads it by arrow-rs's reader.
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
    // In two pieces, so that row groups are put together from slices.
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
    // Of long strings bounds are cut, and floating-point columns with a NaN have none here.
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
                    let mut plans = vec![(ColumnPlan::Dictionary, "none"), (ColumnPlan::Dictionary, "zstd")];
                    plans.push((ColumnPlan::Plain { codec: true }, "zstd"));
                    plans.push((ColumnPlan::Plain { codec: true }, "lz4"));
                    plans.push((ColumnPlan::Plain { codec: false }, "zstd"));
                    let numbers = !matches!(array.data_type(), DataType::Utf8View | DataType::BinaryView);
                    if numbers && !array.data_type().is_floating() {
                        plans.push((ColumnPlan::Delta, "zstd"));
                    }
                    for (plan, codec) in plans {
                        check(t, &array, nullable, plan, codec);
                    }
                }
            }
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
            // One packed run behind its header, or runs; undone bit by bit.
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
