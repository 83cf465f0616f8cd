//! A sorted list of values with insertion and removal, which a moving frame needs for its median.
//!
//! The values lie in blocks of some hundreds. Finding a value, or the value at a position, looks at each block, and a
//! change moves the values of one block. So frames of a million rows cost a microsecond or two per row that enters or
//! leaves.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowNativeTypeOp, DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};

use super::moving::Maker;

/// The number of values of a block; a block of twice as many is split in two.
const BLOCK: usize = 512;

/// Values in the order of `compare`, which must distinguish all values that are not the same.
pub(super) struct Sorted<T> {
    blocks: Vec<Vec<T>>,
    len: usize,
    compare: fn(&T, &T) -> Ordering,
}

impl<T> fmt::Debug for Sorted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sorted").field("len", &self.len).finish_non_exhaustive()
    }
}

impl<T: Copy> Sorted<T> {
    pub(super) fn new(compare: fn(&T, &T) -> Ordering) -> Self {
        Sorted { blocks: Vec::new(), len: 0, compare }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the first block that does not end below the value.
    fn block_of(&self, value: &T) -> usize {
        let is_below = |block: &Vec<T>| block.last().is_some_and(|last| (self.compare)(last, value).is_lt());
        self.blocks.partition_point(is_below)
    }

    pub(super) fn insert(&mut self, value: T) {
        self.len += 1;
        if self.blocks.is_empty() {
            self.blocks.push(vec![value]);
            return;
        }
        let at = self.block_of(&value).min(self.blocks.len() - 1);
        let (block, compare) = (&mut self.blocks[at], self.compare);
        let place = block.partition_point(|other| compare(other, &value).is_lt());
        block.insert(place, value);
        if block.len() >= 2 * BLOCK {
            let upper = block.split_off(BLOCK);
            self.blocks.insert(at + 1, upper);
        }
    }

    /// Removes one value that is equal; returns false if there is none.
    pub(super) fn remove(&mut self, value: &T) -> bool {
        let (at, compare) = (self.block_of(value), self.compare);
        let Some(block) = self.blocks.get_mut(at) else { return false };
        let place = block.partition_point(|other| compare(other, value).is_lt());
        if !block.get(place).is_some_and(|other| compare(other, value).is_eq()) {
            return false;
        }
        block.remove(place);
        self.len -= 1;
        let left = block.len();
        if left == 0 {
            self.blocks.remove(at);
        } else if left < BLOCK / 4 && self.blocks.get(at + 1).is_some_and(|next| next.len() < BLOCK / 2) {
            let next = self.blocks.remove(at + 1);
            self.blocks[at].extend(next);
        }
        true
    }

    /// Returns the value at a position, counted from 0.
    pub(super) fn get(&self, mut place: usize) -> Option<T> {
        for block in &self.blocks {
            match block.get(place) {
                Some(value) => return Some(*value),
                None => place -= block.len(),
            }
        }
        None
    }

    /// Returns the bytes that the values occupy.
    pub(super) fn size(&self) -> usize {
        let blocks = self.blocks.iter().map(|block| block.capacity() * size_of::<T>() + size_of::<Vec<T>>());
        blocks.sum()
    }
}

/// Returns the accumulator of MEDIAN over moving frames; `None` for types that are not handled here.
pub(super) fn median_frame(function: &Arc<AggregateUDF>, args: &AccumulatorArgs) -> Option<Box<dyn Accumulator>> {
    let data_type = args.expr_fields[0].data_type().clone();
    let maker = Maker::new(function, args);
    Some(match data_type {
        DataType::Int8 => Box::new(MedianFrame::<Int8Type>::new(data_type, maker)),
        DataType::Int16 => Box::new(MedianFrame::<Int16Type>::new(data_type, maker)),
        DataType::Int32 => Box::new(MedianFrame::<Int32Type>::new(data_type, maker)),
        DataType::Int64 => Box::new(MedianFrame::<Int64Type>::new(data_type, maker)),
        DataType::Float32 => Box::new(MedianFrame::<Float32Type>::new(data_type, maker)),
        DataType::Float64 => Box::new(MedianFrame::<Float64Type>::new(data_type, maker)),
        DataType::Decimal128(..) => Box::new(MedianFrame::<Decimal128Type>::new(data_type, maker)),
        _ => return None,
    })
}

/// MEDIAN over moving frames of numbers of one type: the value in the middle, or the median of the two values there.
struct MedianFrame<T: ArrowPrimitiveType> {
    sorted: Sorted<T::Native>,
    data_type: DataType,
    maker: Maker,
}

impl<T: ArrowPrimitiveType> fmt::Debug for MedianFrame<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MedianFrame").field("sorted", &self.sorted).finish_non_exhaustive()
    }
}

impl<T: ArrowPrimitiveType> MedianFrame<T> {
    /// Creates an empty frame; `maker` makes the aggregate of rows that do not move.
    fn new(data_type: DataType, maker: Maker) -> Self {
        MedianFrame { sorted: Sorted::new(|a, b| a.compare(*b)), data_type, maker }
    }
}

impl<T: ArrowPrimitiveType> Accumulator for MedianFrame<T> {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        columns[0].as_primitive::<T>().iter().flatten().for_each(|value| self.sorted.insert(value));
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        match columns[0].as_primitive::<T>().iter().flatten().all(|value| self.sorted.remove(&value)) {
            true => Ok(()),
            false => internal_err!("a value leaves a frame that it has not entered"),
        }
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = self.sorted.len();
        let middle = (values.saturating_sub(1) / 2..=values / 2).filter_map(|place| self.sorted.get(place));
        let middle = PrimitiveArray::<T>::from_iter_values(middle).with_data_type(self.data_type.clone());
        let mut median = self.maker.make()?;
        median.update_batch(&[Arc::new(middle)])?;
        median.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a moving frame has no partial states")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a moving frame has no partial states")
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sorted.size()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Ten thousand steps, during which the list grows, shrinks, or stays about as long.
        #[test]
        fn values_are_where_a_sorted_list_has_them(seed: u64, range in 1..5_000_u64, growing in 1..10_u64) {
            let mut state = seed | 1;
            let mut next = |n: u64| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 33) % n
            };
            let (mut sorted, mut list) = (Sorted::new(u64::cmp), Vec::new());
            for step in 0..10_000 {
                let value = next(range);
                match list.binary_search(&value) {
                    Ok(at) if next(10) >= growing => {
                        list.remove(at);
                        prop_assert!(sorted.remove(&value));
                    }
                    Err(_) if next(20) == 0 => prop_assert!(!sorted.remove(&value)),
                    Ok(at) | Err(at) => {
                        list.insert(at, value);
                        sorted.insert(value);
                    }
                }
                prop_assert_eq!(sorted.len(), list.len());
                let place = next(list.len() as u64 + 2) as usize;
                prop_assert_eq!(sorted.get(place), list.get(place).copied(), "step {}", step);
            }
            prop_assert!(sorted.blocks.len() <= list.len() / 30 + 4, "{} in {}", list.len(), sorted.blocks.len());
            for value in list {
                prop_assert!(sorted.remove(&value));
            }
            prop_assert_eq!((sorted.len(), sorted.blocks.len()), (0, 0));
        }
    }
}
