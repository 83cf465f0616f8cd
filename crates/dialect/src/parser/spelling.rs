//! The text of queries and expressions in the spelling of the default `sql_mode`.
//!
//! A view keeps the text and the mode with which it was made. Readers under another mode would read another query in that
//! text, so its tokens are spelled anew where the mode matters:
//!
//! | written | mode | becomes |
//! |---|---|---|
//! | `"name"` | ANSI_QUOTES | `` `name` `` |
//! | `'a\b'` | NO_BACKSLASH_ESCAPES | `'a\\b'` |
//! | `a \|\| b \|\| c` | PIPES_AS_CONCAT | `concat(a, b, c)` |
//! | `NOT a` | HIGH_NOT_PRECEDENCE | `! a` |
//!
//! The result is parsed, and only given if it is the same tree.

use std::collections::HashSet;
use std::ops::Range;

use sqlparser::ast::{BinaryOperator, Expr, Query, UnaryOperator, Value};
use sqlparser::tokenizer::{Token, Word};

use super::cursor::{Source, Tokens};
use super::depth::is_operand_end;
use super::dialect::DipperDialect;
use super::{ParseOptions, parse, plain_tokens};
use crate::error::SqlError;
use crate::statement::Statement;
use crate::tree::call;
use crate::walk::{self, Change};

/// Returns the text of a query, which was written under `sql_mode`, for a reader. Under another mode it is spelled as under
/// the default mode; where that is not possible, a comment names the mode under which the text is to be read.
pub fn query_for(sql: &str, sql_mode: &str, reader: &ParseOptions) -> String {
    let written = ParseOptions::from_sql_mode(sql_mode);
    match written == *reader || written == ParseOptions::default() {
        true => sql.to_string(),
        false => in_default_mode(sql, &written).unwrap_or_else(|| named(sql, sql_mode)),
    }
}

/// Returns the text of an expression as [`query_for`] does.
pub fn expr_for(sql: &str, sql_mode: &str, reader: &ParseOptions) -> String {
    const SELECT: &str = "SELECT ";
    let query = query_for(&format!("{SELECT}{sql}"), sql_mode, reader);
    query.strip_prefix(SELECT).map_or_else(|| named(sql, sql_mode), str::to_string)
}

fn named(sql: &str, sql_mode: &str) -> String {
    format!("/* sql_mode = '{sql_mode}' */ {sql}")
}

fn in_default_mode(sql: &str, options: &ParseOptions) -> Option<String> {
    let dialect = DipperDialect::new(*options);
    let read = |text: &str| plain_tokens(&dialect, Source { whole: text, start: 0, text }).ok();
    // A name in backquotes is the same name under every mode.
    let named = edited(sql, names(&read(sql)?));
    let spelled = edited(&named, edits(&named, &read(&named)?, options)?);
    (tree(&named, options)? == tree(&spelled, &ParseOptions::default())?).then_some(spelled)
}

/// Returns the tree of a query without what the spelling alone decides.
fn tree(sql: &str, options: &ParseOptions) -> Option<Box<Query>> {
    let mut parsed = parse(sql, options).ok()?;
    let Statement::Query(mut query) = parsed.pop().filter(|_| parsed.is_empty())?.statement else { return None };
    walk::change(&mut query.ast, &mut Plain).ok()?;
    Some(query.ast)
}

struct Plain;

impl Change for Plain {
    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        // A NOT that is read before all other operators has parentheses of its own.
        while let Expr::Nested(inner) = expr
            && matches!(
                **inner,
                Expr::UnaryOp { op: UnaryOperator::Not | UnaryOperator::BangNot, .. } | Expr::Nested(_)
            )
        {
            *expr = std::mem::replace(&mut **inner, Expr::value(Value::Null));
        }
        match expr {
            Expr::BinaryOp { op: BinaryOperator::StringConcat, .. } => {
                let joined = std::mem::replace(expr, Expr::value(Value::Null));
                let mut operands = Vec::new();
                concatenated(joined, &mut operands);
                *expr = call("concat", operands);
            }
            Expr::UnaryOp { op, .. } if *op == UnaryOperator::BangNot => *op = UnaryOperator::Not,
            Expr::Value(value) => {
                if let Value::DoubleQuotedString(text) = &value.value {
                    value.value = Value::SingleQuotedString(text.clone());
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Collects the operands of `||`, whose tree may have been balanced.
fn concatenated(expr: Expr, operands: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::StringConcat, right } => {
            concatenated(*left, operands);
            concatenated(*right, operands);
        }
        operand => operands.push(operand),
    }
}

/// What stands in the place of a range of the text.
type Edit = (Range<usize>, String);

fn edited(sql: &str, mut edits: Vec<Edit>) -> String {
    // What is put in before a place comes before what takes the place of the text there.
    edits.sort_by_key(|(range, _)| (range.start, range.end));
    let (mut out, mut at) = (String::with_capacity(sql.len()), 0);
    for (range, text) in edits {
        out.push_str(sql.get(at..range.start).unwrap_or_default());
        out.push_str(&text);
        at = range.end;
    }
    out + sql.get(at..).unwrap_or_default()
}

/// Puts names into backquotes.
fn names(tokens: &Tokens) -> Vec<Edit> {
    let name = |token: &Token| match token {
        Token::Word(Word { value, quote_style: Some('"'), .. }) => Some(format!("`{}`", value.replace('`', "``"))),
        _ => None,
    };
    let places = tokens.tokens.iter().zip(&tokens.ranges);
    places.filter_map(|(token, range)| Some((range.clone(), name(&token.token)?))).collect()
}

/// Returns what else has to be spelled anew; `None` if an operand of `||` is not found.
fn edits(sql: &str, tokens: &Tokens, options: &ParseOptions) -> Option<Vec<Edit>> {
    let Tokens { tokens, ranges } = tokens;
    let list: Vec<&Token> = tokens.iter().map(|token| &token.token).collect();
    let mut edits: Vec<Edit> = Vec::new();
    // The operators of chains that have been rewritten.
    let mut taken = HashSet::new();
    for (at, token) in list.iter().enumerate() {
        let range = ranges[at].clone();
        match token {
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) | Token::NationalStringLiteral(_)
                if options.no_backslash_escapes =>
            {
                let text = sql.get(range.clone())?;
                if text.contains('\\') {
                    edits.push((range, text.replace('\\', "\\\\")));
                }
            }
            token if options.high_not_precedence && is_word(token, "NOT") => {
                let before = at.checked_sub(1).map(|before| list[before]);
                let is_exists = list.get(at + 1).is_some_and(|after| is_word(after, "EXISTS"));
                if !is_exists && !before.is_some_and(|before| is_operand_end(before) || is_word(before, "IS")) {
                    edits.push((range, "!".to_string()));
                }
            }
            Token::StringConcat if options.pipes_as_concat && !taken.contains(&at) => {
                let first = operand_start(&list, at)?;
                let mut end = at;
                while list.get(end) == Some(&&Token::StringConcat) {
                    taken.insert(end);
                    // The blanks before the operator go with it.
                    edits.push((ranges[end - 1].end..ranges[end].end, ",".to_string()));
                    end = operand_end(&list, end + 1)?;
                }
                let (from, to) = (ranges[first].start, ranges[end - 1].end);
                edits.push((from..from, "concat(".to_string()));
                edits.push((to..to, ")".to_string()));
            }
            _ => {}
        }
    }
    Some(edits)
}

fn is_word(token: &Token, text: &str) -> bool {
    matches!(token, Token::Word(Word { value, quote_style: None, .. }) if value.eq_ignore_ascii_case(text))
}

fn is_sign(token: &Token) -> bool {
    matches!(token, Token::Minus | Token::Plus | Token::Tilde | Token::ExclamationMark)
}

fn opens(token: &Token) -> bool {
    matches!(token, Token::LParen | Token::LBracket | Token::LBrace) || is_word(token, "CASE")
}

fn closes(token: &Token) -> bool {
    matches!(token, Token::RParen | Token::RBracket | Token::RBrace) || is_word(token, "END")
}

/// Returns the place behind what is opened at `at`.
fn closed(tokens: &[&Token], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        depth += usize::from(opens(token));
        depth -= usize::from(closes(token));
        if depth == 0 {
            return Some(place + 1);
        }
    }
    None
}

/// Returns the place where what is closed at `at` was opened.
fn opened(tokens: &[&Token], at: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for place in (0..=at).rev() {
        depth += usize::from(closes(tokens[place]));
        depth -= usize::from(opens(tokens[place]));
        if depth == 0 {
            return Some(place);
        }
    }
    None
}

/// Returns the place behind the operand of `||` that begins at `at`.
fn operand_end(tokens: &[&Token], at: usize) -> Option<usize> {
    let mut at = at + tokens.get(at..)?.iter().take_while(|token| is_sign(token)).count();
    at = match tokens.get(at)? {
        token if opens(token) => closed(tokens, at)?,
        token if is_operand_end(token) => at + 1,
        _ => return None,
    };
    loop {
        at = match tokens.get(at) {
            Some(Token::Period | Token::Arrow | Token::LongArrow) => at + 2,
            Some(Token::LParen | Token::LBracket) => closed(tokens, at)?,
            Some(token) if is_word(token, "OVER") => operand_end(tokens, at + 1)?,
            _ => return (at <= tokens.len()).then_some(at),
        };
    }
}

/// Returns the place at which the operand of `||` that ends before `end` begins.
fn operand_start(tokens: &[&Token], end: usize) -> Option<usize> {
    let mut at = end.checked_sub(1)?;
    loop {
        if closes(tokens[at]) {
            at = opened(tokens, at)?;
        }
        let is_part = |token: &Token| matches!(token, Token::Period | Token::Arrow | Token::LongArrow);
        let before = at.checked_sub(1).map(|before| tokens[before]);
        at = match before {
            Some(token) if is_part(token) => at.checked_sub(2)?,
            // The window of a function, whose call is before it.
            Some(token) if is_word(token, "OVER") => at.checked_sub(2)?,
            // What is called, or has elements.
            Some(token) if matches!(tokens[at], Token::LParen | Token::LBracket) && is_operand_end(token) => at - 1,
            _ => break,
        };
    }
    let is_operand = |at: usize| at.checked_sub(1).is_some_and(|before| is_operand_end(tokens[before]));
    while at > 0 && is_sign(tokens[at - 1]) && !is_operand(at - 1) {
        at -= 1;
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_spelled_out() {
        let ansi = ParseOptions { ansi_quotes: true, ..ParseOptions::default() };
        let pipes = ParseOptions { pipes_as_concat: true, ..ParseOptions::default() };
        let raw = ParseOptions { no_backslash_escapes: true, ..ParseOptions::default() };
        let high = ParseOptions { high_not_precedence: true, ..ParseOptions::default() };
        for (options, written, spelled) in [
            (ansi, r#"select "a""b`c" from "t" where s = 'x"y'"#, "select `a\"b``c` from `t` where s = 'x\"y'"),
            (pipes, "select a || b  || 'c' from t", "select concat(a, b, 'c') from t"),
            (pipes, "select -a.b || f(x, y || z) + 1", "select concat(-a.b, f(x, concat(y, z))) + 1"),
            (pipes, "select 1 - -a || (b || c) * 2", "select 1 - concat(-a, (concat(b, c))) * 2"),
            (
                pipes,
                "select case when a || b = 'c' then 1 end || l[1] || m.x",
                "select concat(case when concat(a, b) = 'c' then 1 end, l[1], m.x)",
            ),
            (
                pipes,
                "select sum(x) over (order by k) || 'a' from t",
                "select concat(sum(x) over (order by k), 'a') from t",
            ),
            (pipes, "select k from t where a or s in (a || 'x')", "select k from t where a or s in (concat(a, 'x'))"),
            (raw, r"select 'a\b', 'c\\''d' from t", r"select 'a\\b', 'c\\\\''d' from t"),
            (
                high,
                "select not a between 1 and 2, b not in (1), c is not null",
                "select ! a between 1 and 2, b not in (1), c is not null",
            ),
            (high, "select k from t where not (a = 1) and not b + 1", "select k from t where ! (a = 1) and ! b + 1"),
            (high, "select not exists (select 1), not not a in (1)", "select not exists (select 1), ! ! a in (1)"),
        ] {
            assert_eq!(in_default_mode(written, &options).as_deref(), Some(spelled), "{written}");
        }
        let reader = ParseOptions::default();
        assert_eq!(expr_for("a || 'x'", "PIPES_AS_CONCAT", &reader), "concat(a, 'x')");
        assert_eq!(expr_for("a || 'x'", "PIPES_AS_CONCAT", &pipes), "a || 'x'");
        assert_eq!(expr_for("a || 'x'", "", &pipes), "a || 'x'");
        // Such text has no other spelling.
        let kept = query_for("select a || binary b", "PIPES_AS_CONCAT", &reader);
        assert_eq!(kept, "/* sql_mode = 'PIPES_AS_CONCAT' */ select a || binary b");
    }
}
