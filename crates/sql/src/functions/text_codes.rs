//! Short texts encoded as integers that sort like the texts. Doris's plans have these functions, and so do statements
//! of its users.
//!
//! From the highest bit on, a number consists of a 0, the bytes of the text, zeros, and the number of bytes in the
//! lowest seven bits.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int16Array, Int32Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::args::Args;
use super::func::{Def, Ret, def};
use super::whole::{LARGEINT, large, wholes};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("encode_as_smallint", &[], (1, 1), Ret::By(|_| Ok(DataType::Int16)), |a| {
        let codes = encode(a, 2)?;
        Ok(Arc::new(codes.into_iter().map(|v| v.map(|v| v as i16)).collect::<Int16Array>()))
    }),
    def("encode_as_int", &[], (1, 1), Ret::By(|_| Ok(DataType::Int32)), |a| {
        let codes = encode(a, 4)?;
        Ok(Arc::new(codes.into_iter().map(|v| v.map(|v| v as i32)).collect::<Int32Array>()))
    }),
    def("encode_as_bigint", &[], (1, 1), Ret::Int, |a| {
        let codes = encode(a, 8)?;
        a.ints(|i| codes[i].map(|v| v as i64))
    }),
    def("encode_as_largeint", &[], (1, 1), Ret::By(|_| Ok(LARGEINT)), |a| {
        let codes = encode(a, 16)?;
        large(a, |i| Ok(codes[i]))
    }),
    def("decode_as_varchar", &[], (1, 1), Ret::Bytes, decode),
];

/// Encodes the texts as numbers of `width` bytes.
fn encode(a: &Args, width: usize) -> Result<Vec<Option<i128>>> {
    let texts = a.bytes(0)?;
    let code = |text: &[u8]| {
        if text.len() >= width {
            return exec_err!("{}: expected at most {} bytes, found {}", a.name, width - 1, text.len());
        }
        let mut bytes = [0; 16];
        bytes[..text.len()].copy_from_slice(text);
        let bits = u128::from_be_bytes(bytes) >> (8 * (16 - width));
        // The count is placed one bit higher, before the shift makes room for the sign.
        Ok(((bits | (text.len() as u128) << 1) >> 1) as i128)
    };
    (0..a.rows).map(|i| texts.at(i).map(code).transpose()).collect()
}

/// `DECODE_AS_VARCHAR(code)`: the text of a number of two, four, eight or sixteen bytes.
fn decode(a: &Args) -> Result<ArrayRef> {
    let width = match a.data_type(0) {
        DataType::Boolean | DataType::Int8 | DataType::Int16 => 2,
        DataType::Int32 => 4,
        t if *t == LARGEINT => 16,
        _ => 8,
    };
    let codes = wholes(a, 0)?;
    let mut bad = None;
    let out = a.binaries(|i| {
        let code = codes.at(i)?;
        let length = (code & 0x7f) as usize;
        if length >= width {
            bad = Some(code);
            return None;
        }
        let bytes = ((code as u128) << 1 << (8 * (16 - width))).to_be_bytes();
        Some(bytes[..length].to_vec())
    })?;
    match bad {
        Some(code) => exec_err!("{}: {code} is the code of no text", a.name),
        None => Ok(out),
    }
}
