//! Lambdas: `array_map(x -> x + 1, a)`, `array_map((x, y) -> x + y, a, b)`, before the arrays as in Doris or after them
//! as in StarRocks.
//!
//! Elsewhere `->` extracts a member of JSON and binds tightest. An arrow belongs to a lambda where a name, or names in
//! parentheses, begin an argument of a function that takes a lambda. These arrows become a token of their own before
//! the statement is parsed.

use sqlparser::ast::{Expr, LambdaFunction, LambdaFunctionParameter, LambdaSyntax, OneOrManyWithParens};
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

/// The functions that take a lambda.
pub const FUNCTIONS: &[&str] = &[
    "all_match",
    "any_match",
    "array_count",
    "array_exists",
    "array_filter",
    "array_first",
    "array_first_index",
    "array_last",
    "array_last_index",
    "array_map",
    "array_match_all",
    "array_match_any",
    "array_reverse_split",
    "array_sort",
    "array_sortby",
    "array_split",
    "map_apply",
    "map_filter",
    "transform",
    "transform_keys",
    "transform_values",
];

/// The arrow of a lambda.
const ARROW: &str = "->";

fn is_function(name: &str) -> bool {
    FUNCTIONS.iter().any(|function| function.eq_ignore_ascii_case(name))
}

/// Marks the arrows of lambdas.
pub(super) fn mark(tokens: &mut [TokenWithSpan]) {
    if !tokens.iter().any(|token| token.token == Token::Arrow) {
        return;
    }
    // For each open bracket, whether it contains arguments of a function that takes a lambda.
    let mut open = Vec::new();
    for at in 0..tokens.len() {
        let begins = at > 0 && matches!(tokens[at - 1].token, Token::LParen | Token::Comma);
        if begins
            && open.last() == Some(&true)
            && let Some(arrow) = arrow(tokens, at)
        {
            tokens[arrow].token = Token::CustomBinaryOperator(ARROW.into());
        }
        match tokens[at].token {
            Token::LParen => {
                let before = at.checked_sub(1).map(|before| &tokens[before].token);
                open.push(matches!(before, Some(Token::Word(word)) if is_function(&word.value)));
            }
            Token::LBracket | Token::LBrace => open.push(false),
            Token::RParen | Token::RBracket | Token::RBrace => {
                open.pop();
            }
            _ => {}
        }
    }
}

/// Returns the place of the arrow after the parameters that begin at a token.
fn arrow(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let is_name = |at: usize| matches!(token(at), Some(Token::Word(_)));
    let mut end = at;
    if is_name(at) {
        end += 1;
    } else if token(at) == Some(&Token::LParen) {
        loop {
            if !is_name(end + 1) {
                return None;
            }
            end += 2;
            match token(end) {
                Some(Token::Comma) => {}
                Some(Token::RParen) => break,
                _ => return None,
            }
        }
        end += 1;
    } else {
        return None;
    }
    (token(end) == Some(&Token::Arrow)).then_some(end)
}

fn is_arrow(token: &Token) -> bool {
    matches!(token, Token::CustomBinaryOperator(name) if name == ARROW)
}

/// Whether a lambda is next.
pub(super) fn is_next(parser: &Parser) -> bool {
    let token = |at: usize| &parser.peek_nth_token_ref(at).token;
    match token(0) {
        Token::Word(_) => is_arrow(token(1)),
        Token::LParen => {
            let mut at = 1;
            while matches!(token(at), Token::Word(_)) && *token(at + 1) == Token::Comma {
                at += 2;
            }
            matches!(token(at), Token::Word(_)) && *token(at + 1) == Token::RParen && is_arrow(token(at + 2))
        }
        _ => false,
    }
}

/// Reads the lambda that is next.
pub(super) fn parse(parser: &mut Parser) -> Result<Expr, ParserError> {
    let parameter =
        |parser: &mut Parser| parser.parse_identifier().map(|name| LambdaFunctionParameter { name, data_type: None });
    let params = match parser.consume_token(&Token::LParen) {
        true => {
            let all = parser.parse_comma_separated(parameter)?;
            parser.expect_token(&Token::RParen)?;
            OneOrManyWithParens::Many(all)
        }
        false => OneOrManyWithParens::One(parameter(parser)?),
    };
    // The next token is the arrow.
    parser.advance_token();
    let body = Box::new(parser.parse_expr()?);
    Ok(Expr::Lambda(LambdaFunction { params, body, syntax: LambdaSyntax::Arrow }))
}

#[cfg(test)]
mod tests {
    use super::super::{ParseOptions, parse_expr};

    fn read(text: &str) -> String {
        parse_expr(text, &ParseOptions::default()).map_or_else(|e| e.to_string(), |expr| format!("{expr}"))
    }

    #[test]
    fn arrows_of_lambdas_and_of_json() {
        for text in [
            "array_map(x -> x + 1, a)",
            "array_map(a, x -> x + 1)",
            "array_map((x, y) -> x + y, a, b)",
            "array_filter(x -> array_count(y -> y > x, b) > 0, a)",
            "Transform(a, `x` -> `x`)",
            "f(j -> '$.a')",
            "array_map(x -> x -> '$.a', a)",
        ] {
            assert_eq!(read(text), text);
        }
        // Only an argument can be a lambda.
        assert!(read("array_map((x -> '$.a') + 1, a)").contains("(x -> '$.a') + 1"));
        assert!(read("array_map(x ->, a)").contains("expected"), "{}", read("array_map(x ->, a)"));
        assert!(read("array_map(-> x, a)").contains("expected"));
    }
}
