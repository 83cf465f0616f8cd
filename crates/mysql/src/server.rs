//! The listener: limits, settings, shutdown.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use dipper_base::retry::{self, Attempts};
use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use crate::auth::Plugin;
use crate::backend::Backend;
use crate::error::{SqlError, code};
use crate::registry::{Kill, Registry};
use crate::tls::TlsIdentity;
use crate::{connection, handshake};

/// Length of the queue of connections that wait to be accepted; the kernel lowers it to its own limit. When it is full,
/// clients of a burst retry only after a second.
const BACKLOG: u32 = 65_535;
/// Time for which an idle connection keeps its buffers.
const BUFFER_KEEP: Duration = Duration::from_secs(1);
/// Interval of checking the idle connections: one task checks all, instead of a timer for each command.
const TICK: Duration = Duration::from_millis(500);
const DRAIN_CHECK_INTERVAL: Duration = Duration::from_millis(5);
/// Time in which a killed connection has to end.
const KILL_GRACE: Duration = Duration::from_millis(500);

/// Whether connections are encrypted.
#[derive(Debug, Clone, Default)]
pub enum Tls {
    /// TLS is not offered.
    #[default]
    Off,
    /// Clients may ask for TLS.
    Offered(TlsIdentity),
    /// Clients without TLS are refused.
    Required(TlsIdentity),
}

/// Settings of a [`Server`].
#[derive(Debug, Clone)]
pub struct Settings {
    /// Version in the greeting, by which drivers choose their behaviour. Default 5.7.99, as in Doris.
    pub server_version: String,
    /// Plugin that the greeting proposes; a client's own plugin is used if the account has its verifier.
    pub default_plugin: Plugin,
    /// Encryption. Default off.
    pub tls: Tls,
    /// Whether zlib and zstd compression are offered. Default true.
    pub compression: bool,
    /// Largest payload of a packet from a logged-in client, in bytes. Default 64 MiB.
    pub max_allowed_packet: usize,
    /// Maximum number of logged-in connections; a further one is refused with error 1040. Default 100,000.
    pub connections_max: usize,
    /// One permit per socket, logged in or not; a connection without a permit is refused with error 1040. The permits
    /// may be shared with other users of sockets, and keep file descriptors for the rest of the process. Default: the
    /// maximum.
    pub sockets: Arc<Semaphore>,
    /// Maximum number of connections that are not logged in yet; a further one ends the oldest of them, so that clients
    /// that never answer cannot keep others out. Default 1,024.
    pub unauthenticated_max: usize,
    /// Time from accepting a connection to its login. Default 10 s.
    pub login_timeout: Duration,
    /// Maximum pause inside a packet (`net_read_timeout`). Default 30 s.
    pub read_timeout: Duration,
    /// Maximum time for a client to take a piece of an answer (`net_write_timeout`). Default 60 s.
    pub write_timeout: Duration,
    /// Maximum number of prepared statements of one connection. Default 100,000.
    pub prepared_statements_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            server_version: "5.7.99".to_owned(),
            default_plugin: Plugin::CachingSha2,
            tls: Tls::Off,
            compression: true,
            max_allowed_packet: 64 << 20,
            connections_max: 100_000,
            sockets: Arc::new(Semaphore::new(Semaphore::MAX_PERMITS)),
            unauthenticated_max: 1_024,
            login_timeout: Duration::from_secs(10),
            read_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(60),
            prepared_statements_max: 100_000,
        }
    }
}

/// Opens a listener for [`Server::serve`], with a queue long enough for thousands of clients that come at once. Must be
/// called on a runtime with I/O.
///
/// # Errors
/// The errors of `bind(2)` and `listen(2)`, for instance if the address is in use or does not belong to this machine.
pub fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Serves a backend on any number of listeners and runtimes.
///
/// ```no_run
/// # async fn example<B: dipper_mysql::Backend>(backend: std::sync::Arc<B>) -> std::io::Result<()> {
/// use dipper_mysql::{Registry, Server, Settings};
///
/// let server = Server::new(backend, std::sync::Arc::new(Registry::new()), Settings::default());
/// server.serve(dipper_mysql::listen(([127, 0, 0, 1], 9030).into())?).await
/// # }
/// ```
pub struct Server<B: Backend> {
    shared: Arc<Shared<B>>,
}

impl<B: Backend> Clone for Server<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

pub(crate) struct Shared<B> {
    pub backend: Arc<B>,
    pub registry: Arc<Registry>,
    pub settings: Settings,
    pub stopping: AtomicBool,
    stop: watch::Sender<bool>,
    half_open: Mutex<HalfOpen>,
    /// Whether the task that checks idle connections was started.
    ticking: AtomicBool,
}

/// Connections that are not logged in, oldest first.
#[derive(Default)]
struct HalfOpen {
    next: u64,
    waiting: BTreeMap<u64, Arc<Notify>>,
}

impl HalfOpen {
    /// Ends the oldest connection.
    fn evict(&mut self) {
        if let Some((_, oldest)) = self.waiting.pop_first() {
            oldest.notify_one();
        }
    }
}

/// Entry of a connection that is not logged in; dropping it removes the entry.
pub(crate) struct Ticket<B> {
    shared: Arc<Shared<B>>,
    number: u64,
    pub evicted: Arc<Notify>,
}

impl<B> Drop for Ticket<B> {
    fn drop(&mut self) {
        self.shared.half_open.lock().waiting.remove(&self.number);
    }
}

impl<B> Shared<B> {
    pub fn ticket(self: &Arc<Self>) -> Ticket<B> {
        let evicted = Arc::new(Notify::new());
        let mut half_open = self.half_open.lock();
        while half_open.waiting.len() >= self.settings.unauthenticated_max.max(1) {
            half_open.evict();
        }
        let number = half_open.next;
        half_open.next += 1;
        half_open.waiting.insert(number, Arc::clone(&evicted));
        Ticket { shared: Arc::clone(self), number, evicted }
    }
}

impl<B: Backend> Shared<B> {
    /// Returns the current maximum number of logged-in connections.
    pub fn connections_max(&self) -> usize {
        self.backend.connections_max().unwrap_or(self.settings.connections_max)
    }
}

/// Returns error 1040.
pub(crate) fn too_many_connections(limit: usize) -> SqlError {
    SqlError::new(
        code::TOO_MANY_CONNECTIONS,
        format!("Too many connections: {limit} are open already (max_connections)"),
    )
}

/// Error 1053.
pub(crate) fn shutting_down() -> SqlError {
    SqlError::new(code::SERVER_SHUTDOWN, "Server shutdown in progress")
}

/// The same where no socket more may be open.
fn too_many_sockets() -> SqlError {
    SqlError::new(
        code::TOO_MANY_CONNECTIONS,
        "Too many connections: the server needs the file descriptors that are left for tables; raise their number (ulimit -n)",
    )
}

/// Logs that a connection could not be accepted, and waits before the next attempt.
async fn not_accepted(error: &io::Error) {
    tracing::warn!(%error, "cannot accept a connection");
    if let Some(wait) = Attempts::of(retry::ACCEPT).next(Duration::ZERO, 1.0) {
        tokio::time::sleep(wait).await;
    }
}

/// Sends a client the reason why it is not served.
fn refuse(tcp: io::Result<std::net::TcpStream>, error: &SqlError) {
    let mut packet = crate::packet::PacketWriter::new();
    handshake::err(packet.begin(), error, false);
    packet.end();
    // A new socket has room for the packet; if not, the client only sees the end. Written without the runtime, which
    // does not know yet that the socket is ready.
    if let Ok(mut tcp) = tcp {
        let _ = tcp.write(packet.since(0));
    }
}

impl<B: Backend> Server<B> {
    /// Creates a server for `backend`. The caller shares the registry: it answers `SHOW PROCESSLIST` and `KILL`.
    pub fn new(backend: Arc<B>, registry: Arc<Registry>, settings: Settings) -> Self {
        let (stop, _) = watch::channel(false);
        let shared = Shared {
            backend,
            registry,
            settings,
            stopping: AtomicBool::new(false),
            stop,
            half_open: Mutex::new(HalfOpen::default()),
            ticking: AtomicBool::new(false),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Accepts connections until [`Self::shutdown`]; each runs as a task of the runtime that calls this. Several
    /// runtimes may serve clones of one listening socket, which spreads the connections over them.
    ///
    /// # Errors
    /// None at present: a failed accept is logged and tried again.
    pub async fn serve(&self, listener: TcpListener) -> io::Result<()> {
        let mut stop = self.shared.stop.subscribe();
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            };
            match accepted {
                Ok((tcp, peer)) => self.accept(tcp, peer),
                Err(error) => not_accepted(&error).await,
            }
        }
    }

    /// Takes a permit for a socket if one is left. If none is, and most sockets belong to clients that are not logged
    /// in, the oldest of these is ended: clients that never answer cannot keep others out, and clients that are about
    /// to log in are not ended for others.
    fn place(&self) -> Option<OwnedSemaphorePermit> {
        let shared = &self.shared;
        let place = Arc::clone(&shared.settings.sockets).try_acquire_owned().ok();
        if place.is_none() {
            let mut half_open = shared.half_open.lock();
            if half_open.waiting.len() > shared.registry.len() {
                half_open.evict();
            }
        }
        place
    }

    /// Serves one connection that was accepted elsewhere, as a task of the current runtime.
    pub fn accept(&self, tcp: TcpStream, peer: SocketAddr) {
        match self.place() {
            Some(place) => self.begin(tcp, peer, place),
            None => refuse(tcp.into_std(), &too_many_sockets()),
        }
    }

    fn begin(&self, tcp: TcpStream, peer: SocketAddr, place: OwnedSemaphorePermit) {
        let shared = &self.shared;
        if shared.stopping.load(Ordering::SeqCst) {
            return refuse(tcp.into_std(), &shutting_down());
        }
        let limit = shared.connections_max();
        if shared.registry.len() >= limit {
            return refuse(tcp.into_std(), &too_many_connections(limit));
        }
        if let Err(error) = tcp.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
        }
        // Taken here and not in the task, because tasks do not begin in the order of their connections.
        let ticket = shared.ticket();
        self.look_after();
        tokio::spawn(connection::run(Arc::clone(shared), tcp, peer, ticket, place));
    }

    /// Starts the task that checks idle connections, once.
    fn look_after(&self) {
        if self.shared.ticking.swap(true, Ordering::SeqCst) {
            return;
        }
        let shared = Arc::downgrade(&self.shared);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(TICK).await;
                let Some(shared) = shared.upgrade() else { return };
                shared.registry.list().iter().for_each(|connection| connection.tick(BUFFER_KEEP));
            }
        });
    }

    /// Serves a listener by several runtimes: connections are accepted here, and passed to `runtimes` in turn. A
    /// connection stays on its runtime, which should have a single thread, so that commands share nothing across
    /// threads.
    ///
    /// # Errors
    /// None at present: a failed accept is logged and tried again.
    pub async fn serve_on(&self, listener: TcpListener, runtimes: &[Handle]) -> io::Result<()> {
        let mut stop = self.shared.stop.subscribe();
        let mut turn = 0;
        loop {
            let accepted = tokio::select! {
                accepted = listener.accept() => accepted,
                _ = stop.wait_for(|stop| *stop) => return Ok(()),
            };
            match accepted.and_then(|(tcp, peer)| Ok((tcp.into_std()?, peer))) {
                Ok((tcp, peer)) => {
                    // Not on the runtime that serves it: all connections of a burst would be accepted before the first
                    // check.
                    let Some(place) = self.place() else {
                        refuse(Ok(tcp), &too_many_sockets());
                        continue;
                    };
                    let server = self.clone();
                    let Some(runtime) = runtimes.get(turn % runtimes.len().max(1)) else { continue };
                    turn += 1;
                    runtime.spawn(async move {
                        match TcpStream::from_std(tcp) {
                            Ok(tcp) => server.begin(tcp, peer, place),
                            Err(error) => tracing::warn!(%error, "cannot serve a connection"),
                        }
                    });
                }
                Err(error) => not_accepted(&error).await,
            }
        }
    }

    /// From now on connections and commands are refused with error 1053. What runs goes on, see [`Self::is_idle`], until
    /// [`Self::shutdown`].
    pub fn refuse_work(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
    }

    /// Whether all connections wait for commands.
    pub fn is_idle(&self) -> bool {
        self.shared.registry.list().iter().all(|connection| connection.is_asleep())
    }

    /// Stops accepting and ends the connections: idle ones at once, others when their statement is done, after `grace`
    /// all. Returns when none is left, 500 ms after `grace` at the latest.
    pub async fn shutdown(&self, grace: Duration) {
        let shared = &self.shared;
        shared.stopping.store(true, Ordering::SeqCst);
        shared.stop.send_replace(true);
        shared.half_open.lock().waiting.values().for_each(|waiting| waiting.notify_one());
        shared.registry.list().iter().for_each(|connection| connection.drain());
        let drained = async {
            while !shared.registry.is_empty() {
                tokio::time::sleep(DRAIN_CHECK_INTERVAL).await;
            }
        };
        tokio::pin!(drained);
        if tokio::time::timeout(grace, &mut drained).await.is_err() {
            shared.registry.list().iter().for_each(|connection| connection.kill(Kill::Connection));
            let _ = tokio::time::timeout(KILL_GRACE, drained).await;
        }
    }
}
