//! Clauses whose meaning the planner would lose: windows that extend named windows, and set operations with ALL.
//!
//! `OVER (w ORDER BY a)` extends the window `w` of the WINDOW clause, and windows of that clause may extend each other
//! (MySQL's manual, "Named Windows"). The planner knows only `OVER w` and would drop the name. It would also answer
//! INTERSECT ALL and EXCEPT ALL without counting duplicates; Doris does not have them.

use std::collections::HashMap;

use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{
    Expr, Function, Ident, NamedWindowExpr, OrderByKind, Query, Select, SetExpr, SetOperator, SetQuantifier,
    WindowSpec, WindowType,
};

/// Fills in named windows.
///
/// # Errors
/// A syntax error if a window is not defined or a part of it is given twice; 1235 for INTERSECT ALL and EXCEPT ALL.
pub(super) fn resolve(query: &mut Query) -> Result<(), SqlError> {
    walk::change(query, &mut Queries)?;
    walk::look(query, &mut Undefined)
}

struct Queries;

impl Change for Queries {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        only_what_is_known(&query.body)?;
        let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
        let mut functions = Functions(windows(select)?);
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            for key in keys {
                walk::change_expr(&mut key.expr, &mut functions)?;
            }
        }
        Ok(())
    }

    fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
        let mut functions = Functions(windows(select)?);
        for item in &mut select.projection {
            if let sqlparser::ast::SelectItem::UnnamedExpr(expr)
            | sqlparser::ast::SelectItem::ExprWithAlias { expr, .. } = item
            {
                walk::change_expr(expr, &mut functions)?;
            }
        }
        if let Some(qualify) = &mut select.qualify {
            walk::change_expr(qualify, &mut functions)?;
        }
        for definition in &mut select.named_window {
            if let Some(spec) = functions.0.get(&definition.0.value.to_lowercase()) {
                definition.1 = NamedWindowExpr::WindowSpec(spec.clone());
            }
        }
        Ok(())
    }
}

fn only_what_is_known(body: &SetExpr) -> Result<(), SqlError> {
    let SetExpr::SetOperation { op, set_quantifier, left, right } = body else { return Ok(()) };
    let counts = matches!(set_quantifier, SetQuantifier::All | SetQuantifier::AllByName);
    if counts && *op != SetOperator::Union {
        let message = format!("{op} ALL is not supported; {op} gives each row once");
        return Err(SqlError::unsupported(message, None));
    }
    only_what_is_known(left)?;
    only_what_is_known(right)
}

/// Returns the windows of a WINDOW clause by their names in lower case, each completed.
fn windows(select: &Select) -> Result<HashMap<String, WindowSpec>, SqlError> {
    let mut all: HashMap<String, WindowSpec> = HashMap::new();
    // A window may extend one that is defined later. As many rounds as there are definitions complete all windows
    // except circles.
    for _ in 0..select.named_window.len() {
        for definition in &select.named_window {
            let spec = match &definition.1 {
                NamedWindowExpr::NamedWindow(base) => all.get(&base.value.to_lowercase()).cloned(),
                NamedWindowExpr::WindowSpec(spec) => match &spec.window_name {
                    None => Some(spec.clone()),
                    Some(base) => all.get(&base.value.to_lowercase()).map(|base| built_upon(base, spec)).transpose()?,
                },
            };
            if let Some(spec) = spec {
                all.insert(definition.0.value.to_lowercase(), spec);
            }
        }
    }
    match select.named_window.iter().find(|d| !all.contains_key(&d.0.value.to_lowercase())) {
        Some(circle) => Err(undefined(&circle.0)),
        None => Ok(all),
    }
}

fn undefined(name: &Ident) -> SqlError {
    SqlError::syntax(format!("Window name '{}' is not defined, or by itself", name.value), None)
}

/// Completes a window that extends another: it may only add what the other lacks.
fn built_upon(base: &WindowSpec, spec: &WindowSpec) -> Result<WindowSpec, SqlError> {
    let name = || spec.window_name.as_ref().map_or("", |name| name.value.as_str());
    let twice = |what: &str| {
        let message =
            format!("a window that begins with '{}' cannot have {what} of its own, since that one has it", name());
        Err(SqlError::syntax(message, None))
    };
    if !spec.partition_by.is_empty() {
        return Err(SqlError::syntax(
            format!("a window that begins with '{}' cannot have PARTITION BY of its own", name()),
            None,
        ));
    }
    if !spec.order_by.is_empty() && !base.order_by.is_empty() {
        return twice("ORDER BY");
    }
    if spec.window_frame.is_some() && base.window_frame.is_some() {
        return twice("a frame");
    }
    let order_by = if spec.order_by.is_empty() { &base.order_by } else { &spec.order_by };
    Ok(WindowSpec {
        window_name: None,
        partition_by: base.partition_by.clone(),
        order_by: order_by.clone(),
        window_frame: spec.window_frame.clone().or_else(|| base.window_frame.clone()),
    })
}

/// The walk that completes windows of functions which extend one of these.
struct Functions(HashMap<String, WindowSpec>);

impl Change for Functions {
    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        let Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) = expr else { return Ok(()) };
        let Some(name) = &spec.window_name else { return Ok(()) };
        // Other names may be those of a subquery's own windows.
        if let Some(base) = self.0.get(&name.value.to_lowercase()) {
            *spec = built_upon(base, spec)?;
        }
        Ok(())
    }
}

/// The check that no window extends another after all are completed.
struct Undefined;

impl Look for Undefined {
    fn expr(&mut self, expr: &Expr) -> Result<(), SqlError> {
        match expr {
            Expr::Function(Function { over: Some(WindowType::WindowSpec(spec)), .. }) => {
                spec.window_name.as_ref().map_or(Ok(()), |name| Err(undefined(name)))
            }
            _ => Ok(()),
        }
    }
}
