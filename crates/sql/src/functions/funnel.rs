//! WINDOW_FUNNEL(window, mode, time, event1, event2, ...): the number of events of a chain that follow each other
//! within a window of seconds.

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Int64Type, TimestampMicrosecondType};
use datafusion::common::{Result, ScalarValue, exec_err};

use super::collected::{Counts, Rows, Spec, count_type, null};
use super::func::{DATETIME, MANY};

/// The function of this file.
pub(super) const SPECS: &[Spec] = &[Spec {
    name: "window_funnel",
    aliases: &[],
    arity: (4, MANY),
    takes: |name, types| {
        let events = types.len() - 3;
        let first = [count_type(name, "window in seconds", &types[0])?, DataType::Utf8View, DATETIME];
        Ok(first.into_iter().chain(std::iter::repeat_n(DataType::Boolean, events)).collect())
    },
    returns: |_| Ok(DataType::Int32),
    declared: None,
    counts: Counts::Complete,
    nothing: null,
    finish: longest_chain,
}];

/// The condition that ends a chain besides the window.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    /// No other condition.
    Default,
    /// An event of the chain occurs again.
    Deduplication,
    /// A row is not the next event.
    Fixed,
    /// An event occurs at the same time as the one before.
    Increase,
}

/// Returns the value that a column has in all rows.
pub(super) fn constant<T: PartialEq + Copy>(
    name: &str,
    what: &str,
    mut values: impl Iterator<Item = T>,
) -> Result<Option<T>> {
    let Some(first) = values.next() else { return Ok(None) };
    match values.all(|value| value == first) {
        true => Ok(Some(first)),
        false => exec_err!("{name}: expected a constant {what}"),
    }
}

/// Returns for each row the first row, itself included, in which the event occurs; the number of rows where there is
/// none.
fn next_rows(event: &BooleanArray, order: &[usize]) -> Vec<usize> {
    let mut next = vec![order.len(); order.len() + 1];
    for at in (0..order.len()).rev() {
        next[at] = if event.value(order[at]) { at } else { next[at + 1] };
    }
    next
}

/// Sorts rows by their times; rows of the same time keep their order. Returns the order and the sorted times.
pub(super) fn in_time(times: &ArrayRef) -> (Vec<usize>, Vec<i64>) {
    let times = times.as_primitive::<TimestampMicrosecondType>();
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by_key(|row| times.value(*row));
    let sorted = order.iter().map(|row| times.value(*row)).collect();
    (order, sorted)
}

fn longest_chain(rows: &Rows<'_>) -> Result<ScalarValue> {
    let name = rows.name;
    let windows = rows.columns[0].as_primitive::<Int64Type>();
    let Some(window) = constant(name, "window", windows.values().iter().copied())? else { return rows.null() };
    let modes = rows.columns[1].as_string_view();
    let mode = match constant(name, "mode", modes.iter().flatten())? {
        Some("default") => Mode::Default,
        Some("deduplication") => Mode::Deduplication,
        Some("fixed") => Mode::Fixed,
        Some("increase") => Mode::Increase,
        other => {
            let other = other.unwrap_or_default();
            return exec_err!("{name}: expected the mode default, deduplication, fixed or increase, found '{other}'");
        }
    };
    let (order, times) = in_time(&rows.columns[2]);
    let events: Vec<Vec<usize>> = rows.columns[3..].iter().map(|e| next_rows(e.as_boolean(), &order)).collect();
    let window = window.saturating_mul(1_000_000);
    let (mut longest, mut start) = (0, 0);
    while longest < events.len() {
        start = events[0][start];
        if start == order.len() {
            break;
        }
        longest = longest.max(chain(&events, &times, start, times[start].saturating_add(window), mode));
        start += 1;
    }
    Ok(ScalarValue::Int32(Some(longest as i32)))
}

/// Returns the number of events that follow each other, starting at a row of the first event.
fn chain(events: &[Vec<usize>], times: &[i64], start: usize, end: i64, mode: Mode) -> usize {
    let mut last = start;
    for (found, event) in events.iter().enumerate().skip(1) {
        let at = event[last + 1];
        let is_next = at < times.len()
            && times[at] <= end
            && match mode {
                Mode::Default => true,
                Mode::Fixed => at == last + 1,
                Mode::Increase => times[at] > times[last],
                Mode::Deduplication => events[..found].iter().all(|earlier| earlier[last + 1] >= at),
            };
        if !is_next {
            return found;
        }
        last = at;
    }
    events.len()
}
