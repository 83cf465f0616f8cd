//! Functions of URLs.

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::args::Args;
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("parse_url", &[], (2, 3), Ret::Text, parse_url),
    def("extract_url_parameter", &[], (2, 2), Ret::Text, extract_url_parameter),
    // The function of StarRocks, which returns NULL if there is no such parameter.
    def("url_extract_parameter", &[], (2, 2), Ret::Text, |a| {
        let (urls, names) = (a.text(0)?, a.text(1)?);
        a.texts(|i, out| {
            out.push_str(parameter(query_of(urls.at(i)?), names.at(i)?)?);
            Some(())
        })
    }),
    def("url_encode", &[], (1, 1), Ret::Text, url_encode),
    def("url_decode", &[], (1, 1), Ret::Text, url_decode),
    // The function of StarRocks, which returns NULL if there is no host.
    def("url_extract_host", &[], (1, 1), Ret::Text, |a| {
        let s = a.text(0)?;
        a.texts(|i, out| {
            out.push_str(Some(Url::parse(s.at(i)?)?.host).filter(|host| !host.is_empty())?);
            Some(())
        })
    }),
    def("domain", &[], (1, 1), Ret::Text, |a| domain(a, false)),
    def("domain_without_www", &[], (1, 1), Ret::Text, |a| domain(a, true)),
    def("protocol", &[], (1, 1), Ret::Text, |a| {
        let s = a.text(0)?;
        a.texts(|i, out| {
            out.push_str(Url::parse(s.at(i)?).map_or("", |u| u.protocol));
            Some(())
        })
    }),
    def("top_level_domain", &[], (1, 1), Ret::Text, |a| {
        let s = a.text(0)?;
        a.texts(|i, out| {
            out.push_str(top_level_domain(s.at(i)?));
            Some(())
        })
    }),
    def("first_significant_subdomain", &[], (1, 1), Ret::Text, |a| {
        let s = a.text(0)?;
        a.texts(|i, out| {
            out.push_str(significant(s.at(i)?).0);
            Some(())
        })
    }),
    def("cut_to_first_significant_subdomain", &[], (1, 1), Ret::Text, |a| {
        let s = a.text(0)?;
        a.texts(|i, out| {
            out.push_str(significant(s.at(i)?).1);
            Some(())
        })
    }),
];

/// The parts of `protocol://user@host:port/path?query#fragment`.
#[derive(Default)]
struct Url<'a> {
    protocol: &'a str,
    authority: &'a str,
    user: Option<&'a str>,
    host: &'a str,
    port: Option<&'a str>,
    path: &'a str,
    file: &'a str,
    query: Option<&'a str>,
    fragment: Option<&'a str>,
}

impl<'a> Url<'a> {
    /// Parses a URL; `None` if it has no protocol.
    fn parse(s: &'a str) -> Option<Url<'a>> {
        let s = s.trim();
        let (protocol, rest) = s.split_once("://")?;
        let (rest, fragment) = match rest.split_once('#') {
            Some((rest, fragment)) => (rest, Some(fragment)),
            None => (rest, None),
        };
        let (authority, file) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let (path, query) = match file.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (file, None),
        };
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, place)) => (Some(user), place),
            None => (None, authority),
        };
        let (host, port) = match place.rsplit_once(':') {
            // The colons of an IPv6 address are inside its brackets.
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (place, None),
        };
        Some(Url { protocol, authority, user, host, port, path, file, query, fragment })
    }
}

/// Returns the value of a parameter of a query, as written.
fn parameter<'a>(query: &'a str, name: &str) -> Option<&'a str> {
    query.split('&').find_map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key == name).then_some(value)
    })
}

fn parse_url(a: &Args) -> Result<ArrayRef> {
    let (urls, parts) = (a.text(0)?, a.text(1)?);
    let key = if a.has(2) { Some(a.text(2)?) } else { None };
    let mut unknown = None;
    let out = a.texts(|i, out| {
        let (url, part) = (urls.at(i)?, parts.at(i)?);
        let url = Url::parse(url)?;
        let part = part.to_ascii_uppercase();
        let found = match part.as_str() {
            "PROTOCOL" => Some(url.protocol),
            "AUTHORITY" => Some(url.authority),
            "USERINFO" => url.user,
            "HOST" => Some(url.host),
            "PORT" => url.port,
            "PATH" => Some(url.path),
            "FILE" => Some(url.file),
            "REF" => url.fragment,
            "QUERY" => match &key {
                Some(key) => parameter(url.query?, key.at(i)?),
                None => url.query,
            },
            _ => {
                unknown = Some(part);
                None
            }
        }?;
        out.push_str(found);
        Some(())
    })?;
    match unknown {
        Some(part) => exec_err!(
            "parse_url: expected PROTOCOL, HOST, PATH, REF, AUTHORITY, FILE, USERINFO, PORT or QUERY, found '{part}'"
        ),
        None => Ok(out),
    }
}

fn extract_url_parameter(a: &Args) -> Result<ArrayRef> {
    let (urls, names) = (a.text(0)?, a.text(1)?);
    a.texts(|i, out| {
        let (url, name) = (urls.at(i)?, names.at(i)?);
        out.push_str(parameter(query_of(url), name).unwrap_or(""));
        Some(())
    })
}

/// Returns the text between the question mark and the fragment.
fn query_of(url: &str) -> &str {
    url.split_once('?').map_or("", |(_, q)| q.split('#').next().unwrap_or(""))
}

fn domain(a: &Args, bare: bool) -> Result<ArrayRef> {
    let urls = a.text(0)?;
    a.texts(|i, out| {
        let host = Url::parse(urls.at(i)?).map_or("", |u| u.host);
        out.push_str(if bare { host.strip_prefix("www.").unwrap_or(host) } else { host });
        Some(())
    })
}

/// Returns the host of a URL like ClickHouse and Doris do for their domain functions: it must have a point with text
/// after it; else empty.
fn domain_host(url: &str) -> &str {
    let restricted = |c: char| " \t<>%{}|\\^~[];=&".contains(c);
    let mut rest = url;
    if let Some(behind) = url.strip_prefix("//") {
        rest = behind;
    } else {
        // A scheme has at most 16 characters; its first one is not checked.
        let mut scheme = url.char_indices().skip(1).take_while(|(at, _)| *at < 16);
        let end = scheme.find(|(_, c)| !c.is_ascii_alphanumeric() && !".-+".contains(*c));
        match end {
            Some((_, c)) if restricted(c) => return "",
            Some((at, ':')) if at < 14 && url[at..].starts_with("://") => rest = &url[at + 3..],
            _ => {}
        }
    }
    let end = rest.find(|c: char| ":/?#".contains(c) || restricted(c)).unwrap_or(rest.len());
    if rest[end..].starts_with(restricted) {
        return "";
    }
    let authority = &rest[..end];
    // The part before an @ is the user, but a point in it counts, too.
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    match authority.rfind('.') {
        Some(point) if !host.is_empty() && point + 1 < authority.len() => host,
        _ => "",
    }
}

/// Returns the part after the last point of a host; empty for an IPv4 address.
fn top_level_domain(url: &str) -> &str {
    match domain_host(url).rsplit_once('.') {
        Some((_, last)) if !last.starts_with(|c: char| c.is_ascii_digit()) => last,
        _ => "",
    }
}

/// Returns the label of a host before its public suffix, and the host from this label on; both empty if there is no host.
/// Of the Public Suffix List, only suffixes of one and of two labels count, as in Doris and ClickHouse.
fn significant(url: &str) -> (&str, &str) {
    let host = domain_host(url);
    let host = host.strip_prefix("www.").filter(|rest| !rest.is_empty()).unwrap_or(host);
    let mut points = host.rmatch_indices('.').map(|(at, _)| at);
    let (start, end) = match (points.next(), points.next()) {
        (None, _) => (0, host.len()),
        (Some(last), None) => (0, last),
        (Some(last), Some(second)) => {
            let two = &host[second + 1..];
            match psl::suffix(two.as_bytes()).is_some_and(|suffix| suffix.is_known() && suffix == two) {
                true => (points.next().map_or(0, |third| third + 1), second),
                false => (second + 1, last),
            }
        }
    };
    (&host[start..end], if start == end { "" } else { &host[start..] })
}

fn url_encode(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.texts(|i, out| {
        for b in s.at(i)?.bytes() {
            match b {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => out.push(b as char),
                _ => {
                    out.push('%');
                    for nibble in [b >> 4, b & 15] {
                        out.push(b"0123456789ABCDEF"[nibble as usize] as char);
                    }
                }
            }
        }
        Some(())
    })
}

/// Decodes `%41` and `+`; NULL if a `%` is not followed by two digits or the bytes are not UTF-8.
fn url_decode(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.texts(|i, out| {
        let b = s.at(i)?.as_bytes();
        let mut bytes = Vec::with_capacity(b.len());
        let mut at = 0;
        while at < b.len() {
            match b[at] {
                b'%' => {
                    let digit = |k: usize| b.get(k).and_then(|d| (*d as char).to_digit(16));
                    bytes.push((digit(at + 1)? * 16 + digit(at + 2)?) as u8);
                    at += 3;
                }
                c => {
                    bytes.push(if c == b'+' { b' ' } else { c });
                    at += 1;
                }
            }
        }
        out.push_str(std::str::from_utf8(&bytes).ok()?);
        Some(())
    })
}
