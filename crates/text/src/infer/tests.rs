use super::*;
use crate::source::MemorySource;

fn guess(text: &str) -> Guess {
    infer_sample("t.csv", text.as_bytes(), true, &[], &Hints::default()).unwrap()
}

fn columns(guess: &Guess) -> Vec<(String, String)> {
    guess.schema.fields().iter().map(|field| (field.name().clone(), type_name(field.data_type()))).collect()
}

fn given(name: &str, data_type: DataType) -> FieldRef {
    Arc::new(Field::new(name, data_type, true))
}

fn one_type(values: &str) -> String {
    let text: String = values.split(' ').map(|value| format!("{value}|x\n")).collect();
    columns(&guess(&format!("v|w\n{text}")))[0].1.clone()
}

#[test]
fn types() {
    for (values, expected) in [
        ("1 2", "BIGINT"),
        ("-1 0", "BIGINT"),
        ("9223372036854775807", "BIGINT"),
        ("9223372036854775808 1", "LARGEINT"),
        ("99999999999999999999999999999999999999999", "STRING"),
        ("1 2.5", "DOUBLE"),
        ("1. .5 1e5 -2.5E-3 NaN -inf", "DOUBLE"),
        ("0 0.5", "DOUBLE"),
        ("007 1", "STRING"),
        ("+1 2", "STRING"),
        ("0x10", "STRING"),
        ("1_000", "STRING"),
        (". 1", "STRING"),
        ("true FALSE", "BOOLEAN"),
        ("true 1", "STRING"),
        ("2024-02-29 1970-01-01", "DATE"),
        ("2023-02-29 1970-01-01", "STRING"),
        ("2024-01-01T10:00:00 2024-01-01T10:00:00.123456", "DATETIME"),
        ("2024-01-01T25:00:00", "STRING"),
        ("2024-01-01 2024-01-01T10:00:00", "DATETIME"),
        ("2024/1/2 2024-12-31", "DATE"),
        ("01/02/2024 3/4/2024", "DATE"),
        ("31/12/2024 01/02/2024", "DATE"),
        ("12/31/2024 01/02/2024", "DATE"),
        ("31/12/2024 12/31/2024", "STRING"),
        ("31.12.2024 2024-01-01", "DATE"),
        ("31-12-2024 1/2/24", "DATE"),
        ("01-02-03", "STRING"),
        ("1.2.3", "STRING"),
        ("31/12/2024T10:00 01/02/2024", "DATETIME"),
        ("1/2/24T1:5 01/02/2024", "DATETIME"),
        ("10:00 11:30:00", "STRING"),
        ("2024-01-01T10:00 2024-01-01T10:00:00+02:00 2024-01-01T10:00:00Z", "DATETIME"),
        ("t f T F", "BOOLEAN"),
        ("F F F", "STRING"),
        ("a 1", "STRING"),
    ] {
        assert_eq!(one_type(values), expected, "{values}");
    }
    assert_eq!(columns(&guess("t;n\n2024-01-01 10:00:00;1\n"))[0].1, "DATETIME");
}

#[test]
fn days_and_months() {
    let order = |text: &str| (guess(text).dialect.dates, guess(text).ambiguous_dates);
    assert_eq!(order("d,e\n01/02/2024,x\n03/04/2024,y\n"), (DateOrder::DayFirst, true));
    assert_eq!(order("d,e\n01/02/2024,x\n13/04/2024,y\n"), (DateOrder::DayFirst, false));
    assert_eq!(order("d,e\n01/02/2024,x\n04/13/2024,y\n"), (DateOrder::MonthFirst, false));
    assert_eq!(order("d,e\n2024-01-02,x\n2024-04-13,y\n"), (DateOrder::YearFirst, false));
    // One column tells for all, the first record for those below.
    assert_eq!(
        order("d,e\n01/02/2024,12/31/2024 3:00 PM\n03/04/2024,12/31/2024 4:00 PM\n"),
        (DateOrder::MonthFirst, false)
    );
    let bare = guess("01/13/2024,x\n01/02/2024,y\n");
    assert_eq!((bare.dialect.dates, bare.dialect.header), (DateOrder::MonthFirst, false));
    assert_eq!(columns(&bare)[0].1, "DATE");
    // Two columns that exclude each other: one of them stays text.
    let both = guess("d,e\n13/01/2024,01/13/2024\n");
    assert_eq!(columns(&both).into_iter().map(|(_, t)| t).collect::<Vec<_>>(), ["DATE", "STRING"]);
    assert!(
        guess("d,e\n01/02/2024,x\n")
            .to_string()
            .contains("dates have the day first (or the month: 'date_order'='mdy')")
    );
    let hints = Hints { dates: Some(DateOrder::MonthFirst), ..Hints::default() };
    let told = infer_sample("t.csv", b"d,e\n01/02/2024,x\n", true, &[], &hints).unwrap();
    assert_eq!((told.dialect.dates, told.ambiguous_dates), (DateOrder::MonthFirst, false));
    assert_eq!(columns(&told)[0].1, "DATE");
}

#[test]
fn null_words() {
    let nulls = |text: &str| -> Vec<String> {
        guess(text).dialect.null_values.iter().map(|value| String::from_utf8_lossy(value).into_owned()).collect()
    };
    assert_eq!(nulls("a,b\n1,x\n,y\n"), [""]);
    assert_eq!(nulls("a,b\n1,\\N\n2,y\n"), ["", "\\N"]);
    assert_eq!(nulls("a,b\n1,x\nNULL,y\n"), ["", "NULL"]);
    // NA is Namibia in b, so it cannot be NULL in a.
    assert_eq!(nulls("a,b\n1,DE\nNA,NA\n"), [""]);
    assert_eq!(columns(&guess("a,b\n1,DE\nNA,NA\n"))[0].1, "STRING");
    assert_eq!(nulls("a,b\n1,DE\nNA,FR\n"), ["", "NA"]);
    // Quoted, they are text.
    assert_eq!(nulls("a,b\n1,x\n\"NULL\",y\n"), [""]);
}

#[test]
fn hints_win() {
    let hints = Hints {
        delimiter: Some(b";".to_vec()),
        header: Some(false),
        names: vec!["x".to_string()],
        types: vec![given("X", DataType::Int32)],
        null_values: Some(vec![b"?".to_vec()]),
        trim: Some(true),
        ragged: Some(Ragged::Error),
        quote: Some(None),
        skip_lines: Some(1),
        ..Hints::default()
    };
    let guess = infer_sample("t.csv", b"a,b;c\n1,2;?\n3,4;5\n", true, &[], &hints).unwrap();
    assert_eq!(columns(&guess), [("x".into(), "INT".into()), ("c2".into(), "BIGINT".into())]);
    assert_eq!(guess.given, [true, false]);
    assert!(guess.dialect.trim && !guess.dialect.header);
    assert_eq!(guess.dialect.quote, None);
    assert_eq!(guess.dialect.skip_lines, 1);

    let strings = Hints { all_strings: true, ..Hints::default() };
    let guess = infer_sample("t.csv", b"a,b\n1,2\n", true, &[], &strings).unwrap();
    assert_eq!(columns(&guess), [("a".into(), "STRING".into()), ("b".into(), "STRING".into())]);

    let unknown = Hints { types: vec![given("z", DataType::Int32)], header: Some(true), ..Hints::default() };
    let error = infer_sample("t.csv", b"a,b\n1,2\n", true, &[], &unknown).unwrap_err();
    assert_eq!(error.to_string(), "t.csv: there is no column z to give a type to; its columns are a, b");
}

#[test]
fn names_are_unique_without_case() {
    let names = |text: &str| columns(&guess(text)).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names("a,A,a_1,,b\n1,2,3,4,5\n"), ["a", "A_1", "a_1_1", "c4", "b"]);
    assert_eq!(names("1,2\n3,4\n"), ["c1", "c2"]);
    assert_eq!(names("c2,\n3,4\n"), ["c2", "c2_1"]);
}

#[test]
fn the_guess_is_shown_in_two_lines() {
    assert_eq!(
        guess("id\tname\n1\tx\n2\t\\N\n").to_string(),
        "t.csv: '\\t' between fields, '\"' quotes, header, '\\N' is NULL; 2 columns from all 2 rows: id BIGINT, name STRING\n\
         wrong? say files('path'='t.csv', 'format'='csv', 'column_separator'=..., 'enclose'=..., 'escape'=..., \
         'header'='false', 'skip_lines'=..., 'csv_schema'='id:string;...')"
    );
    let ragged = guess("a,b\n1,2\n3,4,5\n6,7\n8,9\n1,1\n").to_string();
    assert!(ragged.contains("; 1 of them have fields too many (an error;"), "{ragged}");
}

#[test]
fn where_fields_may_be_missing_any_number_makes_a_table() {
    let text = "a,b,c\n1,x,2.5\n2,y\n3,z,4,extra\n";
    let hints = Hints { ragged: Some(Ragged::Fill), ..Hints::default() };
    let filled = infer_sample("t.csv", text.as_bytes(), true, &[], &hints).unwrap();
    let expected = [("a", "BIGINT"), ("b", "STRING"), ("c", "DOUBLE")].map(|(n, t)| (n.to_string(), t.to_string()));
    assert_eq!(columns(&filled), expected);
    assert_eq!(filled.dialect.ragged, Ragged::Fill);
    assert_eq!(columns(&guess(text)).len(), 1);
}

#[test]
fn what_is_no_text_is_named() {
    let refused = |bytes: &[u8]| infer_sample("x", bytes, true, &[], &Hints::default()).unwrap_err().to_string();
    assert_eq!(refused(b"PAR1\x15\x04"), "x: the file is Parquet, not text; read it as such: 'format'='parquet'");
    assert!(refused(b"\xff\xfea\0,\0").contains("iconv"));
    assert!(refused(b"\x1f\x8b\x08\0").contains("'compress_type'='gzip'"));
    assert!(refused(b"PK\x03\x04\x14\0[Content_Types].xml").contains("Office"));
    assert!(refused(b"PK\x03\x04\x14\0data.csv").contains("zip archive"));
    for begins in [
        &b"\x89PNG\r\n\x1a\n"[..],
        b"\x93NUMPY\x01\0",
        b"\x80\x04\x95",
        b"\x7fELF\x02",
        b"\x5d\0\0\x80",
        b"$FL2@(#) SPSS",
    ] {
        assert!(refused(begins).contains("not text"), "{begins:?}");
    }
    // Letters of these formats, and NULs, are text.
    for text in ["ELF,PNG\n1,2\n", "a,b\nx\0y,\0\n\0\0\0,2\n", "sep\n1\n", "GIF,PK\n1,2\n"] {
        assert!(infer_sample("x", text.as_bytes(), true, &[], &Hints::default()).is_ok(), "{text:?}");
    }
}

#[test]
fn spreadsheets_say_their_delimiter() {
    for (text, delimiter) in
        [("sep=;\nid;v\n1;2,5\n", b";"), ("\u{feff}sep=|\r\nid|v\r\n1|2\r\n", b"|"), ("sep=\t\nid\tv\n1\t2\n", b"\t")]
    {
        let guess = guess(text);
        assert_eq!((guess.dialect.skip_lines, &guess.dialect.delimiter[..]), (1, &delimiter[..]), "{text:?}");
        assert_eq!(columns(&guess).into_iter().map(|(name, _)| name).collect::<Vec<_>>(), ["id", "v"]);
    }
    // A column may be called so.
    assert_eq!(columns(&guess("sep=x\n1\n"))[0].0, "sep=x");
    let hints = Hints { skip_lines: Some(0), ..Hints::default() };
    assert_eq!(infer_sample("t.csv", b"sep=;\nid;v\n1;2\n", true, &[], &hints).unwrap().dialect.skip_lines, 0);
}

#[test]
fn far_samples_widen_types() {
    let text: String = (0..60_000).map(|i| format!("{i},{}\n", if i < 59_000 { "1" } else { "1.5" })).collect();
    let file = FileInput {
        name: "far.csv".to_string(),
        source: Arc::new(MemorySource(text.into_bytes().into())),
        compression: Compression::None,
    };
    let guess = infer(&file, &Hints::default()).unwrap();
    assert_eq!(columns(&guess), [("c1".into(), "BIGINT".into()), ("c2".into(), "DOUBLE".into())]);
    assert!(!guess.complete);
}

#[test]
fn compressed_files_are_sampled_too() {
    let mut encoder = crate::compress::encoder(Compression::Gzip, Vec::new()).unwrap();
    std::io::Write::write_all(&mut encoder, b"a;b\n1;x\n2;y\n").unwrap();
    let bytes = encoder.finish().unwrap();
    let file = |compression| FileInput {
        name: "x.csv.gz".to_string(),
        source: Arc::new(MemorySource(bytes.clone().into())),
        compression,
    };
    let guess = infer(&file(Compression::Gzip), &Hints::default()).unwrap();
    assert_eq!(columns(&guess), [("a".into(), "BIGINT".into()), ("b".into(), "STRING".into())]);
    assert_eq!(infer(&file(Compression::Bzip2), &Hints::default()).unwrap_err().kind, ErrorKind::Compression);
}

#[test]
fn files_unite_by_name() {
    let guesses = [guess("id,v,w\n1,2,\n"), guess("V,id,x\n1.5,3,2024-01-01\n"), guess("id,w\n1,true\n")];
    let union = union_by_name(&guesses);
    let fields: Vec<_> = union
        .schema
        .fields()
        .iter()
        .map(|field| format!("{} {}", field.name(), type_name(field.data_type())))
        .collect();
    assert_eq!(fields, ["id BIGINT", "v DOUBLE", "w BOOLEAN", "x DATE"]);
    assert_eq!(
        union.columns,
        [
            vec![Some(0), Some(1), Some(2), None],
            vec![Some(1), Some(0), None, Some(2)],
            vec![Some(0), None, Some(1), None]
        ]
    );
}

#[test]
fn files_of_one_export_have_a_common_dialect() {
    let guesses =
        [guess("a,b\n"), guess("a,b\n1,x\n"), guess("a,b\nNULL,\"y\"\n2,z\n"), guess("a,b\n1\n2,z\n3,y\n4,x\n")];
    let common = common_dialect(&guesses).unwrap();
    assert_eq!(common.null_values, [b"".to_vec(), b"NULL".to_vec()]);
    assert_eq!((common.quote, common.ragged), (Some(b'"'), Ragged::Fill));
    assert_eq!(common_dialect(&[guess("a,b\n1,x\n"), guess("a;b\n1;x\n")]), Err((0, 1)));
    assert_eq!(common_dialect(&[guess("a,b\n1,x\n"), guess("1,x\n2,y\n")]), Err((0, 1)));
}

#[test]
fn files_that_do_not_tell_days_from_months_go_by_others() {
    let (open, months, days) = ("d,e\n01/02/2024,1\n", "d,e\n12/31/2024,1\n", "d,e\n31/12/2024,1\n");
    let mut guesses = [guess(open), guess("d,e\n2024-01-01,1\n"), guess(months)];
    settle_dates(&mut guesses);
    let orders = guesses.each_ref().map(|guess| guess.dialect.dates);
    assert_eq!(orders, [DateOrder::MonthFirst, DateOrder::YearFirst, DateOrder::MonthFirst]);
    assert_eq!(common_dialect(&guesses).unwrap().dates, DateOrder::MonthFirst);
    assert_eq!(common_dialect(&[guess(days), guess(months)]), Err((0, 1)));
}

#[test]
fn types_for_all_columns_name_them_where_nothing_else_does() {
    let types = vec![given("x", DataType::Int32), given("y", DataType::Utf8View)];
    let hints = Hints { types, ..Hints::default() };
    let of = |text: &str| infer_sample("t.csv", text.as_bytes(), true, &[], &hints).map(|guess| columns(&guess));
    assert_eq!(of("1,2\n3,4\n").unwrap(), [("x".into(), "INT".into()), ("y".into(), "STRING".into())]);
    // Names of others are data, as in Doris.
    assert_eq!(of("a,b\n3,4\n").unwrap(), [("x".into(), "INT".into()), ("y".into(), "STRING".into())]);
}

/// An empty field in quotes is NULL, as for the readers of all types but text.
#[test]
fn quoted_empty_fields_are_null() {
    let bare = guess("\"1\",\"2\"\n\"\",\"5\"\n\"3\",\"\"\n");
    assert_eq!((bare.dialect.header, bare.sampled_rows), (false, 3));
    assert_eq!(columns(&bare), [("c1".into(), "BIGINT".into()), ("c2".into(), "BIGINT".into())]);
    let named = guess("\"id\",\"day\",\"note\",\"none\"\n\"9\",\"\",\"x\",\"\"\n\"10\",\"2024-01-01\",\"\",\"\"\n");
    assert!(named.dialect.header);
    assert_eq!(columns(&named).into_iter().map(|(_, t)| t).collect::<Vec<_>>(), ["BIGINT", "DATE", "STRING", "STRING"]);
    assert_eq!(named.kinds[3], Kind::Nothing);
}

#[test]
fn what_else_a_given_type_says_is_kept() {
    let metadata = std::collections::HashMap::from([("dipper.type".to_string(), "varchar(3)".to_string())]);
    let short = Field::new("V", DataType::Utf8View, true).with_metadata(metadata.clone());
    let hints = Hints { types: vec![Arc::new(short)], ..Hints::default() };
    let typed = infer_sample("t.csv", b"c,v\n1,x\n", true, &[], &hints).unwrap();
    let union = union_by_name(&[guess("c,v\n1,y\n"), typed.clone()]);
    for (schema, given) in [(&typed.schema, &typed.given), (&union.schema, &union.given)] {
        assert_eq!(schema.field(1).metadata(), &metadata);
        assert_eq!(schema.field(1).name(), "v");
        assert_eq!(given, &[false, true]);
    }
}

#[test]
fn empty_files_have_the_columns_that_were_given() {
    for text in ["", "\n\r\n", "\u{feff}"] {
        let bare = guess(text);
        assert!(bare.empty, "{text:?}");
        assert_eq!(columns(&bare), [("c1".into(), "STRING".into())]);
        for header in [None, Some(false), Some(true)] {
            let types = vec![given("x", DataType::Int32), given("y", DataType::Utf8View)];
            let hints = Hints { types, header, ..Hints::default() };
            let typed = infer_sample("t.csv", text.as_bytes(), true, &[], &hints).unwrap();
            assert_eq!(columns(&typed), [("x".into(), "INT".into()), ("y".into(), "STRING".into())], "{text:?}");
        }
    }
    assert!(!guess("a,b\n").empty && !guess(",\n").empty);
}

#[test]
fn hints_name_a_type_that_holds_the_value() {
    for (data_type, value, expected) in [
        (DataType::Int64, "1.5", "double"),
        (DataType::Int64, "9223372036854775808", "largeint"),
        (DataType::Int64, "x", "string"),
        (DataType::Date32, "2024-01-01 23:59:00", "datetime"),
        (DataType::Date32, "2024-13-01", "string"),
        (DataType::Boolean, "7", "string"),
    ] {
        let hint = Guess::hint(&Field::new("v", data_type, true), value.as_bytes(), DateOrder::YearFirst);
        assert!(hint.contains(&format!("'csv_schema'='v:{expected}'")), "{value}: {hint}");
    }
}

/// Any bytes give a guess, and cutting the sample anywhere does too.
#[test]
fn no_input_panics() {
    let alphabet = b"a1,;|\t \"'\\#\r\n.-NU\x01\xff\xe4:";
    let mut state = 1u64;
    for round in 0..20_000 {
        let length = round % 97;
        let bytes: Vec<u8> = (0..length)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                alphabet[(state >> 33) as usize % alphabet.len()]
            })
            .collect();
        let guess = infer_sample("t", &bytes, round % 2 == 0, &[bytes.clone()], &Hints::default()).unwrap();
        assert_eq!(guess.schema.fields().len(), guess.kinds.len());
        assert!(!guess.kinds.is_empty());
    }
}

/// Given types name the columns of a file without a header.
#[test]
fn a_first_record_that_names_no_given_column_is_data() {
    let columns_of = |text: &str, types: Vec<FieldRef>| {
        let hints = Hints { types, ..Hints::default() };
        let guess = infer_sample("t.csv", text.as_bytes(), true, &[], &hints).unwrap();
        (guess.dialect.header, columns(&guess).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(","))
    };
    let two = || vec![given("k", DataType::Utf8View), given("v", DataType::Int64)];
    assert_eq!(columns_of("x,1\ny,2\n", two()), (false, "k,v".into()));
    assert_eq!(columns_of("name,count\nx,1\ny,2\n", two()), (false, "k,v".into()));
    assert_eq!(columns_of("V,K\n1,x\n2,y\n", two()), (true, "V,K".into()));
    assert_eq!(columns_of("k,v,w\nx,1,2\n", two()), (true, "k,v,w".into()));
    assert_eq!(columns_of("x,1,2\ny,3,4\n", two()), (false, "k,v,c3".into()));
}

#[test]
fn the_head_of_a_file_is_not_dropped() {
    let shape = |text: &str| {
        let guess = guess(text);
        (guess.dialect.skip_lines, guess.schema.fields().len(), guess.ragged_rows)
    };
    // Records that grow wider are ragged, whatever most of them are.
    assert_eq!(shape("a,b\n1,2\n3,4,5\n6,7,8\n"), (0, 2, (0, 2)));
    assert_eq!(shape("a,b\n3,4,5\n6,7,8\n"), (0, 2, (0, 2)));
    let grows: String = (0..2000).map(|i| if i < 1200 { "1,2\n" } else { "1,2,3\n" }).collect();
    assert_eq!(shape(&format!("a,b\n{grows}")), (0, 2, (0, 800)));
    assert_eq!(shape("a,b\n1,2\n3,4\n5,6,7\n8,9,10\n11,12,13\n1,2,3,4\n"), (0, 2, (0, 4)));
    // Lines before a table do not belong to it.
    assert_eq!(shape("Extract of 2025\nid;owner;n\n1;x;2\n2;y;3\n").0, 1);
    assert_eq!(shape("made on,2025\nid,owner,n\n1,x,2\n2,y,3\n").0, 1);
    assert_eq!(shape("title\n\nid,n\nx,y\nz,w\n").0, 2);
}

#[test]
fn comments_above_a_table_are_none_of_it() {
    let names = |text: &str| columns(&guess(text)).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(",");
    assert_eq!(names("# made by x\n# on 2025\nid,n\n1,2\n3,4\n"), "id,n");
    assert_eq!(names("# made by x, y\n# on 2025, 2026\nid,n\n1,2\n3,4\n"), "id,n");
    assert_eq!(names("# a, b\nid,n\n1,2\n3,4\n"), "id,n");
    assert_eq!(names("# one\n# two\nid\n1\n2\n"), "id");
    // The names themselves may have it.
    assert_eq!(names("#id,n\n1,2\n3,4\n"), "#id,n");
    // So may values.
    for rows in ["#rust,5\n#go,3\nplain,1\n", "#FF0000\n#00FF00\n#0000FF\nred\n", "#x\ncolour\n7\n"] {
        assert_eq!(guess(rows).dialect.comment, None, "{rows}");
    }
}

#[test]
fn one_bad_quote_among_many_rows_changes_nothing() {
    let row = |i: usize| format!("{i},\"Street {i}, Town\",\"x\"\n");
    let head = "id,address,note\n".to_string();
    for bad in ["7,\"Street \"7\", Town\",\"x\"\n", "7,\"no end, Town,x\n", "7,\"a\"b,\"x\"\n"] {
        let rows: String = (0..100).map(|i| if i == 60 { bad.to_string() } else { row(i) }).collect();
        let guess = guess(&format!("{head}{rows}"));
        assert_eq!((guess.dialect.quote, guess.schema.fields().len()), (Some(b'"'), 3), "{bad}");
        assert_eq!(columns(&guess)[1].1, "STRING");
    }
}

#[test]
fn figures_and_words_for_null_are_no_names() {
    for text in [
        "1,N/A\n2,3\n3,4\n",
        "1,-\n2,3\n",
        "1,007\n2,3\n",
        "1,12345678901234567890123456789012345678901234567890\n2,3\n",
        "NA\n2\n3\n",
        "1,2024-13-45\n2,2024-01-01\n",
        "-99,+1.5\n1,2\n",
    ] {
        let guess = guess(text);
        assert!(!guess.dialect.header, "{text}");
    }
    let nulls = guess("1,N/A\n2,3\n3,4\n");
    assert_eq!(columns(&nulls).into_iter().map(|(_, of)| of).collect::<Vec<_>>(), ["BIGINT", "BIGINT"]);
    for text in ["id,NA\n2,3\n", "name,year,2024\nx,3,4\n", "\"N/A\"\n2\n3\n", "#,7z\n1,2\n", "Größe\n1\n", "a-1\n1\n"]
    {
        assert!(guess(text).dialect.header, "{text}");
    }
}
