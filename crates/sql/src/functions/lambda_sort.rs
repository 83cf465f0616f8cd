//! ARRAY_SORT with a lambda that compares two elements.
//!
//! Runs are merged bottom-up, and all merges of a batch that are in progress evaluate the lambda together, over many
//! pairs at once. A comparison that contradicts itself gives some order of the elements, and never fails.

use std::ops::Range;

use arrow::array::{Array, ArrayRef, AsArray, UInt64Array};
use arrow::compute::take;
use arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err};

use super::args::Args;
use super::args::lenient_cast;
use super::lambda_rows::{Body, Elements, as_lists};
use crate::type_text::Sql;

/// Two runs that are merged.
struct Merge {
    row: usize,
    left: Range<usize>,
    right: Range<usize>,
    /// The place of the next element of the merged run.
    to: usize,
}

/// Sorts the elements of each row's array.
pub fn sorted(a: &Args, elements: &Elements, body: &Body<'_>) -> Result<ArrayRef> {
    let spans: Vec<Option<Range<usize>>> = (0..a.rows).map(|row| elements.span(row)).collect();
    let lengths: Vec<Option<usize>> = spans.iter().map(|span| span.as_ref().map(Range::len)).collect();
    // The places of all elements, row after row.
    let mut order: Vec<u64> = spans.iter().flatten().flat_map(|span| span.start as u64..span.end as u64).collect();
    a.made(order.len().saturating_mul(2 * size_of::<u64>()))?;
    let mut ends = Vec::with_capacity(a.rows);
    let mut end = 0;
    for length in &lengths {
        end += length.unwrap_or(0);
        ends.push(end);
    }
    let longest = lengths.iter().flatten().copied().max().unwrap_or(0);
    let mut width = 1;
    while width < longest {
        let from = order.clone();
        let mut merges = Vec::new();
        for (row, end) in ends.iter().enumerate() {
            let mut start = end - lengths[row].unwrap_or(0);
            while start + width < *end {
                let (middle, last) = (start + width, (start + 2 * width).min(*end));
                merges.push(Merge { row, left: start..middle, right: middle..last, to: start });
                start = last;
            }
        }
        while !merges.is_empty() {
            super::still_wanted()?;
            let right_first = asked(a, elements, body, &from, &merges)?;
            for (merge, right_first) in merges.iter_mut().zip(right_first) {
                let run = if right_first { &mut merge.right } else { &mut merge.left };
                order[merge.to] = from[run.start];
                run.start += 1;
                merge.to += 1;
            }
            merges.retain(|merge| {
                let goes_on = !merge.left.is_empty() && !merge.right.is_empty();
                if !goes_on {
                    let rest = if merge.left.is_empty() { merge.right.clone() } else { merge.left.clone() };
                    order[merge.to..merge.to + rest.len()].copy_from_slice(&from[rest]);
                }
                goes_on
            });
        }
        width *= 2;
    }
    let values = take(&elements.values, &UInt64Array::from(order), None)?;
    as_lists(&a.ret, &lengths, &values)
}

/// Returns for each merge whether the first element of the right run goes before that of the left one.
fn asked(a: &Args, elements: &Elements, body: &Body<'_>, from: &[u64], merges: &[Merge]) -> Result<Vec<bool>> {
    let mut answers = Vec::with_capacity(merges.len());
    for merges in merges.chunks(body.piece_rows()) {
        let side = |run: fn(&Merge) -> usize| {
            let places = merges.iter().map(|merge| from[run(merge)]);
            take(&elements.values, &UInt64Array::from_iter_values(places), None)
        };
        let sides = [side(|merge| merge.right.start)?, side(|merge| merge.left.start)?];
        let columns = body.parameters.iter().map(|at| sides[*at].clone()).collect();
        let rows: Vec<(usize, usize)> = merges.iter().map(|merge| (merge.row, 1)).collect();
        let results = body.results(columns, &rows, merges.len())?;
        if results.logical_null_count() > 0 {
            return exec_err!("{}: expected a lambda that gives -1, 0 or 1, found NULL", a.name);
        }
        match results.data_type() {
            DataType::Boolean => answers.extend(results.as_boolean().values().iter()),
            t if t.is_numeric() => {
                let numbers = lenient_cast(&results, &DataType::Float64)?;
                answers.extend(numbers.as_primitive::<Float64Type>().values().iter().map(|n| *n < 0.0));
            }
            t => return exec_err!("{}: expected a lambda that gives -1, 0 or 1, found {}", a.name, Sql(t)),
        }
    }
    Ok(answers)
}
