use super::*;

fn replaced(escape: u8, enclose: Option<u8>, text: &str, step: usize) -> io::Result<String> {
    let mut letters = Letters::new(escape, enclose);
    let mut out = Vec::new();
    for chunk in text.as_bytes().chunks(step) {
        out.extend_from_slice(&letters.replace(Bytes::copy_from_slice(chunk))?);
    }
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn letters_in_every_cut() {
    let text = r"a\tb\\n\N\0\Z\q|x";
    for step in 1..=text.len() {
        assert_eq!(replaced(b'\\', None, text, step).unwrap(), "a\\\tb\\\\n\\N\\\0\\\x1a\\q|x");
        assert_eq!(replaced(b'|', None, "a\\t|t", step).unwrap(), "a\\t|\t");
        let enclosed = replaced(b'\\', Some(b'"'), r#""a\tb",\N,"c\"\n""#, step).unwrap();
        assert_eq!(enclosed, "\"a\\\tb\",\\N,\"c\\\"\\\n\"");
        let refused = replaced(b'\\', Some(b'"'), r#""a",b\tc"#, step).unwrap_err().to_string();
        assert!(refused.starts_with("byte 6: an escape in a field that is not enclosed"), "{refused}");
    }
}

fn stripped(mut starts: Starts, text: &str, step: usize) -> String {
    let mut out: Vec<u8> = text.as_bytes().chunks(step).flat_map(|chunk| starts.strip(chunk, false)).collect();
    out.extend_from_slice(&starts.strip(&[], true));
    String::from_utf8(out).unwrap()
}

#[test]
fn prefixes_in_every_cut() {
    let starts = |prefix: &str, line_end: &str, enclose, skip| Starts {
        prefix: prefix.into(),
        line_end: line_end.into(),
        enclose,
        escape: Some(b'\\'),
        skip,
        held: Vec::new(),
        within: Within::Before,
    };
    // As in MySQL's manual: the text before the prefix is removed with it, and so are lines without the prefix.
    let text = "xxx\"abc\",1\nsomething xxx\"def\",2\n\"ghi\",3\nxxx4";
    let quoted = "h\nxxx1,\"a\nxxx\",2\nxxx3,\\\nxxx\nno\n";
    for step in 1..=text.len() {
        assert_eq!(stripped(starts("xxx", "\n", None, 0), text, step), "\"abc\",1\n\"def\",2\n4");
        assert_eq!(stripped(starts("xxx", "\n", None, 1), text, step), "\"def\",2\n4");
        assert_eq!(stripped(starts("xxx", "\n", Some(b'"'), 1), quoted, step), "1,\"a\nxxx\",2\n3,\\\nxxx\n");
        assert_eq!(stripped(starts("aab", "||", None, 0), "aaab1||aab2|||aab3|", step), "1||2||3|");
    }
}

#[test]
fn character_sets_in_every_cut() {
    let recoded = |name: &str, bytes: &[u8], step: usize| -> io::Result<String> {
        let mut recode = Recode::new(Charset::for_name(name).unwrap());
        let mut out = Vec::new();
        for chunk in bytes.chunks(step) {
            out.extend_from_slice(&recode.recode(Some(Bytes::copy_from_slice(chunk)))?);
        }
        out.extend_from_slice(&recode.recode(None)?);
        Ok(String::from_utf8(out).unwrap())
    };
    let gbk = b"1\t\xc4\xe3\xba\xc3\n2\t\xd6\xd0\xce\xc4";
    for step in 1..=gbk.len() {
        assert_eq!(recoded("gbk", gbk, step).unwrap(), "1\t你好\n2\t中文");
        assert_eq!(recoded("windows-1252", b"\xe9\x80\n\xfc", step).unwrap(), "é€\nü");
        let refused = recoded("euc-kr", b"a\n\xff\xff\nb", step).unwrap_err().to_string();
        assert!(refused.contains("are not all characters"), "{refused}");
    }
}
