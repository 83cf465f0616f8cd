//! JSON documents in which parts are inserted, replaced or removed, merged and searched. Other parts stay as they were
//! written, except for blanks.

use std::fmt::Write;

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use indexmap::IndexMap;

use super::args::Args;
use super::func::{Def, MANY, Ret, def};
use super::json::{Paths, Values, write_array, write_quoted};
use super::json_path::{Kind, Leg, compact, document, is_many, key_is, kind, members, select, unquote};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("json_set", &["jsonb_set"], (3, MANY), Ret::Json, |a| put(a, Mode { insert: true, replace: true })),
    def("json_insert", &["jsonb_insert"], (3, MANY), Ret::Json, |a| put(a, Mode { insert: true, replace: false })),
    def("json_replace", &["jsonb_replace"], (3, MANY), Ret::Json, |a| put(a, Mode { insert: false, replace: true })),
    def("json_remove", &["jsonb_remove"], (2, MANY), Ret::Json, remove),
    def("json_merge_patch", &[], (2, MANY), Ret::Json, merge_patch),
    def("json_depth", &[], (1, 1), Ret::Int, |a| {
        let docs = a.text(0)?;
        a.ints(|i| document(docs.at(i)?).map(depth))
    }),
    def("json_search", &[], (3, MANY), Ret::Json, search),
];

/// The treatment of paths that exist (`replace`) and paths that do not (`insert`).
#[derive(Clone, Copy)]
struct Mode {
    insert: bool,
    replace: bool,
}

fn member(out: &mut String, first: &mut bool, key: Option<&str>) {
    if !std::mem::take(first) {
        out.push(',');
    }
    if let Some(key) = key {
        compact(out, key);
        out.push(':');
    }
}

/// Returns the place of an index in an array of this length; `None` beyond its ends.
fn place(index: i64, length: usize) -> Option<usize> {
    let at = if index < 0 { length as i64 + index } else { index };
    usize::try_from(at).ok().filter(|at| *at < length)
}

/// Appends the value with `new` at the path; with `None` the value at the path is removed.
fn edit(out: &mut String, value: &str, legs: &[Leg], new: Option<&str>, mode: Mode) {
    let Some((leg, rest)) = legs.split_first() else {
        match new {
            Some(new) if mode.replace => out.push_str(new),
            _ => compact(out, value),
        }
        return;
    };
    let goes = rest.is_empty() && new.is_none();
    let comes = if rest.is_empty() && mode.insert { new } else { None };
    let mut first = true;
    match (leg, kind(value)) {
        (Leg::Key(name), Kind::Object) => {
            out.push('{');
            let mut found = false;
            for (key, v) in members(value) {
                let here = !found && key.is_some_and(|key| key_is(key, name));
                found |= here;
                if here && goes {
                    continue;
                }
                member(out, &mut first, key);
                if here { edit(out, v, rest, new, mode) } else { compact(out, v) }
            }
            if let (false, Some(new)) = (found, comes) {
                if !first {
                    out.push(',');
                }
                write_quoted(out, name);
                out.push(':');
                out.push_str(new);
            }
            out.push('}');
        }
        (Leg::Index(n), Kind::Array) => {
            out.push('[');
            let all = members(value);
            let at = place(*n, all.len());
            for (k, (_, v)) in all.iter().enumerate() {
                if Some(k) == at && goes {
                    continue;
                }
                member(out, &mut first, None);
                if Some(k) == at { edit(out, v, rest, new, mode) } else { compact(out, v) }
            }
            if let (None, Some(new), true) = (at, comes, *n >= 0) {
                member(out, &mut first, None);
                out.push_str(new);
            }
            out.push(']');
        }
        // A value that is not an array counts as an array that contains it.
        (Leg::Index(0 | -1), _) if !goes => edit(out, value, rest, new, mode),
        (Leg::Index(1..), _) if comes.is_some() => {
            out.push('[');
            compact(out, value);
            out.push(',');
            out.push_str(comes.unwrap_or_default());
            out.push(']');
        }
        _ => compact(out, value),
    }
}

/// Applies the edits of a call to all rows, in the order of the arguments; NULL where the document or a path is NULL.
fn edited(a: &Args, step: usize, mode: Mode) -> Result<ArrayRef> {
    if !(a.len() - 1).is_multiple_of(step) {
        return exec_err!(
            "{}: expected a document, then paths and values in pairs, found {} arguments",
            a.name,
            a.len()
        );
    }
    let docs = a.text(0)?;
    let columns = (1..a.len()).step_by(step).map(|k| a.text(k)).collect::<Result<Vec<_>>>()?;
    let mut paths: Vec<Paths> = columns.iter().map(Paths::to_change).collect();
    let values: Vec<Values> = match step {
        2 => (2..a.len()).step_by(2).map(|k| Values::of(a, k)).collect::<Result<_>>()?,
        _ => Vec::new(),
    };
    let mut failure = None;
    let out = a.texts(|i, out| {
        compact(out, document(docs.at(i)?)?);
        let mut new = String::new();
        for (k, path) in paths.iter_mut().enumerate() {
            let legs = match path.at(a.name, i) {
                Ok(legs) => legs?,
                Err(e) => {
                    failure = Some(e);
                    return None;
                }
            };
            if is_many(legs) || (step == 1 && legs.is_empty()) {
                failure = Some(exec_datafusion_err!(
                    "{}: expected a path to one place within the document, found $ or *",
                    a.name
                ));
                return None;
            }
            new.clear();
            let new = values.get(k).map(|v| {
                v.write(&mut new, i);
                new.as_str()
            });
            let before = std::mem::take(out);
            edit(out, &before, legs, new, mode);
        }
        Some(())
    })?;
    failure.map_or(Ok(out), Err)
}

fn put(a: &Args, mode: Mode) -> Result<ArrayRef> {
    edited(a, 2, mode)
}

fn remove(a: &Args) -> Result<ArrayRef> {
    edited(a, 1, Mode { insert: false, replace: true })
}

/// RFC 7396: members of the patch replace those of the target, and null removes them.
fn patch(out: &mut String, target: &str, by: &str) {
    if kind(by) != Kind::Object {
        compact(out, by);
        return;
    }
    let target = if kind(target) == Kind::Object { members(target) } else { Vec::new() };
    let name = |key: Option<&str>| key.and_then(unquote);
    // By name: the key as written, the value, and whether the target has it. Of equal names the last one counts.
    let mut changes: IndexMap<_, _> = members(by).into_iter().map(|(key, v)| (name(key), (key, v, false))).collect();
    let mut first = true;
    out.push('{');
    for (key, v) in target {
        match changes.get_mut(&name(key)) {
            Some((_, new, known)) => {
                *known = true;
                if kind(new) != Kind::Null {
                    member(out, &mut first, key);
                    patch(out, v, new);
                }
            }
            None => {
                member(out, &mut first, key);
                compact(out, v);
            }
        }
    }
    for (key, new, known) in changes.into_values() {
        if !known && kind(new) != Kind::Null {
            member(out, &mut first, key);
            patch(out, "null", new);
        }
    }
    out.push('}');
}

fn merge_patch(a: &Args) -> Result<ArrayRef> {
    let docs = (0..a.len()).map(|k| a.text(k)).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        compact(out, document(docs[0].at(i)?)?);
        for doc in &docs[1..] {
            let target = std::mem::take(out);
            patch(out, &target, document(doc.at(i)?)?);
        }
        Some(())
    })
}

/// Returns the depth of a value, 1 if it has no members.
fn depth(value: &str) -> i64 {
    1 + members(value).into_iter().map(|(_, v)| depth(v)).max().unwrap_or(0)
}

/// An element of a LIKE pattern.
enum Piece {
    Any,
    One,
    This(char),
}

fn pieces(pattern: &str, escape: Option<char>) -> Vec<Piece> {
    let mut chars = pattern.chars();
    let mut out = Vec::new();
    while let Some(c) = chars.next() {
        out.push(match c {
            c if Some(c) == escape => Piece::This(chars.next().unwrap_or(c)),
            '%' => Piece::Any,
            '_' => Piece::One,
            c => Piece::This(c),
        });
    }
    out
}

/// Whether the text matches the pattern. Only the last `%` is retried: everything before it has matched as early as it
/// could.
fn like(text: &str, pattern: &[Piece]) -> bool {
    let text: Vec<char> = text.chars().collect();
    let (mut at, mut piece) = (0, 0);
    let mut retry = None;
    loop {
        match pattern.get(piece) {
            Some(Piece::Any) => {
                piece += 1;
                retry = Some((at, piece));
                continue;
            }
            Some(Piece::One) if at < text.len() => (at, piece) = (at + 1, piece + 1),
            Some(Piece::This(c)) if text.get(at) == Some(c) => (at, piece) = (at + 1, piece + 1),
            None if at == text.len() => return true,
            _ => match retry {
                Some((from, behind)) if from < text.len() => {
                    retry = Some((from + 1, behind));
                    (at, piece) = (from + 1, behind);
                }
                _ => return false,
            },
        }
    }
}

/// Appends the paths to the texts below a value for which `wanted` holds.
fn find(value: &str, path: &mut String, wanted: &dyn Fn(&str) -> bool, found: &mut Vec<String>) {
    if kind(value) == Kind::Text && unquote(value).is_some_and(|s| wanted(&s)) {
        found.push(path.clone());
    }
    for (at, (key, v)) in members(value).into_iter().enumerate() {
        let length = path.len();
        match key {
            Some(key) => {
                let inner = &key[1..key.len() - 1];
                let plain = inner.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                    && !inner.is_empty()
                    && !inner.as_bytes()[0].is_ascii_digit();
                let _ = write!(path, ".{}", if plain { inner } else { key });
            }
            None => {
                let _ = write!(path, "[{at}]");
            }
        }
        find(v, path, wanted, found);
        path.truncate(length);
    }
}

/// `JSON_SEARCH(doc, 'one' | 'all', pattern [, escape [, path ...]])`: the paths to texts that match the pattern.
fn search(a: &Args) -> Result<ArrayRef> {
    let (docs, modes, patterns) = (a.text(0)?, a.text(1)?, a.text(2)?);
    let escapes = a.has(3).then(|| a.text(3)).transpose()?;
    let columns = (4..a.len()).map(|k| a.text(k)).collect::<Result<Vec<_>>>()?;
    let mut paths: Vec<Paths> = columns.iter().map(Paths::to_change).collect();
    let mut failure = None;
    let out = a.texts(|i, out| {
        let doc = document(docs.at(i)?)?;
        let mode = modes.at(i)?;
        if !["one", "all"].iter().any(|m| mode.eq_ignore_ascii_case(m)) {
            failure = Some(exec_datafusion_err!("json_search: expected 'one' or 'all', found '{mode}'"));
            return None;
        }
        let escape = match escapes.as_ref().and_then(|e| e.at(i)) {
            Some(e) => e.chars().next(),
            None => Some('\\'),
        };
        let pattern = pieces(patterns.at(i)?, escape);
        let wanted = |s: &str| like(s, &pattern);
        let mut found = Vec::new();
        if paths.is_empty() {
            find(doc, &mut "$".to_string(), &wanted, &mut found);
        }
        for (path, column) in paths.iter_mut().zip(&columns) {
            let legs = match path.at(a.name, i) {
                Ok(legs) => legs?,
                Err(e) => {
                    failure = Some(e);
                    return None;
                }
            };
            if is_many(legs) {
                failure = Some(exec_datafusion_err!("json_search: expected a path to one place, found *"));
                return None;
            }
            let mut below = Vec::new();
            select(doc, legs, &mut below);
            let mut start = column.at(i)?.trim().to_string();
            below.iter().for_each(|v| find(v, &mut start, &wanted, &mut found));
        }
        if mode.eq_ignore_ascii_case("one") {
            found.truncate(1);
        }
        let mut seen = std::collections::HashSet::new();
        found.retain(|path| seen.insert(path.clone()));
        let quoted: Vec<String> = found
            .iter()
            .map(|path| {
                let mut out = String::new();
                write_quoted(&mut out, path);
                out
            })
            .collect();
        match quoted.as_slice() {
            [] => return None,
            [one] => out.push_str(one),
            many => write_array(out, many.iter().map(String::as_str)),
        }
        Some(())
    })?;
    failure.map_or(Ok(out), Err)
}

#[cfg(test)]
mod tests {
    use super::super::json_path::parse_path;
    use super::*;

    #[test]
    fn edits_touch_one_place() {
        let set = Mode { insert: true, replace: true };
        let edited = |doc: &str, path: &str, new: Option<&str>, mode| {
            let mut out = String::new();
            edit(&mut out, document(doc).unwrap(), &parse_path(path).unwrap(), new, mode);
            out
        };
        let doc = r#"{"a": [1, {"b": 12345678901234567890123}], "c": "x"}"#;
        for (path, new, want) in [
            ("$.a[0]", Some("7"), r#"{"a":[7,{"b":12345678901234567890123}],"c":"x"}"#),
            ("$.a[1].b", Some("7"), r#"{"a":[1,{"b":7}],"c":"x"}"#),
            ("$.a[9]", Some("7"), r#"{"a":[1,{"b":12345678901234567890123},7],"c":"x"}"#),
            ("$.d", Some("7"), r#"{"a":[1,{"b":12345678901234567890123}],"c":"x","d":7}"#),
            ("$.d.e", Some("7"), r#"{"a":[1,{"b":12345678901234567890123}],"c":"x"}"#),
            ("$.c[1]", Some("7"), r#"{"a":[1,{"b":12345678901234567890123}],"c":["x",7]}"#),
            ("$.a[last]", None, r#"{"a":[1],"c":"x"}"#),
            ("$.a", None, r#"{"c":"x"}"#),
            ("$", Some("7"), "7"),
        ] {
            assert_eq!(edited(doc, path, new, set), want, "{path}");
        }
        assert_eq!(edited(r#"{"a":1}"#, "$.a", Some("2"), Mode { insert: true, replace: false }), r#"{"a":1}"#);
        assert_eq!(edited(r#"{"a":1}"#, "$.b", Some("2"), Mode { insert: false, replace: true }), r#"{"a":1}"#);
    }

    #[test]
    fn patterns_of_like() {
        for (text, pattern, want) in [
            ("abc", "a%", true),
            ("abc", "%c", true),
            ("abc", "a_c", true),
            ("abcbc", "a%bc", true),
            ("abc", "ab", false),
            ("", "%", true),
            ("", "_", false),
            ("a%", "a\\%", true),
            ("ab", "a\\%", false),
            ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "%a%a%a%a%a%a%a%a%c", false),
        ] {
            assert_eq!(like(text, &pieces(pattern, Some('\\'))), want, "{text} {pattern}");
        }
    }

    #[test]
    fn patches_as_in_the_rfc() {
        let patched = |target: &str, by: &str| {
            let mut out = String::new();
            patch(&mut out, target, by);
            out
        };
        for (target, by, want) in [
            (r#"{"a":"b"}"#, r#"{"a":"c"}"#, r#"{"a":"c"}"#),
            (r#"{"a":"b","b":"c"}"#, r#"{"a":null}"#, r#"{"b":"c"}"#),
            (r#"{"a":{"b":"c"}}"#, r#"{"a":{"b":"d","c":null}}"#, r#"{"a":{"b":"d"}}"#),
            (r#"{"a":[{"b":"c"}]}"#, r#"{"a":[1]}"#, r#"{"a":[1]}"#),
            ("[1,2]", r#"{"a":"b","c":null}"#, r#"{"a":"b"}"#),
            ("{}", r#"{"a":{"bb":{"ccc":null}}}"#, r#"{"a":{"bb":{}}}"#),
            (r#"{"a":1}"#, r#"{"b":1,"b":2,"\u0061":3}"#, r#"{"a":3,"b":2}"#),
        ] {
            assert_eq!(patched(target, by), want, "{target} {by}");
        }
    }
}
