//! Loads that keep existing rows (LOAD DATA IGNORE): they add only rows whose keys the table does not have, and of
//! several rows with one key the first.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use dipper_load::Partial;
use dipper_store::table::Reads;
use dipper_text::Memory;
use parking_lot::Mutex;

use dipper_node::error::{EngineError, ErrorKind, Result};

/// Bytes of memory that a key takes besides its own.
const KEY_BYTES: usize = 48;

/// The keys of such a load. Only one thread at a time uses it, in the order of the body.
pub(crate) struct Unseen {
    table: Partial,
    keys: Mutex<Keys>,
}

struct Keys {
    seen: HashSet<Box<[u8]>>,
    memory: Arc<dyn Memory>,
    bytes: usize,
}

impl Drop for Keys {
    fn drop(&mut self) {
        self.memory.shrink(self.bytes);
    }
}

impl Unseen {
    /// Makes the keys of a load; `table` must be made for a load of all columns.
    pub(crate) fn new(table: Partial, memory: Arc<dyn Memory>) -> Self {
        Unseen { table, keys: Mutex::new(Keys { seen: HashSet::new(), memory, bytes: 0 }) }
    }

    /// Returns which rows are new. Blocking.
    pub(crate) fn choose(&self, batch: &RecordBatch) -> Result<BooleanArray> {
        let mut keys = self.keys.lock();
        let mut bytes = 0;
        let new = self.table.unseen(batch, |key| {
            let is_first = keys.seen.insert(key.into());
            bytes += if is_first { key.len() + KEY_BYTES } else { 0 };
            is_first
        })?;
        keys.memory.grow(bytes).map_err(|why| {
            EngineError::new(
                ErrorKind::Resources,
                format!("the keys of the load do not fit into memory, load fewer rows at a time: {why}"),
            )
        })?;
        keys.bytes += bytes;
        Ok(new)
    }

    /// Returns the check for the commit: no key of the load may have been added to the table meanwhile.
    pub(crate) fn reads(&self) -> Reads {
        Reads { rows: 0, ..self.table.reads() }
    }
}
