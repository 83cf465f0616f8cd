use std::io::{Read, Write};
use std::sync::Arc;

use super::*;
use crate::source::{FileSource, MemorySource};

fn plain() -> Vec<u8> {
    (0..3000u64).map(|i| format!("{i},line {i},{}\n", i * i % 9973)).collect::<String>().into_bytes()
}

fn fixture(name: &str) -> Vec<u8> {
    std::fs::read(format!("tests/data/compressed/{name}")).unwrap()
}

fn decode(compression: Compression, bytes: &[u8]) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    let source = Arc::new(MemorySource(bytes::Bytes::copy_from_slice(bytes)));
    decoder(compression, source).read_to_end(&mut out).map(|_| out)
}

fn reason(error: &io::Error) -> CompressError {
    error.get_ref().and_then(|e| e.downcast_ref::<CompressError>()).cloned().unwrap_or_else(|| panic!("{error:?}"))
}

const FIXTURES: &[(&str, Compression)] = &[
    ("one.gz", Compression::Gzip),
    ("members.gz", Compression::Gzip),
    ("padded.gz", Compression::Gzip),
    ("one.bz2", Compression::Bzip2),
    ("streams.bz2", Compression::Bzip2),
    ("one.zst", Compression::Zstd),
    ("frames.zst", Compression::Zstd),
    ("one.lz4", Compression::Lz4),
    ("frames.lz4", Compression::Lz4),
    ("legacy.lz4", Compression::Lz4),
    ("hadoop.lz4", Compression::Lz4),
    ("framed.snappy", Compression::Snappy),
    ("hadoop.snappy", Compression::Snappy),
    ("one.zlib.deflate", Compression::Deflate),
    ("one.raw.deflate", Compression::Deflate),
];

#[test]
fn files_of_real_tools_read_whole() {
    for (name, compression) in FIXTURES {
        assert_eq!(Compression::from_path(name), *compression, "{name}");
        let path = format!("tests/data/compressed/{name}");
        let mut out = Vec::new();
        decoder(*compression, Arc::new(FileSource::open(&path).unwrap())).read_to_end(&mut out).unwrap();
        assert!(out == plain(), "{name}: {} bytes", out.len());
    }
}

#[test]
fn any_read_size_gives_the_same_bytes() {
    for (name, compression) in FIXTURES {
        for size in [1, 7, 4096] {
            let mut reader = decoder(*compression, Arc::new(MemorySource(fixture(name).into())));
            let mut out = Vec::new();
            let mut buffer = vec![0; size];
            loop {
                let read = reader.read(&mut buffer).unwrap();
                if read == 0 {
                    break;
                }
                out.extend_from_slice(&buffer[..read]);
            }
            assert!(out == plain(), "{name} read by {size}");
            assert_eq!(reader.read(&mut buffer).unwrap(), 0, "{name}: the end stays the end");
        }
    }
}

/// Cut anywhere, a file is an error, or, where the format has no end mark, whole blocks of it.
#[test]
fn every_cut_is_noticed() {
    for (name, compression) in FIXTURES {
        let whole = fixture(name);
        let step = if whole.len() > 4000 { 37 } else { 1 };
        let cuts = (1..whole.len()).step_by(step).chain(whole.len() - 12..whole.len());
        let mut silent = 0;
        for cut in cuts {
            match decode(*compression, &whole[..cut]) {
                Err(error) => {
                    let reason = reason(&error);
                    // A raw deflate stream cannot tell its first byte from a zlib header cut in two.
                    let expected = CompressError::Truncated { compression: *compression, offset: cut as u64 };
                    assert_eq!(reason, expected, "{name} cut at {cut}");
                }
                Ok(out) => {
                    assert!(plain().starts_with(&out), "{name} cut at {cut}: wrong bytes");
                    // Padding and the space between members are ends; framed snappy and legacy lz4 have no end mark.
                    silent += usize::from(*name != "padded.gz");
                }
            }
        }
        assert!(silent <= 4, "{name}: {silent} cuts went unnoticed");
    }
}

#[test]
fn damage_is_an_error_and_never_a_panic() {
    for (name, compression) in FIXTURES {
        let whole = fixture(name);
        let mut noticed = 0;
        let mut tried = 0;
        for at in (0..whole.len()).step_by(61) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            tried += 1;
            match decode(*compression, &damaged) {
                Err(_) => noticed += 1,
                Ok(out) => noticed += usize::from(out != plain()),
            }
        }
        assert!(noticed * 10 >= tried * 9, "{name}: {noticed} of {tried}");
    }
}

#[test]
fn damage_says_where() {
    let mut damaged = fixture("one.gz");
    let middle = damaged.len() / 2;
    damaged[middle..].fill(0xff);
    let error = decode(Compression::Gzip, &damaged).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    let CompressError::Corrupt { compression: Compression::Gzip, offset, .. } = reason(&error) else {
        panic!("{error}");
    };
    assert!((middle as u64).abs_diff(offset) < 300, "{middle} {offset}");

    let error = decode(Compression::Gzip, b"id,name\n1,a\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "gzip data is damaged at or shortly before compressed byte 0: the file does not begin like gzip; if its name \
         misleads, name its compression"
    );
    let mut trailing = fixture("one.gz");
    trailing.extend_from_slice(b"garbage");
    assert!(decode(Compression::Gzip, &trailing).unwrap_err().to_string().contains("what follows the last stream"));
    assert_eq!(
        decode(Compression::Bzip2, &fixture("one.bz2")[..100]).unwrap_err().to_string(),
        "bzip2 data ends early, at compressed byte 100: the file is cut off; copy or write it again"
    );
}

#[test]
fn empty_files_have_no_bytes() {
    for (_, compression) in FIXTURES {
        assert_eq!(decode(*compression, b"").unwrap(), b"");
    }
}

#[test]
fn claimed_lengths_are_not_allocated() {
    let error = decode(Compression::Snappy, &[0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 1, 0]).unwrap_err();
    assert!(error.to_string().contains("is longer than 67108864"), "{error}");
    let error = decode(Compression::Lz4, &[0, 0, 1, 0, 0xff, 0, 0, 1, 0]).unwrap_err();
    assert!(error.to_string().contains("chunk of 4278190081 bytes is longer"), "{error}");
    // A snappy chunk that claims more than its block has.
    let error = decode(Compression::Snappy, &[0, 0, 0, 4, 0, 0, 0, 2, 200, 1]).unwrap_err();
    assert!(error.to_string().contains("a chunk of 200 bytes in a block of 4"), "{error}");
}

/// Returns a writer's output for `bytes` zeros, without holding all of them.
fn bomb(compression: Compression, bytes: u64) -> Vec<u8> {
    let mut encoder = encoder(compression, Vec::new()).unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..bytes >> 20 {
        encoder.write_all(&zeros).unwrap();
    }
    encoder.finish().unwrap()
}

#[test]
fn a_bomb_of_zeros_streams() {
    for (_, compression) in FIXTURES {
        let compressed = bomb(*compression, 256 << 20);
        let mut reader = decoder(*compression, Arc::new(MemorySource(compressed.into())));
        let mut buffer = vec![1; 64 << 10];
        let mut total = 0;
        loop {
            let read = reader.read(&mut buffer).unwrap();
            if read == 0 {
                break;
            }
            total += read;
        }
        assert_eq!(total, 256 << 20, "{compression}");
    }
}

#[test]
fn what_the_encoder_writes_the_decoder_reads() {
    for compression in FIXTURES.iter().map(|(_, compression)| *compression).chain([Compression::None]) {
        for size in [0, 1, 300_000, 1_000_000] {
            let text: Vec<u8> = plain().into_iter().cycle().take(size).collect();
            let mut encoder = encoder(compression, Vec::new()).unwrap();
            for part in text.chunks(70_001) {
                encoder.write_all(part).unwrap();
            }
            let compressed = encoder.finish().unwrap();
            assert!(decode(compression, &compressed).unwrap() == text, "{compression} {size}");
        }
    }
}

#[test]
fn names_and_endings() {
    assert_eq!(Compression::from_path("s3://bucket/dt=2024-01-01/part-0.CSV.GZ"), Compression::Gzip);
    assert_eq!(Compression::from_path("a.gz/part-0"), Compression::None);
    assert_eq!(Compression::from_path("gz"), Compression::None);
    assert_eq!(Compression::from_path("x.none"), Compression::None);
    assert_eq!("ZSTD".parse::<Compression>().unwrap(), Compression::Zstd);
    assert_eq!(
        "rar".parse::<Compression>().unwrap_err().to_string(),
        "no compression is called \"rar\"; known are none, gzip, bzip2, zstd, lz4, snappy and deflate"
    );
    for (_, compression) in FIXTURES {
        assert_eq!(compression.to_string().parse::<Compression>().unwrap(), *compression);
        assert_eq!(Compression::from_path(&format!("x{}", compression.file_ending())), *compression);
    }
}
