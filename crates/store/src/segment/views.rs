//! The values of a page of text as views into it, without a copy.

#![allow(unsafe_code)]

use arrow_array::StringViewArray;
use arrow_array::builder::make_view;
use arrow_buffer::{Buffer, ScalarBuffer};
use bytes::Bytes;

use super::lengths::lengths;

/// Returns the `count` values of a page that has their lengths first (see [`lengths`]); `None` if the page is cut, or
/// if a value is not UTF-8.
pub(super) fn views_behind(page: &Bytes, count: usize) -> Option<StringViewArray> {
    let (lengths, start) = lengths(page, count)?;
    u32::try_from(page.len()).ok()?;
    let mut views = Vec::with_capacity(count);
    let mut at = start;
    let mut whole = true;
    for len in lengths {
        let value = page.get(at..at + len as usize)?;
        // False for a value that begins with a byte in the middle of a character.
        whole &= value.first().is_none_or(|first| first & 0xc0 != 0x80);
        views.push(make_view(value, 0, at as u32));
        at += len as usize;
    }
    // All values together are UTF-8 and each begins with a character, so each of them is UTF-8.
    if !whole || simdutf8::basic::from_utf8(&page[start..at]).is_err() {
        return None;
    }
    let buffer = Buffer::from(page.clone());
    // SAFETY: each view was made of a range of the page, checked by `get`, at that range's offset of the one buffer,
    // which is the page; and the bytes of each range are UTF-8 as just checked.
    Some(unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(views), vec![buffer], None) })
}

/// Returns `count` values, each after its length in four bytes; `None` if the page is cut, or if a value is not UTF-8.
pub(super) fn views(page: &Bytes, count: usize) -> Option<StringViewArray> {
    if count > page.len() / 4 || u32::try_from(page.len()).is_err() {
        return None;
    }
    // Lengths below 128 are ASCII themselves, so that no character of several bytes extends across one. Values with
    // only such lengths between them are therefore UTF-8 exactly if the whole stretch is, which is checked at once.
    let is_text = |stretch: &[u8]| simdutf8::basic::from_utf8(stretch).is_ok();
    let mut views = Vec::with_capacity(count);
    let (mut at, mut stretch) = (0, 0);
    for _ in 0..count {
        let len = u32::from_le_bytes(page.get(at..at + 4)?.try_into().ok()?) as usize;
        let start = at + 4;
        let end = start.checked_add(len)?;
        views.push(make_view(page.get(start..end)?, 0, start as u32));
        if len >= 128 {
            if !is_text(&page[stretch..at]) {
                return None;
            }
            stretch = start;
        }
        at = end;
    }
    if !is_text(&page[stretch..at]) {
        return None;
    }
    let buffer = Buffer::from(page.clone());
    // SAFETY: each view was made of a range of the page, checked by `get`, at that range's offset of the one buffer,
    // which is the page; and the bytes of each range are UTF-8 as just checked.
    Some(unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(views), vec![buffer], None) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::segment::encode::put_delta;
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    #[test]
    fn views_are_the_values_and_refuse_what_is_no_text() {
        let mut rng = StdRng::seed_from_u64(3);
        let parts = ["", "a", "ab", "é", "日本", "twelve bytes", "more than twelve bytes", "ю".repeat(70).as_str()]
            .map(str::to_string);
        for round in 0..2000 {
            let mut values: Vec<Vec<u8>> = (0..rng.random_range(0..12))
                .map(|_| (0..rng.random_range(0..4)).flat_map(|_| parts[rng.random_range(0..8)].bytes()).collect())
                .collect();
            if round % 3 == 0 && !values.is_empty() {
                let at = rng.random_range(0..values.len());
                let value = &mut values[at];
                if !value.is_empty() {
                    let byte = rng.random_range(0..value.len());
                    value[byte] = rng.random();
                }
            }
            let mut page = Vec::new();
            for value in &values {
                page.extend((value.len() as u32).to_le_bytes());
                page.extend(value);
            }
            let wanted: Option<Vec<&str>> = values.iter().map(|v| std::str::from_utf8(v).ok()).collect();
            let mut behind = Vec::new();
            put_delta(&mut behind, values.iter().map(|v| v.len() as i64), true);
            values.iter().for_each(|v| behind.extend(v));
            type Views = fn(&Bytes, usize) -> Option<StringViewArray>;
            for (page, views) in [(page, views as Views), (behind, views_behind as Views)] {
                let page = Bytes::from(page);
                let found = views(&page, values.len());
                let found = found.as_ref().map(|f| f.iter().map(|v| v.unwrap()).collect::<Vec<_>>());
                assert_eq!(found, wanted);
                assert!(views(&page, values.len() + 1).is_none(), "there is no such value");
                if values.iter().any(|v| !v.is_empty()) {
                    assert!(views(&page.slice(..page.len() - 1), values.len()).is_none(), "cut");
                }
            }
        }
    }
}
