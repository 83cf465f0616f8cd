//! Folding of text for comparisons without regard to case: a function that gives texts which a collation takes for equal
//! the same bytes.

use std::sync::Arc;

use arrow::array::{AsArray, StringViewArray};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use unicode_normalization::UnicodeNormalization;

use crate::class::Class;

/// Name of the function that folds text. Its second argument is the collation, its third is TRUE for patterns of LIKE and
/// what is compared with them.
pub(super) const NAME: &str = "dipper_folded";

/// How a collation compares text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Kind {
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
    /// Returns the kind of a collation; `None` if dipper does not know it.
    pub(super) fn of(name: &str) -> Option<Kind> {
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

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(match types.first() {
            Some(t) if Class::of(t) == Class::Text => DataType::Utf8View,
            Some(t) => t.clone(),
            None => DataType::Null,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
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
