//! Hive text, byte for byte as Hive 4.0.1 reads it.
//!
//! | module | question it answers |
//! |---|---|
//! | [`properties`] | what do SERDEPROPERTIES, TBLPROPERTIES and `SET` say about the files? |
//! | [`types`] | which Arrow type is `array<map<string,decimal(10,2)>>`, and back? |
//! | [`charset`] | what does `serialization.encoding` mean? |
//! | [`number`], [`datetime`], [`format`](mod@format) | what is the value of a field's bytes? |
//! | `split`, `opencsv` | how does a line that no single separator cuts become fields? |
//! | `column`, `nested`, `cut`, `base64` | how does a column of fields become an array? |

pub(crate) mod base64;
pub mod charset;
mod column;
mod cut;
pub mod datetime;
pub mod error;
pub mod format;
mod nested;
pub mod number;
mod opencsv;
pub mod properties;
mod split;
pub mod types;

pub use column::converter;
pub use error::HiveError;
pub use properties::{EXTENDED_BOOLEAN, PROPERTIES, separator_byte};
pub use split::line_splitter;
pub use types::{TYPE_KEY, hive_type, parse_type};
