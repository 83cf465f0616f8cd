//! States of aggregate functions in columns of type AGG_STATE: who reads them.
//!
//! The functions are those of the SQL crate, and rows with equal keys are merged in the store, which does not know SQL.
//! So the process says once, before it opens tables, who understands states ([`read_by`]); what merges and checks rows
//! asks for a reader of a column's type ([`reader`]).

use std::sync::OnceLock;

use crate::types::StateType;

/// Why a state cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct StateError(pub String);

/// What understands the states of one function.
pub trait States: Send {
    /// Checks that bytes are a state of the function.
    ///
    /// # Errors
    /// [`StateError`] if they are not.
    fn check(&mut self, state: &[u8]) -> Result<(), StateError>;

    /// Returns the state of all rows of these states.
    ///
    /// # Errors
    /// [`StateError`] if one of them is no state of the function, or all together have none, such as a sum that is out
    /// of range.
    fn unite(&mut self, states: &[&[u8]]) -> Result<Vec<u8>, StateError>;
}

/// Makes what understands the states of a function.
pub type Reader = fn(&StateType) -> Result<Box<dyn States>, StateError>;

static READER: OnceLock<Reader> = OnceLock::new();

/// Says who understands states.
pub fn read_by(reader: Reader) {
    // A second call changes nothing: a process has one set of functions.
    let _ = READER.set(reader);
}

/// Returns what understands the states of a function.
///
/// # Errors
/// [`StateError`] if the function does not exist or does not take such arguments, or if nobody in this process knows
/// functions.
pub fn reader(of: &StateType) -> Result<Box<dyn States>, StateError> {
    match READER.get() {
        Some(reader) => reader(of),
        None => Err(StateError(format!("nothing in this process reads states of {of}"))),
    }
}
