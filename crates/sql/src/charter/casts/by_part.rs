//! Casts of nested values to other nested types: each part is cast as CAST casts the part by itself.
//!
//! Arrow's casts of lists, maps and structs cast their parts by Arrow's rules, which are not MySQL's: a date would
//! become the days since 1970, and `'1.9'` no integer. The types of Arrow also lack what SQL's say: `ARRAY<VARCHAR(3)>`
//! cuts its texts, `ARRAY<DATETIME>` rounds to seconds, `ARRAY<JSON>` reads documents.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringViewArray, StructArray, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, plan_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use dipper_base::address::holds_address;
use dipper_base::json::write_variant;
use dipper_base::types::SqlType;
use dipper_dialect::parser::parse_type;

use super::{cast_array, cast_values, differs, plain};
use crate::charter::datetime::rounded;
use crate::charter::declared::{declared_type, digits_of, has_names};
use crate::charter::nested::{self, holds_map};
use crate::class::{Class, DATETIME, TIME, places};
use crate::functions::datetime::zone::Zone;
use crate::functions::{CAST_PARTS, canonical, content_of, document};
use crate::metadata::{DIGITS_KEY, TYPE_KEY};
use crate::type_text::Sql;

/// What casts of text need to know besides the types.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context<'a> {
    /// The SQL type of the values, where it says more than Arrow's type.
    pub from: Option<&'a SqlType>,
    /// The session's zone. Without it, a time that is followed by a zone does not convert.
    pub session: Option<Zone>,
    /// The digits of DATETIME values that become text.
    pub digits: Option<u8>,
    /// Whether blanks at the end of `CHAR(n)` are kept.
    pub keeps_blanks: bool,
}

/// Whether nested values of one type are cast to another part by part, because Arrow's cast would give other parts, or
/// would fail.
pub(super) fn is_by_part(from: &DataType, to: &DataType) -> bool {
    let is_nested = from.is_nested() && to.is_nested();
    is_nested
        && (holds_map(from) && holds_map(to) || holds_address(from) || holds_address(to) || has_own_cast(from, to))
}

/// Whether the cast of a part differs from Arrow's.
fn has_own_cast(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        _ if is_unlike(from, to) => true,
        (DataType::List(from), DataType::List(to)) => has_own_cast(from.data_type(), to.data_type()),
        // Arrow finds all fields by name.
        (DataType::Struct(from), DataType::Struct(to)) => to.iter().any(|field| {
            from.find(field.name()).is_none_or(|(_, from)| has_own_cast(from.data_type(), field.data_type()))
        }),
        // Nested types of other forms, such as those of large lists, are cast by Arrow.
        _ => !(from.is_nested() && to.is_nested()) && differs(from, to),
    }
}

/// Whether a cast between nested types leaves out fields of structs.
pub fn loses_fields(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        (DataType::List(from), DataType::List(to)) | (DataType::Map(from, _), DataType::Map(to, _)) => {
            loses_fields(from.data_type(), to.data_type())
        }
        (DataType::Struct(from), DataType::Struct(to)) => {
            let places = places(from, to);
            let is_lost = |at: usize| !places.contains(&Some(at));
            let inside = |(field, place): (&FieldRef, &Option<usize>)| {
                place.is_some_and(|at| loses_fields(from[at].data_type(), field.data_type()))
            };
            (0..from.len()).any(is_lost) || to.iter().zip(&places).any(inside)
        }
        _ => false,
    }
}

/// Fails for casts that leave out fields of structs.
///
/// # Errors
/// `Plan` if there is such a field.
pub(super) fn keeps_fields(from: &DataType, to: &DataType) -> Result<()> {
    match loses_fields(from, to) {
        true => plan_err!("cannot cast {} to {}: fields would be lost", Sql(from), Sql(to)),
        false => Ok(()),
    }
}

/// Whether one type is that of arrays, maps or structs, and the other that of another of these.
fn is_unlike(from: &DataType, to: &DataType) -> bool {
    let kind = |t: &DataType| match t {
        DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..) => Some(0),
        DataType::Map(..) => Some(1),
        DataType::Struct(_) => Some(2),
        _ => None,
    };
    matches!((kind(from), kind(to)), (Some(from), Some(to)) if from != to)
}

/// Casts nested values part by part.
///
/// # Errors
/// Arrow's error if it has no cast between the types of a part; `Plan` if an array would become a map or a struct, and
/// the like.
pub(super) fn cast(array: &ArrayRef, to: &DataType, context: Context<'_>) -> Result<ArrayRef> {
    parts(array, to, None, context)
}

/// Casts values to a nested type, or to a part of one. `sql` is the part's SQL type, if it is known.
pub(super) fn parts(array: &ArrayRef, to: &DataType, sql: Option<&SqlType>, context: Context<'_>) -> Result<ArrayRef> {
    match (array.data_type(), to) {
        // Arrow would make lists of one map or struct.
        (from, to) if is_unlike(from, to) => plan_err!("cannot cast {} to {}", Sql(from), Sql(to)),
        (DataType::List(from), DataType::List(item)) => {
            let of = if let Some(SqlType::Array(of)) = context.from { Some(&**of) } else { None };
            let context = Context { from: of, digits: digits_of(from).or(context.digits), ..context };
            let sql = if let Some(SqlType::Array(item)) = sql { Some(item.as_ref()) } else { None };
            let (_, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            let values = parts(&values, item.data_type(), sql, context)?;
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
        }
        (DataType::Map(..), DataType::Map(entries, _)) => {
            let DataType::Struct(fields) = entries.data_type() else { return Ok(new_null_array(to, array.len())) };
            let (key, value) = match sql {
                Some(SqlType::Map(key, value)) => (Some(key.as_ref()), Some(value.as_ref())),
                _ => (None, None),
            };
            let of = match context.from {
                Some(SqlType::Map(key, value)) => (Some(&**key), Some(&**value)),
                _ => (None, None),
            };
            let maps = array.as_map();
            let keys = parts(maps.keys(), fields[0].data_type(), key, Context { from: of.0, ..context })?;
            let values = parts(maps.values(), fields[1].data_type(), value, Context { from: of.1, ..context })?;
            nested::maps(maps, &keys, &values, to)
        }
        (DataType::Struct(from), DataType::Struct(fields)) => {
            let sql = if let Some(SqlType::Struct(fields)) = sql { Some(fields) } else { None };
            let whole = array.as_struct();
            let places = places(from, fields);
            if places.iter().all(Option::is_none) && !fields.is_empty() {
                return plan_err!("cannot cast {} to {}: no field has the same name", Sql(array.data_type()), Sql(to));
            }
            let columns = fields.iter().zip(places).enumerate().map(|(at, (field, place))| {
                let Some(place) = place else { return Ok(new_null_array(field.data_type(), whole.len())) };
                let of = match context.from {
                    Some(SqlType::Struct(of)) if of.len() == from.len() => Some(&of[place].1),
                    _ => None,
                };
                let context = Context { from: of, digits: digits_of(&from[place]).or(context.digits), ..context };
                let sql = sql.and_then(|fields| fields.get(at)).map(|(_, sql, _)| sql);
                parts(whole.column(place), field.data_type(), sql, context)
            });
            let columns = columns.collect::<Result<Vec<_>>>()?;
            Ok(Arc::new(StructArray::try_new_with_length(
                fields.clone(),
                columns,
                whole.nulls().cloned(),
                whole.len(),
            )?))
        }
        (from, to) if to.is_nested() && Class::of(from) == Class::Text => {
            let read = nested::of_texts(plain(array)?.as_string_view(), to)?;
            match sql.filter(|sql| has_limits(sql)) {
                Some(sql) => parts(&read, to, Some(sql), context),
                None => Ok(read),
            }
        }
        _ => part(array, to, sql, context),
    }
}

/// Casts parts that are not nested.
fn part(array: &ArrayRef, to: &DataType, sql: Option<&SqlType>, context: Context<'_>) -> Result<ArrayRef> {
    let contents;
    let array = match contents_of(array, to, sql, context.from)? {
        Some(found) => {
            contents = found;
            &contents
        }
        None => array,
    };
    let plainly = |to: &DataType| match array.data_type() {
        from if from == to => Ok(Arc::clone(array)),
        from if differs(from, to) => cast_array(array, to, context.session, context.digits),
        _ => cast_values(array, to),
    };
    match sql {
        Some(SqlType::Char(Some(most)) | SqlType::Varchar(Some(most))) => {
            let most = usize::try_from(*most).unwrap_or(usize::MAX);
            let keeps_blanks = context.keeps_blanks || !matches!(sql, Some(SqlType::Char(_)));
            Ok(cut(&plainly(&DataType::Utf8View)?, most, keeps_blanks))
        }
        Some(SqlType::DateTime(digits)) => Ok(rounded(&plainly(&DATETIME)?, *digits)),
        Some(SqlType::Time(digits)) => Ok(rounded(&plainly(&TIME)?, *digits)),
        Some(SqlType::Json) if Class::of(array.data_type()) == Class::Text => {
            let texts = plain(array)?;
            let texts = texts.as_string_view().iter().map(|text| text.and_then(canonical));
            Ok(Arc::new(texts.collect::<StringViewArray>()))
        }
        Some(SqlType::Json) if !array.data_type().is_null() => {
            Ok(Arc::new(nested::json(array, context.digits, context.from)?))
        }
        Some(SqlType::Variant) if !array.data_type().is_null() => variants(array, context),
        _ => plainly(to),
    }
}

/// Returns what documents contain, where something else is made of them: text, or the text of another single value. The
/// text of a VARIANT is what it contains.
fn contents_of(
    array: &ArrayRef,
    to: &DataType,
    sql: Option<&SqlType>,
    from: Option<&SqlType>,
) -> Result<Option<ArrayRef>> {
    let makes_text = Class::of(to) == Class::Text;
    let is_wanted = match from {
        Some(SqlType::Json) => !matches!(sql, Some(SqlType::Json | SqlType::Variant)),
        Some(SqlType::Variant) => !makes_text,
        _ => false,
    };
    if !is_wanted || to.is_nested() || Class::of(array.data_type()) != Class::Text {
        return Ok(None);
    }
    let texts = plain(array)?;
    let contents = texts.as_string_view().iter().map(|text| content_of(text?, !makes_text));
    Ok(Some(Arc::new(contents.collect::<StringViewArray>())))
}

/// Makes VARIANTs. Text that is no document is a string, which is shown by its characters.
fn variants(array: &ArrayRef, context: Context<'_>) -> Result<ArrayRef> {
    let texts = match Class::of(array.data_type()) {
        Class::Text => plain(array)?.as_string_view().clone(),
        _ => nested::json(array, context.digits, context.from)?,
    };
    let variant = |text: &str| {
        document(text).map_or_else(
            || text.to_string(),
            |document| {
                let mut out = String::new();
                write_variant(&mut out, document);
                out
            },
        )
    };
    Ok(Arc::new(texts.iter().map(|text| text.map(variant)).collect::<StringViewArray>()))
}

/// Cuts texts (`Utf8View`) to `most` characters, and then, unless they are kept, blanks at their ends.
pub(super) fn cut(texts: &ArrayRef, most: usize, keeps_blanks: bool) -> ArrayRef {
    let cut = |text: &'_ str| {
        let whole = text.len() <= most;
        let end = if whole { None } else { text.char_indices().nth(most) }.map_or(text.len(), |(at, _)| at);
        if keeps_blanks { end } else { text[..end].trim_end_matches(' ').len() }
    };
    let values = texts.as_string_view();
    if values.iter().flatten().all(|text| cut(text) == text.len()) {
        return Arc::clone(texts);
    }
    Arc::new(values.iter().map(|text| text.map(|text| &text[..cut(text)])).collect::<StringViewArray>())
}

/// Whether a nested SQL type says more than its Arrow type.
pub(in crate::charter) fn has_limits(t: &SqlType) -> bool {
    match t {
        SqlType::Array(item) => has_limits(item),
        SqlType::Map(key, value) => has_limits(key) || has_limits(value),
        SqlType::Struct(fields) => fields.iter().any(|(_, t, _)| has_limits(t)),
        SqlType::Char(most) | SqlType::Varchar(most) => most.is_some(),
        SqlType::DateTime(digits) | SqlType::Time(digits) => *digits < 6,
        SqlType::Json | SqlType::Variant => true,
        _ => false,
    }
}

/// Returns the SQL type with no more than the JSON that is made of parts that are no text; `None` if there is none.
pub(super) fn made_json(from: &DataType, declared: &SqlType) -> Option<SqlType> {
    let plain = || Box::new(SqlType::String);
    Some(match (from, declared) {
        (DataType::List(from), SqlType::Array(item)) => SqlType::Array(Box::new(made_json(from.data_type(), item)?)),
        (DataType::Map(from, _), SqlType::Map(_, value)) => match from.data_type() {
            DataType::Struct(from) if from.len() == 2 => {
                SqlType::Map(plain(), Box::new(made_json(from[1].data_type(), value)?))
            }
            _ => return None,
        },
        (DataType::Struct(from), SqlType::Struct(fields)) => {
            let named: Fields = fields.iter().map(|(name, ..)| Field::new(name, DataType::Null, true)).collect();
            let made = |(place, (_, declared, _)): (Option<usize>, &(String, SqlType, Option<String>))| {
                made_json(from[place?].data_type(), declared)
            };
            let made: Vec<Option<SqlType>> = places(from, &named).into_iter().zip(fields).map(made).collect();
            if made.iter().all(Option::is_none) {
                return None;
            }
            let fields = fields.iter().zip(made);
            SqlType::Struct(fields.map(|((name, ..), t)| (name.clone(), t.unwrap_or(*plain()), None)).collect())
        }
        (from, SqlType::Json) if !from.is_null() && Class::of(from) != Class::Text => SqlType::Json,
        _ => return None,
    })
}

/// Whether a nested SQL type has texts inside. A cast makes them of documents, which no Arrow type tells from texts.
pub(in crate::charter) fn has_texts(t: &SqlType) -> bool {
    match t {
        SqlType::Array(item) => has_texts(item),
        SqlType::Map(key, value) => has_texts(key) || has_texts(value),
        SqlType::Struct(fields) => fields.iter().any(|(_, t, _)| has_texts(t)),
        SqlType::String | SqlType::Varchar(_) | SqlType::Char(_) => true,
        _ => false,
    }
}

/// `dipper_cast_parts(x, 'array<varchar(3)>')`: the cast of x to the nested type that the text names.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(in crate::charter) struct CastParts {
    signature: Signature,
}

impl Default for CastParts {
    fn default() -> Self {
        CastParts { signature: Signature::any(2, Volatility::Immutable) }
    }
}

/// Reads the name of the type.
fn named(text: Option<&str>) -> Result<SqlType> {
    let text = text.ok_or_else(|| plan_datafusion_err!("the type of a cast is a constant"))?;
    parse_type(text).map_err(|e| plan_datafusion_err!("{e}"))
}

impl ScalarUDFImpl for CastParts {
    fn name(&self) -> &str {
        CAST_PARTS
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(plan_datafusion_err!("the type of a cast is a constant"))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let text = args.scalar_arguments.get(1).copied().flatten().and_then(ScalarValue::try_as_str).flatten();
        let to = named(text)?;
        if let Some(value) = args.arg_fields.first() {
            keeps_fields(value.data_type(), &to.to_arrow())?;
        }
        let text = to.to_string();
        let key = if has_names(&text) { DIGITS_KEY } else { TYPE_KEY };
        let field = Field::new(self.name(), to.to_arrow(), true);
        Ok(Arc::new(field.with_metadata([(key.to_string(), text)].into())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let from = args.arg_fields.first().and_then(|field| declared_type(field));
        let context = Context {
            from: from.as_ref(),
            session: Some(Zone::of_session(&args.config_options)?),
            digits: args.arg_fields.first().and_then(|field| digits_of(field)),
            keeps_blanks: true,
        };
        let [value, ColumnarValue::Scalar(text)] = &args.args[..] else {
            return Err(plan_datafusion_err!("the type of a cast is a constant"));
        };
        let to = named(text.try_as_str().flatten())?;
        let arrow = to.to_arrow();
        let cast = |array: &ArrayRef| match array.data_type() {
            // A single value is no list of one element.
            from if from.is_null() || !from.is_nested() && Class::of(from) != Class::Text => {
                Ok(new_null_array(&arrow, array.len()))
            }
            _ => parts(array, &arrow, Some(&to), context),
        };
        Ok(match value {
            ColumnarValue::Array(array) => ColumnarValue::Array(cast(array)?),
            ColumnarValue::Scalar(scalar) => {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&cast(&scalar.to_array()?)?, 0)?)
            }
        })
    }
}
