//! What reading files and tables of others needs of a statement.

use std::fmt;
use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use dipper_node::files::FileAccess;
use dipper_node::files::listings::Listings;
use dipper_node::files::stores::Stores;
use dipper_store::segment::Readers;
use dipper_text::scan::Strings;

use crate::catalogs::Lake;

/// What reading files and tables of others needs of a statement. A clone shares everything.
#[derive(Clone)]
pub struct ReadContext {
    /// External catalogs.
    pub lake: Arc<Lake>,
    /// Object stores.
    pub stores: Arc<Stores>,
    /// Which local files may be read.
    pub access: FileAccess,
    /// What the statement has listed.
    pub listings: Arc<Listings>,
    /// Open files.
    pub readers: Arc<Readers>,
    /// Makes the settings of the session for plans, without tables.
    pub session: Arc<dyn Fn() -> SessionState + Send + Sync>,
    /// Texts are read as views.
    pub string_view: bool,
    /// The session's zone: an offset as `+08:00` or an IANA name.
    pub time_zone: String,
    /// Settings that Hive's text readers ask for.
    pub hive_settings: [(String, String); 1],
}

impl ReadContext {
    /// The settings of the session for plans, without tables.
    pub fn state(&self) -> SessionState {
        (self.session)()
    }

    /// Views into the blocks of text files, or copies where [`string_view`](Self::string_view) is off.
    pub fn strings(&self) -> Strings {
        if self.string_view { Strings::View } else { Strings::Copy }
    }
}

impl fmt::Debug for ReadContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadContext").finish_non_exhaustive()
    }
}
