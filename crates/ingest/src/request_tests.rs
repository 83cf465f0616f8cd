//! Tests of each header: a value, and the parsed request or the error.

use super::*;

fn read(headers: &[(&str, &str)]) -> Result<StreamLoadRequest> {
    StreamLoadRequest::from_headers(headers.iter().map(|(n, v)| (*n, v.as_bytes())))
}

fn one(name: &str, value: &str) -> StreamLoadRequest {
    read(&[(name, value)]).unwrap_or_else(|e| panic!("{name}: {value}: {e}"))
}

#[test]
fn nothing_given_is_the_default() {
    let request = read(&[]).expect("no header is needed");
    assert_eq!(request, StreamLoadRequest::default());
    assert!(request.json.read_json_by_line);
    assert_eq!(request.timeout, LOAD_TIME_MAX);
    assert!(request.given.is_empty());
    // Empty values count as not given, names have no case.
    assert_eq!(read(&[("label", ""), ("timeout", "")]).expect("empty"), request);
    assert_eq!(one("LABEL", "l-1_a:b").label.as_deref(), Some("l-1_a:b"));
}

#[test]
fn errors() {
    let long = "x".repeat(129);
    let cases: &[(&[(&str, &str)], &str)] = &[
        (&[("timeout", "abc")], "[INVALID_ARGUMENT]Invalid format of 'timeout': 'abc', stoi"),
        (&[("timeout", "0")], "expected a number of seconds above 0"),
        (&[("exec_mem_limit", "2g")], "[INVALID_ARGUMENT]Invalid format of 'exec_mem_limit': '2g', stoi"),
        (&[("strict_mode", "yes")], "[INVALID_ARGUMENT]Invalid strict mode format. Must be bool type"),
        (&[("two_phase_commit", "yes")], "Invalid 'two_phase_commit': yes; expected true or false"),
        (&[("column_seperator", ";")], "unknown header 'column_seperator'; did you mean 'column_separator'?"),
        (&[("column-separator", ";")], "did you mean 'column_separator'?"),
        (&[("colums", "a")], "unknown header 'colums'; did you mean 'columns'?"),
        (&[("column", "a")], "did you mean 'columns'?"),
        (&[("wher", "a>1")], "did you mean 'where'?"),
        (&[("lable", "l")], "did you mean 'label'?"),
        (&[("labels", "l")], "did you mean 'label'?"),
        (&[("formatt", "json")], "did you mean 'format'?"),
        (&[("strict", "true")], "did you mean 'strict_mode'?"),
        (&[("compress", "gz")], "did you mean 'compress_type'?"),
        (&[("delete_on", "a=1")], "did you mean 'delete'?"),
        (&[("sequence_col", "ts")], "did you mean 'function_column.sequence_col'?"),
        (&[("read_json_by_line", "q")], "Invalid 'read_json_by_line': q; expected true or false"),
        (&[("enable_profile", "zz")], "Invalid 'enable_profile': zz; expected true or false"),
        (&[("send_batch_parallelism", "abc")], "Invalid format of 'send_batch_parallelism': 'abc', stoi"),
        (
            &[("merge_condition", "v"), ("merge_type", "DELETE")],
            "'merge_condition' says nothing about rows that delete",
        ),
        (
            &[("merge_condition", "v"), ("unique_key_update_mode", "UPDATE_FLEXIBLE_COLUMNS"), ("format", "json")],
            "Don't support flexible partial update when 'merge_condition' is specified",
        ),
        (&[("format", "xml")], "unknown data format, format=xml"),
        (&[("channel_num", "2")], "header 'channel_num' is not supported: a transaction has one channel"),
        (&[("partial_update_mode", "fast")], "Invalid 'partial_update_mode': fast; expected auto, row or column"),
        (&[("log_rejected_record_num", "all")], "Invalid format of 'log_rejected_record_num': 'all', stoi"),
        (&[("format", "ORC")], "data format 'ORC' is not supported; write it as parquet"),
        (&[("compress_type", "lzo")], "compress_type 'lzo' is not supported; pack it anew as gz or zstd"),
        (&[("compression", "snap")], "compress_type 'snap' is not supported; expected gz, bz2"),
        (&[("compress_type", "utf-8")], "compress_type 'utf-8' is not supported"),
        (&[("content-encoding", "br")], "Content-Encoding 'br' is not supported; expected gz"),
        (&[("format", "parquet"), ("compress_type", "gz")], "compress_type is for csv and json"),
        (&[("enclose", "ab")], "enclose must be single-char, actually is ab"),
        (&[("escape", "ab")], "escape must be single-char, actually is ab"),
        (&[("skip_lines", "-1")], "Invalid 'skip_lines': -1"),
        (&[("skip_lines", "x")], "Invalid format of 'skip_lines': 'x', stoi"),
        (&[("column_separator", "\\x0")], "expected pairs of hexadecimal digits"),
        (&[("column_separator", "\\xzz")], "expected pairs of hexadecimal digits"),
        (&[("max_filter_ratio", "2")], "expected a number from 0 to 1"),
        (&[("max_filter_ratio", "NaN")], "expected a number from 0 to 1"),
        (&[("max_filter_ratio", "much")], "Invalid format of 'max_filter_ratio'"),
        (&[("merge_type", "merge")], "Excepted DELETE ON clause when merge type is MERGE."),
        (&[("delete", "a = 1")], "Not support DELETE ON clause when merge type is not MERGE."),
        (&[("merge_type", "upsert")], "Invalid merge type upsert"),
        (&[("columns", "a,,b")], "expected a name or name = expression, found ''"),
        (&[("columns", "a, b = ")], "expected '=' and an expression behind 'b'"),
        (&[("columns", "a, b = f(a")], "a bracket is not closed"),
        (&[("columns", "a, b = 'x")], "' is not closed"),
        (&[("columns", "a + 1")], "expected '=' and an expression behind 'a', found '+ 1'"),
        (
            &[("partitions", "p1"), ("temporary_partitions", "t1")],
            "Can not specify both partitions and temporary partitions",
        ),
        (&[("label", "a b")], "Label format error. regex: ^[-_A-Za-z0-9:]{1,128}$, label: a b"),
        (&[("label", &long)], "Label format error."),
        (&[("label", "l"), ("group_commit", "sync_mode")], "label and group_commit can't be set at the same time"),
        (&[("group_commit", "on")], "group_commit can only be [async_mode, sync_mode, off_mode]"),
        (&[("unique_key_update_mode", "some")], "Invalid unique_key_update_mode some, must be one of"),
        (&[("partial_update_new_key_behavior", "x")], "must be one of {'APPEND', 'ERROR'}"),
        (&[("unique_key_update_mode", "UPDATE_FLEXIBLE_COLUMNS")], "only support json format"),
        (
            &[("unique_key_update_mode", "UPDATE_FLEXIBLE_COLUMNS"), ("format", "json"), ("where", "a > 1")],
            "Don't support flexible partial update when 'where' is specified",
        ),
        (&[("jsonpaths", "$.a")], "Invalid json path: expected an array of strings"),
    ];
    for (headers, expected) in cases {
        let error = read(headers).expect_err(&format!("{headers:?}")).to_string();
        assert!(error.starts_with("[INVALID_ARGUMENT]"), "{headers:?}: {error}");
        assert!(error.contains(expected), "{headers:?}: {error}");
    }
    let bad: &[u8] = b"\xff";
    assert!(StreamLoadRequest::from_headers([("label", bad)]).is_err());
}

#[test]
fn separators() {
    let cases: &[(&str, &[u8])] = &[
        (",", b","),
        ("||", b"||"),
        ("\\x01", b"\x01"),
        ("\\X01\\x02", b"\x01\x02"),
        ("0x0a0D", b"\n\r"),
        ("\\t", b"\t"),
        ("\\n|", b"\n|"),
        ("\\", b"\\"),
        ("、", "、".as_bytes()),
    ];
    for (text, bytes) in cases {
        assert_eq!(one("column_separator", text).csv.column_separator, *bytes, "{text}");
        assert_eq!(one("line_delimiter", text).csv.line_delimiter, *bytes, "{text}");
    }
    assert_eq!(one("enclose", "\\x22").csv.enclose, Some(b'"'));
    assert_eq!(one("escape", "\\").csv.escape, Some(b'\\'));
}

#[test]
fn values() {
    let packed = |name, value| one(name, value).compression;
    for (value, codec) in [
        ("GZIP", Compression::Gzip),
        ("bzip2", Compression::Bzip2),
        ("lz4_frame", Compression::Lz4),
        ("plain", Compression::None),
    ] {
        assert_eq!((packed("compression", value), packed("compress_type", value)), (codec, codec), "{value}");
    }
    assert_eq!(packed("Content-Encoding", "gzip"), Compression::Gzip);
    assert_eq!(packed("Content-Encoding", "UTF-8"), Compression::None);
    let both = read(&[("content-encoding", "gzip"), ("compress_type", "zstd")]).expect("the load's own counts");
    assert_eq!(both.compression, Compression::Zstd);
    assert_eq!(one("format", "hive_text").format, Format::HiveText);
    assert_eq!(one("format", "Arrow").format, Format::Arrow);
    for (name, value) in
        [("warehouse", "w"), ("enable_merge_commit", "true"), ("partial_update_mode", "Column"), ("load_dop", "4")]
    {
        assert_eq!(one(name, value), StreamLoadRequest::default(), "{name}");
    }
    assert_eq!(one("format", "CSV_with_names").format, Format::Csv { head_lines: 1 });
    assert_eq!(one("format", "csv_with_names_and_types").format, Format::Csv { head_lines: 2 });
    assert_eq!(one("format", "JSON").format, Format::Json);
    assert_eq!(one("compress_type", "GZ").compression, Compression::Gzip);
    assert_eq!(one("compress_type", "lz4").compression, Compression::Lz4);
    assert!(one("trim_double_quotes", "true").csv.trim_double_quotes);
    assert!(one("empty_field_as_null", "TRUE").csv.empty_field_as_null);
    assert_eq!(one("skip_lines", "3").csv.skip_lines, 3);
    assert_eq!(one("timeout", "60").timeout, Duration::from_secs(60));
    // Doris's default, which clients send: longer than a load may take.
    assert_eq!(one("timeout", "259200").timeout, LOAD_TIME_MAX);
    let (_, meaning) = HEADERS.iter().find(|(name, _)| *name == "timeout").unwrap();
    assert!(meaning.contains(&format!("at most {} ", LOAD_TIME_MAX.as_secs())), "{meaning}");
    assert_eq!(one("row_delimiter", "x").given, ["line_delimiter"]);
    assert_eq!(one("format", "csv").given, ["format"], "also where it is the default");
    assert!(one("format", "").given.is_empty());
    assert_eq!(one("exec_mem_limit", "1048576").memory_bytes, Some(1 << 20));
    assert_eq!(one("max_filter_ratio", "0.25").max_filter_ratio, 0.25);
    assert!(one("strict_mode", "True").strict_mode);
    assert_eq!(one("timezone", "Asia/Shanghai").timezone.as_deref(), Some("Asia/Shanghai"));
    assert_eq!(one("time_zone", "+08:00").timezone.as_deref(), Some("+08:00"));
    assert!(one("two_phase_commit", "true").two_phase_commit);
    assert!(one("negative", "true").negative);
    assert_eq!(one("where", "a > 1").where_.as_deref(), Some("a > 1"));
    assert_eq!(one("merge_type", "DELETE").merge_type, MergeType::Delete);
    assert_eq!(read(&[("merge_type", "MERGE"), ("delete", "flag=1")]).expect("merge").merge_type, MergeType::Merge);
    assert_eq!(one("partial_columns", "true").update_mode, UpdateMode::FixedColumns);
    assert_eq!(one("unique_key_update_mode", "update_fixed_columns").update_mode, UpdateMode::FixedColumns);
    assert_eq!(one("partial_update_new_key_behavior", "error").new_keys, NewKeys::Error);
    assert_eq!(one("function_column.sequence_col", "ts").sequence_col.as_deref(), Some("ts"));
    assert_eq!(one("merge_condition", "`ts`").merge_condition.as_deref(), Some("ts"));
    assert!(one("label", "a").may_share() && !one("merge_condition", "ts").may_share());
    assert_eq!(one("partitions", "p1, `p 2`").partitions, ["p1", "p 2"]);
    assert!(one("temporary_partitions", "t").temporary_partitions);
    assert_eq!(one("hidden_columns", "a,b").hidden_columns, ["a", "b"]);
    assert_eq!(one("comment", "why").comment, "why");
}

#[test]
fn headers_of_others_are_passed_over() {
    let http = [
        "host",
        "accept",
        "accept-encoding",
        "user-agent",
        "content-type",
        "connection",
        "expect",
        "date",
        "range",
        "from",
        "via",
        "te",
        "cookie",
        "origin",
        "referer",
        "authorization",
        "x-format",
        "token",
        "sql",
        "transfer-encoding",
        "traceparent",
        "cache-control",
        "upgrade-insecure-requests",
        "redirect-policy",
        "db",
    ];
    for name in http {
        assert_eq!(read(&[(name, "1")]).expect(name), StreamLoadRequest::default(), "{name}");
    }
}

/// The label of a load that announces a large body is taken before the body.
#[test]
fn labelled_loads_share_if_they_may_be_small() {
    let shares = |headers: &[(&str, &str)]| read(headers).expect("valid").may_share();
    let length = |bytes: u64| bytes.to_string();
    assert!(shares(&[]) && shares(&[("content-length", &length(u64::MAX))]) && shares(&[("label", "l")]));
    assert!(shares(&[("label", "l"), ("content-length", &length(MEMBER_BYTES_MAX))]));
    for refused in [
        vec![("label", "l"), ("content-length", &*length(MEMBER_BYTES_MAX + 1))],
        vec![("label", "l"), ("content-length", "1"), ("two_phase_commit", "true")],
        vec![("label", "l"), ("content-length", "1"), ("group_commit", "off_mode")],
        vec![("label", "l"), ("content-length", "1"), ("partial_columns", "true")],
    ] {
        assert!(!shares(&refused), "{refused:?}");
    }
}

#[test]
fn json_switches() {
    let array = one("strip_outer_array", "true").json;
    assert!(array.strip_outer_array && !array.read_json_by_line);
    let both = read(&[("strip_outer_array", "true"), ("read_json_by_line", "true")]).expect("both").json;
    assert!(both.strip_outer_array && both.read_json_by_line);
    assert!(!one("strip_outer_array", "false").json.read_json_by_line);
    assert!(!one("read_json_by_line", "false").json.read_json_by_line);
    let paths = one("jsonpaths", r#"["$.a", "$.b.c[0]"]"#).json.jsonpaths.expect("paths");
    assert_eq!(paths, ["$.a", "$.b.c[0]"]);
    assert_eq!(one("json_root", "$.data").json.json_root.as_deref(), Some("$.data"));
    assert!(one("num_as_string", "true").json.num_as_string);
}

#[test]
fn column_lists() {
    let body = |n: &str| ColumnItem::Body(n.into());
    let derived = |n: &str, e: &str| ColumnItem::Derived { name: n.into(), expression: e.into() };
    let cases: &[(&str, Vec<ColumnItem>)] = &[
        ("a", vec![body("a")]),
        ("a, `b c` ,d", vec![body("a"), body("b c"), body("d")]),
        ("a,b,c=upper(b)", vec![body("a"), body("b"), derived("c", "upper(b)")]),
        (
            "a, b = concat(a, ',', \")\") , c=a=1",
            vec![body("a"), derived("b", "concat(a, ',', \")\")"), derived("c", "a=1")],
        ),
        ("a, `b`=if(a>1,'it\\'s,',a)", vec![body("a"), derived("b", "if(a>1,'it\\'s,',a)")]),
        ("时间,x=[1,2]", vec![body("时间"), derived("x", "[1,2]")]),
    ];
    for (list, expected) in cases {
        assert_eq!(columns(list).expect(list), *expected, "{list}");
    }
}

#[test]
fn headers_of_starrocks_and_of_http() {
    assert_eq!(one("row_delimiter", "|").csv.line_delimiter, b"|");
    assert_eq!(one("skip_header", "1").csv.skip_lines, 1);
    for other in ["user-agent", "accept-encoding", "content-type", "connection", "x-forwarded-for"] {
        assert!(read(&[(other, "x")]).is_ok(), "{other}");
    }
}

#[test]
fn grouped_only_where_nothing_speaks_against_it() {
    assert!(one("group_commit", "async_mode").grouped());
    assert!(!one("group_commit", "off_mode").grouped());
    for other in [("partial_columns", "true"), ("partitions", "p"), ("two_phase_commit", "true")] {
        assert!(!read(&[("group_commit", "sync_mode"), other]).expect("accepted").grouped(), "{other:?}");
    }
}
