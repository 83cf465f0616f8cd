//! Tokenization of texts for full-text search, equal to that of Doris's parsers: english, basic, unicode and standard,
//! none.
//!
//! The parsers chinese, ik and icu need dictionaries, which are not included.

use std::borrow::Cow;

use serde_json::{Map, Value};
use unicode_segmentation::UnicodeSegmentation;

/// The key under which the field of a column carries the properties of its inverted index, as a JSON object; they
/// define how texts are tokenized.
pub const ANALYZER_KEY: &str = "dipper.analyzer";

/// The longest token in bytes; the rest becomes a token of its own.
const TOKEN_BYTES_MAX: usize = 255;

/// Words that the parsers unicode and standard leave out.
const STOP_WORDS: [&str; 33] = [
    "a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of",
    "on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with",
];

/// The rule by which texts are split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Parser {
    /// The text is one token.
    None,
    /// Runs of ASCII letters and digits.
    English,
    /// Runs of ASCII letters and digits, and each Chinese character.
    Basic,
    /// Words with the boundaries of UAX #29.
    Standard,
}

/// A parser with the steps before and after it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Analyzer {
    parser: Parser,
    lower_case: bool,
    stop_words: bool,
    /// Characters that are replaced before texts are split, and their replacement.
    replaced: Option<(String, String)>,
    /// Whether TOKENIZE shows positions.
    pub positions: bool,
}

impl Analyzer {
    /// The analyzer of a column without an index.
    pub(super) const NONE: Analyzer =
        Analyzer { parser: Parser::None, lower_case: true, stop_words: true, replaced: None, positions: false };

    /// Creates the analyzer with the properties of an index; keys are in lower case.
    ///
    /// # Errors
    /// The reason why there is no analyzer with these properties.
    pub(super) fn new(properties: &[(String, String)]) -> Result<Analyzer, String> {
        let get = |key: &str| properties.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value.as_str());
        let name = ["analyzer", "built_in_analyzer", "parser"].into_iter().find_map(get).unwrap_or("none");
        let parser = match name.to_ascii_lowercase().as_str() {
            "none" => Parser::None,
            "english" => Parser::English,
            "basic" => Parser::Basic,
            "unicode" | "standard" => Parser::Standard,
            "chinese" | "icu" | "ik" => {
                return Err(format!("the parser '{name}' is not supported: it needs a dictionary"));
            }
            _ => {
                return Err(format!(
                    "the analyzer '{name}' is not supported; there are none, english, basic, unicode, standard"
                ));
            }
        };
        if let Some(name) = get("normalizer") {
            return Err(format!("the normalizer '{name}' is not supported"));
        }
        let replaced = get("char_filter_pattern").filter(|_| get("char_filter_type") == Some("char_replace"));
        Ok(Analyzer {
            parser,
            lower_case: get("lower_case").is_none_or(|value| !value.eq_ignore_ascii_case("false")),
            stop_words: get("stopwords").is_none_or(|value| !value.eq_ignore_ascii_case("none")),
            replaced: replaced.map(|from| (from.to_owned(), get("char_filter_replacement").unwrap_or(" ").to_owned())),
            positions: get("support_phrase").is_some_and(|value| value.eq_ignore_ascii_case("true")),
        })
    }

    /// Creates the analyzer from a description by [`described`].
    ///
    /// # Errors
    /// The reason why there is no analyzer with these properties.
    pub(super) fn of_description(text: &str) -> Result<Analyzer, String> {
        let object: Map<String, Value> = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let property = |(key, value): (String, Value)| (key, value.as_str().unwrap_or_default().to_owned());
        Analyzer::new(&object.into_iter().map(property).collect::<Vec<_>>())
    }

    /// Whether a text stays one token.
    pub(super) fn keeps_whole(&self) -> bool {
        self.parser == Parser::None
    }

    /// Calls `f` with the tokens of a text, in their order.
    pub(super) fn tokens(&self, text: &str, mut f: impl FnMut(&str)) {
        if self.parser == Parser::None {
            return f(text);
        }
        let text = match &self.replaced {
            Some((from, to)) => Cow::Owned(text.split(|c| from.contains(c)).collect::<Vec<_>>().join(to)),
            None => Cow::Borrowed(text),
        };
        let text = match self.lower_case {
            true => Cow::Owned(text.to_ascii_lowercase()),
            false => text,
        };
        match self.parser {
            Parser::Standard => words(&text, |word| {
                if !(self.stop_words && STOP_WORDS.contains(&word)) {
                    pieces(word, &mut f);
                }
            }),
            _ => runs(&text, self.parser == Parser::Basic, |run| pieces(run, &mut f)),
        }
    }
}

/// Returns the properties of an index in the form of [`ANALYZER_KEY`].
pub fn described<'a>(properties: impl IntoIterator<Item = (&'a String, &'a String)>) -> String {
    let property = |(key, value): (&String, &String)| (key.to_ascii_lowercase(), Value::from(value.as_str()));
    Value::Object(properties.into_iter().map(property).collect()).to_string()
}

/// Splits a token into pieces that are short enough.
fn pieces(mut token: &str, f: &mut impl FnMut(&str)) {
    while token.len() > TOKEN_BYTES_MAX {
        let end = token.floor_char_boundary(TOKEN_BYTES_MAX);
        f(&token[..end]);
        token = &token[end..];
    }
    f(token);
}

/// Splits into runs of ASCII letters and digits, and each Chinese character if `chinese`.
fn runs(text: &str, chinese: bool, mut f: impl FnMut(&str)) {
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            _ if first.is_ascii_alphanumeric() => rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (run, behind) = rest.split_at(end);
        if first.is_ascii_alphanumeric() || chinese && is_chinese(first) {
            f(run);
        }
        rest = behind;
    }
}

fn is_chinese(c: char) -> bool {
    matches!(u32::from(c), 0x4e00..=0x9fff | 0x3400..=0x4dbf | 0x20000..=0x2a6df | 0x2a700..=0x2ebef | 0x30000..=0x3134a)
}

/// Scripts without blanks between words, whose characters stay together: Thai, Lao, Burmese, Khmer.
fn is_complex(c: char) -> bool {
    matches!(u32::from(c), 0xe01..=0xe3a | 0xe40..=0xe4e | 0xe80..=0xeff | 0x1000..=0x109f | 0x1780..=0x17dd)
}

fn is_emoji(c: char) -> bool {
    matches!(u32::from(c), 0x1f000..=0x1faff | 0x2600..=0x27bf | 0x2b50 | 0x2b55)
}

/// Splits into words with the boundaries of UAX #29, each ideograph by itself.
fn words(text: &str, mut f: impl FnMut(&str)) {
    let mut complex: Option<std::ops::Range<usize>> = None;
    for (at, part) in text.split_word_bound_indices() {
        if part.chars().next().is_some_and(is_complex) {
            let start = complex.map_or(at, |run| run.start);
            complex = Some(start..at + part.len());
            continue;
        }
        if let Some(run) = complex.take() {
            f(&text[run]);
        }
        if part.contains(char::is_alphanumeric) || part.contains(is_emoji) {
            f(part);
        }
    }
    if let Some(run) = complex {
        f(&text[run]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(properties: &[(&str, &str)], text: &str) -> Vec<String> {
        let properties: Vec<_> = properties.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
        let mut all = Vec::new();
        Analyzer::new(&properties).unwrap().tokens(text, |token| all.push(token.to_owned()));
        all
    }

    #[test]
    fn parsers_cut_where_doris_does() {
        assert_eq!(tokens(&[("parser", "english")], "I'm 武汉 v1.2_b!"), ["i", "m", "v1", "2", "b"]);
        assert_eq!(
            tokens(&[("built_in_analyzer", "basic")], "GET /images/hm_bg.jpg HTTP/1.0 数据"),
            ["get", "images", "hm", "bg", "jpg", "http", "1", "0", "数", "据"]
        );
        assert_eq!(tokens(&[("parser", "unicode")], "Apache Doris数据库"), ["apache", "doris", "数", "据", "库"]);
        assert_eq!(
            tokens(&[("parser", "standard")], "This is don't hm_bg.jpg ÄB 😀"),
            ["don't", "hm_bg.jpg", "Äb", "😀"]
        );
        assert_eq!(tokens(&[("parser", "standard"), ("stopwords", "none")], "This is"), ["this", "is"]);
        assert_eq!(tokens(&[("parser", "english"), ("lower_case", "false")], "Ab cD"), ["Ab", "cD"]);
        assert_eq!(tokens(&[("parser", "unicode")], "ภาษาไทย ok"), ["ภาษาไทย", "ok"]);
        assert_eq!(tokens(&[("parser", "none")], "A b"), ["A b"]);
        let replaced = [("parser", "unicode"), ("char_filter_type", "char_replace"), ("char_filter_pattern", "._=:,")];
        assert_eq!(tokens(&replaced, "hm_bg.jpg a=b"), ["hm", "bg", "jpg", "b"]);
        assert!(Analyzer::new(&[("parser".into(), "chinese".into())]).is_err());
    }

    #[test]
    fn long_tokens_are_cut() {
        let lengths: Vec<usize> = tokens(&[("parser", "english")], &"x".repeat(600)).iter().map(String::len).collect();
        assert_eq!(lengths, [255, 255, 90]);
    }
}
