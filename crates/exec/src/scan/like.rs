//! LIKE with several texts in its pattern, as in `LIKE '%a%b%'`, as searches that are prepared once.
//!
//! Arrow would make such a pattern a regular expression for each batch.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, LikeExpr, Literal};
use memchr::memmem::Finder;
use std::sync::Arc;

/// A pattern of texts with `%` between them.
#[derive(Debug)]
pub(super) struct Like {
    negated: bool,
    /// The text with which a value begins, and the one with which it ends; both may be empty.
    start: Vec<u8>,
    end: Vec<u8>,
    /// The texts between them, one after the other.
    inner: Vec<Finder<'static>>,
}

impl Like {
    /// Returns the pattern of a condition on a column; `None` for other conditions, and for patterns with one text,
    /// with `_`, or with escaped characters.
    pub(super) fn of(condition: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let like = condition.downcast_ref::<LikeExpr>().filter(|like| !like.case_insensitive())?;
        like.expr().downcast_ref::<Column>()?;
        let pattern = like.pattern().downcast_ref::<Literal>()?.value().try_as_str()??;
        if pattern.contains(['_', '\\']) {
            return None;
        }
        let (start, rest) = pattern.split_once('%')?;
        let (inner, end) = rest.rsplit_once('%').unwrap_or(("", rest));
        let inner: Vec<_> = inner.split('%').filter(|text| !text.is_empty()).collect();
        let texts = inner.len() + usize::from(!start.is_empty()) + usize::from(!end.is_empty());
        (texts > 1).then(|| Like {
            negated: like.negated(),
            start: start.into(),
            end: end.into(),
            inner: inner.into_iter().map(|text| Finder::new(text).into_owned()).collect(),
        })
    }

    /// Returns whether each value meets the condition, NULL for NULL; `None` for values of another type.
    pub(super) fn of_values(&self, values: &ArrayRef) -> Option<BooleanArray> {
        if *values.data_type() != DataType::Utf8View {
            return None;
        }
        let values = values.as_string_view();
        let answers = (0..values.len()).map(|i| values.is_valid(i) && self.matches(values.value(i).as_bytes()));
        let answers: BooleanBuffer = answers.map(|matches| matches != self.negated).collect();
        Some(BooleanArray::new(answers, values.nulls().cloned()))
    }

    fn matches(&self, value: &[u8]) -> bool {
        let rest = value.strip_prefix(self.start.as_slice()).and_then(|rest| rest.strip_suffix(self.end.as_slice()));
        let Some(mut rest) = rest else { return false };
        self.inner.iter().all(|text| {
            let found = text.find(rest);
            rest = &rest[found.map_or(rest.len(), |at| at + text.needle().len())..];
            found.is_some()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{RecordBatch, StringViewArray};
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::lit;
    use proptest::prelude::*;

    fn condition(pattern: &str, negated: bool) -> Arc<dyn PhysicalExpr> {
        let pattern = lit(ScalarValue::Utf8View(Some(pattern.into())));
        Arc::new(LikeExpr::new(negated, false, Arc::new(Column::new("s", 0)), pattern))
    }

    proptest! {
        #[test]
        fn answers_are_those_of_arrow(
            pattern in "[ab%é\n]{0,8}",
            negated in any::<bool>(),
            values in proptest::collection::vec(proptest::option::of("[abé\n]{0,9}"), 0..20),
        ) {
            let condition = condition(&pattern, negated);
            if let Some(like) = Like::of(&condition) {
                let values: ArrayRef = Arc::new(StringViewArray::from(values));
                let batch = RecordBatch::try_from_iter_with_nullable([("s", Arc::clone(&values), true)]).unwrap();
                let wanted = condition.evaluate(&batch).unwrap().into_array(values.len()).unwrap();
                prop_assert_eq!(&like.of_values(&values).unwrap(), wanted.as_boolean());
            }
        }
    }

    #[test]
    fn patterns_with_several_texts_are_taken() {
        let taken = |pattern| Like::of(&condition(pattern, false)).is_some();
        let several = ["%a%b%", "a%b", "a%b%", "%a%b", "a%%b%c", "%special%requests%"];
        assert_eq!(several.map(taken), [true; 6]);
        assert_eq!(["a", "%a%", "a%", "%a", "%", "", "%a_%b%", "%a\\%%b%"].map(taken), [false; 8]);
    }
}
