//! Arrays, maps and structs: one level of cutting, then the converters of the children.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, ListArray, MapArray, StructArray, UInt32Array};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};

use super::column::{Node, Rules};
use super::cut;
use crate::block::TextBlock;
use crate::convert::{BadValues, Cx};
use crate::error::{ErrorKind, TextError};
use crate::span::Span;

/// Converts Arrow's refusal: the schema contradicts itself, with NULLs in a field that is declared not nullable.
fn refused(error: ArrowError) -> TextError {
    TextError::new(ErrorKind::BadValue, format!("does not fit its column: {error}"))
        .with_hint("declare nested fields nullable, as Hive's are")
}

/// Returns the offsets of `rows` lists: `append` adds the children of a row and returns the number of children so far.
fn offsets(rows: usize, mut append: impl FnMut(usize) -> usize) -> Vec<i32> {
    let mut offsets = Vec::with_capacity(rows + 1);
    offsets.push(0);
    // A block has fewer bytes than 2^30, and each child takes at least one of them, its separator.
    offsets.extend((0..rows).map(|row| append(row) as i32));
    offsets
}

/// Runs `convert` on children, and turns its reports about children into reports about the rows they belong to.
fn of_children<R>(cx: &mut Cx<'_>, offsets: &[i32], convert: impl FnOnce(&mut Cx<'_>) -> R) -> R {
    let mut bad = BadValues::new(cx.bad.is_wanted());
    let mut inner = Cx { strings: cx.strings, invalid_utf8: cx.invalid_utf8, batch: cx.batch.clone(), bad: &mut bad };
    let result = convert(&mut inner);
    for mut entry in bad.values {
        entry.row = offsets.partition_point(|offset| *offset as usize <= entry.row).saturating_sub(1);
        cx.bad.values.push(entry);
    }
    result
}

impl Rules {
    pub(super) fn lists(
        &self,
        separator: u8,
        item: &Node,
        field: &FieldRef,
        block: &TextBlock,
        spans: &[Span],
        cx: &mut Cx<'_>,
    ) -> Result<ArrayRef, TextError> {
        let nulls = self.nulls(block, spans);
        let bytes = block.bytes();
        let mut list = cut::SpanList::new();
        let children = &mut list.0;
        let offsets = offsets(spans.len(), |row| {
            let span = spans[row];
            if !span.is_empty() && !nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                cut::elements(bytes, span, separator, self.escape, children);
            }
            children.len()
        });
        let items = of_children(cx, &offsets, |cx| self.convert(item, block, &list.0, cx))?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(Arc::new(ListArray::try_new(field.clone(), offsets, items, nulls).map_err(refused)?))
    }

    pub(super) fn structs(
        &self,
        separator: u8,
        children: &[Node],
        fields: &Fields,
        block: &TextBlock,
        spans: &[Span],
        cx: &mut Cx<'_>,
    ) -> Result<ArrayRef, TextError> {
        let nulls = self.nulls(block, spans);
        let bytes = block.bytes();
        let mut columns: Vec<cut::SpanList> = children.iter().map(|_| cut::SpanList::new()).collect();
        for (row, span) in spans.iter().enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                columns.iter_mut().for_each(|column| column.0.push(Span::MISSING));
                continue;
            }
            let range = (span.start(), span.end());
            cut::fields(bytes, range, separator, self.escape, self.rest, children.len(), |number, span| {
                columns[number].0.push(span);
            });
        }
        let mut arrays = Vec::with_capacity(children.len());
        for (child, column) in children.iter().zip(&columns) {
            arrays.push(self.convert(child, block, &column.0, cx)?);
        }
        Ok(Arc::new(StructArray::try_new(fields.clone(), arrays, nulls).map_err(refused)?))
    }

    pub(super) fn maps(
        &self,
        node: &Node,
        block: &TextBlock,
        spans: &[Span],
        cx: &mut Cx<'_>,
    ) -> Result<ArrayRef, TextError> {
        let Node::Map { separator, key_separator, key, value, entries, fields } = node else {
            return Err(TextError::new(ErrorKind::Options, "is no map"));
        };
        let nulls = self.nulls(block, spans);
        let bytes = block.bytes();
        let (mut key_list, mut value_list) = (cut::SpanList::new(), cut::SpanList::new());
        let mut offsets = offsets(spans.len(), |row| {
            let span = spans[row];
            if !span.is_empty() && !nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                let (keys, values) = (&mut key_list.0, &mut value_list.0);
                cut::entries(bytes, span, *separator, *key_separator, self.escape, keys, values);
            }
            key_list.0.len()
        });
        let mut keys = of_children(cx, &offsets, |cx| self.convert(key, block, &key_list.0, cx))?;
        if let Some(kept) = distinct(&keys, &mut offsets) {
            // Whole entries are dropped: values of dropped keys are not converted at all, as in Hive.
            let mut values = cut::SpanList::new();
            values.0.extend(kept.values().iter().map(|at| value_list.0[*at as usize]));
            value_list = values;
            keys = arrow_select::take::take(&keys, &kept, None).map_err(refused)?;
        }
        let values = of_children(cx, &offsets, |cx| self.convert(value, block, &value_list.0, cx))?;
        let content = StructArray::try_new(fields.clone(), vec![keys, values], None).map_err(refused)?;
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Ok(Arc::new(MapArray::try_new(entries.clone(), offsets, content, nulls, false).map_err(refused)?))
    }
}

/// Drops entries whose key is NULL or occurred earlier in the same map: adapts `offsets` and returns the entries that
/// stay. `None`: all stay.
fn distinct(keys: &ArrayRef, offsets: &mut [i32]) -> Option<UInt32Array> {
    let bits = KeyBits::new(keys);
    let mut kept: Vec<u32> = Vec::new();
    let mut seen = HashSet::new();
    let mut start = 0;
    for offset in offsets.iter_mut().skip(1) {
        let end = *offset as usize;
        let first = kept.len();
        seen.clear();
        for at in start..end {
            if keys.is_null(at) {
                continue;
            }
            // Few keys are compared faster than they are hashed.
            let new = if end - start <= 16 {
                !kept[first..].iter().any(|other| bits.equal(*other as usize, at))
            } else {
                seen.insert(bits.get(at))
            };
            if new {
                kept.push(at as u32);
            }
        }
        start = end;
        *offset = kept.len() as i32;
    }
    (kept.len() < keys.len()).then(|| UInt32Array::from(kept))
}

/// Returns a number that equals no other key.
fn unique(at: usize) -> i128 {
    -1 - at as i128
}

/// Keys in a form that compares like the objects that Hive puts into a hash map.
enum KeyBits<'a> {
    Numbers(Vec<i128>),
    Strings(&'a arrow_array::StringViewArray),
    Binaries(&'a arrow_array::BinaryViewArray),
}

#[derive(PartialEq, Eq, Hash)]
enum KeyBit<'a> {
    Number(i128),
    Bytes(&'a [u8]),
}

impl<'a> KeyBits<'a> {
    fn new(keys: &'a ArrayRef) -> Self {
        macro_rules! numbers {
            ($type:ty, $bits:expr) => {
                KeyBits::Numbers(keys.as_primitive::<$type>().values().iter().map($bits).collect())
            };
        }
        match keys.data_type() {
            DataType::Int8 => numbers!(Int8Type, |v| i128::from(*v)),
            DataType::Int16 => numbers!(Int16Type, |v| i128::from(*v)),
            DataType::Int32 => numbers!(Int32Type, |v| i128::from(*v)),
            DataType::Int64 => numbers!(Int64Type, |v| i128::from(*v)),
            DataType::Date32 => numbers!(Date32Type, |v| i128::from(*v)),
            DataType::Timestamp(..) => numbers!(TimestampMicrosecondType, |v| i128::from(*v)),
            DataType::Decimal128(..) => numbers!(Decimal128Type, |v| *v),
            // NaN equals nothing. The zeros are equal as doubles, but not as floats, whose hash codes differ.
            DataType::Float32 => {
                let bits = |(at, v): (usize, &f32)| if v.is_nan() { unique(at) } else { i128::from(v.to_bits()) };
                KeyBits::Numbers(keys.as_primitive::<Float32Type>().values().iter().enumerate().map(bits).collect())
            }
            DataType::Float64 => {
                let bits =
                    |(at, v): (usize, &f64)| if v.is_nan() { unique(at) } else { i128::from((v + 0.0).to_bits()) };
                KeyBits::Numbers(keys.as_primitive::<Float64Type>().values().iter().enumerate().map(bits).collect())
            }
            DataType::Boolean => KeyBits::Numbers(keys.as_boolean().values().iter().map(i128::from).collect()),
            DataType::BinaryView => KeyBits::Binaries(keys.as_binary_view()),
            _ => KeyBits::Strings(keys.as_string_view()),
        }
    }

    fn get(&self, at: usize) -> KeyBit<'_> {
        match self {
            KeyBits::Numbers(numbers) => KeyBit::Number(numbers[at]),
            KeyBits::Strings(strings) => KeyBit::Bytes(strings.value(at).as_bytes()),
            KeyBits::Binaries(binaries) => KeyBit::Bytes(binaries.value(at)),
        }
    }

    #[inline]
    fn equal(&self, a: usize, b: usize) -> bool {
        let views = match self {
            KeyBits::Numbers(numbers) => return numbers[a] == numbers[b],
            KeyBits::Strings(strings) => strings.views(),
            KeyBits::Binaries(binaries) => binaries.views(),
        };
        // The low half of a view has the length and the first bytes; for values of up to 12 bytes the whole view
        // decides.
        let (left, right) = (views[a], views[b]);
        if left as u32 <= 12 {
            return left == right;
        }
        left as u64 == right as u64 && self.get(a) == self.get(b)
    }
}
