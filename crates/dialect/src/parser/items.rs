//! The text of every select item, found in the tokens: it is the name of an unnamed result column.
//!
//! `sqlparser` keeps no text, and its expressions' spans do not include parentheses. So the items are cut out here, at
//! the commas between a SELECT and the word that ends its list.

use std::collections::HashMap;

use sqlparser::tokenizer::{Location, Token, Word};

use super::cursor::{Tokens, is_word};

/// Words that end a select list where they are outside of parentheses and not after a dot.
const LIST_ENDS: &[&str] = &[
    "FROM",
    "INTO",
    "WHERE",
    "GROUP",
    "HAVING",
    "ORDER",
    "LIMIT",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "MINUS",
    "FOR",
    "LOCK",
    "WINDOW",
    "QUALIFY",
    "LATERAL",
    "PROCEDURE",
    "FETCH",
    "OFFSET",
    "ON",
];

/// Words between SELECT and its first item.
const MODIFIERS: &[&str] = &[
    "ALL",
    "DISTINCT",
    "DISTINCTROW",
    "HIGH_PRIORITY",
    "STRAIGHT_JOIN",
    "SQL_SMALL_RESULT",
    "SQL_BIG_RESULT",
    "SQL_BUFFER_RESULT",
    "SQL_NO_CACHE",
    "SQL_CACHE",
    "SQL_CALC_FOUND_ROWS",
];

/// Returns the texts of items by the location of their SELECT.
pub(super) fn select_items(text: &str, tokens: &Tokens) -> HashMap<Location, Vec<String>> {
    let mut out = HashMap::new();
    for (i, token) in tokens.tokens.iter().enumerate() {
        if is_word(&token.token, "SELECT") && (i == 0 || tokens.tokens[i - 1].token != Token::Period) {
            out.insert(token.span.start, cut(text, tokens, i + 1));
        }
    }
    out
}

fn cut(text: &str, tokens: &Tokens, from: usize) -> Vec<String> {
    let mut items = Vec::new();
    let mut i = from;
    while tokens.tokens.get(i).is_some_and(|t| MODIFIERS.iter().any(|m| is_word(&t.token, m))) {
        i += 1;
    }
    let mut start = i;
    let mut depth = 0usize;
    let mut push = |start: usize, end: usize| {
        if start < end {
            // IGNORE NULLS has moved behind its call, in broken statements to before words that it followed.
            let written = tokens.ranges[start].start..tokens.ranges[end - 1].end;
            items.push(text.get(written).unwrap_or_default().to_string());
        }
    };
    while let Some(token) = tokens.tokens.get(i) {
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => depth += 1,
            Token::RParen | Token::RBracket | Token::RBrace if depth == 0 => break,
            Token::RParen | Token::RBracket | Token::RBrace => depth -= 1,
            Token::Comma if depth == 0 => {
                push(start, i);
                start = i + 1;
            }
            Token::Word(Word { value, quote_style: None, .. })
                if depth == 0
                    && i > start
                    && tokens.tokens[i - 1].token != Token::Period
                    && LIST_ENDS.iter().any(|w| value.eq_ignore_ascii_case(w)) =>
            {
                break;
            }
            _ => {}
        }
        i += 1;
    }
    push(start, i);
    items
}
