//! Routing: the tablet of a row, and the tablets that can hold rows which meet a condition.
//!
//! Partition values are compared in the encoding of `arrow-row` (ascending, NULL first). A tuple's bytes are its
//! columns' bytes one after the other, and each column's bytes are prefix-free. So a bound with fewer values than there
//! are partition columns is simply a shorter byte string, and "these columns have these values" is an interval of byte
//! strings.
//!
//! A row's bucket is `hash * buckets >> 64`, with the [`hash`] of its distribution columns. Both encodings are part
//! of the format: readers prune by them.

mod auto;
pub mod dynamic;
pub mod hash;
mod one;
mod prune;
#[cfg(test)]
mod tests;
mod validate;
mod values;

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_row::{RowConverter, SortField};
use arrow_schema::ArrowError;
use dipper_base::types::SqlType;

use crate::table::data::Tablet;
use crate::table::schema::{Bounds, ColumnId, Distribution, Partition, PartitionKind, TableSchema};

pub use auto::NewPartition;
pub use prune::{Buckets, Constraint};
pub use validate::{canonical, less_than, validate, validate_all};
pub use values::{literal, text_of};

/// Why rows cannot be routed, or partitions are refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// A partition or distribution column does not exist.
    #[error("the table has no column with id {0}, by which it is partitioned or distributed")]
    NoColumn(ColumnId),
    /// A partition or distribution column of a type without an order or a hash.
    #[error("column {column:?}: expected a type that can be {role}, found {found}")]
    Type {
        /// The column.
        column: String,
        /// Intended role of the column: `a partition column`, `a distribution column`.
        role: &'static str,
        /// Type of the column.
        found: String,
    },
    /// A text that is not a value of its column's type.
    #[error("{value:?} is not a {expected}{of}", of = .column.as_ref().map(|c| format!(", the type of partition column {c:?}")).unwrap_or_default())]
    Value {
        /// The column, if there is one.
        column: Option<String>,
        /// The text.
        value: String,
        /// The type.
        expected: String,
    },
    /// Bounds that contradict themselves or the table's partitioning.
    #[error("partition {partition:?}: {reason}")]
    Bounds {
        /// The partition.
        partition: String,
        /// The expected and the found bounds.
        reason: String,
    },
    /// Two partitions claim the same values.
    #[error("partition {partition:?} overlaps partition {other:?}; choose bounds that no other partition holds")]
    Overlap {
        /// The new partition.
        partition: String,
        /// The existing partition.
        other: String,
    },
    /// Two partitions have the same name.
    #[error("partition {0:?} exists already; choose another name")]
    Duplicate(String),
    /// A named partition does not exist.
    #[error("the table has no {temporary}partition {name:?}{near}", temporary = if *.temporary { "temporary " } else { "" })]
    NoPartition {
        /// Name of the partition.
        name: String,
        /// Whether a temporary partition was meant.
        temporary: bool,
        /// ` (it has ...)`.
        near: String,
    },
    /// An invalid property of dynamic partitions.
    #[error("property {name:?}: expected {expected}, found {found:?}")]
    Property {
        /// Name of the property.
        name: String,
        /// Valid values.
        expected: &'static str,
        /// Value of the property.
        found: String,
    },
    /// An error of Arrow; never for batches of the table's types.
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

/// A partition with its range of tablet numbers.
#[derive(Debug)]
struct Place {
    partition: Arc<Partition>,
    /// Number of the partition's first tablet, counted over all partitions of the router.
    first: u32,
}

#[derive(Debug)]
enum Lookup {
    /// Everything goes to the only partition.
    All,
    /// Lower and upper bound of each partition, ascending. An empty lower bound is below everything, `None` above.
    Range(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    /// Index of the partition for each of its values.
    List(HashMap<Vec<u8>, u32>),
}

/// Finds the tablets of rows. Made once for a load, or for a query's pruning.
#[derive(Debug)]
pub struct Router {
    /// The partitions; ranges are in ascending order.
    places: Vec<Place>,
    lookup: Lookup,
    /// Positions of the partition columns in the table, and the converter of their tuples.
    keys: Option<(Vec<usize>, RowConverter)>,
    /// One converter for each partition column, for pruning.
    single: Vec<(ColumnId, RowConverter)>,
    /// Positions of the distribution columns; `None` for random distribution.
    hashed: Option<Vec<(ColumnId, usize)>>,
    auto: Option<auto::Auto>,
}

/// Tablets of the rows of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Routed {
    /// All rows belong to one tablet.
    One(u32),
    /// The tablet number of each row; [`NOWHERE`] for a row that no partition takes.
    Rows(Vec<u32>),
}

/// Tablet number of a row without a partition.
pub const NOWHERE: u32 = u32::MAX;

fn sort_field(column: &str, data_type: &SqlType) -> Result<SortField, RouteError> {
    let wrong = || RouteError::Type { column: column.into(), role: "a partition column", found: data_type.to_string() };
    match data_type {
        SqlType::Float | SqlType::Double | SqlType::Json | SqlType::Variant => Err(wrong()),
        t if t.is_set() => Err(wrong()),
        SqlType::Array(_) | SqlType::Map(..) | SqlType::Struct(_) => Err(wrong()),
        t => Ok(SortField::new(t.to_arrow())),
    }
}

/// Returns positions and sort fields of the partition columns.
fn converters(schema: &TableSchema, columns: &[ColumnId]) -> Result<(Vec<usize>, Vec<SortField>), RouteError> {
    let mut at = Vec::with_capacity(columns.len());
    let mut fields = Vec::with_capacity(columns.len());
    for id in columns {
        let place = schema.position(*id).ok_or(RouteError::NoColumn(*id))?;
        let column = &schema.columns[place];
        at.push(place);
        fields.push(sort_field(&column.name, &column.data_type)?);
    }
    Ok((at, fields))
}

impl Router {
    /// Makes a router over all partitions of a table that are not temporary.
    ///
    /// # Errors
    /// [`RouteError::Value`] or [`RouteError::Bounds`] for bounds that are not values of the partition columns,
    /// [`RouteError::Type`] for types that cannot be compared or hashed.
    pub fn try_new(schema: &TableSchema, partitions: &[Arc<Partition>]) -> Result<Self, RouteError> {
        let all = partitions.iter().filter(|p| !p.temporary).cloned().collect();
        Self::over(schema, all, true)
    }

    /// Makes a router over the partitions of these names only (compared without regard to case). Rows of other
    /// partitions belong nowhere, and no partitions are made.
    ///
    /// # Errors
    /// The errors of [`try_new`](Self::try_new), and [`RouteError::NoPartition`] for a name that no partition has.
    pub fn try_named(
        schema: &TableSchema,
        partitions: &[Arc<Partition>],
        names: &[String],
        temporary: bool,
    ) -> Result<Self, RouteError> {
        let mut chosen: Vec<Arc<Partition>> = Vec::with_capacity(names.len());
        for name in names {
            let found = partitions.iter().find(|p| p.temporary == temporary && p.name.eq_ignore_ascii_case(name));
            let Some(found) = found else {
                let known: Vec<_> =
                    partitions.iter().filter(|p| p.temporary == temporary).take(8).map(|p| p.name.as_str()).collect();
                let near =
                    if known.is_empty() { String::new() } else { format!(" (it has {}, ...)", known.join(", ")) };
                return Err(RouteError::NoPartition { name: name.clone(), temporary, near });
            };
            if !chosen.iter().any(|p| p.id == found.id) {
                chosen.push(Arc::clone(found));
            }
        }
        Self::over(schema, chosen, false)
    }

    fn over(schema: &TableSchema, partitions: Vec<Arc<Partition>>, whole: bool) -> Result<Self, RouteError> {
        let hashed = match &schema.distribution {
            Distribution::Random => None,
            Distribution::Hash(columns) => {
                let mut at = Vec::with_capacity(columns.len());
                for id in columns {
                    let place = schema.position(*id).ok_or(RouteError::NoColumn(*id))?;
                    let column = &schema.columns[place];
                    if !hash::supports(&column.data_type.to_arrow()) {
                        return Err(RouteError::Type {
                            column: column.name.clone(),
                            role: "a distribution column",
                            found: column.data_type.to_string(),
                        });
                    }
                    at.push((*id, place));
                }
                Some(at)
            }
        };
        let mut router =
            Router { places: Vec::new(), lookup: Lookup::All, keys: None, single: Vec::new(), hashed, auto: None };
        let Some(by) = &schema.partition_by else {
            router.place(partitions);
            return Ok(router);
        };
        let (at, fields) = converters(schema, &by.columns)?;
        for (id, field) in by.columns.iter().zip(&fields) {
            router.single.push((*id, RowConverter::new(vec![field.clone()])?));
        }
        if whole && let Some(auto) = &by.auto {
            router.auto = Some(auto::Auto::try_new(schema, by, auto)?);
        }
        let converter = RowConverter::new(fields)?;
        match by.kind {
            PartitionKind::Range => {
                let mut ranges = Vec::with_capacity(partitions.len());
                for partition in partitions {
                    let range = validate::range(schema, by, &partition)?;
                    ranges.push((range, partition));
                }
                ranges.sort_by(|a, b| a.0.cmp(&b.0));
                let (ranges, partitions) = ranges.into_iter().unzip();
                router.lookup = Lookup::Range(ranges);
                router.place(partitions);
            }
            PartitionKind::List => {
                let mut lists = HashMap::new();
                for (i, partition) in partitions.iter().enumerate() {
                    for tuple in validate::list(schema, by, partition)? {
                        lists.insert(tuple, i as u32);
                    }
                }
                router.lookup = Lookup::List(lists);
                router.place(partitions);
            }
        }
        router.keys = Some((at, converter));
        Ok(router)
    }

    fn place(&mut self, partitions: Vec<Arc<Partition>>) {
        let mut first = 0;
        for partition in partitions {
            let buckets = partition.buckets.max(1);
            self.places.push(Place { partition, first });
            first += buckets;
        }
    }

    /// Returns the number of tablets; tablet numbers are below it.
    pub fn tablets(&self) -> u32 {
        self.places.last().map_or(0, |p| p.first + p.partition.buckets.max(1))
    }

    /// Returns the tablet with a number.
    ///
    /// # Panics
    /// If there is no such number.
    pub fn tablet(&self, number: u32) -> Tablet {
        assert!(number < self.tablets(), "tablet {number} of {}", self.tablets());
        let place = self.places.partition_point(|p| p.first <= number) - 1;
        let place = &self.places[place];
        Tablet { partition: place.partition.id, bucket: number - place.first }
    }

    /// Returns the partitions, ranges in ascending order.
    pub fn partitions(&self) -> impl ExactSizeIterator<Item = &Arc<Partition>> {
        self.places.iter().map(|p| &p.partition)
    }

    /// Returns whether the distribution is random: then a whole batch goes to one bucket of each partition.
    pub fn is_random(&self) -> bool {
        self.hashed.is_none()
    }

    /// Finds the tablet of each row of a batch of the table's columns. `turn` selects the bucket if the distribution is
    /// random: all rows of a partition go to bucket `turn % buckets`.
    ///
    /// # Errors
    /// [`RouteError::Arrow`], never for batches of the table's types.
    pub fn route(&self, batch: &RecordBatch, turn: u64) -> Result<Routed, RouteError> {
        let rows = batch.num_rows();
        let mut of = Vec::new();
        let one = match (&self.lookup, &self.keys) {
            (Lookup::All, _) | (_, None) => Some(if self.places.is_empty() { NOWHERE } else { 0 }),
            (lookup, Some((at, converter))) => {
                let columns: Vec<ArrayRef> = at.iter().map(|c| Arc::clone(batch.column(*c))).collect();
                let keys = converter.convert_columns(&columns)?;
                of.reserve(rows);
                match lookup {
                    Lookup::Range(ranges) => {
                        let mut last = 0;
                        of.extend(keys.iter().map(|key| find_range(ranges, key.as_ref(), &mut last)));
                    }
                    Lookup::List(lists) => {
                        let mut last: Option<(Vec<u8>, u32)> = None;
                        for key in keys.iter() {
                            // Neighbours often have the same value.
                            if let Some((bytes, place)) = &last
                                && bytes == key.as_ref()
                            {
                                of.push(*place);
                                continue;
                            }
                            let place = lists.get(key.as_ref()).copied().unwrap_or(NOWHERE);
                            last = Some((key.as_ref().to_vec(), place));
                            of.push(place);
                        }
                    }
                    Lookup::All => {}
                }
                assert_eq!(of.len(), rows, "each row has its partition, or none");
                let first = of.first().copied().unwrap_or(NOWHERE);
                of.iter().all(|p| *p == first).then_some(first)
            }
        };
        if one == Some(NOWHERE) {
            return Ok(if rows == 0 { Routed::Rows(Vec::new()) } else { Routed::Rows(vec![NOWHERE; rows]) });
        }
        let bucket_of = |place: &Place, hash: u64| place.first + hash::bucket(hash, place.partition.buckets.max(1));
        match (&self.hashed, one) {
            (None, Some(place)) => {
                let place = &self.places[place as usize];
                Ok(Routed::One(place.first + (turn % u64::from(place.partition.buckets.max(1))) as u32))
            }
            (None, None) => {
                for place in of.iter_mut().filter(|p| **p != NOWHERE) {
                    let p = &self.places[*place as usize];
                    *place = p.first + (turn % u64::from(p.partition.buckets.max(1))) as u32;
                }
                Ok(Routed::Rows(of))
            }
            (Some(_), Some(place)) if self.places[place as usize].partition.buckets <= 1 => {
                Ok(Routed::One(self.places[place as usize].first))
            }
            (Some(columns), one) => {
                let columns: Vec<&ArrayRef> = columns.iter().map(|(_, c)| batch.column(*c)).collect();
                let mut hashes = Vec::new();
                hash::hash_rows(&columns, rows, &mut hashes)?;
                match one {
                    Some(place) => {
                        let place = &self.places[place as usize];
                        of.clear();
                        of.extend(hashes.iter().map(|h| bucket_of(place, *h)));
                    }
                    None => {
                        for (place, hash) in of.iter_mut().zip(&hashes).filter(|(p, _)| **p != NOWHERE) {
                            *place = bucket_of(&self.places[*place as usize], *hash);
                        }
                    }
                }
                Ok(Routed::Rows(of))
            }
        }
    }

    /// Returns the partitions that have to be made for the rows of a batch that belong nowhere; empty if the table does
    /// not make partitions by itself. Rows may remain without one: NULLs of a table partitioned by ranges.
    ///
    /// # Errors
    /// The errors of [`route`](Self::route).
    pub fn missing(&self, batch: &RecordBatch, routed: &Routed) -> Result<Vec<NewPartition>, RouteError> {
        let (Some(auto), Routed::Rows(of), Some((at, _))) = (&self.auto, routed, &self.keys) else {
            return Ok(Vec::new());
        };
        let rows: Vec<u32> = (0..of.len() as u32).filter(|r| of[*r as usize] == NOWHERE).collect();
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let rows = arrow_array::UInt32Array::from(rows);
        let columns: Vec<ArrayRef> =
            at.iter().map(|c| arrow_select::take::take(batch.column(*c), &rows, None)).collect::<Result<_, _>>()?;
        auto.partitions(&columns)
    }
}

/// Returns the index of the range that holds `key`, or [`NOWHERE`]. `last` is the range that held the previous key.
#[inline]
fn find_range(ranges: &[(Vec<u8>, Option<Vec<u8>>)], key: &[u8], last: &mut usize) -> u32 {
    let holds = |(lower, upper): &(Vec<u8>, Option<Vec<u8>>)| {
        lower.as_slice() <= key && upper.as_ref().is_none_or(|u| key < u.as_slice())
    };
    if ranges.get(*last).is_some_and(holds) {
        return *last as u32;
    }
    let after = ranges.partition_point(|(lower, _)| lower.as_slice() <= key);
    match after.checked_sub(1) {
        Some(i) if holds(&ranges[i]) => {
            *last = i;
            i as u32
        }
        _ => NOWHERE,
    }
}

/// Names the kind of a partition's bounds, for messages.
fn bounds_kind(bounds: &Bounds) -> &'static str {
    match bounds {
        Bounds::All => "no bounds",
        Bounds::Range { .. } => "a range",
        Bounds::List(_) => "a list of values",
    }
}
