//! Pruning of tablets by conditions on partition and distribution columns.

use std::ops::Bound;

use arrow_array::ArrayRef;

use super::{Lookup, RouteError, Router, hash};
use crate::table::schema::{ColumnId, PartitionId};

/// The part of a condition that concerns one column. Without values and bounds any value passes. Values are arrays of
/// the column's Arrow type.
#[derive(Debug, Clone)]
pub struct Constraint {
    /// The column.
    pub column: ColumnId,
    /// The column has one of these values (NULLs among them are ignored).
    pub values: Option<ArrayRef>,
    /// Lower bound of the column, an array of one value.
    pub lower: Bound<ArrayRef>,
    /// Upper bound of the column.
    pub upper: Bound<ArrayRef>,
    /// Whether rows with NULL can pass too.
    pub nulls: bool,
}

impl Constraint {
    /// Makes the constraint `column IN (values)`.
    pub fn values(column: ColumnId, values: ArrayRef) -> Self {
        Constraint { column, values: Some(values), lower: Bound::Unbounded, upper: Bound::Unbounded, nulls: false }
    }

    /// Makes a constraint that `column` is between two bounds.
    pub fn range(column: ColumnId, lower: Bound<ArrayRef>, upper: Bound<ArrayRef>) -> Self {
        Constraint { column, values: None, lower, upper, nulls: false }
    }
}

/// Buckets of a partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Buckets {
    /// All buckets.
    All,
    /// Only these, ascending.
    Some(Vec<u32>),
}

impl Buckets {
    /// Returns whether a bucket is among them.
    pub fn contains(&self, bucket: u32) -> bool {
        match self {
            Buckets::All => true,
            Buckets::Some(all) => all.binary_search(&bucket).is_ok(),
        }
    }
}

/// Most combinations of values that are tried. With more, the remaining columns are ignored.
const COMBINATIONS_MAX: usize = 1024;

/// Byte strings from the first (inclusive) to the second (exclusive; `None` for unbounded).
type Interval = (Vec<u8>, Option<Vec<u8>>);

/// Returns the smallest byte string above all that begin with `bytes`; `None` if there is none.
fn successor(mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    while let Some(last) = bytes.pop() {
        if last < 0xff {
            bytes.push(last + 1);
            return Some(bytes);
        }
    }
    None
}

impl Router {
    /// Returns the partitions, with their buckets, that can hold rows that pass all constraints (at most one per
    /// column). Exact for partitions by value and for ranges. Buckets are pruned if all distribution columns have
    /// `values`.
    ///
    /// # Errors
    /// [`RouteError::Arrow`] for arrays of other types than their columns'.
    pub fn prune(&self, constraints: &[Constraint]) -> Result<Vec<(PartitionId, Buckets)>, RouteError> {
        let intervals = self.intervals(constraints)?;
        let meets = |lower: &[u8], upper: Option<&[u8]>| {
            intervals.iter().any(|(from, to)| {
                upper.is_none_or(|upper| from.as_slice() < upper) && to.as_ref().is_none_or(|to| lower < to.as_slice())
            })
        };
        let mut kept = vec![false; self.places.len()];
        match &self.lookup {
            Lookup::All => kept.fill(true),
            Lookup::Range(ranges) => {
                for (keep, (lower, upper)) in kept.iter_mut().zip(ranges) {
                    *keep = meets(lower, upper.as_deref());
                }
            }
            Lookup::List(lists) => {
                for (tuple, place) in lists {
                    let keep = &mut kept[*place as usize];
                    *keep = *keep
                        || intervals.iter().any(|(from, to)| from <= tuple && to.as_ref().is_none_or(|to| tuple < to));
                }
            }
        }
        let hashes = self.hashes(constraints)?;
        let places = self.places.iter().zip(kept).filter(|(_, keep)| *keep);
        Ok(places
            .map(|(place, _)| {
                let buckets = match &hashes {
                    None => Buckets::All,
                    Some(hashes) => {
                        let count = place.partition.buckets.max(1);
                        let mut all: Vec<u32> = hashes.iter().map(|h| hash::bucket(*h, count)).collect();
                        all.sort_unstable();
                        all.dedup();
                        Buckets::Some(all)
                    }
                };
                (place.partition.id, buckets)
            })
            .collect())
    }

    /// Returns the partition tuples that can pass, as intervals of their bytes.
    fn intervals(&self, constraints: &[Constraint]) -> Result<Vec<Interval>, RouteError> {
        let mut prefixes: Vec<Vec<u8>> = vec![Vec::new()];
        let whole = |prefixes: Vec<Vec<u8>>| -> Vec<Interval> {
            prefixes
                .into_iter()
                .map(|p| {
                    let end = successor(p.clone());
                    (p, end)
                })
                .collect()
        };
        for (id, converter) in &self.single {
            let Some(c) = constraints.iter().find(|c| c.column == *id) else { return Ok(whole(prefixes)) };
            let encode = |values: &ArrayRef| -> Result<Vec<Vec<u8>>, RouteError> {
                let rows = converter.convert_columns(std::slice::from_ref(values))?;
                Ok((0..values.len()).filter(|i| values.is_valid(*i)).map(|i| rows.row(i).as_ref().to_vec()).collect())
            };
            // NULL's byte is 0, below that of every value.
            const NULL: u8 = 0;
            if let Some(values) = &c.values {
                let mut values = encode(values)?;
                if c.nulls {
                    let null = arrow_array::new_null_array(
                        c.values.as_ref().map_or(&arrow_schema::DataType::Null, |v| v.data_type()),
                        1,
                    );
                    values.push(converter.convert_columns(&[null])?.row(0).as_ref().to_vec());
                }
                if values.len() * prefixes.len() > COMBINATIONS_MAX {
                    return Ok(whole(prefixes));
                }
                prefixes = prefixes.iter().flat_map(|p| values.iter().map(|v| [p.as_slice(), v].concat())).collect();
                continue;
            }
            let one = |bound: &Bound<ArrayRef>| -> Result<Bound<Vec<u8>>, RouteError> {
                let first = |a: &ArrayRef| Ok::<_, RouteError>(encode(a)?.into_iter().next().unwrap_or_default());
                Ok(match bound {
                    Bound::Included(a) => Bound::Included(first(a)?),
                    Bound::Excluded(a) => Bound::Excluded(first(a)?),
                    Bound::Unbounded => Bound::Unbounded,
                })
            };
            let (lower, upper) = (one(&c.lower)?, one(&c.upper)?);
            let mut intervals = Vec::new();
            for prefix in prefixes {
                let with = |v: &[u8]| [prefix.as_slice(), v].concat();
                if c.nulls {
                    intervals.push((with(&[NULL]), Some(with(&[NULL + 1]))));
                }
                let from = match &lower {
                    Bound::Included(v) => with(v),
                    Bound::Excluded(v) => match successor(with(v)) {
                        Some(v) => v,
                        None => continue,
                    },
                    Bound::Unbounded => with(&[NULL + 1]),
                };
                let to = match &upper {
                    Bound::Included(v) => successor(with(v)),
                    Bound::Excluded(v) => Some(with(v)),
                    Bound::Unbounded => successor(prefix.clone()),
                };
                if to.as_ref().is_none_or(|to| from < *to) {
                    intervals.push((from, to));
                }
            }
            return Ok(intervals);
        }
        Ok(whole(prefixes))
    }

    /// Returns the hashes that rows can have; `None` for any.
    fn hashes(&self, constraints: &[Constraint]) -> Result<Option<Vec<u64>>, RouteError> {
        let Some(columns) = &self.hashed else { return Ok(None) };
        let mut sets = Vec::with_capacity(columns.len());
        for (id, _) in columns {
            let Some(values) =
                constraints.iter().find(|c| c.column == *id).and_then(|c| c.values.as_ref().map(|v| (v, c.nulls)))
            else {
                return Ok(None);
            };
            sets.push(values);
        }
        let mut combined: Vec<u64> = Vec::new();
        for (i, (values, nulls)) in sets.into_iter().enumerate() {
            let mut hashes = Vec::new();
            hash::hash_rows(&[values], values.len(), &mut hashes)?;
            let mut valid: Vec<u64> =
                hashes.into_iter().enumerate().filter(|(r, _)| values.is_valid(*r)).map(|(_, h)| h).collect();
            if nulls {
                valid.push(0);
            }
            combined = if i == 0 {
                valid
            } else {
                combined.iter().flat_map(|a| valid.iter().map(|b| hash::combine(*a, *b))).collect()
            };
            if combined.len() > COMBINATIONS_MAX {
                return Ok(None);
            }
        }
        Ok(Some(combined))
    }
}
