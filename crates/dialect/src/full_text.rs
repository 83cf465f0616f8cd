//! Doris's operators of full-text search, which become calls.

/// `MATCH` and `MATCH_ANY`: one of the words. (No name of SQL, as the others here.)
pub const MATCH_ANY: &str = "dipper_match_any";
/// `MATCH_ALL`: each of the words.
pub const MATCH_ALL: &str = "dipper_match_all";
/// `MATCH_PHRASE`: the words one behind another.
pub const MATCH_PHRASE: &str = "dipper_match_phrase";
/// `MATCH_PHRASE_PREFIX`: the words one behind another, the last of which may go on.
pub const MATCH_PHRASE_PREFIX: &str = "dipper_match_phrase_prefix";
/// `MATCH_PHRASE_EDGE`: the words one behind another, the first of which may begin earlier and the last may go on.
pub const MATCH_PHRASE_EDGE: &str = "dipper_match_phrase_edge";
/// `MATCH_REGEXP`: a word in which a pattern is found.
pub const MATCH_REGEXP: &str = "dipper_match_regexp";

/// Operators and the functions behind them.
pub(crate) const OPERATORS: [(&str, &str); 7] = [
    ("MATCH", MATCH_ANY),
    ("MATCH_ANY", MATCH_ANY),
    ("MATCH_ALL", MATCH_ALL),
    ("MATCH_PHRASE", MATCH_PHRASE),
    ("MATCH_PHRASE_PREFIX", MATCH_PHRASE_PREFIX),
    ("MATCH_PHRASE_EDGE", MATCH_PHRASE_EDGE),
    ("MATCH_REGEXP", MATCH_REGEXP),
];
