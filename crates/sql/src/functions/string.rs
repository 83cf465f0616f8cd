//! Functions of text: parts, padding, joining. Positions and lengths count characters from 1, LENGTH counts bytes;
//! functions of BINARY are in [`bytes`].

mod placeholders;

use std::fmt::Write;
use std::ops::Range;

use arrow::array::{Array, ArrayRef, ListArray, StringViewArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::args::{Args, Col, to_text_of};
use super::bytes::{self, takes_bytes, text_type};
use super::func::{Def, MANY, Ret, def};

/// The longest text that a function makes, in bytes, like MySQL's max_allowed_packet: longer results are NULL.
pub const TEXT_BYTES_MAX: usize = 16 << 20;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("concat", &[], (1, MANY), Ret::By(text_type), concat),
    def("concat_ws", &[], (2, MANY), Ret::By(text_type), concat_ws),
    def("length", &["octet_length"], (1, 1), Ret::Int, |a| byte_count(a, 1)),
    def("bit_length", &[], (1, 1), Ret::Int, |a| byte_count(a, 8)),
    def("char_length", &["character_length"], (1, 1), Ret::Int, |a| match takes_bytes(a) {
        true => byte_count(a, 1),
        false => of_text(a, |s| char_count(s) as i64),
    }),
    def("ascii", &[], (1, 1), Ret::Int, first_byte),
    def("ord", &[], (1, 1), Ret::Int, |a| {
        if takes_bytes(a) {
            return first_byte(a);
        }
        of_text(a, |s| {
            let first = s.chars().next().map_or(0, char::len_utf8);
            s.bytes().take(first).fold(0, |v, b| v << 8 | i64::from(b))
        })
    }),
    def("left", &["strleft"], (2, 2), Ret::By(text_type), left),
    def("right", &["strright"], (2, 2), Ret::By(text_type), right),
    def("substring", &["substr", "mid"], (2, 3), Ret::By(text_type), substring),
    def("substring_index", &[], (3, 3), Ret::Text, substring_index),
    def("split_part", &[], (3, 3), Ret::Text, split_part),
    def("lower", &["lcase"], (1, 1), Ret::Text, |a| mapped(a, |s, out| out.extend(s.chars().map(lower)))),
    def("upper", &["ucase"], (1, 1), Ret::Text, |a| mapped(a, |s, out| out.extend(s.chars().map(upper)))),
    def("initcap", &[], (1, 1), Ret::Text, |a| mapped(a, initcap)),
    def("reverse", &[], (1, 1), Ret::By(reverse_type), reverse),
    def("quote", &[], (1, 1), Ret::Text, quote),
    def("trim", &["btrim"], (1, 2), Ret::By(text_type), |a| trim(a, true, true)),
    def("ltrim", &[], (1, 2), Ret::By(text_type), |a| trim(a, true, false)),
    def("rtrim", &[], (1, 2), Ret::By(text_type), |a| trim(a, false, true)),
    def("trim_in", &[], (1, 2), Ret::Text, |a| trim_in(a, true, true)),
    def("ltrim_in", &[], (1, 2), Ret::Text, |a| trim_in(a, true, false)),
    def("rtrim_in", &[], (1, 2), Ret::Text, |a| trim_in(a, false, true)),
    def("lpad", &[], (2, 3), Ret::By(text_type), |a| pad(a, true)),
    def("rpad", &[], (2, 3), Ret::By(text_type), |a| pad(a, false)),
    def("repeat", &[], (2, 2), Ret::By(text_type), repeat),
    def("space", &[], (1, 1), Ret::Text, space),
    def("replace", &[], (3, 3), Ret::By(text_type), replace),
    def("replace_empty", &[], (3, 3), Ret::Text, replace_empty),
    def("insert", &["overlay"], (4, 4), Ret::By(text_type), insert),
    def(OVERLAY, &[], (3, 3), Ret::Text, overlay),
    def("sub_replace", &[], (3, 4), Ret::Text, sub_replace),
    def("append_trailing_char_if_absent", &[], (2, 2), Ret::Text, append_trailing),
    def("char", &[], (1, MANY), Ret::Text, char_of),
    def("elt", &[], (2, MANY), Ret::By(text_type), elt),
    def("format", &[], (2, MANY), Ret::Text, |a| match a.data_type(0) {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => placeholders::format(a),
        _ => format_number(a),
    }),
    def("money_format", &[], (1, 1), Ret::Text, money_format),
    def("soundex", &[], (1, 1), Ret::Text, soundex),
    def("strcmp", &[], (2, 2), Ret::Int, strcmp),
];

/// Returns `times` the number of bytes of the argument.
fn byte_count(a: &Args, times: i64) -> Result<ArrayRef> {
    match takes_bytes(a) {
        true => of_bytes(a, |s| s.len() as i64 * times),
        false => of_text(a, |s| s.len() as i64 * times),
    }
}

fn of_bytes(a: &Args, f: impl Fn(&[u8]) -> i64) -> Result<ArrayRef> {
    let s = a.bytes(0)?;
    a.ints(|i| s.at(i).map(&f))
}

/// Returns the code of the first byte.
fn first_byte(a: &Args) -> Result<ArrayRef> {
    of_bytes(a, |s| s.first().copied().unwrap_or(0).into())
}

fn of_text(a: &Args, f: impl Fn(&str) -> i64) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.ints(|i| s.at(i).map(&f))
}

fn mapped(a: &Args, f: impl Fn(&str, &mut String)) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.texts(|i, out| {
        f(s.at(i)?, out);
        Some(())
    })
}

/// Counts the characters of a text: every byte that does not continue a character.
pub fn char_count(s: &str) -> usize {
    s.bytes().filter(|b| (*b as i8) >= -0x40).count()
}

/// Returns the byte position of character `n`, counted from 0, or the end.
pub fn char_at(s: &str, n: usize) -> usize {
    if s.is_ascii() {
        return n.min(s.len());
    }
    s.char_indices().nth(n).map_or(s.len(), |(at, _)| at)
}

/// Changes the case of one character: a character without a single counterpart, such as the German sharp s, stays.
fn upper(c: char) -> char {
    let mut mapped = c.to_uppercase();
    if mapped.len() == 1 { mapped.next().unwrap_or(c) } else { c }
}

fn lower(c: char) -> char {
    let mut mapped = c.to_lowercase();
    if mapped.len() == 1 { mapped.next().unwrap_or(c) } else { c }
}

fn concat(a: &Args) -> Result<ArrayRef> {
    if takes_bytes(a) {
        return bytes::concat(a);
    }
    let parts = (0..a.len()).map(|k| a.text(k)).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        a.ask(parts.iter().filter_map(|part| part.at(i)).map(str::len).sum())?;
        for part in &parts {
            out.push_str(part.at(i)?);
        }
        Some(())
    })
}

fn concat_ws(a: &Args) -> Result<ArrayRef> {
    if takes_bytes(a) {
        return bytes::concat_ws(a);
    }
    let separator = a.text(0)?;
    if (1..a.len()).all(|k| a.data_type(k).is_list()) {
        let lists = (1..a.len()).map(|k| Texts::of(a, k)).collect::<Result<Vec<_>>>()?;
        return a.texts(|i, out| {
            let separator = separator.at(i)?;
            let parts = lists.iter().flat_map(|list| list.row(i));
            a.ask(parts.clone().map(|part| part.len() + separator.len()).sum())?;
            join(out, separator, parts);
            Some(())
        });
    }
    let parts = (1..a.len()).map(|k| a.text(k)).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        join(out, separator.at(i)?, parts.iter().filter_map(|p| p.at(i)));
        Some(())
    })
}

/// A column of arrays with their values as texts.
struct Texts {
    lists: Col<ListArray>,
    values: StringViewArray,
}

impl Texts {
    fn of(a: &Args, k: usize) -> Result<Self> {
        let lists = super::array::lists(a, k)?;
        let values = to_text_of(a.name, lists.array.values(), a.digits(k))?;
        Ok(Texts { lists, values })
    }

    /// Returns the values of a row that are not NULL; none for a NULL array.
    fn row(&self, i: usize) -> impl Iterator<Item = &str> + Clone {
        let row = super::array::span(&self.lists, i).unwrap_or_default();
        row.filter(|k| !self.values.is_null(*k)).map(|k| self.values.value(k))
    }
}

fn join<'a>(out: &mut String, separator: &str, parts: impl Iterator<Item = &'a str>) {
    for (n, part) in parts.enumerate() {
        if n > 0 {
            out.push_str(separator);
        }
        out.push_str(part);
    }
}

fn left(a: &Args) -> Result<ArrayRef> {
    if takes_bytes(a) {
        return bytes::left(a);
    }
    let (s, n) = (a.text(0)?, a.int(1)?);
    a.slices(&s, |i, s| n.at(i).map(|n| 0..char_at(s, n.max(0) as usize)))
}

/// Returns the last `n` characters; for a negative `n`, everything from character |n| on, as in Doris.
fn right(a: &Args) -> Result<ArrayRef> {
    if takes_bytes(a) {
        return bytes::right(a);
    }
    let (s, n) = (a.text(0)?, a.int(1)?);
    a.slices(&s, |i, s| {
        let n = n.at(i)?;
        let start = if n < 0 {
            char_at(s, n.unsigned_abs() as usize - 1)
        } else {
            char_at(s, char_count(s).saturating_sub(n as usize))
        };
        Some(start..s.len())
    })
}

/// Returns the byte range of the characters from `pos` (1 is the first, -1 the last), at most `len` of them.
fn substring_range(s: &str, pos: i64, len: i64) -> Range<usize> {
    if pos == 0 || len <= 0 {
        return 0..0;
    }
    let first = if pos > 0 {
        (pos - 1) as usize
    } else {
        match (char_count(s) as u64).checked_sub(pos.unsigned_abs()) {
            Some(first) => first as usize,
            None => return 0..0,
        }
    };
    let start = char_at(s, first);
    start..start + char_at(&s[start..], len as usize)
}

fn substring(a: &Args) -> Result<ArrayRef> {
    if takes_bytes(a) {
        return bytes::substring(a);
    }
    let (s, pos) = (a.text(0)?, a.int(1)?);
    let len = if a.has(2) { Some(a.int(2)?) } else { None };
    a.slices(&s, |i, s| {
        let len = match &len {
            Some(len) => len.at(i)?,
            None => i64::MAX,
        };
        Some(substring_range(s, pos.at(i)?, len))
    })
}

fn substring_index(a: &Args) -> Result<ArrayRef> {
    let (s, delimiter, count) = (a.text(0)?, a.text(1)?, a.int(2)?);
    a.slices(&s, |i, s| {
        let (delimiter, count) = (delimiter.at(i)?, count.at(i)?);
        if delimiter.is_empty() || count == 0 {
            return Some(0..0);
        }
        let nth = count.unsigned_abs() as usize - 1;
        Some(if count > 0 {
            0..s.match_indices(delimiter).nth(nth).map_or(s.len(), |(at, _)| at)
        } else {
            s.rmatch_indices(delimiter).nth(nth).map_or(0, |(at, _)| at + delimiter.len())..s.len()
        })
    })
}

/// Returns field `n` of a text, from the end if negative; NULL if there is none.
fn split_part(a: &Args) -> Result<ArrayRef> {
    let (s, delimiter, n) = (a.text(0)?, a.text(1)?, a.int(2)?);
    a.slices(&s, |i, s| {
        let (delimiter, n) = (delimiter.at(i)?, n.at(i)?);
        if delimiter.is_empty() {
            return Some(0..0);
        }
        let nth = n.unsigned_abs() as usize;
        let field = match n {
            0 => None,
            1.. => s.split(delimiter).nth(nth - 1),
            _ => s.rsplit(delimiter).nth(nth - 1),
        }?;
        // A text without the delimiter has no fields.
        if field.len() == s.len() {
            return None;
        }
        let start = field.as_ptr() as usize - s.as_ptr() as usize;
        Some(start..start + field.len())
    })
}

fn initcap(s: &str, out: &mut String) {
    let mut rest = s;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c: char| c.is_alphanumeric() != first.is_alphanumeric()).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(end);
        rest = behind;
        if !first.is_alphanumeric() {
            out.push_str(part);
            continue;
        }
        out.extend(first.to_uppercase());
        // The word is converted as a whole, since a sigma at its end has another small letter.
        out.extend(part.to_lowercase().chars().skip(first.to_lowercase().count()));
    }
}

fn reverse_type(args: &datafusion::logical_expr::ReturnFieldArgs) -> Result<DataType> {
    let t = args.arg_fields[0].data_type();
    if t.is_list() { Ok(t.clone()) } else { text_type(args) }
}

fn reverse(a: &Args) -> Result<ArrayRef> {
    if a.data_type(0).is_list() {
        return super::array::reverse(a);
    }
    if takes_bytes(a) {
        return bytes::reverse(a);
    }
    mapped(a, |s, out| out.extend(s.chars().rev()))
}

fn quote(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.texts(|i, out| {
        let s = s.at(i)?;
        out.push('\'');
        out.push_str(s);
        out.push('\'');
        Some(())
    })
}

/// TRIM of a text, blanks by default: removes whole repetitions of the text, not its single characters.
fn trim(a: &Args, front: bool, back: bool) -> Result<ArrayRef> {
    if takes_bytes(a) {
        return bytes::trim(a, front, back);
    }
    let s = a.text(0)?;
    let what = if a.has(1) { Some(a.text(1)?) } else { None };
    a.slices(&s, |i, s| {
        let what = match &what {
            Some(what) => what.at(i)?,
            None => " ",
        };
        let (mut start, mut end) = (0, s.len());
        if what.is_empty() {
            return Some(0..end);
        }
        while front && s[start..end].starts_with(what) {
            start += what.len();
        }
        while back && s[start..end].ends_with(what) {
            end -= what.len();
        }
        Some(start..end)
    })
}

/// TRIM_IN: removes any of the characters.
fn trim_in(a: &Args, front: bool, back: bool) -> Result<ArrayRef> {
    let s = a.text(0)?;
    let what = if a.has(1) { Some(a.text(1)?) } else { None };
    a.slices(&s, |i, s| {
        let what = match &what {
            Some(what) => what.at(i)?,
            None => " ",
        };
        let mut rest = s;
        if front {
            rest = rest.trim_start_matches(|c| what.contains(c));
        }
        let start = s.len() - rest.len();
        if back {
            rest = rest.trim_end_matches(|c| what.contains(c));
        }
        Some(start..start + rest.len())
    })
}

fn pad(a: &Args, front: bool) -> Result<ArrayRef> {
    if takes_bytes(a) {
        return bytes::pad(a, front);
    }
    let (s, len) = (a.text(0)?, a.int(1)?);
    let fill = if a.has(2) { Some(a.text(2)?) } else { None };
    a.texts(|i, out| {
        let (s, len) = (s.at(i)?, usize::try_from(len.at(i)?).ok()?);
        let fill = match &fill {
            Some(fill) => fill.at(i)?,
            None => " ",
        };
        let have = char_count(s);
        if len <= have {
            out.push_str(&s[..char_at(s, len)]);
            return Some(());
        }
        let missing = len - have;
        if fill.is_empty() {
            // There is nothing to pad with: MySQL returns the empty text.
            return Some(());
        }
        if len > TEXT_BYTES_MAX {
            return None;
        }
        if !front {
            out.push_str(s);
        }
        let length = char_count(fill);
        for _ in 0..missing / length {
            out.push_str(fill);
        }
        out.push_str(&fill[..char_at(fill, missing % length)]);
        if front {
            out.push_str(s);
        }
        Some(())
    })
}

fn repeat(a: &Args) -> Result<ArrayRef> {
    if takes_bytes(a) {
        return bytes::repeat(a);
    }
    let (s, n) = (a.text(0)?, a.int(1)?);
    a.texts(|i, out| {
        let (s, n) = (s.at(i)?, n.at(i)?.max(0) as usize);
        if s.len().checked_mul(n)? > TEXT_BYTES_MAX {
            return None;
        }
        for _ in 0..if s.is_empty() { 0 } else { n } {
            out.push_str(s);
        }
        Some(())
    })
}

fn space(a: &Args) -> Result<ArrayRef> {
    let n = a.int(0)?;
    a.texts(|i, out| {
        let n = n.at(i)?.max(0) as usize;
        if n > TEXT_BYTES_MAX {
            return None;
        }
        out.extend(std::iter::repeat_n(' ', n));
        Some(())
    })
}

/// Size up to which a result's length is not computed in advance.
const SURELY_SHORT: usize = 1 << 20;

fn replace(a: &Args) -> Result<ArrayRef> {
    if takes_bytes(a) {
        return bytes::replace(a);
    }
    let (s, from, to) = (a.text(0)?, a.text(1)?, a.text(2)?);
    a.texts(|i, out| {
        let (s, from, to) = (s.at(i)?, from.at(i)?, to.at(i)?);
        if from.is_empty() {
            out.push_str(s);
            return Some(());
        }
        // The upper bound of the length; if that is much, the exact length.
        let longest = |times: usize| s.len() + times.saturating_mul(to.len());
        if longest(s.len() / from.len()) > SURELY_SHORT {
            a.ask(longest(s.matches(from).count()))?;
        }
        let mut rest = 0;
        for (at, _) in s.match_indices(from) {
            out.push_str(&s[rest..at]);
            out.push_str(to);
            rest = at + from.len();
        }
        out.push_str(&s[rest..]);
        Some(())
    })
}

/// Name of the function behind `OVERLAY(s PLACING new FROM start)`. (It is not a name in SQL.)
pub const OVERLAY: &str = "dipper_overlay";

/// Takes `s`, `start` and `new`, which replaces as many characters as it has.
fn overlay(a: &Args) -> Result<ArrayRef> {
    let (s, start, new) = (a.text(0)?, a.int(1)?, a.text(2)?);
    a.texts(|i, out| {
        let (s, start, new) = (s.at(i)?, start.at(i)?, new.at(i)?);
        a.ask(s.len() + new.len())?;
        let count = char_count(s) as i64;
        if start < 1 || start > count {
            out.push_str(s);
            return Some(());
        }
        let from = char_at(s, start as usize - 1);
        out.push_str(&s[..from]);
        out.push_str(new);
        let gone = char_count(new) as i64;
        if gone < count - start + 1 {
            out.push_str(&s[from + char_at(&s[from..], gone as usize)..]);
        }
        Some(())
    })
}

/// REPLACE_EMPTY: like REPLACE, but the empty text is found before every character and at the end.
fn replace_empty(a: &Args) -> Result<ArrayRef> {
    let (s, from, to) = (a.text(0)?, a.text(1)?, a.text(2)?);
    a.texts(|i, out| {
        let (s, from, to) = (s.at(i)?, from.at(i)?, to.at(i)?);
        let longest = |times: usize| s.len() + times.saturating_mul(to.len());
        // An empty text is found once more than there are characters.
        if longest(s.len() / from.len().max(1) + 1) > SURELY_SHORT {
            a.ask(longest(s.matches(from).count()))?;
        }
        let mut rest = 0;
        for (at, _) in s.match_indices(from) {
            out.push_str(&s[rest..at]);
            out.push_str(to);
            rest = at + from.len();
        }
        out.push_str(&s[rest..]);
        Some(())
    })
}

/// INSERT(s, pos, len, new): replaces `len` characters from `pos` by `new`; a position outside changes nothing.
fn insert(a: &Args) -> Result<ArrayRef> {
    if takes_bytes(a) {
        return bytes::insert(a);
    }
    let (s, pos, len, new) = (a.text(0)?, a.int(1)?, a.int(2)?, a.text(3)?);
    a.texts(|i, out| {
        let (s, pos, len, new) = (s.at(i)?, pos.at(i)?, len.at(i)?, new.at(i)?);
        let count = char_count(s) as i64;
        if pos < 1 || pos > count {
            out.push_str(s);
            return Some(());
        }
        let start = char_at(s, pos as usize - 1);
        out.push_str(&s[..start]);
        out.push_str(new);
        // A negative length, or one beyond the end, takes the rest.
        if len >= 0 && len < count - pos + 1 {
            out.push_str(&s[start + char_at(&s[start..], len as usize)..]);
        }
        Some(())
    })
}

/// SUB_REPLACE(s, new, start [, len]) of Doris; `start` counts from 0, the default length is that of `new`.
fn sub_replace(a: &Args) -> Result<ArrayRef> {
    let (s, new, start) = (a.text(0)?, a.text(1)?, a.int(2)?);
    let len = if a.has(3) { Some(a.int(3)?) } else { None };
    a.texts(|i, out| {
        let (s, new, start) = (s.at(i)?, new.at(i)?, start.at(i)?);
        let len = match &len {
            Some(len) => len.at(i)?,
            None => char_count(new) as i64,
        };
        if start < 0 || len < 0 || start >= char_count(s) as i64 {
            return None;
        }
        let from = char_at(s, start as usize);
        out.push_str(&s[..from]);
        out.push_str(new);
        out.push_str(&s[from + char_at(&s[from..], len as usize)..]);
        Some(())
    })
}

fn append_trailing(a: &Args) -> Result<ArrayRef> {
    let (s, tail) = (a.text(0)?, a.text(1)?);
    a.texts(|i, out| {
        let (s, tail) = (s.at(i)?, tail.at(i)?);
        if char_count(tail) != 1 {
            return None;
        }
        out.push_str(s);
        if !s.ends_with(tail) {
            out.push_str(tail);
        }
        Some(())
    })
}

/// CHAR(n, ...): the bytes of the numbers as text, NULLs skipped; NULL if they are not UTF-8.
fn char_of(a: &Args) -> Result<ArrayRef> {
    let codes = (0..a.len()).map(|k| a.int(k)).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        let mut bytes = Vec::new();
        for code in codes.iter().filter_map(|c| c.at(i)) {
            let word = (code as u32).to_be_bytes();
            let skip = word.iter().take(3).take_while(|b| **b == 0).count();
            bytes.extend_from_slice(&word[skip..]);
        }
        out.push_str(std::str::from_utf8(&bytes).ok()?);
        Some(())
    })
}

fn elt(a: &Args) -> Result<ArrayRef> {
    if takes_bytes(a) {
        return bytes::elt(a);
    }
    let n = a.int(0)?;
    let texts = (1..a.len()).map(|k| a.text(k)).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        let k = usize::try_from(n.at(i)?).ok()?.checked_sub(1)?;
        out.push_str(texts.get(k)?.at(i)?);
        Some(())
    })
}

/// Appends digits with a comma before every third digit of the whole part.
pub fn write_grouped(out: &mut String, plain: &str) {
    let (sign, digits) = match plain.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", plain),
    };
    let (whole, fraction) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    out.push_str(sign);
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out.push_str(fraction);
}

/// Appends a number with `digits` decimals, rounded half away from zero by its decimal digits.
fn write_fixed(out: &mut String, text: &str, value: f64, digits: usize) {
    let mut plain = String::new();
    match super::math::round_text(text, digits) {
        Some(rounded) => plain = rounded,
        None => {
            let _ = write!(plain, "{:.*}", digits, super::math::round_double(value, digits as i64));
        }
    }
    if plain.starts_with('-') && plain.bytes().all(|b| matches!(b, b'-' | b'.' | b'0')) {
        plain.remove(0);
    }
    write_grouped(out, &plain);
}

fn format_number(a: &Args) -> Result<ArrayRef> {
    if a.len() > 3 {
        return exec_err!("{}: expected a number, digits and a locale, found {} arguments", a.name, a.len());
    }
    let (text, value, digits) = (a.text(0)?, a.double(0)?, a.int(1)?);
    a.texts(|i, out| {
        let digits = digits.at(i)?.clamp(0, 30) as usize;
        write_fixed(out, text.at(i)?, value.at(i)?, digits);
        Some(())
    })
}

fn money_format(a: &Args) -> Result<ArrayRef> {
    let (text, value) = (a.text(0)?, a.double(0)?);
    a.texts(|i, out| {
        write_fixed(out, text.at(i)?, value.at(i)?, 2);
        Some(())
    })
}

/// SOUNDEX: the first letter, followed by the codes of the consonants after it, four characters in all. Neighbours with
/// the same code count once, also with h or w between them; a vowel between them separates them.
fn soundex(a: &Args) -> Result<ArrayRef> {
    let code = |c: char| match c.to_ascii_uppercase() {
        'B' | 'F' | 'P' | 'V' => '1',
        'C' | 'G' | 'J' | 'K' | 'Q' | 'S' | 'X' | 'Z' => '2',
        'D' | 'T' => '3',
        'L' => '4',
        'M' | 'N' => '5',
        'R' => '6',
        _ => '0',
    };
    let s = a.text(0)?;
    a.texts(|i, out| {
        let mut letters = s.at(i)?.chars().filter(|c| c.is_alphabetic());
        let Some(first) = letters.next() else {
            return Some(());
        };
        out.extend(first.to_uppercase());
        let mut last = code(first);
        for c in letters {
            if matches!(c.to_ascii_uppercase(), 'H' | 'W') {
                continue;
            }
            let now = code(c);
            if now != '0' && now != last {
                out.push(now);
            }
            last = now;
            if out.chars().count() == 4 {
                break;
            }
        }
        while out.chars().count() < 4 {
            out.push('0');
        }
        Some(())
    })
}

fn strcmp(a: &Args) -> Result<ArrayRef> {
    let (x, y) = (a.bytes(0)?, a.bytes(1)?);
    a.ints(|i| Some(x.at(i)?.cmp(y.at(i)?) as i64))
}
