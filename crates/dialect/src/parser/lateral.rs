//! `FROM t LATERAL VIEW explode(x) l AS e JOIN u ON ...`: Hive and Doris allow joins after a view, whereas `sqlparser`
//! knows views only at the end of FROM.
//!
//! So views that are followed by a join are rewritten as joins: `CROSS JOIN LATERAL explode(x) AS l(e)`, and with OUTER
//! `LEFT JOIN LATERAL ... ON TRUE`. Others stay as they are.

use std::ops::Range;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Words that begin a join.
const JOINS: &[Keyword] = &[
    Keyword::JOIN,
    Keyword::INNER,
    Keyword::LEFT,
    Keyword::RIGHT,
    Keyword::FULL,
    Keyword::CROSS,
    Keyword::NATURAL,
    Keyword::STRAIGHT_JOIN,
];

/// One `LATERAL VIEW [OUTER] function(...) name [AS] column, ...`, by positions of tokens.
struct View {
    all: Range<usize>,
    outer: bool,
    /// The function and its arguments.
    call: Range<usize>,
    name: usize,
    columns: Vec<usize>,
}

/// Rewrites views that are followed by a join.
pub(super) fn views_before_joins(tokens: &mut Vec<TokenWithSpan>, ranges: &mut Vec<Range<usize>>) {
    let mut at = 0;
    while at < tokens.len() {
        let mut views = Vec::new();
        let mut end = at;
        while let Some(view) = view(tokens, end) {
            end = view.all.end;
            views.push(view);
        }
        if views.is_empty() || !keyword(tokens, end).is_some_and(|word| JOINS.contains(&word)) {
            at = end.max(at + 1);
            continue;
        }
        let (mut joins, mut places) = (Vec::new(), Vec::new());
        for view in &views {
            as_join(view, tokens, ranges, &mut joins, &mut places);
        }
        let next = at + joins.len();
        tokens.splice(at..end, joins);
        ranges.splice(at..end, places);
        at = next;
    }
}

fn keyword(tokens: &[TokenWithSpan], at: usize) -> Option<Keyword> {
    match &tokens.get(at)?.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.keyword),
        _ => None,
    }
}

fn is(tokens: &[TokenWithSpan], at: usize, token: &Token) -> bool {
    tokens.get(at).is_some_and(|found| found.token == *token)
}

/// Whether a token can be a name: a word that begins nothing that can follow a view.
fn is_name(tokens: &[TokenWithSpan], at: usize) -> bool {
    const NEXT: &[Keyword] = &[
        Keyword::LATERAL,
        Keyword::WHERE,
        Keyword::GROUP,
        Keyword::HAVING,
        Keyword::ORDER,
        Keyword::LIMIT,
        Keyword::UNION,
        Keyword::ON,
    ];
    let is_word = tokens.get(at).is_some_and(|found| matches!(found.token, Token::Word(_)));
    is_word && !keyword(tokens, at).is_some_and(|word| JOINS.contains(&word) || NEXT.contains(&word))
}

fn view(tokens: &[TokenWithSpan], at: usize) -> Option<View> {
    if keyword(tokens, at) != Some(Keyword::LATERAL) || keyword(tokens, at + 1) != Some(Keyword::VIEW) {
        return None;
    }
    let outer = keyword(tokens, at + 2) == Some(Keyword::OUTER);
    let function = at + 2 + usize::from(outer);
    if !is_name(tokens, function) || !is(tokens, function + 1, &Token::LParen) {
        return None;
    }
    let mut open = 0;
    let close = (function + 1..tokens.len()).find(|at| {
        match tokens[*at].token {
            Token::LParen => open += 1,
            Token::RParen => open -= 1,
            _ => {}
        }
        open == 0
    })?;
    let name = close + 1;
    if !is_name(tokens, name) {
        return None;
    }
    let mut end = name + 1;
    let mut columns = Vec::new();
    if keyword(tokens, end) == Some(Keyword::AS) {
        end += 1;
    }
    while is_name(tokens, end) {
        columns.push(end);
        end += 1;
        if !is(tokens, end, &Token::Comma) || !is_name(tokens, end + 1) {
            break;
        }
        end += 1;
    }
    Some(View { all: at..end, outer, call: function..close + 1, name, columns })
}

fn as_join(
    view: &View,
    tokens: &[TokenWithSpan],
    ranges: &[Range<usize>],
    joins: &mut Vec<TokenWithSpan>,
    places: &mut Vec<Range<usize>>,
) {
    // Added tokens get the place at which the view begins.
    let mut push = |token: Token, at: usize| {
        joins.push(TokenWithSpan { token, span: tokens[at].span });
        places.push(ranges[at].clone());
    };
    let start = view.all.start;
    let written = |at: usize| tokens[at].token.clone();
    let (function, suffixed) = match written(view.call.start) {
        Token::Word(Word { value, quote_style, keyword }) => {
            let base = value.len().checked_sub("_outer".len()).filter(|at| value.is_char_boundary(*at));
            match base.map(|at| value.split_at(at)).filter(|(_, suffix)| suffix.eq_ignore_ascii_case("_outer")) {
                Some((base, _)) => (Token::make_word(base, quote_style), true),
                None => (Token::Word(Word { value, quote_style, keyword }), false),
            }
        }
        other => (other, false),
    };
    let outer = view.outer || suffixed;
    push(Token::make_keyword(if outer { "LEFT" } else { "CROSS" }), start);
    push(Token::make_keyword("JOIN"), start);
    push(Token::make_keyword("LATERAL"), start);
    push(function, view.call.start);
    for at in view.call.start + 1..view.call.end {
        push(written(at), at);
    }
    push(Token::make_keyword("AS"), view.name);
    push(written(view.name), view.name);
    for (n, column) in view.columns.iter().enumerate() {
        push(if n == 0 { Token::LParen } else { Token::Comma }, *column);
        push(written(*column), *column);
    }
    if let Some(last) = view.columns.last() {
        push(Token::RParen, *last);
    }
    if outer {
        push(Token::make_keyword("ON"), view.name);
        push(Token::make_keyword("TRUE"), view.name);
    }
}
