//! Casts of values that files store to the types that tables declare for them.
//!
//! A table over files may declare another type than a file has. Its values are then those that CAST gives, and NULL
//! where CAST gives NULL. The text of a `CHAR(n)` ends before trailing blanks, as Hive reads it.

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use dipper_base::types::SqlType;
use dipper_dialect::parser::parse_type;

use super::by_part::{Context, has_limits, parts};
use super::{by_part, safe};
use crate::functions::datetime::zone::Zone;
use crate::metadata::TYPE_KEY;

/// The cast of a file's values to the type of a table's column.
#[derive(Debug, Clone)]
pub struct FileCast {
    to: DataType,
    /// The SQL type, if it says more than `to`.
    sql: Option<SqlType>,
    session: Option<Zone>,
}

impl FileCast {
    /// Makes the cast to the type `to`. `declared` is the column as it was declared, with lengths of texts in the
    /// metadata of fields; the types differ in such metadata only. `session` is the zone to which texts that name a zone
    /// are moved; without it they are NULL.
    pub fn new(to: DataType, declared: &Field, session: Option<Zone>) -> FileCast {
        let sql = Some(sql_type(declared)).filter(has_limits);
        FileCast { to, sql, session }
    }

    /// Whether the column has a type that says more than Arrow's, such as `VARCHAR(3)`.
    pub fn has_limits(&self) -> bool {
        self.sql.is_some()
    }

    /// The most characters of a text, for `VARCHAR(n)` itself.
    pub fn characters(&self) -> Option<usize> {
        match self.sql {
            Some(SqlType::Varchar(Some(most))) => usize::try_from(most).ok(),
            _ => None,
        }
    }

    /// Returns the values in the column's type.
    ///
    /// # Errors
    /// Arrow's error if there is no cast between the types.
    pub fn cast(&self, array: &ArrayRef) -> Result<ArrayRef> {
        let context = Context { from: None, session: self.session, digits: None, keeps_blanks: false };
        let cast = parts(array, &self.to, self.sql.as_ref(), context)?;
        assert_eq!(cast.len(), array.len(), "a conversion keeps the rows");
        // Cut texts are views.
        if *cast.data_type() == self.to { Ok(cast) } else { safe(&cast, &self.to) }
    }

    /// Returns texts cut as this cast cuts them.
    pub fn cut(texts: &ArrayRef, most: usize) -> Result<ArrayRef> {
        let cut = by_part::cut(&safe(texts, &DataType::Utf8View)?, most, true);
        safe(&cut, texts.data_type())
    }
}

/// Returns the SQL type of a column as far as it says more than Arrow's; STRING stands for all other types.
fn sql_type(field: &Field) -> SqlType {
    if let Some(known) = field.metadata().get(TYPE_KEY).and_then(|text| parse_type(text).ok()) {
        return known;
    }
    match field.data_type() {
        DataType::List(item) => SqlType::Array(Box::new(sql_type(item))),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(pair) if pair.len() == 2 => {
                SqlType::Map(Box::new(sql_type(&pair[0])), Box::new(sql_type(&pair[1])))
            }
            _ => SqlType::String,
        },
        DataType::Struct(fields) => {
            SqlType::Struct(fields.iter().map(|field| (field.name().clone(), sql_type(field), None)).collect())
        }
        _ => SqlType::String,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{
        AsArray, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int64Array, StringArray,
        TimestampMicrosecondArray,
    };
    use arrow::datatypes::TimeUnit;
    use arrow::util::display::array_value_to_string;

    use super::*;

    fn cast(array: ArrayRef, to: DataType, declared: Option<&str>) -> Vec<String> {
        let field = Field::new("c", to.clone(), true);
        let field = match declared {
            Some(text) => field.with_metadata([(TYPE_KEY.to_string(), text.to_string())].into()),
            None => field,
        };
        let made = FileCast::new(to.clone(), &field, None).cast(&array).expect("a cast");
        assert_eq!(*made.data_type(), to);
        (0..made.len()).map(|row| array_value_to_string(&made, row).unwrap()).collect()
    }

    #[test]
    fn values_are_cast_as_cast_does() {
        let times: ArrayRef = Arc::new(TimestampMicrosecondArray::from(vec![Some(1_709_201_472_000_000), None]));
        assert_eq!(cast(Arc::clone(&times), DataType::Utf8View, None), ["2024-02-29 10:11:12", ""]);
        assert_eq!(cast(Arc::clone(&times), DataType::Utf8View, Some("varchar(10)")), ["2024-02-29", ""]);
        assert_eq!(cast(Arc::clone(&times), DataType::Utf8, Some("varchar(4)")), ["2024", ""]);
        assert_eq!(cast(times, DataType::Int64, None), ["20240229101112", ""]);
        let days: ArrayRef = Arc::new(Date32Array::from(vec![19_782]));
        assert_eq!(cast(days, DataType::Int32, None), ["20240229"]);
        let flags: ArrayRef = Arc::new(BooleanArray::from(vec![true, false]));
        assert_eq!(cast(flags, DataType::Utf8View, None), ["1", "0"]);
        let decimals = Decimal128Array::from(vec![150, -1225]).with_precision_and_scale(9, 2).unwrap();
        assert_eq!(cast(Arc::new(decimals), DataType::Boolean, None), ["true", "true"]);
        let doubles: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 1e20]));
        assert_eq!(cast(Arc::clone(&doubles), DataType::Utf8View, None), ["1", "1e+20"]);
        assert_eq!(cast(doubles, DataType::Int32, None), ["1", ""]);
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![300, 20_240_105]));
        assert_eq!(cast(Arc::clone(&numbers), DataType::Int8, None), ["", ""]);
        assert_eq!(cast(numbers, DataType::Date32, None), ["", "2024-01-05"]);
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x", "7", "2024-1-5"]));
        assert_eq!(cast(Arc::clone(&texts), DataType::Int32, None), ["", "7", ""]);
        let datetime = DataType::Timestamp(TimeUnit::Microsecond, None);
        assert_eq!(cast(texts, datetime, None), ["", "", "2024-01-05T00:00:00"]);
    }

    #[test]
    fn trailing_blanks_of_char_do_not_count() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["ab  ", "abcde", "a\u{e9}  x", "   "]));
        assert_eq!(cast(Arc::clone(&texts), DataType::Utf8View, Some("char(3)")), ["ab", "abc", "a\u{e9}", ""]);
        assert_eq!(cast(texts, DataType::Utf8View, Some("varchar(3)")), ["ab ", "abc", "a\u{e9} ", "   "]);
    }

    #[test]
    fn bounds_are_cut_like_values() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("\u{e9}bcd"), None]));
        let cut = FileCast::cut(&texts, 2).unwrap();
        assert_eq!(cut.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("\u{e9}b"), None]);
    }
}
