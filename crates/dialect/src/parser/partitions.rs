//! Reading of PARTITION BY, partitions and their bounds, DISTRIBUTED BY.

use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, is_word};
use crate::error::SqlError;
use crate::statement::{
    DistributionClause, PartitionClause, PartitionDef, PartitionExpr, PartitionItem, PartitionKind, PartitionValue,
    PartitionValues,
};

/// The units of steps and of `date_trunc`.
const UNITS: &[&str] = &["year", "quarter", "month", "week", "day", "hour", "minute", "second"];

/// Reads `[AUTO] PARTITION BY ...`; `None`, with a note, for StarRocks's expressions that make no partitions here.
pub(super) fn partition_by(c: &mut Cursor<'_>) -> Result<Option<PartitionClause>, SqlError> {
    let auto = c.accept_word("AUTO");
    c.expect(&["PARTITION", "BY"])?;
    if c.peek_words(&["HASH"]) || c.peek_words(&["KEY"]) || c.peek_words(&["LINEAR"]) {
        return Err(
            c.unsupported("PARTITION BY HASH and KEY are not supported; use DISTRIBUTED BY HASH(columns) BUCKETS n")
        );
    }
    let written = match c.accept_any(&["RANGE", "LIST"]) {
        Some("RANGE") => Some(PartitionKind::Range),
        Some(_) => Some(PartitionKind::List),
        None => None,
    };
    if written.is_some() {
        c.accept_word("COLUMNS");
    }
    let at = c.index();
    let by = match expressions(c) {
        Err(e) if e.code != 1064 && written.is_none() => return one_partition(c, at),
        by => by?,
    };
    let truncated = by.iter().any(|e| matches!(e, PartitionExpr::DateTrunc { .. }));
    if truncated && (by.len() > 1 || written == Some(PartitionKind::List)) {
        if written.is_none() {
            return one_partition(c, at);
        }
        c.seek(at);
        return Err(c.unsupported("date_trunc must be the only expression of PARTITION BY, and of kind RANGE"));
    }
    let kind = written.unwrap_or(if truncated { PartitionKind::Range } else { PartitionKind::List });
    let mut partitions = Vec::new();
    if c.accept_token(&Token::LParen) && !c.accept_token(&Token::RParen) {
        loop {
            partitions.push(item(c)?);
            if !c.accept_token(&Token::Comma) {
                break;
            }
        }
        if !c.accept_token(&Token::RParen) {
            return Err(c.expected("',' or ')'"));
        }
    }
    Ok(Some(PartitionClause { auto: auto || truncated || written.is_none(), kind, by, partitions }))
}

/// Skips the expressions to partition by, from token `at` on.
fn one_partition(c: &mut Cursor<'_>, at: usize) -> Result<Option<PartitionClause>, SqlError> {
    c.seek(at);
    let parenthesised = c.accept_token(&Token::LParen);
    loop {
        c.expr()?;
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    if parenthesised {
        c.expect_token(&Token::RParen)?;
    }
    let text = c.text_from(at);
    c.notes.push(format!(
        "PARTITION BY {text} has no effect, the table has one partition; there are PARTITION BY columns and PARTITION BY date_trunc('unit', column)"
    ));
    Ok(None)
}

/// Reads `(a, b)`, `a, b`, `date_trunc(a, 'day')`, `(date_trunc('day', a))`.
fn expressions(c: &mut Cursor<'_>) -> Result<Vec<PartitionExpr>, SqlError> {
    let parenthesised = c.accept_token(&Token::LParen);
    let mut out = Vec::new();
    loop {
        out.push(expression(c)?);
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    if parenthesised {
        c.expect_token(&Token::RParen)?;
    }
    Ok(out)
}

fn expression(c: &mut Cursor<'_>) -> Result<PartitionExpr, SqlError> {
    let at = c.index();
    let name = c.ident()?;
    if *c.peek() != Token::LParen {
        return Ok(PartitionExpr::Column(name));
    }
    if !name.eq_ignore_ascii_case("date_trunc") {
        // In `PARTITION BY a (PARTITION ...)` the parenthesis opens the list of partitions.
        if ["PARTITION", "START", "FROM"].iter().any(|w| is_word(c.token(c.index() + 1), w)) {
            return Ok(PartitionExpr::Column(name));
        }
        c.seek(at);
        return Err(c.unsupported("the only function to partition by is date_trunc(column, 'unit')"));
    }
    c.advance();
    let column = |c: &mut Cursor<'_>| {
        let column = c.ident()?;
        if *c.peek() == Token::LParen {
            return Err(c.unsupported("date_trunc of a function is nothing to partition by; name a column"));
        }
        Ok(column)
    };
    let (of, unit_at, written);
    if c.at_string() {
        unit_at = c.index();
        written = c.string()?;
        c.expect_token(&Token::Comma)?;
        of = column(c)?;
    } else {
        of = column(c)?;
        c.expect_token(&Token::Comma)?;
        unit_at = c.index();
        written = c.string()?;
    }
    c.expect_token(&Token::RParen)?;
    let unit = written.to_ascii_lowercase();
    if !UNITS[..6].contains(&unit.as_str()) {
        c.seek(unit_at);
        return Err(match UNITS.contains(&unit.as_str()) {
            true => c.unsupported("there are no partitions of a minute or a second; use 'hour'"),
            false => c.expected("'year', 'quarter', 'month', 'week', 'day' or 'hour'"),
        });
    }
    Ok(PartitionExpr::DateTrunc { column: of, unit })
}

/// Reads one entry of a list of partitions, also after ADD.
pub(super) fn item(c: &mut Cursor<'_>) -> Result<PartitionItem, SqlError> {
    if c.accept_word("PARTITION") {
        return partition(c).map(PartitionItem::One);
    }
    steps(c)
}

/// Reads `FROM (a) TO (b) INTERVAL n unit`, `START (a) END (b) EVERY (INTERVAL n unit)`.
pub(super) fn steps(c: &mut Cursor<'_>) -> Result<PartitionItem, SqlError> {
    let starrocks = match c.accept_any(&["FROM", "START"]) {
        Some(word) => word == "START",
        None => return Err(c.expected("PARTITION, FROM or START")),
    };
    let from = values(c)?;
    c.expect(&[if starrocks { "END" } else { "TO" }])?;
    let to = values(c)?;
    if starrocks {
        c.expect(&["EVERY"])?;
        c.expect_token(&Token::LParen)?;
        c.accept_word("INTERVAL");
    } else {
        c.expect(&["INTERVAL"])?;
    }
    let at = c.index();
    let step = match c.literal()?.text().and_then(|n| n.parse::<u64>().ok()) {
        Some(step) if step > 0 => step,
        _ => {
            c.seek(at);
            return Err(c.expected("a number above 0"));
        }
    };
    let unit = UNITS.iter().find(|u| c.accept_word(u) || c.accept_word(&format!("{u}s"))).map(ToString::to_string);
    if starrocks {
        c.expect_token(&Token::RParen)?;
    }
    Ok(PartitionItem::Steps { from, to, step, unit })
}

/// Reads `[IF NOT EXISTS] name [VALUES ...] [("k" = "v")]`, after PARTITION.
pub(super) fn partition(c: &mut Cursor<'_>) -> Result<PartitionDef, SqlError> {
    let if_not_exists = c.if_not_exists();
    let name = c.ident()?;
    let values = if c.accept_word("VALUES") { bounds(c)? } else { PartitionValues::Rest };
    let properties = if *c.peek() == Token::LParen { c.properties(false)? } else { Vec::new() };
    Ok(PartitionDef { name, if_not_exists, values, properties })
}

fn bounds(c: &mut Cursor<'_>) -> Result<PartitionValues, SqlError> {
    if c.accept(&["LESS", "THAN"]) {
        if c.accept_word("MAXVALUE") {
            return Ok(PartitionValues::LessThan(vec![PartitionValue::Max]));
        }
        return values(c).map(PartitionValues::LessThan);
    }
    if c.accept_word("IN") {
        c.expect_token(&Token::LParen)?;
        let mut list = Vec::new();
        loop {
            list.push(if *c.peek() == Token::LParen { row(c)? } else { vec![c.literal()?.text()] });
            if !c.accept_token(&Token::Comma) {
                break;
            }
        }
        c.expect_token(&Token::RParen)?;
        return Ok(PartitionValues::In(list));
    }
    if c.accept_token(&Token::LBracket) {
        let lower = values(c)?;
        c.expect_token(&Token::Comma)?;
        let upper = values(c)?;
        // The upper bound is excluded, so `]` would promise something else.
        if !c.accept_token(&Token::RParen) {
            return Err(c.expected("')': the upper bound is outside of the partition"));
        }
        return Ok(PartitionValues::Range { lower, upper });
    }
    Err(c.expected("LESS THAN, IN or '['"))
}

/// Reads `(literal | NULL, ...)`.
fn row(c: &mut Cursor<'_>) -> Result<Vec<Option<String>>, SqlError> {
    c.expect_token(&Token::LParen)?;
    let mut out = vec![c.literal()?.text()];
    while c.accept_token(&Token::Comma) {
        out.push(c.literal()?.text());
    }
    c.expect_token(&Token::RParen)?;
    Ok(out)
}

/// Reads `(literal | NULL | MAXVALUE, ...)`.
fn values(c: &mut Cursor<'_>) -> Result<Vec<PartitionValue>, SqlError> {
    c.expect_token(&Token::LParen)?;
    let mut out = Vec::new();
    loop {
        out.push(match c.accept_word("MAXVALUE") {
            true => PartitionValue::Max,
            false => PartitionValue::Value(c.literal()?.text()),
        });
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    if !c.accept_token(&Token::RParen) {
        return Err(c.expected("',' or ')'"));
    }
    Ok(out)
}

/// Reads `DISTRIBUTED BY HASH(a, b) | RANDOM [BUCKETS n | AUTO]`, if it is next.
pub(super) fn distribution(c: &mut Cursor<'_>) -> Result<Option<DistributionClause>, SqlError> {
    if !c.accept(&["DISTRIBUTED", "BY"]) {
        return Ok(None);
    }
    let hash = match c.accept_any(&["HASH", "RANDOM"]) {
        Some("HASH") => Some(c.ident_list()?),
        Some(_) => None,
        None => return Err(c.expected("HASH or RANDOM")),
    };
    let mut buckets = None;
    // StarRocks: DEFAULT BUCKETS are those of partitions that are made later, as in every ALTER TABLE here.
    if c.peek_words(&["DEFAULT", "BUCKETS"]) {
        c.advance();
    }
    if c.accept_word("BUCKETS") && !c.accept_word("AUTO") {
        let at = c.index();
        buckets = match u32::try_from(c.uint()?) {
            Ok(n) if n > 0 => Some(n),
            _ => {
                c.seek(at);
                return Err(c.expected("a number of buckets above 0, or AUTO"));
            }
        };
    }
    Ok(Some(DistributionClause { hash, buckets }))
}

/// Reads `PARTITION p`, `PARTITIONS (p, q)`, `TEMPORARY PARTITION (p)`, if it is next: whether TEMPORARY, and the names
/// (`*` for all).
pub(super) fn names(c: &mut Cursor<'_>) -> Result<Option<(bool, Vec<String>)>, SqlError> {
    let temporary = c.peek_words(&["TEMPORARY", "PARTITION"]) || c.peek_words(&["TEMPORARY", "PARTITIONS"]);
    if temporary {
        c.advance();
    }
    if c.accept_any(&["PARTITION", "PARTITIONS"]).is_none() {
        return Ok(None);
    }
    list(c).map(|names| Some((temporary, names)))
}

/// Reads `p` or `(p, q)` or `(*)`.
pub(super) fn list(c: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    if *c.peek() != Token::LParen {
        return Ok(vec![c.ident()?]);
    }
    if *c.token(c.index() + 1) == Token::Mul {
        c.advance();
        c.advance();
        c.expect_token(&Token::RParen)?;
        return Ok(vec!["*".into()]);
    }
    c.ident_list()
}
