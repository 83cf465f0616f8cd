//! The dipper server: the engine behind a MySQL port and an HTTP port.
//!
//! | module | question it answers |
//! |---|---|
//! | [`mysql`] | how does a connection's command become a statement of the engine, and its outcome an answer? |
//! | [`http`] | how do Stream Load, and the requests of its clients beside it, work over HTTP? |
//! | [`accounts`] | who may log in? |
//! | `backoff` | how are passwords kept from being guessed? |
//! | `locks` | which accounts have wrong passwords locked? |
//! | [`params`] | which value does a placeholder of the binary protocol stand for? |
//!
//! Connections are served by threads of their own with one runtime each; queries run on the engine's threads, at lower
//! priority.
//!
//! This crate must not know DataFusion, Parquet and the SQL parser's tree.

pub mod accounts;
mod backoff;
pub mod http;
mod locks;
pub mod mysql;
pub mod params;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use dipper_engine::{Engine, set_nice};
use dipper_mysql::{Registry, Settings, Tls, TlsIdentity};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, watch};

use accounts::Accounts;
use http::HttpSettings;

/// Addresses, limits and credentials of a [`Server`].
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Address to listen on.
    pub listen: IpAddr,
    /// Port of the MySQL protocol; 0 lets the system choose.
    pub mysql_port: u16,
    /// Port of HTTP; 0 lets the system choose, `None` opens no HTTP port.
    pub http_port: Option<u16>,
    /// Limits of the HTTP port.
    pub http: HttpSettings,
    /// Password of root. Must be given when `listen` is not loopback.
    pub password: Option<String>,
    /// PEM files of the certificate chain and the key; without them a self-signed certificate is made at start.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Whether clients without TLS are refused.
    pub require_tls: bool,
    /// Connections that may be open at once.
    pub connections_max: usize,
    /// Returns the bytes of freed memory that the allocator has given back because the process came near its limit, for
    /// the metrics.
    pub memory_returned: fn() -> u64,
}

/// The reason why the server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Others can reach the address, and root or admin has no password.
    #[error(
        "refusing to listen on {0} without a password; set DIPPER_ROOT_PASSWORD or --root-password, or listen on 127.0.0.1"
    )]
    NoPassword(IpAddr),
    /// The port cannot be opened.
    #[error("cannot listen on {address}: {source}; choose another port by --{flag}, or 0 for any")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The error of the system.
        source: std::io::Error,
        /// The flag that sets the port.
        flag: &'static str,
    },
    /// The value of an option is not a value of its variable.
    #[error(transparent)]
    Option(#[from] dipper_engine::EngineError),
    /// The certificate cannot be used.
    #[error("cannot offer TLS: {0}")]
    Tls(#[from] dipper_mysql::TlsError),
}

/// A server whose ports are open.
pub struct Server {
    server: dipper_mysql::Server<mysql::MysqlBackend>,
    listener: TcpListener,
    address: SocketAddr,
    http: Option<(Arc<http::App>, TcpListener)>,
    /// Places for the sockets of both ports. There are none before it serves.
    sockets: Arc<Semaphore>,
}

impl Server {
    /// Opens the ports.
    ///
    /// # Errors
    /// `NoPassword` if others can reach the address and root or admin has no password; `Listen` if a port is taken;
    /// `Tls` if the certificate cannot be used; `Option` if `connections_max` is not a value of `max_connections`.
    pub async fn bind(engine: Arc<Engine>, options: ServerOptions) -> Result<Self, StartError> {
        let password = options.password.unwrap_or_default();
        raise_descriptors(options.connections_max);
        let accounts = Accounts::new(Arc::clone(&engine), &password);
        if !options.listen.is_loopback() && accounts.is_open() {
            return Err(StartError::NoPassword(options.listen));
        }
        engine.set_global("max_connections", &options.connections_max.to_string())?;
        let identity = match &options.tls {
            Some((certificate, key)) => TlsIdentity::from_pem_files(certificate, key)?,
            None => TlsIdentity::self_signed(&["localhost", "127.0.0.1", "::1"])?,
        };
        let tls = if options.require_tls { Tls::Required(identity) } else { Tls::Offered(identity) };
        let sockets = Arc::new(Semaphore::new(0));
        let settings = Settings {
            tls,
            connections_max: options.connections_max,
            sockets: Arc::clone(&sockets),
            ..Settings::default()
        };
        let wanted = SocketAddr::new(options.listen, options.mysql_port);
        let failed = |source| StartError::Listen { address: wanted, source, flag: "mysql-port" };
        let listener = dipper_mysql::listen(wanted).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let registry = Arc::new(Registry::new());
        let http = match options.http_port {
            None => None,
            Some(port) => {
                let wanted = SocketAddr::new(options.listen, port);
                let failed = |source| StartError::Listen { address: wanted, source, flag: "http-port" };
                let listener = dipper_mysql::listen(wanted).map_err(failed)?;
                let app = http::App {
                    engine: Arc::clone(&engine),
                    accounts: accounts.clone(),
                    registry: Arc::clone(&registry),
                    settings: options.http,
                    http: listener.local_addr().map_err(failed)?,
                    mysql: address,
                    started: Instant::now(),
                    memory_returned: options.memory_returned,
                    stopping: AtomicBool::new(false),
                    requests: AtomicUsize::new(0),
                };
                Some((Arc::new(app), listener))
            }
        };
        engine.globals().publish("port", address.port().to_string());
        if let Some((app, _)) = &http {
            engine.globals().publish("http_port", app.http.port().to_string());
        }
        let counted = Arc::clone(&registry);
        engine.count_by(move |session| {
            let totals = counted.totals();
            let own = session.and_then(|id| counted.get(id)).map_or(totals, |connection| connection.totals());
            vec![
                ("Aborted_clients", totals.aborted),
                ("Aborted_connects", totals.refused),
                ("Bytes_received", own.received),
                ("Bytes_sent", own.sent),
                ("Com_stmt_close", own.closed),
                ("Com_stmt_execute", own.executed),
                ("Com_stmt_prepare", own.prepared),
                ("Connections", totals.connections),
                ("Max_used_connections", totals.most),
                ("Queries", own.statements),
                ("Questions", own.statements),
                ("Threads_cached", 0),
                ("Threads_created", totals.connections),
            ]
        });
        let backend = Arc::new(mysql::MysqlBackend::new(engine, Arc::clone(&registry), accounts));
        Ok(Server { server: dipper_mysql::Server::new(backend, registry, settings), listener, address, http, sockets })
    }

    /// Address of the HTTP port, if there is one.
    pub fn http_address(&self) -> Option<SocketAddr> {
        self.http.as_ref().map(|(app, _)| app.http)
    }

    /// Address of the MySQL port.
    pub fn mysql_address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` completes. From then on new work is refused, and what runs gets `grace` to end; when `stop`
    /// completes once more, it ends at once. MySQL connections are spread over `threads` threads with a runtime of one
    /// thread each, HTTP runs on the current one.
    ///
    /// # Errors
    /// The listener fails, or a thread cannot be started.
    pub async fn serve(self, threads: usize, mut stop: impl AsyncFnMut(), grace: Duration) -> std::io::Result<()> {
        let threads = Threads::start(threads.max(1))?;
        // Counted after these threads have opened their descriptors.
        self.sockets.add_permits(sockets_max());
        let (stop_http, stopped) = tokio::sync::oneshot::channel::<()>();
        let app = self.http.as_ref().map(|(app, _)| Arc::clone(app));
        let mut http = self.http.map(|(app, listener)| {
            let stopped = async {
                let _ = stopped.await;
            };
            tokio::spawn(http::serve(app, listener, self.sockets, stopped))
        });
        let serving = self.server.serve_on(self.listener, &threads.runtimes);
        tokio::pin!(serving);
        tokio::select! {
            result = &mut serving => return result,
            () = stop() => {}
        }
        tracing::info!("stopping: new work is refused, what runs gets {} s; a second signal ends it", grace.as_secs());
        self.server.refuse_work();
        app.iter().for_each(|app| app.stopping.store(true, Ordering::SeqCst));
        let is_idle = || self.server.is_idle() && app.as_ref().is_none_or(|app| app.is_idle());
        let idle = async {
            while !is_idle() {
                tokio::time::sleep(IDLE_CHECK_INTERVAL).await;
            }
        };
        let is_over = tokio::select! {
            // It goes on, to refuse connections.
            _ = &mut serving => false,
            () = idle => true,
            () = tokio::time::sleep(grace) => false,
            () = stop() => false,
        };
        if !is_over {
            tracing::warn!("stopping: what still runs is cut short");
        }
        let rest = if is_over { CLOSE_TIME } else { Duration::ZERO };
        self.server.shutdown(rest).await;
        drop(stop_http);
        if let Some(http) = &mut http {
            // Loads that have not ended do so with their connection, and leave nothing.
            let _ = tokio::time::timeout(rest, http).await;
        }
        Ok(())
    }
}

/// How often it is looked whether all work has ended when the server stops.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_millis(10);
/// What clients get to take the ends of their answers when all work has ended.
const CLOSE_TIME: Duration = Duration::from_secs(5);

/// Threads that serve connections: each has a runtime of its own, so that a command is read, answered and written without
/// another thread being woken. They end when this is dropped, with what still runs on them.
struct Threads {
    runtimes: Vec<Handle>,
    /// Dropping the sender ends the threads.
    _stop: watch::Sender<()>,
}

impl Threads {
    fn start(count: usize) -> std::io::Result<Self> {
        let (stop, stopped) = watch::channel(());
        let mut runtimes = Vec::with_capacity(count);
        let nice = rustix::process::getpriority_process(None)?;
        for n in 0..count {
            // The blocking threads of the runtime, which take longer work of a connection, have the normal priority.
            let runtime = tokio::runtime::Builder::new_current_thread()
                .on_thread_start(move || drop(set_nice(nice)))
                .enable_all()
                .build()?;
            runtimes.push(runtime.handle().clone());
            let mut stopped = stopped.clone();
            let work = move || {
                dipper_engine::preempt::answers();
                match set_nice(nice - GO_FIRST) {
                    Ok(()) => dipper_engine::preempt::may_idle(),
                    Err(error) => {
                        tracing::debug!(%error, "connections are served at the priority of everything else");
                    }
                }
                runtime.block_on(async move { while stopped.changed().await.is_ok() {} });
            };
            std::thread::Builder::new().name(format!("mysql-{n}")).stack_size(STACK_BYTES).spawn(work)?;
        }
        Ok(Threads { runtimes, _stop: stop })
    }
}

/// By how much the threads that serve connections go before others, in niceness, if this process may raise it (root,
/// CAP_SYS_NICE, systemd's `LimitNICE=`). An answer takes microseconds and should not wait behind loads, queries, or
/// its own clients on the same machine.
const GO_FIRST: i32 = 8;

/// Stack of these threads, in bytes. Statements are parsed where they arrive, and the deepest ones that are allowed
/// need more than the default stack.
const STACK_BYTES: usize = 16 << 20;

/// Number of descriptors that are needed beside one per connection: for files of queries, listeners and logs.
const DESCRIPTORS_BESIDE: u64 = 500;
/// Fewest descriptors for files; with fewer a query may not get through.
const DESCRIPTORS_BESIDE_MIN: u64 = 64;

/// Returns the number of sockets that may be open at once. Clients must not take the descriptors with which tables are
/// read, because all of them would then wait. A quarter of the free descriptors, within bounds, is kept for files.
fn sockets_max() -> usize {
    use rustix::process::{Resource, getrlimit};
    let Some(limit) = getrlimit(Resource::Nofile).current else { return Semaphore::MAX_PERMITS };
    // A system that is not Linux lacks this directory, and does not say how many descriptors are open.
    let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count) as u64;
    let free = limit.saturating_sub(open);
    let files = (free / 4).clamp(DESCRIPTORS_BESIDE_MIN, DESCRIPTORS_BESIDE).min(free / 2);
    usize::try_from(free - files).map_or(Semaphore::MAX_PERMITS, |sockets| sockets.min(Semaphore::MAX_PERMITS))
}

/// Raises the limit of descriptors of this process as far as is allowed: the usual 1,024 are meant for programs that
/// use select(2).
fn raise_descriptors(connections_max: usize) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(_) => current,
    };
    if let Some(limit) = raised.filter(|limit| *limit < connections_max as u64 + DESCRIPTORS_BESIDE) {
        tracing::warn!(
            "this process may open {limit} files, which is too few for {connections_max} connections; raise it (ulimit -n), or lower --max-connections"
        );
    }
}
