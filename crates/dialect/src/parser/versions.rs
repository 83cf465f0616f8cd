//! Older states of a table in FROM, translated into the words that `sqlparser` has for them.
//!
//! | written | read as |
//! |---|---|
//! | `t FOR VERSION AS OF x`, `t VERSION AS OF x` | `t FOR SYSTEM_TIME AS OF x`, where `x` may be any expression |
//! | `t FOR TIMESTAMP AS OF x` (`TIME`, `SYSTEM_TIME`), `t TIMESTAMP AS OF x` | `t TIMESTAMP AS OF x` |
//! | `t@branch(b)`, `t@tag(b)` | `t FOR SYSTEM_TIME AS OF branch(b)`, and `tag(b)` |

use std::ops::Range;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

use super::cursor::is_word;
use super::dialect::DipperDialect;

/// The functions that name a state: Doris's words after a table.
const STATES: [&str; 2] = ["branch", "tag"];

pub(super) fn in_words_of_the_parser(
    dialect: &DipperDialect,
    tokens: &mut Vec<TokenWithSpan>,
    ranges: &mut Vec<Range<usize>>,
) {
    let mut at = 0;
    while at < tokens.len() {
        let word = |i: usize, text: &str| tokens.get(i).is_some_and(|t| is_word(&t.token, text));
        let is_time = |i: usize| ["TIMESTAMP", "TIME", "SYSTEM_TIME"].iter().any(|w| word(i, w));
        let as_of = |i: usize| word(i, "AS") && word(i + 1, "OF");
        // The number of tokens that are replaced, and the tokens that replace them.
        let found: Option<(usize, Vec<Token>)> = if word(at, "FOR") && as_of(at + 2) && word(at + 1, "VERSION") {
            Some((2, system_time()))
        } else if word(at, "FOR") && as_of(at + 2) && is_time(at + 1) {
            Some((2, vec![Token::make_keyword("TIMESTAMP")]))
        } else if as_of(at + 1) && (word(at, "VERSION") || word(at, "TIMESTAMP")) && is_behind_table(tokens, at) {
            Some((1, if word(at, "VERSION") { system_time() } else { vec![Token::make_keyword("TIMESTAMP")] }))
        } else {
            state(tokens, at).map(|words| (1, words))
        };
        if let Some((count, words)) = found {
            dialect.allow_versions();
            let (span, range) = (tokens[at].span, ranges[at].clone());
            let behind = at + words.len();
            ranges.splice(at..at + count, words.iter().map(|_| range.clone()));
            tokens.splice(at..at + count, words.into_iter().map(|token| TokenWithSpan { token, span }));
            // The new tokens are not examined again.
            at = behind;
            continue;
        }
        at += 1;
    }
}

fn system_time() -> Vec<Token> {
    ["FOR", "SYSTEM_TIME"].map(Token::make_keyword).into()
}

/// Whether `VERSION AS OF`, whose first word is at `at`, can belong to a table: elsewhere `version AS of` is a column
/// and its alias.
fn is_behind_table(tokens: &[TokenWithSpan], at: usize) -> bool {
    let before = at.checked_sub(1).map(|before| &tokens[before].token);
    let is_name = match before {
        Some(Token::Word(Word { quote_style: Some(_), .. })) => true,
        Some(Token::Word(word)) => ![Keyword::SELECT, Keyword::DISTINCT, Keyword::ALL].contains(&word.keyword),
        _ => false,
    };
    let is_value = match tokens.get(at + 3).map(|t| &t.token) {
        Some(Token::Word(word)) => word.quote_style.is_some() || !ENDS.contains(&word.keyword),
        Some(Token::Number(..) | Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) | Token::LParen) => true,
        Some(Token::Placeholder(_)) => true,
        _ => false,
    };
    is_name && is_value
}

/// Words that can follow a select item.
const ENDS: [Keyword; 11] = [
    Keyword::FROM,
    Keyword::INTO,
    Keyword::WHERE,
    Keyword::UNION,
    Keyword::INTERSECT,
    Keyword::EXCEPT,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::ON,
];

/// Returns the tokens that replace `t@branch(` at `at`, up to the bracket.
fn state(tokens: &[TokenWithSpan], at: usize) -> Option<Vec<Token>> {
    let Token::Word(Word { value, quote_style: None, .. }) = &tokens[at].token else { return None };
    let (table, function) = value.rsplit_once('@')?;
    let function = STATES.into_iter().find(|state| state.eq_ignore_ascii_case(function))?;
    if tokens.get(at + 1).map(|t| &t.token) != Some(&Token::LParen) {
        return None;
    }
    let behind_name = at > 0 && matches!(&tokens[at - 1].token, Token::Word(_));
    let table = match table {
        "" if behind_name => None,
        "" => return None,
        table => Some(Token::make_word(table, None)),
    };
    Some(table.into_iter().chain(system_time()).chain(["AS", "OF", function].map(Token::make_keyword)).collect())
}
