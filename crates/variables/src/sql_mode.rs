//! The flags of `sql_mode`.

/// The flags in the order of their bits in MySQL 5.7, which is also the order in which they are shown.
const FLAGS: &[&str] = &[
    "REAL_AS_FLOAT",
    "PIPES_AS_CONCAT",
    "ANSI_QUOTES",
    "IGNORE_SPACE",
    "NOT_USED",
    "ONLY_FULL_GROUP_BY",
    "NO_UNSIGNED_SUBTRACTION",
    "NO_DIR_IN_CREATE",
    "POSTGRESQL",
    "ORACLE",
    "MSSQL",
    "DB2",
    "MAXDB",
    "NO_KEY_OPTIONS",
    "NO_TABLE_OPTIONS",
    "NO_FIELD_OPTIONS",
    "MYSQL323",
    "MYSQL40",
    "ANSI",
    "NO_AUTO_VALUE_ON_ZERO",
    "NO_BACKSLASH_ESCAPES",
    "STRICT_TRANS_TABLES",
    "STRICT_ALL_TABLES",
    "NO_ZERO_IN_DATE",
    "NO_ZERO_DATE",
    "ALLOW_INVALID_DATES",
    "ERROR_FOR_DIVISION_BY_ZERO",
    "TRADITIONAL",
    "NO_AUTO_CREATE_USER",
    "HIGH_NOT_PRECEDENCE",
    "NO_ENGINE_SUBSTITUTION",
    "PAD_CHAR_TO_FULL_LENGTH",
    "TIME_TRUNCATE_FRACTIONAL",
];

/// Modes that include other flags.
const COMBINED: &[(&str, &[&str])] = &[
    ("ANSI", &["REAL_AS_FLOAT", "PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE", "ONLY_FULL_GROUP_BY"]),
    (
        "TRADITIONAL",
        &[
            "STRICT_TRANS_TABLES",
            "STRICT_ALL_TABLES",
            "NO_ZERO_IN_DATE",
            "NO_ZERO_DATE",
            "ERROR_FOR_DIVISION_BY_ZERO",
            "NO_ENGINE_SUBSTITUTION",
        ],
    ),
    ("ORACLE", VENDOR),
    ("POSTGRESQL", VENDOR),
    ("MSSQL", VENDOR),
    ("DB2", VENDOR),
    ("MAXDB", VENDOR),
];

const VENDOR: &[&str] =
    &["PIPES_AS_CONCAT", "ANSI_QUOTES", "IGNORE_SPACE", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS", "NO_FIELD_OPTIONS"];

/// Returns a value in the form in which it is stored and shown: flags in MySQL's order, combined modes together with
/// the flags that they include. A number is read as MySQL's bits.
///
/// # Errors
/// The first word that is not a flag.
pub fn canonical(value: &str) -> Result<String, String> {
    let mut wanted = vec![false; FLAGS.len()];
    if let Ok(bits) = value.trim().parse::<u64>() {
        if bits >> FLAGS.len() != 0 {
            return Err(value.trim().to_string());
        }
        for (i, on) in wanted.iter_mut().enumerate() {
            *on = bits >> i & 1 == 1;
        }
    } else {
        for word in value.split(',').map(str::trim).filter(|w| !w.is_empty()) {
            let at = FLAGS.iter().position(|f| f.eq_ignore_ascii_case(word)).ok_or_else(|| word.to_string())?;
            wanted[at] = true;
        }
    }
    for (combined, parts) in COMBINED {
        if FLAGS.iter().zip(&wanted).any(|(f, on)| *on && f == combined) {
            for (flag, on) in FLAGS.iter().zip(&mut wanted) {
                *on |= parts.contains(flag);
            }
        }
    }
    let on: Vec<&str> = FLAGS.iter().zip(&wanted).filter(|(_, on)| **on).map(|(f, _)| *f).collect();
    Ok(on.join(","))
}

/// Lists all flags, for error messages.
pub fn flags() -> String {
    FLAGS.join(", ")
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn flags_are_sorted_folded_and_checked() {
        assert_eq!(canonical("").unwrap(), "");
        assert_eq!(canonical("strict_trans_tables, ANSI_QUOTES").unwrap(), "ANSI_QUOTES,STRICT_TRANS_TABLES");
        assert_eq!(canonical("4").unwrap(), "ANSI_QUOTES");
        assert_eq!(canonical("0").unwrap(), "");
        assert_eq!(
            canonical("ansi").unwrap(),
            "REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ONLY_FULL_GROUP_BY,ANSI"
        );
        assert_eq!(canonical("ANSI_QUOTES,NOPE").unwrap_err(), "NOPE");
        assert!(canonical("99999999999999").is_err());
    }
}
