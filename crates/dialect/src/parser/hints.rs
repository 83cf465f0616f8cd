//! Words of Doris's and StarRocks's queries that `sqlparser` does not know, removed or translated into words that it
//! knows.
//!
//! | written | read as |
//! |---|---|
//! | `JOIN [shuffle] t`, `OVER ([hash] PARTITION BY a)` | the same without the hint, which does not change the result |
//! | `FROM t [PREAGGOPEN]` | the same without the hint |
//! | `FROM t PARTITION p`, `FROM t PARTITIONS (p)` | `FROM t PARTITION (p)` |
//! | `FROM t TEMPORARY PARTITION p` | the same, the name prefixed with [`TEMPORARY`] |
//! | `FROM (a, b)` | `FROM (a CROSS JOIN b)` |
//! | `SELECT * EXCLUDE (a)` | `SELECT * EXCEPT (a)` |
//! | `ARRAY<INT>[1]`, `MAP<INT, STRING>{1: 'a'}` | `CAST([1] AS ARRAY<INT>)`, `CAST({1: 'a'} AS MAP<INT, STRING>)` |
//! | `@'name'`, `` @`name` `` | the variable as one word |
//! | `WITH c AS [NOT] MATERIALIZED (SELECT ..)` | the same without the words, which are for the optimizer of PostgreSQL |
//! | `count(DISTINCT [skew] a)` | the same without the hint |
//! | `FROM { oj a LEFT OUTER JOIN b ON .. }` | `FROM (a LEFT OUTER JOIN b ON ..)` |
//! | `lead(a IGNORE NULLS, 1)` | `lead(a, 1 IGNORE NULLS)` |
//! | `ASOF JOIN`, `NULL AWARE LEFT ANTI JOIN`, `a BITSHIFTLEFT b`, `FROM t PARTITION (k = 1)` | refused by name |
//! | `SELECT * REPLACE (..)`, `FROM t TABLET (1)`, `FROM t TABLESAMPLE (..)` | refused by name |
//! | `FROM t INDEX r`, `FROM t[_META_]` | refused by name |

use std::ops::Range;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::cursor::{Source, is_word};
use crate::error::SqlError;
use crate::internal::TEMPORARY;

/// Statements whose own readers take these words.
const OTHERS: [&str; 5] = ["ALTER", "SHOW", "ADMIN", "ANALYZE", "RECOVER"];

/// Hints after a table that change the rows that are read.
const OTHER_ROWS: [&str; 3] = ["_META_", "_SYNC_MV_", "_BINLOG_"];

const REPLACE: &str = "SELECT * REPLACE (..) is not supported; name the columns, or SELECT *, expression AS name";

/// Rewrites the tokens of a statement.
///
/// # Errors
/// 1235 for words that would change the result and are not supported.
pub(super) fn in_words_of_the_parser(
    source: Source<'_>,
    tokens: &mut Vec<TokenWithSpan>,
    ranges: &mut Vec<Range<usize>>,
) -> Result<(), SqlError> {
    let of_tables = !OTHERS.iter().any(|word| tokens.first().is_some_and(|first| is_word(&first.token, word)));
    odbc_joins(tokens, ranges);
    let mut at = 0;
    while at < tokens.len() {
        let behind = match &tokens[at].token {
            Token::Word(Word { quote_style: None, keyword: Keyword::JOIN, .. }) => hint(tokens, at + 1),
            Token::Word(Word { quote_style: None, keyword: Keyword::OVER, .. })
                if tokens.get(at + 1).is_some_and(|next| next.token == Token::LParen) =>
            {
                hint(tokens, at + 2)
            }
            // `count(DISTINCT [skew] a)`; `count(DISTINCT [a])` counts arrays.
            Token::Word(Word { quote_style: None, keyword: Keyword::DISTINCT, .. })
                if at > 0 && tokens[at - 1].token == Token::LParen =>
            {
                hint(tokens, at + 1)
                    .filter(|hint| matches!(tokens.get(hint.end).map(|t| &t.token), Some(Token::Word(_))))
            }
            Token::Word(Word { quote_style: None, keyword: Keyword::AS, .. }) => materialized(tokens, at + 1),
            _ => None,
        };
        if let Some(range) = behind {
            remove(tokens, ranges, range);
        }
        quoted_variable(tokens, ranges, at);
        typed_collection(tokens, ranges, at);
        if tokens[at].token == Token::Mul && is_word_at(tokens, at + 1, "REPLACE") && is_star(tokens, at) {
            return Err(SqlError::unsupported(REPLACE, Some(source.position(ranges[at + 1].clone()))));
        }
        if tokens[at].token == Token::Mul && is_word_at(tokens, at + 1, "EXCLUDE") && is_star(tokens, at) {
            tokens[at + 1].token = Token::make_keyword("EXCEPT");
        }
        if tokens[at].token == Token::Mul && is_word_at(tokens, at + 1, "EXCEPT") && is_star(tokens, at) {
            let behind = closing(tokens, at + 2).map_or(at, |close| close + 1);
            let replaces = is_word_at(tokens, behind, "REPLACE")
                && tokens.get(behind + 1).is_some_and(|next| next.token == Token::LParen);
            if replaces {
                return Err(SqlError::unsupported(REPLACE, Some(source.position(ranges[behind].clone()))));
            }
        }
        nulls_last_in_arguments(tokens, ranges, at);
        if let Some(message) = unknown(tokens, at) {
            return Err(SqlError::unsupported(message, Some(source.position(ranges[at].clone()))));
        }
        let opens_table = [Keyword::FROM, Keyword::JOIN].iter().any(|word| is_keyword(tokens, at, *word));
        if of_tables && opens_table {
            tables_in_parentheses(tokens, ranges, at + 1);
        }
        let mut next = (of_tables && opens_table).then_some(at + 1);
        while let Some(place) = next {
            let behind = table(source, tokens, ranges, place)?;
            next = behind.filter(|at| tokens.get(*at).is_some_and(|t| t.token == Token::Comma)).map(|at| at + 1);
        }
        at += 1;
    }
    Ok(())
}

/// Returns the place of `[NOT] MATERIALIZED` in front of the query of a common table expression.
fn materialized(tokens: &[TokenWithSpan], at: usize) -> Option<Range<usize>> {
    let word = at + usize::from(is_word_at(tokens, at, "NOT"));
    let opens = tokens.get(word + 1).is_some_and(|next| next.token == Token::LParen);
    (opens && is_word_at(tokens, word, "MATERIALIZED")).then_some(at..word + 1)
}

/// Writes ODBC's `{ oj a LEFT OUTER JOIN b ON .. }` in parentheses.
fn odbc_joins(tokens: &mut Vec<TokenWithSpan>, ranges: &mut Vec<Range<usize>>) {
    let is = |tokens: &[TokenWithSpan], at: usize, token: Token| tokens.get(at).is_some_and(|t| t.token == token);
    let mut at = 1;
    while at + 2 < tokens.len() {
        let is_table = is_keyword(tokens, at - 1, Keyword::FROM)
            || is_keyword(tokens, at - 1, Keyword::JOIN)
            || matches!(tokens[at - 1].token, Token::Comma | Token::LParen);
        let opens = is(tokens, at, Token::LBrace)
            && is_word_at(tokens, at + 1, "OJ")
            && matches!(tokens[at + 2].token, Token::Word(_) | Token::LParen | Token::LBrace);
        if is_table && opens {
            let mut depth = 0_i64;
            let close = (at..tokens.len()).find(|place| {
                depth += i64::from(is(tokens, *place, Token::LBrace)) - i64::from(is(tokens, *place, Token::RBrace));
                depth == 0
            });
            if let Some(close) = close {
                tokens[close].token = Token::RParen;
                tokens[at].token = Token::LParen;
                remove(tokens, ranges, at + 1..at + 2);
            }
        }
        at += 1;
    }
}

/// Levels that a type, or a list of values, may have. The search for the end of either stops there: without a limit, a
/// statement of many `ARRAY<` or `ARRAY<INT>[` would be searched to its end for each of them.
const DEEPEST: i64 = 128;

/// Writes StarRocks' arrays and maps with a type in front as casts.
fn typed_collection(tokens: &mut Vec<TokenWithSpan>, ranges: &mut Vec<Range<usize>>, at: usize) {
    let is = |place: usize, token: &Token| tokens.get(place).is_some_and(|t| t.token == *token);
    let (open, close) = if is_word_at(tokens, at, "ARRAY") {
        (Token::LBracket, Token::RBracket)
    } else if is_word_at(tokens, at, "MAP") {
        (Token::LBrace, Token::RBrace)
    } else {
        return;
    };
    if !is(at + 1, &Token::Lt) {
        return;
    }
    let mut depth = 0_i64;
    let behind = (at + 1..tokens.len()).find(|place| {
        depth += match tokens[*place].token {
            Token::Lt => 1,
            Token::Gt => -1,
            Token::ShiftRight => -2,
            _ => 0,
        };
        depth <= 0 || depth > DEEPEST
    });
    if depth > DEEPEST {
        return;
    }
    let Some(start) = behind.map(|end| end + 1).filter(|start| is(*start, &open)) else { return };
    let mut depth = 0_i64;
    let end = (start..tokens.len()).find(|place| {
        depth += i64::from(is(*place, &open)) - i64::from(is(*place, &close));
        depth == 0 || depth > DEEPEST
    });
    let Some(end) = end.filter(|_| depth == 0) else { return };
    let word = |text: &str, like: usize| TokenWithSpan { token: Token::make_keyword(text), span: tokens[like].span };
    let sign = |token: Token, like: usize| TokenWithSpan { token, span: tokens[like].span };
    let mut new = vec![word("CAST", at), sign(Token::LParen, at)];
    let mut places = vec![ranges[at].clone(), ranges[at].clone()];
    new.extend_from_slice(&tokens[start..=end]);
    places.extend_from_slice(&ranges[start..=end]);
    new.push(word("AS", at));
    places.push(ranges[at].clone());
    new.extend_from_slice(&tokens[at..start]);
    places.extend_from_slice(&ranges[at..start]);
    new.push(sign(Token::RParen, end));
    places.push(ranges[end].clone());
    tokens.splice(at..=end, new);
    ranges.splice(at..=end, places);
}

/// Makes one word of MySQL's variables whose names are in quotes. An `@` behind a name is that of an account,
/// `'user'@'host'`.
fn quoted_variable(tokens: &mut Vec<TokenWithSpan>, ranges: &mut Vec<Range<usize>>, at: usize) {
    if tokens[at].token != Token::AtSign || ranges.get(at + 1).is_none_or(|next| next.start != ranges[at].end) {
        return;
    }
    let is_name = |token: &Token| match token {
        Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) => true,
        Token::Word(word) => word.quote_style.is_some() || word.keyword == Keyword::NoKeyword,
        _ => false,
    };
    if at > 0 && (is_name(&tokens[at - 1].token) || ranges[at - 1].end == ranges[at].start) {
        return;
    }
    let name = match &tokens[at + 1].token {
        Token::SingleQuotedString(name) | Token::DoubleQuotedString(name) => name,
        Token::Word(Word { value, quote_style: Some(_), .. }) => value,
        _ => return,
    };
    let value = format!("@{name}");
    tokens[at].token = Token::Word(Word { value, quote_style: None, keyword: Keyword::NoKeyword });
    tokens[at].span.end = tokens[at + 1].span.end;
    ranges[at].end = ranges[at + 1].end;
    tokens.remove(at + 1);
    ranges.remove(at + 1);
}

/// Moves StarRocks' `IGNORE NULLS` behind the first argument, as in `lead(v IGNORE NULLS, 1)`, to the end of the
/// arguments.
fn nulls_last_in_arguments(tokens: &mut [TokenWithSpan], ranges: &mut [Range<usize>], at: usize) {
    let is_rule = is_word_at(tokens, at, "IGNORE") && is_word_at(tokens, at + 1, "NULLS");
    if !is_rule || tokens.get(at + 2).is_none_or(|next| next.token != Token::Comma) {
        return;
    }
    let mut depth = 0_i64;
    for end in at + 2..tokens.len() {
        match tokens[end].token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => {
                tokens[at..end].rotate_left(2);
                ranges[at..end].rotate_left(2);
                return;
            }
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
}

/// Returns why the words at `at`, which StarRocks knows, are refused.
fn unknown(tokens: &[TokenWithSpan], at: usize) -> Option<&'static str> {
    let word = |ahead: usize, text: &str| is_word_at(tokens, at + ahead, text);
    let any = |ahead: usize, texts: &[&str]| texts.iter().any(|text| word(ahead, text));
    let is = |ahead: usize, token: Token| tokens.get(at + ahead).is_some_and(|t| t.token == token);
    if word(0, "ASOF") && (word(1, "JOIN") || any(1, &["INNER", "LEFT"]) && any(2, &["JOIN", "OUTER"])) {
        return Some("ASOF JOIN is not supported; JOIN, and keep the last row by row_number() OVER (...)");
    }
    if word(0, "NULL") && word(1, "AWARE") && word(2, "LEFT") {
        return Some("NULL AWARE LEFT ANTI JOIN is not supported; WHERE a NOT IN (SELECT b ...)");
    }
    if word(0, "PROCEDURE") && word(1, "ANALYSE") && is(2, Token::LParen) {
        return Some("PROCEDURE ANALYSE is not supported; SHOW COLUMN STATS t has the smallest and largest values");
    }
    if word(0, "ASSERT_ROWS") && is(1, Token::LParen) {
        return Some("ASSERT_ROWS is not supported; a subquery in an expression fails if it has several rows");
    }
    let is_period = any(1, &["VERSION", "TIMESTAMP", "SYSTEM_TIME"]) && any(2, &["BETWEEN", "FROM", "ALL"]);
    if word(0, "FOR") && is_period {
        return Some("several older states of a table are not read at once; FOR VERSION AS OF reads one");
    }
    let is_operand = |token: &Token| {
        matches!(token, Token::Number(..) | Token::RParen | Token::RBracket | Token::SingleQuotedString(_))
            || matches!(token, Token::Word(word) if word.quote_style.is_some() || word.keyword == Keyword::NoKeyword)
    };
    let shifts = ["BITSHIFTLEFT", "BITSHIFTRIGHT", "BITSHIFTRIGHTLOGICAL"];
    if any(0, &shifts)
        && at > 0
        && is_operand(&tokens[at - 1].token)
        && tokens.get(at + 1).is_some_and(|next| is_operand(&next.token) && next.token != Token::RParen)
    {
        return Some(
            "operators of StarRocks that shift bits are not supported; bit_shift_left(a, b), bit_shift_right(a, b)",
        );
    }
    None
}

/// Returns the place of the parenthesis that closes the one at `at`.
fn closing(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let mut depth = 0_i64;
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (place > at).then_some(place);
        }
    }
    None
}

/// Words that stand between tables in no list of tables.
const OF_QUERIES: [Keyword; 8] = [
    Keyword::SELECT,
    Keyword::LATERAL,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::UNION,
    Keyword::EXCEPT,
    Keyword::INTERSECT,
    Keyword::MINUS,
];

/// Rewrites the commas of `(a, b JOIN c ON ..)`, whose parenthesis is at `at`, as `CROSS JOIN`. Joins behind a comma
/// are put in parentheses, because a comma binds less than JOIN.
fn tables_in_parentheses(tokens: &mut Vec<TokenWithSpan>, ranges: &mut Vec<Range<usize>>, at: usize) {
    let opens = |place: usize| tokens.get(place).is_some_and(|t| t.token == Token::LParen);
    if !opens(at) || ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|word| is_word_at(tokens, at + 1, word)) {
        return;
    }
    let Some(close) = closing(tokens, at) else { return };
    // Steps of partitions: `FROM (1, 'a') TO (9, 'b') INTERVAL 1`.
    if is_word_at(tokens, close + 1, "TO") {
        return;
    }
    let mut depth = 0_i64;
    let mut commas = Vec::new();
    let mut joins = Vec::new();
    for (place, token) in tokens.iter().enumerate().take(close).skip(at + 1) {
        match &token.token {
            Token::LParen | Token::LBracket => depth += 1,
            Token::RParen | Token::RBracket => depth -= 1,
            // A query, whose clauses have commas of their own, or LATERAL VIEW.
            Token::Word(word) if depth == 0 && word.quote_style.is_none() && OF_QUERIES.contains(&word.keyword) => {
                return;
            }
            Token::Word(word) if depth == 0 && word.quote_style.is_none() && word.keyword == Keyword::JOIN => {
                joins.push(place);
            }
            Token::Comma if depth == 0 => commas.push(place),
            _ => {}
        }
    }
    let mut end = close;
    // From the last comma on, so that the places before stay as they are.
    for comma in commas.into_iter().rev() {
        let (span, range) = (tokens[comma].span, ranges[comma].clone());
        let mut put = |place: usize, token: Token| {
            tokens.insert(place, TokenWithSpan { token, span });
            ranges.insert(place, range.clone());
        };
        if joins.iter().any(|join| (comma..end).contains(join)) {
            put(end, Token::RParen);
            put(comma + 1, Token::LParen);
        }
        put(comma, Token::make_keyword("CROSS"));
        tokens[comma + 1].token = Token::make_keyword("JOIN");
        end = comma;
    }
}

fn is_keyword(tokens: &[TokenWithSpan], at: usize, keyword: Keyword) -> bool {
    let is = |token: &TokenWithSpan| matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.keyword == keyword);
    tokens.get(at).is_some_and(is)
}

fn is_word_at(tokens: &[TokenWithSpan], at: usize, text: &str) -> bool {
    tokens.get(at).is_some_and(|t| is_word(&t.token, text))
}

/// Whether the `*` at `at` stands for all columns: no factor is before it.
fn is_star(tokens: &[TokenWithSpan], at: usize) -> bool {
    match at.checked_sub(1).map(|before| &tokens[before].token) {
        Some(Token::Comma | Token::Period) => true,
        Some(Token::Word(word)) if word.quote_style.is_none() => {
            [Keyword::SELECT, Keyword::DISTINCT, Keyword::ALL].contains(&word.keyword)
        }
        _ => false,
    }
}

fn remove(tokens: &mut Vec<TokenWithSpan>, ranges: &mut Vec<Range<usize>>, range: Range<usize>) {
    tokens.drain(range.clone());
    ranges.drain(range);
}

/// Returns the tokens of `[word ...]` at `at`.
fn hint(tokens: &[TokenWithSpan], at: usize) -> Option<Range<usize>> {
    let opens = |at: usize, token: &Token| tokens.get(at).is_some_and(|t| t.token == *token);
    if !opens(at, &Token::LBracket) || !matches!(tokens.get(at + 1)?.token, Token::Word(_)) {
        return None;
    }
    // `[shuffle[skew(a.k(1, 2))]]`
    let mut depth = 1_i64;
    let close = (at + 2..tokens.len()).find(|at| {
        depth += i64::from(opens(*at, &Token::LBracket)) - i64::from(opens(*at, &Token::RBracket));
        depth == 0
    })?;
    Some(at..close + 1)
}

/// Rewrites the words after the name of a table, which begins at `at`. Returns the end of the table and its alias;
/// `None` if there is no table.
fn table(
    source: Source<'_>,
    tokens: &mut Vec<TokenWithSpan>,
    ranges: &mut Vec<Range<usize>>,
    at: usize,
) -> Result<Option<usize>, SqlError> {
    let Some(mut end) = name_end(tokens, at) else { return Ok(None) };
    let mut is_temporary = false;
    // DELETE's own reader takes temporary partitions.
    let is_read = !tokens.first().is_some_and(|first| is_word(&first.token, "DELETE"));
    let refuse = |ranges: &[Range<usize>], at: usize, message: &str| {
        Err(SqlError::unsupported(message, Some(source.position(ranges[at].clone()))))
    };
    let word =
        |tokens: &[TokenWithSpan], at: usize, text: &str| tokens.get(at).is_some_and(|t| is_word(&t.token, text));
    let opens = |tokens: &[TokenWithSpan], at: usize| tokens.get(at).is_some_and(|t| t.token == Token::LParen);
    if word(tokens, end, "INDEX") && matches!(tokens.get(end + 1).map(|t| &t.token), Some(Token::Word(_))) {
        return refuse(ranges, end, "reading a rollup by its name (FROM t INDEX r) is not supported; leave INDEX out");
    }
    if is_read
        && word(tokens, end, "TEMPORARY")
        && (word(tokens, end + 1, "PARTITION") || word(tokens, end + 1, "PARTITIONS"))
    {
        remove(tokens, ranges, end..end + 1);
        is_temporary = true;
    }
    let names = end + 1;
    if word(tokens, end, "PARTITION") || word(tokens, end, "PARTITIONS") {
        tokens[end].token = Token::make_keyword("PARTITION");
        match tokens.get(end + 1).map(|t| &t.token) {
            Some(Token::Word(w)) if w.quote_style.is_some() || w.keyword != Keyword::BY => {
                let (span, range) = (tokens[end + 1].span, ranges[end + 1].clone());
                for (place, token) in [(end + 1, Token::LParen), (end + 3, Token::RParen)] {
                    tokens.insert(place, TokenWithSpan { token, span });
                    ranges.insert(place, range.clone());
                }
                end += 4;
            }
            Some(Token::LParen) if tokens.get(end + 3).is_some_and(|t| t.token == Token::Eq) => {
                return refuse(
                    ranges,
                    end,
                    "partitions are read by name, PARTITION (p); filter by the columns otherwise",
                );
            }
            Some(Token::LParen) => {
                let close = (end + 1..tokens.len()).find(|at| tokens[*at].token == Token::RParen);
                end = close.map_or(tokens.len(), |close| close + 1);
            }
            _ => return Ok(None),
        }
    }
    if is_temporary {
        for token in &mut tokens[names..end] {
            if let Token::Word(name) = &mut token.token {
                let value = format!("{TEMPORARY}{}", name.value);
                *name = Word { value, quote_style: Some('`'), keyword: Keyword::NoKeyword };
            }
        }
    }
    if word(tokens, end, "TABLET") && opens(tokens, end + 1) {
        return refuse(ranges, end, "reading single tablets (FROM t TABLET (..)) is not supported; filter by columns");
    }
    // An alias may come before hints and samples.
    let mut after = end;
    if word(tokens, after, "AS") {
        after += 1;
    }
    if let Some(Token::Word(w)) = tokens.get(after).map(|t| &t.token)
        && (w.quote_style.is_some() || w.keyword == Keyword::NoKeyword)
    {
        after += 1;
    }
    for place in [end, after] {
        if word(tokens, place, "TABLESAMPLE") && opens(tokens, place + 1) {
            return refuse(ranges, place, "TABLESAMPLE is not supported; ORDER BY rand() LIMIT n takes a sample");
        }
        let Some(range) = hint(tokens, place) else { continue };
        let is = |name: &str| is_word(&tokens[range.start + 1].token, name);
        if OTHER_ROWS.iter().any(|name| is(name)) {
            return refuse(ranges, place, "hints that change what is read, such as [_META_], are not supported");
        }
        if is("PREAGGOPEN") {
            remove(tokens, ranges, range);
            after = after.min(place);
        }
    }
    Ok(Some(after))
}

/// Returns the token after the name `a.b.c` that begins at `at`; `None` if there is no name, or if it is a function's.
fn name_end(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    let is_name = |at: usize| matches!(tokens.get(at).map(|t| &t.token), Some(Token::Word(_)));
    if !is_name(at) {
        return None;
    }
    let mut end = at + 1;
    while tokens.get(end).is_some_and(|t| t.token == Token::Period) && is_name(end + 1) {
        end += 2;
    }
    (tokens.get(end).is_none_or(|t| t.token != Token::LParen)).then_some(end)
}
