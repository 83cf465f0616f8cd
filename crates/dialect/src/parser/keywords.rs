//! The words of SQL, and those among them that are names only in quotes.

use std::sync::LazyLock;

use sqlparser::ast::{Expr, SelectItem, SetExpr};
use sqlparser::keywords::{ALL_KEYWORDS, ALL_KEYWORDS_INDEX, RESERVED_FOR_COLUMN_ALIAS};

use super::{ParseOptions, parse};
use crate::statement::Statement;

/// Each word, and whether it is reserved: the parser does not read it as the name of a column, or not as an alias.
static WORDS: LazyLock<Vec<(&'static str, bool)>> = LazyLock::new(|| {
    let words = ALL_KEYWORDS.iter().zip(ALL_KEYWORDS_INDEX);
    words.map(|(word, known)| (*word, RESERVED_FOR_COLUMN_ALIAS.contains(known) || !is_name(word))).collect()
});

/// Returns the words that the parser knows, in alphabetical order, and whether each is reserved.
pub fn keywords() -> impl Iterator<Item = (&'static str, bool)> {
    WORDS.iter().copied()
}

fn is_name(word: &str) -> bool {
    let parsed = parse(&format!("SELECT t.id, {word} FROM t"), &ParseOptions::default());
    let Some(Statement::Query(query)) = parsed.ok().and_then(|all| all.into_iter().next()).map(|p| p.statement) else {
        return false;
    };
    let SetExpr::Select(select) = query.ast.body.as_ref() else { return false };
    matches!(&select.projection[..], [_, SelectItem::UnnamedExpr(Expr::Identifier(name))] if name.value == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_reserved_where_they_are_no_names() {
        let reserved = |word: &str| keywords().find(|(known, _)| *known == word).map(|(_, reserved)| reserved);
        assert_eq!(reserved("SELECT"), Some(true));
        assert_eq!(reserved("FROM"), Some(true));
        assert_eq!(reserved("NULL"), Some(true));
        assert_eq!(reserved("COMMENT"), Some(false));
        assert_eq!(reserved("no such word"), None);
    }
}
