//! Rows that an aggregate keeps, encoded as bytes of their own.
//!
//! A slice of an array keeps the whole array alive, and so do text views, and the size of either is that of the array.
//! Rows in Arrow's row format are bytes that share nothing. They compare like ORDER BY does (NULL first), and are equal
//! where their values are equal. So the bytes that are charged are those that are kept.

use std::collections::{HashMap, HashSet};

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, new_null_array};
use arrow::buffer::NullBuffer;
use arrow::compute::kernels::arity::unary;
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::hash_utils::RandomState;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::{EmitTo, ScalarUDF};
use std::sync::Arc;

use super::func::{Ret, def};

/// Whether rows of these types can be kept.
pub(super) fn can_keep(types: &[DataType]) -> bool {
    RowConverter::supports_fields(&fields(types)) && types.iter().all(comes_back)
}

/// Whether the row format restores the type: dictionaries come back as plain values.
fn comes_back(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(..) | DataType::RunEndEncoded(..) | DataType::Union(..) => false,
        DataType::Struct(fields) => fields.iter().all(|field| comes_back(field.data_type())),
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => {
            comes_back(field.data_type())
        }
        DataType::Map(field, _) => comes_back(field.data_type()),
        _ => true,
    }
}

fn fields(types: &[DataType]) -> Vec<SortField> {
    types.iter().cloned().map(SortField::new).collect()
}

/// At most one row per group.
#[derive(Debug)]
pub(super) struct KeptRows {
    converter: RowConverter,
    rows: Vec<Option<Box<[u8]>>>,
    /// The encoding of a missing row: NULLs.
    nothing: Box<[u8]>,
    /// The bytes of all rows.
    bytes: usize,
}

impl KeptRows {
    /// Creates the rows of no groups.
    ///
    /// # Errors
    /// Arrow's error if rows of these types cannot be [kept](can_keep).
    pub(super) fn new(types: &[DataType]) -> Result<Self> {
        let converter = RowConverter::new(fields(types))?;
        let nulls: Vec<ArrayRef> = types.iter().map(|t| new_null_array(t, 1)).collect();
        let nothing = converter.convert_columns(&nulls)?.row(0).data().into();
        Ok(KeptRows { converter, rows: Vec::new(), nothing, bytes: 0 })
    }

    /// Sets the number of groups; new groups have no row.
    pub(super) fn resize(&mut self, groups: usize) {
        self.rows.resize(groups, None);
    }

    /// Encodes rows as they would be kept.
    pub(super) fn bytes_of(&self, columns: &[ArrayRef]) -> Result<Rows> {
        Ok(self.converter.convert_columns(columns)?)
    }

    /// Returns the row of a group.
    pub(super) fn get(&self, group: usize) -> Option<&[u8]> {
        self.rows[group].as_deref()
    }

    /// Keeps a row for a group in place of the one before.
    pub(super) fn set(&mut self, group: usize, row: &[u8]) {
        let before = self.rows[group].replace(row.into());
        self.bytes += row.len();
        self.bytes -= before.map_or(0, |before| before.len());
    }

    /// Takes the rows of the groups that are emitted, as columns.
    pub(super) fn take(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let rows = emit_to.take_needed(&mut self.rows);
        self.bytes -= rows.iter().flatten().map(|row| row.len()).sum::<usize>();
        let parser = self.converter.parser();
        let rows = rows.iter().map(|row| parser.parse(row.as_deref().unwrap_or(&self.nothing)));
        Ok(self.converter.convert_rows(rows)?)
    }

    /// Returns the bytes that the rows occupy.
    pub(super) fn size(&self) -> usize {
        self.bytes + self.rows.capacity() * size_of::<Option<Box<[u8]>>>() + self.nothing.len()
    }
}

/// Copies one row of an array into an array that shares nothing with it.
pub(super) fn own_row(array: &ArrayRef, at: usize) -> Result<ArrayRef> {
    let mut kept = KeptRows::new(std::slice::from_ref(array.data_type()))?;
    kept.resize(1);
    let row = kept.bytes_of(&[array.slice(at, 1)])?;
    kept.set(0, row.row(0).data());
    Ok(kept.take(EmitTo::All)?.swap_remove(0))
}

/// A set of distinct rows.
#[derive(Debug)]
pub(super) struct RowSet {
    converter: RowConverter,
    rows: HashSet<Box<[u8]>, RandomState>,
    bytes: usize,
}

impl RowSet {
    /// Creates an empty set.
    ///
    /// # Errors
    /// Arrow's error if rows of these types cannot be [kept](can_keep).
    pub(super) fn new(types: &[DataType]) -> Result<Self> {
        let converter = RowConverter::new(fields(types))?;
        Ok(RowSet { converter, rows: HashSet::default(), bytes: 0 })
    }

    /// Adds the rows that are not in the set, and returns their numbers. Equal numbers make equal rows.
    pub(super) fn extend(&mut self, columns: &[ArrayRef]) -> Result<Vec<u64>> {
        let columns: Vec<ArrayRef> = columns.iter().map(one_zero).collect();
        let rows = self.converter.convert_columns(&columns)?;
        let mut new = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            if !self.rows.contains(row.data()) {
                self.bytes += row.data().len();
                self.rows.insert(row.data().into());
                new.push(at as u64);
            }
        }
        Ok(new)
    }

    /// Returns the rows as columns, in the order of their values.
    pub(super) fn columns(&self) -> Result<Vec<ArrayRef>> {
        let mut rows: Vec<&[u8]> = self.rows.iter().map(AsRef::as_ref).collect();
        rows.sort_unstable();
        let parser = self.converter.parser();
        Ok(self.converter.convert_rows(rows.into_iter().map(|row| parser.parse(row)))?)
    }

    /// Returns the bytes that the set occupies.
    pub(super) fn size(&self) -> usize {
        self.bytes + self.rows.capacity() * (size_of::<Box<[u8]>>() + 1)
    }
}

/// A list of rows, in the order in which they are added.
#[derive(Debug)]
pub(super) struct RowList {
    converter: RowConverter,
    bytes: Vec<u8>,
    /// The end of each row in `bytes`.
    ends: Vec<usize>,
}

impl RowList {
    /// Creates an empty list.
    ///
    /// # Errors
    /// Arrow's error if rows of these types cannot be [kept](can_keep).
    pub(super) fn new(types: &[DataType]) -> Result<Self> {
        Ok(RowList { converter: RowConverter::new(fields(types))?, bytes: Vec::new(), ends: Vec::new() })
    }

    /// Adds the rows for which `wanted` holds.
    pub(super) fn extend(&mut self, columns: &[ArrayRef], wanted: impl Fn(usize) -> bool) -> Result<()> {
        let rows = self.converter.convert_columns(columns)?;
        for (_, row) in rows.iter().enumerate().filter(|(at, _)| wanted(*at)) {
            self.bytes.extend_from_slice(row.data());
            self.ends.push(self.bytes.len());
        }
        Ok(())
    }

    /// Returns the number of rows.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the rows as columns.
    pub(super) fn columns(&self) -> Result<Vec<ArrayRef>> {
        let parser = self.converter.parser();
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let rows = starts.zip(&self.ends).map(|(start, end)| parser.parse(&self.bytes[start..*end]));
        Ok(self.converter.convert_rows(rows)?)
    }

    /// Returns the bytes that the list occupies.
    pub(super) fn size(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}

/// The distinct rows without a NULL, with the number of their occurrences.
#[derive(Debug)]
pub(super) struct RowCounts {
    converter: RowConverter,
    counts: HashMap<Box<[u8]>, u64, RandomState>,
    bytes: usize,
}

impl RowCounts {
    /// Creates an empty multiset.
    ///
    /// # Errors
    /// Arrow's error if rows of these types cannot be [kept](can_keep).
    pub(super) fn new(types: &[DataType]) -> Result<Self> {
        let converter = RowConverter::new(fields(types))?;
        Ok(RowCounts { converter, counts: HashMap::default(), bytes: 0 })
    }

    /// Encodes rows such that equal numbers make equal rows. Also returns the rows that have a NULL.
    fn rows(&self, columns: &[ArrayRef]) -> Result<(Rows, Option<NullBuffer>)> {
        let columns: Vec<ArrayRef> = columns.iter().map(one_zero).collect();
        let nulls =
            columns.iter().fold(None, |all, column| NullBuffer::union(all.as_ref(), column.logical_nulls().as_ref()));
        Ok((self.converter.convert_columns(&columns)?, nulls))
    }

    /// Counts rows that enter a frame.
    pub(super) fn enter(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let (rows, nulls) = self.rows(columns)?;
        for (at, row) in rows.iter().enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                continue;
            }
            match self.counts.get_mut(row.data()) {
                Some(count) => *count += 1,
                None => {
                    self.bytes += row.data().len();
                    self.counts.insert(row.data().into(), 1);
                }
            }
        }
        Ok(())
    }

    /// Takes rows back that leave the frame.
    pub(super) fn leave(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let (rows, nulls) = self.rows(columns)?;
        for (at, row) in rows.iter().enumerate() {
            if nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                continue;
            }
            match self.counts.get_mut(row.data()) {
                Some(1) => {
                    self.bytes -= row.data().len();
                    self.counts.remove(row.data());
                }
                Some(count) => *count -= 1,
                None => return internal_err!("a row leaves that has not come"),
            }
        }
        Ok(())
    }

    /// Returns the number of distinct rows.
    pub(super) fn len(&self) -> usize {
        self.counts.len()
    }

    /// Returns the bytes that the rows occupy.
    pub(super) fn size(&self) -> usize {
        self.bytes + self.counts.capacity() * (size_of::<(Box<[u8]>, u64)>() + 1)
    }
}

/// Returns the function that gives equal floats the same bits.
pub(crate) fn one_zero_udf() -> ScalarUDF {
    // The function has no name in SQL.
    def("dipper_one_zero", &[], (1, 1), Ret::Arg(0), |a| Ok(one_zero(&a.full(0)?))).into_udf()
}

/// Replaces `-0.0` by `0.0` and every NaN by the same NaN, also within arrays and structs.
pub(super) fn one_zero(column: &ArrayRef) -> ArrayRef {
    match column.data_type() {
        DataType::Float32 => {
            let one = |x: f32| if x.is_nan() { f32::NAN } else { x + 0.0 };
            Arc::new(unary::<_, _, Float32Type>(column.as_primitive::<Float32Type>(), one))
        }
        DataType::Float64 => {
            let one = |x: f64| if x.is_nan() { f64::NAN } else { x + 0.0 };
            Arc::new(unary::<_, _, Float64Type>(column.as_primitive::<Float64Type>(), one))
        }
        DataType::List(item) if item.data_type().is_floating() || item.data_type().is_nested() => {
            let (item, offsets, values, nulls) = column.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::new(item, offsets, one_zero(&values), nulls))
        }
        DataType::Struct(fields) if !fields.is_empty() => {
            let (fields, columns, nulls) = column.as_struct().clone().into_parts();
            Arc::new(StructArray::new(fields, columns.iter().map(one_zero).collect(), nulls))
        }
        DataType::Map(..) => {
            let (entries, offsets, parts, nulls, sorted) = column.as_map().clone().into_parts();
            let (fields, columns, pairs) = parts.into_parts();
            let parts = StructArray::new(fields, columns.iter().map(one_zero).collect(), pairs);
            Arc::new(MapArray::new(entries, offsets, parts, nulls, sorted))
        }
        _ => column.clone(),
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Float64Array, StringViewArray};
    use arrow::datatypes::Field;

    use super::*;

    fn long_texts(rows: usize) -> ArrayRef {
        let texts: ArrayRef = Arc::new((0..rows).map(|i| Some(format!("{i:0>100}"))).collect::<StringViewArray>());
        let field = Arc::new(Field::new("s", DataType::Utf8View, true));
        Arc::new(StructArray::from(vec![(field, texts)]))
    }

    #[test]
    fn a_row_weighs_what_it_holds() {
        let column = long_texts(8192);
        let mut kept = KeptRows::new(&[column.data_type().clone()]).unwrap();
        kept.resize(2);
        let rows = kept.bytes_of(std::slice::from_ref(&column)).unwrap();
        for at in 0..rows.num_rows() {
            kept.set(1, rows.row(at).data());
        }
        assert!(kept.size() < 1000, "{}", kept.size());
        let columns = kept.take(EmitTo::All).unwrap();
        assert!(columns[0].is_null(0));
        assert_eq!(&columns[0].slice(1, 1), &column.slice(8191, 1));
        assert!(columns[0].get_array_memory_size() < 2000);
        assert!(own_row(&column, 17).unwrap().get_array_memory_size() < 2000);
    }

    #[test]
    fn equal_numbers_are_one_row() {
        let mut set = RowSet::new(&[DataType::Float64]).unwrap();
        let numbers = vec![Some(0.0), Some(-0.0), Some(f64::NAN), Some(-f64::NAN), None, None, Some(1.0)];
        set.extend(&[Arc::new(Float64Array::from(numbers))]).unwrap();
        let columns = set.columns().unwrap();
        assert_eq!(columns[0].len(), 4);
        assert!(columns[0].is_null(0));
    }
}
