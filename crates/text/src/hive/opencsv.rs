//! Lines of OpenCSVSerde, cut as opencsv 2.3 cuts them, oddities included.
//!
//! - The escape takes effect in quotes and in fields that have begun; before a quote or an escape it is replaced by
//!   that character, before anything else it simply vanishes.
//! - A quote inside a field is kept if neither neighbour is a separator (and it is not among the line's first three
//!   characters), and starts or ends quoting all the same.
//! - A field left open at the end of the line is dropped.

/// The three characters, as units of `T` (bytes, or `char`s where one of them is not ASCII).
#[derive(Debug, Clone, Copy)]
pub(super) struct Marks<T> {
    pub(super) separator: T,
    pub(super) quote: T,
    pub(super) escape: T,
}

/// A unit of text: a byte of UTF-8 or a character.
pub(super) trait Unit: Copy + Eq {
    /// Returns the number of UTF-16 units that end with this unit.
    fn utf16(self) -> usize;
    /// Whether all of this text is white space to Java.
    fn is_blank(text: &[Self]) -> bool;
}

/// Java's `Character.isWhitespace`: separators but the non-breaking ones, and some control characters.
fn is_java_white(c: char) -> bool {
    match c {
        '\t'..='\r' | '\u{1C}'..='\u{20}' => true,
        '\u{A0}' | '\u{2007}' | '\u{202F}' | '\u{85}' => false,
        _ => c.is_whitespace(),
    }
}

impl Unit for u8 {
    fn utf16(self) -> usize {
        match self {
            0x80..=0xBF => 0,
            0xF0.. => 2,
            _ => 1,
        }
    }
    fn is_blank(text: &[u8]) -> bool {
        std::str::from_utf8(text).is_ok_and(|text| text.chars().all(is_java_white))
    }
}

impl Unit for char {
    fn utf16(self) -> usize {
        self.len_utf16()
    }
    fn is_blank(text: &[char]) -> bool {
        text.iter().all(|c| is_java_white(*c))
    }
}

/// Calls `field` with each field of `line`, which is valid UTF-8 when made of bytes.
///
/// `line` holds line ends only if records end otherwise (`textinputformat.record.delimiter`); then the text behind one
/// counts only inside quotes, where the line end becomes a line feed.
pub(super) fn split<T: Unit + From<u8>>(line: &[T], marks: Marks<T>, field: &mut impl FnMut(&[T])) {
    let (feed, ret) = (T::from(b'\n'), T::from(b'\r'));
    let mut rest = line;
    let mut open: Option<Open<T>> = None;
    // Java's reader yields no line at the end of its input: an empty record has no field.
    while !rest.is_empty() {
        let end = rest.iter().position(|unit| *unit == feed || *unit == ret).unwrap_or(rest.len());
        let line = &rest[..end];
        let crlf = rest.get(end) == Some(&ret) && rest.get(end + 1) == Some(&feed);
        rest = rest.get(end + if crlf { 2 } else { 1 }..).unwrap_or_default();
        open = split_line(line, marks, open, field);
        if open.is_none() {
            return;
        }
    }
}

/// The start of a quoted field that the line did not end, and whether the parser considers a field begun.
type Open<T> = (Vec<T>, bool);

/// Cuts one line; `open` comes from the previous line. Returns the field left open.
fn split_line<T: Unit + From<u8>>(
    line: &[T],
    marks: Marks<T>,
    open: Option<Open<T>>,
    field: &mut impl FnMut(&[T]),
) -> Option<Open<T>> {
    let mut in_quotes = open.is_some();
    let (mut text, mut in_field) = open.unwrap_or_default();
    let mut at = 0;
    while at < line.len() {
        let unit = line[at];
        let next = line.get(at + 1).copied();
        let inside = in_quotes || in_field;
        if unit == marks.escape {
            if let Some(next) = next.filter(|next| inside && (*next == marks.quote || *next == marks.escape)) {
                text.push(next);
                at += 1;
            }
        } else if unit == marks.quote {
            if inside && next == Some(marks.quote) {
                text.push(marks.quote);
                at += 1;
            } else {
                // Far enough in: the preceding text has more than two UTF-16 units.
                let late = at > 8 || line[..at].iter().map(|unit| unit.utf16()).sum::<usize>() > 2;
                if late && line[at - 1] != marks.separator && next.is_some_and(|next| next != marks.separator) {
                    if !text.is_empty() && T::is_blank(&text) {
                        text.clear();
                    } else {
                        text.push(unit);
                    }
                }
                in_quotes = !in_quotes;
            }
            in_field = !in_field;
        } else if unit == marks.separator && !in_quotes {
            field(&text);
            text.clear();
            in_field = false;
        } else {
            text.push(unit);
            in_field = true;
        }
        at += 1;
    }
    if in_quotes {
        text.push(T::from(b'\n'));
        return Some((text, in_field));
    }
    field(&text);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(line: &str, separator: char, quote: char, escape: char) -> Vec<String> {
        let chars: Vec<char> = line.chars().collect();
        let mut fields = Vec::new();
        split(&chars, Marks { separator, quote, escape }, &mut |field: &[char]| fields.push(field.iter().collect()));
        if separator.is_ascii() && quote.is_ascii() && escape.is_ascii() {
            let marks = Marks { separator: separator as u8, quote: quote as u8, escape: escape as u8 };
            let mut bytes: Vec<String> = Vec::new();
            split(line.as_bytes(), marks, &mut |field: &[u8]| bytes.push(String::from_utf8(field.to_vec()).unwrap()));
            assert_eq!(bytes, fields, "{line:?}");
        }
        fields
    }

    #[test]
    fn oddities() {
        for (line, expected) in [
            ("x\"y\"z,w", vec!["xy\"z", "w"]),
            (" \"x\" , \"y\"", vec![" x\" ", "y"]),
            ("éé\"x\",y", vec!["ééx", "y"]),
            ("😀a\"x\",y", vec!["😀a\"x", "y"]),
            ("\u{3000}\u{3000}\u{3000}\"x\"", vec!["x"]),
            ("a\\nb,\"c\\,d\"", vec!["anb", "c,d"]),
            ("1,\"open", vec!["1"]),
            ("", vec![]),
            ("1,\"a\r\nb\",2\nignored", vec!["1", "a\nb", "2"]),
            ("one\ntwo", vec!["one"]),
            ("\nx", vec![""]),
        ] {
            assert_eq!(cut(line, ',', '"', '\\'), expected, "{line:?}");
        }
        assert_eq!(cut("a§«b§c«§d", '§', '«', '»'), ["a", "b§c", "d"]);
    }
}
