//! A count is that of the rows that a scan of a column finds, and where that fails, counting fails.

use super::*;
use crate::dialect::{JsonDialect, Ragged};
use crate::simd::Simd;

fn count(options: &ScanOptions, simd: Simd, block: usize, text: &[u8], workers: usize) -> Result<u64, String> {
    let mut options = ScanOptions { block_bytes: block, ..options.clone() };
    options.projection.clear();
    let scan = Scan::with_simd(options, simd).expect("valid options");
    let queue = ScanQueue::new(scan, vec![memory(text)]);
    let drain = || {
        let mut worker = queue.worker();
        let mut rows = 0;
        while let Some(batch) = worker.next_batch().map_err(|e| e.to_string())? {
            rows += batch.rows.num_rows() as u64;
        }
        Ok(rows)
    };
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..workers).map(|_| s.spawn(drain)).collect();
        let counts = threads.into_iter().map(|t| t.join().expect("no panic")).collect::<Vec<_>>();
        counts.into_iter().sum()
    })
}

fn same(options: &ScanOptions, text: &str) {
    let scan = Scan::try_new(ScanOptions { projection: vec![0], ..options.clone() }).expect("valid options");
    let wanted = scan_all(&scan, vec![memory(text.as_bytes())], 1);
    let wanted = wanted.map(|rows| rows.len() as u64).map_err(|e| e.to_string());
    for simd in Simd::available() {
        for (block, workers) in [(1 << 20, 1), (64, 1), (64, 2), (7, 1), (1, 1)] {
            let found = count(options, simd, block, text.as_bytes(), workers);
            match (&wanted, &found) {
                // Workers may fail in any order.
                (Err(_), Err(_)) if workers > 1 => {}
                _ => assert_eq!(found, wanted, "{} {block} {workers}: {text:?}", simd.name()),
            }
        }
    }
}

#[test]
fn csv_records_that_are_no_rows_are_not_counted() {
    let row = "1,\"a,\n\"\"b\",x\n";
    let many = |bad: &str| format!("{}{bad}{}", row.repeat(20), row.repeat(20));
    let texts =
        ["", "1,2\n", "1,2,3,4\n", "\n", "\n1\n", "1,\"x,2\n", "a\"b,c,d\n", "1,2,3,\n", "#1,2\n", "1,2,\"x\"y\n"];
    for quote in [Some(b'"'), None] {
        for escape in [None, Some(b'\\')] {
            for ragged in [Ragged::Error, Ragged::Fill] {
                let dialect = CsvDialect { header: false, quote, escape, ragged, ..CsvDialect::default() };
                let options = csv(dialect, strings(3));
                for bad in texts {
                    same(&options, &many(bad));
                    same(&options, bad);
                    same(&options, bad.trim_end());
                }
                // An empty field behind the last one does not count.
                same(&options, &"1,2,3,\n".repeat(30));
            }
        }
    }
    // A field too many in one record, and one too few in another, wherever they stand.
    for quote in [Some(b'"'), None] {
        let options = csv(CsvDialect { header: false, quote, ..CsvDialect::default() }, strings(2));
        for (long, short) in [("1,2,3\n", "4\n"), ("1,2,3,4\n", "4\n5\n"), ("1,2,\n", "4\n"), ("4\n", "1,2,3\n")] {
            for between in [0, 1, 5, 40] {
                for ahead in [0, 3, 30] {
                    let text = format!("{}{long}{}{short}", "1,2\n".repeat(ahead), "a,b\n".repeat(between));
                    same(&options, &text);
                    same(&options, text.trim_end());
                    same(&options, &format!("{text}{}", "x,y\n".repeat(20)));
                }
            }
        }
        let mut random = 88_172_645_463_325_252_u64;
        for _ in 0..300 {
            let mut text = String::new();
            for _ in 0..40 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let line = match random % 24 {
                    0 => "1\n",
                    1 => "1,2,3\n",
                    2 => "long text, and more\n",
                    3 => "1,2,\n",
                    4 if quote.is_some() => "\"a,\nb\",2\n",
                    5 => "1,2\r\n",
                    _ => "1,2\n",
                };
                text.push_str(line);
                if random % 211 < 160 && text.len() < 100 {
                    text = text.replace("1\n", "1,\n");
                }
            }
            same(&options, &text);
        }
    }
    for delimiter in ["||", ";"] {
        let dialect = CsvDialect { header: false, delimiter: delimiter.into(), ..CsvDialect::default() };
        let options = csv(dialect, strings(2));
        same(&options, &format!("1{delimiter}2\n").repeat(20));
        same(&options, &format!("1{delimiter}2\n3\n").repeat(20));
    }
    same(&csv(CsvDialect { header: false, quote: None, ..CsvDialect::default() }, strings(1)), "1\n2,3\n4\n");
}

#[test]
fn json_lines_that_are_no_objects_are_not_counted() {
    let dialect = JsonDialect { keys: vec!["a".into()], guessed: false };
    let options = ScanOptions::new(Dialect::Json(dialect), strings(1));
    let row = "{\"a\":\"some text that is long enough for a block or two\"}\n";
    let many = |bad: &str| format!("{}{bad}{}", row.repeat(5), row.repeat(5));
    for bad in [
        "",
        "[\n",
        "]\n",
        "\n",
        " \n",
        "{\"a\":1},\n",
        " {\"a\":1} \n",
        "{\"a\":1}\r\n",
        "{\"a\":\n",
        "1\n",
        "{\"a\":1} x\n",
    ] {
        same(&options, &many(bad));
        same(&options, bad);
        same(&options, &format!("{row}{}", bad.trim_end()));
    }
    same(&options, "[\n  {\"a\": 1},\n  {\"a\": 2}\n]\n");
}
