//! Columns whose values become those of the table after a Parquet file's reader has decoded them.
//!
//! The reader of files converts values where that keeps their order and loses none: its tests and the bounds of row
//! groups then hold for the table's values, too. All other values are decoded as the file has them, and converted
//! before anything looks at them: filters see the table's values.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef, Schema};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use dipper_iceberg::reshape::{self, Shape};
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_sql::charter::casts::FileCast;
use dipper_sql::functions::datetime::Zone;
use dipper_sql::type_text::type_text;
use dipper_store::segment::ZoneStats;

use super::bare;

/// A column that is read as it is in a file.
#[derive(Debug, Clone)]
pub struct Conversion {
    /// Its index among the files' columns.
    pub column: usize,
    /// How the table's value is made of the file's.
    pub how: How,
    /// The field of the table.
    pub to: FieldRef,
}

/// How values of a file become those of a table.
#[derive(Debug, Clone)]
pub enum How {
    /// By promotions of types, and fields of structs where the table has them.
    Promoted(Shape),
    /// As CAST makes them.
    Cast(Declared),
    /// Not at all, for the reason given: whoever reads the column gets an error, and other columns can be read.
    Never(String),
}

/// A cast of values to the type that a table declares.
#[derive(Debug, Clone)]
pub struct Declared {
    /// Gives lists, maps and structs the form of the table's.
    shape: Shape,
    /// The type that has this form.
    formed: FieldRef,
    cast: FileCast,
}

impl Conversion {
    /// Returns how a column of a file becomes that of a table; `None` if the reader of the file gives the table's
    /// values. `to` is the column as it was declared, with lengths of texts in the metadata of fields inside; the
    /// table's column has none of these. `session` is the zone of times that name a zone.
    pub fn declared(column: usize, from: &Field, to: &FieldRef, session: Option<Zone>) -> Option<Conversion> {
        let of_table = bare(to);
        let cast = FileCast::new(of_table.data_type().clone(), to, session);
        if !cast.has_limits() && reads_alike(from.data_type(), of_table.data_type()) {
            return None;
        }
        let formed = formed(from, &of_table).map(Arc::new);
        let how = formed.and_then(|formed| Ok((reshape::shape_by_name(from, &formed)?, formed)));
        let how = match how {
            Ok((shape, formed)) => How::Cast(Declared { shape, formed, cast }),
            Err(reason) => How::Never(reason),
        };
        Some(Conversion { column, how, to: of_table })
    }

    /// Returns the values of the table; `file` is named in errors.
    ///
    /// # Errors
    /// `File` if there is no conversion.
    pub(super) fn convert(&self, array: &ArrayRef, file: &str) -> Result<ArrayRef> {
        match &self.how {
            How::Promoted(shape) => Ok(reshape::reshape(array, shape, &self.to)?),
            How::Cast(Declared { shape, formed, cast }) => {
                let formed = reshape::reshape(array, shape, formed)?;
                if !cast.has_limits() && formed.data_type() == self.to.data_type() {
                    return Ok(formed);
                }
                cast.cast(&formed).map_err(|e| self.cannot(file, &e.to_string()))
            }
            How::Never(reason) => Err(self.cannot(file, reason)),
        }
    }

    fn cannot(&self, file: &str, reason: &str) -> EngineError {
        EngineError::new(ErrorKind::File, format!("'{file}', column {}: {reason}", self.to.name()))
    }

    /// Returns what bounds of the file's values say about the table's; `None` if nothing.
    pub(super) fn bounds(&self, of_file: impl FnOnce(&DataType) -> Option<ZoneStats>) -> Option<ZoneStats> {
        // Texts that are cut keep their order. Those of CHAR need not, because blanks at the end go.
        let How::Cast(declared) = &self.how else { return None };
        let characters = declared.cast.characters()?;
        if !is_text(declared.formed.data_type()) {
            return None;
        }
        let known = of_file(self.to.data_type())?;
        let cut = |bounds: &ArrayRef| FileCast::cut(bounds, characters).ok();
        Some(ZoneStats { min: cut(&known.min)?, max: cut(&known.max)?, ..known })
    }

    /// Returns whether a value of the table is NULL just where the file's is.
    pub fn keeps_nulls(&self) -> bool {
        match &self.how {
            How::Cast(Declared { formed, .. }) => is_text(formed.data_type()) && is_text(self.to.data_type()),
            How::Promoted(_) | How::Never(_) => false,
        }
    }
}

/// Returns a batch with some of its columns converted. `columns` are the indexes of the batch's columns among the
/// files' columns.
///
/// # Errors
/// The errors of [`Conversion::convert`].
pub(super) fn converted(
    batch: &RecordBatch,
    columns: &[usize],
    conversions: &[Conversion],
    file: &str,
) -> Result<RecordBatch> {
    assert_eq!(batch.num_columns(), columns.len(), "a batch has the columns that were asked for");
    let mut fields = batch.schema().fields().to_vec();
    let mut arrays = batch.columns().to_vec();
    for (at, column) in columns.iter().enumerate() {
        if let Some(conversion) = conversions.iter().find(|c| c.column == *column) {
            arrays[at] = conversion.convert(&arrays[at], file)?;
            fields[at] = Arc::new(conversion.to.as_ref().clone().with_nullable(true));
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)?)
}

fn is_text(t: &DataType) -> bool {
    matches!(t, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_bytes(t: &DataType) -> bool {
    matches!(t, DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_))
}

/// Returns whether the reader of files converts values of one type to another as CAST does, loses no value and keeps
/// their order.
fn reads_alike(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Decimal128, Decimal256, Dictionary, Interval, Null, Time32, Time64, Timestamp};
    match (from, to) {
        _ if from == to => true,
        (Null, _) => true,
        (Dictionary(_, value), _) => reads_alike(value, to),
        (from, to) if is_text(from) || is_bytes(from) => {
            is_text(to) || is_bytes(to) || matches!(to, Interval(_)) && is_bytes(from)
        }
        (from, to) if from.is_integer() && to.is_integer() => {
            // Bits without the sign.
            let bits = |t: &DataType| t.primitive_width().map(|w| w * 8 - usize::from(t.is_signed_integer()));
            bits(from) <= bits(to) && (to.is_signed_integer() || !from.is_signed_integer())
        }
        (from, to) if (from.is_integer() || from.is_floating()) && to.is_floating() => true,
        (from, Decimal128(p, s) | Decimal256(p, s)) => match whole_and_scale(from) {
            Some((whole, scale)) => scale <= *s && whole <= i16::from(*p) - i16::from(*s),
            None => false,
        },
        (Timestamp(..), Timestamp(..)) | (Date32, Timestamp(_, None)) => true,
        // The day of an instant in a zone of the file's own would be another one.
        (Timestamp(_, None), Date32) => true,
        (Time32(_) | Time64(_), Time32(_) | Time64(_)) => true,
        _ => false,
    }
}

/// Returns the most digits before the point, and those behind it, of an exact number's type.
fn whole_and_scale(t: &DataType) -> Option<(i16, i8)> {
    Some(match t {
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => (i16::from(*p) - i16::from(*s), *s),
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => (i16::from(*p) - i16::from(*s), *s),
        DataType::Int8 | DataType::UInt8 => (3, 0),
        DataType::Int16 | DataType::UInt16 => (5, 0),
        DataType::Int32 | DataType::UInt32 => (10, 0),
        DataType::Int64 => (19, 0),
        DataType::UInt64 => (20, 0),
        _ => return None,
    })
}

/// Returns `from` in the form of `to`: lists, maps and structs are those of the table, with its fields by name. Values
/// inside have the table's types where the reader of files would convert them, and else the file's.
///
/// # Errors
/// A text, if one of them is nested and the other is not, or is otherwise. Only text becomes nested values, and nested
/// values become text.
fn formed(from: &Field, to: &Field) -> std::result::Result<Field, String> {
    let inner = |from: &FieldRef, to: &FieldRef| formed(from, to).map(Arc::new);
    let data_type = match (from.data_type(), to.data_type()) {
        (DataType::Struct(have), DataType::Struct(want)) => {
            let part = |(want, place): (&FieldRef, Option<usize>)| match place {
                Some(at) => inner(&have[at], want),
                None => Ok(Arc::clone(want)),
            };
            let fields = want.iter().zip(reshape::places(have, want)).map(part);
            DataType::Struct(fields.collect::<std::result::Result<_, _>>()?)
        }
        (DataType::List(have) | DataType::LargeList(have) | DataType::FixedSizeList(have, _), DataType::List(want)) => {
            DataType::List(inner(have, want)?)
        }
        (DataType::Map(have, _), DataType::Map(want, sorted)) => match (have.data_type(), want.data_type()) {
            (DataType::Struct(h), DataType::Struct(w)) if h.len() == 2 && w.len() == 2 => {
                let pair = vec![inner(&h[0], &w[0])?, inner(&h[1], &w[1])?];
                let pairs = want.as_ref().clone().with_data_type(DataType::Struct(pair.into()));
                DataType::Map(Arc::new(pairs), *sorted)
            }
            _ => return Err(unlike(from, to)),
        },
        // Also the meaning of bytes: some are the text of UUIDs.
        (have, want) if !have.is_nested() && !want.is_nested() && reads_alike(have, want) => want.clone(),
        (have, want) if is_text(want) => with_lists(have),
        (have, want) if want.is_nested() && is_text(have) => have.clone(),
        (have, want) if want.is_nested() || have.is_nested() => return Err(unlike(from, to)),
        (have, _) => leaf(have),
    };
    Ok(to.clone().with_data_type(data_type))
}

/// Returns a type with one kind of list for all kinds that files have.
fn with_lists(t: &DataType) -> DataType {
    let inner = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(with_lists(field.data_type())));
    match t {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            DataType::List(inner(item))
        }
        DataType::Map(entries, sorted) => DataType::Map(inner(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(inner).collect()),
        other => leaf(other),
    }
}

/// Returns the type in which values that are not nested are cast: times of all units are those of SQL.
fn leaf(t: &DataType) -> DataType {
    match t {
        DataType::Timestamp(..) => DataType::Timestamp(arrow::datatypes::TimeUnit::Microsecond, None),
        other => other.clone(),
    }
}

fn unlike(from: &Field, to: &Field) -> String {
    format!("the file has {}, and the table {}, which no cast makes of it", type_text(from), type_text(to))
}
