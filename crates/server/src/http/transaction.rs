//! StarRocks' transaction interface, `/api/transaction/...`: label, database and table are headers.
//!
//! The fields of its answers are StarRocks' own. `Status` is `OK`, `FAILED`, `LABEL_ALREADY_EXISTS` or
//! `TXN_NOT_EXISTS`.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use dipper_engine::load::answer::{LoadAnswer, LoadStatus};
use dipper_engine::load::request::StreamLoadRequest;
use dipper_engine::load::transactions::{Operation, TransactionError, TransactionName, TransactionTimes};
use serde_json::{Map, Value, json};

use super::body::{Drain, small};
use super::listener::Client;
use super::load::{admitted, client_info, early, framing, taken, text};
use super::{App, database, reply};

/// Largest body, in bytes, of requests whose body has no meaning.
const BODY_MAX: usize = 1 << 20;

/// `POST /api/transaction/begin`.
pub(super) async fn begin(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    request: Request,
) -> Response {
    let begun = Instant::now();
    let (name, headers) = match named(&app, &client, request).await {
        Ok(named) => named,
        Err(response) => return response,
    };
    let times = match times(&headers) {
        Ok(times) => times,
        Err(message) => return failed(&name.label, &refused(message)),
    };
    match app.engine.begin_transaction(&name, times).await {
        Ok(number) => {
            let mut fields = ok(&name.label, number, "");
            fields.insert("BeginTxnTimeMs".into(), (begun.elapsed().as_millis() as u64).into());
            object(fields)
        }
        Err(e) => failed(&name.label, &e),
    }
}

/// `PUT /api/transaction/load`.
pub(super) async fn load(
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
    let name = name(&app, &client, user, headers);
    let label = name.label.clone();
    let given = headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes()));
    let read = framing(headers).and_then(|()| StreamLoadRequest::from_headers(given).map_err(|e| e.to_string()));
    let load = match read {
        Ok(load) => app.engine.begin_load_within(&name, load).await,
        Err(message) => Err(refused(message)),
    };
    match load {
        Ok(load) => {
            let number = load.number();
            let answer = taken(&app, &client, label.clone(), |receiver| load.run(receiver), body).await;
            loaded(&label, number, &answer, headers)
        }
        Err(e) => early(failed(&label, &e), headers, body, &client, Drain::Load),
    }
}

/// `POST /api/transaction/prepare`.
pub(super) async fn prepare(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    request: Request,
) -> Response {
    ended(&app, &client, request, Operation::Prepare).await
}

/// `POST /api/transaction/commit`.
pub(super) async fn commit(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    request: Request,
) -> Response {
    ended(&app, &client, request, Operation::Commit).await
}

/// `POST /api/transaction/rollback`.
pub(super) async fn rollback(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    request: Request,
) -> Response {
    ended(&app, &client, request, Operation::Rollback).await
}

async fn ended(app: &App, client: &Client, request: Request, operation: Operation) -> Response {
    let (name, _) = match named(app, client, request).await {
        Ok(named) => named,
        Err(response) => return response,
    };
    match app.engine.end_transaction(&name, operation).await {
        Ok(done) => {
            let mut fields = ok(&name.label, done.number, &done.message);
            if operation == Operation::Prepare {
                fields.insert("NumberTotalRows".into(), done.rows.into());
                fields.insert("NumberLoadedRows".into(), done.rows.into());
            }
            object(fields)
        }
        Err(e) => failed(&name.label, &e),
    }
}

/// Returns the transaction that a request names, with its user, and the headers. Reads the body, which has no meaning,
/// and discards it.
async fn named(app: &App, client: &Client, request: Request) -> Result<(TransactionName, HeaderMap), Response> {
    let (head, body) = request.into_parts();
    let user = match admitted(app, client, &head.headers, &head.uri).await {
        Ok(user) => user,
        Err(response) => return Err(early(response, &head.headers, body, client, Drain::Stranger)),
    };
    let name = name(app, client, user, &head.headers);
    if let Err(reason) = small(body, BODY_MAX, app.settings.idle).await {
        return Err(failed(&name.label, &refused(reason)));
    }
    if name.label.is_empty() || name.database.is_empty() {
        return Err(failed(
            &name.label,
            &refused("the headers 'label' and 'db' say which transaction is meant".into()),
        ));
    }
    Ok((name, head.headers))
}

fn name(app: &App, client: &Client, user: String, headers: &HeaderMap) -> TransactionName {
    TransactionName {
        client: client_info(app, client, user),
        database: database(text(headers, "db")).to_string(),
        table: Some(text(headers, "table")).filter(|table| !table.is_empty()).map(str::to_string),
        label: text(headers, "label").to_string(),
    }
}

/// Reads the headers `timeout` and `idle_transaction_timeout`, in seconds.
fn times(headers: &HeaderMap) -> Result<TransactionTimes, String> {
    let seconds = |name: &str| match text(headers, name) {
        "" => Ok(None),
        given => match given.parse::<u32>() {
            Ok(seconds @ 1..) => Ok(Some(Duration::from_secs(seconds.into()))),
            _ => Err(format!("Invalid '{name}': {given}; expected a number of seconds above 0")),
        },
    };
    Ok(TransactionTimes { whole: seconds("timeout")?, idle: seconds("idle_transaction_timeout")? })
}

fn refused(message: String) -> TransactionError {
    TransactionError { status: "FAILED", message, existing: None, number: None }
}

fn ok(label: &str, number: u64, message: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("Status".into(), "OK".into());
    fields.insert("Message".into(), message.into());
    fields.insert("Label".into(), label.into());
    fields.insert("TxnId".into(), number.into());
    fields
}

fn failed(label: &str, e: &TransactionError) -> Response {
    let mut fields = Map::new();
    fields.insert("Status".into(), e.status.into());
    fields.insert("Message".into(), e.message.as_str().into());
    fields.insert("Label".into(), label.into());
    if let Some(number) = e.number {
        fields.insert("TxnId".into(), number.into());
    }
    if let Some(existing) = e.existing {
        fields.insert("ExistingJobStatus".into(), existing.into());
    }
    object(fields)
}

/// The answer to a load of a transaction.
fn loaded(label: &str, number: u64, answer: &LoadAnswer, headers: &HeaderMap) -> Response {
    let is_ok = answer.status == LoadStatus::Success;
    let ms = |d: Duration| d.as_millis() as u64;
    let times = &answer.times;
    let mut fields = ok(label, number, if is_ok { "" } else { &answer.message });
    if !is_ok {
        fields.insert("Status".into(), "FAILED".into());
    }
    let more = json!({
        "Seq": 0,
        "NumberTotalRows": answer.total_rows,
        "NumberLoadedRows": answer.loaded_rows,
        "NumberFilteredRows": answer.filtered_rows,
        "NumberUnselectedRows": answer.unselected_rows,
        "LoadBytes": answer.bytes,
        "LoadTimeMs": ms(times.total),
        "StreamLoadPutTimeMs": ms(times.plan),
        "ReceivedDataTimeMs": ms(times.receive),
        "WriteDataTimeMs": ms(times.write),
    });
    if let Value::Object(more) = more {
        fields.extend(more);
    }
    let base = format!("http://{}", text(headers, "host"));
    if let Some(url) = answer.error_url(&base) {
        fields.insert("ErrorURL".into(), url.into());
    }
    object(fields)
}

fn object(fields: Map<String, Value>) -> Response {
    reply::json_text(StatusCode::OK, format!("{}\n", Value::Object(fields)))
}
