//! Stream Load over HTTP.
//!
//! Everything that the head of a request can tell is checked before its body is asked for. A client that sends `Expect:
//! 100-continue` therefore sends nothing in vain; a client that does not is answered in the same way.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header};
use axum::response::Response;
use dipper_engine::ClientInfo;
use dipper_engine::load::LoadSpec;
use dipper_engine::load::answer::{LoadAnswer, LoadStatus};
use dipper_engine::load::body::BodySource;
use dipper_engine::load::records::LoadKind;
use dipper_engine::load::request::StreamLoadRequest;
use dipper_engine::load::two_phase::{TwoPhase, TxnName};

use super::body::{Drain, drain, expects_leave, pump, small};
use super::listener::Client;
use super::{App, authorized, database, parameter, reply};

/// Header by which a client asks for a redirect. Clients that were written for a front end with other machines behind
/// it send it.
const REDIRECT_POLICY: &str = "redirect-policy";
/// Parameter that marks an address to which a redirect led.
const REDIRECTED: &str = "redirected";

/// `PUT /api/{db}/{table}/_stream_load`.
pub(super) async fn stream_load(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path((db, table)): Path<(String, String)>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    let user = match admitted(&app, &client, headers, &head.uri).await {
        Ok(user) => user,
        Err(response) => return early(response, headers, body, &client, Drain::Stranger),
    };
    let refused = |answer: LoadAnswer| answered(&answer, headers);
    if let Err(message) = framing(headers) {
        return early(refused(LoadAnswer::new("", "").failed(message)), headers, body, &client, Drain::Load);
    }
    let given = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let load = match StreamLoadRequest::from_headers(given) {
        Ok(load) => load,
        Err(e) => {
            let answer = LoadAnswer::new(text(headers, "label"), text(headers, "comment")).failed(e.to_string());
            return early(refused(answer), headers, body, &client, Drain::Load);
        }
    };
    let spec = LoadSpec {
        kind: LoadKind::Stream,
        client: client_info(&app, &client, user),
        database: database(&db).to_string(),
        table,
        request: load,
    };
    match app.engine.begin_load(spec).await {
        Ok(job) => {
            let label = job.label().to_string();
            run(&app, &client, label, |receiver| job.run(receiver), headers, body).await
        }
        Err(answer) => early(refused(*answer), headers, body, &client, Drain::Load),
    }
}

/// `PUT /api/_http_stream`: the header `sql` holds an INSERT that reads the body.
pub(super) async fn http_stream(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    request: Request,
) -> Response {
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    let user = match admitted(&app, &client, headers, &head.uri).await {
        Ok(user) => user,
        Err(response) => return early(response, headers, body, &client, Drain::Stranger),
    };
    let refused = |message: String| {
        answered(&LoadAnswer::new(text(headers, "label"), text(headers, "comment")).failed(message), headers)
    };
    if let Err(message) = framing(headers) {
        return early(refused(message), headers, body, &client, Drain::Load);
    }
    let given = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let load = match StreamLoadRequest::from_headers(given) {
        Ok(load) => load,
        Err(e) => return early(refused(e.to_string()), headers, body, &client, Drain::Load),
    };
    let sql = match headers.get("sql").map(|sql| std::str::from_utf8(sql.as_bytes())) {
        Some(Ok(sql)) if !sql.is_empty() => sql.to_string(),
        Some(Err(_)) => return early(refused("header 'sql' is not UTF-8".into()), headers, body, &client, Drain::Load),
        _ => {
            let message =
                "header 'sql' is missing: INSERT INTO db.table SELECT ... FROM http_stream(\"format\" = \"csv\")";
            return early(refused(message.into()), headers, body, &client, Drain::Load);
        }
    };
    let (engine, info) = (Arc::clone(&app.engine), client_info(&app, &client, user));
    let load = |receiver| async move { dipper_engine::load::http_stream(&engine, info, &sql, &load, receiver).await };
    run(&app, &client, String::new(), load, headers, body).await
}

/// Passes the body on to the load and answers when the load has ended.
async fn run<F: Future<Output = LoadAnswer> + Send + 'static>(
    app: &App,
    client: &Client,
    label: String,
    load: impl FnOnce(BodySource) -> F,
    headers: &HeaderMap,
    body: Body,
) -> Response {
    answered(&taken(app, client, label, load, body).await, headers)
}

/// Passes a body on to a load, and returns the load's own answer.
pub(super) async fn taken<F: Future<Output = LoadAnswer> + Send + 'static>(
    app: &App,
    client: &Client,
    label: String,
    load: impl FnOnce(BodySource) -> F,
    body: Body,
) -> LoadAnswer {
    let (sender, receiver) = dipper_engine::load::body::body();
    // The load is a task of its own: once the body is complete, it goes on even if its client is gone.
    let mut running = tokio::spawn(load(receiver));
    let mut stream = body.into_data_stream();
    let ended = tokio::select! {
        biased;
        ended = &mut running => Some(ended),
        () = pump(&mut stream, sender, app.settings.idle) => None,
    };
    let ended = match ended {
        Some(ended) => ended,
        None => running.await,
    };
    let answer = match ended {
        Ok(answer) => answer,
        Err(e) => {
            tracing::error!(label, error = %e, "a load ended without an answer");
            LoadAnswer::new(label, "").failed("internal error: the load ended without an answer; nothing was loaded")
        }
    };
    // Ends at once if nothing is left to read.
    drain(stream, Drain::Load, client.busy());
    answer
}

/// Returns the user of a request, or the answer that ends the request: a redirect or a refusal.
pub(super) async fn admitted(app: &App, client: &Client, headers: &HeaderMap, uri: &Uri) -> Result<String, Response> {
    let user = authorized(app, client, headers).await?;
    if headers.contains_key(REDIRECT_POLICY) && parameter(uri, REDIRECTED).is_none() {
        return Err(redirect(headers, uri));
    }
    Ok(user)
}

/// Redirects to the same host and port, with the mark and without credentials.
fn redirect(headers: &HeaderMap, uri: &Uri) -> Response {
    let host = headers.get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
    let separator = if uri.query().is_some() { '&' } else { '?' };
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    let location = format!("http://{host}{path}{separator}{REDIRECTED}=1");
    let mut response = reply::text(StatusCode::TEMPORARY_REDIRECT, "text/plain", Body::empty());
    // Both parts come from a request that has been read, so they are legal in a header.
    if let Ok(location) = HeaderValue::from_str(&location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

/// Returns an answer that is given before the body was asked for; a body that comes anyway is discarded.
pub(super) fn early(response: Response, headers: &HeaderMap, body: Body, client: &Client, limit: Drain) -> Response {
    if !expects_leave(headers) {
        drain(body.into_data_stream(), limit, client.busy());
    }
    response
}

/// Checks that a body has a length or comes in chunks.
pub(super) fn framing(headers: &HeaderMap) -> Result<(), String> {
    if headers.contains_key(header::CONTENT_LENGTH) || headers.contains_key(header::TRANSFER_ENCODING) {
        return Ok(());
    }
    Err("[INTERNAL_ERROR]content_length is empty and transfer-encoding!=chunked, please set content_length or transfer-encoding=chunked".into())
}

pub(super) fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or_default()
}

pub(super) fn client_info(app: &App, client: &Client, user: String) -> ClientInfo {
    ClientInfo { connection_id: app.engine.next_connection_id(), user, host: client.peer.to_string(), database: None }
}

/// Answers a load: status 200 whatever the result, but 503 if it is not known whether the load was committed.
fn answered(answer: &LoadAnswer, headers: &HeaderMap) -> Response {
    let status = match answer.status {
        LoadStatus::Unknown => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::OK,
    };
    let base = format!("http://{}", text(headers, "host"));
    reply::json_text(status, answer.to_json(&base))
}

/// `PUT /api/{db}/_stream_load_2pc`.
pub(super) async fn two_phase(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path(db): Path<String>,
    request: Request,
) -> Response {
    second_phase(&app, &client, &db, None, request).await
}

/// `PUT /api/{db}/{table}/_stream_load_2pc`.
pub(super) async fn two_phase_of_table(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path((db, table)): Path<(String, String)>,
    request: Request,
) -> Response {
    second_phase(&app, &client, &db, Some(&table), request).await
}

async fn second_phase(app: &App, client: &Client, db: &str, table: Option<&str>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let headers = &head.headers;
    let user = match admitted(app, client, headers, &head.uri).await {
        Ok(user) => user,
        Err(response) => return early(response, headers, body, client, Drain::Stranger),
    };
    // Some clients send a body with this request; it has no meaning.
    if let Err(reason) = small(body, 1 << 20, app.settings.idle).await {
        return reply::short("Fail", &reason);
    }
    let name = match (text(headers, "txn_id"), text(headers, "label")) {
        ("", "") => return reply::short("Fail", "txn_id and label are empty; expected one of them"),
        ("", label) => TxnName::Label(label.to_string()),
        (number, _) => match number.parse() {
            Ok(number) => TxnName::Number(number),
            Err(_) => {
                let message = format!("convert txn_id [{number}] failed: it is not a number");
                return reply::short("Fail", &message);
            }
        },
    };
    let operation = match text(headers, "txn_operation") {
        o if o.eq_ignore_ascii_case("commit") => TwoPhase::Commit,
        o if o.eq_ignore_ascii_case("abort") => TwoPhase::Abort,
        "" => return reply::short("Fail", "transaction operation should be 'commit' or 'abort', found none"),
        o => return reply::short("Fail", &format!("transaction operation should be 'commit' or 'abort', found '{o}'")),
    };
    let who = client_info(app, client, user);
    match app.engine.end_prepared(&who, database(db), table, &name, operation).await {
        Ok(message) => reply::short("Success", &message),
        Err(e) => reply::short("Fail", &e.message),
    }
}

/// `GET /api/{db}/get_load_state?label=`.
pub(super) async fn load_state(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path(db): Path<String>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    let user = match authorized(&app, &client, &headers).await {
        Ok(user) => user,
        Err(response) => return response,
    };
    let Some(label) = parameter(&uri, "label") else {
        return reply::failure(1, "Error", "expected a label: get_load_state?label=...");
    };
    // USE refuses a user who may see nothing of the database.
    if let Err(e) = app.session(&user, client.peer).use_database(database(&db)).await {
        return reply::failure(1, "Error", &e.message);
    }
    match app.engine.label_state(database(&db), &label).await {
        Ok(state) => reply::load_state(state),
        Err(e) => reply::failure(1, "Error", &e.message),
    }
}

/// `GET` and `HEAD /api/_load_error_log?file=`. The name in `file` is random, and knowing it is the permission, as in
/// Doris: people open the address from the answer of a load in a browser.
pub(super) async fn error_log(State(app): State<Arc<App>>, method: Method, uri: Uri) -> Response {
    let Some(file) = parameter(&uri, "file") else {
        return reply::refusal(StatusCode::BAD_REQUEST, "expected a file: _load_error_log?file=...");
    };
    match app.engine.load_error_log(&file).await {
        Ok(Some(bytes)) => {
            let length = bytes.len();
            let body = if method == Method::HEAD { Body::empty() } else { Body::from(bytes) };
            let mut response = reply::text(StatusCode::OK, "text/plain;charset=utf-8", body);
            response.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(length));
            response
        }
        Ok(None) => reply::refusal(StatusCode::NOT_FOUND, "no such error log; they are kept for 48 hours"),
        Err(e) => reply::failure(1, "Error", &e.message),
    }
}
