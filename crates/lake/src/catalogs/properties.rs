//! Properties of external catalogs: which of them are known, and which are secret.

use std::collections::BTreeMap;
use std::time::Duration;

use dipper_node::error::{EngineError, Result};
use dipper_node::files::stores::is_store_property;

/// Shown in place of a secret.
const MASK: &str = "******";

/// Returns whether the value of a property must not be shown.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["secret", "password", "token", "access_key", "access-key", "accesskey", "credential", "keytab"]
        .iter()
        .any(|word| key.contains(word))
}

/// Known properties of catalogs, besides those of stores.
pub const KNOWN: [&str; 10] = [
    "type",
    "warehouse",
    "iceberg.catalog.type",
    "iceberg.catalog.warehouse",
    "hive.metastore.uris",
    "hive.metastore.type",
    "hive.metastore.sasl.enabled",
    "hive.metastore.authentication.type",
    "hive.metastore.client.socket.timeout",
    "partition.cache.ttl-second",
];

/// Returns whether a property has any effect.
pub fn is_known(key: &str) -> bool {
    KNOWN.contains(&key) || is_store_property(key)
}

/// Returns the properties with secrets masked.
pub fn masked(properties: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    properties.iter().map(|(k, v)| (k.as_str(), if is_secret(k) { MASK } else { v.as_str() }))
}

/// Returns the value of the first of `keys` that is present; `None` if that value is empty.
pub fn first<'a>(properties: &'a BTreeMap<String, String>, keys: &[&str]) -> Option<&'a str> {
    keys.iter().find_map(|key| properties.get(*key)).map(String::as_str).filter(|v| !v.is_empty())
}

/// Returns a duration: a number of seconds, or Hive's form with a unit (`600s`, `10min`, `500ms`). `default` if the
/// property is not set.
///
/// # Errors
/// `Invalid` if the value is not a duration.
pub fn duration(properties: &BTreeMap<String, String>, key: &str, default: Duration) -> Result<Duration> {
    let Some(text) = properties.get(key) else { return Ok(default) };
    let digits = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let bad = || EngineError::invalid(format!("'{key}' = '{text}': expected a number of seconds"));
    let number: u64 = digits.trim().parse().map_err(|_| bad())?;
    let unit = &text.trim()[digits.len()..];
    Ok(match unit {
        "ms" | "msec" => Duration::from_millis(number),
        "" | "s" | "sec" => Duration::from_secs(number),
        "m" | "min" => Duration::from_secs(number.saturating_mul(60)),
        _ => return Err(bad()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_misspelt_is_not_known() {
        for known in
            ["type", "s3.endpoint", "aws.s3.access_key", "fs.defaultFS", "dfs.nameservices", "fs.s3a.access.key"]
        {
            assert!(is_known(known), "{known}");
        }
        for unknown in ["aws.s3.enpoint", "fs.s3a.acess.key", "hive.metastore.uri", "nonsense"] {
            assert!(!is_known(unknown), "{unknown}");
        }
    }

    #[test]
    fn secrets_are_masked_and_times_read() {
        let properties: BTreeMap<String, String> =
            [("s3.secret_key", "x"), ("s3.endpoint", "http://e"), ("t", "600s"), ("u", "5 parsecs")]
                .map(|(k, v)| (k.to_string(), v.to_string()))
                .into();
        let shown: BTreeMap<_, _> = masked(&properties).collect();
        assert_eq!((shown["s3.secret_key"], shown["s3.endpoint"]), (MASK, "http://e"));
        assert_eq!(duration(&properties, "t", Duration::ZERO).unwrap(), Duration::from_secs(600));
        assert_eq!(duration(&properties, "none", Duration::from_secs(7)).unwrap(), Duration::from_secs(7));
        assert!(duration(&properties, "u", Duration::ZERO).unwrap_err().message.contains("5 parsecs"));
    }
}
