//! Requests of Doris's console about the node itself: its role, its version, the machine, its memory. There is one node.

use std::sync::Arc;

use axum::extract::{ConnectInfo, State};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::Response;
use dipper_engine::EngineError;
use serde_json::{Map, Value, json};

use super::info::own_process;
use super::listener::Client;
use super::tables::{Texts, begin, said, sizes, texts};
use super::{App, authorized, parameter, reply};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Answers whether user and password are right. The console asks before it shows anything.
pub(super) async fn login(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    match authorized(&app, &client, &headers).await {
        Ok(_) => reply::json_text(StatusCode::OK, json!({ "code": 200, "msg": "Login success!" }).to_string()),
        Err(response) => response,
    }
}

/// Answers that the pages of the console would be below no other path. The console asks before anybody logs in.
pub(super) async fn base_path() -> Response {
    reply::success(&json!({ "enable": false, "path": "" }))
}

/// Returns the version in the parts that Doris's have.
pub(super) async fn version(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    if let Err(response) = authorized(&app, &client, &headers).await {
        return response;
    }
    let mut parts = VERSION.split('.').map(|part| part.parse::<u64>().ok());
    let mut part = || parts.next().flatten();
    reply::success(&json!({ "feVersionInfo": {
        "dorisBuildVersionPrefix": "dipper",
        "dorisBuildVersionMajor": part(),
        "dorisBuildVersionMinor": part(),
        "dorisBuildVersionPatch": part(),
        "dorisBuildVersion": VERSION,
    } }))
}

/// Describes the machine, as the system tells it under /proc.
pub(super) async fn hardware(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    if let Err(response) = authorized(&app, &client, &headers).await {
        return response;
    }
    let kernel = |name: &str| read(&format!("/proc/sys/kernel/{name}"));
    let (processors, memory) = (read("/proc/cpuinfo"), read("/proc/meminfo"));
    let model = field(&processors, "model name").unwrap_or("unknown processor");
    let count = std::thread::available_parallelism().map_or(1, usize::from);
    let size = |name: &str| field(&memory, name).unwrap_or("?");
    reply::success(&json!({
        "VersionInfo": { "Version": VERSION },
        "HardwareInfo": {
            "OS": format!("{} {}", kernel("ostype").trim(), kernel("osrelease").trim()),
            "Processor": format!("{model}<br> {count} logical CPU(s)"),
            "Memory": format!("Memory: {}/{}<br>Swap free: {}/{}", size("MemAvailable"), size("MemTotal"), size("SwapFree"), size("SwapTotal")),
            "Processes": format!("Threads of this process: {}", threads()),
            "NetworkParameter": format!("Host name: {}", kernel("hostname").trim()),
        },
    }))
}

fn read(path: &str) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}

/// Returns the value of a line `name : value`.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(found, _)| found.trim() == name).map(|(_, value)| value.trim())
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(0, Iterator::count)
}

/// Returns the memory that statements and caches may use, how much of it is not used, and the number of threads.
pub(super) async fn runtime(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    if let Err(response) = authorized(&app, &client, &headers).await {
        return response;
    }
    let limit = app.engine.memory_bytes();
    let used = own_process().map_or(0, |(resident, ..)| resident);
    reply::success(&json!({
        "free_mem": limit.saturating_sub(used).to_string(),
        "total_mem": limit.to_string(),
        "max_mem": limit.to_string(),
        "thread_cnt": threads().to_string(),
    }))
}

/// Returns the role of the node and the version of its catalog, in the lists that the console shows.
pub(super) async fn role(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    let mut session = match begin(&app, &client, &headers).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    said(texts(&mut session, FRONTENDS).await.map(|list| {
        let node = Node::of(&list);
        let one = |name: &str, value: Value| json!([{ "Name": name, "Value": value }]);
        json!({
            "FrontendRole": one("FrontendRole", node.role().into()),
            "CurrentJournalId": one("FrontendRole", node.cell("ReplayedJournalId")),
            "CanRead": one("Status", true.into()),
            "Electablenodes": one(&node.text("Host"), node.cell("Host")),
            "Observernodes": [],
            "CheckpointInfo": [],
            "allowedFrontends": one(&node.text("Name"), node.cell("Host")),
            "removedFronteds": [],
        })
    }))
}

const FRONTENDS: &str = "SHOW FRONTENDS";

/// The row of SHOW FRONTENDS.
struct Node<'a>(&'a Texts);

impl<'a> Node<'a> {
    fn of(list: &'a Texts) -> Self {
        Node(list)
    }

    fn text(&self, name: &str) -> String {
        let at = self.0.names.iter().position(|column| column == name);
        at.zip(self.0.rows.first()).and_then(|(at, row)| row[at].clone()).unwrap_or_default()
    }

    fn cell(&self, name: &str) -> Value {
        self.text(name).into()
    }

    fn role(&self) -> &'static str {
        if self.text("IsMaster") == "true" { "MASTER" } else { "FOLLOWER" }
    }
}

/// Returns what the parameter `action` asks for: the bytes of each database, or the role of the node.
pub(super) async fn meta(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let mut session = match begin(&app, &client, &headers).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    let action = parameter(&uri, "action").unwrap_or_default().to_ascii_lowercase();
    said(match action.as_str() {
        "show_db_size" => sizes(&mut session, &uri).await.map(|all| {
            let of = |tables: Map<String, Value>| tables.values().filter_map(Value::as_u64).sum::<u64>();
            all.into_iter().map(|(database, tables)| (database, of(tables).into())).collect::<Map<_, _>>().into()
        }),
        "show_ha" => texts(&mut session, FRONTENDS).await.map(|list| {
            let node = Node::of(&list);
            json!({
                "role": node.role(),
                "current_journal_id": node.text("ReplayedJournalId"),
                "master": node.text("Host"),
                "electable_nodes": node.text("Host"),
                "observer_nodes": "",
                "can_read": "true",
                "is_ready": "true",
            })
        }),
        other => Err(EngineError::invalid(format!(
            "expected the parameter action=SHOW_DB_SIZE or action=SHOW_HA, found '{other}'"
        ))),
    })
}
