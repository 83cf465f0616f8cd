//! Functions that only dipper itself calls.
//!
//! The parser turns some syntax into calls of functions that have no name in SQL, such as the function behind a cast.
//! Their names begin with [`PREFIX`]. They take arguments that the parser or the planner has made, so a statement that
//! calls one of them by name gets the error that the function does not exist.

use sqlparser::ast::{Expr, Query};
use sqlparser::tokenizer::Token;

use crate::error::SqlError;
use crate::tree::function_name;
use crate::walk::{self, Look, Step};

/// The prefix of the names of these functions.
pub const PREFIX: &str = "dipper_";

/// The prefix of the names of temporary partitions that a query reads.
pub const TEMPORARY: &str = "\u{2}";

/// Whether a name is that of one of these functions.
pub fn is_internal(name: &str) -> bool {
    name.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Whether a token can be the name in a call of one of these functions.
pub(crate) fn may_name(token: &Token) -> bool {
    matches!(token, Token::Word(word) if is_internal(&word.value))
}

struct Calls;

impl Look for Calls {
    fn expr(&mut self, expr: &Expr) -> Step {
        if let Expr::Function(function) = expr
            && let Some(name) = function_name(function)
            && is_internal(&name)
        {
            let message = format!("Invalid function '{name}': it is not for statements to call");
            return Err(SqlError { code: 1305, sqlstate: "42000", message, position: None });
        }
        Ok(())
    }
}

/// Refuses calls of these functions in a query as it was written.
///
/// # Errors
/// 1305 if there is one.
pub(crate) fn refuse_in_query(query: &Query) -> Step {
    walk::look(query, &mut Calls)
}

/// Refuses calls of these functions in an expression as it was written.
///
/// # Errors
/// 1305 if there is one.
pub(crate) fn refuse_in_expr(expr: &Expr) -> Step {
    walk::look_expr(expr, &mut Calls)
}

#[cfg(test)]
mod tests {
    use crate::parser::{ParseOptions, parse, parse_expr};

    #[test]
    fn statements_cannot_call_them() {
        let options = ParseOptions::default();
        for sql in [
            "select dipper_cast(1, 'int')",
            "select 1 from t where `Dipper_Chain`('+', a, b) > 0",
            "insert into t select dipper_datetime(a) from u",
            "select * from (select 1 union select dipper_nullif(1, 2)) x",
            "delete from t where k = dipper_nullif(1, 2)",
        ] {
            assert_eq!(parse(sql, &options).unwrap_err().code, 1305, "{sql}");
        }
        assert_eq!(parse_expr("a + dipper_choice(1)", &options).unwrap_err().code, 1305);
    }

    #[test]
    fn other_names_may_begin_so() {
        let options = ParseOptions::default();
        let chain = ["dipper_k"; 100].join(" + ");
        for sql in [
            "create table dipper_cast (k int)",
            "insert into dipper_cast (dipper_k) values (1)",
            "with dipper_chain (a) as (select 1) select dipper_chain.a from dipper_chain",
            "select 'dipper_cast(1)', cast(1 as int), explode from dipper_t",
            &format!("select {chain} from dipper_t"),
            "select * from dipper_t lateral view explode_json_array_int('[1]') v as x",
        ] {
            assert!(parse(sql, &options).is_ok(), "{sql}");
        }
    }
}
