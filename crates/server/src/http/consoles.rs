//! Requests of Doris's console, of its manager and of programs that watch it: lists of the server, its sessions and
//! settings, and names of databases and tables. Each answer is that of a statement.

use std::sync::Arc;

use axum::extract::{ConnectInfo, Path, State};
use axum::http::{HeaderMap, Uri};
use axum::response::Response;
use dipper_engine::{EngineError, Session};
use serde_json::{Map, Value, json};

use super::info::host;
use super::listener::Client;
use super::tables::{Texts, begin, literal, quoted, said, texts};
use super::{App, authorized, database, parameter, reply};

/// Returns the list that SHOW PROC gives for the parameter `path`, in the form that the console reads.
pub(super) async fn system(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let form = |list: Texts| {
        let first: Vec<String> = list.names.iter().take(1).cloned().collect();
        let mut data = objects(list);
        data["href_columns"] = first.into();
        data["parent_url"] = "/rest/v1/system?path=/".into();
        data
    };
    answer(&app, &client, &headers, &proc(&uri), form).await
}

/// Returns the rows that SHOW PROC gives for the parameter `path`.
pub(super) async fn show_proc(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    answer(&app, &client, &headers, &proc(&uri), |list| json!(list.rows)).await
}

fn proc(uri: &Uri) -> String {
    let path = parameter(uri, "path").unwrap_or_default();
    format!("SHOW PROC {}", literal(&format!("/{}", path.trim_matches('/'))))
}

/// Lists the sessions that the user sees.
pub(super) async fn sessions(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    answer(&app, &client, &headers, "SHOW FULL PROCESSLIST", objects).await
}

/// Lists the settings that can be changed while the server runs.
pub(super) async fn settings(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    let form = |list: Texts| {
        let names = ["Name", "Value"].map(String::from);
        let rows = list.rows.into_iter().map(|row| row.into_iter().take(names.len()).collect()).collect();
        objects(Texts { names: names.into(), rows })
    };
    answer(&app, &client, &headers, SETTINGS, form).await
}

const SETTINGS: &str = "SHOW FRONTEND CONFIG";

/// Lists the names of settings by kind of node. This server is both.
pub(super) async fn setting_names(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    let form = |list: Texts| json!({ "frontend": firsts(list), "backend": [] });
    answer(&app, &client, &headers, SETTINGS, form).await
}

/// SHOW BACKENDS, SHOW FRONTENDS or SHOW BROKER for the manager.
pub(super) async fn nodes(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path(kind): Path<String>,
    headers: HeaderMap,
) -> Response {
    let statement = match kind.as_str() {
        "backends" => "SHOW BACKENDS",
        "frontends" => "SHOW FRONTENDS",
        "brokers" => "SHOW BROKER",
        _ => return reply::no_address(&format!("/rest/v2/manager/node/{kind}")),
    };
    // The manual names the columns in one way, and Doris in the other.
    let form = |list: Texts| json!({ "column_names": list.names, "columnNames": list.names, "rows": list.rows });
    answer(&app, &client, &headers, statement, form).await
}

/// Lists the nodes by kind: this server, under the name by which the client reached it.
pub(super) async fn node_list(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    if let Err(response) = authorized(&app, &client, &headers).await {
        return response;
    }
    let (ip, port) = host(&app, &headers);
    let nodes = [format!("{ip}:{port}")];
    reply::success(&json!({ "frontend": nodes, "backend": nodes }))
}

/// Returns the addresses of both ports, under the name by which the client reached the server.
pub(super) async fn addresses(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    headers: HeaderMap,
) -> Response {
    if let Err(response) = authorized(&app, &client, &headers).await {
        return response;
    }
    let (ip, port) = host(&app, &headers);
    reply::success(&json!({ "http": [format!("{ip}:{port}")], "mysql": [format!("{ip}:{}", app.mysql.port())] }))
}

/// Lists the names of the databases of a catalog.
pub(super) async fn databases(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path(namespace): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let statement = match namespace.as_str() {
        "default_cluster" | "internal" | "default_catalog" => "SHOW DATABASES".to_string(),
        catalog => format!("SHOW DATABASES FROM {}", quoted(catalog)),
    };
    names(&app, &client, &headers, &uri, &statement).await
}

/// Lists the names of the tables and views of a database.
pub(super) async fn tables(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path((namespace, db)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    names(&app, &client, &headers, &uri, &format!("SHOW TABLES FROM {}", within(&namespace, &db))).await
}

/// Returns the columns of a table, and with `with_mv=1` those of its rollups.
pub(super) async fn table_schema(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path((namespace, db, table)): Path<(String, String, String)>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let rollups = parameter(&uri, "with_mv").is_some_and(|value| value == "1");
    let statement = format!("DESC {}.{} ALL", within(&namespace, &db), quoted(&table));
    answer(&app, &client, &headers, &statement, |list| by_index(&list, rollups)).await
}

/// Groups the rows of DESC ALL by index. The first index is the table itself.
fn by_index(list: &Texts, rollups: bool) -> Value {
    let at = |name: &str| list.names.iter().position(|n| n == name);
    let cell = |row: &[Option<String>], name: &str| at(name).and_then(|at| row[at].clone());
    let mut all: Map<String, Value> = Map::new();
    let mut current = String::new();
    for row in &list.rows {
        if let Some(name) = cell(row, "IndexName").filter(|name| !name.is_empty()) {
            if !rollups && !all.is_empty() {
                break;
            }
            let index = json!({ "schema": [], "is_base": all.is_empty() });
            all.insert(name.clone(), index);
            current = name;
        }
        // An empty row is between two indexes.
        if cell(row, "Field").is_none_or(|field| field.is_empty()) {
            continue;
        }
        let column: Map<String, Value> = ["Field", "Type", "Null", "Extra", "Default", "Key"]
            .map(|name| (name.to_string(), cell(row, name).into()))
            .into_iter()
            .collect();
        if let Some(Value::Array(columns)) = all.get_mut(&current).map(|index| &mut index["schema"]) {
            columns.push(column.into());
        }
    }
    Value::Object(all)
}

/// Returns the name of a database in SQL.
fn within(namespace: &str, db: &str) -> String {
    match namespace {
        "default_cluster" | "internal" | "default_catalog" => quoted(database(db)),
        catalog => format!("{}.{}", quoted(catalog), quoted(db)),
    }
}

/// Answers the names in the first column of a statement's result.
async fn names(app: &App, client: &Client, headers: &HeaderMap, uri: &Uri, statement: &str) -> Response {
    match begin(app, client, headers).await {
        Ok(mut session) => said(page(&mut session, uri, statement).await),
        Err(response) => response,
    }
}

/// Returns the names in the first column, sorted, from the parameter `offset` on, and `limit` of them at most.
async fn page(session: &mut Session, uri: &Uri, statement: &str) -> Result<Value, EngineError> {
    let number = |name: &str| match parameter(uri, name) {
        None => Ok(None),
        Some(text) => text.parse::<usize>().map(Some).map_err(|_| {
            EngineError::invalid(format!("expected a number of names in the parameter {name}, found '{text}'"))
        }),
    };
    let (offset, limit) = (number("offset")?, number("limit")?);
    if offset.is_some() && limit.is_none() {
        return Err(EngineError::invalid("the parameter offset needs the parameter limit"));
    }
    let mut all = firsts(texts(session, statement).await?);
    all.sort_unstable();
    let wanted = all.into_iter().skip(offset.unwrap_or(0)).take(limit.unwrap_or(usize::MAX));
    Ok(Value::from(wanted.collect::<Vec<_>>()))
}

/// The texts of the first column.
fn firsts(list: Texts) -> Vec<String> {
    list.rows.into_iter().filter_map(|row| row.into_iter().next()?).collect()
}

/// Makes an object of each row.
fn objects(list: Texts) -> Value {
    let rows: Vec<Value> = (list.rows.into_iter())
        .map(|row| Value::Object(list.names.iter().cloned().zip(row.into_iter().map(Value::from)).collect()))
        .collect();
    json!({ "column_names": list.names, "rows": rows })
}

/// Answers the result of a statement in some form.
async fn answer(
    app: &App,
    client: &Client,
    headers: &HeaderMap,
    statement: &str,
    form: impl FnOnce(Texts) -> Value,
) -> Response {
    let mut session = match begin(app, client, headers).await {
        Ok(session) => session,
        Err(response) => return response,
    };
    said(texts(&mut session, statement).await.map(form))
}
