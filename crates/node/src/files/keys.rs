//! Keys of objects that are not paths: those with an empty part (`a//b`), a part `.` or `..`, a control character, or a
//! `/` at an end.
//!
//! A key in an object store is any text, but a path of [`object_store`] is not, and a single listed key that is not a
//! path would fail the whole listing. Characters that a path cannot hold are therefore mapped to a private-use area,
//! U+F000 plus the ASCII code, as file systems on Windows do: they are mapped in answers of listings, and mapped back
//! in requests. The mapping is exact in both directions.

use std::borrow::Cow;
use std::ops::Range;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

/// Characters that stand for ASCII ones.
const AREA: std::ops::RangeInclusive<char> = '\u{F000}'..='\u{F0FF}';
/// Stands for an empty part.
const EMPTY: char = '\u{F02F}';
/// Escapes the next character, which is of the area itself.
const ITSELF: char = '\u{F0FF}';
/// Characters that are percent-encoded in the path of a request: all but letters, digits and `-._~/`.
const IN_PATH: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Converts a key to a path.
pub fn to_path(key: &str) -> Cow<'_, str> {
    let is_odd = |part: &str| matches!(part, "" | "." | "..");
    if key.is_empty() || !key.chars().any(|c| c.is_ascii_control() || AREA.contains(&c)) && !key.split('/').any(is_odd)
    {
        return Cow::Borrowed(key);
    }
    let mut path = String::with_capacity(key.len() + 8);
    for (at, part) in key.split('/').enumerate() {
        if at > 0 {
            path.push('/');
        }
        if part.is_empty() {
            path.push(EMPTY);
        }
        for c in part.chars() {
            match c {
                c if AREA.contains(&c) => path.extend([ITSELF, c]),
                c if c.is_ascii_control() || is_odd(part) => path.extend(char::from_u32(0xF000 + u32::from(c))),
                c => path.push(c),
            }
        }
    }
    Cow::Owned(path)
}

/// Converts a path to its key.
pub fn from_path(path: &str) -> Cow<'_, str> {
    if !path.contains(|c| AREA.contains(&c)) {
        return Cow::Borrowed(path);
    }
    let mut key = String::with_capacity(path.len());
    let mut chars = path.chars();
    while let Some(c) = chars.next() {
        match c {
            EMPTY => {}
            ITSELF => key.extend(chars.next()),
            c if AREA.contains(&c) => key.extend(char::from_u32(u32::from(c) - 0xF000)),
            c => key.push(c),
        }
    }
    Cow::Owned(key)
}

/// Returns whether a name in a path stands for an empty part of the key.
pub fn is_empty_part(name: &str) -> bool {
    name.chars().eq([EMPTY])
}

/// Returns whether an object stands for a directory: its key ends with `/`, as consoles create them, or with
/// `_$folder$`, as Hadoop does.
pub fn is_marker(path: &str, size: u64) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    is_empty_part(name) || size == 0 && name.ends_with("_$folder$")
}

/// Returns the key that Hadoop's file systems use: without empty parts.
pub fn without_empty_parts(key: &str) -> Cow<'_, str> {
    match key.contains("//") {
        true => Cow::Owned(key.split('/').filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")),
        false => Cow::Borrowed(key),
    }
}

/// Converts path and query of a request so that keys are as in the store. `None` if nothing changes.
///
/// # Errors
/// A message if HTTP's addresses cannot hold the key.
pub(super) fn in_request(path: &str, query: &str) -> Result<Option<(String, String)>, String> {
    // The percent-encoding of the area begins with EF 80 to EF 83.
    let has_area = |text: &str| {
        let starts = text.match_indices("%EF%8").map(|(at, found)| text.as_bytes().get(at + found.len()));
        starts.flatten().any(|digit| (b'0'..=b'3').contains(digit))
    };
    if !has_area(path) && !has_area(query) {
        return Ok(None);
    }
    let path = percent_decode_str(path).decode_utf8_lossy();
    let key = from_path(&path);
    if key.split('/').any(|part| matches!(part, "." | "..")) {
        return Err(format!(
            "an object's key is '{}', and HTTP takes the parts '.' and '..' out of addresses; copy it to another key",
            key.trim_start_matches('/')
        ));
    }
    let path = utf8_percent_encode(&key, IN_PATH).to_string();
    let mut pairs = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        pairs.append_pair(&name, &from_path(&value));
    }
    Ok(Some((path, pairs.finish())))
}

/// Returns the path of a request as Hadoop's file systems would send it; `None` if it is that already.
pub(super) fn collapsed(path: &str) -> Option<String> {
    let (first, rest) = path.split_at(usize::from(path.starts_with('/')));
    match without_empty_parts(rest) {
        Cow::Owned(other) => Some(format!("{first}{other}")),
        Cow::Borrowed(_) => None,
    }
}

/// Converts the keys in a listing to paths; `None` if all are paths already.
pub(super) fn in_listing(answer: &str) -> Option<String> {
    let mut made = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some((value, is_prefix)) = next_key(answer, at) {
        at = value.end;
        let written = &answer[value.clone()];
        let key = unescaped(written);
        let path = match is_prefix {
            true => match key.strip_suffix('/') {
                Some("") => Cow::Owned(format!("{EMPTY}/")),
                Some(directory) => Cow::Owned(format!("{}/", to_path(directory))),
                None => to_path(&key),
            },
            false => to_path(&key),
        };
        if *path != *key {
            made.push_str(&answer[copied..value.start]);
            made.push_str(&escaped(&path));
            copied = value.end;
        }
    }
    (copied > 0).then(|| made + &answer[copied..])
}

/// Finds the next key from `at` on; true if it is a common prefix of keys.
fn next_key(answer: &str, at: usize) -> Option<(Range<usize>, bool)> {
    let find = |open: &str, close: &str| {
        let start = at + answer[at..].find(open)? + open.len();
        Some(start..start + answer[start..].find(close)?)
    };
    let (key, prefix) = (find("<Key>", "</Key>"), find("<Prefix>", "</Prefix>"));
    match (key, prefix) {
        (Some(key), Some(prefix)) if prefix.start < key.start => Some((prefix, true)),
        (Some(key), _) => Some((key, false)),
        (None, prefix) => Some((prefix?, true)),
    }
}

/// Returns the text of an XML element.
pub(super) fn element<'a>(xml: &'a str, name: &str) -> Option<Cow<'a, str>> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(unescaped(rest.split_once(&format!("</{name}>"))?.0))
}

fn unescaped(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('&') {
        out.push_str(before);
        let meant = behind.split_once(';').and_then(|(name, behind)| {
            let number = name.strip_prefix('#');
            let code = number.and_then(|n| match n.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok(),
                None => n.parse().ok(),
            });
            let c = match name {
                "amp" => '&',
                "lt" => '<',
                "gt" => '>',
                "quot" => '"',
                "apos" => '\'',
                _ => char::from_u32(code?)?,
            };
            Some((c, behind))
        });
        match meant {
            Some((c, behind)) => {
                out.push(c);
                rest = behind;
            }
            None => {
                out.push('&');
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use object_store::path::Path;

    use super::*;

    #[test]
    fn every_key_is_a_path_and_comes_back() {
        for key in [
            "a/b",
            "a//b",
            "/a",
            "a/",
            "//",
            "a/../b",
            ".",
            "..",
            "a/./b",
            "a\nb",
            "\u{1}",
            "a/\u{7f}",
            "日期=1/ä",
            "...",
            "a/.b",
            "\u{F02F}",
            "a/\u{F0FF}\u{F001}/",
            "\u{F02E}\u{F02E}",
            "a b",
            "a%2F",
        ] {
            let path = to_path(key);
            assert_eq!(from_path(&path), key);
            assert_eq!(Path::parse(&path).unwrap().as_ref(), path, "{key:?}");
        }
        for plain in ["a/b", "日期=1/ä", "...", "a/.b", "a b", "a%2F"] {
            assert_eq!(to_path(plain), plain);
        }
        assert!(is_marker(&to_path("a/b/"), 0) && is_marker(&to_path("a/b/"), 9) && is_marker("a/b_$folder$", 0));
        assert!(!is_marker("a/b_$folder$", 1) && !is_marker("a/b", 0));
    }

    #[test]
    fn listings_have_paths_alone() {
        let answer = |keys: [&str; 3], prefix: &str| {
            let object = |key: &str| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>");
            let objects: String = keys.iter().map(|key| object(key)).collect();
            format!("<L><Prefix>a/</Prefix>{objects}<CommonPrefixes><Prefix>{prefix}</Prefix></CommonPrefixes></L>")
        };
        assert_eq!(in_listing(&answer(["a/b", "a/x&amp;y", "a/&quot;"], "a/c/")), None);
        let found = in_listing(&answer(["a//b", "a/x&amp;y", "a/&#x1;&lt;&#10;"], "a//")).unwrap();
        assert_eq!(found, answer(["a/\u{F02F}/b", "a/x&amp;y", "a/\u{F001}&lt;\u{F00A}"], "a/\u{F02F}/"));
        assert_eq!(element("<a><Code>x&amp;y</Code></a>", "Code").as_deref(), Some("x&y"));
        assert_eq!(element("<a><Code>x", "Code"), None);
    }

    #[test]
    fn requests_have_keys() {
        let encoded = |key: &str| utf8_percent_encode(&to_path(key), IN_PATH).to_string();
        assert_eq!(in_request("/b/a/x%20y", "list-type=2&prefix=a%2F"), Ok(None));
        let asked = in_request(&format!("/b/{}", encoded("a//x\ty")), "").unwrap().unwrap();
        assert_eq!(asked, ("/b/a//x%09y".into(), String::new()));
        assert_eq!(collapsed(&asked.0).as_deref(), Some("/b/a/x%09y"));
        assert_eq!(collapsed("/b/a/x"), None);
        let query = format!("list-type=2&prefix={}%2F", encoded("a//b").replace('/', "%2F"));
        assert_eq!(in_request("/b", &query).unwrap().unwrap().1, "list-type=2&prefix=a%2F%2Fb%2F");
        assert!(in_request(&encoded("a/../b"), "").unwrap_err().contains("'a/../b'"));
        // A character of another area.
        assert_eq!(in_request("/b/%EF%84%80", ""), Ok(None));
    }
}
