//! Distances and products of vectors, which are arrays of numbers. The results are FLOAT, as in Doris.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Float32Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::args::{Args, to_double};
use super::array::{lists, span};
use super::func::{Def, Ret, def};

const FLOAT: Ret = Ret::By(|_| Ok(DataType::Float32));

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("l1_distance", &[], (2, 2), FLOAT, |a| over_pairs(a, |pairs| pairs.map(|(x, y)| (x - y).abs()).sum())),
    def("l2_distance", &["l2_distance_approximate"], (2, 2), FLOAT, |a| {
        over_pairs(a, |pairs| pairs.map(|(x, y)| (x - y) * (x - y)).sum::<f64>().sqrt())
    }),
    def("inner_product", &["inner_product_approximate", "approx_inner_product"], (2, 2), FLOAT, |a| {
        over_pairs(a, |pairs| pairs.map(|(x, y)| x * y).sum())
    }),
    // If one of the vectors has no direction, the distance is the largest that there is.
    def("cosine_distance", &[], (2, 2), FLOAT, |a| {
        over_pairs(a, |pairs| cosine(pairs).map_or(2.0, |cosine| 1.0 - cosine))
    }),
    // The functions of StarRocks. A vector without a direction is like no other.
    def("cosine_similarity", &["approx_cosine_similarity"], (2, 2), FLOAT, |a| {
        over_pairs(a, |pairs| cosine(pairs).unwrap_or(0.0))
    }),
    // Both vectors have the length 1 already.
    def("cosine_similarity_norm", &[], (2, 2), FLOAT, |a| over_pairs(a, |pairs| pairs.map(|(x, y)| x * y).sum())),
    // StarRocks does not take the root, which changes no order.
    def("approx_l2_distance", &[], (2, 2), FLOAT, |a| {
        over_pairs(a, |pairs| pairs.map(|(x, y)| (x - y) * (x - y)).sum())
    }),
];

/// Returns the cosine of the angle between two vectors; `None` if one of them is 0.
fn cosine(pairs: &mut dyn Iterator<Item = (f64, f64)>) -> Option<f64> {
    let (mut product, mut left, mut right) = (0.0, 0.0, 0.0);
    for (x, y) in pairs {
        product += x * y;
        left += x * x;
        right += y * y;
    }
    (left > 0.0 && right > 0.0).then(|| product / (left.sqrt() * right.sqrt()))
}

/// Folds the pairs of elements of two arrays; NULL where an array or an element is NULL.
fn over_pairs(a: &Args, f: fn(&mut dyn Iterator<Item = (f64, f64)>) -> f64) -> Result<ArrayRef> {
    let (left, right) = (lists(a, 0)?, lists(a, 1)?);
    let (xs, ys) = (to_double(a.name, left.array.values())?, to_double(a.name, right.array.values())?);
    let mut found = Vec::with_capacity(a.rows);
    for row in 0..a.rows {
        let Some((here, there)) = span(&left, row).zip(span(&right, row)) else {
            found.push(None);
            continue;
        };
        if here.len() != there.len() {
            return exec_err!(
                "{}: expected arrays of one length, found {} and {} elements",
                a.name,
                here.len(),
                there.len()
            );
        }
        let valid = here.clone().all(|at| xs.is_valid(at)) && there.clone().all(|at| ys.is_valid(at));
        let mut pairs = here.zip(there).map(|(x, y)| (xs.value(x), ys.value(y)));
        // The sum of no elements is -0.0, so 0.0 is added.
        found.push(valid.then(|| f(&mut pairs) as f32 + 0.0));
    }
    Ok(Arc::new(Float32Array::from(found)))
}
