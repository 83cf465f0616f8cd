//! Patterns of text as searches that are prepared once: texts in a certain order, with anything between them.
//!
//! A page of text is searched as a whole for the longest of the texts. Only values in which that text was found are
//! compared with the others, so a page without the text costs one pass over its bytes. A search that is begun anew for
//! each value costs as much as some tens of bytes.

use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use memchr::memmem::Finder;
use parquet::basic::Encoding;
use parquet::column::page::Page;

use super::lengths::lengths;

/// A pattern: the text with which a value begins, texts that follow in this order, and the one with which it ends.
#[derive(Debug, Clone)]
pub struct TextPattern {
    negated: bool,
    /// The text with which a value begins, and the one with which it ends; both may be empty.
    start: Vec<u8>,
    end: Vec<u8>,
    /// The texts between them, none of them empty, one after the other.
    inner: Vec<Finder<'static>>,
    /// The text that pages are searched for: the longest of all.
    anchor: Finder<'static>,
    /// Whether each value with that text fits the pattern.
    anchor_decides: bool,
    /// The bytes of all texts: shorter values do not fit.
    shortest: usize,
}

impl TextPattern {
    /// Makes a pattern: a value begins with the first of the texts and ends with the last one, and the others lie
    /// between them in their order, none of them over another. Texts may be empty. With `negated`, values pass that do
    /// not fit. `None` if there are fewer than two texts, or if all of them are empty: no search is needed then.
    pub fn new(texts: &[&[u8]], negated: bool) -> Option<Self> {
        let [start, inner @ .., end] = texts else { return None };
        let anchor = texts.iter().copied().max_by_key(|text| text.len()).filter(|text| !text.is_empty())?;
        let inner: Vec<&[u8]> = inner.iter().copied().filter(|text| !text.is_empty()).collect();
        Some(TextPattern {
            negated,
            start: start.to_vec(),
            end: end.to_vec(),
            anchor: Finder::new(anchor).into_owned(),
            anchor_decides: start.is_empty() && end.is_empty() && inner.len() == 1,
            shortest: texts.iter().map(|text| text.len()).sum(),
            inner: inner.into_iter().map(|text| Finder::new(text).into_owned()).collect(),
        })
    }

    /// Makes the pattern of values that contain a text; `None` for an empty one.
    pub fn containing(text: &[u8]) -> Option<Self> {
        Self::new(&[b"", text, b""], false)
    }

    /// Returns whether a value passes.
    #[inline]
    pub fn passes(&self, value: &[u8]) -> bool {
        self.fits(value) != self.negated
    }

    #[inline]
    fn fits(&self, value: &[u8]) -> bool {
        if value.len() < self.shortest {
            return false;
        }
        let rest = value.strip_prefix(self.start.as_slice()).and_then(|rest| rest.strip_suffix(self.end.as_slice()));
        let Some(mut rest) = rest else { return false };
        // The first place of each text leaves the most room for those behind it.
        self.inner.iter().all(|text| {
            let found = text.find(rest);
            rest = &rest[found.map_or(rest.len(), |at| at + text.needle().len())..];
            found.is_some()
        })
    }

    /// Returns which of the `count` values of a page of text pass, one bit each. `None` if the page is damaged, or has
    /// an encoding that is not searched.
    pub(super) fn search(&self, encoding: Encoding, page: &[u8], count: usize) -> Option<BooleanBuffer> {
        // The search covers all bytes, lengths too. Values are only visited if the text is somewhere.
        let Some(first) = self.anchor.find(page) else {
            return Some(if self.negated { BooleanBuffer::new_set(count) } else { BooleanBuffer::new_unset(count) });
        };
        match encoding {
            Encoding::DELTA_LENGTH_BYTE_ARRAY => {
                let (lengths, mut at) = lengths(page, count)?;
                let mut lengths = lengths.into_iter();
                self.search_values(page, count, first, || {
                    let start = at;
                    at += lengths.next()? as usize;
                    Some((start, at))
                })
            }
            Encoding::PLAIN => {
                let mut at = 0usize;
                self.search_values(page, count, first, || {
                    let len = u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?) as usize;
                    let start = at + 4;
                    at = start.checked_add(len)?;
                    Some((start, at))
                })
            }
            _ => None,
        }
    }

    /// Like [`search`](Self::search). The first place of the text is at `hit`; `next` returns the range of one value
    /// after the other.
    fn search_values(
        &self,
        bytes: &[u8],
        count: usize,
        mut hit: usize,
        mut next: impl FnMut() -> Option<(usize, usize)>,
    ) -> Option<BooleanBuffer> {
        let mut found = BooleanBufferBuilder::new(count);
        let needle = self.anchor.needle().len();
        let mut done = 0;
        let mut more = true;
        // Values without the text that have no bit yet.
        let mut without = 0;
        while more && done < count {
            let (start, end) = next()?;
            if end > bytes.len() {
                return None;
            }
            done += 1;
            if hit >= end {
                without += 1;
                continue;
            }
            // A place may reach into a length or the next value, or lie in a length; then the search goes on after its
            // start.
            while more && hit < end && (hit < start || hit + needle > end) {
                let next = self.anchor.find(&bytes[hit + 1..]);
                more = next.is_some();
                hit += 1 + next.unwrap_or(0);
            }
            if !more || hit < start || hit + needle > end {
                without += 1;
                continue;
            }
            let fits = self.anchor_decides || self.fits(&bytes[start..end]);
            found.append_n(std::mem::take(&mut without), self.negated);
            found.append(fits != self.negated);
            let next = self.anchor.find(&bytes[end..]);
            more = next.is_some();
            hit = end + next.unwrap_or(0);
        }
        found.append_n(without + count - done, self.negated);
        Some(found.finish())
    }

    /// Returns which entries of a plain dictionary page pass, one bit each; `None` under the conditions of
    /// [`search`](Self::search).
    pub(super) fn search_entries(&self, page: &Page) -> Option<BooleanBuffer> {
        let Page::DictionaryPage { buf, num_values, encoding, .. } = page else { return None };
        if !matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) {
            return None;
        }
        self.search(Encoding::PLAIN, buf, *num_values as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::encode::put_delta;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    /// Whether the texts lie in a value in their order, by trying every place of each.
    fn fits(texts: &[Vec<u8>], value: &[u8]) -> bool {
        match texts {
            [] => true,
            [last] => value.ends_with(last),
            [first, rest @ ..] => {
                (0..=value.len()).any(|at| value[at..].starts_with(first) && fits(rest, &value[at + first.len()..]))
            }
        }
    }

    #[test]
    fn a_search_of_a_page_is_one_of_each_value() {
        let mut rng = StdRng::seed_from_u64(5);
        let mut kinds = [0; 2];
        for _ in 0..6000 {
            // Few letters, and lengths that look like them.
            let text = |rng: &mut StdRng, most: usize| -> Vec<u8> {
                (0..rng.random_range(0..most)).map(|_| [b'a', b'b', 0, 1, 2][rng.random_range(0..5)]).collect()
            };
            let texts: Vec<Vec<u8>> = (0..rng.random_range(2..6)).map(|_| text(&mut rng, 4)).collect();
            let negated = rng.random_bool(0.3);
            let slices: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
            let Some(pattern) = TextPattern::new(&slices, negated) else {
                assert!(texts.iter().all(Vec::is_empty));
                continue;
            };
            let values: Vec<Vec<u8>> = (0..rng.random_range(0..20)).map(|_| text(&mut rng, 12)).collect();
            let mut page = Vec::new();
            for value in &values {
                page.extend((value.len() as u32).to_le_bytes());
                page.extend(value);
            }
            let mut behind = Vec::new();
            put_delta(&mut behind, values.iter().map(|v| v.len() as i64), true);
            values.iter().for_each(|v| behind.extend(v));
            for (encoding, page) in [(Encoding::PLAIN, page), (Encoding::DELTA_LENGTH_BYTE_ARRAY, behind)] {
                let found = pattern.search(encoding, &page, values.len()).unwrap();
                assert_eq!(found.len(), values.len());
                for (i, value) in values.iter().enumerate() {
                    let first = value.starts_with(&texts[0]);
                    let wanted = first && fits(&texts[1..], &value[texts[0].len()..]);
                    kinds[usize::from(wanted)] += 1;
                    let what = format!("{encoding}: {texts:?} in {value:?} of {values:?}, {negated}");
                    assert_eq!(found.value(i), wanted != negated, "{what}");
                    assert_eq!(pattern.passes(value), wanted != negated, "{what}");
                }
            }
        }
        assert!(kinds.iter().all(|n| *n > 1000), "{kinds:?} values without and with the texts");
    }

    #[test]
    fn what_needs_no_search_is_no_pattern() {
        assert!(TextPattern::new(&[b"a"], false).is_none(), "a value itself");
        assert!(TextPattern::new(&[b"", b""], true).is_none(), "anything");
        assert!(TextPattern::containing(b"").is_none());
        let cut = TextPattern::containing(b"a").unwrap();
        assert!(cut.search(Encoding::PLAIN, b"\x02\0\0\0a", 1).is_none(), "the value ends behind the page");
        assert!(cut.search(Encoding::PLAIN, b"\x01\0\0\0a", 2).is_some(), "no value is visited behind the last place");
        assert!(cut.search(Encoding::RLE, b"\x01\0\0\0a", 1).is_none());
    }
}
