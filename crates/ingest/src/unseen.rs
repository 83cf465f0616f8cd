//! Loads that leave what is there as it is (LOAD DATA IGNORE): of their rows those stay whose keys the table does not have, and
//! of several with one key the first.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::BooleanArray;
use arrow::record_batch::RecordBatch;
use dipper_load::Partial;
use dipper_store::table::Reads;
use dipper_text::Memory;
use parking_lot::Mutex;

use dipper_node::error::{EngineError, ErrorKind, Result};

/// Bytes that a key takes beside its own.
const KEY_BYTES: usize = 48;

/// The keys of such a load. One thread at a time asks, in the order of the body.
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
    /// `table` is made for a load of all columns.
    pub(crate) fn new(table: Partial, memory: Arc<dyn Memory>) -> Self {
        Unseen { table, keys: Mutex::new(Keys { seen: HashSet::new(), memory, bytes: 0 }) }
    }

    /// Which rows are new. Blocking.
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

    /// What the rows were computed from: no key of theirs may come to be there before they are.
    pub(crate) fn reads(&self) -> Reads {
        Reads { rows: 0, ..self.table.reads() }
    }
}
