//! Requests beside loads: whether the server is up, where the nodes are, where the time of a statement went, and
//! metrics.

use std::fmt::Write as _;
use std::sync::Arc;

use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::Response;
use dipper_engine::profile::Profile;
use serde_json::{Value, json};

use super::listener::Client;
use super::{App, authorized, parameter, reply};

/// Answers that the server is up. Needs no password, because load balancers have none.
pub(super) async fn health() -> Response {
    reply::success(&json!({ "online_backend_num": 1, "total_backend_num": 1 }))
}

/// Answers as a front end of Doris does when it has started.
pub(super) async fn bootstrap(State(app): State<Arc<App>>) -> Response {
    reply::success(&json!({
        "replayedJournalId": 0,
        "queryPort": app.mysql.port(),
        "rpcPort": 0,
        "version": env!("CARGO_PKG_VERSION"),
    }))
}

/// Lists the nodes that take loads: this server, under the name by which the client reached it.
pub(super) async fn backends(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    if let Err(response) = authorized(&app, &client, &headers).await {
        return response;
    }
    let (ip, port) = host(&app, &headers);
    reply::success(&json!({ "backends": [{ "ip": ip, "http_port": port, "is_alive": true }] }))
}

/// Returns the name and the port by which the client reached the server: `[::1]:8030`, `name:8030`, `name`.
pub(super) fn host<'h>(app: &App, headers: &'h HeaderMap) -> (&'h str, u16) {
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
    match host.rsplit_once(':') {
        Some((ip, port)) if !port.ends_with(']') => (ip, port.parse().unwrap_or(app.http.port())),
        _ => (host, app.http.port()),
    }
}

/// Returns the profile of a statement or load. `id` is a value of `last_query_id()`, the number of a load in SHOW LOAD,
/// or its label.
pub(super) async fn profile(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    one_profile(&app, &client, &id, &headers, Profile::to_json).await
}

/// Returns the profile of this name in some form, if the user may see it.
async fn one_profile(
    app: &App,
    client: &Client,
    id: &str,
    headers: &HeaderMap,
    form: impl FnOnce(&Profile) -> Value,
) -> Response {
    let user = match authorized(app, client, headers).await {
        Ok(user) => user,
        Err(response) => return response,
    };
    let others = app.session(&user, client.peer).sees_others();
    match app.engine.profile(id).filter(|profile| others || profile.user == user) {
        Some(profile) => reply::success(&form(&profile)),
        None => reply::failure(1, "Error", &format!("no profile '{id}' is known to this process")),
    }
}

/// Returns a profile as text, in Doris's form.
pub(super) async fn query_profile(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    one_profile(&app, &client, &id, &headers, |profile| profile.to_text().into()).await
}

/// Returns the profile that the parameter `query_id` names, as Doris's manual asks for one.
pub(super) async fn named_profile(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    match parameter(&uri, "query_id") {
        Some(id) => one_profile(&app, &client, &id, &headers, |p| json!({ "profile": p.to_text() })).await,
        None => reply::failure(1, "Error", "expected the parameter query_id: ?query_id=ID"),
    }
}

/// Returns a profile for the manager.
pub(super) async fn manager_profile(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    one_profile(&app, &client, &id, &headers, |profile| json!({ "profile": profile.to_text() })).await
}

/// Returns the text of a statement for the manager.
pub(super) async fn manager_sql(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Response {
    one_profile(&app, &client, &id, &headers, |profile| json!({ "sql": profile.statement })).await
}

/// Lists the statements whose profiles are kept, the newest first, in Doris's form.
pub(super) async fn query_profiles(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    let user = match authorized(&app, &client, &headers).await {
        Ok(user) => user,
        Err(response) => return response,
    };
    let others = app.session(&user, client.peer).sees_others();
    let rows: Vec<_> = (app.engine.profiles().list().iter())
        .filter(|p| others || p.user == user)
        .map(|p| {
            json!({
                "Profile ID": p.id, "Task Type": p.task.name(), "Total": format!("{}ms", p.total.as_millis()),
                "Start Time": p.started_text(), "Task State": p.state, "User": p.user, "Default Db": p.database,
                "Sql Statement": p.statement, "__hrefPaths": [format!("/query_profile/{}", p.id)],
            })
        })
        .collect();
    let names = ["Profile ID", "Task Type", "Start Time", "Total", "Task State", "User", "Default Db", "Sql Statement"];
    reply::success(&json!({ "href_column": ["Profile ID"], "column_names": names, "rows": rows }))
}

/// Returns the metrics in Prometheus's text format.
pub(super) async fn metrics(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    // Scrapers on the same machine need no password; others would see what the owner of the machine may not want to
    // show.
    if !client.peer.ip().is_loopback()
        && let Err(response) = authorized(&app, &client, &headers).await
    {
        return response;
    }
    let totals = app.engine.loads().totals();
    let mut out = String::new();
    let mut put = |name: &str, kind: &str, help: &str, values: &[(&str, u64)]| {
        let _ = writeln!(out, "# HELP dipper_{name} {help}\n# TYPE dipper_{name} {kind}");
        for (labels, value) in values {
            let _ = writeln!(out, "dipper_{name}{labels} {value}");
        }
    };
    put("uptime_seconds", "gauge", "Time since the server started.", &[("", app.started.elapsed().as_secs())]);
    let mysql = app.registry.len() as u64;
    put("mysql_connections", "gauge", "Open connections of the MySQL port.", &[("", mysql)]);
    let running = app.engine.processes().list().iter().filter(|p| p.activity().info.is_some()).count() as u64;
    put("statements_running", "gauge", "Statements that run now.", &[("", running)]);
    put("loads_running", "gauge", "Loads that run now.", &[("", app.engine.loads().running() as u64)]);
    let ended = [("{status=\"success\"}", totals.succeeded), ("{status=\"fail\"}", totals.failed)];
    put("loads_total", "counter", "Loads that have ended.", &ended);
    put("load_rows_total", "counter", "Rows loaded.", &[("", totals.rows)]);
    put("load_filtered_rows_total", "counter", "Rows left out because they do not fit.", &[("", totals.filtered)]);
    put("load_bytes_total", "counter", "Bytes of bodies received.", &[("", totals.bytes)]);
    let cache = app.engine.data_cache();
    for (name, meaning, value) in cache.io().counts().described() {
        let kind = if name.ends_with("_max") { "gauge" } else { "counter" };
        put(&format!("object_store_{name}"), kind, meaning, &[("", value)]);
    }
    let stats = cache.stats();
    let tiers = |memory, disk| [("{tier=\"memory\"}", memory), ("{tier=\"disk\"}", disk)];
    put("data_cache_bytes", "gauge", "Bytes in the data cache.", &tiers(stats.memory_bytes, stats.disk_bytes));
    let capacity = tiers(stats.memory_capacity, stats.disk_capacity);
    put("data_cache_capacity_bytes", "gauge", "Bytes that may be in the data cache.", &capacity);
    let errors = [("{kind=\"read\"}", stats.read_errors), ("{kind=\"write\"}", stats.write_errors)];
    put("data_cache_errors_total", "counter", "Files of the data cache that failed.", &errors);
    put("data_cache_evictions_total", "counter", "Files deleted to make room.", &[("", stats.evictions)]);
    if let Some((resident, user_ms, system_ms)) = own_process() {
        put("resident_bytes", "gauge", "Memory of the process.", &[("", resident)]);
        let returned = (app.memory_returned)();
        put(
            "memory_returned_bytes_total",
            "counter",
            "Freed memory given back early, near the limit.",
            &[("", returned)],
        );
        let cpu = [("{mode=\"user\"}", user_ms), ("{mode=\"system\"}", system_ms)];
        put("cpu_milliseconds_total", "counter", "CPU time of the process.", &cpu);
    }
    reply::text(StatusCode::OK, "text/plain; version=0.0.4", out)
}

/// Returns resident bytes, and milliseconds of CPU time in user and system mode; `None` without /proc.
pub(super) fn own_process() -> Option<(u64, u64, u64)> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The fields follow the name of the program, which may contain blanks and brackets.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let user: u64 = fields.nth(11)?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    let ticks = rustix::param::clock_ticks_per_second().max(1);
    Some((pages * rustix::param::page_size() as u64, user * 1000 / ticks, system * 1000 / ticks))
}
