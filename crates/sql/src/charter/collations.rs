//! COLLATE in expressions.
//!
//! All text is compared by its bytes, which is what the collations that end in `_bin` say, and `DEFAULT`. A collation
//! without regard to case is obeyed where values are compared for equality: by `=`, `<>`, `<=>`, IN and LIKE. There both
//! sides are [folded] first. Elsewhere, where text would have to be sorted or grouped by the collation, the
//! expression is refused. An item of the outermost select list is shown and not compared, so that COLLATE says nothing
//! there.

use std::sync::Arc;

use arrow::array::{AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result as PlanResult, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use dipper_dialect::error::SqlError;
use dipper_dialect::tree::call;
use sqlparser::ast::{BinaryOperator, Expr, GroupByExpr, Query, SelectItem, SetExpr, Value};
use unicode_normalization::UnicodeNormalization;

use super::rewrite::like_escape;
use crate::class::Class;

/// Name of the function that folds text. Its second argument is the collation, its third is TRUE for patterns of LIKE and
/// what is compared with them.
const NAME: &str = "dipper_folded";

/// How a collation compares text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// By its bytes.
    Bytes,
    /// Without regard to case.
    NoCase {
        /// Whether letters with and without accents differ.
        accents: bool,
        /// Whether blanks at the end count.
        blanks: bool,
        /// Whether one character is compared with one, so that `ß` is `s` and not `ss`.
        single: bool,
    },
}

impl Kind {
    fn of(name: &str) -> Option<Kind> {
        let name = name.to_ascii_lowercase();
        if name == "default" || name == "binary" || name.ends_with("_bin") {
            return Some(Kind::Bytes);
        }
        let rest = ["utf8_", "utf8mb3_", "utf8mb4_"].iter().find_map(|charset| name.strip_prefix(charset))?;
        let (accents, blanks, single) = match rest {
            "general_ci" => (false, false, true),
            "unicode_ci" | "unicode_520_ci" => (false, false, false),
            "0900_ai_ci" if name.starts_with("utf8mb4") => (false, true, false),
            "0900_as_ci" if name.starts_with("utf8mb4") => (true, true, false),
            _ => return None,
        };
        Some(Kind::NoCase { accents, blanks, single })
    }
}

fn kind_of(name: &str) -> Result<Kind, SqlError> {
    Kind::of(name).ok_or_else(|| {
        let what =
            format!("COLLATE {name}: text is UTF-8; utf8mb4_bin compares by bytes, utf8mb4_0900_ai_ci without case");
        SqlError::unsupported(what, None)
    })
}

/// Returns the name of the collation that an operand says.
fn collation(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => collation(inner),
        Expr::Collate { collation, .. } => {
            Some(collation.to_string().trim_matches(['`', '"', '\'']).to_ascii_lowercase())
        }
        _ => None,
    }
}

/// Removes COLLATE from an operand.
fn strip(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => strip(inner),
        Expr::Collate { expr: inner, .. } => {
            *expr = std::mem::replace(&mut **inner, Expr::value(Value::Null));
            strip(expr);
        }
        _ => {}
    }
}

/// Returns what an operand says beside its collation.
fn text_of(expr: &mut Expr) -> &mut Expr {
    match expr {
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => text_of(inner),
        other => other,
    }
}

/// Makes a comparison for equality obey the collations of its operands. Visits comparisons before their operands.
///
/// # Errors
/// 1235 for a collation that is not known; 1267 if the operands name several.
pub(super) fn compared(expr: &mut Expr) -> Result<(), SqlError> {
    use BinaryOperator as Op;
    match expr {
        Expr::BinaryOp { left, op: Op::Eq | Op::NotEq | Op::Spaceship, right }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right) => fold(vec![&mut **left, &mut **right], false),
        Expr::InList { expr, list, .. } => fold(std::iter::once(&mut **expr).chain(list).collect(), false),
        Expr::Like { expr, pattern, escape_char, .. } => {
            if collation(expr).is_some() || collation(pattern).is_some() {
                // Before folding, which would change a letter behind ESCAPE.
                let text = text_of(pattern);
                let given = std::mem::replace(text, Expr::value(Value::Null));
                (*text, *escape_char) = like_escape(given, escape_char.take());
            }
            fold(vec![&mut **expr, &mut **pattern], true)
        }
        _ => Ok(()),
    }
}

fn fold(operands: Vec<&mut Expr>, is_pattern: bool) -> Result<(), SqlError> {
    let mut named: Option<String> = None;
    for name in operands.iter().filter_map(|operand| collation(operand)) {
        if let Some(known) = named.replace(name.clone())
            && known != name
        {
            return Err(SqlError {
                code: 1267,
                sqlstate: "HY000",
                message: format!("Illegal mix of collations ({known},EXPLICIT) and ({name},EXPLICIT)"),
                position: None,
            });
        }
    }
    let Some(name) = named else { return Ok(()) };
    let is_folded = kind_of(&name)? != Kind::Bytes;
    for operand in operands {
        strip(operand);
        if is_folded {
            let of = std::mem::replace(operand, Expr::value(Value::Null));
            let name = Expr::value(Value::SingleQuotedString(name.clone()));
            *operand = call(NAME, vec![of, name, Expr::value(Value::Boolean(is_pattern))]);
        }
    }
    Ok(())
}

/// Removes COLLATE from the items of a query whose values nobody compares: neither DISTINCT, GROUP BY, HAVING and
/// QUALIFY nor ORDER BY, which may name the items.
///
/// # Errors
/// 1235 for a collation that is not known.
pub(super) fn shown(query: &mut Query) -> Result<(), SqlError> {
    let is_ordered = query.order_by.is_some();
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let has_condition = select.having.is_some() || select.qualify.is_some();
    if is_ordered || is_grouped || select.distinct.is_some() || has_condition {
        return Ok(());
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let Some(name) = collation(expr)
        {
            kind_of(&name)?;
            strip(expr);
        }
    }
    Ok(())
}

/// Checks the query of a view, whose readers may compare the items that it shows.
///
/// # Errors
/// 1235 for an item with a collation that does not compare by bytes.
pub fn check_view(query: &Query) -> Result<(), SqlError> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let Some(name) = collation(expr)
        {
            elsewhere(Expr::value(Value::Null), &name)?;
        }
    }
    Ok(())
}

/// Returns the operand of a COLLATE that no comparison has taken.
///
/// # Errors
/// 1235 if the collation does not compare by bytes.
pub(super) fn elsewhere(expr: Expr, name: &str) -> Result<Expr, SqlError> {
    match kind_of(name.trim_matches(['`', '"', '\'']))? {
        Kind::Bytes => Ok(expr),
        Kind::NoCase { .. } => {
            let what = format!(
                "COLLATE {name} other than beside =, <>, <=>, IN and LIKE: text is sorted and grouped by its bytes; \
                 lower(x) and upper(x) leave out the case"
            );
            Err(SqlError::unsupported(what, None))
        }
    }
}

/// Returns what is left of a text when what its collation does not see is taken away. Accents are what Unicode puts behind
/// the letters of Latin, Greek and Cyrillic.
fn folded(text: &str, kind: Kind, is_pattern: bool) -> String {
    let Kind::NoCase { accents, blanks, single } = kind else { return text.to_string() };
    let text = if blanks || is_pattern { text } else { text.trim_end_matches(' ') };
    if text.is_ascii() {
        return text.to_ascii_uppercase();
    }
    let is_accent = |c: &char| matches!(c, '\u{300}'..='\u{36f}' | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}');
    let letters = text.nfd().filter(|c| accents || !is_accent(c));
    // `_` stands for one character, so a character of a pattern stays one.
    let upper = |c: char| match c {
        'ß' | 'ẞ' if single => vec!['S'],
        'ß' | 'ẞ' if is_pattern => vec!['ẞ'],
        'ẞ' => vec!['S', 'S'],
        c if (single || is_pattern) && c.to_uppercase().count() > 1 => vec![c],
        c => c.to_uppercase().collect(),
    };
    letters.flat_map(upper).nfc().collect()
}

/// Returns the function.
pub(super) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Folded { signature: Signature::any(3, Volatility::Immutable) }))
}

/// Folds text; values of other types, which have no case, are returned as they are.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Folded {
    signature: Signature,
}

impl ScalarUDFImpl for Folded {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> PlanResult<DataType> {
        Ok(match types.first() {
            Some(t) if Class::of(t) == Class::Text => DataType::Utf8View,
            Some(t) => t.clone(),
            None => DataType::Null,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> PlanResult<ColumnarValue> {
        let wrong = || DataFusionError::Internal(format!("{NAME} takes a value, a collation and a truth value"));
        let [value, ColumnarValue::Scalar(name), ColumnarValue::Scalar(ScalarValue::Boolean(Some(is_pattern)))] =
            args.args.as_slice()
        else {
            return Err(wrong());
        };
        let kind = name.try_as_str().flatten().and_then(Kind::of).ok_or_else(wrong)?;
        if Class::of(&value.data_type()) != Class::Text {
            return Ok(value.clone());
        }
        let is_one = matches!(value, ColumnarValue::Scalar(_));
        let texts = cast(&value.to_array(if is_one { 1 } else { args.number_rows })?, &DataType::Utf8View)?;
        let texts = texts.as_string_view().iter().map(|text| text.map(|text| folded(text, kind, *is_pattern)));
        let texts: StringViewArray = texts.collect();
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?),
            false => ColumnarValue::Array(Arc::new(texts)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_folded_by_the_collation() {
        let same = |name: &str, a: &str, b: &str| {
            let kind = Kind::of(name).unwrap();
            folded(a, kind, false) == folded(b, kind, false)
        };
        for name in ["utf8_general_ci", "utf8mb4_unicode_ci", "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_ci"] {
            assert!(same(name, "Ab1_", "aB1_") && same(name, "Ünï", "üNÏ") && same(name, "ЖΣ漢", "жς漢"), "{name}");
            assert!(!same(name, "a", "b") && !same(name, "漢", "字") && !same(name, "कि", "क"), "{name}");
            assert_eq!(same(name, "é", "E"), !name.contains("_as_"), "{name}");
            assert_eq!(same(name, "a", "a  "), !name.contains("_0900_"), "{name}");
        }
        assert!(same("utf8mb4_general_ci", "ß", "s") && !same("utf8mb4_general_ci", "ß", "ss"));
        assert!(same("utf8mb4_unicode_ci", "ß", "SS") && same("utf8mb4_unicode_ci", "ß", "ẞ"));
        for (name, one) in [("utf8mb4_unicode_ci", "ẞ"), ("utf8mb4_general_ci", "S")] {
            let kind = Kind::of(name).unwrap();
            assert_eq!(folded("ß", kind, true), one, "{name}");
            assert_eq!(folded("ẞ", kind, true), one, "{name}");
        }
        assert_eq!(Kind::of("utf8mb4_bin"), Some(Kind::Bytes));
        assert_eq!(Kind::of("latin1_swedish_ci"), None);
        assert_eq!(Kind::of("utf8_0900_ai_ci"), None);
    }
}
