//! Answers in Doris's envelopes.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use serde_json::{Value, json};

/// Makes an answer with this body.
pub(super) fn text(status: StatusCode, content_type: &'static str, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    // `nosniff`: content from tables must never be taken for a page, whatever it looks like.
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// Makes an answer of JSON text.
pub(super) fn json_text(status: StatusCode, body: String) -> Response {
    text(status, "application/json;charset=utf-8", body)
}

/// `{"msg":"success","code":0,"data":...,"count":0}`.
pub(super) fn success(data: &Value) -> Response {
    envelope(StatusCode::OK, "success", 0, data)
}

/// Answers the state of a label, in both places where clients look: `data` (Doris) and `state` (StarRocks).
pub(super) fn load_state(state: &str) -> Response {
    let state = Value::from(state);
    let text = format!(
        "{{\"msg\":\"success\",\"code\":0,\"data\":{state},\"count\":0,\"status\":\"OK\",\"state\":{state}}}\n"
    );
    json_text(StatusCode::OK, text)
}

/// Answers an error in Doris's envelope: with status 200, and the number in `code`.
pub(super) fn failure(code: u16, message: &str, detail: &str) -> Response {
    envelope(StatusCode::OK, message, code, &Value::from(detail))
}

/// Answers an error in the same envelope but with an HTTP status, for requests that cannot come from clients of Doris.
pub(super) fn refusal(status: StatusCode, detail: &str) -> Response {
    envelope(status, status.canonical_reason().unwrap_or_default(), status.as_u16(), &Value::from(detail))
}

/// Refuses an address that there is not.
pub(super) fn no_address(path: &str) -> Response {
    refusal(StatusCode::NOT_FOUND, &format!("no such address: {path}"))
}

/// The answer while the server stops. The client had better ask another one, by another connection.
pub(super) fn stopping() -> Response {
    let detail = Value::from("Server shutdown in progress");
    let mut response =
        envelope(StatusCode::SERVICE_UNAVAILABLE, "Service Unavailable", dipper_mysql::code::SERVER_SHUTDOWN, &detail);
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}

fn envelope(status: StatusCode, message: &str, code: u16, data: &Value) -> Response {
    let message = Value::from(message);
    json_text(status, format!("{{\"msg\":{message},\"code\":{code},\"data\":{data},\"count\":0}}\n"))
}

/// The form with two fields, for loads that fail before they begin and for two-phase commit.
pub(super) fn short(status: &str, message: &str) -> Response {
    json_text(StatusCode::OK, format!("{{\"status\":{},\"msg\":{}}}\n", json!(status), json!(message)))
}
