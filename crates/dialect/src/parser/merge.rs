//! Reading of MERGE INTO.
//!
//! The rows of the target and of the source are read by one query, composed of the statement's own tokens: an outer
//! join, whose select list has the condition and the values of each clause.

use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, Piece};
use super::write::{assigned, target};
use crate::error::SqlError;
use crate::statement::{Merge, MergeAction, MergeClause, Statement};

/// Words after the target that cannot be its alias.
const TARGET_ENDS: &[&str] = &["USING", "PARTITION", "PARTITIONS", "TEMPORARY"];

pub(super) fn merge(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let verb = c.index();
    let made = |word: &str| Piece::Made(Token::make_keyword(word), verb);
    c.expect(&["MERGE", "INTO"])?;
    let target = target(c, TARGET_ENDS)?;
    if target.temporary || !target.partitions.is_empty() {
        return Err(c.unsupported("MERGE INTO some partitions is not supported; name the rows in ON or in WHEN"));
    }
    c.expect(&["USING"])?;
    let source = c.index();
    let factor = c.parser.parse_table_factor();
    c.lift(factor)?;
    let source = source..c.index();
    c.expect(&["ON"])?;
    let on = c.index();
    c.expr()?;
    let on = on..c.index();
    let mut clauses: Vec<MergeClause> = Vec::new();
    let mut pieces = vec![made("SELECT")];
    while c.accept_word("WHEN") {
        let at = c.index() - 1;
        let matched = !c.accept_word("NOT");
        c.expect(&["MATCHED"])?;
        if c.accept_word("BY") && c.accept_any(&["TARGET"]).is_none() {
            return Err(match c.peek_words(&["SOURCE"]) {
                true => c.unsupported(
                    "WHEN NOT MATCHED BY SOURCE is not supported; DELETE or UPDATE the rows in a statement of its own",
                ),
                false => c.expected("TARGET"),
            });
        }
        if let Some(before) = clauses.iter().rfind(|clause| clause.matched == matched)
            && !before.has_condition
        {
            c.seek(at);
            return Err(c.unsupported(match matched {
                true => "only the last WHEN MATCHED may be without AND: the ones behind it would never be reached",
                false => "only the last WHEN NOT MATCHED may be without AND: the ones behind it would never be reached",
            }));
        }
        if !clauses.is_empty() {
            pieces.push(Piece::Made(Token::Comma, at));
        }
        let has_condition = c.accept_word("AND");
        match has_condition {
            true => {
                let start = c.index();
                c.expr()?;
                pieces.push(Piece::Tokens(start..c.index()));
            }
            false => pieces.push(Piece::Made(Token::make_keyword("TRUE"), at)),
        }
        c.expect(&["THEN"])?;
        let action = if matched && c.accept_word("DELETE") {
            MergeAction::Delete
        } else if matched && c.accept(&["UPDATE", "SET"]) {
            let mut columns = Vec::new();
            loop {
                columns.push(assigned(c, &target)?);
                c.expect_token(&Token::Eq)?;
                value(c, &mut pieces)?;
                if !c.accept_token(&Token::Comma) {
                    break;
                }
            }
            MergeAction::Update(columns)
        } else if !matched && c.accept_word("INSERT") {
            let columns = if *c.peek() == Token::LParen { c.ident_list()? } else { Vec::new() };
            c.expect(&["VALUES"])?;
            c.expect_token(&Token::LParen)?;
            let mut values = 0;
            loop {
                value(c, &mut pieces)?;
                values += 1;
                if !c.accept_token(&Token::Comma) {
                    break;
                }
            }
            c.expect_token(&Token::RParen)?;
            MergeAction::Insert { columns, values }
        } else {
            return Err(c.expected(if matched { "UPDATE SET or DELETE" } else { "INSERT" }));
        };
        clauses.push(MergeClause { matched, has_condition, action });
    }
    if clauses.is_empty() {
        return Err(c.expected("WHEN MATCHED or WHEN NOT MATCHED"));
    }
    c.expect_end()?;
    pieces.push(made("FROM"));
    pieces.extend(target.tokens);
    pieces.extend([made("RIGHT"), made("JOIN"), Piece::Tokens(source), made("ON"), Piece::Tokens(on)]);
    if let Some(with) = c.with.clone() {
        pieces.insert(0, Piece::Tokens(with));
    }
    let mut query = c.composed(&pieces);
    let source = query.query()?;
    query.expect_end()?;
    Ok(Statement::Merge(Merge { table: target.table, alias: target.alias, clauses, source }))
}

/// Reads a value, and adds its tokens as a select item.
fn value(c: &mut Cursor<'_>, pieces: &mut Vec<Piece>) -> Result<(), SqlError> {
    let start = c.index();
    c.expr()?;
    pieces.push(Piece::Made(Token::Comma, start));
    pieces.push(Piece::Tokens(start..c.index()));
    Ok(())
}
