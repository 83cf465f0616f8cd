//! `binary` values: a value that is valid base64 is decoded, any other value is the raw bytes.
//!
//! Decoding follows Java's basic decoder: padding may be missing, but not half of it; left-over bits are ignored.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig, NO_PAD};

const CONFIG: GeneralPurposeConfig = NO_PAD.with_decode_allow_trailing_bits(true);
const ENGINE: GeneralPurpose = GeneralPurpose::new(&STANDARD, CONFIG);

/// Cheaply rules out most values that are not base64.
pub(super) fn may_decode(value: &[u8]) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    value.len() > 1 && plain(value[0]) && plain(value[value.len() - 1])
}

/// Appends the decoded `value`; returns `false`, possibly with garbage appended, if it is not base64.
pub(super) fn decode(value: &[u8], out: &mut Vec<u8>) -> bool {
    if !may_decode(value) {
        return false;
    }
    let digits = match value {
        [digits @ .., b'=', b'='] | [digits @ .., b'='] if value.len().is_multiple_of(4) => digits,
        _ => value,
    };
    ENGINE.decode_vec(digits, out).is_ok()
}

/// Appends `value` in base64, padded: as Hive writes it.
pub(crate) fn encode(value: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.resize(start + value.len().div_ceil(3) * 4, 0);
    let written = base64::engine::general_purpose::STANDARD.encode_slice(value, &mut out[start..]);
    debug_assert_eq!(written.ok(), Some(out.len() - start));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_java_decodes() {
        for (text, expected) in [
            ("aGVsbG8=", Some("hello")),
            ("aGVsbG8", Some("hello")),
            ("QU", Some("A")),
            ("QUI=", Some("AB")),
            ("AA=", None),
            ("A", None),
            ("A===", None),
            ("====", None),
            ("ab=d", None),
            ("aGVsbG8==", None),
            ("aGVs bG8=", None),
            ("", None),
        ] {
            let mut out = Vec::new();
            let found = decode(text.as_bytes(), &mut out).then(|| String::from_utf8(out).unwrap());
            assert_eq!(found.as_deref(), expected, "{text}");
        }
        let mut out = b"x".to_vec();
        encode(b"hello", &mut out);
        assert_eq!(out, b"xaGVsbG8=");
    }
}
