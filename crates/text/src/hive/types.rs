//! Hive's type strings and their Arrow types, both ways.
//!
//! | Hive | Arrow |
//! |---|---|
//! | `tinyint` `smallint` `int` `bigint` | `Int8` `Int16` `Int32` `Int64` |
//! | `float`, `double` | `Float32`, `Float64` |
//! | `decimal(p,s)` | `Decimal128(p, s)` |
//! | `boolean`, `date`, `binary` | `Boolean`, `Date32`, `BinaryView` |
//! | `timestamp` | `Timestamp(Microsecond, None)` |
//! | `string`, `char(n)`, `varchar(n)` | `Utf8View`; the field's metadata [`TYPE_KEY`] says `char(n)` or `varchar(n)` |
//! | `array<t>` | `List` of a field `item` |
//! | `map<k,v>` | `Map` of `entries` with the fields `key` and `value` |
//! | `struct<name:t,...>` | `Struct` |

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, TimeUnit};
use dipper_base::address::is_address;

use super::error::HiveError;

/// Key of the field metadata for a type that Arrow cannot express: `char(10)`, `varchar(20)`.
pub const TYPE_KEY: &str = "dipper.type";

/// Parses a Hive type string into the nullable Arrow field `name`. Any case is accepted, and blanks between parts.
///
/// ```
/// use dipper_text::hive::{hive_type, parse_type};
/// let field = parse_type("tags", "array<map<string, decimal(10,2)>>").unwrap();
/// assert_eq!(hive_type(&field).unwrap(), "array<map<string,decimal(10,2)>>");
/// ```
///
/// # Errors
/// [`HiveError::BadType`] with the position; [`HiveError::UnsupportedType`] for types that no file can hold here
/// (`uniontype`, intervals, `void`, `timestamp with local time zone`).
pub fn parse_type(name: &str, text: &str) -> Result<Field, HiveError> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let field = parser.field(name)?;
    parser.blanks();
    if parser.at < text.len() {
        return Err(parser.error("the end of the type"));
    }
    Ok(field)
}

/// Maximum nesting of types: far beyond the separators that Hive has, far below the limit of the stack.
const DEPTH_MAX: usize = 160;

struct Parser<'a> {
    text: &'a str,
    /// Byte offset of the next character.
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn error(&self, expected: &str) -> HiveError {
        let found = match self.rest().chars().next() {
            None => "the end".to_owned(),
            Some(c) => format!("'{c}'"),
        };
        let at = self.text[..self.at].chars().count() + 1;
        HiveError::BadType { text: self.text.to_owned(), at, found, expected: expected.to_owned() }
    }

    /// Consumes `c` if it comes next.
    fn take(&mut self, c: char) -> bool {
        self.blanks();
        let found = self.rest().starts_with(c);
        if found {
            self.at += c.len_utf8();
        }
        found
    }

    fn expect(&mut self, c: char, expected: &str) -> Result<(), HiveError> {
        if self.take(c) { Ok(()) } else { Err(self.error(expected)) }
    }

    /// Reads a word of letters, digits and `_`, which may be empty.
    fn word(&mut self) -> &'a str {
        self.blanks();
        let rest = self.rest();
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    /// Reads a number from `min` to `max`.
    fn number(&mut self, min: u32, max: u32, what: &str) -> Result<u32, HiveError> {
        self.blanks();
        let start = self.at;
        match self.word().parse::<u32>() {
            Ok(number) if (min..=max).contains(&number) => Ok(number),
            _ => {
                self.at = start;
                Err(self.error(&format!("{what} from {min} to {max}")))
            }
        }
    }

    /// Reads a struct's field name: a word, or anything in backticks (doubled inside to mean itself).
    fn name(&mut self) -> Result<String, HiveError> {
        if self.take('`') {
            let mut name = String::new();
            loop {
                let Some(end) = self.rest().find('`') else {
                    self.at = self.text.len();
                    return Err(self.error("a closing backtick"));
                };
                name.push_str(&self.rest()[..end]);
                self.at += end + 1;
                if !self.rest().starts_with('`') {
                    return Ok(name);
                }
                name.push('`');
                self.at += 1;
            }
        }
        match self.word() {
            "" => Err(self.error("a field name")),
            word => Ok(word.to_owned()),
        }
    }

    /// Skips `COMMENT 'text'` after a struct's field; it does not affect the data.
    fn comment(&mut self) -> Result<(), HiveError> {
        let start = self.at;
        if !self.word().eq_ignore_ascii_case("comment") {
            self.at = start;
            return Ok(());
        }
        self.blanks();
        let quote = match self.rest().chars().next() {
            Some(quote @ ('\'' | '"')) => quote,
            _ => return Err(self.error("a quoted comment")),
        };
        self.at += 1;
        while let Some(c) = self.rest().chars().next() {
            self.at += c.len_utf8();
            if c == quote {
                return Ok(());
            }
            if c == '\\' {
                self.at += self.rest().chars().next().map_or(0, char::len_utf8);
            }
        }
        Err(self.error("the end of the comment"))
    }

    fn field(&mut self, name: &str) -> Result<Field, HiveError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.error(&format!("no more than {DEPTH_MAX} nested types")));
        }
        self.blanks();
        let start = self.at;
        let word = self.word().to_ascii_lowercase();
        let plain = |data_type| Ok(Field::new(name, data_type, true));
        let field = match word.as_str() {
            "tinyint" => plain(DataType::Int8),
            "smallint" => plain(DataType::Int16),
            "int" | "integer" => plain(DataType::Int32),
            "bigint" => plain(DataType::Int64),
            "boolean" => plain(DataType::Boolean),
            "float" => plain(DataType::Float32),
            "double" => {
                let end = self.at;
                if !self.word().eq_ignore_ascii_case("precision") {
                    self.at = end;
                }
                plain(DataType::Float64)
            }
            "string" => plain(DataType::Utf8View),
            "binary" => plain(DataType::BinaryView),
            "date" => plain(DataType::Date32),
            "timestamp" => {
                let end = self.at;
                if self.word().eq_ignore_ascii_case("with") {
                    return Err(self.unsupported("timestamp with local time zone", "has no zone here: use timestamp"));
                }
                self.at = end;
                plain(DataType::Timestamp(TimeUnit::Microsecond, None))
            }
            "decimal" | "dec" | "numeric" => {
                let (mut precision, mut scale) = (10, 0);
                if self.take('(') {
                    precision = self.number(1, 38, "a precision")?;
                    if self.take(',') {
                        scale = self.number(0, precision, "a scale")?;
                    }
                    self.expect(')', "a closing parenthesis")?;
                }
                plain(DataType::Decimal128(precision as u8, scale as i8))
            }
            "char" => self.sized(name, "char", 255),
            "varchar" => self.sized(name, "varchar", 65535),
            "array" => {
                self.expect('<', "'<' and the type of the elements")?;
                let item = self.field(Field::LIST_FIELD_DEFAULT_NAME)?;
                self.expect('>', "'>'")?;
                plain(DataType::List(Arc::new(item)))
            }
            "map" => {
                self.expect('<', "'<' and the type of the keys")?;
                self.blanks();
                let key_start = self.at;
                let key = self.field("key")?;
                if key.data_type().is_nested() {
                    self.at = key_start;
                    return Err(self.error("a primitive type for the keys"));
                }
                self.expect(',', "a comma and the type of the values")?;
                let value = self.field("value")?;
                self.expect('>', "'>'")?;
                plain(map_type(key, value))
            }
            "struct" => {
                self.expect('<', "'<' and the fields")?;
                let mut fields: Vec<Field> = Vec::new();
                loop {
                    self.blanks();
                    let name_start = self.at;
                    let name = self.name()?;
                    if fields.iter().any(|field| field.name().eq_ignore_ascii_case(&name)) {
                        self.at = name_start;
                        return Err(self.error("a field name that differs from the others"));
                    }
                    self.expect(':', "a colon and the field's type")?;
                    fields.push(self.field(&name)?);
                    self.comment()?;
                    if !self.take(',') {
                        break;
                    }
                }
                self.expect('>', "a comma or '>'")?;
                plain(DataType::Struct(fields.into()))
            }
            "uniontype" => Err(self.unsupported("uniontype", "cannot be read: use a struct")),
            "interval_year_month" | "interval_day_time" | "interval" => {
                Err(self.unsupported(&word, "cannot be stored in a table"))
            }
            "void" => Err(self.unsupported("void", "holds nothing: use string")),
            _ => {
                self.at = start;
                Err(self.error(
                    "a Hive type (tinyint, smallint, int, bigint, boolean, float, double, decimal, string, char, \
                     varchar, binary, date, timestamp, array, map, struct)",
                ))
            }
        };
        self.depth -= 1;
        field
    }

    fn unsupported(&self, name: &str, reason: &str) -> HiveError {
        HiveError::UnsupportedType { kind: "Hive", name: name.to_owned(), reason: reason.to_owned() }
    }

    fn sized(&mut self, name: &str, word: &str, max: u32) -> Result<Field, HiveError> {
        self.expect('(', "'(' and a length")?;
        let length = self.number(1, max, "a length")?;
        self.expect(')', "a closing parenthesis")?;
        let metadata = HashMap::from([(TYPE_KEY.to_owned(), format!("{word}({length})"))]);
        Ok(Field::new(name, DataType::Utf8View, true).with_metadata(metadata))
    }
}

/// Returns the map type of these key and value fields, with the names and nullability used everywhere in this crate.
fn map_type(key: Field, value: Field) -> DataType {
    let fields = Fields::from(vec![key.with_nullable(false), value]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false)
}

/// The string types that [`TYPE_KEY`] distinguishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StringKind {
    /// `string`.
    Any,
    /// `char(n)`: cut to n code points; trailing blanks do not count.
    Char(u32),
    /// `varchar(n)`: cut to n code points.
    Varchar(u32),
}

impl StringKind {
    /// Reads the field's metadata; anything but `char(n)` and `varchar(n)` is [`StringKind::Any`].
    pub fn of(field: &Field) -> StringKind {
        let Some(text) = field.metadata().get(TYPE_KEY) else { return StringKind::Any };
        let text = text.trim().to_ascii_lowercase();
        let length = |prefix: &str| {
            text.strip_prefix(prefix)?.trim_start().strip_prefix('(')?.strip_suffix(')')?.trim().parse::<u32>().ok()
        };
        match (length("char"), length("varchar")) {
            (Some(n), _) => StringKind::Char(n),
            (_, Some(n)) => StringKind::Varchar(n),
            _ => StringKind::Any,
        }
    }
}

/// Returns the Hive type string of an Arrow field; the inverse of [`parse_type`]. Every type that Hive can hold has
/// one: large and view types, dictionaries and zoneless timestamps of any unit count as their plain types.
///
/// # Errors
/// [`HiveError::UnsupportedType`] if Hive has no such type (unsigned integers, decimals beyond 38 digits, times,
/// intervals, timestamps with zone, unions).
pub fn hive_type(field: &Field) -> Result<String, HiveError> {
    let unsupported = |reason: &str| {
        let name = field.data_type().to_string();
        Err(HiveError::UnsupportedType { kind: "Arrow", name, reason: reason.to_owned() })
    };
    Ok(match field.data_type() {
        DataType::Boolean => "boolean".to_owned(),
        DataType::Int8 => "tinyint".to_owned(),
        DataType::Int16 => "smallint".to_owned(),
        DataType::Int32 => "int".to_owned(),
        DataType::Int64 => "bigint".to_owned(),
        DataType::Float32 => "float".to_owned(),
        DataType::Float64 => "double".to_owned(),
        DataType::Date32 => "date".to_owned(),
        DataType::Timestamp(_, None) => "timestamp".to_owned(),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => match StringKind::of(field) {
            StringKind::Any => "string".to_owned(),
            StringKind::Char(n) => format!("char({n})"),
            StringKind::Varchar(n) => format!("varchar({n})"),
        },
        t if is_address(t) => "string".to_owned(),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            "binary".to_owned()
        }
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) | DataType::Decimal128(p, s) if *s >= 0 => {
            format!("decimal({p},{s})")
        }
        DataType::Decimal256(p, s) if *p <= 38 && *s >= 0 => format!("decimal({p},{s})"),
        DataType::Dictionary(_, values) => {
            let values = Field::new(field.name(), values.as_ref().clone(), true);
            hive_type(&values.with_metadata(field.metadata().clone()))?
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => format!("array<{}>", hive_type(item)?),
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) if fields.len() == 2 => {
                format!("map<{},{}>", hive_type(&fields[0])?, hive_type(&fields[1])?)
            }
            _ => return unsupported("is no map of key and value"),
        },
        DataType::Struct(fields) => {
            let fields: Result<Vec<String>, HiveError> = fields.iter().map(struct_field).collect();
            format!("struct<{}>", fields?.join(","))
        }
        DataType::Timestamp(_, Some(_)) => return unsupported("has a zone, which Hive's timestamp lacks: cast it"),
        DataType::UInt8 | DataType::UInt16 | DataType::UInt32 | DataType::UInt64 => {
            return unsupported("is unsigned: cast it to a wider signed type");
        }
        _ => return unsupported("has no counterpart in Hive: cast it, to string if need be"),
    })
}

fn struct_field(field: &FieldRef) -> Result<String, HiveError> {
    let name = field.name();
    let plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    let name = if plain { name.clone() } else { format!("`{}`", name.replace('`', "``")) };
    Ok(format!("{name}:{}", hive_type(field)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in [
            "tinyint",
            "smallint",
            "int",
            "bigint",
            "boolean",
            "float",
            "double",
            "string",
            "binary",
            "date",
            "timestamp",
            "decimal(38,18)",
            "char(10)",
            "varchar(65535)",
            "array<char(3)>",
            "map<string,array<int>>",
            "map<date,map<varchar(5),decimal(10,0)>>",
            "struct<a:int,b_1:struct<c:array<string>>,`odd ``name`:char(2)>",
        ] {
            let field = parse_type("c", text).unwrap();
            assert_eq!(hive_type(&field).unwrap(), text);
            assert!(field.is_nullable());
            assert_eq!(field.name(), "c");
        }
    }

    #[test]
    fn spellings() {
        for (text, canonical) in [
            (" Array < INTEGER > ", "array<int>"),
            ("decimal", "decimal(10,0)"),
            ("numeric(5)", "decimal(5,0)"),
            ("dec ( 7 , 2 )", "decimal(7,2)"),
            ("DOUBLE PRECISION", "double"),
            ("struct<a:int comment 'x, \\'y\\' >', b:string>", "struct<a:int,b:string>"),
        ] {
            assert_eq!(hive_type(&parse_type("c", text).unwrap()).unwrap(), canonical, "{text}");
        }
    }

    #[test]
    fn errors_say_where() {
        for (text, message) in [
            ("", "type \"\": expected a Hive type"),
            ("array<int", "type \"array<int\": expected '>' at character 10, found the end"),
            ("array<innt>", "at character 7, found 'i'"),
            ("decimal(39,2)", "expected a precision from 1 to 38 at character 9, found '3'"),
            ("decimal(5,6)", "expected a scale from 0 to 5 at character 11"),
            ("varchar", "expected '(' and a length at character 8, found the end"),
            ("varchar(0)", "expected a length from 1 to 65535"),
            ("map<array<int>,int>", "expected a primitive type for the keys at character 5"),
            ("struct<a:int,A:int>", "expected a field name that differs from the others at character 14"),
            ("struct<a int>", "expected a colon and the field's type at character 10"),
            ("int int", "expected the end of the type at character 5"),
            ("uniontype<int,string>", "Hive type \"uniontype\" cannot be read"),
            ("timestamp with local time zone", "has no zone here"),
        ] {
            let error = parse_type("c", text).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let deep = "array<".repeat(100_000);
        assert!(parse_type("c", &deep).unwrap_err().to_string().contains("no more than 160 nested types"));
    }

    #[test]
    fn types_without_counterpart() {
        for data_type in [DataType::UInt8, DataType::Decimal256(39, 0), DataType::Time64(TimeUnit::Microsecond)] {
            assert!(hive_type(&Field::new("c", data_type, true)).is_err());
        }
    }

    #[test]
    fn dictionaries_count_as_their_values() {
        let data_type = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
        assert_eq!(hive_type(&Field::new("c", data_type, true)).unwrap(), "string");
    }
}
