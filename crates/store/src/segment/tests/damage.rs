//! Wrong bytes are errors that name the object, never wrong rows, panics or large allocations.

use std::sync::Arc;

use arrow_array::RecordBatch;
use dipper_base::types::SqlType;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::make::*;
use crate::key::KeyEncoder;
use crate::segment::*;
use crate::table::data::DataObject;
use crate::table::schema::{Model, TableSchema};

struct Written {
    schema: Arc<TableSchema>,
    rows: RecordBatch,
    bytes: Vec<u8>,
    object: DataObject,
}

fn written() -> Written {
    let columns = [
        ("k", SqlType::Varchar(Some(20)), false),
        ("v", SqlType::String, true),
        ("n", SqlType::Int, true),
        ("a", SqlType::Array(Box::new(SqlType::String)), true),
    ];
    let properties = [("store_row_column", "true"), ("bloom_filter_columns", "v")];
    let schema = table(&columns, 1, Model::Unique, &properties);
    let rows = rows(&schema, 600, true, 9);
    let options = Arc::new(WriteOptions::try_new(schema.clone()).unwrap());
    let (bytes, object) = object(&options, 0, &[vec![rows.clone()]]);
    Written { schema, rows, bytes, object }
}

/// Runs all kinds of reads; returns the rows if all of them succeed.
async fn read(w: &Written, bytes: Vec<u8>, object: &DataObject) -> Result<RecordBatch> {
    let stored = Stored::new(bytes).await;
    let reader = stored.open(object).await?;
    let columns: Vec<_> = (0..w.schema.columns.len()).collect();
    let found = read_all(&reader, &Scan::new(&w.schema, &columns)).await?;
    let keys = KeyEncoder::for_table(&w.schema)?.encode(&w.rows.columns()[..1])?;
    for (i, key) in keys.iter().enumerate().step_by(37) {
        assert_eq!(reader.find(0, key).await?, Some(i as u32));
        reader.row(0, i as u32).await?;
    }
    for column in &w.schema.columns {
        reader.group_stats(0..1, column)?;
        reader.page_stats(0, column)?;
        reader.bloom(0, column)?;
    }
    reader.verify().await?;
    Ok(found)
}

#[tokio::test]
async fn every_flipped_bit_is_found() {
    let w = written();
    assert_eq!(read(&w, w.bytes.clone(), &w.object).await.unwrap(), w.rows);
    let mut rng = StdRng::seed_from_u64(3);
    // All bytes near borders of parts, a sample of the others.
    let tail = w.bytes.len() - w.object.tail_bytes as usize;
    for at in 0..w.bytes.len() {
        let near = at < 8 || at.abs_diff(tail) < 16 || w.bytes.len() - at < 16;
        if !near && !rng.random_bool(0.01) {
            continue;
        }
        let mut bytes = w.bytes.clone();
        bytes[at] ^= 1 << rng.random_range(0..8);
        match read(&w, bytes, &w.object).await {
            Err(SegmentError::Damaged { object, .. }) => assert_eq!(object, "t/1/d/x.parquet"),
            other => panic!("byte {at}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn cut_objects_are_errors() {
    let w = written();
    for len in (0..w.bytes.len()).step_by(997).chain([w.bytes.len() - 1]) {
        assert!(read(&w, w.bytes[..len].to_vec(), &w.object).await.is_err(), "{len} bytes");
    }
}

/// Wrong bytes under right checksums, as a mistake of a writer, or malice, would leave.
#[tokio::test]
async fn garbage_with_right_checksums_is_an_error_or_the_same_rows() {
    let w = written();
    let mut rng = StdRng::seed_from_u64(4);
    let tail = w.bytes.len() - w.object.tail_bytes as usize;
    for _ in 0..400 {
        let mut bytes = w.bytes.clone();
        for _ in 0..rng.random_range(1..4) {
            let at = rng.random_range(tail..bytes.len());
            bytes[at] = if rng.random_bool(0.3) { 0xff } else { rng.random() };
        }
        let mut object = w.object.clone();
        object.tail_crc = crc32c::crc32c(&bytes[tail..]);
        // No panic, whatever the result. Look-ups are not checked, because a changed index may answer them otherwise.
        let stored = Stored::new(bytes).await;
        let Ok(reader) = stored.open(&object).await else { continue };
        let columns: Vec<_> = (0..w.schema.columns.len()).collect();
        let _ = read_all(&reader, &Scan::new(&w.schema, &columns)).await;
        let _ = reader.find(0, b"\x01a\0").await;
        let _ = reader.row(0, 300).await;
        for column in &w.schema.columns {
            let _ = reader.group_stats(0..reader.num_groups(), column);
            let _ = reader.page_stats(0, column);
            let _ = reader.bloom(0, column);
        }
        let _ = reader.verify().await;
    }
}

#[tokio::test]
async fn newer_formats_are_refused() {
    let w = written();
    let at = w.bytes.windows(8).position(|b| b == b"DIPPERSX").unwrap();
    let mut bytes = w.bytes.clone();
    bytes[at + 8] = 2;
    let mut object = w.object.clone();
    let tail = bytes.len() - object.tail_bytes as usize;
    object.tail_crc = crc32c::crc32c(&bytes[tail..]);
    let error = read(&w, bytes, &object).await.unwrap_err();
    assert!(matches!(error, SegmentError::Newer { found: 2, .. }), "{error}");
}
