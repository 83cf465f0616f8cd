//! Loads as far as they need sessions and SQL. The processing of their bytes is in [`dipper_ingest`].
//!
//! | module | question it answers |
//! |---|---|
//! | `sessions` | how do loads begin and end for the users of the engine? |
//! | `shape` | how do rows of a body become rows of the table? |
//! | `http_stream`, `body_table` | how does an INSERT read a body? |
//! | [`infile`] | what does `LOAD DATA` ask for, and how do its bytes come? |

pub(crate) mod body_table;
pub(crate) mod http_stream;
pub mod infile;
mod sessions;
mod shape;

use dipper_ingest::request::{Format, StreamLoadRequest};
use dipper_lake::times::Times;

pub use dipper_ingest::job::{LoadJob, LoadSpec};
pub use dipper_ingest::{answer, body, records, request, transactions, two_phase};
pub use http_stream::http_stream;
pub(crate) use shape::Expressions;

/// Returns how times are read as text, if the load has a time zone and reads text.
fn times(zone: &str, request: &StreamLoadRequest) -> Option<Times> {
    let empty_is_null = match request.format {
        // `""` is how exports that quote everything write a missing time.
        Format::Csv { .. } => request.csv.enclose.is_some() || request.csv.trim_double_quotes,
        Format::Json | Format::HiveText => false,
        // Times in these formats carry their own meaning.
        Format::Parquet | Format::Arrow => return None,
    };
    Times::in_zone(zone, empty_is_null)
}
