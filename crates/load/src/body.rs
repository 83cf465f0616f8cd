//! Bytes that arrive while they are loaded: a request's body as a source of text.
//!
//! A task pushes chunks as they come; workers of a scan read them, blocking. The channel between them is bounded, so a
//! sender that is faster than the load waits, and with it, through its connection, the client.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Buf, Bytes};
use dipper_text::Source;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

/// Number of chunks that may wait to be read; HTTP's have 8 KiB to some 100 KiB.
const CHUNKS: usize = 64;

/// The sending side of a body.
#[derive(Debug)]
pub struct BodySender {
    chunks: mpsc::Sender<io::Result<Bytes>>,
}

/// Error: the reader has gone. The load has ended, and the rest of the body is useless.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the load has ended, the rest of its body is not read")]
pub struct ReaderGone;

impl BodySender {
    /// Hands over the next bytes; waits while the load is behind.
    ///
    /// # Errors
    /// [`ReaderGone`] if the reading side was dropped.
    ///
    /// # Cancellation
    /// If the future is dropped while it waits, the bytes are not sent.
    pub async fn send(&self, chunk: Bytes) -> Result<(), ReaderGone> {
        if chunk.is_empty() {
            // An empty chunk would mean that the body has ended.
            return Ok(());
        }
        self.chunks.send(Ok(chunk)).await.map_err(|_| ReaderGone)
    }

    /// Ends a complete body. If the sender is dropped without this call, reading fails with `UnexpectedEof`.
    ///
    /// # Errors
    /// [`ReaderGone`] if the reading side was dropped.
    pub async fn end(self) -> Result<(), ReaderGone> {
        self.chunks.send(Ok(Bytes::new())).await.map_err(|_| ReaderGone)
    }

    /// Ends the body with an error, which the reader gets.
    ///
    /// # Errors
    /// [`ReaderGone`] if the reading side was dropped.
    pub async fn fail(self, error: io::Error) -> Result<(), ReaderGone> {
        self.chunks.send(Err(error)).await.map_err(|_| ReaderGone)
    }
}

/// The reading side: a [`Source`] that is read once, in order. Reads block, and must not be made on async threads.
pub struct BodySource {
    state: Mutex<Reading>,
    received: AtomicU64,
    /// `received` in whole MiB, for tasks that wait for it to grow.
    received_mib: watch::Sender<u64>,
    waited_ns: AtomicU64,
}

struct Reading {
    chunks: mpsc::Receiver<io::Result<Bytes>>,
    current: Bytes,
    position: u64,
    ended: bool,
}

/// Creates a body of which nothing has been sent yet.
pub fn body() -> (BodySender, BodySource) {
    let (sender, chunks) = mpsc::channel(CHUNKS);
    let state = Reading { chunks, current: Bytes::new(), position: 0, ended: false };
    let source = BodySource {
        state: Mutex::new(state),
        received: AtomicU64::new(0),
        received_mib: watch::Sender::new(0),
        waited_ns: AtomicU64::new(0),
    };
    (BodySender { chunks: sender }, source)
}

impl BodySource {
    /// Returns the number of bytes read so far.
    pub fn bytes_read(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until that many MiB have been read: for ever, if the body is shorter.
    pub async fn reaches_mib(&self, mib: u64) {
        // Fails only if the watch's sender is gone, and `self` owns it.
        let _ = self.received_mib.subscribe().wait_for(|read| *read >= mib).await;
    }

    /// Returns the nanoseconds that readers waited for bytes: long if the client, and not the load, is slow.
    pub fn waited_ns(&self) -> u64 {
        self.waited_ns.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for BodySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BodySource").field("bytes_read", &self.bytes_read()).finish_non_exhaustive()
    }
}

impl Source for BodySource {
    fn len(&self) -> u64 {
        0
    }

    fn is_stream(&self) -> bool {
        true
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state.lock();
        if offset != state.position {
            let reason = format!("a body is read once: asked for byte {offset}, it stands at {}", state.position);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        while state.current.is_empty() && !state.ended && !buf.is_empty() {
            let next = match state.chunks.try_recv() {
                Ok(next) => Some(next),
                Err(mpsc::error::TryRecvError::Disconnected) => None,
                Err(mpsc::error::TryRecvError::Empty) => {
                    let begin = std::time::Instant::now();
                    let next = state.chunks.blocking_recv();
                    self.waited_ns.fetch_add(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
                    next
                }
            };
            match next {
                Some(Ok(chunk)) if chunk.is_empty() => state.ended = true,
                Some(Ok(chunk)) => state.current = chunk,
                Some(Err(e)) => return Err(e),
                None => {
                    let reason = format!("the body ended early, after {} bytes", state.position);
                    return Err(io::Error::new(io::ErrorKind::UnexpectedEof, reason));
                }
            }
        }
        let n = buf.len().min(state.current.len());
        state.current.copy_to_slice(&mut buf[..n]);
        state.position += n as u64;
        self.received.store(state.position, Ordering::Relaxed);
        let mib = state.position >> 20;
        self.received_mib.send_if_modified(|read| std::mem::replace(read, mib) != mib);
        Ok(n)
    }
}
