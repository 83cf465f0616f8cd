//! Checks of the sizes that headers of Parquet pages claim, before memory is reserved for them.
//!
//! Parquet's reader trusts a header. It identifies fields by their numbers and reads them as the expected type,
//! whatever type they declare; fields that it does not know it skips by their declared type. So a header is walked as a
//! whole here, and one whose types differ from those of the format is refused: otherwise a wrong type would let the two
//! see different numbers.

use bytes::Bytes;
use parquet::basic::Compression;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;

use super::binary::{Reader, Short};
use super::thrift::{FALSE, I32, STRUCT, field, number};

/// Bytes that a page may claim whatever its packed size is.
const CLAIM_BYTES: usize = 16 << 20;
/// Most levels of nested structures; statistics are two deep.
const DEPTH: u32 = 8;

/// Returns the most bytes that one packed byte can stand for. `None`: nothing is unpacked, or there is no limit.
fn most_of_one(codec: Compression) -> Option<usize> {
    match codec {
        Compression::SNAPPY => Some(64),
        Compression::LZ4 | Compression::LZ4_RAW => Some(256),
        Compression::GZIP(_) => Some(1100),
        // A block of 128 KiB in four bytes.
        Compression::ZSTD(_) => Some(40_000),
        _ => None,
    }
}

/// Checks the claim of the page whose header `bytes` begin with: at most what the codec can make of the bytes that are
/// there.
pub(super) fn check_page(codec: Compression, bytes: &[u8]) -> Result<()> {
    let Some(most_of_one) = most_of_one(codec) else { return Ok(()) };
    fits(&header(bytes)?, bytes.len(), most_of_one)
}

fn fits(header: &Header, bytes: usize, most_of_one: usize) -> Result<()> {
    if header.unpacked > bytes.saturating_mul(most_of_one).saturating_add(CLAIM_BYTES) {
        let claimed = header.unpacked;
        return Err(ParquetError::General(format!("{bytes} bytes cannot be the {claimed} that its header claims")));
    }
    Ok(())
}

/// Checks the claims of all pages of a file, for readers of whole files that go from page to page.
///
/// # Errors
/// [`ParquetError`] if a header claims more than its page can hold, or is malformed.
pub fn check_claims(metadata: &ParquetMetaData, file: &Bytes) -> Result<()> {
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        for chunk in row_group.columns() {
            let Some(most_of_one) = most_of_one(chunk.compression()) else { continue };
            let wrong = |what: &str| {
                ParquetError::General(format!("row group {group}, column {}: {what}", chunk.column_path()))
            };
            let start = chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset());
            let range = usize::try_from(start).ok().zip(usize::try_from(chunk.compressed_size()).ok());
            let pages = range.and_then(|(start, len)| file.get(start..start.checked_add(len)?));
            let mut rest = pages.ok_or_else(|| wrong("its pages are not in the file"))?;
            while !rest.is_empty() {
                let header = header(rest).map_err(|e| wrong(&e.to_string()))?;
                let end = header.len.checked_add(header.packed).filter(|end| *end <= rest.len());
                let end = end.ok_or_else(|| wrong("a page reaches beyond its bytes"))?;
                fits(&header, end, most_of_one).map_err(|e| wrong(&e.to_string()))?;
                rest = &rest[end..];
            }
        }
    }
    Ok(())
}

/// Sizes in a page's header, in bytes.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    /// Size of the header itself.
    len: usize,
    packed: usize,
    unpacked: usize,
}

fn header(bytes: &[u8]) -> Result<Header> {
    walk(bytes).map_err(|Short| ParquetError::General("its header is not one of a page".into()))
}

fn walk(bytes: &[u8]) -> Result<Header, Short> {
    let mut from = Reader(bytes);
    let (mut packed, mut unpacked) = (None, None);
    let mut last = 0;
    while let Some((id, kind)) = field(&mut from, last)? {
        last = id;
        match (id, kind) {
            (2, I32) => unpacked = Some(number(&mut from)?),
            (3, I32) => packed = Some(number(&mut from)?),
            // The page's kind and its checksum.
            (1 | 4, I32) => _ = number(&mut from)?,
            (5..=8, STRUCT) => of_kind(&mut from, id)?,
            (1..=8, _) => return Err(Short),
            _ => skip(&mut from, kind, DEPTH)?,
        }
    }
    let size = |n: Option<i32>| n.and_then(|n| usize::try_from(n).ok()).ok_or(Short);
    Ok(Header { len: bytes.len() - from.0.len(), packed: size(packed)?, unpacked: size(unpacked)? })
}

/// Walks the header of one kind of page, which is field `of` of a page's header.
fn of_kind(from: &mut Reader<'_>, of: i16) -> Result<(), Short> {
    let numbers = match of {
        5 => 1..=4,
        7 => 1..=2,
        8 => 1..=6,
        _ => 0..=0,
    };
    let mut last = 0;
    while let Some((id, kind)) = field(from, last)? {
        last = id;
        if numbers.contains(&id) && kind != I32 {
            return Err(Short);
        }
        skip(from, kind, DEPTH)?;
    }
    Ok(())
}

/// Returns the number of values of the data page that `bytes` begin with; `None` if there is none, or if it is cut.
pub(super) fn values(bytes: &[u8]) -> Option<usize> {
    let header = walk(bytes).ok()?;
    let end = header.len.checked_add(header.packed)?;
    let mut from = Reader(bytes);
    let mut last = 0;
    while let Some((id, kind)) = field(&mut from, last).ok()? {
        last = id;
        if kind == STRUCT && matches!(id, 5 | 8) {
            let (1, I32) = field(&mut from, 0).ok()?? else { return None };
            return usize::try_from(number(&mut from).ok()?).ok().filter(|_| end <= bytes.len());
        }
        skip(&mut from, kind, DEPTH).ok()?;
    }
    None
}

/// Returns the offset at which the header of a data page of the second version says that the page is not packed.
pub(super) fn says_unpacked(bytes: &[u8]) -> Option<usize> {
    let mut from = Reader(bytes);
    let mut last = 0;
    while let Some((id, kind)) = field(&mut from, last).ok()? {
        last = id;
        if (id, kind) != (8, STRUCT) {
            skip(&mut from, kind, DEPTH).ok()?;
            continue;
        }
        let mut last = 0;
        loop {
            let at = bytes.len() - from.0.len();
            let (id, kind) = field(&mut from, last).ok()??;
            last = id;
            if (id, kind) == (7, FALSE) {
                return Some(at);
            }
            skip(&mut from, kind, DEPTH).ok()?;
        }
    }
    None
}

/// Skips a field's value. No field of a page's header is a list, a set or a map.
fn skip(from: &mut Reader<'_>, kind: u8, depth: u32) -> Result<(), Short> {
    match kind {
        // The type of a bool is its value.
        1 | 2 => {}
        3 => _ = from.u8()?,
        4..=6 => _ = from.var()?,
        7 => _ = from.u64()?,
        8 => _ = from.block()?,
        STRUCT if depth > 0 => {
            while let Some((_, kind)) = field(from, 0)? {
                skip(from, kind, depth - 1)?;
            }
        }
        _ => return Err(Short),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, Int64Array, RecordBatch};
    use parquet::arrow::ArrowWriter;
    use parquet::file::metadata::ParquetMetaDataReader;
    use parquet::file::properties::WriterProperties;

    use super::*;

    /// Encodes a number.
    fn var(zigzag: u32) -> Vec<u8> {
        let mut out = Vec::new();
        crate::segment::binary::put_var(&mut out, zigzag.into());
        out
    }

    /// Encodes a header of a data page with statistics, of 200 bytes that become `unpacked`.
    fn data_page(unpacked: u32) -> Vec<u8> {
        let sizes = [vec![0x15, 0, 0x15], var(unpacked << 1), vec![0x15], var(400), vec![0x15, 9]].concat();
        let kind = b"\x1c\x15\x08\x15\x00\x15\x06\x15\x06";
        let statistics = b"\x1c\x18\x03max\x18\x03min\x16\x02\x31\x00";
        [&sizes[..], &kind[..], &statistics[..], &[0, 0]].concat()
    }

    #[test]
    fn sizes_are_found() {
        let header = data_page(70_000);
        let found = Header { len: header.len(), packed: 200, unpacked: 70_000 };
        assert_eq!(walk(&[&header[..], &[7; 200]].concat()), Ok(found));
        // Numbers of fields written out, in another order.
        let odd = b"\x05\x06\x02\x05\x02\x00\x05\x04\xd0\x0f\x00";
        assert_eq!(walk(odd), Ok(Header { len: odd.len(), packed: 1, unpacked: 1000 }));
        // The last occurrence of a field counts, as for parquet.
        assert_eq!(walk(b"\x15\x00\x15\x02\x15\x02\x05\x04\x08\x00").map(|h| h.unpacked), Ok(4));
        for end in 0..header.len() {
            assert_eq!(walk(&header[..end]), Err(Short), "{end}");
        }
    }

    #[test]
    fn values_are_counted() {
        let page = [&data_page(70_000)[..], &[7; 200]].concat();
        assert_eq!(values(&page), Some(4));
        assert_eq!(values(&page[..page.len() - 1]), None);
        assert_eq!(values(&page[1..]), None);
        // A dictionary of six entries.
        assert_eq!(values(b"\x15\x04\x15\x00\x15\x00\x4c\x15\x0c\x15\x00\x00\x00"), None);
    }

    /// After a change of any byte, parquet's reader sees no other sizes than those that are found here.
    #[test]
    fn no_byte_hides_a_claim() {
        let claim = i32::MAX as u32;
        let header = data_page(claim);
        let page = |header: &[u8]| [header, &[0; 200]].concat();
        assert!(check_page(Compression::SNAPPY, &page(&header)).is_err());
        assert!(check_page(Compression::SNAPPY, &page(&data_page(10_000))).is_ok());
        assert!(check_page(Compression::UNCOMPRESSED, &page(&header)).is_ok());
        let claimed = 3..3 + var(claim << 1).len();
        for at in (0..header.len()).filter(|at| !claimed.contains(at)) {
            for byte in 0..=255 {
                let mut header = header.clone();
                header[at] = byte;
                let found = check_page(Compression::SNAPPY, &page(&header));
                assert!(found.is_err(), "{byte:#x} at {at}");
            }
        }
    }

    #[test]
    fn all_pages_of_a_file_are_looked_at() {
        let values: ArrayRef = Arc::new(Int64Array::from_iter_values((0..50_000).map(|i| i % 7)));
        let batch = RecordBatch::try_from_iter([("a", Arc::clone(&values)), ("b", values)]).expect("columns");
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_dictionary_enabled(false)
            .set_data_page_row_count_limit(9_000)
            .set_write_batch_size(1_000)
            .build();
        let mut file = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut file, batch.schema(), Some(properties)).expect("a writer");
        writer.write(&batch).expect("memory");
        writer.close().expect("memory");
        let file = Bytes::from(file);
        let metadata = ParquetMetaDataReader::new().parse_and_finish(&file).expect("a footer");
        check_claims(&metadata, &file).expect("as it was written");
        assert!(check_claims(&metadata, &file.slice(..100)).is_err());
        // Changes the type of the first field of the last page.
        let last = metadata.row_group(0).column(1);
        let chunk = last.data_page_offset() as usize..(last.data_page_offset() + last.compressed_size()) as usize;
        let (mut at, mut pages) = (chunk.start, 0);
        loop {
            let header = header(&file[at..]).expect("a page");
            pages += 1;
            if at + header.len + header.packed == chunk.end {
                break;
            }
            at += header.len + header.packed;
        }
        assert!(pages > 3);
        let mut forged = file.to_vec();
        forged[at] = 0x16;
        let error = check_claims(&metadata, &Bytes::from(forged)).expect_err("no header");
        assert!(error.to_string().contains("column \"b\""), "{error}");
    }
}
