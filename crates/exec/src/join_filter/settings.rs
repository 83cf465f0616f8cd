//! Settings of a session for join filters.

use std::any::Any;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::config_err;
use datafusion::error::Result;

/// Settings of a session for join filters. They travel in the plan's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinFilterSettings {
    /// Whether joins give filters to the scans of their probe side.
    pub enabled: bool,
}

impl Default for JoinFilterSettings {
    fn default() -> Self {
        JoinFilterSettings { enabled: true }
    }
}

impl ExtensionOptions for JoinFilterSettings {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        config_err!("{key} is a setting of the session and cannot be set here")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

impl ConfigExtension for JoinFilterSettings {
    const PREFIX: &'static str = "join_filter";
}
