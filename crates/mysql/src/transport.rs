//! The socket below the packets: plain or under TLS.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

/// Interval of checking whether a connection is still open if its next command has already arrived.
const PIPELINED_CHECK_INTERVAL: Duration = Duration::from_millis(100);

pub(crate) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<Prefixed>>),
    /// During the change to TLS, and after it has failed.
    Closed,
}

impl Transport {
    fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Plain(tcp) => Some(tcp),
            Self::Tls(tls) => Some(&tls.get_ref().0.tcp),
            Self::Closed => None,
        }
    }

    /// Writes the bytes that the socket takes at once; none under TLS.
    pub fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => match tcp.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                written => written,
            },
            _ => Ok(0),
        }
    }

    pub fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// Waits until the peer has closed the connection. Reads no bytes from it: commands sent ahead stay.
    pub async fn gone(&self) {
        let Some(tcp) = self.tcp() else { return };
        loop {
            match tcp.ready(Interest::READABLE).await {
                Err(_) => return,
                Ok(ready) if ready.is_read_closed() => return,
                Ok(_) => {}
            }
            // Either bytes have arrived, or the readiness is stale, which peeking corrects.
            let mut byte = [0];
            let peeked = poll_fn(|cx| {
                let mut buffer = ReadBuf::new(&mut byte);
                Poll::Ready(match tcp.poll_peek(cx, &mut buffer) {
                    Poll::Ready(result) => Some(result),
                    Poll::Pending => None,
                })
            });
            match peeked.await {
                Some(Ok(0) | Err(_)) => return,
                Some(Ok(_)) => tokio::time::sleep(PIPELINED_CHECK_INTERVAL).await,
                None => {}
            }
        }
    }

    /// Waits until there is something to read, without a buffer to read it into.
    pub async fn readable(&self) -> io::Result<()> {
        match self.tcp() {
            Some(tcp) => tcp.readable().await,
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_read(cx, buffer),
            Self::Tls(tls) => Pin::new(tls).poll_read(cx, buffer),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_write(cx, bytes),
            Self::Tls(tls) => Pin::new(tls).poll_write(cx, bytes),
            Self::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_flush(cx),
            Self::Tls(tls) => Pin::new(tls).poll_flush(cx),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(tcp) => Pin::new(tcp).poll_shutdown(cx),
            Self::Tls(tls) => Pin::new(tls).poll_shutdown(cx),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }
}

/// A socket from which some bytes were already read: clients send the request for TLS and its first message at once.
pub(crate) struct Prefixed {
    prefix: BytesMut,
    tcp: TcpStream,
}

impl Prefixed {
    pub fn new(prefix: BytesMut, tcp: TcpStream) -> Self {
        Self { prefix, tcp }
    }
}

impl AsyncRead for Prefixed {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.prefix.is_empty() {
            let len = self.prefix.len().min(buffer.remaining());
            buffer.put_slice(&self.prefix[..len]);
            self.prefix.advance(len);
            if self.prefix.is_empty() {
                self.prefix = BytesMut::new();
            }
            return Poll::Ready(Ok(()));
        }
        ready!(Pin::new(&mut self.tcp).poll_read(cx, buffer))?;
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Prefixed {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }
}
