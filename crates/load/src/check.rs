//! Checks whether values fit their columns, a column at a time; only a failing column is examined row by row.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Decimal128Type, Decimal256Type};
use arrow_array::{Array, ArrayRef, RecordBatch, StringViewArray};
use arrow_buffer::i256;
use arrow_schema::{Schema, SchemaRef};
use dipper_base::json::{write_canonical, write_variant};
use dipper_base::quantile::Quantiles;
use dipper_base::sketch::{HyperLogLog, bitmap_from_bytes};
use dipper_base::states;
use dipper_base::types::SqlType;
use dipper_store::table::schema::TableSchema;

use crate::LoadError;
use crate::nested::{self, Refuse, Settings};

/// Condition on a column's values.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    Any,
    /// CHAR(n), VARCHAR(n): at most n bytes. Unless the load is strict, longer values are first cut to n characters.
    Length(usize),
    /// STRING, BINARY: at most this number of bytes.
    Bytes(usize),
    /// JSON: a document of at most this number of bytes, which is stored in its canonical text. Unless the load is
    /// strict, other text becomes NULL.
    Json(usize),
    /// VARIANT: a document, which is stored with its keys in order, or other text, of at most this number of bytes.
    Variant(usize),
    /// DECIMAL(p, s) in 128 bits: below 10^p.
    Decimal(u8),
    /// DECIMAL(p, s) in 256 bits: below 10^p.
    WideDecimal(u8),
    LargeInt,
    /// HLL: a sketch.
    Hll,
    /// BITMAP: a set.
    Bitmap,
    /// QUANTILE_STATE: a set of values.
    Quantiles,
    /// AGG_STATE: a state of the column's function.
    State,
    /// DATETIME(p) inside of a nested type: of p digits of the second. Columns of the type have them already.
    Digits(u8),
    /// TIME(p): of p digits of the second.
    Clock(u8),
    /// A nested type with one of the others inside, or with maps.
    Parts,
}

impl Rule {
    /// Returns the rule of columns of a type.
    fn of(t: &SqlType, string_bytes_max: usize) -> Rule {
        match t {
            SqlType::Char(Some(n)) | SqlType::Varchar(Some(n)) => Rule::Length(*n as usize),
            SqlType::Char(None) => Rule::Length(1),
            SqlType::Varchar(None) | SqlType::String | SqlType::Binary => Rule::Bytes(string_bytes_max),
            SqlType::Json => Rule::Json(string_bytes_max),
            SqlType::Variant => Rule::Variant(string_bytes_max),
            SqlType::Decimal(p, _) if *p <= 38 => Rule::Decimal(*p),
            SqlType::Decimal(p, _) => Rule::WideDecimal(*p),
            SqlType::LargeInt => Rule::LargeInt,
            SqlType::Hll => Rule::Hll,
            SqlType::Bitmap => Rule::Bitmap,
            SqlType::QuantileState => Rule::Quantiles,
            SqlType::AggState(_) => Rule::State,
            SqlType::Time(digits @ 0..6) => Rule::Clock(*digits),
            t if nested::has_rules(t, string_bytes_max) => Rule::Parts,
            _ => Rule::Any,
        }
    }

    /// Returns the rule of parts of nested values.
    pub(crate) fn of_part(t: &SqlType, string_bytes_max: usize) -> Rule {
        match t {
            SqlType::DateTime(digits @ 0..6) => Rule::Digits(*digits),
            t => Rule::of(t, string_bytes_max),
        }
    }
}

#[derive(Debug)]
struct Column {
    name: String,
    nullable: bool,
    rule: Rule,
    data_type: SqlType,
    /// Reason for a NULL in a field of text.
    null: String,
}

/// Checks of a table's columns.
#[derive(Debug)]
pub(crate) struct Checks {
    columns: Vec<Column>,
    arrow: SchemaRef,
    /// Most bytes of a text whose type has no length.
    string_bytes_max: usize,
}

/// A rejected row, by its position in the batch.
pub(crate) struct Refused {
    pub row: u32,
    pub reason: String,
}

/// Number of bytes of a text that reasons show.
const SHOWN_BYTES: usize = 32;

impl Checks {
    pub fn new(schema: &TableSchema, string_bytes_max: usize) -> Self {
        let column = |c: &dipper_store::table::schema::TableColumn| Column {
            name: c.name.clone(),
            nullable: c.nullable,
            data_type: c.data_type.clone(),
            null: match &c.data_type {
                SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String | SqlType::Binary => "it is NULL".into(),
                other => format!("it is NULL, or does not read as {other}"),
            },
            rule: Rule::of(&c.data_type, string_bytes_max),
        };
        Checks { columns: schema.columns.iter().map(column).collect(), arrow: schema.arrow(), string_bytes_max }
    }

    /// Returns the rows that pass, with the table's schema, and the rows that do not. `misfits` are rows with a value
    /// that did not fit, which do not pass if the load is strict.
    pub fn check(
        &self,
        batch: &RecordBatch,
        strict: bool,
        misfits: &[(u32, String)],
    ) -> Result<(RecordBatch, Vec<Refused>), LoadError> {
        let fields = self.arrow.fields();
        let fits = batch.num_columns() == fields.len()
            && batch.columns().iter().zip(fields).all(|(c, f)| c.data_type() == f.data_type());
        if !fits {
            let types = |s: &Schema| {
                s.fields().iter().map(|f| format!("{} {}", f.name(), f.data_type())).collect::<Vec<_>>().join(", ")
            };
            return Err(LoadError::Batch { expected: types(&self.arrow), found: types(batch.schema_ref()) });
        }
        let misfits = misfits.iter().filter(|_| strict);
        let mut refused: Vec<_> = misfits.map(|(row, reason)| Refused { row: *row, reason: reason.clone() }).collect();
        let mut columns = Vec::with_capacity(fields.len());
        for (array, column) in batch.columns().iter().zip(&self.columns) {
            if !column.nullable && array.null_count() > 0 {
                let reason =
                    format!("column({}) values is null while columns is not nullable: {}", column.name, column.null);
                let nulls = (0..array.len() as u32).filter(|r| array.is_null(*r as usize));
                refused.extend(nulls.map(|row| Refused { row, reason: reason.clone() }));
            }
            columns.push(self.column(array, column, strict, &mut refused));
        }
        if refused.is_empty() {
            return Ok((RecordBatch::try_new(Arc::clone(&self.arrow), columns)?, refused));
        }
        // Keep the first reason of each row, by column.
        refused.sort_by_key(|r| r.row);
        refused.dedup_by_key(|r| r.row);
        let mut keep = vec![true; batch.num_rows()];
        refused.iter().for_each(|r| keep[r.row as usize] = false);
        let keep = keep.into();
        let columns = columns.iter().map(|c| arrow_select::filter::filter(c, &keep)).collect::<Result<Vec<_>, _>>()?;
        Ok((RecordBatch::try_new(Arc::clone(&self.arrow), columns)?, refused))
    }

    /// Cuts long texts in the first `count` columns, as the check does for rows that are not strict.
    pub fn cut(&self, count: usize, batch: &RecordBatch) -> Result<RecordBatch, LoadError> {
        let mut columns = batch.columns().to_vec();
        for (array, column) in columns[..count].iter_mut().zip(&self.columns) {
            let cut = match (column.rule, array.as_string_view_opt()) {
                (Rule::Length(max), Some(values)) if longest(values.views()) > max => {
                    Some(lengths(values, max, false, &mut |_, _| ()))
                }
                (Rule::Parts, _) => nested::parts(array, &column.data_type, self.settings(false), &mut |_, _| ()),
                _ => None,
            };
            if let Some(cut) = cut {
                *array = cut;
            }
        }
        Ok(RecordBatch::try_new(batch.schema(), columns)?)
    }

    fn column(&self, array: &ArrayRef, column: &Column, strict: bool, refused: &mut Vec<Refused>) -> ArrayRef {
        let mut refuse = |row: usize, reason: String| {
            refused.push(Refused { row: row as u32, reason: format!("column_name[{}], {reason}", column.name) });
        };
        let stored = match column.rule {
            Rule::Parts => nested::parts(array, &column.data_type, self.settings(strict), &mut refuse),
            Rule::State => {
                check_states(array, &column.data_type, &mut refuse);
                None
            }
            rule => checked(rule, array, column.nullable, strict, &mut refuse),
        };
        stored.unwrap_or_else(|| Arc::clone(array))
    }

    fn settings(&self, strict: bool) -> Settings {
        Settings { string_bytes_max: self.string_bytes_max, strict }
    }
}

/// Checks values that are not nested by a rule. Returns the values as they are stored; `None` if none changes.
pub(crate) fn checked(
    rule: Rule,
    array: &ArrayRef,
    nullable: bool,
    strict: bool,
    refuse: &mut Refuse<'_>,
) -> Option<ArrayRef> {
    match rule {
        // States are never parts of nested values, and columns of them are checked by the function.
        Rule::Any | Rule::Parts | Rule::State => {}
        Rule::Digits(digits) => return nested::rounded(array, digits),
        Rule::Clock(digits) => return nested::rounded_clock(array, digits),
        Rule::Length(max) => {
            let values = array.as_string_view();
            if longest(values.views()) > max {
                return Some(lengths(values, max, strict, refuse));
            }
        }
        Rule::Bytes(max) => {
            let (views, values) = match array.as_string_view_opt() {
                Some(values) => (values.views(), Some(values)),
                None => (array.as_binary_view().views(), None),
            };
            if longest(views) > max {
                for row in (0..array.len()).filter(|r| array.is_valid(*r)) {
                    let len = views[row] as u32 as usize;
                    if len > max {
                        let shown = values.map_or("", |v| cut(v.value(row)));
                        refuse(row, too_long(shown, max, len));
                    }
                }
            }
        }
        Rule::Json(max) => {
            let values = array.as_string_view();
            // Rows whose text changes; NULL for what is no document.
            let mut changed = Vec::new();
            let mut canonical = String::new();
            for (row, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                match serde_json::from_str::<serde::de::IgnoredAny>(value) {
                    _ if value.len() > max => refuse(row, too_long(cut(value), max, value.len())),
                    Ok(_) => {
                        canonical.clear();
                        write_canonical(&mut canonical, value);
                        if canonical != value {
                            changed.push((row, Some(canonical.clone())));
                        }
                    }
                    Err(e) if strict || !nullable => {
                        refuse(row, format!("[{}] is no JSON document: {e}", cut(value)));
                    }
                    Err(_) => changed.push((row, None)),
                }
            }
            if !changed.is_empty() {
                return Some(replaced(values, changed));
            }
        }
        Rule::Variant(max) => {
            let values = array.as_string_view();
            let mut changed = Vec::new();
            let mut text = String::new();
            for (row, value) in values.iter().enumerate() {
                let Some(value) = value else { continue };
                if value.len() > max {
                    refuse(row, too_long(cut(value), max, value.len()));
                } else if serde_json::from_str::<serde::de::IgnoredAny>(value).is_ok() {
                    text.clear();
                    write_variant(&mut text, value);
                    if text != value {
                        changed.push((row, Some(text.clone())));
                    }
                }
            }
            if !changed.is_empty() {
                return Some(replaced(values, changed));
            }
        }
        Rule::Decimal(p) => {
            let limit = 10i128.pow(u32::from(p));
            let values = array.as_primitive::<Decimal128Type>();
            if values.values().iter().any(|v| *v >= limit || *v <= -limit) {
                for (row, v) in values.iter().enumerate() {
                    if v.is_some_and(|v| v >= limit || v <= -limit) {
                        refuse(row, out_of_range(values.value_as_string(row), p, values.scale()));
                    }
                }
            }
        }
        Rule::WideDecimal(p) => {
            let limit = i256::from_i128(10).wrapping_pow(u32::from(p));
            let values = array.as_primitive::<Decimal256Type>();
            for (row, v) in values.iter().enumerate() {
                if v.is_some_and(|v| v >= limit || v <= limit.wrapping_neg()) {
                    refuse(row, out_of_range(values.value_as_string(row), p, values.scale()));
                }
            }
        }
        Rule::LargeInt => {
            let values = array.as_primitive::<Decimal256Type>();
            for (row, v) in values.iter().enumerate() {
                if v.is_some_and(|v| v.to_i128().is_none()) {
                    refuse(row, format!("{} is not a LARGEINT (-2^127 to 2^127 - 1)", values.value_as_string(row)));
                }
            }
        }
        Rule::Hll => each(array, |row, bytes| {
            if let Err(e) = HyperLogLog::from_bytes(bytes) {
                refuse(row, format!("{e}; make one with hll_hash() or hll_empty()"));
            }
        }),
        Rule::Quantiles => each(array, |row, bytes| {
            if let Err(e) = Quantiles::from_bytes(bytes) {
                refuse(row, format!("{e}; make one with to_quantile_state()"));
            }
        }),
        Rule::Bitmap => each(array, |row, bytes| {
            if let Err(e) = bitmap_from_bytes(bytes) {
                refuse(row, format!("{e}; make one with to_bitmap(), bitmap_hash() or bitmap_from_string()"));
            }
        }),
    }
    None
}

/// Refuses values that are no states of the column's function.
fn check_states(array: &ArrayRef, data_type: &SqlType, refuse: &mut Refuse<'_>) {
    let SqlType::AggState(of) = data_type else { return };
    let mut known = states::reader(of);
    each(array, |row, bytes| {
        let checked = match &mut known {
            Ok(reader) => reader.check(bytes),
            Err(e) => Err(e.clone()),
        };
        if let Err(e) = checked {
            refuse(row, format!("{e}; make one with {}_state()", of.function));
        }
    });
}

/// Returns the values with some of them replaced, by ascending row.
fn replaced(values: &StringViewArray, changed: Vec<(usize, Option<String>)>) -> ArrayRef {
    let mut out = StringViewBuilder::with_capacity(values.len());
    let mut changed = changed.into_iter().peekable();
    for (row, value) in values.iter().enumerate() {
        match changed.next_if(|(at, _)| *at == row) {
            Some((_, new)) => out.append_option(new),
            None => out.append_option(value),
        }
    }
    Arc::new(out.finish())
}

/// Treats a column in which some values have more than `max` bytes.
fn lengths(values: &StringViewArray, max: usize, strict: bool, refuse: &mut Refuse<'_>) -> ArrayRef {
    let mut out = StringViewBuilder::with_capacity(values.len());
    for (row, value) in values.iter().enumerate() {
        let Some(value) = value.filter(|v| v.len() > max) else {
            out.append_option(value);
            continue;
        };
        let end = if strict { value.len() } else { value.char_indices().nth(max).map_or(value.len(), |(i, _)| i) };
        if end > max {
            refuse(row, too_long(cut(value), max, end));
        }
        out.append_value(&value[..end]);
    }
    Arc::new(out.finish())
}

/// Calls `f` for every value that is not NULL, with its row.
fn each(array: &ArrayRef, mut f: impl FnMut(usize, &[u8])) {
    let values = array.as_binary_view();
    values.iter().enumerate().for_each(|(row, value)| value.into_iter().for_each(|v| f(row, v)));
}

/// Returns the length of the longest value in bytes; views of NULLs count too, so it may be too large.
fn longest(views: &[u128]) -> usize {
    views.iter().map(|v| *v as u32).max().unwrap_or(0) as usize
}

fn cut(value: &str) -> &str {
    &value[..value.floor_char_boundary(SHOWN_BYTES)]
}

fn too_long(shown: &str, max: usize, len: usize) -> String {
    format!(
        "the length of input is too long than schema. first 32 bytes of input str: [{shown}] schema length: {max}; \
         actual length: {len}; "
    )
}

fn out_of_range(value: String, precision: u8, scale: i8) -> String {
    format!("decimal value is not valid for definition, value={value}, precision={precision}, scale={scale}")
}
