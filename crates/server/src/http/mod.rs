//! The HTTP port: Stream Load, the addresses that its clients use beside it, SQL as JSON, metrics.
//!
//! | module | question it answers |
//! |---|---|
//! | `listener` | how many connections, and how long may one be silent? |
//! | `guard` | who may ask? |
//! | `body` | how does a body reach a load, and what becomes of one that nobody wants? |
//! | `transaction` | StarRocks' transactions of several loads |
//! | `load` | Stream Load, its second phase, its labels and error logs |
//! | `query` | SQL in, JSON out |
//! | `info` | health, bootstrap, backends, metrics, profiles |
//! | `tables` | what connectors ask about tables |
//! | `node` | what consoles ask about the node and its machine |
//! | `consoles` | what consoles and managers ask about the server, its sessions, settings and names |
//! | `reply` | Doris's envelopes |
//!
//! Doris answers most errors with status 200 and describes them in the body. This port does the same, for clients that
//! look only there. Requests that cannot come from clients of Doris (pages of other origins, unknown addresses) get an
//! error status.
//!
//! Both `Content-Length` and `Transfer-Encoding` in one request: the length is ignored, as RFC 9112 (6.3) asks.

mod body;
mod consoles;
mod guard;
mod info;
mod listener;
mod load;
mod node;
mod query;
mod reply;
mod tables;
mod transaction;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use axum::routing::{get, post, put};
use dipper_engine::{ClientInfo, Engine, Session};
use dipper_mysql::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::accounts::{Accounts, LoginError};
use listener::{Client, Limited};

/// Limits of the HTTP port.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// Connections that may be open at once.
    pub connections_max: usize,
    /// Longest silence of a connection: between requests, within a head, within a body.
    pub idle: Duration,
}

impl Default for HttpSettings {
    fn default() -> Self {
        HttpSettings { connections_max: 4096, idle: Duration::from_secs(60) }
    }
}

/// The state that all handlers share.
pub(crate) struct App {
    pub(crate) engine: Arc<Engine>,
    pub(crate) accounts: Accounts,
    pub(crate) registry: Arc<Registry>,
    pub(crate) settings: HttpSettings,
    pub(crate) http: SocketAddr,
    pub(crate) mysql: SocketAddr,
    pub(crate) started: Instant,
    pub(crate) memory_returned: fn() -> u64,
    /// The server stops: requests are refused.
    pub(crate) stopping: AtomicBool,
    /// Requests that are being worked on.
    pub(crate) requests: AtomicUsize,
}

impl App {
    /// Whether no request and no load is under way. Loads may outlive their requests.
    pub(crate) fn is_idle(&self) -> bool {
        self.requests.load(Ordering::SeqCst) == 0 && self.engine.loads().running() == 0
    }

    /// A session for one request.
    pub(crate) fn session(&self, user: &str, peer: SocketAddr) -> Session {
        self.engine.session(ClientInfo {
            connection_id: self.engine.next_connection_id(),
            user: user.to_string(),
            host: peer.to_string(),
            database: None,
        })
    }
}

/// Serves until `stop` completes; the caller then ends open requests. Each connection takes one of `sockets`, which the
/// MySQL port shares.
pub(crate) async fn serve(
    app: Arc<App>,
    listener: TcpListener,
    sockets: Arc<Semaphore>,
    stop: impl Future<Output = ()> + Send + 'static,
) {
    let limited = Limited::new(listener, app.settings.connections_max, sockets, app.settings.idle);
    let service = router(app).into_make_service_with_connect_info::<Client>();
    let served = axum::serve(limited, service).with_graceful_shutdown(stop).await;
    if let Err(error) = served {
        tracing::error!(%error, "the HTTP port is closed");
    }
}

fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/api/{db}/{table}/_stream_load", put(load::stream_load))
        .route("/api/_http_stream", put(load::http_stream))
        .route("/api/transaction/begin", post(transaction::begin))
        .route("/api/transaction/load", put(transaction::load))
        .route("/api/transaction/prepare", post(transaction::prepare))
        .route("/api/transaction/commit", post(transaction::commit))
        .route("/api/transaction/rollback", post(transaction::rollback))
        .route("/api/{db}/_stream_load_2pc", put(load::two_phase))
        .route("/api/{db}/{table}/_stream_load_2pc", put(load::two_phase_of_table))
        .route("/api/{db}/get_load_state", get(load::load_state))
        .route("/api/_load_error_log", get(load::error_log))
        .route("/api/health", get(info::health))
        .route("/api/bootstrap", get(info::bootstrap))
        .route("/api/backends", get(info::backends))
        .route("/api/{db}/{table}/_schema", get(tables::schema))
        .route("/api/{catalog}/{db}/{table}/_schema", get(tables::schema_of_catalog))
        .route("/api/{db}/{table}/_count", get(tables::count))
        .route("/api/{db}/{table}/_query_plan", get(tables::query_plan).post(tables::query_plan))
        .route("/api/enable_light_schema_change/{db}/{table}", get(tables::light_schema_change))
        .route("/api/_get_ddl", get(tables::ddl))
        .route("/api/show_data", get(tables::data_sizes))
        .route("/api/rowcount", get(tables::row_count))
        .route("/api/show_table_data", get(tables::table_sizes))
        .route("/api/show_proc", get(consoles::show_proc))
        .route("/api/meta/namespaces/{ns}/databases", get(consoles::databases))
        .route("/api/meta/namespaces/{ns}/databases/{db}/tables", get(consoles::tables))
        .route("/api/meta/namespaces/{ns}/databases/{db}/tables/{table}/schema", get(consoles::table_schema))
        .route("/rest/v1/system", get(consoles::system))
        .route("/rest/v1/session", get(consoles::sessions))
        .route("/rest/v1/session/all", get(consoles::sessions))
        .route("/rest/v1/config/fe", get(consoles::settings))
        .route("/rest/v1/config/fe/", get(consoles::settings))
        .route("/rest/v1/login", post(node::login))
        .route("/rest/v1/ha", get(node::role))
        .route("/rest/v1/hardware_info/fe", get(node::hardware))
        .route("/rest/v1/hardware_info/fe/", get(node::hardware))
        .route("/api/basepath", get(node::base_path))
        .route("/api/fe_version_info", get(node::version))
        .route("/api/show_meta_info", get(node::meta))
        .route("/api/show_runtime_info", get(node::runtime))
        .route("/rest/v2/manager/node/{kind}", get(consoles::nodes))
        .route("/rest/v2/manager/node/node_list", get(consoles::node_list))
        .route("/rest/v2/manager/node/configuration_name", get(consoles::setting_names))
        .route("/rest/v2/manager/cluster/cluster_info/conn_info", get(consoles::addresses))
        .route("/rest/v2/manager/query/sql/{id}", get(info::manager_sql))
        .route("/rest/v2/manager/query/profile/text/{id}", get(info::manager_profile))
        .route("/api/profile", get(info::named_profile))
        .route("/api/profile/{id}", get(info::profile))
        .route("/rest/v1/query_profile", get(info::query_profiles))
        .route("/rest/v1/query_profile/{id}", get(info::query_profile))
        .route("/api/query/{namespace}/{db}", post(query::query))
        .route("/metrics", get(info::metrics))
        .fallback(unknown)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Arc::clone(&app), checked))
        .with_state(app)
}

/// A request is counted.
struct Counted<'a>(&'a AtomicUsize);

impl<'a> Counted<'a> {
    fn new(requests: &'a AtomicUsize) -> Self {
        requests.fetch_add(1, Ordering::SeqCst);
        Counted(requests)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// What every request goes through.
async fn checked(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    request: Request,
    next: Next,
) -> Response {
    let busy = client.busy();
    // Counted first: whoever sees no request sees none come that is not refused.
    let _counted = Counted::new(&app.requests);
    let is_refused = app.stopping.load(Ordering::SeqCst) && request.uri().path() != "/metrics";
    let refusal = match guard::host(request.headers(), app.accounts.any_without_password()) {
        Err(refused) => {
            tracing::info!(peer = %client.peer, %refused, "HTTP request refused");
            reply::refusal(refused.status(), &refused.to_string())
        }
        Ok(_) if is_refused => reply::stopping(),
        Ok(_) => return next.run(request).await,
    };
    if !body::expects_leave(request.headers()) {
        body::drain(request.into_body().into_data_stream(), body::Drain::Stranger, busy);
    }
    refusal
}

async fn unknown(uri: Uri) -> Response {
    reply::no_address(uri.path())
}

async fn wrong_method(request: Request) -> Response {
    let detail = format!("{} is not answered by {}", request.method(), request.uri().path());
    reply::refusal(StatusCode::METHOD_NOT_ALLOWED, &detail)
}

/// Returns the user of a request, or the refusal if its credentials are missing or wrong.
async fn authorized(app: &App, client: &Client, headers: &HeaderMap) -> Result<String, Response> {
    let denied = || {
        tracing::info!(peer = %client.peer, "HTTP login failed");
        let detail = "Access denied: a user and password that this server knows are needed (HTTP Basic)";
        reply::failure(401, "Unauthorized", detail)
    };
    let Some((user, password)) = guard::credentials(headers) else { return Err(denied()) };
    match app.accounts.accepts(&user, &password, client.peer.ip()).await {
        Ok(true) => Ok(user),
        Ok(false) => Err(denied()),
        Err(e @ LoginError::Blocked(..)) => Err(reply::failure(429, "Too Many Requests", &e.to_string())),
        Err(e @ (LoginError::Disabled(_) | LoginError::Locked { .. } | LoginError::Expired(_))) => {
            Err(reply::failure(403, "Forbidden", &e.to_string()))
        }
        Err(e @ LoginError::Engine(_)) => Err(reply::failure(500, "Internal Server Error", &e.to_string())),
    }
}

/// Returns the decoded value of a parameter of the query string.
fn parameter(uri: &Uri, name: &str) -> Option<String> {
    let query = uri.query()?;
    let (_, value) = query.split('&').filter_map(|p| p.split_once('=')).find(|(n, _)| *n == name)?;
    let spaced = value.replace('+', " ");
    percent_encoding::percent_decode_str(&spaced).decode_utf8().ok().map(|v| v.into_owned())
}

/// Returns the name of a database without the cluster that older clients write before it.
fn database(name: &str) -> &str {
    name.strip_prefix("default_cluster:").unwrap_or(name)
}
