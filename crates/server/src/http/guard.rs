//! Who may ask: Host, Origin, and the user's password.
//!
//! A web page can send requests to a port of the reader's own machine, also under a name of its own that it lets point
//! there (DNS rebinding). So an `Origin` must be the server itself, and while an account has no password a `Host` must be
//! a literal address or `localhost`, which no foreign page can have.

use axum::http::{HeaderMap, header};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::accounts::Accounts;

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// No Host.
    #[error("the request has no Host header")]
    NoHost,
    /// A name that could be anybody's.
    #[error(
        "the Host header is neither an address nor localhost; a server without a password is not reached by other names: set a password, or use the address"
    )]
    Host,
    /// A page of another site.
    #[error("the request comes from a page of another origin")]
    Origin,
}

/// The Host of a request that does not come from a foreign page.
///
/// # Errors
/// It does, or could.
pub(super) fn host<'a>(headers: &'a HeaderMap, accounts: &Accounts) -> Result<&'a str, Refused> {
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok()).ok_or(Refused::NoHost)?;
    if accounts.any_without_password() && !is_local_name(host) {
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

/// The user of a request with the right password; `None` for all others.
pub(super) fn user(headers: &HeaderMap, accounts: &Accounts) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok()?;
    let (user, password) = std::str::from_utf8(&decoded).ok()?.split_once(':')?;
    // `user@cluster` is an older spelling of the same user.
    let name = user.split_once('@').map_or(user, |(name, _)| name);
    accounts.accepts(name, password).then(|| name.to_string())
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
        let open = Accounts::new("");
        let closed = Accounts::new("secret");
        for name in ["127.0.0.1:8030", "localhost", "LocalHost:1", "[::1]:8030", "10.0.0.1"] {
            assert_eq!(host(&headers(&[("host", name)]), &open), Ok(name));
        }
        for name in ["evil.example", "localhost.evil.example:8030", "127.0.0.1.evil.example", "[::1", "1.2.3"] {
            assert_eq!(host(&headers(&[("host", name)]), &open), Err(Refused::Host), "{name}");
            assert_eq!(host(&headers(&[("host", name)]), &closed), Ok(name));
        }
        assert_eq!(host(&headers(&[]), &closed), Err(Refused::NoHost));
        let own = [("host", "a:1"), ("origin", "http://a:1"), ("sec-fetch-site", "same-origin")];
        assert_eq!(host(&headers(&own), &closed), Ok("a:1"));
        for other in ["http://b:1", "null", "http://a:2"] {
            assert_eq!(host(&headers(&[("host", "a:1"), ("origin", other)]), &closed), Err(Refused::Origin));
        }
        let cross = [("host", "a:1"), ("sec-fetch-site", "cross-site")];
        assert_eq!(host(&headers(&cross), &closed), Err(Refused::Origin));
    }

    #[test]
    fn basic_authentication() {
        let accounts = Accounts::new("p:w");
        let with = |text: &str| headers(&[("authorization", &format!("basic {}", STANDARD.encode(text)))]);
        assert_eq!(user(&with("root:p:w"), &accounts).as_deref(), Some("root"));
        assert_eq!(user(&with("root@default_cluster:p:w"), &accounts).as_deref(), Some("root"));
        for wrong in ["root:p", "root", "admin:p:w", "root:"] {
            assert_eq!(user(&with(wrong), &accounts), None, "{wrong}");
        }
        assert_eq!(user(&headers(&[]), &accounts), None);
        assert_eq!(user(&headers(&[("authorization", "Bearer x")]), &accounts), None);
        assert_eq!(user(&with("root:"), &Accounts::new("")).as_deref(), Some("root"));
    }
}
