//! Values of CSV fields, a column at a time.
//!
//! A field is first parsed as a plain number or time, which most are. Whether it is NULL, quoted or blank is checked
//! only if that fails.

mod nested;
pub(crate) mod time;
mod unescape;

use std::sync::Arc;

use arrow_array::builder::BooleanBufferBuilder;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrayRef, BooleanArray, FixedSizeBinaryArray, PrimitiveArray};
use arrow_buffer::{NullBuffer, ScalarBuffer, i256};
use arrow_schema::{DataType, Field, TimeUnit};
use dipper_base::{address, clock};

use crate::block::TextBlock;
use crate::convert::{Convert, Cx};
use crate::dialect::{CsvDialect, DateOrder};
use crate::error::{ErrorKind, TextError};
use crate::parse;
use crate::span::Span;
use crate::views::{Patches, ViewColumn, binary_views, null_bits, nulls_equal_to, utf8_views_patched};
use unescape::Unescape;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// Returns a converter for fields of a CSV column. It also serves for values from elsewhere that are to be read like
/// CSV.
///
/// # Errors
/// `Options` if the data type cannot be read from CSV.
pub fn converter(field: &Field, dialect: &CsvDialect) -> Result<Arc<dyn Convert>, TextError> {
    column(field, dialect, false)
}

/// Returns a converter for a column in which nothing is truncated: a number with digits behind the point is no integer,
/// and a date with a time of day is no date.
///
/// # Errors
/// `Options` if the data type cannot be read from CSV.
pub(crate) fn exact_converter(field: &Field, dialect: &CsvDialect) -> Result<Arc<dyn Convert>, TextError> {
    column(field, dialect, true)
}

fn column(field: &Field, dialect: &CsvDialect, exact: bool) -> Result<Arc<dyn Convert>, TextError> {
    let kind = Kind::try_new(field)?;
    let unescape = Unescape { quote: dialect.quote, escape: dialect.escape.filter(|e| Some(*e) != dialect.quote) };
    let dates = dialect.dates;
    let mut column = Column { kind, nulls: Nulls::new(&[]), unescape, dates, exact, null_first: false };
    // Determined while the column has no NULL values yet.
    column.null_first = dialect.null_values.iter().any(|v| column.reads(v));
    column.nulls = Nulls::new(&dialect.null_values);
    Ok(Arc::new(column))
}

#[derive(Debug)]
struct Column {
    kind: Kind,
    nulls: Nulls,
    unescape: Unescape,
    dates: DateOrder,
    /// A value with more than its type can hold is bad, instead of being truncated.
    exact: bool,
    /// A NULL value of the dialect could be read as a value of the type, so it must be compared first.
    null_first: bool,
}

/// The null values of a column.
#[derive(Debug, Clone)]
struct Nulls {
    values: Vec<Vec<u8>>,
}

impl Nulls {
    fn new(values: &[Vec<u8>]) -> Self {
        Nulls { values: values.to_vec() }
    }

    #[inline]
    fn is_null(&self, bytes: &[u8], span: Span) -> bool {
        if span.is_quoted() {
            return false;
        }
        let text = &bytes[span.start()..span.end()];
        self.values.iter().any(|v| v == text)
    }

    /// Returns the NULL bits of a column.
    fn bits(&self, block: &TextBlock, spans: &[Span]) -> Option<NullBuffer> {
        match &self.values[..] {
            [] => null_bits(spans, |_| false),
            [one] => nulls_equal_to(block, spans, one, true),
            _ => {
                let longest = self.values.iter().map(Vec::len).max().unwrap_or(0);
                null_bits(spans, |s| s.len() <= longest && self.is_null(block.bytes(), s))
            }
        }
    }
}

#[derive(Debug)]
enum Kind {
    Boolean,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
    Decimal128(u8, i8),
    Decimal256(u8, i8),
    Date,
    Timestamp,
    Time,
    /// Text, with the maximum number of characters if there is one.
    Utf8(Option<usize>),
    Binary,
    Ipv4,
    Ipv6,
    Nested(nested::Nested),
}

impl Kind {
    fn try_new(field: &Field) -> Result<Kind, TextError> {
        Ok(match field.data_type() {
            DataType::Boolean => Kind::Boolean,
            DataType::Int8 => Kind::Int8,
            DataType::Int16 => Kind::Int16,
            DataType::Int32 => Kind::Int32,
            DataType::Int64 => Kind::Int64,
            DataType::UInt8 => Kind::UInt8,
            DataType::UInt16 => Kind::UInt16,
            DataType::UInt32 => Kind::UInt32,
            DataType::UInt64 => Kind::UInt64,
            DataType::Float32 => Kind::Float32,
            DataType::Float64 => Kind::Float64,
            DataType::Decimal128(p, s) => Kind::Decimal128(*p, *s),
            DataType::Decimal256(p, s) => Kind::Decimal256(*p, *s),
            DataType::Date32 => Kind::Date,
            DataType::Timestamp(TimeUnit::Microsecond, None) => Kind::Timestamp,
            DataType::Time64(TimeUnit::Microsecond) => Kind::Time,
            DataType::Utf8View => Kind::Utf8(char_limit(field)),
            DataType::BinaryView => Kind::Binary,
            t if *t == address::IPV4 => Kind::Ipv4,
            t if *t == address::IPV6 => Kind::Ipv6,
            DataType::List(_) | DataType::Map(..) | DataType::Struct(_) => {
                Kind::Nested(nested::Nested::try_new(field)?)
            }
            other => {
                let reason = format!("type {other} cannot be read from CSV");
                return Err(TextError::new(ErrorKind::Options, reason).in_column(field.name()));
            }
        })
    }

    /// Whether the type is an integer of at most 64 bits.
    fn is_whole(&self) -> bool {
        use Kind::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
        matches!(self, Int8 | Int16 | Int32 | Int64 | UInt8 | UInt16 | UInt32 | UInt64)
    }

    /// Returns the type's name in messages.
    fn name(&self) -> String {
        match self {
            Kind::Boolean => "a BOOLEAN".into(),
            Kind::Int8 => "a TINYINT (-128 to 127)".into(),
            Kind::Int16 => "a SMALLINT (-32768 to 32767)".into(),
            Kind::Int32 => "an INT (-2147483648 to 2147483647)".into(),
            Kind::Int64 => "a BIGINT".into(),
            Kind::UInt8 => "a TINYINT UNSIGNED (0 to 255)".into(),
            Kind::UInt16 => "a SMALLINT UNSIGNED (0 to 65535)".into(),
            Kind::UInt32 => "an INT UNSIGNED (0 to 4294967295)".into(),
            Kind::UInt64 => "a BIGINT UNSIGNED".into(),
            Kind::Float32 => "a FLOAT".into(),
            Kind::Float64 => "a DOUBLE".into(),
            Kind::Decimal256(39, 0) => "a LARGEINT".into(),
            Kind::Decimal128(p, s) | Kind::Decimal256(p, s) => format!("a DECIMAL({p},{s})"),
            Kind::Date => "a DATE".into(),
            Kind::Timestamp => "a DATETIME".into(),
            Kind::Time => "a TIME (-838:59:59 to 838:59:59)".into(),
            Kind::Utf8(_) => "a STRING".into(),
            Kind::Binary => "a VARBINARY".into(),
            Kind::Ipv4 => "an IPV4".into(),
            Kind::Ipv6 => "an IPV6".into(),
            Kind::Nested(n) => n.name().into(),
        }
    }
}

/// Returns `n` of `char(n)` or `varchar(n)` in the field's metadata `dipper.type`.
fn char_limit(field: &Field) -> Option<usize> {
    let declared = field.metadata().get("dipper.type")?;
    let inner = declared.trim().strip_suffix(')')?;
    let (name, n) = inner.split_once('(')?;
    let is_char = name.trim().eq_ignore_ascii_case("char") || name.trim().eq_ignore_ascii_case("varchar");
    if is_char { n.trim().parse().ok() } else { None }
}

/// Parses `true`, `false`, `t`, `f`, `1`, `0` in any case.
fn boolean(text: &[u8]) -> Option<bool> {
    match text {
        [b't' | b'T' | b'1'] => Some(true),
        [b'f' | b'F' | b'0'] => Some(false),
        _ if text.eq_ignore_ascii_case(b"true") => Some(true),
        _ if text.eq_ignore_ascii_case(b"false") => Some(false),
        _ => None,
    }
}

/// Parses a wide decimal. A LARGEINT is a signed integer of 128 bits; other wide decimals have all their digits.
fn wide(text: &[u8], precision: u8, scale: i8, exact: bool) -> Option<i256> {
    if precision == 39 && scale == 0 {
        let text = if exact { text } else { whole(text).unwrap_or(text) };
        return std::str::from_utf8(text).ok()?.parse::<i128>().ok().map(i256::from_i128);
    }
    parse::decimal256(text, precision, scale)
}

/// Returns `-12` for `-12.9`: casts of text to integers cut off everything behind the point, as in Doris. `None` if
/// there is no point, or anything but digits around it.
fn whole(text: &[u8]) -> Option<&[u8]> {
    let point = text.iter().position(|b| *b == b'.')?;
    let (whole, fraction) = (&text[..point], &text[point + 1..]);
    let digits = whole.strip_prefix(b"-").or_else(|| whole.strip_prefix(b"+")).unwrap_or(whole);
    let is_number = digits.len() + fraction.len() > 0 && digits.iter().chain(fraction).all(u8::is_ascii_digit);
    is_number.then_some(if digits.is_empty() { b"0" } else { whole })
}

fn unsigned(bytes: &[u8], start: usize, end: usize) -> Option<u64> {
    let plus = bytes.get(start) == Some(&b'+');
    parse::digits(bytes, start + plus as usize, end)
}

impl Convert for Column {
    fn convert(&self, block: &TextBlock, spans: &[Span], cx: &mut Cx<'_>) -> Result<ArrayRef, TextError> {
        /// Parses narrower integers with the 64-bit parser.
        macro_rules! ints {
            ($type:ty, $parse:path) => {
                Arc::new(self.primitive::<$type>(block, spans, cx, |b, s, e| $parse(b, s, e)?.try_into().ok()))
            };
        }
        Ok(match &self.kind {
            Kind::Int8 => ints!(Int8Type, parse::int),
            Kind::Int16 => ints!(Int16Type, parse::int),
            Kind::Int32 => ints!(Int32Type, parse::int),
            Kind::Int64 => Arc::new(self.primitive::<Int64Type>(block, spans, cx, parse::int)),
            Kind::UInt8 => ints!(UInt8Type, unsigned),
            Kind::UInt16 => ints!(UInt16Type, unsigned),
            Kind::UInt32 => ints!(UInt32Type, unsigned),
            Kind::UInt64 => Arc::new(self.primitive::<UInt64Type>(block, spans, cx, unsigned)),
            Kind::Float32 => Arc::new(
                self.primitive::<Float32Type>(block, spans, cx, |b, s, e| fast_float2::parse(b.get(s..e)?).ok()),
            ),
            Kind::Float64 => Arc::new(self.primitive::<Float64Type>(block, spans, cx, parse::float64)),
            Kind::Decimal128(p, s) => {
                let (precision, scale) = (*p, *s);
                let array = self
                    .primitive::<Decimal128Type>(block, spans, cx, |b, s, e| parse::decimal(b, s, e, precision, scale));
                Arc::new(typed(array, precision, scale)?)
            }
            Kind::Decimal256(p, s) => {
                let (precision, scale, exact) = (*p, *s, self.exact);
                let array = self.primitive::<Decimal256Type>(block, spans, cx, |b, s, e| {
                    wide(b.get(s..e)?, precision, scale, exact)
                });
                Arc::new(typed(array, precision, scale)?)
            }
            Kind::Date if self.dates == DateOrder::YearFirst => {
                Arc::new(self.primitive::<Date32Type>(block, spans, cx, parse::date_fixed))
            }
            Kind::Date => Arc::new(self.primitive::<Date32Type>(block, spans, cx, |b, s, e| {
                // An error has a message; avoid making one for each NULL.
                let text = b.get(s..e).filter(|text| !text.is_empty())?;
                time::date(text, self.dates, self.exact).ok()
            })),
            Kind::Timestamp if self.dates == DateOrder::YearFirst => {
                Arc::new(self.primitive::<TimestampMicrosecondType>(block, spans, cx, parse::timestamp_fixed))
            }
            Kind::Timestamp => Arc::new(self.primitive::<TimestampMicrosecondType>(block, spans, cx, |b, s, e| {
                let text = b.get(s..e).filter(|text| !text.is_empty())?;
                parse::timestamp_fixed(b, s, e).or_else(|| time::timestamp(text, self.dates).ok())
            })),
            Kind::Time => Arc::new(
                self.primitive::<Time64MicrosecondType>(block, spans, cx, |b, s, e| clock::parse(b.get(s..e)?)),
            ),
            Kind::Boolean => self.booleans(block, spans, cx),
            Kind::Utf8(limit) => self.strings(block, spans, *limit, cx),
            Kind::Binary => self.binary(block, spans, cx),
            Kind::Ipv4 => {
                let array = self.primitive::<UInt32Type>(block, spans, cx, |b, s, e| {
                    address::parse_v4(std::str::from_utf8(b.get(s..e)?).ok()?).map(u32::from)
                });
                addresses(&array, address::V4_BYTES, |v| v.to_be_bytes())
            }
            Kind::Ipv6 => {
                let array = self.primitive::<Decimal128Type>(block, spans, cx, |b, s, e| {
                    address::parse_v6(std::str::from_utf8(b.get(s..e)?).ok()?).map(|v| u128::from(v) as i128)
                });
                addresses(&array, address::V6_BYTES, |v| v.to_be_bytes())
            }
            Kind::Nested(nested) => self.nested(nested, block, spans, cx)?,
        })
    }
}

/// Returns numbers as the bytes of addresses, the highest first.
fn addresses<T: ArrowPrimitiveType, const N: usize>(
    numbers: &PrimitiveArray<T>,
    width: usize,
    bytes: impl Fn(T::Native) -> [u8; N],
) -> ArrayRef {
    let values: Vec<u8> = numbers.values().iter().flat_map(|v| bytes(*v)).collect();
    Arc::new(FixedSizeBinaryArray::new(width as i32, values.into(), numbers.nulls().cloned()))
}

fn typed<T: arrow_array::types::DecimalType>(
    array: PrimitiveArray<T>,
    precision: u8,
    scale: i8,
) -> Result<PrimitiveArray<T>, TextError> {
    array.with_precision_and_scale(precision, scale).map_err(|e| TextError::new(ErrorKind::Options, e.to_string()))
}

/// Result of the slow path for a field that the quick path could not parse.
enum Slow<V> {
    Null,
    Value(V),
    Bad,
}

impl Column {
    /// Whether `text` alone would be read as a value of the type.
    fn reads(&self, text: &[u8]) -> bool {
        if matches!(self.kind, Kind::Boolean | Kind::Utf8(_) | Kind::Binary | Kind::Nested(_)) {
            return false;
        }
        let block = TextBlock::from_vec(text.to_vec());
        let mut bad = crate::convert::BadValues::new(false);
        let mut cx = Cx {
            strings: crate::scan::Strings::Copy,
            invalid_utf8: crate::scan::InvalidUtf8::Replace,
            batch: 0..text.len(),
            bad: &mut bad,
        };
        let span = [Span::new(0, text.len() as u32)];
        let Ok(array) = self.convert(&block, &span, &mut cx) else { return true };
        array.null_count() == 0
    }

    /// Converts a column of numbers or times. `parse` reads the plain form.
    #[inline]
    fn primitive<T: ArrowPrimitiveType>(
        &self,
        block: &TextBlock,
        spans: &[Span],
        cx: &mut Cx<'_>,
        parse: impl Fn(&[u8], usize, usize) -> Option<T::Native> + Copy,
    ) -> PrimitiveArray<T>
    where
        T::Native: FromMicros,
    {
        let bytes = block.bytes();
        let mut values: Vec<T::Native> = Vec::with_capacity(spans.len());
        let mut valid: Vec<u64> = Vec::with_capacity(spans.len().div_ceil(64));
        let mut any_null = false;
        for (c, chunk) in spans.chunks(64).enumerate() {
            let mut word = 0u64;
            for (i, span) in chunk.iter().enumerate() {
                let value = if self.null_first { None } else { parse(bytes, span.start(), span.end()) };
                match value {
                    Some(value) => {
                        values.push(value);
                        word |= 1 << i;
                    }
                    None => {
                        // The field is mostly NULL: empty, or the dialect's word for it.
                        match self.slow(bytes, *span, parse) {
                            Slow::Value(value) => {
                                values.push(value);
                                word |= 1 << i;
                                continue;
                            }
                            Slow::Null => {}
                            Slow::Bad => self.report(c * 64 + i, bytes, *span, cx),
                        }
                        values.push(T::Native::default());
                    }
                }
            }
            any_null |= word.count_ones() as usize != chunk.len();
            valid.push(word);
        }
        let nulls = any_null.then(|| words_to_nulls(valid, spans.len()));
        PrimitiveArray::<T>::new(ScalarBuffer::from(values), nulls)
    }

    #[inline(never)]
    fn slow<V: FromMicros>(
        &self,
        bytes: &[u8],
        span: Span,
        parse: impl Fn(&[u8], usize, usize) -> Option<V>,
    ) -> Slow<V> {
        if span.is_missing() || self.nulls.is_null(bytes, span) {
            return Slow::Null;
        }
        let text = self.unescape.text(bytes, span);
        let trimmed = text.trim_ascii();
        if trimmed.is_empty() {
            // Exports that quote everything write a missing number as `""`.
            return if span.is_quoted() { Slow::Null } else { Slow::Bad };
        }
        if let Some(value) = parse(trimmed, 0, trimmed.len()) {
            return Slow::Value(value);
        }
        let value = match self.kind {
            Kind::Date => time::date(trimmed, self.dates, self.exact).ok().and_then(|d| V::from_micros(d as i64)),
            Kind::Timestamp => time::timestamp(trimmed, self.dates).ok().and_then(V::from_micros),
            // Of a DATETIME, its time of day.
            Kind::Time => time::timestamp(trimmed, self.dates).ok().and_then(|t| V::from_micros(t.rem_euclid(DAY))),
            _ if self.kind.is_whole() && !self.exact => whole(trimmed).and_then(|text| parse(text, 0, text.len())),
            _ => None,
        };
        value.map_or(Slow::Bad, Slow::Value)
    }

    #[cold]
    fn report(&self, row: usize, bytes: &[u8], span: Span, cx: &mut Cx<'_>) {
        cx.bad.report(row, || {
            let text = self.unescape.text(bytes, span);
            let why = match self.kind {
                Kind::Date => time::date(text.trim_ascii(), self.dates, self.exact).err(),
                Kind::Timestamp => time::timestamp(text.trim_ascii(), self.dates).err(),
                _ => None,
            };
            let name = self.kind.name();
            match why {
                Some(why) => format!("is not {name} ({why})"),
                None => format!("is not {name}"),
            }
        });
    }

    fn booleans(&self, block: &TextBlock, spans: &[Span], cx: &mut Cx<'_>) -> ArrayRef {
        let bytes = block.bytes();
        let mut values = BooleanBufferBuilder::new(spans.len());
        let mut valid = BooleanBufferBuilder::new(spans.len());
        for (row, span) in spans.iter().enumerate() {
            let mut value = None;
            if !span.is_missing() && !self.nulls.is_null(bytes, *span) {
                let text = self.unescape.text(bytes, *span);
                value = boolean(text.trim_ascii());
                if value.is_none() && !(text.is_empty() && span.is_quoted()) {
                    self.report(row, bytes, *span, cx);
                }
            }
            values.append(value.unwrap_or(false));
            valid.append(value.is_some());
        }
        let nulls = NullBuffer::new(valid.finish());
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        Arc::new(BooleanArray::new(values.finish(), nulls))
    }

    fn strings(&self, block: &TextBlock, spans: &[Span], limit: Option<usize>, cx: &mut Cx<'_>) -> ArrayRef {
        let bytes = block.bytes();
        let mut nulls = self.nulls.bits(block, spans);
        let mut patches = Patches::default();
        if spans.iter().any(|s| s.is_escaped()) {
            for (row, span) in spans.iter().enumerate() {
                if span.is_escaped() && !span.is_missing() {
                    patches.push(row, |out| self.unescape.append(bytes, *span, out));
                }
            }
        }
        if let Some(limit) = limit {
            // A value has at least as many bytes as characters, so only long values are counted.
            let mut too_long = Vec::new();
            for (row, span) in spans.iter().enumerate() {
                if span.is_missing() || span.len() <= limit || nulls.as_ref().is_some_and(|n| n.is_null(row)) {
                    continue;
                }
                let text = self.unescape.text(bytes, *span);
                let chars = text.iter().filter(|b| (**b as i8) >= -0x40).count();
                if chars > limit {
                    cx.bad.report(row, || format!("has {chars} characters, the column takes {limit}"));
                    too_long.push(row);
                }
            }
            if !too_long.is_empty() {
                let mut valid: Vec<bool> = match &nulls {
                    Some(nulls) => nulls.iter().collect(),
                    None => vec![true; spans.len()],
                };
                too_long.iter().for_each(|row| valid[*row] = false);
                nulls = Some(NullBuffer::from(valid));
            }
        }
        Arc::new(utf8_views_patched(block, spans, nulls, &patches, cx))
    }

    /// Reads raw bytes, or hexadecimal digits behind `\x`.
    fn binary(&self, block: &TextBlock, spans: &[Span], cx: &mut Cx<'_>) -> ArrayRef {
        let bytes = block.bytes();
        let nulls = self.nulls.bits(block, spans);
        let plain = |s: &Span| s.is_missing() || !s.is_escaped() && !bytes[s.start()..s.end()].starts_with(b"\\x");
        if spans.iter().all(plain) {
            return Arc::new(binary_views(block, spans, nulls, cx));
        }
        let mut column = ViewColumn::with_capacity(spans.len());
        for (row, span) in spans.iter().enumerate() {
            if nulls.as_ref().is_some_and(|n| n.is_null(row)) {
                column.push_null();
                continue;
            }
            let text = self.unescape.text(bytes, *span);
            match text.strip_prefix(b"\\x") {
                None => column.push_bytes(&text),
                Some(digits) => match hex(digits) {
                    Some(value) => column.push_bytes(&value),
                    None => {
                        cx.bad.report(row, || "is not binary (after \\x come pairs of hexadecimal digits)".to_string());
                        column.push_null();
                    }
                },
            }
        }
        Arc::new(column.finish_binary())
    }

    /// Decodes the cells into a block of their own, from which the JSON-like text is read.
    fn nested(
        &self,
        nested: &nested::Nested,
        block: &TextBlock,
        spans: &[Span],
        cx: &mut Cx<'_>,
    ) -> Result<ArrayRef, TextError> {
        let bytes = block.bytes();
        let mut out = Vec::new();
        let mut cells = Vec::with_capacity(spans.len());
        for span in spans {
            if span.is_missing() || self.nulls.is_null(bytes, *span) || span.is_empty() && span.is_quoted() {
                cells.push(Span::MISSING);
                continue;
            }
            let start = out.len() as u32;
            self.unescape.append(bytes, *span, &mut out);
            cells.push(Span::new(start, out.len() as u32));
        }
        nested.column(out, &cells, cx)
    }
}

fn hex(digits: &[u8]) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |b: u8| (b as char).to_digit(16);
    digits.chunks_exact(2).map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8)).collect()
}

/// Makes NULL bits from words of 64 rows each.
fn words_to_nulls(words: Vec<u64>, rows: usize) -> NullBuffer {
    let words: Vec<u64> = words.into_iter().map(u64::to_le).collect();
    NullBuffer::new(arrow_buffer::BooleanBuffer::new(arrow_buffer::Buffer::from_vec(words), 0, rows))
}

/// Conversion from the values of the slower parsers of dates and times, for columns of these types.
trait FromMicros: Sized {
    fn from_micros(value: i64) -> Option<Self>;
}

macro_rules! from_micros {
    ($($t:ty: $make:expr),*) => {
        $(impl FromMicros for $t {
            fn from_micros(value: i64) -> Option<Self> {
                let make: fn(i64) -> Option<$t> = $make;
                make(value)
            }
        })*
    };
}
from_micros!(
    i64: Some, i32: |v| i32::try_from(v).ok(),
    i8: |_| None, i16: |_| None, u8: |_| None, u16: |_| None, u32: |_| None, u64: |_| None,
    f32: |_| None, f64: |_| None, i128: |_| None, i256: |_| None
);
