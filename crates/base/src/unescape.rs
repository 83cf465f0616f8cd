//! Escape sequences in the delimiters of text files.

/// Returns the bytes that a delimiter stands for: `\t`, `\n`, `\r`, `\\`, `\0`, `\x01` in delimiters, as Doris writes
/// them.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut i = 0;
    while i < bytes.len() {
        let hex =
            |at: usize| bytes.get(at..at + 2).and_then(|h| u8::from_str_radix(std::str::from_utf8(h).ok()?, 16).ok());
        match (bytes[i], bytes.get(i + 1)) {
            (b'\\', Some(b't')) => out.push(b'\t'),
            (b'\\', Some(b'n')) => out.push(b'\n'),
            (b'\\', Some(b'r')) => out.push(b'\r'),
            (b'\\', Some(b'0')) => out.push(0),
            (b'\\', Some(b'\\')) => out.push(b'\\'),
            (b'\\', Some(b'x' | b'X')) if hex(i + 2).is_some() => {
                out.extend(hex(i + 2));
                i += 2;
            }
            (byte, _) => {
                out.push(byte);
                i += 1;
                continue;
            }
        }
        i += 2;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delimiters() {
        for (written, bytes) in [
            ("\\t", &b"\t"[..]),
            ("\\x01", b"\x01"),
            ("\\X7c", b"|"),
            ("||", b"||"),
            ("\\\\n", b"\\n"),
            ("\\x", b"\\x"),
            ("\\q", b"\\q"),
            ("", b""),
        ] {
            assert_eq!(unescape(written), bytes, "{written}");
        }
    }
}
