//! Expressions and tables that the parser reads and that nothing plans.
//!
//! DataFusion's planner refuses them as well, with a dump of the tree.

use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Look};
use sqlparser::ast::{Expr, Query, TableFactor, Value};

/// Refuses them by name.
///
/// # Errors
/// 1235 that names the way round.
pub(super) fn check(query: &Query) -> Result<(), SqlError> {
    struct Unplanned;
    impl Look for Unplanned {
        fn table_factor(&mut self, factor: &TableFactor) -> Result<(), SqlError> {
            refused(of_tables(factor))
        }

        fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
            refused(of_values(expr))
        }
    }
    walk::look(query, &mut Unplanned)
}

fn refused(message: Option<&str>) -> Result<(), SqlError> {
    message.map_or(Ok(()), |message| Err(SqlError::unsupported(message, None)))
}

fn of_tables(factor: &TableFactor) -> Option<&'static str> {
    Some(match factor {
        TableFactor::Table { .. }
        | TableFactor::Derived { .. }
        | TableFactor::Function { .. }
        | TableFactor::UNNEST { .. }
        | TableFactor::NestedJoin { .. } => return None,
        TableFactor::TableFunction { .. } => "TABLE(..) takes the call of a function that makes rows",
        TableFactor::Pivot { .. } => "PIVOT is not supported; SELECT sum(CASE WHEN k = 1 THEN v END), .. GROUP BY ..",
        TableFactor::Unpivot { .. } => "UNPIVOT is not supported; SELECT 'a', a .. UNION ALL SELECT 'b', b ..",
        TableFactor::JsonTable { .. } | TableFactor::OpenJsonTable { .. } => {
            "JSON_TABLE is not supported; LATERAL VIEW explode_json_array_json(array) makes rows, and json_extract reads them"
        }
        TableFactor::XmlTable { .. } => "XMLTABLE is not supported: there are no functions for XML",
        TableFactor::MatchRecognize { .. } => {
            "MATCH_RECOGNIZE is not supported; lag() and lead() read rows before and after"
        }
        TableFactor::SemanticView { .. } => "SEMANTIC_VIEW is not supported; there are views",
    })
}

fn of_values(expr: &Expr) -> Option<&'static str> {
    Some(match expr {
        Expr::MatchAgainst { .. } => {
            "MATCH (..) AGAINST (..) is not supported; column MATCH_ANY 'words' finds texts with one of the words"
        }
        Expr::MemberOf(_) => "MEMBER OF is not supported; json_contains(array, value)",
        Expr::AtTimeZone { time_zone, .. } if !matches!(time_zone.as_ref(), Expr::Value(zone) if matches!(zone.value, Value::SingleQuotedString(_))) => {
            "AT TIME ZONE is not supported with an expression; convert_tz(time, from, to)"
        }
        Expr::IsNormalized { .. } => "IS NORMALIZED is not supported",
        Expr::InUnnest { .. } => "IN UNNEST is not supported; array_contains(array, value)",
        Expr::OuterJoin(_) => "(+) is not supported; LEFT JOIN",
        Expr::Prior(_) => "CONNECT BY is not supported; WITH RECURSIVE",
        _ => return None,
    })
}
