//! Defaults and the time of the statement as expressions of queries.

use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use dipper_base::{address, clock};
use dipper_exec::shape::{Now, omitted_value, stamped};
use dipper_sql::functions::datetime::Zone;
use dipper_store::table::schema::TableColumn;
use sqlparser::ast;

use crate::error::{EngineError, Result};
use crate::session::Session;

/// Returns the time of the statement, for CURRENT_TIMESTAMP.
pub(crate) fn now(session: &Session) -> Now {
    // `SET time_zone` accepts only valid names and offsets.
    let zone = Zone::parse(&session.variables.time_zone()).unwrap_or(Zone::Fixed(0));
    Now::new(chrono::Utc::now().timestamp_micros(), zone)
}

/// Converts a value to an expression of a query.
fn literal(value: &ScalarValue) -> Result<ast::Expr> {
    let value = match value {
        v if v.is_null() => ast::Value::Null,
        ScalarValue::FixedSizeBinary(_, Some(bytes)) => ast::Value::SingleQuotedString(address::shown(bytes)),
        ScalarValue::BinaryView(Some(bytes)) => {
            ast::Value::HexStringLiteral(bytes.iter().map(|b| format!("{b:02x}")).collect())
        }
        ScalarValue::Time64Microsecond(Some(time)) => ast::Value::SingleQuotedString(clock::text(*time, None)),
        v => {
            let text = v
                .to_array()
                .map_err(EngineError::from)
                .and_then(|a| array_value_to_string(&a, 0).map_err(|e| EngineError::invalid(e.to_string())))?;
            ast::Value::SingleQuotedString(text)
        }
    };
    Ok(ast::Expr::Value(value.into()))
}

/// Returns the expression for the word DEFAULT as the value of a column; NULL if the table generates the value.
pub(super) fn default_expr(column: &TableColumn, now: &Now) -> Result<ast::Expr> {
    omitted_value(column, now)?.map_or_else(|| Ok(ast::Expr::Value(ast::Value::Null.into())), |value| literal(&value))
}

/// Returns the value of ON UPDATE CURRENT_TIMESTAMP as an expression.
pub(super) fn now_expr(column: &TableColumn, now: &Now) -> Result<ast::Expr> {
    default_expr(&stamped(column).unwrap_or_else(|| column.clone()), now)
}
