//! Dates and times with an offset, for loads whose time zone is not UTC.
//!
//! The text readers move these times to UTC, because they know no time zone. A load with a time zone reads columns of
//! these types as text and converts them here. It uses the same readers, so the time zone does not change which texts
//! are values; times with an offset are then moved from UTC to the zone, as a cast in an expression does. The same
//! applies to values inside arrays, maps and structs.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Date32Array, ListArray, MapArray, RecordBatchOptions, StructArray,
    TimestampMicrosecondArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::compute::filter;
use arrow::datatypes::{DataType, Date32Type, Field, FieldRef, Schema, SchemaRef, TimeUnit, TimestampMicrosecondType};
use arrow::record_batch::RecordBatch;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_sql::functions::datetime::{DAY_MICROS, Zone, in_range};
use dipper_text::parse::{date_fixed, timestamp_fixed};
use dipper_text::{BadValues, CsvDialect, Cx, InvalidUtf8, Span, Strings, TextBlock, csv_converter};

/// Arrow type of a DATETIME.
const DATETIME: DataType = DataType::Timestamp(TimeUnit::Microsecond, None);

/// Names of UTC in the tz database, without `Etc/`.
const UTC: &[&str] = &["UTC", "UCT", "GMT", "GMT0", "GMT+0", "GMT-0", "Greenwich", "Universal", "Zulu"];

/// Settings for reading dates and times from text.
#[derive(Debug, Clone, Copy)]
pub struct Times {
    zone: Zone,
    /// Whether an empty text is NULL. `""` is how exports that quote everything write a missing time, and a column of
    /// text no longer tells whether there were quotes.
    empty_is_null: bool,
}

impl Times {
    /// Makes the settings for a time zone by its name. Returns `None` if the zone is UTC: then the text readers can do
    /// it alone. `empty_is_null`: whether an empty text is NULL, which a column of text cannot tell from `""`.
    pub fn in_zone(name: &str, empty_is_null: bool) -> Option<Self> {
        // `SET time_zone` accepts only valid names and offsets.
        let zone = Zone::parse(name)?;
        let is_utc = match zone {
            Zone::Fixed(seconds) => seconds == 0,
            Zone::Named(name) => UTC.contains(&name.name().trim_start_matches("Etc/")),
        };
        (!is_utc).then_some(Times { zone, empty_is_null })
    }

    /// Returns the type in which a column of the body must be read, so that [`Self::read`] can convert it to
    /// `data_type`.
    pub fn read_as(times: Option<Self>, data_type: DataType) -> DataType {
        if times.is_some() { as_text(data_type) } else { data_type }
    }

    /// Returns a schema with the types of [`Self::read_as`].
    pub fn read_schema(times: Option<Self>, schema: &SchemaRef) -> SchemaRef {
        let read = |f: &FieldRef| {
            let data_type = Self::read_as(times, f.data_type().clone());
            // The metadata of the field are about values of its own type.
            if data_type == *f.data_type() { Arc::clone(f) } else { Arc::new(Field::new(f.name(), data_type, true)) }
        };
        Arc::new(Schema::new(schema.fields().iter().map(read).collect::<Vec<_>>()))
    }

    /// Converts a batch of [`Self::read_schema`] to the schema itself, with NULL in place of texts that are not values.
    ///
    /// # Errors
    /// `Internal` if the column is none that was read as text.
    pub fn read_batch(self, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let columns = (batch.columns().iter().zip(schema.fields()))
            .map(|(column, field)| match column.data_type() == field.data_type() {
                true => Ok(Arc::clone(column)),
                false => Ok(self.read(column, field)?.0),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }

    /// Converts a column of [`Self::read_as`] to the type of the field. Returns the column, with NULL in place of texts
    /// that are not values, and the rows of these texts, each with the rest of the sentence `"<text>" ...`.
    ///
    /// # Errors
    /// `Internal` if the column is none that was read as text.
    pub fn read(self, column: &ArrayRef, field: &Field) -> Result<(ArrayRef, Bad)> {
        if column.data_type() == field.data_type() {
            return Ok((Arc::clone(column), Bad::new()));
        }
        match field.data_type() {
            DataType::List(item) => {
                let list = column.as_list::<i32>();
                let (values, bad) = self.within().part(list.values(), item)?;
                let array =
                    ListArray::try_new(Arc::clone(item), list.offsets().clone(), values, list.nulls().cloned())?;
                Ok((Arc::new(array), around(list.offsets(), bad)))
            }
            DataType::Map(entries, ordered) => {
                let DataType::Struct(fields) = entries.data_type() else { return Err(unreadable(field)) };
                let [key, value] = &fields[..] else { return Err(unreadable(field)) };
                let map = column.as_map();
                let (keys, mut bad) = self.within().part(map.keys(), key)?;
                let (values, more) = self.within().part(map.values(), value)?;
                bad.extend(more);
                let (offsets, keys, values) = with_keys(map.offsets(), keys, values)?;
                let items = StructArray::try_new(fields.clone(), vec![keys, values], None)?;
                let array = MapArray::try_new(Arc::clone(entries), offsets, items, map.nulls().cloned(), *ordered)?;
                Ok((Arc::new(array), around(map.offsets(), bad)))
            }
            DataType::Struct(fields) => {
                let parts = column.as_struct();
                let mut bad = Bad::new();
                let mut children = Vec::with_capacity(fields.len());
                for (part, field) in parts.columns().iter().zip(fields) {
                    let (child, more) = self.within().part(part, field)?;
                    children.push(child);
                    bad.extend(more);
                }
                let nulls = parts.nulls().cloned();
                let array = StructArray::try_new_with_length(fields.clone(), children, nulls, parts.len())?;
                Ok((Arc::new(array), bad))
            }
            _ => self.values(column, field),
        }
    }

    /// Settings for texts inside nested values, where an empty text is not a value of any type.
    fn within(self) -> Self {
        Times { empty_is_null: false, ..self }
    }

    /// Converts a part of nested values as [`Self::read`] does, and adds the text itself to the reasons.
    fn part(self, column: &ArrayRef, field: &Field) -> Result<(ArrayRef, Bad)> {
        let (array, mut bad) = self.read(column, field)?;
        if let Some(texts) = column.as_string_view_opt() {
            for (row, why) in &mut bad {
                *why = format!("has {:?}, which {why}", texts.value(*row));
            }
        }
        Ok((array, bad))
    }

    /// Converts a column of text (`Utf8View`) to DATE or DATETIME.
    fn values(self, texts: &ArrayRef, field: &Field) -> Result<(ArrayRef, Bad)> {
        let texts = texts.as_string_view_opt().ok_or_else(|| unreadable(field))?;
        let is_date = *field.data_type() == DataType::Date32;
        // Days or microseconds.
        let mut values: Vec<Option<i64>> = Vec::with_capacity(texts.len());
        let mut others: Vec<(usize, &str)> = Vec::new();
        for (row, text) in texts.iter().enumerate() {
            // Nearly all texts have the fixed form, which has no room for an offset.
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
            // A DATE with an offset is the day of that moment in the time zone, so its time of day counts.
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
            // The days of all years that can be read fit into `i32`.
            true => Arc::new(values.into_iter().map(|v| v.map(|days| days as i32)).collect::<Date32Array>()),
            false => Arc::new(values.into_iter().collect::<TimestampMicrosecondArray>()),
        };
        Ok((array, bad))
    }

    /// Converts texts by the reader of loads, to days or to microseconds of UTC. Texts that are not values become
    /// `None` and are added to `bad`.
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

/// Rows with a text that is not a value, and the reasons.
pub type Bad = Vec<(usize, String)>;

/// Replaces DATE and DATETIME in a type by text.
fn as_text(data_type: DataType) -> DataType {
    let part = |field: &FieldRef| -> FieldRef {
        let data_type = as_text(field.data_type().clone());
        match data_type == *field.data_type() {
            true => Arc::clone(field),
            // The metadata of the field are about values of its own type.
            false => Arc::new(Field::new(field.name(), data_type, field.is_nullable())),
        }
    };
    match data_type {
        DataType::Date32 => DataType::Utf8View,
        other if other == DATETIME => DataType::Utf8View,
        DataType::List(item) => DataType::List(part(&item)),
        DataType::Map(entries, ordered) => DataType::Map(part(&entries), ordered),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(part).collect()),
        other => other,
    }
}

fn unreadable(field: &Field) -> EngineError {
    EngineError::new(ErrorKind::Internal, format!("column {}: text was not read as text", field.name()))
}

/// Maps bad items to the rows that contain them; each row occurs once.
fn around(offsets: &OffsetBuffer<i32>, bad: Bad) -> Bad {
    let mut rows = Bad::new();
    for (item, why) in bad {
        let row = offsets.partition_point(|offset| *offset as usize <= item);
        // Items before the first row and after the last one are not used.
        if row > 0 && row < offsets.len() && !rows.iter().any(|(known, _)| *known == row - 1) {
            rows.push((row - 1, why));
        }
    }
    rows
}

/// Removes the entries of maps whose key is not a value.
fn with_keys(
    offsets: &OffsetBuffer<i32>,
    keys: ArrayRef,
    values: ArrayRef,
) -> Result<(OffsetBuffer<i32>, ArrayRef, ArrayRef)> {
    if keys.null_count() == 0 {
        return Ok((offsets.clone(), keys, values));
    }
    let used = offsets.first().map_or(0, |first| *first as usize)..offsets.last().map_or(0, |last| *last as usize);
    let keep: BooleanArray = (0..keys.len()).map(|at| Some(used.contains(&at) && keys.is_valid(at))).collect();
    let lengths = offsets.windows(2).map(|ends| (ends[0]..ends[1]).filter(|at| keys.is_valid(*at as usize)).count());
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok((offsets, filter(&keys, &keep)?, filter(&values, &keep)?))
}

/// Whether a text that is a date or time ends with an offset such as `Z` or `+08:00`. After the blank or T that ends
/// the date, these bytes occur only in an offset.
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

    /// Converts texts to columns of the type and shows each value as text, for a load with time zone and for one
    /// without.
    fn shown(texts: &[&str], data_type: &str, zone: i32) -> (Vec<String>, Vec<usize>) {
        let to = dipper_dialect::parser::parse_type(data_type).expect("a type").to_arrow();
        let times = (zone != 0).then_some(Times { zone: Zone::Fixed(zone), empty_is_null: false });
        let field = Field::new("c", Times::read_as(times, to.clone()), true);
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        for text in texts {
            let start = bytes.len() as u32;
            bytes.extend_from_slice(text.as_bytes());
            spans.push(Span::new(start, bytes.len() as u32));
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
        let array = csv_converter(&field, &dialect).unwrap().convert(&block, &spans, &mut cx).unwrap();
        let mut bad: Vec<usize> = found.entries().iter().map(|b| b.row).collect();
        let array = match times {
            Some(times) => {
                let (array, more) = times.read(&array, &Field::new("c", to, true)).unwrap();
                bad.extend(more.iter().map(|(row, _)| *row));
                array
            }
            None => array,
        };
        bad.sort_unstable();
        bad.dedup();
        let show = |row| arrow::util::display::array_value_to_string(&array, row).unwrap();
        ((0..array.len()).map(show).collect(), bad)
    }

    #[test]
    fn what_lies_inside_of_values_is_moved_as_well() {
        let texts = [
            r#"["1970-01-01 10:00:00", "1970-01-01 10:00:00+00:00", null]"#,
            "[1970-01-01T22:00Z]",
            "[]",
            "no list",
            r#"["1970-13-01"]"#,
            r#"["", 1]"#,
        ];
        let (values, bad) = shown(&texts, "array<datetime>", 8 * 3600);
        assert_eq!(values[0], "[1970-01-01T10:00:00, 1970-01-01T18:00:00, ]");
        assert_eq!(values[1], "[1970-01-02T06:00:00]");
        assert_eq!(bad, [3, 4, 5]);
        for (data_type, texts) in [
            ("array<date>", &["[2024-01-01]", "[2024-01-01 23:00:00Z, 7]"][..]),
            ("array<array<datetime>>", &["[[2024-01-01T00:00:00Z], null, []]"]),
            ("map<datetime,date>", &[r#"{"2024-01-01 00:00:00Z": "2024-01-01 20:00:00Z", "x": "2024-01-02"}"#, "{}"]),
            ("struct<a:int,b:array<datetime>>", &[r#"{"a": 1, "b": ["2024-01-01 00:00:00+01:00"]}"#, "{a: x, b: [x]}"]),
        ] {
            let (in_utc, bad_in_utc) = shown(texts, data_type, 0);
            let (values, bad) = shown(texts, data_type, 9 * 3600);
            assert_eq!(bad, bad_in_utc, "{data_type}");
            assert_eq!(values.len(), in_utc.len());
            assert_ne!(values, in_utc, "{data_type}: something has an offset");
        }
        // Without an offset, a time zone changes neither the values nor which texts are values.
        let plain = ["[2024-01-01 01:02:03.5, 20240101, '2024-1-2', \"\", null, nonsense]", "[]", "[[1]]"];
        assert_eq!(shown(&plain, "array<datetime>", 3600), shown(&plain, "array<datetime>", 0));
    }

    #[test]
    fn moments_beyond_the_calendar_are_no_values() {
        let (values, bad) = read(&[Some("9999-12-31 23:00:00Z")], DATETIME, false);
        assert_eq!((values, bad.len()), (vec![None], 1));
    }
}
