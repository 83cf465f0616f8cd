//! The arguments of a call as typed columns, and builders for the results.
//!
//! The conversions are MySQL's, limited like Doris limits them: text that is not a number or a date becomes NULL (MySQL
//! would take its numeric prefix), booleans are 1 and 0, and fractions round half away from zero when an integer is
//! wanted.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayAccessor, ArrayRef, AsArray, BinaryViewArray, BinaryViewBuilder, BooleanArray, BooleanBuilder,
    Date32Array, Float64Array, Int64Array, StringViewArray, StringViewBuilder, Time64MicrosecondArray,
    TimestampMicrosecondArray, new_null_array,
};
use arrow::buffer::NullBuffer;
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Date32Type, FieldRef, Float64Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType,
};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, exec_err, not_impl_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

use dipper_base::address::{self, is_address};
use dipper_base::types::SqlType;
use dipper_base::{clock, floats};

use super::bytes::is_bytes;
use super::datetime::parse::{datetime_from_digits, datetime_from_number, parse_datetime_in};
use super::datetime::zone::Zone;
use super::datetime::{format_date, format_datetime, split_micros};
use super::func::{DATETIME, JSON, VARIANT};
use super::growth::Growth;
use super::lost::LostValues;
use crate::charter::interval;
use crate::charter::text::{format_datetime_to, plain_decimal};
use crate::charter::{declared_type, digits_of, with_texts};
use crate::class::TIME;
use crate::metadata::TYPE_KEY;
use crate::type_text::{Sql, type_text};

/// A column of `rows` values, or one value for all rows.
pub struct Col<A> {
    /// The values; a single one if `one` is set.
    pub array: A,
    /// Whether the column is a constant.
    pub one: bool,
}

impl<A: Array> Col<A> {
    /// Returns the value of row `i`, `None` for NULL.
    #[inline]
    pub fn at<'a>(&'a self, i: usize) -> Option<<&'a A as ArrayAccessor>::Item>
    where
        &'a A: ArrayAccessor,
    {
        let i = if self.one { 0 } else { i };
        if self.array.is_null(i) { None } else { Some((&self.array).value(i)) }
    }
}

/// The arguments of one call.
pub struct Args<'a> {
    /// The function's name, for messages.
    pub name: &'static str,
    /// The number of rows that the result must have.
    pub rows: usize,
    /// The session's configuration.
    pub config: &'a ConfigOptions,
    /// The result type that was announced to the planner.
    pub ret: DataType,
    cols: Vec<(ArrayRef, bool)>,
    fields: &'a [FieldRef],
    growth: RefCell<Growth>,
}

/// Casts an array; values that do not fit become NULL.
pub fn lenient_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    Ok(cast_with_options(array, to, &CastOptions { safe: true, ..Default::default() })?)
}

impl<'a> Args<'a> {
    pub(super) fn try_new(name: &'static str, call: &'a ScalarFunctionArgs, rows: usize) -> Result<Self> {
        Self::of(name, call, rows, *call.return_field.data_type() == DataType::Utf8View)
    }

    /// Reads the arguments of a function that converts none of them to text, whatever its result is.
    pub(super) fn untold(name: &'static str, call: &'a ScalarFunctionArgs, rows: usize) -> Result<Self> {
        Self::of(name, call, rows, false)
    }

    fn of(name: &'static str, call: &'a ScalarFunctionArgs, rows: usize, makes_text: bool) -> Result<Self> {
        let mut cols = Vec::with_capacity(call.args.len());
        for (k, arg) in call.args.iter().enumerate() {
            let (array, one) = match arg {
                ColumnarValue::Array(a) => (Arc::clone(a), false),
                ColumnarValue::Scalar(s) => (s.to_array()?, true),
            };
            // Dictionaries are only for scans; functions see plain values.
            let array = match array.data_type() {
                DataType::Dictionary(_, value) => lenient_cast(&array, value)?,
                _ => array,
            };
            // In texts, each DATETIME of a struct has its own number of digits.
            let texts = match call.arg_fields.get(k).filter(|_| makes_text && array.data_type().is_nested()) {
                Some(field) => with_texts(&array, field)?,
                None => None,
            };
            cols.push((texts.unwrap_or(array), one));
        }
        Ok(Args {
            name,
            rows,
            config: &call.config_options,
            ret: call.return_field.data_type().clone(),
            cols,
            fields: &call.arg_fields,
            growth: RefCell::new(Growth::new(name, &call.config_options)),
        })
    }

    /// Returns the number of arguments.
    pub fn len(&self) -> usize {
        self.cols.len()
    }

    /// Whether there are no arguments.
    pub fn is_empty(&self) -> bool {
        self.cols.is_empty()
    }

    /// Whether argument `k` exists.
    pub fn has(&self, k: usize) -> bool {
        k < self.cols.len()
    }

    /// Returns the type of argument `k`.
    pub fn data_type(&self, k: usize) -> &DataType {
        self.cols[k].0.data_type()
    }

    /// Returns the digits after the second of the DATETIME or TIME values of argument `k`; `None` if a fraction is
    /// shown where there is one.
    pub fn digits(&self, k: usize) -> Option<u8> {
        self.fields.get(k).and_then(|field| digits_of(field))
    }

    /// Returns the SQL type of argument `k` where it says more than Arrow's type.
    pub fn declared(&self, k: usize) -> Option<SqlType> {
        self.fields.get(k).and_then(|field| declared_type(field))
    }

    /// Returns the value of a key in the field metadata of argument `k`.
    pub fn metadata(&self, k: usize, key: &str) -> Option<&str> {
        self.fields.get(k)?.metadata().get(key).map(String::as_str)
    }

    /// Returns the name of the SQL type of argument `k`.
    pub fn sql_type(&self, k: usize) -> String {
        self.fields.get(k).map_or_else(|| Sql(self.data_type(k)).to_string(), |field| type_text(field))
    }

    /// Whether argument `k` is of the SQL type JSON or VARIANT.
    pub fn is_json(&self, k: usize) -> bool {
        matches!(self.metadata(k, TYPE_KEY), Some(JSON | VARIANT))
    }

    /// Returns argument `k` unconverted; `one` says that it is a constant.
    pub fn raw(&self, k: usize) -> Col<ArrayRef> {
        Col { array: Arc::clone(&self.cols[k].0), one: self.cols[k].1 }
    }

    /// Returns argument `k` with one value per row.
    pub fn full(&self, k: usize) -> Result<ArrayRef> {
        let (array, one) = &self.cols[k];
        if !one || self.rows == 1 {
            return Ok(Arc::clone(array));
        }
        datafusion::common::ScalarValue::try_from_array(array, 0)?.to_array_of_size(self.rows)
    }

    /// Returns argument `k` as text.
    pub fn text(&self, k: usize) -> Result<Col<StringViewArray>> {
        let (array, one) = &self.cols[k];
        Ok(Col { array: to_text_of(self.name, array, self.digits(k))?, one: *one })
    }

    /// Returns argument `k` as bytes: those of its text, unless it is BINARY.
    pub fn bytes(&self, k: usize) -> Result<Col<BinaryViewArray>> {
        let (array, one) = &self.cols[k];
        let array = match array.data_type() {
            t if is_bytes(t) => lenient_cast(array, &DataType::BinaryView)?.as_binary_view().clone(),
            _ => to_text_of(self.name, array, self.digits(k))?.to_binary_view(),
        };
        Ok(Col { array, one: *one })
    }

    /// Builds a BINARY result; `f` returns the bytes of a row.
    pub fn binaries(&self, mut f: impl FnMut(usize) -> Option<Vec<u8>>) -> Result<ArrayRef> {
        let mut builder = BinaryViewBuilder::with_capacity(self.rows);
        for i in 0..self.rows {
            let value = f(i);
            self.made(value.as_ref().map_or(0, Vec::len))?;
            builder.append_option(value);
        }
        Ok(Arc::new(builder.finish()))
    }

    /// Returns argument `k` as a 64-bit integer.
    pub fn int(&self, k: usize) -> Result<Col<Int64Array>> {
        let (array, one) = &self.cols[k];
        Ok(Col { array: to_int(self.name, array)?, one: *one })
    }

    /// Returns argument `k` as a double.
    pub fn double(&self, k: usize) -> Result<Col<Float64Array>> {
        let (array, one) = &self.cols[k];
        Ok(Col { array: to_double(self.name, array)?, one: *one })
    }

    /// Returns argument `k` as a truth value: numbers are true unless they are 0.
    pub fn bool(&self, k: usize) -> Result<Col<BooleanArray>> {
        let (array, one) = &self.cols[k];
        let array = match array.data_type() {
            DataType::Boolean => array.as_boolean().clone(),
            _ => to_double(self.name, array)?.iter().map(|v| v.map(|v| v != 0.0)).collect(),
        };
        Ok(Col { array, one: *one })
    }

    /// Returns the session's time zone.
    pub fn session_zone(&self) -> Result<Zone> {
        Zone::of_session(self.config)
    }

    /// Returns argument `k` as DATETIME.
    pub fn datetime(&self, k: usize) -> Result<Col<TimestampMicrosecondArray>> {
        let (array, one) = &self.cols[k];
        let datetimes = to_datetime(self.name, array, self.session_zone()?)?;
        let of = || self.fields.get(k).map_or("", |field| field.name());
        LostValues::add_dates(self.config, || format!("{} {} {k}", of(), self.name), array, &datetimes);
        Ok(Col { array: datetimes, one: *one })
    }

    /// Asks for room for this many bytes before they are made. `None` if there is no room; the row may be left without
    /// a value, since [`made`](Self::made) fails for it.
    pub fn ask(&self, bytes: usize) -> Option<()> {
        self.growth.borrow_mut().ask(bytes)
    }

    /// Reports that this many bytes were made for a row.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no room for them; `Execution` if the statement has ended, so that nobody waits
    /// for it.
    pub fn made(&self, bytes: usize) -> Result<()> {
        self.growth.borrow_mut().add(bytes)
    }

    /// Builds a text result; `f` appends the row's text to the empty buffer and returns whether there is a value.
    pub fn texts(&self, mut f: impl FnMut(usize, &mut String) -> Option<()>) -> Result<ArrayRef> {
        let mut builder = StringViewBuilder::with_capacity(self.rows);
        let mut buffer = String::new();
        for i in 0..self.rows {
            buffer.clear();
            match f(i, &mut buffer) {
                Some(()) => builder.append_value(&buffer),
                None => builder.append_null(),
            }
            self.made(buffer.len())?;
        }
        Ok(Arc::new(builder.finish()))
    }

    /// Builds a text result whose values are parts of the texts of `from`: long ones are views of the same bytes.
    ///
    /// `f` returns the byte range within the row's text; it must lie on character boundaries.
    pub fn slices(
        &self,
        from: &Col<StringViewArray>,
        mut f: impl FnMut(usize, &str) -> Option<std::ops::Range<usize>>,
    ) -> Result<ArrayRef> {
        let mut builder = StringViewBuilder::with_capacity(self.rows);
        let base = from.array.data_buffers().iter().map(|b| builder.append_block(b.clone())).min().unwrap_or(0);
        for i in 0..self.rows {
            let part = from.at(i).and_then(|text| f(i, text).map(|range| (text, range)));
            let Some((text, range)) = part else {
                builder.append_null();
                continue;
            };
            let row = if from.one { 0 } else { i };
            // Up to 12 bytes live in the view itself, so only longer results can point into a block.
            if range.len() <= 12 {
                builder.append_value(&text[range]);
                continue;
            }
            let view = arrow::array::ByteView::from(from.array.views()[row]);
            builder.try_append_view(base + view.buffer_index, view.offset + range.start as u32, range.len() as u32)?;
        }
        Ok(Arc::new(builder.finish()))
    }

    /// Builds a BIGINT result.
    pub fn ints(&self, f: impl FnMut(usize) -> Option<i64>) -> Result<ArrayRef> {
        Ok(Arc::new((0..self.rows).map(f).collect::<Int64Array>()))
    }

    /// Builds a DOUBLE result; values that are not finite become NULL, as everywhere in MySQL.
    pub fn doubles(&self, mut f: impl FnMut(usize) -> Option<f64>) -> Result<ArrayRef> {
        Ok(Arc::new((0..self.rows).map(|i| f(i).filter(|v| v.is_finite())).collect::<Float64Array>()))
    }

    /// Builds a BOOLEAN result.
    pub fn bools(&self, mut f: impl FnMut(usize) -> Option<bool>) -> Result<ArrayRef> {
        let mut builder = BooleanBuilder::with_capacity(self.rows);
        for i in 0..self.rows {
            builder.append_option(f(i));
        }
        Ok(Arc::new(builder.finish()))
    }

    /// Builds a DATE result, in days since 1970-01-01.
    pub fn dates(&self, f: impl FnMut(usize) -> Option<i32>) -> Result<ArrayRef> {
        Ok(Arc::new((0..self.rows).map(f).collect::<Date32Array>()))
    }

    /// Builds a DATETIME result, in microseconds since 1970-01-01.
    pub fn datetimes(&self, f: impl FnMut(usize) -> Option<i64>) -> Result<ArrayRef> {
        Ok(Arc::new((0..self.rows).map(f).collect::<TimestampMicrosecondArray>()))
    }

    /// Builds a TIME result, in microseconds; spans that are too long become the longest.
    pub fn spans(&self, mut f: impl FnMut(usize) -> Option<i64>) -> Result<ArrayRef> {
        let spans = (0..self.rows).map(|i| f(i).map(clock::within));
        Ok(Arc::new(spans.collect::<Time64MicrosecondArray>()))
    }

    /// Builds a result of NULLs only, of the announced type.
    pub fn nulls(&self) -> ArrayRef {
        new_null_array(&self.ret, self.rows)
    }
}

/// Appends a double as casts print it; 0 has no sign.
pub fn write_double(out: &mut String, v: f64) {
    out.push_str(&floats::double(if v == 0.0 { 0.0 } else { v }));
}

/// Converts every value of a column to text.
pub fn to_text(name: &str, array: &ArrayRef) -> Result<StringViewArray> {
    to_text_of(name, array, None)
}

/// Converts every value of a column to text, DATETIME and TIME with `digits` digits of the second.
pub fn to_text_of(name: &str, array: &ArrayRef, digits: Option<u8>) -> Result<StringViewArray> {
    use DataType as T;
    Ok(match array.data_type() {
        T::Utf8View => array.as_string_view().clone(),
        T::Null => StringViewArray::new_null(array.len()),
        T::Boolean => {
            array.as_boolean().iter().map(|v| v.map(|v| if v { "1" } else { "0" })).collect::<StringViewArray>()
        }
        T::Float16 | T::Float32 | T::Float64 => {
            let mut builder = StringViewBuilder::with_capacity(array.len());
            let mut buffer = String::new();
            let single =
                (array.data_type() == &T::Float32).then(|| array.as_primitive::<arrow::datatypes::Float32Type>());
            let wide = lenient_cast(array, &T::Float64)?;
            for (i, v) in wide.as_primitive::<Float64Type>().iter().enumerate() {
                buffer.clear();
                match (v, single) {
                    (None, _) => builder.append_null(),
                    // Widening would print digits that the FLOAT never had.
                    (Some(_), Some(single)) => builder.append_value(floats::float(single.value(i))),
                    (Some(v), None) => {
                        write_double(&mut buffer, v);
                        builder.append_value(&buffer);
                    }
                }
            }
            builder.finish()
        }
        T::Interval(_) => interval::texts(array)?,
        T::Date32 => {
            let mut builder = StringViewBuilder::with_capacity(array.len());
            let mut buffer = String::new();
            for days in array.as_primitive::<Date32Type>().iter() {
                buffer.clear();
                match days {
                    Some(days) => {
                        format_date(&mut buffer, days.into());
                        builder.append_value(&buffer);
                    }
                    None => builder.append_null(),
                }
            }
            builder.finish()
        }
        T::Timestamp(..) if digits.is_some() => {
            let values = to_datetime(name, array, Zone::Fixed(0))?;
            values.iter().map(|v| v.map(|v| format_datetime_to(v, digits))).collect()
        }
        T::Timestamp(..) => {
            let values = to_datetime(name, array, Zone::Fixed(0))?;
            let mut builder = StringViewBuilder::with_capacity(array.len());
            let mut buffer = String::new();
            for v in values.iter() {
                buffer.clear();
                match v {
                    Some(v) => {
                        format_datetime(&mut buffer, v);
                        builder.append_value(&buffer);
                    }
                    None => builder.append_null(),
                }
            }
            builder.finish()
        }
        T::Time32(_) | T::Time64(_) => times(array)?.iter().map(|v| v.map(|v| clock::text(v, digits))).collect(),
        T::List(_) | T::LargeList(_) | T::FixedSizeList(..) | T::Map(..) | T::Struct(_) | T::Union(..) => {
            return exec_err!("{name}: expected text, found {}; take an element of it first", Sql(array.data_type()));
        }
        t if is_address(t) => array.as_fixed_size_binary().iter().map(|v| v.map(address::shown)).collect(),
        t if is_bytes(t) => {
            let texts = lenient_cast(array, &T::Utf8View)?.as_string_view().clone();
            if texts.null_count() > array.null_count() {
                return not_impl_err!(
                    "{name}: not supported for BINARY values that are no UTF-8 text; hex(value) and to_base64(value) are text"
                );
            }
            texts
        }
        _ => lenient_cast(array, &T::Utf8View)?.as_string_view().clone(),
    })
}

/// Returns the values of a TIME column in microseconds.
pub fn times(array: &ArrayRef) -> Result<Time64MicrosecondArray> {
    Ok(lenient_cast(array, &TIME)?.as_primitive::<Time64MicrosecondType>().clone())
}

/// Converts every value of a column to an integer.
pub fn to_int(name: &str, array: &ArrayRef) -> Result<Int64Array> {
    use DataType as T;
    Ok(match array.data_type() {
        T::Int64 => array.as_primitive::<Int64Type>().clone(),
        T::Float16 | T::Float32 | T::Float64 => {
            to_double(name, array)?.iter().map(|v| v.and_then(round_to_int)).collect()
        }
        T::Decimal32(p, _) | T::Decimal64(p, _) | T::Decimal128(p, _) if *p <= 38 => {
            // A cast truncates, so the fraction is rounded away first.
            let whole = lenient_cast(array, &T::Decimal128(38, 0))?;
            lenient_cast(&whole, &T::Int64)?.as_primitive::<Int64Type>().clone()
        }
        T::Utf8 | T::LargeUtf8 | T::Utf8View => {
            let text = to_text(name, array)?;
            text.iter()
                .map(|v| {
                    let v = v?.trim();
                    v.parse::<i64>().ok().or_else(|| v.parse::<f64>().ok().and_then(round_to_int))
                })
                .collect()
        }
        T::Date32 | T::Date64 | T::Timestamp(..) => {
            let day_only = !matches!(array.data_type(), T::Timestamp(..));
            to_datetime(name, array, Zone::Fixed(0))?
                .iter()
                .map(|v| {
                    let p = split_micros(v?);
                    let day = (p.year * 10_000 + p.month * 100 + p.day) as i64;
                    Some(if day_only {
                        day
                    } else {
                        day * 1_000_000 + (p.hour * 10_000 + p.minute * 100 + p.second) as i64
                    })
                })
                .collect()
        }
        T::Time32(_) | T::Time64(_) => times(array)?.unary(|v| clock::number(v) / 1_000_000),
        t if t.is_nested() => {
            return exec_err!("{name}: expected a number, found {}; take an element of it first", Sql(t));
        }
        t if is_bytes(t) => return no_number(name),
        _ => lenient_cast(array, &T::Int64)?.as_primitive::<Int64Type>().clone(),
    })
}

fn round_to_int(v: f64) -> Option<i64> {
    let r = v.round();
    // 2^63 itself is representable as a double but not as i64.
    (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&r).then_some(r as i64)
}

/// Converts every value of a column to a double.
pub fn to_double(name: &str, array: &ArrayRef) -> Result<Float64Array> {
    use DataType as T;
    Ok(match array.data_type() {
        T::Float64 => array.as_primitive::<Float64Type>().clone(),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => {
            to_text(name, array)?.iter().map(|v| v?.trim().parse::<f64>().ok().filter(|v| v.is_finite())).collect()
        }
        T::Date32 | T::Date64 | T::Timestamp(..) => to_int(name, array)?.iter().map(|v| v.map(|v| v as f64)).collect(),
        T::Time32(_) | T::Time64(_) => times(array)?.unary(|v| clock::number(v) as f64 / 1e6),
        t if t.is_nested() => {
            return exec_err!("{name}: expected a number, found {}; take an element of it first", Sql(t));
        }
        t if is_bytes(t) => return no_number(name),
        _ => lenient_cast(array, &T::Float64)?.as_primitive::<Float64Type>().clone(),
    })
}

/// Refuses BINARY as a number, as operators do.
fn no_number<T>(name: &str) -> Result<T> {
    not_impl_err!("{name}: BINARY is not supported as a number: CAST(x AS STRING) is text, which counts as one")
}

/// Converts every value of a column to DATETIME; text followed by a zone is moved to `session`.
pub fn to_datetime(name: &str, array: &ArrayRef, session: Zone) -> Result<TimestampMicrosecondArray> {
    use DataType as T;
    Ok(match array.data_type() {
        T::Timestamp(_, None) => lenient_cast(array, &DATETIME)?.as_primitive::<TimestampMicrosecondType>().clone(),
        T::Timestamp(unit, Some(_)) => {
            // Instants keep their UTC fields; DATETIME has no zone.
            let local = lenient_cast(array, &T::Timestamp(*unit, Some("+00:00".into())))?;
            let local = lenient_cast(&local, &T::Timestamp(*unit, None))?;
            lenient_cast(&local, &DATETIME)?.as_primitive::<TimestampMicrosecondType>().clone()
        }
        T::Date32 => array
            .as_primitive::<Date32Type>()
            .iter()
            .map(|v| v.map(|v| i64::from(v) * super::datetime::DAY_MICROS))
            .collect(),
        T::Date64 => lenient_cast(array, &DATETIME)?.as_primitive::<TimestampMicrosecondType>().clone(),
        T::Utf8 | T::LargeUtf8 | T::Utf8View => {
            to_text(name, array)?.iter().map(|v| parse_datetime_in(v?.as_bytes(), session)).collect()
        }
        // The planner makes a DATETIME of a TIME where it knows the day.
        T::Time32(_) | T::Time64(_) => TimestampMicrosecondArray::new_null(array.len()),
        t if t.is_nested() => {
            return exec_err!("{name}: expected a date, found {}; take an element of it first", Sql(t));
        }
        t if t.is_floating() || t.is_decimal() => {
            let texts = lenient_cast(array, &T::Utf8View)?;
            let point = |text: &str| datetime_from_digits(&plain_decimal(text)?);
            texts.as_string_view().iter().map(|text| point(text?)).collect()
        }
        _ => to_int(name, array)?.iter().map(|v| datetime_from_number(v?)).collect(),
    })
}

/// Replaces NULL by false in a condition: the rows that an aggregate's filter lets through.
pub(super) fn where_true(filter: &BooleanArray) -> BooleanArray {
    match filter.null_count() {
        0 => filter.clone(),
        _ => arrow::compute::prep_null_mask_filter(filter),
    }
}

/// Returns the rows that count for an aggregate: those with a value that its filter lets through; `None` if all do.
pub(crate) fn counted(nulls: Option<&NullBuffer>, filter: Option<&BooleanArray>) -> Option<NullBuffer> {
    let wanted = filter.map(|filter| NullBuffer::new(where_true(filter).values().clone()));
    NullBuffer::union(nulls, wanted.as_ref())
}
