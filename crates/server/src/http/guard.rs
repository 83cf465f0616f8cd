//! The checks that every request passes: its Host, its Origin, and the credentials it brings.
//!
//! A web page can send requests to a port of its reader's own machine, even under a name of its own that it lets point
//! there (DNS rebinding). Therefore an `Origin` must be the server itself. While an account has no password, a `Host`
//! must also be a literal address or `localhost`, which no foreign page can have.

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::http::{HeaderMap, StatusCode, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// The request has no Host.
    #[error("the request has no Host header")]
    NoHost,
    /// More than one Host: what stands before this server may have read another one.
    #[error("the request has several Host headers")]
    SeveralHosts,
    /// A Host that names none.
    #[error("the Host header is not of the form name:port")]
    Malformed,
    /// A name that could be anybody's.
    #[error(
        "the Host header is neither an address nor localhost; a server without a password is not reached by other names: set a password, or use the address"
    )]
    Host,
    /// The request comes from a page of another site.
    #[error("the request comes from a page of another origin")]
    Origin,
}

impl Refused {
    /// The status of the answer: 400 for what RFC 9112 (3.2) asks it for.
    pub(super) fn status(self) -> StatusCode {
        match self {
            Refused::NoHost | Refused::SeveralHosts | Refused::Malformed => StatusCode::BAD_REQUEST,
            Refused::Host | Refused::Origin => StatusCode::FORBIDDEN,
        }
    }
}

/// The Host of a request that does not come from a foreign page. `without_password`: some account needs none.
///
/// # Errors
/// [`Refused`] if the request comes, or could come, from a page of another site.
pub(super) fn host(headers: &HeaderMap, without_password: bool) -> Result<&str, Refused> {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().ok_or(Refused::NoHost)?;
    if hosts.next().is_some() {
        return Err(Refused::SeveralHosts);
    }
    let host = host.to_str().ok().filter(|host| is_well_formed(host)).ok_or(Refused::Malformed)?;
    if without_password && !is_local_name(host) {
        return Err(Refused::Host);
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let own = origin.to_str().ok().and_then(|o| o.split_once("://")).map(|(_, rest)| rest);
        if !own.is_some_and(|own| own.eq_ignore_ascii_case(host)) {
            return Err(Refused::Origin);
        }
    }
    if headers.get("sec-fetch-site").is_some_and(|site| site == "cross-site" || site == "same-site") {
        return Err(Refused::Origin);
    }
    Ok(host)
}

/// Whether it is a host, which is not empty, and perhaps a port (RFC 9110, 7.2).
fn is_well_formed(host: &str) -> bool {
    let (is_host, behind) = match host.strip_prefix('[') {
        Some(rest) => {
            let Some((address, behind)) = rest.split_once(']') else { return false };
            let (address, _zone) = address.split_once('%').unwrap_or((address, ""));
            (address.parse::<Ipv6Addr>().is_ok(), behind)
        }
        None => {
            let (name, behind) = host.split_at(host.find(':').unwrap_or(host.len()));
            // Not the comma: it is where two headers were made into one.
            let may_be = |b: u8| b.is_ascii_alphanumeric() || b"-._~%!$&'()*+;=".contains(&b);
            (!name.is_empty() && name.bytes().all(may_be), behind)
        }
    };
    let is_port =
        |port: &str| port.bytes().all(|b| b.is_ascii_digit()) && (port.is_empty() || port.parse::<u16>().is_ok());
    is_host && (behind.is_empty() || behind.strip_prefix(':').is_some_and(is_port))
}

/// Whether `host[:port]` is an address or `localhost`.
fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, _)) => return address.parse::<Ipv6Addr>().is_ok(),
            None => return false,
        },
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok()
}

/// Returns user and password of a request (HTTP Basic); `None` if it has none.
pub(super) fn credentials(headers: &HeaderMap) -> Option<(String, String)> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    // `user@cluster` is an older spelling of the same user.
    let name = user.split_once('@').map_or(user, |(name, _)| name);
    Some((name.to_string(), password.to_string()))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(n, v)| (n.parse().expect("a name"), HeaderValue::from_str(v).expect("a value"))).collect()
    }

    #[test]
    fn foreign_pages_are_refused() {
        for name in ["127.0.0.1:8030", "localhost", "LocalHost:1", "[::1]:8030", "10.0.0.1"] {
            assert_eq!(host(&headers(&[("host", name)]), true), Ok(name));
        }
        for name in ["evil.example", "localhost.evil.example:8030", "127.0.0.1.evil.example", "1.2.3"] {
            assert_eq!(host(&headers(&[("host", name)]), true), Err(Refused::Host), "{name}");
            assert_eq!(host(&headers(&[("host", name)]), false), Ok(name));
        }
        assert_eq!(host(&headers(&[]), false), Err(Refused::NoHost));
        for name in
            ["", ":8030", "[::1", "[::1]x", "[::g]:1", "a b", "a/b", "a@b", "a:b", "a:+1", "a:65536", "a:1:2", "a,b"]
        {
            assert_eq!(host(&headers(&[("host", name)]), false), Err(Refused::Malformed), "{name}");
        }
        for name in ["a", "a_b.c-d:1", "a:", "[::1]", "[fe80::1%25eth0]:8030", "%41"] {
            assert_eq!(host(&headers(&[("host", name)]), false), Ok(name));
        }
        let mut twice = headers(&[("host", "a")]);
        twice.append(header::HOST, HeaderValue::from_static("a"));
        assert_eq!(host(&twice, false), Err(Refused::SeveralHosts));
        let own = [("host", "a:1"), ("origin", "http://a:1"), ("sec-fetch-site", "same-origin")];
        assert_eq!(host(&headers(&own), false), Ok("a:1"));
        for other in ["http://b:1", "null", "http://a:2"] {
            assert_eq!(host(&headers(&[("host", "a:1"), ("origin", other)]), false), Err(Refused::Origin));
        }
        let cross = [("host", "a:1"), ("sec-fetch-site", "cross-site")];
        assert_eq!(host(&headers(&cross), false), Err(Refused::Origin));
    }

    #[test]
    fn basic_authentication() {
        let with = |text: &str| headers(&[("authorization", &format!("basic {}", STANDARD.encode(text)))]);
        let found = |headers: &HeaderMap| credentials(headers).map(|(user, password)| format!("{user}|{password}"));
        assert_eq!(found(&with("root:p:w")).as_deref(), Some("root|p:w"));
        assert_eq!(found(&with("root@default_cluster:p:w")).as_deref(), Some("root|p:w"));
        assert_eq!(found(&with("root:")).as_deref(), Some("root|"));
        assert_eq!(found(&with("root")), None);
        assert_eq!(found(&headers(&[])), None);
        assert_eq!(found(&headers(&[("authorization", "Bearer x")])), None);
    }
}
