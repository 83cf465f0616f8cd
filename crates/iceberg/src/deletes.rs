//! Readers of deletes: positions as bitmaps, equality deletes as batches.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, FieldRef, Int64Type, Schema as ArrowSchema};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use parquet::file::metadata::ParquetMetaData;
use roaring::{RoaringBitmap, RoaringTreemap};

use crate::error::{IcebergError, Result};
use crate::manifest::{Content, FileEntry};
use crate::reshape::{reshape, shape};
use crate::{Locations, get, get_range};

/// Field id of the data file's path in files of deleted positions.
const PATH_ID: i32 = 2_147_483_546;
/// Field id of the position in these files.
const POSITION_ID: i32 = 2_147_483_545;

/// First bytes of a deletion vector.
const VECTOR_MAGIC: [u8; 4] = [0xd1, 0xd3, 0x39, 0x64];

/// Checks the sizes that the pages of a Parquet file claim to unpack to, before its reader allocates memory for them.
pub type CheckClaims = fn(&ParquetMetaData, &Bytes) -> std::result::Result<(), ParquetError>;

/// Deleted positions of data files, by path.
pub type Positions = HashMap<String, RoaringTreemap>;

/// Reads the positions in a file of deleted positions, for all data files that it names.
///
/// # Errors
/// [`IcebergError::Read`] if it cannot be read, [`IcebergError::Damaged`] if it is malformed,
/// [`IcebergError::Unsupported`] if its format is not supported.
pub async fn positions(locations: &dyn Locations, file: &FileEntry, check: CheckClaims) -> Result<Positions> {
    if file.content != Content::Positions {
        return Err(IcebergError::damaged(&file.path, "not a file of deleted positions"));
    }
    match (file.format.as_str(), file.blob, &file.referenced) {
        ("puffin", Some((offset, length)), Some(referenced)) => {
            let end = offset.checked_add(length).ok_or_else(|| IcebergError::damaged(&file.path, "its offset"))?;
            let blob = get_range(locations, &file.path, offset..end).await?;
            let bits = vector(&file.path, &blob)?;
            if file.records >= 0 && bits.len() != file.records as u64 {
                let reason =
                    format!("a deletion vector of {} rows, where the manifest says {}", bits.len(), file.records);
                return Err(IcebergError::damaged(&file.path, reason));
            }
            Ok(HashMap::from([(referenced.clone(), bits)]))
        }
        ("puffin", ..) => Err(IcebergError::damaged(&file.path, "a deletion vector without place or data file")),
        ("parquet", ..) => position_file(&file.path, get(locations, &file.path).await?, check),
        (other, ..) => Err(IcebergError::unsupported(format!("'{}': a delete file of format {other}", file.path))),
    }
}

fn position_file(path: &str, bytes: Bytes, check: CheckClaims) -> Result<Positions> {
    let damaged = |what: String| IcebergError::damaged(path, what);
    let (schema, batches) = parquet(path, bytes, &[PATH_ID, POSITION_ID], check)?;
    let column = |id: i32, name: &str| {
        schema
            .fields()
            .iter()
            .position(|f| crate::reshape::field_id(f) == Some(id))
            .or_else(|| schema.index_of(name).ok())
            .ok_or_else(|| damaged(format!("no column {name}")))
    };
    let (path_at, position_at) = (column(PATH_ID, "file_path")?, column(POSITION_ID, "pos")?);
    let mut found = Positions::new();
    for batch in batches {
        let to = |at: usize, t: &DataType| cast(batch.column(at), t).map_err(|e| damaged(e.to_string()));
        let (paths, positions) = (to(path_at, &DataType::Utf8)?, to(position_at, &DataType::Int64)?);
        let (paths, positions) = (paths.as_string::<i32>(), positions.as_primitive::<Int64Type>());
        if paths.null_count() + positions.null_count() > 0 {
            return Err(damaged("a NULL path or position".into()));
        }
        let mut row = 0;
        while row < batch.num_rows() {
            let path = paths.value(row);
            let bits = found.entry(path.to_string()).or_default();
            while row < batch.num_rows() && paths.value(row) == path {
                let at = positions.value(row);
                bits.insert(u64::try_from(at).map_err(|_| damaged(format!("position {at}")))?);
                row += 1;
            }
        }
    }
    Ok(found)
}

/// Parses a deletion vector: length, magic, a Roaring bitmap of 64-bit positions (a count of 32-bit ones, each after
/// its upper half), CRC-32.
fn vector(path: &str, blob: &[u8]) -> Result<RoaringTreemap> {
    let damaged = |what: &str| IcebergError::damaged(path, format!("a deletion vector: {what}"));
    if blob.len() < 12 {
        return Err(damaged("it is too short"));
    }
    let length = u32::from_be_bytes([blob[0], blob[1], blob[2], blob[3]]) as usize;
    if length.checked_add(8) != Some(blob.len()) {
        return Err(damaged("its length does not fit its place"));
    }
    let (body, sum) = blob[4..].split_at(length);
    if u32::from_be_bytes([sum[0], sum[1], sum[2], sum[3]]) != crc32(body) {
        return Err(damaged("its checksum is wrong"));
    }
    let mut rest = body.strip_prefix(&VECTOR_MAGIC).ok_or_else(|| damaged("its magic is wrong"))?;
    let count = rest.split_off(..8).ok_or_else(|| damaged("it ends early"))?;
    let count = u64::from_le_bytes(count.try_into().unwrap_or_default());
    if count > i32::MAX as u64 {
        return Err(damaged("it has too many parts"));
    }
    let mut parts = Vec::new();
    for _ in 0..count {
        let key = rest.split_off(..4).ok_or_else(|| damaged("it ends early"))?;
        let key = u32::from_le_bytes(key.try_into().unwrap_or_default());
        let bits = RoaringBitmap::deserialize_from(&mut rest).map_err(|e| damaged(&e.to_string()))?;
        parts.push((key, bits));
    }
    if !rest.is_empty() {
        return Err(damaged("bytes follow it"));
    }
    Ok(RoaringTreemap::from_bitmaps(parts))
}

/// Returns the CRC-32 of zlib.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = flate2::Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Reads the rows of an equality delete: the columns `fields` (each with its field id), in their types.
///
/// # Errors
/// [`IcebergError::Read`] if it cannot be read, [`IcebergError::Damaged`] if it is malformed,
/// [`IcebergError::Unsupported`] if its format is not supported.
pub async fn equality(
    locations: &dyn Locations,
    file: &FileEntry,
    fields: &[FieldRef],
    check: CheckClaims,
) -> Result<Vec<RecordBatch>> {
    if file.content != Content::Equality || file.format != "parquet" {
        return Err(IcebergError::unsupported(format!(
            "'{}': an equality delete of format {}",
            file.path, file.format
        )));
    }
    let damaged = |what: String| IcebergError::damaged(&file.path, what);
    let ids: Vec<i32> = fields.iter().filter_map(|f| crate::reshape::field_id(f)).collect();
    let (schema, batches) = parquet(&file.path, get(locations, &file.path).await?, &ids, check)?;
    let wanted = Arc::new(ArrowSchema::new(fields.to_vec()));
    let mut found = Vec::new();
    for batch in batches {
        let columns = fields
            .iter()
            .map(|f| {
                let id = crate::reshape::field_id(f);
                let at = schema.fields().iter().position(|x| crate::reshape::field_id(x) == id);
                let at = at.ok_or_else(|| damaged(format!("no column '{}'", f.name())))?;
                let from = shape(&schema.fields()[at], f, &|_| Ok(None)).map_err(damaged)?;
                reshape(batch.column(at), &from, f).map_err(|e| damaged(e.to_string()))
            })
            .collect::<Result<Vec<_>>>()?;
        found.push(RecordBatch::try_new(Arc::clone(&wanted), columns).map_err(|e| damaged(e.to_string()))?);
    }
    Ok(found)
}

/// Reads a Parquet file's columns of these field ids (all columns if the file has no ids), as batches.
fn parquet(path: &str, bytes: Bytes, ids: &[i32], check: CheckClaims) -> Result<(Arc<ArrowSchema>, Vec<RecordBatch>)> {
    let damaged = |what: String| IcebergError::damaged(path, what);
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone()).map_err(|e| damaged(e.to_string()))?;
    check(builder.metadata(), &bytes).map_err(|e| damaged(e.to_string()))?;
    let found: Vec<Option<i32>> = builder.schema().fields().iter().map(|f| crate::reshape::field_id(f)).collect();
    let mask = match found.iter().any(Option::is_some) {
        false => ProjectionMask::all(),
        true => {
            let roots =
                found.iter().enumerate().filter(|(_, id)| id.is_some_and(|id| ids.contains(&id))).map(|(i, _)| i);
            ProjectionMask::roots(builder.parquet_schema(), roots)
        }
    };
    let reader = builder.with_projection(mask).build().map_err(|e| damaged(e.to_string()))?;
    let schema = arrow::array::RecordBatchReader::schema(&reader);
    let batches = reader.collect::<std::result::Result<Vec<_>, _>>().map_err(|e| damaged(e.to_string()))?;
    Ok((schema, batches))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blob(bits: &RoaringTreemap) -> Vec<u8> {
        let mut body = VECTOR_MAGIC.to_vec();
        bits.serialize_into(&mut body).unwrap();
        let mut all = (body.len() as u32).to_be_bytes().to_vec();
        all.extend(&body);
        all.extend(crc32(&body).to_be_bytes());
        all
    }

    #[test]
    fn deletion_vectors_are_read_and_damage_is_found() {
        let bits: RoaringTreemap = [0u64, 5, 1 << 33, (1 << 33) + 7].into_iter().collect();
        let good = blob(&bits);
        assert_eq!(vector("p", &good).unwrap(), bits);
        assert_eq!(vector("p", &blob(&RoaringTreemap::new())).unwrap(), RoaringTreemap::new());
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(vector("p", &bad).is_err(), "byte {at}");
            assert!(vector("p", &good[..at]).is_err(), "cut at {at}");
        }
    }
}
