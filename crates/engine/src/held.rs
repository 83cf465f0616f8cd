//! What sessions hold between statements: prepared statements and user variables, counted, so that no client fills memory
//! with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::error::{EngineError, ErrorKind, Result};
use crate::session::Session;

/// Bytes of text and values that one session may hold.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Something that a session holds, given back when it is dropped.
#[derive(Debug)]
pub struct Held {
    bytes: usize,
    of: Arc<AtomicUsize>,
    /// The count of prepared statements that it is in.
    statements: Option<Arc<AtomicU64>>,
}

impl Held {
    /// Counts these bytes in place of those before.
    ///
    /// # Errors
    /// They are too many; those from before stay counted.
    fn set_bytes(&mut self, bytes: usize) -> Result<()> {
        if self.of.load(Ordering::Relaxed) - self.bytes + bytes > HELD_BYTES_MAX {
            return Err(too_much(bytes));
        }
        self.of.fetch_add(bytes, Ordering::Relaxed);
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.of.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some(statements) = &self.statements {
            statements.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Session {
    /// Counts a statement that is prepared; it is held as long as what is returned.
    ///
    /// # Errors
    /// All sessions together hold `max_prepared_stmt_count` statements (1461), or this one as many bytes as it may.
    pub fn hold_statement(&self, text: &str) -> Result<Held> {
        let statements = Arc::clone(&self.engine.prepared);
        let most = self.engine.globals.number("max_prepared_stmt_count");
        if statements.fetch_add(1, Ordering::Relaxed) >= most {
            statements.fetch_sub(1, Ordering::Relaxed);
            return Err(EngineError {
                code: 1461,
                sqlstate: "42000",
                ..EngineError::new(
                    ErrorKind::Resources,
                    format!(
                        "Can't create more than max_prepared_stmt_count statements (current value: {most}); close some, or SET \
                         GLOBAL max_prepared_stmt_count"
                    ),
                )
            });
        }
        // Counted from here on, also where the bytes are refused.
        let mut held = Held { bytes: 0, of: Arc::clone(&self.held), statements: Some(statements) };
        held.set_bytes(text.len())?;
        Ok(held)
    }

    /// Counts the bytes of all user variables, in place of those that were counted before.
    ///
    /// # Errors
    /// They are too many; those from before stay counted.
    pub(crate) fn hold_variables(&mut self, bytes: usize) -> Result<()> {
        let none = || Held { bytes: 0, of: Arc::clone(&self.held), statements: None };
        self.held_variables.get_or_insert_with(none).set_bytes(bytes)
    }
}

fn too_much(bytes: usize) -> EngineError {
    EngineError::new(
        ErrorKind::Resources,
        format!(
            "{bytes} bytes more: a session may hold {} MiB of prepared statements and user variables; close statements \
             (DEALLOCATE PREPARE), or set variables to NULL",
            HELD_BYTES_MAX >> 20
        ),
    )
}
