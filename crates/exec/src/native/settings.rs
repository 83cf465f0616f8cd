//! Settings of a session for its scans of native tables.

use datafusion::catalog::Session;

/// Session variables that scans obey. They travel in the plan's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanSettings {
    /// Whether tablets on object storage are split among workers.
    pub split_remote: bool,
    /// Whether tablets on the local disk are split among workers.
    pub split_local: bool,
    /// Whether tablets are split even where there are enough of them for all workers.
    pub force_split: bool,
    /// Price of requests to the object store, in cents per million.
    pub cents_per_million_requests: u64,
}

impl Default for ScanSettings {
    fn default() -> Self {
        ScanSettings { split_remote: true, split_local: true, force_split: false, cents_per_million_requests: 40 }
    }
}

impl ScanSettings {
    /// Returns the settings of the session that plans.
    pub fn of(state: &dyn Session) -> Self {
        state.config().get_extension::<ScanSettings>().map(|s| s.as_ref().clone()).unwrap_or_default()
    }
}
