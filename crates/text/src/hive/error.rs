//! Errors in a Hive table's definition.

use crate::error::{ErrorKind, TextError};

/// A Hive table definition that cannot be read, found before any file is opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HiveError {
    /// A SerDe class other than the three of [`HiveSerde`](crate::dialect::HiveSerde).
    #[error(
        "SerDe \"{class}\" is not known; text tables are read with \
         org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe, org.apache.hadoop.hive.serde2.MultiDelimitSerDe or \
         org.apache.hadoop.hive.serde2.OpenCSVSerde"
    )]
    UnknownSerde {
        /// The class as written.
        class: String,
    },
    /// A property whose value Hive refuses too.
    #[error("property \"{property}\" is \"{value}\": expected {expected}")]
    BadProperty {
        /// Name of the property.
        property: String,
        /// Its value, as written.
        value: String,
        /// The values that are allowed.
        expected: String,
    },
    /// A property without which the SerDe cannot work.
    #[error("property \"{property}\" is missing: {serde} needs {expected}")]
    MissingProperty {
        /// Name of the property.
        property: String,
        /// The SerDe that needs it.
        serde: &'static str,
        /// Meaning of the property.
        expected: &'static str,
    },
    /// A type string that is not a Hive type.
    #[error("type \"{text}\": expected {expected} at character {at}, found {found}")]
    BadType {
        /// The whole type string.
        text: String,
        /// Position of the error, in characters from 1.
        at: usize,
        /// The text at that position.
        found: String,
        /// The syntax that could stand there.
        expected: String,
    },
    /// A Hive or Arrow type that has no counterpart on the other side.
    #[error("{kind} type \"{name}\" {reason}")]
    UnsupportedType {
        /// `Hive` or `Arrow`.
        kind: &'static str,
        /// The type.
        name: String,
        /// The reason, and the type to use instead.
        reason: String,
    },
    /// A column nested deeper than there are separators.
    #[error(
        "column \"{column}\" needs {needed} separators, the table has {available}: set SERDEPROPERTIES \
         'hive.serialization.extend.nesting.levels'='true' (24) or \
         'hive.serialization.extend.additional.nesting.levels'='true' (154)"
    )]
    NestingTooDeep {
        /// The column.
        column: String,
        /// Separators that its type takes, the field separator included.
        needed: usize,
        /// Separators that the table has.
        available: usize,
    },
    /// OpenCSVSerde knows only strings.
    #[error("column \"{column}\" is {found}: OpenCSVSerde makes every column a string; declare it string and cast")]
    NotAString {
        /// The column.
        column: String,
        /// Its type.
        found: String,
    },
}

impl From<HiveError> for TextError {
    fn from(error: HiveError) -> TextError {
        TextError::new(ErrorKind::Options, error.to_string())
    }
}
