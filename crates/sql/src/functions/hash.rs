//! Digests, checksums and base64.

use std::fmt::Write;
use std::sync::LazyLock;

use arrow::array::ArrayRef;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::common::Result;
use sha1::Digest;

use super::args::Args;
use super::func::{Def, MANY, Ret, def};
use super::whole::{LARGEINT, large};
use super::xxh3::xxh3_64;

/// Doris's seed of MurmurHash3.
pub const MURMUR_SEED: i64 = 104_729;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("md5", &[], (1, 1), Ret::Text, |a| digest(a, |b| md5(b).to_vec())),
    def("md5sum", &[], (1, MANY), Ret::Text, |a| digest_of_all(a, |b| md5(b).to_vec())),
    // StarRocks's digest as a number, whose first byte is the highest.
    def("md5sum_numeric", &[], (1, MANY), Ret::By(|_| Ok(LARGEINT)), |a| {
        let parts = (0..a.len()).map(|k| a.bytes(k)).collect::<Result<Vec<_>>>()?;
        large(a, |i| {
            let parts: Option<Vec<&[u8]>> = parts.iter().map(|part| part.at(i)).collect();
            Ok(parts.map(|parts| i128::from_be_bytes(md5(&parts.concat()))))
        })
    }),
    def("sm3", &[], (1, 1), Ret::Text, |a| digest(a, |b| <sm3::Sm3 as sm3::Digest>::digest(b).to_vec())),
    def("sm3sum", &[], (1, MANY), Ret::Text, |a| digest_of_all(a, |b| <sm3::Sm3 as sm3::Digest>::digest(b).to_vec())),
    def("password", &[], (1, 1), Ret::Text, password),
    def("sha1", &["sha"], (1, 1), Ret::Text, |a| digest(a, |b| sha1::Sha1::digest(b).to_vec())),
    def("sha2", &[], (2, 2), Ret::Text, sha2),
    def("crc32", &[], (1, 1), Ret::Int, |a| {
        let s = a.bytes(0)?;
        a.ints(|i| s.at(i).map(|s| crc32(s).into()))
    }),
    def("murmur_hash3_32", &[], (1, MANY), Ret::Int, |a| {
        hashed(a, MURMUR_SEED, |b, seed| murmur3_32(b, seed as u32) as i32 as i64)
    }),
    def("murmur_hash3_64", &[], (1, MANY), Ret::Int, |a| hashed(a, 0, |b, seed| murmur3_64(b, seed as u64) as i64)),
    def("xxhash_32", &["xx_hash32"], (1, MANY), Ret::Int, |a| {
        hashed(a, 0, |b, seed| xxh32(b, seed as u32) as i32 as i64)
    }),
    def("murmur_hash3_64_v2", &[], (1, MANY), Ret::Int, |a| {
        hashed(a, 0, |b, seed| murmur3_128(b, seed as u64).0 as i64)
    }),
    def("xxhash_64", &["xxhash3_64", "xx_hash3_64"], (1, MANY), Ret::Int, |a| {
        hashed(a, 0, |b, seed| xxh3_64(b, seed as u64) as i64)
    }),
    def("to_base64", &[], (1, 1), Ret::Text, |a| {
        let s = a.bytes(0)?;
        a.texts(|i, out| {
            STANDARD.encode_string(s.at(i)?, out);
            Some(())
        })
    }),
    def("from_base64", &["base64_decode_string"], (1, 1), Ret::Bytes, |a| {
        let s = a.text(0)?;
        a.binaries(|i| STANDARD.decode(s.at(i)?.trim()).ok())
    }),
];

fn write_hex(out: &mut String, bytes: &[u8]) {
    for b in bytes {
        let _ = write!(out, "{b:02x}");
    }
}

fn digest(a: &Args, f: impl Fn(&[u8]) -> Vec<u8>) -> Result<ArrayRef> {
    let s = a.bytes(0)?;
    a.texts(|i, out| {
        write_hex(out, &f(s.at(i)?));
        Some(())
    })
}

/// Returns the digest of the concatenation of all arguments.
fn digest_of_all(a: &Args, f: impl Fn(&[u8]) -> Vec<u8>) -> Result<ArrayRef> {
    let parts = (0..a.len()).map(|k| a.bytes(k)).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        let mut all = Vec::new();
        for part in &parts {
            all.extend_from_slice(part.at(i)?);
        }
        write_hex(out, &f(&all));
        Some(())
    })
}

/// MySQL's old PASSWORD(): SHA-1 applied twice, in capital hexadecimal digits after a `*`; empty for an empty text.
fn password(a: &Args) -> Result<ArrayRef> {
    let s = a.bytes(0)?;
    a.texts(|i, out| {
        let s = s.at(i)?;
        if s.is_empty() {
            return Some(());
        }
        out.push('*');
        for byte in sha1::Sha1::digest(sha1::Sha1::digest(s)) {
            let _ = write!(out, "{byte:02X}");
        }
        Some(())
    })
}

fn sha2(a: &Args) -> Result<ArrayRef> {
    let (s, bits) = (a.bytes(0)?, a.int(1)?);
    a.texts(|i, out| {
        let s = s.at(i)?;
        match bits.at(i)? {
            224 => write_hex(out, &sha2::Sha224::digest(s)),
            0 | 256 => write_hex(out, &sha2::Sha256::digest(s)),
            384 => write_hex(out, &sha2::Sha384::digest(s)),
            512 => write_hex(out, &sha2::Sha512::digest(s)),
            _ => return None,
        }
        Some(())
    })
}

/// Hashes the arguments in order, each hash being the seed of the next; NULL if one is NULL.
fn hashed(a: &Args, seed: i64, f: impl Fn(&[u8], i64) -> i64) -> Result<ArrayRef> {
    let parts = (0..a.len()).map(|k| a.bytes(k)).collect::<Result<Vec<_>>>()?;
    a.ints(|i| parts.iter().try_fold(seed, |seed, part| Some(f(part.at(i)?, seed))))
}

/// CRC-32 as in zlib, computed a nibble at a time.
pub fn crc32(bytes: &[u8]) -> u32 {
    const TABLE: [u32; 16] = {
        let mut table = [0; 16];
        let mut n = 0;
        while n < 16 {
            let mut v = n as u32;
            let mut k = 0;
            while k < 4 {
                v = if v & 1 != 0 { 0xedb8_8320 ^ (v >> 1) } else { v >> 1 };
                k += 1;
            }
            table[n] = v;
            n += 1;
        }
        table
    };
    !bytes.iter().fold(!0, |mut crc: u32, b| {
        crc ^= u32::from(*b);
        crc = TABLE[(crc & 15) as usize] ^ (crc >> 4);
        TABLE[(crc & 15) as usize] ^ (crc >> 4)
    })
}

/// MD5 (RFC 1321).
pub fn md5(bytes: &[u8]) -> [u8; 16] {
    const SHIFTS: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    // The constants are the first 32 bits of |sin(i + 1)|; doubles are exact enough for that.
    static CONSTANTS: LazyLock<[u32; 64]> =
        LazyLock::new(|| std::array::from_fn(|i| ((i as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32));
    let constants = &*CONSTANTS;
    let mut state = [0x6745_2301_u32, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
    let mut block = |chunk: &[u8]| {
        let words: [u32; 16] = std::array::from_fn(|i| read32(&chunk[i * 4..]));
        let [mut a, mut b, mut c, mut d] = state;
        for i in 0..64 {
            let (f, k) = match i / 16 {
                0 => ((b & c) | (!b & d), i),
                1 => ((d & b) | (!d & c), (5 * i + 1) % 16),
                2 => (b ^ c ^ d, (3 * i + 5) % 16),
                _ => (c ^ (b | !d), 7 * i % 16),
            };
            let sum = a.wrapping_add(f).wrapping_add(constants[i]).wrapping_add(words[k]);
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(SHIFTS[i / 16][i % 4]));
        }
        for (s, v) in state.iter_mut().zip([a, b, c, d]) {
            *s = s.wrapping_add(v);
        }
    };
    let mut chunks = bytes.chunks_exact(64);
    chunks.by_ref().for_each(&mut block);
    let mut tail = [0; 128];
    let rest = chunks.remainder();
    tail[..rest.len()].copy_from_slice(rest);
    tail[rest.len()] = 0x80;
    let end = if rest.len() < 56 { 64 } else { 128 };
    tail[end - 8..end].copy_from_slice(&(bytes.len() as u64 * 8).to_le_bytes());
    tail[..end].chunks_exact(64).for_each(&mut block);
    let mut out = [0; 16];
    for (o, s) in out.chunks_exact_mut(4).zip(state) {
        o.copy_from_slice(&s.to_le_bytes());
    }
    out
}

fn read32(b: &[u8]) -> u32 {
    u32::from_le_bytes([b[0], b[1], b[2], b[3]])
}

/// MurmurHash3, the 32-bit variant for x86 (Austin Appleby, public domain).
pub fn murmur3_32(bytes: &[u8], seed: u32) -> u32 {
    let mix = |k: u32| k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let mut h = seed;
    let mut blocks = bytes.chunks_exact(4);
    for b in blocks.by_ref() {
        h = (h ^ mix(read32(b))).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    }
    let tail = blocks.remainder().iter().rev().fold(0_u32, |k, b| k << 8 | u32::from(*b));
    h ^= mix(tail) ^ bytes.len() as u32;
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

/// MurmurHash3 with 64 bits as in Doris (`murmur_hash3_x64_64`): one lane of the 128-bit variant for x64.
pub fn murmur3_64(bytes: &[u8], seed: u64) -> u64 {
    let mix = |k: u64| k.wrapping_mul(0x87c3_7b91_1142_53d5).rotate_left(31).wrapping_mul(0x4cf5_ad43_2745_937f);
    let mut h = seed;
    let mut blocks = bytes.chunks_exact(8);
    for b in blocks.by_ref() {
        let k = u64::from(read32(b)) | u64::from(read32(&b[4..])) << 32;
        h = (h ^ mix(k)).rotate_left(27).wrapping_mul(5).wrapping_add(0x52dc_e729);
    }
    let tail = blocks.remainder().iter().rev().fold(0_u64, |k, b| k << 8 | u64::from(*b));
    h ^= mix(tail) ^ bytes.len() as u64;
    h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ h >> 33
}

/// MurmurHash3_x64_128 (Austin Appleby); both halves start with a seed of 64 bits.
pub fn murmur3_128(bytes: &[u8], seed: u64) -> (u64, u64) {
    const C: [u64; 2] = [0x87c3_7b91_1142_53d5, 0x4cf5_ad43_2745_937f];
    let first = |k: u64| k.wrapping_mul(C[0]).rotate_left(31).wrapping_mul(C[1]);
    let second = |k: u64| k.wrapping_mul(C[1]).rotate_left(33).wrapping_mul(C[0]);
    let word = |b: &[u8]| b.iter().take(8).rev().fold(0_u64, |k, b| k << 8 | u64::from(*b));
    let (mut h1, mut h2) = (seed, seed);
    let mut blocks = bytes.chunks_exact(16);
    for block in blocks.by_ref() {
        h1 = (h1 ^ first(word(block))).rotate_left(27).wrapping_add(h2).wrapping_mul(5).wrapping_add(0x52dc_e729);
        h2 =
            (h2 ^ second(word(&block[8..]))).rotate_left(31).wrapping_add(h1).wrapping_mul(5).wrapping_add(0x3849_5ab5);
    }
    let tail = blocks.remainder();
    h2 ^= second(word(tail.get(8..).unwrap_or_default()));
    h1 ^= first(word(tail));
    h1 ^= bytes.len() as u64;
    h2 ^= bytes.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    let mix = |h: u64| {
        let h = (h ^ h >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        let h = (h ^ h >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        h ^ h >> 33
    };
    (h1, h2) = (mix(h1), mix(h2));
    h1 = h1.wrapping_add(h2);
    (h1, h2.wrapping_add(h1))
}

/// xxHash, 32 bits (Yann Collet, specification 0.1.1).
pub fn xxh32(bytes: &[u8], seed: u32) -> u32 {
    const P: [u32; 5] = [2_654_435_761, 2_246_822_519, 3_266_489_917, 668_265_263, 374_761_393];
    let round = |acc: u32, v: u32| acc.wrapping_add(v.wrapping_mul(P[1])).rotate_left(13).wrapping_mul(P[0]);
    let mut stripes = bytes.chunks_exact(16);
    let mut h = if bytes.len() >= 16 {
        let mut acc =
            [seed.wrapping_add(P[0]).wrapping_add(P[1]), seed.wrapping_add(P[1]), seed, seed.wrapping_sub(P[0])];
        for s in stripes.by_ref() {
            for (k, acc) in acc.iter_mut().enumerate() {
                *acc = round(*acc, read32(&s[k * 4..]));
            }
        }
        acc.iter().zip([1, 7, 12, 18]).fold(0, |h: u32, (a, r)| h.wrapping_add(a.rotate_left(r)))
    } else {
        seed.wrapping_add(P[4])
    };
    h = h.wrapping_add(bytes.len() as u32);
    let mut words = stripes.remainder().chunks_exact(4);
    for w in words.by_ref() {
        h = h.wrapping_add(read32(w).wrapping_mul(P[2])).rotate_left(17).wrapping_mul(P[3]);
    }
    for b in words.remainder() {
        h = h.wrapping_add(u32::from(*b).wrapping_mul(P[4])).rotate_left(11).wrapping_mul(P[0]);
    }
    h = (h ^ h >> 15).wrapping_mul(P[1]);
    h = (h ^ h >> 13).wrapping_mul(P[2]);
    h ^ h >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_their_published_vectors() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(murmur3_32(b"", 0), 0);
        assert_eq!(murmur3_32(b"", 1), 0x514e_28b7);
        assert_eq!(murmur3_32(b"abc", 0), 0xb3dd_93fa);
        assert_eq!(murmur3_32(b"Hello, world!", 0x9747_b28c), 0x2488_4cba);
        // The examples of Doris's manual.
        assert_eq!(murmur3_64(b"hello", 0) as i64, -3_215_607_508_166_160_593);
        assert_eq!(murmur3_64(b"world", murmur3_64(b"hello", 0)) as i64, 3_583_109_472_027_628_045);
        assert_eq!(murmur3_128(b"", 0), (0, 0));
        assert_eq!(murmur3_128(b"hello", 0), (0xcbd8_a7b3_41bd_9b02, 0x5b1e_906a_48ae_1d19));
        assert_eq!(murmur3_128(b"The quick brown fox jumps over the lazy dog", 0).0, 0xe34b_bc7b_bc07_1b6c);
        assert_eq!(xxh32(b"", 0), 0x02cc_5d05);
        assert_eq!(xxh32(b"abc", 0), 0x32d1_53ff);
        assert_eq!(xxh32(b"Nobody inspects the spammish repetition", 0), 0xe229_3b2f);
    }

    #[test]
    fn md5_pads_every_length() {
        let hex = |b: &[u8]| {
            let mut out = String::new();
            write_hex(&mut out, &md5(b));
            out
        };
        assert_eq!(hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(hex(b"abc"), "900150983cd24fb0d6963f7d28e17f72");
        assert_eq!(
            hex(b"12345678901234567890123456789012345678901234567890123456789012345678901234567890"),
            "57edf4a22be3c955ac49da2e2107b67a"
        );
    }
}
