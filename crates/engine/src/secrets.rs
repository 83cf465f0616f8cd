//! Masks keys and passwords in the text of statements.

use std::borrow::Cow;
use std::sync::LazyLock;

use dipper_base::secret::Secret;
use regex::Regex;

/// Matches `'...secret...' = 'value'`, and the same with passwords, tokens and access keys.
static ASSIGNMENT: LazyLock<Regex> = LazyLock::new(|| {
    let name = r#"[\w.\-]*(?:secret|passw|token|access[._-]?key)[\w.\-]*['"`]?\s*=\s*"#;
    let value = r#"(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"#;
    Regex::new(&format!("(?is)({name}){value}")).expect("the pattern is one")
});

/// Whether the text may contain a name that [`ASSIGNMENT`] matches. This test goes first because compiling the regular
/// expression takes a millisecond, a tenth of the time that `dipper sql` needs to start.
fn may_match(text: &str) -> bool {
    let has = |word: &str| text.as_bytes().windows(word.len()).any(|w| w.eq_ignore_ascii_case(word.as_bytes()));
    ["secret", "passw", "token", "access"].into_iter().any(has)
}

/// Returns the text of a statement as others may see it: in the process list, the log and SHOW CREATE TABLE.
pub(crate) fn mask(text: &str) -> Cow<'_, str> {
    if !may_match(text) {
        return Cow::Borrowed(text);
    }
    ASSIGNMENT.replace_all(text, format!("${{1}}'{}'", Secret::MASK))
}

/// Whether the value of a property is a secret, judged by the name of the property.
pub(crate) fn is_secret(property: &str) -> bool {
    may_match(property) && ASSIGNMENT.is_match(&format!("{property}=''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secrets_are_masked() {
        for (text, masked) in [
            (
                r#"PROPERTIES ("aws.s3.access_key"="AK", 'aws.s3.secret_key' = 'it''s \' s', "aws.s3.region" = "r")"#,
                r#"PROPERTIES ("aws.s3.access_key"='******', 'aws.s3.secret_key' = '******', "aws.s3.region" = "r")"#,
            ),
            ("s3('uri' = 's3://b/x', 'AWS_TOKEN' = \"a\\\"b\")", "s3('uri' = 's3://b/x', 'AWS_TOKEN' = '******')"),
            ("SET PROPERTIES ('s3.access-key-id' = 'AK')", "SET PROPERTIES ('s3.access-key-id' = '******')"),
            ("SELECT secret FROM t WHERE tokens = 5", "SELECT secret FROM t WHERE tokens = 5"),
        ] {
            assert_eq!(mask(text), masked);
        }
        assert!(is_secret("fs.s3a.secret.key") && is_secret("AWS_SECRET_ACCESS_KEY") && !is_secret("s3.endpoint"));
    }
}
