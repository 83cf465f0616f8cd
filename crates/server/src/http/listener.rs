//! The sockets of the HTTP port: how many may be open, and how long a silent one may stay.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::{IncomingStream, Listener};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep};

/// A listener that keeps at most a given number of connections open. Further connections wait in the system's queue.
pub(super) struct Limited {
    listener: TcpListener,
    places: Arc<Semaphore>,
    /// Places for all sockets of the process.
    sockets: Arc<Semaphore>,
    idle: Duration,
}

impl Limited {
    pub(super) fn new(listener: TcpListener, connections_max: usize, sockets: Arc<Semaphore>, idle: Duration) -> Self {
        Limited { listener, places: Arc::new(Semaphore::new(connections_max)), sockets, idle }
    }
}

impl Listener for Limited {
    type Io = Socket;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Socket, SocketAddr) {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("never closed");
        let socket = Arc::clone(&self.sockets).acquire_owned().await.expect("never closed");
        let (tcp, peer) = Listener::accept(&mut self.listener).await;
        // Each answer is one write; waiting for more data to send would only delay it.
        let _ = tcp.set_nodelay(true);
        let socket = Socket {
            tcp,
            idle: self.idle,
            timer: Box::pin(tokio::time::sleep(self.idle)),
            was_busy: false,
            client: Client { peer, busy: Arc::new(AtomicUsize::new(0)) },
            _places: (place, socket),
        };
        (socket, peer)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection as the handlers see it.
#[derive(Debug, Clone)]
pub(super) struct Client {
    /// Address of the client.
    pub(super) peer: SocketAddr,
    /// Number of requests and bodies that are being worked on. While there are any, the handlers watch for silence
    /// themselves.
    busy: Arc<AtomicUsize>,
}

impl Client {
    /// Suspends the limit on silence until the guard is dropped.
    pub(super) fn busy(&self) -> Busy {
        self.busy.fetch_add(1, Ordering::Relaxed);
        Busy(Arc::clone(&self.busy))
    }
}

/// A guard that says that a request is being worked on.
pub(super) struct Busy(Arc<AtomicUsize>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl axum::extract::connect_info::Connected<IncomingStream<'_, Limited>> for Client {
    fn connect_info(stream: IncomingStream<'_, Limited>) -> Self {
        stream.io().client.clone()
    }
}

/// A socket that ends when nothing has arrived for `idle` while no request is being worked on. This covers the time
/// between requests, and heads of requests that arrive byte by byte without an end.
pub(super) struct Socket {
    tcp: TcpStream,
    idle: Duration,
    timer: Pin<Box<Sleep>>,
    /// A request was being worked on when the socket was last asked for bytes.
    was_busy: bool,
    client: Client,
    _places: (OwnedSemaphorePermit, OwnedSemaphorePermit),
}

impl AsyncRead for Socket {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let busy = this.client.busy.load(Ordering::Relaxed) > 0;
        if busy || this.was_busy {
            // One span of time must be enough for the whole head of a request. It begins when the previous request is
            // answered.
            this.timer.as_mut().reset(Instant::now() + this.idle);
        }
        this.was_busy = busy;
        if let Poll::Ready(result) = Pin::new(&mut this.tcp).poll_read(cx, buf) {
            return Poll::Ready(result);
        }
        loop {
            ready!(this.timer.as_mut().poll(cx));
            this.timer.as_mut().reset(Instant::now() + this.idle);
            if this.client.busy.load(Ordering::Relaxed) == 0 {
                return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
            }
        }
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.tcp).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.tcp).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }
}
