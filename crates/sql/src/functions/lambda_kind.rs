//! The functions that take a lambda: names, parameters and result types.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::common::{Result, plan_err};

use super::array::list_of;
use crate::type_text::Sql;

/// A function of arrays, or of a MAP, and a lambda.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LambdaKind {
    /// Returns the results of the lambda.
    Map,
    /// Returns whether the lambda holds, for each element.
    Exists,
    /// Returns the elements of the first array for which the lambda holds.
    Filter,
    /// Returns the number of elements for which the lambda holds.
    Count,
    /// Returns the first element of the first array for which the lambda holds.
    First,
    /// Returns the last element of the first array for which the lambda holds.
    Last,
    /// Returns the position of the first element for which the lambda holds, 0 if there is none.
    FirstIndex,
    /// Returns the position of the last element for which the lambda holds, 0 if there is none.
    LastIndex,
    /// Returns whether the lambda holds for any element.
    MatchAny,
    /// Returns whether the lambda holds for all elements.
    MatchAll,
    /// Sorts the elements by the lambda's results.
    SortBy,
    /// Sorts the elements by the lambda's comparison of two of them.
    Sort,
    /// Splits the elements into arrays, which begin where the lambda holds.
    Split,
    /// Splits the elements into arrays, which end where the lambda holds.
    ReverseSplit,
    /// Returns the entries of a MAP for which the lambda holds.
    MapFilter,
    /// Returns a MAP of the pairs that the lambda makes of entries.
    MapApply,
    /// Returns a MAP with the lambda's results as its keys.
    TransformKeys,
    /// Returns a MAP with the lambda's results as its values.
    TransformValues,
}

impl LambdaKind {
    /// All functions.
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

    /// Returns the name in SQL.
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

    /// Returns the other names in SQL, which are StarRocks's.
    pub fn aliases(self) -> &'static [&'static str] {
        match self {
            LambdaKind::Map => &["transform"],
            LambdaKind::MatchAny => &["any_match"],
            LambdaKind::MatchAll => &["all_match"],
            _ => &[],
        }
    }

    /// Returns the function with a name, given in lower case.
    pub fn of(name: &str) -> Option<LambdaKind> {
        LambdaKind::ALL.into_iter().find(|kind| kind.name() == name || kind.aliases().contains(&name))
    }

    /// Returns the name under which the planner knows the function. (It is not a name in SQL.)
    pub fn planned_name(self) -> String {
        format!("dipper_lambda_{}", self.name())
    }

    /// Whether the function has a form without a lambda.
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

    /// Whether the function takes a MAP.
    pub fn is_of_maps(self) -> bool {
        matches!(
            self,
            LambdaKind::MapFilter | LambdaKind::MapApply | LambdaKind::TransformKeys | LambdaKind::TransformValues
        )
    }

    /// Returns the largest number of arguments beside the lambda.
    pub fn arrays_max(self) -> Option<usize> {
        (self.is_of_maps() || self == LambdaKind::Sort).then_some(1)
    }

    /// Returns the number of the lambda's parameters.
    pub fn parameters(self, arrays: usize) -> usize {
        if self.is_of_maps() || self == LambdaKind::Sort { 2 } else { arrays }
    }

    /// Returns example arguments of a call, for messages.
    pub fn example(self) -> &'static str {
        match self {
            LambdaKind::MapApply => "(k, v) -> (k, v + 1), m",
            LambdaKind::TransformKeys => "(k, v) -> k + 1, m",
            LambdaKind::MapFilter | LambdaKind::TransformValues => "(k, v) -> v > 1, m",
            LambdaKind::First | LambdaKind::Last => "x -> x > 1, a",
            _ => "x -> x + 1, a",
        }
    }

    /// Returns the fields of the lambda's parameters, given those of the other arguments.
    ///
    /// # Errors
    /// `Plan` if an argument is not an ARRAY, or not a MAP.
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

    /// Returns the type of the result, given the types of the lambda and of the other arguments.
    ///
    /// # Errors
    /// `Plan` if the lambda of MAP_APPLY does not make pairs.
    pub fn return_type(self, body: &DataType, arrays: &[DataType]) -> Result<DataType> {
        let first = arrays.first().cloned().unwrap_or(DataType::Null);
        // Builds the type of a MAP like the first argument's, with other types of keys or values.
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
