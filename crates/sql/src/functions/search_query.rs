//! SEARCH: a condition in the query language of Doris's full-text search, `search('title:rust AND tags:ANY(db sql)')`.
//!
//! | in the query | condition |
//! |---|---|
//! | `field:word` | the field has the word (`MATCH_ANY`) |
//! | `field:"two words"` | the words one directly after the other (`MATCH_PHRASE`) |
//! | `field:ANY(a b)`, `field:ALL(a b)` | one of the words, all words |
//! | `field:wo*d`, `field:w?rd` | a word of this form; `*` stands for any characters, `?` for one |
//! | `field:/pattern/` | a word that matches the regular expression as a whole |
//! | `field:EXACT(text)` | the field is equal to the text |
//! | `AND`, `OR`, `NOT`, parentheses | as in SQL; without a word between them, conditions are joined by OR |
//!
//! A call whose query is a constant is replaced by the condition before planning. The second argument names the field
//! of words without one, the third one is `and` or `or` for conditions without a word between them. Both may be in a
//! JSON document as the second argument.

use datafusion::common::{Result, exec_err};
use dipper_dialect::full_text::{MATCH_ALL, MATCH_ANY, MATCH_PHRASE, MATCH_REGEXP};
use dipper_dialect::tree::call;
use sqlparser::ast::{BinaryOperator, Expr, Ident, UnaryOperator, Value};

use super::args::Args;
use super::func::{Def, Ret, def};
use super::rewrite::text;

/// Deepest nesting of a query.
const DEPTH_MAX: usize = 64;

/// Longest query in conditions, which become one tree.
const CONDITIONS_MAX: usize = 100;

/// Functions of this file: the call that was not replaced, which says why.
pub const DEFS: &[Def] = &[def("search", &[], (1, 3), Ret::Bool, |a: &Args| {
    let constant = |k: usize| -> Result<Option<String>> {
        if !a.has(k) {
            return Ok(None);
        }
        let text = a.text(k)?;
        Ok(if text.one { text.at(0).map(str::to_owned) } else { None })
    };
    let Some(query) = constant(0)? else {
        return exec_err!("{}: expected a constant query such as 'title:word'", a.name);
    };
    match condition(&query, constant(1)?.as_deref(), constant(2)?.as_deref()) {
        Err(reason) => exec_err!("{}: '{query}': {reason}", a.name),
        Ok(_) => exec_err!("{}: the query must be written as a constant", a.name),
    }
})];

/// How conditions and words without a word between them are joined, and the field of words without one.
#[derive(Clone)]
struct Defaults {
    field: Option<String>,
    all: bool,
}

/// Returns the condition that a query stands for.
///
/// # Errors
/// A sentence that says what was expected.
pub(super) fn condition(query: &str, field: Option<&str>, operator: Option<&str>) -> Result<Expr, String> {
    let mut defaults = Defaults { field: field.filter(|f| !f.trim().is_empty()).map(str::to_owned), all: false };
    let mut operator = operator.unwrap_or_default().to_string();
    if let Some(options) = field.filter(|field| field.trim_start().starts_with('{')) {
        let Ok(serde_json::Value::Object(options)) = serde_json::from_str(options) else {
            return Err("the second argument is neither the name of a field nor a JSON object".into());
        };
        defaults.field = None;
        for (key, value) in &options {
            match (key.as_str(), value.as_str()) {
                ("default_field", Some(field)) => defaults.field = Some(field.to_string()),
                ("default_operator", Some(given)) => operator = given.to_string(),
                ("mode", Some("standard")) => {}
                ("mode", _) => return Err("only the mode standard is supported".into()),
                (other, _) => return Err(format!("there is no option {other}")),
            }
        }
    }
    defaults.all = match operator.to_ascii_lowercase().as_str() {
        "" | "or" => false,
        "and" => true,
        other => return Err(format!("expected 'and' or 'or' as the operator, found '{other}'")),
    };
    let mut parser = Parser { rest: query, depth: 0, conditions: 0 };
    let expr = parser.any(&defaults)?;
    match parser.peek() {
        None => Ok(Expr::Nested(Box::new(expr))),
        Some(_) => Err(parser.expected("the end")),
    }
}

struct Parser<'a> {
    rest: &'a str,
    depth: usize,
    conditions: usize,
}

/// Whether a character ends a word, unless a backslash is before it.
fn ends_word(c: char) -> bool {
    c.is_whitespace() || matches!(c, '(' | ')' | ':' | '"')
}

fn joined(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }))
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn expected(&self, what: &str) -> String {
        let found: String = self.rest.chars().take(16).collect();
        match found.is_empty() {
            true => format!("expected {what} at its end"),
            false => format!("expected {what} before '{found}'"),
        }
    }

    fn accept(&mut self, character: char) -> bool {
        let found = self.peek() == Some(character);
        self.rest = if found { &self.rest[character.len_utf8()..] } else { self.rest };
        found
    }

    /// Takes AND, OR or NOT if it comes next as a word of its own.
    fn keyword(&mut self, upper: &str, lower: &str) -> bool {
        self.peek();
        let behind = self.rest.strip_prefix(upper).or_else(|| self.rest.strip_prefix(lower));
        match behind.filter(|rest| rest.chars().next().is_none_or(|c| c.is_whitespace() || c == '(')) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    /// Conditions that OR joins, or nothing between them unless that means AND.
    fn any(&mut self, defaults: &Defaults) -> Result<Expr, String> {
        let mut left = self.all(defaults)?;
        loop {
            let joins = self.keyword("OR", "or") || !defaults.all && self.begins_condition();
            if !joins {
                return Ok(left);
            }
            left = joined(left, BinaryOperator::Or, self.all(defaults)?);
        }
    }

    fn all(&mut self, defaults: &Defaults) -> Result<Expr, String> {
        let mut left = self.one(defaults)?;
        loop {
            let joins = self.keyword("AND", "and") || defaults.all && self.begins_condition();
            if !joins {
                return Ok(left);
            }
            left = joined(left, BinaryOperator::And, self.one(defaults)?);
        }
    }

    fn begins_condition(&mut self) -> bool {
        let is_word = self.peek().is_some_and(|c| c != ')');
        is_word && !["AND", "and", "OR", "or"].iter().any(|word| self.clone_at().keyword(word, word))
    }

    fn clone_at(&self) -> Parser<'a> {
        Parser { rest: self.rest, depth: self.depth, conditions: 0 }
    }

    fn one(&mut self, defaults: &Defaults) -> Result<Expr, String> {
        self.conditions += 1;
        if self.conditions > CONDITIONS_MAX {
            return Err(format!("it has more than {CONDITIONS_MAX} conditions"));
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("it is more than {DEPTH_MAX} conditions deep"));
        }
        let expr = if self.keyword("NOT", "not") {
            Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(self.one(defaults)?) }
        } else if self.accept('(') {
            let inner = self.any(defaults)?;
            self.close()?;
            inner
        } else {
            self.of_field(defaults)?
        };
        self.depth -= 1;
        Ok(expr)
    }

    fn close(&mut self) -> Result<(), String> {
        match self.accept(')') {
            true => Ok(()),
            false => Err(self.expected("')'")),
        }
    }

    /// Reads a word; returns its characters, and as a pattern if it has wildcards.
    fn word(&mut self) -> Result<(String, Option<String>), String> {
        self.peek();
        let (mut word, mut pattern, mut wild) = (String::new(), String::from("^"), false);
        let mut characters = self.rest.char_indices();
        let mut end = self.rest.len();
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => {
                    let Some((_, escaped)) = characters.next() else { return Err("a backslash is at its end".into()) };
                    word.push(escaped);
                    pattern.push_str(&regex::escape(&escaped.to_string()));
                }
                c if ends_word(c) => {
                    end = at;
                    break;
                }
                '*' | '?' => {
                    wild = true;
                    word.push(c);
                    pattern.push_str(if c == '*' { ".*" } else { "." });
                }
                c => {
                    word.push(c);
                    pattern.push_str(&regex::escape(&c.to_string()));
                }
            }
        }
        if end == 0 {
            return Err(self.expected("a word"));
        }
        self.rest = &self.rest[end..];
        pattern.push('$');
        Ok((word, wild.then_some(pattern)))
    }

    /// Reads a condition about one field.
    fn of_field(&mut self, defaults: &Defaults) -> Result<Expr, String> {
        let start = self.rest;
        let named = match self.peek() {
            Some('"' | '/') => None,
            _ => Some(self.word()?.0).filter(|_| self.accept(':')),
        };
        let field = match (named, &defaults.field) {
            (Some(field), _) => field,
            (None, Some(field)) => {
                self.rest = start;
                field.clone()
            }
            (None, None) => {
                self.rest = start;
                return Err(self.expected("field:"));
            }
        };
        let parts: Vec<Ident> = field.split('.').map(|part| Ident::with_quote('`', part)).collect();
        let column = match parts.len() {
            1 => Expr::Identifier(Ident::with_quote('`', field.as_str())),
            _ => Expr::CompoundIdentifier(parts),
        };
        match self.peek() {
            Some('"') => {
                let phrase = self.until('"')?;
                Ok(call(MATCH_PHRASE, vec![column, text(&phrase)]))
            }
            Some('/') => {
                let pattern = self.until('/')?;
                Ok(call(MATCH_REGEXP, vec![column, text(&format!("^(?:{pattern})$"))]))
            }
            Some('(') => {
                self.accept('(');
                let inner = self.any(&Defaults { field: Some(field), all: defaults.all })?;
                self.close()?;
                Ok(inner)
            }
            Some('[' | '{') => {
                Err(format!("ranges of a field are not supported; write {field} BETWEEN a AND b in SQL"))
            }
            _ => {
                let (word, pattern) = self.word()?;
                match word.to_ascii_uppercase().as_str() {
                    function @ ("ANY" | "ALL" | "EXACT" | "IN") if self.rest.starts_with('(') => {
                        self.rest = &self.rest[1..];
                        let Some((inside, rest)) = self.rest.split_once(')') else {
                            return Err(self.expected("')'"));
                        };
                        self.rest = rest;
                        let inside = inside.trim();
                        Ok(match function {
                            "ANY" => call(MATCH_ANY, vec![column, text(inside)]),
                            "ALL" => call(MATCH_ALL, vec![column, text(inside)]),
                            "EXACT" => Expr::Nested(Box::new(Expr::BinaryOp {
                                left: Box::new(column),
                                op: BinaryOperator::Eq,
                                right: Box::new(text(inside)),
                            })),
                            _ => Expr::Nested(Box::new(Expr::InList {
                                expr: Box::new(column),
                                list: match inside.is_empty() {
                                    true => vec![Expr::Value(Value::Null.into())],
                                    false => inside.split_whitespace().map(text).collect(),
                                },
                                negated: false,
                            })),
                        })
                    }
                    _ => Ok(match pattern {
                        Some(pattern) => call(MATCH_REGEXP, vec![column, text(&pattern)]),
                        None => call(MATCH_ANY, vec![column, text(&word)]),
                    }),
                }
            }
        }
    }

    /// Reads what stands between two of these characters; a backslash takes the second one's meaning away.
    fn until(&mut self, quote: char) -> Result<String, String> {
        let mut inside = String::new();
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, c)) = characters.next() {
            match c {
                '\\' => match characters.next() {
                    Some((_, escaped)) if escaped == quote => inside.push(escaped),
                    Some((_, other)) => inside.extend(['\\', other]),
                    None => break,
                },
                c if c == quote => {
                    self.rest = &self.rest[at + quote.len_utf8()..];
                    return Ok(inside);
                }
                c => inside.push(c),
            }
        }
        Err(format!("a {quote} has no counterpart"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_become_conditions() {
        let any = |field: &str, word: &str| format!("{MATCH_ANY}({field}, '{word}')");
        let (a, b, c) = (any("`a`", "x"), any("`b`", "y"), any("`c`", "z"));
        for (query, expected) in [
            ("a:x", a.clone()),
            ("a:x AND b:y OR c:z", format!("(({a} AND {b}) OR {c})")),
            ("a:x and (b:y or c:z)", format!("({a} AND ({b} OR {c}))")),
            ("a:x b:y", format!("({a} OR {b})")),
            ("NOT a:x AND b:y", format!("(NOT {a} AND {b})")),
            ("a:(x y)", format!("({a} OR {})", any("`a`", "y"))),
            ("v.p.q:x", any("`v`.`p`.`q`", "x")),
            ("a:\"two words\"", format!("{MATCH_PHRASE}(`a`, 'two words')")),
            ("a:ALL(x y)", format!("{MATCH_ALL}(`a`, 'x y')")),
            ("a:w*d?", format!("{MATCH_REGEXP}(`a`, '^w.*d.$')")),
            ("a:/x.+y/", format!("{MATCH_REGEXP}(`a`, '^(?:x.+y)$')")),
            ("a:EXACT(X y)", "(`a` = 'X y')".to_string()),
            ("a:IN(x y)", "(`a` IN ('x', 'y'))".to_string()),
            (r"a:x\:y\ z", any("`a`", "x:y z")),
        ] {
            assert_eq!(condition(query, None, None).unwrap().to_string(), format!("({expected})"), "{query}");
        }
        let all = condition("x y", Some("a"), Some("AND")).unwrap().to_string();
        assert_eq!(all, format!("(({a} AND {}))", any("`a`", "y")));
        let options = r#"{"default_field": "a", "default_operator": "or", "mode": "standard"}"#;
        assert_eq!(condition("x", Some(options), None).unwrap().to_string(), format!("({a})"));
    }

    #[test]
    fn what_is_no_query_is_told() {
        for (query, reason) in [
            ("x", "field:"),
            ("a:", "a word"),
            ("a:x AND", "a word"),
            ("(a:x", "')'"),
            ("a:x)", "the end"),
            ("a:\"x", "no counterpart"),
            ("a:[1 TO 2]", "ranges"),
            ("", "a word"),
        ] {
            let found = condition(query, None, None).unwrap_err();
            assert!(found.contains(reason), "{query}: {found}");
        }
        assert!(condition(&"(".repeat(1000), None, None).unwrap_err().contains("deep"));
        assert!(condition(&"a:x ".repeat(2000), None, None).unwrap_err().contains("conditions"));
        assert!(condition("x", Some("a"), Some("xor")).is_err());
        assert!(condition("x", Some(r#"{"mode": "lucene"}"#), None).is_err());
    }
}
