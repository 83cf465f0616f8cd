//! The text of a field without its quotes and escapes.

use std::borrow::Cow;

use crate::span::Span;

/// Quote and escape of a dialect; they are never equal.
#[derive(Debug, Clone, Copy)]
pub(super) struct Unescape {
    pub quote: Option<u8>,
    pub escape: Option<u8>,
}

impl Unescape {
    /// Returns the field's text.
    #[inline]
    pub(super) fn text<'a>(&self, bytes: &'a [u8], span: Span) -> Cow<'a, [u8]> {
        if span.is_missing() {
            return Cow::Borrowed(&[]);
        }
        if !span.is_escaped() {
            return Cow::Borrowed(&bytes[span.start()..span.end()]);
        }
        let mut out = Vec::with_capacity(span.len());
        self.append(bytes, span, &mut out);
        Cow::Owned(out)
    }

    /// Appends the field's text.
    pub(super) fn append(&self, bytes: &[u8], span: Span, out: &mut Vec<u8>) {
        let Some(raw) = span.bytes(bytes) else { return };
        if !span.is_escaped() {
            out.extend_from_slice(raw);
        } else if span.is_quoted() {
            self.inside(raw, out);
        } else if self.quote.is_some() {
            self.mixed(raw, out);
        } else {
            self.outside(raw, out);
        }
    }

    /// Appends text from between quotes: two quotes are one, an escape makes the next byte literal.
    fn inside(&self, raw: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        while at < raw.len() {
            let byte = raw[at];
            let doubled = self.quote == Some(byte) && raw.get(at + 1) == Some(&byte);
            if (doubled || self.escape == Some(byte)) && at + 1 < raw.len() {
                at += 1;
            }
            out.push(raw[at]);
            at += 1;
        }
    }

    /// Appends text of a dialect without quotes: an escape makes the next byte literal.
    fn outside(&self, raw: &[u8], out: &mut Vec<u8>) {
        let mut at = 0;
        while at < raw.len() {
            if self.escape == Some(raw[at]) && at + 1 < raw.len() {
                at += 1;
            }
            out.push(raw[at]);
            at += 1;
        }
    }

    /// Appends a field that begins with a quote and continues behind the closing one (or is never closed): the quoted
    /// part without its quotes, then the rest as it stands.
    fn mixed(&self, raw: &[u8], out: &mut Vec<u8>) {
        let mut at = 1;
        while at < raw.len() {
            let byte = raw[at];
            if self.escape == Some(byte) && at + 1 < raw.len() {
                out.push(raw[at + 1]);
                at += 2;
            } else if self.quote == Some(byte) {
                if raw.get(at + 1) == Some(&byte) {
                    out.push(byte);
                    at += 2;
                } else {
                    out.extend_from_slice(&raw[at + 1..]);
                    return;
                }
            } else {
                out.push(byte);
                at += 1;
            }
        }
    }
}
