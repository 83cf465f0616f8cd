//! Check of a file's columns against those of other files, by its header alone.

use arrow_schema::Schema;

use super::shape::Records;
use super::{SHOWN_COLUMNS, shown_name, unique};
use crate::dialect::CsvDialect;
use crate::error::{ErrorKind, TextError};
use crate::scan::HeaderCheck;

/// The columns that headers must name, in this order.
#[derive(Debug, Clone, PartialEq)]
pub struct Header {
    names: Vec<String>,
    dialect: CsvDialect,
}

impl Header {
    /// Creates the check for files with the columns of `schema`, which was inferred from some of them.
    pub fn new(schema: &Schema, dialect: &CsvDialect) -> Self {
        let names = schema.fields().iter().map(|field| field.name().clone()).collect();
        Header { names, dialect: CsvDialect { skip_lines: 0, ..dialect.clone() } }
    }
}

/// Ignores case and empty fields at the end.
impl HeaderCheck for Header {
    fn check(&self, header: &[u8]) -> Result<(), TextError> {
        let mut records = Records::new(header, true, &self.dialect);
        let mut pieces = Vec::new();
        records.next(&mut pieces);
        let value = |piece| String::from_utf8_lossy(&records.value(piece)).trim().to_string();
        let mut found: Vec<String> = pieces.into_iter().map(value).collect();
        while found.last().is_some_and(String::is_empty) {
            found.pop();
        }
        let columns = found.len().max(self.names.len());
        let names = unique((0..columns).map(|i| found.get(i).cloned().unwrap_or_default()));
        let lower = |names: &[String]| names.iter().map(|name| name.to_lowercase()).collect::<Vec<_>>();
        if lower(&names) == lower(&self.names) {
            return Ok(());
        }
        let reason = format!("the header names the columns {}; other files have {}", shown(&found), shown(&self.names));
        Err(TextError::new(ErrorKind::BadRecord, reason)
            .with_hint("read each column by its name: files('path' = ..., 'union_by_name' = 'true')"))
    }
}

/// Returns some names in one line.
fn shown(names: &[String]) -> String {
    let mut shown: Vec<String> = names.iter().take(SHOWN_COLUMNS).map(|name| shown_name(name)).collect();
    if names.len() > SHOWN_COLUMNS {
        shown.push(format!("and {} more", names.len() - SHOWN_COLUMNS));
    }
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use arrow_schema::{DataType, Field};

    use super::*;

    fn header(names: &[&str], delimiter: &str) -> Header {
        let fields: Vec<_> = names.iter().map(|name| Field::new(*name, DataType::Utf8View, true)).collect();
        let delimiter = delimiter.as_bytes().to_vec();
        Header::new(&Schema::new(fields), &CsvDialect { delimiter, skip_lines: 3, ..CsvDialect::default() })
    }

    #[test]
    fn headers_name_the_same_columns_in_the_same_order() {
        let two = header(&["a", "b"], ",");
        for same in ["a,b", "A, b \r", "\"a\",\"b\"", "a,b,,"] {
            assert!(two.check(same.as_bytes()).is_ok(), "{same}");
        }
        for other in ["b,a", "a", "a;b", "a,b,c", "a,b,,c", "1,2", "a,"] {
            assert!(two.check(other.as_bytes()).is_err(), "{other}");
        }
        // Names that were made of the header's.
        assert!(header(&["a", "a_1", "c3"], "||").check(b"a||A").is_ok());
        assert_eq!(
            two.check(b"500,5").expect_err("other columns").to_string(),
            "the header names the columns 500, 5; other files have a, b; read each column by its name: \
             files('path' = ..., 'union_by_name' = 'true')"
        );
    }
}
