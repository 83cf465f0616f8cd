//! What users may do a limited number of times in an hour: statements, changes and logins.
//!
//! Properties of the user's name set the limits. Each process counts for itself.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use dipper_exec::quota::{MAX_USER_CONNECTIONS, exceeded, limit};
use dipper_store::catalog::access::Accounts;
use parking_lot::Mutex;

use crate::error::Result;

/// How long what was counted is remembered.
const HOUR: Duration = Duration::from_secs(3600);

/// What a user may do so often in an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Hourly {
    /// Statements of any kind.
    Queries,
    /// Statements and loads that change tables or what is known of them.
    Updates,
    /// Logins by MySQL's protocol.
    Connections,
}

impl Hourly {
    /// The property of a user that limits it.
    pub(crate) const fn property(self) -> &'static str {
        match self {
            Hourly::Queries => "max_queries_per_hour",
            Hourly::Updates => "max_updates_per_hour",
            Hourly::Connections => "max_connections_per_hour",
        }
    }
}

/// The properties that CREATE USER sets behind WITH.
pub(crate) const BEHIND_WITH: [&str; 4] =
    [Hourly::Queries.property(), Hourly::Updates.property(), Hourly::Connections.property(), MAX_USER_CONNECTIONS];

/// What users with such limits have done in the hour that began with the first of it.
#[derive(Debug, Default)]
pub(crate) struct Hours(Mutex<HashMap<(String, Hourly), Hour>>);

#[derive(Debug)]
struct Hour {
    begun: Instant,
    times: u64,
}

impl Hours {
    /// Counts one more.
    ///
    /// # Errors
    /// There were as many as there may be (1226).
    pub(crate) fn spend(&self, accounts: &Accounts, user: &str, what: Hourly) -> Result<()> {
        match limit(accounts, user, what.property()) {
            Some(most) => self.spend_at(user, what, most, Instant::now()),
            None => Ok(()),
        }
    }

    fn spend_at(&self, user: &str, what: Hourly, most: u64, now: Instant) -> Result<()> {
        let mut hours = self.0.lock();
        let hour = hours.entry((user.to_string(), what)).or_insert(Hour { begun: now, times: 0 });
        if now.saturating_duration_since(hour.begun) >= HOUR {
            *hour = Hour { begun: now, times: 0 };
        }
        if hour.times >= most {
            return Err(exceeded(user, what.property(), most, "wait until the hour is over"));
        }
        hour.times += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_done_an_hour_ago_does_not_count() {
        let (hours, begun) = (Hours::default(), Instant::now());
        let spend = |what, minutes: u64| hours.spend_at("u", what, 2, begun + Duration::from_secs(60 * minutes));
        spend(Hourly::Queries, 0).unwrap();
        spend(Hourly::Queries, 59).unwrap();
        let refused = spend(Hourly::Queries, 59).unwrap_err();
        assert_eq!(refused.code, 1226);
        assert!(refused.message.contains("'max_queries_per_hour' resource (current value: 2)"), "{refused}");
        spend(Hourly::Updates, 59).unwrap();
        spend(Hourly::Queries, 60).unwrap();
        spend(Hourly::Queries, 61).unwrap();
        spend(Hourly::Queries, 119).unwrap_err();
    }
}
