//! Lambdas of function calls, before names are resolved.
//!
//! Each parameter gets a name that no column can have, made of its own name and the number of lambdas around it, so
//! that equal lambdas stay equal. Until all names are resolved, a call of [`PARAMETER`] stands for each use of a
//! parameter: passes over names would take the parameter for a column. The call itself becomes one of a function of
//! [`super::casts::lambda_calls`], with the lambda as its first argument. Columns in a body stay columns: those of the
//! row around the array.

use dipper_dialect::error::SqlError;
use dipper_dialect::parser::lambdas::FUNCTIONS;
use dipper_dialect::tree::{call, function_name};
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{
    self, BinaryOperator, Expr, Ident, LambdaFunction, LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens,
    Query, Value,
};

use super::names::MARK;
use super::rewrite::{binary, condition, nested, plain_args};
use crate::functions::{self, LambdaKind};

/// The function that stands for a parameter, whose name is its argument. (The function has no name in SQL.)
const PARAMETER: &str = "dipper_parameter";

/// The largest depth of nested lambdas. The planner asks for the type of a body twice, so its time doubles with each
/// level.
const LAMBDAS_MAX: usize = 8;

/// Renames the parameters of lambdas, and replaces calls with lambdas by their planned functions.
///
/// # Errors
/// 1105 if a call has no lambda or several, if the arrays or the parameters of the lambda are too many or too few, or
/// if an aggregate takes a parameter; 1436 if lambdas are nested too deep; 1235 if a subquery takes a parameter.
pub(super) fn bind(query: &mut Query) -> Result<(), SqlError> {
    walk::change(query, &mut Binding { scopes: Vec::new() })
}

/// Replaces the calls of [`PARAMETER`] by the parameters' names, once names are resolved.
pub(super) fn parameters(query: &mut Query) {
    struct Parameters;
    impl Change for Parameters {
        fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
            if let Some(name) = parameter(expr) {
                *expr = Expr::Identifier(Ident::with_quote('"', name));
            }
            Ok(())
        }
    }
    // Renaming cannot fail.
    let _ = walk::change(query, &mut Parameters);
}

fn parameter(expr: &Expr) -> Option<String> {
    let Expr::Function(function) = expr else { return None };
    if function_name(function).as_deref() != Some(PARAMETER) {
        return None;
    }
    match plain_args(function)?.pop()? {
        Expr::Value(value) => match value.value {
            Value::SingleQuotedString(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// A scope of names.
enum Scope {
    /// The parameters of a lambda: each in lower case as it is written, and the name that it is given.
    Lambda(Vec<(String, String)>),
    /// A query inside a body, which sees no parameters.
    Query,
}

struct Binding {
    scopes: Vec<Scope>,
}

fn error(message: String) -> SqlError {
    SqlError { code: 1105, sqlstate: "HY000", message, position: None }
}

impl Binding {
    fn find(&self, written: &Ident) -> Option<&str> {
        let written = written.value.to_lowercase();
        for scope in self.scopes.iter().rev() {
            match scope {
                Scope::Query => return None,
                Scope::Lambda(parameters) => {
                    if let Some((_, name)) = parameters.iter().find(|(parameter, _)| *parameter == written) {
                        return Some(name);
                    }
                }
            }
        }
        None
    }

    fn depth(&self) -> usize {
        self.scopes.iter().filter(|scope| matches!(scope, Scope::Lambda(_))).count()
    }

    fn is_parameter(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Identifier(name) => self.find(name).is_some(),
            Expr::CompoundIdentifier(names) => names.first().is_some_and(|name| self.find(name).is_some()),
            _ => false,
        }
    }

    /// Whether an expression that is not bound yet reads a parameter.
    fn has_parameter(&self, expr: &Expr) -> bool {
        struct Looking<'a>(&'a Binding, bool);
        impl Look for Looking<'_> {
            fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
                self.1 |= self.0.is_parameter(expr);
                Ok(())
            }
        }
        let mut looking = Looking(self, false);
        // Looking cannot fail.
        let _ = walk::look_expr(expr, &mut looking);
        looking.1
    }

    fn open(&mut self, lambda: &mut LambdaFunction) -> Result<(), SqlError> {
        let depth = self.depth();
        if depth == LAMBDAS_MAX {
            return Err(SqlError {
                code: 1436,
                sqlstate: "HY000",
                message: format!("more than {LAMBDAS_MAX} lambdas are nested in each other"),
                position: None,
            });
        }
        let mut parameters: Vec<(String, String)> = Vec::new();
        let params = match &mut lambda.params {
            OneOrManyWithParens::One(one) => std::slice::from_mut(one),
            OneOrManyWithParens::Many(all) => all.as_mut_slice(),
        };
        for param in params {
            let written = param.name.value.to_lowercase();
            if parameters.iter().any(|(other, _)| *other == written) {
                return Err(error(format!("the lambda has two parameters '{}'", param.name.value)));
            }
            let name = format!("{written}{MARK}{depth}");
            param.name = Ident::with_quote('"', name.clone());
            parameters.push((written, name));
        }
        self.scopes.push(Scope::Lambda(parameters));
        Ok(())
    }
}

/// Returns the call of a function that takes a lambda, with the lambda first; `None` if there is no lambda and none is
/// needed.
fn with_lambda(function: &ast::Function) -> Result<Option<Expr>, SqlError> {
    let Some(name) = function_name(function).filter(|name| FUNCTIONS.contains(&name.as_str())) else { return Ok(None) };
    let Some(kind) = LambdaKind::of(&name) else { return Ok(None) };
    let Some(args) = plain_args(function) else { return Ok(None) };
    let (mut lambdas, arrays): (Vec<Expr>, Vec<Expr>) =
        args.into_iter().partition(|arg| matches!(arg, Expr::Lambda(_)));
    let Some(Expr::Lambda(mut lambda)) = lambdas.pop() else {
        return match kind.is_plain() {
            true => Ok(None),
            false => Err(error(format!("{name}: expected a lambda, such as in {name}({})", kind.example()))),
        };
    };
    if !lambdas.is_empty() {
        return Err(error(format!("{name} takes one lambda, found {}", lambdas.len() + 1)));
    }
    if function.over.is_some() || function.filter.is_some() || function.null_treatment.is_some() {
        return Err(error(format!("{name} is no aggregate: it takes no OVER and no FILTER")));
    }
    let (parameters, wanted) = (lambda.params.len(), kind.parameters(arrays.len()));
    if kind.arrays_max().is_some_and(|most| arrays.len() > most) || arrays.is_empty() {
        let most = kind.arrays_max().map_or_else(
            || "at least one array".to_string(),
            |most| format!("{most} {}", if kind.is_of_maps() { "MAP" } else { "ARRAY" }),
        );
        return Err(error(format!("{name} takes a lambda and {most}, found {} more arguments", arrays.len())));
    }
    if parameters != wanted {
        return Err(error(format!(
            "{name}: expected a lambda of {wanted} parameters, one for each value, found {parameters}"
        )));
    }
    if kind.is_condition() {
        condition(&mut lambda.body);
    }
    if kind == LambdaKind::MapApply {
        let pair = match std::mem::replace(lambda.body.as_mut(), Expr::value(Value::Null)) {
            Expr::Tuple(pair) if pair.len() == 2 => call("struct", pair),
            other => other,
        };
        *lambda.body = pair;
    }
    let args = std::iter::once(Expr::Lambda(lambda)).chain(arrays).collect();
    Ok(Some(call(&kind.planned_name(), args)))
}

/// Rewrites `array_apply(a, '>', x)` as a filter with a lambda: the elements that compare so with x; NULL where x is
/// NULL.
fn comparison(function: &ast::Function) -> Result<Option<Expr>, SqlError> {
    if function_name(function).as_deref() != Some("array_apply") || function.over.is_some() {
        return Ok(None);
    }
    let Some([array, op, value]) = plain_args(function).and_then(|args| <[Expr; 3]>::try_from(args).ok()) else {
        return Err(error("array_apply takes an array, an operator and a value".into()));
    };
    let written = match &op {
        Expr::Value(op) => match &op.value {
            Value::SingleQuotedString(op) | Value::DoubleQuotedString(op) => Some(op.as_str()),
            _ => None,
        },
        _ => None,
    };
    let op = match written {
        Some("=") => BinaryOperator::Eq,
        Some("!=") => BinaryOperator::NotEq,
        Some(">") => BinaryOperator::Gt,
        Some(">=") => BinaryOperator::GtEq,
        Some("<") => BinaryOperator::Lt,
        Some("<=") => BinaryOperator::LtEq,
        _ => {
            return Err(error(format!("array_apply: expected the operator =, !=, >, >=, < or <= as text, found {op}")));
        }
    };
    // No column of a value can have this name.
    let element = Ident::with_quote('"', format!("{MARK}element"));
    let compared = binary(Expr::Identifier(element.clone()), op, nested(value.clone()));
    let param = LambdaFunctionParameter { name: element, data_type: None };
    let lambda = LambdaFunction {
        params: OneOrManyWithParens::One(param),
        body: Box::new(compared),
        syntax: LambdaSyntax::Arrow,
    };
    let filtered = call("array_filter", vec![Expr::Lambda(lambda), array]);
    let is_null = Expr::IsNull(Box::new(value));
    Ok(Some(call("if", vec![is_null, Expr::value(Value::Null), filtered])))
}

impl Change for Binding {
    fn query(&mut self, _: &mut Query) -> Result<(), SqlError> {
        self.scopes.push(Scope::Query);
        Ok(())
    }

    fn after_query(&mut self, _: &mut Query) -> Result<(), SqlError> {
        self.scopes.pop();
        Ok(())
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        let operand = match &*expr {
            Expr::InSubquery { expr, .. } | Expr::AnyOp { left: expr, .. } | Expr::AllOp { left: expr, .. } => {
                Some(expr)
            }
            _ => None,
        };
        if operand.is_some_and(|operand| self.depth() > 0 && self.has_parameter(operand)) {
            let message = "a subquery in a lambda cannot take the parameters of the lambda";
            return Err(SqlError::unsupported(message, None));
        }
        match expr {
            Expr::Function(function) => {
                if let Some(call) = with_lambda(function)? {
                    *expr = call;
                    return Ok(());
                }
                if let Some(call) = comparison(function)? {
                    *expr = call;
                    return self.expr(expr);
                }
                let name = function_name(function).unwrap_or_default();
                let aggregates = function.over.is_some() || functions::is_aggregate(&name);
                if aggregates && self.depth() > 0 && self.has_parameter(expr) {
                    return Err(error(format!(
                        "{name}: an aggregate or window function takes no parameter of a lambda"
                    )));
                }
            }
            Expr::Lambda(lambda) => self.open(lambda)?,
            Expr::Identifier(name) => {
                if let Some(name) = self.find(name) {
                    *expr = parameter_of(name);
                }
            }
            Expr::CompoundIdentifier(names) => {
                if let Some(name) = names.first().and_then(|name| self.find(name)) {
                    let value = parameter_of(name);
                    let member = |value, name: &Ident| {
                        call("struct_element", vec![value, Expr::value(Value::SingleQuotedString(name.value.clone()))])
                    };
                    *expr = names[1..].iter().fold(value, member);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if matches!(expr, Expr::Lambda(_)) {
            self.scopes.pop();
        }
        Ok(())
    }
}

fn parameter_of(name: &str) -> Expr {
    call(PARAMETER, vec![Expr::value(Value::SingleQuotedString(name.to_string()))])
}
