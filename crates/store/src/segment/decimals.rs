//! Decimals in more bytes than they need: legal, but parquet's decoder has no room for them.

use bytes::Bytes;
use parquet::basic::{ConvertedType, Encoding, LogicalType, Type};
use parquet::column::page::Page;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::schema::types::ColumnDescriptor;

use super::binary::Reader;
use super::lengths::values;

/// Most digits that fit into 16 bytes; decimals with more are decoded into 32.
const DIGITS_OF_16_BYTES: i32 = 38;

/// Shortens each decimal of a page to the number of bytes that its decoder accepts. Pages of other columns stay as they
/// are.
///
/// # Errors
/// [`ParquetError`] if a value does not fit, or if the page is cut.
pub(super) fn fitted(page: Page, column: &ColumnDescriptor) -> ParquetResult<Page> {
    let is_decimal = matches!(column.logical_type_ref(), Some(LogicalType::Decimal(_)))
        || column.converted_type() == ConvertedType::DECIMAL;
    if column.physical_type() != Type::BYTE_ARRAY || !is_decimal {
        return Ok(page);
    }
    let is_plain = match page.encoding() {
        Encoding::PLAIN => true,
        Encoding::PLAIN_DICTIONARY => page.is_dictionary_page(),
        _ => false,
    };
    let start = match page.is_dictionary_page() {
        true => Some(0),
        false => values(&page, column)?.map(|(start, _)| start),
    };
    let (true, Some(start)) = (is_plain, start) else { return Ok(page) };
    let most = if column.type_precision() <= DIGITS_OF_16_BYTES { 16 } else { 32 };
    let Some(made) = shortened(page.buffer(), start, most)? else { return Ok(page) };
    Ok(match page {
        Page::DataPage { num_values, encoding, def_level_encoding, rep_level_encoding, statistics, .. } => {
            Page::DataPage { buf: made, num_values, encoding, def_level_encoding, rep_level_encoding, statistics }
        }
        Page::DataPageV2 {
            num_values,
            encoding,
            num_nulls,
            num_rows,
            def_levels_byte_len,
            rep_levels_byte_len,
            is_compressed,
            statistics,
            ..
        } => Page::DataPageV2 {
            buf: made,
            num_values,
            encoding,
            num_nulls,
            num_rows,
            def_levels_byte_len,
            rep_levels_byte_len,
            is_compressed,
            statistics,
        },
        Page::DictionaryPage { num_values, encoding, is_sorted, .. } => {
            Page::DictionaryPage { buf: made, num_values, encoding, is_sorted }
        }
    })
}

/// Returns the page with plain values from `start` on shortened to at most `most` bytes; `None` if none is longer or
/// empty.
fn shortened(page: &Bytes, start: usize, most: usize) -> ParquetResult<Option<Bytes>> {
    let cut = || ParquetError::General("its values end behind it".into());
    let mut from = Reader(&page[start..]);
    let mut all_fit = true;
    while !from.0.is_empty() {
        let len = from.u32().map_err(|_| cut())? as usize;
        all_fit &= (1..=most).contains(&len);
        from.take(len).map_err(|_| cut())?;
    }
    if all_fit {
        return Ok(None);
    }
    let mut made = page[..start].to_vec();
    let mut from = Reader(&page[start..]);
    while !from.0.is_empty() {
        let len = from.u32().map_err(|_| cut())? as usize;
        let value = from.take(len).map_err(|_| cut())?;
        let value = if value.is_empty() { &[0][..] } else { value };
        let (above, value) = value.split_at(value.len().saturating_sub(most));
        let sign = if value[0] & 0x80 == 0 { 0 } else { 0xff };
        if above.iter().any(|byte| *byte != sign) {
            return Err(ParquetError::General(format!("a decimal of {len} bytes is larger than its column's type")));
        }
        made.extend((value.len() as u32).to_le_bytes());
        made.extend(value);
    }
    Ok(Some(made.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_above_are_the_sign() {
        let page = |values: &[&[u8]]| -> Bytes {
            let put = |v: &&[u8]| [&(v.len() as u32).to_le_bytes()[..], v].concat();
            values.iter().flat_map(put).collect::<Vec<u8>>().into()
        };
        let long = |byte: u8, last: u8| [&[byte; 17][..], &[last]].concat();
        assert_eq!(shortened(&page(&[&[1], &[0; 16]]), 0, 16).unwrap(), None);
        let made = shortened(&page(&[&long(0, 5), &[], &long(255, 200)]), 0, 16).unwrap().unwrap();
        assert_eq!(made, page(&[&long(0, 5)[2..], &[0], &long(255, 200)[2..]]));
        assert!(shortened(&page(&[&long(1, 5)]), 0, 16).is_err());
        assert!(shortened(&page(&[&long(0, 5)]).slice(..9), 0, 16).is_err());
    }
}
