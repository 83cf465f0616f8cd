//! `TABLE t` where a query may stand: `(TABLE t) UNION ..`, `INSERT INTO u TABLE t`, `CREATE VIEW v AS TABLE t`.
//!
//! `sqlparser` reads it in few of these places, without a catalog, and takes two more words behind the name, whatever
//! they are. It is rewritten as `SELECT * FROM t`, which is what it means.

use std::ops::Range;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::cursor::is_word;

/// Words before a query.
const BEFORE: [&str; 6] = ["UNION", "EXCEPT", "INTERSECT", "MINUS", "ALL", "DISTINCT"];

/// Words before the name of the table into which INSERT writes. TABLE behind them is a word of INSERT.
const INSERTS: [&str; 8] =
    ["INSERT", "REPLACE", "INTO", "OVERWRITE", "IGNORE", "LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED"];

/// Words behind a query.
const BEHIND: [&str; 7] = ["UNION", "EXCEPT", "INTERSECT", "MINUS", "ORDER", "LIMIT", "ON"];

/// Rewrites `TABLE t` in all places of a query. The statement `TABLE t` itself is read by [`super::dml::table`].
pub(super) fn as_selects(tokens: &mut Vec<TokenWithSpan>, ranges: &mut Vec<Range<usize>>) {
    let mut at = 1;
    while at + 1 < tokens.len() {
        if !is_word(&tokens[at].token, "TABLE") || !begins_query(tokens, at) {
            at += 1;
            continue;
        }
        if is_all(tokens, at + 1) {
            let span = tokens[at].span;
            let made = [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")];
            tokens.splice(at..=at, made.map(|token| TokenWithSpan { token, span }));
            let range = ranges[at].clone();
            ranges.splice(at..=at, std::iter::repeat_n(range, 3));
        } else if let Token::Word(word) = &mut tokens[at].token {
            // It is a name, or an error.
            word.keyword = Keyword::NoKeyword;
        }
        at += 1;
    }
}

/// Whether a query may begin at token `at`.
fn begins_query(tokens: &[TokenWithSpan], at: usize) -> bool {
    let token = |at: usize| &tokens[at].token;
    let is_one_of = |at: usize, words: &[&str]| words.iter().any(|word| is_word(token(at), word));
    let first = |words: &[&str]| is_one_of(0, words);
    let inserts = first(&["REPLACE"]) || tokens.iter().any(|token| is_word(&token.token, "INSERT"));
    match token(at - 1) {
        // A list of columns may begin with one of this name: `CREATE TABLE t (table INT)`.
        Token::LParen => at == 1 || !is_name(token(at - 2)) || inserts,
        _ if is_one_of(at - 1, &BEFORE) => true,
        word if is_word(word, "AS") => first(&["CREATE", "ALTER"]),
        _ => inserts && at > 1 && !is_one_of(at - 1, &INSERTS) && (is_name(token(at - 1)) || closes(token(at - 1))),
    }
}

fn closes(token: &Token) -> bool {
    matches!(token, Token::RParen | Token::RBracket)
}

/// Whether a token is a name and no word of SQL before a parenthesis.
fn is_name(token: &Token) -> bool {
    const WORDS: [&str; 12] =
        ["IN", "EXISTS", "FROM", "JOIN", "AS", "ANY", "ALL", "SOME", "UNION", "EXCEPT", "INTERSECT", "MINUS"];
    match token {
        Token::Word(Word { quote_style: None, .. }) => !WORDS.iter().any(|word| is_word(token, word)),
        Token::Word(_) => true,
        _ => false,
    }
}

/// Whether the tokens from `at` are a name, and a query ends behind it or has one of the clauses that may follow.
fn is_all(tokens: &[TokenWithSpan], at: usize) -> bool {
    let token = |at: usize| tokens.get(at).map(|token| &token.token);
    let mut end = at;
    loop {
        if !matches!(token(end), Some(Token::Word(_))) {
            return false;
        }
        end += 1;
        if token(end) != Some(&Token::Period) {
            break;
        }
        end += 1;
    }
    match token(end) {
        None => true,
        Some(Token::RParen | Token::SemiColon) => true,
        Some(word) => BEHIND.iter().any(|behind| is_word(word, behind)),
    }
}
