//! The wildcards of a view's query, written out.
//!
//! `SELECT *` of a view stands for the columns that its tables have when the view is made. A column that is added to a
//! table later does not appear in the view, and does not move the others.

use sqlparser::ast::{Query, Select, SelectItem, SetExpr, Spanned, WildcardAdditionalOptions};

use crate::parser::{ParseOptions, parse};
use crate::statement::Statement;

/// Returns the text of a query in which the names of its columns stand for the wildcards of its first SELECT, or `None`
/// if that has no wildcard. `names` are the names of all columns of the query, each of them once.
pub fn written_out(text: &str, options: &ParseOptions, names: &[&str]) -> Option<String> {
    let parsed = parse(text, options).ok()?;
    let [Statement::Query(query)] = parsed.iter().map(|p| &p.statement).collect::<Vec<_>>()[..] else { return None };
    if !first_select(&query.ast)?.projection.iter().any(is_wildcard) {
        return None;
    }
    let columns = |names: &[&str]| {
        let quoted: Vec<_> = names.iter().map(|name| format!("`{}`", name.replace('`', "``"))).collect();
        quoted.join(", ")
    };
    if let Some((place, before, behind)) = only_wildcard(text, &query.ast)
        && let Some(end) = names.len().checked_sub(behind).filter(|end| *end > before)
    {
        return Some(format!("{}{}{}", &text[..place], columns(&names[before..end]), &text[place + 1..]));
    }
    Some(format!("SELECT {} FROM ({text}) `q`", columns(names)))
}

/// Returns the SELECT that names the columns of a query.
fn first_select(query: &Query) -> Option<&Select> {
    let mut body = query.body.as_ref();
    loop {
        body = match body {
            SetExpr::Select(select) => return Some(select),
            SetExpr::SetOperation { left, .. } => left,
            SetExpr::Query(query) => &query.body,
            _ => return None,
        };
    }
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// Returns the byte of the `*` of a query that reads one table and has one plain wildcard, and the number of items
/// before and behind it.
fn only_wildcard(text: &str, query: &Query) -> Option<(usize, usize, usize)> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let items = &select.projection;
    let before = items.iter().position(is_wildcard)?;
    let SelectItem::Wildcard(wildcard) = &items[before] else { return None };
    let plain = WildcardAdditionalOptions { wildcard_token: wildcard.wildcard_token.clone(), ..Default::default() };
    let is_only = *wildcard == plain && !items[before + 1..].iter().any(is_wildcard);
    let reads_one = matches!(&select.from[..], [table] if table.joins.is_empty()) && select.lateral_views.is_empty();
    if !is_only || !reads_one {
        return None;
    }
    let start = wildcard.span().start;
    let line = text.split_inclusive('\n').take(start.line.checked_sub(1)? as usize).map(str::len).sum::<usize>();
    let column = start.column.checked_sub(1)? as usize;
    let place = line + text.get(line..)?.char_indices().nth(column)?.0;
    // Where the parser has put other words in place of those of the text, there is no wildcard at the place.
    text[place..].starts_with('*').then_some((place, before, items.len() - before - 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_columns() {
        let out = |text: &str, names: &[&str]| written_out(text, &ParseOptions::default(), names);
        assert_eq!(out("select a from t", &["a"]), None);
        assert_eq!(out("select count(*) from (select * from t) q", &["count(*)"]), None);
        assert_eq!(out("select * from t", &["a", "b`"]).unwrap(), "select `a`, `b``` from t");
        assert_eq!(
            out("select 'é*',\n  'é' x, * , a+1 from t where b > 1", &["é*", "x", "a", "b", "a+1"]).unwrap(),
            "select 'é*',\n  'é' x, `a`, `b` , a+1 from t where b > 1"
        );
        assert_eq!(
            out("with c as (select 1 a) select distinct * from c", &["a"]).unwrap(),
            "with c as (select 1 a) select distinct `a` from c"
        );
        for text in [
            "select t.* from t",
            "select * from t join u using (a)",
            "select * from t union all select 1, 2",
            "table t",
            "(select * from t) limit 1",
        ] {
            assert_eq!(out(text, &["a", "b"]).unwrap(), format!("SELECT `a`, `b` FROM ({text}) `q`"));
        }
    }
}
