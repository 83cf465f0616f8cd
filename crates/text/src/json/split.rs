//! Lines to columns: the places of the members' values.

use std::collections::HashMap;

use arrow_schema::{DataType, SchemaRef};

use super::text::{Cell, Kind, Members, items, string};
use super::{has_fraction, name, object};
use crate::convert::{LineFault, SplitLine};
use crate::dialect::JsonDialect;
use crate::parse;
use crate::span::Span;

/// Maximum number of bytes of a batch's lines and the text decoded from them together: spans reach no further.
const BYTES_MAX: usize = 1 << 30;

/// Numbers with fewer digits than this are certainly finite.
const FINITE_DIGITS: usize = 300;

/// Splitter of a line into the columns of its members.
#[derive(Debug)]
pub(crate) struct JsonLine {
    schema: SchemaRef,
    /// The member of each column.
    keys: Vec<Vec<u8>>,
    /// Columns by member name; in lower case unless the columns are guessed.
    columns: HashMap<Vec<u8>, usize>,
    guessed: bool,
}

impl JsonLine {
    /// Creates a splitter for files of that dialect with these columns.
    pub(crate) fn new(dialect: &JsonDialect, schema: &SchemaRef) -> Self {
        let keys: Vec<Vec<u8>> = dialect.keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        let by_name = |(column, key): (usize, &String)| match dialect.guessed {
            true => (key.as_bytes().to_vec(), column),
            false => (key.to_lowercase().into_bytes(), column),
        };
        let columns = dialect.keys.iter().enumerate().map(by_name).collect();
        JsonLine { schema: schema.clone(), keys, columns, guessed: dialect.guessed }
    }

    /// Returns the column of a member; most often the one after the previous member's.
    fn column(&self, key: &[u8], expected: usize) -> Option<usize> {
        if self.keys.get(expected).is_some_and(|expected| expected == key) {
            return Some(expected);
        }
        match self.guessed {
            true => self.columns.get(key).copied(),
            false => self.columns.get(String::from_utf8_lossy(key).to_lowercase().as_bytes()).copied(),
        }
    }
}

impl SplitLine for JsonLine {
    fn split(&self, line: &[u8], columns: usize, out: &mut Vec<u8>, fields: &mut Vec<Span>) -> Vec<LineFault> {
        let (start, first) = (out.len(), fields.len());
        fields.resize(first + columns, Span::MISSING);
        let object = match object(line) {
            Ok(_) if start + 2 * line.len() >= BYTES_MAX => {
                return vec![LineFault::of_line("the line is too long".into())];
            }
            Ok(object) => object,
            Err(reason) => return vec![LineFault::of_line(reason)],
        };
        out.extend_from_slice(line);
        let mut faults = Vec::new();
        let mut expected = 0;
        // The whole line was checked above.
        for (key, value) in Members::new(line, object).flatten() {
            let key = name(line, key);
            let Some(column) = self.column(&key, expected) else {
                if self.guessed && faults.iter().all(|fault: &LineFault| fault.column.is_some()) {
                    faults.push(LineFault::of_line(unknown(&key)));
                }
                continue;
            };
            expected = column + 1;
            let why = if self.guessed { misfit(line, value, self.schema.field(column).data_type()) } else { None };
            fields[first + column] = match why {
                None => span(line, value, start, out),
                Some(reason) => {
                    let value = Some(inside(line, value).to_vec());
                    faults.push(LineFault { column: Some(column), reason, value });
                    Span::MISSING
                }
            };
        }
        faults
    }
}

fn unknown(key: &[u8]) -> String {
    format!("the member {:?} is in none of the lines that the columns were guessed from", String::from_utf8_lossy(key))
}

/// Returns the text of a value; for a string, the text between its quotes.
fn inside(line: &[u8], value: Cell) -> &[u8] {
    match value.kind {
        Kind::String { .. } => &line[value.start + 1..value.end - 1],
        _ => &line[value.start..value.end],
    }
}

/// Returns the span of a value's text: in the line, which begins at `start` of `out`, or decoded behind it.
fn span(line: &[u8], value: Cell, start: usize, out: &mut Vec<u8>) -> Span {
    let place = |from: usize, to: usize| Span::new(from as u32, to as u32);
    match value.kind {
        Kind::Null => Span::MISSING,
        Kind::String { escaped: true } => {
            let from = out.len();
            string(inside(line, value), out);
            place(from, out.len())
        }
        Kind::String { escaped: false } => place(start + value.start + 1, start + value.end - 1),
        _ => place(start + value.start, start + value.end),
    }
}

/// Returns why a value would not keep its kind in a column of a guessed type; completes the sentence `<value> ...`.
fn misfit(line: &[u8], value: Cell, data_type: &DataType) -> Option<String> {
    let number = || &line[value.start..value.end];
    let expected = match (data_type, value.kind) {
        (_, Kind::Null) | (DataType::Utf8View, _) | (DataType::Boolean, Kind::True | Kind::False) => return None,
        (DataType::Int64 | DataType::Decimal256(..), Kind::Number) if !has_fraction(number()) => return None,
        (DataType::Float64, Kind::Number) if is_finite(number()) => return None,
        (DataType::List(item), Kind::Array) => {
            return items(line, value).flatten().find_map(|value| misfit(line, value, item.data_type()));
        }
        (DataType::Struct(fields), Kind::Object) => {
            return Members::new(line, value).flatten().find_map(|(key, value)| {
                let key = name(line, key);
                match fields.iter().find(|field| key.eq_ignore_ascii_case(field.name().as_bytes())) {
                    Some(field) => misfit(line, value, field.data_type()),
                    None => Some(format!(
                        "has {:?}, which is in none of the lines that the types were guessed from",
                        String::from_utf8_lossy(&key)
                    )),
                }
            });
        }
        (DataType::Boolean, _) => "a BOOLEAN",
        (DataType::Int64, _) => "a BIGINT",
        (DataType::Decimal256(..), _) => "a LARGEINT",
        (DataType::Float64, _) => "a DOUBLE",
        (DataType::List(_), _) => "an ARRAY",
        _ => "a STRUCT",
    };
    Some(format!("is not {expected}"))
}

/// Whether a number is within the range of a double.
fn is_finite(number: &[u8]) -> bool {
    (number.len() < FINITE_DIGITS && !number.iter().any(|byte| matches!(byte, b'e' | b'E')))
        || parse::float64(number, 0, number.len()).is_some_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_schema::{Field, Schema};

    use super::*;

    /// The texts of the columns, and what is wrong.
    fn cut(guessed: bool, columns: &[(&str, DataType)], line: &str) -> (Vec<Option<String>>, Vec<String>) {
        let keys = columns.iter().map(|(name, _)| name.to_string()).collect();
        let fields: Vec<Field> =
            columns.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect();
        let splitter = JsonLine::new(&JsonDialect { keys, guessed }, &Arc::new(Schema::new(fields)));
        let (mut out, mut spans) = (b"before".to_vec(), vec![Span::new(0, 6)]);
        let faults = splitter.split(line.as_bytes(), columns.len(), &mut out, &mut spans);
        let text = |span: &Span| span.bytes(&out).map(|bytes| String::from_utf8_lossy(bytes).into_owned());
        (spans[1..].iter().map(text).collect(), faults.into_iter().map(|fault| fault.reason).collect())
    }

    #[test]
    fn members_are_found_whatever_their_order() {
        let columns = [("a", DataType::Int64), ("b", DataType::Utf8View), ("c", DataType::Boolean)];
        let texts = |line| {
            let (texts, faults) = cut(true, &columns, line);
            assert_eq!(faults, [""; 0], "{line}");
            texts.into_iter().map(|text| text.unwrap_or("-".into())).collect::<Vec<_>>().join("|")
        };
        assert_eq!(texts(r#"{"a":1,"b":"x","c":true}"#), "1|x|true");
        assert_eq!(texts(r#" {"c" : null, "\u0062":"\u00e9\n", "a":-5 } "#), "-5|é\n|-");
        assert_eq!(texts(r#"{"b":{"x":[1, "y"]}}"#), r#"-|{"x":[1, "y"]}|-"#);
        assert_eq!(texts(r#"{"b":1.50,"b":2.50}"#), "-|2.50|-");
        assert_eq!(texts("{}"), "-|-|-");
    }

    #[test]
    fn what_a_guess_did_not_see_is_wrong() {
        let items = DataType::new_list(DataType::Int64, true);
        let part = DataType::Struct(vec![Field::new("x", DataType::Float64, true)].into());
        let columns = [("a", DataType::Int64), ("d", DataType::Float64), ("l", items), ("s", part)];
        let faults = |line| cut(true, &columns, line).1.join("|");
        assert_eq!(faults(r#"{"a":1,"d":1,"l":[1,null],"s":{"x":2}}"#), "");
        assert_eq!(faults(r#"{"a":1.9,"d":"1"}"#), "is not a BIGINT|is not a DOUBLE");
        assert_eq!(faults(r#"{"d":1e400,"l":[1,2.5],"s":[]}"#), "is not a DOUBLE|is not a BIGINT|is not a STRUCT");
        assert!(faults(r#"{"s":{"x":1,"y":2}}"#).starts_with("has \"y\", which"));
        assert!(faults(r#"{"A":1}"#).starts_with("the member \"A\" is in none of the lines"));
        assert_eq!(faults("[1]"), "the line is no JSON object");
        assert_eq!(faults(r#"{"a":1,}"#), "the line is no JSON: expected a name in double quotes at column 8");
    }

    #[test]
    fn given_columns_are_found_without_regard_to_case() {
        let columns = [("Ab", DataType::Int64), ("c", DataType::Utf8View)];
        let expected = (vec![Some("1.5".to_string()), None], Vec::new());
        assert_eq!(cut(false, &columns, r#"{"aB":1.5,"more":[1]}"#), expected);
    }
}
