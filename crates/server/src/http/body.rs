//! Request bodies: passed on to a load piece by piece, or read to their end and discarded.

use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, header};
use dipper_engine::load::body::BodySender;
use futures::StreamExt;

use super::listener::Busy;

/// How much of a body is read and discarded after its answer. Clients that send everything before they read get to see
/// the answer this way: a connection that is closed with unread bytes is reset, and the reset destroys the answer.
/// Clients that were admitted to load something may send much more, all others little.
#[derive(Debug, Clone, Copy)]
pub(super) enum Drain {
    /// The client has logged in.
    Load,
    /// The client has not logged in.
    Stranger,
}

/// Longest wait for the next bytes of a body that is discarded.
const DRAIN_IDLE: Duration = Duration::from_secs(2);

impl Drain {
    fn limits(self) -> (u64, Duration) {
        match self {
            Drain::Load => (64 << 30, Duration::from_secs(120)),
            Drain::Stranger => (16 << 20, Duration::from_secs(10)),
        }
    }
}

/// Whether the client waits for permission to send its body (`100-continue`). The body of this client is not read after
/// an error, because reading it would give the permission.
pub(super) fn expects_leave(headers: &HeaderMap) -> bool {
    headers.get(header::EXPECT).is_some_and(|v| v.as_bytes().eq_ignore_ascii_case(b"100-continue"))
}

/// Reads the rest of a body in the background and discards it, after the answer.
pub(super) fn drain(stream: BodyDataStream, limit: Drain, busy: Busy) {
    let (mut bytes_left, time) = limit.limits();
    tokio::spawn(async move {
        let read = async move {
            let mut stream = stream;
            // A client that is silent here has stopped sending and reads, or will never go on.
            while let Ok(Some(Ok(bytes))) = tokio::time::timeout(DRAIN_IDLE, stream.next()).await {
                bytes_left = bytes_left.saturating_sub(bytes.len() as u64);
                if bytes_left == 0 {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(time, read).await;
        drop(busy);
    });
}

/// Passes a body on to a load until the body or the load ends. A client that sends nothing for `idle` has broken the
/// body off.
pub(super) async fn pump(stream: &mut BodyDataStream, to: BodySender, idle: Duration) {
    let broken = |why: String| std::io::Error::new(std::io::ErrorKind::UnexpectedEof, why);
    // An error of the sender means that the load has ended; the load has its own answer.
    loop {
        let result = match tokio::time::timeout(idle, stream.next()).await {
            Ok(Some(Ok(bytes))) => {
                if to.send(bytes).await.is_err() {
                    return;
                }
                continue;
            }
            Ok(None) => to.end().await,
            Ok(Some(Err(e))) => to.fail(broken(format!("the body ended early: {}", innermost(&e)))).await,
            Err(_) => to.fail(broken(format!("no byte of the body came for {} s", idle.as_secs()))).await,
        };
        if result.is_err() {
            tracing::debug!("a load ended before its body");
        }
        return;
    }
}

/// The innermost cause of an error, without the layers around it.
fn innermost(e: &axum::Error) -> String {
    let mut error: &dyn std::error::Error = e;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// Reads a whole small body.
///
/// # Errors
/// A text for the client if the body is larger than `limit` bytes, ends early, or pauses for longer than `idle`.
pub(super) async fn small(body: Body, limit: usize, idle: Duration) -> Result<Vec<u8>, String> {
    let mut stream = body.into_data_stream();
    let mut all = Vec::new();
    loop {
        let next: Option<Result<Bytes, axum::Error>> = tokio::time::timeout(idle, stream.next())
            .await
            .map_err(|_| format!("no byte of the body came for {} s", idle.as_secs()))?;
        match next {
            None => return Ok(all),
            Some(Err(e)) => return Err(innermost(&e)),
            Some(Ok(bytes)) if all.len() + bytes.len() > limit => {
                return Err(format!("the body is larger than {limit} bytes"));
            }
            Some(Ok(bytes)) => all.extend_from_slice(&bytes),
        }
    }
}
