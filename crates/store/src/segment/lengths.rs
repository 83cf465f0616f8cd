//! Pages of text with the lengths of all values first, as differences, followed by the bytes without gaps
//! (DELTA_LENGTH_BYTE_ARRAY).

use parquet::basic::{ConvertedType, Encoding};
use parquet::column::page::Page;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::schema::types::ColumnDescriptor;

use super::binary::Reader;
use super::deltas;

/// Returns the lengths of the `count` values of a page, and the offset of the first value. `None` if the page has
/// another number of values, or if the values would end outside of it.
pub(super) fn lengths(page: &[u8], count: usize) -> Option<(Vec<u32>, usize)> {
    let (lengths, start) = deltas::numbers::<i32>(page, count)?;
    let end = lengths.iter().try_fold(start, |end, length| end.checked_add(usize::try_from(*length).ok()?))?;
    (end <= page.len()).then(|| (lengths.into_iter().map(|length| length as u32).collect(), start))
}

/// Returns the offset of the values of a data page after its levels, and the most values that there may be; `None` for
/// pages of another kind.
///
/// # Errors
/// [`ParquetError`] if the levels end outside of the page.
pub(super) fn values(page: &Page, column: &ColumnDescriptor) -> ParquetResult<Option<(usize, u32)>> {
    let cut = || ParquetError::General("its levels end behind it".into());
    match page {
        Page::DataPage { buf, num_values, def_level_encoding, rep_level_encoding, .. } => {
            let mut from = Reader(buf);
            let levels = [(column.max_rep_level(), rep_level_encoding), (column.max_def_level(), def_level_encoding)];
            for (_, encoding) in levels.into_iter().filter(|(most, _)| *most > 0) {
                if *encoding != Encoding::RLE {
                    return Ok(None);
                }
                let len = from.u32().map_err(|_| cut())?;
                from.take(len as usize).map_err(|_| cut())?;
            }
            Ok(Some((buf.len() - from.0.len(), *num_values)))
        }
        Page::DataPageV2 { buf, num_values, def_levels_byte_len, rep_levels_byte_len, .. } => {
            let levels = (*def_levels_byte_len as usize).saturating_add(*rep_levels_byte_len as usize);
            match levels <= buf.len() {
                true => Ok(Some((levels, *num_values))),
                false => Err(cut()),
            }
        }
        Page::DictionaryPage { .. } => Ok(None),
    }
}

/// Checks two things of a page of this encoding that parquet's decoder takes on trust: that the page has no more values
/// than its header says, which must be known before memory is reserved for them, and that each value of a text column
/// begins with a character. Other pages pass.
///
/// # Errors
/// [`ParquetError`] with a description of the difference.
pub(super) fn check(page: &Page, column: &ColumnDescriptor) -> ParquetResult<()> {
    if page.is_dictionary_page() || page.encoding() != Encoding::DELTA_LENGTH_BYTE_ARRAY {
        return Ok(());
    }
    let Some((start, most)) = values(page, column)? else { return Ok(()) };
    let values = &page.buffer()[start..];
    let mut from = Reader(values);
    let claimed = from.var().and_then(|_| from.var()).and_then(|_| from.var());
    let claimed = claimed.ok().filter(|claimed| *claimed <= u64::from(most));
    let claimed = claimed.ok_or_else(|| ParquetError::General(format!("it has lengths of more than {most} values")))?;
    let is_text = matches!(column.converted_type(), ConvertedType::UTF8 | ConvertedType::JSON | ConvertedType::ENUM);
    if is_text {
        let found = lengths(values, claimed as usize);
        let (lengths, mut at) = found.ok_or_else(|| ParquetError::General("its lengths are damaged".into()))?;
        for len in lengths {
            if len > 0 && values[at] & 0xc0 == 0x80 {
                return Err(ParquetError::General("a value begins within a character".into()));
            }
            at += len as usize;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::segment::encode::put_delta;
    use bytes::Bytes;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn what_the_decoder_would_believe_is_refused() {
        let string = parquet::schema::parser::parse_message_type("message m { required binary c (UTF8); }").unwrap();
        let column = parquet::schema::types::SchemaDescriptor::new(Arc::new(string)).column(0);
        let check = |values: &[u8]| {
            let page = Page::DataPage {
                buf: Bytes::copy_from_slice(values),
                num_values: 3,
                encoding: Encoding::DELTA_LENGTH_BYTE_ARRAY,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            check(&page, &column).map_err(|e| e.to_string())
        };
        let page = |lengths: &[i64], text: &str| {
            let mut page = Vec::new();
            put_delta(&mut page, lengths.iter().copied(), true);
            page.extend(text.as_bytes());
            page
        };
        assert_eq!(check(&page(&[1, 2, 0], "aé")), Ok(()));
        assert_eq!(check(&page(&[2, 1, 0], "aé")), Err("Parquet error: a value begins within a character".into()));
        // Blocks of 128 in 4, and a claim of 2^35 values.
        let wrong = "Parquet error: it has lengths of more than 3 values";
        assert_eq!(check(&[128, 1, 4, 128, 128, 128, 128, 128, 1, 0]), Err(wrong.into()));
        assert_eq!(check(&[128]), Err(wrong.into()));
        assert_eq!(check(&page(&[1, 2, 1], "aé")), Err("Parquet error: its lengths are damaged".into()));
    }

    #[test]
    fn lengths_are_those_that_were_written() {
        let mut rng = StdRng::seed_from_u64(9);
        for round in 0..2000 {
            let most = [1, 2, 60, 700, 1 << 14][round % 5];
            let n = [0, 1, 2, 31, 32, 33, 128, 129, 130, 300][rng.random_range(0..10)];
            let wanted: Vec<u32> = (0..n).map(|_| rng.random_range(0..most)).collect();
            let mut page = Vec::new();
            put_delta(&mut page, wanted.iter().map(|n| i64::from(*n)), true);
            let start = page.len();
            let text = wanted.iter().sum::<u32>() as usize;
            page.resize(start + text, b'x');
            assert_eq!(lengths(&page, n), Some((wanted, start)));
            assert_eq!(lengths(&page, n + 1), None, "another number of values");
            if text > 0 {
                assert_eq!(lengths(&page[..page.len() - 1], n), None, "cut");
            }
            // Damage is refused, or yields other lengths that fit.
            let at = rng.random_range(0..start);
            page[at] = rng.random();
            if let Some((found, start)) = lengths(&page, n) {
                assert!(start + found.iter().map(|n| *n as usize).sum::<usize>() <= page.len());
            }
            let cut = rng.random_range(0..start);
            assert!(lengths(&page[..cut], n).is_none_or(|(found, _)| found.iter().all(|n| *n == 0)));
        }
    }
}
