//! JSON documents brought into one form: keys in order, numbers of one type, no nulls, another value for what is no JSON; a
//! hash that is the same for documents that are equal; and the types of a document's values.

use std::collections::BTreeMap;

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::args::{Args, write_double};
use super::func::{Def, MANY, Ret, VARIANT, def};
use super::hash::murmur3_64;
use super::json::Values;
use super::json_path::{Kind, compact, document, kind, members, unquote};
use crate::metadata::TYPE_KEY;

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("sort_json_object_keys", &["sort_jsonb_object_keys"], (1, 1), Ret::Json, |a| reformed(a, sorted)),
    def("normalize_json_numbers_to_double", &["normalize_jsonb_numbers_to_double"], (1, 1), Ret::Json, |a| {
        reformed(a, doubles)
    }),
    def("strip_null_value", &[], (1, 1), Ret::Json, |a| {
        let s = a.text(0)?;
        a.texts(|i, out| {
            let doc = document(s.at(i)?)?;
            (kind(doc) != Kind::Null).then(|| compact(out, doc))
        })
    }),
    // StarRocks's text of a JSON value, which casts give as well.
    def("json_string", &[], (1, 1), Ret::Text, |a| reformed(a, compact)),
    def("json_pretty", &[], (1, 1), Ret::Text, |a| reformed(a, |out, value| pretty(out, value, 0))),
    def("is_json_scalar", &[], (1, 1), Ret::Bool, |a| {
        let s = a.text(0)?;
        a.bools(|i| Some(!matches!(kind(document(s.at(i)?)?), Kind::Object | Kind::Array)))
    }),
    def("json_array_ignore_null", &["jsonb_array_ignore_null"], (0, MANY), Ret::Json, array_ignore_null),
    def("json_hash", &["jsonb_hash"], (1, 1), Ret::Int, |a| {
        let s = a.text(0)?;
        a.ints(|i| Some(hashed(0, document(s.at(i)?)?)? as i64))
    }),
    def("variant_type", &[], (1, 1), Ret::Text, variant_type),
    def("json_parse_error_to_value", &["jsonb_parse_error_to_value"], (1, 2), Ret::Json, parse_error_to_value),
];

fn reformed(a: &Args, f: fn(&mut String, &str)) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.texts(|i, out| {
        f(out, document(s.at(i)?)?);
        Some(())
    })
}

/// Appends an array or an object whose values `f` appends.
fn nested(out: &mut String, object: bool, members: &[(Option<&str>, &str)], f: fn(&mut String, &str)) {
    out.push(if object { '{' } else { '[' });
    for (n, (key, value)) in members.iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        if let Some(key) = key {
            out.push_str(key);
            out.push(':');
        }
        f(out, value);
    }
    out.push(if object { '}' } else { ']' });
}

/// Appends a value as MySQL's JSON_PRETTY: each member in a line of its own, two blanks to the right of what is around.
fn pretty(out: &mut String, value: &str, depth: usize) {
    let object = kind(value) == Kind::Object;
    let members = members(value);
    if members.is_empty() {
        return compact(out, value);
    }
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    out.push(if object { '{' } else { '[' });
    for (n, (key, value)) in members.into_iter().enumerate() {
        if n > 0 {
            out.push(',');
        }
        line(out, depth + 1);
        if let Some(key) = key {
            out.push_str(key);
            out.push_str(": ");
        }
        pretty(out, value, depth + 1);
    }
    line(out, depth);
    out.push(if object { '}' } else { ']' });
}

/// Members of an object, each behind its key, in the order of the keys' bytes; of members with equal keys the first stays.
fn in_order(object: &str) -> Vec<(Option<String>, (Option<&str>, &str))> {
    let mut all: Vec<_> = members(object).into_iter().map(|member| (member.0.and_then(unquote), member)).collect();
    all.sort_by(|(x, _), (y, _)| x.cmp(y));
    all.dedup_by(|(later, _), (first, _)| later == first);
    all
}

/// Objects with their keys in order.
fn sorted(out: &mut String, value: &str) {
    match kind(value) {
        Kind::Object => {
            let all: Vec<_> = in_order(value).into_iter().map(|(_, member)| member).collect();
            nested(out, true, &all, sorted);
        }
        Kind::Array => nested(out, false, &members(value), sorted),
        _ => compact(out, value),
    }
}

/// Prints every number like a DOUBLE.
fn doubles(out: &mut String, value: &str) {
    match kind(value) {
        of @ (Kind::Object | Kind::Array) => nested(out, of == Kind::Object, &members(value), doubles),
        Kind::Integer | Kind::Double => match value.parse::<f64>() {
            Ok(number) if number.is_finite() => write_double(out, number),
            // The number is too large for a DOUBLE.
            _ => out.push_str(value),
        },
        _ => compact(out, value),
    }
}

/// Doris's numbers of the types of JSON values, of which a value's hash begins.
mod types {
    pub const NULL: u8 = 0;
    pub const TRUE: u8 = 1;
    pub const FALSE: u8 = 2;
    pub const INT8: u8 = 3;
    pub const INT16: u8 = 4;
    pub const INT32: u8 = 5;
    pub const INT64: u8 = 6;
    pub const DOUBLE: u8 = 7;
    pub const STRING: u8 = 8;
    pub const OBJECT: u64 = 10;
    pub const ARRAY: u64 = 11;
    pub const INT128: u8 = 12;
}

/// Goes on with a hash by that of a value: MurmurHash3 of the bytes that Doris keeps of it. None for texts and numbers that
/// Doris does not read. A number is of the smallest type that holds it, as Doris reads it from text.
fn hashed(hash: u64, value: &str) -> Option<u64> {
    let scalar = |of: u8, bytes: &[u8]| Some(murmur3_64(&[&[of], bytes].concat(), hash));
    match kind(value) {
        Kind::Object => in_order(value)
            .into_iter()
            .try_fold(hash ^ types::OBJECT, |hash, (key, (_, value))| hashed(murmur3_64(key?.as_bytes(), hash), value)),
        Kind::Array => members(value).into_iter().try_fold(hash ^ types::ARRAY, |hash, (_, value)| hashed(hash, value)),
        Kind::Null => scalar(types::NULL, &[]),
        Kind::Bool if value == "true" => scalar(types::TRUE, &[]),
        Kind::Bool => scalar(types::FALSE, &[]),
        Kind::Text => {
            let text = unquote(value)?;
            let length = u32::try_from(text.len()).ok()?;
            scalar(types::STRING, &[&length.to_le_bytes(), text.as_bytes()].concat())
        }
        Kind::Integer => match value.parse::<i128>() {
            Ok(number) => {
                if let Ok(number) = i8::try_from(number) {
                    scalar(types::INT8, &number.to_le_bytes())
                } else if let Ok(number) = i16::try_from(number) {
                    scalar(types::INT16, &number.to_le_bytes())
                } else if let Ok(number) = i32::try_from(number) {
                    scalar(types::INT32, &number.to_le_bytes())
                } else if let Ok(number) = i64::try_from(number) {
                    scalar(types::INT64, &number.to_le_bytes())
                } else {
                    scalar(types::INT128, &number.to_le_bytes())
                }
            }
            Err(_) => scalar(types::DOUBLE, &finite(value)?.to_le_bytes()),
        },
        Kind::Double => scalar(types::DOUBLE, &finite(value)?.to_le_bytes()),
    }
}

/// VARIANT_TYPE: a document with the path of each value that is no object, in order, and the type of the value.
fn variant_type(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    // The text of a VARIANT that is a string has no quotes.
    let is_variant = a.metadata(0, TYPE_KEY) == Some(VARIANT);
    a.texts(|i, out| {
        let mut types = BTreeMap::new();
        match document(s.at(i)?) {
            Some(value) => gather_types(String::new(), value, &mut types),
            None if is_variant => {
                types.insert(String::new(), "string");
            }
            None => return None,
        }
        let types: Vec<_> =
            types.into_iter().map(|(path, name)| (format!("\"{path}\""), format!("\"{name}\""))).collect();
        let members: Vec<_> = types.iter().map(|(path, name)| (Some(path.as_str()), name.as_str())).collect();
        nested(out, true, &members, |out, value| out.push_str(value));
        Some(())
    })
}

/// Notes the types of the values in `value`, each under its path, written as inside the quotes of a JSON text. What is
/// null has no type.
fn gather_types(path: String, value: &str, types: &mut BTreeMap<String, &'static str>) {
    let name = match kind(value) {
        Kind::Object => {
            for (key, value) in members(value) {
                // Keys in the document are escaped as the path has to be.
                let key = key.and_then(|key| key.strip_prefix('"')?.strip_suffix('"')).unwrap_or_default();
                let inner = if path.is_empty() { key.to_string() } else { format!("{path}.{key}") };
                gather_types(inner, value, types);
            }
            return;
        }
        Kind::Null => return,
        Kind::Bool => "boolean",
        Kind::Integer => match value.parse::<i128>() {
            Ok(number) if i8::try_from(number).is_ok() => "tinyint",
            Ok(number) if i16::try_from(number).is_ok() => "smallint",
            Ok(number) if i32::try_from(number).is_ok() => "int",
            Ok(number) if i64::try_from(number).is_ok() => "bigint",
            Ok(_) => "largeint",
            Err(_) => "double",
        },
        Kind::Double => "double",
        Kind::Text => "string",
        Kind::Array => "array",
    };
    types.insert(path, name);
}

fn finite(number: &str) -> Option<f64> {
    number.parse().ok().filter(|number: &f64| number.is_finite())
}

fn array_ignore_null(a: &Args) -> Result<ArrayRef> {
    let values = (0..a.len()).map(|k| Values::of(a, k)).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        out.push('[');
        for value in values.iter().filter(|value| value.has(i)) {
            if out.len() > 1 {
                out.push(',');
            }
            value.write(out, i);
        }
        out.push(']');
        Some(())
    })
}

/// Returns the document, or for text that is not JSON the second argument, `{}` if there is none.
fn parse_error_to_value(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    let otherwise = if a.has(1) { Some(a.text(1)?) } else { None };
    if let Some(bad) =
        otherwise.iter().flat_map(|otherwise| otherwise.array.iter().flatten()).find(|v| document(v).is_none())
    {
        let shown: String = bad.chars().take(40).collect();
        return exec_err!("{}: expected JSON as the value for what is none, found '{shown}'", a.name);
    }
    a.texts(|i, out| {
        let doc = match (document(s.at(i)?), &otherwise) {
            (Some(doc), _) => doc,
            (None, Some(otherwise)) => document(otherwise.at(i)?)?,
            (None, None) => "{}",
        };
        compact(out, doc);
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(f: fn(&mut String, &str), value: &str) -> String {
        let mut out = String::new();
        f(&mut out, document(value).unwrap());
        out
    }

    #[test]
    fn keys_in_order() {
        assert_eq!(
            shown(sorted, r#"{"b": 1, "a": {"d": [2, {"z":1,"y":2}], "c": null}}"#),
            r#"{"a":{"c":null,"d":[2,{"y":2,"z":1}]},"b":1}"#
        );
        assert_eq!(shown(sorted, r#"{"b":1,"a":2,"b":3,"\u0061":4}"#), r#"{"a":2,"b":1}"#);
        assert_eq!(shown(sorted, " [ ] "), "[]");
        assert_eq!(shown(sorted, "{}"), "{}");
        assert_eq!(shown(sorted, r#""x y""#), r#""x y""#);
    }

    #[test]
    fn numbers_of_one_type() {
        assert_eq!(
            shown(doubles, r#"{"b": 123, "a": [1.50, -0, 1e2, "1.50", null]}"#),
            r#"{"b":123,"a":[1.5,0,100,"1.50",null]}"#
        );
        assert_eq!(shown(doubles, "12345678901234567890123"), "1.2345678901234568e+22");
        assert_eq!(shown(doubles, "1e999"), "1e999");
    }

    #[test]
    fn hashes_are_those_of_doris() {
        let hash = |value: &str| hashed(0, document(value).unwrap()).map(|hash| hash as i64);
        // The examples of Doris' manual.
        assert_eq!(hash("123"), Some(5_279_066_513_252_500_087));
        assert_eq!(hash(r#"{"a":123, "b":456}"#), Some(82_454_694_884_268_544));
        assert_eq!(hash(r#"{"b":456, "a":123}"#), Some(82_454_694_884_268_544));
        assert_eq!(hash(r#"{"a":123, "a":456}"#), Some(-7_416_836_614_234_106_918));
        assert_eq!(hash(r#"{"a":456}"#), Some(-3_126_362_109_586_887_012));
        // What holds a number of each type: 123 as an INT and as a DOUBLE is another value there.
        let of = |bytes: &[u8]| murmur3_64(bytes, 0) as i64;
        assert_eq!(of(&[types::INT32, 123, 0, 0, 0]), 7_882_559_133_986_259_892);
        assert_eq!(of(&[&[types::DOUBLE], &123_f64.to_le_bytes()[..]].concat()), 4_028_523_408_277_343_359);
        assert_eq!(hash("123.0"), Some(4_028_523_408_277_343_359));
        assert_eq!(hash("-128"), Some(of(&[types::INT8, 0x80])));
        assert_eq!(hash("128"), Some(of(&[types::INT16, 0x80, 0])));
        assert_eq!(hash("32768"), Some(of(&[types::INT32, 0, 0x80, 0, 0])));
        assert_eq!(hash("9223372036854775807"), Some(of(&[&[types::INT64], &i64::MAX.to_le_bytes()[..]].concat())));
        let largest = [&[types::INT128], &i128::MAX.to_le_bytes()[..]].concat();
        assert_eq!(hash("170141183460469231731687303715884105727"), Some(of(&largest)));
        assert_eq!(hash("170141183460469231731687303715884105728"), hash("1.7014118346046923e38"));
        assert_eq!(hash(r#""\u0041""#), hash(r#""A""#));
        assert_eq!(hash("1e999"), None);
        assert_eq!(hash("[]"), Some(types::ARRAY as i64));
        assert_eq!(hash("{}"), Some(types::OBJECT as i64));
        assert_ne!(hash("[[1],2]"), hash("[1,[2]]"));
    }
}
