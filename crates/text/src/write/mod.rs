//! Rows back to text: the readers of a dialect read the text that these writers write as the same rows.
//!
//! Both writers work a column at a time: the cells of a column are formatted into one buffer, with quotes, escapes and
//! NULL markers in place, then the columns are laid side by side row by row. A value that a dialect cannot express is
//! an error, which names column and value, if it would damage other fields; if not, the writer's documentation mentions
//! it.
//!
//! ```
//! use std::sync::Arc;
//! use arrow_array::{Int64Array, RecordBatch, StringArray};
//! use dipper_text::CsvDialect;
//! use dipper_text::write::CsvWriter;
//!
//! let batch = RecordBatch::try_from_iter([
//!     ("n", Arc::new(Int64Array::from(vec![Some(1), None])) as _),
//!     ("s", Arc::new(StringArray::from(vec!["a,b", ""])) as _),
//! ])?;
//! let mut writer = CsvWriter::try_new(Vec::new(), CsvDialect::default(), batch.schema())?;
//! writer.write(&batch)?;
//! assert_eq!(writer.finish()?, b"n,s\n1,\"a,b\"\n,\"\"\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cells;
mod csv;
mod hive;
mod json;
mod text;

pub use csv::CsvWriter;
pub use hive::HiveTextWriter;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use crate::error::{ErrorKind, TextError};

/// Checks that a batch has the columns that the writer was made for.
fn check_batch(schema: &Schema, batch: &RecordBatch) -> Result<(), TextError> {
    let types = |schema: &Schema| schema.fields().iter().map(|f| f.data_type().clone()).collect::<Vec<_>>();
    if types(schema) != types(batch.schema_ref()) {
        let reason =
            format!("the writer was made for columns {:?}, the batch has {:?}", types(schema), types(&batch.schema()));
        return Err(TextError::new(ErrorKind::Options, reason));
    }
    Ok(())
}
