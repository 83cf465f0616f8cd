//! The checks that every request passes: its Host, its Origin, and the credentials it brings.
//!
//! A web page can send requests to a port of its reader's own machine, even under a name of its own that it lets point
//! there (DNS rebinding). Therefore an `Origin` must be the server itself. While an account has no password, a `Host`
//! must also be a literal address or `localhost`, which no foreign page can have.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The reason why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// The request has no Host.
    #[error("the request has no Host header")]
    NoHost,
    /// The Host is a name that anybody may own.
    #[error(
        "the Host header is neither an address nor localhost; a server without a password is not reached by other names: set a password, or use the address"
    )]
    Host,
    /// The request comes from a page of another site.
    #[error("the request comes from a page of another origin")]
    Origin,
}

/// Returns the Host of a request. `without_password`: some account needs no password.
///
/// # Errors
/// [`Refused`] if the request comes, or could come, from a page of another site.
pub(super) fn host(headers: &HeaderMap, without_password: bool) -> Result<&str, Refused> {
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok()).ok_or(Refused::NoHost)?;
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

/// Whether `host[:port]` is an address or `localhost`.
fn is_local_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, _)) => return address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => return false,
        },
        None => host.split_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<std::net::Ipv4Addr>().is_ok()
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
        for name in ["evil.example", "localhost.evil.example:8030", "127.0.0.1.evil.example", "[::1", "1.2.3"] {
            assert_eq!(host(&headers(&[("host", name)]), true), Err(Refused::Host), "{name}");
            assert_eq!(host(&headers(&[("host", name)]), false), Ok(name));
        }
        assert_eq!(host(&headers(&[]), false), Err(Refused::NoHost));
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
