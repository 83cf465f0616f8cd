//! New checksums for objects whose bytes were changed on purpose.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use parquet::file::metadata::{PageIndexPolicy, ParquetMetaDataReader};

use super::directory;
use super::read::directory_range;
use super::write::page_ranges;
use crate::table::data::DataObject;

/// Gives a changed object the checksums and the size of its current bytes, as far as its footer still leads to them.
/// For tests and fuzz targets of the code behind the checksums.
#[doc(hidden)]
pub fn reseal(bytes: &mut [u8], object: &mut DataObject) {
    object.bytes = bytes.len() as u64;
    object.tail_bytes = object.tail_bytes.min(object.bytes);
    let tail = bytes.len() - object.tail_bytes as usize;
    // Parquet panics on some changed footers.
    let sums = catch_unwind(AssertUnwindSafe(|| directory_now(bytes, tail)));
    if let Ok(Some((range, directory))) = sums {
        bytes[range].copy_from_slice(&directory);
    }
    object.tail_crc = crc32c::crc32c(&bytes[tail..]);
}

/// Returns the directory with the checksums of the current pages and blocks, and its range; `None` if it cannot be
/// read, or if its length would change.
fn directory_now(bytes: &[u8], tail: usize) -> Option<(Range<usize>, Vec<u8>)> {
    let end = bytes::Bytes::copy_from_slice(&bytes[tail..]);
    let mut reader = ParquetMetaDataReader::new().with_page_index_policy(PageIndexPolicy::Required);
    let metadata = reader.try_parse_sized(&end, bytes.len() as u64).and_then(|()| reader.finish()).ok()?;
    let range = directory_range(&metadata, tail as u64, end.len() as u64)?;
    let range = tail + range.start..tail + range.end;
    let mut segments = directory::decode(&bytes[range.clone()]).ok()?;
    let sum = |offset: u64, len: u64| {
        let from = usize::try_from(offset).ok()?;
        Some(crc32c::crc32c(bytes.get(from..from.checked_add(usize::try_from(len).ok()?)?)?))
    };
    let mut places = metadata.row_groups().iter().zip(metadata.offset_index()?);
    for segment in &mut segments {
        for group in &mut segment.groups {
            let (parquet, indexes) = places.next()?;
            for ((chunk, crcs), index) in parquet.columns().iter().zip(&mut group.pages).zip(indexes) {
                for (crc, (offset, len)) in crcs.iter_mut().zip(page_ranges(chunk, index.page_locations())) {
                    *crc = sum(offset, len).unwrap_or(*crc);
                }
            }
        }
        let keys = segment.keys.iter_mut().flat_map(|k| &mut k.blocks).map(|b| &mut b.place);
        let rows = segment.row_store.iter_mut().flat_map(|r| &mut r.blocks).map(|b| &mut b.place);
        for place in keys.chain(rows) {
            let offset = segment.base.checked_add(place.offset)?;
            place.crc = sum(offset, place.len.into()).unwrap_or(place.crc);
        }
    }
    let now = directory::encode(&segments);
    (now.len() == range.len()).then_some((range, now))
}
