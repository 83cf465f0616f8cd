//! Doris's operators of full-text search, which become calls of functions that have no name in SQL.

/// `MATCH` and `MATCH_ANY`: the text contains one of the words.
pub const MATCH_ANY: &str = "dipper_match_any";
/// `MATCH_ALL`: the text contains all of the words.
pub const MATCH_ALL: &str = "dipper_match_all";
/// `MATCH_PHRASE`: the text contains the words one directly after the other.
pub const MATCH_PHRASE: &str = "dipper_match_phrase";
/// `MATCH_PHRASE_PREFIX`: like a phrase, but the last word is a prefix.
pub const MATCH_PHRASE_PREFIX: &str = "dipper_match_phrase_prefix";
/// `MATCH_PHRASE_EDGE`: like a phrase, but the first word is a suffix and the last word is a prefix.
pub const MATCH_PHRASE_EDGE: &str = "dipper_match_phrase_edge";
/// `MATCH_REGEXP`: the text contains a word in which a pattern is found.
pub const MATCH_REGEXP: &str = "dipper_match_regexp";

/// The operators, and the functions behind them.
pub(crate) const OPERATORS: [(&str, &str); 7] = [
    ("MATCH", MATCH_ANY),
    ("MATCH_ANY", MATCH_ANY),
    ("MATCH_ALL", MATCH_ALL),
    ("MATCH_PHRASE", MATCH_PHRASE),
    ("MATCH_PHRASE_PREFIX", MATCH_PHRASE_PREFIX),
    ("MATCH_PHRASE_EDGE", MATCH_PHRASE_EDGE),
    ("MATCH_REGEXP", MATCH_REGEXP),
];
