//! `serialization.encoding`: Java's character set names.

use std::borrow::Cow;

use encoding_rs::Encoding;

/// A character set, by the name that Java uses for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Charset {
    /// UTF-8, which needs no conversion.
    Utf8,
    /// ISO-8859-1. The web's tables treat its name as windows-1252, which differs from 0x80 to 0x9F.
    Latin1,
    /// US-ASCII; bytes from 0x80 on become U+FFFD.
    Ascii,
    /// Any other character set, by the web's tables.
    Other(&'static Encoding),
}

impl Charset {
    /// Returns the character set of this name, in any case; `None` if there is none.
    pub fn for_name(name: &str) -> Option<Charset> {
        const LATIN1: [&str; 13] = [
            "iso-8859-1",
            "iso8859-1",
            "iso8859_1",
            "iso_8859-1",
            "iso_8859_1",
            "8859_1",
            "latin1",
            "l1",
            "cp819",
            "ibm819",
            "ibm-819",
            "iso-ir-100",
            "csisolatin1",
        ];
        const ASCII: [&str; 8] =
            ["us-ascii", "ascii", "ascii7", "iso646-us", "iso_646.irv:1991", "ansi_x3.4-1968", "cp367", "csascii"];
        // Java's own names for sets that the web's tables name differently.
        const JAVA: [(&str, &str); 16] = [
            ("cp936", "gbk"),
            ("ms936", "gbk"),
            ("x-mswin-936", "gbk"),
            ("windows-936", "gbk"),
            ("euc_cn", "gb2312"),
            ("euc-cn", "gb2312"),
            ("euc_jp", "euc-jp"),
            ("eucjp", "euc-jp"),
            ("euc_kr", "euc-kr"),
            ("ms932", "shift_jis"),
            ("windows-932", "shift_jis"),
            ("ms949", "euc-kr"),
            ("ms950", "big5"),
            ("x-windows-950", "big5"),
            ("cp1251", "windows-1251"),
            ("utf_8", "utf-8"),
        ];
        let lower = name.trim().to_ascii_lowercase();
        if LATIN1.contains(&lower.as_str()) {
            return Some(Charset::Latin1);
        }
        if ASCII.contains(&lower.as_str()) {
            return Some(Charset::Ascii);
        }
        let label = JAVA.iter().find(|(java, _)| *java == lower).map_or(lower.as_str(), |(_, web)| web);
        match Encoding::for_label_no_replacement(label.as_bytes()) {
            Some(encoding) if encoding == encoding_rs::UTF_8 => Some(Charset::Utf8),
            other => other.map(Charset::Other),
        }
    }

    /// Decodes `bytes` to UTF-8. Malformed sequences become U+FFFD, except under [`Charset::Utf8`], which changes
    /// nothing.
    pub fn decode<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if bytes.is_ascii() && self.keeps_ascii() {
            return Cow::Borrowed(bytes);
        }
        let text: String = match self {
            Charset::Utf8 => return Cow::Borrowed(bytes),
            Charset::Latin1 => bytes.iter().map(|&b| char::from(b)).collect(),
            Charset::Ascii => {
                bytes.iter().map(|&b| if b < 0x80 { char::from(b) } else { char::REPLACEMENT_CHARACTER }).collect()
            }
            Charset::Other(encoding) if *encoding == encoding_rs::GBK && bytes.contains(&0x80) => decode_gbk(bytes),
            Charset::Other(encoding) => {
                // No byte order mark is handled: a line is not a file.
                return match encoding.decode_without_bom_handling(bytes).0 {
                    Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
                    Cow::Owned(text) => Cow::Owned(text.into_bytes()),
                };
            }
        };
        Cow::Owned(text.into_bytes())
    }

    /// Encodes `text`, which is UTF-8, in this character set.
    ///
    /// # Errors
    /// The first character that the set lacks. (Java writes a question mark in its place.)
    pub fn encode<'a>(&self, text: &'a [u8]) -> Result<Cow<'a, [u8]>, char> {
        if matches!(self, Charset::Utf8) || (text.is_ascii() && self.keeps_ascii()) {
            return Ok(Cow::Borrowed(text));
        }
        let text = java_lossy(text);
        let limit = match self {
            Charset::Latin1 => 0x100,
            Charset::Ascii => 0x80,
            Charset::Utf8 => 0x11_0000,
            Charset::Other(encoding) => return encode_with(encoding, &text).map(Cow::Owned),
        };
        let byte = |c: char| if u32::from(c) < limit { Ok(c as u8) } else { Err(c) };
        text.chars().map(byte).collect::<Result<Vec<u8>, char>>().map(Cow::Owned)
    }

    /// Whether ASCII bytes stand for themselves, so that line ends are found in the raw bytes.
    pub(crate) fn is_ascii_compatible(&self) -> bool {
        self.keeps_ascii()
    }

    fn keeps_ascii(&self) -> bool {
        match self {
            Charset::Other(encoding) => encoding.is_ascii_compatible(),
            _ => true,
        }
    }
}

/// Decodes GBK with bytes 0x80, which the web's tables read as a euro sign and Java as malformed.
fn decode_gbk(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    let (mut from, mut at) = (0, 0);
    while at < bytes.len() {
        if bytes[at] == 0x80 {
            out.push_str(&encoding_rs::GBK.decode_without_bom_handling(&bytes[from..at]).0);
            out.push(char::REPLACEMENT_CHARACTER);
            from = at + 1;
        }
        at += if bytes[at] > 0x80 { 2 } else { 1 };
    }
    out.push_str(&encoding_rs::GBK.decode_without_bom_handling(&bytes[from..]).0);
    out
}

/// Encodes text; UTF-16, which the web's tables only decode, is written by hand.
fn encode_with(encoding: &'static Encoding, text: &str) -> Result<Vec<u8>, char> {
    if encoding == encoding_rs::UTF_16BE {
        return Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect());
    }
    if encoding == encoding_rs::UTF_16LE {
        return Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect());
    }
    let mut encoder = encoding.new_encoder();
    let mut out = Vec::with_capacity(text.len() * 2 + 16);
    let mut rest = text;
    loop {
        let (result, read) = encoder.encode_from_utf8_to_vec_without_replacement(rest, &mut out, true);
        rest = &rest[read..];
        match result {
            encoding_rs::EncoderResult::InputEmpty => return Ok(out),
            encoding_rs::EncoderResult::Unmappable(c) => return Err(c),
            encoding_rs::EncoderResult::OutputFull => out.reserve(rest.len() * 4 + 16),
        }
    }
}

/// Returns UTF-8 with malformed sequences replaced by U+FFFD in the way of Java's decoder. It agrees with Rust's,
/// except that a surrogate half encoded as three bytes (`ED A0 80` to `ED BF BF`) is one replacement, not three.
pub fn java_lossy(bytes: &[u8]) -> Cow<'_, str> {
    match simdutf8::basic::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut out = String::with_capacity(bytes.len() + 8);
            let mut rest = bytes;
            while !rest.is_empty() {
                let valid = match std::str::from_utf8(rest) {
                    Ok(text) => text,
                    Err(error) => std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default(),
                };
                out.push_str(valid);
                rest = &rest[valid.len()..];
                if rest.is_empty() {
                    break;
                }
                out.push(char::REPLACEMENT_CHARACTER);
                let skip = match rest {
                    [0xED, 0xA0..=0xBF, 0x80..=0xBF, ..] => 3,
                    // Two bytes of a surrogate half, then something else: Java replaces both at once.
                    [0xED, 0xA0..=0xBF, ..] => 2,
                    _ => match std::str::from_utf8(rest) {
                        Err(error) => error.error_len().unwrap_or(rest.len()),
                        Ok(_) => 0,
                    },
                };
                rest = &rest[skip..];
            }
            Cow::Owned(out)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(Charset::for_name("UTF-8"), Some(Charset::Utf8));
        assert_eq!(Charset::for_name("utf8"), Some(Charset::Utf8));
        assert_eq!(Charset::for_name("ISO-8859-1"), Some(Charset::Latin1));
        assert_eq!(Charset::for_name("GBK"), Some(Charset::Other(encoding_rs::GBK)));
        assert_eq!(Charset::for_name("MS936"), Some(Charset::Other(encoding_rs::GBK)));
        assert_eq!(Charset::for_name("replacement"), None);
        assert_eq!(Charset::for_name("nothing"), None);
    }

    #[test]
    fn latin1_is_not_windows_1252() {
        assert_eq!(Charset::Latin1.decode(&[0x80, 0xE9]), "\u{80}é".as_bytes());
        assert_eq!(Charset::Latin1.encode("é".as_bytes()).unwrap(), [0xE9].as_slice());
        assert_eq!(Charset::Latin1.encode("é€".as_bytes()), Err('€'));
    }

    #[test]
    fn both_ways() {
        for name in ["GBK", "GB18030", "Big5", "Shift_JIS", "EUC-JP", "UTF-16BE", "UTF-16LE"] {
            let charset = Charset::for_name(name).unwrap();
            let text = "表中文 x,1\n".as_bytes();
            assert_eq!(charset.decode(&charset.encode(text).unwrap()), text, "{name}");
        }
        let gbk = Charset::for_name("GBK").unwrap();
        assert_eq!(gbk.encode("中文".as_bytes()).unwrap(), [0xD6, 0xD0, 0xCE, 0xC4].as_slice());
        assert_eq!(gbk.encode("😀".as_bytes()), Err('😀'));
    }

    #[test]
    fn lossy_as_java() {
        assert_eq!(java_lossy(b"a\xED\xA0\x80b"), "a\u{FFFD}b");
        assert_eq!(java_lossy(b"\xFF\xFE"), "\u{FFFD}\u{FFFD}");
        assert_eq!(java_lossy(b"a\xE6\x97"), "a\u{FFFD}");
        assert_eq!(java_lossy(b"\xE6\x97A"), "\u{FFFD}A");
        assert_eq!(java_lossy("é".as_bytes()), "é");
    }
}
