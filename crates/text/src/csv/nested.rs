//! Arrays, maps and structs in CSV cells: JSON-like text, `[1,2]`, `{"k":"v"}`.
//!
//! Accepted beside JSON: `'` as quote, texts without quotes, `\N` for NULL, and `=` for `:` between key and value. A
//! struct's fields are found by name; missing ones are NULL, unknown ones are skipped. Without names, they stand in the
//! struct's order and must be complete. If keys of a map are equal, the last one counts.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields};

use super::{Column, Kind, Nulls, unescape::Unescape};
use crate::block::TextBlock;
use crate::convert::{BadValues, Convert, Cx};
use crate::dialect::DateOrder;
use crate::error::{ErrorKind, TextError};
use crate::span::Span;

/// Reader of a nested column.
#[derive(Debug)]
pub(super) enum Nested {
    List(FieldRef, Node),
    Map { entries: FieldRef, fields: Fields, key: Node, value: Node, ordered: bool },
    Struct(Fields, Vec<Node>),
}

/// Reader of a part of a nested column.
#[derive(Debug)]
pub(super) enum Node {
    Leaf(Box<Column>),
    Nested(Box<Nested>),
}

/// Spans of one level, with the row of the batch that each belongs to.
#[derive(Debug, Default)]
struct Level {
    spans: Vec<Span>,
    rows: Vec<usize>,
}

impl Level {
    fn push(&mut self, span: Span, row: usize) {
        self.spans.push(span);
        self.rows.push(row);
    }
}

/// A column split into the spans of its leaves, before values are read.
enum Taken<'a> {
    Leaf(&'a Column, Level),
    List {
        field: FieldRef,
        offsets: Vec<i32>,
        valid: Vec<bool>,
        child: Box<Taken<'a>>,
    },
    Map {
        entries: FieldRef,
        fields: Fields,
        ordered: bool,
        offsets: Vec<i32>,
        valid: Vec<bool>,
        key: Box<Taken<'a>>,
        value: Box<Taken<'a>>,
    },
    Struct {
        fields: Fields,
        valid: Vec<bool>,
        children: Vec<Taken<'a>>,
    },
}

impl Nested {
    pub(super) fn try_new(field: &Field) -> Result<Nested, TextError> {
        Ok(match field.data_type() {
            DataType::List(item) => Nested::List(Arc::clone(item), Node::try_new(item)?),
            DataType::Map(entries, ordered) => {
                let DataType::Struct(fields) = entries.data_type() else { return Err(unreadable(field)) };
                let [key, value] = &fields[..] else { return Err(unreadable(field)) };
                Nested::Map {
                    entries: Arc::clone(entries),
                    fields: fields.clone(),
                    key: Node::try_new(key)?,
                    value: Node::try_new(value)?,
                    ordered: *ordered,
                }
            }
            DataType::Struct(fields) => {
                Nested::Struct(fields.clone(), fields.iter().map(|f| Node::try_new(f)).collect::<Result<_, _>>()?)
            }
            _ => return Err(unreadable(field)),
        })
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Nested::List(..) => "an ARRAY (expected [a, b])",
            Nested::Map { .. } => "a MAP (expected {key: value})",
            Nested::Struct(..) => "a STRUCT (expected {name: value})",
        }
    }

    /// Reads the column whose cells stand in `bytes`; [`Span::MISSING`] is NULL.
    pub(super) fn column(&self, mut bytes: Vec<u8>, cells: &[Span], cx: &mut Cx<'_>) -> Result<ArrayRef, TextError> {
        let level = Level { spans: cells.to_vec(), rows: (0..cells.len()).collect() };
        let taken = self.take(&mut bytes, level, cx.bad);
        let block = TextBlock::from_vec(bytes);
        taken.build(&block, cx)
    }

    fn take(&self, bytes: &mut [u8], level: Level, bad: &mut BadValues) -> Taken<'_> {
        let mut valid = Vec::with_capacity(level.spans.len());
        let mut items: Vec<(Option<Span>, Span)> = Vec::new();
        match self {
            Nested::List(field, node) => {
                let mut child = Level::default();
                let mut offsets = vec![0];
                for (span, row) in level.spans.iter().zip(level.rows) {
                    let ok = self.cell(bytes, *span, b'[', b']', &mut items);
                    if ok == Some(true) {
                        items.drain(..).for_each(|(_, item)| child.push(item, row));
                    }
                    self.note(ok, row, bad);
                    valid.push(ok == Some(true));
                    offsets.push(child.spans.len() as i32);
                }
                let child = Box::new(node.take(bytes, child, bad));
                Taken::List { field: Arc::clone(field), offsets, valid, child }
            }
            Nested::Map { entries, fields, key, value, ordered } => {
                let (mut keys, mut values) = (Level::default(), Level::default());
                let (mut offsets, mut kept) = (vec![0], Vec::new());
                for (span, row) in level.spans.iter().zip(level.rows) {
                    let mut ok = self.cell(bytes, *span, b'{', b'}', &mut items);
                    if items.iter().any(|(name, _)| name.is_none()) {
                        ok = Some(false);
                        items.clear();
                    }
                    if items.iter().any(|(name, _)| name.is_some_and(Span::is_missing)) {
                        bad.report_unsupported(row, "has NULL as a key, which a MAP cannot have".into());
                        ok = Some(false);
                    }
                    if ok == Some(true) {
                        let mut known = Known::new(bytes);
                        kept.extend(items.drain(..).rev().filter(|(name, _)| name.is_some_and(|n| known.is_new(n))));
                        for (name, item) in kept.drain(..).rev() {
                            let Some(name) = name else { continue };
                            keys.push(name, row);
                            values.push(item, row);
                        }
                    }
                    self.note(ok, row, bad);
                    valid.push(ok == Some(true));
                    offsets.push(keys.spans.len() as i32);
                }
                Taken::Map {
                    entries: Arc::clone(entries),
                    fields: fields.clone(),
                    ordered: *ordered,
                    offsets,
                    valid,
                    key: Box::new(key.take(bytes, keys, bad)),
                    value: Box::new(value.take(bytes, values, bad)),
                }
            }
            Nested::Struct(fields, nodes) => {
                let mut children: Vec<Level> = fields.iter().map(|_| Level::default()).collect();
                for (span, row) in level.spans.iter().zip(level.rows) {
                    let mut ok = self.cell(bytes, *span, b'{', b'}', &mut items);
                    let unnamed = items.iter().filter(|(name, _)| name.is_none()).count();
                    if unnamed > 0 && (unnamed < items.len() || unnamed != fields.len()) {
                        ok = Some(false);
                    }
                    for (place, (field, child)) in fields.iter().zip(&mut children).enumerate() {
                        let named = |name: &Option<Span>| {
                            name.filter(|n| !n.is_missing()).is_some_and(|n| {
                                bytes[n.start()..n.end()].eq_ignore_ascii_case(field.name().as_bytes())
                            })
                        };
                        let found = match unnamed {
                            // Of equal names the last one counts, as in the JSON of rows.
                            0 => items.iter().rev().find(|(name, _)| named(name)).map(|(_, item)| *item),
                            _ => items.get(place).map(|(_, item)| *item),
                        };
                        child.push(found.filter(|_| ok == Some(true)).unwrap_or(Span::MISSING), row);
                    }
                    items.clear();
                    self.note(ok, row, bad);
                    valid.push(ok == Some(true));
                }
                let children = nodes.iter().zip(children).map(|(n, c)| n.take(bytes, c, bad)).collect();
                Taken::Struct { fields: fields.clone(), valid, children }
            }
        }
    }

    fn note(&self, ok: Option<bool>, row: usize, bad: &mut BadValues) {
        if ok == Some(false) && bad.entries().last().is_none_or(|e| e.row != row) {
            bad.report(row, || format!("is not {}", self.name()));
        }
    }

    /// Finds the items of a cell, in braces with their keys. `None`: the cell is NULL; `Some(false)`: its text is
    /// malformed.
    fn cell(
        &self,
        bytes: &mut [u8],
        span: Span,
        open: u8,
        close: u8,
        items: &mut Vec<(Option<Span>, Span)>,
    ) -> Option<bool> {
        items.clear();
        if span.is_missing() {
            return None;
        }
        let mut text = Text { bytes, at: span.start(), end: span.end() };
        let ok = text.items(open, close, items).is_some();
        if !ok {
            items.clear();
        }
        Some(ok)
    }
}

/// The keys of one map that were seen, by their text.
struct Known<'a> {
    bytes: &'a [u8],
    /// The first keys, which are compared one by one.
    few: Vec<&'a [u8]>,
    many: HashSet<&'a [u8]>,
}

impl<'a> Known<'a> {
    const FEW: usize = 16;

    fn new(bytes: &'a [u8]) -> Self {
        Known { bytes, few: Vec::new(), many: HashSet::new() }
    }

    /// Whether no key that was asked for before has this text.
    fn is_new(&mut self, key: Span) -> bool {
        let text = &self.bytes[key.start()..key.end()];
        if self.few.contains(&text) {
            return false;
        }
        if self.few.len() < Self::FEW {
            self.few.push(text);
            return true;
        }
        self.many.insert(text)
    }
}

fn unreadable(field: &Field) -> TextError {
    let reason = format!("type {} cannot be read from CSV", field.data_type());
    TextError::new(ErrorKind::Options, reason).in_column(field.name())
}

impl Node {
    fn try_new(field: &Field) -> Result<Node, TextError> {
        Ok(match Kind::try_new(field)? {
            Kind::Nested(nested) => Node::Nested(Box::new(nested)),
            kind => Node::Leaf(Box::new(Column {
                kind,
                nulls: Nulls::new(&[]),
                unescape: Unescape { quote: None, escape: None },
                // As in JSON: the order of dates concerns only the file's own fields.
                dates: DateOrder::YearFirst,
                // Types of nested columns are given, not guessed.
                exact: false,
                null_first: false,
            })),
        })
    }

    fn take(&self, bytes: &mut [u8], level: Level, bad: &mut BadValues) -> Taken<'_> {
        match self {
            Node::Leaf(column) => Taken::Leaf(column, level),
            Node::Nested(nested) => nested.take(bytes, level, bad),
        }
    }
}

fn nulls(valid: Vec<bool>) -> Option<NullBuffer> {
    let nulls = NullBuffer::new(BooleanBuffer::from(valid));
    (nulls.null_count() > 0).then_some(nulls)
}

fn wrong(e: arrow_schema::ArrowError) -> TextError {
    TextError::new(ErrorKind::BadValue, e.to_string()).with_hint("declare the parts of the column as nullable")
}

impl Taken<'_> {
    fn build(self, block: &TextBlock, cx: &mut Cx<'_>) -> Result<ArrayRef, TextError> {
        Ok(match self {
            Taken::Leaf(column, level) => {
                let before = cx.bad.values.len();
                let batch = std::mem::replace(&mut cx.batch, 0..block.bytes().len());
                let array = column.convert(block, &level.spans, cx);
                cx.batch = batch;
                for entry in &mut cx.bad.values[before..] {
                    if let Some(value) = level.spans[entry.row].bytes(block.bytes()) {
                        entry.reason = format!("has {:?}, which {}", String::from_utf8_lossy(value), entry.reason);
                    }
                    entry.row = level.rows[entry.row];
                }
                array?
            }
            Taken::List { field, offsets, valid, child } => {
                let child = child.build(block, cx)?;
                Arc::new(
                    ListArray::try_new(field, OffsetBuffer::new(offsets.into()), child, nulls(valid)).map_err(wrong)?,
                )
            }
            Taken::Map { entries, fields, ordered, offsets, valid, key, value } => {
                let (key, value) = (key.build(block, cx)?, value.build(block, cx)?);
                let offsets = OffsetBuffer::new(offsets.into());
                let rows = if key.null_count() == 0 {
                    (offsets, key, value)
                } else {
                    without_null_keys(&offsets, &key, &value)?
                };
                let items = StructArray::try_new(fields, vec![rows.1, rows.2], None).map_err(wrong)?;
                Arc::new(MapArray::try_new(entries, rows.0, items, nulls(valid), ordered).map_err(wrong)?)
            }
            Taken::Struct { fields, valid, children } => {
                let rows = valid.len();
                let children = children.into_iter().map(|c| c.build(block, cx)).collect::<Result<Vec<_>, _>>()?;
                Arc::new(StructArray::try_new_with_length(fields, children, nulls(valid), rows).map_err(wrong)?)
            }
        })
    }
}

/// Removes entries whose key could not be read.
fn without_null_keys(
    offsets: &OffsetBuffer<i32>,
    key: &ArrayRef,
    value: &ArrayRef,
) -> Result<(OffsetBuffer<i32>, ArrayRef, ArrayRef), TextError> {
    let keep = arrow_array::BooleanArray::new(
        key.nulls().map_or_else(|| BooleanBuffer::new_set(key.len()), |n| n.inner().clone()),
        None,
    );
    let lengths = offsets.windows(2).map(|w| (w[0]..w[1]).filter(|i| key.is_valid(*i as usize)).count());
    let kept = OffsetBuffer::from_lengths(lengths);
    let filter = |array: &ArrayRef| arrow_select::filter::filter(array, &keep).map_err(wrong);
    Ok((kept, filter(key)?, filter(value)?))
}

/// A position in JSON-like text. Strings are decoded in place, which never makes them longer.
struct Text<'a> {
    bytes: &'a mut [u8],
    at: usize,
    end: usize,
}

impl Text<'_> {
    fn peek(&self) -> Option<u8> {
        (self.at < self.end).then(|| self.bytes[self.at])
    }

    fn blanks(&mut self) {
        while self.peek().is_some_and(|b| b.is_ascii_whitespace()) {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        self.blanks();
        (self.peek()? == byte).then(|| self.at += 1)
    }

    /// Reads the items between `open` and `close`; nothing may follow. Items in braces may have a name.
    fn items(&mut self, open: u8, close: u8, items: &mut Vec<(Option<Span>, Span)>) -> Option<()> {
        self.eat(open)?;
        self.blanks();
        if self.peek()? != close {
            loop {
                self.blanks();
                let begin = self.at;
                let first = self.value(close, open == b'{')?;
                let after = self.at;
                self.blanks();
                if open == b'{' && matches!(self.peek()?, b':' | b'=') {
                    self.at += 1;
                    let value = self.value(close, false)?;
                    items.push((Some(first), value));
                } else if open == b'{' {
                    // There is no name, so it is a value.
                    self.at = begin;
                    let value = if first.is_quoted() { first } else { self.value(close, false)? };
                    if first.is_quoted() {
                        self.at = after;
                    }
                    items.push((None, value));
                } else {
                    items.push((None, first));
                }
                self.blanks();
                match self.peek()? {
                    b',' => self.at += 1,
                    b if b == close => break,
                    _ => return None,
                }
            }
        }
        self.at += 1;
        self.blanks();
        (self.at == self.end).then_some(())
    }

    fn value(&mut self, close: u8, key: bool) -> Option<Span> {
        self.blanks();
        match self.peek()? {
            quote @ (b'"' | b'\'') => self.text(quote),
            b'[' | b'{' => self.enclosed(),
            _ => {
                let start = self.at;
                let ends = |b: u8| b == b',' || b == close || key && matches!(b, b':' | b'=');
                while self.peek().is_some_and(|b| !ends(b)) {
                    self.at += 1;
                }
                let raw = self.bytes[start..self.at].trim_ascii_end();
                if raw.is_empty() {
                    return None;
                }
                let null = raw.eq_ignore_ascii_case(b"null") || raw == b"\\N";
                Some(if null { Span::MISSING } else { Span::new(start as u32, (start + raw.len()) as u32) })
            }
        }
    }

    /// Skips an array or object and returns the span of its text.
    fn enclosed(&mut self) -> Option<Span> {
        let start = self.at;
        let mut depth = 0usize;
        loop {
            match self.peek()? {
                b'[' | b'{' => depth += 1,
                b']' | b'}' => depth -= 1,
                quote @ (b'"' | b'\'') => {
                    self.at += 1;
                    while self.peek()? != quote {
                        self.at += 1 + (self.peek()? == b'\\') as usize;
                    }
                }
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(Span::new(start as u32, self.at as u32));
            }
        }
    }

    /// Reads a text in quotes, decoded in place.
    fn text(&mut self, quote: u8) -> Option<Span> {
        self.at += 1;
        let start = self.at;
        let mut out = start;
        loop {
            let byte = self.peek()?;
            self.at += 1;
            if byte == quote {
                return Some(Span::quoted(start as u32, out as u32, false));
            }
            if byte != b'\\' {
                self.bytes[out] = byte;
                out += 1;
                continue;
            }
            let escaped = self.peek()?;
            self.at += 1;
            let plain = match escaped {
                b'n' => b'\n',
                b't' => b'\t',
                b'r' => b'\r',
                b'b' => 8,
                b'f' => 12,
                b'u' => {
                    let c = self.unicode()?;
                    let mut utf8 = [0; 4];
                    for b in c.encode_utf8(&mut utf8).bytes() {
                        self.bytes[out] = b;
                        out += 1;
                    }
                    continue;
                }
                other => other,
            };
            self.bytes[out] = plain;
            out += 1;
        }
    }

    fn unicode(&mut self) -> Option<char> {
        let high = self.hex4()?;
        if !(0xD800..0xDC00).contains(&high) {
            return Some(char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        if self.bytes[self.at..self.end].starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let low = self.hex4()?;
            if (0xDC00..0xE000).contains(&low) {
                return char::from_u32(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
            }
            self.at = before;
        }
        Some(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self) -> Option<u32> {
        let digits = self.bytes.get(self.at..self.at + 4).filter(|_| self.at + 4 <= self.end)?;
        let text = std::str::from_utf8(digits).ok()?;
        let value = u32::from_str_radix(text, 16).ok()?;
        self.at += 4;
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The items of a text in braces, as text; `-` is NULL, `?` no name.
    fn braces(text: &str) -> Option<String> {
        let mut bytes = text.as_bytes().to_vec();
        let end = bytes.len();
        let mut items = Vec::new();
        Text { bytes: &mut bytes, at: 0, end }.items(b'{', b'}', &mut items)?;
        let shown = |span: &Span| match span.bytes(&bytes) {
            Some(value) => String::from_utf8_lossy(value).into_owned(),
            None => "-".into(),
        };
        let one = |(name, value): &(Option<Span>, Span)| {
            format!("{}={}", name.as_ref().map_or("?".into(), shown), shown(value))
        };
        Some(items.iter().map(one).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn braces_hold_names_or_values() {
        for (text, items) in [
            (r#"{"a":5, b = 'x'}"#, Some("a=5 b=x")),
            (r#"{5, "x"}"#, Some("?=5 ?=x")),
            (
                r#"{ null , \N, {"a":1,"b":[2,3]}, [4, 5] , "it\u0041" }"#,
                Some(r#"?=- ?=- ?={"a":1,"b":[2,3]} ?=[4, 5] ?=itA"#),
            ),
            (r#"{"a":\N,"b":null}"#, Some("a=- b=-")),
            (r#"{5, b: 6}"#, Some("?=5 b=6")),
            ("{}", Some("")),
            ("{5,}", None),
            ("{5 6", None),
        ] {
            assert_eq!(braces(text).as_deref(), items, "{text}");
        }
    }

    #[test]
    fn keys_are_new_once() {
        let texts: Vec<String> = (0..200).map(|i| format!("key{:02}", i * 7 % 60)).collect();
        let bytes = texts.concat();
        let mut known = Known::new(bytes.as_bytes());
        let spans = (0..200_u32).map(|at| Span::new(at * 5, at * 5 + 5));
        let new: Vec<bool> = spans.map(|span| known.is_new(span)).collect();
        let wanted: Vec<bool> = (0..200).map(|at| at < 60).collect();
        assert_eq!(new, wanted);
    }
}
