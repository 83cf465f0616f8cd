//! Agreement with DuckDB's sniffer over small nasty files; see data/sniff/make.py.

use std::path::Path;
use std::sync::Arc;

use arrow_schema::{DataType, TimeUnit};
use dipper_text::{
    Compression, Dialect, FileInput, Guess, Header, Hints, MemorySource, Ragged, Scan, ScanOptions, ScanQueue, infer,
    infer_sample,
};
use serde_json::{Map, Value, json};

fn type_name(kind: &DataType) -> &'static str {
    match kind {
        DataType::Boolean => "BOOLEAN",
        DataType::Int64 => "BIGINT",
        DataType::Decimal256(39, 0) => "LARGEINT",
        DataType::Float64 => "DOUBLE",
        DataType::Date32 => "DATE",
        DataType::Timestamp(TimeUnit::Microsecond, None) => "DATETIME",
        DataType::Utf8View => "STRING",
        other => panic!("no guess is a {other}"),
    }
}

/// DuckDB's names for types, and the types that MySQL's world lacks.
fn translated(kind: &str) -> &str {
    match kind {
        "HUGEINT" => "LARGEINT",
        "TIMESTAMP" | "TIMESTAMP WITH TIME ZONE" => "DATETIME",
        "VARCHAR" | "TIME" | "BIGNUM" => "STRING",
        same => same,
    }
}

fn byte(value: Option<u8>) -> String {
    value.map(|byte| char::from(byte).to_string()).unwrap_or_default()
}

fn ours(guess: &Guess) -> Map<String, Value> {
    let d = &guess.dialect;
    let columns: Vec<Value> =
        guess.schema.fields().iter().map(|field| json!([field.name(), type_name(field.data_type())])).collect();
    let mut out = Map::new();
    out.insert("delimiter".into(), String::from_utf8_lossy(&d.delimiter).into());
    out.insert("quote".into(), byte(d.quote).into());
    out.insert("escape".into(), byte(d.escape).into());
    out.insert("comment".into(), byte(d.comment).into());
    out.insert("skip".into(), d.skip_lines.into());
    out.insert("header".into(), d.header.into());
    out.insert("columns".into(), columns.into());
    out
}

/// DuckDB's answer in our words: `column0` is `c1`, doubling needs no escape, and where nothing is quoted the quote is
/// what it would be.
fn expected(case: &Value, ours: &Map<String, Value>) -> Map<String, Value> {
    let mut out = case["duckdb"].as_object().unwrap().clone();
    if out["escape"] == "\"" || out["escape"] == "'" {
        out["escape"] = "".into();
    }
    if out["quote"] == "" && ours["quote"] == "\"" {
        out["quote"] = "\"".into();
    }
    let columns: Vec<Value> = out["columns"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| {
            let (name, kind) = (column[0].as_str().unwrap(), column[1].as_str().unwrap());
            let number = name.strip_prefix("column").and_then(|number| number.parse::<usize>().ok());
            json!([number.map_or(name.to_string(), |number| format!("c{}", number + 1)), translated(kind)])
        })
        .collect();
    out.insert("columns".into(), columns.into());
    if let Some(differs) = case["dipper"].as_object() {
        out.extend(differs.clone());
    }
    out
}

fn cases() -> Vec<Value> {
    let path = Path::new("tests/data/sniff/cases.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn guesses_as_duckdb_does_or_says_why_not() {
    let cases = cases();
    let (mut agreed, mut wrong) = (0, Vec::new());
    for case in &cases {
        let name = case["name"].as_str().unwrap();
        let text = case["text"].as_str().unwrap();
        let guess = infer_sample("case.csv", text.as_bytes(), true, &[], &Hints::default()).unwrap();
        let ours = ours(&guess);
        let expected = expected(case, &ours);
        if ours != expected {
            wrong.push(format!("{name}\n  ours     {ours:?}\n  expected {expected:?}"));
        } else if case["dipper"].is_null() {
            agreed += 1;
        } else {
            assert!(case["why"].as_str().is_some_and(|why| why.len() > 10), "{name}: say why");
            // A recorded difference must still be one, else the entry is stale.
            let mut without = case.clone();
            without["dipper"] = Value::Null;
            assert_ne!(self::expected(&without, &ours), ours, "{name}");
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(agreed * 100 >= cases.len() * 80, "{agreed} of {}", cases.len());
}

/// The scan reads all rows of the sample with the guessed dialect.
#[test]
fn what_is_guessed_can_be_read() {
    for case in cases() {
        let name = case["name"].as_str().unwrap();
        let source = MemorySource(case["text"].as_str().unwrap().to_string().into_bytes().into());
        let file = FileInput { name: name.to_string(), source: Arc::new(source), compression: Compression::None };
        let guess = infer(&file, &Hints::default()).unwrap();
        let mut options = ScanOptions::new(Dialect::Csv(guess.dialect.clone()), guess.schema.clone());
        options.exact = (0..guess.schema.fields().len()).collect();
        options.header = Some(Arc::new(Header::new(&guess.schema, &guess.dialect)));
        let mut worker = ScanQueue::new(Scan::try_new(options).unwrap(), vec![file]).worker();
        let mut rows = 0;
        let result = loop {
            match worker.next_batch() {
                Ok(Some(batch)) => rows += batch.rows.num_rows() as u64,
                Ok(None) => break Ok(rows),
                Err(error) => break Err(error),
            }
        };
        match result {
            Ok(rows) => assert_eq!(rows, guess.sampled_rows, "{name}"),
            // Too many fields are an error on purpose, and the guess says so.
            Err(error) => assert!(guess.ragged_rows.1 > 0 && guess.dialect.ragged == Ragged::Error, "{name}: {error}"),
        }
    }
}
