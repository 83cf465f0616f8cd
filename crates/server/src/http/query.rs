//! `POST /api/query/{ns}/{db}`: SQL in, JSON out.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::{StatusCode, header};
use axum::response::Response;
use dipper_engine::{Column, EngineError, Outcome, Session};
use dipper_sql::charter::as_shown;
use futures::StreamExt;
use serde_json::{Value, json};

use super::listener::Client;
use super::{App, authorized, body, database, reply};

/// Longest statement, in bytes.
const STATEMENT_BYTES_MAX: usize = 16 << 20;

/// Largest answer, in bytes. The answer is built in memory before it is sent.
const ANSWER_BYTES_MAX: usize = 256 << 20;

/// Runs the statement `stmt` of a JSON object.
pub(super) async fn query(
    State(app): State<Arc<App>>,
    ConnectInfo(client): ConnectInfo<Client>,
    Path((namespace, db)): Path<(String, String)>,
    request: Request,
) -> Response {
    let user = match authorized(&app, &client, request.headers()).await {
        Ok(user) => user,
        Err(response) => return response,
    };
    // Only this type is accepted, because a form of a foreign page cannot send it.
    let content_type = request.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    if !media_type.eq_ignore_ascii_case("application/json") {
        let detail = format!("expected Content-Type: application/json, found '{content_type}'");
        return reply::refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, &detail);
    }
    let bytes = match body::small(request.into_body(), STATEMENT_BYTES_MAX, app.settings.idle).await {
        Ok(bytes) => bytes,
        Err(reason) => return reply::failure(400, "Bad Request", &reason),
    };
    let value: Value = match serde_json::from_slice(&bytes) {
        Ok(value) => value,
        Err(e) => return reply::failure(400, "Bad Request", &format!("the body is not JSON: {e}")),
    };
    let Some(statement) = value["stmt"].as_str() else {
        return reply::failure(400, "Bad Request", "expected an object with a string 'stmt'");
    };
    if namespace != "default_cluster" && namespace != "internal" {
        let detail = format!("no catalog '{namespace}'; expected 'internal' or 'default_cluster'");
        return reply::failure(1, "Error", &detail);
    }
    let begun = Instant::now();
    let mut session = app.session(&user, client.peer);
    match run(&mut session, database(&db), statement).await {
        Ok(Answer::Done(affected)) => reply::success(&json!({
            "type": "exec_status",
            "status": { "affected_rows": affected },
            "time": begun.elapsed().as_millis() as u64,
        })),
        Ok(Answer::Rows { meta, data }) => {
            // The rows are JSON text already; converting them to a tree of values would cost more than producing them.
            let time = begun.elapsed().as_millis();
            let text = format!(
                "{{\"msg\":\"success\",\"code\":0,\"data\":{{\"type\":\"result_set\",\"data\":{data},\"meta\":{meta},\"status\":{{}},\"time\":{time}}},\"count\":0}}\n"
            );
            reply::json_text(StatusCode::OK, text)
        }
        Err(e) => reply::failure(1, "Error", &e.message),
    }
}

enum Answer {
    Done(u64),
    Rows { meta: Value, data: String },
}

async fn run(session: &mut Session, database: &str, statement: &str) -> Result<Answer, EngineError> {
    session.use_database(database).await?;
    match execute(session, statement).await? {
        Outcome::Done(done) => Ok(Answer::Done(done.affected_rows)),
        Outcome::Rows(mut rows) => {
            let meta = rows.columns.iter().map(|c| json!({ "name": c.name, "type": type_name(c) })).collect();
            let mut data = String::from("[");
            while let Some(batch) = rows.batches.next().await {
                let batch = as_shown(&batch?, rows.columns.iter().map(|c| c.field.as_ref()))?;
                append(&batch, &mut data)?;
                if data.len() > ANSWER_BYTES_MAX {
                    return Err(EngineError::unsupported(format!(
                        "the answer is larger than {ANSWER_BYTES_MAX} bytes; add a LIMIT, or use the MySQL port, which sends rows as they come"
                    )));
                }
            }
            data.push(']');
            Ok(Answer::Rows { meta, data })
        }
    }
}

/// Runs a text that must be exactly one statement.
pub(super) async fn execute(session: &mut Session, statement: &str) -> Result<Outcome, EngineError> {
    let mut parsed = session.parse(statement)?;
    match (parsed.pop(), parsed.is_empty()) {
        (Some(one), true) => session.execute(statement, &one, Vec::new()).await,
        (None, _) => Err(EngineError::invalid("the statement is empty")),
        (Some(_), false) => Err(EngineError::invalid("expected one statement, found several")),
    }
}

fn type_name(column: &Column) -> String {
    match column.field.metadata().get("dipper.type") {
        Some(declared) => declared.to_uppercase(),
        None => match column.field.data_type() {
            DataType::Boolean => "BOOLEAN".into(),
            DataType::Int8 => "TINYINT".into(),
            DataType::Int16 => "SMALLINT".into(),
            DataType::Int32 => "INT".into(),
            DataType::Int64 => "BIGINT".into(),
            DataType::UInt64 => "BIGINT UNSIGNED".into(),
            DataType::Float32 => "FLOAT".into(),
            DataType::Float64 => "DOUBLE".into(),
            DataType::Decimal256(39, 0) => "LARGEINT".into(),
            DataType::Decimal128(p, s) | DataType::Decimal256(p, s) => format!("DECIMAL({p},{s})"),
            DataType::Date32 => "DATE".into(),
            DataType::Timestamp(..) => "DATETIME".into(),
            DataType::Time32(_) | DataType::Time64(_) => "TIME".into(),
            DataType::List(_) | DataType::LargeList(_) => "ARRAY".into(),
            DataType::Map(..) => "MAP".into(),
            DataType::Struct(_) => "STRUCT".into(),
            DataType::FixedSizeBinary(4) => "IPV4".into(),
            DataType::FixedSizeBinary(_) => "IPV6".into(),
            _ => "STRING".into(),
        },
    }
}

/// Whether a value's text is a JSON number.
fn is_number(data_type: &DataType) -> bool {
    // Decimals and LARGEINT are sent as strings, because most readers would lose digits.
    data_type.is_integer() || matches!(data_type, DataType::Float32 | DataType::Float64)
}

/// Appends the rows of a batch as JSON arrays.
fn append(batch: &RecordBatch, out: &mut String) -> Result<(), EngineError> {
    let mut cell = Vec::new();
    for row in 0..batch.num_rows() {
        out.push_str(if out.len() > 1 { ",[" } else { "[" });
        for (i, column) in batch.columns().iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            if column.is_null(row) || *column.data_type() == DataType::Null {
                out.push_str("null");
                continue;
            }
            cell.clear();
            dipper_mysql::encode::write_text(column, row, &mut cell)
                .map_err(|e| EngineError::unsupported(e.to_string()))?;
            let text = String::from_utf8_lossy(&cell);
            // JSON has no numbers for inf and nan.
            if is_number(column.data_type()) && text.bytes().all(|b| !b.is_ascii_alphabetic() || b == b'e') {
                out.push_str(&text);
            } else {
                let _ = write!(out, "{}", Value::from(&*text));
            }
        }
        out.push(']');
    }
    Ok(())
}
