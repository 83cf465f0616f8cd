//! Every golden case of Hive text: the rows that Hive's own SerDes returned.

mod support;

use support::{Case, cases, census, definition, difference, read_plainly};

/// Runs `read` on each case that Hive accepts and reports all differences at once.
fn check(read: impl Fn(&Case) -> Option<String>) {
    let cases = cases();
    assert_eq!(cases.len(), 506);
    assert_eq!(census(&cases)["random_lazy_nested"], 127);
    let failed: Vec<String> = cases.iter().filter_map(|case| Some(format!("{}: {}", case.name, read(case)?))).collect();
    assert!(failed.is_empty(), "{} of {} cases differ:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

#[test]
fn converters_alone() {
    check(|case| match (definition(case), &case.expect) {
        (Ok((dialect, schema)), Some(expect)) => {
            let batch = read_plainly(&dialect, &schema, &case.data);
            difference(expect, &schema, &[batch])
        }
        (Err(_), None) => None,
        (Ok(_), None) => Some("Hive refuses this, it was accepted".to_owned()),
        (Err(error), Some(_)) => Some(format!("refused: {error}")),
    });
}

#[test]
fn refusals_are_clear() {
    let refused: Vec<(String, String)> = cases()
        .iter()
        .filter(|case| case.expect.is_none())
        .map(|case| (case.name.clone(), definition(case).map(|_| ()).unwrap_err()))
        .collect();
    let of = |name: &str| refused.iter().find(|(other, _)| other == name).map(|(_, error)| error.as_str());
    assert_eq!(refused.len(), 2);
    assert_eq!(
        of("nested/depth_8_needs_more_separators"),
        Some(
            "column \"a\" needs 9 separators, the table has 8: set SERDEPROPERTIES \
             'hive.serialization.extend.nesting.levels'='true' (24) or \
             'hive.serialization.extend.additional.nesting.levels'='true' (154)"
        )
    );
    assert_eq!(
        of("csv/separator_equals_quote"),
        Some(
            "property \"quoteChar\" is \"\"\": expected three different characters: separatorChar is '\"', \
             quoteChar '\"', escapeChar '\\'"
        )
    );
}
