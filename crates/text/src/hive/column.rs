//! Converters of columns: spans of raw fields to an Arrow array, by Hive's rules.
//!
//! Nested values are converted the same way, a level at a time: the spans of all elements of a batch's arrays are one
//! column of spans for the element's converter. Nothing is allocated per row.

use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, TimestampMicrosecondType,
};
use arrow_array::{ArrayRef, BinaryViewArray, BooleanArray, PrimitiveArray, StringViewArray};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};

use super::charset::java_lossy;
use super::cut;
use super::error::HiveError;
use super::format::TimestampFormats;
use super::types::{StringKind, hive_type};
use super::{base64, datetime, number};
use crate::block::TextBlock;
use crate::convert::{Convert, Cx};
use crate::dialect::{HiveDialect, HiveSerde};
use crate::error::TextError;
use crate::parse;
use crate::scan::InvalidUtf8;
use crate::span::Span;
use crate::views::{ViewColumn, binary_views, null_bits, nulls_equal_to, utf8_views};

/// Returns the converter of a column of this dialect.
///
/// # Errors
/// `Options` if Hive text cannot hold the type, if it nests deeper than there are separators, or if a timestamp format
/// is malformed.
pub fn converter(dialect: &HiveDialect, field: &FieldRef) -> Result<Box<dyn Convert>, TextError> {
    dialect.check_fields(std::slice::from_ref(field))?;
    let csv = matches!(dialect.serde, HiveSerde::OpenCsv { .. });
    let rules = Rules {
        // OpenCSVSerde delivers final text: its fields are neither compared with the null format nor unescaped again.
        null: (!csv).then(|| dialect.null_format.clone()),
        escape: dialect.escape.filter(|_| !csv),
        rest: dialect.last_column_takes_rest,
        extended_boolean: dialect.extended_boolean,
        formats: TimestampFormats::try_new(&dialect.timestamp_formats)?,
        // A separator that is not ASCII can cut a character, which leaves values that begin or end in the middle of
        // one.
        whole_characters: csv || dialect.separators.iter().all(u8::is_ascii),
    };
    let node = Node::try_new(field, &dialect.separators, 1)?;
    Ok(Box::new(HiveColumn { node, rules }))
}

/// A column with the rules that hold on all of its levels.
#[derive(Debug)]
struct HiveColumn {
    node: Node,
    rules: Rules,
}

impl Convert for HiveColumn {
    fn convert(&self, block: &TextBlock, spans: &[Span], cx: &mut Cx<'_>) -> Result<ArrayRef, TextError> {
        self.rules.convert(&self.node, block, spans, cx)
    }
}

#[derive(Debug)]
pub(super) struct Rules {
    null: Option<Vec<u8>>,
    pub(super) escape: Option<u8>,
    pub(super) rest: bool,
    extended_boolean: bool,
    formats: Option<TimestampFormats>,
    whole_characters: bool,
}

/// A type with the separators of its level.
#[derive(Debug)]
pub(super) enum Node {
    Int8,
    Int16,
    Int32,
    Int64,
    Float32,
    Float64,
    Boolean,
    Decimal { precision: u8, scale: i8 },
    Date,
    Timestamp,
    String(StringKind),
    Binary,
    List { separator: u8, item: Box<Node>, field: FieldRef },
    Map { separator: u8, key_separator: u8, key: Box<Node>, value: Box<Node>, entries: FieldRef, fields: Fields },
    Struct { separator: u8, children: Vec<Node>, fields: Fields },
}

impl Node {
    /// Makes the node of a field. `level`: index of the separator of an array at this level. The caller has checked
    /// that there are enough separators.
    fn try_new(field: &Field, separators: &[u8], level: usize) -> Result<Node, HiveError> {
        let separator = |level: usize| separators.get(level).copied().unwrap_or_default();
        let child = |field: &Field, level| Node::try_new(field, separators, level);
        Ok(match field.data_type() {
            DataType::Int8 => Node::Int8,
            DataType::Int16 => Node::Int16,
            DataType::Int32 => Node::Int32,
            DataType::Int64 => Node::Int64,
            DataType::Float32 => Node::Float32,
            DataType::Float64 => Node::Float64,
            DataType::Boolean => Node::Boolean,
            DataType::Decimal128(precision, scale) if *scale >= 0 && *scale as u8 <= *precision => {
                Node::Decimal { precision: *precision, scale: *scale }
            }
            DataType::Date32 => Node::Date,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Node::Timestamp,
            DataType::Utf8View => Node::String(StringKind::of(field)),
            DataType::BinaryView => Node::Binary,
            DataType::List(item) => {
                Node::List { separator: separator(level), item: Box::new(child(item, level + 1)?), field: item.clone() }
            }
            DataType::Map(entries, false) => match entries.data_type() {
                DataType::Struct(fields) if fields.len() == 2 => Node::Map {
                    separator: separator(level),
                    key_separator: separator(level + 1),
                    key: Box::new(child(&fields[0], level + 2)?),
                    value: Box::new(child(&fields[1], level + 2)?),
                    entries: entries.clone(),
                    fields: fields.clone(),
                },
                _ => return Err(unreadable(field)),
            },
            DataType::Struct(fields) if !fields.is_empty() => Node::Struct {
                separator: separator(level),
                children: fields.iter().map(|field| child(field, level + 1)).collect::<Result<_, _>>()?,
                fields: fields.clone(),
            },
            _ => return Err(unreadable(field)),
        })
    }
}

fn unreadable(field: &Field) -> HiveError {
    let reason = match hive_type(field) {
        Ok(hive) => format!("is not how {hive} is read: use the type that the Hive type string stands for"),
        Err(error) => format!("cannot be read from Hive text ({error})"),
    };
    HiveError::UnsupportedType { kind: "Arrow", name: field.data_type().to_string(), reason }
}

impl Rules {
    /// Converts one value per span.
    pub(super) fn convert(
        &self,
        node: &Node,
        block: &TextBlock,
        spans: &[Span],
        cx: &mut Cx<'_>,
    ) -> Result<ArrayRef, TextError> {
        Ok(match node {
            Node::Int8 => self.int::<Int8Type>(block, spans, cx, "a TINYINT (-128 to 127)"),
            Node::Int16 => self.int::<Int16Type>(block, spans, cx, "a SMALLINT (-32768 to 32767)"),
            Node::Int32 => self.int::<Int32Type>(block, spans, cx, "an INT (-2147483648 to 2147483647)"),
            Node::Int64 => {
                self.int::<Int64Type>(block, spans, cx, "a BIGINT (-9223372036854775808 to 9223372036854775807)")
            }
            Node::Float32 => self.values::<Float32Type>(block, spans, cx, "a FLOAT", |bytes, start, end| {
                number::parse_float::<f32>(bytes.get(start..end)?)
            }),
            Node::Float64 => self.values::<Float64Type>(block, spans, cx, "a DOUBLE", |bytes, start, end| {
                number::parse_float::<f64>(bytes.get(start..end)?)
            }),
            Node::Boolean => Arc::new(self.booleans(block, spans, cx)),
            Node::Decimal { precision, scale } => {
                let what = format!("a DECIMAL({precision},{scale})");
                let array = self.primitives::<Decimal128Type>(block, spans, cx, &what, |bytes, start, end| {
                    number::parse_decimal(bytes.get(start..end)?, *precision, *scale)
                });
                Arc::new(array.with_data_type(DataType::Decimal128(*precision, *scale)))
            }
            Node::Date => self.values::<Date32Type>(block, spans, cx, "a DATE (YYYY-MM-DD)", |bytes, start, end| {
                parse::date_fixed(bytes, start, end).or_else(|| datetime::parse_date(bytes.get(start..end)?))
            }),
            Node::Timestamp => {
                let what = "a TIMESTAMP (YYYY-MM-DD HH:MM:SS.ffffff)";
                match &self.formats {
                    None => self.values::<TimestampMicrosecondType>(block, spans, cx, what, |bytes, start, end| {
                        parse::timestamp_fixed(bytes, start, end)
                            .or_else(|| datetime::parse_timestamp(bytes.get(start..end)?))
                    }),
                    Some(formats) => {
                        self.values::<TimestampMicrosecondType>(block, spans, cx, what, |bytes, start, end| {
                            let value = bytes.get(start..end)?;
                            formats.parse(value).or_else(|| datetime::parse_timestamp(value))
                        })
                    }
                }
            }
            Node::String(kind) => Arc::new(self.strings(*kind, block, spans, cx)),
            Node::Binary => Arc::new(self.binaries(block, spans, cx)),
            Node::List { separator, item, field } => self.lists(*separator, item, field, block, spans, cx)?,
            Node::Map { .. } => self.maps(node, block, spans, cx)?,
            Node::Struct { separator, children, fields } => {
                self.structs(*separator, children, fields, block, spans, cx)?
            }
        })
    }

    /// Returns the NULL bits: values equal to the null format, and fields behind the end of the line.
    pub(super) fn nulls(&self, block: &TextBlock, spans: &[Span]) -> Option<NullBuffer> {
        match &self.null {
            Some(null) => nulls_equal_to(block, spans, null, false),
            None => null_bits(spans, |_| false),
        }
    }

    fn is_null(&self, bytes: &[u8], span: Span) -> bool {
        match (&self.null, span.bytes(bytes)) {
            (_, None) => true,
            (Some(null), Some(value)) => value == null,
            (None, Some(_)) => false,
        }
    }

    fn int<T>(&self, block: &TextBlock, spans: &[Span], cx: &mut Cx<'_>, what: &str) -> ArrayRef
    where
        T: ArrowPrimitiveType,
        T::Native: TryFrom<i64>,
    {
        self.values::<T>(block, spans, cx, what, |bytes, start, end| match parse::int(bytes, start, end) {
            Some(value) => T::Native::try_from(value).ok(),
            None => number::parse_int(bytes.get(start..end)?),
        })
    }

    fn values<T: ArrowPrimitiveType>(
        &self,
        block: &TextBlock,
        spans: &[Span],
        cx: &mut Cx<'_>,
        what: &str,
        parse: impl Fn(&[u8], usize, usize) -> Option<T::Native>,
    ) -> ArrayRef {
        Arc::new(self.primitives::<T>(block, spans, cx, what, parse))
    }

    #[inline]
    fn primitives<T: ArrowPrimitiveType>(
        &self,
        block: &TextBlock,
        spans: &[Span],
        cx: &mut Cx<'_>,
        what: &str,
        parse: impl Fn(&[u8], usize, usize) -> Option<T::Native>,
    ) -> PrimitiveArray<T> {
        let bytes = block.bytes();
        let compare = self.null.as_ref().is_some_and(|null| parse(null, 0, null.len()).is_some());
        let mut values: Vec<T::Native> = Vec::with_capacity(spans.len());
        let nulls = optional_bits(spans, |span| {
            // The null sequence is usually no value, so parsing detects it; only one that is a value (`0`, `-1`) must
            // be compared.
            let value = if span.is_missing() || (compare && self.is_null(bytes, span)) {
                None
            } else {
                parse(bytes, span.start(), span.end())
            };
            values.push(value.unwrap_or_default());
            value.is_some()
        });
        self.report(block, spans, nulls.as_ref(), cx, what);
        PrimitiveArray::new(values.into(), nulls)
    }

    /// Reports values that are NULL without being the null format. Separate from the parsing loop, so that the loop has
    /// no call.
    fn report(&self, block: &TextBlock, spans: &[Span], nulls: Option<&NullBuffer>, cx: &mut Cx<'_>, what: &str) {
        let Some(nulls) = nulls.filter(|_| cx.bad.is_wanted()) else { return };
        for (row, span) in spans.iter().enumerate() {
            if nulls.is_null(row) && !self.is_null(block.bytes(), *span) {
                cx.bad.report(row, || format!("is not {what}"));
            }
        }
    }

    fn booleans(&self, block: &TextBlock, spans: &[Span], cx: &mut Cx<'_>) -> BooleanArray {
        let bytes = block.bytes();
        let mut values = BooleanBufferBuilder::new(spans.len());
        let nulls = optional_bits(spans, |span| {
            let value = match span.bytes(bytes) {
                Some(text) if !self.is_null(bytes, span) => number::parse_bool(text, self.extended_boolean),
                _ => None,
            };
            values.append(value.unwrap_or_default());
            value.is_some()
        });
        let what =
            if self.extended_boolean { "a BOOLEAN (true, false, t, f, 1, 0)" } else { "a BOOLEAN (true, false)" };
        self.report(block, spans, nulls.as_ref(), cx, what);
        BooleanArray::new(values.finish(), nulls)
    }

    fn strings(&self, kind: StringKind, block: &TextBlock, spans: &[Span], cx: &mut Cx<'_>) -> StringViewArray {
        let nulls = self.nulls(block, spans);
        let escape = self.escape.filter(|_| spans.iter().any(|span| span.is_escaped() && !span.is_missing()));
        if escape.is_none() && block.is_utf8() && self.whole_characters {
            if kind == StringKind::Any {
                return utf8_views(block, spans, nulls, cx);
            }
            let mut shorter = cut::SpanList::new();
            shorter.0.extend(spans.iter().map(|span| match span.bytes(block.bytes()) {
                None => *span,
                Some(text) => Span::new(span.start() as u32, (span.start() + kept(kind, text)) as u32),
            }));
            return utf8_views(block, &shorter.0, nulls, cx);
        }
        let mut column = ViewColumn::new(block, spans.len(), cx);
        let mut unescaped = Vec::new();
        for (row, span) in spans.iter().enumerate() {
            let value = match span.bytes(block.bytes()) {
                Some(value) if !nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) => value,
                _ => {
                    column.push_null();
                    continue;
                }
            };
            let value = match escape {
                Some(escape) if span.is_escaped() => {
                    unescaped.clear();
                    cut::unescape(value, escape, &mut unescaped);
                    &unescaped
                }
                _ => value,
            };
            match (simdutf8::basic::from_utf8(value), cx.invalid_utf8) {
                (Ok(text), _) => column.push_str(&text[..kept(kind, value)]),
                (Err(_), InvalidUtf8::Replace) => {
                    let text = java_lossy(value);
                    column.push_str(&text[..kept(kind, text.as_bytes())]);
                }
                // Treats the value by the scan's policy.
                (Err(_), _) => column.push_checked(value, cx),
            }
        }
        column.finish_utf8()
    }

    fn binaries(&self, block: &TextBlock, spans: &[Span], cx: &mut Cx<'_>) -> BinaryViewArray {
        let nulls = self.nulls(block, spans);
        // Each value is base64 or raw. All raw is common enough to be worth views without copies.
        let base64 = |span: &Span| span.bytes(block.bytes()).is_some_and(base64::may_decode);
        if !spans.iter().any(base64) {
            return binary_views(block, spans, nulls, cx);
        }
        let mut column = ViewColumn::new(block, spans.len(), cx);
        let mut decoded = Vec::new();
        for (row, span) in spans.iter().enumerate() {
            match span.bytes(block.bytes()) {
                Some(value) if !nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) => {
                    decoded.clear();
                    column.push_bytes(if base64::decode(value, &mut decoded) { &decoded } else { value });
                }
                _ => column.push_null(),
            }
        }
        column.finish_binary()
    }
}

/// Returns the number of bytes of `text` that a string of this kind keeps.
#[inline]
fn kept(kind: StringKind, text: &[u8]) -> usize {
    let (max, padded) = match kind {
        StringKind::Any => return text.len(),
        StringKind::Char(max) => (max as usize, true),
        StringKind::Varchar(max) => (max as usize, false),
    };
    let mut end = text.len();
    if end > max {
        // A character begins with a byte that is no continuation byte.
        let begins = |byte: &u8| (*byte as i8) >= -0x40;
        end = text.iter().enumerate().filter(|(_, b)| begins(b)).nth(max).map_or(end, |(at, _)| at);
    }
    if padded {
        while end > 0 && text[end - 1] == b' ' {
            end -= 1;
        }
    }
    end
}

/// Calls `valid` for each span and returns the answers as bits if any is no.
#[inline]
fn optional_bits(spans: &[Span], mut valid: impl FnMut(Span) -> bool) -> Option<NullBuffer> {
    let mut words: Vec<u64> = Vec::with_capacity(spans.len().div_ceil(64));
    let mut any = false;
    for chunk in spans.chunks(64) {
        let mut word = 0u64;
        for (i, span) in chunk.iter().enumerate() {
            word |= u64::from(valid(*span)) << i;
        }
        any |= word.count_ones() as usize != chunk.len();
        words.push(word.to_le());
    }
    any.then(|| NullBuffer::new(BooleanBuffer::new(words.into(), 0, spans.len())))
}
