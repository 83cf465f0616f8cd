//! MySQL's text format with quotes: `FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"' LINES TERMINATED BY '\r\n'`.
//!
//! The rules are those of MySQL's manual for SELECT ... INTO OUTFILE. NULL is the escape byte and `N`, outside of
//! quotes, or the word NULL if there is no escape byte. Within a value, the escape byte precedes itself, the quote,
//! and, in values without quotes, the first bytes of the field and line terminators; NUL is the escape byte and `0`.

use std::io::Write;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use arrow::record_batch::RecordBatch;
use dipper_sql::charter::casts::cast_values;

use super::{Boxed, boxed};

/// Separators, quotes and escapes of the format.
#[derive(Debug, Clone, PartialEq)]
pub struct MySqlDialect {
    /// Terminator between fields.
    pub field_end: Vec<u8>,
    /// Quote around fields.
    pub quote: Option<u8>,
    /// Whether only strings are quoted.
    pub optionally: bool,
    /// The byte before special bytes; `None` if nothing is escaped.
    pub escape: Option<u8>,
    /// Text before each line.
    pub line_start: Vec<u8>,
    /// Terminator after each line.
    pub line_end: Vec<u8>,
}

/// Writes rows in this format.
pub(super) struct MySqlWriter<W> {
    out: W,
    dialect: MySqlDialect,
    line: Vec<u8>,
}

/// The values of a column as bytes.
enum Values {
    Text(ArrayRef),
    Bytes(ArrayRef),
}

impl Values {
    fn of(column: &ArrayRef) -> Result<(Self, bool), Boxed> {
        Ok(match column.data_type() {
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
                (Values::Bytes(arrow::compute::cast(column, &DataType::Binary)?), true)
            }
            t if t.is_nested() => {
                return Err(format!("a value of type {t} has no text in this form; convert it in the query").into());
            }
            t => (Values::Text(cast_values(column, &DataType::Utf8).map_err(boxed)?), !is_number(t)),
        })
    }

    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Values::Text(values) => values.is_valid(row).then(|| values.as_string::<i32>().value(row).as_bytes()),
            Values::Bytes(values) => values.is_valid(row).then(|| values.as_binary::<i32>().value(row)),
        }
    }
}

/// Returns whether a type is never quoted under OPTIONALLY: MySQL quotes strings and times, but not numbers.
fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || matches!(data_type, DataType::Boolean | DataType::Null)
}

impl<W: Write> MySqlWriter<W> {
    pub(super) fn new(out: W, dialect: MySqlDialect) -> Self {
        MySqlWriter { out, dialect, line: Vec::new() }
    }

    pub(super) fn write(&mut self, batch: &RecordBatch) -> Result<(), Boxed> {
        let columns = batch.columns().iter().map(Values::of).collect::<Result<Vec<_>, _>>()?;
        for row in 0..batch.num_rows() {
            self.line.clear();
            self.line.extend_from_slice(&self.dialect.line_start);
            for (i, (values, quotable)) in columns.iter().enumerate() {
                if i > 0 {
                    self.line.extend_from_slice(&self.dialect.field_end);
                }
                match values.get(row) {
                    None => match self.dialect.escape {
                        Some(escape) => self.line.extend([escape, b'N']),
                        None => self.line.extend(b"NULL"),
                    },
                    Some(value) => {
                        let quote = self.dialect.quote.filter(|_| *quotable || !self.dialect.optionally);
                        put(&mut self.line, value, &self.dialect, quote);
                    }
                }
            }
            self.line.extend_from_slice(&self.dialect.line_end);
            self.out.write_all(&self.line).map_err(boxed)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> W {
        self.out
    }
}

fn put(line: &mut Vec<u8>, value: &[u8], dialect: &MySqlDialect, quote: Option<u8>) {
    line.extend(quote);
    for &byte in value {
        let ends = dialect.field_end.first() == Some(&byte) || dialect.line_end.first() == Some(&byte);
        match dialect.escape {
            Some(escape) if byte == 0 => {
                line.extend([escape, b'0']);
                continue;
            }
            Some(escape) if byte == escape || dialect.quote == Some(byte) || (quote.is_none() && ends) => {
                line.push(escape);
            }
            // Without an escape byte a quote is doubled, as LOAD DATA expects.
            None if quote == Some(byte) => line.push(byte),
            _ => {}
        }
        line.push(byte);
    }
    line.extend(quote);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, StringArray};

    use super::*;

    fn written(dialect: MySqlDialect) -> String {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a,\"b\\"), None]));
        let batch = RecordBatch::try_from_iter([("n", numbers), ("t", texts)]).unwrap();
        let mut writer = MySqlWriter::new(Vec::new(), dialect);
        writer.write(&batch).unwrap();
        String::from_utf8(writer.finish()).unwrap()
    }

    #[test]
    fn quotes_and_escapes_are_mysqls() {
        let dialect = MySqlDialect {
            field_end: b",".to_vec(),
            quote: Some(b'"'),
            optionally: true,
            escape: Some(b'\\'),
            line_start: Vec::new(),
            line_end: b"\r\n".to_vec(),
        };
        assert_eq!(written(dialect.clone()), "1,\"a,\\\"b\\\\\"\r\n\\N,\\N\r\n");
        let all = MySqlDialect { optionally: false, line_start: b">".to_vec(), ..dialect.clone() };
        assert_eq!(written(all), ">\"1\",\"a,\\\"b\\\\\"\r\n>\\N,\\N\r\n");
        let bare = MySqlDialect { quote: None, ..dialect.clone() };
        assert_eq!(written(bare), "1,a\\,\"b\\\\\r\n\\N,\\N\r\n");
        let unescaped = MySqlDialect { escape: None, ..dialect };
        assert_eq!(written(unescaped), "1,\"a,\"\"b\\\"\r\nNULL,NULL\r\n");
    }
}
