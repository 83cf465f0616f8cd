//! Arrays of texts that are checked to be UTF-8 all together.
#![allow(unsafe_code)]

use arrow_array::StringArray;
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_schema::ArrowError;

/// Returns the array of the texts that lie one after the other in `values`.
///
/// # Errors
///
/// An error of [`StringArray::try_new`]: a text is not UTF-8, or the parts do not fit together.
pub(super) fn strings(
    offsets: OffsetBuffer<i32>,
    values: Buffer,
    nulls: Option<NullBuffer>,
) -> Result<StringArray, ArrowError> {
    let fit = offsets.last().is_some_and(|end| usize::try_from(*end).is_ok_and(|end| end <= values.len()))
        && nulls.as_ref().is_none_or(|nulls| nulls.len() + 1 == offsets.len());
    let whole = fit
        && simdutf8::basic::from_utf8(&values)
            .is_ok_and(|text| offsets.iter().all(|at| usize::try_from(*at).is_ok_and(|at| text.is_char_boundary(at))));
    if !whole {
        // The plain check finds the place of the fault.
        return StringArray::try_new(offsets, values, nulls);
    }
    // SAFETY: `OffsetBuffer` holds offsets that never fall, of which the last one is within `values`. `values` as a
    // whole is UTF-8 and each offset is the boundary of a character, so that each text is UTF-8. There are as many
    // NULL bits as texts.
    Ok(unsafe { StringArray::new_unchecked(offsets, values, nulls) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(lengths: &[usize], bytes: &[u8]) -> Result<Vec<String>, String> {
        let array = strings(OffsetBuffer::from_lengths(lengths.iter().copied()), Buffer::from(bytes), None);
        array.map(|array| array.iter().flatten().map(String::from).collect()).map_err(|error| error.to_string())
    }

    #[test]
    fn texts_are_utf8_one_by_one() {
        assert_eq!(made(&[1, 2, 0, 3], "aé€".as_bytes()).expect("texts"), ["a", "é", "", "€"]);
        assert!(made(&[2, 1], "aé".as_bytes()).is_err(), "a character is cut");
        assert!(made(&[1, 1], b"a\xff").is_err(), "a byte is no character");
        assert!(made(&[1, 9], b"ab").is_err(), "a text is beyond the end");
        assert!(made(&[], b"").expect("no text").is_empty());
    }
}
