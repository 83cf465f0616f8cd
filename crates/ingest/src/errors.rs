//! Logs of the rejected rows of loads: one object per load below the data directory, so that every node can show it,
//! kept for 48 hours.

use std::sync::Arc;
use std::time::Duration;

use dipper_node::error::{EngineError, ErrorKind, Result};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};

use crate::answer::{LoadAnswer, RejectedRow};

/// Directory of the logs. A log's name is the time in milliseconds, as 13 digits, and 128 random bits: it tells the
/// log's age and cannot be guessed.
const DIRECTORY: &str = "errors";

/// Retention time of logs.
const KEPT: Duration = Duration::from_secs(48 * 3600);

/// Returns whether a name can be that of a log. A name from a client must never be taken for a path.
fn is_name(name: &str) -> bool {
    let Some((time, random)) = name.split_once('-') else { return false };
    time.len() == 13
        && random.len() == 32
        && time.bytes().all(|b| b.is_ascii_digit())
        && random.bytes().all(|b| b.is_ascii_hexdigit())
}

fn storage(e: &object_store::Error) -> EngineError {
    EngineError::new(ErrorKind::Storage, format!("cannot use the logs of rejected rows: {e}"))
}

/// Bytes of rejected rows that a load keeps for its log.
const KEPT_BYTES: usize = 32 << 20;

/// Rejected rows of a load, up to [`KEPT_BYTES`].
#[derive(Debug, Default)]
pub(crate) struct Kept {
    rows: Vec<RejectedRow>,
    bytes: usize,
}

impl Kept {
    pub(crate) fn has_room(&self) -> bool {
        self.bytes < KEPT_BYTES
    }

    pub(crate) fn push(&mut self, row: RejectedRow) {
        let column = row.column.as_ref().map_or(0, String::len);
        self.bytes += size_of::<RejectedRow>() + column + row.reason.len() + row.row.len();
        self.rows.push(row);
    }

    pub(crate) fn rows(&self) -> &[RejectedRow] {
        &self.rows
    }
}

/// Rejected rows that the answer itself shows.
const REJECTED_SHOWN: usize = 10;

/// Adds the first rejected rows to the answer, and writes a log of all of them, to which its error URL leads. If the
/// answer counts more rows than were kept, the log says how many are missing, so that nobody takes it for complete.
pub async fn keep_rejected(store: &Arc<dyn ObjectStore>, rejected: &[RejectedRow], answer: &mut LoadAnswer) {
    if rejected.is_empty() {
        return;
    }
    answer.rejected = rejected.iter().take(REJECTED_SHOWN).cloned().collect();
    let mut text: String = rejected.iter().map(RejectedRow::log_line).collect();
    text.extend(more_line(rejected.len() as u64, answer.filtered_rows));
    match keep(store, text).await {
        Ok(name) => answer.error_log = Some(name),
        Err(error) => tracing::warn!(%error, "the rejected rows of a load could not be kept"),
    }
    if let Err(error) = sweep(store).await {
        tracing::warn!(%error, "old logs of rejected rows could not be removed");
    }
}

/// Returns the last line of a log that lacks rejected rows; `None` if it is complete.
fn more_line(kept: u64, rejected: u64) -> Option<String> {
    let more = rejected.checked_sub(kept).filter(|more| *more > 0)?;
    Some(format!("{more} more rows were rejected: {kept} of {rejected} are shown here; \n"))
}

/// Writes a log; returns its name.
///
/// # Errors
/// `Storage` if the store cannot be written.
pub(crate) async fn keep(store: &Arc<dyn ObjectStore>, text: String) -> Result<String> {
    let now = chrono::Utc::now().timestamp_millis().max(0);
    let name = format!("{now:013}-{:032x}", rand::random::<u128>());
    let path = Path::from_iter([DIRECTORY, &name]);
    store.put(&path, PutPayload::from(text.into_bytes())).await.map_err(|e| storage(&e))?;
    Ok(name)
}

/// Returns the log of this name; `None` if there is none.
///
/// # Errors
/// `Storage` if the store cannot be read.
pub async fn read(store: &Arc<dyn ObjectStore>, name: &str) -> Result<Option<Vec<u8>>> {
    if !is_name(name) {
        return Ok(None);
    }
    match store.get(&Path::from_iter([DIRECTORY, name])).await {
        Ok(found) => Ok(Some(found.bytes().await.map_err(|e| storage(&e))?.to_vec())),
        Err(object_store::Error::NotFound { .. }) => Ok(None),
        Err(e) => Err(storage(&e)),
    }
}

/// Removes the logs that are older than 48 hours.
///
/// # Errors
/// `Storage` if the store cannot be listed or written.
pub(crate) async fn sweep(store: &Arc<dyn ObjectStore>) -> Result<()> {
    let oldest = chrono::Utc::now().timestamp_millis() - KEPT.as_millis() as i64;
    let listed: Vec<_> = store.list(Some(&Path::from(DIRECTORY))).try_collect().await.map_err(|e| storage(&e))?;
    for object in listed {
        let name = object.location.filename().unwrap_or_default();
        let old = is_name(name) && name[..13].parse::<i64>().is_ok_and(|t| t < oldest);
        if !old {
            continue;
        }
        match store.delete(&object.location).await {
            // Another node may have removed it.
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(e) => return Err(storage(&e)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_is_cut_says_so() {
        assert_eq!(more_line(3, 3), None);
        assert_eq!(more_line(3, 0), None);
        assert_eq!(
            more_line(1000, 1500).as_deref(),
            Some("500 more rows were rejected: 1000 of 1500 are shown here; \n")
        );
    }

    #[tokio::test]
    async fn logs_are_kept_and_swept() {
        let store: Arc<dyn ObjectStore> = Arc::new(object_store::memory::InMemory::new());
        let name = keep(&store, "Reason: x".into()).await.expect("kept");
        let old = format!("{:013}-{:032x}", 1_000, 7);
        store.put(&Path::from_iter([DIRECTORY, &old]), PutPayload::from("old")).await.expect("put");
        assert_eq!(read(&store, &old).await.expect("read").as_deref(), Some(&b"old"[..]));
        sweep(&store).await.expect("swept");
        assert_eq!(read(&store, &old).await, Ok(None));
        assert_eq!(read(&store, &name).await.expect("read").as_deref(), Some(&b"Reason: x"[..]));
        for foreign in ["", "x", "../catalog/v/1", "0000000000000-zz"] {
            assert_eq!(read(&store, foreign).await, Ok(None), "{foreign}");
        }
    }
}
