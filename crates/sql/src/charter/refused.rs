//! Functions of Doris, StarRocks and MySQL that are refused by name, with what to do instead.

use dipper_dialect::tree::function_name;
use sqlparser::ast::Function;

/// The names, in order, and the reasons.
pub const FUNCTIONS: &[(&str, &str)] = &[
    ("ai_agg", NO_MODEL),
    ("ai_classify", NO_MODEL),
    ("ai_extract", NO_MODEL),
    ("ai_filter", NO_MODEL),
    ("ai_fixgrammar", NO_MODEL),
    ("ai_generate", NO_MODEL),
    ("ai_mask", NO_MODEL),
    ("ai_sentiment", NO_MODEL),
    ("ai_similarity", NO_MODEL),
    ("ai_summarize", NO_MODEL),
    ("ai_translate", NO_MODEL),
    (
        "benchmark",
        "BENCHMARK is not supported: constants are evaluated once; measure the expression over rows, as in SELECT \
         count(md5(number)) FROM numbers('number' = '1000000')",
    ),
    ("crc32_internal", "CRC32_INTERNAL is not supported: it is internal to Doris; CRC32 has the checksum of a text"),
    ("dict_get", NO_DICTIONARY),
    ("dict_get_many", NO_DICTIONARY),
    ("embed", NO_MODEL),
    ("esquery", "ESQUERY is not supported: there are no catalogs of Elasticsearch"),
    ("g", "G is not supported: it is internal to Doris"),
    ("get_query_profile", "GET_QUERY_PROFILE is not supported; SHOW PROFILE 'id' shows the profile of a statement"),
    ("gtid_subset", "sets of GTIDs are not supported: there is no binary log"),
    ("gtid_subtract", "sets of GTIDs are not supported: there is no binary log"),
    ("icu_version", "ICU_VERSION is not supported: regular expressions are RE2's, not ICU's"),
    ("load_file", "LOAD_FILE is not supported; a path in FROM reads the rows of a file, as in SELECT * FROM 'x.csv'"),
    ("master_pos_wait", NO_BINARY_LOG),
    (
        "multi_match",
        "MULTI_MATCH is not supported; combine conditions by OR, as in title MATCH_ANY 'x' OR body MATCH_ANY 'x'",
    ),
    ("score", "SCORE is not supported: MATCH and SEARCH say whether a row matches, and rank none"),
    (
        "session_number",
        "SESSION_NUMBER is not supported; count the gaps: SUM(IF(t - previous > n, 1, 0)) OVER (ORDER BY t), with previous \
         from LAG",
    ),
    ("source_pos_wait", NO_BINARY_LOG),
    ("statement_digest", NO_DIGESTS),
    ("statement_digest_text", NO_DIGESTS),
    ("wait_for_executed_gtid_set", NO_BINARY_LOG),
];

const NO_DIGESTS: &str = "digests of statements are not supported: statements are not summed up by their form";

const NO_MODEL: &str = "functions that ask a language model are not supported: dipper calls no other service";

const NO_DICTIONARY: &str = "dictionaries are not supported; join the table that the dictionary is made of";

const NO_BINARY_LOG: &str = "functions that wait for a source of rows are not supported: there is no binary log";

/// Returns why the function of a call is refused.
pub(super) fn reason(function: &Function) -> Option<&'static str> {
    let name = function_name(function)?;
    FUNCTIONS.iter().find(|(refused, _)| *refused == name).map(|(_, reason)| *reason)
}
