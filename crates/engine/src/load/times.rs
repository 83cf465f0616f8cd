//! Dates and times with an offset behind them, where the load has another zone than UTC.
//!
//! The readers of text move such a time to UTC: they know of no zone. A load that has one reads the columns of these types
//! as text and makes values of them here: by the same readers, so that a zone changes nothing about what is a value, and
//! what has an offset is moved on from UTC to the zone, as a cast in an expression does.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Date32Array, RecordBatchOptions, TimestampMicrosecondArray};
use arrow::datatypes::{DataType, Date32Type, Field, FieldRef, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType};
use arrow::record_batch::RecordBatch;
use dipper_ingest::request::{Format, StreamLoadRequest};
use dipper_sql::functions::datetime::{DAY_MICROS, Zone, in_range};
use dipper_text::parse::{date_fixed, timestamp_fixed};
use dipper_text::{BadValues, CsvDialect, Cx, InvalidUtf8, Span, Strings, TextBlock, csv_converter};

use crate::error::{EngineError, ErrorKind, Result};
use crate::session::Session;

/// Type of a DATETIME.
const DATETIME: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Names of UTC in the tz database, without `Etc/`.
const UTC: &[&str] = &["UTC", "UCT", "GMT", "GMT0", "GMT+0", "GMT-0", "Greenwich", "Universal", "Zulu"];

/// How the text of a body's dates and times is read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    zone: Zone,
    /// An empty text is NULL. `""` is how exports that quote everything write a time that is not there, and behind a column
    /// of text nobody knows any more whether there were quotes.
    empty_is_null: bool,
}

impl Times {
    /// `None` where the readers of text do it by themselves: the session's zone is UTC, or no text is read.
    pub(super) fn of(session: &Session, request: &StreamLoadRequest) -> Option<Self> {
        Self::in_zone(&session.variables.time_zone(), request)
    }

    /// The same for a zone by its name.
    pub(super) fn in_zone(name: &str, request: &StreamLoadRequest) -> Option<Self> {
        // `SET time_zone` lets only names and offsets through.
        let zone = Zone::parse(name)?;
        let is_utc = match zone {
            Zone::Fixed(seconds) => seconds == 0,
            Zone::Named(name) => UTC.contains(&name.name().trim_start_matches("Etc/")),
        };
        let quotes = request.csv.enclose.is_some() || request.csv.trim_double_quotes;
        let empty_is_null = match request.format {
            Format::Csv { .. } => quotes,
            Format::Json | Format::HiveText => false,
            // Its times say themselves what they are; see `parquet`.
            Format::Parquet | Format::Arrow => return None,
        };
        (!is_utc).then_some(Times { zone, empty_is_null })
    }

    /// The type that a column of the body is to be read as, so that [`Self::read`] can make values of that type.
    pub(super) fn read_as(times: Option<Self>, data_type: DataType) -> DataType {
        let is_time = data_type == DataType::Date32 || data_type == DATETIME;
        if is_time && times.is_some() { DataType::Utf8View } else { data_type }
    }

    /// A schema with the types of [`Self::read_as`].
    pub(super) fn read_schema(times: Option<Self>, schema: &SchemaRef) -> SchemaRef {
        let read = |f: &FieldRef| {
            let data_type = Self::read_as(times, f.data_type().clone());
            // What else a field says is about values of its type.
            if data_type == *f.data_type() { Arc::clone(f) } else { Arc::new(Field::new(f.name(), data_type, true)) }
        };
        Arc::new(Schema::new(schema.fields().iter().map(read).collect::<Vec<_>>()))
    }

    /// A batch of [`Self::read_schema`] as one of the schema itself, with NULL where a text is no value.
    pub(super) fn read_batch(self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = (batch.columns().iter().zip(schema.fields()))
            .map(|(column, field)| match column.data_type() == field.data_type() {
                true => Ok(Arc::clone(column)),
                false => Ok(self.read(column, field)?.0),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }

    /// A column of text (`Utf8View`) as the field's type, DATE or DATETIME; and the rows whose text is none, which are
    /// NULL, with what completes the sentence `"<text>" ...`.
    pub(super) fn read(self, texts: &ArrayRef, field: &Field) -> Result<(ArrayRef, Vec<(usize, String)>)> {
        let texts = texts.as_string_view();
        let is_date = *field.data_type() == DataType::Date32;
        // Days or microseconds.
        let mut values: Vec<Option<i64>> = Vec::with_capacity(texts.len());
        let mut others: Vec<(usize, &str)> = Vec::new();
        for (row, text) in texts.iter().enumerate() {
            // Nearly all have the fixed shape, which has no room for an offset.
            let value = text.map(str::as_bytes).and_then(|bytes| match is_date {
                true => date_fixed(bytes, 0, bytes.len()).map(i64::from),
                false => timestamp_fixed(bytes, 0, bytes.len()),
            });
            values.push(value);
            if let (None, Some(text)) = (value, text) {
                others.push((row, text));
            }
        }
        let mut bad = Vec::new();
        if !others.is_empty() {
            let read = self.slow(&others, field, &mut bad)?;
            let moved = others.iter().enumerate().filter(|(at, (_, text))| read[*at].is_some() && has_offset(text));
            let moved: Vec<(usize, &str)> = moved.map(|(_, other)| *other).collect();
            for ((row, _), value) in others.iter().zip(read) {
                values[*row] = value;
            }
            // A DATE with an offset is the day of that moment in the zone, so that its time of day counts.
            let moments = self.slow(&moved, &Field::new(field.name(), DATETIME, true), &mut Vec::new())?;
            for ((row, _), utc) in moved.into_iter().zip(moments) {
                let local = utc.and_then(|utc| in_range(self.zone.to_local(utc)));
                if local.is_none() {
                    bad.push((row, "is outside of the years 0 to 9999 in the time zone of the load".to_string()));
                }
                values[row] = local.map(|at| if is_date { at.div_euclid(DAY_MICROS) } else { at });
            }
        }
        let array: ArrayRef = match is_date {
            // Days of the years that can be read.
            true => Arc::new(values.into_iter().map(|v| v.map(|days| days as i32)).collect::<Date32Array>()),
            false => Arc::new(values.into_iter().collect::<TimestampMicrosecondArray>()),
        };
        Ok((array, bad))
    }

    /// Rows of text by the reader of loads, as days or microseconds of UTC. What is no value is `None` and goes to `bad`.
    fn slow(self, rows: &[(usize, &str)], field: &Field, bad: &mut Vec<(usize, String)>) -> Result<Vec<Option<i64>>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let place = |at: usize| {
            // Spans have 30 bits.
            u32::try_from(at).ok().filter(|at| *at < 1 << 30).ok_or_else(|| {
                let text = format!("column {}: 1 GiB of text that is no date or time, in one batch", field.name());
                EngineError::new(ErrorKind::Resources, text)
            })
        };
        let mut bytes = Vec::new();
        let mut spans = Vec::with_capacity(rows.len());
        for (_, text) in rows {
            if text.is_empty() && self.empty_is_null {
                spans.push(Span::MISSING);
                continue;
            }
            let start = place(bytes.len())?;
            bytes.extend_from_slice(text.as_bytes());
            spans.push(Span::new(start, place(bytes.len())?));
        }
        let block = TextBlock::from_vec(bytes);
        let mut found = BadValues::new(true);
        let mut cx = Cx {
            strings: Strings::View,
            invalid_utf8: InvalidUtf8::Replace,
            batch: 0..block.bytes().len(),
            bad: &mut found,
        };
        let dialect = CsvDialect { quote: None, null_values: Vec::new(), ..CsvDialect::default() };
        let array = csv_converter(field, &dialect)?.convert(&block, &spans, &mut cx)?;
        bad.extend(found.entries().iter().map(|b| (rows[b.row].0, b.reason.clone())));
        Ok(match array.data_type() {
            DataType::Date32 => array.as_primitive::<Date32Type>().iter().map(|d| d.map(i64::from)).collect(),
            _ => array.as_primitive::<TimestampMicrosecondType>().iter().collect(),
        })
    }
}

/// Whether a text that reads as a date or time ends with `Z` or `+08:00`. Behind the blank or T that ends the date there
/// is nothing else with one of these bytes.
fn has_offset(text: &str) -> bool {
    let text = text.trim_ascii().as_bytes();
    let time = text.iter().position(|b| matches!(b, b' ' | b'T' | b't')).map_or(&[][..], |at| &text[at..]);
    time.iter().any(|b| matches!(b, b'+' | b'-' | b'Z' | b'z'))
}

#[cfg(test)]
mod tests {
    use arrow::array::StringViewArray;

    use super::*;

    fn read(
        texts: &[Option<&str>],
        data_type: DataType,
        empty_is_null: bool,
    ) -> (Vec<Option<i64>>, Vec<(usize, String)>) {
        let times = Times { zone: Zone::Fixed(8 * 3600), empty_is_null };
        let array: ArrayRef = Arc::new(texts.iter().copied().collect::<StringViewArray>());
        let (array, bad) = times.read(&array, &Field::new("c", data_type, true)).expect("read");
        let values = match array.data_type() {
            DataType::Date32 => array.as_primitive::<Date32Type>().iter().map(|d| d.map(i64::from)).collect(),
            _ => array.as_primitive::<TimestampMicrosecondType>().iter().map(|t| t.map(|t| t / 1_000_000)).collect(),
        };
        (values, bad)
    }

    #[test]
    fn only_what_has_an_offset_is_moved() {
        let texts = [
            Some("1970-01-01 10:00:00"),
            Some("1970-01-01 10:00:00+00:00"),
            Some(" 1970-1-1T22:00Z "),
            Some("1970-01-02 02:00:00 +0800"),
            Some("1970/01/02"),
            None,
            Some("1970-13-01"),
            Some(""),
        ];
        let hour = 3600;
        let (values, bad) = read(&texts, DATETIME, false);
        let expected = [10, 18, 30, 26, 24].map(|h| Some(h * hour));
        assert_eq!(values[..5], expected);
        assert_eq!(values[5..], [None, None, None]);
        assert_eq!(bad.iter().map(|b| b.0).collect::<Vec<_>>(), [6, 7]);
        assert_eq!(bad[0].1, "is not a DATETIME (month 13)");
        let (days, bad) = read(&texts, DataType::Date32, true);
        assert_eq!(days, [Some(0), Some(0), Some(1), Some(1), Some(1), None, None, None]);
        assert_eq!(bad.iter().map(|b| b.0).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn moments_beyond_the_calendar_are_no_values() {
        let (values, bad) = read(&[Some("9999-12-31 23:00:00Z")], DATETIME, false);
        assert_eq!((values, bad.len()), (vec![None], 1));
    }
}
