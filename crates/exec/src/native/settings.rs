//! How a session wants its scans.

use datafusion::catalog::Session;

/// Variables of a session that scans act on; they travel in the plan's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanSettings {
    /// Tablets on object storage are split among workers.
    pub split_remote: bool,
    /// Tablets on local disk are.
    pub split_local: bool,
    /// Tablets are split also where there are enough of them.
    pub force_split: bool,
    /// What requests cost.
    pub cents_per_million_requests: u64,
}

impl Default for ScanSettings {
    fn default() -> Self {
        ScanSettings { split_remote: true, split_local: true, force_split: false, cents_per_million_requests: 40 }
    }
}

impl ScanSettings {
    /// Those of the session that plans.
    pub fn of(state: &dyn Session) -> Self {
        state.config().get_extension::<ScanSettings>().map(|s| s.as_ref().clone()).unwrap_or_default()
    }
}
