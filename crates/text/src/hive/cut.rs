//! Cutting fields, elements and entries out of bytes, as Hive's lazy objects do.
//!
//! An escape hides the byte behind it, unless it is the last byte. If separator and escape are the same byte, it
//! separates: Hive compares the separator first.

use std::cell::RefCell;

use crate::parse::load8;
use crate::span::Span;

/// Makes the span `start..end`, marked if the escape occurs in it.
#[inline]
pub(super) fn span_of(bytes: &[u8], start: usize, end: usize, escape: Option<u8>) -> Span {
    match escape {
        Some(escape) if memchr::memchr(escape, &bytes[start..end]).is_some() => Span::escaped(start as u32, end as u32),
        _ => Span::new(start as u32, end as u32),
    }
}

/// Returns the position of the next separator in `bytes[from..end]`, or `end`.
#[inline]
fn next(bytes: &[u8], from: usize, end: usize, separator: u8, escape: Option<u8>) -> usize {
    let Some(escape) = escape else {
        return memchr::memchr(separator, &bytes[from..end]).map_or(end, |at| from + at);
    };
    let mut at = from;
    while let Some(found) = memchr::memchr2(separator, escape, &bytes[at..end]) {
        at += found;
        if bytes[at] == separator {
            return at;
        }
        at += if at + 1 < end { 2 } else { 1 };
    }
    end
}

/// Appends all elements of an array that is not empty.
#[inline]
pub(super) fn elements(bytes: &[u8], span: Span, separator: u8, escape: Option<u8>, out: &mut Vec<Span>) {
    let (start, end) = (span.start(), span.end());
    if escape.is_some() && span.is_escaped() {
        let mut from = start;
        loop {
            let at = next(bytes, from, end, separator, escape);
            out.push(span_of(bytes, from, at, escape));
            if at == end {
                return;
            }
            from = at + 1;
        }
    }
    // Elements are short, so words beat calls: eight bytes per step, with a bit for each separator among them.
    let (mut from, mut at) = (start, start);
    while at < end {
        let Some(word) = load8(bytes, at) else { break };
        let mut hits = equal_bytes(word, separator);
        if end - at < 8 {
            hits &= (1 << (8 * (end - at))) - 1;
        }
        while hits != 0 {
            let found = at + (hits.trailing_zeros() / 8) as usize;
            out.push(Span::new(from as u32, found as u32));
            from = found + 1;
            hits &= hits - 1;
        }
        at += 8;
    }
    // The last bytes of a block without padding behind its text.
    while at < end {
        if bytes[at] == separator {
            out.push(Span::new(from as u32, at as u32));
            from = at + 1;
        }
        at += 1;
    }
    out.push(Span::new(from as u32, end as u32));
}

/// Cuts a struct or a row: calls `field` with the number and the span of each of `count` fields, [`Span::MISSING`] for
/// fields that the text does not reach. With `rest`, the last one extends to the end.
pub(super) fn fields(
    bytes: &[u8],
    (start, end): (usize, usize),
    separator: u8,
    escape: Option<u8>,
    rest: bool,
    count: usize,
    mut field: impl FnMut(usize, Span),
) {
    let mut from = start;
    for number in 0..count {
        let mut at = next(bytes, from, end, separator, escape);
        if rest && number + 1 == count {
            at = end;
        }
        field(number, span_of(bytes, from, at, escape));
        if at == end {
            (number + 1..count).for_each(|number| field(number, Span::MISSING));
            return;
        }
        from = at + 1;
    }
}

/// Appends the entries of a map that is not empty: keys, and values or [`Span::MISSING`] if an entry has no key
/// separator.
pub(super) fn entries(
    bytes: &[u8],
    span: Span,
    separator: u8,
    key_separator: u8,
    escape: Option<u8>,
    keys: &mut Vec<Span>,
    values: &mut Vec<Span>,
) {
    if escape.is_none() || !span.is_escaped() {
        return plain_entries(bytes, span, separator, key_separator, keys, values);
    }
    let end = span.end();
    let mut from = span.start();
    loop {
        let (mut at, mut key_end) = (from, None);
        while at < end && bytes[at] != separator {
            if key_end.is_none() && bytes[at] == key_separator {
                key_end = Some(at);
            }
            at += if escape == Some(bytes[at]) && at + 1 < end { 2 } else { 1 };
        }
        keys.push(span_of(bytes, from, key_end.unwrap_or(at), escape));
        values.push(key_end.map_or(Span::MISSING, |key_end| span_of(bytes, key_end + 1, at, escape)));
        if at >= end {
            return;
        }
        from = at + 1;
    }
}

/// [`entries`] without escapes.
fn plain_entries(
    bytes: &[u8],
    span: Span,
    separator: u8,
    key_separator: u8,
    keys: &mut Vec<Span>,
    values: &mut Vec<Span>,
) {
    let (start, end) = (span.start(), span.end());
    let (mut from, mut key_end) = (start, None);
    let mut entry = |from: usize, key_end: Option<usize>, at: usize| {
        keys.push(Span::new(from as u32, key_end.unwrap_or(at) as u32));
        values.push(key_end.map_or(Span::MISSING, |key_end| Span::new(key_end as u32 + 1, at as u32)));
    };
    let mut mark = |at: usize| {
        // If both separators are the same byte, it separates entries: the entry separator is compared first.
        if bytes[at] == separator {
            entry(from, key_end.take(), at);
            from = at + 1;
        } else if key_end.is_none() {
            key_end = Some(at);
        }
    };
    let mut at = start;
    while at < end {
        let Some(word) = load8(bytes, at) else { break };
        let mut hits = equal_bytes(word, separator) | equal_bytes(word, key_separator);
        if end - at < 8 {
            hits &= (1 << (8 * (end - at))) - 1;
        }
        while hits != 0 {
            mark(at + (hits.trailing_zeros() / 8) as usize);
            hits &= hits - 1;
        }
        at += 8;
    }
    while at < end {
        if bytes[at] == separator || bytes[at] == key_separator {
            mark(at);
        }
        at += 1;
    }
    entry(from, key_end, end);
}

/// Returns a word with the high bit set in each byte where `word` equals `byte`.
#[inline(always)]
fn equal_bytes(word: u64, byte: u8) -> u64 {
    const LOW: u64 = 0x7F7F_7F7F_7F7F_7F7F;
    let different = word ^ (u64::from(byte) * 0x0101_0101_0101_0101);
    !(((different & LOW) + LOW) | different | LOW)
}

/// Appends `value` without its escapes to `out`: escape + `n` or `r` is a line feed or carriage return, escape + any
/// other byte is that byte, a single escape at the end stays.
pub(super) fn unescape(value: &[u8], escape: u8, out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some(at) = memchr::memchr(escape, rest) {
        out.extend_from_slice(&rest[..at]);
        match rest.get(at + 1) {
            None => {
                out.push(escape);
                return;
            }
            Some(b'n') => out.push(b'\n'),
            Some(b'r') => out.push(b'\r'),
            Some(byte) => out.push(*byte),
        }
        rest = &rest[at + 2..];
    }
    out.extend_from_slice(rest);
}

thread_local! {
    /// Span lists of finished batches, kept for the next ones: a batch's elements fill many pages.
    static SPARE: RefCell<Vec<Vec<Span>>> = const { RefCell::new(Vec::new()) };
}

/// A list of spans that gives its memory back to the thread when dropped.
#[derive(Debug)]
pub(super) struct SpanList(pub(super) Vec<Span>);

impl SpanList {
    pub(super) fn new() -> Self {
        SpanList(SPARE.with_borrow_mut(Vec::pop).unwrap_or_default())
    }
}

impl Drop for SpanList {
    fn drop(&mut self) {
        /// A list with more spans than this came from an unusual batch and is not kept.
        const KEPT_MAX: usize = 1 << 20;
        let mut list = std::mem::take(&mut self.0);
        if list.capacity() <= KEPT_MAX {
            list.clear();
            SPARE.with_borrow_mut(|spare| {
                if spare.len() < 32 {
                    spare.push(list);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(bytes: &[u8], spans: &[Span]) -> Vec<String> {
        let text = |span: &Span| span.bytes(bytes).map_or("-".to_owned(), |b| String::from_utf8_lossy(b).into_owned());
        spans.iter().map(text).collect()
    }

    #[test]
    fn elements_at_every_length() {
        for length in 0..40usize {
            for step in 1..9 {
                let bytes: Vec<u8> = (0..length).map(|i| if i % step == 0 { 0xFE } else { b'a' }).collect();
                for (from, to) in [(0, length), (length / 3, length), (0, length - length / 4)] {
                    let mut found = Vec::new();
                    elements(&bytes, Span::new(from as u32, to as u32), 0xFE, None, &mut found);
                    let expected: Vec<&[u8]> = bytes[from..to].split(|b| *b == 0xFE).collect();
                    let found: Vec<&[u8]> = found.iter().map(|span| span.bytes(&bytes).unwrap()).collect();
                    assert_eq!(found, expected);
                }
            }
        }
    }

    #[test]
    fn entries_at_every_length() {
        for length in 1..40usize {
            for (separators, keys_at) in [(3, 2), (7, 5), (50, 4), (4, 50), (1, 1)] {
                let byte = |i: usize| match i {
                    i if i % separators == 1 => b';',
                    i if i % keys_at == 1 => b':',
                    _ => b'a',
                };
                let bytes: Vec<u8> = (0..length).map(byte).collect();
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                entries(&bytes, Span::new(0, length as u32), b';', b':', None, &mut keys, &mut values);
                // The escape occurs nowhere, so the other way must find the same.
                let (mut slow_keys, mut slow_values) = (Vec::new(), Vec::new());
                let span = Span::escaped(0, length as u32);
                entries(&bytes, span, b';', b':', Some(b'!'), &mut slow_keys, &mut slow_values);
                assert_eq!((keys, values), (slow_keys, slow_values));
            }
        }
    }

    #[test]
    fn escapes_hide() {
        let bytes = br"a\;b;\\;c\";
        let mut found = Vec::new();
        elements(bytes, Span::escaped(0, bytes.len() as u32), b';', Some(b'\\'), &mut found);
        assert_eq!(shown(bytes, &found), [r"a\;b", r"\\", r"c\"]);
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        let bytes = br"a\:b:c:d;e;:f";
        entries(bytes, Span::escaped(0, 13), b';', b':', Some(b'\\'), &mut keys, &mut values);
        assert_eq!(
            (shown(bytes, &keys), shown(bytes, &values)),
            (vec![r"a\:b".into(), "e".into(), "".into()], vec!["c:d".into(), "-".into(), "f".into()])
        );
    }

    #[test]
    fn rows() {
        for (text, rest, expected) in [
            ("a,b", false, ["a", "b", "-"]),
            ("a,b,c,d", false, ["a", "b", "c"]),
            ("a,b,c,d", true, ["a", "b", "c,d"]),
            ("", false, ["", "-", "-"]),
            (",", false, ["", "", "-"]),
        ] {
            let mut found = Vec::new();
            fields(text.as_bytes(), (0, text.len()), b',', None, rest, 3, |_, span| found.push(span));
            assert_eq!(shown(text.as_bytes(), &found), expected);
        }
    }

    #[test]
    fn unescaped() {
        for (text, expected) in [(r"a\nb\rc\td\\", "a\nb\rctd\\"), (r"\", r"\"), ("", ""), (r"x\", r"x\")] {
            let mut out = Vec::new();
            unescape(text.as_bytes(), b'\\', &mut out);
            assert_eq!(out, expected.as_bytes());
        }
    }
}
