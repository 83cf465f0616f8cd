//! Full-text search: MATCH and similar operators over the tokens of a text, and TOKENIZE, which shows the tokens.
//!
//! The field of the text carries the properties of its column's inverted index, which define the analyzer
//! ([`ANALYZER_KEY`]). Text without an index is a single token.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, StringViewArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{Expr, ExprSchemable, lit};
use dipper_dialect::full_text::{
    MATCH_ALL, MATCH_ANY, MATCH_PHRASE, MATCH_PHRASE_EDGE, MATCH_PHRASE_PREFIX, MATCH_REGEXP,
};
use regex::{Regex, RegexBuilder};

use super::args::{Args, to_text};
use super::array::{lists, span};
use super::func::{Def, Ret, Simplify, def};
use super::json::write_quoted;
use super::regex::reason;
use super::tokens::{ANALYZER_KEY, Analyzer};

/// Functions of this file that have a name in SQL.
pub const DEFS: &[Def] = &[def("tokenize", &[], (2, 2), Ret::Text, tokenize)];

/// Functions behind operators. Their third argument, the properties of the analyzer, is added during planning.
pub const OPERATORS: &[Def] = &[
    operator(MATCH_ANY, |a| matches(a, Mode::Any), |args, info| analyzed(MATCH_ANY, args, info)),
    operator(MATCH_ALL, |a| matches(a, Mode::All), |args, info| analyzed(MATCH_ALL, args, info)),
    operator(MATCH_PHRASE, |a| matches(a, Mode::Phrase), |args, info| analyzed(MATCH_PHRASE, args, info)),
    operator(
        MATCH_PHRASE_PREFIX,
        |a| matches(a, Mode::PhrasePrefix),
        |args, info| analyzed(MATCH_PHRASE_PREFIX, args, info),
    ),
    operator(MATCH_PHRASE_EDGE, |a| matches(a, Mode::PhraseEdge), |args, info| analyzed(MATCH_PHRASE_EDGE, args, info)),
    operator(MATCH_REGEXP, |a| matches(a, Mode::Regexp), |args, info| analyzed(MATCH_REGEXP, args, info)),
];

const fn operator(name: &'static str, eval: fn(&Args) -> Result<ArrayRef>, simplify: Simplify) -> Def {
    def(name, &[], (2, 3), Ret::Bool, eval).with_simplify(simplify)
}

/// Adds the properties of the index from the field of the text: the fields of a scan that evaluates the call do not
/// have them.
fn analyzed(name: &str, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
    let known = OPERATORS.iter().find(|def| def.name == name).filter(|_| args.len() == 2);
    let Some((def, (_, field))) = known.zip(args[0].to_field(info.schema()).ok()) else {
        return Ok(ExprSimplifyResult::Original(args));
    };
    args.push(lit(field.metadata().get(ANALYZER_KEY).cloned().unwrap_or_default()));
    let call = ScalarFunction::new_udf(Arc::new(def.into_udf()), args);
    Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)))
}

/// The relation between the tokens of the text and those that are searched for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The text has one of them.
    Any,
    /// The text has all of them.
    All,
    /// The text has all of them, one directly after the other.
    Phrase,
    /// A phrase whose last token is a prefix.
    PhrasePrefix,
    /// A phrase whose first token is a suffix and whose last token is a prefix.
    PhraseEdge,
    /// A token of the text contains a match of a pattern.
    Regexp,
}

/// The search, prepared for all rows.
enum Wanted {
    /// No token is searched for, so no row matches.
    Nothing,
    Tokens(Vec<String>),
    /// A phrase whose tokens may be this far apart, in their order if `ordered`.
    Near {
        tokens: Vec<String>,
        slop: usize,
        ordered: bool,
    },
    Pattern(Regex),
}

impl Wanted {
    fn new(name: &str, mode: Mode, analyzer: &Analyzer, text: &str) -> Result<Wanted> {
        if mode == Mode::Regexp {
            return match RegexBuilder::new(text).dot_matches_new_line(true).build() {
                Ok(pattern) => Ok(Wanted::Pattern(pattern)),
                Err(e) => exec_err!("{name}: '{text}' is no regular expression: {}", reason(&e)),
            };
        }
        let near = Some(text).filter(|_| mode == Mode::Phrase && !analyzer.keeps_whole()).and_then(slop);
        let mut tokens = Vec::new();
        analyzer.tokens(near.map_or(text, |(phrase, ..)| phrase), |token| tokens.push(token.to_owned()));
        Ok(match near {
            _ if tokens.is_empty() => Wanted::Nothing,
            Some((_, slop, ordered)) => Wanted::Near { tokens, slop, ordered },
            None => Wanted::Tokens(tokens),
        })
    }

    /// Whether the tokens of a text match the search.
    fn is_met(&self, mode: Mode, tokens: &[String]) -> bool {
        let wanted = match self {
            Wanted::Nothing => return false,
            Wanted::Pattern(pattern) => return tokens.iter().any(|token| pattern.is_match(token)),
            Wanted::Near { tokens: wanted, slop, ordered } => return near(tokens, wanted, *slop, *ordered),
            Wanted::Tokens(wanted) => wanted,
        };
        let last = wanted.len() - 1;
        match mode {
            Mode::Any => wanted.iter().any(|token| tokens.contains(token)),
            Mode::All => wanted.iter().all(|token| tokens.contains(token)),
            Mode::Phrase => tokens.windows(wanted.len()).any(|window| window == wanted),
            Mode::PhrasePrefix => tokens
                .windows(wanted.len())
                .any(|window| window[..last] == wanted[..last] && window[last].starts_with(&wanted[last])),
            Mode::PhraseEdge if last == 0 => tokens.iter().any(|token| token.contains(&wanted[0])),
            Mode::PhraseEdge => tokens.windows(wanted.len()).any(|window| {
                window[0].ends_with(&wanted[0])
                    && window[1..last] == wanted[1..last]
                    && window[last].starts_with(&wanted[last])
            }),
            Mode::Regexp => false,
        }
    }
}

/// Splits `a phrase ~3`, or `a phrase ~3+` for a fixed order, into the phrase, the distance of its words, and whether
/// the order is fixed.
fn slop(text: &str) -> Option<(&str, usize, bool)> {
    let (phrase, slop) = text.trim_end().rsplit_once('~')?;
    let (slop, ordered) = match slop.strip_suffix('+') {
        Some(slop) => (slop, true),
        None => (slop, false),
    };
    let is_apart = phrase.ends_with(' ') && slop.bytes().all(|b| b.is_ascii_digit());
    Some((phrase.trim_end(), slop.parse().ok().filter(|_| is_apart)?, ordered))
}

/// Whether each wanted token occurs at a place such that moving the tokens by at most `slop` altogether makes the
/// phrase.
fn near(tokens: &[String], wanted: &[String], slop: usize, ordered: bool) -> bool {
    // The distance of each place from that of the token in a phrase that begins at 0.
    let mut places: Vec<(i64, usize)> = Vec::new();
    for (n, token) in wanted.iter().enumerate() {
        let found = tokens.iter().enumerate().filter(|(_, t)| *t == token);
        places.extend(found.map(|(at, _)| (at as i64 - n as i64, n)));
    }
    places.sort_unstable();
    if ordered {
        // Starting at each place of the first token, the next place of each other token is the nearest.
        return (0..tokens.len()).filter(|start| tokens[*start] == wanted[0]).any(|start| {
            let mut at = start;
            let all = wanted[1..].iter().all(|token| {
                let next = tokens[at + 1..].iter().position(|t| t == token);
                at += next.map_or(0, |next| next + 1);
                next.is_some()
            });
            all && at - start - (wanted.len() - 1) <= slop
        });
    }
    let mut counts = vec![0_usize; wanted.len()];
    let (mut missing, mut from) = (wanted.len(), 0);
    for to in 0..places.len() {
        missing -= usize::from(counts[places[to].1] == 0);
        counts[places[to].1] += 1;
        while missing == 0 {
            if usize::try_from(places[to].0 - places[from].0).is_ok_and(|moved| moved <= slop) {
                return true;
            }
            counts[places[from].1] -= 1;
            missing += usize::from(counts[places[from].1] == 0);
            from += 1;
        }
    }
    false
}

fn matches(a: &Args, mode: Mode) -> Result<ArrayRef> {
    if !a.has(2) {
        return internal_err!("{}: the parser of the text is not known", a.name);
    }
    let descriptions = a.text(2)?;
    let analyzer = match descriptions.at(0) {
        Some(description) if !description.is_empty() => Analyzer::of_description(description),
        _ => Ok(Analyzer::NONE),
    };
    let analyzer = match analyzer {
        Ok(analyzer) => analyzer,
        Err(reason) => return exec_err!("{}: {reason}", a.name),
    };
    let asked = a.text(1)?;
    if !asked.one && a.rows > 1 {
        return exec_err!("{}: expected a constant text to look for", a.name);
    }
    let Some(asked) = (a.rows > 0).then(|| asked.at(0)).flatten() else { return Ok(a.nulls()) };
    let wanted = Wanted::new(a.name, mode, &analyzer, asked)?;
    let mut tokens: Vec<String> = Vec::new();
    if matches!(a.data_type(0), DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)) {
        let texts = lists(a, 0)?;
        let values: StringViewArray = to_text(a.name, texts.array.values())?;
        return a.bools(|i| {
            tokens.clear();
            for k in span(&texts, i)?.filter(|k| values.is_valid(*k)) {
                analyzer.tokens(values.value(k), |token| tokens.push(token.to_owned()));
            }
            Some(wanted.is_met(mode, &tokens))
        });
    }
    let texts = a.text(0)?;
    a.bools(|i| {
        tokens.clear();
        analyzer.tokens(texts.at(i)?, |token| tokens.push(token.to_owned()));
        Some(wanted.is_met(mode, &tokens))
    })
}

/// Reads `'key' = 'value', "key" = "value"`, with or without quotes.
fn properties(text: &str) -> Option<Vec<(String, String)>> {
    fn word<'a>(text: &'a str, end: &[char]) -> Option<(&'a str, &'a str)> {
        let text = text.trim_start();
        match text.chars().next()? {
            quote @ ('\'' | '"') => text[1..].split_once(quote),
            _ => Some(text.split_at(text.find(end).unwrap_or(text.len()))),
        }
    }
    let mut all = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (key, behind) = word(rest, &['=', ',', ' '])?;
        let (value, behind) = word(behind.trim_start().strip_prefix('=')?, &[',', ' '])?;
        all.push((key.to_ascii_lowercase(), value.to_owned()));
        rest = behind.trim_start();
        rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
    }
    Some(all)
}

/// Returns the tokens of a text as a JSON array in Doris's layout.
fn tokenize(a: &Args) -> Result<ArrayRef> {
    let (texts, given) = (a.text(0)?, a.text(1)?);
    if !given.one && a.rows > 1 {
        return exec_err!("tokenize: the properties must be a constant");
    }
    let Some(given) = (a.rows > 0).then(|| given.at(0)).flatten() else { return Ok(a.nulls()) };
    let Some(given) = properties(given) else {
        return exec_err!("tokenize: expected properties such as '\"parser\" = \"english\"', found '{given}'");
    };
    let analyzer = match Analyzer::new(&given) {
        Ok(analyzer) => analyzer,
        Err(reason) => return exec_err!("tokenize: {reason}"),
    };
    a.texts(|i, out| {
        let text = texts.at(i)?;
        if text.is_empty() && !analyzer.keeps_whole() {
            return Some(());
        }
        out.push('[');
        let mut position = 0;
        analyzer.tokens(text, |token| {
            out.push_str(if position > 0 { ", {\n        \"token\": " } else { "{\n        \"token\": " });
            write_quoted(out, token);
            if analyzer.positions {
                out.push_str(&format!(",\n        \"position\": {position}"));
            }
            out.push_str("\n    }");
            position += 1;
        });
        out.push(']');
        Some(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn met(mode: Mode, text: &str, asked: &str) -> bool {
        let analyzer = Analyzer::new(&[("parser".into(), "english".into())]).unwrap();
        let mut tokens = Vec::new();
        analyzer.tokens(text, |token| tokens.push(token.to_owned()));
        Wanted::new("match", mode, &analyzer, asked).unwrap().is_met(mode, &tokens)
    }

    #[test]
    fn operators() {
        let text = "The quick brown Fox jumps over the lazy dog";
        assert!(met(Mode::Any, text, "cat FOX") && !met(Mode::Any, text, "cat") && !met(Mode::Any, text, "-"));
        assert!(met(Mode::All, text, "dog quick") && !met(Mode::All, text, "dog cat"));
        assert!(met(Mode::Phrase, text, "quick brown") && !met(Mode::Phrase, text, "brown quick"));
        assert!(met(Mode::PhrasePrefix, text, "quick bro") && met(Mode::PhrasePrefix, text, "laz"));
        assert!(!met(Mode::PhrasePrefix, text, "qui brown"));
        assert!(met(Mode::PhraseEdge, text, "ick brown fo") && met(Mode::PhraseEdge, text, "ump"));
        assert!(!met(Mode::PhraseEdge, text, "quick row fox"));
        assert!(met(Mode::Regexp, text, "^l.*y$") && !met(Mode::Regexp, text, "Fox"));
    }

    #[test]
    fn phrases_whose_words_are_apart() {
        let text = "quick brown fox";
        assert!(met(Mode::Phrase, text, "quick fox ~1") && !met(Mode::Phrase, text, "quick fox ~0"));
        assert!(met(Mode::Phrase, text, "fox quick ~3") && !met(Mode::Phrase, text, "fox quick ~2"));
        assert!(met(Mode::Phrase, text, "quick fox ~1+") && !met(Mode::Phrase, text, "fox quick ~9+"));
        assert_eq!(slop("a~3"), None);
        assert_eq!(slop("a b ~x"), None);
    }

    #[test]
    fn properties_in_any_quotes() {
        let of =
            |text: &str| properties(text).map(|all| all.into_iter().map(|(k, v)| k + ":" + &v).collect::<Vec<_>>());
        assert_eq!(of(r#""parser"="english", 'A' = 'b,c'"#), Some(vec!["parser:english".into(), "a:b,c".into()]));
        assert_eq!(of("parser=english,x=1"), Some(vec!["parser:english".into(), "x:1".into()]));
        assert_eq!(of(""), Some(vec![]));
        assert_eq!(of("parser"), None);
    }
}
