//! VARBINARY and its texts in hexadecimal and similar notations, and zlib compression.

use std::io::Write;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use datafusion::common::{Result, exec_datafusion_err};
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
    def("to_binary", &[], (1, 1), VARBINARY, |a| unhex(a, false)),
    def("from_binary", &["from_hex"], (1, 1), Ret::Text, |a| {
        let s = a.bytes(0)?;
        a.texts(|i, out| {
            let bytes = s.at(i)?;
            a.ask(bytes.len() * 2)?;
            for byte in bytes {
                for nibble in [byte >> 4, byte & 15] {
                    out.push(b"0123456789ABCDEF"[usize::from(nibble)].into());
                }
            }
            Some(())
        })
    }),
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
    def("from_base64_binary", &[], (1, 1), VARBINARY, |a| {
        let s = a.text(0)?;
        a.binaries(|i| STANDARD.decode(s.at(i)?).ok())
    }),
    def("compress", &[], (1, 1), Ret::Bytes, compress),
    def("uncompress", &[], (1, 1), Ret::Bytes, uncompress),
];

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
