//! Hive text, byte for byte as Hive 4.0.1 reads it.
//!
//! | module | question it answers |
//! |---|---|
//! | [`properties`] | what do SERDEPROPERTIES, TBLPROPERTIES and `SET` say about the files? |
//! | [`types`] | which Arrow type is `array<map<string,decimal(10,2)>>`, and back? |
//! | [`charset`] | what does `serialization.encoding` mean? |

pub mod charset;
pub mod datetime;
pub mod error;
pub mod format;
pub mod number;
pub mod properties;
pub mod types;

pub use error::HiveError;
pub use properties::separator_byte;
pub use types::{TYPE_KEY, hive_type, parse_type};
