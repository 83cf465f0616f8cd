//! BEGIN, COMMIT, ROLLBACK, answered truthfully: every statement takes effect by itself, as with MySQL's
//! non-transactional tables, and a ROLLBACK that cannot take rows back says so (warning 1196).

use crate::error::Result;
use crate::result::Outcome;
use crate::session::Session;

/// `ER_WARNING_NOT_COMPLETE_ROLLBACK`.
const NOT_ROLLED_BACK: u16 = 1196;

pub(super) fn begin(session: &mut Session, reads_only: bool, label: Option<&str>) -> Result<Outcome> {
    if let Some(label) = label {
        session.warn(
            super::WARNING,
            format!(
                "label '{label}' has no effect: every statement takes effect by itself; a label belongs to one load \
                 (INSERT INTO ... WITH LABEL ...)"
            ),
        );
    }
    // SET TRANSACTION READ ONLY was for this one.
    session.reads_only = reads_only || session.reads_only && !session.in_transaction;
    session.in_transaction = true;
    session.wrote_in_transaction = false;
    Ok(Outcome::ok())
}

pub(super) fn commit(session: &mut Session, chain: bool) -> Result<Outcome> {
    session.in_transaction = chain;
    session.reads_only &= chain;
    session.wrote_in_transaction = false;
    Ok(Outcome::ok())
}

pub(super) fn rollback(session: &mut Session, chain: bool) -> Result<Outcome> {
    rollback_to(session)?;
    session.in_transaction = chain;
    session.reads_only &= chain;
    session.wrote_in_transaction = false;
    Ok(Outcome::ok())
}

/// ROLLBACK TO SAVEPOINT: the transaction goes on.
pub(super) fn rollback_to(session: &mut Session) -> Result<Outcome> {
    if session.wrote_in_transaction {
        session.warn(NOT_ROLLED_BACK, "Some non-transactional changed tables couldn't be rolled back");
    }
    Ok(Outcome::ok())
}
