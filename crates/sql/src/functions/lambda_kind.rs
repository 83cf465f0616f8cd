//! The functions that take a lambda: their names, what they are given, and what they make.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::{Result, plan_err};

use super::array::list_of;
use crate::type_text::Sql;

/// What a function makes of arrays, or of a MAP, and a lambda.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LambdaKind {
    /// The results of the lambda.
    Map,
    /// Whether the lambda holds, for each element.
    Exists,
    /// The elements of the first array for which the lambda holds.
    Filter,
    /// The number of elements for which the lambda holds.
    Count,
    /// The first element of the first array for which it holds.
    First,
    /// The last such element.
    Last,
    /// The place of the first such element, 0 for none.
    FirstIndex,
    /// The place of the last such element.
    LastIndex,
    /// Whether it holds for any element.
    MatchAny,
    /// Whether it holds for all elements.
    MatchAll,
    /// The elements in the order of the lambda's results.
    SortBy,
    /// The elements in the order that the lambda gives to two of them.
    Sort,
    /// The elements in arrays, of which one begins where the lambda holds.
    Split,
    /// The elements in arrays, of which one ends where the lambda holds.
    ReverseSplit,
    /// The entries of a MAP for which the lambda holds.
    MapFilter,
    /// A MAP of the pairs that the lambda makes of entries.
    MapApply,
    /// A MAP with the lambda's results as its keys.
    TransformKeys,
    /// A MAP with the lambda's results as its values.
    TransformValues,
}

impl LambdaKind {
    /// All of them.
    pub const ALL: [LambdaKind; 18] = [
        LambdaKind::Map,
        LambdaKind::Exists,
        LambdaKind::Filter,
        LambdaKind::Count,
        LambdaKind::First,
        LambdaKind::Last,
        LambdaKind::FirstIndex,
        LambdaKind::LastIndex,
        LambdaKind::MatchAny,
        LambdaKind::MatchAll,
        LambdaKind::SortBy,
        LambdaKind::Sort,
        LambdaKind::Split,
        LambdaKind::ReverseSplit,
        LambdaKind::MapFilter,
        LambdaKind::MapApply,
        LambdaKind::TransformKeys,
        LambdaKind::TransformValues,
    ];

    /// Name in SQL.
    pub fn name(self) -> &'static str {
        match self {
            LambdaKind::Map => "array_map",
            LambdaKind::Exists => "array_exists",
            LambdaKind::Filter => "array_filter",
            LambdaKind::Count => "array_count",
            LambdaKind::First => "array_first",
            LambdaKind::Last => "array_last",
            LambdaKind::FirstIndex => "array_first_index",
            LambdaKind::LastIndex => "array_last_index",
            LambdaKind::MatchAny => "array_match_any",
            LambdaKind::MatchAll => "array_match_all",
            LambdaKind::SortBy => "array_sortby",
            LambdaKind::Sort => "array_sort",
            LambdaKind::Split => "array_split",
            LambdaKind::ReverseSplit => "array_reverse_split",
            LambdaKind::MapFilter => "map_filter",
            LambdaKind::MapApply => "map_apply",
            LambdaKind::TransformKeys => "transform_keys",
            LambdaKind::TransformValues => "transform_values",
        }
    }

    /// Other names in SQL, StarRocks'.
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            LambdaKind::Map => &["transform"],
            LambdaKind::MatchAny => &["any_match"],
            LambdaKind::MatchAll => &["all_match"],
            _ => &[],
        }
    }

    /// The kind of a name in lower case.
    pub fn of(name: &str) -> Option<LambdaKind> {
        LambdaKind::ALL.into_iter().find(|kind| kind.name() == name || kind.aliases().contains(&name))
    }

    /// The name under which the planner knows it. (Not a name of SQL.)
    pub fn planned_name(self) -> String {
        format!("dipper_lambda_{}", self.name())
    }

    /// Whether there is a form without a lambda.
    pub fn is_plain(self) -> bool {
        !matches!(
            self,
            LambdaKind::Map
                | LambdaKind::First
                | LambdaKind::Last
                | LambdaKind::MapApply
                | LambdaKind::TransformKeys
                | LambdaKind::TransformValues
        )
    }

    /// Whether the lambda is a condition.
    pub fn is_condition(self) -> bool {
        !matches!(
            self,
            LambdaKind::Map
                | LambdaKind::SortBy
                | LambdaKind::Sort
                | LambdaKind::MapApply
                | LambdaKind::TransformKeys
                | LambdaKind::TransformValues
        )
    }

    /// Whether it takes a MAP.
    pub fn is_of_maps(self) -> bool {
        matches!(
            self,
            LambdaKind::MapFilter | LambdaKind::MapApply | LambdaKind::TransformKeys | LambdaKind::TransformValues
        )
    }

    /// Largest number of arguments beside the lambda.
    pub fn arrays_max(self) -> Option<usize> {
        (self.is_of_maps() || self == LambdaKind::Sort).then_some(1)
    }

    /// How many parameters the lambda has.
    pub fn parameters(self, arrays: usize) -> usize {
        if self.is_of_maps() || self == LambdaKind::Sort { 2 } else { arrays }
    }

    /// Arguments of a call, for messages.
    pub fn example(self) -> &'static str {
        match self {
            LambdaKind::MapApply => "(k, v) -> (k, v + 1), m",
            LambdaKind::TransformKeys => "(k, v) -> k + 1, m",
            LambdaKind::MapFilter | LambdaKind::TransformValues => "(k, v) -> v > 1, m",
            LambdaKind::First | LambdaKind::Last => "x -> x > 1, a",
            _ => "x -> x + 1, a",
        }
    }

    /// The fields of the lambda's parameters, by those of the other arguments.
    ///
    /// # Errors
    /// An argument is no ARRAY, or no MAP.
    pub fn parameter_fields(self, arrays: &[FieldRef]) -> Result<Vec<FieldRef>> {
        let name = self.name();
        let mut fields = Vec::new();
        for array in arrays {
            match array.data_type() {
                DataType::List(item) if !self.is_of_maps() => fields.push(Arc::clone(item)),
                DataType::Map(entries, _) if self.is_of_maps() => match entries.data_type() {
                    DataType::Struct(parts) => fields.extend(parts.iter().cloned()),
                    t => return plan_err!("{name}: expected a MAP of keys and values, found {}", Sql(t)),
                },
                t => {
                    let wanted = if self.is_of_maps() { "a MAP" } else { "an ARRAY" };
                    return plan_err!("{name}: expected {wanted}, found {}", Sql(t));
                }
            }
        }
        if self == LambdaKind::Sort {
            fields.extend(fields.first().cloned());
        }
        Ok(fields)
    }

    /// The type of the result, by the lambda's and those of the other arguments.
    ///
    /// # Errors
    /// The lambda of MAP_APPLY makes no pairs.
    pub fn return_type(self, body: &DataType, arrays: &[DataType]) -> Result<DataType> {
        let first = arrays.first().cloned().unwrap_or(DataType::Null);
        // A MAP like the first argument, with other types.
        let entries = |key: Option<&DataType>, value: Option<&DataType>| {
            let DataType::Map(entries, sorted) = &first else { return DataType::Null };
            let DataType::Struct(parts) = entries.data_type() else { return DataType::Null };
            let part = |at: usize, t: Option<&DataType>| match t {
                Some(t) => Arc::new(parts[at].as_ref().clone().with_data_type(t.clone())),
                None => Arc::clone(&parts[at]),
            };
            let value = Arc::new(part(1, value).as_ref().clone().with_nullable(true));
            let fields = DataType::Struct(Fields::from(vec![part(0, key), value]));
            DataType::Map(Arc::new(entries.as_ref().clone().with_data_type(fields)), *sorted)
        };
        Ok(match self {
            LambdaKind::Map => list_of(body),
            LambdaKind::Exists => list_of(&DataType::Boolean),
            LambdaKind::Filter | LambdaKind::SortBy | LambdaKind::Sort | LambdaKind::MapFilter => first,
            LambdaKind::Count | LambdaKind::FirstIndex | LambdaKind::LastIndex => DataType::Int64,
            LambdaKind::First | LambdaKind::Last => match first {
                DataType::List(item) => item.data_type().clone(),
                _ => DataType::Null,
            },
            LambdaKind::MatchAny | LambdaKind::MatchAll => DataType::Boolean,
            LambdaKind::Split | LambdaKind::ReverseSplit => list_of(&first),
            LambdaKind::TransformKeys => entries(Some(body), None),
            LambdaKind::TransformValues => entries(None, Some(body)),
            LambdaKind::MapApply => match body {
                DataType::Struct(pair) if pair.len() == 2 => {
                    entries(Some(pair[0].data_type()), Some(pair[1].data_type()))
                }
                t => {
                    return plan_err!(
                        "{}: expected a lambda that makes a key and a value, found {}",
                        self.name(),
                        Sql(t)
                    );
                }
            },
        })
    }
}
