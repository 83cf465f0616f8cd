//! Trust in the statistics of another writer's file.
//!
//! Bounds are valid only in the order in which they were determined, which must be that of the values as they are read
//! here: the deprecated fields of the format were compared as signed bytes, for text and the like often wrongly
//! altogether (PARQUET-251), and some types have no order. A count of NULLs that is left out is not 0, and one writer
//! wrote 0 whatever there was. Bounds of floating point leave NaN out, or are NaN themselves; a zero among them may be
//! the other zero.

use std::collections::HashSet;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, PrimitiveArray, UInt64Array, new_null_array};
use arrow_ord::cmp::gt;
use arrow_schema::DataType;
use arrow_select::nullif::nullif;
use parquet::basic::{ColumnOrder, SortOrder, Type};
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::ColumnDescriptor;

/// The parts of a file's statistics that are trusted.
#[derive(Debug)]
pub(super) struct Trust {
    /// Whether NULLs were counted.
    nulls: bool,
    /// Row groups and leaves whose bounds are declared not to be values.
    inexact: HashSet<(usize, usize)>,
}

/// The fields in which bounds are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fields {
    /// The old fields, which were written without an order.
    Deprecated,
    /// The fields that came with a column's order, in row groups and in column indexes.
    Ordered,
}

impl Trust {
    pub(super) fn new(metadata: &ParquetMetaData, inexact: HashSet<(usize, usize)>) -> Self {
        let writer = metadata.file_metadata().created_by().unwrap_or_default();
        // Before version 5 the statistics of columns with dictionaries counted no NULLs (ARROW-12513).
        let nulls = version(writer, "parquet-cpp-arrow").is_none_or(|(major, _)| major >= 5);
        Self { nulls, inexact }
    }

    /// Returns whether bounds of a leaf are bounds of the values that are read.
    pub(super) fn bounds(&self, metadata: &ParquetMetaData, leaf: usize, fields: Fields) -> bool {
        let file = metadata.file_metadata();
        let column = file.schema_descr().column(leaf);
        let numbers = !matches!(column.physical_type(), Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY | Type::INT96);
        // Signed values were compared correctly by all writers.
        let signed = numbers && order(&column) != SortOrder::UNDEFINED && !is_unsigned(&column);
        let orders = file.column_orders().and_then(|orders| orders.get(leaf));
        match (fields, orders) {
            (Fields::Deprecated, _) | (Fields::Ordered, None | Some(ColumnOrder::UNDEFINED)) => signed,
            (Fields::Ordered, Some(ColumnOrder::TYPE_DEFINED_ORDER(_))) => order(&column) != SortOrder::UNDEFINED,
            (Fields::Ordered, Some(_)) => false,
        }
    }

    /// Returns whether bounds of a leaf in a row group may be values of it; `said` is what the statistics themselves
    /// declare.
    pub(super) fn exact(&self, column: &ColumnDescriptor, group: usize, leaf: usize, said: bool) -> bool {
        match column.physical_type() {
            // NaN is left out of bounds, and zeros have two signs.
            Type::FLOAT | Type::DOUBLE | Type::INT96 => false,
            // Bounds of text may be cut, unless they are declared not to be.
            Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY => said,
            _ => !self.inexact.contains(&(group, leaf)),
        }
    }

    /// Returns counts of NULLs; all are NULL if this writer's counts are not trusted.
    pub(super) fn nulls(&self, nulls: UInt64Array) -> UInt64Array {
        if self.nulls { nulls } else { UInt64Array::new_null(nulls.len()) }
    }
}

fn order(column: &ColumnDescriptor) -> SortOrder {
    ColumnOrder::sort_order_for_type(column.logical_type_ref(), column.converted_type(), column.physical_type())
}

/// Returns whether a number is unsigned. The two values of a bool have only one order.
fn is_unsigned(column: &ColumnDescriptor) -> bool {
    order(column) == SortOrder::UNSIGNED && column.physical_type() != Type::BOOLEAN
}

/// Returns major and minor version of the writer if it has that name.
pub(super) fn version(created_by: &str, name: &str) -> Option<(u32, u32)> {
    let rest = created_by.strip_prefix(name)?.strip_prefix(" version ")?;
    let mut parts = rest.split(|c: char| !c.is_ascii_digit());
    Some((parts.next()?.parse().ok()?, parts.next().and_then(|minor| minor.parse().ok()).unwrap_or(0)))
}

/// Returns bounds that can be compared with values: NULL for bounds that are NaN or the wrong way round, and zeros with
/// the sign that keeps them bounds.
pub(super) fn comparable(min: ArrayRef, max: ArrayRef) -> (ArrayRef, ArrayRef) {
    let (min, max) = match min.data_type() {
        DataType::Float32 => floats::<Float32Type>(&min, &max, (-0.0, 0.0)),
        DataType::Float64 => floats::<Float64Type>(&min, &max, (-0.0, 0.0)),
        // Writers order these as bytes or as numbers.
        DataType::Float16 => {
            let unknown = || new_null_array(&DataType::Float16, min.len());
            (unknown(), unknown())
        }
        _ => (min, max),
    };
    let without =
        |bounds: &ArrayRef, wrong: &BooleanArray| nullif(bounds, wrong).unwrap_or_else(|_| Arc::clone(bounds));
    match gt(&min, &max) {
        Ok(wrong) if wrong.true_count() > 0 => (without(&min, &wrong), without(&max, &wrong)),
        _ => (min, max),
    }
}

/// Returns bounds of floating point: NULL for both if one is NaN, and `zeros` for zeros.
fn floats<T: ArrowPrimitiveType>(
    min: &ArrayRef,
    max: &ArrayRef,
    zeros: (T::Native, T::Native),
) -> (ArrayRef, ArrayRef) {
    // Nothing equals NaN, not even NaN itself.
    #[expect(clippy::eq_op, reason = "NaN")]
    let is_nan = |bound: Option<T::Native>| bound.is_some_and(|bound| bound != bound);
    let (min, max) = (min.as_primitive::<T>(), max.as_primitive::<T>());
    let nan: Vec<bool> = min.iter().zip(max).map(|(min, max)| is_nan(min) || is_nan(max)).collect();
    let known = |bounds: &PrimitiveArray<T>, zero: T::Native| {
        let bound = |(bound, nan): (Option<T::Native>, &bool)| {
            let bound = bound.filter(|_| !nan)?;
            Some(if bound == T::Native::default() { zero } else { bound })
        };
        Arc::new(bounds.iter().zip(&nan).map(bound).collect::<PrimitiveArray<T>>()) as ArrayRef
    };
    (known(min, zeros.0), known(max, zeros.1))
}

#[cfg(test)]
mod tests {
    use arrow_array::{Float64Array, Int32Array};

    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("parquet-cpp-arrow version 4.0.1", "parquet-cpp-arrow"), Some((4, 0)));
        assert_eq!(version("parquet-cpp-arrow version 14", "parquet-cpp-arrow"), Some((14, 0)));
        assert_eq!(version("parquet-cpp version 1.5.1", "parquet-cpp-arrow"), None);
        assert_eq!(version("parquet-cpp version 1.5.1-SNAPSHOT", "parquet-cpp"), Some((1, 5)));
        assert_eq!(version("parquet-cpp-arrow version 2.0.0", "parquet-cpp"), None);
        assert_eq!(version("parquet-cpp-arrow version x", "parquet-cpp-arrow"), None);
    }

    #[test]
    fn bounds_that_say_nothing_are_none() {
        let bounds = |min: &[f64], max: &[f64]| {
            let array = |of: &[f64]| Arc::new(Float64Array::from(of.to_vec())) as ArrayRef;
            let (min, max) = comparable(array(min), array(max));
            let list = |of: &ArrayRef| of.as_primitive::<Float64Type>().iter().collect::<Vec<_>>();
            (list(&min), list(&max))
        };
        let (min, max) = bounds(&[0.0, f64::NAN, 1.0, 3.0], &[-0.0, 1.0, -f64::NAN, 2.0]);
        assert_eq!(min, [Some(-0.0), None, None, None]);
        assert_eq!(max, [Some(0.0), None, None, None]);
        assert!(min[0].unwrap().is_sign_negative() && max[0].unwrap().is_sign_positive());
        let ints = |of: [i32; 2]| Arc::new(Int32Array::from(of.to_vec())) as ArrayRef;
        let (min, max) = comparable(ints([1, 2]), ints([1, -2]));
        assert_eq!((min.null_count(), max.null_count()), (1, 1));
    }
}
