//! Tests of single text columns on pages as they are stored, before anything is decoded.
//!
//! On pages of dictionary codes the test is asked once for each entry of the dictionary, and codes become bits. On plain
//! pages (a length of four bytes before each value), dictionaries too, a search for a substring runs over the whole page
//! at once; lengths are walked only where something was found.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{Array, ArrayRef, BooleanArray};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::{ArrowError, DataType};
use bytes::Bytes;
use memchr::memmem::Finder;
use parquet::basic::Encoding;
use parquet::column::page::Page;

use super::pages::{Lazy, PagePart, PageRows};
use super::scan::deposit;
use super::{ObjectReader, Result, ScanIo};

/// A condition on one text column: rows that fail it fail the filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextTest {
    /// Place in the scan's schema.
    pub column: usize,
    /// It is "contains these bytes", which are at least one.
    pub contains: Option<Vec<u8>>,
}

/// Parts of a filter that look at one text column each.
pub trait TextTests: std::fmt::Debug + Send + Sync {
    /// The parts.
    fn tests(&self) -> &[TextTest];

    /// Whether they are the whole filter.
    fn are_all(&self) -> bool;

    /// Which of these values, Utf8View with NULLs, pass one of the parts.
    ///
    /// # Errors
    /// The filter's own.
    fn pass(&self, test: usize, values: &ArrayRef) -> Result<BooleanArray, ArrowError>;
}

/// The dictionary's answers.
struct Codes {
    passes: Vec<bool>,
}

/// A page taken apart: which rows have a value, and the values' bytes.
struct Parts {
    /// One bit a row; `None` if all have one.
    valid: Option<BooleanBuffer>,
    encoding: Encoding,
    values: Bytes,
}

/// Levels or codes of `width` bits in Parquet's mix of runs and packed groups; `each` is told value and number. `None` if
/// there are fewer than `count`, or if `each` says so.
fn hybrid(bytes: &[u8], width: u32, count: usize, mut each: impl FnMut(u32, usize) -> Option<()>) -> Option<()> {
    if width > 32 {
        return None;
    }
    let mut at = 0;
    let mut left = count;
    let value_bytes = (width as usize).div_ceil(8);
    let mask = ((1u64 << width) - 1) as u32;
    while left > 0 {
        let mut header = 0u64;
        for shift in 0.. {
            let byte = *bytes.get(at)?;
            at += 1;
            header |= u64::from(byte & 0x7f) << (7 * shift);
            if byte < 0x80 {
                break;
            }
            if shift == 4 {
                return None;
            }
        }
        let n = (header >> 1) as usize;
        if n == 0 {
            return None;
        }
        if header & 1 == 0 {
            let mut value = [0; 4];
            value[..value_bytes].copy_from_slice(bytes.get(at..at + value_bytes)?);
            at += value_bytes;
            let run = n.min(left);
            each(u32::from_le_bytes(value) & mask, run)?;
            left -= run;
            continue;
        }
        // Groups of eight values. The last one may be cut off where its values end.
        let packed = bytes.get(at..)?;
        let packed = &packed[..packed.len().min(n.checked_mul(width as usize)?)];
        let run = n.checked_mul(8)?.min(left);
        if packed.len() * 8 < run * width as usize {
            return None;
        }
        let (mut buffer, mut bits, mut next) = (0u64, 0, packed.iter());
        for _ in 0..run {
            while bits < width {
                buffer |= u64::from(*next.next()?) << bits;
                bits += 8;
            }
            each(buffer as u32 & mask, 1)?;
            buffer >>= width;
            bits -= width;
        }
        at += packed.len();
        left -= run;
    }
    Some(())
}

/// Takes a page of a column without repetition apart; `None` if it is of a kind that is left to the decoder.
fn parts(page: &Page, rows: usize, nullable: bool) -> Option<Parts> {
    let (levels, values, encoding) = match page {
        Page::DataPage { buf, num_values, encoding, def_level_encoding, .. } => {
            if *num_values as usize != rows {
                return None;
            }
            match nullable {
                false => (None, buf.clone(), *encoding),
                true if *def_level_encoding == Encoding::RLE => {
                    let len = u32::from_le_bytes(buf.get(..4)?.try_into().ok()?) as usize;
                    let end = len.checked_add(4).filter(|end| *end <= buf.len())?;
                    (Some(buf.slice(4..end)), buf.slice(end..), *encoding)
                }
                true => return None,
            }
        }
        Page::DataPageV2 { buf, num_rows, encoding, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let (from, len) = (*rep_levels_byte_len as usize, *def_levels_byte_len as usize);
            let end = from.checked_add(len).filter(|end| *end <= buf.len())?;
            if *num_rows as usize != rows {
                return None;
            }
            (nullable.then(|| buf.slice(from..end)), buf.slice(end..), *encoding)
        }
        Page::DictionaryPage { .. } => return None,
    };
    let valid = match levels {
        None => None,
        Some(levels) => {
            let mut valid = BooleanBufferBuilder::new(rows);
            hybrid(&levels, 1, rows, |value, n| {
                valid.append_n(n, value == 1);
                Some(())
            })?;
            let valid = valid.finish();
            (valid.count_set_bits() < rows).then_some(valid)
        }
    };
    Some(Parts { valid, encoding, values })
}

/// Which values of a plain page contain what is searched for, one bit each.
fn search(bytes: &[u8], count: usize, finder: &Finder<'_>) -> Option<BooleanBuffer> {
    let Some(mut hit) = finder.find(bytes) else { return Some(BooleanBuffer::new_unset(count)) };
    let mut found = BooleanBufferBuilder::new(count);
    let needle = finder.needle().len();
    let mut at = 0;
    let mut done = 0;
    let mut more = true;
    while more && done < count {
        let len = u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?) as usize;
        let (start, end) = (at + 4, at.checked_add(4)?.checked_add(len)?);
        if end > bytes.len() {
            return None;
        }
        // What was found may reach into a length, or out of the value; then the search goes on behind its start.
        while more && hit < end && (hit < start || hit + needle > end) {
            let next = finder.find(&bytes[hit + 1..]);
            more = next.is_some();
            hit += 1 + next.unwrap_or(0);
        }
        let inside = more && hit >= start && hit + needle <= end;
        found.append(inside);
        if inside {
            let next = finder.find(&bytes[end..]);
            more = next.is_some();
            hit = end + next.unwrap_or(0);
        }
        at = end;
        done += 1;
    }
    found.append_n(count - done, false);
    Some(found.finish())
}

/// Which entries of a plain dictionary page contain what is searched for, one bit each.
fn search_entries(page: &Page, finder: &Finder<'_>) -> Option<BooleanBuffer> {
    let Page::DictionaryPage { buf, num_values, encoding, .. } = page else { return None };
    if !matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) {
        return None;
    }
    search(buf, *num_values as usize, finder)
}

/// The entries of a plain dictionary page.
fn entries(page: &Page) -> Option<ArrayRef> {
    let Page::DictionaryPage { buf, num_values, encoding, .. } = page else { return None };
    if !matches!(encoding, Encoding::PLAIN | Encoding::PLAIN_DICTIONARY) {
        return None;
    }
    let mut values = StringViewBuilder::new();
    let mut at = 0;
    for _ in 0..*num_values {
        let len = u32::from_le_bytes(buf.get(at..at + 4)?.try_into().ok()?) as usize;
        let end = at.checked_add(4)?.checked_add(len)?;
        values.append_value(std::str::from_utf8(buf.get(at + 4..end)?).ok()?);
        at = end;
    }
    // What the test says of NULL comes last.
    values.append_null();
    Some(Arc::new(values.finish()))
}

impl ObjectReader {
    /// The rows that pass a test, one bit each, of those on pages with rows of `wanted`. `None` if the column is not stored
    /// in a way that can be tested. What was fetched is in `have` then, for decoding.
    ///
    /// `again`: what passes is decoded afterwards. Then pages are kept from the first on that has something.
    pub(super) async fn test_text(
        &self,
        group: usize,
        root: usize,
        (tests, test, again): (&dyn TextTests, usize, bool),
        wanted: Option<&BooleanBuffer>,
        io: Option<&Arc<ScanIo>>,
        have: &mut HashMap<usize, Vec<PagePart>>,
    ) -> Result<Option<BooleanBuffer>> {
        let Some(leaf) = self.leaf(self.ids[root]) else { return Ok(None) };
        let descr = self.metadata.file_metadata().schema_descr().column(leaf);
        let column = self.metadata.row_group(group).column(leaf);
        let contains = tests.tests()[test].contains.as_deref();
        let coded = column.dictionary_page_offset().is_some();
        if *self.fields[root].data_type() != DataType::Utf8View
            || descr.max_rep_level() > 0
            || descr.max_def_level() > 1
            || !(coded || contains.is_some())
        {
            return Ok(None);
        }
        let nullable = descr.max_def_level() == 1;
        if !have.contains_key(&leaf) {
            have.extend(self.pages(group, &[leaf], wanted, io).await?);
        }
        let pages = &have[&leaf];
        let damaged = |e| self.damaged(format_args!("row group {group}, column {}", column.column_path()), e);
        let load = |page: &Lazy| page.load().map_err(&damaged);
        let finder = contains.map(Finder::new);
        let mut codes: Option<Codes> = None;
        let mut null_passes = false;
        let mut any = false;
        let mut out = BooleanBufferBuilder::new(self.group_rows(group));
        for PagePart { rows, page } in pages {
            let rows = match (rows, page) {
                (PageRows::Dictionary, None) => continue,
                (PageRows::Dictionary, Some(page)) => {
                    let page = load(page)?;
                    if let Some(finder) = &finder {
                        let Some(found) = search_entries(&page, finder) else { return Ok(None) };
                        codes = Some(Codes { passes: found.iter().collect() });
                        continue;
                    }
                    let Some(values) = entries(&page) else { return Ok(None) };
                    // An entry on which it fails may be that of no wanted row.
                    let Ok(answers) = tests.pass(test, &values) else { return Ok(None) };
                    let passes: Vec<bool> =
                        (0..answers.len()).map(|i| answers.is_valid(i) && answers.value(i)).collect();
                    null_passes = passes.last().copied().unwrap_or(false);
                    codes = Some(Codes { passes: passes[..passes.len().saturating_sub(1)].to_vec() });
                    continue;
                }
                (PageRows::Levels(_), _) => return Ok(None),
                (PageRows::Rows(rows), _) => *rows,
            };
            let Some(page) = page else {
                out.append_n(rows, false);
                continue;
            };
            // Only plain pages are large. What a glance finds is not kept, and looked for again if it is decoded.
            let glance = finder.is_some() && !(again && any);
            let glanced = if glance { page.glance().map_err(&damaged)? } else { None };
            let loaded = if glanced.is_none() { Some(load(page)?) } else { None };
            let Some(page) = glanced.as_ref().or(loaded.as_deref()) else { return Ok(None) };
            let Some(Parts { valid, encoding, values }) = parts(page, rows, nullable) else { return Ok(None) };
            let count = valid.as_ref().map_or(rows, BooleanBuffer::count_set_bits);
            let passed = match (encoding, &codes, &finder) {
                (Encoding::PLAIN, _, Some(finder)) => search(&values, count, finder),
                (Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, Some(codes), _) => {
                    decoded(&values, count, codes)
                }
                _ => None,
            };
            let Some(passed) = passed else { return Ok(None) };
            any |= passed.count_set_bits() > 0;
            match valid {
                None => out.append_buffer(&passed),
                Some(valid) => {
                    let rows = deposit(&valid, &passed);
                    out.append_buffer(&if null_passes { &rows | &!&valid } else { rows });
                }
            }
        }
        if out.len() != self.group_rows(group) {
            return Ok(None);
        }
        Ok(Some(out.finish()))
    }
}

/// Codes as their entries' answers.
fn decoded(bytes: &[u8], count: usize, codes: &Codes) -> Option<BooleanBuffer> {
    let mut out = BooleanBufferBuilder::new(count);
    if count == 0 {
        return Some(out.finish());
    }
    let (width, bytes) = bytes.split_first()?;
    hybrid(bytes, u32::from(*width), count, |code, n| {
        out.append_n(n, *codes.passes.get(code as usize)?);
        Some(())
    })?;
    Some(out.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn a_search_of_a_page_is_one_of_each_value() {
        let mut rng = StdRng::seed_from_u64(5);
        for _ in 0..3000 {
            // Few letters, and lengths that look like them.
            let letter = |rng: &mut StdRng| *[b'a', b'b', 0, 1, 2].get(rng.random_range(0..5)).unwrap();
            let needle: Vec<u8> = (0..rng.random_range(1..4)).map(|_| letter(&mut rng)).collect();
            let values: Vec<Vec<u8>> = (0..rng.random_range(0..20))
                .map(|_| (0..rng.random_range(0..8)).map(|_| letter(&mut rng)).collect())
                .collect();
            let mut page = Vec::new();
            for value in &values {
                page.extend((value.len() as u32).to_le_bytes());
                page.extend(value);
            }
            let found = search(&page, values.len(), &Finder::new(&needle)).unwrap();
            for (i, value) in values.iter().enumerate() {
                let contains = value.windows(needle.len()).any(|w| w == needle);
                assert_eq!(found.value(i), contains, "{needle:?} in {value:?} of {values:?}");
            }
        }
    }

    #[test]
    fn runs_and_packed_groups() {
        // A run of 5 sevens; then one group of 8 values of 3 bits: 0 to 7.
        let bytes = [10, 7, 3, 0b1000_1000, 0b1100_0110, 0b1111_1010];
        let mut found = Vec::new();
        let all = hybrid(&bytes, 3, 13, |value, n| {
            found.extend(std::iter::repeat_n(value, n));
            Some(())
        });
        assert!(all.is_some());
        assert_eq!(found, [7, 7, 7, 7, 7, 0, 1, 2, 3, 4, 5, 6, 7]);
        assert!(hybrid(&bytes, 3, 14, |_, _| Some(())).is_none(), "there are only 13");
        assert!(hybrid(&bytes[..4], 3, 13, |_, _| Some(())).is_none(), "the group is cut");
        assert!(hybrid(&[0], 3, 1, |_, _| Some(())).is_none(), "an empty run");
    }
}
