//! Detection of files that are not text, by their first bytes: read as text, they would have rows that nobody wrote.

use crate::error::{ErrorKind, TextError};

/// Refuses a file whose first bytes are those of a format other than text.
///
/// # Errors
/// `BadRecord`, which names the format and the way out.
pub(super) fn refuse(name: &str, sample: &[u8]) -> Result<(), TextError> {
    let refuse = |reason: &str, hint: &str| {
        Err(TextError::new(ErrorKind::BadRecord, format!("the file {reason}, not text")).in_file(name).with_hint(hint))
    };
    match sample {
        [0x50, 0x41, 0x52, 0x31, ..] => refuse("is Parquet", "read it as such: 'format'='parquet'"),
        [0x4f, 0x52, 0x43, ..] if sample.contains(&0) => refuse("is ORC", "convert it to Parquet or CSV"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => {
            refuse("is UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 in.csv > out.csv")
        }
        [0x1f, 0x8b, ..] => refuse("is gzip", "end its name in .gz, or say 'compress_type'='gzip'"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => refuse("is zstd", "end its name in .zst, or say 'compress_type'='zstd'"),
        [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, ..] => {
            refuse("is bzip2", "end its name in .bz2, or say 'compress_type'='bzip2'")
        }
        [b'P', b'K', 3, 4, ..] if is_office(sample) => {
            refuse("is of an Office format (.xlsx, .ods)", "save its table as CSV")
        }
        [b'P', b'K', 3, 4, ..] => refuse("is a zip archive", "unpack it first"),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => {
            refuse("is xz", "unpack it (xz -d), or compress it as gzip, zstd, bzip2 or lz4 instead")
        }
        [0x89, b'L', b'Z', b'O', 0, ..] => {
            refuse("is lzop", "unpack it (lzop -d), or compress it as gzip, zstd, bzip2 or lz4 instead")
        }
        [0x04, 0x22, 0x4d, 0x18, ..] => refuse("is lz4", "end its name in .lz4, or say 'compress_type'='lz4frame'"),
        [0xff, 0x06, 0, 0, b's', b'N', b'a', b'P', b'p', b'Y', ..] => {
            refuse("is snappy (framed)", "unpack it, or compress it as gzip, zstd, bzip2 or lz4 instead")
        }
        [0x1f, 0x9d, ..] => refuse("is compressed (.Z)", "unpack it first"),
        [b'7', b'z', 0xbc, 0xaf, 0x27, 0x1c, ..] => refuse("is a 7z archive", "unpack it first"),
        [b'R', b'a', b'r', b'!', 0x1a, 0x07, ..] => refuse("is a rar archive", "unpack it first"),
        [b'O', b'b', b'j', 1, ..] => refuse("is Avro", "convert it to Parquet, CSV or JSON lines"),
        [b'A', b'R', b'R', b'O', b'W', b'1', ..] | [b'F', b'E', b'A', b'1', ..] if sample.contains(&0) => {
            refuse("is Arrow (IPC, Feather)", "convert it to Parquet")
        }
        [0xff, 0xff, 0xff, 0xff, ..] if sample.contains(&0) => refuse("is an Arrow stream", "convert it to Parquet"),
        [b'S', b'E', b'Q', 0..=6, ..] => refuse("is a SequenceFile of Hadoop", "convert it to Parquet or text"),
        [b'R', b'C', b'F', 0..=1, ..] => refuse("is an RCFile of Hive", "convert it to Parquet or text"),
        [0xd0, 0xcf, 0x11, 0xe0, ..] => refuse("is of an old Office format (.xls, .doc)", "save it as CSV"),
        [b'%', b'P', b'D', b'F', b'-', ..] => refuse("is PDF", "save its table as CSV"),
        [0x89, b'H', b'D', b'F', ..] => refuse("is HDF5", "convert it to Parquet or CSV"),
        [0x89, b'P', b'N', b'G', ..] | [0xff, 0xd8, 0xff, ..] | [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => {
            refuse("is a picture", "read another file")
        }
        [0x93, b'N', b'U', b'M', b'P', b'Y', ..] => refuse("is of NumPy (.npy)", "convert it to Parquet or CSV"),
        [0x80, 2..=5, 0x95 | b'c' | b']' | b'}' | b'(', ..] => {
            refuse("is a pickle of Python", "convert it to Parquet or CSV")
        }
        [0x7f, b'E', b'L', b'F', ..] => refuse("is a program", "read another file"),
        [0x5d, 0, 0, ..] => refuse("is lzma", "unpack it (xz -d), or compress it as gzip, zstd, bzip2 or lz4 instead"),
        _ if sample.starts_with(b"SQLite format 3\0") => refuse("is an SQLite database", "export its tables as CSV"),
        _ if sample.starts_with(b"$FL2@(#)") => refuse("is of SPSS (.sav)", "save its table as CSV"),
        _ if sample.get(8..12) == Some(b"DUCK") => refuse("is a DuckDB database", "export its tables as Parquet"),
        _ if sample.get(257..262) == Some(b"ustar") => refuse("is a tar archive", "unpack it first"),
        _ => Ok(()),
    }
}

/// Whether an archive holds the members of an Office document.
fn is_office(archive: &[u8]) -> bool {
    let first = &archive[..archive.len().min(4096)];
    [&b"[Content_Types].xml"[..], b"_rels/", b"xl/", b"application/vnd.oasis.opendocument"]
        .iter()
        .any(|name| memchr::memmem::find(first, name).is_some())
}
