//! Rows do not depend on the instruction set, the cuts and the number of workers.

use proptest::prelude::*;

use super::*;
use crate::dialect::{DateOrder, HiveDialect, LineEnd, Ragged};
use crate::scan::{BadValue, InvalidUtf8, Strings};
use crate::simd::Simd;

/// Bytes of few kinds, so that everything meets everything.
fn nasty(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => Just(b"a".to_vec()), 4 => Just(b"bc".to_vec()), 6 => Just(b",".to_vec()), 5 => Just(b"\"".to_vec()),
        4 => Just(b"\n".to_vec()), 2 => Just(b"\r".to_vec()), 2 => Just(b"\r\n".to_vec()), 2 => Just(b"\\".to_vec()),
        2 => Just(b"|".to_vec()), 1 => Just(b"||".to_vec()), 1 => Just(b"#".to_vec()), 1 => Just(b" ".to_vec()),
        1 => Just("\u{e9}\u{1F600}".as_bytes().to_vec()), 1 => Just(b"\0".to_vec()), 1 => Just(b"\xA7".to_vec()),
        1 => Just(b", \"".to_vec()), 1 => Just(b"\n\t\"".to_vec()), 1 => Just(b"\",\"".to_vec()), 1 => Just(b"\n\"".to_vec()), 1 => Just(b"\"\n".to_vec()),
        1 => Just(b"a text that is longer than twelve bytes".to_vec()), 1 => Just(vec![b'\\'; 70]),
        1 => Just(vec![b'x'; 130]),
    ];
    proptest::collection::vec(piece, 0..most).prop_map(|pieces| pieces.concat())
}

/// Well-formed records, most of them quoted.
fn tidy(most: usize) -> impl Strategy<Value = Vec<u8>> {
    let field = prop_oneof![
        Just("1234".to_string()),
        Just(String::new()),
        Just("\"\"".to_string()),
        Just("\"a \"\"b\"\" c\"".to_string()),
        Just("\"x,y\nz\"".to_string()),
        Just("plain text of some length".to_string()),
        Just("\"quoted\"".to_string()),
    ];
    let record = proptest::collection::vec(field, 3).prop_map(|f| f.join(",") + "\n");
    proptest::collection::vec(record, 0..most).prop_map(|r| r.concat().into_bytes())
}

fn dialects() -> impl Strategy<Value = CsvDialect> {
    let line_end = prop_oneof![
        4 => Just(LineEnd::Newline), 3 => Just(LineEnd::AnyNewline), 1 => Just(LineEnd::Bytes(b"|".to_vec())),
        1 => Just(LineEnd::Bytes(b"\r\n".to_vec())), 1 => Just(LineEnd::Bytes(b"||".to_vec())),
    ];
    let delimiter = prop_oneof![5 => Just(b",".to_vec()), 1 => Just(b"||".to_vec()), 1 => Just(b",a".to_vec())];
    let quote = prop_oneof![4 => Just(Some(b'"')), 2 => Just(None), 1 => Just(Some(b'a'))];
    let escape = prop_oneof![2 => Just(None), 1 => Just(Some(b'\\')), 1 => Just(Some(b'"'))];
    let comment = prop_oneof![3 => Just(None), 1 => Just(Some(b'#'))];
    (delimiter, line_end, quote, escape, comment, any::<bool>(), 0u64..3, proptest::bool::weighted(0.2), any::<bool>())
        .prop_filter_map(
            "a delimiter that is no line end",
            |(delimiter, line_end, quote, escape, comment, header, skip, trim, unquote)| {
                if matches!(&line_end, LineEnd::Bytes(b) if b[0] == delimiter[0]) {
                    return None;
                }
                Some(CsvDialect {
                    delimiter,
                    line_end,
                    quote,
                    escape: escape.filter(|e| *e != b'"' || quote == Some(b'"') || quote.is_some() && !unquote),
                    comment,
                    header,
                    skip_lines: skip,
                    trim,
                    unquote,
                    null_values: vec![Vec::new()],
                    ragged: Ragged::Fill,
                    dates: DateOrder::YearFirst,
                })
            },
        )
}

fn check(
    bytes: &[u8],
    dialect: &CsvDialect,
    columns: usize,
    block: usize,
    batch: usize,
    workers: usize,
    strings_as: Strings,
) {
    let mut expected = naive::rows(bytes, dialect, columns);
    let in_order = expected.clone();
    let mut options = csv(dialect.clone(), strings(columns));
    options.block_bytes = block;
    options.batch_rows = batch;
    options.bad_value = BadValue::Null;
    options.invalid_utf8 = InvalidUtf8::Replace;
    options.strings = strings_as;
    if workers > 1 {
        expected.sort();
    }
    let scan = Scan::try_new(options.clone()).expect("valid options");
    for (how, file) in [("compressed", gzipped(bytes)), ("stream", once(bytes)), ("blocks", memory(bytes))] {
        same(&scan_splits(&scan, vec![file], workers), &in_order, how);
    }
    for simd in Simd::available() {
        let scan = Scan::with_simd(options.clone(), simd).expect("valid options");
        let mut rows = scan_all(&scan, vec![memory(bytes)], workers).expect("no error");
        if workers > 1 {
            rows.sort();
        }
        same(&rows, &expected, &format!("{} block {block} batch {batch} workers {workers}", simd.name()));
        // Counting takes another way.
        let mut counting = options.clone();
        counting.projection.clear();
        let scan = Scan::with_simd(counting, simd).expect("valid options");
        let count = scan_all(&scan, vec![memory(bytes)], workers).expect("no error").len();
        assert_eq!(count, expected.len(), "count, {} block {block}", simd.name());
    }
}

/// Panics with the first row that differs.
fn same(rows: &[Row], expected: &[Row], how: &str) {
    let first = rows.iter().zip(expected).position(|(a, b)| a != b).unwrap_or(rows.len().min(expected.len()));
    assert_eq!(rows.get(first), expected.get(first), "row {first}, {how}");
}

/// Compresses the bytes; the result is read as a stream.
fn gzipped(bytes: &[u8]) -> FileInput {
    let mut encoder = crate::encoder(Compression::Gzip, Vec::new()).expect("memory");
    std::io::Write::write_all(&mut encoder, bytes).expect("memory");
    FileInput { compression: Compression::Gzip, ..memory(&encoder.finish().expect("memory")) }
}

/// Blocks of the size that is used, with quoted line ends, by several workers.
#[test]
fn large_blocks() {
    let mut text = b"a,b,c\n".to_vec();
    let mut x = 1u64;
    while text.len() < 5 << 20 {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let field = match x >> 61 {
            0 => "\"a line\nend and a delimiter, inside\"".to_string(),
            1 => "\"\"\"doubled\"\"\"".to_string(),
            2 => String::new(),
            3 => "odd \" quote".repeat((x >> 50) as usize % 2),
            _ => format!("{x}"),
        };
        text.extend_from_slice(format!("{},\"{}\",{field}\n", x >> 40, x >> 3).as_bytes());
    }
    let expected = naive::rows(&text, &CsvDialect::default(), 3);
    let mut sorted = expected.clone();
    sorted.sort();
    let simds = Simd::available();
    for (block, workers) in [(1 << 16, 4), (1 << 20, 3), (4 << 20, 2), (300_001, 1)] {
        for simd in [simds[0], simds[simds.len() - 1]] {
            let mut options = csv(CsvDialect::default(), strings(3));
            options.block_bytes = block;
            let scan = Scan::with_simd(options, simd).expect("valid options");
            let mut rows = scan_all(&scan, vec![memory(&text)], workers).expect("no error");
            if workers > 1 {
                rows.sort();
            }
            same(&rows, if workers > 1 { &sorted } else { &expected }, simd.name());
        }
    }
    // Counted where it lies in the page cache: as it is, with lines that are no rows, and with all quotes the other
    // way.
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let mut blank = text.clone();
    blank.splice(3 << 20..3 << 20, *b"\"\n\n\n\"\n\r\n\n");
    let begun = [b"a,b,c\n\"", &text[..]].concat();
    for text in [text, blank, begun] {
        std::fs::write(file.path(), &text).expect("written");
        let expected = naive::rows(&text, &CsvDialect::default(), 3).len();
        for (block, workers) in [(1 << 19, 3), (1 << 20, 2), (300_001, 2), (1 << 23, 1)] {
            for simd in [simds[0], simds[simds.len() - 1]] {
                // If fields may not be missing, some of the lines that are cut short are no rows.
                let mut options = csv(CsvDialect { ragged: Ragged::Fill, ..CsvDialect::default() }, strings(3));
                options.block_bytes = block;
                options.projection.clear();
                let scan = Scan::with_simd(options, simd).expect("valid options");
                let source = Arc::new(FileSource::open(file.path()).expect("opened"));
                let input = FileInput { name: "t".into(), source, compression: Compression::None };
                let rows = scan_all(&scan, vec![input], workers).expect("no error").len();
                assert_eq!(rows, expected, "{block} {workers} {}", simd.name());
            }
        }
    }
}

/// A block may end between a blank and the quote behind it.
#[test]
fn blanks_before_quotes_at_every_cut() {
    let text = b"a, \"x,\ny\"\n \t\"p\nq\" ,b\n\"z\", \t\"\"\"\n\"\n  \nlast, \t\"u,\nv\"";
    for (line_end, block) in
        [LineEnd::Newline, LineEnd::AnyNewline].into_iter().flat_map(|e| (1..=text.len()).map(move |n| (e.clone(), n)))
    {
        let ragged = Ragged::Fill;
        let dialect = CsvDialect { line_end, ragged, header: false, trim: true, ..CsvDialect::default() };
        for workers in 1..3 {
            check(text, &dialect, 2, block, 5, workers, Strings::View);
        }
    }
}

/// A block's start state may depend on a run of escapes that is longer than the bytes read before the block.
#[test]
fn escapes_before_line_ends_at_every_cut() {
    for (escapes, end) in (13..20).flat_map(|n| ["\n", "\r", "\r\n", "x\r\n"].map(|end| (n, end))) {
        let text = ["a,b", end, &"\\".repeat(escapes), end, "c", end, end, "d"].concat();
        for (line_end, quote) in
            [LineEnd::Newline, LineEnd::AnyNewline].into_iter().flat_map(|e| [(e.clone(), None), (e, Some(b'"'))])
        {
            let ragged = Ragged::Fill;
            let dialect =
                CsvDialect { line_end, quote, ragged, escape: Some(b'\\'), header: false, ..CsvDialect::default() };
            for block in 1..text.len() {
                check(text.as_bytes(), &dialect, 1, block, 5, 1, Strings::View);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn nasty_bytes(bytes in nasty(60), dialect in dialects(), columns in 1usize..4, block in 1usize..300, batch in 1usize..9, workers in 1usize..4) {
        check(&bytes, &dialect, columns, block, batch, workers, Strings::View);
    }

    #[test]
    fn nasty_long(bytes in nasty(600), dialect in dialects(), block in 1usize..5000, workers in 1usize..4) {
        check(&bytes, &dialect, 3, block, 100, workers, Strings::Copy);
    }

    #[test]
    fn tidy_records(bytes in tidy(60), block in 1usize..700, workers in 1usize..5, header in any::<bool>()) {
        let dialect = CsvDialect { header, ..CsvDialect::default() };
        check(&bytes, &dialect, 3, block, 7, workers, Strings::View);
    }

    #[test]
    fn projection_and_limit(bytes in nasty(80), block in 1usize..300, limit in 0u64..10, workers in 1usize..4) {
        let dialect = CsvDialect { ragged: Ragged::Fill, ..CsvDialect::default() };
        let expected: Vec<Row> =
            naive::rows(&bytes, &dialect, 4).into_iter().map(|r| vec![r[2].clone(), r[0].clone()]).collect();
        let mut options = csv(dialect, strings(4));
        options.projection = vec![2, 0];
        options.block_bytes = block;
        options.bad_value = BadValue::Null;
        options.invalid_utf8 = InvalidUtf8::Replace;
        options.limit = Some(limit);
        let scan = Scan::try_new(options).expect("valid options");
        let rows = scan_all(&scan, vec![memory(&bytes)], workers).expect("no error");
        prop_assert_eq!(rows.len(), expected.len().min(limit as usize));
        if workers == 1 {
            prop_assert_eq!(&rows[..], &expected[..rows.len()]);
        } else {
            prop_assert!(rows.iter().all(|r| expected.contains(r)));
        }
    }

    #[test]
    fn hive_lines(bytes in nasty(80), block in 1usize..300, workers in 1usize..4, header in 0u64..3, footer in 0u64..4, escape in any::<bool>()) {
        let dialect = HiveDialect {
            separators: vec![b',', b'|', b':'],
            skip_header: header,
            skip_footer: footer,
            escape: escape.then_some(b'\\'),
            ..HiveDialect::default()
        };
        let mut expected = hive_rows(&bytes, &dialect, 3);
        if workers > 1 {
            expected.sort();
        }
        for simd in Simd::available() {
            let mut options = ScanOptions::new(Dialect::Hive(dialect.clone()), strings(3));
            options.block_bytes = block;
            let scan = Scan::with_simd(options, simd).expect("valid options");
            let mut rows = scan_all(&scan, vec![memory(&bytes)], workers).expect("no error");
            if workers > 1 {
                rows.sort();
            }
            same(&rows, &expected, simd.name());
            if workers == 1 {
                same(&scan_all(&scan, vec![gzipped(&bytes)], 1).expect("no error"), &expected, "compressed");
            }
        }
    }
}

/// Lines as Hadoop cuts them, fields as LazySimpleSerDe does.
fn hive_rows(bytes: &[u8], d: &HiveDialect, columns: usize) -> Vec<Row> {
    let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let mut lines = Vec::new();
    let mut line = Vec::new();
    let mut i = 0;
    let mut open = false;
    while i < bytes.len() {
        let end = matches!(bytes[i], b'\n' | b'\r');
        if end {
            i += (bytes[i..].starts_with(b"\r\n")) as usize;
            lines.push(std::mem::take(&mut line));
        } else {
            line.push(bytes[i]);
        }
        open = !end;
        i += 1;
    }
    if open {
        lines.push(line);
    }
    let last = lines.len().saturating_sub(d.skip_footer as usize);
    lines.truncate(last.max((d.skip_header as usize).min(lines.len())));
    let lines = lines.into_iter().skip(d.skip_header as usize);
    lines
        .map(|line| {
            let mut fields = vec![Vec::new()];
            let mut i = 0;
            while i < line.len() {
                let field = fields.last_mut().expect("at least one");
                if line[i] == b',' {
                    fields.push(Vec::new());
                } else if d.escape == Some(line[i]) && i + 1 < line.len() {
                    i += 1;
                    field.push(match line[i] {
                        b'n' => b'\n',
                        b'r' => b'\r',
                        b => b,
                    });
                } else {
                    field.push(line[i]);
                }
                i += 1;
            }
            let mut row: Row = fields.into_iter().map(|f| Some(String::from_utf8_lossy(&f).into_owned())).collect();
            row.resize(columns, None);
            row.truncate(columns);
            row
        })
        .collect()
}
