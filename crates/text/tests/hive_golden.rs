//! Every golden case of Hive text: the rows that Hive's own SerDes returned.

mod support;

use dipper_text::{Dialect, Strings};
use support::{Case, Run, bag, cases, census, definition, difference, random_cases, read_plainly, read_scanned};

fn golden() -> Vec<Case> {
    let cases = cases();
    assert_eq!(cases.len(), 506);
    assert_eq!(census(&cases)["random_lazy_nested"], 127);
    cases
}

fn random() -> Vec<Case> {
    let cases = random_cases();
    assert_eq!(cases.len(), 1383);
    cases
}

/// Runs `read` on each case and reports all differences at once.
fn check(cases: &[Case], read: impl Fn(&Case) -> Option<String>) {
    let failed: Vec<String> = cases.iter().filter_map(|case| Some(format!("{}: {}", case.name, read(case)?))).collect();
    assert!(failed.is_empty(), "{} of {} cases differ:\n{}", failed.len(), cases.len(), failed.join("\n"));
}

#[test]
fn converters_alone() {
    let mut all = golden();
    all.extend(random());
    check(&all, |case| match (definition(case), &case.expect) {
        (Ok((dialect, schema)), Some(expect)) => {
            let batch = read_plainly(&dialect, &schema, &case.data);
            difference(expect, &schema, &[batch])
        }
        (Err(_), None) => None,
        (Ok(_), None) => Some("Hive refuses this, it was accepted".to_owned()),
        (Err(error), Some(_)) => Some(format!("refused: {error}")),
    });
}

/// The scan, whatever the blocks and batches are.
#[test]
fn scan_in_order() {
    let (golden, random) = (golden(), random());
    for block_bytes in [1, 2, 3, 7, 16, 61, 256, 4096, 1 << 20] {
        for (batch_rows, strings) in [(8192, Strings::View), (1, Strings::Copy), (3, Strings::View)] {
            let run = Run { block_bytes, batch_rows, workers: 1, strings };
            // The random cases are many; what they are about is the values.
            let cases = if matches!(block_bytes, 7 | 256) && batch_rows == 3 { &random } else { &golden };
            check(cases, |case| {
                let expect = case.expect.as_ref()?;
                let (dialect, schema) = definition(case).expect("refusals are looked at elsewhere");
                match read_scanned(Dialect::Hive(dialect), &schema, &case.data, run) {
                    Ok(batches) => difference(expect, &schema, &batches).map(|what| format!("{run:?}: {what}")),
                    Err(error) => Some(format!("{run:?}: {error}")),
                }
            });
        }
    }
}

/// Two and more workers find the same rows, in some order.
#[test]
fn scan_by_several_workers() {
    let golden = golden();
    for (block_bytes, workers) in [(1, 2), (5, 2), (32, 3), (100, 2), (1 << 20, 2)] {
        let run = Run { block_bytes, batch_rows: 4, workers, strings: Strings::View };
        check(&golden, |case| {
            case.expect.as_ref()?;
            let (dialect, schema) = definition(case).expect("refusals are looked at elsewhere");
            let plain = bag(&[read_plainly(&dialect, &schema, &case.data)]);
            match read_scanned(Dialect::Hive(dialect), &schema, &case.data, run) {
                Ok(batches) if bag(&batches) == plain => None,
                Ok(batches) => Some(format!("{run:?}: {:?} instead of {plain:?}", bag(&batches))),
                Err(error) => Some(format!("{run:?}: {error}")),
            }
        });
    }
}

/// The comparison finds what is wrong: any other value, row count or type of row.
#[test]
fn comparison_is_strict() {
    let (mut compared, mut caught) = (0, 0);
    for case in cases() {
        let (Ok((dialect, schema)), Some(expect)) = (definition(&case), &case.expect) else { continue };
        let batch = read_plainly(&dialect, &schema, &case.data);
        let Some(row) = expect.iter().position(|row| row.as_array().is_some_and(|row| !row.is_empty())) else {
            continue;
        };
        let mut wrong = expect.clone();
        wrong[row][0] = match &wrong[row][0] {
            serde_json::Value::Null => serde_json::json!("x"),
            serde_json::Value::Number(n) => serde_json::json!(-1.5 - n.as_f64().unwrap_or_default() / 2.0),
            serde_json::Value::String(text) => serde_json::json!(format!("!{text}")),
            serde_json::Value::Bool(value) => serde_json::json!(!value),
            _ => serde_json::Value::Null,
        };
        compared += 1;
        let batches = [batch];
        caught += usize::from(
            difference(&wrong, &schema, &batches).is_some() && difference(&expect[..row], &schema, &batches).is_some(),
        );
    }
    assert!(compared > 480);
    assert_eq!(caught, compared);
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
