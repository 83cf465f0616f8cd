//! Normal forms of JSON documents: sorted keys, numbers of one type, no nulls, and a default for text that is not JSON.

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::args::{Args, write_double};
use super::func::{Def, MANY, Ret, def};
use super::json::Values;
use super::json_path::{Kind, compact, document, kind, members, unquote};

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
    def("json_array_ignore_null", &["jsonb_array_ignore_null"], (0, MANY), Ret::Json, array_ignore_null),
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

/// Sorts the keys of objects by their bytes; of members with equal keys the first stays.
fn sorted(out: &mut String, value: &str) {
    match kind(value) {
        Kind::Object => {
            let mut all: Vec<(Option<String>, (Option<&str>, &str))> =
                members(value).into_iter().map(|member| (member.0.and_then(unquote), member)).collect();
            all.sort_by(|(x, _), (y, _)| x.cmp(y));
            all.dedup_by(|(later, _), (first, _)| later == first);
            let all: Vec<_> = all.into_iter().map(|(_, member)| member).collect();
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
        assert_eq!(shown(doubles, "12345678901234567890123"), "1.2345678901234568e22");
        assert_eq!(shown(doubles, "1e999"), "1e999");
    }
}
