//! Propagation of the part of SQL types that Arrow's lack: the digits of DATETIME(p) and TIME(p), and that a text is
//! JSON or a VARIANT, also inside arrays, maps and structs.
//!
//! A field carries its SQL type in its metadata ([`TYPE_KEY`]), as columns of tables do. DataFusion's aggregates, CASE
//! and functions drop that. So the last analyzer rule derives it from the operands, and puts it into the schema of each
//! node and around arguments that are converted to text or to JSON. Where nothing can be derived, the type stays open:
//! times show a fraction where they have one, and texts are texts.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::expr::{AggregateFunction, Cast, ScalarFunction, TryCast, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Expr, ExprSchemable, JoinType, LogicalPlan, Operator, Projection, Window,
};
use dipper_base::address;
use dipper_base::types::SqlType;
use dipper_dialect::chains::PLANNED_CHAIN;
use dipper_dialect::explode::JSON_ELEMENTS;
use dipper_dialect::parser::parse_type;

use super::one_row;
use super::typed::{CAST_NAME, STRICT_NAME, TYPED_NAME, Typed, WHOLE_NAME};
use crate::class::Class;
use crate::functions::{
    ANALYZER_KEY, CAST_PARTS, ELEMENT_OF_JSON, JSON, VARIANT, datetime, is_bytes, reads_documents, returns_its_input,
};
use crate::metadata::{DIGITS_KEY, TYPE_KEY};

/// DATETIME without digits.
const SECONDS: &str = "datetime";

/// TIME without digits.
const TIME_SECONDS: &str = "time";

/// What the names of both types that have digits contain.
const OF_DIGITS: &str = TIME_SECONDS;

/// The SQL type that says of a text that it is no document, whatever the field says from which it comes.
pub(super) const TEXT: &str = "string";

/// Whether values of a type are DATETIME or TIME, or contain such values.
pub(super) fn holds_digits(t: &DataType) -> bool {
    match t {
        DataType::Timestamp(..) | DataType::Time32(_) | DataType::Time64(_) => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            holds_digits(item.data_type())
        }
        DataType::Map(entries, _) => holds_digits(entries.data_type()),
        DataType::Struct(fields) => fields.iter().any(|f| holds_digits(f.data_type())),
        _ => false,
    }
}

/// Whether values of a type are texts, or contain texts, which can be documents.
fn holds_text(t: &DataType) -> bool {
    match t {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, value) => holds_text(value),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            holds_text(item.data_type())
        }
        DataType::Map(entries, _) => holds_text(entries.data_type()),
        DataType::Struct(fields) => fields.iter().any(|f| holds_text(f.data_type())),
        _ => false,
    }
}

/// Whether the SQL type of values may say more than their Arrow type.
pub(super) fn may_say_more(t: &DataType) -> bool {
    holds_digits(t) || holds_text(t)
}

/// Whether an SQL type may say more than its Arrow type; names of fields may look like it.
fn tells(text: &str) -> bool {
    [OF_DIGITS, JSON, VARIANT].iter().any(|word| text.contains(word))
}

/// Whether an SQL type says more than the Arrow type `t`, and is one of values of that type.
fn fits(text: &str, t: &DataType) -> bool {
    match t {
        DataType::Timestamp(..) => text.starts_with(SECONDS),
        DataType::Time32(_) | DataType::Time64(_) => text.starts_with(TIME_SECONDS),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            (text == JSON || text == VARIANT) && holds_text(t)
        }
        _ if !tells(text) || !may_say_more(t) => false,
        _ => match parse_type(text) {
            Ok(declared) => part_fits(&declared, t),
            // Names of fields need not be words of SQL.
            Err(_) => has_names(text),
        },
    }
}

/// Whether a part of a nested SQL type is one of values of an Arrow type.
fn part_fits(declared: &SqlType, t: &DataType) -> bool {
    match (declared, t) {
        (SqlType::DateTime(_), t) => matches!(t, DataType::Timestamp(..)),
        (SqlType::Time(_), t) => matches!(t, DataType::Time32(_) | DataType::Time64(_)),
        (SqlType::Json | SqlType::Variant, t) => !t.is_nested() && holds_text(t),
        (
            SqlType::Array(declared),
            DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _),
        ) => part_fits(declared, item.data_type()),
        (SqlType::Map(key, value), DataType::Map(entries, _)) => match entries.data_type() {
            DataType::Struct(parts) if parts.len() == 2 => {
                part_fits(key, parts[0].data_type()) && part_fits(value, parts[1].data_type())
            }
            _ => false,
        },
        (SqlType::Struct(declared), DataType::Struct(fields)) => {
            declared.len() == fields.len()
                && declared.iter().zip(fields).all(|((_, declared, _), field)| part_fits(declared, field.data_type()))
        }
        // The types of parts that say no more may be any.
        (SqlType::Array(_) | SqlType::Map(..) | SqlType::Struct(_), _) => false,
        _ => true,
    }
}

/// Returns the SQL type in a field's own metadata, if it says more than the field's Arrow type. The check matters
/// because DataFusion hands on the metadata that a field had before a cast to another type.
pub(super) fn said(field: &Field) -> Option<&str> {
    let t = field.data_type();
    let told = |key: &str| field.metadata().get(key).map(String::as_str).filter(|text| fits(text, t));
    match field.metadata().is_empty() {
        true => None,
        false => told(TYPE_KEY).or_else(|| told(DIGITS_KEY)),
    }
}

/// Returns the SQL type of a field that says more than Arrow's type.
pub fn declared_type(field: &Field) -> Option<SqlType> {
    said(field).and_then(|text| parse_type(text).ok())
}

/// Whether the type contains fields with names.
pub(super) fn has_names(text: &str) -> bool {
    text.contains("struct<")
}

/// Returns the digits of a DATETIME or TIME type.
fn digits(text: &str) -> Option<u8> {
    match text.strip_prefix(SECONDS).or_else(|| text.strip_prefix(TIME_SECONDS))? {
        "" => Some(0),
        digits => digits.strip_prefix('(')?.strip_suffix(')')?.parse().ok(),
    }
}

fn datetime_of(digits: u8) -> String {
    SqlType::DateTime(digits).to_string()
}

/// Returns the type of a TIME, or else of a DATETIME, with these digits.
fn point_of(t: &DataType, digits: u8) -> String {
    match t {
        DataType::Time32(_) | DataType::Time64(_) => SqlType::Time(digits).to_string(),
        _ => datetime_of(digits),
    }
}

/// Returns the digits of the types DATETIME and TIME that occur in a type; names of fields are none of them.
fn all_digits(text: &str) -> impl Iterator<Item = u8> + '_ {
    text.match_indices(TIME_SECONDS).filter_map(move |(at, _)| {
        let before = text[..at].strip_suffix("date").unwrap_or(&text[..at]);
        let is_type = before.is_empty() || before.ends_with(['<', ',', ':']);
        let rest = &text[at + TIME_SECONDS.len()..];
        let ends = |rest: &str| rest.is_empty() || rest.starts_with([',', '>', ' ']);
        let digits = match rest.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
            Some((digits, rest)) if ends(rest) => digits.parse().ok(),
            None if ends(rest) => Some(0),
            _ => None,
        };
        digits.filter(|_| is_type)
    })
}

/// Returns the digits that all DATETIME and TIME values of a field have, also nested ones; `None` where the metadata
/// does not say it, or there are several.
pub fn digits_of(field: &Field) -> Option<u8> {
    let mut all = all_digits(said(field)?);
    let first = all.next()?;
    all.all(|digits| digits == first).then_some(first)
}

/// Whether a field holds DATETIME or TIME values of different digits, such as `struct<a:datetime,b:datetime(3)>`.
pub(super) fn has_several_digits(field: &Field) -> bool {
    let Some(text) = said(field) else { return false };
    let mut all = all_digits(text);
    let first = all.next();
    all.any(|digits| Some(digits) != first)
}

/// Derives the SQL type of an expression that says more than its Arrow type: of DATETIME and TIME, of documents, and of
/// what contains such values.
pub(super) fn declared(expr: &Expr, schema: &DFSchema) -> Option<String> {
    let field = expr.to_field(schema).ok()?.1;
    if !may_say_more(field.data_type()) {
        return None;
    }
    if let Some(text) = said(&field) {
        return Some(text.to_string());
    }
    // Functions that name the type of their results, such as casts to text, say that it is no more than that.
    if matches!(expr, Expr::ScalarFunction(_))
        && [TYPE_KEY, DIGITS_KEY].iter().any(|key| field.metadata().contains_key(*key))
    {
        return None;
    }
    derived(expr, &field, schema).filter(|text| fits(text, field.data_type()))
}

fn derived(expr: &Expr, field: &FieldRef, schema: &DFSchema) -> Option<String> {
    match expr {
        Expr::Alias(alias) => declared(&alias.expr, schema),
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => cast(expr, field.data_type(), schema),
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref());
            widest(values, schema)
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus | Operator::Minus, right }) => {
            let interval = |e: &Expr| matches!(e.get_type(schema), Ok(DataType::Interval(_)));
            match (interval(left), interval(right)) {
                (false, true) => moved(left, has_fraction(right), schema),
                (true, false) => moved(right, has_fraction(left), schema),
                _ => None,
            }
        }
        Expr::ScalarFunction(function) => of_function(function, field.data_type(), schema),
        Expr::AggregateFunction(AggregateFunction { func, params }) => {
            of_aggregate(func.name(), &params.args, field.data_type(), schema)
        }
        Expr::WindowFunction(window) => {
            let WindowFunction { fun, params } = window.as_ref();
            of_aggregate(fun.name(), &params.args, field.data_type(), schema)
        }
        _ => None,
    }
}

/// Derives the type of a cast to `to`: a date has no digits, and text may have any number of them. A cast between the
/// Arrow types of text keeps documents.
fn cast(from: &Expr, to: &DataType, schema: &DFSchema) -> Option<String> {
    match from.get_type(schema).ok()? {
        DataType::Date32 | DataType::Date64 => Some(SECONDS.into()),
        t if holds_digits(&t) || holds_text(&t) && holds_text(to) => declared(from, schema),
        _ if matches!(to, DataType::Timestamp(..)) => Some(datetime_of(moment_digits(from, schema))),
        t => Some(of_dates(&t, to)?.to_string()),
    }
}

/// Returns the SQL type of nested values whose dates have become DATETIME; `None` where something else has.
fn of_dates(from: &DataType, to: &DataType) -> Option<SqlType> {
    Some(match (from, to) {
        (DataType::Date32 | DataType::Date64, DataType::Timestamp(..)) => SqlType::DateTime(0),
        (
            DataType::List(from) | DataType::LargeList(from) | DataType::FixedSizeList(from, _),
            DataType::List(to) | DataType::LargeList(to) | DataType::FixedSizeList(to, _),
        ) => SqlType::Array(Box::new(of_dates(from.data_type(), to.data_type())?)),
        (DataType::Map(from, _), DataType::Map(to, _)) => match (from.data_type(), to.data_type()) {
            (DataType::Struct(from), DataType::Struct(to)) if from.len() == 2 && to.len() == 2 => {
                let part = |at: usize| of_dates(from[at].data_type(), to[at].data_type()).map(Box::new);
                SqlType::Map(part(0)?, part(1)?)
            }
            _ => return None,
        },
        (_, to) if holds_digits(to) || to.is_nested() => return None,
        (_, to) => plain_type(to),
    })
}

/// Whether adding an interval changes the digits after the second.
fn has_fraction(interval: &Expr) -> bool {
    match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(i)), _) => i.nanoseconds % 1_000_000_000 != 0,
        Expr::Negative(inner) => has_fraction(inner),
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => has_fraction(expr),
        Expr::ScalarFunction(f) if f.func.name() == super::interval::NAME => match f.args.as_slice() {
            [amount, Expr::Literal(unit, _)] => unit_has_fraction(amount, unit, &DFSchema::empty()),
            _ => true,
        },
        _ => true,
    }
}

/// Whether adding an amount of a unit changes the digits after the second.
fn unit_has_fraction(amount: &Expr, unit: &ScalarValue, schema: &DFSchema) -> bool {
    let unit = unit.try_as_str().flatten().unwrap_or("microsecond").to_ascii_lowercase();
    if unit.contains("micro") || unit.contains("milli") || unit.contains("frac") {
        return true;
    }
    // 1.5 seconds have a fraction, but 1.5 days round to two.
    let is_whole = match amount {
        Expr::Literal(text, _) if text.data_type().is_string() => {
            !text.try_as_str().flatten().is_some_and(|text| text.contains(['.', 'e', 'E']))
        }
        _ => amount.get_type(schema).is_ok_and(|t| t.is_integer() || t.is_null()),
    };
    unit.contains("second") && !is_whole
}

/// Derives the type of a date, datetime or time to which an interval is added.
fn moved(point: &Expr, has_fraction: bool, schema: &DFSchema) -> Option<String> {
    let t = point.get_type(schema).ok()?;
    if has_fraction {
        return Some(point_of(&t, 6));
    }
    match t {
        t if holds_digits(&t) => declared(point, schema),
        // What a text that is moved shows is that of its row, as in MySQL, where the result is a text.
        t if holds_text(&t) && !matches!(point, Expr::Literal(..)) => None,
        _ => Some(datetime_of(moment_digits(point, schema))),
    }
}

/// Returns the type that holds values of all these; NULL needs none.
fn widest<'a>(values: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<String> {
    let mut widest: Option<String> = None;
    for value in values.filter(|value| !is_null(value) && !is_empty(value, schema)) {
        let one = match value.get_type(schema).ok()? {
            DataType::Date32 => SECONDS.to_string(),
            // Dates become DATETIME without digits beside the other values.
            DataType::List(item) if *item.data_type() == DataType::Date32 => format!("array<{SECONDS}>"),
            _ => declared(value, schema)?,
        };
        widest = Some(match widest {
            None => one,
            Some(known) => wider(known, &one)?,
        });
    }
    widest
}

/// Whether an expression is an array or map that has no values but NULL, before it was cast.
fn is_empty(expr: &Expr, schema: &DFSchema) -> bool {
    match expr {
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => is_empty(expr, schema),
        Expr::ScalarFunction(function) if is_cast(function.func.name()) => {
            function.args.first().is_some_and(|value| is_empty(value, schema))
        }
        _ => expr.get_type(schema).is_ok_and(|t| is_without_values(&t)),
    }
}

fn is_without_values(t: &DataType) -> bool {
    match t {
        DataType::Null => true,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            is_without_values(item.data_type())
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(parts) => parts.iter().all(|part| is_without_values(part.data_type())),
            _ => false,
        },
        _ => false,
    }
}

/// Whether a function is the one around a cast of a query, or does a cast.
fn is_cast(name: &str) -> bool {
    name == CAST_NAME || name == TYPED_NAME || name.starts_with("cast_")
}

/// Returns the type that holds the values of fields of these types; `None` if one is not known, or there is none.
pub(super) fn common_text<'a>(mut texts: impl Iterator<Item = Option<&'a str>>) -> Option<String> {
    let first = texts.next()??.to_string();
    texts.try_fold(first, |known, text| wider(known, text?))
}

/// Returns the type that holds values of two types.
fn wider(known: String, other: &str) -> Option<String> {
    if known == other {
        return Some(known);
    }
    if let (Some(one), Some(two)) = (digits(&known), digits(other)) {
        let is_datetime = known.starts_with(SECONDS);
        let both = if is_datetime { datetime_of(one.max(two)) } else { SqlType::Time(one.max(two)).to_string() };
        return (is_datetime == other.starts_with(SECONDS)).then_some(both);
    }
    let both = wider_type(parse_type(&known).ok()?, parse_type(other).ok()?)?;
    Some(both.to_string())
}

/// Returns the type that holds values of two types, which may be nested. Where the types differ in more than digits of
/// DATETIME and TIME, the values are converted before they meet, and the first type stands for both.
fn wider_type(known: SqlType, other: SqlType) -> Option<SqlType> {
    Some(match (known, other) {
        (SqlType::DateTime(known), SqlType::DateTime(other)) => SqlType::DateTime(known.max(other)),
        (SqlType::Time(known), SqlType::Time(other)) => SqlType::Time(known.max(other)),
        (SqlType::Date, other @ SqlType::DateTime(_)) => other,
        // The text of a document is one of a VARIANT, too.
        (SqlType::Json, SqlType::Variant) | (SqlType::Variant, SqlType::Json) => SqlType::Variant,
        (SqlType::Json | SqlType::Variant, other) | (other, SqlType::Json | SqlType::Variant) if is_text(&other) => {
            SqlType::String
        }
        (SqlType::Array(known), SqlType::Array(other)) => SqlType::Array(Box::new(wider_type(*known, *other)?)),
        (SqlType::Map(key, value), SqlType::Map(other_key, other_value)) => {
            SqlType::Map(Box::new(wider_type(*key, *other_key)?), Box::new(wider_type(*value, *other_value)?))
        }
        (SqlType::Struct(known), SqlType::Struct(other)) if known.len() == other.len() => {
            let fields = known
                .into_iter()
                .zip(other)
                .map(|((name, known, comment), (_, other, _))| Some((name, wider_type(known, other)?, comment)));
            SqlType::Struct(fields.collect::<Option<Vec<_>>>()?)
        }
        (known, other) if known == other => known,
        (known, other) => match holds(&known) || holds(&other) {
            true => return None,
            false => known,
        },
    })
}

fn is_text(t: &SqlType) -> bool {
    matches!(t, SqlType::String | SqlType::Char(_) | SqlType::Varchar(_) | SqlType::Json | SqlType::Variant)
}

/// Whether a type says more than its Arrow type, or contains one that does.
fn holds(t: &SqlType) -> bool {
    tells(&t.to_string())
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => is_null(expr),
        _ => false,
    }
}

/// Returns the type of an array's items, or of a map's values.
pub(super) fn inner(text: &str) -> Option<String> {
    match text.strip_prefix("array<") {
        Some(item) => item.strip_suffix('>').map(str::to_string),
        None => Some(entry(text)?.1).filter(|value| tells(value)),
    }
}

/// Returns the types of a map's keys and values.
fn entry(text: &str) -> Option<(String, String)> {
    match parse_type(text).ok()? {
        SqlType::Map(key, value) => Some((key.to_string(), value.to_string())),
        _ => None,
    }
}

/// Returns the type of the elements that UNNEST makes of arrays, which may be nested.
fn element(mut text: String, from: &DataType, to: &DataType) -> Option<String> {
    let mut from = from;
    while from != to {
        let (DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _)) = from else {
            return None;
        };
        text = inner(&text)?;
        from = item.data_type();
    }
    Some(text).filter(|text| tells(text))
}

/// Returns the SQL type of an Arrow type, without digits.
fn plain_type(t: &DataType) -> SqlType {
    match t {
        DataType::Boolean => SqlType::Boolean,
        DataType::Int8 => SqlType::TinyInt,
        DataType::Int16 => SqlType::SmallInt,
        DataType::Int32 => SqlType::Int,
        DataType::Int64 => SqlType::BigInt,
        DataType::Decimal256(39, 0) => SqlType::LargeInt,
        DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => SqlType::Decimal(*p, *s),
        DataType::Float32 => SqlType::Float,
        DataType::Float64 => SqlType::Double,
        DataType::Date32 => SqlType::Date,
        t if is_bytes(t) => SqlType::Binary,
        t if *t == address::IPV4 => SqlType::Ipv4,
        t if *t == address::IPV6 => SqlType::Ipv6,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            SqlType::Array(Box::new(plain_type(item.data_type())))
        }
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(parts) if parts.len() == 2 => {
                SqlType::Map(Box::new(plain_type(parts[0].data_type())), Box::new(plain_type(parts[1].data_type())))
            }
            _ => SqlType::String,
        },
        DataType::Struct(fields) => {
            SqlType::Struct(fields.iter().map(|f| (f.name().clone(), plain_type(f.data_type()), None)).collect())
        }
        _ => SqlType::String,
    }
}

/// Returns the types of values that become parts of one value; `None` where the type of one that holds DATETIME or TIME
/// cannot be derived.
fn parts<'a>(values: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<Vec<SqlType>> {
    let types = values.map(|value| {
        let t = value.get_type(schema).ok()?;
        match declared(value, schema) {
            Some(text) => parse_type(&text).ok(),
            None if holds_digits(&t) => None,
            None => Some(plain_type(&t)),
        }
    });
    types.collect()
}

/// Returns the type of a struct's field.
fn member(text: &str, name: &ScalarValue) -> Option<String> {
    let (SqlType::Struct(fields), Some(Some(name))) = (parse_type(text).ok()?, name.try_as_str()) else { return None };
    let (_, found, _) = fields.into_iter().find(|(field, ..)| field.to_lowercase() == name.to_lowercase())?;
    Some(found.to_string()).filter(|text| tells(text))
}

/// Returns a number of digits that is given as a constant.
fn given(digits: &ScalarValue) -> Option<u8> {
    match digits.cast_to(&DataType::Int64).ok()? {
        ScalarValue::Int64(Some(digits @ 0..=6)) => Some(digits as u8),
        _ => None,
    }
}

/// Returns the digits after the second of what a function reads as a TIME or DATETIME; `None` where they differ from
/// row to row.
fn fraction(value: &Expr, schema: &DFSchema) -> Option<u8> {
    match value.get_type(schema).ok()? {
        DataType::Date32 | DataType::Date64 | DataType::Null => Some(0),
        t if t.is_integer() => Some(0),
        t if holds_digits(&t) => digits(&declared(value, schema)?),
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => {
            Some(scale.clamp(0, MOST_DIGITS as i8) as u8)
        }
        _ => match value {
            Expr::Literal(text, _) => text.try_as_str().flatten().filter(|text| !text.contains('.')).map(|_| 0),
            _ => None,
        },
    }
}

/// The most digits that a DATETIME can have.
const MOST_DIGITS: u8 = 6;

/// Returns the digits of the DATETIME that a function reads from a value: those of a constant or of the value's type,
/// and all that there can be where the rows of a column of texts or doubles differ.
fn moment_digits(value: &Expr, schema: &DFSchema) -> u8 {
    // The point of a fraction stands behind a time of day: `2024.01.02` has none.
    let written = |text: &str| match text.rsplit_once(':').map_or("", |(_, seconds)| seconds).split_once('.') {
        Some((_, rest)) => rest.bytes().take_while(u8::is_ascii_digit).count().min(MOST_DIGITS.into()) as u8,
        None => 0,
    };
    match value {
        Expr::Literal(text, _) if text.data_type().is_string() => text.try_as_str().flatten().map_or(0, written),
        _ => fraction(value, schema).unwrap_or(MOST_DIGITS),
    }
}

/// Returns the digits of a DATETIME that is read by a format.
fn format_digits(format: &Expr, has_fraction: fn(&str) -> bool) -> u8 {
    match format {
        Expr::Literal(format, _) if !format.try_as_str().flatten().is_some_and(has_fraction) => 0,
        _ => MOST_DIGITS,
    }
}

/// Derives the type of the result of a function. A DATETIME has one: its digits are those of the type, and not those that
/// each row needs. Only a text that is moved by an interval stays open, see [`moved`].
fn of_function(function: &ScalarFunction, result: &DataType, schema: &DFSchema) -> Option<String> {
    let name = function.func.name();
    let known = of_known_function(function, result, schema);
    let moves = matches!(name, "date_add" | "date_sub" | "timestampadd") || datetime::unit_of_named_add(name).is_some();
    let moves = moves || name == PLANNED_CHAIN;
    let stays = moves || name == CAST_NAME || name == TYPED_NAME || !matches!(result, DataType::Timestamp(..));
    // Columns of files have no declared digits: each row shows those that it has.
    let is_open = |arg: &Expr| {
        arg.get_type(schema).is_ok_and(|t| matches!(t, DataType::Timestamp(..))) && declared(arg, schema).is_none()
    };
    if known.is_some() && name != "convert_tz" || stays {
        return known;
    }
    if function.args.iter().any(is_open) {
        return None;
    }
    if known.is_some() {
        return known;
    }
    let digits = match datetime::is_of_points(name) {
        true => function.args.iter().map(|arg| moment_digits(arg, schema)).max().unwrap_or(MOST_DIGITS),
        false => MOST_DIGITS,
    };
    Some(datetime_of(digits))
}

fn of_known_function(function: &ScalarFunction, result: &DataType, schema: &DFSchema) -> Option<String> {
    let args = function.args.as_slice();
    let name = function.func.name();
    let first = args.first();
    let of_first = || declared(first?, schema);
    match (name, args) {
        // A cast of a query to text makes no document.
        (CAST_NAME, [Expr::Cast(Cast { field: to, .. }) | Expr::TryCast(TryCast { field: to, .. }), ..])
            if !to.data_type().is_nested() && holds_text(to.data_type()) =>
        {
            None
        }
        (CAST_NAME, _) => of_first(),
        // What a set operation does not know when it is planned.
        (TYPED_NAME, _) => of_first(),
        (one_row::OR_NULL, _) => of_first(),
        (one_row::ONLY_ROW, _) => member(&of_first()?, &ScalarValue::from(one_row::VALUE)),
        (ELEMENT_OF_JSON, _) => of_first().filter(|text| text == VARIANT),
        (JSON_ELEMENTS, [_, Expr::Literal(ScalarValue::Boolean(Some(true)), _)]) => Some(format!("array<{JSON}>")),
        ("now" | "utc_timestamp", []) => Some(SECONDS.into()),
        ("now" | "utc_timestamp", [Expr::Literal(p, _)]) => Some(datetime_of(given(p)?)),
        ("curtime" | "utc_time", []) => Some(TIME_SECONDS.into()),
        ("curtime" | "utc_time", [Expr::Literal(p, _)]) | ("time", [_, Expr::Literal(p, _)]) => {
            Some(SqlType::Time(given(p)?).to_string())
        }
        ("time" | "sec_to_time", [of]) => Some(SqlType::Time(fraction(of, schema)?).to_string()),
        ("maketime", [_, _, of]) => Some(SqlType::Time(fraction(of, schema)?).to_string()),
        ("timediff" | "addtime" | "subtime", [a, b]) => {
            Some(point_of(result, fraction(a, schema)?.max(fraction(b, schema)?)))
        }
        ("date_add" | "date_sub", [point, amount, Expr::Literal(unit, _)]) => {
            moved(point, unit_has_fraction(amount, unit, schema), schema)
        }
        ("timestampadd", [Expr::Literal(unit, _), amount, point]) => {
            moved(point, unit_has_fraction(amount, unit, schema), schema)
        }
        (name, [point, amount]) if let Some(unit) = datetime::unit_of_named_add(name) => {
            moved(point, unit_has_fraction(amount, &ScalarValue::from(unit), schema), schema)
        }
        // A point in time with many intervals.
        (PLANNED_CHAIN, [Expr::Literal(ScalarValue::IntervalMonthDayNano(_), _), point, rest @ ..])
        | (PLANNED_CHAIN, [point, rest @ ..])
            if rest.iter().all(|e| matches!(e.get_type(schema), Ok(DataType::Interval(_)))) =>
        {
            let is_moved = |e: &Expr| matches!(e.get_type(schema), Ok(DataType::Interval(_))) && has_fraction(e);
            moved(point, args.iter().any(is_moved), schema)
        }
        ("date_add" | "date_sub", [point, _]) => moved(point, false, schema),
        ("convert_tz", [point, ..]) => Some(datetime_of(moment_digits(point, schema))),
        // A fraction has all six digits, as in the text that Doris makes.
        ("from_unixtime", [of]) => Some(datetime_of(match of.get_type(schema).ok()? {
            t if t.is_integer() || t.is_null() => 0,
            _ => MOST_DIGITS,
        })),
        ("from_millisecond", _) => Some(datetime_of(3)),
        ("from_microsecond", _) => Some(datetime_of(6)),
        ("str_to_date" | "str_to_datetime", [_, format]) => {
            Some(datetime_of(format_digits(format, |format| format.replace("%%", "").contains("%f"))))
        }
        ("to_tera_timestamp", _) => Some(SECONDS.into()),
        ("str_to_jodatime", [_, format]) => Some(datetime_of(format_digits(format, |format| format.contains('S')))),
        ("coalesce" | "ifnull" | "greatest" | "least" | "nullif", _) => widest(args.iter(), schema),
        ("if", [_, values @ ..]) => widest(values.iter(), schema),
        ("element_at" | "array_element" | "array_max" | "array_min" | "array_first" | "array_last", _) => {
            inner(&of_first()?)
        }
        ("get_field" | "struct_element", [_, names @ ..]) => {
            names.iter().try_fold(of_first()?, |text, name| match name {
                Expr::Literal(name, _) => member(&text, name),
                _ => None,
            })
        }
        // The function's own field carries the type of a lambda's results, if it is known.
        ("array_map" | "map_apply" | "transform_keys" | "transform_values", _) => None,
        ("make_array", _) => Some(format!("array<{}>", widest(args.iter(), schema)?)),
        ("array_concat" | "array_union" | "map_concat", _) => widest(args.iter(), schema),
        ("array_append" | "array_pushfront", [array, value]) => {
            let value = match is_null(value) || is_empty(value, schema) {
                true => None,
                false => Some(format!("array<{}>", widest([value].into_iter(), schema)?)),
            };
            match (is_null(array) || is_empty(array, schema), value) {
                (true, value) => value,
                (false, None) => declared(array, schema),
                (false, Some(value)) => wider(declared(array, schema)?, &value),
            }
        }
        ("array_zip", _) => {
            let DataType::List(item) = result else { return None };
            let DataType::Struct(fields) = item.data_type() else { return None };
            let types = parts(args.iter(), schema)?.into_iter().map(|t| match t {
                SqlType::Array(item) => Some(*item),
                _ => None,
            });
            let types = types.collect::<Option<Vec<_>>>()?;
            let fields = fields.iter().zip(types).map(|(field, t)| (field.name().clone(), t, None));
            Some(SqlType::Array(Box::new(SqlType::Struct(fields.collect()))).to_string())
        }
        ("map_from_arrays", [_, _]) => match <[SqlType; 2]>::try_from(parts(args.iter(), schema)?) {
            Ok([SqlType::Array(keys), SqlType::Array(values)]) => Some(SqlType::Map(keys, values).to_string()),
            _ => None,
        },
        ("flatten", [array]) => {
            let mut text = declared(array, schema)?;
            while let Some(item) = text.strip_prefix("array<").and_then(|rest| rest.strip_suffix('>')) {
                text = item.to_string();
            }
            Some(format!("array<{text}>"))
        }
        (name, [value, ..]) if name.starts_with("cast_") => cast(value, result, schema),
        ("map_keys", _) => Some(format!("array<{}>", entry(&of_first()?)?.0)).filter(|text| tells(text)),
        ("map_values", _) => Some(format!("array<{}>", entry(&of_first()?)?.1)).filter(|text| tells(text)),
        ("map_entries", _) => {
            let (key, value) = entry(&of_first()?)?;
            Some(format!("array<struct<key:{key},value:{value}>>"))
        }
        ("named_struct" | "struct", _) => {
            let DataType::Struct(fields) = result else { return None };
            let (first, step) = if name == "struct" { (0, 1) } else { (1, 2) };
            let types = parts(args.iter().skip(first).step_by(step), schema)?;
            let fields = fields.iter().zip(types).map(|(field, t)| (field.name().clone(), t, None));
            Some(SqlType::Struct(fields.collect()).to_string())
        }
        ("map", [_, _]) => match <[SqlType; 2]>::try_from(parts(args.iter(), schema)?) {
            Ok([SqlType::Array(keys), SqlType::Array(values)]) => Some(SqlType::Map(keys, values).to_string()),
            _ => None,
        },
        ("array_generate" | "array_range", [point, _, amount, Expr::Literal(unit, _)]) => {
            Some(format!("array<{}>", moved(point, unit_has_fraction(amount, unit, schema), schema)?))
        }
        ("array_repeat", [value, _]) | ("array_with_constant", [_, value]) => {
            Some(format!("array<{}>", declared(value, schema)?))
        }
        // A text of a text is another one.
        _ if !holds_text(result) || result.is_nested() => {
            if first?.get_type(schema).ok()? != *result {
                return None;
            }
            // Such as the arrays of ARRAY_UNION, whose values are all in the result.
            let alike =
                args.iter().skip(1).filter(|arg| !is_null(arg) && arg.get_type(schema).is_ok_and(|t| t == *result));
            let mut alike = alike.map(|arg| declared(arg, schema));
            of_first().filter(|text| alike.all(|other| other.as_ref() == Some(text)))
        }
        _ => None,
    }
}

/// Derives the type of an aggregate or window function whose result is one of the values of its first argument, or an
/// array of them, or a map.
fn of_aggregate(name: &str, args: &[Expr], result: &DataType, schema: &DFSchema) -> Option<String> {
    let argument = args.first()?;
    let t = argument.get_type(schema).ok()?;
    match result {
        DataType::Map(..) if name == "map_agg" => match <[SqlType; 2]>::try_from(parts(args.iter(), schema)?) {
            Ok([key, value]) => Some(SqlType::Map(Box::new(key), Box::new(value)).to_string()),
            Err(_) => None,
        },
        // Many functions make texts of texts.
        result if holds_text(result) && !result.is_nested() && !returns_its_input(name) => None,
        result if *result == t => declared(argument, schema),
        DataType::List(item) if *item.data_type() == t => Some(format!("array<{}>", declared(argument, schema)?)),
        _ => None,
    }
}

/// Declares the digits of those arguments of a call that hold DATETIME or TIME, because functions convert them to text,
/// and of those that are or contain documents where a function makes JSON of values. Functions of dates and times do
/// not, and get their columns unchanged.
pub(super) fn arguments(function: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let name = function.func.name();
    // Formats, and the texts that are read by them, are texts.
    let first_text = match name {
        CAST_NAME | TYPED_NAME => None,
        "date_format" | "time_format" | "from_unixtime" | "unix_timestamp" | "jodatime_format" | "strftime" => Some(1),
        "str_to_date" | "str_to_datetime" | "str_to_jodatime" | "to_tera_date" | "to_tera_timestamp" => Some(0),
        name if datetime::is_of_points(name) => None,
        _ => Some(0),
    };
    let reads = reads_documents(name) || name == STRICT_NAME || name == WHOLE_NAME || name.starts_with("cast_");
    let wanted = |arg: &Expr| {
        let is_said = matches!(arg, Expr::ScalarFunction(f) if f.func.name() == TYPED_NAME);
        let is_read = || arg.get_type(schema).is_ok_and(|t| holds_digits(&t) || reads && holds_text(&t));
        // Also done for columns whose fields carry the type: the result of an aggregate or a CASE below lacks it at run
        // time, and a scan evaluates WHERE over columns without metadata.
        if is_said || !is_read() { None } else { declared(arg, schema) }
    };
    let Some(first_text) = first_text else { return Transformed::no(Expr::ScalarFunction(function)) };
    let mut texts: Vec<Option<String>> = function.args.iter().map(wanted).collect();
    texts.iter_mut().take(first_text).for_each(|text| *text = None);
    if texts.iter().flatten().any(|text| has_names(text)) {
        // Only casts and calls that return text are told the types of structs; other functions see the fields as they
        // are.
        let result = Expr::ScalarFunction(function.clone()).get_type(schema);
        if name != CAST_PARTS && !result.is_ok_and(|t| Class::of(&t) == Class::Text) {
            texts.iter_mut().for_each(|text| *text = text.take().filter(|text| !has_names(text)));
        }
    }
    if texts.iter().all(Option::is_none) {
        return Transformed::no(Expr::ScalarFunction(function));
    }
    let args = function.args.into_iter().zip(texts).map(|(arg, text)| match text {
        Some(text) => Typed::declare(arg, &text),
        None => arg,
    });
    Transformed::yes(Expr::ScalarFunction(ScalarFunction { args: args.collect(), func: function.func }))
}

/// Applies [`arguments`] to a call that was just built.
pub(super) fn argument_of(call: Expr, schema: &DFSchema) -> Transformed<Expr> {
    match call {
        Expr::ScalarFunction(function) => Transformed::yes(arguments(function, schema).data),
        other => Transformed::yes(other),
    }
}

/// Returns the field of an expression, with the SQL type that follows from the fields that it reads.
///
/// # Errors
/// A planning error if the expression has no type.
pub(super) fn field_of(expr: &Expr, schema: &DFSchema) -> Result<FieldRef> {
    let (_, field) = expr.to_field(schema)?;
    if !may_say_more(field.data_type()) || said(&field).is_some() {
        return Ok(field);
    }
    Ok(match declared(expr, schema) {
        Some(text) => with_text(&field, text),
        None => field,
    })
}

/// Returns the field with this SQL type in its metadata, and the analyzer that is there.
pub(super) fn with_text(field: &Field, text: String) -> FieldRef {
    let key = if has_names(&text) { DIGITS_KEY } else { TYPE_KEY };
    let analyzer = field.metadata().get(ANALYZER_KEY).map(|text| (ANALYZER_KEY.to_string(), text.clone()));
    Arc::new(field.clone().with_metadata(analyzer.into_iter().chain([(key.to_string(), text)]).collect()))
}

/// Returns the plan with the SQL types that follow from its expressions and inputs in its schema.
///
/// # Errors
/// An error of building the plan's schema.
pub(super) fn schema(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Projection(projection) => {
            let Some(schema) = computed(&projection.schema, &projection.expr, projection.input.schema(), 0) else {
                return Ok(LogicalPlan::Projection(projection));
            };
            let Projection { expr, input, .. } = projection;
            LogicalPlan::Projection(Projection::try_new_with_schema(expr, input, Arc::new(schema))?)
        }
        LogicalPlan::Aggregate(aggregate) => {
            let grouping_sets = matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)]);
            // The columns of grouping sets come before the aggregates and are not written as expressions.
            let expressions: Vec<Expr> = match grouping_sets {
                true => Vec::new(),
                false => aggregate.group_expr.clone(),
            };
            let from = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
            let input = aggregate.input.schema();
            let keys = computed(&aggregate.schema, &expressions, input, 0);
            let schema = keys.as_ref().unwrap_or(&aggregate.schema);
            let all = computed(schema, &aggregate.aggr_expr, input, from).or_else(|| keys.clone());
            let Some(schema) = all else { return Ok(LogicalPlan::Aggregate(aggregate)) };
            let Aggregate { input, group_expr, aggr_expr, .. } = aggregate;
            LogicalPlan::Aggregate(Aggregate::try_new_with_schema(input, group_expr, aggr_expr, Arc::new(schema))?)
        }
        LogicalPlan::Window(window) => {
            let width = window.input.schema().fields().len();
            let inherited = inherited(&window.schema, &[window.input.schema()]);
            let schema = inherited.as_ref().unwrap_or(&window.schema);
            let all = computed(schema, &window.window_expr, window.input.schema(), width).or_else(|| inherited.clone());
            match all {
                Some(schema) => LogicalPlan::Window(Window { schema: Arc::new(schema), ..window }),
                None => LogicalPlan::Window(window),
            }
        }
        LogicalPlan::Unnest(mut unnest) => {
            let input = Arc::clone(unnest.input.schema());
            let found = with(&unnest.schema, |at, field| {
                let from = input.fields().get(*unnest.dependency_indices.get(at)?)?;
                element(said(from)?.to_string(), from.data_type(), field.data_type())
            });
            if let Some(schema) = found {
                unnest.schema = Arc::new(schema);
            }
            LogicalPlan::Unnest(unnest)
        }
        LogicalPlan::SubqueryAlias(mut alias) => {
            if let Some(schema) = inherited(&alias.schema, &[alias.input.schema()]) {
                alias.schema = Arc::new(schema);
            }
            LogicalPlan::SubqueryAlias(alias)
        }
        LogicalPlan::Join(mut join) => {
            // The columns of a semi, anti or mark join are those of the side that it keeps, from the first column on.
            let (keeps_left, keeps_right) = match join.join_type {
                JoinType::Inner | JoinType::Left | JoinType::Right | JoinType::Full => (true, true),
                JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => (true, false),
                JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => (false, true),
            };
            let sides = [keeps_left.then(|| join.left.schema()), keeps_right.then(|| join.right.schema())];
            let sides: Vec<_> = sides.into_iter().flatten().collect();
            if let Some(schema) = inherited(&join.schema, &sides) {
                join.schema = Arc::new(schema);
            }
            LogicalPlan::Join(join)
        }
        LogicalPlan::Union(mut union) => {
            let inputs: Vec<_> = union.inputs.clone();
            let widest = |at: usize| {
                let given = inputs.iter().filter(|input| !gives_null(input, at));
                common_text(given.map(|input| said(input.schema().field(at))))
            };
            if let Some(schema) = with(&union.schema, |at, _| widest(at)) {
                union.schema = Arc::new(schema);
            }
            LogicalPlan::Union(union)
        }
        plan => plan,
    })
}

/// Whether a column of a plan is written as NULL, which fits every type.
fn gives_null(plan: &LogicalPlan, at: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => projection.expr.get(at).is_some_and(|expr| {
            let input = &projection.input;
            match without_casts(expr) {
                Expr::Column(column) => {
                    let at = input.schema().maybe_index_of_column(column);
                    is_empty(expr, input.schema()) || at.is_some_and(|at| gives_null(input, at))
                }
                value => is_null(value) || is_empty(value, input.schema()),
            }
        }),
        LogicalPlan::SubqueryAlias(alias) => gives_null(&alias.input, at),
        _ => false,
    }
}

/// Returns what an expression renames and casts.
fn without_casts(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => without_casts(&alias.expr),
        Expr::Cast(Cast { expr, .. }) | Expr::TryCast(TryCast { expr, .. }) => without_casts(expr),
        Expr::ScalarFunction(function) if is_cast(function.func.name()) => {
            function.args.first().map_or(expr, without_casts)
        }
        expr => expr,
    }
}

/// Returns the schema with the types of expressions in the fields from number `from` on; `None` if nothing is added.
fn computed(schema: &DFSchema, expressions: &[Expr], input: &DFSchema, from: usize) -> Option<DFSchema> {
    // Each look-up of a column compares names, so most columns of wide inputs are not looked up.
    let told: HashSet<&str> =
        input.fields().iter().filter(|field| said(field).is_some()).map(|field| field.name().as_str()).collect();
    let is_open = |expr: &Expr| match expr {
        Expr::Column(column) => told.contains(column.name.as_str()),
        Expr::Alias(alias) if let Expr::Column(column) = alias.expr.as_ref() => told.contains(column.name.as_str()),
        _ => true,
    };
    with(schema, |at, _| {
        let expr = expressions.get(at.checked_sub(from)?)?;
        if is_open(expr) { declared(expr, input) } else { None }
    })
}

/// Returns the schema with the types of the inputs' fields, where the inputs are concatenated.
fn inherited(schema: &DFSchema, inputs: &[&Arc<DFSchema>]) -> Option<DFSchema> {
    let fields: Vec<&FieldRef> = inputs.iter().flat_map(|input| input.fields().iter()).collect();
    with(schema, |at, field| {
        let input = fields.get(at).filter(|input| input.data_type() == field.data_type())?;
        said(input).map(str::to_string)
    })
}

/// Returns the schema with SQL types from `text` for fields whose types may say more than Arrow's and do not; `None` if
/// nothing changes.
fn with(schema: &DFSchema, text: impl Fn(usize, &Field) -> Option<String>) -> Option<DFSchema> {
    let wants = |field: &Field| may_say_more(field.data_type()) && said(field).is_none();
    if !schema.fields().iter().any(|field| wants(field)) {
        return None;
    }
    let mut changed = false;
    let fields: Vec<(Option<TableReference>, FieldRef)> = schema
        .iter()
        .enumerate()
        .map(|(at, (table, field))| {
            let text = if wants(field) { text(at, field) } else { None };
            let field = match text {
                Some(text) => {
                    changed = true;
                    with_text(field, text)
                }
                None => Arc::clone(field),
            };
            (table.cloned(), field)
        })
        .collect();
    if !changed {
        return None;
    }
    let made = DFSchema::new_with_metadata(fields, schema.metadata().clone()).ok()?;
    made.with_functional_dependencies(schema.functional_dependencies().clone()).ok()
}
