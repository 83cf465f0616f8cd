//! The state of a table that a statement asks for with FOR VERSION AS OF and FOR TIMESTAMP AS OF.

use std::sync::Arc;

use arrow::datatypes::DataType;
use chrono::{NaiveDate, NaiveDateTime, TimeZone};
use datafusion::common::ScalarValue;
use dipper_dialect::statement::Statement;
use dipper_iceberg::metadata::At;
use dipper_sql::charter::session::TableVersion;
use futures::StreamExt;
use futures::future::BoxFuture;
use sqlparser::ast::{Expr, SelectItem, SetExpr};

use crate::context::QueryContext;
use crate::error::{EngineError, Result};
use crate::query;

/// Resolves the state that a statement asks for.
///
/// # Errors
/// `Invalid` if the time is not one; otherwise the error of computing its expression.
pub(crate) async fn at(context: &Arc<QueryContext>, version: Option<&TableVersion>) -> Result<At> {
    Ok(match version {
        None => At::Now,
        Some(TableVersion::Version(name)) => At::Version(name.clone()),
        Some(TableVersion::Branch(name)) => At::Branch(name.clone()),
        Some(TableVersion::Tag(name)) => At::Tag(name.clone()),
        Some(TableVersion::Time(text)) => At::Time(milliseconds(context, text, text)?),
        Some(TableVersion::TimeOf(expr)) => {
            let text = value_of(Arc::clone(context), (**expr).clone()).await?;
            At::Time(milliseconds(context, &text, &expr.to_string())?)
        }
    })
}

/// Converts a time in the session's time zone to milliseconds since 1970, UTC. `written` is its text in the statement,
/// for the error.
fn milliseconds(context: &QueryContext, text: &str, written: &str) -> Result<i64> {
    let text = text.trim();
    let bad =
        || EngineError::invalid(format!("FOR TIMESTAMP AS OF {written}: expected 'YYYY-MM-DD HH:MM:SS' or now()"));
    // MySQL's functions may be written without parentheses.
    if ["current_timestamp", "localtimestamp", "localtime", "now", "sysdate"].contains(&&*text.to_ascii_lowercase()) {
        return Ok(chrono::Utc::now().timestamp_millis());
    }
    let formats = ["%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f"];
    let day = || NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?.and_hms_opt(0, 0, 0);
    let local = formats.iter().find_map(|f| NaiveDateTime::parse_from_str(text, f).ok()).or_else(day);
    let local = local.ok_or_else(bad)?;
    let zone = context.variables.time_zone();
    // If clocks show a time twice, the later one counts.
    let found = match (zone.parse::<chrono_tz::Tz>(), zone.parse::<chrono::FixedOffset>()) {
        (Ok(zone), _) => zone.from_local_datetime(&local).latest().map(|t| t.timestamp_millis()),
        (_, Ok(offset)) => offset.from_local_datetime(&local).latest().map(|t| t.timestamp_millis()),
        _ => None,
    };
    found.ok_or_else(bad)
}

/// Computes an expression as text. Tables are looked up while a statement is planned, and this function plans another
/// statement, so the future is boxed.
fn value_of(context: Arc<QueryContext>, expr: Expr) -> BoxFuture<'static, Result<String>> {
    Box::pin(async move {
        let bad = |what: &str| EngineError::invalid(format!("FOR TIMESTAMP AS OF {expr}: {what}"));
        let parsed = dipper_dialect::parser::parse("SELECT 1", &Default::default())?.pop().map(|p| p.statement);
        let Some(Statement::Query(mut select)) = parsed else { return Err(bad("it is no value")) };
        match select.ast.body.as_mut() {
            SetExpr::Select(body) => body.projection = vec![SelectItem::UnnamedExpr(expr.clone())],
            _ => return Err(bad("it is no value")),
        }
        let (mut rows, _) = query::run(context, select, Vec::new()).await?;
        let mut value = ScalarValue::Null;
        while let Some(batch) = rows.batches.next().await {
            let batch = batch?;
            if batch.num_rows() > 0 {
                value = ScalarValue::try_from_array(batch.column(0), 0)?;
            }
        }
        match value.data_type() {
            DataType::Timestamp(..)
            | DataType::Date32
            | DataType::Date64
            | DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View => {}
            _ => return Err(bad("it gives no time")),
        }
        match value.cast_to(&DataType::Utf8)? {
            ScalarValue::Utf8(Some(text)) => Ok(text),
            _ => Err(bad("it gives NULL")),
        }
    })
}
