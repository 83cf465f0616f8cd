//! URLs and IP addresses.

use std::net::{Ipv4Addr, Ipv6Addr};

use arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::args::Args;
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("parse_url", &[], (2, 3), Ret::Text, parse_url),
    def("extract_url_parameter", &[], (2, 2), Ret::Text, extract_url_parameter),
    def("url_encode", &[], (1, 1), Ret::Text, url_encode),
    def("url_decode", &[], (1, 1), Ret::Text, url_decode),
    def("domain", &[], (1, 1), Ret::Text, |a| domain(a, false)),
    def("domain_without_www", &[], (1, 1), Ret::Text, |a| domain(a, true)),
    def("protocol", &[], (1, 1), Ret::Text, |a| {
        let s = a.text(0)?;
        a.texts(|i, out| {
            out.push_str(Url::parse(s.at(i)?).map_or("", |u| u.protocol));
            Some(())
        })
    }),
    def("ipv4_string_to_num", &["inet_aton", "ipv4_string_to_num_or_null"], (1, 1), Ret::Int, |a| {
        let s = a.text(0)?;
        a.ints(|i| s.at(i)?.parse::<Ipv4Addr>().ok().map(|ip| u32::from(ip).into()))
    }),
    def("ipv4_num_to_string", &["inet_ntoa"], (1, 1), Ret::Text, |a| {
        let n = a.int(0)?;
        a.texts(|i, out| {
            out.push_str(&Ipv4Addr::from(u32::try_from(n.at(i)?).ok()?).to_string());
            Some(())
        })
    }),
    def("is_ipv4_string", &["is_ipv4"], (1, 1), Ret::Bool, |a| {
        let s = a.text(0)?;
        a.bools(|i| Some(s.at(i)?.parse::<Ipv4Addr>().is_ok()))
    }),
    def("is_ipv6_string", &["is_ipv6"], (1, 1), Ret::Bool, |a| {
        let s = a.text(0)?;
        a.bools(|i| Some(s.at(i)?.parse::<Ipv6Addr>().is_ok()))
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
    /// None without a protocol.
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

/// Value of a parameter of a query, as written.
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
        let query = url.split_once('?').map_or("", |(_, q)| q.split('#').next().unwrap_or(""));
        out.push_str(parameter(query, name).unwrap_or(""));
        Some(())
    })
}

fn domain(a: &Args, bare: bool) -> Result<ArrayRef> {
    let urls = a.text(0)?;
    a.texts(|i, out| {
        let host = Url::parse(urls.at(i)?).map_or("", |u| u.host);
        out.push_str(if bare { host.strip_prefix("www.").unwrap_or(host) } else { host });
        Some(())
    })
}

fn url_encode(a: &Args) -> Result<ArrayRef> {
    let s = a.text(0)?;
    a.texts(|i, out| {
        for b in s.at(i)?.bytes() {
            match b {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(b as char),
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

/// `%41` and `+` decoded; NULL if a `%` stands alone or the bytes are no UTF-8.
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
