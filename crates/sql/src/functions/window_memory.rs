//! Charging of the results of window functions to the memory budget.
//!
//! `array_agg(k) OVER (ORDER BY k)` gives each row all values before it: results grow with the square of the rows,
//! within one call of the operator. Accumulators know nothing of the statement that they work for, so the code that
//! runs a window sets, for its thread, the reservation from which the results are charged.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::Accumulator;

use super::still_wanted;

thread_local! {
    static WINDOW: RefCell<Option<Arc<MemoryReservation>>> = const { RefCell::new(None) };
}

/// Runs `work`. Accumulators that are made meanwhile charge the bytes of their results to `memory`; with `None` they
/// charge nothing.
pub fn with_window_memory<R>(memory: Option<&Arc<MemoryReservation>>, work: impl FnOnce() -> R) -> R {
    /// Restores the previous value, also if `work` panics.
    struct Before(Option<Arc<MemoryReservation>>);
    impl Drop for Before {
        fn drop(&mut self) {
            WINDOW.set(self.0.take());
        }
    }
    let _before = Before(WINDOW.replace(memory.cloned()));
    work()
}

/// Returns the accumulator itself, or, inside a window, one that reserves memory for each of its results.
pub(super) fn charged(accumulator: Box<dyn Accumulator>) -> Box<dyn Accumulator> {
    match WINDOW.with_borrow(Clone::clone) {
        Some(memory) => Box::new(Charged { accumulator, memory }),
        None => accumulator,
    }
}

#[derive(Debug)]
struct Charged {
    accumulator: Box<dyn Accumulator>,
    memory: Arc<MemoryReservation>,
}

/// Returns the bytes of a value besides its slot in a row.
fn weight(value: &ScalarValue) -> usize {
    let weigh = |array: &dyn Array| array.to_data().get_slice_memory_size().unwrap_or(0);
    match value {
        ScalarValue::List(array) => weigh(array.as_ref()),
        ScalarValue::LargeList(array) => weigh(array.as_ref()),
        ScalarValue::FixedSizeList(array) => weigh(array.as_ref()),
        ScalarValue::Struct(array) => weigh(array.as_ref()),
        ScalarValue::Map(array) => weigh(array.as_ref()),
        ScalarValue::Utf8(Some(text)) | ScalarValue::LargeUtf8(Some(text)) | ScalarValue::Utf8View(Some(text)) => {
            text.capacity()
        }
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => bytes.capacity(),
        _ => 0,
    }
}

impl Accumulator for Charged {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.accumulator.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.accumulator.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.accumulator.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        still_wanted()?;
        let value = self.accumulator.evaluate()?;
        match weight(&value) {
            0 => {}
            // The values of the rows are copied into one column afterwards.
            bytes => self.memory.try_grow(2 * bytes)?,
        }
        Ok(value)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.accumulator.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.accumulator.supports_retract_batch()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.accumulator.size()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};

    use super::*;

    #[derive(Debug)]
    struct Repeats(usize);

    impl Accumulator for Repeats {
        fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
            self.0 += values[0].len();
            Ok(())
        }

        fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
            Ok(())
        }

        fn state(&mut self) -> Result<Vec<ScalarValue>> {
            Ok(Vec::new())
        }

        fn evaluate(&mut self) -> Result<ScalarValue> {
            Ok(ScalarValue::Utf8View(Some("x".repeat(self.0))))
        }

        fn size(&self) -> usize {
            0
        }
    }

    #[test]
    fn results_of_a_window_take_memory() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(10_000));
        let memory = Arc::new(MemoryConsumer::new("window").register(&pool));
        let row: ArrayRef = Arc::new(Int64Array::from(vec![1; 100]));
        let mut outside = charged(Box::new(Repeats(0)));
        let mut inside = with_window_memory(Some(&memory), || charged(Box::new(Repeats(0))));
        let mut below =
            with_window_memory(Some(&memory), || with_window_memory(None, || charged(Box::new(Repeats(0)))));
        let mut told = 0;
        for _ in 0..20 {
            for accumulator in [&mut outside, &mut inside, &mut below] {
                accumulator.update_batch(std::slice::from_ref(&row)).unwrap();
            }
            outside.evaluate().unwrap();
            below.evaluate().unwrap();
            told += usize::from(inside.evaluate().is_ok());
        }
        // 2 * (100 + 200 + ... + 900) bytes fit.
        assert_eq!(told, 9);
        assert_eq!(memory.size(), 9000);
    }
}
