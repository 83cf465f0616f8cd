//! VALUES whose cells have names, as in Doris: `VALUES (1 AS x, 'a' AS y), (2, 'b')`.
//!
//! `sqlparser` takes expressions only. Such rows are rewritten as SELECTs, of which the first one names the columns:
//! `SELECT 1 AS x, 'a' AS y UNION ALL SELECT 2, 'b'`.

use std::ops::Range;

use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::cursor::is_word;

/// A row of VALUES: the index of its first token, which may be ROW, and of its parentheses.
struct Row {
    start: usize,
    open: usize,
    close: usize,
}

/// Rewrites all VALUES that have names.
pub(super) fn as_selects(tokens: &mut Vec<TokenWithSpan>, ranges: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while at < tokens.len() {
        if is_word(&tokens[at].token, "VALUES") && (at == 0 || tokens[at - 1].token != Token::Period) {
            let (rows, are_named) = rows(tokens, at + 1);
            if are_named {
                rewrite(tokens, ranges, at, &rows);
            }
        }
        at += 1;
    }
}

/// Returns the rows that begin at token `from`, and whether a cell has a name.
fn rows(tokens: &[TokenWithSpan], from: usize) -> (Vec<Row>, bool) {
    let mut rows = Vec::new();
    let mut are_named = false;
    let mut start = from;
    loop {
        let token = |at: usize| tokens.get(at).map(|token| &token.token);
        let open = start + usize::from(token(start).is_some_and(|token| is_word(token, "ROW")));
        if token(open) != Some(&Token::LParen) {
            break;
        }
        let mut depth = 0usize;
        let mut close = open;
        loop {
            match token(close) {
                None => return (Vec::new(), false),
                Some(Token::LParen | Token::LBracket | Token::LBrace) => depth += 1,
                Some(Token::RParen | Token::RBracket | Token::RBrace) => depth -= 1,
                Some(name) => are_named |= depth == 1 && is_word(name, "AS"),
            }
            if depth == 0 {
                break;
            }
            close += 1;
        }
        rows.push(Row { start, open, close });
        if token(close + 1) != Some(&Token::Comma) {
            break;
        }
        start = close + 2;
    }
    (rows, are_named)
}

/// Rewrites the rows behind the VALUES at token `at`.
fn rewrite(tokens: &mut Vec<TokenWithSpan>, ranges: &mut Vec<Range<usize>>, at: usize, rows: &[Row]) {
    // Backwards, so that the places of the rows before stay.
    for (number, row) in rows.iter().enumerate().rev() {
        // The text of the query ends with the parenthesis.
        ranges[row.close - 1].end = ranges[row.close].end;
        tokens.remove(row.close);
        ranges.remove(row.close);
        let (words, from): (&[&str], usize) =
            if number == 0 { (&["SELECT"], at) } else { (&["UNION", "ALL", "SELECT"], row.start - 1) };
        let made = words.iter().map(|word| {
            // The texts of items are found by the place of their SELECT.
            let span = if number == 0 { tokens[at].span } else { tokens[row.open].span };
            TokenWithSpan { token: Token::make_keyword(word), span }
        });
        let made: Vec<TokenWithSpan> = made.collect();
        let range = ranges[from].start..ranges[row.open].end;
        tokens.splice(from..=row.open, made);
        ranges.splice(from..=row.open, std::iter::repeat_n(range, words.len()));
    }
}
