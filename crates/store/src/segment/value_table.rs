//! A test of one number as a table: its answer for each value of a range.

use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, cast::AsArray};
use arrow_buffer::{BooleanBuffer, Buffer};
use arrow_schema::{DataType, TimeUnit};

/// One bit for each whole number of a range. A look-up costs a nanosecond whatever the test is.
#[derive(Debug)]
pub struct ValueTable {
    first: i64,
    count: u64,
    /// The bits, lowest first, followed by a word of zeros.
    words: Vec<u64>,
}

impl ValueTable {
    /// Makes a table; `bits` are the answers for `first` and the numbers after it.
    pub fn new(first: i64, bits: BooleanBuffer) -> Self {
        let mut words: Vec<u64> = bits.bit_chunks().iter_padded().collect();
        words.push(0);
        assert!(words.len() > bits.len().div_ceil(64), "a word of zeros follows the answers");
        ValueTable { first, count: bits.len() as u64, words }
    }

    /// Returns whether columns of that type can be looked up.
    pub fn takes(data_type: &DataType) -> bool {
        use DataType::{Date32, Int8, Int16, Int32, Int64, Timestamp};
        matches!(data_type, Int8 | Int16 | Int32 | Int64 | Date32 | Timestamp(TimeUnit::Microsecond, None))
    }

    /// Returns the numbers from `first` on as an array of a supported type; `None` for another type, or if they do not
    /// fit.
    pub fn values(data_type: &DataType, first: i64, count: usize) -> Option<ArrayRef> {
        fn all<T: ArrowPrimitiveType>(first: i64, count: usize) -> Option<ArrayRef>
        where
            T::Native: TryFrom<i64>,
        {
            let end = first.checked_add(count as i64)?;
            let values: Option<Vec<T::Native>> = (first..end).map(|v| v.try_into().ok()).collect();
            Some(std::sync::Arc::new(PrimitiveArray::<T>::new(values?.into(), None)))
        }
        match data_type {
            DataType::Int8 => all::<Int8Type>(first, count),
            DataType::Int16 => all::<Int16Type>(first, count),
            DataType::Int32 => all::<Int32Type>(first, count),
            DataType::Date32 => all::<Date32Type>(first, count),
            DataType::Int64 => all::<Int64Type>(first, count),
            DataType::Timestamp(TimeUnit::Microsecond, None) => all::<TimestampMicrosecondType>(first, count),
            _ => None,
        }
    }

    /// Returns the answer for each of the values; `None` if a value is NULL or out of the range, or if the type is not
    /// supported.
    pub fn look_up(&self, values: &ArrayRef) -> Option<BooleanArray> {
        if values.null_count() > 0 {
            return None;
        }
        let (found, outside) = self.answers(values)?;
        (!outside).then(|| BooleanArray::new(found, None))
    }

    /// Returns the answer for each of the values, where the answer for numbers out of the range is false, and that for
    /// NULL is NULL; `None` if the type is not supported.
    pub fn members(&self, values: &ArrayRef) -> Option<BooleanArray> {
        let (found, _) = self.answers(values)?;
        Some(BooleanArray::new(found, values.nulls().cloned()))
    }

    /// Returns a bit for each of the values, unset for numbers out of the range, and whether there is such a number.
    fn answers(&self, values: &ArrayRef) -> Option<(BooleanBuffer, bool)> {
        match values.data_type() {
            DataType::Int8 => Some(self.of::<Int8Type>(values)),
            DataType::Int16 => Some(self.of::<Int16Type>(values)),
            DataType::Int32 => Some(self.of::<Int32Type>(values)),
            DataType::Date32 => Some(self.of::<Date32Type>(values)),
            DataType::Int64 => Some(self.of::<Int64Type>(values)),
            DataType::Timestamp(TimeUnit::Microsecond, None) => Some(self.of::<TimestampMicrosecondType>(values)),
            _ => None,
        }
    }

    fn of<T: ArrowPrimitiveType>(&self, values: &ArrayRef) -> (BooleanBuffer, bool)
    where
        i64: From<T::Native>,
    {
        let values = values.as_primitive::<T>().values();
        let (first, count, words) = (self.first, self.count, self.words.as_slice());
        let last = words.len() - 1;
        let mut outside = false;
        let mut found = Vec::with_capacity(values.len().div_ceil(64));
        for values in values.chunks(64) {
            let mut word = 0;
            for (i, value) in values.iter().enumerate() {
                let at = i64::from(*value).wrapping_sub(first) as u64;
                outside |= at >= count;
                word |= (words[((at / 64) as usize).min(last)] >> (at % 64) & 1) << i;
            }
            found.push(word);
        }
        (BooleanBuffer::new(Buffer::from_vec(found), 0, values.len()), outside)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{Int8Array, Int32Array, Int64Array};

    use super::*;

    #[test]
    fn a_table_says_what_the_test_said() {
        for (first, count) in [(-20i64, 41usize), (1, 1), (i64::from(i32::MAX) - 9, 10), (-128, 256)] {
            let bits: BooleanBuffer = (0..count).map(|i| i % 3 == 1).collect();
            let table = ValueTable::new(first, bits.clone());
            let values = ValueTable::values(&DataType::Int64, first, count).unwrap();
            assert_eq!(table.look_up(&values).unwrap(), BooleanArray::new(bits.clone(), None));
            let cut = ValueTable::new(first + 3, bits.slice(3.min(count), count.saturating_sub(3)));
            let outside: ArrayRef = Arc::new(Int64Array::from(vec![first]));
            assert!(cut.look_up(&outside).is_none(), "below the range");
            let outside: ArrayRef = Arc::new(Int64Array::from(vec![first, first + count as i64]));
            assert!(table.look_up(&outside).is_none(), "above the range");
        }
        let table = ValueTable::new(-1, BooleanBuffer::from(vec![true, false, true]));
        let small: ArrayRef = Arc::new(Int8Array::from(vec![1, 0, -1, -1]));
        assert_eq!(table.look_up(&small).unwrap(), BooleanArray::from(vec![true, false, true, true]));
        let nulls: ArrayRef = Arc::new(Int32Array::from(vec![Some(0), None]));
        assert!(table.look_up(&nulls).is_none());
        let all: ArrayRef =
            Arc::new(Int64Array::from(vec![Some(-1), Some(0), None, Some(2), Some(i64::MIN), Some(70)]));
        let members = BooleanArray::from(vec![Some(true), Some(false), None, Some(false), Some(false), Some(false)]);
        assert_eq!(table.members(&all).unwrap(), members);
        assert!(ValueTable::values(&DataType::Int8, 120, 10).is_none(), "128 is no TINYINT");
    }
}
