//! Walks over query trees.
//!
//! `sqlparser`'s visitors are generic over the whole syntax: each visitor type makes the compiler emit some thousand
//! functions. Here there is one visitor of each kind, and passes plug into it as trait objects.

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, OrderBy, OrderByKind, Query, Select, SetExpr, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor,
    VisitorMut,
};

use crate::error::SqlError;

/// The result of a pass at a node: go on, or end the walk with an error.
pub type Step = Result<(), SqlError>;

/// A pass that only reads. Parents come before children, in the order of the text, except that WITH comes before the
/// body.
pub trait Look {
    /// Visits a query; WITH and subqueries are visited, too.
    fn query(&mut self, _: &Query) -> Step {
        Ok(())
    }
    /// Visits a SELECT.
    fn select(&mut self, _: &Select) -> Step {
        Ok(())
    }
    /// Visits a table, derived table or join in parentheses in FROM.
    fn table_factor(&mut self, _: &TableFactor) -> Step {
        Ok(())
    }
    /// Visits a literal.
    fn value(&mut self, _: &ValueWithSpan) -> Step {
        Ok(())
    }
    /// Visits an expression.
    fn expr(&mut self, _: &Expr) -> Step {
        Ok(())
    }
    /// Visits an expression, after its operands.
    fn after_expr(&mut self, _: &Expr) -> Step {
        Ok(())
    }
}

/// A pass that changes the tree. Parents come before children, or after them in methods whose name begins with `after`.
pub trait Change {
    /// Visits a query; WITH and subqueries are visited, too.
    fn query(&mut self, _: &mut Query) -> Step {
        Ok(())
    }
    /// Visits a query, after its parts.
    fn after_query(&mut self, _: &mut Query) -> Step {
        Ok(())
    }
    /// Visits a SELECT.
    fn select(&mut self, _: &mut Select) -> Step {
        Ok(())
    }
    /// Visits a table, derived table or join in parentheses in FROM.
    fn table_factor(&mut self, _: &mut TableFactor) -> Step {
        Ok(())
    }
    /// Visits a table, derived table or join in parentheses in FROM, after its parts.
    fn after_table_factor(&mut self, _: &mut TableFactor) -> Step {
        Ok(())
    }
    /// Visits an expression.
    fn expr(&mut self, _: &mut Expr) -> Step {
        Ok(())
    }
    /// Visits an expression, after its operands.
    fn after_expr(&mut self, _: &mut Expr) -> Step {
        Ok(())
    }
}

/// Runs a reading pass over a query.
///
/// # Errors
/// The first error of the pass, which ends the walk.
pub fn look(query: &Query, pass: &mut dyn Look) -> Step {
    finish(query.visit(&mut Looking(pass)))
}

/// Runs a changing pass over a query.
///
/// # Errors
/// The first error of the pass, which ends the walk and leaves the tree half changed.
pub fn change(query: &mut Query, pass: &mut dyn Change) -> Step {
    finish(query.visit(&mut Changing(pass)))
}

/// Runs a changing pass over one expression and its parts, like [`change`].
///
/// # Errors
/// The first error of the pass.
pub fn change_expr(expr: &mut Expr, pass: &mut dyn Change) -> Step {
    finish(expr.visit(&mut Changing(pass)))
}

/// Returns the body of a query, and the expressions by which ORDER BY sorts a SELECT. After set operations ORDER BY
/// names their columns, which belong to no SELECT, so there are no expressions.
pub fn body_and_order(query: &mut Query) -> (&mut SetExpr, Vec<&mut Expr>) {
    let order = match (&mut query.order_by, query.body.as_ref()) {
        (Some(OrderBy { kind: OrderByKind::Expressions(order), .. }), SetExpr::Select(_)) => {
            order.iter_mut().map(|o| &mut o.expr).collect()
        }
        _ => Vec::new(),
    };
    (&mut query.body, order)
}

/// Runs a reading pass over one expression and its parts, like [`look`].
///
/// # Errors
/// The first error of the pass.
pub fn look_expr(expr: &Expr, pass: &mut dyn Look) -> Step {
    finish(expr.visit(&mut Looking(pass)))
}

/// Runs a changing pass over any part of a query, like [`change`].
///
/// # Errors
/// The first error of the pass.
pub fn change_node(node: &mut impl VisitMut, pass: &mut dyn Change) -> Step {
    finish(node.visit(&mut Changing(pass)))
}

/// Whether `wanted` holds for an expression or one of its parts.
pub fn any(expr: &Expr, wanted: fn(&Expr) -> bool) -> bool {
    struct Any {
        wanted: fn(&Expr) -> bool,
        found: bool,
    }
    impl Look for Any {
        fn expr(&mut self, expr: &Expr) -> Step {
            self.found = self.found || (self.wanted)(expr);
            Ok(())
        }
    }
    let mut any = Any { wanted, found: false };
    // Looking cannot fail.
    let _ = finish(expr.visit(&mut Looking(&mut any)));
    any.found
}

fn finish(flow: ControlFlow<SqlError>) -> Step {
    match flow {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(error),
    }
}

fn flow(step: Step) -> ControlFlow<SqlError> {
    match step {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(error),
    }
}

struct Looking<'a>(&'a mut dyn Look);

impl Visitor for Looking<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
        flow(self.0.query(query))
    }

    fn pre_visit_select(&mut self, select: &Select) -> ControlFlow<SqlError> {
        flow(self.0.select(select))
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<SqlError> {
        flow(self.0.table_factor(factor))
    }

    fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<SqlError> {
        flow(self.0.value(value))
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        flow(self.0.expr(expr))
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<SqlError> {
        flow(self.0.after_expr(expr))
    }
}

struct Changing<'a>(&'a mut dyn Change);

impl VisitorMut for Changing<'_> {
    type Break = SqlError;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        flow(self.0.query(query))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<SqlError> {
        flow(self.0.after_query(query))
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<SqlError> {
        flow(self.0.select(select))
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        flow(self.0.table_factor(factor))
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<SqlError> {
        flow(self.0.after_table_factor(factor))
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        flow(self.0.expr(expr))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<SqlError> {
        flow(self.0.after_expr(expr))
    }
}
