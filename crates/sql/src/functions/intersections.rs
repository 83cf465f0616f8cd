//! BITMAP values of the group by another column: what the sets of some of its values have in common.

use arrow::array::{Array, ArrayRef, AsArray, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use dipper_base::sketch::{BitmapUnion, RoaringTreemap, bitmap_to_bytes};

use super::args::lenient_cast;
use super::collected::{Counts, Rows, Spec, empty};
use super::func::{MANY, common_type};
use super::sketch::check_set;

/// Functions of this file.
pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "intersect_count",
        aliases: &["orthogonal_bitmap_intersect_count"],
        arity: (3, MANY),
        takes,
        returns: |_| Ok(DataType::Int64),
        declared: None,
        counts: Counts::Complete,
        nothing: empty,
        finish: |rows| Ok(ScalarValue::Int64(Some(common(rows)?.len() as i64))),
    },
    Spec {
        name: "orthogonal_bitmap_intersect",
        aliases: &[],
        arity: (3, MANY),
        takes,
        returns: |_| Ok(DataType::BinaryView),
        declared: Some("bitmap"),
        counts: Counts::Complete,
        nothing: |_| Ok(ScalarValue::BinaryView(Some(bitmap_to_bytes(&RoaringTreemap::new())))),
        finish: |rows| Ok(ScalarValue::BinaryView(Some(bitmap_to_bytes(&common(rows)?)))),
    },
];

/// A set, and values of one type.
fn takes(name: &'static str, types: &[DataType]) -> Result<Vec<DataType>> {
    check_set(name, &types[0])?;
    let values = common_type(name, &types[1..])?;
    Ok(std::iter::once(DataType::BinaryView).chain(std::iter::repeat_n(values, types.len() - 1)).collect())
}

/// The members that are in the sets of each of the values; a value without a row has the empty set.
fn common(rows: &Rows<'_>) -> Result<RoaringTreemap> {
    let external = |e| DataFusionError::External(Box::new(e));
    let sets = rows.columns[0].as_binary_view();
    let keys: &ArrayRef = &rows.columns[1];
    let mut found: Option<RoaringTreemap> = None;
    for value in &rows.columns[2..] {
        let value = lenient_cast(value, keys.data_type())?;
        let compare = make_comparator(keys, &value, SortOptions::default())?;
        let mut union = BitmapUnion::default();
        for row in (0..rows.len).filter(|row| compare(*row, *row).is_eq()) {
            union.add(sets.value(row)).map_err(external)?;
        }
        let set = std::mem::take(union.set());
        found = Some(match found {
            Some(found) => found & set,
            None => set,
        });
    }
    let mut found = found.unwrap_or_default();
    found.optimize();
    Ok(found)
}
