//! JSON functions over text columns. Results are compact, in Doris's format.

use arrow::array::{Array, ArrayRef, StringViewArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::ScalarUDF;
use dipper_dialect::explode::JSON_ELEMENTS;
use serde_json::Value;

use super::args::{Args, Col};
use super::func::{Def, ELEMENT_OF_JSON, MANY, PART_OF_JSON, Ret, def};
use super::json_path::{
    Kind, Leg, compact, document, is_many, kind, members, parse_bare_path, parse_path, select, select_over_arrays,
    unquote, write_document,
};
use super::nested::{CAST_JSON, CAST_PARTS, CAST_VARIANT, JSON_MEMBERS, TO_JSON};
use super::search::{text_list, text_lists};
use super::whole::{LARGEINT, large};
use crate::charter::nested;
use crate::charter::text::parse_boolean;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("json_extract", &["jsonb_extract", "json_query"], (2, MANY), Ret::Json, json_extract),
    def("json_extract_no_quotes", &["jsonb_extract_no_quotes"], (2, MANY), Ret::Text, json_extract_no_quotes),
    def("json_unquote", &[], (1, 1), Ret::Text, json_unquote),
    def("json_quote", &[], (1, 1), Ret::Text, json_quote),
    def("json_valid", &["jsonb_valid"], (1, 1), Ret::Int, json_valid),
    def("json_parse", &["jsonb_parse", "parse_json"], (1, 1), Ret::Json, |a| json_parse(a, true)),
    def("json_parse_error_to_null", &["jsonb_parse_error_to_null"], (1, 1), Ret::Json, |a| json_parse(a, false)),
    def("json_length", &[], (1, 2), Ret::Int, json_length),
    def("json_type", &["jsonb_type"], (1, 2), Ret::Text, json_type),
    def("json_keys", &["jsonb_keys"], (1, 2), Ret::By(text_list), json_keys),
    def(JSON_ELEMENTS, &[], (2, 2), Ret::By(text_list), json_elements),
    def("json_contains", &[], (2, 3), Ret::Bool, json_contains),
    def("json_contains_path", &[], (3, MANY), Ret::Bool, json_contains_path),
    def("json_exists_path", &["jsonb_exists_path", "json_exists"], (2, 2), Ret::Bool, |a| {
        at_path(a).bools(|v| Some(v.is_some()))
    }),
    def("json_array", &["jsonb_array"], (0, MANY), Ret::Json, json_array),
    def("json_object", &["jsonb_object"], (0, MANY), Ret::Json, json_object),
    def("get_json_string", &["get_json_object"], (2, 2), Ret::Text, get_json_string),
    def(PART_OF_JSON, &["jsonb_extract_string"], (2, 2), Ret::Text, json_extract_string),
    JSON_VALUE,
    AS_TEXT,
    AS_SCALAR,
    AS_FLAG,
    def("get_json_int", &["json_extract_int", "jsonb_extract_int"], (2, 2), Ret::Int, |a| {
        at_path(a).ints(|v| i32::try_from(whole(v?)?).ok().map(i64::from))
    }),
    def("get_json_bigint", &["json_extract_bigint", "jsonb_extract_bigint"], (2, 2), Ret::Int, |a| {
        at_path(a).ints(|v| i64::try_from(whole(v?)?).ok())
    }),
    def("json_extract_largeint", &["jsonb_extract_largeint"], (2, 2), Ret::By(|_| Ok(LARGEINT)), |a| {
        let values = at_path(a).collect(|v| whole(v?))?;
        large(a, |i| Ok(values[i]))
    }),
    def("get_json_double", &["json_extract_double", "jsonb_extract_double"], (2, 2), Ret::Double, |a| {
        at_path(a).doubles(|v| {
            let v = v?;
            match kind(v) {
                Kind::Integer | Kind::Double => v.parse().ok(),
                Kind::Bool => Some(f64::from(u8::from(v == "true"))),
                _ => None,
            }
        })
    }),
    def("get_json_bool", &["json_extract_bool", "jsonb_extract_bool"], (2, 2), Ret::Bool, |a| {
        at_path(a).bools(|v| match (kind(v?), v?) {
            (Kind::Bool, v) => Some(v == "true"),
            (Kind::Integer | Kind::Double, v) => v.parse::<f64>().ok().map(|v| v != 0.0),
            _ => None,
        })
    }),
    def("json_extract_isnull", &["jsonb_extract_isnull"], (2, 2), Ret::Bool, |a| {
        at_path(a).bools(|v| Some(v? == "null"))
    }),
];

/// The paths of a column; a path is parsed only when its text differs from that of the row before.
pub struct Paths<'a> {
    column: &'a Col<StringViewArray>,
    parse: fn(&str) -> Option<Vec<Leg>>,
    last: Option<(String, Option<Vec<Leg>>)>,
}

impl<'a> Paths<'a> {
    /// Paths for reading, which need not begin with `$`.
    pub fn new(column: &'a Col<StringViewArray>) -> Self {
        Paths { column, parse: parse_bare_path, last: None }
    }

    /// Paths for changes, which begin with `$`.
    pub fn to_change(column: &'a Col<StringViewArray>) -> Self {
        Paths { column, parse: parse_path, last: None }
    }

    /// Returns the path of row `i`: `None` for NULL, an error for a text that is not a path.
    pub fn at(&mut self, name: &str, i: usize) -> Result<Option<&[Leg]>> {
        let Some(text) = self.column.at(i) else {
            return Ok(None);
        };
        if self.last.as_ref().is_none_or(|(last, _)| last != text) {
            self.last = Some((text.to_owned(), (self.parse)(text)));
        }
        match &self.last {
            Some((_, Some(legs))) => Ok(Some(legs)),
            _ => exec_err!("{name}: expected a JSON path such as $.name[0], found '{text}'"),
        }
    }
}

/// The values of the first argument at the paths in the second, row by row.
struct AtPath<'a> {
    args: &'a Args<'a>,
    docs: Result<Col<StringViewArray>>,
    paths: Result<Col<StringViewArray>>,
}

fn at_path<'a>(args: &'a Args<'a>) -> AtPath<'a> {
    AtPath { args, docs: args.text(0), paths: args.text(1) }
}

impl AtPath<'_> {
    /// Calls `f` once per row: with `None` if an argument is NULL or the document is not JSON, with `Some(None)` if
    /// there is no value at the path, else with the first value.
    fn each(self, mut f: impl FnMut(Option<Option<&str>>)) -> Result<()> {
        let (docs, paths) = (self.docs?, self.paths?);
        let mut paths = Paths::new(&paths);
        let mut found = Vec::new();
        for i in 0..self.args.rows {
            let legs = paths.at(self.args.name, i)?;
            let (Some(doc), Some(legs)) = (docs.at(i).and_then(document), legs) else {
                f(None);
                continue;
            };
            found.clear();
            select(doc, legs, &mut found);
            f(Some(found.first().copied()));
        }
        Ok(())
    }

    fn collect<T>(self, mut f: impl FnMut(Option<&str>) -> Option<T>) -> Result<Vec<Option<T>>> {
        let mut out = Vec::with_capacity(self.args.rows);
        self.each(|v| out.push(v.and_then(&mut f)))?;
        Ok(out)
    }

    fn ints(self, f: impl FnMut(Option<&str>) -> Option<i64>) -> Result<ArrayRef> {
        let args = self.args;
        let values = self.collect(f)?;
        args.ints(|i| values[i])
    }

    fn doubles(self, f: impl FnMut(Option<&str>) -> Option<f64>) -> Result<ArrayRef> {
        let args = self.args;
        let values = self.collect(f)?;
        args.doubles(|i| values[i])
    }

    fn bools(self, f: impl FnMut(Option<&str>) -> Option<bool>) -> Result<ArrayRef> {
        let args = self.args;
        let values = self.collect(f)?;
        args.bools(|i| values[i])
    }
}

/// Returns a number without its fraction; true is 1.
fn whole(v: &str) -> Option<i128> {
    match kind(v) {
        Kind::Integer => v.parse().ok(),
        Kind::Double => super::whole::truncated(v.parse().ok()?),
        Kind::Bool => Some((v == "true").into()),
        _ => None,
    }
}

/// Returns the value of a call with one path, or an array of the values of several paths, as JSON.
fn json_extract(a: &Args) -> Result<ArrayRef> {
    extract(a, compact)
}

/// JSON_EXTRACT, but a result that is a single text is returned without quotes.
fn json_extract_no_quotes(a: &Args) -> Result<ArrayRef> {
    extract(a, |out, value| match unquote(value).filter(|_| kind(value) == Kind::Text) {
        Some(text) => out.push_str(&text),
        None => compact(out, value),
    })
}

fn extract(a: &Args, write_one: fn(&mut String, &str)) -> Result<ArrayRef> {
    let docs = a.text(0)?;
    let columns = (1..a.len()).map(|k| a.text(k)).collect::<Result<Vec<_>>>()?;
    let mut paths: Vec<Paths> = columns.iter().map(Paths::new).collect();
    let mut failure = None;
    let out = a.texts(|i, out| {
        let doc = document(docs.at(i)?)?;
        let mut found = Vec::new();
        let mut many = paths.len() > 1;
        for path in &mut paths {
            match path.at(a.name, i) {
                Ok(legs) => {
                    let legs = legs?;
                    many |= is_many(legs);
                    select(doc, legs, &mut found);
                }
                Err(e) => {
                    failure = Some(e);
                    return None;
                }
            }
        }
        if found.is_empty() {
            return None;
        }
        if !many {
            write_one(out, found[0]);
            return Some(());
        }
        write_array(out, found.iter().copied());
        Some(())
    })?;
    failure.map_or(Ok(out), Err)
}

/// Appends values as a JSON array.
pub fn write_array<'a>(out: &mut String, values: impl Iterator<Item = &'a str>) {
    out.push('[');
    for (n, v) in values.enumerate() {
        if n > 0 {
            out.push(',');
        }
        compact(out, v);
    }
    out.push(']');
}

/// Returns a value as text; `None` for null.
fn value_text(v: &str) -> Option<String> {
    match kind(v) {
        Kind::Null => None,
        Kind::Text => unquote(v),
        _ => {
            let mut out = String::new();
            compact(&mut out, v);
            Some(out)
        }
    }
}

const JSON_VALUE: Def = def(ELEMENT_OF_JSON, &[], (2, 2), Ret::Text, json_extract_string);

/// What a cast takes from a document.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Content {
    /// The characters of a text, the text of any other value, NULL for null.
    Text,
    /// The same of a single value, 1 and 0 for true and false; NULL for arrays and objects.
    Scalar,
    /// A truth value: numbers are true unless they are 0.
    Flag,
}

const AS_TEXT: Def = def("dipper_json_as_text", &[], (1, 1), Ret::Text, |a| content(a, value_text));

const AS_SCALAR: Def = def("dipper_json_as_scalar", &[], (1, 1), Ret::Text, |a| content(a, scalar_text));

const AS_FLAG: Def = def("dipper_json_as_flag", &[], (1, 1), Ret::Bool, |a| {
    let docs = a.text(0)?;
    a.bools(|i| {
        let text = docs.at(i)?;
        // A VARIANT that is a string is shown by its characters.
        let Some(value) = document(text) else { return parse_boolean(text) };
        match kind(value) {
            Kind::Bool => Some(value == "true"),
            Kind::Integer | Kind::Double => value.parse::<f64>().ok().map(|n| n != 0.0),
            Kind::Text => parse_boolean(&unquote(value)?),
            _ => None,
        }
    })
});

/// Returns the function behind casts of JSON.
pub(crate) fn json_content_udf(content: Content) -> ScalarUDF {
    let def = match content {
        Content::Text => AS_TEXT,
        Content::Scalar => AS_SCALAR,
        Content::Flag => AS_FLAG,
    };
    def.into_udf()
}

fn content(a: &Args, of: fn(&str) -> Option<String>) -> Result<ArrayRef> {
    let docs = a.text(0)?;
    a.texts(|i, out| {
        let text = docs.at(i)?;
        match document(text) {
            Some(document) => out.push_str(&of(document)?),
            // A VARIANT that is a string is shown by its characters.
            None => out.push_str(text),
        }
        Some(())
    })
}

/// Returns what a cast of a document to text gives, or to another single value if it `is_scalar`; NULL for none.
pub(crate) fn content_of(text: &str, is_scalar: bool) -> Option<String> {
    let of = if is_scalar { scalar_text } else { value_text };
    document(text).map_or_else(|| Some(text.to_string()), of)
}

fn scalar_text(value: &str) -> Option<String> {
    match kind(value) {
        Kind::Bool => Some(if value == "true" { "1" } else { "0" }.to_string()),
        Kind::Array | Kind::Object => None,
        _ => value_text(value),
    }
}

/// Returns the function behind `j['name']` of JSON.
pub fn json_value_udf() -> ScalarUDF {
    JSON_VALUE.into_udf()
}

fn json_extract_string(a: &Args) -> Result<ArrayRef> {
    let values = at_path(a).collect(|v| value_text(v?))?;
    a.texts(|i, out| {
        out.push_str(values[i].as_deref()?);
        Some(())
    })
}

/// GET_JSON_STRING: a name applied to an array gives the array of its elements' members.
fn get_json_string(a: &Args) -> Result<ArrayRef> {
    let (docs, paths) = (a.text(0)?, a.text(1)?);
    let mut paths = Paths::new(&paths);
    let mut values = Vec::with_capacity(a.rows);
    let mut found = Vec::new();
    for i in 0..a.rows {
        let legs = paths.at(a.name, i)?;
        let Some((doc, legs)) = docs.at(i).and_then(document).zip(legs) else {
            values.push(None);
            continue;
        };
        found.clear();
        let over_arrays = select_over_arrays(doc, legs, &mut found);
        values.push(match found.first() {
            Some(_) if over_arrays => {
                let mut out = String::new();
                write_array(&mut out, found.iter().copied());
                Some(out)
            }
            first => first.and_then(|v| value_text(v)),
        });
    }
    a.texts(|i, out| {
        out.push_str(values[i].as_deref()?);
        Some(())
    })
}

fn json_unquote(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.texts(|i, out| {
        let s = s.at(i)?;
        match unquote(s) {
            Some(text) if s.starts_with('"') => out.push_str(&text),
            _ => out.push_str(s),
        }
        Some(())
    })
}

/// Appends a text as a JSON string.
pub fn write_quoted(out: &mut String, s: &str) {
    out.push_str(&Value::from(s).to_string());
}

fn json_quote(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.texts(|i, out| {
        write_quoted(out, s.at(i)?);
        Some(())
    })
}

fn json_valid(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.ints(|i| Some(document(s.at(i)?).is_some().into()))
}

/// Returns text that is JSON; for other text an error if `strict`, else NULL.
pub fn json_parse(a: &Args, strict: bool) -> Result<ArrayRef> {
    let s = a.text(0)?;
    if strict {
        for i in 0..s.array.len() {
            if s.array.is_valid(i) && document(s.array.value(i)).is_none() {
                let shown: String = s.array.value(i).chars().take(40).collect();
                return exec_err!("{}: '{shown}' is not JSON; json_parse_error_to_null gives NULL for it", a.name);
            }
        }
    }
    a.texts(|i, out| {
        compact(out, document(s.at(i)?)?);
        Some(())
    })
}

/// Calls `f` with the document, or with the value at the path in argument 1 if there is one.
fn values_at<T>(a: &Args, mut f: impl FnMut(&str) -> Option<T>) -> Result<Vec<Option<T>>> {
    if a.has(1) {
        return at_path(a).collect(|v| v.and_then(&mut f));
    }
    let docs = a.text(0)?;
    Ok((0..a.rows).map(|i| f(document(docs.at(i)?)?)).collect())
}

fn json_length(a: &Args) -> Result<ArrayRef> {
    let values = values_at(a, |v| match kind(v) {
        Kind::Array | Kind::Object => Some(members(v).len() as i64),
        _ => Some(1),
    })?;
    a.ints(|i| values[i])
}

/// Returns Doris's names of types if there is a path, else MySQL's.
fn json_type(a: &Args) -> Result<ArrayRef> {
    let doris = a.has(1);
    let values = values_at(a, |v| {
        Some(match (kind(v), doris) {
            (Kind::Null, true) => "null",
            (Kind::Bool, true) => "bool",
            (Kind::Integer, true) if v.parse::<i32>().is_ok() => "int",
            (Kind::Integer, true) if v.parse::<i64>().is_ok() => "bigint",
            (Kind::Integer, true) => "largeint",
            (Kind::Double, true) => "double",
            (Kind::Text, true) => "string",
            (Kind::Array, true) => "array",
            (Kind::Object, true) => "object",
            (Kind::Null, false) => "NULL",
            (Kind::Bool, false) => "BOOLEAN",
            (Kind::Integer, false) => "INTEGER",
            (Kind::Double, false) => "DOUBLE",
            (Kind::Text, false) => "STRING",
            (Kind::Array, false) => "ARRAY",
            (Kind::Object, false) => "OBJECT",
        })
    })?;
    a.texts(|i, out| {
        out.push_str(values[i]?);
        Some(())
    })
}

fn json_keys(a: &Args) -> Result<ArrayRef> {
    let values = values_at(a, |v| {
        let keys = |v| members(v).into_iter().filter_map(|(key, _)| unquote(key?)).collect::<Vec<_>>();
        (kind(v) == Kind::Object).then(|| keys(v))
    })?;
    text_lists(a, |i, out| {
        values[i].as_ref()?.iter().for_each(|key| out.append_value(key));
        Some(())
    })
}

/// Returns the elements of an array: texts without quotes unless the second argument is true, JSON's null as NULL.
fn json_elements(a: &Args) -> Result<ArrayRef> {
    let (docs, raw) = (a.text(0)?, a.bool(1)?);
    text_lists(a, |i, out| {
        let array = document(docs.at(i)?)?;
        if kind(array) != Kind::Array {
            return None;
        }
        for (_, element) in members(array) {
            match kind(element) {
                Kind::Null => out.append_null(),
                Kind::Text if raw.at(i) != Some(true) => out.append_option(unquote(element)),
                _ => out.append_value(element),
            }
        }
        Some(())
    })
}

/// MySQL's rule: an array must contain each of the candidate's elements, an object each of its members.
fn contains(target: &Value, candidate: &Value) -> bool {
    match (target, candidate) {
        (Value::Array(t), Value::Array(c)) => c.iter().all(|c| t.iter().any(|t| contains(t, c))),
        (Value::Array(t), c) => t.iter().any(|t| contains(t, c)),
        (Value::Object(t), Value::Object(c)) => c.iter().all(|(key, c)| t.get(key).is_some_and(|t| contains(t, c))),
        (Value::Number(t), Value::Number(c)) => t == c || t.as_f64() == c.as_f64() && !(t.is_i64() && c.is_i64()),
        (t, c) => t == c,
    }
}

fn json_contains(a: &Args) -> Result<ArrayRef> {
    let (docs, candidates) = (a.text(0)?, a.text(1)?);
    let path_column = if a.has(2) { Some(a.text(2)?) } else { None };
    let mut paths = path_column.as_ref().map(Paths::new);
    let mut failure = None;
    let out = a.bools(|i| {
        let mut doc = document(docs.at(i)?)?;
        if let Some(paths) = &mut paths {
            let mut found = Vec::new();
            match paths.at(a.name, i) {
                Ok(legs) => select(doc, legs?, &mut found),
                Err(e) => failure = Some(e),
            }
            doc = found.first()?;
        }
        let target = serde_json::from_str(doc).ok()?;
        let candidate = serde_json::from_str(candidates.at(i)?).ok()?;
        Some(contains(&target, &candidate))
    })?;
    failure.map_or(Ok(out), Err)
}

fn json_contains_path(a: &Args) -> Result<ArrayRef> {
    let (docs, modes) = (a.text(0)?, a.text(1)?);
    let columns = (2..a.len()).map(|k| a.text(k)).collect::<Result<Vec<_>>>()?;
    let mut paths: Vec<Paths> = columns.iter().map(Paths::new).collect();
    let mut failure = None;
    let out = a.bools(|i| {
        let doc = document(docs.at(i)?)?;
        let all = modes.at(i)?.eq_ignore_ascii_case("all");
        let mut hits = 0;
        for path in &mut paths {
            let mut found = Vec::new();
            match path.at(a.name, i) {
                Ok(legs) => select(doc, legs?, &mut found),
                Err(e) => failure = Some(e),
            }
            hits += usize::from(!found.is_empty());
        }
        Some(if all { hits == paths.len() } else { hits > 0 })
    })?;
    failure.map_or(Ok(out), Err)
}

/// The functions that write [`Values`] into a document. Their arguments of the type JSON are documents, other texts are
/// characters.
const TAKE_VALUES: [&str; 6] =
    ["json_array", "json_array_ignore_null", "json_object", "json_set", "json_insert", "json_replace"];

/// Whether a function asks which of its arguments are documents, or contain documents. Other functions see them as
/// texts.
pub(crate) fn reads_documents(name: &str) -> bool {
    TAKE_VALUES.contains(&name) || [TO_JSON, JSON_MEMBERS, CAST_JSON, CAST_VARIANT, CAST_PARTS].contains(&name)
}

/// A column whose values can be written as JSON.
pub struct Values {
    text: Col<StringViewArray>,
    form: Form,
}

/// The meaning of the text of a value.
#[derive(Clone, Copy, PartialEq)]
enum Form {
    /// Characters, which are quoted.
    Text,
    /// A document, or characters if it is not JSON.
    Json,
    /// 1 and 0 stand for true and false.
    Boolean,
    /// JSON that is written unchanged.
    Written,
}

impl Values {
    pub fn of(a: &Args, k: usize) -> Result<Values> {
        let t = a.data_type(k);
        if t.is_nested() {
            let values = a.raw(k);
            let text = nested::json(&values.array, a.digits(k), a.declared(k).as_ref())?;
            return Ok(Values { text: Col { array: text, one: values.one }, form: Form::Written });
        }
        let form = match t {
            DataType::Boolean => Form::Boolean,
            t if t.is_numeric() => Form::Written,
            _ if a.is_json(k) => Form::Json,
            _ => Form::Text,
        };
        Ok(Values { text: a.text(k)?, form })
    }

    /// Whether row `i` is not NULL.
    pub fn has(&self, i: usize) -> bool {
        self.text.at(i).is_some()
    }

    pub fn write(&self, out: &mut String, i: usize) {
        match (self.text.at(i), self.form) {
            (None, _) => out.push_str("null"),
            (Some("1"), Form::Boolean) => out.push_str("true"),
            (Some(_), Form::Boolean) => out.push_str("false"),
            (Some(s), Form::Text) => write_quoted(out, s),
            (Some(s), Form::Written) if nested::is_number(s) => out.push_str(s),
            // JSON has no words for numbers that are not finite.
            (Some(_), Form::Written) => out.push_str("null"),
            (Some(s), Form::Json) => write_document(out, s),
        }
    }
}

fn json_array(a: &Args) -> Result<ArrayRef> {
    let values = (0..a.len()).map(|k| Values::of(a, k)).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        out.push('[');
        for (n, v) in values.iter().enumerate() {
            if n > 0 {
                out.push(',');
            }
            v.write(out, i);
        }
        out.push(']');
        Some(())
    })
}

fn json_object(a: &Args) -> Result<ArrayRef> {
    if a.len() % 2 == 1 {
        return exec_err!("json_object: expected keys and values in pairs, found {} arguments", a.len());
    }
    let values = (0..a.len()).map(|k| Values::of(a, k)).collect::<Result<Vec<_>>>()?;
    let mut missing = false;
    let out = a.texts(|i, out| {
        out.push('{');
        for (n, pair) in values.chunks(2).enumerate() {
            if n > 0 {
                out.push(',');
            }
            match pair[0].text.at(i) {
                Some(key) => write_quoted(out, key),
                None => missing = true,
            }
            out.push(':');
            pair[1].write(out, i);
        }
        out.push('}');
        Some(())
    })?;
    if missing {
        return exec_err!("json_object: expected a key, found NULL");
    }
    Ok(out)
}
