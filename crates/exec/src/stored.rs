//! The columns that a statement fills: how many, which ones, and the conversion of values to their types.

use std::sync::Arc;
use std::{fmt, slice};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::exec_err;
use dipper_base::types::SqlType;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_sql::charter::casts::{cast_values_in, json_inside, json_values, loses_fields, texts_of};
use dipper_sql::charter::{DIGITS_KEY, TYPE_KEY, apart, datetime, declared_type};
use dipper_sql::functions::datetime::Zone;
use dipper_sql::functions::{JSON, LostValues, is_bytes};
use dipper_store::table::schema::TableColumn;
use dipper_text::{BadValues, CsvDialect, Cx, InvalidUtf8, Span, Strings, TextBlock, csv_converter};

/// Converts an array to the type of a column. A value that does not fit is an error, or with `lost` becomes NULL and is
/// counted. Values that keep types of their own ([`apart::parts`]) are converted each by its type. `session` is the zone
/// to which times with a zone are moved.
///
/// # Errors
/// `BadValue` if a value does not fit; the errors of [`stored`].
pub fn cast(array: &ArrayRef, field: &Field, lost: Option<&LostValues>, session: Option<Zone>) -> Result<ArrayRef> {
    let parts = apart::parts(array).unwrap_or(slice::from_ref(array));
    let mut converted = Vec::with_capacity(parts.len());
    let mut first: Option<(usize, &ArrayRef)> = None;
    for part in parts {
        if loses_fields(part.data_type(), field.data_type()) {
            let given = sql_type(&Field::new("", part.data_type().clone(), true));
            return Err(EngineError::invalid(format!(
                "column {}: a value of type {given} has fields that {} lacks",
                field.name(),
                sql_type(field)
            )));
        }
        let (stored, misfits) = stored(part, field, session)?;
        match (lost, misfits.first()) {
            (_, None) => {}
            (None, Some(row)) if first.is_none_or(|(least, _)| *row < least) => first = Some((*row, part)),
            (None, Some(_)) => {}
            (Some(lost), Some(_)) => {
                let rows = UInt64Array::from_iter_values(misfits.iter().map(|row| *row as u64));
                let values = arrow::compute::take(part, &rows, None)?;
                lost.add(format!("column {}", field.name()), &values, |value| incorrect(field, value));
            }
        }
        converted.push(stored);
    }
    if let Some((row, part)) = first {
        let is_time = matches!(part.data_type(), DataType::Time32(_) | DataType::Time64(_));
        if is_time && matches!(field.data_type(), DataType::Timestamp(..) | DataType::Date32) {
            let given = texts_of(part, None)?;
            let given = arrow::util::display::array_value_to_string(&given, row).unwrap_or_default();
            let what =
                format!("{}: a TIME has no day; CAST(.. AS DATETIME) gives it today's", incorrect(field, &given));
            return Err(EngineError::of(ErrorKind::BadValue, Misfit { what }));
        }
        return Err(misfit(field, &arrow::util::display::array_value_to_string(part, row).unwrap_or_default()));
    }
    if let [only] = converted.as_slice() {
        return Ok(Arc::clone(only));
    }
    // Each row has a value in one part at most.
    let nulls: Vec<_> = parts.iter().map(|part| part.logical_nulls()).collect();
    let has = |part: &Option<NullBuffer>, row: usize| part.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let places: Vec<(usize, usize)> =
        (0..array.len()).map(|row| (nulls.iter().position(|part| has(part, row)).unwrap_or(0), row)).collect();
    let converted: Vec<&dyn Array> = converted.iter().map(|part| part.as_ref()).collect();
    Ok(arrow::compute::interleave(&converted, &places)?)
}

/// Converts an array to the type of a column by the charter's casts. Returns the array, with NULL where a value does
/// not fit, and the rows of those values. Everything that is stored and was not read in the column's type goes through
/// this conversion. Dates outside of the years 0 to 9999, which files of others may have, do not fit. `session` is the
/// zone to which times with a zone are moved; without it such times do not fit.
///
/// # Errors
/// `Invalid` if there is no conversion between the types.
pub fn stored(array: &ArrayRef, field: &Field, session: Option<Zone>) -> Result<(ArrayRef, Vec<usize>)> {
    let (from, to) = (array.data_type(), field.data_type());
    let values = if let DataType::Dictionary(_, values) = from { values } else { from };
    let text = matches!(values, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    if text && matches!(to, DataType::List(_) | DataType::Map(..) | DataType::Struct(_)) {
        return nested_of_text(array, field);
    }
    let is_json = !text && !is_bytes(from) && field.metadata().get(TYPE_KEY).is_some_and(|name| name == JSON);
    let cast = match is_json && !from.is_null() {
        _ if is_bytes(values) && *to == DataType::Boolean => bits(array),
        true => json_values(array),
        false if from.is_nested() && to.is_nested() => json_inside(array, to, declared_type(field).as_ref(), session),
        false => cast_values_in(array, to, session),
    };
    let Ok(cast) = cast else {
        return Err(EngineError::invalid(format!(
            "column {}: a value of type {} cannot be stored as {}; cast it",
            field.name(),
            sql_type(&Field::new("", from.clone(), true)),
            sql_type(field)
        )));
    };
    assert_eq!(cast.len(), array.len(), "a conversion keeps the rows");
    let cast = datetime::within_calendar(&cast)?;
    let misfits = match cast.null_count() > array.logical_null_count() {
        _ if from.is_nested() && to.is_nested() => {
            let lost = lost_parts(array, &cast);
            (0..array.len()).filter(|row| lost[*row]).collect()
        }
        true => {
            let nulls = array.logical_nulls();
            let given = |row: usize| nulls.as_ref().is_none_or(|n| n.is_valid(row));
            (0..array.len()).filter(|row| cast.is_null(*row) && given(*row)).collect()
        }
        false => Vec::new(),
    };
    Ok((cast, misfits))
}

/// Reads the values of MySQL's BIT(1), `b'0'` and `x'01'`: single bytes of the value 0 or 1.
///
/// # Errors
/// An error if there are other bytes, such as those of a text.
fn bits(array: &ArrayRef) -> datafusion::common::Result<ArrayRef> {
    let bytes = arrow::compute::cast(array, &DataType::BinaryView)?;
    let bit = |bytes: Option<&[u8]>| match bytes {
        None => Ok(None),
        Some([bit @ (0 | 1)]) => Ok(Some(*bit == 1)),
        Some(_) => exec_err!("these bytes are no bit"),
    };
    let values = bytes.as_binary_view().iter().map(bit).collect::<datafusion::common::Result<BooleanArray>>()?;
    Ok(Arc::new(values))
}

/// Returns for each row whether its value, or a part of its nested value, became NULL by a conversion.
fn lost_parts(before: &ArrayRef, after: &ArrayRef) -> Vec<bool> {
    let nulls = before.logical_nulls();
    let is_given = |row: usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
    let mut lost: Vec<bool> = (0..before.len()).map(|row| is_given(row) && after.is_null(row)).collect();
    // Flags the rows whose members are lost; both sides have the members of a row in the same order.
    let mut flag = |before: (&[i32], &ArrayRef), after: (&[i32], &ArrayRef)| {
        let span = |offsets: &[i32], row: usize| offsets[row] as usize..offsets[row + 1] as usize;
        let aligned = before.0 == after.0 && before.1.len() == after.1.len();
        let members = aligned.then(|| lost_parts(before.1, after.1));
        for (row, lost) in lost.iter_mut().enumerate() {
            if *lost || !is_given(row) {
                continue;
            }
            let (from, to) = (span(before.0, row), span(after.0, row));
            *lost = match &members {
                Some(members) => members[from].contains(&true),
                None => lost_parts(&before.1.slice(from.start, from.len()), &after.1.slice(to.start, to.len()))
                    .contains(&true),
            };
        }
    };
    match (before.data_type(), after.data_type()) {
        (DataType::List(_), DataType::List(_)) => {
            let (before, after) = (before.as_list::<i32>(), after.as_list::<i32>());
            flag((before.value_offsets(), before.values()), (after.value_offsets(), after.values()));
        }
        (DataType::Map(..), DataType::Map(..)) => {
            let (before, after) = (before.as_map(), after.as_map());
            flag((before.value_offsets(), before.values()), (after.value_offsets(), after.values()));
        }
        (DataType::Struct(from), DataType::Struct(to)) => {
            let (before, after) = (before.as_struct(), after.as_struct());
            let is_placed = from.len() == to.len() && to.iter().any(|field| from.find(field.name()).is_none());
            for (at, field) in to.iter().enumerate() {
                let named = from.find(field.name()).map(|(place, _)| place);
                let Some(place) = (if is_placed { Some(at) } else { named }) else { continue };
                let part = lost_parts(before.column(place), after.column(at));
                for (row, part) in part.into_iter().enumerate() {
                    lost[row] |= part && is_given(row);
                }
            }
        }
        _ => {}
    }
    lost
}

/// Returns the field by which values of a column are converted: `field`, which is that of the batch, and for JSON the
/// SQL type, because JSON is more than the text that Arrow sees, also inside nested values.
pub fn target(column: &TableColumn, field: &FieldRef) -> FieldRef {
    let said = |key: &str| {
        let text = column.data_type.to_string();
        Arc::new(field.as_ref().clone().with_metadata([(key.to_string(), text)].into()))
    };
    match column.data_type {
        SqlType::Json => said(TYPE_KEY),
        SqlType::Array(_) | SqlType::Map(..) | SqlType::Struct(_) if column.data_type.to_string().contains(JSON) => {
            said(DIGITS_KEY)
        }
        _ => Arc::clone(field),
    }
}

/// Converts texts such as `[1,2]` and `{"a":1}` to nested values, in the way in which loads read text. Arrow's cast
/// would make a list of one NULL.
fn nested_of_text(array: &ArrayRef, field: &Field) -> Result<(ArrayRef, Vec<usize>)> {
    let views = arrow::compute::cast(array, &DataType::Utf8View)?;
    let mut bytes = Vec::new();
    let mut cells = Vec::with_capacity(array.len());
    let place = |at: usize| {
        u32::try_from(at).map_err(|_| {
            EngineError::new(ErrorKind::Resources, format!("column {}: 4 GiB of text in one batch", field.name()))
        })
    };
    for value in views.as_string_view() {
        let start = place(bytes.len())?;
        cells.push(match value {
            None => Span::MISSING,
            Some(value) => {
                bytes.extend_from_slice(value.as_bytes());
                Span::new(start, place(bytes.len())?)
            }
        });
    }
    let block = TextBlock::from_vec(bytes);
    let mut bad = BadValues::new(true);
    let mut cx =
        Cx { strings: Strings::View, invalid_utf8: InvalidUtf8::Replace, batch: 0..block.bytes().len(), bad: &mut bad };
    let dialect = CsvDialect { quote: None, null_values: Vec::new(), ..CsvDialect::default() };
    let array = csv_converter(field, &dialect)?.convert(&block, &cells, &mut cx)?;
    let mut misfits: Vec<usize> = bad.entries().iter().map(|b| b.row).collect();
    misfits.sort_unstable();
    misfits.dedup();
    Ok((array, misfits))
}

fn sql_type(field: &Field) -> String {
    dipper_sql::type_text::type_text(field).to_uppercase()
}

fn incorrect(field: &Field, value: &str) -> String {
    format!("Incorrect {} value: '{value}' for column '{}'", sql_type(field), field.name())
}

/// A value that a strict INSERT does not accept.
#[derive(Debug)]
pub struct Misfit {
    /// Description of the error, with the value.
    what: String,
}

impl Misfit {
    /// Describes the error and what to do about it; `lenient` is the setting that stores NULL instead.
    pub fn way_out(&self, lenient: &str) -> String {
        format!("{}; cast or correct it, or {lenient} to store NULL", self.what)
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.way_out("SET enable_insert_strict = false"))
    }
}

impl std::error::Error for Misfit {}

/// Makes the error for a value that does not fit into a column.
pub fn misfit(field: &Field, value: &str) -> EngineError {
    EngineError::of(ErrorKind::BadValue, Misfit { what: incorrect(field, value) })
}

/// Checks that the query gives as many columns as are to be filled.
///
/// # Errors
/// MySQL's error 1136.
pub fn check_width(wanted: usize, given: usize) -> Result<()> {
    if wanted == given {
        return Ok(());
    }
    Err(EngineError {
        code: 1136,
        sqlstate: "21S01",
        ..EngineError::invalid(format!(
            "Column count doesn't match value count: {wanted} columns to fill, the query gives {given}"
        ))
    })
}

/// Makes the error for a column that a statement names twice.
pub fn twice(name: &str) -> EngineError {
    EngineError { code: 1110, ..EngineError::invalid(format!("Column '{name}' specified twice")) }
}

/// Makes the error for a column that the table does not have. `known` are its columns.
pub fn no_column<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> EngineError {
    let near = dipper_base::near::closest(name, known);
    let hint = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
    EngineError::new(ErrorKind::NoColumn, format!("Unknown column '{name}' in 'field list'{hint}"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{
        BooleanArray, Date32Array, Int64Array, ListArray, MapArray, StringViewArray, StructArray,
        TimestampMicrosecondArray,
    };
    use arrow::buffer::OffsetBuffer;
    use arrow::datatypes::{Fields, Int32Type, TimeUnit};

    use super::*;

    #[test]
    fn parts_are_cast_each_by_itself_and_the_first_misfit_is_told() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(20_240_105), None, None, None, Some(1 << 40)]));
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec![None, Some("7"), None, Some("x"), None]));
        let all = apart::packed(vec![numbers, texts]);
        let field = Field::new("i", DataType::Int32, true);
        let good = cast(&all.slice(0, 3), &field, None, None).unwrap();
        let good: Vec<Option<i32>> = good.as_primitive::<Int32Type>().iter().collect();
        assert_eq!(good, [Some(20_240_105), Some(7), None]);
        let error = cast(&all, &field, None, None).unwrap_err();
        assert!(error.message.starts_with("Incorrect INT value: 'x' for column 'i'"), "{}", error.message);
        let error = cast(&all.slice(4, 1), &field, None, None).unwrap_err();
        assert!(error.message.starts_with("Incorrect INT value: '1099511627776'"), "{}", error.message);
        let lost = LostValues::default();
        let lenient = cast(&all, &field, Some(&lost), None).unwrap();
        assert_eq!(lenient.null_count(), 3);
        assert_eq!(lost.take().len(), 1);
    }

    #[test]
    fn json_takes_values_as_casts_make_them() {
        let column = TableColumn::new(1, "j", SqlType::Json, true);
        let field = target(&column, &Arc::new(Field::new("j", DataType::Utf8View, true)));
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![Some(true), None]));
        let (json, misfits) = stored(&flags, &field, None).unwrap();
        assert_eq!(json.as_string_view().iter().collect::<Vec<_>>(), [Some("true"), None]);
        assert!(misfits.is_empty());
        let texts: ArrayRef = Arc::new(StringViewArray::from(vec!["{}"]));
        let texts = arrow::compute::cast(&texts, &DataType::Dictionary(DataType::Int8.into(), DataType::Utf8.into()));
        let (json, _) = stored(&texts.unwrap(), &field, None).unwrap();
        assert_eq!(json.as_string_view().value(0), "{}");
    }

    #[test]
    fn dates_outside_of_the_calendar_do_not_fit() {
        let last = 2_932_896;
        let days: ArrayRef =
            Arc::new(Date32Array::from(vec![Some(-719_529), Some(-719_528), Some(last), Some(last + 1), None]));
        let (_, misfits) = stored(&days, &Field::new("d", DataType::Date32, true), None).unwrap();
        assert_eq!(misfits, [0, 3]);
        let day = 86_400_000_000;
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![
            -719_528 * day - 1,
            -719_528 * day,
            i64::from(last + 1) * day - 1,
            i64::from(last + 1) * day,
        ]));
        let datetime = DataType::Timestamp(TimeUnit::Microsecond, None);
        let (_, misfits) = stored(&times, &Field::new("t", datetime.clone(), true), None).unwrap();
        assert_eq!(misfits, [0, 3]);
        let (_, misfits) = stored(&days, &Field::new("t", datetime, true), None).unwrap();
        assert_eq!(misfits, [0, 3]);
    }

    #[test]
    fn dates_inside_of_values_are_within_the_calendar() {
        let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(2_932_897), Some(0), None, Some(-719_529)]));
        let offsets = || OffsetBuffer::<i32>::from_lengths([2, 1, 1]);
        let item = Arc::new(Field::new_list_field(DataType::Date32, true));
        let list: ArrayRef = Arc::new(ListArray::new(Arc::clone(&item), offsets(), Arc::clone(&days), None));
        let (made, misfits) = stored(&list, &Field::new("l", list.data_type().clone(), true), None).unwrap();
        assert_eq!(misfits, [0, 2]);
        assert_eq!((made.null_count(), made.as_list::<i32>().values().null_count()), (0, 3));
        let fields = Fields::from(vec![Field::new("l", list.data_type().clone(), true)]);
        let parts: ArrayRef = Arc::new(StructArray::new(fields, vec![list], None));
        let (_, misfits) = stored(&parts, &Field::new("s", parts.data_type().clone(), true), None).unwrap();
        assert_eq!(misfits, [0, 2]);
        // A map whose key is no date any more is NULL as a whole.
        let pair = Fields::from(vec![
            Field::new("keys", DataType::Date32, false),
            Field::new("values", DataType::Date32, true),
        ]);
        let keys: ArrayRef = Arc::new(Date32Array::from(vec![2_932_897, 0, 1, 2]));
        let pairs = StructArray::new(pair.clone(), vec![keys, days], None);
        let entries = Arc::new(Field::new("entries", DataType::Struct(pair), false));
        let maps: ArrayRef = Arc::new(MapArray::new(entries, offsets(), pairs, None, false));
        let (made, misfits) = stored(&maps, &Field::new("m", maps.data_type().clone(), true), None).unwrap();
        assert_eq!(misfits, [0, 2]);
        assert_eq!((made.is_null(0), made.null_count()), (true, 1));
    }
}
