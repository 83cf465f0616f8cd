//! Values that became NULL because they are invalid for their type, which is a warning in MySQL.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{Array, ArrayRef};
use arrow::util::display::array_value_to_string;
use datafusion::common::config::ConfigOptions;

use super::SessionInfo;

/// The lost values of one statement, counted by all of its threads.
#[derive(Debug, Default)]
pub struct LostValues {
    count: AtomicU64,
    /// The description of the first one.
    first: Mutex<Option<String>>,
}

/// Compares by identity: each statement has its own.
impl PartialEq for LostValues {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl LostValues {
    /// Counts values; `what` describes the first of them: `Incorrect DATE value: '2024-02-30'`.
    pub fn add(&self, values: usize, what: impl FnOnce() -> String) {
        if values > 0 && self.count.fetch_add(values as u64, Ordering::Relaxed) == 0 {
            *self.first.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(what());
        }
    }

    /// Counts the values of `from` that are NULL in `to`.
    pub(crate) fn add_dates(config: &ConfigOptions, from: &ArrayRef, to: &dyn Array) {
        let lost = to.null_count().saturating_sub(from.logical_null_count());
        let Some(session) = config.extensions.get::<SessionInfo>().filter(|_| lost > 0) else { return };
        session.lost.add(lost, || {
            let nulls = from.logical_nulls();
            let given = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
            let row = (0..to.len()).filter(given).find(|row| to.is_null(*row));
            let value = row.and_then(|row| array_value_to_string(from, row).ok()).unwrap_or_default();
            format!("Incorrect datetime value: '{value}'")
        });
    }

    /// Moves the counts of `other` here.
    pub fn take_from(&self, other: &LostValues) {
        let count = other.count.swap(0, Ordering::Relaxed);
        let first = other.first.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        self.add(count as usize, || first.unwrap_or_default());
    }

    /// Whether there are no values that have not been reported.
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Forgets all values, because the statement is run again.
    pub fn clear(&self) {
        self.take();
    }

    /// Takes the message about the values; `None` if there are none.
    pub fn take(&self) -> Option<String> {
        let count = self.count.swap(0, Ordering::Relaxed);
        let first = self.first.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        match count {
            0 => None,
            1 => Some(format!("{}; it is NULL", first.unwrap_or_default())),
            more => Some(format!("{}; {more} such values are NULL", first.unwrap_or_default())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_named_and_all_are_counted() {
        let lost = LostValues::default();
        lost.add(0, || unreachable!("nothing is lost"));
        assert!(lost.is_empty());
        assert_eq!(lost.take(), None);
        lost.add(1, || "a".into());
        assert_eq!(lost.take().as_deref(), Some("a; it is NULL"));
        lost.add(2, || "a".into());
        lost.add(3, || "b".into());
        assert_eq!(lost.take().as_deref(), Some("a; 5 such values are NULL"));
        assert!(lost.is_empty());
        let other = LostValues::default();
        other.add(2, || "c".into());
        lost.take_from(&other);
        assert!(other.is_empty());
        assert_eq!(lost.take().as_deref(), Some("c; 2 such values are NULL"));
    }
}
