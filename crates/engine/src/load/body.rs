//! The bytes of a load on their way from a client: a bounded channel, so that a client waits when the load does.

use bytes::Bytes;
use tokio::sync::mpsc;

/// Pieces that wait. They come as they are read from a socket, some hundred KB at most.
const PIECES_WAITING: usize = 8;

/// Why a body did not come whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BodyError {
    /// The sender is gone.
    #[error("the client went away before the end of the body, after {0} bytes; nothing was loaded")]
    Gone(u64),
    /// The connection says that something is wrong.
    #[error("the body ended before its end, after {received} bytes: {reason}; nothing was loaded")]
    Broken {
        /// Bytes that came.
        received: u64,
        /// What is wrong.
        reason: String,
    },
}

enum Piece {
    Bytes(Bytes),
    End,
    Broken(String),
}

/// The client's end.
pub struct BodySender {
    pieces: mpsc::Sender<Piece>,
}

/// The load's end.
pub struct BodyReceiver {
    pieces: mpsc::Receiver<Piece>,
    received: u64,
    ended: bool,
}

/// The load has no use for more bytes: it has ended, with success or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotWanted;

/// Both ends of a new body.
pub fn body() -> (BodySender, BodyReceiver) {
    let (sender, receiver) = mpsc::channel(PIECES_WAITING);
    (BodySender { pieces: sender }, BodyReceiver { pieces: receiver, received: 0, ended: false })
}

impl BodySender {
    /// Hands over bytes; waits until there is room.
    ///
    /// # Errors
    /// The load has ended.
    pub async fn send(&self, bytes: Bytes) -> Result<(), NotWanted> {
        self.pieces.send(Piece::Bytes(bytes)).await.map_err(|_| NotWanted)
    }

    /// Says that the body is whole. Without it the load fails.
    pub async fn end(self) {
        let _ = self.pieces.send(Piece::End).await;
    }

    /// Says that the body will not be whole.
    pub async fn broken(self, reason: String) {
        let _ = self.pieces.send(Piece::Broken(reason)).await;
    }

    /// Waits until the load has no use for more bytes.
    pub async fn not_wanted(&self) {
        self.pieces.closed().await;
    }
}

impl BodyReceiver {
    /// The next bytes, never none of them; `None` at the end of a whole body.
    ///
    /// # Errors
    /// The body is not whole.
    pub async fn next(&mut self) -> Result<Option<Bytes>, BodyError> {
        while !self.ended {
            match self.pieces.recv().await {
                Some(Piece::Bytes(bytes)) if bytes.is_empty() => {}
                Some(Piece::Bytes(bytes)) => {
                    self.received += bytes.len() as u64;
                    return Ok(Some(bytes));
                }
                Some(Piece::End) => self.ended = true,
                Some(Piece::Broken(reason)) => {
                    return Err(BodyError::Broken { received: self.received, reason });
                }
                None => return Err(BodyError::Gone(self.received)),
            }
        }
        Ok(None)
    }

    /// Bytes that came so far.
    pub fn received(&self) -> u64 {
        self.received
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_body_is_whole_only_if_its_sender_says_so() {
        let (sender, mut receiver) = body();
        sender.send(Bytes::from_static(b"ab")).await.expect("wanted");
        sender.send(Bytes::new()).await.expect("wanted");
        sender.end().await;
        assert_eq!(receiver.next().await, Ok(Some(Bytes::from_static(b"ab"))));
        assert_eq!(receiver.next().await, Ok(None));
        assert_eq!(receiver.next().await, Ok(None));

        let (sender, mut receiver) = body();
        sender.send(Bytes::from_static(b"abc")).await.expect("wanted");
        drop(sender);
        assert!(receiver.next().await.is_ok());
        assert_eq!(receiver.next().await, Err(BodyError::Gone(3)));

        let (sender, mut receiver) = body();
        sender.broken("slow".into()).await;
        assert_eq!(receiver.next().await, Err(BodyError::Broken { received: 0, reason: "slow".into() }));
    }

    #[tokio::test]
    async fn the_sender_learns_that_nobody_reads() {
        let (sender, receiver) = body();
        drop(receiver);
        sender.not_wanted().await;
        assert_eq!(sender.send(Bytes::from_static(b"x")).await, Err(NotWanted));
    }
}
