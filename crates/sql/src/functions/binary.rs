//! VARBINARY and its texts in hexadecimal and similar notations, and zlib compression.

use std::io::Write;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use flate2::write::ZlibEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};

use super::args::Args;
use super::bits::unhex;
use super::bytes;
use super::func::{Def, Ret, def};

/// The result type VARBINARY.
const VARBINARY: Ret = Ret::By(|_| Ok(DataType::BinaryView));

/// Functions of this file.
pub const DEFS: &[Def] = &[
    // NULL for the empty text and for text that is not a hexadecimal number.
    def("to_binary", &["hex_decode_binary"], (1, 2), VARBINARY, to_binary),
    def("from_binary", &["from_hex"], (1, 2), Ret::Text, from_binary),
    def("sub_binary", &[], (2, 3), VARBINARY, bytes::substring),
    def("to_base64_binary", &[], (1, 1), Ret::Text, |a| {
        let s = a.bytes(0)?;
        a.texts(|i, out| {
            let bytes = s.at(i)?;
            a.ask(bytes.len().div_ceil(3) * 4)?;
            STANDARD.encode_string(bytes, out);
            Some(())
        })
    }),
    def("from_base64_binary", &["base64_decode_binary"], (1, 1), VARBINARY, |a| {
        let s = a.text(0)?;
        a.binaries(|i| STANDARD.decode(s.at(i)?).ok())
    }),
    def("compress", &[], (1, 1), Ret::Bytes, compress),
    def("uncompress", &[], (1, 1), Ret::Bytes, uncompress),
    def("uncompressed_length", &[], (1, 1), Ret::Int, |a| {
        let s = a.bytes(0)?;
        a.ints(|i| {
            let length = s.at(i)?.first_chunk::<LENGTH>().map_or(0, |length| u32::from_le_bytes(*length));
            Some(i64::from(length))
        })
    }),
];

/// The notation of bytes as text, StarRocks's second argument.
#[derive(Clone, Copy)]
enum Notation {
    Hex,
    Base64,
    Utf8,
}

impl Notation {
    /// Returns the notation that a constant in argument 1 names; without the argument it is hexadecimal.
    fn of(a: &Args) -> Result<Notation> {
        if !a.has(1) {
            return Ok(Notation::Hex);
        }
        let names = a.text(1)?;
        let name = names.at(0).filter(|_| names.one).map(str::to_ascii_lowercase);
        match name.as_deref() {
            Some("hex") => Ok(Notation::Hex),
            Some("encode64") => Ok(Notation::Base64),
            Some("utf8") => Ok(Notation::Utf8),
            _ => exec_err!("{}: expected the constant 'hex', 'encode64' or 'utf8' as the second argument", a.name),
        }
    }
}

/// `TO_BINARY(text [, notation])`: NULL for text that is not in the notation.
fn to_binary(a: &Args) -> Result<ArrayRef> {
    match Notation::of(a)? {
        Notation::Hex => unhex(a, false),
        Notation::Base64 => {
            let s = a.text(0)?;
            a.binaries(|i| STANDARD.decode(s.at(i)?).ok())
        }
        Notation::Utf8 => {
            let s = a.bytes(0)?;
            a.binaries(|i| s.at(i).map(<[u8]>::to_vec))
        }
    }
}

/// `FROM_BINARY(bytes [, notation])`: NULL for bytes that are no UTF-8 where that is wanted.
fn from_binary(a: &Args) -> Result<ArrayRef> {
    let (s, notation) = (a.bytes(0)?, Notation::of(a)?);
    a.texts(|i, out| {
        let bytes = s.at(i)?;
        match notation {
            Notation::Hex => {
                a.ask(bytes.len() * 2)?;
                for byte in bytes {
                    for nibble in [byte >> 4, byte & 15] {
                        out.push(b"0123456789ABCDEF"[usize::from(nibble)].into());
                    }
                }
            }
            Notation::Base64 => {
                a.ask(bytes.len().div_ceil(3) * 4)?;
                STANDARD.encode_string(bytes, out);
            }
            Notation::Utf8 => out.push_str(std::str::from_utf8(bytes).ok()?),
        }
        Some(())
    })
}

/// Bytes of the length before the compressed data.
const LENGTH: usize = 4;

/// `COMPRESS(text)`: the length, lowest byte first, and the data in zlib's format; empty for an empty text.
fn compress(a: &Args) -> Result<ArrayRef> {
    let s = a.bytes(0)?;
    let mut failure = None;
    let out = a.binaries(|i| {
        let text = s.at(i)?;
        if text.is_empty() {
            return Some(Vec::new());
        }
        a.ask(text.len() + text.len() / 1000 + 64)?;
        let mut encoder = ZlibEncoder::new((text.len() as u32).to_le_bytes().to_vec(), Compression::default());
        match encoder.write_all(text).and_then(|()| encoder.finish()) {
            Ok(made) => Some(made),
            Err(e) => {
                failure = Some(exec_datafusion_err!("{}: {e}", a.name));
                None
            }
        }
    })?;
    failure.map_or(Ok(out), Err)
}

/// The most bytes that one byte of zlib's format can expand to.
const GROWTH_MAX: usize = 1032;

/// `UNCOMPRESS(bytes)`: NULL for bytes that `COMPRESS` did not make.
fn uncompress(a: &Args) -> Result<ArrayRef> {
    let s = a.bytes(0)?;
    a.binaries(|i| {
        let bytes = s.at(i)?;
        if bytes.is_empty() {
            return Some(Vec::new());
        }
        let (length, rest) = bytes.split_first_chunk::<LENGTH>()?;
        let length = u32::from_le_bytes(*length) as usize;
        if length > rest.len().saturating_mul(GROWTH_MAX) {
            return None;
        }
        a.ask(length)?;
        let mut out = Vec::with_capacity(length.max(1));
        let status = Decompress::new(true).decompress_vec(rest, &mut out, FlushDecompress::Finish).ok()?;
        (status == Status::StreamEnd && out.len() == length).then_some(out)
    })
}
