//! Faults of a store that pass: the same request may succeed later, though all retries of this one failed.

use std::error::Error;
use std::io;

use object_store::client::{HttpError, HttpErrorKind};

/// How the client of object stores says that it was answered with a status, which it keeps to itself otherwise.
const STATUS: &str = "Server returned non-2xx status code: ";
/// How it says that an answer of success holds an error (`InternalError`, `SlowDown`).
const ERROR_IN_SUCCESS: &str = "Server returned error response: ";

/// Whether the store was not reached, did not answer in time, or answered that it is in trouble: by 5xx but 501, 429 or 408.
/// An object that is not there, or that may not be read, is no such fault.
pub fn passes(error: &(dyn Error + 'static)) -> bool {
    let text = error.to_string();
    if text.contains(ERROR_IN_SUCCESS) || text.split_once(STATUS).is_some_and(|(_, status)| passing_status(status)) {
        return true;
    }
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(e) = error.downcast_ref::<io::Error>() {
            if passing_kind(e.kind()) {
                return true;
            }
            // The source of such an error is that of the error inside of it.
            if let Some(inner) = e.get_ref() {
                next = Some(inner);
                continue;
            }
        }
        if error.downcast_ref::<HttpError>().is_some_and(|e| passing_request(e.kind())) {
            return true;
        }
        next = error.source();
    }
    false
}

fn passing_status(text: &str) -> bool {
    let digits = text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    matches!(digits.parse(), Ok(500 | 502..600 | 429 | 408))
}

fn passing_request(kind: HttpErrorKind) -> bool {
    use HttpErrorKind::{Connect, Interrupted, Request, Timeout};
    matches!(kind, Connect | Request | Timeout | Interrupted)
}

fn passing_kind(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{
        ConnectionAborted, ConnectionRefused, ConnectionReset, HostUnreachable, NetworkDown, NetworkUnreachable,
        NotConnected, ResourceBusy, TimedOut,
    };
    matches!(
        kind,
        ConnectionAborted
            | ConnectionRefused
            | ConnectionReset
            | HostUnreachable
            | NetworkDown
            | NetworkUnreachable
            | NotConnected
            | ResourceBusy
            | TimedOut
    )
}

#[cfg(test)]
mod tests {
    use object_store::Error as StoreError;

    use super::*;

    fn generic(source: impl Into<Box<dyn Error + Send + Sync>>) -> StoreError {
        StoreError::Generic { store: "S3", source: source.into() }
    }

    #[test]
    fn faults_that_pass_are_told_from_those_that_stay() {
        let http = |kind| generic(HttpError::new(kind, io::Error::other("no")));
        let unreached = io::Error::new(io::ErrorKind::NotConnected, "http://h cannot be reached: connection refused");
        for e in [
            generic(format!("Error performing GET http://h/b in 1s - {STATUS}503 Service Unavailable: <Error/>")),
            generic(format!("{STATUS}500: ")),
            generic(format!("{STATUS}429 Too Many Requests")),
            generic(format!("{STATUS}408")),
            generic(format!("{ERROR_IN_SUCCESS}<Error><Code>SlowDown</Code></Error>")),
            http(HttpErrorKind::Connect),
            http(HttpErrorKind::Timeout),
            http(HttpErrorKind::Interrupted),
            generic(HttpError::new(HttpErrorKind::Unknown, unreached)),
            generic(io::Error::other(io::Error::new(io::ErrorKind::ConnectionRefused, "no"))),
        ] {
            assert!(passes(&e), "{e}");
        }
        let path = || "b/k".to_string();
        for e in [
            StoreError::NotFound { path: path(), source: format!("{STATUS}404 Not Found").into() },
            StoreError::PermissionDenied { path: path(), source: format!("{STATUS}403 Forbidden: ").into() },
            generic(format!("{STATUS}400 Bad Request")),
            generic(format!("{STATUS}501 Not Implemented")),
            generic("503 apples"),
            http(HttpErrorKind::Unknown),
            http(HttpErrorKind::Decode),
            generic(io::Error::new(io::ErrorKind::UnexpectedEof, "short")),
            generic(io::Error::new(io::ErrorKind::StorageFull, "full")),
        ] {
            assert!(!passes(&e), "{e}");
        }
    }
}
