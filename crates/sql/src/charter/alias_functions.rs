//! Functions that stand for expressions (CREATE ALIAS FUNCTION): a call becomes the expression, with the arguments in
//! the place of the parameters, each converted to its declared type.
//!
//! Calls are replaced before anything else looks at a query, so the expression has the value that it has when it is
//! written in the place of the call.

use std::ops::ControlFlow;

use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{self, Expr, Function, FunctionArguments, Ident, Query, visit_expressions};

use super::rewrite::plain_args;

/// Most parts that the replaced calls of a query may have together: functions that call each other could otherwise
/// make an expression of any size.
const PARTS_MAX: usize = 100_000;

/// A function that stands for an expression.
#[derive(Debug, Clone)]
pub struct Alias {
    /// The name with its database, which tells the function from all others.
    pub identity: String,
    /// The database in which the expression looks up functions; `None` if it sees those of all databases only.
    pub database: Option<String>,
    /// The parameters and the types of the arguments.
    pub parameters: Vec<(String, ast::DataType)>,
    /// The expression.
    pub body: Expr,
}

/// The functions that queries can call.
pub trait Aliases {
    /// Returns the function of this name, as written, that takes so many arguments. `database` is the one in which the
    /// name is looked up.
    ///
    /// # Errors
    /// An error if the definition cannot be read.
    fn find(&self, database: Option<&str>, name: &[&str], arguments: usize) -> Result<Option<Alias>, SqlError>;
}

/// Replaces the calls of functions that stand for expressions. `database` is the one in which their names are looked
/// up. Returns whether there was such a call.
///
/// # Errors
/// 1105 if a function calls itself, if a call has more than arguments, or if the expressions become too large.
pub fn expand(query: &mut Query, database: Option<&str>, aliases: &dyn Aliases) -> Result<bool, SqlError> {
    let mut expanding = Expanding::new(database, aliases);
    walk::change(query, &mut expanding)?;
    Ok(expanding.calls > 0)
}

/// Returns what the expression of a function must not contain, if it does.
pub fn misfit(body: &Expr) -> Option<&'static str> {
    if walk::any(body, |e| matches!(e, Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. })) {
        return Some("a subquery");
    }
    let varies = |e: &Expr| match e {
        Expr::Value(value) => matches!(value.value, ast::Value::Placeholder(_)),
        Expr::Identifier(name) => name.quote_style.is_none() && name.value.starts_with('@'),
        _ => false,
    };
    walk::any(body, varies).then_some("a variable or ?")
}

fn invalid(message: String) -> SqlError {
    SqlError { code: 1105, sqlstate: "HY000", message, position: None }
}

struct Expanding<'a> {
    database: Option<String>,
    aliases: &'a dyn Aliases,
    /// The functions whose expressions are being expanded, from the outside in.
    around: Vec<String>,
    /// Number of calls that were replaced.
    calls: usize,
    /// Number of parts of what replaced them.
    parts: usize,
}

impl<'a> Expanding<'a> {
    fn new(database: Option<&str>, aliases: &'a dyn Aliases) -> Self {
        Expanding { database: database.map(str::to_string), aliases, around: Vec::new(), calls: 0, parts: 0 }
    }

    /// Returns what a call stands for; `None` if the function is none of those here.
    fn replaced(&mut self, function: &Function) -> Result<Option<Expr>, SqlError> {
        let FunctionArguments::List(list) = &function.args else { return Ok(None) };
        let name: Option<Vec<&str>> =
            function.name.0.iter().map(|part| part.as_ident().map(|ident| ident.value.as_str())).collect();
        let Some(name) = name else { return Ok(None) };
        let Some(alias) = self.aliases.find(self.database.as_deref(), &name, list.args.len())? else { return Ok(None) };
        let is_plain = function.over.is_none() && function.filter.is_none() && function.within_group.is_empty();
        let Some(arguments) = plain_args(function).filter(|_| is_plain) else {
            return Err(invalid(format!(
                "{}: a function that stands for an expression takes values only",
                alias.identity
            )));
        };
        if self.around.contains(&alias.identity) {
            return Err(invalid(format!("function {} calls itself", alias.identity)));
        }
        self.calls += 1;
        let mut body = alias.body;
        rename_lambdas(&mut body, self.calls);
        let outside = std::mem::replace(&mut self.database, alias.database);
        self.around.push(alias.identity.clone());
        walk::change_expr(&mut body, self)?;
        self.around.pop();
        self.database = outside;
        let values: Vec<(String, Expr)> = (alias.parameters.into_iter().zip(arguments))
            .map(|((parameter, data_type), argument)| (parameter, cast(argument, data_type)))
            .collect();
        walk::change_expr(&mut body, &mut Filling(&values))?;
        let _ = visit_expressions(&body, |_| {
            self.parts += 1;
            ControlFlow::<()>::Continue(())
        });
        if self.parts > PARTS_MAX {
            return Err(invalid(format!(
                "function {}: the expressions of the functions have more than {PARTS_MAX} parts together",
                alias.identity
            )));
        }
        Ok(Some(Expr::Nested(Box::new(body))))
    }
}

impl Change for Expanding<'_> {
    // After its operands: what replaces a call is not looked at again.
    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if let Expr::Function(function) = expr
            && let Some(replaced) = self.replaced(function)?
        {
            *expr = replaced;
        }
        Ok(())
    }
}

/// Puts values in the place of parameters.
struct Filling<'a>(&'a [(String, Expr)]);

impl Change for Filling<'_> {
    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if let Expr::Identifier(name) = expr
            && let Some((_, value)) = self.0.iter().find(|(parameter, _)| parameter.eq_ignore_ascii_case(&name.value))
        {
            *expr = value.clone();
        }
        Ok(())
    }
}

/// Gives the parameters of lambdas names that no argument contains. `number` is another one for each call.
fn rename_lambdas(body: &mut Expr, number: usize) {
    struct Names(Vec<(String, String)>);
    impl Change for Names {
        fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
            if let Expr::Identifier(name) = expr
                && let Some((_, new)) = self.0.iter().find(|(old, _)| old.eq_ignore_ascii_case(&name.value))
            {
                *name = Ident::with_quote('`', new.clone());
            }
            Ok(())
        }
    }
    struct Lambdas(usize);
    impl Change for Lambdas {
        // The innermost lambda comes first, so the names that are left in a body are those of the lambda itself.
        fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
            let Expr::Lambda(lambda) = expr else { return Ok(()) };
            let new = |old: &str| format!("__dipper_{}_{old}", self.0);
            let names = lambda.params.iter().map(|p| (p.name.value.clone(), new(&p.name.value))).collect();
            walk::change_expr(&mut lambda.body, &mut Names(names))?;
            let rename = |parameter: &mut ast::LambdaFunctionParameter| {
                parameter.name = Ident::with_quote('`', new(&parameter.name.value));
            };
            match &mut lambda.params {
                ast::OneOrManyWithParens::One(parameter) => rename(parameter),
                ast::OneOrManyWithParens::Many(parameters) => parameters.iter_mut().for_each(rename),
            }
            Ok(())
        }
    }
    // Renaming cannot fail.
    let _ = walk::change_expr(body, &mut Lambdas(number));
}

fn cast(expr: Expr, data_type: ast::DataType) -> Expr {
    Expr::Cast { kind: ast::CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}
