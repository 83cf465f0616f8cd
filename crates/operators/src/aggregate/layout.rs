//! The words of a record.
//!
//! ```text
//! hash and NULL bits | keys of fixed size | two words for each text | flags | states of aggregates
//! ```
//!
//! Small keys share words. The lowest bits of the first word say which keys are NULL; a key that is NULL is 0. So two
//! keys are equal if their words are, except for long texts, which are compared where they lie. There is a word of
//! flags only if some aggregate is NULL for a group without values.

use arrow_schema::{DataType, Field, Schema, SchemaRef};
use std::sync::Arc;

use super::NULL_BITS;
use super::states::{State, Work};

/// What an aggregate computes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Function {
    /// The number of rows, or of the values that are not NULL.
    Count,
    /// The exact sum.
    Sum,
    /// The exact sum and the number of values.
    Average,
    /// The least value; of floats in IEEE's totalOrder.
    Min,
    /// The greatest value; of floats in IEEE's totalOrder.
    Max,
}

/// An aggregate and the type of its argument; `None` for the number of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aggregate {
    /// What it computes.
    pub function: Function,
    /// The type of its argument.
    pub argument: Option<DataType>,
}

/// Where a key lies in a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// This many bytes of a word, from a bit on.
    Part { word: usize, shift: u32, bytes: usize },
    /// Two words that are one number.
    Wide { word: usize },
    /// The two words of a text.
    Text { word: usize },
}

/// The words of a record, by the types of the keys and the aggregates.
#[derive(Debug)]
pub struct Layout {
    pub(super) keys: Vec<(DataType, Place)>,
    /// Number of words up to the last one of a key of fixed size.
    pub(super) fixed: usize,
    /// Number of words up to the last one of a key.
    pub(super) key_words: usize,
    /// The first word of each text.
    texts: Vec<usize>,
    /// The word of flags.
    pub(super) flags: Option<usize>,
    /// The states of each aggregate.
    pub(super) states: Vec<Vec<State>>,
    /// The words after the keys of a group without rows.
    pub(super) initial: Vec<u64>,
    /// Number of words.
    pub(super) width: usize,
    aggregates: Vec<Aggregate>,
}

/// Size of a key in bytes; `None` for texts.
fn size_of_key(data_type: &DataType) -> Option<usize> {
    match data_type {
        DataType::Boolean => Some(1),
        other => other.primitive_width(),
    }
}

/// Whether keys may have this type.
fn is_key(data_type: &DataType) -> bool {
    use DataType::*;
    data_type.is_integer()
        || matches!(data_type, Boolean | Float32 | Float64 | Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..))
        || matches!(data_type, Decimal128(..) | Utf8 | Utf8View | Binary | BinaryView)
}

/// The work of an aggregate over this type; `None` if there is none.
fn work(function: Function, argument: Option<&DataType>) -> Option<Work> {
    use DataType::*;
    match (function, argument) {
        (Function::Count, _) => Some(Work::Count),
        (Function::Sum | Function::Average, Some(Int64)) => Some(Work::Integer),
        (Function::Sum, Some(UInt64)) => Some(Work::Unsigned),
        (Function::Sum | Function::Average, Some(Decimal128(..))) => Some(Work::Decimal),
        (Function::Sum | Function::Average, Some(Float64)) => Some(Work::Double),
        (Function::Min | Function::Max, Some(of)) => {
            let greatest = function == Function::Max;
            match of {
                Decimal128(..) => Some(Work::WideExtreme { greatest }),
                Float32 | Float64 => Some(Work::FloatExtreme { greatest }),
                _ if of.is_unsigned_integer() => Some(Work::UnsignedExtreme { greatest }),
                Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) => Some(Work::SignedExtreme { greatest }),
                _ if of.is_signed_integer() => Some(Work::SignedExtreme { greatest }),
                _ => None,
            }
        }
        _ => None,
    }
}

impl Layout {
    /// Returns the layout for keys and aggregates of these types; `None` if the kernel has not all of them.
    pub fn new(keys: &[DataType], aggregates: &[Aggregate]) -> Option<Layout> {
        if keys.is_empty() || keys.len() > NULL_BITS as usize || !keys.iter().all(is_key) {
            return None;
        }
        let mut places = vec![None; keys.len()];
        let mut next = 1;
        let of_size = |wanted: usize| {
            keys.iter().enumerate().filter(move |(_, key)| size_of_key(key) == Some(wanted)).map(|(at, _)| at)
        };
        for at in of_size(16) {
            places[at] = Some(Place::Wide { word: next });
            next += 2;
        }
        // From large to small, so that no key crosses the end of a word.
        let mut used = 64;
        for bytes in [8, 4, 2, 1] {
            for at in of_size(bytes) {
                if used == 64 {
                    (next, used) = (next + 1, 0);
                }
                places[at] = Some(Place::Part { word: next - 1, shift: used, bytes });
                used += 8 * bytes as u32;
            }
        }
        let fixed = next;
        for (at, key) in keys.iter().enumerate() {
            if size_of_key(key).is_none() {
                places[at] = Some(Place::Text { word: next });
                next += 2;
            }
        }
        let key_words = next;
        let places: Vec<Place> = places.into_iter().collect::<Option<_>>()?;

        let works = aggregates.iter().map(|a| work(a.function, a.argument.as_ref()));
        let works = works.collect::<Option<Vec<_>>>()?;
        let has_flag = |function: Function| !matches!(function, Function::Count | Function::Average);
        let flagged = aggregates.iter().filter(|a| has_flag(a.function)).count();
        if flagged > u64::BITS as usize {
            return None;
        }
        let flags = (flagged > 0).then_some(next);
        next += usize::from(flags.is_some());
        let mut initial = vec![0; next - key_words];
        let mut bit = 1_u64;
        let mut states = Vec::with_capacity(aggregates.len());
        for (aggregate, work) in aggregates.iter().zip(works) {
            let counted = (aggregate.function == Function::Average).then_some(Work::Count);
            let mut own = Vec::new();
            for work in counted.into_iter().chain([work]) {
                let flag = if has_flag(aggregate.function) { bit } else { 0 };
                own.push(State { work, word: key_words + initial.len(), flag });
                initial.extend_from_slice(work.initial());
            }
            if has_flag(aggregate.function) {
                bit = bit.wrapping_shl(1);
            }
            states.push(own);
        }
        let width = key_words + initial.len();
        let keys = keys.iter().cloned().zip(places).collect();
        let texts = (fixed..key_words).step_by(2).collect();
        Some(Layout { keys, fixed, key_words, texts, flags, states, initial, width, aggregates: aggregates.to_vec() })
    }

    /// The aggregates.
    pub fn aggregates(&self) -> &[Aggregate] {
        &self.aggregates
    }

    /// The bytes of a record.
    pub fn record_bytes(&self) -> usize {
        self.width * size_of::<u64>()
    }

    /// The first words of texts.
    #[inline(always)]
    pub(super) fn texts(&self) -> impl Iterator<Item = usize> {
        self.texts.iter().copied()
    }

    /// The schema of [records](super::Records::batches) as batches: words, and the bytes of texts.
    pub fn record_schema(&self) -> SchemaRef {
        let word = |at: usize| Field::new(format!("word{at}"), DataType::UInt64, false);
        let mut fields: Vec<Field> = (0..self.fixed).map(word).collect();
        fields.extend(self.texts().map(|at| Field::new(format!("text{at}"), DataType::LargeBinary, false)));
        fields.extend((self.key_words..self.width).map(word));
        Arc::new(Schema::new(fields))
    }
}
