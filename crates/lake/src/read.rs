//! `ReadContext`: everything of a statement that reading files and tables of other systems needs.

use std::fmt;
use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use dipper_node::files::FileAccess;
use dipper_node::files::listings::Listings;
use dipper_node::files::stores::Stores;
use dipper_store::segment::Readers;
use dipper_text::scan::Strings;

use crate::catalogs::Lake;

/// Everything of a statement that reading files and tables of other systems needs. A clone shares everything.
#[derive(Clone)]
pub struct ReadContext {
    /// External catalogs.
    pub lake: Arc<Lake>,
    /// Object stores.
    pub stores: Arc<Stores>,
    /// Local files that may be read.
    pub access: FileAccess,
    /// Files that the statement has listed.
    pub listings: Arc<Listings>,
    /// Open files.
    pub readers: Arc<Readers>,
    /// Makes a session state with the session's settings, for plans; it has no tables.
    pub session: Arc<dyn Fn() -> SessionState + Send + Sync>,
    /// Whether strings are read as views.
    pub string_view: bool,
    /// The session's time zone: an offset like `+08:00` or an IANA name.
    pub time_zone: String,
    /// Settings for Hive's text readers.
    pub hive_settings: [(String, String); 1],
}

impl ReadContext {
    /// Returns a session state with the session's settings, for plans; it has no tables.
    pub fn state(&self) -> SessionState {
        (self.session)()
    }

    /// Returns whether strings of text files are views into their blocks, or copies because
    /// [`string_view`](Self::string_view) is off.
    pub fn strings(&self) -> Strings {
        if self.string_view { Strings::View } else { Strings::Copy }
    }
}

impl fmt::Debug for ReadContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadContext").finish_non_exhaustive()
    }
}
