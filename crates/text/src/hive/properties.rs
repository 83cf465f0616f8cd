//! SERDEPROPERTIES, TBLPROPERTIES and session settings to a [`HiveDialect`].
//!
//! The rules are those of Hive 4.0.1's `LazySerDeParameters`, `MultiDelimitSerDe`, `OpenCSVSerde` and
//! `AbstractEncodingAwareSerDe`. Hive hands a SerDe one set of properties: the SERDEPROPERTIES, overlaid with the
//! TBLPROPERTIES. Names are case-sensitive there and here.

use arrow_schema::{DataType, Field, FieldRef};

use super::charset::Charset;
use super::error::HiveError;
use super::format::TimestampFormats;
use crate::dialect::{HiveDialect, HiveSerde, LineEnd};

const FIELD_DELIM: &str = "field.delim";
const NESTING: &str = "hive.serialization.extend.nesting.levels";
const MORE_NESTING: &str = "hive.serialization.extend.additional.nesting.levels";
/// Property of a table, or setting of a session, under which `1 0 t f` are booleans too.
pub const EXTENDED_BOOLEAN: &str = "hive.lazysimple.extended_boolean_literal";

/// Names that [`HiveDialect::from_properties`] knows, including those that Hive ignores.
pub const PROPERTIES: &[&str] = &[
    FIELD_DELIM,
    "serialization.format",
    "collection.delim",
    "colelction.delim",
    "mapkey.delim",
    "escape.delim",
    "line.delim",
    NESTING,
    MORE_NESTING,
    "serialization.null.format",
    "serialization.last.column.takes.rest",
    "serialization.encoding",
    "serialization.escape.crlf",
    "timestamp.formats",
    EXTENDED_BOOLEAN,
    "textinputformat.record.delimiter",
    "skip.header.line.count",
    "skip.footer.line.count",
    "separatorChar",
    "quoteChar",
    "escapeChar",
];

/// The three places in which a property can stand.
struct Properties<'a> {
    serde: &'a [(String, String)],
    table: &'a [(String, String)],
    session: &'a [(String, String)],
}

impl<'a> Properties<'a> {
    /// Returns the value that the SerDe sees: TBLPROPERTIES win over SERDEPROPERTIES, a later entry over an earlier
    /// one.
    fn get(&self, name: &str) -> Option<&'a str> {
        Self::find(self.table, name).or_else(|| Self::find(self.serde, name))
    }

    /// Returns a Hadoop setting: the table's, else the session's.
    fn get_or_session(&self, name: &str) -> Option<&'a str> {
        self.get(name).or_else(|| Self::find(self.session, name))
    }

    fn find(list: &'a [(String, String)], name: &str) -> Option<&'a str> {
        list.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn is_true(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Returns a line count; negative ones skip nothing, as in Hive.
    fn count(&self, name: &str) -> Result<u64, HiveError> {
        let Some(value) = self.get(name) else { return Ok(0) };
        match value.parse::<i32>() {
            Ok(count) => Ok(u64::try_from(count).unwrap_or(0)),
            Err(_) => Err(bad(name, value, "a number of lines, 0 to 2147483647")),
        }
    }
}

fn bad(property: &str, value: &str, expected: impl Into<String>) -> HiveError {
    HiveError::BadProperty { property: property.to_owned(), value: value.to_owned(), expected: expected.into() }
}

/// Returns one separator byte from a property: a number from -128 to 127 is that byte; of any other value, the low byte
/// of the first UTF-16 unit counts; absent or empty is `default`.
///
/// For example `'9'` is a tab, `'-2'` is 0xFE, `'||'` is `|`, `'254'` is `2` and `'§'` is 0xA7.
///
/// ```
/// use dipper_text::hive::separator_byte;
/// assert_eq!(separator_byte(Some("9"), 1), b'\t');
/// assert_eq!(separator_byte(Some("254"), 1), b'2');
/// assert_eq!(separator_byte(None, 1), 1);
/// ```
pub fn separator_byte(value: Option<&str>, default: u8) -> u8 {
    let Some(value) = value.filter(|value| !value.is_empty()) else { return default };
    match value.parse::<i8>() {
        Ok(number) => number as u8,
        Err(_) => value.encode_utf16().next().map_or(default, |unit| unit as u8),
    }
}

/// Returns the separators by nesting level: the three that have properties, then control characters that text rarely
/// holds (without tab, line ends, form feed and escape), then the high bytes.
fn separators(properties: &Properties<'_>) -> Vec<u8> {
    // Before Hive 4 the constant was misspelt, and metastores still hold tables created so; Hive 4 reads only the
    // right spelling, which therefore wins here.
    let collection = properties.get("collection.delim").or_else(|| properties.get("colelction.delim"));
    let mut separators = vec![
        separator_byte(properties.get(FIELD_DELIM).or_else(|| properties.get("serialization.format")), 1),
        separator_byte(collection, 2),
        separator_byte(properties.get("mapkey.delim"), 3),
    ];
    separators.extend((4..=8).chain([11]).chain(14..=26).chain(28..=31).chain(128..=255));
    let levels = if properties.is_true(MORE_NESTING) {
        separators.len()
    } else if properties.is_true(NESTING) {
        24
    } else {
        8
    };
    separators.truncate(levels);
    separators
}

/// Splits at commas; a backslash protects a comma or a backslash. Empty formats at the end are ignored.
fn timestamp_formats(name: &str, value: &str) -> Result<Vec<String>, HiveError> {
    let mut formats = vec![String::new()];
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        let last = formats.len() - 1;
        match c {
            ',' => formats.push(String::new()),
            '\\' => match chars.next() {
                Some(escaped @ (',' | '\\')) => formats[last].push(escaped),
                _ => return Err(bad(name, value, "a comma or a backslash after each backslash")),
            },
            _ => formats[last].push(c),
        }
    }
    while formats.last().is_some_and(String::is_empty) {
        formats.pop();
    }
    Ok(formats)
}

/// Returns the first character of an OpenCSVSerde property.
fn csv_char(properties: &Properties<'_>, name: &str, default: char) -> Result<char, HiveError> {
    match properties.get(name) {
        None => Ok(default),
        Some(value) => value.chars().next().ok_or_else(|| bad(name, value, "one character")),
    }
}

fn open_csv(properties: &Properties<'_>) -> Result<HiveSerde, HiveError> {
    let separator = csv_char(properties, "separatorChar", ',')?;
    let quote = csv_char(properties, "quoteChar", '"')?;
    // The SerDe takes `"` as "use the library's default", which is a backslash.
    let escape = match csv_char(properties, "escapeChar", '"')? {
        '"' => '\\',
        escape => escape,
    };
    if separator == '\0' {
        return Err(bad("separatorChar", "\\0", "a character other than NUL"));
    }
    // NUL as quote or escape means that there is none; two absent ones do not clash.
    let clash = |a: char, b: char| a != '\0' && a == b;
    for (name, a, b) in
        [("quoteChar", quote, separator), ("escapeChar", escape, separator), ("escapeChar", escape, quote)]
    {
        if clash(a, b) {
            let expected = format!(
                "three different characters: separatorChar is '{separator}', quoteChar '{quote}', escapeChar '{escape}'"
            );
            return Err(bad(name, &a.to_string(), expected));
        }
    }
    Ok(HiveSerde::OpenCsv { separator, quote, escape })
}

impl HiveDialect {
    /// Makes the dialect of a Hive table's files from the table's definition.
    ///
    /// `serde` is the class of `ROW FORMAT SERDE`. `ROW FORMAT DELIMITED` and no row format at all are
    /// `org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe`; the clauses of DELIMITED are the properties `field.delim`,
    /// `escape.delim`, `collection.delim`, `mapkey.delim`, `line.delim` and `serialization.null.format`. `session`
    /// holds the settings made by `SET`. Properties without effect are ignored: `line.delim`, which Hive ignores too,
    /// and `serialization.escape.crlf`, because the writer escapes line ends wherever there is an escape.
    ///
    /// # Errors
    /// [`HiveError`] if the SerDe or the encoding is unknown, OpenCSVSerde characters clash, MultiDelimitSerDe has no
    /// `field.delim`, a line count is no number, or a timestamp format is malformed.
    pub fn from_properties(
        serde: &str,
        serde_properties: &[(String, String)],
        table_properties: &[(String, String)],
        session: &[(String, String)],
    ) -> Result<HiveDialect, HiveError> {
        let properties = Properties { serde: serde_properties, table: table_properties, session };
        let serde = match serde {
            "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe" => HiveSerde::LazySimple,
            "org.apache.hadoop.hive.serde2.MultiDelimitSerDe"
            | "org.apache.hadoop.hive.contrib.serde2.MultiDelimitSerDe" => match properties.get(FIELD_DELIM) {
                None | Some("") => {
                    return Err(HiveError::MissingProperty {
                        property: FIELD_DELIM.to_owned(),
                        serde: "MultiDelimitSerDe",
                        expected: "the string between two fields",
                    });
                }
                Some(delimiter) => HiveSerde::MultiDelimit { field_delimiter: delimiter.as_bytes().to_vec() },
            },
            "org.apache.hadoop.hive.serde2.OpenCSVSerde" => open_csv(&properties)?,
            class => return Err(HiveError::UnknownSerde { class: class.to_owned() }),
        };

        let encoding = match properties.get("serialization.encoding") {
            None => None,
            // OpenCSVSerde decodes lines as UTF-8 regardless of this property.
            Some(_) if matches!(serde, HiveSerde::OpenCsv { .. }) => None,
            Some(name) => match Charset::for_name(name) {
                None => return Err(bad("serialization.encoding", name, "the name of a character set")),
                Some(Charset::Utf8) => None,
                Some(_) => Some(name.to_owned()),
            },
        };
        let line_end = match properties.get_or_session("textinputformat.record.delimiter") {
            None => LineEnd::AnyNewline,
            Some("") => return Err(bad("textinputformat.record.delimiter", "", "at least one character")),
            Some(delimiter) => LineEnd::Bytes(delimiter.as_bytes().to_vec()),
        };
        // MultiDelimitSerDe does not pass the next two properties on to its columns.
        let multi = matches!(serde, HiveSerde::MultiDelimit { .. });
        let timestamp_formats = match properties.get("timestamp.formats") {
            Some(value) if !multi => timestamp_formats("timestamp.formats", value)?,
            _ => Vec::new(),
        };
        TimestampFormats::try_new(&timestamp_formats)?;
        let extended_boolean = properties
            .get_or_session(EXTENDED_BOOLEAN)
            .is_some_and(|value| !multi && value.trim().eq_ignore_ascii_case("true"));
        Ok(HiveDialect {
            separators: separators(&properties),
            escape: properties.get("escape.delim").map(|value| separator_byte(Some(value), b'\\')),
            null_format: properties.get("serialization.null.format").unwrap_or("\\N").as_bytes().to_vec(),
            last_column_takes_rest: properties.is_true("serialization.last.column.takes.rest"),
            encoding,
            timestamp_formats,
            extended_boolean,
            line_end,
            skip_header: properties.count("skip.header.line.count")?,
            skip_footer: properties.count("skip.footer.line.count")?,
            serde,
        })
    }

    /// Returns the columns that the SerDe delivers for the declared ones: OpenCSVSerde makes every column a string, the
    /// others keep the declared types.
    pub fn file_fields(&self, declared: &[FieldRef]) -> Vec<FieldRef> {
        let plain = !matches!(self.serde, HiveSerde::OpenCsv { .. });
        let string = |field: &FieldRef| FieldRef::new(Field::new(field.name(), DataType::Utf8View, true));
        declared.iter().map(|field| if plain { field.clone() } else { string(field) }).collect()
    }

    /// Checks that columns of these types can be read: enough separators for their nesting, strings for OpenCSVSerde.
    ///
    /// # Errors
    /// [`HiveError::NestingTooDeep`] if a column needs more separators than there are; [`HiveError::NotAString`] if a
    /// column of OpenCSVSerde is not a string.
    pub fn check_fields(&self, fields: &[FieldRef]) -> Result<(), HiveError> {
        for field in fields {
            if matches!(self.serde, HiveSerde::OpenCsv { .. }) {
                if field.data_type() != &DataType::Utf8View {
                    let found = field.data_type().to_string();
                    return Err(HiveError::NotAString { column: field.name().clone(), found });
                }
                continue;
            }
            let needed = 1 + levels(field.data_type());
            if needed > self.separators.len() {
                let available = self.separators.len();
                return Err(HiveError::NestingTooDeep { column: field.name().clone(), needed, available });
            }
        }
        Ok(())
    }
}

/// Returns the number of separators that a type takes below the one between the fields.
fn levels(data_type: &DataType) -> usize {
    match data_type {
        DataType::List(item) => 1 + levels(item.data_type()),
        DataType::Struct(fields) => 1 + fields.iter().map(|field| levels(field.data_type())).max().unwrap_or(0),
        // A map takes two: between entries, and between key and value.
        DataType::Map(entries, _) => match entries.data_type() {
            DataType::Struct(fields) => 2 + fields.iter().map(|field| levels(field.data_type())).max().unwrap_or(0),
            _ => 2,
        },
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAZY: &str = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe";
    const CSV: &str = "org.apache.hadoop.hive.serde2.OpenCSVSerde";
    const MULTI: &str = "org.apache.hadoop.hive.serde2.MultiDelimitSerDe";

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    fn dialect(serde: &str, list: &[(&str, &str)]) -> Result<HiveDialect, HiveError> {
        HiveDialect::from_properties(serde, &pairs(list), &[], &[])
    }

    #[test]
    fn no_properties_is_the_default() {
        assert_eq!(dialect(LAZY, &[]).unwrap(), HiveDialect::default());
    }

    #[test]
    fn separator_bytes() {
        for (value, byte) in [
            ("9", 9),
            ("+9", 9),
            ("-2", 0xFE),
            ("0", 0),
            ("127", 127),
            ("128", b'1'),
            ("-129", b'-'),
            ("||", b'|'),
            ("§", 0xA7),
            (" 9", b' '),
        ] {
            assert_eq!(separator_byte(Some(value), 1), byte, "{value:?}");
        }
        assert_eq!(separator_byte(Some(""), 7), 7);
    }

    #[test]
    fn nesting_levels() {
        assert_eq!(dialect(LAZY, &[]).unwrap().separators, [1, 2, 3, 4, 5, 6, 7, 8]);
        let extended = dialect(LAZY, &[(NESTING, "TRUE")]).unwrap().separators;
        assert_eq!(extended.len(), 24);
        assert_eq!(extended[8..12], [11, 14, 15, 16]);
        assert_eq!(extended[21..], [26, 28, 29]);
        let all = dialect(LAZY, &[(MORE_NESTING, "true")]).unwrap().separators;
        assert_eq!((all.len(), all[26], all[153]), (154, 128, 255));
    }

    #[test]
    fn table_properties_win() {
        let (serde, table) = (pairs(&[("field.delim", ",")]), pairs(&[("field.delim", ";")]));
        assert_eq!(HiveDialect::from_properties(LAZY, &serde, &table, &[]).unwrap().separators[0], b';');
    }

    #[test]
    fn refusals_say_what_is_wrong() {
        for (serde, list, message) in [
            ("x.RegexSerDe", vec![], "SerDe \"x.RegexSerDe\" is not known; text tables"),
            (MULTI, vec![], "property \"field.delim\" is missing: MultiDelimitSerDe needs"),
            (
                CSV,
                vec![("separatorChar", "\"")],
                "property \"quoteChar\" is \"\"\": expected three different characters",
            ),
            (CSV, vec![("quoteChar", "")], "property \"quoteChar\" is \"\": expected one character"),
            (LAZY, vec![("serialization.encoding", "klingon")], "expected the name of a character set"),
            (LAZY, vec![("skip.header.line.count", "one")], "is \"one\": expected a number of lines"),
            (LAZY, vec![("textinputformat.record.delimiter", "")], "expected at least one character"),
            (LAZY, vec![("timestamp.formats", "a\\b")], "expected a comma or a backslash"),
        ] {
            let error = dialect(serde, &list).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn formats_are_cut_at_commas() {
        let formats = dialect(LAZY, &[("timestamp.formats", "yyyy\\, MM,millis,,")]).unwrap().timestamp_formats;
        assert_eq!(formats, ["yyyy, MM", "millis"]);
    }
}
