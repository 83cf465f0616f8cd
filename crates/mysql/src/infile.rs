//! Files that the client sends for a statement (`LOAD DATA LOCAL INFILE`).
//!
//! ```text
//! server   0xfb, name of the file
//! client   bytes of the file, in packets ... an empty packet; only this one if it cannot read the file
//! server   OK or ERR
//! ```
//!
//! The client sends the whole file in any case, so unwanted packets are read and dropped.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use bytes::Bytes;
use futures::FutureExt;
use tokio::sync::mpsc;

use crate::backend::{Done, Session};
use crate::connection::{End, bug, guard};
use crate::constants::capability;
use crate::error::{ProtocolError, SqlError, code};
use crate::link::{Link, timed};
use crate::registry::{Connection, Kill};

/// First byte of the packet that requests a file.
const LOCAL_INFILE: u8 = 0xfb;

/// Number of packets that wait for the session; the client waits when it is that far ahead.
const CHUNKS_WAITING: usize = 4;

/// Bytes of a file, as they arrive.
#[derive(Debug)]
pub struct FileChunks {
    chunks: mpsc::Receiver<Bytes>,
}

impl FileChunks {
    /// Returns the next bytes, never empty; `None` at the end of the file. If the client disconnects before that, the
    /// caller's future is dropped.
    pub async fn next(&mut self) -> Option<Bytes> {
        self.chunks.recv().await
    }
}

/// Requests a file from the client and passes it to the session. `limit` is the largest packet in bytes and the longest
/// wait for bytes.
pub(crate) async fn receive<S: Session>(
    session: &mut S,
    link: &mut Link,
    connection: &Connection,
    name: &str,
    (packet_max, wait): (usize, Duration),
) -> Result<Result<Done, SqlError>, End> {
    if !link.has(capability::LOCAL_FILES) {
        let message = "LOAD DATA LOCAL: the client did not offer to send files (CLIENT_LOCAL_FILES); connect with \
                       --local-infile=1, local_infile=True or allowLoadLocalInfile=true";
        return Ok(Err(SqlError::new(code::NOT_ALLOWED_COMMAND, message)));
    }
    link.packet(|out| {
        out.push(LOCAL_INFILE);
        out.extend_from_slice(name.as_bytes());
    });
    link.flush().await?;
    link.reader.set_payload_max(packet_max);
    link.reader.set_sequence(link.writer.sequence());
    let (sender, chunks) = mpsc::channel(CHUNKS_WAITING);
    let mut work = Some(Box::pin(AssertUnwindSafe(session.infile(FileChunks { chunks })).catch_unwind()));
    let mut outcome = None;
    {
        let mut read = std::pin::pin!(read_file(link, sender, wait));
        loop {
            let working = work.is_some();
            let ended = async {
                match &mut work {
                    Some(work) => work.await,
                    None => std::future::pending().await,
                }
            };
            let killed = async {
                match working {
                    true => connection.killed().await,
                    false => {
                        connection.cut().await;
                        Kill::Connection
                    }
                }
            };
            // Ending the work drops the receiver of the chunks, so the remaining packets are dropped as they come.
            outcome = Some(tokio::select! {
                biased;
                read = &mut read => {
                    read?;
                    break;
                }
                result = ended => result.unwrap_or_else(|panic| Err(bug(&*panic))),
                kill = killed => match kill {
                    Kill::Query => Err(SqlError::new(code::QUERY_INTERRUPTED, "Query execution was interrupted")),
                    Kill::Connection => return Err(End::Silent),
                },
            });
            work = None;
        }
    }
    let outcome = match (outcome, work) {
        (Some(outcome), _) => outcome,
        (None, Some(work)) => {
            let work = async { work.await.unwrap_or_else(|panic| Err(bug(&*panic))) };
            guard(work, connection, link).await?
        }
        (None, None) => unreachable!("work is given up for its outcome only"),
    };
    link.answer();
    Ok(outcome)
}

/// Reads packets until the empty one.
async fn read_file(link: &mut Link, sender: mpsc::Sender<Bytes>, wait: Duration) -> Result<(), End> {
    let mut sender = Some(sender);
    loop {
        while !link.next_buffered()? {
            if !timed(wait, link.fill()).await.map_err(ProtocolError::from)?? {
                return Err(End::Silent);
            }
        }
        let payload = link.reader.payload();
        if payload.is_empty() {
            return Ok(());
        }
        if let Some(to) = &sender
            && to.send(Bytes::copy_from_slice(payload)).await.is_err()
        {
            sender = None;
        }
    }
}
