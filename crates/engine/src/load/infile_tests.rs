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
