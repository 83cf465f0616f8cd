//! Text functions over BINARY: they count bytes in place of characters, like MySQL's, and return bytes.
//!
//! Each is called by the function of its name in [`super::string`] and [`super::search`] if one of its texts is BINARY.

use arrow::array::{ArrayRef, BinaryViewArray};
use arrow::datatypes::DataType;
use datafusion::common::Result;
use datafusion::logical_expr::{ReturnFieldArgs, ScalarUDF};
use dipper_base::address::is_address;
use memchr::memmem;

use super::args::{Args, Col};
use super::func::{Ret, def};
use super::string::TEXT_BYTES_MAX;

/// Whether values of a type are bytes.
pub fn is_bytes(t: &DataType) -> bool {
    !is_address(t)
        && matches!(t, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

/// Returns BINARY if an argument is BINARY, else text.
pub(super) fn text_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let bytes = args.arg_fields.iter().any(|field| is_bytes(field.data_type()));
    Ok(if bytes { DataType::BinaryView } else { DataType::Utf8View })
}

/// Whether a call of a text function has an argument that is bytes.
pub(super) fn takes_bytes(a: &Args) -> bool {
    (0..a.len()).any(|k| is_bytes(a.data_type(k)))
}

/// Returns the arguments from number `from` on.
fn all(a: &Args, from: usize) -> Result<Vec<Col<BinaryViewArray>>> {
    (from..a.len()).map(|k| a.bytes(k)).collect()
}

pub(super) fn concat(a: &Args) -> Result<ArrayRef> {
    let parts = all(a, 0)?;
    a.binaries(|i| {
        a.ask(parts.iter().filter_map(|part| part.at(i)).map(<[u8]>::len).sum())?;
        parts.iter().map(|part| part.at(i)).collect::<Option<Vec<_>>>().map(|parts| parts.concat())
    })
}

pub(super) fn concat_ws(a: &Args) -> Result<ArrayRef> {
    let (separator, parts) = (a.bytes(0)?, all(a, 1)?);
    a.binaries(|i| {
        let parts: Vec<&[u8]> = parts.iter().filter_map(|part| part.at(i)).collect();
        Some(parts.join(separator.at(i)?))
    })
}

/// Returns the range of bytes of argument 0 that `range` determines from the row and the length.
fn part(a: &Args, range: impl Fn(usize, usize) -> Option<std::ops::Range<usize>>) -> Result<ArrayRef> {
    let s = a.bytes(0)?;
    a.binaries(|i| {
        let s = s.at(i)?;
        Some(s[range(i, s.len())?].to_vec())
    })
}

pub(super) fn left(a: &Args) -> Result<ArrayRef> {
    let n = a.int(1)?;
    part(a, |i, length| Some(0..at_most(n.at(i)?, length)))
}

/// Clamps a count of bytes to 0..=`length`.
fn at_most(n: i64, length: usize) -> usize {
    usize::try_from(n.max(0)).map_or(length, |n| n.min(length))
}

pub(super) fn right(a: &Args) -> Result<ArrayRef> {
    let n = a.int(1)?;
    part(a, |i, length| {
        let n = n.at(i)?;
        let start = match n < 0 {
            true => usize::try_from(n.unsigned_abs() - 1).map_or(length, |n| n.min(length)),
            false => length - at_most(n, length),
        };
        Some(start..length)
    })
}

pub(super) fn substring(a: &Args) -> Result<ArrayRef> {
    let pos = a.int(1)?;
    let len = if a.has(2) { Some(a.int(2)?) } else { None };
    part(a, |i, length| {
        let (pos, len) = (pos.at(i)?, len.as_ref().map_or(Some(i64::MAX), |len| len.at(i))?);
        let first = match pos {
            0 => return Some(0..0),
            1.. => usize::try_from(pos - 1).map_or(length, |n| n.min(length)),
            _ => match length.checked_sub(usize::try_from(pos.unsigned_abs()).unwrap_or(usize::MAX)) {
                Some(first) => first,
                None => return Some(0..0),
            },
        };
        Some(first..first + at_most(len, length - first))
    })
}

pub(super) fn reverse(a: &Args) -> Result<ArrayRef> {
    let s = a.bytes(0)?;
    a.binaries(|i| Some(s.at(i)?.iter().rev().copied().collect()))
}

pub(super) fn replace(a: &Args) -> Result<ArrayRef> {
    let (s, from, to) = (a.bytes(0)?, a.bytes(1)?, a.bytes(2)?);
    a.binaries(|i| {
        let (s, from, to) = (s.at(i)?, from.at(i)?, to.at(i)?);
        if from.is_empty() {
            return Some(s.to_vec());
        }
        let found: Vec<usize> = memmem::find_iter(s, from).collect();
        a.ask(s.len() + found.len().saturating_mul(to.len()))?;
        let (mut out, mut rest) = (Vec::with_capacity(s.len()), 0);
        for at in found {
            out.extend_from_slice(&s[rest..at]);
            out.extend_from_slice(to);
            rest = at + from.len();
        }
        out.extend_from_slice(&s[rest..]);
        Some(out)
    })
}

pub(super) fn repeat(a: &Args) -> Result<ArrayRef> {
    let (s, n) = (a.bytes(0)?, a.int(1)?);
    a.binaries(|i| {
        let (s, n) = (s.at(i)?, usize::try_from(n.at(i)?.max(0)).ok()?);
        (s.len().checked_mul(n)? <= TEXT_BYTES_MAX).then(|| s.repeat(if s.is_empty() { 0 } else { n }))
    })
}

pub(super) fn pad(a: &Args, front: bool) -> Result<ArrayRef> {
    let (s, len) = (a.bytes(0)?, a.int(1)?);
    let fill = if a.has(2) { Some(a.bytes(2)?) } else { None };
    a.binaries(|i| {
        let (s, len) = (s.at(i)?, usize::try_from(len.at(i)?).ok()?);
        let fill = fill.as_ref().map_or(Some(&b" "[..]), |fill| fill.at(i))?;
        let Some(missing) = len.checked_sub(s.len()) else { return Some(s[..len].to_vec()) };
        if missing > 0 && fill.is_empty() {
            return Some(Vec::new());
        }
        if len > TEXT_BYTES_MAX {
            return None;
        }
        let fill: Vec<u8> = fill.iter().cycle().take(missing).copied().collect();
        Some(if front { [&fill[..], s].concat() } else { [s, &fill[..]].concat() })
    })
}

pub(super) fn trim(a: &Args, front: bool, back: bool) -> Result<ArrayRef> {
    let s = a.bytes(0)?;
    let what = if a.has(1) { Some(a.bytes(1)?) } else { None };
    a.binaries(|i| {
        let mut s = s.at(i)?;
        let what = what.as_ref().map_or(Some(&b" "[..]), |what| what.at(i))?;
        while front
            && !what.is_empty()
            && let Some(rest) = s.strip_prefix(what)
        {
            s = rest;
        }
        while back
            && !what.is_empty()
            && let Some(rest) = s.strip_suffix(what)
        {
            s = rest;
        }
        Some(s.to_vec())
    })
}

pub(super) fn insert(a: &Args) -> Result<ArrayRef> {
    let (s, pos, len, new) = (a.bytes(0)?, a.int(1)?, a.int(2)?, a.bytes(3)?);
    a.binaries(|i| {
        let (s, pos, len, new) = (s.at(i)?, pos.at(i)?, len.at(i)?, new.at(i)?);
        let Some(start) = usize::try_from(pos).ok().and_then(|p| p.checked_sub(1)).filter(|start| *start < s.len())
        else {
            return Some(s.to_vec());
        };
        let rest = &s[start..];
        let gone = if len < 0 { rest.len() } else { at_most(len, rest.len()) };
        Some([&s[..start], new, &rest[gone..]].concat())
    })
}

pub(super) fn elt(a: &Args) -> Result<ArrayRef> {
    let (n, values) = (a.int(0)?, all(a, 1)?);
    a.binaries(|i| Some(values.get(usize::try_from(n.at(i)?).ok()?.checked_sub(1)?)?.at(i)?.to_vec()))
}

/// Returns the function behind LIKE of bytes: value, pattern, escape. (The function has no name in SQL.)
pub(crate) fn like_udf() -> ScalarUDF {
    def("dipper_like", &[], (3, 3), Ret::Bool, like).into_udf()
}

/// Returns the position of one argument's bytes in another's, from 1, or 0 if they do not occur.
pub(super) fn find(a: &Args, hay: usize, needle: usize) -> Result<ArrayRef> {
    let (hay, needle) = (a.bytes(hay)?, a.bytes(needle)?);
    let from = if a.has(2) { Some(a.int(2)?) } else { None };
    a.ints(|i| {
        let (hay, needle) = (hay.at(i)?, needle.at(i)?);
        let from = from.as_ref().map_or(Some(1), |from| from.at(i))?;
        let Some(skip) =
            from.checked_sub(1).and_then(|skip| usize::try_from(skip).ok()).filter(|skip| *skip <= hay.len())
        else {
            return Some(0);
        };
        if needle.is_empty() && skip > 0 && skip == hay.len() {
            return Some(0);
        }
        Some(memmem::find(&hay[skip..], needle).map_or(0, |at| (skip + at) as i64 + 1))
    })
}

/// LIKE of bytes: `%` matches any bytes, `_` matches one, the escape byte makes the next one literal.
fn like(a: &Args) -> Result<ArrayRef> {
    let (s, pattern, escape) = (a.bytes(0)?, a.bytes(1)?, a.bytes(2)?);
    let tokens_of = |i: usize| Some(tokens(pattern.at(i)?, escape.at(i)?.first().copied()));
    // A constant pattern is parsed once.
    let constant = if pattern.one && escape.one { Some(tokens_of(0)) } else { None };
    a.bools(|i| match &constant {
        Some(tokens) => Some(matches(s.at(i)?, tokens.as_ref()?)),
        None => Some(matches(s.at(i)?, &tokens_of(i)?)),
    })
}

/// An element of a pattern.
#[derive(PartialEq)]
enum Token {
    Any,
    One,
    Byte(u8),
}

fn tokens(pattern: &[u8], escape: Option<u8>) -> Vec<Token> {
    let (mut tokens, mut bytes) = (Vec::with_capacity(pattern.len()), pattern.iter().copied());
    while let Some(byte) = bytes.next() {
        tokens.push(match byte {
            byte if Some(byte) == escape => Token::Byte(bytes.next().unwrap_or(byte)),
            b'%' => Token::Any,
            b'_' => Token::One,
            byte => Token::Byte(byte),
        });
    }
    tokens
}

/// Whether bytes match a pattern. On a mismatch the last `%` takes one byte more.
fn matches(s: &[u8], pattern: &[Token]) -> bool {
    let (mut at, mut next) = (0, 0);
    // The token after the last `%`, and the first byte that the `%` does not take.
    let mut last: Option<(usize, usize)> = None;
    while at < s.len() {
        match (pattern.get(next), &mut last) {
            (Some(Token::Any), _) => {
                last = Some((next + 1, at));
                next += 1;
            }
            (Some(token), _) if *token == Token::One || *token == Token::Byte(s[at]) => {
                at += 1;
                next += 1;
            }
            (_, Some((behind, end))) => {
                *end += 1;
                (next, at) = (*behind, *end);
            }
            (_, None) => return false,
        }
    }
    pattern[next..].iter().all(|token| *token == Token::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_bytes() {
        let like = |s: &[u8], pattern: &[u8]| matches(s, &tokens(pattern, Some(b'\\')));
        assert!(like(b"", b"") && like(b"", b"%%") && !like(b"", b"_"));
        assert!(
            like(b"\xff\0a", b"\xff%")
                && like(b"\xff\0a", b"%a")
                && like(b"\xff\0a", b"_\0_")
                && !like(b"\xff\0a", b"\0%")
        );
        assert!(like(b"abcabd", b"%ab_") && !like(b"abcabd", b"%abc") && like(b"aXbXc", b"a%b%c"));
        assert!(like(b"a%", b"a\\%") && !like(b"ab", b"a\\%") && like(b"a\\", b"a\\\\") && like(b"a\\", b"a\\"));
    }
}
