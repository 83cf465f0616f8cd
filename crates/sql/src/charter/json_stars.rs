//! JSON_OBJECT(*): an object of all columns of FROM, as in Doris.

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::function_name;
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, Value};

use super::hidden;
use super::scope::{Columns, Environment};
use super::session::Context;

/// Writes the names and the values of the columns in place of each star.
///
/// # Errors
/// 1096 if there is no FROM; 1235 if the columns of a table are not known; also the errors of finding them out.
pub(super) fn expand(query: &mut Query, ansi_quotes: bool, context: &Context<'_>) -> Result<(), SqlError> {
    if !has_star(query) {
        return Ok(());
    }
    let environment = Environment::of(query, ansi_quotes, context);
    walk::change(query, &mut Stars { environment, shows_hidden: hidden::are_shown(context), open: Vec::new() })
}

fn has_star(query: &Query) -> bool {
    struct Find(bool);
    impl Look for Find {
        fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
            self.0 |= matches!(expr, Expr::Function(function) if is_star(function));
            Ok(())
        }
    }
    let mut find = Find(false);
    // Looking cannot fail.
    let _ = walk::look(query, &mut find);
    find.0
}

/// Whether a call is one that [`expand`] writes out.
pub(super) fn is_star(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    matches!(list.args.as_slice(), [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)])
        && matches!(function_name(function).as_deref(), Some("json_object" | "jsonb_object"))
}

struct Stars<'a> {
    environment: Environment<'a>,
    shows_hidden: bool,
    /// The columns of the SELECT that was met last in each of the open queries.
    open: Vec<Columns>,
}

impl Change for Stars<'_> {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        self.open.push(None);
        self.environment.enter(query)
    }

    fn after_query(&mut self, _: &mut Query) -> Result<(), SqlError> {
        self.open.pop();
        self.environment.leave();
        Ok(())
    }

    fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
        let columns = self.environment.from(&select.from)?;
        if let Some(last) = self.open.last_mut() {
            *last = columns;
        }
        Ok(())
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        let Expr::Function(function) = expr else { return Ok(()) };
        if !is_star(function) {
            return Ok(());
        }
        let Some(Some(columns)) = self.open.last() else {
            return Err(SqlError::unsupported(
                "json_object(*) over a table whose columns are not known; name them: json_object('a', a)",
                None,
            ));
        };
        let mut args = Vec::with_capacity(2 * columns.len());
        for column in columns.iter().filter(|column| self.shows_hidden || !column.hidden) {
            let name = Expr::value(Value::SingleQuotedString(column.name.clone()));
            args.extend([name, column.value.clone()].map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))));
        }
        if args.is_empty() {
            return Err(SqlError {
                code: 1096,
                sqlstate: "HY000",
                message: "No tables used: json_object(*) is the object of the columns of FROM".into(),
                position: None,
            });
        }
        if let FunctionArguments::List(list) = &mut function.args {
            list.args = args;
        }
        Ok(())
    }
}
