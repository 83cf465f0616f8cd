//! Shapes of rows, and the conversion of stored rows into them.

use std::sync::Arc;

use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time64MicrosecondType, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, PrimitiveArray,
    StringViewArray,
};
use arrow_buffer::{BooleanBufferBuilder, i256};
use arrow_schema::DataType;
use dipper_base::address::{self, is_address};
use dipper_base::calendar::days_from_civil;
use dipper_base::types::SqlType;
use dipper_store::segment::row::{NotARow, RowLayout, RowWriter, bitmap_len, text};
use dipper_store::segment::{ObjectReader, Scan, added_default};
use dipper_store::table::schema::TableSchema;

use crate::{PointError, Result};

/// The columns of rows, under one version of a table's definition.
#[derive(Debug)]
pub struct Shape {
    pub(crate) id: u32,
    schema: Arc<TableSchema>,
    /// Indexes into the schema's columns.
    columns: Vec<usize>,
    layout: RowLayout,
    /// Values for rows that were written before the column was added; `None` is NULL.
    defaults: Vec<Option<Box<[u8]>>>,
}

fn a_row_of(columns: &[ArrayRef]) -> Result<Vec<u8>, NotARow> {
    let mut row = Vec::new();
    RowWriter::try_new(columns.iter()).ok_or(NotARow)?.write(0, &mut row);
    Ok(row)
}

impl Shape {
    /// Creates the shape; `None` if rows cannot hold the type of a column, because it is nested.
    pub(crate) fn try_new(id: u32, schema: &Arc<TableSchema>, columns: Vec<usize>) -> Result<Option<Self>> {
        let Ok(layout) = RowLayout::try_new(columns.iter().map(|c| &schema.columns[*c].data_type)) else {
            return Ok(None);
        };
        let mut defaults = Vec::with_capacity(columns.len());
        for c in &columns {
            let value = added_default(&schema.columns[*c])?;
            let Ok(row) = a_row_of(std::slice::from_ref(&value)) else { return Ok(None) };
            defaults.push(value.is_valid(0).then(|| row[bitmap_len(1)..].into()));
        }
        Ok(Some(Shape { id, schema: Arc::clone(schema), columns, layout, defaults }))
    }

    /// Returns the definition to which the shape belongs.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Returns its columns, as indexes into [`schema`](Self::schema).
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Iterates over the values in a [`Row`](crate::Row)'s bytes, in the order of columns; `None` is NULL.
    pub fn values<'a>(&'a self, row: &'a [u8]) -> impl Iterator<Item = Result<Option<&'a [u8]>, NotARow>> + 'a {
        self.layout.values(row.get(1..).unwrap_or_default())
    }
}

#[derive(Debug)]
enum Source {
    /// Index in the stored row.
    Stored(usize),
    /// Index in the stored row of an integer that was stored with fewer bytes, and its present size in bytes.
    Widened(usize, usize),
    Default,
    /// Index among the columns that come from pages.
    Pages(usize),
}

/// Conversion of a segment's rows into a shape.
#[derive(Debug)]
pub(crate) struct RowMap {
    pub shape: u32,
    /// Layout of the stored rows.
    layout: RowLayout,
    sources: Vec<Source>,
    /// Columns that come from pages, as indexes into the schema, and their layout.
    pages: Vec<usize>,
    pages_layout: RowLayout,
    /// Whether stored rows are needed.
    pub stored: bool,
    /// Whether a stored row is the shape's row without changes.
    same: bool,
}

/// Returns a SQL type whose values have the same size in rows as those of the Arrow type.
fn size_of(t: &DataType) -> SqlType {
    match t {
        DataType::Boolean => SqlType::Boolean,
        DataType::Int8 => SqlType::TinyInt,
        DataType::Int16 => SqlType::SmallInt,
        DataType::Int32 => SqlType::Int,
        DataType::Float32 => SqlType::Float,
        DataType::Int64 | DataType::UInt64 => SqlType::BigInt,
        DataType::Float64 => SqlType::Double,
        DataType::Date32 | DataType::Timestamp(..) | DataType::Time64(_) => SqlType::Date,
        _ => SqlType::String,
    }
}

fn int_bytes(t: &DataType) -> Option<usize> {
    match t {
        DataType::Int8 => Some(1),
        DataType::Int16 => Some(2),
        DataType::Int32 => Some(4),
        DataType::Int64 => Some(8),
        _ => None,
    }
}

impl RowMap {
    pub fn new(shape: &Shape, reader: &ObjectReader, ordinal: u32) -> Result<Self> {
        let row_columns = reader.row_columns(ordinal).unwrap_or_default();
        let stored: Option<Vec<_>> = row_columns.iter().map(|id| reader.column_type(*id)).collect();
        let not_a_row = |source| row_error(reader, ordinal, 0, source);
        let stored = stored.ok_or_else(|| not_a_row(NotARow))?;
        let mut pages = Vec::new();
        let sources: Vec<Source> = (shape.columns.iter())
            .map(|c| {
                let column = &shape.schema.columns[*c];
                let Some(held) = reader.column_type(column.id) else { return Source::Default };
                let wanted = column.data_type.to_arrow();
                if let Some(at) = row_columns.iter().position(|id| *id == column.id) {
                    match (held, &wanted) {
                        _ if *held == wanted => return Source::Stored(at),
                        // The text of a decimal does not depend on its precision.
                        (
                            DataType::Decimal128(_, a) | DataType::Decimal256(_, a),
                            DataType::Decimal128(_, b) | DataType::Decimal256(_, b),
                        ) if a == b => return Source::Stored(at),
                        _ => {}
                    }
                    if let (Some(from), Some(to)) = (int_bytes(held), int_bytes(&wanted))
                        && from < to
                    {
                        return Source::Widened(at, to);
                    }
                }
                pages.push(*c);
                Source::Pages(pages.len() - 1)
            })
            .collect();
        let same = stored.len() == sources.len()
            && sources.iter().enumerate().all(|(i, s)| matches!(s, Source::Stored(at) if *at == i));
        let layout = |types: Vec<SqlType>| RowLayout::try_new(&types).map_err(not_a_row);
        Ok(RowMap {
            shape: shape.id,
            layout: layout(stored.into_iter().map(size_of).collect())?,
            stored: sources.iter().any(|s| matches!(s, Source::Stored(_) | Source::Widened(..))),
            same,
            sources,
            pages_layout: layout(pages.iter().map(|c| shape.schema.columns[*c].data_type.clone()).collect())?,
            pages,
        })
    }

    /// Whether some columns have to be read from pages.
    pub fn needs_pages(&self) -> bool {
        !self.pages.is_empty()
    }

    /// Reads the row of the columns that come from pages.
    pub async fn pages(&self, shape: &Shape, reader: &ObjectReader, ordinal: u32, row: u32) -> Result<Vec<u8>> {
        if self.pages.is_empty() {
            return Ok(vec![0; bitmap_len(0)]);
        }
        let groups = reader.segment_groups(ordinal);
        let group = groups.clone().rev().find(|g| reader.group_segment(*g).1 <= row);
        let not_a_row = || row_error(reader, ordinal, row, NotARow);
        let group = group.ok_or_else(not_a_row)?;
        let (at, rows) = ((row - reader.group_segment(group).1) as usize, reader.group_rows(group));
        let mut mask = BooleanBufferBuilder::new(rows);
        mask.append_n(rows, false);
        if at >= rows {
            return Err(not_a_row());
        }
        mask.set_bit(at, true);
        let mask = mask.finish();
        let scan = Scan { rows: Some(&mask), ..Scan::new(&shape.schema, &self.pages) };
        for batch in reader.scan_group(group, &scan, None).await? {
            let batch = batch?;
            if batch.num_rows() == 1 {
                return a_row_of(batch.columns()).map_err(|source| row_error(reader, ordinal, row, source));
            }
        }
        Err(not_a_row())
    }

    /// Appends the row in the shape to `out`.
    pub fn put(&self, shape: &Shape, stored: &[u8], pages: &[u8], out: &mut Vec<u8>) -> Result<(), NotARow> {
        if self.same {
            self.layout.values(stored).try_for_each(|value| value.map(|_| ()))?;
            out.push(0);
            out.extend_from_slice(stored);
            return Ok(());
        }
        let stored: Vec<Option<&[u8]>> =
            if self.stored { self.layout.values(stored).collect::<Result<_, _>>()? } else { Vec::new() };
        let pages: Vec<Option<&[u8]>> = match self.pages.is_empty() {
            true => Vec::new(),
            false => self.pages_layout.values(pages).collect::<Result<_, _>>()?,
        };
        out.push(0);
        let bitmap = out.len();
        out.resize(bitmap + bitmap_len(self.sources.len()), 0);
        for (i, source) in self.sources.iter().enumerate() {
            let value = match source {
                Source::Stored(at) | Source::Widened(at, _) => *stored.get(*at).ok_or(NotARow)?,
                Source::Default => shape.defaults[i].as_deref(),
                Source::Pages(at) => *pages.get(*at).ok_or(NotARow)?,
            };
            match (value, source) {
                (None, _) => out[bitmap + (i + 2) / 8] |= 1 << ((i + 2) % 8),
                (Some(value), Source::Widened(_, bytes)) => {
                    let sign = if value.last().is_some_and(|b| b & 0x80 != 0) { 0xff } else { 0 };
                    out.extend_from_slice(value);
                    out.resize(out.len() + bytes - value.len(), sign);
                }
                (Some(value), _) => out.extend_from_slice(value),
            }
        }
        Ok(())
    }
}

pub(crate) fn row_error(reader: &ObjectReader, ordinal: u32, row: u32, source: NotARow) -> PointError {
    PointError::Row { object: reader.path().to_string(), ordinal, row, source }
}

/// Some of a shape's columns, in any order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Projection {
    /// All columns, in order.
    All,
    /// The columns at these indexes of the shape.
    Some(Vec<usize>),
    /// The columns at these indexes, in the order of the shape, each once.
    Ascending(Vec<usize>),
}

impl Projection {
    /// Creates the projection for the columns of a result; all columns in order need no work.
    pub fn new(shape: &Shape, places: Vec<usize>) -> Self {
        if places.iter().copied().eq(0..shape.columns.len()) {
            return Projection::All;
        }
        match places.is_sorted_by(|a, b| a < b) {
            true => Projection::Ascending(places),
            false => Projection::Some(places),
        }
    }

    /// Returns the indexes; `None` for all columns.
    pub fn places(&self) -> Option<&[usize]> {
        match self {
            Projection::All => None,
            Projection::Some(places) | Projection::Ascending(places) => Some(places),
        }
    }

    /// Appends the binary row of the projected columns.
    ///
    /// # Errors
    /// [`NotARow`] if the bytes are no row of the shape.
    pub fn put(&self, shape: &Shape, row: &[u8], out: &mut Vec<u8>) -> Result<(), NotARow> {
        let Some(places) = self.places() else {
            out.extend_from_slice(row);
            return Ok(());
        };
        out.push(0);
        let bitmap = out.len();
        out.resize(bitmap + bitmap_len(places.len()), 0);
        let mut put = |i: usize, value: Option<&[u8]>| match value {
            None => out[bitmap + (i + 2) / 8] |= 1 << ((i + 2) % 8),
            Some(value) => out.extend_from_slice(value),
        };
        // Usually a few columns of a narrow row are wanted: bytes behind the last one are not parsed.
        if let Projection::Ascending(_) = self {
            let mut values = shape.values(row);
            let mut next = 0;
            for (i, place) in places.iter().enumerate() {
                put(i, values.nth(place - next).ok_or(NotARow)??);
                next = place + 1;
            }
            return Ok(());
        }
        let last = places.iter().max().map_or(0, |last| last + 1);
        let values = shape.values(row).take(last).collect::<Result<Vec<_>, _>>()?;
        for (i, place) in places.iter().enumerate() {
            put(i, *values.get(*place).ok_or(NotARow)?);
        }
        Ok(())
    }
}

/// Returns the columns of rows of a shape, as arrays of their types.
///
/// # Errors
/// [`NotARow`] if the bytes of a row are no row of the shape.
pub fn arrays<'a>(shape: &Shape, rows: impl Iterator<Item = &'a [u8]>) -> Result<Vec<ArrayRef>, NotARow> {
    let mut columns: Vec<Vec<Option<&[u8]>>> = vec![Vec::new(); shape.columns.len()];
    for row in rows {
        // Values borrow from the row, not from the iterator.
        let values: Vec<_> = shape.layout.values(row.get(1..).ok_or(NotARow)?).collect::<Result<_, _>>()?;
        if values.len() != columns.len() {
            return Err(NotARow);
        }
        columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }
    (shape.columns.iter().zip(columns)).map(|(c, values)| array(&shape.schema.columns[*c].data_type, &values)).collect()
}

fn array(t: &SqlType, values: &[Option<&[u8]>]) -> Result<ArrayRef, NotARow> {
    fn each<'a, V>(
        values: &[Option<&'a [u8]>],
        read: impl Fn(&'a [u8]) -> Option<V>,
    ) -> Result<Vec<Option<V>>, NotARow> {
        values.iter().map(|v| v.map(|v| read(v).ok_or(NotARow)).transpose()).collect()
    }
    fn primitive<T: ArrowPrimitiveType>(
        t: &SqlType,
        values: &[Option<&[u8]>],
        read: impl Fn(&[u8]) -> Option<T::Native>,
    ) -> Result<ArrayRef, NotARow> {
        let array: PrimitiveArray<T> = each(values, read)?.into_iter().collect();
        Ok(Arc::new(array.with_data_type(t.to_arrow())))
    }
    fn bytes<const N: usize>(v: &[u8]) -> Option<[u8; N]> {
        v.try_into().ok()
    }
    Ok(match t.to_arrow() {
        DataType::Boolean => {
            let values = each(values, |v| bytes(v).map(|[b]| b != 0))?;
            Arc::new(BooleanArray::from(values))
        }
        DataType::Int8 => primitive::<Int8Type>(t, values, |v| bytes(v).map(i8::from_le_bytes))?,
        DataType::Int16 => primitive::<Int16Type>(t, values, |v| bytes(v).map(i16::from_le_bytes))?,
        DataType::Int32 => primitive::<Int32Type>(t, values, |v| bytes(v).map(i32::from_le_bytes))?,
        DataType::Int64 => primitive::<Int64Type>(t, values, |v| bytes(v).map(i64::from_le_bytes))?,
        DataType::UInt64 => primitive::<UInt64Type>(t, values, |v| bytes(v).map(u64::from_le_bytes))?,
        DataType::Float32 => primitive::<Float32Type>(t, values, |v| bytes(v).map(f32::from_le_bytes))?,
        DataType::Float64 => primitive::<Float64Type>(t, values, |v| bytes(v).map(f64::from_le_bytes))?,
        DataType::Date32 => primitive::<Date32Type>(t, values, |v| i32::try_from(micros(v)? / DAY).ok())?,
        DataType::Timestamp(..) => primitive::<TimestampMicrosecondType>(t, values, micros)?,
        DataType::Time64(_) => primitive::<Time64MicrosecondType>(t, values, time)?,
        DataType::Decimal128(..) => primitive::<Decimal128Type>(t, values, |v| digits(v)?.parse().ok())?,
        DataType::Decimal256(..) => primitive::<Decimal256Type>(t, values, |v| i256::from_string(&digits(v)?))?,
        DataType::Utf8View => {
            let texts = each(values, |v| std::str::from_utf8(text(v).ok()?).ok())?;
            Arc::new(StringViewArray::from_iter(texts))
        }
        DataType::BinaryView => {
            let texts = each(values, |v| text(v).ok())?;
            Arc::new(BinaryViewArray::from_iter(texts))
        }
        t if is_address(&t) => {
            let read = |v| address::parse(std::str::from_utf8(text(v).ok()?).ok()?, &t);
            let addresses = each(values, read)?.into_iter();
            let width = if t == address::IPV4 { address::V4_BYTES } else { address::V6_BYTES };
            let array = FixedSizeBinaryArray::try_from_sparse_iter_with_size(addresses, width as i32);
            Arc::new(array.map_err(|_| NotARow)?)
        }
        _ => return Err(NotARow),
    })
}

const DAY: i64 = 86_400_000_000;

/// Returns microseconds since 1970 of a date or datetime in the protocol's form.
fn micros(value: &[u8]) -> Option<i64> {
    let (&len, rest) = value.split_first()?;
    if usize::from(len) != rest.len() || !matches!(len, 4 | 7 | 11) {
        return None;
    }
    let year = u16::from_le_bytes([rest[0], rest[1]]);
    let days = days_from_civil(year.into(), rest[2].into(), rest[3].into());
    let clock = match rest.get(4..7) {
        Some(c) => (i64::from(c[0]) * 60 + i64::from(c[1])) * 60 + i64::from(c[2]),
        None => 0,
    };
    let fraction = rest.get(7..11).map_or(0, |f| u32::from_le_bytes([f[0], f[1], f[2], f[3]]));
    Some(days * DAY + clock * 1_000_000 + i64::from(fraction))
}

/// Returns microseconds of a time in the protocol's form.
fn time(value: &[u8]) -> Option<i64> {
    let (&len, rest) = value.split_first()?;
    if usize::from(len) != rest.len() || !matches!(len, 0 | 8 | 12) {
        return None;
    }
    let Some(clock) = rest.get(..8) else { return Some(0) };
    let days = u32::from_le_bytes([clock[1], clock[2], clock[3], clock[4]]);
    let hours = i64::from(days) * 24 + i64::from(clock[5]);
    let fraction = rest.get(8..12).map_or(0, |f| u32::from_le_bytes([f[0], f[1], f[2], f[3]]));
    let size = ((hours * 60 + i64::from(clock[6])) * 60 + i64::from(clock[7])) * 1_000_000 + i64::from(fraction);
    Some(if clock[0] != 0 { -size } else { size })
}

/// Returns the digits of a decimal without its point: the unscaled value.
fn digits(value: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(text(value).ok()?).ok()?;
    Some(text.replace('.', ""))
}
