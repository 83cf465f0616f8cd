//! Finding fields a byte at a time: for delimiters and line ends of several bytes, and for blocks whose quotes the
//! masks cannot resolve. Runs of plain bytes are skipped with `memchr`.

use memchr::{memchr, memchr2, memchr3};

use super::grammar::{Ends, Grammar};
use crate::simd::{Carry, Index};

/// Position within a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// A record begins.
    Record,
    /// A field begins.
    Field,
    /// In a field without quotes, or in the bytes that follow a closed quote.
    Plain,
    /// In a field without quotes, behind an escape.
    PlainEscaped,
    /// Inside quotes.
    Quoted,
    /// Inside quotes, behind an escape.
    QuotedEscaped,
    /// Behind a quote that closes, if it is not the first of two.
    Closed,
    /// In a comment line.
    Comment,
}

/// State of the bytes before a position, as far as the following bytes depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct State {
    pub place: Place,
    /// The previous byte is a `\r` that ended a record: a `\n` here belongs to it.
    pub cr: bool,
}

impl State {
    pub(crate) const RECORD: State = State { place: Place::Record, cr: false };

    /// Converts to the form that the masks use. A comment has no such form; for it the machine must run.
    pub(crate) fn carry(self) -> Option<Carry> {
        let none =
            Carry { inside: 0, escaped: 0, cr: self.cr as u64, open: 0, closed: 0, line: 0, brace: 0, behind: 0 };
        Some(match self.place {
            Place::Record => Carry { open: 1, line: 1, ..none },
            Place::Field => Carry { open: 1, ..none },
            Place::Plain => none,
            Place::PlainEscaped => Carry { escaped: 1, ..none },
            Place::Quoted => Carry { inside: u64::MAX, ..none },
            Place::QuotedEscaped => Carry { inside: u64::MAX, escaped: 1, ..none },
            Place::Closed => Carry { open: 1, closed: 1, ..none },
            Place::Comment => return None,
        })
    }

    /// Returns the state that the masks arrived at, behind the byte `last`. `None`: the masks cannot tell. They know no
    /// blanks, which under [`Grammar::trim`] may stand between a delimiter and the quote that opens a field.
    pub(crate) fn from_carry(carry: &Carry, grammar: &Grammar, last: u8) -> Option<State> {
        let quoting = grammar.quote.is_some();
        let place = match carry {
            Carry { inside: 1.., escaped: 1, .. } => Place::QuotedEscaped,
            Carry { inside: 1.., .. } => Place::Quoted,
            Carry { line: 1, .. } => Place::Record,
            // Without quoting `open` and `closed` are not maintained, and nothing depends on where a field begins.
            Carry { escaped: 1, .. } if !quoting => Place::PlainEscaped,
            _ if !quoting => Place::Plain,
            Carry { closed: 1, .. } => Place::Closed,
            Carry { open: 1, .. } => Place::Field,
            _ if grammar.trim && matches!(last, b' ' | b'\t') => return None,
            _ => Place::Plain,
        };
        Some(State { place, cr: carry.cr != 0 })
    }
}

/// Appends the structure of `block[from..to]` to `index`, beginning in `state`. Returns the state and the position it
/// reached, which is before `to` only if `more` bytes will follow and the last ones could be half of a delimiter.
pub(crate) fn run(
    grammar: &Grammar,
    block: &[u8],
    from: usize,
    to: usize,
    more: bool,
    state: State,
    index: &mut Index,
) -> (State, usize) {
    let bytes = &block[..to];
    let delimiter = grammar.delimiter.as_deref().unwrap_or(&[]);
    let quote = grammar.quote;
    let longest = delimiter.len().max(grammar.line_end_len() as usize);
    let State { mut place, mut cr } = state;
    let mut at = from;
    while at < to {
        let byte = bytes[at];
        if cr {
            cr = false;
            if byte == b'\n' {
                at += 1;
                continue;
            }
        }
        match place {
            Place::Quoted => {
                let next = match grammar.escape {
                    Some(escape) => memchr2(quote.unwrap_or(escape), escape, &bytes[at..]),
                    None => memchr(quote.unwrap_or(0), &bytes[at..]),
                };
                let Some(next) = next else { return (State { place, cr }, to) };
                at += next;
                if Some(bytes[at]) == quote {
                    place = Place::Closed;
                } else {
                    index.specials.push(at as u32);
                    place = Place::QuotedEscaped;
                }
                at += 1;
                continue;
            }
            Place::QuotedEscaped => {
                place = Place::Quoted;
                at += 1;
                continue;
            }
            Place::PlainEscaped => {
                // An escape hides line ends in CSV only; in Hive text they cut first.
                if grammar.escape_hides_line_end || !is_line_byte(grammar, byte) {
                    at += 1;
                }
                place = Place::Plain;
                continue;
            }
            // Without quoting a comment is cut like any other line, and recognised by its first byte later.
            Place::Record if quote.is_some() && grammar.comment == Some(byte) => {
                place = Place::Comment;
                continue;
            }
            Place::Record | Place::Field => {
                if grammar.trim && matches!(byte, b' ' | b'\t') && !delimiter.starts_with(&[byte]) {
                    place = Place::Field;
                    at += 1;
                    continue;
                }
                if quote == Some(byte) {
                    index.any_quote = true;
                    place = Place::Quoted;
                    at += 1;
                    continue;
                }
                place = Place::Plain;
            }
            Place::Closed if quote == Some(byte) => {
                index.specials.push(at as u32);
                place = Place::Quoted;
                at += 1;
                continue;
            }
            Place::Plain | Place::Closed | Place::Comment => {}
        }
        // Only delimiters, line ends and escapes matter from here on.
        let in_field = place != Place::Comment;
        let escape = if quote.is_none() && in_field { grammar.escape } else { None };
        let first = if in_field { delimiter.first().copied() } else { None };
        if place == Place::Closed {
            // Any other byte behind a closing quote becomes part of the field, which then needs a closer look; so does
            // a `\r` that is not followed by a line feed in these bytes.
            let feed = byte == b'\r' && grammar.ends == Ends::Feed && bytes.get(at + 1) == Some(&b'\n');
            let rest = &bytes[at..];
            let delimited = !delimiter.is_empty() && rest.starts_with(delimiter);
            if !delimited && !line_end_at(grammar, rest) && !feed {
                index.specials.push(at as u32);
            }
            place = Place::Plain;
        }
        let line = match &grammar.ends {
            Ends::Feed | Ends::Any => b'\n',
            Ends::Byte(b) => *b,
            Ends::Bytes(b) => b[0],
        };
        let rest = &bytes[at..];
        let next = match (&grammar.ends, escape) {
            (Ends::Any, Some(_)) => {
                rest.iter().position(|b| Some(*b) == escape || Some(*b) == first || matches!(*b, b'\n' | b'\r'))
            }
            (Ends::Any, None) => memchr3(line, b'\r', first.unwrap_or(line), rest),
            (_, Some(escape)) => memchr3(line, first.unwrap_or(line), escape, rest),
            (_, None) => memchr2(line, first.unwrap_or(line), rest),
        };
        let Some(next) = next else { return (State { place, cr }, to) };
        at += next;
        if more && to - at < longest {
            return (State { place, cr }, at);
        }
        let byte = bytes[at];
        if line_end_at(grammar, &bytes[at..]) {
            index.ends.push(at as u32);
            index.lines.push(index.ends.len() as u32);
            cr = grammar.ends == Ends::Any && byte == b'\r';
            index.any_cr |= cr;
            place = Place::Record;
            at += grammar.line_end_len() as usize;
        } else if in_field && !delimiter.is_empty() && bytes[at..].starts_with(delimiter) {
            index.ends.push(at as u32);
            place = Place::Field;
            at += delimiter.len();
        } else {
            if escape == Some(byte) {
                index.specials.push(at as u32);
                place = Place::PlainEscaped;
            }
            at += 1;
        }
    }
    (State { place, cr }, to)
}

fn is_line_byte(grammar: &Grammar, byte: u8) -> bool {
    match &grammar.ends {
        Ends::Feed => byte == b'\n',
        Ends::Any => matches!(byte, b'\n' | b'\r'),
        Ends::Byte(b) => byte == *b,
        Ends::Bytes(b) => byte == b[0],
    }
}

fn line_end_at(grammar: &Grammar, rest: &[u8]) -> bool {
    match &grammar.ends {
        Ends::Bytes(b) => rest.starts_with(b),
        _ => is_line_byte(grammar, rest[0]),
    }
}
