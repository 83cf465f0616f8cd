//! `dipper server`: serves the MySQL protocol and HTTP.

use std::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use dipper_engine::{DataLocation, Engine, EngineOptions, FileAccess};
use dipper_server::http::HttpSettings;
use dipper_server::{Server, ServerOptions};
use tokio::signal::unix::{SignalKind, signal};

use crate::remote::RemoteArguments;

/// Niceness of the query threads: a running scan gives way to the threads that talk to clients.
const QUERY_NICE: i32 = 5;

/// Arguments of `dipper server`.
#[derive(Debug, Args)]
pub(crate) struct ServerArguments {
    /// TOML file with the names of these flags, or Doris's; flags and DIPPER_* variables go first
    #[arg(long, env = "DIPPER_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,
    /// Where the database is: a directory, made when it is not there, or s3://bucket/prefix
    #[arg(long, env = "DIPPER_DATA", default_value = "dipper-data", value_name = "DIR|URL")]
    data: DataLocation,
    #[command(flatten)]
    remote: RemoteArguments,
    /// Port of the MySQL protocol; 0 lets the system choose
    #[arg(long, env = "DIPPER_MYSQL_PORT", default_value_t = 9030, value_name = "PORT")]
    mysql_port: u16,
    /// Port of HTTP (Stream Load, metrics); 0 lets the system choose
    #[arg(long, env = "DIPPER_HTTP_PORT", default_value_t = 8030, value_name = "PORT")]
    http_port: u16,
    /// Seconds after which a silent HTTP connection is closed
    #[arg(long, env = "DIPPER_HTTP_IDLE_TIMEOUT", default_value_t = 60, value_name = "SECONDS",
          value_parser = clap::value_parser!(u64).range(1..))]
    http_idle_timeout: u64,
    /// Address to listen on; others than loopback need a password
    #[arg(long, env = "DIPPER_LISTEN", default_value = "127.0.0.1", value_name = "ADDRESS")]
    listen: IpAddr,
    /// Statements may read and write local files below this directory; may be given several times
    #[arg(long, env = "DIPPER_ALLOW_DIR", value_delimiter = ':', value_name = "DIR")]
    allow_dir: Vec<PathBuf>,
    /// Password of root
    #[arg(long, env = "DIPPER_ROOT_PASSWORD", hide_env_values = true, value_name = "PASSWORD")]
    root_password: Option<String>,
    /// Certificate chain (PEM); a self-signed certificate is made without it
    #[arg(long, env = "DIPPER_TLS_CERT", requires = "tls_key", value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key (PEM) of the certificate
    #[arg(long, env = "DIPPER_TLS_KEY", requires = "tls_cert", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Refuse clients without TLS
    #[arg(long, env = "DIPPER_REQUIRE_TLS")]
    require_tls: bool,
    /// Connections that may be open at once
    #[arg(long, env = "DIPPER_MAX_CONNECTIONS", default_value_t = 10_000, value_name = "N")]
    max_connections: usize,
    /// Memory for queries, e.g. 4GiB or 50% of the machine's; 80% without it
    #[arg(long, env = "DIPPER_MEMORY", value_parser = crate::parse_memory, value_name = "SIZE")]
    memory: Option<u64>,
    /// Memory for rows that are looked up by key, e.g. 1GiB or 40%; 10% of the memory without it
    #[arg(long, env = "DIPPER_ROW_CACHE_MEM_LIMIT", value_parser = parse_share, value_name = "SIZE")]
    row_cache_mem_limit: Option<Share>,
    /// Do not keep rows that are looked up by key
    #[arg(long, env = "DIPPER_DISABLE_STORAGE_ROW_CACHE")]
    disable_storage_row_cache: bool,
    /// Threads for queries; one per core without it
    #[arg(long, env = "DIPPER_THREADS", value_name = "N", value_parser = crate::parse_threads)]
    threads: Option<usize>,
    /// Threads for MySQL connections; one per core without it
    #[arg(long, env = "DIPPER_NETWORK_THREADS", value_name = "N", value_parser = crate::parse_threads)]
    network_threads: Option<usize>,
    /// Directory for what does not fit in memory
    #[arg(long, env = "DIPPER_SPILL_DIR", value_name = "DIR")]
    spill_dir: Option<PathBuf>,
    /// Seconds that running statements and loads get when the server is asked to stop; new ones are refused meanwhile
    #[arg(long, env = "DIPPER_STOP_GRACE", default_value_t = 60, value_name = "SECONDS")]
    stop_grace: u64,
}

/// A size in bytes, or a percentage of the memory.
#[derive(Debug, Clone, Copy)]
enum Share {
    Bytes(u64),
    Percent(u64),
}

impl Share {
    fn of(self, memory: Option<u64>) -> u64 {
        match self {
            Share::Bytes(bytes) => bytes,
            Share::Percent(percent) => memory.unwrap_or_else(dipper_engine::default_memory_bytes) / 100 * percent,
        }
    }
}

fn parse_share(text: &str) -> Result<Share, String> {
    match text.trim().strip_suffix('%') {
        None => crate::parse_bytes(text).map(Share::Bytes),
        Some(percent) => match percent.trim().parse() {
            Ok(percent @ 0..=90) => Ok(Share::Percent(percent)),
            _ => Err(format!("expected a size or a percentage from 0% to 90%, found '{text}'")),
        },
    }
}

pub(crate) fn main(arguments: ServerArguments) -> ExitCode {
    crate::start_log("info");
    // These threads serve HTTP and accept connections; MySQL connections have threads of their own.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_stack_size(16 << 20)
        .thread_name("net")
        .enable_all()
        .build();
    let served = match runtime {
        Ok(runtime) => runtime.block_on(serve(arguments)),
        Err(e) => Err(format!("cannot start the network threads: {e}")),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("dipper: {message}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: ServerArguments) -> Result<(), String> {
    if let Some(config) = &arguments.config {
        tracing::info!(config = %config.display(), "configuration read");
    }
    let access = FileAccess::below(&arguments.allow_dir).map_err(|e| e.to_string())?;
    let engine = Engine::open(EngineOptions {
        data: Some(arguments.data.clone()),
        remote: arguments.remote.options(),
        access,
        memory_bytes: arguments.memory,
        threads: arguments.threads,
        spill_dir: arguments.spill_dir,
        nice: QUERY_NICE,
        row_cache: !arguments.disable_storage_row_cache,
        row_cache_bytes: arguments.row_cache_mem_limit.map(|share| share.of(arguments.memory)),
    })
    .await
    .map_err(|e| e.to_string())?;
    crate::allocator::watch(arguments.memory.unwrap_or_else(dipper_engine::default_memory_bytes));
    engine.start_background().await.map_err(|e| e.to_string())?;
    let options = ServerOptions {
        listen: arguments.listen,
        mysql_port: arguments.mysql_port,
        http_port: Some(arguments.http_port),
        http: HttpSettings { idle: Duration::from_secs(arguments.http_idle_timeout), ..HttpSettings::default() },
        password: arguments.root_password,
        tls: arguments.tls_cert.zip(arguments.tls_key),
        require_tls: arguments.require_tls,
        connections_max: arguments.max_connections,
        memory_returned: crate::allocator::returned_bytes,
    };
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let network_threads = arguments.network_threads.unwrap_or(cores);
    let server = Server::bind(engine, options).await.map_err(|e| e.to_string())?;
    // Before anybody is told that it is ready, and may end it.
    let catch = |kind| signal(kind).map_err(|e| format!("cannot catch signals: {e}"));
    let (mut terminate, mut interrupt) = (catch(SignalKind::terminate())?, catch(SignalKind::interrupt())?);
    let address = server.mysql_address();
    tracing::info!(data = %arguments.data, "ready for MySQL clients on {address}");
    if let Some(http) = server.http_address() {
        println!("dipper serves HTTP on {http}");
    }
    // Printed to stdout for scripts that wait for it and read the port from it.
    println!("dipper is ready: mysql -h {} -P {} -u root", address.ip(), address.port());
    let stop = async || {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    };
    let grace = Duration::from_secs(arguments.stop_grace);
    server.serve(network_threads, stop, grace).await.map_err(|e| format!("cannot serve: {e}"))
}
