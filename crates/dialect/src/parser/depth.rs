//! Refusal of statements that are nested so deep that their tree could not be walked.
//!
//! `select 1+1+...` with 100,000 terms is a tree 100,000 levels deep: even dropping it would overflow a stack. The
//! depth is estimated from the tokens, before any tree exists. The estimate is the number of operators since the last
//! comma, added up over the open parentheses and over those that were closed since the comma (`(1+1)+1` has the closed
//! parenthesis as its first operand). It is never less than the depth of the tree.

use sqlparser::tokenizer::{Token, Word};

use super::cursor::{Source, Tokens};
use crate::chains::ARITHMETIC_MIN;
use crate::error::{Position, SqlError};

/// The deepest tree that the parser makes, including chains of operators and UNION: 10,000 terms of AND or OR, each
/// with a BETWEEN. If the text after it does not parse, the tree is dropped on a stack of 16 MiB.
pub const DEPTH_MAX: usize = 25_000;

/// The deepest tree without those chains. Chains are [flattened](crate::chains) when they are read; everything else
/// stays as deep as it is, and planning takes time quadratic in that depth. (`sqlparser` by itself allows 50.)
pub const OPERATOR_DEPTH_MAX: usize = 400;

/// The most that a chain of arithmetic adds to the depth of operators: a longer chain becomes one call.
const CHAIN_DEPTH: usize = ARITHMETIC_MIN;

/// The levels that a call (or a cast, or a list in brackets) adds besides its parenthesis: planning derives the type of
/// each call again from its arguments' names, which takes time cubic in their depth. 100 nested calls take half a
/// second.
const CALL_DEPTH: usize = 3;

/// Words before a parenthesis that call nothing.
const NO_CALLS: &[&str] = &[
    "SELECT",
    "FROM",
    "WHERE",
    "HAVING",
    "ON",
    "USING",
    "JOIN",
    "BY",
    "AS",
    "AND",
    "OR",
    "XOR",
    "NOT",
    "IN",
    "EXISTS",
    "ANY",
    "ALL",
    "SOME",
    "UNION",
    "EXCEPT",
    "MINUS",
    "INTERSECT",
    "DISTINCT",
    "WHEN",
    "THEN",
    "ELSE",
    "CASE",
    "VALUES",
    "INTO",
    "OVER",
    "LIKE",
    "IS",
    "BETWEEN",
    "DIV",
    "MOD",
    "LIMIT",
    "SETS",
    "LATERAL",
    "SET",
];

/// The levels that a query inside a statement adds: walking it takes the stack of this many operators.
const QUERY_DEPTH: usize = 6;

/// Words that add one level to the tree and do not end at a comma.
const OPERATOR_WORDS: &[&str] =
    &["NOT", "XOR", "DIV", "MOD", "LIKE", "RLIKE", "REGEXP", "IN", "IS", "BETWEEN", "COLLATE", "INTERVAL", "BINARY"];

/// Words that chain queries: a comma does not end the chain.
const CHAIN_WORDS: &[&str] = &["EXCEPT", "INTERSECT", "MINUS", "JOIN"];

pub(super) fn too_deep(position: Option<Position>) -> SqlError {
    SqlError {
        code: 1436,
        sqlstate: "HY000",
        message: format!(
            "the statement is nested too deep: more than {OPERATOR_DEPTH_MAX} levels of operators (a call counts as {}), or \
             {DEPTH_MAX} with chains of AND, OR, UNION and arithmetic; split it, or use IN (...)",
            CALL_DEPTH + 1
        ),
        position,
    }
}

/// One open parenthesis (or CASE).
#[derive(Default)]
struct Level {
    /// The number of OR and similar operators: they chain operands, so they add up.
    logic: usize,
    /// The number of ANDs in the current operand of OR, and the most in any operand.
    ands: usize,
    ands_max: usize,
    /// The number of arithmetic operators in the current operand of AND and OR, and the most in any operand.
    chain: usize,
    chain_max: usize,
    /// The number of other operators in the current operand.
    operand: usize,
    /// The most in any operand since the last comma.
    operand_max: usize,
    /// The number of chained queries and joins, for the whole level.
    chained: usize,
    /// The number of UNIONs, for the whole level.
    unions: usize,
    /// Whether the level is a query.
    query: bool,
    /// Whether the level is the arguments of a call.
    call: bool,
    /// The depth of the deepest level that was closed since the last comma: it is an operand of what follows.
    closed: Depth,
    /// The depth of the deepest item before the last comma.
    items: Depth,
}

/// The number of levels of a tree: all of them, and those that remain when chains are flattened.
#[derive(Clone, Copy, Default)]
struct Depth {
    all: usize,
    operators: usize,
}

impl Depth {
    fn max(self, other: Depth) -> Depth {
        Depth { all: self.all.max(other.all), operators: self.operators.max(other.operators) }
    }
}

impl Level {
    /// Returns the depth of the current item, with the levels that were closed in it.
    fn item(&self) -> Depth {
        Depth { all: self.depth() + self.closed.all, operators: self.operator_depth() + self.closed.operators }
    }

    /// Returns the depth of the deepest tree of the level.
    fn deepest(&self) -> Depth {
        self.item().max(self.items)
    }

    fn depth(&self) -> usize {
        self.logic + self.ands_max + self.unions + self.chain_max + self.operator_depth()
    }

    fn operator_depth(&self) -> usize {
        let opened = if self.query { QUERY_DEPTH } else { 0 } + if self.call { CALL_DEPTH } else { 0 };
        1 + self.operand_max + self.chain_max.min(CHAIN_DEPTH) + self.chained + opened
    }

    /// Starts the next operand of AND or OR.
    fn next_operand(&mut self) {
        self.operand = 0;
        self.chain = 0;
    }
}

/// Whether a token stands between two operands of arithmetic, given the token before it; otherwise it is a sign, or `*`
/// for all columns.
fn is_arithmetic(before: Option<&Token>, token: &Token) -> bool {
    let joins = matches!(
        token,
        Token::Plus
            | Token::Minus
            | Token::Mul
            | Token::Div
            | Token::Mod
            | Token::Pipe
            | Token::Ampersand
            | Token::Caret
            | Token::ShiftLeft
            | Token::ShiftRight
    );
    joins && before.is_some_and(is_operand_end)
}

/// Whether an operand can end with a token.
pub(super) fn is_operand_end(token: &Token) -> bool {
    match token {
        Token::Word(Word { value, quote_style: None, .. }) => {
            let is = |words: &[&str]| words.iter().any(|w| value.eq_ignore_ascii_case(w));
            !is(NO_CALLS) && !is(OPERATOR_WORDS) && !is(CHAIN_WORDS)
        }
        Token::Word(_)
        | Token::Number(..)
        | Token::SingleQuotedString(_)
        | Token::DoubleQuotedString(_)
        | Token::HexStringLiteral(_)
        | Token::Placeholder(_)
        | Token::RParen
        | Token::RBracket
        | Token::RBrace => true,
        _ => false,
    }
}

/// Fails with 1436 if the statement's tree would be deeper than [`DEPTH_MAX`].
pub(super) fn check(source: Source<'_>, tokens: &Tokens) -> Result<(), SqlError> {
    let mut open = vec![Level::default()];
    // The depths of the levels below the innermost one.
    let (mut below, mut operators_below) = (0, 0);
    // Whether the token before is an arithmetic operator between two operands.
    let mut joined = false;
    for (i, token) in tokens.tokens.iter().enumerate() {
        let Some(level) = open.last_mut() else { break };
        let before = i.checked_sub(1).map(|before| &tokens.tokens[before].token);
        let (mut opens, mut closes, mut joins) = (false, false, false);
        let next_item = |level: &mut Level| {
            let items = level.deepest();
            let &mut Level { chained, unions, query, call, .. } = level;
            *level = Level { chained, unions, query, call, items, ..Level::default() };
        };
        match &token.token {
            Token::LParen | Token::LBracket | Token::LBrace => opens = true,
            Token::RParen | Token::RBracket | Token::RBrace => closes = true,
            Token::Comma => next_item(level),
            Token::Word(Word { value, quote_style: None, .. }) => {
                let is = |words: &[&str]| words.iter().any(|w| value.eq_ignore_ascii_case(w));
                if is(&["CASE"]) {
                    opens = true;
                } else if is(&["END"]) {
                    closes = true;
                } else if is(&["SELECT"]) {
                    next_item(level);
                    level.query = true;
                } else if is(&["WHEN", "THEN", "ELSE", "FROM", "WHERE"]) {
                    next_item(level);
                } else if is(&["AND"]) {
                    level.ands += 1;
                    level.next_operand();
                } else if is(&["OR"]) {
                    level.logic += 1;
                    level.ands = 0;
                    level.next_operand();
                } else if is(&["UNION"]) {
                    level.unions += 1;
                } else if joined && is(&["INTERVAL"]) {
                    // This is an operand of the chain.
                } else if is(OPERATOR_WORDS) {
                    level.operand += 1;
                } else if is(CHAIN_WORDS) {
                    level.chained += 1;
                }
            }
            Token::StringConcat => {
                level.logic += 1;
                level.next_operand();
            }
            Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::DoubleQuotedString(_)
            | Token::Word(_)
            | Token::Period
            | Token::Placeholder(_) => {}
            token if is_arithmetic(before, token) => {
                level.chain += 1;
                joins = true;
            }
            // This is the sign of an operand.
            Token::Plus | Token::Minus if joined => {}
            _ => level.operand += 1,
        }
        joined = joins;
        level.chain_max = level.chain_max.max(level.chain);
        level.operand_max = level.operand_max.max(level.operand);
        level.ands_max = level.ands_max.max(level.ands);
        let item = level.item();
        if below + item.all > DEPTH_MAX || operators_below + item.operators > OPERATOR_DEPTH_MAX {
            return Err(too_deep(Some(source.position(tokens.ranges[i].clone()))));
        }
        if opens {
            below += level.depth();
            operators_below += level.operator_depth();
            let call = match (&token.token, before) {
                (Token::LParen, Some(Token::Word(Word { value, quote_style, .. }))) => {
                    quote_style.is_some() || !NO_CALLS.iter().any(|w| value.eq_ignore_ascii_case(w))
                }
                (Token::LBracket, _) => true,
                _ => false,
            };
            open.push(Level { call, ..Level::default() });
        } else if closes && open.len() > 1 {
            let closed = open.pop().map_or(Depth::default(), |level| level.deepest());
            if let Some(level) = open.last_mut() {
                below -= level.depth();
                operators_below -= level.operator_depth();
                level.closed = level.closed.max(closed);
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::parser::{ParseOptions, parse};

    fn refused(sql: &str) -> bool {
        match parse(sql, &ParseOptions::default()) {
            Ok(_) => false,
            Err(e) => {
                assert_eq!(e.code, 1436, "{e}");
                true
            }
        }
    }

    #[test]
    fn deep_statements_are_refused_and_wide_ones_are_not() {
        let many = 100_000;
        assert!(refused(&format!("select 1{}", "+1".repeat(many))));
        assert!(refused(&format!("select 1{}", " or 1".repeat(many))));
        assert!(refused(&format!("select {}1{}", "(".repeat(many), ")".repeat(many))));
        assert!(refused(&format!("select {}1{}", "abs(".repeat(many), ")".repeat(many))));
        assert!(refused(&format!("select {}1", "not ".repeat(many))));
        assert!(refused(&format!("select {}1", "- ".repeat(many))));
        assert!(refused(&format!("select {} 1 {}", "case when 1 then ".repeat(many), "end ".repeat(many))));
        assert!(refused(&format!("select 1{}", " union all select 1".repeat(many))));
        assert!(refused(&format!("{}select 1{}", "select * from (".repeat(60), ") x".repeat(60))));
        assert!(!refused(&format!("{}select 1{}", "select * from (".repeat(50), ") x".repeat(50))));
        assert!(refused(&format!("select {}1{}", "cast(".repeat(110), " as int)".repeat(110))));
        assert!(!refused(&format!("select {}1{}", "replace(".repeat(60), ", 'a', 'b')".repeat(60))));
        assert!(refused(&format!("select {}1{}", "[".repeat(110), "]".repeat(110))));
        assert!(!refused(&format!("select {}1{}", "(".repeat(300), ")".repeat(300))));
        assert!(refused(&format!("select cast(1 as {}int{})", "array<".repeat(many), ">".repeat(many))));
        assert!(refused(&format!("select {}1", "array<int>[".repeat(many))));
        assert!(!refused(&format!("select 1 in (1{})", ",1".repeat(many))));
        assert!(!refused(&format!("select 1{}", ", 1+1".repeat(many))));
        assert!(!refused(&format!("values (1){}", ",(1+2)".repeat(many))));
        assert!(!refused(&format!("select case {} end", "when a = 1 and b = 2 then 3 ".repeat(many))));
        assert!(!refused(&format!("select a = 1{}", " or a.b = 1 + 1".repeat(10_000))));
        assert!(!refused(&format!("select a = 1{}", " or a.b = 1 and c > 1".repeat(10_000))));
        assert!(!refused(&format!("select a = 1{}", " and a.b between 1 and 2".repeat(10_000))));
        assert!(!refused(&format!("select a = 1{}", " || a.b = 1 && c > 1".repeat(10_000))));
        for chain in
            ["+1", "-a.b", "*f(2)", "/(1)", "%2", "|1", "&1", "^1", "<<1", " - 'x'", "+ -1", " + interval 1 day"]
        {
            assert!(!refused(&format!("select a{}", chain.repeat(10_000))), "{chain}");
        }
        assert!(!refused(&format!("select a = 1{}", " or a + 1 * 2 > 1".repeat(10_000))));
        let long_ones =
            |levels| format!("{}1{}", "(".repeat(levels), format!("{})", "+1".repeat(1_000)).repeat(levels));
        assert!(refused(&format!("select {}", long_ones(20))));
        assert!(!refused(&format!("select {}", long_ones(8))));
        let short_ones = |levels| format!("{}1{}", "(".repeat(levels), "+1+1+1+1+1+1+1+1+1)".repeat(levels));
        assert!(refused(&format!("select {}", short_ones(50))));
        assert!(!refused(&format!("select {}", short_ones(30))));
        assert!(refused(&format!("select f(1, {}, 2) + 1", short_ones(40))));
        assert!(!refused(&format!("select {0}, {0}, {0}", short_ones(30))));
        let conditions =
            |levels| format!("{}a{}", "(".repeat(levels), format!("{})", " or b".repeat(300)).repeat(levels));
        assert!(refused(&format!("select {}", conditions(90))));
        assert!(!refused(&format!("select {}", conditions(8))));
        assert!(!refused(&format!("select 1{}", " union all select 1".repeat(2_000))));
    }

    #[test]
    fn the_deepest_allowed_statement_parses_on_a_small_stack() {
        let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(|| {
            let deep = format!("select 1{}", "+1".repeat(2_990));
            assert!(parse(&deep, &ParseOptions::default()).is_ok());
            let deep = format!("select {}1{}", "(".repeat(390), ")".repeat(390));
            assert!(parse(&deep, &ParseOptions::default()).is_ok());
            let deep = format!("select 1{}", " or 1".repeat(2_990));
            assert!(parse(&deep, &ParseOptions::default()).is_ok());
        });
        assert!(thread.unwrap().join().is_ok());
    }
}
