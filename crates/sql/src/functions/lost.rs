//! Values that became NULL because they are invalid for their type, which is a warning in MySQL.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::{Mutex, MutexGuard, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::{cast, filter, min_string_view};
use arrow::datatypes::DataType;
use arrow::util::display::array_value_to_string;
use datafusion::common::config::ConfigOptions;

use super::SessionInfo;

/// Those of one statement, which its threads count.
///
/// Each expression that loses values has one warning, with the number of all of them and the least as the example: what is
/// said must not follow from which thread came first.
#[derive(Debug, Default)]
pub struct LostValues(Mutex<BTreeMap<String, Lost>>);

/// What one expression has lost.
#[derive(Debug)]
struct Lost {
    count: usize,
    /// The least value, compared as text.
    least: String,
    /// What is said of it.
    what: String,
}

/// Compares by identity: each statement has its own.
impl PartialEq for LostValues {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl LostValues {
    fn expressions(&self) -> MutexGuard<'_, BTreeMap<String, Lost>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, expression: String, lost: Lost) {
        match self.expressions().entry(expression) {
            Entry::Vacant(place) => {
                place.insert(lost);
            }
            Entry::Occupied(mut known) => {
                let known = known.get_mut();
                let count = known.count + lost.count;
                if lost.least < known.least {
                    *known = lost;
                }
                known.count = count;
            }
        }
    }

    /// Counts the values that an expression has lost; `what` says what one of them is: `Incorrect DATE value: '2024-02-30'`.
    pub fn add(&self, expression: String, values: &ArrayRef, what: impl FnOnce(&str) -> String) {
        if !values.is_empty() {
            let least = least(values);
            self.put(expression, Lost { count: values.len(), what: what(&least), least });
        }
    }

    /// Counts the dates and times that are in `from` and not in `to`.
    pub(crate) fn add_dates(
        config: &ConfigOptions,
        expression: impl FnOnce() -> String,
        from: &ArrayRef,
        to: &dyn Array,
    ) {
        if to.null_count() <= from.logical_null_count() {
            return;
        }
        let Some(session) = config.extensions.get::<SessionInfo>() else { return };
        let nulls = from.logical_nulls();
        let is_lost = |row: usize| to.is_null(row) && nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        let lost: BooleanArray = (0..to.len()).map(|row| Some(is_lost(row))).collect();
        // Arrays of one length, of any type, can be filtered.
        let Ok(values) = filter(from, &lost) else { return };
        session.lost.add(expression(), &values, |value| format!("Incorrect datetime value: '{value}'"));
    }

    /// Moves the counts of `other` here.
    pub fn take_from(&self, other: &LostValues) {
        let taken = std::mem::take(&mut *other.expressions());
        taken.into_iter().for_each(|(expression, lost)| self.put(expression, lost));
    }

    /// The number of warnings that have not been told.
    pub fn len(&self) -> usize {
        self.expressions().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.expressions().is_empty()
    }

    /// Forgets all values, because the statement is run again.
    pub fn clear(&self) {
        self.expressions().clear();
    }

    /// What is to be told of them, once.
    pub fn take(&self) -> Vec<String> {
        let told = std::mem::take(&mut *self.expressions()).into_values().map(|lost| match lost.count {
            1 => format!("{}; it is NULL", lost.what),
            more => format!("{}; {more} such values are NULL", lost.what),
        });
        told.collect()
    }
}

/// The least of some values as text. Where they have none in bulk it is the first.
fn least(values: &ArrayRef) -> String {
    let texts = cast(values, &DataType::Utf8View).ok();
    match texts.as_ref().and_then(|texts| min_string_view(texts.as_string_view())) {
        Some(least) => least.to_owned(),
        None => array_value_to_string(values, 0).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int32Array, StringArray};

    use super::*;

    #[test]
    fn the_least_is_named_and_all_are_counted_whoever_comes_first() {
        let texts = |values: &[&str]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
        let what = |value: &str| format!("Incorrect '{value}'");
        let batches = [texts(&["c", "b"]), texts(&["a b"]), texts(&["d", "a", "e"])];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let lost = LostValues::default();
            for at in order {
                lost.add("x".into(), &batches[at], what);
            }
            lost.add("w".into(), &batches[1], what);
            assert_eq!(lost.len(), 2);
            assert_eq!(lost.take(), ["Incorrect 'a b'; it is NULL", "Incorrect 'a'; 6 such values are NULL"]);
        }
        let lost = LostValues::default();
        lost.add("x".into(), &texts(&[]), |_| unreachable!("nothing is lost"));
        assert!(lost.is_empty() && lost.take().is_empty());
        let numbers: ArrayRef = Arc::new(Int32Array::from(vec![9, 10]));
        lost.add("x".into(), &numbers, what);
        let other = LostValues::default();
        other.add("x".into(), &texts(&["0"]), what);
        lost.take_from(&other);
        assert!(other.is_empty());
        assert_eq!(lost.take(), ["Incorrect '0'; 3 such values are NULL"]);
        assert!(lost.is_empty());
    }
}
