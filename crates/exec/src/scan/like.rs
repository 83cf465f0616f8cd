//! LIKE as a pattern whose searches are prepared once, for patterns in which at least one text may lie anywhere or that
//! have several texts, as in `LIKE '%a%'` and `LIKE '%a%b%'`.
//!
//! Arrow would make a pattern of several texts a regular expression for each batch.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::datatypes::DataType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, LikeExpr, Literal};
use dipper_store::segment::TextPattern;

/// Returns the pattern of a condition on a column, and the column. `None` for other conditions, for patterns with `_`,
/// and for those of one text at the begin or the end of a value, which need no search.
pub(super) fn pattern(condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, TextPattern)> {
    let like = condition.downcast_ref::<LikeExpr>().filter(|like| !like.case_insensitive())?;
    let column = like.expr().downcast_ref::<Column>()?.index();
    let pattern = like.pattern().downcast_ref::<Literal>()?.value().try_as_str()??;
    let texts = texts(pattern)?;
    let searched = |(at, text): (usize, &Vec<u8>)| !text.is_empty() && (1..texts.len() - 1).contains(&at);
    let several = texts.iter().filter(|text| !text.is_empty()).count() > 1;
    if !several && !texts.iter().enumerate().any(searched) {
        return None;
    }
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    Some((column, TextPattern::new(&texts, like.negated())?))
}

/// Returns the texts between the `%` of a pattern, of which the first and the last one may be empty. Behind a `\` each
/// character stands for itself, and so does a `\` at the end. `None` for patterns with `_`.
fn texts(pattern: &str) -> Option<Vec<Vec<u8>>> {
    let (mut texts, mut text) = (Vec::new(), String::new());
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        match c {
            '%' => texts.push(std::mem::take(&mut text).into_bytes()),
            '_' => return None,
            '\\' => text.push(rest.next().unwrap_or('\\')),
            c => text.push(c),
        }
    }
    texts.push(text.into_bytes());
    Some(texts)
}

/// Returns whether each value passes, NULL for NULL; `None` for values that are not views of text.
pub(super) fn passing(pattern: &TextPattern, values: &ArrayRef) -> Option<BooleanArray> {
    if *values.data_type() != DataType::Utf8View {
        return None;
    }
    let values = values.as_string_view();
    let passes = |i| values.is_valid(i) && pattern.passes(values.value(i).as_bytes());
    Some(BooleanArray::new(BooleanBuffer::collect_bool(values.len(), passes), values.nulls().cloned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{RecordBatch, StringViewArray};
    use datafusion::common::ScalarValue;
    use datafusion::physical_expr::expressions::lit;
    use proptest::prelude::*;

    fn condition(text: &str, negated: bool) -> Arc<dyn PhysicalExpr> {
        let text = lit(ScalarValue::Utf8View(Some(text.into())));
        Arc::new(LikeExpr::new(negated, false, Arc::new(Column::new("s", 0)), text))
    }

    proptest! {
        #[test]
        fn answers_are_those_of_arrow(
            text in "[ab%é\n\\\\]{0,8}",
            negated in any::<bool>(),
            values in proptest::collection::vec(proptest::option::of("[abé\n%\\\\]{0,9}"), 0..20),
        ) {
            let condition = condition(&text, negated);
            if let Some((_, pattern)) = pattern(&condition) {
                let values: ArrayRef = Arc::new(StringViewArray::from(values));
                let batch = RecordBatch::try_from_iter_with_nullable([("s", Arc::clone(&values), true)]).unwrap();
                let wanted = condition.evaluate(&batch).unwrap().into_array(values.len()).unwrap();
                prop_assert_eq!(&passing(&pattern, &values).unwrap(), wanted.as_boolean());
            }
        }
    }

    #[test]
    fn patterns_that_are_searched_for_are_taken() {
        let taken = |text| pattern(&condition(text, false)).is_some();
        let searched = ["%a%", "%a%b%", "a%b", "a%b%", "%a%b", "a%%b%c", "%special%requests%", "%a\\%%", "%\\_%"];
        assert_eq!(searched.map(taken), [true; 9]);
        assert_eq!(["a", "a%", "%a", "%", "%%%", "", "%a_%b%", "a\\%b"].map(taken), [false; 8]);
    }
}
