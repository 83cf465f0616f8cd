//! Thrift's compact protocol, as far as footers and headers of pages need it.

use super::binary::{Reader, Short, put_block, put_var};

/// Types of values. The type of a bool is its value.
pub(super) const TRUE: u8 = 1;
pub(super) const FALSE: u8 = 2;
pub(super) const I32: u8 = 5;
pub(super) const I64: u8 = 6;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
pub(super) const STRUCT: u8 = 12;

/// Most levels of nested values.
pub(super) const DEPTH: u32 = 32;

/// Reads number and type of the next field of a structure; `last` is the number of the field before. `None` at the end
/// of the structure.
pub(super) fn field(from: &mut Reader<'_>, last: i16) -> Result<Option<(i16, u8)>, Short> {
    let byte = from.u8()?;
    let (delta, kind) = (i16::from(byte >> 4), byte & 0xf);
    let id = match (kind, delta) {
        (0, _) => return Ok(None),
        (_, 0) => number(from)?.try_into().map_err(|_| Short)?,
        _ => last.checked_add(delta).ok_or(Short)?,
    };
    Ok(Some((id, kind)))
}

/// Reads a number of up to 32 bits. Parquet's reader cuts off higher bits.
pub(super) fn number(from: &mut Reader<'_>) -> Result<i32, Short> {
    let zigzag = from.var32()?;
    Ok((zigzag >> 1) as i32 ^ -((zigzag & 1) as i32))
}

/// Reads the number of a list's elements and their type.
pub(super) fn list(from: &mut Reader<'_>) -> Result<(usize, u8), Short> {
    let byte = from.u8()?;
    let count = match byte >> 4 {
        15 => from.count(1)?,
        count => usize::from(count),
    };
    Ok((count, byte & 0xf))
}

/// Skips the value of a field.
pub(super) fn skip(from: &mut Reader<'_>, kind: u8, depth: u32) -> Result<(), Short> {
    let below = depth.checked_sub(1).ok_or(Short)?;
    match kind {
        TRUE | FALSE => {}
        3 => _ = from.u8()?,
        4..=I64 => _ = from.var()?,
        7 => _ = from.u64()?,
        BINARY => _ = from.block()?,
        LIST | 10 => {
            let (count, kind) = list(from)?;
            for _ in 0..count {
                element(from, kind, below)?;
            }
        }
        11 => {
            let count = from.count(2)?;
            let kinds = if count > 0 { from.u8()? } else { 0 };
            for _ in 0..count {
                element(from, kinds >> 4, below)?;
                element(from, kinds & 0xf, below)?;
            }
        }
        STRUCT => {
            while let Some((_, kind)) = field(from, 0)? {
                skip(from, kind, below)?;
            }
        }
        _ => return Err(Short),
    }
    Ok(())
}

/// Skips an element of a list or map, in which a bool has a byte of its own.
fn element(from: &mut Reader<'_>, kind: u8, depth: u32) -> Result<(), Short> {
    match kind {
        TRUE | FALSE => from.u8().map(drop),
        _ => skip(from, kind, depth),
    }
}

/// Appends the head of a field that follows the one with number `last`.
pub(super) fn put_field(out: &mut Vec<u8>, last: &mut i16, id: i16, kind: u8) {
    match id - *last {
        delta @ 1..=15 => out.push((delta as u8) << 4 | kind),
        _ => {
            out.push(kind);
            put_number(out, id.into());
        }
    }
    *last = id;
}

/// Appends a number.
pub(super) fn put_number(out: &mut Vec<u8>, n: i32) {
    put_var(out, u64::from(((n << 1) ^ (n >> 31)) as u32));
}

/// Appends the head of a list of structures.
pub(super) fn put_list(out: &mut Vec<u8>, count: usize) {
    match count {
        0..15 => out.push((count as u8) << 4 | STRUCT),
        _ => {
            out.push(0xf0 | STRUCT);
            put_var(out, count as u64);
        }
    }
}

/// Appends bytes.
pub(super) fn put_binary(out: &mut Vec<u8>, bytes: &[u8]) {
    put_block(out, bytes);
}
