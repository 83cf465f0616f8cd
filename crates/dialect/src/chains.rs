//! Long chains of operators as flat or balanced trees.
//!
//! Programs write `a OR b OR c ...` and `SELECT ... UNION ALL SELECT ...` as flat lists of thousands of members. The
//! parser turns them into a tree as deep as the number of members, and all code that walks, copies or drops it takes a
//! stack and time that grow with the depth. So the tree is rebuilt as soon as it is read. AND, OR, XOR, `||` and UNION
//! give the same result wherever the parentheses stand, and are balanced. `a + b - c ...` does not: rounding, types and
//! errors follow from the order. Arithmetic becomes a call with all operands, which the planner runs as a loop from the
//! innermost operator outwards. That is from left to right, or through parentheses and signs: `((a + b) * c) - d`,
//! `a - (b - (c - d))` and `- (- (- a))` are chains, too.

use std::collections::HashSet;
use std::ptr;

use sqlparser::ast::{BinaryOperator, Expr, Query, SetExpr, SetOperator, SetQuantifier, UnaryOperator, Value};

use crate::error::SqlError;
use crate::tree::call;
use crate::walk::{self, Change};

/// Chains of AND, OR, XOR, `||` and UNION with fewer members than this stay as they are.
const CHAIN_MIN: usize = 16;

/// Arithmetic with fewer operands than this stays as it is.
pub const ARITHMETIC_MIN: usize = 32;

/// The function that stands for a long chain of arithmetic. Its first argument is a text with one [sign](operator) per
/// operator, the others are the operands.
pub const CHAIN: &str = "dipper_chain";

/// The function of a chain whose operators are planned.
pub const PLANNED_CHAIN: &str = "chain";

/// The largest number of operands of one call that have to be computed, because all of them are in memory at once.
/// Further operands belong to another call around this one.
const COMPUTED_MAX: usize = 256;

/// The side of an operator on which its own operand stands; the chain so far is on the other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// `operand - chain`
    Left,
    /// `chain - operand`
    Right,
}

/// Arithmetic operators, and their signs in the first argument of [`CHAIN`]: with the operand on the right, and on the
/// left.
static SIGNS: [(char, char, BinaryOperator); 11] = [
    ('+', 'P', BinaryOperator::Plus),
    ('-', 'M', BinaryOperator::Minus),
    ('*', 'T', BinaryOperator::Multiply),
    ('/', 'Q', BinaryOperator::Divide),
    ('%', 'R', BinaryOperator::Modulo),
    ('d', 'D', BinaryOperator::MyIntegerDivide),
    ('&', 'A', BinaryOperator::BitwiseAnd),
    ('|', 'O', BinaryOperator::BitwiseOr),
    ('^', 'X', BinaryOperator::BitwiseXor),
    ('<', 'L', BinaryOperator::PGBitwiseShiftLeft),
    ('>', 'G', BinaryOperator::PGBitwiseShiftRight),
];

/// Returns the sign of an arithmetic operator.
fn sign(operator: &BinaryOperator, side: Side) -> Option<char> {
    let (right, left, _) = SIGNS.iter().find(|(.., known)| known == operator)?;
    Some(if side == Side::Right { *right } else { *left })
}

/// Returns the operator that a sign stands for, and the side of its operand.
pub fn operator(sign: char) -> Option<(&'static BinaryOperator, Side)> {
    SIGNS.iter().find_map(|(right, left, operator)| match sign {
        sign if sign == *right => Some((operator, Side::Right)),
        sign if sign == *left => Some((operator, Side::Left)),
        _ => None,
    })
}

/// Balances the chains of a query.
pub fn balance_query(query: &mut Query) {
    // This walk cannot fail.
    let _ = walk::change(query, &mut Balance::default());
}

/// Balances the chains of an expression.
pub fn balance_expr(expr: &mut Expr) {
    // This walk cannot fail.
    let _ = walk::change_expr(expr, &mut Balance::default());
}

#[derive(Default)]
struct Balance {
    /// The queries of recursive common table expressions, if there is WITH RECURSIVE: the planner needs their two
    /// halves as they are.
    recursive: HashSet<*const Query>,
}

impl Change for Balance {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        if let Some(with) = query.with.as_ref().filter(|with| with.recursive) {
            self.recursive.extend(with.cte_tables.iter().map(|cte| ptr::from_ref(cte.query.as_ref())));
        }
        if !self.recursive.contains(&ptr::from_ref(query)) {
            balance_unions(&mut query.body);
        }
        Ok(())
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        if let Expr::BinaryOp { op, .. } = expr
            && matches!(
                op,
                BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor | BinaryOperator::StringConcat
            )
        {
            let op = op.clone();
            balance(expr, &op);
        } else {
            flatten(expr);
        }
        Ok(())
    }
}

/// Removes the parentheses around an expression.
fn bare(mut expr: &Expr) -> &Expr {
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// Returns the operand in which the chain that ends with this operator goes on: the left one, unless only the right one
/// is arithmetic.
fn inside(expr: &Expr) -> Option<(Side, &Expr)> {
    let is_arithmetic = |e: &Expr| match bare(e) {
        Expr::BinaryOp { op, .. } => sign(op, Side::Right).is_some(),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => !matches!(**expr, Expr::Value(_)),
        _ => false,
    };
    match expr {
        Expr::BinaryOp { left, op, right } if sign(op, Side::Right).is_some() => {
            Some(match !is_arithmetic(left) && is_arithmetic(right) {
                true => (Side::Left, bare(right)),
                false => (Side::Right, bare(left)),
            })
        }
        // -x is 0 - x.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } if is_arithmetic(expr) => Some((Side::Left, bare(expr))),
        _ => None,
    }
}

/// Turns a spine of arithmetic into one call.
fn flatten(expr: &mut Expr) {
    let mut length = 1;
    let mut at = &*expr;
    while let Some((_, inner)) = inside(at) {
        length += 1;
        at = inner;
    }
    if length < ARITHMETIC_MIN {
        return;
    }
    let (mut signs, mut operands) = (Vec::with_capacity(length), Vec::with_capacity(length));
    let mut rest = std::mem::replace(expr, Expr::value(Value::Null));
    while let Some((side, _)) = inside(&rest) {
        let (op, inner, operand) = match (rest, side) {
            (Expr::BinaryOp { left, op, right }, Side::Right) => (op, *left, *right),
            (Expr::BinaryOp { left, op, right }, Side::Left) => (op, *right, *left),
            (Expr::UnaryOp { expr, .. }, _) => {
                (BinaryOperator::Minus, *expr, Expr::value(Value::Number("0".into(), false)))
            }
            (other, _) => {
                rest = other;
                break;
            }
        };
        signs.extend(sign(&op, side));
        operands.push(operand);
        rest = inner;
        while let Expr::Nested(inner) = rest {
            rest = *inner;
        }
    }
    operands.push(rest);
    let mut signs = signs.into_iter().rev();
    let (mut text, mut args, mut computed) = (String::new(), Vec::new(), 0);
    for operand in operands.into_iter().rev() {
        computed += usize::from(!is_plain(&operand));
        if computed > COMPUTED_MAX {
            args = vec![chain(std::mem::take(&mut text), std::mem::take(&mut args))];
            computed = 2;
        }
        if !args.is_empty() {
            text.extend(signs.next());
        }
        args.push(operand);
    }
    *expr = chain(text, args);
}

fn chain(signs: String, operands: Vec<Expr>) -> Expr {
    let signs = Expr::value(Value::SingleQuotedString(signs));
    call(CHAIN, std::iter::once(signs).chain(operands).collect())
}

/// Whether an operand takes no memory of its own: it is a column or a constant.
fn is_plain(expr: &Expr) -> bool {
    match expr {
        Expr::Interval(interval) => is_plain(&interval.value),
        Expr::Nested(inner) | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            matches!(**inner, Expr::Value(_)) || matches!(expr, Expr::Nested(_)) && is_plain(inner)
        }
        _ => matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_)),
    }
}

/// Joins neighbours in pairs until one member is left.
fn joined<T>(mut members: Vec<T>, join: impl Fn(T, T) -> T) -> Option<T> {
    while members.len() > 1 {
        let mut pairs = Vec::with_capacity(members.len().div_ceil(2));
        let mut from = members.into_iter();
        while let Some(left) = from.next() {
            pairs.push(match from.next() {
                Some(right) => join(left, right),
                None => left,
            });
        }
        members = pairs;
    }
    members.pop()
}

/// Balances the left spine of one operator.
pub fn balance(expr: &mut Expr, op: &BinaryOperator) {
    let mut length = 1;
    let mut at = &*expr;
    while let Expr::BinaryOp { left, op: o, .. } = at
        && o == op
    {
        length += 1;
        at = left;
    }
    if length < CHAIN_MIN {
        return;
    }
    let mut operands = Vec::with_capacity(length);
    let mut rest = std::mem::replace(expr, Expr::value(Value::Null));
    loop {
        match rest {
            Expr::BinaryOp { left, op: o, right } if o == *op => {
                operands.push(*right);
                rest = *left;
            }
            first => {
                operands.push(first);
                break;
            }
        }
    }
    operands.reverse();
    let both = |left, right| Expr::BinaryOp { left: Box::new(left), op: op.clone(), right: Box::new(right) };
    if let Some(whole) = joined(operands, both) {
        *expr = whole;
    }
}

/// Returns the quantifier of a UNION that can be part of a chain.
fn union_of(body: &SetExpr) -> Option<SetQuantifier> {
    match body {
        SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, .. } => match set_quantifier {
            SetQuantifier::All => Some(SetQuantifier::All),
            SetQuantifier::Distinct | SetQuantifier::None => Some(SetQuantifier::Distinct),
            _ => None,
        },
        _ => None,
    }
}

/// Balances a left spine of UNION. The last UNION without ALL makes everything before it distinct.
fn balance_unions(body: &mut SetExpr) {
    let mut length = 1;
    let mut at = &*body;
    while let (Some(_), SetExpr::SetOperation { left, .. }) = (union_of(at), at) {
        length += 1;
        at = left;
    }
    if length < CHAIN_MIN {
        return;
    }
    let nothing =
        SetExpr::Values(sqlparser::ast::Values { explicit_row: false, value_keyword: false, rows: Vec::new() });
    let mut rest = std::mem::replace(body, nothing);
    // Members from the last to the first; those from the first UNION without ALL on are distinct.
    let (mut all, mut distinct) = (Vec::new(), Vec::new());
    let mut is_distinct = false;
    loop {
        let quantifier = union_of(&rest);
        rest = match (quantifier, rest) {
            (Some(quantifier), SetExpr::SetOperation { left, right, .. }) => {
                is_distinct |= quantifier == SetQuantifier::Distinct;
                if is_distinct { &mut distinct } else { &mut all }.push(*right);
                *left
            }
            (_, first) => {
                if is_distinct { &mut distinct } else { &mut all }.push(first);
                break;
            }
        };
    }
    let join = |set_quantifier: SetQuantifier| {
        move |left, right| SetExpr::SetOperation {
            op: SetOperator::Union,
            set_quantifier,
            left: Box::new(left),
            right: Box::new(right),
        }
    };
    distinct.reverse();
    let distinct = joined(distinct, join(SetQuantifier::Distinct));
    all.extend(distinct);
    all.reverse();
    if let Some(whole) = joined(all, join(SetQuantifier::All)) {
        *body = whole;
    }
}

#[cfg(test)]
mod tests {
    use crate::parser::{ParseOptions, parse};
    use crate::statement::Statement;

    fn read(sql: &str) -> sqlparser::ast::Query {
        match parse(sql, &ParseOptions::default()).unwrap().remove(0).statement {
            Statement::Query(query) => *query.ast,
            other => panic!("{other:?}"),
        }
    }

    fn depth(body: &super::SetExpr) -> usize {
        match body {
            super::SetExpr::SetOperation { left, right, .. } => 1 + depth(left).max(depth(right)),
            _ => 0,
        }
    }

    #[test]
    fn unions_keep_their_members_and_what_is_distinct() {
        let chain = |between: &str| (0..64).map(|n| format!("SELECT {n}")).collect::<Vec<_>>().join(between);
        let query = read(&chain(" UNION ALL "));
        assert_eq!(depth(&query.body), 6);
        assert_eq!(query.to_string(), chain(" UNION ALL "));
        let query = read(&chain(" UNION "));
        assert_eq!(query.to_string(), chain(" UNION DISTINCT "));
        // The last UNION without ALL makes the members before it distinct, and none after it.
        let query = read(&format!("{} UNION SELECT 64 UNION ALL SELECT 65", chain(" UNION ALL ")));
        let expected = format!("{} UNION DISTINCT SELECT 64 UNION ALL SELECT 65", chain(" UNION DISTINCT "));
        assert_eq!(query.to_string(), expected);
    }

    #[test]
    fn arithmetic_is_one_call_of_all_operands() {
        let text = |sql: &str| read(sql).to_string();
        let sum = vec!["a"; 40].join(" + ");
        let flat = format!("SELECT dipper_chain('{}', {}) FROM t", "+".repeat(39), vec!["a"; 40].join(", "));
        assert_eq!(text(&format!("SELECT {sum} FROM t")), flat);
        // Operators are applied from left to right; those that bind tighter are in their own operand.
        let mixed = format!("SELECT a * b{} FROM t", " + a - b".repeat(20));
        let flat = format!("SELECT dipper_chain('*{}', a, b{}) FROM t", "+-".repeat(20), ", a, b".repeat(20));
        assert_eq!(text(&mixed), flat);
        let products = vec!["a * b"; 40].join(" + ");
        let flat = format!("SELECT dipper_chain('*{}', a, b{}) FROM t", "+".repeat(39), ", a * b".repeat(39));
        assert_eq!(text(&format!("SELECT {products} FROM t")), flat);
        for short in ["a + b - c", "a + INTERVAL '1' DAY"] {
            assert_eq!(text(&format!("SELECT {short} FROM t")), format!("SELECT {short} FROM t"));
        }
        let moved = format!("SELECT d{} FROM t", " + INTERVAL '1' DAY".repeat(300));
        let flat = format!("SELECT dipper_chain('{}', d{}) FROM t", "+".repeat(300), ", INTERVAL '1' DAY".repeat(300));
        assert_eq!(text(&moved), flat);
        // Parentheses and signs do not end a chain, wherever the operands stand.
        let nested = format!("SELECT {}a{} FROM t", "(".repeat(40), " * b - c)".repeat(40));
        let flat = format!("SELECT (dipper_chain('{}', a{})) FROM t", "*-".repeat(40), ", b, c".repeat(40));
        assert_eq!(text(&nested), flat);
        let nested = format!("SELECT {}a{} FROM t", "b - (".repeat(40), ")".repeat(40));
        let flat = format!("SELECT dipper_chain('-{}', b, (a){}) FROM t", "M".repeat(39), ", b".repeat(39));
        assert_eq!(text(&nested), flat);
        let flat = format!("SELECT dipper_chain('{}', -a{}) FROM t", "M".repeat(39), ", 0".repeat(39));
        assert_eq!(text(&format!("SELECT {}a FROM t", "- ".repeat(40))), flat);
        // Not all of very many operands are computed at once.
        let calls = text(&format!("SELECT 1{} FROM t", " + f(a)".repeat(1_000)));
        assert_eq!(calls.matches("dipper_chain").count(), 4, "{calls}");
        assert_eq!(calls.matches("f(a)").count(), 1_000);
        assert_eq!(calls.matches('+').count(), 1_000);
    }

    #[test]
    fn conditions_keep_their_order() {
        let chain = (0..100).map(|n| format!("k = {n} AND v > {n}")).collect::<Vec<_>>().join(" OR ");
        let query = read(&format!("SELECT 1 FROM t WHERE {chain}"));
        assert_eq!(query.to_string(), format!("SELECT 1 FROM t WHERE {chain}"));
        let chain = (0..100).map(|n| format!("k = {n}")).collect::<Vec<_>>().join(" XOR ");
        let query = read(&format!("SELECT 1 FROM t WHERE {chain}"));
        assert_eq!(query.to_string(), format!("SELECT 1 FROM t WHERE {chain}"));
        let mut condition = match *query.body {
            super::SetExpr::Select(select) => select.selection,
            _ => None,
        };
        let mut depth = 0;
        while let Some(sqlparser::ast::Expr::BinaryOp { left, op: sqlparser::ast::BinaryOperator::Xor, .. }) = condition
        {
            depth += 1;
            condition = Some(*left);
        }
        assert_eq!(depth, 7);
    }
}
