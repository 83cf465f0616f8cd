//! The elements of arrays as rows over which the body of a lambda is evaluated.
//!
//! The elements of all rows of a batch are concatenated. The body is evaluated over pieces of them, in which a column
//! of the row around an array is repeated by the row's number. A piece has at most [`PIECE_ROWS`] elements, fewer if
//! the repeated columns are large, so that the memory of an evaluation does not grow with the arrays.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, RecordBatch, UInt64Array, new_empty_array};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::{concat, take};
use arrow::datatypes::{DataType, SchemaRef};
use arrow::record_batch::RecordBatchOptions;
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::physical_expr::PhysicalExpr;

use super::args::{Args, Col, lenient_cast};
use super::array::as_list;
use super::growth::bytes_of;

/// The largest number of elements over which a body is evaluated at once.
const PIECE_ROWS: usize = 16_384;

/// The bytes of repeated columns in a piece, at most.
const PIECE_BYTES: usize = 16 << 20;

/// The elements of an argument: those of its arrays, or the keys or values of its maps.
pub struct Elements {
    /// The elements of all rows.
    pub values: ArrayRef,
    offsets: OffsetBuffer<i32>,
    nulls: Option<NullBuffer>,
    one: bool,
}

impl Elements {
    /// Returns the elements of arrays.
    pub fn of_lists(lists: &Col<ListArray>) -> Elements {
        let array = &lists.array;
        Elements {
            values: Arc::clone(array.values()),
            offsets: array.offsets().clone(),
            nulls: array.nulls().cloned(),
            one: lists.one,
        }
    }

    /// Returns the keys and the values of maps.
    pub fn of_maps(maps: &MapArray, one: bool) -> [Elements; 2] {
        let part = |values: &ArrayRef| Elements {
            values: Arc::clone(values),
            offsets: maps.offsets().clone(),
            nulls: maps.nulls().cloned(),
            one,
        };
        [part(maps.keys()), part(maps.values())]
    }

    /// Returns the places of a row's elements; `None` for NULL.
    pub fn span(&self, row: usize) -> Option<Range<usize>> {
        let row = if self.one { 0 } else { row };
        let is_valid = self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        is_valid.then(|| self.offsets[row] as usize..self.offsets[row + 1] as usize)
    }
}

/// Returns the elements of argument `k`: one for an array, keys and values for a MAP.
///
/// # Errors
/// `Execution` if the argument is neither an ARRAY nor a MAP.
pub fn elements(a: &Args, k: usize) -> Result<Vec<Elements>> {
    let raw = a.raw(k);
    Ok(match raw.array.data_type() {
        DataType::Map(..) => Elements::of_maps(raw.array.as_map(), raw.one).into(),
        _ => vec![Elements::of_lists(&Col { array: as_list(a.name, &raw.array)?, one: raw.one })],
    })
}

/// Returns the number of elements of each row, which must be the same in all arguments; `None` where one of them is
/// NULL.
///
/// # Errors
/// `Execution` if the arrays of a row have different lengths.
pub fn lengths(name: &str, rows: usize, all: &[Elements]) -> Result<Vec<Option<usize>>> {
    let mut lengths = Vec::with_capacity(rows);
    for row in 0..rows {
        let (mut length, mut other) = (None, None);
        let mut is_null = false;
        for (at, elements) in all.iter().enumerate() {
            match elements.span(row).map(|span| span.len()) {
                None => is_null = true,
                Some(n) if *length.get_or_insert(n) != n => other = other.or(Some((at, n))),
                Some(_) => {}
            }
        }
        if let (Some((at, n)), Some(first), false) = (other, length, is_null) {
            return exec_err!(
                "{name}: expected arrays of one length, found {first} elements in array 1 and {n} in array {}",
                at + 1
            );
        }
        lengths.push(length.filter(|_| !is_null));
    }
    Ok(lengths)
}

/// The body of a lambda, and the columns that it reads.
pub struct Body<'a> {
    /// The expression, over `schema`.
    pub expr: &'a Arc<dyn PhysicalExpr>,
    /// The columns: the parameters that are read, followed by columns of the row.
    pub schema: &'a SchemaRef,
    /// The numbers of the parameters that are read.
    pub parameters: &'a [usize],
    /// The arguments of the call that are columns of the row, with a value for each row or, if the flag is set, one for
    /// all.
    pub captures: Vec<(ArrayRef, bool)>,
    /// The type of the results.
    pub returns: &'a DataType,
}

impl Body<'_> {
    /// Returns the number of elements of a piece.
    pub fn piece_rows(&self) -> usize {
        let bytes: usize = self.captures.iter().map(|(array, _)| bytes_of(array) / array.len().max(1)).sum();
        (PIECE_BYTES / bytes.max(1)).clamp(1, PIECE_ROWS)
    }

    /// Evaluates the body over `columns` of parameters; `rows` are the rows that they belong to, each with its number
    /// of elements.
    ///
    /// # Errors
    /// An error of the body.
    pub fn results(&self, mut columns: Vec<ArrayRef>, rows: &[(usize, usize)], length: usize) -> Result<ArrayRef> {
        for (array, one) in &self.captures {
            columns.push(match one {
                true => ScalarValue::try_from_array(array, 0)?.to_array_of_size(length)?,
                false => {
                    let places = rows.iter().flat_map(|(row, n)| std::iter::repeat_n(*row as u64, *n));
                    take(array, &UInt64Array::from_iter_values(places), None)?
                }
            });
        }
        for (column, field) in columns.iter_mut().zip(self.schema.fields()) {
            *column = lenient_cast(column, field.data_type())?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(length));
        let batch = RecordBatch::try_new_with_options(Arc::clone(self.schema), columns, &options)?;
        lenient_cast(&self.expr.evaluate(&batch)?.into_array(length)?, self.returns)
    }

    /// Evaluates the body over all elements; the results are concatenated.
    ///
    /// # Errors
    /// An error of the body, or `ResourcesExhausted` if there is no room for the results.
    pub fn over(&self, a: &Args, all: &[Elements], lengths: &[Option<usize>]) -> Result<ArrayRef> {
        let most = self.piece_rows();
        let mut pieces = Vec::new();
        let mut piece = Piece::default();
        for (row, length) in lengths.iter().enumerate() {
            let (mut from, length) = (0, length.unwrap_or(0));
            while from < length {
                let n = (length - from).min(most - piece.length);
                piece.parts.push((row, from, n));
                piece.length += n;
                from += n;
                if piece.length == most {
                    pieces.push(self.of_piece(a, all, std::mem::take(&mut piece))?);
                }
            }
        }
        if piece.length > 0 {
            pieces.push(self.of_piece(a, all, piece)?);
        }
        Ok(match pieces.as_slice() {
            [] => new_empty_array(self.returns),
            [one] => Arc::clone(one),
            _ => concat(&pieces.iter().map(|piece| piece.as_ref()).collect::<Vec<_>>())?,
        })
    }

    fn of_piece(&self, a: &Args, all: &[Elements], piece: Piece) -> Result<ArrayRef> {
        let columns = self.parameters.iter().map(|at| piece.values(&all[*at])).collect::<Result<Vec<_>>>()?;
        let rows: Vec<(usize, usize)> = piece.parts.iter().map(|(row, _, n)| (*row, *n)).collect();
        let results = self.results(columns, &rows, piece.length)?;
        a.made(bytes_of(&results))?;
        Ok(results)
    }
}

/// A piece: elements of one or more rows.
#[derive(Default)]
struct Piece {
    /// For each part its row, its first element, and its number of elements.
    parts: Vec<(usize, usize, usize)>,
    /// The number of elements of all parts.
    length: usize,
}

impl Piece {
    /// Returns the values of the piece's elements.
    fn values(&self, elements: &Elements) -> Result<ArrayRef> {
        let starts =
            || self.parts.iter().map(|(row, from, n)| (elements.span(*row).map_or(0, |span| span.start) + from, *n));
        let first = starts().next().map_or(0, |(start, _)| start);
        let mut end = first;
        let is_one_slice = starts().all(|(start, n)| {
            let follows = start == end;
            end = start + n;
            follows
        });
        if is_one_slice {
            return Ok(elements.values.slice(first, self.length));
        }
        let places = starts().flat_map(|(start, n)| start as u64..(start + n) as u64);
        Ok(take(&elements.values, &UInt64Array::from_iter_values(places), None)?)
    }
}

/// Builds lists that have `lengths` of the values each; a length of `None` is NULL.
///
/// # Errors
/// `Execution` if the result is not an ARRAY; Arrow's error if the values cannot be cast to its elements' type.
pub fn as_lists(ret: &DataType, lengths: &[Option<usize>], values: &ArrayRef) -> Result<ArrayRef> {
    let DataType::List(item) = ret else { return exec_err!("expected an ARRAY as the result, found {ret}") };
    let offsets = OffsetBuffer::from_lengths(lengths.iter().map(|length| length.unwrap_or(0)));
    let nulls = NullBuffer::from_iter(lengths.iter().map(Option::is_some));
    let values = lenient_cast(values, item.data_type())?;
    Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, Some(nulls))?))
}

/// Returns the places of results that are concatenated.
pub fn spans(lengths: &[Option<usize>]) -> Vec<Option<Range<usize>>> {
    let mut end = 0;
    let span = |length: &Option<usize>| {
        let start = end;
        end += (*length)?;
        Some(start..end)
    };
    lengths.iter().map(span).collect()
}
